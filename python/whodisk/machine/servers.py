"""Programs of this machine that serve a device or a mount point from user space."""

from __future__ import annotations

from whodisk.evidence.context import Context
from whodisk.reading.views import quoted


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
