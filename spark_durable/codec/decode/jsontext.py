"""JSON text of values that land in a string column, written as Spark's generator writes it."""

from __future__ import annotations

import re
from typing import Any

from spark_durable.codec.decode.scalars import double_text

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
# Characters outside the basic plane are escaped as their surrogates, lone ones too.
_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')


class JsonTextWriter:
    """Events in, text out. Strings may come as characters or as UTF-16 code units."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._closers: list[str] = []
        self._comma = False

    def open(self, bracket: str) -> None:
        self._separate()
        self._parts.append(bracket)
        self._closers.append("}" if bracket == "{" else "]")
        self._comma = False

    def close(self) -> None:
        self._parts.append(self._closers.pop())
        self._comma = True

    def name(self, name: str) -> None:
        self._separate()
        self._parts.append(quoted(name) + ":")
        self._comma = False

    def string(self, value: str) -> None:
        self._value(quoted(value))

    def integer(self, value: int) -> None:
        self._value(str(value))

    def real(self, text: str) -> None:
        self._value(double_text(text))

    def word(self, word: str) -> None:
        self._value(word)

    def text(self) -> str:
        return "".join(self._parts)

    def _value(self, text: str) -> None:
        self._separate()
        self._parts.append(text)
        self._comma = True

    def _separate(self) -> None:
        if self._comma:
            self._parts.append(",")


def quoted(value: str) -> str:
    return f'"{_ESCAPED.sub(_escape, value)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    short = _SHORT.get(char)
    if short is not None:
        return short
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04X}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def tree_text(value: Any) -> str:
    """The text of a tree of :mod:`~spark_durable.codec.decode.trees`."""
    writer = JsonTextWriter()
    _write(writer, value)
    return writer.text()


def _write(writer: JsonTextWriter, value: Any) -> None:
    if isinstance(value, tuple):
        writer.open("{")
        for name, child in value:
            writer.name(name)
            _write(writer, child)
        writer.close()
    elif isinstance(value, list):
        writer.open("[")
        for child in value:
            _write(writer, child)
        writer.close()
    elif value is None or isinstance(value, bool):
        writer.word({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, int):
        writer.integer(value)
    elif type(value) is str:
        writer.string(value)
    else:
        writer.real(value)
