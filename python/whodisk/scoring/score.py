"""How often is the solver right? Cases with a known truth, solved and counted.

The truth of a case is `truth.json` beside its case.json. `culprits` (or one `culprit`) lists `kind` and `name`; `healthy` says that
nobody may be accused; `faults` are what was done, each with its `kind`, `culprit` and the `effect` that removing it has
(`p99_ratio`, `throughput_ratio`; or any metric that a finding states, to see whether its interval covers it); `population` is
the number of things that could have been accused.

What was done alike to three drives or more is how these drives are: it makes none of them a culprit, whatever its effect, and
accusing one of them is a false alarm. That all of them are slow may be said: the stage `device`, and no drive.

A finding may name a culprit by another name of the same thing (`whodisk.scoring.aliases`). Every fault that counts is guilty; the
culprit is the one that does most harm, and only it makes a case right; where another does as much, either does. On a healthy case an accusation of a fault that was
really there, but is too small to count, is distinguished from a false alarm.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import whodisk
from whodisk.errors import WhodiskError
from whodisk.findings import Finding, Verdict
from whodisk.scoring.aliases import named_by
from whodisk.statistics import probability

TRUTH = "truth.json"
#: Results so far, one JSON object per line, so that a stopped run goes on where it was.
RESULTS = "score.jsonl"
#: Effects of a fault are counted in these ranges: how many times worse p99 or throughput was because of it. Below the second a fault counts
#: because an operation that it hit stands apart.
EFFECT_STEPS = (1.0, 1.1, 1.2, 1.35, 1.5, 2.0, 5.0)
#: The bar asks for cases in which the culprit made things this much worse.
EFFECT_BAR = 1.5
#: Effects that differ by less than this factor are equal: the lab's histograms have bins that are 1.1 % wide.
EQUAL = 1.011
#: As many faults of one kind and size on drives are how the drives are (`whodisk.machine.peers`: this many are peers).
ALIKE_MIN = 3
#: A case may take this long in a process of its own, seconds.
PATIENCE_S = 600


@dataclass(frozen=True)
class Named:
    """A culprit: what is true, or what was said."""

    kind: str
    name: str
    because_of: str | None = None


#: Where the time of drives is lost that are all slow alike.
ALL_DRIVES = Named("stage", "device")


@dataclass
class Outcome:
    """One case: what is true, what was said. Ranks begin at 1; None = not found."""

    case: str
    simulated: bool
    group: str
    healthy: bool
    truth: list[Named]
    found: list[Named]
    #: Rank of the first finding that names the culprit.
    rank: int | None
    #: Healthy cases: every accusation is of a fault that was there, but too small to count.
    small: bool = False
    #: The verdict is that the data do not suffice.
    declined: bool = False
    #: So much of a layer was lost that no verdict is asked for (DESIGN 8): not scored, whatever the verdict is.
    too_much_lost: bool = False
    #: Things rightly accused, wrongly accused, missed, and rightly left alone (None = not known how many there were).
    right: int = 0
    wrong: int = 0
    missed: int = 0
    left_alone: int | None = None
    #: Effect of the culprit's fault; None = not stated.
    effect: float | None = None
    fault: str | None = None
    #: Stated intervals that could be checked, and those that cover the truth.
    intervals: int = 0
    covered: int = 0
    seconds: float = 0.0
    error: str | None = None
    key: str = ""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), ensure_ascii=False)


def outcome_from_json(text: str) -> Outcome:
    """What `Outcome.to_json` wrote."""
    data = json.loads(text)
    data["truth"] = [Named(**item) for item in data["truth"]]
    data["found"] = [Named(**item) for item in data["found"]]
    return Outcome(**data)


# -- one case -----------------------------------------------------------------------------------


def cases_below(folder: Path) -> list[Path]:
    """Every case with a truth in or below `folder`. Raises WhodiskError if there is none."""
    if not folder.is_dir():
        raise WhodiskError(f"{folder}: expected a directory with cases, found none; check the path")
    found = sorted(path.parent for path in folder.rglob(TRUTH) if (path.parent / "case.json").is_file())
    if not found:
        raise WhodiskError(
            f"{folder}: expected cases with a {TRUTH} in or below it, found none; whodisk lab writes such cases"
        )
    return found


def same(true: Named, said: Named) -> bool:
    """Whether what was said names what is true; by itself, or as the reason of something else."""
    if said.kind == true.kind:
        # Where boundaries were not observed a stage has a merged name.
        names = said.name.split("+") if true.kind == "stage" else [said.name]
        reasons_differ = None not in (true.because_of, said.because_of) and true.because_of != said.because_of
        if true.name in (said.name, *names):
            return not reasons_differ
    return said.because_of == f"{true.kind}:{true.name}" or true.because_of == f"{said.kind}:{said.name}"


def judge(case: Path, truth: dict[str, Any], meta: dict[str, Any], verdict: Verdict) -> Outcome:
    """Compares a verdict with the truth."""
    listed = truth.get("culprits") or ([truth["culprit"]] if truth.get("culprit") else [])
    true = [_named(culprit) for culprit in listed]
    faults = [fault for fault in truth.get("faults") or [] if isinstance(fault, dict)]
    shared = _shared(faults)
    faults = [fault for fault in faults if fault not in shared]
    true = [t for t in true if t not in [_named(fault.get("culprit") or {}) for fault in shared]]
    said = [Named(f.culprit.kind, f.culprit.name, f.culprit.because_of) for f in verdict.findings]
    # Guilty beside the culprit: they are right to name, but naming only them does not make the case right.
    others = [_named(f.get("culprit") or {}) for f in faults if f.get("counts")]
    guilty = true + [named for named in others if named not in true]
    hits = [any(_means(t, s, faults) for t in true + _equal(faults, true)) for s in said]
    wrong = sum(not any(_means(t, s, faults) for t in guilty) for s in said)
    right = sum(any(_means(t, s, faults) for s in said) for t in true)
    population = truth.get("population")
    healthy = bool(truth.get("healthy")) or not true
    present = [_named(fault.get("culprit") or {}) for fault in faults]
    present += [ALL_DRIVES] if shared else []
    outcome = Outcome(
        case=case.name,
        simulated=bool(meta.get("simulated")),
        group=str(truth.get("scenario") or truth.get("source") or meta.get("observer") or ""),
        healthy=healthy,
        truth=true,
        found=said,
        rank=hits.index(True) + 1 if True in hits else None,
        small=healthy
        and bool(said)
        and all(any(_means(p, s, faults) and _no_drive(p, s) for p in present) for s in said),
        declined=verdict.status == "insufficient",
        right=right,
        wrong=wrong,
        missed=len(true) - right,
        left_alone=int(population) - len(true) - wrong if isinstance(population, int) else None,
    )
    _effects(outcome, truth, verdict.findings)
    return outcome


def _shared(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Faults of one kind and size, on a drive each."""

    def size(fault: dict[str, Any]) -> str:
        magnitude = fault.get("magnitude")
        rest = (
            {k: v for k, v in magnitude.items() if k != "drive"} if isinstance(magnitude, dict) else magnitude
        )
        return json.dumps([fault.get("kind"), rest], sort_keys=True)

    drives = [fault for fault in faults if (fault.get("culprit") or {}).get("kind") == "device"]
    sizes = [size(fault) for fault in drives]
    return [fault for fault in drives if sizes.count(size(fault)) >= ALIKE_MIN]


def _no_drive(true: Named, said: Named) -> bool:
    """Whether a finding about what all drives do leaves each of them alone."""
    return true != ALL_DRIVES or said.because_of is None


def _equal(faults: list[dict[str, Any]], true: list[Named]) -> list[Named]:
    """Culprits of faults that count and do as much harm as a true one's."""
    sized = [
        (_named(fault.get("culprit") or {}), _size(fault.get("effect") or {}) or 0.0)
        for fault in faults
        if fault.get("counts")
    ]
    most = max((size for named, size in sized if named in true), default=math.inf)
    return [named for named, size in sized if size * EQUAL >= most]


def _named(culprit: dict[str, Any]) -> Named:
    return Named(str(culprit.get("kind")), str(culprit.get("name")), culprit.get("because_of"))


def _means(true: Named, said: Named, faults: list[dict[str, Any]]) -> bool:
    """Whether a finding names a culprit, by its own name or by another name of the same thing."""
    if same(true, said):
        return True
    kinds = [str(fault.get("kind")) for fault in faults if _named(fault.get("culprit") or {}) == true]
    return any(named_by(kind, true.name, said.kind, said.name, said.because_of) for kind in kinds)


def _effects(outcome: Outcome, truth: dict[str, Any], findings: list[Finding]) -> None:
    """Size of the true effects, and whether stated intervals cover them."""
    for fault in truth.get("faults") or []:
        culprit = fault.get("culprit") or truth.get("culprit") or {}
        effect = fault.get("effect") or {}
        named = Named(str(culprit.get("kind")), str(culprit.get("name")), culprit.get("because_of"))
        size = _size(effect)
        if named in outcome.truth and size is not None and size > (outcome.effect or 0.0):
            outcome.effect, outcome.fault = size, str(fault.get("kind"))
        for finding in findings:
            said = Named(finding.culprit.kind, finding.culprit.name, finding.culprit.because_of)
            value = effect.get(finding.effect.metric.replace(" ", "_"))
            low, high = finding.effect.low, finding.effect.high
            if (
                _means(named, said, truth["faults"])
                and isinstance(value, (int, float))
                and low is not None
                and high is not None
            ):
                outcome.intervals += 1
                outcome.covered += low <= value <= high


def _size(effect: dict[str, Any]) -> float | None:
    """How many times worse p99 or throughput was with the fault, whichever is more."""
    p99, throughput = effect.get("p99_ratio"), effect.get("throughput_ratio")
    sizes = [float(p99)] if isinstance(p99, (int, float)) else []
    if isinstance(throughput, (int, float)) and throughput > 0:
        sizes.append(max(float(throughput), 1.0 / float(throughput)))
    return max(sizes, default=None)


def score_case(case: Path) -> Outcome:
    """Solves one case. Whatever goes wrong is counted as an error of the solver, with its words."""
    from whodisk.reading.losses import missing_layers
    from whodisk.reading.views import Case
    from whodisk.verdict.solve import solve

    begin = time.perf_counter()
    try:
        truth = json.loads((case / TRUTH).read_text(encoding="utf-8"))
        meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
        outcome = judge(case, truth, meta, solve(case))
        with Case(case) as opened:
            outcome.too_much_lost = any(layer.is_too_much for layer in missing_layers(opened))
    except Exception as error:  # one bad case must not end the run: it becomes a row with its error
        outcome = _failed(case, f"{type(error).__name__}: {error}")
    outcome.seconds = time.perf_counter() - begin
    outcome.key = key_of(case)
    return outcome


def _failed(case: Path, error: str) -> Outcome:
    return Outcome(case.name, False, "", False, [], [], None, error=error)


def key_of(case: Path) -> str:
    """Changes when the case, its truth or the solver's version does."""
    stamps = [(case / name).stat() for name in (TRUTH, "case.json")]
    return ":".join([whodisk.__version__, *(f"{stamp.st_size}.{stamp.st_mtime_ns}" for stamp in stamps)])


def score_all(folder: Path, jobs: int, progress: Callable[[int, int], None]) -> list[Outcome]:
    """Solves every case below `folder` in `jobs` processes; what `score.jsonl` there holds is not solved again."""
    cases = cases_below(folder)
    done = _results(folder / RESULTS)
    outcomes = [done[name] for name in (key_of(case) + str(case) for case in cases) if name in done]
    todo = [case for case in cases if key_of(case) + str(case) not in done]
    progress(len(outcomes), len(cases))
    with (folder / RESULTS).open("a", encoding="utf-8") as file:
        for case, outcome in _solved(todo, jobs):
            # What could not be solved is tried again the next time.
            if outcome.error is None:
                file.write(json.dumps({"path": str(case), "outcome": outcome.to_json()}) + "\n")
                file.flush()
            outcomes.append(outcome)
            progress(len(outcomes), len(cases))
    return sorted(outcomes, key=lambda outcome: outcome.case)


def _solved(cases: list[Path], jobs: int) -> Iterator[tuple[Path, Outcome]]:
    """Solves cases side by side. A process that dies (no memory, a signal) takes only its own case with it."""
    if jobs <= 1 or len(cases) <= 1:
        for case in cases:
            yield case, score_case(case)
        return
    left = set(cases)
    try:
        # Not fork: DuckDB's threads do not survive it.
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(score_case, case): case for case in cases}
            for future in as_completed(futures):
                outcome = future.result()
                left.discard(futures[future])
                yield futures[future], outcome
    except BrokenProcessPool:
        # Which case killed it is not known: the rest goes one by one, each in a process of its own.
        for case in sorted(left):
            yield case, _alone(case)


def _alone(case: Path) -> Outcome:
    """Solves one case in a process of its own."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(score_case, case).result(PATIENCE_S)
    except (BrokenProcessPool, TimeoutError):
        outcome = _failed(case, "the process that solved it died (out of memory?)")
        outcome.key = key_of(case)
        return outcome


def _results(path: Path) -> dict[str, Outcome]:
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
            outcome = outcome_from_json(entry["outcome"])
        except (ValueError, KeyError, TypeError):
            # The last line of a run that was killed.
            continue
        found[outcome.key + entry["path"]] = outcome
    return found


# -- all of them --------------------------------------------------------------------------------


@dataclass
class Score:
    """Counts over cases of one sort."""

    cases: int = 0
    faulty: int = 0
    top1: int = 0
    top3: int = 0
    #: The same where the effect reaches `EFFECT_BAR`.
    large: int = 0
    large_top1: int = 0
    healthy: int = 0
    false_alarms: int = 0
    #: Healthy cases in which only faults too small to count were accused: really there, no false alarms.
    small: int = 0
    #: Verdicts that the data do not suffice; with a fault they are not right.
    declined: int = 0
    #: Not scored: `Outcome.too_much_lost`.
    too_much_lost: int = 0
    errors: int = 0
    right: int = 0
    wrong: int = 0
    missed: int = 0
    left_alone: int | None = None
    intervals: int = 0
    covered: int = 0
    seconds: list[float] = field(default_factory=list)
    #: (fault, lowest effect of the range) -> (found first, cases).
    by_effect: dict[tuple[str, float], tuple[int, int]] = field(default_factory=dict)

    @property
    def large_bound(self) -> float | None:
        """Lower bound of Wilson's 95 % interval of the part of `large` that is right at once."""
        if not self.large:
            return None
        return probability.wilson_low(self.large_top1, self.large)

    @property
    def precision(self) -> float | None:
        """Of what was accused, the part that is guilty."""
        return _ratio(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float | None:
        """Of what is guilty, the part that was accused."""
        return _ratio(self.right, self.right + self.missed)

    @property
    def mcc(self) -> float | None:
        """Matthews' correlation coefficient; None where it is not known what could have been accused."""
        if self.left_alone is None:
            return None
        tp, fp, fn, tn = self.right, self.wrong, self.missed, self.left_alone
        scale = math.sqrt(float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        return (tp * tn - fp * fn) / scale if scale else None

    @property
    def false_alarm_bound(self) -> float | None:
        """Upper 95 % bound (one-sided, exact) of the part of healthy cases in which somebody is accused."""
        if not self.healthy:
            return None
        if self.false_alarms >= self.healthy:
            return 1.0
        return probability.beta_quantile(0.95, self.false_alarms + 1, self.healthy - self.false_alarms)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def total(outcomes: Iterable[Outcome]) -> Score:
    """Adds outcomes up."""
    score = Score()
    for outcome in outcomes:
        score.cases += 1
        score.seconds.append(outcome.seconds)
        if outcome.error is not None:
            score.errors += 1
            continue
        if outcome.too_much_lost:
            score.too_much_lost += 1
            continue
        score.right += outcome.right
        score.wrong += outcome.wrong
        score.missed += outcome.missed
        score.intervals += outcome.intervals
        score.declined += outcome.declined
        score.covered += outcome.covered
        if outcome.left_alone is not None:
            score.left_alone = (score.left_alone or 0) + outcome.left_alone
        if outcome.healthy:
            score.healthy += 1
            score.false_alarms += bool(outcome.found) and not outcome.small
            score.small += outcome.small
            continue
        score.faulty += 1
        score.top1 += outcome.rank == 1
        score.top3 += outcome.rank is not None and outcome.rank <= 3
        if outcome.effect is not None and outcome.effect >= EFFECT_BAR:
            score.large += 1
            score.large_top1 += outcome.rank == 1
        if outcome.effect is not None:
            step = max(s for s in EFFECT_STEPS if s <= max(outcome.effect, EFFECT_STEPS[0]))
            found, cases = score.by_effect.get((outcome.fault or "", step), (0, 0))
            score.by_effect[outcome.fault or "", step] = (found + (outcome.rank == 1), cases + 1)
    return score


def to_dict(score: Score) -> dict[str, Any]:
    """Everything a reader of JSON may want."""
    plain = asdict(score)
    seconds = sorted(plain.pop("seconds"))
    plain.pop("by_effect")
    return {
        **plain,
        "top1_share": _ratio(score.top1, score.faulty),
        "top3_share": _ratio(score.top3, score.faulty),
        "precision": score.precision,
        "recall": score.recall,
        "mcc": score.mcc,
        "large_bound_95": score.large_bound,
        "false_alarm_bound_95": score.false_alarm_bound,
        "coverage": _ratio(score.covered, score.intervals),
        "seconds_median": seconds[len(seconds) // 2] if seconds else None,
        "seconds_max": seconds[-1] if seconds else None,
        "detection": [
            {"fault": fault, "effect_from": step, "found_first": found, "cases": cases}
            for (fault, step), (found, cases) in sorted(score.by_effect.items())
        ],
    }
