"""`whodisk import`, from a file to a verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet

from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

FIXTURES = Path(__file__).parents[2] / "crates/import/tests/fixtures"
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
        (["--as", "blkparse9", "drives.csv"], "did you mean blkparse?"),
        (["series", "drives.csv"], "--map"),
        (["drives.csv"], "found a table with the columns host, ts, disk, lat, tp"),
        (["series", "none.csv", "--map", MAP], "none.csv: cannot open"),
        (["ops", "drives.csv", "--map", "start=ts:s,device=disk"], "a trace without latencies"),
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
    folder = FIXTURES / "netapp-sysstat"
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


def imported(agent: str, name: str, case: Path) -> Case:
    """The fixtures of a format as a case."""
    files = sorted(file for file in (FIXTURES / name).iterdir() if file.name not in ("golden.txt", "map"))
    command = [agent, "import", "--as", name, *map(str, files), "-o", str(case)]
    if (FIXTURES / name / "map").exists():
        command += ["--map", (FIXTURES / name / "map").read_text()]
    subprocess.run(command, check=True, capture_output=True)
    return Case(case)


# What a person reads in the fixtures: metric of a subject at its n-th sample, in base units.
SAMPLES = [
    # 3.1 s over the volume's IOPS limit; 180,000 reads took 240 s together.
    ("amazon-d0", "volume", "volume_iops_limit_ns", 0, 3.1e9),
    ("amazon-d0", "volume", "read_latency_ns", 0, 240e9 / 180_000),
    # 20,609 of 22,844 requests lie in the bin of 16 to 31 us.
    ("biolatency", "loop0", "latency_p50_ns", 0, 24_000),
    ("db-bench", "fillrandom (db_bench.txt)", "latency_p99.9_ns", 0, 16_081_430),
    ("diskspd", "diskspd run", "write_latency_p99_ns", 0, 1.2e6),
    ("iometer", "PHYSICALDRIVE:1 (4K_60r_55rnd)", "latency_ns", 0, 1.2301e6),
    # Of buckets A to D, read: 9, 2, 1, 0 and before it 7, 1, 0, 0.
    ("ocp-c3", "drive", "read_commands_over_5ms", 0, 8),
    ("ocp-c3", "drive", "read_commands_over_10ms", 1, 3),
    ("smart-json", "nvme0", "media_errors", 0, 2),
    ("ycsb", "READ (ycsb.txt)", "latency_p99.9_ns", 1, 90_111_000),
]


@pytest.mark.parametrize("name", sorted({name for name, *_ in SAMPLES}))
def test_samples_are_what_the_tool_printed(agent: str, tmp_path: Path, name: str) -> None:
    with imported(agent, name, tmp_path / "case") as case:
        for _, subject, metric, number, expected in (row for row in SAMPLES if row[0] == name):
            rows = case.rows(
                f"SELECT value FROM series WHERE subject = '{subject}' AND metric = '{metric}' ORDER BY time_ns"
            )
            assert rows[number]["value"] == pytest.approx(expected), (subject, metric)


def test_dumps_of_rocksdb_are_subtracted(agent: str, tmp_path: Path) -> None:
    """Its statistics are since the start; a mean is that of what came between two dumps."""
    log = (FIXTURES / "rocksdb-log/LOG").read_text()
    dumps = re.findall(r"rocksdb\.db\.write\.micros .* COUNT : (\d+) SUM : (\d+)", log)
    (count0, sum0), (count1, sum1) = ((int(count), int(total)) for count, total in dumps[:2])
    with imported(agent, "rocksdb-log", tmp_path / "case") as case:
        rows = case.rows("SELECT value FROM series WHERE metric = 'db_write_latency_ns' ORDER BY time_ns")
        assert rows[0]["value"] == pytest.approx(1e3 * (sum1 - sum0) / (count1 - count0))
        kinds = case.rows("SELECT kind, count(*) AS many FROM events GROUP BY kind ORDER BY kind")
    said = {row["kind"]: row["many"] for row in kinds}
    assert said["flush_started"] == log.count('"event": "flush_started"')


def test_commands_of_a_bus_are_paired(agent: str, tmp_path: Path) -> None:
    """From the doorbell to the completion entry, whatever the order of the completions; one was not completed."""
    with imported(agent, "bus", tmp_path / "case") as case:
        rows = case.rows("SELECT * FROM ops ORDER BY start_ns, op")
    found = [(row["op"], row["offset_bytes"], row["size_bytes"], row["latency_ns"]) for row in rows]
    assert found == [
        ("read", 2048 * 512, 4096, 81_000),
        ("read", 4096 * 512, 4096, 5_300_000),
        ("write", 8192 * 512, 16384, 22_000),
    ]
    # Status code type 2, code 0x81.
    assert [row["error"] for row in rows] == [0, 0x281, 0]


@pytest.mark.parametrize("name", ["rocksdb-queries", "rocksdb-block-cache"])
def test_traces_without_latency_get_no_verdict_of_latency(agent: str, tmp_path: Path, name: str) -> None:
    imported(agent, name, tmp_path / "case").close()
    verdict = solve(tmp_path / "case")
    assert (verdict.status, verdict.findings) == ("insufficient", [])
    assert any(caveat.what == "latencies" for caveat in verdict.cannot_exclude)


def test_a_drives_counters_stand_beside_the_hosts_requests(agent: str, tmp_path: Path) -> None:
    """The host saw nine reads over 5 ms, the drive counted seven between two snapshots: two at least waited outside it."""
    events = []
    for number in range(270):
        begin_us, latency_us = number * 10_000, 7_000 if number % 30 == 7 else 120
        for action, moment_us in (("Q", begin_us), ("D", begin_us + 3), ("C", begin_us + 3 + latency_us)):
            events.append((moment_us, action, number * 8))
    lines = [
        f"  8,0    0 {at:8d} {us // 10**6:5d}.{us % 10**6 * 1000:09d}   697  {action:>2} {'R':>3} {sector} + 8 [job]"
        for at, (us, action, sector) in enumerate(sorted(events), 1)
    ]
    (tmp_path / "host.txt").write_text("\n".join(lines) + "\n")
    pages = [str(FIXTURES / "ocp-c3" / name) for name in ("a_before.bin", "c_after.json")]
    command = [agent, "import", *pages, "host.txt", "-o", "case"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    said = json.loads((tmp_path / "case/case.json").read_text())["not_observed"]
    [reads] = [one for one in said if "reads over 5 ms" in one["what"]]
    assert "the host's log has 9" in reads["what"] and "the drive counted 7" in reads["what"]
    assert "2 of the host's at least waited outside the drive" in reads["because"]


def test_operations_of_parquet_are_those_of_csv(agent: str, tmp_path: Path) -> None:
    lines = ["ts,lat,kind,place,bytes,disk"]
    lines += [f"{1000 * n},{100 + n % 7}.5,{'RW'[n % 2]},{8 * n},4096,sda" for n in range(50)]
    (tmp_path / "ops.csv").write_text("\n".join(lines) + "\n")
    parquet.write_table(csv.read_csv(tmp_path / "ops.csv"), tmp_path / "ops.parquet")
    columns = "start=ts:us,latency=lat:us,op=kind,offset=place:sectors,size=bytes:B,device=disk,layer=block"
    found = []
    for name in ("ops.csv", "ops.parquet"):
        command = [agent, "import", "--as", "ops", name, "--map", columns, "-o", f"{name}.case"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        with Case(tmp_path / f"{name}.case") as case:
            found.append(case.rows("SELECT * EXCLUDE (op_id) FROM ops ORDER BY start_ns"))
    assert found[0] == found[1]
    assert [found[0][3][key] for key in ("op", "latency_ns", "offset_bytes")] == [
        "write",
        103_500,
        3 * 8 * 512,
    ]


def test_damage_leaves_the_good_part_and_is_told(agent: str, tmp_path: Path) -> None:
    """A bad line ends the import with its place; --keep-going leaves it out; a file that is cut off keeps what is whole."""
    rows = [f"{n}, {90_000 + n}, 0, 4096, {n * 4096}, 0x0000" for n in range(100)]
    whole, log = "\n".join(rows) + "\n", tmp_path / "run_lat.1.log"
    command = [agent, "import", str(log), "-o", str(tmp_path / "case"), "--json"]

    def run(text: str, *more: str) -> subprocess.CompletedProcess[str]:
        log.write_text(text)
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False)

    bad = whole.replace("60, 90060,", "60, x,")
    said = run(bad)
    assert said.returncode == 2 and "run_lat.1.log: line 61" in said.stderr and "'x'" in said.stderr
    kept = json.loads(run(bad, "--keep-going").stdout)
    assert (kept["records"], kept["left_out"]) == (99, 1)
    shutil.rmtree(tmp_path / "case")
    cut = json.loads(run(whole[: whole.index("70, 90070") + 6]).stdout)
    assert cut["records"] == 70 and any("cut off" in one["because"] for one in cut["not_observed"][:1])
    # Cut inside a number, what is left is a number, too: 0x00 of 0x0000 looks whole.
    for end in (1, 2, 3):
        shutil.rmtree(tmp_path / "case")
        text = whole[: whole.index("\n71, ") - end]
        cut = json.loads(run(text).stdout)
        place = f"run_lat.1.log: line 71 (byte {text.rindex(chr(10)) + 1}): expected the end of a line"
        assert cut["records"] == 70 and place in cut["cut"][0], cut["cut"]


def test_every_format_has_its_row(agent: str) -> None:
    """What makes such a log, and what is kept of it, is on the page of formats; a row of no format is none."""
    listed = json.loads(
        subprocess.run([agent, "import", "--list", "--json"], check=True, capture_output=True).stdout
    )
    page = (FIXTURES.parents[3] / "docs/reference/import-formats.md").read_text(encoding="utf-8")
    told = [
        name
        for cell in re.findall(r"^\| (`[^|]+`) \|", page, re.M)
        for name in re.findall(r"`([^`]+)`", cell)
    ]
    assert sorted(told) == sorted(one["name"] for one in listed)
