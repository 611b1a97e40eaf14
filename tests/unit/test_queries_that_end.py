"""Queries that stop early end, whatever the views below them share (decision 0371)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ground_truth import flushes
from whodisk.reading.views import Case

#: Two row groups' worth: with fewer operations DuckDB ends such a query in any case.
COMMITS = 20_000

RUN = """import sys
from pathlib import Path
from whodisk.reading.views import Case
with Case(Path(sys.argv[1])) as case:
    print(len(case.rows(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def behind_flushes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flushes.many_commits_behind_flushes(COMMITS, 4, tmp_path_factory.mktemp("behind") / "case")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 AS one FROM measured LIMIT 1", 1),
        ("SELECT op_id FROM judged WHERE layer = 'syscall' LIMIT 50", 50),
        ("SELECT count(*) AS n FROM (SELECT 1 FROM measured WHERE layer = 'syscall' LIMIT 50)", 1),
        ("SELECT EXISTS (SELECT 1 FROM measured WHERE layer = 'syscall') AS any_at_all", 1),
        ("SELECT 1 AS one FROM measured WHERE op_id IN (SELECT op_id FROM behind_flushes) LIMIT 3", 3),
    ],
)
def test_a_query_that_needs_few_rows_ends(behind_flushes: Path, sql: str, rows: int) -> None:
    # A program of its own: one that sleeps for ever can be ended. It takes a second.
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(behind_flushes), sql],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert int(done.stdout) == rows


def test_what_is_kept_is_what_the_printed_query_gives(behind_flushes: Path) -> None:
    sql = "SELECT layer, count(*) AS n, sum(queue_ns) AS queue_ns, sum(device_ns) AS device_ns FROM judged GROUP BY 1 ORDER BY 1"
    with Case(behind_flushes) as case:
        kept = case.rows(sql)
        waited = case.rows("SELECT count(*) AS n FROM behind_flushes")[0]["n"]
        printed = case._connection.execute(case.expand(sql)).fetchall()
    assert int(waited or 0) > 100
    assert [tuple(row.values()) for row in kept] == printed
