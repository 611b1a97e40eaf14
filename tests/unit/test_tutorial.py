"""Every command of the tutorials, in order and as printed; what a page shows of an output is in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: How many commands each has.
PAGES = [
    pytest.param("tutorial", 7, id="one-drive-of-many", marks=pytest.mark.slow),
    pytest.param("slow-commits", 5, id="slow-commits"),
    pytest.param("cloud-limit", 6, id="cloud-limit", marks=pytest.mark.slow),
]


def steps(page: Path) -> list[tuple[str, list[str]]]:
    """Commands, each with the lines of output below it."""
    found: list[tuple[str, list[str]]] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ "):
            found.append((line.removeprefix("    $ "), []))
        elif line.startswith("    "):
            found[-1][1].append(line.strip())
    return found


@pytest.mark.parametrize(("name", "number"), PAGES)
def test_a_tutorial_runs_as_printed(name: str, number: int, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    found = steps(ROOT / f"docs/start/{name}.md")
    assert len(found) == number
    for command, shown in found:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        # Sentences are wrapped where the terminal ends.
        printed = " ".join(done.stdout.split())
        for line in shown:
            assert " ".join(line.split()) in printed, f"{command}: expected '{line}', found: {done.stdout}"
