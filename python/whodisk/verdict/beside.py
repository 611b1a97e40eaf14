"""What another program had at the device beside an operation that waited there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.slowest import Episode
from whodisk.evidence.surroundings import Times, is_elsewhere
from whodisk.evidence.thresholds import AHEAD_TOLD_MIN, COVERS_MIN
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import disjoint, overlap

#: Stages before a request comes to the device.
BEFORE = STAGES[: STAGES.index("device")]


@dataclass(frozen=True)
class Beside:
    """Requests that another program had at the device while an operation waited for it."""

    requests: int
    op: str
    program: str
    size_bytes: int
    #: Whether they seldom cover as much of other times of this length.
    certain: bool

    @property
    def said(self) -> str:
        size = f", {words.size(self.size_bytes)}" if self.size_bytes else ""
        return (
            f"beside {words.things(self.requests, self.op, words.plural_op(self.op))} of {self.program}{size}"
        )


def beside_of(context: Context, episode: Episode) -> Beside | None:
    """The program that had most requests of one kind at the device while an operation waited there, if these are many and cover nearly all of that time.

    What the kernel writes out in a thread of its own may be the program's own data: it is nobody else's.
    """
    if "block" not in context.surveys or not episode.device or episode.silence:
        return None
    from_ns = episode.start_ns + round(sum(episode.stage_ns[STAGES.index(stage)] for stage in BEFORE))
    requests = f"""(SELECT op, {program_sql(context)} AS program, size_bytes, start_ns, start_ns + latency_ns AS end_ns FROM block_ops
  WHERE device = {quoted(episode.device)} AND NOT open AND comm IS NOT NULL)"""
    rows = context.case.rows(
        f"""SELECT op, program, count(*) AS requests, sum(size_bytes) AS bytes FROM {requests} AS r
WHERE start_ns < {episode.end_ns} AND end_ns > {from_ns} AND program NOT IN ({own_sql(context)})
GROUP BY 1, 2 HAVING count(*) >= {AHEAD_TOLD_MIN} ORDER BY 3 DESC, 1, 2"""
    )
    found = next((row for row in rows if not is_kernel_thread(context.case, str(row["program"]))), None)
    if found is None:
        return None
    data = context.case.arrays(
        f"SELECT start_ns, end_ns FROM {requests} AS r WHERE op = {quoted(str(found['op']))} AND program = {quoted(str(found['program']))}"
    )
    times = Times(*disjoint(data["start_ns"].astype(np.float64), data["end_ns"].astype(np.float64)))
    window = np.array([float(from_ns)]), np.array([float(episode.end_ns)])
    covered = float(overlap(*window, times.begin_ns, times.end_ns)[0])
    if covered < COVERS_MIN * episode.stage_ns[STAGES.index("device")]:
        return None
    return Beside(
        int(found["requests"] or 0),
        str(found["op"]),
        str(found["program"]),
        int(found["bytes"] or 0),
        not is_elsewhere(times, episode, context.survey),
    )
