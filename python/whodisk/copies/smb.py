"""Copies on an SMB server: by reads and writes of the client, by SRV_COPYCHUNK, and by copy offload (ODX).

The package `smbprotocol` speaks the protocol; the codes of copies are ours. Every submitter has a connection of its own, so that none
waits for another one's answer, and tokens and resume keys stay within their session.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from whodisk.copies import wire
from whodisk.copies.base import Answer, CopyError, Link, Logger, alike_bytes
from whodisk.copies.specification import Specification

#: Longest wait for one answer: a server that is silent for this long has failed the operation.
ANSWER_SECONDS_MAX = 60
#: What a connection asks for at its begin; a request needs one per 64 KiB.
CREDITS = 256
COMPARE_BYTES = 1 << 20
#: Offload is of whole logical sectors; 4 KiB suit all disks.
SECTOR_BYTES = 4096
#: What the protocol's statuses are among the errors of this system; EIO for the rest.
ERRNO = {
    0xC0000010: errno.EOPNOTSUPP,  # INVALID_DEVICE_REQUEST
    0xC00000BB: errno.EOPNOTSUPP,  # NOT_SUPPORTED
    0xC000000D: errno.EINVAL,  # INVALID_PARAMETER
    0xC000000F: errno.ENOENT,  # NO_SUCH_FILE
    0xC0000011: errno.ENODATA,  # END_OF_FILE
    0xC0000022: errno.EACCES,  # ACCESS_DENIED
    0xC0000034: errno.ENOENT,  # OBJECT_NAME_NOT_FOUND
    0xC0000035: errno.EEXIST,  # OBJECT_NAME_COLLISION
    0xC0000043: errno.EBUSY,  # SHARING_VIOLATION
    0xC000006D: errno.EACCES,  # LOGON_FAILURE
    0xC000007F: errno.ENOSPC,  # DISK_FULL
    0xC00000CC: errno.ENOENT,  # BAD_NETWORK_NAME
    0xC0000365: errno.EINVAL,  # INVALID_TOKEN
}
CONNECTION_LOST = errno.ECONNRESET
T = TypeVar("T")


def credentials(spec: Specification) -> tuple[str, str]:
    """Name (with its domain) and password, out of the file or the environment. Raises CopyError; never reveals the password."""
    if spec.credentials is None:
        values = {
            key: os.environ.get(f"WHODISK_SMB_{key.upper()}", "")
            for key in ("username", "password", "domain")
        }
        origin = "the environment (WHODISK_SMB_USERNAME, WHODISK_SMB_PASSWORD)"
    else:
        path, origin = Path(spec.credentials), spec.credentials
        try:
            if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise CopyError(
                    f"{path}: expected a file that only its owner may read, found others may; chmod 600 it"
                )
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise CopyError(f"{path}: cannot read the credentials: {error.strerror}") from None
        values = {key.strip(): value for key, _, value in (line.partition("=") for line in lines)}
    if not values.get("username"):
        raise CopyError(f"{origin}: expected username and password, found no username")
    name, domain = values["username"], values.get("domain", "")
    return (f"{domain}\\{name}" if domain else name), values.get("password", "")


class Remote:
    """Both files on a share."""

    def __init__(self, spec: Specification) -> None:
        try:
            import smbprotocol  # noqa: F401
        except ImportError:
            raise CopyError(
                f"method {spec.method}: expected the Python package smbprotocol, found none; install whodisk[smb]"
            ) from None
        self.spec = spec
        self.name, self.password = credentials(spec)

    def prepare(self) -> int:
        """See `Method`."""
        spec = self.spec
        with Connection(self) as connection:
            try:
                source = connection.open(spec.source, "read")
            except ServerError as error:
                if error.errno != errno.ENOENT or spec.file_size_bytes is None:
                    raise CopyError(
                        f"{self.where(spec.source)}: cannot open the source: {error}"
                        + (
                            "; name another, or say file_size to lay it out"
                            if error.errno == errno.ENOENT
                            else ""
                        )
                    ) from None
                self._lay_out(connection, spec.file_size_bytes)
                source = connection.open(spec.source, "read")
            size = source.end_of_file
            wanted = size if spec.file_size_bytes is None else spec.file_size_bytes
            if wanted > size or wanted == 0:
                raise CopyError(
                    f"{self.where(spec.source)}: expected at least {max(wanted, 1)} bytes, found {size}; lower file_size"
                )
            try:
                destination = connection.open(spec.destination, "replace" if spec.overwrite else "create")
                # Offload writes to what is there (MS-FSA 2.1.5.10.23): the size first.
                connection.resize(destination, wanted)
            except ServerError as error:
                hint = "; remove it, or say overwrite = true" if error.errno == errno.EEXIST else ""
                raise CopyError(
                    f"{self.where(spec.destination)}: cannot make the destination: {error}{hint}"
                ) from None
            return int(wanted)

    def link(self) -> Link:
        """See `Method`."""
        return LINKS[self.spec.method](self)

    def difference(self, size_bytes: int) -> int | None:
        """See `Method`."""
        with Connection(self) as connection:
            one = connection.open(self.spec.source, "read")
            other = connection.open(self.spec.destination, "read")
            step = min(COMPARE_BYTES, connection.read_bytes_max)
            for at in range(0, size_bytes, step):
                length = min(step, size_bytes - at)
                left, right = connection.read(one, at, length), connection.read(other, at, length)
                if left != right or len(left) < length:
                    return at + alike_bytes(left, right)
        return None

    def where(self, name: str) -> str:
        """For messages."""
        return f"//{self.spec.server}:{self.spec.port}/{self.spec.share}/{name}"

    def _lay_out(self, connection: Connection, size_bytes: int) -> None:
        try:
            file = connection.open(self.spec.source, "create")
            step = connection.write_bytes_max
            for at in range(0, size_bytes, step):
                connection.write(file, at, os.urandom(min(step, size_bytes - at)))
            connection.flush(file)
        except ServerError as error:
            raise CopyError(
                f"{self.where(self.spec.source)}: cannot lay the source out: {error}; free space or lower file_size"
            ) from None


class ServerError(OSError):
    """What a server refused, or a connection that is gone (then `status` is None)."""

    def __init__(self, number: int, words: str, status: int | None, data: bytes = b"") -> None:
        super().__init__(number, words)
        self.status = status
        #: What came along with the error.
        self.data = data
        self.words = words

    def __str__(self) -> str:
        return self.words


class Connection:
    """One connection with its session and share. Used by one thread. Raises CopyError if it cannot be made."""

    def __init__(self, remote: Remote) -> None:
        from smbprotocol.connection import Connection as Transport
        from smbprotocol.session import Session
        from smbprotocol.tree import TreeConnect

        spec = remote.spec
        # SMB 3.1.1 refuses a share to a client that does not sign.
        self.transport = Transport(uuid.uuid4(), spec.server, spec.port, require_signing=True)
        try:
            self.transport.connect(timeout=ANSWER_SECONDS_MAX)
            self.session = Session(
                self.transport, remote.name, remote.password, require_encryption=spec.encrypt
            )
            self.session.connect()
            self.tree = TreeConnect(self.session, f"\\\\{spec.server}\\{spec.share}")
            # The check of MS-SMB2 3.2.5.5 against a man in the middle needs a signed session, which guests do not have.
            self.tree.connect(require_secure_negotiate=spec.encrypt)
            if self.transport.supports_multi_credit:
                self.transport.echo(
                    self.session.session_id, timeout=ANSWER_SECONDS_MAX, credit_request=CREDITS
                )
        except Exception as error:
            self.close()
            raise CopyError(f"{remote.where('')}: cannot connect: {_translated(error)}") from None
        have = self.transport.sequence_window["high"] - self.transport.sequence_window["low"]
        room = max(1, have - 2) << 16 if self.transport.supports_multi_credit else 1 << 16
        self.read_bytes_max = min(self.transport.max_read_size, room)
        self.write_bytes_max = min(self.transport.max_write_size, room)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Whatever state it is in; open files are closed by the server."""
        try:
            self.transport.disconnect(close=False, timeout=5)
        except Exception:
            # A connection that is gone cannot be ended.
            return

    def open(self, name: str, how: str) -> Any:
        """`how`: read, write (it must be there), create (it must not), replace."""
        from smbprotocol.file_info import FileAttributes
        from smbprotocol.open import (
            CreateDisposition,
            CreateOptions,
            FilePipePrinterAccessMask,
            ImpersonationLevel,
            Open,
            ShareAccess,
        )

        read = FilePipePrinterAccessMask.FILE_READ_DATA | FilePipePrinterAccessMask.FILE_READ_ATTRIBUTES
        write = FilePipePrinterAccessMask.FILE_WRITE_DATA | FilePipePrinterAccessMask.FILE_WRITE_ATTRIBUTES
        disposition = {
            "read": CreateDisposition.FILE_OPEN,
            "write": CreateDisposition.FILE_OPEN,
            "create": CreateDisposition.FILE_CREATE,
            "replace": CreateDisposition.FILE_OVERWRITE_IF,
        }[how]
        file = Open(self.tree, name.replace("/", "\\"))
        _raising(
            lambda: file.create(
                ImpersonationLevel.Impersonation,
                read if how == "read" else read | write,
                FileAttributes.FILE_ATTRIBUTE_NORMAL,
                ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE,
                disposition,
                CreateOptions.FILE_NON_DIRECTORY_FILE,
            )
        )
        return file

    def resize(self, file: Any, size_bytes: int) -> None:
        """Sets the end of a file."""
        from smbprotocol.file_info import FileEndOfFileInformation, InfoType
        from smbprotocol.open import SMB2SetInfoRequest

        info = FileEndOfFileInformation()
        info["end_of_file"] = size_bytes
        request = SMB2SetInfoRequest()
        request["info_type"] = InfoType.SMB2_0_INFO_FILE
        request["file_info_class"] = info.INFO_CLASS
        request["file_id"] = file.file_id
        request["buffer"] = info
        self._answer(request)

    def read(self, file: Any, offset_bytes: int, size_bytes: int) -> bytes:
        """May be shorter; empty at the end of the file."""
        request, _ = file.read(offset_bytes, size_bytes, send=False)
        from smbprotocol.open import SMB2ReadResponse

        response = SMB2ReadResponse()
        response.unpack(self._answer(request))
        return bytes(response["buffer"].get_value())

    def write(self, file: Any, offset_bytes: int, data: bytes) -> int:
        """Bytes that the server says it wrote."""
        from smbprotocol.open import SMB2WriteResponse

        request, _ = file.write(data, offset_bytes, send=False)
        response = SMB2WriteResponse()
        response.unpack(self._answer(request))
        return int(response["count"].get_value())

    def flush(self, file: Any) -> None:
        """Makes a file durable."""
        request, _ = file.flush(send=False)
        self._answer(request)

    def ioctl(self, file: Any, code: int, data: bytes, output_bytes: int) -> bytes:
        """Any FSCTL. A ServerError carries the output that came along, if it was a full answer."""
        from smbprotocol.ioctl import IOCTLFlags, SMB2IOCTLRequest, SMB2IOCTLResponse

        request = SMB2IOCTLRequest()
        # The library knows few codes; ours are numbers.
        request["ctl_code"].enum_strict = False
        request["ctl_code"] = code
        request["file_id"] = file.file_id
        request["max_output_response"] = output_bytes
        request["flags"] = IOCTLFlags.SMB2_0_IOCTL_IS_FSCTL
        request["buffer"] = data
        response = SMB2IOCTLResponse()
        response["ctl_code"].enum_strict = False
        response.unpack(self._answer(request))
        return bytes(response["buffer"].get_value())

    def _answer(self, request: Any) -> bytes:
        def exchange() -> bytes:
            sent = self.transport.send(request, self.session.session_id, self.tree.tree_connect_id)
            received = self.transport.receive(sent, timeout=ANSWER_SECONDS_MAX)
            return bytes(received["data"].get_value())

        return _raising(exchange)


def _raising(do: Callable[[], T]) -> T:
    try:
        return do()
    except Exception as error:
        raise _translated(error) from None


def _translated(error: Exception) -> ServerError:
    from smbprotocol.exceptions import SMBResponseException

    if isinstance(error, ServerError):
        return error
    if isinstance(error, SMBResponseException):
        status = int(error.status)
        # "What it means. (3221225488) STATUS_NAME: 0xc0000010" of the library; the number stands beside the words.
        words = str(error).removeprefix("Received unexpected status from the server: ")
        words = re.sub(r"\.? \(\d+\) (?:STATUS_)?(\w+): 0x[0-9a-f]{8}$", r": \1", words)
        return ServerError(ERRNO.get(status, errno.EIO), words, status, _full_answer(error))
    number = error.errno if isinstance(error, OSError) and error.errno else CONNECTION_LOST
    return ServerError(number, f"connection lost: {error}", None)


def _full_answer(error: Any) -> bytes:
    """The output of an IOCTL that failed in a full response of 49 bytes and more (SRV_COPYCHUNK beyond its limits)."""
    data = bytes(error.header["data"].get_value())
    if len(data) < 48 or int.from_bytes(data[:2], "little") != 49:
        return b""
    offset, count = (int.from_bytes(data[at : at + 4], "little") for at in (32, 36))
    return data[offset - 64 : offset - 64 + count]


class SmbLink:
    """What all ways on a server share."""

    def __init__(self, remote: Remote) -> None:
        self.connection = Connection(remote)
        self.spec = remote.spec
        try:
            self.source = self.connection.open(self.spec.source, "read")
            self.destination = self.connection.open(self.spec.destination, "write")
        except ServerError as error:
            self.connection.close()
            raise CopyError(f"{remote.where('')}: cannot open both files: {error}") from None

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """See `Link`."""
        raise NotImplementedError

    def sync(self, log: Logger) -> bool:
        """See `Link`."""

        def flush() -> Answer:
            self.connection.flush(self.destination)
            return Answer(0, status=0)

        return not log.call("sync", "FLUSH", 0, 0, _told(flush)).error

    def close(self) -> None:
        """See `Link`."""
        self.connection.close()


def _told(do: Callable[[], Answer]) -> Callable[[], Answer]:
    """A refusal becomes an answer, with the server's status and words."""

    def call() -> Answer:
        try:
            return do()
        except ServerError as error:
            return Answer(0, error.errno or errno.EIO, error.status, error.words)
        except wire.WireError as error:
            return Answer(0, errno.EPROTO, 0, str(error))

    return call


class SmbReadWrite(SmbLink):
    """READ and WRITE: the data go through the client. The server limits the size of each (65,536 bytes and up)."""

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """See `Link`."""
        done = 0
        size_max = min(self.connection.read_bytes_max, self.connection.write_bytes_max)
        while done < size_bytes:
            at, size, data = offset_bytes + done, min(size_bytes - done, size_max), b""

            def read(at: int = at, size: int = size) -> Answer:
                nonlocal data
                data = self.connection.read(self.source, at, size)
                return Answer(len(data), status=0)

            answer = log.call("read", "READ", at, size, _told(read))
            if answer.error or not data:
                return done

            def write(at: int = at, data: bytes = data) -> Answer:
                return Answer(self.connection.write(self.destination, at, data), status=0)

            answer = log.call("write", "WRITE", at, len(data), _told(write))
            if answer.error or not answer.transferred_bytes:
                return done
            # What was read beyond that is read again.
            done += answer.transferred_bytes
        return done


class SmbCopyChunk(SmbLink):
    """SRV_COPYCHUNK: the server copies. Beyond its limits it reports them, and the request is made again within them."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(remote)
        self.key: bytes | None = None
        self.chunk_bytes = self.spec.chunk_bytes
        self.chunks_max, self.total_bytes_max = 1 << 30, self.spec.block_bytes

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """See `Link`."""
        done = 0
        while done < size_bytes:
            if self.key is None and not self._key(log):
                return done
            size = min(size_bytes - done, self.total_bytes_max, self.chunks_max * self.chunk_bytes)
            at = offset_bytes + done
            answer = log.call(
                "copy", "SRV_COPYCHUNK", at, size, _told(functools.partial(self._copy, at, size))
            )
            done += answer.transferred_bytes
            if answer.error == errno.EMSGSIZE:
                continue
            if answer.error or not answer.transferred_bytes:
                return done
        return done

    def _key(self, log: Logger) -> bool:
        def ask() -> Answer:
            data = self.connection.ioctl(
                self.source, wire.REQUEST_RESUME_KEY, b"", wire.RESUME_KEY_OUTPUT_BYTES
            )
            self.key = wire.resume_key(data)
            return Answer(0, status=0)

        return not log.call("other", "SRV_REQUEST_RESUME_KEY", 0, 0, _told(ask)).error

    def _copy(self, offset_bytes: int, size_bytes: int) -> Answer:
        assert self.key is not None
        ends = range(offset_bytes, offset_bytes + size_bytes, self.chunk_bytes)
        chunks = [(at, at, min(self.chunk_bytes, offset_bytes + size_bytes - at)) for at in ends]
        data = wire.copychunk_input(self.key, chunks)
        try:
            answer = wire.copychunk_answer(
                self.connection.ioctl(self.destination, wire.COPYCHUNK, data, wire.COPYCHUNK_OUTPUT_BYTES)
            )
        except ServerError as error:
            if error.errno == errno.EINVAL and len(error.data) == wire.COPYCHUNK_OUTPUT_BYTES:
                return self._obey(wire.copychunk_answer(error.data), chunks, size_bytes, error)
            raise
        return Answer(answer.total_bytes, status=0)

    def _obey(
        self, limits: wire.CopyChunk, chunks: list[tuple[int, int, int]], size_bytes: int, error: ServerError
    ) -> Answer:
        """Takes over the server's limits; if the request was within them, it was refused for another reason."""
        beyond = (
            len(chunks) > limits.chunks
            or self.chunk_bytes > limits.chunk_bytes
            or size_bytes > limits.total_bytes
        )
        if not beyond or not (limits.chunks and limits.chunk_bytes and limits.total_bytes):
            raise error
        self.chunks_max, self.total_bytes_max = limits.chunks, limits.total_bytes
        self.chunk_bytes = min(self.chunk_bytes, limits.chunk_bytes)
        words = f"beyond the server's limits: {limits.chunks} chunks, {limits.chunk_bytes} bytes each, {limits.total_bytes} in all"
        return Answer(0, errno.EMSGSIZE, error.status, words)


class SmbOdx(SmbLink):
    """OFFLOAD_READ gives a token for a range, OFFLOAD_WRITE writes what it stands for; either may do less than asked."""

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """See `Link`."""
        done = 0
        while done < size_bytes:
            # Whole sectors; what lies behind the end of the file is left out by the server.
            at, size = offset_bytes + done, -(-(size_bytes - done) // SECTOR_BYTES) * SECTOR_BYTES
            token: wire.OffloadRead | None = None

            def read(at: int = at, size: int = size) -> Answer:
                nonlocal token
                data = self.connection.ioctl(
                    self.source,
                    wire.OFFLOAD_READ,
                    wire.offload_read_input(at, size),
                    wire.OFFLOAD_READ_OUTPUT_BYTES,
                )
                token = wire.offload_read_answer(data)
                return Answer(token.transfer_bytes, status=0, words="zeros" if token.is_zeros else "")

            answer = log.call("read", "OFFLOAD_READ", at, size, _told(read))
            if answer.error or token is None or not answer.transferred_bytes:
                return done
            got = min(answer.transferred_bytes, size)
            written = self._write(at, got, token.token, log)
            done += written
            if written < got:
                break
        return min(done, size_bytes)

    def _write(self, offset_bytes: int, size_bytes: int, token: bytes, log: Logger) -> int:
        """What a token stands for, in as many requests as the server needs."""
        token_ns, done = time.monotonic_ns(), 0
        while done < size_bytes:

            def write(done: int = done) -> Answer:
                data = wire.offload_write_input(offset_bytes + done, size_bytes - done, token, done)
                output = self.connection.ioctl(
                    self.destination, wire.OFFLOAD_WRITE, data, wire.OFFLOAD_WRITE_OUTPUT_BYTES
                )
                return Answer(wire.offload_write_answer(output), status=0)

            at, size = offset_bytes + done, size_bytes - done
            answer = log.call("write", "OFFLOAD_WRITE", at, size, _told(write), token_ns)
            if answer.error or not answer.transferred_bytes:
                return done
            done += min(answer.transferred_bytes, size)
        return done


LINKS: dict[str, Callable[[Remote], SmbLink]] = {
    "smb_read_write": SmbReadWrite,
    "smb_copychunk": SmbCopyChunk,
    "smb_odx": SmbOdx,
}
