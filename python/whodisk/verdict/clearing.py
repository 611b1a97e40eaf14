"""What is innocent: stages and devices that cannot have held the slow operations' excess.

A stage is bounded by the time in that stage, and a device by the time that requests spent in it: what waited in front of a device says nothing
of it. The unit is the block of time, not the operation (DESIGN 8): operations that are in flight together are slow together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.thresholds import (
    CLEARED_BLOCK_NS_MIN,
    CLEARED_BLOCK_TIMES,
    CLEARED_CONFIDENCE,
    CLEARED_FEW,
    CLEARED_OPERATIONS_MIN,
    CLEARED_QUANTILE_LEAST,
    CLEARED_QUANTILE_MIN,
    VOLUME_BINDS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.survey import Stratum, Survey, thinned
from whodisk.findings import Cleared, Finding
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import STAGES, quoted
from whodisk.reading.weighted_rows import FIRST_COPY
from whodisk.statistics.stats import Bools, Ints, cleared_quantile

#: Stages of a request in which its device has it; before them it waits in the host.
_IN_DEVICE = frozenset({"device", "interrupt", "unknown"})


@dataclass(frozen=True)
class _Suspect:
    """Something that may be cleared by the largest time spent in it."""

    what: str
    #: Column of the layer's operations, ns.
    column: str
    device: str | None
    worst_ns: float


def clear(
    context: Context,
    claims: list[Finding],
    slow_excess_ns: float | None,
    limiting: frozenset[str],
    cost: float | None = None,
) -> list[Cleared]:
    """Stages of the judged layer and devices of the block layer that are not to blame.

    `slow_excess_ns` is the median excess of the operations that the findings explain: something with
    operations that never came near half of it cannot be their cause. Without findings everything is
    stated with the largest value seen. Findings on sums explain no operations by themselves: then a stage that
    holds half of what one of them costs, or more, may be where that is lost (`cost`: the least of these, in parts
    of all latency; None: all that is lost is lost between operations). `claims` are all findings, also the consequences of another: nothing is cleared that
    one of them names.
    """
    named = _named(claims)
    cleared = _bounded(
        context, context.surveys.get("block"), _devices(context, claims, named, limiting), slow_excess_ns
    )
    if claims:
        suspects = _stages(context, named)
        if slow_excess_ns is None and cost is not None:
            suspects = [suspect for suspect in suspects if 2 * _held(context, suspect.column) < cost]
        cleared += _bounded(context, context.survey, suspects, slow_excess_ns)
    return cleared


def _named(claims: list[Finding]) -> set[str]:
    """Everything that findings accuse, or that they say is how: `stage:device`, `device:sda`; of merged stages each."""
    named: set[str] = set()
    for culprit in (finding.culprit for finding in claims):
        if culprit.kind == "stage":
            named.update(f"stage:{stage}" for stage in (culprit.name, *culprit.name.split("+")))
        else:
            named.add(f"{culprit.kind}:{culprit.name}")
        if culprit.kind == "device":
            # What is slow in a device is slow in the stage in which it has requests.
            named.add("stage:device")
        because = culprit.because_of or ""
        # Requests that wait for a device in front of it do not accuse it: its own time decides.
        if (
            culprit.kind != "stage"
            or not _IN_DEVICE.isdisjoint(culprit.name.split("+"))
            or not because.startswith("device:")
        ):
            named.add(because)
    return named


def _stages(context: Context, named: set[str]) -> list[_Suspect]:
    survey = context.survey
    found = []
    for number, stage in enumerate(STAGES):
        name = context.stage(stage)
        worst_ns = max(float(s.stage_max_ns[number]) for s in survey.strata)
        # A stage that nobody ever spent time in (`app` of a closed loop) need not be cleared.
        if stage not in survey.stages_observed or stage == "unknown" or worst_ns <= 0:
            continue
        if named.isdisjoint({f"stage:{name}", f"stage:{stage}"}):
            found.append(_Suspect(f"stage:{name}", f"{stage}_ns", None, worst_ns))
    return found


def _held(context: Context, column: str) -> float:
    """Part of the time of all operations that they spent in a stage, by its column."""
    number = STAGES.index(column.removesuffix("_ns"))
    held_ns = sum(float(s.stage_ns[number]) for s in context.survey.strata)
    return held_ns / max(1.0, context.survey.latency_ns)


def _devices(
    context: Context, findings: list[Finding], named: set[str], limiting: frozenset[str]
) -> list[_Suspect]:
    survey = context.surveys.get("block")
    if survey is None:
        return []
    own_time = "device" in survey.stages_observed
    # Without a device's name in the finding every device that was in use may be meant.
    below = _IN_DEVICE if own_time else _IN_DEVICE | {"queue", "throttle"}
    unnamed = any(
        f.culprit.kind == "stage"
        and not f.culprit.because_of
        and not below.isdisjoint(f.culprit.name.split("+"))
        for f in findings
    )
    in_front = {f.culprit.because_of for f in findings} if not own_time else set()
    volumes = volumes_of(context.case)
    found = []
    for device in sorted({s.device for s in survey.strata if s.device}):
        strata = survey.select(device)
        if unnamed or device in limiting or f"device:{device}" in named | in_front:
            continue
        # What a volume does itself is in its stage fs: its time at the device is that of its members.
        if device in volumes and _own_share(strata) >= VOLUME_BINDS_MIN:
            continue
        if own_time:
            worst_ns = max(float(s.stage_max_ns[STAGES.index("device")]) for s in strata)
        else:
            worst_ns = float(max(s.latency_max_ns for s in strata))
        column = "device_ns" if own_time else "latency_ns"
        found.append(_Suspect(f"device:{device}", column, device, worst_ns))
    return found


def _own_share(strata: Sequence[Stratum]) -> float:
    """The part of its requests' time that passes in a volume itself."""
    own_ns = sum(float(s.stage_ns[STAGES.index("fs")]) for s in strata)
    return own_ns / max(1.0, sum(s.latency_ns for s in strata))


def _bounded(
    context: Context, survey: Survey | None, suspects: list[_Suspect], slow_excess_ns: float | None
) -> list[Cleared]:
    """Those of the suspects that their operations clear."""
    if survey is None or not suspects:
        return []
    # What was left out of a sample clears nothing.
    counted = [(suspect, sum(s.seen for s in survey.select(suspect.device))) for suspect in suspects]
    enough = [(suspect, number) for suspect, number in counted if number >= CLEARED_OPERATIONS_MIN]
    bounds = [_bound_ns(suspect, slow_excess_ns) for suspect, _ in enough]
    blocks = _blocks(context, survey, [suspect for suspect, _ in enough], bounds)
    cleared = []
    for (suspect, number), bound_ns, (block_ns, used) in zip(enough, bounds, blocks, strict=True):
        exceeding, exceeding_blocks = 0, 0
        if suspect.worst_ns > bound_ns:
            exceeding, exceeding_blocks = _exceeding(context, survey.layer, suspect, bound_ns, block_ns)
        if exceeding > max(1.0, CLEARED_FEW * len(context.slow)):
            continue
        quantile = cleared_quantile(used, exceeding_blocks, CLEARED_CONFIDENCE)
        if quantile < (CLEARED_QUANTILE_MIN if exceeding else CLEARED_QUANTILE_LEAST):
            continue
        operations = sum(s.operations for s in survey.select(suspect.device))
        noun = "request" if survey.layer == "block" else "operation"
        among = words.things(number, noun)
        if number < operations:
            among = f"{words.things(number, 'recorded ' + noun)} (of about {words.count(operations)})"
        cleared.append(
            Cleared(
                suspect.what,
                # What a coarse clock counts as a bound may have been a step more.
                _said(suspect, exceeding, bound_ns + context.case.resolution_ns - 1, among),
                quantile,
                CLEARED_CONFIDENCE,
                words.duration(context.case.resolution_ns),
                used,
                block_ns,
            )
        )
    return cleared


def _bound_ns(suspect: _Suspect, slow_excess_ns: float | None) -> int:
    """The largest value, or half of what is to be explained where that is less."""
    if slow_excess_ns is None or suspect.worst_ns <= 0.5 * slow_excess_ns:
        return max(1, round(suspect.worst_ns))
    return max(1, round(0.5 * slow_excess_ns))


def _said(suspect: _Suspect, exceeding: int, bound_ns: int, among: str) -> str:
    verb = "took over" if suspect.column == "latency_ns" else "spent over"
    where = "" if suspect.column == "latency_ns" else " in it" if suspect.device else " there"
    number = words.count(exceeding) if exceeding else "none"
    return f"{number} of {among} {verb} {words.duration(bound_ns)}{where}"


def _blocks(
    context: Context, survey: Survey, suspects: list[_Suspect], bounds: list[int]
) -> list[tuple[int, int]]:
    """Length of the blocks of each suspect, ns, and how many of them have an operation (of many operations, of a sample: that clears less)."""
    lengths = [max(CLEARED_BLOCK_NS_MIN, CLEARED_BLOCK_TIMES * bound) for bound in bounds]
    if not lengths:
        return []
    if survey is context.survey and all(suspect.device is None for suspect in suspects):
        return [(length, _used(context.sorted_start_ns, length)) for length in lengths]
    # A row per suspect, not a column: a case may have devices by the thousand.
    rows = ", ".join(
        f"({number}, {length}, {'NULL' if suspect.device is None else quoted(suspect.device)})"
        for number, (suspect, length) in enumerate(zip(suspects, lengths, strict=True))
    )
    on = "m.device = s.device" if all(suspect.device is not None for suspect in suspects) else "true"
    found = context.case.rows(
        f"""SELECT s.number, count(DISTINCT m.start_ns // s.length_ns) AS n
FROM (VALUES {rows}) AS s (number, length_ns, device) JOIN measured AS m ON {on}
WHERE m.layer = '{survey.layer}' AND {thinned(survey.operations)} GROUP BY s.number"""
    )
    used = {int(row["number"] or 0): int(row["n"] or 0) for row in found}
    return [(length, used.get(number, 0)) for number, length in enumerate(lengths)]


def _used(start_ns: Ints, length_ns: int) -> int:
    """How many blocks of that length have an operation; these are in order of their start."""
    if not len(start_ns):
        return 0
    first, last = int(start_ns[0]) // length_ns, int(start_ns[-1]) // length_ns
    if last - first < len(start_ns) // 8:
        # Fewer blocks than operations: look for the edges, and divide none.
        edges = np.arange(first, last + 2, dtype=np.int64) * length_ns
        return int(np.count_nonzero(np.diff(np.searchsorted(start_ns, edges))))
    return int(np.count_nonzero(np.diff(start_ns // length_ns))) + 1


def _of(suspect: _Suspect, text: str) -> str:
    return "" if suspect.device is None else text.format(quoted(suspect.device))


def _exceeding(
    context: Context, layer: str, suspect: _Suspect, limit_ns: int, block_ns: int
) -> tuple[int, int]:
    """Operations beyond a limit, and the blocks of time in which they began."""
    where = _of(suspect, " AND device = {}")
    if layer in context.case.copied:
        where += f" AND {FIRST_COPY}"
    source = context.case.judged_above(layer, limit_ns)
    row = context.case.rows(
        f"""SELECT count(*) AS n, count(DISTINCT start_ns // {block_ns}) AS blocks FROM {source}
WHERE layer = '{layer}' AND NOT open AND {suspect.column} > {limit_ns}{where}"""
    )[0]
    return int(row["n"] or 0), int(row["blocks"] or 0)


def median_excess_ns(context: Context, explained: Bools) -> float | None:
    """Median latency beyond typical of some slow operations, ns; None without any."""
    slow = context.slow
    if len(slow) == 0 or not explained.any():
        return None
    return float(np.median((slow.latency_ns - slow.typical_ns)[explained]))
