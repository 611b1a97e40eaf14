"""The report's sections that are text: stages, tables. Every function gives escaped HTML."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from whodisk import words
from whodisk.findings import Verdict
from whodisk.reading.changes import changes_of
from whodisk.reading.views import STAGES, Case, Row
from whodisk.report import units
from whodisk.report.elements import listing, pairs, table
from whodisk.report.falls import Pick, silence, thread, what, where
from whodisk.report.markup import Child, Markup, join, tag
from whodisk.report.material import Threshold, whole

#: Devices listed in the table of the system.
DEVICES_LISTED = 24
#: The narrowest part of a stage bar that still carries its name, in percent.
LABEL_FROM = 12

# -- stages -------------------------------------------------------------------------------------


def where_time_goes(verdict: Verdict) -> Markup | None:
    """Share of all latency per stage and kind, as the verdict says it."""
    rows = [
        _stage_row(
            op, "all its latency", [(name, stages[name], "") for name in sorted(stages, key=_stage_rank)]
        )
        for op, stages in verdict.where_time_goes.items()
        if stages
    ]
    return tag("div", tag("h3", "Where all the time goes"), *rows, class_="group") if rows else None


def _stage_row(
    who: str, note: str, parts: Sequence[tuple[str, float, str]], behind: dict[str, Any] | None = None
) -> Markup:
    """One stacked bar; `parts`: printed stage name, share, what the label adds. A click shows the operations `behind` it."""
    blocks = [
        tag(
            "i",
            f"{name} {units.share(part)}" if part * 100 >= LABEL_FROM else "",
            class_=stage_class(name),
            style=f"width:{part * 100:.3f}%",
            title=f"{name}: {units.share(part)}{text and ', '}{text}",
        )
        for name, part, text in parts
        if part > 0
    ]
    label = tag("div", who, tag("small", note), class_="who")
    asked = None if behind is None else json.dumps(behind, sort_keys=True)
    stack = tag(
        "div", *blocks, class_="stack", data_behind=asked, role=asked and "button", tabindex=asked and "0"
    )
    return tag("div", label, stack, class_="row")


def stage_class(name: str) -> str:
    """Style of a printed stage name; a merged one has the colour of its first stage."""
    first = name.split("+", maxsplit=1)[0].strip()
    return first if first in STAGES else "unknown"


def _stage_rank(name: str) -> tuple[int, str]:
    first = stage_class(name)
    return STAGES.index(first), name


def stage_groups(case: Case, classes: Sequence[Row], thresholds: Sequence[Threshold]) -> list[Markup]:
    """Per layer and kind: the slow operations against the typical ones."""
    by_key = {(row["layer"], row["op"], row["class"]): row for row in classes}
    return [
        _stage_group(
            case, one, by_key.get((one.layer, one.op, "slow")), by_key.get((one.layer, one.op, "typical"))
        )
        for one in thresholds
    ]


def _stage_group(case: Case, one: Threshold, slow: Row | None, typical: Row | None) -> Markup:
    rows: list[Child] = [
        _class_row(case, one, name, row)
        for name, row in (("slow", slow), ("typical", typical))
        if row is not None
    ]
    note = f"{one.layer} layer"
    if slow is None:
        text = f"None stands out as slow; the median is {words.duration(one.median_ns)}."
        rows.append(tag("p", text, class_="none"))
    elif typical is not None:
        note += f", {words.duration(_each(slow))} against {words.duration(_each(typical))} per operation"
        rows += [_excess_row(case, one, slow, typical), _stage_table(case, one.layer, slow, typical)]
    return tag("div", tag("h3", words.plural_op(one.op), tag("small", note)), *rows, class_="group")


def _each(row: Row, column: str = "latency_ns") -> float:
    return whole(row[column]) / whole(row["n"])


def _excess_row(case: Case, one: Threshold, slow: Row, typical: Row) -> Markup | None:
    """Which stages hold what slow operations take longer; a stage that was shorter has no part."""
    more = {
        (stage, label): max(0.0, _each(slow, f"{stage}_ns") - _each(typical, f"{stage}_ns"))
        for stage, label in observed_stages(case, one.layer, slow)
    }
    if not more:
        return None
    total = sum(more.values()) or 1.0
    parts = [
        (label, ns / total, f"{words.duration(ns)} more per operation") for (_, label), ns in more.items()
    ]
    note = f"{words.duration(_each(slow) - _each(typical))} more per operation"
    return _stage_row("the difference", note, parts)


def _class_row(case: Case, one: Threshold, name: str, row: Row) -> Markup:
    total = max(1, whole(row["latency_ns"]))
    parts = []
    for stage, label in observed_stages(case, one.layer, row):
        time = whole(row[f"{stage}_ns"])
        parts.append((label, time / total, f"{words.duration(time / whole(row['n']))} per operation"))
    note = f"{words.count(whole(row['n']))}, {words.duration(whole(row['low_ns']))} to {words.duration(whole(row['high_ns']))}"
    behind = {
        "layer": one.layer,
        "op": one.op,
        "latency_ns": [whole(row["low_ns"]), whole(row["high_ns"]) + 1],
        "n": whole(row["n"]),
        "title": f"{name} {words.plural_op(one.op)} of the {one.layer} layer",
    }
    if name == "typical":
        behind["near_ns"] = one.median_ns
    return _stage_row(name, note, parts or [("stages not observed", 1.0, "")], behind)


def observed_stages(case: Case, layer: str, row: Row) -> list[tuple[str, str]]:
    """Stages that were observed in these rows, with their printed names."""
    return [(stage, case.stage_name(layer, stage)) for stage in STAGES if row[f"{stage}_ns"] is not None]


def _stage_table(case: Case, layer: str, slow: Row, typical: Row) -> Markup:
    """Stage times per operation, and which stage holds the difference."""
    excess = _each(slow) - _each(typical)
    rows: list[Sequence[Child]] = []
    for stage, label in observed_stages(case, layer, slow):
        a, b = _each(typical, f"{stage}_ns"), _each(slow, f"{stage}_ns")
        part = (b - a) / excess if excess else 0.0
        key = tag("span", class_=f"key {stage}")
        rows.append(
            ([key, label], words.duration(a), words.duration(b), words.duration(b - a), units.share(part))
        )
    head = ("stage, per operation", "typical", "slow", "difference", "of the excess")
    return tag("details", tag("summary", "numbers"), table(head, rows, numbers=(1, 2, 3, 4), fit=True))


def legend(names: Iterable[str], beside: Iterable[str] = ()) -> Markup:
    """Colours of the stages that occur, and of the kinds of operations drawn beside."""
    items = [tag("span", tag("span", class_=f"key {stage_class(name)}"), name) for name in names]
    items += [
        tag("span", tag("span", class_="key beside", style=f"background:var(--op-{op})"), f"beside it: {op}")
        for op in beside
    ]
    return tag("div", *items, class_="legend")


# -- worst operations ---------------------------------------------------------------------------


def worst_table(case: Case, picks: Sequence[Pick]) -> Markup:
    """One row per waterfall."""
    head = ("latency", "what", "layer", "began at", "thread", "place", "others with it", "stages")
    cells = [tag("th", name, class_="num" if i in {0, 6} else None) for i, name in enumerate(head)]
    rows = [_worst_row(case, pick, index) for index, pick in enumerate(picks)]
    inner = tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *rows))
    return tag("div", inner, class_="worst scroll", id="worst", tabindex="0")


def _worst_row(case: Case, pick: Pick, index: int) -> Markup:
    latency = tag("button", words.duration(pick.length_ns), type="button")
    at_least = "≥ " if not pick.silence and pick.row["open"] else ""
    others = words.count(pick.alike) if pick.alike else ""
    row: tuple[Child, ...] = (
        f"{silence(pick.row)}: nothing in flight" if pick.silence else what(pick.row),
        pick.layer,
        case.moment(pick.start_ns, 3),
        thread(pick.row),
        "" if pick.silence else where(pick.row),
        others,
        _mini_stages(case, pick),
    )
    cells = [
        tag("td", at_least, latency, class_="num"),
        *(tag("td", cell, class_="num" if i == 5 else None) for i, cell in enumerate(row)),
    ]
    return tag("tr", *cells, data_waterfall=str(index), aria_selected="false")


def _mini_stages(case: Case, pick: Pick) -> Markup | None:
    if pick.silence:
        return None
    total = max(1, pick.length_ns)
    blocks = [
        tag(
            "i",
            class_=stage,
            style=f"width:{whole(pick.row[f'{stage}_ns']) / total * 100:.2f}%",
            title=f"{label}: {words.duration(whole(pick.row[f'{stage}_ns']))}",
        )
        for stage, label in observed_stages(case, pick.layer, pick.row)
        if whole(pick.row[f"{stage}_ns"]) > 0
    ]
    return tag("div", *blocks, class_="stack")


# -- what was not seen, and how it was recorded -------------------------------------------------


def unseen(case: Case, verdict: Verdict) -> Markup:
    """What cannot be excluded, what was not observed or carried over, open questions."""
    items: list[tuple[str, str | None]] = [(item.what, item.because) for item in verdict.cannot_exclude]
    known = {text for text, _ in items}
    for key in ("not_observed", "not_carried"):
        for item in case.meta.get(key) or []:
            if item.get("what") not in known:
                items.append((str(item.get("what")), str(item.get("because"))))
    items += [(str(question), None) for question in case.meta.get("open_questions") or []]
    return listing(items, "Nothing: every layer that was asked for was observed, and nothing was lost.")


def losses(case: Case, rows: Sequence[Row]) -> Markup | None:
    """Lost events, when and why."""
    if not rows:
        return None
    body = [
        (
            str(row["probe"]),
            "unknown" if row["lost"] is None else words.count(whole(row["lost"])),
            case.moment(whole(row["start_ns"]), 3),
            case.moment(whole(row["end_ns"]), 3),
            str(row["reason"]),
        )
        for row in rows
    ]
    more = whole(rows[0]["losses"]) - len(rows)
    note = tag("p", f"and {words.count(more)} more", class_="muted") if more > 0 else None
    return join(
        [
            tag("h3", "Lost"),
            table(("probe", "lost", "from", "to", "reason"), body, numbers=(1, 2, 3), fit=True),
            note,
        ]
    )


def events(case: Case, rows: Sequence[Row]) -> Markup | None:
    """Errors, requeues, setting changes."""
    if not rows:
        return None
    body = [
        (
            case.moment(whole(row["time_ns"]), 3),
            str(row["kind"]),
            str(row["subject"] or ""),
            str(row["detail"] or ""),
        )
        for row in rows
    ]
    more = whole(rows[0]["events"]) - len(rows)
    note = tag("p", f"and {words.count(more)} more", class_="muted") if more > 0 else None
    return join(
        [tag("h3", "Events"), table(("at", "kind", "subject", "detail"), body, numbers=(0,), fit=True), note]
    )


def probes(case: Case) -> Markup | None:
    """Each probe's account."""
    body = [
        (
            name,
            ", ".join(str(hook) for hook in probe.get("attached") or []),
            words.count(whole(probe.get("received"))),
            words.count(whole(probe.get("lost"))),
            f"{words.count(whole(probe.get('own_excluded')))} ({words.size(whole(probe.get('own_excluded_bytes')))})",
        )
        for name, probe in sorted((case.meta.get("probes") or {}).items())
    ]
    head = ("probe", "hooks", "received", "lost", "own I/O left out")
    return join([tag("h3", "Probes"), table(head, body, numbers=(2, 3, 4))]) if body else None


def recording(case: Case) -> Markup:
    """How the case was made."""
    meta, clock = case.meta, case.meta.get("clock") or {}
    layers = [
        f"{name}: {words.things(whole(layer.get('rows')), 'row')}, joined to the layer below: {layer.get('join') or 'none'}"
        for name, layer in sorted((meta.get("layers") or {}).items())
    ]
    return pairs(
        [
            ("observer", f"{meta.get('observer')}, whodisk {meta.get('tool_version')}"),
            ("command line", tag("span", shlex.join(str(a) for a in meta.get("argv") or []), class_="mono")),
            ("observed command", _observed(meta)),
            ("start", case.began or "not known"),
            ("duration", words.duration(case.duration_ns) if case.duration_ns else "not known"),
            ("clock", f"{clock.get('name')}, finest step {words.duration(case.resolution_ns)}"),
            ("phases", "; ".join(_phase(phase) for phase in meta.get("phases") or [])),
            ("layers", [tag("div", line) for line in layers]),
            ("workload", _workload(meta.get("workload"))),
        ]
    )


def _observed(meta: dict[str, Any]) -> Child:
    command = shlex.join(str(part) for part in meta.get("command") or [])
    status = f" ({meta['command_status']})" if meta.get("command_status") else ""
    return [tag("span", command, class_="mono"), status] if command else None


def _phase(phase: dict[str, Any]) -> str:
    start, end = whole(phase.get("start_ns")), whole(phase.get("end_ns"))
    return f"{phase.get('name')}: {units.moment(start)} to {units.moment(end)}"


def _workload(workload: Any) -> Markup | None:
    if not workload:
        return None
    text = json.dumps(workload, indent=1, sort_keys=True, ensure_ascii=False)
    return tag("details", tag("summary", "specification and summary"), tag("pre", text), class_="evidence")


def system(case: Case) -> Markup:
    """The host, in a line or two."""
    facts = case.system
    if not facts:
        return tag("p", "system.json is absent.", class_="none")
    memory = facts.get("memory_bytes")
    return pairs(
        [
            ("host", str(facts.get("host") or "")),
            ("kernel", str(facts.get("kernel") or "")),
            ("CPUs", f"{facts.get('cpus')} × {facts.get('cpu_model') or 'unknown model'}"),
            ("memory", words.size(memory) if memory else None),
            ("virtualization", str(facts.get("virtualization") or "")),
            ("changed meanwhile", [tag("div", change.sentence) for change in changes_of(facts)]),
        ]
    )


def devices(case: Case, seen: Sequence[str]) -> Markup | None:
    """The devices that were seen at work; all of them if none was."""
    known = case.system.get("devices") or {}
    names = [name for name in sorted(known) if name in seen]
    names = names or [name for name in sorted(known) if known[name].get("size_bytes")]
    if not names:
        return None
    body = [_device(name, known[name]) for name in names[:DEVICES_LISTED]]
    more = len(names) - DEVICES_LISTED
    note = tag("p", f"and {more} more devices", class_="muted") if more > 0 else None
    head = (
        "device",
        "size",
        "rotates",
        "scheduler",
        "requests",
        "largest request",
        "read ahead",
        "write cache",
        "facts",
    )
    return join([tag("h3", "Devices"), table(head, body, numbers=(1, 4, 5, 6)), note])


def _device(name: str, device: dict[str, Any]) -> tuple[Child, ...]:
    queue, known = device.get("queue") or {}, device.get("facts") or {}
    rotates = {"0": "no", "1": "yes"}.get(str(queue.get("rotational")), "")
    return (
        name,
        words.size(device["size_bytes"]) if device.get("size_bytes") else "",
        rotates,
        words.in_use(str(queue.get("scheduler") or "")),
        str(queue.get("nr_requests") or ""),
        _kib(queue.get("max_sectors_kb")),
        _kib(queue.get("read_ahead_kb")),
        str(queue.get("write_cache") or ""),
        ", ".join(f"{key} {value}" for key, value in sorted(known.items()) if value),
    )


def _kib(value: Any) -> str:
    return words.size(int(value) * 1024) if str(value or "").isdigit() else ""
