"""Flushes are requests of a kind of their own: a device that takes longer for them from a moment on, or at times, with no more written before each, is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ground_truth.flushes import synced_log
from tests.synth import BLOCK_ID_BASE, write_case
from whodisk.evidence.flush_work import flushes_of
from whodisk.evidence.level_change import level_change
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.thresholds import LEVEL_BLOCKS
from whodisk.evidence.two_levels import two_levels
from whodisk.findings import Verdict
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve


def late(part: float) -> bool:
    return part >= 0.6


def again(part: float) -> bool:
    return int(part * 20) % 3 == 1


def verdict(path: Path, part: Callable[[float], bool] = late, **how: Any) -> Verdict:
    return solve(synced_log(7, path / "case", part, **how))


def test_what_flushes_take_since_a_moment_is_told_with_its_cost(tmp_path: Path) -> None:
    found = verdict(tmp_path, slower=40)
    assert found.status == "slow", found.summary
    [finding] = found.findings
    assert (finding.culprit.name, finding.culprit.because_of) == ("device", "device:sda")
    # Another finding may accuse the same device; then it is told there.
    told = finding.claim.partition("Flushes of sda take ")[2]
    assert told.endswith("of all latency.") and finding.share_of_latency > 0.8, finding.claim
    assert 36 < float(told.split()[0]) < 44
    # 1,200 rounds of some 330 us.
    assert "times as long from 39" in finding.claim, finding.claim


@pytest.mark.parametrize(
    "how",
    [{"larger": 16}, {"more": 8}, {"larger": 1.25}, {"reads": 60}],
    ids=["larger", "in pieces", "a little larger", "beside reads"],
)
def test_flushes_that_have_more_to_do_accuse_nobody(how: dict[str, Any], tmp_path: Path) -> None:
    found = verdict(tmp_path, slower=40, **how)
    assert not [finding for finding in found.findings if "Flushes of sda take" in finding.claim], (
        found.summary
    )


def test_a_limit_tells_both_levels_and_no_mean(tmp_path: Path) -> None:
    limit = verdict(tmp_path, slower=40, larger=16).limit
    assert limit is not None
    told = limit.split("sda flushed its cache, ")[1]
    before, _, after = told.partition(" a flush, from ")
    assert before.endswith(" us") and after.split(" on ")[1].split()[:2][-1] == "ms", limit


def test_flushes_and_writes_that_changed_together_are_one_finding(tmp_path: Path) -> None:
    [finding] = verdict(tmp_path, slower=10, writes_slower=3).findings
    assert "times as long for writes of the same size, " in finding.claim, finding.claim
    assert "times as long for flushes from" in finding.claim
    # A flush has lost nine tenths of its time, a write two thirds: together more than writes can have lost.
    assert finding.share_of_latency > 0.5


def test_flushes_that_are_slow_again_and_again(tmp_path: Path) -> None:
    [finding] = verdict(tmp_path, again, slower=6).findings
    assert finding.detector == "slower_at_times"
    assert finding.claim.startswith("Flushes of sda take ") and "of all latency" in finding.claim
    assert not verdict(tmp_path / "2", again, slower=6, larger=16).findings


def test_what_was_written_before_a_flush(tmp_path: Path) -> None:
    # A write that has not ended when the flush is given to the device is made durable by the next.
    rows = [
        ("flush", 0, 0, 10, 0),
        ("write", 100, 0, 50, 4096),
        ("write", 120, 0, 900, 8192),
        ("read", 130, 0, 10, 1 << 20),
        ("flush", 200, 300, 40, 0),
        ("flush", 1_200, 0, 60, 0),
        ("flush", 1_300, 0, 70, 0),
    ]
    names = ("op", "start_ns", "queue_ns", "device_ns", "size_bytes")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    columns["latency_ns"] = [row[2] + row[3] for row in rows]
    columns["op_id"] = [BLOCK_ID_BASE + number for number in range(len(rows))]
    columns["device"] = ["sda"] * len(rows)
    case = Case(write_case(tmp_path / "case", block=columns, devices=("sda",), meta={"duration_ns": 2_000}))
    survey = survey_layer(case, "block")
    found = case.rows(
        f"SELECT device_ns, written_bytes, writes FROM {flushes_of(case, survey)} AS f ORDER BY start_ns"
    )
    # Nobody knows what was written before the first.
    assert [tuple(row.values()) for row in found] == [(40, 4096, 1), (60, 8192, 1), (70, 0, 0)]


def test_each_load_has_to_be_no_more() -> None:
    rng = np.random.default_rng(1)
    half = np.arange(LEVEL_BLOCKS) >= LEVEL_BLOCKS // 2
    time, even, more = np.where(half, 1.0, 0.0), np.ones(LEVEL_BLOCKS), np.where(half, 2.0, 1.0)
    time = time + rng.normal(0, 0.01, LEVEL_BLOCKS)
    assert level_change(time, even, even) is not None
    assert level_change(time, even, more) is None and level_change(time, more, even) is None
    count = 160
    high = np.arange(count) // 10 % 4 == 1
    time = np.where(high, 1.0, 0.0) + rng.normal(0, 0.01, count)
    assert two_levels(time, np.ones(count), np.ones(count)) is not None
    assert two_levels(time, np.ones(count), np.where(high, 2.0, 1.0)) is None
