"""`record` and `run` on real disks: exact counts, and a case that is whole whatever the command does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.accuracy.host import group
from tests.e2e.conftest import AGENT, WHODISK, Run, meta, started, write_spec

N = 10_007  # a prime: no round number of ours can produce it by accident


def query(case: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of `sql`; `{block}`, `{app}` and `{links}` stand for the tables."""
    tables = {
        "block": f"'{case}/ops/layer=block/*.parquet'",
        "app": f"'{case}/ops/layer=app/*.parquet'",
        "links": f"'{case}/links/*.parquet'",
        "gaps": f"'{case}/gaps/*.parquet'",
        "losses": f"'{case}/losses/*.parquet'",
        "events": f"'{case}/events/*.parquet'",
    }
    return duckdb.connect().execute(sql.format(**tables)).fetchall()


def disk_of(path: Path) -> str:
    """Kernel name of the whole disk below `path`."""
    device = path.stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    return link.parent.name if (link / "partition").exists() else link.name


@pytest.mark.root
def test_fio_counts_are_exact(whodisk: Run, work: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("needs fio")
    (work / "data.bin").write_bytes(os.urandom(1 << 20) * 64)
    subprocess.run(["sync", "data.bin"], cwd=work, check=True)
    fio = [
        "fio",
        "--name=n",
        "--filename=data.bin",
        "--rw=randread",
        "--bs=4k",
        "--direct=1",
        "--ioengine=io_uring",
    ]
    fio += ["--iodepth=16", f"--number_ios={N}", "--size=64m", "--norandommap", "--thread", "--minimal"]
    case = work / "fio.case"
    done = whodisk("record", "-o", case, "--", *fio)
    assert "ended with exit 0" in done.stderr
    # With --thread the command's own process submits; others on this machine may run fio too. What fetches fio's own program
    # text is readahead, or metadata.
    pid = meta(case)["command_pid"]
    sql = f"""SELECT count(*), sum(size_bytes) FROM {{block}}
        WHERE pid = {pid} AND op = 'read' AND (flags & 6) = 0 AND device = '{disk_of(work)}'"""
    requests, size_bytes = query(case, sql)[0]
    assert size_bytes == N * 4096
    # Neighbours may be merged into one request; bytes are exact all the same.
    assert requests <= N
    assert meta(case)["probes"]["block"]["lost"] == 0
    assert query(case, "SELECT count(*) FROM {losses} WHERE probe = 'block'") == [(0,)]
    whodisk("verify", case)
    whodisk("solve", case)
    assert (case / "report.html").stat().st_size > 100_000


@pytest.mark.root
def test_dd_is_recorded_and_solved(whodisk: Run, work: Path) -> None:
    size = 32 << 20
    case = work / "dd.case"
    dd = ["dd", "if=/dev/zero", "of=out.bin", "bs=1M", "count=32", "oflag=direct"]
    done = whodisk("solve", "-o", case, "--", *dd)
    written = query(case, "SELECT sum(size_bytes) FROM {block} WHERE comm = 'dd' AND op = 'write'")[0][0]
    assert written == size
    assert meta(case)["command_status"] == "exit 0"
    assert "report" in done.stdout
    assert json.loads((case / "findings.json").read_text(encoding="utf-8"))["status"]


@pytest.mark.root
@pytest.mark.parametrize("place", ["file", "loop"])
def test_own_operations_are_joined_exactly(whodisk: Run, work: Path, place: str) -> None:
    """N operations give N rows; every one is linked to its request; bytes are equal; nothing is lost."""
    target, detach = str(work / "data.bin"), []
    if place == "loop":
        (work / "image").write_bytes(b"\0" * (16 << 20))
        done = subprocess.run(
            ["losetup", "--find", "--show", work / "image"], capture_output=True, text=True, check=True
        )
        target = done.stdout.strip()
        detach = ["losetup", "--detach", target]
    case = work / "a.case"
    try:
        spec = write_spec(work / "spec.toml", target, operations=N, duration="60s")
        whodisk("run", spec, "-o", case)
    finally:
        if detach:
            subprocess.run(detach, check=True)
    assert query(case, "SELECT count(*), sum(size_bytes) FROM {app}") == [(N, N * 4096)]
    # Layer syscall (2 in bits 56..) sees the same operations, and links them by itself.
    linked = query(
        case, "SELECT count(DISTINCT parent_id), sum(bytes) FROM {links} WHERE parent_id >> 56 = 1"
    )[0]
    assert linked == (N, N * 4096)
    # Requests that carry ours, plus bios merged into them, are N again; calls may wait for metadata, too.
    requests = query(
        case, "SELECT count(DISTINCT child_id), count(*) FROM {links} WHERE parent_id >> 56 = 1"
    )[0]
    assert requests[0] <= N <= requests[1]
    stages = (
        "app_ns + coalesce(fs_ns,0) + coalesce(queue_ns,0) + coalesce(device_ns,0) + coalesce(interrupt_ns,0)"
    )
    stages += " + coalesce(reap_ns,0) + coalesce(runqueue_ns,0) + coalesce(unknown_ns,0)"
    assert query(case, f"SELECT count(*) FROM {{app}} WHERE {stages} <> latency_ns") == [(0,)]
    assert meta(case)["probes"]["block"]["lost"] == 0
    whodisk("verify", case)
    told = json.loads((case / "system.json").read_text(encoding="utf-8"))["recorder"]
    # In the engine's process only what writes its log is ours; another process holds the probes.
    assert told.pop(str(meta(case)["command_pid"])) == ["whodisk-log"]
    (threads,) = told.values()
    assert set(threads) >= {"whodisk-agent", "whodisk-log", "whodisk-rec"}


def test_without_root_the_own_layer_is_recorded(work: Path) -> None:
    """As nobody: the workload's operations are all there, and the case says what is not."""
    home = Path("/var/tmp") / f"whodisk-e2e-{os.getpid()}"
    home.mkdir()
    home.chmod(0o777)
    shutil.copy(AGENT, home / "agent")
    spec = write_spec(home / "spec.toml", home / "data.bin", operations=N, duration="60s")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    try:
        command = [*nobody, str(home / "agent"), "run", str(spec), "-o", str(home / "a.case")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        case = meta(home / "a.case")
        assert case["layers"]["app"]["rows"] == N
        assert "block" not in case["layers"]
        if nobody:
            assert "without the block layer" in done.stderr
            assert any(
                "block" in unseen["what"] and "root" in unseen["because"] for unseen in case["not_observed"]
            )
        verdict = subprocess.run(
            [WHODISK, "solve", home / "a.case", "--json"], capture_output=True, text=True, check=True
        )
        assert any("block" in caveat["what"] for caveat in json.loads(verdict.stdout)["cannot_exclude"])
    finally:
        shutil.rmtree(home)


@pytest.mark.root
@pytest.mark.beside
def test_status_output_and_input_of_the_command_pass_through(whodisk: Run, work: Path) -> None:
    done = whodisk("record", "-o", "a.case", "--", "sh", "-c", "cat; echo problem >&2; exit 3", input="hello")
    assert done.stdout == "hello"
    assert "problem" in done.stderr
    assert "ended with exit 3" in done.stderr
    assert meta(work / "a.case")["command_status"] == "exit 3"
    done = whodisk("record", "-o", "b.case", "--", "sh", "-c", "kill -9 $$")
    assert meta(work / "b.case")["command_status"] == "signal 9"


@pytest.mark.root
@pytest.mark.beside
def test_command_not_found_leaves_nothing(whodisk: Run, work: Path) -> None:
    done = whodisk("record", "-o", "a.case", "--", "no-such-command", code=2)
    assert "no-such-command" in done.stderr
    (work / "notes.txt").write_text("no program", encoding="utf-8")
    done = whodisk("record", "-o", "a.case", "--", "./notes.txt", code=2)
    assert "may not be executed" in done.stderr
    assert not (work / "a.case").exists()


@pytest.mark.root
@pytest.mark.beside
def test_duration_ends_the_command(whodisk: Run, work: Path) -> None:
    begin = time.monotonic()
    whodisk("record", "-o", "a.case", "--duration", "500ms", "--", "sleep", "60")
    assert time.monotonic() - begin < 20
    assert meta(work / "a.case")["command_status"] == "signal 15"
    whodisk("record", "-o", "b.case", "--duration", "300ms")
    assert meta(work / "b.case")["command_status"] is None
    whodisk("verify", "b.case")


@pytest.mark.root
@pytest.mark.beside
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_command_and_close_the_case(work: Path, number: signal.Signals) -> None:
    script = "trap 'echo caught; exit 7' INT TERM; echo ready; while :; do sleep 0.05; done"
    with started(
        WHODISK, "record", "-o", "a.case", "--", "sh", "-c", script, cwd=work, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == "caught\n"
    assert meta(work / "a.case")["state"] == "sealed"
    assert meta(work / "a.case")["command_status"] == "exit 7"


def test_ctrl_c_ends_a_run_with_a_whole_case(whodisk: Run, work: Path) -> None:
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="60s")
    with started(WHODISK, "run", spec, "-o", "a.case", cwd=work) as process:
        while not list((work / "a.case").glob("raw/app/worker-*.arrows")):
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert meta(work / "a.case")["state"] == "sealed"
    whodisk("verify", "a.case")


def test_sealing_twice_gives_the_same_bytes(whodisk: Run, work: Path) -> None:
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="500ms")
    whodisk("run", spec, "-o", "a.case", "--no-seal")
    shutil.copytree(work / "a.case", work / "b.case")
    for case in ("a.case", "b.case"):
        whodisk("seal", case)
    tables = sorted(path.relative_to(work / "a.case") for path in (work / "a.case").rglob("*.parquet"))
    assert len(tables) >= 5
    for table in [*tables, Path("case.json")]:
        assert (work / "a.case" / table).read_bytes() == (work / "b.case" / table).read_bytes(), table
    again = whodisk("seal", "a.case")
    assert again.returncode == 0


@pytest.mark.root
def test_a_stopped_submitter_is_noted(work: Path) -> None:
    # No disk: what it keeps waiting for as long as the stop would be the longest silence, or shorten it.
    spec = write_spec(work / "spec.toml", "null", duration="2s", rate="2000/s")
    with started(WHODISK, "run", spec, "-o", "a.case", cwd=work) as process:
        while not list((work / "a.case").glob("raw/app/worker-*.arrows")):
            time.sleep(0.02)
        time.sleep(1)
        pid = meta(work / "a.case")["command_pid"]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(pid, signal.SIGCONT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    noted = query(
        work / "a.case",
        "SELECT kind, detail FROM {events} WHERE kind IN ('stopped', 'continued') ORDER BY time_ns",
    )
    assert noted == [("stopped", "by signal 19"), ("continued", "")]
    longest = "SELECT duration_ns, state FROM {gaps} WHERE layer = 'app' ORDER BY duration_ns DESC LIMIT 1"
    ((duration_ns, state),) = query(work / "a.case", longest)
    assert duration_ns > 250_000_000
    assert state == "stopped"


@pytest.mark.root
def test_requests_have_the_control_group_that_they_are_accounted_to(whodisk: Run, work: Path) -> None:
    (work / "data").write_bytes(os.urandom(1 << 20))
    subprocess.run(["sync", "data"], cwd=work, check=True)
    try:
        with group("blkio", {}) as folder:
            script = f"echo $$ > {folder}/cgroup.procs && exec dd if=data of=/dev/null bs=4k iflag=direct"
            whodisk("record", "-o", "a.case", "--", "sh", "-c", script)
            expected = str(folder)
    except FileNotFoundError as lack:
        pytest.skip(f"no I/O controller of version 1: {lack}")
    groups = query(work / "a.case", "SELECT DISTINCT cgroup FROM {block} WHERE comm = 'dd'")
    assert groups == [(expected,)]


@pytest.mark.root
def test_tracefs_is_mounted_where_nobody_has(work: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    # In a mount namespace of its own: the machine's stays.
    script = """
        # Where debugfs is mounted, the kernel shows tracefs in it, too.
        for place in /sys/kernel/debug/tracing /sys/kernel/debug /sys/kernel/tracing; do
            while umount "$place" 2>/dev/null; do :; done
        done
        test ! -e /sys/kernel/tracing/instances || exit 7
        "$1" record --duration 1s --no-seal -o tracefs.case && test -e /sys/kernel/tracing/instances
    """
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(AGENT)]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 7:
        pytest.skip("tracefs cannot be unmounted here, not even for one process")
    assert done.returncode == 0, done.stderr
    told = json.dumps(meta(work / "tracefs.case"))
    assert "event tracing cannot be used" not in told and "event tracing for modules cannot" not in told
