"""The report's section on the page cache: which tier served what an operation read, and how good prefetching was."""

from __future__ import annotations

from collections.abc import Sequence

from whodisk import words
from whodisk.evidence.prefetching import Account, accounts
from whodisk.reading.views import Case, Row
from whodisk.report import queries, units
from whodisk.report.elements import section, table
from whodisk.report.markup import Child, Markup, tag
from whodisk.report.material import layer_rank, whole


def of_case(case: Case) -> Markup | None:
    """The section; None where the case says nothing of a cache."""
    if not case.rows("SELECT 1 AS one FROM cache LIMIT 1"):
        return None
    rows = sorted(case.rows(queries.tiers()), key=lambda row: layer_rank(str(row["layer"])))
    fetched = accounts(case)
    lead = (
        "Which tier served the bytes that operations read, per operation; what was not waited for was in memory. Operations of layer app hold "
        "the reads that were made for them."
    )
    children: list[Child] = [_served(rows)]
    if fetched:
        children += [tag("h3", "Prefetching"), _accounts(fetched)]
    return section("tiers", "Page cache", lead, *children)


def _served(rows: Sequence[Row]) -> Markup:
    whole_bytes: dict[tuple[str, str], int] = {}
    for row in rows:
        key = str(row["layer"]), str(row["op"])
        whole_bytes[key] = whole_bytes.get(key, 0) + whole(row["bytes"])
    body = []
    for row in rows:
        layer, op, operations = str(row["layer"]), str(row["op"]), max(1, whole(row["operations"]))
        body.append(
            (
                f"{layer}: {op}",
                words.count(operations),
                str(row["tier"]),
                words.size(whole(row["bytes"]) / operations),
                units.share(whole(row["bytes"]) / max(1, whole_bytes[layer, op])),
                words.count(whole(row["waits"])),
                words.duration(whole(row["wait_ns"]) / operations),
            )
        )
    head = (
        "operations",
        "number",
        "tier",
        "bytes per operation",
        "of all bytes",
        "waits",
        "waited per operation",
    )
    return table(head, body, numbers=(1, 3, 4, 5, 6), fit=True)


def _accounts(fetched: Sequence[Account]) -> Markup:
    def said(part: float | None) -> str:
        return "not known" if part is None else units.share(part)

    body = [
        (
            one.file,
            words.size(one.issued),
            said(one.accuracy),
            said(one.coverage),
            said(one.lateness),
            said(one.waste),
        )
        for one in fetched
    ]
    head = (
        "file",
        "fetched ahead",
        "accuracy: of it used",
        "coverage: of what was read",
        "came late, of what was used",
        "waste: evicted unread",
    )
    return table(head, body, numbers=(1, 2, 3, 4, 5), fit=True)
