"""Operations that a log counts but has no time for: those that never began, late already (pgbench -R -L), and those that failed (pgbench)."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.errors import CaseError
from whodisk.reading.thresholds import UNJUDGED_SHARE_MAX
from whodisk.reading.views import Case


@dataclass(frozen=True)
class Reason:
    """Why operations have no time, in words that follow "those that" or their number."""

    short: str
    long: str
    #: What to do about it.
    step: str
    #: How they would have a time.
    remedy: str


#: By the name in `case.json` under which a layer counts them.
REASONS = {
    "skipped": Reason(
        "were skipped",
        "were skipped, late by more than the limit set for them when their turn came",
        "Record the machine that serves the workload while it runs (whodisk record): its own log does not show what held it back.",
        "run it without a limit on how late operations may begin (pgbench: no -L)",
    ),
    "failed": Reason(
        "failed",
        "failed, and their times are not in the log",
        "Look in the server's log for why operations failed (pgbench: run it with --failures-detailed).",
        "see in the server's log why they failed (pgbench: --failures-detailed)",
    ),
}


@dataclass(frozen=True)
class Untimed:
    """Operations of a layer without a time."""

    layer: str
    #: How many, by the keys of `REASONS`; none that is 0.
    counts: dict[str, int]
    #: Those that have a time, too.
    due: int

    @property
    def share(self) -> float:
        """Part of what was due that has no time, 0 to 1."""
        return sum(self.counts.values()) / max(1, self.due)

    @property
    def reasons(self) -> list[Reason]:
        """Why they have none."""
        return [REASONS[name] for name in self.counts]

    @property
    def is_too_much(self) -> bool:
        """Whether what is left is not healthy, whatever it looks like."""
        return self.share >= UNJUDGED_SHARE_MAX


def too_many_untimed(case: Case) -> Untimed | None:
    """The layer of which too many operations have no time."""
    return next((of for layer in case.layers if (of := _untimed(case, layer)).is_too_much), None)


def need_times(case: Case, layer: str) -> None:
    """Raises CaseError if too many of a layer have no time: latencies of the others are no larger than a limit, or of those that succeeded alone."""
    of = _untimed(case, layer)
    if not of.is_too_much:
        return
    found = [
        f"{count} of {of.due} operations that {REASONS[name].short}" for name, count in of.counts.items()
    ]
    raise CaseError(
        case.path,
        f"layer {layer}",
        "latencies of what was due",
        f"{' and '.join(found)}, and have none",
        f"{', and '.join(reason.remedy for reason in of.reasons)}, so that all have one",
    )


def _untimed(case: Case, layer: str) -> Untimed:
    meta = (case.meta.get("layers") or {}).get(layer) or {}
    counts = {name: count for name in REASONS if (count := int(meta.get(name) or 0))}
    return Untimed(layer, counts, sum(counts.values()) + int(meta.get("rows") or 0))
