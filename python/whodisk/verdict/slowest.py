"""The slowest episodes of a verdict, and when outliers are more than that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whodisk import words
from whodisk.detectors.thresholds import (
    SHARE_OF_LATENCY_MIN,
    SLOWEST_OP_IDS_MAX,
    SLOWEST_TOLD,
    USUAL_MAX,
    WORSE_MIN,
)
from whodisk.evidence.ahead import ahead_of
from whodisk.evidence.context import Context
from whodisk.evidence.fired import fired_of
from whodisk.evidence.slowest import Episode
from whodisk.evidence.surroundings import NOTHING, Cause
from whodisk.findings import Finding, Slowest
from whodisk.machine.wakers import other_program_then
from whodisk.reading.views import STAGES
from whodisk.statistics.standing_apart import MEDIAN_RATIO_MIN, NEXT_RATIO_MIN, has_tail
from whodisk.verdict.beside import beside_of

#: `Slowest.what` of an operation that is no longer than most of its kind.
USUAL_LENGTH = "as long as most of its kind"


def slowest_of(context: Context) -> list[Slowest]:
    """The slowest episodes of the judged layer: those that stand apart first, then the longest."""
    return [_told(context, episode, cause) for episode, cause in context.longest[:SLOWEST_TOLD]]


def _told(context: Context, episode: Episode, cause: Cause) -> Slowest:
    number, longest = STAGES.index(episode.stage), int(np.argmax(episode.stage_ns))
    # One that is no longer than most of its kind lost next to nothing, wherever that was: its time is in its longest stage.
    usual = number != longest and not episode.apart and episode.latency_ns < USUAL_MAX * episode.typical_ns
    said, certain = cause.said, cause.certain
    if cause is NOTHING and episode.stage == "queue":
        ahead = ahead_of(context, episode)
        said, certain = (said, certain) if ahead is None else (ahead.said, True)
    if cause.state == "blocked" and cause.certain:
        holder = other_program_then(context, episode.tid, episode.start_ns, episode.end_ns)
        if holder is not None:
            said = f"it waited for {holder.name}: {said}"
    if episode.stage == "device" and (cause is NOTHING or cause.state == "flush"):
        beside = beside_of(context, episode)
        if beside is not None and cause is NOTHING:
            said, certain = beside.said, beside.certain
        elif beside is not None and beside.certain:
            # How long a flush takes depends on what others write meanwhile.
            said = f"{said} {beside.said}"
    return Slowest(
        start_ns=episode.start_ns,
        latency_ns=episode.latency_ns,
        operations=len(episode.op_ids),
        op=episode.op,
        stage=context.stage(STAGES[longest] if usual else episode.stage),
        stage_ns=round(episode.stage_ns[longest if usual else number]),
        what=USUAL_LENGTH if usual else said,
        certain=usual or certain,
        apart=episode.apart,
        device=episode.device,
        op_ids=list(episode.op_ids[:SLOWEST_OP_IDS_MAX]),
    )


def undecided_of(context: Context) -> str:
    """A sentence on the longest operation, where it is far longer than all others of its kind of operation, and those like it are too few to say whether
    it stands apart; empty where none is. What would stand apart from nothing, however many were like it, leaves nothing open."""
    found = []
    by_op: dict[str, list[Episode]] = {}
    open_ones: set[int] = set()
    for episode, cause in sorted(context.longest, key=lambda each: -each[0].latency_ns):
        if not episode.silence:
            by_op.setdefault(episode.op, []).append(episode)
            # Of few, what is typical of them may be itself: all of its time is what it lost.
            lost = replace(episode, excess_ns=episode.stage_ns)
            if not (context.is_short_call(lost) or context.is_usual(lost, cause)):
                open_ones.add(id(episode))
    for op, (first, *others) in by_op.items():
        if (
            not others
            or id(first) not in open_ones
            or first.common
            or has_tail(first.kind.operations, first.kind.episodes)
        ):
            continue
        median_ns = context.survey.quantile_ns(context.survey.select(op=op), 0.5)
        next_ns = others[0].latency_ns
        if first.latency_ns >= max(NEXT_RATIO_MIN * next_ns, MEDIAN_RATIO_MIN * median_ns):
            found.append(
                (
                    first.latency_ns,
                    words.things(len(first.op_ids), op, words.plural_op(op)),
                    median_ns,
                    next_ns,
                )
            )
    if not found:
        return ""
    latency_ns, many, median_ns, next_ns = max(found)
    return (
        f"{many} took {words.duration(latency_ns)} where {words.duration(median_ns)} is typical and the next took {words.duration(next_ns)}; "
        "too few are of that kind and size to tell whether that stands apart"
    )


def fired_said(context: Context) -> list[str]:
    """What made a flight recorder write this case, the first one first, each operation in a sentence."""
    held = {
        (found.fired.start_ns, found.fired.tid): (found, episode, cause)
        for found, episode, cause in context.fired
    }
    said = []
    for fired in fired_of(context.case)[:SLOWEST_TOLD]:
        place = f" on {fired.device}" if fired.device else ""
        who = f" of {fired.comm}" if fired.comm else ""
        begin = f"What fired the trigger '{fired.trigger}', a {fired.op}{who}{place} at {fired.start_ns / 1e9:.3f} s, took {words.duration(fired.time_ns)}"
        if (fired.start_ns, fired.tid) not in held:
            # The longest of the operations that overlap stands for all.
            same = [
                f for f, episode, _ in context.fired if episode.start_ns <= fired.start_ns < episode.end_ns
            ]
            if not same:
                said.append(
                    f"{begin}. It is not among the recorded operations: nothing recorded explains it."
                )
            continue
        found, episode, cause = held[fired.start_ns, fired.tid]
        survey = context.surveys[found.layer]
        stage = context.case.stage_name(survey.layer, episode.stage)
        in_stage = words.duration(episode.stage_ns[STAGES.index(episode.stage)])
        why = cause.said if cause.certain else f"at the same time {cause.said}"
        if cause.state == "none":
            why = "nothing recorded explains it"
        above = (
            ""
            if found.layer == fired.layer
            else f", the {episode.op} that waited for it {words.duration(episode.latency_ns)}"
        )
        said.append(f"{begin}{above}; {in_stage} of that in the {stage} stage: {why}.")
    return said


def is_slow(finding: Finding) -> bool:
    """Whether a measured finding makes more than outliers."""
    if finding.share_of_latency >= SHARE_OF_LATENCY_MIN:
        return True
    return makes_worse(finding.worse)


def makes_worse(made: dict[str, dict[str, float]]) -> bool:
    """Whether what a claim makes worse (`Finding.worse`) is the 99th percentile or the throughput."""
    p99, throughput = made.get("p99"), made.get("throughput")
    slower = p99 is not None and p99["with"] >= (1 + WORSE_MIN) * p99["without"]
    fewer = throughput is not None and throughput["without"] >= (1 + WORSE_MIN) * throughput["with"]
    return slower or fewer
