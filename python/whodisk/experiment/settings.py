"""Settings of the machine that an arm changes for its run: a file of the kernel, or the options of a mount. A new kind is a class here and a line of `KINDS`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from whodisk.errors import WhodiskError
from whodisk.experiment.journal import Change, Journal, boot_id, lock, pending

#: Where files may be set.
PLACES = ("/sys/", "/proc/sys/")


class Setting(Protocol):
    """One setting with its new value."""

    kind: str
    target: str
    to: str

    def check(self) -> None:
        """Raises WhodiskError if it cannot be changed; changes nothing."""

    def read(self) -> str:
        """Its value now, in a form that `write` takes."""

    def write(self, value: str) -> None:
        """Sets it. Raises WhodiskError if the kernel does not take the value."""


class FileSetting:
    """A file below /sys or /proc/sys."""

    kind = "file"

    def __init__(self, target: str, to: str) -> None:
        self.target, self.to = target, to

    def check(self) -> None:
        """It exists, may be written, and takes the value that it has."""
        if not os.path.realpath(self.target).startswith(PLACES):
            raise WhodiskError(
                f"setting {self.target}: expected a file below {' or '.join(PLACES)}, found another place"
            )
        if not Path(self.target).is_file():
            raise WhodiskError(
                f"setting {self.target}: expected a file, found none; this kernel or device has no such setting"
            )
        if not os.access(self.target, os.W_OK):
            raise WhodiskError(
                f"setting {self.target}: expected a file that may be written, found one that may not; run it as root"
            )
        was = self.read()
        try:
            # A disk may have the file and refuse every value (a scheduler on a bio-based device).
            self._put(was)
        except OSError as error:
            raise WhodiskError(
                f"setting {self.target}: expected to be able to set it to what it is ({was}), found: {error.strerror}; leave it out"
            ) from None
        offered = re.findall(r"[\w-]+", self._text())
        if "[" in self._text() and self.to not in offered:
            raise WhodiskError(
                f"setting {self.target}: expected one of {', '.join(offered)}, found '{self.to}'"
            )

    def read(self) -> str:
        """The value; of a choice such as `none [mq-deadline]`, the chosen one."""
        text = self._text()
        chosen = re.search(r"\[([^\]]+)\]", text)
        return chosen[1] if chosen else text

    def write(self, value: str) -> None:
        """Writes it, and reads it back."""
        try:
            self._put(value)
        except OSError as error:
            raise WhodiskError(
                f"setting {self.target}: expected it to take '{value}', found: {error.strerror}"
            ) from None
        found = self.read()
        # A limit that is lifted is no longer listed.
        is_group = self.target.startswith("/sys/fs/cgroup/")
        if not is_group and found != value and not _same_number(found, value):
            raise WhodiskError(
                f"setting {self.target}: expected {value} after setting it, found {found}; the kernel limits it"
            )

    def _text(self) -> str:
        return Path(self.target).read_text(encoding="utf-8").strip()

    def _put(self, value: str) -> None:
        number = os.open(self.target, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # A control group takes one line a time.
            for line in value.splitlines() or [""]:
                os.write(number, line.encode())
        finally:
            os.close(number)


class MountSetting:
    """Options of a mounted file system, by a remount."""

    kind = "mount"

    def __init__(self, target: str, to: str) -> None:
        self.target, self.to = target, to

    def check(self) -> None:
        """It is mounted, and may be remounted."""
        if os.geteuid() != 0:
            raise WhodiskError(
                f"mount {self.target}: expected root, who may remount; found user {os.geteuid()}"
            )
        self.read()

    def read(self) -> str:
        """Options of the mount and of its file system, as mountinfo has them."""
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            left, _, right = line.partition(" - ")
            fields = left.split()
            if fields[4].encode().decode("unicode_escape") == os.path.realpath(self.target):
                own, of_fs = fields[5].split(","), right.split()[2].split(",")
                # Atime options that are in force by default are not written: say them, or they would stay changed.
                own += (
                    []
                    if any(text in own for text in ("relatime", "noatime", "strictatime"))
                    else ["strictatime"]
                )
                return ",".join(dict.fromkeys([*own, *of_fs]))
        raise WhodiskError(
            f"mount {self.target}: expected a mount point, found none; mount it, or correct the path"
        )

    def write(self, value: str) -> None:
        """Remounts."""
        done = subprocess.run(
            ["mount", "-o", f"remount,{value}", self.target], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise WhodiskError(
                f"mount {self.target}: expected to remount with '{value}', found: {done.stderr.strip()}"
            )


KINDS: dict[str, type[FileSetting] | type[MountSetting]] = {"file": FileSetting, "mount": MountSetting}


def _same_number(one: str, other: str) -> bool:
    with contextlib.suppress(ValueError):
        return float(one) == float(other)
    return False


def settings_of(table: Mapping[str, Any]) -> list[Setting]:
    """Settings of an arm: `set` (a device's queue, or files by their path) and `mount` (path = options)."""
    found: list[Setting] = []
    for key, value in table.get("set", {}).items():
        if isinstance(value, dict):
            device = Path(os.path.realpath(key) if key.startswith("/dev/") else key).name
            found += [FileSetting(f"/sys/block/{device}/queue/{name}", str(v)) for name, v in value.items()]
        else:
            found.append(FileSetting(key, str(value)))
    return found + [MountSetting(path, str(options)) for path, options in table.get("mount", {}).items()]


def change(setting: Setting, journal: Journal) -> Change | None:
    """Sets it, after writing down what it was; None if it is so already."""
    was = setting.read()
    if was == setting.to or _same_number(was, setting.to):
        return None
    made = journal.add(setting.kind, setting.target, was, setting.to)
    setting.write(setting.to)
    return made


def undo(made: Change) -> str:
    """Puts one change back, and says what was done. Raises WhodiskError if that fails."""
    if made.kind == "command":
        done = subprocess.run(["bash", "-c", made.to], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise WhodiskError(
                f"tear-down '{made.to}': expected exit code 0, found {done.returncode}: {done.stderr.strip()[-300:]}"
            )
        return f"ran: {made.to}"
    if made.boot != boot_id():
        return f"{made.target}: nothing to do, the machine was started again since"
    if made.kind == "process":
        return _end(int(made.target), made.was)
    KINDS[made.kind](made.target, made.was).write(made.was)
    return f"{made.target} = {made.was}"


def _end(pid: int, started: str) -> str:
    """Ends a process of ours, if it is still that one."""
    if start_of(pid) != started:
        return f"process {pid}: ended already"
    os.kill(pid, signal.SIGTERM)
    return f"process {pid}: ended"


def start_of(pid: int) -> str:
    """When a process began, in ticks since boot: with the number it names one process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def restore(path: Path) -> tuple[list[str], list[str]]:
    """Puts back what a journal holds, the newest first; what was done, and what could not be. Raises WhodiskError while its experiment runs."""
    if not path.exists():
        return [], []
    held = lock(path)
    try:
        changes = pending(path)
        journal = Journal(path, list(changes))
        done, failed = [], []
        for made in reversed(changes):
            try:
                done.append(undo(made))
                journal.undone(made)
            except (WhodiskError, OSError) as error:
                failed.append(str(error))
        return done, failed
    finally:
        os.close(held)
