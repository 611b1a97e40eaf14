"""`record` with a scope, and the flight recorder: what the command line makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.accuracy.host import slowdisk
from tests.e2e.conftest import Run, meta

#: Reads block 0 of a disk, on which that takes long, once among many others.
READER = """
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
memory = mmap.mmap(-1, 4096)
for number in range(1200):
    os.preadv(fd, [memory], 4096 * (0 if number == 900 else 1 + number % 500))
    time.sleep(0.002)
"""


@pytest.mark.root
def test_a_slow_read_makes_one_sealed_case(whodisk: Run, work: Path) -> None:
    (work / "reader.py").write_text(READER)
    with slowdisk("read constant 600ms offset 0..4KiB", seed=1, size="16MiB") as device:
        trigger = f"latency > 400ms and op == read and device == {device}"
        done = whodisk(
            *("record", "--ring", "10s", "--after", "500ms", "--trigger", trigger, "-o", "incidents"),
            *("--json", "--", sys.executable, "reader.py", device),
        )
    assert "256 MiB" in done.stderr
    told = json.loads(done.stdout)
    assert len(told["cases"]) == 1, told
    case = work / told["cases"][0]
    assert meta(case)["state"] == "sealed"
    whodisk("verify", case)
    servers = json.loads((case / "system.json").read_text(encoding="utf-8"))["servers"]
    assert device.name in {served for all_of_one in servers.values() for served in all_of_one}, servers
    tables = duckdb.connect()
    events = tables.execute(f"SELECT subject, detail FROM '{case}/events/*.parquet' WHERE kind = 'trigger'")
    first = events.fetchall()[0]
    assert "read" in first[0] and "latency > 400ms" in first[1]
    slow, before = tables.execute(f"""
        SELECT count(*) FILTER (WHERE latency_ns > 400e6), count(*) FILTER (WHERE latency_ns < 400e6)
        FROM '{case}/ops/layer=syscall/*.parquet' WHERE op = 'read' AND size_bytes = 4096""").fetchall()[0]
    assert slow == 1 and before > 700
    fired = meta(case)["fired"][0]
    assert (fired["op"], fired["device"], fired["limit_ns"]) == ("read", device.name, 400_000_000)
    assert fired["time_ns"] > 400e6
    # The verdict begins with the operation that fired.
    verdict = json.loads(whodisk("solve", case, "--json").stdout)
    assert verdict["findings"][0]["answers"] == "trigger", verdict["summary"]
    assert verdict["status"] in ("slow", "outliers")
    assert len(verdict["fired"]) >= 1 and device.name in verdict["fired"][0]


@pytest.mark.root
def test_a_scope_is_in_the_case_and_in_the_verdict(whodisk: Run, work: Path) -> None:
    (work / "data").write_bytes(os.urandom(1 << 20))
    subprocess.run(["sync", "data"], cwd=work, check=True)
    dd = ["dd", "if=data", "of=/dev/null", "bs=4k", "iflag=direct"]
    whodisk("record", "-o", "a.case", "--path", work / "data", "--", *dd)
    case = work / "a.case"
    assert meta(case)["scope"]["paths"] == [str(work / "data")]
    assert meta(case)["probes"]["syscall"]["out_of_scope"] > 0
    whodisk("verify", case)
    rows = (
        duckdb.connect()
        .execute(f"""SELECT count(*), count(DISTINCT file)
        FROM '{case}/ops/layer=syscall/*.parquet' WHERE op = 'read'""")
        .fetchall()[0]
    )
    # 256 blocks, and the read that finds the end.
    assert rows == (257, 1)
    verdict = json.loads(whodisk("solve", case, "--json").stdout)
    words = [each["what"] for each in verdict["cannot_exclude"]]
    assert any("scope" in word for word in words), words


def test_wrong_triggers_and_scopes_say_what_is_expected(whodisk: Run) -> None:
    wrong = {
        ("--ring", "3s", "--trigger", "latency > 50"): "with its unit",
        ("--ring", "3s", "--trigger", "latency > 50ms and op == reed"): "one of read, write",
        ("--ring", "3s"): "--trigger",
        ("--trigger", "age > 1s"): "--ring",
        ("--pid", "0"): "--pid",
        ("--all", "--pid", "1"): "cannot be used with",
    }
    for arguments, words in wrong.items():
        assert words in whodisk("record", *arguments, code=2).stderr, arguments
