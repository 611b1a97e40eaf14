"""Devices of a machine that ought to be alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import (
    ARM_TAKES_MIN_NS,
    PEER_BUSIER,
    PEER_DEVICES_MIN,
    PEER_MEMBERS_MIN,
    PEER_OPERATIONS_MIN,
)
from whodisk.machine.below_loop import disk_of_loop
from whodisk.machine.volumes import volumes_of

#: Drivers of disks that a hypervisor makes, and vendors of SCSI disks that one makes (INQUIRY).
VIRTUAL_DRIVERS = frozenset(("virtio_blk", "vbd", "xen_blkfront", "xen-blkfront"))
VIRTUAL_VENDORS = ("qemu", "vmware", "msft", "vbox", "virtual disk", "google")


@dataclass(frozen=True)
class Kind:
    """Devices that ought to be alike. `name` says in what: the facts that all of them share."""

    name: str
    devices: tuple[str, ...]


def kinds(context: Context, survey: Survey, *, pairs: bool = False) -> list[Kind]:
    """Devices alike in driver, model, kind of medium, size and role, with enough operations each.

    Whatever their names: sda, sdb and sdc are a kind if they are the same drive in the same place of a stack. A device of
    which the case knows neither model nor size is of no kind (`without_facts`). `pairs`: two suffice if they are members of one volume, which gives
    both the same work.
    """
    alike: dict[Facts, list[str]] = {}
    for device, facts in _compared(context, survey):
        if facts is not None:
            alike.setdefault(facts, []).append(device)
    return [
        Kind(facts.words(), tuple(members))
        for facts, members in alike.items()
        if len(members) >= (PEER_MEMBERS_MIN if pairs and facts.role else PEER_DEVICES_MIN)
    ]


def without_facts(context: Context, survey: Survey) -> list[str]:
    """Devices that might have peers, but of which the case does not say what they are."""
    return [device for device, facts in _compared(context, survey) if facts is None]


@dataclass(frozen=True)
class Facts:
    """What a device is, as `system.json` has it; None = not recorded."""

    driver: str | None
    model: str | None
    rotates: bool | None
    size_bytes: int | None
    #: Volumes that it is a member of.
    role: tuple[str, ...]

    def words(self) -> str:
        """The facts that are known, and which are not."""
        medium = {True: "rotating", False: "not rotating", None: None}[self.rotates]
        size = words.size(self.size_bytes) if self.size_bytes else None
        known = {
            "driver": self.driver and f"driver {self.driver}",
            "model": self.model and f"model {self.model}",
            "medium": medium,
            "size": size,
        }
        parts = [text for text in known.values() if text]
        parts.append(f"in {words.listed(list(self.role))}" if self.role else "in no volume")
        unknown = [name for name, text in known.items() if not text]
        lack = f"; {words.listed(unknown)} not known" if unknown else ""
        return ", ".join(parts) + lack


def without_peers(context: Context, survey: Survey, least: int) -> list[str]:
    """Devices at the bottom with at least this number of operations that have no peers, and do not rotate."""
    names = {device for device, count in survey.by_device().items() if device and count >= least}
    return sorted(name for name in names - judged_elsewhere(context, survey) if not rotates(context, name))


def judged_elsewhere(context: Context, survey: Survey) -> set[str]:
    """Devices that others than a detector of single devices look at: those with peers are compared with them; what a volume does, those below it do."""
    peers = {device for kind in kinds(context, survey) for device in kind.devices}
    return set(volumes_of(context.case)) | peers


def _compared(context: Context, survey: Survey) -> list[tuple[str, Facts | None]]:
    """Devices with enough operations, and their facts."""
    # What volumes are made of, and how many members they have, differs.
    volumes = volumes_of(context.case)
    described = context.case.system.get("devices") or {}
    roles = _roles(described, context.case.system.get("pools") or [])
    return [
        (device, _facts(described.get(device) or {}, roles.get(device, ())))
        for device, operations in sorted(survey.by_device().items())
        if device and device not in volumes and operations >= PEER_OPERATIONS_MIN
    ]


def _facts(described: dict[str, Any], role: tuple[str, ...]) -> Facts | None:
    facts = described.get("facts") or {}
    model = " ".join(str(facts[name]) for name in ("vendor", "model") if facts.get(name)) or None
    size = int(described.get("size_bytes") or 0) or None
    if model is None and size is None:
        return None
    rotational = (described.get("queue") or {}).get("rotational")
    return Facts(
        driver=facts.get("driver"),
        model=model,
        rotates=None if rotational is None else str(rotational) == "1",
        size_bytes=size,
        role=role,
    )


def _roles(described: dict[str, Any], pools: list[list[str]]) -> dict[str, tuple[str, ...]]:
    """Volumes that each disk is a member of, itself or with a partition; a file system over several devices is one, too."""
    disks = {
        part: disk
        for disk, about in described.items()
        for part in str((about.get("facts") or {}).get("partitions") or "").split()
    }
    roles: dict[str, set[str]] = {}
    for volume, about in described.items():
        for member in str((about.get("facts") or {}).get("members") or "").split():
            roles.setdefault(disks.get(member, member), set()).add(volume)
    for members in pools:
        for member in members:
            roles.setdefault(disks.get(member, member), set()).add(f"a file system over {', '.join(members)}")
    return {disk: tuple(sorted(volumes)) for disk, volumes in roles.items()}


def busier(survey: Survey, kind: Kind) -> set[str]:
    """Devices that serve more than `PEER_BUSIER` times the requests of their peers: waiting inside them needs no other reason."""
    counts = {device: sum(s.operations for s in survey.select(device)) for device in kind.devices}
    usual = usual_of(kind, list(counts.values()))
    return {device for device, count in counts.items() if count > PEER_BUSIER * usual}


def usual_of(kind: Kind, values: Sequence[float]) -> float:
    """What is usual among devices of a kind, of which these are values: the median; of two the lesser one, as either pulls their middle."""
    return float((np.median if len(kind.devices) > PEER_MEMBERS_MIN else np.min)(values))


def shared_alike(kind: Kind, operations: list[int]) -> bool:
    """Whether the devices of a kind share some work so that it compares them (`operations` of each that had any): a mirror reads from one half as long as that is idle,
    and from the other what is left, so two are compared in what both did as much of."""
    if len(kind.devices) > PEER_MEMBERS_MIN:
        return True
    return len(operations) == len(kind.devices) and max(operations) <= PEER_BUSIER * min(operations)


def rotates(context: Context, device: str) -> bool:
    """Whether it is a rotating disk: how long a request takes there depends on where the last one was.

    Hypervisors call their disks rotating unless they are told otherwise: of such a disk that counts only if hardly a request takes less than an arm does.
    """
    devices = context.case.system.get("devices") or {}
    if not _said_to_rotate(context, device):
        return False
    # A loop device takes over what the disk below it is called (drivers/block/loop.c, loop_update_rotational).
    below = disk_of_loop(context, device)
    disk = device if below is None else below[1]
    return not is_virtual(devices.get(disk) or {}) or _quick_ns(context, device) >= ARM_TAKES_MIN_NS


def takes_turns(context: Context, device: str) -> bool:
    """Whether what a device does for one it does not do for another meanwhile: a disk with an arm, or a loop device over a disk that is called
    one, of which a single queue hands request after request to the file."""
    if disk_of_loop(context, device) is not None:
        return _said_to_rotate(context, device)
    return rotates(context, device)


def _said_to_rotate(context: Context, device: str) -> bool:
    known = (context.case.system.get("devices") or {}).get(device) or {}
    return str((known.get("queue") or {}).get("rotational")) == "1"


def is_virtual(described: dict[str, Any]) -> bool:
    """Whether a hypervisor made a device, by its driver and its vendor."""
    facts = described.get("facts") or {}
    vendor = " ".join(str(facts.get(name) or "") for name in ("vendor", "model")).lower()
    return facts.get("driver") in VIRTUAL_DRIVERS or any(name in vendor for name in VIRTUAL_VENDORS)


def _quick_ns(context: Context, device: str) -> float:
    """What the quick tenth of a device's requests takes at most; more than any where none was recorded."""
    block = context.surveys.get("block")
    strata = block.select(device) if block is not None else []
    return block.quantile_ns(strata, 0.1) if block is not None and strata else math.inf
