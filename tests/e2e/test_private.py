"""A case holds paths and command lines of all programs: nobody but its owner reads it, unless `--mode` shares it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.accuracy.host import slowdisk
from tests.e2e.conftest import Run, write_spec
from tests.e2e.test_flight import READER
from whodisk.cli.cases import ready
from whodisk.errors import WhodiskError

CSV = "disk,ts,lat\n" + "".join(f"d{n % 3},{1_700_000_000 + n // 3},{100 + n % 7}\n" for n in range(300))
MAP = "device=disk,t=ts:s,latency=lat:us"

#: Nothing is private by it.
OPEN_UMASK = pytest.mark.parametrize("umask", [0])


def modes(root: Path) -> tuple[set[int], set[int]]:
    """Of all directories and of all files from `root` down."""
    found: tuple[set[int], set[int]] = (set(), set())
    for path in [root, *root.rglob("*")]:
        found[path.is_file()].add(stat.S_IMODE(path.stat().st_mode))
    return found


@OPEN_UMASK
def test_cases_are_their_owners_alone(whodisk: Run, work: Path, umask: int) -> None:
    (work / "drives.csv").write_text(CSV)
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="200ms")
    whodisk("import", "series", "drives.csv", "--map", MAP, "-o", "import.case", umask=umask)
    whodisk("run", spec, "--app-only", "--no-seal", "-o", "run.case", umask=umask)
    assert modes(work / "run.case") == ({0o700}, {0o600})
    # Sealed on the first read; findings.json and report.html are added.
    whodisk("solve", "run.case", umask=umask)
    assert (work / "run.case" / "report.html").is_file()
    whodisk("redact", "run.case", "-o", "redacted.case", umask=umask)
    whodisk("lab", "run", "healthy-nvme", "--set", "workload.duration=100ms", "-o", "lab.case", umask=umask)
    whodisk("lab", "generate", "--count", "1", "-o", "lab", umask=umask)
    for root in ("import.case", "run.case", "redacted.case", "lab.case", "lab"):
        assert modes(work / root) == ({0o700}, {0o600}), root


@pytest.mark.parametrize("umask", [0, 0o022])
def test_mode_shares_a_case_and_what_is_added_later(whodisk: Run, work: Path, umask: int) -> None:
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="200ms")
    whodisk("run", spec, "--app-only", "--no-seal", "--mode", "0640", "-o", "a.case", umask=umask)
    whodisk("solve", "a.case", umask=umask)
    assert modes(work / "a.case") == ({0o750}, {0o640})
    # A case that exists, sealed or not.
    whodisk("seal", "a.case", "--mode", "0644", umask=umask)
    assert modes(work / "a.case") == ({0o755}, {0o644})
    assert "0640" in whodisk("seal", "a.case", "--mode", "0755", umask=umask, code=2).stderr


@OPEN_UMASK
@pytest.mark.root
@pytest.mark.beside
def test_recordings_are_their_owners_alone_and_the_command_keeps_its_umask(
    whodisk: Run, work: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--", "sh", "-c", "umask > asked; dd if=/dev/zero of=data bs=64k count=4 oflag=sync"]
    whodisk("record", "-o", "record.case", "--redact", *command, umask=umask)
    assert int((work / "asked").read_text(), 8) == umask
    assert stat.S_IMODE((work / "data").stat().st_mode) == 0o666 & ~umask
    whodisk("solve", "-o", "solve.case", *command, umask=umask)
    for root in ("record.case", "solve.case"):
        assert modes(work / root) == ({0o700}, {0o600}), root
    # Who may not read it is told so, in words.
    work.chmod(0o755)
    # From inside: the checkout itself may lie where nobody else may look.
    monkeypatch.chdir(work)
    os.seteuid(65534)
    try:
        with pytest.raises(WhodiskError, match=r"found one of user root.*--mode"):
            ready(Path("solve.case"))
    finally:
        os.seteuid(0)


@OPEN_UMASK
@pytest.mark.root
@pytest.mark.slow
def test_cases_of_the_flight_recorder_are_private_too(whodisk: Run, work: Path, umask: int) -> None:
    (work / "reader.py").write_text(READER)
    with slowdisk("read constant 600ms offset 0..4KiB", seed=1, size="16MiB") as device:
        trigger = f"latency > 400ms and op == read and device == {device}"
        command = ("--", "python3", "reader.py", device)
        ring = ("--ring", "10s", "--after", "100ms", "--trigger", trigger)
        whodisk("record", *ring, "-o", "incidents", *command, umask=umask)
    assert any((work / "incidents").rglob("*.parquet"))
    assert modes(work / "incidents") == ({0o700}, {0o600})
