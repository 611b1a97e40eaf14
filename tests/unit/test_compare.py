"""compare and gate on synthetic cases whose difference is known."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, Simulation, write_case
from whodisk.errors import CaseError, WhodiskError
from whodisk.experiment import gate as rules
from whodisk.experiment import metrics
from whodisk.experiment.comparison import (
    Comparison,
    Side,
    cautions,
    claim,
    compared,
    read_sides,
    sentence,
    sides_of,
    to_json,
)
from whodisk.findings import Verdict
from whodisk.report.comparison import lines


def case(path: Path, seed: int, factor: float = 1.0, **changes: Any) -> Path:
    """Reads in a closed loop; all stages take `factor` times as long."""
    simulation = Simulation(seed=seed, seconds=1.0, depth=4, typical_us=400.0 * factor)
    return simulation.write(path, **changes)


def side(folder: Path, seeds: range, factor: float = 1.0) -> Path:
    for seed in seeds:
        case(folder / f"{seed}.case", seed, factor)
    return folder


def of(*paths: Path, wanted: tuple[str, ...] = (), layer: str | None = None) -> Comparison:
    first, second = read_sides(sides_of(paths, lambda path: path), layer)
    return compared(first, second, wanted)


def test_a_slower_case_is_found_with_its_ratio(tmp_path: Path) -> None:
    comparison = of(side(tmp_path / "base", range(3)), side(tmp_path / "slow", range(3, 6), 1.25))
    ratio = comparison.primary
    assert (ratio.metric.name, comparison.these_runs_only) == ("iops", False)
    # Some parts of an operation do not depend on `typical_us`.
    assert ratio.low < 1 / 1.22 and ratio.high > 1 / 1.25 and ratio.high < 1 and comparison.called[0]
    assert "lower than that of base" in sentence(comparison) and "in these runs" not in sentence(comparison)
    headline = claim(comparison)
    assert headline.endswith("lower than that of base.") and sentence(comparison).startswith(
        headline[:-1] + ": "
    )
    by_name = {r.metric.name: r for r in comparison.ratios}
    assert by_name["p50"].ratio == pytest.approx(1.24, abs=0.02)
    assert by_name["p99.999"].missing.startswith("not estimable")
    assert len(lines(comparison)) <= 12


def test_syncs_are_compared_beside_writes(tmp_path: Path) -> None:
    """A database waits for its syncs: those of one side take ten times as long."""

    def synced(path: Path, sync_ns: int) -> Path:
        times = np.arange(2_000, dtype=np.int64) * 1_000_000
        kinds = np.where(np.arange(2_000) % 2, "sync", "write")
        took = np.where(kinds == "sync", sync_ns, 5_000) + np.arange(2_000) * 37 % 501
        rows = {"op_id": np.arange(2_000), "op": list(kinds), "start_ns": times, "latency_ns": took}
        return write_case(path, syscall={**rows, "size_bytes": 4096})

    comparison = of(synced(tmp_path / "fast", 100_000), synced(tmp_path / "late", 1_000_000))
    by_name = {r.metric.name: r for r in comparison.ratios}
    assert by_name["sync p50"].ratio == pytest.approx(10, rel=0.05)
    assert by_name["write p50"].ratio == pytest.approx(1, rel=0.05)
    assert any(line.startswith(" * sync p50 ") for line in lines(comparison))


def test_sides_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder in ("monday", "tuesday"):
        (tmp_path / folder).mkdir()
        case(tmp_path / folder / "run.case", 1)
    paths = [tmp_path / folder / "run.case" for folder in ("monday", "tuesday")]
    assert [name for name, _ in sides_of(paths, lambda path: path)] == ["monday/run.case", "tuesday/run.case"]


def test_the_same_is_no_difference_beyond_noise(tmp_path: Path) -> None:
    comparison = of(case(tmp_path / "a", 1), case(tmp_path / "b", 2))
    assert not any(comparison.called)
    assert claim(comparison) == "No difference beyond noise in these runs in throughput of b against a."
    said = sentence(comparison)
    assert said.startswith("No difference beyond noise in these runs") and "would have been seen" in said
    assert any("fewer than three runs" in text for text in cautions(comparison))


def test_the_json_holds_every_metric_and_what_stands_beside(tmp_path: Path) -> None:
    data = json.loads(
        to_json([of(case(tmp_path / "a", 1), case(tmp_path / "b", 2), wanted=("p99", "device"))])
    )
    (found,) = data["comparisons"]
    names = [row["metric"] for row in found["metrics"]]
    assert (
        names[:2] == ["p99", "device"]
        and {"iops", "bandwidth", "p50"} <= set(names)
        and len(names) == len(set(names))
    )
    assert found["first"]["in_flight"] == pytest.approx(8, rel=0.6)
    assert {"kernel", "seconds", "steady", "layer"} <= set(found["first"]["runs"][0])


def test_at_a_fixed_rate_the_99th_percentile_is_asked_about(tmp_path: Path) -> None:
    workload = {"spec": {"rate_per_s": 1000, "queue_depth": 4}}
    comparison = of(case(tmp_path / "a", 1, workload=workload), case(tmp_path / "b", 2, workload=workload))
    assert comparison.primary.metric.name == "p99"


def test_sides_of_different_layers_are_refused_by_name(tmp_path: Path) -> None:
    simulation = Simulation(seed=1, seconds=1.0)
    app, block = (
        simulation.write(tmp_path / "a", layers=("app",)),
        simulation.write(tmp_path / "b", layers=("block",)),
    )
    with pytest.raises(WhodiskError, match=r"a layer that all cases observed.*a: app; .*b: block"):
        of(app, block)
    with pytest.raises(CaseError, match="expected operations of layer device"):
        of(app, app, layer="device")
    with pytest.raises(WhodiskError, match="nothing there"):
        of(app, tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WhodiskError, match="found neither"):
        of(app, tmp_path / "empty")


def test_metrics_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WhodiskError, match="'latncy'"):
        metrics.metric("latncy")
    comparison = of(case(tmp_path / "a", 1), case(tmp_path / "b", 2), wanted=("prefetch accuracy",))
    assert comparison.primary.missing == "not observed"


# -- gate -------------------------------------------------------------------------------------


@cache
def read(path: Path) -> Side:
    return read_sides(sides_of([path], lambda found: found))[0]


def outcome(base: Path, new: Path, wanted: list[str], limit: str = "5%") -> list[rules.Check]:
    return rules.check_metrics(read(base), read(new), wanted, rules.limit_of(limit))[0]


def test_a_gate_passes_fails_and_does_not_know(tmp_path: Path) -> None:
    base = side(tmp_path / "base", range(3))
    same, slow = side(tmp_path / "same", range(4, 7)), side(tmp_path / "slow", range(8, 11), 1.3)
    assert outcome(base, slow, ["iops", "p50"])[0].outcome == rules.FAIL
    assert outcome(base, slow, ["p50"], "60%")[0].outcome == rules.PASS
    assert outcome(base, same, ["iops"], "30%")[0].outcome == rules.PASS
    assert outcome(slow, base, ["iops"], "1%")[0].outcome == rules.PASS, "better is never a regression"
    doubtful = outcome(base, same, ["iops"], "0%")[0]
    assert doubtful.outcome == rules.INCONCLUSIVE and "more runs would decide" in doubtful.sentence
    assert rules.Gate(0.05, [doubtful, *outcome(base, slow, ["iops"])]).outcome == rules.FAIL
    assert "in these runs" in outcome(base / "0.case", slow / "8.case", ["iops"])[0].sentence


def reads_through_a_cache(path: Path, seed: int, tail: bool, *, in_one_interval: bool = False) -> Path:
    """Reads of 1 MiB that wait for their last 256 KiB, or for nothing; a prefetcher that covers accordingly."""
    generator = np.random.default_rng(seed)
    count, mib = 400, 1 << 20
    latency = generator.integers(900_000, 1_100_000, count) + (5_000_000 if tail else 0)
    ids, start = APP_ID_BASE | np.arange(count), np.arange(count) * 10_000_000
    app = {
        "op_id": ids,
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": latency,
        "tid": 7,
        "queue_depth": 1,
    }
    app |= {"offset_bytes": np.arange(count) * mib, "size_bytes": np.full(count, mib)}
    cache: list[dict[str, Any]] = []
    prefetch: list[dict[str, Any]] = []
    for i in range(count):
        head = 3 * mib // 4 if tail else mib
        cache.append(
            {
                "op_id": int(ids[i]),
                "tier": "ram",
                "file": "f",
                "offset_bytes": i * mib,
                "size_bytes": head,
                "wait_ns": 0,
            }
        )
        if tail:
            cache.append(
                {
                    "op_id": int(ids[i]),
                    "tier": "disk",
                    "file": "f",
                    "offset_bytes": i * mib + head,
                    "size_bytes": mib - head,
                    "wait_ns": 5_000_000,
                }
            )
        prefetch.append(
            {
                "file": "f",
                "start_ns": int(start[i]),
                "duration_ns": 1,
                "issued_bytes": head,
                "used_bytes": head,
                "wasted_bytes": 0,
                "late_bytes": 0,
            }
            | {"missed_bytes": mib - head}
        )
    if in_one_interval:
        sizes = [key for key in prefetch[0] if key.endswith("_bytes")]
        before = {"file": "f", "start_ns": int(start[0]) - 5_000_000, "duration_ns": 1_000 * 1_000_000_000}
        prefetch = [before | {key: sum(row[key] for row in prefetch) for key in sizes}]
    return write_case(
        path, app=app, tables={"cache": cache, "prefetch": prefetch}, meta={"duration_ns": count * 10_000_000}
    )


def test_the_gate_that_would_have_caught_uncached_tails(tmp_path: Path) -> None:
    good, bad = (
        reads_through_a_cache(tmp_path / "good", 1, False),
        reads_through_a_cache(tmp_path / "bad", 2, True),
    )
    wanted = ["prefetch accuracy", "prefetch coverage", "tail misses", "tier ram"]
    checks = {check.what: check for check in outcome(good, bad, wanted)}
    assert {name: check.outcome for name, check in checks.items()} == {
        "prefetch accuracy": rules.PASS,
        "prefetch coverage": rules.FAIL,
        "tail misses": rules.FAIL,
        "tier ram": rules.FAIL,
    }
    assert "0 % -> 100 %" in checks["tail misses"].sentence
    assert [check.outcome for check in outcome(good, good, wanted)] == [rules.PASS] * 4


def test_an_interval_of_the_recorder_longer_than_the_run_counts(tmp_path: Path) -> None:
    good = reads_through_a_cache(tmp_path / "good", 1, False, in_one_interval=True)
    bad = reads_through_a_cache(tmp_path / "bad", 2, True, in_one_interval=True)
    (check,) = outcome(good, bad, ["prefetch coverage"])
    assert "100 % -> 75 %" in check.sentence


def test_a_finding_that_must_not_be_there(tmp_path: Path) -> None:
    def verdict(status: str) -> Verdict:
        return Verdict(case="x", status=status, summary=[], where_time_goes={}, operations=1)

    assert rules.split_metrics(["p99", "no uncached_tail"]) == (["p99"], ["uncached_tail"])
    (fine,) = rules.check_absent(["uncached_tail"], [tmp_path], lambda _path: verdict("healthy"))
    (blind,) = rules.check_absent(["uncached_tail"], [tmp_path], lambda _path: verdict("insufficient"))
    # A field tells it; what the caveat says in words decides nothing.
    warm = replace(verdict("healthy"), served_from="ram")
    (masked,) = rules.check_absent(["uncached_tail"], [tmp_path], lambda _path: warm)
    assert [check.outcome for check in (fine, blind, masked)] == [rules.PASS, *[rules.INCONCLUSIVE] * 2]
    assert "cannot show the disk" in masked.sentence
    with pytest.raises(WhodiskError, match="found none of this name"):
        rules.check_absent(["uncached_tails"], [], lambda _path: verdict("healthy"))


@pytest.mark.parametrize("text", ["5", "five", "-5%", ""])
def test_a_limit_without_its_unit_is_refused(text: str) -> None:
    with pytest.raises(WhodiskError, match="expected a part in percent"):
        rules.limit_of(text)
