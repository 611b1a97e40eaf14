"""Layers that lost too much: nothing is concluded from them, and the verdict says so first."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, Simulation, write_case
from whodisk.reading.losses import LAYER_OF, ROW_IS_THERE, missing_layers
from whodisk.reading.thresholds import MISSING_SHARE_MAX, UNJUDGED_SHARE_MAX
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

DOC = Path(__file__).resolve().parents[2] / "docs/reference/case-format.md"


def a_slow_device() -> Simulation:
    """A case with a culprit that a solver must find where it may."""
    return Simulation(seed=1, seconds=0.7, depth=8, typical_us=300.0).tail("device", 0.01, 20)


def written(path: Path, *, lost: dict[tuple[str, str], int], app: bool = True) -> Path:
    columns, block, links = a_slow_device().lay_out()
    losses = [
        {"probe": probe, "start_ns": 10**8, "end_ns": 10**9, "lost": number, "reason": reason}
        for (probe, reason), number in lost.items()
    ]
    if not app:
        return write_case(path, block=block, losses=losses)
    return write_case(path, app=columns, block=block, links=links, losses=losses)


def requests(case: Path) -> int:
    with Case(case) as opened:
        return int(opened.meta["layers"]["block"]["rows"])


@pytest.mark.parametrize("app", [True, False])
def test_most_of_the_block_layer_lost_is_no_verdict(tmp_path: Path, app: bool) -> None:
    whole = solve(written(tmp_path / "whole", lost={}, app=app))
    assert whole.status == "slow"
    there = requests(tmp_path / "whole")
    lost = {("sched", "ring_full"): 5_000_000, ("block", "ring_full"): 9 * there}
    verdict = solve(written(tmp_path / "case", lost=lost, app=app))
    assert verdict.status == "insufficient"
    assert (verdict.findings, verdict.cleared, verdict.limit) == ([], [], None)
    first = verdict.cannot_exclude[0]
    assert "layer block" in first.what
    assert "(90 %) were lost (ring_full)" in first.because
    assert "(90 %)" in verdict.summary[0]
    assert any("of sched were lost" in caveat.because for caveat in verdict.cannot_exclude)


@pytest.mark.parametrize(("share", "judged"), [(0.02, True), (0.5, False)])
def test_a_log_that_lacks_ends_is_described(share: float, judged: bool, tmp_path: Path) -> None:
    """As of a block trace without the files of some CPUs: what ended there is told, and nothing concluded from it."""
    case = written(tmp_path / "case", lost={}, app=False)
    there = requests(case)
    file = case / "case.json"
    meta = json.loads(file.read_text())
    meta["layers"]["block"]["without_end"] = round(there * share / (1 - share))
    file.write_text(json.dumps(meta))
    verdict = solve(case)
    assert (verdict.status == "insufficient") is not judged
    assert "their end is not in the log" in verdict.cannot_exclude[0].because
    if not judged:
        assert verdict.findings == [] and "(50 %) were lost" in verdict.summary[0]
        assert (
            verdict.summary[1].startswith("Of those that ended: ")
            and "the slowest is a read" in verdict.summary[1]
        )
        assert verdict.next_steps[0].startswith("Import all that the tracer wrote")


def test_what_hangs_on_a_whole_layer_alone_is_judged(tmp_path: Path) -> None:
    case = written(tmp_path / "case", lost={("block", "write_failed: disk: No space left"): 10**6})
    verdict = solve(case, expect=["p99 < 1us", "p50 < 1s"])
    assert verdict.status == "insufficient"
    assert [expectation.met for expectation in verdict.expectations] == [False, True]
    assert verdict.check_failed
    assert "more room" in verdict.next_steps[0]
    alone = written(tmp_path / "alone", lost={("block", "ring_full"): 10**6}, app=False)
    assert [e.met for e in solve(alone, expect=["p99 < 1us"]).expectations] == [None]


def test_a_layer_that_nothing_hangs_on_is_left_out_and_told_first(tmp_path: Path) -> None:
    whole = solve(written(tmp_path / "whole", lost={}))
    verdict = solve(written(tmp_path / "case", lost={("syscall", "ring_full"): 1000}))
    assert verdict.status == "slow"
    assert [f.culprit for f in verdict.findings] == [f.culprit for f in whole.findings]
    assert "layer syscall" in verdict.cannot_exclude[0].what


def test_the_app_layer_lost_leaves_the_requests(tmp_path: Path) -> None:
    """A view of a layer that is left out has no rows, and the requests below it are judged by themselves."""
    case = written(tmp_path / "case", lost={("app/worker-000", "writer_behind"): 10**6})
    verdict = solve(case)
    assert verdict.status == "slow"
    assert verdict.operations == requests(case)
    assert "layer app" in verdict.cannot_exclude[0].what
    with Case(case) as opened:
        opened.leave_out(["app"])
        assert opened.layers == ("block",)
        counted = "SELECT count(*) AS n FROM ops UNION ALL SELECT count(*) FROM app_ops"
        assert [row["n"] for row in opened.rows(counted)] == [requests(case), 0]


def test_a_hundredth_is_the_limit(tmp_path: Path) -> None:
    written(tmp_path / "whole", lost={})
    there = requests(tmp_path / "whole")
    limit = int(there * MISSING_SHARE_MAX / (1 - MISSING_SHARE_MAX))
    for number, (lost, missing) in enumerate([(limit, 0), (limit + 1, 1)]):
        case = written(
            tmp_path / str(number), lost={("block", "ring_full"): lost, ("block", "merge_walk_cut"): 10**6}
        )
        with Case(case) as opened:
            assert len(missing_layers(opened)) == missing


def test_less_than_the_smallest_effect_lost_leaves_a_verdict(tmp_path: Path) -> None:
    whole = solve(written(tmp_path / "whole", lost={}))
    there = requests(tmp_path / "whole")
    few = solve(written(tmp_path / "few", lost={("block", "ring_full"): there // 30}))
    assert (few.status, [f.culprit for f in few.findings]) == (
        whole.status,
        [f.culprit for f in whole.findings],
    )
    assert few.cannot_exclude[0].what == "anything that only the missing operations of the layer block show"
    assert "3.2" in few.cannot_exclude[0].because
    beyond = int(there * UNJUDGED_SHARE_MAX / (1 - UNJUDGED_SHARE_MAX)) + 1
    assert solve(written(tmp_path / "many", lost={("block", "ring_full"): beyond})).status == "insufficient"


def test_the_lists_are_those_of_the_format() -> None:
    text = DOC.read_text(encoding="utf-8")

    def cells(mark: str) -> list[list[str]]:
        lines = text.split(f"<!-- losses: {mark} -->\n")[1].split("\n\n")[0].splitlines()[2:]
        return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]

    assert dict(cells("layers")) == LAYER_OF
    assert tuple(reason for reason, _ in cells("row is there")) == ROW_IS_THERE
    share = re.search(r"more than (\d+) % of a layer", text)
    assert share is not None and float(share[1]) / 100 == MISSING_SHARE_MAX


@pytest.mark.parametrize(("caller", "judged"), [(900, True), (901, False)])
def test_of_the_requests_of_others_nothing_is_concluded(caller: int, judged: bool, tmp_path: Path) -> None:
    """Calls of tar were lost, which made no request: a grep of somebody else was "what sets its speed"."""
    _, block, _ = a_slow_device().lay_out()
    block["pid"], block["comm"] = 900, "grep"
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(1000),
        "start_ns": np.arange(1000) * 500_000,
        "latency_ns": 5_000,
        "op": "write",
        "fs_ns": 5_000,
        "pid": caller,
        "tid": caller,
        "comm": "tar",
    }
    case = write_case(
        tmp_path / "case",
        syscall=calls,
        block=block,
        losses=[{"probe": "syscall", "start_ns": 0, "end_ns": 10**9, "lost": 200, "reason": "ring_full"}],
        meta={"observer": "record", "command": ["tar"], "command_pid": caller},
    )
    verdict = solve(case)
    assert (verdict.status == "slow") is judged
    assert (verdict.status == "insufficient") is not judged
    assert ("layer syscall" in verdict.summary[0]) is not judged
