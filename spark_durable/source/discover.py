"""Which streams a query reads, and where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

from spark_durable.options import SourceOptions
from spark_durable.protocol import urls
from spark_durable.protocol.errors import OptionError


@dataclass(frozen=True, slots=True)
class Place:
    """The streams of a query: one by its URL, several by name, or those of a bucket that match.

    A stream's name is the last segment of its path and ``base_url`` is what stands before, so a
    query on one stream may later read more of the same bucket from the same checkpoint.
    """

    base_url: str
    names: tuple[str, ...] | None  # None: whatever matches the pattern
    pattern: re.Pattern[str] | None
    urls: Mapping[str, str]  # where a name's URL was given as it is

    @property
    def path(self) -> str:
        """What a checkpoint is bound to: a server may move to another host, its streams not."""
        return urlsplit(self.base_url).path.rstrip("/") or "/"

    def url(self, name: str) -> str:
        return self.urls.get(name) or urls.join(self.base_url, name)

    def matches(self, name: str) -> bool:
        return self.pattern is not None and self.pattern.fullmatch(name) is not None


def place(options: SourceOptions) -> Place:
    if options.stream_pattern is not None:
        return Place(options.url, None, re.compile(options.stream_pattern), {})
    if options.streams is not None:
        return Place(options.url, options.streams, None, {})
    parts = urlsplit(options.url)
    parent, _, segment = parts.path.rstrip("/").rpartition("/")
    if parts.scheme not in ("http", "https") or not parts.netloc or not segment:
        raise OptionError(
            f"{urls.redact(options.url)} is not the URL of a stream, such as "
            "http://127.0.0.1:4437/ds/shop/orders."
        )
    name = unquote(segment)
    base = urlunsplit(parts._replace(path=parent, query="", fragment=""))
    return Place(base, (name,), None, {name: options.url})


def check_named(offsets: object, here: Place, option: str) -> None:
    """An offset given for a stream that the query does not read is a slip worth an error."""
    if here.names is None or not isinstance(offsets, Mapping):
        return
    unknown = sorted(set(offsets) - set(here.names))
    if unknown:
        raise OptionError(
            f"{option} names streams that the query does not read: {', '.join(unknown)}. It reads "
            f"{', '.join(here.names[:10])}{' and more' if len(here.names) > 10 else ''}."
        )
