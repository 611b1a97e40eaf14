"""python -m odx_server --share NAME=DIRECTORY [--port 4456] [--io-size BYTES]: serves on 127.0.0.1 until Ctrl-C.

The user and its password are read from the file named by --credentials (`username=`, `password=`); it is made, with a password that is
drawn, if it is absent.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import sys
from pathlib import Path

from odx_server.server import make


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(prog="odx_server", description=__doc__)
    parser.add_argument("--share", action="append", required=True, metavar="NAME=DIRECTORY")
    parser.add_argument("--port", type=int, default=4456)
    parser.add_argument(
        "--io-size", type=int, default=1 << 20, help="bytes of each read and write of its own"
    )
    parser.add_argument(
        "--prefetch",
        type=int,
        default=0,
        help="bytes that it fetches ahead with each read, instead of the kernel",
    )
    parser.add_argument("--credentials", type=Path, required=True)
    parser.add_argument("--pid-file", type=Path)
    options = parser.parse_args()
    if not options.credentials.exists():
        descriptor = os.open(options.credentials, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"username=copies\npassword={secrets.token_urlsafe(16)}\n")
    lines = options.credentials.read_text(encoding="utf-8").splitlines()
    known = {key: value for key, _, value in (line.partition("=") for line in lines)}
    shares = {name: Path(path) for name, _, path in (word.partition("=") for word in options.share)}
    server, _ = make(
        options.port, shares, known["username"], known["password"], options.io_size, options.prefetch
    )
    if options.pid_file:
        options.pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f'server = "127.0.0.1:{options.port}"', flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
