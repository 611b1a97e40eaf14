"""What a log of rates says (fio's bw and iops logs, status lines, counters of devices): how low they fell and when, whether they stayed there, and where nothing
ended at all."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.evidence.sampled_latencies import Paragraph, has_own_zero, samples_of, zero_sql
from whodisk.evidence.sampled_levels import two_levels
from whodisk.evidence.thresholds import (
    ACCOUNT_DEVICES_MAX,
    ACCOUNT_DEVICES_TOLD,
    ACCOUNT_SAMPLES_MIN,
    ACCOUNT_SILENT_MIN,
    ACCOUNT_SLOW_RATE_MAX,
)
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Floats, runs

#: `read_throughput_bytes_per_s`, and what people call theirs (`--map iops=...`).
RATE = re.compile(
    r"(?:(?P<kind>[a-z_]+?)_)?(?P<of>operations|iops|throughput_bytes|bandwidth_bytes|bw_bytes)_per_s"
)
#: Components have sentences of their own.
KINDS = ("process", "device", "cgroup")


def _chosen_sql(case: Case) -> str:
    """Picks rates; those of whole runs are no samples."""
    names = [str(row["metric"]) for row in case.rows("SELECT DISTINCT metric FROM series ORDER BY 1")]
    chosen = [name for name in names if RATE.fullmatch(name) and not name.startswith("run_")]
    return f"kind IN ({', '.join(map(quoted, KINDS))}) AND metric IN ({', '.join(map(quoted, chosen)) or 'NULL'})"


@dataclass(frozen=True)
class _Fall:
    """What is told of rates: sentences, and what tells which of several fell lowest."""

    #: The lowest beside the usual one.
    share: float
    #: Whether that was far below it.
    fell: bool
    total: float
    said: list[str]


def rates(case: Case, others: set[str] | frozenset[str] = frozenset()) -> list[Paragraph]:
    """A paragraph per program or device that has rates and no latency, and is none of the `others`: the usual one, the lowest with its moment, the highest; first of
    the one that fell lowest. Where nobody has more samples, also of one or two: a log may be that short."""
    return _rates(case, others, ACCOUNT_SAMPLES_MIN) or _rates(case, others, 1)


def _rates(case: Case, others: set[str] | frozenset[str], samples_min: int) -> list[Paragraph]:
    rows = case.rows(
        f"""SELECT coalesce(host, '') AS host, kind, subject, metric, count(*) AS n FROM series
WHERE {_chosen_sql(case)} AND subject NOT IN (SELECT subject FROM series WHERE metric LIKE '%latency%\\_ns' ESCAPE '\\')
GROUP BY 1, 2, 3, 4 HAVING count(*) >= {samples_min} ORDER BY 1, 2, 3, 4"""
    )
    found: dict[tuple[str, str], _Fall] = {}
    several = len({str(row["host"]) for row in rows}) > 1
    subjects = {(str(row["host"]), str(row["subject"])) for row in rows if str(row["subject"]) not in others}
    if len(subjects) > ACCOUNT_DEVICES_MAX:
        # Each is read whole.
        subjects = _lowest(case, subjects)
    among = len({(row["host"], row["subject"]) for row in rows if str(row["subject"]) not in others})
    for row in rows:
        match = RATE.fullmatch(str(row["metric"]))
        key = (str(row["host"]), str(row["subject"]))
        if match is None or key not in subjects:
            continue
        of, kind = match["of"], match["kind"]
        time_ns, values = samples_of(case, *key, str(row["kind"]), str(row["metric"]))
        # Of bytes nobody asks how many operations they are.
        what = f"{words.plural_op(kind)}: " if kind else "" if of.endswith("bytes") else "operations: "
        said = f"{what}{_of_samples(case, of, time_ns, values)}"
        fall = found.get(key, _Fall(1.0, False, 0.0, []))
        usual = max(1e-9, float(np.median(values)))
        share = float(values.min()) / usual
        # The last interval of a run may be a part of one.
        fell = len(values) > 1 and float(values[:-1].min()) < ACCOUNT_SLOW_RATE_MAX * usual
        found[key] = _Fall(
            min(share, fall.share), fell or fall.fell, fall.total + float(values.sum()), [*fall.said, said]
        )
    first = sorted(found, key=lambda key: (found[key].share, -found[key].total, key))
    told = []
    for at, key in enumerate(first[:ACCOUNT_DEVICES_TOLD]):
        name = label = f"{key[1]} of {key[0]}" if several and key[0] else key[1]
        if at == 0 and among > 1:
            fell = len(first) > 1 and found[key].share < found[first[1]].share
            name += f", the one of {among} that fell lowest" if fell else f", one of {among}"
        told.append(Paragraph(label, name, words.joined(found[key].said), fell=found[key].fell))
    return told


def _lowest(case: Case, subjects: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of many that fell lowest beside what is usual of them."""
    rows = case.rows(
        f"""WITH usual AS (
  SELECT coalesce(host, '') AS host, subject, metric, min(value) / greatest(median(value), 1e-9) AS share, sum(value) AS total
  FROM series WHERE {_chosen_sql(case)} GROUP BY 1, 2, 3)
SELECT host, subject FROM usual GROUP BY 1, 2 ORDER BY min(share), -sum(total), 1, 2"""
    )
    keys = [(str(row["host"]), str(row["subject"])) for row in rows]
    return set([key for key in keys if key in subjects][:ACCOUNT_DEVICES_TOLD])


def _of_samples(case: Case, of: str, time_ns: Floats, values: Floats) -> str:
    """The usual rate, the lowest and when, the highest; of two levels both."""
    usual, least, most = (_rate(of, float(np.quantile(values, at))) for at in (0.5, 0.0, 1.0))
    many = words.things(len(values), "sample")
    if len(values) == 1:
        return f"{usual} in the only sample."
    if least == most:
        return f"{usual} in all of {many}."
    levels = two_levels(time_ns, values)
    if levels is not None:
        lasting = levels.said(case, _rate(of, levels.before), _rate(of, levels.after))
        return (
            f"{lasting}, in {many}; {least} at least ({when_lowest(case, time_ns, values)}), {most} at most."
        )
    return f"{usual} in the median of {many}, {least} at least ({when_lowest(case, time_ns, values)}), {most} at most."


def when_lowest(case: Case, time_ns: Floats, values: Floats) -> str:
    """Its moment, or the longest time on end."""
    begins, ends = runs(np.asarray(values == values.min(), np.bool_))
    longest = int(np.argmax(ends - begins))
    first, end = int(begins[longest]), int(ends[longest])
    if end - first < 2:
        return f"at {case.moment(time_ns[first])}"
    again = len(begins) - 1
    more = f", and {words.things(again, 'more time')}" if again else ""
    return f"from {case.moment(time_ns[first])} to {case.moment(time_ns[end - 1])}{more}"


def _rate(of: str, value: float) -> str:
    return f"{words.size(value)}/s" if of.endswith("bytes") else f"{words.rate(value)} per second"


def falls(case: Case, others: set[str] | frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """Programs with latencies, and for each a sentence on the rate of its operations: where nothing ended for a time, else where it stayed on another level, else the
    lowest one where that is less than half of the usual."""
    silent = dict(silences(case))
    rows = case.rows(
        f"""SELECT coalesce(host, '') AS host, subject, count(*) AS n FROM series WHERE kind = 'process' AND metric = 'operations_per_s'
  AND subject IN (SELECT subject FROM series WHERE metric LIKE '%latency%\\_ns' ESCAPE '\\')
GROUP BY 1, 2 HAVING count(*) >= {ACCOUNT_SAMPLES_MIN} ORDER BY 3 DESC, 1, 2 LIMIT {ACCOUNT_DEVICES_MAX}"""
    )
    told = []
    for row in rows:
        host, subject = str(row["host"]), str(row["subject"])
        if subject in silent or subject in others:
            continue
        time_ns, values = samples_of(case, host, subject, "process", "operations_per_s")
        levels, usual, least = two_levels(time_ns, values), float(np.median(values)), float(values.min())
        if levels is not None:
            lasting = levels.said(case, words.rate(levels.before), f"{words.rate(levels.after)}")
            told.append((subject, f"operations per second: {lasting}."))
        elif least < ACCOUNT_SLOW_RATE_MAX * usual:
            told.append(
                (
                    subject,
                    f"{words.rate(least)} operations per second at least ({when_lowest(case, time_ns, values)}), {words.rate(usual)} in the median of "
                    f"{words.things(len(values), 'interval')}.",
                )
            )
    return [*silent.items(), *told][:ACCOUNT_DEVICES_TOLD]


def silences(case: Case) -> list[tuple[str, str]]:
    """Programs, and for each a sentence on the longest time in which nothing ended, by rates of 0 in samples that follow each other."""
    still = """SELECT DISTINCT subject FROM series WHERE kind = 'process' AND metric = 'operations_per_s' AND value = 0"""
    data = case.arrays(
        f"""SELECT coalesce(host, '') AS host, subject, time_ns - {zero_sql(case)} AS time_ns, value FROM series
WHERE kind = 'process' AND metric = 'operations_per_s' AND subject IN ({still}) ORDER BY 1, 2, 3"""
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
        begins = np.concatenate(([0 if has_own_zero(case) else time_ns[0]], time_ns[:-1]))
        # A logger that gets no answer writes late: one long sample stands for several.
        least_ns = ACCOUNT_SILENT_MIN * float(np.median(time_ns - begins))
        longest, at = 0, 0
        while at < len(is_still):
            end = at
            while end < len(is_still) and is_still[end]:
                end += 1
            silent_ns = int(time_ns[end - 1] - begins[at]) if end > at else 0
            if (end - at >= ACCOUNT_SILENT_MIN or silent_ns >= least_ns) and silent_ns > longest:
                longest, first, last = silent_ns, int(begins[at]), int(time_ns[end - 1])
            at = max(end, at + 1)
        if longest:
            told.append(
                (
                    subject,
                    f"no operation ended for {words.duration(longest)} (from {case.moment(first)} to {case.moment(last)}).",
                )
            )
    return told[:ACCOUNT_DEVICES_TOLD]
