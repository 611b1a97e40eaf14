"""The pictures of findings in a real browser: drawn in both themes and on a phone, readable, and open to their operations."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ground_truth.cases import TRUTHS
from whodisk.report import html
from whodisk.verdict.solve import solve

# One browser for all of them.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]

#: Cases that together have every picture, and the pictures that the first finding of each opens to.
CASES = {
    "slow_member_operations": ["Device by device"],
    "outrun": ["Where inside the request it waits", "One of these reads, by tier"],
    "slow_handler": ["Vectors, handlers and devices", "Device by device"],
    "stopped_submitter": ["The silence on the clock"],
    "pieces": ["Where the file lies on the disk"],
    "device_stall": ["The slowest operation of every moment"],
    "stolen_cpus": ["The slowest operation of every moment"],
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The report of a case of the ground truth."""
    known: dict[str, Path] = {}

    def written(name: str) -> Path:
        if name not in known:
            case = TRUTHS[name].build(0, tmp_path_factory.mktemp(name) / "case")
            known[name] = case.parent / "report.html"
            html.write(case, solve(case), known[name])
        return known[name]

    return written


#: For every picture: its title, and what of it is really there. Only marks of the data count, not axes.
DRAWN = """
  return [...document.querySelectorAll('figure[data-figure]')].map((place) => ({
    title: place.querySelector('figcaption strong').textContent,
    marks: [...place.querySelectorAll('.scatterlayer path, .barlayer .point path, .heatmaplayer image')]
      .filter((mark) => { const box = mark.getBoundingClientRect(); return box.width + box.height > 1; }).length,
    width: place.querySelector('.plot').getBoundingClientRect().width,
    right: place.querySelector('.plot svg').getBoundingClientRect().right,
    ticks: place.querySelectorAll('.xtick text, .x2tick text').length,
  }))"""

#: Texts of one picture that lie on each other: ticks, titles, legends, captions.
OVERLAPS = """
  const overlaps = [];
  for (const place of document.querySelectorAll('figure[data-figure]')) {
    const texts = [...place.querySelectorAll(
      '.xaxislayer-above text, .yaxislayer-above text, .g-xtitle text, .g-ytitle text, .legendtext, .annotation-text, ' +
      '[class*=tick] text, .infolayer text')]
      .filter((text) => text.textContent.trim() && getComputedStyle(text).opacity !== '0');
    const boxes = [...new Set(texts)].map((text) => [text, text.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
    for (let i = 0; i < boxes.length; i += 1) {
      for (let j = i + 1; j < boxes.length; j += 1) {
        const [a, b] = [boxes[i][1], boxes[j][1]];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && high > 4 && !boxes[i][0].contains(boxes[j][0])) overlaps.push([boxes[i][0].textContent, boxes[j][0].textContent]);
      }
    }
  }
  return overlaps"""

#: Least contrast of any text of the findings against what is behind it, with that text.
CONTRAST = """
  const rgba = (text) => { const v = text.match(/[0-9.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; };
  const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let up = node; up; up = up.parentElement) {
      const found = rgba(getComputedStyle(up).backgroundColor);
      if (found[3] > 0.5) return found;
    }
    return [255, 255, 255, 1];
  };
  let least = [99, ''];
  const nodes = document.querySelectorAll('#findings dt, #findings dd, #findings figcaption, #findings .claim, #findings small, ' +
    'figure .xtick text, figure .ytick text, figure .legendtext, figure .annotation-text, .rows th, .rows td');
  for (const node of nodes) {
    if (!node.textContent.trim() || !node.getBoundingClientRect().width) continue;
    const style = getComputedStyle(node);
    const a = light(rgba(node.namespaceURI.endsWith('svg') ? style.fill : style.color)), b = light(behind(node));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, node.textContent.slice(0, 60)];
  }
  return least"""


def open_all(page: Any) -> None:
    """Opens every finding, and waits until its pictures are there."""
    page.run("document.querySelectorAll('details.finding').forEach((one) => { one.open = true; })")
    page.wait_until(
        "[...document.querySelectorAll('figure[data-figure] .plot')].every((plot) => plot.querySelector('svg .infolayer'))"
    )


# A theme, a width and a case have nothing to do with each other: they are met by turns.
@pytest.mark.parametrize(
    ("name", "theme", "width"),
    [(name, *(("light", 1200), ("dark", 390))[turn % 2]) for turn, name in enumerate(CASES)],
)
def test_pictures_are_drawn_and_readable(
    name: str, theme: str, width: int, report: Callable[[str], Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(report(name), theme=theme, width=width)
    first = page.run("return [...document.querySelectorAll('details.finding')][0].open")
    assert first, "the first finding is open"
    open_all(page)
    drawn = page.run(DRAWN)
    assert [one["title"] for one in drawn][: len(CASES[name])] == CASES[name]
    for one in drawn:
        assert one["marks"] >= 1, one
        assert one["ticks"] >= 2, one
        assert 0 < one["width"] <= width and one["right"] <= width, one
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.run(OVERLAPS) == []
    ratio, text = page.run(CONTRAST)
    assert ratio >= 4.5, text
    assert page.console() == []
    assert page.requested() == []


def shown_rows(page: Any) -> list[str]:
    """Ids in the tables that clicks have opened."""
    cells = page.run(
        "return [...document.querySelectorAll('.rows td:last-child')].map((cell) => cell.textContent)"
    )
    return list(cells)


def test_a_click_shows_the_operations_behind_a_point(
    report: Callable[[str], Path], open_page: Callable[..., Any]
) -> None:
    """With the mouse, on the slowest point of the picture."""
    page = open_page(report("device_stall"))
    box = page.run(
        """
      const plot = document.querySelector('figure[data-figure] .plot');
      plot.scrollIntoView({behavior: 'instant', block: 'center'});
      const points = [...plot.querySelectorAll('.scatterlayer .point')].map((point) => point.getBoundingClientRect());
      const top = points.sort((a, b) => a.top - b.top)[0];
      return [top.left + top.width / 2, top.top + top.height / 2]"""
    )
    # The mouse has to arrive before it can press: Plotly listens to what it hovers over.
    for kind in ("mouseMoved", "mouseMoved", "mousePressed", "mouseReleased"):
        where = {
            "type": kind,
            "x": box[0],
            "y": box[1],
            "button": "none" if kind == "mouseMoved" else "left",
            "clickCount": 1,
        }
        page.browser.execute_cdp_cmd("Input.dispatchMouseEvent", where)
        time.sleep(0.1)
    page.wait_until("document.querySelector('figure .rows')")
    kept = page.data()["operations"]
    slowest = max(kept["numbers"]["latency_ns"])
    ids = shown_rows(page)
    assert len(ids) == 1
    assert kept["numbers"]["latency_ns"][kept["op_id"].index(ids[0])] == slowest
    text = page.run("return document.querySelector('figure .rows').innerText")
    assert "device" in text and "operation" in text.lower()
    page.run("document.querySelector('.rows .close').click()")
    assert page.run("return document.querySelectorAll('.rows').length") == 0
    assert page.console() == []


#: Clicks a point of a plot as Plotly reports it.
CLICK = """
  const [plot, curve, index] = [document.querySelector(arguments[0]), arguments[1], arguments[2]];
  const data = plot.data[curve], at = Array.isArray(index) ? data.customdata && data.customdata[index[0]][index[1]] : data.customdata[index];
  plot.emit('plotly_click', {points: [{data, pointNumber: index, pointIndex: index, customdata: at}]})"""


def test_every_picture_opens_to_its_operations(
    report: Callable[[str], Path], open_page: Callable[..., Any]
) -> None:
    """Every trace that says which operations are behind it shows some, and a query for all."""
    asked = 0
    for name in CASES:
        page = open_page(report(name))
        open_all(page)
        for place, figure in enumerate(page.data()["figures"]):
            for curve, trace in enumerate(figure["traces"]):
                fields = trace.get("meta", {}).get("fields")
                points = (
                    [
                        [r, c]
                        for r, line in enumerate(trace.get("customdata", []))
                        for c, cell in enumerate(line)
                        if cell
                    ]
                    if trace["type"] == "heatmap"
                    else [i for i, cell in enumerate(trace.get("customdata", [])) if cell]
                )
                if not fields or not points:
                    continue
                page.run(CLICK, f"figure[data-figure='{place}'] .plot", curve, points[len(points) // 2])
                panel = page.run("const p = document.querySelector('.rows'); return p && p.innerText")
                assert panel, f"{name}: picture {place}, trace {curve}"
                query = page.run("return document.querySelector('.rows pre').textContent")
                assert query.startswith("SELECT * FROM read_parquet('ops/"), query
                page.run("document.querySelectorAll('.rows').forEach((one) => one.remove())")
                asked += 1
        assert page.console() == []
    assert asked >= 10


def test_the_general_pictures_open_to_operations_too(
    report: Callable[[str], Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(report("device_stall"))
    kept = page.data()["operations"]
    latency = dict(zip(kept["op_id"], kept["numbers"]["latency_ns"], strict=True))
    # The slowest point of the heat map.
    page.run(
        """
      const plot = document.getElementById('heatmap'), data = plot.data[1], i = data.y.indexOf(Math.max(...data.y));
      plot.emit('plotly_click', {points: [{data, pointNumber: i, customdata: data.customdata[i]}]})"""
    )
    assert latency[shown_rows(page)[0]] == max(latency.values())
    # A populated cell.
    page.run(
        """
      const plot = document.getElementById('heatmap'), data = plot.data[0];
      const r = data.z.length - 1, c = data.z[r].findIndex((z) => z !== null);
      plot.emit('plotly_click', {points: [{data, pointNumber: [r, c]}]})"""
    )
    assert shown_rows(page), "the slowest row of the heat map is kept"
    page.run("document.querySelectorAll('.rows').forEach((one) => one.remove())")
    # The end of the first curve, a bar of the stages, the first operation of the waterfall.
    page.run(
        """
      const plot = document.getElementById('nines'), data = plot.data[0], i = data.x.length - 1;
      plot.emit('plotly_click', {points: [{data, pointNumber: i, customdata: data.customdata[i]}]})"""
    )
    assert len(shown_rows(page)) == 1
    page.run("document.querySelectorAll('.rows').forEach((one) => one.remove())")
    page.run("document.querySelector('.stack[data-behind]').click()")
    assert shown_rows(page)
    page.run("document.querySelectorAll('.rows').forEach((one) => one.remove())")
    page.run(CLICK, "#waterfall", 0, 0)
    assert len(shown_rows(page)) == 1
    assert page.console() == []


def test_the_query_below_a_picture_gives_what_it_shows(
    report: Callable[[str], Path], open_page: Callable[..., Any]
) -> None:
    import duckdb

    path = report("device_stall")
    page = open_page(path)
    page.run("document.querySelector('.stack[data-behind]').click()")
    behind = json.loads(page.run("return document.querySelector('.stack[data-behind]').dataset.behind"))
    query = page.run("return document.querySelector('.rows pre').textContent").replace(" LIMIT 1000", "")
    connection = duckdb.connect()
    connection.execute(f"SET file_search_path = '{path.parent / 'case'}'")
    rows = connection.execute(query).fetchall()
    assert len(rows) == behind["n"]
    ids = {str(row[0]) for row in rows}
    assert set(shown_rows(page)) <= ids
