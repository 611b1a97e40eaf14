"""How good prefetching was: accuracy, coverage, timeliness, waste; readahead that is too small for its reader, or begins too late."""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import of_time_lost
from whodisk.detectors.thresholds import (
    PREFETCH_BYTES_MIN,
    PREFETCH_CAPPED_MIN,
    PREFETCH_FETCHES_MAX,
    PREFETCH_FOLLOWED_MIN,
    PREFETCH_IDLE_MIN,
    PREFETCH_LATE_MIN,
    PREFETCH_LATE_READS_MIN,
    PREFETCH_WAITING_MIN,
    PREFETCH_WASTE_TOLD,
)
from whodisk.detectors.uncached_tail import PAGE_BYTES
from whodisk.evidence.context import Context
from whodisk.evidence.prefetching import accounts
from whodisk.evidence.time_lost import TimeLost, lost_in_blocks, p99_ratio
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.machine.readahead import read_ahead_kb
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints, bootstrap_sum, episodes

#: Linux' own default; a window at or above it is nobody's mistake.
DEFAULT_READ_AHEAD_KB = 128


def run(context: Context) -> Result:
    """The account of the largest files, and a candidate per device with too small a readahead."""
    result = Result()
    for account in accounts(context.case):
        if account.issued < PREFETCH_BYTES_MIN:
            continue
        result.observed.append(account.sentence())
        if account.wasted >= PREFETCH_WASTE_TOLD * account.issued:
            result.observed.append(
                f"{words.size(account.wasted)} prefetched for {account.file} were evicted unread: the readers do not read "
                "on where prefetching expects them to, or memory is short."
            )
    for device in sorted((context.case.system.get("devices") or {}).keys()):
        found = _too_small(context, device) or _too_small_for_faults(context, device)
        if found is not None:
            result.candidates.append(found)
    late = _late(context)
    if late is not None and late.share_of_latency < PREFETCH_WAITING_MIN and _is_by_default(context):
        # What streams through small files waits for some of it however far Linux fetches ahead.
        result.observed.append(late.claim)
    elif late is not None:
        result.candidates.append(late)
    return result


def _is_by_default(context: Context) -> bool:
    """Whether what is fetched ahead is fetched by Linux, with a window that is nobody's mistake."""
    windows = [read_ahead_kb(context, device) for device in context.surveys["block"].by_device() if device]
    return bool(windows) and all(kb is not None and kb >= DEFAULT_READ_AHEAD_KB for kb in windows)


def _too_small(context: Context, device: str) -> Candidate | None:
    window_kb = read_ahead_kb(context, device)
    if window_kb is None or window_kb >= DEFAULT_READ_AHEAD_KB:
        return None
    requests, full, size_bytes = _requests(context, device, window_kb)
    if requests == 0 or full < PREFETCH_CAPPED_MIN * requests:
        return None
    waits_sql = _waits_sql(device)
    waits = context.case.arrays(waits_sql)
    if not len(waits["wait_ns"]):
        return None
    totals = context.case.rows(totals_sql(device))[0]
    total_ns, pages = float(totals["latency_ns"] or 0), float(totals["pages"] or 0)
    wait_ns = float(waits["wait_ns"].sum())
    # Without a window even one read goes on in order, from page to page.
    in_order = float(totals["in_order" if window_kb else "behind_first_pages"] or 0)
    if (
        total_ns <= 0
        or wait_ns < PREFETCH_WAITING_MIN * total_ns
        or in_order < PREFETCH_FOLLOWED_MIN * max(1.0, pages)
    ):
        return None
    share = min(1.0, wait_ns / total_ns)
    if window_kb:
        claim = (
            f"Readers of {device} that read on in order waited {words.percent(share)} of their time for the device, although "
            f"readahead follows them: it fetches {words.size(size_bytes)} at a time (read_ahead_kb = {window_kb}), which "
            "is read faster than the next piece comes."
        )
    else:
        claim = (
            f"Readers of {device} waited {words.percent(share)} of their time for the device, page after page: without "
            f"readahead (read_ahead_kb = 0) {words.size(size_bytes)} are fetched at a time, however much a read asks for."
        )
    return _of_window(
        context,
        device,
        window_kb,
        waits_sql,
        total_ns,
        claim=claim,
        baseline="the same reads served from memory",
        metric="part of the time in reads",
        evidence=[
            evidence(context.case, "sizes of readahead requests", _sizes_sql(device)),
            evidence(context.case, "time in reads, and waiting", totals_sql(device)),
        ],
        better_kb=1024,
        refuted="the readers wait as long per byte, it is not the window but the device.",
        op="read",
    )


def _of_window(
    context: Context,
    device: str,
    window_kb: int,
    waits_sql: str,
    whole_ns: float,
    *,
    claim: str,
    baseline: str,
    metric: str,
    evidence: list[Evidence],
    better_kb: int,
    refuted: str,
    op: str,
) -> Candidate:
    """The claim about a device's window: what `op` waited (`waits_sql`: op_id, start_ns, end_ns and wait_ns) of `whole_ns`. Whether the window is the reason, and who
    waited, is read off the record."""
    waits = context.case.arrays(waits_sql)
    wait_ns = waits["wait_ns"].astype(np.float64)
    numbers = episodes(waits["start_ns"].astype(np.int64), waits["end_ns"].astype(np.int64))
    per_episode = np.bincount(numbers, wait_ns) / whole_ns
    low, high = bootstrap_sum(per_episode)
    share = min(1.0, float(wait_ns.sum()) / whole_ns)
    return Candidate(
        culprit=Culprit("config", f"read_ahead_kb of {device}", f"{window_kb} KiB"),
        claim=claim,
        baseline=baseline,
        effect=Effect(metric, share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        p_value=0.0,
        p99_ratio=p99_ratio(context, f"SELECT op_id, wait_ns AS lost_ns FROM ({waits_sql}) AS waits"),
        basis="measured",
        summed=True,
        episodes=len(per_episode),
        evidence=evidence,
        refute=f"Set read_ahead_kb of {device} to {better_kb} and repeat: if {refuted}",
        remedy=f"echo {better_kb} > /sys/block/{device}/queue/read_ahead_kb",
        otherwise=claim,
        explains=np.asarray((context.slow.op == op) & (context.slow.device.astype(str) == device), np.bool_),
        large=True,
    )


def _too_small_for_faults(context: Context, device: str) -> Candidate | None:
    """A window below Linux' default where threads wait for pages of mapped files that lie near each other.

    Around a page that is touched first Linux reads a window of mapped files, not behind it (mm/filemap.c, do_sync_mmap_readahead): pages of one window of the default
    size would have come with one request.
    """
    window_kb = read_ahead_kb(context, device)
    if window_kb is None or window_kb >= DEFAULT_READ_AHEAD_KB or context.layer != "syscall":
        return None
    waits_sql = f"""SELECT op_id, start_ns, start_ns + latency_ns AS end_ns, {_AT_DEVICE} AS wait_ns FROM measured
WHERE layer = 'syscall' AND op = 'fault' AND device = {quoted(device)} ORDER BY start_ns, op_id"""
    waits = context.case.arrays(waits_sql)
    whole_ns = context.survey.latency_ns
    wait_ns = float(waits["wait_ns"].sum())
    totals = context.case.rows(faults_sql(device, window_kb))[0]
    pages, windows, default = (float(totals[name] or 0) for name in ("pages", "windows", "default_windows"))
    if windows == 0:
        return None
    followed = 1 - default / windows
    if wait_ns < PREFETCH_WAITING_MIN * whole_ns or followed < PREFETCH_FOLLOWED_MIN:
        return None
    share = min(1.0, wait_ns / whole_ns)
    claim = (
        f"Threads waited {words.percent(share)} of the time of all operations for {device}, for pages of mapped files that lie near each other: "
        f"{words.things(pages, 'page')} in {words.things(default, 'piece')} of {DEFAULT_READ_AHEAD_KB} KiB, each of which Linux reads with one request by default; here "
        f"{f'it reads {window_kb} KiB around a page' if window_kb else 'it reads one page at a time'} (read_ahead_kb = {window_kb})."
    )
    return _of_window(
        context,
        device,
        window_kb,
        waits_sql,
        whole_ns,
        claim=claim,
        baseline=f"one request for all pages of {DEFAULT_READ_AHEAD_KB} KiB",
        metric="part of the time of all operations",
        evidence=[
            evidence(
                context.case,
                "pages that were waited for, and pieces they lie in",
                faults_sql(device, window_kb),
            )
        ],
        better_kb=DEFAULT_READ_AHEAD_KB,
        refuted="threads wait as long for pages, it is not the window (or the program asks for none: MADV_RANDOM).",
        op="fault",
    )


#: What a fault spent with its device, and on the way there.
_AT_DEVICE = "coalesce(queue_ns, 0) + coalesce(device_ns, 0) + coalesce(interrupt_ns, 0)"


def faults_sql(device: str, window_kb: int) -> str:
    """Pages of mapped files that threads waited for, and in how many windows they lie: of the size that is set (a page at least), and of the default one."""
    window = max(PAGE_BYTES, window_kb * 1024)
    default = DEFAULT_READ_AHEAD_KB * 1024
    return f"""SELECT count(*) AS faults, count(DISTINCT (file, offset_bytes // {PAGE_BYTES})) AS pages,
  count(DISTINCT (file, offset_bytes // {window})) AS windows, count(DISTINCT (file, offset_bytes // {default})) AS default_windows
FROM measured WHERE layer = 'syscall' AND op = 'fault' AND device = {quoted(device)} AND file IS NOT NULL AND offset_bytes IS NOT NULL"""


def late_sql(context: Context) -> str:
    """Waits of reads for what was being fetched ahead of them: not for what another thread's read of the same data was fetching."""
    fetched_by_others = """SELECT links.parent_id FROM links JOIN measured AS reader ON reader.op_id = links.parent_id
  JOIN ops AS request ON request.op_id = links.child_id
  WHERE links.kind = 'waits_for' AND request.tid <> reader.tid AND request.tid IN (SELECT tid FROM measured WHERE op = 'read' AND layer = reader.layer)"""
    own = f"AND c.op_id NOT IN ({fetched_by_others})" if "links" in context.case.columns else ""
    return f"""SELECT r.op_id, r.start_ns, r.latency_ns, r.size_bytes, r.file, c.wait_ns FROM cache AS c
JOIN measured AS r ON r.op_id = c.op_id WHERE r.op = 'read' AND c.tier = 'readahead' AND c.wait_ns > 0 {own}"""


def _late(context: Context) -> Candidate | None:
    """Readers that have time between their reads, and wait for fetches that idle devices could have had done by then."""
    if "cache" not in context.case.columns or "block" not in context.surveys:
        return None
    late = context.case.rows(
        "SELECT count(*) AS n FROM (SELECT 1 FROM cache WHERE tier = 'readahead' AND wait_ns > 0 "
        f"LIMIT {PREFETCH_LATE_READS_MIN}) AS few"
    )
    if int(late[0]["n"] or 0) < PREFETCH_LATE_READS_MIN:
        return None
    waits = context.case.rows(
        f"""SELECT count(DISTINCT op_id) AS reads, quantile_cont(wait_ns, 0.9) AS longest_ns, mode(size_bytes) AS size,
  mode(file) AS file FROM ({late_sql(context)}) AS late"""
    )[0]
    fetch = context.case.rows(_fetches_sql())[0]
    reads, longest_ns = int(waits["reads"] or 0), float(waits["longest_ns"] or 0)
    usual_ns = float(fetch["usual_ns"] or 0)
    most_ns = PREFETCH_FETCHES_MAX * usual_ns
    reading, span_ns = _reading(context)
    busy = float(fetch["busy_ns"] or 0) / span_ns
    if reads < PREFETCH_LATE_READS_MIN or longest_ns > most_ns:
        return None
    if max(busy, reading) > 1.0 - PREFETCH_IDLE_MIN:
        return None
    # Who waited for longer than that waited for something else, too: nobody could have asked ahead for it.
    capped = f"SELECT start_ns, least(wait_ns, {most_ns!r}) AS wait_ns FROM ({late_sql(context)}) AS late"
    held = lost_in_blocks(context, capped, "wait_ns")
    if held is None or held.each_ns < PREFETCH_LATE_MIN * usual_ns:
        return None
    return _late_candidate(context, held, reads, busy, int(waits["size"] or 0), str(waits["file"]))


def _late_operations(context: Context) -> Ints:
    """The judged operations with such waits; the account of a cache may belong to a layer further down."""
    late = f"SELECT op_id FROM ({late_sql(context)}) AS late"
    below = f"UNION SELECT parent_id FROM links WHERE child_id IN ({late})"
    linked = "links" in context.case.columns
    return context.case.arrays(f"{late} {below if linked else ''}")["op_id"].astype(np.int64)


def _fetches_sql() -> str:
    """What a fetch usually takes, and the mean time that a device was busy; of the devices at the bottom."""
    return """SELECT median(typical_ns) AS usual_ns, avg(busy_ns) AS busy_ns FROM (
  SELECT device, sum(device_ns) AS busy_ns, median(latency_ns) FILTER ((flags & 4) <> 0) AS typical_ns FROM measured
  WHERE layer = 'block' AND device IS NOT NULL
    AND op_id NOT IN (SELECT parent_id FROM links WHERE kind = 'stacked') GROUP BY 1) AS devices"""


def _reading(context: Context) -> tuple[float, float]:
    """Part of the time that a thread was in a read, on average, and the time from the first read to the end of the last, ns."""
    row = context.case.rows(
        f"""SELECT sum(latency_ns) AS latency_ns, count(DISTINCT tid) AS threads,
  max(start_ns + latency_ns) - min(start_ns) AS span_ns FROM measured WHERE layer = '{context.layer}' AND op = 'read'"""
    )[0]
    span_ns = max(1.0, float(row["span_ns"] or 0))
    return float(row["latency_ns"] or 0) / (max(1, int(row["threads"] or 0)) * span_ns), span_ns


def _late_candidate(
    context: Context, held: TimeLost, reads: int, busy: float, size: int, file: str
) -> Candidate:
    claim = (
        f"Prefetching for {file} begins too late: {words.things(reads, 'read')} waited for what was being fetched already, "
        f"typically {words.duration(held.each_ns)} each, {words.percent(held.share)} of the time of all operations, while the devices "
        f"were idle {words.percent(1.0 - busy)} of the time."
    )
    found = of_time_lost(
        held,
        culprit=Culprit("request_shape", f"read of {size} bytes", f"prefetch of {file}, too late"),
        claim=claim,
        baseline="the same reads served from memory",
        metric="part of the operations' time",
        evidence=[
            evidence(
                context.case,
                "reads that waited longest for what was being fetched",
                f"SELECT * FROM ({late_sql(context)}) AS late ORDER BY wait_ns DESC, op_id LIMIT 10",
            )
        ],
        refute="Let the prefetcher fetch twice as much at a time and repeat: if as many reads wait, it is not its moment.",
        remedy="Fetch further ahead: a larger window (read_ahead_kb, the array's prefetch size), several times the size of a read; or "
        "let the program ask ahead (posix_fadvise WILLNEED).",
        explains=np.isin(context.slow.op_id, _late_operations(context)),
        causes=(("stage", "device"), ("stage", "fs")),
    )
    # A device that is slow makes fetches late: the finding that accuses it reports them.
    found.consequence, found.joins = True, (("device", "*"),)
    found.met = found.explains
    found.p99_ratio = p99_ratio(
        context, f"SELECT op_id, wait_ns AS lost_ns FROM ({late_sql(context)}) AS late"
    )
    return found


def _sizes_sql(device: str) -> str:
    return f"""SELECT size_bytes, count(*) AS requests FROM measured
WHERE layer = 'block' AND device = {quoted(device)} AND op = 'read' AND (flags & 4) <> 0
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20"""


def _waits_sql(device: str) -> str:
    return f"""SELECT r.op_id, r.start_ns, r.start_ns + r.latency_ns AS end_ns, c.wait_ns
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND c.wait_ns > 0 AND r.device = {quoted(device)} ORDER BY r.start_ns, r.op_id"""


def totals_sql(device: str) -> str:
    """Time in reads of files that were read from a device, the pages that those asked for which did go there (those of the read before not again), and how
    many of these came in order.

    A read that finds all in memory has no device, and is the step before the next one all the same: one fetch serves several small reads.
    """
    # In order is what Linux calls so: from the last page of the read before, or the one behind it (mm/readahead.c, page_cache_sync_ra).
    return f"""WITH reads AS (SELECT op_id, latency_ns, start_ns, tid, file, device IS NOT NULL AS fetched, offset_bytes // {PAGE_BYTES} AS first_page,
    (offset_bytes + greatest(size_bytes, 1) - 1) // {PAGE_BYTES} AS last_page
  FROM (SELECT * REPLACE (nullif(device, '') AS device) FROM measured WHERE op = 'read' AND op_id IN (SELECT op_id FROM cache)) AS r
  WHERE device = {quoted(device)} OR (device IS NULL AND file IN (SELECT file FROM measured WHERE op = 'read' AND device = {quoted(device)} AND file IS NOT NULL))),
steps AS (SELECT *, first_page - lag(last_page) OVER (PARTITION BY tid, file ORDER BY start_ns, op_id) AS step FROM reads),
asked AS (SELECT *, last_page - first_page + CASE WHEN step = 0 THEN 0 ELSE 1 END AS pages FROM steps)
SELECT sum(latency_ns) AS latency_ns, sum(pages) FILTER (fetched) AS pages, sum(pages) FILTER (fetched AND step BETWEEN 0 AND 1) AS in_order,
  sum(CASE WHEN step BETWEEN 0 AND 1 THEN pages ELSE pages - 1 END) FILTER (fetched) AS behind_first_pages FROM asked"""


def _requests(context: Context, device: str, window_kb: int) -> tuple[int, int, int]:
    """Readahead requests of a device (of its commonest sizes), how many of them fill the window, and their commonest size.

    A read larger than the window is fetched as a whole, and nothing beyond it; without a window, page by page (mm/readahead.c,
    page_cache_sync_ra).
    """
    rows = context.case.rows(_sizes_sql(device))
    reads = context.case.rows(
        f"""SELECT DISTINCT size_bytes FROM measured
WHERE op = 'read' AND device = {quoted(device)} AND op_id IN (SELECT op_id FROM cache)"""
    )
    # Nothing less than a page is fetched, whatever the window.
    window = max(window_kb * 1024, PAGE_BYTES)
    filling = {window, *(size for row in reads if (size := int(row["size_bytes"] or 0)) > window)}
    total = sum(int(row["requests"] or 0) for row in rows)
    full = [row for row in rows if int(row["size_bytes"] or 0) in filling]
    return (
        total,
        sum(int(row["requests"] or 0) for row in full),
        int(full[0]["size_bytes"] or 0) if full else 0,
    )


DETECTOR = Detector(
    name="prefetch",
    needs=("prefetch.issued_bytes",),
    needs_stages=(),
    null_model="none: which requests end at the window, and who waited for them, stands in the record",
    smallest_effect="20 % of the time in sequential reads waits, while 80 % of readahead requests end at a window below the default; or 5 % "
    "of the time of all operations is waiting for fetches under way, while readers and devices are idle half of the time",
    run=run,
    needs_all=True,
)
