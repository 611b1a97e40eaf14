"""Which devices of a log ought to be alike, and what is said where they may not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import write_case
from whodisk.evidence.alike_devices import alike, disk_family
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve

SECOND = 1_000_000_000
SAMPLES = 1200


def logged(path: Path, devices: dict[str, tuple[Any, Any]]) -> Verdict:
    """Judges what iostat would print of these devices each second: latencies in ns and operations per second."""
    generator = np.random.default_rng(5)
    rows = []
    for device, (latency_ns, per_s) in devices.items():
        latency = np.broadcast_to(latency_ns, SAMPLES) * np.exp(generator.normal(0, 0.2, SAMPLES))
        rates = per_s * np.exp(generator.normal(0, 0.1, SAMPLES))
        for at in range(SAMPLES):
            for metric, value in (
                ("read_latency_ns", float(latency[at])),
                ("read_operations_per_s", float(rates[at])),
                ("throughput_bytes_per_s", float(rates[at]) * 4096),
            ):
                rows.append(
                    {
                        "time_ns": at * SECOND,
                        "kind": "device",
                        "subject": device,
                        "host": "db1",
                        "metric": metric,
                        "value": value,
                    }
                )
    return solve(
        write_case(
            path, tables={"series": rows}, devices=tuple(devices), meta={"duration_ns": SAMPLES * SECOND}
        )
    )


def accused(verdict: Verdict) -> list[str]:
    return [finding.culprit.name for finding in verdict.findings]


def test_names_of_disks_partitions_and_volumes() -> None:
    names = {
        "sda",
        "sda1",
        "nvme0n1",
        "nvme0n1p2",
        "dm-0",
        "md127",
        "xvdb1",
        "mmcblk0",
        "mmcblk0p1",
        "bcache0",
        "loop3",
        "vdc1",
        "vdc2",
        # As sar prints them: a disk, its partition, another disk, a volume.
        "dev8-0",
        "dev8-1",
        "dev8-16",
        "dev253-0",
    }
    assert {name: disk_family(name, names) for name in sorted(names) if disk_family(name, names)} == {
        "dev8-0": "sd",
        "dev8-16": "sd",
        "sda": "sd",
        "nvme0n1": "nvme",
        "mmcblk0": "mmcblk",
        # A machine on Xen may have partitions without their disk; two of one disk are no two disks.
        "xvdb1": "xvd",
    }


def test_disks_of_two_kinds_are_two_groups() -> None:
    fast, slow = np.full((9, 4), np.log(1e5)), np.full((9, 3), np.log(8e6))
    disks = [f"sd{letter}" for letter in "abcdefg"]
    assert alike(disks, np.hstack([fast, slow])) == ([[0, 1, 2, 3], [4, 5, 6]], True)
    # Two that take longer are slow, perhaps.
    assert alike(disks[:6], np.hstack([fast, slow[:, :2]])) == ([[0, 1, 2, 3, 4, 5]], True)
    # Two fast ones have no peers.
    assert alike(disks[:5], np.hstack([fast[:, :2], slow])) == ([[2, 3, 4]], True)
    assert alike(["sda", "nvme0n1", "dm-0", "sda1"], fast) == ([], True)
    # Somebody else's names: drives of a fleet.
    assert alike(["disk1", "disk2"], fast[:, :2]) == ([[0, 1]], False)


def test_volumes_and_partitions_are_no_peers_of_their_disk(tmp_path: Path) -> None:
    verdict = logged(
        tmp_path / "case", {"sda": (9e6, 90), "sda1": (9e6, 90), "dm-0": (9e6, 90), "nvme0n1": (9e4, 90)}
    )
    assert verdict.status == "insufficient" and not verdict.findings
    assert any("no three of its disks are of one kind" in caveat.because for caveat in verdict.cannot_exclude)


def test_flash_beside_rotating_disks_accuses_no_disk(tmp_path: Path) -> None:
    devices = {f"sd{letter}": (9e6, 100.0) for letter in "abcdef"} | {
        f"sd{letter}": (2e5, 100.0) for letter in "ghij"
    }
    assert accused(logged(tmp_path / "case", devices)) == []


def test_one_slow_disk_among_its_like_is_named(tmp_path: Path) -> None:
    devices = {f"sd{letter}": (9e6, 100.0) for letter in "abcdef"} | {
        f"sd{letter}": (2e5, 100.0) for letter in "ghij"
    }
    devices["sdd"] = (19e6, 100.0)
    verdict = logged(tmp_path / "case", devices)
    assert accused(verdict) == ["db1/sdd"]
    [told] = [proof for proof in verdict.findings[0].evidence if "its peers" in proof.what]
    assert all(2 < float(row["ratio"] or 0) < 3 for row in told.rows)


def test_a_disk_with_other_work_or_of_another_kind_is_described(tmp_path: Path) -> None:
    idle = logged(
        tmp_path / "idle", {"sda": (9e6, 20.0), "sdb": (3e6, 100.0), "sdc": (3e6, 100.0), "sdd": (3e6, 100.0)}
    )
    assert idle.status == "insufficient" and not idle.findings
    assert any("times as little to do" in sentence for sentence in idle.minor)
    # The same work on average, but each its own.
    busy = 100.0 * np.exp(np.random.default_rng(7).normal(0, 0.6, (4, SAMPLES // 60)).repeat(60, axis=1))
    other = logged(
        tmp_path / "other",
        {"sda": (9e6, busy[0]), "sdb": (2e5, busy[1]), "sdc": (2e5, busy[2]), "sdd": (2e5, busy[3])},
    )
    assert other.status == "insufficient" and not other.findings
    assert any(
        "db1/sda is" in sentence and "of another kind, perhaps" in sentence for sentence in other.minor
    )
    assert any(caveat.what == "whether db1/sda is slow" for caveat in other.cannot_exclude)
    shared = logged(
        tmp_path / "shared",
        {"sda": (9e6, busy[0]), "sdb": (2e5, busy[0]), "sdc": (2e5, busy[0]), "sdd": (2e5, busy[0])},
    )
    assert accused(shared) == ["db1/sda"]
    # Since the middle of the log: the same disk was as quick as its peers before.
    since = np.where(np.arange(SAMPLES) < SAMPLES // 2, 2e5, 2e6)
    became = logged(
        tmp_path / "became",
        {"sda": (since, 100.0), "sdb": (2e5, 100.0), "sdc": (2e5, 100.0), "sdd": (2e5, 100.0)},
    )
    assert accused(became) == ["db1/sda"]


def test_means_of_few_operations_say_nothing_of_a_disk(tmp_path: Path) -> None:
    verdict = logged(
        tmp_path / "case", {"sda": (9e6, 2.0), "sdb": (3e6, 2.0), "sdc": (3e6, 2.0), "sdd": (3e6, 2.0)}
    )
    assert verdict.status == "insufficient" and not verdict.findings
