"""Operations that a log counts but has no time for: those that never began, late already (pgbench -R -L), and those that failed (pgbench)."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.errors import CaseError
from whodisk.reading.thresholds import UNJUDGED_SHARE_MAX
from whodisk.reading.views import Case


@dataclass(frozen=True)
class Untimed:
    """Operations of a layer without a time."""

    layer: str
    #: Late already when their turn came, and not begun.
    skipped: int
    failed: int
    #: Those that have a time, too.
    due: int

    @property
    def share(self) -> float:
        """Part of what was due that has no time, 0 to 1."""
        return (self.skipped + self.failed) / max(1, self.due)

    @property
    def kinds(self) -> list[str]:
        """Why they have none, in words."""
        return ["were skipped"] * (self.skipped > 0) + ["failed"] * (self.failed > 0)

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
        f"{count} of {of.due} operations that {what}"
        for count, what in ((of.skipped, "were skipped"), (of.failed, "failed"))
        if count
    ]
    advice = [
        what
        for count, what in (
            (of.skipped, "run it without a limit on how late operations may begin (pgbench: no -L)"),
            (of.failed, "see in the server's log why they failed (pgbench: --failures-detailed)"),
        )
        if count
    ]
    raise CaseError(
        case.path,
        f"layer {layer}",
        "latencies of what was due",
        f"{' and '.join(found)}, and have none",
        f"{', and '.join(advice)}, so that all have one",
    )


def _untimed(case: Case, layer: str) -> Untimed:
    meta = (case.meta.get("layers") or {}).get(layer) or {}
    skipped, failed, rows = (int(meta.get(name) or 0) for name in ("skipped", "failed", "rows"))
    return Untimed(layer, skipped, failed, skipped + failed + rows)
