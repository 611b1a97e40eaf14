"""`whodisk watch` says what fio says, and serves it."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.host import memory_device
from tests.e2e.conftest import WHODISK, Run, started

pytestmark = pytest.mark.root

LINE = re.compile(r'^(whodisk_\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)+)\} (\d+(?:\.\d+)?)$')


@pytest.fixture
def device() -> Iterator[Path]:
    """A loop device over a file in memory: nobody else reads it."""
    with memory_device() as path:
        yield path


@contextmanager
def watching(*options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A `whodisk watch` that has begun, and what it said until then."""
    with started(WHODISK, "watch", *options, stdout=subprocess.PIPE) as process:
        said: list[str] = []
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if "watching" in line:
                break
        else:
            pytest.fail(f"ended early: {said}")
        yield process, said


def fio(device: Path, *options: str) -> dict[str, Any]:
    """What fio counted of 4 KiB random reads, its numbers in ns."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    command = ["fio", "--name=reads", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1"]
    command += ["--ioengine=psync", "--output-format=json", "--norandommap", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    read: dict[str, Any] = json.loads(done.stdout)["jobs"][0]["read"]
    return read


def test_numbers_are_those_of_fio(device: Path) -> None:
    """A prime number of reads within one interval: the same count, the same bytes, latencies inside of fio's."""
    with watching("--once", "--json", "--interval", "5s", "--device", str(device)) as (process, _):
        said = fio(device, "--number_ios=997", "--rate_iops=600")
        frame = json.loads(process.communicate(timeout=30)[0])
        assert process.returncode == 0
    (seen,) = frame["devices"]
    reads = {op["op"]: op for op in seen["ops"]}["read"]
    assert (seen["device"], reads["count"], reads["bytes"]) == (device.name, said["total_ios"], 997 * 4096)
    seconds = (frame["end_ns"] - frame["begin_ns"]) / 1e9
    assert reads["iops"] == pytest.approx(said["total_ios"] / seconds)
    assert reads["latency"]["max_ns"] <= said["lat_ns"]["max"]
    assert reads["latency_sum_ns"] <= said["lat_ns"]["mean"] * 997
    quantiles = [reads["latency"][key] for key in ("p50_ns", "p99_ns", "p999_ns", "max_ns")]
    assert quantiles == sorted(quantiles) and quantiles[0] > 0
    # Calls see the same reads, a little longer each.
    calls = {op["op"]: op for op in frame["calls"]}["read"]
    assert calls["count"] >= 997 and calls["latency_sum_ns"] >= reads["latency_sum_ns"]
    assert sum(v for v in seen["shares"].values() if v is not None) == pytest.approx(1)
    assert "fio" in {op["comm"] for op in frame["worst"]} and frame["lost"] == 0


@pytest.mark.slow
def test_a_steady_rate_is_shown(device: Path) -> None:
    """Frames within a run at a fixed rate: each within what its edges and the pacing explain."""
    with watching("--json", "--interval", "500ms", "--device", str(device)) as (process, _):
        fio(device, "--rate_iops=400", "--time_based", "--runtime=3")
        process.send_signal(signal.SIGINT)
        frames = [json.loads(line) for line in process.communicate(timeout=30)[0].splitlines()]
        assert process.returncode == 0
    counts = [op["count"] for frame in frames for op in frame["devices"][0]["ops"] if op["op"] == "read"]
    # Frames come before and after fio, too, the more the later it gets a CPU.
    busy = [place for place, count in enumerate(counts) if count]
    inside = counts[busy[0] + 1 : busy[-1]]
    assert len(inside) >= 3, counts
    # Whoever loses the CPU catches up afterwards: the mean holds, single frames only about.
    assert sum(inside) / len(inside) == pytest.approx(200, rel=0.1), counts
    assert all(b["begin_ns"] == a["end_ns"] for a, b in itertools.pairwise(frames))


def test_metrics_grow_and_bad_peers_do_no_harm(device: Path) -> None:
    with watching("--prometheus", "0", "--device", device.name) as (process, said):
        url = re.search(r"http://(127\.0\.0\.1):(\d+)/metrics", "".join(said))
        assert url is not None, said
        address = (url[1], int(url[2]))
        before = metrics(url[0])
        fio(device, "--number_ios=101")
        for garbage in (b"", b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"G" * 100_000):
            with socket.create_connection(address, timeout=5) as peer:
                try:
                    peer.sendall(garbage)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(4096):
                        pass
                except OSError:  # it may well hang up first
                    pass
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url[0].replace("/metrics", "/"), timeout=5)
        after = metrics(url[0])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert all(after[key] >= value for key, value in before.items())
    reads = f'device="{device.name}",op="read"'
    count = after["whodisk_block_latency_seconds_count", reads]
    assert count - before.get(("whodisk_block_latency_seconds_count", reads), 0) == 101
    assert after["whodisk_block_latency_seconds_bucket", reads + ',le="+Inf"'] == count
    assert after["whodisk_block_bytes_total", reads] == count * 4096
    stages = [
        v for (name, labels), v in after.items() if name.endswith("stage_seconds_total") and reads in labels
    ]
    assert sum(stages) == pytest.approx(after["whodisk_block_latency_seconds_sum", reads])


def metrics(url: str) -> dict[tuple[str, str], float]:
    """All samples by name and labels; a line that is neither sample nor comment fails."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        text = answer.read().decode()
    samples = {}
    for line in text.splitlines():
        if line.startswith(("# HELP ", "# TYPE ")):
            continue
        found = LINE.match(line)
        assert found is not None, line
        samples[found[1], found[2]] = float(found[3])
    return samples


def test_wrong_use_is_said(whodisk: Run) -> None:
    assert "whole disk" in whodisk("watch", "--device", "no-such-disk", code=2).stderr
    assert "100ms to 1h" in whodisk("watch", "--interval", "1ms", code=2).stderr
    whodisk("watch", "--prometheus", "localhost", code=2)


def test_q_ends_it_on_a_terminal_that_is_then_as_before() -> None:
    """24 rows of 80 columns: each frame fits, or says what it leaves out."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(side)
    # The terminal has to be the session's own, or nothing of it may be changed.
    command = [WHODISK, "watch", "--interval", "100ms"]
    shell = ["setsid", "--ctty", "--wait", *map(str, command)]
    with started(*shell, stdin=side, stdout=side, stderr=side) as process:
        text = b""
        while b"whodisk watch" not in text:
            text += os.read(main, 65536)
        os.write(main, b"q")
        reader = threading.Thread(target=_read_all, args=(main,), daemon=True)
        reader.start()
        assert process.wait(60) == 0
    assert termios.tcgetattr(side) == before
    os.close(side)
    frame = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.decode(errors="replace"))
    assert "q or Ctrl-C ends it" in frame
    assert all(len(line) <= 80 for line in frame.splitlines())


def _read_all(terminal: int) -> None:
    """What nobody reads would stop who writes it."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass
