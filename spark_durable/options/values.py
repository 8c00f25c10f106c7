"""What an option declaration is made of, and how its text becomes a value.

A parser raises ``ValueError`` with what it expected.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

E = TypeVar("E", bound=Enum)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is spelled, read and explained."""

    name: str
    parse: Callable[[str], Any]
    kind: str
    default_text: str
    why: str


def option(
    name: str,
    parse: Callable[[str], Any],
    *,
    default: T,
    why: str,
    kind: str,
    default_text: str | None = None,
    secret: bool = False,
) -> T:
    """Declares one option as a dataclass field."""
    shown = default_text if default_text is not None else _default_text(default)
    declared = Option(name, parse, kind, shown, why)
    field: T = dataclasses.field(default=default, repr=not secret, metadata={"option": declared})
    return field


def _default_text(default: object) -> str:
    if default is None:
        return "–"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, Enum):
        return str(default.value)
    return str(default)


_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}
_BYTES |= {"g": 1 << 30, "gb": 1 << 30, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def parse_duration(text: str) -> float:
    """``500ms``, ``30s``, ``2m`` in seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*", text)
    if match is None:
        raise ValueError("expected a duration such as 500ms, 30s or 2m")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(text: str) -> int:
    """``4194304``, ``512k``, ``4m`` in bytes."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _BYTES or int(match[1]) == 0:
        raise ValueError("expected a size such as 4194304, 512k or 4m, above zero")
    return int(match[1]) * _BYTES[match[2]]


def parse_bool(text: str) -> bool:
    if text.strip().lower() in {"true", "false"}:
        return text.strip().lower() == "true"
    raise ValueError("expected true or false")


def parse_positive(text: str) -> int:
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) == 0:
        raise ValueError("expected a whole number above zero")
    return int(text)


def parse_version(text: str) -> int:
    if not re.fullmatch(r"\s*\d+\s*", text):
        raise ValueError("expected a whole number, zero or above")
    return int(text)


def parse_text(text: str) -> str:
    if not text:
        raise ValueError("expected a value that is not empty")
    return text


def parse_headers(text: str) -> dict[str, str]:
    value = _json(text)
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError('expected a JSON object of strings, such as {"X-Tenant": "a"}')
    return value


def parse_names(text: str) -> tuple[str, ...]:
    value = _json(text)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ValueError('expected a JSON list of names, such as ["a", "b"]')
    if len(set(value)) != len(value):
        raise ValueError("a name stands in the list twice")
    return tuple(value)


def parse_columns(text: str) -> tuple[str, ...]:
    columns = tuple(part.strip() for part in text.split(","))
    if not all(columns):
        raise ValueError("expected column names separated by commas")
    return columns


def parse_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


def parse_offsets(text: str) -> str | dict[str, str]:
    """A word, or a JSON object stream → offset."""
    if not text.lstrip().startswith("{"):
        return text.strip().lower()
    value = _json(text)
    if not all(isinstance(offset, str) for offset in value.values()):
        raise ValueError("offsets are strings: take them as the server gave them")
    return dict(value)


def parse_starting(text: str) -> str | dict[str, str]:
    value = parse_offsets(text)
    if isinstance(value, str) and value not in {"snapshot", "earliest", "latest"}:
        raise ValueError("expected snapshot, earliest, latest or a JSON object stream → offset")
    return value


def parse_ending(text: str) -> str | dict[str, str]:
    value = parse_offsets(text)
    if isinstance(value, str) and value != "latest":
        raise ValueError("expected latest or a JSON object stream → offset")
    return value


def parse_choice(choices: type[E]) -> Callable[[str], E]:
    def parse(text: str) -> E:
        for choice in choices:
            if choice.value.lower() == text.strip().lower():
                return choice
        raise ValueError("expected one of " + ", ".join(choice.value for choice in choices))

    return parse


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
