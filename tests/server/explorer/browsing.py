"""The explorer's page as tests use it, and many requests in little time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

PATIENCE_S = 20


class Page:
    """The explorer as a person sees and uses it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, path: str = "") -> None:
        # From elsewhere, so that another address of the same page is a visit and no navigation.
        self.driver.get("about:blank")
        self.driver.get(f"{url}/#{path}" if path else url)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def run(self, script: str, *args: Any) -> Any:
        return self.driver.execute_script(script, *args)

    def wait(self, condition: Callable[[], Any], what: str = "") -> Any:
        waiting = WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.05)
        return waiting.until(lambda _: condition(), what)

    def shown(self, selector: str) -> bool:
        return self.find(selector).is_displayed()

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return list(self.run(script, selector))

    def click(self, selector: str) -> None:
        self.wait(lambda: self.shown(selector), f"{selector} to be there")
        self.find(selector).click()

    def fill(self, selector: str, text: str) -> None:
        """Sets a field's value as typing would."""
        self.run(
            "arguments[0].value = arguments[1];"
            "arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
            self.find(selector),
            text,
        )

    @property
    def messages(self) -> list[str]:
        return self.texts("#messages .message-body")

    @property
    def names(self) -> list[str]:
        return self.texts("#list .name")

    def wait_live(self) -> None:
        self.wait(lambda: self.text("#live") == "Live", "the tail to be live")

    def wait_messages(self, expected: list[str]) -> None:
        try:
            self.wait(lambda: self.messages == expected)
        except Exception:
            assert self.messages == expected
            raise

    def complaints(self) -> list[str]:
        """What the console holds since last asked, refused requests aside: those are shown."""
        logged = [str(entry["message"]) for entry in self.driver.get_log("browser")]
        return [each for each in logged if "the server responded with a status of" not in each]


def pipeline(url: str, requests: Iterable[bytes]) -> None:
    """Sends many small requests on one connection; each must be answered with success."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        answers = connection.makefile("rb")
        batch: list[bytes] = []

        def flush() -> None:
            connection.sendall(b"".join(batch))
            for _ in batch:
                status = answers.readline()
                assert status.startswith(b"HTTP/1.1 20"), status
                while answers.readline() != b"\r\n":
                    pass
            batch.clear()

        for request in requests:
            batch.append(request)
            if len(batch) == 200:
                flush()
        flush()
