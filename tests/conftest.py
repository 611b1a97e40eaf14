"""What holds for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long one example takes is a matter of who else uses the machine.
settings.register_profile("whodisk", deadline=None)
settings.load_profile("whodisk")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds the tests that were skipped to the file that `make test` sums up, one line `test<TAB>reason` each."""
    if (path := os.environ.get("WHODISK_SKIPS")) is None:
        return
    with Path(path).open("a") as file:
        for report in terminalreporter.stats.get("skipped", []):
            reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
            file.write(f"{report.nodeid}\t{' '.join(reason.removeprefix('Skipped: ').split())}\n")
