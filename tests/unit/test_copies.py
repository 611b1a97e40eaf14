"""Specifications of copies, and what goes over the wire."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.copies import specification, wire
from whodisk.copies.specification import KEYS, parse
from whodisk.errors import WhodiskError
from whodisk.experiment import metrics, plan
from whodisk.verdict.solve import solve

EXAMPLES = Path(__file__).parents[2] / "examples"

LOCAL = {"method": "read_write", "source": "a", "destination": "b"}
SMB = LOCAL | {"method": "smb_odx", "server": "host", "share": "s"}


def test_units_and_defaults() -> None:
    spec = parse(SMB | {"block_size": "8.25MiB", "duration": "500ms", "rate": "40/s", "server": "h:44"}, "x")
    assert (spec.block_bytes, spec.duration_s, spec.rate_per_s, spec.port) == (8_650_752, 0.5, 40.0, 44)
    assert parse(SMB, "x").port == 445 and parse(LOCAL, "x").block_bytes == 1 << 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "teleport"}, "workload.method: expected read_write,"),
        ({"block_size": "1MB"}, "a number with a unit"),
        ({"block_size": "1KiB"}, "whole bytes from 4096"),
        ({"queue_depth": 0}, "a number from 1 to 64, found 0"),
        ({"queue_depth": True}, "found True"),
        ({"destination": "a"}, "another file than the source"),
        ({"server": "h"}, "needs no server"),
        ({"chunk_size": "1MiB"}, "smb_copychunk"),
        ({"password": "x"}, "workload.password: expected a key of a copy"),
        ({"verify": "yes"}, "true or false"),
        ({"method": "smb_odx"}, "workload.server: expected text, found none"),
    ],
)
def test_what_is_wrong_is_told(change: dict[str, Any], words: str) -> None:
    with pytest.raises(WhodiskError, match=r"^x: workload\.") as told:
        parse(LOCAL | change, "x")
    assert words in str(told.value)


def test_structures_are_those_of_the_documents() -> None:
    read = wire.offload_read_input(1, 2, 3)
    assert read == struct.pack("<IIIIQQ", 32, 0, 3, 0, 1, 2) and len(read) == 32
    token = struct.pack(">IHH", wire.ZERO_TOKEN, 0, 504) + bytes(504)
    assert len(wire.offload_write_input(0, 4096, token)) == 544
    answer = wire.offload_read_answer(struct.pack("<IIQ", 528, 1, 4096) + token)
    assert (answer.flags, answer.transfer_bytes, answer.is_zeros) == (wire.ALL_ZERO_BEYOND, 4096, True)
    assert wire.offload_write_answer(struct.pack("<IIQ", 16, 0, 7)) == 7
    assert len(wire.copychunk_input(bytes(24), [(0, 0, 1), (1, 1, 1)])) == 32 + 2 * 24


def test_answers_of_another_length_are_refused() -> None:
    with pytest.raises(wire.WireError, match="expected an answer of 528 bytes, the server sent 3"):
        wire.offload_read_answer(b"abc")
    with pytest.raises(wire.WireError, match="expected Size 528, the server sent 5"):
        wire.offload_read_answer(struct.pack("<I", 5) + bytes(524))


def test_the_experiment_compares_ways_on_one_server_and_delay() -> None:
    found = plan.read(EXAMPLES / "copies.toml")
    for arm in found.arms:
        server, way, *delay = arm.name.split()
        assert specification.parse(arm.table["workload"], arm.name).method == f"smb_{way}"
        assert arm.texts("setup") == [f"bash examples/copies.sh start {{disk}} {server}{' 1ms' * len(delay)}"]
        against = found.against(arm)
        assert against == (None if way == "read_write" else " ".join([server, "read_write", *delay]))
    # Samba has no offload.
    assert len(found.arms) == 10 and not any("samba odx" in arm.name for arm in found.arms)


def test_the_experiment_of_the_tail_sweeps_across_what_is_fetched_ahead() -> None:
    arms = {arm.name: arm for arm in plan.read(EXAMPLES / "copies-tail.toml").arms}
    blocks = {
        name: specification.parse(arm.table["workload"], name).block_bytes for name, arm in arms.items()
    }
    assert {blocks[name] >> 18 for name in ("6MiB", "8MiB", "8.25MiB", "9MiB")} == {24, 32, 33, 36}
    for name, arm in arms.items():
        # Each cure changes one thing of the arm that it is compared with.
        changed = [key for key in arm.table if arm.table[key] != arms["8.25MiB"].table.get(key)]
        ahead = name == "8.25MiB, 16MiB ahead"
        assert len(changed) == (0 if name == "8.25MiB" else 1 + ahead), (name, changed)


def start_up(path: Path, app: dict[str, Any] | None, workload: dict[str, Any]) -> Path:
    """What a client of Python reads in order to start, four files of which come slowly from a disk."""
    calls = np.arange(400)
    latency = np.where(calls % 100 == 50, 40_000_000, 8_000)
    syscall = {
        "op_id": SYSCALL_ID_BASE + calls,
        "start_ns": np.concatenate(([0], np.cumsum(latency + 5_000)[:-1])),
        "latency_ns": latency,
        "device_ns": latency - 8_000,
        "fs_ns": [8_000] * 400,
        "size_bytes": [4096] * 400,
        "device": ["nvme0n1"] * 400,
    }
    return write_case(path, app=app, syscall=syscall, meta={"workload": workload})


def test_the_start_of_a_copy_that_did_not_begin_is_not_judged(tmp_path: Path) -> None:
    about = {"program": "copy smb_odx", "outcome": {"complete": False, "why_not": "cannot connect: refused"}}
    verdict = solve(start_up(tmp_path / "copy", {}, about))
    assert (verdict.status, verdict.operations, verdict.findings) == ("insufficient", 0, [])
    said = ["No verdict. copy smb_odx did not begin, so there is nothing to judge."]
    said += ["Not all was done: cannot connect: refused.", "Mend that, and run it again."]
    assert verdict.summary == said
    # A program that has no log of its own is judged by its calls.
    assert solve(start_up(tmp_path / "program", None, {"program": "dd"})).operations == 400


def test_copied_is_a_metric_of_whole_copies() -> None:
    assert metrics.said(metrics.metric("copied"), 2.0 * (1 << 20)) == "2 MiB/s"
    with pytest.raises(WhodiskError):
        metrics.metric("read copied")


def test_the_reference_names_every_key() -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/copies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert rows == [(key.name, key.value, key.default, key.meaning) for key in KEYS], (
        "docs/how-to/copies.md is behind KEYS"
    )
