"""Other names of the same thing: which findings name the culprit of a fault.

A truth names a culprit by what was done (`process submitter`), a verdict by what was seen (`process fio (thread 812)`,
because of a silence). One table says which findings mean the same; docs/reference/findings.md prints it, and a test compares.
Nothing here makes another thing right: a drive is not its interrupt vector, and a stage without a device is no drive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Alias:
    """A finding's culprit, as regular expressions over the whole text; `{name}` is the true culprit's name."""

    kind: str
    name: str = ".*"
    because_of: str = ".*"

    def names(self, true_name: str, kind: str, name: str, because_of: str | None) -> bool:
        """Whether a finding with this culprit is meant."""
        texts = ((self.kind, kind), (self.name, name), (self.because_of, because_of or ""))
        return all(
            re.fullmatch(pattern.replace("{name}", re.escape(true_name)), text) for pattern, text in texts
        )


_DRIVE = (
    Alias("device", "{name}"),
    Alias("stage", "device|device[+].*", "device:{name}"),
)
_LOAD = (Alias("process", "{name}"), Alias("time_pattern", "{name}"), Alias(".*", ".*", "process:{name}"))
_LAYOUT = (Alias("layout"),)
_SIZE = (Alias("request_shape", "read of [0-9]+ bytes|copy of [0-9]+ bytes", "(prefetch|readahead) of .*"),)

#: Kind of fault -> findings that name its culprit, beside those of the same kind and name.
ALIASES: dict[str, tuple[Alias, ...]] = {
    "slow_member": _DRIVE,
    "firmware_hiccups": _DRIVE,
    "garbage_collection": _DRIVE,
    "device_errors": _DRIVE,
    "slow_handler": (Alias("vector", "{name}"),),
    "wrong_affinity": (Alias("vector", "{name}"),),
    "submitter_stall": (Alias("process", ".*", "silence of the submitter, state .*"),),
    "runqueue_pressure": (Alias("process", ".*", "stage:runqueue"),),
    "throttle": (Alias("config", "I/O limit of .*", "stage:throttle"),),
    # A recorder at the client sees that it is above the block layer, and no more.
    "network_loss": (Alias("stage", "fs([+].*)?"),),
    "load": _LOAD,
    "noisy_neighbour": _LOAD,
    "periodic_job": _LOAD,
    "checkpoint_storm": _LOAD,
    "prefetch_misfit": _SIZE,
    "oversized_transaction": _SIZE,
    "queue_stall": (Alias("stage", "queue"),),
    "flush_tail": _DRIVE,
    "thermal_throttle": _DRIVE,
    "link_downgrade": _DRIVE,
    "fast_region_full": _DRIVE,
    "multipath_failover": _DRIVE,
    "slow_firmware": (Alias("stage", "device([+].*)?"),),
    "misalignment": (Alias("request_shape", ".*alignment.*"), Alias("layout", ".*alignment.*")),
    "rebuild": _LOAD,
    "scrub": _LOAD,
    "discard_storm": _LOAD,
    "journal_contention": (Alias("stage", "fs([+].*)?"),),
    "numa_distance": (Alias("config", "submitting cpu .*"),),
    "fragmentation": _LAYOUT,
    "aged_layout": _LAYOUT,
    "fill_level": _LAYOUT,
    "cache_too_small": (Alias("cache_tier"),),
}


def named_by(fault: str, true_name: str, kind: str, name: str, because_of: str | None) -> bool:
    """Whether a finding's culprit is another name of a fault's."""
    return any(alias.names(true_name, kind, name, because_of) for alias in ALIASES.get(fault, ()))
