"""Time lost to a device's errors: retries, timeouts, resets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss, large_enough
from whodisk.detectors.thresholds import (
    ERROR_AT_NS,
    ERROR_EPISODES_MIN,
    ERROR_NOTICED_NS,
    ERROR_OPERATIONS_MAX,
    ERROR_SLOW_RATIOS,
    PLACES,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import Survey, thinned
from whodisk.evidence.thresholds import COVERS_MIN, ELSEWHERE_MAX
from whodisk.evidence.time_lost import lost_above, lost_values_sql, p99_ratio
from whodisk.findings import Culprit, Effect
from whodisk.machine.below_loop import disk_of_loop
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import Case, quoted
from whodisk.statistics import probability
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_sum, episodes, overlap

#: Kinds of events that show trouble in a device or on the way to it. A `requeue` does not: a full queue makes them, too.
#: A `failed_command` may have been tried again, with success: then its request has no `error`.
KINDS = "'error', 'timeout', 'reset', 'failed_command'"


def events_sql(device: str | None = None) -> str:
    """Errors, timeouts and resets by device."""
    only = f" AND subject = {quoted(device)}" if device else ""
    return f"""SELECT subject, kind, count(*) AS events, min(time_ns) AS first_ns, max(time_ns) AS last_ns, any_value(detail) AS detail
FROM events WHERE kind IN ({KINDS}){only} GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2"""


def errors_of(case: Case) -> dict[str, list[str]]:
    """What each device had: `3 errors`, `1 reset`; empty where no events were recorded."""
    counts: dict[str, list[str]] = {}
    for row in case.rows(events_sql()) if "events" in case.columns else []:
        number = words.things(float(row["events"] or 0), str(row["kind"]).replace("_", " "))
        counts.setdefault(str(row["subject"]), []).append(number)
    return counts


def run(context: Context) -> Result:
    """One candidate per device that had errors; errors that cost nothing are reported only."""
    result = Result()
    survey = context.surveys.get("block") or context.survey
    for device, told in errors_of(context.case).items():
        if _is_not_used(context, device):
            result.observed.append(f"{device} had {words.listed(told)}; nothing that is judged here uses it.")
            continue
        candidate = _candidate(context, survey, device, told)
        # Whatever it cost: a device that fails requests is not in order.
        result.trouble[device] = words.listed(told)
        if candidate is not None:
            result.candidates.append(candidate)
        else:
            result.observed.append(
                f"{device} had {words.listed(told)}; no slow operation of it has to do with them."
            )
    return result


def _slow_sql(survey: Survey, device: str, least_ns: float) -> str:
    return f"""SELECT op_id, start_ns, latency_ns, error FROM measured
WHERE layer = '{survey.layer}' AND device = {quoted(device)} AND latency_ns >= {least_ns!r}
ORDER BY latency_ns DESC, op_id LIMIT {ERROR_OPERATIONS_MAX}"""


def _candidate(context: Context, survey: Survey, device: str, told: list[str]) -> Candidate | None:
    """Out of the operations that failed, where events name them; else out of slow operations; out of those that are less slow, too, only where the
    first ones are not worth an accusation."""
    strata = survey.select(device=device)
    if not strata or _is_of_others(context, device):
        return None
    typical_ns = survey.quantile_ns(strata, 0.5)
    first = _of_named(context, survey, device, told, typical_ns)
    if first is not None and first.large:
        return first
    for ratio in ERROR_SLOW_RATIOS:
        found = _beyond(context, survey, device, told, typical_ns, ratio)
        if found is not None and found.large:
            return found
        first = first or found
    return first


def _is_of_others(context: Context, device: str) -> bool:
    """Whether the judged operations tell which devices they are on, and this is none of these: whoever waits for it is not judged."""
    told = {stratum.device for stratum in context.survey.strata if stratum.device}
    # Operations tell the volume, requests its members.
    return bool(told) and device not in told and not volumes_of(context.case)


def _is_not_used(context: Context, device: str) -> bool:
    """Whether this is a disk that neither the judged operations nor their program's requests go to, and no loop device of theirs lies on."""
    if not _is_of_others(context, device) or device not in (context.case.system.get("devices") or {}):
        return False
    below = [disk_of_loop(context, stratum.device) for stratum in context.survey.strata if stratum.device]
    if any(found is not None and found[1] == device for found in below):
        return False
    if "ops/block" not in context.case.columns:
        return True
    return not context.case.rows(
        f"SELECT 1 FROM block_ops WHERE device = {quoted(device)} AND {program_sql(context)} IN ({own_sql(context)}) LIMIT 1"
    )


@dataclass(frozen=True)
class _Hit:
    """Operations that an error made longer."""

    op_id: Ints
    begin_ns: Ints
    latency_ns: Ints
    #: What is typical of operations like each, ns.
    typical_ns: Floats
    which: str
    #: Part of what all slow operations of the device lost.
    held: float
    p_value: float
    read_off: bool
    #: The slowest of them.
    shown_sql: str


def _of_named(
    context: Context, survey: Survey, device: str, told: list[str], typical_ns: float
) -> Candidate | None:
    """Of operations that failed, and were given again until they did not: which they are stands in the events, so nothing is left to test."""
    if survey.layer != "block" or "offset_bytes" not in context.case.columns.get("ops/block", frozenset()):
        return None
    failed_sql = f"""SELECT DISTINCT m.op_id, m.op, m.start_ns, m.latency_ns FROM measured AS m
JOIN (SELECT time_ns, coalesce(TRY_CAST(regexp_extract(detail, 'at byte ([0-9]+)', 1) AS BIGINT),
    512 * TRY_CAST(regexp_extract(detail, 'at sector ([0-9]+)', 1) AS BIGINT)) AS offset_bytes
  FROM events WHERE kind IN ({KINDS}) AND subject = {quoted(device)}) AS e ON e.offset_bytes = m.offset_bytes
WHERE m.layer = 'block' AND m.device = {quoted(device)} AND e.time_ns BETWEEN m.start_ns AND m.start_ns + m.latency_ns + {ERROR_NOTICED_NS}
ORDER BY m.start_ns, m.op_id LIMIT {ERROR_OPERATIONS_MAX}"""
    failed = context.case.arrays(failed_sql)
    if not len(failed["op_id"]):
        return None
    ops = failed["op"].astype(str)
    usual = {op: survey.quantile_ns(survey.select(device, op), 0.5) for op in np.unique(ops).tolist()}
    begin, latency = failed["start_ns"].astype(np.int64), failed["latency_ns"].astype(np.int64)
    typical = np.array([usual[op] for op in ops.tolist()], np.float64)
    slow = context.case.arrays(_slow_sql(survey, device, ERROR_SLOW_RATIOS[-1] * typical_ns))
    slow_ns = float((slow["latency_ns"].astype(np.float64) - typical_ns).sum())
    lost_ns = float(np.maximum(0.0, latency - typical).sum())
    hit = _Hit(
        failed["op_id"].astype(np.int64),
        begin,
        latency,
        typical,
        "that failed",
        min(1.0, lost_ns / max(1.0, slow_ns, lost_ns)),
        0.0,
        True,
        f"SELECT * FROM ({failed_sql}) AS failed ORDER BY latency_ns DESC, op_id LIMIT 10",
    )
    return _of_hit(context, survey, device, told, hit)


def _beyond(
    context: Context, survey: Survey, device: str, told: list[str], typical_ns: float, ratio: float
) -> Candidate | None:
    least_ns = ratio * typical_ns
    slow = context.case.arrays(_slow_sql(survey, device, least_ns))
    times = context.case.arrays(
        f"SELECT time_ns FROM events WHERE kind IN ({KINDS}) AND subject = {quoted(device)} ORDER BY 1"
    )["time_ns"].astype(np.int64)
    begin = slow["start_ns"].astype(np.int64)
    latency = slow["latency_ns"].astype(np.int64)
    end: Ints = begin + latency + ERROR_NOTICED_NS
    hit = np.searchsorted(times, end, side="right") > np.searchsorted(times, begin, side="left")
    failed = np.nan_to_num(slow["error"].astype(np.float64)) != 0
    # Which of them failed themselves stands in the record: where these alone cost enough, nothing is left to test.
    is_read_off = _costs_enough(survey, latency[failed], typical_ns, begin[failed], end[failed])
    if is_read_off:
        hit = np.asarray(failed, np.bool_)
    if not hit.any():
        return None
    excess_ns = float((latency[hit] - typical_ns).sum())
    starts = context.case.arrays(
        f"""SELECT start_ns FROM measured WHERE layer = '{survey.layer}' AND device = {quoted(device)}
  AND {thinned(survey.operations)} ORDER BY 1"""
    )["start_ns"].astype(np.int64)
    span = (survey.begin_ns, survey.end_ns)
    which = "that failed" if is_read_off else "in which one of them fell"
    # As with what holds a single operation: errors that cover nearly all that its slow ones lost, and hardly anything else.
    held = excess_ns / max(1.0, float((latency - typical_ns).sum()))
    is_read_off |= held >= COVERS_MIN and elsewhere(begin, end, starts, span) <= ELSEWHERE_MAX
    # Two sets of slow operations may be looked at (Bonferroni).
    p_value = (
        0.0 if is_read_off else min(1.0, len(ERROR_SLOW_RATIOS) * error_p(times, begin, end, starts, span))
    )
    shown = _slow_sql(survey, device, least_ns).replace(str(ERROR_OPERATIONS_MAX), "10")
    of = (slow["op_id"].astype(np.int64)[hit], begin[hit], latency[hit], np.full(int(hit.sum()), typical_ns))
    return _of_hit(context, survey, device, told, _Hit(*of, which, held, p_value, is_read_off, shown))


def _of_hit(context: Context, survey: Survey, device: str, told: list[str], hit: _Hit) -> Candidate:
    end = hit.begin_ns + hit.latency_ns + ERROR_NOTICED_NS
    excess = np.maximum(0.0, hit.latency_ns - hit.typical_ns)
    number = episodes(hit.begin_ns, end)
    per_episode = np.bincount(number, excess).astype(np.float64) / max(1.0, survey.latency_ns)
    lost_sql = lost_values_sql(hit.op_id, excess)
    worse = None
    if survey.layer == context.layer:
        worse = p99_ratio(context, lost_sql)
    elif above := lost_above(context, survey, lost_sql):
        # With what waited behind them, where that is known.
        per_episode, worse = above[0] / max(1.0, context.survey.latency_ns), above[1]
    low, high = bootstrap_sum(per_episode)
    share = min(1.0, float(per_episode.sum()))
    happened = int(number.max()) + 1
    median_ns, usual_ns = float(np.median(hit.latency_ns)), float(np.median(hit.typical_ns))
    claim = (
        f"{device} had {words.listed(told)}. {words.things(len(hit.op_id), 'operation')} {hit.which} took "
        f"{words.duration(median_ns)} where {words.duration(usual_ns)} is typical: {words.percent(share)} of all latency."
    )
    if worse is not None and share < SHARE_OF_LATENCY_MIN and happened >= ERROR_EPISODES_MIN:
        claim += (
            f" Without these waits the 99th percentile would be {words.significant(worse)} times as short."
        )
    return Candidate(
        culprit=Culprit("device", device, "errors"),
        claim=claim,
        baseline="operations of the same device without errors",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=min(1.0, hit.held),
        share_of_latency=share,
        p_value=hit.p_value,
        basis="measured" if hit.read_off else "inferred",
        summed=hit.read_off,
        episodes=happened,
        evidence=[
            evidence(context.case, "errors, timeouts and resets", events_sql(device)),
            evidence(context.case, "the slowest operations", hit.shown_sql),
        ],
        refute="Exchange the cable or slot first, the device after that: errors that stay with the place are not the device's.",
        remedy=f"Read its log (smartctl -x /dev/{device}, nvme error-log, dmesg), save the data, and replace what is at fault; "
        f"`whodisk locate {device}` shows where it is.",
        otherwise=claim,
        explains=none_of(context.slow),
        # Sectors that can not be read lie where they lie: that slow operations are in one part of the device says the same.
        causes=(
            ("stage", "device"),
            ("device", device),
            *(("layout", f"place in part {part} of {PLACES}") for part in range(1, PLACES + 1)),
        ),
        large=large_enough(share, 1.0, median_ns / max(1.0, usual_ns), happened)
        or _by_tail(share, worse, happened),
        # A percentile that few episodes made says nothing of the next ones.
        p99_ratio=worse if happened >= ERROR_EPISODES_MIN else None,
    )


def _by_tail(share: float, worse: float | None, happened: int) -> bool:
    """Whether a small part of all latency makes the 99th percentile so much longer that it is an effect by itself."""
    return share >= SHARE_FOR_P99_MIN and happened >= ERROR_EPISODES_MIN and large_by_loss(share, worse)


def _costs_enough(survey: Survey, latency: Ints, typical_ns: float, begin: Ints, end: Ints) -> bool:
    """Whether these operations by themselves are worth an accusation."""
    if not len(latency):
        return False
    share = float((latency - typical_ns).sum()) / max(1.0, survey.latency_ns)
    ratio = float(np.median(latency)) / max(1.0, typical_ns)
    return large_enough(share, 1.0, ratio, int(episodes(begin, end).max()) + 1)


def error_p(times: Ints, begin: Ints, end: Ints, starts: Ints, span: tuple[int, int]) -> float:
    """Probability that errors fall into slow operations (from `begin` to `end`) this often, if these have nothing to do with each other.

    Errors come at any time of the `span`, or with any operation (`starts`, in order), whichever explains more: load comes in bursts, and errors and
    slow operations both come with it. Errors that are closer to each other than a typical slow operation is long count once. Where slow operations
    cover much of the time, it says more that errors come as one of them begins or ends (those of one moment count once): the better of the two, Bonferroni.
    """
    edges = np.concatenate((begin, end - ERROR_NOTICED_NS))
    # Errors that are closer than this to each other, and operations from then to then.
    where = (
        (float(np.median(end - begin)), begin, end),
        (2.0 * ERROR_AT_NS, edges - ERROR_AT_NS, edges + ERROR_AT_NS),
    )
    found = []
    for least_ns, from_ns, to_ns in where:
        first = times[np.concatenate(([True], np.diff(times) > least_ns))]
        inside = int(_inside(first, from_ns, to_ns).sum())
        found.append(probability.at_least(inside, len(first), elsewhere(from_ns, to_ns, starts, span)))
    return min(1.0, len(where) * min(found))


def elsewhere(begin: Ints, end: Ints, starts: Ints, span: tuple[int, int]) -> float:
    """The part of the `span`, or of the begins of all operations (`starts`), that lies in slow operations: the larger one."""
    window = np.array([span[0]]), np.array([span[1]])
    by_time = float(overlap(*window, begin, end)[0]) / max(1, span[1] - span[0])
    by_load = float(_inside(starts, begin, end).mean()) if len(starts) else 0.0
    return min(1.0, max(by_time, by_load))


def _inside(moments: Ints, begin: Ints, end: Ints) -> Bools:
    """Whether each moment lies in one of the intervals."""
    order = np.argsort(begin)
    reach = np.maximum.accumulate(end[order])
    last = np.searchsorted(begin[order], moments, side="right") - 1
    return np.asarray((last >= 0) & (reach[np.maximum(last, 0)] >= moments), np.bool_)


DETECTOR = Detector(
    name="device_errors",
    needs=("events.kind", "judged.latency_ns"),
    needs_stages=(),
    null_model="none for operations that failed themselves and cost enough, nor where errors lie in nearly all that slow operations of the device lost, and these in a twentieth of the time or "
    "less; for others: errors have nothing to do with slow operations: they fall into them, or to where one of them begins or ends, as often as these "
    "cover the time, or the begins of all operations",
    smallest_effect="5 % of all latency; or 1 % in at least 3 episodes of 10 x typical; or 0.2 % and a 99th percentile that is 10 % above that without them, in at "
    "least 5 episodes",
    run=run,
)
