"""The report without a browser: its bytes, its numbers, its escaping."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whodisk import findings
from whodisk.errors import WhodiskError
from whodisk.reading.views import Case
from whodisk.report import document, html, material, queries
from whodisk.report import verdict as said
from whodisk.report.markup import script_json, tag
from whodisk.report.units import quantity, share

# Cases are solved once for several tests.
pytestmark = pytest.mark.xdist_group("report")

ASSETS = Path(html.__file__).parent / "assets"


@pytest.fixture(scope="module")
def synth() -> ModuleType:
    """`tests/synth.py`."""
    if "synth" not in sys.modules:
        spec = importlib.util.spec_from_file_location("synth", Path(__file__).parents[1] / "synth.py")
        assert spec is not None and spec.loader is not None
        sys.modules["synth"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["synth"])
    return sys.modules["synth"]


@pytest.fixture(scope="module")
def case_dir(synth: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 of 500 operations takes 20 ms in the device."""
    path = tmp_path_factory.mktemp("cases") / "case"
    simulation = synth.Simulation(seed=2, workers=2, depth=8, seconds=2, read_share=0.6)
    written: Path = simulation.tail("device", 0.002, 20).write(path)
    return written


@pytest.fixture(scope="module")
def gathered(case_dir: Path) -> html.Material:
    """What the report of that case is drawn from."""
    with Case(case_dir) as case:
        return html.gather(case)


@pytest.fixture(scope="module")
def report(case_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its report, alone in a directory."""
    html.write(case_dir, VERDICT, written := tmp_path_factory.mktemp("report") / "report.html")
    return written


VERDICT = findings.Verdict("case", "healthy", ["All is well."], {"read": {"device": 1.0}}, 10)


FINDING = findings.Finding(
    detector="stage_blame",
    culprit=findings.Culprit("stage", "device", None),
    claim="Reads wait in the device",
    baseline="typical reads",
    effect=findings.Effect("stage time", 30e6, "ns", 29e6, 31e6),
    share_of_excess=0.98,
    q_value=1e-9,
    episodes=112,
    evidence=[],
    refute="",
    remedy="",
)


def test_a_file_that_is_not_there_is_no_failed_operation(synth: ModuleType, tmp_path: Path) -> None:
    """A program looks for its files in vain: 2 (ENOENT). What storage failed at is 5 (EIO), also of an open."""
    columns = {
        "op_id": list(range(40)),
        "start_ns": list(range(40)),
        "latency_ns": 900,
        "op": ["other"] * 27 + ["read"] * 13,
        "error": [2] * 26 + [5] + [5] * 3 + [0] * 10,
    }
    synth.write_case(tmp_path / "case", syscall=columns)
    with Case(tmp_path / "case") as case:
        extent = case.rows(queries.extent())
        assert [row["errors"] for row in extent] == [4]
        assert "I/O errors" in str(said.facts(case, extent, [], []))


def test_same_case_same_bytes(case_dir: Path, report: Path, tmp_path: Path) -> None:
    html.write(case_dir, VERDICT, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == report.read_bytes()
    for folder, name in ((tmp_path, "again"), (report.parent, report.name)):
        assert [path.name for path in folder.iterdir()] == [name], "no draft is left"


def test_size(report: Path) -> None:
    assert report.stat().st_size < 7_000_000


def test_an_unwritable_place_is_an_error_with_its_name(synth: ModuleType, tmp_path: Path) -> None:
    synth.write_case(tmp_path / "case", app={"op_id": [1], "start_ns": [0], "latency_ns": [5]})
    with pytest.raises(WhodiskError, match=r"absent/report\.html: the report could not be written"):
        html.write(tmp_path / "case", VERDICT, tmp_path / "absent" / "report.html")


def test_pictures_hold_every_operation(case_dir: Path, gathered: html.Material) -> None:
    rows = gathered
    with Case(case_dir) as case:
        exact = {
            row["layer"]: row["n"] for row in case.rows("SELECT layer, count(*) AS n FROM ops GROUP BY 1")
        }
        slowest = case.rows("SELECT max(latency_ns) AS worst FROM app_ops")[0]["worst"]
    heat = rows.pictures["heatmap"]
    for layer, number in exact.items():
        series = [one for one in heat["series"] if one["layer"] == layer]
        assert sum(sum(run[2:]) for one in series for run in one["runs"]) == number
        lines = [row for row in rows.pictures["nines"] if row["layer"] == layer and row["device"] is None]
        assert sum(row["ops"] for row in lines) == number
    assert rows.pictures["waterfalls"][0]["latency_ns"] == slowest
    assert max(row["latency_ns"][-1] for row in rows.pictures["nines"] if row["layer"] == "app") == slowest


def test_the_strip_slow_is_as_dark_as_the_time_is_covered(case_dir: Path, gathered: html.Material) -> None:
    """The time in which a slow operation was in flight, per time bin: the union of their intervals, taken one by one."""
    rows = gathered
    with Case(case_dir) as case:
        limits = {op: limit for layer, op, limit in rows.slow_from if layer == "app"}
        slow = " OR ".join(f"(op = '{op}' AND latency_ns >= {limit})" for op, limit in limits.items())
        found = case.arrays(f"SELECT start_ns, latency_ns FROM app_ops WHERE {slow} ORDER BY start_ns")
    heat = rows.pictures["heatmap"]
    spans: list[list[int]] = []
    for begin, latency in zip(found["start_ns"].tolist(), found["latency_ns"].tolist(), strict=True):
        if spans and begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], begin + latency)
        else:
            spans.append([begin, begin + latency])
    assert spans
    assert sum(one[1] for one in heat["slow"]["app"]) == sum(end - begin for begin, end in spans)
    assert all(0 < one[1] <= heat["bin_ns"] for one in heat["slow"]["app"])
    assert max(one[3] for one in heat["slow"]["app"]) == max(found["latency_ns"].tolist())


def test_typical_operations_are_carried(case_dir: Path, gathered: html.Material) -> None:
    """A few of each class of latency, also where thousands are alike."""
    with Case(case_dir) as case:
        median = float(case.arrays("SELECT median(latency_ns) AS m FROM app_ops WHERE op = 'read'")["m"][0])
    kept = gathered.pictures["operations"]
    numbers, layers, ops = kept["numbers"], kept["texts"]["layer"], kept["texts"]["op"]
    near = [
        start
        for start, latency, layer, op in zip(
            numbers["start_ns"], numbers["latency_ns"], layers["at"], ops["at"], strict=True
        )
        if (layers["names"][layer], ops["names"][op]) == ("app", "read") and 0.9 < latency / median < 1.1
    ]
    assert len(near) >= 5
    assert max(near) - min(near) > 10**9, "of the whole recording"


def test_curve_counts_are_exact(case_dir: Path, gathered: html.Material) -> None:
    """Every point of the distribution: that many operations are slower, counted one by one."""
    line = next(r for r in gathered.pictures["nines"] if (r["layer"], r["op"]) == ("app", "read"))
    with Case(case_dir) as case:
        latency = case.arrays("SELECT latency_ns FROM measured WHERE layer = 'app' AND op = 'read'")[
            "latency_ns"
        ]
    points = list(zip(line["latency_ns"], line["above"], strict=True))
    for limit, above in points[1:-2]:
        assert int((latency > limit).sum()) == above
    assert points[0] == (latency.min(), len(latency))
    assert points[-1] == (latency.max(), 0)


def test_waterfall_of_a_joined_operation_has_its_request(gathered: html.Material) -> None:
    rows = gathered
    operation, request, *_ = rows.pictures["waterfalls"][0]["rows"]
    assert operation["label"].startswith("app: ")
    assert request["label"].startswith("nvme0n1: ")
    assert sum(bar["length_ns"] for bar in operation["bars"]) == rows.pictures["waterfalls"][0]["latency_ns"]
    assert [bar["color"] for bar in request["bars"]] == ["stage-queue", "stage-device", "stage-interrupt"]


def test_slow_against_typical_finds_the_tail(gathered: html.Material) -> None:
    slow = {(row["layer"], row["op"]): row for row in gathered.classes if row["class"] == "slow"}
    for row in slow.values():
        assert int(str(row["low_ns"])) > 19_000_000
    assert set(slow) == {(layer, op) for layer in ("app", "block") for op in ("read", "write")}


def test_a_silence_nobody_vouches_for_is_presumed(synth: ModuleType, tmp_path: Path) -> None:
    """Known silences come first, however short; the others are called presumed."""
    gap = {"layer": "app", "tid": 4300, "comm": "a", "state": "unobserved", "start_ns": 0}
    gaps = [
        {**gap, "duration_ns": 10**9, "meant_busy": False},
        {**gap, "duration_ns": 10**6, "meant_busy": True},
    ]
    synth.write_case(tmp_path / "case", app={"op_id": [1], "start_ns": [0], "latency_ns": [5]}, gaps=gaps)
    with Case(tmp_path / "case") as case:
        text = html.render(case, VERDICT)
        lengths = [pick.length_ns for pick in html.gather(case).picks if pick.silence]
    assert lengths == [10**6, 10**9]
    assert (
        text.count(">silence: nothing in flight<") == text.count(">presumed silence: nothing in flight<") == 1
    )
    assert "Of 1 it is not known whether the thread had work." in text


def test_the_slowest_are_on_the_page() -> None:
    slowest = [
        findings.Slowest(
            1_234_000_000, 71_500_000, 7, "write", "fs", 71_300_000, "a <stop>", True, True, "sda"
        ),
        findings.Slowest(
            2_000_000_000, 5_000_000, 0, "write", "app", 5_000_000, "its thread slept", False, False, ""
        ),
    ]
    fired = ["What fired the trigger 'latency > 50ms', a write at 1.234 s, took 71.5 ms."]
    page = said.slowest_episodes(
        findings.Verdict("case", "outliers", ["."], {}, 10, slowest=slowest, fired=fired)
    )
    for text in ("1.234 s", "71.5 ms", "7 writes", "fs 71.3 ms", "a &lt;stop&gt;", "stands apart"):
        assert text in page
    assert "silence" in page and "perhaps: its thread slept" in page
    assert page.index("What fired") < page.index("1.234 s</td>")


def test_quantiles_with_and_without_the_culprit() -> None:
    worse = {"p50": {"with": 100.0, "without": 100.2}, "p99": {"with": 30e6, "without": 1e6}}
    worse["throughput"] = {"with": 900.0, "without": 1000.0}
    finding = replace(FINDING, worse=worse)
    page = said.findings(replace(VERDICT, findings=[finding]), {})
    table = page.partition("with and without it")[2].partition("</table>")[0]
    assert "p50" not in table, "what is printed alike says nothing"
    for text in ("30 ms", "1 ms", "x 30", "900/s", "10 % less"):
        assert text in table
    head = said.verdict_head(replace(VERDICT, status="slow", findings=[finding]))
    assert "p99 30 ms with it, 1 ms without" in head


def test_bounds_are_rounded_down() -> None:
    """99.99816 % must not become 99.9982 %."""
    cleared = findings.Cleared(
        "stage:queue", "no wait over 1 ms", 0.9999816, 0.95, "1 ns", 170_000, 10_000_000
    )
    verdict = findings.Verdict("case", "healthy", ["All is well."], {}, 10, cleared=[cleared])
    assert "99.9981 %" in said.cleared(verdict)


def test_many_cells_are_merged_until_they_fit(
    case_dir: Path, gathered: html.Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gathered.pictures["heatmap"]
    with Case(case_dir) as case:
        monkeypatch.setattr(material, "CELLS_MAX", 500)
        merged = html.gather(case).pictures["heatmap"]

    def total(heat: dict[str, list[dict[str, list[list[int]]]]]) -> int:
        return sum(sum(run[2:]) for one in heat["series"] for run in one["runs"])

    assert merged["bin_ns"] > whole["bin_ns"]
    assert total(merged) == total(whole)


# -- escaping -----------------------------------------------------------------------------------


@given(st.text())
def test_tags_escape_text_and_attributes(text: str) -> None:
    made = tag("p", text, title=text)
    assert re.fullmatch(r'<p title="[^"<>]*">[^<>]*</p>', made, re.DOTALL)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_script_json_is_json_and_cannot_leave_its_script(value: object) -> None:
    text = script_json(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_assets_do_not_end_their_element() -> None:
    for path in ASSETS.iterdir():
        text = path.read_text()
        assert "</script" not in text and "</style" not in text and "<!--" not in text, path.name
    assert "</script" not in document.plotly()


# -- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "text"), [(0, "0 %"), (1e-5, "< 0.1 %"), (0.071, "7.1 %"), (0.99999, "> 99.9 %"), (1, "100 %")]
)
def test_share(part: float, text: str) -> None:
    assert share(part) == text


def test_quantity_is_human() -> None:
    assert quantity(30_120_000, "ns") == "30.1 ms"
    assert quantity(40.1, "x peers") == "40.1 x peers"


def test_nice_step() -> None:
    assert [material.nice_step(value) for value in (0.3, 1, 1.5, 3, 7, 8_333_333)] == [
        1,
        1,
        2,
        5,
        10,
        10_000_000,
    ]


@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=300))
def test_threshold_is_consistent(latencies: list[int]) -> None:
    """Slow operations are slower than typical ones, and both limits are latencies that occurred."""
    merged: dict[int, list[int]] = {}
    for value in latencies:
        cell = merged.setdefault(material._bin_of(value), [value, value, 0])
        merged[material._bin_of(value)] = [min(cell[0], value), max(cell[1], value), cell[2] + 1]
    one = material.threshold("app", "read", material._sorted_bins(merged))
    assert one.typical_from_ns <= one.typical_to_ns
    if one.slow_from_ns is not None:
        assert one.slow_from_ns in latencies
        assert one.typical_to_ns < one.slow_from_ns


def test_the_first_screen_answers_what_how_much_and_what_to_do() -> None:
    finding = findings.Finding(
        detector="stage_blame",
        culprit=findings.Culprit("stage", "device", "device:sda"),
        claim="1 of 1,000 reads spends 30 ms in device",
        baseline="typical reads",
        effect=findings.Effect("stage time", 30e6, "ns", 29e6, 31e6),
        share_of_excess=0.798,
        share_of_latency=0.281,
        q_value=1e-9,
        episodes=106,
        evidence=[],
        refute="Use another device.",
        remedy="Replace the device.",
    )
    shown = str(said.verdict_head(replace(VERDICT, findings=[finding])))
    points = dict(re.findall(r"<li><strong>([^<]*)</strong> ([^<]*)</li>", shown))
    assert (
        points["How much:"]
        == "28.1 % of all latency; 79.8 % of what slow operations lost; 106 separate episodes."
    )
    assert (points["What:"], points["What to do:"]) == (finding.claim, finding.remedy)
    longer = replace(finding, claim=f"{finding.claim} Consequence: syncs wait. Consequence: so do reads.")
    shown = str(said.verdict_head(replace(VERDICT, findings=[longer]), "slow operations from 1 s to 2 s"))
    points = dict(re.findall(r"<li><strong>([^<]*)</strong> ([^<]*)</li>", shown))
    assert points["What:"] == finding.claim
    assert points["When:"].startswith("slow operations from 1 s to 2 s")
    card = said.findings(replace(VERDICT, findings=[longer]), {})
    assert "<p>syncs wait.</p><p>so do reads.</p>" in card
