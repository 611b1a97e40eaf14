"""Sealed cases of operations that are held up above the device: by a busy CPU, by a controller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.synth import BLOCK_ID_BASE, Simulation, write_case
from whodisk.detectors.throttle import BACKGROUND


def _small(seed: int, **changes: Any) -> Simulation:
    return Simulation(seed=seed, **{"workers": 4, "depth": 1, "seconds": 3.0, "typical_us": 300.0, **changes})


def _stage(simulation: Simulation, name: str, values: npt.NDArray[np.float64]) -> None:
    simulation.stages[name] = values


def _with_waits(
    simulation: Simulation,
    path: Path,
    state: str,
    cause: str | tuple[str, ...] | None,
    cause_pid: int | None,
    own_turn_ns: int = 0,
    lives: int = 1,
) -> Path:
    """The case with a row of `waits` for each operation that was in the run queue; and 40 short ones for each other, of this length.

    `lives`: so many threads do what one does otherwise, one after the other.
    """
    app, block, links = simulation.lay_out()
    app["tid"] = app["tid"] * lives + app["start_ns"] * lives // int(simulation.seconds * 1e9)
    held = np.flatnonzero(app["runqueue_ns"] > 0)
    causes = cause if isinstance(cause, tuple) else (cause,)
    waits = [
        {
            "tid": int(app["tid"][number]),
            "pid": 4200,
            "comm": app["comm"][number],
            "cpu": 0,
            "start_ns": int(app["start_ns"][number]),
            "duration_ns": int(app["runqueue_ns"][number]),
            "state": state,
            "cause": causes[place % len(causes)],
            # Each program is a process.
            "cause_pid": None if cause_pid is None else cause_pid + place % len(causes),
        }
        for place, number in enumerate(held)
    ]
    if own_turn_ns:
        # Short waits for each other are no stage of the operations here: they work meanwhile.
        waits += [
            {
                **row,
                "start_ns": int(begin),
                "duration_ns": own_turn_ns,
                "cause": "worker-1",
                "cause_pid": 4200,
            }
            for row, begin in zip(
                waits * 40, np.linspace(0, simulation.seconds * 1e9, 40 * len(waits)), strict=True
            )
        ]
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, tables={"waits": waits}, meta=meta)


def _runqueue(seed: int, part: float, wait_us: float, **changes: Any) -> Simulation:
    simulation = _small(seed, **changes)
    shape = simulation.device_index.shape
    waits = simulation.rng.exponential(wait_us * 1e3, shape) * (simulation.rng.random(shape) < part)
    _stage(simulation, "runqueue", waits)
    return simulation


def cpu_hog(seed: int, path: Path) -> Path:
    """One operation in 50 waits 20 ms for a CPU on which a program of higher priority runs."""
    return _with_waits(_runqueue(seed, 0.02, 20_000), path, "runnable", "stress-ng", 777)


def cpu_of_the_recorder(seed: int, path: Path) -> Path:
    """The same on a machine so slow that it is the recorder that runs."""
    return _with_waits(_runqueue(seed, 0.02, 20_000), path, "runnable", "whodisk-write", 778)


def cpu_hog_beside_turns(seed: int, path: Path) -> Path:
    """The same, and the submitters wait for each other more than for the program, but never long."""
    return _with_waits(_runqueue(seed, 0.02, 20_000), path, "runnable", "stress-ng", 777, 1_000_000)


def cpu_hog_unseen(seed: int, path: Path) -> Path:
    """The same, but who ran was not recorded."""
    simulation = _runqueue(seed, 0.02, 20_000)
    return simulation.write(path)


def turns(seed: int, path: Path) -> Path:
    """One operation in 25 waits for another program's turn of a millisecond: the 99th percentile is that program's."""
    return _with_waits(_runqueue(seed, 0.04, 1000), path, "runnable", "stress-ng", 777)


def many_turns(seed: int, path: Path) -> Path:
    """The same, but for one of many programs each time: a busy machine."""
    programs = ("python3", "cc1plus", "sshd", "ld", "make")
    return _with_waits(_runqueue(seed, 0.04, 1000), path, "runnable", programs, 777)


def kernel_turns(seed: int, path: Path) -> Path:
    """The same, but for a thread of the kernel that works for whoever asked it to: perhaps for the submitter."""
    return _with_waits(_runqueue(seed, 0.04, 1000), path, "runnable", "kworker/0:1H", 777)


def crowded_cpu(seed: int, path: Path) -> Path:
    """A quarter of the operations does, for as long as all of them work: most of the submitters' time is another program's."""
    return _with_waits(_runqueue(seed, 0.25, 1000), path, "runnable", "stress-ng", 777)


def _served_by(case: Path, servers: dict[str, list[str]]) -> Path:
    """`case`, with programs that serve storage from user space."""
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    (case / "system.json").write_text(json.dumps({**system, "servers": servers}), encoding="utf-8")
    return case


def crowded_by_kernel(seed: int, path: Path) -> Path:
    """The same, but it is a thread of the kernel that had the CPU: it works for whoever asked it to."""
    thread = ("kworker/u8:3", "khugepaged")[seed % 2]
    return _with_waits(_runqueue(seed, 0.25, 1000), path, "runnable", thread, 777)


def crowded_by_server(seed: int, path: Path) -> Path:
    """The same, but it is the program that serves their device."""
    return _served_by(crowded_cpu(seed, path), {"777": ["nvme0n1"]})


def crowded_by_mount(seed: int, path: Path) -> Path:
    """The same, but it is the program that serves the file system of their file."""
    return _served_by(crowded_cpu(seed, path), {"777": ["/data"]})


def crowded_by_other_server(seed: int, path: Path) -> Path:
    """The same, but it serves another device and a mount point that they have no file on."""
    return _served_by(crowded_cpu(seed, path), {"777": ["loop7", "/mnt/far"], "888": ["nvme0n1"]})


def saturated_limit(seed: int, path: Path) -> Path:
    """A controller lets less pass than is due at a fixed rate: the backlog is its consequence."""
    simulation = _small(seed, workers=1, depth=8)
    _stage(simulation, "throttle", np.maximum(0.0, 4e6 - simulation.stages["device"]))
    app, block, links = simulation.lay_out()
    late = np.arange(len(app["op_id"]), dtype=np.int64) * 20_000
    app["app_ns"], app["start_ns"] = app["app_ns"] + late, app["start_ns"] - late + int(late.max())
    app["latency_ns"] = app["latency_ns"] + late
    block["throttle_ns"] = app["throttle_ns"]
    block["latency_ns"] = block["latency_ns"] + app["throttle_ns"]
    block["start_ns"] = block["start_ns"] + int(late.max())
    meta = {"duration_ns": int(simulation.seconds * 1e9) + int(late.max()), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, meta=meta)


def each_other(seed: int, path: Path) -> Path:
    """The workers themselves share a CPU."""
    return _with_waits(_runqueue(seed, 0.25, 1000), path, "runnable", "worker-1", 4200)


def context_switches(seed: int, path: Path) -> Path:
    """Every operation waits a few microseconds for its turn."""
    return _with_waits(_runqueue(seed, 1.0, 4), path, "runnable", "kworker/0:1", 33)


def one_wait(seed: int, path: Path, who: str = "stress-ng") -> Path:
    """One wait of 30 ms."""
    simulation = _small(seed)
    waits = np.zeros((simulation.slots, simulation.count))
    waits[0, simulation.count // 3] = 30e6
    _stage(simulation, "runqueue", waits)
    return _with_waits(simulation, path, "runnable", who, 777)


def one_wait_for_the_recorder(seed: int, path: Path) -> Path:
    """The same on a slow machine, and the recorder had the CPU."""
    return one_wait(seed, path, "whodisk-rec")


def one_wait_for_the_server(seed: int, path: Path) -> Path:
    """The same, and who serves the device from user space had the CPU: it worked for whoever asked."""
    return _served_by(one_wait(seed, path, "slowdisk-0"), {"777": ["nvme0n1"]})


def _held_below(simulation: Simulation, path: Path) -> Path:
    """The case with the stage throttle in the requests, too, where controllers hold them back."""
    app, block, links = simulation.lay_out()
    block["throttle_ns"] = app["throttle_ns"]
    block["latency_ns"] = block["latency_ns"] + app["throttle_ns"]
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, meta=meta)


def dirty_limit(seed: int, path: Path) -> Path:
    """Writers through the page cache wait until dirty pages are written: nothing is held back at the block layer."""
    simulation = _small(seed, workers=1, depth=8, read_share=0.0)
    shape = simulation.device_index.shape
    _stage(
        simulation, "throttle", simulation.rng.exponential(2e6, shape) * (simulation.rng.random(shape) < 0.2)
    )
    app, block, links = simulation.lay_out()
    app["flags"] = np.zeros(len(app["op_id"]), np.uint32)
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, meta=meta)


def io_limit_above(seed: int, path: Path) -> Path:
    """A controller that holds direct writes back before they become requests, which is how Linux does it."""
    simulation = _small(seed, workers=1, depth=8, read_share=0.0)
    _stage(simulation, "throttle", np.maximum(0.0, 8e6 - simulation.stages["device"]))
    return simulation.write(path)


def no_room(seed: int, path: Path) -> Path:
    """An array's protected memory is full now and then: direct writes wait while it is written to the disk."""
    simulation = _small(seed, workers=1, depth=8, read_share=0.0)
    shape = simulation.device_index.shape
    _stage(simulation, "throttle", np.where(simulation.rng.random(shape) < 0.02, 20e6, 0.0))
    app, block, links = simulation.lay_out()
    held = np.flatnonzero(app["throttle_ns"] > 0)
    block = {name: np.broadcast_to(values, len(app["op_id"])) for name, values in block.items()}
    emptied = {name: values[held] for name, values in block.items()}
    emptied |= {name: np.zeros(len(held), np.int64) for name in block if name.endswith("_ns")}
    emptied["op_id"] = BLOCK_ID_BASE | (1 << 40) | np.arange(len(held))
    emptied["start_ns"] = app["start_ns"][held]
    emptied["latency_ns"] = emptied["device_ns"] = app["app_ns"][held] + app["throttle_ns"][held]
    flags = block.get("flags", np.zeros(len(block["op_id"]), np.int64))
    block = {name: np.concatenate([values, emptied[name]]) for name, values in block.items()}
    block["flags"] = np.concatenate([flags, np.full(len(held), BACKGROUND)])
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, meta=meta)


def io_limit(seed: int, path: Path) -> Path:
    """A controller lets 1,000 operations per second pass."""
    simulation = _small(seed, workers=1, depth=8)
    _stage(simulation, "throttle", np.maximum(0.0, 8e6 - simulation.stages["device"]))
    return _held_below(simulation, path)


def cpu_limit_late(seed: int, path: Path) -> Path:
    """The same, in operations that do not know it: they were taken late, because their thread was held up then."""
    simulation = _small(seed)
    shape = simulation.device_index.shape
    held = simulation.rng.exponential(40e6, shape) * (simulation.rng.random(shape) < 0.005)
    _stage(simulation, "reap", simulation.stages["reap"] + held)
    app, block, links = simulation.lay_out()
    late = np.flatnonzero(app["reap_ns"] > 1_000_000)
    waits = [
        {
            "tid": int(app["tid"][number]),
            "pid": 4200,
            "comm": app["comm"][number],
            "cpu": 0,
            "start_ns": int(app["start_ns"][number] + app["latency_ns"][number] - app["reap_ns"][number]),
            "duration_ns": int(app["reap_ns"][number]),
            "state": "throttled",
            "cause": None,
            "cause_pid": None,
        }
        for number in late
    ]
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, tables={"waits": waits}, meta=meta)


def cpu_limit(seed: int, path: Path) -> Path:
    """The group of the submitters has used up its CPU time in a fifth of the time."""
    return _with_waits(_runqueue(seed, 0.02, 8000), path, "throttled", None, None)


def cpu_limit_of_a_script(seed: int, path: Path) -> Path:
    """The same, of a script that starts one program after the other: each of its threads is there for a moment."""
    return _with_waits(_runqueue(seed, 0.02, 8000), path, "throttled", None, None, lives=40)


def cpu_limit_and_turns(seed: int, path: Path) -> Path:
    """The same; each time it goes on after another program's turn, which once was a long one."""
    simulation = _runqueue(seed, 0.02, 40_000)
    app, block, links = simulation.lay_out()
    held = np.flatnonzero(app["runqueue_ns"] > 1_000_000)
    longest = held[np.argmax(app["runqueue_ns"][held])]
    waits = []
    for number in held:
        turn_ns = 11_000_000 if number == longest else 500_000
        begin_ns, whole_ns = int(app["start_ns"][number]), int(app["runqueue_ns"][number])
        who = {"tid": int(app["tid"][number]), "pid": 4200, "comm": app["comm"][number], "cpu": 0}
        waits += [
            who
            | {"start_ns": begin_ns, "duration_ns": whole_ns - turn_ns, "state": "throttled"}
            | {"cause": None, "cause_pid": None},
            who
            | {"start_ns": begin_ns + whole_ns - turn_ns, "duration_ns": turn_ns, "state": "runnable"}
            | {"cause": "logger", "cause_pid": 77},
        ]
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, tables={"waits": waits}, meta=meta)


def seldom_limit(seed: int, path: Path) -> Path:
    """One operation in thirty is held back for as long again: 3 % of the time, and the 99th percentile."""
    simulation = _small(seed)
    shape = simulation.device_index.shape
    held = np.asarray(simulation.typical_us * 1.1e3 * (simulation.rng.random(shape) < 0.03), np.float64)
    _stage(simulation, "throttle", held)
    return simulation.write(path)


def loose_limit(seed: int, path: Path) -> Path:
    """A controller that looks at each operation for a microsecond or two, and now and then holds one back."""
    simulation = _small(seed)
    shape = simulation.device_index.shape
    held = simulation.rng.exponential(1_500.0, shape) + 200_000.0 * (simulation.rng.random(shape) < 0.01)
    _stage(simulation, "throttle", held)
    return simulation.write(path)


def one_window(seed: int, path: Path) -> Path:
    """A controller holds every operation back during one window, a twelfth of the time; never before, and never after."""
    simulation = _small(seed, workers=1, depth=8)
    begin = simulation.count // 3
    held = np.zeros((simulation.slots, simulation.count))
    held[:, begin : begin + max(4, simulation.count // 90)] = 3e6
    _stage(simulation, "throttle", held)
    return _held_below(simulation, path)
