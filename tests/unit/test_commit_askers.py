"""What a journal's thread writes, and the cache that it has flushed, for the sync of one program, that program cost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

MS = 1_000_000
ROUNDS = 300


def _case(path: Path, askers: list[tuple[str, int]]) -> Path:
    """A disk with an arm: each 40 ms rival writes 16 KiB, the journal's thread a block, and the disk flushes its cache for 15 ms; reads of db wait for that."""
    begin = np.arange(ROUNDS) * 40 * MS
    number = np.arange(ROUNDS)
    reads, (data, commits, flushes, requests) = (
        SYSCALL_ID_BASE + number,
        [BLOCK_ID_BASE + 1000 * part + number for part in range(4)],
    )
    events = []
    for at, start in enumerate(begin.tolist()):
        took = 17 * MS
        events.append(
            {
                "time_ns": start + MS,
                "kind": "journal_commit",
                "subject": "sda",
                "detail": f"duration_ns {took - MS} bytes 24576 transaction {70 + at} by jbd2/sda-8 (pid 60)",
            }
        )
        events += [
            {
                "time_ns": start,
                "kind": "fsync",
                "subject": "inode:12",
                "detail": f"duration_ns {took} transaction {70 + at} by {name} (pid {pid})",
            }
            for name, pid in askers
        ]
    case = write_case(
        path,
        syscall={
            "op_id": reads,
            "start_ns": begin + 2 * MS,
            "latency_ns": 22 * MS,
            "op": "read",
            "size_bytes": 4096,
            "tid": 7,
            "pid": 7,
            "comm": "db",
            "device": "sda",
            "queue_ns": 0,
            "device_ns": 22 * MS,
        },
        block={
            "op_id": np.concatenate((data, commits, flushes, requests)),
            "start_ns": np.concatenate((begin, begin + MS + MS // 2, begin + 2 * MS, begin + 2 * MS)),
            "latency_ns": np.repeat(np.array((4, 5, 150, 220)) * MS // 10, ROUNDS),
            "device_ns": np.repeat(np.array((4, 5, 150, 220)) * MS // 10, ROUNDS),
            "op": np.repeat(("write", "write", "flush", "read"), ROUNDS),
            "comm": [*["rival"] * ROUNDS, *["jbd2/sda-8"] * ROUNDS, *[None] * ROUNDS, *["db"] * ROUNDS],
            "pid": [*[500] * ROUNDS, *[60] * ROUNDS, *[None] * ROUNDS, *[7] * ROUNDS],
            "offset_bytes": [
                *(number * 16384),
                *(number * 4096 + (1 << 33)),
                *[None] * ROUNDS,
                *(number * 409600 + (1 << 36)),
            ],
            "size_bytes": [*[16384] * ROUNDS, *[65536] * ROUNDS, *[0] * ROUNDS, *[4096] * ROUNDS],
            "device": "sda",
        },
        links={"parent_id": reads, "child_id": requests},
        tables={"events": events},
        devices=("sda",),
        meta={"observer": "record", "command": ["db"], "command_pid": 7},
    )
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["devices"] = {"sda": {"queue": {"rotational": "1"}}}
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def test_commits_for_a_neighbours_syncs_are_the_neighbours(tmp_path: Path) -> None:
    """A neighbour that synced in a loop made rdiff-backup three times as slow, and was told with its 541 writes of 444 us: "no operation stands out"."""
    first = solve(_case(tmp_path / "case", [("rival", 500)])).findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("process", "rival")
    # The disk flushed for the first 15 of 22 ms of each read.
    assert first.share_of_latency == pytest.approx(15 / 22, rel=0.1)


@pytest.mark.parametrize("askers", [[], [("db", 7)], [("rival", 500), ("db", 7)]])
def test_commits_that_the_program_wanted_are_nobody_elses(
    askers: list[tuple[str, int]], tmp_path: Path
) -> None:
    found = solve(_case(tmp_path / "case", askers)).findings
    assert not any(f.culprit.name == "rival" for f in found), [f.claim for f in found]
