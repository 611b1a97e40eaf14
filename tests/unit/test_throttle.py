"""Who held operations back: the limit of dirty pages, or an I/O controller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.detectors.throttle import _above_block
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.thread_time import SYNC
from whodisk.reading.views import Case

COUNT = 200


@pytest.mark.parametrize(("held", "flags"), [("write", 0), ("sync", 0), ("write", SYNC)])
def test_syncs_are_not_held_back_for_dirty_pages(tmp_path: Path, held: str, flags: int) -> None:
    """Each write of a database is a call that writes and one that syncs. Which of them waited decides who held it back; one that does both
    (O_DSYNC) leaves nothing dirty."""
    number = np.arange(COUNT)
    every = {"comm": "db_bench", "tid": 11, "pid": 10, "device": "loop0", "size_bytes": 4096, "flags": 0}
    begin = number * 12_000_000
    app = {
        **every,
        "op_id": APP_ID_BASE | number,
        "start_ns": begin,
        "latency_ns": 10_200_000,
        "op": "write",
        "throttle_ns": 10_000_000,
    }
    is_sync = np.tile([False, True], COUNT)
    waited = is_sync == (held == "sync")
    calls = {
        **every,
        "op_id": SYSCALL_ID_BASE | np.arange(2 * COUNT),
        "start_ns": np.repeat(begin, 2)
        + np.tile([0, 100_000], COUNT)
        + 10_000_000 * (is_sync & (held == "write")),
        "latency_ns": np.where(waited, 10_100_000, 100_000),
        "op": np.where(is_sync, "sync", "write"),
        "throttle_ns": np.where(waited, 10_000_000, 0),
        "flags": flags,
    }
    block = {
        **every,
        "op_id": BLOCK_ID_BASE | number,
        "start_ns": begin + 10_100_000,
        "latency_ns": 50_000,
        "op": "write",
        "device_ns": 50_000,
        "throttle_ns": 0,
    }
    path = write_case(
        tmp_path / "case", app=app, syscall=calls, block=block, meta={"workload": {"program": "db_bench"}}
    )
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in ("app", "syscall", "block")}
        context = Context(case, surveys, "app", empty_slow_set(), np.zeros(0, np.bool_))
        assert _above_block(context) == (held == "write" and flags == 0)
