"""Another program's requests to a rotating disk, or to a loop device over one: the time that they take of its arm, and the way back.

A disk with one arm serves nobody else meanwhile, so what a request of another program cost is seen, and compared with nothing: how
long the disk took for it, and how much longer for the judged program's next one. `neighbour` looks at disks without an arm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import leave_device
from whodisk.detectors.thresholds import (
    ARM_REQUESTS_MIN,
    SEEN_P99_RATIO_MIN,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.service_times import Served, requests_sql, served_by
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.thresholds import LINK_LEVELS
from whodisk.evidence.time_lost import lost_per_episode, p99_ratio
from whodisk.findings import Culprit, Effect
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.machine.peers import rotates, takes_turns
from whodisk.reading.views import Case
from whodisk.statistics.stats import Floats, Ints, bootstrap_sum, overlap


@dataclass(frozen=True)
class Guest:
    """A program that is not judged, and what its requests cost those of the judged one."""

    comm: str
    device: str
    requests: int
    #: Mean time of the arm for one of its requests, and beyond the usual for the next one of another, ns.
    service_ns: float
    return_ns: float
    #: Requests of others that lost something, and what, ns.
    op_id: Ints
    lost_ns: Floats


def run(context: Context) -> Result:
    """A candidate for each program that the arm of a disk works for, too."""
    result = Result()
    if context.layer not in ("app", "syscall") or "block" not in context.surveys:
        return result
    for number, device in enumerate(sorted(context.surveys["block"].by_device())):
        if not device or not takes_turns(context, device):
            continue
        served = served_by(context, device)
        for which, comm in enumerate(_guests(context.case, served)):
            found = _candidate(context, _guest(served, comm), f"lost_to_guest_{number}_{which}")
            if found is not None:
                result.candidates.append(found)
    return result


def _guests(case: Case, served: Served) -> list[str]:
    """Programs with enough requests, where enough others are served, too: the judged program's, or the kernel's on its behalf."""
    names, counts = np.unique(served.comm[~served.own], return_counts=True)
    return [
        name
        for name, count in zip(names.tolist(), counts.tolist(), strict=True)
        if name
        and min(count, len(served.op_id) - count) >= ARM_REQUESTS_MIN
        and not is_kernel_thread(case, name)
    ]


def _guest(served: Served, comm: str) -> Guest:
    """What every other request lost: which of them the judged operations waited for is seen later (`_lost_sql`)."""
    its = served.comm == comm
    # The next request of another, where the disk comes back from one of these.
    back = np.zeros(len(its), np.bool_)
    back[1:] = ~its[1:] & its[:-1]
    further = np.zeros(len(its))
    for op in np.unique(served.op[back]).tolist():
        same = ~its & (served.op == op)
        if (same & ~back).any():
            # The mean: a single way back may be shorter than the way that it replaces.
            usual_ns, back_ns = (
                float(served.service_ns[which].mean()) for which in (same & ~back, same & back)
            )
            further[same & back] = max(0.0, back_ns - usual_ns)
    taken = np.where(its, served.service_ns, np.minimum(served.service_ns, further))
    begin = served.end_ns - served.service_ns
    busy = taken > 0
    lost = overlap(served.start_ns[~its], served.end_ns[~its], begin[busy], (begin + taken)[busy])
    return Guest(
        comm=comm,
        device=served.device,
        requests=int(its.sum()),
        service_ns=float(served.service_ns[its].mean()),
        return_ns=float(further[back].mean()) if back.any() else 0.0,
        op_id=served.op_id[~its][lost > 0],
        lost_ns=lost[lost > 0],
    )


def _candidate(context: Context, guest: Guest, table: str) -> Candidate | None:
    """None where nobody is known to have waited for a request that lost something. `table`: a name for what operations lost, which several questions ask."""
    if not len(guest.op_id):
        return None
    context.case.make_table(table, _lost_sql(context, guest))
    lost_sql = f"SELECT op_id, lost_ns FROM {table}"
    lost = lost_per_episode(context, lost_sql)
    if not len(lost):
        return None
    worse = p99_ratio(context, lost_sql)
    total = max(1.0, context.survey.latency_ns)
    share = min(1.0, float(lost.sum()) / total)
    low, high = bootstrap_sum(lost / total)
    further = (
        f", and {words.duration(guest.return_ns)} more than usual for the request after it"
        if guest.return_ns
        else ""
    )
    has_arm = rotates(context, guest.device)
    claim = (
        f"{'The arm of ' * has_arm}{guest.device} also serves {guest.comm}: {words.things(guest.requests, 'request')}, "
        f"{words.duration(guest.service_ns)} each{further}. "
        f"That costs the operations that wait meanwhile {words.percent(share)} of all latency, and makes their 99th percentile "
        f"{worse:.2f} times as long."
    )
    return Candidate(
        culprit=Culprit("process", guest.comm, f"device:{guest.device}"),
        claim=claim,
        baseline=f"the same operations without the time in which the disk served {guest.comm}, or came back from it",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        p_value=0.0,
        episodes=len(lost),
        basis="measured",
        summed=True,
        evidence=[evidence(context.case, "which programs the disk served", _programs_sql(context, guest))],
        refute=f"Stop {guest.comm} for a while: if operations take as long, its requests cost nothing.",
        remedy=_remedy(guest, has_arm),
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(("stage", "device"), ("stage", "queue")),
        large=share >= SHARE_OF_LATENCY_MIN or (share >= SHARE_FOR_P99_MIN and worse >= SEEN_P99_RATIO_MIN),
        p99_ratio=worse,
        lost_sql=lost_sql,
    )


def _remedy(guest: Guest, has_arm: bool) -> str:
    if not has_arm:
        return leave_device(guest.comm)
    return (
        f"Let {guest.comm} use another disk, or work at another time: a request now and then costs a disk with an arm two jumps "
        "(io.weight for its group and ionice -c3 help little, as each jump costs the same)."
    )


def _lost_sql(context: Context, guest: Guest) -> str:
    """What each judged operation lost. Of requests that overlap it would have waited for the last one to end, each earlier by what that one
    lost; one that begins after others have ended waited for them, so what such waves lost adds up. A flush
    that ends with its carrier is a part of that one."""
    lost = ", ".join(
        f"({op_id}, {round(lost_ns)})"
        for op_id, lost_ns in zip(guest.op_id.tolist(), guest.lost_ns.tolist(), strict=True)
    )
    up = ["up_0 AS (SELECT op_id FROM guest)"]
    down = [f"down_0 AS (SELECT op_id AS top_id, op_id FROM waiting WHERE layer = '{context.layer}')"]
    for level in range(1, LINK_LEVELS + 1):
        up.append(
            f"up_{level} AS (SELECT DISTINCT l.parent_id AS op_id FROM up_{level - 1} AS u JOIN waited AS l ON l.child_id = u.op_id)"
        )
        down.append(
            f"down_{level} AS (SELECT DISTINCT d.top_id, l.child_id AS op_id FROM down_{level - 1} AS d JOIN waited AS l ON l.parent_id = d.op_id)"
        )
    above = " UNION ".join(f"SELECT op_id FROM up_{level}" for level in range(1, LINK_LEVELS + 1))
    below = " UNION ".join(f"SELECT * FROM down_{level}" for level in range(1, LINK_LEVELS + 1))
    return f"""WITH guest(op_id, lost_ns) AS (VALUES {lost}),
  waited AS (SELECT parent_id, child_id, kind FROM links WHERE kind <> 'carries'),
  {", ".join(up)},
  waiting AS (SELECT m.op_id, m.layer FROM measured AS m JOIN ({above}) AS a ON a.op_id = m.op_id),
  {", ".join(down)},
  requests AS (SELECT d.top_id, b.start_ns, b.start_ns + b.latency_ns AS end_ns, coalesce(g.lost_ns, 0) AS lost_ns
    FROM ({below}) AS d JOIN block_ops AS b ON b.op_id = d.op_id LEFT JOIN guest AS g ON g.op_id = d.op_id
    WHERE NOT b.open AND b.op_id NOT IN (SELECT parent_id FROM waited WHERE kind = 'stacked')
      AND b.op_id NOT IN (SELECT w.child_id FROM waited AS w JOIN block_ops AS p ON p.op_id = w.parent_id JOIN block_ops AS c ON c.op_id = w.child_id
        WHERE w.kind = 'waits_for' AND c.start_ns >= p.start_ns AND c.start_ns + c.latency_ns <= p.start_ns + p.latency_ns)),
  follows AS (SELECT *, start_ns >= max(end_ns) OVER (PARTITION BY top_id ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_next
    FROM requests),
  waves AS (SELECT *, count(*) FILTER (is_next) OVER (PARTITION BY top_id ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS wave FROM follows)
SELECT op_id, sum(lost_ns) AS lost_ns FROM
  (SELECT top_id AS op_id, wave, max(end_ns) - max(end_ns - lost_ns) AS lost_ns FROM waves GROUP BY 1, 2) GROUP BY 1"""


def _programs_sql(context: Context, guest: Guest) -> str:
    return f"""SELECT comm, own, count(*) AS requests, sum(size_bytes) AS bytes, CAST(avg(latency_ns) AS BIGINT) AS mean_latency_ns
FROM ({requests_sql(context, guest.device)}) AS requests GROUP BY 1, 2 ORDER BY 3 DESC, 1 LIMIT 20"""


DETECTOR = Detector(
    name="shared_arm",
    needs=("judged.start_ns", "judged.comm", "links.child_id"),
    needs_stages=(),
    null_model="none: when the disk served whom, and who waited meanwhile, stands in the record",
    smallest_effect="5 % of all latency, or 0.2 % and a 99th percentile 10 % above that without it; over at least 10 requests",
    run=run,
    needs_all=True,
)
