"""What a verdict cannot exclude, and why: what was lost, not observed, or belongs to no stage."""

from __future__ import annotations

from whodisk import words
from whodisk.detectors.thresholds import CAVEAT_LEVELS_TOLD, CAVEAT_UNKNOWN_MIN
from whodisk.evidence.context import Context
from whodisk.findings import Caveat
from whodisk.reading.losses import Missing
from whodisk.reading.views import STAGES, Case


def caveats_of(context: Context, has_baseline: bool) -> list[Caveat]:
    """What cannot be excluded, what matters most for this case first."""
    not_seen = unseen(context.case)
    # Without requests hardly anything below the program is known; what another tool logged is not seen first of all where its log lacks it.
    is_lacking = "block" not in context.case.layers or context.case.is_imported
    first = not_seen if is_lacking else []
    caveats = losses(context.case) + _unknown(context) + _open(context) + _engine(context)
    caveats += _sampled(context) + _unseen_submitter(context) + _other_logs(context) + first
    if not has_baseline:
        caveats.append(
            Caveat(
                "a fault that slows every operation alike",
                "this case has nothing to compare with; give an earlier case (--against) or what you expect "
                "(--expect)",
            )
        )
    return caveats if first else caveats + not_seen


def _other_logs(context: Context) -> list[Caveat]:
    """Operations that other imported logs hold, and that are not tied to the judged ones."""
    if not context.case.is_imported:
        return []
    others = [layer for layer in ("app", "syscall") if layer != context.layer and layer in context.surveys]
    return [
        Caveat(
            f"what is slow among {words.things(context.surveys[layer].operations, 'operation')} of layer {layer}",
            f"the verdict is of layer {context.layer}; import the log of the others by itself, too",
        )
        for layer in others
        if not context.case.rows(
            f"SELECT 1 AS one FROM links JOIN {layer}_ops AS o ON o.op_id IN (links.parent_id, links.child_id) LIMIT 1"
        )
    ]


def unseen(case: Case, *, keys: tuple[str, ...] = ("not_observed", "not_carried")) -> list[Caveat]:
    return [
        Caveat(str(item.get("what")), str(item.get("because")))
        for key in keys
        for item in case.meta.get(key) or []
        if isinstance(item, dict)
    ]


def _engine(context: Context) -> list[Caveat]:
    """What our own engine doubts about its run."""
    workload = context.case.meta.get("workload")
    if not isinstance(workload, dict):
        return []
    caveats = [Caveat("an artefact of the engine", str(text)) for text in workload.get("warnings") or []]
    stalls_ns = workload.get("log_stalls_ns")
    if isinstance(stalls_ns, int) and stalls_ns > 0:
        caveats.append(
            Caveat(
                "silences made by the recording itself",
                f"workers waited {words.duration(stalls_ns)} in all for their own log",
            )
        )
    return caveats


def lost_of(missing: list[Missing]) -> list[Caveat]:
    """Layers of which operations are missing: nothing can be said where it is too much, else nothing of these."""
    return [
        Caveat(
            f"anything that only the layer {layer.layer} shows"
            if layer.is_too_much
            else f"anything that only the missing operations of the layer {layer.layer} show",
            f"{words.count(layer.lost)} of {words.count(layer.lost + layer.there)} operations of it "
            f"({words.percent(layer.share)}) were lost ({', '.join(layer.reasons)})",
        )
        for layer in missing
    ]


def losses(case: Case) -> list[Caveat]:
    """What probes lost, and when."""
    rows = case.rows(
        """SELECT probe, reason, sum(lost) AS lost, count(*) AS n, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM losses GROUP BY probe, reason ORDER BY probe, reason"""
    )
    caveats = []
    for row in rows:
        lost = row["lost"]
        number = (
            words.things(float(lost), "event")
            if isinstance(lost, (int, float))
            else "an unknown number of events"
        )
        between = f"{float(row['start_ns'] or 0) / 1e9:.1f} s and {float(row['end_ns'] or 0) / 1e9:.1f} s"
        caveats.append(
            Caveat(
                "something in the moments that were lost",
                f"{number} of {row['probe']} {'was' if lost == 1 else 'were'} lost between {between} ({row['reason']})",
            )
        )
    return caveats


def _sampled(context: Context) -> list[Caveat]:
    """From when on which part of typical operations was kept, and what that makes of the numbers."""
    case, survey = context.case, context.survey
    levels = [
        level for level in (case.meta.get("sampling") or {}).get("levels") or [] if isinstance(level, dict)
    ]
    if not levels and not case.copied:
        return []
    told = [f"1 in {level['one_in']} from {float(level['start_ns']) / 1e9:.1f} s on" for level in levels]
    if len(told) > CAVEAT_LEVELS_TOLD:
        told = [*told[: CAVEAT_LEVELS_TOLD - 1], f"... and {told[-1]}"]
    parts = f" ({', '.join(told)})" if told else ""
    seen = f"{words.count(survey.seen)} of about {words.count(survey.operations)} operations judged are rows"
    return [
        Caveat(
            "what only rare combinations of typical operations show",
            f"the recorder kept to its CPU budget by a sample of typical operations{parts}: {seen}, numbers, shares and "
            "quantiles of them are estimates; slow ones were all kept",
        )
    ]


def _unknown(context: Context) -> list[Caveat]:
    survey = context.survey
    unknown = sum(float(s.stage_ns[STAGES.index("unknown")]) for s in survey.strata)
    share = unknown / max(1.0, survey.latency_ns)
    if share < CAVEAT_UNKNOWN_MIN:
        return []
    return [
        Caveat(
            "a cause inside the time that could not be attributed",
            f"{words.percent(share)} of the latency of layer {context.layer} belongs to no stage",
        )
    ]


def _unseen_submitter(context: Context) -> list[Caveat]:
    """Without the layers below, the kernel's part of an operation cannot be distinguished from a submitter's."""
    if context.layer != "app" or "block" in context.surveys:
        return []
    return [
        Caveat(
            "a stopped submitter",
            "the block layer was not observed: an operation that completed while its submitter did not run looks "
            "like one that the kernel held",
        )
    ]


def _open(context: Context) -> list[Caveat]:
    rows = context.case.rows(
        f"""SELECT count(*) AS n, max(latency_ns) AS age_ns FROM judged
WHERE open AND layer = '{context.layer}'"""
    )
    number = int(rows[0]["n"] or 0)
    if number == 0:
        return []
    age = words.duration(float(rows[0]["age_ns"] or 0))
    return [
        Caveat(
            "how long the unfinished operations took in the end",
            f"{words.things(number, 'operation')} had not ended when the recording began or ended; the oldest was "
            f"{age} old, which counts as a lower bound",
        )
    ]
