"""How a recorded command ended, where that is not as it should, and whether memory ran out."""

from __future__ import annotations

import signal
from typing import Any

from whodisk import words
from whodisk.evidence.page_cache import grown_sql
from whodisk.reading.views import Case

#: The exit status of timeout(1) where it stopped its command.
TIME_IS_OVER = 124


def killed_for_memory(case: Case) -> int | None:
    """How many processes the kernel killed for want of memory, of the machine or of a control group, while this was recorded (`oom_kill` of
    /proc/vmstat, mm/oom_kill.c); None where nobody counted."""
    if "series" not in case.columns:
        return None
    row = case.rows(
        f"""SELECT count(*) AS looks, sum(grown) AS killed FROM (SELECT {grown_sql("subject")} AS grown FROM series
WHERE kind = 'host' AND metric = 'memory_kills_per_s')"""
    )[0]
    return round(float(row["killed"] or 0)) if row["looks"] else None


def ended_said(meta: dict[str, Any], killed: int | None = None) -> str:
    """A sentence or two, by case.json and how many processes were killed for want of memory (None: nobody knows); empty where the command ended with exit 0, where nobody
    knows, and where whoever recorded it stopped it, unless memory ran out."""
    return " ".join(filter(None, (_ended(meta, killed), _killed_said(killed))))


def _killed_said(killed: int | None) -> str:
    if not killed:
        return ""
    return (
        f"Memory ran out, of the machine or of a control group: the kernel killed {words.things(killed, 'process', 'processes')} meanwhile "
        "(`dmesg | grep -i oom` says which)."
    )


def _ended(meta: dict[str, Any], killed: int | None) -> str:
    status = str(meta.get("command_status") or "")
    kind, _, number = status.partition(" ")
    command = [str(part) for part in meta.get("command") or []]
    if not command or not number.isdigit() or status == "exit 0":
        return ""
    if kind == "exit":
        by_timeout = command[0].rsplit("/", 1)[-1] == "timeout" and int(number) == TIME_IS_OVER
        return f"The command ended with exit {number}{': timeout stopped it' if by_timeout else ''}."
    if kind != "signal" or int(number) in _of_recorder(meta):
        return ""
    try:
        name = f"{signal.Signals(int(number)).name} (signal {number})"
    except ValueError:
        name = f"signal {number}"
    killer = (
        " The kernel sends it when memory runs out (`dmesg | grep -i oom`)."
        if int(number) == signal.SIGKILL and killed is None
        else ""
    )
    return f"The command was ended by {name}.{killer}"


def _of_recorder(meta: dict[str, Any]) -> set[int]:
    """Signals by which a recording ends its command: Ctrl-C, which it passes on, and what it sends at the end of `--duration`."""
    argv = [str(part) for part in meta.get("argv") or []]
    own = argv[: argv.index("--")] if "--" in argv else argv
    at_its_end = any(part.split("=", 1)[0] == "--duration" for part in own)
    return {signal.SIGINT, *((signal.SIGTERM, signal.SIGKILL) if at_its_end else ())}
