"""The referee's truth, judge, excuses, rows, freezes and table."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tests.accuracy.referee import command, freeze, machine, rows
from tests.accuracy.referee import runs as making
from tests.accuracy.referee import truth as truths
from tests.accuracy.referee.excuses import Records, excuse
from tests.accuracy.referee.faults import FAULTS, Injection, disk_faults
from tests.accuracy.referee.freeze import ROOT
from tests.accuracy.referee.judge import judge
from tests.accuracy.referee.machine import Machine
from tests.accuracy.referee.rows import ROWS, refused, runs
from tests.accuracy.referee.scheduler import OffCpu, times_off
from tests.accuracy.referee.store import Store
from tests.accuracy.referee.table import document
from tests.accuracy.referee.tracer import Request, requests
from tests.accuracy.referee.truth import (
    Own,
    Truth,
    columns,
    covered_ns,
    of_failed_requests,
    of_run,
    with_pairs,
)
from whodisk.programs import PROGRAMS
from whodisk.programs.base import Log

US, MS, S = 1_000, 1_000_000, 1_000_000_000
BY_NAME = {fault.name: fault for fault in FAULTS}


def _loop(seconds: float, extra_ns: dict[int, int] | None = None, seed: int = 1, slow: float = 1.0) -> Own:
    """A closed loop of operations of 100 us or so; `extra_ns` by moment: what is in flight then takes so much longer."""
    latency = (
        np.random.default_rng(seed)
        .uniform(70 * US * slow, 150 * US * slow, round(seconds * 14_000 / slow))
        .astype(np.int64)
    )
    start = np.concatenate([[0], latency.cumsum()[:-1]])
    for at, length in sorted((extra_ns or {}).items()):
        hit = int(np.searchsorted(start, at, side="right")) - 1
        latency[hit] += length
        start[hit + 1 :] += length
    within = start < seconds * S
    return Own(start[within], latency[within], np.full(int(within.sum()), "write"))


def _hits(extra_ns: dict[int, int]) -> list[Injection]:
    return [Injection(at, at + length) for at, length in extra_ns.items()]


# -- truth


def test_time_under_injection_is_counted_once() -> None:
    own = Own(np.array([0, 100, 200]), np.array([100, 100, 100]), np.array(["w"] * 3))
    found = covered_ns(own, [Injection(50, 120), Injection(60, 130), Injection(290, 400)])
    assert found.tolist() == [50, 30, 10]


def test_a_few_stops_stand_apart_and_make_outliers() -> None:
    stops = {n * S + 7: 30 * MS for n in (1, 2, 4)}
    truth, needs_pairs = of_run(_loop(5, stops), _hits(stops))
    assert truth.counts
    assert truth.must_name
    assert not needs_pairs
    assert truth.statuses == ["outliers"]
    assert [each["hit"] for each in truth.apart] == [True] * 3


def test_in_a_heavy_tail_the_injectors_log_tells_the_slowest() -> None:
    # As heavy as tails come: the nth longest takes 10 ms / n^1.4.
    latency = (10 * MS / np.random.default_rng(5).permutation(np.arange(1, 10_001)) ** 1.4).astype(np.int64)
    start = np.arange(10_000, dtype=np.int64) * S // 2000
    places = np.arange(1, 9) * 1000
    latency[places] = 28 * MS + places * 100
    own = Own(start, latency, np.full(10_000, "write"))
    stops = dict(zip(start[places].tolist(), latency[places].tolist(), strict=True))
    truth, needs_pairs = of_run(own, _hits(stops))
    assert (truth.counts, truth.must_name, needs_pairs) == (False, False, True)
    assert truth.statuses == ["outliers", "healthy", "limited"]
    # One that nobody injected lies among them; more than half of them at other moments say nothing.
    but_one = dict(list(stops.items())[1:])
    assert of_run(own, _hits(but_one))[0].statuses == ["outliers", "healthy", "limited"]
    moved = {at + (100 * MS if n < 5 else 0): length for n, (at, length) in enumerate(stops.items())}
    assert of_run(own, _hits(moved))[0].statuses == ["healthy", "limited"]
    # The same injections at other moments hit none of these.
    truth, _ = of_run(own, _hits({at + 100 * MS: length for at, length in stops.items()}))
    assert truth.statuses == ["healthy", "limited"]


def test_many_stops_make_it_slow() -> None:
    stops = {n * S // 5 + 7: 30 * MS for n in range(1, 25)}
    truth, _ = of_run(_loop(5, stops), _hits(stops))
    assert truth.statuses == ["slow"]
    assert truth.severity is not None
    assert truth.severity["cost_share"] == pytest.approx(24 * 0.03 / 5, rel=0.1)


def test_a_stall_that_nobody_injected_is_no_fault_that_counts() -> None:
    stall = {2 * S: 30 * MS}
    truth, _ = of_run(_loop(5, stall), None)
    assert (truth.counts, truth.must_name, truth.statuses) == (False, False, ["outliers"])
    # Somebody injected something else at another time.
    truth, needs_pairs = of_run(_loop(5, stall), [Injection(4 * S, 4 * S + 10 * US)])
    assert (truth.counts, needs_pairs, truth.statuses) == (False, True, ["outliers"])


def test_what_stands_apart_by_itself_is_not_hit_by_what_is_there_half_of_the_time() -> None:
    """SQLite on btrfs: its longest commits lay now in the windows of a small readahead, now beside them, and the fault counted."""
    windows = [Injection(n * S // 2, n * S // 2 + 250 * MS) for n in range(10)]
    beside = {n * S // 2 + (100 if n % 2 else 400) * MS: 30 * MS for n in range(1, 9)}
    truth, needs_pairs = of_run(_loop(5, beside), windows)
    assert (truth.counts, needs_pairs, "outliers" in truth.statuses) == (False, True, True), truth
    within = {n * S // 2 + 100 * MS: 30 * MS for n in range(1, 9)}
    truth, needs_pairs = of_run(_loop(5, within), windows)
    assert (truth.counts, needs_pairs) == (True, True), truth


def test_what_hit_nothing_does_not_count() -> None:
    truth, needs_pairs = of_run(_loop(2), [Injection(9 * S, 10 * S)])
    assert (truth.hits, truth.counts, needs_pairs, truth.statuses) == (
        0,
        False,
        False,
        ["healthy", "limited"],
    )


def _paired(ratio: float, cover: float) -> Truth:
    """Truth of a fault that makes operations `ratio` times as long in its windows and covers so much of the time."""
    truth, needs_pairs = of_run(
        _loop(4, slow=ratio), [Injection(n * MS, n * MS + round(cover * MS)) for n in range(1, 4000)]
    )
    assert needs_pairs
    windows, parts, at = [], [], 0
    for pair in range(8):
        begin = pair * 2 * S
        windows.append(((begin, begin + S), (begin + S, begin + 2 * S)))
        for seed, slow in enumerate((ratio, 1.0)):
            part = _loop(1.2, seed=10 * pair + seed, slow=slow)
            inside = part.start_ns < S
            parts.append((part.start_ns[inside] + at, part.latency_ns[inside], part.kind[inside]))
            at += S
    own = Own(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    # The log reaches beyond the last window.
    own = Own(np.append(own.start_ns, 17 * S), np.append(own.latency_ns, US), np.append(own.kind, "write"))
    with_pairs(truth, own, windows, hits=100)
    return truth


def test_pairs_tell_what_has_no_typical_operation() -> None:
    truth = _paired(2.0, 0.8)
    assert truth.counts
    assert (truth.statuses, truth.must_name) == (["slow"], True)
    assert truth.severity is not None
    assert truth.severity["throughput_ratio"] == pytest.approx(2.0, rel=0.1)


def test_pairs_without_difference_do_not_count() -> None:
    truth = _paired(1.0, 0.8)
    assert (truth.counts, truth.must_name, truth.statuses) == (False, False, ["healthy", "limited"])
    assert "do not differ" in truth.why


def test_a_difference_larger_than_what_was_injected_is_chance() -> None:
    truth = _paired(2.0, 0.01)
    assert truth.severity is not None
    assert truth.severity["cost_share"] <= 0.021
    assert truth.statuses != ["slow"]


def test_too_small_a_fault_counts_and_is_not_to_be_told() -> None:
    truth = _paired(1.02, 0.8)
    if truth.counts:
        assert (truth.must_name, truth.statuses) == (False, ["healthy", "limited"])


# -- judge


def _finding(kind: str, name: str, because_of: str | None = None, share: float = 0.3) -> dict[str, Any]:
    return {
        "culprit": {"kind": kind, "name": name, "because_of": because_of},
        "share_of_latency": share,
        "claim": "",
    }


def _verdict(status: str, *findings: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": status, "findings": list(findings), "limit": None, **more}


SLOW = Truth(3, True, "", ["slow"], True, 100, 100)
FINE = Truth(None, False, "", ["healthy", "limited"], False, 100, 100)


def _judge(verdict: dict[str, Any], truth: Truth, fault: str | None, excused: str | None = None) -> Any:
    return judge(
        verdict,
        truth,
        BY_NAME[fault] if fault else None,
        PROGRAMS["sqlite"],
        "loop3",
        lambda _: excused,
        1000,
    )


DEVICE = _finding("stage", "device", "device:loop3")
OTHER = _finding("stage", "device", "device:vda")
QUEUE = _finding("stage", "queue", "device:loop3")


@pytest.mark.parametrize(
    ("verdict", "truth", "fault", "right"),
    [
        (_verdict("slow", DEVICE), SLOW, "flush-tail", True),
        (_verdict("slow", _finding("stage", "device+interrupt")), SLOW, "write-pause", True),
        # Behind the flush: true, but not the culprit.
        (_verdict("slow", DEVICE, QUEUE), SLOW, "flush-tail", True),
        (_verdict("slow", QUEUE, DEVICE), SLOW, "flush-tail", False),
        (_verdict("slow", QUEUE), SLOW, "queue-hold", True),
        (_verdict("slow", DEVICE), SLOW, "queue-hold", False),
        # A finding that is wrong spoils a verdict, wherever it stands.
        (_verdict("slow", DEVICE, OTHER), SLOW, "flush-tail", False),
        (_verdict("slow", OTHER, DEVICE), SLOW, "flush-tail", False),
        # Status.
        (_verdict("outliers", DEVICE), SLOW, "flush-tail", False),
        (_verdict("healthy"), SLOW, "flush-tail", False),
        (_verdict("insufficient"), FINE, None, False),
        (_verdict("healthy"), FINE, None, True),
        (_verdict("limited", limit="queue depth 1 at 80 us"), FINE, None, True),
        (_verdict("slow", DEVICE), FINE, None, False),
        # A limit of the device is a culprit by another name, a queue depth is not.
        (_verdict("limited", limit="loop3 takes 24 MiB/s"), SLOW, "write-rate", True),
        (_verdict("limited", limit="queue depth 1 at 80 us"), SLOW, "write-rate", False),
        (_verdict("limited", limit="loop3 takes 24 MiB/s"), SLOW, "flush-tail", False),
        (
            _verdict("slow", _finding("process", "sqlite", "silence of the submitter, state T")),
            SLOW,
            "stops",
            True,
        ),
        (_verdict("slow", _finding("process", "sqlite", "stage:runqueue")), SLOW, "stops", False),
        (
            _verdict("slow", _finding("process", "rsync", "silence of the submitter, state T")),
            SLOW,
            "stops",
            False,
        ),
    ],
)
def test_right_is_status_culprit_and_nothing_wrong(
    verdict: dict[str, Any], truth: Truth, fault: str | None, right: bool
) -> None:
    judged = _judge(verdict, truth, fault)
    assert judged.right is right, judged


def test_an_excused_finding_is_listed_and_does_not_count() -> None:
    judged = _judge(_verdict("slow", OTHER, DEVICE), SLOW, "flush-tail", "second tracer: 3 requests")
    assert judged.right
    assert judged.excuses == ["stage device (device:vda): second tracer: 3 requests"]


def test_a_programs_own_doing_has_to_be_told() -> None:
    """No status is wrong, if some sentence says what it did; another one that is accused is."""
    told = {"summary": ["Meanwhile, by its own log: checkpoint in 29 % of their time."], "minor": []}
    silent: dict[str, Any] = {"summary": [], "minor": []}
    assert _judge(_verdict("healthy", **told), SLOW, "checkpoint").right
    assert not _judge(_verdict("healthy", **silent), SLOW, "checkpoint").right
    assert not _judge(_verdict("slow", {**DEVICE, "claim": ""}, **told), SLOW, "checkpoint").right


def test_failed_requests_have_to_be_told_whatever_the_program_made_of_them() -> None:
    own = columns(Log(), may_be_empty=True)
    truth = of_failed_requests(own, 3)
    assert truth.counts
    assert truth.must_name
    fault = "device-errors"
    told = {
        "summary": ["Look at a device: loop3 had 3 errors; no slow operation of it has to do with them."],
        "minor": [],
    }
    other = {"summary": ["vdb had 3 errors."], "minor": []}
    assert _judge(_verdict("healthy", **told), truth, fault).right
    assert not _judge(_verdict("healthy", **other), truth, fault).right
    named = {**_finding("device", "loop3", "errors"), "claim": ""}
    assert _judge(_verdict("slow", named, summary=[], minor=[]), truth, fault).right
    with pytest.raises(ValueError, match="no request failed"):
        of_failed_requests(own, 0)


def test_the_slowest_must_be_the_one_that_was_hit() -> None:
    truth = replace(SLOW, apart=[{"start_ns": 6000, "latency_ns": 400, "kind": "read", "hit": True}])
    right = _verdict("slow", DEVICE, slowest=[{"start_ns": 5010, "latency_ns": 380}])
    assert _judge(right, truth, "flush-tail").slowest_right is True
    wrong = _verdict("slow", DEVICE, slowest=[{"start_ns": 6000, "latency_ns": 400}])
    assert _judge(wrong, truth, "flush-tail").slowest_right is False
    assert _judge(_verdict("slow", DEVICE, slowest=[]), truth, "flush-tail").slowest_right is False
    # One that was hit as well and is as slow will do; one that was not, or is not, will not.
    for latency, hit, same in ((399, True, True), (399, False, False), (350, True, False)):
        truth.apart[1:] = [{"start_ns": 9000, "latency_ns": latency, "kind": "read", "hit": hit}]
        second = _verdict("slow", DEVICE, slowest=[{"start_ns": 8000, "latency_ns": 400}])
        assert _judge(second, truth, "flush-tail").slowest_right is same
    # A solver that has no such list yet is not judged by it.
    assert _judge(_verdict("slow", DEVICE), truth, "flush-tail").slowest_right is None


# -- excuses


def _records(place: Path, stalls_ms: list[int], traced_ms: list[int], share_of_own: float) -> Records:
    """A device with 1,000 requests of 100 us and some stalls, by the case and by the second tracer."""
    folder = place / "ops" / "layer=block"
    folder.mkdir(parents=True)
    latency = np.full(1000, 100 * US)
    latency[100 : 100 + len(stalls_ms)] = np.array(stalls_ms) * MS
    start = np.arange(1000) * 200 * MS
    shown = {"start_ns": start, "latency_ns": latency}
    connection = duckdb.connect()
    connection.register("ops", shown)
    connection.execute(
        "COPY (SELECT 'vda' AS device, 'read' AS op, false AS open, start_ns, latency_ns, latency_ns AS device_ns, "
        f"0::BIGINT AS interrupt_ns FROM ops) TO '{folder}/part-0.parquet'"
    )
    traced = latency.copy()
    traced[100 : 100 + len(traced_ms)] = np.array(traced_ms) * MS
    zero = 5000 * S
    own_latency = np.full(1000, 100 * US)
    if stalls_ms:
        total = own_latency.sum()
        own_latency[100 : 100 + len(stalls_ms)] = share_of_own / (1 - share_of_own) * total / len(stalls_ms)
    own = Own(zero + start, own_latency, np.full(1000, "read"))
    seen = [Request("vda", zero + int(s) + 3 * US, int(t), "R") for s, t in zip(start, traced, strict=True)]
    return Records(own, seen, [], place, zero, faulty=None)


def test_a_stall_that_a_second_tracer_saw_is_excused(tmp_path: Path) -> None:
    records = _records(tmp_path, [30, 40, 50], [30, 40, 50], 0.3)
    said = excuse(OTHER, records)
    assert said is not None
    assert "3 requests of vda, 120 ms" in said


@pytest.mark.parametrize(
    ("traced_ms", "share", "finding", "faulty", "why"),
    [
        ([30, 1, 1], 0.3, OTHER, None, "the second tracer did not see them"),
        ([30, 40, 50], 0.01, OTHER, None, "it cost much less than is said"),
        ([30, 40, 50], 0.3, OTHER, "vda", "the fault is on that device"),
        ([30, 40, 50], 0.3, DEVICE, None, "another device"),
        (
            [30, 40, 50],
            0.3,
            _finding("process", "sqlite"),
            None,
            "nothing independent shows a program's guilt",
        ),
        ([30, 40, 50], 0.3, _finding("stage", "fs", "device:vda"), None, "another stage"),
    ],
)
def test_else_it_is_not(
    tmp_path: Path, traced_ms: list[int], share: float, finding: dict[str, Any], faulty: str | None, why: str
) -> None:
    records = replace(_records(tmp_path, [30, 40, 50], traced_ms, share), faulty=faulty)
    assert excuse(finding, records) is None, why


def test_steal_is_excused_at_its_time_and_of_its_size(tmp_path: Path) -> None:
    records = _records(tmp_path, [], [], 0.0)
    latency = records.own.latency_ns.copy()
    latency[10] = 50 * MS
    own = replace(records.own, latency_ns=latency)
    at = int(own.start_ns[10])
    accused = _finding("host", "hypervisor", "steal", share=50 / 150)
    assert excuse(accused, replace(records, own=own, stolen=[(at, at + 50 * MS, 40 * MS)])) is not None
    assert excuse(accused, replace(records, own=own, stolen=[(at + S, at + S + 50 * MS, 40 * MS)])) is None
    assert (
        excuse(
            _finding("host", "hypervisor", "steal", share=0.9),
            replace(records, own=own, stolen=[(at, at + 50 * MS, 9)]),
        )
        is None
    )


def _singly(stage: str, culprit: tuple[str, str, str | None], *lengths_ms: int) -> dict[str, Any]:
    """A finding that was read off single calls, which begin every second."""
    rows = [
        {"start_ns": number * S, "latency_ns": length * MS + 10 * US, f"{stage}_ns": length * MS}
        for number, length in enumerate(lengths_ms)
    ]
    kind, name, because_of = culprit
    return {**_finding(kind, name, because_of), "basis": "measured", "evidence": [{"rows": rows}]}


SLEPT = _singly("fs", ("stage", "fs", None), 2, 3)
NO_CPU = _singly("runqueue", ("process", "make", "stage:runqueue"), 2, 3)


@pytest.mark.parametrize(
    ("finding", "asleep_ms", "ready_ms", "injected_s", "excused", "why"),
    [
        (SLEPT, [2, 3], [0, 0], [], True, "both calls slept"),
        (SLEPT, [2, 9], [0, 0], [], False, "one slept for another time"),
        (SLEPT, [0, 0], [2, 3], [], False, "they were ready"),
        (SLEPT, [2, 3], [0, 0], [1], False, "the second lies in what was injected"),
        (NO_CPU, [0, 0], [2, 3], [], True, "both had no CPU"),
        (NO_CPU, [2, 3], [0, 0], [], False, "they were asleep"),
        (_finding("process", "make", "stage:runqueue"), [0, 0], [2, 3], [], False, "no call is named"),
    ],
)
def test_single_calls_that_the_scheduler_saw_off_a_cpu_are_excused(
    tmp_path: Path,
    finding: dict[str, Any],
    asleep_ms: list[int],
    ready_ms: list[int],
    injected_s: list[int],
    excused: bool,
    why: str,
) -> None:
    records = _records(tmp_path, [], [], 0.0)
    zero = records.case_start_ns
    off = [
        OffCpu(7, zero + number * S + 5 * US, asleep * MS, ready * MS)
        for number, (asleep, ready) in enumerate(zip(asleep_ms, ready_ms, strict=True))
    ]
    injected = [Injection(zero + at * S, zero + at * S + MS) for at in injected_s]
    assert (excuse(finding, replace(records, off=off, injected=injected)) is not None) == excused, why


def test_the_schedulers_events_tell_sleep_from_want_of_a_cpu() -> None:
    text = """# tracer: nop
  rm-7 [001] d..2. 100.000000: sched_switch: prev_comm=rm prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=a b next_pid=9 next_prio=120
  a b-9 [001] dN.4. 100.002000: sched_wakeup: comm=rm pid=7 prio=120 target_cpu=001
  a b-9 [001] d..2. 100.003000: sched_switch: prev_comm=a b prev_pid=9 prev_prio=120 prev_state=R+ ==> next_comm=rm next_pid=7 next_prio=120
  rm-7 [001] d..2. 100.003100: sched_switch: prev_comm=rm prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=a b next_pid=9 next_prio=120
  a b-9 [001] d..2. 100.003200: sched_switch: prev_comm=a b prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=rm next_pid=7 next_prio=120
"""
    assert list(times_off(text.splitlines())) == [OffCpu(7, 100_000_000_000, 2_000_000, 1_000_000)]


def test_the_second_tracer_joins_issue_and_completion() -> None:
    text = """# tracer: nop
     sqlite-12 [001] ..... 100.000100: block_rq_issue: 7,3 WS 4096 () 2048 + 8 none,0,0 [sqlite]
     sqlite-12 [001] ..... 100.000150: block_rq_issue: 7,3 FF 0 () 0 + 0 none,0,0 [sqlite]
      <idle>-0 [000] ..s.. 100.000900: block_rq_complete: 7,3 WS () 2048 + 8 none,0,0 [0]
      <idle>-0 [000] ..s.. 100.020150: block_rq_complete: 7,3 FF () 0 + 0 none,0,0 [0]
      <idle>-0 [000] ..s.. 100.030000: block_rq_complete: 7,3 R () 77 + 8 none,0,0 [0]
"""
    found = list(requests(text.splitlines(), {(7, 3): "loop3"}))
    assert found == [
        Request("loop3", 100_000_100_000, 800_000, "WS"),
        Request("loop3", 100_000_150_000, 20_000_000, "FF"),
    ]


# -- machine


def test_only_the_machine_sets_a_run_aside() -> None:
    assert Machine(others_cpus=0.1, stolen_cpus=0.1).aside() is None
    assert Machine(others_cpus=-0.2, stolen_cpus=0.29).aside() is None
    assert "others had 0.25 CPUs" in (Machine(others_cpus=0.25, stolen_cpus=0.1).aside() or "")
    watched = Machine(sampled_ns=[0, 10, 20, 30], stolen_s=[1.0, 1.0, 1.02, 1.02])
    assert watched.stolen_windows() == [(10, 20, 20_000_000)]


# -- rows and magnitudes


def test_registries_grow_at_the_end_only() -> None:
    """Which cells are held out follows from their places; what was seen before there was a referee is not held out."""
    assert list(PROGRAMS)[:5] == ["fio", "postgresql", "db_bench", "tar", "sqlite"]
    assert [f.name for f in FAULTS][:5] == ["stops", "queue-hold", "flush-tail", "write-pause", "write-rate"]
    seen = [
        "fio/stops",
        "postgresql/flush-tail",
        "postgresql/write-pause",
        "postgresql/stops",
        "sqlite/flush-tail",
    ]
    seen += ["db_bench/flush-tail", "tar/write-rate"]
    assert not [row.cell for row in ROWS.values() if row.held_out and row.cell in seen]


def test_a_third_of_the_cells_is_held_out_of_everything_but_the_test_set() -> None:
    faulty = {row.cell: row.held_out for row in ROWS.values() if row.fault}
    assert 0.3 <= sum(faulty.values()) / len(faulty) <= 0.36
    for of_set, wanted in (("development", False), ("validation", False), ("test", True)):
        drawn = list(runs("c0ffee", of_set, 300))
        assert any(run.row.held_out for run in drawn) is wanted
    held = next(row.name for row in ROWS.values() if row.held_out)
    assert "held out" in (refused([held], "development") or "")
    assert "drawn" in (refused(["sqlite/xfs/none"], "validation") or "")
    assert refused(["sqlite/xfs/none"], "development") is None


def test_runs_follow_from_the_freeze_and_are_mixed_wherever_they_stop() -> None:
    first, again, other = (list(runs(commit, "test", 560)) for commit in ("aa", "aa", "bb"))
    assert first == again
    assert [run.row for run in first] != [run.row for run in other]
    assert len({(run.row.name, run.number) for run in first}) == len({run.seed for run in first}) == 560
    assert sum(run.row.fault is None for run in first) == 140
    assert {run.row.file_system for run in first[:40]} == set(rows.FILE_SYSTEMS)
    chosen = ["sqlite/ext4/flush-tail", "fio/xfs/none"]
    assert [run.row.name for run in runs("aa", "development", 4, rows=chosen)] == sorted(chosen) * 2
    # Another judge of the same commit draws on: no seed is met twice.
    on = list(runs("aa", "test", 560, used={run.row.name: run.number for run in first}))
    assert not {run.seed for run in first} & {run.seed for run in on}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_magnitudes_are_what_the_words_say_and_slowdisk_can_read_them(fault: Any) -> None:
    drawn = [fault.draw(random.Random(seed)) for seed in range(300)]
    assert len({json.dumps(each) for each in drawn}) > 250
    for name in drawn[0]:
        values = [each[name] for each in drawn]
        # On a log scale: the middle one lies near the geometric mean of the ends.
        assert np.log(np.median(values)) == pytest.approx(
            (np.log(min(values)) + np.log(max(values))) / 2, abs=0.6
        )
    for text in disk_faults(fault, drawn[0], 768 << 20, [(4.0, 5.5)]):
        assert not any(bracket in text for bracket in "{}")
        assert fault.act or text.endswith("from 4s until 5.5s")


# -- freezes


def test_a_freeze_changes_with_what_it_freezes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        settings = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *settings, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", name)
        return git("rev-parse", "HEAD")

    monkeypatch.setattr(freeze, "ROOT", tmp_path)
    git("init", "-q")
    commit("python/whodisk/programs/base.py", "judge")
    first = freeze.freeze(commit("python/solve.py", "1"))
    readme = freeze.freeze(commit("README.md", "1"))
    assert replace(readme, commit=first.commit) == first
    solver = freeze.freeze(commit("python/solve.py", "2"))
    assert (solver.solver != first.solver, solver.join, solver.thresholds) == (True, first.join, "")
    thresholds = freeze.freeze(commit("python/whodisk/detectors/thresholds.py", "X = 1"))
    assert thresholds.thresholds
    assert thresholds.solver != solver.solver
    recorder = freeze.freeze(commit("crates/record/src/lib.rs", "1"))
    assert (recorder.recorder != thresholds.recorder, recorder.solver) == (True, thresholds.solver)
    (tmp_path / "python/whodisk/programs/base.py").write_text("another judge")
    judged = freeze.freeze(recorder.commit)
    assert (judged.judge != recorder.judge, judged.name != recorder.name) == (True, True)
    with pytest.raises(freeze.FreezeError, match="expected a commit"):
        freeze.freeze("nonsense")


# -- command and table


class _Runs:
    """Stands for a machine that makes runs: quiet or not, with a solver that is right or not."""

    def __init__(self, aside: list[str | None], order: list[str]) -> None:
        self.aside, self.order = aside, order

    def make(
        self, run: Any, whodisk: Path, seconds: float, keep: Path, *, disturbed_too: bool
    ) -> tuple[Any, Truth]:
        self.order.append("make")
        keep.mkdir(parents=True, exist_ok=True)
        (keep / "facts.json").write_text("{}")
        why = self.aside.pop(0) if self.aside else None
        return Machine(others_cpus=1.0 if why else 0.0), FINE


def _command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    aside: list[str | None],
    kind: str = "validation",
    *more: str,
) -> list[str]:
    """Runs four runs of a set; gives the order of what was done."""
    order: list[str] = []
    frozen = freeze.Freeze("c0ffee" * 6, "r" * 9, "j" * 9, "s" * 9, "", "d" * 9)
    monkeypatch.setattr(command, "STORE", tmp_path / "programs.jsonl")
    monkeypatch.setattr(command, "OUTPUT", tmp_path / "programs.md")
    monkeypatch.setattr(command, "BUILD", tmp_path / "build")
    monkeypatch.setattr(command, "freeze", lambda _: frozen)
    monkeypatch.setattr(command, "checkout", lambda _: Path("whodisk"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    # Which packages this host has decides nothing here: nothing is started.
    monkeypatch.setattr("whodisk.programs.base.Program.missing", lambda _: None)
    monkeypatch.setattr(making, "make", _Runs(aside, order).make)

    def solved(*_: Any) -> dict[str, Any]:
        lines = (tmp_path / "programs.jsonl").read_text().splitlines()
        order.append(f"solve after {json.loads(lines[-1])['kind']}")
        judged: dict[str, Any] = _judge(_verdict("healthy"), FINE, None).to_json()
        return judged

    monkeypatch.setattr(command, "_solved", solved)
    assert command.main(["--freeze", "x", "--set", kind, "--runs", "4", *more]) == 0
    return order


def test_a_run_is_set_aside_before_it_is_solved_and_never_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = _command(tmp_path, monkeypatch, ["busy", None, "busy", "busy"])
    # The first is made again, the second given up, the others are fine.
    assert (
        order == ["make", "make", "solve after machine", "make", "make"] + ["make", "solve after machine"] * 2
    )
    store = Store(tmp_path / "programs.jsonl")
    assert [line["aside"] is None for line in store.of("machine")] == [False, True, False, False, True, True]
    assert len(list(store.of("result"))) == 3
    page = (tmp_path / "programs.md").read_text()
    assert "| 3 of 90 | 3 of 6, 1 runs not made again |" in page
    assert page.count("others had 1.00 CPUs") == 3
    # It goes on where it was: what was solved is not solved again, what was given up is made.
    before = (tmp_path / "programs.jsonl").read_bytes()
    assert _command(tmp_path, monkeypatch, []) == ["make", "solve after machine"]
    assert (tmp_path / "programs.jsonl").read_bytes().startswith(before)
    assert _command(tmp_path, monkeypatch, []) == []


def test_what_was_recorded_first_is_solved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = "--record-only"
    assert _command(tmp_path, monkeypatch, ["busy", "busy"], "test", only) == ["make"] * 5
    # The one that was set aside twice is made now, and nothing else.
    assert _command(tmp_path, monkeypatch, [], "test", only) == ["make"]
    assert not list(Store(tmp_path / "programs.jsonl").of("result"))
    order = _command(tmp_path, monkeypatch, [], "test")
    assert (len(order), "make" in order) == (4, False)


def test_it_waits_until_others_are_gone_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_seconds = iter([0.0, 0.9, 1.0, 1.8, 1.9, 1.95])
    monkeypatch.setattr(machine, "cpu_of_others", lambda: next(cpu_seconds))
    monkeypatch.setattr(machine, "cpu_stolen", lambda: 0.0)
    monkeypatch.setattr("time.sleep", lambda _: None)
    machine.wait_until_calm(60.0)
    assert next(cpu_seconds, None) is None
    machine.wait_until_calm(0.0)


def test_runs_that_another_judge_judged_first_are_solved_again_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _command(tmp_path, monkeypatch, [])
    before = (tmp_path / "programs.jsonl").read_bytes()
    other = freeze.Freeze("c0ffee" * 6, "r" * 9, "j" * 9, "s" * 9, "", "e" * 9)
    monkeypatch.setattr(command, "freeze", lambda _: other)
    for _ in range(2):
        assert command.main(["--freeze", "x", "--set", "validation", "--solve-again", "x"]) == 0
    assert (tmp_path / "programs.jsonl").read_bytes().startswith(before)
    again = list(Store(tmp_path / "programs.jsonl").of("again"))
    assert [line["judge"] for line in again] == ["e" * 9] * 4
    assert "## Solved again" in (tmp_path / "programs.md").read_text()


def test_what_a_test_set_says_is_hidden_until_it_is_revealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _command(tmp_path, monkeypatch, [], "test")
    assert "Not shown" in (tmp_path / "programs.md").read_text()
    assert command.main(["--freeze", "x", "--set", "test", "--reveal"]) == 0
    page = (tmp_path / "programs.md").read_text()
    assert "Not shown" not in page
    assert "looked into: development data" in page


def test_the_latest_freeze_is_the_headline_however_good_the_one_before_was(tmp_path: Path) -> None:
    store = Store(tmp_path / "programs.jsonl")
    for name, right in (("one", True), ("two", False)):
        hashes = dict.fromkeys(("recorder", "join", "solver", "thresholds", "judge"), "0" * 9)
        store.add({"kind": "freeze", "freeze": name, "commit": name, "utc": "2026-11-23", **hashes})
        for number in range(1, 5):
            run = {"freeze": name, "set": "test", "row": "sqlite/xfs/flush-tail", "number": number}
            machine = {"aside": None, "utc": "2026-11-23", "machine": "m", "magnitudes": {"part": 0.1}}
            store.add({"kind": "machine", **run, **machine, "truth": SLOW.to_json()})
            verdict = _verdict("slow", DEVICE) if right else _verdict("healthy")
            store.add({"kind": "result", **run, **_judge(verdict, SLOW, "flush-tail").to_json()})
    page = document(store)
    assert "latest freeze, two: the culprit is first in 0 of 4" in page
    assert "| one |" in page
    for number in range(1, 5):
        run = {"freeze": "two", "set": "test", "row": "sqlite/xfs/flush-tail", "number": number}
        store.add({"kind": "again", **run, "solver": "three", "judge": "j", "right": True})
    again = document(store)
    assert again.startswith(page.rstrip())
    assert "| two | test | three | j | 0 of 4 (0 to 49 %) | 4 of 4 (51 to 100 %) |" in again


def test_columns_of_an_empty_log_are_refused() -> None:
    with pytest.raises(ValueError, match="found none"):
        truths.columns(Log())


def test_the_referee_knows_nothing_of_the_solver() -> None:
    files = [
        *(ROOT / "python/whodisk/programs").glob("*.py"),
        *(ROOT / "tests/accuracy/referee").glob("*.py"),
    ]
    assert len(files) > 15
    for path in files:
        text = path.read_text(encoding="utf-8")
        # Real programs come with the package; they know nothing of it, but its error.
        assert not re.search(r"^\s*(from|import) whodisk(?!\.(programs|errors)\b)", text, re.MULTILINE), path


def test_a_freeze_runs_its_own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A referee that was started with PYTHONPATH handed it on, and verdicts were those of the tree that it stood in (decision 0418)."""
    monkeypatch.setenv("PYTHONPATH", "python:.")
    variables = freeze.environment(Path("/srv/frozen/.venv/bin/whodisk"))
    assert "PYTHONPATH" not in variables
    assert variables["WHODISK_AGENT"] == "/srv/frozen/.venv/bin/whodisk-agent"
