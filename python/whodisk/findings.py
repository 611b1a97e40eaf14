"""The only output type of a detector, and the verdict made of it.

`docs/reference/findings.md` describes the JSON these classes become. Numbers are finite floats or integers;
a number that could not be found is absent (None), never NaN.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

from whodisk import words
from whodisk.types import Cell

#: Version of the JSON that `Verdict.to_json` writes.
SCHEMA_VERSION = 2

#: Every status a verdict can have.
STATUSES = ("healthy", "slow", "outliers", "limited", "insufficient")

#: How the begin of an imported case ends, instead of with a zone.
BY_ITS_LOG = " by its log"

#: What a claim rests on (DESIGN 8): read off the record of these operations; a difference to peers or to an earlier case, with an
#: interval; or what a test says of operations like them.
BASES = ("measured", "estimated", "inferred")

#: What the verdict says where the record holds nothing that could have held an operation.
NOTHING_OBSERVED = "nothing observed"

#: What a claim may answer: a flight recorder's trigger (DESIGN 6), an expectation that was given, or nothing but what the case shows.
QUESTIONS = ("trigger", "expectation", "")

#: Every kind of culprit (DESIGN 7).
CULPRIT_KINDS = (
    "stage",
    "device",
    "vector",
    "host",
    "request_shape",
    "cache_tier",
    "layout",
    "time_pattern",
    "saturation",
    "process",
    "config",
)


@dataclass(frozen=True)
class Culprit:
    """Who is to blame: ``kind`` is one of `CULPRIT_KINDS`, ``because_of`` narrows it down."""

    kind: str
    name: str
    because_of: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in CULPRIT_KINDS:
            raise ValueError(f"culprit kind {self.kind!r} is none of {CULPRIT_KINDS}")


@dataclass(frozen=True)
class Effect:
    """Size of an effect with its 95 % interval, all three in ``unit``."""

    metric: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Evidence:
    """One fact. ``query`` ran as written and can be pasted into DuckDB inside the case directory."""

    what: str
    query: str
    rows: list[dict[str, Cell]] = field(default_factory=list)


@dataclass(frozen=True)
class Finding:
    """One claim about a culprit."""

    detector: str
    culprit: Culprit
    #: One plain sentence.
    claim: str
    #: What the effect is relative to.
    baseline: str
    effect: Effect
    #: Part of the slow operations' excess latency that this culprit explains, 0..1.
    share_of_excess: float
    #: After Benjamini-Hochberg over every test of the run; None where the claim is measured: no test decides.
    q_value: float | None
    #: Independent pieces of evidence.
    episodes: int
    evidence: list[Evidence]
    #: The experiment that would show this wrong.
    refute: str
    remedy: str
    #: Part of all latency that this culprit cost, 0..1.
    share_of_latency: float = 0.0
    #: 95 % interval of ``share_of_excess``.
    share_low: float | None = None
    share_high: float | None = None
    #: One of `BASES`.
    basis: str = "inferred"
    #: One of `QUESTIONS`.
    answers: str = ""
    #: Metric -> `with` and `without` the culprit: p50 to p99.99 and max of the kinds of operations that it holds up (ns), throughput
    #: (operations per second). A metric that is not known is absent.
    worse: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Slowest:
    """One of the slowest episodes: when, how long, how many, where, and what was going on there."""

    start_ns: int
    latency_ns: int
    #: Operations that shared it; 0 for a silence in which nothing was in flight.
    operations: int
    op: str
    #: Printed name of the stage that held the longest of them, ns of `latency_ns` in it.
    stage: str
    stage_ns: int
    #: In words; `NOTHING_OBSERVED` where the record has none.
    what: str
    #: Whether `what` held it; else it was there at the same time, as it often is.
    certain: bool
    #: Whether it stands apart from the rest of its kind.
    apart: bool
    device: str
    #: Some of them, the longest first.
    op_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Cleared:
    """Something shown innocent, as far as the numbers reach.

    With confidence ``confidence`` at least the part ``quantile`` of blocks of time has all of its operations within
    ``bound``; ``resolution`` is the finest step the instrument could have seen.
    """

    what: str
    bound: str
    quantile: float
    confidence: float
    resolution: str
    #: Blocks of time with an operation in them, and their length, ns; 0 = the bound is over operations.
    blocks: int = 0
    block_ns: int = 0

    @property
    def unit(self) -> str:
        """What the quantile is a part of: ``blocks of 4 ms``."""
        return f"blocks of {words.duration(self.block_ns)}" if self.block_ns else "such operations"


@dataclass(frozen=True)
class Caveat:
    """Something the case cannot exclude, and why."""

    what: str
    because: str


@dataclass(frozen=True)
class Expectation:
    """An expectation and how the case did: ``text`` as given, ``met`` None if it cannot be said."""

    text: str
    met: bool | None
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """What a solve run says."""

    #: Name of the case directory.
    case: str
    status: str
    #: Plain sentences, the most important first; the terminal prints these.
    summary: list[str]
    #: Operation kind -> printed stage name -> part of that kind's latency (sums to 1).
    where_time_goes: dict[str, dict[str, float]]
    #: Operations judged, after ramp phases were left out.
    operations: int
    limit: str | None = None
    findings: list[Finding] = field(default_factory=list)
    #: Of a flight recorder's case what triggered, in words: when, how long, where, and what held it.
    fired: list[str] = field(default_factory=list)
    #: The slowest episodes: those that stand apart first, then the longest. In every status.
    slowest: list[Slowest] = field(default_factory=list)
    #: Causes that suggest themselves and cannot have produced the loss, rejected in words.
    too_small: list[str] = field(default_factory=list)
    #: Effects below what a finding needs.
    minor: list[str] = field(default_factory=list)
    cleared: list[Cleared] = field(default_factory=list)
    cannot_exclude: list[Caveat] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    #: The tier (`ram`) that served nearly all that was read: that nothing was found below it says nothing. Empty: none did.
    served_from: str = ""
    #: Two sentences: how long operations took, and where they spent their time.
    speed: list[str] = field(default_factory=list)
    #: What to record or run next.
    next_steps: list[str] = field(default_factory=list)
    simulated: bool = False
    #: Operations that failed in a way that is storage's, a sentence for each kind, device and error; a file system that errors made read-only.
    failed: list[str] = field(default_factory=list)
    #: Those of `failed` that the first sentence of `summary` tells, with others of their kind and error; the first of `next_steps` says what to do about them.
    failed_first: list[str] = field(default_factory=list)
    #: How the recorded command ended, a sentence, where it was not with exit 0, nor stopped by whoever recorded it. Empty otherwise.
    ended: str = ""
    #: Volumes that the verdict mentions by the kernel's names (dm-0) -> what people call them (vg0-data).
    called: dict[str, str] = field(default_factory=dict)
    #: What the calendar said at 0 s of the case: `2018-06-13 22:11:07 UTC`, or `... by its log`, or a time of day alone. Empty: it is not known.
    began: str = ""
    #: What the clock of a log said at 0 s, ns since midnight, that has times of day and no date: moments are printed as these.
    zero_of_day_ns: int | None = None

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is none of {STATUSES}")

    @property
    def check_failed(self) -> bool:
        """Whether a requested expectation was not met, or could not be judged (exit status 1)."""
        return any(expectation.met is not True for expectation in self.expectations)

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain dictionaries and lists, rounded so that it is stable."""
        plain = {"schema": SCHEMA_VERSION, **dataclasses.asdict(self)}
        rounded: dict[str, Any] = _rounded(plain)
        return rounded

    def to_json(self) -> str:
        """The verdict as JSON; the same verdict gives the same text."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Verdict:
        """Reads what `to_json` wrote."""
        return verdict_from_dict(json.loads(text))


def verdict_from_dict(data: dict[str, Any]) -> Verdict:
    """The verdict behind a dictionary of `Verdict.to_dict`. Raises ValueError if newer."""
    if data.get("schema") != SCHEMA_VERSION:
        raise ValueError(
            f"findings schema: expected {SCHEMA_VERSION}, found {data.get('schema')}; "
            "solve the case again with this whodisk"
        )
    fields = {key: value for key, value in data.items() if key != "schema"}
    fields["findings"] = [_finding(item) for item in data["findings"]]
    fields["slowest"] = [Slowest(**item) for item in data["slowest"]]
    fields["cleared"] = [Cleared(**item) for item in data["cleared"]]
    fields["cannot_exclude"] = [Caveat(**item) for item in data["cannot_exclude"]]
    fields["expectations"] = [Expectation(**item) for item in data["expectations"]]
    return Verdict(**fields)


def _finding(item: dict[str, Any]) -> Finding:
    parts = dict(item)
    parts["culprit"] = Culprit(**item["culprit"])
    parts["effect"] = Effect(**item["effect"])
    parts["evidence"] = [Evidence(**entry) for entry in item["evidence"]]
    return Finding(**parts)


def _rounded(value: Any) -> Any:
    """Floats to nine significant digits, tuples to lists; non-finite floats become None."""
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    raise TypeError(f"a verdict cannot hold a {type(value).__name__}")
