"""Reads that missed the cache of the kernel: they waited for what it fetched, just then or ahead of them."""

from __future__ import annotations

from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import MISSED_REQUESTS_MIN, ORDINARY_REQUESTS_MAX
from whodisk.reading.views import Case


def missed_sql(case: Case) -> str:
    """Whether an operation missed: the account of a cache belongs to the layer above it; the judged ones may be one layer further up."""
    misses = "SELECT op_id FROM cache WHERE wait_ns > 0"
    linked = f" OR op_id IN (SELECT parent_id FROM links WHERE child_id IN ({misses}))"
    return f"(op_id IN ({misses}){linked if 'links' in case.columns else ''})"


def that_missed(case: Case, layer: str, op_ids: list[int]) -> frozenset[int]:
    """Which of these operations missed; none where no cache was observed."""
    if not op_ids or "cache" not in case.columns:
        return frozenset()
    listed = ", ".join(map(str, op_ids))
    rows = case.rows(
        f"SELECT DISTINCT op_id FROM judged WHERE layer = '{layer}' AND op_id IN ({listed}) AND {missed_sql(case)}"
    )
    return frozenset(int(row["op_id"] or 0) for row in rows)


def ordinary_read_ns(block: Survey | None, device: str) -> float:
    """Up to how long a read that missed is as long as the reads of its device are; 0 where these are too few to tell."""
    reads = block.select(device, "read") if block is not None else []
    if block is None or sum(stratum.seen for stratum in reads) < MISSED_REQUESTS_MIN:
        return 0.0
    return ORDINARY_REQUESTS_MAX * block.quantile_ns(reads, 0.5)
