"""`whodisk import`, from a file to a verdict."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from whodisk.verdict.solve import solve

MAP = "host=host,device=disk,t=ts:s,latency=lat:us,throughput=tp:MB/s"


@pytest.fixture
def agent() -> str:
    path = os.environ.get("WHODISK_AGENT", "")
    if not os.access(path, os.X_OK):
        pytest.skip("WHODISK_AGENT names no program; make build installs it")
    return path


def drives(path: Path) -> Path:
    """Six drives of a host, sampled every 15 s for an hour and a half; disk4 is 1.7 times as slow."""
    rng = np.random.default_rng(1)
    lines = ["host,ts,disk,lat,tp"]
    for moment in range(360):
        for disk in range(6):
            latency = 80 * np.exp(rng.normal(0, 0.1)) * (1.7 if disk == 4 else 1)
            shown = "" if rng.random() < 0.05 else f"{latency:.2f}"
            lines.append(
                f"db7,{1_700_000_000 + 15 * moment},disk{disk},{shown},{20 * np.exp(rng.normal(0, 0.1)):.3f}"
            )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_from_a_file_to_a_verdict(agent: str, tmp_path: Path) -> None:
    case = tmp_path / "case"
    command = [
        agent,
        "import",
        "--as",
        "series",
        str(drives(tmp_path / "drives.csv")),
        "--map",
        MAP,
        "-o",
        str(case),
        "--json",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    summary = json.loads(done.stdout)
    assert summary["records"] == 6 * 360
    assert "of 2160 samples of latency_ns" in summary["not_observed"][0]["what"]
    subprocess.run([agent, "verify", str(case)], check=True, capture_output=True)
    meta = json.loads((case / "case.json").read_text())
    assert meta["start_utc"] == "2023-11-14T22:13:20Z"
    verdict = solve(case)
    assert [f.culprit.name for f in verdict.findings] == ["db7/disk4"]
    assert any("single operations" in caveat.what for caveat in verdict.cannot_exclude)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "blkparse9", "drives.csv"], "expected one of biosnoop"),
        (["series", "drives.csv"], "--map"),
        (["drives.csv"], "say what it is with --as"),
        (["series", "none.csv", "--map", MAP], "none.csv: cannot open"),
        (["series", "drives.csv", "--map", "device=disk,t=ts:s,latency=lag:us"], "a column 'lag'"),
    ],
)
def test_errors_leave_no_case(agent: str, tmp_path: Path, words: list[str], said: str) -> None:
    drives(tmp_path / "drives.csv")
    command = [agent, "import", *words, "-o", "case"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "case").exists()) == (2, False)
    assert said in done.stderr


def test_published_means_are_told_with_what_they_hold(agent: str, tmp_path: Path) -> None:
    """The three phases of an array's test: means and ratios as published, and nothing that the samples cannot tell."""
    folder = Path(__file__).parents[2] / "crates/import/tests/fixtures/netapp-sysstat"
    command = [
        agent,
        "import",
        *(str(folder / f"{name}.txt") for name in "abc"),
        "-o",
        str(tmp_path / "case"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    verdict = solve(tmp_path / "case")
    assert (verdict.status, verdict.findings) == ("insufficient", [])
    said = " ".join(f"{caveat.what}: {caveat.because}" for caveat in verdict.cannot_exclude)
    for words in (
        "7079 NFS",
        "5898 NFS",
        "0.833 of a",
        "6664 NFS",
        "0.941 of a",
        "idle samples",
        "warm-up",
        "bursts",
    ):
        assert words in said, said
