"""Another program that works on the same device: a rebuild, a scrub, a backup, a neighbour.

Its presence is compared with its absence in the same recording: what is always there has no baseline, and accuses nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import (
    P99_RATIO_MIN,
    SHARE_OF_LATENCY_MIN,
    Candidate,
    Context,
    Detector,
    Result,
    evidence,
    none_of,
)
from whodisk.findings import Culprit, Effect
from whodisk.programs import KERNEL_WORKER, programs_sql
from whodisk.stats import SEED, Bools, Floats, bootstrap_sum, placed, runs, spread_out, sum_of_runs
from whodisk.views import STAGES

BINS = 400
#: Operations per bin on average, and the fewest bins.
OPERATIONS_PER_BIN = 10
BINS_MIN = 40
#: It must be absent from, and present in, this part of the time; and come so many times.
PRESENT_MIN, PRESENT_MAX = 0.01, 0.85
TIMES_MIN = 3
#: It must move this part of all bytes, or make this part of the requests, while it is there: who writes a log line is no load.
MOVED_MIN = 0.1
ROUNDS = 1999


@dataclass(frozen=True)
class Work:
    """A program's presence, and what operations cost then."""

    comm: str
    times: int
    present: Bools
    bytes: float
    #: Mean latency while it is there and while it is not, ns.
    with_ns: float
    without_ns: float
    p99_with_ns: float
    p99_without_ns: float
    #: Latency beyond that of its absence, per time it came, ns.
    excess_ns: Floats
    p_value: float


def run(context: Context) -> Result:
    """A candidate for each program whose presence slows the judged operations."""
    result = Result()
    if context.layer not in ("app", "syscall") or "block" not in context.surveys:
        return result
    bins = int(min(BINS, context.survey.operations // OPERATIONS_PER_BIN))
    if bins < BINS_MIN:
        return result
    data = context.case.arrays(programs_sql(context, bins))
    names = sorted({str(name) for name in data["comm"]})
    everybody = _per_bin(data, np.ones(len(data["bin"]), np.bool_), bins)
    latency = _latency(context, bins)
    work = [w for name in names if (w := _work(context, data, name, everybody, *latency)) is not None]
    result.candidates += [_candidate(context, bins, w) for w in work]
    return result


def _latency(context: Context, bins: int) -> tuple[Floats, Floats]:
    """Sum of the latencies of the judged operations that begin in each time bin, ns, and their count."""
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(bins)} AS bin, sum(latency_ns) AS latency_ns, count(*) AS n
FROM measured WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 1"""
    )
    return placed(data["bin"], data["latency_ns"], bins), placed(data["bin"], data["n"], bins)


def _work(
    context: Context,
    data: dict[str, np.ndarray],
    name: str,
    everybody: tuple[Floats, Floats],
    total: Floats,
    count: Floats,
) -> Work | None:
    mine = data["comm"] == name
    if KERNEL_WORKER.fullmatch(name) or data["own"][mine].any():
        return None
    bins = len(total)
    size, requests = own = _per_bin(data, mine, bins)
    present = np.asarray(requests > 0, np.bool_)
    # A quiet bin between two busy ones is no absence.
    present[1:-1] |= present[:-2] & present[2:]
    part = float(present.mean())
    # Its part of what all programs did while it was there.
    moved = max(
        float(its.sum() / max(1.0, all_[present].sum())) for its, all_ in zip(own, everybody, strict=True)
    )
    if not PRESENT_MIN <= part <= PRESENT_MAX or moved < MOVED_MIN:
        return None
    begin, end = runs(present)
    if len(begin) < TIMES_MIN:
        return None
    with_ns, without_ns = _mean(total, count, present), _mean(total, count, ~present)
    if without_ns <= 0 or with_ns <= without_ns:
        return None
    beyond = np.where(present, total - count * without_ns, 0.0)
    p99 = _p99s(context, bins, present)
    return Work(
        comm=name,
        times=len(begin),
        present=present,
        bytes=float(size.sum()),
        with_ns=with_ns,
        without_ns=without_ns,
        p99_with_ns=p99[0],
        p99_without_ns=p99[1],
        excess_ns=np.maximum(0.0, sum_of_runs(beyond, begin, end)),
        p_value=_p_value(total, count, begin, end - begin),
    )


def _per_bin(data: dict[str, np.ndarray], chosen: Bools, bins: int) -> tuple[Floats, Floats]:
    """Bytes and requests of the chosen rows, per time bin."""
    place = data["bin"][chosen].astype(np.int64)
    size, requests = (
        np.bincount(place, data[column][chosen].astype(np.float64), bins).astype(np.float64)
        for column in ("bytes", "requests")
    )
    return size, requests


def _mean(total: Floats, count: Floats, chosen: Bools) -> float:
    return float(total[chosen].sum() / max(1.0, count[chosen].sum()))


def _p99s(context: Context, bins: int, present: Bools) -> tuple[float, float]:
    """99th percentile of all operations, and of those that began in its absence, ns; from at most a million of them."""
    thin = max(1, context.survey.operations // 1_000_000)
    ops = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(bins)} AS bin, latency_ns FROM measured
WHERE layer = '{context.layer}' AND op_id % {thin} = 0 ORDER BY op_id"""
    )
    latency = ops["latency_ns"].astype(np.float64)
    away = ~present[ops["bin"].astype(np.int64)]
    if not away.any():
        return 0.0, 0.0
    return float(np.quantile(latency, 0.99)), float(np.quantile(latency[away], 0.99))


def _p_value(total: Floats, count: Floats, begin: np.ndarray, length: np.ndarray) -> float:
    """Probability that the same times in any order, at any distances, would meet operations as slow.

    Mean latency inside against outside; the free time between them is divided at random.
    """

    def slower(at: np.ndarray, lasting: np.ndarray) -> float:
        inside = np.zeros(bins + 1)
        np.add.at(inside, at, 1.0)
        np.add.at(inside, np.minimum(bins, at + lasting), -1.0)
        chosen: Bools = np.cumsum(inside)[:bins] > 0
        return _mean(total, count, chosen) - _mean(total, count, ~chosen)

    bins = len(total)
    observed = slower(begin, length)
    generator = np.random.default_rng(SEED)
    free = bins - int(length.sum())
    at_least = 0
    for _ in range(ROUNDS):
        order = generator.permutation(len(begin))
        cuts = np.sort(generator.integers(0, free + 1, len(begin)))
        drawn = spread_out(cuts, length[order])
        at_least += slower(drawn, length[order]) >= observed
    return (1 + at_least) / (1 + ROUNDS)


def _candidate(context: Context, bins: int, work: Work) -> Candidate:
    total = max(1.0, context.survey.latency_ns)
    share = min(1.0, float(work.excess_ns.sum()) / total)
    low, high = bootstrap_sum(work.excess_ns / total)
    worse = work.p99_with_ns / max(1.0, work.p99_without_ns)
    claim = (
        f"{work.comm} works on the same device ({words.things(work.times, 'time')}, {words.percent(float(work.present.mean()))} of "
        f"the time, {words.size(work.bytes)}), and operations take {words.duration(work.with_ns)} on average then, "
        f"{words.duration(work.without_ns)} otherwise: {words.percent(share)} of all latency. The 99th percentile is "
        f"{words.duration(work.p99_with_ns)}, without these times {words.duration(work.p99_without_ns)}."
    )
    return Candidate(
        culprit=Culprit("process", work.comm, "background work"),
        claim=claim,
        baseline=f"operations that began while {work.comm} did nothing on their devices",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        p_value=work.p_value,
        episodes=work.times,
        evidence=[
            evidence(
                context.case, "who read or wrote how much on the same devices", _bytes_sql(context, bins)
            )
        ],
        refute=f"Stop {work.comm} for a while: operations that stay slow are not its.",
        remedy=f"Let {work.comm} work at another time, on another device, or less at once: io.weight or io.max for its group, "
        "ionice -c3; for a rebuild or scrub sync_speed_max.",
        otherwise=claim,
        explains=none_of(context.slow),
        causes=tuple(("stage", stage) for stage in STAGES),
        # Where its times have a period, `burst` tells it.
        consequence=True,
        p99_ratio=worse,
        large=work.times >= TIMES_MIN and (share >= SHARE_OF_LATENCY_MIN or worse >= P99_RATIO_MIN),
    )


def _bytes_sql(context: Context, bins: int) -> str:
    return f"""SELECT comm, own, count(*) AS bins, sum(bytes) AS bytes FROM ({programs_sql(context, bins)}) AS p
GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2 LIMIT 20"""


DETECTOR = Detector(
    name="background_work",
    needs=("judged.start_ns", "judged.comm"),
    needs_stages=(),
    null_model="the same times of presence in any order and at any distances meet operations as slow",
    smallest_effect="5 % of all latency, or a 99th percentile 20 % above that without it; present at least three times, and "
    "absent at least 15 % of the time",
    run=run,
)
