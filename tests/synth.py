"""Writes synthetic sealed cases in the schema of a case, with a known truth.

`Simulation` is a small model of a workload: every slot (worker x depth) starts its next operation
when the last one was reaped, so the load is a closed loop of constant depth; faults are added to the
stages before the times are laid out. `write_case` writes any set of operations. All randomness comes
from the seed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STAGES = ("app", "fs", "throttle", "queue", "device", "interrupt", "reap", "runqueue", "unknown")
APP_STAGES = ("app", "fs", "queue", "device", "interrupt", "reap")
BLOCK_STAGES = ("queue", "device", "interrupt")
APP_ID_BASE = 1 << 56
SYSCALL_ID_BASE = 2 << 56
BLOCK_ID_BASE = 3 << 56
DIRECT = 1 << 8

NAME = pa.dictionary(pa.int32(), pa.string())
OPS_SCHEMA = pa.schema(
    [
        ("op_id", pa.int64()),
        ("start_ns", pa.int64()),
        ("latency_ns", pa.int64()),
        ("open", pa.bool_()),
        ("op", NAME),
        ("flags", pa.uint32()),
        ("host", NAME),
        ("device", NAME),
        ("file", NAME),
        ("comm", NAME),
        ("cgroup", NAME),
        ("offset_bytes", pa.int64()),
        ("size_bytes", pa.int64()),
        ("queue_depth", pa.int32()),
        ("pid", pa.int32()),
        ("tid", pa.int32()),
        ("cpu", pa.int32()),
        ("complete_cpu", pa.int32()),
        ("hctx", pa.int32()),
        ("vector", pa.int32()),
        ("error", pa.int32()),
        ("weight", pa.float32()),
        *[(f"{stage}_ns", pa.int64()) for stage in STAGES],
        ("foreign_handler_ns", pa.int64()),
    ]
)
TABLE_SCHEMAS = {
    "links": pa.schema(
        [("parent_id", pa.int64()), ("child_id", pa.int64()), ("bytes", pa.int64()), ("kind", NAME)]
    ),
    "gaps": pa.schema(
        [
            ("layer", pa.string()),
            ("tid", pa.int32()),
            ("comm", pa.string()),
            ("start_ns", pa.int64()),
            ("duration_ns", pa.int64()),
            ("state", pa.string()),
            ("meant_busy", pa.bool_()),
        ]
    ),
    "irqs": pa.schema(
        [
            ("host", NAME),
            ("cpu", pa.int32()),
            ("vector", pa.int32()),
            ("handler", NAME),
            ("kind", pa.string()),
            ("device", NAME),
            ("start_ns", pa.int64()),
            ("duration_ns", pa.int64()),
        ]
    ),
    "cache": pa.schema(
        [
            ("op_id", pa.int64()),
            ("tier", pa.string()),
            ("file", NAME),
            ("offset_bytes", pa.int64()),
            ("size_bytes", pa.int64()),
            ("wait_ns", pa.int64()),
        ]
    ),
    "prefetch": pa.schema(
        [
            ("file", NAME),
            *[(name, pa.int64()) for name in ("start_ns", "duration_ns", "issued_bytes", "used_bytes")],
            *[(name, pa.int64()) for name in ("wasted_bytes", "late_bytes", "missed_bytes")],
        ]
    ),
    "waits": pa.schema(
        [
            ("tid", pa.int32()),
            ("pid", pa.int32()),
            ("comm", NAME),
            ("cpu", pa.int32()),
            ("start_ns", pa.int64()),
            ("duration_ns", pa.int64()),
            ("state", pa.string()),
            ("cause", NAME),
            ("cause_pid", pa.int32()),
            ("waker", NAME),
            ("waker_pid", pa.int32()),
            ("waker_tid", pa.int32()),
        ]
    ),
    "series": pa.schema(
        [
            ("time_ns", pa.int64()),
            ("host", NAME),
            ("kind", pa.string()),
            ("subject", NAME),
            ("metric", NAME),
            ("value", pa.float64()),
        ]
    ),
    "losses": pa.schema(
        [
            ("probe", pa.string()),
            ("start_ns", pa.int64()),
            ("end_ns", pa.int64()),
            ("lost", pa.int64()),
            ("reason", pa.string()),
        ]
    ),
    "events": pa.schema(
        [
            ("time_ns", pa.int64()),
            ("kind", pa.string()),
            ("subject", pa.string()),
            ("detail", pa.string()),
        ]
    ),
}

#: What each operation gets unless it is given.
DEFAULTS: dict[str, Any] = {
    "open": False,
    "op": "read",
    "flags": DIRECT,
    "host": "testhost",
    "error": 0,
    "weight": 1.0,
}


def ops_table(columns: Mapping[str, Any]) -> pa.Table:
    """A table of `ops` out of arrays, lists or single values; absent columns are NULL."""
    known = set(OPS_SCHEMA.names)
    unknown = set(columns) - known
    if unknown:
        raise ValueError(f"no such columns: {sorted(unknown)}")
    given = {**DEFAULTS, **columns}
    length = max((len(v) for v in given.values() if _is_column(v)), default=1)
    arrays = [_column(given.get(field.name), field.type, length) for field in OPS_SCHEMA]
    return pa.table(arrays, schema=OPS_SCHEMA)


def _is_column(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))


def _column(value: Any, kind: pa.DataType, length: int) -> pa.Array:
    if value is None:
        return pa.nulls(length, kind)
    values = value if _is_column(value) else [value] * length
    if pa.types.is_dictionary(kind):
        plain = pa.array(values, pa.string())
        return plain.dictionary_encode().cast(kind)
    if isinstance(values, np.ndarray):
        return pa.array(values).cast(kind, safe=False)
    return pa.array(values, kind)


def write_case(
    path: Path,
    *,
    app: Mapping[str, Any] | None = None,
    block: Mapping[str, Any] | None = None,
    syscall: Mapping[str, Any] | None = None,
    links: Mapping[str, Any] | None = None,
    gaps: Sequence[Mapping[str, Any]] = (),
    losses: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
    tables: Mapping[str, Sequence[Mapping[str, Any]] | pa.Table] | None = None,
    meta: Mapping[str, Any] | None = None,
    system: Mapping[str, Any] | None = None,
    devices: Sequence[str] = ("nvme0n1",),
) -> Path:
    """Writes a sealed case and returns its path.

    `app`, `block` and `syscall` are columns of `ops` (see `ops_table`); `None` = the layer was not observed.
    `tables` are rows of further tables (`irqs`, `cache`, ...), `meta` overrides keys of case.json, `system` of system.json.
    """
    path.mkdir(parents=True, exist_ok=True)
    layers: dict[str, Any] = {}
    for layer, columns in (("app", app), ("block", block), ("syscall", syscall)):
        if columns is None:
            continue
        table = ops_table(columns) if columns else OPS_SCHEMA.empty_table()
        _write_table(path / f"ops/layer={layer}", table.sort_by("start_ns"))
        layers[layer] = _layer_meta(table, "exact (user_data)" if links else "none")
    _write_table(path / "links", _links_table(links))
    everything = {
        **dict.fromkeys(TABLE_SCHEMAS, ()),
        "gaps": gaps,
        "losses": losses,
        "events": events,
        **(tables or {}),
    }
    for name, rows in everything.items():
        if name == "links":
            continue
        schema = TABLE_SCHEMAS[name]
        whole = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([dict(r) for r in rows], schema)
        for column in schema:
            if column.name not in whole.column_names:
                whole = whole.append_column(column.name, pa.nulls(len(whole), column.type))
        _write_table(path / name, whole.cast(schema))
    full = {**_case_meta(layers), **(meta or {})}
    (path / "case.json").write_text(json.dumps(full, indent=1), encoding="utf-8")
    written = _system(devices) | dict(system or {})
    (path / "system.json").write_text(json.dumps(written, indent=1), encoding="utf-8")
    return path


def _write_table(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "part-0.parquet", compression="zstd")


def _links_table(links: Mapping[str, Any] | None) -> pa.Table:
    schema = TABLE_SCHEMAS["links"]
    if not links:
        return schema.empty_table()
    length = len(links["parent_id"])
    filled = {"bytes": 4096, "kind": "waits_for", **links}
    return pa.table([_column(filled[f.name], f.type, length) for f in schema], schema=schema)


def _layer_meta(table: pa.Table, join: str) -> dict[str, Any]:
    observed = [s for s in STAGES if table.num_rows and table[f"{s}_ns"].null_count < table.num_rows]
    stages = {f"{stage}_ns": stage for stage in observed}
    return {"rows": table.num_rows, "stages": stages, "join": join}


def _case_meta(layers: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": "whodisk-case",
        "version": 1,
        "observer": "run",
        "tool_version": "0.1.0",
        "argv": ["whodisk", "run", "spec.toml"],
        "command": [],
        "command_pid": 4200,
        "command_status": "exit 0",
        "start_utc": "2026-01-01T00:00:00Z",
        "clock": {"name": "CLOCK_MONOTONIC", "host": "testhost", "start_ns": 0, "resolution_ns": 1},
        "duration_ns": 10_000_000_000,
        "state": "sealed",
        "simulated": True,
        "layers": layers,
        "probes": {},
        "phases": [],
        "workload": None,
        "not_observed": [],
        "not_carried": [],
        "open_questions": [],
    }


def probe(**counts: int) -> dict[str, Any]:
    """What case.json says of a probe that lost nothing, and of what it counted."""
    lost = dict.fromkeys(("received", "lost", "recursion_misses", "own_excluded", "own_excluded_bytes"), 0)
    return {"attached": [], **lost, "counts": counts}


def _system(devices: Sequence[str]) -> dict[str, Any]:
    described = {
        name: {"name": name, "dev": n << 20, "size_bytes": 1 << 40, "queue": {}, "facts": {}}
        for n, name in enumerate(devices)
    }
    return {
        "host": "testhost",
        "kernel": "6.1.0",
        "cpus": 4,
        "cpu_model": "model",
        "memory_bytes": 1 << 34,
        "virtualization": "none",
        "devices": described,
        "mounts": {},
        "irqs": {},
        "changes": [],
    }


@dataclass
class Simulation:
    """Operations of a closed loop, slot by slot; times are laid out by `lay_out`.

    Arrays have the shape (slots, operations per slot). `stages` holds nanoseconds.
    """

    seed: int = 1
    workers: int = 1
    depth: int = 16
    seconds: float = 10.0
    typical_us: float = 400.0
    sigma: float = 0.25
    read_share: float = 1.0
    #: (bytes, share, factor on the device time)
    sizes: tuple[tuple[int, float, float], ...] = ((4096, 1.0, 1.0),)
    devices: tuple[str, ...] = ("nvme0n1",)
    stages: dict[str, Floats] = field(init=False)
    gaps: list[dict[str, Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.slots = self.workers * self.depth
        mean_us = self.typical_us * np.exp(self.sigma**2 / 2) * sum(s * f for _, s, f in self.sizes)
        self.count = int(self.seconds * 1e6 / (mean_us + 12) * 1.1) + 16
        shape = (self.slots, self.count)
        shares = [share for _, share, _ in self.sizes]
        self.size_index = self.rng.choice(len(self.sizes), size=shape, p=shares)
        factor = np.array([f for _, _, f in self.sizes])[self.size_index]
        body = np.exp(self.rng.normal(0.0, self.sigma, shape))
        self.is_read = self.rng.random(shape) < self.read_share
        self.device_index = self.rng.integers(len(self.devices), size=shape)
        self.stages = {
            "app": np.zeros(shape),
            "fs": self._small(1_500, shape),
            "queue": self._small(2_500, shape),
            "device": self.typical_us * 1e3 * factor * body,
            "interrupt": self._small(3_000, shape),
            "reap": self._small(4_000, shape),
        }

    def _small(self, typical_ns: float, shape: tuple[int, int]) -> Floats:
        return typical_ns * np.exp(self.rng.normal(0.0, 0.3, shape))

    # Faults by probability come first, those at moments (`stall`, `stop`) last and in order of time:
    # the former move everything that follows them.

    # -- faults -----------------------------------------------------------------------------

    def tail(self, stage: str, probability: float, extra_ms: float, device: int | None = None) -> Simulation:
        """A part `probability` of the operations takes `extra_ms` longer in `stage`."""
        hit = self.rng.random((self.slots, self.count)) < probability
        if device is not None:
            hit &= self.device_index == device
        self.stages[stage][hit] += extra_ms * 1e6
        return self

    def scale(self, stage: str, probability: float, factor: float) -> Simulation:
        """A part `probability` of the operations takes `factor` times as long in `stage`."""
        hit = self.rng.random((self.slots, self.count)) < probability
        self.stages[stage][hit] *= factor
        return self

    def stall(
        self, stage: str, at_s: Sequence[float], length_ms: float, device: int | None = None
    ) -> Simulation:
        """Everything in flight in `stage` at each moment waits until `length_ms` later."""
        for moment in sorted(at_s):
            end_ns = (moment + length_ms / 1e3) * 1e9
            for slot, index in self._in_flight(moment * 1e9, device):
                self.stages[stage][slot, index] += end_ns - moment * 1e9
        return self

    def stop(self, worker: int, at_s: Sequence[float], length_ms: float) -> Simulation:
        """The thread of `worker` does not run: what is in flight completes but is reaped late."""
        for moment in sorted(at_s):
            begin_ns = moment * 1e9
            end_ns = begin_ns + length_ms * 1e6
            last_complete_ns = begin_ns
            for slot, index in self._in_flight(begin_ns, None):
                if slot // self.depth != worker:
                    continue
                complete_ns = self._ends()[slot, index] - self.stages["reap"][slot, index]
                last_complete_ns = max(last_complete_ns, complete_ns)
                self.stages["reap"][slot, index] += max(0.0, end_ns - self._ends()[slot, index])
            self._gap(worker, last_complete_ns, end_ns)
        return self

    def _gap(self, worker: int, begin_ns: float, end_ns: float) -> None:
        self.gaps.append(
            {
                "layer": "app",
                "tid": 4300 + worker,
                "comm": f"worker-{worker}",
                "start_ns": int(begin_ns),
                "duration_ns": int(end_ns - begin_ns),
                "state": "unobserved",
                "meant_busy": True,
            }
        )

    def _latencies(self) -> Floats:
        total: Floats = sum(np.floor(values) for values in self.stages.values())  # type: ignore[assignment]
        return total

    def _ends(self) -> Floats:
        ends: Floats = np.cumsum(self._latencies() + 500.0, axis=1)
        return ends

    def _in_flight(self, moment_ns: float, device: int | None) -> list[tuple[int, int]]:
        """(slot, index) of every operation in flight at a moment."""
        ends = self._ends()
        found = []
        for slot in range(self.slots):
            index = int(np.searchsorted(ends[slot], moment_ns))
            if index < self.count and (device is None or self.device_index[slot, index] == device):
                found.append((slot, index))
        return found

    # -- output -----------------------------------------------------------------------------

    def lay_out(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Columns of the app layer, of the block layer, and the links between them."""
        whole = {name: np.floor(values).astype(np.int64) for name, values in self.stages.items()}
        latency = sum(whole.values())
        start = np.cumsum(latency + 500, axis=1) - latency
        keep = (start < self.seconds * 1e9).ravel()
        order = np.argsort(start.ravel()[keep], kind="stable")

        def pick(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            picked: npt.NDArray[Any] = values.ravel()[keep][order]
            return picked

        slot = pick(np.repeat(np.arange(self.slots), self.count).reshape(self.slots, self.count))
        number = np.arange(len(slot))
        worker = slot // self.depth
        start_ns, stages = pick(start), {name: pick(values) for name, values in whole.items()}
        app = {
            "op_id": APP_ID_BASE | (worker.astype(np.int64) << 40) | number,
            "start_ns": start_ns,
            "latency_ns": pick(np.asarray(latency)),
            "op": list(np.where(pick(self.is_read), "read", "write")),
            "file": "/data/file",
            "device": list(np.array(self.devices)[pick(self.device_index)]),
            "comm": [f"worker-{w}" for w in worker],
            "offset_bytes": number * 4096,
            "size_bytes": np.array([s for s, _, _ in self.sizes])[pick(self.size_index)],
            "queue_depth": np.full(len(slot), self.depth),
            "pid": 4200,
            "tid": 4300 + worker,
            **{f"{name}_ns": values for name, values in stages.items()},
        }
        return app, self._block(app, number), self._links(app, number)

    def _block(self, app: dict[str, Any], number: Ints) -> dict[str, Any]:
        start_ns = app["start_ns"] + app["app_ns"] + app["fs_ns"]
        latency_ns = app["queue_ns"] + app["device_ns"] + app["interrupt_ns"]
        begun = np.argsort(np.argsort(start_ns, kind="stable"), kind="stable") + 1
        ended = np.searchsorted(np.sort(start_ns + latency_ns), start_ns, side="right")
        same = ("op", "offset_bytes", "size_bytes", "device", "pid", "tid", "comm")
        return {
            **{name: app[name] for name in same},
            **{f"{stage}_ns": app[f"{stage}_ns"] for stage in BLOCK_STAGES},
            "op_id": BLOCK_ID_BASE | number,
            "start_ns": start_ns,
            "latency_ns": latency_ns,
            "queue_depth": begun - ended,
            "flags": 1,
            "vector": 40,
            "complete_cpu": 0,
        }

    def _links(self, app: dict[str, Any], number: Ints) -> dict[str, Any]:
        return {"parent_id": app["op_id"], "child_id": BLOCK_ID_BASE | number, "bytes": app["size_bytes"]}

    def workload(self) -> dict[str, Any]:
        """`workload` of case.json as the engine writes it."""
        return {
            "spec": {
                "queue_depth": self.depth,
                "workers": self.workers,
                "rate_per_s": None,
                "direct": True,
                "sync_every_writes": 0,
            }
        }

    def write(self, path: Path, *, layers: Sequence[str] = ("app", "block"), **changes: Any) -> Path:
        """Writes the case with the given layers; `changes` override keys of case.json."""
        app, block, links = self.lay_out()
        both = "app" in layers and "block" in layers
        meta = {
            "duration_ns": int(self.seconds * 1e9),
            "workload": self.workload() if "app" in layers else None,
            "observer": "run" if "app" in layers else "record",
            **changes,
        }
        return write_case(
            path,
            app=app if "app" in layers else None,
            block=block if "block" in layers else None,
            links=links if both else None,
            gaps=self.gaps if "app" in layers else (),
            meta=meta,
            devices=self.devices,
        )
