"""Is a verdict right? And did the stall that it accuses really happen?"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from tests.accuracy.faults.base import Finding
from tests.accuracy.referee.excuses import Records, excuse
from tests.accuracy.referee.judge import words as culprit_in_words
from tests.accuracy.referee.machine import Machine
from tests.accuracy.referee.tracer import Request
from tests.accuracy.referee.truth import Own, natural_statuses
from tests.accuracy.scenarios import RECORDS, Row, Solved

#: Nothing completes for this long though requests are in flight: a real stall of the device, ...
STALL_NS = 20_000_000
#: ... or many short ones: what takes so many times the median ...
SLOW_RATIO = 10
#: ... spends this part of its time in silences of the whole device, ...
SILENT_SHARE = 0.75
#: ... each so many medians long, ...
SILENCE_RATIO = 5
#: ... and there are so many of them.
SILENCES_MIN = 10
#: So many requests must wait together; a single one may be the tail of its own.
STALL_REQUESTS = 2
#: If others have so much of a CPU, a finding that accuses the CPUs is true.
OTHERS_CPUS_MIN = 0.2
#: If the hypervisor kept so much of the CPUs away, so is one that accuses it.
STOLEN_CPUS_MIN = 0.02
#: So much is said beside a verdict.
SAID_CPUS_MIN = 0.1

STALLS = f"""
WITH requests AS (
    SELECT device, start_ns, start_ns + latency_ns AS end_ns FROM '{{case}}/ops/layer=block/*.parquet'
), silences AS (
    SELECT device, end_ns AS from_ns, lead(end_ns) OVER (PARTITION BY device ORDER BY end_ns) AS until_ns
    FROM requests
)
SELECT s.device, s.from_ns, s.until_ns - s.from_ns AS silent_ns, count(*) AS waiting
FROM silences s JOIN requests r
  ON r.device = s.device AND r.start_ns <= s.from_ns + 1000000 AND r.end_ns >= s.until_ns
WHERE s.until_ns - s.from_ns > {STALL_NS}
GROUP BY ALL HAVING count(*) >= {STALL_REQUESTS} ORDER BY s.from_ns
"""

#: Who is slow because a device completed nothing at all for a while: one row per device.
SHORT_STALLS = f"""
WITH requests AS (
    SELECT device, start_ns, start_ns + latency_ns AS end_ns,
      median(latency_ns) OVER (PARTITION BY device) AS median_ns
    FROM '{{case}}/ops/layer=block/*.parquet'
), completions AS (
    SELECT device, median_ns, end_ns AS until_ns, greatest(
      lag(end_ns, 1, 0) OVER (PARTITION BY device ORDER BY end_ns),
      -- the oldest that is in flight: before, there was nothing to complete
      min(start_ns) OVER (PARTITION BY device ORDER BY end_ns ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
    ) AS from_ns
    FROM requests
), silences AS (
    SELECT s.device, s.from_ns, s.until_ns
    FROM completions s JOIN requests r ON r.device = s.device AND r.start_ns < s.until_ns AND r.end_ns >= s.until_ns
    WHERE s.until_ns - s.from_ns >= {SILENCE_RATIO} * s.median_ns
    GROUP BY ALL HAVING count(*) >= {STALL_REQUESTS}
), slow AS (
    SELECT device, start_ns, end_ns FROM requests WHERE end_ns - start_ns >= {SLOW_RATIO} * median_ns
), inside AS (
    SELECT w.device, sum(least(w.end_ns, s.until_ns) - greatest(w.start_ns, s.from_ns)) AS silent_ns
    FROM slow w JOIN silences s ON s.device = w.device AND s.from_ns < w.end_ns AND s.until_ns > w.start_ns
    GROUP BY 1
)
SELECT i.device, CAST(median(s.until_ns - s.from_ns) AS BIGINT) AS silent_ns, count(*) AS silences
FROM inside i JOIN silences s USING (device)
WHERE i.silent_ns >= {SILENT_SHARE} * (SELECT sum(end_ns - start_ns) FROM slow WHERE slow.device = i.device)
GROUP BY i.device HAVING count(*) >= {SILENCES_MIN} ORDER BY 1
"""


@dataclass(frozen=True)
class Judgement:
    """Whether a verdict was right, and in words what it said."""

    right: bool
    named: str
    #: Stalls of a device that the block layer shows by itself, without any detector.
    stalls: list[str]
    #: Whether the culprit stands first, or nobody is accused, if the recording itself is believed where it shows a stall.
    first_right: bool = True
    status_right: bool = True
    #: Findings that are wrong, in words.
    wrong: list[str] = field(default_factory=list)
    #: Findings about what was not injected, and the independent record that shows it.
    excuses: list[str] = field(default_factory=list)


def judge(row: Row, run: Solved) -> Judgement:
    """Compares the verdict with what was injected: right is (DESIGN 11) status, culprit, and no finding that is wrong.

    A fault must be the first finding. On the system's disk real stalls happen: there, a stage of the device may
    stand before it, or be accused in a healthy run, if the recording shows the stall by a query that shares
    nothing with the detectors. So may waiting for a CPU, or a hypervisor that took it away, if the kernel's own account says the
    same.
    """
    stalls = device_stalls(run.case)
    short = short_stalls(run.case)
    paused = {device for device, _, _ in (*stalls, *short)}
    findings = [f for f in run.verdict["findings"] if f["culprit"]["kind"] != "saturation"]
    named = row.fault.named or _nothing
    records = records_of(run)
    unexcused, excuses = [], []
    for finding in findings:
        reason = excuse(finding, records) if records and not named(finding, run.about.device) else None
        if reason is None:
            unexcused.append(finding)
        else:
            excuses.append(f"{culprit_in_words(finding)}: {reason}")
    wrong = [culprit_in_words(f) for f in unexcused if not named(f, run.about.device)]
    status_right = run.verdict["status"] in _statuses(row, records, bool(excuses))
    right = status_right and not wrong and _first_right(row, run, unexcused)
    # What `make test` asks: the recording itself may show that a stall was real.
    believed = [f for f in findings if named(f, run.about.device) or not _elsewhere(f, row, run, paused)]
    first_right = _first_right(row, run, believed)
    said = _words(run.verdict)
    for who, cpus in (
        ("other programs", run.about.others_cpus),
        ("the hypervisor's other guests", run.about.stolen_cpus),
    ):
        if cpus >= SAID_CPUS_MIN:
            said += f"; {who} used {cpus:.2f} CPUs"
    seen = [f"{d}: {ns / 1e6:.0f} ms, {n} waiting" for d, ns, n in stalls]
    seen += [f"{d}: {n} times, typically {ns / 1e6:.1f} ms, all that is slow" for d, ns, n in short]
    return Judgement(right, said, seen, first_right, status_right, wrong, excuses)


def _first_right(row: Row, run: Solved, findings: list[Finding]) -> bool:
    """Whether the culprit is the first of these findings; without a fault, whether there is none."""
    if row.fault.named is None:
        return not findings and (row.fault.limit or "") in (run.verdict["limit"] or "")
    return bool(findings) and row.fault.named(findings[0], run.about.device)


def records_of(run: Solved) -> Records | None:
    """What a second tracer, the kernel's account of steal and the program's own log say; None if they were not kept."""
    kept = run.case.parent / RECORDS
    layer = run.case / "ops" / "layer=app"
    if not kept.exists() or not layer.is_dir():
        return None
    facts = json.loads(kept.read_text(encoding="utf-8"))
    zero = json.loads((run.case / "case.json").read_text(encoding="utf-8"))["clock"]["start_ns"]
    query = f"SELECT start_ns, latency_ns, CAST(op AS VARCHAR) AS op FROM '{layer}/*.parquet' WHERE NOT open"
    columns = duckdb.connect().execute(query).fetchnumpy()
    own = Own(
        columns["start_ns"].astype(np.int64) + zero,
        columns["latency_ns"].astype(np.int64),
        columns["op"].astype(str),
    )
    requests = [Request(*values) for values in facts["requests"]]
    stolen = Machine(**facts["machine"]).stolen_windows()
    return Records(own, requests, stolen, run.case, zero, run.about.device)


def _statuses(row: Row, records: Records | None, excused: bool) -> tuple[str, ...]:
    """Statuses that are right. How much a fault of these rows costs is not measured: it is told, or it is not."""
    if row.fault.named is not None:
        return "slow", "outliers"
    if excused:
        # Something real was there beside it, of a size that an independent record confirms.
        return "slow", "outliers"
    if records is None:
        return "healthy", "limited", "outliers"
    return tuple(natural_statuses(records.own))


def device_stalls(case: Path) -> list[tuple[str, int, int]]:
    """Device, length in ns and number of waiting requests of every stall in `case`."""
    return [(device, silent_ns, waiting) for device, _, silent_ns, waiting in _rows(STALLS, case)]


def short_stalls(case: Path) -> list[tuple[str, int, int]]:
    """Device, typical length in ns and number of short stalls, of each device whose slow requests are due to them."""
    return [(device, silent_ns, silences) for device, silent_ns, silences in _rows(SHORT_STALLS, case)]


def _rows(query: str, case: Path) -> list[tuple[Any, ...]]:
    if not (case / "ops" / "layer=block").is_dir():
        return []
    return duckdb.connect().execute(query.format(case=case)).fetchall()


def _nothing(_finding: Finding, _device: str | None) -> bool:
    return False


def _elsewhere(finding: Finding, row: Row, run: Solved, paused: set[str]) -> bool:
    """Whether a finding tells of something that really happened beside the fault."""
    if row.place == "disk" and _accuses_system_disk(finding, run, paused):
        return True
    if finding["culprit"]["kind"] == "host":
        return run.about.stolen_cpus >= STOLEN_CPUS_MIN and finding["culprit"]["name"] == "hypervisor"
    return run.about.others_cpus + run.about.stolen_cpus >= OTHERS_CPUS_MIN and _accuses_cpu(finding)


def _accuses_system_disk(finding: Finding, run: Solved, paused: set[str]) -> bool:
    """Whether the finding accuses the device stage of a device that did stall and is not the faulty one."""
    culprit = finding["culprit"]
    device = (culprit["because_of"] or "").removeprefix("device:")
    blames_device = culprit["kind"] == "stage" and "device" in culprit["name"].split("+")
    return blames_device and device != run.about.device and device in paused


def _accuses_cpu(finding: Finding) -> bool:
    culprit = finding["culprit"]
    return "stage:runqueue" in (f"{culprit['kind']}:{culprit['name']}", culprit["because_of"])


def _words(verdict: dict[str, Any]) -> str:
    findings = [culprit_in_words(f) for f in verdict["findings"]]
    return "; ".join([verdict["status"], *findings, *([verdict["limit"]] if verdict["limit"] else [])])
