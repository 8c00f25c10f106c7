"""Text of a column: constants and Arrow string arrays that are joined as late as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, pc
from spark_durable.codec.encode.arrays import string_array, with_nulls_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


class ValueWriter(Protocol):
    """Writes the values of one column, or of one nesting level of it, as JSON text."""

    def write(self, values: Array) -> Text: ...


@dataclass(frozen=True, slots=True)
class Block:
    """Texts of one width: a template, and columns of bytes to put into it at their places."""

    rows: int
    template: bytes
    columns: tuple[tuple[int, NDArray[Any]], ...]

    def between(self, before: str, after: str) -> Block:
        """The same texts with constants around them, which costs next to nothing here."""
        head = before.encode()
        columns = tuple((at + len(head), column) for at, column in self.columns)
        return Block(self.rows, head + self.template + after.encode(), columns)

    def array(self) -> Array:
        width = len(self.template)
        cells = np.repeat(np.frombuffer(self.template, f"V{width}"), self.rows)
        for at, column in self.columns:
            place = {"names": ["_"], "formats": [column.dtype], "offsets": [at], "itemsize": width}
            cells.view(np.dtype(place))["_"] = column  # type: ignore[call-overload]
        return string_array(np.arange(self.rows + 1) * width, cells.view(np.uint8))


Part: TypeAlias = "str | Block | Array"


@dataclass(frozen=True, slots=True)
class Text:
    """One text per row: its parts side by side. A row with a null in any part is null.

    Keeping the parts apart lets the outermost object copy each value once, whatever the nesting.
    """

    parts: tuple[Part, ...]

    @property
    def has_nulls(self) -> bool:
        return any(isinstance(part, pa.Array) and part.null_count for part in self.parts)

    def wrapped(self, before: str, after: str) -> Text:
        return Text((before, *self.parts, after))

    def joined(self, rows: int) -> Array:
        """The text as a single string array of ``rows`` rows."""
        parts = merged(self.parts)
        if not parts:
            return pa.repeat(pa.scalar(""), rows)
        if len(parts) == 1:
            only = parts[0]
            return pa.repeat(pa.scalar(only), rows) if isinstance(only, str) else only
        return pc.binary_join_element_wise(*parts, "")

    def nulled(self, values: Array) -> Text:
        """The same text, null where ``values`` is. Holds for text without nulls of its own."""
        if not values.null_count:
            return self
        parts = merged(self.parts)
        for at, part in enumerate(parts):
            if not isinstance(part, str):
                parts[at] = with_nulls_of(values, part)
                return Text(tuple(parts))
        return Text((with_nulls_of(values, self.joined(len(values))),))

    def without_nulls(self, rows: int) -> Text:
        """The same text with the literal ``null`` in place of a null row."""
        if not self.has_nulls:
            return self
        return Text((pc.fill_null(self.joined(rows), "null"),))


def merged(parts: Iterable[Part]) -> list[str | Array]:
    """The parts with neighbouring constants made one, and blocks made arrays."""
    result: list[str | Block | Array] = []
    for part in parts:
        before = result[-1] if result else None
        if isinstance(part, str) and not part:
            continue
        if isinstance(part, str) and isinstance(before, str):
            result[-1] = before + part
        elif isinstance(part, str) and isinstance(before, Block):
            result[-1] = before.between("", part)
        elif isinstance(part, Block) and isinstance(before, str):
            result[-1] = part.between(before, "")
        else:
            result.append(part)
    return [part.array() if isinstance(part, Block) else part for part in result]


def quoted(body: Array) -> Text:
    return Text(('"', body, '"'))
