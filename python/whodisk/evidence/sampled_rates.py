"""What a log of rates says (fio's bw and iops logs, status lines): how low they fell and when, and where nothing ended at all."""

from __future__ import annotations

import re

import numpy as np

from whodisk import words
from whodisk.evidence.sampled_latencies import zero_sql
from whodisk.evidence.thresholds import (
    ACCOUNT_DEVICES_MAX,
    ACCOUNT_DEVICES_TOLD,
    ACCOUNT_SAMPLES_MIN,
    ACCOUNT_SILENT_MIN,
)
from whodisk.reading.views import Case

RATE = re.compile(r"(?:(?P<kind>[a-z_]+?)_)?(?P<of>operations|throughput_bytes)_per_s")
_CHOSEN = "kind = 'process' AND (metric LIKE '%operations_per_s' OR metric LIKE '%throughput_bytes_per_s') AND metric NOT LIKE 'run\\_%' ESCAPE '\\'"


def rates(case: Case, others: set[str] | frozenset[str] = frozenset()) -> list[str]:
    """A paragraph per program that has rates and no latency, and is none of the `others`: the usual one, the lowest with its moment, the highest."""
    rows = case.rows(
        f"""SELECT coalesce(host, '') AS host, subject, metric, count(*) AS n, median(value) AS usual, min(value) AS least, max(value) AS most,
  arg_min(time_ns, value) - {zero_sql(case)} AS at_ns, sum(value) AS total
FROM series WHERE {_CHOSEN} AND subject NOT IN (SELECT subject FROM series WHERE metric LIKE '%latency%\\_ns' ESCAPE '\\')
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
    )
    found: dict[tuple[str, str], tuple[float, list[str]]] = {}
    for row in rows:
        match = RATE.fullmatch(str(row["metric"]))
        samples = int(row["n"] or 0)
        if match is None or samples < ACCOUNT_SAMPLES_MIN or str(row["subject"]) in others:
            continue
        usual, least, most = (
            _rate(match["of"], float(row[which] or 0)) for which in ("usual", "least", "most")
        )
        said = (
            f"{words.plural_op(match['kind']) if match['kind'] else 'operations'}: {usual} in the median of "
            f"{words.things(samples, 'sample')}, {least} at least (at {words.seconds(float(row['at_ns'] or 0))}), {most} at most."
        )
        key = (str(row["host"]), str(row["subject"]))
        total, texts = found.get(key, (0.0, []))
        found[key] = (total + float(row["total"] or 0), [*texts, said])
    if not 0 < len(found) <= ACCOUNT_DEVICES_MAX:
        return []
    first = sorted(found, key=lambda key: (-found[key][0], key))
    told = []
    for at, key in enumerate(first[:ACCOUNT_DEVICES_TOLD]):
        among = f", one of {len(first)}" if at == 0 and len(first) > 1 else ""
        texts = found[key][1]
        told.append(
            f"{key[1]}{among}: {' '.join([texts[0], *(text[0].upper() + text[1:] for text in texts[1:])])}"
        )
    return told


def _rate(of: str, value: float) -> str:
    return f"{words.size(value)}/s" if of == "throughput_bytes" else f"{words.rate(value)} per second"


def silences(case: Case) -> list[tuple[str, str]]:
    """Programs, and for each a sentence on the longest time in which nothing ended, by rates of 0 in samples that follow each other."""
    still = f"""SELECT DISTINCT subject FROM series WHERE {_CHOSEN} AND metric = 'operations_per_s' AND value = 0"""
    data = case.arrays(
        f"""SELECT coalesce(host, '') AS host, subject, time_ns - {zero_sql(case)} AS time_ns, value FROM series
WHERE {_CHOSEN} AND metric = 'operations_per_s' AND subject IN ({still}) ORDER BY 1, 2, 3"""
    )
    told = []
    hosts, subjects = data["host"].astype(str), data["subject"].astype(str)
    for host, subject in sorted(set(zip(hosts.tolist(), subjects.tolist(), strict=True)))[
        :ACCOUNT_DEVICES_MAX
    ]:
        mine = (hosts == host) & (subjects == subject)
        time_ns, is_still = (
            data["time_ns"][mine].astype(np.int64),
            data["value"][mine].astype(np.float64) == 0.0,
        )
        # A sample is of the time since the one before; the first, since the log's own zero.
        begins = np.concatenate(([0 if zero_sql(case) == "0" else time_ns[0]], time_ns[:-1]))
        longest, at = 0, 0
        while at < len(is_still):
            end = at
            while end < len(is_still) and is_still[end]:
                end += 1
            if end - at >= ACCOUNT_SILENT_MIN and time_ns[end - 1] - begins[at] > longest:
                longest, first, last = (
                    int(time_ns[end - 1] - begins[at]),
                    int(begins[at]),
                    int(time_ns[end - 1]),
                )
            at = max(end, at + 1)
        if longest:
            told.append(
                (
                    subject,
                    f"no operation ended for {words.duration(longest)} (from {words.seconds(first)} to {words.seconds(last)}).",
                )
            )
    return told[:ACCOUNT_DEVICES_TOLD]
