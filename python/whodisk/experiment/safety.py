"""What an experiment must not destroy: mounted devices, and raw disks that are not empty."""

from __future__ import annotations

import os
import re
import shlex
import stat
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError

#: How much of the begin of a disk is looked at: partition tables and file systems have their marks there.
LOOKED_AT_BYTES = 4 << 20


@dataclass(frozen=True)
class Target:
    """A block device that an arm or a preparation may write to."""

    path: str
    #: Who does: `arm 'a'`, `prepare`.
    by: str


def targets_of_load(
    name: str, kind: str, value: Any, *, reads_only: bool, arguments: Iterable[Any] = ()
) -> list[Target]:
    """Block devices that a load may write to. Of a command every device that it names counts: nobody can know what it does.

    `arguments`: more words for fio.
    """
    if kind == "spec":
        kind, value = "workload", _workload_of(Path(str(value)))
    if kind == "fio" and not reads_only:
        devices = _devices_of_jobs(Path(str(value)), [str(word) for word in arguments])
        return [Target(path, f"arm '{name}'") for path in devices]
    if kind == "workload":
        writes = str(value.get("read", "100%")).strip() != "100%"
        return [
            Target(str(path), f"arm '{name}'")
            for path in value.get("targets", [])
            if writes and is_block(str(path))
        ]
    if kind == "command" and not reads_only:
        words = shlex.split(value) if isinstance(value, str) else [str(word) for word in value]
        parts = [part for word in words for part in (word, word.rpartition("=")[2])]
        return [Target(part, f"arm '{name}'") for part in dict.fromkeys(parts) if is_block(part)]
    return []


def _workload_of(path: Path) -> dict[str, Any]:
    """The table of an access specification; empty where it is none: who runs it reports that."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("workload", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    return table if isinstance(table, dict) else {}


#: Ways of fio (`rw=`) that write nothing.
_FIO_READS = {"read", "randread"}


def _devices_of_jobs(path: Path, arguments: list[str]) -> list[str]:
    """Block devices that jobs of fio name, unless all jobs only read (its default). A name is whatever stands between colons: fio's own list."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines()] + [word.lstrip("-") for word in arguments]
    pairs = [(key.strip(), value.strip()) for key, _, value in (line.partition("=") for line in lines)]
    ways = {value.partition(":")[0] for key, value in pairs if key in ("rw", "readwrite")}
    if ways <= _FIO_READS:
        return []
    names = [
        os.path.expandvars(part).replace("\\:", ":")
        for key, value in pairs
        if key == "filename"
        for part in re.split(r"(?<!\\):", value)
    ]
    folders = ["", *(value for key, value in pairs if key == "directory")]
    paths = [str(Path(folder) / name) for folder in folders for name in names]
    return [path for path in dict.fromkeys(paths) if is_block(path)]


def is_block(path: str) -> bool:
    """Whether a path is a block device."""
    try:
        return stat.S_ISBLK(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def refuse(targets: Iterable[Target], allowed: Iterable[str]) -> None:
    """Raises WhodiskError for a target that is mounted or holds data, unless it is named in `allowed`."""
    known = {os.path.realpath(path) for path in allowed}
    for target in targets:
        real = os.path.realpath(target.path)
        if real in known:
            continue
        reason = mounted_at(real) or holds(real)
        if reason:
            raise WhodiskError(
                f"{target.path}: {target.by} would write to it; expected an empty device that nobody uses, found {reason}; "
                f"name another, or say --i-know-this-destroys {target.path}"
            )


def mounted_at(device: str) -> str:
    """Where a device or a part of it is in use, in words; empty if nowhere."""
    node = Path("/sys/dev/block") / _number(device)
    base = node.resolve()
    parts = [base, *(child for child in base.glob("*") if (child / "partition").exists())]
    numbers = {(part / "dev").read_text().strip(): part.name for part in parts if (part / "dev").exists()}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[2] in numbers:
            return f"{numbers[fields[2]]} mounted at {fields[4]}"
        source = line.partition(" - ")[2].split()[1]
        if source.startswith("/dev/") and is_block(source) and _number(os.path.realpath(source)) in numbers:
            return f"{source} mounted at {fields[4]}"
    for part in parts:
        holders = sorted(path.name for path in (part / "holders").glob("*"))
        if holders:
            return f"{part.name} in use by {', '.join(holders)}"
    for line in Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]:
        if is_block(line.split()[0]) and _number(os.path.realpath(line.split()[0])) in numbers:
            return "swap space on it"
    return ""


def holds(device: str) -> str:
    """What is on a device, in words; empty if its begin is all zeros."""
    try:
        with Path(device).open("rb") as file:
            place = 0
            while place < LOOKED_AT_BYTES and (piece := file.read(1 << 16)):
                if piece.strip(b"\0"):
                    return f"data on it (at byte {place + len(piece) - len(piece.lstrip(bytes(1)))})"
                place += len(piece)
    except OSError as error:
        return f"that it cannot be read ({error.strerror})"
    return ""


def _number(device: str) -> str:
    info = Path(device).stat()
    return f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"
