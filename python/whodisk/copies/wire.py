"""Server-side copy and copy offload on the wire: codes and structures of MS-SMB2 2.2.31, 2.2.32 and MS-FSCC 2.3.41 to 2.3.44.

All little-endian, but the header of a token, which is big-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

REQUEST_RESUME_KEY = 0x00140078
COPYCHUNK = 0x001440F2
OFFLOAD_READ = 0x00094264
OFFLOAD_WRITE = 0x00098268

TOKEN_BYTES = 512
#: Everything behind this range reads as zeros.
ALL_ZERO_BEYOND = 1
#: Type of the token that stands for zeros.
ZERO_TOKEN = 0xFFFF0001
#: Room for the answers.
RESUME_KEY_OUTPUT_BYTES = 32
COPYCHUNK_OUTPUT_BYTES = 12
OFFLOAD_READ_OUTPUT_BYTES = 528
OFFLOAD_WRITE_OUTPUT_BYTES = 16


class WireError(Exception):
    """An answer that is not what the protocol says; the text says what was expected and what came."""


@dataclass(frozen=True)
class OffloadRead:
    """Answer to OFFLOAD_READ."""

    flags: int
    #: Bytes that the token stands for, which may be fewer than asked for.
    transfer_bytes: int
    token: bytes

    @property
    def is_zeros(self) -> bool:
        """Whether the token is the well-known one for zeros."""
        return int.from_bytes(self.token[:4], "big") == ZERO_TOKEN


@dataclass(frozen=True)
class CopyChunk:
    """Answer to SRV_COPYCHUNK; with INVALID_PARAMETER the three are the server's limits: chunks, bytes of one, bytes of all."""

    chunks: int
    chunk_bytes: int
    total_bytes: int


def copychunk_input(key: bytes, chunks: list[tuple[int, int, int]]) -> bytes:
    """Chunks are (source offset, destination offset, bytes)."""
    assert len(key) == 24, "a resume key is 24 bytes"
    head = struct.pack("<24sII", key, len(chunks), 0)
    return head + b"".join(struct.pack("<QQII", source, target, size, 0) for source, target, size in chunks)


def copychunk_answer(data: bytes) -> CopyChunk:
    """Raises WireError."""
    return CopyChunk(*struct.unpack("<III", _exactly(data, 12, "SRV_COPYCHUNK")))


def resume_key(data: bytes) -> bytes:
    """Raises WireError."""
    if len(data) < 24:
        raise WireError(f"SRV_REQUEST_RESUME_KEY: expected at least 24 bytes, the server sent {len(data)}")
    return data[:24]


def offload_read_input(offset_bytes: int, size_bytes: int, time_to_live_ms: int = 0) -> bytes:
    """0 = the server's own time to live."""
    return struct.pack("<IIIIQQ", 32, 0, time_to_live_ms, 0, offset_bytes, size_bytes)


def offload_read_answer(data: bytes) -> OffloadRead:
    """Raises WireError."""
    size, flags, transfer_bytes, token = struct.unpack(
        "<IIQ512s", _exactly(data, OFFLOAD_READ_OUTPUT_BYTES, "OFFLOAD_READ")
    )
    if size != OFFLOAD_READ_OUTPUT_BYTES:
        raise WireError(f"OFFLOAD_READ: expected Size 528, the server sent {size}")
    return OffloadRead(flags, transfer_bytes, token)


def offload_write_input(
    offset_bytes: int, size_bytes: int, token: bytes, token_offset_bytes: int = 0
) -> bytes:
    """`token_offset_bytes`: where in the token's range to begin."""
    return struct.pack("<IIQQQ512s", 544, 0, offset_bytes, size_bytes, token_offset_bytes, token)


def offload_write_answer(data: bytes) -> int:
    """Bytes written. Raises WireError."""
    size, _flags, written = struct.unpack("<IIQ", _exactly(data, OFFLOAD_WRITE_OUTPUT_BYTES, "OFFLOAD_WRITE"))
    if size != OFFLOAD_WRITE_OUTPUT_BYTES:
        raise WireError(f"OFFLOAD_WRITE: expected Size 16, the server sent {size}")
    return int(written)


def _exactly(data: bytes, size_bytes: int, what: str) -> bytes:
    if len(data) != size_bytes:
        raise WireError(f"{what}: expected an answer of {size_bytes} bytes, the server sent {len(data)}")
    return data
