"""`whodisk export` of a real run, and other programs that read what it wrote."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import BIN, ROOT, Run, meta, write_spec
from whodisk.reading.views import Case


@pytest.fixture
def run_case(whodisk: Run, work: Path) -> Path:
    """300 ms of reads and writes of a file, as their own layer saw them."""
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="300ms", rate="2000/s")
    whodisk("run", spec, "--app-only", "-o", "run.case")
    return work / "run.case"


def test_fio_replays_what_was_run(whodisk: Run, work: Path, run_case: Path) -> None:
    said = json.loads(whodisk("export", "fio-iolog", run_case, "-o", "run.iolog", "--json").stdout)
    rows = meta(run_case)["layers"]["app"]["rows"]
    assert said["rows"] == rows and said["left_out"] == {} and said["not_carried"]
    lines = [line.split() for line in (work / "run.iolog").read_text().splitlines()[1:]]
    done = subprocess.run(
        ["fio", "--name=replay", "--read_iolog=run.iolog", "--ioengine=psync", "--output-format=json"],
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    job = json.loads(done.stdout)["jobs"][0]
    assert job["error"] == 0
    for action in ("read", "write"):
        sizes = [int(line[4]) for line in lines if line[2] == action]
        assert (job[action]["total_ios"], job[action]["io_bytes"]) == (len(sizes), sum(sizes))
    # When it does what is fio's matter: after a late sleep it may run ahead. The moments in the log are ours.
    with Case(run_case) as case:
        begins = [int(row["start_ns"]) for row in case.rows("SELECT start_ns FROM ops ORDER BY start_ns")]  # type: ignore[arg-type]
    moments = [int(line[0]) for line in lines if line[2] in ("read", "write")]
    assert moments == [(begin - begins[0]) // 1000 for begin in begins]


def test_files_are_private_named_after_the_case_and_not_replaced(
    whodisk: Run, work: Path, run_case: Path
) -> None:
    for form in ("perfetto", "fio-log", "hdr", "csv", "arrow"):
        whodisk("export", form, run_case, umask=0)
    written = sorted(path.name for path in work.iterdir() if path.name.startswith("run") and path.is_file())
    assert written == ["run.arrow", "run.csv", "run.hlog", "run.pftrace", "run_lat.1.log"]
    assert {stat.S_IMODE((work / name).stat().st_mode) for name in written} == {0o600}
    assert "--overwrite" in whodisk("export", "csv", run_case, code=2).stderr
    before = (work / "run.csv").read_bytes()
    said = whodisk("export", "csv", run_case, "--overwrite", "--from", "100ms", "--op", "read").stdout
    assert "run.csv: " in said and len((work / "run.csv").read_bytes()) < len(before)
    assert "FORMAT" in whodisk("export", code=2).stderr
    names = [row["name"] for row in json.loads(whodisk("export", "--list", "--json").stdout)]
    assert names[0] == "perfetto" and len(names) == 6


def test_a_case_that_was_not_sealed_is_sealed_first(whodisk: Run, work: Path) -> None:
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="100ms")
    whodisk("run", spec, "--app-only", "--no-seal", "-o", "raw.case")
    assert "sealing" in whodisk("export", "csv", "raw.case").stderr


#: Before the cells: a kernel without ipywidgets, as DuckDB recognises it. DuckDB can show no progress there, and refuses to be asked.
KERNEL = """
import sys, types
sys.modules["IPython"] = ipython = types.ModuleType("IPython")
ipython.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["ipywidgets"] = None
"""


@pytest.mark.slow
def test_the_notebook_runs(work: Path) -> None:
    """Cell by cell, as a kernel would, the value of each last expression left aside."""
    notebook = json.loads((ROOT / "examples/case.ipynb").read_text())
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([KERNEL, *cells])],
        check=False,
        cwd=work,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "the verdict names the slow drive"
