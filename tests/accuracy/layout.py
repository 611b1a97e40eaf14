"""`make accuracy ARGS='layout'`: kills `whodisk layout` at random moments; each file must be whole. Writes docs/reference/accuracy-layout.md.

Needs root and mkfs of ext4, XFS and btrfs. A file system of its own on a loop device per kind; a third of the kills hit `fragment`, a third
`reallocate`, a third `reallocate --rewrite`, at a moment drawn evenly from the time that the last undisturbed run took. After each kill the contents
are compared byte for byte through a fresh mount, and every tenth time the file system is checked (fsck, xfs_repair -n, btrfs check).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.accuracy.scenarios import ROOT, commit

AGENT = Path(os.environ.get("WHODISK_AGENT", Path(sys.executable).parent / "whodisk-agent"))
OUTPUT = ROOT / "docs/reference/accuracy-layout.md"
#: mkfs, and what checks an unmounted file system without changing it.
KINDS = {
    "ext4": (["mkfs.ext4", "-q", "-F", "-b", "4096"], ["e2fsck", "-fn"]),
    "xfs": (["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n"]),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], ["btrfs", "check"]),
}
ACTIONS = ("fragment", "reallocate", "rewrite")
IMAGE_BYTES = 400 << 20
FILE_BYTES = (24 << 20) + 12_345
CHECK_EVERY = 10


class Damaged(Exception):
    """A file or a file system that is not what it was."""


class Volume:
    """A file system with one file, mounted while it is used."""

    def __init__(self, kind: str, work: Path, seed: int) -> None:
        self.kind, self.image, self.root = kind, work / f"{kind}.img", work / kind
        with self.image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        _run([*KINDS[kind][0], str(self.image)])
        self.root.mkdir()
        self.mount()
        self.file = self.root / "file"
        contents = random.Random(seed).randbytes(FILE_BYTES)
        self.file.write_bytes(contents)
        self.digest = hashlib.sha256(contents).hexdigest()

    def mount(self) -> None:
        """Mounts it through a loop device that goes with the mount."""
        _run(["mount", "-o", "loop", str(self.image), str(self.root)])

    def unmount(self) -> None:
        """Unmounts it."""
        _run(["umount", str(self.root)])

    def check(self, thoroughly: bool) -> None:
        """Raises Damaged unless the file holds what it held, read from the device, and nothing but a named copy is left beside it."""
        self.unmount()
        if thoroughly:
            found = subprocess.run(
                [*KINDS[self.kind][1], str(self.image)], capture_output=True, text=True, check=False
            )
            if found.returncode != 0:
                raise Damaged(
                    f"{self.kind}: {KINDS[self.kind][1][0]}: {found.stdout[-500:]}{found.stderr[-500:]}"
                )
        self.mount()
        if hashlib.sha256(self.file.read_bytes()).hexdigest() != self.digest:
            raise Damaged(f"{self.kind}: {self.file} is not what it was")
        for left in self.root.glob(".file.whodisk-layout-*"):
            left.unlink()


def command(action: str, volume: Volume, seed: int) -> list[str]:
    """The command line of an action."""
    if action == "fragment":
        return [
            str(AGENT),
            "layout",
            "fragment",
            str(volume.file),
            "--piece",
            "64KiB",
            "--seed",
            str(seed),
        ]
    rewrite = ["--rewrite"] if action == "rewrite" else []
    return [str(AGENT), "layout", "reallocate", str(volume.file), "--threshold", "2", *rewrite]


def kill_once(volume: Volume, action: str, seed: int, seconds: float) -> float | None:
    """Kills an action within `seconds`; None if it was still running then, else how long it took."""
    if action != "fragment":
        _run(command("fragment", volume, seed))
    began = time.monotonic()
    process = subprocess.Popen(
        command(action, volume, seed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(random.Random(seed).uniform(0, seconds))
        return time.monotonic() - began
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def main(arguments: list[str]) -> int:
    """Kills, checks, writes the table; exit code 1 if anything was damaged."""
    parser = argparse.ArgumentParser(prog="make accuracy ARGS='layout'", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="kills in all [200]")
    parser.add_argument("--seed", type=int, default=1, help="first seed [1]")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--actions", nargs="+", choices=ACTIONS, default=list(ACTIONS))
    given = parser.parse_args(arguments)
    made: Counter[tuple[str, str]] = Counter()
    running: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        volumes = {kind: Volume(kind, Path(folder), given.seed) for kind in given.kinds}
        try:
            cells = [(kind, action) for kind in given.kinds for action in given.actions]
            seconds = {}
            for kind, action in cells:
                if action != "fragment":
                    _run(command("fragment", volumes[kind], given.seed))
                began = time.monotonic()
                _run(command(action, volumes[kind], given.seed))
                seconds[kind, action] = time.monotonic() - began
            for number in range(given.kills):
                kind, action = cells[number % len(cells)]
                seed = given.seed + number
                took = kill_once(volumes[kind], action, seed, seconds[kind, action])
                seconds[kind, action] = took or seconds[kind, action]
                try:
                    volumes[kind].check(thoroughly=number // len(cells) % CHECK_EVERY == 0)
                except Damaged as error:
                    print(f"seed {seed}, {kind}, {action}: {error}", file=sys.stderr)
                    return 1
                made[kind, action] += 1
                running[kind, action] += took is None
        except KeyboardInterrupt:
            print(f"stopped after {made.total()} kills", file=sys.stderr)
        finally:
            for volume in volumes.values():
                subprocess.run(["umount", str(volume.root)], check=False)
    OUTPUT.write_text(_page(made, running), encoding="utf-8")
    print(OUTPUT.relative_to(ROOT))
    return 0


def _page(made: Counter[tuple[str, str]], running: Counter[tuple[str, str]]) -> str:
    rows = [
        f"| {kind} | {action} | {made[kind, action]} | {running[kind, action]} | 0 |"
        for kind, action in sorted(made)
    ]
    return "\n".join(
        [
            "# layout, killed",
            "",
            f"`make accuracy ARGS='layout --kills {made.total()}'`, commit {commit()}, Linux {os.uname().release}.",
            "",
            "`whodisk layout` killed with SIGKILL at a random moment of its work. Afterwards the file, read through a fresh mount, holds what it held, byte"
            f" for byte; every {CHECK_EVERY}th round the file system's own checker finds nothing.",
            "",
            "| file system | action | kills | while it still worked | damaged |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _run(arguments: list[str]) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr.strip()}")
