"""What is frozen: a commit, and hashes of recorder, join, solver, thresholds and judge; and a tree of it that runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Part -> what of a commit belongs to it. A path that a commit does not have yet adds nothing.
PARTS: dict[str, tuple[str, ...]] = {
    "recorder": (
        "Cargo.lock",
        "rust-toolchain.toml",
        "crates/agent",
        "crates/case",
        "crates/record",
        "crates/workload",
    ),
    "join": ("crates/join",),
    "solver": ("python", "requirements.lock"),
    "thresholds": ("python/whodisk/detectors/thresholds.py",),
}
#: What judges stands in this tree, not in the commit that is judged.
JUDGE = (
    "tests/accuracy/referee",
    "tests/accuracy/host.py",
    "python/whodisk/programs",
    "crates/slowdisk",
)
CHECKOUTS = ROOT / "build" / "freezes"
#: Variables that name this tree's modules.
OF_THIS_TREE = ("PYTHONPATH", "PYTHONHOME")


class FreezeError(Exception):
    """A commit cannot be frozen; the text says why, and what to do."""


@dataclass(frozen=True)
class Freeze:
    """One freeze, as it stands in the table."""

    commit: str
    recorder: str
    join: str
    solver: str
    #: Empty where thresholds have no file of their own yet: they are part of the solver then.
    thresholds: str
    judge: str

    @property
    def name(self) -> str:
        """Names commit and judge: another judge is another freeze."""
        return f"{self.commit[:8]}/{self.judge[:8]}"

    def to_json(self) -> dict[str, str]:
        """As a plain object."""
        return {"freeze": self.name, **asdict(self)}


def freeze(revision: str) -> Freeze:
    """Hashes of a commit and of the judge in this tree. Raises FreezeError if there is no such commit."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise FreezeError(f"{revision}: expected a commit of this repository, found none; see `git log`")
    commit = done.stdout.strip()
    return Freeze(
        commit,
        **{part: hash_of_commit(commit, paths) for part, paths in PARTS.items()},
        judge=hash_of_files(ROOT, JUDGE),
    )


def hash_of_commit(commit: str, paths: tuple[str, ...]) -> str:
    """SHA-256 over names and contents (git's own hashes of them) of what a commit holds below these paths."""
    command = ["git", "-C", str(ROOT), "ls-tree", "-r", "--full-tree", commit, "--", *paths]
    listed = subprocess.run(command, check=True, capture_output=True).stdout
    return hashlib.sha256(listed).hexdigest() if listed else ""


def hash_of_files(root: Path, paths: tuple[str, ...]) -> str:
    """SHA-256 over names and contents of the files that are there now, built ones left out."""
    total = hashlib.sha256()
    for path in paths:
        place = root / path
        files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        for file in files:
            if file.suffix not in (".pyc",):
                content = file.read_bytes()
                total.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def checkout(frozen: Freeze) -> Path:
    """A worktree of the commit with its program built; gives its `whodisk`. Minutes the first time.

    Raises FreezeError if it cannot be built.
    """
    tree = CHECKOUTS / frozen.commit[:12]
    whodisk = tree / ".venv" / "bin" / "whodisk"
    done = tree / ".built"
    if done.exists() and whodisk.exists():
        return whodisk
    CHECKOUTS.mkdir(parents=True, exist_ok=True)
    if not tree.exists():
        _run(["git", "-C", str(ROOT), "worktree", "prune"])
        _run(["git", "-C", str(ROOT), "worktree", "add", "--detach", str(tree), frozen.commit])
    # Crates of others are built once for all freezes.
    shared = CHECKOUTS / "target"
    shared.mkdir(exist_ok=True)
    if not (tree / "target").exists():
        (tree / "target").symlink_to(shared)
    _run(["make", "build"], cwd=tree)
    done.touch()
    return whodisk


def environment(whodisk: Path) -> dict[str, str]:
    """For programs of a freeze: they find their own binary and their own modules, not this tree's."""
    return {**_inherited(), "WHODISK_AGENT": str(whodisk.parent / "whodisk-agent")}


def _inherited(*prefixes: str) -> dict[str, str]:
    """This process's variables, without those that make another tree's Python look at this one, and without those that begin so."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith((*OF_THIS_TREE, *prefixes))
    }


def _run(command: list[str], cwd: Path | None = None) -> None:
    # Variables that this tree's make handed down would make the other tree's look at this one.
    kept = _inherited("MAKE", "MFLAGS", "WHODISK_")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=kept)
    if done.returncode:
        raise FreezeError(
            f"{' '.join(command)}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-800:]}"
        )
