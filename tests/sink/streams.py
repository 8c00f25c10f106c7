"""Looking into streams from outside, and comparing what is there with what was meant to be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from spark_durable.protocol import DurableClient


def messages(url: str) -> list[bytes]:
    """Every message of a JSON stream, in stream order."""
    found: list[bytes] = []
    offset = "-1"
    with DurableClient() as client:
        while True:
            with client.read(url, offset) as answer:
                found += answer.messages()
                if answer.up_to_date or answer.next_offset in (None, offset):
                    return found
                offset = answer.next_offset


def values(url: str) -> list[Any]:
    return [json.loads(message) for message in messages(url)]


def ids(url: str) -> list[int]:
    return [value["id"] for value in values(url)]


def content(url: str) -> bytes:
    """The bytes of a stream that is not JSON."""
    found = b""
    offset = "-1"
    with DurableClient() as client:
        while True:
            with client.read(url, offset) as answer:
                found += answer.read()
                if answer.up_to_date or answer.next_offset in (None, offset):
                    return found
                offset = answer.next_offset


def exists(url: str) -> bool:
    from spark_durable.protocol.errors import NotFoundError

    with DurableClient() as client:
        try:
            client.head(url)
        except NotFoundError:
            return False
    return True


def assert_exactly_once(found: Iterable[int], expected: Iterable[int]) -> None:
    """Compares as multisets, and says what is lost and what is doubled."""
    have, want = Counter(found), Counter(expected)
    lost, doubled = want - have, have - want
    assert not lost, f"{lost.total()} rows lost, such as {sorted(lost)[:5]}"
    assert not doubled, f"{doubled.total()} rows too many, such as {sorted(doubled)[:5]}"
