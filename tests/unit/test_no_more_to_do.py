"""A device that became slower with no more to do is no consequence of what makes requests; and what rate it takes since is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.detectors.base import Candidate
from whodisk.evidence.device_pace import pace_since
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.time_lost import share_lost
from whodisk.findings import Culprit, Effect, Finding
from whodisk.reading.views import Case
from whodisk.verdict.causes import _is_reason
from whodisk.verdict.solve import solve

US, MS = 1_000, 1_000_000


def claim(culprit: Culprit, **told: Any) -> Candidate:
    return Candidate(
        culprit=culprit,
        claim="",
        baseline="",
        effect=Effect("part", 0.5, "1"),
        share_of_excess=0.5,
        share_of_latency=0.5,
        p_value=0.0,
        episodes=1,
        evidence=[],
        refute="",
        remedy="",
        otherwise="",
        explains=np.zeros(0, np.bool_),
        **told,
    )


@pytest.mark.parametrize(
    ("makes", "no_more", "reason"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_misses_are_no_reason_of_a_device_with_no_more_to_do(
    makes: bool, no_more: bool, reason: bool
) -> None:
    misses = claim(Culprit("cache_tier", "ram"), causes=(("stage", "device"),), makes_requests=makes)
    since = claim(Culprit("stage", "device", "device:loop0"), no_more_to_do=no_more)
    finding = Finding(
        detector="slower_since",
        culprit=since.culprit,
        claim="",
        baseline="",
        effect=since.effect,
        share_of_excess=0.5,
        share_of_latency=0.5,
        q_value=None,
        episodes=1,
        evidence=[],
        refute="",
        remedy="",
    )
    assert _is_reason(misses, since, finding) is reason
    assert _is_reason(replace(misses, causes=()), since, finding) is False


def capped(path: Path) -> Path:
    """Eight reads in flight, 300 us each; from the middle on the device takes one every 2 ms, whatever waits."""
    rng = np.random.default_rng(11)
    early, late = 8_000, 2_000
    begin, end = [], []
    free = np.zeros(8)
    taken = 0.0
    for number in range(early + late):
        slot = int(np.argmin(free))
        start = free[slot]
        if number < early:
            done = start + 300 * US * float(np.exp(rng.normal(0, 0.1)))
        else:
            taken = max(taken, start) + 2 * MS
            done = taken
        begin.append(start)
        end.append(done)
        free[slot] = done + 5 * US
    start_ns = np.array(begin, np.int64)
    took = np.array(end, np.int64) - start_ns
    order = np.argsort(start_ns, kind="stable")
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(took)),
        "start_ns": start_ns[order],
        "latency_ns": took[order],
        "op": "read",
        "device": "vdb",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": took[order],
        "interrupt_ns": 0,
        "queue_depth": 8,
        "comm": "db",
        "pid": 40,
        "tid": 40,
    }
    return write_case(
        path, block=block, meta={"observer": "record", "command": ["db"], "duration_ns": int(max(end)) + MS}
    )


def test_the_rate_that_a_device_takes_since_a_moment_is_told(tmp_path: Path) -> None:
    path = capped(tmp_path / "x.case")
    with Case(path) as case:
        assert pace_since(case, "vdb", 0, 250 * MS) is None
        pace = pace_since(case, "vdb", 400 * MS, 10_000 * MS)
        assert pace is not None and pace.per_s == pytest.approx(500, rel=0.02)
    verdict = solve(path)
    assert verdict.status == "slow"
    told = " ".join(finding.claim for finding in verdict.findings)
    assert "vdb takes 500 requests a second and no more from " in told
    assert "with no more to do than before" in told


@pytest.mark.parametrize(("linked", "share"), [(True, 0.0), (False, 0.5)])
def test_what_nobody_waited_for_cost_nothing(tmp_path: Path, linked: bool, share: float) -> None:
    """Two requests, one of which was read ahead in time; where nobody knows who waited for what, a part of the requests' own time is all that can be said."""
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(2),
        "start_ns": np.array([0, 10]) * MS,
        "latency_ns": MS,
        "op": "read",
        "fs_ns": MS,
        "pid": 40,
        "tid": 40,
        "comm": "db",
    }
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(2),
        "start_ns": np.array([0, 5]) * MS,
        "latency_ns": MS,
        "op": "read",
        "device": "vdb",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": MS,
        "interrupt_ns": 0,
    }
    links: Any = {"parent_id": [SYSCALL_ID_BASE], "child_id": [BLOCK_ID_BASE]} if linked else None
    path = write_case(
        tmp_path / "x.case",
        syscall=calls,
        block=block,
        links=links,
        meta={"duration_ns": 20 * MS},
    )
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in ("syscall", "block")}
        context: Any = SimpleNamespace(
            case=case, layer="syscall", survey=surveys["syscall"], surveys=surveys, keeps_rate=False
        )
        lost_sql = f"SELECT {BLOCK_ID_BASE | 1} AS op_id, {MS} AS lost_ns"
        assert share_lost(context, surveys["block"], lost_sql) == (share, None)
