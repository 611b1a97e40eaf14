"""uncached_tail, masked_tier, prefetch and steady_state on cases with known answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ground_truth import reads
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.detectors import prefetch
from whodisk.evidence.prefetching import accounts
from whodisk.reading.views import Case
from whodisk.report import falls, tiers
from whodisk.statistics import steadiness
from whodisk.verdict.solve import solve


@pytest.mark.parametrize("seed", range(3))
def test_the_tail_that_outruns_the_prefetcher_is_named(tmp_path: Path, seed: int) -> None:
    verdict = solve(reads.outrun(seed, tmp_path / "case"))
    first = verdict.findings[0]
    assert verdict.status == "slow"
    assert (first.detector, first.culprit.kind) == ("uncached_tail", "request_shape")
    assert first.culprit.name == "read of 8650752 bytes"
    assert "256 KiB behind its first 8 MiB" in first.claim
    assert "fetch 8.25 MiB or more ahead" in first.remedy and "at or below 8 MiB" in first.remedy
    assert first.evidence[0].rows[0]["at_bytes"] == 8 << 20


def test_reads_that_nothing_was_fetched_for_outrun_no_prefetcher(tmp_path: Path) -> None:
    """Recorded of a file server that reads 8 MiB at a time: each read waits for its begin, for some places in its middle, and for its end."""
    rng = np.random.default_rng(5)
    half = 512 << 10
    pieces = []
    for _ in range(200):
        waited = {0, 15, *rng.choice(np.arange(1, 15), 3, replace=False).tolist()}
        pieces.append(
            [
                (at * half, half, "device", int(rng.uniform(2e5, 5e5)))
                if at in waited
                else (at * half, half, "ram", 0)
                for at in range(16)
            ]
        )
    verdict = solve(
        reads.build(tmp_path / "cold", read_bytes=8 << 20, pieces=pieces, seed=1, rotational=False)
    )
    assert not [f for f in verdict.findings if f.detector == "uncached_tail"]
    # The same, of which only begin and end are waited for: the kernel's requests end where the tail begins.
    only = [
        [
            (at, size, "device" if at in (0, 15 * half) else "ram", 300_000 if at in (0, 15 * half) else 0)
            for at, size in ((0, half), (half, 14 * half), (15 * half, half))
        ]
        for _ in range(200)
    ]
    verdict = solve(reads.build(tmp_path / "tail", read_bytes=8 << 20, pieces=only, seed=1, rotational=False))
    assert [f for f in verdict.findings if f.detector == "uncached_tail"]


@pytest.mark.parametrize(("observer", "accused"), [("import", True), ("record", False)])
def test_a_page_that_a_recorder_saw_a_wait_at_is_no_tail_without_requests(
    observer: str, accused: bool, tmp_path: Path
) -> None:
    """Reads of 16 KiB through sshfs come whole, and their thread is seen to wait at their last page: "reads of 16 KiB are to blame"."""
    pieces = [[(0, 12 << 10, "ram", 0), (12 << 10, 4 << 10, "device", 400_000)] for _ in range(400)]
    case = reads.build(
        tmp_path / "case", read_bytes=16 << 10, pieces=pieces, seed=1, scattered=True, rotational=False
    )
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    (case / "case.json").write_text(json.dumps(meta | {"observer": observer}), encoding="utf-8")
    found = [f for f in solve(case).findings if f.detector == "uncached_tail"]
    assert bool(found) is accused


@pytest.mark.parametrize(
    ("read_ahead_kb", "max_hw_sectors_kb", "server", "client_kib", "expected"),
    [
        # A program fetches ahead, and the kernel lets it.
        (16384, 1280, None, None, "fetch 8.25 MiB or more ahead with each request, not 8 MiB; keep requests at or below 8 MiB."),
        # The kernel would cut what has to be fetched, and the device takes no larger requests.
        (128, 1280, None, None, "with echo 8448 > /sys/block/sda/queue/read_ahead_kb (now 128), since the kernel cuts"),
        # The kernel's window ends there: either setting, or one where the device takes no such request.
        (8192, 16384, None, None, "read_ahead_kb (now 8192) or max_sectors_kb there to 8448 (now 1280); keep"),
        (8192, 1280, None, None, "Either of: echo 8448 > /sys/block/sda/queue/read_ahead_kb (now 8192); keep"),
        # A server reads as much as its client asks for, or what it likes.
        (8192, 1280, "host", 8448, "(and as much in what the server itself fetches ahead, if it does); let the server read at most 8 MiB at a time (its I/O size); ask it for at most 8 MiB at a time."),
        (8192, 1280, "host", 33792, "; let the server read at most 8 MiB at a time (its I/O size)."),
    ],
)  # fmt: skip
def test_each_setting_that_would_cure_a_tail_is_named_and_no_other(
    tmp_path: Path,
    read_ahead_kb: int,
    max_hw_sectors_kb: int,
    server: str | None,
    client_kib: int | None,
    expected: str,
) -> None:
    case = reads.outrun(1, tmp_path / "case", read_ahead_kb, max_hw_sectors_kb, server, client_kib)
    remedy = solve(case).findings[0].remedy
    assert expected in remedy, remedy


def test_the_report_says_per_operation_which_tier_served_it_and_how_good_prefetching_was(
    tmp_path: Path,
) -> None:
    case = reads.outrun(1, tmp_path / "case", server="host", client_kib=8448)
    account = {"file": "/data/a.vhd", "start_ns": 0, "duration_ns": 10**9, "issued_bytes": 1000}
    account |= {"used_bytes": 900, "wasted_bytes": 50, "late_bytes": 90, "missed_bytes": 100}
    pq.write_table(pa.Table.from_pylist([account]), case / "prefetch/part-0.parquet")
    with Case(case) as opened:
        told = tiers.of_case(opened)
        [first, *others] = opened.rows("SELECT parent_id, child_id FROM links ORDER BY parent_id")
        below = falls.requests_below(opened, [int(first["parent_id"] or 0)])
    assert told is not None
    cells = re.sub(r"(<[^>]*>)+", "|", told)
    for layer in ("app: copy", "syscall: read"):
        assert f"|{layer}|200|ram|8 MiB|97 %|0|0 ns|" in cells
        assert f"|{layer}|200|hdd|256 KiB|3 %|200|" in cells
    assert "|/data/a.vhd|1,000 B|90 %|90 %|10 %|5 %|" in cells
    assert len(others) == 199
    assert [(row["op_id"], row["depth"]) for rows in below.values() for row in rows] == [
        (first["child_id"], 0)
    ]
    assert falls.lower({"layer": "syscall", "comm": "smbd", "device": "sda"}) == "call of smbd"


@pytest.mark.parametrize("seed", range(3))
def test_a_readahead_tail_names_both_settings(tmp_path: Path, seed: int) -> None:
    first = solve(reads.linux_tail(seed, tmp_path / "case")).findings[0]
    assert first.detector == "uncached_tail"
    assert first.culprit.because_of == "readahead of 128 KiB"
    assert "read_ahead_kb" in first.remedy and "max_sectors_kb" in first.remedy
    assert first.effect.low is not None and first.effect.high is not None
    assert first.effect.low <= first.effect.value <= first.effect.high


def test_a_tail_whose_waits_begin_at_two_places_is_what_all_of_them_hold(tmp_path: Path) -> None:
    first = solve(reads.moving_begin(1, tmp_path / "case")).findings[0]
    assert (first.detector, first.culprit.kind) == ("uncached_tail", "request_shape")
    assert "100 % of 300 reads" in first.claim and "the 64 KiB behind its first 512 KiB" in first.claim


@pytest.mark.parametrize(
    "build", [reads.one_request, reads.scattered_misses, reads.cheap_tails, reads.tail_in_flight]
)
def test_what_only_looks_like_a_tail_is_not_accused(
    tmp_path: Path, build: Callable[[int, Path], Path]
) -> None:
    verdict = solve(build(1, tmp_path / "case"))
    assert not [f for f in verdict.findings if f.detector == "uncached_tail"], verdict.findings


def test_a_run_that_fits_into_the_ssd_tier_cannot_show_disks(tmp_path: Path) -> None:
    verdict = solve(reads.cheap_tails(1, tmp_path / "case"))
    caveat = next(c for c in verdict.cannot_exclude if "sda would behave" in c.what)
    assert "100 % of misses were served by SSD: this run cannot show disk behaviour" in caveat.because


@pytest.mark.parametrize(("ahead_bytes", "masked"), [(0, True), (4 << 20, True), (190 << 20, False)])
def test_what_was_fetched_ahead_in_the_run_did_come_from_the_device(
    tmp_path: Path, ahead_bytes: int, masked: bool
) -> None:
    op_id, start_ns = APP_ID_BASE + np.arange(200), np.arange(200) * 10**6
    app = {"op_id": op_id, "start_ns": start_ns, "latency_ns": [9000] * 200, "fs_ns": [9000] * 200}
    app |= {
        "file": ["/data/a.vhd"] * 200,
        "size_bytes": [1 << 20] * 200,
        "offset_bytes": np.arange(200) << 20,
    }
    cache = [
        {"op_id": int(each), "tier": "ram", "offset_bytes": n << 20, "size_bytes": 1 << 20, "wait_ns": 0}
        for n, each in enumerate(op_id)
    ]
    account = {"file": "/data/a.vhd", "start_ns": 0, "duration_ns": 10**9, "issued_bytes": ahead_bytes}
    account |= {"used_bytes": ahead_bytes, "wasted_bytes": 0, "late_bytes": 0, "missed_bytes": 0}
    # What was fetched ahead of another file says nothing of this one.
    other = account | {"file": "/data/b.vhd", "used_bytes": 200 << 20}
    tables = {"cache": cache, "prefetch": [account, other]}
    verdict = solve(write_case(tmp_path / "case", app=app, tables=tables))
    told = [c.because for c in verdict.cannot_exclude if "cannot show the behaviour of a device" in c.because]
    assert bool(told) == masked, told


@pytest.mark.parametrize("tail", [False, True])
def test_a_tail_of_the_device_is_no_consequence_of_a_cache_that_is_too_small(
    tmp_path: Path, tail: bool
) -> None:
    rng = np.random.default_rng(7)
    count, pieces = 12_000, 1000
    wait = rng.normal(200_000, 20_000, count).astype(np.int64)
    if tail:
        wait[rng.choice(count, count // 100, replace=False)] += 15_000_000
    latency = wait + 20_000
    op_id, block_id = APP_ID_BASE + np.arange(count), BLOCK_ID_BASE + np.arange(count)
    start_ns = np.concatenate([[0], np.cumsum(latency + 50_000)[:-1]])
    offset_bytes = (np.arange(count) % pieces) << 14
    same = {"size_bytes": [1 << 14] * count, "device": ["nvme0n1"] * count, "device_ns": wait, "flags": 0}
    app = {"op_id": op_id, "start_ns": start_ns, "latency_ns": latency, "fs_ns": [20_000] * count, **same}
    app |= {"offset_bytes": offset_bytes, "file": ["/data/a.db"] * count, "tid": [101] * count}
    block = {"op_id": block_id, "start_ns": start_ns + 10_000, "latency_ns": wait, **same}
    cache = [
        {"op_id": int(each), "tier": "device", "file": "/data/a.db", "offset_bytes": int(offset), "size_bytes": 1 << 14, "wait_ns": int(ns)}
        for each, offset, ns in zip(op_id, offset_bytes, wait, strict=True)
    ]  # fmt: skip
    links = {"parent_id": op_id, "child_id": block_id}
    verdict = solve(write_case(tmp_path / "case", app=app, block=block, links=links, tables={"cache": cache}))
    accused = {(f.culprit.kind, f.culprit.name) for f in verdict.findings}
    assert ("cache_tier", "ram") in accused
    assert (("stage", "device") in accused) == tail, verdict.findings
    assert not any("Consequence" in f.claim for f in verdict.findings if f.culprit.kind == "cache_tier")


def test_prefetching_is_accounted_for(tmp_path: Path) -> None:
    case = reads.outrun(1, tmp_path / "case")
    app = {
        "op_id": APP_ID_BASE + np.arange(200),
        "start_ns": np.arange(200) * 1000,
        "latency_ns": [900] * 200,
    }
    prefetch = {
        "file": "/data/a.vhd",
        "start_ns": 0,
        "duration_ns": 10**9,
        "issued_bytes": 200 << 23,
        "used_bytes": 200 << 23,
        "wasted_bytes": 0,
        "late_bytes": 0,
        "missed_bytes": 200 << 18,
    }
    case = write_case(tmp_path / "other", app={**app, "fs_ns": [900] * 200}, tables={"prefetch": [prefetch]})
    verdict = solve(case)
    line = next(line for line in verdict.minor if line.startswith("prefetching for"))
    assert "accuracy 100 %" in line and "coverage 97 %" in line


def test_only_what_was_fetched_in_the_measured_phase_is_accounted_for(tmp_path: Path) -> None:
    second = 10**9

    def fetched(start_ns: int, end_ns: int, issued: int, used: int) -> dict[str, object]:
        row = {"file": "/data/a.vhd", "start_ns": start_ns, "duration_ns": end_ns - start_ns}
        return row | {
            "issued_bytes": issued,
            "used_bytes": used,
            "wasted_bytes": 0,
            "late_bytes": 0,
            "missed_bytes": 0,
        }

    rows = [
        # The file was laid out, copied, and compared; the phase began and ended within a second.
        fetched(0, second, 64, 64),
        fetched(second, 1_400_000_000, 4, 0),
        fetched(1_400_000_000, 2 * second, 10, 9),
        fetched(2 * second, 2_300_000_000, 10, 8),
        fetched(2_300_000_000, 3 * second, 32, 0),
        # Of a recorder that did not cut them: mostly before, mostly within.
        fetched(600_000_000, 1_600_000_000, 128, 0),
        fetched(1_500_000_000, 2_500_000_000, 20, 20),
    ]
    app = {"op_id": APP_ID_BASE + np.arange(9), "start_ns": 1_500_000_000, "latency_ns": [900] * 9}
    phases = [{"name": "measure", "start_ns": 1_400_000_000, "end_ns": 2_300_000_000}]
    case = write_case(
        tmp_path / "case",
        app={**app, "fs_ns": [900] * 9},
        tables={"prefetch": rows},
        meta={"phases": phases, "duration_ns": 4 * second},
    )
    with Case(case) as opened:
        [account] = accounts(opened)
    assert (account.issued, account.used) == (40, 37)


@given(st.integers(10, 60), st.floats(0.0, 0.05), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_a_constant_rate_is_steady_and_a_falling_one_is_not(seconds: int, noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    constant = 1000 * (1 + noise * rng.uniform(-1, 1, seconds))
    assert steadiness.judge(constant).within(0.2, 0.1)
    falling = constant * np.linspace(1.0, 0.5, seconds)
    assert not steadiness.judge(falling).within(0.2, 0.1)


def test_warm_up_and_idle_seconds_are_told(tmp_path: Path) -> None:
    rates = [2000] * 20 + [0] * 10 + [1000] * 30
    start = np.concatenate([np.arange(r) * (10**9 // r) + s * 10**9 for s, r in enumerate(rates) if r])
    count = len(start)
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": np.random.default_rng(1).integers(80_000, 120_000, count),
        "queue_depth": [1] * count,
        "tid": [101] * count,
    }
    app["device_ns"] = app["latency_ns"]
    verdict = solve(write_case(tmp_path / "case", app=app, meta={"duration_ns": 60 * 10**9}))
    text = "\n".join(verdict.minor)
    assert "Not a steady state: the rate fell from 2,000" in text
    assert "10 seconds of 60 were idle" in text


@pytest.mark.parametrize(
    ("offsets", "size", "pages", "in_order"),
    [
        # From the end of one read to the begin of the next less than a page is left out: each begins on the last page before, or the next one.
        ([0, 8_000, 16_000, 24_000], 7_001, 8, 6),
        # Two reads of one page ask for it once.
        ([0, 1_024, 2_048], 1_024, 1, 0),
        ([0, 409_600, 204_800], 4_096, 3, 0),
    ],
)
def test_reads_are_in_order_by_pages(
    tmp_path: Path, offsets: list[int], size: int, pages: int, in_order: int
) -> None:
    count = len(offsets)
    calls = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": np.arange(count) * 1_000_000,
        "latency_ns": 300_000,
        "op": "read",
        "device": "sda",
        "file": "/data/a",
        "offset_bytes": offsets,
        "size_bytes": size,
        "tid": 7,
    }
    cache = [{"op_id": APP_ID_BASE + number, "tier": "device", "wait_ns": 250_000} for number in range(count)]
    with Case(write_case(tmp_path / "case", app=calls, tables={"cache": cache})) as case:
        row = case.rows(prefetch.totals_sql("sda"))[0]
    assert (row["pages"], row["in_order"] or 0) == (pages, in_order)


@pytest.mark.parametrize(
    ("order", "in_order"),
    [
        # Each read that waits goes on from one that found its page in memory.
        ([0, 1, 2, 3, 4, 5], 3),
        # What is in memory is read in order; what waits is read here and there.
        ([0, 90, 1, 40, 2, 70], 0),
        ([50, 90, 7, 40, 63, 70], 0),
    ],
)
def test_a_read_from_memory_is_a_step_and_nothing_that_was_waited_for(
    tmp_path: Path, order: list[int], in_order: int
) -> None:
    """hashdeep, with half of its reads in memory: only each third page seemed to be read, and none in order."""
    device = [None, "sda", None, "sda", None, "sda"]
    calls = {
        "op_id": APP_ID_BASE + np.arange(7),
        "start_ns": np.arange(7) * 1_000_000,
        "latency_ns": [100_000] * 7,
        "op": "read",
        "device": [*device, None],
        "file": ["/data/a"] * 6 + ["/data/never on sda"],
        "offset_bytes": np.array([*order, 0]) * 4_096,
        "size_bytes": 4_096,
        "tid": 7,
    }
    cache = [{"op_id": APP_ID_BASE + number, "tier": "ram", "wait_ns": 0} for number in range(7)]
    with Case(write_case(tmp_path / "case", app=calls, tables={"cache": cache})) as case:
        row = case.rows(prefetch.totals_sql("sda"))[0]
    assert (row["latency_ns"], row["pages"], row["in_order"] or 0) == (600_000, 3, in_order)
