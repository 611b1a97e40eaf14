"""What a log of summaries says of latencies: percentiles of a run, or of its intervals, of programs and of devices that say no more."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from whodisk import words
from whodisk.evidence.thresholds import (
    ACCOUNT_DEVICES_MAX,
    ACCOUNT_DEVICES_TOLD,
    ACCOUNT_KINDS_TOLD,
)
from whodisk.reading.views import Case

#: `read_latency_p99_ns`, `run_latency_max_ns`, `latency_ns` (the mean).
METRIC = re.compile(r"(?:(?P<kind>[a-z_]+?)_)?latency(?:_(?P<of>max|p[0-9.]+))?_ns")
OPERATIONS = re.compile(r"(?:(?P<kind>[a-z_]+?)_)?operations")


@dataclass(frozen=True)
class _Value:
    """A metric over the intervals of a log."""

    intervals: int
    usual_ns: float
    most_ns: float
    at_ns: float


@dataclass
class _Kind:
    operations: float = 0.0
    #: `mean`, `max`, or a percentile in percent (`99.9`).
    of: dict[str, _Value] = field(default_factory=dict)


def latencies(case: Case, besides: set[str]) -> list[str]:
    """A paragraph per program or device that is not among `besides`, the one with most operations first."""
    chosen_sql = "kind IN ('device', 'process') AND (metric LIKE '%latency%\\_ns' ESCAPE '\\' OR metric LIKE '%operations')"
    several = case.rows(f"SELECT count(DISTINCT subject) AS n FROM series WHERE {chosen_sql}")[0]
    if int(several["n"] or 0) > ACCOUNT_DEVICES_MAX:
        return []
    rows = case.rows(
        f"""SELECT coalesce(host, '') AS host, subject, metric, count(*) AS n, median(value) AS usual, max(value) AS most,
  arg_max(time_ns, value) - (SELECT min(time_ns) FROM series) AS at_ns, sum(value) AS total
FROM series WHERE {chosen_sql} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
    )
    found: dict[tuple[str, str], dict[str, _Kind]] = {}
    for row in rows:
        kinds = found.setdefault((str(row["host"]), str(row["subject"])), {})
        if match := METRIC.fullmatch(str(row["metric"])):
            value = _Value(
                int(row["n"] or 0),
                float(row["usual"] or 0),
                float(row["most"] or 0),
                float(row["at_ns"] or 0),
            )
            kinds.setdefault(match["kind"] or "", _Kind()).of[_named(match["of"])] = value
        elif match := OPERATIONS.fullmatch(str(row["metric"])):
            kinds.setdefault(match["kind"] or "", _Kind()).operations = float(row["total"] or 0)
    chosen = {
        subject: {kind: values for kind, values in kinds.items() if values.of}
        for (_, subject), kinds in found.items()
        if subject not in besides and any(values.of for values in kinds.values())
    }
    first = sorted(chosen, key=lambda subject: -sum(kind.operations for kind in chosen[subject].values()))
    return [_paragraph(subject, chosen[subject]) for subject in first[:ACCOUNT_DEVICES_TOLD]]


def _named(of: str | None) -> str:
    return "mean" if of is None else of.removeprefix("p")


def _paragraph(subject: str, kinds: dict[str, _Kind]) -> str:
    most = sorted(kinds, key=lambda kind: (kind.startswith("run"), -kinds[kind].operations))
    said = [sentence for kind in most[:ACCOUNT_KINDS_TOLD] if (sentence := _sentence(kind, kinds[kind]))]
    return (
        f"{subject}: {' '.join([said[0], *(each[0].upper() + each[1:] for each in said[1:])])}"
        if said
        else ""
    )


def _plural(name: str) -> str:
    """`db_flush` are db flushes; those of no kind are operations."""
    *before, last = name.split("_")
    return " ".join([*before, words.plural_op(last)]) if name else "operations"


def _sentence(name: str, kind: _Kind) -> str:
    """Of one summary its percentiles; of several intervals how far they are apart."""
    what = "the whole run" if name == "run" else _plural(name)
    counted = f"{words.count(kind.operations)} {what}" if kind.operations and name != "run" else what
    percentiles = sorted((of for of in kind.of if of not in ("mean", "max")), key=float)
    if max(value.intervals for value in kind.of.values()) == 1:
        parts = [
            f"{'half' if of == '50' else f'{of} %'} within {words.duration(kind.of[of].usual_ns)}"
            for of in percentiles
        ]
        if not parts and "mean" in kind.of:
            parts = [f"{words.duration(kind.of['mean'].usual_ns)} on average"]
        if "max" in kind.of:
            parts.append(f"the slowest {words.duration(kind.of['max'].usual_ns)}")
        return f"{counted}: {', '.join(parts)}."
    # The tail, as far as each interval tells it.
    below = [of for of in percentiles if float(of) <= 99.0]
    which = below[-1] if below else "mean" if "mean" in kind.of else percentiles[0] if percentiles else "max"
    value = kind.of[which]
    of_which = {"mean": "the mean", "max": "the slowest"}.get(which, f"the {which}th percentile")
    said = (
        f"{counted}: {of_which} is {words.duration(value.usual_ns)} in the median of {words.things(value.intervals, 'interval')}, "
        f"{words.duration(value.most_ns)} at most (at {words.seconds(value.at_ns)})"
    )
    if which != "max" and "max" in kind.of:
        slowest = kind.of["max"]
        said += f"; the slowest took {words.duration(slowest.most_ns)} (at {words.seconds(slowest.at_ns)})"
    return said + "."
