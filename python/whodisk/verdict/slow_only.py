"""The verdict on logs that hold slow operations alone: which, when and how slow.

What is usual, how many were fast, and so whether these are many, is not in them: every detector compares slow operations with the rest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whodisk import words
from whodisk.detectors.thresholds import SLOW_ONLY_GROUPS_TOLD
from whodisk.evidence.context import Context
from whodisk.evidence.expectations import Limit, check
from whodisk.evidence.survey import Survey
from whodisk.findings import NOTHING_OBSERVED, Expectation, Verdict
from whodisk.reading.views import Case
from whodisk.statistics.stats import episodes
from whodisk.verdict.few_operations import slowest_said
from whodisk.verdict.slowest import USUAL_LENGTH, slowest_of

NEXT = (
    "Log all operations, the fast ones too (fsslower --min 0, no filter behind the tool), or record with whodisk: then typical latencies are "
    "known, and what these have in common that others have not."
)


def slow_only(context: Context, limits: list[Limit], where_time_goes: dict[str, dict[str, float]]) -> Verdict:
    """No verdict, and what can be said of the slow operations that the judged layer holds."""
    case, survey = context.case, context.survey
    least = words.duration(case.slow_only_ns[survey.layer])
    expectations = [_expected(limit, survey, least) for limit in limits]
    told = slow_ones(case, survey)
    return Verdict(
        case=case.name,
        status="insufficient",
        summary=[
            f"No verdict: only operations over {least} were logged. The log does not show which latencies are usual, nor how many operations there were.",
            *told,
            *(expectation.sentence for expectation in expectations),
        ],
        where_time_goes=where_time_goes,
        operations=survey.operations,
        # Standing apart is apart from the rest, and usual is what most are: the rest is not there.
        slowest=[
            replace(one, apart=False, what=NOTHING_OBSERVED if one.what == USUAL_LENGTH else one.what)
            for one in slowest_of(context)
        ],
        expectations=expectations,
        next_steps=[NEXT],
        simulated=bool(case.meta.get("simulated")),
    )


def slow_ones(case: Case, survey: Survey) -> list[str]:
    """How many slow operations of a layer there are and in how many episodes; then those of each kind, program and device."""
    where = f"layer = '{survey.layer}' AND NOT open"
    moments = case.arrays(f"SELECT start_ns, latency_ns FROM judged WHERE {where} ORDER BY start_ns")
    begin = moments["start_ns"].astype(np.int64)
    if len(begin) == 0:
        return []
    separate = int(episodes(begin, begin + moments["latency_ns"].astype(np.int64)).max()) + 1
    rows = case.rows(
        f"""SELECT op, coalesce(comm, '') AS comm, coalesce(device, '') AS device, count(*) AS n, count(DISTINCT file) AS files,
  arg_max(file, latency_ns) AS file, min(latency_ns) AS least_ns, max(latency_ns) AS most_ns, arg_max(start_ns, latency_ns) AS most_at_ns,
  min(start_ns) AS begin_ns, max(start_ns) AS end_ns
FROM judged WHERE {where} GROUP BY 1, 2, 3 ORDER BY sum(latency_ns) DESC, 1, 2, 3"""
    )
    least = words.duration(case.slow_only_ns[survey.layer])
    said = [
        f"{words.things(len(begin), 'operation')} of layer {survey.layer} took over {least}, in {words.things(separate, 'separate episode')}; the slowest is "
        f"{slowest_said(case, survey.layer, 1)[0]}."
    ]
    for row in rows[:SLOW_ONLY_GROUPS_TOLD]:
        number, op = float(row["n"] or 0), str(row["op"])
        who = f" of {row['comm']}" if row["comm"] else ""
        place = f" on {row['device']}" if row["device"] else ""
        took = words.duration(float(row["most_ns"] or 0))
        at = f"the slowest at {case.moment(float(row['most_at_ns'] or 0), 3)}"
        if number > 1:
            took = f"{words.duration(float(row['least_ns'] or 0))} to {took}"
            at = f"from {case.moment(float(row['begin_ns'] or 0), 3)} to {case.moment(float(row['end_ns'] or 0), 3)}, {at}"
        else:
            at = at.removeprefix("the slowest ")
        file = f" ({row['file']})" if row["file"] else ""
        said.append(f"{words.things(number, op, words.plural_op(op))}{who}{place} took {took}: {at}{file}.")
    if len(rows) > SLOW_ONLY_GROUPS_TOLD:
        said.append(
            f"{words.things(len(rows) - SLOW_ONLY_GROUPS_TOLD, 'more group')} of kind, program and device took less in all."
        )
    return said


def _expected(limit: Limit, survey: Survey, least: str) -> Expectation:
    if limit.metric == "max":
        return check(limit, survey)
    return Expectation(
        limit.text, None, f"'{limit.text}' cannot be judged: only operations over {least} were logged."
    )
