"""Operations that were nearly all slow for a stretch of the run are told by when that was, not as one in so many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

COUNT = 4_000


@pytest.mark.parametrize(
    ("begin", "end", "part", "said"),
    [
        (0.75, 1.0, 1.0, "From "),
        (0.4, 0.6, 1.0, "Between "),
        (0.0, 1.0, 0.2, "1 in 5"),
    ],
)
def test_a_stretch_of_slow_syncs(begin: float, end: float, part: float, said: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    number = np.arange(COUNT)
    inside = (number >= begin * COUNT) & (number < end * COUNT) & (rng.random(COUNT) < part)
    device = (rng.lognormal(np.log(400_000), 0.1, COUNT) + np.where(inside, 4_000_000, 0)).astype(np.int64)
    latency = device + 20_000
    start = np.cumsum(latency + 200_000) - latency
    syncs = {
        "op_id": SYSCALL_ID_BASE | number,
        "start_ns": start,
        "latency_ns": latency,
        "device_ns": device,
        "fs_ns": 20_000,
        "op": "sync",
        "size_bytes": 0,
        "tid": 11,
        "pid": 11,
        "comm": "ledger",
        "device": "sda",
        "queue_depth": 1,
    }
    meta = {"duration_ns": int(start[-1] + latency[-1])}
    verdict = solve(write_case(tmp_path / "case", syscall=syncs, devices=("sda",), meta=meta))
    claims = [finding.claim for finding in verdict.findings if finding.detector == "stage_blame"]
    assert [claim.startswith(said) for claim in claims] == [True], claims
    moment = float(start[inside][0]) / 1e9
    if said.startswith(("From", "Between")):
        assert abs(float(claims[0].split()[1]) - moment) < 0.1, (claims, moment)
