"""The recorder itself, which is nobody's program either."""

from __future__ import annotations

from whodisk.reading.views import Case

#: Where a case does not say (before it had `recorder`): how every thread of the recorder is called (decision 0001).
USUAL = "whodisk-"
#: Why nobody is accused of what the recorder itself held up.
RECORDER_HAD_CPU = "the recorder had the CPU"


def is_recorder(case: Case, comm: str, pid: object = None) -> bool:
    """Whether a thread of this name and process is the recorder's own, as `recorder` in system.json says: what it costs accuses nobody.

    `pid` may be NULL (None): then the name alone decides.

    A name alone is not enough: `whodisk slowdisk`, a device that somebody tests with, is called as the recorder is.
    """
    told = case.system.get("recorder")
    if not told:
        return comm.startswith(USUAL)
    if pid is None:
        return any(comm in threads for threads in told.values())
    return comm in told.get(str(pid), ())
