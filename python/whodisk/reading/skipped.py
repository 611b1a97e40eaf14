"""Operations that were due and never began, since they were late already: whoever asked for them logged how many (pgbench -R -L)."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.errors import CaseError
from whodisk.reading.thresholds import UNJUDGED_SHARE_MAX
from whodisk.reading.views import Case


@dataclass(frozen=True)
class Skipped:
    """Operations of a layer that never began."""

    layer: str
    skipped: int
    #: Those that began, too.
    due: int

    @property
    def share(self) -> float:
        """Part of what was due that never began, 0 to 1."""
        return self.skipped / max(1, self.due)

    @property
    def is_too_much(self) -> bool:
        """Whether what is left is not healthy, whatever it looks like: those that are missing are the slow ones."""
        return self.share >= UNJUDGED_SHARE_MAX


def too_many_skipped(case: Case) -> Skipped | None:
    """The layer of which too many operations never began."""
    return next((of for layer in case.layers if (of := _skipped(case, layer)).is_too_much), None)


def need_begun(case: Case, layer: str) -> None:
    """Raises CaseError if too many of a layer never began: latencies of the others are no larger than a limit."""
    of = _skipped(case, layer)
    if of.is_too_much:
        raise CaseError(
            case.path,
            f"layer {layer}",
            "latencies of what was due",
            f"{of.skipped} of {of.due} operations that were skipped, and have none",
            "run it without a limit on how late operations may begin (pgbench: no -L), so that all have one",
        )


def _skipped(case: Case, layer: str) -> Skipped:
    meta = (case.meta.get("layers") or {}).get(layer) or {}
    skipped, rows = (int(meta.get(name) or 0) for name in ("skipped", "rows"))
    return Skipped(layer, skipped, skipped + rows)
