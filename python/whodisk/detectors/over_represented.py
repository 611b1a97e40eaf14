"""What slow episodes share more than chance gives: so that a culprit nobody wrote a detector for is still named."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_enough
from whodisk.detectors.thresholds import (
    PLACES,
    TRAIT_ATTRIBUTABLE_MIN,
    TRAIT_BEYOND_MIN,
    TRAIT_COUNT_MIN,
    TRAIT_EPISODES_MAX,
    TRAIT_EPISODES_MIN,
    TRAIT_NEARLY_WORST,
    TRAIT_P_MAX,
    TRAIT_ROUNDS,
    TRAIT_SAME,
    TRAIT_STAGE_MIN,
    TRAIT_THREAD_CHANCE_MAX,
    TRAIT_THROUGHOUT_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import SlowSet, none_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Survey, drawn
from whodisk.findings import Culprit, Effect
from whodisk.reading.views import STAGES, quoted, without_volumes_sql
from whodisk.statistics.stats import SEED, Bools, Floats, Ints, bootstrap_ratio, episodes
from whodisk.statistics.traits import Items, Rules, Shared, strongest

#: A trait that can be a cause only in the stages that begin when the device has completed.
COMPLETING_CPU = "completing cpu"
AFTER_COMPLETION = [STAGES.index("interrupt"), STAGES.index("reap")]
#: Flags of operations that somebody waits for on disk: sync, FUA, preflush. They wait for flushes, which others do not.
SYNCED = 1 | 8 | 128
DIRECT = 256
#: Traits that stay as they are for a while: a thread stays on a CPU, and its requests on the queue and the vector of that CPU.
STAYING = frozenset({"submitting cpu", COMPLETING_CPU, "hardware queue", "vector"})
#: Traits of what was asked for. They make an operation slow only where the device sees them: what passes the page cache, or waits above
#: the block layer, takes as long as the work is that the file system has with it, and a sync as long as all that was written before.
ASKED = ("size", "alignment", "place", "file")
BELOW = [STAGES.index(stage) for stage in ("queue", "device", "interrupt")]
FS = STAGES.index("fs")

#: Trait -> SQL over an operation `m` and the request below it `b`, kind of culprit (None: only reported, others name it).
TRAITS: dict[str, tuple[str, str | None]] = {
    "device": ("coalesce(b.device, m.device)", None),
    "size": ("m.size_bytes", "request_shape"),
    # What goes through the page cache is not aligned to anything that a device sees; what has no place has no alignment.
    "alignment": (
        f"CASE WHEN m.offset_bytes IS NULL OR (m.layer <> 'block' AND coalesce(m.flags, 0) & {DIRECT} = 0) THEN NULL "
        "WHEN m.offset_bytes % 1048576 = 0 THEN 1048576 WHEN m.offset_bytes % 65536 = 0 THEN 65536 "
        "WHEN m.offset_bytes % 4096 = 0 THEN 4096 ELSE 512 END",
        "request_shape",
    ),
    "place": ("CAST(floor(m.offset_bytes * {places}.0 / {reach}) AS INTEGER)", "layout"),
    "file": ("m.file", "layout"),
    "thread": ("m.tid", "process"),
    # The program with slow operations is the one that suffers.
    "program": ("m.comm", None),
    "vector": ("coalesce(b.vector, m.vector)", "vector"),
    "submitting cpu": ("coalesce(m.cpu, b.cpu)", "config"),
    COMPLETING_CPU: ("coalesce(b.complete_cpu, m.complete_cpu)", "config"),
    # The one queue of a device says no more than the device.
    "hardware queue": ("CASE WHEN {queues} THEN coalesce(b.hctx, m.hctx) END", "config"),
    "time": ("CAST(floor((m.start_ns - {begin}) * 10.0 / {span}) AS INTEGER)", None),
}
#: Devices that were seen to use more hardware queues than one.
SEVERAL_QUEUES = (
    "SELECT device FROM block_ops WHERE device IS NOT NULL GROUP BY 1 HAVING count(DISTINCT hctx) > 1"
)


def run(context: Context) -> Result:
    """One candidate at most: the strongest trait, if no other detector names it anyway."""
    result = Result()
    slow = context.slow
    # What takes longer because it makes more requests has its own reason, whoever does it (a thread that syncs all it wrote before).
    chosen = ~context.explained & ~slow.ordinary & ~context.more_work.among(slow.op_id)
    worst = _one_of_episodes(slow, chosen)
    if len(worst) < TRAIT_EPISODES_MIN:
        return result
    table = _table(context, slow.op_id[worst])
    stage = int(np.bincount(slow.blamed[worst], minlength=len(STAGES)).argmax())
    if len(slow.for_request) and slow.for_request[worst].mean() > 0.5:
        # A request that somebody else made (readahead, writeback, a server of files) knows nothing of the call that slept for it.
        stage = FS
    seen, usual = _seen(context, table, worst, stage), _usual(context, table, stage)
    if len(seen) != len(worst) or len(usual) < TRAIT_EPISODES_MIN:
        return result
    rules = Rules(TRAIT_ROUNDS, TRAIT_ATTRIBUTABLE_MIN, TRAIT_COUNT_MIN, TRAIT_SAME, TRAIT_BEYOND_MIN)
    exposures = _exposures(context, table, stage)
    shared = strongest_at_device(seen, usual, exposures, stage, rules)
    if shared is None:
        return result
    begins = _begins(table, slow.op_id[worst])
    if not holds_while_there(seen, usual, exposures, begins, shared, rules):
        result.tested.append(shared.p_value)
        return result
    if STAYING & set(shared.traits) and (p_value := p_of_other_times(usual, begins, shared)) >= TRAIT_P_MAX:
        result.tested.append(p_value)
        return result
    sentence = (
        f"{words.percent(shared.share)} of {words.things(len(worst), 'slow episode')} have {_text(shared, seen)}; "
        f"{words.percent(shared.chance)} would by chance."
    )
    # What came in one part of the run has that in common, and a thread stays on a CPU for a while: nobody is accused of it.
    kind = None if "time" in shared.traits else TRAITS[shared.traits[0]][1]
    # A device does not know whose a request is. One of two threads has most of anything: it reads, and the other one writes.
    half = stage in BELOW and shared.traits == ("thread",) and shared.chance > TRAIT_THREAD_CHANCE_MAX
    if (
        kind is None
        or half
        or shared.p_value >= TRAIT_P_MAX
        or _is_of_a_device(context, shared)
        or _is_its_process(context, shared)
    ):
        result.tested.append(shared.p_value)
        if shared.p_value < 0.01:
            result.observed.append(sentence)
        return result
    result.candidates.append(_candidate(context, shared, kind, worst, chosen, sentence, _text(shared, seen)))
    return result


def _is_its_process(context: Context, shared: Shared) -> bool:
    """Whether a thread makes all operations of its process: then it suffers, as a program does, and differs from none of its own."""
    if shared.traits != ("thread",):
        return False
    rows = context.case.rows(
        f"""SELECT count(DISTINCT tid) AS threads FROM measured WHERE layer = '{context.layer}' AND tid IS NOT NULL
AND pid IN (SELECT pid FROM measured WHERE layer = '{context.layer}' AND tid = {int(shared.values[0])} AND pid > 0)"""
    )
    return int(rows[0]["threads"] or 0) == 1


def _is_of_a_device(context: Context, shared: Shared) -> bool:
    """Whether a vector is that of one device, which has no other: whatever a device does has its vector in common. Volumes aside."""
    if shared.traits != ("vector",) or "block" not in context.surveys:
        return False
    rows = context.case.rows(
        f"""SELECT device, count(*) FILTER (vector = {int(shared.values[0])}) AS here, count(*) AS every FROM block_ops
WHERE device IS NOT NULL AND vector IS NOT NULL AND {without_volumes_sql(context.case)} GROUP BY 1"""
    )
    most = max(rows, key=lambda row: int(row["here"] or 0), default=None)
    if most is None:
        return False
    here = int(most["here"] or 0)
    return here >= TRAIT_SAME * max(sum(int(row["here"] or 0) for row in rows), int(most["every"] or 0))


def strongest_at_device(
    seen: Items, usual: Items, exposures: list[Floats], stage: int, rules: Rules
) -> Shared | None:
    """The strongest trait; if it is no device, among the operations of the device that held the slow ones: what a device does hits its own."""
    shared = strongest(seen, usual, exposures, rules)
    at = _at_their_device(seen, usual, stage)
    if shared is None or "device" in shared.traits or at is None:
        return shared
    return strongest(seen, usual.pick(at), [exposure[at] for exposure in exposures], rules)


def _begins(table: Table, slow_ids: Ints) -> tuple[Ints, Ints]:
    """When these slow operations, and those of the sample, began, ns."""
    op_id, start = table["op_id"].astype(np.int64), table["start_ns"].astype(np.int64)
    return start[np.searchsorted(op_id, slow_ids)], start[np.asarray(table["drawn"], np.bool_)]


def holds_while_there(
    seen: Items,
    usual: Items,
    exposures: list[Floats],
    begins: tuple[Ints, Ints],
    shared: Shared,
    rules: Rules,
) -> bool:
    """Whether a trait that was there for a part of the run only is shared by more than chance among the operations of that part, too.

    The first of many short threads, or of many files, is also what ran while nothing was in memory yet: its time is what its operations have in common.
    """
    of_seen, of_usual = begins
    there = np.concatenate((of_seen[shared.has], of_usual[_has(usual, shared)]))
    every = np.concatenate(begins)
    low, high = int(there.min()), int(there.max())
    if high - low >= TRAIT_THROUGHOUT_MIN * (int(every.max()) - int(every.min())):
        return True
    seen_then, usual_then = ((of >= low) & (of <= high) for of in begins)
    if min(seen_then.sum(), usual_then.sum()) < TRAIT_EPISODES_MIN:
        return False
    again = strongest(
        seen.pick(seen_then), usual.pick(usual_then), [exposure[usual_then] for exposure in exposures], rules
    )
    return again is not None and (again.traits, again.values) == (shared.traits, shared.values)


def p_of_other_times(usual: Items, begins: tuple[Ints, Ints], shared: Shared) -> float:
    """How often as many episodes would have a trait, had all of them come earlier or later by the same time, drawn evenly over the run (its end goes on at its begin).

    A program of one thread that was on CPU 1 while it read from the disk, and on CPU 0 while it read from memory, was on either of them once: that
    is one coincidence, however many of its operations were slow.
    """
    of_seen, of_usual = begins
    order = np.argsort(of_usual, kind="stable")
    when, has = of_usual[order], _has(usual, shared)[order]
    span = max(1, int(when[-1] - when[0]))
    found = int(shared.has.sum())
    as_many = 0
    for later in np.random.default_rng(SEED).integers(0, span, TRAIT_ROUNDS):
        moved = when[0] + (of_seen - when[0] + later) % span
        as_many += int(has[np.searchsorted(when, moved).clip(max=len(when) - 1)].sum() >= found)
    return (1 + as_many) / (1 + TRAIT_ROUNDS)


def _has(items: Items, shared: Shared) -> Bools:
    has = np.ones(len(items), np.bool_)
    for trait, value in zip(shared.traits, shared.values, strict=True):
        has &= items.traits[trait] == value
    return has


def _at_their_device(seen: Items, usual: Items, stage: int) -> Bools | None:
    """Which operations of the sample no other device served, where the slow ones were held below the file system, by one device as far as is known."""
    devices = set(seen.traits["device"].tolist()) - {""}
    if stage not in BELOW or len(devices) != 1:
        return None
    at: Bools = np.isin(usual.traits["device"], [*devices, ""])
    return at if at.sum() >= TRAIT_EPISODES_MIN and not at.all() else None


def _text(shared: Shared, seen: Items) -> str:
    """``size 1 MiB and alignment 4096``; of a thread, which program's it is."""
    return " and ".join(
        f"{trait} {_shown(trait, value)}{_whose(value, seen) if trait == 'thread' else ''}"
        for trait, value in zip(shared.traits, shared.values, strict=True)
    )


def _whose(tid: str, seen: Items) -> str:
    names, counts = np.unique(seen.traits["program"][seen.traits["thread"] == tid], return_counts=True)
    name = str(names[int(counts.argmax())]) if len(names) else ""
    return f" of {name}" if name else ""


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
    near = slow.excess_ns[index] >= TRAIT_NEARLY_WORST * most[numbers]
    index, numbers = index[near], numbers[near]
    lot = np.random.default_rng(SEED).random(len(index))
    order = np.lexsort((lot, numbers))
    first = np.concatenate(([True], numbers[order][1:] != numbers[order][:-1]))
    drawn = np.sort(index[order[first]])
    return drawn[:: max(1, len(drawn) // TRAIT_EPISODES_MAX)][:TRAIT_EPISODES_MAX]


def traits_sql(
    survey: Survey, source: str, ids: Ints, linked: bool, reach: float, requests: bool = True
) -> str:
    """Traits of these operations and of some drawn from all, as text (empty = not observed), each with the request below it where links name it; and what shows how exposed they
    were: their stratum, and their time in each stage."""
    queues = f"{TRAITS['device'][0]} IN ({SEVERAL_QUEUES})" if requests else "FALSE"
    fill = {
        "reach": repr(max(reach, 1.0)),
        "places": PLACES,
        "begin": survey.begin_ns,
        "span": survey.span_ns,
        "queues": queues,
    }
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
    stages = ", ".join(f"coalesce(m.{stage}_ns, 0) AS {stage}_ns" for stage in STAGES)
    direct = (
        "TRUE" if survey.layer != "syscall" else f"(m.op = 'read' OR coalesce(m.flags, 0) & {DIRECT} > 0)"
    )
    few, listed = drawn(survey.operations), ", ".join(map(str, ids.tolist()))
    return f"""WITH chosen AS (SELECT * FROM {source} WHERE layer = '{survey.layer}' AND ({few} OR op_id IN ({listed})))
SELECT m.op_id, m.start_ns, {columns}, m.op, coalesce(m.device, '') AS at_device, m.size_class, m.depth_class, m.latency_ns,
  greatest(coalesce(m.queue_depth, 1), 1) AS depth, {stages},
  {direct} AS direct, m.drawn, m.op || CASE WHEN (coalesce(m.flags, 0) | coalesce(b.flags, 0)) & {SYNCED} > 0 THEN ' synced' ELSE '' END AS stratum
FROM (SELECT *, {few} AS drawn, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class FROM chosen) AS m {join} ORDER BY m.op_id"""


Table = dict[str, npt.NDArray[np.generic]]


def _table(context: Context, slow_ids: Ints) -> Table:
    """A seeded sample of all operations, and the given ones."""
    survey = context.survey
    linked = context.layer != "block" and "block" in context.surveys and "links" in context.case.columns
    reach = float(
        context.case.rows(f"SELECT max(offset_bytes) AS reach FROM judged WHERE layer = '{survey.layer}'")[0][
            "reach"
        ]
        or 0
    )
    source = context.case.judged_above(
        survey.layer, int(context.slow.latency_ns.min()) - 1, drawn(survey.operations)
    )
    return context.case.arrays(
        traits_sql(survey, source, slow_ids, linked, reach + 1, "block" in context.surveys)
    )


def _items(table: Table, chosen: Ints | Bools, excess: Floats, stage: int, through_files: bool) -> Items:
    """`through_files`: they are calls into the kernel, which may go through a file system and its cache."""
    traits = {name: table[name.replace(" ", "_")][chosen].astype(str) for name in TRAITS}
    if stage not in AFTER_COMPLETION:
        # Whatever ends a long wait also says where it ends: there the CPU is a consequence.
        del traits[COMPLETING_CPU]
    reaches = table["direct"][chosen].astype(np.bool_) & (stage in BELOW or not through_files)
    for name in ASKED:
        traits[name] = np.where(reaches, traits[name], "")
    return Items(traits, table["stratum"][chosen].astype(str), excess)


def _seen(context: Context, table: Table, worst: Ints, stage: int) -> Items:
    """The operations that stand for the slow episodes, with what each lost, ns."""
    slow = context.slow
    op_id = table["op_id"].astype(np.int64)
    place = np.searchsorted(op_id, slow.op_id[worst]).clip(max=len(op_id) - 1)
    known = op_id[place] == slow.op_id[worst]
    lost = (slow.latency_ns - slow.typical_ns)[worst]
    return _items(table, place[known], np.asarray(lost[known], np.float64), stage, context.layer == "syscall")


def _usual(context: Context, table: Table, stage: int) -> Items:
    """The sample of all operations, with what each would have had to lose to be slow, ns.

    A large operation takes long enough that a short stall does not make it an outlier: whoever is not seen among the slow ones for that reason
    is no proof against those that are.
    """
    chosen = np.asarray(table["drawn"], np.bool_)
    need = _needs(context)
    names = ("at_device", "op", "size_class", "depth_class")
    keys = zip(*(table[name][chosen].tolist() for name in names), strict=True)
    found = [need.get(key, math.inf) for key in keys]
    return _items(table, chosen, np.array(found, np.float64), stage, context.layer == "syscall")


def _needs(context: Context) -> dict[tuple[str, str, int, int], float]:
    """Per stratum what an operation must lose to be slow, ns; where nothing was slow: what it would be elsewhere."""
    families = context.slow.families
    ratio = min((f.split.limit for f in families if f.typical_ns is None), default=None)
    fixed = min(
        (f.split.limit * f.typical_ns for f in families if f.typical_ns is not None), default=math.inf
    )
    found = {}
    for s in context.survey.strata:
        mine = [f for f in families if (f.device, f.op) == (s.device, s.op)]
        limits = [f.split.limit * (f.typical_ns or s.typical_ns) for f in mine]
        limit = min(limits) if limits else ratio * s.typical_ns if ratio is not None else fixed
        found[s.device, s.op, s.size_class, s.depth_class] = max(0.0, limit - s.typical_ns)
    return found


def _exposures(context: Context, table: Table, stage: int) -> list[Floats]:
    """How likely each operation of the sample is to be hit, by what may hit it: any operation that passes the stage, alike; what is there at
    some moment, by how long it is there; and one of what is there then. What slow operations lost is none of their own."""
    slow = context.slow
    chosen = np.asarray(table["drawn"], np.bool_)
    op_id = table["op_id"][chosen].astype(np.int64)
    order = np.argsort(slow.op_id)
    place = order[np.searchsorted(slow.op_id, op_id, sorter=order).clip(max=len(slow) - 1)]
    late = slow.op_id[place] == op_id
    latency = table["latency_ns"][chosen].astype(np.float64)
    there = table[f"{STAGES[stage]}_ns"][chosen].astype(np.float64)
    latency = np.where(late, np.minimum(latency, slow.typical_ns[place]), latency)
    there = np.where(late, (there - slow.stage_excess_ns[place, stage]).clip(0), there)
    if there.sum() < TRAIT_STAGE_MIN * latency.sum():
        # Usually nothing is in that stage: whatever is under way may come into it.
        there = latency
    depth = table["depth"][chosen].astype(np.float64)
    return [(there > 0).astype(np.float64), there, there / depth]


def _shown(trait: str, value: str) -> str:
    if trait in ("size", "alignment"):
        return words.size(float(value))
    if trait == "place":
        return f"in part {int(value) + 1} of {PLACES}"
    return value


def _candidate(
    context: Context, shared: Shared, kind: str, worst: Ints, chosen: Bools, sentence: str, text: str
) -> Candidate:
    slow = context.slow
    excess: Floats = slow.excess_ns[worst]
    held = np.where(shared.has, excess, 0.0)
    share = float(held.sum() / max(1.0, excess.sum()))
    low, high = bootstrap_ratio(held, excess)
    share_of_latency = share * float(slow.excess_ns[chosen].sum()) / max(1.0, context.survey.latency_ns)
    ratio = float(np.median(slow.ratio[worst]))
    count = len(worst)
    # What both have in common with a device is reported: it narrows the search.
    claim = f"{sentence} They lost {words.percent(share)} of the slow operations' time."
    lift = shared.share / max(shared.chance, 1e-9)
    error = 1.96 * np.sqrt(shared.share * (1 - shared.share) / count)
    return Candidate(
        culprit=Culprit(kind, shared.values[0] if kind == "vector" else text),
        claim=claim,
        baseline="operations of the same kind that could have been hit, in proportion to their number or to their time in that stage",
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
        refute=f"Repeat without operations of {text} (or with them moved elsewhere): if episodes come as often, this "
        "is a coincidence.",
        remedy=f"Find out what is special about {text}.",
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
    null_model="Each slow episode could have hit any operation of the same kind that would have been slow, too, had it lost as much: drawn evenly, in "
    "proportion to its time in the stage that held it, or one of those there at a moment, whichever is least favourable; the largest excess over "
    "all values and pairs of traits is compared (max-T, 1,999 draws and their fitted tail).",
    smallest_effect="5 % of all latency, or outliers (ten times typical) that hold 20 % of the excess and 1 % of all latency; and half "
    "of the episodes beyond chance.",
    run=run,
    last_resort=True,
)
