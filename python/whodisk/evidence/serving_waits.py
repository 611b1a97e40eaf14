"""What the threads that serve software devices waited for a CPU: a request is late there if they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from whodisk.evidence.thresholds import SERVED_LATE_MIN
from whodisk.reading.views import Case
from whodisk.statistics.stats import Bools, Floats, Ints, overlap

#: The kernel's workers are called so; which of them works for which device is not recorded.
KERNEL_WORKERS = "starts_with(comm, 'kworker/')"


@dataclass(frozen=True)
class ServingWaits:
    """Begin and end of the waits for a CPU, ns, by software device, of the threads that serve it from user space and of the kernel's workers."""

    of_device: dict[str, tuple[Ints, Ints]]

    def may_have_held(self, device: str, start_ns: Ints, end_ns: Ints, lost_ns: Floats) -> Bools:
        """Whether those who serve a device waited for a good part of what each of these operations lost. Of a device whose servers are not known they may have."""
        if device not in self.of_device:
            return np.ones(len(start_ns), np.bool_)
        waited_ns = overlap(start_ns, end_ns, *self.of_device[device])
        return np.asarray(waited_ns >= SERVED_LATE_MIN * lost_ns, np.bool_)


def servers_of(case: Case) -> dict[int, list[str]]:
    """Processes that serve devices from user space, and which, if their waits for a CPU were recorded; else nothing."""
    probe = (case.meta.get("probes") or {}).get("sched") or {}
    if not (probe.get("counts") or {}).get("servers"):
        return {}
    return case.servers


def serving_sql(case: Case) -> str:
    """Whether a row of `waits` is of a thread that serves a device."""
    pids = servers_of(case)
    return _may_be_sql(pids) if pids else "false"


def _may_be_sql(pids: Iterable[int]) -> str:
    """Whether a row of `waits` is of one of these processes, or of a worker of the kernel."""
    return f"(pid IN ({', '.join(map(str, sorted(pids)))}) OR {KERNEL_WORKERS})"


def serving_of(case: Case) -> dict[str, str]:
    """Software device -> whether a row of `waits` is of a thread that may serve it; nothing where the recorder did not look at its servers."""
    pids = servers_of(case) if "waits" in case.columns else {}
    devices = sorted({served for every in pids.values() for served in every})
    return {
        device: _may_be_sql(pid for pid, served in pids.items() if device in served) for device in devices
    }


def serving_waits(case: Case) -> ServingWaits:
    """These waits of a case."""
    found: dict[str, tuple[Ints, Ints]] = {}
    for device, serves in serving_of(case).items():
        data = case.arrays(
            f"""SELECT start_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'runnable' AND {serves} ORDER BY 1"""
        )
        found[device] = data["start_ns"].astype(np.int64), data["end_ns"].astype(np.int64)
    return ServingWaits(found)
