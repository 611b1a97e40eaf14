"""Detectors change nothing; who explains what is decided in one place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.synth import Simulation
from whodisk.detectors.base import Candidate, Detector, Excuse, Result
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import find_slow, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.time_lost import lost_values_sql
from whodisk.findings import Culprit, Effect, Verdict
from whodisk.reading.views import Case
from whodisk.report import brief
from whodisk.verdict import adjudicate
from whodisk.verdict.solve import _headline


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Half a second of a drive with a tail."""
    path = Simulation(seed=4, seconds=0.5).tail("device", 0.003, 20).write(tmp_path / "case")
    case = Case(path)
    surveys = {layer: survey_layer(case, layer) for layer in case.layers}
    slow = find_slow(case, surveys["app"])
    assert len(slow)
    return Context(case, surveys, "app", slow, none_of(slow))


def detector(name: str, run: object, needs: tuple[str, ...] = ()) -> Detector:
    return Detector(name, needs, (), "", "", run)  # type: ignore[arg-type]


def test_a_context_cannot_be_changed(context: Context) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.layer = "block"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        context.explained[0] = True


def test_what_was_measured_is_shared_by_later_contexts(context: Context) -> None:
    measured = context.sample
    later = context.after(~context.explained)
    assert later.sample is measured
    assert later.explained.all() and not context.explained.any()
    with pytest.raises(ValueError, match="read-only"):
        later.explained[0] = False


def test_what_one_excuses_the_next_one_knows(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def first(given: Context) -> Result:
        mask = none_of(given.slow)
        mask[0] = True
        return Result(excuses=[Excuse("the first one", mask)])

    def second(given: Context) -> Result:
        seen.append(int(given.explained.sum()))
        return Result(observed=["seen"], compared=["compared"])

    registry = (
        detector("first", first),
        detector("second", second),
        detector("third", second, ("no.column",)),
    )
    monkeypatch.setattr(adjudicate, "DETECTORS", registry)
    judged = adjudicate.adjudicate(context)
    assert seen == [1]
    assert judged.minor == ["seen", "compared"] and judged.compared == ["compared"]
    assert [(item.detector, item.columns) for item in judged.declined] == [("third", ("no.column",))]
    assert not judged.findings and not np.any(judged.explained)


def candidate(context: Context, name: str, p_value: float, chosen: slice, **changes: object) -> Candidate:
    mask = none_of(context.slow)
    mask[chosen] = True
    given: dict[str, object] = {
        "culprit": Culprit("process", name),
        "claim": f"{name}.",
        "baseline": "",
        "effect": Effect("part of all latency", 0.2, "1", 0.1, 0.3),
        "share_of_excess": 0.5,
        "share_of_latency": 0.2,
        "p_value": p_value,
        "episodes": 9,
        "evidence": [],
        "refute": "",
        "remedy": "",
        "otherwise": f"{name}.",
        "explains": mask,
        "large": True,
    }
    return Candidate(**{**given, **changes})  # type: ignore[arg-type]


def test_what_fails_correction_hides_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """At raw p it did, and so a claim that fell took the operations of the one that would have held."""
    seen: list[int] = []

    def first(given: Context) -> Result:
        return Result(candidates=[candidate(given, "falls", 0.005, slice(None))], tested=[0.9] * 8)

    def second(given: Context) -> Result:
        left = int((~given.explained).sum())
        seen.append(left)
        return Result(candidates=[candidate(given, "holds", 1e-9, slice(None))] if left else [])

    registry = (detector("first", first), detector("second", second))
    monkeypatch.setattr(adjudicate, "DETECTORS", registry)
    judged = adjudicate.adjudicate(context)
    assert seen == [0, len(context.slow)]
    assert [finding.culprit.name for finding in judged.findings] == ["holds"]


def test_tests_that_found_nothing_count(context: Context) -> None:
    claims = [("first", candidate(context, "weak", 0.004, slice(0, 3)))]
    assert len(adjudicate.correct(context, claims).accepted) == 1
    assert not adjudicate.correct(context, claims, tested=[0.5, 0.6]).accepted


@pytest.mark.parametrize(
    ("episodes", "left", "holds"), [(2, 0.033, False), (2, 0.09, True), (1, 0.0, True), (3, 0.04, True)]
)
def test_what_one_episode_made_large_has_nothing_in_common(
    context: Context, episodes: int, left: float, holds: bool
) -> None:
    """The first read of a log and five at one later moment were a slow device."""
    claim = candidate(context, "device", 1e-9, slice(0, 6), episodes=episodes, share_without_largest=left)
    corrected = adjudicate.correct(context, [("stage_blame", claim)])
    assert bool(corrected.accepted) is holds
    assert bool(corrected.explained.any()) is holds
    if not holds:
        assert corrected.by_chance is claim
        assert "too few to tell" in corrected.told[0]


@pytest.mark.parametrize(
    ("low", "p99_ms", "accepted"), [(0.0, 10.0, False), (0.01, 10.0, True), (0.0, 5.0, True)]
)
def test_what_may_cost_nothing_and_leaves_the_tail_as_it_is_accuses_nobody(
    context: Context, monkeypatch: pytest.MonkeyPatch, low: float, p99_ms: float, accepted: bool
) -> None:
    """A stage was accused of 0 to 10 % of all latency, with a 99th percentile of 11.2 ms with it and 11.1 without."""
    made = {"p99": {"with": 10.2e6, "without": p99_ms * 1e6}}
    effect = Effect("part of all latency", 0.051, "1", low, 0.103)
    left: list[int] = []

    def first(given: Context) -> Result:
        claim = candidate(
            given, "stage", 1e-9, slice(None), effect=effect, share_of_latency=0.051, worse=made
        )
        return Result(candidates=[claim])

    def second(given: Context) -> Result:
        left.append(int((~given.explained).sum()))
        return Result()

    monkeypatch.setattr(adjudicate, "DETECTORS", (detector("first", first), detector("second", second)))
    judged = adjudicate.adjudicate(context)
    assert bool(judged.findings) is accepted
    # What accuses nobody hides nothing from others.
    assert left[-1] == (0 if accepted else len(context.slow))
    assert accepted or "enough to accuse, but it varies too much over time" in judged.minor[0]


def test_what_was_measured_of_all_operations_needs_no_test(context: Context) -> None:
    measured = candidate(context, "seen", 0.0, slice(0, 3), basis="measured", summed=True)
    corrected = adjudicate.correct(context, [("first", measured)], tested=[0.9] * 50)
    [(_, finding)] = corrected.accepted
    assert finding.q_value is None and finding.basis == "measured"
    small = candidate(
        context, "seen", 0.0, slice(0, 3), basis="measured", summed=True, large=False, share_of_latency=0.03
    )
    corrected = adjudicate.correct(context, [("first", small)])
    assert not corrected.accepted and corrected.told == [
        "seen. That is 3 % of all latency, under the 5 % that accuse by themselves."
    ]


def test_sentences_do_not_contradict_themselves(context: Context) -> None:
    """`88.1 % of all latency, less than a finding needs`; `67.6 % of all latency, but 200 episodes may be chance`."""
    vague = candidate(context, "vague", 1e-9, slice(0, 3), large=False, share_of_latency=0.881)
    chance = candidate(context, "chance", 1.0, slice(0, 3), share_of_latency=0.676, episodes=200)
    told = " ".join(adjudicate.correct(context, [("a", vague), ("b", chance)]).told)
    assert "under the 5 %" not in told and "88.1 % of all latency, enough to accuse, but" in told
    assert "episodes may be chance" not in told and "67.6 % of all latency, large enough" in told


@pytest.mark.parametrize("present", [True, False])
def test_what_was_hardly_there_is_no_reason(context: Context, present: bool) -> None:
    """A neighbour that costs 3 % is the reason of what is accused only if it was there in most of it."""
    stage = candidate(context, "unused", 1e-9, slice(0, 10), culprit=Culprit("stage", "device"))
    mine = candidate(
        context,
        "python",
        1e-9,
        slice(0, 0),
        share_of_latency=0.03,
        large=False,
        causes=(("stage", "device"),),
    )
    mine.met = none_of(context.slow)
    mine.met[: 6 if present else 4] = True
    corrected = adjudicate.correct(context, [("presence", mine), ("stage_blame", stage)])
    accused = [finding.culprit.name for _, finding in corrected.accepted]
    assert accused == (["python", "device"] if present else ["device"])


@pytest.mark.parametrize(("share", "told"), [(0.03, True), (0.015, False)])
def test_a_trifle_beside_what_it_would_explain_is_no_reason(
    context: Context, share: float, told: bool
) -> None:
    """A drive took 6.6 times as long from some moment on, 34 % of all latency; a neighbour that cost 1.2 % was blamed for it (decision 0398)."""
    stage = candidate(
        context,
        "unused",
        1e-9,
        slice(0, 10),
        culprit=Culprit("stage", "device"),
        share_of_latency=0.34,
    )
    near = candidate(
        context,
        "logrotate",
        1e-9,
        slice(0, 0),
        share_of_latency=share,
        large=False,
        causes=(("stage", "device"),),
    )
    corrected = adjudicate.correct(context, [("neighbour", near), ("slower_since", stage)])
    accused = [finding.culprit.name for _, finding in corrected.accepted]
    assert accused == (["logrotate", "device"] if told else ["device"])


@pytest.mark.parametrize("apart", [True, False])
def test_what_costs_little_is_accused_of_what_stands_apart(
    context: Context, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    """A crowd on two CPUs has a heavy tail: that one in 3,000 spent 17 ms in the queue changes nothing for whoever waits (decisions 0368, 0388)."""
    monkeypatch.setattr(adjudicate, "is_slow", lambda _: False)
    slow = int(context.slow.latency_ns.argmax())
    longest = [(e, c) for e, c in context.longest if int(context.slow.op_id[slow]) in e.op_ids]
    assert longest, "the longest is among the slowest"
    monkeypatch.setitem(
        context.__dict__, "longest", [(dataclasses.replace(e, apart=apart), c) for e, c in longest]
    )
    small = {"share_of_latency": 0.024, "share_of_excess": 0.9}
    chosen = slice(slow, slow + 1)
    stage = candidate(context, "unused", 1e-9, chosen, culprit=Culprit("stage", "queue"), **small)
    corrected = adjudicate.correct(context, [("stage_blame", stage)])
    assert bool(corrected.accepted) is apart
    assert apart or "under the 5 % that accuse" in corrected.told[0]
    # Nor is it another matter if somebody is seen to do it.
    named = candidate(context, "sqlite", 1e-9, chosen, **small)
    assert bool(adjudicate.correct(context, [("submitter_gap", named)]).accepted) is apart


def test_the_last_resort_leaves_alone_what_measured_claims_account_for(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads that waited for a neighbour's requests were said to be slow for their size."""
    seen: list[tuple[str, int]] = []
    slow = context.slow
    half = np.arange(len(slow)) % 2 == 0

    def neighbour(given: Context) -> Result:
        lost_sql = lost_values_sql(slow.op_id[half], 0.6 * slow.excess_ns[half])
        changes = {"basis": "measured", "summed": True, "lost_sql": lost_sql}
        return Result(candidates=[candidate(given, "neighbour", 0.0, slice(0), **changes)])

    def looks(name: str) -> object:
        def run(given: Context) -> Result:
            seen.append((name, int(given.explained.sum())))
            return Result(candidates=[candidate(given, name, 1e-9, slice(0))])

        return run

    last = dataclasses.replace(detector("last", looks("last")), last_resort=True)
    monkeypatch.setattr(
        adjudicate, "DETECTORS", (detector("a", neighbour), last, detector("stage", looks("stage")))
    )
    adjudicate.adjudicate(context)
    assert seen == [("last", 0), ("last", int(half.sum())), ("stage", 0)]


@pytest.mark.parametrize(("share", "said"), [(0.42, True), (0.05, False)])
def test_a_limit_is_not_all_where_much_may_be_chance(
    context: Context, monkeypatch: pytest.MonkeyPatch, share: float, said: bool
) -> None:
    """ "Nothing is broken; queue depth 2 at 5 ms" was told where one read in 15 took 64 ms, 42 % of all latency."""
    claim = dataclasses.replace(candidate(context, "device", 0.2, slice(0, 6)), share_of_latency=share)
    registry = (
        detector("first", lambda _: Result(candidates=[claim])),
        detector("second", lambda _: Result(limit="queue depth 2", limited=True)),
    )
    monkeypatch.setattr(adjudicate, "DETECTORS", registry)
    judged = adjudicate.adjudicate(context)
    verdict = Verdict("case", "limited", [], {}, 10)
    first = _headline(verdict, judged)
    assert ("42 % of all latency is in slow operations" in first) is said, first
    assert ("Nothing is broken" in first) is not said, first
    assert (judged.by_chance_of in first) is said


@pytest.mark.parametrize(("status", "share"), [("insufficient", 0.56), ("healthy", 0.3)])
def test_what_may_be_chance_names_whom_and_leaves_room_for_what_sets_the_speed(
    context: Context, monkeypatch: pytest.MonkeyPatch, status: str, share: float
) -> None:
    """ "No verdict: 56.3 % of all latency" was all that was told of a server that storage held up for 11.5 % of the time at most."""
    claim = dataclasses.replace(candidate(context, "device", 0.2, slice(0, 6)), share_of_latency=share)
    limit = "storage for 11.5 % of the time at most"
    registry = (
        detector("first", lambda _: Result(candidates=[claim])),
        detector("second", lambda _: Result(limit=limit)),
    )
    monkeypatch.setattr(adjudicate, "DETECTORS", registry)
    judged = adjudicate.adjudicate(context)
    verdict = Verdict("case", status, [], {}, 10, limit=judged.limit)
    first = _headline(verdict, judged)
    assert judged.by_chance_of and f"({judged.by_chance_of})" in first
    verdict.summary.extend((first, "73 syncs: half within 6.65 ms, the slowest 416 ms."))
    screen = " ".join(" ".join(line.plain for line in brief.lines(verdict, 80)).split())
    assert f"What sets its speed: {limit}." in screen
