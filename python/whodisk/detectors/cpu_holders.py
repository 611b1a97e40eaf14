"""Who had the CPU while threads of a program were ready to run and waited for one."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.detectors.thresholds import HOG_SHARE_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.own_threads import is_recorder, own_sql
from whodisk.evidence.surroundings import IDLE
from whodisk.evidence.time_lost import waits_where
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.machine.servers import serving_pids


@dataclass(frozen=True)
class Hog:
    """Who had the CPU while submitters waited for it."""

    comm: str
    share: float
    #: One of the submitting processes themselves, or others of the same program.
    own: bool
    #: Serves what they ask for, in the kernel or (FUSE, nbd) as a program: the CPU that it takes is a part of the operations.
    serves: bool
    #: The recorder itself, on a machine that has no CPU to spare for it.
    recorder: bool
    #: Its process, where the judged program has the same name: nothing else tells the two apart.
    namesake: int | None
    #: ... and how many other processes of that name had the CPU, too.
    more: int

    @property
    def name(self) -> str:
        """Which program it is, of several of one name by its process."""
        if self.namesake is None:
            return self.comm
        more = f" and {self.more} more" if self.more else ""
        return f"{self.comm} (process {self.namesake}{more})"

    @property
    def told(self) -> str:
        """The same in a sentence."""
        return self.name if self.namesake is None else f"{self.name[:-1]}, not the recorded one)"

    @property
    def rival(self) -> bool:
        """Another program, which works for nobody but itself."""
        return not (self.own or self.serves or self.idle or self.recorder)

    @property
    def idle(self) -> bool:
        """Nobody: the CPU did nothing, though a thread was ready to run there (`whodisk.evidence.standstill`)."""
        return self.comm.startswith(IDLE)


def foremost(hogs: list[Hog]) -> Hog | None:
    """Who had it in a good part of the waits."""
    return hogs[0] if hogs and hogs[0].share >= HOG_SHARE_MIN else None


def hogs_of(context: Context, tids: list[int], least_ns: int = 1) -> list[Hog]:
    """Who had the CPU while submitters waited for one, the longest first."""
    rows = context.case.rows(hogs_sql(context, tids, least_ns))
    total = max(1.0, sum(float(row["waited_ns"] or 0) for row in rows))
    serving, judged = serving_pids(context), context.own_programs[0]
    return [
        Hog(
            comm=str(row["cause"]),
            share=float(row["waited_ns"] or 0) / total,
            own=bool(row["own"]),
            serves=is_kernel_thread(context.case, str(row["cause"])) or row["cause_pid"] in serving,
            recorder=is_recorder(context.case, str(row["cause"]), row["cause_pid"]),
            namesake=int(row["cause_pid"])
            if row["cause_pid"] is not None and not row["own"] and str(row["cause"]) in judged
            else None,
            more=int(row["processes"] or 1) - 1,
        )
        for row in rows
        if row["cause"] is not None
    ]


def hogs_sql(context: Context, tids: list[int], least_ns: int = 1) -> str:
    return f"""SELECT cause, {own_sql(context.case, context.layer)} AS own, count(*) AS waits, sum(duration_ns) AS waited_ns,
  max(duration_ns) AS longest_ns, min(cause_pid) AS cause_pid, count(DISTINCT cause_pid) AS processes
FROM waits WHERE {waits_where(context, tids, "runnable")} AND duration_ns >= {least_ns} GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2 LIMIT 10"""
