"""Which waits for a CPU a program owes to itself, and which to the recorder."""

from __future__ import annotations

#: How every thread of the recorder is called (decision 0001).
RECORDER = "whodisk-"


def is_recorder(comm: str) -> bool:
    """Whether a thread of this name is one of the recorder's own: what it costs is told, and accuses nobody."""
    return comm.startswith(RECORDER)


def own_sql(layer: str) -> str:
    """SQL, of a row of `waits`: who had the CPU was a thread of the same process, or of one of the same name that submits in this layer, too.

    A server's processes crowd each other out. Neither name nor process alone would do: another program may have the name, and in a recording
    of a whole machine every program submits.
    """
    submits = f"SELECT pid FROM judged WHERE layer = '{layer}' AND pid IS NOT NULL GROUP BY 1"
    return f"coalesce(cause_pid = pid OR (cause = comm AND cause_pid IN ({submits})), FALSE)"
