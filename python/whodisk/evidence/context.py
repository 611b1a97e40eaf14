"""What a detector may look at: the case, its surveys, and the slow operations of the layer that is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from whodisk.evidence.backlog import Behind, waits_behind
from whodisk.evidence.device_pace import WAITS as PACE_WAITS
from whodisk.evidence.device_pace import Pace, paces_of
from whodisk.evidence.expectations import Limit
from whodisk.evidence.fired import Found, find_fired
from whodisk.evidence.held_elsewhere import held_by
from whodisk.evidence.missed import ordinary_read_ns, that_missed
from whodisk.evidence.more_work import More, more_work
from whodisk.evidence.offered import keeps_rate
from whodisk.evidence.peer_comparison import Comparison
from whodisk.evidence.recorder import is_recorder
from whodisk.evidence.sampled_series import Sampled, compare_series
from whodisk.evidence.serving_waits import ServingWaits, serving_waits
from whodisk.evidence.slow_operations import CPU_STAGES, CpuWaits, SlowSet, cpu_waits, find_slow
from whodisk.evidence.slowest import BELOW, Episode, Silence, find_longest, find_these
from whodisk.evidence.stuck_devices import Stuck, stuck_devices
from whodisk.evidence.submitters import operations_of
from whodisk.evidence.surroundings import NOTHING, Cause, with_alike, with_alone
from whodisk.evidence.survey import Survey, thinned
from whodisk.evidence.thresholds import (
    APART_CALL_NS_MIN,
    ORDINARY_WAIT_NS,
    PACE_ARRIVALS_MIN,
    PACE_LONG,
    PACE_TURNS_MAX,
)
from whodisk.evidence.written_for import writers, written_for_sql
from whodisk.reading.views import STAGES, Case, quoted
from whodisk.statistics.stats import Bools, Ints

BELOW_STAGES = [STAGES.index(stage) for stage in BELOW]


@dataclass(frozen=True)
class Sample:
    """Judged operations, of many an even part; an array element each, in no order."""

    start_ns: Ints
    latency_ns: Ints
    #: Kind of operation: index into `ops`.
    kind: Ints
    ops: tuple[str, ...]
    #: -1: not observed.
    tid: Ints


@dataclass(frozen=True)
class Context:
    """What a detector may look at, and cannot change."""

    case: Case
    #: Survey of each observed layer.
    surveys: Mapping[str, Survey]
    #: Layer of the operations that are judged: `app` where its stages are known, else `block`.
    layer: str
    #: Slow operations of that layer.
    slow: SlowSet
    #: Slow operations that detectors before this one explained; read-only.
    explained: Bools
    #: Latency limits that were asked for and broken.
    broken_limits: tuple[Limit, ...] = ()
    #: A case to compare with, and its survey of the same layer.
    against: Case | None = None
    against_survey: Survey | None = None

    def __post_init__(self) -> None:
        self.explained.flags.writeable = False

    def after(self, explained: Bools) -> Context:
        """The context of the detectors after those that explained these slow operations; what was measured is not measured again."""
        later = replace(self, explained=explained)
        later.__dict__.update(
            {name: value for name, value in self.__dict__.items() if name not in later.__dict__}
        )
        return later

    @property
    def survey(self) -> Survey:
        """Survey of the judged layer."""
        return self.surveys[self.layer]

    def share_lost(self, chosen: Bools | Ints) -> float:
        """What these of the slow operations took longer than usual, of all latency."""
        return float(self.slow.excess_ns[chosen].sum()) / max(1.0, self.survey.latency_ns)

    @cached_property
    def keeps_rate(self) -> bool:
        """Whether operations are due at times of their own, and are done as often: then nothing that delays them costs
        throughput."""
        return keeps_rate(self.case, self.survey)

    @cached_property
    def threads_ns(self) -> float:
        """Time of the submitting threads, each from its first operation to the end of its last: in calls, and between them."""
        row = self.case.rows(
            f"""SELECT sum(lived_ns) AS lived_ns FROM (SELECT max(start_ns + latency_ns) - min(start_ns) AS lived_ns
FROM measured WHERE layer = '{self.layer}' AND tid IS NOT NULL GROUP BY tid)"""
        )[0]
        return float(row["lived_ns"] or 0)

    @cached_property
    def sample(self) -> Sample:
        """What several detectors ask of single operations, in one pass."""
        ops = tuple(sorted({stratum.op for stratum in self.survey.strata}))
        kinds = " ".join(f"WHEN {quoted(op)} THEN {number}" for number, op in enumerate(ops))
        found = self.case.arrays(
            f"""SELECT start_ns, latency_ns, {f"CASE op {kinds} ELSE -1 END" if ops else "-1"} AS kind, coalesce(tid, -1) AS tid FROM measured
WHERE layer = '{self.layer}' AND {thinned(self.survey.operations)}"""
        )
        start, latency, kind, tid = (
            np.asarray(found[name], np.int64) for name in ("start_ns", "latency_ns", "kind", "tid")
        )
        return Sample(start, latency, kind, ops, tid)

    @property
    def operations(self) -> tuple[Ints, Ints]:
        """Start and latency of the judged operations, ns; of many a sample."""
        return self.sample.start_ns, self.sample.latency_ns

    @cached_property
    def sorted_start_ns(self) -> Ints:
        """When `operations` began, in ascending order."""
        return np.sort(self.operations[0])

    @cached_property
    def sorted_latency_ns(self) -> Ints:
        """The latencies of `operations`, in ascending order: sorting millions once is enough."""
        return np.sort(self.operations[1])

    @cached_property
    def own_programs(self) -> tuple[list[str], list[int]]:
        """Names and processes of the judged program: those that its operations come from, and those of its other threads.

        A database's own compaction or checkpointer is no competitor of its clients. Where a command was recorded, calls are those of the command and
        its descendants alone, so whoever makes one belongs to it. Where a whole machine was recorded, who serves its devices works for the others.
        """
        layers = [self.layer]
        if self.case.meta.get("command") and "syscall" in self.case.layers:
            layers.append("syscall")
        where = f"layer IN ({', '.join(map(quoted, layers))})"
        if self.case.servers and not self.case.is_of_a_part:
            where += f" AND coalesce(pid NOT IN ({', '.join(map(str, self.case.servers))}), TRUE)"
        rows = self.case.rows(f"SELECT DISTINCT comm, pid FROM measured WHERE {where}")
        names = {str(row["comm"]) for row in rows if row["comm"] is not None}
        pids = {int(row["pid"] or 0) for row in rows if int(row["pid"] or 0) > 0}
        if pids and "block" in self.surveys:
            listed = ", ".join(map(str, sorted(pids)))
            rows = self.case.rows(
                f"SELECT DISTINCT comm FROM block_ops WHERE comm IS NOT NULL AND pid IN ({listed})"
            )
            names.update(str(row["comm"]) for row in rows)
        return sorted(names), sorted(pids)

    @cached_property
    def other_writers(self) -> list[str]:
        """Programs that are not judged and wrote through the page cache: the kernel writes that out for them. Which requests those are is the view `written_for`."""
        names = writers(self.case, self.own_programs[0])
        if names:
            self.case.add_view("written_for", written_for_sql(names))
        return names

    @cached_property
    def cpu_waits(self) -> CpuWaits | None:
        """How long threads of the judged programs waited for a CPU; None where the scheduler was not recorded."""
        return cpu_waits(self.case, self.survey)

    @cached_property
    def serving_waits(self) -> ServingWaits:
        """How long the threads that serve software devices waited for a CPU, and when."""
        return serving_waits(self.case)

    @cached_property
    def more_work(self) -> More:
        """The judged operations that took longer because they made more requests."""
        return more_work(self.case, self.surveys, self.layer)

    @cached_property
    def requests(self) -> Context:
        """The same for the block layer: its slow requests, none of them explained."""
        slow = find_slow(self.case, self.surveys["block"])
        return Context(self.case, self.surveys, "block", slow, explained=np.zeros(len(slow), np.bool_))

    @cached_property
    def behind(self) -> Behind:
        """What waiting behind the slow operations cost others."""
        return waits_behind(self.case, self.survey, self.slow)

    @cached_property
    def paces(self) -> list[Pace]:
        """The paces that devices kept; none where no requests were recorded.

        A device that is never without such a request, while all operations are made when they are due, and none waits for its turn, takes them
        as they come: the pace is that of the workload.
        """
        block = self.surveys.get("block")
        if block is None or "device" not in block.stages_observed:
            return []
        found = paces_of(self.case, block)
        waiting_ns = sum(float(stratum.stage_ns[STAGES.index("app")]) for stratum in self.survey.strata)
        if not self.keeps_rate or waiting_ns > PACE_TURNS_MAX * self.survey.latency_ns:
            return found
        return [pace for pace in found if pace.busy < PACE_ARRIVALS_MIN]

    @cached_property
    def compared_series(self) -> list[tuple[str, tuple[Sampled, Comparison] | None]]:
        """Devices against their peers by each sampled latency (`compare_series`): detectors share it, it takes minutes for a large fleet."""
        return compare_series(self.case)

    @cached_property
    def stuck(self) -> list[Stuck]:
        """Devices that complete nothing, by sampled counters."""
        return stuck_devices(self.case)

    @cached_property
    def longest(self) -> list[tuple[Episode, Cause]]:
        """The longest episodes of the judged layer, those that stand apart first, and what held each."""
        episodes = find_longest(self.case, self.survey, self._silences())
        found = with_alike(with_alone(self.survey, held_by(self.case, self.survey, episodes)))
        found = [(e, (cause is NOTHING and self._in_turn(e)) or cause) for e, cause in found]
        missed = self._only_missed([episode for episode, _ in found if episode.apart])
        judged = [
            (replace(e, apart=e.apart and id(e) not in missed and not self.is_usual(e, cause)), cause)
            for e, cause in found
        ]
        return sorted(judged, key=lambda each: (not each[0].apart, -each[0].latency_ns, each[0].start_ns))

    def is_short_call(self, episode: Episode) -> bool:
        """Whether it is a call, or an operation of a program, that lost so little that it stands apart from nothing."""
        return self.layer in ("app", "syscall") and episode.stage_excess_ns < APART_CALL_NS_MIN

    def is_usual(self, episode: Episode, cause: Cause) -> bool:
        """Whether what held an operation is no more than another thread's turn on a CPU, the recorder's, or a device at its limit.

        A program with a backlog of writes at such a device (a memtable that cannot be written out) lets its own threads wait for these.
        """
        if episode.silence:
            return False
        if cause.state == "runnable" and is_recorder(self.case, cause.who):
            return True
        needs_cpu = STAGES.index(episode.stage) in CPU_STAGES and cause.state not in ("stopped", "throttled")
        if self.layer == "syscall" and needs_cpu and episode.stage_excess_ns < ORDINARY_WAIT_NS:
            # Whom it slept for may have waited for its turn just as well.
            return True
        if self.layer == "app" and episode.stage == "app" and cause.state == "blocked":
            # The program waits for its own threads, and these for what takes no more.
            begin, end = np.array([episode.start_ns]), np.array([episode.end_ns])
            return any(pace.op == "write" and bool(pace.covers(begin, end)[0]) for pace in self.paces)
        return self._at_pace(episode) is not None

    def _only_missed(self, apart: list[Episode]) -> set[int]:
        """Which of these, by `id`, missed the cache and waited no longer than the device takes for a read as a rule.

        Beside reads that find their data in memory, each that has to wait for a disk stands apart. It tells no more than that the disk is
        none: what it is to be compared with are the requests of the disk.
        """
        below = [e for e in apart if e.op == "read" and e.stage in BELOW and e.device and not e.silence]
        block = self.surveys.get("block")
        if block is None or self.layer == "block" or not below:
            return set()
        missed = that_missed(self.case, self.layer, [episode.op_ids[0] for episode in below])
        return {
            id(episode)
            for episode in below
            if episode.op_ids[0] in missed
            and sum(episode.excess_ns[number] for number in BELOW_STAGES)
            <= ordinary_read_ns(block, episode.device)
        }

    def _at_pace(self, episode: Episode) -> Pace | None:
        """The pace of a device that an operation waited for, if it did."""
        if episode.silence or episode.stage not in PACE_WAITS:
            return None
        when = np.array([episode.tid]), np.array([episode.start_ns]), np.array([episode.end_ns])
        for pace in self.paces:
            if pace.is_of(episode.device) and bool(pace.held_up(self.case, *when)[0]):
                return pace
        return None

    def _in_turn(self, episode: Episode) -> Cause | None:
        """That its device took what it takes and no more; of what waited for many requests, not of each that had the device for itself."""
        pace = self._at_pace(episode)
        if pace is None or episode.latency_ns < PACE_LONG * pace.each_ns:
            return None
        return Cause("pace", pace.device, f"{pace.device} took {pace.rate} and no more", True)

    @cached_property
    def fired(self) -> list[tuple[Found, Episode, Cause]]:
        """The operations that made a flight recorder write this case, the first one first, and what held each."""
        found = [of for of in find_fired(self.case, self.layer) if of.layer in self.surveys]
        known: dict[tuple[str, int], tuple[Episode, Cause]] = {}
        for layer in sorted({of.layer for of in found}):
            survey = self.surveys[layer]
            episodes = find_these(self.case, survey, [of.op_id for of in found if of.layer == layer])
            for episode, cause in held_by(self.case, survey, episodes):
                known.update({(layer, op_id): (episode, cause) for op_id in episode.op_ids})
        # Of those that overlapped the longest stands for all.
        return [(of, *known[of.layer, of.op_id]) for of in found if (of.layer, of.op_id) in known]

    def _silences(self) -> list[Silence]:
        """When threads of the judged operations were seen stopped."""
        survey = self.survey
        # The table of waits knows every stop; where there is none, silences from a millisecond on say why.
        table = "waits" if "waits" in self.case.columns else "gaps"
        if table not in self.case.columns or "tid" not in self.case.columns.get(
            f"ops/{self.layer}", frozenset()
        ):
            return []
        threads = ", ".join(map(str, operations_of(self.case, self.layer))) or "NULL"
        rows = self.case.rows(
            f"""SELECT tid, any_value(comm) AS comm, start_ns, max(duration_ns) AS duration_ns FROM {table}
WHERE state = 'stopped' AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}
  AND tid IN ({threads})
GROUP BY tid, start_ns ORDER BY tid, start_ns"""
        )
        return [
            Silence(
                int(row["tid"] or 0),
                str(row["comm"] or ""),
                int(row["start_ns"] or 0),
                int(row["duration_ns"] or 0),
            )
            for row in rows
        ]

    def stage(self, stage: str) -> str:
        """Printed name of a stage of the judged layer."""
        return self.case.stage_name(self.layer, stage)
