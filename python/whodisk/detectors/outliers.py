"""Single operations that took far longer than the rest, or longer than was asked for: where each was, and what was going on there.

No test decides: that these operations stand apart is a rule about the tail (`whodisk.statistics.standing_apart`), where they were is read
off their stages, and what held them is read off what their thread and their device did at that time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Excuse, Result, evidence
from whodisk.detectors.behind_own import queued_behind_own
from whodisk.detectors.blamed_device import longest_sql
from whodisk.detectors.late_workers import late_workers
from whodisk.detectors.reference import explained_singly
from whodisk.detectors.slow_groups import ADVICE, INSIDE_VOLUME, NOT_VOLUME, SUSPENDED
from whodisk.detectors.thresholds import BEYOND_GROUPS_MAX, BLAMED_DEVICE_MOSTLY
from whodisk.detectors.written_before import written_before, written_for_another
from whodisk.evidence.context import Context
from whodisk.evidence.fired import Found
from whodisk.evidence.held_elsewhere import held_by
from whodisk.evidence.late_threads import REAP, TAKEN_LATE, taken_late
from whodisk.evidence.more_work import MADE_IN
from whodisk.evidence.own_turns import behind_own_calls
from whodisk.evidence.recorder import RECORDER_HAD_CPU, is_recorder
from whodisk.evidence.slow_operations import SOFTWARE_STAGES, is_software, none_of
from whodisk.evidence.slowest import BELOW, Episode, columns_of, find_beyond
from whodisk.evidence.surroundings import ENTERS_QUEUE, Cause, kind_of_cause
from whodisk.evidence.worse import worse
from whodisk.findings import Culprit, Effect
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.machine.servers import serving_names
from whodisk.machine.volumes import volumes_of
from whodisk.machine.wakers import Holder, other_program_of
from whodisk.reading.views import STAGES
from whodisk.statistics.stats import Bools

#: State of calls that waited for what their own program had written before: nobody else's doing, and true all the same.
WRITTEN = "written"
#: State of calls that waited for what another program had written before.
WRITTEN_FOR = "written for another"
#: State of operations that made many more requests than others of their kind.
MORE = "more work"
#: State of operations that waited in a queue for other requests of their own program.
BEHIND_OWN = "behind own"
#: State of calls that waited for a call of another thread of their own program.
OWN_TURN = "own turn"
#: Operations that move data.
SIZED = ("read", "write", "discard", "copy")
_MORE_SAID = "many more requests were made than most of its kind make, and this is what they take"
_BEHIND_OWN_SAID = "meanwhile the device served other requests of the same program, none of them long"
_OWN_TURN_SAID = "its thread waited until a call of another thread of its program was done"
_WRITTEN_SAID = "meanwhile the file system wrote out what its program had written before, request after request, none of them long"
_WRITTEN_FOR_SAID = (
    "meanwhile the file system wrote out what {} had written before, request after request, none of them long"
)


@dataclass(frozen=True)
class Group:
    """Episodes that stand apart and were held by the same cause in the same stage of the same device."""

    stage: str
    device: str
    cause: Cause
    episodes: list[Episode]
    #: The program, not one of those that were held, for which their threads slept, where that is known.
    holder: Holder | None = None


@dataclass(frozen=True)
class Asked:
    """Who asked for operations of that length: a trigger or an expectation."""

    #: One of `findings.QUESTIONS`.
    kind: str
    text: str

    @property
    def said(self) -> str:
        return f"the trigger was '{self.text}'" if self.kind == "trigger" else f"'{self.text}' was expected"


def run(context: Context) -> Result:
    """One measured candidate for each stage and cause: of what fired a trigger, of what is beyond an expectation, of what stands apart.

    The first of these reports an operation, and no other does.
    """
    result = Result()
    told: set[int] = set()
    for layer in dict.fromkeys(found.layer for found, _, _ in context.fired):
        # The layer of requests reports a request that nobody waited for.
        there = context if layer == context.layer else replace(context, layer=layer)
        fired = [(found, episode, cause) for found, episode, cause in context.fired if found.layer == layer]
        for group in _in_order(there, fired):
            asked = Asked("trigger", fired[0][0].fired.trigger)
            candidate = _candidate(there, group, asked)
            if layer != context.layer:
                # It costs the judged operations nothing that is known.
                candidate.share_of_latency, candidate.worse = 0.0, {}
            result.candidates.append(candidate)
            told.update(_ids(group))
    for limit in context.broken_limits:
        if explained_singly(context, limit):
            beyond = find_beyond(context.case, context.survey, limit.op, limit.bound)
            beyond = [episode for episode in beyond if told.isdisjoint(episode.op_ids)]
            for group in _groups(context, held_by(context.case, context.survey, beyond))[:BEYOND_GROUPS_MAX]:
                result.candidates.append(_candidate(context, group, Asked("expectation", limit.text)))
                told.update(_ids(group))
    apart = [(e, cause) for e, cause in context.longest if e.apart and told.isdisjoint(e.op_ids)]
    for group in _groups(context, _with_own_work(context, apart)):
        why = _accuses_nobody(context, group)
        if why is None:
            result.candidates.append(_candidate(context, group, None))
            continue
        sentence, excuse = why
        result.observed.append(f"{claim_of(context, group)} {sentence}")
        result.excuses.append(Excuse(excuse, _explains(context, group), _by_recorder(context, group)))
    return result


def _accuses_nobody(context: Context, group: Group) -> tuple[str, str] | None:
    """Why nobody is to blame for these: in a sentence, and in a few words; None: somebody is."""
    if _by_recorder(context, group):
        return "That is the recorder: without it this time is not lost.", RECORDER_HAD_CPU
    if _were_taken_late(context, group):
        return "Their threads waited for slower operations, which held these up, too.", TAKEN_LATE
    if group.cause.certain and group.cause.state == "runnable" and group.cause.own:
        sentence = (
            "That is a thread of the same program: more CPUs, or fewer threads, and no fault of the storage."
        )
        return sentence, "a thread of the same program had the CPU"
    if (group.cause.state, group.cause.who) == ("call", "drop"):
        return (
            "That is the program's own doing: it asks for it, and its thread does one thing at a time.",
            "its own thread had pages dropped from the cache",
        )
    if group.cause.state == BEHIND_OWN:
        return (
            "That is what the requests of one program take together.",
            "behind other requests of the same program",
        )
    if group.cause.state == "blocked" and words.function(group.cause.who) in words.AS_WHEN_RCU:
        return (
            "The kernel lets every CPU pass a quiet moment first (RCU), as when the table of open files grows: no storage is waited for.",
            "waited for all CPUs to pass a quiet moment",
        )
    if group.cause.state == OWN_TURN:
        return (
            "That is what the calls of one program on one file or folder take together: the kernel lets in one at a time.",
            "behind a call of another thread of the same program",
        )
    if _as_long_as_cpu_waits(context, group):
        sentence = f"The program's own threads waited as long for a CPU, as often at least; those that serve {group.device} need the same CPUs."
        return sentence, "as long as waits for a CPU, at a device of threads"
    return None


def _were_taken_late(context: Context, group: Group) -> bool:
    """Whether what stands apart had ended, and was not taken because its thread waited for another operation."""
    if group.stage != "reap" or group.cause.state in ("stopped", "throttled"):
        return False
    tid, end = columns_of(group.episodes, "tid", "end_ns")
    reap_ns = np.array([e.stage_ns[REAP] for e in group.episodes], np.int64)
    return bool(taken_late(context, tid, end - reap_ns, end).all())


def _as_long_as_cpu_waits(context: Context, group: Group) -> bool:
    """Whether what serves a software device may just have waited for a CPU, as the program's own threads did for as long."""
    at_software = STAGES.index(group.stage) in SOFTWARE_STAGES and is_software(group.device)
    if not at_software or group.cause.state == "trouble" or context.cpu_waits is None:
        return False
    if _competes(context, group):
        return False
    lost_ns = np.array([episode.stage_excess_ns for episode in group.episodes])
    begin, end = columns_of(group.episodes, "start_ns", "end_ns")
    held = context.serving_waits.may_have_held(group.device, begin, end, lost_ns)
    return bool((held & context.cpu_waits.as_many(lost_ns)).all())


def _with_own_work(context: Context, apart: list[tuple[Episode, Cause]]) -> list[tuple[Episode, Cause]]:
    """The same, with the cause of those that made many more requests, just waited until the file system had written out what their program had written, or
    for the worker of a loop device."""
    above = [episode for episode, _ in apart if episode.stage == "fs" and not episode.silence]
    tid, begin, end = columns_of(above, "tid", "start_ns", "end_ns")
    wrote = written_before(context, tid, begin, end)
    made = [episode for episode, _ in apart if episode.stage in MADE_IN and not episode.silence]
    first = np.array([episode.op_ids[0] for episode in made], np.int64)
    did_more = context.more_work.among(first) if made else ()
    own = {id(e): Cause(MORE, e.comm, _MORE_SAID, True) for e, did in zip(made, did_more, strict=True) if did}
    # One that waited for the file system did so whatever it made itself.
    own |= {
        id(e): Cause(WRITTEN, e.comm, _WRITTEN_SAID, True) for e, did in zip(above, wrote, strict=True) if did
    }
    others = written_for_another(context, tid, begin, end)
    own |= {
        id(e): Cause(WRITTEN_FOR, name, _WRITTEN_FOR_SAID.format(name), True)
        for e, name in zip(above, others, strict=True)
        if name
    }
    own |= {
        id(e): Cause(OWN_TURN, e.comm, _OWN_TURN_SAID, True)
        for e, did in zip(above, _behind_calls(context, above), strict=True)
        if did and id(e) not in own
    }
    queued = [e for e, cause in apart if e.stage == "queue" and not cause.certain and id(e) not in own]
    behind = queued_behind_own(context, queued)
    own |= {
        id(e): Cause(BEHIND_OWN, e.comm, _BEHIND_OWN_SAID, True)
        for e, did in zip(queued, behind, strict=True)
        if did
    }
    # `late_servers` explained these already.
    for late in late_workers(context.after(none_of(context.slow))) if apart else ():
        held = {int(op_id) for op_id in context.slow.op_id[late.held]}
        said = f"who serves {late.device} was ready; {late.who} had the CPU"
        own |= {
            id(e): Cause("runnable", late.who, said, True, late.own)
            for e, cause in apart
            if (not cause.certain or cause.state == "volume") and not held.isdisjoint(e.op_ids)
        }
    return [(episode, own.get(id(episode), cause)) for episode, cause in apart]


def _behind_calls(context: Context, episodes: list[Episode]) -> Bools:
    tid, begin, end = columns_of(episodes, "tid", "start_ns", "end_ns")
    return behind_own_calls(context.case, tid, begin, end, np.array([e.stage_excess_ns for e in episodes]))


def _by_recorder(context: Context, group: Group) -> bool:
    """Whether the recorder had the CPU meanwhile. If somebody asked for these operations, the verdict reports them with the stage, and accuses nobody else."""
    return group.cause.state == "runnable" and is_recorder(context.case, group.cause.who)


def _in_order(context: Context, fired: list[tuple[Found, Episode, Cause]]) -> list[Group]:
    """What fired by cause, the cause of what fired first in front."""
    every = list({id(episode): (episode, cause) for _, episode, cause in fired}.values())
    first = fired[0][1].op_ids
    return sorted(_groups(context, every), key=lambda group: all(e.op_ids != first for e in group.episodes))


def _ids(group: Group) -> set[int]:
    return {op_id for episode in group.episodes for op_id in episode.op_ids}


def _groups(context: Context, chosen: list[tuple[Episode, Cause]]) -> list[Group]:
    """Episodes by stage, device and cause; what cost most first."""
    return grouped(_on_their_devices(context, chosen))


def _on_their_devices(context: Context, chosen: list[tuple[Episode, Cause]]) -> list[tuple[Episode, Cause]]:
    """The same; episodes below the program that name no device, or one made of others, with the device that had the longest request of each of their operations.

    That request has to have been there for most of what was lost: else it was held on its way to the device.
    """
    if "block" not in context.surveys or "links" not in context.case.columns:
        return chosen
    volumes = volumes_of(context.case)
    open_ = [e for e, _ in chosen if e.stage in BELOW and (not e.device or e.device in volumes)]
    ids = np.unique(np.array([op_id for e in open_ for op_id in e.op_ids], np.int64))
    if not len(ids):
        return chosen
    longest = context.case.arrays(longest_sql(ids))
    took_ns = {
        int(op_id): (str(device), int(ns))
        for op_id, device, ns in zip(longest["op_id"], longest["device"], longest["latency_ns"], strict=True)
    }
    named = {}
    for episode in open_:
        served = [took_ns.get(op_id, ("", 0)) for op_id in episode.op_ids]
        lost_ns = BLAMED_DEVICE_MOSTLY * episode.stage_excess_ns
        if len({device for device, _ in served}) == 1 and served[0][0] and served[0][1] >= lost_ns:
            named[id(episode)] = served[0][0]
    return [(replace(e, device=named.get(id(e), e.device)), cause) for e, cause in chosen]


def grouped(chosen: list[tuple[Episode, Cause]]) -> list[Group]:
    """Episodes by stage, device and cause; what cost most first."""
    found: dict[tuple[str, str, str, str, bool], list[tuple[Episode, Cause]]] = {}
    for episode, cause in chosen:
        found.setdefault(kind_of_cause(episode, cause), []).append((episode, cause))
    groups = [
        Group(stage, device, members[0][1], [episode for episode, _ in members])
        for (stage, device, *_), members in found.items()
    ]
    return sorted(groups, key=lambda g: -sum(e.stage_excess_ns for e in g.episodes))


def _candidate(context: Context, group: Group, asked: Asked | None) -> Candidate:
    """`asked` is the question that these operations answer; None: they stand apart."""
    group = replace(group, holder=_holder(context, group))
    longest = max(group.episodes, key=lambda e: e.latency_ns)
    # All operations of these episodes, each of which waited for the same thing; their longest show where.
    held = np.array([ns for e in group.episodes for ns in e.each_ns])
    lost_ns = float((held - longest.typical_ns).sum())
    in_stage = sum(e.stage_excess_ns for e in group.episodes) / max(
        1.0, sum(e.latency_ns - e.typical_ns for e in group.episodes)
    )
    claim = claim_of(context, group, asked)
    shown = [(e.op_ids[0], int(e.each_ns[0])) for e in group.episodes if e.op_ids][:20]
    stages = ", ".join(f"{stage}_ns" for stage in _stages(context))
    ran = []
    if shown:
        ids = ", ".join(str(op_id) for op_id, _ in shown)
        least_ns = min(latency_ns for _, latency_ns in shown)
        ran.append(
            evidence(
                context.case,
                "these operations and their stages",
                f"""SELECT op_id, start_ns, op, device, latency_ns, {stages}
FROM judged WHERE layer = '{context.layer}' AND latency_ns >= {least_ns} AND op_id IN ({ids}) ORDER BY latency_ns DESC, op_id""",
            )
        )
    return Candidate(
        culprit=culprit_of(context, group),
        claim=claim,
        baseline=_baseline(longest, asked),
        effect=Effect("longest over typical", longest.latency_ns / max(1.0, longest.typical_ns), "x"),
        share_of_excess=min(1.0, in_stage),
        share_of_latency=min(1.0, lost_ns / max(1.0, _whole_ns(context, group))),
        of_ns=_whole_ns(context, group),
        p_value=0.0,
        episodes=len(group.episodes),
        evidence=ran,
        refute=_refute(context, group),
        remedy=_remedy(group),
        otherwise=claim,
        explains=_explains(context, group),
        basis="measured",
        answers=asked.kind if asked is not None else "",
        stopped=frozenset(e.tid for e in group.episodes if group.cause.state == "stopped"),
        worse=worse(
            context.survey,
            sorted({e.op for e in group.episodes}),
            held,
            np.full(len(held), longest.typical_ns),
            1.0,
            context.keeps_rate,
        ),
    )


def _holder(context: Context, group: Group) -> Holder | None:
    """The other program that let the threads of these go on, which slept for it above the block layer."""
    if group.stage != "fs" or group.cause.state != "blocked" or not group.cause.certain:
        return None
    tid, begin, end = columns_of(group.episodes, "tid", "start_ns", "end_ns")
    return other_program_of(context, tid, begin, end, group.cause.who)


def _whole_ns(context: Context, group: Group) -> float:
    """What a loss is a part of: the time of all operations; of silences, which lie between them, that of their threads."""
    latency_ns = context.survey.latency_ns
    if not any(episode.silence for episode in group.episodes):
        return latency_ns
    return max(latency_ns, context.threads_ns)


def culprit_of(context: Context, group: Group) -> Culprit:
    """Who: the stage, and the device or cause in it; a thread that was stopped or had no CPU is the culprit itself."""
    first = group.episodes[0]
    if group.cause.certain and group.cause.state == "stopped":
        return Culprit("process", _threads(group), "silence of the submitter, state stopped")
    if _competes(context, group) and not _by_recorder(context, group):
        return Culprit("process", group.cause.who, "stage:runqueue")
    if group.cause.certain and group.cause.state == "throttled":
        return Culprit("config", f"CPU limit of {first.comm}", "stage:runqueue")
    if group.cause.state == WRITTEN:
        return Culprit(
            "saturation",
            f"writing out what {group.cause.who or 'the program'} wrote before",
            f"stage:{group.stage}",
        )
    if group.cause.state == WRITTEN_FOR:
        return Culprit("process", group.cause.who, f"stage:{group.stage}")
    if group.cause.state == MORE:
        return Culprit(
            "saturation", f"the work of {group.cause.who or 'the program'} itself", f"stage:{group.stage}"
        )
    if group.cause.state in ("standstill", "stolen"):
        return Culprit("host", "hypervisor", "steal" if group.cause.state == "stolen" else "standstill")
    if group.stage == "app" and context.layer == "app" and context.case.program is not None:
        # Between its calls on storage a program does what it does: nobody is accused of it.
        return Culprit("saturation", f"{context.case.program} itself", "stage:app")
    if group.holder is not None:
        return Culprit("stage", context.stage(group.stage), f"process:{group.holder.name}")
    if group.cause.state == "volume":
        return Culprit("stage", context.stage(group.stage), f"device:{group.cause.who}")
    device = group.device or _only_device(context, group)
    entering = group.cause.certain and group.cause.who in ENTERS_QUEUE
    stage = "queue" if entering else group.stage
    return Culprit("stage", context.stage(stage), f"device:{device}" if device else None)


def _competes(context: Context, group: Group) -> bool:
    """Whether another program is known to have had the CPU that these needed.

    Threads of one program that crowd each other out want more CPUs than there are; the kernel works for whoever asked, and so does who serves their device.
    """
    cause = group.cause
    if not (cause.certain and cause.state == "runnable" and cause.who) or cause.own:
        return False
    return not is_kernel_thread(context.case, cause.who) and cause.who not in serving_names(context)


def _only_device(context: Context, group: Group) -> str:
    """The device that served everything, where a program's operations name none and there is but one."""
    block = context.surveys.get("block")
    devices = [name for name in block.by_device() if name] if block is not None else []
    return devices[0] if group.stage in BELOW and len(devices) == 1 else ""


def _baseline(longest: Episode, asked: Asked | None) -> str:
    typical = f"the median, {words.duration(longest.kind.median_ns)}"
    if asked is not None:
        return f"the {asked.kind} '{asked.text}', and {typical}"
    apart = longest.kind.apart
    others = (
        ""
        if apart is None
        else f"the longest other {'operation' if longest.kind.rare else longest.op + _of_size('its', longest.op)}, {words.duration(apart.next_value)}, and "
    )
    return f"{others}{typical}"


def claim_of(context: Context, group: Group, asked: Asked | None = None) -> str:
    """One sentence: how many, how long, against what, where, why."""
    latencies = sorted(ns for e in group.episodes for ns in e.each_ns)
    # The sentence gives the rest of the kind where it is known.
    longest = max(group.episodes, key=lambda e: (asked is None and e.kind.apart is not None, e.latency_ns))
    silent = sum(e.silence for e in group.episodes)
    kinds = Counter(e.op for e in group.episodes)
    noun = longest.op if len(kinds) == 1 else "operation"
    plural = words.plural_op(longest.op) if len(kinds) == 1 else "operations"
    took = words.duration(latencies[-1])
    if latencies[0] < 0.9 * latencies[-1]:
        took = f"{words.duration(latencies[0])} to {took}"
    others = f"where {words.duration(longest.kind.median_ns)} is typical"
    if asked is not None:
        others += f" and {asked.said}"
    elif longest.kind.apart is not None:
        rest = "operation" if longest.kind.rare else f"{longest.op}{_of_size('this', longest.op)}"
        # Those that were under way at the same time may have waited for the same.
        others += f" and at other times no {rest} took over {words.duration(longest.kind.apart.next_value)}{_compared(longest)}"
    name = context.stage(group.stage)
    place = f" of {group.device}" if group.device else ""
    if silent == len(group.episodes):
        what = f"{words.threads_together(_threads(group))} submitted nothing for {took}, {words.things(silent, 'time')}, {others}"
        return f"{what}: {group.cause.said}."
    there = sum(e.stage_ns[STAGES.index(group.stage)] for e in group.episodes)
    whole = max(1.0, sum(float(e.latency_ns) for e in group.episodes))
    number = _number(group, noun, plural)
    where = f"{words.percent(min(1.0, there / whole))} of that in the {name} stage{place}"
    why = f": {group.cause.said}" if group.cause.certain else f"; at the same time {group.cause.said}"
    if group.cause.state == "none":
        why = (
            "; what held it there was not observed"
            if len(group.episodes) == 1
            else "; what held them there was not observed"
        )
    let_go = f", {group.holder.let_go('it was')}" if group.holder is not None else ""
    return f"{number} took {took} {others}, {where}{why}{let_go}."


def _number(group: Group, noun: str, plural: str) -> str:
    """How many operations; in how many episodes, where they shared some."""
    number = sum(max(1, len(e.each_ns)) for e in group.episodes)
    said = words.things(number, noun, plural)
    if number == len(group.episodes):
        return said
    return (
        f"{said}{' at the same time' if len(group.episodes) == 1 else f' in {len(group.episodes)} episodes'}"
    )


def _compared(episode: Episode) -> str:
    """What was not counted of the others."""
    return " apart from waiting for a CPU" if episode.kind.without_cpu_waits else ""


def _of_size(which: str, op: str) -> str:
    """Only what moves data has a size."""
    return f" of {which} size" if op in SIZED else ""


def _threads(group: Group) -> str:
    return words.threads({(e.tid, e.comm) for e in group.episodes})


def _stages(context: Context) -> list[str]:
    return [stage for stage in STAGES if stage in context.survey.stages_observed]


def _explains(context: Context, group: Group) -> Bools:
    """Which slow operations belong to these episodes."""
    ids = np.array(sorted({op_id for e in group.episodes for op_id in e.op_ids}), np.int64)
    return np.asarray(np.isin(context.slow.op_id, ids), np.bool_)


def _refute(context: Context, group: Group) -> str:
    state = group.cause.state
    if state == "stopped":
        return "Find who sends SIGSTOP, and repeat without it: operations that stay slow have another cause."
    if state == "runnable":
        return "Run the same under a real-time priority (`chrt -f 50`) on a CPU of its own: if it comes again there, it was not the CPU."
    if state == "throttled":
        return "Lift the CPU limit of the control group and repeat: if it comes again, it was not the limit."
    if state == WRITTEN:
        return "Let the program sync more often, so that less is waiting each time: if its longest calls stay as long, this was not what held them."
    if state == WRITTEN_FOR:
        return "Let that program sync what it writes, piece by piece, or pause it: if the longest calls stay as long, they did not wait for it."
    if state == "volume":
        return NOT_VOLUME
    if state == MORE:
        return "Compare with operations that make as many requests: if they take far less time, it was not the work."
    if group.cause.certain and group.cause.who in ADVICE:
        return ADVICE[group.cause.who][1]
    if group.holder is not None:
        return group.holder.refute
    name = context.stage(group.stage)
    return (
        f"Record again until it comes back (`whodisk record --ring 30s --trigger 'latency > "
        f"{round(0.5e-6 * min(e.latency_ns for e in group.episodes), 1):g}ms'`): if the time is then not in the {name} stage, this was a coincidence."
    )


def _remedy(group: Group) -> str:
    state = group.cause.state
    if state == "stopped":
        return "Find out who stops the process (SIGSTOP, a debugger, job control, a freezer); the storage below only waited for it."
    if state == "runnable":
        return f"Give the program a CPU of its own, or {group.cause.who or 'the other one'} a lower priority."
    if state == "throttled":
        return "Raise the CPU quota, or its period."
    if state == "volume":
        return f"{SUSPENDED} {INSIDE_VOLUME}"
    if state == MORE:
        return "The program makes this work now and then (a checkpoint, a new log segment, a sync of all that it wrote). Let it do so more often and in smaller pieces, or in the background."
    if state == WRITTEN_FOR:
        return "A file system that is short of space waits for everything that is dirty. Free some of it; let that program write directly or sync as it goes, give its group an I/O limit, or another file system."
    if state == WRITTEN:
        return "The program made this work, and the file system chooses when to do it. Write fewer bytes, or sync earlier, or try another file system."
    if group.cause.certain and group.cause.who in ADVICE:
        return ADVICE[group.cause.who][0]
    if group.holder is not None:
        return group.holder.remedy
    if state == "trouble":
        return "Read the device's log (smartctl -x, nvme error-log, dmesg)."
    number = sum(max(1, len(e.each_ns)) for e in group.episodes)
    if number == 1:
        return "One operation is an answer to where it was, not yet to why: keep a flight recorder on for the next one."
    return f"{words.things(number, 'operation')} are an answer to where they were, not yet to why: keep a flight recorder on for the next one."


DETECTOR = Detector(
    name="outliers",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=(),
    null_model="the largest values belong to a tail with the spacings of the tail behind them, as in any Pareto tail; lighter ones "
    "have smaller ones (`whodisk.statistics.standing_apart`); where none does, the same once more without waits for a CPU",
    smallest_effect="one operation of 10 x the median of its kind, and twice the longest other one",
    run=run,
)
