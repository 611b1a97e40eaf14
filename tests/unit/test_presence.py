"""What the presence of somebody else costs: on average, and at the tail."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import APP_ID_BASE, write_case
from whodisk.detectors.candidates import of_presence
from whodisk.detectors.thresholds import Q_VALUE_MAX
from whodisk.evidence.context import Context
from whodisk.evidence.presence import compare, load_of, visits
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.findings import Culprit
from whodisk.reading.views import Case

COUNT, BINS, STEP_NS = 40_000, 40, 250_000
#: The bins of five visits, and how fast everything else is in each: two are in quick times.
VISITS = {4: 0.7, 11: 1.0, 19: 1.0, 26: 1.1, 35: 0.7}


def visited(path: Path, late_one_in: int) -> Path:
    """Operations of about 60 us; while somebody is there, one in so many takes 100 us longer."""
    rng = np.random.default_rng(8)
    number = np.arange(COUNT)
    at = number * BINS // COUNT
    usual = 60_000 * rng.lognormal(0.0, 0.2, COUNT)
    for place, factor in VISITS.items():
        usual[at == place] *= factor
    late = np.isin(at, list(VISITS)) & (number % late_one_in == 0)
    app = {
        "op_id": APP_ID_BASE | number,
        "start_ns": number * STEP_NS,
        "latency_ns": (usual + 100_000 * late).astype(np.int64),
        "tid": 11,
        "device": "nvme0n1",
    }
    return write_case(path, app=app, meta={"duration_ns": COUNT * STEP_NS})


def test_who_makes_a_tail_and_costs_little_on_average_is_found(tmp_path: Path) -> None:
    found = {}
    for late_one_in in (8, COUNT):
        with Case(visited(tmp_path / str(late_one_in), late_one_in)) as case:
            context = Context(
                case, {"app": survey_layer(case, "app")}, "app", empty_slow_set(), np.zeros(0, np.bool_)
            )
            presence = compare(context, load_of(context, BINS), np.isin(np.arange(BINS), list(VISITS)))
            if presence is None:
                continue
            found[late_one_in] = (
                presence,
                of_presence(
                    context,
                    presence,
                    culprit=Culprit("process", "fsyncs"),
                    what="fsyncs works",
                    baseline="",
                    evidence=[],
                    refute="",
                    remedy="",
                ),
            )
    presence, candidate = found[8]
    # Two of five visits cost nothing on average: no cost at all is within the interval.
    assert (presence.excess_ns == 0).any()
    assert (presence.late > 20).all()
    assert presence.p99_with_ns > 1.2 * presence.p99_without_ns
    assert candidate.large
    assert candidate.p_value < Q_VALUE_MAX
    assert COUNT not in found or not found[COUNT][1].large


def test_who_syncs_comes_as_often_as_it_writes() -> None:
    """A neighbour writes in bins 1, 4 and 8; the flushes of the first two go on until it writes again, or for two bins more."""
    came = np.isin(np.arange(10), (1, 4, 8))
    present = np.isin(np.arange(10), (1, 2, 3, 4, 5, 6, 8))
    begin, end = visits(present, came)
    assert (begin.tolist(), end.tolist()) == ([1, 4, 8], [4, 7, 9])
    assert [times.tolist() for times in visits(present, None)] == [[1, 8], [7, 9]]
