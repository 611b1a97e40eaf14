"""Which waits for a CPU a program owes to itself."""

from __future__ import annotations

from whodisk.evidence.room import FOR_IO
from whodisk.evidence.serving_waits import serving_sql
from whodisk.evidence.submitters import processes_of
from whodisk.reading.views import Case, quoted


def own_sql(case: Case, layer: str) -> str:
    """SQL, of a row of `waits`: who had the CPU was a thread of the same process, or of one of the same name that submits in this layer, too, or
    of the command that was recorded.

    A server's processes crowd each other out, and so does a client that was started with it. Neither name nor process alone would do: another program
    may have the name, and in a recording of a whole machine every program submits. In one of a command the process decides, and no name.
    """
    of_command = bool(case.meta.get("command")) and "syscall" in case.layers
    # Requests are recorded of whoever makes them.
    submits = (
        ", ".join(map(str, processes_of(case, "syscall" if of_command and layer == "block" else layer)))
        or "NULL"
    )
    own = f"cause_pid = pid OR (cause = comm AND cause_pid IN ({submits}))"
    if of_command:
        # Calls are recorded of the command and its descendants alone. So are waits, but for those of who serves a device, and of whoever makes
        # requests or sleeps for one: such a one made no calls, and is another program, whatever its name. A shell that only starts programs
        # makes neither.
        own += " OR cause_pid IN (SELECT pid FROM syscall_ops WHERE pid IS NOT NULL GROUP BY 1)"
        for_io = ", ".join(map(quoted, FOR_IO))
        others = f"SELECT pid FROM waits WHERE pid IS NOT NULL AND (state = 'blocked' AND cause IN ({for_io}) OR {serving_sql(case)}) GROUP BY 1"
        if "block" in case.layers:
            others += " UNION ALL SELECT pid FROM block_ops WHERE pid IS NOT NULL GROUP BY 1"
        own += f" OR cause_pid IN (SELECT pid FROM waits WHERE pid IS NOT NULL AND pid NOT IN ({others}) GROUP BY 1)"
    return f"coalesce({own}, FALSE)"
