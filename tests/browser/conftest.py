"""A headless Chromium for the report's tests, and synthetic cases to report on."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

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


#: A browser that answers nothing for this long hangs. A page is drawn within a second; the machine may be busy.
HANGS_SECONDS = 60


class Chromium:
    """A browser that is started anew when it hangs, which headless Chromium does now and then on a busy machine."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self.driver = start()

    def quit(self) -> None:
        """Ends it, whether or not it still answers."""
        from selenium.common.exceptions import WebDriverException
        from urllib3.exceptions import HTTPError

        service = self.driver.service
        with contextlib.suppress(WebDriverException, HTTPError, OSError):
            self.driver.quit()
        if service.process is not None and service.process.poll() is None:
            service.process.kill()

    def twice(self, action: Callable[[Any], Any]) -> Any:
        """Does something with the browser; if it hangs, once more with another one, which `make test` tells at its end."""
        from selenium.common.exceptions import TimeoutException, WebDriverException
        from urllib3.exceptions import HTTPError

        try:
            return action(self.driver)
        except (TimeoutException, WebDriverException, HTTPError) as error:
            said = f"chromium was started again: {' '.join(str(error).split())[:200]}"
            print(said, file=sys.stderr)
            if (retries := os.environ.get("WHODISK_RETRIES")) is not None:
                with Path(retries).open("a", encoding="utf-8") as file:
                    file.write(f"tests/browser: chromium hung, and was started again\t{said}\n")
            self.quit()
            self.driver = self._start()
            return action(self.driver)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A running browser; skips where there is none."""
    binary, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        pytest.skip("no chromium with chromedriver (Debian: chromium, chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    def start() -> Any:
        options = Options()
        options.binary_location = binary
        for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        driver.set_page_load_timeout(HANGS_SECONDS)
        driver.set_script_timeout(HANGS_SECONDS)
        # What the driver itself does not answer ends, too: by default this waits for two minutes, again and again.
        cast(Any, driver.command_executor).client_config.timeout = 2 * HANGS_SECONDS
        return driver

    browser = Chromium(start)
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
        """Waits until a JavaScript expression is true; TimeoutException if that takes too long."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, HANGS_SECONDS, poll_frequency=0.05).until(
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
def open_page(chromium: Chromium) -> Opener:
    """Opens a report in a given theme and width, and waits until it is drawn."""

    def opened(path: Path, *, theme: str = "light", width: int = 1200) -> Page:
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}

        def shown(driver: Any) -> Page:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for kind in ("browser", "performance"):
                driver.get_log(kind)
            driver.get(path.as_uri())
            page = Page(driver, path)
            page.wait_until("document.documentElement.dataset.drawn === 'true'")
            return page

        page: Page = chromium.twice(shown)
        return page

    return opened
