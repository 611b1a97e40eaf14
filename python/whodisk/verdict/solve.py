"""From a sealed case to a verdict."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from threading import Thread

import numpy as np

from whodisk import words
from whodisk.detectors import outliers
from whodisk.detectors.thresholds import (
    BACKLOG_FULL_MIN,
    BACKLOG_SHARE_MIN,
    VERDICT_OPERATIONS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.cpu_names import name_holders
from whodisk.evidence.expectations import Limit, check, parse
from whodisk.evidence.fired import find_fired
from whodisk.evidence.lookups import lookups_of
from whodisk.evidence.offered import keeps_rate
from whodisk.evidence.outside_calls import IN_WRITING, OutsideCalls, outside_calls
from whodisk.evidence.own_work import own_work
from whodisk.evidence.residents import residents_of
from whodisk.evidence.room import FOR_IO
from whodisk.evidence.sampled_account import account, worst_sample
from whodisk.evidence.sampled_against import sampled_against
from whodisk.evidence.sampled_expectations import sampled_expectations
from whodisk.evidence.sampled_gaps import logs_apart
from whodisk.evidence.slow_operations import empty_slow_set, find_slow
from whodisk.evidence.survey import Survey, survey_layer
from whodisk.evidence.thresholds import (
    BY_CHANCE_TOLD_MIN,
    COMMAND_SHARE,
    NEXT_TO_NO_IO_MAX,
    OWN_WORK_TOLD_MAX,
    UNDECIDED_MIN,
)
from whodisk.findings import Caveat, Expectation, Finding, Verdict
from whodisk.reading.losses import WITHOUT_END, Missing, missing_layers
from whodisk.reading.untimed import REASONS, Untimed, need_times, too_many_untimed
from whodisk.reading.views import IS_IO, STAGES, Case, quoted
from whodisk.statistics import probability
from whodisk.verdict import clearing
from whodisk.verdict.adjudicate import Heard, Judged, accuse, adjudicate, correct
from whodisk.verdict.caveats import caveats_of, losses, lost_of, unseen
from whodisk.verdict.ended import ended_said, killed_for_memory
from whodisk.verdict.failures import Failures, failures_of, turned_by_errors
from whodisk.verdict.few_operations import few_said
from whodisk.verdict.slow_only import slow_ones, slow_only
from whodisk.verdict.slowest import fired_said, is_slow, slowest_of, undecided_of
from whodisk.verdict.too_small import rejected

#: What to do about a device that reports errors.
TROUBLE_STEP = "Read the device's log (smartctl -x, nvme error-log, dmesg): its errors cost no time yet."

#: How a sentence of the summary begins that says what sets a program's speed.
SETS_SPEED = "What sets its speed: "

#: What to record where calls do not show what a program waits for.
OUTSIDE_STEP = (
    "Record all of the machine (whodisk record --duration 30s): requests to disks show what its calls do not."
)

#: The same where all of the machine was recorded.
CALLS_STEP = (
    "See what these threads call meanwhile: strace -f -T -p PID shows each call and how long it took."
)


def solve(case: Path, *, expect: list[str] | None = None, against: Path | None = None) -> Verdict:
    """Runs every detector over a sealed case.

    `expect` are expectations (`whodisk.evidence.expectations`), `against` another sealed case to compare with. Raises
    WhodiskError (ExpectationError, CaseError; NotSealedError if the case has to be sealed first).
    """
    limits = [parse(text) for text in expect or []]
    coming = probability.ahead()
    with Case(case) as opened:
        if against is None:
            verdict = _solve(opened, limits, None, coming)
        else:
            with Case(against) as other:
                verdict = _solve(opened, limits, other, coming)
        if against is None:
            verdict = _of_residents(opened, verdict, limits, coming)
        verdict = _with_end(verdict, ended_said(opened.meta, killed_for_memory(opened)))
        return dataclasses.replace(verdict, began=opened.began, zero_of_day_ns=opened.zero_of_day_ns)


def _of_residents(case: Case, verdict: Verdict, limits: list[Limit], coming: Thread) -> Verdict:
    """The verdict on the programs that stayed, where the whole machine was recorded and one that came or left is to blame for what they lost; else the verdict on all.

    That one's own operations are slow, too, beside theirs, and among all they can look like what is wrong (of another size, say). What fired a trigger, or was expected, was
    asked of all: where the answer would be another one, the verdict on all stands.
    """
    residents = residents_of(case)
    if residents is None:
        return verdict
    with Case(case.path) as alone:
        alone.judge_calls_of(residents.pids)
        theirs = _solve(alone, limits, None, coming)
    first = theirs.findings[0].culprit if theirs.findings else None
    if first is None or first.kind != "process":
        return verdict
    asked, answered = (
        ([item.met for item in each.expectations], bool(each.fired)) for each in (verdict, theirs)
    )
    if asked != answered:
        return verdict
    if verdict.findings and first.name.partition(" (")[0] not in residents.passed:
        return verdict
    return dataclasses.replace(
        theirs, cannot_exclude=[Caveat(residents.unjudged, residents.because), *theirs.cannot_exclude]
    )


def _with_end(verdict: Verdict, ended: str) -> Verdict:
    """How the command ended stands in every status, before what is cleared and what to do."""
    if not ended:
        return verdict
    last = (*verdict.next_steps, *(expectation.sentence for expectation in verdict.expectations))
    behind = [
        number
        for number, said in enumerate(verdict.summary)
        if number and (said in last or said.startswith(("Cleared: ", "Not excluded: ")))
    ]
    at = min(behind, default=len(verdict.summary))
    summary = [*verdict.summary[:at], ended, *verdict.summary[at:]]
    return dataclasses.replace(verdict, summary=summary, ended=ended)


def _solve(case: Case, limits: list[Limit], against: Case | None, coming: Thread) -> Verdict:
    name_holders(case)
    incomplete = missing_layers(case)
    missing = [of for of in incomplete if of.is_too_much]
    # Of a log that lacks ends, those that are there say something all the same.
    there = [said for of in missing if WITHOUT_END in of.reasons for said in few_said(case, of.layer)[:1]]
    callers = _callers(case) if any(of.layer == "syscall" for of in missing) else ()
    if missing:
        case.leave_out([of.layer for of in missing])
    surveys = {layer: survey_layer(case, layer) for layer in case.layers}
    coming.join()
    surveys = {layer: survey for layer, survey in surveys.items() if survey.operations}
    if case.never_began:
        return _insufficient(case, surveys, 0, limits)
    cut_off = {layer: survey for layer, survey in surveys.items() if layer in case.slow_only_ns}
    whole = {layer: survey for layer, survey in surveys.items() if layer not in cut_off}
    if cut_off and sum(survey.operations for survey in whole.values()) < VERDICT_OPERATIONS_MIN:
        context = _context(case, cut_off, next(iter(cut_off)), None, [])
        verdict = slow_only(context, limits, _where_time_goes(context))
        verdict.cannot_exclude.extend(caveats_of(context, bool(limits)))
        return verdict
    beside = [sentence for survey in cut_off.values() for sentence in slow_ones(case, survey)]
    if cut_off:
        # Detectors would take them for all there were.
        case.leave_out(cut_off)
        surveys = whole
    layer = _judged_layer(surveys, case.program)
    looked_up = lookups_of(case, surveys) if layer == "syscall" and case.program is None else None
    if looked_up is not None and looked_up.count >= VERDICT_OPERATIONS_MIN:
        layer = "block"
        case.judge_requests_of(looked_up.pids)
        surveys["block"] = survey_layer(case, "block")
        beside.append(looked_up.said)
    operations = _finished(case, surveys[layer]) if layer else 0
    # Where operations spent their time is known from their requests.
    if missing and (
        operations < VERDICT_OPERATIONS_MIN
        or any(of.layer == "block" for of in missing)
        or (layer == "block" and callers and _of_others(case, callers))
    ):
        return _too_much_lost(case, surveys.get(layer or ""), missing, limits, there)
    if layer is None or operations < VERDICT_OPERATIONS_MIN:
        # A recorder samples counters, too, but knows better: that nothing happened is no matter of sampling.
        is_sampled = not case.layers and case.rows("SELECT 1 AS one FROM series LIMIT 1")
        # A log of events alone says something, too.
        is_log = not case.layers and case.is_imported
        if is_sampled or (is_log and case.rows("SELECT 1 AS one FROM events LIMIT 1")):
            return _solve_series(case, limits, against)
        if layer is not None and operations and find_fired(case, layer):
            return _only_fired(case, surveys, layer, limits)
        return _insufficient(case, surveys, operations, limits, layer)
    if against is not None:
        against.need_all_of(layer)
        need_times(against, layer)
    untimed = too_many_untimed(case)
    expectations = [_expected(limit, surveys[layer], untimed) for limit in limits]
    backlog = _backlog(case, surveys[layer])
    # Where the rate is kept, what waited behind slow operations is part of what these cost: only where nothing stands out of that, the waits are left out.
    late = keeps_rate(case, surveys[layer])
    if backlog and not late:
        case.count_from_submit()
        surveys[layer] = survey_layer(case, layer)
    context = _context(case, surveys, layer, against, _broken(limits, expectations))
    # Before detectors, which read it too: it is a pass over the layer, made once.
    slowest = slowest_of(context)
    judged = adjudicate(context)
    if backlog and late and not judged.findings:
        case.count_from_submit()
        surveys[layer] = survey_layer(case, layer)
        context = _context(case, surveys, layer, against, _broken(limits, expectations))
        judged = adjudicate(context)
    elif late:
        backlog = []
    status = _status(judged, expectations, untimed)
    unrecorded = outside_calls(context)
    outside = None
    if unrecorded is not None and unrecorded.most and status in ("healthy", "limited"):
        # Most of what this program waited for is no operation of the record.
        outside, status = unrecorded, "insufficient"
    slow_ns = clearing.median_excess_ns(context, judged.explained) if judged.findings else None
    failures = failures_of(context)
    first = _failures_first(status, failures, judged)
    untold = [said for said in failures.sentences if said not in (failures.of_first if first else ())]
    verdict = Verdict(
        case=case.name,
        status=status,
        summary=[],
        where_time_goes=_where_time_goes(context),
        operations=operations,
        limit=judged.limit if outside is None else None,
        findings=judged.findings,
        fired=fired_said(context),
        slowest=slowest,
        too_small=rejected(context, judged.claims),
        minor=untold + beside + backlog + [f"{item.sentence}." for item in judged.declined] + judged.minor,
        cleared=[
            item
            for item in judged.cleared
            + clearing.clear(context, judged.claims, slow_ns, judged.limiting_devices, judged.least_cost)
            if status != "insufficient" and item.what.removeprefix("device:") not in judged.trouble
        ],
        cannot_exclude=lost_of(incomplete)
        + ([_unrecorded_said(unrecorded)] if unrecorded is not None and outside is None else [])
        + judged.caveats
        + caveats_of(context, bool(limits or against)),
        expectations=expectations,
        served_from=judged.served_from,
        next_steps=([failures.step] if first else [])
        + (
            [OUTSIDE_STEP if case.is_of_a_part else CALLS_STEP]
            if outside is not None
            else _next_steps(judged, status, bool(first) and failures.tells_device)
        )
        + ([reason.step for reason in untimed.reasons] if untimed and not judged.findings else []),
        simulated=bool(case.meta.get("simulated")),
        failed=failures.sentences,
        failed_first=list(failures.of_first) if first else [],
    )
    verdict.speed.extend([_speed(context), _main_stage(verdict, context)])
    verdict.summary.extend(
        _summary(verdict, context, untold, judged, untimed, failures if first else None, outside)
    )
    verdict.summary.extend(own_work(case)[:OWN_WORK_TOLD_MAX] if layer == "app" else [])
    verdict.called.update(_called(verdict, case))
    return verdict


def _called(verdict: Verdict, case: Case) -> dict[str, str]:
    """What volumes that it mentions are called; their numbers are the kernel's, and change."""
    devices = (case.system.get("devices") or {}).items()
    names = {device: str((about.get("facts") or {}).get("dm_name") or "") for device, about in devices}
    named = {device: name for device, name in sorted(names.items()) if name}
    if not named:
        return {}
    said = verdict.to_json()
    return {device: name for device, name in named.items() if re.search(rf"\b{re.escape(device)}\b", said)}


def _only_fired(case: Case, surveys: dict[str, Survey], layer: str, limits: list[Limit]) -> Verdict:
    """What fired a trigger, out of a case with too few operations for any other verdict: single operations need no others."""
    context = _context(case, surveys, layer, None, [])
    heard = Heard([(outliers.DETECTOR.name, outliers.run(context))], [])
    findings = [f for _, f in correct(context, accuse(heard)).measured if f.answers == "trigger"]
    operations = surveys[layer].operations
    fired = fired_said(context)
    expectations = [check(limit, surveys[layer]) for limit in limits]
    return Verdict(
        case=case.name,
        status="outliers" if findings else "insufficient",
        summary=[
            *fired[:1],
            f"The case holds {words.things(operations, 'operation')}: too few to say anything else.",
            *(expectation.sentence for expectation in expectations),
        ],
        where_time_goes=_where_time_goes(context),
        operations=operations,
        findings=findings,
        fired=fired,
        slowest=slowest_of(context),
        cannot_exclude=caveats_of(context, bool(limits)),
        expectations=expectations,
        next_steps=[finding.refute for finding in findings],
        simulated=bool(case.meta.get("simulated")),
    )


def _solve_series(case: Case, limits: list[Limit], against: Case | None) -> Verdict:
    """The verdict where only sampled counters are known: whatever detectors can say without operations."""
    nothing = Survey("app", [], 0, max(1, case.duration_ns or 1), frozenset())
    slow = empty_slow_set()
    context = Context(case, {"app": nothing}, "app", slow, np.zeros(0, np.bool_))
    # Of a device that never completes anything nothing can be compared.
    hanging = [stuck.said for stuck in context.stuck if not stuck.works]
    judged = adjudicate(context)
    expectations = sampled_expectations(case, limits)
    # Means over the whole log do not show what happened once.
    doubts = [*hanging, *worst_sample(case)]
    status = "slow" if judged.findings else "healthy" if judged.compared and not doubts else "insufficient"
    verdict = Verdict(
        case=case.name,
        status=status,
        summary=[],
        where_time_goes={},
        operations=0,
        findings=judged.findings,
        minor=judged.minor,
        cannot_exclude=[
            # What the log holds by half, with how much it is, before what no counters show.
            *unseen(case, keys=("not_observed",)),
            *judged.caveats,
            *unseen(case, keys=("not_carried",)),
        ],
        expectations=expectations,
        next_steps=_next_steps(judged, "slow")[:3]
        or ["Record the operations of one host: sampled counters hide outliers."],
        simulated=bool(case.meta.get("simulated")),
    )
    headline = {
        "insufficient": "No verdict: on the whole devices are like their peers, and single operations are not in the case."
        if judged.compared
        else "No verdict: the case has no single operations, and nothing in it that devices can be compared by.",
        # Of operations nothing is known.
        "healthy": "No device stands out from its peers in what was sampled.",
    }
    verdict.summary.append(headline.get(verdict.status) or _headline(verdict, judged))
    verdict.summary.extend(finding.claim for finding in judged.findings[:3])
    if len(judged.findings) > 3:
        verdict.summary.append(f"{len(judged.findings) - 3} more findings follow.")
    verdict.summary.extend(sampled_against(case, against) if against is not None else [])
    verdict.summary.extend(doubts + judged.compared[:1] + account(case) + logs_apart(case))
    verdict.summary.extend(expectation.sentence for expectation in expectations)
    if verdict.cannot_exclude:
        first = verdict.cannot_exclude[0]
        verdict.summary.append(f"Not excluded: {first.what} ({first.because}).")
    return verdict


def _judged_layer(surveys: dict[str, Survey], program: str | None) -> str | None:
    """`app` where its stages show something, else the block layer, else whatever there is; of a program with a log that could not be tied
    to its system calls, or has too few operations (files of a copy, say), these."""
    app, block, calls = (surveys.get(layer) for layer in ("app", "block", "syscall"))
    if app is not None and block is not None:
        unknown = sum(float(s.stage_ns[STAGES.index("unknown")]) for s in app.strata)
        joined = unknown <= 0.5 * app.latency_ns and app.stages_observed
        if program and calls and app.operations < VERDICT_OPERATIONS_MIN <= calls.operations:
            return "syscall"
        return "app" if joined else "syscall" if program and calls else "block"
    return next(iter(surveys), None)


def _context(
    case: Case, surveys: dict[str, Survey], layer: str, against: Case | None, broken: list[Limit]
) -> Context:
    survey = surveys[layer]
    slow = find_slow(case, survey)
    return Context(
        case,
        surveys,
        layer,
        slow,
        explained=np.zeros(len(slow), np.bool_),
        broken_limits=tuple(broken),
        against=against,
        against_survey=survey_layer(against, layer)
        if against is not None and layer in against.layers
        else None,
    )


def _backlog(case: Case, survey: Survey) -> list[str]:
    """A sentence if operations mostly waited for free slots because the ones before them took long; else nothing.

    Such a wait is a consequence: what filled the slots is what is asked for. Where the rate is kept, it passes: there it counts as what
    its cause cost (`whodisk.evidence.backlog`), unless most operations wait: then nothing stands out of what they wait. A sync takes all slots of its
    thread: nothing is submitted until it is done (decision 0361).
    """
    if survey.layer != "app" or "app" not in survey.stages_observed:
        return []
    if case.program is not None:
        # Its stage app is also what it does itself.
        return []
    waited = sum(float(s.stage_ns[STAGES.index("app")]) for s in survey.strata)
    if waited < BACKLOG_SHARE_MIN * survey.latency_ns:
        return []
    row = case.rows(
        """SELECT count(DISTINCT tid) AS threads, max(queue_depth) AS deepest,
  coalesce(sum(latency_ns - app_ns) FILTER (op <> 'sync'), 0) AS inside_ns, coalesce(sum(latency_ns - app_ns) FILTER (op = 'sync'), 0) AS sync_ns,
  min(start_ns + app_ns) AS begin_ns, max(start_ns + latency_ns) AS end_ns,
  coalesce(median(app_ns / greatest(1, latency_ns)), 0) AS mostly
FROM measured WHERE layer = 'app' AND app_ns IS NOT NULL"""
    )[0]
    threads, deepest, inside, syncs, begin, end, mostly = (float(value or 0) for value in row.values())
    part = (
        f"{words.percent(waited / survey.latency_ns)} of the time of operations, counted from when they were due, is waiting for the ones before "
        "them. So they are counted from their submit on here."
    )
    if keeps_rate(case, survey):
        return (
            [f"The workload gets all that it asks for, but late: {part}"]
            if mostly >= BACKLOG_SHARE_MIN
            else []
        )
    taken = inside + deepest * syncs
    if end <= begin or taken < BACKLOG_FULL_MIN * threads * deepest * (end - begin):
        return []
    return [f"The workload asks for more than it gets: {part}"]


def _broken(limits: list[Limit], expectations: list[Expectation]) -> list[Limit]:
    pairs = zip(limits, expectations, strict=True)
    return [limit for limit, done in pairs if done.met is False and limit.is_latency]


def _expected(limit: Limit, survey: Survey, untimed: Untimed | None) -> Expectation:
    """Whether a case met an expectation. One of latency is not met by those that began, if too many never did."""
    expectation = check(limit, survey)
    if untimed is None or not limit.is_latency or not expectation.met:
        return expectation
    return Expectation(
        limit.text,
        None,
        f"'{limit.text}' cannot be judged: those that {words.listed([reason.short for reason in untimed.reasons])} have no latency.",
    )


def _status(judged: Judged, expectations: list[Expectation], untimed: Untimed | None) -> str:
    # Whoever skips what is late expected it to be in time.
    broken = untimed is not None or any(expectation.met is False for expectation in expectations)
    if judged.findings and broken:
        return "slow"
    if judged.slow or any(is_slow(finding) for finding in judged.findings):
        return "slow"
    if judged.findings:
        return "outliers"
    if judged.limited or untimed is not None:
        return "limited"
    # What most of the time may be due to is no health.
    return "insufficient" if judged.by_chance >= UNDECIDED_MIN else "healthy"


# -- the rest of the verdict --------------------------------------------------------------------


def _where_time_goes(context: Context) -> dict[str, dict[str, float]]:
    """Kinds that took most time first."""
    survey = context.survey
    totals = {op: sum(s.latency_ns for s in survey.select(op=op)) for op in {s.op for s in survey.strata}}
    result: dict[str, dict[str, float]] = {}
    for op, total in sorted(totals.items(), key=lambda item: (-item[1], item[0])):
        if total <= 0:
            continue
        strata = survey.select(op=op)
        sums = np.sum([s.stage_ns for s in strata], axis=0)
        shares = {
            context.stage(stage): float(value) / total
            for stage, value in zip(STAGES, sums, strict=True)
            if stage in survey.stages_observed and value > 0
        }
        rest = 1.0 - sum(shares.values())
        if rest > 1e-6:
            shares["unknown"] = shares.get("unknown", 0.0) + rest
        result[op] = shares
    return result


def _next_steps(judged: Judged, status: str, is_device_told: bool = False) -> list[str]:
    """What would refute each claim, the limit's last: where a culprit slows everything, the limit is no claim."""
    steps = [finding.refute for finding in judged.findings]
    if judged.trouble and not is_device_told:
        steps.append(TROUBLE_STEP)
    if status != "slow" and (judged.limited or status == "healthy") and judged.limit_refute:
        steps.append(judged.limit_refute)
    if status == "insufficient":
        steps.append(
            "Record longer, or import more of the log: what slow operations share then shows, or goes."
        )
    return steps


def _too_much_lost(
    case: Case, survey: Survey | None, missing: list[Missing], limits: list[Limit], there: list[str]
) -> Verdict:
    """No verdict, since what it would hang on was lost. `survey` is of a layer that is whole: what was expected of its
    operations can be judged all the same. `there`: what is said of those that are not lost."""
    caveats = lost_of(missing)
    texts = [f"'{limit.text}' cannot be judged: too much was lost." for limit in limits]
    expectations = [Expectation(limit.text, None, text) for limit, text in zip(limits, texts, strict=True)]
    if survey is not None:
        expectations = [check(limit, survey) for limit in limits]
    why = "; ".join(
        f"layer {of.layer}: {caveat.because}" for of, caveat in zip(missing, caveats, strict=True)
    )
    step = "Record again, and less of it (--pid, --device, --cpu-budget)."
    if missing[0].reasons[0] == "write_failed":
        step = "Record again, to a file system with more room."
    if WITHOUT_END in missing[0].reasons:
        step = "Import all that the tracer wrote (blktrace: the files of all CPUs), or trace again with larger buffers (blktrace -b, -n)."
    return Verdict(
        case=case.name,
        status="insufficient",
        summary=[
            f"No verdict. Too much was lost: {why}.",
            *(f"Of those that ended: {said}" for said in there),
            *(e.sentence for e in expectations),
            step,
        ],
        where_time_goes={},
        operations=survey.operations if survey is not None else 0,
        expectations=expectations,
        cannot_exclude=caveats + losses(case) + unseen(case),
        next_steps=[step],
        simulated=bool(case.meta.get("simulated")),
    )


def _callers(case: Case) -> tuple[int, ...]:
    """Processes of a recorded command that made system calls: requests are recorded of everybody, calls of the command alone."""
    if not case.meta.get("command") or "syscall" not in case.layers:
        return ()
    rows = case.rows("SELECT DISTINCT pid FROM syscall_ops WHERE pid > 0 ORDER BY 1")
    return tuple(int(row["pid"] or 0) for row in rows)


def _of_others(case: Case, pids: tuple[int, ...]) -> bool:
    """Whether hardly any of the requests are of these processes: what they say is of another program than the one that was recorded."""
    row = case.rows(
        f"""SELECT sum(latency_ns) FILTER (pid IN ({", ".join(map(str, pids))})) AS own_ns, sum(latency_ns) AS all_ns
FROM block_ops WHERE pid > 0"""
    )[0]
    return float(row["own_ns"] or 0) < COMMAND_SHARE * float(row["all_ns"] or 0)


def _finished(case: Case, survey: Survey) -> int:
    """Operations of a layer; only those that ended, if they are too few for a verdict: of a log without completions nothing is known."""
    ended = case.rows(
        f"SELECT count(*) AS n FROM (SELECT 1 FROM measured WHERE layer = '{survey.layer}' LIMIT {VERDICT_OPERATIONS_MIN})"
    )[0]["n"]
    few = int(ended or 0)
    return few if few < VERDICT_OPERATIONS_MIN else survey.operations


def _insufficient(
    case: Case, surveys: dict[str, Survey], operations: int, limits: list[Limit], layer: str | None = None
) -> Verdict:
    if not case.layers:
        why = "The case holds no layer: nothing was observed."
    elif operations == 0:
        ramp = " outside its ramp phase" if case.phases() else ""
        why = f"The case holds no finished operation{ramp}."
    else:
        why = f"The case holds {words.things(operations, 'operation')}; a verdict needs {VERDICT_OPERATIONS_MIN}."
    step = "Record for longer, or while the workload is running"
    step += "." if "block" in case.layers else "; as root, so that the block layer is seen."
    if case.is_imported:
        step = "Import a log of more operations."
    # What a program read in order to start is no operation of it.
    few = few_said(case, layer) if layer is not None and operations else []
    if case.program is None and (idle := _idle_command(case)):
        few = []
        why, step = (
            idle,
            "Record the program that is slow, or all of this machine: whodisk record --duration 30s.",
        )
    if case.program is None and (idle := _idle_processes(case)):
        why = f"{idle}. A verdict needs {VERDICT_OPERATIONS_MIN} operations."
        step = "If they were slow in that time, look at what is no storage I/O: CPUs, locks, the network. Else record them while they are slow."
    not_done = _not_done(case)
    if case.never_began:
        why = f"{case.program} did not begin, so there is nothing to judge."
    if not_done:
        step = "Mend that, and run it again."
    texts = [f"'{limit.text}' cannot be judged: too few operations." for limit in limits]
    expectations = [Expectation(limit.text, None, text) for limit, text in zip(limits, texts, strict=True)]
    headline = f"No verdict. {why}"
    failed = []
    # It may be why there are so few.
    if turned := turned_by_errors(case, layer):
        headline, step, failed = f"{turned.said}. {headline}", turned.step, [f"{turned.said}."]
    return Verdict(
        case=case.name,
        status="insufficient",
        summary=[headline, *few, *not_done, *texts, step],
        where_time_goes={},
        operations=operations,
        cannot_exclude=unseen(case),
        expectations=expectations,
        next_steps=[step],
        simulated=bool(case.meta.get("simulated")),
        failed=failed,
        failed_first=failed,
    )


def _not_done(case: Case) -> list[str]:
    """A sentence if a program says that it did not do all that it was asked to."""
    return [f"Not all was done: {case.not_done.rstrip('.')}."] if case.not_done else []


def _idle_processes(case: Case) -> str | None:
    """How little storage I/O processes did that ran before they were recorded; None where that was not recorded, not all of it, or where it may be what they waited for all the time."""
    scope = case.meta.get("scope")
    of = scope if isinstance(scope, dict) else {}
    if case.meta.get("command") or not (of.get("pids") or of.get("cgroups")) or not _saw_all(case):
        return None
    span_ns = float(case.duration_ns or 0)
    held_ns = sum(float(row["ns"] or 0) for row in case.rows("SELECT sum(latency_ns) AS ns FROM syscall_ops"))
    if "waits" in case.columns:
        causes = ", ".join(map(quoted, (*FOR_IO, *IN_WRITING)))
        held_ns += sum(
            float(row["ns"] or 0)
            for row in case.rows(f"SELECT sum(duration_ns) AS ns FROM waits WHERE cause IN ({causes})")
        )
    unfinished = case.rows("SELECT 1 AS one FROM open_ops LIMIT 1")
    if unfinished or held_ns > NEXT_TO_NO_IO_MAX * span_ns:
        return None
    told, requests = _did(case)
    which = words.listed([said for _, _, said in told]) or "no call"
    return (
        f"The recorded processes did next to no storage I/O in {words.duration(span_ns)}: {which}, and {words.things(requests, 'request')} to disks; "
        f"they waited {words.percent(held_ns / max(1.0, span_ns))} of the time for these at most"
    )


def _saw_all(case: Case) -> bool:
    """Whether all calls and requests were recorded."""
    both = {"syscall", "block"} <= set(case.layers)
    return both and not case.rows("SELECT 1 AS one FROM losses LIMIT 1")


def _did(case: Case) -> tuple[list[tuple[str, int, str]], int]:
    """The calls on storage (kind, how many, in words), and how many requests to disks there were."""
    # Opens and the like are no I/O; what came from memory is none of storage.
    calls = case.rows(
        f"SELECT op, count(*) AS n FROM syscall_ops WHERE {IS_IO} GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    # Also what its processes asked for without a call: the pages of the program itself.
    requests = int(
        case.rows(
            """SELECT count(*) AS n FROM block_ops WHERE pid IN (SELECT pid FROM syscall_ops)
  OR op_id IN (SELECT child_id FROM links JOIN syscall_ops ON syscall_ops.op_id = parent_id)"""
        )[0]["n"]
        or 0
    )
    told = [
        (
            str(row["op"]),
            int(row["n"] or 0),
            words.things(float(row["n"] or 0), str(row["op"]), words.plural_op(str(row["op"]))),
        )
        for row in calls
    ]
    return told, requests


def _idle_command(case: Case) -> str | None:
    """How little storage I/O a recorded command did; None where that was not recorded, or not all of it."""
    if not case.meta.get("command") or not _saw_all(case):
        return None
    told, requests = _did(case)
    reads = sum(count for op, count, _ in told if op == "read")
    many = reads >= VERDICT_OPERATIONS_MIN
    masked = (
        " What it read fits into the cache: this run cannot show the behaviour of a device." if many else ""
    )
    if requests == 0 and all(op == "read" for op, _, _ in told):
        return f"The command did no storage I/O{f': {told[0][2]}, all from memory' if told else ''}.{masked}"
    return (
        f"The command did next to no storage I/O: {words.listed([said for _, _, said in told]) or 'no call'}, and "
        f"{words.things(requests, 'request')} to disks; a verdict needs {VERDICT_OPERATIONS_MIN} operations.{masked}"
    )


def _failures_first(status: str, failures: Failures, judged: Judged) -> str:
    """What failed, where nothing is to blame for slowness: it is worse than anything else that such a verdict says. Empty: it does not come first.

    A device that had errors is named first, and what failed of it behind, but for calls: these say what the errors did. A file system that can no
    longer be written to is worse than slowness, too.
    """
    if failures.became_read_only:
        return failures.first
    by_device = judged.trouble and not (failures.of_file_system or failures.tells_device)
    if status not in ("healthy", "outliers", "limited") or by_device:
        return ""
    return failures.first


def _summary(
    verdict: Verdict,
    context: Context,
    errors: list[str],
    judged: Judged,
    untimed: Untimed | None,
    failures: Failures | None,
    outside: OutsideCalls | None,
) -> list[str]:
    """The verdict in about five plain sentences; `failures`: where they come first."""
    if failures is not None and failures.tells_device:
        judged = dataclasses.replace(judged, trouble={})
    trouble = judged.trouble
    undecided = undecided_of(context)
    headline = _headline(verdict, judged, untimed, undecided) if outside is None else _outside_said(outside)
    if failures is not None:
        plain = _is_plain(verdict, judged, untimed, undecided) and not failures.became_read_only
        headline = _with_failures(failures.first, headline, plain)
    sentences = [headline, *_not_done(context.case)]
    if untimed is not None and (verdict.findings or trouble):
        sentences.append(f"{_untimed_said(untimed)}.")
    # Where a finding does not begin with what fired, this does.
    if verdict.fired and not (verdict.findings and verdict.findings[0].answers == "trigger"):
        sentences.append(verdict.fired[0])
    for finding in verdict.findings[:2]:
        sentences.append(finding.claim)
    if verdict.findings and verdict.findings[0].share_low is not None and verdict.status == "slow":
        sentences.append(_weight(verdict.findings[0]))
    accused = {f.culprit.name for f in verdict.findings if f.detector == "device_errors"}
    untold = {device: told for device, told in trouble.items() if device not in accused}
    if untold and verdict.findings:
        sentences.append(f"Look at a device, too: {_had(untold)}.")
    if not verdict.findings:
        sentences += verdict.speed
    # Where storage holds a program up for little of its time, that is so beside a culprit, too, which makes that little longer. What stops it between operations is
    # more of what it sleeps.
    little = not judged.limited and judged.least_cost is not None
    if verdict.limit and (verdict.status != "slow" or little):
        sentences.append(f"{SETS_SPEED}{verdict.limit}.")
    sentences += verdict.too_small[:1] + errors[:1]
    if verdict.cleared:
        sentences.append(_cleared_sentence(verdict))
    sentences += [expectation.sentence for expectation in verdict.expectations]
    if verdict.cannot_exclude:
        first = verdict.cannot_exclude[0]
        sentences.append(f"Not excluded: {first.what} ({first.because}).")
    return sentences


def _had(trouble: dict[str, str]) -> str:
    return words.listed([f"{device} had {told}" for device, told in trouble.items()])


def _untimed_said(untimed: Untimed) -> str:
    due = untimed.due
    return "; ".join(
        f"{words.count(count)} of {words.count(due)} operations ({words.percent(count / due)}) {REASONS[name].long}"
        for name, count in untimed.counts.items()
    )


def _headline(verdict: Verdict, judged: Judged, untimed: Untimed | None = None, undecided: str = "") -> str:
    trouble = judged.trouble
    if verdict.status == "outliers":
        culprit = verdict.findings[0].culprit
        said = words.accused(culprit.kind, culprit.name, culprit.because_of)
        if verdict.findings[0].answers == "trigger":
            return f"Nearly all is well, but for what made the recorder write this case: {said} held it."
        return (
            f"Nearly all is well, but some operations took far longer than the rest: {said} held the longest."
        )
    if verdict.status == "slow":
        culprit = verdict.findings[0].culprit
        said = words.accused(culprit.kind, culprit.name, culprit.because_of)
        return f"Slow: {said} {words.is_or_are(said)} to blame."
    if trouble:
        runs = "the workload runs into a limit" if verdict.status == "limited" else "no operation stands out"
        return f"Look at a device: {_had(trouble)}. Few slow operations have to do with them, if any; {runs}."
    if untimed is not None:
        return f"The workload does not get what it asks for: {_untimed_said(untimed)}."
    if verdict.status == "limited" and judged.by_chance >= BY_CHANCE_TOLD_MIN:
        # What limits is told by means, and these may be made of a few.
        share = words.percent(min(1.0, judged.by_chance))
        return f"The workload runs into a limit, as far as it can be told: {share} of all latency is in slow operations that may have no more in common than chance ({judged.by_chance_of})."
    if verdict.status == "limited":
        return "Nothing is broken; the workload runs into a limit."
    stand_out = any(slow.apart for slow in verdict.slowest)
    if stand_out and judged.recorder_held:
        return "Healthy, but for operations that the recorder held up."
    share = words.percent(min(1.0, judged.by_chance))
    of = f" ({judged.by_chance_of})" if judged.by_chance_of else ""
    if judged.by_chance >= UNDECIDED_MIN:
        return f"No verdict: {share} of all latency is in slow operations that may have one cause{of}, but are too few to tell that from chance."
    if judged.by_chance >= BY_CHANCE_TOLD_MIN:
        return f"Healthy, as far as it can be told: {share} of all latency is in slow operations that may have no more in common than chance{of}."
    if undecided:
        return f"Healthy, as far as it can be told: {undecided}."
    if stand_out:
        # Those who waited for their own program's calls, requests or CPUs.
        return "Healthy: what stands out is the program's own work, and nobody is to blame."
    return "Healthy: no operation stands out."


def _outside_said(outside: OutsideCalls) -> str:
    return f"No verdict: {_waited_outside(outside)}."


def _unrecorded_said(outside: OutsideCalls) -> Caveat:
    return Caveat("what calls wait for that are not recorded", _waited_outside(outside))


def _waited_outside(outside: OutsideCalls) -> str:
    return (
        f"threads of {outside.comm} waited for storage for {words.duration(outside.waited_ns)} in all ({words.things(outside.waits, 'time')}, "
        f"{words.duration(outside.longest_ns)} at most, mostly {words.asleep(outside.cause)}) while none of their calls was one that is recorded: close, which may write out "
        "a file, or pages of a mapped file that another call needs, say"
    )


def _is_plain(verdict: Verdict, judged: Judged, untimed: Untimed | None, undecided: str) -> bool:
    """Whether the verdict is healthy, and nothing else is to be said of how long operations took."""
    return (
        verdict.status == "healthy"
        and not judged.trouble
        and untimed is None
        and not undecided
        and judged.by_chance < BY_CHANCE_TOLD_MIN
        and not any(slow.apart for slow in verdict.slowest)
    )


def _with_failures(failed: str, headline: str, plain: bool) -> str:
    """The headline behind what failed."""
    if plain:
        return f"No operation is slow, but {failed}."
    return f"{failed}. Apart from that {headline[:1].lower()}{headline[1:]}"


def _weight(finding: Finding) -> str:
    interval = ""
    if finding.share_low is not None and finding.share_high is not None and finding.share_low < 0.9995:
        interval = f" (95 %: {words.percent(finding.share_low)} to {words.percent(finding.share_high)})"
    lost = f"{words.percent(finding.share_of_excess)}{interval} of what slow operations lost and "
    return (
        f"That is {lost if finding.share_of_excess >= 0.0005 else ''}{words.percent(finding.share_of_latency)} of all latency, in "
        f"{words.things(finding.episodes, 'separate episode')}."
    )


def _speed(context: Context) -> str:
    parts = []
    for op in _main_kinds(context):
        strata = context.survey.select(op=op)
        number = sum(s.operations for s in strata)
        quantiles = percentiles_of(number)
        if quantiles:
            said = ", ".join(
                f"{n} within {words.duration(context.survey.quantile_ns(strata, q))}" for q, n in quantiles
            )
            worst = words.duration(max(s.latency_max_ns for s in strata))
            parts.append(f"{words.count(number)} {words.plural_op(op)}: {said}, the slowest {worst}")
    return "; ".join(parts) + "." if parts else "Too few operations of each kind for percentiles."


def percentiles_of(number: float) -> list[tuple[float, str]]:
    """Percentiles that so many operations tell, with their names: the common ones, and the furthest of more nines."""

    def is_told(beyond: float) -> bool:
        """Three operations or more lie beyond it; fewer are named one by one."""
        return number * beyond >= 3

    told = [(q, name) for q, name in ((0.5, "half"), (0.99, "99 %"), (0.999, "99.9 %")) if is_told(1 - q)]
    nines = 3
    while is_told(10.0 ** -(nines + 1)):
        nines += 1
    if nines > 3:
        quantile = 1 - 10.0**-nines
        told.append((quantile, f"{100 * quantile:.{nines - 2}f} %"))
    return told


def _main_kinds(context: Context) -> list[str]:
    """Operation kinds worth a sentence: a twentieth of all latency or of all operations. Those that took most time first."""
    survey = context.survey
    kinds = []
    for op in {s.op for s in survey.strata}:
        strata = survey.select(op=op)
        latency_ns = sum(s.latency_ns for s in strata)
        busy = latency_ns >= 0.05 * survey.latency_ns
        if busy or sum(s.operations for s in strata) >= 0.05 * survey.operations:
            kinds.append((-latency_ns, op))
    return [op for _, op in sorted(kinds)]


def _main_stage(verdict: Verdict, context: Context) -> str:
    parts = []
    for op in _main_kinds(context):
        shares = verdict.where_time_goes.get(op)
        if shares:
            stage = max(sorted(shares), key=lambda name: shares[name])
            parts.append(
                f"{words.plural_op(op)} spend {words.percent(shares[stage])} of their time in the {stage} stage"
            )
    text = words.listed(parts)
    return text[:1].upper() + text[1:] + "." if text else "Where the time goes was not observed."


def _cleared_sentence(verdict: Verdict) -> str:
    parts = [
        f"{words.cleared([item.what])} ({item.bound}; holds for {words.quantile(item.quantile)} of {item.unit}, "
        f"at {words.percent(item.confidence)} confidence)"
        for item in verdict.cleared[:3]
    ]
    return "Cleared: " + "; ".join(parts) + "."
