"""fio's I/O log, version 3, which `fio --read_iolog` replays at the same moments.

Facts: fio's HOWTO, "Trace file format v3", and runs of fio 3.33: times are microseconds; a name ends at the first blank and has 256
characters at most.
"""

from __future__ import annotations

from pathlib import Path

from whodisk.export.base import Format, Tell, Wanted, Written, carried, count_left_out
from whodisk.export.fio_log import LINES
from whodisk.reading.views import Case

#: SQL: what fio would open. A device with a path is one that somebody named (`import --device /dev/nvme0n1`).
_NAME = (
    "CASE WHEN device LIKE '/%' AND (file IS NULL OR layer IN ('block', 'device')) THEN device "
    "WHEN layer IN ('block', 'device') THEN '/dev/' || device ELSE file END"
)
_ACTION = "CASE op WHEN 'discard' THEN 'trim' WHEN 'flush' THEN 'sync' ELSE op END"

_REASONS = {
    "no action of fio": "op NOT IN ('read', 'write', 'discard', 'flush', 'sync')",
    "no path": f"{_NAME} IS NULL OR {_NAME} NOT LIKE '/%'",
    "a path that fio's reader would cut (blanks, or over 256 characters)": f"regexp_matches({_NAME}, '\\s') "
    f"OR length({_NAME}) > 256",
    "no place": "op IN ('read', 'write', 'discard') AND (offset_bytes IS NULL OR size_bytes IS NULL)",
    "no data": "op IN ('read', 'write', 'discard') AND size_bytes = 0",
}


def _write(case: Case, wanted: Wanted, file: Path, tell: Tell) -> Written:
    left_out = count_left_out(case, wanted, _REASONS)
    chosen = carried(wanted, _REASONS)
    # Part 0 opens every file, part 1 does the work, part 2 closes them.
    sql = f"""WITH chosen AS (
  SELECT {_NAME} AS name, {_ACTION} AS action, start_ns, op_id, offset_bytes, size_bytes FROM recorded_ops WHERE {chosen}
), moments AS (SELECT min(start_ns) AS first_ns, max(start_ns) AS last_ns FROM chosen),
names AS (SELECT DISTINCT name FROM chosen),
parts AS (
  SELECT 0 AS part, 0 AS at_ns, 0 AS op_id, '' AS name, 'fio version 3 iolog' AS line
  UNION ALL SELECT 1, 0, 0, name, concat('0 ', name, ' add') FROM names
  UNION ALL SELECT 2, 0, 0, name, concat('0 ', name, ' open') FROM names
  UNION ALL SELECT 3, start_ns, op_id, name, concat_ws(' ', (start_ns - first_ns) // 1000, name, action,
    coalesce(offset_bytes, 0), coalesce(size_bytes, 0)) FROM chosen, moments
  UNION ALL SELECT 4, 0, 0, name, concat_ws(' ', (last_ns - first_ns) // 1000, name, 'close') FROM names, moments
)
SELECT line FROM parts ORDER BY part, at_ns, op_id, name"""
    written = case.copy(sql, file, LINES, tell)
    names = int(
        case.rows(f"SELECT count(DISTINCT {_NAME}) AS n FROM recorded_ops WHERE {chosen}")[0]["n"] or 0
    )
    return Written(written - 1 - 3 * names, left_out)


FORMAT = Format(
    name="fio-iolog",
    suffix=".iolog",
    about="fio's I/O log, version 3, which fio --read_iolog=FILE replays at the same moments (it writes to what it names)",
    not_carried=(
        ("latencies, stages and results", "the log holds what to do, and when"),
        ("when an operation began, to better than 1 us", "its times are in microseconds"),
        ("which thread did what, and what waited for what", "fio replays all of it as one job"),
        ("copies, and operations of other kinds", "fio has no actions for them"),
        ("contents", "fio writes its own pattern"),
    ),
    write=_write,
    one_layer=True,
)
