"""Every I/O scheduler on one kernel, in one boot: each request is recorded once, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.vm.cases import check_schedulers
from tests.vm.faults import Run

pytestmark = pytest.mark.vm


def test_schedulers_of_6_12(schedulers_6_12: Run) -> None:
    """NVMe with one queue and virtio-blk on a machine with one CPU: drives that get mq-deadline unless told otherwise."""
    check_schedulers(schedulers_6_12, left_with="mq-deadline")


def test_schedulers_of_6_1(schedulers_6_1: Run) -> None:
    """The same drives on the oldest kernel that is recorded."""
    check_schedulers(schedulers_6_1, left_with="mq-deadline", start="block_getrq")
