"""Where streams end now: by listing a bucket where the server can, else by HEADs; and waiting there
for more."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Final

from spark_durable.protocol import (
    Framing,
    ListedStream,
    ReadResponse,
    StreamListing,
    split_array,
)
from spark_durable.protocol.errors import (
    BadRequestError,
    DurableError,
    MalformedResponseError,
    NotFoundError,
    NotSupportedError,
    OffsetGoneError,
    OptionError,
)
from spark_durable.protocol.headers import CONTENT_TYPE_JSON
from spark_durable.protocol.offsets import formatted, numeric
from spark_durable.source.discover import Place
from spark_durable.source.position import Position
from spark_durable.source.wire import Wire

# From here on a listing is tried first. It is given up where it is longer than it is worth.
_LISTING_FROM: Final = 16
_NAMES_PER_PAGE: Final = 50

# More long-polls than this at once would keep more connections open than waiting is worth.
MAX_POLLS: Final = 8

# What comes back from a wait and is at most this long goes to the task inside its partition.
_CARRY_BYTES: Final = 1 << 19

_NO_LISTING: Final = (NotFoundError, NotSupportedError, BadRequestError, MalformedResponseError)


@dataclass(frozen=True, slots=True)
class Tail:
    """A stream as it was last seen. ``life``, ``retained`` and ``snapshot`` are None where the
    server does not tell, and mean nothing unless ``described``."""

    offset: str
    content_type: str = CONTENT_TYPE_JSON
    closed: bool = False
    life: str | None = None
    retained: str | None = None
    snapshot: str | None = None
    described: bool = True


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a wait at ``asked`` brought: a later tail, and the body if it is short."""

    asked: str
    tail: Tail
    body: bytes | None
    framing: Framing | None

    def between(self, start: Position, at: Position, *, json: bool) -> tuple[bytes, ...] | None:
        """The messages (or the bytes) between two positions, if the body is exactly that."""
        if self.body is None or self.framing is None:
            return None
        if start.skip or at != Position(self.tail.offset) or not _same(start.anchor, self.asked):
            return None
        if not json:
            return (self.body,)
        if self.framing is Framing.BYTES:
            return None
        if self.framing is Framing.ARRAY:
            return tuple(split_array(self.body))
        return tuple(line for line in self.body.split(b"\n") if line)


class Tails:
    """Looks at all streams of a query, remembering what this server can do."""

    def __init__(self, wire: Wire, place: Place) -> None:
        self._wire = wire
        self._place = place
        self._listable = True
        self._created: dict[str, int | None] = {}
        self._last: dict[str, Tail] = {}
        self._like: str | None = None  # an offset of this server, for its width
        self._polls: dict[tuple[str, str], Future[Arrival | None]] = {}

    def look(self, known: Iterable[str]) -> dict[str, Tail | None]:
        """The tail of each stream the query reads, and of each in ``known``; None if it is gone."""
        known = list(known)
        names = self._place.names
        if names is None:
            found = self._listed(None)
            if found is None:
                raise OptionError(
                    "streamPattern needs a server whose listing tells where streams end. Name the "
                    "streams with the option streams instead."
                )
            return self._completed(found, known)
        wanted = list(dict.fromkeys([*names, *known]))
        if len(wanted) >= _LISTING_FROM and self._listable:
            found = self._listed(wanted)
            if found is not None:
                return self._completed(found, wanted)
        return dict(zip(wanted, self._wire.each(self._head, wanted), strict=True))

    def describe(self, names: Iterable[str]) -> dict[str, Tail | None]:
        """By HEAD, with everything the server tells."""
        wanted = list(names)
        return dict(zip(wanted, self._wire.each(self._head, wanted), strict=True))

    def _completed(self, found: dict[str, Tail], wanted: list[str]) -> dict[str, Tail | None]:
        """Confirms by HEAD what a listing does not show."""
        missing = [name for name in wanted if name not in found]
        return {**found, **self.describe(missing)} if missing else dict(found)

    def _head(self, name: str) -> Tail | None:
        try:
            info = self._wire.call(lambda client: client.head(self._place.url(name)))
        except (NotFoundError, OffsetGoneError):
            return None
        return Tail(
            offset=info.tail,
            content_type=info.content_type or CONTENT_TYPE_JSON,
            closed=info.closed,
            life=info.incarnation,
            retained=info.retained_offset,
            snapshot=info.snapshot_offset,
        )

    # -- listing ---------------------------------------------------------------------------------

    def _listed(self, wanted: list[str] | None) -> dict[str, Tail] | None:
        """What the bucket's listing says, or None where HEADs are the better way."""
        names = None if wanted is None else set(wanted)
        prefix = None if wanted is None else _common_prefix(wanted)
        pages = None if names is None else max(2, len(names) // _NAMES_PER_PAGE)
        found: dict[str, Tail] = {}
        unclear: list[str] = []
        try:
            page = self._page(prefix, None)
            while True:
                if pages is not None:
                    pages -= 1
                # The server makes the next page while this one is looked through.
                following = None
                if page.has_more and page.next_cursor is not None and pages != 0:
                    following = self._wire.submit(partial(self._page, prefix, page.next_cursor))
                if not self._take(page, names, found, unclear):
                    self._listable = False
                    return None
                if following is None:
                    break
                page = following.result()
        except _NO_LISTING as error:
            if names is None:
                raise OptionError(
                    "streamPattern needs a url that is a bucket's, on a server that lists its "
                    f"streams. {error} Elsewhere, name the streams with the option streams."
                ) from error
            self._listable = False
            return None
        if page.has_more and page.next_cursor is not None:
            self._listable = False  # longer than it is worth
            return None
        for name, tail in self.describe(unclear).items():
            if tail is None:
                del found[name]
            else:
                found[name] = tail
        return found

    def _take(
        self,
        page: StreamListing,
        names: Container[str] | None,
        found: dict[str, Tail],
        unclear: list[str],
    ) -> bool:
        """Whether the page told where its streams end. ``unclear`` are those it tells no more of,
        seen for the first time or created since: which life it is, only HEAD can say."""
        for row in page.streams:
            name = row.stream_id
            if name in names if names is not None else self._place.matches(name):
                tail = self._from_row(row)
                if tail is None:
                    return False
                found[name] = tail
                if not tail.described and self._created.get(name, -1) != row.created_at_ms:
                    self._created[name] = row.created_at_ms
                    unclear.append(name)
        return True

    def _page(self, prefix: str | None, after: str | None) -> StreamListing:
        return self._wire.call(
            lambda client: client.list_streams(self._place.base_url, prefix=prefix, after=after)
        )

    def _from_row(self, row: ListedStream) -> Tail | None:
        last = self._last.get(row.stream_id)
        if last is not None and (
            last.offset == row.next_offset
            and last.life == row.incarnation
            and last.closed is row.closed
            and last.retained == row.retained_offset
            and last.snapshot == row.snapshot_offset
        ):
            return last  # the same object: whoever looks at ten thousand need not compare
        offset = self._row_offset(row)
        if offset is None:
            return None
        tail = self._last[row.stream_id] = Tail(
            offset=offset,
            content_type=row.content_type or CONTENT_TYPE_JSON,
            closed=row.closed,
            life=row.incarnation,
            retained=row.retained_offset,
            snapshot=row.snapshot_offset,
            described=row.incarnation is not None,
        )
        return tail

    def _row_offset(self, row: ListedStream) -> str | None:
        """The tail as an offset. Listings give a number, offsets have a width."""
        if row.next_offset is not None:
            return row.next_offset
        if isinstance(row.tail_offset, str):
            return row.tail_offset
        if row.tail_offset is None:
            return None
        if self._like is None:
            seen = self._head(row.stream_id)
            self._like = seen.offset if seen is not None else None
        if self._like is None or numeric(self._like) is None:
            return None
        return formatted(row.tail_offset, self._like)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, tails: Mapping[str, Tail], seconds: float) -> dict[str, Arrival]:
        """Returns when one of the streams has grown past its tail, or after ``seconds``.

        Few open streams are watched by long-polls. For many it only sleeps, and the next look
        finds what has come: a trigger then costs one look, not one request per stream.
        """
        deadline = time.monotonic() + seconds
        waiting = {name: tail for name, tail in tails.items() if not tail.closed}
        arrivals: dict[str, Arrival] = {}
        if 0 < len(waiting) <= MAX_POLLS:
            polls = {self._poll(name, tail, seconds): name for name, tail in waiting.items()}
            while polls and not arrivals:
                left = deadline - time.monotonic()
                done, _ = wait(polls, timeout=max(0.0, left), return_when=FIRST_COMPLETED)
                if not done:
                    break
                for poll in done:
                    name = polls.pop(poll)
                    self._polls.pop((name, waiting[name].offset), None)
                    arrival = poll.result()
                    if arrival is not None:
                        arrivals[name] = arrival
        if not arrivals:
            time.sleep(max(0.0, deadline - time.monotonic()))
        return arrivals

    def _poll(self, name: str, tail: Tail, seconds: float) -> Future[Arrival | None]:
        """A long-poll that outlasted an earlier wait is taken up again, not sent a second time."""
        key = (name, tail.offset)
        if key not in self._polls:
            for stale in [k for k in self._polls if k[0] == name]:
                del self._polls[stale]
            self._polls[key] = self._wire.submit(lambda: self._arrival(name, tail, seconds))
        return self._polls[key]

    def _arrival(self, name: str, tail: Tail, seconds: float) -> Arrival | None:
        url = self._place.url(name)
        try:
            with self._wire.client().long_poll(url, tail.offset, timeout_s=seconds) as response:
                return _arrived(response, tail)
        except DurableError:
            return None  # the next look tells what it is, under the retry policy


def _common_prefix(names: list[str]) -> str | None:
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: len(first) if same is None else same] or None


def _same(first: str, second: str) -> bool:
    return first == second or (numeric(first) is not None and numeric(first) == numeric(second))


def _arrived(response: ReadResponse, tail: Tail) -> Arrival | None:
    if response.next_offset is None or response.next_offset == tail.offset:
        return None
    body = framing = None
    if response.content_length is None or response.content_length <= _CARRY_BYTES:
        framing = response.framing
        body = _short(response)
    grown = Tail(
        offset=response.next_offset,
        content_type=tail.content_type,
        closed=response.closed,
        life=response.incarnation or tail.life,
        retained=tail.retained,
        snapshot=tail.snapshot,
        described=tail.described,
    )
    return Arrival(tail.offset, grown, body, framing)


def _short(response: ReadResponse) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    for chunk in response.chunks():
        parts.append(chunk)
        size += len(chunk)
        if size > _CARRY_BYTES:
            return None
    return b"".join(parts)
