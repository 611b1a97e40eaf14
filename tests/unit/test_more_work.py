"""Operations that are longer because they do more, beside some that are longer because something held them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.verdict.solve import solve

COMMITS = 4000
#: Every so many commits one is a checkpoint.
EVERY = 100
REQUESTS = 256


def _case(path: Path, *, request_ns: float, held: int = 0, linked: bool = True) -> Path:
    """Commits of two requests, and checkpoints of 256 requests that end one after the other; `held` ordinary commits wait 30 ms in the device.

    `request_ns` is what the device takes for each request of a checkpoint; for those of other commits 50 us.
    """
    rng = np.random.default_rng(5)
    start, latency, queue, device, block, parent = [], [], [], [], [], []
    now, stuck = 10_000_000, set(rng.choice(np.arange(20, COMMITS), held, replace=False).tolist())
    for number in range(COMMITS):
        checkpoint = number % EVERY == EVERY - 1
        each = rng.normal(request_ns / 4 if checkpoint else 50_000.0, 2000.0, REQUESTS if checkpoint else 2)
        each = np.abs(each).astype(np.int64)
        if number in stuck and not checkpoint:
            each[0] += 30_000_000
        ends = now + 20_000 + np.cumsum(each)
        # Requests of a checkpoint are handed over at once: they queue for each other.
        begins = np.where(checkpoint, now + 20_000, ends - each)
        block += [
            (begin, end - begin, end - begin - length, length, min(REQUESTS, len(each)))
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


def test_what_held_an_ordinary_commit_is_named_beside_checkpoints(tmp_path: Path) -> None:
    verdict = solve(_case(tmp_path / "one.case", request_ns=50_000.0, held=12))
    accused = [finding for finding in verdict.findings if finding.culprit.kind != "saturation"]
    assert [finding.culprit.name for finding in accused] == ["device"], [f.claim for f in verdict.findings]


def test_a_device_that_is_slow_for_many_requests_is_not_excused(tmp_path: Path) -> None:
    verdict = solve(_case(tmp_path / "one.case", request_ns=2_000_000.0))
    assert any(finding.culprit.kind != "saturation" for finding in verdict.findings), verdict.summary
