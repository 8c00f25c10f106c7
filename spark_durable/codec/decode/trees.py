"""One message to one row by way of a parsed tree: the quick half of the per-row path.

It reads plain JSON within the limits of Spark's parser, in which the values may or may not fit
their columns. There the parser's state plays no part, so what Spark keeps of a malformed record
follows from the tree alone, by the rules that :mod:`~spark_durable.codec.decode.records` states.
All else is handed on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from spark_durable.codec.decode.jsontext import tree_text
from spark_durable.codec.decode.records import Malformed, Partial, Row
from spark_durable.codec.decode.scalars import Mismatch, plain_text, scalar_for
from spark_durable.codec.decode.tokens import (
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    MAX_NUMBER_LENGTH,
    MAX_STRING_LENGTH,
)

if TYPE_CHECKING:
    from spark_durable.codec.zones import Zone

_Convert: TypeAlias = Callable[[Any], Any]
_Pairs: TypeAlias = "tuple[tuple[str, Any], ...]"

_LONG_NUMBER = re.compile(rf"[0-9.eE+-]{{{MAX_NUMBER_LENGTH}}}")
# A character outside the basic plane is one here and two to Java.
_LONG_NAME = re.compile(rf'"(?:[^"\\]|\\.){{{MAX_NAME_LENGTH // 2},}}"\s*:', re.DOTALL)


class NotPlain(Exception):
    """What Spark makes of this text depends on its parser, step by step."""


class RealText(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


class TreeReader:
    """Reads messages as rows of ``schema``, which must not name the corrupt record's column."""

    def __init__(self, schema: StructType, session: Zone) -> None:
        self._session = session
        self._read_root = self._struct(schema)
        # Objects come as tuples of pairs: doubled keys stay visible, and arrays are the only lists.
        self._decode = json.JSONDecoder(
            object_pairs_hook=tuple, parse_float=RealText, parse_constant=_refuse
        ).raw_decode

    def read(self, text: str) -> Row:
        """The row. Raises :class:`Malformed`, or :class:`NotPlain`."""
        if len(text) > MAX_NUMBER_LENGTH and _may_pass_limits(text):
            raise NotPlain
        try:
            tree, _ = self._decode(text, len(text) - len(text.lstrip(" \t\r\n")))
        except (ValueError, RecursionError):
            raise NotPlain from None
        if type(tree) is not tuple:
            raise Malformed(None)
        try:
            row: Row = self._read_root(tree)
        except Partial as partial:
            raise Malformed(partial.value) from None
        return row

    def _converters(self, dtype: DataType) -> dict[type, _Convert]:
        """What converts each type of node. A type that is not there is a mismatch."""
        if isinstance(dtype, StructType):
            return {tuple: self._struct(dtype)}
        if isinstance(dtype, ArrayType):
            return {list: self._array(dtype)}
        if isinstance(dtype, MapType):
            return {tuple: self._map(dtype)}
        scalar = scalar_for(dtype, self._session)
        assert scalar is not None
        converters = {
            str: scalar.from_text,
            int: scalar.from_int,
            RealText: scalar.from_real,
            bool: scalar.from_bool,
        }
        if isinstance(dtype, StringType):
            converters |= {tuple: tree_text, list: tree_text}
        elif isinstance(dtype, BinaryType):
            converters[str] = _or_not_plain(converters[str])
        return {kind: convert for kind, convert in converters.items() if convert is not None}

    def _struct(self, schema: StructType) -> _Convert:
        fields = {
            field.name: (i, self._converters(field.dataType))
            for i, field in enumerate(schema.fields)
        }
        nothing = [None] * len(fields)

        def convert(pairs: _Pairs) -> Row:
            row: list[Any] = nothing[:]
            partial = False
            for name, value in pairs:
                field = fields.get(name)
                if field is None:
                    continue
                index, converters = field
                if value is None:
                    row[index] = None
                    continue
                try:
                    row[index] = _converter(converters, value)(value)
                except Partial as part:
                    row[index] = part.value
                    partial = True
                except Mismatch:
                    partial = True
            if partial:
                raise Partial(tuple(row))
            return tuple(row)

        return convert

    def _array(self, dtype: ArrayType) -> _Convert:
        converters = self._converters(dtype.elementType)

        def convert(elements: list[Any]) -> list[Any]:
            values = []
            partial = False
            for element in elements:
                try:
                    values.append(
                        None if element is None else _converter(converters, element)(element)
                    )
                except Partial as part:
                    values.append(part.value)
                    partial = True
            if partial:
                raise Partial(values)
            return values

        return convert

    def _map(self, dtype: MapType) -> _Convert:
        convert_values = self._array(ArrayType(dtype.valueType))

        def convert(pairs: _Pairs) -> list[tuple[str, Any]]:
            names = [plain_text(name) for name, _ in pairs]
            try:
                values = convert_values([value for _, value in pairs])
            except Partial as partial:
                raise Partial(list(zip(names, partial.value, strict=True))) from None
            return list(zip(names, values, strict=True))

        return convert


def _converter(converters: dict[type, _Convert], value: Any) -> _Convert:
    convert = converters.get(type(value))
    if convert is None:
        raise Mismatch
    return convert


def _or_not_plain(from_text: _Convert | None) -> _Convert:
    """Base64 that is not plain: Spark may take it, or lose its way in the text behind it."""
    assert from_text is not None

    def convert(text: str) -> Any:
        try:
            return from_text(text)
        except Mismatch:
            raise NotPlain from None

    return convert


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _may_pass_limits(text: str) -> bool:
    return (
        text.count("{") + text.count("[") > MAX_DEPTH
        or _LONG_NUMBER.search(text) is not None
        or (len(text) > MAX_NAME_LENGTH // 2 and _LONG_NAME.search(text) is not None)
        or len(text) > MAX_STRING_LENGTH // 2
    )
