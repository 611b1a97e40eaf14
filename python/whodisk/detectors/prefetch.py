"""How good prefetching was: accuracy, coverage, timeliness, waste; and readahead that is too small for its reader."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Context, Detector, Result, evidence
from whodisk.findings import Culprit, Effect
from whodisk.stats import bootstrap_sum, episodes

#: From fewer prefetched bytes of a file nothing is said: that much is the start of a program, and its libraries.
BYTES_MIN = 16 << 20
#: A part of prefetched bytes that was evicted unread, from which on it is told as waste.
WASTE_TOLD = 0.2
#: Readahead is too small if this part of the time in reads of a file is spent waiting for it, ...
WAITING_MIN = 0.2
#: ... although this part of what was read had been fetched ahead, or was being fetched: it was right, but too late or too little ...
FOLLOWED_MIN = 0.5
#: ... in requests that mostly reach the limit set for them.
CAPPED_MIN = 0.8
#: Linux' own default; a window at or above it is nobody's mistake.
DEFAULT_READ_AHEAD_KB = 128


@dataclass(frozen=True)
class Account:
    """What a prefetcher did for one file."""

    file: str
    issued: float
    used: float
    wasted: float
    late: float | None
    missed: float | None

    def sentence(self) -> str:
        """Its four numbers."""
        parts = [f"accuracy {words.percent(self.used / self.issued)}"]
        if self.missed is not None and self.used + self.missed > 0:
            parts.append(f"coverage {words.percent(self.used / (self.used + self.missed))}")
        if self.late is not None and self.used > 0:
            parts.append(f"{words.percent(min(1.0, self.late / self.used))} of what was used came late")
        parts.append(f"waste {words.percent(self.wasted / self.issued)}")
        return f"prefetching for {self.file}: {words.listed(parts)} ({words.size(self.issued)} issued)."


def accounts_sql() -> str:
    """The account per file, the largest first."""
    return """SELECT file, sum(issued_bytes) AS issued, sum(used_bytes) AS used, sum(wasted_bytes) AS wasted,
  sum(late_bytes) AS late, sum(missed_bytes) AS missed
FROM prefetch GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5"""


def run(context: Context) -> Result:
    """The account of the largest files, and a candidate per device whose readahead is too small."""
    result = Result()
    for row in context.case.rows(accounts_sql()):
        account = Account(
            file=str(row["file"]),
            issued=float(row["issued"] or 0),
            used=float(row["used"] or 0),
            wasted=float(row["wasted"] or 0),
            late=None if row["late"] is None else float(row["late"]),
            missed=None if row["missed"] is None else float(row["missed"]),
        )
        if account.issued < BYTES_MIN:
            continue
        result.observed.append(account.sentence())
        if account.wasted >= WASTE_TOLD * account.issued:
            result.observed.append(
                f"{words.size(account.wasted)} prefetched for {account.file} were evicted unread: the readers do not read "
                "on where prefetching expects them to, or memory is short."
            )
    for device in sorted((context.case.system.get("devices") or {}).keys()):
        candidate = _too_small(context, device)
        if candidate is not None:
            result.candidates.append(candidate)
    return result


def _too_small(context: Context, device: str) -> Candidate | None:
    queue = ((context.case.system.get("devices") or {}).get(device) or {}).get("queue") or {}
    try:
        window_kb = int(queue["read_ahead_kb"])
    except (KeyError, TypeError, ValueError):
        return None
    if window_kb >= DEFAULT_READ_AHEAD_KB:
        return None
    requests, full = _requests(context, device, window_kb)
    if requests == 0 or full < CAPPED_MIN * requests:
        return None
    waits = context.case.arrays(_waits_sql(device))
    if not len(waits["wait_ns"]):
        return None
    totals = context.case.rows(_totals_sql(device))[0]
    total_ns, all_bytes = float(totals["latency_ns"] or 0), float(totals["bytes"] or 0)
    wait_ns = float(waits["wait_ns"].sum())
    sequential = float(totals["sequential"] or 0)
    if total_ns <= 0 or wait_ns < WAITING_MIN * total_ns or sequential < FOLLOWED_MIN * max(1.0, all_bytes):
        return None
    numbers = episodes(waits["start_ns"].astype(np.int64), waits["end_ns"].astype(np.int64))
    per_episode = np.bincount(numbers, waits["wait_ns"].astype(np.float64)) / total_ns
    low, high = bootstrap_sum(per_episode)
    share = min(1.0, wait_ns / total_ns)
    claim = (
        f"Readers of {device} that read on in order waited {words.percent(share)} of their time for the device, although "
        f"readahead follows them: it fetches {words.size(window_kb * 1024)} at a time (read_ahead_kb = {window_kb}), which "
        "is read faster than the next piece comes."
    )
    return Candidate(
        culprit=Culprit("config", f"read_ahead_kb of {device}", f"{window_kb} KiB"),
        claim=claim,
        baseline="the same reads served from memory",
        effect=Effect("part of the time in reads", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        # Whether the window ends the requests is read from the requests, not inferred; what is left to chance is
        # whether so many of them would end at exactly that size.
        p_value=_p_value(full),
        episodes=len(per_episode),
        evidence=[
            evidence(context.case, "sizes of readahead requests", _sizes_sql(device)),
            evidence(context.case, "time in reads, and waiting", _totals_sql(device)),
        ],
        refute=f"Set read_ahead_kb of {device} to 1024 and repeat: if the readers wait as long per byte, it is not the "
        "window but the device.",
        remedy=f"echo 1024 > /sys/block/{device}/queue/read_ahead_kb",
        otherwise=claim,
        explains=np.asarray(
            (context.slow.op == "read") & (context.slow.device.astype(str) == device), np.bool_
        ),
        large=True,
    )


def _sizes_sql(device: str) -> str:
    return f"""SELECT size_bytes, count(*) AS requests FROM measured
WHERE layer = 'block' AND device = '{_quoted(device)}' AND op = 'read' AND (flags & 4) <> 0
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20"""


def _waits_sql(device: str) -> str:
    return f"""SELECT r.start_ns, r.start_ns + r.latency_ns AS end_ns, c.wait_ns
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND c.wait_ns > 0 AND r.device = '{_quoted(device)}' ORDER BY r.start_ns, r.op_id"""


def _totals_sql(device: str) -> str:
    return f"""WITH reads AS (SELECT op_id, latency_ns, size_bytes,
    offset_bytes = lag(offset_bytes + size_bytes) OVER (PARTITION BY tid, file ORDER BY start_ns, op_id) AS follows
  FROM measured WHERE op = 'read' AND device = '{_quoted(device)}' AND op_id IN (SELECT op_id FROM cache))
SELECT sum(latency_ns) AS latency_ns, sum(size_bytes) AS bytes, sum(size_bytes) FILTER (follows) AS sequential FROM reads"""


def _requests(context: Context, device: str, window_kb: int) -> tuple[int, int]:
    """Readahead requests of a device (of its commonest sizes), and how many of them fill the window."""
    rows = context.case.rows(_sizes_sql(device))
    total = sum(int(row["requests"] or 0) for row in rows)
    return total, sum(int(row["requests"] or 0) for row in rows if row["size_bytes"] == window_kb * 1024)


def _p_value(full: int) -> float:
    """Probability that this many requests would be of one size if each had any number of pages up to a MiB."""
    return float(max(1e-300, (1 / 256) ** min(full, 100)))


def _quoted(text: str) -> str:
    return text.replace("'", "''")


DETECTOR = Detector(
    name="prefetch",
    needs=("prefetch.issued_bytes",),
    needs_stages=(),
    null_model="readahead requests end at any page; readers are served from memory",
    smallest_effect="20 % of the time in sequential reads waits, while 80 % of readahead requests end at a window below the default",
    run=run,
)
