"""How good prefetching was, per file, outside of ramp phases: accuracy, coverage, timeliness, waste."""

from __future__ import annotations

from dataclasses import dataclass

from whodisk import words
from whodisk.evidence.thresholds import PREFETCH_FILES_TOLD
from whodisk.reading.views import Case


@dataclass(frozen=True)
class Account:
    """What a prefetcher did for one file."""

    file: str
    issued: float
    used: float
    wasted: float
    late: float | None
    missed: float | None

    @property
    def accuracy(self) -> float:
        """Part of what was fetched ahead that was read later, 0 to 1."""
        return self.used / self.issued

    @property
    def coverage(self) -> float | None:
        """Part of what was read that had been fetched ahead, 0 to 1; None where that is not known."""
        if self.missed is None or self.used + self.missed <= 0:
            return None
        return self.used / (self.used + self.missed)

    @property
    def lateness(self) -> float | None:
        """Part of what was used that was still on its way when it was asked for, 0 to 1; None where that is not known."""
        return min(1.0, self.late / self.used) if self.late is not None and self.used > 0 else None

    @property
    def waste(self) -> float:
        """Part of what was fetched ahead that was evicted unread, 0 to 1."""
        return self.wasted / self.issued

    def sentence(self) -> str:
        """Its four numbers."""
        parts = [f"accuracy {words.percent(self.accuracy)}"]
        if self.coverage is not None:
            parts.append(f"coverage {words.percent(self.coverage)}")
        if self.lateness is not None:
            parts.append(f"{words.percent(self.lateness)} of what was used came late")
        parts.append(f"waste {words.percent(self.waste)}")
        return f"prefetching for {self.file}: {words.listed(parts)} ({words.size(self.issued)} issued)."


def accounts_sql() -> str:
    """The account per file of what was fetched while it counts, the largest first."""
    return f"""SELECT file, sum(issued_bytes) AS issued, sum(used_bytes) AS used, sum(wasted_bytes) AS wasted,
  sum(late_bytes) AS late, sum(missed_bytes) AS missed
FROM measured_prefetch GROUP BY 1 HAVING sum(issued_bytes) > 0 ORDER BY 2 DESC, 1 LIMIT {PREFETCH_FILES_TOLD}"""


def accounts(case: Case) -> list[Account]:
    """The account of the files for which most was fetched ahead, at most `PREFETCH_FILES_TOLD`, the largest first."""
    return [
        Account(
            file=str(row["file"]),
            issued=float(row["issued"] or 0),
            used=float(row["used"] or 0),
            wasted=float(row["wasted"] or 0),
            late=None if row["late"] is None else float(row["late"]),
            missed=None if row["missed"] is None else float(row["missed"]),
        )
        for row in case.rows(accounts_sql())
    ]
