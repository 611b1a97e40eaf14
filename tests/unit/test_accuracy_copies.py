"""The figures of docs/how-to/copies.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.accuracy import copies
from tests.synth import write_case


def experiment(folder: Path) -> Path:
    arms = ["samba read_write", "samba copychunk", "samba read_write 2ms", "samba copychunk 2ms"]
    run = {"case": "x.case"}

    def compared(first: str, second: str, ratio: float, missing: str = "") -> dict[str, Any]:
        metric = {"metric": "copied", "first": 15e6, "second": 15e6 * ratio, "ratio": ratio}
        metric |= {"low": ratio / 2, "high": ratio * 2, "missing": missing}
        return {"first": {"name": first}, "second": {"name": second}, "metrics": [metric]}

    data = {
        "machine": {"kernel": "6.1.0", "cpus": 2},
        "arms": [{"name": arm, "runs": [run] * 3} for arm in arms],
        "order": [{"started_utc": "2026-11-25T09:00:00Z"}, {"started_utc": "2026-11-25T08:30:00Z"}],
        "comparisons": [
            compared(arms[0], arms[1], 4.0),
            # What is compared with another delay tells nothing of the way.
            compared(arms[0], arms[2], 0.8),
            compared(arms[2], arms[3], 5.0, "too few runs"),
        ],
    }
    folder.mkdir()
    (folder / "experiment.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def test_a_way_is_compared_with_reading_and_writing_at_the_same_delay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: ways -->\nold\n<!-- end of ways -->\nafter\n", encoding="utf-8")
    assert copies.main(["--ways", f"ext4={experiment(tmp_path / 'folder')}", "--output", str(page)]) == 0
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    assert lines[4:8] == [
        "| samba | copychunk | as it is | ext4 | 60 | 4 (2 to 8) |",
        "| samba | read_write | as it is | ext4 | 15 | 1 |",
        "| samba | copychunk | + 2ms | ext4 | 75 | not known |",
        "| samba | read_write | + 2ms | ext4 | 12 | 1 |",
    ]
    assert lines[9].startswith("- ext4: 2026-11-25T08:30:00Z, commit ") and lines[9].endswith("per arm: 3.")


def test_a_page_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="put them back"):
        copies.put("no marks\n", "ways", "text")
    page = copies.PAGE.read_text(encoding="utf-8")
    assert all(copies.put(page, name, "text") for name in ("ways", "tails"))


def test_a_seek_is_a_read_that_begins_where_none_ended(tmp_path: Path) -> None:
    mib = 1 << 20
    block = {
        "start_ns": np.arange(6) * 1000,
        "latency_ns": [500] * 6,
        "device": "sda",
        "op": ["read", "read", "write", "read", "read", "write"],
        "offset_bytes": [0, mib, 9 * mib, 2 * mib, 3 * mib, 10 * mib],
        "size_bytes": [mib] * 6,
    }
    outcome = {"passes": [{"copied_bytes": 2 * mib}]}
    case = write_case(tmp_path / "case", block=block, meta={"workload": {"outcome": outcome}})
    assert copies.seeks_per_mib(case) == 0.5
