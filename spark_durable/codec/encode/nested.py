"""Writers of arrays, maps and structs: a constant number of passes per nesting level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, mask_of, pc
from spark_durable.codec.encode.arrays import chosen, spread
from spark_durable.codec.encode.text import Text, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from spark_durable.codec.encode.text import Part, ValueWriter


# Whether something holds in each row: one value for all rows, or one for each.
Mask: TypeAlias = "NDArray[np.bool_]"
_ALWAYS, _NEVER = np.array(True), np.array(False)


@dataclass(frozen=True, slots=True)
class NullWriter:
    """The void type: nothing but nulls."""

    def write(self, values: Array) -> Text:
        return Text((pa.nulls(len(values), pa.string()),))


@dataclass(frozen=True, slots=True)
class FieldWriter:
    """A field of a struct. ``key`` is its name as JSON, with the colon."""

    key: str
    writer: ValueWriter
    keeps_null: bool

    def write(self, values: Array) -> Text:
        text = self.writer.write(values)
        if self.keeps_null:
            text = text.without_nulls(len(values))
        return text.wrapped(self.key, "")


@dataclass(frozen=True, slots=True)
class StructWriter:
    fields: tuple[FieldWriter, ...]

    def write(self, values: Array) -> Text:
        if values.null_count:
            return _write_valid(self, values)
        columns = [values.field(at) for at in range(len(self.fields))]
        return self.write_columns(columns, len(values))

    def write_columns(self, columns: Sequence[Array], rows: int) -> Text:
        """One object per row. Null fields that are not kept are left out of it."""
        texts = [field.write(column) for field, column in zip(self.fields, columns, strict=True)]
        if not any(text.has_nulls for text in texts):
            return _separated(texts).wrapped("{", "}")
        return Text((_without_absent(texts, rows),))


@dataclass(frozen=True, slots=True)
class ArrayWriter:
    element: ValueWriter

    def write(self, values: Array) -> Text:
        if values.null_count:
            return _write_valid(self, values)
        offsets = values.offsets.to_numpy()
        elements = values.values[offsets[0] : offsets[-1]]
        text = self.element.write(elements).without_nulls(len(elements))
        return _listed(text.joined(len(elements)), offsets).wrapped("[", "]")


@dataclass(frozen=True, slots=True)
class MapWriter:
    """Maps as objects. ``key`` writes the text between the quotes of a key."""

    key: ValueWriter
    value: ValueWriter

    def write(self, values: Array) -> Text:
        if values.null_count:
            return _write_valid(self, values)
        offsets = values.offsets.to_numpy()
        keys = values.keys[offsets[0] : offsets[-1]]
        items = values.items[offsets[0] : offsets[-1]]
        key = self.key.write(keys)
        value = self.value.write(items).without_nulls(len(items))
        entries = Text(('"', *key.parts, '":', *value.parts)).joined(len(keys))
        return _listed(entries, offsets).wrapped("{", "}")


def _write_valid(writer: ValueWriter, values: Array) -> Text:
    """Writes the rows that are not null: what lies beneath a null row is not to be looked at."""
    dense = values.drop_null()
    return Text((spread(writer.write(dense).joined(len(dense)), values.is_valid()),))


def _separated(texts: list[Text]) -> Text:
    parts = [part for text in texts for part in (",", *text.parts)]
    return Text(tuple(parts[1:]))


def _without_absent(texts: list[Text], rows: int) -> Array:
    """One object per row of the fields that are not null in it.

    Between two values stands a gap: what closes the one, and a comma and what opens the other. It
    is one of a few texts, since either value may be absent, and so a single join writes it all.
    """
    parts: list[Part] = []
    closing, shown, comma = "{", _ALWAYS, _NEVER
    for text in texts:
        opening, body, after, present = _bare(text, rows)
        parts += [_gap(closing, shown, comma, opening, present), *body]
        closing, shown, comma = after, present, comma | present
    parts.append(_gap(closing, shown, _NEVER, "}", _ALWAYS))
    return pc.binary_join_element_wise(
        *merged(parts), "", null_handling="replace", null_replacement=""
    )


def _bare(text: Text, rows: int) -> tuple[str, list[Part], str, Mask]:
    """What opens the text, the text itself, what closes it, and the rows that have it."""
    parts = [*text.parts]
    opening, after = "", ""
    while parts and isinstance(first := parts[0], str):
        opening += first
        del parts[0]
    while parts and isinstance(last := parts[-1], str):
        after = last + after
        del parts[-1]
    if not text.has_nulls:
        return opening, parts, after, _ALWAYS
    body = Text(tuple(parts)).joined(rows)
    return opening, [body], after, mask_of(body.is_valid())


def _gap(closing: str, shown: Mask, comma: Mask, opening: str, present: Mask) -> Part:
    texts = [end + start for start in ("", opening, "," + opening) for end in ("", closing)]
    codes = shown + 2 * (present.astype(np.int8) + (present & comma))
    return texts[int(codes)] if codes.ndim == 0 else chosen(texts, codes)


def _listed(texts: Array, offsets: NDArray[Any]) -> Text:
    """The texts of each list, with commas between them."""
    starts = pa.array(offsets - offsets[0], pa.int32())
    return Text((pc.binary_join(pa.ListArray.from_arrays(starts, texts), ","),))
