"""When those who serve a software device (a loop device on FUSE, ublk, nbd) were ready and had no CPU, and who had it: requests are late then, and
the device's time is theirs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from whodisk.evidence.foremost_processes import foremost_processes
from whodisk.evidence.own_threads import own_sql
from whodisk.evidence.serving_waits import servers_of, serving_of
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Ints


@dataclass(frozen=True)
class LateServers:
    """All times in which a thread that may serve a device was ready, and one program had the CPU; ns, in order of their begin."""

    who: str
    #: Whether that was a thread of the judged program.
    own: bool
    begin_ns: Ints
    end_ns: Ints
    #: The processes of that name, as far as they are known.
    pids: tuple[int, ...] = ()
    #: Those of them that had it most of the time, the longest first.
    foremost: tuple[int, ...] = ()

    @property
    def sql(self) -> str:
        """SQL, of a row of `waits`: it had the CPU."""
        return (
            f"cause_pid IN ({', '.join(map(str, self.pids))})" if self.pids else f"cause = {quoted(self.who)}"
        )


def late_servers(case: Case, layer: str) -> dict[str, list[LateServers]]:
    """Device -> these times, by who had the CPU, but for servers themselves; nothing where the recorder did not look at its servers."""
    return {
        device: found for device, serves in serving_of(case).items() if (found := _late(case, layer, serves))
    }


def late_file_systems(case: Case, layer: str, devices: Iterable[str]) -> dict[str, list[LateServers]]:
    """The same of all that a file system on one of these devices waits for: its journal's thread, and who serves the device."""
    serving = serving_of(case)
    found = {}
    for device in devices if "waits" in case.columns else ():
        found[device] = _late(case, layer, file_system_sql(device, serving.get(device, "false")))
    return {device: late for device, late in found.items() if late}


def file_system_sql(device: str, serves: str) -> str:
    """Whether a row of `waits` is of a thread that a file system on that device waits for; `serves`: of one that serves the device."""
    # linux/fs/jbd2/journal.c, fs/xfs/xfs_trans_ail.c: named by the device, or by a part of it. fs/btrfs/disk-io.c: by nothing.
    threads = f"starts_with(comm, 'jbd2/' || {quoted(device)}) OR starts_with(comm, 'xfsaild/' || {quoted(device)}) OR starts_with(comm, 'btrfs-trans')"
    return f"({threads} OR {serves})"


def _late(case: Case, layer: str, serves: str) -> list[LateServers]:
    serving = ", ".join(map(str, sorted(servers_of(case)))) or "-1"
    data = case.arrays(
        f"""SELECT cause, coalesce(cause_pid, 0) AS cause_pid, start_ns, start_ns + duration_ns AS end_ns, {own_sql(case, layer)} AS own FROM waits
WHERE state = 'runnable' AND cause IS NOT NULL AND {serves} AND coalesce(cause_pid NOT IN ({serving}), true) ORDER BY cause, own, start_ns"""
    )
    cause, own = data["cause"].astype(str), data["own"].astype(np.bool_)
    begin, end, pid = (data[name].astype(np.int64) for name in ("start_ns", "end_ns", "cause_pid"))
    found = []
    for who, mine in sorted({*zip(cause.tolist(), own.tolist(), strict=True)}):
        these = (cause == who) & (own == mine)
        pids = tuple(number for number in np.unique(pid[these]).tolist() if number > 0)
        # Where one is not known, the name stands for all.
        known = pids if bool((pid[these] > 0).all()) else ()
        had_ns = {number: float((end - begin)[these & (pid == number)].sum()) for number in known}
        found.append(LateServers(who, mine, begin[these], end[these], known, foremost_processes(had_ns)))
    return found
