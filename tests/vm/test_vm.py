"""Real faults on another kernel: what the agent records inside the machine is asserted on the sealed cases.

Time in an emulated machine means nothing by itself: phases of one boot and drives of one machine are compared.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pytest

from tests.vm import image
from tests.vm.faults import BAD, FAULTS, IRQ, RAID, Run, boot
from tests.vm.machine import agent_path
from whodisk.solve import solve

pytestmark = [pytest.mark.vm, pytest.mark.slow]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    because = image.obstacle()
    if because is None and agent_path() is None:
        because = "no static whodisk-agent: run make agent, or set WHODISK_AGENT"
    if because is not None:
        pytest.skip(because)
    folder = tmp_path_factory.mktemp("vm")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def stored(work: Path) -> dict[str, Run]:
    return boot(BAD, work / "stored", "kernel", "errors", "raid", "cpu")


@pytest.fixture(scope="module")
def journals(work: Path) -> dict[str, Run]:
    return boot(RAID, work / "journals", "journals", "logs")


@pytest.fixture(scope="module")
def shared_line(work: Path) -> Run:
    return boot(IRQ, work / "irq", "irq")["irq"]


@pytest.fixture(scope="module")
def hdd(work: Path) -> Run:
    return boot(FAULTS["short_readahead"].hardware, work / "hdd", "readahead")["readahead"]


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


def check_whole(case: Path) -> None:
    """The case is whole, nothing was lost, and this kernel took every program."""
    agent = agent_path()
    assert agent is not None
    verified = subprocess.run([str(agent), "verify", str(case)], check=False, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    refused = [fact for fact in meta["not_observed"] if "BPF_PROG_LOAD" in fact["because"]]
    assert refused == [], "this kernel's verifier refuses a program"
    probes = meta["probes"]
    assert {name: probe["lost"] for name, probe in probes.items() if probe["lost"]} == {}
    assert "block_getrq" in probes["block"]["attached"], (
        "6.1 tells the start of a request only by block_getrq"
    )


def test_agent_joins_its_own_operations(stored: dict[str, Run]) -> None:
    case = stored["kernel"].case("engine")
    check_whole(case)
    layers = json.loads((case / "case.json").read_text(encoding="utf-8"))["layers"]
    assert layers["app"]["join"].startswith("exact"), layers
    counted = dict(rows(case, "SELECT layer, count(*) FROM ops GROUP BY ALL"))
    assert counted["app"] == 1009
    # Parents of layer app; layer syscall sees the same operations and links them by itself.
    linked = f"SELECT count(DISTINCT parent_id) FROM '{case}/links/*.parquet' WHERE parent_id >> 56 = 1"
    assert rows(case, linked) == [(1009,)]
    assert rows(case, "SELECT sum(unknown_ns) FROM ops WHERE layer = 'app'") == [(0,)]


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


def test_reads_of_a_stacked_device_are_tied_to_its_member(stored: dict[str, Run]) -> None:
    run = stored["kernel"]
    case, member = run.case("stacked"), run.device("nvme1")
    check_whole(case)
    reads = run.load("stacked")[0]["reads"]
    assert reads == 499
    assert reads_per_device(case) == {"dm-0": reads, member: reads}
    assert chains(case) == {("call", "dm-0"): reads, ("dm-0", member): reads}
    check_volume(case, "dm-0")
    assert rows(case, "SELECT sum(unknown_ns) FROM ops WHERE layer = 'syscall' AND comm = 'load'") == [(0,)]


def test_doctor_tells_of_volumes(stored: dict[str, Run]) -> None:
    text = (stored["kernel"].folder / "kernel" / "doctor.json").read_text(encoding="utf-8")
    assert "volumes (dm, md)" in text
    assert "tracepoint block_bio_remap" in text


def test_buffered_reads_and_writes_of_a_stacked_device(stored: dict[str, Run]) -> None:
    run = stored["kernel"]
    case, member = run.case("stacked-buffered"), run.device("nvme1")
    check_whole(case)
    # 6.1 does not tell what a buffered read waits for, so calls have no links.
    assert chains(case) == {("dm-0", member): 101}
    query = "SELECT op, sum(size_bytes) FROM ops WHERE layer = 'block' AND device = 'dm-0' GROUP BY ALL"
    assert dict(rows(case, query))["write"] == 31 * 65536


def test_engine_on_a_stacked_device(stored: dict[str, Run]) -> None:
    case = stored["kernel"].case("stacked-engine")
    check_whole(case)
    counted = dict(rows(case, "SELECT layer, count(*) FROM ops GROUP BY ALL"))
    assert counted["app"] == 211
    query = f"""SELECT c.device, l.kind, count(DISTINCT l.parent_id) FROM '{case}/links/*.parquet' AS l
        JOIN ops AS c ON c.op_id = l.child_id WHERE l.parent_id >> 56 = 1 GROUP BY ALL"""
    assert rows(case, query) == [("dm-0", "waits_for", 211)]
    assert rows(case, "SELECT sum(unknown_ns) FROM ops WHERE layer = 'app'") == [(0,)]
    assert rows(case, "SELECT sum(device_ns) > 0 FROM ops WHERE layer = 'app'") == [(True,)]


def test_written_bytes_and_flush_are_seen(stored: dict[str, Run]) -> None:
    run = stored["kernel"]
    check_whole(run.case("writeback"))
    device = run.device("nvme2")
    query = f"SELECT op, sum(size_bytes) FROM ops WHERE layer = 'block' AND device = '{device}' GROUP BY ALL"
    assert dict(rows(run.case("writeback"), query)) == {"write": 31 * 65536, "flush": 0}


def events(case: Path, kind: str) -> list[tuple[str, str]]:
    """Subject and detail of the events of a kind, in the order of their times."""
    return rows(
        case, f"SELECT subject, detail FROM '{case}/events/*.parquet' WHERE kind = '{kind}' ORDER BY time_ns"
    )


def test_failed_commands_and_a_reset_controller(stored: dict[str, Run]) -> None:
    """The driver tries again up to five times. Requests tell of the last failure only, commands of all."""
    run = stored["errors"]
    case, drive = run.case("errors"), run.device("bad")
    check_whole(case)
    failed = events(case, "failed_command")
    assert {subject for subject, _ in failed} == {drive}
    assert all("0x281 unrecovered read error" in detail for _, detail in failed), failed
    retries = [int(detail.split("retry ")[1].split()[0]) for _, detail in failed]
    assert retries == [0, *range(6)]
    requests = f"SELECT sum(error != 0)::INT, count(*) FROM ops WHERE device = '{drive}' AND comm = 'dd'"
    assert rows(case, requests) == [(1, 2 * 101 + 2)]
    assert [subject for subject, _ in events(case, "error")] == [drive]
    # The controller's queues are made anew; whoever asked for that did not give the commands itself.
    controller = drive.split("n1")[0]
    assert [subject for subject, _ in events(case, "reset")] == [drive]
    admin = events(case, "admin_command")
    assert {subject for subject, _ in admin} == {controller}
    names = [detail.split()[4] for _, detail in admin if detail.startswith("duration_ns")]
    for name in ("identify", "create_completion_queue", "create_submission_queue"):
        assert name in names, admin
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    assert meta["probes"]["nvme"]["lost"] == 0


#: fsyncs of a file that grew, and what not_observed says where nobody sees what they wait for.
SYNCS = 17
JOURNALS = {
    "ext4": "commits of jbd2 journals (ext4)",
    "xfs": "waits for the log of xfs",
    "btrfs": "commits of btrfs",
}


def intervals(case: Path, kind: str) -> list[tuple[int, int]]:
    """Begin and end of the events of a kind that say who it was."""
    found = rows(
        case,
        f"SELECT time_ns, detail FROM '{case}/events/*.parquet' WHERE kind = '{kind}' AND detail LIKE '%by %' ORDER BY 1",
    )
    lasted = [int(re.search(r"duration_ns (\d+)|$", detail)[1] or 0) for _, detail in found]  # type: ignore[index]
    return [(time_ns, time_ns + ns) for (time_ns, _), ns in zip(found, lasted, strict=True)]


@pytest.mark.parametrize("name", ["late", "ext4", "xfs", "btrfs"])
def test_journals_of_modules(journals: dict[str, Run], name: str) -> None:
    """On this kernel the file systems are modules; in `late` ext4 and jbd2 are loaded while it is recorded."""
    scenario = "logs" if name in ("xfs", "btrfs") else "journals"
    case, kind = journals[scenario].case(name), "ext4" if name == "late" else name
    check_whole(case)
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    assert JOURNALS[kind] not in [fact["what"] for fact in meta["not_observed"]]
    assert meta["probes"]["writeback"]["counts"]["modules_late"] == (2 if name == "late" else 0)
    syncs = rows(
        case, f"SELECT detail FROM '{case}/events/*.parquet' WHERE kind = 'fsync' AND detail LIKE '%by dd%'"
    )
    assert len(syncs) == SYNCS
    if kind == "xfs":
        assert len(intervals(case, "log_force")) >= SYNCS
    if kind == "btrfs":
        assert rows(
            case, f"SELECT count(*) > 0 FROM '{case}/events/*.parquet' WHERE kind = 'tree_commit'"
        ) == [(True,)]
    if kind != "ext4":
        return
    commits = intervals(case, "journal_commit")
    assert SYNCS <= len(commits) <= SYNCS + 3
    for begin, end in intervals(case, "fsync"):
        assert any(begin <= commit[0] and commit[1] <= end for commit in commits)
    for part in ("locking", "flushing", "logging"):
        assert len(intervals(case, f"journal_commit_{part}")) == len(commits)
    logged = rows(
        case,
        f"SELECT count(*) FROM '{case}/events/*.parquet' WHERE kind = 'journal_commit' AND detail LIKE '% bytes %transaction %'",
    )
    assert logged[0][0] >= SYNCS
    # A sync waits for the requests of the journal's thread.
    linked = rows(
        case,
        f"""SELECT count(DISTINCT parent.op_id) FROM '{case}/links/*.parquet' AS l
        JOIN ops AS parent ON parent.op_id = l.parent_id JOIN ops AS child ON child.op_id = l.child_id
        WHERE parent.layer = 'syscall' AND parent.op = 'sync' AND child.comm LIKE 'jbd2/%'""",
    )
    assert linked == [(SYNCS,)]


@pytest.mark.parametrize("level", ["raid0", "raid5"])
def test_throttled_member_of_an_array(stored: dict[str, Run], level: str) -> None:
    run = stored["raid"]
    slow = run.device("nvme2")
    for phase in ("healthy", "sick"):
        case = run.case(f"{level}-{phase}")
        check_whole(case)
        # 256 KiB on 64 KiB chunks are four requests: one per member (raid0), or over all members in turn (raid5).
        reads = run.load(f"{level}-{phase}")[0]["reads"]
        counted = reads_per_device(case)
        members = {run.device(f"nvme{number}") for number in range(4)}
        if level == "raid0":
            assert {name: counted[name] for name in members} == dict.fromkeys(members, reads)
        else:
            assert sum(counted[name] for name in members) == 4 * reads
        volume = f"md{level[-1]}"
        assert counted[volume] == reads, "one row of the volume for each read"
        links = chains(case)
        assert links[("call", volume)] == reads
        # Reads of whole chunks go past raid5's stripes, so both are tied one to one.
        assert sum(links[(volume, name)] for name in members) == 4 * reads
        check_volume(case, volume)
    sick = run.case(f"{level}-sick")
    typical = {name: at for name, at in typical_us(sick, "latency_ns").items() if name in members}
    assert max(typical, key=lambda name: typical[name]) == slow
    assert to_peers(typical, slow) > 4
    healthy = typical_us(run.case(f"{level}-healthy"), "latency_ns")
    assert to_peers({name: healthy[name] for name in members}, slow) < 3
    in_device = typical_us(sick, "device_ns")[slow] / typical_us(sick, "latency_ns")[slow]
    assert in_device > 0.8, "the excess sits in the drive"


def test_cpu_limit_shows_between_the_reads(stored: dict[str, Run]) -> None:
    run = stored["cpu"]
    silences = {}
    for phase in ("healthy", "sick"):
        case = run.case(phase)
        check_whole(case)
        assert reads_per_device(case)[run.device("nvme0")] == run.load(phase)[0]["reads"]
        query = """
            WITH reads AS (SELECT start_ns - lag(start_ns + latency_ns) OVER (ORDER BY start_ns) AS silent_ns
                           FROM ops WHERE layer = 'block' AND comm = 'load')
            SELECT count(*) FROM reads WHERE silent_ns > 50000000"""
        silences[phase] = rows(case, query)[0][0]
    # 20 ms of CPU in every 100 ms: one silence of about 80 ms in each.
    assert silences["sick"] >= 8
    assert silences["healthy"] <= 2
    assert typical_us(run.case("sick"), "latency_ns")[run.device("nvme0")] < 10_000


def test_slow_handler_on_a_shared_line(shared_line: Run) -> None:
    victim = shared_line.device("nvme0")
    for phase in ("healthy", "sick"):
        check_whole(shared_line.case(phase))
        counted = reads_per_device(shared_line.case(phase))
        wanted = {Path(reader["path"]).name: reader["reads"] for reader in shared_line.load(phase)}
        assert wanted == {shared_line.device(f"nvme{number}"): 307 for number in range(4)}
        assert counted == wanted
    assert 0.7 < to_peers(typical_us(shared_line.case("healthy"), "latency_ns"), victim) < 1.5
    sick = shared_line.case("sick")
    assert to_peers(typical_us(sick, "latency_ns"), victim) > 4
    whole = typical_us(sick, "latency_ns")
    excess_us = whole[victim] - median(value for name, value in whole.items() if name != victim)
    stage = typical_us(sick, "interrupt_ns")
    in_interrupt_us = stage[victim] - median(value for name, value in stage.items() if name != victim)
    assert in_interrupt_us > 0.8 * excess_us, "the excess sits in the interrupt, not in the drive"
    vectors = dict(rows(sick, "SELECT device, min(vector) FROM ops WHERE layer = 'block' GROUP BY ALL"))
    foreign = "SELECT avg(foreign_handler_ns) / 1e3 FROM ops WHERE layer = 'block' AND comm = 'load'"
    [(foreign_us,)] = rows(sick, f"{foreign} AND device = '{victim}'")
    assert foreign_us > 0.8 * in_interrupt_us, "it is the other handler's time"
    handlers = json.loads((sick / "system.json").read_text(encoding="utf-8"))["irqs"]
    assert "slowisr" in handlers[str(vectors[victim])][0]


def test_reads_larger_than_the_readahead(hdd: Run) -> None:
    requests_per_read = {}
    typical_ns = {}
    for phase, max_sectors_kb in (("max-sectors-1280", "1280"), ("max-sectors-128", "128")):
        case = hdd.case(phase)
        check_whole(case)
        queue = json.loads((case / "system.json").read_text(encoding="utf-8"))["devices"][hdd.device("hdd")][
            "queue"
        ]
        assert (queue["read_ahead_kb"], queue["max_sectors_kb"]) == ("128", max_sectors_kb)
        readers = hdd.load(phase)
        assert [reader["reads"] for reader in readers] == [151, 151]
        requests_per_read[phase] = reads_per_device(case)[hdd.device("hdd")] / 302
        typical_ns[phase] = median(reader["p50_ns"] for reader in readers)
    assert 1 <= requests_per_read["max-sectors-1280"] < 1.2, (
        "a request may be as large as the read: nothing is wrong"
    )
    assert 2.5 < requests_per_read["max-sectors-128"] < 3.5, "the rest of each read is a request of its own"
    assert typical_ns["max-sectors-128"] > 1.5 * typical_ns["max-sectors-1280"]


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_the_fault_is_named_and_nobody_without_it(
    name: str, stored: dict[str, Run], shared_line: Run, hdd: Run
) -> None:
    fault = FAULTS[name]
    run = {**stored, "irq": shared_line, "readahead": hdd}[fault.scenario]
    sick, healthy = solve(run.case(fault.case)), solve(run.case(fault.control))
    assert sick.findings, sick.observed
    assert fault.is_named(run, sick.findings[0].culprit), [f.claim for f in sick.findings]
    assert healthy.findings == [], [f.claim for f in healthy.findings]
