"""From what Spark hands over to declared options. Spark lower-cases keys: lookup ignores case."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from spark_durable.options.common import CommonOptions
from spark_durable.options.sink import SinkOptions
from spark_durable.options.source import SourceOptions
from spark_durable.options.values import Option
from spark_durable.protocol.errors import OptionError

O = TypeVar("O", bound=CommonOptions)  # noqa: E741

# Keys that Spark itself puts among a source's or sink's options.
_SPARK_KEYS = frozenset(
    {"path", "checkpointlocation", "queryname", "outputmode", "triggerinterval"}
)


def declared(scope: type[CommonOptions]) -> dict[str, tuple[str, Option]]:
    """Lower-cased option name → (field, declaration), in the order of declaration."""
    found: dict[str, tuple[str, Option]] = {}
    for field in dataclasses.fields(scope):
        declaration = field.metadata.get("option")
        if isinstance(declaration, Option):
            found[declaration.name.lower()] = (field.name, declaration)
    return found


def read_options(scope: type[O], raw: Mapping[str, str]) -> O:
    """Parses what Spark handed over; an unknown or malformed key is an ``OptionError``."""
    known = declared(scope)
    given = {key.lower(): value for key, value in raw.items()}
    url = given.pop("url", None) or given.get("path")
    if not url:
        raise OptionError(
            "No stream given: pass its URL to load(), save() or start(), or set the option url, "
            "such as http://127.0.0.1:4437/ds/shop/orders. toTable and saveAsTable have none."
        )
    values: dict[str, Any] = {"url": url}
    for key, text in given.items():
        if key in _SPARK_KEYS:
            continue
        if key not in known:
            raise OptionError(_unknown(scope, key, known))
        name, declaration = known[key]
        values[name] = _parse(declaration, text)
    options = scope(**values)
    options.check()
    return options


def check_options(raw: Mapping[str, str]) -> None:
    """Fails on a key that neither side knows and on a malformed value, before the side is known."""
    sides = {**declared(SourceOptions), **declared(SinkOptions)}
    for key, text in raw.items():
        if key.lower() in _SPARK_KEYS or key.lower() == "url":
            continue
        if key.lower() not in sides:
            raise OptionError(_unknown_key(key, sides))
        _parse(sides[key.lower()][1], text)


def _parse(declaration: Option, text: str) -> Any:
    try:
        return declaration.parse(text)
    except ValueError as error:
        raise OptionError(f"Option {declaration.name}: {error}.") from None


def _unknown(scope: type[CommonOptions], key: str, known: dict[str, tuple[str, Option]]) -> str:
    side, other = ("sink", "source") if scope is SinkOptions else ("source", "sink")
    foreign = declared(SourceOptions if scope is SinkOptions else SinkOptions)
    if key in foreign:
        return f"Option {foreign[key][1].name} belongs to the {other}, not to the {side}."
    return _unknown_key(key, known)


def _unknown_key(key: str, known: dict[str, tuple[str, Option]]) -> str:
    near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {known[near[0]][1].name}?" if near else ""
    names = ", ".join(declaration.name for _, declaration in known.values())
    return f"Unknown option {key}.{hint} Known: {names}."


def options_table(scope: type[CommonOptions]) -> str:
    """The README's table of one scope's own options, in Markdown."""
    inherited = set() if scope is CommonOptions else set(declared(CommonOptions))
    lines = ["| option | type | default | why |", "|---|---|---|---|"]
    for key, (_, found) in declared(scope).items():
        if key not in inherited:
            lines.append(f"| `{found.name}` | {found.kind} | {found.default_text} | {found.why} |")
    return "\n".join(lines)
