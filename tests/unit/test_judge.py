"""The query by which the accuracy table believes that a device really paused."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tests.accuracy.judge import device_stalls, judge, short_stalls
from tests.accuracy.referee.machine import Machine
from tests.accuracy.scenarios import ROWS, About, Solved

SLOTS = 8
SERVICE_NS = 100_000
LATE_NS = 2_000_000
REQUESTS = 4_000


def _case(place: Path, every: int, together: bool) -> Path:
    """A closed loop of eight slots. One in `every` requests takes longer: it alone, or with all that is in flight."""
    service_ns = SERVICE_NS * np.random.default_rng(1).uniform(0.5, 1.5, (SLOTS, REQUESTS // SLOTS))
    late = (np.arange(REQUESTS) % every == every // 2).reshape(SLOTS, -1)
    if not together:
        service_ns[late] += LATE_NS
    end = service_ns.cumsum(axis=1)
    start = end - service_ns
    if together:
        # Time stands still at these moments.
        moments = np.sort((start + 0.5 * service_ns)[late])
        start = start + LATE_NS * np.searchsorted(moments, start)
        end = end + LATE_NS * np.searchsorted(moments, end)
    folder = place / "ops" / "layer=block"
    folder.mkdir(parents=True)
    start_ns, end_ns = (times.ravel().astype(np.int64) for times in (start, end))
    columns = {"start_ns": start_ns, "latency_ns": end_ns - start_ns}
    connection = duckdb.connect()
    connection.register("ops", columns)
    connection.execute(f"COPY (SELECT 'sda' AS device, * FROM ops) TO '{folder}/part-0.parquet'")
    return place


def test_pauses_of_the_whole_device_are_seen(tmp_path: Path) -> None:
    case = _case(tmp_path, 200, together=True)
    assert device_stalls(case) == []
    ((device, silent_ns, silences),) = short_stalls(case)
    assert device == "sda"
    assert abs(silent_ns - LATE_NS) < SERVICE_NS
    # Two that lie between the same two completions are one.
    assert 15 <= silences <= REQUESTS // 200


def test_late_requests_beside_others_are_no_pause(tmp_path: Path) -> None:
    assert short_stalls(_case(tmp_path, 200, together=False)) == []


def test_few_pauses_confirm_nothing(tmp_path: Path) -> None:
    assert short_stalls(_case(tmp_path, 1000, together=True)) == []


# -- the judge of our own faults

S, MS = 1_000_000_000, 1_000_000
ZERO_NS = 5_000 * S


def _solved(place: Path, status: str, *culprits: tuple[str, str, str | None], seen: bool) -> Solved:
    """A run whose case tells three stalls of vda, which a second tracer saw or not; the program's own log shows them."""
    latency_ns = np.full(1000, 100_000)
    latency_ns[100:103] = 30 * MS
    columns = {"start_ns": np.arange(1000) * 100 * MS, "latency_ns": latency_ns}
    connection = duckdb.connect()
    connection.register("ops", columns)
    for layer in ("block", "app"):
        folder = place / "run.case" / "ops" / f"layer={layer}"
        folder.mkdir(parents=True)
        connection.execute(
            "COPY (SELECT 'vda' AS device, 'read' AS op, false AS open, start_ns, latency_ns, latency_ns AS device_ns, "
            f"0::BIGINT AS interrupt_ns FROM ops) TO '{folder}/part-0.parquet'"
        )
    (place / "run.case" / "case.json").write_text(json.dumps({"clock": {"start_ns": ZERO_NS}}))
    traced = latency_ns if seen else np.full(1000, 100_000)
    requests = [
        ["vda", ZERO_NS + int(s), int(n), "R"] for s, n in zip(columns["start_ns"], traced, strict=True)
    ]
    (place / "records.json").write_text(json.dumps({"machine": Machine().to_json(), "requests": requests}))
    share = float(3 * 30 * MS / latency_ns.sum())
    findings = [
        {"detector": "", "culprit": {"kind": k, "name": n, "because_of": b}, "share_of_latency": share}
        for k, n, b in culprits
    ]
    about = About("loop3", 0, 0.0, 0.0, "c", "2026-11-23T00:00:00Z")
    return Solved(place / "run.case", about, {"status": status, "findings": findings, "limit": None})


VDA, LOOP = ("stage", "device", "device:vda"), ("stage", "device", "device:loop3")
HEALTHY = next(row for row in ROWS if row.name == "healthy/disk")
TAIL = next(row for row in ROWS if row.name == "tail/disk")


def test_a_finding_that_a_second_tracer_confirms_is_excused_and_listed(tmp_path: Path) -> None:
    judged = judge(HEALTHY, _solved(tmp_path, "slow", VDA, seen=True))
    assert judged.right, judged
    assert len(judged.excuses) == 1
    assert "second tracer: 3 requests of vda, 90 ms" in judged.excuses[0]


def test_a_stall_that_only_the_recorder_saw_is_no_excuse(tmp_path: Path) -> None:
    judged = judge(HEALTHY, _solved(tmp_path, "slow", VDA, seen=False))
    assert (judged.right, judged.wrong, judged.excuses) == (False, ["stage device (device:vda)"], [])


def test_a_wrong_finding_below_the_right_one_spoils_the_verdict(tmp_path: Path) -> None:
    judged = judge(TAIL, _solved(tmp_path, "slow", LOOP, ("process", "rsync", None), seen=True))
    assert (judged.first_right, judged.right, judged.wrong) == (True, False, ["process rsync (-)"])


@pytest.mark.parametrize(
    ("status", "right"), [("slow", True), ("outliers", True), ("limited", False), ("insufficient", False)]
)
def test_the_status_is_judged(tmp_path: Path, status: str, right: bool) -> None:
    judged = judge(TAIL, _solved(tmp_path, status, LOOP, seen=True))
    assert (judged.right, judged.status_right) == (right, right)


def test_a_healthy_run_with_stalls_in_its_own_log_has_outliers(tmp_path: Path) -> None:
    assert not judge(HEALTHY, _solved(tmp_path / "a", "healthy", seen=True)).right
    # They cost 47 % of all latency.
    assert judge(HEALTHY, _solved(tmp_path / "b", "slow", seen=True)).status_right
