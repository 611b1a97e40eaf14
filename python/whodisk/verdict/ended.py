"""How a recorded command ended, where that is not as it should."""

from __future__ import annotations

import signal
from typing import Any

#: The exit status of timeout(1) where it stopped its command.
TIME_IS_OVER = 124


def ended_said(meta: dict[str, Any]) -> str:
    """A sentence, by case.json; empty where it ended with exit 0, where nobody knows, and where whoever recorded it stopped it."""
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
        if int(number) == signal.SIGKILL
        else ""
    )
    return f"The command was ended by {name}.{killer}"


def _of_recorder(meta: dict[str, Any]) -> set[int]:
    """Signals by which a recording ends its command: Ctrl-C, which it passes on, and what it sends at the end of `--duration`."""
    argv = [str(part) for part in meta.get("argv") or []]
    own = argv[: argv.index("--")] if "--" in argv else argv
    at_its_end = any(part.split("=", 1)[0] == "--duration" for part in own)
    return {signal.SIGINT, *((signal.SIGTERM, signal.SIGKILL) if at_its_end else ())}
