"""A browser that hangs holds up no test for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Chromium

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def test_a_page_that_never_ends_loading_is_given_up_and_the_next_browser_is_asked(
    chromium: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This one is on purpose: the list at the end of `make test` is for those that are not.
    retries = tmp_path / "retries.tsv"
    monkeypatch.setenv("WHODISK_RETRIES", str(retries))
    endless = tmp_path / "endless.html"
    endless.write_text("<script>for (;;) {}</script>", encoding="utf-8")
    short = tmp_path / "short.html"
    short.write_text("<title>short</title>", encoding="utf-8")
    pages = [endless, short]
    hung = chromium.driver
    hung.set_page_load_timeout(1)

    def shown(driver: Any) -> str:
        driver.get(pages.pop(0).as_uri())
        title: str = driver.title
        return title

    assert chromium.twice(shown) == "short"
    assert chromium.driver is not hung
    assert retries.read_text(encoding="utf-8").startswith(
        "tests/browser: chromium hung, and was started again\t"
    )
    assert hung.service.process.poll() is not None, "its chromedriver is left"
