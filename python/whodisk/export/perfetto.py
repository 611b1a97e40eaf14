"""A trace of Perfetto (TrackEvent), to be opened in ui.perfetto.dev: a track per device or program, below it its operations.

Operations of a track that overlap lie on lanes, each of which holds one at a time. Inside an operation lie slices of its stages, one
after the other in the order in which an operation passes them. Links are flows. Beside the lanes a counter shows how many were in
flight. Field numbers: perfetto_trace.proto, version 0.59.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.export import protobuf as pb
from whodisk.export.base import Format, Tell, Wanted, Written
from whodisk.export.hdr_log import start_unix_ns
from whodisk.reading.views import STAGES, Case

Ints = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]

# Trace, TracePacket, TrackEvent, TrackDescriptor, InternedData, DebugAnnotation: numbers of the fields that are used.
_PACKET = 1
_TIMESTAMP, _CLOCKS, _SEQUENCE, _TRACK_EVENT, _INTERNED, _SEQUENCE_FLAGS, _DESCRIPTOR = (
    8,
    6,
    10,
    11,
    12,
    13,
    60,
)
_TYPE, _NAME_IID, _TRACK_UUID, _ANNOTATION, _COUNTER_VALUE, _FLOW_IDS = 9, 10, 11, 4, 30, 47
_BEGIN, _END, _COUNTER = 1, 2, 4
_REALTIME, _BOOTTIME = 1, 6

#: Operations per batch: what bounds memory.
BATCH = 50_000

#: Whole numbers that a slice has, and those of them that say nothing where they have this value.
_NUMBERS: dict[str, int | None] = {
    "op_id": None,
    "offset_bytes": None,
    "size_bytes": None,
    "queue_depth": None,
    "flags": 0,
    "error": 0,
    "weight": 1,
    "pid": None,
    "tid": None,
    "cpu": None,
    "complete_cpu": None,
    "hctx": None,
    "vector": None,
    "foreign_handler_ns": 0,
}
_TEXTS = ("device", "file", "comm", "cgroup", "host")

#: SQL: what has a track of its own within a layer: what was asked, or who asked.
_OWNER = """CASE WHEN layer IN ('block', 'device') THEN coalesce(device, 'unknown device')
  ELSE concat_ws(' ', coalesce(comm, 'unknown program'), pid) END"""
_TITLES = {
    "app": "app: what the workload asked for",
    "syscall": "syscall: calls on storage",
    "block": "block: requests to devices",
    "device": "device: what drives say themselves",
}


@dataclass
class _Lanes:
    """The track of an owner: which of its lanes are busy, and until when; how many operations are in flight."""

    uuid: int
    depth_uuid: int
    lanes: list[int] = field(default_factory=list)
    busy: list[tuple[int, int]] = field(default_factory=list)
    free: list[int] = field(default_factory=list)

    def lane(self, start_ns: int, end_ns: int) -> int | None:
        """The lowest lane that is free from `start_ns` on, which is busy until `end_ns` then; None if all are busy."""
        while self.busy and self.busy[0][0] < start_ns:
            heapq.heappush(self.free, heapq.heappop(self.busy)[1])
        if not self.free:
            return None
        lane = heapq.heappop(self.free)
        heapq.heappush(self.busy, (end_ns, lane))
        return lane


class _Trace:
    """A trace that is being written."""

    def __init__(self, out: BinaryIO, shift_ns: int, start_unix: int) -> None:
        self._out = out
        self._shift_ns = shift_ns
        self._names = pb.Interned(2)
        self._keys = pb.Interned(3)
        self._texts = pb.Interned(29)
        self._uuids = 0
        self._layers: dict[str, int] = {}
        self._owners: dict[tuple[str, str], _Lanes] = {}
        #: Operations in flight by owner's depth track, and ends that lie beyond the last batch.
        self._depth: dict[int, int] = {}
        self._ends: tuple[Ints, Ints] = (np.empty(0, np.int64), np.empty(0, np.int64))
        clocks = [
            part
            for clock, at in ((_BOOTTIME, shift_ns), (_REALTIME, start_unix))
            for part in pb.message(1, [pb.number(1, clock), pb.number(2, at)])
        ]
        self._packets(
            [*pb.message(_CLOCKS, clocks), pb.number(_SEQUENCE, 1), pb.number(_SEQUENCE_FLAGS, 1)], 1
        )

    def batch(
        self, columns: dict[str, npt.NDArray[Any]], flows: dict[str, npt.NDArray[Any]], until_ns: int
    ) -> None:
        """Writes operations, sorted by start; those to come start at `until_ns` or later."""
        start = _ints(columns["start_ns"])
        end = start + _ints(columns["latency_ns"])
        lanes, depths = self._tracks(columns, start, end)
        names = np.array([self._names.number(name) for name in _names(columns)], dtype=np.int64)
        annotations = self._annotations(columns)
        flow_ids, flow_counts = _by_row(_ints(columns["op_id"]), flows)
        self._intern()
        self._begins(start, lanes, names, annotations, flow_ids, flow_counts)
        self._stages(columns, start, lanes)
        self._events(end, lanes, _END)
        self._depths(start, end, depths, until_ns)

    def _tracks(self, columns: dict[str, npt.NDArray[Any]], start: Ints, end: Ints) -> tuple[Ints, Ints]:
        lanes, depths = [], []
        keys = zip(
            columns["layer"].tolist(), columns["owner"].tolist(), start.tolist(), end.tolist(), strict=True
        )
        for layer, name, start_ns, end_ns in keys:
            owner = self._owners.get((layer, name)) or self._owner(layer, name)
            lane = owner.lane(start_ns, end_ns)
            if lane is None:
                lane = len(owner.lanes)
                owner.lanes.append(self._track("operations", owner.uuid))
                heapq.heappush(owner.busy, (end_ns, lane))
            lanes.append(owner.lanes[lane])
            depths.append(owner.depth_uuid)
        return np.array(lanes, dtype=np.int64), np.array(depths, dtype=np.int64)

    def _owner(self, layer: str, name: str) -> _Lanes:
        if layer not in self._layers:
            self._layers[layer] = self._track(_TITLES.get(layer, layer), None)
        uuid = self._track(name, self._layers[layer])
        # CounterDescriptor: unit 2 is a count.
        owner = _Lanes(uuid, self._track("in flight", uuid, pb.message(8, [pb.number(3, 2)])))
        self._owners[layer, name] = owner
        return owner

    def _track(self, name: str, parent: int | None, more: list[pb.Part] | None = None) -> int:
        self._uuids += 1
        above = [pb.number(5, parent)] if parent is not None else []
        parts = [pb.number(1, self._uuids), pb.text(2, name), *above, *(more or [])]
        self._packets([*pb.message(_DESCRIPTOR, parts), pb.number(_SEQUENCE, 1)], 1)
        return self._uuids

    def _annotations(self, columns: dict[str, npt.NDArray[Any]]) -> list[tuple[Chosen, list[pb.Part]]]:
        """For each thing that a slice can have: which rows have it, and the annotation of all rows."""
        told: list[tuple[Chosen, list[pb.Part]]] = []
        for name, silent in _NUMBERS.items():
            values = columns[name]
            known = np.ones(len(values), bool) if values.dtype.kind in "iub" else np.isfinite(values)
            # Ids are 64 bits wide, and never NULL; what can be NULL is small enough for the float that it comes as.
            whole = _ints(np.where(known, values, 0)) if values.dtype.kind == "f" else _ints(values)
            known = known if silent is None else known & (whole != silent)
            told.append((known, [pb.number(1, self._keys.number(name)), *pb.numbers(4, whole)]))
        for name in _TEXTS:
            texts = columns[name].tolist()
            known = np.array([text is not None for text in texts], dtype=bool)
            whole = np.array(
                [0 if text is None else self._texts.number(text) for text in texts], dtype=np.int64
            )
            told.append((known, [pb.number(1, self._keys.number(name)), *pb.numbers(17, whole)]))
        return told

    def _intern(self) -> None:
        for stage in STAGES:
            self._names.number(stage)
        entries = self._names.entries() + self._keys.entries() + self._texts.entries()
        if entries:
            self._packets(
                [*pb.message(_INTERNED, [entries]), pb.number(_SEQUENCE, 1), pb.number(_SEQUENCE_FLAGS, 2)], 1
            )

    def _begins(
        self,
        start: Ints,
        lanes: Ints,
        names: Ints,
        annotations: list[tuple[Chosen, list[pb.Part]]],
        flow_ids: npt.NDArray[np.uint64],
        flow_counts: Ints,
    ) -> None:
        """Begins of slices. Those that have the same things are of one shape."""
        first_flow = np.cumsum(flow_counts) - flow_counts
        shapes = np.column_stack([flow_counts, *(known for known, _ in annotations)])
        for shape in np.unique(shapes, axis=0):
            chosen = np.flatnonzero((shapes == shape).all(axis=1))
            parts: list[pb.Part] = []
            for told, (_, annotation) in zip(shape[1:], annotations, strict=True):
                if told:
                    parts += pb.message(_ANNOTATION, _chosen(annotation, chosen))
            for flow in range(int(shape[0])):
                parts += pb.fixed(_FLOW_IDS, flow_ids[first_flow[chosen] + flow])
            self._events(
                start[chosen], lanes[chosen], _BEGIN, [*pb.numbers(_NAME_IID, names[chosen]), *parts]
            )

    def _stages(self, columns: dict[str, npt.NDArray[Any]], start: Ints, lanes: Ints) -> None:
        at = start.copy()
        for stage in STAGES:
            values = columns[f"{stage}_ns"]
            spent = _ints(np.nan_to_num(values) if values.dtype.kind == "f" else values)
            chosen = np.flatnonzero(spent > 0)
            name = pb.number(_NAME_IID, self._names.number(stage))
            self._events(at[chosen], lanes[chosen], _BEGIN, [name])
            at += spent
            self._events(at[chosen], lanes[chosen], _END)

    def _depths(self, start: Ints, end: Ints, tracks: Ints, until_ns: int) -> None:
        """The counters, up to `until_ns`; ends beyond it wait for the next batch."""
        late = self._ends
        times = np.concatenate([start, end, late[0]])
        owners = np.concatenate([tracks, tracks, late[1]])
        steps = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(end) + len(late[0]), np.int64)])
        now = times < until_ns
        self._ends = (times[~now], owners[~now])
        times, owners, steps = times[now], owners[now], steps[now]
        # Of one moment ends come first: what starts when another ends is not in flight with it.
        order = np.lexsort((steps, times, owners))
        times, owners, steps = times[order], owners[order], steps[order]
        depth = np.empty(len(times), np.int64)
        first = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
        for begin, after in zip(first, [*first[1:], len(owners)], strict=True):
            owner = int(owners[begin])
            depth[begin:after] = self._depth.get(owner, 0) + np.cumsum(steps[begin:after])
            self._depth[owner] = int(depth[after - 1])
        # Only the last value of a moment is seen.
        shown = np.append((np.diff(times) != 0) | (np.diff(owners) != 0), True) if len(times) else now[:0]
        self._events(times[shown], owners[shown], _COUNTER, pb.numbers(_COUNTER_VALUE, depth[shown]))

    def _events(self, times: Ints, tracks: Ints, kind: int, more: list[pb.Part] | None = None) -> None:
        if len(times) == 0:
            return
        event = [pb.number(_TYPE, kind), *pb.numbers(_TRACK_UUID, tracks), *(more or [])]
        packet = [
            *pb.numbers(_TIMESTAMP, times + self._shift_ns),
            pb.number(_SEQUENCE, 1),
            pb.number(_SEQUENCE_FLAGS, 2),
            *pb.message(_TRACK_EVENT, event),
        ]
        self._packets(packet, len(times))

    def _packets(self, parts: list[pb.Part], count: int) -> None:
        self._out.write(pb.rows(pb.message(_PACKET, parts), count))


def _chosen(parts: list[pb.Part], rows: Ints) -> list[pb.Part]:
    return [part if isinstance(part, bytes) else part[rows] for part in parts]


def _ints(values: npt.NDArray[Any]) -> Ints:
    return values.astype(np.int64)


def _names(columns: dict[str, npt.NDArray[Any]]) -> Iterator[str]:
    sizes: dict[float, str] = {}
    for op, size, is_open in zip(
        columns["op"].tolist(), columns["size_bytes"].tolist(), columns["open"].tolist(), strict=True
    ):
        # NULL comes as NaN.
        if size and not math.isnan(size) and size not in sizes:
            sizes[size] = f" {words.size(size)}"
        yield f"{op}{sizes.get(size, '')}{', unfinished' if is_open else ''}"


def _by_row(op_ids: Ints, flows: dict[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[np.uint64], Ints]:
    """Ids of flows in the order of the operations, and how many each operation has."""
    order = np.argsort(op_ids, kind="stable")
    row = order[np.searchsorted(op_ids, _ints(flows["op_id"]), sorter=order)]
    by_row = np.argsort(row, kind="stable")
    return flows["flow_id"].astype(np.uint64)[by_row], np.bincount(row, minlength=len(op_ids)).astype(
        np.int64
    )


def _write(case: Case, wanted: Wanted, file: Path, tell: Tell) -> Written:
    bounds = [
        int(row["start_ns"] or 0)
        for row in case.rows(
            f"""SELECT start_ns FROM (
  SELECT start_ns, row_number() OVER (ORDER BY start_ns) - 1 AS n FROM recorded_ops WHERE {wanted.condition()}
) WHERE n % {BATCH} = 0 ORDER BY 1"""
        )
    ]
    if not bounds:
        return Written(0)
    # Both ends of a flow have its id; a link to what is not exported is none.
    case.make_table(
        "flows",
        f"""SELECT unnest([l.parent_id, l.child_id]) AS op_id, unnest([p.start_ns, c.start_ns]) AS start_ns,
  hash(l.parent_id, l.child_id, l.kind) AS flow_id
FROM recorded_links AS l JOIN recorded_ops AS p ON p.op_id = l.parent_id JOIN recorded_ops AS c ON c.op_id = l.child_id
WHERE {_of("p", wanted)} AND {_of("c", wanted)} ORDER BY 2""",
    )
    columns = ", ".join(
        [
            "start_ns",
            "latency_ns",
            "open",
            "op",
            "layer",
            *_TEXTS,
            *_NUMBERS,
            *(f"{stage}_ns" for stage in STAGES),
        ]
    )
    edges = [*sorted(set(bounds)), (1 << 63) - 1]
    rows = 0
    with file.open("wb") as out:
        trace = _Trace(out, max(0, -edges[0]), start_unix_ns(case))
        for number, (begin, after) in enumerate(itertools.pairwise(edges), 1):
            window = f"start_ns >= {begin} AND start_ns < {after}"
            operations = case.arrays(
                f"SELECT {columns}, {_OWNER} AS owner FROM recorded_ops "
                f"WHERE {wanted.condition()} AND {window} ORDER BY start_ns, op_id"
            )
            flows = case.arrays(f"SELECT op_id, flow_id FROM flows WHERE {window}")
            trace.batch(operations, flows, after)
            rows += len(operations["op_id"])
            tell(number / (len(edges) - 1))
    return Written(rows)


def _of(table: str, wanted: Wanted) -> str:
    return f"{table}.op_id IN (SELECT op_id FROM recorded_ops WHERE {wanted.condition()})"


FORMAT = Format(
    name="perfetto",
    suffix=".pftrace",
    about="a trace for ui.perfetto.dev: operations on lanes, their stages, flows along links, depth as a counter",
    not_carried=(
        (
            "when within an operation a stage was",
            "a case holds how long each took; they lie one after the other",
        ),
        (
            "series, events, interrupts, gaps, waits, cache and losses",
            "only operations and links are written",
        ),
        (
            "which end of a link waits for which, and its bytes",
            "a flow has no kind; its arrow points to what began later",
        ),
        (
            "that an operation stands for several (a sampled case)",
            "it is one slice, with its weight as an argument",
        ),
    ),
    write=_write,
)
