"""What a log of summaries says of latencies: percentiles of a run, or of its intervals, of programs and of devices that say no more."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from whodisk import words
from whodisk.evidence.sampled_levels import Levels, two_levels
from whodisk.evidence.thresholds import (
    ACCOUNT_DEVICES_TOLD,
    ACCOUNT_INTERVAL_PERCENTILE_MAX,
    ACCOUNT_KINDS_TOLD,
    ACCOUNT_LONGER_MIN,
    ACCOUNT_PERCENTILES_TOLD,
)
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Floats, quantile_needs

#: Percentiles that are told of a distribution with many.
TOLD_OF_MANY = ("50", "90", "99", "99.9", "99.99")
#: `read_latency_p99_ns`, `run_latency_max_ns`, `latency_ns` (the mean).
METRIC = re.compile(r"(?:(?P<kind>[a-z_]+?)_)?latency(?:_(?P<of>max|stddev|p[0-9.]+))?_ns")
OPERATIONS = re.compile(r"(?:(?P<kind>[a-z_]+?)_)?operations")
#: Clones of a job (fio's numjobs, its logs' numbers).
CLONE = re.compile(r"(?P<job>.+)\.[0-9]+(?P<run>, run [0-9]+)?")
#: What YCSB does behind its run is no load.
NO_LOAD = frozenset(("CLEANUP",))
#: The sum of the others, in go-ycsb's output: of those with its tail, it says least.
SUM = "TOTAL"

#: Why transactions failed, as pgbench counts it.
WHY_FAILED = {"serialization_failures": "could not be serialized", "deadlock_failures": "met a deadlock"}
#: What else it counts, of a run (`run_retried`) or in an interval.
COUNTS = (*WHY_FAILED, "over_limit", "retried", "retries")


@dataclass(frozen=True)
class _Value:
    """A metric over the intervals of a log; of clones, the usual one's, and which had the most."""

    intervals: int
    usual_ns: float
    most_ns: float
    at_ns: float
    whose: str = ""
    least_ns: float = 0.0
    #: Of one subject over time: where it lies on one level and then on another.
    levels: Levels | None = None


@dataclass
class Kind:
    """What a log says of a kind of operations."""

    operations: float = 0.0
    per_s: float = 0.0
    #: Whether each record sums up a run (fio's JSON): it has a count and the rate over the same time.
    is_run: bool = False
    #: `mean`, `max`, `stddev`, or a percentile in percent (`99.9`).
    of: dict[str, _Value] = field(default_factory=dict)

    def tells(self, percentile: str) -> bool:
        """Whether its operations are enough for a percentile, as far as their number is known: 99.99 % of a thousand are all of them."""
        return not self.operations or self.operations >= quantile_needs(float(percentile) / 100.0)

    def compared(self) -> set[str]:
        """The measures that compare it with others: percentiles of which it has enough operations, and none beyond the 99th of single intervals, which are shorter."""
        is_whole = all(value.intervals == 1 for value in self.of.values())
        return {
            of
            for of in self.of
            if of in ("mean", "max")
            or (
                of != "stddev"
                and self.tells(of)
                and (is_whole or float(of) <= ACCOUNT_INTERVAL_PERCENTILE_MAX)
            )
        }

    def tail(self) -> tuple[str, float]:
        """The measure that reaches farthest, and its largest value."""
        percentiles = sorted((of for of in self.of if of not in ("mean", "max", "stddev")), key=float)
        which = "max" if "max" in self.of else percentiles[-1] if percentiles else "mean"
        return which, self.of[which].most_ns if which in self.of else 0.0


@dataclass
class Subject:
    """Of whom a log says something."""

    name: str
    kind: str = "process"
    host: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)
    failures: float = 0.0
    #: `COUNTS` that its log has.
    counts: dict[str, float] = field(default_factory=dict)
    #: Whether its log counts those that did not fail: then none may be left.
    is_counted: bool = False
    #: How many times as long its latencies may be, where its log does not say their unit.
    doubt: float = 0.0
    #: Whether the log is of several hosts.
    of_several: bool = False
    #: Moments at which the log says anything of it.
    moments: int = 0
    #: How many clones it stands for.
    clones: int = 1
    #: `about ` where its latencies are the middles of bins that are powers of two.
    about: str = ""

    @property
    def label(self) -> str:
        """What it is called in sentences."""
        return f"{self.name} of {self.host}" if self.of_several and self.host else self.name

    def operations(self) -> float:
        return sum(kind.operations for kind in self.kinds.values())

    def tail(self) -> tuple[str, float]:
        return max((kind.tail() for kind in self.kinds.values()), key=lambda tail: (rank(tail[0]), tail[1]))


def rank(measure: str) -> float:
    """How far a measure reaches: the mean says nothing of a tail."""
    return {"mean": -1.0, "stddev": -0.5, "max": 101.0}.get(measure) or float(measure)


def has_own_zero(case: Case) -> bool:
    """Whether moments of the log count from the begin of what it is about."""
    return str((case.meta.get("clock") or {}).get("name") or "").startswith("the begin of ")


def zero_sql(case: Case) -> str:
    """The moment from which those of samples are counted: the log's own zero, or that of the case where it has times of day, else the first sample."""
    return (
        "0" if has_own_zero(case) or case.zero_of_day_ns is not None else "(SELECT min(time_ns) FROM series)"
    )


def samples_of(case: Case, host: str, subject: str, kind: str, metric: str) -> tuple[Floats, Floats]:
    """Moments, ns after the log's zero, and values of a metric of one subject, in their order."""
    data = case.arrays(
        f"""SELECT time_ns - {zero_sql(case)} AS time_ns, value FROM series WHERE kind = {quoted(kind)} AND metric = {quoted(metric)}
  AND subject = {quoted(subject)} AND coalesce(host, '') = {quoted(host)} ORDER BY 1"""
    )
    return data["time_ns"].astype(np.float64), data["value"].astype(np.float64)


#: What a log says of latencies, how many there were, and what failed.
_CHOSEN = f"""kind IN ('device', 'process', 'component')
  AND (metric LIKE '%latency%\\_ns' ESCAPE '\\' OR metric LIKE '%operations' OR metric LIKE '%operations_per_s' OR metric IN ('failures', 'unit_doubt_ratio', 'bin_width_ratio')
  OR regexp_replace(metric, '^run_', '') IN ({", ".join(map(quoted, COUNTS))}))"""


@dataclass(frozen=True)
class Paragraph:
    """Sentences on a program or device, behind what it is called there; `of` is its label, empty where others are spoken of, too."""

    of: str
    head: str
    text: str
    #: Whether it tells of a rate that fell far below the usual one.
    fell: bool = False
    #: What failed, of any program: it stands first.
    failed: str = ""

    def __str__(self) -> str:
        said = f"{self.head}: {self.text}" if self.head else self.text
        return " ".join(one for one in (self.failed, said) if one)

    def after(self, sentence: str) -> Paragraph:
        """The same with a sentence in front."""
        return replace(self, text=f"{sentence} {self.text[0].upper()}{self.text[1:]}")


def latencies(case: Case, besides: set[str]) -> list[Paragraph]:
    """A paragraph per program or device that is not among `besides`: the slowest first, then the one with most operations."""
    subjects = _together([one for one in subjects_of(case) if one.name not in besides])
    failed = [sentence for one in subjects for sentence in _failed(one)]
    chosen = _ordered([one for one in subjects if one.kinds])
    said = [
        text
        for at, one in enumerate(chosen[:ACCOUNT_DEVICES_TOLD])
        if (text := _paragraph(case, _with_levels(case, one), _among(chosen) if at == 0 else ""))
    ]
    rest = chosen[ACCOUNT_DEVICES_TOLD:]
    names = words.some([one.label for one in rest], ACCOUNT_DEVICES_TOLD)
    more = [Paragraph("", "", f"{len(rest)} more in the log: {names}.")] if rest else []
    if failed:
        # What failed is in the short answer, too, which has the first paragraph only.
        first = replace(said[0] if said else Paragraph("", "", ""), failed=" ".join(failed))
        return [first, *said[1:], *more]
    return [*said, *more]


def subjects_of(case: Case) -> list[Subject]:
    """Programs, devices and components of which a log has latencies or failures."""
    rows = case.rows(
        f"""SELECT coalesce(host, '') AS host, subject, kind, metric, count(*) AS n, median(value) AS usual, max(value) AS most, min(value) AS least,
  arg_max(time_ns, value) - {zero_sql(case)} AS at_ns, sum(value) AS total
FROM series WHERE {_CHOSEN} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
    )
    moments = case.rows(
        """SELECT coalesce(host, '') AS host, subject, kind, count(DISTINCT time_ns) AS n FROM series
WHERE metric NOT LIKE 'run\\_%' ESCAPE '\\' GROUP BY 1, 2, 3"""
    )
    found: dict[tuple[str, str, str], Subject] = {}
    rated: list[tuple[Subject, str]] = []
    for row in rows:
        key = (str(row["host"]), str(row["subject"]), str(row["kind"]))
        subject = found.setdefault(key, Subject(key[1], key[2], key[0]))
        metric, total = str(row["metric"]), float(row["total"] or 0)
        if (match := METRIC.fullmatch(metric)) and not float(row["most"] or 0):
            # The kernel does not account how long requests of some volumes take.
            continue
        if match:
            value = _Value(
                int(row["n"] or 0),
                float(row["usual"] or 0),
                float(row["most"] or 0),
                float(row["at_ns"] or 0),
                least_ns=float(row["least"] or 0),
            )
            subject.kinds.setdefault(match["kind"] or "", Kind()).of[_named(match["of"])] = value
        elif match := OPERATIONS.fullmatch(metric):
            subject.kinds.setdefault(match["kind"] or "", Kind()).operations = total
            subject.is_counted = True
        elif metric == "run_operations_per_s":
            subject.kinds.setdefault("run", Kind()).per_s = float(row["usual"] or 0)
        elif metric.endswith("_operations_per_s"):
            rated.append((subject, metric.removesuffix("_operations_per_s")))
        elif metric == "failures":
            subject.failures = total
        elif (counted := metric.removeprefix("run_")) in COUNTS:
            # Intervals add up to the run.
            subject.counts[counted] = max(total, subject.counts.get(counted, 0.0))
        elif metric == "unit_doubt_ratio":
            subject.doubt = float(row["most"] or 0)
        elif metric == "bin_width_ratio":
            subject.about = "about "
    for row in moments:
        key = (str(row["host"]), str(row["subject"]), str(row["kind"]))
        if key in found:
            found[key].moments = int(row["n"] or 0)
    for subject, kind in rated:
        if kind in subject.kinds and subject.kinds[kind].operations:
            subject.kinds[kind].is_run = True
    for subject in found.values():
        _fold(subject)
        subject.kinds = {name: kind for name, kind in subject.kinds.items() if kind.of}
    return list(found.values())


def _with_levels(case: Case, subject: Subject) -> Subject:
    """With the levels of what is told of each kind over intervals; of clones, and of runs, which need not be alike, nothing."""
    for name, kind in subject.kinds.items():
        which = _over_intervals(kind)
        value = kind.of.get(which)
        if (
            subject.clones > 1
            or kind.is_run
            or name.startswith("run")
            or value is None
            or value.intervals < 2
        ):
            continue
        stem = f"{name}_latency" if name else "latency"
        metric = f"{stem}_ns" if which == "mean" else f"{stem}_{'' if which == 'max' else 'p'}{which}_ns"
        levels = two_levels(*samples_of(case, subject.host, subject.name, subject.kind, metric))
        kind.of[which] = replace(value, levels=levels)
    return subject


def _fold(subject: Subject) -> None:
    """One interval that has all operations of the run is the run."""
    only, run = subject.kinds.get(""), subject.kinds.get("run")
    if only is None or run is None or only.operations != run.operations or not run.operations:
        return
    if all(value.intervals == 1 for value in only.of.values()):
        run.of = {**only.of, **run.of}
        del subject.kinds[""]


def _together(subjects: list[Subject]) -> list[Subject]:
    """With the clones of a job as one."""
    groups: dict[tuple[str, str], list[Subject]] = {}
    several = len({one.host for one in subjects}) > 1
    for one in subjects:
        one.of_several = several
        match = CLONE.fullmatch(one.name) if one.kind == "process" and one.kinds else None
        name = f"{match['job']}{match['run'] or ''}" if match else one.name
        groups.setdefault((one.host, name), []).append(one)
    return [_joined(name, group) if len(group) > 1 else group[0] for (_, name), group in groups.items()]


def _joined(name: str, clones: list[Subject]) -> Subject:
    first = clones[0]
    joined = Subject(
        name,
        first.kind,
        first.host,
        of_several=first.of_several,
        clones=len(clones),
        doubt=max(one.doubt for one in clones),
    )
    joined.moments = max(one.moments for one in clones)
    joined.failures = sum(one.failures for one in clones)
    joined.counts = {of: sum(one.counts.get(of, 0.0) for one in clones) for of in COUNTS}
    for kind in sorted({kind for one in clones for kind in one.kinds}):
        having = [(one.name, one.kinds[kind]) for one in clones if kind in one.kinds]
        sums = Kind(
            sum(of.operations for _, of in having),
            sum(of.per_s for _, of in having),
            any(of.is_run for _, of in having),
        )
        for which in {which for _, of in having for which in of.of}:
            values = [(whose, of.of[which]) for whose, of in having if which in of.of]
            whose, most = max(values, key=lambda value: value[1].most_ns)
            usual = statistics.median(value.usual_ns for _, value in values)
            intervals = max(value.intervals for _, value in values)
            sums.of[which] = _Value(intervals, usual, most.most_ns, most.at_ns, whose)
        joined.kinds[kind] = sums
    return joined


def _compared_by(several: list[list[Kind]]) -> str:
    """By what one of several, each with one kind or more, is the slowest: the highest percentile that all have, else the mean, and only else the longest
    operation, which happened once; empty where nothing that they have in common tells one."""
    if len(several) < 2:
        return ""
    common = set.intersection(*(set().union(*(kind.compared() for kind in kinds)) for kinds in several))
    percentiles = sorted(common - {"mean", "max"}, key=float)
    for by in (of for of in (*percentiles[-1:], "mean", "max") if of in common):
        *_, second, first = sorted(_longest_ns(kinds, by) for kinds in several)
        if first > second:
            return by
    return ""


def _longest_ns(kinds: Iterable[Kind], by: str) -> float:
    """The largest value of a measure."""
    return max((kind.of[by].most_ns for kind in kinds if by in kind.of), default=0.0)


def _slowest_by(subjects: list[Subject]) -> str:
    """By what the slowest of them is told; the sum of the others has the longest operation of one of them, and is no rival."""
    return _compared_by([list(one.kinds.values()) for one in subjects if one.name not in (*NO_LOAD, SUM)])


def _ordered(subjects: list[Subject]) -> list[Subject]:
    """The slowest, the one with most operations, the others by what tells the slowest."""
    by = _slowest_by(subjects)

    def order(one: Subject) -> tuple[bool, float, float, float, bool]:
        measure, most = one.tail()
        return (
            one.name in NO_LOAD,
            -_longest_ns(one.kinds.values(), by),
            -rank(measure),
            -most,
            one.name == SUM,
        )

    by_tail = sorted(subjects, key=order)
    if len(by_tail) <= 2:
        return by_tail
    load = [one for one in by_tail[1:] if one.name not in (*NO_LOAD, SUM)] or by_tail[1:]
    most = max(load, key=lambda one: one.operations())
    return [by_tail[0], most, *(one for one in by_tail[1:] if one is not most)]


def _among(subjects: list[Subject]) -> str:
    """What the first of them is among them; the slowest only where all are measured alike."""
    subjects = [one for one in subjects if one.name not in NO_LOAD]
    if len(subjects) < 2:
        return ""
    by = _slowest_by(subjects)
    if not by:
        return f", one of {len(subjects)}"
    longer = _longer([(f"an operation of {one.label}", list(one.kinds.values())) for one in subjects])
    if by != "mean":
        return f", the slowest of {len(subjects)} {_by_said(by)}{longer}"
    is_summed = all(value.intervals == 1 for kind in subjects[0].kinds.values() for value in kind.of.values())
    return f", {'the slowest on average' if is_summed else 'with the slowest interval'} of {len(subjects)}{longer}"


def _by_said(by: str) -> str:
    return {"max": "by its longest operation", "50": "by the median"}.get(by, f"by the {by}th percentile")


def _longer(several: list[tuple[str, list[Kind]]]) -> str:
    """An operation that took much longer than the longest of the first, which is the slowest by another measure: of each its name, and kinds."""
    first, *others = ((name, _longest_ns(kinds, "max")) for name, kinds in several)
    name, most_ns = max(others, key=lambda other: other[1])
    if not first[1] or most_ns < ACCOUNT_LONGER_MIN * first[1]:
        return ""
    return f" (though {name} took {words.duration(most_ns)})"


def _failed(subject: Subject) -> list[str]:
    """What failed, and why; what took longer than it should, and what was tried again."""
    name, counts = subject.label, subject.counts
    done = max((kind.operations for kind in subject.kinds.values()), default=0.0)
    reasons = {why: counts[of] for of, why in WHY_FAILED.items() if counts.get(of)}
    failures = max(subject.failures, sum(reasons.values()))
    told = [why if many == failures else f"{words.count(many)} {why}" for why, many in reasons.items()]
    because = f" ({words.listed(told)})" if told else ""
    said = []
    if failures > 1 and not done and subject.is_counted:
        said.append(f"All {words.count(failures)} operations of {name} failed{because}.")
    elif failures:
        said.append(f"{_of(failures, done + failures)} of {name} failed{because}.")
    if over := counts.get("over_limit"):
        said.append(f"{_of(over, done)} of {name} took longer than the limit that it was given.")
    if retried := counts.get("retried"):
        often = f", {words.things(counts['retries'], 'time')} in all" if counts.get("retries") else ""
        said.append(
            f"{_of(retried, done + failures)} of {name} {'was' if retried == 1 else 'were'} tried again{often}."
        )
    return said


def _of(many: float, among: float) -> str:
    """`3 of 103 operations`; of how many is left out where that is not known."""
    return (
        f"{words.count(many)} of {words.things(among, 'operation')}"
        if among > many
        else words.things(many, "operation")
    )


def kind_name(name: str, subject: str) -> str:
    """`reads of job`; what YCSB does is its own kind."""
    return f"{'operations' if name == 'run' else _plural(name)} of {subject}"


def _named(of: str | None) -> str:
    return "mean" if of is None else of.removeprefix("p")


def _paragraph(case: Case, subject: Subject, among: str) -> Paragraph | None:
    kinds = subject.kinds
    first = _kinds_by_tail(kinds)
    said = [
        _sentence(case, name, kinds[name], subject, _among_kinds(first, kinds) if at == 0 else "")
        for at, name in enumerate(first[:ACCOUNT_KINDS_TOLD])
    ]
    said = [sentence for sentence in said if sentence]
    if not said:
        return None
    if (hidden := len(first) - ACCOUNT_KINDS_TOLD) > 0:
        said.append(
            f"{words.things(hidden, 'more kind')} of operations {'is' if hidden == 1 else 'are'} in the log."
        )
    name = subject.label + (f", {subject.clones} jobs" if subject.clones > 1 else "") + among
    if subject.doubt:
        name += (
            f" (latencies may be {words.count(subject.doubt)} times as long: the log does not say their unit)"
        )
    return Paragraph(subject.label, name, words.joined(said))


def _told_apart(kinds: dict[str, Kind]) -> dict[str, Kind]:
    """Kinds of operations, without what is of all of them."""
    return {name: kind for name, kind in kinds.items() if name and not name.startswith("run")}


def _among_kinds(names: list[str], kinds: dict[str, Kind]) -> str:
    """What the first of several kinds is among them."""
    several = _told_apart(kinds)
    if len(several) < 2 or names[0] not in several:
        return ""
    by = _compared_by([[kind] for kind in several.values()])
    ordered = [(f"one of the {_plural(name)}", [several[name]]) for name in names if name in several]
    slowest = max(several, key=lambda name: _longest_ns([several[name]], by))
    if not by or slowest != names[0]:
        return f", one of {len(several)} kinds"
    if by != "mean":
        return f", the slowest of {len(several)} kinds {_by_said(by)}{_longer(ordered)}"
    is_summed = any(kind.operations for kind in several.values())
    return f", {'the slowest on average' if is_summed else 'with the slowest interval'} of {len(several)} kinds{_longer(ordered)}"


def _kinds_by_tail(kinds: dict[str, Kind]) -> list[str]:
    """The slowest first, where tails are known, or no counts; then the commonest. Where only means and counts are, the slowest is among those named."""
    common = sorted(kinds, key=lambda kind: (kind.startswith("run"), -kinds[kind].operations))
    several = _told_apart(kinds)
    by = _compared_by([[kind] for kind in several.values()])

    def reach(kind: str) -> tuple[float, float, float]:
        measure, most = kinds[kind].tail()
        return _longest_ns([kinds[kind]], by), rank(measure), most

    slowest = max((kind for kind in common if not by or kind in several), key=reach)
    if kinds[slowest].tail()[0] != "mean" or not any(kind.operations for kind in kinds.values()):
        return [slowest, *(kind for kind in common if kind != slowest)]
    if common.index(slowest) < ACCOUNT_KINDS_TOLD:
        return common
    common.remove(slowest)
    return [*common[: ACCOUNT_KINDS_TOLD - 1], slowest, *common[ACCOUNT_KINDS_TOLD - 1 :]]


def _plural(name: str) -> str:
    """`db_flush` are db flushes; those of no kind are operations."""
    if name == "handler":
        return "runs"
    *before, last = name.split("_")
    return " ".join([*before, words.plural_op(last)]) if name else "operations"


def _counted(name: str, kind: Kind, intervals: int) -> str:
    many = f"{words.count(kind.operations)} " if kind.operations else ""
    if name != "run":
        what = _plural(name)
        one = {"runs": "run", "operations": "operation"}.get(what, what)
        return f"{many}{one if round(kind.operations) == 1 else what}"
    rate = f" ({words.rate(kind.per_s)} per second)" if kind.per_s else ""
    which = "the whole run" if intervals == 1 else f"{intervals} whole runs"
    if not many:
        return f"{which}{rate}"
    return f"{words.things(kind.operations, 'operation')}{rate} in {which}"


def _sentence(case: Case, name: str, kind: Kind, subject: Subject, among: str) -> str:
    """Of one summary its percentiles; of several intervals how far they are apart; of clones, how far these are."""
    percentiles = sorted((of for of in kind.of if of not in ("mean", "max", "stddev")), key=float)
    intervals = max(value.intervals for value in kind.of.values())
    counted = _counted(name, kind, intervals) + among
    if intervals == 1 and subject.clones == 1:
        parts = _parts(kind, percentiles, subject.about)
        one = kind.of[kind.tail()[0]]
        alone = (
            f" in the only one of {subject.moments} intervals that has any (at {case.moment(one.at_ns)})"
            if subject.moments > 1 and not name.startswith("run")
            else ""
        )
        return f"{counted}: {', '.join(parts)}{alone}." if parts else ""
    which = _over_intervals(kind)
    value = kind.of[which]
    of_which = {"mean": "the mean", "max": "the slowest"}.get(which, f"the {which}th percentile")
    is_run = kind.is_run or name.startswith("run")
    unit = "run" if is_run else "interval"
    if value.levels is not None:
        before, after = value.levels.before, value.levels.after
        moments = value.levels.said(
            case, f"{subject.about}{words.duration(before)}", f"{subject.about}{words.duration(after)}"
        )
        usual = f"{moments} ({words.things(value.intervals, unit)})"
    else:
        usual = f"{subject.about}{_usual(value, subject, unit)}"
    most = _most(case, value, subject, intervals, kind.is_run)
    said = f"{counted}: {of_which} is {usual}, {subject.about}{words.duration(value.most_ns)} at most{most}"
    if which != "max" and "max" in kind.of:
        slowest = kind.of["max"]
        said += f"; the slowest took {subject.about}{words.duration(slowest.most_ns)}{_most(case, slowest, subject, intervals, kind.is_run)}"
    return said + "."


def _over_intervals(kind: Kind) -> str:
    """What is told of several intervals: the tail, as far as each tells it."""
    percentiles = sorted((of for of in kind.of if of not in ("mean", "max", "stddev")), key=float)
    below = [of for of in percentiles if float(of) <= ACCOUNT_INTERVAL_PERCENTILE_MAX]
    return below[-1] if below else "mean" if "mean" in kind.of else percentiles[0] if percentiles else "max"


def _usual(value: _Value, subject: Subject, unit: str) -> str:
    took = words.duration(value.usual_ns)
    if subject.clones == 1:
        return f"{took} in the median of {words.things(value.intervals, unit)}"
    if value.intervals == 1:
        return f"{took} in the median job"
    return f"{took} in the median job's median of {words.things(value.intervals, unit)}"


def _most(case: Case, value: _Value, subject: Subject, intervals: int, is_run: bool) -> str:
    """When it was, and which clone's; a single summary has no moment, and of runs it is which one."""
    at = f"at {case.moment(value.at_ns)}"
    told: Iterable[str] = (
        (f"the run {at}" if is_run else at) if intervals > 1 else "",
        value.whose if subject.clones > 1 else "",
    )
    told = [part for part in told if part]
    return f" ({', '.join(told)})" if told else ""


def _parts(kind: Kind, percentiles: list[str], about: str) -> list[str]:
    slowest = words.duration(kind.of["max"].usual_ns) if "max" in kind.of else ""
    known = [of for of in percentiles if kind.tells(of)]
    if len(known) > ACCOUNT_PERCENTILES_TOLD:
        known = [of for of in known if of in TOLD_OF_MANY] or known[-ACCOUNT_PERCENTILES_TOLD:]
    parts = [
        f"{'half' if of == '50' else f'{of} %'} within {about}{words.duration(kind.of[of].usual_ns)}"
        for of in known
    ]
    if not parts and "mean" in kind.of and words.duration(kind.of["mean"].usual_ns) != slowest:
        parts = [f"{about}{words.duration(kind.of['mean'].usual_ns)} on average"]
        if "stddev" in kind.of:
            parts.append(f"with a standard deviation of {words.duration(kind.of['stddev'].usual_ns)}")
    if "max" in kind.of:
        parts.append(f"the slowest {about}{words.duration(kind.of['max'].usual_ns)}")
    return parts
