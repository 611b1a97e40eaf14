"""What RocksDB's LOG and db_bench's output say: events and samples become sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.synth import write_case
from whodisk.verdict.solve import solve

SECOND = 1_000_000_000
#: 2021-01-25 23:29:57.7
BEGIN = {"name": "CLOCK_REALTIME", "host": "", "start_ns": 1_611_617_397_700_000_000, "resolution_ns": 1}
IMPORTED = {"observer": "import", "clock": BEGIN}


def logged(path: Path, events: list[tuple[float, str, str]], rows: list[Any] | None = None) -> str:
    """The summary of a case of events (second, kind, detail) and samples (second, subject, metric, value)."""
    names = ("time_ns", "kind", "subject", "metric", "value")
    series = [
        dict(zip(names, (round(at * SECOND), "process", *rest), strict=True)) for at, *rest in rows or []
    ]
    solved = solve(
        write_case(
            path,
            events=[
                {"time_ns": round(at * SECOND), "kind": kind, "subject": "rocksdb", "detail": detail}
                for at, kind, detail in events
            ],
            tables={"series": series} if series else None,
            meta=IMPORTED,
        )
    )
    return "\n".join(solved.summary)


def stall(at: float, what: str, family: str = "") -> tuple[float, str, str]:
    return at, "write_stall", f"{what}{f', column family {family}' if family else ''}"


def test_stalls_of_a_log_are_counted_by_their_cause(tmp_path: Path) -> None:
    """As `grep Stalling LOG` has them: no samples beside them, no order of the files."""
    summary = logged(
        tmp_path / "case",
        [
            stall(2350, "Stopping writes because we have 36 level-0 files", "index"),
            stall(
                0,
                "Stalling writes because of estimated pending compaction bytes 70000000000 rate 16777216",
                "data",
            ),
            stall(143, "Stalling writes because we have 20 level-0 files rate 5242880", "index"),
        ],
    )
    assert "nothing was observed" not in summary
    assert (
        "rocksdb logged 3 write stalls from 2021-01-25 23:29:57 to 2021-01-26 00:09:07: 2 because of level-0 files and "
        "1 because of pending compaction bytes; 1 of them stopped writes, the others slowed them down. "
        "By column family: index 2, data 1. The lowest rate that writers were slowed to was 5 MiB/s. "
        "Each is a decision of RocksDB's; how long it held is not in the log."
    ) in summary


def test_stalls_that_all_stopped_writes(tmp_path: Path) -> None:
    memtables = "Stopping writes because we have 2 immutable memtables (waiting for flush), max_write_buffer_number is set to 2"
    summary = logged(tmp_path / "case", [stall(0, memtables, "default")])
    assert (
        "rocksdb logged 1 write stall at 2021-01-25 23:29:57, because of memtables that wait for their flush: it stopped writes. "
        "All were of column family default. Each is a decision of RocksDB's; how long it held is not in the log."
    ) in summary


def test_flushes_and_compactions_with_the_longest(tmp_path: Path) -> None:
    """Of one the log has the end alone, with how long it took; one it does not end."""
    told = logged(
        tmp_path / "case",
        [
            (0, "flush_started", "job 2, flush_reason Write Buffer Full"),
            (0.25, "flush_finished", "job 2"),
            (1, "flush_started", "job 3"),
            (1.1, "flush_finished", "job 3"),
            (2, "compaction_finished", "job 1, compaction_time_micros 1500000"),
            (3, "compaction_started", "job 4"),
            (25.3, "compaction_unfinished", "job 4"),
            (26, "flush_started", "job 5"),
        ],
    )
    assert (
        "rocksdb logged 2 flushes, the longest took 250 ms (from 2021-01-25 23:29:57); 1 compaction, which took 1.5 s (from 2021-01-25 23:29:58); "
        "1 compaction without an end in the log, running for 22.3 s at least (from 2021-01-25 23:30:00); 1 flush of which the log has the begin alone."
    ) in told


def dumped(stalled: float, writes: float, since: float | None) -> list[Any]:
    rows: list[Any] = []
    for at in (0, 600, 1200):
        rows += [
            (at, "rocksdb", "write_stall_ratio", stalled if at == 600 else 0.0),
            (at, "rocksdb", "db_writes", writes),
            (at, "rocksdb", "db_writes_per_s", writes / 600),
        ]
    if since is not None:
        rows += [
            (1200, "rocksdb", "since_open_ns", 1200e9),
            (1200, "rocksdb", "since_open_stalled_ns", since * 1e9),
        ]
    return rows


def test_dumps_without_a_stall_say_so(tmp_path: Path) -> None:
    idle = logged(tmp_path / "idle", [], dumped(0.0, 0.0, 0.0))
    assert "rocksdb dumped its statistics 3 times over 1,200 s: no write; no stall." in idle
    busy = logged(tmp_path / "busy", [], dumped(0.01, 6000.0, None))
    told = "rocksdb dumped its statistics 3 times over 1,200 s: 18,000 writes, 10 per second at most (at 0 s); stalls for 1 % of an interval at most."
    assert told in busy
    rounded = logged(tmp_path / "rounded", [], dumped(0.0, 0.0, None))
    assert (
        "rocksdb dumped its statistics 3 times over 1,200 s: no write; no stall of 0.1 % of an interval."
        in rounded
    )


def test_one_dump_says_when(tmp_path: Path) -> None:
    """RocksDB's first, as it is opened."""
    rows = [
        (0, "rocksdb", "write_stall_ratio", 0.0),
        (0, "rocksdb", "since_open_ns", 0.3e9),
        (0, "rocksdb", "since_open_stalled_ns", 0.0),
    ]
    told = "rocksdb dumped its statistics once, 0.3 s after it was opened: no stall."
    assert told in logged(tmp_path / "case", [], rows)


def test_dumps_at_the_opening_cover_nothing(tmp_path: Path) -> None:
    """Three files that were opened, and closed soon: each has one dump."""
    rows = [
        (at, "rocksdb", metric, 0.0)
        for at in (0, 1000, 2000)
        for metric in ("write_stall_ratio", "db_writes", "since_open_ns", "since_open_stalled_ns")
    ]
    told = "rocksdb dumped its statistics 3 times, each time 0 s after it was opened: they cover no time."
    summary = logged(tmp_path / "case", [], rows)
    assert told in summary and "no write" not in summary
    used = [
        (3000, "rocksdb", metric, value)
        for metric, value in (("write_stall_ratio", 0.0), ("since_open_ns", 600e9))
    ]
    assert "4 times (3 of them as it was opened, of no time)" in logged(tmp_path / "used", [], [*rows, *used])


def test_counts_of_one_dump_are_of_its_interval(tmp_path: Path) -> None:
    """2,094.8 s total, 291.1 s interval."""
    rows = [
        (2094.8, "rocksdb", "write_stall_ratio", 0.0),
        (2094.8, "rocksdb", "db_writes", 26e6),
        (2094.8, "rocksdb", "db_writes_per_s", 26e6 / 291.1),
        (2094.8, "rocksdb", "since_open_ns", 2094.8e9),
        (2094.8, "rocksdb", "since_open_stalled_ns", 0.0),
    ]
    assert (
        "rocksdb dumped its statistics once, 2,094.8 s after it was opened: in the last 291 s of that 26,000,000 writes, 89,316 per second; "
        "no stall since it was opened."
    ) in logged(tmp_path / "case", [], rows)


def test_a_dump_without_the_stall_of_its_interval_says_that_since_the_opening(tmp_path: Path) -> None:
    """Its last line was cut off."""
    dump = [
        (343.5, "rocksdb", "db_writes", 2_973_000.0),
        (343.5, "rocksdb", "db_writes_per_s", 2_973_000 / 340.4),
        (343.5, "rocksdb", "since_open_ns", 343.5e9),
    ]
    begin = (
        "rocksdb dumped its statistics once, 343.5 s after it was opened: 2,973,000 writes, 8,734 per second"
    )
    stalled = [*dump, (343.5, "rocksdb", "since_open_stalled_ns", 2.901e9)]
    assert f"{begin}; stalls of 2.9 s since it was opened (0.84 %)." in logged(tmp_path / "few", [], stalled)
    none = [*dump, (343.5, "rocksdb", "since_open_stalled_ns", 0.0)]
    assert f"{begin}; no stall since it was opened." in logged(tmp_path / "none", [], none)
    assert f"{begin}." in logged(tmp_path / "unknown", [], dump)


def test_stalls_since_the_opening(tmp_path: Path) -> None:
    rows = [
        *dumped(0.0, 10.0, 240.0),
        (1200, "rocksdb", "since_open_memtable_stops", 930.0),
        (1200, "rocksdb", "since_open_level0_delays", 1.0),
    ]
    summary = logged(tmp_path / "case", [], rows)
    assert (
        "In the 1,200 s since it was opened, rocksdb stalled its writers for 240 s (20 %). "
        "It counted 930 stops because of memtables that wait for their flush and 1 delay because of level-0 files."
    ) in summary
    assert summary.index("since it was opened") < summary.index("dumped its statistics")
    assert "; no stall of 0.1 % of an interval." in summary


def test_stalls_are_a_part_of_what_writes_took(tmp_path: Path) -> None:
    rows = [
        (0, "rocksdb", "db_write_operations", 1000.0),
        (0, "rocksdb", "db_write_latency_ns", 100e3),
        (0, "rocksdb", "db_write_latency_max_ns", 1.9e9),
        (0, "rocksdb", "db_write_stall_operations", 20.0),
        (0, "rocksdb", "db_write_stall_latency_ns", 1e6),
        (0, "rocksdb", "db_write_stall_latency_max_ns", 1.8e9),
    ]
    summary = logged(tmp_path / "case", [], rows)
    assert (
        "Stalls are 20 % of the time that rocksdb's writes took, the longest 1.8 s; of threads that write together it counts the first alone."
        in summary
    )
    assert (
        "20 db write stalls, the slowest on average of 2 kinds: 1 ms on average, the slowest 1.8 s."
        in summary
    )
    few = [(at, who, name, 1e3 if "stall_latency_ns" in name else value) for at, who, name, value in rows]
    assert "Stalls are" not in logged(tmp_path / "few", [], few)


def test_rates_of_progress_and_how_far_they_are_apart(tmp_path: Path) -> None:
    """One thread is asked for less: it is compared with itself."""
    rows = [
        (10 * at, f"thread {thread}", "operations_per_s", 900.0 if (at, thread) == (3, 1) else 10000.0 + at)
        for at in range(5)
        for thread in range(2)
    ]
    rows += [(10 * at, "thread 2", "operations_per_s", 100.0) for at in range(5)]
    assert (
        "3 threads of db_bench made 10,000 operations per second each in the median of 15 progress lines, from 100 to 10,004; "
        "6.7 % of them are below half of the median of their thread, the lowest beside it 900 (thread 1 at 30 s)."
    ) in logged(tmp_path / "case", [], rows)
    # A slower benchmark behind a faster one is no fall.
    two: list[Any] = [(at, "thread 0", "operations_per_s", 5000.0 if at < 6 else 50.0) for at in range(1, 9)]
    two += [(at, name, "benchmark_run", 1.0) for at, name in ((5, "fillseq"), (8, "readseq"))]
    assert (
        "thread 0 made 5,000 operations per second in the median of 8 progress lines, from 50 to 5,000; none is below half of the median of its benchmark."
    ) in logged(tmp_path / "two", [], two)
    report = [(at, "db_bench", "operations_per_s", 500.0) for at in range(3)]
    assert (
        "db_bench made 500 operations per second in the median of 3 intervals, from 500 to 500; none is below half of that."
    ) in logged(tmp_path / "report", [], report)
    one = logged(tmp_path / "one", [], [(0, "thread 0", "operations_per_s", 4500.2)])
    assert "thread 0 made 4,500 operations per second." in one


def test_a_benchmark_that_ran_again_has_runs_and_no_intervals(tmp_path: Path) -> None:
    rows: list[Any] = []
    for run, mean_us in enumerate((5.0, 3.0, 10.0), 1):
        rows += [
            (0, "readrandom", "benchmark_run", float(run)),
            (0, "readrandom", "latency_ns", 1e3 * mean_us),
            (0, "readrandom", "latency_p99_ns", 1e4 * mean_us),
            (0, "readrandom", "latency_max_ns", 1e6 * mean_us),
        ]
    for run, (name, mean_ns) in enumerate(
        (("fillseq", 2e3), ("overwrite", 3e6), ("filluniquerandom", 7e6)), 4
    ):
        rows += [(0, name, "benchmark_run", float(run)), (0, name, "latency_ns", mean_ns)]
    summary = logged(tmp_path / "case", [], rows)
    assert (
        "readrandom, one of 4 benchmarks: 3 runs: operations took 5 us on average in the median run, 3 us in the fastest and 10 us in the slowest; "
        "the 99th percentile is 50 us in the median run, 100 us at most; the slowest of all took 10 ms; "
        "the slowest others: filluniquerandom 7 ms, overwrite 3 ms and fillseq 2 us."
    ) in summary
    assert "fillseq: operations: 2 us on average." in summary
    assert "interval" not in summary and "(at 0 s)" not in summary


def test_the_only_interval_is_no_median(tmp_path: Path) -> None:
    told = logged(tmp_path / "case", [], [(0, "rocksdb", "write_stall_ratio", 0.85)])
    assert "rocksdb stalled its own writers for 85 % of the only interval in the log." in told
