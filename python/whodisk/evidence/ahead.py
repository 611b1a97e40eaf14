"""What was ahead of an operation that waited in a queue."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.programs import program_sql
from whodisk.evidence.slowest import Episode
from whodisk.evidence.thresholds import AHEAD_TOLD_MIN, COVERS_MIN
from whodisk.reading.views import STAGES, quoted

#: Stages before a request comes into the queue.
ABOVE = STAGES[: STAGES.index("queue")]


@dataclass(frozen=True)
class Ahead:
    """Requests that a device had when an operation came into its queue."""

    requests: int
    #: The kind and the program of most of them; empty where none is known.
    op: str
    program: str
    #: How many are of that kind and program.
    alike: int

    @property
    def said(self) -> str:
        of = f" of {self.program}" if self.program else ""
        if self.alike == self.requests:
            return f"behind {words.things(self.requests, self.op, words.plural_op(self.op))}{of}"
        return f"behind {words.things(self.requests, 'request')}, {words.count(self.alike)} of them {words.plural_op(self.op)}{of}"


def ahead_of(context: Context, episode: Episode) -> Ahead | None:
    """What the device had when an operation came, if that is many requests and they kept it at work for nearly as long as the operation waited."""
    if "block" not in context.surveys or not episode.device or episode.silence:
        return None
    above_ns = sum(episode.stage_ns[STAGES.index(stage)] for stage in ABOVE)
    came_ns = episode.start_ns + round(above_ns)
    waited_ns = episode.stage_ns[STAGES.index("queue")]
    rows = context.case.rows(
        f"""WITH ahead AS (SELECT op, coalesce({program_sql(context)}, '') AS program, start_ns + latency_ns AS end_ns FROM block_ops
  WHERE device = {quoted(episode.device)} AND NOT open AND start_ns < {came_ns} AND start_ns + latency_ns > {came_ns} AND op_id <> {episode.op_ids[0]})
SELECT op, program, count(*) AS alike, (SELECT count(*) FROM ahead) AS requests, (SELECT max(end_ns) FROM ahead) AS until_ns
FROM ahead GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 1"""
    )
    if not rows or int(rows[0]["requests"] or 0) < AHEAD_TOLD_MIN:
        return None
    if float(rows[0]["until_ns"] or 0) - came_ns < COVERS_MIN * waited_ns:
        return None
    row = rows[0]
    return Ahead(int(row["requests"] or 0), str(row["op"]), str(row["program"]), int(row["alike"] or 0))
