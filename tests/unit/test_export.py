"""Exporters, read back by other readers: Perfetto's own messages, HdrHistogram's package, PyArrow, csv."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
import os
import stat
import struct
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given
from hypothesis import strategies as st

import whodisk
from tests.synth import Simulation, write_case
from whodisk.errors import NotSealedError, WhodiskError
from whodisk.export import FORMATS, Wanted, Written, export, format_named, hdr_log, perfetto, protobuf
from whodisk.export.base import draft
from whodisk.reading.views import STAGES, Case

APP = 1 << 56
BLOCK = 3 << 56


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed loop of depth 8 on two layers that are linked."""
    return Simulation(seed=5, seconds=0.6, depth=8, read_share=0.7).write(
        tmp_path_factory.mktemp("export") / "loop.case"
    )


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Operations that formats trip over: none of a place, unfinished, failed, begun before the recording, strange names."""
    return write_case(
        tmp_path / "odd.case",
        block={
            "op_id": BLOCK + np.arange(7),
            "start_ns": [-5_000, 0, 1_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000],
            "latency_ns": [6_000, 1_500, 2_049, 0, 70_000_000, 1_000, 1 << 40],
            "open": [False, False, False, False, True, False, False],
            "op": ["read", "write", "discard", "flush", "read", "read", "other"],
            "device": ["vda", "vda", "vdb", "vda", "vda", "vda", "vda"],
            "offset_bytes": [0, 4096, 1 << 45, None, 8192, 12288, 0],
            "size_bytes": [4096, 8192, 1 << 20, 0, 4096, 512, 512],
            "error": [0, 0, 0, 0, 0, 5, 0],
            "device_ns": [6_000, 1_500, 2_049, 0, 70_000_000, 1_000, 1 << 40],
            "comm": ['a,"b"\nc', "é", None, "x y", "", "-", "-"],
        },
    )


def written(case: Path, name: str, file: Path, **wanted: Any) -> Written:
    with Case(case) as opened:
        return export(
            opened, format_named(name), Wanted(**wanted), file, lambda _share: None, overwrite=False
        )


def table(case: Path, sql: str) -> list[dict[str, Any]]:
    with Case(case) as opened:
        return opened.rows(sql)


# -- Perfetto --------------------------------------------------------------------------------------


def unknown_fields(message: Any) -> list[str]:
    """Fields that a message or one inside it does not have in its published form."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = [f"{message.DESCRIPTOR.name}.{field.field_number}" for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type is not None:
            inside = value if hasattr(value, "__len__") else [value]
            found += [name for one in inside for name in unknown_fields(one)]
    return found


@dataclass
class Slice:
    track: int
    name: str
    start_ns: int
    end_ns: int
    depth: int
    told: dict[str, Any]
    flows: list[int]


class Reader:
    """What trace processor makes of a trace: slices that nest, counters, flows.

    Its own binary is in no package registry (PyPI's `perfetto` downloads it at its first use; Debian's has none). So what it drops a packet for is
    checked here, in the order of the file: fields that the published messages do not have, tracks and interned texts that are used before
    they are described, a sequence whose incremental state was not begun.
    """

    def __init__(self, file: Path) -> None:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

        self.trace = Trace()
        self.trace.ParseFromString(file.read_bytes())
        self.tracks: dict[int, Any] = {}
        self.slices: list[Slice] = []
        self.counters: dict[int, list[tuple[int, int]]] = defaultdict(list)
        names: dict[str, dict[int, str]] = {"names": {}, "keys": {}, "texts": {}}
        events = []
        assert not unknown_fields(self.trace), "fields that the published messages do not have"
        assert self.trace.packet[0].sequence_flags == 1, "incremental state is begun first"
        for packet in self.trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            interned = packet.interned_data
            names["names"] |= {entry.iid: entry.name for entry in interned.event_names}
            names["keys"] |= {entry.iid: entry.name for entry in interned.debug_annotation_names}
            names["texts"] |= {
                entry.iid: entry.str.decode() for entry in interned.debug_annotation_string_values
            }
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("track_event"):
                event = packet.track_event
                events.append((packet.timestamp, event))
                assert packet.sequence_flags == 2 and event.track_uuid in self.tracks
                assert (
                    event.name_iid in names["names"]
                    if event.type == event.TYPE_SLICE_BEGIN
                    else not event.name_iid
                )
                for note in event.debug_annotations:
                    assert note.name_iid in names["keys"]
                    assert not note.string_value_iid or note.string_value_iid in names["texts"]
        stacks: dict[int, list[Slice]] = defaultdict(list)
        # It sorts by time, and keeps the order of the file where times are equal.
        for time_ns, event in sorted(events, key=lambda pair: pair[0]):
            stack = stacks[event.track_uuid]
            if event.type == event.TYPE_COUNTER:
                self.counters[event.track_uuid].append((time_ns, event.counter_value))
            elif event.type == event.TYPE_SLICE_END:
                stack.pop().end_ns = time_ns
            else:
                told = {
                    names["keys"][note.name_iid]: names["texts"][note.string_value_iid]
                    if note.string_value_iid
                    else note.int_value
                    for note in event.debug_annotations
                }
                name = names["names"][event.name_iid]
                begun = Slice(event.track_uuid, name, time_ns, -1, len(stack), told, list(event.flow_ids))
                stack.append(begun)
                self.slices.append(begun)
        assert not any(stacks.values()), "slices that never end"

    def path(self, track: int) -> list[str]:
        descriptor = self.tracks[track]
        above = self.path(descriptor.parent_uuid) if descriptor.parent_uuid else []
        return [*above, descriptor.name]


@pytest.mark.parametrize("batch", [100, 50_000])
def test_a_perfetto_trace_has_operations_stages_flows_and_depth(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(perfetto, "BATCH", batch)
    until_ns = 20_000_000
    result = written(case, "perfetto", tmp_path / "t", until_ns=until_ns)
    read = Reader(tmp_path / "t")
    rows = {
        row["op_id"]: row for row in table(case, f"SELECT * FROM recorded_ops WHERE start_ns < {until_ns}")
    }
    operations = [one for one in read.slices if one.depth == 0]
    assert result.rows == len(operations) == len(rows) > 700
    for one in operations:
        row = rows[one.told["op_id"]]
        assert (one.start_ns, one.end_ns) == (row["start_ns"], row["start_ns"] + row["latency_ns"])
        for name in ("offset_bytes", "size_bytes", "queue_depth", "device", "tid"):
            assert one.told.get(name) == row[name], name
        assert read.path(one.track)[0].startswith(row["layer"])
    # Nothing overlaps on a lane, and stages fill their operation exactly.
    by_track: dict[int, list[Slice]] = defaultdict(list)
    for one in operations:
        by_track[one.track].append(one)
    for lane in by_track.values():
        assert all(a.end_ns < b.start_ns for a, b in itertools.pairwise(lane))
    spent = Counter(dict.fromkeys(STAGES, 0))
    for one in read.slices:
        spent[one.name] += one.end_ns - one.start_ns if one.depth == 1 else 0
    for stage in STAGES:
        assert spent[stage] == sum(row[f"{stage}_ns"] or 0 for row in rows.values()), stage
    # A flow has both ends of a link.
    ends = defaultdict(set)
    for one in operations:
        for flow in one.flows:
            ends[flow].add(one.told["op_id"])
    links = {
        frozenset((row["parent_id"], row["child_id"])) for row in table(case, "SELECT * FROM recorded_links")
    }
    assert {frozenset(pair) for pair in ends.values()} == {pair for pair in links if pair <= set(rows)}
    # Depth is what is in flight, and comes to nothing in the end.
    assert len(read.counters) == len({tuple(read.path(one.track)[:2]) for one in operations})
    for track, values in read.counters.items():
        above = read.tracks[track].parent_uuid
        mine = [one for one in operations if read.tracks[one.track].parent_uuid == above]
        assert values[-1][1] == 0
        for time_ns, depth in values[:: max(1, len(values) // 50)]:
            assert depth == sum(one.start_ns <= time_ns < one.end_ns for one in mine)


def test_a_perfetto_trace_leaves_out_what_was_not_observed(odd: Path, tmp_path: Path) -> None:
    written(odd, "perfetto", tmp_path / "t")
    read = Reader(tmp_path / "t")
    operations = {one.told["op_id"] - BLOCK: one for one in read.slices if one.depth == 0}
    # Times are counted from the first begin: it was before the recording.
    assert operations[0].start_ns == 0 and operations[1].start_ns == 5_000
    assert "offset_bytes" not in operations[3].told and "comm" not in operations[2].told
    assert operations[0].told["comm"] == 'a,"b"\nc' and operations[5].told["error"] == 5
    assert operations[2].told["offset_bytes"] == 1 << 45
    assert operations[4].name == "read 4 KiB, unfinished" and operations[3].name == "flush"
    assert read.path(operations[2].track) == ["block: requests to devices", "vdb", "operations"]
    clocks = {clock.clock_id: clock.timestamp for clock in read.trace.packet[0].clock_snapshot.clocks}
    with Case(odd) as opened:
        assert clocks == {6: 5_000, 1: hdr_log.start_unix_ns(opened)}


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20))
def test_numbers_of_equal_width_are_varints(values: list[int]) -> None:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    event = protobuf.numbers(30, np.array(values, dtype=np.int64))
    packets = protobuf.message(1, protobuf.message(11, [*event, protobuf.text(23, "ä")]))
    trace = Trace()
    trace.ParseFromString(protobuf.rows(packets, len(values)))
    assert [packet.track_event.counter_value for packet in trace.packet] == values
    assert {packet.track_event.name for packet in trace.packet} == {"ä"}


# -- fio -------------------------------------------------------------------------------------------


def test_fio_log_has_what_ended_well_in_order_of_its_end(odd: Path, tmp_path: Path) -> None:
    result = written(odd, "fio-log", tmp_path / "a")
    assert (tmp_path / "a").read_text() == (
        "0, 6000, 0, 4096, 0, 0\n0, 1500, 1, 8192, 4096, 0\n0, 2049, 2, 1048576, 35184372088832, 0\n"
    )
    assert result == Written(
        3,
        {
            "neither read, write nor discard": 2,
            "unfinished, so without a latency": 1,
            "failed": 1,
        },
    )


def test_fio_log_is_the_case(case: Path, tmp_path: Path) -> None:
    result = written(case, "fio-log", tmp_path / "a", layers=("block",))
    lines = [tuple(map(int, line.split(", "))) for line in (tmp_path / "a").read_text().splitlines()]
    rows = table(case, "SELECT *, start_ns + latency_ns AS end_ns FROM block_ops ORDER BY end_ns, op_id")
    assert result.rows == len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        direction = {"read": 0, "write": 1}[str(row["op"])]
        assert line == (
            int(row["end_ns"]) // 10**6,
            row["latency_ns"],
            direction,
            row["size_bytes"],
            row["offset_bytes"],
            0,
        )


def test_fio_iolog_names_files_that_fio_can_read(odd: Path, tmp_path: Path) -> None:
    result = written(odd, "fio-iolog", tmp_path / "a")
    assert result == Written(6, {"no action of fio": 1})
    assert (tmp_path / "a").read_text().splitlines() == [
        "fio version 3 iolog",
        "0 /dev/vda add",
        "0 /dev/vdb add",
        "0 /dev/vda open",
        "0 /dev/vdb open",
        "0 /dev/vda read 0 4096",
        "5 /dev/vda write 4096 8192",
        "6 /dev/vdb trim 35184372088832 1048576",
        "2005 /dev/vda sync 0 0",
        "3005 /dev/vda read 8192 4096",
        "4005 /dev/vda read 12288 512",
        "4005 /dev/vda close",
        "4005 /dev/vdb close",
    ]


def test_fio_iolog_leaves_out_paths_that_fio_would_cut(tmp_path: Path) -> None:
    names = ["/a/good", "/a/b c", "/" + "x" * 256, "inode:7", None]
    count = len(names)
    case = write_case(
        tmp_path / "a.case",
        app={
            "op_id": APP + np.arange(count),
            "start_ns": np.arange(count) * 1000,
            "latency_ns": np.full(count, 10),
            "op": ["read"] * count,
            "file": names,
            "offset_bytes": np.zeros(count, np.int64),
            "size_bytes": np.full(count, 512),
        },
    )
    result = written(case, "fio-iolog", tmp_path / "a")
    assert result.rows == 1 and sorted(result.left_out.values()) == [2, 2]


def test_fio_iolog_opens_the_device_that_an_import_was_told(tmp_path: Path) -> None:
    case = write_case(
        tmp_path / "a.case",
        app={
            "op_id": APP + np.arange(3),
            "start_ns": np.arange(3) * 1000,
            "latency_ns": np.full(3, 10),
            "op": ["read"] * 3,
            "device": ["/dev/nvme0n1", "vda", "/dev/nvme0n1"],
            "file": [None, None, "/a/file"],
            "offset_bytes": np.zeros(3, np.int64),
            "size_bytes": np.full(3, 512),
        },
    )
    result = written(case, "fio-iolog", tmp_path / "a")
    # A device without a path is where a file lies: places in a file are none on the device.
    assert result == Written(2, {"no path": 1})
    assert [line for line in (tmp_path / "a").read_text().splitlines() if " read " in line] == [
        "0 /dev/nvme0n1 read 0 512",
        "2 /a/file read 0 512",
    ]


# -- HdrHistogram ----------------------------------------------------------------------------------


def histograms(file: Path) -> list[Any]:
    reader = HistogramLogReader(str(file), HdrHistogram(1, 1 << 42, 3))
    found = []
    while (one := reader.get_next_interval_histogram()) is not None:
        found.append(one)
    reader.close()
    return found


def test_an_hdr_log_has_every_latency_in_its_interval(case: Path, tmp_path: Path) -> None:
    written(case, "hdr", tmp_path / "a", layers=("block",), interval_ns=200_000_000)
    found = {
        (one.get_tag(), round(one.get_start_time_stamp() / 200)): one for one in histograms(tmp_path / "a")
    }
    rows = table(case, "SELECT op, (start_ns + latency_ns) // 200000000 AS part, latency_ns FROM block_ops")
    expected: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        expected[str(row["op"]), int(row["part"] or 0)].append(int(row["latency_ns"] or 0))
    with Case(case) as opened:
        base = hdr_log.start_unix_ns(opened) // 200_000_000
    assert {(tag, part - base if part >= base else part) for tag, part in found} == set(expected)
    for (tag, part), histogram in found.items():
        values = sorted(expected[tag, part - base if part >= base else part])
        assert histogram.get_total_count() == len(values)
        for percent in (50, 90, 99, 100):
            # Its rank of a quantile is rounded.
            exact = values[max(1, int(len(values) * percent / 100 + 0.5)) - 1]
            assert histogram.get_value_at_percentile(percent) == pytest.approx(exact, rel=1.1e-3)


@given(st.dictionaries(st.integers(0, (1 << 43) - 1), st.integers(1, 1 << 40), min_size=1, max_size=30))
def test_histograms_are_what_the_package_reads(values: dict[int, int]) -> None:
    """Values over the whole range, counts of any size. Bins as its own code numbers them."""
    whole = HdrHistogram(1, 1 << 43, 3)
    for value, count in values.items():
        whole.record_value(value, count)
    bins: dict[int, int] = Counter()
    for index, count in zip(_bins(list(values)), values.values(), strict=True):
        bins[index] += count
    text = base64.b64encode(hdr_log.encode(sorted(bins.items()), 1 << 43))
    read = HdrHistogram.decode(text)
    assert read.get_total_count() == whole.get_total_count()
    assert read.get_max_value() == whole.get_max_value() and read.get_min_value() == whole.get_min_value()
    for percent in (1, 25, 50, 75, 99, 99.99):
        assert read.get_value_at_percentile(percent) == whole.get_value_at_percentile(percent)


def _bins(latencies_ns: list[int]) -> list[int]:
    listed = ", ".join(f"({number}, CAST({value} AS BIGINT))" for number, value in enumerate(latencies_ns))
    sql = f"SELECT {hdr_log._INDEX} FROM (VALUES {listed}) AS t(number, latency_ns) ORDER BY number"
    return [int(row[0]) for row in duckdb.execute(sql).fetchall()]


def test_a_histogram_is_the_bytes_of_the_format() -> None:
    packed = hdr_log.encode([(0, 1), (3, 200)], 5)
    cookie, length = struct.unpack_from(">ii", packed)
    assert cookie == 0x1C849314 and length == len(packed) - 8
    plain = zlib.decompress(packed[8:])
    assert struct.unpack_from(">iiiiqqd", plain) == (0x1C849313, 4, 0, 3, 1, 5, 1.0)
    # 1, two empty bins, 200: zigzag of 1, -2, 200.
    assert plain[40:] == bytes([2, 3, 0x90, 0x03])


# -- tables ----------------------------------------------------------------------------------------


def test_csv_is_the_table(odd: Path, tmp_path: Path) -> None:
    assert written(odd, "csv", tmp_path / "a").rows == 7
    text = (tmp_path / "a").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["comm"] for row in rows] == ['a,"b"\nc', "é", "", "x y", "", "-", "-"]
    assert rows[0]["start_ns"] == "-5000" and rows[3]["offset_bytes"] == "" and rows[4]["open"] == "true"
    assert list(rows[0])[:3] == ["layer", "op_id", "start_ns"]


def test_arrow_is_the_table(case: Path, tmp_path: Path) -> None:
    written(case, "arrow", tmp_path / "a")
    read = pa.ipc.open_file(tmp_path / "a").read_all()
    with whodisk.open(case) as opened:
        assert read.equals(opened.ops().select(read.column_names))
    written(case, "arrow", tmp_path / "links", table="links")
    assert pa.ipc.open_file(tmp_path / "links").read_all().num_rows > 1000


# -- what holds for all of them --------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_every_format_declares_its_losses_and_keeps_its_file_private(
    form: Any, odd: Path, tmp_path: Path
) -> None:
    assert form.not_carried and form.about
    path = tmp_path / "out"
    (odd / "case.json").chmod(0o640)
    written(odd, form.name, path, layers=("block",))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = path.read_bytes()
    with pytest.raises(WhodiskError, match=r"found one.*--overwrite"):
        written(odd, form.name, path, layers=("block",))
    assert path.read_bytes() == before
    with pytest.raises(WhodiskError, match=r"found none of the ops"):
        written(odd, form.name, tmp_path / "none", layers=("block",), devices=("sdx",))
    with pytest.raises(WhodiskError, match="layer app: expected one of those observed, which are: block"):
        written(odd, form.name, tmp_path / "none", layers=("app",))
    with pytest.raises(FileNotFoundError, match="nowhere/x"):
        written(odd, form.name, tmp_path / "nowhere/x", layers=("block",))
    assert {file.name for file in tmp_path.iterdir()} == {"odd.case", "out"}


# DuckDB locks what it writes, and there is one such device.
@pytest.mark.xdist_group("/dev/full")
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_full_disk_is_told_and_leaves_nothing(
    form: Any, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Case(odd) as opened, pytest.raises(OSError, match=r"No space left|Errno 28"):
        form.write(opened, Wanted(layers=("block",)), Path("/dev/full"), lambda _share: None)


def test_what_is_asked_wrongly_is_told(odd: Path, tmp_path: Path) -> None:
    with pytest.raises(WhodiskError, match="did you mean perfetto"):
        format_named("prefetto")
    with pytest.raises(WhodiskError, match="--table: expected only with a format that has it"):
        written(odd, "fio-log", tmp_path / "a", table="links")
    with pytest.raises(WhodiskError, match="--table: expected one of ops, links"):
        written(odd, "csv", tmp_path / "a", table="lnks")
    with pytest.raises(WhodiskError, match="found a choice of operations"):
        written(odd, "csv", tmp_path / "a", table="links", devices=("vda",))
    with pytest.raises(WhodiskError, match="--interval: expected 1ms or more"):
        written(odd, "hdr", tmp_path / "a", interval_ns=10)


def test_a_sampled_case_is_exported_as_it_was_recorded(tmp_path: Path) -> None:
    case = write_case(
        tmp_path / "a.case",
        block={
            "op_id": BLOCK + np.arange(3),
            "start_ns": [0, 100, 200],
            "latency_ns": [10, 20, 30],
            "op": ["read"] * 3,
            "device": ["vda"] * 3,
            "weight": [1.0, 8.0, 2.0],
        },
        meta={"sampling": {"cpu_budget": 0.01, "levels": []}},
    )
    assert written(case, "csv", tmp_path / "csv").rows == 3
    written(case, "perfetto", tmp_path / "trace")
    told = [one.told for one in Reader(tmp_path / "trace").slices if one.depth == 0]
    assert [one.get("weight") for one in told] == [None, 8, 2]
    written(case, "hdr", tmp_path / "hdr")
    assert [one.get_total_count() for one in histograms(tmp_path / "hdr")] == [11]


# -- the Python interface --------------------------------------------------------------------------


def test_open_gives_arrow_pandas_polars_sql_and_the_verdict(case: Path) -> None:
    import polars

    with whodisk.open(case) as opened:
        assert opened.layers == ("app", "block") and "app, block" in repr(opened)
        block = opened.ops("block")
        assert isinstance(block, pa.Table) and block.num_rows == opened.meta["layers"]["block"]["rows"]
        slow = opened.ops("app", where="latency_ns > 1000000", columns="op_id, latency_ns, start_ns")
        frame = slow.to_pandas()
        assert len(frame) == slow.num_rows and (frame["latency_ns"] > 1_000_000).all()
        assert len(polars.from_arrow(block)) == block.num_rows
        counted = opened.sql("SELECT layer, count(*) AS n FROM ops GROUP BY 1 ORDER BY 1").to_pylist()
        assert counted[1] == {"layer": "block", "n": block.num_rows}
        assert sum(batch.num_rows for batch in opened.batches("SELECT * FROM links")) > 1000
        assert opened.verdict().status == json.loads(opened.verdict().to_json())["status"]
        assert "links" in opened.views()


def test_open_refuses_what_is_not_sealed(odd: Path) -> None:
    meta = json.loads((odd / "case.json").read_text())
    (odd / "case.json").write_text(json.dumps(meta | {"state": "recorded"}))
    with pytest.raises(NotSealedError, match="whodisk seal"):
        whodisk.open(odd)


def test_the_documents_name_every_format() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/export.md").read_text()
    for form in FORMATS:
        assert f"## {form.name}" in page, form.name


def test_a_file_that_another_program_has_locked_is_told_as_that(case: Path, tmp_path: Path) -> None:
    """As DuckDB locks a database that it has open. The tables of the case are whole, and are not called damaged."""
    file = tmp_path / "t.csv"
    file.touch()
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with Case(case) as opened, pytest.raises(WhodiskError, match=f"PID {holder.pid}") as raised:
            opened.copy("SELECT 1", file, "FORMAT CSV", lambda _share: None)
        assert holder.stdin is not None
        holder.stdin.close()
    assert "locked" in str(raised.value) and "damaged" not in str(raised.value)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_files_are_replaced(tmp_path: Path, kind: str) -> None:
    """`-o /dev/null --overwrite`, as root."""
    case, target = tmp_path / "case", tmp_path / "there"
    case.mkdir()
    (case / "case.json").write_text("{}")
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "link":
        target.symlink_to(tmp_path / "elsewhere")
    else:
        target.mkdir()
    before = target.lstat()
    with pytest.raises(WhodiskError, match="which stays as it is"), draft(target, case, overwrite=True):
        pass
    assert (target.lstat().st_ino, target.lstat().st_mode) == (before.st_ino, before.st_mode)
