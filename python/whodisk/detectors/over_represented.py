"""What slow episodes share more than chance gives: so that a culprit nobody wrote a detector for is still named."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.detectors.base import Candidate, Context, Detector, Result, evidence, large_enough, none_of
from whodisk.findings import Culprit, Effect
from whodisk.slow import SlowSet
from whodisk.stats import SEED, Bools, Floats, Ints, bootstrap_ratio, episodes
from whodisk.survey import Survey
from whodisk.views import STAGES, quoted

#: Operations drawn from all to learn what is usual, and episodes looked at, at most.
SAMPLE = 20_000
EPISODES_MAX = 400
EPISODES_MIN = 5
ROUNDS = 1999
#: A trait is told if this part of the slow episodes has it, beyond what chance gives ((share - chance) / (1 - chance)).
ATTRIBUTABLE_MIN = 0.5
#: Values that fewer slow episodes have are not looked at.
COUNT_MIN = 4
#: A trait accuses if it is this unlikely: every case that is slow for another reason is a trial.
P_MAX = 0.002
#: Two traits mean the same operations if they agree in this part of the episodes.
SAME = 0.9

#: An operation stands for its episode if it lost this part of what the worst one lost.
NEARLY = 0.8

#: A trait that can be a cause only in the stages that begin when the device has completed.
COMPLETING_CPU = "completing cpu"
AFTER_COMPLETION = [STAGES.index("interrupt"), STAGES.index("reap")]

#: Trait -> SQL over an operation `m` and the request below it `b`, kind of culprit (None: only told, others name it).
TRAITS: dict[str, tuple[str, str | None]] = {
    "device": ("coalesce(b.device, m.device)", None),
    "kind": ("m.op", None),
    "size": ("m.size_bytes", "request_shape"),
    "alignment": (
        "CASE WHEN m.offset_bytes % 1048576 = 0 THEN 1048576 WHEN m.offset_bytes % 65536 = 0 THEN 65536 "
        "WHEN m.offset_bytes % 4096 = 0 THEN 4096 ELSE 512 END",
        "request_shape",
    ),
    "place": ("CAST(floor(m.offset_bytes * 16.0 / {reach}) AS INTEGER)", "layout"),
    "file": ("m.file", "layout"),
    "thread": ("m.tid", "process"),
    "program": ("m.comm", "process"),
    "vector": ("coalesce(b.vector, m.vector)", "vector"),
    "submitting cpu": ("coalesce(m.cpu, b.cpu)", "config"),
    COMPLETING_CPU: ("coalesce(b.complete_cpu, m.complete_cpu)", "config"),
    "hardware queue": ("coalesce(b.hctx, m.hctx)", "config"),
    "time": ("CAST(floor((m.start_ns - {begin}) * 10.0 / {span}) AS INTEGER)", None),
}
#: Of traits that mean the same operations, the earlier one is named.
ORDER = list(TRAITS)


@dataclass(frozen=True)
class Shared:
    """A trait (or two together) that slow episodes have in common."""

    traits: tuple[str, ...]
    values: tuple[str, ...]
    #: Part of the slow episodes, and of all operations, that have it.
    share: float
    chance: float
    z: float
    p_value: float
    #: Which slow episodes have it.
    has: Bools

    @property
    def text(self) -> str:
        """``size 1 MiB and alignment 4096``."""
        return " and ".join(
            f"{trait} {_shown(trait, v)}" for trait, v in zip(self.traits, self.values, strict=True)
        )


def run(context: Context) -> Result:
    """One candidate at most: the strongest trait, if no other detector names it anyway."""
    result = Result()
    slow = context.slow
    chosen = ~context.explained & ~slow.ordinary
    worst = _one_of_episodes(slow, chosen)
    if len(worst) < EPISODES_MIN:
        return result
    usual, seen = _traits(context, slow.op_id[worst])
    if len(seen["kind"]) != len(worst) or len(usual["kind"]) < EPISODES_MIN:
        return result
    if not np.isin(slow.blamed[worst], AFTER_COMPLETION).mean() > 0.5:
        # Whatever ends a long wait also says where it ends: there the CPU is a consequence.
        seen, usual = ({t: v for t, v in table.items() if t != COMPLETING_CPU} for table in (seen, usual))
    shared = strongest(seen, usual)
    if shared is None:
        return result
    sentence = (
        f"{words.percent(shared.share)} of {words.things(len(worst), 'slow episode')} have {shared.text}; "
        f"{words.percent(shared.chance)} of all operations do."
    )
    kind = TRAITS[shared.traits[0]][1]
    if kind is None or shared.p_value >= P_MAX:
        if shared.p_value < 0.01:
            result.observed.append(sentence)
        return result
    result.candidates.append(_candidate(context, shared, kind, worst, chosen, sentence))
    return result


def strongest(seen: dict[str, npt.NDArray[np.str_]], usual: dict[str, npt.NDArray[np.str_]]) -> Shared | None:
    """The trait of the slow episodes (`seen`) that is least like the operations' (`usual`); None if none is.

    Null model: each episode could have hit any operation. 1,999 draws of as many operations; all traits of an
    operation stay together, and the largest standardized excess over all values and pairs counts (max-T).
    """
    candidates = _candidates(seen, usual)
    if not candidates:
        return None
    count = len(next(iter(seen.values())))
    population = len(next(iter(usual.values())))
    draws = np.random.default_rng(SEED).integers(0, population, (ROUNDS, count))
    largest = np.full(ROUNDS, -np.inf)
    for candidate in candidates:
        chance = max(candidate.chance, 0.5 / population)
        spread = np.sqrt(count * chance * (1 - chance))
        hits = _has(usual, candidate.traits, candidate.values)[draws].sum(axis=1)
        np.maximum(largest, (hits - count * chance) / spread, out=largest)
    likely = [c for c in candidates if (c.share - c.chance) / max(1e-9, 1 - c.chance) >= ATTRIBUTABLE_MIN]
    if not likely:
        return None
    best = max(likely, key=lambda c: (c.z, -len(c.traits)))
    # Several names for the same operations: the one that stands first, single traits before pairs.
    alike = [
        c
        for c in likely
        if (c.has == best.has).mean() >= SAME and (c.z >= SAME * best.z or len(c.traits) < 2)
    ]
    alike = [c for c in alike if c.z >= 0.7 * best.z]
    chosen = min(alike, key=lambda c: (len(c.traits), ORDER.index(c.traits[0])))
    p_value = float((1 + (largest >= chosen.z - 1e-9).sum()) / (1 + ROUNDS))
    return Shared(chosen.traits, chosen.values, chosen.share, chosen.chance, chosen.z, p_value, chosen.has)


def _candidates(
    seen: dict[str, npt.NDArray[np.str_]], usual: dict[str, npt.NDArray[np.str_]]
) -> list[Shared]:
    singles = []
    for trait in [name for name in ORDER if name in seen]:
        values, counts = np.unique(seen[trait], return_counts=True)
        for value, number in zip(values, counts, strict=True):
            if value and number >= COUNT_MIN:
                singles.append(_shared(seen, usual, (trait,), (str(value),)))
    varied = [s for s in singles if s.chance < 0.95]
    pairs = []
    for first, second in itertools.combinations(varied, 2):
        # What two traits share must say more than either alone.
        if first.traits != second.traits and min(first.share, second.share) >= ATTRIBUTABLE_MIN:
            pair = _shared(seen, usual, first.traits + second.traits, first.values + second.values)
            if pair.z > 1.3 * max(first.z, second.z):
                pairs.append(pair)
    return varied + pairs


def _shared(
    seen: dict[str, npt.NDArray[np.str_]],
    usual: dict[str, npt.NDArray[np.str_]],
    traits: tuple[str, ...],
    values: tuple[str, ...],
) -> Shared:
    has = _has(seen, traits, values)
    share, chance = float(has.mean()), float(_has(usual, traits, values).mean())
    floor = max(chance, 0.5 / len(usual[traits[0]]))
    z = (share - floor) * np.sqrt(len(has)) / np.sqrt(floor * (1 - floor)) if floor < 1 else 0.0
    return Shared(traits, values, share, chance, float(z), 1.0, has)


def _has(table: dict[str, npt.NDArray[np.str_]], traits: tuple[str, ...], values: tuple[str, ...]) -> Bools:
    has = np.ones(len(table[traits[0]]), np.bool_)
    for trait, value in zip(traits, values, strict=True):
        has &= table[trait] == value
    return has


def _one_of_episodes(slow: SlowSet, chosen: Bools) -> Ints:
    """An operation of each episode, by a seeded draw from those that lost nearly as much as the one that lost most.

    Not that one itself: after a pause of all, the same thread may always be the first to go on, and so the one that waits
    longest in the next. Episodes are thinned evenly where there are many.
    """
    index = np.flatnonzero(chosen)
    if len(index) == 0:
        return index
    numbers = episodes(slow.start_ns[index], slow.end_ns[index])
    most = np.zeros(int(numbers.max()) + 1)
    np.maximum.at(most, numbers, slow.excess_ns[index])
    near = slow.excess_ns[index] >= NEARLY * most[numbers]
    index, numbers = index[near], numbers[near]
    lot = np.random.default_rng(SEED).random(len(index))
    order = np.lexsort((lot, numbers))
    first = np.concatenate(([True], numbers[order][1:] != numbers[order][:-1]))
    drawn = np.sort(index[order[first]])
    return drawn[:: max(1, len(drawn) // EPISODES_MAX)][:EPISODES_MAX]


def traits_sql(survey: Survey, where: str, linked: bool, reach: float) -> str:
    """Traits of operations as text (empty = not observed), each with the request below it where links tell."""
    fill = {"reach": repr(max(reach, 1.0)), "begin": survey.begin_ns, "span": survey.span_ns}
    columns = ", ".join(
        f"coalesce(CAST({sql.format(**fill)} AS VARCHAR), '') AS {name.replace(' ', '_')}"
        for name, (sql, _) in TRAITS.items()
    )
    below = (
        "chosen"
        if not linked
        else (
            "(SELECT l.parent_id AS op_id, max(l.child_id) AS child_id FROM links AS l "
            "JOIN chosen AS c ON c.op_id = l.parent_id GROUP BY 1)"
        )
    )
    join = (
        f"LEFT JOIN {below} AS l ON l.op_id = m.op_id LEFT JOIN block_ops AS b ON b.op_id = l.child_id"
        if linked
        else "LEFT JOIN chosen AS b ON FALSE"
    )
    return f"""WITH chosen AS (SELECT * FROM judged WHERE layer = '{survey.layer}' AND {where})
SELECT m.op_id, {columns}
FROM chosen AS m {join} ORDER BY m.op_id"""


def _traits(
    context: Context, slow_ids: Ints
) -> tuple[dict[str, npt.NDArray[np.str_]], dict[str, npt.NDArray[np.str_]]]:
    """Traits of a seeded sample of all operations, and of the given ones."""
    survey = context.survey
    linked = context.layer != "block" and "block" in context.surveys and "links" in context.case.columns
    reach = float(
        context.case.rows(f"SELECT max(offset_bytes) AS reach FROM judged WHERE layer = '{survey.layer}'")[0][
            "reach"
        ]
        or 0
    )
    part = max(1, round(1_000_003 * min(1.0, SAMPLE / max(1, survey.operations))))
    sample = f"(op_id % 1000003) * 7919 % 1000003 < {part}"
    ids = ", ".join(str(int(number)) for number in slow_ids)
    tables = [
        context.case.arrays(traits_sql(survey, where, linked, reach + 1))
        for where in (sample, f"op_id IN ({ids})")
    ]
    position = {int(number): place for place, number in enumerate(tables[1]["op_id"])}
    order = [position[int(number)] for number in slow_ids if int(number) in position]
    usual, seen = ({t: table[t.replace(" ", "_")].astype(str) for t in TRAITS} for table in tables)
    return usual, {trait: values[order] for trait, values in seen.items()}


def _shown(trait: str, value: str) -> str:
    if trait in ("size", "alignment"):
        return words.size(float(value))
    if trait == "place":
        return f"in part {int(value) + 1} of 16"
    return value


def _candidate(
    context: Context, shared: Shared, kind: str, worst: Ints, chosen: Bools, sentence: str
) -> Candidate:
    slow = context.slow
    excess: Floats = slow.excess_ns[worst]
    held = np.where(shared.has, excess, 0.0)
    share = float(held.sum() / max(1.0, excess.sum()))
    low, high = bootstrap_ratio(held, excess)
    share_of_latency = share * float(slow.excess_ns[chosen].sum()) / max(1.0, context.survey.latency_ns)
    ratio = float(np.median(slow.ratio[worst]))
    count = len(worst)
    # What both have in common with a device is told: it narrows the search.
    claim = f"{sentence} They lost {words.percent(share)} of the slow operations' time."
    lift = shared.share / max(shared.chance, 1e-9)
    error = 1.96 * np.sqrt(shared.share * (1 - shared.share) / count)
    return Candidate(
        culprit=Culprit(kind, shared.values[0] if kind == "vector" else shared.text),
        claim=claim,
        baseline="all operations of the layer, drawn at random",
        effect=Effect(
            "share of slow episodes over share of all operations",
            lift,
            "x chance",
            float(max(0.0, shared.share - error) / max(shared.chance, 1e-9)),
            float(min(1.0, shared.share + error) / max(shared.chance, 1e-9)),
        ),
        share_of_excess=share,
        share_of_latency=share_of_latency,
        p_value=shared.p_value,
        episodes=int(shared.has.sum()),
        evidence=[
            evidence(
                context.case,
                "the slowest operations' traits",
                _slowest_sql(context, slow.op_id[worst][shared.has][:20]),
            )
        ],
        refute=f"Repeat without operations of {shared.text} (or with them moved elsewhere): if episodes come as often, this "
        "is a coincidence.",
        remedy=f"Find out what is special about {shared.text}.",
        otherwise=sentence,
        explains=none_of(slow),
        share_low=low,
        share_high=high,
        large=large_enough(share_of_latency, share, ratio, int(shared.has.sum())),
    )


def _slowest_sql(context: Context, ids: Ints) -> str:
    chosen = ", ".join(str(int(number)) for number in ids)
    return f"""SELECT op_id, start_ns, latency_ns, op, size_bytes, offset_bytes, device, file, tid, comm, cpu, vector
FROM judged WHERE layer = {quoted(context.layer)} AND op_id IN ({chosen}) ORDER BY latency_ns DESC, op_id"""


DETECTOR = Detector(
    name="over_represented",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=(),
    null_model="Each slow episode could have hit any operation: as many operations are drawn at random 1,999 times, and the "
    "largest excess over all values and pairs of traits is compared (max-T).",
    smallest_effect="5 % of all latency, or outliers (ten times typical) that hold 20 % of the excess and 1 % of all latency; and half "
    "of the episodes beyond chance.",
    run=run,
)
