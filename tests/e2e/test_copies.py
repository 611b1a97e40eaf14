"""Copies: within a file system, and on a Samba of our own. Every operation with its answer; nothing half-copied is a success."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.conftest import ROOT, WHODISK, started
from tests.e2e.copies import (
    all_pass_smbtorture,
    follow,
    full_file_system,
    proxy,
    told_if_gone_before_the_first,
    told_to_be_full,
    told_wherever_it_breaks,
)
from whodisk.copies.base import CopyError, Operation
from whodisk.copies.engine import Run
from whodisk.copies.specification import read
from whodisk.experiment.measure import measure

COPY_BYTES = 8 << 20


def specification(path: Path, method: str, folder: Path | None = None, **more: Any) -> Path:
    """`folder`: where both files are, if not on a server."""
    place = "" if folder is None else f"{folder}/"
    keys = {
        "method": method,
        "source": f"{place}source.bin",
        "destination": f"{place}copy.bin",
        "file_size": f"{COPY_BYTES >> 20}MiB",
        "queue_depth": 2,
        "verify": True,
    } | more
    lines = [
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for key, value in keys.items()
    ]
    path.write_text("[workload]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def copy(spec: Path) -> tuple[dict[str, Any], list[Operation]]:
    """Outcome and operations, without a recording: `test_a_copy_is_a_case` has that."""
    run = Run(read(spec))
    try:
        outcome = run.go()
    except CopyError as error:
        outcome = {"complete": False, "why_not": str(error)}
    return outcome, run.operations()


@pytest.mark.root
@pytest.mark.beside
def test_a_copy_is_a_case(tmp_path: Path) -> None:
    spec, case = specification(tmp_path / "copy.toml", "read_write", tmp_path), tmp_path / "copy.case"
    command = [str(WHODISK), "run", str(spec), "-o", str(case), "--app-only", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    outcome = json.loads(done.stdout)
    assert done.returncode == 0 and outcome["verified"], done.stderr
    with duckdb.connect() as db:
        answered = db.execute(
            f"SELECT call, sum(transferred_bytes) FROM '{case}/copies.parquet' GROUP BY 1"
        ).fetchall()
        sealed = db.execute(
            f"SELECT op, sum(size_bytes) FROM '{case}/ops/layer=app/*.parquet' GROUP BY 1"
        ).fetchall()
    assert dict(answered) == {"pread": COPY_BYTES, "pwrite": COPY_BYTES, "fsync": 0}
    assert dict(sealed) == {"read": COPY_BYTES, "write": COPY_BYTES, "sync": None}
    measured = measure(case, "app")
    assert measured.whole.run.totals["copied_bytes"].sum() == COPY_BYTES, "what was read counts, too"
    only = outcome["passes"][0]
    assert measured.seconds == pytest.approx((only["end_ns"] - only["start_ns"]) / 1e9)


@pytest.mark.parametrize("method", ["read_write", "copy_file_range"])
def test_a_local_copy_is_the_source(tmp_path: Path, method: str) -> None:
    outcome, operations = copy(specification(tmp_path / "copy.toml", method, tmp_path, streams=2))
    assert outcome["complete"] and outcome["verified"], outcome
    assert (tmp_path / "copy.bin").read_bytes() == (tmp_path / "source.bin").read_bytes()
    kind = "write" if method == "read_write" else "copy"
    pieces = sorted((each.offset_bytes, each.transferred_bytes) for each in operations if each.kind == kind)
    ends = [0, *itertools.accumulate(size for _, size in pieces)]
    assert [at for at, _ in pieces] == ends[:-1] and ends[-1] == COPY_BYTES, "not each byte once"
    assert all(each.due_ns <= each.submit_ns <= each.end_ns for each in operations)


@pytest.mark.parametrize("fails", [False, True])
def test_a_pass_begins_before_its_first_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    class Late(threading.Barrier):
        """The thread that starts the submitters hears of it when they are done."""

        def wait(self, timeout: float | None = None) -> int:
            if threading.current_thread() is not threading.main_thread():
                return super().wait(timeout)
            # What a barrier does, but for this thread going on only when the others have ended.
            try:
                return super().wait(timeout)
            finally:
                for each in threading.enumerate():
                    if each.name.startswith("copy-"):
                        each.join()

    monkeypatch.setattr(threading, "Barrier", Late)
    method = "reflink" if fails else "read_write"
    folder = Path("/dev/shm") / f"whodisk-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    try:
        outcome, operations = copy(specification(tmp_path / "copy.toml", method, folder, rate="1000/s"))
    finally:
        shutil.rmtree(folder)
    [only] = outcome["passes"]
    assert operations and outcome["complete"] != fails
    assert all(only["start_ns"] <= each.due_ns and each.end_ns <= only["end_ns"] for each in operations)


def test_a_method_that_the_file_system_lacks_is_told(tmp_path: Path) -> None:
    # tmpfs has no shared blocks.
    folder = Path("/dev/shm") / f"whodisk-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    try:
        outcome, operations = copy(specification(tmp_path / "copy.toml", "reflink", folder))
        assert not outcome["complete"] and "FICLONERANGE: Operation not supported" in outcome["why_not"]
        assert {each.error for each in operations} == {95}
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def samba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The keys of a specification for it."""
    if shutil.which("smbd", path="/usr/bin:/usr/sbin") is None:
        pytest.skip("needs samba")
    state = tmp_path_factory.mktemp("samba")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = state / "copies"
    server = ROOT / "examples/copy_server/samba.py"
    command: list[str | Path] = [sys.executable, server, "--state", state, "--port", str(port)]
    shares = ["--share", f"copies={folder}", "--share", f"second={folder}"]
    with started(*command, *shares, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        keys = dict(process.stdout.readline().strip().replace('"', "").split(" = ") for _ in range(4))
        yield keys | {"folder": str(folder)}


def place(samba: dict[str, str]) -> dict[str, str]:
    return {key: samba[key] for key in ("server", "share", "credentials")}


def remote(samba: dict[str, str], **more: Any) -> dict[str, Any]:
    return place(samba) | {"overwrite": True} | more


def password(samba: dict[str, str]) -> str:
    return Path(samba["credentials"]).read_text(encoding="utf-8").partition("password=")[2].strip()


@pytest.mark.parametrize(
    ("method", "call"), [("smb_read_write", "WRITE"), ("smb_copychunk", "SRV_COPYCHUNK")]
)
def test_a_server_copies(tmp_path: Path, samba: dict[str, str], method: str, call: str) -> None:
    # One request of 17 MiB is beyond Samba's limits, which it tells; the copy then keeps to them.
    big = {"file_size": "17MiB", "block_size": "17MiB"} if method == "smb_copychunk" else {}
    names = {"source": f"{method}.bin", "destination": f"{method}-copy.bin"}
    outcome, operations = copy(specification(tmp_path / "copy.toml", method, **remote(samba, **names, **big)))
    assert outcome["complete"] and outcome["verified"], outcome
    source, target = (Path(samba["folder"]) / names[key] for key in ("source", "destination"))
    assert source.read_bytes() == target.read_bytes()
    own = [each for each in operations if each.call == call]
    assert sum(each.transferred_bytes for each in own) == source.stat().st_size
    if big:
        assert any(each.error and each.status == 0xC000000D for each in own), "nothing was beyond the limits"
    assert password(samba) not in json.dumps([outcome, *map(asdict, operations)])


@pytest.mark.root
def test_operations_are_tied_to_the_calls_of_the_server(tmp_path: Path, samba: dict[str, str]) -> None:
    names = {"source": "followed.bin", "destination": "followed-copy.bin", "verify": False}
    pid = {"server_pid_file": samba["server_pid_file"]}
    spec = specification(tmp_path / "copy.toml", "smb_read_write", **remote(samba, **names, **pid))
    found = follow(spec, tmp_path / "copy.case")
    assert set(found) == {"read", "write", "sync"} and found["sync"][0] == 1
    for op in ("read", "write"):
        operations, asked, linked = found[op]
        assert operations and asked == linked == COPY_BYTES


def test_a_server_without_offload_is_told_per_operation(tmp_path: Path, samba: dict[str, str]) -> None:
    outcome, operations = copy(specification(tmp_path / "copy.toml", "smb_odx", **remote(samba)))
    assert (
        not outcome["complete"]
        and "OFFLOAD_READ" in outcome["why_not"]
        and "0xC0000010" in outcome["why_not"]
    )
    answers = {(each.call, each.transferred_bytes, each.status) for each in operations}
    assert answers == {("OFFLOAD_READ", 0, 0xC0000010)}


def test_a_connection_that_breaks_is_no_success(tmp_path: Path, samba: dict[str, str]) -> None:
    (Path(samba["folder"]) / "broken.bin").write_bytes(bytes(COPY_BYTES))
    with proxy(samba["server"], "--cut-after", str(3 << 20)) as (through, _):
        spec = specification(
            tmp_path / "copy.toml", "smb_read_write", **remote(samba, server=through, source="broken.bin")
        )
        outcome, operations = copy(spec)
    assert not outcome["complete"] and "connection lost" in outcome["why_not"]
    failed = [each for each in operations if each.error]
    assert failed and all(not each.transferred_bytes and "connection lost" in each.words for each in failed)


@pytest.mark.parametrize("method", ["smb_read_write", "smb_copychunk"])
def test_a_connection_that_breaks_anywhere_is_told(samba: dict[str, str], method: str) -> None:
    told_wherever_it_breaks(Path(samba["folder"]), method, **place(samba))
    for connected in (False, True):
        told_if_gone_before_the_first(method, connected=connected, **place(samba))


@pytest.mark.root
@pytest.mark.beside
def test_a_copy_whose_server_is_gone_has_nothing_to_judge(tmp_path: Path, samba: dict[str, str]) -> None:
    (Path(samba["folder"]) / "gone.bin").write_bytes(bytes(COPY_BYTES))
    with proxy(samba["server"], "--cut-after", "400") as (through, _):
        keys = remote(samba, server=through, source="gone.bin")
        spec, case = specification(tmp_path / "copy.toml", "smb_read_write", **keys), tmp_path / "copy.case"
        command = [str(WHODISK), "run", str(spec), "-o", str(case), "--app-only"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (
        done.returncode == 2
        and "the copy is not complete" in done.stderr
        and "connection lost" in done.stderr
    )
    told = subprocess.run(
        [str(WHODISK), "solve", str(case)], capture_output=True, text=True, check=False, timeout=60
    )
    sentences = " ".join(told.stdout.split())
    assert "nothing to judge" in sentences and "Not all was done" in sentences, told.stdout


def test_wrong_credentials_are_refused_before_anything_is_copied(
    tmp_path: Path, samba: dict[str, str]
) -> None:
    file = tmp_path / "credentials"
    file.write_text("username=root\npassword=wrong\n", encoding="utf-8")
    spec = specification(tmp_path / "copy.toml", "smb_read_write", **remote(samba, credentials=str(file)))
    file.chmod(0o644)
    with pytest.raises(CopyError, match="found others may; chmod 600 it"):
        copy(spec)
    file.chmod(0o600)
    outcome, operations = copy(spec)
    assert not operations and "cannot connect" in outcome["why_not"] and "LOGON_FAILURE" in outcome["why_not"]


def test_samba_passes_smbtorture(samba: dict[str, str]) -> None:
    all_pass_smbtorture(samba["server"], samba["credentials"])


@pytest.mark.parametrize("method", ["smb_read_write", "smb_copychunk"])
def test_a_full_share_is_told_per_operation(samba: dict[str, str], method: str) -> None:
    folder = Path(samba["folder"])
    with full_file_system(folder / "full"):
        told_to_be_full(folder, method, **place(samba))


@pytest.mark.parametrize("method", ["read_write", "copy_file_range"])
def test_a_full_file_system_is_told_per_operation(tmp_path: Path, method: str) -> None:
    with full_file_system(tmp_path / "full"):
        told_to_be_full(tmp_path, method)
