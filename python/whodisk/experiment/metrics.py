"""The numbers that runs are compared by: their names, units, and which way is better.

A name may begin with a kind of operation (`read p99`); without one it speaks of reads and writes together, and of what a program calls
its own operations (commits, transactions).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from whodisk import words
from whodisk.errors import WhodiskError
from whodisk.reading.views import STAGES
from whodisk.statistics.repeated import Metric

#: Quantiles that are always looked at.
QUANTILES = ("p50", "p90", "p99", "p99.9", "p99.99", "p99.999")
#: Totals per moment that a case may hold beside operations, and the metrics made of them: name -> (total, per, higher is better).
SHARES = {
    "prefetch accuracy": ("prefetch_used", "prefetch_issued", True),
    "prefetch coverage": ("prefetch_used", "prefetch_wanted", True),
    "tail misses": ("tail_misses", "looked_up_reads", False),
}
TIER = "tier "
#: Kinds of operations that programs name themselves, in layer app.
PROGRAM_KINDS = ("transaction", "commit", "insert", "update", "scan", "modify", "file")
#: Kinds that names may begin with.
KINDS = ("read", "write", "flush", "discard", "sync", "copy", *PROGRAM_KINDS)


def metric(name: str) -> Metric:
    """The metric of this name. Raises WhodiskError for a name that means nothing."""
    plain = " ".join(name.replace("_", " ").split())
    kind, _, rest = plain.partition(" ")
    if kind in KINDS and rest:
        return metric_of(rest, kind)
    return metric_of(plain, "")


def metric_of(name: str, kind: str) -> Metric:
    """A metric of one kind of operations ("" = reads and writes)."""
    full = f"{kind} {name}" if kind else name
    if (quantile := quantile_of(name)) is not None:
        return Metric(full, quantile=quantile)
    if name == "iops":
        return Metric(full, total="operations", per="seconds", higher_is_better=True)
    if name == "bandwidth":
        return Metric(full, total="bytes", per="seconds", higher_is_better=True)
    if name == "copied" and not kind:
        return Metric(full, total="copied_bytes", per="seconds", higher_is_better=True)
    if name == "mean":
        return Metric(full, total="latency", per="operations")
    if name in STAGES:
        return Metric(full, total=name, per="operations")
    if not kind and name in SHARES:
        total, per, better = SHARES[name]
        return Metric(full, total=total, per=per, higher_is_better=better)
    if not kind and name.startswith(TIER):
        return Metric(full, total=name, per="looked_up_bytes", higher_is_better=True)
    raise WhodiskError(
        f"metric '{full}': expected iops, bandwidth, copied, mean, a quantile such as p99.9, a stage ({', '.join(STAGES)}), "
        f"{', '.join(SHARES)} or 'tier NAME', perhaps with a kind before it ('read p99'); found none of them"
    )


def quantile_of(name: str) -> float | None:
    """0.999 for `p99.9`; None if it names no quantile."""
    match = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", name)
    return float(match[1]) / 100 if match else None


def usual(stages: Iterable[str], bandwidth: bool = True) -> list[Metric]:
    """What is compared if nothing was asked for: throughput, quantiles, stages that were observed."""
    names = ["iops", *(["bandwidth"] if bandwidth else []), *QUANTILES, *stages]
    return [metric_of(name, "") for name in names]


def said(metric_: Metric, value: float) -> str:
    """A value with its unit."""
    name = metric_.name.split(" ")[-1]
    if metric_.per == "seconds":
        return f"{words.size(value)}/s" if name in ("bandwidth", "copied") else f"{words.rate(value)}/s"
    if metric_.per in ("prefetch_issued", "prefetch_wanted", "looked_up_reads", "looked_up_bytes"):
        return words.percent(value)
    return words.duration(value)
