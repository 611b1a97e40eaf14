"""Whether a workload of a fixed rate gets what it asks for, with syncs on its schedule and beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, write_case
from whodisk.evidence.offered import done_per_s, keeps_rate
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case

RATE = 1000
COUNT = 3000


def one_by_one(path: Path, *, write_us: int, are_due: bool) -> Path:
    """One worker that syncs after each write: at moments of their own (`are_due`), or as soon as the write is done."""
    now = 0
    rows = []
    due = 0
    for number in range(COUNT):
        is_sync = number % 2 == 1
        begin = max(now, due) if are_due or not is_sync else now
        start = due if are_due or not is_sync else now
        now = begin + (100_000 if is_sync else write_us * 1000)
        rows.append(("sync" if is_sync else "write", start, now))
        if are_due or not is_sync:
            due += 1_000_000_000 // RATE
    op, start_ns, end_ns = zip(*rows, strict=True)
    app = {
        "op_id": APP_ID_BASE | np.arange(COUNT),
        "op": list(op),
        "start_ns": np.array(start_ns),
        "latency_ns": np.array(end_ns) - np.array(start_ns),
        "device": "nvme0n1",
        "size_bytes": np.where(np.array(op) == "sync", 0, 4096),
        "queue_depth": 1,
        "tid": 4300,
        "comm": "worker-0",
    }
    spec = {"queue_depth": 1, "workers": 1, "rate_per_s": RATE, "sync_every_writes": 1}
    return write_case(path, app=app, meta={"duration_ns": int(end_ns[-1]), "workload": {"spec": spec}})


@pytest.mark.parametrize(
    ("write_us", "are_due", "keeps", "done"),
    [
        # 1.6 ms for a write and its sync: 625 writes per second, and with their syncs 1,250 operations, where 1,000 were asked for.
        (1500, False, False, 625),
        (700, False, True, RATE),
        (700, True, True, RATE),
        (2500, True, False, 769),
    ],
)
def test_syncs_beside_a_schedule_are_not_part_of_the_rate(
    tmp_path: Path, write_us: int, are_due: bool, keeps: bool, done: float
) -> None:
    with Case(one_by_one(tmp_path / "case", write_us=write_us, are_due=are_due)) as case:
        survey = survey_layer(case, "app")
        assert keeps_rate(case, survey) is keeps
        assert done_per_s(case, survey) == pytest.approx(done, rel=0.02)
