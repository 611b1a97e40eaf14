"""Operations that failed: what somebody has to mend comes first in a verdict, however fast the others were.

That a program got an error is a fact of the record; nothing has to stand out for it. What a program asks for in vain (an option that a
file system does not know, a right that it lacks) is its own business.
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.machine.disks import mount_point_of
from whodisk.reading.views import IO_ERROR, STORAGE_ERRNOS

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

    #: One sentence per kind, device and error, the most frequent first.
    sentences: list[str]
    #: Of those that storage has to mend the most frequent: without a stop at the end. Empty: there are none.
    first: str = ""
    #: What to do about them.
    step: str = ""
    #: The sentences that say the same.
    of_first: tuple[str, ...] = ()
    #: Whether the file system is to mend, and not a device below it.
    of_file_system: bool = False


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
    if not to_mend:
        return Failures(told)
    (op, number), count = min(to_mend.items(), key=lambda item: (-item[1], item[0]))
    every = max(count, sum(stratum.operations for stratum in context.survey.select(op=op)))
    said, step = _SAID.get(number, _OTHERWISE)
    mount = _mount_of(context, op, number)
    place = f"the file system {mount}" if mount else "the file system"
    return Failures(
        told,
        f"{words.count(count)} of {words.things(float(every), op, words.plural_op(op))} failed with {_name(number)}: {said.format(place=place)}",
        step.format(place=mount or "the file system"),
        tuple(sentence for sentence in told if sentences[sentence] == (op, number)),
        number in _SAID,
    )


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
