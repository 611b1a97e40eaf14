"""The report: one HTML file that needs no network, made of the verdict and the case's named views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whodisk import __version__, words
from whodisk.errors import WhodiskError
from whodisk.findings import Finding, Verdict
from whodisk.reading import views
from whodisk.reading.views import Case, Row
from whodisk.report import falls, material, operations, pictures, queries, sections, tiers, units
from whodisk.report import verdict as said
from whodisk.report.document import document
from whodisk.report.elements import listing, section
from whodisk.report.files import write_whole
from whodisk.report.markup import Child, Markup, join, script_json, tag
from whodisk.report.material import Threshold, whole
from whodisk.report.pictures.base import Drawn, Look, Picture

#: Rows of each kind that are listed or marked at most; the text says how many there are.
MARKS_MAX = 400
LISTED_MAX = 100
#: Findings that get pictures, and what these may take of the report, bytes: they come in order of weight.
PICTURED_MAX = 16
FIGURES_MAX_BYTES = 1_500_000


def write(case_dir: Path | str, verdict: Verdict, out_path: Path | str) -> None:
    """Writes the report of a sealed case to `out_path`, replacing it at once.

    The same case and verdict give the same bytes. Cost: some passes over `ops` in DuckDB, memory
    and size of the file do not grow with the number of operations. Raises `CaseError` for a case
    that cannot be read and `WhodiskError` if `out_path` cannot be written.
    """
    with Case(case_dir) as case:
        text = render(case, verdict)
    path = Path(out_path)
    try:
        write_whole(path, text, Path(case_dir))
    except OSError as error:
        raise WhodiskError(
            f"{path}: the report could not be written: {error.strerror}; name another place with room"
        ) from None


def render(case: Case, verdict: Verdict) -> str:
    """The report as text."""
    episodes = [op_id for item in verdict.slowest for op_id in item.op_ids]
    return _page(case, verdict, gather(case, verdict.findings, episodes))


# -- what the page shows ------------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """Everything the page needs from the case, already small."""

    extent: list[Row]
    parts: dict[material.Key, material.Bins]
    thresholds: list[Threshold]
    classes: list[Row]
    episodes: list[Row]
    gaps: list[Row]
    losses: list[Row]
    events: list[Row]
    picks: list[falls.Pick]
    #: What the scripts draw: `heatmap`, `nines`, `waterfalls`, `figures`, and the `operations` behind them; absent where there
    #: is nothing.
    pictures: dict[str, Any]
    #: The section on the page cache.
    tiers: Markup | None
    #: The pictures of each finding (by its place in the verdict), with their places in `figures`.
    figures: dict[int, list[tuple[int, Picture, Drawn]]]

    @property
    def slow_from(self) -> list[tuple[str, str, int]]:
        """Layer, kind, slow from (ns); only kinds that have slow operations."""
        return [
            (one.layer, one.op, one.slow_from_ns) for one in self.thresholds if one.slow_from_ns is not None
        ]


def gather(case: Case, findings: Sequence[Finding] = (), episodes: Sequence[int] = ()) -> Material:
    """Reads the named views. `episodes`: operations of the slowest episodes, which the report carries, too."""
    extent = sorted(case.rows(queries.extent()), key=lambda row: material.layer_rank(str(row["layer"])))
    parts = material.histograms(case)
    ordered = sorted(material.summed(parts).items(), key=lambda item: _rank(*item[0]))
    thresholds = [material.threshold(layer, op, bins) for (layer, op), bins in ordered]
    slow = [(one.layer, one.op, one.slow_from_ns) for one in thresholds if one.slow_from_ns is not None]
    picks = falls.picks(case, parts)
    near = falls.surroundings(case, picks)
    picks = falls.without_repeats(picks, near)
    rows = Material(
        extent,
        parts,
        thresholds,
        case.rows(queries.classes([_limits(one) for one in thresholds])) if thresholds else [],
        case.rows(queries.episodes(slow)) if slow else [],
        case.rows(queries.gaps(MARKS_MAX)),
        case.rows(queries.losses(LISTED_MAX)),
        case.rows(queries.events(LISTED_MAX)),
        picks,
        {"waterfalls": falls.waterfalls(case, picks, near)} if picks else {},
        tiers.of_case(case),
        {},
    )
    end_ns = max([case.duration_ns or 0, 1, *(whole(row["end_ns"]) for row in rows.extent)])
    wanted = _pictures(case, rows, end_ns)
    wanted += _figures(Look(case, end_ns), findings, rows)
    wanted += episodes
    if rows.pictures:
        rows.pictures["operations"] = operations.kept(case, wanted, falls.rows_drawn(picks, near))
    return rows


def _figures(look: Look, findings: Sequence[Finding], rows: Material) -> list[int]:
    """Draws the pictures of the findings, each once; gives the operations that they ask for."""
    places: dict[str, int] = {}
    wanted: list[int] = []
    for index, finding in enumerate(findings[:PICTURED_MAX]):
        for picture, drawn in pictures.draw(look, finding):
            text = script_json(drawn.figure)
            if text not in places:
                if sum(len(known) for known in places) + len(text) > FIGURES_MAX_BYTES:
                    continue
                places[text] = len(places)
                rows.pictures.setdefault("figures", []).append(drawn.figure)
                wanted += drawn.op_ids
            rows.figures.setdefault(index, []).append((places[text], picture, drawn))
    return wanted


def _rank(layer: str, op: str) -> tuple[int, int]:
    return material.layer_rank(layer), material.op_rank(op)


def _limits(one: Threshold) -> tuple[str, str, int, int, int]:
    slow = one.slow_from_ns if one.slow_from_ns is not None else 2**62
    return one.layer, one.op, slow, one.typical_from_ns, one.typical_to_ns


def _pictures(case: Case, rows: Material, end_ns: int) -> list[int]:
    """Adds the pictures that every report has; gives the operations to keep for them."""
    shown = material.shown_devices(rows.parts)
    if rows.parts:
        rows.pictures["nines"] = material.curves(rows.parts, shown)
    if not rows.extent:
        return []
    cells = material.cells(case, end_ns, shown)
    heat = material.heatmap(cells, material.others_name(rows.parts, shown))
    rows.pictures["heatmap"] = {
        **heat,
        "phases": _phases(case),
        "slow": _slow(case, rows, heat["bin_ns"], heat["bins"]),
        "strips": _strips(rows),
    }
    return [*operations.chosen(cells), *operations.typical(cells)]


def _slow(case: Case, rows: Material, bin_ns: int, bins: int) -> dict[str, list[list[int]]]:
    """Per layer: time bin, ns of it in which a slow operation was in flight, operations of the largest group there, the worst (ns)."""
    slow = rows.slow_from
    found: dict[str, list[list[int]]] = {}
    for row in case.rows(queries.covered(slow, bin_ns, bins)) if slow else []:
        numbers = [whole(row[name]) for name in ("time_bin", "covered_ns", "n", "worst_ns")]
        found.setdefault(str(row["layer"]), []).append(numbers)
    return found


def _phases(case: Case) -> list[list[Any]]:
    """Phases that do not count, to be shaded."""
    return [
        [str(phase.get("name")), whole(phase.get("start_ns")), whole(phase.get("end_ns"))]
        for phase in case.meta.get("phases") or []
        if phase.get("name") != "measure"
    ]


def _strips(rows: Material) -> list[dict[str, Any]]:
    """Marks below the heat map: start, length, text, layer (empty: all)."""
    strips = [
        _strip("silence", "gap", [_gap(row) for row in rows.gaps]),
        _strip("lost", "loss", [_loss(row) for row in rows.losses]),
        _strip("events", "event", [_event(row) for row in rows.events]),
    ]
    return [strip for strip in strips if strip["marks"]]


def _strip(name: str, color: str, marks: list[list[Any]]) -> dict[str, Any]:
    return {"name": name, "color": color, "marks": marks}


def _gap(row: Row) -> list[Any]:
    start, length = whole(row["start_ns"]), whole(row["duration_ns"])
    text = f"{falls.silence(row)} of {falls.thread(row)}: {words.duration(length)} from {units.moment(start)}"
    return [start, length, text, row["layer"]]


def _loss(row: Row) -> list[Any]:
    start, length = whole(row["start_ns"]), whole(row["end_ns"]) - whole(row["start_ns"])
    lost = "an unknown number" if row["lost"] is None else words.count(whole(row["lost"]))
    return [start, length, f"{row['probe']}: {lost} lost ({row['reason']})", ""]


def _event(row: Row) -> list[Any]:
    text = f"{row['kind']}: {row['subject'] or ''} {row['detail'] or ''}"
    return [whole(row["time_ns"]), 0, f"{text.strip()}, at {units.moment(whole(row['time_ns']))}", ""]


# -- the page -----------------------------------------------------------------------------------


def _page(case: Case, verdict: Verdict, rows: Material) -> str:
    """The whole document."""
    title = f"{verdict.case}: {said.STATUS_WORDS[verdict.status]} (whodisk)"
    return document(title, _body(case, verdict, rows), rows.pictures)


def _body(case: Case, verdict: Verdict, rows: Material) -> Markup:
    parts = [
        _verdict(case, verdict, rows),
        _findings(verdict, rows),
        _heatmap(rows),
        _nines(rows),
        _stages(case, verdict, rows),
        rows.tiers,
        _worst(case, rows),
        _unseen(case, verdict, rows),
        _recorded(case, rows),
    ]
    footer = tag("footer", f"whodisk {__version__}. Every number comes from the case “{verdict.case}”.")
    return tag(
        "div", _bar(verdict, rows), tag("main", *parts), footer, class_=f"page status-{verdict.status}"
    )


def _bar(verdict: Verdict, rows: Material) -> Markup:
    links = [("findings", "Findings", True), ("over-time", "Over time", "heatmap" in rows.pictures)]
    links += [
        ("by-nines", "By nines", "nines" in rows.pictures),
        ("by-stage", "Stages", bool(rows.thresholds)),
    ]
    links += [
        ("tiers", "Cache", rows.tiers is not None),
        ("worst-operations", "Worst", bool(rows.picks)),
        ("unseen", "Not seen", True),
        ("recorded", "Recording", True),
    ]
    nav = [tag("a", text, href=f"#{name}") for name, text, there in links if there]
    brand = tag("span", "whodisk", class_="brand")
    name = tag("span", verdict.case, class_="mono muted")
    return tag(
        "header",
        brand,
        name,
        tag("nav", *nav),
        tag("button", "Dark", type="button", id="theme"),
        class_="bar",
    )


def _verdict(case: Case, verdict: Verdict, rows: Material) -> Markup:
    slowest: dict[str, int] = {}
    for (layer, _op, _device), bins in rows.parts.items():
        slowest[layer] = max(slowest.get(layer, 0), bins.high_ns[-1])
    ranked = sorted(slowest.items(), key=lambda item: material.layer_rank(item[0]))
    facts = said.facts(case, rows.extent, rows.losses, ranked)
    return tag("div", said.verdict_head(verdict, _slow_times(case, rows)), facts, class_="verdict")


def _slow_times(case: Case, rows: Material) -> str:
    """From when to when slow operations were in flight, in the topmost layer that has some; empty where none has."""
    heat = rows.pictures.get("heatmap", {"slow": {}})
    layers = sorted(heat["slow"], key=material.layer_rank)
    if not layers:
        return ""
    bins = [row[0] for row in heat["slow"][layers[0]]]
    begin, end = (case.moment(number * heat["bin_ns"], 3) for number in (min(bins), max(bins) + 1))
    return f"slow operations from {begin} to {end}"


def _findings(verdict: Verdict, rows: Material) -> Markup:
    places = {
        index: [said.picture(number, one.title, drawn.lead, drawn.table) for number, one, drawn in drawn_ones]
        for index, drawn_ones in rows.figures.items()
    }
    children: list[Child] = [said.findings(verdict, places)]
    children += [tag("h3", "The slowest"), said.slowest_episodes(verdict)]
    if verdict.too_small:
        children += [
            tag("h3", "Too small to be the cause"),
            listing(((text, None) for text in verdict.too_small), ""),
        ]
    children += [tag("h3", "Cleared"), said.cleared(verdict)]
    if verdict.minor:
        below = listing(((text, None) for text in verdict.minor), "")
        children += [tag("h3", "Also observed, too small to blame"), below]
    return section("findings", "Findings", None, *children)


def _heatmap(rows: Material) -> Markup | None:
    if "heatmap" not in rows.pictures:
        return tag(
            "section", tag("h2", "Latency over time"), tag("p", "No operation was recorded.", class_="none")
        )
    lead = (
        "Each cell counts the operations that began in that moment and took that long. "
        "Every column also carries its slowest operation as a point. A click shows the operations behind it."
    )
    return section("over-time", "Latency over time", lead, _chart("heatmap"), _marks_note(rows))


def _marks_note(rows: Material) -> Markup:
    """Says in words what the strips below the heat map hold, and when there is none."""
    notes = []
    if rows.episodes:
        counted = ", ".join(
            f"{words.count(whole(row['episodes']))} in the {row['layer']} layer" for row in rows.episodes
        )
        notes.append(
            "The strip “slow” is as dark as the part of the time in which a slow operation (see the stages below) was in flight. "
            f"Those that overlap are one episode ({counted})."
        )
    else:
        notes.append("No operation stands out as slow.")
    if rows.gaps:
        notes.append(_silence_note(rows.gaps[0]))
    if len(rows.gaps) >= MARKS_MAX:
        notes.append(f"The {MARKS_MAX} longest silences are marked.")
    return tag("p", " ".join(notes), class_="lead", style="margin-top:8px")


def _silence_note(row: Row) -> str:
    total, meant = whole(row["gaps"]), whole(row["meant"])
    note = f"Silence: a thread had nothing in flight, {words.things(total, 'time')}, {words.duration(whole(row['silent_ns']))} in all"
    if meant == total:
        return note + "."
    return f"{note}. Of {words.count(total - meant)} it is not known whether the thread had work."


def _nines(rows: Material) -> Markup | None:
    if "nines" not in rows.pictures:
        return None
    lead = (
        "How many operations finished within a latency. Each step down is one more nine: "
        "the slowest of a million has as much room as the median."
    )
    return section("by-nines", "Distribution by nines", lead, _chart("nines"))


def _stages(case: Case, verdict: Verdict, rows: Material) -> Markup | None:
    if not rows.thresholds:
        return None
    lead = (
        "What an operation waits for. Slow: a group of its own beyond the others, or else the slowest 0.1 % "
        "if they take three medians. Typical: the middle half."
    )
    groups = [sections.where_time_goes(verdict), *sections.stage_groups(case, rows.classes, rows.thresholds)]
    return section(
        "by-stage",
        "Stages: slow against typical",
        lead,
        _legend(case, rows),
        tag("div", *groups, class_="stages"),
    )


def _legend(case: Case, rows: Material, beside: Iterable[str] = ()) -> Markup:
    names = [label for layer in case.layers for label in _labels(case, layer, rows)]
    return sections.legend(dict.fromkeys(names), beside)


def _labels(case: Case, layer: str, rows: Material) -> list[str]:
    seen = [row for row in rows.classes if row["layer"] == layer]
    return [
        case.stage_name(layer, stage) for stage in views.STAGES if any(row[f"{stage}_ns"] for row in seen)
    ]


def _worst(case: Case, rows: Material) -> Markup | None:
    if not rows.picks:
        return None
    lead = (
        "The slowest operations, one of each group that overlaps in time, and the longest silences. The first line "
        "shows the operation's stages one after the other; below it stand its requests where they really happened, "
        "the thread's silence (hatched), and what else the thread had in flight."
    )
    plot = tag(
        "div", tag("div", class_="plot", id="waterfall", role="figure"), said.no_script(), class_="chart"
    )
    table = sections.worst_table(case, rows.picks)
    beside = {
        bar[4] for fall in rows.pictures["waterfalls"] for row in fall["rows"] for bar in row.get("lane", [])
    }
    legend = _legend(case, rows, sorted(beside, key=material.op_rank))
    return section("worst-operations", "Worst operations", lead, table, legend, plot)


def _unseen(case: Case, verdict: Verdict, rows: Material) -> Markup:
    return section(
        "unseen",
        "Lost or not observed",
        "What this verdict cannot exclude, because it was not seen.",
        sections.unseen(case, verdict),
        sections.losses(case, rows.losses),
        sections.events(case, rows.events),
        sections.probes(case),
    )


def _recorded(case: Case, rows: Material) -> Markup:
    seen = {device for (_layer, _op, device) in rows.parts if device is not None}
    left = tag("div", tag("h3", "Recording"), sections.recording(case))
    right = tag("div", tag("h3", "System"), sections.system(case))
    both = tag("div", left, right, class_="two")
    return section("recorded", "How it was recorded", None, both, sections.devices(case, sorted(seen)))


def _chart(name: str) -> Markup:
    controls = tag("div", class_="controls", id=f"{name}-controls")
    return join(
        [
            controls,
            tag("div", tag("div", class_="plot", id=name, role="figure"), said.no_script(), class_="chart"),
        ]
    )
