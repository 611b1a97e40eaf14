"""Devices that are made of others: what a volume manager or an array shows to those above."""

from __future__ import annotations

from whodisk.reading.views import Case


def volumes_of(case: Case) -> set[str]:
    """Devices that are made of others; none where links were not recorded."""
    if "links" not in case.columns:
        return set()
    rows = case.rows(
        """SELECT device FROM block_ops WHERE op_id IN (SELECT parent_id FROM links WHERE kind = 'stacked')
GROUP BY 1 ORDER BY 1"""
    )
    return {str(row["device"]) for row in rows}
