"""Programs of this machine that serve a device or a mount point from user space."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import FILES_LOOKED_UP_MAX
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints


@dataclass(frozen=True)
class FileServer:
    """A process that serves a file system of this machine (FUSE)."""

    mount: str
    pid: int
    #: What its threads are called; "" where the record has none of them.
    name: str

    @property
    def said(self) -> str:
        return f"process {self.pid}" if not self.name else f"{self.name} (process {self.pid})"


def serving_pids(context: Context) -> frozenset[int]:
    """Processes that serve, from user space, a device or a mount point that the judged operations are on."""
    servers = context.case.servers
    if not servers:
        return frozenset()
    devices = {device for survey in context.surveys.values() for device in survey.by_device()}

    def serves(what: str) -> bool:
        return what in devices or (what.startswith("/") and _has_files(context, what))

    return frozenset(pid for pid, served in servers.items() if any(serves(what) for what in served))


def serving_names(context: Context) -> frozenset[str]:
    """What their threads are called, of those that had a CPU for which others waited."""
    pids = serving_pids(context)
    if not pids or "waits" not in context.case.columns:
        return frozenset()
    rows = context.case.rows(
        f"SELECT DISTINCT cause FROM waits WHERE state = 'runnable' AND cause_pid IN ({', '.join(map(str, sorted(pids)))})"
    )
    return frozenset(str(row["cause"]) for row in rows)


def _has_files(context: Context, mount: str) -> bool:
    below = quoted(mount.rstrip("/") + "/")
    return bool(context.case.rows(f"SELECT 1 AS one FROM measured WHERE starts_with(file, {below}) LIMIT 1"))


def file_server_of(context: Context, op_ids: Ints) -> FileServer | None:
    """Who serves the file system that most of these operations are on; None where the kernel does."""
    mounts = [
        (what, pid) for pid, served in context.case.servers.items() for what in served if what[:1] == "/"
    ]
    if not mounts or "file" not in context.case.columns.get(f"ops/{context.layer}", frozenset()):
        return None
    ids = ", ".join(str(int(number)) for number in op_ids[:: -(-len(op_ids) // FILES_LOOKED_UP_MAX) or 1])
    rows = context.case.rows(
        f"SELECT coalesce(file, '') AS file FROM measured WHERE layer = '{context.layer}' AND op_id IN ({ids or 'NULL'})"
    )
    # The longest mount point that a path begins with is the one that it is on.
    for mount, pid in sorted(mounts, reverse=True, key=lambda of: len(of[0])):
        on_it = sum(str(row["file"]).startswith(mount.rstrip("/") + "/") for row in rows)
        if 2 * on_it > len(rows):
            return FileServer(mount, pid, _name_of(context, pid))
    return None


def _name_of(context: Context, pid: int) -> str:
    known = {"block_ops": "block" in context.surveys, "waits": "waits" in context.case.columns}
    for table in (table for table, is_there in known.items() if is_there):
        rows = context.case.rows(
            f"SELECT comm FROM {table} WHERE pid = {pid} AND comm IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
        )
        if rows:
            return str(rows[0]["comm"])
    return ""
