"""Whom an operation waited for inside its own program: another thread or process of it, which was held in its calls.

Of clients that commit together one writes the log, and the others sleep until it has. One process reads what another one copies. A client sleeps
until a full memtable is written out. In each of them the operation loses its time in the program (stage `app`), asleep; the record shows who of the program was held
below meanwhile, and where. So too of an operation that waited for its turn: the thread's others had its slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whodisk.evidence.asleep_for_requests import Request, slept_for
from whodisk.evidence.slowest import APP, BELOW, Episode, columns_of
from whodisk.evidence.surroundings import FLUSHED, NOTHING, Cause, Times, causes_of, is_elsewhere
from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import COVERS_MIN, HELD_CALL_PART_MIN
from whodisk.reading.views import STAGES, Case
from whodisk.statistics.stats import disjoint

#: Stages in which a call is held by what is below its program.
FS = STAGES.index("fs")
HELD_IN = ("fs", "throttle", "queue", "device", "interrupt")


def held_by(case: Case, survey: Survey, episodes: list[Episode]) -> list[tuple[Episode, Cause]]:
    """Each episode with what held it; of one that waited for another thread of its program, with what held that one, and where."""
    episodes = _at_turns(case, survey, episodes)
    found = _at_requests(case, survey, list(zip(episodes, causes_of(case, survey, episodes), strict=True)))
    asleep = [number for number, (episode, cause) in enumerate(found) if _slept(survey, episode, cause)]
    if not asleep or "syscall" not in case.layers:
        return found
    others = _others(case, [episodes[number] for number in asleep])
    moved = {
        number: (_moved(episodes[number], other, APP), other)
        for number, other in zip(asleep, others, strict=True)
        if other is not None and _is_rare(case, survey, episodes[number], other.tid)
    }
    causes = causes_of(case, survey, [episode for episode, _ in moved.values()]) if moved else []
    for (number, (episode, other)), cause in zip(moved.items(), causes, strict=True):
        found[number] = episode, _of_other(cause, other)
    return found


def _at_turns(case: Case, survey: Survey, episodes: list[Episode]) -> list[Episode]:
    """The same; of operations that were due and waited for their turn, with where what their thread had in flight was held meanwhile.

    A thread that may keep so many in flight submits the next one when one of them has ended, of a ramp phase too. A thread that is stopped submits
    nothing either, but what it has in flight ends below.
    """
    turns = [
        number
        for number, episode in enumerate(episodes)
        if episode.stage == "app" and not episode.silence and episode.excess_ns[APP] > 0
    ]
    if not turns or survey.layer != "app" or not case.offered_per_s or case.program is not None:
        return episodes
    found = list(episodes)
    for number, other in zip(turns, _in_flight(case, [episodes[n] for n in turns]), strict=True):
        if other is not None:
            found[number] = _moved(episodes[number], other, APP)
    return found


def _in_flight(case: Case, episodes: list[Episode]) -> list[_Other | None]:
    """For each episode the operation of its thread that was held longest below while it waited to be submitted, if such operations cover what it lost."""
    windows = ", ".join(
        f"({number}, {episode.start_ns}, {episode.start_ns + round(episode.stage_ns[APP])}, {episode.tid})"
        for number, episode in enumerate(episodes)
    )
    below = " + ".join(f"coalesce({stage}_ns, 0)" for stage in HELD_IN)
    stages = ", ".join(f"coalesce({stage}_ns, 0) AS {stage}_ns" for stage in HELD_IN)
    least_ns = int(HELD_CALL_PART_MIN * min(episode.excess_ns[APP] for episode in episodes))
    # Ramp phases, too: what was submitted there may hold what comes after.
    data = case.arrays(
        f"""SELECT number, tid, coalesce(comm, '') AS comm, coalesce(device, '') AS device, {stages},
  greatest(begin_ns, low_ns) AS begin_ns, least(begin_ns + below_ns, high_ns) AS end_ns
FROM (SELECT *, start_ns + coalesce(app_ns, 0) AS begin_ns, {below} AS below_ns FROM ops WHERE layer = 'app') AS c
  JOIN (VALUES {windows}) AS w(number, low_ns, high_ns, thread) ON begin_ns < high_ns AND begin_ns + below_ns > low_ns AND tid = thread
WHERE below_ns >= {max(1, least_ns)} ORDER BY number, begin_ns, op_id"""
    )
    number = data["number"].astype(np.int64)
    begin, end = data["begin_ns"].astype(np.int64), data["end_ns"].astype(np.int64)
    found: list[_Other | None] = []
    for place, episode in enumerate(episodes):
        mine = np.flatnonzero(number == place)
        low, high = disjoint(begin[mine], end[mine])
        if not len(mine) or (high - low).sum() < COVERS_MIN * episode.excess_ns[APP]:
            found.append(None)
            continue
        most = mine[np.argmax((end - begin)[mine])]
        parts = np.array([float(data[f"{stage}_ns"][most]) for stage in HELD_IN])
        # Of the whole wait the shares of the one that was held longest.
        held = tuple((parts / max(1.0, parts.sum()) * episode.excess_ns[APP]).tolist())
        found.append(_Other(episode.tid, str(data["comm"][most]), str(data["device"][most]), held))
    return found


def _at_requests(
    case: Case, survey: Survey, found: list[tuple[Episode, Cause]]
) -> list[tuple[Episode, Cause]]:
    """The same; of calls that slept in the file system for a request, with where that was held, and by what (`asleep_for_requests`)."""
    asleep = [
        number
        for number, (episode, cause) in enumerate(found)
        if episode.stage == "fs" and not episode.silence and cause.state in ("blocked", NOTHING.state)
    ]
    if not asleep or survey.layer == "block":
        return found
    episodes = [found[number][0] for number in asleep]
    tid, begin, end = columns_of(episodes, "tid", "start_ns", "end_ns")
    requests = slept_for(case, tid, begin, end, np.array([episode.excess_ns[FS] for episode in episodes]))
    moved, waited_for = {}, {}
    for place, request in requests.items():
        episode = episodes[place]
        waited_for[asleep[place]] = request
        held = {"queue": request.queue_ns, "device": request.device_ns}
        parts = tuple(held.get(stage, 0.0) for stage in HELD_IN)
        moved[asleep[place]] = _moved(episode, _Other(episode.tid, episode.comm, request.device, parts), FS)
    causes = causes_of(case, survey, list(moved.values())) if moved else []
    for (number, episode), cause in zip(moved.items(), causes, strict=True):
        found[number] = episode, _for_request(cause, waited_for[number])
    return found


def _for_request(cause: Cause, request: Request) -> Cause:
    """The same; where nothing is known of the device then, whose request it was."""
    if cause is not NOTHING:
        return cause
    if request.op == "flush":
        return Cause("flush", "", FLUSHED, True)
    if not request.comm:
        return cause
    return Cause(
        "request", request.comm, f"its thread slept until a {request.op} of {request.comm} completed", True
    )


def _of_other(cause: Cause, other: _Other) -> Cause:
    """The same, saying who waited."""
    if cause is NOTHING:
        return cause
    return replace(cause, said=f"{other.comm} of the same program waited there: {cause.said}")


def _slept(survey: Survey, episode: Episode, cause: Cause) -> bool:
    """Whether an operation of a program's own log lost its time in the program, and nothing is known but that its thread slept."""
    return (
        survey.layer == "app"
        and episode.stage == "app"
        and not episode.silence
        and cause.state in ("blocked", NOTHING.state)
    )


@dataclass(frozen=True)
class _Other:
    """A thread that was held while an operation slept: ns in each stage of `HELD_IN`."""

    tid: int
    comm: str
    device: str
    held_ns: tuple[float, ...]


def _others(case: Case, episodes: list[Episode]) -> list[_Other | None]:
    """For each episode the other thread that was held longest below, if that covers what the operation lost."""
    data = case.arrays(_calls_sql(episodes))
    found: list[_Other | None] = []
    number = data["number"].astype(np.int64)
    parts = np.array([data[f"{stage}_ns"].astype(np.float64) for stage in HELD_IN]).T
    for place, episode in enumerate(episodes):
        mine = np.flatnonzero(number == place)
        most = mine[np.argmax(parts[mine].sum(axis=1))] if len(mine) else -1
        if most < 0 or parts[most].sum() < COVERS_MIN * episode.excess_ns[APP]:
            found.append(None)
            continue
        tid, comm, device = int(data["tid"][most]), str(data["comm"][most]), str(data["device"][most])
        found.append(_Other(tid, comm, device, tuple(parts[most].tolist())))
    return found


def _calls_sql(episodes: list[Episode]) -> str:
    """(number, tid, comm, device, time in each stage) of calls of other threads within each episode; of long ones only."""
    windows = ", ".join(
        f"({number}, {episode.start_ns}, {episode.end_ns}, {episode.tid})"
        for number, episode in enumerate(episodes)
    )
    least_ns = int(HELD_CALL_PART_MIN * min(episode.excess_ns[APP] for episode in episodes))
    parts = ", ".join(
        f"sum(coalesce({stage}_ns, 0) * (inside_ns / latency_ns)) AS {stage}_ns" for stage in HELD_IN
    )
    stages = ", ".join(f"{stage}_ns" for stage in HELD_IN)
    return f"""SELECT number, tid, coalesce(any_value(comm), '') AS comm, coalesce(arg_max(device, inside_ns), '') AS device, {parts}
FROM (SELECT number, c.tid, comm, device, latency_ns, {stages},
    CAST(least(start_ns + latency_ns, high_ns) - greatest(start_ns, low_ns) AS DOUBLE) AS inside_ns
  FROM judged AS c JOIN (VALUES {windows}) AS w(number, low_ns, high_ns, tid)
    ON start_ns < high_ns AND start_ns + latency_ns > low_ns AND c.tid <> w.tid
  WHERE layer = 'syscall' AND latency_ns >= {max(1, least_ns)}) AS calls
GROUP BY 1, 2 ORDER BY 1, 2"""


def _is_rare(case: Case, survey: Survey, episode: Episode, tid: int) -> bool:
    """Whether the thread is rarely held as long as this at other times: a compaction that is always at work holds nobody by being there."""
    least_ns = int(HELD_CALL_PART_MIN * episode.excess_ns[APP])
    data = case.arrays(
        f"""SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM judged
WHERE layer = 'syscall' AND tid = {tid} AND latency_ns >= {max(1, least_ns)} ORDER BY 1"""
    )
    begin, end = disjoint(data["begin_ns"].astype(np.int64), data["end_ns"].astype(np.int64))
    return not is_elsewhere(Times(begin, end), episode, survey)


def _moved(episode: Episode, other: _Other, asleep_in: int) -> Episode:
    """The same, with the time that it lost asleep in a stage in those that held the other thread, or the request."""
    stage_ns, excess_ns = list(episode.stage_ns), list(episode.excess_ns)
    left = episode.excess_ns[asleep_in]
    for stage, held_ns in sorted(zip(HELD_IN, other.held_ns, strict=True), key=lambda each: -each[1]):
        part = min(left, held_ns)
        left -= part
        for values in (stage_ns, excess_ns):
            values[asleep_in] -= part
            values[STAGES.index(stage)] += part
    longest = HELD_IN[int(np.argmax(other.held_ns))]
    return replace(
        episode,
        stage_ns=tuple(stage_ns),
        excess_ns=tuple(excess_ns),
        device=other.device if longest in BELOW else "",
        tid=other.tid,
        flags=0,
        foreign_handler_ns=0.0,
    )
