"""How long a device's flushes took before and after the moment at which that changed: a mean of both would tell of a flush that never was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.thresholds import SINCE_CELL_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.level_change import blocks_of, level_change
from whodisk.evidence.thresholds import LEVEL_BLOCKS, LEVEL_PLACES
from whodisk.reading.views import quoted


@dataclass(frozen=True)
class FlushLevels:
    """Medians of both, and when that was, ns since the measured time began."""

    before_ns: float
    after_ns: float
    at_ns: int

    @property
    def said(self) -> str:
        """``104 us a flush, from 6.5 s on 4.18 ms``."""
        return f"{words.duration(self.before_ns)} a flush, from {words.duration(self.at_ns)} on {words.duration(self.after_ns)}"


def flush_levels(context: Context, device: str) -> FlushLevels | None:
    """The two levels of a device's flushes; None if they have one, or several. Why they have two, `slower_since` asks: here they are only told."""
    survey = context.surveys["block"]
    data = context.case.arrays(
        f"""SELECT start_ns, device_ns FROM block_ops WHERE device = {quoted(device)} AND op = 'flush' AND NOT open AND device_ns IS NOT NULL
  AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns} ORDER BY start_ns, op_id"""
    )
    start_ns, took_ns = data["start_ns"].astype(np.int64), data["device_ns"].astype(np.float64)
    if not len(start_ns):
        return None
    block_of = blocks_of(start_ns, survey.begin_ns, survey.span_ns)
    place = ((start_ns - survey.begin_ns) * (LEVEL_PLACES / survey.span_ns)).astype(np.int64)
    block = block_of[place.clip(0, LEVEL_PLACES - 1)]
    level = np.full(LEVEL_BLOCKS, np.nan)
    for number in np.flatnonzero(np.bincount(block, minlength=LEVEL_BLOCKS) >= SINCE_CELL_MIN):
        level[number] = np.median(np.log(np.maximum(took_ns[block == number], 1.0)))
    change = level_change(level)
    if change is None:
        return None
    at_ns = int(np.searchsorted(block_of, change.block) * (survey.span_ns / LEVEL_PLACES))
    late = start_ns - survey.begin_ns >= at_ns
    return FlushLevels(float(np.median(took_ns[~late])), float(np.median(took_ns[late])), at_ns)
