"""HTML that cannot forget to escape: text is escaped unless it is already `Markup`."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any, TypeAlias

Child: TypeAlias = "str | Iterable[Child] | None"


class Markup(str):
    """Text that is HTML already; only `tag` and the page's own assets make it."""

    __slots__ = ()


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element. `class_` and `data_copy` become `class` and `data-copy`; None and False leave an attribute out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        text = "" if value is True else html.escape(str(value))
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{text}"')
    return Markup("".join(parts) + ">" + join(children) + ("" if name in VOID else f"</{name}>"))


VOID = frozenset({"meta", "br", "link", "input"})


def join(children: Child) -> Markup:
    """The children one after the other, escaped where they are plain text."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(html.escape(children))
    return Markup("".join(join(child) for child in children))


def script_json(value: Any) -> str:
    """JSON that may stand inside a `script` element: no `<`, `>` or `&`, so it can neither end it nor open another."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
