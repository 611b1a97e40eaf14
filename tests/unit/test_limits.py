"""The limit that is named is the one that binds, and the experiment that is proposed would refute it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ground_truth import limits, rates
from ground_truth.cases import TRUTHS
from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.detectors import saturation
from whodisk.detectors.saturation import _fills_window
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import find_slow, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case
from whodisk.report import brief
from whodisk.verdict.solve import solve


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("syncs_before_depth", "half as many syncs"),
        ("durable_writes", "without O_SYNC and O_DSYNC"),
        ("computes", "in memory"),
        ("own_threads_crowd", "more CPUs"),
        ("depth_of_reads", "twice the queue depth"),
        ("sync_bound", "half as many syncs"),
        ("reads_behind_flushes", "half as many syncs"),
        ("reads_beside_flushes", "twice the queue depth"),
        ("depth_limited", "twice the queue depth"),
    ],
)
def test_experiments_change_what_is_said_to_bind(name: str, changes: str, tmp_path: Path) -> None:
    verdict = solve(TRUTHS[name].build(3, tmp_path / "case"))
    assert [changes in step for step in verdict.next_steps] == [True], verdict.next_steps


def test_threads_of_a_pool_are_one_program(tmp_path: Path) -> None:
    """Each thread has one read at a time, whatever it is called; their process has four."""
    verdict = solve(limits.reads_of_a_pool(3, tmp_path / "case"))
    assert verdict.limit is not None
    assert verdict.limit.startswith("server on nvme0n1: ")
    assert "pool-1-thread" not in verdict.limit
    assert " 4 " in verdict.limit


def test_threads_that_take_turns_at_a_lock_are_no_queue_depth(tmp_path: Path) -> None:
    """Twice as many threads would wait twice as long."""
    verdict = solve(limits.writes_by_turns(3, tmp_path / "case"))
    assert verdict.status == "limited"
    said = f"{verdict.limit}"
    assert "each of its 4 threads has one call in flight at a time; of these calls 0.9" in said
    assert "their threads sleep until another one lets them go on, mostly waiting for a write lock" in said
    assert "Give each thread files of its own" in verdict.next_steps[0]
    # Where each waits for a request of its own, the depth binds.
    assert "lets them go on" not in f"{solve(limits.reads_of_a_pool(3, tmp_path / 'pool')).limit}"


def test_sleep_behind_own_calls_belongs_to_these(tmp_path: Path) -> None:
    """Threads that made files by turns slept for a mutex most of their time, and the verdict knew of no limit."""
    verdict = solve(limits.files_behind_a_mutex(3, tmp_path / "case"))
    assert verdict.status == "limited"
    assert "in calls that open, make, rename or remove files" in f"{verdict.limit}"
    assert "was in other calls for 66." in f"{verdict.limit}"
    # Where the one with the mutex computes, storage is no limit.
    computes = solve(limits.files_behind_a_mutex(3, tmp_path / "computes", in_calls=False))
    assert computes.status == "healthy", computes.limit


def test_of_many_processes_an_even_part_speaks(tmp_path: Path) -> None:
    """The 64 busiest of them are those with the longest syncs: "40 ms each, 4 per second" was told of 17.5 ms each, 54 per second."""
    verdict = solve(limits.a_process_for_each(3, tmp_path / "case"))
    said = f"{verdict.limit}"
    assert "52 of its 260 threads for a sync, 17." in said, said
    assert " per second" in said
    assert float(said.split(" each, ")[1].split(" ", maxsplit=1)[0]) == pytest.approx(54, rel=0.05)


def test_what_is_read_ahead_is_in_flight_too(tmp_path: Path) -> None:
    """One call waits, and the device works on eight requests: a deeper queue is not what it lacks."""
    verdict = solve(limits.reads_a_stream(3, tmp_path / "case"))
    assert verdict.limit is not None
    # 128 KiB each in 5 calls of 4.47 ms in all.
    assert verdict.limit.startswith("nvme0n1, which delivers 140 MiB/s to server")
    assert " requests in flight there, because the kernel reads ahead" in verdict.limit
    assert "read_ahead_kb of nvme0n1" in verdict.next_steps[0]
    assert not [item for item in verdict.cleared if item.what.startswith("device:")]


def test_a_device_that_was_used_at_the_begin_does_not_set_the_speed_of_the_rest(tmp_path: Path) -> None:
    """ "vda, which delivers 346 MiB/s to python. python waits for it 57.9 % of the time" was told of a program that loaded a library for 1.6 s, and computed for 12."""
    verdict = solve(limits.reads_a_stream(3, tmp_path / "case", then_computes=True))
    assert verdict.status == "healthy", verdict.limit
    said = f"{verdict.limit}"
    assert "delivers" not in said
    assert said.startswith("storage for 10.8 % of the time at most")


@pytest.mark.parametrize(
    ("size_kib", "window", "fills"), [(12, 1024, False), (512, 1024, True), (12, None, True)]
)
def test_a_larger_window_is_no_advice_for_small_files(size_kib: int, window: int | None, fills: bool) -> None:
    reads = [SimpleNamespace(device="sda", size_bytes=size_kib * 1024 * 500.0, operations=500)]
    queue = {} if window is None else {"read_ahead_kb": window}
    context: Any = SimpleNamespace(
        case=SimpleNamespace(system={"devices": {"sda": {"queue": queue}}}),
        surveys={"block": SimpleNamespace(select=lambda op: reads)},
    )
    assert _fills_window(context, "sda") is fills


def test_what_a_read_asks_for_is_not_what_it_gets(tmp_path: Path) -> None:
    verdict = solve(limits.asks_for_more(3, tmp_path / "case"))
    assert verdict.limit is not None
    assert "one request in flight" in verdict.limit
    assert "B/s" not in verdict.limit
    assert "two of it at once" in verdict.next_steps[0]


def test_sleep_that_is_no_storages_is_told_at_once(tmp_path: Path) -> None:
    """Nothing is slow, and nobody could see that the program's own lock makes it ten times slower."""
    verdict = solve(limits.pauses_under_a_lock(3, tmp_path / "case"))
    assert (verdict.status, verdict.findings) == ("healthy", [])
    said = f"{verdict.limit}"
    assert said.startswith("storage for 9.9 % of the time at most")
    assert "the 4 threads of worker-0 sleep" in said
    assert "futex_do_wait" in said
    assert "tmpfs" in verdict.next_steps[0]
    assert "storage for 9.9 % of the time at most" in " ".join(
        " ".join(str(line) for line in brief.lines(verdict, 80)).split()
    )
    # Where the others wait for who reads, their sleep is storage's.
    reads = solve(limits.reads_under_a_lock(3, tmp_path / "reads"))
    assert reads.status == "limited"
    assert "at most" not in str(reads.limit)


def test_time_that_threads_let_pass_sets_their_pace(tmp_path: Path) -> None:
    """Four jobs with think time have some call under way nearly always, and the verdict knew of nothing that sets their speed."""
    verdict = solve(limits.thinks(3, tmp_path / "case"))
    assert (verdict.status, verdict.findings) == ("healthy", [])
    said = f"{verdict.limit}"
    assert said.startswith("the pace of server itself: its 4 threads sleep 6"), said
    assert "in hrtimer_nanosleep, for a time that the program chose" in said
    assert any("without these sleeps" in step for step in verdict.next_steps)
    # Who sleeps until another one wakes it chose nothing.
    assert "pace" not in f"{solve(limits.thinks(3, tmp_path / 'woken', 'futex_do_wait')).limit}"


def test_who_is_to_blame_for_little_of_the_time_does_not_hide_that_it_is_little(tmp_path: Path) -> None:
    """A player sleeps 97 % of its time, and the verdict was "slow" without a word of that."""
    verdict = solve(limits.plays(3, tmp_path / "case"))
    assert verdict.status == "slow" and verdict.findings[0].culprit.name == "device"
    said = [text for text in verdict.summary if text.startswith("What sets its speed: storage for ")]
    assert len(said) == 1 and "% of the time at most" in said[0], verdict.summary
    assert "What sets its speed: storage for " in "\n".join(str(line) for line in brief.lines(verdict, 80))
    # Where calls hold it all the time, the culprit is what sets its speed.
    busy = solve(limits.plays(3, tmp_path / "busy", 20_000))
    assert busy.status == "slow"
    assert "What sets its speed" not in " ".join(busy.summary)


def test_a_server_without_work_is_idle(tmp_path: Path) -> None:
    verdict = solve(limits.idles(3, tmp_path / "case"))
    assert verdict.status == "healthy"
    assert "do_epoll_wait, until something comes from outside, or a timer: idle time, and no limit" in str(
        verdict.limit
    )


def test_a_program_that_computes_beside_a_thread_that_waits_for_clients_is_not_idle(tmp_path: Path) -> None:
    """A thread sleeps in epoll 99.9 % of the time, and four others compute in turns 85 % of it."""
    verdict = solve(limits.computes_behind_a_loop(3, tmp_path / "case"))
    said = f"{verdict.limit}"
    assert verdict.status == "healthy"
    assert "idle time" not in said
    assert "for 90.1 % of the time a thread of worker-0 computes, most of all thread 50" in said
    assert "tmpfs" in verdict.next_steps[0]
    # With the same threads asleep, it is.
    idle = solve(limits.idles_behind_a_loop(3, tmp_path / "idle"))
    assert "do_epoll_wait, until something comes from outside, or a timer: idle time, and no limit" in str(
        idle.limit
    )


def test_what_may_be_a_lost_sleep_is_neither_computing_nor_idle(tmp_path: Path) -> None:
    """As many sleeps were lost as there are times between waits."""
    said = f"{solve(limits.computes_behind_a_loop(3, tmp_path / 'case', lost=True)).limit}"
    assert said.startswith("storage for 9.9 % of the time at most")
    assert "computes" not in said
    assert "idle" not in said


def test_one_at_a_time_on_a_disk_of_flat_latency_is_no_rate_of_it(tmp_path: Path) -> None:
    """1.1 ms a request was called all that the disk takes, and the mount option that asks for each of them was not named."""
    verdict = solve(rates.one_at_a_time(3, tmp_path / "case"))
    assert verdict.limit is not None
    assert "has one request in flight at a time" in verdict.limit
    assert verdict.limit.startswith("/mnt/mail, which is mounted with `sync`: ")
    assert "two of it at once" in verdict.next_steps[0]
    assert "mount -o remount,async /mnt/mail" in " ".join(verdict.next_steps)
    # Where nobody would notice whether it takes more, the experiment that shows it is proposed.
    alone = solve(rates.full_device_one_by_one(3, tmp_path / "alone"))
    assert "never asked for two writes at once" in str(alone.limit)
    assert "two of it at once" in alone.next_steps[0]


def test_time_of_a_thread_adds_up(tmp_path: Path) -> None:
    verdict = solve(limits.syncs_before_depth(5, tmp_path / "case"))
    # 850 us in each sync, and 32 writes of 9 us between two of them.
    assert verdict.limit is not None
    assert "waits 74." in verdict.limit


def test_durable_writes_are_told_what_the_device_did_meanwhile(tmp_path: Path) -> None:
    verdict = solve(limits.durable_writes(5, tmp_path / "case"))
    assert verdict.limit is not None
    assert "for 30 % of it nvme0n1 flushed its cache, 255 us a flush" in verdict.limit


def test_what_a_thread_sleeps_in_between_its_writes_is_not_of_them(tmp_path: Path) -> None:
    verdict = solve(limits.durable_writes(5, tmp_path / "case", sleep_ns=500_000))
    assert verdict.limit is not None
    assert "of it the thread waited for the writeback of a page" in verdict.limit
    assert "of it the thread slept in futex" not in verdict.limit


def test_a_process_without_a_known_name_is_told_by_its_number(tmp_path: Path) -> None:
    """Its first thread is not in the recording, and each of the others has a name of its own."""
    verdict = solve(limits.reads_of_a_pool(3, tmp_path / "case", unnamed=True))
    assert str(verdict.limit).startswith("process 501 (")


def test_what_a_process_was_before_it_became_its_program_is_not_of_it(tmp_path: Path) -> None:
    """A shell waits for something else, and then becomes the program: that sleep is not the program's."""
    verdict = solve(limits.computes(3, tmp_path / "case", was_a_shell=True))
    assert (verdict.status, "itself" in str(verdict.limit)) == ("limited", True)


def test_who_has_the_cpu_decides_between_limit_and_culprit(tmp_path: Path) -> None:
    own = solve(limits.own_threads_crowd(4, tmp_path / "own"))
    assert (own.status, own.findings) == ("limited", [])
    other = solve(limits.another_crowds(4, tmp_path / "other"))
    assert (other.status, other.findings[0].culprit.name) == ("slow", "backup")


def test_what_waits_behind_a_sync_of_its_own_thread_is_told_so(tmp_path: Path) -> None:
    verdict = solve(limits.syncs_before_depth(6, tmp_path / "case"))
    writes = [item for item in verdict.slowest if item.op == "write"]
    assert writes
    assert all(item.certain and "its own thread sat in a sync" in item.what for item in writes)


def test_a_device_that_has_most_of_the_limits_time_is_not_cleared(tmp_path: Path) -> None:
    """ "97 % of it in the device stage" and "cleared: that device" contradict each other, though none of its requests stands out."""
    bound = solve(TRUTHS["even_commits"].build(3, tmp_path / "bound"))
    assert (bound.status, "for a sync" in (bound.limit or "")) == ("limited", True)
    assert not [item for item in bound.cleared if item.what.startswith("device:")]
    # Here its own depth binds, no device is named, and what is said of it stands.
    depth = solve(TRUTHS["depth_limited"].build(3, tmp_path / "depth"))
    assert [item for item in depth.cleared if item.what.startswith("device:")]


def test_a_device_that_a_limit_names_with_its_requests_is_not_cleared(tmp_path: Path) -> None:
    """ "One request in flight at a time, 2 ms each" on a device, and "cleared: that device", contradict each other."""
    rng = np.random.default_rng(176)
    count, zeros = 2000, np.zeros(2000, np.int64)
    took = rng.lognormal(np.log(2e6), 0.1, count).astype(np.int64)
    start = np.cumsum(took + 30_000) - took
    both: dict[str, Any] = {
        **{"op": "read", "size_bytes": 4096, "pid": 7, "tid": 7, "comm": "server", "device": "nvme0n1"},
        **dict.fromkeys(("queue_ns", "interrupt_ns", "fs_ns"), zeros),
        "offset_bytes": rng.permutation(count) * 4096,
        "device_ns": took,
    }
    ids = np.arange(count)
    case = write_case(
        tmp_path / "case",
        syscall={**both, "op_id": SYSCALL_ID_BASE | ids, "start_ns": start, "latency_ns": took + 9_000}
        | {"fs_ns": zeros + 9_000, "runqueue_ns": zeros, "reap_ns": zeros},
        block={**both, "op_id": BLOCK_ID_BASE | ids, "start_ns": start + 5_000, "latency_ns": took},
        links={
            "parent_id": SYSCALL_ID_BASE | ids,
            "child_id": BLOCK_ID_BASE | ids,
            "kind": ["waits_for"] * count,
        },
        meta={"observer": "record", "command": ["server"], "duration_ns": int(start[-1] + 10_000_000)},
    )
    verdict = solve(case)
    assert (verdict.limit or "").startswith("server on nvme0n1 has one request in flight at a time"), (
        verdict.limit
    )
    assert not [item for item in verdict.cleared if item.what.startswith("device:")]


@pytest.mark.parametrize(("flush", "device"), [((0.2, 0.8), "nvme0n1"), ((0.5, 0.8), "")])
def test_a_device_that_flushes_for_a_journal_holds_what_waits_for_it(
    tmp_path: Path, flush: tuple[float, float], device: str
) -> None:
    """These flushes are no part of a call's device stage."""
    with Case(limits.durable_writes(5, tmp_path / "case", flush=flush, device=0.3)) as case:
        surveys = {layer: survey_layer(case, layer) for layer in case.layers}
        slow = find_slow(case, surveys["syscall"])
        found = saturation.run(Context(case, surveys, "syscall", slow, none_of(slow)))
    assert "flushed its cache" in str(found.limit)
    assert found.limiting_device == device


@pytest.mark.parametrize(
    ("op", "does", "changes"),
    [
        ("open", "open, make, rename or remove files", "in fewer files"),
        ("lookup", "look up names and list folders", "with the names in memory"),
        ("list", "look up names and list folders", "with the names in memory"),
        ("close", "close files", "in fewer files"),
        ("attribute", "set the mode, owner, times or attributes of files", "in fewer files"),
    ],
)
def test_calls_beside_data_are_told_by_what_they_do(op: str, does: str, changes: str, tmp_path: Path) -> None:
    """One call after the other, 200 us each, most of it at the device."""
    number = np.arange(4_000)
    calls = {
        "op_id": SYSCALL_ID_BASE | number,
        "start_ns": number * 250_000,
        "latency_ns": 200_000,
        "device_ns": 150_000,
        "fs_ns": 50_000,
        "op": op,
        "size_bytes": 0,
        "tid": 11,
        "pid": 11,
        "comm": "du",
        "device": "sda",
        "queue_depth": 1,
    }
    meta = {"observer": "record", "command": ["du"], "duration_ns": 1_000_000_000}
    verdict = solve(write_case(tmp_path / "case", syscall=calls, meta=meta, devices=("sda",)))
    assert f"in calls that {does}, 200 us each" in f"{verdict.limit}"
    assert [changes in step for step in verdict.next_steps] == [True], verdict.next_steps
