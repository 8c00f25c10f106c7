"""A client that waits little, and scripted servers that stop with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from spark_durable.protocol import ClientSettings, DurableClient
from tests.protocol.scripted import ScriptedServer

Scripted = Callable[..., ScriptedServer]


@pytest.fixture
def client() -> Iterator[DurableClient]:
    with DurableClient(ClientSettings(connect_timeout=2, read_timeout=0.5)) as impatient:
        yield impatient


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """``scripted(step, …)`` starts a ScriptedServer."""
    with ExitStack() as servers:

        def start(*args: object, **kwargs: object) -> ScriptedServer:
            return servers.enter_context(ScriptedServer(*args, **kwargs))  # type: ignore[arg-type]

        yield start
