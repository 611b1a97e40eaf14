"""The programs whose requests are in a case: the judged one, and others on the same devices."""

from __future__ import annotations

import re

from whodisk.detectors.base import Context
from whodisk.views import quoted

#: Threads of the kernel that work for whoever caused it: their requests belong to the judged program, too.
KERNEL_WORKER = re.compile(
    r"(kworker|jbd2|xfsaild|xfs-|btrfs|kswapd|ksoftirqd|swapper|loop[0-9]|flush|iou-|io_wq|md[0-9]*_raid|dmcrypt|kcryptd|"
    r"whodisk|rcu|migration|khugepaged|kcompactd|ksmd|kdamond|kthreadd|khungtaskd|oom_reaper|cpuhp).*"
)


def own_sql(context: Context) -> str:
    """The names that the judged operations come from."""
    return f"SELECT comm FROM measured WHERE layer = '{context.layer}' AND comm IS NOT NULL GROUP BY 1"


def serving_pids(context: Context) -> frozenset[int]:
    """Processes that serve, from user space, a device or a mount point that the judged operations are on."""
    servers: dict[str, list[str]] = context.case.system.get("servers") or {}
    if not servers:
        return frozenset()
    devices = {device for survey in context.surveys.values() for device in survey.by_device()}

    def serves(what: str) -> bool:
        return what in devices or (what.startswith("/") and _has_files(context, what))

    return frozenset(int(pid) for pid, served in servers.items() if any(serves(what) for what in served))


def _has_files(context: Context, mount: str) -> bool:
    below = quoted(mount.rstrip("/") + "/")
    return bool(context.case.rows(f"SELECT 1 AS one FROM measured WHERE starts_with(file, {below}) LIMIT 1"))


def programs_sql(context: Context, bins: int) -> str:
    """Bytes and requests per time bin of programs on the judged program's devices, and of the judged program."""
    own = own_sql(context)
    return f"""SELECT comm, comm IN ({own}) AS own, {context.survey.time_bin_sql(bins)} AS bin, sum(size_bytes) AS bytes,
  count(*) AS requests FROM measured
WHERE layer = 'block' AND comm IS NOT NULL
  AND device IN (SELECT device FROM measured WHERE layer = 'block' AND comm IN ({own}) GROUP BY 1)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
