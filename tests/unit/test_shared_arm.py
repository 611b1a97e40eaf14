"""What requests of another program cost an operation that waits for several of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.detectors.shared_arm import _lost_sql
from whodisk.reading.views import Case

MS = 1_000_000


@pytest.mark.parametrize(
    ("starts_ms", "lost_ms"),
    [
        # A log block, a flush, a commit block: each begins when the one before has ended.
        ((0, 10, 20), 9.0),
        # Three members of a stripe at once: the last one to end counts.
        ((0, 0, 0), 3.0),
        # Two at once, and one behind them.
        ((0, 1, 20), 6.0),
    ],
)
def test_what_waits_one_after_the_other_adds_up(
    starts_ms: tuple[int, ...], lost_ms: float, tmp_path: Path
) -> None:
    requests = BLOCK_ID_BASE | np.arange(3)
    path = write_case(
        tmp_path / "case",
        syscall={
            "op_id": [APP_ID_BASE],
            "start_ns": 0,
            "latency_ns": 40 * MS,
            "op": "sync",
            "tid": 7,
            "comm": "db",
        },
        block={
            "op_id": requests,
            "start_ns": np.array(starts_ms) * MS,
            "latency_ns": 10 * MS,
            "op": "write",
            "device": "sda",
        },
        links={"parent_id": [APP_ID_BASE] * 3, "child_id": requests},
        meta={"observer": "record"},
    )
    guest = SimpleNamespace(op_id=requests, lost_ns=np.full(3, 3.0 * MS))
    with Case(path) as case:
        lost = _lost_sql(SimpleNamespace(layer="syscall"), guest)  # type: ignore[arg-type]
        rows = case.rows(f"SELECT lost_ns FROM ({lost})")
    assert [float(row["lost_ns"] or 0) / MS for row in rows] == [lost_ms]
