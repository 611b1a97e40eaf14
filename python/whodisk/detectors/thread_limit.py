"""The limit that a program's own threads run into: syncs, durable writes, calls that make and remove files, or their CPU.

What a thread does comes before what it has in flight: a thread that waits for its syncs, or computes, is no faster with more in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.detectors.cpu_holders import hogs_of, told_crowd
from whodisk.detectors.flush_levels import FlushLevels, flush_levels
from whodisk.detectors.thresholds import (
    ASLEEP_BESIDES_MIN,
    BEHIND_SYNC_TOLD,
    FEW_CALLS_BEYOND,
    HELD_BELOW_MIN,
    LIMITING_DEVICE_MIN,
    OWN_CPU_MIN,
    SATURATION_SAMPLE_REQUESTS,
    SATURATION_SYNC_SHARE,
    SLEEPS_INSTEAD_MIN,
    SLEEPS_LOOKED_MIN,
    THREAD_BINDS_MIN,
    VOLUME_BINDS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.main_program import Program
from whodisk.evidence.running import Running, running_of
from whodisk.evidence.sleeps import of_threads
from whodisk.evidence.submitters import processes_of
from whodisk.evidence.survey import Stratum
from whodisk.evidence.thread_time import (
    ASLEEP,
    CALL_OF,
    DROPS,
    DURABLE,
    IN_FLIGHT,
    NO_CPU,
    OTHERS,
    PEER,
    READS,
    RUNNING,
    SYNC,
    SYNCS,
    WRITES,
    Calls,
    ThreadTime,
)
from whodisk.evidence.thresholds import FILES_LOOKED_UP_MAX, WAKERS_KNOWN_MIN
from whodisk.evidence.time_lost import submitters
from whodisk.machine.servers import AT_SERVER, FileServer, file_server_of, remote_of, synced_mount_of
from whodisk.machine.volume_time import VolumeTime, in_all_volumes
from whodisk.machine.wakers import Holder, holders_of
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Floats, Ints, overlap

#: Stages in which an operation is with the devices, or on its way there.
BELOW = ("throttle", "queue", "device", "interrupt")
#: Kinds of operations that move data, and that make it durable.
DATA = tuple(op for op, call in CALL_OF.items() if call in (READS, WRITES))
_SYNCS = tuple(op for op, call in CALL_OF.items() if call == SYNCS)


WITHOUT_THE_LONGEST = "Take away what held the longest of them (they are among the slowest operations) and repeat: if it is not faster, they are not what limits it."
IN_FEWER_FILES = "Run the same with the same bytes in fewer files: if it does not get faster, these calls are not what limits it."
#: What the calls beside reads, writes and syncs do where these kinds hold more than half of their time, and what would refute that it matters.
DOINGS = (
    (
        ("lookup", "list"),
        "look up names and list folders",
        "Run the same again at once, with the names in memory: if it does not get faster, these calls are not what limits it.",
    ),
    (("close",), "close files", IN_FEWER_FILES),
    (("attribute",), "set the mode, owner, times or attributes of files", IN_FEWER_FILES),
)
FEWER_SYNCS = "Run the same with half as many syncs: if it does not get faster, syncs are not what limits it."


@dataclass(frozen=True)
class Limit:
    """What binds, in words, and the experiment that would show that it does not."""

    said: str
    refute: str
    #: Device that holds most of the time that binds: it is not cleared.
    device: str = ""


def limit_of(context: Context, program: Program, time: ThreadTime) -> Limit | None:
    """What a program's threads do most of their time, where that is not to wait for reads and writes; None: these come next."""
    # Time in which other programs had the CPU is theirs, and no limit of this one.
    left = 1.0 - time.robbed
    if left <= 0:
        return None
    groups = {
        SYNCS: time.share[SYNCS] / left,
        DURABLE: time.share[DURABLE] / left,
        READS: (time.share[READS] + time.share[WRITES]) / left,
        DROPS: time.share[DROPS] / left,
        OTHERS: time.share[OTHERS] / left,
        PEER: time.share[PEER] / left,
        IN_FLIGHT: time.share[IN_FLIGHT] / left,
        RUNNING: (time.share[RUNNING] + time.share[NO_CPU] * time.own_cpu) / left,
        ASLEEP: time.share[ASLEEP] / left,
    }
    if time.any_sync >= SATURATION_SYNC_SHARE:
        # Others of its threads wait for those that sync: for a lock, or for a signal. Of their sleep, so much is while one syncs.
        behind = time.any_sync * groups[ASLEEP]
        groups[ASLEEP] -= behind
        groups[SYNCS if groups[SYNCS] >= groups[DURABLE] else DURABLE] += behind
    if max(groups, key=lambda what: groups[what]) == ASLEEP:
        for what, part in behind_calls(context, program, time).items():
            groups[ASLEEP] -= part / left
            groups[READS if what == WRITES else what] += part / left
    most = max(groups, key=lambda what: groups[what])
    if groups[most] < THREAD_BINDS_MIN:
        return None
    held = _binds(context, program, time, most)
    return None if held is None else replace(held, said=held.said + asleep_besides(context, program, time))


def behind_calls(context: Context, program: Program, time: ThreadTime) -> dict[str, float]:
    """For which part of their time threads slept behind others of their program, for a lock say, that were in calls on storage meanwhile: by the kind of call."""
    if not time.waits_known or not time.slept:
        return {}
    slept = _mostly_asleep(context, program, time)
    holder = slept.holder
    if holder is None or not set(holder.pids) <= set(program.pids):
        return {}
    asleep = min(time.share[ASLEEP], slept.part) * holder.share
    return {what: asleep * part for what, part in holder.in_calls.items()}


def _binds(context: Context, program: Program, time: ThreadTime, most: str) -> Limit | None:
    if most == SYNCS:
        return _syncs(context, program, time)
    if most == DURABLE:
        return _durable(context, program, time)
    if most == DROPS:
        return _drops(program, time)
    if most == OTHERS:
        return _others(context, program, time)
    if most == PEER:
        return _peer(program, time)
    if most == RUNNING and time.waits_known and not (time.flies and held_below(context) >= HELD_BELOW_MIN):
        return _computes(context, program, time)
    return None


def asleep_instead(context: Context, program: Program, time: ThreadTime) -> Limit | None:
    """What a program does whose threads sleep while no call on storage is under way: no limit, but what storage can not change.

    Who wakes a thread is recorded, but not whether it wanted a lock or had nothing to do.
    """
    share = time.share[ASLEEP]
    if not time.waits_known or share < SLEEPS_INSTEAD_MIN:
        return None
    low, high = time.begin_ns, time.begin_ns + time.span_ns
    # Also those of other programs: they may be what this one waits for.
    calls = context.case.arrays(
        f"""SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM measured
WHERE layer = '{context.layer}' AND start_ns < {int(high)} AND start_ns + latency_ns > {int(low)}"""
    )
    begin, end = (calls[name].astype(np.float64) for name in ("begin_ns", "end_ns"))
    without = 1.0 - float(overlap(np.array([low]), np.array([high]), begin, end)[0]) / time.span_ns
    if without < SLEEPS_INSTEAD_MIN:
        return None
    most = f"storage for {words.percent(1.0 - without)} of the time at most; in the rest no call on it is under way, and"
    running = running_of(context, program.sql, low, high)
    # Other processes of the recording may be what it waits for, and these need not be idle.
    alone = set(processes_of(context.case, context.layer)) <= set(program.pids)
    slept = _mostly_asleep(context, program, time)
    # Who waits for one that does something is not idle, though others of its threads may be.
    held = slept.holder is not None and bool(slept.holder.did) and not slept.holder.is_idle
    idle = _idle(context, program, running, (begin, end), low, high) if alone and not held else None
    if idle is not None:
        cause, part = idle
        return Limit(
            f"{most} for {words.percent(part)} of the time a thread of {program.name} sleeps {words.asleep(cause)}: idle time, and no limit",
            f"Give {program.name} twice as much to do: if it does not get more done, something else holds it up.",
        )
    ran_ns, tid, its_ns = running.computes(begin, end, low, high)
    if ran_ns >= SLEEPS_INSTEAD_MIN * time.span_ns:
        return Limit(
            f"{most} for {words.percent(ran_ns / time.span_ns)} of the time a thread of {program.name} computes{_most_of_all(program, running, tid, its_ns / time.span_ns)}",
            f"Run it on files in tmpfs: if {program.name} gets much faster, storage limits it after all.",
        )
    whose = (
        f"the thread of {program.name} sleeps {words.percent(share)} of its time"
        if time.threads == 1
        else f"the {words.count(time.threads)} threads of {program.name} sleep {words.percent(share)} of theirs"
    )
    fewer = " With half the threads: if it is as fast, they wait for each other." if time.threads > 1 else ""
    if slept.holder is not None and not set(slept.holder.pids) <= set(program.pids):
        fewer = f" Without {slept.holder.name}: if {program.name} is as fast, it was not that which it waited for."
    return Limit(
        f"{most} {whose}{slept.said}",
        f"Run it on files in tmpfs: if {program.name} gets much faster, storage limits it after all.{fewer}",
    )


def paced(program: Program, time: ThreadTime) -> Limit | None:
    """Of a program with threads that sleep half of their time or more for a time that they chose: think time, or a rate to keep. No limit of storage, but calls that take
    no time at all would not make it twice as fast."""
    chosen = {
        cause: part for cause, part in time.slept.items() if words.function(cause) in words.AS_WHEN_CHOSEN
    }
    share = sum(chosen.values())
    if not time.waits_known or share < SLEEPS_INSTEAD_MIN:
        return None
    most = max(sorted(chosen), key=lambda cause: chosen[cause])
    who = "its thread sleeps" if time.threads == 1 else f"{_its_threads(time)} sleep"
    return Limit(
        f"the pace of {program.name} itself: {who} {words.percent(share)} of the time {words.asleep(most)}, while no call on storage holds {'it' if time.threads == 1 else 'them'}",
        "Run it without these sleeps: if it does not get faster, they are not what sets its speed.",
    )


@dataclass(frozen=True)
class _Slept:
    """What threads mostly slept in outside of calls, in words, and whom they waited for there."""

    said: str
    holder: Holder | None = None
    #: Which part of the threads' time that is.
    part: float = 0.0


def _mostly_asleep(context: Context, program: Program, time: ThreadTime) -> _Slept:
    """For half of their sleep outside of calls or more, or half of what was looked at; empty where nothing was."""
    cause = max(sorted(time.slept), key=lambda name: time.slept[name], default="")
    looked = sum(time.slept.values())
    if not cause or time.slept[cause] < 0.5 * looked or looked < SLEEPS_LOOKED_MIN * time.share[ASLEEP]:
        return _Slept("")
    mostly = "mostly" if time.slept[cause] >= 0.5 * time.share[ASLEEP] else "as far as was looked at mostly"
    said = f", {mostly} {words.asleep(cause)}"
    low, high = int(time.begin_ns), int(time.begin_ns + time.span_ns)
    sleeps = context.case.arrays(
        f"""SELECT tid, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'blocked' AND coalesce(cause, {quoted(cause)}) = {quoted(cause)} AND tid IN ({", ".join(map(str, time.tids))}) AND start_ns >= {low} AND start_ns + duration_ns <= {high}
ORDER BY tid, start_ns"""
    )
    tid, begin, end = (sleeps[name].astype(np.int64) for name in ("tid", "begin_ns", "end_ns"))
    holder = next(iter(holders_of(context, tid, begin, end)), None)
    if holder is None or holder.share < WAKERS_KNOWN_MIN:
        return _Slept(said)
    part, who = words.percent(holder.share), "it" if time.threads == 1 else "they"
    return _Slept(
        f"{said}; for {part} of that {who} waited, directly or behind others, for {holder.said(program.pids)}",
        holder,
        time.slept[cause],
    )


def _most_of_all(program: Program, running: Running, tid: int, part: float) -> str:
    """Which thread computes longest, where there are several."""
    if len(running.names) == 1:
        return ""
    name = running.names.get(tid, "")
    called = f" ({name})" if name and name != program.name else ""
    return f", most of all thread {tid}{called}, {words.percent(part)}"


def _idle(
    context: Context,
    program: Program,
    running: Running,
    calls: tuple[Floats, Floats],
    low: float,
    high: float,
) -> tuple[str, float] | None:
    """What a thread of the program, whether it uses storage or not, mostly sleeps in until something comes from outside, and for which part of the time
    one does while no other runs, or could run, and no call is under way; None where that is less than half."""
    sleeps = context.case.arrays(
        f"""SELECT cause, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'blocked' AND cause IS NOT NULL AND {program.sql} AND start_ns < {int(high)} AND start_ns + duration_ns > {int(low)}"""
    )
    cause = np.array([words.function(str(name)) for name in sleeps["cause"]], np.str_)
    idle = np.isin(cause, words.AS_WHEN_IDLE)
    if not idle.any():
        return None
    cause = cause[idle]
    begin, end = (sleeps[name].astype(np.float64)[idle] for name in ("begin_ns", "end_ns"))
    part = running.outside(np.clip(begin, low, high), np.clip(end, low, high), *calls) / (high - low)
    if part < SLEEPS_INSTEAD_MIN:
        return None
    took = {name: float((end - begin)[cause == name].sum()) for name in np.unique(cause).tolist()}
    return max(took, key=lambda name: took[name]), part


def asleep_besides(context: Context, program: Program, time: ThreadTime) -> str:
    """How long threads slept outside of calls on storage, and in what; empty where that was little."""
    share = time.share[ASLEEP]
    if share < ASLEEP_BESIDES_MIN:
        return ""
    return f"; for {words.percent(share)} of the time no call on storage holds them, and they sleep{_mostly_asleep(context, program, time).said}"


def _few(context: Context, calls_sql: str, calls: Calls) -> str:
    """Which few of these calls hold most of their time; empty where no few do: then it is their number that counts."""
    mean_ns = calls.held_ns / calls.count
    beyond = f"FILTER (latency_ns > {FEW_CALLS_BEYOND * mean_ns!r})"
    row = context.case.rows(
        f"""SELECT count(*) {beyond} AS n, sum(latency_ns) {beyond} AS few_ns, sum(latency_ns) AS all_ns
FROM measured WHERE layer = '{context.layer}' AND {calls_sql}"""
    )[0]
    few, few_ns, all_ns = (float(row[name] or 0) for name in ("n", "few_ns", "all_ns"))
    if few == 0 or 2 * few_ns < all_ns:
        return ""
    held = f"{words.percent(few_ns / all_ns)} of that time"
    if few == 1:
        return f"; one of {words.count(calls.count)} held {held}, {words.duration(few_ns)}"
    return (
        f"; {words.count(few)} of {words.count(calls.count)} held {held}, {words.duration(few_ns / few)} each"
    )


def _syncs(context: Context, program: Program, time: ThreadTime) -> Limit:
    calls = time.calls[SYNCS]
    calls_sql = f"{program.sql} AND op IN ({', '.join(map(quoted, _SYNCS))})"
    flushing = _flushing(context, calls_sql)
    few = _few(context, calls_sql, calls)
    said = (
        f"syncs: {_waits(program.name, time, time.share[SYNCS])} for a sync, {words.duration(calls.held_ns / calls.count)} each, "
        f"{words.rate(calls.count / (time.span_ns / 1e9))} per second{_mostly(context, _SYNCS)}{flushing.said if flushing else ''}{few}"
    )
    if time.share[SYNCS] < SATURATION_SYNC_SHARE <= time.any_sync:
        said += f"; {words.percent(time.any_sync)} of the time, at least one thread is in a sync"
    if time.behind_sync >= BEHIND_SYNC_TOLD:
        said += (
            f". What it keeps in flight passes {words.percent(time.behind_sync)} of its time while its own thread sits in a sync, "
            "so a deeper queue brings nothing"
        )
    return Limit(said, WITHOUT_THE_LONGEST if few else FEWER_SYNCS, _held_by(context, _SYNCS, flushing))


def _durable(context: Context, program: Program, time: ThreadTime) -> Limit:
    calls = time.calls[DURABLE]
    requests = _requests_each(context, program)
    each = (
        f", {words.things(requests, 'request')} to the device for each" if requests and requests >= 1 else ""
    )
    flushing = _flushing(context, _durable_sql(program))
    where = (flushing.said if flushing else "") + _waited_in(context, program)
    few = _few(context, _durable_sql(program), calls)
    return Limit(
        f"durable writes (O_SYNC or O_DSYNC): {_waits(program.name, time, time.share[DURABLE])} for writes that return only when their data "
        f"are durable, {words.duration(calls.held_ns / calls.count)} each{each}{_mostly(context, ('write',))}{where}{few}",
        WITHOUT_THE_LONGEST
        if few
        else "Run the same without O_SYNC and O_DSYNC, or with fewer and larger writes: if it does not get faster, their durability is not "
        "what limits it.",
        _held_by(context, ("write",), flushing),
    )


def _drops(program: Program, time: ThreadTime) -> Limit:
    calls = time.calls[DROPS]
    return Limit(
        f"what it drops: {_waits(program.name, time, time.share[DROPS])} in calls that have pages dropped from the cache (posix_fadvise, BLKFLSBUF), "
        f"{words.duration(calls.held_ns / calls.count)} each; they write dirty ones out",
        "Run the same without these calls: if it does not get faster, they are not what limits it.",
    )


def _peer(program: Program, time: ThreadTime) -> Limit:
    return Limit(
        f"who is at the other end: {_waits(program.name, time, time.share[PEER])} in calls that move data (sendfile, splice), asleep until the other end of their "
        "connection or pipe takes or sends some; no storage is waited for then",
        "Let the other end discard what it gets: if it does not get faster, the other end is not what limits it.",
    )


def _others(context: Context, program: Program, time: ThreadTime) -> Limit:
    calls = time.calls[OTHERS]
    kinds = sorted({s.op for s in context.survey.strata} - set(CALL_OF))
    few = _few(context, f"{program.sql} AND op IN ({', '.join(map(quoted, kinds))})", calls) if kinds else ""
    moving = time.share[WRITES] + time.share[DURABLE]
    besides = f"; {words.percent(moving)} in writes and syncs" if moving >= BEHIND_SYNC_TOLD else ""
    held = {kind: sum(s.latency_ns for s in context.survey.select(op=kind)) for kind in kinds}
    done, experiment = next(
        (
            (done, experiment)
            for of, done, experiment in DOINGS
            if 2 * sum(held.get(kind, 0.0) for kind in of) > sum(held.values())
        ),
        ("open, make, rename or remove files", IN_FEWER_FILES),
    )
    return Limit(
        f"{'files, not data' if 2 * moving < time.share[OTHERS] else 'files and data'}: {_waits(program.name, time, time.share[OTHERS])} in calls that {done}, "
        f"{words.duration(calls.held_ns / calls.count)} each{_mostly(context, tuple(kinds))}{few}{besides}",
        WITHOUT_THE_LONGEST if few else experiment,
    )


def _computes(context: Context, program: Program, time: ThreadTime) -> Limit:
    without = time.share[NO_CPU]
    crowded = without * time.own_cpu
    runs = f"{_threads(time)} between calls {words.percent(time.share[RUNNING])} of the time, when storage does not hold it up"
    if time.own_cpu >= OWN_CPU_MIN and crowded >= THREAD_BINDS_MIN * (crowded + time.share[RUNNING]):
        return Limit(
            f"the CPUs: {program.name} has more to compute than there are CPUs. Its threads had none in {words.percent(without)} of their time, "
            f"{words.percent(time.own_cpu)} of that because other threads of {program.name} had them",
            f"Give {program.name} more CPUs, or run fewer of it at once: if each of them does not get faster, the CPUs are not what limits it.",
        )
    rest = (
        f"; for another {words.percent(without)} it had no CPU{_others_had_it(context)}"
        if without >= BEHIND_SYNC_TOLD
        else ""
    )
    return Limit(
        f"{program.name} itself: {runs}{rest}",
        f"Run the same on files in memory (tmpfs): if {program.name} gets much faster there, storage limits it after all.",
    )


def _others_had_it(context: Context) -> str:
    who = told_crowd(hogs_of(context, submitters(context)))
    return f", which others had: {who}" if who else ""


def _threads(time: ThreadTime) -> str:
    return "its thread computes" if time.threads == 1 else f"{_its_threads(time)} compute"


def _its_threads(time: ThreadTime) -> str:
    if time.busy > time.threads:
        return f"{words.count(time.threads)} of its {words.count(time.busy)} threads"
    return f"its {words.count(time.threads)} threads"


def _waits(comm: str, time: ThreadTime, share: float) -> str:
    """``fio waits 74 % of its thread's time``."""
    whose = "its thread's time" if time.threads == 1 else f"the time of {_its_threads(time)}"
    return f"{comm} waits {words.percent(share)} of {whose}"


def _mostly(context: Context, ops: tuple[str, ...]) -> str:
    """In which stage these operations spend most, or in which volume."""
    strata = [s for s in context.survey.strata if s.op in ops]
    whole = sum(s.latency_ns for s in strata)
    if whole <= 0:
        return ""
    shares = np.sum([s.stage_ns for s in strata], axis=0) / whole
    most = int(np.argmax(shares))
    volume = _in_volume(context, ops) if STAGES[most] == "fs" else None
    if volume is not None:
        return f", {words.percent(volume.part)} of it in {volume.said}"
    away = remote_said(context, ops) if STAGES[most] in AT_SERVER else ""
    return f", {words.percent(float(shares[most]))} of it in the {context.stage(STAGES[most])} stage{away}"


def _in_volume(context: Context, ops: tuple[str, ...]) -> VolumeTime | None:
    """The volume in which most of these operations' time passes, if that is one."""
    volume = in_all_volumes(context, ops)
    return volume if volume is not None and volume.part >= VOLUME_BINDS_MIN else None


def remote_said(context: Context, ops: tuple[str, ...]) -> str:
    """Where the data of most of these operations' files lie, if that is a network file system; or who serves it, if that is a process."""
    ids = _longest(context, ops)
    remote = remote_of(context, ids) if len(ids) else None
    if remote is not None:
        return f", at {remote.source} behind {remote.mount} ({remote.kind}) or on the way there"
    server = server_of(context, ops)
    return "" if server is None else f", in {server.said}, which serves {server.mount} (FUSE)"


def server_of(context: Context, ops: tuple[str, ...]) -> FileServer | None:
    """The process that serves the file system of most of the longest of these operations (FUSE)."""
    ids = _longest(context, ops)
    return file_server_of(context, ids) if len(ids) else None


def _longest(context: Context, ops: tuple[str, ...]) -> Ints:
    ids = context.case.arrays(
        f"SELECT op_id FROM measured WHERE layer = '{context.layer}' AND op IN ({', '.join(map(quoted, ops))}) ORDER BY latency_ns DESC, op_id LIMIT {FILES_LOOKED_UP_MAX}"
    )
    return ids["op_id"].astype(np.int64)


def synced_mount(context: Context, program: Program) -> Limit | None:
    """What sets its speed, and the experiment, where a program's longest calls change files on a mount with `sync`: each returns when the disk has it."""
    if context.layer != "syscall":
        return None
    longest = context.case.arrays(
        f"SELECT op_id FROM measured WHERE layer = 'syscall' AND {program.sql} ORDER BY latency_ns DESC, op_id LIMIT {FILES_LOOKED_UP_MAX}"
    )["op_id"].astype(np.int64)
    mount = synced_mount_of(context, longest) if len(longest) else None
    if mount is None:
        return None
    return Limit(
        f"{mount}, which is mounted with `sync`: each call that changes a file or a folder there returns when the disk has it",
        f"Mount {mount} without `sync` for a minute (mount -o remount,async {mount}) and repeat: if it does not get faster, it is not the option.",
    )


@dataclass(frozen=True)
class _Flushing:
    """A device that flushed its cache, and for which part of the time of the calls that waited for it."""

    device: str
    share: float
    each_ns: float
    #: Where that changed at one moment.
    levels: FlushLevels | None = None

    @property
    def said(self) -> str:
        """As the end of a sentence."""
        each = self.levels.said if self.levels else f"{words.duration(self.each_ns)} a flush"
        return f"; for {words.percent(self.share)} of it {self.device} flushed its cache, {each}"


def _held_by(context: Context, ops: tuple[str, ...], flushing: _Flushing | None) -> str:
    """The device that has most of these operations' time, in its device stage or while it flushes for a journal's commit; empty if none has."""
    if flushing is not None and flushing.share >= LIMITING_DEVICE_MIN:
        return flushing.device
    strata = [s for s in context.survey.strata if s.op in ops]
    whole = sum(s.latency_ns for s in strata)
    held: dict[str, float] = {}
    for stratum in strata:
        held[stratum.device] = held.get(stratum.device, 0.0) + float(stratum.stage_ns[STAGES.index("device")])
    most = max(held, key=lambda device: held[device], default="")
    if held.get(most, 0.0) >= LIMITING_DEVICE_MIN * whole > 0:
        return most
    volume = _in_volume(context, ops)
    return volume.held_by if volume is not None else ""


def held_below(context: Context) -> float:
    """Part of the time of reads and writes that they are with the devices."""
    strata: list[Stratum] = [s for s in context.survey.strata if s.op in DATA]
    whole = sum(s.latency_ns for s in strata)
    below = sum(float(s.stage_ns[STAGES.index(stage)]) for s in strata for stage in BELOW)
    return below / whole if whole > 0 else 0.0


def _durable_sql(program: Program) -> str:
    return f"{program.sql} AND op = 'write' AND coalesce(flags, 0) & {SYNC} > 0"


def _flushing(context: Context, calls: str) -> _Flushing | None:
    """For which part of these calls' time their device flushed its cache, from a stretch around the middle; None where that is little, or not known."""
    if "block" not in context.surveys or "device_ns" not in context.case.columns.get("ops/block", ()):
        return None
    of = f"FROM measured WHERE layer = '{context.layer}' AND device IS NOT NULL AND {calls}"
    rows = context.case.rows(f"SELECT device {of} GROUP BY 1 ORDER BY sum(latency_ns) DESC, 1 LIMIT 1")
    if not rows:
        return None
    device = str(rows[0]["device"])
    waits = context.case.arrays(
        f"""SELECT begin_ns, end_ns FROM (SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns,
    row_number() OVER (ORDER BY start_ns, op_id) AS place, count(*) OVER () AS every {of} AND device = {quoted(device)})
WHERE abs(place - every / 2) <= {SATURATION_SAMPLE_REQUESTS // 2} ORDER BY begin_ns"""
    )
    begin_ns, end_ns = waits["begin_ns"].astype(np.float64), waits["end_ns"].astype(np.float64)
    flushes = context.case.arrays(
        f"""SELECT start_ns + latency_ns - device_ns - coalesce(interrupt_ns, 0) AS begin_ns, start_ns + latency_ns AS end_ns FROM block_ops
WHERE device = {quoted(device)} AND op = 'flush' AND device_ns IS NOT NULL
  AND start_ns <= {int(end_ns.max())} AND start_ns + latency_ns >= {int(begin_ns.min())} ORDER BY start_ns, op_id"""
    )
    flush_begin_ns, flush_end_ns = (flushes[name].astype(np.float64) for name in ("begin_ns", "end_ns"))
    if len(flush_begin_ns) == 0:
        return None
    share = float(overlap(begin_ns, end_ns, flush_begin_ns, flush_end_ns).sum()) / float(
        (end_ns - begin_ns).sum()
    )
    if share < BEHIND_SYNC_TOLD:
        return None
    each_ns = float((flush_end_ns - flush_begin_ns).mean())
    return _Flushing(device, share, each_ns, flush_levels(context, device))


def _requests_each(context: Context, program: Program) -> float | None:
    """Requests that a durable write waits for, on average."""
    if "links" not in context.case.columns:
        return None
    row = context.case.rows(
        f"""WITH durable AS (SELECT op_id FROM measured WHERE layer = '{context.layer}' AND {_durable_sql(program)})
SELECT (SELECT count(*) FROM durable) AS writes,
  (SELECT count(*) FROM links JOIN durable ON durable.op_id = links.parent_id WHERE links.kind = 'waits_for') AS requests"""
    )[0]
    writes, requests = float(row["writes"] or 0), float(row["requests"] or 0)
    return requests / writes if writes and requests else None


def _waited_in(context: Context, program: Program) -> str:
    """For what threads slept most while they wrote, where the kernel says so: a page under writeback, a journal."""
    calls = context.case.arrays(
        f"""SELECT tid, start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM measured
WHERE layer = '{context.layer}' AND tid IS NOT NULL AND {_durable_sql(program)} ORDER BY begin_ns, op_id"""
    )
    tid, begin, end = (calls[name].astype(np.int64) for name in ("tid", "begin_ns", "end_ns"))
    slept: dict[str, float] = {}
    # Of what a thread slept between its writes, nothing counts.
    for mine, sleeps in of_threads(context.case, tid, begin, end):
        inside = overlap(sleeps.begin_ns, sleeps.end_ns, begin[mine], end[mine])
        for cause in np.unique(sleeps.cause[inside > 0]).tolist():
            slept[cause] = slept.get(cause, 0.0) + float(inside[sleeps.cause == cause].sum())
    slept.pop("io", None)
    if not slept:
        return ""
    cause = max(sorted(slept), key=lambda name: slept[name])
    share = slept[cause] / max(1.0, float((end - begin).sum()))
    return f"; for {words.percent(min(1.0, share))} of it the thread {words.slept(cause)}"
