"""Copies within a file system: read and write, copy_file_range, and sharing of blocks (FICLONERANGE)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from whodisk.copies.base import Answer, CopyError, Link, Logger, alike_bytes
from whodisk.copies.specification import Specification

#: _IOW(0x94, 13, struct file_clone_range), include/uapi/linux/fs.h.
FICLONERANGE = 0x4020940D
#: A source is laid out in pieces of this size.
LAYOUT_BYTES = 1 << 20
COMPARE_BYTES = 1 << 20


class Local:
    """Both files on this machine."""

    def __init__(self, spec: Specification) -> None:
        self.spec = spec
        self.source, self.destination = Path(spec.source), Path(spec.destination)

    def prepare(self) -> int:
        """See `Method`."""
        spec = self.spec
        if not self.source.exists():
            if spec.file_size_bytes is None:
                raise CopyError(
                    f"{self.source}: expected a file, found none; name one, or say file_size to lay it out"
                )
            lay_out(self.source, spec.file_size_bytes)
        if not self.source.is_file():
            raise CopyError(f"{self.source}: expected a file, found something else")
        size = self.source.stat().st_size
        wanted = size if spec.file_size_bytes is None else spec.file_size_bytes
        if wanted > size or wanted == 0:
            raise CopyError(
                f"{self.source}: expected at least {max(wanted, 1)} bytes, found {size}; lower file_size"
            )
        if self.destination.exists():
            if not spec.overwrite:
                raise CopyError(
                    f"{self.destination}: expected no such file, found one; remove it, or say overwrite = true"
                )
            if self.destination.samefile(self.source):
                raise CopyError(f"{self.destination}: expected another file than the source, found the same")
        try:
            with self.destination.open("wb"):
                pass
        except OSError as error:
            raise CopyError(f"{self.destination}: cannot make the destination: {error.strerror}") from None
        return wanted

    def link(self) -> Link:
        """See `Method`."""
        source = os.open(self.source, os.O_RDONLY | os.O_CLOEXEC)
        destination = os.open(self.destination, os.O_RDWR | os.O_CLOEXEC)
        return LINKS[self.spec.method](source, destination)

    def difference(self, size_bytes: int) -> int | None:
        """See `Method`."""
        with self.source.open("rb") as one, self.destination.open("rb") as other:
            for at in range(0, size_bytes, COMPARE_BYTES):
                length = min(COMPARE_BYTES, size_bytes - at)
                left, right = one.read(length), other.read(length)
                if left != right:
                    return at + alike_bytes(left, right)
        return None


class ReadWrite:
    """pread and pwrite, each an operation."""

    def __init__(self, source: int, destination: int) -> None:
        self.source, self.destination = source, destination

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """See `Link`."""
        done = 0
        while done < size_bytes:
            data = b""

            def read(at: int = offset_bytes + done, size: int = size_bytes - done) -> Answer:
                nonlocal data
                data = os.pread(self.source, size, at)
                return Answer(len(data))

            answer = log.call("read", "pread", offset_bytes + done, size_bytes - done, read)
            if answer.error or not data:
                return done
            written = 0
            while written < len(data):
                piece = memoryview(data)[written:]
                at = offset_bytes + done + written
                answer = log.call(
                    "write",
                    "pwrite",
                    at,
                    len(piece),
                    lambda piece=piece, at=at: Answer(os.pwrite(self.destination, piece, at)),  # type: ignore[misc]
                )
                if answer.error or not answer.transferred_bytes:
                    return done + written
                written += answer.transferred_bytes
            done += written
        return done

    def sync(self, log: Logger) -> bool:
        """See `Link`."""

        def sync() -> Answer:
            os.fsync(self.destination)
            return Answer(0)

        return not log.call("sync", "fsync", 0, 0, sync).error

    def close(self) -> None:
        """See `Link`."""
        os.close(self.source)
        os.close(self.destination)


class CopyFileRange(ReadWrite):
    """One call of the kernel, which may share blocks, copy within the server of a network file system, or copy by itself."""

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """See `Link`."""
        done = 0
        while done < size_bytes:
            at, size = offset_bytes + done, size_bytes - done

            def copy(at: int = at, size: int = size) -> Answer:
                return Answer(os.copy_file_range(self.source, self.destination, size, at, at))

            answer = log.call("copy", "copy_file_range", at, size, copy)
            if answer.error or not answer.transferred_bytes:
                return done
            done += answer.transferred_bytes
        return done


class Reflink(ReadWrite):
    """The destination shares the blocks of the source: nothing is copied until one of them is written."""

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """See `Link`."""

        def share() -> Answer:
            fcntl.ioctl(
                self.destination,
                FICLONERANGE,
                struct.pack("qQQQ", self.source, offset_bytes, size_bytes, offset_bytes),
            )
            return Answer(size_bytes)

        answer = log.call("copy", "FICLONERANGE", offset_bytes, size_bytes, share)
        return 0 if answer.error else size_bytes


LINKS = {"read_write": ReadWrite, "copy_file_range": CopyFileRange, "reflink": Reflink}


def lay_out(path: Path, size_bytes: int) -> None:
    """A file of random data, on the disk and out of the page cache. Raises CopyError."""
    try:
        with path.open("xb") as file:
            for at in range(0, size_bytes, LAYOUT_BYTES):
                file.write(os.urandom(min(LAYOUT_BYTES, size_bytes - at)))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        path.unlink(missing_ok=True)
        why = os.strerror(errno.ENOSPC) if error.errno == errno.ENOSPC else error.strerror
        raise CopyError(f"{path}: cannot lay the source out: {why}; free space or lower file_size") from None
