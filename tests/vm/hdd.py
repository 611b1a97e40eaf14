"""A model of a disk with one arm, served over NBD: each request waits for the arm, its seek and the platter.

Only what makes a disk seek-bound is modelled: a seek that grows with the square root of the distance, a rotation,
a transfer rate; requests one after the other, in the order in which they arrive. All bytes are zero.
"""

from __future__ import annotations

import contextlib
import math
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass
from types import TracebackType

# NBD protocol, doc/proto.md of the NBD project: fixed newstyle negotiation, simple replies.
OPTION_MAGIC = 0x49484156454F5054
OPTION_REPLY_MAGIC = 0x3E889045565A9
REQUEST_MAGIC = 0x25609513
REPLY_MAGIC = 0x67446698
OPT_ABORT, OPT_GO = 2, 7
REP_ACK, REP_INFO, REP_UNSUPPORTED = 1, 3, 0x80000001
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
HAS_FLAGS, SEND_FLUSH = 1, 4
CMD_READ, CMD_WRITE, CMD_DISCONNECT = 0, 1, 2


@dataclass(frozen=True)
class Disk:
    """The numbers of a 7200 rpm disk."""

    size_bytes: int = 16 << 30
    seek_shortest_ms: float = 1.0
    seek_longest_ms: float = 14.0
    rotation_ms: float = 60_000 / 7200
    transfer_bytes_per_s: float = 180e6

    def service_s(self, from_bytes: int, to_bytes: int, length_bytes: int, angle: float) -> float:
        """Seconds for one request; `angle` in [0, 1) is where the platter is. Sequential ones only transfer."""
        transfer_s = length_bytes / self.transfer_bytes_per_s
        if from_bytes == to_bytes:
            return transfer_s
        stroke = math.sqrt(abs(to_bytes - from_bytes) / self.size_bytes)
        seek_ms = self.seek_shortest_ms + (self.seek_longest_ms - self.seek_shortest_ms) * stroke
        return (seek_ms + angle * self.rotation_ms) / 1e3 + transfer_s


class DiskServer:
    """Serves one disk to one client on a loopback port of its own, from `with` to its end."""

    def __init__(self, disk: Disk, seed: int) -> None:
        self._disk = disk
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._client: socket.socket | None = None

    @property
    def port(self) -> int:
        """Port on the loopback address."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> DiskServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for open_socket in (self._client, self._listener):
            if open_socket is not None:
                with contextlib.suppress(OSError):  # the other side was faster
                    open_socket.shutdown(socket.SHUT_RDWR)
                open_socket.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        try:
            self._client, _ = self._listener.accept()
            self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._negotiate(self._client):
                self._transmit(self._client)
        except (OSError, EOFError):
            pass  # the machine was switched off

    def _negotiate(self, client: socket.socket) -> bool:
        client.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTION_MAGIC, FIXED_NEWSTYLE | NO_ZEROES))
        _take(client, 4)
        while True:
            _, option, length = struct.unpack(">QII", _take(client, 16))
            _take(client, length)
            if option == OPT_GO:
                export = struct.pack(">HQH", 0, self._disk.size_bytes, HAS_FLAGS | SEND_FLUSH)
                client.sendall(_option_reply(option, REP_INFO, export) + _option_reply(option, REP_ACK))
                return True
            if option == OPT_ABORT:
                return False
            client.sendall(_option_reply(option, REP_UNSUPPORTED))

    def _transmit(self, client: socket.socket) -> None:
        arm_bytes, free_s = 0, time.monotonic()
        while True:
            magic, _, command, handle, offset, length = struct.unpack(">IHHQQI", _take(client, 28))
            if magic != REQUEST_MAGIC or command == CMD_DISCONNECT:
                return
            if command == CMD_WRITE:
                _take(client, length)
            if command in (CMD_READ, CMD_WRITE):
                service_s = self._disk.service_s(arm_bytes, offset, length, self._random.random())
                # A request that waited in the socket was waiting for the arm.
                free_s = max(free_s, time.monotonic()) + service_s
                arm_bytes = offset + length
                time.sleep(max(0.0, free_s - time.monotonic()))
            data = bytes(length) if command == CMD_READ else b""
            client.sendall(struct.pack(">IIQ", REPLY_MAGIC, 0, handle) + data)


def _option_reply(option: int, kind: int, data: bytes = b"") -> bytes:
    return struct.pack(">QIII", OPTION_REPLY_MAGIC, option, kind, len(data)) + data


def _take(client: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = client.recv(min(length - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
