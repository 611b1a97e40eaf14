"""What sampled counters say of a device that has no peers to be compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import write_case
from whodisk import words
from whodisk.errors import WhodiskError
from whodisk.evidence.sampled_account import account
from whodisk.experiment.measure import common_layer
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

SECOND = 1_000_000_000


def series(path: Path, devices: dict[str, dict[str, Any]]) -> Path:
    """A case of a metric each second; NaN: the log does not say it then."""
    rows = [
        {"time_ns": at * SECOND, "kind": "device", "subject": device, "metric": metric, "value": float(value)}
        for device, metrics in devices.items()
        for metric, values in metrics.items()
        for at, value in enumerate(values)
        if not np.isnan(value)
    ]
    return write_case(path, tables={"series": rows}, devices=tuple(devices))


def device(latency_ns: Any, per_s: Any, busy: float, depth: Any) -> dict[str, Any]:
    count = len(per_s)
    return {
        "read_latency_ns": latency_ns,
        "read_operations_per_s": per_s,
        "busy_ratio": np.full(count, busy),
        "queue_depth": depth,
    }


def test_a_device_is_described_where_it_cannot_be_compared(tmp_path: Path) -> None:
    latency, per_s = np.full(60, 1e6), np.full(60, 100.0)
    latency[[7, 30, 41, 50]], per_s[[7, 30, 41, 50]] = 20e6, 100.0
    latency[41] = 25e6
    # Not asked for anything in some seconds: no latency is in the log then.
    latency[3], per_s[3] = np.nan, 0.0
    path = series(tmp_path / "case", {"sda": device(latency, per_s, 0.3, np.full(60, 0.1))})
    verdict = solve(path)
    assert verdict.status == "insufficient"
    [told] = [sentence for sentence in verdict.summary if sentence.startswith("sda: ")]
    assert told.startswith(
        "sda: reads took 1 ms on average in the median of 59 samples, 20 ms or more in one of twenty, and 25 ms at most (at 41 s)."
    )
    assert "In these slow ones there were 100 per second, no more than otherwise." in told
    assert told.endswith("It was busy for 30 % of a sample at most.")


def test_more_to_do_is_said_beside_what_was_slow(tmp_path: Path) -> None:
    latency, per_s = np.full(60, 1e6), np.full(60, 100.0)
    latency[10:14], per_s[10:14] = 9e6, 700.0
    path = series(tmp_path / "case", {"sda": device(latency, per_s, 1.0, latency * per_s / 1e9)})
    [told] = [sentence for sentence in solve(path).summary if sentence.startswith("sda: ")]
    assert "In these slow ones there were 700 per second, 7 times as many as otherwise." in told
    assert "busy for 95 % or more in 60 of 60 samples" in told
    assert "in flight" not in told


def test_requests_in_flight_that_nothing_explains_are_pointed_out(tmp_path: Path) -> None:
    """Recorded of a virtual disk: twelve requests in flight all the time, three a second, each done in a millisecond."""
    stuck = device(np.full(30, 1.2e6), np.full(30, 3.0), 1.0, np.full(30, 12.0))
    idle = device(np.full(30, np.nan), np.zeros(30), 0.0, np.zeros(30))
    verdict = solve(series(tmp_path / "case", {"vdb": stuck, "vda": idle}))
    [told] = [sentence for sentence in verdict.summary if sentence.startswith("vd")]
    assert (
        "12 requests were in flight in the median sample, where its rates and latencies make 0.0036" in told
    )
    assert told.startswith("vdb: ")
    assert len({(caveat.what, caveat.because) for caveat in verdict.cannot_exclude}) == len(
        verdict.cannot_exclude
    )


def summed(path: Path, rows: list[tuple[int, str, str, str, float]]) -> Path:
    """A case of (second, kind, subject, metric, value)."""
    names = ("time_ns", "kind", "subject", "metric", "value")
    series = [dict(zip(names, (at * SECOND, *rest), strict=True)) for at, *rest in rows]
    return write_case(path, tables={"series": series})


def test_a_summary_tells_its_percentiles(tmp_path: Path) -> None:
    """As fio's JSON, and RocksDB's statistics."""
    path = summed(
        tmp_path / "case",
        [
            (0, "process", "job", "read_operations", 6000.0),
            (0, "process", "job", "read_latency_p99.99_ns", 4.49e6),
            (0, "process", "job", "read_latency_p50_ns", 105e3),
            (0, "process", "job", "read_latency_p99_ns", 2.15e6),
            (0, "process", "job", "read_latency_p99.9_ns", 4.42e6),
            (0, "process", "job", "read_latency_max_ns", 4.5e6),
            (0, "process", "rocksdb", "db_flush_operations", 7.0),
            (0, "process", "rocksdb", "db_flush_latency_ns", 162e6),
        ],
    )
    summary = solve(path).summary
    assert (
        "job, one of 2: 6,000 reads: half within 105 us, 99 % within 2.15 ms, 99.9 % within 4.42 ms, the slowest 4.5 ms."
        in summary
    )
    assert "rocksdb: 7 db flushes: 162 ms on average." in summary


def test_intervals_tell_when_they_were_worst(tmp_path: Path) -> None:
    """As HdrHistogram's log: moments count from the first."""
    p99_ns, most_ns = (1e6, 2e6, 9e6, 1e6), (3e6, 90e6, 9e6, 3e6)
    rows = [
        (100 + at, "process", "READ", f"latency_{of}_ns", value)
        for of, values in (("p99", p99_ns), ("max", most_ns))
        for at, value in enumerate(values)
    ]
    [told] = [sentence for sentence in solve(summed(tmp_path / "case", rows)).summary if "READ" in sentence]
    assert told == (
        "READ: operations: the 99th percentile is 1.5 ms in the median of 4 intervals, 9 ms at most (at 2 s); "
        "the slowest took 90 ms (at 1 s)."
    )


def test_a_store_that_stalls_its_writers_says_how_long(tmp_path: Path) -> None:
    """RocksDB's `Interval stall`."""
    stalled = [
        (60 * at, "process", "rocksdb", "write_stall_ratio", share)
        for at, share in enumerate((0.0, 0.4, 0.853))
    ]
    told = "rocksdb stalled its own writers for 40 % of the time in the median of 3 intervals, 85.3 % at most (at 120 s)."
    assert told in solve(summed(tmp_path / "case", stalled)).summary
    none = [(at, kind, subject, metric, share / 100) for at, kind, subject, metric, share in stalled]
    assert not [s for s in solve(summed(tmp_path / "none", none)).summary if "stalled" in s]


def of_run(subject: str, count: float, p99_ns: float, most_ns: float, kind: str = "write") -> list[Any]:
    """A summary of one kind of operation."""
    return [
        (0, "process", subject, f"{kind}_operations", count),
        (0, "process", subject, f"{kind}_latency_p99_ns", p99_ns),
        (0, "process", subject, f"{kind}_latency_max_ns", most_ns),
    ]


def account_of(path: Path, rows: list[Any], *, clock: str = "") -> list[str]:
    summed(path, rows)
    meta = json.loads((path / "case.json").read_text())
    if clock:
        meta["clock"]["name"] = clock
    (path / "case.json").write_text(json.dumps(meta))
    return account(Case(path))


def test_the_slowest_kind_is_first_even_if_it_is_rare(tmp_path: Path) -> None:
    """fio's mix of 1.9 million writes and a fifth as many reads, which were the slow ones."""
    rows = [*of_run("job", 9000, 1e6, 300e6), *of_run("job", 2000, 30e6, 329e6, "read")]
    [told] = account_of(tmp_path / "case", rows)
    assert told == (
        "job: 2,000 reads, the slowest of 2 kinds by the 99th percentile: 99 % within 30 ms, the slowest 329 ms. "
        "9,000 writes: 99 % within 1 ms, the slowest 300 ms."
    )


def test_a_single_operation_makes_no_kind_the_slowest(tmp_path: Path) -> None:
    """YCSB's reads had the longest operation, and its inserts took longer by all else; the 99th percentile of these was cut off."""
    read = [
        *of_run("READ", 400_000, 11.7e6, 288e6, "run"),
        (0, "process", "READ", "run_latency_p95_ns", 8.2e6),
    ]
    insert = of_run("INSERT", 400_000, 9.5e6, 236e6, "run")
    insert[1] = (0, "process", "INSERT", "run_latency_p95_ns", 9.5e6)
    told = account_of(tmp_path / "cut", [*read, *insert])
    assert told[0].startswith("INSERT, the slowest of 2 by the 95th percentile: 400,000 operations")
    only_means = [
        (0, "process", name, f"run_latency{of}_ns", value)
        for name, mean, most in (("READ", 5e6, 288e6), ("INSERT", 6.8e6, 236e6))
        for of, value in (("", mean), ("_max", most))
    ]
    assert account_of(tmp_path / "means", only_means)[0].startswith("INSERT, the slowest on average of 2: ")


def test_a_much_longer_operation_of_another_kind_is_told_with_the_slowest(tmp_path: Path) -> None:
    """fio's writes had one of 820 ms, and were faster than its reads by all else; 4,000 have no percentile 99.99."""
    rows: list[Any] = []
    for kind, p99, p999, p9999, most in (
        ("read", 11.3e6, 118e6, 325e6, 324e6),
        ("write", 7.1e6, 114e6, 818e6, 820e6),
    ):
        rows += [
            *of_run("test", 4000, p99, most, kind),
            (0, "process", "test", f"{kind}_latency_p99.9_ns", p999),
            (0, "process", "test", f"{kind}_latency_p99.99_ns", p9999),
        ]
    [told] = account_of(tmp_path / "kinds", rows)
    assert told.startswith(
        "test: 4,000 reads, the slowest of 2 kinds by the 99.9th percentile (though one of the writes took 820 ms): 99 % within 11.3 ms, "
    )
    programs = [*of_run("a", 4000, 2e6, 30e6), *of_run("b", 4000, 1e6, 60e6)]
    assert account_of(tmp_path / "programs", programs)[0].startswith(
        "a, the slowest of 2 by the 99th percentile (though an operation of b took 60 ms): 4,000 writes: "
    )


def test_the_slowest_program_is_first_and_the_others_are_counted(tmp_path: Path) -> None:
    """YCSB's kinds of operations; what it does behind its run is no load."""
    rows = [
        *of_run("READ", 500, 1e6, 193e6, "run"),
        *of_run("UPDATE", 400, 2e6, 376e6, "run"),
        *of_run("SCAN", 3, 2e6, 200e6, "run"),
        *of_run("CLEANUP", 10, 2e6, 900e6, "run"),
    ]
    told = account_of(tmp_path / "case", rows)
    # Three scans have no percentile.
    assert told[0].startswith(
        "UPDATE, the slowest of 3 by its longest operation: 400 operations in the whole run: 99 % within 2 ms"
    )
    assert told[1].startswith("READ: 500 operations") and told[2].startswith("SCAN: 3 operations")
    assert told[3] == "1 more in the log: CLEANUP."
    # go-ycsb's sum has the tail of one of its kinds.
    total = [*of_run("TOTAL", 900, 2e6, 376e6, "run"), *rows]
    assert account_of(tmp_path / "go", total)[0].startswith(
        "UPDATE, the slowest of 4 by its longest operation: 400"
    )
    total = [*of_run("TOTAL", 900, 2e6, 377e6, "run"), *rows]
    assert account_of(tmp_path / "cut", total)[0].startswith(
        "TOTAL, the slowest of 4 by its longest operation: 900"
    )


def test_clones_of_a_job_are_compared(tmp_path: Path) -> None:
    """fio's numjobs without group_reporting."""
    rows = [row for at in range(1, 17) for row in of_run(f"job.{at}", 100, at * 1e6, (20 - at) * 10e6)]
    assert account_of(tmp_path / "case", rows) == [
        "job, 16 jobs: 1,600 writes: the 99th percentile is 8.5 ms in the median job, 16 ms at most (job.16); "
        "the slowest took 190 ms (job.1)."
    ]


def test_the_unit_that_a_log_does_not_say_is_doubted_in_the_sentence(tmp_path: Path) -> None:
    rows = [*of_run("job", 100, 1e6, 2e6), (0, "process", "job", "unit_doubt_ratio", 1000.0)]
    [told] = account_of(tmp_path / "case", rows)
    assert told.startswith(
        "job (latencies may be 1,000 times as long: the log does not say their unit): 100 writes"
    )


def test_kinds_with_means_alone_are_as_many_as_there_are(tmp_path: Path) -> None:
    """fio's averaged logs have no counts; RocksDB's statistics have."""
    rows = [
        (at, "process", "job.1", f"{kind}_latency_ns", (at + 1) * factor * 1e6)
        for at in range(3)
        for kind, factor in (("read", 1), ("write", 3))
    ]
    [told] = account_of(tmp_path / "fio", rows)
    assert told.startswith(
        "job.1: writes, with the slowest interval of 2 kinds: the mean is 6 ms in the median of 3 intervals, 9 ms at most (at 2 s). Reads: "
    )
    rows += [
        (0, "process", "job.1", f"{kind}_operations", many) for kind, many in (("read", 90.0), ("write", 5.0))
    ]
    [told] = account_of(tmp_path / "store", rows)
    assert told.startswith("job.1: 90 reads, one of 2 kinds: ") and "5 writes: " in told


def test_failures_are_in_the_first_sentence(tmp_path: Path) -> None:
    rows = [*of_run("READ", 100, 1e6, 2e6, "run"), (0, "process", "READ", "failures", 3.0)]
    assert account_of(tmp_path / "some", rows)[0].startswith("3 of 103 operations of READ failed. READ: 100")
    rows = [(0, "process", "READ", "failures", 1.0), *of_run("READ-FAILED", 1, 1e6, 1e6, "run")]
    assert account_of(tmp_path / "all", rows)[0].startswith(
        "1 operation of READ failed. READ-FAILED: 1 operation in the whole run: the slowest 1 ms."
    )
    # Its log counts those that did not fail: none.
    rows = [(0, "process", "READ", "failures", 1000.0), (0, "process", "READ", "run_operations", 0.0)]
    assert account_of(tmp_path / "none", rows) == ["All 1,000 operations of READ failed."]


def test_what_failed_comes_before_what_was_silent(tmp_path: Path) -> None:
    """YCSB's run in which no insert was stored: nothing ended, since all failed."""
    still = [(at, "process", "ycsb", "operations_per_s", 0.0) for at in range(4)]
    failed = [(0, "process", "INSERT", "failures", 10.0), (0, "process", "INSERT", "run_operations", 0.0)]
    cleaned = of_run("CLEANUP", 10, 5e6, 6e6, "run")
    [first, second] = account_of(tmp_path / "both", [*still, *failed, *cleaned])
    assert first.startswith("All 10 operations of INSERT failed. ycsb: no operation ended for 3 s ")
    assert second.startswith("CLEANUP: 10 operations in the whole run")
    [alone] = account_of(tmp_path / "alone", [*still, *failed])
    assert alone.startswith("All 10 operations of INSERT failed. ycsb: no operation ended for 3 s ")


def test_a_rate_of_one_sample_is_told_where_nobody_has_more(tmp_path: Path) -> None:
    """fio's log of operations in 80 ms."""
    one = [(0, "process", "job.1", "read_operations_per_s", 162.5)]
    assert account_of(tmp_path / "one", one) == ["job.1: reads: 162 per second in the only sample."]
    more = [(at, "process", "job.2", "read_operations_per_s", 100.0 + at) for at in range(4)]
    [told] = account_of(tmp_path / "more", one + more)
    assert told.startswith("job.2: reads: ")


def test_why_transactions_failed_and_which_were_tried_again_is_said(tmp_path: Path) -> None:
    run = of_run("pgbench", 100, 1e6, 2e6, "run")
    counts = {
        "run_serialization_failures": 4.0,
        "run_retried": 20.0,
        "run_retries": 31.0,
        "run_over_limit": 7.0,
    }
    rows = [*run, *((0, "process", "pgbench", metric, value) for metric, value in counts.items())]
    assert account_of(tmp_path / "run", rows)[0].startswith(
        "4 of 104 operations of pgbench failed (could not be serialized). 7 of 100 operations of pgbench took longer than the limit that "
        "it was given. 20 of 104 operations of pgbench were tried again, 31 times in all. pgbench: 100"
    )
    intervals = [
        (at, "process", "pgbench", metric, value)
        for at in (0, 1)
        for metric, value in (("failures", 3.0), ("serialization_failures", 2.0), ("deadlock_failures", 1.0))
    ]
    assert account_of(tmp_path / "intervals", [*run, *intervals])[0].startswith(
        "6 of 106 operations of pgbench failed (4 could not be serialized and 2 met a deadlock)."
    )


def test_what_did_not_end_is_no_mean(tmp_path: Path) -> None:
    """pgbench's -P against a database that slept: moments are those of its own clock."""
    rows: list[Any] = [(at, "process", "pgbench", "operations_per_s", 0.0) for at in range(3, 10)]
    rows += [
        (10, "process", "pgbench", "operations_per_s", 8.0),
        (10, "process", "pgbench", "latency_ns", 7.06e9),
    ]
    assert account_of(tmp_path / "case", rows, clock="the begin of pgbench") == [
        "pgbench: no operation ended for 9 s (from 0 s to 9 s). "
        "Operations: 7.06 s on average in the only one of 8 intervals that has any (at 10 s)."
    ]


def test_a_run_that_is_one_interval_is_told_once(tmp_path: Path) -> None:
    """YCSB's last status line and its summary."""
    line = [
        (0, "process", "READ", "operations", 5000.0),
        (0, "process", "READ", "latency_p99.9_ns", 5e6),
        (0, "process", "READ", "latency_min_ns", 1e3),
    ]
    [told] = account_of(tmp_path / "case", [*line, *of_run("READ", 5000, 1e6, 6e6, "run")])
    assert (
        told
        == "READ: 5,000 operations in the whole run: 99 % within 1 ms, 99.9 % within 5 ms, the slowest 6 ms."
    )


def test_the_end_of_runs_without_intervals(tmp_path: Path) -> None:
    """What pgbench prints at the end of two runs."""
    rows = [
        (0, "process", f"pgbench, run {at}", metric, value)
        for at, mean in ((1, 8e6), (2, 9e6))
        for metric, value in (
            ("run_operations", 1000.0 / at),
            ("run_operations_per_s", 50.0),
            ("run_latency_ns", mean),
            ("run_latency_stddev_ns", 1e6),
        )
    ]
    told = account_of(tmp_path / "case", rows)
    assert told[0] == (
        "pgbench, run 2, the slowest on average of 2: 500 operations (50 per second) in the whole run: "
        "9 ms on average, with a standard deviation of 1 ms."
    )


def test_of_many_percentiles_those_that_matter_are_told(tmp_path: Path) -> None:
    """YCSB's list of percentiles: the slowest stood behind 21 numbers."""
    rows: list[Any] = of_run("INSERT", 5_000_000, 543e3, 134e6, "run")
    rows += [(0, "process", "INSERT", f"run_latency_p{at}_ns", (40 + at) * 1e3) for at in range(5, 100, 5)]
    assert account_of(tmp_path / "case", rows) == [
        "INSERT: 5,000,000 operations in the whole run: half within 90 us, 90 % within 130 us, 99 % within 543 us, the slowest 134 ms."
    ]


def test_the_slowest_of_many_is_named_whatever_their_number(tmp_path: Path) -> None:
    rows = [row for at in range(70) for row in of_run(f"job-{at:02}", 1000, 1e6, (100 + at) * 1e6)]
    told = account_of(tmp_path / "case", rows)
    assert told[0].startswith(
        "job-69, the slowest of 70 by its longest operation: 1,000 writes: 99 % within 1 ms, the slowest 169 ms."
    )
    assert told[-1] == "67 more in the log: job-66, job-65, job-64 and 64 more."


def test_summaries_of_runs_are_no_intervals(tmp_path: Path) -> None:
    """fio's JSON, a file for each run: it has a count and the rate over the same time."""
    rows = [
        (30 * at, who, job, metric, value)
        for at, most in enumerate((3e9, 12e9, 2e9))
        for _, who, job, metric, value in [
            *of_run("disktest", 1000, 6e6, most),
            (0, "process", "disktest", "write_operations_per_s", 300.0),
        ]
    ]
    assert account_of(tmp_path / "case", rows) == [
        "disktest: 3,000 writes: the 99th percentile is 6 ms in the median of 3 runs, 6 ms at most (the run at 0 s); the slowest took 12 s (the run at 30 s)."
    ]


def test_a_rate_that_stays_lower_is_told_and_its_median_is_not(tmp_path: Path) -> None:
    """pgbench's -P: no interval took what the median over both levels is."""
    per_s = (4788, 4685, 4581, 4606, 4575, 2596, 1917, 1921, 1925, 1933)
    rows: list[Any] = [
        (30 * at, "process", "pgbench", metric, value)
        for at, rate in enumerate(per_s, 1)
        for metric, value in (("operations_per_s", rate), ("latency_ns", 20e9 / rate))
    ]
    assert account_of(tmp_path / "case", rows, clock="the begin of pgbench") == [
        "pgbench: operations per second: 4,606 until 150 s, 1,925 from 180 s on. "
        "Operations: the mean is 4.34 ms until 150 s, 10.4 ms from 180 s on (10 intervals), 10.4 ms at most (at 210 s)."
    ]


def test_the_lowest_rate_of_a_program_is_told(tmp_path: Path) -> None:
    """YCSB-cpp's status lines: one interval did a tenth of what the others did."""
    rows: list[Any] = [
        (10 * at, "process", "INSERT", metric, value)
        for at, rate in enumerate((149e3, 99e3, 68e3, 93e3, 9380, 90e3))
        for metric, value in (("operations_per_s", rate), ("latency_ns", 4e9 / rate))
    ]
    [told] = account_of(tmp_path / "case", rows)
    assert told.startswith(
        "INSERT: 9,380 operations per second at least (at 40 s), 91,500 in the median of 6 intervals. Operations: "
    )


def test_rates_of_devices_tell_which_fell_lowest(tmp_path: Path) -> None:
    """The series format, with a name of its own for a rate."""
    full = np.full(60, 380.0 * 2**20)
    fell = np.where((np.arange(60) >= 30) & (np.arange(60) < 40), 0.0, full)
    drives = {f"nvme{at}": {"throughput_bytes_per_s": of} for at, of in enumerate((full, fell, full))}
    told = solve(series(tmp_path / "bytes", drives)).summary
    assert told[1:4] == [
        "nvme1, the one of 3 that fell lowest: 380 MiB/s in the median of 60 samples, 0 B/s at least (from 30 s to 39 s), 380 MiB/s at most.",
        "nvme0: 380 MiB/s in all of 60 samples.",
        "nvme2: 380 MiB/s in all of 60 samples.",
    ]
    stays = series(tmp_path / "iops", {"sda": {"iops_per_s": np.where(np.arange(60) < 30, 3800.0, 900.0)}})
    assert (
        "sda: operations: 3,800 per second until 29 s, 900 per second from 30 s on, in 60 samples; 900 per second at least (from 30 s to 59 s), 3,800 per second at most."
        in solve(stays).summary
    )


def test_a_latency_by_another_name_is_told_and_idle_samples_are_counted(tmp_path: Path) -> None:
    took = np.array([33e6, 0.0, 35e6, 33e6])
    told = solve(series(tmp_path / "case", {"rgw": {"latency_ns": took, "latency_r_ns": took / 10}})).summary
    assert (
        "rgw: requests took 33 ms on average in the median of 3 samples and 35 ms at most (at 2 s). 1 more sample has a mean of 0: no operation ended in it. "
        "Latency_r was 3.3 ms on average in the median of 3 samples and 3.5 ms at most (at 2 s). 1 more sample has a mean of 0: no operation ended in it."
    ) in told


def test_a_busy_share_that_cannot_be_is_not_cut(tmp_path: Path) -> None:
    """Linux 2.6.10: 1,849.55 % of the time, and a queue that rate and latency do not make."""
    one = solve(series(tmp_path / "one", {"hdg": device([1.128e9], [195.0], 18.5, [1010.0])})).summary
    assert (
        "hdg: reads took 1.13 s on average, 195 operations per second in the only sample; "
        "its busy share of 1,850 % is impossible (a bug of the kernel, or a misread log); 1,010 in flight, where rate and latency make 220: these disagree."
    ) in one
    many = device(np.full(9, 1e6), np.full(9, 100.0), 18.5, np.full(9, 0.1))
    assert any(
        "Its busy share is above 100 % in 9 of 9 samples (1,850 % at most)" in said
        for said in solve(series(tmp_path / "many", {"hdg": many})).summary
    )


def test_a_disk_that_hangs_comes_before_busy_ones_and_before_its_volumes(tmp_path: Path) -> None:
    hangs = device([np.nan], [0.0], 1.0, [217.0])
    devices = {"dm-0": hangs, "sda": hangs, "sdb": device([2e9], [13.0], 1.0, [26.0])}
    told = solve(series(tmp_path / "case", devices)).summary
    assert [said.split(":")[0] for said in told[1:4]] == ["sda", "sdb", "dm-0"]


def test_who_is_as_bad_stands_beside_the_first(tmp_path: Path) -> None:
    """A short screen shows one device of a story of five."""
    hangs, busy = device([np.nan], [0.0], 1.0, [217.0]), device([2e7], [6225.0], 1.0, [142.0])
    devices = {"sda": hangs, "sdb": hangs, "sdc": busy, "sdd": busy, "sde": device([1e6], [9.0], 0.4, [0.0])}
    [first] = [said for said in solve(series(tmp_path / "one", devices)).summary if said.startswith("sda:")]
    assert first.endswith(
        "and it counted as busy. 1 more device was stuck, too: sdb. 2 more devices were as busy: sdc, sdd."
    )
    # Of many samples much is said of each device: the others come behind the first sentence.
    many = {f"sd{name}": device(np.full(30, 5e6), np.full(30, 90.0), 0.9, np.full(30, 0.5)) for name in "ab"}
    [first] = [said for said in solve(series(tmp_path / "many", many)).summary if said.startswith("sda:")]
    assert words.sentences(first)[1] == "1 more device was as busy: sdb."


def test_what_a_volume_takes_stands_beside_its_quick_disk(tmp_path: Path) -> None:
    """Encryption, or a queue above the disk: 2.9 ms where the disk took 95 us."""
    devices = {
        "nvme0n1": device([9.5e4] * 2, [5e4] * 2, 0.8, [5.0] * 2),
        "dm-0": device([2.9e6] * 2, [5e4] * 2, 0.8, [150.0] * 2),
    }
    [first] = [
        said for said in solve(series(tmp_path / "case", devices)).summary if said.startswith("nvme0n1:")
    ]
    assert first.endswith("1 more device was as busy: dm-0 (reads took 2.9 ms).")


def test_requests_that_took_longer_than_a_sample_come_first(tmp_path: Path) -> None:
    """Twelve in flight for seconds and hardly anything completes; then the queue is empty: no count was lost."""
    count = 12
    hangs = np.where(np.arange(count) < 8, 12.0, 0.1)
    devices = {
        "vdb": device(np.full(count, 1.2e6), np.full(count, 10.0), 0.95, hangs),
        "vdc": device(np.full(count, 3e6), np.full(count, 300.0), 1.0, np.full(count, 0.9)),
    }
    told = solve(series(tmp_path / "case", devices)).summary
    first = next(said for said in told if said.startswith(("vdb:", "vdc:")))
    assert first.startswith(
        "vdb: 12 requests were in flight in the median sample, where its rates and latencies make 0.012: they took longer than a sample"
    ), told


def test_the_kind_with_the_longest_sample_is_first(tmp_path: Path) -> None:
    """Reads of half a second at most, and writes of 156 s, which stood behind them."""
    count = 12
    writes = np.where(np.arange(count) == 3, 156e9, 5e7)
    of = device(np.full(count, 2e7), np.full(count, 9.0), 0.5, np.full(count, 3.0))
    more = {"write_latency_ns": writes, "write_operations_per_s": np.full(count, 9.0)}
    [first] = [
        said
        for said in solve(series(tmp_path / "case", {"sda": {**of, **more}})).summary
        if said.startswith("sda:")
    ]
    assert first.startswith(
        "sda: writes took 50 ms on average in the median of 12 samples and 156 s at most"
    ), first


def test_a_rate_of_all_that_fell_comes_before_what_a_kind_took(tmp_path: Path) -> None:
    """YCSB's status lines: 11,000 operations per second, and 500 for a while."""
    rows: list[Any] = [
        (10 * at, "process", who, metric, value)
        for at, rate in enumerate((11e3, 11e3, 509, 11e3, 10.5e3, 11e3))
        for who, metric, value in (
            ("ycsb", "operations_per_s", rate),
            ("READ", "count", 9e4),
            ("READ", "latency_p99_ns", 3e6),
        )
    ]
    assert account_of(tmp_path / "fell", rows)[0].startswith(
        "ycsb: operations: 11,000 per second in the median of 6 samples, 509"
    )
    # The last interval of a run may be a part of one.
    rates = {row[:4]: row[4] for row in rows}
    for at in (20, 50):
        rates[at, "process", "ycsb", "operations_per_s"] = 11e3 if at == 20 else 509.0
    last = [(*key, value) for key, value in rates.items()]
    assert account_of(tmp_path / "part", last)[0].startswith("READ:")


def test_one_long_interval_without_an_end_is_a_silence(tmp_path: Path) -> None:
    """pgbench's -P 6, which got no answer for 71 s."""
    rows: list[Any] = [
        (at, "process", "pgbench", metric, value)
        for at, rate in ((6, 5740), (12, 5977), (18, 5970), (24, 5984), (30, 5897), (107, 0))
        for metric, value in (("operations_per_s", rate), *([("latency_ns", 1.3e6)] if rate else []))
    ]
    [told] = account_of(tmp_path / "case", rows, clock="the begin of pgbench")
    assert told.startswith("pgbench: no operation ended for 77 s (from 30 s to 107 s)."), told


def test_the_lowest_rate_is_not_rounded(tmp_path: Path) -> None:
    """A rate that fell to 12 % of the usual one was told of before one that fell to 8 %, because it was the larger one."""
    drives = {
        name: {"iops_per_s": np.where(np.arange(60) == 30, part * usual, usual)}
        for name, usual, part in (("nvme0", 9000.0, 0.12), ("nvme1", 1000.0, 0.08))
    }
    told = solve(series(tmp_path / "case", drives)).summary
    assert told[1].startswith("nvme1, the one of 2 that fell lowest: "), told


def test_devices_that_did_nothing_are_told_where_no_other_did_anything(tmp_path: Path) -> None:
    idle = device([np.nan], [0.0], 0.0, [0.0])
    told = solve(series(tmp_path / "case", {"mmcblk0": idle})).summary
    assert "mmcblk0: no operation in the only sample." in told
    both = solve(series(tmp_path / "both", {"sda": idle, "sdb": device([2e6], [13.0], 0.1, [0.0])})).summary
    assert not any(said.startswith("sda") for said in both)


def test_a_log_of_rates_tells_how_low_they_fell(tmp_path: Path) -> None:
    """fio's bw and iops logs."""
    rows = [
        (at, "process", "job.1", metric, value * factor)
        for at, value in enumerate((10, 10, 2, 12))
        for metric, factor in (("read_throughput_bytes_per_s", 1 << 20), ("write_operations_per_s", 1))
    ]
    assert account_of(tmp_path / "case", rows) == [
        "job.1: reads: 10 MiB/s in the median of 4 samples, 2 MiB/s at least (at 2 s), 12 MiB/s at most. "
        "Writes: 10 per second in the median of 4 samples, 2 per second at least (at 2 s), 12 per second at most."
    ]


def test_bins_of_all_disks_are_described(tmp_path: Path) -> None:
    """biolatency without -D: the middles of bins are not exact."""
    rows = [
        (0, "component", "all disks", "operations", 38.0),
        (0, "component", "all disks", "latency_p50_ns", 96e3),
        (0, "component", "all disks", "latency_p99_ns", 3.07e6),
        (0, "component", "all disks", "latency_max_ns", 24.6e6),
        (0, "component", "all disks", "bin_width_ratio", 2.0),
    ]
    assert account_of(tmp_path / "case", rows) == [
        "all disks: 38 operations: half within about 96 us, the slowest about 24.6 ms."
    ]


def test_handlers_tell_which_took_most_time(tmp_path: Path) -> None:
    """hardirqs, with intervals, with counts, with the longest run."""
    rows = [
        (at, "component", name, "handler_time_ns", value * 1e6)
        for at in range(2)
        for name, value in (("eth0", 7 + at), ("timer", 2), ("rcu", 1), ("blkif", 0.5), ("nvme0q1", 0.5))
    ]
    assert account_of(tmp_path / "time", [*rows, (0, "component", "rcu", "handler_time_max_ns", 9e5)]) == [
        "Interrupt handlers took 23 ms in 2 intervals: eth0 15 ms (in one interval 8 ms at most, at 1 s), "
        "timer 4 ms, rcu 2 ms and 2 more 2 ms. The longest run took 900 us (rcu)."
    ]
    runs = [(0, "component", name, "handler_runs", 10.0) for name in ("timer", "rcu")]
    assert account_of(tmp_path / "runs", runs) == ["Interrupt handlers ran 20 times: rcu 10 and timer 10."]
    counts = [(0, "component", name, "interrupts", many) for name, many in (("ahci", 791.0), ("timer", 0.0))]
    assert account_of(tmp_path / "counts", counts) == [
        "791 interrupts between the snapshots: ahci 791; 1 handler had none."
    ]
    none = [(*row[:4], 0.0) for row in counts]
    assert account_of(tmp_path / "none", none) == ["No interrupt between the snapshots (ahci, timer)."]


def test_one_report_tells_the_busiest_disk_first(tmp_path: Path) -> None:
    """What people paste: one report, with volumes and loop devices before the disk in the alphabet."""
    one = {
        "dm-0": device([16e6], [80.0], 0.9, [1.3]),
        "loop0": device([17e6], [0.1], 0.0, [0.0]),
        "sda": device([2e6], [85.0], 0.07, [0.2]),
        "sdb": device([16e6], [85.0], 0.93, [1.4]),
    }
    told = [
        sentence
        for sentence in solve(series(tmp_path / "case", one)).summary
        if " in the only sample" in sentence
    ]
    assert [sentence.split(":")[0] for sentence in told] == ["sdb", "dm-0", "sda"]
    assert (
        told[0]
        == "sdb: reads took 16 ms on average, 85 operations per second, busy for 93 % of the time in the only sample. 1 more device was as busy: dm-0."
    )


def test_without_how_busy_devices_were_what_was_in_flight_tells(tmp_path: Path) -> None:
    def plain(latency_ns: float, per_s: float) -> dict[str, Any]:
        return {"read_latency_ns": np.full(9, latency_ns), "read_operations_per_s": np.full(9, per_s)}

    counters = {"dm-7": plain(9e6, 900.0), "sda": plain(1e6, 2.0), "sdc": plain(9e6, 900.0)}
    told = [
        text
        for text in solve(series(tmp_path / "case", counters)).summary
        if "in the median of 9 samples" in text
    ]
    assert [text.split(":")[0] for text in told] == ["sdc", "dm-7", "sda"]


def test_rates_without_latencies_are_told(tmp_path: Path) -> None:
    """iostat without -x."""
    rates = {"operations_per_s": np.full(5, 9564.0), "throughput_bytes_per_s": np.full(5, 164 * 2.0**20)}
    verdict = solve(series(tmp_path / "case", {"sda": rates}))
    assert verdict.status == "insufficient"
    assert verdict.summary[1] == (
        "sda: 9,564 operations per second (164 MiB per second) in 5 samples; the log does not say how long they took (iostat does with -x)."
    )


def test_the_worst_sample_keeps_a_log_from_being_healthy(tmp_path: Path) -> None:
    latencies = {f"sd{letter}": np.full(60, 5e6) for letter in "abcd"}
    latencies["sdc"][33] = 3.1e9
    verdict = solve(
        series(
            tmp_path / "case",
            {
                name: device(took, np.full(60, 120.0), 0.6, np.full(60, 0.6))
                for name, took in latencies.items()
            },
        )
    )
    assert verdict.status == "insufficient"
    assert verdict.summary[0].startswith("No verdict: on the whole devices are like their peers")
    assert (
        verdict.summary[1]
        == "The worst sample: reads of sdc took 3.1 s on average (at 33 s), 620 times as long as usual."
    )


def test_samples_count_as_their_operations_do(tmp_path: Path) -> None:
    two = {"sdd": device([4e6, 7e6], [550.0, 300.0], 0.6, [2.0, 2.0])}
    told = solve(series(tmp_path / "case", two)).summary
    assert (
        "sdd: reads took 5.06 ms on average, 425 operations per second, busy for 60 % of the time in 2 samples."
        in told
    )


def test_two_samples_that_are_far_apart_are_told_both(tmp_path: Path) -> None:
    """Two reports, one before and one while something is wrong: no sample is near their mean."""
    two = {"sdd": {**device([4e6, 600e6], [550.0, 50.0], 0.6, [2.0, 30.0]), "busy_ratio": [0.217, 0.991]}}
    told = solve(series(tmp_path / "case", two)).summary
    assert (
        "sdd: reads took 4 ms then 600 ms on average, 550 then 50 operations per second, busy for 21.7 % then 99.1 % of the time in 2 samples."
        in told
    )


def test_nothing_that_completes_is_told_of_one_sample(tmp_path: Path) -> None:
    told = solve(series(tmp_path / "case", {"sdl": device([np.nan], [0.0], 1.0, [42.0])})).summary
    assert (
        "sdl: no operation completed in the only sample, while 42 requests were in flight and it counted as busy."
        in told
    )


def test_reads_that_are_slow_while_there_are_many_writes(tmp_path: Path) -> None:
    """PostgreSQL's fsync: for three seconds 80 times as many writes, and reads that took up to 100 ms instead of 0.2."""
    read_ns = [0.19e6, 0.23e6, 0.2e6, 27.7e6, 11e6, 100e6, 0.32e6, 0.2e6]
    read_per_s = [6322.0, 6016.0, 6236.0, 105.0, 78.0, 10.0, 3819.0, 6482.0]
    write_ns = [2.6e6, 3.1e6, 3.2e6, 5.3e6, 5.2e6, 4e6, 4.2e6, 1.8e6]
    write_per_s = np.array([337.0, 303.0, 1059.0, 26173.0, 27199.0, 33488.0, 10096.0, 346.0])

    def told(name: str, writes: Any, reads: Any = read_per_s) -> str:
        both = {
            **device(read_ns, reads, 0.9, np.full(8, 2.0)),
            "write_latency_ns": write_ns,
            "write_operations_per_s": writes,
        }
        [said] = [
            said for said in solve(series(tmp_path / name, {"sda": both})).summary if said.startswith("sda:")
        ]
        return said

    assert told("many", write_per_s).startswith(
        "sda: reads took 275 us on average in the median of 8 samples and 100 ms at most (at 5 s); "
        "in the 3 samples in which they took 5 times the median or more there were 27,199 writes per second, 79 times as many as otherwise. "
        "Writes took 3.6 ms on average in the median of 8 samples and 5.3 ms at most (at 3 s). "
    )
    # As many as otherwise; more of them, and no queue; more reads, which need no other cause.
    assert "there were" not in told("alike", np.full(8, 27e3))
    assert "there were" not in told("few", write_per_s / 1e3)
    assert "there were" not in told("own", write_per_s, 1.0 / np.array(read_per_s))


def test_a_device_that_hangs_with_a_queue_depth_of_completions(tmp_path: Path) -> None:
    """An array of which iostat prints an aqu-sz of 0.00, as nothing completed: 100 % busy, above disks that rest."""
    one = {"md127": device([np.nan], [0.0], 1.0, [0.0]), "sda": device([np.nan], [0.0], 0.0, [0.0])}
    said = "md127: no operation completed in the only sample, while it counted as busy."
    assert said in solve(series(tmp_path / "one", one)).summary
    hangs = np.arange(30) >= 20
    array = {
        **device(np.where(hangs, np.nan, 1e6), np.where(hangs, 0.0, 300.0), 0.0, np.where(hangs, 0.0, 0.3)),
        "busy_ratio": np.where(hangs, 1.0, 0.3),
    }
    many = solve(series(tmp_path / "many", {"md127": array}))
    assert many.status == "slow"
    assert many.findings[0].claim.endswith(
        "md127 completed nothing for 10 s (from 19 s on), while it counted as busy."
    )
    # Busy all the log without an operation: the kernel may count one that is long gone.
    for name, per_s in (("never", np.zeros(30)), ("always_busy", np.where(hangs, 0.0, 300.0))):
        lost = solve(series(tmp_path / name, {"sda": device(np.full(30, 1e6), per_s, 1.0, np.zeros(30))}))
        assert lost.status == "insufficient"
        assert (
            lost.cannot_exclude[0].what.startswith("whether ") and "sda hangs" in lost.cannot_exclude[0].what
        )


def test_an_earlier_log_is_compared(tmp_path: Path) -> None:
    def log(name: str, took_ns: float) -> Path:
        devices = {
            disk: device(np.full(3, took), np.full(3, 50.0), 0.5, np.full(3, 1.0))
            for disk, took in (("sdd", took_ns), ("sde", 4e6))
        }
        return series(tmp_path / name, devices)

    before = log("before", 4.2e6)
    told = solve(log("now", 623e6), against=before).summary
    assert (
        "Against before: reads of sdd took 623 ms instead of 4.2 ms, 148 times as long; the others no longer."
        in told
    )
    assert (
        "Against before: nothing took 1.5 times as long on average (1 times at most)."
        in solve(log("same", 4.2e6), against=before).summary
    )
    other = series(
        tmp_path / "other", {"nvme0n1": device(np.full(3, 1e5), np.full(3, 50.0), 0.5, np.full(3, 1.0))}
    )
    assert (
        "before was not used: nothing with a latency is in both cases."
        in solve(other, against=before).summary
    )


def test_summaries_are_compared_by_their_names(tmp_path: Path) -> None:
    """Two runs of one fio job."""
    before = summed(tmp_path / "before", of_run("test", 30_000, 2.18e6, 84.3e6))
    now = summed(tmp_path / "now", [*of_run("test", 27_000, 2.51e6, 2.91e9), *of_run("other", 9, 1e6, 1e6)])
    assert (
        "Against before: writes of test: the slowest 2.91 s instead of 84.3 ms (99 % hardly changed). Without a test: two runs differ by chance, too."
        in solve(now, against=before).summary
    )
    assert (
        "Against before: nothing took 1.5 times as long, or as short, of what is called alike in both (1)."
        in solve(before, against=before).summary
    )
    renamed = summed(tmp_path / "renamed", of_run("again", 30_000, 2.18e6, 84.3e6))
    assert (
        "before was not used: nothing with a latency is in both cases."
        in solve(renamed, against=before).summary
    )


def expected(path: Path, *texts: str) -> list[tuple[bool | None, str]]:
    return [(one.met, one.sentence) for one in solve(path, expect=list(texts)).expectations]


def test_summaries_judge_what_they_print(tmp_path: Path) -> None:
    job = summed(tmp_path / "job", of_run("test", 27_000, 2.51e6, 2.91e9))
    assert expected(job, "max<1s", "write p99<5ms", "p99.9<1s", "iops>10", "read p99<1ms") == [
        (False, "'max<1s' is not met: max of writes of test is 2.91 s."),
        (True, "'write p99<5ms' is met: p99 of writes of test is 2.51 ms."),
        (
            None,
            "'p99.9<1s' cannot be judged: the case has no single operations, and the log has no p99.9 of writes of test.",
        ),
        (None, "'iops>10' cannot be judged: the case has no single operations."),
        (
            None,
            "'read p99<1ms' cannot be judged: the case has no single operations, and no latencies of reads.",
        ),
    ]


def test_what_records_together_are_lies_between_them(tmp_path: Path) -> None:
    """YCSB: one kind has no tail in what was pasted."""
    rows = [*of_run("READ", 5000, 7e6, 1.48e9, "run"), *of_run("UPDATE", 5000, 9e6, 2e9, "run")]
    path = summed(tmp_path / "both", rows)
    assert expected(path, "p99<10ms", "p99<8ms", "p99>3ms", "read p99<8ms", "p99.9<9s")[:4] == [
        (True, "'p99<10ms' is met: p99 of all operations is 7 ms to 9 ms in its records."),
        (
            None,
            "'p99<8ms' cannot be judged: the case has no single operations, and p99 of its records is 7 ms to 9 ms.",
        ),
        (True, "'p99>3ms' is met: p99 of all operations is 7 ms to 9 ms in its records."),
        (True, "'read p99<8ms' is met: p99 of operations of READ is 7 ms."),
    ]
    cut = summed(tmp_path / "cut", [*rows[:3], (0, "process", "UPDATE", "run_latency_ns", 2e6)])
    assert expected(cut, "max<1s", "max<2s") == [
        (False, "'max<1s' is not met: max of operations of READ is 1.48 s or more."),
        (
            None,
            "'max<2s' cannot be judged: the case has no single operations, and the log has no max of operations of UPDATE.",
        ),
    ]


def test_bins_few_operations_and_doubted_units_judge_nothing(tmp_path: Path) -> None:
    few = of_run("test", 100, 1e6, 2e6)
    [(met, said)] = expected(summed(tmp_path / "few", few), "p99<5ms")
    assert met is None and said.endswith("p99 needs 300 operations, and a record has 100.")
    for metric in ("bin_width_ratio", "unit_doubt_ratio"):
        rows = [*of_run("test", 1000, 1e6, 2e6), (0, "process", "test", metric, 2.0)]
        [(met, _)] = expected(summed(tmp_path / metric, rows), "max<5ms")
        assert met is None
    # What RocksDB does behind its writers is no operation of anybody's.
    store = of_run("rocksdb", 1000, 1e9, 9e9, "db_compaction")
    assert expected(summed(tmp_path / "store", store), "max<5s")[0][0] is None


def test_cases_without_operations_are_not_measured_but_told_what_compares_them(tmp_path: Path) -> None:
    job = summed(tmp_path / "job", of_run("test", 27_000, 2.51e6, 2.91e9))
    with pytest.raises(WhodiskError, match=r"found samples or summaries only; .*--against"):
        common_layer([job, job], None)


def test_logs_of_different_years_in_one_case_are_told(tmp_path: Path) -> None:
    year = 365 * 86_400
    rows = [(at, "process", "job", "latency_ns", 1e6) for at in (0, 60, 3 * year, 3 * year + 60)]
    path = summed(tmp_path / "case", rows)
    meta = json.loads((path / "case.json").read_text())
    meta["clock"] |= {"name": "CLOCK_REALTIME", "start_ns": 1_577_836_800 * SECOND}
    (path / "case.json").write_text(json.dumps(meta))
    told = "No sample for 1,095 days, from 2020-01-01 to 2022-12-31: the case holds logs of different times."
    assert told in solve(path).summary
    near = summed(tmp_path / "near", rows[:2])
    assert not any(said.startswith("No sample") for said in solve(near).summary)


def test_what_is_called_alike_on_two_hosts_is_no_clone(tmp_path: Path) -> None:
    rows = [
        {"time_ns": 0, "host": host, "kind": "process", "subject": "job", "metric": metric, "value": value}
        for host, most in (("db1", 3e6), ("db2", 9e6))
        for metric, value in (("read_operations", 5000.0), ("read_latency_max_ns", most))
    ]
    with Case(write_case(tmp_path / "case", tables={"series": rows})) as case:
        assert account(case) == [
            "job of db2, the slowest of 2 by its longest operation: 5,000 reads: the slowest 9 ms.",
            "job of db1: 5,000 reads: the slowest 3 ms.",
        ]
