"""A pytest plugin, ``-p tests.server.load_plugin``: the session's embedded server works for 64
other clients as well while the tests run. The run fails if one of these meets an error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

CLIENTS = int(os.environ.get("LOAD_CLIENTS", "64"))


@pytest.fixture(scope="session", autouse=True)
def load_beside_the_tests(embedded_server: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.server.load", embedded_server, str(CLIENTS)]
    load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield
    said, _ = load.communicate(timeout=60)
    print(said)
    assert load.returncode == 0, said
