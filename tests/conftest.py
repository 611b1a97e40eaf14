"""What holds for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long one example takes is a matter of who else uses the machine.
settings.register_profile("whodisk", deadline=None)
settings.load_profile("whodisk")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Recordings that computing tests may disturb go one by one, and once more if they fail (decision 0193). Of a test that is made for several seeds `make test` has the
    first, and `make test-long` the others (decision 0379)."""
    # A machine that boots keeps one CPU busy for a minute: not the last minute, while the other waits.
    items.sort(key=lambda item: item.get_closest_marker("vm") is None)
    seeded: set[str] = set()
    for item in items:
        if (of := _without_seed(item)) is not None:
            if of in seeded:
                item.add_marker(pytest.mark.slow)
            seeded.add(of)
        if item.get_closest_marker("beside") is not None:
            item.add_marker(pytest.mark.xdist_group("recordings"))
            item.add_marker(pytest.mark.flaky(reruns=1))


def _without_seed(item: pytest.Item) -> str | None:
    """What a test and its other parameters are called; None if it has no seed."""
    parameters = (
        item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    )
    if "seed" not in parameters:
        return None
    others = {name: str(value) for name, value in sorted(parameters.items()) if name != "seed"}
    return f"{item.nodeid.split('[', 1)[0]} {others}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds the tests that were skipped, and those that passed only when run again, to the files that `make test` sums up."""
    skipped, passed = terminalreporter.stats.get("skipped", []), terminalreporter.stats.get("passed", [])
    if (path := os.environ.get("WHODISK_SKIPS")) is not None:
        with Path(path).open("a") as file:
            for report in skipped:
                reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
                file.write(f"{report.nodeid}\t{' '.join(reason.removeprefix('Skipped: ').split())}\n")
    # Written by pytest-rerunfailures, where it is asked for (decision 0193).
    if (path := os.environ.get("WHODISK_RETRIES")) is not None:
        good = {report.nodeid for report in passed}
        with Path(path).open("a") as file:
            for report in terminalreporter.stats.get("rerun", []):
                if report.nodeid in good:
                    file.write(f"{report.nodeid}\tfailed at first, passed when run again\n")
