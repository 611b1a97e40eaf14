"""Whether a workload of a fixed rate is done as often as it asked.

Syncs may be operations that are due like any other (whodisk's engine), or come on top of them, each as soon as a write is done (the lab's): then only the others count.
"""

from __future__ import annotations

from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import RATE_ACHIEVED
from whodisk.reading.views import Case


def done_per_s(case: Case, survey: Survey) -> float:
    """Operations per second of the measured window that the workload's rate counts."""
    counted = survey.strata
    if any(stratum.op == "sync" for stratum in counted) and not _syncs_are_due(case):
        counted = [stratum for stratum in counted if stratum.op != "sync"]
    return sum(stratum.weight for stratum in counted) / (survey.span_ns / 1e9)


def keeps_rate(case: Case, survey: Survey) -> bool:
    """Whether as many operations were done as a workload of a fixed rate asked for; False where there is none."""
    rate = case.offered_per_s
    return rate is not None and done_per_s(case, survey) >= RATE_ACHIEVED * rate


def _syncs_are_due(case: Case) -> bool:
    """Whether operations fell due at the workload's rate with the syncs among them, rather than without; by the moments at which they were due, however late they were done."""
    row = case.rows(
        """SELECT count(*) AS every, count(*) FILTER (op <> 'sync') AS others,
  max(start_ns) FILTER (op <> 'sync') - min(start_ns) FILTER (op <> 'sync') AS span_ns FROM ops WHERE layer = 'app' AND start_ns IS NOT NULL"""
    )[0]
    every, others, span_ns = (float(row[name] or 0) for name in ("every", "others", "span_ns"))
    rate = case.offered_per_s
    if rate is None or span_ns <= 0:
        return True
    due = rate * span_ns / 1e9
    return abs(every - due) <= abs(others - due)
