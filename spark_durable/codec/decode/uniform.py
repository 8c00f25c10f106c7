"""Messages of one shape to columns, without parsing each: their values lie between the same bytes.

One writer's messages mostly have the same names in the same order. Then quotes tell where values
are, once it is made sure that all that stands between the values is the same in every message.
Whatever is not that plain is left to the parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, binary_view, pc
from spark_durable.codec.decode.digits import WORD, integers
from spark_durable.codec.decode.skeleton import Path, Skeleton, skeleton_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_durable.codec.decode.scan import Messages

_QUOTE, _BACKSLASH, _SPACE, _MINUS, _ZERO, _NINE, _POINT = b'"\\ -09.'
_IS_EXPONENT = np.isin(np.arange(256), list(b"eE"))
_AFTER_ZERO = np.isin(np.arange(256), list(b".eE"))
# What is looked at at once takes several times its size in memory.
_MOST_BYTES = 1 << 26


def uniform_columns(messages: Messages, wire: pa.Schema) -> list[Array] | None:
    """The columns of ``wire``, as a parser would give them; None if the messages are not of one
    plain shape. No byte of a message goes unseen."""
    skeleton = skeleton_of(messages.message(0))
    if skeleton is None:
        return None
    try:
        found = _Found(messages, skeleton)
        columns = [found.column((field.name,), field.type) for field in wire]
        found.check_rest()
    except (_NotUniform, pa.ArrowInvalid):
        return None
    return columns


class _NotUniform(Exception):
    """Some message has another shape than the first, or a value that needs a parser."""


class _Found:
    """Where the values of a block of messages are."""

    def __init__(self, messages: Messages, skeleton: Skeleton) -> None:
        first, last = int(messages.offsets[0]), int(messages.offsets[-1])
        longest = max(map(len, skeleton.runs))
        if last - first + longest + WORD > _MOST_BYTES:
            raise _NotUniform
        self._rows = len(messages)
        self._skeleton = skeleton
        # Bytes may be looked at past the end of the last message, before it is known to end there.
        self._data = np.zeros(last - first + longest + WORD, np.uint8)
        self._data[: last - first] = messages.data[first:last]
        self._words = np.ndarray(len(self._data) - WORD + 1, "<u8", self._data, strides=(1,))
        self._buffer = pa.py_buffer(self._data.data)
        self._picks: Array = pa.array(np.arange(0, 2 * self._rows, 2, dtype=np.int32))
        bounds = (messages.offsets - first).astype(np.intp)  # other integers are slow indices
        self._places = self._locate(bounds[:-1], bounds[1:], self._data[: last - first])
        self._unused = set(self._places)

    def _locate(
        self, starts: NDArray[np.intp], ends: NDArray[np.intp], data: NDArray[np.uint8]
    ) -> dict[Path, tuple[bool, NDArray[np.intp], NDArray[np.intp]]]:
        """Begin and end of each value in each message.

        All messages together have as many quotes as their runs. So when each message is made of the
        runs, one after the other from its start to its end, no value has a quote in it.
        """
        skeleton = self._skeleton
        quotes = self._quotes(data)
        places = {}
        at, before = starts, 0  # the end of the last value, and how many quotes are before it
        for number, value in enumerate(skeleton.values):
            run, following = skeleton.runs[number : number + 2]
            self._require(run, at)
            low, before = at + len(run), before + run.count(b'"')
            anchor = following.find(b'"')
            if anchor >= 0:
                at = quotes[:, before] - anchor
            elif number == len(skeleton.values) - 1:
                at = ends - len(following)
            else:
                raise _NotUniform
            # Arrow must not be given a text that ends before it begins.
            if (at < low + (not value.is_string)).any():
                raise _NotUniform
            places[value.path] = (value.is_string, low, at)
        self._require(skeleton.runs[-1], at)
        if (at + len(skeleton.runs[-1]) != ends).any():
            raise _NotUniform
        return places

    def _quotes(self, data: NDArray[np.uint8]) -> NDArray[np.intp]:
        """The positions of quotes, as many in a row as a message of this shape has."""
        count = sum(run.count(b'"') for run in self._skeleton.runs)
        # Control characters do not stand in strings; what else they stand for is not looked at.
        if not count or data.min() < _SPACE or (data == _BACKSLASH).any():
            raise _NotUniform
        found = np.flatnonzero(data == _QUOTE)
        if len(found) != count * self._rows:
            raise _NotUniform
        return found.reshape(self._rows, count)

    def _require(self, run: bytes, at: NDArray[np.intp]) -> None:
        for begin in range(0, len(run), WORD):
            piece = run[begin : begin + WORD]
            words = self._words[at + begin]
            if len(piece) < WORD:
                words &= np.uint64((1 << 8 * len(piece)) - 1)
            if (words != np.uint64(int.from_bytes(piece, "little"))).any():
                raise _NotUniform

    # -- columns ---------------------------------------------------------------------------------

    def column(self, path: Path, kind: Any) -> Array:
        """The values at a path, all of them null if no message has it."""
        skeleton = self._skeleton
        if path in self._places:
            return self._scalars(path, kind)
        if path in skeleton.lengths:
            if not pa.types.is_list(kind):
                raise _NotUniform
            return self._lists(path, kind)
        if path in skeleton.objects:
            if not pa.types.is_struct(kind):
                raise _NotUniform
            fields = [kind.field(i) for i in range(kind.num_fields)]
            children = [self.column((*path, field.name), field.type) for field in fields]
            return pa.StructArray.from_arrays(children, fields=fields)
        return pa.nulls(self._rows, kind)

    def _lists(self, path: Path, kind: Any) -> Array:
        length = self._skeleton.lengths[path]
        offsets: Array = pa.array(np.arange(self._rows + 1, dtype=np.int32) * length)
        elements = [self.column((*path, place), kind.value_type) for place in range(length)]
        values = pa.array([], kind.value_type)
        if elements:
            order = np.arange(self._rows * length).reshape(length, self._rows).T.ravel()
            values = pa.concat_arrays(elements).take(pa.array(order))
        return pa.ListArray.from_arrays(offsets, values, type=kind)

    def _scalars(self, path: Path, kind: Any) -> Array:
        self._unused.discard(path)
        is_string, low, high = self._places[path]
        if pa.types.is_string(kind):
            if not is_string:
                raise _NotUniform
            return self._texts(low, high)
        if is_string:
            raise _NotUniform
        if pa.types.is_boolean(kind):
            return self._booleans(low, high)
        if pa.types.is_integer(kind):
            return self._integers(low, high, kind)
        if not pa.types.is_floating(kind):
            raise _NotUniform
        return self._numbers(low, high, kind)

    def check_rest(self) -> None:
        """Values nobody asked for have to be JSON too."""
        for path in self._unused:
            is_string, low, high = self._places[path]
            if is_string:
                continue
            if self._data[low[0]] in b"tf":
                self._booleans(low, high)
            else:
                self._numbers(low, high, pa.float64())

    def _texts(self, low: NDArray[np.intp], high: NDArray[np.intp]) -> Array:
        # An array of the values and of what is between them, of which every second is taken.
        bounds = np.empty(2 * self._rows + 1, np.int32)
        bounds[:-1:2], bounds[1::2], bounds[-1] = low, high, high[-1]
        buffers = [None, pa.py_buffer(bounds.data), self._buffer]
        both = pa.Array.from_buffers(pa.string(), 2 * self._rows, buffers)
        return both.take(self._picks)

    def _booleans(self, low: NDArray[np.intp], high: NDArray[np.intp]) -> Array:
        texts = self._texts(low, high)
        true = pc.equal(texts, "true")
        if not pc.all(pc.or_(true, pc.equal(texts, "false"))).as_py():
            raise _NotUniform
        return true

    def _integers(self, low: NDArray[np.intp], high: NDArray[np.intp], kind: Any) -> Array:
        values = integers(self._words, low, high)
        if values is None:
            return self._numbers(low, high, kind)
        return pc.cast(pa.array(values), kind)

    def _numbers(self, low: NDArray[np.intp], high: NDArray[np.intp], kind: Any) -> Array:
        """Arrow reads more as a number than JSON allows: that is ruled out before it reads."""
        data = self._data
        first = low + (data[low] == _MINUS)
        digit, after, last = data[first], data[first + 1], data[high - 1]
        plain = (digit >= _ZERO) & (digit <= _NINE) & (last >= _ZERO) & (last <= _NINE)
        plain &= (digit != _ZERO) | (first + 1 == high) | _AFTER_ZERO[after]
        if not plain.all():
            raise _NotUniform
        texts = self._texts(low, high)
        _, characters = binary_view(texts.cast(pa.large_binary()))
        points = characters[:-1] == _POINT
        if points.any() and (points & _IS_EXPONENT[characters[1:]]).any():
            raise _NotUniform
        return pc.cast(texts, kind)
