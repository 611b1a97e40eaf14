"""Wrong use and bad input: exit code 2 and a message with file, place, expected, found and what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.conftest import AGENT, Run, meta, write_spec


@pytest.fixture
def case(whodisk: Run, work: Path) -> Path:
    """A small sealed case of the workload's own layer."""
    spec = write_spec(work / "ok.toml", work / "data.bin", duration="200ms")
    whodisk("run", spec, "-o", work / "ok.case", "--app-only")
    return work / "ok.case"


def complaint(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Checks that stderr is a line or two of ours with all `words` in it."""
    lines = [line for line in done.stderr.splitlines() if line]
    ours = [line for line in lines if line.startswith("whodisk: ")]
    assert ours, done.stderr
    assert len(lines) <= 8, done.stderr
    for word in words:
        assert word in done.stderr, f"{word!r} is missing in: {done.stderr}"


def test_no_case(whodisk: Run, work: Path) -> None:
    for command in ("solve", "report", "verify", "seal"):
        complaint(whodisk(command, work / "none", code=2), "none", "expected a case", "check the path")


def test_a_directory_of_cases(whodisk: Run, case: Path) -> None:
    complaint(whodisk("solve", case.parent, code=2), "a directory with", "name one, such as", case.name)


def test_newer_version(whodisk: Run, case: Path) -> None:
    text = meta(case)
    text["version"] = 99
    (case / "case.json").write_text(json.dumps(text), encoding="utf-8")
    for command in ("solve", "verify", "report"):
        complaint(whodisk(command, case, code=2), "case.json", "99", "newer whodisk")


def test_case_json_is_no_json(whodisk: Run, case: Path) -> None:
    (case / "case.json").write_text("{ not json", encoding="utf-8")
    complaint(whodisk("solve", case, code=2), "case.json", "expected", "found")


def test_corrupt_parquet(whodisk: Run, case: Path) -> None:
    table = case / "ops" / "layer=app" / "part-0.parquet"
    content = bytearray(table.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = b"\xff" * 64
    table.write_bytes(content)
    done = whodisk("verify", case, code=1)
    assert "part-0.parquet" in done.stdout, done.stdout
    assert "damaged" in done.stdout


def test_truncated_parquet(whodisk: Run, case: Path) -> None:
    table = case / "ops" / "layer=app" / "part-0.parquet"
    table.write_bytes(table.read_bytes()[:-100])
    complaint(whodisk("solve", case, code=2), "part-0.parquet", "expected", "found")
    assert "part-0.parquet" in whodisk("verify", case, code=1).stdout


def test_missing_table(whodisk: Run, case: Path) -> None:
    shutil.rmtree(case / "ops")
    whodisk("verify", case, code=1)
    complaint(whodisk("solve", case, code=2), "ops")


def tables(case: Path) -> dict[Path, bytes]:
    return {path.relative_to(case): path.read_bytes() for path in case.rglob("*.parquet")}


@pytest.mark.slow
def test_the_advice_for_damaged_tables_works(whodisk: Run, case: Path) -> None:
    """Every command that stumbles over damage says the same, and following it makes the case whole."""
    good = tables(case)
    table = case / "ops" / "layer=app" / "part-0.parquet"
    advice = f"`whodisk seal {case}`"

    def cut() -> None:
        table.write_bytes(table.read_bytes()[:-100])

    for damage in (
        cut,
        table.unlink,
        lambda: shutil.rmtree(case / "ops"),
        lambda: shutil.rmtree(case / "links"),
    ):
        damage()
        for command in ("solve", "report"):
            assert advice in whodisk(command, case, code=2).stderr
        found = whodisk("verify", case, code=1).stdout
        assert found.count("problem: ") == 1, found
        assert advice in found
        done = whodisk("seal", case)
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "built again from raw/: " in done.stderr, done.stderr
        assert tables(case) == good
        whodisk("verify", case)
    whodisk("solve", case)
    assert "whole: nothing to do" in whodisk("seal", case).stderr

    shutil.rmtree(case / "raw")
    cut()
    assert "restore it from a copy" in whodisk("verify", case, code=1).stdout
    complaint(
        whodisk("seal", case, code=2),
        "part-0.parquet",
        "expected",
        "found",
        "no raw events",
        "restore it from a copy",
    )
    assert advice in whodisk("solve", case, code=2).stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('colour = "red"', ["colour", "line", "expected"]),
        ('ramp = "5 fortnights"', ["ramp", "fortnights", "expected"]),
        ("ramp = 5", ["ramp", "expected", "found"]),
        ("queue_depth = 0", ["queue_depth", "expected", "found the number 0"]),
    ],
)
def test_wrong_specification(whodisk: Run, work: Path, line: str, words: list[str]) -> None:
    spec = work / "bad.toml"
    spec.write_text(f'[workload]\ntargets = ["data.bin"]\nduration = "1s"\n{line}\n', encoding="utf-8")
    complaint(whodisk("run", spec, "-o", work / "bad.case", code=2), "bad.toml", *words)
    assert not (work / "bad.case").exists()


def test_no_specification(whodisk: Run, work: Path) -> None:
    complaint(whodisk("run", "nowhere.toml", code=2), "nowhere.toml")
    assert list(work.iterdir()) == []


def test_unreadable_target(whodisk: Run, work: Path) -> None:
    spec = write_spec(work / "spec.toml", "/dev/zero")
    complaint(whodisk("run", spec, "-o", "a.case", "--app-only", code=2), "/dev/zero", "expected", "found")
    assert not (work / "a.case").exists()


def test_existing_directory_is_kept(whodisk: Run, work: Path) -> None:
    (work / "mine").mkdir()
    (work / "mine" / "thesis.txt").write_text("precious", encoding="utf-8")
    spec = write_spec(work / "spec.toml", "data.bin")
    complaint(whodisk("run", spec, "-o", "mine", code=2), "mine", "empty directory", "-o")
    assert (work / "mine" / "thesis.txt").read_text(encoding="utf-8") == "precious"


def test_read_only_directory(whodisk: Run, work: Path) -> None:
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="200ms")
    with read_only(work / "ro"):
        complaint(whodisk("run", spec, "-o", work / "ro" / "a.case", code=2), "ro/a.case", "writable place")


def test_read_only_case(whodisk: Run, case: Path, work: Path) -> None:
    """The verdict comes all the same; that it could not be saved is said."""
    with read_only(work / "ro", case):
        done = whodisk("solve", work / "ro", code=2)
        complaint(done, "ro/findings.json", "cannot write")
        assert "operations" in done.stdout


@contextmanager
def read_only(mount: Path, content: Path | None = None) -> Iterator[None]:
    """A small read-only file system; without root a directory without write permission."""
    mount.mkdir()
    if os.geteuid() != 0:
        if content:
            shutil.copytree(content, mount, dirs_exist_ok=True)
        mount.chmod(0o555)
        yield
        mount.chmod(0o755)
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M", "tmpfs", mount], check=True)
    try:
        if content:
            shutil.copytree(content, mount, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
        yield
    finally:
        subprocess.run(["umount", mount], check=True)


@pytest.mark.parametrize("size_kib", [64, 600, 3000])
def test_full_disk(whodisk: Run, work: Path, size_kib: int) -> None:
    """The disk of the case fills up: early, while recording, or while sealing."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    small = work / "small"
    small.mkdir()
    spec = write_spec(work / "spec.toml", "null", duration="2s", rate="200000/s")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs", small], check=True)
    try:
        done = whodisk("run", spec, "-o", small / "a.case", "--app-only", code=2)
        complaint(done, "small/a.case", "No space left")
        if (small / "a.case").exists():
            # What was written before is readable elsewhere.
            shutil.copytree(small / "a.case", work / "rescued.case")
            whodisk("seal", work / "rescued.case")
            whodisk("verify", work / "rescued.case")
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.root
@pytest.mark.beside
def test_a_disk_that_runs_full_leaves_a_case_that_is_not_sound(whodisk: Run, work: Path) -> None:
    """What is lost is said by the recording, the seal, verify and the verdict; nothing is advised that cannot be done."""
    small = work / "small"
    small.mkdir()
    (work / "data").write_bytes(os.urandom(1 << 22))
    read = "import os; f = os.open('data', os.O_RDONLY)\nfor n in range(400000): os.pread(f, 4096, n % 1024 * 4096)"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", small], check=True)
    try:
        done = whodisk("record", "-o", small / "a.case", "--", sys.executable, "-c", read, code=2)
        last = done.stderr.splitlines()[-1]
        assert "NOT SOUND: " in last and "of layer syscall" in last and "(write_failed)" in last, done.stderr
        # There is no room for the tables either, and `seal` has no -o.
        done = whodisk("seal", small / "a.case", code=2)
        assert "No space left" in done.stderr and "-o" not in done.stderr, done.stderr
        shutil.copytree(small / "a.case", work / "rescued.case")
    finally:
        subprocess.run(["umount", small], check=True)
    assert "NOT SOUND: " in whodisk("verify", work / "rescued.case", code=1).stdout
    assert "NOT SOUND: " in whodisk("seal", work / "rescued.case").stderr
    report = json.loads(whodisk("verify", work / "rescued.case", "--json", code=1).stdout)
    assert report["problems"] == []
    lost = {of["layer"]: of["lost"] for of in report["layers_missing"]}
    assert lost["syscall"] > 100_000, lost
    verdict = json.loads(whodisk("solve", work / "rescued.case", "--json", "--no-report").stdout)
    # On a busy machine the disk may be full before the requests are written; then they are named, too.
    assert any("layer syscall" in of["what"] for of in verdict["cannot_exclude"]), verdict["cannot_exclude"]
    if verdict["status"] != "insufficient":
        # The requests are whole and many enough: then they alone are judged.
        assert verdict["operations"] == meta(work / "rescued.case")["layers"]["block"]["rows"]


def test_panic_is_called_our_bug(work: Path) -> None:
    """Were there ever a panic, its message would say what to do; here the hook's words are in the binary."""
    assert b"this is a bug in whodisk; please report it" in AGENT.read_bytes()


def test_unknown_flags(whodisk: Run) -> None:
    complaint(whodisk("solve", "--colour", code=2), "--colour")
    complaint(whodisk("solve", "a.case", "--", "true", code=2), "either a case or a command")
    done = whodisk("record", "--colour", code=2)
    assert "--colour" in done.stderr


def test_wrong_expectation(whodisk: Run, case: Path) -> None:
    complaint(whodisk("solve", case, "--expect", "p99 is nice", code=2), "p99 is nice", "expected")
    whodisk("solve", case, "--expect", "p99<1ns", "--no-report", code=1)
    whodisk("solve", case, "--expect", "p99<100s", "--no-report")
