"""The named SQL views over a case, and the connection that runs queries on them.

A view is a piece of SQL that names Parquet files relative to the case directory. `Case.expand`
puts the views a query uses in front of it as common table expressions, so that the text which ran
can be pasted into DuckDB started inside the case directory. The SQL stays within what other
engines' dialects can be translated to: no macros, no list functions.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.errors import CaseError, NotSealedError, WhodiskError
from whodisk.findings import BY_ITS_LOG
from whodisk.reading.flush_waits import IS_ISSUED, NOBODY_BEHIND, QUEUE_BEHIND_IS_DEVICE, behind_sql
from whodisk.reading.weighted_rows import copies_sql, links_sql, ops_sql, pieces_sql, weights_sql
from whodisk.types import Cell

#: Newest case format this code reads.
FORMAT_VERSION = 4

#: Bins per octave of every latency histogram: neighbouring bins differ by 1.09 %.
BINS_PER_OCTAVE = 64

#: Stages in the order an operation passes them; the last two cut across.
STAGES = (
    "app",
    "fs",
    "throttle",
    "queue",
    "device",
    "interrupt",
    "reap",
    "runqueue",
    "unknown",
)

#: Flag of operations that writeback throttling held back, or requests of theirs.
WBT = 512
#: Where the kernel leaves a thread that has ended.
ENDED = "do_task_dead"
#: Its time counts as waiting in the queue: it lets a request go as the device ends earlier ones, so nobody set a limit.
_WBT_IS_QUEUE = {
    "throttle_ns": f"CASE WHEN coalesce(flags, 0) & {WBT} > 0 THEN 0 ELSE throttle_ns END",
    "queue_ns": f"CASE WHEN coalesce(flags, 0) & {WBT} > 0 THEN coalesce(queue_ns, 0) + coalesce(throttle_ns, 0) "
    "ELSE queue_ns END",
}

#: Stages that `judged` may hold otherwise than they were recorded.
_MOVED = ("app_ns", *_WBT_IS_QUEUE, "device_ns")

#: Values in the largest result that is kept for whoever asks the same again.
KEPT_VALUES_MAX = 20_000

#: Most that queries may put on disk when they do not fit into memory.
SPILL_LIMIT = "16GiB"

#: What an open and the like fail with only where storage does; crates/case/src/schema.rs, STORAGE_ERRNOS.
STORAGE_ERRNOS = (5, 28, 67, 74, 110, 117, 121, 122)
#: Answers to a call that was broken off or was not to wait, with which no I/O failed; UNFINISHED_ERRNOS there.
UNFINISHED_ERRNOS = (4, 11)
#: What programs do to files beside reading and writing them; before version 3 all of it was `other`.
NAMESPACE_OPS = ("open", "rename", "unlink", "mkdir", "link", "truncate", "allocate")
#: Kinds of which only the calls are known in which the thread slept (case-format, `op`).
SLEPT_OPS = ("close", "lookup", "list", "attribute")
#: SQL: whether an operation moves or keeps data: what is opened, named, made, looked up or dropped from the page cache is no I/O.
IS_IO = f"(op NOT IN {(*NAMESPACE_OPS, *SLEPT_OPS, 'drop', 'other')})"
#: What a copy inside of the kernel fails with where it is not to be had (errno EXDEV, EINVAL, ENOSYS, EOPNOTSUPP): programs read and write instead.
NO_COPY_ERRNOS = (18, 22, 38, 95)
#: SQL: whether an operation failed at I/O. A program that looks for its files opens many that are not there.
IO_ERROR = (
    f"(error <> 0 AND error NOT IN {UNFINISHED_ERRNOS} AND NOT (op = 'copy' AND error IN {NO_COPY_ERRNOS}) "
    f"AND ({IS_IO} OR layer = 'block' OR error IN {STORAGE_ERRNOS}))"
)

LAYERS = ("app", "syscall", "block", "device")

#: Columns of `ops` with the SQL type each view gives them.
OP_COLUMNS: dict[str, str] = {
    "op_id": "BIGINT",
    "start_ns": "BIGINT",
    "latency_ns": "BIGINT",
    "open": "BOOLEAN",
    "op": "VARCHAR",
    "flags": "INTEGER",
    "host": "VARCHAR",
    "device": "VARCHAR",
    "file": "VARCHAR",
    "comm": "VARCHAR",
    "cgroup": "VARCHAR",
    "offset_bytes": "BIGINT",
    "size_bytes": "BIGINT",
    "queue_depth": "INTEGER",
    "pid": "INTEGER",
    "tid": "INTEGER",
    "cpu": "INTEGER",
    "complete_cpu": "INTEGER",
    "hctx": "INTEGER",
    "vector": "INTEGER",
    "error": "INTEGER",
    "weight": "DOUBLE",
    **{f"{stage}_ns": "BIGINT" for stage in STAGES},
    "foreign_handler_ns": "BIGINT",
}

#: Columns that nobody asks of the operations that are kept.
_NOT_KEPT = ("host", "cgroup", "pid", "error")

TABLES: dict[str, dict[str, str]] = {
    "links": {
        "parent_id": "BIGINT",
        "child_id": "BIGINT",
        "bytes": "BIGINT",
        "kind": "VARCHAR",
    },
    "gaps": {
        "layer": "VARCHAR",
        "tid": "INTEGER",
        "comm": "VARCHAR",
        "start_ns": "BIGINT",
        "duration_ns": "BIGINT",
        "state": "VARCHAR",
        "meant_busy": "BOOLEAN",
    },
    "irqs": {
        "host": "VARCHAR",
        "cpu": "INTEGER",
        "vector": "INTEGER",
        "handler": "VARCHAR",
        "kind": "VARCHAR",
        "device": "VARCHAR",
        "start_ns": "BIGINT",
        "duration_ns": "BIGINT",
    },
    "cache": {
        "op_id": "BIGINT",
        "tier": "VARCHAR",
        "file": "VARCHAR",
        "offset_bytes": "BIGINT",
        "size_bytes": "BIGINT",
        "wait_ns": "BIGINT",
    },
    "prefetch": {
        "file": "VARCHAR",
        "start_ns": "BIGINT",
        "duration_ns": "BIGINT",
        "issued_bytes": "BIGINT",
        "used_bytes": "BIGINT",
        "wasted_bytes": "BIGINT",
        "late_bytes": "BIGINT",
        "missed_bytes": "BIGINT",
    },
    "waits": {
        "tid": "INTEGER",
        "pid": "INTEGER",
        "comm": "VARCHAR",
        "cpu": "INTEGER",
        "start_ns": "BIGINT",
        "duration_ns": "BIGINT",
        "state": "VARCHAR",
        "cause": "VARCHAR",
        "cause_pid": "INTEGER",
        "waker": "VARCHAR",
        "waker_pid": "INTEGER",
        "waker_tid": "INTEGER",
    },
    "series": {
        "time_ns": "BIGINT",
        "host": "VARCHAR",
        "kind": "VARCHAR",
        "subject": "VARCHAR",
        "metric": "VARCHAR",
        "value": "DOUBLE",
    },
    "losses": {
        "probe": "VARCHAR",
        "start_ns": "BIGINT",
        "end_ns": "BIGINT",
        "lost": "BIGINT",
        "reason": "VARCHAR",
    },
    "events": {
        "time_ns": "BIGINT",
        "kind": "VARCHAR",
        "subject": "VARCHAR",
        "detail": "VARCHAR",
    },
}

Row = dict[str, Cell]

#: How an importer says that its moments are local time.
NO_ZONE = "the time zone"
#: How the clock of a log is called that has times of day, and no date.
MIDNIGHT = "midnight"


class Case:
    """A sealed case, open for reading.

    Views: ``app_ops syscall_ops block_ops device_ops`` (one layer each), ``ops`` (all layers),
    ``judged`` (`ops` without ramp phases; what writeback throttling held back waits in the queue there, what waited behind a
    flush command was at the device, and carriers of flushes are left out, as their commands have rows of their own), ``measured`` (those
    of them that ended), ``open_ops``, ``behind_flushes`` (op_id, behind_ns: who waited behind flush commands, flush_waits.py),
    ``links gaps irqs cache prefetch waits series losses events``, ``measured_prefetch`` (`prefetch` without ramp phases),
    ``latency_histogram`` (layer, device, op, bin, n, low_ns),
    ``stage_totals`` (layer, device, op, n, latency_ns, <stage>_ns as sums), ``timeline`` (operations
    and latency per layer, op and 1/200 of the recording).

    In a sampled case an operation of weight 8 is in them eight times, each time with weight 1 and an id of its own, and so
    are its links: whatever counts, adds up or takes a quantile then estimates the whole. `copied` names the layers, and
    `weighted_rows.FIRST_COPY` chooses what was recorded. ``recorded_ops`` and ``recorded_links`` have each row once, with its
    weight.
    """

    def __init__(self, path: Path | str, *, memory_limit: str = "3GiB", threads: int = 2) -> None:
        self.path = Path(path)
        self.meta = _read_json(self.path / "case.json")
        _check_meta(self.path / "case.json", self.meta)
        system = self.path / "system.json"
        self.system: dict[str, Any] = _read_json(system) if system.exists() else {}
        self._connection = duckdb.connect()
        self._memory_limit = memory_limit
        self._folder: int | None = None
        search_path = str(self.path.resolve())
        if "," in search_path or not _is_text(search_path):
            # DuckDB takes a comma for the end of a path, and knows no way to write one; and names of files may be any bytes.
            self._folder = os.open(search_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            search_path = f"/proc/self/fd/{self._folder}"
        self._connection.execute(f"SET file_search_path = {quoted(search_path)}")
        self._connection.execute(f"SET memory_limit = '{memory_limit}'")
        self._connection.execute(f"SET threads = {threads}")
        self._connection.execute("SET preserve_insertion_order = false")
        # Few rows on one side, as it expects them, make it compare each with all of the other side: a minute instead of a moment where they are many.
        self._connection.execute("SET asof_loop_join_threshold = 0")
        # Dozens of queries read the same files.
        self._connection.execute("SET parquet_metadata_cache = true")
        # What does not fit into memory is written where nobody else reads it, and not into the folder that the user is in.
        spill = tempfile.mkdtemp(prefix="whodisk-")
        self._remove_spill = weakref.finalize(self, shutil.rmtree, spill, ignore_errors=True)
        self._connection.execute(f"SET temp_directory = {quoted(spill)}")
        # A query that runs away ends with an error, and not with a full disk.
        self._connection.execute(f"SET max_temp_directory_size = '{SPILL_LIMIT}'")
        # The command line shows progress of its own.
        self._count_progress(False)
        self.columns: dict[str, frozenset[str]] = {}
        #: Layers of which an operation stands for several: it is there several times.
        self.copied: frozenset[str] = frozenset()
        #: Layer -> which of its rows of `judged` lie in the table `kept_<layer>`: those above a latency, ns, and those of further conditions.
        self._kept: dict[str, tuple[int, frozenset[str]]] = {}
        #: Query -> its rows, or its columns: several detectors ask the same.
        self._known: dict[str, list[Row]] = {}
        self._known_arrays: dict[str, dict[str, npt.NDArray[Any]]] = {}
        #: Tables of `make_table`: what a query on one gives is not kept, as a table may be made anew.
        self._made: set[str] = set()
        #: Views of `add_view`, and the query of each whose rows lie in the table `kept_<name>`; empty where there is none yet.
        self._added: dict[str, str] = {}
        self.behind_flushes = False
        #: Whether operations are counted from their submit on (`count_from_submit`).
        self.counts_from_submit = False
        self.views = self._views()
        self.copied = self._sampled_layers()
        if self.copied:
            self._copy_rows()
        #: Whether writeback throttling held anything back.
        self.wbt = bool(self.rows(f"SELECT 1 FROM ops WHERE throttle_ns > 0 AND flags & {WBT} > 0 LIMIT 1"))
        #: Whether the recorder saw what carriers of flushes waited for, and somebody waited behind a flush command of others.
        self.carriers, self.behind_flushes = self._carriers()
        self._judge()

    @property
    def servers(self) -> dict[int, list[str]]:
        """Processes that serve devices or mount points from user space, and which."""
        return {int(pid): list(served) for pid, served in (self.system.get("servers") or {}).items()}

    @property
    def start(self) -> datetime | None:
        """What the calendar said when the case began, in `zone`; None where no clock says."""
        try:
            start = datetime.fromisoformat(str(self.meta.get("start_utc")))
        except ValueError:
            return None
        # Clocks without a date count from there.
        return None if start.year == 1970 else start

    def calendar(self, time_ns: float) -> datetime | None:
        """What the calendar said at a moment of the case, to the second; None where its clock is in no calendar."""
        clock = self.meta.get("clock") or {}
        if clock.get("name") != "CLOCK_REALTIME":
            return None
        second = (int(clock.get("start_ns") or 0) + round(time_ns)) // 1_000_000_000
        return datetime.fromtimestamp(second, UTC)

    @property
    def zero_of_day_ns(self) -> int | None:
        """What the log's clock said at 0 s, ns since midnight; None unless the log has times of day and no date."""
        clock = self.meta.get("clock") or {}
        return int(clock.get("start_ns") or 0) if str(clock.get("name") or "").startswith(MIDNIGHT) else None

    def moment(self, time_ns: float, places: int | None = None) -> str:
        """A moment in words: as the log has it, where that is a time of day."""
        return words.moment(time_ns, zero_of_day_ns=self.zero_of_day_ns, places=places)

    @property
    def zone(self) -> str:
        """Most logs have none, and their importers say so."""
        lacking = {gap.get("what") for gap in self.meta.get("not_carried") or []}
        return BY_ITS_LOG if NO_ZONE in lacking else " UTC"

    @property
    def began(self) -> str:
        """`start` in words: ``2018-06-13 22:11:07.123 UTC``, or without milliseconds where these are not known, or ``2018-06-13 22:11:07 by its log``, ``22:11:07 by its log``, or empty."""
        if self.zero_of_day_ns is not None:
            return f"{words.time_of_day(self.zero_of_day_ns)}{BY_ITS_LOG}"
        start = self.start
        if start is None:
            return ""
        ms = f".{start.microsecond // 1000:03}" if start.microsecond else ""
        return f"{start:%Y-%m-%d %H:%M:%S}{ms}{self.zone}"

    @property
    def is_imported(self) -> bool:
        return self.meta.get("observer") == "import"

    @property
    def is_of_a_part(self) -> bool:
        """Whether a part of the machine was recorded, a command or a scope, and not all of it."""
        return bool(self.meta.get("command") or self.meta.get("scope"))

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()

    def count_from_submit(self) -> None:
        """Lets `judged` count the operations of layer app from their submit on, not from the moment they were due.

        For runs that cannot keep up: every operation waits for the ones before it, and only what those spent
        below says why.
        """
        self._forget()
        self.counts_from_submit = True
        self._is_plain = False
        self.views["judged"] = self._judged(
            {
                "start_ns": "start_ns + coalesce(app_ns, 0)",
                "latency_ns": "latency_ns - coalesce(app_ns, 0)",
                "app_ns": "CAST(0 AS BIGINT)",
            }
        )

    def judge_requests_of(self, pids: Collection[int]) -> None:
        """Lets `judged` have, of the layer of requests, those of these processes alone."""
        self._judge_only("block", pids)

    def judge_calls_of(self, pids: Collection[int]) -> None:
        """Lets `judged` have, of the layer of system calls, those of these processes alone."""
        self._judge_only("syscall", pids)

    def _judge_only(self, layer: str, pids: Collection[int]) -> None:
        listed = ", ".join(map(str, sorted(pids))) or "NULL"
        self._forget()
        self._is_plain = False
        self.views["judged"] = (
            f"SELECT * FROM ({self.views['judged']}) WHERE layer <> '{layer}' OR pid IN ({listed})"
        )

    def leave_out(self, layers: Collection[str]) -> None:
        """Lets the case look as if these layers had not been observed: no view has a row of them."""
        for layer in layers:
            self.columns.pop(f"ops/{layer}", None)
            self.views[f"{layer}_ops"] = f"SELECT * FROM ({self.views[f'{layer}_ops']}) WHERE FALSE"
        self.views["ops"] = self._ops()
        if "block" in layers:
            self.carriers = self.behind_flushes = False
        self._judge()

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()
        self._remove_spill()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    # -- facts of case.json ---------------------------------------------------------------

    @property
    def layers(self) -> tuple[str, ...]:
        """Layers that were observed, top of the stack first."""
        return tuple(layer for layer in LAYERS if f"ops/{layer}" in self.columns)

    @property
    def slow_only_ns(self) -> dict[str, int]:
        """Layers that hold only operations slower than a limit, ns: whoever logged them left out the others."""
        known = {layer: (self.meta.get("layers") or {}).get(layer) or {} for layer in self.layers}
        least = {layer: meta.get("slower_than_ns") for layer, meta in known.items()}
        return {layer: ns for layer, ns in least.items() if isinstance(ns, int) and ns > 0}

    def need_all_of(self, layer: str) -> None:
        """Raises CaseError if a layer holds slow operations alone: there is neither a rate nor a quantile in it."""
        if layer in self.slow_only_ns:
            raise CaseError(
                self.path,
                f"layer {layer}",
                "all its operations",
                f"those over {self.slow_only_ns[layer] / 1e6:g} ms alone",
                "log all of them: slow ones alone have neither a rate nor quantiles to compare",
            )

    @property
    def duration_ns(self) -> int | None:
        """Length of the recording, if known."""
        value = self.meta.get("duration_ns")
        return value if isinstance(value, int) and value > 0 else None

    @property
    def name(self) -> str:
        """Of its folder, as text: names of files may be any bytes."""
        return os.fsencode(self.path.resolve().name).decode(errors="replace")

    @property
    def resolution_ns(self) -> int:
        """Smallest clock step the recording could see, ns; 1 if it was not measured."""
        value = (self.meta.get("clock") or {}).get("resolution_ns")
        return value if isinstance(value, int) and value > 0 else 1

    @property
    def spec(self) -> dict[str, Any]:
        """What the workload was told to do, where that is known: keys of an access specification."""
        workload = self.meta.get("workload")
        if not isinstance(workload, dict):
            return {}
        # Our own engine writes the one, the lab the other.
        spec = workload.get("spec", workload.get("specification"))
        return spec if isinstance(spec, dict) else workload

    @property
    def program(self) -> str | None:
        """The real program that `whodisk run` started: its own log is layer app; None for any other case."""
        name = (self.meta.get("workload") or {}).get("program")
        return name if isinstance(name, str) and name else None

    @property
    def not_done(self) -> str | None:
        """Why such a program did not do all that it was asked to, by itself; None if it did, or does not say."""
        outcome = (self.meta.get("workload") or {}).get("outcome")
        why = outcome.get("why_not") if isinstance(outcome, dict) else None
        return why if isinstance(why, str) and why else None

    @property
    def never_began(self) -> bool:
        """Whether such a program did none of its operations, by its own log: then what was recorded is its start."""
        return (
            self.program is not None
            and "app" in self.layers
            and not self.rows("SELECT 1 AS one FROM app_ops LIMIT 1")
        )

    @property
    def pauses(self) -> list[dict[str, Any]]:
        """What held all threads of such a program, by its own log: `what`, `start_ns` (CLOCK_MONOTONIC), `duration_ns`."""
        return self._logged("pauses")

    @property
    def activities(self) -> list[dict[str, Any]]:
        """What such a program was doing beside its operations, by its own log: compactions, checkpoints; the same keys."""
        return self._logged("activities")

    def _logged(self, name: str) -> list[dict[str, Any]]:
        listed = (self.meta.get("workload") or {}).get(name)
        keys = ("what", "start_ns", "duration_ns")
        listed = listed if isinstance(listed, list) else []
        return [one for one in listed if isinstance(one, dict) and all(key in one for key in keys)]

    @property
    def offered_per_s(self) -> float | None:
        """The fixed rate of the workload; None where it goes on as soon as it can."""
        rate = self.spec.get("rate_per_s")
        known = isinstance(rate, (int, float)) and not isinstance(rate, bool) and rate > 0
        return float(rate) if known and rate is not None else None

    def stage_name(self, layer: str, stage: str) -> str:
        """Printed name of a stage: ``device+interrupt`` where a boundary was not observed."""
        names = ((self.meta.get("layers") or {}).get(layer) or {}).get("stages") or {}
        name = names.get(f"{stage}_ns")
        return name if isinstance(name, str) and name else stage

    def phases(self) -> list[tuple[int, int]]:
        """Time windows [start, end) that count, ns since the start; empty = everything counts."""
        phases = [phase for phase in self.meta.get("phases") or [] if isinstance(phase, dict)]
        return [
            (int(phase["start_ns"]), int(phase["end_ns"]))
            for phase in phases
            if phase.get("name") == "measure" and "start_ns" in phase and "end_ns" in phase
        ]

    # -- queries ----------------------------------------------------------------------------

    def expand(self, sql: str) -> str:
        """`sql` with the views it uses in front, ready to be pasted into DuckDB."""
        used: list[str] = []
        self._collect(sql, used)
        if not used:
            return sql
        tables = ",\n".join(f"{name} AS (\n{self.views[name]}\n)" for name in used)
        body = sql.strip()
        match = re.match(r"(?is)^with\s+", body)
        if match:
            return f"WITH {tables},\n{body[match.end() :]}"
        return f"WITH {tables}\n{body}"

    def rows(self, sql: str) -> list[Row]:
        """Runs `sql` (views allowed); one dictionary per row, plain Python values. Who asks the same again gets copies of the rows."""
        expanded = self.expand(sql)
        rows = self._known.get(expanded)
        if rows is None:
            rows = self._fetched(expanded)
            if sum(map(len, rows)) > KEPT_VALUES_MAX or not self._lasts(expanded):
                return rows
            self._known[expanded] = rows
        return [dict(row) for row in rows]

    def _fetched(self, expanded: str) -> list[Row]:
        cursor = self._run(expanded)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, (_plain(value) for value in row), strict=True)) for row in cursor.fetchall()]

    def known(self, expanded: str) -> list[Row]:
        """The same, of a query that several ask, with its views written out: it runs once."""
        if expanded not in self._known:
            self._known[expanded] = self._fetched(expanded)
        return self._known[expanded]

    def arrays(self, sql: str) -> dict[str, npt.NDArray[Any]]:
        """Runs `sql`; one NumPy array per column. NULL integers arrive as NaN in float arrays. Who asks the same again gets copies."""
        expanded = self.expand(sql)
        columns = self._known_arrays.get(expanded)
        if columns is None:
            fetched = self._run(expanded).fetchnumpy()
            columns = {name: _filled(values) for name, values in fetched.items()}
            if sum(values.size for values in columns.values()) > KEPT_VALUES_MAX or not self._lasts(expanded):
                return columns
            self._known_arrays[expanded] = columns
        return {name: values.copy() for name, values in columns.items()}

    def _lasts(self, expanded: str) -> bool:
        """Whether a query gives the same when it is asked again."""
        return not any(name in expanded for name in self._made)

    def streamed(self, sql: str, rows: int = 10_000) -> Iterator[list[tuple[Any, ...]]]:
        """Runs `sql` (views allowed) and hands out its rows in lists of at most `rows`; the next query ends it."""
        cursor = self._run(self.expand(sql))
        while batch := cursor.fetchmany(rows):
            yield batch

    def arrow(self, sql: str) -> Any:
        """Runs `sql` (views allowed) and returns a `pyarrow.RecordBatchReader`; the next query ends it. Needs PyArrow."""
        try:
            return self._connection.sql(self._ready(self.expand(sql))).to_arrow_reader(100_000)
        except duckdb.Error as error:
            raise self._damaged(error) from None

    def copy(self, sql: str, path: Path, options: str, tell: Callable[[float], None]) -> int:
        """Writes the rows of `sql` (views allowed) into the file `path`, which exists, and returns how many they are.

        `options` are those of DuckDB's COPY. `tell` hears the share that is done, 0 to 1, a few times per second. Raises
        OSError if the file cannot be written, WhodiskError if another program has locked it.
        """
        target = quoted(str(path.resolve()))
        with self._told(tell):
            try:
                done = self._connection.execute(
                    f"COPY (\n{self._ready(self.expand(sql))}\n) TO {target} ({options}, USE_TMP_FILE false)"
                ).fetchone()
            except duckdb.IOException as error:
                number = re.search(r'"errno":"([0-9]+)"', str(error))
                if "Could not set lock" in str(error):
                    holder = re.search(r"held in (.+?\(PID [0-9]+\))", str(error))
                    raise WhodiskError(
                        f"{path}: expected a file that no other program has locked, found the lock of "
                        f"{holder[1] if holder else 'another program'}; end that program, or write to another file"
                    ) from None
                if number is None:
                    raise self._damaged(error) from None
                raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
            except duckdb.Error as error:
                raise self._damaged(error) from None
        return int(done[0]) if done else 0

    def make_table(self, name: str, sql: str) -> None:
        """Keeps the rows of `sql` (views allowed) as the temporary table `name`, on disk where they do not fit into memory."""
        self._made.add(name)
        self._run(f"CREATE OR REPLACE TEMP TABLE {name} AS\n{self.expand(sql)}")

    def add_view(self, name: str, sql: str) -> None:
        """Makes `name` a view of this query (views allowed), whose rows are found once, not in each query that reads it."""
        self.views[name] = sql
        self._added.setdefault(name, "")

    def keep(self, layer: str, above_ns: int, *conditions: str) -> None:
        """Keeps the rows of `judged` that took longer, and those that meet one of these conditions: what asks for some of them need not read all
        of the layer again."""
        alike = self.constant_columns(layer)
        columns = ", ".join(
            f"CAST({'NULL' if alike[name] is None else alike[name]} AS {kind}) AS {name}"
            if name in alike
            else name
            for name, kind in OP_COLUMNS.items()
            if name not in _NOT_KEPT
        )
        chosen = " OR ".join((f"latency_ns > {above_ns}", *conditions))
        self.make_table(
            f"kept_{layer}", f"SELECT layer, {columns} FROM judged WHERE layer = '{layer}' AND ({chosen})"
        )
        self._kept[layer] = above_ns, frozenset(conditions)

    def constant_columns(self, layer: str) -> dict[str, int | None]:
        """Columns of a layer in `judged` that hold the same whole number in every row, or nothing (None), as the statistics of its files say: adding up
        what is not there, or is the same everywhere, takes as long as adding up what is."""
        found = self.known(
            f"""SELECT path_in_schema AS name, bool_and(coalesce(stats_null_count = num_values, FALSE)) AS is_empty,
  bool_and(coalesce(type IN ('INT32', 'INT64') AND stats_null_count = 0 AND stats_min_value = stats_max_value, FALSE))
    AND min(stats_min_value) = max(stats_min_value) AS is_same, min(stats_min_value) AS value
FROM parquet_metadata('ops/layer={layer}/*.parquet') GROUP BY 1 ORDER BY 1"""
        )
        # In `judged` these are not always what was recorded.
        moved = () if self._is_plain else ("start_ns", "latency_ns", *_MOVED)
        return {
            str(row["name"]): None if row["is_empty"] else int(str(row["value"]))
            for row in found
            if row["name"] not in moved and (row["is_empty"] or row["is_same"])
        }

    @property
    def judges_all(self) -> bool:
        """Whether `judged` has every operation, and as it was recorded."""
        return self._is_plain and not self.phases()

    def judged_above(self, layer: str, above_ns: float, *conditions: str) -> str:
        """Where to read the rows of `judged` that took longer, or meet one of these conditions: the table that is kept, if it holds them all."""
        least_ns, kept = self._kept.get(layer, (math.inf, frozenset[str]()))
        return f"kept_{layer}" if above_ns >= least_ns and kept.issuperset(conditions) else "judged"

    @contextmanager
    def _told(self, tell: Callable[[float], None]) -> Iterator[None]:
        """Reports how far the query inside is."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.3):
                tell(max(0.0, self._connection.query_progress()) / 100)

        watcher = threading.Thread(target=watch, name="whodisk-progress", daemon=True)
        if not self._count_progress(True):
            yield
            return
        self._connection.execute("SET enable_progress_bar_print = false")
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self._count_progress(False)

    def _count_progress(self, on: bool) -> bool:
        """Whether DuckDB does so: in a notebook without ipywidgets it refuses to be asked, and shows no progress."""
        try:
            self._connection.execute(f"SET enable_progress_bar = {on}")
        except duckdb.InvalidInputException:
            return False
        return True

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(self._ready(sql))
        except duckdb.Error as error:
            raise self._damaged(error) from None

    def _ready(self, expanded: str) -> str:
        """`expanded` as it runs, the rows of views of `add_view` found once: which operations waited behind flushes, say, not in each query that reads `judged`.

        DuckDB 2.0 never ends a query with LIMIT and without ORDER BY over that one itself: it waits for a part that several others
        read and that nobody needs any more (decision 0371).
        """
        for name, kept in self._added.items():
            view = self.views[name]
            written_out = f"{name} AS (\n{view}\n)"
            if written_out not in expanded:
                continue
            if kept != view:
                self._connection.execute(f"CREATE OR REPLACE TEMP TABLE kept_{name} AS\n{self.expand(view)}")
                self._added[name] = view
            expanded = expanded.replace(
                written_out, f"{name} AS NOT MATERIALIZED (\nSELECT * FROM kept_{name}\n)"
            )
        return expanded

    def _damaged(self, error: duckdb.Error) -> CaseError:
        if isinstance(error, duckdb.OutOfMemoryException):
            return CaseError(
                self.path,
                "query",
                f"{self._memory_limit} of memory to be enough for each query",
                str(error).splitlines()[0],
                "solve a shorter recording, or one with fewer probes",
            )
        return CaseError(
            self.path,
            "Parquet tables",
            "tables as `whodisk seal` writes them",
            str(error).splitlines()[0],
            f"`whodisk seal {self.path}` builds damaged tables again from raw/, or says why it cannot",
        )

    def _collect(self, sql: str, used: list[str]) -> None:
        words = set(re.findall(r"[a-z_]+", _without_strings(sql)))
        for name, text in self.views.items():
            if name in words and name not in used:
                self._collect(text, used)
                if name not in used:
                    used.append(name)

    # -- views ------------------------------------------------------------------------------

    def _views(self) -> dict[str, str]:
        views: dict[str, str] = {}
        for layer in LAYERS:
            files = f"ops/layer={layer}"
            views[f"{layer}_ops"] = self._table(files, f"ops/{layer}", OP_COLUMNS, layer)
        views["ops"] = self._ops()
        views["recorded_ops"] = "SELECT * FROM ops"
        views["judged"] = _JUDGED.format(counts=self._counts())
        views["measured"] = "SELECT * FROM judged WHERE NOT open"
        views["behind_flushes"] = NOBODY_BEHIND
        views["open_ops"] = "SELECT * FROM ops WHERE open"
        for name, columns in TABLES.items():
            views[name] = self._table(name, name, columns, None)
        if "cause" in self.columns.get("waits", frozenset()):
            # A thread that has ended waits for nothing, whoever has yet to take note of it.
            views["waits"] = (
                f"SELECT * FROM ({views['waits']}) AS recorded WHERE cause IS DISTINCT FROM '{ENDED}'"
            )
        views["measured_prefetch"] = f"SELECT * FROM prefetch WHERE {self._phases(mostly_within)}"
        views["recorded_links"] = "SELECT * FROM links"
        views["latency_histogram"] = _HISTOGRAM
        views["stage_totals"] = _stage_totals()
        views["timeline"] = _timeline(self.duration_ns)
        return views

    def _ops(self) -> str:
        observed = self.layers or ("block",)
        return "\nUNION ALL\n".join(f"SELECT * FROM {layer}_ops" for layer in observed)

    def _judged(self, of_app: dict[str, str]) -> str:
        """`judged` with other columns, for layer app also `of_app`. Each layer is windowed by the moment an operation was due."""
        parts = []
        for layer in self.layers:
            moved = (_WBT_IS_QUEUE if self.wbt else {}) | (of_app if layer == "app" else {})
            if self.behind_flushes and layer != "block":
                queue_ns = moved.get("queue_ns", "queue_ns")
                moved |= {name: sql.format(queue_ns=queue_ns) for name, sql in QUEUE_BEHIND_IS_DEVICE.items()}
            named = [f"{moved[name]} AS {name}" if name in moved else name for name in OP_COLUMNS]
            columns = ", ".join(["layer", *named]) if moved else "*"
            issued = f" AND {IS_ISSUED}" if self.carriers and layer == "block" else ""
            parts.append(f"SELECT {columns} FROM {layer}_ops WHERE {self._counts()}{issued}")
        return "\nUNION ALL\n".join(parts)

    def _forget(self) -> None:
        """What was kept of `judged` is not true of it any more."""
        self._kept.clear()
        self._known.clear()
        self._known_arrays.clear()

    def _judge(self) -> None:
        """Sets the views that operations are judged by."""
        self._forget()
        above = tuple(layer for layer in self.layers if layer in ("app", "syscall"))
        self.behind_flushes = self.behind_flushes and bool(above)
        if self.behind_flushes:
            self.add_view("behind_flushes", behind_sql(above))
        self._is_plain = not (self.wbt or self.carriers or self.behind_flushes)
        self.views["judged"] = _JUDGED.format(counts=self._counts()) if self._is_plain else self._judged({})

    def _carriers(self) -> tuple[bool, bool]:
        """Whether there are carriers, and whether one of them waited behind a flush command."""
        if "block" not in self.layers or self.meta["version"] < 2:
            return False, False
        there = bool(self.rows(f"SELECT 1 FROM block_ops WHERE NOT ({IS_ISSUED}) LIMIT 1"))
        waited = there and "links" in self.columns
        return there, waited and bool(self.rows("SELECT 1 FROM links WHERE kind = 'queued_behind' LIMIT 1"))

    def _sampled_layers(self) -> frozenset[str]:
        """Layers with weights that are whole numbers, not all of them 1, in a case with a recorder that had a CPU budget."""
        if not self.meta.get("sampling"):
            return frozenset()
        return frozenset(layer for layer in self.layers if max(self._weights(layer), default=1.0) > 1)

    def _weights(self, layer: str) -> list[float]:
        rows = self.rows(f"SELECT DISTINCT weight FROM {layer}_ops WHERE weight IS NOT NULL ORDER BY 1")
        weights = [float(row["weight"] or 1) for row in rows]
        return weights if all(weight.is_integer() for weight in weights) else []

    def _copy_rows(self) -> None:
        """Makes the views of a sampled case count each operation as often as its weight says."""
        sampled = sorted(self.copied)
        copies = copies_sql(sorted({1.0}.union(*(self._weights(layer) for layer in sampled))))
        kept = {layer: self.views[f"{layer}_ops"] for layer in sampled}
        self.views["recorded_ops"] = "\nUNION ALL\n".join(self.views[f"{layer}_ops"] for layer in self.layers)
        self.views["recorded_links"] = self.views["links"]
        weights = weights_sql(kept)
        for layer, sql in kept.items():
            self.views[f"{layer}_ops"] = ops_sql(sql, list(OP_COLUMNS), copies)
        self.views["links"] = links_sql(self.views["links"], weights, copies)
        pieces = [name for name in TABLES["cache"] if name != "op_id"]
        self.views["cache"] = pieces_sql(self.views["cache"], pieces, weights, copies)

    def _counts(self) -> str:
        return self._phases(lambda start, end: f"start_ns >= {start} AND start_ns < {end}")

    def _phases(self, test: Callable[[int, int], str]) -> str:
        windows = self.phases()
        return "(" + " OR ".join(test(*window) for window in windows) + ")" if windows else "TRUE"

    def _table(self, files: str, key: str, columns: dict[str, str], layer: str | None) -> str:
        """SQL of a table with exactly `columns`; absent columns are NULL, an absent table is empty."""
        present = self._present(files)
        if present is not None:
            self.columns[key] = frozenset(present)
        if present == list(columns):
            # The usual case; short, because people paste it.
            source = f"read_parquet('{files}/*.parquet', hive_partitioning = false)"
            lead_text = f"'{layer}' AS layer, " if layer else ""
            return f"SELECT {lead_text}* FROM {source}"
        lead = [f"'{layer}' AS layer"] if layer else []
        chosen = [_column(name, kind, present) for name, kind in columns.items()]
        source = f"FROM read_parquet('{files}/*.parquet')" if present is not None else "WHERE FALSE"
        return f"SELECT {', '.join(lead + chosen)}\n{source}"

    def _present(self, files: str) -> list[str] | None:
        if not any((self.path / files).glob("*.parquet")):
            return None
        sql = f"SELECT * FROM read_parquet('{files}/*.parquet', hive_partitioning = false) LIMIT 0"
        return [column[0] for column in self._run(sql).description or []]


def mostly_within(begin_ns: float, end_ns: float) -> str:
    """SQL: a row with `start_ns` and `duration_ns` counts where most of the shorter, of it and [begin_ns, end_ns), is in the other.

    A recorder ends its rows where a phase begins or ends; those of the lab and of older recordings may lie across.
    """
    inside = f"least(start_ns + duration_ns, {end_ns!r}) - greatest(start_ns, {begin_ns!r})"
    return f"2 * ({inside}) >= least(duration_ns, {end_ns - begin_ns!r})"


_JUDGED = "SELECT * FROM ops WHERE {counts}"

_HISTOGRAM = f"""SELECT layer, device, op,
  CAST(floor(log2(greatest(latency_ns, 1)) * {BINS_PER_OCTAVE}) AS INTEGER) AS bin,
  min(latency_ns) AS low_ns, max(latency_ns) AS high_ns, count(*) AS n
FROM measured
GROUP BY 1, 2, 3, 4"""


def _stage_totals() -> str:
    sums = ", ".join(f"sum({stage}_ns * CAST(weight AS DOUBLE)) AS {stage}_ns" for stage in STAGES)
    return (
        "SELECT layer, device, op, count(*) AS n, sum(CAST(weight AS DOUBLE)) AS n_weighted, "
        f"sum(latency_ns * CAST(weight AS DOUBLE)) AS latency_ns, {sums}\nFROM measured\nGROUP BY 1, 2, 3"
    )


def _timeline(duration_ns: int | None) -> str:
    step_ns = max(1, math.ceil((duration_ns or 1_000_000_000) / 200))
    return (
        f"SELECT layer, op, CAST(floor(start_ns / {step_ns}) AS BIGINT) * {step_ns} AS time_ns, "
        "count(*) AS n, avg(latency_ns) AS mean_ns, max(latency_ns) AS max_ns\n"
        "FROM ops\nGROUP BY 1, 2, 3"
    )


def _column(name: str, kind: str, present: list[str] | None) -> str:
    if present is None or name not in present:
        default = "1" if name == "weight" else "NULL"
        return f"CAST({default} AS {kind}) AS {name}"
    if name == "open":
        return "coalesce(open, FALSE) AS open"
    if name == "weight":
        return "CAST(coalesce(weight, 1) AS DOUBLE) AS weight"
    return f"CAST({name} AS {kind}) AS {name}"


def _without_strings(sql: str) -> str:
    return re.sub(r"'[^']*'", "''", sql.lower())


def _plain(value: Any) -> Cell:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return float(value) if hasattr(value, "__float__") else str(value)


def _filled(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "iu":
            return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
        if values.dtype.kind == "f":
            return np.asarray(np.ma.filled(values, np.nan))
        # Not np.ma.filled: it takes None for "the usual filler", which is '?' for objects.
        objects = np.ma.getdata(values).astype(object)
        objects[np.ma.getmaskarray(values)] = None
        return objects
    return np.asarray(values)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CaseError(
            path, "", "a case directory with case.json", "no such file", "name a recorded case"
        ) from None
    except OSError as error:
        hint = "check its permissions"
        raise CaseError(path, "", "a readable file", str(error.strerror), hint) from None
    except ValueError as error:
        raise CaseError(path, "", "JSON", str(error), "restore it from a copy or record again") from None
    if not isinstance(data, dict):
        raise CaseError(path, "", "a JSON object", type(data).__name__, "record again")
    return data


def _check_meta(path: Path, meta: dict[str, Any]) -> None:
    if meta.get("format") != "whodisk-case":
        hint = "name a directory written by whodisk record, run or import"
        raise CaseError(path, "key format", "whodisk-case", repr(meta.get("format")), hint)
    version = meta.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        hint = "use a newer whodisk"
        raise CaseError(path, "key version", f"at most {FORMAT_VERSION}", repr(version), hint)
    if meta.get("state") != "sealed":
        hint = "seal it with `whodisk seal`"
        raise NotSealedError(path, "key state", "sealed", repr(meta.get("state")), hint)


def without_volumes_sql(case: Case) -> str:
    """Condition: a request is none of a device that is made of others."""
    return (
        "op_id NOT IN (SELECT parent_id FROM links WHERE kind = 'stacked')"
        if "links" in case.columns
        else "TRUE"
    )


def quoted(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"
