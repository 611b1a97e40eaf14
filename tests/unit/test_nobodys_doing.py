"""What stands apart for reasons that are nobody's fault, and how that is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.detectors.written_before import written_before
from whodisk.evidence.survey import survey_layer
from whodisk.findings import Verdict
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

US, MS = 1_000, 1_000_000
OPENS = 4_000


def opens(path: Path, cause: str, device: str = "", errors_of: str = "") -> Path:
    """Opens of 20 us, three of which sleep for 60 ms in `cause`; errors of a device, perhaps."""
    rng = np.random.default_rng(2)
    latency = (20 * US * np.exp(rng.normal(0, 0.1, OPENS))).astype(np.int64)
    held = np.array([700, 1_900, 3_100])
    latency[held] = 60 * MS
    start = np.cumsum(latency + 200 * US) - latency
    common: dict[str, Any] = {"pid": 40, "tid": 40, "comm": "java"}
    calls = common | {
        "op_id": SYSCALL_ID_BASE | np.arange(OPENS),
        "start_ns": start,
        "latency_ns": latency,
        "op": "open",
        "fs_ns": latency,
        **({"device": device} if device else {}),
    }
    waits = [
        common | {"cpu": 0, "start_ns": at, "duration_ns": 60 * MS, "state": "blocked", "cause": cause}
        for at in start[held].tolist()
    ]
    tables: dict[str, Any] = {"waits": waits}
    if errors_of:
        tables["events"] = [
            {"time_ns": int(at), "kind": "error", "subject": errors_of, "detail": "EIO"}
            for at in start[[500, 1500]]
        ]
    # One request of each disk, so that they are known.
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(2),
        "start_ns": start[:2],
        "latency_ns": 100 * US,
        "op": "read",
        "device": ["sda", "sdb"],
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": 100 * US,
        "interrupt_ns": 0,
        "comm": ["java", "other"],
        "pid": [40, 90],
        "tid": [40, 90],
    }
    return write_case(
        path,
        syscall=calls,
        block=block,
        tables=tables,
        meta={"observer": "record", "command": ["java"], "duration_ns": int(start[-1]) + MS},
        system={"devices": {"sda": {}, "sdb": {}}},
    )


def accused(verdict: Verdict) -> list[tuple[str, str]]:
    return [(finding.culprit.kind, finding.culprit.name) for finding in verdict.findings]


def test_a_table_of_files_that_grows_is_nobodys_fault(tmp_path: Path) -> None:
    verdict = solve(opens(tmp_path / "x.case", "synchronize_rcu_normal"))
    assert accused(verdict) == []
    assert any("RCU" in line for line in verdict.minor)
    # The recorder had no part in it, and is not named.
    assert not verdict.summary[0].startswith("Healthy, but for operations that the recorder held up")


def test_another_sleep_is_still_told(tmp_path: Path) -> None:
    assert accused(solve(opens(tmp_path / "x.case", "xlog_grant_head_wait"))) == [("stage", "fs")]


@pytest.mark.parametrize(("device", "said_first"), [("sdb", False), ("sda", True)])
def test_errors_of_a_disk_that_nobody_judged_uses_are_not_the_headline(
    tmp_path: Path, device: str, said_first: bool
) -> None:
    verdict = solve(opens(tmp_path / "x.case", "synchronize_rcu_normal", "sda", device))
    assert verdict.summary[0].startswith("Look at a device") is said_first
    assert said_first or any(
        f"{device} had 2 errors; nothing that is judged here uses it" in line for line in verdict.minor
    )


@pytest.mark.parametrize(
    ("cause", "wrote"), [("synchronize_rcu_normal", False), ("do_get_write_access", True)]
)
def test_what_is_written_meanwhile_holds_nobody_who_sleeps_for_something_else(
    tmp_path: Path, cause: str, wrote: bool
) -> None:
    """A call of 100 ms beside 50 writes of its own program, one after the other."""
    begin = np.arange(50) * 2 * MS
    common: dict[str, Any] = {"pid": 40, "tid": 40, "comm": "java", "device": "sda"}
    calls = common | {
        "op_id": SYSCALL_ID_BASE | np.arange(2),
        "start_ns": np.array([0, 200 * MS]),
        "latency_ns": np.array([100 * MS, MS]),
        "op": "open",
        "fs_ns": np.array([100 * MS, MS]),
    }
    block = common | {
        "op_id": BLOCK_ID_BASE | np.arange(50),
        "start_ns": begin,
        "latency_ns": 2 * MS,
        "op": "write",
        "size_bytes": 65536,
        "queue_ns": 0,
        "device_ns": 2 * MS,
        "interrupt_ns": 0,
    }
    sleep = {"pid": 40, "tid": 40, "comm": "java", "cpu": 0, "start_ns": 0, "duration_ns": 99 * MS}
    waits = [sleep | {"state": "blocked", "cause": cause}]
    path = write_case(
        tmp_path / "x.case",
        syscall=calls,
        block=block,
        tables={"waits": waits},
        meta={"duration_ns": 300 * MS},
    )
    with Case(path) as case:
        survey = survey_layer(case, "syscall")
        context: Any = SimpleNamespace(
            case=case,
            layer="syscall",
            survey=survey,
            surveys={"syscall": survey, "block": survey_layer(case, "block")},
            other_writers=[],
            own_programs=(["java"], [40]),
        )
        at = np.array([40]), np.array([0]), np.array([100 * MS])
        assert written_before(context, *at).tolist() == [wrote]
