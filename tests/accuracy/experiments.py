"""How well intervals of experiments hold: made runs with a known ratio, stopping rule included; `make accuracy ARGS='experiments'`."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.accuracy.referee.intervals import wilson
from tests.accuracy.scenarios import ROOT, commit
from tests.experiment_worlds import METRICS, WORLDS, Drawn, World, draw, side_episodes
from whodisk.statistics.repeated import called, compare
from whodisk.statistics.stopping import Rule, enough

OUTPUT = ROOT / "docs/reference/accuracy-experiments.md"
#: The ratio that is to be found.
RATIO = 1.1
#: Stops at a half-width of 4 %, after 5 to 12 rounds.
RULE = Rule(0.04, 5, 12)
#: Bars (DESIGN 10), percent.
COVERED = (93.0, 97.0)
CALLED_MAX = 6.5


@dataclass(frozen=True)
class Outcome:
    """One experiment."""

    #: Metric -> whether its interval holds the true ratio; only of those that could be estimated.
    covered: dict[str, bool]
    #: Whether any difference was called.
    called: bool
    rounds: int


def trial(world: World, seed: int, ratio: float, rule: Rule) -> Outcome:
    """Runs rounds of two arms until the rule says so, as an experiment does."""
    generator = np.random.default_rng([seed, round(1000 * ratio)])
    first: list[Drawn] = []
    second: list[Drawn] = []
    while True:
        effect = generator.normal(0, world.rounds_spread)
        first.append(draw(world, generator, effect, 1.0))
        second.append(draw(world, generator, effect, ratio))
        if len(first) < rule.least:
            continue
        runs = [one.run for one in first], [one.run for one in second]
        if enough(rule, len(first), compare(*runs, METRICS[:1], paired=True, level=rule.level)):
            break
    counted = side_episodes(first), side_episodes(second)
    ratios = compare(*runs, METRICS, paired=True, episodes=counted, level=rule.level)
    covered = {
        r.metric.name: r.low <= (1 / ratio if r.metric.higher_is_better else ratio) <= r.high
        for r in ratios
        if r.is_known
    }
    return Outcome(covered, any(called(ratios, rule.level)), len(first))


def main(arguments: Sequence[str]) -> int:
    """Command line; exit code 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="make accuracy ARGS='experiments'", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="per world and ratio [1000]")
    parser.add_argument(
        "--worlds", nargs="+", choices=[w.name for w in WORLDS], default=[w.name for w in WORLDS]
    )
    parser.add_argument(
        "--state", type=Path, default=ROOT / "build" / "experiments.jsonl", help="kept results"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="stop after this long; the next call goes on"
    )
    options = parser.parse_args(arguments)
    options.state.parent.mkdir(parents=True, exist_ok=True)
    kept = (
        [json.loads(line) for line in options.state.read_text().splitlines()]
        if options.state.exists()
        else []
    )
    have = {(row["world"], row["ratio"], row["seed"]) for row in kept}
    end = time.monotonic() + options.seconds
    with options.state.open("a", encoding="utf-8") as file:
        for world in (w for w in WORLDS if w.name in options.worlds):
            for ratio in (RATIO, 1.0):
                for seed in (s for s in range(options.trials) if (world.name, ratio, s) not in have):
                    if time.monotonic() > end:
                        print("stopped; the same command goes on", flush=True)
                        return 0
                    outcome = trial(world, seed, ratio, RULE)
                    row = {"world": world.name, "ratio": ratio, "seed": seed, **asdict(outcome)}
                    kept.append(row)
                    file.write(json.dumps(row) + "\n")
                    file.flush()
    text, met = document([row for row in kept if row["seed"] < options.trials])
    options.output.write_text(text, encoding="utf-8")
    print(text)
    return 0 if met else 1


def document(rows: list[dict[str, Any]]) -> tuple[str, bool]:
    """The page, and whether every bar is met."""
    table, met = [], True
    for world in WORLDS:
        known = [row for row in rows if row["world"] == world.name and row["ratio"] == RATIO]
        same = [row for row in rows if row["world"] == world.name and row["ratio"] == 1.0]
        if not known or not same:
            continue
        cells = []
        for metric in METRICS:
            held = [row["covered"][metric.name] for row in known if metric.name in row["covered"]]
            share = 100 * float(np.mean(held)) if held else 0.0
            if not held:
                cells.append("not estimable")
                continue
            is_met = COVERED[0] <= share <= COVERED[1]
            met &= is_met or len(held) < 0.9 * len(known)
            cells.append(
                (f"{share:.1f}" if is_met else f"**{share:.1f}**")
                + (f" of {len(held)}" if len(held) < len(known) else "")
            )
        calls = sum(row["called"] for row in same)
        share = 100 * calls / len(same)
        met &= share <= CALLED_MAX
        high = 100 * wilson(calls, len(same)).high
        rounds = float(np.mean([row["rounds"] for row in known]))
        table.append(
            f"| {world.name} | {len(known)} | {rounds:.1f} | {' | '.join(cells)} | {share:.1f} (at most {high:.1f}) |"
        )
    names = " | ".join(metric.name for metric in METRICS)
    lines = [
        "# Intervals of experiments, on made runs",
        "",
        f"`make accuracy ARGS='experiments'`, commit {commit()}, {platform.machine()}, Python {platform.python_version()}.",
        "",
        f"Each trial is a whole experiment: two arms in rounds, of which the second takes {RATIO} times as long; the true ratio of every metric is known. "
        f"It ends when the interval of iops reaches {100 * (RULE.half_width or 0):g} % to each side or after {RULE.most} rounds, so the stopping rule is included. "
        f"Numbers are the percentage of trials whose 95 % interval holds the truth (bar: {COVERED[0]:g} to {COVERED[1]:g}; outside: bold). The last "
        f"column is of as many trials with two equal arms: in how many any difference was called, of any metric (bar: at most {CALLED_MAX:g} %; in brackets the "
        "upper end of its own 95 % interval). p99.99 has too few episodes in runs this short: most trials call it not estimable.",
        "",
        f"| world | trials | rounds | {names} | equal arms called different |",
        "|---|---|---|" + "---|" * len(METRICS) + "---|",
        *table,
        "",
        "The worlds (tests/experiment_worlds.py) hang together in time, have bursts that many operations share, and differ from run to run and from round to round:",
        "",
        "| world | correlation of neighbouring seconds | their spread | runs | rounds | single operations | bursts per second | in a burst |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {w.name} | {w.correlation:g} | {w.moments_spread:g} | {w.runs_spread:g} | {w.rounds_spread:g} | {w.spread:g} | {w.bursts:g} | about {1 + w.burst_factor / 2:g} times as long |"
            for w in WORLDS
        ),
        "",
        "Spreads are standard deviations of the logarithm of latency.",
    ]
    return "\n".join(lines) + "\n", met
