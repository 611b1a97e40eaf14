"""What a log of interrupt handlers says (hardirqs, softirqs): which took most time, and when."""

from __future__ import annotations

from whodisk import words
from whodisk.evidence.sampled_latencies import zero_sql
from whodisk.evidence.thresholds import ACCOUNT_HANDLERS_TOLD
from whodisk.reading.views import Case


def handlers(case: Case) -> list[str]:
    """A sentence on time in handlers, else on how often they ran; and one on the longest run, where the log has it."""
    rows = case.rows(
        f"""SELECT subject, metric, sum(value) AS total, max(value) AS most, arg_max(time_ns, value) - {zero_sql(case)} AS at_ns
FROM series WHERE kind = 'component' AND metric IN ('handler_time_ns', 'handler_runs', 'handler_time_max_ns')
GROUP BY 1, 2 ORDER BY 3 DESC, 1"""
    )
    moments = case.rows(
        "SELECT count(DISTINCT time_ns) AS n FROM series WHERE metric IN ('handler_time_ns', 'handler_runs')"
    )
    intervals = int(moments[0]["n"] or 0)

    def of(metric: str) -> list[tuple[str, float, float, float]]:
        chosen = (row for row in rows if row["metric"] == metric)
        return [
            (str(row["subject"]), float(row["total"] or 0), float(row["most"] or 0), float(row["at_ns"] or 0))
            for row in chosen
        ]

    times, runs = of("handler_time_ns"), of("handler_runs")
    if not times and not runs:
        return _interrupts(case)
    over = f" in {words.count(intervals)} intervals" if intervals > 1 else ""
    if times:
        all_of_it = f"Interrupt handlers took {words.duration(sum(one[1] for one in times))}{over}"
        said = [f"{name} {words.duration(total)}" for name, total, *_ in times]
        if intervals > 1:
            _, _, most, at_ns = times[0]
            said[0] += f" (in one interval {words.duration(most)} at most, at {case.moment(at_ns)})"
        rest = words.duration(sum(one[1] for one in times[ACCOUNT_HANDLERS_TOLD:]))
    else:
        all_of_it = f"Interrupt handlers ran {words.count(sum(one[1] for one in runs))} times{over}"
        said = [f"{name} {words.count(total)}" for name, total, *_ in runs]
        rest = words.count(sum(one[1] for one in runs[ACCOUNT_HANDLERS_TOLD:]))
    hidden = len(said) - ACCOUNT_HANDLERS_TOLD
    told = said[:ACCOUNT_HANDLERS_TOLD] + ([f"{hidden} more {rest}"] if hidden > 0 else [])
    longest = max(of("handler_time_max_ns"), key=lambda one: one[2], default=None)
    behind = f" The longest run took {words.duration(longest[2])} ({longest[0]})." if longest else ""
    return [f"{all_of_it}: {words.listed(told)}.{behind}"]


def _interrupts(case: Case) -> list[str]:
    """How many interrupts each handler had between snapshots of /proc/interrupts."""
    rows = case.rows(
        """SELECT subject, sum(value) AS total, count(DISTINCT time_ns) AS n FROM series
WHERE kind = 'component' AND metric = 'interrupts' GROUP BY 1 ORDER BY 2 DESC, 1"""
    )
    if not rows:
        return []
    intervals = max(int(row["n"] or 0) for row in rows)
    over = "" if intervals == 1 else f" in {words.count(intervals)} intervals"
    had = [f"{row['subject']} {words.count(float(row['total'] or 0))}" for row in rows if row["total"]]
    if not had:
        names = words.some([str(row["subject"]) for row in rows], ACCOUNT_HANDLERS_TOLD)
        return [f"No interrupt between the snapshots{over} ({names})."]
    total = words.things(sum(float(row["total"] or 0) for row in rows), "interrupt")
    none = words.things(len(rows) - len(had), "handler")
    rest = f"; {none} had none" if len(had) < len(rows) else ""
    return [f"{total} between the snapshots{over}: {words.some(had, ACCOUNT_HANDLERS_TOLD)}{rest}."]
