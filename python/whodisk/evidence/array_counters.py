"""What NetApp's arrays say of themselves, in a log without operations: layouts above their threshold, consistency points back to back."""

from __future__ import annotations

from whodisk import words
from whodisk.evidence.thresholds import ACCOUNT_BUSY_MIN, ACCOUNT_DEVICES_MAX
from whodisk.reading.views import Case


def array_counters(case: Case) -> list[str]:
    """A sentence per volume with a layout above its threshold, and per array that could not write as fast as it was asked to."""
    return [*_layouts(case), *_arrays(case)][:ACCOUNT_DEVICES_MAX]


def _layouts(case: Case) -> list[str]:
    rows = case.rows(
        """SELECT subject, arg_max(value, time_ns) FILTER (metric = 'layout_measure') AS measure,
  arg_max(value, time_ns) FILTER (metric = 'layout_threshold') AS threshold, arg_max(value, time_ns) FILTER (metric = 'layout_hotspot') AS hotspot
FROM series WHERE kind = 'component' AND starts_with(metric, 'layout_') GROUP BY 1 ORDER BY 2 DESC, 1"""
    )
    told = []
    for row in rows:
        measure, threshold, hotspot = (row[name] for name in ("measure", "threshold", "hotspot"))
        if measure is None or threshold is None or float(measure) <= float(threshold):
            continue
        worst = "" if hotspot is None else f", with a hotspot of {words.count(float(hotspot))}"
        told.append(
            f"{row['subject']}: its layout measure is {words.count(float(measure))}, above its threshold of {words.count(float(threshold))}{worst}."
        )
    return told


def _arrays(case: Case) -> list[str]:
    rows = case.rows(
        """SELECT subject, count(*) FILTER (metric = 'back_to_back') AS samples,
  coalesce(sum(value) FILTER (metric = 'back_to_back'), 0) AS many, coalesce(max(value) FILTER (metric = 'disk_busy_ratio'), 0) AS busy
FROM series WHERE kind = 'component' AND metric IN ('back_to_back', 'disk_busy_ratio') GROUP BY 1 ORDER BY 1"""
    )
    told = []
    for row in rows:
        many, busy = float(row["many"] or 0), float(row["busy"] or 0)
        said = []
        if many:
            said.append(
                f"consistency points came back to back in {words.count(many)} of {words.things(float(row['samples'] or 0), 'sample')}: "
                "writes came faster than they reached the disks."
            )
        if busy >= ACCOUNT_BUSY_MIN:
            said.append(f"its busiest disk was busy for {words.percent(busy)} of a sample at most.")
        if said:
            told.append(" ".join([f"{row['subject']}: {said[0]}", *(s[0].upper() + s[1:] for s in said[1:])]))
    return told
