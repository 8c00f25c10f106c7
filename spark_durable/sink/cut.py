"""Where one append ends and the next begins: by bytes, and by nothing else.

The cut is greedy over the sequence of messages, so it does not depend on how Spark sized its Arrow
batches. It is part of a batch's identity: every attempt must cut alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_durable.protocol.errors import BadRowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_APPEND_BYTES = 4 << 20


class BodyForm(Enum):
    """How messages share the body of an append."""

    ARRAY = "array"  # a JSON array; the server takes it apart again
    CONCATENATED = "concatenated"  # one after another; their boundaries are lost
    SINGLE = "single"  # one message each: on such streams the append is the boundary.
    # Messages are still gathered up to the limit, and sent one by one.

    @property
    def separator(self) -> bytes:
        """What precedes each message, the first one included."""
        return b"," if self is BodyForm.ARRAY else b""

    @property
    def opening(self) -> bytes:
        """What stands in the place of the first separator."""
        return b"[" if self is BodyForm.ARRAY else b""

    @property
    def closing(self) -> bytes:
        return b"]" if self is BodyForm.ARRAY else b""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a partition is cut, fixed on the driver.

    A message longer than ``limit`` travels alone; one whose body exceeds ``ceiling``, what the
    server announced to accept, is refused before it is sent.
    """

    form: BodyForm
    limit: int
    ceiling: int | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Messages ``start`` … ``stop - 1`` of those at hand go into the open append."""

    start: int
    stop: int


class Cutter:
    """Walks along one stream's messages and says where to cut."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._empty = len(cut.form.closing)
        self._size = self._empty
        self._row = 0

    def steps(self, offsets: NDArray[np.signedinteger[Any]]) -> Iterator[Take | None]:
        """What to do with further messages; None closes the open append.

        ``offsets`` bound the messages with their separators, as an Arrow array's offsets do: one
        more than there are messages.
        """
        count = len(offsets) - 1
        start = 0
        while start < count:
            room = self._cut.limit - self._size
            stop = int(np.searchsorted(offsets, int(offsets[start]) + room, side="right")) - 1
            if stop <= start:
                if self._size > self._empty:
                    self._size = self._empty
                    yield None
                    continue
                stop = start + 1
                self._check(self._empty + int(offsets[stop]) - int(offsets[start]))
            yield Take(start, stop)
            self._row += stop - start
            self._size += int(offsets[stop]) - int(offsets[start])
            start = stop

    def _check(self, size: int) -> None:
        ceiling = self._cut.ceiling
        if ceiling is not None and size > ceiling:
            raise BadRowError(
                f"Row {self._row} of the partition makes an append of {size} bytes by itself, more "
                f"than the {ceiling} that the server accepts. Shorten the row or raise the "
                "server's limit; maxAppendBytes cannot help.",
                row=self._row,
                size=size,
                ceiling=ceiling,
            )
