"""Sealed cases of drives and the interrupts that complete their requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import Simulation, write_case

DEVICES = tuple(f"nvme{number}n1" for number in range(4))
#: How long a drive's own handler takes, ns.
OWN_NS = 1_300
SWITCH_DRIVE = 2


def _drives(seed: int, **changes: Any) -> Simulation:
    given: dict[str, Any] = {"depth": 8, "seconds": 1.5, "typical_us": 300.0, "devices": DEVICES, **changes}
    return Simulation(seed=seed, **given)


def _write(
    simulation: Simulation,
    path: Path,
    foreign_ns: Any,
    *,
    handler: str | None = None,
    on: Callable[[int], tuple[int, int]] = lambda drive: (40 + drive, drive),
    handler_on: tuple[int, int] = (40 + SWITCH_DRIVE, SWITCH_DRIVE),
    submitters: int = 4,
) -> Path:
    """`foreign_ns` (shape of the simulation) is what others' handlers took in front of each request's own.

    `on` gives vector and CPU of a drive, `handler` is a further handler that runs as often as drive `SWITCH_DRIVE`
    completes, on `handler_on`.
    """
    simulation.stages["interrupt"] += foreign_ns
    # `lay_out` orders the operations: what belongs to each of them is passed through a stage that is not used.
    fs = simulation.stages["fs"].copy()
    simulation.stages["fs"] = np.floor(foreign_ns)
    app, block, links = simulation.lay_out()
    foreign = app["fs_ns"].copy()
    app["latency_ns"] = app["latency_ns"] - foreign + int(fs.mean())
    app["fs_ns"] = np.full(len(foreign), int(fs.mean()))
    block["start_ns"] = block["start_ns"] - foreign + int(fs.mean())
    drive = np.array([DEVICES.index(name) for name in block["device"]])
    places = [on(number) for number in range(len(DEVICES))]
    block["vector"] = np.array([vector for vector, _ in places])[drive]
    block["complete_cpu"] = np.array([cpu for _, cpu in places])[drive]
    block["cpu"] = (app["tid"] + np.arange(len(drive))) % submitters
    block["foreign_handler_ns"] = foreign
    end = block["start_ns"] + block["latency_ns"]
    runs = [
        _run(f"nvme{d}q1", DEVICES[d], places[d], int(moment) - OWN_NS, OWN_NS)
        for d, moment in zip(drive, end, strict=True)
    ]
    if handler is not None:
        mine = drive == SWITCH_DRIVE
        runs += [
            _run(handler, None, handler_on, int(moment - OWN_NS - took), int(took))
            for moment, took in zip(end[mine], np.maximum(foreign[mine], 500), strict=True)
        ]
    return write_case(
        path,
        app=app,
        block=block,
        links=links,
        tables={"irqs": sorted(runs, key=lambda run: run["start_ns"])},
        meta={"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()},
        devices=DEVICES,
    )


def _run(
    handler: str, device: str | None, place: tuple[int, int], start_ns: int, took_ns: int
) -> dict[str, Any]:
    return {
        "host": "testhost",
        "cpu": place[1],
        "vector": place[0],
        "handler": handler,
        "kind": "hard",
        "device": device,
        "start_ns": max(0, start_ns),
        "duration_ns": took_ns,
    }


def slow_handler(seed: int, path: Path) -> Path:
    """A handler of 150 us runs in front of one drive's own."""
    simulation = _drives(seed)
    mine = simulation.device_index == SWITCH_DRIVE
    return _write(simulation, path, np.where(mine, 150_000.0, 0.0), handler="switchtec")


def all_on_one_cpu(seed: int, path: Path) -> Path:
    """Four drives, one CPU: each request waits for the handlers of about 60 others."""
    simulation = _drives(seed, workers=4)
    waits = simulation.rng.exponential(120_000.0, simulation.device_index.shape)
    return _write(simulation, path, waits, on=lambda drive: (40 + drive, 0))


def all_on_the_only_submitter(seed: int, path: Path) -> Path:
    """The same with one thread that keeps 16 in flight: the CPU that submits completes everything, and others are idle."""
    simulation = _drives(seed, depth=16)
    waits = simulation.rng.exponential(60_000.0, simulation.device_index.shape)
    return _write(simulation, path, waits, on=lambda drive: (40 + drive, 0), submitters=1)


def quick_handler(seed: int, path: Path) -> Path:
    """The vector is shared, but the other handler takes 2 us."""
    simulation = _drives(seed)
    mine = simulation.device_index == SWITCH_DRIVE
    return _write(simulation, path, np.where(mine, 2_000.0, 0.0), handler="switchtec")


def innocent_handler(seed: int, path: Path) -> Path:
    """The drive that shares its vector is slow by itself."""
    simulation = _drives(seed)
    mine = simulation.device_index == SWITCH_DRIVE
    simulation.stages["device"][mine] *= 1.7
    return _write(simulation, path, np.where(mine, 2_000.0, 0.0), handler="switchtec")


def busy_elsewhere(seed: int, path: Path) -> Path:
    """A network card keeps a CPU busy that completes nothing."""
    return _write(
        _drives(seed), path, np.zeros((8, _drives(seed).count)), handler="eth0-rx", handler_on=(60, 7)
    )


def one_cpu_is_enough(seed: int, path: Path) -> Path:
    """All interrupts go to one CPU, which has time for all of them."""
    simulation = _drives(seed, workers=4)
    waits = simulation.rng.exponential(800.0, simulation.device_index.shape)
    return _write(simulation, path, waits, on=lambda drive: (40 + drive, 0))
