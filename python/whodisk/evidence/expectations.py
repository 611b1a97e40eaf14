"""Expectations given by a person: ``p99<5ms``, ``read p99.9 < 2 ms``, ``max<20ms``, ``iops>10000``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whodisk import words
from whodisk.errors import ExpectationError
from whodisk.evidence.survey import Stratum, Survey
from whodisk.findings import Expectation
from whodisk.reading.views import NAMESPACE_OPS, SLEPT_OPS
from whodisk.statistics.stats import quantile_needs

OPS = (
    "read",
    "write",
    "flush",
    "discard",
    "sync",
    "copy",
    "fault",
    *NAMESPACE_OPS,
    *SLEPT_OPS,
    "drop",
    "other",
)
TIME_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
SIZE_UNITS = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}
EXAMPLES = "'p99<5ms', 'read p99.9<2ms', 'max<20ms', 'iops>10000' or 'bandwidth>500MiB/s'"

PATTERN = re.compile(
    r"(?ix)^\s* (?:(?P<op>[a-z]+)\s+)? (?P<metric>p\d+(?:\.\d+)?|max|mean|iops|bandwidth) \s*"
    r"(?P<sign><=|>=|<|>) \s* (?P<number>\d+(?:\.\d+)?(?:e\d+)?) \s* (?P<unit>[a-zµ]*)(?P<per>/s)? \s*$"
)


@dataclass(frozen=True)
class Limit:
    """A checked expectation. ``bound`` is in ns, operations per second or bytes per second."""

    text: str
    op: str | None
    metric: str
    sign: str
    bound: float

    @property
    def quantile(self) -> float | None:
        """0.99 for p99; 1 for max; None if the metric is no quantile."""
        if self.metric == "max":
            return 1.0
        return float(self.metric[1:]) / 100 if re.match(r"p\d", self.metric) else None

    @property
    def is_latency(self) -> bool:
        return self.metric not in ("iops", "bandwidth")

    def holds(self, value: float) -> bool:
        """Whether a value of the metric is on the side of the bound that was asked for."""
        return {
            "<": value < self.bound,
            "<=": value <= self.bound,
            ">": value > self.bound,
            ">=": value >= self.bound,
        }[self.sign]


def parse(text: str) -> Limit:
    """Understands an expectation. Raises ExpectationError with examples."""
    match = PATTERN.match(text)
    if match is None:
        raise ExpectationError(f"--expect {text!r}: expected {EXAMPLES}; write it like one of these")
    op, metric = (match["op"] or "").lower() or None, match["metric"].lower()
    if op is not None and op not in OPS:
        raise ExpectationError(
            f"--expect {text!r}: expected one of {', '.join(OPS)}, found {op!r}; correct it"
        )
    limit = Limit(text.strip(), op, metric, match["sign"], _bound(text, metric, match))
    if limit.quantile is not None and not 0 < limit.quantile <= 1:
        raise ExpectationError(
            f"--expect {text!r}: expected a percentile up to p100, found {metric}; correct it"
        )
    return limit


def _bound(text: str, metric: str, match: re.Match[str]) -> float:
    number, unit = float(match["number"]), match["unit"]
    if metric == "iops":
        if unit:
            raise ExpectationError(
                f"--expect {text!r}: expected a plain number for iops, found unit {unit!r}"
            )
        return number
    units = SIZE_UNITS if metric == "bandwidth" else TIME_UNITS
    key = unit.lower() if metric == "bandwidth" else unit
    if key not in units or (metric != "bandwidth" and match["per"]):
        wanted = "KiB/s, MiB/s or GiB/s" if metric == "bandwidth" else "ns, us, ms or s"
        raise ExpectationError(f"--expect {text!r}: expected a unit of {wanted}, found {unit!r}; add it")
    return number * units[key]


def check(limit: Limit, survey: Survey) -> Expectation:
    """Whether a case met an expectation."""
    strata = survey.select(op=limit.op)
    operations = sum(stratum.operations for stratum in strata)
    kind = words.plural_op(limit.op) if limit.op else "operations"
    if operations == 0:
        return Expectation(limit.text, None, f"'{limit.text}' cannot be judged: the case has no {kind}.")
    quantile = limit.quantile
    if quantile is not None and quantile < 1 and operations < quantile_needs(quantile):
        needed = words.count(quantile_needs(quantile))
        return Expectation(
            limit.text,
            None,
            f"'{limit.text}' cannot be judged: {limit.metric} needs {needed} {kind}, the case has "
            f"{words.count(operations)}.",
        )
    value = _value(limit, survey, strata)
    met = limit.holds(value)
    said = "is met" if met else "is not met"
    shown = _shown(limit, value)
    return Expectation(limit.text, met, f"'{limit.text}' {said}: {limit.metric} of {kind} is {shown}.")


def _value(limit: Limit, survey: Survey, strata: list[Stratum]) -> float:
    seconds = survey.span_ns / 1e9
    if limit.metric == "iops":
        return sum(stratum.weight for stratum in strata) / seconds
    if limit.metric == "bandwidth":
        return sum(stratum.size_bytes for stratum in strata) / seconds
    if limit.metric == "max":
        return float(max(stratum.latency_max_ns for stratum in strata))
    if limit.metric == "mean":
        return sum(s.latency_ns for s in strata) / max(1e-9, sum(s.weight for s in strata))
    return survey.quantile_ns(strata, limit.quantile or 0.5)


def _shown(limit: Limit, value: float) -> str:
    if limit.metric == "iops":
        return f"{words.rate(value)}/s"
    if limit.metric == "bandwidth":
        return f"{words.size(value)}/s"
    return words.duration(value)
