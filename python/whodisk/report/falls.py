"""Waterfalls: the worst operations and the longest silences, each with what happened around it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from whodisk import words
from whodisk.reading import views
from whodisk.reading.views import Case, Row
from whodisk.report import queries, units
from whodisk.report.material import Bins, Key, floor_ns, whole

#: Worst operations per layer; only one of those that overlap in time, since they share a cause.
PER_LAYER = 8
#: Silences shown beside them.
SILENCES = 4
#: How many of the slowest are looked at to find some that do not overlap.
LOOKED_AT = 2000
#: Requests and neighbours drawn at most.
REQUESTS_MAX = 24
NEIGHBOURS_MAX = 250
LANES_MAX = 16
#: How much of the operation's own length is shown before and after it.
MARGIN = 0.3
#: Neighbours that began earlier than this before the window are not looked for.
REACH_NS = 2_000_000_000

Bar = dict[str, Any]
Line = dict[str, Any]


@dataclass(frozen=True)
class Pick:
    """An operation, or a silence (then `row` is of `gaps` and `id` is negative)."""

    id: int
    layer: str
    row: Row
    length_ns: int
    #: Of the slowest operations, those that overlap it in time.
    alike: int

    @property
    def start_ns(self) -> int:
        """Since the start of the case."""
        return whole(self.row["start_ns"])

    @property
    def silence(self) -> bool:
        """Whether it is a silence."""
        return self.id < 0

    def window(self) -> tuple[int, str, int, int, int]:
        """As `queries.around` wants it."""
        margin = max(1, int(self.length_ns * MARGIN))
        tid = whole(self.row["tid"])
        return (self.id, self.layer, tid, self.start_ns - margin, self.start_ns + self.length_ns + margin)


def picks(case: Case, parts: dict[Key, Bins]) -> list[Pick]:
    """The worst operations of the top layer, the longest silences, the worst operations below."""
    floors = {layer: floor_ns(parts, layer, LOOKED_AT) for layer in case.layers}
    by_layer = [
        _apart(layer, case.rows(queries.worst(layer, floor, LOOKED_AT))) for layer, floor in floors.items()
    ]
    gaps = case.rows(queries.gaps(SILENCES))
    silences = [
        Pick(-1 - index, str(row["layer"]), row, whole(row["duration_ns"]), 0)
        for index, row in enumerate(gaps)
    ]
    top, *below = by_layer or [[]]
    return top + silences + [pick for picks_of_layer in below for pick in picks_of_layer]


def _apart(layer: str, rows: list[Row]) -> list[Pick]:
    """The slowest that do not overlap in time, at most `PER_LAYER`."""
    taken: list[tuple[Row, int]] = []
    for row in rows:
        host = next((i for i, (other, _) in enumerate(taken) if _overlap(row, other)), None)
        if host is not None:
            taken[host] = (taken[host][0], taken[host][1] + 1)
        elif len(taken) < PER_LAYER:
            taken.append((row, 0))
    return [Pick(whole(row["op_id"]), layer, row, whole(row["latency_ns"]), alike) for row, alike in taken]


def _overlap(one: Row, other: Row) -> bool:
    return whole(one["start_ns"]) < _end(other) and whole(other["start_ns"]) < _end(one)


@dataclass(frozen=True)
class Surroundings:
    """What belongs to the picked operations, by their id."""

    requests: dict[int, list[Row]]
    around: dict[int, list[Row]]
    gaps: dict[int, list[Row]]


def surroundings(case: Case, chosen: list[Pick]) -> Surroundings:
    """Reads requests, neighbours and silences of all picks, one query each."""
    windows = [pick.window() for pick in chosen if pick.row["tid"] is not None]
    parents = [pick.id for pick in chosen if not pick.silence]
    return Surroundings(
        requests_below(case, parents),
        _by(case.rows(queries.around(windows, REACH_NS, NEIGHBOURS_MAX)), "around_id") if windows else {},
        _by(case.rows(queries.gaps_around(windows)), "around_id") if windows else {},
    )


def requests_below(case: Case, parents: list[int]) -> dict[int, list[Row]]:
    """The operations below each of `parents`, in order of start; a call of a program, or of its server, is followed by its own requests,
    with `depth` 1."""
    if not parents:
        return {}
    first = _by(case.rows(queries.requests(parents)), "parent_id")
    drawn = [row for rows in first.values() for row in rows[:REQUESTS_MAX]]
    calls = sorted({whole(row["op_id"]) for row in drawn if row["layer"] == "syscall"})
    below = _by(case.rows(queries.requests(calls)), "parent_id") if calls else {}
    return {
        parent: [each for row in rows for each in ({**row, "depth": 0}, *_deeper(below, row))]
        for parent, rows in first.items()
    }


def _deeper(below: dict[int, list[Row]], call: Row) -> list[Row]:
    return [{**row, "depth": 1} for row in below.get(whole(call["op_id"]), [])]


def without_repeats(chosen: list[Pick], near: Surroundings) -> list[Pick]:
    """Leaves out requests that are drawn below another pick already."""
    shown = {whole(row["op_id"]) for rows in near.requests.values() for row in rows}
    return [pick for pick in chosen if pick.id not in shown]


def waterfalls(case: Case, chosen: list[Pick], near: Surroundings) -> list[dict[str, Any]]:
    """The lines of each picked operation, times relative to its start."""
    return [_fall(case, pick, near) for pick in chosen]


def rows_drawn(chosen: list[Pick], near: Surroundings) -> list[Row]:
    """Every operation of the waterfalls."""
    rows = [{**pick.row, "layer": pick.layer} for pick in chosen if not pick.silence]
    for related in (near.requests, near.around):
        rows += [row for pick in chosen for row in related.get(pick.id, [])]
    return rows


def _by(rows: list[Row], key: str) -> dict[int, list[Row]]:
    grouped: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[whole(row[key])].append(row)
    return grouped


def _fall(case: Case, pick: Pick, near: Surroundings) -> dict[str, Any]:
    zero = pick.start_ns
    requests, gaps = near.requests.get(pick.id, []), near.gaps.get(pick.id, [])
    lines = [] if pick.silence else [_operation(case, pick)]
    lines += [_request(case, row, zero) for row in requests[:REQUESTS_MAX]]
    if len(requests) > REQUESTS_MAX:
        lines.append({"label": f"… {len(requests) - REQUESTS_MAX} more requests", "bars": []})
    if gaps:
        lines.append(
            {
                "label": f"{silence(gaps[0])} of {thread(pick.row)}",
                "bars": [_silence(row, zero) for row in gaps],
            }
        )
    lines += _lanes(near.around.get(pick.id, []), zero)
    margin = max(1, int(pick.length_ns * MARGIN))
    return {"from_ns": -margin, "to_ns": pick.length_ns + margin, "latency_ns": pick.length_ns, "rows": lines}


def _lanes(around: list[Row], zero: int) -> list[Line]:
    """Neighbours packed into as few thin lines as they need, in order of start."""
    lanes: list[list[Row]] = []
    left_out = whole(around[0]["neighbours"]) - len(around) if around else 0
    for row in around:
        free = next((lane for lane in lanes if _end(lane[-1]) <= whole(row["start_ns"])), None)
        if free is not None:
            free.append(row)
        elif len(lanes) < LANES_MAX:
            lanes.append([row])
        else:
            left_out += 1
    labels = [f"beside it, {thread(around[0])}" if around else ""]
    if left_out > 0:
        labels.append(f"({words.count(left_out)} shorter not drawn)")
    named = labels + [""] * len(lanes)
    return [
        {"label": name, "lane": [_neighbour(row, zero) for row in lane]}
        for name, lane in zip(named, lanes, strict=False)
    ]


def _end(row: Row) -> int:
    return whole(row["start_ns"]) + whole(row["latency_ns"])


def _operation(case: Case, pick: Pick) -> Line:
    row = pick.row
    bars = _stages(case, pick.layer, row, 0)
    return {"label": f"{pick.layer}: {what(row)}", "bars": bars, "op_id": str(row["op_id"])}


def _request(case: Case, row: Row, zero: int) -> Line:
    layer = str(row["layer"])
    merged = "merged, " if row["kind"] == "merged" else ""
    label = f"{'– ' * whole(row['depth'])}{lower(row)}: {merged}{what(row)}"
    bars = _stages(case, layer, row, whole(row["start_ns"]) - zero)
    if row["kind"] == "merged" and bars:
        note = f"\nmerged: {words.size(whole(row['bytes']))} of this request are the operation's"
        bars = [{**bar, "text": bar["text"] + note} for bar in bars]
    return {"label": label, "bars": bars, "op_id": str(row["op_id"])}


def _stages(case: Case, layer: str, row: Row, start_ns: int) -> list[Bar]:
    """One bar per stage, in the order an operation passes them; one plain bar where none was observed."""
    total = max(1, whole(row["latency_ns"]))
    bars: list[Bar] = []
    at = start_ns
    for stage in views.STAGES:
        length = whole(row[f"{stage}_ns"])
        if length > 0:
            name = case.stage_name(layer, stage)
            text = f"{name}: {words.duration(length)}, {units.share(length / total)} of the {layer} latency"
            text += f"\nbegins at {words.duration(at)}\n{_about(row)}"
            bars.append(_bar(at, length, f"stage-{stage}", text))
            at += length
    if at < start_ns + whole(row["latency_ns"]):
        rest = start_ns + whole(row["latency_ns"]) - at
        bars.append(
            _bar(at, rest, "stage-unknown", f"stages not observed: {words.duration(rest)}\n{_about(row)}")
        )
    return bars or [_bar(start_ns, 0, "stage-unknown", f"0 ns\n{_about(row)}")]


def _silence(row: Row, zero: int) -> Bar:
    length = whole(row["duration_ns"])
    text = f"nothing in flight for {words.duration(length)}\nthread state: {row['state']}\n" + (
        "its thread had work" if row["meant_busy"] else "whether its thread had work is not known"
    )
    return {**_bar(whole(row["start_ns"]) - zero, length, "gap", text), "hatch": True}


def _neighbour(row: Row, zero: int) -> list[Any]:
    """Start, then time before, in and after the kernel, kind, what, id: the script writes the rest."""
    before, after = whole(row["app_ns"]), whole(row["reap_ns"])
    inside = whole(row["latency_ns"]) - before - after
    return [whole(row["start_ns"]) - zero, before, inside, after, row["op"], what(row), str(row["op_id"])]


def _bar(start_ns: int, length_ns: int, color: str, text: str) -> Bar:
    return {"start_ns": start_ns, "length_ns": length_ns, "color": color, "text": text}


def what(row: Row) -> str:
    """'read 4 KiB'."""
    return f"{row['op']} {words.size(whole(row['size_bytes']))}" if row["size_bytes"] else str(row["op"])


def lower(row: Row) -> str:
    """What an operation below another one is of: a device's, or some program's call."""
    if row["layer"] == "block":
        return str(row["device"] or "block")
    return f"call of {row['comm']}" if row["layer"] == "syscall" and row["comm"] else str(row["layer"])


def silence(row: Row) -> str:
    """What to call a row of `gaps`."""
    return "silence" if row["meant_busy"] else "presumed silence"


def thread(row: Row) -> str:
    """'worker-0 (1234)', as far as it is known."""
    name, tid = row.get("comm"), row.get("tid")
    return f"{name or 'thread'} ({tid})" if tid is not None else str(name or "unknown thread")


def where(row: Row) -> str:
    """Device or file and offset, as far as they are known."""
    place = row.get("device") or row.get("file") or ""
    offset = row.get("offset_bytes")
    return f"{place} at byte {offset:,}".strip() if isinstance(offset, int) else str(place)


def _about(row: Row) -> str:
    parts = [what(row), where(row), thread(row)]
    if row["queue_depth"] is not None:
        parts.append(f"queue depth {row['queue_depth']}")
    if whole(row["error"]):
        parts.append(f"errno {row['error']}")
    if row["open"]:
        parts.append("unfinished: the latency is a lower bound")
    return ", ".join(part for part in parts if part)
