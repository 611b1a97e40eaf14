"""Sampled means of a case against those of an earlier one (`--against`): which devices take longer now."""

from __future__ import annotations

import math

from whodisk import words
from whodisk.evidence.sampled_account import KINDS
from whodisk.evidence.sampled_latencies import NO_LOAD, kind_name, rank, subjects_of
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
        return _summaries(case, other)
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


def _summaries(case: Case, other: Case) -> list[str]:
    """The same of summaries: percentiles and the slowest of what is called alike in both."""
    now, before = _kinds(case), _kinds(other)
    both = sorted(key for key in now if key in before)
    if not both:
        return [f"{other.name} was not used: nothing with a latency is in both cases."]
    told: list[tuple[float, str]] = []
    for key in both:
        alike = [of for of in now[key] if before[key].get(of)]
        ratios = {of: now[key][of] / before[key][of] for of in alike}
        if not ratios:
            continue
        longer = [
            of for of in alike if ratios[of] >= AGAINST_RATIO_MIN or ratios[of] <= 1 / AGAINST_RATIO_MIN
        ]
        parts = [
            f"{_called(of)} {words.duration(now[key][of])} instead of {words.duration(before[key][of])}"
            for of in longer
        ]
        rest = [_short(of) for of in alike if of not in longer]
        if parts:
            as_long = f" ({words.listed(rest)} hardly changed)" if rest else ""
            farthest = max(abs(math.log(ratios[of])) for of in longer)
            told.append((farthest, f"{kind_name(key[1], key[0])}: {', '.join(parts)}{as_long}"))
    told.sort(key=lambda one: (-one[0], one[1]))
    if not told:
        return [
            f"Against {other.name}: nothing took {words.significant(AGAINST_RATIO_MIN, 2)} times as long, or as short, of what is called alike in both ({words.count(len(both))})."
        ]
    said = [text for _, text in told[:ACCOUNT_DEVICES_TOLD]]
    more = [f"{len(told) - len(said)} more differ"] if len(told) > len(said) else []
    return [
        f"Against {other.name}: {'; '.join([*said, *more])}. Without a test: two runs differ by chance, too."
    ]


def _kinds(case: Case) -> dict[tuple[str, str], dict[str, float]]:
    """By subject and kind: each measure, in its usual interval; the slowest of all."""
    if "series" not in case.columns:
        return {}
    return {
        (one.name, name): {
            of: value.most_ns if of == "max" else value.usual_ns
            for of, value in sorted(kind.of.items(), key=lambda item: rank(item[0]))
            if of != "stddev" and (of in ("mean", "max") or kind.tells(of))
        }
        for one in subjects_of(case)
        if one.name not in NO_LOAD
        for name, kind in one.kinds.items()
    }


def _called(of: str) -> str:
    return {"mean": "on average", "max": "the slowest", "50": "half within"}.get(of, f"{of} % within")


def _short(of: str) -> str:
    return {"mean": "the mean", "max": "the slowest", "50": "the half"}.get(of, f"{of} %")
