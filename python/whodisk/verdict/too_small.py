"""Causes too small to have produced the loss, rejected in words.

A load that is bound by latency loses as much throughput as its requests get slower on average, and any other load loses less. So an average that
rises by a fifth cannot have halved the throughput: either a few devices that others wait for did, or something else (mystery 4).
"""

from __future__ import annotations

from whodisk import words
from whodisk.detectors.thresholds import LOSS_MIN, TOO_SMALL_MAX
from whodisk.evidence.context import Context
from whodisk.evidence.survey import Survey, survey_layer
from whodisk.findings import Finding
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import Case


def rejected(context: Context, claims: list[Finding]) -> list[str]:
    """Averages over all drives that are too small for what was lost; `claims` are all findings, consequences among them."""
    return _against(context) or _of_some_drives(context, claims)


def most_lost(slow_ns: float, usual_ns: float) -> float:
    """The part of the throughput that a load bound by latency loses when its requests take this long, and not as long as usual: 0 to 1."""
    return max(0.0, 1.0 - usual_ns / slow_ns) if slow_ns > 0 else 0.0


def _against(context: Context) -> list[str]:
    """The average of all requests to drives against that of the case that it is compared with."""
    other, survey = context.against, context.against_survey
    if other is None or survey is None or context.case.offered_per_s or other.offered_per_s:
        return []
    if "block" not in context.surveys or "block" not in other.layers:
        return []
    lost = 1.0 - _rate(context.survey) / max(1e-9, _rate(survey))
    here_ns = _mean_ns(context.surveys["block"], _drives(context.case, context.surveys["block"]))
    below = survey_layer(other, "block")
    there_ns = _mean_ns(below, _drives(other, below))
    if lost < LOSS_MIN or not there_ns or not here_ns > there_ns:
        return []
    most = most_lost(here_ns, there_ns)
    if most > TOO_SMALL_MAX * lost:
        return []
    return [
        f"That requests to drives take {words.duration(here_ns - there_ns)} longer on average than in {other.name} "
        f"({words.duration(here_ns)}, not {words.duration(there_ns)}) cannot have cost {words.percent(lost)} of the throughput: even a "
        f"load bound by latency would lose {words.percent(most)} by it. Look at single drives, and at what waits for several of them."
    ]


def _of_some_drives(context: Context, claims: list[Finding]) -> list[str]:
    """The average of all requests to drives against that of the drives that nobody accuses."""
    block = context.surveys.get("block")
    if block is None or context.layer == "block" or context.keeps_rate:
        return []
    drives = _drives(context.case, block)
    names = {claim.culprit.name for claim in claims if claim.culprit.kind == "device"}
    names |= {(claim.culprit.because_of or "").removeprefix("device:") for claim in claims}
    slow = [drive for drive in drives if drive in names]
    usual = [drive for drive in drives if drive not in names]
    # Where half of the drives are accused, the others are no measure.
    if not slow or len(slow) >= len(usual):
        return []
    lost = max((claim.share_of_latency for claim in claims), default=0.0)
    here_ns, usual_ns = _mean_ns(block, drives), _mean_ns(block, usual)
    if lost < LOSS_MIN or not usual_ns or not here_ns > usual_ns:
        return []
    most = most_lost(here_ns, usual_ns)
    if most > TOO_SMALL_MAX * lost:
        return []
    which = slow[0] if len(slow) == 1 else f"{len(slow)} of {len(drives)} drives"
    return [
        f"The average over all {len(drives)} drives is not the cause: because of {which} it is {words.duration(here_ns - usual_ns)} higher "
        f"({words.duration(here_ns)}, not {words.duration(usual_ns)}), which would cost even a load bound by latency {words.percent(most)} of its "
        f"throughput, and operations lost {words.percent(lost)}: they wait for the slowest of several drives."
    ]


def _drives(case: Case, survey: Survey) -> list[str]:
    """Devices that are not made of others."""
    volumes = volumes_of(case)
    return sorted({s.device for s in survey.strata if s.device} - volumes)


def _mean_ns(survey: Survey, devices: list[str]) -> float:
    strata = [stratum for stratum in survey.strata if stratum.device in devices]
    weight = sum(stratum.weight for stratum in strata)
    return sum(stratum.latency_ns for stratum in strata) / weight if weight else 0.0


def _rate(survey: Survey) -> float:
    return sum(stratum.weight for stratum in survey.strata) / (survey.span_ns / 1e9)
