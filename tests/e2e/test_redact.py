"""A redacted case holds none of the names, and gives the same verdict."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ground_truth.cases import TRUTHS
from tests.e2e.conftest import Run, meta, write_spec
from whodisk.verdict.solve import solve

#: Cases with a known culprit that are redacted: some of each kind, half of them in `make test-long` alone.
TRUTHS_REDACTED = [
    pytest.param(name, marks=pytest.mark.slow if at % 2 else ())
    for at, name in enumerate(sorted(TRUTHS)[::30])
]


def strings(case: Path) -> set[str]:
    """Every string of every table of `case`."""
    found: set[str] = set()
    connection = duckdb.connect()
    for table in case.rglob("*.parquet"):
        columns = connection.execute(f"DESCRIBE SELECT * FROM '{table}'").fetchall()
        for name in (column[0] for column in columns if column[1] == "VARCHAR"):
            rows = connection.execute(f"SELECT DISTINCT {name} FROM '{table}' WHERE {name} IS NOT NULL")
            found |= {row[0] for row in rows.fetchall()}
    return found


def everything(case: Path) -> str:
    """All that a reader of `case` can read."""
    files = {path.name for path in case.iterdir() if path.is_file()}
    assert files == {"case.json", "system.json"}, files
    return "\n".join(
        [(case / name).read_text(encoding="utf-8") for name in sorted(files)] + sorted(strings(case))
    )


def verdict(whodisk: Run, case: Path) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(whodisk("solve", case, "--json", "--no-report").stdout)
    return done


def without_names(found: dict[str, Any]) -> dict[str, Any]:
    """What a verdict says beside names."""
    findings = [
        {key: f[key] for key in ("detector", "share_of_excess", "q_value", "episodes")}
        | {"kind": f["culprit"]["kind"], **{k: f["effect"][k] for k in ("value", "low", "high", "unit")}}
        for f in found["findings"]
    ]
    return {
        "status": found["status"],
        "where": found["where_time_goes"],
        "findings": findings,
        "cleared": [(c["quantile"], c["confidence"]) for c in found["cleared"]],
    }


def test_a_recording_loses_its_names_and_keeps_its_verdict(whodisk: Run, work: Path) -> None:
    folder = work / "payroll-2026"
    folder.mkdir()
    spec = write_spec(work / "acme-nightly.toml", folder / "customers.ibd", duration="300ms")
    whodisk("run", spec, "-o", "a.case")
    whodisk("redact", "a.case", "-o", "b.case", "--redact-key", "key")
    case, copy = work / "a.case", work / "b.case"
    assert whodisk("verify", copy).stdout.endswith("whole\n") or "sound" in whodisk("verify", copy).stdout
    assert meta(copy)["redacted"] and "redacted" not in meta(case)
    text = everything(copy)
    secrets = {"payroll-2026", "customers.ibd", "acme-nightly", work.name}
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    facts = [device["facts"] for device in system["devices"].values()]
    secrets |= {fact[key] for fact in facts for key in ("serial", "wwid", "dm_name") if key in fact}
    secrets |= {Path(fact["loop_backing_file"]).name for fact in facts if "loop_backing_file" in fact}
    hosts = {socket.gethostname(), system["host"]}
    before = strings(case)
    assert any("payroll-2026" in text for text in before)
    left = [secret for secret in secrets if secret in text]
    left += [host for host in hosts if re.search(rf"\b{re.escape(host)}\b", text)]
    assert not left, left
    commands = {text for text in before if re.fullmatch(r"worker-\d+", text)}
    assert commands and not commands & strings(copy)
    assert without_names(verdict(whodisk, case)) == without_names(verdict(whodisk, copy))


def test_the_same_key_gives_the_same_tokens(whodisk: Run, work: Path) -> None:
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="500ms")
    whodisk("run", spec, "-o", "a.case", "--app-only")
    for copy, key in (
        ("b.case", ["--redact-key", "key"]),
        ("c.case", ["--redact-key", "key"]),
        ("d.case", []),
    ):
        whodisk("redact", "a.case", "-o", copy, *key)
    assert strings(work / "b.case") == strings(work / "c.case") != strings(work / "d.case")
    assert (work / "key").stat().st_mode & 0o777 == 0o600
    assert "exists" in whodisk("redact", "a.case", "-o", "b.case", code=2).stderr
    (work / "bad").write_text("no key", encoding="utf-8")
    assert "hexadecimal" in whodisk("redact", "a.case", "-o", "e.case", "--redact-key", "bad", code=2).stderr
    assert not (work / "e.case").exists()


@pytest.mark.root
@pytest.mark.beside
def test_a_recording_is_redacted_at_once(whodisk: Run, work: Path) -> None:
    secret = work / "payroll-2026.bin"
    command = ["dd", "if=/dev/zero", f"of={secret}", "bs=64k", "count=23", "oflag=direct"]
    whodisk("record", "-o", "a.case", "--redact", "--", *command)
    text = everything(work / "a.case")
    assert "payroll" not in text and work.name not in text
    assert not (work / "a.case" / "raw").exists() and not (work / "a.case.redacting").exists()
    # Still known to be the observed command's.
    comm = meta(work / "a.case")["command"][0]
    assert comm.startswith("comm-") and comm in strings(work / "a.case")
    assert "--redact" in whodisk("solve", "a.case", "--redact", code=2).stderr


def _ran_instead(case: Path, comm: str) -> None:
    """Makes this thread the one that had the CPU in all waits of `case`."""
    path = case / "waits" / "part-0.parquet"
    waits = pq.read_table(path)
    at = waits.schema.get_field_index("cause")
    causes = pa.array([comm] * len(waits), waits.schema.field(at).type)
    pq.write_table(waits.set_column(at, waits.schema.field(at), causes), path)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["kernel_threads"] = ["kdamond.#", "kworker/#:#", "md_acme_raid#"]
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")


@pytest.mark.parametrize(
    ("comm", "kept"), [("kdamond.0", False), ("kworker/3:1", True), ("md_acme_raid1", False)]
)
def test_threads_of_the_kernel_stay_threads_of_the_kernel(
    whodisk: Run, work: Path, comm: str, kept: bool
) -> None:
    case = TRUTHS["cpu_hog"].build(0, work / "a.case")
    _ran_instead(case, comm)
    whodisk("redact", case, "-o", "b.case")
    text = everything(work / "b.case")
    assert (comm in text) is kept and "acme" not in text
    before, after = (without_names(solve(path).to_dict()) for path in (case, work / "b.case"))
    assert before == after


@pytest.mark.parametrize("name", TRUTHS_REDACTED)
def test_known_culprits_are_still_named(whodisk: Run, work: Path, name: str) -> None:
    case = TRUTHS[name].build(0, work / "a.case")
    whodisk("redact", case, "-o", "b.case")
    # In this process: the command's start and its words take longer than the verdict.
    before, after = (without_names(solve(path).to_dict()) for path in (case, work / "b.case"))
    assert before == after


def test_an_interrupted_copy_leaves_nothing(tmp_path: Path) -> None:
    """Half a copy holds names that are not replaced yet, and stands in the way of the next one."""
    case, copy = TRUTHS["slow_size"].build(1, tmp_path / "case"), tmp_path / "copy"
    binary = Path(sys.executable).with_name("whodisk-agent")
    with subprocess.Popen([binary, "redact", case, "-o", copy], stderr=subprocess.DEVNULL) as process:
        while not copy.exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        code = process.wait()
    # It may have been done by then.
    assert (code, copy.exists()) in ((130, False), (0, True))
    if code == 130:
        subprocess.run([binary, "redact", case, "-o", copy], check=True)
    assert (copy / "case.json").is_file()
