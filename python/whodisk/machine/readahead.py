"""How far Linux reads ahead."""

from __future__ import annotations

from whodisk.evidence.context import Context


def read_ahead_kb(context: Context, device: str) -> int | None:
    """The window of Linux' readahead for a device, KiB; None where it is not known."""
    queue = ((context.case.system.get("devices") or {}).get(device) or {}).get("queue") or {}
    try:
        return int(queue["read_ahead_kb"])
    except (KeyError, TypeError, ValueError):
        return None
