"""The registry of synthetic ground truth: positives and look-alikes of each detector.

Every entry builds a sealed case from a seed and says what a verdict must and must not claim. Sizes are
small (about 10,000 operations), so that hundreds of seeds can be judged in a test.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ground_truth import (
    apart,
    arms,
    asleep,
    bulk,
    bursts,
    counters,
    crowds,
    flushes,
    freezers,
    guests,
    held,
    holders,
    hosts,
    interrupts,
    limits,
    lookups,
    members,
    memory,
    mirrors,
    others,
    outside,
    pieces,
    places,
    ranges,
    rates,
    reads,
    servers,
    silences,
    steal,
    stripes,
    together,
    traits,
    troubles,
    turns,
    visitors,
)
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, Simulation, write_case


@dataclass(frozen=True)
class Truth:
    """What really happened in a case."""

    #: Detector that must find it, or that it must not mislead.
    detector: str
    #: Whether there is something to find.
    positive: bool
    build: Callable[[int, Path], Path]
    #: Status the verdict must have; None = anything but `slow`.
    status: str | None = None
    #: Culprit of the first finding.
    kind: str | None = None
    name: str | None = None
    because_of: str | None = None
    #: No device may be named.
    nobody: bool = False
    #: What must be cleared.
    cleared: str | None = None
    #: What the limit must mention.
    limit: str | None = None
    #: Name of the culprit of what is read off single operations that stand apart, where a look-alike has such.
    measured: str | None = None
    #: What the verdict must say among `observed` or `cannot_exclude`, and what it must not say there.
    says: str | None = None
    says_not: str | None = None


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 77])


def _moments(seed: int, count: int, seconds: float) -> list[float]:
    """Moments that are not too close to each other nor to the ends."""
    rng = _rng(seed)
    step = seconds / count
    return [step * (number + rng.uniform(0.25, 0.75)) for number in range(count)]


def _small(seed: int, **changes: Any) -> Simulation:
    rng = _rng(seed)
    given = {"depth": 4, "seconds": 1.5, "typical_us": float(rng.uniform(200, 500)), "sigma": 0.25, **changes}
    return Simulation(seed=seed, **given)


# -- stage_blame: positives -------------------------------------------------------------------


def device_tail(seed: int, path: Path) -> Path:
    """1 of 200 to 1 of 1,000 reads takes 30 ms longer in the device."""
    probability = 10 ** _rng(seed).uniform(-3, -2.3)
    return _small(seed, seconds=6).tail("device", float(probability), 30).write(path)


def device_stall(seed: int, path: Path) -> Path:
    """Everything in flight at the device waits 100 ms, now and then."""
    return _small(seed).stall("device", _moments(seed, 3, 1.5), 100).write(path)


def device_stall_block_only(seed: int, path: Path) -> Path:
    """The same for a foreign program: only the block layer was seen."""
    return _small(seed).stall("device", _moments(seed, 3, 1.5), 100).write(path, layers=("block",))


def queue_slow(seed: int, path: Path) -> Path:
    """1 of 100 operations waits 8 ms in the queue."""
    return _small(seed).tail("queue", 0.01, 8).write(path)


def interrupt_slow(seed: int, path: Path) -> Path:
    """1 of 50 completions spends 5 ms in the interrupt."""
    return _small(seed).tail("interrupt", 0.02, 5).write(path)


def one_slow_drive(seed: int, path: Path) -> Path:
    """One of four drives has the slow tail."""
    devices = ("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1")
    return _small(seed, depth=16, devices=devices).tail("device", 0.02, 20, device=2).write(path)


def stall_at_fixed_rate(seed: int, path: Path) -> Path:
    """A device stall at a fixed rate: most of the loss is backlog in the stage app, the cause is below."""
    return fixed_rate(seed, path, stalls=_moments(seed, 2, 3.0), length_ms=150)


# -- stage_blame: look-alikes -------------------------------------------------------------------


def lognormal_tail(seed: int, path: Path) -> Path:
    """A wide, but natural distribution."""
    return _small(seed, sigma=float(_rng(seed).uniform(0.3, 1.3))).write(path)


def pareto_tail(seed: int, path: Path) -> Path:
    """A heavy, but continuous tail (index 1.5)."""
    simulation = _small(seed, sigma=0.15)
    draws = simulation.rng.random(simulation.stages["device"].shape)
    simulation.stages["device"] *= np.maximum(1.0, (draws / 0.1) ** (-1 / 1.5))
    return simulation.write(path)


def jitter(seed: int, path: Path) -> Path:
    """1 % of the operations take three times as long, as when a drive cleans up."""
    return _small(seed).scale("device", 0.01, 3).write(path)


def tiny_hiccup(seed: int, path: Path) -> Path:
    """One moment of 15 ms."""
    return _small(seed).stall("device", _moments(seed, 1, 1.5), 15).write(path)


def two_sizes(seed: int, path: Path) -> Path:
    """1 in 20 operations is 1 MiB and takes 30 times as long."""
    return _small(seed, seconds=4, sizes=((4096, 0.95, 1.0), (1 << 20, 0.05, 30.0))).write(path)


def slow_ramp(seed: int, path: Path) -> Path:
    """A cold start with many slow operations, inside the phase that does not count."""
    simulation = _small(seed)
    begins = np.cumsum(simulation.stages["device"], axis=1) < 0.15e9
    simulation.stages["device"][begins & (simulation.rng.random(begins.shape) < 0.03)] += 20e6
    end_ns = int(simulation.seconds * 1e9)
    phases = [
        {"name": "ramp", "start_ns": 0, "end_ns": 900_000_000},
        {"name": "measure", "start_ns": 900_000_000, "end_ns": end_ns},
    ]
    return simulation.write(path, phases=phases)


def heavy_load(seed: int, path: Path) -> Path:
    """Bursts of up to 64 in flight; latency grows in proportion to depth, as it must."""
    rng = _rng(seed)
    count = 12_000
    burst = np.repeat(rng.random(count // 100) < 0.3, 100)
    depth = np.where(burst, rng.integers(32, 65, count), rng.integers(1, 5, count))
    latency_ns = (100_000 * depth * np.exp(rng.normal(0, 0.25, count))).astype(np.int64)
    start_ns = np.sort(rng.integers(0, 2_000_000_000, count))
    return _block_only(path, start_ns, latency_ns, depth, 2_000_000_000)


def even_hiccups(seed: int, path: Path) -> Path:
    """20 hiccups spread evenly over 8 identical drives, 64 operations in flight."""
    devices = tuple(f"nvme{number}n1" for number in range(8))
    simulation = Simulation(seed=seed, depth=64, seconds=2.0, typical_us=2000.0, devices=devices)
    rng = _rng(seed)
    for moment in _moments(seed, 20, 2.0):
        simulation.stall("device", [moment], 12, device=int(rng.integers(8)))
    return simulation.write(path)


def large_even_hiccups(seed: int, path: Path) -> Path:
    """The same, but large: the stage is to blame, and still no drive is worse than the others."""
    devices = tuple(f"nvme{number}n1" for number in range(8))
    simulation = Simulation(seed=seed, depth=32, seconds=2.0, typical_us=1500.0, devices=devices)
    rng = _rng(seed)
    for moment in _moments(seed, 20, 2.0):
        simulation.stall("device", [moment], 80, device=int(rng.integers(8)))
    return simulation.write(path)


# -- submitter_gap --------------------------------------------------------------------------------


def stopped_submitter(seed: int, path: Path) -> Path:
    """The only worker is stopped for 100 ms three times."""
    return _small(seed, depth=16, seconds=2.0).stop(0, _moments(seed, 3, 2.0), 100).write(path)


def stopped_process(seed: int, path: Path) -> Path:
    """All four workers are stopped at the same moments."""
    moments = _moments(seed, 4, 2.0)
    simulation = _small(seed, workers=4, depth=4, seconds=2.0)
    for worker in range(4):
        simulation.stop(worker, moments, 100)
    return simulation.write(path)


def stop_at_fixed_rate(seed: int, path: Path) -> Path:
    """A worker at a fixed rate is stopped: what was due in the meantime starts late."""
    return fixed_rate(seed, path, stops=_moments(seed, 3, 3.0), length_ms=100)


def time_slices(seed: int, path: Path) -> Path:
    """A busy machine: silences of 2 to 5 ms, another thread's turn on the CPU."""
    simulation = _small(seed, depth=8)
    lengths = _rng(seed).uniform(2, 5, 12)
    for moment, length_ms in zip(_moments(seed, 12, 1.5), lengths, strict=True):
        simulation.stop(0, [moment], float(length_ms))
    return simulation.write(path)


def thinking_program(seed: int, path: Path) -> Path:
    """A foreign program that pauses on purpose: its silences mean nothing."""
    simulation = _small(seed, depth=1)
    simulation.stop(0, _moments(seed, 5, 1.5), 60)
    _, block, _ = simulation.lay_out()
    gaps = [{**gap, "layer": "block", "meant_busy": False} for gap in simulation.gaps]
    meta = {"duration_ns": 1_500_000_000, "observer": "record"}
    return write_case(path, block=block, gaps=gaps, meta=meta)


# -- saturation -----------------------------------------------------------------------------------


def depth_limited(seed: int, path: Path) -> Path:
    """A healthy closed loop: the queue depth is all there is to say."""
    return _small(seed).write(path)


def depth_limited_block_only(seed: int, path: Path) -> Path:
    """The same, seen at the block layer of a foreign program."""
    return _small(seed, depth=8).write(path, layers=("block",))


def sync_bound(seed: int, path: Path) -> Path:
    """A write, then a sync, one after the other."""
    rng = _rng(seed)
    count = 2_000
    latency = np.where(np.arange(count) % 2 == 0, 80_000, 1_200_000) * np.exp(rng.normal(0, 0.2, count))
    latency_ns = latency.astype(np.int64)
    start_ns = np.cumsum(latency_ns + 3_000) - latency_ns
    app = {
        "op_id": APP_ID_BASE | np.arange(count),
        "start_ns": start_ns,
        "latency_ns": latency_ns,
        "op": ["write" if number % 2 == 0 else "sync" for number in range(count)],
        "queue_depth": 1,
        "size_bytes": np.where(np.arange(count) % 2 == 0, 4096, 0),
        "tid": 4300,
        "comm": "worker-0",
        "app_ns": np.zeros(count, np.int64),
        "fs_ns": latency_ns,
    }
    spec = {"queue_depth": 1, "workers": 1, "rate_per_s": None, "sync_every_writes": 1}
    meta = {"duration_ns": int(start_ns[-1] + latency_ns[-1]), "workload": {"spec": spec}}
    return write_case(path, app=app, meta=meta)


def rate_achieved(seed: int, path: Path) -> Path:
    """A fixed rate far below what the device can do."""
    return fixed_rate(seed, path)


# -- builders -----------------------------------------------------------------------------------


def _block_only(path: Path, start_ns: Any, latency_ns: Any, depth: Any, duration_ns: int) -> Path:
    count = len(start_ns)
    queue_ns = np.full(count, 2_000)
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": start_ns,
        "latency_ns": latency_ns,
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": depth,
        "tid": 999,
        "comm": "fio",
        "queue_ns": queue_ns,
        "device_ns": latency_ns - queue_ns - 3_000,
        "interrupt_ns": np.full(count, 3_000),
    }
    return write_case(path, block=block, meta={"duration_ns": duration_ns, "observer": "record"})


def fixed_rate(
    seed: int,
    path: Path,
    *,
    per_second: int = 4000,
    depth: int = 16,
    seconds: float = 3.0,
    stalls: Sequence[float] = (),
    stops: Sequence[float] = (),
    length_ms: float = 0.0,
    slow_part: float = 0.0,
) -> Path:
    """One worker at a fixed rate over `depth` slots, with device stalls or stops of the worker, or with a part of operations that take 5 ms longer."""
    rng = _rng(seed)
    count = int(per_second * seconds)
    due_ns = (np.arange(count) * (1e9 / per_second)).astype(np.int64)
    service_ns = (250_000 * np.exp(rng.normal(0, 0.25, count))).astype(np.int64)
    service_ns[rng.random(count) < slow_part] += 5_000_000
    length_ns = int(length_ms * 1e6)
    stall_ns = [int(moment * 1e9) for moment in stalls]
    stop_ns = [int(moment * 1e9) for moment in stops]
    free: list[int] = [0] * depth
    submit_ns, complete_ns, reap_ns = (np.zeros(count, np.int64) for _ in range(3))
    for number in range(count):
        ready = _after(max(int(due_ns[number]), heapq.heappop(free)), stop_ns, length_ns)
        submit_ns[number] = ready
        complete_ns[number] = _after(ready + int(service_ns[number]), stall_ns, length_ns)
        reap_ns[number] = _after(int(complete_ns[number]) + 3_000, stop_ns, length_ns)
        heapq.heappush(free, int(reap_ns[number]))
    app = {
        "op_id": APP_ID_BASE | np.arange(count),
        "start_ns": due_ns,
        "latency_ns": reap_ns - due_ns,
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": 1,
        "tid": 4300,
        "comm": "worker-0",
        "app_ns": submit_ns - due_ns,
        "fs_ns": np.full(count, 1_000),
        "queue_ns": np.full(count, 2_000),
        "device_ns": complete_ns - submit_ns - 6_000,
        "interrupt_ns": np.full(count, 3_000),
        "reap_ns": reap_ns - complete_ns,
    }
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": submit_ns + 1_000,
        "latency_ns": complete_ns - submit_ns - 1_000,
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": 1,
        "tid": 4300,
        "comm": "worker-0",
        "queue_ns": np.full(count, 2_000),
        "device_ns": complete_ns - submit_ns - 6_000,
        "interrupt_ns": np.full(count, 3_000),
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    gaps = [_silence(begin, length_ns, due_ns, complete_ns, submit_ns) for begin in stop_ns]
    spec = {"queue_depth": depth, "workers": 1, "rate_per_s": per_second, "sync_every_writes": 0}
    meta = {"duration_ns": int(seconds * 1e9), "workload": {"spec": spec}}
    return write_case(path, app=app, block=block, links=links, gaps=gaps, meta=meta)


def _after(moment_ns: int, begins_ns: list[int], length_ns: int) -> int:
    """The moment itself, or the end of the pause that it falls into."""
    for begin_ns in begins_ns:
        if begin_ns <= moment_ns < begin_ns + length_ns:
            return begin_ns + length_ns
    return moment_ns


def _silence(begin_ns: int, length_ns: int, due_ns: Any, complete_ns: Any, submit_ns: Any) -> dict[str, Any]:
    """The silence of a stop at a fixed rate: from the next due operation on, nothing being in flight."""
    before = submit_ns < begin_ns
    idle_ns = int(complete_ns[before].max())
    next_due_ns = int(due_ns[due_ns >= begin_ns].min())
    from_ns = max(idle_ns, next_due_ns)
    return {
        "layer": "app",
        "tid": 4300,
        "comm": "worker-0",
        "start_ns": from_ns,
        "duration_ns": begin_ns + length_ns - from_ns,
        "state": "unobserved",
        "meant_busy": True,
    }


_DEVICE: dict[str, Any] = {
    "status": "slow",
    "kind": "stage",
    "name": "device",
    "because_of": "device:nvme0n1",
}
_FLUSHED: dict[str, Any] = {"status": "slow", "kind": "stage", "name": "device", "because_of": "device:sda"}
_PROCESS: dict[str, Any] = {"status": "slow", "kind": "process", "cleared": "device:nvme0n1"}

TRUTHS: dict[str, Truth] = {
    "device_tail": Truth("stage_blame", True, device_tail, **_DEVICE, cleared="stage:queue"),
    "device_stall": Truth("stage_blame", True, device_stall, **_DEVICE, cleared="stage:reap"),
    "device_stall_block_only": Truth("stage_blame", True, device_stall_block_only, **_DEVICE),
    "queue_slow": Truth("stage_blame", True, queue_slow, status="slow", kind="stage", name="queue"),
    "interrupt_slow": Truth(
        "stage_blame",
        True,
        interrupt_slow,
        status="slow",
        kind="stage",
        name="interrupt",
        cleared="stage:device",
    ),
    "one_slow_drive": Truth(
        "stage_blame",
        True,
        one_slow_drive,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme2n1",
        cleared="device:nvme0n1",
    ),
    "large_even_hiccups": Truth(
        "stage_blame", True, large_even_hiccups, status="slow", kind="stage", name="device", nobody=True
    ),
    "stall_at_fixed_rate": Truth("stage_blame", True, stall_at_fixed_rate, **_DEVICE),
    "stops_between_reads": Truth(
        "submitter_gap",
        True,
        apart.stops_between_reads,
        status="slow",
        kind="process",
        because_of="silence of the submitter, state stopped",
    ),
    "stopped_server": Truth(
        "submitter_gap",
        True,
        apart.stopped_server,
        status="slow",
        kind="process",
        because_of="silence of the submitter, state stopped",
        cleared="stage:device",
    ),
    "slow_commits": Truth("stage_blame", True, flushes.slow_commits, **_FLUSHED),
    "pausing_writes": Truth("stage_blame", True, flushes.pausing_writes, **_FLUSHED),
    "commits_behind_flushes": Truth("stage_blame", True, flushes.commits_behind_flushes, **_FLUSHED),
    "late_flushes_under_overload": Truth(
        "stage_blame", True, flushes.late_flushes_under_overload, **_FLUSHED
    ),
    "overloaded_log": Truth("stage_blame", False, flushes.overloaded_log),
    "even_commits": Truth("stage_blame", False, flushes.even_commits, status="limited", limit="for a sync"),
    "files_behind_a_commit": Truth(
        "stage_blame",
        True,
        flushes.files_behind_a_commit,
        status="slow",
        kind="stage",
        name="fs",
        because_of="device:sda",
    ),
    "once_in_the_queue": Truth(
        "outliers",
        True,
        apart.once_in_the_queue,
        status="outliers",
        kind="stage",
        name="queue",
        cleared="device:nvme0n1",
    ),
    "fired_on_one_of_many": Truth(
        "outliers", True, apart.fired_on_one_of_many, status="outliers", kind="stage", name="queue"
    ),
    "fired_among_few": Truth(
        "outliers", True, apart.fired_among_few, status="outliers", kind="stage", name="queue"
    ),
    "fired_on_what_nobody_waited_for": Truth(
        "outliers",
        True,
        apart.fired_on_what_nobody_waited_for,
        status="outliers",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
    ),
    "heavy_tail": Truth("outliers", False, apart.heavy_tail),
    "stall_in_read_ahead": Truth(
        "outliers",
        True,
        apart.stall_in_read_ahead,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:sda",
    ),
    "waits_for_read_ahead": Truth("outliers", False, apart.waits_for_read_ahead),
    "two_reads_missed_the_cache": Truth("outliers", False, apart.two_reads_missed_the_cache),
    "lognormal_tail": Truth("stage_blame", False, lognormal_tail),
    "pareto_tail": Truth("stage_blame", False, pareto_tail),
    "jitter": Truth("stage_blame", False, jitter),
    "tiny_hiccup": Truth("stage_blame", False, tiny_hiccup, measured="device"),
    "two_sizes": Truth("stage_blame", False, two_sizes),
    "slow_ramp": Truth("stage_blame", False, slow_ramp),
    "heavy_load": Truth("stage_blame", False, heavy_load),
    "even_hiccups": Truth("stage_blame", False, even_hiccups, nobody=True),
    "stopped_submitter": Truth("submitter_gap", True, stopped_submitter, **_PROCESS),
    "stopped_process": Truth("submitter_gap", True, stopped_process, **_PROCESS),
    "stop_at_fixed_rate": Truth("submitter_gap", True, stop_at_fixed_rate, **_PROCESS),
    "time_slices": Truth("submitter_gap", False, time_slices),
    "thinking_program": Truth("submitter_gap", False, thinking_program),
    "depth_limited": Truth("saturation", True, depth_limited, status="limited", limit="queue depth 4"),
    "depth_limited_block_only": Truth(
        "saturation", True, depth_limited_block_only, status="limited", limit="queue depth 8"
    ),
    "sync_bound": Truth("saturation", True, sync_bound, status="limited", limit="sync"),
    "syncs_before_depth": Truth(
        "saturation", True, limits.syncs_before_depth, status="limited", limit="syncs"
    ),
    "depth_of_reads": Truth(
        "saturation", True, limits.depth_of_reads, status="limited", limit="queue depth 8"
    ),
    "page_faults": Truth("saturation", True, limits.page_faults, status="limited", limit="queue depth 1"),
    "durable_writes": Truth(
        "saturation", True, limits.durable_writes, status="limited", limit="5 requests to the device"
    ),
    "answered_from_memory": Truth(
        "saturation", True, limits.answered_from_memory, status="limited", limit="answers them from memory"
    ),
    "full_device": Truth(
        "device_rate", True, rates.full_device, status="limited", limit="the bandwidth of nvme0n1"
    ),
    "full_device_between_operations": Truth(
        "device_rate",
        True,
        rates.full_device_between_operations,
        status="limited",
        limit="the bandwidth of nvme0n1",
    ),
    "full_device_one_by_one": Truth(
        "device_rate",
        True,
        rates.full_device_one_by_one,
        status="limited",
        limit="nvme0n1: it takes one write of 4 KiB in 5",
    ),
    "one_at_a_time": Truth(
        "saturation", True, rates.one_at_a_time, status="limited", limit="which is mounted with `sync`"
    ),
    "three_at_a_time": Truth(
        "device_rate",
        True,
        rates.three_at_a_time,
        status="limited",
        limit="nvme0n1: it takes one write of",
    ),
    "roomy_device": Truth("device_rate", False, rates.roomy_device, status="limited", limit="syncs"),
    "few_long_syncs": Truth(
        "stage_blame",
        True,
        rates.few_long_syncs,
        status="slow",
        kind="stage",
        name="device",
        limit="5 of 1,000 held",
    ),
    "starved_server": Truth(
        "late_servers", True, servers.starved_server, status="slow", kind="process", name="hog"
    ),
    "starved_journal": Truth(
        "late_servers", True, servers.starved_journal, status="slow", kind="process", name="hog"
    ),
    "slow_beside_its_journal": Truth(
        "outliers", False, servers.slow_beside_its_journal, status="slow", kind="stage", name="fs"
    ),
    "slow_behind_its_server": Truth(
        "late_servers",
        False,
        servers.slow_behind_its_server,
        status="slow",
        kind="stage",
        name="device",
    ),
    "narrow_link": Truth(
        "narrow_link",
        True,
        hosts.narrow_link,
        status="slow",
        kind="device",
        name="nvme0n1",
        because_of="PCIe link 2.5 GT/s PCIe x1, could be 8.0 GT/s PCIe x4",
    ),
    "narrow_link_since": Truth(
        "narrow_link",
        True,
        hosts.narrow_link_since,
        status="slow",
        kind="device",
        name="nvme0n1",
        because_of="PCIe link 2.5 GT/s PCIe x1, could be 8.0 GT/s PCIe x4",
    ),
    "roomy_link": Truth("narrow_link", False, hosts.roomy_link, says="it was not full"),
    "misaligned": Truth(
        "misaligned", True, hosts.misaligned, status="slow", kind="request_shape", name="alignment"
    ),
    "misaligned_but_large": Truth("misaligned", False, hosts.misaligned_but_large),
    "far_node": Truth("far_node", True, hosts.far_node, status="slow", kind="config", name="NUMA distance"),
    "near_enough": Truth("far_node", False, hosts.near_enough),
    "slower_since": Truth(
        "slower_since",
        True,
        hosts.slower_since,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
    ),
    "slower_since_soon": Truth(
        "slower_since",
        True,
        hosts.slower_since_soon,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
    ),
    "slower_since_all": Truth(
        "slower_since", True, hosts.slower_since_all, status="slow", kind="stage", name="device", nobody=True
    ),
    # Not all of them: `slow_member` sees which one.
    "slower_since_one": Truth(
        "slow_member", True, hosts.slower_since_one, status="slow", kind="device", name="nvme2n1"
    ),
    "slower_at_times": Truth(
        "slower_at_times", True, hosts.slower_at_times, status="slow", kind="device", name="nvme0n1"
    ),
    "even_at_times": Truth(
        "slower_at_times", True, hosts.even_at_times, status="slow", kind="device", name="nvme0n1"
    ),
    "elsewhere_at_times": Truth(
        "slower_at_times", False, hosts.elsewhere_at_times, says="went to other places of it then"
    ),
    "in_order_at_times": Truth(
        "slower_at_times", False, hosts.in_order_at_times, says="in another order of places"
    ),
    "piled_up_at_times": Truth(
        "slower_at_times", True, hosts.piled_up_at_times, status="slow", kind="device", name="nvme0n1"
    ),
    "deeper_at_times": Truth(
        "slower_at_times", False, hosts.deeper_at_times, says="more was in flight there then"
    ),
    "busier_at_times": Truth("slower_at_times", False, hosts.busier_at_times),
    "slow_part": Truth(
        "slow_part",
        True,
        hosts.slow_part,
        status="slow",
        kind="device",
        name="nvme0n1",
        because_of="a part of it",
    ),
    "slow_part_once": Truth(
        "slow_part", True, hosts.slow_part_once, status="slow", kind="device", name="nvme0n1"
    ),
    "slow_then": Truth("slow_part", False, hosts.slow_then),
    "empty_elsewhere": Truth("slow_part", False, hosts.empty_elsewhere, says="may never have been written"),
    "other_places_since": Truth("slower_since", False, hosts.other_places_since),
    "slower_by_and_by": Truth("slower_since", False, hosts.slower_by_and_by),
    "flushes_slower_since": Truth("slower_since", True, flushes.flushes_slower_since, **_FLUSHED),
    "more_writes_since": Truth("slower_since", False, flushes.more_writes_since, status="limited"),
    "larger_records_since": Truth("slower_since", False, flushes.larger_records_since, status="limited"),
    "flushes_slower_at_times": Truth(
        "slower_at_times", True, flushes.flushes_slower_at_times, status="slow", kind="device", name="sda"
    ),
    "larger_records_at_times": Truth(
        "slower_at_times", False, flushes.larger_records_at_times, status="limited"
    ),
    "slow_software": Truth(
        "stage_blame",
        True,
        rates.slow_software,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:loop0",
    ),
    "late_read_ahead": Truth(
        "slow_requests",
        True,
        reads.late_read_ahead,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
    ),
    "early_reader": Truth("slow_requests", False, reads.early_reader, nobody=True),
    "slow_lookups": Truth(
        "stage_blame",
        True,
        lookups.slow_lookups,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
    ),
    "quick_lookups": Truth(
        "stage_blame",
        False,
        lookups.quick_lookups,
        nobody=True,
        says="reads that no recorded call made",
    ),
    "busy_commits": Truth(
        "stage_blame",
        False,
        rates.busy_commits,
        status="slow",
        measured="writing out what server wrote before",
        says="while the file system wrote out",
    ),
    "held_commits": Truth("stage_blame", True, rates.held_commits, status="slow", kind="stage", name="fs"),
    "crowded_software": Truth(
        "stage_blame", False, rates.crowded_software, says="as long as another thread's turn on a CPU"
    ),
    "reads_behind_flushes": Truth(
        "saturation", True, flushes.reads_behind_flushes, status="limited", limit="flushes: sda"
    ),
    "reads_beside_flushes": Truth(
        "saturation", True, flushes.reads_beside_flushes, status="limited", limit="queue depth"
    ),
    "slow_flushes_in_commits": Truth(
        "slow_requests",
        True,
        flushes.slow_flushes_in_commits,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:sda",
    ),
    "few_slow_flushes": Truth(
        "slow_requests",
        True,
        flushes.few_slow_flushes,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:sda",
    ),
    "few_varied_flushes": Truth("slow_requests", False, flushes.few_varied_flushes),
    "varied_flushes_in_commits": Truth(
        "slow_requests", False, flushes.varied_flushes_in_commits, status="limited"
    ),
    "flushes_of_much_in_commits": Truth(
        "slow_requests", False, flushes.flushes_of_much_in_commits, status="limited"
    ),
    "computes": Truth("saturation", True, limits.computes, status="limited", limit="itself"),
    "idles": Truth("saturation", False, limits.idles, status="healthy"),
    "computes_behind_a_loop": Truth(
        "saturation",
        True,
        limits.computes_behind_a_loop,
        status="healthy",
        limit="a thread of worker-0 computes",
    ),
    "idles_behind_a_loop": Truth(
        "saturation", False, limits.idles_behind_a_loop, status="healthy", limit="idle time, and no limit"
    ),
    "pauses_under_a_lock": Truth("saturation", False, limits.pauses_under_a_lock, status="healthy"),
    "reads_under_a_lock": Truth(
        "saturation", True, limits.reads_under_a_lock, status="limited", limit="queue depth 1"
    ),
    "reads_a_stream": Truth("saturation", True, limits.reads_a_stream, status="limited", limit="delivers"),
    "own_threads_crowd": Truth(
        "saturation",
        True,
        limits.own_threads_crowd,
        status="limited",
        limit="more to compute than there are CPUs",
    ),
    "another_crowds": Truth(
        "cpu_delay", True, limits.another_crowds, status="slow", kind="process", name="backup"
    ),
    "rate_achieved": Truth("saturation", False, rate_achieved, status="healthy"),
    "hangs": Truth("stuck_device", True, counters.hangs, status="slow", kind="device", name="sdd"),
    "hangs_for_two_samples": Truth(
        "stuck_device", True, counters.hangs_for_two_samples, status="slow", kind="device", name="sdd"
    ),
    "lost_count": Truth(
        "stuck_device", False, counters.lost_count, status="insufficient", says="whether sdd hangs"
    ),
    "idle_for_a_while": Truth("stuck_device", False, counters.idle, status="healthy"),
    "one_long_request": Truth("stuck_device", False, counters.one_long_request, status="healthy"),
    "slow_drive": Truth(
        "slow_member_sampled", True, members.slow_drive, status="slow", kind="device", name="host2/disk3"
    ),
    "slow_at_times": Truth(
        "slow_member_sampled", True, members.slow_at_times, status="slow", kind="device", name="host2/disk3"
    ),
    "slow_half_way_of_four": Truth(
        "slow_member_sampled",
        True,
        members.slow_half_way_of_four,
        status="slow",
        kind="device",
        name="host0/disk2",
    ),
    "bad_moments_of_four": Truth("slow_member_sampled", False, members.bad_moments_of_four, status="healthy"),
    "slow_every_night": Truth(
        "slow_member_sampled",
        True,
        members.slow_every_night,
        status="slow",
        kind="device",
        name="host2/disk3",
    ),
    "busy_every_night": Truth("slow_member_sampled", False, members.busy_every_night, status="healthy"),
    "slow_host": Truth("slow_host", True, members.slow_host, status="slow", kind="host", name="host4"),
    "host_hardly_slow": Truth(
        "slow_host", False, members.host_hardly_slow, status="healthy", says="Host host4 is to be watched"
    ),
    "slow_hosts_of_clusters": Truth(
        "slow_host", True, members.slow_hosts_of_clusters, status="slow", kind="host", name="host5"
    ),
    "three_clusters": Truth("slow_host", False, members.three_clusters, status="healthy"),
    "few_of_each": Truth("slow_host", False, members.few_of_each, says="are needed to compare with"),
    "slow_roles": Truth("slow_member_sampled", False, members.slow_roles, status="healthy"),
    "hardly_slow": Truth(
        "slow_member_sampled", False, members.hardly_slow, status="healthy", says="is to be watched"
    ),
    "watched_every_night": Truth(
        "slow_member_sampled", False, members.watched_every_night, status="healthy", says="is to be watched"
    ),
    "busy_host": Truth("slow_host", False, members.busy_host, status="healthy"),
    "slow_member_operations": Truth(
        "slow_member", True, members.slow_member_operations, status="slow", kind="device", name="nvme4n1"
    ),
    "slow_disk_by_letters": Truth(
        "slow_member", True, members.slow_disk_by_letters, status="slow", kind="device", name="sdc"
    ),
    "slow_virtual_disk": Truth(
        "slow_member", True, members.slow_virtual_disk, status="slow", kind="device", name="vdc"
    ),
    "slow_half": Truth("slow_member", True, mirrors.slow_half, status="slow", kind="device", name="sdb"),
    "busy_half": Truth("slow_member", True, mirrors.busy_half, status="slow", kind="device", name="sdb"),
    "read_half": Truth("slow_member", False, mirrors.read_half, nobody=True),
    "nearly_alike_halves": Truth("slow_member", False, mirrors.nearly_alike, nobody=True),
    "two_disks_no_mirror": Truth("slow_member", False, mirrors.no_mirror, nobody=True),
    "slow_other_model": Truth("slow_member", False, members.slow_other_model, nobody=True),
    "slow_other_size": Truth("slow_member", False, members.slow_other_size, nobody=True),
    "slow_other_medium": Truth("slow_member", False, members.slow_other_medium, nobody=True),
    "slow_other_role": Truth("slow_member", False, members.slow_other_role, nobody=True),
    "slow_unknown_disks": Truth(
        "slow_member",
        False,
        members.slow_unknown_disks,
        nobody=True,
        says="neither model nor size of sda, sdb, sdc and sdd",
    ),
    "next_to_idle": Truth(
        "slow_member_sampled",
        False,
        members.next_to_idle,
        status="healthy",
        says="and next to nothing in flight",
    ),
    "slow_and_asked_less": Truth(
        "slow_member_sampled",
        True,
        members.slow_and_asked_less,
        status="slow",
        kind="device",
        name="host2/disk3",
    ),
    "half_load": Truth("slow_member_sampled", False, members.half_load, status="healthy"),
    "double_load": Truth("slow_member_sampled", False, members.double_load, status="healthy"),
    "healthy_fleet": Truth("slow_member_sampled", False, members.healthy_fleet, status="healthy"),
    "busier_member": Truth("slow_member", False, members.busier_member),
    "slow_size": Truth(
        "over_represented", True, traits.slow_size, status="slow", kind="request_shape", name="size 64 KiB"
    ),
    "slow_thread": Truth(
        "over_represented",
        True,
        traits.slow_thread,
        status="slow",
        kind="process",
        name="thread 4303 of worker-3",
    ),
    "any_operation": Truth("over_represented", False, traits.any_operation, status="slow", kind="stage"),
    "paused_mixed_sizes": Truth(
        "over_represented", False, traits.paused_mixed_sizes, status="slow", kind="stage", name="device"
    ),
    "slow_flushes": Truth(
        "over_represented", False, traits.slow_flushes, status="slow", kind="stage", name="device"
    ),
    "outrun": Truth(
        "uncached_tail",
        True,
        reads.outrun,
        status="slow",
        kind="request_shape",
        name="read of 8650752 bytes",
        because_of="prefetch of 8 MiB per request",
    ),
    "linux_tail": Truth(
        "uncached_tail",
        True,
        reads.linux_tail,
        status="slow",
        kind="request_shape",
        because_of="readahead of 128 KiB",
    ),
    "moving_begin": Truth(
        "uncached_tail",
        True,
        reads.moving_begin,
        status="slow",
        kind="request_shape",
        name="read of 589824 bytes",
        says="the 64 KiB behind its first 512 KiB",
    ),
    "tail_in_flight": Truth("uncached_tail", False, reads.tail_in_flight),
    "one_request": Truth("uncached_tail", False, reads.one_request),
    "scattered_misses": Truth("uncached_tail", False, reads.scattered_misses),
    "tails_of_a_slow_disk": Truth(
        "uncached_tail",
        False,
        reads.tails_of_a_slow_disk,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:sda",
        says="of these only the usual",
    ),
    "cheap_tails": Truth("uncached_tail", False, reads.cheap_tails),
    "reads_less_than_a_window": Truth(
        "prefetch",
        True,
        reads.reads_less_than_a_window,
        status="slow",
        kind="config",
        name="read_ahead_kb of sda",
        because_of="16 KiB",
    ),
    "random_reads_with_hits": Truth("prefetch", False, reads.random_reads_with_hits),
    "small_window": Truth(
        "prefetch",
        True,
        reads.small_window,
        status="slow",
        kind="config",
        name="read_ahead_kb of sda",
        because_of="16 KiB",
        says="prefetching for /data/a.vhd: accuracy 100 %",
    ),
    "no_window": Truth(
        "prefetch",
        True,
        reads.no_window,
        status="slow",
        kind="config",
        name="read_ahead_kb of sda",
        because_of="0 KiB",
        says="page after page",
    ),
    "four_places": Truth(
        "full_queue", True, places.four_places, status="slow", kind="config", name="nr_requests of sda"
    ),
    "many_places": Truth("full_queue", False, places.many_places, status="limited"),
    "one_at_once": Truth("full_queue", False, places.one_at_once),
    "ring_of_four_places": Truth(
        "full_queue",
        True,
        places.ring_of_four_places,
        status="slow",
        kind="config",
        name="nr_requests of sda",
    ),
    "ring_of_many_places": Truth("full_queue", False, places.ring_of_many_places, status="limited"),
    "ring_that_seldom_waits": Truth("full_queue", False, places.ring_that_seldom_waits),
    "swapping": Truth(
        "memory_short", True, memory.swapping, status="slow", kind="config", name="memory of worker"
    ),
    "streaming": Truth("memory_short", False, memory.streaming, says="freeing memory before they got any"),
    "hardly_swapping": Truth("memory_short", False, memory.hardly_swapping),
    "cut_requests": Truth(
        "cut_requests", True, pieces.cut, status="slow", kind="config", name="max_sectors_kb of sda"
    ),
    "cut_by_the_device": Truth("cut_requests", False, pieces.cut_by_the_device),
    "as_small_as_the_limit": Truth("cut_requests", False, pieces.as_small_as_the_limit),
    "cut_but_large": Truth("cut_requests", False, pieces.cut_but_large),
    "no_window_for_pages": Truth("prefetch", False, reads.no_window_for_pages),
    "default_window": Truth("prefetch", False, reads.default_window),
    "cheap_window": Truth("prefetch", False, reads.cheap_window),
    "masked_by_ssd": Truth(
        "masked_tier", True, reads.cheap_tails, says="this run cannot show disk behaviour"
    ),
    "masked_by_ram": Truth(
        "masked_tier", True, reads.in_memory, says="cannot show the behaviour of a device"
    ),
    "reaches_disks": Truth("masked_tier", False, reads.scattered_misses, says_not="cannot show"),
    "warming_up": Truth("steady_state", True, reads.warming_up, says="Not a steady state: the rate fell"),
    "constant_rate": Truth("steady_state", False, reads.constant_rate, says_not="steady state"),
    "slow_handler": Truth(
        "shared_vector",
        True,
        interrupts.slow_handler,
        status="slow",
        kind="vector",
        name="42",
        because_of="handler:switchtec",
    ),
    "all_on_one_cpu": Truth(
        "shared_vector", True, interrupts.all_on_one_cpu, status="slow", kind="vector", name="cpu 0"
    ),
    "all_on_the_only_submitter": Truth(
        "shared_vector",
        True,
        interrupts.all_on_the_only_submitter,
        status="slow",
        kind="vector",
        name="cpu 0",
    ),
    "quick_handler": Truth("shared_vector", False, interrupts.quick_handler),
    "innocent_handler": Truth(
        "shared_vector", False, interrupts.innocent_handler, status="slow", kind="device", name="nvme2n1"
    ),
    "busy_elsewhere": Truth("shared_vector", False, interrupts.busy_elsewhere),
    "one_cpu_is_enough": Truth("shared_vector", False, interrupts.one_cpu_is_enough),
    "slow_mirror": Truth(
        "stripe_wait", True, stripes.slow_mirror, status="slow", kind="device", name="nvme0n1"
    ),
    "even_mirror": Truth("stripe_wait", False, stripes.even_mirror),
    "in_every_stripe": Truth("stripe_wait", False, stripes.in_every_stripe),
    "natural_stripes": Truth("stripe_wait", False, stripes.natural_stripes),
    "slow_member_of_stripes": Truth(
        "slow_member", True, stripes.slow_member_of_stripes, status="slow", kind="device", name="nvme4n1"
    ),
    "cpu_hog": Truth(
        "cpu_delay",
        True,
        held.cpu_hog,
        status="slow",
        kind="process",
        name="stress-ng",
        because_of="stage:runqueue",
    ),
    "cpu_of_the_recorder": Truth(
        "cpu_delay", False, held.cpu_of_the_recorder, says="how fast this is without the recorder"
    ),
    "cpu_hog_beside_turns": Truth(
        "cpu_delay",
        True,
        held.cpu_hog_beside_turns,
        status="slow",
        kind="process",
        name="stress-ng",
        because_of="stage:runqueue",
    ),
    "cpu_hog_unseen": Truth(
        "cpu_delay", True, held.cpu_hog_unseen, status="slow", kind="stage", name="runqueue"
    ),
    "each_other": Truth("cpu_delay", False, held.each_other, says="wait for each other's CPU"),
    "context_switches": Truth("cpu_delay", False, held.context_switches),
    "turns": Truth(
        "cpu_delay",
        True,
        held.turns,
        status="slow",
        kind="process",
        name="stress-ng",
        because_of="stage:runqueue",
    ),
    "many_turns": Truth("cpu_delay", False, held.many_turns),
    "kernel_turns": Truth("cpu_delay", False, held.kernel_turns, says="waits of a time slice and less"),
    "one_wait": Truth("cpu_delay", False, held.one_wait, measured="stress-ng"),
    "one_wait_for_the_recorder": Truth(
        "outliers", False, held.one_wait_for_the_recorder, says="That is the recorder"
    ),
    "one_wait_for_the_server": Truth("outliers", False, held.one_wait_for_the_server, measured="runqueue"),
    "io_limit": Truth(
        "throttle",
        True,
        held.io_limit,
        status="slow",
        kind="config",
        name="I/O limit of nvme0n1",
        because_of="stage:throttle",
    ),
    "io_limit_above": Truth(
        "throttle",
        True,
        held.io_limit_above,
        status="slow",
        kind="config",
        name="I/O limit of nvme0n1",
        because_of="stage:throttle",
    ),
    "cpu_limit": Truth(
        "throttle", True, held.cpu_limit, status="slow", kind="config", because_of="stage:runqueue"
    ),
    "cpu_limit_of_a_script": Truth(
        "throttle",
        True,
        held.cpu_limit_of_a_script,
        status="slow",
        kind="config",
        because_of="stage:runqueue",
    ),
    "cpu_limit_and_turns": Truth(
        "throttle", True, held.cpu_limit_and_turns, status="slow", kind="config", because_of="stage:runqueue"
    ),
    "cpu_limit_late": Truth(
        "throttle", True, held.cpu_limit_late, status="slow", kind="config", because_of="stage:runqueue"
    ),
    "dirty_limit": Truth(
        "throttle", True, held.dirty_limit, status="slow", kind="config", name="limit of dirty pages"
    ),
    "seldom_limit": Truth(
        "throttle",
        True,
        held.seldom_limit,
        status="slow",
        kind="config",
        name="I/O limit of nvme0n1",
        because_of="stage:throttle",
    ),
    "one_window": Truth(
        "throttle",
        True,
        held.one_window,
        status="slow",
        kind="config",
        name="I/O limit of nvme0n1",
        because_of="stage:throttle",
    ),
    "loose_limit": Truth("throttle", False, held.loose_limit),
    "no_room": Truth(
        "throttle", False, held.no_room, measured="throttle", says="until what was written before is on disk"
    ),
    "periodic_job": Truth(
        "burst",
        True,
        bursts.periodic_job,
        status="slow",
        kind="time_pattern",
        name="rotate-logs",
        because_of="process:rotate-logs",
    ),
    "periodic_own_workers": Truth(
        "burst",
        True,
        bursts.own_workers,
        status="slow",
        kind="time_pattern",
        name="rotate-logs",
        because_of="process:rotate-logs",
    ),
    "periodic_nobody": Truth("burst", True, bursts.periodic_nobody, status="slow", kind="time_pattern"),
    "weak_period": Truth("burst", False, bursts.weak_period),
    "no_bursts": Truth("burst", False, bursts.no_bursts),
    "steady_writer": Truth("burst", False, bursts.steady_writer, status="slow", kind="stage", name="device"),
    "even_writer": Truth("burst", False, bursts.even_writer),
    "brief_waits": Truth("burst", False, bursts.brief_waits, measured="reap"),
    "timeouts": Truth(
        "device_errors",
        True,
        troubles.timeouts,
        status="slow",
        kind="device",
        name="nvme0n1",
        because_of="errors",
    ),
    "timeout_once": Truth(
        "device_errors",
        True,
        hosts.timeout_once,
        status="slow",
        kind="device",
        name="nvme1n1",
        because_of="errors",
    ),
    "harmless_errors": Truth("device_errors", False, troubles.harmless_errors, says="has to do with them"),
    "errors_elsewhere": Truth(
        "device_errors", False, troubles.errors_elsewhere, status="slow", kind="stage", name="device"
    ),
    "errors_of_others": Truth("device_errors", False, troubles.errors_of_others, says="has to do with them"),
    "busier_device": Truth("over_represented", False, traits.busier_device, status="slow", kind="stage"),
    "pieces": Truth("layout", True, others.pieces, status="slow", kind="layout", because_of="device:sda"),
    "all_apart": Truth(
        "layout", True, others.all_apart, status="slow", kind="layout", because_of="device:sda"
    ),
    "tree_on_disk": Truth("arm_seeks", True, arms.tree_on_disk, says="waited for the arm of sda"),
    "slow_sectors": Truth(
        "arm_seeks",
        False,
        arms.slow_sectors,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:sda",
    ),
    "leader_held": Truth("outliers", True, together.leader_held, status="outliers", kind="stage", name="fs"),
    "slept_by_themselves": Truth(
        "outliers",
        False,
        together.slept_by_themselves,
        status="outliers",
        kind="saturation",
        name="kv itself",
    ),
    "behind_compaction": Truth(
        "own_bulk", True, bulk.behind_compaction, says="nvme0n1 served large requests of the same program"
    ),
    "pauses_beside_compaction": Truth(
        "own_bulk",
        False,
        bulk.pauses_beside_compaction,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
    ),
    "pauses_with_compaction": Truth(
        "own_bulk",
        False,
        bulk.pauses_with_compaction,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
    ),
    "behind_a_write": Truth(
        "own_turns",
        True,
        turns.behind_a_write,
        says="above the block layer until a call of another thread of the same program was done",
        nobody=True,
    ),
    "behind_a_sleeper": Truth(
        "own_turns", False, turns.behind_a_sleeper, status="slow", kind="stage", name="fs"
    ),
    "behind_nobody_known": Truth(
        "own_turns", False, turns.behind_nobody_known, status="slow", kind="stage", name="fs"
    ),
    "jumping_reader": Truth("layout", False, others.jumping_reader),
    "random_on_pieces": Truth("layout", False, others.random_on_pieces),
    "in_order_on_a_flat_disk": Truth("layout", False, others.in_order_on_a_flat_disk),
    "pausing_drive": Truth(
        "member_tail", True, others.pausing_drive, status="slow", kind="device", name="nvme3n1"
    ),
    "slow_now_and_then": Truth(
        "member_tail", True, others.slow_now_and_then, status="slow", kind="device", name="nvme2n1"
    ),
    "pausing_kind": Truth("member_tail", False, others.pausing_kind),
    "sleeping_drive": Truth(
        "stage_blame",
        True,
        asleep.sleeping_drive,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:sda",
    ),
    "late_in_bursts": Truth(
        "stage_blame",
        True,
        asleep.late_in_bursts,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:sda",
    ),
    "short_pauses": Truth(
        "silent_device", True, silences.short_pauses, status="slow", kind="device", name="nvme0n1"
    ),
    "long_one_by_one": Truth("silent_device", False, silences.long_one_by_one),
    "waiting_workers": Truth("silent_device", False, silences.waiting_workers),
    "seldom_pauses": Truth("silent_device", False, silences.seldom_pauses),
    "irregular_backup": Truth(
        "background_work", True, others.irregular_backup, status="slow", kind="process", name="nightly-backup"
    ),
    "stolen_cpus": Truth(
        "stolen_cpu", True, steal.stolen_cpus, status="slow", kind="host", name="hypervisor"
    ),
    "harmless_steal": Truth("stolen_cpu", False, steal.harmless_steal, says="hypervisor"),
    "load_that_wants_more": Truth(
        "stolen_cpu", False, steal.load_that_wants_more, says="times as many operations"
    ),
    "more_than_was_stolen": Truth(
        "stolen_cpu", False, steal.more_than_was_stolen, says="But what was stolen can have cost"
    ),
    "hardly_stolen": Truth("stolen_cpu", False, steal.hardly_stolen, says_not="hypervisor"),
    "cpu_that_stood_still": Truth(
        "stolen_cpu", False, steal.cpu_that_stood_still, measured="hypervisor", says="CPU 1 stood still"
    ),
    "cpu_that_stands_still": Truth(
        "cpu_delay", True, steal.cpu_that_stands_still, status="slow", kind="host", name="hypervisor"
    ),
    "late_wakeups": Truth("stolen_cpu", False, steal.late_wakeups, says_not="stood still"),
    "cpu_that_was_busy": Truth(
        "cpu_delay",
        True,
        steal.cpu_that_was_busy,
        status="slow",
        kind="process",
        name="backup",
        says_not="stood still",
    ),
    "busy_now_and_then": Truth(
        "cpu_delay",
        True,
        steal.busy_now_and_then,
        status="outliers",
        kind="process",
        name="batchjob",
        because_of="stage:runqueue",
    ),
    "stolen_once": Truth(
        "outliers",
        True,
        steal.stolen_once,
        status="outliers",
        kind="host",
        name="hypervisor",
        because_of="steal",
    ),
    "harmless_backup": Truth("background_work", False, others.harmless_backup),
    "cache_too_small": Truth(
        "cache_misses", True, others.cache_too_small, status="slow", kind="cache_tier", name="ram"
    ),
    "group_too_small": Truth(
        "cache_misses",
        True,
        others.group_too_small,
        status="slow",
        kind="cache_tier",
        name="ram",
        because_of="the memory limit of a control group",
    ),
    "limited_group": Truth(
        "cache_misses",
        True,
        others.limited_group,
        status="slow",
        kind="cache_tier",
        name="ram",
        because_of="the memory limit of control group /kube/db",
    ),
    "group_with_room": Truth("cache_misses", False, others.group_with_room),
    "emptied_cache": Truth(
        "cache_misses",
        True,
        others.emptied_cache,
        status="slow",
        kind="cache_tier",
        name="ram",
        because_of="the page cache was dropped",
    ),
    "emptied_under_nowait": Truth(
        "cache_misses",
        True,
        others.emptied_under_nowait,
        status="slow",
        kind="cache_tier",
        name="ram",
        because_of="the page cache was dropped",
    ),
    "evicted_under_nowait": Truth("cache_misses", False, others.evicted_under_nowait),
    "readahead_of_the_same": Truth("cache_misses", False, others.readahead_of_the_same),
    "own_drops": Truth("cache_misses", False, others.own_drops, says="That is its own doing"),
    "drops_of_another": Truth(
        "cache_misses", True, others.drops_of_another, status="slow", kind="process", name="backup"
    ),
    "drops_unseen": Truth(
        "cache_misses",
        True,
        others.drops_unseen,
        status="slow",
        kind="cache_tier",
        name="ram",
        because_of="dropped at somebody's request",
    ),
    "machine_too_small": Truth("cache_misses", False, others.machine_too_small),
    "read_for_the_first_time": Truth("cache_misses", False, others.read_for_the_first_time),
    "warming_cache": Truth("cache_misses", False, others.warming_cache, says="The cache was warming up"),
    "nearly_warm": Truth("cache_misses", False, others.nearly_warm),
    "neighbour_always": Truth(
        "crowded_device",
        True,
        crowds.neighbour_always,
        status="slow",
        kind="process",
        name="backup",
        because_of="stage:queue",
    ),
    "own_queue": Truth("crowded_device", False, crowds.own_queue),
    "prefers_another": Truth(
        "overtaken",
        True,
        crowds.prefers_another,
        status="slow",
        kind="process",
        name="scan",
        because_of="stage:queue",
    ),
    "prefers_itself": Truth("overtaken", False, crowds.prefers_itself),
    "roomy_neighbour": Truth("crowded_device", False, crowds.roomy_neighbour),
    "steady_neighbour": Truth(
        "neighbour",
        True,
        guests.steady_neighbour,
        status="slow",
        kind="process",
        name="reporter",
        because_of="requests on the same device",
    ),
    "slow_range": Truth(
        "stage_blame",
        True,
        ranges.slow_range,
        status="slow",
        kind="stage",
        name="device",
        because_of="device:nvme0n1",
        says="nvme0n1 is that slow between 512 MiB and 700 MiB of its addresses",
    ),
    "steady_syncs": Truth(
        "met_requests",
        True,
        guests.steady_syncs,
        status="slow",
        kind="process",
        name="mirrord",
        because_of="requests on the same device",
    ),
    "roomy_syncs": Truth("met_requests", False, guests.roomy_syncs),
    "flushed_for_others": Truth(
        "met_requests",
        True,
        guests.flushed_for_others,
        status="slow",
        kind="process",
        name="backup",
        because_of="requests on the same device",
    ),
    "flushed_for_itself": Truth("met_requests", False, guests.flushed_for_itself),
    "same_timer": Truth("neighbour", False, guests.same_timer),
    "visit": Truth(
        "visitor",
        True,
        visitors.visit,
        status="slow",
        kind="process",
        name="indexer",
        because_of="requests on the same device",
    ),
    "visit_to_the_end": Truth(
        "visitor",
        True,
        visitors.visit_to_the_end,
        status="slow",
        kind="process",
        name="indexer",
        because_of="requests on the same device",
    ),
    "written_through_the_cache": Truth(
        "visitor",
        True,
        visitors.written_through_the_cache,
        status="slow",
        kind="process",
        name="backup",
        because_of="requests on the same device",
    ),
    "written_by_itself": Truth(
        "visitor", False, visitors.written_by_itself, status="slow", kind="stage", name="device"
    ),
    "free_visit": Truth("visitor", False, visitors.free_visit),
    "free_visit_to_the_end": Truth("visitor", False, visitors.free_visit_to_the_end),
    **{
        build.__name__: Truth("visitor", False, build, status="slow", kind="stage", name="device")
        for build in (
            visitors.visit_elsewhere,
            visitors.slow_beyond_a_visit,
            visitors.slow_for_half_a_visit,
            visitors.visit_of_a_slow_device,
            visitors.collected_requests,
            visitors.stays_at_a_slow_device,
            visitors.slow_later_than_who_stays,
        )
    },
    "seldom_guest": Truth(
        "shared_arm",
        True,
        guests.seldom_guest,
        status="slow",
        kind="process",
        name="cron",
        because_of="device:sda",
    ),
    "guest_in_the_cache": Truth("shared_arm", False, guests.guest_in_the_cache),
    "stuck_disk": Truth("stage_blame", True, crowds.stuck_disk, status="slow", kind="stage", name="device"),
    "passed_over": Truth(
        "stage_blame", False, crowds.passed_over, measured="device", says="while the disk served others"
    ),
    "stuck_member": Truth(
        "stage_blame",
        True,
        crowds.stuck_member,
        status="outliers",
        kind="stage",
        name="device",
        because_of="device:nvme2n1",
    ),
    "late_prefetch": Truth("prefetch", True, crowds.late_prefetch, status="slow", kind="request_shape"),
    "late_by_default": Truth("prefetch", False, crowds.late_by_default),
    "late_with_a_small_window": Truth(
        "prefetch", True, crowds.late_with_a_small_window, status="slow", kind="request_shape"
    ),
    "as_fast_as_it_goes": Truth("prefetch", False, crowds.as_fast_as_it_goes),
    "read_by_two": Truth("prefetch", False, crowds.read_by_two),
    "scanned_drive": Truth("slow_member", False, crowds.scanned_drive),
    "short_stops": Truth(
        "submitter_gap",
        True,
        others.short_stops,
        status="slow",
        kind="process",
        because_of="silence of the submitter, state stopped",
    ),
    "tiny_stops": Truth("submitter_gap", False, others.tiny_stops),
    "held_by_backup": Truth(
        "stage_blame",
        True,
        holders.held_by_backup,
        status="slow",
        kind="stage",
        name="fs",
        because_of="process:backup",
    ),
    "locked_by_another": Truth(
        "held_outside", True, outside.locked_by_another, status="slow", kind="process", name="reporter"
    ),
    "locked_by_its_own": Truth("held_outside", False, outside.locked_by_its_own, nobody=True),
    "frozen_maps": Truth(
        "held_outside", True, outside.frozen_maps, status="slow", kind="process", name="fsfreeze"
    ),
    "fed_by_who_is_stopped": Truth(
        "held_outside", True, outside.fed_by_who_is_stopped, status="slow", kind="process", name="filter"
    ),
    "beside_who_is_stopped": Truth("held_outside", False, outside.beside_who_is_stopped, nobody=True),
    "dirty_maps": Truth(
        "throttle", True, outside.dirty_maps, status="slow", kind="config", name="limit of dirty pages"
    ),
    "held_by_backup_rarely": Truth(
        "outliers",
        True,
        holders.held_by_backup_rarely,
        status="slow",
        kind="stage",
        name="fs",
        because_of="process:backup",
    ),
    "held_by_own_thread": Truth(
        "stage_blame", True, holders.held_by_own_thread, status="slow", kind="stage", name="fs", nobody=True
    ),
    "held_by_the_kernel": Truth(
        "stage_blame", True, holders.held_by_the_kernel, status="slow", kind="stage", name="fs", nobody=True
    ),
    "frozen_pool": Truth(
        "submitter_gap",
        True,
        freezers.frozen_pool,
        status="slow",
        kind="process",
        because_of="silence of the submitter, state stopped",
        cleared="stage:fs",
    ),
    "frozen_for_moments": Truth("submitter_gap", False, freezers.frozen_for_moments),
    "traced_thread": Truth("submitter_gap", False, freezers.traced_thread),
    "crowded_cpu": Truth(
        "cpu_delay",
        True,
        held.crowded_cpu,
        status="slow",
        kind="process",
        name="stress-ng",
        because_of="stage:runqueue",
    ),
    "crowded_by_kernel": Truth(
        "cpu_delay", False, held.crowded_by_kernel, says="waits of a time slice and less"
    ),
    "crowded_by_server": Truth(
        "cpu_delay", False, held.crowded_by_server, says="waits of a time slice and less"
    ),
    "crowded_by_mount": Truth(
        "cpu_delay", False, held.crowded_by_mount, says="waits of a time slice and less"
    ),
    "crowded_by_other_server": Truth(
        "cpu_delay",
        True,
        held.crowded_by_other_server,
        status="slow",
        kind="process",
        name="stress-ng",
        because_of="stage:runqueue",
    ),
    "saturated_limit": Truth(
        "throttle",
        True,
        held.saturated_limit,
        status="slow",
        kind="config",
        because_of="stage:throttle",
        says="asks for more than it gets",
    ),
}
