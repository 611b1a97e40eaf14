"""The limit that a device's flushes are: it works on them most of the time, and ends hardly anything else meanwhile.

Who keeps reads in flight beside durable writes then is no faster with more in flight: all of it waits behind the flushes.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.flush_levels import flush_levels
from whodisk.detectors.served_others import silences
from whodisk.detectors.thread_limit import FEWER_SYNCS, Limit
from whodisk.detectors.thresholds import (
    FLUSH_OTHERS_MIN,
    FLUSH_SILENCE_MIN,
    SATURATION_REQUESTS_MIN,
    SATURATION_SAMPLE_REQUESTS,
    SATURATION_SYNC_SHARE,
)
from whodisk.evidence.context import Context
from whodisk.evidence.main_program import Program
from whodisk.reading.views import quoted
from whodisk.statistics.stats import overlap


def flush_limit(context: Context, program: Program) -> Limit | None:
    """The limit of the device on which this program's requests spend most of their time; None if its flushes are none."""
    if "block" not in context.surveys or "device_ns" not in context.case.columns.get("ops/block", ()):
        return None
    rows = context.case.rows(
        f"""SELECT device FROM measured WHERE layer = 'block' AND {program.sql} AND op <> 'flush' AND device IS NOT NULL
GROUP BY 1 ORDER BY sum(latency_ns) DESC, 1 LIMIT 1"""
    )
    return _of_device(context, str(rows[0]["device"])) if rows else None


def _of_device(context: Context, device: str) -> Limit | None:
    # Requests of the middle, as many as show what the device does.
    sample = context.case.arrays(
        f"""WITH issued AS (SELECT op, start_ns + coalesce(queue_ns, 0) AS begin_ns, coalesce(device_ns, 0) AS device_ns, op_id
  FROM measured WHERE layer = 'block' AND device = {quoted(device)}),
middle AS (SELECT *, abs(begin_ns - (SELECT median(begin_ns) FROM issued)) AS apart_ns FROM issued
  ORDER BY apart_ns, op_id LIMIT {SATURATION_SAMPLE_REQUESTS})
SELECT op = 'flush' AS is_flush, begin_ns, begin_ns + device_ns AS end_ns FROM middle ORDER BY begin_ns, op_id"""
    )
    is_flush = sample["is_flush"].astype(np.bool_)
    begin_ns, end_ns = (sample[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    others_ns = end_ns[~is_flush]
    if is_flush.sum() < SATURATION_REQUESTS_MIN or len(others_ns) < SATURATION_REQUESTS_MIN:
        return None
    first, last = float(begin_ns[0]), float(begin_ns[-1])
    covered = overlap(np.array([first]), np.array([last]), begin_ns[is_flush], end_ns[is_flush])
    busy = float(covered[0]) / max(1.0, last - first)
    if busy < SATURATION_SYNC_SHARE or len(others_ns) < FLUSH_OTHERS_MIN * is_flush.sum():
        return None
    _, silence = silences(begin_ns[is_flush], end_ns[is_flush], np.sort(others_ns))
    still = float(np.median(silence))
    if still < FLUSH_SILENCE_MIN:
        return None
    each_ns = float((end_ns - begin_ns)[is_flush].mean())
    levels = flush_levels(context, device)
    each = levels.said if levels else f"{words.duration(each_ns)} each"
    rate = float(is_flush.sum()) / max(1.0, last - first) * 1e9
    return Limit(
        f"flushes: {device} works on one {words.percent(min(1.0, busy))} of the time, {each}, "
        f"{words.rate(rate)} per second, and completes nothing else for {words.percent(still)} of each: what is in flight waits behind them, so a "
        "deeper queue brings nothing",
        FEWER_SYNCS,
    )
