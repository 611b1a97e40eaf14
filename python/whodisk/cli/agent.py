"""Where the binary `whodisk-agent` is, and how it is called."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from whodisk.errors import WhodiskError

#: Commands that the binary carries out; their help comes from it too.
COMMANDS = {
    "record": "Record storage operations: of a command, or of what runs.",
    "watch": "Show live rates, latencies and stages of every block device.",
    "run": "Run a load or a real program, and log every operation.",
    "slowdisk": "Make a real block device that delays requests, until Ctrl-C.",
    "lab": "Run a model of a storage stack, with a known culprit.",
    "whatif": "Replay a case through a model of the storage stack.",
    "layout": "Measure where files lie on their file system, and change it.",
    "import": "Turn foreign logs into a case.",
    "seal": "Turn the raw events of a case into Parquet tables.",
    "redact": "Copy a case with names replaced by tokens.",
    "verify": "Check a case: tables, sums, counts, what is missing.",
    "doctor": "Say what this host lets whodisk observe, and what is missing.",
}


class AgentError(WhodiskError):
    """The binary failed and has said why on stderr; only its exit code is left to pass on."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("")
        self.exit_code = exit_code


def find() -> Path:
    """The binary: `WHODISK_AGENT`, else the one beside this Python's own programs.

    Raises WhodiskError where there is none.
    """
    chosen = os.environ.get("WHODISK_AGENT")
    path = Path(chosen) if chosen else Path(sys.argv[0]).resolve().parent / "whodisk-agent"
    if not chosen and not path.is_file():
        path = Path(sys.executable).parent / "whodisk-agent"
    if not os.access(path, os.X_OK):
        raise WhodiskError(
            f"{path}: expected the program whodisk-agent, found none; "
            "install whodisk again (make build), or set WHODISK_AGENT to its path"
        )
    return path


def become(arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by the binary: signals, terminal and exit code are then its own."""
    sys.stdout.flush()
    # The first argument is the name that its help and its errors show.
    os.execv(find(), ["whodisk", *arguments])


def call(arguments: Sequence[str], *, capture: bool = False, aside: bool = False) -> str:
    """Runs the binary to its end. With `capture` returns its stdout, else ""; with `aside` that goes to stderr.

    Ctrl-C reaches the binary too, which closes its case; so this process waits for it.
    Raises AgentError if it fails.
    """
    stdout = subprocess.PIPE if capture else 2 if aside else None
    with subprocess.Popen(["whodisk", *arguments], executable=find(), stdout=stdout, text=True) as process:
        while True:
            try:
                text, _ = process.communicate()
                break
            except KeyboardInterrupt:
                continue
    if process.returncode < 0:
        # It could not say so itself.
        killed = signal.Signals(-process.returncode).name
        raise WhodiskError(
            f"whodisk-agent {arguments[0]} was ended by {killed} (SIGKILL without anybody's doing: the kernel had no "
            "memory left; `whodisk doctor` says what is needed); what it had written of a case can be read"
        )
    if process.returncode != 0:
        raise AgentError(process.returncode)
    return text or ""


def call_json(arguments: Sequence[str]) -> Any:
    """Runs the binary and reads the JSON that it prints."""
    return json.loads(call(arguments, capture=True))
