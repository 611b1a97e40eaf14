"""HdrHistogram's interval log, version 1.3: per interval and kind of operation a histogram, V2, compressed, Base64.

Three significant digits: a value is off by at most 1 in 1,000. An operation counts in the interval in which it ended, as often as its
weight says. Facts: the format's own description (HdrHistogramLogWriter, V2 encoding), checked by the readers of its Python package.
"""

from __future__ import annotations

import base64
import datetime
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.export.base import Format, Tell, Wanted, Written, carried, count_left_out
from whodisk.reading.views import Case

_COOKIE = 0x1C849303 | 0x10
_COOKIE_COMPRESSED = 0x1C849304 | 0x10
_DIGITS = 3
#: Bins per octave of three significant digits: the power of two that is not below 1,000.
_HALF = 1024
#: SQL: the index of a latency's bin. `bin` writes a number in binary: no logarithm that rounds near a power of two.
_SHIFT = "greatest(length(bin(greatest(latency_ns, 0))) - 11, 0)"
_INDEX = f"{_SHIFT} * {_HALF} + (greatest(latency_ns, 0) >> {_SHIFT})"

_REASONS = {"unfinished, so without a latency": "open"}
_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'

Bins = list[tuple[int, int]]


def _write(case: Case, wanted: Wanted, file: Path, tell: Tell) -> Written:
    if wanted.interval_ns < 1_000_000:
        raise WhodiskError(f"--interval: expected 1ms or more, found {wanted.interval_ns} ns")
    left_out = count_left_out(case, wanted, _REASONS)
    chosen = carried(wanted, _REASONS)
    ends = f"(start_ns + latency_ns) // {wanted.interval_ns}"
    facts = case.rows(
        f"SELECT count(*) AS n, max(latency_ns) AS highest_ns, max({ends}) AS last FROM recorded_ops WHERE {chosen}"
    )[0]
    highest_ns, last = int(facts["highest_ns"] or 0), int(facts["last"] or 0)
    sql = f"""SELECT {ends} AS interval, op, {_INDEX} AS bin_index, CAST(round(sum(weight)) AS BIGINT) AS n,
  max(latency_ns) AS max_ns
FROM recorded_ops WHERE {chosen} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
    with file.open("w", encoding="ascii") as out:
        out.write(_head(case))
        for interval, op, max_ns, bins in _histograms(row for rows in case.streamed(sql) for row in rows):
            start_s = interval * wanted.interval_ns / 1e9
            text = base64.b64encode(encode(bins, max(highest_ns, 2))).decode()
            out.write(f"Tag={op},{start_s:.3f},{wanted.interval_ns / 1e9:.3f},{max_ns / 1e6:.3f},{text}\n")
            tell(interval / last if last > 0 else 1)
    return Written(int(facts["n"] or 0), left_out)


def _head(case: Case) -> str:
    start_s = start_unix_ns(case) / 1e9
    said = datetime.datetime.fromtimestamp(start_s, datetime.UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    return (
        "#[whodisk: latency in nanoseconds; Interval_Max in milliseconds]\n"
        "#[Histogram log format version 1.3]\n"
        f"#[StartTime: {start_s:.3f} (seconds since epoch), {said}]\n"
        f"#[BaseTime: {start_s:.3f} (seconds since epoch)]\n"
        f"{_LEGEND}\n"
    )


def start_unix_ns(case: Case) -> int:
    """The start of the case, since 1970; 0 where it is not known."""
    text = str(case.meta.get("start_utc") or "")
    try:
        whole = datetime.datetime.fromisoformat(text[:19] + "+00:00")
    except ValueError:
        return 0
    fraction = text[20:].rstrip("Z")[:9].ljust(9, "0")
    return int(whole.timestamp()) * 1_000_000_000 + (int(fraction) if fraction.isdigit() else 0)


def _histograms(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, str, int, Bins]]:
    """Groups sorted rows (interval, op, bin index, count, longest) by interval and op."""
    current: tuple[int, str] | None = None
    longest_ns, bins = 0, Bins()
    for interval, op, index, count, max_ns in rows:
        if current is not None and (interval, op) != current:
            yield *current, longest_ns, bins
            longest_ns, bins = 0, Bins()
        current = (interval, op)
        longest_ns = max(longest_ns, max_ns)
        bins.append((index, count))
    if current is not None:
        yield *current, longest_ns, bins


def encode(bins: Bins, highest_ns: int) -> bytes:
    """A histogram of (bin index, count), sorted, as V2 compressed; its range ends at `highest_ns`, 2 or more."""
    counts, expected = bytearray(), 0
    for index, count in bins:
        if index > expected:
            # A run of empty bins is its length, negative.
            _append_zigzag(counts, expected - index)
        _append_zigzag(counts, count)
        expected = index + 1
    head = struct.pack(">iiiiqqd", _COOKIE, len(counts), 0, _DIGITS, 1, highest_ns, 1.0)
    packed = zlib.compress(head + bytes(counts))
    return struct.pack(">ii", _COOKIE_COMPRESSED, len(packed)) + packed


def _append_zigzag(out: bytearray, value: int) -> None:
    """Appends an LEB128 number; its ninth byte, where there is one, is a whole one."""
    rest = (value << 1) ^ (value >> 63)
    for _ in range(8):
        if rest < 0x80:
            out.append(rest)
            return
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


FORMAT = Format(
    name="hdr",
    suffix=".hlog",
    about="an HdrHistogram log, V2 compressed: latency in ns, a histogram per --interval, tagged with the kind of operation",
    not_carried=(
        ("single operations: when, where, who, which stages", "a histogram counts latencies"),
        ("latencies to better than 1 in 1,000", "its bins have three significant digits"),
        ("operations that did not end", "they have no latency yet"),
    ),
    write=_write,
    one_layer=True,
    heeds=frozenset({"interval_ns"}),
)
