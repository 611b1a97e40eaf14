"""Page faults of mapped files, page after page, where the kernel is told to read nothing around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

US = 1_000
FAULTS = 4_000


def mapped(path: Path, window_kb: int | None, spread: int) -> Path:
    """Faults of 300 us each, `spread` pages apart from each other, in any order."""
    rng = np.random.default_rng(5)
    latency = (300 * US * np.exp(rng.normal(0, 0.1, FAULTS))).astype(np.int64)
    start = np.cumsum(latency + 20 * US) - latency
    queue = {} if window_kb is None else {"read_ahead_kb": window_kb}
    at = {"start_ns": start, "device": "nvme0n1", "pid": 40, "tid": 40, "comm": "git"}
    calls = at | {
        "op_id": SYSCALL_ID_BASE | np.arange(FAULTS),
        "latency_ns": latency,
        "op": "fault",
        "size_bytes": 4096,
        "offset_bytes": rng.permutation(FAULTS) * 4096 * spread,
        "file": "objects.pack",
        "fs_ns": 20 * US,
        "device_ns": latency - 20 * US,
    }
    requests = at | {
        "op_id": BLOCK_ID_BASE | np.arange(FAULTS),
        "start_ns": start + 20 * US,
        "latency_ns": latency - 20 * US,
        "op": "read",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": latency - 20 * US,
        "interrupt_ns": 0,
    }
    return write_case(
        path,
        syscall=calls,
        block=requests,
        meta={"observer": "record", "command": ["git"], "duration_ns": int(start[-1]) + 1_000 * US},
        system={"devices": {"nvme0n1": {"queue": queue}}},
    )


@pytest.mark.parametrize(
    ("window_kb", "spread", "accused"),
    [
        (0, 1, True),
        (4, 1, True),
        # Linux' default is nobody's mistake, and a window of 128 KiB does not help where pages lie a MiB apart.
        (128, 1, False),
        (0, 256, False),
        (None, 1, False),
    ],
)
def test_a_window_is_accused_where_the_default_one_holds_many_pages(
    tmp_path: Path, window_kb: int | None, spread: int, accused: bool
) -> None:
    verdict = solve(mapped(tmp_path / "x.case", window_kb, spread))
    culprits = [(finding.culprit.kind, finding.culprit.name) for finding in verdict.findings]
    assert culprits == ([("config", "read_ahead_kb of nvme0n1")] if accused else [])
    if accused:
        assert "4,000 pages in 125 pieces of 128 KiB" in verdict.findings[0].claim
