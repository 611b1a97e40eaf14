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
