"""What was going on while a single operation was slow: read off the record, without a test.

A cause is attached to a stage only if it can hold that stage (`HOLDS`), covers nearly all of the time there, and rarely covers as much of
other, equally long times of the same thread or device. What covers the time but is there most of the time anyway is only reported as being
there *at the same time* (DESIGN 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.evidence.behind_flushes import in_flushes_ns
from whodisk.evidence.held_in_volumes import held_in_volumes
from whodisk.evidence.late_servers import LateServers, late_file_systems, late_servers
from whodisk.evidence.own_threads import own_sql
from whodisk.evidence.serving_waits import serving_waits
from whodisk.evidence.sleeps import DIRTY_SLEEPS, HELD_TO_WRITE, HOLDER_COLUMNS, behind_own
from whodisk.evidence.slowest import BELOW, Episode, columns_of
from whodisk.evidence.steal import mostly_stolen, steal_of
from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import (
    ALIKE_LENGTH_MIN,
    ALONE_RATIO_MIN,
    ALONE_SHARE_MIN,
    COVERS_MIN,
    ELSEWHERE_MAX,
    NOTICED_NS,
    STILL_MIN_NS,
    TOGETHER_P_MAX,
    WAIT_PART_MIN,
    WAITS_MAX,
    WINDOWS,
    WINDOWS_MIN,
)
from whodisk.findings import NOTHING_OBSERVED
from whodisk.reading.views import STAGES, Case, quoted
from whodisk.statistics import probability
from whodisk.statistics.standing_apart import MEDIAN_RATIO_MIN
from whodisk.statistics.stats import SEED, Floats, Ints, overlap

#: The stages in which the submitting thread itself is what an operation waits for.
_THREAD = frozenset({"app", "fs", "reap", "runqueue"})
#: state of a wait -> the stages that it can hold.
HOLDS: dict[str, frozenset[str]] = {
    "stopped": _THREAD,
    "paused": _THREAD,
    "throttled": _THREAD,
    "runnable": _THREAD,
    "blocked": frozenset({"app", "fs", "throttle", "reap"}),
    "trouble": frozenset({"queue", "device"}),
}
#: Where a call sleeps that finds its device's queue frozen (block/blk-core.c): by the clock that is the file system's time or the queue's.
ENTERS_QUEUE = ("__bio_queue_enter", "blk_queue_enter")
#: What these sleeps, which hold the stage `queue` too, are in words.
BEFORE_QUEUE = {
    HELD_TO_WRITE: f"its thread {words.slept(HELD_TO_WRITE)}",
    **dict.fromkeys(ENTERS_QUEUE, "the queue of its device was frozen, as it is while its settings change"),
}
#: Kinds of events that show trouble in a device or on the way to it, as in detectors/device_errors.
TROUBLE = ("error", "timeout", "reset", "failed_command")

#: Flag of operations that asked for a flush of the device's cache; all that is known where no carriers were recorded (case-format, Flags).
PREFLUSH = 128


@dataclass(frozen=True)
class Cause:
    """What held an operation in its stage."""

    #: `stopped`, `paused` (by the program itself: its runtime let no thread go on), `throttled`, `runnable`, `standstill`, `stolen`, `blocked`, `throttle`, `trouble`, `flush`, `handler`, `call`, `ran`, `pace`, `server` (of its device, which was stopped), `request` (of somebody else, that it slept for), `volume` (which held its request by itself), or `none`: nothing was observed.
    state: str
    #: Who or what: the program that had the CPU, what it slept in, the kind of event.
    who: str
    #: In words, ready for a sentence: "stopped by a signal".
    said: str
    #: Whether it is what held the operation; else it was there at the same time, as it often is.
    certain: bool
    #: Of a thread without a CPU: threads of the same program had it.
    own: bool = False


#: Name of the kernel's idle tasks; the CPU's number follows.
IDLE = "swapper/"
#: Stages in which a CPU that stands still holds an operation, whether or not its thread was seen ready there.
NEEDS_CPU = frozenset({"app", "fs", "interrupt", "reap", "runqueue"})

#: Stages in which an operation may only wait for its thread to take it; of buffered libaio the end of an operation is not recorded.
TAKES = frozenset({"fs", "reap"})

#: Calls in which a thread may sit while others of its operations are in flight.
LONG_CALLS = {
    "sync": "its own thread sat in a sync, and took nothing that had ended",
    "drop": "its own thread had pages dropped from the cache, and took nothing that had ended",
}

FLUSHED = "the device flushed its cache"
NOTHING = Cause("none", "", NOTHING_OBSERVED, False)
STOLEN = Cause("stolen", "hypervisor", "the hypervisor had the CPUs elsewhere (steal)", True)


def causes_of(case: Case, survey: Survey, episodes: list[Episode]) -> list[Cause]:
    """What held each episode's longest operation, in the stage in which it lost most."""
    tids = sorted({e.tid for e in episodes if e.tid >= 0})
    least_ns = int(WAIT_PART_MIN * min((e.stage_excess_ns for e in episodes), default=0.0))
    waits = _waits(case, survey, tids, least_ns) if "waits" in case.columns and tids else {}
    if survey.layer == "app" and (paused := _pauses(case)):
        # The program knows better than the scheduler why its threads slept: it comes first.
        waits = {tid: paused + waits.get(tid, []) for tid in tids}
    troubles = _troubles(case) if "events" in case.columns else {}
    still = _standstills(case) if "waits" in case.columns else []
    calls = _long_calls(case, survey, tids) if any(e.stage in TAKES for e in episodes) else {}
    late = _late_servers(case, survey, episodes)
    flush_ns = in_flushes_ns(case, np.array([e.op_ids[0] if e.op_ids else -1 for e in episodes], np.int64))
    causes = [
        _still(e, still, waits.get(e.tid, []))
        or _own_call(e, calls.get(e.tid, {}))
        or late[number]
        or _cause(
            e, survey, waits.get(e.tid, []), troubles.get(e.device), float(flush_ns[number]), case.carriers
        )
        for number, e in enumerate(episodes)
    ]
    causes = _or_volumes(case, episodes, _or_late_wakers(case, survey, episodes, causes))
    causes = _or_stopped_servers(case, episodes, causes)
    return _or_stolen(case, survey, episodes, causes)


def _or_stopped_servers(case: Case, episodes: list[Episode], causes: list[Cause]) -> list[Cause]:
    """The same, where the process that serves the device of an operation was stopped for nearly all of what it lost there."""
    if not case.servers or "waits" not in case.columns:
        return causes
    found = list(causes)
    for number, (episode, cause) in enumerate(zip(episodes, causes, strict=True)):
        pids = [pid for pid, served in case.servers.items() if episode.device in served]
        if cause is not NOTHING or episode.stage not in BELOW or not pids:
            continue
        rows = case.rows(
            f"""SELECT coalesce(cause, '') AS cause, least({episode.end_ns}, start_ns + duration_ns) - greatest({episode.start_ns}, start_ns) AS held_ns FROM waits
WHERE state = 'stopped' AND pid IN ({", ".join(map(str, pids))}) AND start_ns < {episode.end_ns} AND start_ns + duration_ns > {episode.start_ns} ORDER BY 2 DESC, 1 LIMIT 1"""
        )
        if rows and float(rows[0]["held_ns"] or 0) >= COVERS_MIN * episode.stage_excess_ns:
            said = f"who serves {episode.device} was {words.stopped(str(rows[0]['cause']))}"
            found[number] = Cause("server", "", said, True)
    return found


#: States of causes that say no more than that an operation waited: a request that it is linked to says for what.
_ONLY_WAITED = ("blocked", "ran", NOTHING.state)


def _or_volumes(case: Case, episodes: list[Episode], causes: list[Cause]) -> list[Cause]:
    """The same, where a volume held a request that the operation waited for, by itself, for nearly all of the time that it lost above its devices."""
    asked = [
        number
        for number, (episode, cause) in enumerate(zip(episodes, causes, strict=True))
        if episode.stage == "fs" and episode.op_ids and cause.state in _ONLY_WAITED
    ]
    held = held_in_volumes(case, np.array([episodes[number].op_ids[0] for number in asked], np.int64))
    found = list(causes)
    for number in asked:
        one = held.get(episodes[number].op_ids[0])
        if one is not None and one.held_ns >= COVERS_MIN * episodes[number].stage_excess_ns:
            found[number] = Cause("volume", one.volume, words.held_by_volume(one.volume, one.members), True)
    return found


def _or_late_wakers(case: Case, survey: Survey, episodes: list[Episode], causes: list[Cause]) -> list[Cause]:
    """The same, where whoever let a sleeper go on was ready for nearly all of that time and had no CPU: a worker of the kernel that ends a request of a real drive, say."""
    asleep = [n for n, cause in enumerate(causes) if cause.state == "blocked" and not episodes[n].silence]
    if not asleep or "waker_tid" not in case.columns.get("waits", ()):
        return causes
    values = ", ".join(
        f"({n}, {episodes[n].tid}, {episodes[n].start_ns}, {episodes[n].end_ns})" for n in asleep
    )
    rows = case.rows(
        f"""WITH e(n, tid, low_ns, high_ns) AS (VALUES {values}),
slept AS (SELECT n, waker_tid, greatest(low_ns, start_ns) AS begin_ns, least(high_ns, start_ns + duration_ns) AS end_ns
  FROM e JOIN waits AS w ON w.tid = e.tid WHERE w.state = 'blocked' AND waker_tid IS NOT NULL AND start_ns < high_ns AND start_ns + duration_ns > low_ns),
ready AS (SELECT tid, start_ns AS from_ns, start_ns + duration_ns AS to_ns, coalesce(cause, '') AS cause, {own_sql(case, survey.layer)} AS own
  FROM waits WHERE state = 'runnable' AND tid IN (SELECT waker_tid FROM slept))
SELECT n, cause, own, sum(least(end_ns, to_ns) - greatest(begin_ns, from_ns)) AS held_ns
FROM slept JOIN ready ON ready.tid = waker_tid AND from_ns < end_ns AND to_ns > begin_ns GROUP BY ALL ORDER BY n, held_ns, cause"""
    )
    found = list(causes)
    for row in rows:
        # The last one of an episode is who had the CPU longest.
        n, who = int(row["n"] or 0), str(row["cause"])
        if float(row["held_ns"] or 0) >= COVERS_MIN * episodes[n].stage_excess_ns:
            found[n] = Cause(
                "runnable",
                who,
                f"who let it go on was ready; {who or 'another program'} had the CPU",
                True,
                bool(row["own"]),
            )
    return found


def _or_stolen(case: Case, survey: Survey, episodes: list[Episode], causes: list[Cause]) -> list[Cause]:
    """The same, where the hypervisor had the CPUs while an operation needed one and nothing else is seen to have held it. A thread on a CPU that is elsewhere looks as if it ran."""
    needy = [
        (c is NOTHING or c.state == "ran") and e.stage in NEEDS_CPU
        for e, c in zip(episodes, causes, strict=True)
    ]
    steal = steal_of(case, survey) if any(needy) and "series" in case.columns else None
    if steal is None:
        return causes
    begin, end = columns_of(episodes, "start_ns", "end_ns")
    stolen = mostly_stolen(case, steal, begin, end)
    return [STOLEN if need and was else cause for cause, need, was in zip(causes, needy, stolen, strict=True)]


def kind_of_cause(episode: Episode, cause: Cause) -> tuple[str, str, str, str, bool]:
    """Stage, device and cause: episodes that agree in these were held by the same thing, as far as is known."""
    device = episode.device if episode.stage in BELOW else ""
    return episode.stage, device, cause.state, cause.who, cause.own


def with_alike(held: list[tuple[Episode, Cause]]) -> list[tuple[Episode, Cause]]:
    """The same, where what is as long as episodes that stand apart, and was held by the same cause, stands apart, too.

    Seven stops of one length fall to whichever kinds of operations their threads were at; in a kind with a few of them, or with a heavy
    tail, the rule of the tail cannot find them. What nobody knows the cause of is the same only where it is a device's.
    """
    least: dict[tuple[str, str, str, str, bool], float] = {}
    for episode, cause in held:
        if episode.apart:
            kind = kind_of_cause(episode, cause)
            least[kind] = min(least.get(kind, np.inf), ALIKE_LENGTH_MIN * episode.stage_excess_ns)

    def alike(episode: Episode, cause: Cause) -> bool:
        known = cause.state != NOTHING.state or (episode.stage in BELOW and bool(episode.device))
        long = episode.stage_excess_ns >= least.get(kind_of_cause(episode, cause), np.inf)
        return (
            known
            and long
            and not episode.common
            and episode.latency_ns >= MEDIAN_RATIO_MIN * episode.kind.median_ns
        )

    return [(replace(e, apart=True) if alike(e, cause) else e, cause) for e, cause in held]


def with_alone(survey: Survey, held: list[tuple[Episode, Cause]]) -> list[tuple[Episode, Cause]]:
    """The same, where the longest operation of a kind, far beyond all others of it, and with a known cause, stands apart if all operations together lost much by it.

    A tail with an index near 1 may have such an operation by nature, so the rule of the tail cannot decide; but then nothing holds it: no lock, no freeze.
    """
    alone: set[int] = set()
    for kind in {episode.kind for episode, _ in held}:
        same = sorted((each for each in held if each[0].kind == kind), key=lambda each: -each[0].latency_ns)
        if len(same) < 2:
            continue
        (first, cause), (second, _) = same[0], same[1]
        # What a volume does itself may have such a tail, as a device may.
        known = cause.certain and cause.state != "volume" and not first.common and not first.silence
        far = first.latency_ns >= ALONE_RATIO_MIN * max(second.latency_ns, first.kind.median_ns)
        if known and far and first.stage_excess_ns >= ALONE_SHARE_MIN * survey.latency_ns:
            alone.add(id(first))
    return [(replace(e, apart=True) if id(e) in alone else e, cause) for e, cause in held]


@dataclass(frozen=True)
class Times:
    """Times that do not overlap, in order."""

    begin_ns: Ints | Floats
    end_ns: Ints | Floats


@dataclass(frozen=True)
class _Times(Times):
    """All times in which a thread was in one state for one reason."""

    state: str
    who: str
    #: CPU that the thread waited for; -1 where that is not known.
    cpu: Ints
    #: Whether it was another thread of the same program: of the process, or of one of the same name that submits, too.
    own: bool
    #: Of a sleep: whether it was another thread of its program that slept so, with what this one needed in hand.
    behind: bool = False


def _waits(case: Case, survey: Survey, tids: list[int], least_ns: int) -> dict[int, list[_Times]]:
    """Thread -> its waits by state and cause, without shorter ones: threads may have waited millions of times."""
    listed = ", ".join(str(tid) for tid in tids)
    chosen = f"tid IN ({listed}) AND duration_ns >= {_floor_ns(case, listed, least_ns)}"
    data = case.arrays(
        f"""SELECT tid, state, coalesce(cause, '') AS cause, start_ns, start_ns + duration_ns AS end_ns,
  coalesce(cpu, -1) AS cpu, {own_sql(case, survey.layer)} AS own, {HOLDER_COLUMNS}
FROM waits WHERE {chosen} ORDER BY tid, state, cause, own, start_ns"""
    )
    data["behind"] = np.zeros(len(data["tid"]), np.bool_)
    if (asleep := data["state"] == "blocked").any():
        sleeps = {name: column[asleep] for name, column in data.items()}
        data["cause"], of = data["cause"].astype(object), {**sleeps, "begin_ns": sleeps["start_ns"]}
        data["cause"][asleep], data["behind"][asleep] = behind_own(case, of)
    columns = ("tid", "state", "cause", "own", "behind")
    keys = list(zip(*(data[name].tolist() for name in columns), strict=True))
    begin, end, cpu = (data[name].astype(np.int64) for name in ("start_ns", "end_ns", "cpu"))
    places: dict[tuple[int, str, str, bool, bool], list[int]] = {}
    for place, (tid, state, cause, own, behind) in enumerate(keys):
        key = int(tid), str(state), str(cause), bool(own), bool(behind)
        places.setdefault(key, []).append(place)
    found: dict[int, list[_Times]] = {}
    for (tid, state, cause, own, behind), at in sorted(places.items()):
        times = _Times(begin[at], end[at], state, cause, cpu[at], own, behind)
        found.setdefault(tid, []).append(times)
    return found


def _floor_ns(case: Case, listed: str, least_ns: int) -> int:
    """The shortest wait of these threads that is looked at: `least_ns`, or what leaves `WAITS_MAX` of them."""
    rows = case.rows(
        f"""SELECT CAST(floor(4 * log2(greatest(1, duration_ns))) AS INTEGER) AS bin, count(*) AS n FROM waits
WHERE tid IN ({listed}) AND duration_ns >= {least_ns} GROUP BY 1 ORDER BY 1 DESC"""
    )
    kept = 0
    for row in rows:
        kept += int(row["n"] or 0)
        if kept > WAITS_MAX:
            return max(least_ns, math.ceil(2 ** ((int(row["bin"] or 0) + 1) / 4)))
    return least_ns


def _pauses(case: Case) -> list[_Times]:
    """Pauses that the program logged itself, by kind: all of its threads stood still."""
    start_ns = int((case.meta.get("clock") or {}).get("start_ns") or 0)
    found: dict[str, list[tuple[int, int]]] = {}
    for pause in case.pauses:
        begin = int(pause["start_ns"]) - start_ns
        found.setdefault(str(pause["what"]), []).append((begin, begin + int(pause["duration_ns"])))
    times = []
    for what, spans in sorted(found.items()):
        begin, end = np.array(sorted(spans), np.int64).T
        times.append(_Times(begin, end, "paused", what, np.full(len(begin), -1, np.int64), False))
    return times


def _standstills(case: Case) -> list[tuple[int, int, int]]:
    """CPU, begin and end of each time in which a thread was ready and only the idle task had its CPU."""
    rows = case.rows(
        f"""SELECT cpu, start_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE cpu IS NOT NULL AND state = 'runnable' AND starts_with(cause, '{IDLE}') AND duration_ns >= {STILL_MIN_NS} ORDER BY 1, 2, 3"""
    )
    return [(int(r["cpu"] or 0), int(r["start_ns"] or 0), int(r["end_ns"] or 0)) for r in rows]


def _still(episode: Episode, stills: list[tuple[int, int, int]], waits: list[_Times]) -> Cause | None:
    """A CPU that stood still while the thread of the operation waited there, ready or asleep: what would have woken it stood still, too."""
    if episode.silence or episode.stage not in NEEDS_CPU:
        return None
    for cpu, begin, end in stills:
        inside = min(episode.end_ns, end) - max(episode.start_ns, begin)
        if inside < COVERS_MIN * episode.stage_excess_ns:
            continue
        there = any(
            bool(((times.cpu == cpu) & (times.begin_ns < end) & (times.end_ns > begin)).any())
            for times in waits
        )
        if there:
            return Cause(
                "standstill",
                f"cpu{cpu}",
                f"CPU {cpu} stood still (hypervisor or firmware)",
                True,
            )
    return None


def _long_calls(case: Case, survey: Survey, tids: list[int]) -> dict[int, dict[str, tuple[Ints, Ints]]]:
    """Thread -> kind of its `LONG_CALLS` -> their begins and ends."""
    kinds = [op for op in LONG_CALLS if survey.select(op=op)]
    if not tids or not kinds:
        return {}
    listed = ", ".join(str(tid) for tid in tids)
    data = case.arrays(
        f"""SELECT tid, op, start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM judged
WHERE layer = '{survey.layer}' AND op IN ({", ".join(map(quoted, kinds))}) AND tid IN ({listed}) ORDER BY tid, start_ns"""
    )
    found: dict[int, dict[str, tuple[Ints, Ints]]] = {}
    for tid in np.unique(data["tid"]):
        for op in kinds:
            mine = (data["tid"] == tid) & (data["op"] == op)
            times = data["begin_ns"][mine].astype(np.int64), data["end_ns"][mine].astype(np.int64)
            found.setdefault(int(tid), {})[op] = times
    return found


def _late_servers(case: Case, survey: Survey, episodes: list[Episode]) -> list[Cause | None]:
    """Per episode who had the CPU that a thread needed in order to serve the device, or to commit its file system's journal, if that is where the
    operation's time went.

    Where CPUs are crowded other windows are like that, too: then it is so of as many of a device's episodes as hardly would be by chance, if it is of most.
    """
    found: list[Cause | None] = [None] * len(episodes)
    below = [n for n, e in enumerate(episodes) if not e.silence and e.stage in BELOW]
    above = [n for n, e in enumerate(episodes) if not e.silence and e.stage == "fs" and e.device]
    late = late_servers(case, survey.layer) if below else {}
    every = serving_waits(case).of_device if late else {}
    of_files = late_file_systems(case, survey.layer, {episodes[n].device for n in above})
    asked = (
        (below, {device: _Waits(late[device], every[device]) for device in late}, "serves"),
        (
            above,
            {device: _Waits(by, _together(by)) for device, by in of_files.items()},
            "serves or commits for",
        ),
    )
    for numbers, waits, does in asked:
        for device in sorted({episodes[number].device for number in numbers} & set(waits)):
            mine = [number for number in numbers if episodes[number].device == device]
            causes = _held_by_late(survey, [episodes[n] for n in mine], waits[device], f"{does} {device}")
            for number, cause in zip(mine, causes, strict=True):
                found[number] = cause
    return found


@dataclass(frozen=True)
class _Waits:
    """When those whom a device, or its file system, needs were ready and had no CPU."""

    #: By who had it.
    late: list[LateServers]
    #: All of it, ns.
    every: tuple[Ints, Ints]


def _together(late: list[LateServers]) -> tuple[Ints, Ints]:
    begin = np.concatenate([times.begin_ns for times in late])
    return begin, np.concatenate([times.end_ns for times in late])


def _held_by_late(survey: Survey, episodes: list[Episode], waits: _Waits, does: str) -> list[Cause | None]:
    """`_late_servers` of one device's episodes."""
    longest = [_longest(episode, waits) for episode in episodes]
    held = [
        covered >= COVERS_MIN * episode.stage_excess_ns
        for episode, (_, covered) in zip(episodes, longest, strict=True)
    ]
    if not any(held):
        return [None] * len(episodes)
    parts = [elsewhere(times, episode, survey) for episode, (times, _) in zip(episodes, longest, strict=True)]
    chance = float(np.mean([part or 0.0 for part in parts]))
    most = 2 * sum(held) > len(held)
    together = most and probability.at_least(sum(held), len(held), chance) < TOGETHER_P_MAX
    return [
        Cause("runnable", times.who, f"who {does} was ready; {times.who} had the CPU", True, times.own)
        if was and (together or part is None or part <= ELSEWHERE_MAX)
        else None
        for (times, _), was, part in zip(longest, held, parts, strict=True)
    ]


def _longest(episode: Episode, waits: _Waits) -> tuple[LateServers, float]:
    """Who had the CPU for most of an episode, and for how long, ns; of several, one after the other, all of them by the name of that one."""
    window = np.array([episode.start_ns]), np.array([episode.end_ns])
    covered = [float(overlap(*window, times.begin_ns, times.end_ns)[0]) for times in waits.late]
    most = int(np.argmax(covered))
    alone = waits.late[most], covered[most]
    if covered[most] >= COVERS_MIN * episode.stage_excess_ns or 2 * covered[most] < episode.stage_excess_ns:
        return alone
    begin, end = waits.every
    return replace(alone[0], begin_ns=begin, end_ns=end), float(overlap(*window, begin, end)[0])


def _own_call(episode: Episode, calls: dict[str, tuple[Ints, Ints]]) -> Cause | None:
    """An asynchronous operation that nobody could take, because its own thread sat in a call: a thread does one thing at a time."""
    if episode.silence or episode.op in ("flush", *LONG_CALLS) or episode.stage not in TAKES:
        return None
    window = np.array([episode.start_ns]), np.array([episode.end_ns])
    for op, times in calls.items():
        if float(overlap(*window, *times)[0]) >= COVERS_MIN * episode.stage_excess_ns:
            return Cause("call", op, LONG_CALLS[op], True)
    return None


def _troubles(case: Case) -> dict[str, tuple[Ints, list[str]]]:
    """Device -> moments and kinds of its errors, timeouts and resets."""
    kinds = ", ".join(f"'{kind}'" for kind in TROUBLE)
    data = case.arrays(f"SELECT subject, time_ns, kind FROM events WHERE kind IN ({kinds}) ORDER BY 1, 2, 3")
    found: dict[str, tuple[Ints, list[str]]] = {}
    for device in sorted({str(name) for name in data["subject"]}):
        mine = data["subject"] == device
        found[device] = (data["time_ns"][mine].astype(np.int64), [str(kind) for kind in data["kind"][mine]])
    return found


def _cause(
    episode: Episode,
    survey: Survey,
    waits: list[_Times],
    trouble: tuple[Ints, list[str]] | None,
    flush_ns: float,
    carriers: bool,
) -> Cause:
    window = np.array([episode.start_ns]), np.array([episode.end_ns])
    if episode.silence:
        stops = [t for t in waits if t.state == "stopped" and overlap(*window, t.begin_ns, t.end_ns)[0] > 0]
        where = next((times.who for times in stops if times.who), "")
        return Cause("stopped", "", _said("stopped", where), True)
    stage, lost_ns = episode.stage, episode.stage_excess_ns
    best: tuple[float, Cause] | None = None
    for times in waits:
        before_queue = stage == "queue" and times.state == "blocked" and times.who in BEFORE_QUEUE
        if stage not in HOLDS.get(times.state, frozenset()) and not before_queue:
            continue
        covered = float(overlap(*window, times.begin_ns, times.end_ns)[0])
        if covered < COVERS_MIN * lost_ns or (
            best is not None and (covered <= best[0] or best[1].state == "paused")
        ):
            continue
        certain = not is_elsewhere(times, episode, survey)
        said = _said(times.state, times.who, behind=times.behind)
        best = covered, Cause(times.state, times.who, said, certain, times.own)
    if trouble is not None and stage in HOLDS["trouble"]:
        moments, kinds = trouble
        first, last = np.searchsorted(moments, [episode.start_ns, episode.end_ns + NOTICED_NS])
        if last > first:
            kind = kinds[int(first)].replace("_", " ")
            return Cause(
                "trouble", kind, f"the device had {_article(kind)} meanwhile", _rare(moments, episode, survey)
            )
    if stage == "interrupt" and episode.foreign_handler_ns >= COVERS_MIN * lost_ns:
        return Cause("handler", "", "handlers of other devices ran on its vector or CPU", True)
    # A thread whose request a controller holds sleeps where any other waits for one.
    by_controller = stage == "throttle" and best is not None and best[1].who not in DIRTY_SLEEPS
    if best is not None and not by_controller:
        return best[1]
    if (
        stage in HOLDS["blocked"]
        and not by_controller
        and (slept := _slept_in_turn(episode, waits)) is not None
    ):
        return slept
    if waits and stage in ("app", "fs", "reap") and _ran(episode, waits):
        return Cause("ran", "", "its thread ran all that time, in its program or in the kernel for it", True)
    asked = not carriers and bool(episode.flags & PREFLUSH)
    if stage == "throttle":
        return Cause("throttle", "", "a controller held it back", True)
    if stage == "device" and (episode.op == "flush" or flush_ns >= COVERS_MIN * lost_ns or asked):
        return Cause("flush", "", FLUSHED, True)
    return NOTHING


def _slept_in_turn(episode: Episode, waits: list[_Times]) -> Cause | None:
    """Several sleeps, one after the other, that hold nearly all of the time together, if one of them holds half of it; None otherwise."""
    window = np.array([episode.start_ns]), np.array([episode.end_ns])
    sleeps = [times for times in waits if times.state == "blocked"]
    if not sleeps:
        return None
    covered = [float(overlap(*window, times.begin_ns, times.end_ns)[0]) for times in sleeps]
    most = sleeps[int(np.argmax(covered))]
    begin = np.concatenate([times.begin_ns for times in sleeps])
    end = np.concatenate([times.end_ns for times in sleeps])
    together, lost_ns = float(overlap(*window, begin, end)[0]), episode.stage_excess_ns
    if 2 * max(covered) < lost_ns or together < COVERS_MIN * lost_ns:
        return None
    # What a call did one after the other is what it is made of: no one of these holds it up.
    said = _said("blocked", most.who, behind=most.behind)
    return Cause("blocked", most.who, f"{said}, mostly", certain=False, own=most.own)


def _ran(episode: Episode, waits: list[_Times]) -> bool:
    """Whether the thread waited for nothing in nearly all of the time; it is one with recorded waits."""
    window = np.array([episode.start_ns]), np.array([episode.end_ns])
    begin = np.concatenate([times.begin_ns for times in waits])
    end = np.concatenate([times.end_ns for times in waits])
    waited = float(overlap(*window, begin, end)[0])
    # In its other stages it may have waited for the devices.
    elsewhere = episode.latency_ns - episode.stage_ns[STAGES.index(episode.stage)]
    return waited - elsewhere <= (1.0 - COVERS_MIN) * episode.stage_excess_ns


def is_elsewhere(times: Times | LateServers, episode: Episode, survey: Survey) -> bool:
    """Whether the same cause covers as much of windows as long as the episode, at random moments, too."""
    return (elsewhere(times, episode, survey) or 0.0) > ELSEWHERE_MAX


def elsewhere(times: Times | LateServers, episode: Episode, survey: Survey) -> float | None:
    """Of which part of windows as long as the episode, at random moments, the same cause covers as much; None where there are too few."""
    length = episode.latency_ns
    last = max(survey.begin_ns + 1, survey.end_ns - length)
    begin = np.random.default_rng(SEED).integers(survey.begin_ns, last, WINDOWS)
    # Windows that touch the episode itself say nothing about other times.
    begin = begin[np.abs(begin - episode.start_ns) >= length]
    if len(begin) < WINDOWS_MIN:
        return None
    covered = overlap(begin, begin + length, times.begin_ns, times.end_ns)
    return float(np.mean(covered >= COVERS_MIN * episode.stage_excess_ns))


def _rare(moments: Ints, episode: Episode, survey: Survey) -> bool:
    """Whether such events seldom fall into a window of this length."""
    length = episode.latency_ns + NOTICED_NS
    begin = np.random.default_rng(SEED).integers(
        survey.begin_ns, max(survey.begin_ns + 1, survey.end_ns), WINDOWS
    )
    hit = np.searchsorted(moments, begin + length) > np.searchsorted(moments, begin)
    return bool(hit.mean() <= ELSEWHERE_MAX)


def _said(state: str, who: str, *, behind: bool = False) -> str:
    if state == "stopped":
        return f"its thread was {words.stopped(who)}"
    if state == "paused":
        return f"the program paused all its threads ({who})"
    if state == "throttled":
        return "its control group had used up its CPU quota"
    if state == "runnable":
        return f"its thread was ready; {who or 'another program'} had the CPU"
    said = BEFORE_QUEUE.get(who) or (f"its thread {words.slept(who)}" if who else "its thread slept")
    return said.replace("its thread", "another of its threads") if behind else said


def _article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeio" else f"a {kind}"
