"""Threads of the kernel, which are nobody's program."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.recorder import is_recorder
from whodisk.reading.views import Case
from whodisk.statistics.stats import Bools

#: Workers that the kernel begins for a program's io_uring: threads of that program, though it never asked for them by name.
OWN = re.compile(r"iou-(wrk|sqp)-[0-9]*")
#: Where a case does not say (before it had `kernel_threads`): what the kernel's threads are usually called.
USUAL = re.compile(
    r"(kworker|jbd2|xfsaild|xfs-|btrfs|kswapd|ksoftirqd|swapper|loop[0-9]|flush|io_wq|md[0-9]*_raid|dmcrypt|kcryptd|"
    r"rcu|migration|khugepaged|kcompactd|ksmd|kdamond|kthreadd|khungtaskd|oom_reaper|cpuhp).*"
)
#: The idle tasks, which are in no list of processes.
IDLE = re.compile(r"swapper(/[0-9]+)?")
#: Threads of the kernel that work for nobody who waits: the rebuild or check of a volume, or what mkfs left to be done later, competes like a program.
OF_THEIR_OWN = re.compile(r"md.*_(resync|reshape)|ext4lazyinit")
#: The kernel keeps 15 characters of a name.
COMM_MAX = 15


def is_kernel_thread(case: Case, comm: str) -> bool:
    """Whether a thread of this name is one of the kernel's, which works for whoever caused it: its requests belong to the judged program, too.

    So do the recorder's own: their work is excluded and counted. The kernel says which threads are its own (`kernel_threads` in system.json, with `#` for each number; in a redacted case with the tokens of some,
    too); a program may be called as it likes.
    """
    if OWN.fullmatch(comm) or IDLE.fullmatch(comm) or is_recorder(case, comm):
        return True
    if OF_THEIR_OWN.fullmatch(comm):
        return False
    told = case.system.get("kernel_threads")
    if not told:
        return USUAL.fullmatch(comm) is not None
    return comm in told or re.sub("[0-9]+", "#", comm[:COMM_MAX]) in told


def made_for(case: Case, comms: npt.NDArray[Any], own: Collection[str]) -> Bools:
    """Which of the requests with these names of threads a program made (`own`: its names), or the kernel for it; those of nobody, too."""
    names = [name for name in np.unique(comms) if not name or name in own or is_kernel_thread(case, name)]
    return np.asarray(np.isin(comms, names), np.bool_)
