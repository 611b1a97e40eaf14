"""python -m odx_conformance HOST SHARE [--port N] [--case NAME]... [--list]

User and password come from ODX_USERNAME and ODX_PASSWORD, or from --credentials FILE (`username=`, `password=`). Works in files of its
own on the share, which it removes. Prints a line per case; exit code 0: all passed, 1: some failed, 2: it could not run.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from odx_conformance.cases import CASES, run
from odx_conformance.client import CannotConnect, Server


def main() -> None:
    """Runs the cases."""
    parser = argparse.ArgumentParser(prog="odx_conformance", description=__doc__)
    parser.add_argument("host")
    parser.add_argument("share")
    parser.add_argument("--port", type=int, default=445)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case")
    parser.add_argument("--credentials", type=Path)
    parser.add_argument("--list", action="store_true", help="list the cases, and what each expects")
    options = parser.parse_args()
    if options.list:
        for name, case in CASES.items():
            print(f"{name:32} {' '.join((case.__doc__ or '').split())}")
        return
    known = {"username": os.environ.get("ODX_USERNAME", ""), "password": os.environ.get("ODX_PASSWORD", "")}
    if options.credentials:
        lines = options.credentials.read_text(encoding="utf-8").splitlines()
        known = {key: value for key, _, value in (line.partition("=") for line in lines)}
    server = Server(options.host, options.port, options.share, known["username"], known["password"])
    try:
        results = run(server, options.case or list(CASES))
    except CannotConnect as error:
        print(f"odx_conformance: {error}", file=sys.stderr)
        sys.exit(2)
    for name, why in results.items():
        print(f"{'ok  ' if why is None else 'FAIL'} {name}" + (f": {why}" if why else ""))
    failed = sum(why is not None for why in results.values())
    print(f"{len(results) - failed} of {len(results)} passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
