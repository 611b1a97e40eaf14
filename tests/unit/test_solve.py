"""The solver on synthetic cases: edges, honesty, determinism. Truth and look-alikes are in test_ground_truth."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ground_truth.cases import TRUTHS
from ground_truth.troubles import harmless_errors
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, SYSCALL_ID_BASE, Simulation, write_case
from whodisk.detectors.slow_groups import remedy_of
from whodisk.errors import CaseError, NotSealedError
from whodisk.evidence.thresholds import TAIL_KEPT_OPERATIONS_MIN
from whodisk.findings import Verdict
from whodisk.reading.views import STAGES, Case
from whodisk.report import brief
from whodisk.report.terminal import render
from whodisk.verdict.solve import _judged_layer, percentiles_of, solve


def small(seed: int = 1, **changes: Any) -> Simulation:
    given_changes = {"seconds": 1.0, "depth": 4, "typical_us": 300.0, **changes}
    return Simulation(seed=seed, **given_changes)


def app_columns(latency_ns: list[int] | npt.NDArray[np.int64], **changes: Any) -> dict[str, Any]:
    latency = np.asarray(latency_ns, np.int64)
    count = len(latency)
    return {
        "op_id": APP_ID_BASE | np.arange(count),
        "start_ns": np.arange(count) * 1000,
        "latency_ns": latency,
        "fs_ns": latency,
        "tid": 7,
        "queue_depth": 1,
        **changes,
    }


# -- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [True, False])
def test_a_claim_tells_a_paused_device_from_late_requests(tmp_path: Path, paused: bool) -> None:
    simulation = small(depth=8, seconds=4.0)
    if paused:
        simulation.stall("device", [0.3 + 0.37 * number for number in range(9)], 20.0)
    else:
        simulation.tail("device", 0.001, 20.0)
    (finding,) = solve(simulation.write(tmp_path / "case")).findings
    assert finding.culprit.because_of == "device:nvme0n1"
    assert ("nvme0n1 completed nothing else: it paused" in finding.claim) == paused
    assert ("nvme0n1 went on completing others" in finding.claim) != paused


# -- edges ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operations", "told"),
    [
        (5, []),
        (299, ["half"]),
        (2_999, ["half", "99 %"]),
        (29_999, ["half", "99 %", "99.9 %"]),
        (30_000, ["half", "99 %", "99.9 %", "99.99 %"]),
        (29_999_999, ["half", "99 %", "99.9 %", "99.9999 %"]),
        (30_000_000, ["half", "99 %", "99.9 %", "99.99999 %"]),
    ],
)
def test_percentiles_go_as_far_as_the_number_of_operations_allows(operations: int, told: list[str]) -> None:
    quantiles = percentiles_of(operations)
    assert [name for _, name in quantiles] == told
    for quantile, _ in quantiles:
        assert operations * (1 - quantile) > 2.99


@pytest.mark.parametrize("rows", [0, 1, 99])
def test_too_few_operations(tmp_path: Path, rows: int) -> None:
    case = write_case(tmp_path / "case", app=app_columns([1000] * rows))
    verdict = solve(case, expect=["p99<1ms"])
    assert verdict.status == "insufficient"
    assert verdict.next_steps
    assert verdict.expectations[0].met is None


def test_half_of_an_even_number_are_within_a_time_that_one_took(tmp_path: Path) -> None:
    """A throttled disk: its writes took 0.3 ms or 44 ms, and none 22 ms."""
    latency_ns = [300_000] * 7 + [44_000_000] * 7
    columns = {**app_columns(latency_ns), "op": ["write"] * len(latency_ns)}
    said = "\n".join(solve(write_case(tmp_path / "case", app=columns)).summary)
    assert "14 writes, half within 300 us;" in said


def test_few_operations_are_told_one_by_one(tmp_path: Path) -> None:
    columns = {
        "op_id": [APP_ID_BASE + index for index in range(4)],
        "start_ns": [index * 10**9 for index in range(4)],
        "latency_ns": [10**6, 2 * 10**6, 10**6, 3 * 10**9],
        "op": ["write"] * 4,
        "size_bytes": 4096,
        "device": "sda",
        "comm": "db",
        "error": [0, 0, 0, 5],
    }
    verdict = solve(write_case(tmp_path / "case", app=columns))
    assert verdict.status == "insufficient"
    assert verdict.summary[1:3] == [
        "4 writes, half within 1 ms; the slowest is a write of 4 KiB on sda by db: 3 s (at 3 s), failed with EIO.",
        "Then a write of 4 KiB on sda by db: 2 ms (at 1 s); a write of 4 KiB on sda by db: 1 ms (at 0 s).",
    ]
    one = solve(
        write_case(
            tmp_path / "one", app={name: [v[3]] if isinstance(v, list) else v for name, v in columns.items()}
        )
    )
    assert one.summary[1] == "It is a write of 4 KiB on sda by db: 3 s (at 3 s), failed with EIO."


def test_what_may_be_chance_is_not_passed_over(tmp_path: Path) -> None:
    """A tail without an end (Pareto, index 0.7): its largest make most of all latency."""
    latency = [int(50_000 * ((119 - index - 0.5) / 119) ** (-1 / 0.7)) for index in range(119)]
    order = np.random.default_rng(3).permutation(len(latency))
    verdict = solve(
        write_case(
            tmp_path / "case",
            block={
                "op_id": [BLOCK_ID_BASE + index for index in range(len(latency))],
                "start_ns": [index * 10**8 for index in range(len(latency))],
                "latency_ns": [latency[index] for index in order],
                "device_ns": [latency[index] for index in order],
                "op": "write",
                "device": "nvme0n1",
            },
        )
    )
    # It is not known to be broken; but what may have one cause and makes most of the time is no health.
    assert verdict.status == "insufficient" and not verdict.findings and not verdict.cleared
    assert verdict.summary[0].startswith("No verdict: 57.5 % of all latency is in slow operations")


@pytest.mark.parametrize(
    ("pid", "told"),
    [
        (1, "The command did no storage I/O: 5 reads, all from memory."),
        (
            7,
            "The command did next to no storage I/O: 5 reads, and 30 requests to disks; a verdict needs 100 operations.",
        ),
    ],
)
def test_a_command_that_did_nothing_is_told_so(tmp_path: Path, pid: int, told: str) -> None:
    """`record -- sleep 1`: counters were sampled, and there is nothing that they hide."""
    calls = {
        "op_id": list(range(34)),
        "start_ns": list(range(34)),
        "latency_ns": 900,
        "op": ["read"] * 5 + ["other"] * 29,
        "error": [0] * 21 + [2] * 13,
        "pid": 7,
    }
    requests = {
        "op_id": list(range(1000, 1030)),
        "start_ns": 5,
        "latency_ns": 9000,
        "pid": pid,
    }
    sample = {"time_ns": 1, "host": "h", "subject": "vda", "metric": "in_flight", "value": 0.0}
    case = write_case(
        tmp_path / "case",
        syscall=calls,
        block=requests,
        tables={"series": [sample]},
        meta={"command": ["sleep", "1"], "observer": "record"},
    )
    verdict = solve(case)
    assert verdict.status == "insufficient"
    assert verdict.summary[0] == f"No verdict. {told}"
    assert not any("sampled counters" in step for step in verdict.next_steps)


@pytest.mark.parametrize(
    ("call_ns", "slept_ns", "is_idle"),
    [(900_000, 0, True), (900_000, 600_000_000, False), (90_000_000, 0, False)],
)
def test_processes_that_did_next_to_nothing_are_told_so(
    tmp_path: Path, call_ns: int, slept_ns: int, is_idle: bool
) -> None:
    """`record --pid 4711` of a server that computed: "The case holds 18 operations", "record while the workload is running"."""
    calls = {
        "op_id": list(range(18)),
        "start_ns": [number * 500_000_000 for number in range(18)],
        "latency_ns": call_ns,
        "op": ["read"] * 16 + ["sync"] * 2,
        "pid": 7,
        "tid": 7,
        "comm": "server",
    }
    requests = {"op_id": list(range(1000, 1030)), "start_ns": 5, "latency_ns": 9000, "pid": 7}
    slept = {"tid": 7, "pid": 7, "comm": "server", "cpu": 0, "state": "blocked", "cause": "io"}
    case = write_case(
        tmp_path / "case",
        syscall=calls,
        block=requests,
        tables={"waits": [slept | {"start_ns": 10**9, "duration_ns": slept_ns}]} if slept_ns else {},
        meta={"scope": {"pids": [7]}, "observer": "record", "duration_ns": 10**10},
    )
    verdict = solve(case)
    assert verdict.status == "insufficient"
    told = "No verdict. The recorded processes did next to no storage I/O in 10 s: 16 reads and 2 syncs, and 30 requests to disks; they waited 0.16 % of the time"
    assert verdict.summary[0].startswith(told) is is_idle, verdict.summary[0]
    assert ("CPUs, locks" in verdict.next_steps[0]) is is_idle


def test_no_layer_at_all(tmp_path: Path) -> None:
    unseen = [{"what": "block requests", "because": "no privileges"}]
    case = write_case(tmp_path / "case", meta={"not_observed": unseen})
    verdict = solve(case)
    assert verdict.status == "insufficient"
    assert verdict.cannot_exclude[0].because == "no privileges"


@pytest.mark.parametrize("value", [0, 1, 1000, 2**62])
def test_equal_and_huge_latencies(tmp_path: Path, value: int) -> None:
    case = write_case(tmp_path / "case", app=app_columns([value] * 200))
    verdict = solve(case)
    assert verdict.status in ("limited", "healthy")
    assert verdict.to_json()


def test_everything_null(tmp_path: Path) -> None:
    columns = app_columns([1000] * 500, fs_ns=None, tid=None, queue_depth=None, op="other")
    verdict = solve(write_case(tmp_path / "case", app=columns))
    assert any("stage_blame declined" in line and "device_ns" in line for line in verdict.minor)
    assert verdict.where_time_goes["other"] == {"unknown": 1.0}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**62), st.integers(0, 2**60), st.booleans(), st.sampled_from(["read", "sync"])
        ),
        min_size=100,
        max_size=150,
    )
)
@settings(max_examples=10)
def test_any_numbers_give_a_verdict(tmp_path_factory: Any, rows: list[tuple[int, int, bool, str]]) -> None:
    latency = np.array([row[1] for row in rows], np.int64)
    columns = app_columns(
        latency,
        start_ns=np.array([row[0] for row in rows], np.int64),
        open=[row[2] for row in rows],
        op=[row[3] for row in rows],
    )
    case = write_case(tmp_path_factory.mktemp("any") / "case", app=columns)
    verdict = solve(case)
    assert Verdict.from_json(verdict.to_json()).to_json() == verdict.to_json()


def test_unsealed_newer_and_broken_cases_are_refused_in_words(tmp_path: Path) -> None:
    case = small().write(tmp_path / "case")
    meta = json.loads((case / "case.json").read_text())
    for change, kind, words in (
        ({"state": "recorded"}, NotSealedError, "seal"),
        ({"version": 99}, CaseError, "newer whodisk"),
        ({"format": "other"}, CaseError, "whodisk-case"),
    ):
        (case / "case.json").write_text(json.dumps({**meta, **change}))
        with pytest.raises(kind, match=words):
            solve(case)
    (case / "case.json").write_text("{")
    with pytest.raises(CaseError, match="JSON"):
        solve(case)
    with pytest.raises(CaseError, match="no such file"):
        solve(tmp_path / "nowhere")


def test_corrupt_parquet_is_refused_in_words(tmp_path: Path) -> None:
    case = small().write(tmp_path / "case")
    path = case / "ops/layer=app/part-0.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CaseError, match="whodisk seal"):
        solve(case)


# -- honesty ----------------------------------------------------------------------------------


def test_where_time_goes_sums_to_one(tmp_path: Path) -> None:
    verdict = solve(small(read_share=0.6).write(tmp_path / "case"))
    assert set(verdict.where_time_goes) == {"read", "write"}
    for shares in verdict.where_time_goes.values():
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-6)


def test_calls_are_judged_where_a_programs_own_log_has_too_few_operations() -> None:
    def survey(operations: int) -> Any:
        return SimpleNamespace(operations=operations, strata=[], latency_ns=1, stages_observed=("app",))

    few = {"app": survey(77), "block": survey(9000), "syscall": survey(9000)}
    assert _judged_layer(few, "dd") == "syscall"
    # Of an access specification the calls are not recorded for their own sake.
    assert _judged_layer(few, None) == "app"
    assert _judged_layer({**few, "app": survey(100)}, "dd") == "app"
    assert _judged_layer({**few, "syscall": survey(77)}, "dd") == "app"


def test_kinds_that_took_most_time_come_first(tmp_path: Path) -> None:
    case = small(read_share=0.2).write(tmp_path / "case")
    layer = f"'{case}/ops/layer=app/*.parquet'"
    by_time = f"SELECT op FROM {layer} GROUP BY op ORDER BY sum(latency_ns) DESC"
    order = [op for (op,) in duckdb.execute(by_time).fetchall()]
    assert order != sorted(order)
    assert [*solve(case).where_time_goes] == order


def test_losses_and_open_operations_reach_the_verdict(tmp_path: Path) -> None:
    simulation = small()
    app, block, links = simulation.lay_out()
    app["open"] = np.arange(len(app["op_id"])) == 5
    losses = [
        {"probe": "block", "start_ns": 12 * 10**9, "end_ns": 13 * 10**9, "lost": 42, "reason": "ring_full"}
    ]
    case = write_case(tmp_path / "case", app=app, block=block, links=links, losses=losses)
    reasons = [caveat.because for caveat in solve(case).cannot_exclude]
    assert any("42 events of block were lost between 12.0 s and 13.0 s" in text for text in reasons)
    assert any("1 operation had not ended" in text for text in reasons)


def test_an_operation_that_never_ended_counts_with_its_age(tmp_path: Path) -> None:
    simulation = small(depth=16).stall("device", [0.2, 0.5], 150)
    app, block, links = simulation.lay_out()
    app["open"] = app["latency_ns"] > 100_000_000
    verdict = solve(write_case(tmp_path / "case", app=app, block=block, links=links))
    assert verdict.status == "slow"
    assert verdict.findings[0].culprit.name == "device"


#: The larger one has enough operations for its tail to be kept: evidence is read from there.
@pytest.mark.parametrize(
    ("depth", "typical_us"), [(16, 300.0), pytest.param(64, 250.0, marks=pytest.mark.slow)]
)
def test_evidence_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, typical_us: float
) -> None:
    simulation = small(depth=depth, seconds=2.0, typical_us=typical_us).tail("device", 0.01, 20)
    case = simulation.stop(0, [0.5, 1.0, 1.4], 100).write(tmp_path / "case")
    verdict = solve(case)
    assert {finding.detector for finding in verdict.findings} == {"submitter_gap", "stage_blame"}
    assert (verdict.operations > TAIL_KEPT_OPERATIONS_MIN) == (depth == 64)
    assert _is_as_pasted(case, verdict, monkeypatch)


def test_evidence_of_bursts_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = TRUTHS["periodic_nobody"].build(0, tmp_path / "case")
    verdict = solve(case)
    assert "slowest moments" in verdict.to_json()
    assert _is_as_pasted(case, verdict, monkeypatch)


def _is_as_pasted(case: Path, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether all evidence has rows, and those that its query gives in DuckDB."""
    monkeypatch.chdir(case)
    evidence = [item for finding in verdict.findings for item in finding.evidence]
    pasted = [duckdb.connect().execute(item.query).fetchall() for item in evidence]
    shown = [[tuple(row.values()) for row in item.rows] for item in evidence]
    return shown == pasted and all(pasted)


def test_same_case_same_bytes(tmp_path: Path) -> None:
    case = small(depth=8).tail("device", 0.01, 20).write(tmp_path / "case")
    assert solve(case).to_json() == solve(case).to_json()


def test_merged_stages_keep_their_printed_name(tmp_path: Path) -> None:
    simulation = small().tail("device", 0.01, 20)
    app, _, _ = simulation.lay_out()
    below = sum(app.pop(f"{s}_ns") for s in ("queue", "device", "interrupt"))
    app["fs_ns"] = app["fs_ns"] + below
    merged = "fs+throttle+queue+device+interrupt"
    layers = {
        "app": {"rows": 1, "stages": {"fs_ns": merged, "app_ns": "app", "reap_ns": "reap"}, "join": "none"}
    }
    verdict = solve(write_case(tmp_path / "case", app=app, meta={"layers": layers}))
    assert verdict.findings[0].culprit.name == merged
    assert any("stopped submitter" in caveat.what for caveat in verdict.cannot_exclude)


def test_weights_count(tmp_path: Path) -> None:
    columns = app_columns([1000] * 900 + [1000] * 100, op=["read"] * 900 + ["write"] * 100)
    columns["weight"] = [1.0] * 900 + [9.0] * 100
    case = write_case(tmp_path / "case", app=columns)
    with Case(case) as opened:
        rows = opened.rows("SELECT op, n_weighted FROM stage_totals ORDER BY op")
    assert [row["n_weighted"] for row in rows] == [900.0, 900.0]


# -- comparing ---------------------------------------------------------------------------------


def test_a_constant_fault_needs_another_case(tmp_path: Path) -> None:
    good = small(1).write(tmp_path / "good")
    bad = small(2).tail("device", 1.0, 0.4).write(tmp_path / "bad")
    alone = solve(bad)
    assert alone.status == "limited"
    assert any("--against" in caveat.because for caveat in alone.cannot_exclude)
    compared = solve(bad, against=good)
    assert compared.status == "slow"
    finding = compared.findings[0]
    assert (finding.culprit.name, finding.effect.unit) == ("device", "x baseline")
    assert finding.effect.low is not None
    assert finding.effect.high is not None
    assert finding.effect.low <= finding.effect.value <= finding.effect.high
    assert 1.5 < finding.effect.value < 3.5


def with_layout(simulation: Simulation, path: Path, score: float) -> Path:
    """The case, of an array that measured its layout."""
    app, block, links = simulation.lay_out()
    measured = {
        "time_ns": 0,
        "kind": "layout",
        "subject": "array",
        "detail": f"layout score {score:g}, 30 at the end",
    }
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, events=[measured], meta=meta)


def test_the_layout_is_to_blame_if_the_array_says_that_it_changed(tmp_path: Path) -> None:
    good = with_layout(small(1), tmp_path / "good", 1.5)
    bad = with_layout(small(2).tail("device", 1.0, 0.4), tmp_path / "bad", 26.9)
    as_before = with_layout(small(2).tail("device", 1.0, 0.4), tmp_path / "as_before", 2)
    culprits = [solve(case, against=good).findings[0].culprit for case in (bad, as_before)]
    assert [(culprit.kind, culprit.name) for culprit in culprits] == [
        ("layout", "fragmentation"),
        ("stage", "device"),
    ]
    assert culprits[0].because_of == "layout score 26.9, not 1.5"
    assert any(caveat.what == "fragmentation of the array" for caveat in solve(bad).cannot_exclude)
    assert not any(caveat.what == "fragmentation of the array" for caveat in solve(as_before).cannot_exclude)


def test_equal_cases_do_not_differ(tmp_path: Path) -> None:
    first, second = small(1).write(tmp_path / "first"), small(2).write(tmp_path / "second")
    assert solve(first, against=second).status == "limited"


# -- terminal -----------------------------------------------------------------------------------


def test_terminal_prints_sentences_first_and_no_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulation = small(depth=8, devices=("[red]nvme0n1",)).tail("device", 0.02, 20)
    render(solve(simulation.write(tmp_path / "case")))
    text = capsys.readouterr().out
    assert text.startswith("SLOW")
    assert "[red]nvme0n1" in text
    assert text.index("Slow: ") < text.index("Where the time goes") < text.index("Evidence")


@pytest.mark.parametrize("width", [80, 100])
def test_the_first_screen_is_25_lines(tmp_path: Path, width: int) -> None:
    """With the two lines around it that `whodisk solve` prints; no line is wider than the screen, none comes twice."""
    simulation = small(depth=8, devices=("[red]nvme0n1", "nvme1n1")).tail("device", 0.02, 20)
    shown = [line.plain for line in brief.lines(solve(simulation.write(tmp_path / "case")), width)]
    assert len(shown) <= brief.LINES_MAX - 2
    assert max(map(len, shown)) <= width
    said = [line for line in shown if line]
    assert len(said) == len(set(said))
    assert shown[0].startswith("SLOW")
    bars = [line for line in shown if line.startswith(("slow ", "other "))]
    assert len(bars) == 2
    assert "d" * 20 in bars[0], "the slow operations lost their time in the device"
    for begin in ("Next: ", "Cleared: ", "Not excluded: "):
        assert sum(line.startswith(begin) for line in shown) == 1, begin


def test_what_was_expected_is_on_the_first_screen(tmp_path: Path) -> None:
    simulation = small(depth=8, devices=("nvme0n1", "nvme1n1")).tail("device", 0.02, 20)
    expected = ["max<3600s", "iops>1e9", "p99<1us", "mean<60s"]
    case = simulation.write(tmp_path / "case")
    shown = [line.plain for line in brief.lines(solve(case, expect=expected[:1]), 80)]
    assert sum(line.startswith("'max<3600s' is met: max of operations is ") for line in shown) == 1
    shown = [line.plain for line in brief.lines(solve(case, expect=expected), 80)]
    assert len(shown) <= brief.LINES_MAX - 2 and max(map(len, shown)) <= 80
    at = next(number for number, line in enumerate(shown) if line.startswith("'iops>1e9' is not met: "))
    assert shown[at + 1].startswith("'p99<1us' is not met: ")
    assert shown[at + 2] == "2 more expectations, with --all"


def test_what_a_log_holds_by_half_is_read_on_the_first_screen(tmp_path: Path) -> None:
    """Amazon's page D0: counters only, and no verdict. Which limit held operations, and for how long, is said in full, before what no counter shows."""
    limit = "the volume's IOPS limit, which held operations of volume for 3.1 s of 60 s"
    other = "the instance's throughput limit, which held operations of volume for 0.2 s of 60 s"
    sample = {
        "time_ns": 10**9,
        "kind": "device",
        "subject": "volume",
        "metric": "read_latency_ns",
        "value": 1e6,
    }
    meta = {
        "observer": "import",
        "not_observed": [{"what": what, "because": "it is a sum"} for what in (limit, other)],
        "not_carried": [{"what": "single operations", "because": "the page counts"}],
    }
    verdict = solve(write_case(tmp_path / "sampled", tables={"series": [sample]}, meta=meta))
    assert [caveat.what for caveat in verdict.cannot_exclude] == [
        limit,
        other,
        "a slow device",
        "single operations",
    ]
    shown = [line.plain for line in brief.lines(verdict, 80)]
    assert max(map(len, shown)) <= 80
    said = " ".join(shown)
    assert f"Not excluded: {limit}; {other}; a slow device; single operations" in said
    # Beside operations of another log it comes first, too.
    case = write_case(tmp_path / "both", app=app_columns([1000] * 500), meta=meta)
    whats = [caveat.what for caveat in solve(case).cannot_exclude]
    assert whats.index(limit) < whats.index("a fault that slows every operation alike")


def test_terminal_prints_every_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    render(solve(small().write(tmp_path / "limited")))
    render(solve(write_case(tmp_path / "none", app=app_columns([1, 2]))))
    text = capsys.readouterr().out
    assert "LIMITED" in text
    assert "INSUFFICIENT" in text


def test_stage_order_is_the_format(tmp_path: Path) -> None:
    with Case(small().write(tmp_path / "case")) as case:
        assert {f"{stage}_ns" for stage in STAGES} <= case.columns["ops/app"]


def test_errors_that_cost_nothing_are_no_all_clear(tmp_path: Path) -> None:
    """A device that reports errors is no healthy one, though nothing waited for them."""
    verdict = solve(harmless_errors(1, tmp_path / "errors.case"))
    assert not verdict.findings
    assert "nvme0n1 had 6 resets and 6 timeouts" in verdict.summary[0], verdict.summary
    assert "Nothing is broken" not in verdict.summary[0] and "Healthy" not in verdict.summary[0]
    assert any("dmesg" in step for step in verdict.next_steps)
    assert "device:nvme0n1" not in [item.what for item in verdict.cleared]


def test_operations_that_never_ended_make_no_verdict(tmp_path: Path) -> None:
    """A trace without its completions (files of some CPUs are missing): it was HEALTHY."""
    count = 4_000
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": np.arange(count) * 1_000_000,
        "latency_ns": np.full(count, 10**9),
        "op": ["read"] * count,
        "open": np.full(count, True),
        "tid": [1] * count,
        "device": ["sda"] * count,
    }
    meta = {"duration_ns": count * 1_000_000}
    verdict = solve(write_case(tmp_path / "open", app=app, meta=meta, devices=("sda",)))
    assert verdict.status == "insufficient"
    assert "no finished operation" in verdict.summary[0]


def test_other_imported_operations_are_not_passed_over(tmp_path: Path) -> None:
    """fio's log and strace's in one case: the verdict is of one of them."""
    app = app_columns([1000] * 200)
    calls = {
        **app_columns([900] * 50),
        "op_id": [SYSCALL_ID_BASE + index for index in range(50)],
        "op": "sync",
    }
    case = write_case(tmp_path / "case", app=app, syscall=calls, meta={"observer": "import"})
    caveats = [caveat.what for caveat in solve(case).cannot_exclude]
    assert "what is slow among 50 operations of layer syscall" in caveats


def test_the_host_is_cleared_only_where_the_device_had_most_of_the_time() -> None:
    assert remedy_of("device", "device", 0.95).endswith("; the host above it only waited.")
    assert remedy_of("device", "device", 0.5).endswith("host of a virtual disk).")
