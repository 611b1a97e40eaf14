"""Claims that several detectors make in the same way: of time lost in one way, and of something that comes and goes; and an excuse that several make."""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Excuse, Result
from whodisk.detectors.thresholds import P99_RATIO_MIN, SHARE_OF_LATENCY_FLOOR, SHARE_OF_LATENCY_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.presence import Presence
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.time_lost import TimeLost
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.statistics.stats import Bools, Ints, bootstrap_sum

#: Of something that comes and goes.
PRESENCE_SMALLEST_EFFECT = (
    "5 % of all latency, or a 99th percentile 20 % above that without it; present at least three times, and "
    "absent at least 15 % of the time"
)


def excuse_in_files(
    context: Context, result: Result, waited: Ints, meanwhile: str, what: str, because: str
) -> None:
    """Excuses slow calls (`waited`: their places) that lost their time above the block layer, and says what they cost and what that means."""
    if not len(waited):
        return
    slow = context.slow
    explains = np.zeros(len(slow), np.bool_)
    explains[waited] = True
    share = context.share_lost(waited)
    if share >= SHARE_OF_LATENCY_FLOOR:
        result.observed.append(
            f"{words.things(len(waited) * slow.thinning, 'call')} waited {words.duration(float(np.median(slow.latency_ns[waited])))} above the block layer {meanwhile}: "
            f"{words.percent(share)} of all latency. {what}"
        )
    result.excuses.append(Excuse(because, explains))


def of_time_lost(
    held: TimeLost,
    *,
    culprit: Culprit,
    claim: str,
    baseline: str,
    metric: str,
    evidence: list[Evidence],
    refute: str,
    remedy: str,
    explains: Bools,
    causes: tuple[tuple[str, str], ...],
) -> Candidate:
    """The claim about time lost in one way: its part is the effect, and what a blameless storage would not have taken.

    It is read off the record, and so no test decides.
    """
    claim += held.said
    return Candidate(
        culprit=culprit,
        claim=claim,
        baseline=baseline,
        effect=Effect(metric, held.share, "1", held.low, held.high),
        share_of_excess=held.share,
        share_of_latency=held.share,
        of_ns=held.threads_ns,
        p_value=0.0,
        episodes=held.windows,
        evidence=evidence,
        refute=refute,
        remedy=remedy,
        otherwise=claim,
        explains=explains,
        causes=causes,
        basis="measured",
        summed=True,
        large=held.share >= SHARE_OF_LATENCY_MIN and not _is_moment(held),
    )


def _is_moment(held: TimeLost) -> bool:
    """Whether it happened once and was soon over: a thousand operations in flight at once lose a thousand times that moment, and the program lost it once."""
    return held.windows == 1 and held.part < SHARE_OF_LATENCY_MIN


def of_presence(
    context: Context,
    presence: Presence,
    *,
    culprit: Culprit,
    what: str,
    baseline: str,
    evidence: list[Evidence],
    refute: str,
    remedy: str,
) -> Candidate:
    """The claim about something that comes and goes; `what` is the beginning of the sentence."""
    total = max(1.0, context.survey.latency_ns)
    share = min(1.0, float(presence.excess_ns.sum()) / total)
    low, high = bootstrap_sum(presence.excess_ns / total)
    worse = presence.p99_with_ns / max(1.0, presence.p99_without_ns)
    claim = (
        f"{what}, and operations take {words.duration(presence.with_ns)} on average then, "
        f"{words.duration(presence.without_ns)} otherwise: {words.percent(share)} of all latency. The 99th percentile is "
        f"{words.duration(presence.p99_with_ns)}, without these times {words.duration(presence.p99_without_ns)}."
    )
    return Candidate(
        culprit=culprit,
        claim=claim,
        baseline=baseline,
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        # Two questions, the mean and the tail; either is enough.
        p_value=min(1.0, 2.0 * min(presence.p_value, presence.late_p_value)),
        episodes=presence.times,
        evidence=evidence,
        refute=refute,
        remedy=remedy,
        otherwise=claim,
        explains=none_of(context.slow),
        p99_ratio=worse,
        unless="but it varies so strongly over time that there may be no cost at all",
        # Where the interval of the times includes no cost at all, nobody is accused.
        large=(low > 0 and share >= SHARE_OF_LATENCY_MIN)
        or (bootstrap_sum(presence.late)[0] > 0 and worse >= P99_RATIO_MIN),
    )


def leave_device(who: str) -> str:
    """What to do about who keeps a device busy."""
    return f"Let {who} work at another time, on another device, or less at once: io.weight or io.max for its group, ionice -c3."


def leave_cpu(who: str, pid: int | None = None) -> str:
    """What to do about who has the CPU. In which class of the scheduler it runs is not recorded, nor in which session: between sessions `nice` does nothing where the kernel groups
    by them (CONFIG_SCHED_AUTOGROUP, sched(7))."""
    process = "PID" if pid is None else str(pid)
    return (
        f"Move {who} to other CPUs (taskset -cp CPUS {process}), lower its weight (cpu.weight of its group, or nice with `echo 19 > /proc/{process}/autogroup`; in a "
        f"real-time class, as `chrt -p {process}` says it, neither counts before `chrt -o -p 0 {process}`), or stop it."
    )
