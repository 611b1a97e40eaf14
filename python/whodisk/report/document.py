"""A page that needs no network: style, scripts, Plotly and data inside one HTML file."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from whodisk import __version__
from whodisk.report.markup import Markup, script_json, tag

SCRIPTS = ("base.js", "rows.js", "figure.js", "heatmap.js", "nines.js", "waterfall.js", "start.js")
#: Sets the theme before anything is painted.
EARLY = 'document.documentElement.dataset.theme=matchMedia("(prefers-color-scheme: dark)").matches?"dark":"light";'


def document(title: str, body: Markup, pictures: dict[str, Any]) -> str:
    """The whole document; `pictures` is what the scripts draw. Scripts run only if their hash is in the policy, which also forbids any request."""
    scripts = [plotly(), "\n".join(_asset(name) for name in SCRIPTS)] if pictures else [_quiet()]
    hashes = " ".join(_hash(text) for text in [EARLY, *scripts])
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"whodisk {__version__}"),
        tag("title", title),
        tag("style", Markup(_asset("report.css"))),
        tag("script", Markup(EARLY)),
    )
    data = tag("script", Markup(script_json(pictures)), type="application/json", id="report-data")
    whole = tag("body", body, data, [tag("script", Markup(text)) for text in scripts])
    return "<!doctype html>\n" + tag("html", head, whole, lang="en") + "\n"


def _asset(name: str) -> str:
    return resources.files("whodisk.report").joinpath("assets", name).read_text(encoding="utf-8")


def plotly() -> str:
    """Plotly's own bundle, as its Python package ships it."""
    return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")


def _quiet() -> str:
    """Without pictures the page needs only its theme and its copy buttons."""
    return _asset("base.js") + "\n" + _asset("start.js")


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
