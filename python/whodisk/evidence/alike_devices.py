"""Which devices of a host ought to be alike, where nothing but their names and samples is known.

A log of iostat, sar or /proc/diskstats lists disks with their partitions and the volumes above them, flash beside rotating disks. Names that the kernel gives
(Documentation/admin-guide/devices.rst, `disk_name` in block/genhd.c) tell what is a disk; a gap between latencies parts disks of two kinds.
Names that the kernel does not give (`drive7`) are those of a fleet: whoever wrote them down together means drives that are alike.
"""

from __future__ import annotations

import math
import re
import warnings

import numpy as np

from whodisk.evidence.thresholds import ALIKE_GAP_MAX, PEER_DEVICES_MIN
from whodisk.statistics.stats import Floats

#: Disks; a partition's number follows.
_LETTERED = re.compile(r"(sd|hd|vd|xvd|dasd|emcpower|ubd)([a-z]+)(\d*)")
#: Disks; `p` and a partition's number follow.
_NUMBERED = re.compile(r"(nvme)\d+(?:c\d+)?n\d+(p\d+)?|(mmcblk|rbd|nbd|ublkb|pmem|fio[a-z]+)\d*(p\d+)?")
#: What lies on disks, on files or in memory, and media that come and go.
_OTHERS = re.compile(r"(dm-|md_?d?|bcache|drbd|loop|ram|zram|zd|sr|fd|scd|st|mtdblock)\d+(p\d+)?")

#: What sar prints where it does not know the name, and tracers: major and minor number.
_BY_NUMBER = re.compile(r"(?:dev)?(\d+)[-:](\d+)")
#: Major numbers of disks -> family, and minor numbers for each (the disk, and its partitions). Others are of what lies on disks, or are given out as drivers come.
_MAJORS = {
    **dict.fromkeys((8, *range(65, 72), *range(128, 136)), ("sd", 16)),
    **dict.fromkeys((3, 22, 33, 34), ("hd", 64)),
    **dict.fromkeys(range(104, 112), ("cciss", 16)),
    202: ("xvd", 16),
}


def kernel_named(name: str) -> bool:
    """Whether the kernel gives such names to block devices."""
    return any(pattern.fullmatch(name) for pattern in (_LETTERED, _NUMBERED, _OTHERS, _BY_NUMBER))


def disk_family(name: str, names: set[str]) -> str | None:
    """`sd`, `nvme` and so on of a whole disk; None of partitions and of what lies on disks. A partition that comes without its disk is one: some hypervisors give
    a machine `xvda1` alone."""
    if found := _LETTERED.fullmatch(name):
        family, letters, number = found.groups()
        alone = number and f"{family}{letters}" not in names
        others = [other for other in names if re.fullmatch(rf"{family}{letters}\d+", other)]
        return family if not number or (alone and len(others) == 1) else None
    if found := _NUMBERED.fullmatch(name):
        family, part, other, other_part = found.groups()
        return (family or other) if not part and not other_part else None
    if found := _BY_NUMBER.fullmatch(name):
        major, minor = map(int, found.groups())
        family, step = _MAJORS.get(major, ("", 1))
        return family if family and minor % step == 0 else None
    return None


def alike(members: list[str], latency: Floats) -> tuple[list[list[int]], bool]:
    """Groups of members (by number) that ought to be alike, and whether only the kernel's names tell so. `latency` are log latencies, blocks by members; NaN = not
    observed."""
    if not any(kernel_named(name) for name in members):
        return [list(range(len(members)))], False
    names = set(members)
    families: dict[str, list[int]] = {}
    for number, name in enumerate(members):
        family = disk_family(name, names)
        if family is not None:
            families.setdefault(family, []).append(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        groups = [group for family in families.values() for group in _of_one_level(family, latency)]
    return [group for group in groups if len(group) >= PEER_DEVICES_MIN], True


def _of_one_level(numbers: list[int], latency: Floats) -> list[list[int]]:
    """Parts a family where its latencies have a gap with `PEER_DEVICES_MIN` devices above it: two kinds of disks. Fewer above are slow ones, perhaps."""
    level = np.nanmedian(latency[:, numbers], axis=0)
    known = [n for n in np.argsort(level, kind="stable").tolist() if math.isfinite(level[n])]
    gaps = np.diff(level[known])
    allowed = [at for at in range(len(gaps)) if len(known) - at - 1 >= PEER_DEVICES_MIN]
    if not allowed:
        return [[numbers[n] for n in sorted(known)]]
    at = max(allowed, key=lambda place: gaps[place])
    if gaps[at] < ALIKE_GAP_MAX:
        return [[numbers[n] for n in sorted(known)]]
    lower, upper = known[: at + 1], known[at + 1 :]
    return [
        *_of_one_level([numbers[n] for n in sorted(lower)], latency),
        *_of_one_level([numbers[n] for n in sorted(upper)], latency),
    ]
