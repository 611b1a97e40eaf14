"""What is made ready before a run, and what was found afterwards: files, fill level, cache state, preconditioning, layout. A new step is a class and a line of `STEPS`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.experiment.journal import Journal
from whodisk.experiment.safety import Target, is_block

#: Data are written and read in pieces of this size.
PIECE_BYTES = 4 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class Tools:
    """What steps need from the experiment."""

    journal: Journal
    #: Runs the binary `whodisk-agent`.
    agent: Callable[[list[str]], str]
    #: A folder for what is thrown away.
    scratch: Path
    seed: int


@dataclass(frozen=True)
class Step:
    """One kind of step, recognised by its first key."""

    key: str
    keys: tuple[str, ...]
    #: Raises WhodiskError for what cannot be done; changes nothing.
    check: Callable[[dict[str, Any]], None]
    #: Does it, and says what was found.
    do: Callable[[dict[str, Any], Tools], dict[str, Any]]


def check(steps: list[dict[str, Any]], by: str) -> list[Target]:
    """Checks steps, and gives the devices that they write to."""
    targets = []
    for step in steps:
        kind = kind_of(step, by)
        unknown = sorted(set(step) - set(kind.keys))
        if unknown:
            raise WhodiskError(
                f"{by}: prepare: {kind.key}: expected {', '.join(kind.keys)}; found '{unknown[0]}'"
            )
        kind.check(step)
        if kind.key == "precondition" and is_block(str(step["precondition"])):
            targets.append(Target(str(step["precondition"]), by))
    return targets


def kind_of(step: dict[str, Any], by: str) -> Step:
    """The kind of a step. Raises WhodiskError."""
    for kind in STEPS:
        if kind.key in step:
            return kind
    raise WhodiskError(
        f"{by}: prepare: expected one of {', '.join(kind.key for kind in STEPS)}; found {', '.join(step) or 'nothing'}"
    )


def do(steps: list[dict[str, Any]], by: str, tools: Tools) -> list[dict[str, Any]]:
    """Does the steps in their order; one record each."""
    return [{"step": step, "found": kind_of(step, by).do(step, tools)} for step in steps]


# -- files ------------------------------------------------------------------------------------


def _check_file(step: dict[str, Any]) -> None:
    path = Path(str(step["file"]))
    size_of(step.get("size"), f"file {path}: size")
    if step.get("contents", "random") not in CONTENTS:
        raise WhodiskError(
            f"file {path}: contents: expected one of {', '.join(CONTENTS)}, found {step['contents']!r}"
        )
    if path.exists() and not step.get("overwrite", False):
        raise WhodiskError(
            f"file {path}: expected no file there, found one; remove it, or say overwrite = true"
        )


def _random(count: int, seed: int) -> Iterator[bytes]:
    import numpy as np

    generator = np.random.default_rng(seed)
    for begin in range(0, count, PIECE_BYTES):
        yield generator.bytes(min(PIECE_BYTES, count - begin))


def _half(count: int, seed: int) -> Iterator[bytes]:
    """Every 4 KiB page half random, half zeros: a device that compresses halves it."""
    for piece in _random(count, seed):
        data = bytearray(piece)
        for begin in range(0, len(data), 4096):
            half = min(2048, len(data) - begin)
            data[begin + half : begin + 4096] = bytes(len(data[begin + half : begin + 4096]))
        yield bytes(data)


def _zeros(count: int, _seed: int) -> Iterator[bytes]:
    for begin in range(0, count, PIECE_BYTES):
        yield bytes(min(PIECE_BYTES, count - begin))


CONTENTS = {"random": _random, "half compressible": _half, "zeros": _zeros}


def _make_file(step: dict[str, Any], tools: Tools) -> dict[str, Any]:
    path, size_bytes = Path(str(step["file"])), size_of(step.get("size"), "size")
    tools.journal.add("command", str(path), "", f"rm -f -- {shlex.quote(str(path.resolve()))}")
    with path.open("wb") as file:
        for piece in CONTENTS[step.get("contents", "random")](size_bytes, tools.seed):
            file.write(piece)
        os.fsync(file.fileno())
    return {"size_bytes": path.stat().st_size, "allocated_bytes": path.stat().st_blocks * 512}


def _check_fill(step: dict[str, Any]) -> None:
    part_of(step.get("level"), f"fill {step['fill']}: level")
    if not Path(str(step["fill"])).is_dir():
        raise WhodiskError(
            f"fill {step['fill']}: expected a folder on the file system to be filled, found none"
        )


def _fill(step: dict[str, Any], tools: Tools) -> dict[str, Any]:
    folder, level = Path(str(step["fill"])), part_of(step.get("level"), "level")
    wanted = int(level * _level(folder)[1]) - _level(folder)[0]
    if wanted > 0:
        path = folder.resolve() / f".whodisk-fill-{os.getpid()}"
        tools.journal.add("command", str(path), "", f"rm -f -- {shlex.quote(str(path))}")
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, wanted)
            os.fsync(file.fileno())
    used, whole = _level(folder)
    return {"fill_level": round(used / whole, 4), "added_bytes": max(0, wanted)}


def _level(folder: Path) -> tuple[int, int]:
    """Bytes in use, and all that users may use."""
    info = os.statvfs(folder)
    used = (info.f_blocks - info.f_bfree) * info.f_frsize
    return used, used + info.f_bavail * info.f_frsize


# -- caches -----------------------------------------------------------------------------------

STATES = ("warm", "dropped", "evicted")


def _check_cache(step: dict[str, Any]) -> None:
    state = step["cache"]
    if state not in STATES:
        raise WhodiskError(f"cache: expected one of {', '.join(STATES)}, found {state!r}")
    if state == "warm" and "path" not in step:
        raise WhodiskError("cache = 'warm': expected path, the file that is read into the cache; found none")
    if state == "evicted" and "by" not in step:
        raise WhodiskError("cache = 'evicted': expected by, a file or device to read instead; found none")
    if state == "dropped" and "path" not in step and not os.access(DROP_CACHES, os.W_OK):
        raise WhodiskError(
            f"cache = 'dropped': expected to be able to write {DROP_CACHES}; name a path, or run it as root"
        )


def _cache(step: dict[str, Any], _tools: Tools) -> dict[str, Any]:
    """Warms, drops or evicts; says which part of `path` is in memory afterwards, where one is named."""
    state, path = step["cache"], Path(str(step["path"])) if "path" in step else None
    if state == "warm" and path is not None:
        found: dict[str, Any] = {"read_bytes": _read(path)}
    elif state == "evicted":
        found = {"read_bytes": _read(Path(str(step["by"])))}
    elif path is not None:
        os.sync()
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        found = {"dropped": str(path)}
    else:
        os.sync()
        DROP_CACHES.write_text("3", encoding="ascii")
        found = {"dropped": "everything"}
    part = None if path is None else part_in_memory(path)
    return found if part is None else found | {"part_in_memory": round(part, 4)}


def part_in_memory(path: Path) -> float | None:
    """Which part of a file the page cache holds, 0 to 1, as `fincore` of util-linux counts it; None where it does not know."""
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES,SIZE", str(path)]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    except OSError:
        return None
    if len(told) != 2 or int(told[1]) == 0:
        return None
    # The last page may be longer than what is left of the file.
    return min(1.0, int(told[0]) / int(told[1]))


def _read(path: Path) -> int:
    total = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            total += len(piece)
    return total


# -- devices and commands ---------------------------------------------------------------------


def _check_precondition(step: dict[str, Any]) -> None:
    target = str(step["precondition"])
    if not (is_block(target) or Path(target).is_file()):
        raise WhodiskError(f"precondition {target}: expected a block device or a file, found neither")
    passes = step.get("passes", 2)
    if not isinstance(passes, int) or not 1 <= passes <= 10:
        raise WhodiskError(f"precondition {target}: passes: expected 1 to 10, found {passes!r}")


def _precondition(step: dict[str, Any], tools: Tools) -> dict[str, Any]:
    """Writes all of it in order with random data, `passes` times (SNIA: twice before anything is measured)."""
    target, passes = str(step["precondition"]), int(step.get("passes", 2))
    block = str(step.get("block", "128KiB"))
    with Path(target).open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
    operations = passes * (size_bytes // size_of(block, "block"))
    spec = tools.scratch / "precondition.toml"
    spec.write_text(
        "[workload]\n"
        f'targets = ["{target}"]\nallow_overwrite = true\nblock_sizes = "{block}"\nread = "0%"\nrandom = "0%"\nqueue_depth = 8\n'
        f"operations = {operations}\nseed = {tools.seed + 1}\n",
        encoding="utf-8",
    )
    case = tools.scratch / "precondition.case"
    tools.agent(["run", str(spec), "-o", str(case), "--app-only", "--drop-raw"])
    subprocess.run(["rm", "-rf", "--", str(case)], check=True)
    return {"written_bytes": operations * size_of(block, "block"), "passes": passes}


def _check_command(step: dict[str, Any]) -> None:
    if not all(isinstance(step.get(key, ""), str) for key in ("command", "undo")):
        raise WhodiskError(f"prepare: command: expected text, found {step!r}")


def _command(step: dict[str, Any], tools: Tools) -> dict[str, Any]:
    if step.get("undo"):
        tools.journal.add("command", step["command"], "", step["undo"])
    return {"output": shell(step["command"])[-2000:]}


def shell(command: str, environment: dict[str, str] | None = None) -> str:
    """Runs a command of the experiment's author. Raises WhodiskError with its last words."""
    done = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=None if environment is None else {**os.environ, **environment},
    )
    if done.returncode != 0:
        raise WhodiskError(
            f"command '{command}': expected exit code 0, found {done.returncode}: {done.stdout.strip()[-500:]}"
        )
    return done.stdout.strip()


# -- layout -----------------------------------------------------------------------------------

#: What is done to a file, as words of `whodisk layout`.
LAYOUTS: dict[str, list[str]] = {
    "as it is": [],
    "fragmented": ["fragment"],
    "reallocated": ["reallocate", "--threshold", "1"],
    "contiguous": ["reallocate", "--threshold", "1", "--rewrite"],
}


def _check_layout(step: dict[str, Any]) -> None:
    state = step.get("state", "as it is")
    if state not in LAYOUTS:
        raise WhodiskError(
            f"layout {step['layout']}: state: expected one of {', '.join(LAYOUTS)}, found {state!r}"
        )
    if state == "fragmented":
        size_of(step.get("piece"), f"layout {step['layout']}: piece")


def _layout(step: dict[str, Any], tools: Tools) -> dict[str, Any]:
    path = str(step["layout"])
    words = LAYOUTS[step.get("state", "as it is")]
    if not words:
        return layout_of(path, tools)
    more = ["--piece", str(step["piece"]), "--seed", str(tools.seed)] if words[0] == "fragment" else []
    before = layout_of(path, tools)
    tools.agent(["layout", words[0], path, *words[1:], *more])
    return {"before": before, "after": layout_of(path, tools)}


def layout_of(path: str, tools: Tools) -> dict[str, Any]:
    """How a file lies: extents, runs, layout score (runs per 64 blocks: 1 is contiguous), seeks of a reader in order, and where on the device."""
    said = tools.agent(["layout", "measure", path, "--json"])
    # Progress of a long one may stand before it.
    found = json.loads(said[said.index("{") :])
    keys = ("extents", "runs", "runs_per_64_blocks", "seeks", "first_byte", "span_bytes")
    return {key: found[key] for key in keys}


def after(steps: list[dict[str, Any]], tools: Tools) -> list[dict[str, Any]]:
    """What is looked at again after a run: how the files of `layout` steps lie then."""
    return [
        {
            "step": {"layout": step["layout"], "state": "after the run"},
            "found": layout_of(str(step["layout"]), tools),
        }
        for step in steps
        if "layout" in step
    ]


STEPS = (
    Step("file", ("file", "size", "contents", "overwrite"), _check_file, _make_file),
    Step("fill", ("fill", "level"), _check_fill, _fill),
    Step("cache", ("cache", "path", "by"), _check_cache, _cache),
    Step("precondition", ("precondition", "passes", "block"), _check_precondition, _precondition),
    Step("layout", ("layout", "state", "piece"), _check_layout, _layout),
    Step("command", ("command", "undo"), _check_command, _command),
)


def size_of(value: Any, where: str) -> int:
    """Bytes of `4GiB`. Raises WhodiskError."""
    match = re.fullmatch(r"\s*(\d+)\s*(B|KiB|MiB|GiB|TiB)\s*", str(value))
    if not match:
        raise WhodiskError(f"{where}: expected a size with its unit such as '4GiB', found {value!r}")
    return int(match[1]) * UNITS[match[2]]


def part_of(value: Any, where: str) -> float:
    """0.9 of `90%`. Raises WhodiskError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(value))
    if not match or not 0 < float(match[1]) <= 99:
        raise WhodiskError(f"{where}: expected a part in percent up to 99%, found {value!r}")
    return float(match[1]) / 100
