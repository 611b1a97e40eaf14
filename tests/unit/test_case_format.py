"""The golden case of the Rust side, read by DuckDB and by Arrow: integers, NULLs and strings come through."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import duckdb
import pytest

from whodisk.reading.views import Case
from whodisk.verdict.solve import solve as verdict_of

GOLDEN = Path(__file__).resolve().parents[2] / "crates/case/tests/golden"
#: The same as the first version of the format wrote it.
GOLDEN_1 = GOLDEN.with_name("golden_1")
OPERATIONS = 23


def rows(sql: str, golden: Path = GOLDEN) -> list[tuple[object, ...]]:
    ops = f"read_parquet('{golden}/ops/*/*.parquet', hive_partitioning = true)"
    return duckdb.connect().execute(sql.replace("OPS", ops).replace("GOLDEN", str(golden))).fetchall()


def test_a_case_of_version_1_reads_as_it_did() -> None:
    """All but what version 2 added is in it, value by value, and it opens as any case does."""
    columns = "layer, op_id, start_ns, latency_ns, op, offset_bytes, device_ns, queue_ns"
    assert rows(f"SELECT {columns} FROM OPS ORDER BY ALL", GOLDEN_1) == rows(
        f"SELECT {columns} FROM OPS ORDER BY ALL"
    )
    for golden in (GOLDEN_1, GOLDEN):
        with Case(golden) as case:
            assert case.rows("SELECT count(*) AS n FROM ops") == [{"n": 2 * OPERATIONS}]


@pytest.mark.parametrize(
    ("start", "lacking", "began"),
    [
        ("2018-06-13T22:11:07Z", [], "2018-06-13 22:11:07 UTC"),
        ("2018-06-13T22:11:07Z", ["single operations", "the time zone"], "2018-06-13 22:11:07 by its log"),
        ("1970-01-01T00:00:00Z", [], ""),
        ("", [], ""),
        (None, [], ""),
    ],
)
def test_when_a_case_began_is_said_as_far_as_a_clock_says(
    start: str | None, lacking: list[str], began: str, tmp_path: Path
) -> None:
    shutil.copytree(GOLDEN, tmp_path / "x.case")
    file = tmp_path / "x.case" / "case.json"
    meta = json.loads(file.read_text())
    meta |= {"start_utc": start, "not_carried": [{"what": what, "because": "of a test"} for what in lacking]}
    file.write_text(json.dumps(meta))
    with Case(tmp_path / "x.case") as case:
        assert case.began == began
    assert verdict_of(tmp_path / "x.case").began == began


def test_a_case_may_lie_where_a_comma_is(tmp_path: Path) -> None:
    copied = shutil.copytree(GOLDEN, tmp_path / "it's 8.25MiB, warm")
    with Case(copied) as case:
        assert case.rows("SELECT count(*) AS n FROM ops") == [{"n": 2 * OPERATIONS}]


def test_counts_and_sums() -> None:
    found = rows(
        "SELECT layer, count(*), sum(latency_ns), max(op_id) >> 56 FROM OPS GROUP BY layer ORDER BY layer"
    )
    extra = sum(range(OPERATIONS))
    assert found == [
        ("app", OPERATIONS, OPERATIONS * 6_000 + extra, 1),
        ("block", OPERATIONS, OPERATIONS * 4_500, 3),
    ]


def test_stages_sum_to_the_latency_on_every_row() -> None:
    stages = ["app", "fs", "throttle", "queue", "device", "interrupt", "reap", "runqueue", "unknown"]
    total = " + ".join(f"coalesce({stage}_ns, 0)" for stage in stages)
    assert rows(f"SELECT count(*) FROM OPS WHERE {total} <> latency_ns") == [(0,)]


def test_null_is_not_zero() -> None:
    sql = "SELECT layer, count(vector), count(runqueue_ns), count(offset_bytes) FROM OPS GROUP BY layer ORDER BY layer"
    with_place = sum(1 for n in range(OPERATIONS) if n % 7 not in (2, 4))  # flush and sync have none
    assert rows(sql) == [("app", 0, 0, with_place), ("block", OPERATIONS, 0, with_place)]


def test_strings_and_enums() -> None:
    assert rows("SELECT DISTINCT file FROM OPS WHERE layer = 'app'") == [("/data/<b>.dat",)]
    kinds = rows("SELECT list(DISTINCT op ORDER BY op) FROM OPS")
    assert kinds == [(["copy", "discard", "flush", "other", "read", "sync", "write"],)]
    assert rows("SELECT probe, lost, reason FROM 'GOLDEN/losses/*.parquet'") == [
        ("block", 412, "ring_full"),
        ("block", None, "ring_full"),
    ]
    assert rows("SELECT comm, state, meant_busy FROM 'GOLDEN/gaps/*.parquet'") == [
        ("worker-0", "stopped", True),
        (None, "unobserved", False),
    ]
    assert rows("SELECT subject, detail FROM 'GOLDEN/events/*.parquet'") == [("vda", "EIO at byte 20480")]


def test_every_link_joins_its_operations() -> None:
    sql = """SELECT count(*) FROM 'GOLDEN/links/*.parquet' l
             JOIN OPS p ON p.op_id = l.parent_id JOIN OPS c ON c.op_id = l.child_id"""
    assert rows(sql) == [(OPERATIONS,)]


def test_raw_streams_are_ordinary_arrow_streams() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow reads raw Arrow streams")
    stream = pa.ipc.open_stream(GOLDEN / "raw/app/worker-000.arrows")
    assert stream.schema.metadata == {b"comm": b"worker-0", b"pid": b"100"}
    table = stream.read_all()
    assert table.num_rows == OPERATIONS
    assert table["reap_ns"].to_pylist()[2] == 7_000_000_000 + 2 * 10_000_000 + 6_002
    block = pa.ipc.open_stream(GOLDEN / "raw/block/block.arrows").read_all()
    assert block["comm"].to_pylist()[0] == b"worker-0" + bytes(8)


def test_what_does_not_fit_into_memory_is_private_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries on long cases write what memory does not hold: not into the folder that the user is in, and nobody else reads it."""
    here, spilled = tmp_path / "here", tmp_path / "spilled"
    here.mkdir()
    spilled.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(spilled))
    with Case(GOLDEN, memory_limit="100MiB") as case:
        (place,) = spilled.iterdir()
        assert place.stat().st_mode & 0o077 == 0
        case.rows(
            "SELECT count(*) AS n FROM (SELECT DISTINCT number, hash(number) AS h FROM range(3000000) AS r(number))"
        )
        (row,) = case.rows("SELECT current_setting('temp_directory') AS place")
        assert row["place"] == str(place)
    assert not list(spilled.iterdir())
    assert not list(here.iterdir())
