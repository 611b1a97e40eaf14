"""Silence above the device: the workload had work, and nothing was in flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, evidence_beyond, large_enough
from whodisk.detectors.thresholds import (
    GAP_STATE_MIN,
    GAP_TOGETHER_MAX,
    SEEN_P99_RATIO_MIN,
    SHARE_OF_LATENCY_MIN,
    SILENCE_RATIO_MIN,
    SILENCE_ROUNDS,
    STOPS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.late_threads import LateOperations, late_while_held, untaken
from whodisk.evidence.process_stops import process_stops_sql
from whodisk.evidence.replay import Replay, replayed_without_stops
from whodisk.evidence.slow_operations import SlowSet, chains
from whodisk.evidence.submitters import operations_of
from whodisk.evidence.thread_stops import Stops, find_stops
from whodisk.evidence.thresholds import ORDINARY_WAIT_NS
from whodisk.evidence.time_lost import submitters
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.statistics import probability
from whodisk.statistics.coincidence import Intervals, coincidence_p
from whodisk.statistics.stats import (
    Bools,
    Floats,
    Ints,
    bootstrap_ratio,
    bootstrap_sum,
    disjoint,
    episodes,
    extents,
    overlap,
)

#: A silence shorter than the case keeps in its table is not seen at all (DESIGN 5).
SHORTEST_GAP_NS = 1_000_000

#: Up to this many threads are compared one by one.
FEW_THREADS = 16

#: State of a silence during which the process was seen stopped.
STOPPED = "stopped"
#: ... during which nobody saw what the thread did.
UNOBSERVED = "unobserved"
#: A process that was seen stopped could not do what it meant, whatever that was.
MEANT = f"(meant_busy OR state = '{STOPPED}')"


@dataclass
class Gaps:
    """Silences inside the measured window, one array element each."""

    tid: Ints
    comm: npt.NDArray[Any]
    start_ns: Ints
    duration_ns: Ints
    state: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.tid)

    def pick(self, chosen: Bools) -> Gaps:
        """Some of them."""
        return Gaps(
            self.tid[chosen],
            self.comm[chosen],
            self.start_ns[chosen],
            self.duration_ns[chosen],
            self.state[chosen],
        )


def gaps_sql(context: Context, meant_busy: bool) -> str:
    """The silences of one kind, clipped to nothing: whole, if they begin in the measured window."""
    survey = context.survey
    return f"""SELECT tid, comm, start_ns, duration_ns, state
FROM gaps
WHERE layer = '{context.layer}' AND {MEANT if meant_busy else f"NOT {MEANT}"}
  AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}
ORDER BY start_ns, tid"""


def _gaps(context: Context, meant_busy: bool) -> Gaps:
    data = context.case.arrays(gaps_sql(context, meant_busy))
    ints = {name: data[name].astype(np.int64) for name in ("tid", "start_ns", "duration_ns")}
    names = np.array(["" if v is None else str(v) for v in data["comm"]], dtype=object)
    return Gaps(ints["tid"], names, ints["start_ns"], ints["duration_ns"], data["state"])


def run(context: Context) -> Result:
    """One candidate for the silences in which the workload was seen stopped, one for all others."""
    result = Result()
    if not context.survey.operations:
        return result
    typical_ns = context.survey.quantile_ns(context.survey.strata, 0.5)
    every = _with_untaken(context, _gaps(context, meant_busy=True))
    shortest_ns = int(every.duration_ns.min()) if len(every) else 0
    limit_ns = max(ORDINARY_WAIT_NS, SILENCE_RATIO_MIN * typical_ns)
    long = every.duration_ns >= limit_ns
    # Where the stop itself was seen, nothing is left to infer: those silences are judged by themselves, also short ones.
    stopped = np.asarray(every.state == STOPPED, np.bool_)
    stops = find_stops(context) if "waits" in context.case.columns else None
    if stops is not None:
        result.candidates.append(_stopped(context, stops, typical_ns, shortest_ns))
        long &= ~_during(every, stops)
    for chosen in (stopped if stops is None else stopped & False, long & ~stopped):
        if chosen.any():
            found = _candidate(context, every.pick(chosen), len(every), limit_ns, typical_ns, shortest_ns)
            result.candidates.append(found)
    _presumed(context, result, typical_ns)
    return result


def _with_untaken(context: Context, gaps: Gaps) -> Gaps:
    """The silences of threads that nobody watched, with the times in which they did not take what had ended below: then something is in flight all the same."""
    if "waits" in context.case.columns and context.case.rows("SELECT 1 AS one FROM waits LIMIT 1"):
        return gaps
    waits = untaken(context, SHORTEST_GAP_NS)
    if not len(waits):
        return gaps
    rows = context.case.rows(
        f"SELECT tid, coalesce(min(comm), '') AS comm FROM measured WHERE layer = '{context.layer}' AND tid IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    comms = {int(row["tid"] or 0): str(row["comm"]) for row in rows}
    states = np.append(gaps.state, np.full(len(waits), UNOBSERVED, dtype=object))
    tid = np.append(gaps.tid, waits.thread)
    begin = np.append(gaps.start_ns, waits.begin_ns)
    end = np.append(gaps.start_ns + gaps.duration_ns, waits.end_ns)
    whole = []
    for thread in np.unique(tid).tolist():
        mine = np.flatnonzero(tid == thread)
        mine = mine[np.argsort(begin[mine], kind="stable")]
        numbers = chains(begin[mine], end[mine])
        since, until = extents(numbers, begin[mine], end[mine])
        first = mine[np.searchsorted(numbers, np.arange(len(since)))]
        whole += list(zip(since.tolist(), until.tolist(), first.tolist(), strict=True))
    since, until, first = np.array(sorted(whole), np.int64).T
    names = np.array([comms.get(thread, "") for thread in tid[first].tolist()], dtype=object)
    return Gaps(tid[first], names, since, until - since, states[first])


def _presumed(context: Context, result: Result, typical_ns: float) -> None:
    """Silences of programs with unknown intentions: reported, never a finding."""
    every = _gaps(context, meant_busy=False)
    command = context.case.meta.get("command") or [""]
    # The kernel keeps 15 characters of a command name.
    name = str(command[0]).rsplit("/", 1)[-1][:15]
    known = every.comm == name if name else np.isin(every.tid, _main_threads(context))
    gaps = every.pick(known)
    explained = _waits(context, gaps)
    long = gaps.pick(gaps.duration_ns >= max(10_000_000.0, 20 * typical_ns))
    if not len(long) or explained.explained.any():
        return
    total_ns, span_ns = int(long.duration_ns.sum()), context.survey.span_ns
    if total_ns < 0.01 * span_ns:
        return
    result.observed.append(
        f"{_threads(long)} had nothing in flight {words.things(len(long), 'time')} for "
        f"{words.duration(total_ns)} in all, the longest {words.duration(int(long.duration_ns.max()))}; "
        "whether it meant to submit then is not known."
    )


def _waits(context: Context, gaps: Gaps) -> LateOperations:
    seen = set(gaps.state) == {STOPPED}
    return late_while_held(context, gaps.tid, gaps.start_ns, gaps.duration_ns, seen=seen)


def _candidate(
    context: Context, gaps: Gaps, total: int, limit_ns: float, typical_ns: float, shortest_ns: int
) -> Candidate:
    waits = _waits(context, gaps)
    seen = set(gaps.state) == {STOPPED}
    numbers = episodes(gaps.start_ns, gaps.start_ns + gaps.duration_ns)
    silent_ns = int(gaps.duration_ns.sum())
    submitters = max(1, len(operations_of(context.case, context.layer)))
    share_of_time = silent_ns / (submitters * context.survey.span_ns)
    shares = _shares(context, waits.explained, share_of_time)
    low, high = bootstrap_sum(np.bincount(numbers, gaps.duration_ns) / (submitters * context.survey.span_ns))
    claim = _claim(gaps, numbers, waits, context)
    # Whatever keeps a thread from submitting: what is due meanwhile, and all behind it, waits as it does for one that is stopped.
    silences = gaps.tid, gaps.start_ns, gaps.duration_ns
    replay = replayed_without_stops(context, *silences)
    return Candidate(
        culprit=Culprit("process", _threads(gaps), f"silence of the submitter, state {_states(gaps)}"),
        claim=claim,
        baseline=f"the rest of the {words.duration(context.survey.span_ns)} in which the threads kept submitting",
        effect=Effect("silent part of the submitters' time", share_of_time, "1", low, min(1.0, high)),
        share_of_excess=shares.excess,
        share_of_latency=shares.latency,
        # That a process was stopped is read off the record.
        p_value=0.0 if seen else _p_value(context, gaps, waits, limit_ns, total),
        basis="measured" if seen else "inferred",
        summed=seen,
        episodes=int(numbers.max()) + 1,
        evidence=_evidence(context, shortest_ns),
        refute="Run the same workload under a real-time priority (`chrt -f 50`) on a CPU of its own: silences that "
        "stay are not the scheduler's, and silences below the block layer would show as device time.",
        remedy=_remedy(context, gaps),
        otherwise=claim,
        explains=waits.explained,
        stopped=frozenset(gaps.tid[gaps.state == STOPPED].tolist()),
        share_low=shares.low,
        share_high=shares.high,
        large=large_enough(
            max(share_of_time, shares.latency),
            shares.excess if len(context.slow) else 1.0,
            float(np.median(gaps.duration_ns)) / max(1.0, typical_ns),
            int(numbers.max()) + 1,
        ),
        p99_ratio=None if replay is None else replay.p99_ratio,
        stops=silences,
    )


def _during(gaps: Gaps, stops: Stops) -> Bools:
    """Silences of which a stop that was seen is half or more: they are judged with it."""
    inside: Bools = np.zeros(len(gaps), np.bool_)
    for tid in np.unique(stops.tid):
        mine, theirs = gaps.tid == tid, stops.tid == tid
        begin, end = stops.start_ns[theirs], (stops.start_ns + stops.duration_ns)[theirs]
        silent = overlap(gaps.start_ns[mine], (gaps.start_ns + gaps.duration_ns)[mine], begin, end)
        inside[mine] = silent >= 0.5 * gaps.duration_ns[mine]
    return inside


def _stopped(context: Context, stops: Stops, typical_ns: float, shortest_ns: int) -> Candidate:
    """Stops that were seen, with what they cost by subtraction."""
    count = len(stops.tid)
    gaps = Gaps(
        stops.tid,
        stops.comm,
        stops.start_ns,
        stops.duration_ns,
        np.array([STOPPED] * count, dtype=object),
    )
    waits = _waits(context, gaps)
    numbers = episodes(stops.start_ns, stops.start_ns + stops.duration_ns)
    p99_ns, p99_without_ns = stops.p99_ns, stops.p99_without_ns
    behind = behind_low = 0.0
    if stops.replay is not None:
        p99_ns, p99_without_ns = stops.replay.p99_ns, stops.replay.p99_without_ns
        since, _ = extents(numbers, stops.start_ns, stops.start_ns + stops.duration_ns)
        late = stops.replay.lost_per_event_ns(np.sort(since)) / max(1.0, context.survey.latency_ns)
        behind, (behind_low, _) = float(late.sum()), bootstrap_sum(late)
    worse = p99_ns / max(1.0, p99_without_ns)
    shares = _shares(context, waits.explained, stops.share_of_time)
    part = stops.share_of_time / max(1, int(stops.duration_ns.sum()))
    low, high = bootstrap_sum(np.asarray(np.bincount(numbers, stops.duration_ns) * part, np.float64))
    with_them, without = words.duration(p99_ns), words.duration(p99_without_ns)
    them = "the operations that a stop touched" if stops.replay is None else "these stops"
    claim = _claim(gaps, numbers, waits, context)
    if with_them != without:
        claim += f" The 99th percentile is {with_them}, without {them} {without}."
    happened = int(numbers.max()) + 1
    unmade = float(stops.unmade.sum())
    unmade_low, _ = bootstrap_sum(_per(numbers, stops.unmade))
    # That operations were not made is counted, and so is what those that were due meanwhile waited for their thread: nothing is left to test.
    fewer = unmade >= SHARE_OF_LATENCY_MIN and unmade_low > 0
    waited = behind >= SHARE_OF_LATENCY_MIN and behind_low > 0
    counted = fewer or waited
    if fewer:
        claim += f" Because of these stops, {words.percent(unmade)} fewer operations ran."
    if waited:
        claim += f" Operations that were due meanwhile, and those behind them, waited for that {words.percent(behind)} of all latency."
    return Candidate(
        culprit=Culprit("process", _threads(gaps), f"silence of the submitter, state {STOPPED}"),
        claim=claim,
        baseline="operations of the same threads that no stop touched",
        effect=Effect("silent part of the submitters' time", stops.share_of_time, "1", low, min(1.0, high)),
        share_of_excess=shares.excess,
        share_of_latency=max(
            stops.share_of_latency, shares.latency, unmade if fewer else 0.0, behind if waited else 0.0
        ),
        # The most that any of these is a part of.
        of_ns=max(context.survey.latency_ns, context.threads_ns),
        p_value=0.0 if counted else stops.p_value,
        basis="measured" if counted else "inferred",
        summed=counted,
        stops=(stops.tid, stops.start_ns, stops.duration_ns),
        episodes=happened,
        evidence=[
            *_evidence(context, shortest_ns),
            evidence(
                context.case, "the stops", f"{process_stops_sql(context, submitters(context))} LIMIT 20"
            ),
        ],
        refute="Look who sends SIGSTOP, and repeat without: operations that stay slow are not its.",
        remedy=_remedy(context, gaps),
        otherwise=claim,
        explains=waits.explained,
        stopped=frozenset(stops.tid.tolist()) | _with_them(context),
        share_low=shares.low,
        share_high=shares.high,
        large=counted
        or large_enough(
            max(stops.share_of_time, stops.share_of_latency, shares.latency),
            shares.excess if len(context.slow) else 1.0,
            float(np.median(stops.duration_ns)) / max(1.0, typical_ns),
            happened,
        )
        or (happened >= STOPS_MIN and worse >= SEEN_P99_RATIO_MIN),
        p99_ratio=worse,
        unmade=unmade,
        # What falls due behind a stop is handed over late, and taken late, until the backlog is worked off.
        causes=() if stops.replay is None else (("stage", "app"), ("stage", "reap")),
        met=None if stops.replay is None else late_for(context.slow, stops.replay),
    )


def late_for(slow: SlowSet, replay: Replay) -> Bools:
    """Which slow operations would have taken half of their time or less without the stops."""
    took = zip(replay.start_ns.tolist(), replay.latency_ns.tolist(), replay.lost_ns.tolist(), strict=True)
    late = {(start, latency) for start, latency, lost in took if lost >= 0.5 * latency}
    each = zip(slow.start_ns.tolist(), slow.latency_ns.tolist(), strict=True)
    return np.array([one in late for one in each], np.bool_)


def _with_them(context: Context) -> frozenset[int]:
    """All threads that were stopped of the submitters' processes."""
    rows = context.case.rows(
        f"SELECT DISTINCT tid FROM ({process_stops_sql(context, submitters(context))}) AS stops"
    )
    return frozenset(int(row["tid"] or 0) for row in rows)


@dataclass
class Shares:
    """What waiting for the submitter cost."""

    excess: float
    low: float
    high: float
    latency: float


def _shares(context: Context, explained: Bools, share_of_time: float) -> Shares:
    slow = context.slow
    total_ns = float(slow.excess_ns.sum())
    if total_ns <= 0 or not explained.any():
        return Shares(0.0, 0.0, 0.0, share_of_time)
    late_ns = np.where(explained, slow.excess_ns, 0.0)
    numbers = episodes(slow.start_ns, slow.end_ns)
    low, high = bootstrap_ratio(_per(numbers, late_ns), _per(numbers, slow.excess_ns))
    latency = float(late_ns.sum()) / max(1.0, context.survey.latency_ns)
    return Shares(float(late_ns.sum()) / total_ns, low, high, max(latency, share_of_time))


def _per(numbers: Ints, values: Floats) -> Floats:
    return np.bincount(numbers, values).astype(np.float64)


def _main_threads(context: Context) -> list[int]:
    """Threads with at least a tenth of the operations."""
    found = operations_of(context.case, context.layer)
    return [tid for tid, operations in found.items() if operations >= 0.1 * context.survey.operations]


def _p_value(context: Context, gaps: Gaps, waits: LateOperations, limit_ns: float, total: int) -> float:
    """Silences must not be natural, and where operations waited, they must have waited in silences.

    Natural holes between operations: a tail of index 1 from the shortest silence that the table keeps, of which there are `total`;
    those from `limit_ns` on are the ones that are judged, and twice as long, and so on. Both tests have to reject, so the larger p
    counts.
    """
    octaves = 1 + int(np.log2(max(1.0, float(gaps.duration_ns.max()) / limit_ns)))
    # Silences of several threads at once are one.
    count = int(episodes(gaps.start_ns, gaps.start_ns + gaps.duration_ns).max()) + 1
    together = count / len(gaps)
    natural = 1.0
    for octave in range(octaves):
        least = limit_ns * 2**octave
        longer = int((gaps.duration_ns >= least).sum() * together)
        natural = min(natural, probability.at_least(longer, total, min(1.0, SHORTEST_GAP_NS / least)))
    p_natural = min(1.0, octaves * natural)
    if not waits.explained.any():
        return p_natural
    held = Intervals(gaps.tid, gaps.start_ns, gaps.start_ns + gaps.duration_ns)
    return max(p_natural, coincidence_p(held, waits.every, _begins(context, gaps), SILENCE_ROUNDS))


def _begins(context: Context, gaps: Gaps) -> Ints:
    """When operations of these threads began, in order; of very many an even part."""
    sample = context.sample
    threads = np.unique(gaps.tid)
    # A million operations beside a few threads: comparing with each of these takes a tenth of the time.
    theirs = (
        np.logical_or.reduce([sample.tid == tid for tid in threads])
        if len(threads) <= FEW_THREADS
        else np.isin(sample.tid, threads)
    )
    return context.sorted_start_ns if theirs.all() else np.sort(sample.start_ns[theirs])


def _claim(gaps: Gaps, numbers: Ints, waits: LateOperations, context: Context) -> str:
    # Several threads at once are silent once.
    begin, end = disjoint(gaps.start_ns, gaps.start_ns + gaps.duration_ns)
    silent_ns = float((end - begin).sum())
    lengths = _one_after_the_other(begin, end)
    times = min(int(numbers.max()) + 1, len(lengths))
    each = words.duration(float(np.median(lengths)))
    text = (
        f"{words.threads_together(_threads(gaps))} {'was' if _thread_count(gaps) == 1 else 'were'} silent {words.things(times, 'time')} for "
        f"{words.duration(silent_ns)} in all (typically {each}){_seen(context, gaps)}: the workload had work, and nothing was in flight"
    )
    late = int(waits.explained.sum())
    if late:
        reap_ns = float(np.median(waits.end_ns - waits.begin_ns))
        text += (
            f", and {words.things(late, 'operation')} that had been completed below waited "
            f"{words.duration(reap_ns)} to be taken"
        )
    return text + "."


def _one_after_the_other(begin_ns: Floats, end_ns: Floats) -> Floats:
    """How long each silence was, ns: a freezer stops a thread two or three times within some microseconds, and that is one."""
    there = end_ns > begin_ns
    begin, end = begin_ns[there], end_ns[there]
    length = end - begin
    between = begin[1:] - end[:-1]
    new = np.concatenate(([True], between > GAP_TOGETHER_MAX * np.maximum(length[1:], length[:-1])))
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(begin)) - 1
    return np.asarray(end[last] - begin[first], np.float64)


def _seen(context: Context, gaps: Gaps) -> str:
    where = _stopped_where(context, gaps)
    if where is None:
        return ""
    said = words.stopped(where)
    return f", {said if _thread_count(gaps) == 1 else said.replace('with its', 'with their')}"


def _stopped_where(context: Context, gaps: Gaps) -> str | None:
    """Where the threads stood in the kernel while they were stopped, as far as that was seen; None where they were not."""
    if set(gaps.state) != {STOPPED}:
        return None
    causes = context.case.rows(
        f"SELECT DISTINCT cause FROM ({process_stops_sql(context, np.unique(gaps.tid).tolist())}) AS stops WHERE cause IS NOT NULL"
    )
    return " ".join(str(row["cause"]) for row in causes)


def _thread_count(gaps: Gaps) -> int:
    return len(np.unique(gaps.tid))


def _threads(gaps: Gaps) -> str:
    return words.threads({(int(tid), str(comm)) for tid, comm in zip(gaps.tid, gaps.comm, strict=True)})


def _states(gaps: Gaps) -> str:
    """What the threads were seen to be, in a part of the silent time that counts."""
    states, index = np.unique(gaps.state.astype(str), return_inverse=True)
    silent = np.bincount(index, gaps.duration_ns)
    return words.listed([str(state) for state in states[silent >= GAP_STATE_MIN * silent.sum()]])


def _remedy(context: Context, gaps: Gaps) -> str:
    if words.by_freezer(_stopped_where(context, gaps) or ""):
        return (
            "Look who freezes its control group (cgroup.freeze of the group, freezer.state of cgroup v1; cgroup.events tells when): a pause of a container, a checkpoint. "
            "The storage below only waited for it."
        )
    if set(gaps.state) == {STOPPED}:
        return (
            "Find out who stops the process (SIGSTOP, a debugger, a job control shell, a freezer); `strace -f -e "
            "trace=none -p PID` or auditd shows the sender. The storage below only waited for it."
        )
    if set(gaps.state) == {"unobserved"}:
        return (
            "Look above the storage: the thread was stopped, waiting for a lock or for a CPU. What it did was not "
            "observed; `perf sched record`, or a recording with a scheduler probe, separates stopped, runnable "
            "and blocked."
        )
    return "Look above the storage: " + _states(gaps) + " is what the thread was seen to be."


def _evidence(context: Context, shortest_ns: int) -> list[Evidence]:
    """`shortest_ns`: of all silences in which the workload had work. Whoever was in flight for half of one took longer than half of it."""
    survey, layer = context.survey, context.layer
    silences = evidence(
        context.case,
        "the longest silences: nothing of this thread was in flight below",
        gaps_sql(context, True).replace(
            "ORDER BY start_ns, tid", "ORDER BY duration_ns DESC, start_ns, tid LIMIT 10"
        ),
    )
    waiting = evidence_beyond(
        context.case,
        layer,
        "operations that were in flight when a silence began: done early, taken late",
        f"""SELECT o.op_id, o.tid, o.start_ns, o.latency_ns, o.latency_ns - o.reap_ns AS done_after_ns, o.reap_ns
FROM {layer}_ops AS o
JOIN gaps AS g ON g.tid = o.tid AND g.layer = '{layer}'
WHERE o.reap_ns > {SHORTEST_GAP_NS // 2} AND o.start_ns < g.start_ns AND o.start_ns + o.latency_ns > g.start_ns + g.duration_ns / 2
  AND {MEANT} AND g.start_ns >= {survey.begin_ns} AND g.start_ns < {survey.end_ns}
ORDER BY o.reap_ns DESC, o.op_id LIMIT 10""",
        shortest_ns // 2,
    )
    return [silences, waiting]


DETECTOR = Detector(
    name="submitter_gap",
    needs=("gaps.tid", "gaps.start_ns", "gaps.duration_ns", "gaps.meant_busy", "judged.latency_ns"),
    needs_stages=(),
    null_model="silences are the natural tail (index 1) of the holes between operations, or late operations have "
    "nothing to do with them: each silence could have begun with any operation near it; none where the process was seen stopped",
    smallest_effect="5 % of the submitters' time or of all latency; or 20 % of the slow operations' excess and 1 %, in at "
    "least 3 silences of 10 x the typical latency",
    run=run,
)
