"""NUMA nodes: which CPU is where, and where a device is."""

from __future__ import annotations

from whodisk.reading.views import Case


def node_of_cpu(case: Case) -> dict[int, int]:
    """CPU -> its node; empty where the case does not say, or there is one node."""
    nodes = case.system.get("numa_nodes") or {}
    if len(nodes) < 2:
        return {}
    return {cpu: int(node) for node, listed in nodes.items() for cpu in cpus_of(str(listed))}


def node_of_devices(case: Case, devices: set[str]) -> int | None:
    """The node at which all of these devices are (those with a known node); None if they are at several, or none is known."""
    described = case.system.get("devices") or {}
    told = {str((described.get(name) or {}).get("facts", {}).get("numa_node", "")) for name in devices}
    nodes = {int(text) for text in told if text.isdigit()}
    return nodes.pop() if len(nodes) == 1 else None


def cpus_of(listed: str) -> list[int]:
    """CPUs of a list as the kernel writes it: `0-3,8`."""
    cpus: list[int] = []
    for part in filter(None, listed.split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
