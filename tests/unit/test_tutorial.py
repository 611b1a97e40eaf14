"""Every command of docs/start/tutorial.md, in order and as printed; what the page shows of an output is in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/start/tutorial.md"


def steps() -> list[tuple[str, list[str]]]:
    """Commands, each with the lines of output below it."""
    found: list[tuple[str, list[str]]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ "):
            found.append((line.removeprefix("    $ "), []))
        elif line.startswith("    "):
            found[-1][1].append(line.strip())
    return found


def test_the_tutorial_runs_as_printed(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    assert len(steps()) == 7
    for command, shown in steps():
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        for line in shown:
            assert line in done.stdout, f"{command}: expected '{line}', found: {done.stdout}"
