"""Errors of a device that are tried again at once: none of their operations takes four times as long as usual."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.verdict.solve import solve

COUNT = 12_000


def tried_again(path: Path, retry_ns: int, *, apart: bool) -> Path:
    """One request in 80 is tried again; `apart`: the errors come with others instead."""
    rng = np.random.default_rng(7)
    number = np.arange(COUNT)
    device = (180_000 * np.exp(rng.normal(0, 0.15, COUNT))).astype(np.int64)
    tried = number % 80 == 17
    device[tried] += retry_ns
    start = number * 600_000
    ops = {"start_ns": start, "latency_ns": device, "device": "nvme0n1", "size_bytes": 4096, "queue_depth": 1}
    app = {**ops, "op_id": APP_ID_BASE | number, "tid": 4300, "device_ns": device, "comm": "postgres"}
    block = {**ops, "op_id": BLOCK_ID_BASE | number, "device_ns": device, "comm": "postgres"}
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    failed = number % 80 == (57 if apart else 17)
    events = [
        {"time_ns": int(moment) + 90_000, "kind": "error", "subject": "nvme0n1", "detail": "tried again"}
        for moment in start[failed]
    ]
    meta = {"duration_ns": int(start[-1]) + 1_000_000}
    return write_case(path, app=app, block=block, links=links, events=events, meta=meta)


@pytest.mark.parametrize("retry_ns", [330_000, 1_500_000])
def test_the_device_is_named_for_them(retry_ns: int, tmp_path: Path) -> None:
    first = solve(tried_again(tmp_path / "case", retry_ns, apart=False)).findings[0]
    assert (first.detector, first.culprit.name) == ("device_errors", "nvme0n1")


def test_not_for_errors_that_cost_nothing(tmp_path: Path) -> None:
    found = solve(tried_again(tmp_path / "case", 330_000, apart=True)).findings
    assert all(finding.detector != "device_errors" for finding in found)
