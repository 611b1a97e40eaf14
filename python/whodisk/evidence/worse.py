"""What a culprit makes worse: quantiles with the operations that it held up, and as if these had been as long as is typical for them."""

from __future__ import annotations

import numpy as np

from whodisk.evidence.survey import Survey, bin_middle_ns
from whodisk.reading.views import BINS_PER_OCTAVE
from whodisk.statistics.stats import Floats, Ints, quantile_from_bins, quantile_needs

QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def worse(
    survey: Survey, ops: list[str], held_ns: Floats, typical_ns: Floats, weight: float, keeps_rate: bool
) -> dict[str, dict[str, float]]:
    """Metric -> `with` and `without`, ns (`throughput`: operations per second).

    `held_ns` and `typical_ns` are the latencies of the operations that were held up, and what is typical of them; each stands for
    `weight` operations. Quantiles are of all operations of the kinds `ops`; one that the number of operations does not allow is left out.
    A throughput without the culprit can be computed in a closed loop only, where it grows as the mean falls. What was often idle saves the
    time that was lost at most, whoever waited for it.
    """
    strata = [stratum for stratum in survey.strata if stratum.op in ops]
    operations = sum(stratum.operations for stratum in strata)
    if not operations:
        return {}
    bins = np.concatenate([s.bins for s in strata])
    counts = np.concatenate([s.counts for s in strata]).astype(np.float64)
    result = {}
    typical_ns = np.minimum(typical_ns, held_ns)
    spared_bins, spared = _moved(bins, counts, held_ns, typical_ns, weight)
    for name, quantile in QUANTILES.items():
        if operations >= quantile_needs(quantile):
            result[name] = {
                "with": _quantile(bins, counts, quantile),
                "without": _quantile(spared_bins, spared, quantile),
            }
    left = spared_bins[spared > 0.5]
    most = float(max(s.latency_max_ns for s in strata))
    # The middle of the bin that the longest one is in may lie above it.
    result["max"] = {
        "with": most,
        "without": min(most, float(bin_middle_ns(left.max()[None])[0])) if len(left) else 0.0,
    }
    lost = float((held_ns - typical_ns).sum()) * weight
    spent_ns = max(survey.latency_ns, survey.span_ns)
    if not keeps_rate and spent_ns > lost:
        rate = sum(s.weight for s in survey.strata) / (survey.span_ns / 1e9)
        result["throughput"] = {"with": rate, "without": rate * spent_ns / (spent_ns - lost)}
    return result


def _moved(
    bins: Ints, counts: Floats, held_ns: Floats, typical_ns: Floats, weight: float
) -> tuple[Ints, Floats]:
    """The histogram with the held operations at what is typical of them."""
    place = [
        np.floor(np.log2(np.maximum(values, 1.0)) * BINS_PER_OCTAVE).astype(np.int64)
        for values in (held_ns, typical_ns)
    ]
    every = np.concatenate([bins, *place])
    change = np.concatenate([counts, np.full(len(held_ns), -weight), np.full(len(typical_ns), weight)])
    unique, where = np.unique(every, return_inverse=True)
    total = np.zeros(len(unique))
    np.add.at(total, where, change)
    return unique, np.maximum(total, 0.0)


def _quantile(bins: Ints, counts: Floats, quantile: float) -> float:
    order = np.argsort(bins, kind="stable")
    return quantile_from_bins(bin_middle_ns(bins[order]), counts[order], quantile)
