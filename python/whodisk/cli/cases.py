"""What several commands do with a case: make it ready to read, save what was found out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from whodisk.cli import agent
from whodisk.errors import CaseError, WhodiskError
from whodisk.report.files import write_whole

if TYPE_CHECKING:
    from whodisk.findings import Verdict


def ready(case: Path) -> Path:
    """Seals `case` if that was not done yet, for instance because its recorder was killed.

    Raises WhodiskError if `case` is no case.
    """
    meta = case / "case.json"
    try:
        content = json.loads(meta.read_text(encoding="utf-8"))
        state = content.get("state")
    except (FileNotFoundError, NotADirectoryError):
        raise WhodiskError(
            f"{case}: expected a case (a directory with case.json), found {_instead(case)}"
        ) from None
    except PermissionError as error:
        raise WhodiskError(
            f"{error.filename}: expected a case that you may read, found one of user {_owner(case)}; "
            "ask its owner for `whodisk seal --mode 0644`, or read it as that user"
        ) from None
    except (ValueError, AttributeError):
        # Whoever reads the case says what is wrong with this file.
        return case
    if state in ("recording", "recorded"):
        print(f"whodisk: {case}: sealing", file=sys.stderr)
        agent.call(["seal", str(case)])
        return case
    for table in content.get("tables", {}):
        if not (case / table).is_file():
            hint = f"`whodisk seal {case}` builds it again from raw/, or says why it cannot"
            raise CaseError(case / table, "", "the table that case.json names", "no such file", hint)
    return case


def _instead(path: Path) -> str:
    """What there is in place of a case, and what to do. A recorder with a trigger writes a directory of cases."""
    cases = sorted(meta.parent for meta in path.glob("*/case.json"))
    if not cases:
        return "none; check the path"
    number = "one case" if len(cases) == 1 else f"{len(cases)} cases"
    return f"a directory with {number}; name one, such as {cases[-1]}"


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except (KeyError, OSError):
        return "unknown"


def save_verdict(case: Path, verdict: Verdict) -> Path:
    """Writes `findings.json` into the case. Raises OSError."""
    path = case / "findings.json"
    write_whole(path, verdict.to_json(), case)
    return path


def write_report(case: Path, verdict: Verdict, output: Path | None = None) -> Path:
    """Writes the HTML report (default: into the case). Raises OSError."""
    from whodisk.report import html

    path = output or case / "report.html"
    if path.is_dir() or not path.name:
        raise WhodiskError(
            f"{path}: expected the name of a file for the report, found a folder; name one with -o, e.g. {path / 'report.html'}"
        )
    if not path.parent.is_dir():
        raise WhodiskError(
            f"{path}: expected a folder for the report, found none at {path.parent}; make it, or name another with -o"
        )
    html.write(case, verdict, path)
    return path
