"""The operations that made a flight recorder write a case: which rows of it they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whodisk.evidence.thresholds import FIRED_NEAR_NS, LINK_LEVELS
from whodisk.reading.views import Case


@dataclass(frozen=True)
class Fired:
    """What triggered, as the recorder noted it (`fired` in case.json)."""

    #: As it was given: `latency > 50ms`.
    trigger: str
    limit_ns: float
    #: How long it took, or how old it was, ns.
    time_ns: float
    #: Since the case's start, ns.
    start_ns: float
    layer: str
    op: str
    device: str
    tid: int
    comm: str


@dataclass(frozen=True)
class Found:
    """An operation that triggered, as a row of the case: `layer` is the judged one where an operation there waited for it."""

    fired: Fired
    layer: str
    op_id: int


def fired_of(case: Case) -> list[Fired]:
    """What triggered, the first one first; empty for any other case, and for cases of earlier versions."""
    told = case.meta.get("fired")
    return [_fired(item) for item in told if isinstance(item, dict)] if isinstance(told, list) else []


def _fired(item: Mapping[str, object]) -> Fired:
    def number(name: str) -> float:
        value = item.get(name)
        return float(value) if isinstance(value, (int, float)) else 0.0

    def text(name: str) -> str:
        return str(item.get(name) or "")

    return Fired(
        trigger=text("trigger"),
        limit_ns=number("limit_ns"),
        time_ns=number("time_ns"),
        start_ns=number("start_ns"),
        layer=text("layer"),
        op=text("op"),
        device=text("device"),
        tid=int(number("tid")),
        comm=text("comm"),
    )


def find_fired(case: Case, judged: str) -> list[Found]:
    """The rows of what triggered; one that is not in the case is left out.

    A request belongs to the operation of the layer `judged` that waited for it, if there is one.
    """
    found: list[Found] = []
    for fired in fired_of(case):
        if f"ops/{fired.layer}" not in case.columns:
            continue
        rows = case.rows(row_sql(fired))
        if not rows:
            continue
        op_id = int(rows[0]["op_id"] or 0)
        above = case.rows(above_sql(op_id, judged)) if fired.layer != judged else []
        one = Found(
            fired,
            judged if above or fired.layer == judged else fired.layer,
            int(above[0]["op_id"] or 0) if above else op_id,
        )
        if all((one.layer, one.op_id) != (other.layer, other.op_id) for other in found):
            found.append(one)
    return found


def row_sql(fired: Fired) -> str:
    """The operation that was in flight all that time, of that thread if possible.

    The recorder saw it begin when it came to the device's queue; in the case it may begin earlier.
    """
    low, high = int(fired.start_ns + FIRED_NEAR_NS), int(fired.start_ns + fired.time_ns - FIRED_NEAR_NS)
    return f"""SELECT op_id FROM judged WHERE layer = '{fired.layer}' AND start_ns <= {low} AND start_ns + latency_ns >= {high}
ORDER BY coalesce(tid, -1) <> {fired.tid}, abs(start_ns - {int(fired.start_ns)}), op_id LIMIT 1"""


def above_sql(op_id: int, layer: str) -> str:
    """Operations of a layer that waited for this one, however many links up; the longest first."""
    steps = [f"level_1 AS (SELECT parent_id FROM links WHERE child_id = {op_id} AND kind <> 'carries')"]
    for level in range(2, LINK_LEVELS + 1):
        steps.append(
            f"level_{level} AS (SELECT l.parent_id FROM links AS l JOIN level_{level - 1} AS b ON l.child_id = b.parent_id "
            "WHERE l.kind <> 'carries')"
        )
    every = " UNION ".join(f"SELECT parent_id FROM level_{level + 1}" for level in range(LINK_LEVELS))
    return f"""WITH {", ".join(steps)} SELECT op_id FROM judged JOIN ({every}) AS above ON parent_id = op_id
WHERE layer = '{layer}' ORDER BY latency_ns DESC, op_id LIMIT 1"""
