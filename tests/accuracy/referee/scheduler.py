"""A second record of threads: the kernel's own event tracing of the scheduler, with nothing of whodisk in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.accuracy.referee.tracer import instance, written

EVENTS = ("sched/sched_switch", "sched/sched_wakeup")
#: Shorter times off a CPU are left out: nothing that is told of single operations is shorter.
LONG_NS = 500_000
#: `dd-7 [001] d..2. 12.345678: sched_switch: prev_comm=dd prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=x next_pid=9 next_prio=120`
SWITCH = re.compile(
    r"\s(\d+)\.(\d{6,9}): sched_switch: .*? prev_pid=(\d+) .*? prev_state=(\S+) ==> .*? next_pid=(\d+) "
)
WAKEUP = re.compile(r"\s(\d+)\.(\d{6,9}): sched_wakeup: .*? pid=(\d+) ")
#: What `prev_state` says of a thread that still wants its CPU.
READY = ("R", "R+")


@dataclass(frozen=True)
class OffCpu:
    """One time in which a thread had no CPU: asleep at first, then ready. Times in CLOCK_MONOTONIC, to 1 us."""

    tid: int
    start_ns: int
    asleep_ns: int
    ready_ns: int


@contextmanager
def off_cpu(pids: Sequence[int]) -> Iterator[list[OffCpu]]:
    """Traces these processes and what they start; the list is filled at the end. Raises TracerError if it cannot."""
    threads = [path.name for pid in pids for path in Path(f"/proc/{pid}/task").glob("[0-9]*")]
    found: list[OffCpu] = []
    settings = (("options/event-fork", "1"), ("set_event_pid", " ".join(threads)))
    with instance("referee-threads", EVENTS, settings) as folder:
        yield found
        found += times_off(written(folder))


def times_off(lines: Iterable[str]) -> Iterator[OffCpu]:
    """Times off a CPU of `LONG_NS` and more, as they end."""
    #: Thread -> when it lost its CPU, and since when it has been ready.
    off: dict[str, tuple[int, int | None]] = {}
    for line in lines:
        if (woken := WAKEUP.search(line)) is not None:
            at_ns, tid = _moment(woken), woken[3]
            if tid in off and off[tid][1] is None:
                off[tid] = off[tid][0], at_ns
        elif (switch := SWITCH.search(line)) is not None:
            at_ns = _moment(switch)
            _, _, before, state, after = switch.groups()
            if after in off:
                start_ns, ready_since = off.pop(after)
                ready_ns = at_ns - (at_ns if ready_since is None else ready_since)
                if at_ns - start_ns >= LONG_NS:
                    yield OffCpu(int(after), start_ns, at_ns - start_ns - ready_ns, ready_ns)
            off[before] = at_ns, at_ns if state in READY else None


def _moment(match: re.Match[str]) -> int:
    return int(match[1]) * 10**9 + int(match[2].ljust(9, "0"))
