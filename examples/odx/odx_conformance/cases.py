"""The cases. Each makes its files, does one thing, and says what the documents want of it."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable

from smbprotocol.exceptions import SMBResponseException
from smbprotocol.open import Open

from odx_conformance.client import Client, Grant, Server

SUCCESS, BUFFER_TOO_SMALL, INVALID_PARAMETER = 0, 0xC0000023, 0xC000000D
END_OF_FILE, INVALID_TOKEN = 0xC0000011, 0xC0000365
OBJECT_NAME_NOT_FOUND, INVALID_VIEW_SIZE = 0xC0000034, 0xC000001F
ACCESS_DENIED, FILE_LOCK_CONFLICT = 0xC0000022, 0xC0000054
MIB = 1 << 20
SIZE = 64 << 10
UINT64 = 1 << 64
ZERO_TOKEN = struct.pack(">IHH", 0xFFFF0001, 0, 504) + bytes(504)


class Wrong(Exception):
    """What was expected, and what the server did."""


def expect(what: str, expected: object, found: object) -> None:
    """Raises Wrong."""
    if expected != found:
        said = [
            f"0x{value:08X}" if isinstance(value, int) and value > 0xFFFF else repr(value)[:80]
            for value in (expected, found)
        ]
        raise Wrong(f"{what}: expected {said[0]}, found {said[1]}")


class World:
    """A source with random data and a destination of the same size, allocated, that holds other data."""

    def __init__(self, server: Server, client: Client) -> None:
        self.server, self.client = server, client
        self.tag = f"odx-{os.getpid()}-{time.monotonic_ns()}"
        self.data, self.old = os.urandom(SIZE), os.urandom(SIZE)
        self.source: Open = self.client.make(f"{self.tag}-source", self.data)
        self.target: Open = self.client.make(f"{self.tag}-target", self.old)

    def granted(self, offset_bytes: int = 0, size_bytes: int = SIZE, ttl_ms: int = 0) -> Grant:
        """A token that is good."""
        grant = self.client.offload_read(self.source, offset_bytes, size_bytes, ttl_ms=ttl_ms)
        expect("status of OFFLOAD_READ", SUCCESS, grant.status)
        expect("TransferLength", size_bytes, grant.transfer_bytes)
        return grant

    def refused(self, token: bytes) -> None:
        """A write with it is refused, and writes nothing."""
        done = self.client.offload_write(self.target, 0, SIZE, token)
        expect("status of OFFLOAD_WRITE", INVALID_TOKEN, done.status)
        expect("the destination", True, self.client.content(self.target, SIZE) == self.old)

    def close(self) -> None:
        """Removes the files. Raises what a broken connection raises."""
        for name, file in (("source", self.source), ("target", self.target)):
            try:
                self.client.delete(file if file.connected else self.client.open(f"{self.tag}-{name}"))
            except SMBResponseException:
                continue


Case = Callable[[World], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Registers one."""
    CASES[function.__name__] = function
    return function


def run(server: Server, names: Iterable[str]) -> dict[str, str | None]:
    """By case: why it failed; None if it passed. Raises CannotConnect."""
    results: dict[str, str | None] = {}
    client = server.connect()
    try:
        for name in names:
            try:
                results[name] = _run(World(server, client), CASES[name])
            except Exception as error:
                results[name] = f"{type(error).__name__}: {error}"
                # What a case left of its connection is no other case's matter.
                client.close()
                client = server.connect()
    finally:
        client.close()
    return results


def _run(world: World, function: Case) -> str | None:
    try:
        function(world)
    except Wrong as wrong:
        return str(wrong)
    finally:
        world.close()
    return None


@case
def copy_of_a_file(w: World) -> None:
    """Read and write of all: the destination is the source."""
    grant = w.granted()
    expect("Size of the answer", 528, grant.size)
    done = w.client.offload_write(w.target, 0, SIZE, grant.token)
    expect("status, Size, LengthWritten", (SUCCESS, 16, SIZE), (done.status, done.size, done.written_bytes))
    expect("the destination is the source", True, w.client.content(w.target, SIZE) == w.data)


@case
def token_form(w: World) -> None:
    """Header of a token: a type that is not reserved, big-endian, and 504 bytes of id that another token does not share."""
    one, other = w.granted(), w.granted()
    kind, _, length = struct.unpack(">IHH", one.token[:8])
    expect("a type below 0xFFFF0000", True, 0 < kind < 0xFFFF0000)
    expect("TokenIdLength", 504, length)
    expect("tokens differ", True, one.token != other.token)


@case
def read_short_input(w: World) -> None:
    """An input of 31 bytes."""
    expect("status", BUFFER_TOO_SMALL, w.client.offload_read(w.source, 0, SIZE, cut=31).status)


@case
def read_short_output(w: World) -> None:
    """Room for 527 bytes of output."""
    expect("status", BUFFER_TOO_SMALL, w.client.offload_read(w.source, 0, SIZE, output_bytes=527).status)


@case
def read_unaligned_offset(w: World) -> None:
    """An offset within a sector."""
    expect("status", INVALID_PARAMETER, w.client.offload_read(w.source, 1, 4096).status)


@case
def read_unaligned_length(w: World) -> None:
    """A length that is no whole sectors."""
    expect("status", INVALID_PARAMETER, w.client.offload_read(w.source, 0, 4095).status)


@case
def read_overflow(w: World) -> None:
    """Offset and length beyond 64 bits."""
    expect("status", INVALID_PARAMETER, w.client.offload_read(w.source, UINT64 - 4096, 8192).status)


@case
def read_zero_length(w: World) -> None:
    """No bytes: success, the zero token, nothing transferred."""
    grant = w.client.offload_read(w.source, 0, 0)
    expect("status, TransferLength", (SUCCESS, 0), (grant.status, grant.transfer_bytes))
    expect("token", ZERO_TOKEN, grant.token)


@case
def read_at_end(w: World) -> None:
    """An offset at the end of the file."""
    expect("status", END_OF_FILE, w.client.offload_read(w.source, SIZE, 4096).status)


@case
def read_across_end(w: World) -> None:
    """A range that begins in the file and ends behind it: what there is."""
    grant = w.client.offload_read(w.source, SIZE - 4096, 8192)
    expect("status, TransferLength", (SUCCESS, 4096), (grant.status, grant.transfer_bytes))


@case
def read_of_a_hole(w: World) -> None:
    """Nothing but a hole: the zero token, and zeros behind it."""
    w.client.resize(w.source, 0)
    w.client.resize(w.source, SIZE)
    grant = w.client.offload_read(w.source, 0, SIZE // 2)
    expect("status, TransferLength", (SUCCESS, SIZE // 2), (grant.status, grant.transfer_bytes))
    expect("type of the token", ZERO_TOKEN[:4], grant.token[:4])
    expect("ALL_ZERO_BEYOND_CURRENT_RANGE", 1, grant.flags & 1)


@case
def read_before_a_hole(w: World) -> None:
    """Data, then a hole up to the end: the flag tells of the hole, the token of the data."""
    w.client.resize(w.source, 4 * SIZE)
    grant = w.client.offload_read(w.source, 0, SIZE)
    expect("status, flag", (SUCCESS, 1), (grant.status, grant.flags & 1))
    expect("not the zero token", True, grant.token[:4] != ZERO_TOKEN[:4])


@case
def read_before_data(w: World) -> None:
    """Data behind the range: no flag."""
    expect("flag", 0, w.granted(0, SIZE // 2).flags & 1)


@case
def read_beyond_the_limit(w: World) -> None:
    """A range of 1 GiB of a sparse file with data at its begin: a part is told, and is not more than was asked."""
    w.client.resize(w.source, 1 << 30)
    grant = w.client.offload_read(w.source, 0, 1 << 30)
    expect("status", SUCCESS, grant.status)
    expect("TransferLength is 1 byte to 512 MiB", True, 0 < grant.transfer_bytes <= 512 * MIB)


@case
def write_short_input(w: World) -> None:
    """An input of 543 bytes."""
    expect(
        "status",
        BUFFER_TOO_SMALL,
        w.client.offload_write(w.target, 0, SIZE, w.granted().token, cut=543).status,
    )


@case
def write_short_output(w: World) -> None:
    """Room for 15 bytes of output: refused, and nothing is written."""
    done = w.client.offload_write(w.target, 0, SIZE, w.granted().token, output_bytes=15)
    expect("status", BUFFER_TOO_SMALL, done.status)
    expect("the destination is as it was", True, w.client.content(w.target, SIZE) == w.old)


@case
def write_unaligned(w: World) -> None:
    """Offset, length and place in the token must be whole sectors."""
    token = w.granted().token
    found = [
        w.client.offload_write(w.target, 1, 4096, token).status,
        w.client.offload_write(w.target, 0, 4095, token).status,
        w.client.offload_write(w.target, 0, 4096, token, within=1).status,
    ]
    expect("statuses", [INVALID_PARAMETER] * 3, found)


@case
def write_overflow(w: World) -> None:
    """Offset and length beyond 64 bits."""
    status = w.client.offload_write(w.target, UINT64 - 4096, 8192, w.granted().token).status
    expect("status", INVALID_PARAMETER, status)


@case
def write_zero_length(w: World) -> None:
    """No bytes: success."""
    done = w.client.offload_write(w.target, 0, 0, w.granted().token)
    expect("status, LengthWritten", (SUCCESS, 0), (done.status, done.written_bytes))


@case
def write_not_allocated(w: World) -> None:
    """Behind the end of the destination: refused, and the file does not grow."""
    w.client.resize(w.target, SIZE // 2)
    status = w.client.offload_write(w.target, SIZE // 2, 4096, w.granted().token).status
    expect("status", END_OF_FILE, status)
    expect("size of the destination", SIZE // 2, len(w.client.content(w.target, SIZE)))


@case
def write_part_of_a_token(w: World) -> None:
    """From the middle of what the token stands for."""
    done = w.client.offload_write(w.target, 4096, 8192, w.granted().token, within=16384)
    expect("status, LengthWritten", (SUCCESS, 8192), (done.status, done.written_bytes))
    wanted = w.old[:4096] + w.data[16384:24576] + w.old[12288:]
    expect("the destination", True, w.client.content(w.target, SIZE) == wanted)


@case
def write_more_than_the_token(w: World) -> None:
    """Longer than the token: what it stands for, and no byte more."""
    grant = w.granted(0, 8192)
    done = w.client.offload_write(w.target, 0, SIZE, grant.token)
    expect("status, LengthWritten", (SUCCESS, 8192), (done.status, done.written_bytes))
    wanted = w.data[:8192] + w.old[8192:]
    expect("the destination", True, w.client.content(w.target, SIZE) == wanted)


@case
def write_behind_the_token(w: World) -> None:
    """A place in the token at or behind its end."""
    status = w.client.offload_write(w.target, 0, 4096, w.granted(0, 8192).token, within=8192).status
    expect("status", INVALID_PARAMETER, status)
    expect("the destination is as it was", True, w.client.content(w.target, SIZE) == w.old)


@case
def write_is_limited(w: World) -> None:
    """40 MiB at once: a part or all is written, and what is told is what was written."""
    size = 40 * MIB
    w.client.resize(w.source, size)
    w.client.resize(w.target, size)
    w.source.write(b"end of it", size - 4096)
    done = w.client.offload_write(w.target, 0, size, w.granted(0, size).token)
    expect("status", SUCCESS, done.status)
    expect("LengthWritten is 1 byte to 32 MiB", True, 0 < done.written_bytes <= 32 * MIB)
    expect("begin of the destination", True, w.client.content(w.target, SIZE) == w.data)
    expect("nothing behind what was told", bytes(9), w.client.content(w.target, 9, size - 4096))


@case
def write_zero_token(w: World) -> None:
    """The well-known token writes zeros."""
    done = w.client.offload_write(w.target, 4096, 8192, ZERO_TOKEN)
    expect("status, LengthWritten", (SUCCESS, 8192), (done.status, done.written_bytes))
    wanted = w.old[:4096] + bytes(8192) + w.old[12288:]
    expect("the destination", True, w.client.content(w.target, SIZE) == wanted)


@case
def write_keeps_the_size(w: World) -> None:
    """A destination that ends within a sector keeps its end."""
    w.client.resize(w.target, 5000)
    done = w.client.offload_write(w.target, 0, 5120, w.granted().token)
    expect("status", SUCCESS, done.status)
    expect("the destination", True, w.client.content(w.target, SIZE) == w.data[:5000])


@case
def token_twice(w: World) -> None:
    """A token may be used again."""
    token = w.granted().token
    for offset in (0, SIZE // 2):
        done = w.client.offload_write(w.target, offset, SIZE // 2, token)
        expect("status, LengthWritten", (SUCCESS, SIZE // 2), (done.status, done.written_bytes))
    expect("the destination", True, w.client.content(w.target, SIZE) == w.data[: SIZE // 2] * 2)


@case
def token_after_close(w: World) -> None:
    """A token outlives the close of the file it was made from."""
    token = w.granted().token
    w.source.close()
    expect("status", SUCCESS, w.client.offload_write(w.target, 0, SIZE, token).status)
    expect("the destination is the source", True, w.client.content(w.target, SIZE) == w.data)


@case
def token_after_overwrite(w: World) -> None:
    """The source was written since: the token must not give what was not there."""
    token = w.granted().token
    w.source.write(b"something else", 0)
    w.refused(token)


@case
def token_after_truncate(w: World) -> None:
    """The source was cut since."""
    token = w.granted().token
    w.client.resize(w.source, 4096)
    w.refused(token)


@case
def token_after_delete(w: World) -> None:
    """The source was deleted since."""
    token = w.granted().token
    w.client.delete(w.source)
    w.refused(token)


@case
def token_expired(w: World) -> None:
    """Used after the time to live that was asked for."""
    token = w.granted(ttl_ms=50).token
    time.sleep(0.2)
    w.refused(token)


@case
def token_forged(w: World) -> None:
    """The id of a good token with one bit changed."""
    good = w.granted().token
    w.refused(good[:8] + bytes([good[8] ^ 1]) + good[9:])


@case
def token_of_a_reserved_type(w: World) -> None:
    """The id of a good token under a reserved type."""
    w.refused(struct.pack(">I", 0xFFFF0002) + w.granted().token[4:])


@case
def token_of_another_session(w: World) -> None:
    """A token is good within its session only."""
    token = w.granted().token
    other = w.server.connect()
    try:
        target = other.open(f"{w.tag}-target")
        expect("status", INVALID_TOKEN, other.offload_write(target, 0, SIZE, token).status)
        expect("the destination is as it was", True, other.content(target, SIZE) == w.old)
    finally:
        other.close()


@case
def source_is_destination(w: World) -> None:
    """Within one file, apart from each other."""
    grant = w.granted(0, 8192)
    done = w.client.offload_write(w.source, 16384, 8192, grant.token)
    expect("status", SUCCESS, done.status)
    wanted = w.data[:16384] + w.data[:8192] + w.data[24576:]
    expect("the file", True, w.client.content(w.source, SIZE) == wanted)


@case
def overlap(w: World) -> None:
    """Within one file, overlapping, both ways: as if all were read before anything is written."""
    half = SIZE // 2
    expect("status", SUCCESS, w.client.offload_write(w.source, 4096, half, w.granted(0, half).token).status)
    wanted = w.data[:4096] + w.data[:half] + w.data[4096 + half :]
    expect("moved up", True, w.client.content(w.source, SIZE) == wanted)
    expect("status", SUCCESS, w.client.offload_write(w.source, 0, half, w.granted(4096, half).token).status)
    wanted = wanted[4096 : 4096 + half] + wanted[half:]
    expect("moved down", True, w.client.content(w.source, SIZE) == wanted)


@case
def chunk_copy(w: World) -> None:
    """SRV_COPYCHUNK of two chunks."""
    half = SIZE // 2
    status, numbers = w.client.copychunk(
        w.target, w.client.resume_key(w.source), [(0, half, half), (half, 0, half)]
    )
    expect("status and numbers", (SUCCESS, (2, 0, SIZE)), (status, numbers))
    expect("the destination", True, w.client.content(w.target, SIZE) == w.data[half:] + w.data[:half])


@case
def chunk_limits(w: World) -> None:
    """Beyond its limits a server refuses with INVALID_PARAMETER and tells them in a full response."""
    key = w.client.resume_key(w.source)
    status, limits = w.client.copychunk(w.target, key, [(0, 0, 1 << 31)])
    expect("status", INVALID_PARAMETER, status)
    expect("three limits above zero", True, limits is not None and all(limits))
    assert limits is not None
    status, again = w.client.copychunk(w.target, key, [(0, 0, 1)] * (limits[0] + 1))
    expect("one chunk too many", (INVALID_PARAMETER, limits), (status, again))
    expect("the destination is as it was", True, w.client.content(w.target, SIZE) == w.old)


@case
def chunk_short_output(w: World) -> None:
    """Room for 11 bytes of output."""
    status, _ = w.client.copychunk(w.target, w.client.resume_key(w.source), [(0, 0, 4096)], output_bytes=11)
    expect("status", INVALID_PARAMETER, status)


@case
def chunk_bad_key(w: World) -> None:
    """A resume key that was never given."""
    w.client.resume_key(w.source)
    status, _ = w.client.copychunk(w.target, bytes(range(24)), [(0, 0, 4096)])
    expect("status", OBJECT_NAME_NOT_FOUND, status)
    expect("the destination is as it was", True, w.client.content(w.target, SIZE) == w.old)


@case
def chunk_beyond_the_source(w: World) -> None:
    """A chunk that ends behind the source."""
    status, _ = w.client.copychunk(w.target, w.client.resume_key(w.source), [(SIZE - 4096, 0, 8192)])
    expect("status", INVALID_VIEW_SIZE, status)
    expect("the destination is as it was", True, w.client.content(w.target, SIZE) == w.old)


@case
def chunk_into_a_file_not_open_for_reading(w: World) -> None:
    """A destination that was opened for writing only: SRV_COPYCHUNK wants to read it, too."""
    key, target = w.client.resume_key(w.source), w.client.open(f"{w.tag}-target", read=False)
    try:
        expect("status", ACCESS_DENIED, w.client.copychunk(target, key, [(0, 0, 4096)])[0])
    finally:
        target.close()
    expect("the destination is as it was", True, w.client.content(w.target, SIZE) == w.old)


@case
def chunk_of_a_locked_source(w: World) -> None:
    """A source that another open file has locked: what was copied before is told, and the locked chunk is not copied."""
    key, other = w.client.resume_key(w.source), w.client.open(f"{w.tag}-source")
    try:
        w.client.lock(other, 4096, 4096)
        status, numbers = w.client.copychunk(w.target, key, [(0, 0, 4096), (4096, 4096, 4096)])
        expect("status", FILE_LOCK_CONFLICT, status)
        expect("chunks and bytes that were copied", (1, 4096), numbers and (numbers[0], numbers[2]))
    finally:
        other.close()
    wanted = w.data[:4096] + w.old[4096:]
    expect("the destination", True, w.client.content(w.target, SIZE) == wanted)
