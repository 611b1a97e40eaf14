"""The registry: a fault is one file and one line here."""

from __future__ import annotations

from tests.accuracy.faults import (
    bfq,
    cpu_limit,
    dirty,
    errors,
    eviction,
    fsync_storm,
    healthy,
    hog,
    io_limit,
    readahead,
    stall,
    stopped,
    tail,
)
from tests.accuracy.faults.base import Fault

FAULTS: tuple[Fault, ...] = (
    *tail.FAULTS,
    *stall.FAULTS,
    *stopped.FAULTS,
    *hog.FAULTS,
    *io_limit.FAULTS,
    *cpu_limit.FAULTS,
    *fsync_storm.FAULTS,
    *readahead.FAULTS,
    *eviction.FAULTS,
    *bfq.FAULTS,
    *dirty.FAULTS,
    *errors.FAULTS,
    *healthy.FAULTS,
)
