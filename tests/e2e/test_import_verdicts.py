"""What is concluded from the sample of every format: as much as its data allow, and not a word more.

`VERDICTS` pins status, judged operations and claims. Whoever changes a row changes what users of the format are told.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import AGENT, Run
from whodisk.errors import CaseError
from whodisk.experiment.measure import measure
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve

FIXTURES = Path(__file__).parents[2] / "crates/import/tests/fixtures"
FORMATS = sorted(path.name for path in FIXTURES.iterdir())

#: Format -> operations that ended. The samples are short: none holds what a verdict needs, and none gets a claim.
OPERATIONS = {
    "biosnoop": 36,
    "blkparse": 10,
    "blktrace": 30,
    "bus": 3,
    "fio-lat": 60,
    "fsslower": 12,
    "ops": 2,
    "pgbench": 4,
    "strace": 20,
    "trace-events": 31,
    "ycsb-raw": 3,
}


def imported(name: str, case: Path) -> Verdict:
    """The sample of a format, imported and solved."""
    files = sorted(file for file in (FIXTURES / name).iterdir() if file.name not in ("golden.txt", "map"))
    command: list[str | Path] = [AGENT, "import", "--as", name, *files, "-o", case]
    if (FIXTURES / name / "map").exists():
        command += ["--map", (FIXTURES / name / "map").read_text()]
    subprocess.run(command, check=True, capture_output=True)
    return solve(case)


@pytest.mark.parametrize("name", FORMATS)
def test_the_sample_of_a_format_gives_what_it_can(name: str, tmp_path: Path) -> None:
    verdict = imported(name, tmp_path / "case")
    claims = [finding.claim for finding in verdict.findings] + [item.what for item in verdict.cleared]
    assert (verdict.status, verdict.operations, claims) == ("insufficient", OPERATIONS.get(name, 0), [])
    assert verdict.summary[0].startswith("No verdict") and verdict.cannot_exclude
    if name not in OPERATIONS:
        # Summaries, samples and counters: nothing is said of single operations, nor of a stage they were in.
        assert (verdict.slowest, verdict.where_time_goes) == ([], {})


def fio_log(number: int) -> str:
    return f"{number}, {100_000 + number % 17 * 1000}, {number % 2}, 4096, {number * 4096}, 0x0000"


def pgbench_log(number: int) -> str:
    return f"0 {number} {1000 + number % 17} 0 {1_700_000_000 + number // 100} {number % 100 * 10_000}"


def ycsb_log(number: int) -> str:
    return f"READ,{1_700_000_000_000 + number},{400 + number % 17}"


def iostat_log(number: int) -> str:
    head = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz  aqu-sz  %util"
    rows = [
        f"sd{disk}             100.00    400.00     0.00   0.00    {0.5 + (number * 7 + ord(disk)) % 5 / 100:.2f}     4.00    0.05   5.00"
        for disk in "abcd"
    ]
    return "\n".join([head, *rows, ""])


@pytest.mark.parametrize(
    ("name", "head", "line", "status", "layer"),
    [
        ("x_lat.1.log", "", fio_log, "healthy", "app"),
        ("pgbench_log.7", "", pgbench_log, "healthy", "app"),
        ("ycsb.txt", "READ latency raw data: op, timestamp(ms), latency(us)\n", ycsb_log, "healthy", "app"),
        ("iostat.txt", "Linux 6.1.0 (vm)\t11/25/26\t_x86_64_\t(2 CPU)\n\n", iostat_log, "healthy", None),
    ],
)
def test_a_long_log_of_nothing_slow_is_judged_as_far_as_it_goes(
    whodisk: Run, work: Path, name: str, head: str, line: Callable[[int], str], status: str, layer: str | None
) -> None:
    (work / name).write_text(head + "\n".join(line(number) for number in range(2000)) + "\n")
    whodisk("import", name, "-o", "long.case")
    verdict = solve(work / "long.case")
    assert (verdict.status, verdict.findings) == (status, [])
    if layer is None:
        said = " ".join(verdict.summary)
        assert "in what was sampled" in said and "operation stands out" not in said
        assert (verdict.operations, verdict.slowest, verdict.where_time_goes) == (0, [], {})
        assert any(caveat.what == "single operations" for caveat in verdict.cannot_exclude)
    else:
        # One stage holds all: nothing below the program is cleared, or told from the rest.
        assert verdict.operations == 2000
        assert not any(item.what.startswith(("device", "vector", "stage")) for item in verdict.cleared)


# -- logs whose program left out what was late ------------------------------------------------------


def untimed(every: int, word: str) -> str:
    """A log of `pgbench -R 100 -L 20`, of which every so many transactions were skipped, or failed."""
    lines = []
    for number in range(4000):
        time = word if number % every == 0 else str(1000 + number % 17)
        lines.append(
            f"0 {number} {time} 0 {1_700_000_000 + number // 100} {number % 100 * 10_000} {0 if time == word else 200 + number % 7}"
        )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("every", "status"), [(100, "healthy"), (20, "limited"), (2, "limited")])
@pytest.mark.parametrize(
    ("word", "missing"),
    [("skipped", "skipped transactions would have taken"), ("deadlock", "failed transactions took")],
)
def test_what_has_no_time_is_not_healthy(
    whodisk: Run, work: Path, every: int, status: str, word: str, missing: str
) -> None:
    (work / "pgbench_log.7").write_text(untimed(every, word))
    whodisk("import", "pgbench_log.7", "-o", "untimed.case")
    verdict = solve(work / "untimed.case", expect=["p99<5ms", "iops>10"])
    said = f"{4000 // every:,} of 4,000 operations"
    is_too_much = status == "limited"
    assert (verdict.status, any(said in sentence for sentence in verdict.summary)) == (status, is_too_much)
    # What began is in time; whether all would have been is not known.
    assert [item.met for item in verdict.expectations] == [None if is_too_much else True, True]
    assert f"how long {4000 // every} {missing}" in [caveat.what for caveat in verdict.cannot_exclude]
    if is_too_much:
        with pytest.raises(CaseError, match="skipped" if word == "skipped" else "failed"):
            measure(work / "untimed.case", "app")
    else:
        assert measure(work / "untimed.case", "app").operations == 3960


# -- logs that hold slow operations alone ----------------------------------------------------------


def slower_log(rows: int) -> str:
    lines = [
        "Tracing ext4 operations slower than 10 ms",
        "TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME",
    ]
    for number in range(rows):
        latency = 512.75 if number == 77 else 10.5 + number % 40
        comm, kind = ("postgres", "S") if number % 4 == 0 else ("tar", "W")
        lines.append(
            f"12:{number // 60 % 60:02}:{number % 60:02} {comm:<14} 4711   {kind} 8192    0       {latency:8.2f} wal"
        )
    return "\n".join(lines) + "\n"


def biosnoop_log(rows: int) -> str:
    lines = ["TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)"]
    for number in range(rows):
        latency = 512.75 if number == 77 else 10.5 + number % 40
        lines.append(
            f"{number / 10:<11.6f} {'tar':<14} 4711   sda     {'RW'[number % 2]} {number * 8:<10} 4096   {latency:.2f}"
        )
    return "\n".join(lines) + "\n"


Slow = Callable[..., Path]


@pytest.fixture
def slow(whodisk: Run, work: Path) -> Slow:
    """Imports a log of 400 slow operations."""

    def make(tool: str, *more: str) -> Path:
        text = slower_log(400) if tool == "ext4slower" else biosnoop_log(400)
        (work / f"{tool}.txt").write_text(text)
        whodisk("import", f"{tool}.txt", *more, "-o", "slow.case")
        return work / "slow.case"

    return make


@pytest.mark.parametrize(("tool", "more"), [("ext4slower", []), ("biosnoop", ["--slower-than", "10ms"])])
def test_slow_operations_alone_are_told_and_not_judged(slow: Slow, tool: str, more: list[str]) -> None:
    case = slow(tool, *more)
    verdict = solve(case, expect=["p99<1s", "max<100ms"])
    assert (verdict.status, verdict.findings, verdict.cleared) == ("insufficient", [], [])
    said = " ".join(verdict.summary)
    assert "only operations over 10 ms were logged" in verdict.summary[0]
    # Who waited longest for what is what such a log is read for.
    assert "by tar: 513 ms" in verdict.summary[1]
    assert "400 operations" in said and "513 ms" in said
    # What can be judged of slow operations alone is the longest.
    assert [expectation.met for expectation in verdict.expectations] == [None, False]
    assert verdict.slowest[0].latency_ns == 512_750_000 and not any(one.apart for one in verdict.slowest)
    assert any("10 ms or less" in caveat.what for caveat in verdict.cannot_exclude)
    layer = "syscall" if tool == "ext4slower" else "block"
    with pytest.raises(CaseError, match="those over 10 ms alone"):
        measure(case, layer)


def test_a_whole_log_beside_is_judged_without_the_slow_ones(whodisk: Run, work: Path, slow: Slow) -> None:
    """Calls over 10 ms and all requests: the requests are judged, the calls are told."""
    (work / "all.txt").write_text(biosnoop_log(400))
    slow("ext4slower")
    whodisk("import", "all.txt", "ext4slower.txt", "-o", "both.case")
    whodisk("import", "all.txt", "-o", "all.case")
    verdict = solve(work / "both.case")
    assert (verdict.status, verdict.operations) == (solve(work / "all.case").status, 400)
    assert any("400 operations of layer syscall took over 10 ms" in line for line in verdict.minor)
    whodisk("import", "all.txt", "--slower-than", "10ms", "-o", "cut.case")
    with pytest.raises(CaseError, match="those over 10 ms alone"):
        solve(work / "all.case", against=work / "cut.case")
