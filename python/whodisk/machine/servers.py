"""Programs of this machine that serve a device or a mount point from user space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import FILES_LOOKED_UP_MAX
from whodisk.machine.disks import mount_point_of
from whodisk.reading.views import NAMESPACE_OPS, quoted
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


#: Stages in which an operation on a file system of a process, or of another machine, is while that works on it.
AT_SERVER = ("fs", "unknown")
#: File systems with their data behind a network, or in a host: what happens there is in no record of this machine. Source: their names in fs/*, and of FUSE
#: those of the clients.
REMOTE = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "virtiofs",
    ]
)


@dataclass(frozen=True)
class Remote:
    """A mount with its data elsewhere."""

    mount: str
    kind: str
    source: str


def file_server_of(context: Context, op_ids: Ints) -> FileServer | None:
    """Who serves the file system that most of these operations are on; None where the kernel does."""
    served = {what: pid for pid, whats in context.case.servers.items() for what in whats if what[:1] == "/"}
    mount = _mount_of(context, op_ids, served)
    return None if mount is None else FileServer(mount, served[mount], _name_of(context, served[mount]))


def remote_of(context: Context, op_ids: Ints) -> Remote | None:
    """The network file system that most of these operations are on."""
    mounts = context.case.system.get("mounts") or {}
    mount = _mount_of(context, op_ids, [point for point, about in mounts.items() if about[1] in REMOTE])
    return None if mount is None else Remote(mount, str(mounts[mount][1]), str(mounts[mount][0]))


def synced_mount_of(context: Context, op_ids: Ints) -> str | None:
    """The mount point that most of these operations' files are on, if it is mounted with `sync`: what changes a file or a folder then returns when the
    disk has it (mount(8)). None where most of them only read, or sync anyway."""
    mounts = context.case.system.get("mounts") or {}
    mount = _mount_of(
        context, op_ids, [point for point, about in mounts.items() if "sync" in str(about[2]).split(",")]
    )
    if mount is None:
        return None
    row = context.case.rows(
        f"""SELECT count(*) AS n, count(*) FILTER (op IN {("write", *NAMESPACE_OPS)}) AS changing
FROM measured WHERE layer = '{context.layer}' AND op_id IN ({_looked_up_sql(op_ids)})"""
    )[0]
    return mount if 2 * int(row["changing"] or 0) > int(row["n"] or 0) else None


def _looked_up_sql(op_ids: Ints) -> str:
    """Evenly spread ones of these, few enough to be named in a query."""
    return (
        ", ".join(str(int(number)) for number in op_ids[:: -(-len(op_ids) // FILES_LOOKED_UP_MAX) or 1])
        or "NULL"
    )


def _mount_of(context: Context, op_ids: Ints, wanted: Collection[str]) -> str | None:
    """The mount point that most of these operations' files are on, if it is one of the wanted ones."""
    if not wanted or "file" not in context.case.columns.get(f"ops/{context.layer}", frozenset()):
        return None
    rows = context.case.rows(
        f"SELECT coalesce(file, '') AS file FROM measured WHERE layer = '{context.layer}' AND op_id IN ({_looked_up_sql(op_ids)})"
    )
    mounts = {*wanted, *(context.case.system.get("mounts") or {})}
    of_files = [mount_point_of(str(row["file"]), mounts) for row in rows]
    mount, number = Counter(of_files).most_common(1)[0] if of_files else (None, 0)
    return mount if mount in wanted and 2 * number > len(rows) else None


def _name_of(context: Context, pid: int) -> str:
    known = {"block_ops": "block" in context.surveys, "waits": "waits" in context.case.columns}
    for table in (table for table, is_there in known.items() if is_there):
        rows = context.case.rows(
            f"SELECT comm FROM {table} WHERE pid = {pid} AND comm IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
        )
        if rows:
            return str(rows[0]["comm"])
    return ""
