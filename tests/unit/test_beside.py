"""What another program had at the device while an operation waited there: told of an operation that nothing else is known of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import empty_slow_set, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.findings import NOTHING_OBSERVED
from whodisk.reading.views import Case
from whodisk.verdict.slowest import slowest_of

MS = 1_000_000
SYNCS, LATE = 400, 217


@pytest.mark.parametrize(
    ("op", "comm", "writes", "always", "told"),
    [
        ("sync", "python", 120, False, ("beside 120 writes of python, 150 MiB", True)),
        # It is there all the time, and other syncs were quick.
        ("sync", "python", 120, True, ("beside 120 writes of python, 150 MiB", False)),
        # Three may wait for the same thing as the sync.
        ("sync", "python", 3, False, ("beside 3 writes of python, 3.75 MiB", False)),
        # What the kernel writes out may be the program's own.
        ("sync", "kworker/u8:2", 120, False, ("beside 120 writes that the kernel wrote out, 150 MiB", True)),
        ("sync", "kworker/u8:2", 3, False, (NOTHING_OBSERVED, False)),
        ("sync", "gokv", 120, False, (NOTHING_OBSERVED, False)),
        # Its own writes are none of a read's.
        ("read", "gokv", 120, False, ("beside 121 writes of gokv, 150 MiB", True)),
        ("read", "gokv", 3, False, (NOTHING_OBSERVED, False)),
        (
            "flush",
            "python",
            120,
            False,
            ("the device flushed its cache beside 120 writes of python, 150 MiB", True),
        ),
        ("flush", "python", 120, True, ("the device flushed its cache", True)),
    ],
)
def test_a_sync_waited_beside_writes_of_another_program(
    tmp_path: Path, op: str, comm: str, writes: int, always: bool, told: tuple[str, bool]
) -> None:
    """One of 400 syncs takes 60 ms at the device, while somebody had writes there that were issued after it: nothing was ahead of it."""
    start = np.arange(SYNCS) * 100 * MS
    latency = np.full(SYNCS, MS // 2)
    latency[LATE] = 60 * MS
    slow_ns = int(start[LATE])
    syncs = {
        "op_id": SYSCALL_ID_BASE | np.arange(SYNCS),
        "start_ns": start,
        "latency_ns": latency,
        "op": op,
        "device": "sda",
        "comm": "gokv",
        "pid": 10,
        "tid": 10,
        "fs_ns": 10_000,
        "device_ns": latency - 10_000,
    }
    from_ns, length_ns = (0, SYNCS * 100 * MS) if always else (slow_ns + MS, 59 * MS)
    requests = {
        "op_id": BLOCK_ID_BASE | np.arange(SYNCS + writes),
        "start_ns": np.concatenate([start, np.full(writes, from_ns)]),
        "latency_ns": np.concatenate([latency, np.full(writes, length_ns)]),
        "op": "write",
        "device": "sda",
        "size_bytes": np.concatenate([np.full(SYNCS, 4096), np.full(writes, 1_310_720)]),
        "comm": ["gokv"] * SYNCS + [comm] * writes,
        "pid": np.concatenate([np.full(SYNCS, 10), np.full(writes, 10 if comm == "gokv" else 20)]),
        "device_ns": np.concatenate([latency, np.full(writes, length_ns)]),
    }
    path = write_case(
        tmp_path / "case",
        syscall=syncs,
        block=requests,
        devices=("sda",),
        meta={"duration_ns": SYNCS * 100 * MS},
    )
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in case.layers}
        slow = empty_slow_set()
        first = slowest_of(Context(case, surveys, "syscall", slow, none_of(slow)))[0]
    assert first.stage == "device"
    assert (first.what, first.certain) == told
