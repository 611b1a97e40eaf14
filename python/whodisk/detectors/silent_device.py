"""A device without peers that pauses: it completes nothing for a while, although requests are under way.

Short pauses only double the latency of what is in flight, which no tail shows. But requests that a device works on side by side
end independently of each other: that none of many ends is what gives a pause away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    P99_RATIO_MIN,
    PAUSES_MIN,
    PAUSES_TOLD,
    SHARE_OF_LATENCY_MIN,
    SILENCES_MAX,
    SILENT_APART_P,
    SILENT_CHANCE_OCTAVES,
    SILENT_DEPTH_SHARE_MIN,
    SILENT_FAR,
    SILENT_KIND_MIN,
    SILENT_LIKELY,
    SILENT_LONGER,
    SILENT_PAUSE_P,
    SILENT_REQUESTS_MAX,
    SILENT_SHARE_MIN,
    SILENT_TIME_MIN,
    SILENT_UNDER_WAY_MIN,
    SILENT_UNLIKELIEST,
)
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import SOFTWARE_DEVICES, none_of
from whodisk.evidence.steal import mostly_stolen, steal_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Survey
from whodisk.evidence.thresholds import ORDINARY_WAIT_NS
from whodisk.findings import Culprit, Effect
from whodisk.machine.peers import without_peers
from whodisk.reading.views import BINS_PER_OCTAVE, quoted
from whodisk.statistics import probability
from whodisk.statistics.stats import (
    NARROW,
    Bools,
    Floats,
    Ints,
    TailSplit,
    bootstrap_sum,
    find_split,
    tail_p,
    touched,
)

#: Depth classes are numbers below this.
DEPTHS = 100


@dataclass(frozen=True)
class Requests:
    """Requests of one device, in order of their begin there; what each is like."""

    begin_ns: Ints
    end_ns: Ints
    #: Number of its kind and size, times `DEPTHS`, and of its depth.
    kind: Ints

    def __len__(self) -> int:
        return len(self.begin_ns)


@dataclass(frozen=True)
class Pauses:
    """Silences that requests ending independently of each other do not make."""

    begin_ns: Ints
    end_ns: Ints
    #: Requests under way in each, and the time that they spent in it together, ns.
    under_way: Ints
    lost_ns: Floats
    #: How long each was, ns: what a request under way waited on average.
    length_ns: Floats
    #: The usual silence: half of the time lies in shorter ones, ns.
    usual_ns: float
    p_value: float

    def __len__(self) -> int:
        return len(self.begin_ns)

    def pick(self, chosen: Bools) -> Pauses:
        """Some of them."""
        return Pauses(
            self.begin_ns[chosen],
            self.end_ns[chosen],
            self.under_way[chosen],
            self.lost_ns[chosen],
            self.length_ns[chosen],
            self.usual_ns,
            self.p_value,
        )


def run(context: Context) -> Result:
    """A candidate for each device without peers that pauses."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None:
        return result
    for device in without_peers(context, survey, SILENT_KIND_MIN):
        # Where interrupts were not observed, what is known of the device has to tell that it is no disk that chooses whom it serves.
        if "interrupt" not in survey.stages_observed and not _is_known(context, device):
            continue
        pauses = find_pauses(_requests(context, survey, device))
        if device.startswith(SOFTWARE_DEVICES):
            # Its worker threads need a CPU, and none may be free.
            pauses = pauses.pick(pauses.length_ns > ORDINARY_WAIT_NS)
        if not len(pauses):
            continue
        steal = steal_of(context.case, context.survey)
        if steal is not None:
            stolen = mostly_stolen(context.case, steal, pauses.begin_ns, pauses.end_ns)
            pauses = pauses.pick(~stolen)
        if len(pauses) < PAUSES_MIN:
            result.tested.append(pauses.p_value)
            continue
        candidate = _candidate(context, survey, device, pauses)
        # Many requests under way make much lost time of a few milliseconds in which a burst was served.
        if _far(pauses) or float(pauses.length_ns.sum()) >= SILENT_TIME_MIN * survey.span_ns:
            result.candidates.append(candidate)
        else:
            result.tested.append(pauses.p_value)
            result.observed.append(candidate.claim)
    return result


def _is_known(context: Context, device: str) -> bool:
    return device in (context.case.system.get("devices") or {})


def _far(pauses: Pauses) -> bool:
    """Whether they are far beyond what is usual, however little time they take together."""
    return float(np.median(pauses.length_ns)) >= SILENT_FAR * pauses.usual_ns


_ISSUED = "start_ns + coalesce(throttle_ns, 0) + coalesce(queue_ns, 0)"


def requests_sql(survey: Survey, device: str) -> str:
    """When the device got each request and when it was done with it, and what is like it."""
    operations = sum(s.operations for s in survey.select(device))
    part = min(1.0, SILENT_REQUESTS_MAX / max(1, operations))
    until = "" if part >= 1 else f" AND start_ns < {survey.begin_ns + int(part * survey.span_ns)}"
    return f"""SELECT {_ISSUED} AS begin_ns, {_ISSUED} + device_ns AS end_ns,
  (hash(op) % 1000003 * 1000003 + ({SIZE_CLASS} + 1)) * {DEPTHS} + ({DEPTH_CLASS} + 1) AS kind
FROM measured WHERE layer = 'block' AND device = {quoted(device)} AND device_ns IS NOT NULL{until}
ORDER BY 1, op_id"""


def _requests(context: Context, survey: Survey, device: str) -> Requests:
    data = context.case.arrays(requests_sql(survey, device))
    return Requests(*(data[name].astype(np.int64) for name in ("begin_ns", "end_ns", "kind")))


def find_pauses(requests: Requests) -> Pauses:
    """Silences between two completions that are no chance.

    Null model: requests under way end independently of each other, each as those of its kind, size and depth do. The
    chance of a silence is then the product of their chances to last through it, given how old they were when it began. Bonferroni over
    all silences with two requests under way. A device that completes in batches, or serves one request after the other, is none
    of which that holds: so pauses are also longer than usual, and a group of their own, not the tail of its silences. Both tests have to reject.
    """
    if len(requests) < SILENT_KIND_MIN:
        return _none()
    done = np.sort(requests.end_ns)
    since, until = done[:-1], done[1:]
    under_way = np.searchsorted(requests.begin_ns, until, side="left") - np.arange(1, len(done))
    # Between each completion and the next.
    lost = np.diff(_time_under_way(requests.begin_ns, done, done))
    several = under_way >= SILENT_UNDER_WAY_MIN
    length = np.where(several, lost / np.maximum(under_way, 1), 0.0)
    usual_ns = _usual(length[several])
    split = _split(length[several] / max(usual_ns, 1.0))
    least_ns = max(SILENT_LONGER, split.limit if split else 0.0) * usual_ns
    worst = np.flatnonzero(several & (length >= least_ns))
    worst = np.sort(worst[np.argsort(-lost[worst], kind="stable")[:SILENCES_MAX]])
    lasting = _Lasting(requests)

    def log_chance(places: Ints) -> Floats:
        return np.array(
            [lasting.log_chance(int(since[i]), int(until[i]), int(under_way[i])) for i in places], np.float64
        )

    chance = log_chance(worst)
    rare = SILENT_PAUSE_P / max(1, int(several.sum()))
    is_pause = chance <= np.log(rare)
    if split is not None:
        apart_p = tail_p(split, length[worst[is_pause]] / max(usual_ns, 1.0))
    else:
        # No group by their length. By how unlikely they are: what is under way at a device that completes in batches always ends together.
        others = np.flatnonzero(several & ~np.isin(np.arange(len(several)), worst))
        others = others[:: max(1, len(others) // SILENCES_MAX)]
        each = max(1, round((int(several.sum()) - len(worst)) / max(1, len(others))))
        unlikely = np.concatenate((-chance, np.repeat(-log_chance(others), each))).clip(SILENT_LIKELY)
        ranked = -chance
        split, least_p = find_split(*_histogram(unlikely)), 1.0
        if split is None:
            # Chances themselves: of independent ends as many are twice as unlikely as half as many.
            ranked, unlikely = (np.exp(values.clip(max=SILENT_UNLIKELIEST)) for values in (ranked, unlikely))
            split, least_p = find_split(*_histogram(unlikely), widths=SILENT_CHANCE_OCTAVES), SILENT_APART_P
        if split is None:
            return _none()
        is_pause &= ranked >= split.limit
        apart_p = tail_p(split, ranked[is_pause])
        if apart_p > least_p:
            return _none()
    chosen = worst[is_pause]
    return Pauses(
        # Before, fewer were under way, or none.
        begin_ns=(until[chosen] - length[chosen]).astype(np.int64),
        end_ns=until[chosen],
        under_way=under_way[chosen].astype(np.int64),
        lost_ns=lost[chosen],
        length_ns=length[chosen],
        usual_ns=usual_ns,
        p_value=max(probability.at_least(len(chosen), int(several.sum()), rare), apart_p),
    )


def _split(ratio: Floats) -> TailSplit | None:
    """Where silences fall apart into the usual ones and a group of longer ones."""
    if not len(ratio):
        return None
    values, number = _histogram(ratio)
    return find_split(values, number) or find_split(values, number, widths=NARROW)


def _histogram(values: Floats) -> tuple[Floats, Ints]:
    bins, counts = np.unique(
        np.floor(np.log2(values[values > 0]) * BINS_PER_OCTAVE).astype(np.int64), return_counts=True
    )
    return np.exp2((bins + 0.5) / BINS_PER_OCTAVE), counts.astype(np.int64)


def _usual(length_ns: Floats) -> float:
    """The silence in which a random moment usually lies, ns."""
    if not len(length_ns):
        return 0.0
    ordered = np.sort(length_ns)
    passed = np.cumsum(ordered)
    return float(ordered[int(np.searchsorted(passed, 0.5 * passed[-1]))])


def _none() -> Pauses:
    empty = np.zeros(0, np.int64)
    return Pauses(empty, empty, empty, np.zeros(0), np.zeros(0), 0.0, 1.0)


def _time_under_way(begin_ns: Ints, end_ns: Ints, moments_ns: Ints) -> Floats:
    """Time that all operations together had been under way until each moment, ns. Both ends in rising order."""
    origin = int(begin_ns[0])
    begin, end, moments = ((part - origin).astype(np.float64) for part in (begin_ns, end_ns, moments_ns))
    total = np.zeros(len(moments))
    for edges, sign in ((begin, 1.0), (end, -1.0)):
        passed = np.searchsorted(edges, moments)
        total += sign * (passed * moments - np.concatenate(([0.0], np.cumsum(edges)))[passed])
    return total


def _kinds(kind: Ints) -> Ints:
    """The same with depths that were rare put together."""
    whole, place, number = np.unique(kind // DEPTHS, return_inverse=True, return_counts=True)
    names, which, count = np.unique(kind, return_inverse=True, return_counts=True)
    rare = count[which] < SILENT_DEPTH_SHARE_MIN * number[place]
    return np.where(rare, whole[place] * DEPTHS, names[which]).astype(np.int64)


class _Lasting:
    """How long requests last, by kind, size and depth."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.names, self.kind = np.unique(_kinds(requests.kind), return_inverse=True)
        took = requests.end_ns - requests.begin_ns
        self.took = [np.sort(took[self.kind == number]) for number in range(len(self.names))]
        #: Of each kind, the logarithm of the part that lasts longer, by how many do; one more does.
        self.log_part = [np.log((np.arange(len(all_) + 1) + 1.0) / (len(all_) + 1.0)) for all_ in self.took]

    def log_chance(self, since_ns: int, until_ns: int, under_way: int) -> float:
        """Logarithm of the chance that none of the requests under way ends between two moments."""
        chosen = self._under_way(until_ns, under_way)
        begin, kind = self.requests.begin_ns[chosen], self.kind[chosen]
        chance = 0.0
        for number in np.flatnonzero(np.bincount(kind)).tolist():
            if len(self.took[number]) < SILENT_KIND_MIN:
                continue
            mine = begin[kind == number]
            chance += float(
                (self._lasts(number, until_ns - mine) - self._lasts(number, since_ns - mine)).sum()
            )
        return chance

    def _lasts(self, number: int, age_ns: Ints) -> Floats:
        """Logarithm of the part of the requests that last this long."""
        took = self.took[number]
        longer = len(took) - took.searchsorted(age_ns, side="left")
        return np.asarray(self.log_part[number][longer], np.float64)

    def _under_way(self, moment_ns: int, count: int) -> npt.NDArray[Any]:
        """Places of the requests that were begun before a moment and not done before it."""
        last = int(np.searchsorted(self.requests.begin_ns, moment_ns, side="left"))
        reach = 4 * count + 64
        while True:
            first = max(0, last - reach)
            found = first + np.flatnonzero(self.requests.end_ns[first:last] >= moment_ns)
            if len(found) >= count or first == 0:
                return found
            reach *= 4


def _p99s(context: Context, pauses: Pauses) -> tuple[float, float]:
    """99th percentile of all judged operations, and of those that no pause touched: not in flight in one, nor begun within its
    length after it, ns."""
    start, latency = context.operations
    untouched = ~touched(start, latency, pauses.begin_ns, pauses.end_ns)
    whole = float(np.quantile(latency, 0.99)) if len(latency) else 0.0
    return whole, float(np.quantile(latency[untouched], 0.99)) if untouched.any() else whole


def _lost(context: Context, survey: Survey, device: str, pauses: Pauses) -> Floats:
    """Part of all latency that lies in each pause. Where all that is judged goes to this device, what waited above it counts, too; else no more than
    its requests lost."""
    if survey.layer == context.layer:
        return pauses.lost_ns / max(1.0, survey.latency_ns)
    start, latency = context.operations
    order = np.argsort(start, kind="stable")
    begin, end = start[order], np.sort(start + latency)
    until, since = (_time_under_way(begin, end, moments) for moments in (pauses.end_ns, pauses.begin_ns))
    lost = np.asarray((until - since) / max(1.0, float(latency.sum())), np.float64)
    if {s.device for s in survey.strata} == {device}:
        return lost
    return np.minimum(lost, pauses.lost_ns / max(1.0, context.survey.latency_ns))


def _candidate(context: Context, survey: Survey, device: str, pauses: Pauses) -> Candidate:
    lost = _lost(context, survey, device, pauses)
    share = min(1.0, float(lost.sum()))
    low, high = bootstrap_sum(lost)
    p99_ns, without_ns = _p99s(context, pauses)
    worse = p99_ns / max(1.0, without_ns)
    claim = (
        f"{device} pauses: {words.things(len(pauses), 'time')} it completed none of {words.count(float(np.median(pauses.under_way)))} "
        f"requests under way for {words.duration(float(np.median(pauses.length_ns)))}, where {words.duration(pauses.usual_ns)} are usual: "
        f"{words.percent(share)} of all latency. The 99th percentile is {words.duration(p99_ns)}, of "
        f"the operations apart from these moments {words.duration(without_ns)}."
    )
    return Candidate(
        # Where interrupts were not recorded, a late one would be taken for a late device: then it is either.
        culprit=Culprit("device", device)
        if "interrupt" in survey.stages_observed
        else Culprit("stage", context.stage("device"), f"device:{device}"),
        claim=claim,
        baseline="requests of the same kind, size and depth that end independently of each other",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        p_value=pauses.p_value,
        episodes=len(pauses),
        evidence=[
            evidence(
                context.case,
                "the longest pauses, and the requests under way at their end",
                pauses_sql(device, pauses),
            )
        ],
        refute="Move the load to another device of another model: pauses that come along are not this device's.",
        remedy=f"Look at what {device} does by itself (garbage collection, firmware, media errors, temperature): its log pages, and "
        f"`whodisk locate {device}`; of a virtual disk, at its host.",
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(("stage", "device"),),
        consequence=True,
        large=share >= SHARE_OF_LATENCY_MIN or (share >= SILENT_SHARE_MIN and worse >= P99_RATIO_MIN),
        p99_ratio=worse,
    )


def pauses_sql(device: str, pauses: Pauses) -> str:
    """The longest of them, with the requests that were under way at the end of each."""
    longest = np.argsort(-pauses.length_ns, kind="stable")[:PAUSES_TOLD]
    listed = ", ".join(f"({pauses.begin_ns[at]}, {round(pauses.length_ns[at])})" for at in longest.tolist())
    return f"""SELECT p.begin_ns, p.silence_ns, count(*) AS under_way FROM (VALUES {listed}) AS p(begin_ns, silence_ns)
JOIN (SELECT {_ISSUED} AS issued_ns, {_ISSUED} + device_ns AS done_ns FROM measured WHERE layer = 'block' AND device = {quoted(device)} AND device_ns IS NOT NULL) AS r
  ON r.issued_ns < p.begin_ns + p.silence_ns AND r.done_ns >= p.begin_ns + p.silence_ns
GROUP BY 1, 2 ORDER BY 2 DESC, 1"""


DETECTOR = Detector(
    name="silent_device",
    needs=("ops/block.device_ns",),
    needs_stages=(),
    null_model="requests under way end independently of each other, each as those of its kind, size and depth do (Bonferroni over "
    "all times between two completions); and long times without a completion are the natural tail of the others",
    smallest_effect="5 pauses, and 5 % of all latency or a 99th percentile 20 % above that of the operations apart from them",
    run=run,
    needs_all=True,
)
