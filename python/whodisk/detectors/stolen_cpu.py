"""A hypervisor that gives this machine's CPUs to others while they have work to do (steal time).

Seen from inside, everything that needs a CPU then takes longer: submitting, completing, the driver of a virtual disk.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Detector, Excuse, Result, evidence
from whodisk.detectors.candidates import PRESENCE_SMALLEST_EFFECT, of_presence
from whodisk.detectors.thresholds import (
    STOLEN_ACCUSED_MIN,
    STOLEN_BUSIER,
    STOLEN_EXPLAINED_NS,
    STOLEN_PART,
    STOLEN_PRESENT_MIN,
    STOLEN_TOLD_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.presence import bins_of, compare, load_of
from whodisk.evidence.slow_operations import CPU_STAGES, none_of
from whodisk.evidence.standstill import standstills
from whodisk.evidence.steal import SAMPLES, Steal, cpus_of, steal_of
from whodisk.evidence.thresholds import EXPLAINED_PART
from whodisk.findings import Culprit
from whodisk.reading.views import STAGES
from whodisk.statistics.stats import Bools, Floats

NEEDS_CPU = (*CPU_STAGES, STAGES.index("interrupt"))


def run(context: Context) -> Result:
    """A candidate if operations are slower while CPUs are stolen; otherwise the verdict reports what was stolen."""
    result = Result()
    explained = context.explained | _excuse_standstills(context, result)
    steal = steal_of(context.case, context.survey)
    if steal is None:
        return result
    _excuse_stolen(context, steal, explained, result)
    if steal.part < STOLEN_TOLD_MIN:
        return result
    survey = context.survey
    # Finer bins than samples would invent detail.
    bins = bins_of(context, len(steal.time_ns)) if steal.part >= STOLEN_ACCUSED_MIN else None
    presence, most_ns = None, 0.0
    if bins is not None:
        stolen, wanted = steal.per_bin(survey.begin_ns, survey.end_ns, bins)
        load, there = load_of(context, bins), stolen >= STOLEN_PRESENT_MIN * np.maximum(wanted, 1.0)
        presence = compare(context, load, there)
        most_ns = _most_ns(context, stolen[there], load.latency_ns[there], bins)
    said = f"The hypervisor had this machine's CPUs elsewhere in {words.percent(steal.part)} of the time in which they were wanted (steal)"
    if presence is not None and presence.rate_ratio > STOLEN_BUSIER:
        said += (
            f", and {words.significant(presence.rate_ratio)} times as many operations began then as otherwise"
        )
        presence = None
    if presence is None:
        result.observed.append(f"{said}. Whatever needs a CPU takes longer by that.")
        result.caveats.append(
            (
                "how fast this storage is on CPUs of its own",
                f"{words.percent(steal.part)} of the wanted CPU time was stolen by the hypervisor, and operations "
                "could not be compared with such without it",
            )
        )
        return result
    lost_ns = float(presence.excess_ns.sum())
    if lost_ns > most_ns:
        result.observed.append(
            f"{said}, and operations take {words.duration(presence.with_ns)} on average then, {words.duration(presence.without_ns)} otherwise. "
            f"But what was stolen can have cost {words.duration(most_ns)}, and they took {words.duration(lost_ns)} longer: something else "
            "makes most of the difference, such as work of another kind."
        )
        return result
    found = of_presence(
        context,
        presence,
        culprit=Culprit("host", "hypervisor", "steal"),
        what=f"{said}, most of it at {words.things(presence.times, 'time')} ({words.percent(presence.part)} of the time)",
        baseline="operations that began while the CPUs were not stolen",
        evidence=[evidence(context.case, "steal time, as parts of all CPUs", f"{SAMPLES} LIMIT 1000")],
        refute="Give this virtual machine CPUs of its own (pinned, dedicated, or a quieter host) and repeat: if operations take as "
        "long without steal, it was not the hypervisor.",
        remedy="Move the virtual machine to a host with free CPUs, or pin its CPUs; see whether a CPU quota holds it back.",
    )
    found.causes = (("stage", "runqueue"), ("process", "silence of the submitter, state runnable"))
    result.candidates.append(found)
    return result


def _most_ns(context: Context, stolen_ns: Floats, latency_ns: Floats, bins: int) -> float:
    """What stolen time can have cost at most: each nanosecond one to everything in flight, or to the one operation that was.

    `stolen_ns` per CPU and `latency_ns` of the operations, both by time bin (some of `bins` equal ones).
    """
    in_flight = latency_ns * bins / context.survey.span_ns
    return float((cpus_of(context.case) * stolen_ns * np.maximum(1.0, in_flight)).sum())


def _excuse_standstills(context: Context, result: Result) -> Bools:
    """The slow operations of which the same is true where a CPU stood still and no steal was counted."""
    slow = context.slow
    needy = ~context.explained & np.isin(slow.blamed, NEEDS_CPU)
    found = [still for still in standstills(context) if (still.held & needy).any()]
    if not found:
        return none_of(slow)
    chosen = np.logical_or.reduce([still.held for still in found]) & needy
    result.excuses.append(Excuse("a CPU stood still", chosen))
    lengths = [still.end_ns - still.start_ns for still in found]
    waited, share = _waited(context, chosen)
    who = words.listed([f"CPU {cpu}" for cpu in sorted({still.cpu for still in found})])
    result.observed.append(
        f"{who} stood still {words.things(len(found), 'time')}, for up to {words.duration(max(lengths))}, while a thread was ready to run and "
        "nothing else ran there: the hypervisor, or the firmware, had it elsewhere and did not count that as steal. "
        f"{waited} for that: {words.percent(share)} of all latency."
    )
    return np.asarray(chosen, np.bool_)


def _excuse_stolen(context: Context, steal: Steal, explained: Bools, result: Result) -> None:
    """Long waits for a CPU in moments in which the hypervisor had it are nobody else's fault."""
    chosen = _stolen_from(context, steal, ~explained)
    if not chosen.any():
        return
    result.excuses.append(Excuse("the hypervisor had the CPUs", chosen))
    waited, share = _waited(context, chosen)
    result.observed.append(
        f"{waited} while the hypervisor had the CPUs (steal): {words.percent(share)} of all latency."
    )


def _waited(context: Context, chosen: Bools) -> tuple[str, float]:
    """How many slow operations waited how long and in which stages, as words; and what they lost, of all latency."""
    slow = context.slow
    stages = sorted({context.stage(STAGES[number]) for number in np.unique(slow.blamed[chosen])})
    number = words.things(float(chosen.sum()) * slow.thinning, "operation")
    typical = words.duration(float(np.median(slow.latency_ns[chosen])))
    share = context.share_lost(chosen)
    return f"{number} waited {typical} in {words.listed(stages)}", share


def _stolen_from(context: Context, steal: Steal, remaining: Bools) -> Bools:
    slow = context.slow
    late_ns = slow.latency_ns - slow.typical_ns
    chosen: Bools = remaining & np.isin(slow.blamed, NEEDS_CPU)
    if not chosen.any():
        return chosen
    stolen_ns, wanted_ns = steal.around(context.case, slow.start_ns, slow.end_ns)
    clear = (late_ns >= STOLEN_EXPLAINED_NS) | (stolen_ns >= STOLEN_PART * np.maximum(1.0, wanted_ns))
    return np.asarray(chosen & clear & (stolen_ns >= EXPLAINED_PART * late_ns), np.bool_)


DETECTOR = Detector(
    name="stolen_cpu",
    needs=("series.value", "judged.start_ns"),
    needs_stages=(),
    null_model="the same times of steal in any order and at any distances meet operations as slow",
    smallest_effect=PRESENCE_SMALLEST_EFFECT,
    run=run,
)
