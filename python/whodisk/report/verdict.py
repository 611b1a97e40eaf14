"""The report's first page: the verdict in five sentences, its numbers, the findings with their pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from whodisk import words
from whodisk.findings import CULPRIT_KINDS, Effect, Evidence, Expectation, Finding, Slowest, Verdict
from whodisk.reading.views import Case, Row
from whodisk.report import slowest, units
from whodisk.report.elements import pairs, table
from whodisk.report.markup import Child, Markup, join, tag
from whodisk.report.material import whole
from whodisk.report.sections import stage_class

STATUS_WORDS = {
    "healthy": "healthy",
    "slow": "slow",
    "outliers": "outliers",
    "limited": "limited",
    "insufficient": "not enough data",
}
#: Sentences of the verdict that are read at once; the rest opens.
SENTENCES_MAX = 5
#: A metric that no culprit changed.
SAME = {"with": 1.0, "without": 1.0}
#: Rows of evidence printed per query.
EVIDENCE_ROWS = 20


def verdict_head(verdict: Verdict, slow_times: str = "") -> Markup:
    """Status, headline, and a point each for what a reader asks first; the rest opens. `slow_times`: since when, and until when."""
    said = [sentence for text in verdict.summary for sentence in words.sentences(text)]
    first, *more = said or ["There is nothing to say about this case."]
    below = {text for finding in verdict.findings for text in (finding.refute, finding.remedy)}
    if verdict.status == "limited" and verdict.limit and verdict.limit.lower() not in " ".join(said).lower():
        more.insert(0, f"Limit: {verdict.limit}.")
    # What a person asked for comes before what they did not.
    unsaid = [
        _expectation(item) for item in verdict.expectations if item.sentence not in " ".join(verdict.summary)
    ]
    more = [*unsaid, *more, *(f"Next: {step}" for step in verdict.next_steps if step not in below)]
    status = STATUS_WORDS[verdict.status] + (" (simulated)" if verdict.simulated else "")
    parts: list[Child] = [tag("div", status, class_="status"), tag("h1", first)]
    points = _points(verdict, slow_times)
    if points:
        shown, rest = more[: len(unsaid)], more[len(unsaid) :]
        # What stands in the points already.
        claimed = {sentence for _, text in points for sentence in words.sentences(text)}
        claimed.update(f"{name} {text}" for name, text in points)
        claimed.update(f"Next: {text}" for _, text in points)
        rest = [sentence for sentence in rest if sentence not in claimed]
    else:
        shown, rest = more[: SENTENCES_MAX - 1], more[SENTENCES_MAX - 1 :]
    if shown:
        parts.append(tag("p", " ".join(shown), class_="more"))
    if points:
        items = [tag("li", tag("strong", name), " ", *_with_code(text)) for name, text in points]
        parts.append(tag("ul", *items, class_="more points"))
    if rest:
        opened = tag("p", " ".join(rest), class_="more")
        parts.append(tag("details", tag("summary", "more of the verdict"), opened, class_="rest"))
    return join(parts)


def _points(verdict: Verdict, slow_times: str) -> list[tuple[str, str]]:
    """What, how much, when, what to do, what is innocent: of the first finding; without one what sets the speed, how fast it is and where the
    time goes. Empty where nothing was judged."""
    cleared = words.cleared([item.what for item in verdict.cleared])
    innocent = ("Cleared:", f"{cleared}." if cleared else "")
    if not verdict.findings:
        if not verdict.speed:
            return []
        points = [
            ("What sets its speed:", f"{verdict.limit}." if verdict.limit else ""),
            *zip(("How fast:", "Where:"), verdict.speed, strict=True),
            ("What to do:", next(iter(verdict.next_steps), "")),
            innocent,
        ]
        return [(name, text) for name, text in points if text]
    first = verdict.findings[0]
    much = [
        f"{words.percent(share)} of {of}"
        for share, of in (
            (first.share_of_latency, "all latency"),
            (first.share_of_excess, "what slow operations lost"),
        )
        if share
    ]
    episodes = [words.things(first.episodes, "separate episode")] if first.episodes else []
    # The quantile that it makes most worse says most.
    tails = [name for name in ("p99", "p99.9", "p99.99") if _differ(first.worse.get(name, SAME))]
    tail = max(tails, key=lambda name: _factor(first.worse[name]), default=None)
    if tail:
        pair = first.worse[tail]
        episodes.append(
            f"{tail} {words.duration(pair['with'])} with it, {words.duration(pair['without'])} without"
        )
    when = [
        f"{slowest.when(verdict, item)} ({words.duration(item.latency_ns)})" for item in verdict.slowest[:3]
    ]
    times = [slow_times] if slow_times else []
    times += [f"the slowest at {', '.join(when)}"] if when else []
    points = [
        # What follows from it stands in the finding.
        ("What:", words.without_consequences(first.claim)[0]),
        ("How much:", "; ".join(["; ".join(much), *episodes]) + "." if much or episodes else ""),
        ("When:", f"{'; '.join(times)}." if times else ""),
        ("What to do:", verdict.next_steps[0] if verdict.failed_first else first.remedy),
        innocent,
    ]
    return [(name, text) for name, text in points if text]


def _factor(pair: Mapping[str, float]) -> float:
    return pair["with"] / max(1.0, pair["without"])


def _with_code(text: str) -> list[Child]:
    """What stands between backticks is a command."""
    return [tag("code", part) if number % 2 else part for number, part in enumerate(text.split("`"))]


def _expectation(item: Expectation) -> str:
    word = {True: "met", False: "not met", None: "cannot be judged"}[item.met]
    return f"Expectation {item.text}: {word}. {item.sentence}"


def facts(
    case: Case, extent: Sequence[Row], losses: Sequence[Row], slowest: Sequence[tuple[str, int]]
) -> Markup:
    """The numbers one asks for first."""
    items: list[tuple[str, str, str]] = []
    if case.duration_ns:
        items.append(("recorded", words.duration(case.duration_ns), case.began))
    for row in extent:
        size = words.size(whole(row["size_bytes"])) if row["size_bytes"] else ""
        items.append((f"{row['layer']} operations", words.count(whole(row["n"])), size))
    items += [(f"slowest, {layer}", words.duration(latency), "") for layer, latency in slowest]
    items.append(("events lost", _lost(losses), ""))
    for name in ("open", "errors"):
        total = sum(whole(row[name]) for row in extent)
        if total:
            items.append(({"open": "unfinished", "errors": "I/O errors"}[name], words.count(total), ""))
    boxes = [tag("div", tag("dt", a), tag("dd", b, c and tag("small", c))) for a, b, c in items]
    return tag("dl", *boxes, class_="facts")


def _lost(losses: Sequence[Row]) -> str:
    if not losses:
        return "none"
    known = sum(whole(row["lost"]) for row in losses)
    return words.count(known) + (" and more" if any(row["lost"] is None for row in losses) else "")


def findings(verdict: Verdict, pictures: Mapping[int, Sequence[Child]]) -> Markup:
    """Findings that open to their pictures (by the finding's number) and their evidence."""
    if not verdict.findings:
        return tag("p", "No culprit was found.", class_="none")
    return join(
        [
            _finding(finding, pictures.get(index, ()), index == 0)
            for index, finding in enumerate(verdict.findings)
        ]
    )


def picture(number: int, title: str, lead: str, more: Child) -> Markup:
    """The place of a picture; the script draws it when it comes to be seen."""
    about = tag("figcaption", tag("strong", title), " ", lead)
    plot = tag(
        "div",
        tag("div", class_="plot", role="img", aria_label=f"{title}. {lead}"),
        no_script(),
        class_="chart",
    )
    return tag("figure", about, plot, more, class_="picture", data_figure=str(number))


def no_script() -> Markup:
    """What stands in a picture's place where scripts do not run."""
    return tag("noscript", tag("p", "This picture needs JavaScript; all of it is in this file."))


def _finding(finding: Finding, pictures: Sequence[Child], opened: bool) -> Markup:
    effect = tag(
        "span", effect_value(finding.effect), tag("small", _effect_note(finding.effect)), class_="effect"
    )
    claim, *consequences = words.without_consequences(finding.claim)
    summary = tag("summary", tag("span", claim, class_="claim"), effect)
    culprit = f"{finding.culprit.kind} {finding.culprit.name}"
    if finding.culprit.because_of:
        culprit += f", because of {_spoken(finding.culprit.because_of)}"
    known = pairs(
        [
            ("culprit", culprit),
            ("consequence", [tag("p", text) for text in consequences] or None),
            ("share of the excess", _share_bar(finding)),
            ("of all latency", units.share(finding.share_of_latency) if finding.share_of_latency else None),
            ("compared with", finding.baseline),
            ("with and without it", _with_and_without(finding)),
            ("evidence", [_evidence(item) for item in finding.evidence]),
            ("strength", _strength(finding)),
            ("would be refuted by", finding.refute),
            ("what to do", finding.remedy),
        ]
    )
    body = tag("div", *pictures, known, class_="body")
    return tag("details", summary, body, class_="finding", open=opened)


def effect_value(effect: Effect) -> str:
    """'30.1 ms' or '40.1 x peers'."""
    return units.quantity(effect.value, effect.unit)


def _effect_note(effect: Effect) -> str:
    if effect.low is None or effect.high is None:
        return effect.metric
    low, high = units.quantity(effect.low, effect.unit), units.quantity(effect.high, effect.unit)
    return f"{effect.metric}, 95 %: {low} to {high}"


def _spoken(name: str) -> str:
    """'device nvme0n1' out of 'device:nvme0n1'."""
    kind, colon, rest = name.partition(":")
    return f"{kind} {rest}" if colon and kind in CULPRIT_KINDS else name


def _share_bar(finding: Finding) -> Markup:
    part = min(1.0, max(0.0, finding.share_of_excess))
    bar = tag("span", tag("i", style=f"width:{part * 100:.2f}%"), class_="share")
    note = ""
    if finding.share_low is not None and finding.share_high is not None:
        note = f" (95 %: {units.share(finding.share_low)} to {units.share(finding.share_high)})"
    return join([bar, units.share(finding.share_of_excess), note])


def _with_and_without(finding: Finding) -> Child:
    """Quantiles and throughput as they are, beside those of the same operations without the culprit, as a table with bars."""
    rows = [(name, pair["with"], pair["without"]) for name, pair in finding.worse.items() if _differ(pair)]
    if not rows:
        return None
    longest = max((max(a, b) for name, a, b in rows if name != "throughput"), default=1.0)

    def cell(name: str, value: float, style: str) -> Child:
        if name == "throughput":
            return f"{words.rate(value)}/s"
        bar = tag("span", tag("i", style=f"width:{100 * value / longest:.2f}%"), class_=f"share {style}")
        return join([bar, words.duration(value)])

    body = [
        (name, cell(name, a, "with"), cell(name, b, "without"), _times(name, a, b)) for name, a, b in rows
    ]
    return table(("", "with it", "without it", ""), body, fit=True)


def _differ(pair: Mapping[str, float]) -> bool:
    """Whether two numbers differ by more than what is printed of them."""
    return abs(pair["with"] - pair["without"]) > 0.005 * max(pair["with"], pair["without"])


def _times(name: str, with_it: float, without: float) -> str:
    """How many times as long, or how much less throughput."""
    if min(with_it, without) <= 0:
        return ""
    if name == "throughput":
        return f"{words.percent(abs(1 - with_it / without))} {'less' if with_it < without else 'more'}"
    return f"x {words.significant(with_it / without)}"


def _strength(finding: Finding) -> str:
    episodes = words.things(finding.episodes, "independent episode")
    strength = "measured" if finding.q_value is None else f"{finding.basis}, q = {finding.q_value:.2g}"
    return f"{episodes}, {strength}, detector {finding.detector}"


def _evidence(item: Evidence) -> Markup:
    """One fact that opens to its rows and its query."""
    body: list[Child] = []
    if item.rows:
        head = list(item.rows[0])
        numeric = [i for i, name in enumerate(head) if _numeric([row.get(name) for row in item.rows])]
        rows = [[_cell(name, row.get(name)) for name in head] for row in item.rows[:EVIDENCE_ROWS]]
        body.append(table([_heading(name) for name in head], rows, numbers=numeric))
        if len(item.rows) > EVIDENCE_ROWS:
            body.append(tag("p", f"and {len(item.rows) - EVIDENCE_ROWS} more rows", class_="muted"))
    if item.query:
        copy = tag("button", "Copy", type="button", data_copy=True)
        body.append(tag("div", tag("pre", item.query), copy, class_="query"))
    return tag("details", tag("summary", item.what), *body, class_="evidence")


def _heading(name: str) -> str:
    """A column's name in words; a unit that the cells print is left out."""
    return name.removesuffix("_ns").removesuffix("_bytes").replace("_", " ")


def _numeric(values: Sequence[Any]) -> bool:
    """Whether a column holds numbers and nothing else; unobserved ones do not count."""
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in there)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "not observed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if name.endswith("_ns"):
        return words.duration(value)
    if name.endswith("_bytes"):
        return words.size(value)
    if name.endswith("id"):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def slowest_episodes(verdict: Verdict) -> Markup:
    """The slowest episodes, those that stand apart first; what fired a flight recorder's trigger above them."""
    fired = [tag("p", said) for said in verdict.fired]
    if not verdict.slowest:
        return join([*fired, tag("p", "No operation was recorded.", class_="none")])
    longest = max(item.latency_ns for item in verdict.slowest)
    rows = []
    for item, (at, took, number, held, meanwhile) in zip(verdict.slowest, slowest.rows(verdict), strict=True):
        apart = tag("small", "stands apart") if item.apart else None
        rows.append(
            (
                at,
                took,
                join([number, apart]),
                join([_episode_bar(item, longest, at), tag("small", held)]),
                meanwhile,
            )
        )
    lead = tag(
        "p",
        "Bars share one scale. The coloured part is the stage that held the episode; a click shows its operations.",
        class_="lead",
    )
    return join([*fired, lead, tag("div", table(slowest.HEAD, rows, numbers=(0, 1)), class_="episodes")])


def _episode_bar(item: Slowest, longest_ns: int, at: str) -> Markup:
    """The length of an episode among the longest, and how much of it one stage held."""
    held = min(1.0, item.stage_ns / max(1, item.latency_ns))
    stage = stage_class(item.stage)
    parts = [
        tag(
            "i",
            class_=stage,
            style=f"width:{100 * held:.2f}%",
            title=f"{item.stage}: {words.duration(item.stage_ns)}",
        ),
        tag("i", class_="elsewhere", style=f"width:{100 * (1 - held):.2f}%"),
    ]
    behind: dict[str, Any] = {
        "op_id": [str(op_id) for op_id in item.op_ids],
        "n": len(item.op_ids),
        "title": f"the longest of the episode at {at}",
    }
    asked = json.dumps(behind, sort_keys=True) if item.op_ids else None
    label = f"{words.duration(item.latency_ns)}, of which {words.duration(item.stage_ns)} in {item.stage}"
    return tag(
        "div",
        *parts,
        class_="stack",
        style=f"width:{max(1.0, 100 * item.latency_ns / max(1, longest_ns)):.2f}%",
        data_behind=asked,
        role="button" if asked else "img",
        tabindex=asked and "0",
        aria_label=label,
    )


def cleared(verdict: Verdict) -> Markup:
    """What is innocent, and how well that is known."""
    rows = [
        (
            _spoken(item.what),
            item.bound,
            f"{words.quantile(item.quantile)} of {item.unit}",
            f"{item.confidence * 100:.4g} %",
            item.resolution,
        )
        for item in verdict.cleared
    ]
    head = ("cleared", "bound", "holds in", "confidence", "finest step")
    return (
        table(head, rows, numbers=(2, 3, 4)) if rows else tag("p", "Nothing could be cleared.", class_="none")
    )
