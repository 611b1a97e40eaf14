"""A headless Chromium for the report's tests, and synthetic cases to report on."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def load(name: str, path: Path) -> ModuleType:
    """A module of the tests by its file; pytest imports test files without a package around them."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def synth() -> ModuleType:
    """`tests/synth.py`."""
    return load("synth", TESTS / "synth.py")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running browser; skips where there is none."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium with chromedriver (Debian: chromium, chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = binary
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    yield browser
    browser.quit()


class Page:
    """An opened report."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser = browser
        self.path = path

    def run(self, script: str, *arguments: Any) -> Any:
        """Value of a piece of JavaScript."""
        return self.browser.execute_script(script, *arguments)

    def data(self) -> dict[str, Any]:
        """What the pictures were drawn from."""
        text: str = self.run("return document.getElementById('report-data').textContent")
        parsed: dict[str, Any] = json.loads(text)
        return parsed

    def wait_until(self, condition: str) -> None:
        """Waits at most 20 s until a JavaScript expression is true."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 20, poll_frequency=0.05).until(
            lambda browser: browser.execute_script(f"return !!({condition})"), message=condition
        )

    def console(self) -> list[str]:
        """Everything the console has said since the last call, except plain information."""
        entries = self.browser.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] not in {"INFO", "DEBUG"}]

    def requested(self) -> list[str]:
        """Addresses the page has asked for since the last call, the page itself and inline data aside."""
        found = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        inline = ("data:", "blob:", self.path.as_uri())
        return [url for url in found if not url.startswith(inline)]


Opener = Callable[..., Page]


@pytest.fixture
def open_page(chromium: Any) -> Opener:
    """Opens a report in a given theme and width, and waits until it is drawn."""

    def opened(path: Path, *, theme: str = "light", width: int = 1200) -> Page:
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for kind in ("browser", "performance"):
            chromium.get_log(kind)
        chromium.get(path.as_uri())
        page = Page(chromium, path)
        page.wait_until("document.documentElement.dataset.drawn === 'true'")
        return page

    return opened
