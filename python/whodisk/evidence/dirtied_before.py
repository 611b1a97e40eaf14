"""What the kernel wrote out to a device that nobody had made dirty since the recording began: somebody wrote it into the page cache before."""

from __future__ import annotations

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import DIRTIED_BEFORE_MIN, DIRTY_AGE_NS
from whodisk.evidence.written_for import BYTES
from whodisk.reading.views import quoted


def dirtied_before(context: Context, device: str) -> float:
    """How many bytes of that somebody else than the judged program must have written, at least; 0 where flushers were not recorded, or that is little.

    What one program makes dirty is written out after half a minute at most (vm.dirty_expire_centisecs), so one that goes on as it does may have
    left as much as it writes in that time.
    """
    if "events" not in context.case.columns:
        return 0.0
    rows = context.case.rows(
        f"""SELECT coalesce(sum({BYTES}) FILTER (kind = 'writeback' AND subject = {quoted(device)}), 0) AS written,
  coalesce(sum({BYTES}) FILTER (kind = 'dirtied'), 0) AS dirtied FROM events WHERE kind IN ('writeback', 'dirtied')"""
    )
    written, dirtied = (float(rows[0][name] or 0) for name in ("written", "dirtied"))
    beyond = written - dirtied * (1 + DIRTY_AGE_NS / max(1, context.survey.span_ns))
    return beyond if beyond >= max(DIRTIED_BEFORE_MIN, 0.5 * written) else 0.0
