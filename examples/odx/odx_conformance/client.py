"""The few requests that the cases need, by smbprotocol. A refusal is a status, never an exception."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Any

from smbprotocol.connection import Connection
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.file_info import (
    FileAttributes,
    FileDispositionInformation,
    FileEndOfFileInformation,
    InfoType,
)
from smbprotocol.ioctl import IOCTLFlags, SMB2IOCTLRequest, SMB2IOCTLResponse
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    FilePipePrinterAccessMask,
    ImpersonationLevel,
    LockFlags,
    Open,
    ShareAccess,
    SMB2LockElement,
    SMB2LockRequest,
    SMB2SetInfoRequest,
)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

RESUME_KEY, COPYCHUNK, OFFLOAD_READ, OFFLOAD_WRITE = 0x00140078, 0x001440F2, 0x00094264, 0x00098268
SECONDS_MAX = 30
TOKEN_BYTES = 512


class CannotConnect(Exception):
    """No connection, session or share; the text says why."""


@dataclass(frozen=True)
class Answer:
    """Status and output of an FSCTL."""

    status: int
    data: bytes


@dataclass(frozen=True)
class Grant:
    """Answer to OFFLOAD_READ; without success all is zero."""

    status: int
    size: int = 0
    flags: int = 0
    transfer_bytes: int = 0
    token: bytes = bytes(TOKEN_BYTES)


@dataclass(frozen=True)
class Written:
    """Answer to OFFLOAD_WRITE."""

    status: int
    size: int = 0
    written_bytes: int = 0


@dataclass(frozen=True)
class Server:
    """Where to, and who."""

    host: str
    port: int
    share: str
    user: str
    password: str

    def connect(self) -> Client:
        """A session of its own. Raises CannotConnect."""
        return Client(self)


class Client:
    """One session on one connection."""

    def __init__(self, server: Server) -> None:
        self.connection = Connection(uuid.uuid4(), server.host, server.port, require_signing=True)
        try:
            self.connection.connect(timeout=SECONDS_MAX)
            self.session = Session(self.connection, server.user, server.password, require_encryption=False)
            self.session.connect()
            self.tree = TreeConnect(self.session, f"\\\\{server.host}\\{server.share}")
            self.tree.connect(require_secure_negotiate=False)
        except Exception as error:
            raise CannotConnect(f"{server.host}:{server.port}/{server.share}: {error}") from error

    def close(self) -> None:
        """Ends the connection; the server ends its session."""
        self.connection.disconnect(close=False)

    def open(self, name: str, *, create: bool = False, read: bool = True) -> Open:
        """For writing, and unless told otherwise for reading. Raises SMBResponseException."""
        access = FilePipePrinterAccessMask.FILE_READ_ATTRIBUTES | FilePipePrinterAccessMask.DELETE
        access |= FilePipePrinterAccessMask.FILE_WRITE_DATA
        if read:
            access |= FilePipePrinterAccessMask.FILE_READ_DATA
        file = Open(self.tree, name)
        file.create(
            ImpersonationLevel.Impersonation,
            access,
            FileAttributes.FILE_ATTRIBUTE_NORMAL,
            ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE,
            CreateDisposition.FILE_OVERWRITE_IF if create else CreateDisposition.FILE_OPEN,
            CreateOptions.FILE_NON_DIRECTORY_FILE,
        )
        return file

    def make(self, name: str, content: bytes, size_bytes: int | None = None) -> Open:
        """A file with this content; `size_bytes`: its end, beyond which nothing was written."""
        file = self.open(name, create=True)
        for at in range(0, len(content), 1 << 16):
            file.write(content[at : at + (1 << 16)], at)
        if size_bytes is not None:
            self.resize(file, size_bytes)
        return file

    def content(self, file: Open, size_bytes: int, offset_bytes: int = 0) -> bytes:
        """So many bytes, or up to the end."""
        data = b""
        while len(data) < size_bytes:
            try:
                piece = file.read(offset_bytes + len(data), min(1 << 16, size_bytes - len(data)))
            except SMBResponseException:
                break
            data += piece
        return data

    def resize(self, file: Open, size_bytes: int) -> None:
        """Sets the end of a file."""
        info = FileEndOfFileInformation()
        info["end_of_file"] = size_bytes
        self._set(file, info)

    def delete(self, file: Open) -> None:
        """When it is closed; closes it."""
        info = FileDispositionInformation()
        info["delete_pending"] = True
        self._set(file, info)
        file.close()

    def _set(self, file: Open, info: Any) -> None:
        request = SMB2SetInfoRequest()
        request["info_type"] = InfoType.SMB2_0_INFO_FILE
        request["file_info_class"] = info.INFO_CLASS
        request["file_id"] = file.file_id
        request["buffer"] = info
        self.connection.receive(self._send(request), timeout=SECONDS_MAX)

    def lock(self, file: Open, offset_bytes: int, size_bytes: int) -> None:
        """For itself alone, at once. Raises SMBResponseException."""
        element = SMB2LockElement()
        element["offset"], element["length"] = offset_bytes, size_bytes
        element["flags"].set_value(
            LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK | LockFlags.SMB2_LOCKFLAG_FAIL_IMMEDIATELY
        )
        request = SMB2LockRequest()
        request["file_id"] = file.file_id
        request["locks"] = [element]
        self.connection.receive(self._send(request), timeout=SECONDS_MAX)

    def _send(self, request: Any) -> Any:
        return self.connection.send(request, self.session.session_id, self.tree.tree_connect_id)

    def ioctl(self, file: Open, code: int, data: bytes, output_bytes: int) -> Answer:
        """Any FSCTL. Output that comes along with an error is in the answer."""
        request = SMB2IOCTLRequest()
        request["ctl_code"].enum_strict = False
        request["ctl_code"] = code
        request["file_id"] = file.file_id
        request["max_output_response"] = output_bytes
        request["flags"] = IOCTLFlags.SMB2_0_IOCTL_IS_FSCTL
        request["buffer"] = data
        try:
            received = self.connection.receive(self._send(request), timeout=SECONDS_MAX)
        except SMBResponseException as error:
            body = bytes(error.header["data"].get_value())
            if len(body) < 48 or body[0] != 49:
                return Answer(int(error.status), b"")
            offset, count = struct.unpack("<II", body[32:40])
            return Answer(int(error.status), body[offset - 64 : offset - 64 + count])
        response = SMB2IOCTLResponse()
        response["ctl_code"].enum_strict = False
        response.unpack(received["data"].get_value())
        return Answer(0, bytes(response["buffer"].get_value()))

    def offload_read(
        self,
        file: Open,
        offset_bytes: int,
        size_bytes: int,
        *,
        ttl_ms: int = 0,
        output_bytes: int = 528,
        cut: int = 32,
    ) -> Grant:
        """`cut`: so many bytes of the input are sent."""
        data = struct.pack("<IIIIQQ", 32, 0, ttl_ms, 0, offset_bytes, size_bytes)[:cut]
        answer = self.ioctl(file, OFFLOAD_READ, data, output_bytes)
        if answer.status or len(answer.data) != 528:
            return Grant(answer.status)
        size, flags, transfer_bytes, token = struct.unpack("<IIQ512s", answer.data)
        return Grant(0, size, flags, transfer_bytes, token)

    def offload_write(
        self,
        file: Open,
        offset_bytes: int,
        size_bytes: int,
        token: bytes,
        *,
        within: int = 0,
        output_bytes: int = 16,
        cut: int = 544,
    ) -> Written:
        """`within`: where in the token's range to begin."""
        data = struct.pack("<IIQQQ512s", 544, 0, offset_bytes, size_bytes, within, token)[:cut]
        answer = self.ioctl(file, OFFLOAD_WRITE, data, output_bytes)
        if answer.status or len(answer.data) != 16:
            return Written(answer.status)
        size, _, written = struct.unpack("<IIQ", answer.data)
        return Written(0, size, written)

    def resume_key(self, file: Open) -> bytes:
        """24 bytes."""
        return self.ioctl(file, RESUME_KEY, b"", 32).data[:24]

    def copychunk(
        self, file: Open, key: bytes, chunks: list[tuple[int, int, int]], output_bytes: int = 12
    ) -> tuple[int, tuple[int, int, int] | None]:
        """Status and, if there are any, the three numbers."""
        data = struct.pack("<24sII", key, len(chunks), 0)
        data += b"".join(struct.pack("<QQII", *chunk, 0) for chunk in chunks)
        answer = self.ioctl(file, COPYCHUNK, data, output_bytes)
        numbers = struct.unpack("<III", answer.data) if len(answer.data) == 12 else None
        return answer.status, numbers
