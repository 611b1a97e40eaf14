"""The recorder on another kernel: what the agent records inside the machine is asserted on the sealed cases.

Time in an emulated machine means nothing by itself: phases of one boot are compared.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.vm.cases import (
    chains,
    check_named,
    check_volume,
    check_whole,
    events,
    reads_per_device,
    rows,
    typical_us,
)
from tests.vm.faults import Run

pytestmark = pytest.mark.vm


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
    requests = f"SELECT sum(error != 0)::INT, count(*) FROM ops WHERE layer = 'block' AND device = '{drive}' AND comm = 'dd'"
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
    # It wakes them when the commit is over. A drive's interrupt ends the journal's own sleeps, and is nobody.
    woken = rows(
        case,
        f"""SELECT waker, count(*) FROM '{case}/waits/*.parquet' WHERE comm = 'dd' AND state = 'blocked' AND waker LIKE 'jbd2/%'
        AND waker_tid = waker_pid AND duration_ns >= 100000 GROUP BY 1""",
    )
    assert len(woken) == 1 and 1 <= woken[0][1] <= SYNCS, woken


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
    check_named("cpu_limit", run)


def test_files_on_overlayfs_are_the_real_ones(journals: dict[str, Run]) -> None:
    """Each file's first read waits for requests of the disk below, and each sync is that disk's."""
    run = journals["overlay"]
    case, disk = run.case("overlay"), run.device("nvme3")
    check_whole(case)
    tied = rows(
        case,
        f"""SELECT p.op, count(DISTINCT p.file) FROM '{case}/links/*.parquet' AS l JOIN ops AS p ON p.op_id = l.parent_id JOIN ops AS c ON c.op_id = l.child_id
        WHERE p.layer = 'syscall' AND p.comm = 'dd' AND p.file LIKE '/merged/%' AND p.device = '{disk}' AND c.device = '{disk}' AND p.op IN ('read', 'sync') GROUP BY 1 ORDER BY 1""",
    )
    assert tied == [("read", 61), ("sync", 3)]


def test_a_flush_of_a_mirror_is_that_of_both_members(journals: dict[str, Run]) -> None:
    run = journals["mirror"]
    case = run.case("mirror")
    check_whole(case)
    tied = rows(
        case,
        f"""SELECT c.device, p.size_bytes > 0, count(*) FROM '{case}/links/*.parquet' AS l JOIN ops AS p ON p.op_id = l.parent_id JOIN ops AS c ON c.op_id = l.child_id
        WHERE l.kind = 'stacked' AND p.comm = 'load' AND p.op = 'write' GROUP BY ALL""",
    )
    members = (run.device("nvme1"), run.device("nvme2"))
    assert sorted(tied) == sorted((member, data, 53) for member in members for data in (False, True))
