"""JSON text as tokens, read the way Spark's parser (Jackson, as Spark sets it up) reads it.

What it takes beyond JSON: strings and names in single quotes, ``\\'`` as an escape, the numbers
NaN, Infinity and INF with their signs. It stops after the first value. Where Spark goes on after an
error, what it finds depends on where the parser stood when it failed. So after an error this reader
stands on the same character, with the same open scopes, and its next token is the same. Only inside
a malformed number that spans a multiple of 4,000 characters the position may differ.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from spark_durable.codec.decode.characters import (
    CharacterReader,
    JsonError,
    base64_of,
    starts_identifier,
    utf16_units,
)

MAX_DEPTH = 1_000
MAX_NUMBER_LENGTH = 1_000
MAX_NAME_LENGTH = 50_000
MAX_STRING_LENGTH = 20_000_000

# A comma if one is due, and a plainly written name with its colon.
_ENTRY = re.compile(
    rf'[ \t\r\n]*(,?)[ \t\r\n]*"([^"\\\x00-\x1f]{{0,{MAX_NAME_LENGTH}}})"[ \t\r\n]*:'
)
_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DIGITS = "0123456789"


class Token(enum.Enum):
    FIELD_NAME = enum.auto()
    START_OBJECT = enum.auto()
    END_OBJECT = enum.auto()
    START_ARRAY = enum.auto()
    END_ARRAY = enum.auto()
    STRING = enum.auto()
    INT = enum.auto()
    REAL = enum.auto()
    TRUE = enum.auto()
    FALSE = enum.auto()
    NULL = enum.auto()


_STARTS = (Token.START_OBJECT, Token.START_ARRAY)
_ENDS = (Token.END_OBJECT, Token.END_ARRAY)
_WORDS = {"t": ("true", Token.TRUE), "f": ("false", Token.FALSE), "n": ("null", Token.NULL)}


@dataclass(slots=True)
class _Scope:
    opened_by: Token | None
    entries: int = -1
    name: str | None = None

    def expects_comma(self) -> bool:
        self.entries += 1
        return self.opened_by is not None and self.entries > 0


class TokenReader:
    """The tokens of one message. Text is in UTF-16 code units, as Java has it."""

    def __init__(self, text: str) -> None:
        self._chars = CharacterReader(utf16_units(text))
        self._scopes = [_Scope(None)]
        self._pending: Token | None = None
        self._string_open = False
        self._value = ""
        self.token: Token | None = None

    def next_token(self) -> Token | None:
        """Moves on. None at the end of the text, and after an error that swallowed a value."""
        if self.token is Token.FIELD_NAME:
            return self._value_of_name()
        if self._string_open:
            self._string_open = False
            self._chars.string('"')
        scope = self._scopes[-1]
        if scope.opened_by is Token.START_OBJECT:
            # Most entries are plain, and read in one step; all others step by step.
            match = _ENTRY.match(self._chars.text, self._chars.pos)
            if match is not None and bool(match[1]) == (scope.entries >= 0):
                scope.entries += 1
                self._chars.pos = match.end()
                scope.name = match[2]
                return self._name_with_value()
        char = self._chars.take_after_space()
        if char is None:
            if len(self._scopes) > 1:
                raise JsonError
            self.token = None
            return None
        if char in "}]":
            self._close_scope(char)
            return self.token
        if scope.expects_comma():
            if char != ",":
                raise JsonError
            char = self._next_char()
        if scope.opened_by is not Token.START_OBJECT:
            token = self._start_value(char)
            if token in _STARTS:
                self._open_scope(token)
            self.token = token
            return token
        scope.name = self._read_name(char)
        self.token = Token.FIELD_NAME
        if self._next_char() != ":":
            raise JsonError
        return self._name_with_value()

    def current_name(self) -> str | None:
        """The name of the entry the current token belongs to, None inside an array."""
        if self.token in _STARTS and len(self._scopes) > 1:
            return self._scopes[-2].name
        return self._scopes[-1].name

    def skip_children(self) -> None:
        """Moves to the end of the current object or array; stays on any other token."""
        if self.token not in _STARTS:
            return
        depth = 1
        while depth:
            token = self.next_token()
            if token is None:
                if len(self._scopes) > 1:
                    raise JsonError
                return
            if token in _STARTS:
                depth += 1
            elif token in _ENDS:
                depth -= 1

    def text(self) -> str:
        """The text of the current string or number."""
        if self._string_open:
            self._string_open = False
            self._value = self._chars.string('"')
        if len(self._value) > MAX_STRING_LENGTH:
            raise JsonError
        return self._value

    def binary(self) -> bytes:
        """The current string, decoded from base64 while it is read."""
        if not self._string_open:
            return base64_of(self._value)
        decoded = self._chars.base64()
        self._string_open = False
        return decoded

    def _name_with_value(self) -> Token:
        # The value's first character is read together with its name: an error there leaves the
        # name as the current token, and no value behind it.
        self.token = Token.FIELD_NAME
        self._pending = self._start_value(self._next_char())
        return self.token

    def _value_of_name(self) -> Token | None:
        token, self._pending = self._pending, None
        if token in _STARTS:
            self._open_scope(token)
        self.token = token
        return token

    def _open_scope(self, token: Token | None) -> None:
        self._scopes.append(_Scope(token))
        if len(self._scopes) - 1 > MAX_DEPTH:
            raise JsonError

    def _close_scope(self, char: str) -> None:
        opened, closed = (
            (Token.START_ARRAY, Token.END_ARRAY)
            if char == "]"
            else (Token.START_OBJECT, Token.END_OBJECT)
        )
        if self._scopes[-1].opened_by is not opened:
            raise JsonError
        self._scopes.pop()
        self.token = closed

    def _next_char(self) -> str:
        char = self._chars.take_after_space()
        if char is None:
            raise JsonError
        return char

    def _read_name(self, char: str) -> str:
        if char not in "\"'":
            raise JsonError
        name = self._chars.string(char)
        if len(name) > MAX_NAME_LENGTH:
            raise JsonError
        return name

    def _start_value(self, char: str) -> Token:
        if char == '"':
            self._string_open = True
            return Token.STRING
        if char == "{":
            return Token.START_OBJECT
        if char == "[":
            return Token.START_ARRAY
        if char in _WORDS:
            word, token = _WORDS[char]
            self._chars.match(word, 1)
            return token
        if char == "-" or char in _DIGITS:
            return self._number()
        return self._odd_value(char)

    def _odd_value(self, char: str) -> Token:
        if char == "'":
            self._value = self._chars.string("'")
            return Token.STRING
        if char == "N":
            return self._non_number("NaN", 1)
        if char == "I":
            return self._non_number("Infinity", 1)
        if char == "+":
            return self._signed_non_number(char)
        if starts_identifier(char):
            self._chars.fail_at_word(1)
        raise JsonError

    def _signed_non_number(self, sign: str) -> Token:
        if self._chars.take() == "I":
            after = self._chars.take()
            if after == "N":
                return self._non_number(sign + "INF", 3)
            if after == "n":
                return self._non_number(sign + "Infinity", 3)
        raise JsonError

    def _non_number(self, word: str, matched: int) -> Token:
        self._chars.match(word, matched)
        self._value = word
        return Token.REAL

    def _number(self) -> Token:
        """A number whose first character is consumed."""
        text, start = self._chars.text, self._chars.pos - 1
        match = _NUMBER.match(text, start)
        if match is None:
            return self._signed_non_number("-")
        after = text[match.end() : match.end() + 1]
        if _breaks_off(match, after):
            self._chars.pos = self._end_of_broken(match, after)
            raise JsonError
        self._chars.pos = match.end()
        if _length(match) > MAX_NUMBER_LENGTH:
            raise JsonError
        self._value = match[0]
        return Token.INT if _is_int(match) else Token.REAL

    def _end_of_broken(self, match: re.Match[str], after: str) -> int:
        """Where the parser stands in a number that breaks off: its first digit decides."""
        integer_end = match.end(2)
        if after in _DIGITS:
            return integer_end
        if match[2] != "0":
            return integer_end + 1
        end = match.end() + 1
        if after != ".":
            end += self._chars.text[end : end + 1] in ("+", "-")
        return min(end + 1, self._chars.end)


def _is_int(match: re.Match[str]) -> bool:
    return match[3] is None and match[4] is None


def _breaks_off(match: re.Match[str], after: str) -> bool:
    """Whether the number goes on, behind what matched, into something that is no number."""
    if not after:
        return False
    if after in _DIGITS:
        return _is_int(match)  # then it begins with a zero
    if after == ".":
        return _is_int(match)
    return after in "eE" and match[4] is None


def _length(match: re.Match[str]) -> int:
    """The number of digits, as Jackson counts them for its limit."""
    length = len(match[2])
    if _is_int(match):
        return length
    length += len(match[3] or ".") - 1 + len((match[4] or "e").strip("eE+-"))
    if match[2] == "0":  # then a part that is not there counts as -1
        length -= (match[3] is None) + (match[4] is None)
    return length
