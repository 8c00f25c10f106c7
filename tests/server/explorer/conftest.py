"""A real browser, and a server to look into."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver

from spark_durable.server import EmbeddedServer

pytest.register_assert_rewrite("tests.server.explorer.browsing")

from tests.server.explorer.browsing import Page  # noqa: E402 - rewritten on import


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail("Chromium is needed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1440,900"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield running
    running.quit()


@pytest.fixture
def page(chromium: webdriver.Chrome) -> Iterator[Page]:
    """The browser with nothing open. Afterwards its console holds neither errors nor violations
    of the content policy."""
    found = Page(chromium)
    yield found
    complaints = found.complaints()
    chromium.get("about:blank")
    assert complaints == []


@pytest.fixture(scope="module")
def explored() -> Iterator[str]:
    """URL of a server whose live readers come back often."""
    with EmbeddedServer(sse_duration=1.0) as server:
        yield server.url
