"""Findings about something that was not injected: excused if an independent record shows it at the same operations.

Same device, same time, same size of effect: the record of a second tracer for devices, the same of the scheduler for single calls
that slept or had no CPU, the kernel's account of steal for hypervisors. What no independent record can show is never excused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from tests.accuracy.referee.faults import Finding, Injection
from tests.accuracy.referee.scheduler import LONG_NS, OffCpu
from tests.accuracy.referee.tracer import Request
from tests.accuracy.referee.truth import HIT_SHARE, Own, covered_ns

#: A request is slow if it took so many times the median of its device and kind, ...
SLOW_RATIO = 10
#: ... and at least so long: below, loads of other sizes look alike.
SLOW_NS_MIN = 1_000_000
#: Of the time in slow requests that a case tells, the second tracer must have so much ...
SEEN_SHARE = 0.9
#: ... in requests that begin within so long and take as long within that part.
SAME_BEGIN_NS, SAME_LENGTH = 1_000_000, 0.2
#: The part of the program's latency that it cost is the finding's within this factor.
SAME_SIZE = 2.0


#: Stages in which a thread that has no CPU sleeps, and those in which it is ready.
ASLEEP_IN, READY_IN = frozenset({"fs"}), frozenset({"runqueue"})


@dataclass(frozen=True)
class Records:
    """What was recorded of a run beside its case."""

    own: Own
    requests: Sequence[Request]
    #: Begin, end, stolen ns of samples with steal.
    stolen: Sequence[tuple[int, int, int]]
    case: Path
    #: CLOCK_MONOTONIC at the case's zero.
    case_start_ns: int
    #: The device that the fault is on: what it does is injected, so nothing of it is excused; None without a fault.
    faulty: str | None
    #: Times in which a thread of the program had no CPU.
    off: Sequence[OffCpu] = ()
    #: What was injected: operations that it touched are never excused.
    injected: Sequence[Injection] = ()


def excuse(finding: Finding, records: Records) -> str | None:
    """Which independent record shows what a finding says; None if none does."""
    culprit = finding["culprit"]
    if culprit["kind"] == "host" and culprit["name"] == "hypervisor":
        return _stolen(finding, records)
    device = _device(finding, records)
    if device is not None and device != records.faulty:
        return _slow_device(finding, device, records)
    if (stage := _of_thread(finding)) is not None:
        return _off_cpu(finding, stage, records)
    return None


def _of_thread(finding: Finding) -> str | None:
    """The stage in which a thread without a CPU holds an operation, if the finding is of one that says which operations it speaks of."""
    culprit = finding["culprit"]
    if culprit["kind"] == "stage":
        named = str(culprit["name"])
    else:
        named = str(culprit["because_of"] or "").removeprefix("stage:")
    shown: list[dict[str, Any]] = next((each["rows"] for each in finding.get("evidence", [])), [])
    singly = finding.get("basis") == "measured" and shown and {"start_ns", f"{named}_ns"} <= set(shown[0])
    return named if named in ASLEEP_IN | READY_IN and singly else None


def _off_cpu(finding: Finding, stage: str, records: Records) -> str | None:
    """Calls that the second record saw asleep, or ready without a CPU, for as long as is said; none that an injection touched."""
    lengths = np.array([each.asleep_ns if stage in ASLEEP_IN else each.ready_ns for each in records.off])
    begins = np.array([each.start_ns for each in records.off])
    ends = begins + np.array([each.asleep_ns + each.ready_ns for each in records.off])
    seen_ns, total_ns = 0, 0
    for row in finding["evidence"][0]["rows"]:
        begin = records.case_start_ns + int(row["start_ns"])
        end, length = begin + int(row["latency_ns"]), int(row[f"{stage}_ns"])
        if _injected(records, begin, end):
            return None
        within = (begins >= begin - SAME_BEGIN_NS) & (ends <= end + SAME_BEGIN_NS) & (lengths >= LONG_NS)
        total_ns += length
        if (np.abs(lengths[within] - length) <= SAME_LENGTH * length).any():
            seen_ns += length
    if not total_ns or seen_ns < SEEN_SHARE * total_ns:
        return None
    what = "asleep" if stage in ASLEEP_IN else "ready without a CPU"
    return f"scheduler's events: {seen_ns / 1e6:.1f} ms {what} in the same calls"


def _device(finding: Finding, records: Records) -> str | None:
    """The device that a finding accuses: by name, or as the only one that the case has."""
    culprit = finding["culprit"]
    if culprit["kind"] == "device":
        return str(culprit["name"])
    if culprit["kind"] != "stage" or "device" not in culprit["name"].split("+"):
        return None
    named = re.fullmatch(r"device:(.+)", culprit["because_of"] or "")
    if named:
        return named[1]
    devices = {request.device for request in records.requests}
    return devices.pop() if len(devices) == 1 else None


def _slow_device(finding: Finding, device: str, records: Records) -> str | None:
    """Slow requests of the case that the second tracer saw as well, and that cost the program as much as is said."""
    traced = [request for request in records.requests if request.device == device]
    claimed = slow_in_case(records.case, device)
    if not claimed or not traced:
        return None
    begins = np.array([request.start_ns for request in traced])
    order = np.argsort(begins)
    begins, lengths = begins[order], np.array([request.latency_ns for request in traced])[order]
    seen_ns, total_ns, slow = 0, 0, []
    for start, length in claimed:
        at = records.case_start_ns + start
        if _injected(records, at, at + length):
            return None
        near = slice(np.searchsorted(begins, at - SAME_BEGIN_NS), np.searchsorted(begins, at + SAME_BEGIN_NS))
        total_ns += length
        if (np.abs(lengths[near] - length) <= SAME_LENGTH * length).any():
            seen_ns += length
            slow.append(Injection(at, at + length))
    if seen_ns < SEEN_SHARE * total_ns:
        return None
    share = _cost(records.own, slow)
    return _same_size(
        finding, share, f"second tracer: {len(slow)} requests of {device}, {seen_ns / 1e6:.0f} ms"
    )


def _injected(records: Records, begin_ns: int, end_ns: int) -> bool:
    """Whether something was done to the program, its machine or its device in that time."""
    return any(each.start_ns < end_ns and each.end_ns > begin_ns for each in records.injected)


def _stolen(finding: Finding, records: Records) -> str | None:
    """Operations that lie in samples with steal, and what they cost."""
    windows = [Injection(begin, end) for begin, end, _ in records.stolen]
    share = _cost(records.own, windows)
    total = sum(ns for _, _, ns in records.stolen)
    return _same_size(
        finding, share, f"kernel's account of steal: {total / 1e6:.0f} ms in {len(windows)} samples"
    )


def slow_in_case(case: Path, device: str) -> list[tuple[int, int]]:
    """Begin (case's zero) and latency of the requests of a device that a case tells as slow, flushes by themselves."""
    folder = case / "ops" / "layer=block"
    if not folder.is_dir():
        return []
    query = f"""WITH requests AS (
  SELECT op, start_ns, COALESCE(device_ns, 0) + COALESCE(interrupt_ns, 0) AS served_ns, latency_ns
  FROM '{folder}/*.parquet' WHERE device = $device AND NOT open
), typical AS (SELECT op, median(served_ns) AS median_ns FROM requests GROUP BY op)
SELECT start_ns + latency_ns - served_ns, CAST(served_ns AS BIGINT) FROM requests JOIN typical USING (op)
WHERE served_ns >= {SLOW_NS_MIN} AND served_ns >= {SLOW_RATIO} * median_ns ORDER BY 1"""
    return [(int(a), int(b)) for a, b in duckdb.connect().execute(query, {"device": device}).fetchall()]


def _cost(own: Own, windows: Sequence[Injection]) -> float:
    """Part of the program's latency that operations lost which lie in these windows, against the median of their kind."""
    covered = covered_ns(own, windows)
    hit = (covered >= HIT_SHARE * own.latency_ns) & (covered > 0)
    lost = 0.0
    for kind in np.unique(own.kind):
        latency = own.latency_ns[own.kind == kind]
        lost += float(np.maximum(0.0, latency[hit[own.kind == kind]] - np.median(latency)).sum())
    return lost / float(own.latency_ns.sum())


def _same_size(finding: Finding, share: float, record: str) -> str | None:
    claimed = finding.get("share_of_latency")
    if not claimed or share <= 0 or not 1 / SAME_SIZE <= share / claimed <= SAME_SIZE:
        return None
    return f"{record}; it cost {share:.1%} of the program's latency, the finding says {claimed:.1%}"
