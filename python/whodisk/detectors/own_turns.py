"""Calls that slept for what is no storage's: for a call of another thread of their program, or until every CPU had let go of something. It accuses nobody."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whodisk.detectors.base import Detector, Result
from whodisk.detectors.candidates import excuse_in_files
from whodisk.evidence.context import Context
from whodisk.evidence.own_turns import behind_all_cpus, behind_own_calls
from whodisk.reading.views import STAGES
from whodisk.statistics.stats import Bools

FS = STAGES.index("fs")


def run(context: Context) -> Result:
    """Excuses them, and says what they cost."""
    result = Result()
    _tell(
        context,
        result,
        behind_own_calls,
        "a call of another thread of the same program was done",
        "The kernel lets one at a time into a file or folder; files of their own for each thread would spread that.",
    )
    _tell(
        context,
        result,
        behind_all_cpus,
        "every CPU had passed a quiet moment (RCU), as when the table of open files grows",
        "No storage is waited for then.",
    )
    return result


def _tell(context: Context, result: Result, which: Callable[..., Bools], until: str, what: str) -> None:
    slow = context.slow
    at = np.flatnonzero(~context.explained & (slow.blamed == FS))
    lost_ns = slow.stage_excess_ns[at, FS]
    waited = at[which(context.case, slow.tid[at], slow.start_ns[at], slow.end_ns[at], lost_ns)]
    excuse_in_files(context, result, waited, f"until {until}", what, f"waited until {until}")


DETECTOR = Detector(
    name="own_turns",
    needs=("judged.start_ns", "judged.latency_ns", "waits.waker_tid"),
    needs_stages=("fs",),
    null_model="none: what calls slept in, and who let them go on, stands in the record",
    smallest_effect="1 % of all latency, to be mentioned",
    run=run,
)
