"""What RocksDB says of itself, in its LOG and in db_bench's output: stalls and their causes, flushes, compactions, rates of progress, repeated runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.evidence.thresholds import (
    ACCOUNT_DEVICES_TOLD,
    ACCOUNT_SAMPLES_MIN,
    ACCOUNT_SLOW_RATE_MAX,
    ACCOUNT_STALLED_MIN,
    ACCOUNT_WHOLE_MIN,
)
from whodisk.reading.views import Case, Row
from whodisk.types import Cell

#: What a line of a stall names as its cause, and how a sentence does.
CAUSES = (
    ("level-0 files", "level-0 files"),
    ("immutable memtables", "memtables that wait for their flush"),
    ("pending compaction bytes", "pending compaction bytes"),
)
#: The same of the counters since the database was opened: the metric, a delay or a stop, and the cause.
COUNTED = (
    ("since_open_memtable_stops", "stop", CAUSES[1][1]),
    ("since_open_write_buffer_stops", "stop", "the write buffer manager's limit"),
    ("since_open_level0_stops", "stop", CAUSES[0][1]),
    ("since_open_pending_compaction_stops", "stop", CAUSES[2][1]),
    ("since_open_memtable_delays", "delay", CAUSES[1][1]),
    ("since_open_level0_delays", "delay", CAUSES[0][1]),
    ("since_open_pending_compaction_delays", "delay", CAUSES[2][1]),
)
JOB = re.compile(r"\bjob (\d+)")
TOOK = re.compile(r"\bcompaction_time_micros (\d+)")
RATE = re.compile(r"\brate (\d+)")
FAMILY = re.compile(r", column family (.+)$")


def account(case: Case) -> tuple[list[str], set[str]]:
    """A paragraph of what RocksDB says of itself, what held its writers up first; one per benchmark that ran more than once; and the
    subjects of these, which nobody needs to describe any more."""
    stalls, jobs = _events(case)
    if "series" not in case.columns:
        said, runs = [*stalls, *jobs], {}
    else:
        samples = [*_intervals(case), *_share_of_writes(case), *_progress(case), *_dumps(case)]
        said, runs = [*_since_open(case), *stalls, *samples, *jobs], _runs(case)
    return [*([" ".join(said)] if said else []), *runs.values()], set(runs)


# -- events -------------------------------------------------------------------------------------


def _events(case: Case) -> tuple[list[str], list[str]]:
    """Stalls; flushes and compactions."""
    rows = case.rows(
        """SELECT time_ns, kind, subject, detail FROM events
WHERE subject = 'rocksdb' AND (kind = 'write_stall' OR ((kind LIKE 'flush%' OR kind LIKE 'compaction%') AND detail LIKE 'job %')) ORDER BY time_ns"""
    )
    stalls = [row for row in rows if row["kind"] == "write_stall"]
    jobs = [row for row in rows if row["kind"] != "write_stall"]
    return ([_stalls(case, stalls)] if stalls else []), ([_jobs(case, jobs)] if jobs else [])


def _when(case: Case, time_ns: float) -> str:
    """As its log has it: moments without a zone were taken for UTC."""
    moment = case.calendar(time_ns)
    return case.moment(time_ns) if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _between(case: Case, rows: list[Row]) -> str:
    first, last = (_when(case, float(rows[at]["time_ns"] or 0)) for at in (0, -1))
    return f"at {first}" if first == last else f"from {first} to {last}"


def _stalls(case: Case, rows: list[Row]) -> str:
    """Each line is a decision to slow writers down, or to stop them; when it ended is in no line."""
    details = [str(row["detail"]) for row in rows]
    causes = Counter(
        next((said for mark, said in CAUSES if mark in detail), "something else") for detail in details
    )
    stops = sum(detail.startswith("Stopping") for detail in details)
    did = {0: "slowed writes down", len(rows): "stopped writes"}.get(stops)
    if len(rows) == 1:
        what = f", because of {next(iter(causes))}: it {did}"
    else:
        listed = words.listed(
            [f"{words.count(many)} because of {said}" for said, many in causes.most_common()]
        )
        of_them = f"{words.count(stops)} of them stopped writes, the others slowed them down"
        what = f": {listed}; {f'each {did}' if did else of_them}"
    said = [f"rocksdb logged {words.things(len(rows), 'write stall')} {_between(case, rows)}{what}."]
    families = Counter(found[1] for detail in details if (found := FAMILY.search(detail)))
    if len(families) > 1 or sum(families.values()) < len(rows):
        named = [f"{family} {words.count(many)}" for family, many in families.most_common()]
        said += [f"By column family: {words.some(named, 3)}."] if named else []
    elif families:
        said.append(f"All were of column family {next(iter(families))}.")
    rates = [float(found[1]) for detail in details if (found := RATE.search(detail))]
    if rates:
        said.append(f"The lowest rate that writers were slowed to was {words.size(min(rates))}/s.")
    said.append("Each is a decision of RocksDB's; how long it held is not in the log.")
    return " ".join(said)


@dataclass
class _Work:
    """Flushes, or compactions."""

    ended: int = 0
    longest_ns: float = -1.0
    longest_at_ns: float = 0.0
    #: Of those that the log does not end.
    running_ns: float = -1.0
    running_at_ns: float = 0.0
    running: int = 0


def _jobs(case: Case, rows: list[Row]) -> str:
    works = {"flush": _Work(), "compaction": _Work()}
    begun: dict[tuple[str, str], float] = {}
    for row in rows:
        stem, _, state = str(row["kind"]).partition("_")
        if stem not in works or not (job := JOB.search(str(row["detail"]))):
            continue
        at, work, key = float(row["time_ns"] or 0), works[stem], (stem, job[1])
        if state == "started":
            begun[key] = at
            continue
        start = begun.pop(key, None)
        took = TOOK.search(str(row["detail"]))
        lasted = at - start if start is not None else float(took[1]) * 1e3 if took else None
        if state == "finished":
            work.ended += 1
            if lasted is not None and lasted > work.longest_ns:
                work.longest_ns, work.longest_at_ns = lasted, at - lasted
        elif state == "unfinished" and lasted is not None:
            work.running += 1
            if lasted > work.running_ns:
                work.running_ns, work.running_at_ns = lasted, at - lasted
    parts = []
    for stem, work in works.items():
        if work.ended:
            longest = (
                f", {'which' if work.ended == 1 else 'the longest'} took {words.duration(work.longest_ns)} (from {_when(case, work.longest_at_ns)})"
                if work.longest_ns >= 0
                else ""
            )
            parts.append(f"{words.things(work.ended, stem, words.plural_op(stem))}{longest}")
        if work.running:
            parts.append(
                f"{words.things(work.running, stem, words.plural_op(stem))} without an end in the log, running for "
                f"{words.duration(work.running_ns)} at least (from {_when(case, work.running_at_ns)})"
            )
    begins = Counter(stem for stem, _ in begun)
    parts += [
        f"{words.things(many, stem, words.plural_op(stem))} of which the log has the begin alone"
        for stem, many in begins.items()
    ]
    return f"rocksdb logged {'; '.join(parts)}."


# -- samples ------------------------------------------------------------------------------------


def _latest(case: Case, pattern: str) -> dict[str, float]:
    rows = case.rows(
        f"SELECT metric, arg_max(value, time_ns) AS value FROM series WHERE subject = 'rocksdb' AND metric LIKE '{pattern}' ESCAPE '\\' GROUP BY 1 ORDER BY 1"
    )
    return {str(row["metric"]): float(row["value"] or 0) for row in rows}


def _dumps(case: Case) -> list[str]:
    """How often it dumped what it did, over how long, what that was, and that it stalled nobody, if so."""
    # A dump that somebody cut may lack the line of its stalls, or any other.
    row = case.rows(
        """WITH samples AS (
  SELECT *, metric IN ('write_stall_ratio', 'since_open_ns', 'db_writes') AS is_of_dump FROM series WHERE subject = 'rocksdb')
SELECT greatest(count(*) FILTER (metric = 'write_stall_ratio'), count(*) FILTER (metric = 'since_open_ns'), count(*) FILTER (metric = 'db_writes')) AS dumps,
  max(time_ns) FILTER (is_of_dump) - min(time_ns) FILTER (is_of_dump) AS over_ns,
  count(*) FILTER (metric = 'since_open_ns' AND value = 0) AS at_opening,
  max(value) FILTER (metric = 'write_stall_ratio') AS stalled, sum(value) FILTER (metric = 'db_writes') AS writes,
  max(value) FILTER (metric = 'db_writes_per_s') AS per_s, arg_max(time_ns, value) FILTER (metric = 'db_writes_per_s') AS at_ns,
  min(time_ns) AS begin_ns
FROM samples"""
    )[0]
    dumps = int(row["dumps"] or 0)
    if not dumps:
        return []
    often = "once" if dumps == 1 else f"{words.count(dumps)} times"
    at_opening = int(row["at_opening"] or 0)
    if at_opening >= dumps:
        each = ", each time" if dumps > 1 else ","
        covers = "they cover" if dumps > 1 else "it covers"
        return [f"rocksdb dumped its statistics {often}{each} 0 s after it was opened: {covers} no time."]
    parts = []
    interval_ns = 0.0
    if row["writes"] is not None:
        writes, per_s = float(row["writes"]), float(row["per_s"] or 0)
        # Of one dump: its counts are of its own interval, and those since the opening are not in the case.
        interval_ns = 1e9 * writes / per_s if dumps == 1 and per_s > 0 else 0.0
        busiest = f", {words.rate(per_s)} per second{'' if interval_ns else ' at most'}"
        at = float(row["at_ns"] or 0) - float(row["begin_ns"] or 0)
        parts.append(
            f"{words.significant(writes)} {'write' if writes == 1 else 'writes'}{busiest}"
            f"{f' (at {words.seconds(at)})' if row['over_ns'] else ''}"
            if writes
            else "no write"
        )
    since = _latest(case, "since\\_open\\_%")
    open_ns = since.get("since_open_ns")
    parts += _few_stalls(row["stalled"], since, bool(interval_ns))
    over = f" over {words.duration(float(row['over_ns'] or 0))}" if dumps > 1 and row["over_ns"] else ""
    if dumps == 1 and open_ns is not None:
        over = f", {words.seconds(open_ns)} after it was opened"
    if not parts:
        return []
    if interval_ns and interval_ns < ACCOUNT_WHOLE_MIN * (math.inf if open_ns is None else open_ns):
        parts[0] = (
            f"in the last {words.duration(interval_ns)} of that {parts[0]}"
            if open_ns is not None
            else f"in its interval of {words.duration(interval_ns)} {parts[0]}"
        )
    empty = f" ({words.count(at_opening)} of them as it was opened, of no time)" if at_opening else ""
    return [f"rocksdb dumped its statistics {often}{empty}{over}: {'; '.join(parts)}."]


def _few_stalls(most: Cell, since: dict[str, float], is_one: bool) -> list[str]:
    """That it stalled nobody, or for less than is said by itself; where the dumps lack the share of their intervals, `most`, by the sum since the opening."""
    open_ns, stalled_ns = since.get("since_open_ns"), since.get("since_open_stalled_ns")
    if most is None:
        if not open_ns or stalled_ns is None or stalled_ns >= ACCOUNT_STALLED_MIN * open_ns:
            return []
        share = f" ({words.percent(stalled_ns / open_ns)})" if stalled_ns else ""
        return [
            f"{f'stalls of {words.duration(stalled_ns)}' if stalled_ns else 'no stall'} since it was opened{share}"
        ]
    share_most = float(most)
    if share_most == 0:
        ever = " since it was opened" if is_one else ""
        return [f"no stall{ever}" if stalled_ns == 0 else "no stall of 0.1 % of an interval"]
    if share_most < ACCOUNT_STALLED_MIN:
        return [f"stalls for {words.percent(share_most)} of an interval at most"]
    return []


def _since_open(case: Case) -> list[str]:
    """Stalls since the database was opened, which may have been long before the log begins."""
    values = _latest(case, "since\\_open\\_%")
    open_ns, stalled_ns = values.get("since_open_ns", 0.0), values.get("since_open_stalled_ns", 0.0)
    told = []
    if open_ns > 0 and stalled_ns >= ACCOUNT_STALLED_MIN * open_ns:
        told.append(
            f"In the {words.duration(open_ns)} since it was opened, rocksdb stalled its writers for {words.duration(stalled_ns)} "
            f"({words.percent(stalled_ns / open_ns)})."
        )
    counts = [
        f"{words.things(values[metric], what)} because of {cause}"
        for metric, what, cause in COUNTED
        if values.get(metric)
    ]
    if counts:
        told.append(f"{'It' if told else 'Since it was opened, rocksdb'} counted {words.listed(counts)}.")
    return [" ".join(told)] if told else []


def _intervals(case: Case) -> list[str]:
    """How long RocksDB held up its writers itself, by its own account: memtables that are not flushed yet, or too many files in level 0."""
    row = case.rows(
        """SELECT count(*) AS n, median(value) AS usual, max(value) AS most, arg_max(time_ns, value) - (SELECT min(time_ns) FROM series) AS at_ns,
  max(time_ns) > min(time_ns) AS has_moments FROM series WHERE subject = 'rocksdb' AND metric = 'write_stall_ratio'"""
    )[0]
    many, most = int(row["n"] or 0), float(row["most"] or 0)
    if not many or most < ACCOUNT_STALLED_MIN:
        return []
    if many == 1:
        return [f"rocksdb stalled its own writers for {words.percent(most)} of the only interval in the log."]
    at = f" (at {words.seconds(float(row['at_ns'] or 0))})" if row["has_moments"] else ""
    return [
        f"rocksdb stalled its own writers for {words.percent(float(row['usual'] or 0))} of the time in the median of "
        f"{words.things(many, 'interval')}, {words.percent(most)} at most{at}."
    ]


def _share_of_writes(case: Case) -> list[str]:
    """Only the thread at the head of a group of writes counts a stall; those behind it wait, too."""
    row = case.rows(
        """WITH moments AS (
  SELECT time_ns, max(value) FILTER (metric = 'db_write_operations') * max(value) FILTER (metric = 'db_write_latency_ns') AS writes,
    max(value) FILTER (metric = 'db_write_stall_operations') * max(value) FILTER (metric = 'db_write_stall_latency_ns') AS stalls
  FROM series WHERE subject = 'rocksdb' AND metric LIKE 'db\\_write\\_%' ESCAPE '\\' GROUP BY 1)
SELECT sum(writes) AS writes, sum(stalls) AS stalls,
  (SELECT max(value) FROM series WHERE metric = 'db_write_stall_latency_max_ns') AS longest FROM moments"""
    )[0]
    writes, stalls = float(row["writes"] or 0), float(row["stalls"] or 0)
    if writes <= 0 or not ACCOUNT_STALLED_MIN * writes <= stalls <= writes:
        return []
    longest = f", the longest {words.duration(float(row['longest']))}" if row["longest"] else ""
    return [
        f"Stalls are {words.percent(stalls / writes)} of the time that rocksdb's writes took{longest}; of threads that write together it counts the first alone."
    ]


def _progress(case: Case) -> list[str]:
    """How far the rates that db_bench prints as it goes are apart."""
    # A benchmark that prints its progress is summed up at the moment of its last.
    summaries = case.rows(
        "SELECT DISTINCT time_ns - (SELECT min(time_ns) FROM series) AS at_ns FROM series WHERE metric = 'benchmark_run' ORDER BY 1"
    )
    ends = np.array([float(row["at_ns"] or 0) for row in summaries])
    told = []
    for what, of in (("thread", "subject LIKE 'thread %'"), ("db_bench", "subject = 'db_bench'")):
        data = case.arrays(
            f"""SELECT subject, time_ns - (SELECT min(time_ns) FROM series) AS time_ns, value FROM series
WHERE kind = 'process' AND metric = 'operations_per_s' AND {of} ORDER BY time_ns, subject"""
        )
        rates = data["value"].astype(np.float64)
        if not len(rates):
            continue
        names = data["subject"].astype(str)
        several = len(set(names)) > 1
        who = f"{len(set(names))} threads of db_bench" if several else str(names[0])
        if len(rates) < ACCOUNT_SAMPLES_MIN:
            listed = words.listed([words.rate(float(rate)) for rate in rates])
            told.append(f"{who} made {listed} operations per second.")
            continue
        usual, least, most = (float(np.quantile(rates, at)) for at in (0.5, 0.0, 1.0))
        # One thread, or one benchmark, may be asked for less than the others: each is compared with itself.
        ran = np.searchsorted(ends, data["time_ns"].astype(np.float64))
        own = np.ones(len(rates))
        for name, benchmark in set(zip(names.tolist(), ran.tolist(), strict=True)):
            mine = (names == name) & (ran == benchmark)
            own[mine] = np.median(rates[mine])
        several_ran = len(set(ran.tolist())) > 1
        share = rates / np.maximum(own, 1e-9)
        slow, at = float((share < ACCOUNT_SLOW_RATE_MAX).mean()), int(np.argmin(share))
        whose = f"{names[at]} " if several else ""
        itself = " and ".join(
            one for one, is_one in (("thread", several), ("benchmark", several_ran)) if is_one
        )
        told.append(
            f"{who} made {words.rate(usual)} operations per second{' each' if several else ''} in the median of {words.count(len(rates))} "
            f"{'progress lines' if what == 'thread' else 'intervals'}, from {words.rate(least)} to {words.rate(most)}; "
            + (
                f"{words.percent(slow)} of them are below half of {f'the median of their {itself}' if itself else 'that'}, the lowest beside it "
                f"{words.rate(float(rates[at]))} ({whose}at {words.seconds(float(data['time_ns'][at]))})."
                if slow
                else f"none is below half of {f'the median of its {itself}' if itself else 'that'}."
            )
        )
    return told


def _runs(case: Case) -> dict[str, str]:
    """Benchmarks that ran more than once: each run is summed up by itself, and they are no intervals of one. The first names the slowest of the others, which a
    short screen has no room for."""
    rows = case.rows(
        """SELECT subject, metric, count(*) AS n, median(value) AS usual, min(value) AS least, max(value) AS most FROM series
WHERE metric IN ('benchmark_run', 'latency_ns', 'latency_p99_ns', 'latency_max_ns') AND subject IN (
  SELECT subject FROM series WHERE metric = 'benchmark_run' GROUP BY 1 HAVING count(*) > 1) GROUP BY 1, 2 ORDER BY 1, 2"""
    )
    means = case.rows(
        """SELECT subject, median(value) FILTER (metric = 'latency_ns') AS mean_ns FROM series
GROUP BY 1 HAVING bool_or(metric = 'benchmark_run') ORDER BY 2 DESC, 1"""
    )
    by_subject: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_subject.setdefault(str(row["subject"]), {})[str(row["metric"])] = row
    told: dict[str, str] = {}
    for subject, of in by_subject.items():
        if "latency_ns" not in of:
            continue
        runs = int(of["benchmark_run"]["n"] or 0)
        usual, least, most = (
            words.duration(float(of["latency_ns"][key] or 0)) for key in ("usual", "least", "most")
        )
        among = f", one of {len(means)} benchmarks" if not told and len(means) > 1 else ""
        said = f"{subject}{among}: {words.count(runs)} runs: operations took {usual} on average in the median run, {least} in the fastest and {most} in the slowest"
        if "latency_p99_ns" in of:
            p99 = [words.duration(float(of["latency_p99_ns"][key] or 0)) for key in ("usual", "most")]
            said += f"; the 99th percentile is {p99[0]} in the median run, {p99[1]} at most"
        if "latency_max_ns" in of:
            said += f"; the slowest of all took {words.duration(float(of['latency_max_ns']['most'] or 0))}"
        others = [
            f"{row['subject']} {words.duration(float(row['mean_ns'] or 0))}"
            for row in means
            if row["mean_ns"] and row["subject"] != subject
        ]
        if among and others:
            said += f"; the slowest others: {words.listed(others[:ACCOUNT_DEVICES_TOLD])}"
        told[subject] = f"{said}."
    return told
