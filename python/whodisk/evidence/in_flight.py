"""When devices had requests in flight."""

from __future__ import annotations

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import ASLEEP_REQUESTS_MAX
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints


def in_flight(context: Context, *devices: str) -> tuple[Ints, Ints]:
    """Begin and end of all their requests, ns, in order of the begin; none where they were not recorded, or are too many."""
    block = context.surveys.get("block")
    if block is None or block.operations > ASLEEP_REQUESTS_MAX:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    data = context.case.arrays(
        f"SELECT start_ns, start_ns + latency_ns AS end_ns FROM block_ops WHERE device IN ({', '.join(map(quoted, devices))}) AND NOT open ORDER BY 1, 2"
    )
    return data["start_ns"].astype(np.int64), data["end_ns"].astype(np.int64)
