"""What sampled counters say of a device that has no peers to be compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import write_case
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
        "It has 12 requests in flight in the median sample, where its rates and latencies make 0.0036" in told
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
            (0, "process", "job", "read_operations", 600.0),
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
        "job: 600 reads: half within 105 us, 99 % within 2.15 ms, 99.9 % within 4.42 ms, the slowest 4.5 ms."
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


def test_what_a_drive_counts_of_its_troubles(tmp_path: Path) -> None:
    once = [(0, "device", "sda", "media_errors", 2.0), (0, "device", "sda", "logged_errors", 0.0)]
    assert (
        "sda counts 2 media errors so far; one snapshot does not say since when."
        in solve(summed(tmp_path / "one", once)).summary
    )
    later = [(60, "device", "sda", "media_errors", 5.0), (60, "device", "sda", "logged_errors", 0.0)]
    assert (
        "sda counted 3 media errors while the log was written."
        in solve(summed(tmp_path / "two", [*once, *later])).summary
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
