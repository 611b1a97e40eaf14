"""Data that no recorder should write: a sentence each, from every detector, and never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.findings import STATUSES
from whodisk.verdict.solve import solve

Columns = dict[str, Any]
COUNT = 600


def _ops(base: int, count: int, **changes: Any) -> Columns:
    """Plain operations, each observed in all stages."""
    number = np.arange(count, dtype=np.int64)
    columns: Columns = {
        "op_id": base + number,
        "start_ns": number * 100_000,
        "latency_ns": np.full(count, 80_000),
        "op": ["read"] * count,
        "device": ["sda"] * count,
        "file": ["/data/a"] * count,
        "comm": ["reader"] * count,
        "offset_bytes": number * 4096,
        "size_bytes": np.full(count, 4096),
        "queue_depth": np.full(count, 1),
        "pid": np.full(count, 10),
        "tid": np.full(count, 10),
        "vector": 40,
        "complete_cpu": 0,
        "flags": 0,
        **{f"{stage}_ns": np.full(count, 10_000) for stage in ("app", "fs", "throttle", "queue", "device")},
        **{f"{stage}_ns": np.full(count, 10_000) for stage in ("interrupt", "reap", "runqueue")},
        "foreign_handler_ns": np.full(count, 1_000),
    }
    return {**columns, **changes}


def _tables(count: int, shift_ns: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Rows in every table beside the operations, some of them about nobody."""
    moments = [shift_ns + number * 100_000 for number in range(count)]
    return {
        "irqs": [
            {
                "host": "h",
                "cpu": 0,
                "vector": None,
                "handler": "x",
                "kind": "hard",
                "start_ns": t,
                "duration_ns": 0,
            }
            for t in moments
        ],
        "cache": [
            {
                "op_id": APP_ID_BASE + number,
                "tier": ("ram", "device", "nonsense")[number % 3],
                "file": None,
                "offset_bytes": None if number % 5 else 0,
                "size_bytes": 0,
                "wait_ns": number % 2,
            }
            for number in range(count)
        ],
        "prefetch": [
            {"file": "/data/a", "start_ns": t, "duration_ns": 0, "issued_bytes": 0, "used_bytes": 5}
            for t in moments
        ],
        "waits": [
            {
                "tid": 10,
                "pid": 10,
                "comm": None,
                "cpu": 0,
                "start_ns": t,
                "duration_ns": 50_000,
                "state": ("runnable", "stopped", "throttled", "blocked", "nonsense")[number % 5],
                "cause": None if number % 2 else "hog",
                "cause_pid": None,
            }
            for number, t in enumerate(moments)
        ],
        "series": [
            {
                "time_ns": t,
                "host": None,
                "kind": "device",
                "subject": "sda",
                "metric": "latency_ns",
                "value": 0.0,
            }
            for t in moments
        ],
    }


def _case(
    path: Path, app: Columns | None, block: Columns | None, linked: bool = True, **changes: Any
) -> Path:
    links = None
    if linked and app is not None and block is not None:
        count = min(len(app["op_id"]), len(block["op_id"]))
        links = {
            "parent_id": app["op_id"][:count],
            "child_id": block["op_id"][:count],
            "bytes": np.full(count, 4096),
        }
    tables = changes.pop("tables", _tables(50))
    return write_case(path, app=app, block=block, links=links, tables=tables, **changes)


def equal(path: Path) -> Path:
    """Every latency is the same."""
    return _case(path, _ops(APP_ID_BASE, COUNT), _ops(BLOCK_ID_BASE, COUNT))


def one(path: Path) -> Path:
    """One operation."""
    return _case(path, _ops(APP_ID_BASE, 1), _ops(BLOCK_ID_BASE, 1))


def none(path: Path) -> Path:
    """No operation, but rows about them."""
    return _case(path, _ops(APP_ID_BASE, 0), _ops(BLOCK_ID_BASE, 0))


def backwards(path: Path) -> Path:
    """The clock steps back in the middle, beyond the begin of the case."""
    start = np.where(np.arange(COUNT) < COUNT // 2, 1, -1) * np.arange(COUNT, dtype=np.int64) * 1_000_000
    changed = {"start_ns": start}
    return _case(
        path,
        _ops(APP_ID_BASE, COUNT, **changed),
        _ops(BLOCK_ID_BASE, COUNT, **changed),
        tables=_tables(50, -(10**9)),
    )


def duplicates(path: Path) -> Path:
    """Every operation has the same id, and is its own parent."""
    same = np.full(COUNT, 7, np.int64)
    return _case(path, _ops(APP_ID_BASE, COUNT, op_id=same), _ops(BLOCK_ID_BASE, COUNT, op_id=same))


def never_finished(path: Path) -> Path:
    """Everything is still open at the end."""
    forever = {"open": np.full(COUNT, True)}
    return _case(path, _ops(APP_ID_BASE, COUNT, **forever), _ops(BLOCK_ID_BASE, COUNT, **forever))


def nulls(path: Path) -> Path:
    """Nothing is known but when, and how long."""
    unknown = dict.fromkeys(
        (
            "device",
            "file",
            "comm",
            "offset_bytes",
            "size_bytes",
            "queue_depth",
            "pid",
            "tid",
            "vector",
            "complete_cpu",
        ),
        [None] * COUNT,
    )
    return _case(path, _ops(APP_ID_BASE, COUNT, **unknown), _ops(BLOCK_ID_BASE, COUNT, **unknown))


def many_devices(path: Path) -> Path:
    """5,000 devices, one request each."""
    count = 5_000
    names = {"device": [f"sd{number}" for number in range(count)]}
    return _case(path, None, _ops(BLOCK_ID_BASE, count, **names))


def app_only(path: Path) -> Path:
    """Nothing below the program."""
    return _case(path, _ops(APP_ID_BASE, COUNT), None)


def block_only(path: Path) -> Path:
    """Nothing above the block layer."""
    return _case(path, None, _ops(BLOCK_ID_BASE, COUNT))


def no_links(path: Path) -> Path:
    """Both layers, and nothing that ties them."""
    return _case(path, _ops(APP_ID_BASE, COUNT), _ops(BLOCK_ID_BASE, COUNT), linked=False)


def series_only(path: Path) -> Path:
    """Sampled counters alone."""
    return write_case(path, tables={"series": _tables(50)["series"]})


def extreme(path: Path) -> Path:
    """Latencies of nothing and of a century, names that look like SQL."""
    latency = np.where(np.arange(COUNT) % 2, 0, 3_000_000_000_000_000_000 // COUNT)
    odd = {
        "latency_ns": latency,
        "device": ["a'; --"] * COUNT,
        "comm": ["b') OR ('"] * COUNT,
        "file": ["'"] * COUNT,
    }
    return _case(path, _ops(APP_ID_BASE, COUNT, **odd), _ops(BLOCK_ID_BASE, COUNT, **odd))


BUILDS = (
    equal,
    one,
    none,
    backwards,
    duplicates,
    never_finished,
    nulls,
    many_devices,
    app_only,
    block_only,
    no_links,
    series_only,
    extreme,
)


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_a_sentence_and_no_traceback(build: Callable[[Path], Path], tmp_path: Path) -> None:
    verdict = solve(build(tmp_path / "case"))
    assert verdict.status in STATUSES
    assert verdict.summary
    assert all(line and "nan" not in line.split() for line in [*verdict.summary, *verdict.minor])
    assert verdict.to_json()
