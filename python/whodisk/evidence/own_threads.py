"""Which waits for a CPU a program owes to itself."""

from __future__ import annotations

from whodisk.evidence.serving_waits import serving_sql
from whodisk.evidence.submitters import processes_of
from whodisk.reading.views import Case


def own_sql(case: Case, layer: str) -> str:
    """SQL, of a row of `waits`: who had the CPU was a thread of the same process, or of one of the same name that submits in this layer, too, or
    of the command that was recorded.

    A server's processes crowd each other out, and so does a client that was started with it. Neither name nor process alone would do: another program
    may have the name, and in a recording of a whole machine every program submits.
    """
    submits = ", ".join(map(str, processes_of(case, layer))) or "NULL"
    own = f"cause_pid = pid OR (cause = comm AND cause_pid IN ({submits}))"
    if case.meta.get("command") and "syscall" in case.layers:
        # Calls are recorded of the command and its descendants alone. So are waits, but for those of who serves a device, and of whoever makes
        # requests or sleeps for one: such a one is another program, unless a program of that name made calls. A shell that only starts programs
        # makes none. The name is the last that a thread had: until it executes its program it has that of the shell.
        own += " OR cause_pid IN (SELECT pid FROM syscall_ops WHERE pid IS NOT NULL GROUP BY 1)"
        does_io = "pid IN (SELECT pid FROM waits WHERE state = 'blocked' AND cause = 'io' GROUP BY 1)"
        if "block" in case.layers:
            does_io += " OR pid IN (SELECT pid FROM block_ops WHERE pid IS NOT NULL GROUP BY 1)"
        named = "comm IN (SELECT comm FROM syscall_ops WHERE comm IS NOT NULL GROUP BY 1)"
        threads = f"SELECT pid, tid, arg_max(comm, start_ns) AS comm FROM waits WHERE pid IS NOT NULL AND NOT {serving_sql(case)} GROUP BY 1, 2"
        own += f" OR cause_pid IN (SELECT pid FROM ({threads}) AS threads WHERE {named} OR NOT ({does_io}) GROUP BY 1)"
    return f"coalesce({own}, FALSE)"
