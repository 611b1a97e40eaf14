"""Calls that slept in the file system for I/O: a request of ordinary length accuses nobody, one that a device held is the device's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.findings import Verdict
from whodisk.report import brief
from whodisk.verdict.solve import solve

WRITES, US, MS = 6000, 1_000, 1_000_000


def appends(
    path: Path, slept_us: float, cause: str, request_us: float = 20_000.0, asleep: int = 30, op: str = "write"
) -> Path:
    """Appends of 2 us; one in `asleep` sleeps for `slept_us` in `cause`. Their device takes `request_us` for each request of the program's syncs.

    What a request holds while a call sleeps for longer is a request of that length.
    """
    rng = np.random.default_rng(17)
    latency = (2 * US * np.exp(rng.normal(0, 0.1, WRITES))).astype(np.int64)
    slept = np.arange(asleep // 2, WRITES, asleep)
    slept_ns = (slept_us * US * rng.uniform(0.7, 1.3, len(slept))).astype(np.int64)
    latency[slept] += slept_ns
    start = np.cumsum(latency + 40 * US) - latency
    request_ns = (request_us * US * np.exp(rng.normal(0, 0.2, 2000))).astype(np.int64)
    begin = np.linspace(0, int(start[-1]), 2000).astype(np.int64)
    if slept_us > 3 * request_us:
        # Each of the long sleeps is for one request.
        begin = np.concatenate((begin, start[slept] + US))
        request_ns = np.concatenate((request_ns, slept_ns))
    common: dict[str, Any] = {"pid": 4300, "tid": 4300, "comm": "logger"}
    calls = common | {
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "start_ns": start,
        "latency_ns": latency,
        "op": "write",
        "size_bytes": 512,
        "fs_ns": latency,
        "device": "nvme0n1",
    }
    block = common | {
        "op_id": BLOCK_ID_BASE | np.arange(len(begin)),
        "start_ns": begin,
        "latency_ns": request_ns,
        "op": op,
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": request_ns,
        "interrupt_ns": 0,
    }
    waits = [
        common
        | {
            "cpu": 0,
            "start_ns": int(start[at] + US),
            "duration_ns": int(took),
            "state": "blocked",
            "cause": cause,
        }
        for at, took in zip(slept, slept_ns, strict=True)
    ]
    return write_case(
        path, syscall=calls, block=block, tables={"waits": waits}, meta={"duration_ns": int(start[-1] + MS)}
    )


def accused(verdict: Verdict) -> list[tuple[str, str]]:
    return [(finding.culprit.kind, finding.culprit.name) for finding in verdict.findings]


@pytest.mark.parametrize("cause", ["page under writeback", "do_get_write_access", "io"])
def test_a_request_of_ordinary_length_accuses_nobody(cause: str, tmp_path: Path) -> None:
    verdict = solve(appends(tmp_path / "case", 45_000, cause))
    assert accused(verdict) == []
    assert verdict.status != "slow"
    assert any("slept for I/O that was under way" in line for line in verdict.minor)


def test_a_lock_of_the_same_length_is_still_the_file_systems(tmp_path: Path) -> None:
    # The device reads meanwhile: nothing that was written before holds it.
    case = appends(tmp_path / "case", 45_000, "rwsem_down_write_slowpath", op="read")
    assert ("stage", "fs") in accused(solve(case))


def test_what_takes_longer_than_requests_do_is_accused(tmp_path: Path) -> None:
    verdict = solve(appends(tmp_path / "case", 200_000, "page under writeback"))
    assert verdict.status == "slow" and accused(verdict)


def few_long_sleeps(path: Path, cause: str, requests: int, every: int = 750) -> Path:
    """Reads of 2 us, some of which (eight) sleep for 25 ms while `requests` requests are under way all that time, beside thousands of 100 us."""
    rng = np.random.default_rng(23)
    latency = (2 * US * np.exp(rng.normal(0, 0.1, WRITES))).astype(np.int64)
    slept = np.arange(300, WRITES, every)
    latency[slept] = 25 * MS
    start = np.cumsum(latency + 100 * US) - latency
    many = np.linspace(0, int(start[-1]), 3000).astype(np.int64)
    held = np.repeat(start[slept], requests)
    begin = np.concatenate((many, held))
    took = np.concatenate((np.full(len(many), 100 * US), np.full(len(held), 25 * MS)))
    took = (took * rng.uniform(0.999, 1.001, len(took))).astype(np.int64)
    common: dict[str, Any] = {"pid": 4300, "comm": "rg"}
    calls = common | {
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "tid": 4300,
        "start_ns": start,
        "latency_ns": latency,
        "op": "read",
        "size_bytes": 4096,
        "fs_ns": latency,
        "device": "nvme0n1",
    }
    block = common | {
        "op_id": BLOCK_ID_BASE | np.arange(len(begin)),
        "tid": 4301,
        "start_ns": begin,
        "latency_ns": took,
        "op": "read",
        "device": "nvme0n1",
        "size_bytes": 65536,
        "queue_ns": 0,
        "device_ns": took,
        "interrupt_ns": 0,
    }
    waits = [
        common
        | {
            "tid": 4300,
            "cpu": 0,
            "start_ns": int(start[at]),
            "duration_ns": 25 * MS,
            "state": "blocked",
            "cause": cause,
        }
        for at in slept
    ]
    return write_case(
        path, syscall=calls, block=block, tables={"waits": waits}, meta={"duration_ns": int(start[-1] + MS)}
    )


@pytest.mark.parametrize(
    ("cause", "requests", "stage"),
    [
        ("folio_wait_bit_common", 1, "device"),
        # Any of three may be what it slept for.
        ("folio_wait_bit_common", 3, "fs"),
        # No I/O: who holds a lock is not known.
        ("rwsem_down_read_slowpath", 1, "fs"),
    ],
)
def test_single_calls_that_slept_for_a_slow_request_were_held_at_its_device(
    cause: str, requests: int, stage: str, tmp_path: Path
) -> None:
    verdict = solve(few_long_sleeps(tmp_path / "case", cause, requests))
    longest = [f for f in verdict.findings if f.detector == "outliers"] or verdict.findings
    assert longest
    claims = " ".join(finding.claim for finding in longest)
    assert f"in the {stage} stage" in claims


def test_stages_that_tell_another_story_than_the_claim_are_not_shown_beside_it(tmp_path: Path) -> None:
    """ "60.4 ms in the device stage", and a strip below: fs 94.1 %."""
    verdict = solve(few_long_sleeps(tmp_path / "case", "folio_wait_bit_common", 1, every=60))
    [found] = [f for f in verdict.findings if f.detector == "stage_blame"]
    assert found.culprit.name == "device"
    assert "asleep in the file system for a request there" in found.claim, found.claim
    assert not [line for line in brief.lines(verdict, 80) if line.plain.startswith("slow ")]


def test_a_further_finding_says_first_who_is_accused(tmp_path: Path) -> None:
    """A second finding has a line: "Also: 1 in 2,434 writes took 217 ms where 6.54 us is typical", and no word of fsfreeze."""
    verdict = solve(few_long_sleeps(tmp_path / "case", "folio_wait_bit_common", 1, every=60))
    twice = replace(verdict, findings=2 * verdict.findings[:1])
    [line] = [line.plain for line in brief.lines(twice, 80) if line.plain.startswith("Also")]
    assert line.startswith("Also: the device stage of nvme0n1: 1 in "), line


@pytest.mark.parametrize(("later_us", "stage"), [(40, "device"), (-40, "fs"), (2_000, "fs")])
def test_of_several_slow_requests_the_one_that_completed_when_the_sleep_ended_held_it(
    tmp_path: Path, later_us: int, stage: str
) -> None:
    """Two opens sleep for seconds until the journal has written a buffer, while writeback has forty requests at the same slow device."""
    opens, each = 4000, 2 * MS
    start = np.arange(opens) * each
    latency = np.full(opens, 60 * US)
    late = np.array([900, 2600])
    latency[late] = 1640 * MS
    start = np.cumsum(latency + each) - latency
    common: dict[str, Any] = {"pid": 4300, "tid": 4300, "comm": "ftpd"}
    calls = common | {
        "op_id": SYSCALL_ID_BASE | np.arange(opens),
        "start_ns": start,
        "latency_ns": latency,
        "op": "open",
        "fs_ns": latency,
    }
    end = start[late] + latency[late] - later_us * US
    journal = (start[late] - 100 * MS, end - start[late] + 100 * MS)
    others = (np.repeat(start[late] - 500 * MS, 40), np.tile(2_150 * MS + np.arange(40) * 3 * MS, 2))
    quick = (np.arange(2_000) * 4 * MS, np.full(2_000, 200 * US))
    begin, took = (np.concatenate(each) for each in zip(journal, others, quick, strict=True))
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(begin)),
        "start_ns": begin,
        "latency_ns": took,
        "op": "write",
        "device": "sda",
        "size_bytes": 4096,
        "comm": ["jbd2/sda-8"] * 2 + ["kworker/u8:9"] * (len(begin) - 2),
        "pid": 7,
        "tid": 7,
        "queue_ns": 0,
        "device_ns": took,
        "interrupt_ns": 0,
    }
    waits = [
        common
        | {
            "cpu": 0,
            "start_ns": int(start[at]),
            "duration_ns": 1640 * MS,
            "state": "blocked",
            "cause": "do_get_write_access",
        }
        for at in late
    ]
    path = write_case(
        tmp_path / "case",
        syscall=calls,
        block=block,
        tables={"waits": waits},
        devices=("sda",),
        meta={"duration_ns": int(start[-1] + MS)},
    )
    verdict = solve(path)
    assert f"in the {stage} stage" in verdict.findings[0].claim
    if stage == "device":
        assert verdict.slowest[0].what == "its thread slept until a write of jbd2/sda-8 completed"
        assert (verdict.slowest[0].device, verdict.slowest[0].certain) == ("sda", True)
        assert "device:sda" not in [item.what for item in verdict.cleared]


def queued(path: Path, comm: str, each_us: float, slow_us: float | None = None) -> Path:
    """Reads of 60 us; five wait in the queue for 9 ms, behind ten requests of `comm` that the device serves meanwhile, of `each_us`; of one of them for `slow_us`."""
    rng = np.random.default_rng(31)
    count = 4000
    latency = (60 * US * np.exp(rng.normal(0, 0.1, count))).astype(np.int64)
    late = np.arange(400, count, 800)
    queue = np.zeros(count, np.int64)
    queue[late] = 9 * MS
    latency += queue
    start = np.cumsum(latency + 50 * US) - latency
    own: dict[str, Any] = {"pid": 4300, "tid": 4300, "comm": "app"}
    calls = own | {
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "start_ns": start,
        "latency_ns": latency,
        "op": "read",
        "size_bytes": 4096,
        "fs_ns": 0,
        "queue_ns": queue,
        "device_ns": latency - queue,
        "device": "vda",
    }
    number = int(9000 / each_us)
    begin = (start[late][:, None] + np.arange(number) * int(each_us * US)).ravel()
    took = np.full(len(begin), int(each_us * US))
    if slow_us is not None:
        begin = np.append(start[late] + 100, begin)
        took = np.append(np.full(len(late), int(slow_us * US)), took)
    size = 1 << 20
    whose = [comm] * len(begin) + ["app"] * count
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(begin) + count),
        "start_ns": np.concatenate((begin, start)),
        "latency_ns": np.concatenate((took, latency)),
        "op": "read",
        "device": "vda",
        "size_bytes": np.concatenate((np.full(len(begin), size), np.full(count, 4096))),
        "queue_ns": np.concatenate((np.zeros(len(begin), np.int64), queue)),
        "device_ns": np.concatenate((took, latency - queue)),
        "interrupt_ns": 0,
        "pid": np.concatenate((np.full(len(begin), 4300 if comm == "app" else 77), np.full(count, 4300))),
        "tid": np.concatenate((np.full(len(begin), 4300 if comm == "app" else 77), np.full(count, 4300))),
        "comm": whose,
    }
    return write_case(path, syscall=calls, block=block, meta={"duration_ns": int(start[-1] + MS)})


def test_a_queue_behind_the_programs_own_requests_accuses_nobody(tmp_path: Path) -> None:
    verdict = solve(queued(tmp_path / "case", "app", 900))
    assert accused(verdict) == []
    assert verdict.status in ("healthy", "limited")


def test_a_queue_behind_nobody_is_accused(tmp_path: Path) -> None:
    # The device was idle but for 0.9 of the 9 ms.
    verdict = solve(queued(tmp_path / "case", "app", 9000.0 * 2))
    assert ("stage", "queue") in accused(verdict)


def test_a_queue_behind_another_program_is_accused(tmp_path: Path) -> None:
    assert accused(solve(queued(tmp_path / "case", "tar", 900)))
