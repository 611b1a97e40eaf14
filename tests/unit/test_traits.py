"""The test of what chosen items share, and the fitted tail of its draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.synth import Simulation
from whodisk.detectors import over_represented
from whodisk.detectors.over_represented import strongest_at_device
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import find_slow, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import STAGES, Case
from whodisk.statistics.draws import drawn_p
from whodisk.statistics.traits import Items, Rules, Shared, strongest

RULES = Rules(rounds=499, attributable_min=0.5, count_min=4, same=0.9, beyond_min=3)


def items(traits: dict[str, object], excess: float, stratum: str = "read") -> Items:
    arrays = {name: np.asarray(values).astype(str) for name, values in traits.items()}
    count = len(next(iter(arrays.values())))
    return Items(arrays, np.full(count, stratum), np.full(count, excess))


def test_draws_are_counted_where_they_reach() -> None:
    drawn = np.arange(1999, dtype=np.float64)
    assert drawn_p(drawn, 1000.0) == pytest.approx(1000 / 2000)
    assert drawn_p(np.zeros(20), 5.0) == pytest.approx(1 / 21)


@pytest.mark.parametrize("shape", ["normal", "exponential", "gumbel"])
def test_a_fitted_tail_goes_on_and_is_not_too_thin(shape: str) -> None:
    rng = np.random.default_rng(7)
    # What is exceeded with a probability of 1e-5.
    value = {"normal": 4.265, "exponential": 11.513, "gumbel": 11.513}[shape]
    drawn = [drawn_p(getattr(rng, shape)(size=1999), value) for _ in range(50)]
    assert 1e-5 < float(np.median(drawn)) < 1e-3
    assert drawn_p(rng.normal(size=1999), 100.0) < 1e-5


def test_large_items_are_hit_in_proportion_to_their_time() -> None:
    rng = np.random.default_rng(8)
    size = rng.choice(["4096", "1048576"], 5_000, p=[0.9, 0.1])
    time = np.where(size == "4096", 1.0, 25.0)
    hit = rng.choice(5_000, 60, p=time / time.sum())
    usual, chosen = items({"size": size}, 1.0), items({"size": size[hit]}, 5.0)
    for rules in (RULES, Rules(499, 0.2, 4, 0.9, 3)):
        evenly = strongest(chosen, usual, [np.ones(5_000)], rules)
        fairly = strongest(chosen, usual, [np.ones(5_000), time], rules)
        assert evenly is not None and evenly.p_value < 0.002
        assert fairly is None or fairly.p_value > 0.05


def test_what_could_not_have_been_noticed_is_no_proof() -> None:
    rng = np.random.default_rng(9)
    size = rng.choice(["4096", "1048576"], 5_000)
    # A stall of 2 makes outliers of the small ones only.
    usual = Items({"size": size}, np.full(5_000, "read"), np.where(size == "4096", 1.0, 30.0))
    chosen = items({"size": ["4096"] * 40}, 2.0)
    assert strongest(chosen, usual, [np.ones(5_000)], RULES) is None
    far = items({"size": ["4096"] * 40}, 50.0)
    found = strongest(far, usual, [np.ones(5_000)], RULES)
    assert found is not None and found.values == ("4096",) and found.p_value < 0.001


def test_items_are_compared_with_their_kind() -> None:
    rng = np.random.default_rng(10)
    kind = rng.choice(["read", "write synced"], 4_000, p=[0.8, 0.2])
    usual = Items({"alignment": np.where(kind == "read", "4096", "512")}, kind, np.zeros(4_000))
    chosen = items({"alignment": ["512"] * 50}, 5.0, stratum="write synced")
    assert strongest(chosen, usual, [np.ones(4_000)], RULES) is None


def test_what_another_device_serves_is_no_proof() -> None:
    """A server's reads of 32 KiB; those that wait for another's request have no device and lose little. Programs load small pieces from another
    disk: only these need as little to be slow, so it looks as if the size did it."""
    device = np.repeat(["sdb", "", "vda"], [3_000, 3_000, 60])
    size = np.where(device == "vda", "4096", "32768")
    usual = Items(
        {"device": device, "size": size},
        np.full(len(size), "read"),
        np.where(device == "sdb", 10.0, np.where(device == "vda", 1.0, 0.1)),
    )
    there = np.where(device == "", 0.0, 1.0)
    slow_at = np.repeat(["sdb", ""], [40, 20])
    seen = Items(
        {"device": slow_at, "size": np.full(60, "32768")},
        np.full(60, "read"),
        np.where(slow_at == "sdb", 15.0, 5.0),
    )
    accused = strongest(seen, usual, [there], RULES)
    assert accused is not None and accused.traits == ("size",) and accused.p_value < 0.01
    assert strongest_at_device(seen, usual, [there], STAGES.index("device"), RULES) is None
    # Above the block layer nothing is a device's own.
    above = strongest_at_device(seen, usual, [there], STAGES.index("fs"), RULES)
    assert above is not None and above.p_value == accused.p_value


def test_what_has_no_value_is_neither_among_the_slow_nor_among_the_others() -> None:
    """One write in three makes a request, and the device has one queue, or two: a slow write has a request, which says nothing of its queue."""
    rng = np.random.default_rng(13)
    requests = rng.random(6_000) < 0.35
    chosen = np.concatenate((rng.choice(np.flatnonzero(requests), 44), np.flatnonzero(~requests)[:6]))
    for queues, accused in (
        (np.zeros(6_000, np.int64), None),
        (rng.integers(0, 2, 6_000), None),
        (np.where(np.isin(np.arange(6_000), chosen), 0, rng.integers(0, 2, 6_000)), ("hardware queue",)),
    ):
        queue = np.where(requests, queues.astype(str), "")
        usual = items({"hardware queue": queue}, 1.0)
        seen = items({"hardware queue": queue[chosen]}, 5.0)
        found = strongest(seen, usual, [np.ones(6_000)], RULES)
        told = found is not None and found.p_value < 0.01
        assert (found.traits if found is not None and told else None) == accused
    assert found is not None and found.share == pytest.approx(44 / 50)
    assert found.chance == pytest.approx(22 / 50, abs=0.03)


def test_a_trait_that_few_have_a_value_of_is_found_by_chance_as_seldom_as_any() -> None:
    rng = np.random.default_rng(14)
    told = 0
    rules = Rules(199, 0.1, 4, 0.9, 3)
    for _ in range(60):
        known = rng.random(2_000) < 0.3
        queue = np.where(known, rng.integers(0, 4, 2_000).astype(str), "")
        size = rng.integers(0, 3, 2_000).astype(str)
        chosen = rng.choice(2_000, 40)
        usual = items({"queue": queue, "size": size}, 1.0)
        seen = items({"queue": queue[chosen], "size": size[chosen]}, 5.0)
        found = strongest(seen, usual, [np.ones(2_000)], rules)
        told += found is not None and found.p_value < 0.05
    assert told <= 7


@pytest.mark.parametrize(("queues", "expected"), [(1, {""}), (2, {"", "0", "1"})])
def test_the_only_queue_of_a_device_is_no_trait(tmp_path: Path, queues: int, expected: set[str]) -> None:
    path = Simulation(seed=5, seconds=1.0).write(tmp_path / "case")
    file = path / "ops/layer=block/part-0.parquet"
    table = pq.read_table(file, partitioning=None)
    number = np.arange(table.num_rows)
    # Every third request joined another one, and was not issued itself.
    queue = pa.array((number % queues).astype(np.int32), mask=number % 3 == 0)
    pq.write_table(table.set_column(table.schema.get_field_index("hctx"), "hctx", queue), file)
    with Case(path) as case:
        survey = survey_layer(case, "block")
        rows = case.arrays(over_represented.traits_sql(survey, "judged", np.zeros(1, np.int64), False, 1e12))
    assert set(rows["hardware_queue"].astype(str)) == expected


def test_a_part_of_the_time_accuses_no_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a few slow episodes lie close together their thread was on one CPU: that is no reason."""
    path = (
        Simulation(seed=5, seconds=1.0)
        .stall("device", [0.1, 0.3, 0.5, 0.6, 0.7, 0.8], 20.0)
        .write(tmp_path / "case")
    )

    assert accused(path, monkeypatch, {"submitting cpu": "1"}) == ["config"]
    assert accused(path, monkeypatch, {"submitting cpu": "1", "time": "1"}) == []


@pytest.mark.parametrize(("each", "expected"), [(1, []), (2, ["vector"])])
def test_the_only_vector_of_a_device_is_that_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: int, expected: list[str]
) -> None:
    """All that a device does has it in common. One of two vectors of a device is another matter."""
    devices = ("nvme0n1", "nvme1n1", "nvme2n1")
    path = (
        Simulation(seed=5, seconds=1.0, devices=devices)
        .stall("device", [0.1, 0.3, 0.5, 0.6, 0.7, 0.8], 20.0)
        .write(tmp_path / "case")
    )
    file = path / "ops/layer=block/part-0.parquet"
    table = pq.read_table(file, partitioning=None)
    number = np.array([devices.index(name) for name in table["device"].to_pylist()])
    vector = pa.array((40 + each * number + np.arange(len(number)) % each).astype(np.int32))
    pq.write_table(table.set_column(table.schema.get_field_index("vector"), "vector", vector), file)
    assert accused(path, monkeypatch, {"vector": "42"}) == expected


def accused(path: Path, monkeypatch: pytest.MonkeyPatch, traits: dict[str, str]) -> list[str]:
    """Kinds of what is accused where the slow episodes have these traits in common."""
    has = np.ones(6, np.bool_)
    found = Shared(tuple(traits), tuple(traits.values()), 0.9, 0.1, 9.0, 1e-6, has)
    monkeypatch.setattr(over_represented, "strongest_at_device", lambda *_: found)
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in case.layers}
        slow = find_slow(case, surveys["app"])
        context = Context(case, surveys, "app", slow, none_of(slow))
        return [c.culprit.kind for c in over_represented.run(context).candidates]


@pytest.mark.parametrize(("threads", "holds"), [(40, False), (1, True)])
def test_a_thread_of_a_moment_is_compared_with_what_else_ran_then(threads: int, holds: bool) -> None:
    """Forty threads, one after the other; what was slow fell into the time of the first. With one other thread beside it throughout, that one is alike."""
    rng = np.random.default_rng(12)
    count = 4_000
    start = np.sort(rng.integers(0, 1_000_000, count))
    thread = (start * threads // 1_000_000 if threads > 1 else rng.integers(0, 8, count)).astype(str)
    usual = items({"thread": thread}, excess=1.0)
    mine = np.flatnonzero(thread == "0")
    chosen = np.sort(rng.choice(mine, 12, replace=False))
    seen = items({"thread": thread[chosen]}, excess=1.0)
    found = strongest(seen, usual, [np.ones(count)], RULES)
    assert found is not None and found.p_value < 0.01
    begins = (start[chosen].astype(np.int64), start.astype(np.int64))
    assert over_represented.holds_while_there(seen, usual, [np.ones(count)], begins, found, RULES) == holds


@pytest.mark.parametrize(("stints", "is_one"), [(2, True), (60, False)])
def test_a_thread_that_moved_once_is_one_coincidence(stints: int, is_one: bool) -> None:
    """A thread was on CPU 1 for its first half, in which all that was slow lies: that is no reason. Had it come and gone thirty times, at no pace, it would be one."""
    count = 6_000
    start = np.arange(count, dtype=np.int64) * 1_000
    moves = np.sort(np.random.default_rng(8).integers(0, count, stints - 1)) if stints > 2 else [count // 2]
    cpu = (1 - np.searchsorted(moves, np.arange(count), side="right") % 2).astype(str)
    usual = items({"submitting cpu": cpu}, excess=1.0)
    chosen = np.flatnonzero(cpu == "1")[:: int((cpu == "1").sum()) // 30]
    found = Shared(("submitting cpu",), ("1",), 1.0, 0.5, 2.0, 1e-6, np.ones(len(chosen), np.bool_))
    p_value = over_represented.p_of_other_times(usual, (start[chosen], start), found)
    assert (p_value >= 0.002) is is_one, p_value
