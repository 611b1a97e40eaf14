"""Two sides of runs, their ratios, and the sentence that says what they prove."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whodisk import words
from whodisk.errors import WhodiskError
from whodisk.experiment import metrics as names
from whodisk.experiment.measure import Measured, common_layer, measure
from whodisk.reading.views import STAGES
from whodisk.statistics.repeated import (
    BINS_PER_OCTAVE,
    CONFIDENCE,
    Metric,
    Ratio,
    called,
    compare,
    episodes_beyond,
)

#: Version of the JSON.
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Side:
    """Runs of one kind."""

    name: str
    runs: list[Measured]

    @property
    def operations(self) -> int:
        """Reads and writes of all runs."""
        return sum(run.operations for run in self.runs)

    @property
    def in_flight(self) -> float:
        """Operations in flight on average."""
        return sum(run.in_flight * run.seconds for run in self.runs) / sum(run.seconds for run in self.runs)


@dataclass(frozen=True)
class Comparison:
    """One side against another; the first ratio is of the metric that was asked for."""

    first: Side
    second: Side
    ratios: list[Ratio]
    #: Which of them are called a difference.
    called: list[bool]
    #: Level of the first metric's interval; of all others `CONFIDENCE`.
    level: float
    paired: bool

    @property
    def primary(self) -> Ratio:
        """The ratio that the sentence is about."""
        return self.ratios[0]

    @property
    def these_runs_only(self) -> bool:
        """Whether it speaks of these runs only: a side has fewer than three."""
        return self.primary.these_runs_only


def sides_of(paths: Sequence[Path], ready: Callable[[Path], Path]) -> list[tuple[str, list[Path]]]:
    """Each path as a side: a case, or a directory with cases as folders. `ready` seals a case.

    Raises WhodiskError for what is neither.
    """
    found = []
    for path in paths:
        if not path.exists():
            raise WhodiskError(
                f"{path}: expected a case, or a directory of cases, found nothing there; check the path"
            )
        inside = (
            [path] if (path / "case.json").exists() else sorted(p.parent for p in path.glob("*/case.json"))
        )
        if not inside:
            raise WhodiskError(
                f"{path}: expected a case (a directory with case.json) or a directory of cases, found neither; check the path"
            )
        found.append((path, [ready(one) for one in inside]))
    names_ = _names([path for path, _ in found])
    return [(name, cases) for name, (_, cases) in zip(names_, found, strict=True)]


def _names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path; as many more as it takes to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        short = ["/".join(one[-length:]) for one in parts]
        if len(set(short)) == len(set(parts)):
            return short
    return [str(path) for path in paths]


def read_sides(
    found: Sequence[tuple[str, list[Path]]], layer: str | None = None, *, settle: bool = False
) -> list[Side]:
    """Measures every case, all in the same layer."""
    chosen = common_layer([path for _, paths in found for path in paths], layer)
    return [Side(name, [measure(path, chosen, settle=settle) for path in paths]) for name, paths in found]


def primary_metric(sides: Sequence[Side]) -> str:
    """What to look at first if nobody said: throughput; at a fixed rate, which no device changes, the 99th percentile."""
    fixed = any(run.about.get("offered_per_s") for side in sides for run in side.runs)
    return "p99" if fixed else "iops"


def compared(
    first: Side,
    second: Side,
    wanted: Sequence[str] = (),
    *,
    paired: bool = False,
    level: float = CONFIDENCE,
) -> Comparison:
    """Compares two sides by `wanted` metrics, the first of which is the one that is asked about, and by all usual ones."""
    asked = [names.metric(name) for name in wanted] or [names.metric(primary_metric([first, second]))]
    stages = [s for s in STAGES if any(s in run.stages for run in (*first.runs, *second.runs))]
    metrics = asked + [m for m in names.usual(stages) if m.name not in {one.name for one in asked}]
    metrics += [m for m in _by_kind(first, second) if m.name not in {one.name for one in metrics}]
    ratios: list[Ratio | None] = [None] * len(metrics)
    for kind in dict.fromkeys(_kind(metric) for metric in metrics):
        mine = [i for i, metric in enumerate(metrics) if _kind(metric) == kind]
        # Only the metric that is asked about may have ended the experiment.
        own = level if 0 in mine else CONFIDENCE
        found = _of_kind(first, second, kind, [metrics[i] for i in mine], paired, own)
        for i, ratio in zip(mine, found, strict=True):
            ratios[i] = ratio
    known = [ratio for ratio in ratios if ratio is not None]
    return Comparison(first, second, known, called(known, level), level, paired)


def _kind(metric: Metric) -> str:
    word = metric.name.split(" ")[0]
    return word if word in names.KINDS else ""


def _by_kind(first: Side, second: Side) -> list[Metric]:
    """Throughput and quantiles of each kind of operation that all runs have, where reads and writes together do not say it: syncs are not among them."""
    runs = (*first.runs, *second.runs)
    shared = [kind for kind in names.KINDS if all(kind in run.kinds for run in runs)]
    if len(shared) < 2:
        return []
    return [names.metric_of(name, kind) for kind in shared for name in ("iops", *names.QUANTILES)]


def _of_kind(
    first: Side, second: Side, kind: str, metrics: list[Metric], paired: bool, level: float
) -> list[Ratio]:
    for side in (first, second):
        for run in side.runs:
            lacking = kind not in run.kinds or next(
                (m.total for m in metrics if m.total and m.total not in run.kinds[kind].run.totals), None
            )
            if lacking:
                what = f"{kind}s" if kind and lacking is True else f"{lacking}"
                raise WhodiskError(
                    f"{run.path}: expected {what} in layer {run.layer}, found none; choose another metric, or record what it needs"
                )
    runs = [[run.kinds[kind].run for run in side.runs] for side in (first, second)]
    counted = (side_episodes(first, kind, metrics), side_episodes(second, kind, metrics))
    return compare(runs[0], runs[1], metrics, paired=paired, episodes=counted, level=level)


def side_episodes(side: Side, kind: str, metrics: Sequence[Metric]) -> dict[str, int]:
    """Separate episodes beyond each quantile of a side, by the metric's name; beyond a lower one at least as many as beyond a higher one."""
    parts = [run.kinds[kind] for run in side.runs]
    bins = np.concatenate([part.run.bin for part in parts])
    number = np.concatenate([part.run.number for part in parts])
    order = np.argsort(bins, kind="stable")
    passed = np.cumsum(number[order])
    found: dict[str, int] = {}
    most = 0
    quantiles = [m for m in metrics if m.quantile is not None]
    for metric in sorted(quantiles, key=lambda m: -(m.quantile or 0)):
        at = int(np.searchsorted(passed, (metric.quantile or 0) * passed[-1]))
        limit = 2.0 ** (int(bins[order][min(at, len(order) - 1)]) / BINS_PER_OCTAVE)
        most = max(
            most, sum(episodes_beyond(part.slow_start_ns, part.slow_latency_ns, limit) for part in parts)
        )
        found[metric.name] = most
    return found


# -- words ------------------------------------------------------------------------------------


def claim(comparison: Comparison) -> str:
    """What it proves, without figures of how sure: a headline."""
    ratio, first, second = comparison.primary, comparison.first.name, comparison.second.name
    name = title(ratio.metric, comparison)
    if not ratio.is_known:
        return f"{name}: {ratio.missing}; nothing can be said of {second} against {first}."
    where = " in these runs" if comparison.these_runs_only else ""
    if not comparison.called[0]:
        return f"No difference beyond noise{where} in {name} of {second} against {first}."
    more = "higher" if ratio.ratio > 1 else "lower"
    return f"{name} of {second} is {words.percent(abs(ratio.ratio - 1))} {more} than that of {first}{where}."


def sentence(comparison: Comparison) -> str:
    """What it proves, with its interval and what else differs, in one or two sentences."""
    ratio, first, second = comparison.primary, comparison.first.name, comparison.second.name
    name = title(ratio.metric, comparison)
    if not ratio.is_known:
        return claim(comparison)
    interval = f"{words.significant(ratio.low)} to {words.significant(ratio.high)} times"
    if comparison.called[0]:
        text = (
            f"{claim(comparison).removesuffix('.')}: {names.said(ratio.metric, ratio.second)} against "
            f"{names.said(ratio.metric, ratio.first)}, {interval} (95 %)."
        )
    else:
        where = " in these runs" if comparison.these_runs_only else ""
        text = (
            f"No difference beyond noise{where}: {name} of {second} is {words.significant(ratio.ratio)} times that of {first} "
            f"({interval}, 95 %); a change of {words.percent(ratio.smallest_effect)} would have been seen."
        )
    others = [
        f"{title(r.metric, comparison)} x{words.significant(r.ratio)}"
        for r, is_called in zip(comparison.ratios[1:], comparison.called[1:], strict=True)
        if is_called
    ]
    return text + (f" Different, too: {words.listed(others[:6])}." if others else "")


def title(metric: Metric, comparison: Comparison) -> str:
    """The metric's name for people; a stage by the name that its observer gives it."""
    short = metric.name.split(" ")[-1]
    if short not in STAGES:
        return {"iops": "throughput"}.get(metric.name, metric.name)
    run = comparison.second.runs[0]
    return metric.name.replace(short, f"stage {run.stage_names.get(short, short)}")


def cautions(comparison: Comparison) -> list[str]:
    """What stands beside the numbers: runs that were not steady, models, different kernels."""
    return cautions_of([comparison.first, comparison.second], comparison.these_runs_only)


def cautions_of(sides: Sequence[Side], these_runs_only: bool) -> list[str]:
    """The same of any number of sides."""
    said = []
    runs = [run for side in sides for run in side.runs]
    unsteady = sum(run.steady is False for run in runs)
    if unsteady:
        said.append(f"{unsteady} of {words.things(len(runs), 'run')} not in a steady state (SNIA)")
    if modelled := [side.name for side in sides if side.runs and side.runs[0].simulated]:
        said.append(f"from a model: {words.listed(modelled)}")
    if these_runs_only:
        said.append(
            "fewer than three runs on a side: it speaks of these runs only, not of what another run would show"
        )
    if len(kernels := {str(run.about.get("kernel")) for run in runs}) > 1:
        said.append(f"different kernels: {', '.join(sorted(kernels))}")
    return said


# -- JSON -------------------------------------------------------------------------------------


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain data; numbers that are not known are None."""
    return {
        "first": side_to_dict(comparison.first),
        "second": side_to_dict(comparison.second),
        "sentence": sentence(comparison),
        "level": comparison.level,
        "paired": comparison.paired,
        "these_runs_only": comparison.these_runs_only,
        "cautions": cautions(comparison),
        "metrics": [
            ratio_to_dict(ratio) | {"different": is_called}
            for ratio, is_called in zip(comparison.ratios, comparison.called, strict=True)
        ],
    }


def side_to_dict(side: Side) -> dict[str, Any]:
    """Its runs, and what stands beside the numbers."""
    return {
        "name": side.name,
        "operations": side.operations,
        "in_flight": finite(side.in_flight),
        "runs": [
            {
                "case": str(run.path),
                "layer": run.layer,
                "seconds": run.seconds,
                "operations": run.operations,
                "in_flight": finite(run.in_flight),
                "steady": run.steady,
                "left_out_s": run.left_out_s,
                "simulated": run.simulated,
                **run.about,
            }
            for run in side.runs
        ],
    }


def ratio_to_dict(ratio: Ratio) -> dict[str, Any]:
    """One ratio."""
    data = dataclasses.asdict(ratio)
    metric = data.pop("metric")
    plain = {key: finite(value) if isinstance(value, float) else value for key, value in data.items()}
    return {"metric": metric["name"], "higher_is_better": metric["higher_is_better"], **plain}


def finite(value: float) -> float | None:
    """Nine digits; None for what is no number."""
    return float(f"{value:.9g}") if math.isfinite(value) else None


def to_json(comparisons: Sequence[Comparison]) -> str:
    """What `whodisk compare --json` prints."""
    data = {"schema": SCHEMA_VERSION, "comparisons": [to_dict(comparison) for comparison in comparisons]}
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
