"""What requests of another program cost an operation that waits for several of its own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.detectors.shared_arm import _lost_sql
from whodisk.evidence.survey import survey_layer
from whodisk.machine.peers import rotates
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

MS = 1_000_000
#: Of syncs, and of three kinds of requests.
IDS = (APP_ID_BASE, BLOCK_ID_BASE, BLOCK_ID_BASE + 1000, BLOCK_ID_BASE + 2000)


@pytest.mark.parametrize(
    ("starts_ms", "lost_ms"),
    [
        # A log block, a flush, a commit block: each begins when the one before has ended.
        ((0, 10, 20), 9.0),
        # Three members of a stripe at once: the last one to end counts.
        ((0, 0, 0), 3.0),
        # Two at once, and one behind them.
        ((0, 1, 20), 6.0),
    ],
)
def test_what_waits_one_after_the_other_adds_up(
    starts_ms: tuple[int, ...], lost_ms: float, tmp_path: Path
) -> None:
    requests = BLOCK_ID_BASE | np.arange(3)
    block = {"op_id": requests, "start_ns": np.array(starts_ms) * MS, "latency_ns": 10 * MS, "op": "write"}
    links = {"parent_id": [APP_ID_BASE] * 3, "child_id": requests}
    assert lost_by_a_sync(tmp_path / "case", block, links, requests, 3.0) == [lost_ms]


def lost_by_a_sync(
    path: Path, block: dict[str, Any], links: dict[str, Any], guest: Any, each_ms: float
) -> list[float]:
    """What a sync of 40 ms lost, ms, some of whose requests (`guest`) lost `each_ms`."""
    syscall = {
        "op_id": [APP_ID_BASE],
        "start_ns": 0,
        "latency_ns": 40 * MS,
        "op": "sync",
        "tid": 7,
        "comm": "db",
    }
    meta = {"observer": "record"}
    held: Any = SimpleNamespace(op_id=np.array(guest), lost_ns=np.full(len(guest), each_ms * MS))
    context: Any = SimpleNamespace(layer="syscall")
    with Case(
        write_case(path, syscall=syscall, block=block | {"device": "sda"}, links=links, meta=meta)
    ) as case:
        rows = case.rows(f"SELECT lost_ns FROM ({_lost_sql(context, held)})")
    return [float(row["lost_ns"] or 0) / MS for row in rows]


def test_a_flush_is_a_part_of_the_request_that_carries_it(tmp_path: Path) -> None:
    """A commit block waits for a neighbour, then for its flush, with which it ends: what it lost is lost."""
    commit, flush = BLOCK_ID_BASE, BLOCK_ID_BASE + 1
    block = {
        "op_id": [commit, flush],
        "start_ns": np.array([0, 25]) * MS,
        "latency_ns": np.array([40, 15]) * MS,
        "op": ["write", "flush"],
    }
    links = {"parent_id": [APP_ID_BASE, commit], "child_id": [commit, flush]}
    assert lost_by_a_sync(tmp_path / "case", block, links, [commit], 20.0) == [20.0]


def test_a_commit_waits_for_the_journal_and_its_flush(tmp_path: Path) -> None:
    """A disk with an arm serves a neighbour while a journal's thread commits for the judged program."""
    rounds = 200
    begin = np.arange(rounds) * 100 * MS
    syncs, commits, flushes, reads = (first + np.arange(rounds) for first in IDS)
    path = write_case(
        tmp_path / "case",
        syscall={
            "op_id": syncs,
            "start_ns": begin,
            "latency_ns": 60 * MS,
            "op": "sync",
            "tid": 7,
            "pid": 7,
            "comm": "db",
        },
        block={
            "op_id": np.concatenate((commits, flushes, reads)),
            "start_ns": np.concatenate((begin, begin + 10 * MS, begin + 15 * MS)),
            "latency_ns": np.repeat(np.array((10, 50, 20)) * MS, rounds),
            "device_ns": np.repeat(np.array((10, 50, 20)) * MS, rounds),
            "op": np.repeat(("write", "flush", "read"), rounds),
            "comm": [*["jbd2/sda-8"] * rounds, *[None] * rounds, *["rival"] * rounds],
            "offset_bytes": [
                *(np.arange(rounds) * 4096),
                *[None] * rounds,
                *(np.arange(rounds) * 4096 + (1 << 36)),
            ],
            "size_bytes": [*[4096] * rounds, *[0] * rounds, *[262144] * rounds],
            "device": "sda",
        },
        links={
            "parent_id": np.concatenate((syncs, commits)),
            "child_id": np.concatenate((commits, flushes)),
        },
        devices=("sda",),
        meta={"observer": "record"},
    )
    system = json.loads((path / "system.json").read_text(encoding="utf-8"))
    system["devices"] = {"sda": {"queue": {"rotational": "1"}}}
    (path / "system.json").write_text(json.dumps(system), encoding="utf-8")
    verdict = solve(path)
    first = verdict.findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("process", "rival")
    # The arm was at the neighbour for 20 of 60 ms of each.
    assert first.share_of_latency == pytest.approx(20 / 60, rel=0.05)


@pytest.mark.parametrize(
    ("driver", "servers", "took_ms", "turns"),
    [
        ("virtio_blk", {}, 0.2, False),
        ("virtio_blk", {}, 5, True),
        ("sd", {}, 0.2, True),
        # Its file is not on that disk: a process serves it, and says itself what it is.
        ("virtio_blk", {"77": ["loop2"]}, 0.2, True),
    ],
)
def test_a_loop_device_has_the_arm_of_the_disk_below(
    driver: str, servers: dict[str, list[str]], took_ms: float, turns: bool, tmp_path: Path
) -> None:
    requests = np.arange(200)
    path = write_case(
        tmp_path / "case",
        block={
            "op_id": BLOCK_ID_BASE | requests,
            "start_ns": requests * 10 * MS,
            "latency_ns": int(took_ms * MS),
            "device": "loop2",
        },
    )
    system = json.loads((path / "system.json").read_text(encoding="utf-8"))
    queue = {"rotational": "1"}
    system["devices"] = {
        "loop2": {"queue": queue, "facts": {"driver": "loop", "loop_backing_file": "/srv/disk.img"}},
        "vda": {"queue": queue, "facts": {"driver": driver}},
    }
    system |= {"mounts": {"/": ["/dev/vda", "ext4", "rw"]}, "servers": servers}
    (path / "system.json").write_text(json.dumps(system), encoding="utf-8")
    with Case(path) as case:
        context = SimpleNamespace(case=case, surveys={"block": survey_layer(case, "block")})
        assert rotates(context, "loop2") == turns  # type: ignore[arg-type]
