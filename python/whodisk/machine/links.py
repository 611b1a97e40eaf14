"""The PCIe link of a drive: what sysfs says it is, and what it lets through."""

from __future__ import annotations

import re

from whodisk.reading.changes import changes_of
from whodisk.reading.views import Case

#: What sysfs calls a link: `16.0 GT/s PCIe x4`; older kernels leave the bus out.
_LINK = re.compile(r"([0-9.]+) GT/s.* x([0-9]+)")
#: Transfers per second from which 128 of 130 bits carry data; below it is 8 of 10 (PCI Express Base Specification 4.0, 4.2).
_LONG_CODE_GT = 8.0


def link_bytes_per_s(link: str | None) -> float | None:
    """What a link carries, bytes per second in each direction, headers of packets included; None for what is no link."""
    found = _LINK.fullmatch(link or "")
    if found is None or int(found[2]) == 0:
        return None
    speed_gt = float(found[1])
    coded = 128 / 130 if speed_gt >= _LONG_CODE_GT else 0.8
    return speed_gt * 1e9 * coded * int(found[2]) / 8


def narrow_links(case: Case) -> dict[str, tuple[str, str]]:
    """Devices with a link that carries less than it could: the link it has and the most it can, as recorded. One that lost lanes or speed during the
    recording counts with what it had left."""
    left = {
        change.subject: change.now
        for change in changes_of(case.system)
        if (change.kind, change.fact) == ("device", "pcie_link")
    }
    found = {}
    for name, described in sorted((case.system.get("devices") or {}).items()):
        facts = described.get("facts") or {}
        link, most = facts.get("pcie_link"), facts.get("pcie_link_max")
        after = link_bytes_per_s(left.get(name))
        if after is not None and after < (link_bytes_per_s(link) or 0.0):
            link = left[name]
        now, could = link_bytes_per_s(link), link_bytes_per_s(most)
        if now is not None and could is not None and now < could:
            found[str(name)] = (str(link), str(most))
    return found
