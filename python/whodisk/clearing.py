"""What is innocent: stages and devices that cannot have held the slow operations' excess."""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.copies import FIRST_COPY
from whodisk.detectors.base import Context
from whodisk.findings import Cleared, Finding
from whodisk.stats import Bools, cleared_quantile
from whodisk.survey import Survey
from whodisk.views import STAGES, quoted

CONFIDENCE = 0.95
#: Fewer operations than this clear nothing.
OPERATIONS_MIN = 300
#: Something may be cleared although some of its operations were slow, if they are this few compared
#: with the slow operations that are to be explained.
FEW = 0.05
#: With exceptions, clearing means at least this quantile.
QUANTILE_MIN = 0.999


def clear(context: Context, findings: list[Finding], slow_excess_ns: float | None) -> list[Cleared]:
    """Stages of the judged layer and devices of the block layer that are not to blame.

    `slow_excess_ns` is the median excess of the operations that the findings explain: something whose
    operations never came near half of it cannot be their cause. Without findings everything is
    stated with the largest value seen.
    """
    resolution = words.duration(context.case.resolution_ns)
    blamed_stages = {f.culprit.name for f in findings if f.culprit.kind == "stage"}
    cleared = _devices(context, findings, slow_excess_ns, resolution)
    if findings:
        cleared += _stages(context, blamed_stages, slow_excess_ns, resolution)
    return cleared


def _stages(
    context: Context, blamed: set[str], slow_excess_ns: float | None, resolution: str
) -> list[Cleared]:
    survey = context.survey
    found = []
    for number, stage in enumerate(STAGES):
        name = context.stage(stage)
        worst_ns = max(float(s.stage_max_ns[number]) for s in survey.strata)
        # A stage that nobody ever spent time in (`app` of a closed loop) need not be cleared.
        if stage not in survey.stages_observed or name in blamed or stage == "unknown" or worst_ns <= 0:
            continue
        item = _bounded(
            context, f"stage:{name}", f"{stage}_ns", survey, None, worst_ns, slow_excess_ns, resolution
        )
        if item is not None:
            found.append(item)
    return found


def _devices(
    context: Context, findings: list[Finding], slow_excess_ns: float | None, resolution: str
) -> list[Cleared]:
    survey = context.surveys.get("block")
    if survey is None:
        return []
    # Without a device's name in the finding every device that was in use may be meant.
    unnamed = any(
        f.culprit.kind == "stage" and not f.culprit.because_of and _below(f.culprit.name) for f in findings
    )
    guilty = {
        (f.culprit.because_of or "").removeprefix("device:")
        for f in findings
        if f.culprit.kind == "stage" and _below(f.culprit.name)
    }
    found = []
    for device in sorted({s.device for s in survey.strata if s.device}):
        strata = survey.select(device)
        if unnamed or device in guilty:
            continue
        worst_ns = float(max(s.latency_max_ns for s in strata))
        item = _bounded(
            context, f"device:{device}", "latency_ns", survey, device, worst_ns, slow_excess_ns, resolution
        )
        if item is not None:
            found.append(item)
    return found


def _below(stage: str) -> bool:
    """Whether a printed stage name covers something at or below the block layer."""
    return bool({"queue", "device", "interrupt", "throttle", "unknown"}.intersection(stage.split("+")))


def _bounded(
    context: Context,
    what: str,
    column: str,
    survey: Survey,
    device: str | None,
    worst_ns: float,
    slow_excess_ns: float | None,
    resolution: str,
) -> Cleared | None:
    strata = survey.select(device)
    # What was left out of a sample clears nothing.
    seen = sum(s.seen for s in strata)
    if seen < OPERATIONS_MIN:
        return None
    noun = "request" if survey.layer == "block" else "operation"
    verb = "took over" if column == "latency_ns" else "spent over"
    if slow_excess_ns is None or worst_ns <= 0.5 * slow_excess_ns:
        shown_ns = max(worst_ns, 1.0)
        bound = f"no {noun} {verb} {words.duration(shown_ns)}"
        exceeding = 0
    else:
        limit_ns = round(0.5 * slow_excess_ns)
        exceeding = _exceeding(context, survey.layer, column, device, limit_ns)
        if exceeding > max(1.0, FEW * len(context.slow)):
            return None
        bound = f"{words.things(exceeding, noun)} {verb} {words.duration(limit_ns)}"
    if column != "latency_ns":
        bound += " there"
    quantile = cleared_quantile(seen, exceeding, CONFIDENCE)
    if exceeding and quantile < QUANTILE_MIN:
        return None
    operations = sum(s.operations for s in strata)
    among = words.count(seen) + (f" recorded of about {words.count(operations)}" if seen < operations else "")
    return Cleared(what, f"{bound} in {among}", quantile, CONFIDENCE, resolution)


def _exceeding(context: Context, layer: str, column: str, device: str | None, limit_ns: int) -> int:
    where = "" if device is None else f" AND device = {quoted(device)}"
    if layer in context.case.copied:
        where += f" AND {FIRST_COPY}"
    rows = context.case.rows(
        f"SELECT count(*) AS n FROM measured WHERE layer = '{layer}' AND {column} > {limit_ns}{where}"
    )
    return int(rows[0]["n"] or 0)


def median_excess_ns(context: Context, explained: Bools) -> float | None:
    """Median latency beyond typical of some slow operations, ns; None without any."""
    slow = context.slow
    if len(slow) == 0 or not explained.any():
        return None
    return float(np.median((slow.latency_ns - slow.typical_ns)[explained]))
