"""Sealed cases of a virtual machine whose CPUs the hypervisor gives to others at times; and look-alikes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.synth import APP_ID_BASE, write_case

SECONDS = 8
SAMPLE_NS = 100_000_000
SAMPLES = SECONDS * 10


def _write(
    path: Path,
    app: dict[str, Any],
    wanted: npt.NDArray[np.float64],
    stolen: npt.NDArray[np.float64],
    tables: dict[str, pa.Table] | None = None,
) -> Path:
    """A case of these operations, with the sampler's counters: parts of all CPUs, one element a sample."""
    series = {
        "time_ns": np.tile((np.arange(SAMPLES) + 1) * SAMPLE_NS, 2),
        "host": ["vm"] * 2 * SAMPLES,
        "kind": ["cpu"] * 2 * SAMPLES,
        "subject": ["all"] * 2 * SAMPLES,
        "metric": ["wanted_ratio"] * SAMPLES + ["steal_ratio"] * SAMPLES,
        "value": np.concatenate((wanted, stolen)),
    }
    meta = {"duration_ns": SECONDS * 10**9}
    everything = {"series": pa.table(series), **(tables or {})}
    return write_case(path, app=app, tables=everything, meta=meta, devices=("vda",))


def _stolen(seed: int, path: Path, part: float, factor: float, busier: float = 1.0) -> Path:
    """Now and then `part` of the wanted CPU time is stolen for some tenths of a second; operations take `factor` times as long then, and
    are `busier` times as many."""
    rng = np.random.default_rng([seed, 61])
    away = np.zeros(SAMPLES, np.bool_)
    for begin in range(4, SAMPLES - 8, 12):
        first = begin + int(rng.integers(0, 6))
        away[first : first + int(rng.integers(2, 5))] = True
    count = 1000 * SECONDS
    chance = np.where(away, busier, 1.0)
    tenth = rng.choice(SAMPLES, count, p=chance / chance.sum())
    start = np.sort(tenth * SAMPLE_NS + rng.integers(0, SAMPLE_NS, count))
    slower = np.where(away[np.minimum(SAMPLES - 1, start // SAMPLE_NS)], factor, 1.0)
    fs, device, reap = (mean * 1e3 * slower * rng.lognormal(0, 0.3, count) for mean in (20, 200, 30))
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": sum(stage.astype(np.int64) for stage in (fs, device, reap)),
        "fs_ns": fs.astype(np.int64),
        "device_ns": device.astype(np.int64),
        "reap_ns": reap.astype(np.int64),
        "size_bytes": [4096] * count,
        "queue_depth": [1] * count,
        "tid": [101] * count,
        "device": ["vda"] * count,
    }
    wanted = rng.uniform(0.5, 0.7, SAMPLES)
    return _write(path, app, wanted, np.where(away, part, 0.0) * wanted)


def stolen_cpus(seed: int, path: Path) -> Path:
    """Half of the wanted time is stolen then, and operations take twice as long."""
    return _stolen(seed, path, 0.5, 2.0)


def harmless_steal(seed: int, path: Path) -> Path:
    """Operations take as long as ever: what was stolen was not needed for them."""
    return _stolen(seed, path, 0.3, 1.0)


def more_than_was_stolen(seed: int, path: Path) -> Path:
    """Operations, one at a time, take four times as long then: some four times what was stolen. Work of another kind wants more CPU, too."""
    return _stolen(seed, path, 0.3, 4.0)


def hardly_stolen(seed: int, path: Path) -> Path:
    """One part in a hundred: not worth a word."""
    return _stolen(seed, path, 0.01, 1.0)


def load_that_wants_more(seed: int, path: Path) -> Path:
    """Twice as many operations at a time: they are slower for their number, and the machine wants more CPU than it gets."""
    return _stolen(seed, path, 0.3, 1.5, busier=2.0)


def _still(seed: int, path: Path, length_ms: float, times: int, ran: str | None = None) -> Path:
    """Three threads work at a fixed rate. Now and then CPU 1 does nothing for two of them: one sleeps there and should have been woken up, the
    other is ready to run all the time. Or another program ran there, and only the latter waits."""
    rng = np.random.default_rng([seed, 62])
    count = 1000 * SECONDS
    start = np.sort(rng.integers(0, SECONDS * 10**9, count))
    tid = rng.choice([101, 102, 103], count)
    fs, device, reap = (mean * 1e3 * rng.lognormal(0, 0.3, count) for mean in (5, 100, 20))
    app, runqueue = np.zeros(count), np.zeros(count)
    waits: list[tuple[int, int, int, str, str]] = []
    for begin in (np.arange(times) + rng.uniform(0.05, 0.95, times)) * SECONDS * 1e9 / times:
        since, until = int(begin), int(begin + length_ms * 1e6 * rng.uniform(1.0, 1.5))
        waits.append((103, since, until, "runnable", ran or "swapper/1"))
        due = (start >= since) & (start < until)
        if ran is None:
            waits.append((102, since - 300_000, until, "blocked", "io"))
            app += np.where(due & (tid == 102), until - start, 0)
        runqueue += np.where(due & (tid == 103), until - start, 0)
    for moment in rng.integers(0, SECONDS * 10**9, 400):
        waits.append((101, int(moment), int(moment) + 20_000, "runnable", "swapper/0"))
    waits.sort(key=lambda wait: wait[1])
    of, since_ns, until_ns, states, causes = zip(*waits, strict=True)
    stages = {"app_ns": app, "fs_ns": fs, "device_ns": device, "reap_ns": reap, "runqueue_ns": runqueue}
    table = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": sum(stage.astype(np.int64) for stage in stages.values()),
        **{name: stage.astype(np.int64) for name, stage in stages.items()},
        "size_bytes": [4096] * count,
        "queue_depth": [1] * count,
        "tid": tid,
        "device": ["vda"] * count,
    }
    waited = {
        "tid": pa.array(of, pa.int32()),
        "pid": pa.array([100] * len(of), pa.int32()),
        "comm": ["worker"] * len(of),
        "cpu": pa.array([int(thread != 101) for thread in of], pa.int32()),
        "start_ns": pa.array(since_ns, pa.int64()),
        "duration_ns": pa.array(np.subtract(until_ns, since_ns), pa.int64()),
        "state": states,
        "cause": causes,
        "cause_pid": pa.array([None] * len(of), pa.int32()),
    }
    return _write(path, table, np.full(SAMPLES, 0.2), np.zeros(SAMPLES), {"waits": pa.table(waited)})


def cpu_that_stood_still(seed: int, path: Path) -> Path:
    """Once, for 30 to 45 ms, and no steal was counted: nobody of this machine is to blame."""
    return _still(seed, path, 30, 1)


def cpu_that_stands_still(seed: int, path: Path) -> Path:
    """The same a dozen times: then somebody is to blame, but nobody of this machine."""
    return _still(seed, path, 30, 12)


def late_wakeups(seed: int, path: Path) -> Path:
    """40 times for 1 to 1.5 ms: an idle CPU may take that long to wake up."""
    return _still(seed, path, 1, 40)


def cpu_that_was_busy(seed: int, path: Path) -> Path:
    """Eight times for 30 to 45 ms, and another program had the CPU."""
    return _still(seed, path, 30, 8, "backup")


def _one_thread(
    seed: int, path: Path, late_ms: float, times: int, cause: str | None, stolen: float = 0.0
) -> Path:
    """One thread works without a pause. A few of its operations wait for a CPU for so long: another program (`cause`) had it, or nobody is seen, and
    the hypervisor had this part of all CPUs."""
    rng = np.random.default_rng([seed, 63])
    count = 18_000
    fs, device = (mean * 1e3 * rng.lognormal(0, 0.15, count) for mean in (100, 280))
    runqueue = np.zeros(count)
    late = np.sort(rng.choice(np.arange(500, count - 500), times, replace=False))
    runqueue[late] = late_ms * 1e6 * rng.uniform(0.97, 1.03, times)
    stages = {"fs_ns": fs, "device_ns": device, "runqueue_ns": runqueue}
    latency = sum(stage.astype(np.int64) for stage in stages.values())
    start = np.concatenate(([0], np.cumsum(latency + 20_000)[:-1]))
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": latency,
        **{name: stage.astype(np.int64) for name, stage in stages.items()},
        "size_bytes": [4096] * count,
        "queue_depth": [1] * count,
        "tid": [101] * count,
        "device": ["vda"] * count,
    }
    # Where nobody is seen only its ordinary turns are: the CPU that it runs on is gone, and it does not know.
    at, length = (late, runqueue[late]) if cause else (late - 100, np.full(times, 30_000.0))
    waited = {
        "tid": pa.array([101] * times, pa.int32()),
        "pid": pa.array([100] * times, pa.int32()),
        "comm": ["worker"] * times,
        "cpu": pa.array([1] * times, pa.int32()),
        "start_ns": pa.array(start[at] + 50_000, pa.int64()),
        "duration_ns": pa.array(length.astype(np.int64), pa.int64()),
        "state": ["runnable"] * times,
        "cause": [cause or "ksoftirqd/1"] * times,
        "cause_pid": pa.array([None] * times, pa.int32()),
    }
    series = np.zeros(SAMPLES)
    if stolen:
        for number in late:
            first = int(start[number] // SAMPLE_NS)
            series[first : first + 2] = stolen
    return _write(path, app, np.full(SAMPLES, 0.95), series, {"waits": pa.table(waited)})


def busy_now_and_then(seed: int, path: Path) -> Path:
    """Another program has the CPU 12 times for 25 ms: less than accuses by itself, and the reason of the longest operations."""
    return _one_thread(seed, path, 25, 12, "batchjob")


def stolen_once(seed: int, path: Path) -> Path:
    """One operation waits for 80 ms while the hypervisor has most of the CPUs: nothing of this machine held it."""
    return _one_thread(seed, path, 80, 1, None, 0.85)
