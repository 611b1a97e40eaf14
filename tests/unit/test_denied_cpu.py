"""What a busy program is denied of the CPUs counts as a whole, wherever in it that was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.evidence.denied_cpu import denied_cpu
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case

MS = 1_000_000
ROUNDS = 500


def two_threads(
    path: Path, ran_ms: float, cpus: int, cause: str = "md5sum", cause_pid: int | None = None
) -> Path:
    """Each round of 20 ms two threads on CPU 0 run for `ran_ms`, wait 4 ms for md5sum at the same time (in the second half of the run) and sleep for the rest."""
    waits: list[dict[str, Any]] = []
    for tid in (50, 51):
        for number in range(ROUNDS):
            begin = number * 20.0
            behind = 4.0 if number >= ROUNDS // 2 else 0.0
            base = {"tid": tid, "pid": 50, "comm": "build", "cpu": 0, "cause_pid": cause_pid}
            if behind:
                waits.append(
                    base
                    | {
                        "start_ns": int((begin + ran_ms) * MS),
                        "duration_ns": int(behind * MS),
                        "state": "runnable",
                        "cause": cause,
                    }
                )
            asleep = 20.0 - ran_ms - behind
            waits.append(
                base
                | {
                    "start_ns": int((begin + ran_ms + behind) * MS),
                    "duration_ns": int(asleep * MS),
                    "state": "blocked",
                    "cause": "futex_do_wait",
                }
            )
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(ROUNDS),
        "start_ns": np.arange(ROUNDS) * 20 * MS,
        "latency_ns": MS // 10,
        "op": "write",
        "fs_ns": MS // 10,
        "pid": 50,
        "tid": 50,
        "comm": "build",
    }
    return write_case(
        path,
        syscall=calls,
        tables={"waits": waits},
        meta={"observer": "record", "command": ["build"], "duration_ns": ROUNDS * 20 * MS},
        system={"cpus": cpus},
    )


@pytest.mark.parametrize(
    ("ran_ms", "cpus", "share"),
    [
        # 4 ms, once for both, of what they got (16 ms) and these, in half of the run.
        (8.0, 1, 4 * 0.5 / (16 + 4 * 0.5)),
        # On a machine of four CPUs they ask for a quarter, and of one with little to do it is no measure.
        (8.0, 4, None),
        (0.5, 1, None),
    ],
)
def test_what_is_denied_is_a_part_of_what_was_asked_for(
    tmp_path: Path, ran_ms: float, cpus: int, share: float | None
) -> None:
    with Case(two_threads(tmp_path / "x.case", ran_ms, cpus)) as case:
        context: Any = SimpleNamespace(
            case=case, layer="syscall", survey=survey_layer(case, "syscall"), own_programs=(["build"], [50])
        )
        held = denied_cpu(context, "cause = 'md5sum'")
    if share is None:
        assert held is None
    else:
        assert held is not None and held.share == pytest.approx(share, rel=0.05)
        assert held.windows == 1 and held.count == ROUNDS


def test_what_its_own_threads_had_is_not_denied(tmp_path: Path) -> None:
    """Where a whole machine was recorded, a program may wait for a CPU behind the very one that is looked at: itself."""
    with Case(two_threads(tmp_path / "x.case", 8.0, 1, "build", 50)) as case:
        context: Any = SimpleNamespace(
            case=case, layer="syscall", survey=survey_layer(case, "syscall"), own_programs=(["build"], [50])
        )
        assert denied_cpu(context, "cause = 'build'") is None


@pytest.mark.parametrize(("with_others", "known"), [(False, False), (True, True)])
def test_a_program_that_shares_the_cpus_with_its_client_asks_for_less(
    with_others: bool, known: bool, tmp_path: Path
) -> None:
    """Two threads run for 4 of 20 ms each and wait for 4 behind another program: 12 of the 40 ms that two CPUs have."""
    with Case(two_threads(tmp_path / "x.case", 4.0, 2)) as case:
        context: Any = SimpleNamespace(
            case=case, layer="syscall", survey=survey_layer(case, "syscall"), own_programs=(["build"], [50])
        )
        held = denied_cpu(context, "cause = 'md5sum'", with_others=with_others)
    assert (held is not None) == known
