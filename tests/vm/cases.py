"""What is in sealed cases, for the assertions of the tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from tests.vm.faults import FAULTS, Run
from tests.vm.machine import agent_path
from whodisk.verdict.solve import solve


def rows(case: Path, query: str) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.execute(
        "CREATE VIEW ops AS SELECT * FROM read_parquet(?, hive_partitioning = true)".replace(
            "?", f"'{case}/ops/*/*.parquet'"
        )
    )
    return connection.execute(query).fetchall()


def reads_per_device(case: Path) -> dict[str, int]:
    query = "SELECT device, count(*) FROM ops WHERE layer = 'block' AND comm = 'load' AND op = 'read' GROUP BY ALL"
    return dict(rows(case, query))


def typical_us(case: Path, column: str) -> dict[str, float]:
    """Median of a column of block reads by device, in microseconds."""
    query = (
        f"SELECT device, quantile_cont({column}, 0.5) / 1e3 FROM ops WHERE layer = 'block' AND op = 'read'"
    )
    return dict(rows(case, f"{query} AND comm = 'load' GROUP BY ALL"))


def to_peers(values: dict[str, float], device: str) -> float:
    """A device's value, in multiples of the median of the others."""
    return values[device] / median(value for name, value in values.items() if name != device)


def check_whole(case: Path, start: str = "block_getrq") -> None:
    """The case is whole, nothing was lost, and this kernel took every program.

    `start` is the tracepoint that tells of a request's start: 6.1 has no block_io_start.
    """
    agent = agent_path()
    assert agent is not None
    verified = subprocess.run([str(agent), "verify", str(case)], check=False, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    refused = [fact for fact in meta["not_observed"] if "BPF_PROG_LOAD" in fact["because"]]
    assert refused == [], "this kernel's verifier refuses a program"
    probes = meta["probes"]
    assert {name: probe["lost"] for name, probe in probes.items() if probe["lost"]} == {}
    assert start in probes["block"]["attached"], f"the start of a request is told by {start} here"
    assert "sched" not in probes or "sched_waking" in probes["sched"]["attached"]
    assert "who wakes threads that slept" not in [fact["what"] for fact in meta["not_observed"]]


#: What scenario/schedulers.sh asks of each drive.
READS, SYNC_WRITES, WRITTEN_BYTES = 211, 31, 7 * 65536
#: Of /sys/block/*/stat (Documentation/block/stat.rst): requests that ended, by kind.
STAT_READS, STAT_WRITES, STAT_FLUSHES = 0, 4, 15


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_schedulers(run: Run, left_with: str, start: str = "block_io_start") -> None:
    """Scenario `schedulers`: on every drive exactly what was asked for was recorded, and as many flushes as the kernel counts.

    `left_with` is the scheduler of the drive that was left as the kernel had it.
    """
    case, folder = run.case("schedulers"), run.folder / run.scenario
    check_whole(case, start)
    used = {line["serial"]: line["scheduler"] for line in json_lines(folder / "schedulers.jsonl")}
    wanted = dict(
        zip(("nvme0", "nvme1", "nvme2", "nvme3"), ("none", "mq-deadline", "bfq", left_with), strict=True)
    )
    wanted |= dict(zip(("virtio0", "virtio1", "virtio2"), ("none", "mq-deadline", "bfq"), strict=True))
    assert used == wanted
    counted: dict[str, dict[str, list[int]]] = {}
    for line in json_lines(folder / "stat.jsonl"):
        counted.setdefault(line["device"], {})[line["at"]] = [int(word) for word in line["fields"].split()]
    query = "SELECT device, op, count(*), sum(size_bytes)::BIGINT FROM ops WHERE layer = 'block' GROUP BY ALL"
    found = {(device, op): (number, size) for device, op, number, size in rows(case, query)}
    for serial, scheduler in used.items():
        device = run.device(serial)
        what = f"{serial} with {scheduler}"
        before, after = counted[device]["before"], counted[device]["after"]
        assert found[device, "read"] == (READS, READS * 4096), what
        assert after[STAT_READS] - before[STAT_READS] == READS, what
        assert found[device, "write"][0] == after[STAT_WRITES] - before[STAT_WRITES], what
        assert found[device, "write"][1] == SYNC_WRITES * 4096 + WRITTEN_BYTES, what
        assert found[device, "flush"][0] == after[STAT_FLUSHES] - before[STAT_FLUSHES] > 0, what
    unended = "SELECT count(*) FROM ops WHERE layer = 'block' AND open"
    assert rows(case, unended) == [(0,)]


def events(case: Path, kind: str) -> list[tuple[str, str]]:
    """Subject and detail of the events of a kind, in the order of their times."""
    return rows(
        case, f"SELECT subject, detail FROM '{case}/events/*.parquet' WHERE kind = '{kind}' ORDER BY time_ns"
    )


def chains(case: Path) -> dict[tuple[str, str], int]:
    """Links by the devices of both ends, among reads of the load generator; a call has the device `call`."""
    query = f"""SELECT CASE WHEN p.layer = 'syscall' THEN 'call' ELSE p.device END, c.device, count(*)
        FROM '{case}/links/*.parquet' AS l JOIN ops AS p ON p.op_id = l.parent_id JOIN ops AS c ON c.op_id = l.child_id
        WHERE p.comm = 'load' AND p.op = 'read' GROUP BY ALL"""
    return {(str(upper), str(lower)): number for upper, lower, number in rows(case, query)}


def check_volume(case: Path, volume: str) -> None:
    """Every read of a volume has members below it, and its time is theirs, but for what the volume itself needs."""
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    assert not [fact for fact in meta["not_observed"] if "stacked" in fact["what"]]
    assert meta["layers"]["block"]["stages"]["fs_ns"] == "volume"
    query = f"""SELECT count(*), sum(unknown_ns), sum(fs_ns) / sum(latency_ns)
        FROM ops WHERE layer = 'block' AND device = '{volume}' AND comm = 'load'"""
    counted, unknown_ns, own = rows(case, query)[0]
    assert counted > 0 and unknown_ns == 0
    assert own < 0.6, "most of the time is at the members"


def check_named(name: str, run: Run) -> None:
    """The fault is the first finding, and nobody is accused without it."""
    fault = FAULTS[name]
    sick, healthy = solve(run.case(fault.case)), solve(run.case(fault.control))
    assert sick.findings, sick.minor
    assert fault.is_named(run, sick.findings[0].culprit), [f.claim for f in sick.findings]
    assert healthy.findings == [], [f.claim for f in healthy.findings]
