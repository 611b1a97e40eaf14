"""Whether slow operations waited in the file system for commits of a journal, by the moments that the journal's tracepoints give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import COMMIT_COVERS_MIN, COMMIT_EPISODES_MIN, COMMIT_P_MAX
from whodisk.reading.views import STAGES, Case
from whodisk.statistics import probability
from whodisk.statistics.stats import Bools, disjoint, episodes, overlap

if TYPE_CHECKING:
    from whodisk.evidence.slow_operations import SlowSet

FS = STAGES.index("fs")

#: Commits of every journal of the host; how long each was stands in the pairs of its detail.
COMMITS_SQL = """SELECT time_ns AS begin_ns, time_ns + CAST(regexp_extract(detail, 'duration_ns ([0-9]+)', 1) AS BIGINT) AS end_ns
FROM events WHERE kind = 'journal_commit' AND regexp_matches(detail, 'duration_ns [0-9]+') ORDER BY 1, 2"""


def waited_for_commits(case: Case, survey: Survey, slow: SlowSet) -> Bools:
    """Slow operations that spent what they lost in `fs` within commits, where that is far beyond chance.

    Commits that cover half of the time cover half of all waits, whatever these are for. Each separate stretch of such waits is one piece of evidence:
    it lies in commits as often as commits cover the time, if the two have nothing to do with each other. What waited behind these goes with them.
    """
    waited = np.zeros(len(slow), np.bool_)
    if not len(slow) or "events" not in case.columns:
        return waited
    own = slow.stage_excess_ns.argmax(axis=1) == FS
    chosen = np.flatnonzero(own)
    commits = case.arrays(COMMITS_SQL) if len(chosen) else {"begin_ns": chosen}
    if not len(commits["begin_ns"]):
        return waited
    begin, end = disjoint(commits["begin_ns"].astype(np.float64), commits["end_ns"].astype(np.float64))
    before_ns = slow.stage_ns[chosen, :FS].sum(axis=1)
    from_ns = slow.start_ns[chosen] + before_ns
    to_ns = from_ns + slow.stage_ns[chosen, FS]
    covered = overlap(from_ns, to_ns, begin, end) >= COMMIT_COVERS_MIN * slow.stage_excess_ns[chosen, FS]
    numbers = episodes(from_ns.astype(np.int64), to_ns.astype(np.int64))
    inside = np.bincount(numbers, covered) >= COMMIT_COVERS_MIN * np.bincount(numbers)
    within = float((np.minimum(end, survey.end_ns) - np.maximum(begin, survey.begin_ns)).clip(0).sum())
    by_chance = min(1.0, within / max(1, survey.span_ns))
    if (
        inside.sum() >= COMMIT_EPISODES_MIN
        and probability.at_least(int(inside.sum()), len(inside), by_chance) < COMMIT_P_MAX
    ):
        waited[chosen[covered]] = True
        waited |= (slow.blamed == FS) & ~own
    return waited
