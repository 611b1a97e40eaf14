"""Writeback throttling on a device that is slow to write: whom it holds back, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, slowdisk, value
from tests.e2e.conftest import Run
from whodisk.reading.views import WBT, Case


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize(
    "latency_us",
    [pytest.param(2000, id="on"), pytest.param(0, id="off")],
)
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

        def number(sql: str) -> int:
            (row,) = case.rows(sql)
            return int(row["n"] or 0)

        slept = "FROM waits WHERE cause = 'rq_qos_wait' AND comm = 'dd'"
        sleeps, slept_ns = (
            number(f"SELECT count(*) AS n {slept}"),
            number(f"SELECT sum(duration_ns) AS n {slept}"),
        )
        writes = "FROM block_ops WHERE comm = 'dd' AND op = 'write'"
        held = number(f"SELECT count(*) AS n {writes} AND flags & {WBT} > 0")
        throttled = number(f"SELECT count(*) AS n {writes} AND throttle_ns > 0")
        sync = "FROM syscall_ops WHERE comm = 'dd' AND op = 'sync'"
        syncs, flags = number(f"SELECT count(*) AS n {sync}"), number(f"SELECT max(flags) AS n {sync}")
        throttle_ns = number(f"SELECT sum(throttle_ns) AS n {sync}")
        judged_ns = number("SELECT sum(throttle_ns) AS n FROM judged WHERE layer = 'syscall'")
    verdict = whodisk("solve", path, "--json").stdout
    assert syncs == 1
    if not latency_us:
        assert (sleeps, held, throttled, throttle_ns) == (0, 0, 0, 0)
        assert "Writeback throttling" not in verdict
        return
    # Every such sleep is a part of the one fsync; from the queueing of a bio to its sleep is little.
    assert sleeps > 0 and held == throttled >= sleeps
    assert flags & WBT
    assert 0.95 * slept_ns <= throttle_ns <= 1.05 * slept_ns + 20e6
    assert judged_ns == 0, "it counts as queue"
    assert "Writeback throttling (wbt) held 1 operation back" in verdict, verdict
