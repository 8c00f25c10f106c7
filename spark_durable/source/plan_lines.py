"""Planning lines of streams that are not JSON: the driver looks for the last complete line.

A batch ends where a line does; what has been appended of the next one waits for its end.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_durable.protocol.types import is_ndjson
from spark_durable.source.follow import Bytes, ResponseEnd, follow
from spark_durable.source.position import Piece, Position, Unit
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire


def separator_of(content_type: str, line_sep: str | None) -> bytes | None:
    """What ends a line of a stream that is not JSON: the option, a newline where the content type
    says so, else nothing, and there are no lines."""
    if line_sep is not None:
        return line_sep.encode()
    return b"\n" if is_ndjson(content_type) else None


@dataclass(frozen=True, slots=True)
class LinePlan:
    """Pieces of whole lines from where the batch starts to ``at``."""

    at: Position
    pieces: tuple[Piece, ...]
    size: int
    to_tail: bool


class LinePlanner:
    """One pass over what follows ``start``, keeping only where lines end."""

    def __init__(self, start: Position, separator: bytes, piece_bytes: int) -> None:
        self._separator = separator
        self._piece_bytes = piece_bytes
        self._here = start  # how far the pass has come
        self._total = 0  # bytes since the start
        self._overlap = b""  # end of the last chunk, in which a separator may have begun
        self._end, self._end_total, self._lines = start, 0, 0  # the last line end
        self._first, self._first_total = start, 0  # where the piece in progress starts
        self._pieces: list[Piece] = []

    def plan(
        self,
        wire: Wire,
        target: Target,
        *,
        max_lines: int | None,
        max_bytes: int | None,
        stop_after: int | None,
        with_rest: bool,
    ) -> LinePlan:
        """``stop_after``: bytes that must not be passed, whatever has come since. ``with_rest``:
        nothing more will come, so a last line without separator is one too."""
        skip = self._here.skip
        to_tail = True
        for event in follow(wire, target, self._here.anchor, Bytes()):
            if isinstance(event, ResponseEnd):
                ended_here = self._end == self._here
                self._here = Position(event.following)
                if ended_here:
                    self._end = self._here
                continue
            chunk = b"".join(event.messages)
            dropped, skip = min(skip, len(chunk)), max(0, skip - len(chunk))
            chunk = chunk[dropped:]
            if stop_after is not None:
                chunk = chunk[: stop_after - self._total]
            if not self._take(chunk, max_lines, max_bytes):
                to_tail = False
                break
            if self._total == stop_after:
                break
        if with_rest and to_tail and self._total > self._end_total:
            self._line_ends(self._total)
        self._close_piece()
        return LinePlan(self._end, tuple(self._pieces), self._end_total, to_tail)

    def _take(self, chunk: bytes, max_lines: int | None, max_bytes: int | None) -> bool:
        """Whether the batch may go on."""
        window = self._overlap + chunk
        base = self._total - len(self._overlap)
        self._here = self._here.plus(len(chunk))
        self._total += len(chunk)
        more = self._find(window, base, max_lines, max_bytes)
        # A separator may have begun, but not inside one that was found.
        begun = max(len(window) - len(self._separator) + 1, self._end_total - base, 0)
        self._overlap = window[begun:]
        self._split_piece()
        return more

    def _find(self, window: bytes, base: int, max_lines: int | None, max_bytes: int | None) -> bool:
        size = len(self._separator)
        if max_lines is None and max_bytes is None:
            found = window.rfind(self._separator)
            if found >= 0:
                self._line_ends(base + found + size)
            return True
        found = window.find(self._separator)
        while found >= 0:
            self._line_ends(base + found + size)
            self._lines += 1
            if max_lines is not None and self._lines >= max_lines:
                return False
            if max_bytes is not None and self._end_total >= max_bytes:
                return False
            found = window.find(self._separator, found + size)
        return True

    def _line_ends(self, total: int) -> None:
        self._end_total = total
        self._end = Position(self._here.anchor, self._here.skip - (self._total - total))

    def _split_piece(self) -> None:
        if self._end_total - self._first_total >= self._piece_bytes:
            self._close_piece()

    def _close_piece(self) -> None:
        take = self._end_total - self._first_total
        if take:
            first = self._first
            self._pieces.append(Piece(first.anchor, first.skip, take, Unit.BYTES))
            self._first, self._first_total = self._end, self._end_total
