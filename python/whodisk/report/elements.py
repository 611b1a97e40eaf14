"""Parts that every section of the report is made of. Every function gives escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whodisk.report.markup import Child, Markup, tag


def section(name: str, title: str, lead: Child, *children: Child) -> Markup:
    """One section with its heading and a sentence that says what is to be seen."""
    return tag("section", tag("h2", title), lead and tag("p", lead, class_="lead"), *children, id=name)


def table(
    head: Sequence[str], rows: Iterable[Sequence[Child]], *, numbers: Sequence[int] = (), fit: bool = False
) -> Markup:
    """A table that scrolls sideways where the page is narrow.

    `numbers`: columns aligned to the right; `fit`: only as wide as its content.
    """

    def cells(name: str, row: Sequence[Child]) -> list[Markup]:
        # A column without a name has no heading for those who hear the page.
        return [
            tag(name if cell != "" else "td", cell, class_="num" if i in numbers else None)
            for i, cell in enumerate(row)
        ]

    body = [tag("tr", *cells("td", row)) for row in rows]
    parts = [tag("thead", tag("tr", *cells("th", head))), tag("tbody", *body)]
    return tag("div", tag("table", *parts, class_="fit" if fit else None), class_="scroll", tabindex="0")


def pairs(items: Iterable[tuple[str, Child]]) -> Markup:
    """A list of terms and what they are; empty ones are left out."""
    shown = [tag("dt", term) + tag("dd", value) for term, value in items if value]
    return tag("dl", Markup("".join(shown)), class_="pairs")


def listing(items: Iterable[tuple[str, str | None]], empty: str) -> Markup:
    """A list of statements, each with its reason below it."""
    rows = [tag("li", text, because and tag("small", because)) for text, because in items]
    return tag("ul", *rows, class_="plain") if rows else tag("p", empty, class_="none")
