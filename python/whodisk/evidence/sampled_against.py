"""Sampled means of a case against those of an earlier one (`--against`): which devices take longer now."""

from __future__ import annotations

from whodisk import words
from whodisk.evidence.sampled_account import KINDS
from whodisk.evidence.thresholds import ACCOUNT_DEVICES_TOLD, AGAINST_RATIO_MIN
from whodisk.reading.views import Case, quoted


def _means(case: Case) -> dict[tuple[str, str], float]:
    """By device and kind: the mean of all samples, each counted as the operations in it do, where the log says how many."""
    if "series" not in case.columns:
        return {}
    found: dict[tuple[str, str], float] = {}
    for kind, latency, rate in KINDS:
        rows = case.rows(
            f"""WITH wide AS (
  SELECT host, subject, time_ns, max(value) FILTER (metric = {quoted(latency)}) AS took, max(value) FILTER (metric = {quoted(rate)}) AS per_s
  FROM series WHERE kind = 'device' AND metric IN ({quoted(latency)}, {quoted(rate)}) GROUP BY 1, 2, 3)
SELECT subject, coalesce(sum(took * per_s) / nullif(sum(per_s) FILTER (took IS NOT NULL), 0), avg(took)) AS mean
FROM wide WHERE took > 0 GROUP BY 1 ORDER BY 1"""
        )
        found |= {(str(row["subject"]), kind): float(row["mean"] or 0) for row in rows}
    # Where reads and writes are known apart, all together say no more.
    apart = {device for device, kind in found if kind != KINDS[-1][0]}
    return {key: mean for key, mean in found.items() if key[1] != KINDS[-1][0] or key[0] not in apart}


def sampled_against(case: Case, other: Case) -> list[str]:
    """Sentences on what takes longer than it did; one that says so if nothing does, or nothing is in both. Without a test: it accuses nobody."""
    now, before = _means(case), _means(other)
    name = other.name
    both = {key: now[key] / before[key] for key in now if before.get(key)}
    if not both:
        return [f"{name} was not used: no device with a latency is in both cases."]
    slower = sorted(
        (key for key in both if both[key] >= AGAINST_RATIO_MIN), key=lambda key: (-both[key], key)
    )
    rest = [ratio for key, ratio in both.items() if key not in slower]
    said = [
        f"{kind} of {device} took {words.duration(now[device, kind])} instead of {words.duration(before[device, kind])}, "
        f"{words.significant(both[device, kind], 2)} times as long"
        for device, kind in slower[:ACCOUNT_DEVICES_TOLD]
    ]
    more = [f"{len(slower) - len(said)} more took longer, too"] if len(slower) > len(said) else []
    most = words.significant(max(rest, default=1.0), 2)
    if not slower:
        return [
            f"Against {name}: nothing took {words.significant(AGAINST_RATIO_MIN, 2)} times as long on average ({most} times at most)."
        ]
    as_long = "no longer" if max(rest, default=1.0) < 1.05 else f"at most {most} times as long"
    others = [f"the others {as_long}"] if rest else []
    return [f"Against {name}: {'; '.join([*said, *more, *others])}."]
