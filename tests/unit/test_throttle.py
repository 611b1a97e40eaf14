"""Who held operations back: the limit of dirty pages, or an I/O controller."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ground_truth import held as held_cases
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.detectors.throttle import _above_block
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.thread_time import SYNC
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

COUNT = 200


@pytest.mark.parametrize(("held", "flags"), [("write", 0), ("sync", 0), ("write", SYNC)])
def test_syncs_are_not_held_back_for_dirty_pages(tmp_path: Path, held: str, flags: int) -> None:
    """Each write of a database is a call that writes and one that syncs. Which of them waited decides who held it back; one that does both
    (O_DSYNC) leaves nothing dirty."""
    number = np.arange(COUNT)
    every = {"comm": "db_bench", "tid": 11, "pid": 10, "device": "loop0", "size_bytes": 4096, "flags": 0}
    begin = number * 12_000_000
    app = {
        **every,
        "op_id": APP_ID_BASE | number,
        "start_ns": begin,
        "latency_ns": 10_200_000,
        "op": "write",
        "throttle_ns": 10_000_000,
    }
    is_sync = np.tile([False, True], COUNT)
    waited = is_sync == (held == "sync")
    calls = {
        **every,
        "op_id": SYSCALL_ID_BASE | np.arange(2 * COUNT),
        "start_ns": np.repeat(begin, 2)
        + np.tile([0, 100_000], COUNT)
        + 10_000_000 * (is_sync & (held == "write")),
        "latency_ns": np.where(waited, 10_100_000, 100_000),
        "op": np.where(is_sync, "sync", "write"),
        "throttle_ns": np.where(waited, 10_000_000, 0),
        "flags": flags,
    }
    block = {
        **every,
        "op_id": BLOCK_ID_BASE | number,
        "start_ns": begin + 10_100_000,
        "latency_ns": 50_000,
        "op": "write",
        "device_ns": 50_000,
        "throttle_ns": 0,
    }
    path = write_case(
        tmp_path / "case", app=app, syscall=calls, block=block, meta={"workload": {"program": "db_bench"}}
    )
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in ("app", "syscall", "block")}
        context = Context(case, surveys, "app", empty_slow_set(), np.zeros(0, np.bool_))
        assert _above_block(context) == (held == "write" and flags == 0)


def _claim_of_reads(path: Path, group: str, burst: int = 1) -> str:
    """Of 1,000 reads in 10 s memory answers four fifths; the others make a request each that a controller lets pass, so many at once. As many requests of another group do."""
    number = np.arange(1000)
    asks = number % 5 == 0
    begin = number // (5 * burst) * (5 * burst) * 10_000_000 + number % (5 * burst) * (
        10_000_000 if burst == 1 else 1
    )
    held_ns = 7_900_000 + (burst - 1) * 40_000_000
    calls = {
        "op_id": SYSCALL_ID_BASE | number,
        "start_ns": begin,
        "latency_ns": np.where(asks, held_ns + 100_000, 2_000),
        "throttle_ns": np.where(asks, held_ns, 0),
        "op": "read",
        "flags": 0,
        "size_bytes": 4096,
        "tid": 11,
        "pid": 10,
        "comm": "python3",
        "device": ["loop1" if asking else None for asking in asks],
    }
    asking = number[asks]
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(2 * len(asking)),
        "start_ns": np.repeat(begin[asks], 2) + held_ns,
        "latency_ns": 90_000,
        "device_ns": 80_000,
        "op": "read",
        "size_bytes": 4096,
        "device": "loop1",
        "comm": ["python3", "tar"] * len(asking),
        "cgroup": [group, "/sys/fs/cgroup/other"] * len(asking),
    }
    links = {
        "parent_id": SYSCALL_ID_BASE | asking,
        "child_id": BLOCK_ID_BASE | np.arange(0, 2 * len(asking), 2),
        "kind": "waits_for",
    }
    case = write_case(path, syscall=calls, block=block, links=links, devices=("loop1",))
    return solve(case).findings[0].claim


def test_what_passes_a_controller_are_requests_of_the_group(tmp_path: Path) -> None:
    """20 per second: not the 100 calls, most of which end in memory."""
    claim = _claim_of_reads(tmp_path / "group", "/sys/fs/cgroup/limited")
    assert "; meanwhile 20 reads (80 KiB) per second pass to loop1, group /sys/fs/cgroup/limited." in claim, (
        claim
    )


def test_time_in_which_all_are_held_belongs_to_a_controllers_pace(tmp_path: Path) -> None:
    """It lets sixteen pass at once, every 0.8 s, and holds them all in between: 20 per second, as ever."""
    claim = _claim_of_reads(tmp_path / "group", "/sys/fs/cgroup/limited", burst=16)
    found = re.search(r"meanwhile ([0-9.]+) reads", claim)
    assert found and 18 <= float(found[1]) <= 28, claim


@pytest.mark.parametrize(
    ("part", "said"), [(1.0, "faster than the devices below take it"), (0.05, "the limit")]
)
def test_who_holds_writers_back_is_the_limit_where_disks_have_time(
    part: float, said: str, tmp_path: Path
) -> None:
    """nutsdb with vm.dirty_bytes at 2 MiB: its disk had writes to do for 6 % of the time, and "more room only delays it" was said."""
    case = held_cases.dirty_limit(1, tmp_path / "case")
    file = next((case / "ops" / "layer=block").glob("*.parquet"))
    requests = pq.read_table(file)
    pq.write_table(requests.slice(0, int(part * len(requests))), file)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["dirty_limits"] = {"dirty_bytes": 2 << 20, "dirty_ratio": 0}
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    [found] = [one for one in solve(case).findings if one.culprit.name == "limit of dirty pages"]
    assert said in found.claim and "(vm.dirty_bytes was 2 MiB when the recording began)" in found.claim, (
        found.claim
    )
    assert ("Raise vm.dirty_bytes" in found.remedy) is (part < 1), found.remedy


@pytest.mark.parametrize("dirty", [False, True])
def test_a_fault_that_reads_says_where_it_slept(tmp_path: Path, dirty: bool) -> None:
    """fio with mapped files under a limit of 1,260 requests a second: its faults read, and were taken for writers that had made too many pages dirty."""
    number = np.arange(COUNT)
    every = {"comm": "fio", "tid": 11, "pid": 10, "device": "loop0", "size_bytes": 4096, "flags": 0}
    begin, held = number * 12_000_000, number % 5 == 0
    faults = {
        **every,
        "op_id": SYSCALL_ID_BASE | number,
        "start_ns": begin,
        "latency_ns": np.where(held, 10_200_000, 200_000),
        "op": "fault",
        "throttle_ns": np.where(held, 10_000_000, 0),
    }
    block = {
        **every,
        "op_id": BLOCK_ID_BASE | number,
        "start_ns": begin + np.where(held, 10_100_000, 100_000),
        "latency_ns": 50_000,
        "op": "read",
        "device_ns": 50_000,
        "throttle_ns": 0,
    }
    links = {"parent_id": SYSCALL_ID_BASE | number, "child_id": BLOCK_ID_BASE | number, "kind": "waits_for"}
    waits = [
        {
            "tid": 11,
            "pid": 10,
            "comm": "fio",
            "start_ns": int(at) + 50_000,
            "duration_ns": 10_000_000,
            "state": "blocked",
            "cause": "dirty throttling" if dirty else "folio_wait_bit_common",
        }
        for at in begin[held]
    ]
    path = write_case(tmp_path / "case", syscall=faults, block=block, links=links, tables={"waits": waits})
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in ("syscall", "block")}
        context = Context(case, surveys, "syscall", empty_slow_set(), np.zeros(0, np.bool_))
        assert _above_block(context) is dirty
    # It sleeps where whoever waits for a page does, but what kept it there is the controller.
    said = {one.what for one in solve(path).slowest}
    assert ("a controller held it back" in said) is not dirty, said


def test_who_only_read_its_program_has_no_part_in_what_a_cpu_limit_costs(tmp_path: Path) -> None:
    """A name server is moved into a group with a quota half-way, and answers less than half as often; its clients made a few reads each, when they began."""
    seconds, clients, ms = 10, 12, 1_000_000
    stops = 5_000 * ms + np.arange(50) * 100 * ms
    begin = np.arange(0, seconds * 1000, 10) * ms
    begin = begin[np.all(np.abs(begin[:, None] + 3 * ms - stops - 20 * ms) > 22 * ms, axis=1)]
    first = np.tile(np.arange(200) * 20_000, clients)
    tid = np.concatenate((np.full(len(begin), 100), np.repeat(200 + np.arange(clients), 200)))
    start = np.concatenate((begin, first + np.repeat(np.arange(clients) * 1_000, 200)))
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "start_ns": start,
        "latency_ns": np.where(tid == 100, 5 * ms, 2_000),
        "op": ["sync" if number == 100 else "read" for number in tid],
        "fs_ns": np.where(tid == 100, 5 * ms, 2_000),
        "tid": tid,
        "pid": tid,
        "comm": ["named" if number == 100 else "client" for number in tid],
    }
    order = np.argsort(start, kind="stable")
    calls = {name: np.asarray(values)[order] for name, values in calls.items()}
    every = {"comm": "named", "tid": 100, "pid": 100, "state": "throttled", "duration_ns": 40 * ms}
    waits: list[dict[str, object]] = [{**every, "start_ns": int(at)} for at in stops]
    waits += [
        {
            "comm": "client",
            "tid": 200 + client,
            "pid": 200 + client,
            "state": "blocked",
            "start_ns": 10 * ms,
            "duration_ns": 9_980 * ms,
        }
        for client in range(clients)
    ]
    path = write_case(
        tmp_path / "case", syscall=calls, tables={"waits": waits}, meta={"duration_ns": seconds * 1000 * ms}
    )
    [found] = [one for one in solve(path).findings if one.culprit.name == "CPU limit of named"]
    assert "50 times from 5 s on and was stopped for 20 % of its time" in found.claim, found.claim
