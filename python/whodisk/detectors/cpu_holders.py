"""Who had the CPU while threads of a program were ready to run and waited for one.

What had it is known by its thread's name and its process. Threads of a process count together, however they are called, and so do processes of one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whodisk import words
from whodisk.detectors.thresholds import CROWD_TOLD, HOG_SHARE_MIN, HOLDERS_MAX, ONE_HOG_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.foremost_processes import foremost_processes
from whodisk.evidence.own_threads import own_sql
from whodisk.evidence.recorder import is_recorder
from whodisk.evidence.surroundings import IDLE
from whodisk.evidence.time_lost import waits_where
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.machine.partners import partners_of
from whodisk.machine.servers import serving_pids
from whodisk.reading.views import Case, Row, quoted


@dataclass(frozen=True)
class Hog:
    """Who had the CPU while submitters waited for it."""

    #: What its process is called, or the thread of it that had the CPU longest.
    comm: str
    #: Which program it is, of several of one name by its process; and the same in a sentence.
    name: str
    told: str
    #: What its threads are called.
    threads: tuple[str, ...]
    share: float
    #: One of the submitting processes themselves, or others of the same program.
    own: bool
    #: Another program that lets the judged one's threads go on again and again: its client, or what it asks.
    partner: bool
    #: Serves what they ask for, in the kernel or (FUSE, nbd) as a program: the CPU that it takes is a part of the operations.
    serves: bool
    #: The recorder itself, on a machine that has no CPU to spare for it.
    recorder: bool
    #: Its process, if it is one, where the judged program has the same name: nothing else tells the two apart.
    namesake: int | None

    @property
    def sql(self) -> str:
        """SQL, of a row of `waits`: it had the CPU."""
        return f"cause IN ({', '.join(map(quoted, self.threads))})"

    @property
    def rival(self) -> bool:
        """Another program, which works for nobody but itself."""
        return not (self.own or self.partner or self.serves or self.idle or self.recorder)

    @property
    def together(self) -> bool:
        """The program itself, or one that it works with: what they take from each other is their work."""
        return self.own or self.partner

    @property
    def idle(self) -> bool:
        """Nobody: the CPU did nothing, though a thread was ready to run there (`whodisk.evidence.standstill`)."""
        return self.comm.startswith(IDLE)


def told_apart(context: Context, name: str, pids: Sequence[int]) -> tuple[str, str]:
    """What another program is called, and what in a sentence: one that has the judged program's name with its processes (`pids`, the foremost first), where they are
    known."""
    pids = _not_recorded(context, pids)
    if name not in context.own_programs[0] or not pids:
        return name, name
    told = (
        f"processes {words.some([str(pid) for pid in pids], CROWD_TOLD)}"
        if len(pids) > CROWD_TOLD
        else words.processes(tuple(pids))
    )
    which = f"{name} ({told}"
    # Where the recording was limited to one program, what is not its own was not recorded with it.
    return f"{which})", f"{which}, not the recorded one)" if context.case.is_of_a_part else f"{which})"


def _not_recorded(context: Context, pids: Sequence[int]) -> list[int]:
    recorded = {context.case.meta.get("command_pid"), *context.own_programs[1]}
    return [pid for pid in pids if pid not in recorded]


def foremost(hogs: list[Hog]) -> Hog | None:
    """Who had it in a good part of the waits."""
    return hogs[0] if hogs and hogs[0].share >= HOG_SHARE_MIN else None


def told_crowd(hogs: Sequence[Hog]) -> str | None:
    """Several other programs, none of which had the CPU in a good part of the waits; None where others than these had it."""
    rivals = [hog for hog in hogs if hog.rival]
    if sum(hog.share for hog in rivals) < ONE_HOG_MIN:
        return None
    return words.some([f"{hog.comm} ({words.percent(hog.share)})" for hog in rivals], CROWD_TOLD)


def hogs_of(context: Context, tids: list[int], least_ns: int = 1) -> list[Hog]:
    """Who had the CPU while submitters waited for one, the longest first."""
    case = context.case
    rows = case.rows(_holders_sql(context, tids, least_ns))
    total = max(1.0, float(rows[0]["every_ns"] or 0) if rows else 0.0)
    names: dict[tuple[int, bool], str] = {}
    of_name: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        if row["cause"] is None:
            continue
        thread, own, pid = str(row["cause"]), bool(row["own"]), row["cause_pid"]
        # The first row of a process is that of the thread that had it longest.
        name = (
            thread
            if not isinstance(pid, int) or pid <= 0
            else names.setdefault((pid, own), _process(case, pid, thread))
        )
        of_name.setdefault((name, own), []).append(row)
    serving, partners = serving_pids(context), frozenset(partners_of(context))
    hogs = [_hog(context, name, own, its, total, serving, partners) for (name, own), its in of_name.items()]
    return sorted(hogs, key=lambda hog: -hog.share)


def _process(case: Case, pid: int, thread: str) -> str:
    """What a process is called, where the recording says so, else its thread. Threads of the kernel, and the recorder's, have names of their own."""
    return str((case.system.get("processes") or {}).get(str(pid), thread))


def _hog(
    context: Context,
    name: str,
    own: bool,
    rows: list[Row],
    total: float,
    serving: frozenset[int],
    partners: frozenset[int],
) -> Hog:
    first, thread = rows[0], str(rows[0]["cause"])
    had_ns: dict[int, float] = {}
    for row in rows:
        if isinstance(row["cause_pid"], int):
            had_ns[row["cause_pid"]] = had_ns.get(row["cause_pid"], 0.0) + float(row["waited_ns"] or 0)
    pids = foremost_processes(had_ns)
    which, told = told_apart(context, name, [] if own else pids)
    others = _not_recorded(context, pids)
    return Hog(
        comm=name,
        name=which,
        told=told,
        threads=tuple(sorted({str(row["cause"]) for row in rows})),
        share=sum(float(row["waited_ns"] or 0) for row in rows) / total,
        own=own,
        partner=not own and bool(pids) and partners.issuperset(pids),
        serves=is_kernel_thread(context.case, thread) or first["cause_pid"] in serving,
        recorder=is_recorder(context.case, thread, first["cause_pid"]),
        namesake=None if which == name or len(others) > 1 else others[0],
    )


def _holders_sql(context: Context, tids: list[int], least_ns: int) -> str:
    return f"""SELECT cause, cause_pid, {own_sql(context.case, context.layer)} AS own, sum(duration_ns) AS waited_ns, sum(sum(duration_ns)) OVER () AS every_ns
FROM waits WHERE {waits_where(context, tids, "runnable")} AND duration_ns >= {least_ns}
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT {HOLDERS_MAX}"""


def hogs_sql(context: Context, tids: list[int], least_ns: int = 1) -> str:
    return f"""SELECT cause, {own_sql(context.case, context.layer)} AS own, count(*) AS waits, sum(duration_ns) AS waited_ns,
  max(duration_ns) AS longest_ns, min(cause_pid) AS cause_pid, count(DISTINCT cause_pid) AS processes
FROM waits WHERE {waits_where(context, tids, "runnable")} AND duration_ns >= {least_ns} GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2 LIMIT 10"""
