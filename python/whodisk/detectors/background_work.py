"""Another program that works on the same device: a rebuild, a scrub, a backup, a neighbour.

Its presence is compared with its absence in the same recording: what is always there has no baseline, and accuses nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import PRESENCE_SMALLEST_EFFECT, of_presence
from whodisk.detectors.shared_devices import disk_asked, disks_below, shared_devices, where
from whodisk.detectors.thresholds import BACKGROUND_MOVED_MIN, BULK_ORDINARY_MAX
from whodisk.evidence.context import Context
from whodisk.evidence.flush_owners import flushes_of_others
from whodisk.evidence.presence import Load, Presence, bins_of, compare, load_of
from whodisk.evidence.programs import programs_sql
from whodisk.findings import Culprit
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Bools, Floats

#: What a device, or who is served there, may hold: not how long the program left what was done.
TIME_BELOW = "latency_ns - coalesce(reap_ns, 0)"


@dataclass(frozen=True)
class Work:
    """A program, and what its presence costs."""

    comm: str
    bytes: float
    presence: Presence
    #: Slow operations that began or ended in its presence.
    met: Bools


def run(context: Context) -> Result:
    """A candidate for each program that slows the judged operations while it is there."""
    result = Result()
    if context.layer not in ("app", "syscall") or "block" not in context.surveys:
        return result
    bins = bins_of(context)
    if bins is None:
        return result
    shared = shared_devices(context)
    below = disks_below(context, shared)
    load = load_of(context, bins, TIME_BELOW)
    seen: set[str] = set()
    # Whoever asks the shared devices is judged by that: what else it does further down is not in the way more than that.
    for devices in (shared, [*below]) if below else (shared,):
        data = context.case.arrays(programs_sql(context, bins, devices))
        names = sorted({str(name) for name in data["comm"]} - seen)
        seen.update(names)
        everybody = _per_bin(data, np.ones(len(data["bin"]), np.bool_), bins)
        flushed = _flushed(context, bins, devices)
        work = [
            w for name in names if (w := _work(context, data, name, everybody, load, flushed)) is not None
        ]
        result.candidates += [
            _candidate(context, bins, devices, w, where(disk_asked(context, shared, below, w.comm), below))
            for w in work
        ]
    return result


def _flushed(context: Context, bins: int, devices: list[str]) -> dict[str, Bools]:
    """By program when these devices flushed what it had written, per time bin. A flush that took far longer than its others did is the device's doing."""
    first, last = (context.survey.time_bin_sql(bins, at) for at in ("start_ns", "end_ns"))
    rows = context.case.arrays(
        f"""SELECT comm, {first} AS first, {last} AS last, end_ns - start_ns AS took_ns FROM {flushes_of_others(context)}
WHERE device IN ({", ".join(map(quoted, devices)) or "NULL"}) ORDER BY start_ns, op_id"""
    )
    comm, took = rows["comm"].astype(str), rows["took_ns"].astype(np.float64)
    found: dict[str, Bools] = {}
    for name in np.unique(comm).tolist():
        mine = comm == name
        ordinary = mine & (took <= BULK_ORDINARY_MAX * np.median(took[mine]))
        there = np.zeros(bins + 1, np.int64)
        np.add.at(there, rows["first"][ordinary].astype(np.int64), 1)
        np.add.at(there, rows["last"][ordinary].astype(np.int64) + 1, -1)
        found[name] = np.asarray(np.cumsum(there)[:bins] > 0, np.bool_)
    return found


def _work(
    context: Context,
    data: dict[str, np.ndarray],
    name: str,
    everybody: tuple[Floats, Floats],
    load: Load,
    flushed: dict[str, Bools],
) -> Work | None:
    mine = data["comm"] == name
    if is_kernel_thread(context.case, name) or data["own"][mine].any():
        return None
    size, requests = own = _per_bin(data, mine, load.bins)
    came = np.asarray(requests > 0, np.bool_)
    # It syncs what it writes: while the device does that, it is there.
    present = came | flushed.get(name, came)
    # A quiet bin between two busy ones is no absence.
    came[1:-1] |= came[:-2] & came[2:]
    present[1:-1] |= present[:-2] & present[2:]
    # Its part of what all programs did while it was there.
    moved = max(
        float(its.sum() / max(1.0, all_[present].sum())) for its, all_ in zip(own, everybody, strict=True)
    )
    presence = compare(context, load, present, came) if moved >= BACKGROUND_MOVED_MIN else None
    return Work(name, float(size.sum()), presence, _met(context, present)) if presence else None


def _met(context: Context, present: Bools) -> Bools:
    survey, slow = context.survey, context.slow
    first, last = (
        np.clip((at - survey.begin_ns) * len(present) // survey.span_ns, 0, len(present) - 1)
        for at in (slow.start_ns, slow.end_ns)
    )
    return np.asarray(present[first] | present[last], np.bool_)


def _per_bin(data: dict[str, np.ndarray], chosen: Bools, bins: int) -> tuple[Floats, Floats]:
    """Bytes and requests of the chosen rows, per time bin."""
    place = data["bin"][chosen].astype(np.int64)
    size, requests = (
        np.bincount(place, data[column][chosen].astype(np.float64), bins).astype(np.float64)
        for column in ("bytes", "requests")
    )
    return size, requests


def _candidate(context: Context, bins: int, devices: list[str], work: Work, where: str) -> Candidate:
    found = of_presence(
        context,
        work.presence,
        culprit=Culprit("process", work.comm, "background work"),
        what=(
            f"{work.comm} works on {where} ({words.things(work.presence.times, 'time')}, "
            f"{words.percent(work.presence.part)} of the time, {words.size(work.bytes)})"
        ),
        baseline=f"operations that began while {work.comm} did nothing on their devices",
        evidence=[
            evidence(
                context.case,
                "who read or wrote how much on the same devices",
                _bytes_sql(context, bins, devices),
            )
        ],
        refute=f"Stop {work.comm} for a while: operations that stay slow are not its.",
        remedy=f"Let {work.comm} work at another time, on another device, or less at once: io.weight or io.max for its group, "
        "ionice -c3; for a rebuild or scrub sync_speed_max.",
    )
    found.causes = tuple(("stage", stage) for stage in STAGES if stage != "reap")
    found.met = work.met
    # Where its times have a period, `burst` reports it.
    found.consequence = True
    return found


def _bytes_sql(context: Context, bins: int, devices: list[str]) -> str:
    return f"""SELECT comm, own, count(*) AS bins, sum(bytes) AS bytes FROM ({programs_sql(context, bins, devices)}) AS p
GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2 LIMIT 20"""


DETECTOR = Detector(
    name="background_work",
    needs=("judged.start_ns", "judged.comm"),
    needs_stages=(),
    null_model="the same times of presence in any order and at any distances meet operations as slow",
    smallest_effect=PRESENCE_SMALLEST_EFFECT,
    run=run,
)
