"""Looking on from outside: what a stream holds and where, and how far a query has come."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from spark_durable.protocol import DurableClient, RetryPolicy
from spark_durable.protocol.errors import OffsetGoneError
from spark_durable.source.offset_json import StreamMark, from_json
from tests.chaos.checker import Message

PATIENT = RetryPolicy(deadline_s=180, max_delay_s=1.0)
# How the embedded server separates messages, so that bytes and offsets agree.
_SEPARATOR = b",\n"


def read_messages(client: DurableClient, url: str, start: int, stop: int) -> list[Message]:
    """The messages of a JSON stream between two offsets, with where they start and end."""
    found: list[Message] = []
    while start < stop:
        body, following = PATIENT.run(partial(_read, client, url, start), resend_unknown=True)
        for line in (body[1:-1] + _SEPARATOR).splitlines(keepends=True):
            end = start + len(line)
            if start < stop and line != _SEPARATOR:
                found.append(Message(start, end, line[:-2].decode()))
            start = end
        if start != following:
            raise AssertionError(f"{url}: the body ends at {start}, the answer says {following}")
    return found


def _read(client: DurableClient, url: str, offset: int) -> tuple[bytes, int]:
    with client.read(url, padded(offset)) as answer:
        return answer.read(), int(answer.next_offset or offset)


def first_message(client: DurableClient, url: str, offset: int) -> str | None:
    """The message that a read at an offset begins with; empty at the tail, None if it is gone."""
    try:
        body, _ = PATIENT.run(lambda: _read(client, url, offset), resend_unknown=True)
    except OffsetGoneError:
        return None
    lines = (body[1:-1] + _SEPARATOR).splitlines(keepends=True)
    return "" if lines[0] == _SEPARATOR else lines[0][:-2].decode()


def padded(offset: int) -> str:
    return f"{offset:020d}"


def committed(checkpoint: Path, base: str, stream: str) -> StreamMark | None:
    """How far a query is with a stream for good: no restart will read anything before it again."""
    try:
        batch = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))
        text = (checkpoint / "offsets" / str(batch)).read_text()
    except (OSError, ValueError):
        return None
    offset = from_json(json.loads(text.splitlines()[-1]), base)
    return offset.marks.get(stream)
