"""The query by which the accuracy table believes that a device really paused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

from tests.accuracy.judge import device_stalls, short_stalls

SLOTS = 8
SERVICE_NS = 100_000
LATE_NS = 2_000_000
REQUESTS = 4_000


def _case(place: Path, every: int, together: bool) -> Path:
    """A closed loop of eight slots. One in `every` requests takes longer: it alone, or with all that is in flight."""
    service_ns = SERVICE_NS * np.random.default_rng(1).uniform(0.5, 1.5, (SLOTS, REQUESTS // SLOTS))
    late = (np.arange(REQUESTS) % every == every // 2).reshape(SLOTS, -1)
    if not together:
        service_ns[late] += LATE_NS
    end = service_ns.cumsum(axis=1)
    start = end - service_ns
    if together:
        # Time stands still at these moments.
        moments = np.sort((start + 0.5 * service_ns)[late])
        start = start + LATE_NS * np.searchsorted(moments, start)
        end = end + LATE_NS * np.searchsorted(moments, end)
    folder = place / "ops" / "layer=block"
    folder.mkdir(parents=True)
    start_ns, end_ns = (times.ravel().astype(np.int64) for times in (start, end))
    columns = {"start_ns": start_ns, "latency_ns": end_ns - start_ns}
    connection = duckdb.connect()
    connection.register("ops", columns)
    connection.execute(f"COPY (SELECT 'sda' AS device, * FROM ops) TO '{folder}/part-0.parquet'")
    return place


def test_pauses_of_the_whole_device_are_seen(tmp_path: Path) -> None:
    case = _case(tmp_path, 200, together=True)
    assert device_stalls(case) == []
    ((device, silent_ns, silences),) = short_stalls(case)
    assert device == "sda"
    assert abs(silent_ns - LATE_NS) < SERVICE_NS
    # Two that lie between the same two completions are one.
    assert 15 <= silences <= REQUESTS // 200


def test_late_requests_beside_others_are_no_pause(tmp_path: Path) -> None:
    assert short_stalls(_case(tmp_path, 200, together=False)) == []


def test_few_pauses_confirm_nothing(tmp_path: Path) -> None:
    assert short_stalls(_case(tmp_path, 1000, together=True)) == []
