"""A run that fits into a faster tier than the one it claims to test.

It accuses nobody: it says which conclusions this run cannot support.
"""

from __future__ import annotations

from typing import Any

from whodisk import words
from whodisk.detectors.base import Detector, Result
from whodisk.detectors.thresholds import FETCHED_AHEAD_PART, MASKED_BYTES_MIN, MASKING_PART
from whodisk.evidence.context import Context

#: Tiers from fast to slow, and what they are called.
TIERS = {
    "ram": "RAM",
    "ssd": "the SSD cache",
    "readahead": "readahead",
    "device": "the device",
    "hdd": "spinning disk",
}


def tiers_sql() -> str:
    """Bytes of reads by the tier that served them."""
    return """SELECT c.tier, sum(c.size_bytes) AS bytes FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' GROUP BY 1 ORDER BY 2 DESC, 1"""


def ahead_sql() -> str:
    """Bytes that RAM served because this very run had fetched them ahead: they did come from below, in time."""
    return """WITH ram AS (SELECT r.file, sum(c.size_bytes) AS bytes FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
    WHERE r.op = 'read' AND c.tier = 'ram' GROUP BY 1),
  ahead AS (SELECT file, sum(used_bytes) AS bytes FROM measured_prefetch GROUP BY 1)
SELECT sum(least(ram.bytes, ahead.bytes)) AS bytes FROM ram JOIN ahead ON ram.file = ahead.file"""


def run(context: Context) -> Result:
    """Caveats about what was never reached."""
    result = Result()
    served = {str(row["tier"]): float(row["bytes"] or 0) for row in context.case.rows(tiers_sql())}
    if sum(served.values()) >= MASKED_BYTES_MIN:
        _tiers(context, result, served)
    elif not served:
        _memory(context, result)
    return result


def _tiers(context: Context, result: Result, served: dict[str, float]) -> None:
    total = sum(served.values())
    below_ram = {tier: n for tier, n in served.items() if tier not in ("ram", "readahead")}
    missed = sum(below_ram.values())
    if served.get("ram", 0.0) >= MASKING_PART * total and _ahead_bytes(context) < FETCHED_AHEAD_PART * total:
        part = words.percent(served["ram"] / total)
        result.served_from = "ram"
        result.caveats.append(
            (
                "how anything below the page cache behaves",
                f"{part} of all bytes read came from RAM: this run fits into the cache, and cannot show the behaviour of a "
                "device; read more than the memory holds, or drop the caches before the run",
            )
        )
    slower = _slower_devices(context)
    if missed <= 0 or not slower or below_ram.get("ssd", 0.0) < MASKING_PART * missed:
        return
    part = words.percent(below_ram["ssd"] / missed)
    result.observed.append(f"{part} of cache misses were served by the SSD tier.")
    result.caveats.append(
        (
            f"how {words.listed(slower)} would behave",
            f"{part} of misses were served by SSD: this run cannot show disk behaviour; evict the data from the SSD tier "
            "before the run, and check what the prefetcher left uncached",
        )
    )


def _ahead_bytes(context: Context) -> float:
    if "prefetch" not in context.case.columns:
        return 0.0
    return float(context.case.rows(ahead_sql())[0]["bytes"] or 0)


def _slower_devices(context: Context) -> list[str]:
    """Rotating disks that the host has."""
    devices: dict[str, Any] = context.case.system.get("devices") or {}
    return sorted(
        name for name, device in devices.items() if str((device.get("queue") or {}).get("rotational")) == "1"
    )


def _memory(context: Context, result: Result) -> None:
    """Without the cache's own account: buffered reads by our engine, hardly any of which reached the device."""
    workload = context.case.meta.get("workload")
    spec = workload.get("spec") if isinstance(workload, dict) else None
    if not isinstance(spec, dict) or spec.get("direct") is not False:
        return
    if "app" not in context.surveys or "block" not in context.case.layers:
        return
    asked, read = (
        float(row["bytes"] or 0)
        for layer in ("app", "block")
        for row in context.case.rows(
            f"SELECT sum(size_bytes) AS bytes FROM measured WHERE layer = '{layer}' AND op = 'read'"
        )
    )
    if asked >= MASKED_BYTES_MIN and read <= (1 - MASKING_PART) * asked:
        result.caveats.append(
            (
                "how the device behaves under reads",
                f"{words.percent(1 - read / asked)} of the {words.size(asked)} read never reached it: the page cache served "
                "them; read more than the memory holds, or use direct I/O",
            )
        )


DETECTOR = Detector(
    name="masked_tier",
    needs=("cache.tier or judged.size_bytes",),
    needs_stages=(),
    null_model="none: it tests no hypothesis",
    smallest_effect="99 % of the bytes that missed a tier were served by one faster tier",
    run=run,
    needs_all=True,
)
