"""Facts of a case that decide what a verdict says: they are fields, and where they are missing nothing is decided."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth.bursts import SECONDS, slowed
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, Simulation, write_case
from whodisk.detectors import layout
from whodisk.evidence.service_times import Served
from whodisk.reading.changes import Changed, changes_of, turned_read_only
from whodisk.verdict.solve import solve

MS = 1_000_000
DEVICES = ("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1")


def test_what_changed_is_a_fact_in_new_cases_and_in_old_ones() -> None:
    fact = {"kind": "device", "subject": "sda", "fact": "firmware", "was": "A 1", "is": "B"}
    sentence = "device sda: firmware was 'A 1', is 'B'"
    expected = Changed("device", "sda", "firmware", "A 1", "B", sentence)
    assert changes_of({"changes": [fact]}) == changes_of({"changes": [sentence]}) == [expected]
    (gone,) = changes_of({"changes": [{"kind": "mount", "subject": "/m", "fact": "options", "was": "x"}]})
    assert (gone.now, gone.sentence) == (None, "mount /m is gone")
    anew = {
        "mounts": {"/m": ["/dev/sda", "ext4", "rw"]},
        "changes": ["/m was mounted anew with /dev/sda ext4 ro"],
    }
    (mount,) = changes_of(anew)
    assert (mount.kind, mount.subject, mount.fact, mount.was, mount.now) == (
        "mount",
        "/m",
        "options",
        "rw",
        "ro",
    )
    assert turned_read_only(anew) == ["/m"]
    assert turned_read_only({**anew, "changes": ["/m was mounted anew with /dev/sdb ext4 ro"]}) == []
    assert turned_read_only({**anew, "mounts": {"/m": ["/dev/sda", "ext4", "ro,x"]}}) == []
    (words,) = changes_of({"changes": ["/m was unmounted"]})
    assert (words.kind, words.sentence) == ("", "/m was unmounted")
    assert changes_of({}) == []


def waits_in_the_file_system(path: Path, *, commits: str) -> Path:
    """One write in fifty waits 2 ms in the file system: as long as a turn on a CPU. Commits of the journal were recorded where it waited, elsewhere, or not at all."""
    rng = np.random.default_rng(5)
    count = 6000
    late = np.flatnonzero(np.arange(count) % 50 == 25)
    fs_ns = rng.integers(3_000, 6_000, count)
    fs_ns[late] += 2 * MS
    device_ns = rng.integers(80_000, 120_000, count)
    latency = fs_ns + device_ns
    start = np.cumsum(latency + 20_000) - latency
    app = {
        "op_id": APP_ID_BASE | np.arange(count),
        "start_ns": start,
        "latency_ns": latency,
        "op": "write",
        "device": "sda",
        "size_bytes": 4096,
        "tid": 4300,
        "pid": 4300,
        "comm": "db",
        "app_ns": np.zeros(count, np.int64),
        "fs_ns": fs_ns,
        "queue_ns": np.zeros(count, np.int64),
        "device_ns": device_ns,
    }
    moved = {"there": 0, "elsewhere": 3 * MS}.get(commits)
    events = [
        {
            "time_ns": int(start[at]) - 50_000 + moved,
            "kind": "journal_commit",
            "subject": "sda",
            "detail": "duration_ns 2200000 transaction 7",
        }
        for at in late
        if moved is not None
    ]
    return write_case(path, app=app, events=events, meta={"duration_ns": int(start[-1] + latency[-1])})


@pytest.mark.parametrize(("commits", "accused"), [("there", True), ("elsewhere", False), ("none", False)])
def test_waits_within_commits_are_no_turns_on_a_cpu(tmp_path: Path, commits: str, accused: bool) -> None:
    verdict = solve(waits_in_the_file_system(tmp_path / "case", commits=commits))
    assert [f.culprit.name for f in verdict.findings if f.detector == "stage_blame"] == ["fs"] * accused
    assert any("another thread's turn on a CPU" in line for line in verdict.minor) != accused


def test_what_waits_in_front_of_a_device_is_not_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(seed=3, depth=16, seconds=1.5, typical_us=300.0, devices=DEVICES)
    simulation.stages["queue"][simulation.device_index == 2] += 300_000
    case = simulation.write(tmp_path / "case")
    verdict = solve(case)
    assert not [f for f in verdict.findings if f.culprit.kind == "device"]
    assert any("nvme2n1 wait in front of it" in line for line in verdict.minor)
    for detector in ("slow_member", "member_tail"):
        monkeypatch.setattr(f"whodisk.detectors.{detector}.waits_in_front", lambda *_: False)
    # What the mend is for.
    assert solve(case).findings[0].culprit.kind == "device"


def test_a_device_that_is_slower_itself_is_accused_all_the_same(tmp_path: Path) -> None:
    simulation = Simulation(seed=3, depth=16, seconds=1.5, typical_us=300.0, devices=DEVICES)
    slower = simulation.device_index == 2
    simulation.stages["device"][slower] *= 1.5
    simulation.stages["queue"][slower] += 400_000
    first = solve(simulation.write(tmp_path / "case")).findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("device", "nvme2n1")


@pytest.mark.slow
def test_who_works_in_a_few_bursts_is_not_the_reason_of_all(tmp_path: Path) -> None:
    """A job that runs in every third burst leaves two thirds of them without a reason."""
    moments = 0.1 + np.arange(0, SECONDS - 0.2, 0.3)
    for every, named in ((1, True), (3, False)):
        case = slowed(1, tmp_path / str(every), moments, 3.0, ("rotate-logs", 5002, 131_072), every=every)
        patterns = [f for f in solve(case).findings if f.detector == "burst"]
        assert [f.culprit.because_of == "process:rotate-logs" for f in patterns] == [named]


def test_neighbours_served_in_another_order_are_read_on_all_the_same() -> None:
    """Four reads in flight, served two by two the other way round: each still comes from its neighbourhood in the file; from another file none does."""
    count = 40
    place = np.arange(count).reshape(-1, 2)[:, ::-1].ravel()
    data = {
        "op_id": np.arange(count),
        "file_offset": np.arange(count) * 4096,
        "file_bytes": np.full(count, 4096),
    }
    one, two = np.arange(count - 1), np.arange(1, count)
    same = layout._directly(data, np.zeros(count, np.int64), place, one, two)
    assert same.mean() > 0.9
    alternating = np.arange(count) // 2 % 2
    far = {**data, "file_offset": np.arange(count) * 4096 * 1000}
    assert not layout._directly(far, alternating, place, one[1::2], two[1::2]).any()


def test_a_request_behind_a_break_that_the_disk_left_is_part_of_the_break() -> None:
    count, far = 400, 1 << 40
    at = np.arange(count, dtype=np.int64) * 4096
    start = np.arange(count, dtype=np.int64) * 1000
    end = start + 4000
    # The file goes on elsewhere at 100 and at 300. The disk begins with the third one behind the first break, and comes back much later.
    end[100:102] = 150_000
    # One that waits for as long, but not behind a break, waits for something else.
    end[200] = 250_000
    disk = at + np.where(np.arange(count) >= 100, far, 0) + np.where(np.arange(count) >= 300, far, 0)
    file, one = np.zeros(count, np.int64), np.arange(count - 1)
    is_break = disk[one] + 4096 != disk[one + 1]
    assert layout._passed_over(file, start, end, one, one + 1, is_break).tolist() == [100, 101]
    assert not len(layout._passed_over(file, start, start + 4000, one, one + 1, is_break))


def test_blocks_hold_as_much_of_the_time_and_of_the_requests_together() -> None:
    from whodisk.evidence.level_change import blocks_of
    from whodisk.evidence.thresholds import LEVEL_BLOCKS, LEVEL_PLACES, LEVEL_SIDE_MIN

    even = blocks_of(np.arange(10_000, dtype=np.int64), 0, 10_000)
    assert np.bincount(even).tolist() == [LEVEL_PLACES // LEVEL_BLOCKS] * LEVEL_BLOCKS
    # A fourth of the requests came in the first fiftieth of the time.
    soon = np.concatenate((np.arange(2500) * 800 // 10_000, 200 + np.arange(7500) * 9_800 // 7500))
    block_of = blocks_of(soon.astype(np.int64), 0, 10_000)
    assert np.all(np.diff(block_of) >= 0)
    assert block_of[LEVEL_PLACES // 50] >= LEVEL_SIDE_MIN
    assert block_of[-1] == LEVEL_BLOCKS - 1
    # A seventh of them in a fortieth is a level in blocks of as many requests each, and in those of both it is not.
    seventh = np.concatenate((np.arange(1430) * 250 // 1430, 250 + np.arange(8570) * 9_750 // 8570))
    both, alone = (blocks_of(seventh.astype(np.int64), 0, 10_000, weight) for weight in (0.5, 1.0))
    assert both[LEVEL_PLACES // 40] < LEVEL_SIDE_MIN <= alone[LEVEL_PLACES // 40]


@pytest.mark.parametrize(("left", "from_piece"), [(True, 2), (True, 1), (False, 2)])
def test_what_a_disk_leaves_behind_breaks_is_told_by_its_waiting(left: bool, from_piece: int) -> None:
    """Served in order of place: no request takes the disk longer than others, but those behind a break wait until it comes back.

    Where all of them are left (from the second piece on), it never jumps from one piece to the next.
    """
    count, size = 1200, 524_288
    number = np.arange(count, dtype=np.int64)
    piece = number // 100
    data = {
        "op_id": number,
        "request": number,
        "file": np.full(count, "data"),
        "file_offset": number * size,
        "file_bytes": np.full(count, size),
        "disk_offset": number * size + piece * (1 << 32),
        "disk_bytes": np.full(count, size),
        "start_ns": number * 4_000_000,
        "latency_ns": np.where((number % 100 == 0) & (piece >= from_piece) & left, 350_000_000, 8_000_000),
    }
    data["latency_ns"] = data["latency_ns"] + number % 7
    end = data["start_ns"] + data["latency_ns"]
    order = np.argsort(end)
    begin = data["disk_offset"][order]
    distance = np.concatenate(([0], np.abs(begin[1:] - begin[:-1] - size)))
    served = Served(
        device="sda",
        op_id=number[order],
        comm=np.full(count, "a"),
        own=np.ones(count, np.bool_),
        op=np.full(count, "read"),
        start_ns=data["start_ns"][order],
        end_ns=end[order],
        follows=np.concatenate(([False], distance[1:] == 0)),
        distance_bytes=distance,
        # Longer for a jump, but by less than they vary.
        service_ns=4e6 + 1e6 * np.random.default_rng(3).random(count) + 2e5 * (distance > 0),
    )
    found = layout._layout(data, served)
    assert (found is not None and found.p_value < 1e-4) == left


@pytest.mark.parametrize(
    ("more", "said"), [(4.0, "More is asked for"), (1.0, "Operations stall again and again")]
)
def test_waves_of_load_are_no_stalls(more: float, said: str, tmp_path: Path) -> None:
    """Twenty waves of 100 ms, a second apart, in which requests take six times as long: with four times as many of them, or as many as before."""
    rng = np.random.default_rng(3)
    per_s, second = 300, 1_000_000_000
    quiet = np.sort(rng.uniform(0, 20 * second, 20 * per_s)).astype(np.int64)
    extra = round((more - 1) * per_s * 0.1)
    waves = [np.sort(rng.uniform(0, 0.1 * second, extra)).astype(np.int64) + at * second for at in range(20)]
    begin = np.sort(np.concatenate([quiet, *waves]))
    inside = begin % second < 0.1 * second
    latency = (500_000 * np.exp(rng.normal(0, 0.2, len(begin))) * np.where(inside, 60.0, 1.0)).astype(
        np.int64
    )
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(begin)),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "read",
        "size_bytes": 4096,
        "offset_bytes": rng.integers(0, 1 << 20, len(begin)) * 4096,
        "device": "sdb",
        "queue_ns": 0,
        "device_ns": latency,
        "interrupt_ns": 0,
    }
    verdict = solve(write_case(tmp_path / "case", block=block, meta={"duration_ns": 20 * second}))
    told = [finding.claim for finding in verdict.findings] + verdict.minor
    assert any(said in text for text in told), told
