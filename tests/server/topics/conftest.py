"""A topic of its own on a real server, in memory and on disk."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def topic(base: str) -> str:
    """URL of a topic that no other test uses. It does not exist yet."""
    return f"{base}/v0/topics/t-{uuid.uuid4().hex[:12]}"
