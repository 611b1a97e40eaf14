"""`python -m tests.accuracy.failslow`: labelled fail-slow drives, and seeded perturbations of them, as a table.

The data are not part of this repository: `WHODISK_DATA` names the folder that holds failslow_cluster_*.parquet and
failslow_labels.csv. Every row imports a file with `whodisk import --as series`, solves the case and compares.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from whodisk.statistics.probability import student_above
from whodisk.verdict.solve import solve

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("WHODISK_DATA", ROOT.parent / "shared/data"))
AGENT = os.environ.get("WHODISK_AGENT", str(ROOT / ".venv/bin/whodisk-agent"))
OUTPUT = ROOT / "docs/reference/fail-slow.md"
MAP = "host=host,device=disk_id,t=ts:s,latency=latency:us,throughput=throughput:B/s"
DAY_S = 86_400
Drive = tuple[str, str]


@dataclass
class Change:
    """What is done to the data: SQL for each column and for which rows stay, and the truth afterwards."""

    latency: str = "latency"
    throughput: str = "throughput"
    where: str = "TRUE"
    guilty: set[Drive] = field(default_factory=set)
    hosts: frozenset[str] = frozenset()
    #: When the guilty drive is slow, SQL; None: always, or there is none.
    when: str | None = None


def untouched(_pick: random.Random, _healthy: list[Drive]) -> Change:
    """the data as they are"""
    return Change()


def one_hour_of_three(pick: random.Random, healthy: list[Drive]) -> Change:
    """a healthy drive 15 % slower in one of the three hours of every day"""
    # Three hours were logged each day.
    return _slower(pick, healthy, f"ts // 3600 % 3 = {pick.randrange(3)}")


def third_of_the_days(pick: random.Random, healthy: list[Drive]) -> Change:
    """a healthy drive 15 % slower for a third of the days, one after the other"""
    first = pick.randrange(10)
    return _slower(
        pick,
        healthy,
        f"(ts - (SELECT min(ts) FROM base)) // {DAY_S} BETWEEN {first} AND {first + 4}",
    )


def third_of_the_hours(pick: random.Random, healthy: list[Drive]) -> Change:
    """a healthy drive 15 % slower in a third of the hours, at random"""
    return _slower(pick, healthy, f"hash(ts // 3600, {pick.randrange(10**6)}) % 3 = 0")


def _slower(pick: random.Random, healthy: list[Drive], when: str) -> Change:
    host, disk = pick.choice(healthy)
    slow = _times(f"host = {host} AND disk_id = '{disk}' AND {when}", 1.15)
    return Change(slow, guilty={(host, disk)}, when=when)


def two_of_three(pick: random.Random, healthy: list[Drive]) -> Change:
    """a host with three drives, two of them 1.5 times as slow"""
    host, _ = pick.choice(healthy)
    disks = pick.sample([disk for h, disk in healthy if h == host], 3)
    listed = ", ".join(f"'{disk}'" for disk in disks)
    return Change(
        _times(f"host = {host} AND disk_id IN ('{disks[0]}', '{disks[1]}')", 1.5),
        where=f"(host <> {host} OR disk_id IN ({listed}))",
        guilty={(host, disks[0]), (host, disks[1])},
    )


def whole_host(pick: random.Random, healthy: list[Drive]) -> Change:
    """a host all of whose drives become 1.5 times as slow half-way"""
    host, _ = pick.choice(healthy)
    return Change(
        _times(f"host = {host} AND ts >= (SELECT (min(ts) + max(ts)) / 2 FROM base)", 1.5),
        hosts=frozenset({host}),
    )


def two_hosts(pick: random.Random, healthy: list[Drive]) -> Change:
    """two hosts all of whose drives are 1.4 times as slow"""
    hosts = pick.sample(sorted({host for host, _ in healthy}, key=int), 2)
    return Change(_times(f"host IN ({', '.join(hosts)})", 1.4), hosts=frozenset(hosts))


def roles(pick: random.Random, healthy: list[Drive]) -> Change:
    """the drives of one slot 8 % slower on every other host"""
    slot = pick.choice(sorted({disk for _, disk in healthy}))
    return Change(_times(f"host % 2 = 0 AND disk_id = '{slot}'", 1.08))


def half_load(pick: random.Random, healthy: list[Drive]) -> Change:
    """a healthy drive with half the load"""
    host, disk = pick.choice(healthy)
    at = f"host = {host} AND disk_id = '{disk}'"
    return Change(throughput=f"throughput * CASE WHEN {at} THEN 0.5 ELSE 1 END")


def missing(pick: random.Random, _healthy: list[Drive]) -> Change:
    """a third of all values missing, and a tenth of the hours of each drive"""
    seed = pick.randrange(10**6)
    return Change(
        f"CASE WHEN hash(host, disk_id, ts, {seed}) % 3 = 0 THEN NULL ELSE latency END",
        f"CASE WHEN hash(host, disk_id, ts, {seed + 1}) % 3 = 0 THEN NULL ELSE throughput END",
        f"hash(host, disk_id, ts // 3600, {seed}) % 10 <> 0",
    )


CHANGES = (
    untouched,
    one_hour_of_three,
    third_of_the_days,
    third_of_the_hours,
    two_of_three,
    whole_host,
    roles,
    half_load,
    missing,
)

#: A fleet of three clusters with other drives and other work: A, J (hosts from 1000 on), and A at half the load with drives 1.6 times as slow (from 2000 on).
MIXED = "mixed"
_SHIFT = {"a": 0, "j": 1000, "a2": 2000}


def source_of(cluster: str) -> str:
    """What to select from."""
    if cluster != MIXED:
        return f"'{DATA}/failslow_cluster_{cluster}.parquet'"
    parts = [
        f"""SELECT CAST(host AS BIGINT) + {shift} AS host, ts, disk_id, throughput * {0.5 if name == "a2" else 1.0} AS throughput,
  latency * {1.6 if name == "a2" else 1.0} AS latency FROM '{DATA}/failslow_cluster_{name[0]}.parquet'"""
        for name, shift in _SHIFT.items()
    ]
    return f"({' UNION ALL '.join(parts)})"


def _times(condition: str, factor: float) -> str:
    return f"latency * CASE WHEN {condition} THEN {factor} ELSE 1 END"


@dataclass
class Counts:
    """Drives of one run, or of several."""

    runs: int = 0
    right: int = 0
    wrong: int = 0
    missed: int = 0
    left_alone: int = 0
    #: Runs in which what was changed was named (None = nothing was to be named).
    named: int | None = None
    #: Runs in which it was told at least that it is to be watched.
    watched: int = 0
    #: Runs in which a test that knows the hours would be sure (None = that is not asked).
    tellable: int | None = None
    seconds: float = 0.0
    #: Hosts that were accused, and to which nothing was done.
    wrong_hosts: int = 0
    #: Drives without a label that were accused, and how often.
    unlabelled: Counter[Drive] = field(default_factory=Counter)

    def row(self, cluster: str, span: str, what: str) -> str:
        """One line of the table."""
        tp, fp, fn, tn = self.right, self.wrong, self.missed, self.left_alone
        scale = math.sqrt(float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        mcc = f"{(tp * tn - fp * fn) / scale:.3f}" if scale else "-"
        precision = f"{tp / (tp + fp):.3f}" if tp + fp else "-"
        recall = f"{tp / (tp + fn):.3f}" if tp + fn else "-"
        watched = None if self.named is None else self.watched
        named, watched_too, tellable = (
            "-" if times is None else f"{times} of {self.runs}"
            for times in (self.named, watched, self.tellable)
        )
        return (
            f"| {cluster.upper()} | {span} | {what} | {self.runs} | {precision} | {recall} | {mcc} | {self.wrong_hosts} | {named} | {watched_too} | {tellable} | "
            f"{self.seconds / max(1, self.runs):.1f} |"
        )


HEAD = """# Fail-slow drives

Written by `python -m tests.accuracy.failslow` from the labelled PERSEUS data (drives of two clusters, a sample of latency and throughput every
15 s, three hours a day for two weeks). One setting for all rows. Each run imports the file with `whodisk import --as series` and
solves the case; precision, recall and MCC count drives. "Named" counts runs in which the changed drive (or drives, or host) was accused; a drive that costs
less than a tenth of its own mean latency (15 % in a third of the hours is 5 %) is not to be accused, but watched, and counts as guilty in no column but "named or watched".
"Tellable" counts runs in which a test that knows the hours in question would be sure of the drive: how much slower it is in them than
in its other hours is beyond what chance makes of any of the healthy drives (p < 0.01). whodisk has to find the hours, too.

| cluster | data | change | runs | precision | recall | MCC | hosts wrongly accused | named | named or watched | tellable | seconds per run (import and solve) |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def hourly(cluster: str) -> float:
    """How much a healthy drive differs from hour to hour: standard deviation of its hours' log latency (median over that of all
    drives of its host at the same moment), the median over drives."""
    listed = ", ".join(f"('{host}', '{disk}')" for host, disk in sorted(labelled(cluster)))
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    row = connection.execute(
        f"""WITH samples AS (SELECT CAST(host AS VARCHAR) AS host, disk_id, ts, ln(latency) AS v
  FROM '{DATA}/failslow_cluster_{cluster}.parquet' WHERE latency > 0),
common AS (SELECT host, ts, median(v) AS v FROM samples GROUP BY 1, 2),
hours AS (SELECT host, disk_id, ts // 3600 AS hour, median(s.v - c.v) AS v FROM samples AS s JOIN common AS c USING (host, ts)
  WHERE (host, disk_id) NOT IN ({listed}) GROUP BY 1, 2, 3 HAVING count(*) >= 100),
drives AS (SELECT host, disk_id, stddev(v) AS spread FROM hours GROUP BY 1, 2)
SELECT median(spread) FROM drives"""
    ).fetchone()
    return math.expm1(float(row[0])) if row else math.nan


def is_tellable(connection: duckdb.DuckDBPyConnection, cluster: str, change: Change) -> bool:
    """Whether the changed drive stands out of all healthy ones by how much slower it is in the hours in question than in its others (the
    mean of the hours' median log latency over that of its host); tails as heavy as Student's t with 30 degrees of freedom."""
    listed = ", ".join(f"('{host}', '{disk}')" for host, disk in sorted(labelled(cluster)))
    rows = connection.execute(
        f"""WITH samples AS (
  SELECT CAST(host AS VARCHAR) AS host, disk_id, ts, ln({change.latency}) AS v, {change.when} AS asked FROM base WHERE latency > 0),
common AS (SELECT host, ts, median(v) AS v FROM samples GROUP BY 1, 2),
hours AS (SELECT host, disk_id, ts // 3600 AS hour, avg(CAST(asked AS INTEGER)) > 0.5 AS asked, median(s.v - c.v) AS v
  FROM samples AS s JOIN common AS c USING (host, ts) WHERE (host, disk_id) NOT IN ({listed}) GROUP BY 1, 2, 3)
SELECT host, disk_id, avg(v) FILTER (asked) - avg(v) FILTER (NOT asked) AS rise FROM hours GROUP BY 1, 2 HAVING rise IS NOT NULL"""
    ).fetchall()
    rises = {(host, disk): float(rise) for host, disk, rise in rows}
    (changed,) = (rises.pop(drive) for drive in change.guilty)
    middle = statistics.median(rises.values())
    spread = 1.4826 * statistics.median(abs(rise - middle) for rise in rises.values())
    return (1 + len(rises)) * student_above((changed - middle) / spread, 30) < 0.01


def labelled(cluster: str) -> set[Drive]:
    """The drives that are known to be slow."""
    if cluster == MIXED:
        return {
            (str(int(host) + shift), disk)
            for name, shift in _SHIFT.items()
            for host, disk in labelled(name[0])
        }
    sql = f"SELECT host_name, disk_id FROM '{DATA}/failslow_labels.csv' WHERE cluster = 'cluster_{cluster.upper()}'"
    return {(host.removeprefix("host_"), disk) for host, disk in duckdb.connect().execute(sql).fetchall()}


def run(cluster: str, days: tuple[int, int], change: Change, counts: Counts) -> None:
    """One file, imported and solved."""
    source = source_of(cluster)
    begin = f"(SELECT min(ts) FROM {source} AS every)"
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    low, high = (day * DAY_S for day in days)
    connection.execute(
        f"CREATE TABLE base AS SELECT * FROM {source} AS every WHERE ts >= {begin} + {low} AND ts < {begin} + {high}"
    )
    with tempfile.TemporaryDirectory() as folder:
        file, case = Path(folder) / "drives.parquet", Path(folder) / "case"
        connection.execute(
            f"""COPY (SELECT host, ts, disk_id, {change.throughput} AS throughput, {change.latency} AS latency
FROM base WHERE {change.where}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)"""
        )
        drives = {
            (str(host), disk)
            for host, disk in connection.execute(
                f"SELECT DISTINCT host, disk_id FROM base WHERE {change.where}"
            ).fetchall()
        }
        if change.when:
            counts.tellable = (counts.tellable or 0) + is_tellable(connection, cluster, change)
        connection.close()
        started = time.perf_counter()
        command = [AGENT, "import", "series", str(file), "--map", MAP, "-o", str(case)]
        subprocess.run(command, check=True, capture_output=True)
        verdict = solve(case)
        counts.seconds += time.perf_counter() - started
    accused = {
        (host, disk)
        for host, disk in (f.culprit.name.split("/") for f in verdict.findings if f.culprit.kind == "device")
    }
    hosts = {f.culprit.name for f in verdict.findings if f.culprit.kind == "host"}
    # What is only to be watched is neither missed nor, if it is accused, wrong.
    guilty = (labelled(cluster) & drives) | (
        change.guilty if change.when is None else change.guilty & accused
    )
    counts.runs += 1
    counts.right += len(accused & guilty)
    counts.wrong += len(accused - guilty)
    counts.unlabelled.update(accused - guilty)
    counts.missed += len(guilty - accused)
    counts.left_alone += len(drives - accused - guilty)
    counts.wrong_hosts += len(hosts - change.hosts)
    if change.guilty or change.hosts:
        ok = change.guilty <= accused and change.hosts <= hosts
        counts.named = (counts.named or 0) + ok
        told = {
            drive
            for drive in change.guilty
            if any(f"{drive[0]}/{drive[1]} is to be watched" in line for line in verdict.minor)
        }
        counts.watched += change.guilty <= accused | told and change.hosts <= hosts


def main() -> None:
    """All rows; the file is written anew after each, so that a stopped run leaves what it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each perturbation")
    parser.add_argument("--clusters", default="aj")
    chosen = parser.parse_args()
    rows: list[str] = []
    natural = [f"{hourly(cluster):.1%} in cluster {cluster.upper()}" for cluster in chosen.clusters]
    tail = f"""
From hour to hour a healthy drive differs from its host by {" and ".join(natural)} (standard deviation of the hours' medians). What
a fault adds in some hours can be distinguished from that only where it is more.
"""

    unlabelled: dict[str, Counter[Drive]] = {cluster: Counter() for cluster in chosen.clusters}

    def add(cluster: str, counts: Counts, span: str, what: str) -> None:
        row = counts.row(cluster, span, what)
        print(row, flush=True)
        rows.append(row)
        unlabelled[cluster].update(counts.unlabelled)
        wrong = [
            f"{name.upper()} {host}/{disk} ({times})"
            for name, drives in unlabelled.items()
            for (host, disk), times in drives.most_common()
        ]
        accused = (
            f"\nAccused without a label, and in how many of all runs: {', '.join(wrong)}.\n" if wrong else ""
        )
        OUTPUT.write_text(HEAD + "\n".join(rows) + "\n" + accused + tail, encoding="utf-8")

    for cluster in chosen.clusters:
        for span, days in (("two weeks", (0, 15)), ("first day", (0, 1))):
            counts = Counts()
            run(cluster, days, Change(), counts)
            add(cluster, counts, span, str(untouched.__doc__))
    for cluster in chosen.clusters:
        counts = Counts()
        for day in range(1, 15):
            # A day without a sample has nothing to import.
            if not (cluster == "a" and day == 1):
                run(cluster, (day, day + 1), Change(), counts)
        add(cluster, counts, "each later day alone", str(untouched.__doc__))
    for change in CHANGES[1:]:
        for cluster in chosen.clusters:
            bad = {host for host, _ in labelled(cluster)}
            source = f"'{DATA}/failslow_cluster_{cluster}.parquet'"
            every = (
                duckdb.connect()
                .execute(f"SELECT DISTINCT host, disk_id FROM {source} ORDER BY 1, 2")
                .fetchall()
            )
            healthy = [(str(host), disk) for host, disk in every if str(host) not in bad]
            counts = Counts()
            for seed in range(chosen.runs):
                run(cluster, (0, 15), change(random.Random(seed), healthy), counts)
            add(cluster, counts, "two weeks", str(change.__doc__))
    healthy = sorted(
        (str(host), disk)
        for host, disk in duckdb.connect()
        .execute(f"SELECT DISTINCT host, disk_id FROM {source_of(MIXED)} AS every")
        .fetchall()
        if str(host) not in {host for host, _ in labelled(MIXED)}
    )
    unlabelled[MIXED] = Counter()
    counts = Counts()
    run(MIXED, (0, 15), Change(), counts)
    add(MIXED, counts, "two weeks", str(untouched.__doc__))
    counts = Counts()
    for seed in range(chosen.runs):
        run(MIXED, (0, 15), two_hosts(random.Random(seed), healthy), counts)
    add(MIXED, counts, "two weeks", str(two_hosts.__doc__))


if __name__ == "__main__":
    main()
