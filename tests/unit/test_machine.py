"""What the host is: threads of the kernel, by what the kernel says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ground_truth import guests
from ground_truth.guests import JUDGED, JUDGED_PID
from tests.synth import Simulation
from whodisk.evidence.recorder import is_recorder
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

THREADS = ["btrfs-cleaner", "jbd#/vda#-#", "kworker/#:#", "kworker/u#:#", "md#_raid#"]


def tell(case: Path, **facts: object) -> None:
    """Facts of the host that a recorder would have written."""
    path = case / "system.json"
    system = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(system | facts), encoding="utf-8")


def rename(case: Path, old: str, new: str) -> None:
    """Another name of a program, in every layer."""
    for path in sorted((case / "ops").glob("*/*.parquet")):
        table = pq.read_table(path)
        names = table["comm"].cast(pa.string())
        at = table.schema.get_field_index("comm")
        named = pc.if_else(pc.equal(names, old), new, names)
        pq.write_table(table.set_column(at, "comm", named), path)


@pytest.mark.parametrize(
    ("comm", "told", "usual"),
    [
        ("kworker/u8:3", True, True),
        ("kworker/12:1", True, True),
        ("jbd2/vda1-8", True, True),
        ("md0_raid5", True, True),
        ("btrfs-cleaner", True, True),
        ("btrfs-backup", False, True),
        ("flusher", False, True),
        ("swapper/1", True, True),
        ("iou-wrk-4711", True, True),
        ("iou-tracker", False, False),
        ("postgres", False, False),
    ],
)
def test_the_kernel_says_which_threads_are_its_own(
    comm: str, told: bool, usual: bool, tmp_path: Path
) -> None:
    old = Simulation(seed=1, seconds=0.01).write(tmp_path / "case")
    with Case(old) as case:
        assert is_kernel_thread(case, comm) is usual
    tell(old, kernel_threads=THREADS)
    with Case(old) as case:
        assert is_kernel_thread(case, comm) is told


@pytest.mark.parametrize(
    ("comm", "pid", "told", "usual"),
    [
        ("whodisk-rec", 78, True, True),
        ("whodisk-rec", None, True, True),
        ("whodisk-log", 79, True, True),
        ("whodisk-agent", 78, True, True),
        ("whodisk-agent", 90, False, True),
        ("engine-0", 79, False, False),
        ("postgres", 78, False, False),
    ],
)
def test_the_recorder_is_told_by_process_and_name(
    comm: str, pid: int | None, told: bool, usual: bool, tmp_path: Path
) -> None:
    old = Simulation(seed=1, seconds=0.01).write(tmp_path / "case")
    with Case(old) as case:
        assert is_recorder(case, comm, pid) is usual
    tell(old, recorder={"78": ["whodisk-agent", "whodisk-log", "whodisk-rec"], "79": ["whodisk-log"]})
    with Case(old) as case:
        assert is_recorder(case, comm, pid) is told


@pytest.mark.parametrize(("name", "accused"), [("btrfs-backup", True), ("btrfs-cleaner", False)])
def test_a_program_is_accused_whatever_its_name(name: str, accused: bool, tmp_path: Path) -> None:
    case = guests.steady_neighbour(2, tmp_path / "case")
    with Case(case) as opened:
        other = opened.rows("SELECT comm FROM block_ops WHERE comm <> 'reader' GROUP BY 1")
    rename(case, str(other[0]["comm"]), name)
    tell(case, kernel_threads=THREADS)
    assert (name in [finding.culprit.name for finding in solve(case).findings]) is accused


@pytest.mark.parametrize(
    ("pid", "accused"), [(JUDGED_PID, []), (JUDGED_PID + 1, [f"{JUDGED} (process {JUDGED_PID + 1})"])]
)
def test_another_process_of_the_same_name_is_another_program(
    pid: int, accused: list[str], tmp_path: Path
) -> None:
    case = guests.steady_neighbour(2, tmp_path / "case", pid)
    rename(case, "reporter", JUDGED)
    assert [finding.culprit.name for finding in solve(case).findings] == accused


def test_another_thread_of_the_judged_process_is_no_competitor(tmp_path: Path) -> None:
    case = guests.steady_neighbour(2, tmp_path / "case", JUDGED_PID)
    assert solve(case).findings == []
