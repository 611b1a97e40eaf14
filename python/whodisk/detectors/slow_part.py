"""A part of a device of which reads take many times as long as of all others: worn or remapped blocks, a member that lies there, a place that its host keeps elsewhere.

The other places are the baseline. Who reads in order is at a place once, and place and time cannot be told apart: then the device was slow there, or then, which
accuses it either way. Requests that come there at another time tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.thresholds import (
    PLACES,
    SLOW_PART_ALONE_MIN,
    SLOW_PART_ASKED,
    SLOW_PART_BELOW_MIN,
    SLOW_PART_RATIO_MIN,
    SLOW_PART_WRITTEN_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.links import above_sql, below_sql
from whodisk.evidence.same_requests import longer_among_same, parts_in_order
from whodisk.evidence.slow_operations import SOFTWARE_DEVICES, none_of
from whodisk.evidence.slow_places import SlowPlaces, met_again, slow_places
from whodisk.evidence.steal import mostly_stolen, steal_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Survey, thinned
from whodisk.evidence.thresholds import (
    ORDINARY_WAIT_NS,
    PART_PLACES_MIN,
    PART_READS_MIN,
    SAME_ORDER_MAX,
)
from whodisk.evidence.time_lost import share_lost
from whodisk.findings import Culprit, Effect
from whodisk.machine.below_loop import below_loop
from whodisk.machine.peers import without_peers
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints


@dataclass(frozen=True)
class _Requests:
    """Reads and writes of a device as they began."""

    device: str
    is_read: Bools
    #: Operation and power of two of the size.
    kind: Ints
    op_id: Ints
    start_ns: Ints
    end_ns: Ints
    offset: Ints
    size: Ints
    device_ns: Floats

    @property
    def log_time(self) -> Floats:
        return np.log(np.maximum(self.device_ns, 1.0))


@dataclass(frozen=True)
class _Part:
    """A slow part, the reads that show it, and whether they or others were there at another time."""

    places: SlowPlaces
    #: Of all requests: the reads of the size that shows it, and which requests lie there.
    mine: Bools
    there: Bools
    is_met_again: bool

    @property
    def sql(self) -> str:
        """Condition: a request lies there."""
        each = zip(self.places.begin.tolist(), self.places.end.tolist(), strict=True)
        return "(" + " OR ".join(f"offset_bytes BETWEEN {low} AND {high - 1}" for low, high in each) + ")"


def run(context: Context) -> Result:
    """A candidate for each device that has such a part."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None or "device" not in survey.stages_observed:
        return result
    for device in without_peers(context, survey, PART_PLACES_MIN * PART_READS_MIN):
        requests = _requests(context, survey, device)
        part = _slow_part(requests)
        if part is None:
            continue
        because = _otherwise(context, survey, requests, part)
        candidate = _candidate(context, survey, requests, part)
        if because:
            result.tested.append(candidate.p_value)
            if candidate.large:
                result.observed.append(f"{candidate.claim} But {because}.")
        else:
            result.candidates.append(candidate)
    return result


def _where(survey: Survey, device: str) -> str:
    return f"layer = '{survey.layer}' AND device = {quoted(device)} AND op IN ('read', 'write') AND device_ns IS NOT NULL AND offset_bytes IS NOT NULL"


def _requests(context: Context, survey: Survey, device: str) -> _Requests:
    data = context.case.arrays(
        f"""SELECT op_id, op, {SIZE_CLASS} AS size_class, start_ns, start_ns + latency_ns AS end_ns, offset_bytes, size_bytes, device_ns
FROM measured WHERE {_where(survey, device)} AND {thinned(survey.operations)} ORDER BY start_ns, op_id"""
    )
    is_read = np.asarray(data["op"].astype(str) == "read", np.bool_)
    size_class = data["size_class"].astype(np.int64)
    op_id, start, end, offset, size = (
        data[name].astype(np.int64) for name in ("op_id", "start_ns", "end_ns", "offset_bytes", "size_bytes")
    )
    return _Requests(
        device,
        is_read,
        2 * size_class + is_read,
        op_id,
        start,
        end,
        offset,
        size,
        data["device_ns"].astype(np.float64),
    )


def _slow_part(of: _Requests) -> _Part | None:
    """Of the sizes of its reads the one that shows most. Writes are not asked: what takes them may know some places better than others."""
    best: _Part | None = None
    most = 0.0
    log_time = of.log_time
    for kind in np.unique(of.kind[of.is_read]).tolist():
        mine = np.asarray(of.kind == kind, np.bool_)
        places = slow_places(of.offset[mine], of.size[mine], log_time[mine], SLOW_PART_RATIO_MIN)
        if places is None:
            continue
        there = places.hold(of.offset)
        held = float(of.device_ns[mine & there].sum())
        if held > most:
            asked = mine | ~of.is_read
            again = met_again(
                places,
                of.offset[asked],
                of.size[asked],
                log_time[asked],
                of.kind[asked],
                mine[asked],
                SLOW_PART_RATIO_MIN,
            )
            best, most = _Part(places, mine, there, again), held
    return best


def _otherwise(context: Context, survey: Survey, of: _Requests, part: _Part) -> str:
    """What else would explain it; nothing if nothing would."""
    device, change = of.device, float(np.log(part.places.ratio))
    rows, alike = f"measured WHERE {_where(survey, device)} AND op = 'read'", f"op, {SIZE_CLASS}"
    if not context.keeps_rate and not longer_among_same(
        context.case, rows, alike, DEPTH_CLASS, part.sql, change
    ):
        return "more was in flight there"
    timed = "op = 'read' AND device_ns IS NOT NULL"
    parts = parts_in_order(context.case, survey.layer, device, timed, part.sql)
    if max(parts) - min(parts) >= SAME_ORDER_MAX:
        return "the requests came in another order there"
    slow = part.mine & part.there
    below = below_loop(context, device, of.start_ns[slow], of.end_ns[slow])
    if below is not None and below.busy >= SLOW_PART_BELOW_MIN:
        return f"the disk below it, {below.disk}, was at work then: of the other parts of its file it may have had a copy in memory"
    if _may_be_empty(context, of, part):
        return "it was read without a file system, and the others may never have been written: what holds nothing is answered at once"
    return "" if part.is_met_again else _otherwise_then(context, survey, of, part)


def _otherwise_then(context: Context, survey: Survey, of: _Requests, part: _Part) -> str:
    """The same of the time at which a part was read that was read once."""
    slow, others = part.mine & part.there, part.mine & ~part.there
    begin, end = of.start_ns[slow], of.end_ns[slow]
    meanwhile = of.is_read & (of.start_ns >= begin.min()) & (of.start_ns <= begin.max())
    if part.there[meanwhile].mean() < SLOW_PART_ALONE_MIN:
        return "other parts of it were read meanwhile"
    longer_ns = (part.places.ratio - 1) * float(np.median(of.device_ns[others]))
    if of.device.startswith(SOFTWARE_DEVICES) and longer_ns < ORDINARY_WAIT_NS:
        return "the threads that serve it need a CPU, and none may have been free"
    steal = steal_of(context.case, survey)
    if steal is not None and mostly_stolen(context.case, steal, begin, end).mean() > 0.5:
        return "the host of this machine had taken its CPUs away"
    low, high = np.array([begin.min()]), np.array([end.max()])
    if any(pace.device == of.device and pace.covers(low, high).mean() > 0.5 for pace in context.paces):
        return "it then takes requests at a fixed pace, which is a limit"
    return ""


def _may_be_empty(context: Context, of: _Requests, part: _Part) -> bool:
    """Whether its reads are of the device itself, and not of files, and most of its other places were not written while this was recorded."""
    others = np.flatnonzero(part.mine & ~part.there)
    if "links" not in context.case.columns or not len(others):
        return False
    some = others[:: max(1, len(others) // SLOW_PART_ASKED)]
    row = context.case.rows(
        f"""SELECT count(*) FILTER (file LIKE '/dev/%') AS raw, count(file) AS n
FROM ({above_sql(of.op_id[some])}) AS above JOIN measured AS m ON m.op_id = above.op_id"""
    )[0]
    if 2 * int(row["raw"] or 0) <= int(row["n"] or 0):
        return False
    written = np.sort(of.offset[~of.is_read])
    before = np.searchsorted(written, (of.offset + of.size)[some]) - np.searchsorted(written, of.offset[some])
    return float((before > 0).mean()) < SLOW_PART_WRITTEN_MIN


def _lost_sql(survey: Survey, device: str, part: _Part) -> str:
    """What reads of the part take beyond what the same size takes elsewhere."""
    return f"""WITH r AS (SELECT op_id, {SIZE_CLASS} AS size_class, device_ns, {part.sql} AS there FROM measured WHERE {_where(survey, device)} AND op = 'read'),
  usual AS (SELECT size_class, median(device_ns) AS usual_ns FROM r WHERE NOT there GROUP BY 1)
SELECT op_id, greatest(0, device_ns - usual_ns) AS lost_ns FROM r JOIN usual USING (size_class) WHERE there"""


def _candidate(context: Context, survey: Survey, of: _Requests, part: _Part) -> Candidate:
    device, places = of.device, part.places
    lost_sql = _lost_sql(survey, device, part)
    share, worse = share_lost(context, survey, lost_sql)
    share = min(1.0, share)
    slow, others = part.mine & part.there, part.mine & ~part.there
    slow_ns, usual_ns = (float(np.median(of.device_ns[chosen])) for chosen in (slow, others))
    where = words.listed(
        [
            f"{words.size(low)} to {words.size(high)}"
            for low, high in zip(places.begin.tolist(), places.end.tolist(), strict=True)
        ]
    )
    begin_ns, end_ns = int(of.start_ns[slow].min()), int(of.end_ns[slow].max())
    there_then = (
        ", at other times, too: it is the place, and not the time"
        if part.is_met_again
        else f". That was from {words.duration(begin_ns - survey.begin_ns)} to {words.duration(end_ns - survey.begin_ns)} of the run, and no requests that came there at "
        "another time tell the place from the time: it was slow there, or just then"
    )
    claim = (
        f"Reads of {where} of {device} take {words.significant(places.ratio)} times as long as others of the same size (half of them over {words.duration(slow_ns)}, "
        f"not {words.duration(usual_ns)}){there_then}. That is {words.percent(share)} of all latency."
    )
    where_sql = f"{_where(survey, device)} AND op = 'read'"
    return Candidate(
        culprit=Culprit("device", device, "a part of it" if part.is_met_again else None),
        claim=claim,
        baseline=f"the other places of {device}, reads of the same size",
        effect=Effect("time in the device", places.ratio, "x elsewhere", places.low_ratio, places.high_ratio),
        share_of_excess=share,
        share_of_latency=share,
        p_value=places.p_value,
        episodes=len(places.begin),
        evidence=[
            evidence(
                context.case,
                "time in the device of reads there and elsewhere",
                f"""SELECT {part.sql} AS there, count(*) AS requests, CAST(median(device_ns) AS BIGINT) AS median_ns, max(device_ns) AS max_ns
FROM measured WHERE {where_sql} GROUP BY 1 ORDER BY 1""",
            )
        ],
        refute=f"Read these places of {device} by themselves, and others of it after that (dd if=/dev/{device} of=/dev/null iflag=direct skip=...): if both take as long, it "
        "is not the place.",
        remedy=f"Look at what {device} has at these places: sectors that were moved or are read again (smartctl -x), the member or the image that lies there, what its host "
        "keeps elsewhere. Until it is replaced, keep data off them.",
        otherwise=claim,
        explains=_behind(context, of, part),
        large=large_by_loss(share, worse),
        p99_ratio=worse,
        lost_sql=lost_sql,
        # That slow operations are in one part of the device says the same.
        causes=(
            ("stage", "device"),
            *(("layout", f"place in part {number} of {PLACES}") for number in range(1, PLACES + 1)),
        ),
        # The finding that accuses it for a reason of its own reports this, too.
        consequence=True,
        joins=(("stage", context.stage("device")),),
        basis="estimated",
    )


def _behind(context: Context, of: _Requests, part: _Part) -> Bools:
    """Slow operations that waited for a read of the part."""
    slow = context.slow
    reads = of.op_id[of.is_read & part.there]
    if context.layer == "block":
        return np.asarray(np.isin(slow.op_id, reads), np.bool_)
    if "links" not in context.case.columns or not len(slow):
        return none_of(slow)
    data = context.case.arrays(f"SELECT op_id, child_id FROM ({below_sql(slow.op_id)}) AS below")
    waited = data["op_id"].astype(np.int64)[np.isin(data["child_id"].astype(np.int64), reads)]
    return np.asarray(np.isin(slow.op_id, waited), np.bool_)


DETECTOR = Detector(
    name="slow_part",
    needs=("judged.latency_ns", "ops/block.device_ns", "ops/block.offset_bytes"),
    needs_stages=(),
    null_model="places of a device are slow independently of each other: they do not lie together in as few pieces (runs); and the shape is that of two levels with "
    "nothing between them, at the same queue depths and order of requests",
    smallest_effect="4 times as long in less than half of the places; 5 % of all latency, or a 99th percentile 10 % above that without",
    run=run,
    needs_all=True,
)
