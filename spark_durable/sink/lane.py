"""One stream of one partition on its way from messages to complete appends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from spark_durable.sink.cut import BodyForm, Cut, Cutter, Take
from spark_durable.sink.fingerprint import SequenceFingerprint, of_set
from spark_durable.sink.spool import Bytes, Piece, Spool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Texts: TypeAlias = pa.Array[Any]
    Ends: TypeAlias = NDArray[np.int64]


@dataclass(slots=True)
class Body:
    """What was gathered up to the limit: one append or, of single messages, one each.

    ``ends`` are the ends of the messages, kept as long as they are needed.
    """

    pieces: list[Piece] = field(default_factory=list)
    ends: list[Ends] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    def read(self, spool: Spool) -> Bytes:
        if len(self.pieces) == 1:
            return spool.read(self.pieces[0])
        whole = bytearray()
        for piece in self.pieces:
            whole += spool.read(piece)
        return whole

    def release(self, spool: Spool) -> None:
        for piece in self.pieces:
            spool.release(piece)
        self.pieces = []


class Lane:
    """Gathers one stream's messages into bodies and knows their fingerprint.

    Bodies are kept in the spool they share with other lanes; ``park`` moves what is still open
    there too, so that a task with very many streams stays within its memory.
    """

    __slots__ = ("_cut", "_cutter", "_open", "_sequence", "begun", "bodies", "rows")

    def __init__(self, cut: Cut) -> None:
        self.bodies: list[Body] = []
        self.begun = 0
        self.rows = 0
        self._cut = cut
        self._cutter = Cutter(cut)
        self._sequence = SequenceFingerprint()
        self._open: list[Bytes] | None = None

    @property
    def several(self) -> bool:
        """Whether there is more than one append, so that their order counts."""
        return (self.rows if self._cut.form is BodyForm.SINGLE else self.begun) > 1

    def add(self, texts: Texts, spool: Spool) -> None:
        """Takes further messages, each preceded by the form's separator."""
        offsets, data = offsets_and_data(texts)
        for step in self._cutter.steps(offsets):
            if step is None:
                self._close(spool)
            else:
                self._take(step, offsets, data)
        self.rows += len(texts)

    def _take(self, step: Take, offsets: NDArray[Any], data: memoryview) -> None:
        first, last = int(offsets[step.start]), int(offsets[step.stop])
        piece = data[first:last]
        self._sequence.add(piece)
        if self._open is None:
            self.bodies.append(Body())
            self.begun += 1
            self._open = [bytearray(self._cut.form.opening)]
            piece = piece[len(self._cut.form.opening) :]
        body = self.bodies[-1]
        if self._cut.form is BodyForm.SINGLE or self.begun == 1:
            known = body.ends[-1][-1] if body.ends else 0
            ends = offsets[step.start + 1 : step.stop + 1].astype(np.int64)
            body.ends.append(ends - first + known)
        elif self.bodies[0].ends:
            # Only a single append is told by its messages whatever their order.
            self.bodies[0].ends = []
        last_piece = self._open[-1]
        if 2 * len(piece) >= len(data):
            # Most of its buffer: copied once, when the body is complete.
            self._open.append(piece)
        elif isinstance(last_piece, bytearray):
            last_piece += piece
        else:
            # A small part must not keep a whole batch in memory.
            self._open.append(bytearray(piece))

    def _close(self, spool: Spool) -> None:
        if self._open is None:
            return
        body = self.bodies[-1]
        body.pieces.append(spool.add(b"".join((*self._open, self._cut.form.closing))))
        self._open = None
        self._sequence.cut(self._sizes(body))

    def park(self, spool: Spool) -> None:
        """Moves the open body's bytes out of memory; it stays open."""
        if self._open is not None:
            self.bodies[-1].pieces.append(spool.spill(b"".join(self._open)))
            self._open = [bytearray()]

    def finish(self, spool: Spool) -> int:
        """Closes the last body. Returns the fingerprint of all appends."""
        self._close(spool)
        if self.several or not self.bodies:
            return self._sequence.value()
        only = self.bodies[0]
        texts = bytearray(only.read(spool))
        if self._cut.form is BodyForm.ARRAY:
            texts[:1] = self._cut.form.separator
            del texts[len(texts) - len(self._cut.form.closing) :]
        return of_set(texts, np.concatenate(only.ends))

    def take_complete(self) -> list[Body]:
        """Gives away the bodies that nothing will be added to any more."""
        count = len(self.bodies) - (self._open is not None)
        taken, self.bodies = self.bodies[:count], self.bodies[count:]
        return taken

    def sizes(self) -> list[int]:
        """The sizes of the appends that have not been given away."""
        return [size for body in self.bodies for size in self._sizes(body).tolist()]

    def appends(self, body: Body, spool: Spool) -> Iterator[Bytes]:
        """What to send of a body, one after the other."""
        whole = body.read(spool)
        if self._cut.form is not BodyForm.SINGLE:
            yield whole
            return
        view, start = memoryview(whole), 0
        for ends in body.ends:
            for end in ends.tolist():
                yield view[start:end]
                start = end

    def _sizes(self, body: Body) -> Ends:
        if self._cut.form is not BodyForm.SINGLE:
            return np.array([body.size], np.int64)
        ends = np.concatenate((np.zeros(1, np.int64), *body.ends))
        return ends[1:] - ends[:-1]


def offsets_and_data(texts: Texts) -> tuple[NDArray[Any], memoryview]:
    """The offsets of a string or binary array, and the bytes they count in."""
    _, offsets, data = texts.buffers()
    large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    assert offsets is not None
    bounds = np.frombuffer(memoryview(offsets), np.int64 if large else np.int32)
    bounds = bounds[texts.offset : texts.offset + len(texts) + 1]
    return bounds, memoryview(data) if data is not None else memoryview(b"")
