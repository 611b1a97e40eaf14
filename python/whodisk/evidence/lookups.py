"""What a recorded program read without a recorded call: it looks up names and lists folders (stat, getdents), which cases written before 2026-11-30 leave out.

Of a program that does little else (find, du, a backup that looks for changes) calls show next to nothing. Its requests do.
"""

from __future__ import annotations

from dataclasses import dataclass

from whodisk import words
from whodisk.evidence.survey import Survey
from whodisk.reading.views import Case

#: Flags of requests that nobody waits for by themselves: readahead, background.
NOT_WAITED_FOR = 4 | 16


@dataclass(frozen=True)
class Lookups:
    """Reads that belong to no recorded call."""

    comm: str
    count: int
    #: Time of these requests, and of all recorded calls, ns.
    held_ns: float
    calls_ns: float
    #: Processes that were recorded.
    pids: tuple[int, ...]

    @property
    def said(self) -> str:
        """Why requests are judged, and not calls."""
        return (
            f"Judged are the requests of the recorded program, not its calls: {self.comm} waited {words.duration(self.held_ns)} for "
            f"{words.things(float(self.count), 'read')} that no recorded call made, and {words.duration(self.calls_ns)} in recorded calls. It looks up names "
            "and lists folders; such calls (stat, getdents) are not recorded."
        )


def lookups_of(case: Case, surveys: dict[str, Survey]) -> Lookups | None:
    """The reads without a call of a recorded program, if they took longer than all its calls; else None."""
    calls, requests = surveys.get("syscall"), surveys.get("block")
    if (
        case.meta.get("observer") != "record"
        or calls is None
        or requests is None
        or "links" not in case.columns
    ):
        return None
    if sum(stratum.latency_ns for stratum in requests.select(op="read")) <= calls.latency_ns:
        return None
    rows = case.rows(
        f"""WITH alone AS (SELECT comm, latency_ns FROM measured WHERE layer = 'block' AND op = 'read' AND coalesce(flags, 0) & {NOT_WAITED_FOR} = 0
  AND pid IN (SELECT pid FROM syscall_ops) AND op_id NOT IN (SELECT child_id FROM links WHERE child_id IS NOT NULL))
SELECT comm, sum(count(*)) OVER () AS count, sum(sum(latency_ns)) OVER () AS held_ns FROM alone GROUP BY 1 ORDER BY sum(latency_ns) DESC, 1 LIMIT 1"""
    )
    held_ns = float(rows[0]["held_ns"] or 0) if rows else 0.0
    if held_ns <= calls.latency_ns:
        return None
    pids = case.rows("SELECT DISTINCT pid FROM syscall_ops WHERE pid IS NOT NULL ORDER BY 1")
    return Lookups(
        str(rows[0]["comm"] or "the program"),
        int(rows[0]["count"] or 0),
        held_ns,
        calls.latency_ns,
        tuple(int(row["pid"] or 0) for row in pids),
    )
