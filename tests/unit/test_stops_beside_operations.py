"""Operations that a stop made long stand apart, although another stop, shorter and between operations, fills the gap behind them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

OPERATIONS, US, MS = 9_000, 1_000, 1_000_000
PID = 900


def unpacking(path: Path, seed: int, inside_ms: tuple[float, ...], between_ms: tuple[float, ...]) -> Path:
    """One thread makes files, which takes its file system up to 22 ms. It is stopped inside some calls, and between others."""
    rng = np.random.default_rng([seed, 61])
    fs_ns = np.minimum(22 * MS, 250 * US * np.exp(rng.normal(0, 1.1, OPERATIONS))).astype(np.int64)
    stops = [*inside_ms, *between_ms]
    places = rng.permutation(np.linspace(700, OPERATIONS - 700, len(stops)).astype(int))
    fs_ns[places] = 250 * US
    stopped_ns = np.zeros(OPERATIONS, np.int64)
    gap_ns = np.full(OPERATIONS, 5 * US)
    stopped_ns[places[: len(inside_ms)]] = (np.array(inside_ms) * MS).astype(np.int64)
    gap_ns[places[len(inside_ms) :]] += (np.array(between_ms) * MS).astype(np.int64)
    latency = fs_ns + stopped_ns
    begin = np.cumsum(latency + gap_ns) - latency - gap_ns
    waits = []
    for place, length_ms in zip(places.tolist(), stops, strict=True):
        inside = stopped_ns[place] > 0
        start = int(begin[place]) + (40 * US if inside else int(latency[place]) + 1 * US)
        wait = {"start_ns": start, "duration_ns": int(length_ms * MS), "state": "stopped"}
        waits.append({"tid": PID, "pid": PID, "comm": "tar", "cpu": 0, "cause": "do_signal_stop", **wait})
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(OPERATIONS),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "open",
        "size_bytes": 0,
        "device": "nvme0n1",
        "tid": PID,
        "pid": PID,
        "comm": "tar",
        "app_ns": stopped_ns,
        "fs_ns": fs_ns,
        "queue_ns": 0,
        "device_ns": 0,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": 0,
    }
    meta = {"duration_ns": int((begin + latency).max()) + MS, "command": ["tar"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_shorter_stop_between_operations_hides_no_longer_ones(tmp_path: Path, seed: int) -> None:
    verdict = solve(unpacking(tmp_path / "case", seed, (90, 80, 75, 74), (70, 36)))
    said = [(f.culprit.kind, f.culprit.because_of) for f in verdict.findings]
    assert said == [("process", "silence of the submitter, state stopped")], verdict.summary
    apart = [one.what for one in verdict.slowest if one.apart]
    assert apart[:4] == ["its thread was stopped by a signal"] * 4, verdict.slowest


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stops_as_long_as_other_waits_are_no_outliers(tmp_path: Path, seed: int) -> None:
    verdict = solve(unpacking(tmp_path / "case", seed, (26, 24, 22), (24, 33)))
    assert not [one for one in verdict.slowest if one.apart], verdict.slowest
