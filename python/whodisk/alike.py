"""Devices of a machine that ought to be alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.below import volumes_of
from whodisk.detectors.base import Context
from whodisk.survey import Survey

#: Devices seen operation by operation need so many of their kind: two disks of a machine may do different work.
DEVICES_MIN = 3
#: A device with so many times its peers' requests (median) is busier.
BUSIER = 1.3


@dataclass(frozen=True)
class Kind:
    """Devices that ought to be alike."""

    name: str
    devices: tuple[str, ...]


def kinds(context: Context, survey: Survey) -> list[Kind]:
    """Devices of the same driver and model with enough operations each."""
    counts = survey.by_device()
    # What volumes are made of, and how many members they have, differs.
    volumes = volumes_of(context.case) if "links" in context.case.columns else set()
    facts = context.case.system.get("devices") or {}
    alike: dict[str, list[str]] = {}
    for device, operations in sorted(counts.items()):
        if device and device not in volumes and operations >= 100:
            known = (facts.get(device) or {}).get("facts") or {}
            letters = "".join(c for c in device if c.isalpha())[:4]
            alike.setdefault(f"{letters} {known.get('model', '')}", []).append(device)
    return [Kind(name, tuple(members)) for name, members in alike.items() if len(members) >= DEVICES_MIN]


def busier(survey: Survey, kind: Kind) -> set[str]:
    """Devices that serve so many more requests than their peers that waiting inside them needs no other reason."""
    counts = {device: sum(s.operations for s in survey.select(device)) for device in kind.devices}
    usual = float(np.median(list(counts.values())))
    return {device for device, count in counts.items() if count > BUSIER * usual}


def rotates(context: Context, device: str) -> bool:
    """Whether it is a rotating disk: how long a request takes there depends on where the last one was."""
    known = (context.case.system.get("devices") or {}).get(device) or {}
    return str((known.get("queue") or {}).get("rotational")) == "1"
