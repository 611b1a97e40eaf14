"""A control group's limit that is set in the middle of a recording is compared with what was read again since."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from ground_truth import others
from whodisk.verdict.solve import solve


def test_a_limit_is_named_that_is_known_for_the_last_third_only(tmp_path: Path) -> None:
    case = others.limited_group(1, tmp_path / "case")
    [file] = (case / "series").glob("*.parquet")
    series = pq.read_table(file)
    late = pc.or_(pc.equal(series["kind"], "host"), pc.greater_equal(series["time_ns"], 3_000_000_000))
    pq.write_table(series.filter(late), file)
    claims = [found.claim for found in solve(case).findings]
    assert any("The control group " in claim for claim in claims), claims
