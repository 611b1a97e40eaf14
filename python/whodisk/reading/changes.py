"""What of a host was different at the end of a recording, as facts: `changes` of system.json.

Cases of earlier versions hold sentences; those of them that state a fact are read as one here, and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

#: How earlier versions worded what changed of a device.
_OLD = re.compile(r"device (\S+): (\w+) was '(.*)', is '(.*)'")
#: And what changed of a mount: target, then device, type and options.
_OLD_MOUNT = re.compile(r"(.+) was mounted anew with (\S+) (\S+) (\S+)")
#: Options of a mount that can no longer be written to; the latter is how ext4 says that an error made it so.
READ_ONLY = frozenset({"ro", "emergency_ro"})


@dataclass(frozen=True)
class Changed:
    """A fact of the host that changed during the recording."""

    #: `device`, `mount` or `interrupt`; empty where only a sentence is known.
    kind: str
    #: Name of the device, target of the mount, number of the interrupt.
    subject: str
    #: `firmware`, `pcie_link`, `size_bytes`, a queue setting; `options` of a mount, `affinity` of an interrupt.
    fact: str
    #: Before and at the end; None: it was not there.
    was: str | None
    now: str | None
    sentence: str


def changes_of(system: dict[str, Any]) -> list[Changed]:
    """Everything that changed, in the order of system.json."""
    return [_changed(item, system.get("mounts") or {}) for item in system.get("changes") or []]


def turned_read_only(system: dict[str, Any]) -> list[str]:
    """Mount points that could be written to when the recording began, and no longer when it ended."""
    return [
        change.subject
        for change in changes_of(system)
        if (change.kind, change.fact) == ("mount", "options")
        and READ_ONLY & _options(change.now)
        and change.was is not None
        and not READ_ONLY & _options(change.was)
    ]


def _options(text: str | None) -> set[str]:
    return set((text or "").split(","))


def _changed(item: Any, mounts: dict[str, Any]) -> Changed:
    if not isinstance(item, dict):
        text = str(item)
        if (anew := _OLD_MOUNT.fullmatch(text)) and (was := mounts.get(anew[1])):
            same = [str(part) for part in was[:2]] == [anew[2], anew[3]]
            # Another file system there is no change of this one's options.
            return Changed("mount", anew[1], "options" if same else "device", str(was[2]), anew[4], text)
        old = _OLD.fullmatch(text)
        if old is None:
            return Changed("", "", "", None, None, text)
        return Changed("device", old[1], old[2], old[3], old[4], text)
    kind, subject, fact = (str(item.get(key) or "") for key in ("kind", "subject", "fact"))
    was, now = item.get("was"), item.get("is")
    if was is not None and now is not None:
        said = f"{kind} {subject}: {fact} was '{was}', is '{now}'"
    else:
        said = f"{kind} {subject} {'is gone' if now is None else 'appeared'}"
    return Changed(kind, subject, fact, was, now, said)
