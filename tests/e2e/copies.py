"""What tests of copies on several servers share."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from tests.e2e.conftest import ROOT, WHODISK, started
from whodisk.copies.base import CopyError, Link
from whodisk.copies.engine import Run
from whodisk.copies.specification import parse

MIB = 1 << 20
SOURCE_BYTES = 4 * MIB
DISK_FULL = 0xC000007F


def all_pass_smbtorture(server: str, credentials: str) -> None:
    """Every copy_chunk test of Samba's own suite; the server has shares `copies` and `second` of one folder."""
    if shutil.which("smbtorture") is None:
        pytest.skip("needs samba-testsuite")
    host, port = server.split(":")
    lines = Path(credentials).read_text(encoding="utf-8").splitlines()
    known = {key: value for key, _, value in (line.partition("=") for line in lines)}
    user = f"{known['username']}%{known['password']}"
    command = ["smbtorture", f"//{host}/copies", "-p", port, "-U", user, "--option=torture:share2=second"]
    done = subprocess.run(
        [*command, "smb2.ioctl.copy_chunk*"], capture_output=True, text=True, check=False, timeout=60
    )
    ended = [
        line
        for line in done.stdout.splitlines()
        if "copy_chunk" in line and not line.startswith(("test:", "time:"))
    ]
    assert len(ended) == 21 and all(line.startswith("success: ") for line in ended), done.stdout


def follow(spec: Path, case: Path) -> dict[str, tuple[int, int, int]]:
    """Records a copy on a server beside that server. Per kind of operation: how many, bytes that they asked for, and bytes of the server's
    calls that are linked to them. Every call on both files is somebody's, and the sync has reached the disk."""
    command = [str(WHODISK), "run", str(spec), "-o", str(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    layers = {name: f"'{case}/ops/layer={name}/*.parquet'" for name in ("app", "syscall", "block")}
    links = f"'{case}/links/*.parquet'"
    with duckdb.connect() as db:
        found = db.execute(
            f"""SELECT a.op, count(DISTINCT a.op_id), (SELECT coalesce(sum(size_bytes), 0) FROM {layers["app"]} AS w WHERE w.op = a.op), sum(l.bytes)
FROM {layers["app"]} AS a JOIN {links} AS l ON l.parent_id = a.op_id JOIN {layers["syscall"]} AS s ON s.op_id = l.child_id GROUP BY 1"""
        ).fetchall()
        requests = db.execute(
            f"""SELECT count(*) FROM {layers["app"]} AS a JOIN {links} AS l ON l.parent_id = a.op_id
JOIN {links} AS m ON m.parent_id = l.child_id JOIN {layers["block"]} AS b ON b.op_id = m.child_id WHERE a.op = 'sync'"""
        ).fetchall()
    assert requests[0][0] > 0
    about = json.loads((case / "case.json").read_text(encoding="utf-8"))
    assert about["layers"]["app"]["join"] == "calls of the server by file, offset, size and time"
    assert not [each for each in about["open_questions"] if "of the server" in each]
    return {op: (number, asked, linked) for op, number, asked, linked in found}


@contextmanager
def full_file_system(folder: Path) -> Iterator[None]:
    """One with a source of 4 MiB, and room for 2 MiB more."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SOURCE_BYTES + 2 * MIB}", "tmpfs", folder], check=True
    )
    try:
        (folder / "a.bin").write_bytes(secrets.token_bytes(SOURCE_BYTES))
        yield
    finally:
        # A server may hold a file of it still.
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


def told_to_be_full(root: Path, method: str, **place: str) -> None:
    """Copies within `root`/full. What was told as transferred is there, and the operation that found no room says so."""
    where = "full" if place else f"{root}/full"
    keys = {"method": method, "source": f"{where}/a.bin", "destination": f"{where}/b.bin"}
    run = Run(parse(keys | {"block_size": "768KiB"} | place, "keys"))
    outcome = run.go()
    assert not outcome["complete"] and "were copied from byte" in outcome["why_not"], outcome
    refused = [each for each in run.operations() if each.error]
    assert [each.error for each in refused] == [errno.ENOSPC] and not refused[0].transferred_bytes, refused
    assert refused[0].status == (DISK_FULL if place else None)
    source, target = ((root / "full" / name).read_bytes() for name in ("a.bin", "b.bin"))
    told = [each for each in run.operations() if each.kind in ("write", "copy") and each.transferred_bytes]
    assert sum(each.transferred_bytes for each in told) >= 2 * 768 << 10, "there was room for two blocks"
    for each in told:
        part = slice(each.offset_bytes, each.offset_bytes + each.transferred_bytes)
        assert source[part] == target[part], f"{each} was not"


@contextmanager
def proxy(server: str, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """examples/copy_server/proxy.py before a server: the key `server` of a specification that goes through it, and its process."""
    command: list[str | Path] = [
        sys.executable,
        ROOT / "examples/copy_server/proxy.py",
        "--to",
        server,
        *words,
    ]
    with started(*command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("server = ").strip('"'), process


#: After how many bytes of the client a connection is cut: within its begin, its opens, its first requests, and later.
CUTS = (1, 400, 900, 1300, 1700, 2100, 2600, 3200, 4000, 5600, 8000, 70_000, 400_000)


def told_wherever_it_breaks(root: Path, method: str, **place: str) -> None:
    """Copies a file through a connection that is cut at each of `CUTS`. What was told as transferred is there; nothing else is a success.

    Some cuts come before the first operation, some during one.
    """
    source = secrets.token_bytes(SOURCE_BYTES // 4)
    (root / "cut-a.bin").write_bytes(source)
    ended = set()
    for cut in CUTS:
        with proxy(place["server"], "--cut-after", str(cut)) as (through, _):
            keys = {"method": method, "source": "cut-a.bin", "destination": "cut-b.bin", "overwrite": True}
            keys |= place | {"server": through, "block_size": "128KiB"}
            run = Run(parse(keys, "keys"))
            try:
                outcome = run.go()
            except CopyError as error:
                outcome = {"complete": False, "why_not": str(error)}
        operations = run.operations()
        failed = [each for each in operations if each.error]
        if outcome["complete"]:
            assert not failed and (root / "cut-b.bin").read_bytes() == source
            ended.add("complete")
            continue
        assert "connection lost" in outcome["why_not"], (cut, outcome)
        assert all(not each.transferred_bytes and "connection lost" in each.words for each in failed)
        for each in operations:
            if each.kind in ("write", "copy") and each.transferred_bytes:
                part = slice(each.offset_bytes, each.offset_bytes + each.transferred_bytes)
                assert (root / "cut-b.bin").read_bytes()[part] == source[part], f"{cut}: {each} was not"
        ended.add("in an operation" if failed else "before it")
    assert {"in an operation", "before it"} <= ended, ended


def told_if_gone_before_the_first(method: str, *, connected: bool, **place: str) -> None:
    """The connection breaks when everything is laid out: before a submitter has connected, or before its first operation."""
    with proxy(place["server"]) as (through, process):
        keys = {"method": method, "source": "cut-a.bin", "destination": "cut-b.bin", "overwrite": True}
        run = Run(parse(keys | place | {"server": through}, "keys"))
        connect = run.method.link

        def cut() -> Link:
            if not connected:
                process.kill()
                process.wait()
            link = connect()
            process.kill()
            process.wait()
            return link

        run.method.link = cut  # type: ignore[method-assign]
        try:
            outcome = run.go()
        except CopyError as error:
            outcome = {"complete": False, "why_not": str(error)}
    assert not outcome["complete"], outcome
    operations = run.operations()
    if connected:
        assert operations and all(each.error and not each.transferred_bytes for each in operations)
        assert "connection lost" in outcome["why_not"]
    else:
        assert not operations and "cannot connect" in outcome["why_not"]
