"""The shape of a message: what is the same in all messages of its kind, and where values stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

_TOKEN = re.compile(rb'"[^"]*"|[{}\[\]:,]|[ \t\r\n]+|[^ \t\r\n{}\[\]:,"]+')

# Names of fields and places in arrays, from the outside in.
Path: TypeAlias = "tuple[str | int, ...]"


@dataclass(frozen=True, slots=True)
class Value:
    """A string without its quotes, or something bare: a number, ``true``, ``false``, ``null``."""

    path: Path
    is_string: bool


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A message is ``runs[0] values[0] runs[1] values[1] ... runs[-1]``; quotes are in the runs.

    ``lengths`` has the number of elements of each array, ``objects`` the path of each object.
    """

    values: tuple[Value, ...]
    runs: tuple[bytes, ...]
    lengths: dict[Path, int]
    objects: frozenset[Path]


def skeleton_of(message: bytes) -> Skeleton | None:
    """None for what is no JSON, has escapes in it, or names a field twice."""
    if b"\\" in message:
        return None
    try:
        json.loads(message)
        walk = _Walk(message)
        walk.value(walk.next(), ())
    except (ValueError, RecursionError):
        return None
    return Skeleton(
        tuple(walk.values), (*walk.runs, walk.run), walk.lengths, frozenset(walk.objects)
    )


class _Walk:
    """Through the tokens of a message that is known to be JSON."""

    def __init__(self, message: bytes) -> None:
        self._tokens: Iterator[bytes] = iter(_TOKEN.findall(message))
        self.values: list[Value] = []
        self.runs: list[bytes] = []
        self.run = b""  # what was read since the last value
        self.lengths: dict[Path, int] = {}
        self.objects: set[Path] = set()

    def next(self) -> bytes:
        """The next token that is no white space."""
        token = next(self._tokens)
        while token.isspace():
            self.run += token
            token = next(self._tokens)
        return token

    def value(self, token: bytes, path: Path) -> None:
        if token == b"{":
            self._object(path)
        elif token == b"[":
            self._array(path)
        else:
            is_string = token[:1] == b'"'
            self.runs.append(self.run + b'"' * is_string)
            self.run = b'"' * is_string
            self.values.append(Value(path, is_string))

    def _object(self, path: Path) -> None:
        self.run += b"{"
        self.objects.add(path)
        names = set()
        token = self.next()
        while token != b"}":
            name = token[1:-1].decode()
            if name in names:
                raise ValueError("a name twice")
            names.add(name)
            self.run += token
            self.run += self.next()  # the colon
            self.value(self.next(), (*path, name))
            token = self._after_element()
        self.run += token

    def _array(self, path: Path) -> None:
        self.run += b"["
        count = 0
        token = self.next()
        while token != b"]":
            self.value(token, (*path, count))
            count += 1
            token = self._after_element()
        self.run += token
        self.lengths[path] = count

    def _after_element(self) -> bytes:
        """What closes the object or array, or else the token after the comma."""
        token = self.next()
        if token != b",":
            return token
        self.run += token
        return self.next()
