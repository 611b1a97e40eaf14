"""CPU time that a hypervisor gave to others while this machine wanted it (steal), as the sampler's counters show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import EXPLAINED_PART
from whodisk.reading.views import Case
from whodisk.statistics.stats import Bools, Floats, Ints

#: The sampler's counters of all CPUs together, as parts of them.
SAMPLES = """SELECT time_ns, max(value) FILTER (metric = 'steal_ratio') AS stolen, max(value) FILTER (metric = 'wanted_ratio') AS wanted
FROM series WHERE subject = 'all' AND metric IN ('steal_ratio', 'wanted_ratio') GROUP BY 1 ORDER BY 1"""
CPUS = "SELECT count(DISTINCT subject) AS cpus FROM series WHERE metric = 'idle_ratio'"


@dataclass(frozen=True)
class Steal:
    """Growth of the counters, in CPU-nanoseconds per CPU, between neighbouring samples."""

    #: End of each interval; the first one has none before it.
    time_ns: Ints
    stolen_ns: Floats
    wanted_ns: Floats

    @property
    def part(self) -> float:
        """Of the CPU time that was wanted."""
        return float(self.stolen_ns.sum() / max(1.0, self.wanted_ns.sum()))

    def per_bin(self, begin_ns: int, end_ns: int, bins: int) -> tuple[Floats, Floats]:
        """Stolen and wanted time in equal bins of [begin_ns, end_ns]; a sample's growth is spread evenly over its interval."""
        edges = np.linspace(begin_ns, end_ns, bins + 1)
        stolen, wanted = (np.diff(grown) for grown in self._until(edges))
        return stolen, wanted

    def around(self, case: Case, start_ns: Ints, end_ns: Ints) -> tuple[Floats, Floats]:
        """Stolen and wanted time of all CPUs in each interval and the sample before and after it, ns."""
        cpus = cpus_of(case)
        sample_ns = float(np.median(np.diff(self.time_ns)))
        before, after = self._until(start_ns - sample_ns), self._until(end_ns + sample_ns)
        stolen, wanted = (cpus * (until - since) for since, until in zip(before, after, strict=True))
        return stolen, wanted

    def _until(self, moments_ns: npt.NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Stolen and wanted time from the first sample to each moment."""
        stolen, wanted = (
            np.interp(moments_ns, self.time_ns, np.cumsum(grown))
            for grown in (self.stolen_ns, self.wanted_ns)
        )
        return stolen, wanted


def cpus_of(case: Case) -> float:
    """CPUs that were sampled, at least one."""
    return max(1.0, float(case.rows(CPUS)[0]["cpus"] or 0))


def steal_of(case: Case, survey: Survey) -> Steal | None:
    """The counters inside the measured window; None if they were not sampled twice there."""
    data = case.arrays(SAMPLES)
    time_ns = data["time_ns"].astype(np.int64)
    inside = (time_ns >= survey.begin_ns) & (time_ns <= survey.end_ns)
    if inside.sum() < 2:
        return None
    time_ns = time_ns[inside]
    grown = np.diff(time_ns, prepend=time_ns[0]).astype(np.float64)
    return Steal(
        time_ns,
        np.nan_to_num(data["stolen"][inside].astype(np.float64)) * grown,
        np.nan_to_num(data["wanted"][inside].astype(np.float64)) * grown,
    )


def mostly_stolen(case: Case, steal: Steal, start_ns: Ints, end_ns: Ints) -> Bools:
    """Intervals that steal explains."""
    stolen_ns, _ = steal.around(case, start_ns, end_ns)
    return np.asarray(stolen_ns >= EXPLAINED_PART * (end_ns - start_ns), np.bool_)
