"""Every store test runs twice: in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.store.driver import SMALL, Driver


@pytest.fixture(params=["memory", "disk"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    directory = tmp_path / "data" if request.param == "disk" else None
    driver = Driver(directory, **SMALL)
    yield driver
    driver.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path / "data", **SMALL)
    yield driver
    driver.close()
