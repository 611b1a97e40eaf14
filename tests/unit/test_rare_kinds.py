"""Of a kind with few operations nobody knows the tail: one of them stands apart if all operations, and its own kind, are far shorter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

READS, US, MS = 6_000, 1_000, 1_000_000


def mixed(path: Path, seed: int, writes: int, write_us: float, longest_ms: float = 0.0) -> Path:
    """Reads one after the other, with a natural tail, and a few writes evenly among them, one of which takes longer."""
    rng = np.random.default_rng([seed, 47])
    latency = (2 * MS * np.exp(rng.normal(0, 0.5, READS + writes))).astype(np.int64)
    is_write = np.zeros(READS + writes, np.bool_)
    is_write[np.linspace(100, READS - 100, writes).astype(int)] = True
    latency[is_write] = (write_us * US * np.exp(rng.normal(0, 0.3, writes))).astype(np.int64)
    if longest_ms:
        latency[np.flatnonzero(is_write)[writes // 2]] = round(longest_ms * MS)
    begin = np.cumsum(latency + 100 * US) - latency
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(latency)),
        "start_ns": begin,
        "latency_ns": latency,
        "op": np.where(is_write, "write", "read"),
        "size_bytes": np.where(is_write, 16_384, 131_072),
        "offset_bytes": rng.integers(0, 1 << 20, len(latency)) * 4096,
        "device": "sdb",
        "queue_ns": 0,
        "device_ns": latency,
        "interrupt_ns": 0,
    }
    return write_case(path, block=block)


@pytest.mark.parametrize("writes", [24, 60])
def test_one_of_a_few_writes_that_took_seconds_is_told(writes: int, tmp_path: Path) -> None:
    verdict = solve(mixed(tmp_path / "case", writes, writes, 600, 9_000))
    assert verdict.status in ("slow", "outliers")
    first = verdict.findings[0]
    assert (first.culprit.name, first.culprit.because_of) == ("device", "device:sdb")
    assert (
        first.claim.startswith("1 write took 9 s") and "at other times no operation took over" in first.claim
    )
    assert verdict.slowest[0].apart


@pytest.mark.parametrize(
    ("writes", "write_us", "longest_ms"),
    [
        pytest.param(32, 600, 0.0, id="nothing"),
        pytest.param(32, 600, 60.0, id="no longer than a few times the longest read"),
        pytest.param(32, 900_000, 0.0, id="all writes take that long"),
        pytest.param(5, 600, 9_000.0, id="too few to know what is usual"),
    ],
)
def test_what_is_no_longer_than_others_or_not_known_to_be_is_not(
    writes: int, write_us: float, longest_ms: float, tmp_path: Path
) -> None:
    for seed in range(3):
        path = mixed(tmp_path / str(seed), seed, writes, write_us, longest_ms)
        assert not any(slow.apart for slow in solve(path).slowest), seed


def of_many_sizes(path: Path, seed: int, stalls: tuple[int, ...], heavy: float = 0.5) -> Path:
    """Reads of eight sizes, 250 of each; the device holds those at `stalls` for half a second."""
    rng = np.random.default_rng([seed, 48])
    count = 2_000
    latency = (200 * US * np.exp(rng.normal(0, heavy, count))).astype(np.int64)
    latency[list(stalls)] = 500 * MS
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": np.cumsum(latency + 100 * US) - latency,
        "latency_ns": latency,
        "size_bytes": 512 << (np.arange(count) % 8),
        "offset_bytes": rng.integers(0, 1 << 20, count) * 65536,
        "device": "sdb",
        "queue_ns": 0,
        "device_ns": latency,
        "interrupt_ns": 0,
    }
    return write_case(path, block=block)


def test_stalls_that_met_one_of_many_kinds_each_are_told(tmp_path: Path) -> None:
    # Of 250 reads of one size, with this tail, one of half a second may be the longest by chance: of 2,000 it is not.
    verdict = solve(of_many_sizes(tmp_path / "case", 1, (500, 1_501), 1.0))
    assert verdict.status == "slow"
    assert verdict.findings[0].claim.startswith("2 reads took 500 ms")
    assert [slow.apart for slow in verdict.slowest[:3]] == [True, True, False]


def test_a_heavy_tail_of_many_sizes_has_none(tmp_path: Path) -> None:
    for seed in range(3):
        assert not any(
            slow.apart for slow in solve(of_many_sizes(tmp_path / str(seed), seed, (), 1.0)).slowest
        )


def test_an_open_among_reads_that_take_as_long_again_and_again_is_nothing_apart(tmp_path: Path) -> None:
    """Most reads find their data in memory, one in fifty waits for a disk, and so does one open."""
    rng = np.random.default_rng(49)
    count = 6_000
    is_open = np.arange(count) % 200 == 0
    cold = rng.random(count) < 0.006
    cold[is_open] = np.arange(is_open.sum()) == 4
    latency = (4 * US * np.exp(rng.normal(0, 0.5, count))).astype(np.int64)
    latency[cold] = (rng.uniform(8, 60, int(cold.sum())) * MS).astype(np.int64)
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(count),
        "start_ns": np.cumsum(latency + 100 * US) - latency,
        "latency_ns": latency,
        "op": np.where(is_open, "open", "read"),
        "size_bytes": np.where(is_open, 0, 131_072),
        "device": "sdb",
        "fs_ns": np.where(is_open | ~cold, latency, 0),
        "device_ns": np.where(cold & ~is_open, latency, 0),
    }
    verdict = solve(write_case(tmp_path / "case", syscall=syscall))
    assert not any("at other times no operation" in finding.claim for finding in verdict.findings)
