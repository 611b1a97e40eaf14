"""fio's latency log, as `write_lat_log` with `log_offset=1` writes it: time in ms, latency in ns, direction, size, offset, priority.

Facts: fio's HOWTO, "Log File Formats", version 3.33. A line's time is that of the end of its operation.
"""

from __future__ import annotations

from pathlib import Path

from whodisk.export.base import Format, Tell, Wanted, Written, carried, count_left_out
from whodisk.reading.views import Case

#: fio's numbers of directions.
_DIRECTION = "CASE op WHEN 'read' THEN 0 WHEN 'write' THEN 1 ELSE 2 END"

_REASONS = {
    "neither read, write nor discard": "op NOT IN ('read', 'write', 'discard')",
    "unfinished, so without a latency": "open",
    "failed": "error <> 0",
}

#: One field per line, written as it is.
LINES = "FORMAT CSV, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\\x01'"


def _write(case: Case, wanted: Wanted, file: Path, tell: Tell) -> Written:
    left_out = count_left_out(case, wanted, _REASONS)
    sql = f"""SELECT concat_ws(', ', greatest(start_ns + latency_ns, 0) // 1000000, latency_ns, {_DIRECTION},
  coalesce(size_bytes, 0), coalesce(offset_bytes, 0), 0) AS line
FROM recorded_ops WHERE {carried(wanted, _REASONS)}
ORDER BY start_ns + latency_ns, op_id"""
    return Written(case.copy(sql, file, LINES, tell), left_out)


FORMAT = Format(
    name="fio-log",
    suffix="_lat.1.log",
    about="fio's latency log with offsets (log_offset=1), for fio_generate_plots and whatever else reads it",
    not_carried=(
        ("when an operation began or ended, to better than 1 ms", "fio's column of times is in milliseconds"),
        ("stages, queue depth, programs, devices, files, threads", "the log has no columns for them"),
        (
            "flushes, syncs and copies; operations that failed",
            "the log has reads, writes and trims that ended",
        ),
        ("priority", "it is not recorded, and always 0 here"),
        ("whether a place was observed", "an offset or size that was not is 0"),
    ),
    write=_write,
    one_layer=True,
)
