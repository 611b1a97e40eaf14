"""Threads that wait for a free place in the queue of a device: as many requests as it may hold are there already.

A queue that is full of what others write back, or of more than a device can take, is that device's load. One that may hold next to nothing is full by its setting.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import of_time_lost
from whodisk.detectors.thresholds import (
    FULL_QUEUE_LIMIT_MIN,
    FULL_QUEUE_SMALL,
    QUEUE_PER_DEVICE_MAX,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.time_lost import (
    Rows,
    TimeLost,
    held_rows,
    lost_in_rows,
    lost_meanwhile,
    submitters,
    threads_time,
)
from whodisk.findings import Culprit
from whodisk.reading.views import quoted, without_volumes_sql
from whodisk.statistics.stats import Bools

#: What a thread sleeps in until a request of a queue is free (block/blk-mq-tag.c).
TAG_WAITS = ("blk_mq_get_tag",)


def run(context: Context) -> Result:
    """A candidate where the setting is small; else a limit, or a sentence."""
    result = Result()
    tids = submitters(context)
    if not tids or "block" not in context.surveys:
        return result
    rows = held_rows(context, _waits_sql(tids))
    held = _held(context, tids, rows)
    device = _device(context, tids) if held is not None else None
    if held is None or device is None or held.share < SHARE_OF_LATENCY_FLOOR:
        return result
    places, usual = _places(context, device)
    said = (
        f"Operations, or their threads, waited {words.percent(held.share)} of their time for a free place in the queue of {device} "
        f"({words.things(held.count, 'time')}, typically {words.duration(held.each_ns)})"
    )
    if places is None or places >= min(FULL_QUEUE_SMALL, usual):
        may = f", which may hold {places} requests" if places is not None else ""
        if held.share >= FULL_QUEUE_LIMIT_MIN:
            result.besides = f"{said[0].lower()}{said[1:]}{may}"
            result.limited, result.limiting_device = True, device
        else:
            result.observed.append(f"{said}{may}.")
        return result
    if held.share >= SHARE_OF_LATENCY_MIN:
        result.candidates.append(
            _candidate(context, tids, held, said, device, places, lost_meanwhile(context, *rows))
        )
    return result


def _held(context: Context, tids: list[int], rows: Rows) -> TimeLost | None:
    """What these waits cost, whichever is more: those who submit, of their time; or all who waited, of the time of all operations.

    A thread that waits for a place neither submits nor takes what has ended, however many operations it has in flight. Workers of io_uring wait in its place for one
    operation each: what is in flight at once may be more than threads are.
    """
    threads = threads_time(context, tids)
    whole = threads * max(1.0, context.survey.latency_ns / max(1.0, float(threads.sum())))
    waited = np.unique(rows[0])
    submitting = lost_in_rows(context, waited[np.isin(waited, tids)].tolist(), rows, whole=threads)
    every = lost_in_rows(context, waited.tolist(), rows, whole=whole)
    return max(
        (held for held in (submitting, every) if held is not None), key=lambda held: held.share, default=None
    )


def _waits_sql(tids: list[int]) -> str:
    """The waits of these threads, and of the other threads of their processes."""
    listed = ", ".join(map(str, tids))
    return f"""SELECT tid, start_ns, start_ns + duration_ns AS end_ns, comm FROM waits
WHERE cause IN ({", ".join(map(quoted, TAG_WAITS))}) AND pid IN (SELECT pid FROM waits WHERE tid IN ({listed}) AND pid IS NOT NULL)"""


def _device(context: Context, tids: list[int]) -> str | None:
    """The device that most of these threads' requests waited for."""
    rows = context.case.rows(
        f"""SELECT device FROM block_ops WHERE tid IN ({", ".join(map(str, tids))}) AND device IS NOT NULL AND {without_volumes_sql(context.case)}
GROUP BY 1 ORDER BY sum(latency_ns) DESC, 1 LIMIT 1"""
    )
    return str(rows[0]["device"]) if rows else None


def _places(context: Context, device: str) -> tuple[int | None, int]:
    """How many requests a queue may hold, and how many Linux gives one like it."""
    about = (context.case.system.get("devices") or {}).get(device) or {}
    queue, facts = about.get("queue") or {}, about.get("facts") or {}
    places, takes = (
        str(value) for value in (queue.get("nr_requests", ""), facts.get("device_queue_depth", ""))
    )
    usual = 2 * min(int(takes) if takes.isdigit() else QUEUE_PER_DEVICE_MAX, QUEUE_PER_DEVICE_MAX)
    return (int(places) if places.isdigit() else None), usual


def _candidate(
    context: Context, tids: list[int], held: TimeLost, said: str, device: str, places: int, explains: Bools
) -> Candidate:
    return of_time_lost(
        held,
        culprit=Culprit("config", f"nr_requests of {device}", f"{places} requests"),
        claim=f"{said}, which may hold {places} requests only (nr_requests = {places}).",
        baseline="the same threads without that time",
        metric="part of the operations' time",
        evidence=[
            evidence(
                context.case,
                "who waited for a free place, and how long",
                f"""SELECT tid, comm, count(*) AS times, CAST(sum(end_ns - start_ns) AS BIGINT) AS waited_ns, CAST(median(end_ns - start_ns) AS BIGINT) AS median_ns
FROM ({_waits_sql(tids)}) AS waits GROUP BY 1, 2 ORDER BY 4 DESC, 1 LIMIT 10""",
            )
        ],
        refute=f"Set nr_requests of {device} to 128 and repeat: if operations wait as long, it was not the number of places.",
        remedy=f"echo 128 > /sys/block/{device}/queue/nr_requests",
        explains=explains,
        causes=(("stage", "queue"), ("stage", "fs")),
    )


DETECTOR = Detector(
    name="full_queue",
    needs=("judged.start_ns", "waits.cause"),
    needs_stages=(),
    null_model="none: when threads waited for a free place, and how many a queue may have, stands in the record",
    smallest_effect="5 % of the submitting threads' time, where the queue may hold fewer than 32 requests, and fewer than Linux gives one like it",
    run=run,
)
