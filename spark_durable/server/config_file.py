"""A server's settings in a TOML file: the fields of `ServerConfig`, under their own names."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from .config import ServerConfig
from .tokens import Token

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_config_file(path: Path) -> dict[str, Any]:
    """The settings a file gives. What is wrong in it is a ValueError with the file and the name;
    relative paths in it are relative to its directory."""
    try:
        found = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    types = get_type_hints(ServerConfig)
    to_path = _paths_from(path.absolute().parent)
    settings: dict[str, Any] = {}
    try:
        _check_names(found, types)
        for name, value in found.items():
            if name == "tokens":
                _check_tokens(value)
            try:
                settings[name] = msgspec.convert(value, types[name], dec_hook=to_path)
            except msgspec.ValidationError as error:
                raise ValueError(f"{name}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return settings


def _check_tokens(tokens: Any) -> None:
    known = [field.name for field in fields(Token)]
    for token in tokens if isinstance(tokens, list) else ():
        if isinstance(token, Mapping):
            _check_names(token, known, "tokens.")


def _check_names(given: Iterable[str], known: Iterable[str], prefix: str = "") -> None:
    names = list(known)
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {prefix}{close[0]}?" if close else f"known: {', '.join(names)}"
            raise ValueError(f"there is no setting {prefix}{name}; {hint}")


def _paths_from(directory: Path) -> Callable[[type, Any], Path]:
    def decode(kind: type, value: Any) -> Path:
        if kind is not Path or not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
        return directory / value

    return decode
