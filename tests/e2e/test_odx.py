"""The server with copy offload passes the conformance suite; with any of its guards taken away it does not. And whodisk copies on it."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.copies import (
    all_pass_smbtorture,
    follow,
    full_file_system,
    told_if_gone_before_the_first,
    told_to_be_full,
    told_wherever_it_breaks,
)
from whodisk.copies.engine import Run
from whodisk.copies.specification import parse

pytest.importorskip("impacket", reason="needs the Python package impacket")

from odx_conformance.cases import CASES, run
from odx_conformance.client import Server
from odx_server.offload import GUARDS, TOKENS_PER_SESSION_MAX, Offload
from odx_server.server import make

METHODS = ("smb_read_write", "smb_copychunk", "smb_odx")
#: The case that notices when a guard is gone.
NOTICED_BY = {
    "read_input_size": "read_short_input",
    "read_output_size": "read_short_output",
    "read_alignment": "read_unaligned_offset",
    "read_overflow": "read_overflow",
    "read_end_of_file": "read_at_end",
    "token_range_limit": "read_beyond_the_limit",
    "write_input_size": "write_short_input",
    "write_output_size": "write_short_output",
    "write_alignment": "write_unaligned",
    "write_overflow": "write_overflow",
    "write_allocated": "write_not_allocated",
    "write_limit": "write_is_limited",
    "token_known": "token_forged",
    "token_type": "token_of_a_reserved_type",
    "token_session": "token_of_another_session",
    "token_expired": "token_expired",
    "token_unchanged": "token_after_overwrite",
    "token_deleted": "token_after_delete",
    "token_range": "write_behind_the_token",
    "chunk_output_size": "chunk_short_output",
    "chunk_limits": "chunk_limits",
    "chunk_key": "chunk_bad_key",
    "chunk_end_of_file": "chunk_beyond_the_source",
    "chunk_access": "chunk_into_a_file_not_open_for_reading",
    "chunk_locked": "chunk_of_a_locked_source",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Offload, Path]]:
    folder, password = tmp_path_factory.mktemp("odx"), secrets.token_hex(8)
    (folder / "share").mkdir()
    shares = dict.fromkeys(("copies", "second"), folder / "share")
    server, offload = make(0, shares, "tester", password)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    (folder / "credentials").write_text(f"username=tester\npassword={password}\n", encoding="utf-8")
    (folder / "credentials").chmod(0o600)
    yield Server("127.0.0.1", server.server_address[1], "copies", "tester", password), offload, folder
    server.shutdown()
    server.server_close()


def place(served: tuple[Server, Offload, Path]) -> dict[str, str]:
    """The keys of a specification for it."""
    server, _, folder = served
    return {
        "server": f"127.0.0.1:{server.port}",
        "share": "copies",
        "credentials": str(folder / "credentials"),
    }


def test_every_case_passes(served: tuple[Server, Offload, Path]) -> None:
    results = run(served[0], CASES)
    assert len(results) >= 25 and not {name: why for name, why in results.items() if why is not None}
    assert not list((served[2] / "share").iterdir()), "the suite left files"


def test_each_guard_is_noticed_when_it_is_gone(served: tuple[Server, Offload, Path]) -> None:
    server, offload, _ = served
    assert set(NOTICED_BY) == set(GUARDS)
    assert len(set(NOTICED_BY.values())) == len(GUARDS), "a case per guard"

    def without() -> Iterator[str]:
        for guard, case in NOTICED_BY.items():
            offload.removed = {guard}
            yield case

    # On one connection: the suite asks for the next case when the one before is done.
    results = run(server, without())
    offload.removed = set()
    assert not [guard for guard, case in NOTICED_BY.items() if results[case] is None]


def test_tokens_are_bounded(tmp_path: Path) -> None:
    offload = Offload()
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"x" * 4096)
        file.flush()
        for _ in range(TOKENS_PER_SESSION_MAX + 10):
            offload.read(
                "session",
                file.fileno(),
                (32).to_bytes(4, "little") + bytes(20) + (4096).to_bytes(8, "little"),
                528,
            )
        assert offload.tokens() == TOKENS_PER_SESSION_MAX
        offload.forget("session")
        assert offload.tokens() == 0


def test_it_passes_smbtorture(served: tuple[Server, Offload, Path]) -> None:
    server, _, folder = served
    all_pass_smbtorture(f"127.0.0.1:{server.port}", str(folder / "credentials"))


@pytest.mark.parametrize("method", METHODS)
def test_a_full_share_is_told_per_operation(served: tuple[Server, Offload, Path], method: str) -> None:
    with full_file_system(served[2] / "share/full"):
        told_to_be_full(served[2] / "share", method, **place(served))


@pytest.mark.parametrize("method", METHODS)
def test_a_connection_that_breaks_anywhere_is_told(served: tuple[Server, Offload, Path], method: str) -> None:
    told_wherever_it_breaks(served[2] / "share", method, **place(served))
    for connected in (False, True):
        told_if_gone_before_the_first(method, connected=connected, **place(served))


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_of_odd_size(served: tuple[Server, Offload, Path], method: str) -> None:
    folder = served[2]
    data = secrets.token_bytes((1 << 20) + 1234)
    (folder / "share" / "odd").write_bytes(data)
    keys = {
        "method": method,
        "source": "odd",
        "destination": f"copy-{method}",
        "block_size": "384KiB",
        "verify": True,
    } | place(served)
    copy = Run(parse(keys, "keys"))
    outcome = copy.go()
    assert outcome["complete"] and outcome["verified"], outcome
    assert (folder / "share" / f"copy-{method}").read_bytes() == data
    if method == "smb_odx":
        ages = [each.token_age_ns for each in copy.operations() if each.call == "OFFLOAD_WRITE"]
        assert ages and all(age is not None and 0 <= age < 10**10 for age in ages)


@pytest.mark.root
def test_an_offload_is_tied_to_the_reads_and_writes_of_the_server(
    tmp_path: Path, served: tuple[Server, Offload, Path]
) -> None:
    folder = served[2]
    size = 3 << 20
    (folder / "share" / "followed").write_bytes(secrets.token_bytes(size))
    (tmp_path / "pid").write_text(f"{os.getpid()}\n", encoding="ascii")
    keys = {
        "method": "smb_odx",
        "source": "followed",
        "destination": "followed-copy",
        "queue_depth": 2,
        "server_pid_file": str(tmp_path / "pid"),
    } | place(served)
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in keys.items()]
    (tmp_path / "copy.toml").write_text("[workload]\n" + "".join(lines), encoding="utf-8")
    found = follow(tmp_path / "copy.toml", tmp_path / "copy.case")
    # A token is given without a look at the data; what it stands for is read and written when it is used.
    assert set(found) == {"write", "sync"}
    assert found["write"][1:] == (size, 2 * size)
