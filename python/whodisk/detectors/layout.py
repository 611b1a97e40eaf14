"""What it costs that files lie in pieces: neighbours in a file that are no neighbours on a rotating disk.

Only breaks inside a file count. A disk that jumps because its readers jump, or because there are many of them, has a load,
not a layout.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    FOLLOWING_MIN,
    LAYOUT_BLOCKS,
    LAYOUT_FASTEST,
    LAYOUT_OPERATIONS_MAX,
    LAYOUT_REQUESTS_MAX,
    LAYOUT_SCORE_MIN,
    LAYOUT_USUAL_RATE,
    NEIGHBOURS_MIN,
    READ_ON_MAX,
    SEEN_P99_RATIO_MIN,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_MIN,
    SLOPE_ERRORS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.links import placed_sql
from whodisk.evidence.service_times import Served, served_by
from whodisk.evidence.slow_operations import SlowSet, none_of
from whodisk.evidence.thresholds import COVERS_MIN
from whodisk.evidence.time_lost import lost_values_sql, p99_ratio
from whodisk.findings import Culprit, Effect
from whodisk.machine.peers import rotates
from whodisk.reading.views import Case, quoted
from whodisk.statistics.ranks import stratified_correlation_p, stratified_rank_p
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_sum, extents, overlap


@dataclass(frozen=True)
class Layout:
    """How the data of one disk lie, and what their breaks cost."""

    device: str
    #: Pairs of neighbours in a file that were both read, and those of them that lie apart on disk.
    neighbours: int
    breaks: int
    #: Mean size of what lies together, bytes.
    piece_bytes: float
    #: Time of the disk for a jump, and all its time, ns.
    jump_ns: float
    busy_ns: float
    #: What is likely: a jump against what a usual disk takes for the size. Not less than `jump_ns`.
    likely_jump_ns: float
    #: Lost time per block of the recording, ns.
    lost_ns: Floats
    p_value: float
    #: What the time for a jump is compared with, and whether it is only a lower bound.
    baseline: str
    is_least: bool
    #: Operations with breaks in front of or inside them, how many each has, and what they cost it, ns.
    broken: Ints
    broken_times: Ints
    broken_ns: Floats
    #: Operations that were in flight while the disk jumped because of a break, these among them, and what that cost each, ns.
    waiting: Ints
    waiting_ns: Floats
    #: Of these operations, whether the disk passed them over for what lies together.
    passed_over: Bools
    #: The longest jumps, ns (99 % of them take less).
    longest_ns: float


def requests_sql(context: Context) -> str:
    """Requests of rotating disks with the operation that waited for each: where it lies in its file, and where on disk.

    Only operations that one disk served whole: of a stripe, or with readahead, the order in a file is not known.
    """
    names = ", ".join(quoted(device) for device in _rotating(context))
    return f"""{placed_sql(context.layer, LAYOUT_OPERATIONS_MAX)},
  pieces AS (SELECT a.op_id, a.file, a.offset_bytes AS file_offset, a.size_bytes AS file_bytes, b.device,
    b.offset_bytes AS disk_offset, b.size_bytes AS disk_bytes, b.start_ns, b.latency_ns, b.op_id AS request,
    sum(b.size_bytes) OVER (PARTITION BY a.op_id, b.device) AS op_bytes
  FROM below JOIN top AS a ON a.op_id = below.top_id JOIN block_ops AS b ON b.op_id = below.child_id
  WHERE b.device IN ({names}) AND b.op = a.op AND b.offset_bytes IS NOT NULL AND NOT b.open AND b.latency_ns IS NOT NULL)
SELECT op_id, request, file, file_offset, file_bytes, device, disk_offset, disk_bytes, start_ns, latency_ns
FROM pieces WHERE op_bytes = file_bytes ORDER BY start_ns, request LIMIT {LAYOUT_REQUESTS_MAX}"""


def score(case: Case) -> float | None:
    """The layout as the array itself measured it when the run began; None if it did not."""
    rows = case.rows("SELECT detail FROM events WHERE kind = 'layout' ORDER BY time_ns LIMIT 1")
    found = re.search(r"layout score ([0-9.]+)", str(rows[0]["detail"])) if rows else None
    return float(found[1]) if found else None


def _rotating(context: Context) -> list[str]:
    """Rotating disks that were in use."""
    present = {s.device for s in context.surveys["block"].strata if s.device}
    return [device for device in sorted(present) if rotates(context, device)]


def run(context: Context) -> Result:
    """A candidate for each disk with files that lie in pieces."""
    result = Result()
    measured = score(context.case)
    if measured is not None and measured >= LAYOUT_SCORE_MIN and context.against is None:
        result.caveats.append(
            (
                "fragmentation of the array",
                f"it measures its layout at {measured:g} ({LAYOUT_SCORE_MIN:g} is where it asks for reallocation), and only a "
                "run on a reallocated volume shows what that costs (--against)",
            )
        )
    if context.layer == "block" or "block" not in context.surveys:
        return result
    if not _rotating(context):
        return result
    data = context.case.arrays(requests_sql(context))
    served = data["device"].astype(str)
    for device in np.unique(served):
        disk = served_by(context, str(device))
        chosen = (served == device) & np.isin(data["request"], disk.op_id)
        layout = _layout({name: values[chosen] for name, values in data.items()}, disk)
        if layout is not None:
            result.candidates.append(_candidate(context, layout))
    return result


def _layout(data: dict[str, np.ndarray], served: Served) -> Layout | None:
    if len(data["op_id"]) < NEIGHBOURS_MIN:
        return None
    names, file = np.unique(data["file"].astype(str), return_inverse=True)
    begin, size = data["disk_offset"].astype(np.int64), data["disk_bytes"].astype(np.int64)
    place = served.places(data["request"].astype(np.int64))
    one, two = _read_on(data, file.astype(np.int64))
    is_break = begin[one] + size[one] != begin[two]
    apart, joined = int(is_break.sum()), int((~is_break).sum())
    gap_at = two[is_break & _directly(data, file.astype(np.int64), place, one, two)]
    start = data["start_ns"].astype(np.int64)
    end = start + data["latency_ns"].astype(np.int64)
    over_at = _passed_over(file.astype(np.int64), start, end, one, two, is_break)
    # What is passed over is served long after what lies before it in the file: the disk may never jump for a break directly.
    if apart + joined < NEIGHBOURS_MIN or not (len(gap_at) or len(over_at)):
        return None
    follows, service = served.follows[place], served.service_ns[place]
    jumps = ~follows
    measured = int(follows.sum()) >= FOLLOWING_MIN
    transfer_ns = None if measured else _transfer_ns(service[jumps], size[jumps])
    if measured:
        alone_ns = float(np.median(service[follows]))
        baseline = "requests of the same disk that lie behind the one served before"
    elif transfer_ns is not None:
        alone_ns, baseline = transfer_ns, "what the size of its requests explains of their time"
    else:
        alone_ns = float(np.quantile(service, LAYOUT_FASTEST))
        baseline = "the fastest requests of the same disk, although they jump, too"
    jump_ns = (float(np.mean(service[jumps])) if jumps.any() else 0.0) - alone_ns
    if jump_ns <= 0:
        return None
    is_least = not measured and transfer_ns is None
    usual_ns = float(size[jumps].mean()) / LAYOUT_USUAL_RATE * 1e9
    block = np.minimum(
        LAYOUT_BLOCKS - 1, (start - start.min()) * LAYOUT_BLOCKS // max(1, int(np.ptp(start)) + 1)
    )
    behind = np.zeros(len(start), np.bool_)
    behind[gap_at] = True
    op_id = data["op_id"].astype(np.int64)
    broken, broken_at, times = np.unique(op_id[gap_at], return_inverse=True, return_counts=True)
    alone = (end - start) - served.guests_ns(start, end)
    p = _p_value(service, size, behind, follows if measured else None, served.distance_bytes[place], block)
    if measured:
        # A disk that chooses its order takes no longer for what it passes over: that waits for longer, whatever is served before it. The better of
        # the two, Bonferroni.
        parted = np.zeros(len(start), np.bool_)
        parted[two[is_break]] = True
        p = min(1.0, 2 * min(p, _p_value(alone, size, parted, follows, served.distance_bytes[place], block)))
    late = _late(alone, gap_at)
    passed_over_ns = float(np.median(late)) if len(late) else 0.0
    if passed_over_ns <= jump_ns:
        late, passed_over_ns = np.full(len(gap_at), jump_ns), 0.0
    gap_ns = np.bincount(broken_at, late, len(broken)).astype(np.float64)
    began = (end - service)[gap_at].astype(np.float64)
    jumping = (service[gap_at] - alone_ns).clip(0.0)
    waiting, waiting_ns = _in_flight(op_id, start, end, began, began + jumping)
    every = np.union1d(broken, op_id[over_at])
    broken_ns, broken_times = np.zeros(len(every)), np.zeros(len(every), np.int64)
    broken_ns[np.searchsorted(every, broken)] = gap_ns
    broken_times[np.searchsorted(every, broken)] = times
    np.maximum.at(broken_ns, np.searchsorted(every, op_id[over_at]), _late(alone, over_at))
    own = np.searchsorted(waiting, every)
    waiting_ns[own] = np.maximum(waiting_ns[own], broken_ns)
    return Layout(
        device=served.device,
        neighbours=apart + joined,
        breaks=apart,
        piece_bytes=float(size.sum()) / (apart + len(names)),
        jump_ns=jump_ns,
        likely_jump_ns=max(jump_ns, jump_ns + alone_ns - usual_ns) if is_least else jump_ns,
        busy_ns=float(service.sum()),
        lost_ns=np.asarray(np.bincount(block[gap_at], minlength=LAYOUT_BLOCKS) * jump_ns, np.float64),
        p_value=p,
        baseline=baseline,
        is_least=is_least,
        broken=every,
        broken_times=broken_times,
        broken_ns=broken_ns,
        passed_over=np.isin(every, op_id[over_at]) | ((broken_times > 0) & (passed_over_ns > 0)),
        waiting=waiting[waiting_ns > 0],
        waiting_ns=waiting_ns[waiting_ns > 0],
        longest_ns=float(np.quantile(service[jumps], 0.99)),
    )


def _transfer_ns(service: Floats, size: Ints) -> float | None:
    """What requests of the mean size take by their size alone, where sizes differ enough to tell: least squares. None where they do not."""
    if len(size) < NEIGHBOURS_MIN or np.ptp(size) == 0:
        return None
    from scipy import stats as distributions  # slow to import, and seldom needed

    line = distributions.linregress(size.astype(np.float64), service)
    if not (line.slope > SLOPE_ERRORS_MIN * line.stderr and line.intercept > 0):
        return None
    return float(line.slope) * float(size.mean())


def _read_on(data: dict[str, np.ndarray], file: Ints) -> tuple[Ints, Ints]:
    """Pairs of requests that were read one after the other and are neighbours in a file.

    The requests of one operation are the pieces of its range, in the order in which they were submitted. The first piece of an operation
    follows the last one of the operation that ended there, if that was one of the few before it in this file: who reads here and there comes
    by all neighbours in the end, and jumps whether these lie together or not.
    """
    op_id = data["op_id"].astype(np.int64)
    at, length = data["file_offset"].astype(np.int64), data["file_bytes"].astype(np.int64)
    # Operations in the order of their first request, each with its requests.
    _, first, of_op = np.unique(op_id, return_index=True, return_inverse=True)
    order = np.lexsort((np.arange(len(op_id)), first[of_op]))
    one, two = order[:-1], order[1:]
    inside = op_id[one] == op_id[two]
    pairs = [np.stack((one[inside], two[inside]))]
    last: dict[tuple[int, int], tuple[int, int]] = {}
    begins = order[np.concatenate(([True], ~inside))]
    ends = order[np.concatenate((~inside, [True]))]
    count: dict[int, int] = {}
    across = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        name, number = int(file[begin]), count.get(int(file[begin]), 0)
        before = last.get((name, int(at[begin])))
        if before is not None and number - before[0] <= READ_ON_MAX:
            across.append((before[1], begin))
        last[name, int(at[begin] + length[begin])] = number, end
        count[name] = number + 1
    pairs.append(np.array(across, np.int64).reshape(-1, 2).T)
    joined = np.concatenate(pairs, axis=1)
    return joined[0], joined[1]


def _directly(data: dict[str, np.ndarray], file: Ints, place: Ints, one: Ints, two: Ints) -> Bools:
    """Pairs of which the disk came to the second from the same operation, from the first one's, or from one that was read just before or after it in the
    file: of a file in one piece the disk would have served these in their order. What came from elsewhere would have been a jump anyway."""
    op_id, at = data["op_id"].astype(np.int64), data["file_offset"].astype(np.int64)
    served = np.full(int(place.max()) + 2, -1, np.int64)
    served[place + 1] = np.arange(len(place))
    before = served[place[two]]
    near = np.abs(at[before] - at[two]) <= READ_ON_MAX * data["file_bytes"].astype(np.int64)[two]
    same = (
        (op_id[before] == op_id[two]) | (op_id[before] == op_id[one]) | ((file[before] == file[two]) & near)
    )
    return np.asarray((before >= 0) & same, np.bool_)


def _late(latency: Floats, gap_at: Ints) -> Floats:
    """How much longer each request behind a break took than is usual for the others, ns.

    A disk that orders its commands serves what lies near first: one that lies apart may be passed over many times.
    """
    if not len(gap_at):
        return np.zeros(0)
    others = np.ones(len(latency), np.bool_)
    others[gap_at] = False
    usual = float(np.median(latency[others])) if others.any() else 0.0
    return np.asarray((latency[gap_at] - usual).clip(0), np.float64)


def _passed_over(file: Ints, start: Ints, end: Ints, one: Ints, two: Ints, is_break: Bools) -> Ints:
    """Requests behind a break that the disk left for what lies behind them: more than `READ_ON_MAX` that came later, of the same file, were done before.

    It comes back when it has to jump anyway, so that they are no jump of their own; a file in one piece would have been served in its order. Those that
    follow them, and are left with them, count as well.
    """
    overtaken = np.zeros(len(file), np.bool_)
    for number in np.unique(file):
        mine = np.flatnonzero(file == number)
        mine = mine[np.argsort(start[mine], kind="stable")]
        # At most all that came before it are among those that were done before it.
        done = np.searchsorted(np.sort(end[mine]), end[mine], side="left")
        overtaken[mine] = done - np.arange(len(mine)) > READ_ON_MAX
    following = np.full(len(file), -1, np.int64)
    following[one] = two
    found: list[Ints] = []
    at = two[is_break]
    for _ in range(int(READ_ON_MAX)):
        at = at[overtaken[at]]
        found.append(at)
        at = following[at]
        at = at[at >= 0]
    return np.unique(np.concatenate(found))


def _in_flight(op_id: Ints, start: Ints, end: Ints, low: Floats, high: Floats) -> tuple[Ints, Floats]:
    """Operations in the order of their numbers, and how long each was in flight during the times [low, high], ns."""
    ops, place = np.unique(op_id, return_inverse=True)
    return ops, overlap(*extents(place, start, end), low, high)


def _p_value(
    service: Floats, size: Ints, behind: Bools, follows: Bools | None, distance: Ints, block: Ints
) -> float:
    """Null model: where a request lies has nothing to do with how long it takes the disk (or waits for it: `service`), in a block of time.

    Requests behind a break against those that follow the one before them, of the same size class (van Elteren's rank test); where none
    does: the further they jump, the longer they take (ranks of both, correlated).
    """
    octave = np.floor(np.log2(np.maximum(size, 1))).astype(np.int64)
    if follows is not None:
        _, stratum = np.unique(block * 64 + octave, return_inverse=True)
        chosen = behind | follows
        return stratified_rank_p(service[chosen], behind[chosen], stratum[chosen])
    _, stratum = np.unique(block, return_inverse=True)
    return stratified_correlation_p(distance.astype(np.float64), service, stratum)


def _candidate(context: Context, layout: Layout) -> Candidate:
    share = min(1.0, float(layout.lost_ns.sum()) / max(1.0, layout.busy_ns))
    # What is passed over waits for much longer than the disk jumps.
    waited = min(1.0, float(layout.waiting_ns.sum()) / max(1.0, context.survey.latency_ns))
    most = max(share, waited)
    metric, value, each = "part of the disk's time", share, layout.lost_ns / max(1.0, layout.busy_ns)
    if not share:
        # It jumped for none of them directly: what they cost is what waited.
        metric, value = "part of all latency", waited
        each = layout.waiting_ns / max(1.0, context.survey.latency_ns)
    low, high = bootstrap_sum(each)
    apart = layout.breaks / layout.neighbours
    least = "at least " if layout.is_least else ""
    # What each operation lost to breaks, its own and those that the disk jumped for meanwhile.
    worse = p99_ratio(context, lost_values_sql(layout.waiting, layout.waiting_ns))
    claim = (
        f"Files lie in pieces on {layout.device}: {words.percent(apart)} of {words.count(layout.neighbours)} pairs of "
        f"neighbours in a file lie apart on the disk (pieces of {words.size(layout.piece_bytes)} on average), and a jump "
        f"costs {least}{words.duration(layout.jump_ns)}: {words.percent(share)} of the disk's time."
    )
    if layout.passed_over.any():
        late = layout.broken_ns[layout.passed_over]
        claim += (
            f" The disk serves first what lies together: {words.things(len(late), 'operation')} behind a break "
            f"took {words.duration(float(np.median(late)))} longer than the others, at most {words.duration(float(late.max()))}."
        )
    if waited > share:
        claim += f" Operations lost {words.percent(waited)} of all latency by that."
    return Candidate(
        culprit=Culprit("layout", "fragmentation", f"device:{layout.device}"),
        claim=claim,
        baseline=layout.baseline,
        effect=Effect(metric, value, "1", low, min(1.0, high)),
        share_of_excess=most,
        share_of_latency=most,
        p_value=layout.p_value,
        episodes=layout.breaks,
        evidence=[
            evidence(
                context.case,
                "where neighbours in a file lie on the disk",
                f"""SELECT * FROM ({requests_sql(context)}) AS requests
WHERE device = {quoted(layout.device)} ORDER BY file, file_offset, start_ns LIMIT 20""",
            )
        ],
        refute="Copy one of the files to a fresh place (enough free space, one writer) and read it again: if it takes as "
        "long, the layout is innocent.",
        remedy="Copy or defragment the files (e4defrag, xfs_fsr, btrfs filesystem defragment), and keep enough space free "
        "that new data find large holes; filefrag -v FILE shows the pieces.",
        otherwise=claim,
        explains=_explains(context.slow, layout),
        causes=(("stage", "device"), ("stage", "queue")),
        large=most >= SHARE_OF_LATENCY_MIN or (most >= SHARE_FOR_P99_MIN and worse >= SEEN_P99_RATIO_MIN),
        p99_ratio=worse,
        likely_share=most * layout.likely_jump_ns / layout.jump_ns,
    )


def _explains(slow: SlowSet, layout: Layout) -> Bools:
    """Slow operations with breaks that are no later than their jumps, or being passed over for them, can make them."""
    if not len(slow):
        return none_of(slow)
    place = np.searchsorted(layout.broken, slow.op_id).clip(max=len(layout.broken) - 1)
    jumps = np.where(layout.broken[place] == slow.op_id, layout.broken_times[place], 0)
    passed_over = (layout.broken[place] == slow.op_id) & layout.passed_over[place]
    excess = slow.latency_ns - slow.typical_ns
    by_jumps = (jumps > 0) & (excess <= jumps * layout.longest_ns)
    return np.asarray(
        by_jumps | (passed_over & (layout.broken_ns[place] >= COVERS_MIN * excess)),
        np.bool_,
    )


DETECTOR = Detector(
    name="layout",
    needs=("links.child_id", "judged.offset_bytes"),
    needs_stages=(),
    null_model="within a block of time a request's place has nothing to do with how long it takes the disk, nor with how long it waits for it: those behind a break "
    "against those that follow the one served before them (van Elteren, the better of the two); without these: further jumps take no longer (ranks)",
    smallest_effect="5 % of the time of a rotating disk, or of the latency of what waited for it, or 0.2 % and a 99th percentile that is 10 % above that without the jumps; over at "
    "least 50 pairs of neighbours",
    run=run,
    needs_all=True,
)
