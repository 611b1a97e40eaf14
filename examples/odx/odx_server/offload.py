"""Copy offload and server-side copy on files of this machine: MS-FSCC 2.3.41 to 2.3.44, MS-FSA 2.1.5.10.22 and 23, MS-SMB2 3.3.5.15.6.

Knows nothing of connections: sessions are names, open files are descriptors. Every refusal has a name in `GUARDS`, so that a test can
take one away and see which case of the conformance suite notices.
"""

from __future__ import annotations

import os
import secrets
import struct
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from odx_server.locks import Locks, Owner

SUCCESS = 0
BUFFER_TOO_SMALL = 0xC0000023
INVALID_PARAMETER = 0xC000000D
END_OF_FILE = 0xC0000011
ACCESS_DENIED = 0xC0000022
DISK_FULL = 0xC000007F
INVALID_TOKEN = 0xC0000365
OBJECT_NAME_NOT_FOUND = 0xC0000034
INVALID_VIEW_SIZE = 0xC000001F
FILE_LOCK_CONFLICT = 0xC0000054

SECTOR_BYTES = 512
TOKEN_BYTES = 512
ZERO_TOKEN = struct.pack(">IHH", 0xFFFF0001, 0, 504) + bytes(504)
#: Of our own tokens; types from 0xFFFF0000 on are reserved.
TOKEN_TYPE = 0x00010001
ALL_ZERO_BEYOND = 1
#: What one token stands for, and what one write takes, at most.
TOKEN_RANGE_BYTES_MAX = 256 << 20
WRITE_BYTES_MAX = 16 << 20
TOKENS_MAX, TOKENS_PER_SESSION_MAX = 1024, 256
TIME_TO_LIVE_MS_DEFAULT, TIME_TO_LIVE_MS_MAX = 30_000, 300_000
CHUNKS_MAX, CHUNK_BYTES_MAX, CHUNKS_TOTAL_BYTES_MAX = 256, 1 << 20, 16 << 20
UINT64 = 1 << 64

GUARDS = (
    "read_input_size",
    "read_output_size",
    "read_alignment",
    "read_overflow",
    "read_end_of_file",
    "token_range_limit",
    "write_input_size",
    "write_output_size",
    "write_alignment",
    "write_overflow",
    "write_allocated",
    "write_limit",
    "token_known",
    "token_type",
    "token_session",
    "token_expired",
    "token_unchanged",
    "token_deleted",
    "token_range",
    "chunk_output_size",
    "chunk_limits",
    "chunk_key",
    "chunk_end_of_file",
    "chunk_access",
    "chunk_locked",
)


class Refused(Exception):
    """A request that is refused; `data` goes along in a full response."""

    def __init__(self, status: int, data: bytes | None = None) -> None:
        super().__init__(f"0x{status:08X}")
        self.status, self.data = status, data


@dataclass
class Token:
    """What a token stands for."""

    session: str
    #: A descriptor of our own: the token outlives the close of the file it was made from.
    descriptor: int
    offset_bytes: int
    size_bytes: int
    stamp: tuple[int, ...]
    ends_ns: int


class Offload:
    """All tokens and resume keys of a server. Safe for threads."""

    def __init__(self, io_bytes: int = 1 << 20, prefetch_bytes: int = 0) -> None:
        #: The server's own reads and writes are of this size.
        self.io_bytes = io_bytes
        #: With each read it fetches so much of what follows, and the kernel fetches nothing ahead; 0: the kernel's readahead.
        self.prefetch_bytes = prefetch_bytes
        #: Guards that a test took away.
        self.removed: set[str] = set()
        self.locks = Locks()
        self._lock = threading.Lock()
        self._tokens: OrderedDict[bytes, Token] = OrderedDict()
        self._keys: dict[bytes, tuple[str, bytes, int, bool]] = {}
        self._changes: dict[tuple[int, int], int] = {}

    def _refuse(self, guard: str, wrong: bool, status: int, data: bytes | None = None) -> None:
        assert guard in GUARDS, guard
        if wrong and guard not in self.removed:
            raise Refused(status, data)

    def changed(self, descriptor: int) -> None:
        """A file was written or cut by a client: coarse clocks of a file system may not show it."""
        found = os.fstat(descriptor)
        with self._lock:
            key = (found.st_dev, found.st_ino)
            self._changes[key] = self._changes.get(key, 0) + 1

    def forget(self, session: str) -> None:
        """A session has ended: what it held goes."""
        with self._lock:
            for name in [name for name, token in self._tokens.items() if token.session == session]:
                os.close(self._tokens.pop(name).descriptor)
            for key in [key for key, value in self._keys.items() if value[0] == session]:
                del self._keys[key]
        self.locks.release(session)

    def tokens(self) -> int:
        """How many are held."""
        return len(self._tokens)

    def read(self, session: str, descriptor: int, data: bytes, output_bytes: int) -> bytes:
        """OFFLOAD_READ. Raises Refused."""
        self._refuse("read_input_size", len(data) < 32, BUFFER_TOO_SMALL)
        self._refuse("read_output_size", output_bytes < 528, BUFFER_TOO_SMALL)
        _size, _flags, ttl_ms, _, offset, length = struct.unpack("<IIIIQQ", data[:32].ljust(32, b"\0"))
        self._refuse(
            "read_alignment", bool(offset % SECTOR_BYTES or length % SECTOR_BYTES), INVALID_PARAMETER
        )
        self._refuse("read_overflow", offset + length >= UINT64, INVALID_PARAMETER)
        if length == 0:
            return struct.pack("<IIQ", 528, 0, 0) + ZERO_TOKEN
        size = os.fstat(descriptor).st_size
        self._refuse("read_end_of_file", offset >= size, END_OF_FILE)
        end = min(offset + length, _up(size))
        if "token_range_limit" not in self.removed:
            end = min(end, offset + TOKEN_RANGE_BYTES_MAX)
        end = max(end, offset)
        flags = ALL_ZERO_BEYOND if end < size and _data_from(descriptor, end, size) is None else 0
        if offset < size and _data_from(descriptor, offset, min(end, size)) is None:
            return struct.pack("<IIQ", 528, flags, end - offset) + ZERO_TOKEN
        token = self._grant(session, descriptor, offset, end - offset, ttl_ms)
        return struct.pack("<IIQ", 528, flags, end - offset) + token

    def _grant(self, session: str, descriptor: int, offset: int, size: int, ttl_ms: int) -> bytes:
        name = secrets.token_bytes(32)
        life_ms = min(ttl_ms or TIME_TO_LIVE_MS_DEFAULT, TIME_TO_LIVE_MS_MAX)
        own = os.dup(descriptor)
        with self._lock:
            self._drop(session)
            stamp = self._stamp(own)
            ends_ns = time.monotonic_ns() + life_ms * 10**6
            self._tokens[name] = Token(session, own, offset, size, stamp, ends_ns)
        return struct.pack(">IHH", TOKEN_TYPE, 0, 504) + name.ljust(504, b"\0")

    def _drop(self, session: str) -> None:
        """Makes room: what has expired goes, then the oldest of this session, then the oldest of all."""
        now_ns = time.monotonic_ns()
        for name in [name for name, token in self._tokens.items() if token.ends_ns < now_ns - 10**10]:
            os.close(self._tokens.pop(name).descriptor)
        own = [name for name, token in self._tokens.items() if token.session == session]
        oldest = own[: max(0, len(own) - TOKENS_PER_SESSION_MAX + 1)]
        if not oldest and len(self._tokens) >= TOKENS_MAX:
            oldest = [next(iter(self._tokens))]
        for name in oldest:
            os.close(self._tokens.pop(name).descriptor)

    def _stamp(self, descriptor: int) -> tuple[int, ...]:
        """What changes when a file does."""
        found = os.fstat(descriptor)
        changes = self._changes.get((found.st_dev, found.st_ino), 0)
        return (found.st_size, found.st_mtime_ns, changes)

    def write(self, session: str, descriptor: int, data: bytes, output_bytes: int) -> bytes:
        """OFFLOAD_WRITE. Raises Refused."""
        self._refuse("write_input_size", len(data) < 544, BUFFER_TOO_SMALL)
        self._refuse("write_output_size", output_bytes < 16, BUFFER_TOO_SMALL)
        _size, _flags, offset, length, within, token = struct.unpack(
            "<IIQQQ512s", data[:544].ljust(544, b"\0")
        )
        odd = any(value % SECTOR_BYTES for value in (offset, length, within))
        self._refuse("write_alignment", odd, INVALID_PARAMETER)
        self._refuse(
            "write_overflow", offset + length >= UINT64 or within + length >= UINT64, INVALID_PARAMETER
        )
        if length == 0:
            return struct.pack("<IIQ", 16, 0, 0)
        size = os.fstat(descriptor).st_size
        self._refuse("write_allocated", offset >= size or offset + length > _up(size), END_OF_FILE)
        if "write_limit" not in self.removed:
            length = min(length, WRITE_BYTES_MAX)
        if token[:4] == ZERO_TOKEN[:4]:
            wanted = length if "write_allocated" in self.removed else min(length, size - offset)
            _zeros(descriptor, offset, wanted, self.io_bytes)
            self.changed(descriptor)
            return struct.pack("<IIQ", 16, 0, length)
        with self._lock:
            held = self._held(session, token)
            source = os.dup(held.descriptor)
        try:
            self._refuse("token_range", within >= held.size_bytes, INVALID_PARAMETER)
            length = min(length, held.size_bytes - within) if "token_range" not in self.removed else length
            wanted = length if "write_allocated" in self.removed else min(length, size - offset)
            _copy(
                source,
                held.offset_bytes + within,
                descriptor,
                offset,
                wanted,
                self.io_bytes,
                self.prefetch_bytes,
            )
        finally:
            os.close(source)
        self.changed(descriptor)
        return struct.pack("<IIQ", 16, 0, length)

    def _held(self, session: str, token: bytes) -> Token:
        kind, _, id_length = struct.unpack(">IHH", token[:8])
        self._refuse("token_type", kind != TOKEN_TYPE or id_length != 504, INVALID_TOKEN)
        held = self._tokens.get(token[8:40])
        if held is None and "token_known" in self.removed and self._tokens:
            held = next(reversed(self._tokens.values()))
        if held is None:
            raise Refused(INVALID_TOKEN)
        self._refuse("token_session", held.session != session, INVALID_TOKEN)
        self._refuse("token_expired", held.ends_ns < time.monotonic_ns(), INVALID_TOKEN)
        self._refuse("token_deleted", os.fstat(held.descriptor).st_nlink == 0, INVALID_TOKEN)
        self._refuse("token_unchanged", self._stamp(held.descriptor) != held.stamp, INVALID_TOKEN)
        return held

    def resume_key(self, session: str, file: bytes, descriptor: int, may_read: bool = True) -> bytes:
        """SRV_REQUEST_RESUME_KEY: the same key for the same open file. `may_read`: what it was opened for."""
        with self._lock:
            key = next((key for key, value in self._keys.items() if value[:2] == (session, file)), None)
            if key is None:
                key = secrets.token_bytes(24)
                self._keys[key] = (session, file, descriptor, may_read)
        return key + bytes(8)

    def closed(self, session: str, file: bytes) -> None:
        """A file was closed: its resume key ends, and its locks."""
        self.locks.release(session, file)
        with self._lock:
            for key in [key for key, value in self._keys.items() if value[:2] == (session, file)]:
                del self._keys[key]

    def copychunk(
        self, owner: Owner, descriptor: int, data: bytes, output_bytes: int, *, allowed: bool = True
    ) -> bytes:
        """SRV_COPYCHUNK into an open file of `owner`. Raises Refused; beyond the limits with the limits.

        `allowed`: whether the destination was opened for what this request needs.
        """
        session = owner[0]
        limits = struct.pack("<III", CHUNKS_MAX, CHUNK_BYTES_MAX, CHUNKS_TOTAL_BYTES_MAX)
        self._refuse("chunk_output_size", output_bytes < 12, INVALID_PARAMETER)
        if len(data) < 32:
            raise Refused(INVALID_PARAMETER)
        key, count, _ = struct.unpack("<24sII", data[:32])
        self._refuse("chunk_limits", count > CHUNKS_MAX, INVALID_PARAMETER, limits)
        if len(data) < 32 + 24 * count:
            raise Refused(INVALID_PARAMETER)
        chunks = [struct.unpack("<QQII", data[32 + 24 * n : 56 + 24 * n])[:3] for n in range(count)]
        sizes = [size for _, _, size in chunks]
        beyond = any(not 0 < size <= CHUNK_BYTES_MAX for size in sizes) or sum(sizes) > CHUNKS_TOTAL_BYTES_MAX
        self._refuse("chunk_limits", beyond, INVALID_PARAMETER, limits)
        with self._lock:
            found = self._keys.get(key)
            if found is None and "chunk_key" in self.removed and self._keys:
                found = next(iter(self._keys.values()))
            if found is None or found[0] != session:
                raise Refused(OBJECT_NAME_NOT_FOUND)
        self._refuse("chunk_access", not (found[3] and allowed), ACCESS_DENIED)
        done = total = 0
        for source, target, size in chunks:
            # What was copied before goes along with the refusal.
            answer = struct.pack("<III", done, 0, total)
            locked = self.locks.conflict(found[:2], found[2], source, size, write=False)
            locked = locked or self.locks.conflict(owner, descriptor, target, size, write=True)
            self._refuse("chunk_locked", locked, FILE_LOCK_CONFLICT, answer)
            past = source + size > os.fstat(found[2]).st_size
            self._refuse("chunk_end_of_file", past, INVALID_VIEW_SIZE, answer)
            _copy(found[2], source, descriptor, target, size, self.io_bytes)
            done, total = done + 1, total + size
        self.changed(descriptor)
        return struct.pack("<III", done, 0, total)


def _up(size_bytes: int) -> int:
    return -(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES


def _data_from(descriptor: int, start: int, end: int) -> int | None:
    """Where the first data of a range are; None if it is a hole."""
    try:
        at = os.lseek(descriptor, start, os.SEEK_DATA)
    except OSError:
        return None
    return at if at < end else None


def _zeros(descriptor: int, offset: int, size: int, io_bytes: int) -> None:
    for at in range(offset, offset + size, io_bytes):
        _all(descriptor, bytes(min(io_bytes, offset + size - at)), at)


def _copy(
    source: int, start: int, target: int, offset: int, size: int, io_bytes: int, prefetch_bytes: int = 0
) -> None:
    """As if all were read before anything is written, where the ranges overlap in one file. Raises OSError."""
    one, other = os.fstat(source), os.fstat(target)
    same = (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
    steps = list(range(0, size, io_bytes))
    # From the end, if the destination lies behind: no piece is overwritten before it was read.
    if same and offset > start:
        steps.reverse()
    if prefetch_bytes:
        os.posix_fadvise(source, 0, 0, os.POSIX_FADV_RANDOM)
    for at in steps:
        length = min(io_bytes, size - at)
        if prefetch_bytes:
            # One per read, from its end on, and asked for first: what the read itself still lacks then waits behind it.
            os.posix_fadvise(source, start + at + length, prefetch_bytes, os.POSIX_FADV_WILLNEED)
        data = os.pread(source, length, start + at)
        _all(target, data.ljust(length, b"\0"), offset + at)


def _all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
