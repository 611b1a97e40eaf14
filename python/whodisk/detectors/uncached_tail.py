"""Reads that miss the cache with the same part each time: requests larger than what is fetched ahead for them.

A prefetcher that fetches a fixed amount per request is outrun for ever by requests a little larger than that: each one
leaves the same tail uncached, and waits for it by itself, behind the fetch it started. What had been asked for ahead of the read
and was still in flight is no such tail, however often it is waited for: the prefetcher covers it, and the device is slower than the reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    CLEARED_CONFIDENCE,
    TAIL_EACH_TIME,
    TAIL_PART_MAX,
    TAIL_READS_MIN,
    TAIL_SHARE_MIN,
    TAIL_UNUSUAL,
)
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.time_lost import p99_ratio
from whodisk.findings import Cleared, Culprit, Effect
from whodisk.statistics import probability
from whodisk.statistics.stats import Bools, Ints, bootstrap_sum, cleared_quantile, episodes

#: Positions at which a miss could begin are this far apart: a page.
PAGE_BYTES = 4096


@dataclass(frozen=True)
class Alike:
    """Waits of one length: of those that begin where a tail does the most informative length."""

    waits: int
    begin_here: int
    #: Pages at which a wait of that length could begin.
    room: int
    #: Lengths that were tried.
    lengths: int


@dataclass(frozen=True)
class Tail:
    """One part of the requests of one size that is waited for by itself."""

    read_bytes: int
    at_bytes: int
    size_bytes: int
    #: Reads of this size, and those of them that waited for this part.
    reads: int
    waited: int
    wait_ns: float
    #: Where the first part begins that such reads wait for each time, this one or one before it, bytes.
    from_bytes: int
    #: Waits for parts of reads of this size, wherever they lie, and those of them that begin where the tail does.
    misses: int
    begin_here: int
    #: Waits that hold one page of the tail, the most that hold the same.
    held: int
    #: If waits lay anywhere in the reads: the chance that one begins at a page, and that a read waits for a page in its middle. A wait for more
    #: than half of a read holds its middle, wherever it lies.
    begin_chance: float
    hold_chance: float
    alike: Alike
    tiers: str
    #: Reads with a request that took the device so much longer than others do that their wait is its doing, and no tail's; and what a tail costs
    #: otherwise, which is all that counts of these.
    held_at_device: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    usual_ns: int = 0

    @property
    def end_bytes(self) -> int:
        return self.at_bytes + self.size_bytes

    @property
    def cached_bytes(self) -> int:
        """What came before the tail."""
        return self.at_bytes


#: Pieces that nobody had asked for before the read did. A wait for what was on its way already is the prefetcher's lateness.
_UNCACHED = "c.wait_ns > 0 AND c.tier <> 'readahead'"


def tails_sql(limit: int = 10_000) -> str:
    """Waits of reads for what was not fetched ahead, by place inside the request, per request size; the `limit` costliest."""
    return f"""SELECT r.size_bytes AS read_bytes, c.offset_bytes - r.offset_bytes AS at_bytes, c.size_bytes,
  count(DISTINCT c.op_id) AS waited, sum(c.wait_ns) AS wait_ns, string_agg(DISTINCT c.tier, ' and ' ORDER BY c.tier) AS tiers
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND {_UNCACHED} AND c.offset_bytes IS NOT NULL AND r.offset_bytes IS NOT NULL
GROUP BY 1, 2, 3 ORDER BY 5 DESC, 1, 2, 3 LIMIT {limit}"""


def reads_sql() -> str:
    """Reads that the cache table speaks of, per request size."""
    return """SELECT r.size_bytes AS read_bytes, count(*) AS reads, sum(r.latency_ns) AS latency_ns
FROM measured AS r WHERE r.op = 'read' AND r.op_id IN (SELECT op_id FROM cache) GROUP BY 1 ORDER BY 2 DESC, 1"""


def run(context: Context) -> Result:
    """One candidate for the part of one request size that costs most."""
    result = Result()
    sizes = context.case.arrays(reads_sql())
    found = context.case.arrays(tails_sql())
    if not len(sizes["reads"]) or not len(found["waited"]):
        return result
    total_ns = float(sizes["latency_ns"].sum())
    tail = _worst(sizes, found)
    if tail is not None and total_ns > 0 and _has_requests(context, tail):
        result.candidates.append(_candidate(context, tail, total_ns))
        if result.candidates[0].large:
            result.cleared += [item for item in (_order(context, tail), _writes(context, tail)) if item]
    return result


def _has_requests(context: Context, tail: Tail) -> bool:
    """Whether requests tell how much of these reads came at once. A recorder sees on which page a thread waited, and by its request what came with it: of a file
    that a process serves (FUSE), or another machine, the last page alone would be such a tail."""
    if context.case.meta.get("observer") != "record":
        return True
    if "links" not in context.case.columns:
        return False
    row = context.case.rows(
        f"SELECT count(*) AS n, count(*) FILTER (op_id IN (SELECT parent_id FROM links)) AS linked FROM ({_waits_sql(tail)}) AS waits"
    )[0]
    return 2 * int(row["linked"] or 0) >= int(row["n"] or 0)


def order_sql(tail: Tail) -> str:
    """Reads of the size, and those of them that begin where another one of their file ended."""
    return f"""WITH r AS (SELECT file, offset_bytes, size_bytes FROM measured
    WHERE op = 'read' AND size_bytes = {tail.read_bytes} AND op_id IN (SELECT op_id FROM cache)),
  ends AS (SELECT DISTINCT file, offset_bytes + size_bytes AS end_bytes FROM r)
SELECT count(*) AS n, count(ends.end_bytes) AS in_order FROM r LEFT JOIN ends
  ON r.file = ends.file AND r.offset_bytes = ends.end_bytes"""


def _order(context: Context, tail: Tail) -> Cleared | None:
    """That reads come in random order would explain misses, too: it does not where they follow each other."""
    row = context.case.rows(order_sql(tail))[0]
    reads, in_order = int(row["n"] or 0), int(row["in_order"] or 0)
    if in_order < TAIL_EACH_TIME * reads:
        return None
    return Cleared(
        "layout:random order",
        f"{words.percent(in_order / reads)} of {words.things(reads, 'read')} of {_bytes(tail.read_bytes)} begin where another one ended: what "
        "they miss is not for want of order",
        probability.beta_quantile(1.0 - CLEARED_CONFIDENCE, in_order, reads - in_order + 1),
        CLEARED_CONFIDENCE,
        "1 byte",
    )


def writes_sql() -> str:
    """Writes beside the reads that the cache table speaks of, and how far they took longer than usual."""
    return """WITH w AS (SELECT latency_ns FROM measured WHERE op = 'write'
    AND layer IN (SELECT layer FROM measured WHERE op = 'read' AND op_id IN (SELECT op_id FROM cache))),
  usual AS (SELECT median(latency_ns) AS usual_ns FROM w)
SELECT count(*) AS n, max(usual_ns) AS usual_ns, max(latency_ns) AS worst_ns,
  sum(CASE WHEN latency_ns > usual_ns THEN latency_ns - usual_ns ELSE 0 END) AS beyond_ns FROM w CROSS JOIN usual"""


def _writes(context: Context, tail: Tail) -> Cleared | None:
    """The write half of copies, where it took hardly longer than usual."""
    row = context.case.rows(writes_sql())[0]
    writes, beyond_ns = int(row["n"] or 0), float(row["beyond_ns"] or 0)
    if writes < TAIL_READS_MIN or beyond_ns > TAIL_SHARE_MIN * tail.wait_ns:
        return None
    return Cleared(
        "op:write",
        f"no write took over {words.duration(float(row['worst_ns'] or 0))} in {words.count(writes)}: all of them together "
        f"{words.duration(beyond_ns)} more than the usual {words.duration(float(row['usual_ns'] or 0))} each, where reads waited "
        f"{words.duration(tail.wait_ns)} for what was not there",
        cleared_quantile(writes, 0, CLEARED_CONFIDENCE),
        CLEARED_CONFIDENCE,
        words.duration(context.case.resolution_ns),
    )


def _worst(sizes: dict[str, Any], found: dict[str, Any]) -> Tail | None:
    """The tail with most waiting among those that are missed each time."""
    best: Tail | None = None
    for size, reads in zip(sizes["read_bytes"], sizes["reads"], strict=True):
        mine = found["read_bytes"] == size
        if int(reads) < TAIL_READS_MIN or not mine.any():
            continue
        tails = _tails(int(size), int(reads), {name: found[name][mine] for name in found})
        for tail in tails:
            if best is None or tail.wait_ns > best.wait_ns:
                best = replace(tail, from_bytes=min(one.at_bytes for one in tails))
    return best


def _tails(read_bytes: int, reads: int, waits: dict[str, Any]) -> list[Tail]:
    """Parts of the reads of one size that are waited for each time, by themselves.

    Reads need not agree in where a wait begins: where a window of readahead ends differs from read to read. They agree in the
    bytes that all of their waits hold. A part ends where most of them go on to wait anew.
    """
    at = waits["at_bytes"].astype(np.int64)
    end = at + waits["size_bytes"].astype(np.int64)
    count = waits["waited"].astype(np.int64)
    # In how many places each could lie.
    pages = np.maximum(1, (end - at) // PAGE_BYTES)
    room = np.maximum(1, read_bytes // PAGE_BYTES - pages + 1)
    edges = np.unique(np.concatenate((at, end)))
    begin_here, end_here = (
        np.bincount(np.searchsorted(edges, where), count, minlength=len(edges)) for where in (at, end)
    )
    needed = TAIL_EACH_TIME * reads
    held = np.cumsum(begin_here - end_here)
    each_time = held >= needed
    # Reads that miss their begin as often had nothing fetched for them before: then it is a tail only if they miss little else.
    is_cold = bool(at.min(initial=1) == 0 and each_time[0])
    found = []
    first = 0
    while first < len(edges) - 1:
        last = first + 1
        while last < len(edges) - 1 and each_time[last] == each_time[first] and begin_here[last] < needed:
            last += 1
        at_bytes, size_bytes = int(edges[first]), int(edges[last] - edges[first])
        if each_time[first] and at_bytes > 0 and size_bytes <= TAIL_PART_MAX * read_bytes:
            over = (at < edges[last]) & (end > edges[first])
            if is_cold and count[~over & (at > 0)].sum() >= needed:
                first = last
                continue
            alike = _most_alike(pages, room, count, at == edges[first])
            found.append(
                Tail(
                    read_bytes=read_bytes,
                    at_bytes=at_bytes,
                    size_bytes=size_bytes,
                    reads=reads,
                    waited=min(reads, int(count[over].sum())),
                    wait_ns=float(waits["wait_ns"][over].sum()),
                    from_bytes=at_bytes,
                    misses=int(count.sum()),
                    begin_here=int(begin_here[first]),
                    held=min(reads, int(held[first:last].max())),
                    alike=alike,
                    begin_chance=float((count / room).sum() / max(1, count.sum())),
                    hold_chance=min(1.0, float((count * np.minimum(1.0, pages / room)).sum()) / reads),
                    tiers=" and ".join(sorted({str(tier) for tier in waits["tiers"][over]})),
                )
            )
        first = last
    return found


def _most_alike(pages: Ints, room: Ints, count: Ints, here: Bools) -> Alike:
    """The length of waits that begin at a place most often beyond chance: long ones have few places where they could begin, and show little."""
    lengths = np.unique(pages)
    found = []
    for length in np.unique(pages[here]):
        of_length = pages == length
        most = int(room[of_length][0])
        hits = int(count[here & of_length].sum())
        found.append(Alike(int(count[of_length].sum()), hits, most, len(lengths)))
    nothing = Alike(0, 0, 1, len(lengths))
    return max(found, key=lambda alike: alike.begin_here * np.log(max(1, alike.room)), default=nothing)


def _candidate(context: Context, tail: Tail, total_ns: float) -> Candidate:
    waits = context.case.arrays(_waits_sql(tail))
    usual_ns = int(np.median(waits["wait_ns"]))
    held = _held_at_device(context, tail, usual_ns)
    wait_ns = np.where(
        np.isin(waits["op_id"].astype(np.int64), held),
        np.minimum(usual_ns, waits["wait_ns"]),
        waits["wait_ns"],
    ).astype(np.float64)
    tail = replace(
        tail,
        waited=len(wait_ns),
        wait_ns=float(wait_ns.sum()),
        held_at_device=held,
        usual_ns=usual_ns,
    )
    numbers = episodes(waits["start_ns"].astype(np.int64), waits["end_ns"].astype(np.int64))
    per_episode = np.bincount(numbers, wait_ns) / total_ns
    low, high = bootstrap_sum(per_episode)
    share = tail.wait_ns / total_ns
    # Reads may be parts of larger operations (a copy): what these lose decides.
    of_all = min(share, tail.wait_ns / max(1.0, context.survey.latency_ns), 1.0)
    claim = (
        f"{words.percent(tail.waited / tail.reads)} of {words.things(tail.reads, 'read')} of {_bytes(tail.read_bytes)} "
        f"waited separately for the same part: the {words.size(tail.size_bytes)} behind its first "
        f"{words.size(tail.cached_bytes)}, {words.duration(usual_ns)} each (from {tail.tiers}); "
        f"{words.percent(share)} of the time in reads. {_said_of_device(tail)}{_prefetching(context)}"
    )
    return Candidate(
        culprit=Culprit("request_shape", f"read of {tail.read_bytes} bytes", _because(context, tail)),
        claim=claim.strip(),
        baseline="the other parts of the same reads",
        effect=Effect("part of the time in reads", share, "1", low, min(1.0, high)),
        share_of_excess=min(1.0, share),
        share_of_latency=of_all,
        p_value=_p_value(tail, len(per_episode)),
        episodes=len(per_episode),
        evidence=[
            evidence(context.case, "waits by their place inside the request", tails_sql(limit=10)),
            evidence(context.case, "reads by size", reads_sql()),
            evidence(
                context.case, "which tier served what, and how long it was waited for", _tiers_sql(tail)
            ),
        ],
        refute=f"Repeat with reads of {words.size(tail.cached_bytes)} or less, everything else unchanged: if they take as "
        "long per byte, the size is not to blame.",
        remedy=_remedy(context, tail),
        otherwise=claim.strip(),
        explains=_explains(context, tail),
        large=of_all >= TAIL_SHARE_MIN,
        p99_ratio=p99_ratio(context, _uncached_sql(tail)),
    )


def _bytes(size_bytes: int) -> str:
    return f"{words.count(size_bytes)} bytes ({words.size(size_bytes)})"


def _held_at_device(context: Context, tail: Tail, usual_ns: int) -> Ints:
    """Reads of this size that waited for their tail far longer than usual, and for a request that took the device as much longer than those of the others."""
    if "block" not in context.case.layers or "links" not in context.case.columns:
        return np.zeros(0, np.int64)
    data = context.case.arrays(
        f"""SELECT w.op_id, w.wait_ns, max(b.device_ns) AS device_ns FROM ({_waits_sql(tail)}) AS w
JOIN links AS l ON l.parent_id = w.op_id JOIN block_ops AS b ON b.op_id = l.child_id WHERE b.device_ns IS NOT NULL GROUP BY 1, 2 ORDER BY 1"""
    )
    wait, device = data["wait_ns"].astype(np.float64), data["device_ns"].astype(np.float64)
    longer = wait > TAIL_UNUSUAL * usual_ns
    if longer.all() or not longer.any():
        return np.zeros(0, np.int64)
    of_device = device > TAIL_UNUSUAL * np.median(device[~longer])
    return np.asarray(data["op_id"].astype(np.int64)[longer & of_device], np.int64)


def _said_of_device(tail: Tail) -> str:
    if not len(tail.held_at_device):
        return ""
    return (
        f"{words.things(len(tail.held_at_device), 'read')} waited far longer, for requests that took the device longer than others: of these only the "
        f"usual {words.duration(tail.usual_ns)} count. "
    )


def _waits_sql(tail: Tail) -> str:
    """Reads of this size that waited for a piece of the tail, and the longest of these waits."""
    return f"""SELECT r.op_id, r.start_ns, r.start_ns + r.latency_ns AS end_ns, max(c.wait_ns) AS wait_ns
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND r.size_bytes = {tail.read_bytes} AND {_UNCACHED}
  AND c.offset_bytes - r.offset_bytes < {tail.end_bytes} AND c.offset_bytes + c.size_bytes - r.offset_bytes > {tail.at_bytes}
GROUP BY 1, 2, 3 ORDER BY 2, 1"""


def _uncached_sql(tail: Tail) -> str:
    """What reads of this size waited for all that they wait for each time: its parts are fetched side by side."""
    lost = "max(c.wait_ns)"
    if len(tail.held_at_device):
        listed = ", ".join(map(str, tail.held_at_device.tolist()))
        lost = f"CASE WHEN r.op_id IN ({listed}) THEN least({tail.usual_ns}, {lost}) ELSE {lost} END"
    return f"""SELECT r.op_id, {lost} AS lost_ns
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND r.size_bytes = {tail.read_bytes} AND {_UNCACHED}
  AND c.offset_bytes + c.size_bytes - r.offset_bytes > {tail.from_bytes}
GROUP BY 1"""


def _tiers_sql(tail: Tail) -> str:
    return f"""SELECT c.tier, count(*) AS pieces, sum(c.size_bytes) AS bytes, CAST(avg(c.wait_ns) AS BIGINT) AS mean_wait_ns,
  max(c.wait_ns) AS max_wait_ns
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND r.size_bytes = {tail.read_bytes} GROUP BY 1 ORDER BY 3 DESC, 1"""


def _p_value(tail: Tail, number_of_episodes: int) -> float:
    """Probability that this many reads would agree in a page if what they wait for lay anywhere in them.

    They agree in where the wait begins (of which each page that leaves room for it has the same chance), all waits together or those of one
    length, or in a page that all waits hold (a page in the middle of the reads has the best chance). The best of the three counts, three times; Bonferroni over the pages,
    and over the lengths where they are taken one by one.
    """
    places = max(2, tail.read_bytes // PAGE_BYTES)
    independent = min(1.0, number_of_episodes / max(1, tail.waited))

    def chance(hits: int, trials: int, each: float) -> float:
        counted = max(1, round(hits * independent))
        return probability.at_least(counted, max(counted, round(trials * independent)), each)

    begins = chance(tail.begin_here, tail.misses, tail.begin_chance)
    alike = tail.alike
    of_length = alike.lengths * chance(alike.begin_here, alike.waits, 1 / alike.room)
    holds = chance(tail.held, tail.reads, tail.hold_chance)
    return min(1.0, 3 * places * min(begins, of_length, holds))


def _prefetching(context: Context) -> str:
    """Accuracy and coverage of the prefetcher, where they were recorded."""
    row = context.case.rows(
        "SELECT sum(issued_bytes) AS issued, sum(used_bytes) AS used, sum(missed_bytes) AS missed FROM measured_prefetch"
    )[0]
    issued, used, missed = (float(row[name] or 0) for name in ("issued", "used", "missed"))
    if issued <= 0:
        return ""
    text = f"Prefetching: accuracy {words.percent(used / issued)}"
    if used + missed > 0 and row["missed"] is not None:
        text += f", coverage {words.percent(used / (used + missed))}"
    return text + "."


@dataclass(frozen=True)
class Window:
    """What the kernel fetches from a device at once for one read, or for what a program asks for ahead: at most the larger of two settings.

    Source: mm/readahead.c, `ractl_max_pages` and `force_page_cache_ra` (bdi->io_pages is max_sectors_kb).
    """

    device: str
    read_ahead_kb: int
    max_sectors_kb: int
    #: What max_sectors_kb may be raised to; None where that was not recorded.
    max_hw_sectors_kb: int | None

    @property
    def kb(self) -> int:
        return max(self.read_ahead_kb, self.max_sectors_kb)

    def larger(self, needed_kb: int) -> str:
        """The settings that make it as large as is needed; each does by itself."""
        ways = [f"echo {needed_kb} > /sys/block/{self.device}/queue/read_ahead_kb (now {self.read_ahead_kb})"]
        if self.max_hw_sectors_kb is None or self.max_hw_sectors_kb >= needed_kb:
            ways.append(f"max_sectors_kb there to {needed_kb} (now {self.max_sectors_kb})")
        return " or ".join(ways)


def _windows(context: Context, tail: Tail) -> list[Window]:
    """Those of the devices that such reads came from; of all devices where that is not known."""
    rows = context.case.rows(
        f"""SELECT DISTINCT device FROM measured
WHERE op = 'read' AND size_bytes = {tail.read_bytes} AND device IS NOT NULL ORDER BY 1"""
    )
    served = {str(row["device"]) for row in rows}
    found = []
    for name, device in sorted((context.case.system.get("devices") or {}).items()):
        queue = device.get("queue") or {}
        try:
            most = queue.get("max_hw_sectors_kb")
            window = Window(
                name, int(queue["read_ahead_kb"]), int(queue["max_sectors_kb"]), int(most) if most else None
            )
        except (KeyError, TypeError, ValueError):
            continue
        found.append(window)
    return [window for window in found if window.device in served] or found


def _capped(context: Context, tail: Tail) -> Window | None:
    """Of the device with a readahead that ends where the tail begins. One read may also go up to max_sectors_kb at once, so
    readahead smaller than the request is no cause by itself: both must end there."""
    windows = _windows(context, tail)
    return next((window for window in windows if window.kb * 1024 == tail.cached_bytes), None)


def _because(context: Context, tail: Tail) -> str:
    if _capped(context, tail):
        return f"readahead of {words.size(tail.cached_bytes)}"
    return f"prefetch of {words.size(tail.cached_bytes)} per request"


def _remedy(context: Context, tail: Tail) -> str:
    """Every setting that would cure it, each by itself, of those that are there."""
    needed_kb = -(-tail.read_bytes // 1024)
    capped = _capped(context, tail)
    if capped:
        larger = capped.larger(needed_kb)
        if isinstance(context.case.spec.get("server"), str):
            # The kernel cuts there whatever the server asks for: which of both ends there is not known.
            larger += " (and as much in what the server itself fetches ahead, if it does)"
    else:
        larger = f"fetch {words.size(tail.read_bytes)} or more ahead with each request, not {words.size(tail.cached_bytes)}"
        short = [window for window in _windows(context, tail) if window.kb < needed_kb]
        if short and context.case.meta.get("observer") != "lab":
            larger += (
                f", with {short[0].larger(needed_kb)}, since the kernel cuts what is fetched ahead at these"
            )
    return f"Either of: {larger}; {_smaller(context, tail)}."


def _smaller(context: Context, tail: Tail) -> str:
    """Which requests have to be smaller: those of a client are the server's where the server reads as much at once."""
    most = words.size(tail.cached_bytes)
    asked = context.case.rows(
        f"""SELECT min(a.size_bytes) AS size_bytes FROM links AS l JOIN app_ops AS a ON a.op_id = l.parent_id
JOIN syscall_ops AS r ON r.op_id = l.child_id WHERE r.op = 'read' AND r.size_bytes = {tail.read_bytes}"""
    )[0]["size_bytes"]
    if not isinstance(context.case.spec.get("server"), str):
        return f"keep requests at or below {most}"
    server = f"let the server read at most {most} at a time (its I/O size)"
    if asked is None or int(asked) > tail.read_bytes:
        # It cuts what the client asks for by itself.
        return server
    return f"{server}; ask it for at most {most} at a time"


def _explains(context: Context, tail: Tail) -> Bools:
    """Slow operations that are such reads."""
    slow = context.slow
    if not len(slow):
        return none_of(slow)
    # Slow ones only: there may be a hundred million reads of this size.
    data = context.case.arrays(
        f"""SELECT op_id FROM measured WHERE op = 'read' AND size_bytes = {tail.read_bytes}
AND latency_ns >= {int(slow.latency_ns.min())}"""
    )
    chosen: Bools = np.isin(slow.op_id, data["op_id"].astype(np.int64))
    return np.asarray(chosen & ~np.isin(slow.op_id, tail.held_at_device), np.bool_)


DETECTOR = Detector(
    name="uncached_tail",
    needs=("cache.op_id", "judged.latency_ns"),
    needs_stages=(),
    null_model="what a read waits for lies anywhere in its request",
    smallest_effect="80 % of the reads of a size wait for the same part, at 5 % of all time in reads and of all latency",
    run=run,
    needs_all=True,
)
