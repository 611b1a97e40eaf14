"""Whether a case is worse than its baseline by more than allowed: for CI."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whodisk import words
from whodisk.errors import WhodiskError
from whodisk.experiment import metrics as names
from whodisk.experiment.comparison import SCHEMA_VERSION, Comparison, Side, compared, ratio_to_dict, title
from whodisk.findings import Verdict
from whodisk.statistics.repeated import Ratio

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"


@dataclass(frozen=True)
class Check:
    """One requirement and how the case did."""

    #: The metric, or "no DETECTOR".
    what: str
    outcome: str
    sentence: str
    ratio: Ratio | None = None


@dataclass(frozen=True)
class Gate:
    """All requirements."""

    limit: float
    checks: list[Check]

    @property
    def outcome(self) -> str:
        """The worst of them."""
        outcomes = {check.outcome for check in self.checks}
        return next(outcome for outcome in (FAIL, INCONCLUSIVE, PASS) if outcome in outcomes)


def limit_of(text: str) -> float:
    """0.05 for `5%`. Raises WhodiskError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if not match:
        raise WhodiskError(
            f"--max-regression '{text}': expected a part in percent such as 5%, found something else"
        )
    return float(match[1]) / 100


def split_metrics(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Metrics, and detectors that must find nothing ("no uncached_tail")."""
    absent = [text.split()[1] for text in wanted if re.fullmatch(r"\s*no\s+\w+\s*", text)]
    return [text for text in wanted if not re.fullmatch(r"\s*no\s+\w+\s*", text)], absent


def check_metrics(
    base: Side, case: Side, wanted: Sequence[str], limit: float
) -> tuple[list[Check], Comparison]:
    """One check per metric, in the order asked for."""
    comparison = compared(base, case, wanted)
    number = max(1, len(wanted))
    checks = [_check(ratio, comparison, limit) for ratio in comparison.ratios[:number]]
    return checks, comparison


def _check(ratio: Ratio, comparison: Comparison, limit: float) -> Check:
    name = title(ratio.metric, comparison)
    only = " in these runs" if ratio.these_runs_only else ""
    if ratio.missing in ("zero on one side", "zero on both sides"):
        return _zero(ratio, name, only)
    if not ratio.is_known:
        return Check(ratio.metric.name, INCONCLUSIVE, f"{name}: {ratio.missing}", ratio)
    # How many times worse: over 1 is worse, whatever the metric's good direction.
    better = ratio.metric.higher_is_better
    low, high = (1 / ratio.high, 1 / ratio.low) if better else (ratio.low, ratio.high)
    # Throughput that falls by 5 % is 1 / 0.95 times worse.
    allowed = 1 / (1 - limit) if better else 1 + limit
    outcome = FAIL if low > allowed else PASS if high <= allowed else INCONCLUSIVE
    change = words.percent(abs(1 - ratio.ratio))
    direction = "the same" if ratio.ratio == 1 else f"{change} {'higher' if ratio.ratio > 1 else 'lower'}"
    interval = f"{words.significant(ratio.low)} to {words.significant(ratio.high)} times, 95 %"
    said = f"{name}: {direction}{only} ({interval}), {names.said(ratio.metric, ratio.first)} -> {names.said(ratio.metric, ratio.second)}"
    if outcome == INCONCLUSIVE:
        said += "; the interval holds the limit: more runs would decide"
    return Check(ratio.metric.name, outcome, said, ratio)


def _zero(ratio: Ratio, name: str, only: str) -> Check:
    """One side has none of it at all: no ratio, but an answer."""
    said = (
        f"{name}: {names.said(ratio.metric, ratio.first)} -> {names.said(ratio.metric, ratio.second)}{only}"
    )
    if ratio.missing == "zero on both sides":
        return Check(ratio.metric.name, PASS, said, ratio)
    worse = (ratio.second > 0) != ratio.metric.higher_is_better
    return Check(ratio.metric.name, FAIL if worse else PASS, said, ratio)


def check_absent(
    detectors: Sequence[str], paths: Sequence[Path], solve: Callable[[Path], Verdict]
) -> list[Check]:
    """One check per detector that must find nothing in any of the cases."""
    from whodisk.detectors import DETECTORS

    known = {detector.name for detector in DETECTORS}
    checks = []
    for name in detectors:
        if name not in known:
            raise WhodiskError(
                f"--metric 'no {name}': expected a detector ({', '.join(sorted(known))}), found none of this name"
            )
    verdicts = [(path, solve(path)) for path in paths] if detectors else []
    for name in detectors:
        found = [(path, f) for path, verdict in verdicts for f in verdict.findings if f.detector == name]
        blind = [path for path, verdict in verdicts if verdict.status == "insufficient"]
        masked = [path for path, verdict in verdicts if verdict.served_from == "ram"]
        if found:
            path, finding = found[0]
            checks.append(Check(f"no {name}", FAIL, f"no {name}: found in {path.name}: {finding.claim}"))
        elif blind:
            checks.append(
                Check(
                    f"no {name}",
                    INCONCLUSIVE,
                    f"no {name}: {blind[0].name} holds too little to say ('insufficient')",
                )
            )
        elif masked:
            said = (
                f"no {name}: not found, but memory served what {masked[0].name} read: it cannot show the disk"
            )
            checks.append(Check(f"no {name}", INCONCLUSIVE, said))
        else:
            checks.append(
                Check(f"no {name}", PASS, f"no {name}: not found in {words.things(len(paths), 'case')}")
            )
    return checks


def to_json(gate: Gate) -> str:
    """What `whodisk gate --json` prints."""
    checks: list[dict[str, Any]] = [
        {
            "what": check.what,
            "outcome": check.outcome,
            "sentence": check.sentence,
            **({"ratio": ratio_to_dict(check.ratio)} if check.ratio else {}),
        }
        for check in gate.checks
    ]
    data = {"schema": SCHEMA_VERSION, "outcome": gate.outcome, "max_regression": gate.limit, "checks": checks}
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
