"""Devices compared with their peers: what is hard, hiccups spread at random, and the fail-slow data where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import numpy as np
import pytest

from ground_truth.members import Fleet, watched_every_night
from whodisk.evidence.host_kinds import HostFacts, host_kinds
from whodisk.evidence.peer_comparison import PeerGroup, compare
from whodisk.evidence.sampled_series import parts_sql
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("WHODISK_DATA", ROOT.parent / "shared/data"))
Q_MAX = 0.01


def accused(path: Path) -> set[str]:
    return {f"{f.culprit.kind} {f.culprit.name}" for f in solve(path).findings}


@pytest.mark.parametrize("seed", range(3))
def test_two_slow_drives_among_three(tmp_path: Path, seed: int) -> None:
    fleet = Fleet(seed, hosts=1, drives=3)
    fleet.latency[:, 0, :2] += np.log(1.6)
    assert accused(fleet.write(tmp_path / "case")) == {"device host0/disk0", "device host0/disk1"}


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_fifteen_percent_for_a_third_of_the_time_is_watched(tmp_path: Path, seed: int) -> None:
    """It costs 5 % of the drive's own time: seen, and told, but nobody is accused for less than 10 %."""
    fleet = Fleet(seed, hosts=8, drives=12, samples=3000, noise=0.08)
    slow = (np.arange(fleet.samples) // 120) % 3 == seed % 3
    fleet.latency[slow, 5, 7] += np.log(1.15)
    verdict = solve(fleet.write(tmp_path / "case"))
    assert verdict.status == "healthy" and not verdict.findings
    assert any(line.startswith("host5/disk7 is to be watched") for line in verdict.minor)


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_half_as_long_again_for_a_third_of_the_time(tmp_path: Path, seed: int) -> None:
    fleet = Fleet(seed, hosts=8, drives=12, samples=3000, noise=0.08)
    slow = (np.arange(fleet.samples) // 120) % 3 == seed % 3
    fleet.latency[slow, 5, 7] += np.log(1.5)
    assert accused(fleet.write(tmp_path / "case")) == {"device host5/disk7"}


@pytest.mark.parametrize(
    ("share", "ratio", "is_role"), [(0.5, 1.3, True), (0.1, 1.3, False), (0.4, 1.3, True), (0.4, 2.0, False)]
)
def test_a_slot_is_a_role_where_many_hosts_have_it_slow(share: float, ratio: float, is_role: bool) -> None:
    """What is slow by far on fewer than half of the hosts is no role."""
    rng = np.random.default_rng(12)
    groups = []
    for host in range(20):
        latency = rng.normal(0, 0.02, (84, 8)) + rng.normal(0, 0.01, (1, 8))
        latency[:, 0] += np.log(ratio) if host < share * 20 else 0.0
        groups.append(
            PeerGroup(f"host{host}", [f"disk{n}" for n in range(8)], latency, latency * np.nan, np.arange(84))
        )
    slow = {member.group for member in compare(groups).slow}
    assert slow == (set() if is_role else {f"host{host}" for host in range(round(share * 20))})


@pytest.mark.parametrize(("hosts", "told"), [(2, False), (12, True)])
def test_few_peers_know_their_swings_roughly(hosts: int, told: bool) -> None:
    """The same drive, slower by a sixth in every third block: among 48 that is beyond chance; the swing of eight is known as from three values."""
    rng = np.random.default_rng(5)
    groups = []
    for host in range(hosts):
        latency = rng.normal(0, 0.03, (84, 4)) + rng.normal(0, 0.03, (1, 4))
        if not host:
            latency[:, 0] = rng.normal(0, 0.03, 84) + np.where(np.arange(84) % 3 == 0, 0.16, 0.06)
        groups.append(PeerGroup(f"host{host}", list("abcd"), latency, latency * np.nan, np.arange(84)))
    (member,) = compare(groups, few=True).slow
    assert (member.group, member.member) == ("host0", "a")
    assert (member.p_value < Q_MAX) == told


def test_kinds_of_hosts() -> None:
    """Thirty alike, two of them slow; eight that behave otherwise; two with another load; four of twelve that are neither many nor few."""
    level = np.concatenate((np.full(28, 4.0), np.full(2, 4.34), np.full(8, 4.6), np.full(2, 4.0)))
    load = np.concatenate((np.full(38, 16.0), np.full(2, 17.0)))
    zeros = np.zeros(40)
    kinds, lonely = host_kinds(HostFacts(zeros, load, zeros, level, zeros))
    assert [(len(kind.usual), kind.others.tolist()) for kind in kinds] == [(28, [28, 29]), (8, [])]
    assert lonely.tolist() == [38, 39]
    level = np.concatenate((np.full(8, 4.0), np.full(4, 4.3)))
    facts = HostFacts(np.zeros(12), np.zeros(12), np.zeros(12), level, np.zeros(12))
    kinds, lonely = host_kinds(facts)
    assert [len(kind.hosts) for kind in kinds] == [8] and lonely.tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize("seed", range(2))
def test_slow_drive_with_missing_values(tmp_path: Path, seed: int) -> None:
    fleet = Fleet(seed)
    fleet.latency[:, 1, 6] += np.log(1.7)
    fleet.latency[fleet.rng.random(fleet.latency.shape) < 0.4] = np.nan
    fleet.load[:, :3] = np.nan
    fleet.latency[100:300, 1, :4] = np.nan
    assert accused(fleet.write(tmp_path / "case")) == {"device host1/disk6"}


def test_the_onset_is_told(tmp_path: Path) -> None:
    fleet = Fleet(3)
    fleet.latency[300:, 0, 0] += np.log(1.8)
    claim = solve(fleet.write(tmp_path / "case")).findings[0].claim
    assert "since 4,5" in claim or "since 4,4" in claim, claim  # sample 300 is at 4,500 s


@pytest.mark.parametrize("later_ns", [0, 1_000_000_000])
def test_evidence_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_ns: int) -> None:
    """Also where the drives of a host are sampled one after the other: each then had only itself to be compared with, and the rows said 1.0."""
    fleet = Fleet(1, later_ns=later_ns)
    fleet.latency[:, 2, 3] += np.log(1.5)
    fleet.latency[:, 4, 1] += np.log(1.5)
    case = fleet.write(tmp_path / "case")
    findings = solve(case).findings
    monkeypatch.chdir(case)
    assert len(findings) == 2
    for finding in findings:
        proof = finding.evidence[0]
        cursor = duckdb.connect().execute(proof.query)
        names = [column[0] for column in cursor.description or []]
        assert [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] == proof.rows
        assert min(float(row["ratio"] or 0) for row in proof.rows) > 1.2


@pytest.mark.parametrize("samples", [1, 3, 30])
def test_few_samples_accuse_nobody(tmp_path: Path, samples: int) -> None:
    fleet = Fleet(1, hosts=2, drives=4, samples=samples)
    verdict = solve(fleet.write(tmp_path / "case"))
    assert verdict.status in ("insufficient", "healthy")


def test_hours_without_a_sample_are_no_samples(tmp_path: Path) -> None:
    """Three hours a day, a sample every ten minutes, for two days: 36 samples in blocks of twenty periods were five blocks, too few for anything."""
    fleet = Fleet(4, samples=288, period_ns=600_000_000_000, noise=0.05)
    fleet.latency[:, 2, 3] += np.log(2)
    unlogged = np.arange(fleet.samples) % 144 >= 18
    fleet.latency[unlogged] = fleet.load[unlogged] = np.nan
    assert accused(fleet.write(tmp_path / "case")) == {"device host2/disk3"}


def test_the_time_of_the_day_is_told(tmp_path: Path) -> None:
    case = watched_every_night(7, tmp_path / "case")
    [line] = [line for line in solve(case).minor if line.startswith("host2/disk3 is to be watched")]
    # Samples come every four minutes: a block of 20 took 80, and it said 01:20 to 04:00.
    assert "from 02:00 to 04:00 UTC" in line, line
    hour_ns = 3_600_000_000_000
    with Case(case) as opened:
        rows = opened.rows(parts_sql("latency_ns", [("host2", "disk3")], hour_ns, of_day=True))
    ratios = {int(row["since_begin_of_day_ns"] or 0) // hour_ns: float(row["ratio"] or 0) for row in rows}
    assert sorted(ratios, key=lambda hour: ratios[hour])[-2:] in ([2, 3], [3, 2])


def test_restless_members_are_not_slow_at_a_time_of_the_day() -> None:
    """Noise that lasts for hours, no two days alike: at most one of 40 fleets is accused of what it does at some hour."""
    alarms = 0
    begin_ns = np.arange(10 * 24 * 6) * 600_000_000_000
    for trial in range(40):
        rng = np.random.default_rng([trial, 11])
        hours = np.repeat(rng.normal(0, 0.1, (240, 16)), 6, axis=0)
        latency = hours + rng.normal(0, 0.1, (len(begin_ns), 16))
        group = PeerGroup("host", [str(n) for n in range(16)], latency, latency * np.nan, begin_ns)
        alarms += any(member.daily and member.p_value < Q_MAX for member in compare([group]).slow)
    assert alarms <= 1


def test_a_lone_device_has_no_peers(tmp_path: Path) -> None:
    verdict = solve(Fleet(1, hosts=1, drives=1).write(tmp_path / "case"))
    assert verdict.status == "insufficient"
    assert any("no peers" in caveat.because for caveat in verdict.cannot_exclude)


@pytest.mark.slow
def test_hiccups_spread_at_random_accuse_no_drive() -> None:
    """20 hiccups on 8 identical drives with 64 operations in flight: 1 % of trials; of 300, at most 8.

    At a rate of 1 %, 9 alarms or more in 300 trials have a probability of 0.4 %."""
    alarms = 0
    for trial in range(300):
        rng = np.random.default_rng([trial, 9])
        # Mean log latency per block; a hiccup holds 8 operations of a drive for eight times as long (clipped).
        latency = rng.normal(0, 0.25 / np.sqrt(40), (84, 8))
        for block, drive in zip(rng.integers(84, size=20), rng.integers(8, size=20), strict=True):
            latency[block, drive] += 8 / 48 * np.log(8)
        group = PeerGroup("nvme", [str(n) for n in range(8)], latency, latency * np.nan, np.arange(84))
        alarms += any(member.p_value < Q_MAX for member in compare([group]).slow)
    assert alarms <= 8


# -- the fail-slow data ---------------------------------------------------------------------------


def labelled(cluster: str) -> set[str]:
    sql = f"SELECT host_name, disk_id FROM '{DATA}/failslow_labels.csv' WHERE cluster = 'cluster_{cluster.upper()}'"
    return {
        f"device {host.removeprefix('host_')}/{disk}"
        for host, disk in duckdb.connect().execute(sql).fetchall()
    }


@pytest.mark.parametrize("cluster", ["a", "j"])
def test_first_day_of_the_fail_slow_drives(tmp_path: Path, cluster: str) -> None:
    source = DATA / f"failslow_cluster_{cluster}.parquet"
    if not source.is_file():
        pytest.skip(f"{source} is not here; set WHODISK_DATA to the folder that holds it")
    from tests.synth import write_case

    table = (
        duckdb.connect()
        .sql(
            f"""WITH samples AS (
  SELECT *, (ts - (SELECT min(ts) FROM '{source}')) * 1000000000 AS t FROM '{source}'
  WHERE ts < (SELECT min(ts) FROM '{source}') + 10800)
SELECT t AS time_ns, CAST(host AS VARCHAR) AS host, 'device' AS kind, disk_id AS subject, 'latency_ns' AS metric,
  CAST(latency AS DOUBLE) * 1000 AS value FROM samples WHERE latency IS NOT NULL
UNION ALL SELECT t, CAST(host AS VARCHAR), 'device', disk_id, 'throughput_bytes_per_s', CAST(throughput AS DOUBLE)
FROM samples WHERE throughput IS NOT NULL ORDER BY 1, 2, 4, 5"""
        )
        .to_arrow_table()
    )
    case = write_case(tmp_path / "case", tables={"series": table}, meta={"duration_ns": 10_800_000_000_000})
    drives = {name for name in accused(case) if name.startswith("device")}
    assert drives == labelled(cluster)


def test_one_that_is_many_times_slower_is_not_hidden_by_peers_that_differ() -> None:
    """What one block counts is limited; what a member is in most blocks is not, or seventy times as slow would weigh no more than half as slow again."""
    rng = np.random.default_rng(4)
    latency = rng.normal(0, 0.05, (20, 4)) + np.log([111.0, 121.0, 7745.0, 82.0])
    group = PeerGroup("drives", list("abcd"), latency, np.full((20, 4), np.nan), np.arange(20) * 10**7)
    (found,) = compare([group]).slow
    assert found.member == "c"
    assert 60 < found.ratio < 100
    assert found.low <= found.ratio <= found.high
    # A few moments of it make no slow member.
    latency[3:, 2] = latency[3:, 1]
    assert compare([group]).slow == []
