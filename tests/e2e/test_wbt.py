"""Writeback throttling on a device that is slow to write: whom it holds back, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, slowdisk, value
from tests.e2e.conftest import Run
from whodisk.views import WBT, Case


@pytest.mark.root
@pytest.mark.parametrize("latency_us", [2000, 0], ids=["on", "off"])
def test_a_writer_that_is_held_back_is_told(whodisk: Run, work: Path, latency_us: int) -> None:
    path = work / "a.case"
    try:
        with (
            slowdisk("write throttle 40MiB/s", seed=1) as device,
            file_system(device, work / "mnt") as folder,
        ):
            queue = Path(f"/sys/block/{device.name}/queue")
            # Far more requests than may be in flight.
            with value(queue / "wbt_lat_usec", str(latency_us)), value(queue / "max_sectors_kb", "64"):
                writer = ("dd", "if=/dev/zero", f"of={folder / 'data'}", "bs=64k", "count=768", "conv=fsync")
                whodisk("record", "-o", path, "--", *writer)
    except Unavailable as lack:
        pytest.skip(str(lack))
    with Case(path) as case:
        slept = case.rows(
            "SELECT count(*) AS n, coalesce(sum(duration_ns), 0) AS ns FROM waits WHERE cause = 'rq_qos_wait' AND comm = 'dd'"
        )[0]
        held = case.rows(
            f"""SELECT count(*) FILTER (flags & {WBT} > 0) AS n, count(*) FILTER (throttle_ns > 0) AS throttled,
  count(*) FILTER (throttle_ns > latency_ns) AS too_long FROM block_ops WHERE comm = 'dd' AND op = 'write'"""
        )[0]
        sync = case.rows(
            "SELECT flags, latency_ns, throttle_ns FROM syscall_ops WHERE comm = 'dd' AND op = 'sync'"
        )
        judged = case.rows("SELECT sum(throttle_ns) AS ns FROM judged WHERE layer = 'syscall'")[0]["ns"]
    verdict = whodisk("solve", path, "--json").stdout
    assert len(sync) == 1
    assert held["too_long"] == 0
    if not latency_us:
        assert (slept["n"], held["n"], held["throttled"], sync[0]["throttle_ns"]) == (0, 0, 0, 0)
        assert "Writeback throttling" not in verdict
        return
    # Every such sleep is a part of the one fsync; from the queueing of a bio to its sleep is little.
    assert slept["n"] and held["n"] == held["throttled"] >= slept["n"]
    throttle_ns = int(sync[0]["throttle_ns"] or 0)
    assert int(sync[0]["flags"] or 0) & WBT
    assert 0.95 * int(slept["ns"] or 0) <= throttle_ns <= 1.05 * int(slept["ns"] or 0) + 20e6
    assert not judged, "it counts as queue"
    assert "Writeback throttling (wbt) held 1 operation back" in verdict, verdict
