"""What a drive counts of its own troubles (SMART), in a log without operations."""

from __future__ import annotations

from whodisk import words
from whodisk.evidence.thresholds import ACCOUNT_DEVICES_MAX
from whodisk.reading.views import Case, quoted

#: Counters that stand for trouble; anything above 0 is worth saying.
TROUBLES = {
    "media_errors": "media error",
    "logged_errors": "logged error",
    "grown_defects": "grown defect",
    "read_errors": "uncorrected read error",
    "write_errors": "uncorrected write error",
    "ata_reallocated_sector_ct": "reallocated sector",
    "ata_current_pending_sector": "pending sector",
    "ata_offline_uncorrectable": "uncorrectable sector",
    "ata_udma_crc_error_count": "CRC error of its link",
}


def drive_counters(case: Case) -> list[str]:
    """A sentence per drive with troubles: how many there are, or how many more, where the log has several snapshots."""
    rows = case.rows(
        f"""SELECT coalesce(host, '') AS host, subject, metric, count(*) AS n, arg_max(value, time_ns) AS last, min(value) AS least
FROM series WHERE kind = 'device' AND metric IN ({", ".join(map(quoted, TROUBLES))}) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
    )
    drives: dict[str, list[str]] = {}
    several = any(int(row["n"] or 0) > 1 for row in rows)
    for metric, name in TROUBLES.items():
        for row in (row for row in rows if row["metric"] == metric):
            number = float(row["last"] or 0) - (float(row["least"] or 0) if several else 0.0)
            if number > 0:
                drives.setdefault(str(row["subject"]), []).append(words.things(number, name))
    if len(drives) > ACCOUNT_DEVICES_MAX:
        return []
    if several:
        return [
            f"{drive} counted {words.listed(said)} while the log was written."
            for drive, said in drives.items()
        ]
    return [
        f"{drive} counts {words.listed(said)} so far; one snapshot does not say since when."
        for drive, said in drives.items()
    ]
