"""The submitter is stopped (SIGSTOP) now and then.

Right: `submitter_gap`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.accuracy.faults.base import Fault, Load, Running, Setting
from tests.accuracy.faults.places import target

STOP_SECONDS = 0.1


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """100 ms every half a second or so."""

    def stop(running: Running) -> int:
        pid, stops = running.pid(), 0
        time.sleep(0.8)
        while pid is not None and _runs(pid):
            subprocess.run(["kill", "-STOP", str(pid)], check=False, stderr=subprocess.DEVNULL)
            time.sleep(STOP_SECONDS)
            subprocess.run(["kill", "-CONT", str(pid)], check=False, stderr=subprocess.DEVNULL)
            stops += 1
            time.sleep(setting.chance.uniform(0.3, 0.9))
        return stops

    with target(setting) as path:
        yield Load(setting.spec(path), during=stop)


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False


FAULTS = (
    Fault(
        name="stopped",
        words="submitter stopped for 100 ms now and then",
        prepare=prepare,
        named=lambda finding, _: bool(finding["detector"] == "submitter_gap"),
        short_places=("disk",),
        short_seconds=5,
        times_min=3,
    ),
)
