"""Devices, file systems, control groups and programs that a fault needs; each gives back what it took."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WHODISK = Path(sys.executable).parent / "whodisk"
PROGRAMS = Path(__file__).parent / "programs.py"
CGROUPS = Path("/sys/fs/cgroup")
#: A control group is busy for a moment after its last process has ended.
GROUP_SECONDS_MAX = 5.0


class Unavailable(Exception):
    """This host cannot make a fault; the text says what it lacks."""


def said(*command: str | Path) -> str:
    """What a command prints; raises subprocess.CalledProcessError if it fails."""
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@contextmanager
def slowdisk(
    *faults: str,
    seed: int,
    size: str = "256MiB",
    latency: str = "",
    backing: Path | None = None,
    log: Path | None = None,
    model: str = "",
) -> Iterator[Path]:
    """A `whodisk slowdisk` with faults, which are told in the file `log`; gives the path of its device."""
    command = [str(WHODISK), "slowdisk", "--size", size, "--seed", str(seed)]
    for fault in faults:
        command += ["--fault", fault]
    if latency:
        command += ["--latency", latency]
    if backing is not None:
        command += ["--backing", str(backing)]
    if log is not None:
        command += ["--log", str(log)]
    if model:
        command += ["--model", model]
    # In a session of its own: Ctrl-C must not take the disk from under a mounted file system.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            _, errors = process.communicate()
            raise subprocess.CalledProcessError(process.returncode, command, stderr=errors)
        try:
            yield Path(line.strip())
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


@contextmanager
def memory_device() -> Iterator[Path]:
    """A loop device over a file in a tmpfs; gives its path."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="whodisk-accuracy-", suffix=".img") as image:
        image.truncate(256 << 20)
        device = said("losetup", "--find", "--show", image.name)
        try:
            yield Path(device)
        finally:
            subprocess.run(["losetup", "--detach", device], check=False)


#: How a file system is made. The journal of ext4 is initialized at once, so that no thread of the kernel does it during the run.
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}


@contextmanager
def file_system(device: Path, place: Path, kind: str = "ext4") -> Iterator[Path]:
    """A fresh file system on `device` (xfs wants 300 MiB), mounted in the folder `place`.

    Raises Unavailable if the tools or the kernel lack it.
    """
    program, *options = MAKE[kind]
    if shutil.which(program) is None:
        raise Unavailable(f"{program} is not installed")
    if kind not in Path("/proc/filesystems").read_text(encoding="ascii").split():
        raise Unavailable(f"this kernel has no {kind}")
    said(program, *options, device)
    place.mkdir()
    said("mount", device, place)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False)


def uncached(path: Path) -> None:
    """Writes a file out and takes it from the page cache: whoever reads it next pays for its memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def value(path: Path, wanted: str) -> Iterator[None]:
    """A setting of the kernel; the old one comes back.

    Raises Unavailable if the kernel has no such setting, or does not offer this choice.
    """
    if not path.exists():
        raise Unavailable(f"this kernel has no {path}")
    text = path.read_text(encoding="ascii").strip()
    # Of a choice, the chosen word stands in brackets.
    old = text.partition("[")[2].partition("]")[0] or text
    if "[" in text and wanted not in text.replace("[", " ").replace("]", " ").split():
        raise Unavailable(f"{path} offers {text}, and not {wanted}")
    path.write_text(wanted, encoding="ascii")
    try:
        yield
    finally:
        path.write_text(old, encoding="ascii")


@contextmanager
def group(controller: str, limits: dict[str, str]) -> Iterator[Path]:
    """A new control group (version 1) with limits, by file name; gives its folder.

    Raises Unavailable if the controller is not mounted in version 1, or has no such limit.
    """
    missing = [name for name in limits if not list((CGROUPS / controller).glob(f"**/{name}"))]
    if missing:
        raise Unavailable(f"no control group of version 1 has {missing[0]} below {CGROUPS / controller}")
    folder = Path(tempfile.mkdtemp(prefix="whodisk-accuracy-", dir=CGROUPS / controller))
    try:
        for name, limit in limits.items():
            (folder / name).write_text(limit, encoding="ascii")
        yield folder
    finally:
        latest = time.monotonic() + GROUP_SECONDS_MAX
        while True:
            try:
                folder.rmdir()
                break
            except OSError:
                if time.monotonic() > latest:
                    raise
                time.sleep(0.05)


def program(name: str, **options: object) -> list[str]:
    """Command line of one of the `programs`, which runs under that name."""
    arguments = [f"--{key.replace('_', '-')}={text}" for key, text in options.items()]
    return [sys.executable, "-S", "-E", str(PROGRAMS), name, *arguments]


@contextmanager
def neighbour(name: str, *, by: tuple[str, ...] = (), **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """One of the `programs`, until the end; started by another command, such as `ionice`."""
    with subprocess.Popen([*by, *program(name, **options)]) as process:
        try:
            yield process
        finally:
            process.kill()
