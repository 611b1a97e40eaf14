"""Operations that are longer because they do more, beside some that are longer because something held them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.evidence.more_work import more_work
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import WBT, Case
from whodisk.verdict.solve import solve

COMMITS = 4000
#: Every so many commits one is a checkpoint.
EVERY = 100
REQUESTS = 256
#: Checkpoints, and requests of each, of the commits that writeback throttling holds.
MANY, MADE = 20, 40
MS = 1_000_000


def _case(path: Path, *, request_ns: float, held: int = 0, linked: bool = True, usual: int = 2) -> Path:
    """Commits of two (`usual`) requests, and checkpoints of 256 requests that end one after the other; `held` ordinary commits wait 30 ms in the device.

    `request_ns` is what the device takes for each request of a checkpoint; for those of other commits 50 us.
    """
    rng = np.random.default_rng(5)
    start, latency, queue, device, block, parent = [], [], [], [], [], []
    now, stuck = 10_000_000, set(rng.choice(np.arange(20, COMMITS), held, replace=False).tolist())
    for number in range(COMMITS):
        checkpoint = number % EVERY == EVERY - 1
        each = rng.normal(
            request_ns / 4 if checkpoint else 50_000.0, 2000.0, REQUESTS if checkpoint else usual
        )
        each = np.abs(each).astype(np.int64)
        if number in stuck and not checkpoint:
            each[0] += 30_000_000
        ends = now + 20_000 + np.cumsum(each)
        # Requests of a checkpoint are handed over at once: they queue for each other.
        begins = np.where(checkpoint, now + 20_000, ends - each)
        block += [
            (begin, end - begin, end - begin - length, length, len(each) if checkpoint else 1)
            for begin, end, length in zip(begins, ends, each, strict=True)
        ]
        parent += [number] * len(each)
        start.append(now)
        latency.append(int(ends[-1]) - now + 5000)
        waited = int((ends[-1] - now - 20_000) * (0.9 if checkpoint else 0.1))
        queue.append(waited)
        device.append(int(ends[-1]) - now - 20_000 - waited)
        now += latency[-1] + int(rng.integers(20_000, 60_000))
    begins, lengths, queued, served, depth = (
        np.array(column, np.int64) for column in zip(*block, strict=True)
    )
    spent = np.array(latency) - np.array(queue) - np.array(device)
    app = {
        "op_id": APP_ID_BASE + np.arange(COMMITS),
        "start_ns": start,
        "latency_ns": latency,
        "op": "commit",
        "device": "nvme0n1",
        "comm": "base",
        "pid": 7,
        "tid": 7,
        "size_bytes": None,
        "offset_bytes": None,
        "app_ns": spent,
        "queue_ns": queue,
        "device_ns": device,
    }
    requests = {
        "op_id": BLOCK_ID_BASE + np.arange(len(begins)),
        "start_ns": begins,
        "latency_ns": lengths,
        "op": "write",
        "device": "nvme0n1",
        "comm": "base",
        "pid": 7,
        "queue_depth": np.where(depth > 2, depth, 1),
        "queue_ns": queued,
        "device_ns": served,
    }
    links = {
        "parent_id": APP_ID_BASE + np.array(parent),
        "child_id": BLOCK_ID_BASE + np.arange(len(begins)),
    }
    return write_case(path, app=app, block=requests, links=links if linked else None)


@pytest.mark.parametrize("linked", [True, False])
def test_a_checkpoint_that_takes_what_its_requests_take_accuses_nobody(tmp_path: Path, linked: bool) -> None:
    verdict = solve(_case(tmp_path / "one.case", request_ns=50_000.0, linked=linked))
    accused = [finding for finding in verdict.findings if finding.culprit.kind != "saturation"]
    # Without links nobody knows how much an operation did: the queue is what held it.
    assert bool(accused) is not linked, [finding.claim for finding in verdict.findings]
    if linked:
        told = " ".join([*verdict.minor, *(finding.claim for finding in verdict.findings)])
        assert "many more requests" in told or "make few" in told, told


def test_a_checkpoint_does_more_than_commits_that_do_much_themselves(tmp_path: Path) -> None:
    """Every commit makes nine requests, and few make 256: rare is what makes so many, not what makes more than a few."""
    verdict = solve(_case(tmp_path / "one.case", request_ns=50_000.0, usual=9))
    assert [f.culprit.kind for f in verdict.findings if f.culprit.kind != "saturation"] == [], verdict.summary


def test_what_held_an_ordinary_commit_is_named_beside_checkpoints(tmp_path: Path) -> None:
    verdict = solve(_case(tmp_path / "one.case", request_ns=50_000.0, held=12))
    accused = [finding for finding in verdict.findings if finding.culprit.kind != "saturation"]
    assert [finding.culprit.name for finding in accused] == ["device"], [f.claim for f in verdict.findings]


def test_a_device_that_is_slow_for_many_requests_is_not_excused(tmp_path: Path) -> None:
    verdict = solve(_case(tmp_path / "one.case", request_ns=2_000_000.0))
    assert any(finding.culprit.kind != "saturation" for finding in verdict.findings), verdict.summary


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
        count = MADE if big[number] else 1
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
