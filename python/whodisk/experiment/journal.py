"""What an experiment changed on this machine, written down before it is changed, so that it can be put back whatever happens.

One JSON line per change, on disk before the change is made: {"n", "kind", "target", "was", "to", "boot"}; a line {"undone": n} when it was put back. A journal
that holds nothing to undo is removed. A lock beside it, held while an experiment runs or is put back, keeps a second one away. Settings of the kernel do not outlive a boot: those of an earlier boot are only dropped, commands are still run.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from whodisk import words
from whodisk.errors import WhodiskError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def default_path() -> Path:
    """One journal per machine and user: two experiments at a time would disturb each other. Who knows better gives each its own (`--journal`)."""
    base = os.environ.get("WHODISK_STATE")
    if base:
        return Path(base) / "experiment.journal"
    if os.geteuid() == 0:
        return Path("/var/lib/whodisk/experiment.journal")
    home = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state"))
    return home / "whodisk" / "experiment.journal"


@dataclass(frozen=True)
class Change:
    """One change: a file's content, a mount's options, a process of ours, or a command that ends what another began."""

    number: int
    #: `file`, `mount`, `process` or `command`.
    kind: str
    target: str
    was: str
    to: str
    boot: str


@dataclass
class Journal:
    """Open for one experiment."""

    path: Path
    #: Changes that are not undone, in the order in which they were made.
    open: list[Change] = field(default_factory=list)
    _number: int = 0
    _lock: int | None = None

    @staticmethod
    def begin(path: Path) -> Journal:
        """A new journal, to be closed. Raises WhodiskError if another experiment runs, or the journal holds something to put back."""
        path.parent.mkdir(parents=True, exist_ok=True)
        journal = Journal(path, _lock=lock(path))
        try:
            if left := pending(path):
                raise WhodiskError(
                    f"{path}: expected no open journal, found {words.things(len(left), 'change')} of an experiment that did not end; "
                    "`whodisk experiment --restore` puts them back"
                )
            path.unlink(missing_ok=True)
        except BaseException:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Lets others begin; what is not undone stays in the journal."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, kind: str, target: str, was: str, to: str) -> Change:
        """Writes a change down; it is on disk when this returns, and may be made then."""
        self._number += 1
        change = Change(self._number, kind, target, was, to, boot_id())
        self._write(
            json.dumps(
                {
                    "n": change.number,
                    "kind": kind,
                    "target": target,
                    "was": was,
                    "to": to,
                    "boot": change.boot,
                }
            )
        )
        self.open.append(change)
        return change

    def undone(self, change: Change) -> None:
        """Notes that a change was put back; the last one removes the journal."""
        self.open.remove(change)
        if self.open:
            self._write(json.dumps({"undone": change.number}))
        else:
            self.path.unlink(missing_ok=True)

    def _write(self, line: str) -> None:
        is_new = not self.path.exists()
        number = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(number, line.encode() + b"\n")
            os.fsync(number)
        finally:
            os.close(number)
        if is_new:
            folder = os.open(self.path.parent, os.O_RDONLY)
            with suppress(OSError):
                os.fsync(folder)
            os.close(folder)


def lock(path: Path) -> int:
    """Takes the lock beside a journal, which goes with this process or by closing the descriptor. Raises WhodiskError if somebody has it."""
    beside = path.with_name(f"{path.name}.lock")
    number = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = os.read(number, 32).decode(errors="replace").strip() or "unknown"
        os.close(number)
        raise WhodiskError(
            f"{beside}: expected no other experiment, found one that runs or is being put back: process {who}; wait for its end, or end it "
            "(Ctrl-C). Two at a time disturb each other; if they have neither settings nor devices in common, give this one --journal FILE"
        ) from None
    os.ftruncate(number, 0)
    os.write(number, f"{os.getpid()}\n".encode())
    return number


def pending(path: Path) -> list[Change]:
    """Changes that were not undone, the oldest first. A last line that was cut off was never acted on. Raises WhodiskError for anything else."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    found: dict[int, Change] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            data = json.loads(line)
            if "undone" in data:
                found.pop(int(data["undone"]), None)
                continue
            texts = (str(data[key]) for key in ("kind", "target", "was", "to", "boot"))
            found[int(data["n"])] = Change(int(data["n"]), *texts)
        except (ValueError, KeyError, TypeError):
            if number == len(lines):
                break
            raise WhodiskError(
                f"{path}: line {number}: expected a change as JSON, found {line[:60]!r}; put the settings above it back by hand, "
                "then remove the file"
            ) from None
    return list(found.values())


def boot_id() -> str:
    """Of the running kernel."""
    return BOOT_ID.read_text(encoding="ascii").strip()
