"""Operations that failed: what somebody has to mend comes first in a verdict, however fast the others were.

That a program got an error is a fact of the record; nothing has to stand out for it. What a program asks for in vain (an option that a
file system does not know, a right that it lacks) is its own business. So is a file system that somebody mounts read-only; one that became so
together with errors is not.
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass
from typing import Any

from whodisk import words
from whodisk.detectors.device_errors import errors_of
from whodisk.evidence.context import Context
from whodisk.machine.disks import disk_in, mount_point_of
from whodisk.reading.changes import turned_read_only
from whodisk.reading.views import IO_ERROR, STORAGE_ERRNOS, Case, quoted

#: Errors that storage or its administrator has to mend, beside which there are only those of programs.
TO_MEND = (*STORAGE_ERRNOS, errno.EROFS)

#: Error -> what it says of a file system, and what to do about it.
_SAID = {
    errno.ENOSPC: (
        "{place} is full",
        "Make room on {place}, or give it more: df -h and df -i show what is taken, of bytes and of inodes; a quota of a directory counts, too. What failed has to be done again.",
    ),
    errno.EDQUOT: (
        "a quota on {place} is used up",
        "Raise the quota on {place}, or remove files of its owner (quota -s, repquota -s). What failed has to be done again.",
    ),
    errno.EROFS: (
        "{place} is read-only",
        "Find out why {place} is read-only (dmesg, mount): a file system that meets an error of its device may make itself so.",
    ),
    errno.EUCLEAN: (
        "{place} is damaged",
        "Read the kernel's log (dmesg), and check {place} (fsck, xfs_repair) while it is not mounted.",
    ),
    errno.EBADMSG: (
        "{place} is damaged",
        "Read the kernel's log (dmesg), and check {place} (fsck, xfs_repair) while it is not mounted.",
    ),
}
_OTHERWISE = (
    "the storage below {place} could not do it",
    "Read the kernel's log (dmesg), and that of the device below {place} (smartctl -x, nvme error-log).",
)


@dataclass(frozen=True)
class Failures:
    """Operations that failed, in words."""

    #: One sentence per kind, device and error, the most frequent first; before them a file system that errors made read-only.
    sentences: list[str]
    #: Of those that storage has to mend the most frequent: without a stop at the end. Empty: there are none.
    first: str = ""
    #: What to do about them.
    step: str = ""
    #: The sentences that say the same.
    of_first: tuple[str, ...] = ()
    #: Whether the file system is to mend, and not a device below it.
    of_file_system: bool = False
    #: Whether `first` tells the errors of the device below, too.
    tells_device: bool = False
    #: Whether `first` is a file system that an error made read-only: worse than any slowness.
    became_read_only: bool = False


def failures_of(context: Context) -> Failures:
    """Failed operations of the judged layer; only I/O, not what a program asked for in vain."""
    rows = context.case.rows(
        f"""SELECT op, coalesce(device, '') AS device, error, count(*) AS n FROM judged
WHERE layer = '{context.layer}' AND {IO_ERROR} GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"""
    )
    sentences = {}
    to_mend: Counter[tuple[str, int]] = Counter()
    for row in rows:
        op, number, count = str(row["op"]), int(row["error"] or 0), int(row["n"] or 0)
        place = f" on {row['device']}" if row["device"] else ""
        said = f"{words.things(float(count), op, words.plural_op(op))}{place} failed with {_name(number)}."
        sentences[said] = op, number
        if number in TO_MEND:
            to_mend[op, number] += count
    told = list(sentences)[:10]
    turned = turned_by_errors(context.case, context.layer)
    if turned is not None:
        errors = {errno.EIO, errno.EROFS}
        of_turned = tuple(said for said in told if sentences[said][1] in errors)
        itself = f"{turned.said}."
        return Failures(
            [itself, *told], turned.said, turned.step, (itself, *of_turned), True, bool(turned.device), True
        )
    if not to_mend:
        return Failures(told)
    (op, number), count = min(to_mend.items(), key=lambda item: (-item[1], item[0]))
    every = max(count, sum(stratum.operations for stratum in context.survey.select(op=op)))
    said, step = _SAID.get(number, _OTHERWISE)
    mount = _mount_of(context, op, number)
    place = f"the file system {mount}" if mount else "the file system"
    below = _device_below(context, mount) if number not in _SAID else ""
    return Failures(
        told,
        f"{words.count(count)} of {words.things(float(every), op, words.plural_op(op))} failed with {_name(number)}: {said.format(place=place)}"
        + (f" ({below})" if below else ""),
        step.format(place=mount or "the file system"),
        tuple(sentence for sentence in told if sentences[sentence] == (op, number)),
        number in _SAID,
        bool(below),
    )


def _device_below(context: Context, mount: str | None) -> str:
    """What the device below a mount point had, where calls tell that they failed: requests are the device's own, and it is named for them."""
    if context.layer == "block" or mount is None:
        return ""
    return _had_below(context.case, mount, errors_of(context.case))[1]


@dataclass(frozen=True)
class Turned:
    """A file system that became read-only while errors were seen on it, in words."""

    #: Without a stop at the end.
    said: str
    step: str
    #: The device that had errors; empty: only calls failed.
    device: str


def turned_by_errors(case: Case, layer: str | None) -> Turned | None:
    """The first file system that could no longer be written to at the end of the recording, if its device had errors or calls on its files failed with
    EIO or EROFS. Somebody who mounts it anew, so that nothing fails, is none of it."""
    troubled = errors_of(case)
    for mount in turned_read_only(case.system):
        device, had = _had_below(case, mount, troubled)
        failed = _failed_on(case, layer, mount)
        if not had and not failed:
            continue
        refused = f"{words.listed(failed)}" if failed else ""
        causes = words.listed([said for said in (had, refused) if said])
        step = f"Read the kernel's log (dmesg): it says why {mount} became read-only."
        if had or any("EIO" in said for said in failed):
            step = (
                f"Save what can be read from {mount}, and read the kernel's log (dmesg) and that of the device below it (smartctl -x, nvme error-log). "
                "Check the file system (fsck, btrfs check, xfs_repair) before it is written to again."
            )
        return Turned(
            f"The file system {mount} became read-only during the recording: {causes}", step, device
        )
    return None


def _had_below(case: Case, mount: str, troubled: dict[str, list[str]]) -> tuple[str, str]:
    """The device below a mount point that had errors, and what it had; empty where none did, or the case does not say what is below."""
    disk = disk_in(case.system, mount.rstrip("/") + "/.")
    if disk is None:
        return "", ""
    below = _below(case.system, disk)
    for device, told in troubled.items():
        if device in below:
            return device, f"{device} had {words.listed(told)}"
    return "", ""


def _below(system: dict[str, Any], disk: str) -> set[str]:
    """A disk, the others of its file system, and all that these are made of."""
    found: set[str] = set()
    left = [disk]
    while left:
        name = disk_in(system, f"/dev/{left.pop()}")
        if name is None or name in found:
            continue
        found.add(name)
        facts = ((system.get("devices") or {}).get(name) or {}).get("facts") or {}
        left += str(facts.get("members") or "").split()
        for pool in system.get("pools") or []:
            if name in [disk_in(system, f"/dev/{member}") for member in pool]:
                left += map(str, pool)
    return found


def _failed_on(case: Case, layer: str | None, mount: str) -> list[str]:
    """What failed with EIO or EROFS of the calls on files below a mount point: `4 mkdirs failed with EIO`."""
    if layer in (None, "block") or not {"file", "error"} <= case.columns.get(f"ops/{layer}", frozenset()):
        return []
    rows = case.rows(
        f"""SELECT op, error, file, count(*) AS n FROM judged
WHERE layer = {quoted(str(layer))} AND error IN ({errno.EIO}, {errno.EROFS}) AND file IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT 1000"""
    )
    points = case.system.get("mounts") or {}
    found: Counter[tuple[str, int]] = Counter()
    for row in rows:
        if mount_point_of(str(row["file"]), points) == mount:
            found[str(row["op"]), int(row["error"] or 0)] += int(row["n"] or 0)
    return [
        f"{words.things(float(n), op, words.plural_op(op))} failed with {_name(number)}"
        for (op, number), n in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ][:2]


def _name(number: int) -> str:
    return errno.errorcode.get(number, f"errno {number}")


def _mount_of(context: Context, op: str, number: int) -> str | None:
    """Where the file system is mounted that most of these operations' files are on, as far as the record tells."""
    mounts = context.case.system.get("mounts") or {}
    if "file" not in context.case.columns.get(f"ops/{context.layer}", frozenset()):
        return None
    rows = context.case.rows(
        f"""SELECT file, count(*) AS n FROM judged
WHERE layer = '{context.layer}' AND op = '{op}' AND error = {number} AND file IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1000"""
    )
    found: Counter[str | None] = Counter()
    for row in rows:
        found[mount_point_of(str(row["file"]), mounts)] += int(row["n"] or 0)
    return found.most_common(1)[0][0] if found else None
