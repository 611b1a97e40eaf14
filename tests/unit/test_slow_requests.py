"""Who waits for a slow request is who sat there while it was late: what was over before has lost nothing to it."""

from __future__ import annotations

from pathlib import Path

import duckdb

from ground_truth import reads
from whodisk.verdict.solve import solve


def _with_earlier_calls(case: Path) -> None:
    """Links each request with a second late call too, which was over before: so a buffered write is with the requests that write its pages."""
    (links,) = case.glob("links/*.parquet")
    whole = links.with_suffix(".new")
    duckdb.sql(f"""COPY (SELECT * FROM '{links}' UNION ALL
SELECT parent_id - 80 * n AS parent_id, l.* EXCLUDE (parent_id) FROM '{links}' AS l, range(1, 6) AS r(n) WHERE parent_id > (SELECT min(parent_id) + 400 FROM '{links}')
) TO '{whole}' (FORMAT parquet)""")
    whole.rename(links)


def test_calls_that_were_over_did_not_wait(tmp_path: Path) -> None:
    plain = solve(reads.late_read_ahead(1, tmp_path / "plain")).findings[0]
    case = reads.late_read_ahead(1, tmp_path / "linked")
    _with_earlier_calls(case)
    linked = solve(case).findings[0]
    assert (plain.detector, linked.detector) == ("slow_requests", "slow_requests")
    assert linked.claim == plain.claim
    assert "waited for one" in linked.claim
