"""The kinds of servers a source meets, each with what makes it hard."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.source.chained_like import ChainedLike
from tests.source.ursula_like import UrsulaLike

NewStream = Callable[[], str]


@pytest.fixture
def ursula() -> Iterator[UrsulaLike]:
    """Decimal offsets, lines, and a cap small enough to fall inside most messages."""
    with UrsulaLike(cap=1000) as server:
        yield server


@pytest.fixture
def chained() -> Iterator[ChainedLike]:
    with ChainedLike() as server:
        yield server


@pytest.fixture
def unmeasured() -> Iterator[ChainedLike]:
    """Capped, and without Content-Length."""
    with ChainedLike(lengths=False) as server:
        yield server


@pytest.fixture
def numbered() -> Iterator[ChainedLike]:
    """Decimal offsets that count messages, not bytes."""
    with ChainedLike(decimal=True) as server:
        yield server


@pytest.fixture(params=["embedded", "node", "ursula", "chained", "unmeasured", "numbered"])
def new_stream(request: pytest.FixtureRequest) -> NewStream:
    """URLs of fresh streams, on each kind of server in turn."""
    found = request.getfixturevalue(request.param)
    if request.param in ("embedded", "node"):
        return lambda: str(found.stream("source"))
    return lambda: f"{found.url}/bucket/s-{uuid.uuid4().hex[:10]}"
