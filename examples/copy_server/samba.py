#!/usr/bin/env python3
"""Debian's Samba on a port of 127.0.0.1, with a configuration of its own: no system service, nothing outside one folder.

    python examples/copy_server/samba.py --state FOLDER [--port 4455] [--share NAME=DIRECTORY]...

Prints the lines of a specification for it, and serves until Ctrl-C. FOLDER (made if it is absent, 0700) holds the configuration, the
users, the log, `smbd.pid` and `credentials`, a file for the key of that name. The one user is who starts it, with a password that is
drawn anew each time. Needs the package samba; started by root it serves as root, so shares only what you name.
"""

from __future__ import annotations

import argparse
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

CONFIGURATION = """[global]
   server role = standalone server
   interfaces = 127.0.0.1/8
   bind interfaces only = yes
   smb ports = {port}
   disable netbios = yes
   disable spoolss = yes
   load printers = no
   server min protocol = SMB2_02
   private dir = {state}/private
   lock directory = {state}/lock
   state directory = {state}/state
   cache directory = {state}/cache
   pid directory = {state}
   ncalrpc dir = {state}/ncalrpc
   binddns dir = {state}/bind
   passdb backend = tdbsam
   log file = {state}/smbd.log
   logging = file
   ea support = yes
   store dos attributes = yes
{shares}"""
SHARE = """
[{name}]
   path = {path}
   read only = no
   strict allocate = no
"""
START_SECONDS_MAX = 20


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description="Samba for copies, on 127.0.0.1 only")
    parser.add_argument("--state", type=Path, required=True, help="folder for all that it keeps")
    parser.add_argument("--port", type=int, default=4455)
    parser.add_argument("--share", action="append", default=[], metavar="NAME=DIRECTORY")
    options = parser.parse_args()
    smbd = shutil.which("smbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if smbd is None:
        sys.exit("expected the program smbd, found none; install the package samba")
    state = options.state.resolve()
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("private", "lock", "state", "cache", "ncalrpc", "bind"):
        (state / name).mkdir(mode=0o755, exist_ok=True)
    shares = [word.partition("=") for word in options.share or [f"copies={state / 'copies'}"]]
    for _, _, path in shares:
        Path(path).mkdir(parents=True, exist_ok=True)
    text = CONFIGURATION.format(
        port=options.port,
        state=state,
        shares="".join(SHARE.format(name=name, path=Path(path).resolve()) for name, _, path in shares),
    )
    (state / "smb.conf").write_text(text, encoding="utf-8")
    user = pwd.getpwuid(os.getuid()).pw_name
    password = secrets.token_urlsafe(16)
    subprocess.run(
        ["smbpasswd", "-c", str(state / "smb.conf"), "-s", "-a", user],
        input=f"{password}\n{password}\n",
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    credentials = state / "credentials"
    credentials.unlink(missing_ok=True)
    descriptor = os.open(credentials, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"username={user}\npassword={password}\n")
    # An interruption between the start and the wait must end smbd, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with subprocess.Popen(
        [smbd, "--foreground", "--no-process-group", "-s", str(state / "smb.conf")], stdin=subprocess.DEVNULL
    ) as process:
        try:
            _wait(process, options.port, state)
            print(
                f'server = "127.0.0.1:{options.port}"\nshare = "{shares[0][0]}"\ncredentials = "{credentials}"'
            )
            print(f'server_pid_file = "{state / "smbd.pid"}"', flush=True)
            sys.exit(process.wait())
        except KeyboardInterrupt:
            pass
        finally:
            process.terminate()


def _wait(process: subprocess.Popen[bytes], port: int, state: Path) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    process.terminate()
    sys.exit(f"smbd does not answer on port {port}; it says in {state / 'smbd.log'} why")


if __name__ == "__main__":
    main()
