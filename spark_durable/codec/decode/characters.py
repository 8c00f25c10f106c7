"""The characters of a message, consumed as Spark's parser consumes them.

After an error the reader stands where that parser stands: right behind the character it stumbled
over, unless said otherwise.
"""

from __future__ import annotations

import re
import unicodedata

from spark_durable.codec.decode.scalars import Mismatch

_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_SPACE = re.compile(r"[ \t\r\n]*")
_ESCAPES = {
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "f": "\f",
    "r": "\r",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "'": "'",
}
_HEX = frozenset("0123456789abcdefABCDEF")
_BASE64 = {
    c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_PADDING = -2
_MAX_REPORTED_WORD = 256
_IDENTIFIER_STARTS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_IDENTIFIER_PARTS = _IDENTIFIER_STARTS | {"Nd", "Mc", "Mn", "Cf"}


class JsonError(Mismatch):
    """The text is not JSON, or goes past a limit of the parser."""


def utf16_units(text: str) -> str:
    """``text`` with each character outside the basic plane as its two surrogates."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    return "".join(
        c if c <= "\uffff" else chr(0xD7C0 + (ord(c) >> 10)) + chr(0xDC00 + (ord(c) & 0x3FF))
        for c in text
    )


def from_utf16_units(text: str) -> str:
    """``text`` with surrogate pairs joined; lone surrogates stay."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class CharacterReader:
    """A position in a text of UTF-16 code units, one unit a character of the ``str``."""

    def __init__(self, units: str) -> None:
        self.text = units
        self.end = len(units)
        self.pos = 0

    def take(self) -> str:
        if self.pos >= self.end:
            raise JsonError
        char = self.text[self.pos]
        self.pos += 1
        return char

    def take_after_space(self) -> str | None:
        """The next character that is not white space, None at the end."""
        pos = self.pos
        if pos < self.end and self.text[pos] <= " ":
            match = _SPACE.match(self.text, pos)
            assert match is not None
            pos = match.end()
        if pos >= self.end:
            self.pos = pos
            return None
        char = self.text[pos]
        self.pos = pos + 1
        if char < " " or char == "/":
            raise JsonError
        return char

    def match(self, word: str, matched: int) -> None:
        """The rest of a word of which ``matched`` characters are consumed."""
        for expected in word[matched:]:
            if self.pos >= self.end or self.text[self.pos] != expected:
                self.fail_at_word(matched)
            self.pos += 1
            matched += 1
        if self.pos < self.end:
            char = self.text[self.pos]
            if char >= "0" and char not in "]}" and _is_identifier_part(char):
                self.fail_at_word(matched)

    def fail_at_word(self, length: int) -> None:
        """Fails behind the whole word, of which ``length`` characters are consumed."""
        while self.pos < self.end and _is_identifier_part(self.text[self.pos]):
            self.pos += 1
            length += 1
            if length >= _MAX_REPORTED_WORD:
                break
        raise JsonError

    def string(self, quote: str) -> str:
        """The rest of a string whose opening quote is consumed."""
        plain = _PLAIN[quote]
        parts = ""
        while True:
            match = plain.match(self.text, self.pos)
            assert match is not None
            self.pos = match.end()
            char = self.take()
            if char == quote:
                return parts + match[0]
            if char != "\\":
                raise JsonError
            parts += match[0] + self._escape()

    def base64(self) -> bytes:
        """The rest of a string, decoded. Four characters are taken at a time, so an error may leave
        the reader behind the closing quote."""
        decoded = bytearray()
        while True:
            char = self.take()
            while char <= " ":
                char = self.take()
            if char == '"':
                return bytes(decoded)
            first = self._base64_bits(char, 0)
            if first is None:
                continue
            unit = first << 6 | self._some_base64_bits(1)
            third = self._some_base64_bits(2)
            if third == _PADDING:
                if self._base64_bits(self.take(), 3) != _PADDING:
                    raise JsonError
                decoded.append(unit >> 4)
                continue
            unit = unit << 6 | third
            fourth = self._some_base64_bits(3)
            if fourth == _PADDING:
                decoded += (unit >> 2).to_bytes(2, "big")
            else:
                decoded += (unit << 6 | fourth).to_bytes(3, "big")

    def _some_base64_bits(self, place: int) -> int:
        char = self.take()
        if char == '"' and place >= 2:
            self.pos -= 1  # where all that is missing is padding, the quote stays
        bits = self._base64_bits(char, place)
        if bits is None:
            raise JsonError
        return bits

    def _base64_bits(self, char: str, place: int) -> int | None:
        """Six bits, or the padding mark at the third or fourth place; None for skipped space."""
        if char == "\\":
            char = self._escape()
            if char <= " " and place == 0:
                return None
        if char == "=" and place >= 2:
            return _PADDING
        bits = _BASE64.get(char)
        if bits is None:
            raise JsonError
        return bits

    def _escape(self) -> str:
        char = self.take()
        if char != "u":
            escaped = _ESCAPES.get(char)
            if escaped is None:
                raise JsonError
            return escaped
        code = ""
        for _ in range(4):
            digit = self.take()
            if digit not in _HEX:
                raise JsonError
            code += digit
        return chr(int(code, 16))


def base64_of(text: str) -> bytes:
    """Base64 in a string that has been read already."""
    if '"' in text or "\\" in text:
        raise JsonError
    return CharacterReader(text + '"').base64()


def starts_identifier(char: str) -> bool:
    """``Character.isJavaIdentifierStart``."""
    return unicodedata.category(char) in _IDENTIFIER_STARTS


def _is_identifier_part(char: str) -> bool:
    return unicodedata.category(char) in _IDENTIFIER_PARTS or (
        char <= "\x08" or "\x0e" <= char <= "\x1b" or "\x7f" <= char <= "\x9f"
    )
