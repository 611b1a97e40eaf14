"""What counts as evidence once, and what is no evidence: a flush is no witness of its own request, operations that overlap are one wait for a turn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, write_case
from whodisk.detectors.served_others import stood_still
from whodisk.evidence import slow_operations
from whodisk.evidence.slow_operations import SOFTWARE_STAGES, CpuWaits, empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case

WRITES, MS = 60, 1_000_000


@pytest.mark.parametrize(("beside", "expected"), [("flush", None), ("read", 1.0)])
def test_a_flush_is_no_witness_of_its_own_request(
    tmp_path: Path, beside: str, expected: float | None
) -> None:
    """Each write has one other request under way with it, which ends with it: of another program it shows a pause, its own flush shows nothing."""
    start = np.arange(WRITES) * 50 * MS
    columns = {
        "op_id": BLOCK_ID_BASE | np.arange(2 * WRITES),
        "start_ns": np.column_stack([start, start + 10 * MS]).ravel(),
        "latency_ns": np.array([40 * MS, 30 * MS] * WRITES),
        "op": ["write", beside] * WRITES,
        "device": "sda",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": np.array([40 * MS, 30 * MS] * WRITES),
    }
    path = write_case(
        tmp_path / "case", block=columns, devices=("sda",), meta={"duration_ns": WRITES * 50 * MS}
    )
    assert part_still(path, BLOCK_ID_BASE | np.arange(0, 2 * WRITES, 2)) == expected


@pytest.mark.parametrize(("offset_ms", "expected"), [(12, 0.0), (2, None), (39.7, None)])
def test_a_request_that_came_and_went_meanwhile_is_a_witness_that_the_device_went_on(
    tmp_path: Path, offset_ms: float, expected: float | None
) -> None:
    """Of two writers one waits 40 ms, and a request of the other takes 0.2 ms meanwhile: none is under way at the middle. One that completes before the
    device can have paused, or when it goes on again, shows nothing."""
    start = np.arange(WRITES) * 50 * MS
    latency = np.array([40 * MS, MS // 5] * WRITES)
    columns = {
        "op_id": BLOCK_ID_BASE | np.arange(2 * WRITES),
        "start_ns": np.column_stack([start, start + int(offset_ms * MS)]).ravel(),
        "latency_ns": latency,
        "op": "write",
        "device": "sda",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": latency,
    }
    path = write_case(
        tmp_path / "case", block=columns, devices=("sda",), meta={"duration_ns": WRITES * 50 * MS}
    )
    assert part_still(path, BLOCK_ID_BASE | np.arange(0, 2 * WRITES, 2)) == expected


def test_quick_others_outweigh_two_slow_ones_that_waited_together(tmp_path: Path) -> None:
    """Ten pairs wait for the same 20 ms; beside thirty single waits others come and go: the device did not pause as a whole."""
    paired, single = np.arange(10) * 50 * MS, (10 + np.arange(30)) * 50 * MS
    start = np.concatenate([paired, paired + MS, single, single + 10 * MS])
    latency = np.concatenate(
        [np.full(10, 21 * MS), np.full(10, 20 * MS), np.full(30, 20 * MS), np.full(30, MS // 5)]
    )
    order = np.argsort(start)
    columns = {
        "op_id": BLOCK_ID_BASE | np.arange(80),
        "start_ns": start[order],
        "latency_ns": latency[order],
        "op": "read",
        "device": "sda",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": latency[order],
    }
    path = write_case(tmp_path / "case", block=columns, devices=("sda",), meta={"duration_ns": 2000 * MS})
    late = BLOCK_ID_BASE | np.flatnonzero(latency[order] > MS)
    assert part_still(path, late) == pytest.approx(20 / 50)


def part_still(path: Path, ids: np.ndarray) -> float | None:
    with Case(path) as case:
        context = SimpleNamespace(
            case=case,
            layer="block",
            slow=SimpleNamespace(op_id=ids),
            surveys={"block": survey_layer(case, "block")},
        )
        return stood_still(context, "sda", np.ones(len(ids), np.bool_))  # type: ignore[arg-type]


def test_requests_that_wait_together_are_one_witness(tmp_path: Path) -> None:
    """Five reads of one moment show one pause; requests that were alone at the device show none."""
    start = np.concatenate([np.arange(WRITES) * 50 * MS, 25 * MS + np.arange(5)])
    columns = {
        "op_id": BLOCK_ID_BASE | np.arange(WRITES + 5),
        "start_ns": start,
        "latency_ns": np.concatenate([np.full(WRITES, MS), np.full(5, 20 * MS)]),
        "op": "read",
        "device": "sda",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": np.concatenate([np.full(WRITES, MS), np.full(5, 20 * MS)]),
    }
    path = write_case(
        tmp_path / "case", block=columns, devices=("sda",), meta={"duration_ns": WRITES * 50 * MS}
    )
    assert part_still(path, BLOCK_ID_BASE | (WRITES + np.arange(5))) is None


def test_operations_that_overlap_waited_for_one_turn() -> None:
    """Sixty operations of one moment may all have waited for the same turn on a CPU; sixty at sixty moments are too many for waits as rare as these."""

    def unlike(start_ns: np.ndarray) -> int:
        empty = empty_slow_set()
        count = len(start_ns)
        slow = replace(
            empty,
            op_id=np.arange(count),
            start_ns=start_ns.astype(np.int64),
            latency_ns=np.full(count, 5 * MS),
            typical_ns=np.full(count, 1e5),
            blamed=np.full(count, min(SOFTWARE_STAGES)),
        )
        waits = CpuWaits(np.full(3, 4 * MS), woken=30_000, served=20_000)
        return int(slow_operations._unlike_cpu_waits(slow, waits).sum())

    assert unlike(np.zeros(60)) == 0
    assert unlike(np.arange(60) * 100 * MS) > 0
