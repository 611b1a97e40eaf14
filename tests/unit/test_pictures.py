"""The pictures of the findings: what each shows is what the case holds."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ground_truth.cases import TRUTHS
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk import words
from whodisk.detectors import DETECTORS
from whodisk.findings import Culprit, Effect, Finding, Verdict
from whodisk.reading import views
from whodisk.reading.views import Case
from whodisk.report import html, material, operations, pictures, verdict
from whodisk.report.markup import script_json
from whodisk.report.pictures.base import Figure, Look, Picture
from whodisk.verdict.solve import solve

# Cases are solved once for several tests.
pytestmark = pytest.mark.xdist_group("pictures")

Trace = dict[str, Any]


@dataclass
class Told:
    """A case with its verdict and what the report draws of it."""

    path: Path
    verdict: Verdict
    rows: html.Material

    def figure(self, name: str) -> Figure:
        """The first picture of that name."""
        for drawn in self.rows.figures.values():
            for place, picture, _ in drawn:
                if picture.name == name:
                    found: Figure = self.rows.pictures["figures"][place]
                    return found
        raise AssertionError(f"no picture {name}; there are {self.names()}")

    def names(self) -> list[str]:
        """Names of the pictures of the first finding."""
        return [picture.name for _, picture, _ in self.rows.figures.get(0, [])]

    def query(self, sql: str) -> list[views.Row]:
        """Rows of the case."""
        with Case(self.path) as case:
            return case.rows(sql)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Told]:
    """A case of the ground truth by its name, solved and drawn once."""
    known: dict[str, Told] = {}

    def tell(name: str) -> Told:
        if name not in known:
            path = TRUTHS[name].build(0, tmp_path_factory.mktemp(name) / "case")
            said = solve(path)
            with Case(path) as case:
                known[name] = Told(path, said, html.gather(case, said.findings))
        return known[name]

    return tell


def finding(
    detector: str, kind: str = "stage", name: str = "device", because_of: str | None = None
) -> Finding:
    """A finding of which only the culprit matters."""
    effect = Effect("latency", 2.0, "x")
    return Finding(
        detector, Culprit(kind, name, because_of), "claim", "baseline", effect, 1.0, 0.0, 3, [], "", ""
    )


# -- the registry -------------------------------------------------------------------------------


def modules() -> dict[str, Picture]:
    """Every picture there is a file of."""
    found = {}
    for info in pkgutil.iter_modules(pictures.__path__):
        module = importlib.import_module(f"{pictures.__name__}.{info.name}")
        if hasattr(module, "PICTURE"):
            found[info.name] = module.PICTURE
            assert module.__doc__ and "Columns\nread" in module.__doc__.replace(" ", "\n"), info.name
    return found


def test_every_detector_has_a_picture_and_every_picture_a_detector() -> None:
    assert set(pictures.PICTURES) == {detector.name for detector in DETECTORS}
    used = {picture.name for chosen in pictures.PICTURES.values() for picture in chosen}
    assert used == set(modules())


def test_a_picture_reads_columns_of_named_views() -> None:
    known = {f"ops.{name}" for name in views.OP_COLUMNS} | {"ops.<stage>_ns"}
    known |= {f"{table}.{name}" for table, columns in views.TABLES.items() for name in columns}
    for name, picture in modules().items():
        assert picture.name == name
        assert picture.reads and set(picture.reads) <= known, name


# -- each picture -------------------------------------------------------------------------------


def lines(figure: Figure, axis: str) -> list[Trace]:
    """Traces of one panel."""
    return [trace for trace in figure["traces"] if trace.get("yaxis", "y") == axis]


def test_members_shows_the_slow_device_above_its_peers(told: Callable[[str], Told]) -> None:
    case = told("slow_member_operations")
    assert case.names()[0] == "members"
    figure = case.figure("members")
    titles = [note["text"] for note in figure["annotations"]]
    assert titles[0] == "nvme4n1", "the accused one comes first"
    assert len(titles) == figure["grid"]["panels"] >= 4
    peers, _, own = lines(figure, "y")
    slower = [a > b for a, b in zip(own["y"], peers["y"], strict=True) if a is not None and b is not None]
    assert sum(slower) > 0.9 * len(slower) > 0
    number = case.query("SELECT count(*) AS n FROM measured WHERE layer = 'block' AND device = 'nvme4n1'")[0][
        "n"
    ]
    assert sum(point[1] for point in own["customdata"]) == number
    assert own["meta"]["fixed"]["device"] == "nvme4n1"


def test_members_of_a_sampled_fleet(told: Callable[[str], Told]) -> None:
    figure = told("slow_drive").figure("members")
    assert figure["annotations"][0]["text"] == "disk3"
    peers, own = lines(figure, "y")
    assert np.nanmedian(np.array(own["y"], float)) > 1.1 * np.nanmedian(np.array(peers["y"], float))


def test_request_map_and_waterfall_show_the_tail(told: Callable[[str], Told]) -> None:
    case = told("outrun")
    assert case.names()[:2] == ["request_map", "tier_waterfall"]
    row = case.query(
        """SELECT r.size_bytes, min(c.offset_bytes - r.offset_bytes) AS at_bytes FROM cache AS c
JOIN measured AS r ON r.op_id = c.op_id WHERE c.wait_ns > 0 GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"""
    )[0]
    figure = case.figure("request_map")
    grid = next(trace for trace in figure["traces"] if trace["type"] == "heatmap")
    shares = np.array([[np.nan if v is None else v for v in line] for line in grid["z"]], float)
    unit = int(row["size_bytes"] or 0) / grid["x"][-1]
    begins = np.searchsorted(grid["x"], int(row["at_bytes"] or 0) / unit * 1.0001)
    assert np.nanmean(shares[:, begins:]) > 0.8, "the tail is waited for"
    assert np.nanmean(shares[:, : max(1, begins - 1)]) < 0.1, "what is before it is not"
    served = [trace for trace in figure["traces"] if trace["type"] == "bar"]
    np.testing.assert_allclose(np.sum([trace["y"] for trace in served], axis=0), 1.0, atol=1e-3)

    fall = case.figure("tier_waterfall")
    drawn = next(one for _, picture, one in case.rows.figures[0] if picture.name == "tier_waterfall")
    exact = case.query(f"SELECT sum(wait_ns) AS ns FROM cache WHERE op_id = {drawn.op_ids[0]}")[0]["ns"]
    bars = [trace for trace in fall["traces"] if trace["name"] != "request below"]
    total = sum(sum(trace["x"]) for trace in bars)
    unit_ns = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}[fall["axes"]["xaxis"]["ticksuffix"].strip()]
    assert total * unit_ns == pytest.approx(float(exact or 0))


def test_vectors_frames_the_shared_one(told: Callable[[str], Told]) -> None:
    case = told("slow_handler")
    assert case.names()[0] == "vectors"
    culprit = case.verdict.findings[0].culprit
    figure = case.figure("vectors")
    labels = figure["axes"]["xaxis"]["labels"]
    framed = {round(shape["x0"] + 0.5) for shape in figure["shapes"]}
    assert framed and all(labels[column].endswith(f"vector {culprit.name}") for column in framed)
    handlers, waits = figure["traces"]
    name = (culprit.because_of or "").removeprefix("handler:")
    assert figure["axes"]["yaxis"]["labels"][0] == name, "the accused handler comes first"
    column = framed.pop()
    exact = case.query(
        f"SELECT sum(duration_ns) AS ns FROM irqs WHERE handler = '{name}' AND vector = {culprit.name} GROUP BY cpu ORDER BY 1 DESC"
    )[0]["ns"]
    with Case(case.path) as opened:
        end_ns = max(opened.duration_ns or 0, *(int(row["end_ns"] or 0) for row in case.rows.extent))
    assert handlers["z"][0][column] == pytest.approx(float(exact or 0) / end_ns, rel=1e-3)
    worst = max(
        ((value, r) for r, line in enumerate(waits["z"]) for value in line if value is not None),
        default=(0, 0),
    )
    assert figure["axes"]["yaxis2"]["labels"][worst[1]] in case.verdict.findings[0].claim


def test_silences_are_marked(told: Callable[[str], Told]) -> None:
    case = told("stopped_submitter")
    figure = case.figure("silences")
    gaps = case.query(
        "SELECT start_ns, duration_ns FROM gaps WHERE meant_busy ORDER BY duration_ns DESC, start_ns"
    )
    bars = next(trace for trace in figure["traces"] if trace.get("yaxis") == "y2")
    assert len(bars["x"]) == len(gaps)
    marked = figure["shapes"][0]
    assert marked["x0"] == pytest.approx(int(gaps[0]["start_ns"] or 0) / 1e9)
    assert marked["x1"] - marked["x0"] == pytest.approx(int(gaps[0]["duration_ns"] or 0) / 1e9)
    inside, reap = (trace for trace in figure["traces"] if trace.get("yaxis") == "y3")
    length_ms = int(gaps[0]["duration_ns"] or 0) / 1e6
    running = [b + x for b, x in zip(inside["base"], inside["x"], strict=True)]
    assert len(inside["x"]) > 5
    assert [end for end in running if 0.2 * length_ms < end < 0.8 * length_ms] == [], (
        "nothing ends in a silence"
    )
    assert max(reap["x"]) > 0.5 * length_ms, "what was complete waited for its submitter"
    began = figure["traces"][0]
    assert (
        sum(point[1] for point in began["customdata"])
        == case.query("SELECT count(*) AS n FROM app_ops")[0]["n"]
    )


def test_layout_map_counts_the_breaks(told: Callable[[str], Told]) -> None:
    case = told("pieces")
    assert case.names()[0] == "layout_map"
    figure = case.figure("layout_map")
    together, apart = figure["traces"][1:]
    assert "lies apart" in apart["name"]
    drawn = next(one for _, picture, one in case.rows.figures[0] if picture.name == "layout_map")
    breaks = int(drawn.lead.split(" on sda: ")[1].split(" of ")[0].replace(",", ""))
    assert len(apart["x"]) == breaks > 10
    assert len(together["x"]) > 10


def test_moments_hold_the_slowest_and_all_the_time(told: Callable[[str], Told]) -> None:
    case = told("device_stall")
    figure = case.figure("moments")
    points = [trace for trace in figure["traces"] if trace["type"] == "scatter"]
    slowest = max(y for trace in points for y in trace["y"] if y is not None)
    assert slowest == case.query("SELECT max(latency_ns) AS ns FROM app_ops")[0]["ns"]
    worst = next(trace for trace in points if slowest in trace["y"])
    assert worst["name"].startswith("device")
    total: dict[float, float] = {}
    for trace in figure["traces"]:
        if trace["type"] == "bar":
            for x, y in zip(trace["x"], trace["y"], strict=True):
                total[x] = total.get(x, 0.0) + y
    np.testing.assert_allclose(list(total.values()), 1.0, atol=2e-3)


def test_stolen_cpus_stand_below_the_moments(told: Callable[[str], Told]) -> None:
    figure = told("stolen_cpus").figure("moments")
    stolen = next(trace for trace in figure["traces"] if trace.get("yaxis") == "y3")
    most = told("stolen_cpus").query("SELECT max(value) AS v FROM series WHERE metric = 'steal_ratio'")[0][
        "v"
    ]
    assert max(stolen["y"]) == most


def sizes(path: Path) -> Path:
    """Three sizes; the latency is 100 us and 1 us more per KiB, +- 5 %."""
    rng = np.random.default_rng(5)
    size = np.tile([4096, 65536, 1 << 20], 4000)
    latency = (100_000 + size / 1024 * 1000) * rng.lognormal(0, 0.05, len(size))
    columns = {
        "op_id": np.arange(len(size)) + 1,
        "start_ns": np.arange(len(size)) * 500_000,
        "latency_ns": latency.astype(np.int64),
        "size_bytes": size,
        "op": "read",
    }
    return write_case(path, app=columns, meta={"duration_ns": len(size) * 500_000})


def test_sweep_has_intervals_that_hold_the_truth(tmp_path: Path) -> None:
    with Case(sizes(tmp_path / "case")) as case:
        look = Look(case, case.duration_ns or 1)
        (_, drawn), *_ = pictures.draw(look, finding("saturation", "config", "size"))
    assert drawn.figure["axes"]["xaxis"]["labels"] == ["4 KiB", "64 KiB", "1 MiB"]
    median = next(trace for trace in drawn.figure["traces"] if trace["name"] == "median")
    for value, more, less, truth in zip(
        median["y"],
        median["error_y"]["array"],
        median["error_y"]["arrayminus"],
        [104_000, 164_000, 1_124_000],
        strict=True,
    ):
        assert value == pytest.approx(truth, rel=0.03)
        assert 0 < more < 0.03 * truth and 0 < less < 0.03 * truth
        assert value - less <= truth * 1.01 and truth * 0.99 <= value + more
    assert drawn.table is not None and drawn.table.count("<tr>") == 4


def test_one_size_is_no_sweep(told: Callable[[str], Told]) -> None:
    with Case(told("device_stall").path) as case:
        drawn = pictures.draw(
            Look(case, case.duration_ns or 1), finding("layout", "layout", "x", "device:none")
        )
    assert [picture.name for picture, _ in drawn] == ["moments"], "what cannot be drawn gives way"


# -- the operations behind them -----------------------------------------------------------------


CASES = ("slow_member_operations", "outrun", "slow_handler", "stopped_submitter", "pieces", "device_stall")


@pytest.mark.parametrize("name", CASES)
def test_every_point_that_names_operations_has_them(name: str, told: Callable[[str], Told]) -> None:
    rows = told(name).rows
    kept = set(rows.pictures["operations"]["op_id"])
    for figure in rows.pictures["figures"]:
        for trace in figure["traces"]:
            fields = trace.get("meta", {}).get("fields", [])
            if "op_id" in fields:
                for point in trace["customdata"]:
                    assert point is None or set(point[fields.index("op_id")]) & kept
    for fall in rows.pictures["waterfalls"]:
        for line in fall["rows"]:
            assert line.get("op_id") is None or line["op_id"] in kept


def test_the_slowest_of_every_moment_is_kept(told: Callable[[str], Told]) -> None:
    case = told("device_stall")
    kept = case.rows.pictures["operations"]
    bin_ns = case.rows.pictures["heatmap"]["bin_ns"]
    found: dict[tuple[str, int], int] = {}
    layers = kept["texts"]["layer"]
    for place, start, latency in zip(
        layers["at"], kept["numbers"]["start_ns"], kept["numbers"]["latency_ns"], strict=True
    ):
        key = (layers["names"][place], start // bin_ns)
        found[key] = max(found.get(key, 0), latency)
    rows = case.query(
        f"SELECT layer, start_ns // {bin_ns} AS t, max(latency_ns) AS worst FROM ops GROUP BY 1, 2"
    )
    assert {(row["layer"], row["t"]): row["worst"] for row in rows} == found
    assert len(kept["op_id"]) <= operations.ROWS_MAX


def test_few_are_kept_where_there_is_little_room(
    told: Callable[[str], Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "CHOSEN_MAX", 100)
    case = told("device_stall")
    with Case(case.path) as opened:
        cells = material.cells(opened, opened.duration_ns or 1, [])
    chosen = operations.chosen(cells)
    assert 0 < len(chosen) <= 100
    slowest = case.query("SELECT op_id FROM ops ORDER BY latency_ns DESC, op_id DESC LIMIT 1")[0]["op_id"]
    assert slowest in chosen


def test_pictures_are_json_of_bounded_size(told: Callable[[str], Told]) -> None:
    for name in CASES:
        figures = told(name).rows.pictures["figures"]
        assert all(len(script_json(figure)) < 700_000 for figure in figures), name
        json.loads(script_json(figures))


# -- the verdict --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_has_five_sentences_at_most(name: str, told: Callable[[str], Told]) -> None:
    head = verdict.verdict_head(told(name).verdict)
    read = head.split("<details")[0]
    texts = [part.split(">", 1)[1].split("</")[0] for part in read.replace("<h1", "<p").split("<p")[1:]]
    assert 1 <= sum(len(words.sentences(text)) for text in texts) <= verdict.SENTENCES_MAX


def test_sentences_end_where_sentences_end() -> None:
    text = "Reads took 3.5 ms (95 %: 3 to 4). It is CPU 3. nvme0n1 suffers. Cleared: queue (99.9 %). Not e. g. this."
    assert words.sentences(text) == [
        "Reads took 3.5 ms (95 %: 3 to 4).",
        "It is CPU 3.",
        "nvme0n1 suffers.",
        "Cleared: queue (99.9 %).",
        "Not e. g. this.",
    ]


# -- the size of the report ---------------------------------------------------------------------


def crowded(path: Path, count: int = 150_000) -> Path:
    """Everything that fills a report: latencies all over five decades, 40 devices, two layers, many silences and events."""
    rng = np.random.default_rng(9)
    names = np.array([f"nvme{n}n1" for n in range(40)])
    start = np.sort(rng.integers(0, 100 * 10**9, count))
    device_ns = (10 ** rng.uniform(4, 9, count)).astype(np.int64)
    block: dict[str, Any] = {
        "op_id": BLOCK_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": device_ns + 1000,
        "queue_ns": np.full(count, 1000),
        "device_ns": device_ns,
        "device": rng.choice(names, count),
        "op": rng.choice(np.array(["read", "write", "flush", "discard"]), count),
        "size_bytes": rng.choice([4096, 8192, 65536, 1 << 20], count),
        "offset_bytes": rng.integers(0, 1 << 40, count) // 4096 * 4096,
        "tid": rng.integers(1000, 1016, count),
        "comm": "some-database",
        "vector": rng.integers(30, 90, count),
        "complete_cpu": rng.integers(0, 64, count),
        "foreign_handler_ns": rng.integers(0, 9000, count),
    }
    app = {
        **block,
        "op_id": APP_ID_BASE + np.arange(count),
        "file": "/srv/database/table-with-a-long-name.ibd",
    }
    gap = {"layer": "app", "comm": "some-database", "state": "stopped", "meant_busy": True}
    gaps = [
        {**gap, "tid": 1000 + n % 16, "start_ns": n * 10**8, "duration_ns": 5 * 10**7 + n} for n in range(900)
    ]
    irqs = [
        {
            "cpu": n % 64,
            "vector": 30 + n % 60,
            "handler": f"nvme{n % 40}q{n % 9}",
            "kind": "hard",
            "device": names[n % 40],
        }
        | {"start_ns": n * 10**6, "duration_ns": 3000 + n}
        for n in range(5000)
    ]
    cache = [
        {
            "op_id": APP_ID_BASE + n,
            "tier": tier,
            "offset_bytes": int(app["offset_bytes"][n]) + at,
            "size_bytes": 2048,
        }
        | {"wait_ns": wait * n, "file": "x"}
        for n in range(20_000)
        for tier, at, wait in (("ram", 0, 0), ("hdd", 2048, 100))
    ]
    return write_case(
        path,
        app=app,
        block=block,
        links={"parent_id": app["op_id"], "child_id": block["op_id"], "kind": "waits_for"},
        gaps=gaps,
        events=[
            {"time_ns": n * 10**8, "kind": "error", "subject": "nvme0n1", "detail": "x" * 200}
            for n in range(500)
        ],
        tables={"irqs": irqs, "cache": cache},
        meta={"duration_ns": 100 * 10**9},
        devices=tuple(names),
    )


@pytest.mark.slow
def test_a_report_is_ten_megabytes_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every bound reached: cells, operations, waterfalls, figures."""
    case = crowded(tmp_path / "case")
    everything = [finding(name, "device", "nvme3n1", "device:nvme3n1") for name in sorted(pictures.PICTURES)]
    everything += [finding("shared_vector", "vector", "41", "handler:nvme3q1")]
    said = Verdict("case", "slow", ["It is slow."], {}, 10, findings=everything[::-1])
    gathered: list[html.Material] = []
    gather = html.gather

    def kept(opened: Case, findings: Sequence[Finding], episodes: Sequence[int]) -> html.Material:
        gathered.append(gather(opened, findings, episodes))
        return gathered[-1]

    monkeypatch.setattr(html, "gather", kept)
    html.write(case, said, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 10_000_000
    data = gathered[0].pictures
    sizes = {name: len(script_json(value)) for name, value in data.items()}
    assert len(data["operations"]["op_id"]) > 0.5 * operations.CHOSEN_MAX, sizes
    assert sizes["figures"] <= html.FIGURES_MAX_BYTES * 1.01, sizes
