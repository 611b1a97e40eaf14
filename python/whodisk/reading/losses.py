"""How much of a layer is missing: which losses took operations away, and from which layer.

The lists are those of docs/reference/case-format.md, section Losses (a test compares them), where `whodisk verify` has them from, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.reading.thresholds import MISSING_SHARE_MAX, UNJUDGED_SHARE_MAX
from whodisk.reading.views import Case

#: What stands before the first `/` in a loss's `probe`, and the layer of the operations it took away.
LAYER_OF = {
    "app": "app",
    "own": "app",
    "syscall": "syscall",
    "block": "block",
    "bio": "block",
    "stack": "block",
}
#: Reasons for which the operations are there all the same.
ROW_IS_THERE = (
    "name_ring_full",
    "merge_ring_full",
    "merge_walk_cut",
    "carrier_ring_full",
    "carriers_cut",
    "volume_appeared",
)

#: The reason of operations whose end is not in an imported log.
WITHOUT_END = "their end is not in the log"


@dataclass(frozen=True)
class Missing:
    """A layer of which too much is missing."""

    layer: str
    #: Operations lost, as far as their number is known.
    lost: int
    #: Operations that are there, and those that a CPU budget left out on purpose.
    there: int
    #: Reasons, the one that took most first.
    reasons: tuple[str, ...]

    @property
    def share(self) -> float:
        """Part of the layer that is missing, 0 to 1."""
        return self.lost / max(1, self.lost + self.there)

    @property
    def is_too_much(self) -> bool:
        """Whether nothing can be concluded from what is left."""
        return self.share > UNJUDGED_SHARE_MAX


def missing_layers(case: Case) -> list[Missing]:
    """Layers of which more than `MISSING_SHARE_MAX` is missing, the emptiest first. A loss of unknown number counts for nothing."""
    lost: dict[str, dict[str, int]] = {}
    rows = case.rows(
        "SELECT probe, reason, sum(lost) AS lost FROM losses WHERE lost > 0 GROUP BY 1, 2 ORDER BY 1, 2"
    )
    for row in rows:
        layer = LAYER_OF.get(str(row["probe"]).split("/")[0])
        reason = str(row["reason"]).split(":")[0]
        if layer is not None and reason not in ROW_IS_THERE:
            of_layer = lost.setdefault(layer, {})
            of_layer[reason] = of_layer.get(reason, 0) + int(row["lost"] or 0)
    for layer, about in (case.meta.get("layers") or {}).items():
        without_end = int((about or {}).get("without_end") or 0)
        if without_end:
            lost.setdefault(layer, {})[WITHOUT_END] = without_end
    found = []
    for layer, by_reason in lost.items():
        reasons = tuple(sorted(by_reason, key=lambda reason: -by_reason[reason]))
        found.append(Missing(layer, sum(by_reason.values()), _there(case, layer), reasons))
    return sorted((m for m in found if m.share > MISSING_SHARE_MAX), key=lambda m: (-m.share, m.layer))


def _there(case: Case, layer: str) -> int:
    rows = ((case.meta.get("layers") or {}).get(layer) or {}).get("rows") or 0
    sampling = case.meta.get("sampling") or {}
    if layer == "syscall":
        return int(rows) + int(sampling.get("calls_left_out") or 0)
    if layer == "block":
        return int(rows) + sum(
            int(of.get("requests") or 0) for of in (sampling.get("left_out") or {}).values()
        )
    return int(rows)
