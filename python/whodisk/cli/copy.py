"""`whodisk run SPEC` where SPEC is a copy: records it, puts its operations and their answers into the case."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from whodisk.cli import agent
from whodisk.copies import engine
from whodisk.copies.specification import Specification, read
from whodisk.errors import WhodiskError
from whodisk.programs.base import SOURCES
from whodisk.words import size

MEMORY = Path("/dev/shm")


def run_copy(
    specification: Annotated[
        Path, typer.Argument(metavar="SPEC", help="Access specification with a method.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="CASE", help="Directory of the case [default: ./whodisk-<UTC time>]"
        ),
    ] = None,
    app_only: Annotated[
        bool, typer.Option("--app-only", help="Only the copy's own operations; needs no privileges.")
    ] = False,
    drop_raw: Annotated[bool, typer.Option("--drop-raw", help="Keep only the Parquet tables.")] = False,
    mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="Who may read the case, e.g. 0640 [default: 0600]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Copies within a file system or on an SMB server, records it, and logs every operation with its answer."""
    spec = read(specification)
    case = output or Path(time.strftime("whodisk-%Y%m%dT%H%M%SZ", time.gmtime()))
    if case.exists() and (not case.is_dir() or any(case.iterdir())):
        raise WhodiskError(
            f"{case}: expected the name of a new case, found something that is there; choose another with -o"
        )
    scratch = Path(
        tempfile.mkdtemp(prefix="whodisk-copy-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    )
    try:
        outcome = _record(
            spec, specification, case, scratch, ["--mode", mode] if mode else [], app_only, drop_raw
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if as_json:
        typer.echo(json.dumps(outcome))
    else:
        _tell(outcome)
    if not outcome["complete"]:
        raise WhodiskError(
            f"the copy is not complete: {outcome['why_not']}\nwhodisk: {case} holds every operation until then"
        )
    print(f"whodisk: next: whodisk solve {case}", file=sys.stderr)


def _record(
    spec: Specification,
    path: Path,
    case: Path,
    scratch: Path,
    sharing: list[str],
    app_only: bool,
    drop_raw: bool,
) -> dict[str, Any]:
    code = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); from whodisk.copies.engine import main; main()"
    options = json.dumps({"specification": str(path.resolve()), "folder": str(scratch)})
    command = [sys.executable, "-E", "-c", code, options]
    server = [] if spec.server_pid_file is None else ["--pid", str(_server(spec.server_pid_file))]
    probes = ["--probe", "sampler"] if app_only else []
    agent.call(
        ["record", "--of-program", "--no-seal", "-o", str(case), *sharing, *server, *probes, "--", *command]
    )
    try:
        outcome: dict[str, Any] = json.loads((scratch / engine.OUTCOME).read_text(encoding="utf-8"))
    except OSError:
        outcome = {"complete": False, "why_not": "it was ended before it wrote its log", "calls": []}
    about = scratch / "workload.json"
    told = {key: value for key, value in asdict(spec).items() if value is not None and key != "credentials"}
    # Laying the source out and comparing afterwards are no part of the copy; connecting of later passes is.
    passes = outcome.get("passes", [])
    phases = (
        [{"name": "measure", "start_ns": passes[0]["start_ns"], "end_ns": passes[-1]["end_ns"]}]
        if passes
        else []
    )
    about.write_text(
        json.dumps({"program": f"copy {spec.method}", **told, "outcome": outcome, "phases": phases}),
        encoding="utf-8",
    )
    log = scratch / engine.LOG
    agent.call(["own-log", str(case), "--about", str(about), *(["--log", str(log)] if log.exists() else [])])
    agent.call(["seal", str(case), *(["--drop-raw"] if drop_raw else [])])
    _answers(scratch / engine.ANSWERS, case / "copies.parquet")
    return outcome


def _answers(source: Path, target: Path) -> None:
    """What was answered to each operation, as a table beside the sealed ones."""
    if not source.exists() or not source.stat().st_size:
        return
    import duckdb

    from whodisk.reading.views import quoted

    columns = {
        "kind": "VARCHAR",
        "call": "VARCHAR",
        **dict.fromkeys(("due_ns", "submit_ns", "end_ns"), "BIGINT"),
        "tid": "INTEGER",
        **dict.fromkeys(("offset_bytes", "asked_bytes", "transferred_bytes"), "BIGINT"),
        "error": "INTEGER",
        "status": "BIGINT",
        "words": "VARCHAR",
        "token_age_ns": "BIGINT",
    }
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM read_json({quoted(str(source))}, format = 'newline_delimited', columns = {columns})) "
            f"TO {quoted(str(target))} (FORMAT parquet)"
        )
    target.chmod((target.parent / "case.json").stat().st_mode & 0o777)


def _server(path: str) -> int:
    try:
        return int(Path(path).read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        raise WhodiskError(
            f"{path}: expected the process number of the server, found none; start it, or remove server_pid_file"
        ) from None


def _tell(outcome: dict[str, Any]) -> None:
    for row in outcome["calls"]:
        typer.echo(
            f"{row['call']:22} {row['operations']:8,} operations  {size(row['transferred_bytes'])} of {size(row['asked_bytes'])}"
            + (f"  {row['short']:,} brought less than asked" if row["short"] else "")
            + (f"  {row['failed']:,} failed" if row["failed"] else "")
            + "".join(f"  {status}: {count:,}" for status, count in row["statuses"].items())
        )
    if outcome.get("copied_bytes_per_s"):
        checked = ", compared" if outcome.get("verified") else ""
        typer.echo(
            f"{'complete' if outcome['complete'] else 'NOT COMPLETE'}{checked}: {outcome['copied_bytes_per_s'] / 1e6:,.1f} MB/s"
        )
