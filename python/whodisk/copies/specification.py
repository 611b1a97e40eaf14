"""The table `[workload]` of a copy, checked. `docs/how-to/copies.md` is tested against `KEYS`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError

#: Name of the command behind `run SPEC` of a copy; no person types it.
COMMAND = "run-copy"

LOCAL = ("read_write", "copy_file_range", "reflink")
SMB = ("smb_read_write", "smb_copychunk", "smb_odx")
METHODS = LOCAL + SMB

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
TIMES = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
BLOCK_BYTES_MAX = 1 << 30


@dataclass(frozen=True)
class Key:
    """One key, as the reference prints it."""

    name: str
    value: str
    default: str
    meaning: str


KEYS = (
    Key("method", ", ".join(f'`"{name}"`' for name in METHODS), "(required)", "How it is copied."),
    Key("source", "path", "(required)", "What is copied; on a server: its name within the share."),
    Key("destination", "path", "(required)", "Where to; replaced if `overwrite` allows it."),
    Key(
        "file_size",
        "size",
        "size of the source",
        "How much is copied. A source that is absent is laid out to this size with random data.",
    ),
    Key("block_size", "size", '`"1MiB"`', "What one operation asks for, 4 KiB to 1 GiB."),
    Key(
        "chunk_size",
        "size",
        "the block size, 1 MiB at most",
        "Of `smb_copychunk`: the chunks that one request is made of.",
    ),
    Key("streams", "count", "`1`", "Parts of the file that are copied side by side, 1 to 64."),
    Key("queue_depth", "count", "`1`", "Operations in flight in each stream, 1 to 64."),
    Key("passes", "count", "`1`", "How often the whole is copied."),
    Key(
        "duration",
        "duration",
        "until all passes are done",
        "No operation begins after it; the verdict says what was not copied by then.",
    ),
    Key("rate", '`"N/s"`', "closed loop", "Blocks per second, over all; each counts from when it was due."),
    Key("overwrite", "`true` or `false`", "`false`", "Whether a destination that exists may be replaced."),
    Key("verify", "`true` or `false`", "`false`", "Reads both files afterwards and compares them."),
    Key(
        "sync",
        "`true` or `false`",
        "`true`",
        "Ends each pass with a sync of the destination, an operation of its own.",
    ),
    Key("server", '`"HOST"` or `"HOST:PORT"`', "(required for `smb_*`)", "The SMB server."),
    Key("share", "name", "(required for `smb_*`)", "The share on it."),
    Key(
        "credentials",
        "path",
        "the environment",
        "File with `username=`, `password=` and perhaps `domain=`, which nobody else may read; else `WHODISK_SMB_USERNAME`, `WHODISK_SMB_PASSWORD`, `WHODISK_SMB_DOMAIN`.",
    ),
    Key("encrypt", "`true` or `false`", "`false`", "SMB 3 encryption."),
    Key(
        "server_pid_file",
        "path",
        "none",
        "A server on this machine: the file that holds its process number. It is recorded beside the copy.",
    ),
)


@dataclass(frozen=True)
class Specification:
    """A checked copy, in base units. None = not given."""

    method: str
    source: str
    destination: str
    file_size_bytes: int | None
    block_bytes: int
    chunk_bytes: int
    streams: int
    queue_depth: int
    passes: int
    duration_s: float | None
    rate_per_s: float | None
    overwrite: bool
    verify: bool
    sync: bool
    server: str
    port: int
    share: str
    credentials: str | None
    encrypt: bool
    server_pid_file: str | None

    @property
    def is_remote(self) -> bool:
        """Whether a server does it."""
        return self.method in SMB


def is_copy(path: Path) -> bool:
    """Whether a file is the specification of a copy: it has `method` in `[workload]`. False for what cannot be read: others report why."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("workload")
    except (OSError, ValueError):
        return False
    return isinstance(table, dict) and "method" in table


def is_among(arguments: Sequence[str]) -> bool:
    """Whether the specification of a copy is among the arguments of `run`."""
    return any(word.endswith(".toml") and is_copy(Path(word)) for word in arguments)


def read(path: Path) -> Specification:
    """Raises WhodiskError naming the file, the key, what was expected and what was found."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WhodiskError(f"{path}: cannot read the access specification: {error.strerror}") from None
    except ValueError as error:
        raise WhodiskError(f"{path}: expected valid TOML, found: {error}") from None
    return parse(document.get("workload", {}), str(path))


def parse(table: dict[str, Any], name: str) -> Specification:
    """As `read`; `name` stands for the file in errors."""
    return _Table(table, name).specification()


class _Table:
    def __init__(self, table: dict[str, Any], name: str) -> None:
        self.table, self.name = table, name

    def wrong(self, key: str, expected: str, found: object) -> WhodiskError:
        return WhodiskError(f"{self.name}: workload.{key}: expected {expected}, found {found}")

    def text(self, key: str) -> str:
        value = self.table.get(key)
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.wrong(key, "text", "none" if value is None else repr(value))
        return value

    def optional(self, key: str) -> str | None:
        return self.text(key) if key in self.table else None

    def truth(self, key: str, default: bool) -> bool:
        value = self.table.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", repr(value))
        return value

    def count(self, key: str, most: int) -> int:
        value = self.table.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(key, f"a number from 1 to {most}", repr(value))
        return value

    def quantity(self, key: str, units: dict[str, float] | dict[str, int], example: str) -> float | None:
        if key not in self.table:
            return None
        value = self.table[key]
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z/]+)", value) if isinstance(value, str) else None
        if not match or match[2] not in units:
            raise self.wrong(key, f"a number with a unit ({', '.join(units)}) such as {example}", repr(value))
        return float(match[1]) * units[match[2]]

    def size(self, key: str, least: int, most: int) -> int | None:
        value = self.quantity(key, UNITS, '"1MiB"')
        if value is None:
            return None
        if value != int(value) or not least <= value <= most:
            raise self.wrong(key, f"whole bytes from {least} to {most}", repr(self.table[key]))
        return int(value)

    def server(self) -> tuple[str, int]:
        host, _, port = self.text("server").rpartition(":")
        if not host or "]" in port:
            return self.text("server").strip("[]"), 445
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise self.wrong("server", '"HOST" or "HOST:PORT"', repr(self.text("server")))
        return host.strip("[]"), int(port)

    def specification(self) -> Specification:
        if unknown := sorted(set(self.table) - {key.name for key in KEYS}):
            raise self.wrong(unknown[0], "a key of a copy (docs/how-to/copies.md)", "one that there is not")
        if (method := self.text("method")) not in METHODS:
            raise self.wrong("method", ", ".join(METHODS), repr(method))
        is_remote = method in SMB
        for key in ("server", "share", "credentials", "encrypt", "server_pid_file"):
            if key in self.table and not is_remote:
                raise self.wrong(
                    key, f"no such key beside method {method}, which needs no server", repr(self.table[key])
                )
        if "chunk_size" in self.table and method != "smb_copychunk":
            raise self.wrong(
                "chunk_size",
                "no such key beside another method than smb_copychunk",
                repr(self.table["chunk_size"]),
            )
        if self.text("source") == self.text("destination"):
            raise self.wrong("destination", "another file than the source", repr(self.text("destination")))
        block = self.size("block_size", 4096, BLOCK_BYTES_MAX) or 1 << 20
        host, port = self.server() if is_remote else ("", 0)
        return Specification(
            method=method,
            source=self.text("source"),
            destination=self.text("destination"),
            file_size_bytes=self.size("file_size", 4096, 1 << 50),
            block_bytes=block,
            chunk_bytes=self.size("chunk_size", 4096, BLOCK_BYTES_MAX) or min(block, 1 << 20),
            streams=self.count("streams", 64),
            queue_depth=self.count("queue_depth", 64),
            passes=self.count("passes", 1_000_000),
            duration_s=self.quantity("duration", TIMES, '"10s"'),
            rate_per_s=self.quantity("rate", {"/s": 1.0}, '"100/s"') or None,
            overwrite=self.truth("overwrite", False),
            verify=self.truth("verify", False),
            sync=self.truth("sync", True),
            server=host,
            port=port,
            share=self.text("share") if is_remote else "",
            credentials=self.optional("credentials"),
            encrypt=self.truth("encrypt", False),
            server_pid_file=self.optional("server_pid_file"),
        )
