"""A device that completes nothing for a while, by sampled counters: it counts as busy all the time, so requests are in flight, and none of them ends."""

from __future__ import annotations

from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.stuck_devices import Stuck, samples_sql
from whodisk.findings import Culprit, Effect
from whodisk.reading.views import quoted


def run(context: Context) -> Result:
    """A candidate for each device that works at other times; one that never does is described."""
    result = Result()
    for stuck in context.stuck:
        if stuck.works:
            result.candidates.append(_candidate(context, stuck))
            continue
        result.caveats.append(
            (
                f"whether {stuck.name} hangs",
                "it never works and rests in this log: it hangs, or the kernel counts requests that are long gone",
            )
        )
    return result


def _candidate(context: Context, stuck: Stuck) -> Candidate:
    claim = stuck.said
    span_ns = max(1, context.case.duration_ns or 1, stuck.length_ns)
    share = stuck.length_ns / span_ns
    sql = f"""SELECT host, subject, time_ns, busy, depth, per_s FROM ({samples_sql()}) AS samples
WHERE stuck AND subject = {quoted(stuck.device)} AND host = {quoted(stuck.host)} ORDER BY time_ns LIMIT 20"""
    return Candidate(
        culprit=Culprit("device", stuck.name),
        claim=claim,
        baseline="the same device in its other samples, in which requests complete",
        effect=Effect("part of the time", share, "1", share, share),
        share_of_excess=share,
        share_of_latency=share,
        # That nothing completed is read off the log.
        p_value=0.0,
        basis="measured",
        summed=True,
        episodes=stuck.times,
        evidence=[evidence(context.case, "samples in which nothing completed", sql)],
        refute="Look for a long flush or discard at that time, which a log without these columns does not count: then it was at work. Else record its requests the next time: whodisk record --ring 60s --trigger 'latency > 1s'.",
        remedy=f"Look at the kernel's log of that time (timeouts, resets, link errors of {stuck.device}) and at the device's own error log; look at what is below it, if it is virtual or behind a controller.",
        otherwise=claim,
        explains=none_of(context.slow),
        large=True,
    )


DETECTOR = Detector(
    name="stuck_device",
    needs=("series.value",),
    needs_stages=(),
    null_model="none: how many operations completed, and how busy it was, stands in the log",
    smallest_effect="three samples on end without a completion, and 95 % of the time busy",
    run=run,
)
