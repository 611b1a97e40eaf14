"""Silences of a submitter that show only in what it did not take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ground_truth.cases import fixed_rate
from tests.unit.test_costs import context_of
from whodisk.detectors import submitter_gap
from whodisk.evidence.late_threads import untaken
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

STOPS, LENGTH_MS = 12, 40
MOMENTS = list(0.2 + 2.6 * (np.arange(STOPS) + 0.5) / STOPS)


def without_gaps(path: Path) -> Path:
    """A worker that stands still for 40 ms twelve times, each time with operations that are done and not taken: for the table of silences it has something in flight."""
    case = fixed_rate(3, path, per_second=12_000, stops=MOMENTS, length_ms=LENGTH_MS)
    [part] = (case / "gaps").glob("*.parquet")
    pq.write_table(pq.read_table(part).slice(0, 0), part)
    return case


def test_a_thread_that_takes_nothing_is_silent(tmp_path: Path) -> None:
    case = without_gaps(tmp_path / "case")
    quiet = fixed_rate(3, tmp_path / "quiet", per_second=12_000)
    with Case(case) as opened:
        found = untaken(context_of(opened), submitter_gap.SHORTEST_GAP_NS)
        [candidate] = submitter_gap.run(context_of(opened)).candidates
        late = opened.arrays("SELECT latency_ns FROM app_ops")["latency_ns"].astype(np.float64)
    with Case(quiet) as opened:
        usual = opened.arrays("SELECT latency_ns FROM app_ops")["latency_ns"].astype(np.float64)
        assert not len(untaken(context_of(opened), submitter_gap.SHORTEST_GAP_NS))
    begins = np.unique(np.round((found.end_ns / 1e9 - LENGTH_MS / 1e3), 4))
    assert begins == pytest.approx(MOMENTS, abs=0.002)
    assert candidate.episodes == STOPS
    # What was due meanwhile waited for it, and what stood behind.
    worse = np.quantile(late, 0.99) / np.quantile(usual, 0.99)
    assert candidate.p99_ratio == pytest.approx(worse, rel=0.2)
    first = solve(case).findings[0].culprit
    assert (first.kind, first.because_of) == ("process", "silence of the submitter, state unobserved")


def test_of_other_programs_nobody_knows_what_they_wait_for(tmp_path: Path) -> None:
    with Case(without_gaps(tmp_path / "case")) as opened:
        opened.meta["workload"] = None
        assert not len(untaken(context_of(opened), submitter_gap.SHORTEST_GAP_NS))
