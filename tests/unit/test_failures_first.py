"""What storage refused to do is the first sentence of a verdict that accuses nobody; what a program asked for in vain is not."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, write_case
from whodisk.findings import Verdict
from whodisk.report import brief
from whodisk.verdict.ended import ended_said
from whodisk.verdict.solve import solve

COUNT = 3000
MOUNTS = {
    "/": ["/dev/sda1", "ext4", "rw"],
    "/srv": ["/dev/sdb", "xfs", "rw"],
    "/srv/mail": ["/dev/sdc", "ext4", "rw"],
}


def judged(
    path: Path, number: int, failed: int, longest_ns: int = 0, file: str | None = "/srv/log"
) -> Verdict:
    """Writes of 300 us, now and then; the last of them fail, and of the others one may take far longer."""
    return solve(write_case(path, app=writes(number, failed, longest_ns, file), system={"mounts": MOUNTS}))


def writes(number: int, failed: int, longest_ns: int = 0, file: str | None = "/srv/log") -> dict[str, object]:
    """The columns of these."""
    rng = np.random.default_rng(31)
    latency = (300_000 * np.exp(rng.normal(0, 0.1, COUNT))).astype(np.int64)
    latency[500] += longest_ns
    error = np.zeros(COUNT, np.int64)
    error[COUNT - failed :] = number
    return {
        "op_id": APP_ID_BASE | np.arange(COUNT),
        "start_ns": np.cumsum(latency + rng.exponential(900_000, COUNT).astype(np.int64)) - latency,
        "latency_ns": latency,
        "fs_ns": latency,
        "app_ns": 0,
        "op": "write",
        "size_bytes": 512,
        "file": file,
        "tid": 9,
        "pid": 9,
        "comm": "db",
        "error": error,
    }


@pytest.mark.parametrize(
    ("number", "said", "todo"),
    [
        (errno.ENOSPC, "ENOSPC: the file system /srv is full.", "Make room on /srv"),
        (errno.EDQUOT, "EDQUOT: a quota on the file system /srv is used up.", "Raise the quota on /srv"),
        (errno.EROFS, "EROFS: the file system /srv is read-only.", "Find out why /srv is read-only"),
        (errno.EIO, "EIO: the storage below the file system /srv could not do it.", "Read the kernel's log"),
    ],
)
def test_what_somebody_has_to_mend_comes_first(tmp_path: Path, number: int, said: str, todo: str) -> None:
    verdict = judged(tmp_path / "case", number, 700)
    assert verdict.status == "healthy"
    assert verdict.summary[0] == f"No operation is slow, but 700 of 3,000 writes failed with {said}"
    assert verdict.next_steps[0].startswith(todo)
    assert verdict.failed == verdict.failed_first == [f"700 writes failed with {errno.errorcode[number]}."]
    # It is said once, and is neither small nor rare.
    assert not set(verdict.failed) & {*verdict.summary, *verdict.minor}
    screen = [line.plain for line in brief.lines(verdict, 100)]
    assert any(line.startswith(f"Next: {todo}") for line in screen)
    assert not any(line.startswith("Failed: ") for line in screen)


def test_it_comes_before_outliers(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "case", errno.ENOSPC, 1, longest_ns=30_000_000)
    assert verdict.status == "outliers"
    first = "1 of 3,000 writes failed with ENOSPC: the file system /srv is full. Apart from that nearly all is well, but "
    assert verdict.summary[0].startswith(first)
    assert verdict.next_steps[0].startswith("Make room on /srv")
    assert any(line.plain.startswith("Next: Make room") for line in brief.lines(verdict, 100))


def test_where_no_file_is_known_none_is_named(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "case", errno.ENOSPC, 700, file=None)
    assert verdict.summary[0].endswith("failed with ENOSPC: the file system is full.")


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EPERM])
def test_what_a_program_asked_for_in_vain_does_not(tmp_path: Path, number: int) -> None:
    verdict = judged(tmp_path / "case", number, 700)
    assert verdict.summary[0] == "Healthy: no operation stands out."
    assert not verdict.failed_first and not verdict.next_steps
    assert verdict.failed[0] in verdict.minor


def test_a_copy_that_the_kernel_does_not_make_is_made_by_the_program(tmp_path: Path) -> None:
    """copy_file_range between two file systems: cp reads and writes instead, and nothing failed."""
    columns = writes(errno.EXDEV, 3)
    columns["op"] = np.where(np.asarray(columns["error"]) == errno.EXDEV, "copy", "write")
    verdict = solve(write_case(tmp_path / "case", app=columns, system={"mounts": MOUNTS}))
    assert not verdict.failed


def test_a_culprit_comes_before_it(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "case", errno.ENOSPC, 700, longest_ns=900_000_000)
    assert verdict.status == "slow" and verdict.summary[0].startswith("Slow: ")
    assert not verdict.failed_first and verdict.failed[0] in verdict.summary


def turned(
    path: Path,
    number: int,
    failed: int,
    options: str = "ro,relatime",
    events: list[str] | None = None,
    source: str = "/dev/sdb",
) -> Verdict:
    """The same writes to a file system that could be written to when the recording began, and no longer when it ended."""
    mounts = {"/": ["/dev/sda1", "ext4", "rw"], "/srv": [source, "ext4", "rw,relatime"]}
    devices = {
        "sda": {"name": "sda", "facts": {"partitions": "sda1"}},
        "sdb": {"name": "sdb", "facts": {}},
        "sdc": {"name": "sdc", "facts": {"partitions": "sdc1"}},
        "dm-0": {"name": "dm-0", "facts": {"dm_name": "vg0-data", "members": "sdc1"}},
    }
    system = {
        "mounts": mounts,
        "devices": devices,
        "changes": [f"/srv was mounted anew with {source} ext4 {options}"],
    }
    told = [
        {"time_ns": 10_000_000, "kind": "error", "subject": subject, "detail": "errno 5"}
        for subject in events or []
    ]
    meta = {"command": ["db"], "command_status": "exit 1"}
    return solve(write_case(path, app=writes(number, failed), system=system, events=told, meta=meta))


@pytest.mark.parametrize("options", ["ro,relatime", "rw,relatime,emergency_ro"])
def test_a_file_system_that_errors_made_read_only_comes_first(tmp_path: Path, options: str) -> None:
    verdict = turned(tmp_path / "case", errno.EIO, 3, options, ["sdb"])
    first = "The file system /srv became read-only during the recording: sdb had 1 error and 3 writes failed with EIO."
    assert verdict.summary[0].startswith(first)
    assert verdict.next_steps[0].startswith("Save what can be read from /srv")
    assert not any("cost no time" in step for step in verdict.next_steps)
    assert "Look at a device" not in verdict.summary[0]
    screen = " ".join(line.plain for line in brief.lines(verdict, 100))
    assert "The command ended with exit 1." in screen
    assert verdict.ended == "The command ended with exit 1." and verdict.ended in verdict.summary


def test_so_does_one_where_only_the_device_had_errors_or_only_calls_failed(tmp_path: Path) -> None:
    device = turned(tmp_path / "device", errno.EIO, 0, events=["sdb", "sdb"])
    assert device.summary[0].startswith(
        "The file system /srv became read-only during the recording: sdb had 2 errors."
    )
    calls = turned(tmp_path / "calls", errno.EROFS, 700)
    assert calls.summary[0].startswith(
        "The file system /srv became read-only during the recording: 700 writes failed with EROFS."
    )
    assert calls.next_steps[0] == "Read the kernel's log (dmesg): it says why /srv became read-only."


def test_somebody_who_mounts_it_read_only_is_accused_by_nothing(tmp_path: Path) -> None:
    verdict = turned(tmp_path / "case", errno.EIO, 0)
    assert verdict.summary[0] == "Healthy: no operation stands out."
    assert not verdict.failed and not verdict.failed_first
    # Nor do errors of another disk.
    other = turned(tmp_path / "other", errno.EIO, 0, events=["sda"])
    assert other.summary[0].startswith("Look at a device: sda had 1 error.")
    # Nor one that was read-only before, nor another file system in its place.
    again = turned(tmp_path / "again", errno.EIO, 0, options="rw,noatime", events=["sdb"])
    assert again.summary[0].startswith("Look at a device: sdb had 1 error.")


def test_calls_that_failed_tell_the_errors_of_their_device(tmp_path: Path) -> None:
    verdict = turned(tmp_path / "case", errno.EIO, 3, options="rw,noatime", events=["sdb"])
    first = "3 of 3,000 writes failed with EIO: the storage below the file system /srv could not do it (sdb had 1 error)."
    assert verdict.summary[0] == f"No operation is slow, but {first}"


def test_a_volume_is_what_it_is_made_of(tmp_path: Path) -> None:
    on_volume = turned(tmp_path / "case", errno.EIO, 0, events=["sdc"], source="/dev/mapper/vg0-data")
    assert "became read-only during the recording: sdc had 1 error." in on_volume.summary[0]
    other = turned(tmp_path / "other", errno.EIO, 0, events=["sdb"], source="/dev/mapper/vg0-data")
    assert "read-only" not in other.summary[0]


def test_a_file_system_that_is_lost_is_among_what_failed(tmp_path: Path) -> None:
    verdict = turned(tmp_path / "case", errno.EIO, 700, events=["sdb"])
    assert verdict.failed[0] == verdict.failed_first[0] == f"{verdict.summary[0].split(' Apart', 1)[0]}"


@pytest.mark.parametrize(
    ("status", "argv", "command", "said"),
    [
        ("exit 0", [], ["db"], ""),
        (None, [], ["db"], ""),
        ("unknown", [], ["db"], ""),
        ("exit 2", [], [], ""),
        ("exit 2", [], ["db"], "The command ended with exit 2."),
        ("exit 124", [], ["db"], "The command ended with exit 124."),
        (
            "exit 124",
            [],
            ["/usr/bin/timeout", "9", "db"],
            "The command ended with exit 124: timeout stopped it.",
        ),
        ("signal 11", [], ["db"], "The command was ended by SIGSEGV (signal 11)."),
        (
            "signal 15",
            ["record", "--", "db", "--duration"],
            ["db"],
            "The command was ended by SIGTERM (signal 15).",
        ),
        ("signal 15", ["record", "--duration", "9s", "--", "db"], ["db"], ""),
        (
            "signal 9",
            [],
            ["db"],
            "The command was ended by SIGKILL (signal 9). The kernel sends it when memory runs out (`dmesg | grep -i oom`).",
        ),
        ("signal 9", ["solve", "--duration=9s", "--", "db"], ["db"], ""),
        ("signal 2", ["record", "--", "db"], ["db"], ""),
    ],
)
def test_how_the_command_ended_is_told_where_it_was_not_well(
    status: str | None, argv: list[str], command: list[str], said: str
) -> None:
    assert ended_said({"command_status": status, "argv": argv, "command": command}) == said


def test_how_it_ended_is_told_without_a_verdict_too(tmp_path: Path) -> None:
    calls = {
        name: values if np.isscalar(values) or values is None else np.asarray(values)[:20]
        for name, values in writes(0, 0).items()
    }
    meta = {"command": ["db"], "command_status": "signal 11"}
    verdict = solve(write_case(tmp_path / "case", app=calls, meta=meta))
    assert verdict.status == "insufficient"
    assert any("ended by SIGSEGV" in line.plain for line in brief.lines(verdict, 100))


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        ((0, 0), "The command was ended by SIGKILL (signal 9)."),
        (
            (0, 2),
            "The command was ended by SIGKILL (signal 9). Memory ran out, of the machine or of a control group: the kernel killed 2 processes meanwhile "
            "(`dmesg | grep -i oom` says which).",
        ),
    ],
)
def test_whether_memory_ran_out_is_told_where_the_kernel_counted(
    tmp_path: Path, counted: tuple[int, int], said: str
) -> None:
    """The counter's growth, as rates between the looks at it."""
    series = [
        {
            "time_ns": second * 1_000_000_000,
            "kind": "host",
            "subject": "host",
            "metric": "memory_kills_per_s",
            "value": float(killed),
        }
        for second, killed in enumerate(counted, start=1)
    ]
    meta = {"command": ["db"], "command_status": "signal 9"}
    verdict = solve(write_case(tmp_path / "case", app=writes(0, 0), tables={"series": series}, meta=meta))
    assert verdict.ended == said


def test_want_of_memory_is_told_where_the_command_ended_well() -> None:
    assert "killed 1 process meanwhile" in ended_said({"command_status": "exit 0", "command": ["db"]}, 1)
