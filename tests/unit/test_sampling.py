"""A case thinned by a seeded sampler against the whole case: estimates within their error, slow operations all there."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synth import Simulation, write_case
from whodisk.findings import Verdict
from whodisk.reading.views import Case
from whodisk.reading.weighted_rows import FIRST_COPY
from whodisk.verdict.solve import solve

Columns = dict[str, Any]

# One case is solved for several tests.
pytestmark = pytest.mark.xdist_group("sampling")

#: Errors of estimates are held against so many standard errors: one of ten thousand draws is beyond.
ERRORS = 4.0
SAMPLING = {
    "cpu_budget": 0.03,
    "levels": [{"start_ns": 1_500_000_000, "one_in": 16, "cpu_share": 0.4}],
    "left_out": {},
    "calls_left_out": 0,
}


def chosen(columns: Columns, rows: Any) -> Columns:
    """Rows of a table."""
    return {
        name: np.asarray(value)[rows] if isinstance(value, (list, np.ndarray)) else value
        for name, value in columns.items()
    }


def thin(
    app: Columns, block: Columns, links: Columns, level: int, seed: int
) -> tuple[Columns, Columns, Columns]:
    """Keeps what the recorder would: slow operations with what they are linked to, and one of 2^level of the others."""
    limit_ns = 4 * np.median(app["latency_ns"])
    rows = {int(op): row for row, op in enumerate(app["op_id"])}
    parent = np.array([rows[int(op)] for op in links["parent_id"]])
    child_rows = {int(op): row for row, op in enumerate(block["op_id"])}
    child = np.array([child_rows[int(op)] for op in links["child_id"]])
    slow = app["latency_ns"] > limit_ns
    slow[parent] |= block["latency_ns"][child] > limit_ns
    drawn = np.random.default_rng(seed).random(len(slow)) < 2.0**-level
    kept = slow | drawn
    app = {**app, "weight": np.where(slow, 1.0, 2.0**level)}
    weight = np.ones(len(block["op_id"]))
    weight[child] = app["weight"][parent]
    block_kept = np.ones(len(weight), np.bool_)
    block_kept[child] = kept[parent]
    return chosen(app, kept), chosen({**block, "weight": weight}, block_kept), chosen(links, kept[parent])


def simulation(**keys: Any) -> Simulation:
    """Two seconds of reads; 1 of 200 takes 20 ms in the device."""
    return Simulation(**{"seed": 5, "depth": 8, "seconds": 2.0, "read_share": 0.7, **keys}).tail(
        "device", 0.005, 20
    )


WHOLE = simulation().lay_out()


def facts(path: Path) -> dict[str, float]:
    """What estimates are compared by."""
    with Case(path) as case:
        row = case.rows(
            """SELECT count(*) AS operations, count(DISTINCT op_id) AS ids, sum(size_bytes) AS bytes, sum(latency_ns) AS latency_ns,
  sum(device_ns) AS device_ns, count(CASE WHEN op = 'read' THEN 1 END) AS reads, quantile_cont(latency_ns, 0.5) AS p50,
  quantile_cont(latency_ns, 0.9) AS p90, quantile_cont(latency_ns, 0.999) AS p999
FROM measured WHERE layer = 'app'"""
        )[0]
        linked = case.rows(
            """SELECT count(*) AS n FROM links AS l JOIN app_ops AS a ON a.op_id = l.parent_id
JOIN block_ops AS b ON b.op_id = l.child_id"""
        )[0]
        rows = case.rows(f"SELECT count(*) AS n FROM app_ops{f' WHERE {FIRST_COPY}' if case.copied else ''}")[
            0
        ]
        return {
            name: float(value or 0)
            for name, value in {**row, "linked": linked["n"], "rows": rows["n"]}.items()
        }


@settings(max_examples=8, deadline=None)
@given(level=st.integers(1, 7), seed=st.integers(0, 2**32))
def test_estimates_are_within_their_error(level: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app, block, links = WHOLE
        whole = facts(write_case(Path(folder) / "whole", app=app, block=block, links=links))
        app, block, links = thin(app, block, links, level, seed)
        sampled = facts(
            write_case(Path(folder) / "thin", app=app, block=block, links=links, meta={"sampling": SAMPLING})
        )
    kept = len(app["op_id"])
    assert sampled["rows"] == kept and sampled["ids"] == sampled["operations"]
    # The number of typical ones is binomial.
    part = 2.0**-level
    error = ERRORS * math.sqrt((1 - part) / (part * whole["operations"]))
    for name in ("operations", "bytes", "reads", "latency_ns", "device_ns", "linked"):
        assert abs(sampled[name] / whole[name] - 1) <= 1.5 * error + 1e-9, (name, sampled[name], whole[name])
    # A quantile lies between those of ranks that are as far away as the error of a rank.
    values = np.sort(WHOLE[0]["latency_ns"])
    for name, rank in (("p50", 0.5), ("p90", 0.9)):
        width = ERRORS * math.sqrt(rank * (1 - rank) / (part * len(values)))
        low, high = np.quantile(values, [max(0.0, rank - width), min(1.0, rank + width)])
        assert low <= sampled[name] <= high, (name, low, sampled[name], high)
    # The tail is there as a whole: it moves only as the number of all does.
    low, high = np.quantile(values, [0.999 - 0.002 * error, min(1.0, 0.999 + 0.002 * error)])
    assert 0.99 * low <= sampled["p999"] <= 1.01 * high


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the case and its sample are."""
    return tmp_path_factory.mktemp("sampling")


@pytest.fixture(scope="module")
def verdicts(folder: Path) -> tuple[Verdict, Verdict]:
    """Of a case and of its sample, one of 16."""
    app, block, links = WHOLE
    whole = write_case(folder / "whole", app=app, block=block, links=links)
    app, block, links = thin(app, block, links, 4, 7)
    thinned = write_case(folder / "thin", app=app, block=block, links=links, meta={"sampling": SAMPLING})
    return solve(whole), solve(thinned)


def test_the_verdict_is_the_same_and_says_that_it_was_sampled(verdicts: tuple[Verdict, Verdict]) -> None:
    whole, sampled = verdicts
    assert sampled.status == whole.status == "slow"
    first, second = whole.findings[0], sampled.findings[0]
    assert second.culprit == first.culprit
    # Copies overlap in time: they are no further episodes, and no further evidence.
    assert second.episodes == first.episodes
    assert abs(second.share_of_latency / first.share_of_latency - 1) < 0.1
    assert abs(sampled.operations / whole.operations - 1) < 0.1
    caveat = next(caveat for caveat in sampled.cannot_exclude if "sample" in caveat.because)
    assert "1 in 16 from 1.5 s on" in caveat.because
    assert not any("sample" in caveat.because for caveat in whole.cannot_exclude)


def test_what_is_cleared_says_how_many_were_recorded(verdicts: tuple[Verdict, Verdict]) -> None:
    whole, sampled = verdicts
    full = {item.what: item for item in whole.cleared}
    for item in sampled.cleared:
        assert "(of about " in item.bound
        assert item.quantile < full[item.what].quantile, "fewer rows clear less"
    assert {item.what for item in sampled.cleared} >= {"stage:interrupt"}


def test_evidence_of_a_sample_can_be_pasted(
    folder: Path, verdicts: tuple[Verdict, Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sampled = verdicts
    monkeypatch.chdir(folder / "thin")
    for finding in sampled.findings:
        for evidence in finding.evidence:
            rows = duckdb.connect().execute(evidence.query).fetchall()
            assert [list(row.values()) for row in evidence.rows] == [list(row) for row in rows]


def test_without_weights_a_view_has_no_copies(tmp_path: Path) -> None:
    app, block, links = simulation().lay_out()
    with Case(
        write_case(tmp_path / "case", app=app, block=block, links=links, meta={"sampling": SAMPLING})
    ) as case:
        assert case.copied == frozenset()
        assert "copy" not in case.expand("SELECT count(*) FROM app_ops")


def test_a_healthy_sample_is_healthy(tmp_path: Path) -> None:
    app, block, links = Simulation(seed=9, depth=8, seconds=4.0).lay_out()
    app, block, links = thin(app, block, links, 4, 3)
    verdict = solve(
        write_case(tmp_path / "thin", app=app, block=block, links=links, meta={"sampling": SAMPLING})
    )
    assert verdict.status in ("healthy", "limited")
    assert not verdict.findings
