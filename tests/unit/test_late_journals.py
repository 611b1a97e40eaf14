"""What slept in a file system while the thread that commits its journal had no CPU is no fault of the file system."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, probe, write_case
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve

COUNT, US, MS = 2000, 1_000, 1_000_000
DRIVE, TID, JOURNAL, HOG, OTHER = "nvme0n1", 4300, 310, 99, 98
LATE_NS = 24 * MS


def verdict(
    path: Path,
    turn_ms: int,
    *,
    hogs: tuple[tuple[str, int], ...] = (("hog", HOG),),
    meanwhile: bool = True,
    device: str | None = DRIVE,
    merged: int = 1,
) -> Verdict:
    """Syncs of 300 us, forty of which sleep for 24 ms longer; the journal's thread waits for a CPU in turns of that length, then or at other times. `hogs`
    have it by turns. `device`: what the syncs carry. `merged`: how many turns the first one takes at a time."""
    rng = np.random.default_rng(151)
    fs_ns = rng.integers(150 * US, 250 * US, COUNT)
    late = np.linspace(50, COUNT - 150, 40).astype(int) + rng.integers(0, 20, 40)
    fs_ns[late] += LATE_NS
    latency = fs_ns + 100 * US
    pause = np.zeros(COUNT, np.int64)
    pause[late + 15] = LATE_NS + MS
    start = np.cumsum(latency + 400 * US + pause) - latency
    begin = start[late] + 100 * US if meanwhile else start[late + 15] - LATE_NS
    waits = [
        {
            "tid": TID,
            "pid": TID,
            "comm": "db",
            "cpu": 0,
            "start_ns": int(at) + 5 * US,
            "duration_ns": int(ns) - 10 * US,
            "state": "blocked",
            "cause": "jbd2_log_wait_commit",
            "cause_pid": None,
        }
        for at, ns in zip(start, latency, strict=True)
    ]
    turns = LATE_NS // (turn_ms * MS)
    for at in begin.tolist():
        for number in (0, *range(merged, turns)):
            name, pid = hogs[number % len(hogs)]
            waits.append(
                {
                    "tid": JOURNAL,
                    "pid": JOURNAL,
                    "comm": f"jbd2/{DRIVE}p1-8",
                    "cpu": 0,
                    "start_ns": at + number * turn_ms * MS,
                    "duration_ns": (1 if number else merged) * turn_ms * MS - 20 * US,
                    "state": "runnable",
                    "cause": name,
                    "cause_pid": pid,
                }
            )
    number = np.arange(COUNT)
    common = {"tid": TID, "pid": TID, "comm": "db", "device_ns": np.full(COUNT, 100 * US)}
    syscall = {
        **common,
        "op": "sync",
        "op_id": APP_ID_BASE | number,
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": fs_ns,
        **dict.fromkeys(("queue_ns", "interrupt_ns", "runqueue_ns"), 0),
    }
    if device is not None:
        syscall["device"] = device
    block = {
        **common,
        "op": "write",
        "device": DRIVE,
        "size_bytes": 4096,
        "op_id": BLOCK_ID_BASE | number,
        "start_ns": start + 50 * US,
        "latency_ns": np.full(COUNT, 100 * US),
    }
    return solve(
        write_case(
            path,
            syscall=syscall,
            block=block,
            links={
                "parent_id": APP_ID_BASE | number,
                "child_id": BLOCK_ID_BASE | number,
                "kind": ["split"] * COUNT,
            },
            devices=(DRIVE,),
            tables={"waits": sorted(waits, key=lambda wait: int(str(wait["start_ns"])))},
            meta={
                "observer": "record",
                "command": ["db"],
                "duration_ns": int(start[-1] + 200 * MS),
                "probes": {"sched": probe()},
            },
        )
    )


def accused(found: Verdict) -> list[tuple[str, str]]:
    return [(finding.culprit.kind, finding.culprit.name) for finding in found.findings]


def test_who_keeps_the_journal_from_a_cpu_is_accused_and_not_the_file_system(tmp_path: Path) -> None:
    found = verdict(tmp_path / "x.case", 24)
    assert accused(found) == [("process", "hog")], found.summary
    assert "Who commits for nvme0n1 was ready to run but had no CPU: hog had it" in found.findings[0].claim


def test_a_namesake_of_the_program_is_told_by_its_process(tmp_path: Path) -> None:
    found = verdict(tmp_path / "x.case", 24, hogs=(("db", HOG),))
    assert accused(found) == [("process", f"db (process {HOG})")], found.summary
    assert f"db (process {HOG}, not the recorded one) had it" in found.findings[0].claim


def test_short_turns_of_several_hold_the_journal_and_no_file_system(tmp_path: Path) -> None:
    found = verdict(tmp_path / "x.case", 3, hogs=(("hog", HOG), ("other", OTHER), ("hog", HOG)))
    assert accused(found) == [("process", "hog")], found.summary
    claim = found.findings[0].claim
    assert claim.endswith("Who had it: hog (75 %), other (25 %).") or "Who had it: hog (" in claim, claim


def test_a_crowd_of_short_turns_is_told_by_its_programs(tmp_path: Path) -> None:
    found = verdict(tmp_path / "x.case", 3, hogs=tuple((f"job-{n}", HOG + n) for n in range(8)))
    assert accused(found) == [("stage", "runqueue")], found.summary
    assert "job-" in found.findings[0].claim and "and 5 more" in found.findings[0].claim


def test_own_threads_that_keep_the_journal_from_a_cpu_accuse_nobody(tmp_path: Path) -> None:
    found = verdict(tmp_path / "x.case", 3, hogs=(("db", TID),))
    assert accused(found) == [], found.summary
    assert any("slept in the file system on nvme0n1" in line for line in found.minor), found.minor


def test_others_that_had_the_cpu_in_shorter_turns_are_told(tmp_path: Path) -> None:
    """The one is accused of its long turns, and another one took the CPU as well."""
    found = verdict(
        tmp_path / "x.case", 6, hogs=(("hog", HOG), ("hog", HOG), ("hog", HOG), ("other", OTHER)), merged=3
    )
    assert accused(found) == [("process", "hog")], found.summary
    assert "In shorter turns others had it, too: other (" in found.findings[0].claim, found.findings[0].claim


@pytest.mark.parametrize("turn_ms", [3, 24])
def test_a_journal_that_waits_at_other_times_excuses_nothing(tmp_path: Path, turn_ms: int) -> None:
    found = verdict(tmp_path / "x.case", turn_ms, meanwhile=False)
    assert accused(found) == [("stage", "fs")], found.summary


def test_what_carries_no_device_is_on_the_only_one(tmp_path: Path) -> None:
    found = verdict(tmp_path / "x.case", 3, device=None)
    assert ("stage", "fs") not in accused(found), found.summary
