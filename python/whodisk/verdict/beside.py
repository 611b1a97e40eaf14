"""What else a device had beside an operation that waited there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.flush_owners import flushes_of_others
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.slowest import Episode
from whodisk.evidence.surroundings import FLUSHED, Times, is_elsewhere
from whodisk.evidence.thresholds import AHEAD_TOLD_MIN, COVERS_MIN
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import disjoint, overlap

#: Stages before a request comes to the device.
BEFORE = STAGES[: STAGES.index("device")]


FLUSH = "flush"
#: Who writes out what any program has written.
KERNEL = "the kernel"
#: What is told of several, the last first: many requests of a program, a flush, many writes of the kernel's, the few of a program.
RANKS = (FEW := "few", WRITEBACK := "writeback", FLUSH, MANY := "many")
#: What a program may do beside an operation that has nothing to do with it.
OPPOSITE = {"read": "write", "fault": "write", "write": "read"}


@dataclass(frozen=True)
class Beside:
    """What a device had beside an operation that waited for it: requests of another program, or a flush, which has none."""

    requests: int
    op: str
    program: str
    size_bytes: int
    #: Whether they seldom cover as much of other times of this length.
    certain: bool
    #: Whether the flush that makes them durable is a part of it.
    flushed: bool = False

    @property
    def said(self) -> str:
        if self.op == FLUSH:
            return FLUSHED
        size = f", {words.size(self.size_bytes)}" if self.size_bytes else ""
        whose = "that the kernel wrote out" if self.program == KERNEL else f"of {self.program}"
        flush = f", and {'their' if self.requests > 1 else 'its'} flush" if self.flushed else ""
        return f"beside {words.things(self.requests, self.op, words.plural_op(self.op))} {whose}{size}{flush}"


def beside_of(context: Context, episode: Episode) -> Beside | None:
    """What covers nearly all of the time that an operation waited at the device: many requests of one kind of another program; else a flush; else the few that
    another program had there, which a device that stands still holds, too, so that they were there at the same time and no more is known.

    What the kernel writes out in threads of its own may be the program's own data: it is told as that. Of the program itself only many writes beside a read
    count, and many reads beside a write: of its own kind of requests an operation is one.
    """
    if "block" not in context.surveys or not episode.device or episode.silence:
        return None
    from_ns = episode.start_ns + round(sum(episode.stage_ns[STAGES.index(stage)] for stage in BEFORE))
    data = context.case.arrays(
        f"""SELECT op, program, own, size_bytes, start_ns, end_ns FROM (SELECT *, program IN ({own_sql(context)}) AS own FROM {_requests_sql(context, episode.device)} AS r) AS r
WHERE start_ns < {episode.end_ns} AND end_ns > {from_ns} AND (NOT own OR op = {quoted(OPPOSITE.get(episode.op, ""))}) ORDER BY start_ns, end_ns"""
    )
    op, program = data["op"].astype(str), _programs(context, data)
    window = np.array([float(from_ns)]), np.array([float(episode.end_ns)])
    least_ns = COVERS_MIN * episode.stage_ns[STAGES.index("device")]
    found: list[tuple[str, int, float, Beside]] = []
    pairs = sorted(set(zip(op.tolist(), program.tolist(), strict=True)))
    # A program's writes, and the flush that makes them durable, are one work.
    syncing = {who for kind, who in pairs if kind == FLUSH and who and ("write", who) in pairs}
    for kind, who in pairs:
        if kind == FLUSH and who in syncing:
            continue
        both = kind == "write" and who in syncing
        mine = ((op == kind) | (both & (op == FLUSH))) & (program == who)
        times = disjoint(data["start_ns"][mine].astype(np.float64), data["end_ns"][mine].astype(np.float64))
        covered = float(overlap(*window, *times)[0])
        if covered < least_ns:
            continue
        count = int((mine & (op == kind)).sum())
        many = count >= AHEAD_TOLD_MIN and kind != FLUSH
        if not many and (bool(data["own"][mine][0]) or (who == KERNEL and kind != FLUSH)):
            continue
        size = int(data["size_bytes"][mine].astype(np.int64).sum())
        beside = Beside(count, kind, who, size, certain=False, flushed=both)
        rank = FLUSH if kind == FLUSH else FEW if not many else WRITEBACK if who == KERNEL else MANY
        found.append((rank, count if many else 0, covered, beside))
    if not found:
        return None
    rank, *_, most = max(
        found, key=lambda each: (RANKS.index(each[0]), *each[1:3], each[3].op, each[3].program)
    )
    if rank == FEW:
        return most
    kinds = ", ".join(map(quoted, (most.op, FLUSH) if most.flushed else (most.op,)))
    theirs = context.case.arrays(
        f"SELECT program, start_ns, end_ns FROM {_requests_sql(context, episode.device)} AS r WHERE op IN ({kinds})"
    )
    mine = _programs(context, theirs) == most.program
    every = Times(
        *disjoint(theirs["start_ns"][mine].astype(np.float64), theirs["end_ns"][mine].astype(np.float64))
    )
    return replace(most, certain=not is_elsewhere(every, episode, context.survey))


def _programs(context: Context, requests: dict[str, np.ndarray]) -> np.ndarray:
    """Whose these requests are; all threads of the kernel are one."""
    program = requests["program"].astype(object)
    for who in np.unique(program.astype(str)).tolist():
        if is_kernel_thread(context.case, who):
            program[program == who] = KERNEL
    return program.astype(str)


def _requests_sql(context: Context, device: str) -> str:
    """SQL: requests of a device with their program, and flushes with the other program that they are for, if there is one."""
    owners = flushes_of_others(context)
    return f"""(SELECT op, coalesce({program_sql(context)}, (SELECT f.comm FROM {owners} AS f WHERE f.op_id = block_ops.op_id), '') AS program,
    coalesce(size_bytes, 0) AS size_bytes, start_ns, start_ns + latency_ns AS end_ns FROM block_ops
  WHERE device = {quoted(device)} AND NOT open AND (comm IS NOT NULL OR op = '{FLUSH}'))"""
