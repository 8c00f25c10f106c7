"""One message to one row by its tokens: what Spark does with any text, malformed or not.

A value that does not fit its column leaves the column as it was and the record malformed; the rest
of the record is still read. That holds inside structs too: a struct, or an array or map of structs,
keeps what could be read of it. Any other array or map with a value that does not fit is no value.
Where the text itself is broken, Spark goes on from wherever its parser stands, and so do we.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from spark_durable.codec.decode.characters import JsonError, from_utf16_units
from spark_durable.codec.decode.jsontext import JsonTextWriter
from spark_durable.codec.decode.scalars import Mismatch, Scalar, plain_text, scalar_for
from spark_durable.codec.decode.tokens import Token, TokenReader

if TYPE_CHECKING:
    from spark_durable.codec.zones import Zone

Row: TypeAlias = tuple[Any, ...]
_Convert: TypeAlias = Callable[[TokenReader], Any]


class Malformed(Exception):
    """The record is malformed. ``row`` is what could be read of it, None for nothing."""

    def __init__(self, row: Row | None) -> None:
        super().__init__()
        self.row = row


class Partial(Exception):
    """A value of which only a part could be read."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class RecordReader:
    """Reads messages as rows of ``schema``, which must not name the corrupt record's column."""

    def __init__(self, schema: StructType, session: Zone) -> None:
        self._session = session
        self._read_root = self._struct(schema)

    def read(self, text: str) -> Row | None:
        """The row; None if the text is blank. Raises :class:`Malformed`."""
        reader = TokenReader(text)
        try:
            token = reader.next_token()
            if token is None:
                return None
            if token is not Token.START_OBJECT:
                raise Malformed(None)
            row: Row = self._read_root(reader)
        except Partial as partial:
            raise Malformed(partial.value) from None
        except Mismatch:
            raise Malformed(None) from None
        return row

    def _converter(self, dtype: DataType) -> _Convert:
        if isinstance(dtype, StructType):
            return _on(Token.START_OBJECT, self._struct(dtype))
        if isinstance(dtype, ArrayType):
            return _on(Token.START_ARRAY, self._array(dtype))
        if isinstance(dtype, MapType):
            return _on(Token.START_OBJECT, self._map(dtype))
        if isinstance(dtype, StringType):
            return _read_text
        if isinstance(dtype, BinaryType):
            return _on(Token.STRING, TokenReader.binary)
        scalar = scalar_for(dtype, self._session)
        assert scalar is not None
        return _scalar(scalar)

    def _struct(self, schema: StructType) -> _Convert:
        indexes = {field.name: i for i, field in enumerate(schema.fields)}
        converters = [self._converter(field.dataType) for field in schema.fields]

        def convert(reader: TokenReader) -> Row:
            row: list[Any] = [None] * len(converters)
            partial = False
            while reader.next_token() not in (None, Token.END_OBJECT):
                name = reader.current_name()
                index = None if name is None else indexes.get(from_utf16_units(name))
                if index is None:
                    reader.skip_children()
                    continue
                try:
                    row[index] = converters[index](reader)
                except Partial as part:
                    row[index] = part.value
                    partial = True
                except Mismatch:
                    partial = True
                    reader.skip_children()
            if partial:
                raise Partial(tuple(row))
            return tuple(row)

        return convert

    def _array(self, dtype: ArrayType) -> _Convert:
        convert_element = self._converter(dtype.elementType)

        def convert(reader: TokenReader) -> list[Any]:
            values = []
            partial = False
            while reader.next_token() not in (None, Token.END_ARRAY):
                try:
                    values.append(convert_element(reader))
                except Partial as part:
                    values.append(part.value)
                    partial = True
            if partial:
                raise Partial(values)
            return values

        return convert

    def _map(self, dtype: MapType) -> _Convert:
        convert_value = self._converter(dtype.valueType)

        def convert(reader: TokenReader) -> list[tuple[str, Any]]:
            entries: list[tuple[str, Any]] = []
            partial = failed = False
            while reader.next_token() not in (None, Token.END_OBJECT):
                name = reader.current_name()
                try:
                    value = convert_value(reader)
                except Partial as part:
                    value = part.value
                    partial = True
                except Mismatch:
                    failed = True
                    reader.skip_children()
                    continue
                entries.append((plain_text(from_utf16_units(name or "")), value))
            if failed:
                raise Mismatch
            if partial:
                raise Partial(entries)
            return entries

        return convert


def _value_token(reader: TokenReader) -> Token | None:
    """The current value's token, None for a null."""
    while reader.token is Token.FIELD_NAME:
        reader.next_token()
    return None if reader.token is Token.NULL else reader.token


def _mismatch(reader: TokenReader) -> NoReturn:
    if reader.token is Token.STRING:
        reader.text()  # Spark reads the string for its error text, and so past it
    raise Mismatch


def _on(expected: Token, convert: _Convert) -> _Convert:
    def read(reader: TokenReader) -> Any:
        token = _value_token(reader)
        if token is None:
            return None
        if token is not expected:
            _mismatch(reader)
        return convert(reader)

    return read


def _scalar(scalar: Scalar) -> _Convert:
    from_text, from_int = scalar.from_text, scalar.from_int
    from_real, from_bool = scalar.from_real, scalar.from_bool

    def read(reader: TokenReader) -> Any:
        token = _value_token(reader)
        if token is None:
            return None
        if token is Token.STRING and from_text is not None:
            return from_text(from_utf16_units(reader.text()))
        if token is Token.INT and from_int is not None:
            return from_int(int(reader.text()))
        if token is Token.REAL and from_real is not None:
            return from_real(reader.text())
        if token in (Token.TRUE, Token.FALSE) and from_bool is not None:
            return from_bool(token is Token.TRUE)
        _mismatch(reader)

    return read


def _read_text(reader: TokenReader) -> str | None:
    """A string, or any other value as JSON text, written anew without white space."""
    token = _value_token(reader)
    if token is None:
        return None
    if token is Token.STRING:
        return plain_text(from_utf16_units(reader.text()))
    return _copy_value(reader)


def _copy_value(reader: TokenReader) -> str:
    writer = JsonTextWriter()
    depth = 0
    token = reader.token
    while token is not None:
        if token in (Token.START_OBJECT, Token.START_ARRAY):
            depth += 1
            writer.open("{" if token is Token.START_OBJECT else "[")
        elif token in (Token.END_OBJECT, Token.END_ARRAY):
            if depth == 0:
                raise JsonError
            depth -= 1
            writer.close()
        elif token is Token.FIELD_NAME:
            writer.name(reader.current_name() or "")
        elif token is Token.STRING:
            writer.string(reader.text())
        elif token is Token.INT:
            writer.integer(int(reader.text()))
        elif token is Token.REAL:
            writer.real(reader.text())
        else:
            writer.word(token.name.lower())
        if depth == 0:
            break
        token = reader.next_token()
    while depth:
        depth -= 1
        writer.close()
    return writer.text()
