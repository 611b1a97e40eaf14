"""The stage that holds the excess of slow operations, against typical operations of the same stratum.

Faults that slow every operation alike have no typical operations to compare with; `reference` judges
those, if a person gives another case or an expectation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors import reference
from whodisk.detectors.base import (
    Candidate,
    Detector,
    Excuse,
    Result,
    evidence,
    evidence_above,
    large_enough,
)
from whodisk.detectors.blamed_device import (
    Suspect,
    device_of,
    remedy_at_user,
    said_of_user,
    under_loop,
    user_below,
)
from whodisk.detectors.served_others import passed_over, requests_of, requests_sql, stood_still
from whodisk.detectors.slow_groups import (
    ADVICE,
    GIVEN_BACK,
    INSIDE_VOLUME,
    NOT_GIVEN_BACK,
    NOT_VOLUME,
    bunched_p_of,
    p_value_of,
    refute_of,
    remedy_of,
)
from whodisk.detectors.thresholds import (
    ASLEEP_TOLD_MIN,
    BUSY_TOLD_MIN,
    DEVICE_SHARE_ALONE,
    FLUSH_OPERATIONS_SHOWN,
    FLUSH_PART_TOLD,
    HELD_BY_ONE_MIN,
    ONE_KIND_MOSTLY,
    ORDINARY_SHARE_TOLD,
    OUTLIER_EPISODES_MIN,
    OUTLIER_RATIO_MIN,
    OWN_STOPPED_MAX,
    P99_RATIO_MIN,
    Q_VALUE_MAX,
    REQUEUED_TOLD_MIN,
    SERVED_OPERATIONS_MAX,
    SHARE_FOR_P99_MIN,
    SHARE_OF_EXCESS_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
    STRETCH_OPERATIONS_MIN,
    UNTOUCHED_MIN,
    VOLUME_BINDS_MIN,
)
from whodisk.evidence.asleep import Sleep, busy_meanwhile, slept_in
from whodisk.evidence.behind_flushes import flushes_sql, in_flushes_ns
from whodisk.evidence.context import Context
from whodisk.evidence.late_places import late_region
from whodisk.evidence.late_threads import REAP, TAKEN_LATE, taken_late
from whodisk.evidence.more_work import MADE_IN
from whodisk.evidence.ordinary_requests import waited_for_ordinary
from whodisk.evidence.requeued import Requeued, requeued
from whodisk.evidence.slow_operations import SlowSet
from whodisk.evidence.survey import drawn, is_thinned
from whodisk.evidence.thresholds import KIND_PART
from whodisk.evidence.time_lost import kept_ns
from whodisk.evidence.woken import Woken, woken
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.machine.peers import kinds, rotates
from whodisk.machine.servers import AT_SERVER, file_server_of, remote_of, synced_mount_of
from whodisk.machine.volume_time import VolumeTime, in_volumes
from whodisk.machine.wakers import Holder, other_program
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import (
    Bools,
    Floats,
    Ints,
    bootstrap_ratio,
    bootstrap_sum,
    episodes,
    extents,
    moved_quantile,
    spared_quantile,
    touched,
)

#: What keeps a device from sleeping.
AWAKE = (
    "Switch off its power saving (SATA: hdparm -B 254 -S 0, link_power_management_policy max_performance; NVMe: "
    "nvme_core.default_ps_max_latency_us=0; PCIe: pcie_aspm.policy=performance)."
)


def run(context: Context) -> Result:
    """One candidate per stage that slow operations are blamed on."""
    result = Result()
    slow = context.slow
    by_order = passed_over(context)
    if by_order.any():
        result.observed.append(_passed_over(context, by_order))
        result.excuses.append(Excuse("passed over by a disk that chooses its order", by_order))
    more = _more_work(context, ~context.explained & ~by_order, result)
    late = _taken_late(context, ~context.explained & ~by_order & ~more, result)
    ordinary = _for_ordinary_requests(context, ~context.explained & ~by_order & ~more & ~late, result)
    explained = context.explained | by_order | more | late | ordinary
    remaining = ~explained & ~slow.ordinary
    suspects = [
        Suspect(stage, part, episodes(slow.start_ns[part], slow.end_ns[part]))
        for stage in range(len(STAGES))
        for part in _by_device(slow, remaining & (slow.blamed == stage))
    ]
    for suspect in suspects:
        if _is_own_doing(context, suspect):
            _tell_own_doing(context, suspect, result)
        else:
            result.candidates.append(_candidate(context, suspect))
    _tell_ordinary(context, slow.ordinary & ~explained, result)
    result.candidates += reference.compared(context)
    result.candidates += reference.expected(context)
    return result


def _more_work(context: Context, asked: Bools, result: Result) -> Bools:
    """Those that made many more requests than others: reported, and nobody's fault."""
    slow = context.slow
    of_requests = np.isin(slow.blamed, [STAGES.index(stage) for stage in MADE_IN])
    if not (asked & of_requests).any():
        return np.zeros(len(slow), np.bool_)
    chosen = np.asarray(asked & of_requests & context.more_work.among(slow.op_id), np.bool_)
    if not chosen.any():
        return chosen
    at = np.searchsorted(context.more_work.op_id, slow.op_id[chosen])
    share = context.share_lost(chosen)
    if share >= SHARE_OF_LATENCY_FLOOR:
        result.observed.append(
            f"{words.things(float(chosen.sum()) * slow.thinning, 'operation')} took {words.duration(float(np.median(slow.latency_ns[chosen])))} each and made "
            f"{words.count(float(np.median(context.more_work.requests[at])))} requests each, where most of their kind make few: that is what this much work takes, "
            f"{words.percent(share)} of all latency."
        )
    result.excuses.append(Excuse("many more requests than others", chosen))
    return chosen


def _taken_late(context: Context, asked: Bools, result: Result) -> Bools:
    """Those that only waited to be taken while a slow operation of their own thread was held further down: reported as its consequence."""
    slow = context.slow
    chosen = np.asarray(asked & (slow.blamed == REAP), np.bool_)
    mine = np.flatnonzero(chosen)
    end = slow.end_ns[mine]
    chosen[mine] = taken_late(context, slow.tid[mine], end - slow.stage_ns[mine, REAP].astype(np.int64), end)
    if not chosen.any():
        return chosen
    share = context.share_lost(chosen)
    if share >= SHARE_OF_LATENCY_FLOOR:
        result.observed.append(
            f"{words.things(float(chosen.sum()) * slow.thinning, 'operation')} had ended and were not taken for "
            f"{words.duration(float(np.median(slow.stage_ns[chosen, REAP])))}: their threads waited for slower ones, which held them up. "
            f"That is {words.percent(share)} of all latency."
        )
    result.excuses.append(Excuse(TAKEN_LATE, chosen))
    return chosen


def _for_ordinary_requests(context: Context, asked: Bools, result: Result) -> Bools:
    """Those that slept in the file system for requests of ordinary length, where others are answered from memory: reported, and nobody's fault."""
    chosen = waited_for_ordinary(context, asked)
    if not chosen.any():
        return chosen
    slow, share = context.slow, context.share_lost(chosen)
    if share >= SHARE_OF_LATENCY_FLOOR:
        result.observed.append(
            f"{words.things(float(chosen.sum()) * slow.thinning, 'operation')} took {words.duration(float(np.median(slow.latency_ns[chosen])))} where "
            f"{words.duration(float(np.median(slow.typical_ns[chosen])))} is typical: their threads slept for I/O that was under way (a page that is written, the "
            f"journal), no longer than a few requests of their device take. That is {words.percent(share)} of all latency."
        )
    result.excuses.append(Excuse("I/O of ordinary length", chosen))
    return chosen


def _is_own_doing(context: Context, suspect: Suspect) -> bool:
    """Whether a program spent this time between its calls on storage, and nobody stopped it: it computed, or waited for itself."""
    if context.layer != "app" or context.case.program is None or STAGES[suspect.stage] != "app":
        return False
    if "waits" not in context.case.columns:
        return True
    chosen = suspect.chosen
    held_ns = float(kept_ns(context, "stopped", "throttled")[chosen].sum())
    return held_ns < OWN_STOPPED_MAX * float(context.slow.latency_ns[chosen].sum())


def _tell_own_doing(context: Context, suspect: Suspect, result: Result) -> None:
    """Reported, and where it is much, as a limit: nothing of storage, and nobody else, holds the program up then."""
    claim = _candidate(context, suspect)
    if claim.share_of_latency >= SHARE_OF_LATENCY_FLOOR:
        result.observed.append(
            f"{claim.claim} That is what {context.case.program} does between its calls on storage: {words.percent(claim.share_of_latency)} of all latency."
        )
    if claim.share_of_latency >= SHARE_OF_LATENCY_MIN:
        result.besides = result.besides or (
            f"{context.case.program} itself: {words.percent(claim.share_of_latency)} of the time of its operations is time in which the slow ones of "
            "them compute, or wait for the program's own threads and processes"
        )
        result.limited = True
    result.excuses.append(Excuse("the program's own doing", suspect.chosen))


def _passed_over(context: Context, chosen: Bools) -> str:
    share = context.share_lost(chosen)
    return (
        f"{words.things(float(chosen.sum()) * context.slow.thinning, 'operation')} waited while the disk served others that came "
        f"later: it chooses their order, and was not stuck. That is {words.percent(share)} of all latency."
    )


def _by_device(slow: SlowSet, chosen: Bools) -> list[Bools]:
    """The operations of a device that holds most of the excess, and the others; else all together."""
    if not chosen.any():
        return []
    names, index = np.unique(slow.device.astype(str), return_inverse=True)
    excess = np.bincount(index, np.where(chosen, slow.excess_ns, 0.0), minlength=len(names))
    top = int(np.argmax(excess))
    if excess[top] < DEVICE_SHARE_ALONE * excess.sum():
        return [chosen]
    parts = [chosen & (index == top), chosen & (index != top)]
    return [part for part in parts if part.any()]


def _tell_ordinary(context: Context, chosen: Bools, result: Result) -> None:
    """Reports waits of a time slice's length with their cost, and with what would explain them."""
    slow = context.slow
    share = context.share_lost(chosen)
    if share < ORDINARY_SHARE_TOLD:
        return
    stages = sorted({context.stage(STAGES[number]) for number in np.unique(slow.blamed[chosen])})
    typical_wait = words.duration(float(np.median(slow.latency_ns[chosen])))
    result.observed.append(
        f"{words.things(float(chosen.sum()) * slow.thinning, 'operation')} took about {typical_wait} because of waits in "
        f"{words.listed(stages)}, as long as another thread's turn on a CPU: {words.percent(share)} of all latency."
    )
    if "runqueue" not in context.survey.stages_observed:
        because = "in stages that need a CPU; no scheduler was recorded"
    elif others := [stage for stage in stages if stage != context.stage("runqueue")]:
        because = f"in {words.listed(others)}; only the submitters' own waits for a CPU are known"
    else:
        return
    result.caveats.append(("a lack of CPU", f"waits of a time slice's length were seen {because}"))


def _candidate(context: Context, suspect: Suspect) -> Candidate:
    slow, chosen = context.slow, suspect.chosen
    # What others lost because they waited behind counts: it would not have been, either.
    lost_ns = (slow.excess_ns + context.behind.excess_ns)[chosen]
    share_of_latency = float(lost_ns.sum()) / max(1.0, context.survey.latency_ns)
    share, low, high = _share_of_excess(slow, suspect)
    per_episode = np.bincount(suspect.numbers, lost_ns)
    effect_low, effect_high = bootstrap_sum(per_episode / context.survey.latency_ns)
    device = device_of(context, suspect)
    woke = _woke(context, suspect, device)
    slept = _slept_for(context, suspect)
    claim = _claim(context, suspect, device, woke, slept)
    worse, still_worse = _p99_ratio(context, suspect)
    bunched_p = bunched_p_of(context, suspect)
    # Behind one slow operation a long backlog may have built up by chance: what waited counts here as far as it is certain.
    own_share = context.share_lost(chosen)
    certain = max(own_share, effect_low)
    name = STAGES[suspect.stage]
    printed = context.stage(name)
    because = f"device:{device}" if device else None
    part = float(slow.stage_ns[chosen][:, suspect.stage].sum()) / max(
        1.0, float(slow.latency_ns[chosen].sum())
    )
    remedy, refute = remedy_of(printed, name, part), refute_of(printed, name)
    if slept is not None and slept.culprit is not None:
        because = f"process:{slept.culprit.name}"
        remedy, refute = slept.culprit.remedy, slept.culprit.refute
    if slept is not None and slept.sleep.cause in ADVICE:
        remedy, refute = ADVICE[slept.sleep.cause]
    volume = _in_volume(context, suspect)
    if volume is not None:
        because, remedy, refute = f"device:{volume.volume}", INSIDE_VOLUME, NOT_VOLUME
        if volume.awaited is not None:
            because, remedy = f"device:{volume.awaited.device}", remedy_of(printed, "device")
            refute = volume.refute
        claim += f" {words.percent(volume.part)} of their time passed in {volume.said}."
    claim += under_loop(context, suspect, device)
    if (user := user_below(context, suspect, device)) is not None:
        claim, remedy = claim + said_of_user(user), remedy_at_user(user, remedy)
    back = _given_back(context, suspect)
    if back is not None:
        remedy, refute = GIVEN_BACK, NOT_GIVEN_BACK
        claim += f" The driver had given their requests back, typically {words.things(back.times, 'time')} each: a busy device, or failures that are tried again."
    if woke is not None:
        remedy = AWAKE
        refute = f"Keep {device} awake and repeat: {AWAKE} If as many requests are slow, it did not sleep."
    server = file_server_of(context, slow.op_id[chosen]) if name in AT_SERVER else None
    if server is not None:
        because = f"process:{server.name or server.pid}"
        claim += f" Their files lie on {server.mount}, a file system that {server.said} serves (FUSE): what they waited for there is not part of them."
        remedy = f"Record the server, too: whodisk record --pid {server.pid}, under the same load."
    elif name in AT_SERVER and (remote := remote_of(context, slow.op_id[chosen])) is not None:
        because = f"file system:{remote.mount}"
        claim += f" Their files lie on {remote.mount}, of {remote.source} ({remote.kind}): what they waited for there, or on the way, is not part of this record."
        remedy = f"Look at {remote.source} and at the way to it (nfsiostat, /proc/self/mountstats, the network's errors), or record there under the same load."
        refute = "Repeat on a local file system: if as many operations are slow, it was neither the server nor the way to it."
    elif (
        name in ("queue", "device")
        and len(slow.for_request)
        and np.mean(slow.for_request[chosen]) >= ONE_KIND_MOSTLY
        and (at := file_server_of(context, slow.op_id[chosen])) is not None
    ):
        claim += f" Their files lie on {at.mount}, a file system that {at.said} serves (FUSE): those requests are its own."
    culprit = Culprit("stage", printed, because)
    if (mount := synced_mount_of(context, slow.op_id[chosen])) is not None:
        culprit = Culprit("config", "mount option sync", f"file system:{mount}")
        claim += f" Their files lie on {mount}, which is mounted with `sync`: whatever changes a file or a folder there returns when the disk has it."
        remedy = (
            f"Mount it without (mount -o remount,async {mount}), and let programs sync what they must keep."
        )
        refute = "Do so for a minute and repeat: if as many operations are slow, it is not the option."
    return Candidate(
        culprit=culprit,
        claim=claim,
        baseline="the median operation of the same device, kind, size class and queue depth class in this case",
        effect=Effect("part of all latency", share_of_latency, "1", effect_low, min(1.0, effect_high)),
        share_of_excess=share,
        share_of_latency=share_of_latency,
        share_without_largest=_share_without_largest(context, suspect, per_episode.astype(np.float64)),
        p_value=p_value_of(context, suspect, bunched_p),
        episodes=suspect.episodes,
        evidence=_evidence(context, suspect),
        refute=refute,
        remedy=remedy,
        otherwise=claim,
        explains=chosen,
        share_low=low,
        share_high=high,
        large=_large(context, suspect, device, certain, share, still_worse, bunched_p),
        p99_ratio=worse,
    )


def _share_without_largest(context: Context, suspect: Suspect, lost_ns: Floats) -> float | None:
    """Part of all latency without the episode that cost most, of what each episode cost; None where some operations waited behind others: these
    may all be consequences of one event."""
    if len(_held(context, suspect)) < suspect.chosen.sum() or context.behind.excess_ns[suspect.chosen].any():
        return None
    return float(lost_ns.sum() - lost_ns.max()) / max(1.0, context.survey.latency_ns)


def _large(
    context: Context,
    suspect: Suspect,
    device: str | None,
    share_of_latency: float,
    share_of_excess: float,
    p99_ratio: float,
    bunched_p: float,
) -> bool:
    """Outliers that devices of a kind have among them, none more than the others, are how that kind is: they need the
    share of all latency. A percentile that one episode made says nothing of the others: `p99_ratio` is without the largest."""
    block = context.surveys.get("block")
    spread = device is None and STAGES[suspect.stage] in ("device", "queue")
    if spread and block is not None and kinds(context, block):
        return share_of_latency >= SHARE_OF_LATENCY_MIN
    if _is_narrow(context.slow, suspect):
        # A bump in a heavy tail, no group of its own: a drive may have some step of that length in its ordinary work.
        moves_p99 = p99_ratio >= P99_RATIO_MIN and share_of_excess >= SHARE_OF_EXCESS_MIN
        return share_of_latency >= (SHARE_OF_LATENCY_FLOOR if moves_p99 else SHARE_OF_LATENCY_MIN)
    ratio = float(np.median(context.slow.ratio[suspect.chosen]))
    if large_enough(share_of_latency, share_of_excess, ratio, suspect.episodes):
        return True
    if (
        suspect.episodes < OUTLIER_EPISODES_MIN
        or share_of_excess < SHARE_OF_EXCESS_MIN
        or p99_ratio < P99_RATIO_MIN
    ):
        return False
    if ratio >= OUTLIER_RATIO_MIN:
        return share_of_latency >= SHARE_FOR_P99_MIN
    # What is slow by its kind (a miss of the drive's own cache) comes one by one; a pause holds up all that is in flight.
    return share_of_latency >= SHARE_OF_LATENCY_FLOOR and bunched_p < Q_VALUE_MAX


def _is_narrow(slow: SlowSet, suspect: Suspect) -> bool:
    """Whether no octave, but only narrower stretches of the tail, set most of these operations apart."""
    narrow = np.array([family.split.is_narrow for family in slow.families], np.bool_)
    return bool(narrow[slow.family[suspect.chosen]].mean() > 0.5)


def _p99_ratio(context: Context, suspect: Suspect) -> tuple[float, float]:
    """99th percentile of all operations, over that of those that were not in flight in any of the episodes, nor began within
    their length after them; and the same as if the episode with the most slow operations had not been.

    Where hardly an operation is apart from all episodes, the slow ones are taken to be as long as is typical instead.
    """
    start, chosen = context.slow.start_ns[suspect.chosen], suspect.chosen
    first, last = extents(suspect.numbers, start, context.slow.end_ns[chosen])
    # What began within their length afterwards is left out below anyway.
    _, until = extents(suspect.numbers, start, context.behind.until_ns[chosen])
    last = np.maximum(last, first + (until - first) // 2)
    start, latency = context.operations
    untouched = ~touched(start, latency, first, last)
    largest = int(np.bincount(suspect.numbers).argmax())
    if untouched.mean() < UNTOUCHED_MIN:
        return p99_of_typical(context, suspect, largest)
    others = ~touched(start, latency, first[[largest]], last[[largest]])
    whole = float(np.quantile(latency, 0.99))
    # Few long operations that were spared stand for many: nothing gets slower without a trouble.
    without = min(max(1.0, spared_quantile(start, latency, untouched, first, last, 0.99)), max(1.0, whole))
    return whole / without, float(np.quantile(latency[others], 0.99)) / without


def p99_of_typical(context: Context, suspect: Suspect, largest: int) -> tuple[float, float]:
    """The same, if the slow operations had been as long as is typical for them, and no others had changed."""
    latency = context.sorted_latency_ns
    slow = context.slow
    # Of many operations only a sample is at hand; the slow ones may be another.
    each = slow.thinning * len(latency) / max(1.0, context.survey.operations)
    late = slow.latency_ns[suspect.chosen].astype(np.float64)
    typical = np.minimum(late, slow.typical_ns[suspect.chosen])

    def p99(chosen: Bools) -> float:
        return moved_quantile(latency, late[chosen], typical[chosen], each, 0.99)

    everything = np.ones(len(late), np.bool_)
    without = max(1.0, p99(everything))
    return p99(~everything) / without, p99(suspect.numbers == largest) / without


def _share_of_excess(slow: SlowSet, suspect: Suspect) -> tuple[float, float, float]:
    """Part of all slow operations' excess that this stage holds, with its 95 % interval.

    What they waited above this stage for what was stuck in it counts too.
    """
    numbers = episodes(slow.start_ns, slow.end_ns)
    above = slow.stage_excess_ns[:, : suspect.stage].clip(0.0).sum(axis=1)
    in_stage_ns = slow.stage_excess_ns[:, suspect.stage] + above
    held_ns = np.where(suspect.chosen, np.clip(in_stage_ns, 0.0, None) * slow.weight * slow.thinning, 0.0)
    held_ns = np.minimum(held_ns, slow.excess_ns)
    total = np.bincount(numbers, slow.excess_ns).astype(np.float64)
    held = np.bincount(numbers, held_ns).astype(np.float64)
    low, high = bootstrap_ratio(held, total)
    return float(held.sum() / max(1.0, total.sum())), low, high


def _claim(
    context: Context,
    suspect: Suspect,
    device: str | None,
    woke: Woken | None,
    slept: _HeldAsleep | None,
) -> str:
    slow, chosen = context.slow, suspect.chosen
    name = context.stage(STAGES[suspect.stage])
    stage_ns = slow.stage_ns[chosen, suspect.stage]
    typical_stage_ns = stage_ns - slow.stage_excess_ns[chosen, suspect.stage]
    kinds, sizes = np.unique(slow.op[chosen].astype(str), return_counts=True)
    main = str(kinds[np.argmax(sizes)])
    kind = words.plural_op(main) if sizes.max() >= ONE_KIND_MOSTLY * chosen.sum() else "operations"
    place = f" of {device}" if device and STAGES[suspect.stage] in ("device", "queue", "interrupt") else ""
    where = f"the {name} stage{place}"
    counted = [main] if kind != "operations" else list(kinds)
    total = sum(s.operations for s in context.survey.strata if s.op in counted)
    every = total / max(1.0, np.isin(slow.op[chosen].astype(str), counted).sum() * slow.thinning)
    stuck = np.argmax(slow.stage_excess_ns[chosen], axis=1) == suspect.stage
    there = words.duration(float(np.median(stage_ns[stuck] if stuck.any() else stage_ns)))
    if not stuck.any():
        lost = f"all of them waited behind operations that were held in {where}"
    elif stuck.sum() < 0.5 * len(stuck):
        number = words.count(float(stuck.sum()) * slow.thinning)
        lost = f"{number} of them spent {there} in {where}, and the others waited behind them"
    else:
        typically = words.duration(max(0.0, float(np.median(typical_stage_ns[stuck]))))
        lost = f"{there} in {where} instead of {typically}"
        if np.mean(slow.for_request[chosen][stuck]) >= ONE_KIND_MOSTLY:
            lost += ", asleep in the file system for a request there (tables of stages show that as fs)"
    if slept is not None and slept.culprit is not None:
        part = slept.sleep.share * slept.culprit.share
        said = f"for {words.percent(part)} of that time " if part < ONE_KIND_MOSTLY else ""
        lost += f", {said}waiting for {slept.culprit.name}"
    return (
        f"{_stretch(context, suspect, counted, kind) or f'1 in {words.significant(every)} {kind}'} took {words.duration(float(np.median(slow.latency_ns[chosen])))} "
        f"where {words.duration(float(np.median(slow.typical_ns[chosen])))} is typical: "
        f"{lost}.{_in_flushes(context, suspect)}{_meanwhile(context, suspect, device, slept) if woke is None else _asleep(woke)}"
    )


def _stretch(context: Context, suspect: Suspect, counted: list[str], kind: str) -> str:
    """When nearly all operations of these kinds were slow, if that was a stretch of the run and all others of them were not: ``From 5.53 s on 99 % of syncs``."""
    slow, survey = context.slow, context.survey
    start = np.sort(slow.start_ns[suspect.chosen & np.isin(slow.op.astype(str), counted)])
    if len(start) < STRETCH_OPERATIONS_MIN:
        return ""
    # One that was slow at another time is not of the stretch.
    for apart in (0, len(start) // STRETCH_OPERATIONS_MIN):
        first, last = int(start[apart]), int(start[-1 - apart])
        row = context.case.rows(
            f"""SELECT count(*) AS n FROM measured WHERE layer = '{context.layer}' AND op IN ({", ".join(map(quoted, counted))})
AND start_ns BETWEEN {first} AND {last}"""
        )[0]
        part = min(1.0, (len(start) - 2 * apart) * slow.thinning / max(1, int(row["n"] or 0)))
        if part >= ONE_KIND_MOSTLY:
            break
    if part < ONE_KIND_MOSTLY or last - first >= ONE_KIND_MOSTLY * survey.span_ns:
        return ""
    to_its_end = survey.end_ns - last < (1.0 - ONE_KIND_MOSTLY) * (last - first)
    when = (
        f"From {context.case.moment(first)} on"
        if to_its_end
        else f"Between {context.case.moment(first)} and {context.case.moment(last)}"
    )
    return f"{when} {words.percent(part)} of {kind}"


def _in_volume(context: Context, suspect: Suspect) -> VolumeTime | None:
    """The volume that held them itself, where most of their time above the requests was there."""
    if STAGES[suspect.stage] not in AT_SERVER:
        return None
    found = in_volumes(context, context.slow.op_id[_held(context, suspect)])
    return found if found is not None and found.part >= VOLUME_BINDS_MIN else None


def _given_back(context: Context, suspect: Suspect) -> Requeued | None:
    """Whether what waited in the queue were requests that their driver had given back."""
    if STAGES[suspect.stage] != "queue":
        return None
    ids = context.slow.op_id[_held(context, suspect)][:SERVED_OPERATIONS_MAX]
    found = requeued(context, ids)
    return found if found is not None and found.part >= REQUEUED_TOLD_MIN else None


def _woke(context: Context, suspect: Suspect, device: str | None) -> Woken | None:
    """Whether the slow requests came when their device had had nothing to do."""
    if not device or STAGES[suspect.stage] != "device":
        return None
    ids = context.slow.op_id[_held(context, suspect)]
    if not 0 < len(ids) <= SERVED_OPERATIONS_MAX:
        return None
    requests = requests_of(context, device)
    if requests is None:
        return None
    data = context.case.arrays(requests_sql(context, ids, [device]))
    begin, end = (data[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    return woken(requests.begin_ns, requests.end_ns, begin, end) if len(begin) else None


def _asleep(woke: Woken) -> str:
    """What tells a device that sleeps from one that is late."""
    return (
        f" They came when it had had nothing to do, typically for {words.duration(woke.idle_ns)}: of requests after such a silence "
        f"{words.count(woke.slow_after)} of {words.count(woke.after)} were slow, of the others {words.percent(woke.slow_others)}. "
        "A device that saves power meanwhile takes that long to wake."
    )


def _in_flushes(context: Context, suspect: Suspect) -> str:
    """Whether the device worked on flush commands meanwhile."""
    if not context.case.carriers or STAGES[suspect.stage] not in ("device", "queue"):
        return ""
    chosen = _held(context, suspect)
    flush_ns = in_flushes_ns(context.case, context.slow.op_id[chosen])
    there_ns = context.slow.stage_ns[chosen, suspect.stage].astype(np.float64)[~np.isnan(flush_ns)]
    flush_ns = np.minimum(flush_ns[~np.isnan(flush_ns)], there_ns)
    part = float(flush_ns.sum()) / max(1.0, float(there_ns.sum()))
    if part < FLUSH_PART_TOLD:
        return ""
    return f" {words.percent(part)} of that are flush commands, which make written data durable."


def _held(context: Context, suspect: Suspect) -> Ints:
    """Places of those of its operations that lost most of their time in the stage itself, the ones that lost most first."""
    slow, places = context.slow, np.flatnonzero(suspect.chosen)
    lost_ns = slow.stage_excess_ns[places]
    held = places[np.argmax(lost_ns, axis=1) == suspect.stage]
    return np.asarray(held[np.argsort(-slow.stage_excess_ns[held, suspect.stage], kind="stable")], np.int64)


def _meanwhile(context: Context, suspect: Suspect, device: str | None, slept: _HeldAsleep | None) -> str:
    """Whether single requests were late, or all that the device had; of time above the block layer, what threads slept in."""
    if STAGES[suspect.stage] == "fs":
        return _slept(context, suspect, slept)
    if not device or STAGES[suspect.stage] != "device":
        return ""
    still = stood_still(context, device, suspect.chosen)
    if still is not None and still >= ONE_KIND_MOSTLY:
        return f" Meanwhile {device} completed nothing else: it paused as a whole."
    if (where := _in_region(context, suspect, device)) is not None:
        return where
    went_on = still is not None and still <= 1 - ONE_KIND_MOSTLY
    return f" Meanwhile {device} went on completing others." if went_on else ""


def _in_region(context: Context, suspect: Suspect, device: str) -> str | None:
    """That the device is slow in one range of its addresses, and not elsewhere; nothing of a disk with an arm, to which a place is far that is seldom asked for."""
    held = _held(context, suspect)
    if not len(held) or rotates(context, device):
        return None
    late_ns = KIND_PART * float(np.median(context.slow.stage_ns[held, suspect.stage]))
    region = late_region(context.case, device, late_ns)
    if region is None:
        return None
    return (
        f" {device} is that slow between {words.size(region.low)} and {words.size(region.high)} of its addresses: {words.percent(region.late / region.reads)} of "
        f"{words.things(region.reads, 'read')} there took {words.duration(late_ns)} or longer, and {words.percent(region.elsewhere)} of those elsewhere."
    )


@dataclass(frozen=True)
class _HeldAsleep:
    """What threads slept in most, above the block layer, and the program, not one of those that were slow, which let them go on, where that is known."""

    sleep: Sleep
    holder: Holder | None

    @property
    def culprit(self) -> Holder | None:
        """That program, if it is mostly its doing that they were slow: most of them, and not a few of the longest."""
        least = min(self.sleep.share, self.sleep.number)
        return self.holder if least >= HELD_BY_ONE_MIN else None


def _slept_for(context: Context, suspect: Suspect) -> _HeldAsleep | None:
    """None where it was another stage, or nobody looked at sleeps."""
    sleep = slept_in(context, suspect.chosen) if STAGES[suspect.stage] == "fs" else None
    if sleep is None:
        return None
    told = sleep.share >= ASLEEP_TOLD_MIN
    return _HeldAsleep(sleep, other_program(context, suspect.chosen, sleep.cause) if told else None)


def _slept(context: Context, suspect: Suspect, slept: _HeldAsleep | None) -> str:
    """What held operations above the block layer, as far as their threads and the devices show it."""
    if slept is None or slept.sleep.share < ASLEEP_TOLD_MIN:
        return ""
    sleep, holder = slept.sleep, slept.holder
    said = (
        f" Their threads {words.slept(sleep.cause)} for {words.percent(min(1.0, sleep.share))} of that time"
    )
    if holder is not None:
        return f"{said}, {holder.let_go()}."
    busy = busy_meanwhile(context, suspect.chosen)
    if busy is None or busy.in_flight < BUSY_TOLD_MIN:
        return said + "."
    return f"{said}, while {busy.device} had {words.significant(busy.in_flight, 2)} requests in flight, {words.duration(busy.mean_ns)} each."


def _evidence(context: Context, suspect: Suspect) -> list[Evidence]:
    totals = np.sum([s.stage_ns for s in context.survey.strata], axis=0)
    stages = [s for number, s in enumerate(STAGES) if totals[number] > 0]
    limit_ns = _limit_ns(context, suspect)
    means = ", ".join(f"CAST(avg(coalesce({stage}_ns, 0)) AS BIGINT) AS {stage}_ns" for stage in stages)
    column = f"{STAGES[suspect.stage]}_ns"
    # Of very many others a mean needs few.
    few = [drawn(context.survey.operations)] if is_thinned(context.survey.operations) else []
    among = f" AND (latency_ns > {limit_ns} OR {few[0]})" if few else ""
    others = "some others, drawn from all" if few else "all other operations"
    split = evidence_above(
        context.case,
        context.layer,
        f"mean time per stage of slow (over {words.duration(limit_ns)}) and of {others}",
        f"""SELECT op, latency_ns > {limit_ns} AS slow, count(*) AS operations,
  CAST(avg(latency_ns) AS BIGINT) AS latency_ns, {means}
FROM measured WHERE layer = '{context.layer}'{among} GROUP BY 1, 2 ORDER BY 1, 2""",
        limit_ns if few else -1,
        *few,
    )
    worst = evidence_above(
        context.case,
        context.layer,
        "the slowest operations",
        f"""SELECT op_id, start_ns, op, device, size_bytes, queue_depth, latency_ns, {column}
FROM measured WHERE layer = '{context.layer}' AND latency_ns > {limit_ns}
ORDER BY {column} DESC, op_id LIMIT 10""",
        limit_ns,
    )
    if context.case.carriers and STAGES[suspect.stage] in ("device", "queue"):
        behind = evidence(
            context.case,
            "time at the device of the flush commands that the slowest waited for",
            flushes_sql(context.slow.op_id[_held(context, suspect)[:FLUSH_OPERATIONS_SHOWN]]),
        )
        if context.case.known(behind.query):
            return [split, worst, behind]
    return [split, worst]


def _limit_ns(context: Context, suspect: Suspect) -> int:
    """A latency that separates these slow operations from the others; rounded to two digits."""
    slow, chosen = context.slow, suspect.chosen
    lowest = float(np.min(slow.latency_ns[chosen]))
    digits = 10 ** max(0, math.floor(math.log10(max(lowest, 1.0))) - 1)
    return int(lowest // digits * digits)


DETECTOR = Detector(
    name="stage_blame",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=("queue", "device", "interrupt", "reap", "fs", "app"),
    null_model="slow episodes are the natural tail of the body, which per octave only gets thinner on its way out "
    "(tail index as measured in the body, at most 2), and each could have been any other operation",
    smallest_effect="5 % of all latency; or 20 % of the slow operations' excess and 1 % of all latency, in at least 3 "
    "episodes of 10 x typical",
    run=run,
)
