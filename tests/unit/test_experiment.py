"""Experiment files, settings and their journal, what is refused; real runs are in tests/e2e/test_experiment.py."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.synth import Simulation, write_case
from whodisk.errors import WhodiskError
from whodisk.experiment import loads, plan, preparation, safety, settings
from whodisk.experiment.conduct import Attempt, Conductor, Result
from whodisk.experiment.journal import Journal, boot_id, pending
from whodisk.experiment.measure import measure
from whodisk.experiment.outcome import sentences, to_json
from whodisk.reading.views import Case
from whodisk.report.experiment import lines, page

MINIMAL = """
[common]
command = "true"
[arm.a]
[arm.b.set.loop9]
read_ahead_kb = 16
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "e.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_becomes_arms(tmp_path: Path) -> None:
    found = plan.read(write(tmp_path, MINIMAL))
    assert [arm.name for arm in found.arms] == ["a", "b"] and found.baseline == "a"
    assert found.arms[1].load == ("command", "true")
    (setting,) = settings.settings_of(found.arms[1].table)
    assert (setting.target, setting.to) == ("/sys/block/loop9/queue/read_ahead_kb", "16")
    assert (found.rule.half_width, found.rule.least, found.rule.most) == (None, 5, 5)


def test_a_sweep_makes_an_arm_of_every_combination(tmp_path: Path) -> None:
    text = "[common.workload]\nblock_sizes = '4KiB'\n[sweep]\n'workload.queue_depth' = [1, 4]\n'set.sda.nr_requests' = [8, 16, 32]\n"
    found = plan.read(write(tmp_path, text))
    assert len(found.arms) == 6 and found.arms[1].name == "queue_depth=1 nr_requests=16"
    assert found.arms[5].table == {
        "workload": {"block_sizes": "4KiB", "queue_depth": 4},
        "set": {"sda": {"nr_requests": 32}},
    }


def test_full_lays_its_table_over_the_file(tmp_path: Path) -> None:
    text = MINIMAL + "[full.experiment]\nrepetitions = 9\n"
    assert plan.read(write(tmp_path, text)).rule.least == 5
    assert plan.read(write(tmp_path, text), full=True).rule.least == 9
    with pytest.raises(WhodiskError, match="--full: expected a table"):
        plan.read(write(tmp_path, MINIMAL), full=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[arm.a]\n", r"expected one of workload, .*found none"),
        ("[arm.a]\ncommand='x'\nspec='y'\n", "found spec and command"),
        ("[arm.a]\ncommand='x'\n", "expected two arms or more, found 1"),
        ("[arm.a]\ncommand='x'\ncolour=1\n", "found 'colour'"),
        ("[arms.a]\n", "arms: expected one of"),
        ("[arm\n", "expected TOML, found: .*line 1"),
        (MINIMAL + "[experiment]\nrepetitions=0\n", "expected 1 to 1000, found 0"),
        (MINIMAL + "[experiment]\nhalf_width='3'\n", "expected a part in percent"),
        (
            MINIMAL + "[experiment]\nhalf_width='3%'\nrepetitions=9\nrepetitions_max=8\n",
            "expected 9 or more, found 8",
        ),
        (MINIMAL + "[experiment]\nbaseline='c'\n", "expected one of a, b, found 'c'"),
        (MINIMAL + "[experiment]\nmetric='speed'\n", "metric 'speed'"),
        (MINIMAL + "[sweep]\n'set.x.y'=3\n", "expected a list of values, found 3"),
        (MINIMAL + "[slowdisk.d]\nsiez='1GiB'\n", "slowdisk.d.siez"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(WhodiskError, match=said) as error:
        plan.read(write(tmp_path, text))
    assert "e.toml" in str(error.value) or "metric 'speed'" in said


def test_names_of_devices_are_filled_in_and_other_braces_stay() -> None:
    given = {
        "targets": ["{disk}"],
        "command": "for i in {1..3}; do cat {disk} ${x}; done",
        "set": {"{disk:name}": 1},
    }
    found = plan.filled(given, {"disk": "/dev/loop3", "disk:name": "loop3"})
    assert found == {
        "targets": ["/dev/loop3"],
        "command": "for i in {1..3}; do cat /dev/loop3 ${x}; done",
        "set": {"loop3": 1},
    }


def test_a_workload_is_written_as_the_engine_reads_it(tmp_path: Path) -> None:
    arm = plan.Arm(
        "a",
        {"workload": {"targets": ["x"], "block_sizes": {"4KiB": "80%", "64KiB": "20%"}, "queue_depth": 2}},
    )
    words = loads.command_line(arm, tmp_path / "01.case", tmp_path, 1)
    assert words[:2] == ["run", str(tmp_path / "01.toml")]
    import tomllib

    assert tomllib.loads((tmp_path / "01.toml").read_text())["workload"] == arm.table["workload"]


# -- settings and their journal ---------------------------------------------------------------


def test_a_change_is_written_down_before_it_is_made(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / "j")
    seen: list[str] = []

    class Spy(settings.FileSetting):
        def read(self) -> str:
            return "128"

        def write(self, value: str) -> None:
            seen.append((tmp_path / "j").read_text())
            assert value == "16"

    made = settings.change(Spy("/sys/x", "16"), journal)
    assert made is not None and json.loads(seen[0])["was"] == "128"
    assert [change.target for change in pending(tmp_path / "j")] == ["/sys/x"]
    for meanwhile in (Journal.begin, settings.restore):
        with pytest.raises(WhodiskError, match=f"process {os.getpid()}.*--journal FILE"):
            meanwhile(tmp_path / "j")
    journal.close()
    with pytest.raises(WhodiskError, match=r"found 1 change of.*--restore"):
        Journal.begin(tmp_path / "j")
    journal.undone(made)
    assert not (tmp_path / "j").exists()
    assert settings.change(Spy("/sys/x", "128"), journal) is None, "what is so already is not changed"


def test_restore_puts_back_the_newest_first_and_survives_a_line_cut_off(tmp_path: Path) -> None:
    said = tmp_path / "said"
    journal = Journal.begin(tmp_path / "j")
    for number in (1, 2):
        journal.add("command", "t", "", f"echo {number} >> {said}")
    with (tmp_path / "j").open("a") as file:
        file.write('{"n": 3, "ki')
    journal.close()
    done, failed = settings.restore(tmp_path / "j")
    assert said.read_text().split() == ["2", "1"] and len(done) == 2 and not failed
    assert not (tmp_path / "j").exists() and settings.restore(tmp_path / "j") == ([], [])


def test_what_cannot_be_put_back_stays_in_the_journal(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / "j")
    journal.add("command", "t", "", "exit 3")
    journal.add("file", "/sys/none", "1", "2")
    journal.close()
    _, failed = settings.restore(tmp_path / "j")
    assert len(failed) == 2 and len(pending(tmp_path / "j")) == 2


def test_settings_of_an_earlier_boot_are_gone_already(tmp_path: Path) -> None:
    line = {"n": 1, "kind": "file", "target": "/sys/none", "was": "1", "to": "2", "boot": "another"}
    (tmp_path / "j").write_text(json.dumps(line) + "\n")
    done, failed = settings.restore(tmp_path / "j")
    assert "started again" in done[0] and not failed and boot_id() != "another"


def test_a_damaged_journal_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "j").write_text('nonsense\n{"undone": 1}\n')
    with pytest.raises(WhodiskError, match="line 1: expected a change as JSON"):
        pending(tmp_path / "j")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/etc/hostname", "expected a file below"),
        ("/sys/block/none/queue/scheduler", "expected a file, found none"),
        ("/sys/kernel/../../etc/hostname", "expected a file below"),
    ],
)
def test_a_setting_that_cannot_be_changed_is_refused(target: str, said: str) -> None:
    with pytest.raises(WhodiskError, match=said):
        settings.FileSetting(target, "1").check()


# -- safety and preparation -------------------------------------------------------------------


def root_device() -> str | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        source = line.partition(" - ")[2].split()[1]
        if line.split()[4] == "/" and safety.is_block(source):
            return source
    return None


def test_a_mounted_device_is_refused_unless_it_is_named() -> None:
    device = root_device()
    if device is None:
        pytest.skip("the root file system is not on a block device")
    writes = {"targets": [device], "read": "50%"}
    targets = safety.targets_of_load("a", "workload", writes, reads_only=False)
    with pytest.raises(WhodiskError, match=r"mounted at .*--i-know-this-destroys"):
        safety.refuse(targets, [])
    safety.refuse(targets, [device])
    assert safety.targets_of_load("a", "workload", {"targets": [device]}, reads_only=False) == []
    command = f"fio --filename={device} --rw=randread"
    assert [t.path for t in safety.targets_of_load("a", "command", command, reads_only=False)] == [device]
    assert safety.targets_of_load("a", "command", command, reads_only=True) == []


@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [
        ("a.fio", "[a]\nrw=randwrite\nfilename=x:DEVICE", ()),
        ("a.fio", "[a]\nrw=read\nfilename=DEVICE\n[b]\nreadwrite = rw:8", ()),
        ("a.fio", "[a]\nrw=trim", ("--filename=DEVICE",)),
        ("a.fio", "[a]\nrw=write\ndirectory=/dev\nfilename=NAME", ()),
        ("a.toml", '[workload]\ntargets = ["DEVICE"]\nread = "50%"', ()),
    ],
)
def test_a_device_that_a_file_names_is_a_target_too(
    tmp_path: Path, name: str, text: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safety, "is_block", lambda path: path == "/dev/loop7")
    path = tmp_path / name
    path.write_text(text.replace("DEVICE", "/dev/loop7").replace("NAME", "loop7"), encoding="utf-8")
    kind = "fio" if name.endswith("fio") else "spec"
    words = [word.replace("DEVICE", "/dev/loop7") for word in arguments]
    found = safety.targets_of_load("a", kind, str(path), reads_only=False, arguments=words)
    assert [target.path for target in found] == ["/dev/loop7"]
    path.write_text(path.read_text().replace("50%", "100%"))
    said = ["--rw=randread"] if kind == "fio" else []
    only_reads = "[a]\nfilename=/dev/loop7" if kind == "fio" else path.read_text()
    path.write_text(only_reads)
    assert safety.targets_of_load("a", kind, str(path), reads_only=False, arguments=said) == []


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"file": "{tmp}/new", "size": "4"}, "expected a size with its unit"),
        ({"file": "/etc/hostname", "size": "4KiB"}, "expected no file there"),
        ({"fill": "{tmp}", "level": "100%"}, "up to 99%"),
        ({"cache": "cold"}, "expected one of warm, dropped, evicted"),
        ({"cache": "warm"}, "expected path"),
        ({"cache": "evicted", "path": "x"}, "expected by"),
        ({"precondition": "{tmp}"}, "expected a block device or a file"),
        ({"cache": "dropped", "colour": 1}, "found 'colour'"),
        ({"bake": 1}, "expected one of file, fill"),
    ],
)
def test_a_step_that_cannot_be_done_is_refused(tmp_path: Path, step: dict[str, Any], said: str) -> None:
    with pytest.raises(WhodiskError, match=said):
        preparation.check([plan.filled(step, {"tmp": str(tmp_path)})], "prepare")


def test_files_are_made_as_they_should_be_and_removed(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / "j")
    tools = preparation.Tools(journal, lambda _words: "", tmp_path, 1)
    steps = [
        {"file": str(tmp_path / name), "size": "64KiB", "contents": name} for name in preparation.CONTENTS
    ]
    preparation.check(steps, "prepare")
    records = preparation.do(steps, "prepare", tools)
    assert [record["found"]["size_bytes"] for record in records] == [65536] * 3
    import zlib

    sizes = {
        name: len(zlib.compress((tmp_path / name).read_bytes())) / 65536 for name in preparation.CONTENTS
    }
    assert sizes["random"] > 0.99 and 0.4 < sizes["half compressible"] < 0.6 and sizes["zeros"] < 0.01
    path = str(tmp_path / "random")
    (warm, dropped) = preparation.do(
        [{"cache": state, "path": path} for state in ("warm", "dropped")], "prepare", tools
    )
    assert (warm["found"]["read_bytes"], warm["found"]["part_in_memory"]) == (65536, 1.0)
    assert dropped["found"]["part_in_memory"] in (0.0, 1.0), "a file system in memory drops nothing"
    journal.close()
    settings.restore(tmp_path / "j")
    assert list(tmp_path.iterdir()) == [tmp_path / "j.lock"]


# -- results ----------------------------------------------------------------------------------


def result(tmp_path: Path, factor: float) -> Result:
    found = plan.plan_of(
        tmp_path / "e.toml",
        {"experiment": {"name": "made", "metric": "p50"}, "arm": {n: {"command": "true"} for n in "abc"}},
    )
    whole = Result(found, tmp_path, [], [])
    for number in (1, 2, 3):
        for arm, times in (("a", 1.0), ("b", factor)):
            case = Simulation(seed=number * 10 + ord(arm), seconds=0.5, typical_us=300.0 * times).write(
                tmp_path / arm / f"{number:02}.case"
            )
            whole.attempts.append(
                Attempt(number, arm, "2026-01-01T00:00:00Z", 1.0, str(case), "", [], measure(case, "app"))
            )
        if number < 3:
            whole.attempts.append(Attempt(number, "c", "2026-01-01T00:00:00Z", 1.0, "", "exit code 3"))
    conductor = Conductor(found, Path("agent"), tmp_path, tmp_path / "j", [], lambda _text: None)
    whole.comparisons = conductor.compare(whole)
    return whole


def test_a_result_is_told_in_ten_lines_as_json_and_as_a_page(tmp_path: Path) -> None:
    whole = result(tmp_path, 1.5)
    (comparison,) = whole.comparisons
    assert (
        comparison.paired
        and comparison.primary.ratio == pytest.approx(1.46, abs=0.08)
        and comparison.called[0]
    )
    said = sentences(whole)
    assert "higher than that of a" in said[0] and said[1].startswith("c failed in 2 of 2 runs: exit code 3")
    assert len(lines(whole)) <= 14
    data = json.loads(to_json(whole))
    assert len(data["order"]) == 8 and data["comparisons"][0]["metrics"][0]["metric"] == "p50"
    text = page(whole)
    assert "http://" not in text.split("<script")[0] and "A point per run." in text and "exit code 3" in text


def test_a_case_that_cannot_be_read_does_not_spoil_the_others(tmp_path: Path) -> None:
    found = plan.plan_of(
        tmp_path / "e.toml", {"experiment": {}, "arm": {n: {"command": "true"} for n in "ab"}}
    )
    good = Simulation(seed=1, seconds=0.2).write(tmp_path / "a" / "01.case")
    (tmp_path / "b" / "01.case").mkdir(parents=True)
    whole = Result(found, tmp_path, [Attempt(1, arm, "", case=f"{arm}/01.case") for arm in ("b", "a")], [])
    conductor = Conductor(found, Path("agent"), tmp_path, tmp_path / "j", [], lambda _text: None)
    conductor._measure(whole)
    broken, measured = whole.attempts
    assert str(tmp_path / "b" / "01.case") in broken.failed and broken.measured is None
    assert not measured.failed and measured.measured and measured.measured.path == good


def test_the_journal_has_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from whodisk.experiment.journal import default_path

    monkeypatch.setenv("WHODISK_STATE", str(tmp_path))
    assert default_path() == tmp_path / "experiment.journal"
    assert os.fspath(default_path()).startswith(str(tmp_path))


# -- replay -----------------------------------------------------------------------------------


def replaying(folder: Path, **keys: Any) -> plan.Arm:
    case = Simulation(seed=1, seconds=0.1).write(folder / "x.case")
    return plan.Arm("a", {"replay": str(case), **keys})


def test_a_replay_is_operations_of_the_engine_at_the_speed_that_is_asked_for(tmp_path: Path) -> None:
    arm = replaying(tmp_path, target=str(tmp_path / "target"), speed="2x", scale=4)
    loads.check(arm)
    words = loads.command_line(arm, tmp_path / "01.case", tmp_path, 1)
    assert words[:4] == ["run", str(tmp_path / "01.toml"), "-o", str(tmp_path / "01.case")]
    table = tomllib.loads((tmp_path / "01.toml").read_text())["workload"]
    assert (table["replay_pace"], table["replay"]) == ("timed", str(tmp_path / "replay.operations"))
    lines_ = [line.split() for line in (tmp_path / "replay.operations").read_text().splitlines()]
    with Case(tmp_path / "x.case") as case:
        rows = case.rows(
            "SELECT start_ns, op, offset_bytes, size_bytes FROM app_ops ORDER BY start_ns, op_id"
        )
    assert len(lines_) == len(rows) > 10
    first = int(rows[0]["start_ns"] or 0)
    for (after_ns, op, offset, size), row in zip(lines_, rows, strict=True):
        assert int(after_ns) == pytest.approx((int(row["start_ns"] or 0) - first) / 2, abs=1)
        assert (op, int(size)) == (row["op"], row["size_bytes"])
        assert int(offset) == int(row["offset_bytes"] or 0) // 4 // 4096 * 4096
    assert loads.replay_writes(arm) is any(row["op"] == "write" for row in rows)


def test_a_replay_keeps_files_apart_and_cuts_what_is_too_large(tmp_path: Path) -> None:
    app = {
        "op": ["write", "read", "sync", "read"],
        "file": ["/a", "/b", None, "/a"],
        "offset_bytes": [0, 512, None, 4096],
        "size_bytes": [512, 20 << 20, None, 512],
        "latency_ns": [9] * 4,
        "start_ns": [100, 200, 300, 400],
    }
    case = write_case(tmp_path / "case", app=app)
    arm = plan.Arm("a", {"replay": str(case), "target": str(tmp_path / "t"), "speed": "fast"})
    loads.command_line(arm, tmp_path / "01.case", tmp_path, 1)
    text = (tmp_path / "replay.operations").read_text()
    b = 8192
    assert text.splitlines() == [
        "0 write 0 512",
        f"100 read {b + 512} {16 << 20}",
        f"100 read {b + 512 + (16 << 20)} {4 << 20}",
        "200 sync 0 0",
        "300 read 4096 512",
    ]
    (tmp_path / "t").write_bytes(bytes(1 << 20))
    with pytest.raises(WhodiskError, match=r"found 1048576 at .*say scale = 21"):
        loads.command_line(arm, tmp_path / "02.case", tmp_path, 1)


def test_a_replay_without_a_target_or_with_an_odd_speed_is_refused(tmp_path: Path) -> None:
    for keys, said in [
        ({}, "replay: expected target"),
        ({"target": "x", "speed": "3"}, "found '3'"),
        ({"target": "x", "scale": "4"}, "scale: expected a number"),
    ]:
        with pytest.raises(WhodiskError, match=said):
            loads.check(replaying(tmp_path, **keys))


# -- programs ---------------------------------------------------------------------------------


def test_a_program_is_run_as_run_does_by_python(tmp_path: Path) -> None:
    arm = plan.Arm("a", {"program": {"name": "dd", "path": str(tmp_path), "seconds": 2}})
    loads.check(arm)
    words = loads.command_line(arm, tmp_path / "01.case", tmp_path, 7)
    case = str(tmp_path / "01.case")
    assert words[:7] == ["run", "dd", "-o", case, "--drop-raw", "--seed", "7"]
    assert words[7:] == ["--path", str(tmp_path), "--seconds", "2"]
    assert loads.is_of_python(words) and not loads.is_of_python(["run", "a.toml"])
    assert loads.command_line(plan.Arm("a", {"program": "dd"}), tmp_path / "b.case", tmp_path, 7)[1] == "dd"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("sqlight", "expected one of .*sqlite.* found .sqlight."),
        ({"path": "/tmp"}, "found {'path': '/tmp'}"),
        ({"name": "dd", "clients": 4}, "clients says nothing to dd"),
        ({"name": "dd", "seconds": "2s"}, "found seconds = '2s'"),
        ({"name": "dd", "colour": 1}, "found colour = 1"),
    ],
)
def test_a_program_that_cannot_be_run_so_is_refused(program: Any, said: str) -> None:
    with pytest.raises(WhodiskError, match=said):
        loads.check(plan.Arm("a", {"program": program}))


def test_what_a_program_calls_its_operations_is_compared(tmp_path: Path) -> None:
    app = {"op": ["commit", "read", "read", "sync"] * 50, "latency_ns": [4000, 1000, 1000, 9000] * 50}
    case = write_case(tmp_path / "case", app={**app, "start_ns": list(range(0, 200_000, 1000))})
    found = measure(case, "app")
    assert set(found.kinds) == {"", "commit", "read", "sync"} and found.operations == 150


@pytest.mark.parametrize("name", ["fragmentation", "readahead"])
def test_the_shipped_experiments_are_experiments(name: str) -> None:
    found = plan.read(Path(__file__).parents[2] / "examples" / f"{name}.toml")
    assert len(found.arms) in (16, 24) and found.rule.least >= 5
    if name == "fragmentation":
        against = {arm.name: found.against(arm) for arm in found.arms}
        assert against["fragmented 90% full model"] == "contiguous 90% full model"
        assert against["contiguous 90% full disk"] == "contiguous 50% full disk"
        assert against["contiguous 50% full model"] is None
        assert all(any("layout" in step for step in arm.table["prepare"]) for arm in found.arms)


def test_an_arm_is_compared_with_an_arm_that_exists(tmp_path: Path) -> None:
    with pytest.raises(WhodiskError, match="against: expected the name of an arm, found 'c'"):
        plan.read(write(tmp_path, MINIMAL + "[arm.b]\nagainst = 'c'\n"))
