"""Latency that Little's law and depth explain: nothing is broken, and a stated limit binds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.detectors.base import Detector, Result
from whodisk.detectors.blamed_device import said_of
from whodisk.detectors.flush_limit import flush_limit
from whodisk.detectors.taking_turns import FILES_OF_THEIR_OWN, taking_turns
from whodisk.detectors.thread_limit import (
    DATA,
    FEWER_SYNCS,
    asleep_besides,
    asleep_instead,
    behind_calls,
    held_below,
    limit_of,
    paced,
    remote_said,
    server_of,
    synced_mount,
)
from whodisk.detectors.thresholds import (
    AHEAD_MIN,
    COMPUTING_MIN,
    FILLED_WINDOW_MIN,
    FOREIGN_FILLED,
    HELD_BELOW_MIN,
    IN_MEMORY_MAX,
    LIMITING_DEVICE_MIN,
    LITTLE_TOLERANCE,
    ROBBED_MAX,
    SATURATED_SLOPE,
    SATURATION_REQUESTS_MIN,
    SATURATION_SAMPLE_REQUESTS,
    SATURATION_SYNC_SHARE,
    SERIAL_SHARE,
    SHARE_OF_LATENCY_MIN,
    THREAD_BINDS_MIN,
    TURN_SHARE_MAX,
    VOLUME_BINDS_MIN,
)
from whodisk.evidence.computing import computing_in
from whodisk.evidence.context import Context
from whodisk.evidence.main_program import Program, main_program
from whodisk.evidence.offered import done_per_s
from whodisk.evidence.survey import Stratum
from whodisk.evidence.thread_time import DURABLE, OTHERS, WRITES, ThreadTime, thread_time
from whodisk.machine.below_loop import always_below_loop
from whodisk.machine.kernel_threads import made_for
from whodisk.machine.readahead import read_ahead_kb
from whodisk.machine.volume_time import in_all_volumes
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Ints, disjoint, overlap
from whodisk.types import Cell

#: Of a limit that is a queue depth.
DEEPER = "Run the same with twice the queue depth: if throughput does not grow, the device is the limit."
#: Of one that is a number of threads.
MORE_THREADS = (
    "Run the same with twice as many threads: if throughput does not grow, the device is the limit."
)

#: Flag of an operation that goes past the page cache (case-format, Flags).
DIRECT = 1 << 8
#: Kinds of operations that the page cache answers, and reads ahead for, unless they go past it.
THROUGH_CACHE = ("read", "fault", "copy")

#: Operations whose bytes move; those of a sync are what it may have to write.
MOVING = (*DATA, "discard")


@dataclass
class Load:
    """What the workload kept in flight."""

    #: Operations per second.
    throughput: float
    #: Mean time an operation holds its slot, ns (without waiting for its turn).
    held_ns: float
    #: Slots the workload may fill; None if it is not known or inferred.
    depth: float | None
    #: Mean number in flight.
    in_flight: float
    kind: str
    bytes_per_s: float
    #: Whether `depth` is a ceiling: often reached, never exceeded.
    capped: bool = True
    #: Mean size that operations ask for.
    size_bytes: float = 0.0
    #: Whether most of them read through the page cache; and then, while they wait, how many requests the device has in flight, and how many for each.
    through_cache: bool = False
    at_once: float = 0.0
    ahead: float = 0.0
    #: Of calls their threads, begins and ends, ns; of the same stretch.
    calls: tuple[Ints, Ints, Ints] | None = None
    #: Which part of the program's time, from its first operation to its last, its operations on the device take from the first to the last.
    part: float = 1.0


def run(context: Context) -> Result:
    """The limit that binds, if there is one."""
    result = Result()
    load = _load(context)
    if load is None:
        return result
    if context.case.offered_per_s:
        _fixed_rate(context, result, load, context.case.offered_per_s)
    elif load.depth is not None:
        _closed_loop(context, result, load)
    else:
        _foreign(context, result, load)
    if result.limited and result.limit_refute is None:
        result.limit_refute = DEEPER
    return result


def _number(value: object) -> float | None:
    return (
        float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        else None
    )


def _load(context: Context) -> Load | None:
    survey = context.survey
    weight = sum(s.weight for s in survey.strata)
    if weight <= 0:
        return None
    seconds = survey.span_ns / 1e9
    waited_ns = sum(float(s.stage_ns[0]) for s in survey.strata)
    held_ns = max(0.0, survey.latency_ns - waited_ns) / weight
    spec = context.case.spec
    depth, workers = _number(spec.get("queue_depth")), _number(spec.get("workers")) or 1.0
    ops = {s.op for s in survey.strata}
    return Load(
        throughput=weight / seconds,
        held_ns=held_ns,
        depth=depth * workers if depth and context.layer == "app" else None,
        in_flight=weight * held_ns / survey.span_ns,
        kind=next(iter(ops)) if len(ops) == 1 else "operation",
        bytes_per_s=sum(s.size_bytes for s in survey.strata if s.op in MOVING) / seconds,
    )


def _little(load: Load, depth: float) -> str:
    allowed = depth / (load.held_ns / 1e9) if load.held_ns > 0 else math.inf
    return (
        f"queue depth {words.significant(depth)} at {words.duration(load.held_ns)} per {load.kind} allows "
        f"{words.rate(allowed)} IOPS; measured {words.rate(load.throughput)}"
    )


def _fixed_rate(context: Context, result: Result, load: Load, rate: float) -> None:
    done = done_per_s(context.case, context.survey)
    if context.keeps_rate:
        result.limit = f"the workload offers {words.rate(rate)} operations per second and gets them all"
        part = _turns(context)
        if load.depth and part >= TURN_SHARE_MAX:
            result.limit += (
                f", but they wait {words.percent(part)} of their time for their turn: no more than {words.significant(load.depth)} may be in flight, "
                f"{words.duration(load.held_ns)} each"
            )
            result.limited = True
        return
    reason = _little(load, load.depth) if load.depth else "the reason is not visible in this case"
    result.limit = (
        f"offered {words.rate(rate)} operations per second, achieved {words.rate(done)} "
        f"({words.percent(done / rate)}): {reason}"
    )
    result.limited = True


def _turns(context: Context) -> float:
    """Part of the time of operations, from when they were due, that they wait for their turn; also where they are counted from their submit on."""
    if not context.case.counts_from_submit:
        turns = sum(float(s.stage_ns[STAGES.index("app")]) for s in context.survey.strata)
        return turns / max(1.0, context.survey.latency_ns)
    row = context.case.rows(
        f"SELECT sum(app_ns) AS waited_ns, sum(latency_ns) AS all_ns FROM ops WHERE layer = '{context.layer}' AND NOT open AND app_ns IS NOT NULL"
    )[0]
    return float(row["waited_ns"] or 0) / max(1.0, float(row["all_ns"] or 0))


def _closed_loop(context: Context, result: Result, load: Load) -> None:
    assert load.depth is not None
    sync = _sync_limit(context, load)
    if sync:
        result.limit, result.limited = sync, True
        result.limit_refute = FEWER_SYNCS
        return
    filled = load.in_flight / load.depth
    if filled >= 1 - LITTLE_TOLERANCE:
        result.limit = _little(load, load.depth) + _bandwidth(load) + _saturated(context)
        result.limited = True
        return
    result.limit = (
        f"the submitting program: it may keep {words.significant(load.depth)} in flight and kept "
        f"{words.significant(load.in_flight)} ({_little(load, load.depth)})"
    )
    result.limited = True


def _foreign(context: Context, result: Result, load: Load) -> None:
    """Other programs: what the one that waited most kept in flight, by its own requests."""
    if context.layer == "app" and context.case.program is not None and "syscall" in context.surveys:
        # A thread's calls show what binds it; its program's own operations hold whatever it does.
        context = replace(context, layer="syscall")
    program = main_program(context)
    if program is None:
        return
    # What its threads do comes before what they have in flight: who waits for syncs, or computes, is no faster with more of it.
    time = thread_time(context, program)
    if time is not None and time.robbed > ROBBED_MAX:
        # What sets its speed is who has its CPU: that is no limit of its own.
        return
    of_threads = limit_of(context, program, time) if time is not None else None
    several = time is not None and time.threads > 1
    if of_threads is None and several and (alone := thread_time(context, program, alone=True)) is not None:
        # Its other threads sleep until that one has done their work.
        of_threads = limit_of(context, program, alone)
    held = of_threads or flush_limit(context, program)
    if held is not None:
        result.limit, result.limited, result.limit_refute = held.said, True, held.refute
        result.limiting_device = held.device
    else:
        _in_flight(context, result, program, time)
    _name_sync(context, result, program, time)
    if (
        not result.limited
        and time is not None
        and (asleep := asleep_instead(context, program, time) or paced(program, time))
    ):
        # It waits for no storage then, so it is at no limit of it; and what it waits for may be nothing to do.
        result.limit, result.limit_refute = asleep.said, asleep.refute


def _name_sync(context: Context, result: Result, program: Program, time: ThreadTime | None) -> None:
    """Puts before a limit that a mount option makes calls durable, where those that change files take a good part of the program's time."""
    if time is None or not result.limited or (synced := synced_mount(context, program)) is None:
        return
    behind = behind_calls(context, program, time)
    changing = sum(time.share[name] + behind.get(name, 0.0) for name in (WRITES, DURABLE, OTHERS))
    if changing >= THREAD_BINDS_MIN:
        result.limit = f"{synced.said}, {words.percent(changing)} of the time of its threads; {result.limit}"
        result.limit_refute = f"{synced.refute} {result.limit_refute or DEEPER}"


def _in_flight(context: Context, result: Result, program: Program, time: ThreadTime | None) -> None:
    """The limit that what a program keeps in flight shows, if that is one."""
    own = _own_load(context, program)
    if own is None or not own.depth:
        return
    # What it used for a part of its time sets the speed of that part.
    filled = own.part * own.in_flight / own.depth
    name = f"{program.name} on {program.device}" if program.device else program.name
    below = held_below(context)
    # What calls spend with devices is known only where requests were recorded, too.
    from_memory = context.layer == "syscall" and "block" in context.surveys and below < IN_MEMORY_MAX
    volume = in_all_volumes(context, DATA) if from_memory else None
    if volume is not None and volume.part >= VOLUME_BINDS_MIN:
        result.limit = (
            f"the volume {volume.volume}: {words.percent(volume.part)} of the time of {program.name}'s reads and writes passes in {volume.said}; "
            f"{words.percent(below)} with devices"
        )
        result.limit_refute = volume.refute
        result.limiting_device = volume.held_by
        result.limited = True
    elif (
        own.depth == 1
        and filled >= SERIAL_SHARE
        and from_memory
        and (server := server_of(context, DATA)) is not None
    ):
        of = f" of {words.size(own.size_bytes)}" if own.size_bytes >= 1 else ""
        result.limit = (
            f"{server.said}, which serves {server.mount} (FUSE): {program.name} waits for one call at a time there, {words.percent(min(1.0, filled))} of its time, "
            f"{words.rate(own.throughput)} per second{of}, {words.duration(own.held_ns)} each ({words.percent(below)} of that is spent with devices)"
        )
        result.limit_refute = f"Record it, too (whodisk record --pid {server.pid}), and look at its CPU time (top -H -p {server.pid}): if it mostly sleeps, it is not what limits {program.name}."
        result.limited = True
    elif own.depth == 1 and filled >= SERIAL_SHARE and from_memory:
        of = f" of {words.size(own.size_bytes)}" if own.size_bytes >= 1 else ""
        result.limit = (
            f"the calls of {program.name} themselves: it is in one of them {words.percent(min(1.0, filled))} of its time, {words.rate(own.throughput)} per second{of}, "
            f"{words.duration(own.held_ns)} each, and the kernel answers them from memory ({words.percent(below)} of that is spent with devices){_dropping(context)}"
        )
        result.limit_refute = "Run the same with a tenth of the calls, each ten times as large: if it does not get faster, their number is not what limits it."
        result.limited = True
    elif own.through_cache and own.ahead >= AHEAD_MIN and own.capped and filled >= SERIAL_SHARE:
        result.limit = _streams(context, program, own, filled)
        result.limit_refute = (
            f"Run two readers at once, or double read_ahead_kb of {program.device}{_read_ahead(context, program.device)}: "
            f"if throughput grows, {program.device} is not what limits it."
        )
        result.limiting_device = program.device
        result.limited = True
    elif own.depth == 1 and filled >= SERIAL_SHARE:
        if time is not None and not time.flies:
            # Who makes one call after the other has no queue depth to set.
            result.limit_refute = _beside(context, program, own)
        away = "" if program.device or context.layer != "syscall" else remote_said(context, DATA)
        result.timed_device = _with_device(context, program.device)
        result.limit = (
            f"{name} has one request in flight at a time ({words.percent(min(1.0, filled))} of the time, "
            f"{words.duration(own.held_ns)} each); {_little(own, 1)}{_bandwidth(own)}{away}{_under_loop(context, program.device)}"
        )
        result.limited = True
    elif (
        own.depth > 1
        and own.capped
        and filled >= FOREIGN_FILLED
        and own.calls is not None
        and below < 1 - COMPUTING_MIN
        and (computing := computing_in(context.case, *own.calls) or 0.0) >= COMPUTING_MIN
    ):
        result.limit = (
            f"the calls of {program.name} themselves: {words.count(own.depth)} at a time, {words.rate(own.throughput)} per second, {words.duration(own.held_ns)} each, and "
            f"{words.percent(computing)} of that their threads compute in the kernel, which copies, looks up names or unpacks data ({words.percent(below)} is spent with devices)"
        )
        result.limit_refute = "Run the same on more CPUs: if it does not get faster, they are not what limits it. `perf top` shows what the kernel does there."
        result.limited = True
    elif own.depth > 1 and own.capped and filled >= FOREIGN_FILLED:
        rest = each = ""
        if filled < 1 - LITTLE_TOLERANCE:
            where = "above the block layer" if context.layer == "block" else "outside of these calls"
            rest = f"; {words.percent(1 - filled)} of its slots' time passes {where}"
        if time is not None and not time.flies and own.depth == time.threads:
            each = f"each of its {words.count(time.threads)} threads has one call in flight at a time; "
            result.limit_refute = MORE_THREADS
            turns = taking_turns(context, own.calls, own.in_flight, own.at_once) if own.calls else None
            if turns is not None:
                each += turns.said(program.device, own.at_once)
                result.limit_refute = FILES_OF_THEIR_OWN
        result.timed_device = _with_device(context, program.device)
        result.limit = f"{name}: {each}{_little(own, own.depth)}{_bandwidth(own)}{rest}{_saturated(context)}{_under_loop(context, program.device)}"
        result.limited = True
    elif own.in_flight < SERIAL_SHARE:
        result.observed.append(
            f"{name} had {words.significant(own.in_flight, 2)} requests in flight on average: most of its time was "
            f"not spent waiting for this device{asleep_besides(context, program, time) if time is not None else ''}."
        )


def _with_device(context: Context, device: str) -> str:
    """The device, if it has most of the time of the operations there: then what limits is how long it takes."""
    strata = context.survey.select(device) if device else []
    whole = sum(s.latency_ns for s in strata)
    there = sum(float(s.stage_ns[STAGES.index("device")]) for s in strata)
    return device if there >= LIMITING_DEVICE_MIN * whole > 0 else ""


def _streams(context: Context, program: Program, own: Load, filled: float) -> str:
    """Of a program for which the kernel reads ahead: its device is never without a request, however few calls wait."""
    return (
        f"{program.device}, which delivers {words.size(own.bytes_per_s)}/s to {program.name}. {program.name} waits for it {words.percent(min(1.0, filled))} of the time, "
        f"and then has {words.significant(own.at_once, 2)} requests in flight there, because the kernel reads ahead"
        f"{_under_loop(context, program.device)}"
    )


def _read_ahead(context: Context, device: str) -> str:
    """What the setting is, where that was recorded."""
    window_kb = read_ahead_kb(context, device)
    return "" if window_kb is None else f" (now {window_kb})"


def _beside(context: Context, program: Program, own: Load) -> str:
    """The experiment for a program that has one call in flight at a time."""
    ahead = ""
    if (
        own.through_cache
        and program.device
        and _fetched_ahead(context)
        and _fills_window(context, program.device)
    ):
        ahead = (
            f", or give it a larger read_ahead_kb of {program.device}{_read_ahead(context, program.device)}"
        )
    return f"Run two of it at once{ahead}: if throughput does not grow, {program.device or 'what answers its calls'} is the limit."


def _dropping(context: Context) -> str:
    """What calls take that have pages dropped, where that is much; they write what is dirty before."""
    part = sum(s.latency_ns for s in context.survey.select(op="drop")) / max(1.0, context.survey.latency_ns)
    if part < SHARE_OF_LATENCY_MIN:
        return ""
    return f", but for {words.percent(part)} of it: in that it has pages dropped from the cache, which writes dirty ones out"


def _fetched_ahead(context: Context) -> bool:
    """Whether the kernel fetched more ahead than on demand, as it does for who reads in order; True where that is not known."""
    if "prefetch" not in context.case.columns:
        return True
    row = context.case.rows(
        "SELECT sum(issued_bytes) AS issued, sum(missed_bytes) AS missed FROM measured_prefetch"
    )[0]
    return float(row["issued"] or 0) >= float(row["missed"] or 0)


def _fills_window(context: Context, device: str) -> bool:
    """Whether requests come near what readahead may fetch at a time: of small files a larger window fetches no more. True where the setting is not known."""
    window_kb = read_ahead_kb(context, device)
    reads = context.surveys["block"].select(op="read") if "block" in context.surveys else []
    reads = [stratum for stratum in reads if stratum.device == device]
    if window_kb is None or not reads:
        return True
    mean_bytes = sum(s.size_bytes for s in reads) / max(1.0, sum(s.operations for s in reads))
    return mean_bytes >= FILLED_WINDOW_MIN * 1024 * window_kb


def _under_loop(context: Context, device: str) -> str:
    """What the disk under a loop device does meanwhile."""
    said = said_of(always_below_loop(context, device))
    return f". {said}" if said else ""


def _own_load(context: Context, program: Program) -> Load | None:
    """What a program kept in flight, from a stretch of its requests around the middle."""
    its = f"layer = '{context.layer}' AND {program.sql}"
    where = f"{its} AND coalesce(device, '') = {quoted(program.device)}"
    whole = context.case.rows(
        f"""SELECT count(*) AS n, min(start_ns) AS low_ns, max(start_ns + latency_ns) AS high_ns,
  coalesce(sum(size_bytes) FILTER (op IN {MOVING}), 0) AS size_bytes,
  (SELECT max(start_ns + latency_ns) - min(start_ns) FROM measured WHERE {its}) AS every_ns FROM measured WHERE {where}"""
    )[0]
    count, low_ns, high_ns = (_int(whole[name]) for name in ("n", "low_ns", "high_ns"))
    if count < SATURATION_REQUESTS_MIN or high_ns <= low_ns:
        return None
    # Requests of the middle, as many as are needed for a depth and few enough to sort.
    half_ns = (high_ns - low_ns) * min(1.0, SATURATION_SAMPLE_REQUESTS / count) / 2
    middle_ns = (low_ns + high_ns) / 2
    sample = context.case.arrays(
        f"""SELECT start_ns, latency_ns, coalesce(tid, 0) AS tid, coalesce(size_bytes, 0) AS size_bytes,
  op IN {MOVING} AS moving, op IN {THROUGH_CACHE} AND (op = 'fault' OR coalesce(flags, 0) & {DIRECT} = 0) AS cached FROM measured WHERE {where}
  AND start_ns >= {int(middle_ns - half_ns)} AND start_ns <= {int(middle_ns + half_ns)} ORDER BY start_ns, op_id"""
    )
    start_ns, latency_ns = (sample[name].astype(np.int64) for name in ("start_ns", "latency_ns"))
    size_bytes = sample["size_bytes"][sample["moving"].astype(np.bool_)].astype(np.float64)
    if len(start_ns) < SATURATION_REQUESTS_MIN:
        return None
    # The stretch itself, without a program's start and end, is what its rate is judged by.
    span_ns = max(1, int(start_ns[-1] - start_ns[0]))
    held_ns = float(latency_ns.mean())
    throughput = len(start_ns) / (span_ns / 1e9)
    depth, deepest = _depth(start_ns, latency_ns)
    bytes_per_s = throughput * _int(whole["size_bytes"]) / count
    through_cache, at_once, ahead, calls = False, 0.0, 0.0, None
    if context.layer == "syscall":
        calls = sample["tid"].astype(np.int64), start_ns, start_ns + latency_ns
        # What a call asked for is not what it got: who reads a file to its end asks for more than there is.
        through_cache = bool(sample["cached"].astype(np.bool_).mean() > 0.5)
        moved_bytes, at_once, ahead = _requests(
            context, program, ("read",) if through_cache else MOVING, start_ns, start_ns + latency_ns
        )
        bytes_per_s = moved_bytes / (span_ns / 1e9)
    return Load(
        throughput=throughput,
        held_ns=held_ns,
        depth=depth,
        capped=deepest <= depth,
        in_flight=throughput * held_ns / 1e9,
        kind="request",
        bytes_per_s=bytes_per_s,
        size_bytes=float(size_bytes.mean()) if len(size_bytes) else 0.0,
        through_cache=through_cache,
        at_once=at_once,
        ahead=ahead,
        calls=calls,
        part=(high_ns - low_ns) / max(1, high_ns - low_ns, _int(whole["every_ns"])),
    )


def _requests(
    context: Context, program: Program, ops: tuple[str, ...], begin_ns: Ints, end_ns: Ints
) -> tuple[float, float, float]:
    """What the program's requests of these kinds to its device move from the first of these calls to the last, bytes; how many are in flight while a call waits, and
    how many for each that does. Nothing where requests were not recorded."""
    if "block" not in context.surveys or not program.device:
        return 0.0, 0.0, 0.0
    data = context.case.arrays(
        f"""SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns, coalesce(size_bytes, 0) AS size_bytes, coalesce(comm, '') AS comm, {program.sql} AS own
FROM measured WHERE layer = 'block' AND device = {quoted(program.device)} AND op IN ({", ".join(map(quoted, ops))})
  AND start_ns <= {int(begin_ns[-1])} AND start_ns + latency_ns >= {int(begin_ns[0])}"""
    )
    # The kernel's threads read and write for whoever caused it.
    comm = data["comm"].astype(str)
    own = data["own"].astype(np.bool_) | ((comm != "") & made_for(context.case, comm, ()))
    begin, end = (data[name].astype(np.float64)[own] for name in ("begin_ns", "end_ns"))
    moved = float(data["size_bytes"].astype(np.float64)[own & (data["begin_ns"] >= begin_ns[0])].sum())
    with_calls_ns = float(overlap(begin, end, begin_ns, end_ns).sum())
    lows, highs = disjoint(begin_ns, end_ns)
    any_ns, each_ns = float(np.maximum(0.0, highs - lows).sum()), float((end_ns - begin_ns).sum())
    return moved, with_calls_ns / max(1.0, any_ns), with_calls_ns / max(1.0, each_ns)


def _depth(start_ns: Ints, latency_ns: Ints) -> tuple[float, float]:
    """The number in flight that 95 % of the requests found at most, themselves included, and the largest."""
    ended = np.searchsorted(np.sort(start_ns + latency_ns), start_ns, side="right")
    depth = np.arange(1, len(start_ns) + 1) - ended
    # The first requests of the stretch found others in flight that are not in it.
    settled = depth[len(depth) // 10 :]
    return float(np.percentile(settled, 95, method="lower")), float(settled.max())


def _int(value: Cell) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _sync_limit(context: Context, load: Load) -> str | None:
    """Workloads that wait for a sync most of the time."""
    strata = [s for s in context.survey.strata if s.op == "sync"]
    if not strata or load.depth is None:
        return None
    spec = context.case.spec
    workers = _number(spec.get("workers")) or 1.0
    busy = sum(s.latency_ns for s in strata) / (workers * context.survey.span_ns)
    if busy < SATURATION_SYNC_SHARE:
        return None
    number = sum(s.weight for s in strata)
    mean_ns = sum(s.latency_ns for s in strata) / number
    return (
        f"sync writes: each worker waits {words.percent(busy)} of the time for a sync, {words.duration(mean_ns)} "
        f"each, {words.rate(number / (context.survey.span_ns / 1e9))} per second"
    )


def _bandwidth(load: Load) -> str:
    mean_bytes = load.bytes_per_s / load.throughput if load.throughput else 0
    return f" ({words.size(load.bytes_per_s)}/s)" if mean_bytes >= 65536 else ""


def _saturated(context: Context) -> str:
    """Whether latency grew in proportion to depth where the case has several depths of one kind."""
    strata = context.surveys.get("block", context.survey).strata
    # Where operations wait for their thread, or for a CPU, requests of a deep queue take longer, too.
    if not strata or (context.layer != "block" and held_below(context) < HELD_BELOW_MIN):
        return ""
    main = max(strata, key=lambda s: s.latency_ns)
    same = [s for s in strata if _same_kind(s, main) and s.operations >= 0.01 * main.operations]
    low = min(same, key=lambda s: s.depth_class)
    octaves = main.depth_class - low.depth_class
    if octaves < 2 or low.own_median_ns <= 0:
        return ""
    slope = math.log2(main.own_median_ns / low.own_median_ns) / octaves
    if slope < SATURATED_SLOPE:
        return ""
    return (
        f"; {main.device or 'the device'} is at its limit: latency grows with depth "
        f"({words.duration(low.own_median_ns)} at about {2**low.depth_class}, "
        f"{words.duration(main.own_median_ns)} at about {2**main.depth_class})"
    )


def _same_kind(stratum: Stratum, main: Stratum) -> bool:
    return (stratum.device, stratum.op, stratum.size_class) == (main.device, main.op, main.size_class)


DETECTOR = Detector(
    name="saturation",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=(),
    null_model="Little's law: in a closed loop throughput x latency equals depth; no test, an identity to check",
    smallest_effect="throughput x latency within 10 % of the depth",
    run=run,
)
