"""Stalls that come back at a period: checkpoints, jobs, cleaning up inside a drive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_enough
from whodisk.detectors.shared_devices import shared_devices
from whodisk.detectors.thresholds import (
    BURST_BINS_MAX,
    BURST_BINS_MIN,
    BURST_BUSIER_MIN,
    BURST_COVERED_MAX,
    BURST_DEVIATIONS,
    BURST_HARMONIC,
    BURST_INSIDE_MIN,
    BURST_LOAD_MIN,
    BURST_MET_MIN,
    BURST_MOVED_MIN,
    BURST_OPERATIONS_PER_BIN,
    BURST_P_MAX,
    BURST_REGULARITY_MIN,
    BURST_ROUNDS,
    BURST_SLOWER,
    BURST_STEPS,
    BURSTS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.programs import programs_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.thresholds import ORDINARY_WAIT_NS
from whodisk.findings import Culprit, Effect
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES, Row
from whodisk.statistics.draws import drawn_p
from whodisk.statistics.stats import (
    SEED,
    Bools,
    Floats,
    Ints,
    bootstrap_sum,
    overlap,
    runs,
    spread_out,
    sum_of_runs,
)

#: Bins that are shown as evidence.
MOMENTS_SHOWN = 20


@dataclass(frozen=True)
class Bursts:
    """Bursts in time bins."""

    bin_ns: float
    inside: Bools
    #: First bin and number of bins of each burst.
    begin: Floats
    length: Floats
    #: Latency beyond usual of each burst, ns.
    excess_ns: Floats
    #: Time in each burst during which slow operations were in flight, ns.
    slow_ns: Floats
    #: Typical latency in bursts over usual.
    ratio: float
    #: Operations that began per second in bursts, and between them.
    rate_per_s: tuple[float, float]
    #: What `_moments_sql` gives; empty: not known.
    moments: list[Row]

    @property
    def are_load(self) -> bool:
        """Whether much more was asked for in them: a stall makes nobody ask for more."""
        return self.rate_per_s[0] >= BURST_LOAD_MIN * self.rate_per_s[1]


def run(context: Context) -> Result:
    """One candidate if there are bursts with a period."""
    result = Result()
    bursts = _bursts(context)
    if bursts is None or len(bursts.begin) < BURSTS_MIN:
        return result
    period_bins, regularity, p_value = period(bursts.begin, bursts.length, len(bursts.inside))
    if p_value >= BURST_P_MAX:
        result.tested.append(p_value)
        return result
    result.candidates.append(_candidate(context, bursts, period_bins * bursts.bin_ns, regularity, p_value))
    return result


def _bins(context: Context) -> int:
    return int(min(BURST_BINS_MAX, context.survey.operations // BURST_OPERATIONS_PER_BIN))


def _bursts(context: Context) -> Bursts | None:
    bins, survey = _bins(context), context.survey
    if bins < BURST_BINS_MIN:
        return None
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(bins)} AS bin, op, sum(latency_ns) AS latency_ns, count(*) AS n,
  min(start_ns) AS begin_ns, max(latency_ns) AS max_ns
FROM measured WHERE layer = '{context.layer}' GROUP BY 1, 2 ORDER BY 1, 2"""
    )
    usual_of = {op: survey.quantile_ns(survey.select(op=op), 0.5) for op in {s.op for s in survey.strata}}
    place = data["bin"].astype(np.int64)
    latency = np.bincount(place, data["latency_ns"].astype(np.float64), bins)
    usual = np.bincount(place, data["n"] * np.array([usual_of.get(str(op), 0.0) for op in data["op"]]), bins)
    known = usual > 0
    ratio = np.where(known, latency / np.maximum(usual, 1.0), np.nan)
    base = float(np.nanmedian(ratio))
    spread = 1.4826 * float(np.nanmedian(np.abs(ratio - base)))
    inside = np.nan_to_num(ratio, nan=0.0) > base + max(BURST_SLOWER * base, BURST_DEVIATIONS * spread)
    # One quiet bin inside a burst does not end it.
    joined = inside.copy()
    joined[1:-1] |= inside[:-2] & inside[2:]
    if not joined.any() or joined.mean() > BURST_COVERED_MAX:
        return None
    begin, end = runs(joined)
    counts = np.bincount(place, data["n"].astype(np.float64), bins) * bins * 1e9 / survey.span_ns
    excess = np.where(joined & known, np.maximum(0.0, latency - base * usual), 0.0)
    return Bursts(
        bin_ns=survey.span_ns / bins,
        inside=joined,
        begin=begin.astype(np.float64),
        length=(end - begin).astype(np.float64),
        excess_ns=sum_of_runs(excess, begin, end),
        slow_ns=_slow_ns(context, usual_of, bins, begin, end),
        ratio=float(np.nanmedian(ratio[inside])) / max(base, 1e-9),
        rate_per_s=(float(counts[joined].mean()), float(counts[~joined].mean())),
        moments=_moments(data),
    )


def _moments(data: dict[str, npt.NDArray[Any]]) -> list[Row]:
    """The rows of `_moments_sql`, which would be another pass over all operations; none where a sum is too large for a double to be exact."""
    bins, begins = np.unique(data["bin"].astype(np.int64), return_index=True)
    # They are in order of their bins.
    latency_ns = np.add.reduceat(data["latency_ns"].astype(np.float64), begins)
    if not latency_ns.max() < 2**53:
        return []
    operations = np.add.reduceat(data["n"].astype(np.int64), begins)
    mean_ns = np.rint(latency_ns / operations).astype(np.int64)
    begin_ns = np.minimum.reduceat(data["begin_ns"].astype(np.int64), begins)
    max_ns = np.maximum.reduceat(data["max_ns"].astype(np.int64), begins)
    slowest = np.lexsort((bins, -mean_ns))[:MOMENTS_SHOWN]
    columns = {
        "bin": bins,
        "begin_ns": begin_ns,
        "operations": operations,
        "mean_ns": mean_ns,
        "max_ns": max_ns,
    }
    return [{name: int(values[at]) for name, values in columns.items()} for at in slowest]


def _slow_ns(context: Context, usual_of: dict[str, float], bins: int, begin: Ints, end: Ints) -> Floats:
    """Time in each burst during which an operation was in flight that took longer than usual: where few operations are done, one that
    waited for a moment makes a whole bin slow."""
    survey, sample = context.survey, context.sample
    limits = np.array([round((1 + BURST_SLOWER) * usual_of[op]) for op in sample.ops], np.int64)
    slow = sample.latency_ns > limits[sample.kind]
    start, latency = sample.start_ns[slow], sample.latency_ns[slow]
    since, until = (
        np.asarray(survey.begin_ns + edge * (survey.span_ns / bins), np.float64) for edge in (begin, end)
    )
    return overlap(since, until, start, start + latency)


def period(begin: Floats, length: Floats, bins: int) -> tuple[float, float, float]:
    """(period in bins, regularity 0 to 1, p value) of bursts.

    Rayleigh's test, its maximum over all periods from twice the length of a burst to a quarter of the recording. Null
    model: the same bursts in any order and with any distances, not overlapping (their free time is divided at random).
    """
    shortest = max(2.0, 2.0 * float(np.median(length)))
    # Many bins and short bursts: more frequencies than anybody can test; bursts have to be that rare anyway.
    highest = min(1.0 / shortest, 2.0 * len(begin) / bins)
    steps = np.arange(4 * BURST_STEPS, int(highest * bins * BURST_STEPS) + 1)
    if not len(steps):
        return 0.0, 0.0, 1.0
    observed = _regularity(begin, bins)[steps]
    best = float(observed.max())
    generator = np.random.default_rng(SEED)
    count = len(begin)
    free = max(1.0, bins - float(length.sum()))
    at_least = done = 0
    largest = np.zeros(BURST_ROUNDS)
    # It ends early once it cannot be significant any more (Besag and Clifford, Biometrika 1991).
    while done < BURST_ROUNDS and 1 + at_least < BURST_P_MAX * (1 + BURST_ROUNDS):
        cuts = np.sort(generator.uniform(0, free, count))
        order = generator.permutation(count)
        drawn = spread_out(cuts, length[order])
        largest[done] = _regularity(drawn, bins)[steps].max()
        at_least += bool(largest[done] >= best)
        done += 1
    chosen = steps[int(np.argmax(observed >= BURST_HARMONIC * best))] / (bins * BURST_STEPS)
    return 1.0 / float(chosen), best, drawn_p(largest[:done], best)


def _regularity(begin: Floats, bins: int) -> Floats:
    """Length of the mean direction of the onsets on a circle, for the frequencies k / (BURST_STEPS * bins), k = 0, 1, ..."""
    onsets = np.bincount(np.minimum(begin.astype(np.int64), bins - 1), minlength=BURST_STEPS * bins)
    return np.asarray(np.abs(np.fft.rfft(onsets)) / len(begin), np.float64)


def _companion(context: Context, bursts: Bursts) -> tuple[str, float, float] | None:
    """(program, part of its bytes inside bursts, bytes) of another program that works when the bursts are, in those that hold most of what they
    cost: who works now and then is not the reason of bursts that come without it, nor who works all the time of any."""
    if context.layer != "app" or "block" not in context.surveys:
        return None
    data = context.case.arrays(programs_sql(context, len(bursts.inside), shared_devices(context)))
    wide = bursts.inside.copy()
    wide[1:] |= bursts.inside[:-1]
    wide[:-1] |= bursts.inside[1:]
    covered = float(wide.mean())
    everybody = float(data["bytes"].astype(np.float64)[wide[data["bin"].astype(np.int64)]].sum())
    best: tuple[str, float, float] | None = None
    others = {str(name) for name in data["comm"][~data["own"].astype(np.bool_)]}
    for comm in sorted(name for name in others if not is_kernel_thread(context.case, name)):
        mine = data["comm"] == comm
        size = data["bytes"][mine].astype(np.float64)
        within = float(size[wide[data["bin"][mine].astype(np.int64)]].sum())
        total = float(size.sum())
        there = np.zeros(len(bursts.inside) + 2, np.bool_)
        there[data["bin"][mine].astype(np.int64) + 1] = True
        met = np.array(
            [
                there[b : b + n + 2].any()
                for b, n in zip(bursts.begin.astype(int), bursts.length.astype(int), strict=True)
            ]
        )
        if float(bursts.excess_ns[met].sum()) < BURST_MET_MIN * float(bursts.excess_ns.sum()):
            continue
        # Short bursts and what is next to them may cover most of the time: who works all the time does most of its work there.
        if within * (1 - covered) < BURST_BUSIER_MIN * (total - within) * covered:
            continue
        if within >= max(BURST_INSIDE_MIN * total, BURST_MOVED_MIN * everybody, 1.0) and (
            best is None or total > best[2]
        ):
            best = (comm, within / total, total)
    return best


def _candidate(
    context: Context, bursts: Bursts, period_ns: float, regularity: float, p_value: float
) -> Candidate:
    total_ns = max(1.0, context.survey.latency_ns)
    share = float(bursts.excess_ns.sum()) / total_ns
    low, high = bootstrap_sum(bursts.excess_ns / total_ns)
    companion = _companion(context, bursts)
    count = len(bursts.begin)
    inside, between = (words.significant(rate) for rate in bursts.rate_per_s)
    comes = (
        f"More is asked for ({inside} operations per second instead of {between})"
        if bursts.are_load
        else "Operations stall"
    )
    claim = (
        f"{comes} again and again, every {words.duration(period_ns)} ({words.things(count, 'burst')}, "
        f"{words.duration(float(np.median(bursts.length)) * bursts.bin_ns)} each, {words.significant(bursts.ratio)} times the usual "
        f"latency, regularity {words.significant(regularity, 2)} of 1): {words.percent(share)} of all latency"
    )
    if companion:
        claim += f". {companion[0]} does {words.percent(companion[1])} of its I/O ({words.size(companion[2])}) in these moments"
    name = companion[0] if companion else f"every {words.duration(period_ns)}"
    return Candidate(
        culprit=Culprit("time_pattern", name, f"process:{companion[0]}" if companion else None),
        claim=claim + ".",
        baseline="the time between the bursts",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=min(1.0, share),
        share_of_latency=share,
        p_value=p_value,
        episodes=count,
        evidence=[
            replace(evidence(context.case, "the slowest moments", _moments_sql(context)), rows=bursts.moments)
        ],
        refute=f"Stop {name} for a few periods: bursts that stay are not its."
        if companion
        else "Let whoever asks for more at this period ask for the same evenly: if operations take as long, it was not the load."
        if bursts.are_load
        else "Record for a multiple of the period while whatever runs at it (jobs, checkpoints, timers) is stopped.",
        remedy=f"Spread {name}'s work (smaller and more frequent checkpoints, io.weight or io.max for its group), or move it to "
        "another device."
        if companion
        else "Look for who asks for more at this period (checkpoints, timers, cron, writeback), and spread that over time."
        if bursts.are_load
        else "Look for what has this period: checkpoints, timers, cron, journal commits, cleaning up inside the drive.",
        otherwise=claim + ".",
        explains=none_of(context.slow),
        causes=tuple(("stage", stage) for stage in STAGES) if companion else (),
        consequence=companion is None,
        joins=(
            *(("stage", stage) for stage in STAGES),
            *((kind, "*") for kind in ("process", "device", "vector", "config")),
        ),
        unless=f"but with a regularity of {words.significant(regularity, 2)} of 1, and {words.duration(float(np.median(bursts.slow_ns)))} each, this is too "
        "irregular, or too short, to look for its source"
        if low > 0
        else "but a few of the bursts may have cost all of it, which is no pattern",
        # A shorter one may be another thread's turn on a CPU, which may recur by itself on a busy machine.
        # Where the interval over bursts includes no cost at all, a few of them made it.
        large=low > 0
        and large_enough(share, 1.0, bursts.ratio, count)
        and regularity >= BURST_REGULARITY_MIN
        and float(np.median(bursts.slow_ns)) >= ORDINARY_WAIT_NS,
    )


def _moments_sql(context: Context) -> str:
    bins = _bins(context)
    return f"""SELECT {context.survey.time_bin_sql(bins)} AS bin, min(start_ns) AS begin_ns, count(*) AS operations,
  CAST(avg(latency_ns) AS BIGINT) AS mean_ns, max(latency_ns) AS max_ns
FROM measured WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 4 DESC, 1 LIMIT {MOMENTS_SHOWN}"""


DETECTOR = Detector(
    name="burst",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=(),
    null_model="the same bursts in any order and at any distances: Rayleigh's test, its maximum over all periods",
    smallest_effect="5 % of all latency; or 1 % in bursts of 10 x the usual latency; at least 5 bursts",
    run=run,
)
