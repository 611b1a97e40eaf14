"""What tests of copies on several servers share."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from tests.e2e.conftest import WHODISK
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
