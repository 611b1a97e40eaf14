"""The score as tables: real cases first, simulated ones apart."""

from __future__ import annotations

from whodisk.scoring.score import EFFECT_STEPS, Outcome, Score, total


def markdown(outcomes: list[Outcome]) -> str:
    """Tables for people: real cases first, simulated ones apart."""
    parts = []
    for title, simulated in (("Real cases", False), ("Simulated cases", True)):
        chosen = [outcome for outcome in outcomes if outcome.simulated == simulated]
        if chosen:
            parts.append(f"## {title}\n\n{_table(chosen)}")
    return "\n".join(parts)


def _table(outcomes: list[Outcome]) -> str:
    rows = [
        "| cases | number | first finding right | of effects of 1.5 and more (95 % bound) | among three | precision | recall | MCC | false alarms (95 % bound) | "
        "too small to count, but named | intervals that cover | seconds, median (max) |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = sorted({outcome.group for outcome in outcomes})
    for group in groups:
        rows.append(_row(group or "-", total(o for o in outcomes if o.group == group)))
    whole = total(outcomes)
    if len(groups) > 1:
        rows.append(_row("all", whole))
    lines = "\n".join(rows) + "\n"
    if whole.by_effect:
        lines += "\n| fault | times worse | found first | cases |\n|---|---|---|---|\n"
        for (fault, step), (found, cases) in sorted(whole.by_effect.items()):
            lines += f"| {fault} | {_range(step)} | {found} | {cases} |\n"
    wrong = [
        o
        for o in outcomes
        if o.error
        or (
            not o.too_much_lost
            and ((o.healthy and o.found and not o.small) or (not o.healthy and o.rank != 1))
        )
    ]
    if wrong:
        lines += "\nWrong:\n\n"
        for outcome in wrong[:40]:
            said = "; ".join(f"{n.kind} {n.name}" for n in outcome.found[:3]) or "nobody accused"
            true = "; ".join(f"{n.kind} {n.name}" for n in outcome.truth[:3]) or "healthy"
            lines += f"- {outcome.case}: {outcome.error or f'{true}; said: {said}'}\n"
    return lines


def _range(step: float) -> str:
    if step == EFFECT_STEPS[0]:
        return f"below {EFFECT_STEPS[1]:g}, but operations stand apart"
    following = [s for s in EFFECT_STEPS if s > step]
    return f"{step:g} to {following[0]:g}" if following else f"{step:g} and more"


def _row(name: str, score: Score) -> str:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    seconds = sorted(score.seconds)
    bound, least = score.false_alarm_bound, score.large_bound
    alarms = f"{score.false_alarms} of {score.healthy} ({bound:.1%})" if bound is not None else "-"
    covered = f"{score.covered} of {score.intervals}" if score.intervals else "-"
    large = f"{score.large_top1} of {score.large}" + (f" ({least:.1%})" if least is not None else "")
    errors = f" ({score.errors} errors)" if score.errors else ""
    errors += f" ({score.declined} declined)" if score.declined else ""
    errors += f" ({score.too_much_lost} not scored: too much was lost)" if score.too_much_lost else ""
    return (
        f"| {name} | {score.cases}{errors} | {score.top1} of {score.faulty} | "
        f"{large} | {score.top3} of {score.faulty} | "
        f"{shown(score.precision)} | {shown(score.recall)} | {shown(score.mcc)} | {alarms} | {score.small} | {covered} | "
        f"{seconds[len(seconds) // 2]:.2f} ({seconds[-1]:.2f}) |"
    )
