"""What NetApp's arrays say of themselves, in a log without operations: layouts above their threshold, consistency points back to back."""

from __future__ import annotations

from whodisk import words
from whodisk.evidence.thresholds import ACCOUNT_DEVICES_MAX
from whodisk.reading.views import Case, quoted

#: What is told of an array's worst sample.
WORST = {
    "disk_busy_ratio": "its busiest disk was busy for {}",
    "consistency_point_ratio": "consistency points took {} of the time",
    "cpu_busy_ratio": "its CPUs were busy for {}",
}


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
        f"""SELECT subject, count(*) FILTER (metric = 'back_to_back') AS samples,
  coalesce(sum(value) FILTER (metric = 'back_to_back'), 0) AS many, count(*) FILTER (metric = 'disk_busy_ratio') AS n,
  {", ".join(f"max(value) FILTER (metric = {quoted(metric)}) AS {metric}" for metric in WORST)}
FROM series WHERE kind = 'component' AND metric IN ('back_to_back', {", ".join(map(quoted, WORST))})
  AND subject IN (SELECT subject FROM series WHERE metric = 'disk_busy_ratio') GROUP BY 1 ORDER BY 1"""
    )
    told = []
    for row in rows:
        many = float(row["many"] or 0)
        said = []
        if many:
            said.append(
                f"consistency points came back to back in {words.count(many)} of {words.things(float(row['samples'] or 0), 'sample')}: "
                "writes came faster than they reached the disks."
            )
        worst = [
            text.format(words.percent(float(of)))
            for metric, text in WORST.items()
            if (of := row[metric]) is not None
        ]
        samples = float(row["n"] or 0)
        among = (
            "the only sample"
            if round(samples) == 1
            else f"the worst of {words.things(samples, 'sample')} each"
        )
        said.append(f"in {among}, {', '.join(worst)}.")
        told.append(f"{row['subject']}: {words.joined(said)}")
    return told
