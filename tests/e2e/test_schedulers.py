"""Every I/O scheduler of this kernel: each request is recorded once, and nothing is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.accuracy.host import value
from tests.e2e.conftest import Run, meta
from whodisk.reading.views import Case

READS, WRITES = 211, 31
#: Of /sys/block/*/stat (Documentation/block/stat.rst): requests that ended, by kind.
STAT_READS, STAT_WRITES, STAT_FLUSHES = 0, 4, 15


@contextmanager
def loop_device(file: Path) -> Iterator[str]:
    """The kernel's name of a loop device on a new file."""
    with file.open("wb") as created:
        created.truncate(16 << 20)
    command = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
    path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield Path(path).name
    finally:
        subprocess.run(["losetup", "--detach", path], check=True)


def counted(device: str) -> list[int]:
    return [int(word) for word in Path(f"/sys/block/{device}/stat").read_text(encoding="utf-8").split()]


@pytest.mark.root
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "bfq"])
def test_no_request_is_lost(whodisk: Run, work: Path, scheduler: str) -> None:
    with loop_device(work / "disk") as device:
        setting = Path(f"/sys/block/{device}/queue/scheduler")
        known = setting.read_text(encoding="utf-8").replace("[", " ").replace("]", " ").split()
        if scheduler not in known:
            pytest.skip(f"{setting}: expected {scheduler}, found {' '.join(known)}; modprobe {scheduler}")
        script = (
            f"dd if=/dev/{device} of=/dev/null bs=4k count={READS} iflag=direct &&"
            f" dd if=/dev/zero of=/dev/{device} bs=4k count={WRITES} oflag=direct,dsync"
        )
        with value(setting, scheduler):
            assert f"[{scheduler}]" in setting.read_text(encoding="utf-8")
            before = counted(device)
            whodisk("record", "-o", work / "a.case", "--", "sh", "-c", script)
            after = counted(device)
    asked = {kind: after[kind] - before[kind] for kind in (STAT_READS, STAT_WRITES, STAT_FLUSHES)}
    assert meta(work / "a.case")["probes"]["block"]["lost"] == 0
    with Case(work / "a.case") as case:
        sql = f"""SELECT op, count(*) AS n, count(*) FILTER (size_bytes > 0) AS with_data,
            sum(size_bytes)::BIGINT AS size_bytes FROM block_ops WHERE device = '{device}' GROUP BY op"""
        found = {row["op"]: row for row in case.rows(sql)}
    for op, number in (("read", READS), ("write", WRITES)):
        assert (found[op]["with_data"], found[op]["size_bytes"]) == (number, number * 4096), op
    # An empty write stands for a flush that somebody waits for; both the kernel and the recorder count it.
    assert {op: row["n"] for op, row in found.items()} == {
        "read": asked[STAT_READS],
        "write": asked[STAT_WRITES],
        "flush": asked[STAT_FLUSHES],
    }
    assert asked[STAT_FLUSHES] >= WRITES
