"""What is true of a run, from the program's own log and the injector's: known before anything is solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.accuracy.referee.apart import (
    ALPHA,
    GAP_RATIO_MIN,
    MEDIANS_MIN,
    OUTLIERS_MAX,
    maxima_of_episodes,
    standing_apart,
)
from tests.accuracy.referee.faults import Injection, Window
from tests.accuracy.referee.ranks import LEVEL, PAIRS_MIN, differs, worse_chance
from whodisk.programs.base import Log

#: DESIGN 8: a cause makes a run slow if it costs this part of all latency, ...
COST_SHARE = 0.05
#: ... or makes p99 or throughput this many times worse.
WORSE_RATIO = 1.2
#: Within this factor of a limit neither side of it is wrong: the program's own figures are no surer than that.
BAND = 1.25
#: An operation was hit if it spent this part of its time while something was injected.
HIT_SHARE = 0.5
#: Where injections cover more of the time than this, what was not hit is no picture of a run without them.
SPARSE_SHARE = 0.3
#: After a switch, what was begun before still goes on: so much of each window is not counted.
GUARD_NS = 100_000_000
#: What was injected for so long cannot have cost more than so many times as much: the rest of a difference is chance.
KNOCK_ON = 2.0
#: Of kinds with fewer operations no p99 is told.
P99_OPERATIONS_MIN = 200

SLOW, OUTLIERS, LIMITED, HEALTHY = "slow", "outliers", "limited", "healthy"

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Own:
    """A program's own log as columns, in order of begin."""

    start_ns: Times
    latency_ns: Times
    kind: NDArray[np.str_]

    @property
    def end_ns(self) -> Times:
        """End of each operation."""
        return self.start_ns + self.latency_ns


def columns(log: Log, *, may_be_empty: bool = False) -> Own:
    """Columns of a log. Raises ValueError if it is empty and may not be: then nothing is known of the run."""
    if not log.start_ns and not may_be_empty:
        raise ValueError("expected operations in the program's own log, found none; run it longer")
    order = np.argsort(np.array(log.start_ns), kind="stable")
    return Own(
        np.array(log.start_ns, dtype=np.int64)[order],
        np.array(log.latency_ns, dtype=np.int64)[order],
        np.array(log.kind, dtype=np.str_)[order],
    )


@dataclass
class Severity:
    """How much worse a fault made it, by the program's own figures. Ratios: with it / without it; 1 = nothing."""

    p99_ratio: float
    throughput_ratio: float
    cost_share: float
    #: `hit operations` or `pairs`.
    source: str

    def beyond(self, factor: float) -> bool:
        """Whether it is `slow` where limits are that many times as high."""
        worse = 1 + (WORSE_RATIO - 1) * factor
        return self.cost_share >= COST_SHARE * factor or max(self.p99_ratio, self.throughput_ratio) >= worse


@dataclass
class Truth:
    """What is true of one run."""

    #: How often the injector's log says that it hit within the time of the program's log; None without a fault.
    hits: int | None
    #: Whether the fault counts (DESIGN 11), and why; false without a fault.
    counts: bool
    why: str
    #: Any of these is the right status.
    statuses: list[str]
    #: Whether a right verdict must name the culprit first: it counts, and does enough to be told.
    must_name: bool
    operations: int
    latency_ns: int
    #: Part of the time of the program's log in which something was injected; and how long that was within single
    #: operations (99.5th percentile: what touches fewer moves no p99).
    injected_share: float = 0.0
    injected_ns_p99: float = 0.0
    #: Slowest first, at most five: begin, latency, kind, and whether it was hit.
    apart: list[dict[str, Any]] = field(default_factory=list)
    #: Nothing that it hit stands apart by the tail alone, but the slowest were all hit (`_slowest_are_hit`): `outliers` is right, too.
    slowest_hit: bool = False
    severity: dict[str, Any] | None = None
    #: Chances of the rank tests, by what was compared.
    pairs: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a plain object."""
        return asdict(self)


def covered_ns(own: Own, injections: Sequence[Injection]) -> NDArray[np.int64]:
    """How much of each operation's time something was being injected."""
    merged: list[list[int]] = []
    for each in sorted(injections, key=lambda injection: injection.start_ns):
        if merged and each.start_ns <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], each.end_ns)
        else:
            merged.append([each.start_ns, each.end_ns])
    if not merged:
        return np.zeros(len(own.start_ns), dtype=np.int64)
    edges = np.array(merged, dtype=np.int64)
    lengths = edges[:, 1] - edges[:, 0]
    before = np.concatenate([[0], lengths.cumsum()])

    def until(at: Times) -> Times:
        """Injected time before these moments."""
        place = np.searchsorted(edges[:, 0], at, side="right")
        last = np.maximum(place - 1, 0)
        open_ns = np.maximum(edges[last, 1] - at, 0)
        return np.where(place > 0, before[place] - open_ns, 0)

    return until(own.end_ns) - until(own.start_ns)


def of_run(own: Own, injections: Sequence[Injection] | None) -> tuple[Truth, bool]:
    """Truth of a run by itself; `injections` is None without a fault. Also: whether pairs are needed to know more."""
    apart = standing_apart(own.start_ns, own.latency_ns, own.kind)
    apart.sort(key=lambda index: -own.latency_ns[index])
    begin, end = int(own.start_ns.min()), int(own.end_ns.max())
    within = [i for i in injections or [] if i.end_ns > begin and i.start_ns < end]
    covered = covered_ns(own, within)
    hit = (covered >= HIT_SHARE * own.latency_ns) & (covered > 0)
    truth = Truth(
        hits=None if injections is None else len(within),
        counts=False,
        why="no fault" if injections is None else "it hit nothing" if not within else "",
        statuses=_natural(own, apart),
        must_name=False,
        operations=len(own.start_ns),
        latency_ns=int(own.latency_ns.sum()),
        apart=[
            {
                "start_ns": int(own.start_ns[index]),
                "latency_ns": int(own.latency_ns[index]),
                "kind": str(own.kind[index]),
                "hit": bool(hit[index]),
            }
            for index in apart[:5]
        ],
    )
    if not within:
        return truth, False
    whole = Own(np.array([begin]), np.array([end - begin]), np.array([""]))
    truth.injected_share = float(covered_ns(whole, within)[0]) / (end - begin)
    truth.injected_ns_p99 = float(np.percentile(covered, 99.5))
    sparse = truth.injected_share < SPARSE_SHARE
    struck = sum(bool(hit[index]) for index in apart)
    # What stands apart by itself lies in what is injected for much of the time, too.
    by_chance = not sparse and stats.binom.sf(struck - 1, len(apart), truth.injected_share) > LEVEL
    if not struck or by_chance:
        truth.why = "no operation that it hit stands apart"
        if struck:
            truth.why = f"{struck} of {len(apart)} that stand apart lie in what was injected, as by chance"
        truth.slowest_hit = sparse and _slowest_are_hit(own, hit, truth.injected_share)
        if truth.slowest_hit and OUTLIERS not in truth.statuses:
            truth.statuses = [OUTLIERS, *truth.statuses]
        return truth, True
    truth.counts, truth.why = True, "an operation that it hit stands apart"
    if sparse:
        _judge_severity(truth, _of_hit(own, hit), stands_apart=True)
    return truth, not sparse


def of_failed_requests(own: Own, failed: int) -> Truth:
    """Truth of a run in which so many requests failed: the program may have ended of it, so no status is wrong, but it must be told.

    Raises ValueError if none failed and nothing is known of the run.
    """
    if not failed and not len(own.start_ns):
        raise ValueError("expected operations in the program's own log, found none, though no request failed")
    return Truth(
        hits=failed,
        counts=failed > 0,
        why="requests failed" if failed else "it hit nothing",
        statuses=[SLOW, OUTLIERS, LIMITED, HEALTHY] if failed else natural_statuses(own),
        must_name=failed > 0,
        operations=len(own.start_ns),
        latency_ns=int(own.latency_ns.sum()),
    )


def _slowest_are_hit(own: Own, hit: NDArray[np.bool_], injected_share: float) -> bool:
    """Whether the slowest operations of a kind were hit: twice as long as all others, and ten medians.

    A tail may be so heavy that it could have made such a gap by itself. But had it, its longest would not lie in what was injected: each does by
    chance as often as that covers the time. One of the machine's own may lie among them.
    """
    kinds = np.unique(own.kind)
    for kind in kinds:
        (of_kind,) = np.nonzero(own.kind == kind)
        latency = own.latency_ns[of_kind]
        maxima = maxima_of_episodes(own.start_ns[of_kind], latency, OUTLIERS_MAX + 1)
        struck = hit[of_kind][maxima]
        least = MEDIANS_MIN * float(np.median(latency))
        for count in range(1, len(maxima)):
            smallest, following = (float(latency[maxima[place]]) for place in (count - 1, count))
            if smallest < max(GAP_RATIO_MIN * following, least):
                continue
            were_hit = int(struck[:count].sum())
            chance = float(stats.binom.sf(were_hit - 1, count, injected_share))
            if 2 * were_hit > count and chance <= ALPHA / len(kinds):
                return True
    return False


def with_pairs(truth: Truth, own: Own, windows: Sequence[tuple[Window, Window]], hits: int) -> None:
    """Completes a truth by pairs of windows (with the fault, without it) of another run of the program."""
    stands_apart = truth.counts
    figures = _figures(own, windows)
    truth.pairs = {name: worse_chance(*values) for name, values in figures.items()}
    if hits and truth.pairs and differs(list(truth.pairs.values())):
        truth.counts = True
        truth.why += "; " if truth.why else ""
        truth.why += "pairs with and without it differ"
    elif not stands_apart:
        truth.why += (
            f"; {len(windows)} pairs with and without it do not differ" if figures else "; too few pairs"
        )
    if truth.counts:
        severity = _of_pairs(own, figures, windows, truth) if figures else None
        _judge_severity(truth, severity, stands_apart)


def natural_statuses(own: Own) -> list[str]:
    """Statuses of a run that nobody did anything to: the rule of DESIGN 8 on the program's own log."""
    return _natural(own, standing_apart(own.start_ns, own.latency_ns, own.kind))


def _natural(own: Own, apart: list[int]) -> list[str]:
    if not apart:
        return [HEALTHY, LIMITED]
    medians = {kind: float(np.median(own.latency_ns[own.kind == kind])) for kind in np.unique(own.kind)}
    lost = sum(float(own.latency_ns[index]) - medians[own.kind[index]] for index in apart)
    share = lost / float(own.latency_ns.sum())
    if share >= COST_SHARE * BAND:
        return [SLOW]
    return [SLOW, OUTLIERS] if share >= COST_SHARE / BAND else [OUTLIERS]


def _judge_severity(truth: Truth, severity: Severity | None, stands_apart: bool) -> None:
    """Right statuses of a run whose fault counts.

    Where it makes hardly a difference on average, what stands apart in the run is judged as if nobody had done anything to it.
    """
    below = list(truth.statuses)
    if severity is None:
        # It stands apart in the run, but no pairs came about that tell how much it costs.
        truth.statuses, truth.must_name = list(dict.fromkeys([SLOW, *below])), True
        return
    truth.severity = asdict(severity)
    truth.must_name = stands_apart or severity.beyond(BAND)
    if severity.beyond(BAND):
        truth.statuses = [SLOW]
    elif severity.beyond(1 / BAND):
        truth.statuses = list(dict.fromkeys([SLOW, *below]))
    else:
        truth.statuses = below


def _of_hit(own: Own, hit: NDArray[np.bool_]) -> Severity:
    """Severity from the operations that were hit: without the fault they would have been like the others of their kind."""
    lost, p99_ratio = 0.0, 1.0
    for kind in np.unique(own.kind):
        of_kind = own.kind == kind
        rest = own.latency_ns[of_kind & ~hit]
        if not len(rest):
            continue
        struck = own.latency_ns[of_kind & hit]
        lost += max(0.0, float(struck.sum()) - len(struck) * float(rest.mean()))
        if of_kind.sum() >= P99_OPERATIONS_MIN:
            ratio = np.percentile(own.latency_ns[of_kind], 99) / np.percentile(rest, 99)
            p99_ratio = max(p99_ratio, float(ratio))
    share = lost / float(own.latency_ns.sum())
    # A closed loop: what operations do not lose they use for more of them.
    return Severity(p99_ratio, 1 / max(1e-9, 1 - share), share, "hit operations")


def _figures(
    own: Own, windows: Sequence[tuple[Window, Window]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Per kind: time per operation and p99 of each window, with and without; kinds that most windows lack are left out."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    first, last = int(own.start_ns.min()), int(own.end_ns.max())
    inside = [pair for pair in windows if all(first <= begin and end <= last for begin, end in pair)]
    if len(inside) < PAIRS_MIN:
        return {}
    for kind in np.unique(own.kind):
        of_kind = own.kind == kind
        start, end, latency = own.start_ns[of_kind], own.end_ns[of_kind], own.latency_ns[of_kind]
        cells = [[_window(start, end, latency, window) for window in pair] for pair in inside]
        if np.median([cell[0] for pair in cells for cell in pair]) < 1:
            continue
        # One more than counted: a window in which nothing ended has a time per operation, too.
        pace = [
            [(w[1] - w[0]) / (cell[0] + 1) for w, cell in zip(pair, row, strict=True)]
            for pair, row in zip(inside, cells, strict=True)
        ]
        found[f"time per {kind}"] = ([row[0] for row in pace], [row[1] for row in pace])
        found[f"p99 of {kind}"] = ([row[0][1] for row in cells], [row[1][1] for row in cells])
    return found


def _window(start: Times, end: Times, latency: Times, window: Window) -> tuple[int, float]:
    """Operations that ended in a window, and the p99 of those that touch it; without its first moments."""
    begin, until = window[0] + GUARD_NS, window[1]
    ended = int(((end >= begin) & (end < until)).sum())
    touching = latency[(end >= begin) & (start < until)]
    return ended, float(np.percentile(touching, 99)) if len(touching) else float(until - begin)


def _of_pairs(
    own: Own,
    figures: dict[str, tuple[list[float], list[float]]],
    windows: Sequence[tuple[Window, Window]],
    truth: Truth,
) -> Severity:
    """Severity from medians over pairs: of the kind that takes most of the time, and the worst p99.

    Never more than what was injected can have done: a machine that changes between windows is not the fault's doing.
    """
    ratios = {
        name: float(np.median(np.array(a) / np.maximum(np.array(b), 1.0))) for name, (a, b) in figures.items()
    }
    kinds = [name.removeprefix("time per ") for name in figures if name.startswith("time per ")]
    main = max(kinds, key=lambda kind: int(own.latency_ns[own.kind == kind].sum()))
    cost = min(1 - 1 / max(1.0, ratios[f"time per {main}"]), KNOCK_ON * truth.injected_share)
    p99 = 1.0
    for name, (a, b) in figures.items():
        if name.startswith("p99 of ") and _enough(own, name, len(windows)):
            without = float(np.median(b))
            possible = without + KNOCK_ON * truth.injected_ns_p99
            p99 = max(p99, min(float(np.median(a)), possible) / max(without, 1.0))
    return Severity(p99, 1 / max(1e-9, 1 - cost), cost, "pairs")


def _enough(own: Own, name: str, windows: int) -> bool:
    """Whether a p99 of windows is one: so many operations of the kind on average."""
    return bool((own.kind == name.removeprefix("p99 of ")).sum() >= P99_OPERATIONS_MIN * windows / 4)
