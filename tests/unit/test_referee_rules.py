"""The referee's rules: intervals, ranks, standing apart, seeds, and a store that forgets nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.accuracy.referee import apart, seeds
from tests.accuracy.referee.faults import FAULTS
from tests.accuracy.referee.intervals import wilson, wilson_of_cells
from tests.accuracy.referee.others import while_it_lasts
from tests.accuracy.referee.ranks import differs, worse_chance
from tests.accuracy.referee.scene import Injection, Scene, open_until, processes, workers
from tests.accuracy.referee.store import Store, StoreError
from whodisk.programs import PROGRAMS

# -- intervals


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe 1998, table I (method 3).
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_the_published_one(successes: int, trials: int, low: float, high: float) -> None:
    found = wilson(successes, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


def test_wilson_of_nothing_says_nothing_and_refuses_what_cannot_be() -> None:
    assert (wilson(0, 0).value, wilson(0, 0).low, wilson(0, 0).high) == (None, 0.0, 1.0)
    with pytest.raises(ValueError, match="found 1"):
        wilson(3, 2)


def test_cells_that_fail_together_widen_the_interval() -> None:
    alike = wilson_of_cells([(9, 10)] * 10)
    together = wilson_of_cells([(10, 10)] * 9 + [(0, 10)])
    assert (alike.low, alike.high) == pytest.approx((wilson(90, 100).low, wilson(90, 100).high))
    assert together.value == alike.value
    # Ten cells that are all right or all wrong are worth no more than 9 of 10.
    assert together.low < wilson(9, 10).low + 0.02


# -- ranks


def test_pairs_that_are_all_worse_differ_and_equal_ones_do_not() -> None:
    assert worse_chance([2, 3, 4, 5, 6], [1, 1, 1, 1, 1]) == pytest.approx(1 / 32)
    assert worse_chance([1, 1, 1, 1, 1], [2, 3, 4, 5, 6]) == 1.0
    assert worse_chance([1.0] * 5, [1.0] * 5) == 1.0
    assert differs([1 / 256, 0.5])
    assert not differs([1 / 32, 0.5])
    with pytest.raises(ValueError, match="5 pairs or more, found 4"):
        worse_chance([1] * 4, [2] * 4)


# -- standing apart

OPERATIONS, RUNS = 10_000, 200


def _latencies(draw: str, chance: np.random.Generator) -> np.ndarray:
    if draw == "exponential":
        return chance.exponential(100_000.0, OPERATIONS)
    if draw == "lognormal":
        return chance.lognormal(np.log(100_000.0), 1.0, OPERATIONS)
    return 100_000.0 * chance.pareto(1 / float(draw), OPERATIONS) + 100_000.0


@pytest.mark.parametrize("draw", ["0.2", "0.5", "1.0", "exponential", "lognormal"])
def test_natural_tails_do_not_stand_apart(draw: str) -> None:
    """DESIGN 8 promises at most 0.5 %: of 200 runs 1 is expected at most; 6 or more have a chance of 6e-4."""
    chance = np.random.default_rng(20)
    false = 0
    for _ in range(RUNS):
        latency = np.sort(_latencies(draw, chance))[::-1]
        false += apart.outliers(latency[:601].tolist(), OPERATIONS, float(np.median(latency))) > 0
    assert false < 6


@pytest.mark.parametrize("count", [1, 2, 7])
def test_rare_stops_stand_apart(count: int) -> None:
    chance = np.random.default_rng(count)
    latency = (100_000 * (1 + chance.pareto(5, 100_000))).astype(np.int64)
    hit = chance.choice(len(latency), count, replace=False)
    latency[hit] = chance.integers(40_000_000, 113_000_000, count)
    start = np.concatenate([[0], latency.cumsum()[:-1]])
    found = apart.standing_apart(start, latency, np.full(len(latency), "read"))
    assert sorted(found) == sorted(hit.tolist())


def test_operations_that_were_slow_together_count_once() -> None:
    start = np.array([0, 10, 90, 200, 300], dtype=np.int64)
    latency = np.array([100, 95, 5, 30, 20], dtype=np.int64)
    assert apart.maxima_of_episodes(start, latency, 9) == [0, 3, 4]


def test_the_chances_add_up() -> None:
    spent = sum(apart.level(j, 3) for j in range(1, apart.OUTLIERS_MAX + 1))
    assert 3 * spent == pytest.approx(apart.ALPHA)
    assert sum(apart.level(j, 1) for j in range(1, 11)) == pytest.approx(apart.ALPHA / 2)


def test_twice_the_next_is_needed_however_thin_the_tail() -> None:
    thin = np.linspace(1010, 1000, 400).tolist()
    assert apart.outliers([1900.0, *thin], 40_000, 100.0) == 0
    assert apart.outliers([2100.0, *thin], 40_000, 100.0) == 1
    # Ten medians, too.
    assert apart.outliers([2100.0, *thin], 40_000, 900.0) == 0


# -- seeds


def test_seeds_of_the_test_set_are_the_hash_of_freeze_row_and_number() -> None:
    by_hand = hashlib.sha256(b"6cdabdb\0fio/ext4/none\x003").digest()
    assert seeds.seed("6cdabdb", "test", "fio/ext4/none", 3) == int.from_bytes(by_hand[:8], "big") >> 1
    drawn = {
        seeds.seed(commit, of_set, row, number)
        for commit in ("a", "b")
        for of_set in seeds.SETS
        for row in ("x", "y")
        for number in (1, 2)
    }
    assert len(drawn) == 24


# -- store

RUN: dict[str, Any] = {"freeze": "f", "set": "test", "row": "fio/ext4/none", "number": 1}


def _store(path: Path, *lines: dict[str, Any]) -> Store:
    store = Store(path)
    for line in ({"kind": "freeze", "freeze": "f"}, *lines):
        store.add(line)
    return store


def test_a_run_is_solved_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    store = _store(path, {"kind": "machine", "aside": None, **RUN}, {"kind": "result", "right": False, **RUN})
    before = path.read_bytes()
    for line in ({"kind": "result", "right": True, **RUN}, {"kind": "machine", "aside": None, **RUN}):
        with pytest.raises(StoreError, match="solved once"):
            store.add(line)
    assert path.read_bytes() == before
    store.add({"kind": "again", "right": True, **RUN})
    assert path.read_bytes().startswith(before)
    assert [line["right"] for line in Store(path).of("result")] == [False]


def test_nothing_is_solved_before_the_machine_was_judged(tmp_path: Path) -> None:
    store = _store(tmp_path / "results.jsonl")
    with pytest.raises(StoreError, match="before it is solved"):
        store.add({"kind": "result", "right": True, **RUN})
    store.add({"kind": "machine", "aside": "others had 1.2 CPUs", **RUN})
    with pytest.raises(StoreError, match="before it is solved"):
        store.add({"kind": "result", "right": True, **RUN})
    store.add({"kind": "machine", "aside": None, **RUN})
    # It was kept: it cannot be set aside now, after a look at it.
    with pytest.raises(StoreError, match="solved as it is"):
        store.add({"kind": "machine", "aside": "others had 1.2 CPUs", **RUN})
    store.add({"kind": "result", "right": True, **RUN})


def test_a_file_that_was_changed_by_hand_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    _store(path, {"kind": "machine", "aside": None, **RUN}, {"kind": "result", "right": False, **RUN})
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, json.dumps({"kind": "result", "right": True, **RUN})]))
    with pytest.raises(StoreError, match="line 4"):
        Store(path)
    path.write_text("\n".join([*lines[:-1], lines[-1][:20]]))
    with pytest.raises(StoreError, match=r"line 3: expected JSON"):
        Store(path)


@pytest.mark.parametrize("seed", range(20))
def test_a_drawn_rate_is_one_that_the_slow_disk_takes(seed: int) -> None:
    (fault,) = [fault for fault in FAULTS if fault.name == "write-rate"]
    (word,) = fault.disk(fault.draw(random.Random(seed)))
    assert re.fullmatch(r"write throttle \d+B/s", word), word


def test_what_is_on_is_off_at_the_end_and_what_touched_nobody_was_not_done() -> None:
    on: list[str] = []

    def acted(touched: int) -> list[Injection]:
        @contextmanager
        def stretch() -> Iterator[Callable[[], int]]:
            on.append("on")
            try:
                yield lambda: touched
            finally:
                on.remove("on")

        done: list[Injection] = []
        ended = threading.Event()
        scene = Scene(PROGRAMS["sqlite"], Path("/dev/null"), 0, None, Path("/"))
        arguments = (scene, {"length_ms": 30, "every_s": 0.01}, random.Random(1), None, ended, done)
        thread = threading.Thread(
            target=while_it_lasts(lambda *_: contextlib.nullcontext(stretch)), args=arguments
        )
        thread.start()
        while touched and not done:
            ended.wait(0.01)
        ended.set()
        thread.join()
        return done

    assert all(each.end_ns > each.start_ns for each in acted(1))
    assert acted(0) == []
    assert on == []


def test_windows_bound_what_is_done() -> None:
    assert open_until([(10, 20), (30, 40)], 25) is None
    assert open_until([(10, 20), (30, 40)], 35) == 40
    assert (open_until(None, 5) or 0) > 10**18


def test_windows_get_the_dose_that_a_run_without_windows_gets(tmp_path: Path) -> None:
    scene = Scene(PROGRAMS["sqlite"], Path("/dev/null"), 0, None, tmp_path)

    def share(seed: int, windows: list[tuple[int, int]] | None) -> float:
        act = while_it_lasts(lambda *_: contextlib.nullcontext(lambda: contextlib.nullcontext(lambda: 1)))
        done: list[Injection] = []
        ended = threading.Event()
        arguments = (scene, {"length_ms": 30, "every_s": 0.2}, random.Random(seed), windows, ended, done)
        thread = threading.Thread(target=act, args=arguments)
        begin = time.monotonic()
        thread.start()
        ended.wait(1)
        ended.set()
        thread.join()
        return sum(each.end_ns - each.start_ns for each in done) / 1e9 / (time.monotonic() - begin)

    everything = [(0, time.monotonic_ns() + 10**11)]
    # The same chances, so the same pauses and lengths: only what the machine does between them differs.
    within, without = share(1, everything), share(1, None)
    assert within < 2 * without < 4 * within


def test_processes_are_those_of_the_program_only() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            program = replace(PROGRAMS["sqlite"], worker="sleep")
            scene = Scene(program, Path("/dev/null"), 0, None, Path("/"))
            # The name comes with the program, a moment after the process.
            while child.pid not in workers(scene):
                time.sleep(0.01)
            assert 1 not in [pid for pid, _ in processes(scene)]
        finally:
            child.kill()
