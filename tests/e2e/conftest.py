"""The installed command in directories of its own; what this host cannot do is skipped by name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
WHODISK = BIN / "whodisk"
AGENT = BIN / "whodisk-agent"
ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., "subprocess.CompletedProcess[str]"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Whoever started pytest in the background did that, and a shell cannot trap what it inherits as ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def block_obstacle() -> str | None:
    """Why block requests cannot be recorded here; None if they can."""
    # It ends with 1 on a kernel that is not supported.
    done = subprocess.run([AGENT, "doctor", "--json"], capture_output=True, text=True, check=False)
    missing = [
        c for c in json.loads(done.stdout)["checks"] if not c["ok"] and c["needed_for"] == "layer block"
    ]
    return "; ".join(f"{c['name']}: {c['found']}" for c in missing) or None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests marked `root` where their needs are not met, with the reason."""
    if item.get_closest_marker("root") is None:
        return
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if (obstacle := block_obstacle()) is not None:
        pytest.skip(f"block requests cannot be recorded here: {obstacle}")


@contextmanager
def started(*command: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program with its error output in a pipe. Nothing of it is left running, whatever the test finds."""
    options = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True} | options
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def work() -> Iterator[Path]:
    """An empty directory on the disk that holds the sources (a temporary directory may be in memory)."""
    parent = ROOT / "build"
    parent.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="e2e-", dir=parent))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def whodisk(work: Path) -> Run:
    """Runs `whodisk` in `work` and checks what must hold for every run: no traceback, no panic."""

    def run(*arguments: str | Path, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"cwd": work, "capture_output": True, "text": True, "timeout": 120, **options}
        done = subprocess.run([str(WHODISK), *map(str, arguments)], check=False, **options)
        said = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        for word in ("Traceback", "panicked", "internal error"):
            assert word not in said, said
        assert done.returncode == code, said
        return done

    return run


def write_spec(path: Path, target: Path | str, **keys: str | int) -> Path:
    """An access specification of 4 KiB reads and writes, with `keys` over the defaults."""
    settings: dict[str, str | int] = {
        "file_size": "16MiB",
        "block_sizes": "4KiB",
        "read": "60%",
        "random": "55%",
        "workers": 2,
        "queue_depth": 8,
        "duration": "1s",
        "seed": 7,
        **keys,
    }
    # JSON strings and numbers are TOML ones too.
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    text = f'[workload]\ntargets = ["{target}"]\nallow_overwrite = true\n' + "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def meta(case: Path) -> dict[str, Any]:
    """`case.json`."""
    content: dict[str, Any] = json.loads((case / "case.json").read_text(encoding="utf-8"))
    return content
