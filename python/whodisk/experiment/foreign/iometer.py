"""Iometer configuration files (.icf), of all its versions.

Lines that begin with an apostrophe are comments and keys at once: a key's values stand on the lines below it. Keys differ in case and wording between
versions, so they are matched without case, by what they begin with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.experiment.foreign.base import chosen, percent, text_of

#: An access specification of versions before names existed.
UNNAMED = "unnamed"
SECTOR_BYTES = 512


@dataclass
class Access:
    """One access specification: lines of size, part of size, reads, random, delay, burst, align, reply."""

    name: str
    lines: list[tuple[int, list[int]]] = field(default_factory=list)


@dataclass
class Setup:
    """What a file says beside access specifications; of several workers, each one's."""

    run_s: float = 0.0
    ramp_s: float = 0.0
    accesses: list[Access] = field(default_factory=list)
    #: (outstanding, disk maximum size in sectors, starting sector) of each disk worker.
    workers: list[list[int]] = field(default_factory=list)
    fixed_seed: int | None = None


def read(path: Path, part: str | None = None) -> dict[str, Any]:
    """The access specification named `part` (or the only one) for all disk workers. Raises WhodiskError."""
    setup = _parse(path)
    name = chosen(path, "access specification", [access.name for access in setup.accesses], part)
    access = next(one for one in setup.accesses if one.name == name)
    workers = setup.workers or [[1, 0, 0]]
    if any(worker != workers[0] for worker in workers):
        raise WhodiskError(
            f"{path}: expected workers with the same target settings, found different ones; make a file of each"
        )
    outstanding, sectors, first = workers[0]
    if first:
        raise WhodiskError(
            f"{path}: 'starting sector': expected 0, found {first}; our engine begins at the target's begin"
        )
    table = _mix(path, access) | {"io": "direct", "queue_depth": max(1, outstanding), "workers": len(workers)}
    if sectors:
        table["file_size"] = f"{sectors * SECTOR_BYTES}B"
    if setup.run_s:
        table["duration"] = f"{setup.run_s:g}s"
    if setup.ramp_s:
        table["ramp"] = f"{setup.ramp_s:g}s"
    if setup.fixed_seed is not None:
        table["seed"] = setup.fixed_seed
    return table


def _mix(path: Path, access: Access) -> dict[str, Any]:
    first_line, first = access.lines[0]
    sizes: dict[str, int] = {}
    aligns = set()
    for number, values in access.lines:
        where = f"{path}: line {number}: access specification '{access.name}'"
        size, share, reads, random, delay, burst, align, reply = [*values, *[0] * (8 - len(values))]
        if (reads, random) != (first[2], first[3]):
            raise WhodiskError(
                f"{where}: expected the reads and random percentages of line {first_line} ({first[2]}, {first[3]}), found {reads}, {random}: "
                "our engine draws size, kind and place independently"
            )
        if delay or burst > 1 or reply:
            raise WhodiskError(
                f"{where}: expected delay 0, burst 1 and reply 0, found {delay}, {burst}, {reply}: our engine has none of these"
            )
        sizes[f"{size}B"] = sizes.get(f"{size}B", 0) + share
        aligns.add(align)
    if sum(sizes.values()) != 100:
        raise WhodiskError(
            f"{path}: line {first_line}: access specification '{access.name}': expected '% of size' that sum to 100, found {sum(sizes.values())}"
        )
    if len(aligns) > 1:
        raise WhodiskError(
            f"{path}: line {first_line}: access specification '{access.name}': expected one align, found {sorted(aligns)}"
        )
    table: dict[str, Any] = {
        "block_sizes": {size: percent(share) for size, share in sizes.items()},
        "read": percent(first[2]),
        "random": percent(first[3]),
    }
    # 0 means sectors in Iometer, and that direct I/O allows no less.
    align = aligns.pop()
    return table | {"align": f"{align or SECTOR_BYTES}B"}


def _parse(path: Path) -> Setup:
    lines = text_of(path).splitlines()
    if not lines or not lines[0].strip().lower().startswith("version"):
        raise WhodiskError(
            f"{path}: line 1: expected 'Version ...', found '{lines[0][:40] if lines else ''}'; it is no Iometer configuration"
        )
    setup = Setup()
    key, is_disk = "", True
    for number, line in enumerate(lines[1:], 2):
        text = line.strip()
        if not text:
            continue
        if text.startswith("'"):
            comment = text[1:].strip().lower()
            # 'hours minutes seconds' only explains the value below the key above it.
            if not comment.startswith("hours") and not comment.startswith("start "):
                key = comment
                if key.startswith("size,") and (not setup.accesses or _old(key)):
                    setup.accesses.append(Access(UNNAMED))
            continue
        is_disk = _value(path, number, key, text, setup, is_disk)
    setup.accesses = [access for access in setup.accesses if access.lines]
    return setup


def _old(key: str) -> bool:
    """Whether a specification has no name: the layout before 1998-05-21."""
    return "align" not in key


def _value(path: Path, number: int, key: str, text: str, setup: Setup, is_disk: bool) -> bool:
    """Takes one value line; gives whether the worker that is being read is one for disks."""
    if key.startswith("run time"):
        hours, minutes, seconds = _numbers(path, number, key, text, 3)[:3]
        setup.run_s = 3600 * hours + 60 * minutes + seconds
    elif key.startswith("ramp up time"):
        setup.ramp_s = _numbers(path, number, key, text, 1)[0]
    elif key.startswith("access specification name"):
        setup.accesses.append(Access(text.rpartition(",")[0].strip() or text))
    elif key.startswith("size,"):
        setup.accesses[-1].lines.append((number, _numbers(path, number, key, text, 6)))
    elif key.startswith("worker type"):
        return text.lower() == "disk"
    elif key.startswith("number of outstanding ios") and is_disk:
        parts = [part.strip() for part in text.split(",")]
        setup.workers.append([_numbers(path, number, key, parts[0], 1)[0], 0, 0])
        if len(parts) >= 5 and parts[3].lower() == "enabled":
            setup.fixed_seed = _numbers(path, number, key, parts[4], 1)[0]
    elif key.startswith("disk maximum size") and is_disk and setup.workers:
        setup.workers[-1][1:] = _numbers(path, number, key, text, 2)[:2]
    return is_disk


def _numbers(path: Path, number: int, key: str, text: str, least: int) -> list[int]:
    found = [part for part in re.split(r"[,\s]+", text.strip()) if part]
    if len(found) < least or not all(re.fullmatch(r"\d+", part) for part in found):
        raise WhodiskError(
            f"{path}: line {number}: expected {least} whole numbers for '{key}', found '{text}'"
        )
    return [int(part) for part in found]
