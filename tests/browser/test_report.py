"""The report in a real browser: drawn, quiet, offline, escaped, readable in both themes and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from whodisk import findings
from whodisk.report import html

# One browser for all of them.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

HOSTILE = "<script>alert(1)</script>"
Writer = Callable[[ModuleType, Path], None]


def tail(synth: ModuleType, path: Path) -> None:
    """One of 1,000 operations takes 30 ms on one of two devices."""
    synth.Simulation(
        seed=3, workers=2, depth=4, seconds=3, read_share=0.7, devices=("nvme0n1", "nvme1n1")
    ).tail("device", 0.001, 30, device=0).write(path)


def stopped(synth: ModuleType, path: Path) -> None:
    """The submitter stands still twice."""
    synth.Simulation(seed=4, workers=2, depth=4, seconds=3).stop(0, [1.0, 2.2], 100).write(path)


def healthy(synth: ModuleType, path: Path) -> None:
    """Nothing is wrong."""
    synth.Simulation(seed=5, depth=4, seconds=2).write(path)


def app_only(synth: ModuleType, path: Path) -> None:
    """No block layer."""
    synth.Simulation(seed=6, depth=4, seconds=2).stall("device", [1.1], 80).write(path, layers=("app",))


def block_only(synth: ModuleType, path: Path) -> None:
    """No application layer."""
    synth.Simulation(seed=7, depth=4, seconds=2).stall("device", [1.1], 80).write(path, layers=("block",))


def all_equal(synth: ModuleType, path: Path) -> None:
    """Every latency is the same, most columns are NULL."""
    start = np.arange(500) * 1_000_000
    synth.write_case(path, block={"op_id": np.arange(500), "start_ns": start, "latency_ns": [7000] * 500})


def one_operation(synth: ModuleType, path: Path) -> None:
    """A single, unfinished operation of length zero, before the recording began."""
    columns = {"op_id": [1], "start_ns": [-5000], "latency_ns": [0], "open": [True]}
    synth.write_case(path, app=columns, meta={"duration_ns": None})


def thousand_devices(synth: ModuleType, path: Path) -> None:
    """More devices than anybody can look at."""
    rng = np.random.default_rng(8)
    count = 50_000
    device = [f"sd{n}" for n in rng.integers(1000, size=count)]
    synth.write_case(
        path,
        block={
            "op_id": np.arange(count),
            "start_ns": np.sort(rng.integers(10**10, size=count)),
            "latency_ns": (rng.lognormal(12, 1, count)).astype(np.int64),
            "device": device,
            "tid": 7,
        },
        devices=sorted(set(device)),
    )


def hostile(synth: ModuleType, path: Path) -> None:
    """Every name there is tries to become a script."""
    name = f"<b>N</b></script>{HOSTILE}%{{x}}"
    count = 300
    app = {
        "op_id": synth.APP_ID_BASE + np.arange(count),
        "start_ns": np.arange(count) * 10**7,
        "latency_ns": np.where(np.arange(count) % 100 == 50, 5 * 10**7, 10**6),
        "device_ns": np.where(np.arange(count) % 100 == 50, 5 * 10**7, 10**6),
        "file": name,
        "device": name,
        "comm": name,
        "tid": 9,
        "size_bytes": 4096,
    }
    block = {**app, "op_id": synth.BLOCK_ID_BASE + np.arange(count)}
    times = {"start_ns": 10**8, "duration_ns": 10**8}
    synth.write_case(
        path,
        app=app,
        block=block,
        links={"parent_id": app["op_id"], "child_id": block["op_id"], "kind": "merged"},
        gaps=[{"layer": "app", "tid": 9, "comm": name, "state": name, "meant_busy": True, **times}],
        losses=[{"probe": name, "start_ns": 0, "end_ns": 10**8, "lost": None, "reason": name}],
        events=[{"time_ns": 10**8, "kind": name, "subject": name, "detail": name}],
        meta={
            "command": ["fio", name],
            "phases": [{"name": name, "start_ns": 0, "end_ns": 10**7}],
            "not_observed": [{"what": name, "because": name}],
            "workload": {"spec": {name: name}},
        },
        devices=(name,),
    )


CASES = {
    case.__name__: case
    for case in (
        tail,
        stopped,
        healthy,
        app_only,
        block_only,
        all_equal,
        one_operation,
        thousand_devices,
        hostile,
    )
}


def verdict(case: str, text: str = "device") -> findings.Verdict:
    """A verdict that has something in every field."""
    finding = findings.Finding(
        detector="stage_blame",
        culprit=findings.Culprit("stage", text, text),
        claim=f"1 of 1,000 reads spends 30 ms in {text}",
        baseline=f"typical reads of {text}",
        effect=findings.Effect(f"stage time {text}", 30e6, "ns", 29e6, 31e6),
        share_of_excess=0.98,
        q_value=1e-9,
        episodes=112,
        evidence=[findings.Evidence(text, f"SELECT '{text}'", [{"op": text, "n": 3, "p50_ns": 30_000_000}])],
        refute=f"without {text}",
        remedy=f"replace {text}",
    )
    return findings.Verdict(
        case=case,
        status="slow",
        summary=[f"Reads are slow because of {text}.", f"The rest of {text} is cleared."],
        where_time_goes={"read": {text: 0.9, "device+interrupt": 0.1}},
        operations=1000,
        limit=f"limit {text}",
        findings=[finding],
        minor=[f"observed {text}"],
        cleared=[findings.Cleared(text, f"bound {text}", 0.999, 0.95, "1 ns")],
        cannot_exclude=[findings.Caveat(text, text)],
        expectations=[findings.Expectation(text, False, text)],
        next_steps=[f"record {text}"],
    )


@pytest.fixture(scope="module")
def report(synth: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a case and its report, once; gives the report's path."""
    known: dict[tuple[str, str], Path] = {}

    def written(writer: Writer, text: str = "device") -> Path:
        key = (writer.__name__, text)
        if key not in known:
            folder = tmp_path_factory.mktemp(writer.__name__)
            writer(synth, folder / "case")
            html.write(folder / "case", verdict("case", text), folder / "report.html")
            known[key] = folder / "report.html"
        return known[key]

    return written


# -- what is drawn ------------------------------------------------------------------------------


def operations(heat: dict[str, Any], layer: str) -> int:
    """Operations in all cells of a layer."""
    return sum(sum(run[2:]) for one in heat["series"] if one["layer"] == layer for run in one["runs"])


def drawn_operations(page: Any) -> int:
    """Operations in the heat map as Plotly has it."""
    script = """return document.getElementById('heatmap').data[0].z.flat()
      .filter((z) => z !== null).reduce((sum, z) => sum + Math.round(10 ** z), 0)"""
    return int(page.run(script))


def marks(page: Any, picture: str, selector: str) -> int:
    """Elements of a picture that are really there."""
    return int(page.run(f"return document.querySelectorAll('#{picture} {selector}').length"))


def check_heatmap(page: Any, heat: dict[str, Any]) -> None:
    """All operations are in the cells, the cells are an image, every column has its slowest."""
    layer = heat["series"][0]["layer"]
    assert drawn_operations(page) == operations(heat, layer)
    assert marks(page, "heatmap", ".heatmaplayer image") == 1
    columns = page.run("return document.getElementById('heatmap').data[1].x.length")
    assert columns > 0
    assert marks(page, "heatmap", ".scatterlayer .point") == columns
    worst = page.run("return Math.max(...document.getElementById('heatmap').data[1].y)")
    series = [one for one in heat["series"] if one["layer"] == layer]
    assert worst == max([1, *(ns for one in series for ns in one["worst"][1::2])])
    strips = [[m for m in strip["marks"] if m[3] in {"", layer}] for strip in heat["strips"]]
    slow = page.run("return document.getElementById('heatmap').data[2].x.length")
    assert (slow > 0) == bool(heat["slow"].get(layer))
    assert marks(page, "heatmap", ".barlayer .point") == slow + sum(len(strip) for strip in strips)


def check_nines(page: Any, rows: list[dict[str, Any]]) -> None:
    """One line per kind, and the last point of each is its slowest operation."""
    shown = [row for row in rows if row["layer"] == rows[0]["layer"] and row["device"] is None]
    assert marks(page, "nines", ".scatterlayer .trace path.js-line") == len(shown)
    ends = page.run("return document.getElementById('nines').data.map((t) => [t.x.at(-1), t.y.at(-1)])")
    for (latency, part), row in zip(ends, shown, strict=True):
        assert latency == max(1, row["latency_ns"][-1])
        assert part == pytest.approx(1 / row["ops"])


def check_waterfall(page: Any, falls: list[dict[str, Any]]) -> None:
    """As many bars as the first picked operation has stages, requests and neighbours."""
    rows = falls[0]["rows"]
    bars = sum(len(row.get("bars", [])) for row in rows)
    bars += sum(sum(part > 0 for part in bar[1:4]) for row in rows for bar in row.get("lane", []))
    assert bars > 0
    assert marks(page, "waterfall", ".barlayer .point path") == bars
    assert marks(page, "worst", "tr[data-waterfall]") == len(falls)


#: The others come with `make test-long`.
EACH_TIME = {"tail", "stopped", "app_only", "hostile"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EACH_TIME else pytest.mark.slow) for name in CASES]
)
def test_every_picture_is_drawn(
    name: str, report: Callable[..., Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(report(CASES[name]))
    data = page.data()
    check_heatmap(page, data["heatmap"])
    if name == "one_operation":
        assert "nines" not in data, "an unfinished operation has no place in a distribution"
    else:
        check_nines(page, data["nines"])
    check_waterfall(page, data["waterfalls"])
    assert page.console() == []
    assert page.requested() == []


def test_a_case_without_rows_says_so(
    synth: ModuleType, tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    synth.write_case(tmp_path / "case", app={}, block={})
    html.write(tmp_path / "case", verdict("case"), tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert page.data() == {}
    assert "No operation was recorded." in page.run("return document.body.innerText")
    assert page.console() == []


def test_names_stay_text(report: Callable[..., Path], open_page: Callable[..., Any]) -> None:
    name = f"<b>N</b></script>{HOSTILE}%{{x}}"
    page = open_page(report(hostile, name))
    assert page.console() == [], "a blocked or failed script would be here"
    assert page.run("return document.scripts.length") == 4
    text = page.run("return document.body.textContent")
    assert text.count(HOSTILE) > 20
    labels = page.run(
        "return [...document.querySelectorAll('#waterfall .ytick text')].map((t) => t.textContent)"
    )
    assert any("<b>N</b></script><script>" in label for label in labels), labels
    assert page.run("return document.querySelectorAll('svg script, svg a').length") == 0
    assert page.run("return document.querySelectorAll('main b').length") == 0


def test_hover_shows_names_as_text(report: Callable[..., Path], open_page: Callable[..., Any]) -> None:
    page = open_page(report(hostile))
    page.run("document.getElementById('waterfall').scrollIntoView({behavior: 'instant', block: 'center'})")
    page.run("Plotly.Fx.hover('waterfall', [{curveNumber: 0, pointNumber: 0}])")
    page.wait_until("document.querySelector('#waterfall .hoverlayer .hovertext')")
    assert f"<b>N</b></script>{HOSTILE}" in page.run(
        "return document.querySelector('#waterfall .hoverlayer').textContent"
    )
    assert page.console() == []


# -- what one can do ----------------------------------------------------------------------------


def test_layer_and_operation_can_be_chosen(
    report: Callable[..., Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(report(tail))
    heat = page.data()["heatmap"]
    page.run("document.querySelector('#heatmap-controls [data-key=block]').click()")
    assert drawn_operations(page) == operations(heat, "block")
    page.run("document.querySelector('#heatmap-controls [data-key=write]').click()")
    page.run("document.querySelector('#heatmap-controls [data-key=nvme1n1]').click()")
    wanted = [
        s for s in heat["series"] if (s["layer"], s["op"], s["device"]) == ("block", "write", "nvme1n1")
    ]
    assert drawn_operations(page) == sum(sum(run[2:]) for s in wanted for run in s["runs"])
    page.run("document.querySelectorAll('#nines-controls .choice')[1].querySelectorAll('button')[1].click()")
    names = page.run("return document.getElementById('nines').data.map((t) => t.name)")
    assert names == ["nvme0n1", "nvme1n1"]
    assert page.console() == []


def test_zoom_draws_finer_bins_and_reset_restores(
    report: Callable[..., Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(report(tail))
    width = "const x = document.getElementById('heatmap').data[0].x; return x[1] - x[0]"
    before, total = page.run(width), drawn_operations(page)
    page.run("Plotly.relayout('heatmap', {'xaxis.range[0]': 1.0, 'xaxis.range[1]': 1.2})")
    page.wait_until("document.getElementById('heatmap').data[0].x[0] > 0.9")
    assert page.run(width) < before
    assert 0 < drawn_operations(page) < total
    page.run("document.getElementById('heatmap').emit('plotly_doubleclick')")
    assert drawn_operations(page) == total
    assert page.console() == []


def test_a_click_on_a_typical_cell_shows_typical_operations(
    report: Callable[..., Path], open_page: Callable[..., Any]
) -> None:
    """Every tenth of the cells, most of which have no operation that the report carries."""
    page = open_page(report(tail))
    shown = page.run(
        """const plot = document.getElementById('heatmap'), { z, y } = plot.data[0], found = [];
        z.forEach((row, r) => row.forEach((value, c) => {
          if (value === null || (r + c) % 10) return;
          plot.emit('plotly_click', { points: [{ data: plot.data[0], pointNumber: [r, c] }] });
          const panel = document.querySelector('.rows');
          found.push([y[r], y[r + 1], panel.querySelectorAll('tbody tr').length, panel.querySelector('.muted').textContent]);
        }));
        return found"""
    )
    assert len(shown) > 20
    assert [one for one in shown if one[2] == 0] == []
    assert any("took about as long" in one[3] for one in shown)
    assert page.console() == []


def test_waterfall_shows_the_silence(report: Callable[..., Path], open_page: Callable[..., Any]) -> None:
    page = open_page(report(stopped))
    falls = page.data()["waterfalls"]
    text = page.run("return document.querySelector('#worst tr[data-waterfall]').innerText")
    assert "worker-0" in text
    assert any(row["label"].startswith("silence of worker-0") for row in falls[0]["rows"])
    silent = page.run(
        "return [...document.querySelectorAll('#worst tr[data-waterfall]')]"
        ".findIndex((row) => row.innerText.includes('silence'))"
    )
    page.run("document.querySelectorAll('#worst tr[data-waterfall]')[arguments[0]].click()", silent)
    labels = page.run(
        "return [...document.querySelectorAll('#waterfall .ytick text')].map((t) => t.textContent)"
    )
    assert labels[0].startswith("silence of worker-0")
    assert page.console() == []


# -- how it looks -------------------------------------------------------------------------------


def brightness(page: Any) -> float:
    """Of the page's background, 0 to 255."""
    script = (
        "return getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number)"
    )
    return float(sum(page.run(script)) / 3)


def test_theme_follows_the_system_and_the_button(
    report: Callable[..., Path], open_page: Callable[..., Any]
) -> None:
    path = report(tail)
    page = open_page(path, theme="light")
    assert brightness(page) > 200
    fill = "return document.querySelector('#waterfall .barlayer .point path').style.fill"
    light = page.run(fill)
    page.run("document.getElementById('theme').click()")
    assert brightness(page) < 60
    assert page.run(fill) != light, "the pictures must change with the page"
    assert brightness(open_page(path, theme="dark")) < 60
    assert page.console() == []


@pytest.mark.parametrize("name", ["tail", "hostile", "thousand_devices"])
def test_phone_width_needs_no_sideways_scrolling(
    name: str, report: Callable[..., Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(report(CASES[name]), width=390)
    assert page.run("return document.documentElement.scrollWidth") <= 390
    assert page.run("return document.getElementById('heatmap').clientWidth") <= 390
    assert page.console() == []


def contrast(page: Any, selector: str) -> float:
    """Contrast of an element's text against the page, as WCAG counts it."""
    script = """
      const rgb = (text) => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
      const light = (c) => rgb(c).map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const a = light(getComputedStyle(document.querySelector(arguments[0])).color);
      const b = light(getComputedStyle(document.body).backgroundColor);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)"""
    return float(page.run(script, selector))


def test_text_has_enough_contrast(report: Callable[..., Path], open_page: Callable[..., Any]) -> None:
    for theme in ("light", "dark"):
        page = open_page(report(tail), theme=theme)
        for selector in ("h1", ".more", ".status", ".lead", "th", "nav a", "dl.facts dt", "footer"):
            assert contrast(page, selector) >= 4.5, f"{selector} in {theme}"
