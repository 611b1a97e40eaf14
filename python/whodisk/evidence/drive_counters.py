"""What a drive (SMART), or an array, says of itself, in a log without operations: that it fails, what it counts of its troubles, or that it counts none."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk import words
from whodisk.evidence.array_counters import array_counters
from whodisk.evidence.thresholds import (
    ACCOUNT_DEVICES_MAX,
    DRIVE_NAMES_MAX,
    DRIVE_USED_MAX,
)
from whodisk.reading.views import Case, quoted

#: Counters that stand for trouble; anything above 0 is worth saying. Of one, and of several.
TROUBLES = {
    "media_errors": ("media error", "media errors"),
    "logged_errors": ("logged error", "logged errors"),
    "grown_defects": ("grown defect", "grown defects"),
    "read_errors": ("uncorrected read error", "uncorrected read errors"),
    "write_errors": ("uncorrected write error", "uncorrected write errors"),
    "ata_reallocated_sector_ct": ("reallocated sector", "reallocated sectors"),
    "ata_current_pending_sector": ("pending sector", "pending sectors"),
    "ata_offline_uncorrectable": ("uncorrectable sector", "uncorrectable sectors"),
    "ata_reported_uncorrect": ("uncorrectable error", "uncorrectable errors"),
    "ata_command_timeout": ("command timeout", "command timeouts"),
    "ata_udma_crc_error_count": ("CRC error of its link", "CRC errors of its link"),
    "ata_sata_phy_error_count": ("error of its link", "errors of its link"),
    "hard_errors": ("hard error", "hard errors"),
    "transport_errors": ("transport error", "transport errors"),
}
#: Those that need not be the drive's: its link, who waited, and commands that it refused.
NOT_OF_MEDIA = (
    "ata_udma_crc_error_count",
    "ata_sata_phy_error_count",
    "transport_errors",
    "ata_command_timeout",
    "logged_errors",
)
#: Bits of NVMe's critical warning (NVM Express Base Specification, SMART / Health Information).
HOT = 2
WARNINGS = {
    1: "its spare is below its threshold",
    4: "its media or its insides are unreliable",
    8: "it takes no more writes",
    16: "the backup of its volatile memory failed",
    32: "its persistent memory takes no more writes",
}
#: Where it was too hot, and what it did.
HEAT = {
    "warning_temperature_ns": "was at its warning temperature or above for {}",
    "critical_temperature_ns": "was at its critical temperature or above for {}",
    "throttled_little_ns": "slowed itself down a little for its heat for {}",
    "throttled_much_ns": "slowed itself down much for its heat for {}",
}
OTHERS = (
    "smart_failed",
    "critical_warning",
    "available_spare_ratio",
    "available_spare_threshold_ratio",
    "used_ratio",
)


@dataclass(frozen=True)
class _Counter:
    """A counter in the last report, in the first, and in how many reports it is."""

    last: float
    first: float
    reports: int


class _Drive(dict[str, _Counter]):
    """What a drive says, by metric."""

    def last(self, metric: str) -> float:
        return self[metric].last if metric in self else 0.0


def drive_counters(case: Case) -> tuple[list[str], list[str]]:
    """Drives that fail, then those with troubles; and apart from them the clean ones in a sentence, then arrays."""
    drives = _drives(case)
    failing, troubled, clean = [], [], []
    for name, drive in sorted(drives.items(), key=lambda item: _rank(item[1])):
        fails, other = _fails(name, drive), _troubles(drive)
        if fails:
            failing.append(" ".join([fails, *other]))
        elif other:
            troubled.append(" ".join([other[0].replace("It", name, 1), *other[1:]]))
        elif "smart_failed" in drive or any(metric in drive for metric in TROUBLES):
            clean.append(name)
    told = (failing + troubled)[:ACCOUNT_DEVICES_MAX]
    hidden = len(failing) + len(troubled) - len(told)
    more = [f"{words.things(hidden, 'more drive')} say something of the kind."] if hidden else []
    return told + more, _clean({name: drives[name] for name in sorted(clean)}) + array_counters(case)


def _rank(drive: _Drive) -> int:
    """Errors of its media come first, what a drive refused last."""
    counted = [metric for metric in TROUBLES if drive.last(metric) > 0]
    if any(metric not in NOT_OF_MEDIA for metric in counted):
        return 0
    return 2 if counted == ["logged_errors"] else 1


def _drives(case: Case) -> dict[str, _Drive]:
    names = [*TROUBLES, *HEAT, *OTHERS]
    rows = case.rows(
        f"""SELECT coalesce(host, '') AS host, subject, metric, count(DISTINCT time_ns) AS reports,
  arg_max(value, time_ns) AS last, arg_min(value, time_ns) AS first
FROM series WHERE kind = 'device' AND (metric IN ({", ".join(map(quoted, names))}) OR contains(metric, '_at_threshold'))
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
    )
    several = len({str(row["host"]) for row in rows}) > 1
    drives: dict[str, _Drive] = {}
    for row in rows:
        host, subject = str(row["host"]), str(row["subject"])
        name = f"{subject} of {host}" if several and host else subject
        drives.setdefault(name, _Drive())[str(row["metric"])] = _Counter(
            float(row["last"] or 0), float(row["first"] or 0), int(row["reports"] or 0)
        )
    return drives


def _fails(name: str, drive: _Drive) -> str | None:
    """That a drive says of itself that it fails, by what, and what to do."""
    warning = int(drive.last("critical_warning"))
    why = [text for bit, text in WARNINGS.items() if warning & bit]
    spare, least = drive.get("available_spare_ratio"), drive.get("available_spare_threshold_ratio")
    if spare and least and spare.last < least.last:
        said = (
            f"its spare is at {words.percent(spare.last)}, below its threshold of {words.percent(least.last)}"
        )
        why = [said, *(text for text in why if text != WARNINGS[1])]
    now = _attributes(drive, "_at_threshold")
    if now:
        why.append(f"at its maker's threshold: {now}")
    if not why and not drive.last("smart_failed"):
        return None
    if drive.last("smart_failed"):
        because = f" ({'; '.join(why)})" if why else ""
        if not why and warning & HOT:
            # The status of an NVMe drive is its critical warning.
            return f"{name} says of itself that it fails, and the only warning is its temperature: cool it, and take its report again."
        return f"{name} says of itself that it fails{because}: copy its data now, and replace it."
    return f"{name} warns: {'; '.join(why)}. Copy its data now, and replace it."


def _troubles(drive: _Drive) -> list[str]:
    said = []
    counts = _counts(drive)
    if counts:
        said.append(counts)
    if drive.last("used_ratio") >= DRIVE_USED_MAX:
        said.append(
            f"It has used {words.percent(drive.last('used_ratio'))} of the life that its maker rates it for."
        )
    hot = [text.format(_span(drive.last(metric))) for metric, text in HEAT.items() if drive.last(metric) > 0]
    if int(drive.last("critical_warning")) & HOT:
        said.append("It warns of its temperature in its last report.")
    if hot:
        said.append(f"It {words.listed(hot)}, in all its life.")
    for ending, when in (("_at_threshold_of_use", "is"), ("_was_at_threshold", "was once")):
        if attributes := _attributes(drive, ending):
            said.append(f"It {when} at its maker's threshold: {attributes}.")
    return said


def _attributes(drive: _Drive, ending: str) -> str:
    """Those of ATA drives that have a metric with this ending."""
    of_ending = (metric for metric in drive if metric.endswith(ending))
    here = (
        metric
        for metric in of_ending
        if ending != "_at_threshold" or not metric.endswith("_was_at_threshold")
    )
    return words.listed([metric.removesuffix(ending).removeprefix("ata_") for metric in here])


def _counts(drive: _Drive) -> str | None:
    counted = {metric: drive[metric] for metric in TROUBLES if drive.last(metric) > 0}
    if not counted:
        return None
    several = max(counter.reports for counter in counted.values()) > 1
    told = []
    for metric, counter in counted.items():
        number = words.things(counter.last, *TROUBLES[metric])
        grown = counter.last - counter.first
        if several and grown > 0:
            number += f" ({words.count(grown)} more than in its first report)"
        told.append(number)
    if not several:
        end = " so far; one snapshot does not say since when."
    elif any(counter.last > counter.first for counter in counted.values()):
        end = "."
    else:
        end = ", no more than in its first report."
    refused = (
        " Commands that a drive refuses are logged errors, too." if list(counted) == ["logged_errors"] else ""
    )
    return f"It counts {words.listed(told)}{end}{refused}"


def _span(ns: float) -> str:
    """Minutes, as drives count them, or hours."""
    minutes = ns / 60e9
    if minutes < 1:
        return words.duration(ns)
    return words.things(minutes, "minute") if minutes < 600 else words.things(minutes / 60, "hour")


def _clean(drives: dict[str, _Drive]) -> list[str]:
    """What those without any trouble count none of, together where they count the same, and how much of their life is used."""
    alike: dict[tuple[tuple[str, ...], bool, bool], list[str]] = {}
    for name, drive in drives.items():
        counted = tuple(metric for metric in TROUBLES if metric in drive)
        alike.setdefault((counted, "smart_failed" in drive, "used_ratio" in drive), []).append(name)
    told = []
    for (counted, passed, wears), names in alike.items():
        one = len(names) == 1
        none = ", ".join(TROUBLES[metric][1] for metric in counted)
        said = [
            f"{'counts' if one else 'count'} none of: {none}" if none else "no counter of errors is known"
        ]
        if passed:
            said.append("SMART status PASSED")
        if wears:
            used = words.percent(max(drives[name].last("used_ratio") for name in names))
            said.append(f"{used} of the rated life used{'' if one else ' at most'}")
        told.append(f"{words.some(names, DRIVE_NAMES_MAX)}{' ' if none else ': '}{'; '.join(said)}.")
    return told
