"""Who began to use a device at a moment, and went on to the end: another program, on the device itself or on the disk below a loop device."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk import words
from whodisk.detectors.shared_devices import disk_asked, disks_below, on_disk
from whodisk.detectors.thresholds import NEWCOMER_IN_FLIGHT_MIN, NEWCOMER_OFF_MAX, NEWCOMER_OUTSIDE
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import quoted


@dataclass(frozen=True)
class Newcomer:
    """A program, and what it asked for."""

    comm: str
    #: The device that it mostly asked; in words, with what lies on it.
    device: str
    where: str
    requests: int
    #: Mean number in flight from the moment on.
    in_flight: float

    @property
    def said(self) -> str:
        """A sentence."""
        return (
            f" At that moment {self.comm} began to use {self.where}: {words.things(self.requests, 'request')}, "
            f"{words.significant(self.in_flight, 2)} in flight on average."
        )


def newcomer(context: Context, devices: tuple[str, ...], at_ns: int) -> Newcomer | None:
    """The one with most in flight; None if nobody came."""
    survey = context.surveys["block"]
    below = disks_below(context, list(devices))
    listed = ", ".join(map(quoted, (*devices, *below)))
    rows = context.case.rows(
        f"""SELECT comm, count(*) AS requests, sum(latency_ns) AS busy_ns, quantile_cont(start_ns, {NEWCOMER_OUTSIDE}) AS begin_ns, quantile_cont(start_ns, {1 - NEWCOMER_OUTSIDE}) AS end_ns
FROM (SELECT {program_sql(context)} AS comm, start_ns, latency_ns FROM measured WHERE layer = 'block' AND comm IS NOT NULL AND device IN ({listed})) AS requests
WHERE comm NOT IN ({own_sql(context)}) GROUP BY 1 ORDER BY 3 DESC, 1"""
    )
    off_ns = NEWCOMER_OFF_MAX * survey.span_ns
    left_ns = max(1.0, float(survey.end_ns - at_ns))
    for row in rows:
        comm, in_flight = str(row["comm"]), float(row["busy_ns"] or 0) / left_ns
        begin_ns = float(row["begin_ns"] or 0)
        # For most of the time before it was not there.
        came = abs(begin_ns - at_ns) <= off_ns and 2 * begin_ns >= survey.begin_ns + at_ns
        stayed = float(row["end_ns"] or 0) >= survey.end_ns - off_ns
        if (
            in_flight >= NEWCOMER_IN_FLIGHT_MIN
            and came
            and stayed
            and not is_kernel_thread(context.case, comm)
        ):
            disk = disk_asked(context, list(devices), below, comm)
            device, where = (devices[0], devices[0]) if disk is None else (disk, on_disk(disk, below))
            return Newcomer(comm, device, where, int(row["requests"] or 0), in_flight)
    return None
