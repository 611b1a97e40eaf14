"""Operations that took longer because they made more requests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.evidence.more_work import more_work
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import WBT, Case

COMMITS, MANY, REQUESTS = 4_000, 20, 40
MS = 1_000_000


def commits(path: Path, held: str) -> Path:
    """Commits of one request, and every 200th one of 40 (a checkpoint): 10 ms. The last of these took 30 ms: writeback throttling held its
    requests, which ended one after the other (`wbt`), or all of them paused for 20 ms, and it held what came after (`pause`)."""
    big = np.arange(COMMITS) % (COMMITS // MANY) == 0
    last = int(np.flatnonzero(big)[-1])
    latency = np.where(big, 10 * MS, MS // 2)
    latency[last] = 30 * MS
    start = np.cumsum(latency + MS // 10) - latency
    throttle = np.zeros(COMMITS, np.int64)
    throttle[last] = 20 * MS
    app = {
        "op_id": APP_ID_BASE + np.arange(COMMITS),
        "start_ns": start,
        "latency_ns": latency,
        "op": np.full(COMMITS, "commit"),
        "throttle_ns": throttle,
        "device_ns": latency - throttle,
        "flags": np.where(throttle > 0, WBT, 0),
        "tid": [11] * COMMITS,
        "pid": [10] * COMMITS,
        "comm": ["base"] * COMMITS,
        "device": ["sda"] * COMMITS,
    }
    parent, begin = [], []
    for number in range(COMMITS):
        count = REQUESTS if big[number] else 1
        step = latency[number] // count
        if number == last and held == "pause":
            step = 10 * MS // count
        paused = 20 * MS if number == last and held == "pause" else 0
        parent += [APP_ID_BASE + number] * count
        begin += [int(start[number] + step * k + (paused if k > count // 2 else 0)) for k in range(count)]
    block = {
        "op_id": BLOCK_ID_BASE + np.arange(len(begin)),
        "start_ns": np.array(begin),
        "latency_ns": np.full(len(begin), MS // 4),
        "op": np.full(len(begin), "write"),
        "device_ns": np.full(len(begin), MS // 4),
        "size_bytes": np.full(len(begin), 4096),
        "queue_depth": np.ones(len(begin), np.int64),
        "tid": [11] * len(begin),
        "pid": [10] * len(begin),
        "comm": ["base"] * len(begin),
        "device": ["sda"] * len(begin),
    }
    links = {"parent_id": np.array(parent), "child_id": block["op_id"]}
    meta = {"duration_ns": int(start[-1] + latency[-1]) + MS}
    return write_case(path, app=app, block=block, links=links, meta=meta, devices=("sda",))


def found(path: Path) -> tuple[int, bool]:
    """Operations of more work, and whether the last of many requests is one."""
    with Case(path) as case:
        more = more_work(case, {layer: survey_layer(case, layer) for layer in ("app", "block")}, "app")
    last = APP_ID_BASE + (COMMITS // MANY) * (MANY - 1)
    return len(more.op_id), bool(more.among(np.array([last]))[0])


def test_what_writeback_throttling_holds_back_is_the_work_itself(tmp_path: Path) -> None:
    assert found(commits(tmp_path / "wbt", "wbt")) == (MANY, True)


def test_a_pause_is_not(tmp_path: Path) -> None:
    assert found(commits(tmp_path / "pause", "pause")) == (MANY - 1, False)
