"""URLs of streams, buckets and snapshots: joining, splitting, and what of them may be printed."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit, urlunsplit

from spark_durable.protocol.errors import OptionError

_DEFAULT_PORTS = {"http": 80, "https": 443}


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise OptionError(f"{redact(url)} is not a usable http(s) URL") from None


def join(base: str, name: str) -> str:
    """The URL of stream ``name`` under ``base``. A slash in a name is part of the name."""
    if name in ("", ".", ".."):  # a path is resolved before it is sent: these name something else
        raise OptionError(f"{name!r} cannot be the name of a stream under {redact(base)}")
    return extend(base, quote(name, safe=""))


def extend(url: str, suffix: str) -> str:
    """Append an already encoded path suffix, before any query string."""
    parts = _split(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{suffix}"))


def with_params(url: str, params: Mapping[str, str | int | None]) -> str:
    """Add query parameters in lexicographic order, so that caches see one spelling of a URL."""
    known = [(key, str(value)) for key, value in sorted(params.items()) if value is not None]
    if not known:
        return url
    parts = _split(url)
    query = urlencode(known, quote_via=quote)
    return urlunsplit(parts._replace(query=f"{parts.query}&{query}" if parts.query else query))


def request_target(url: str) -> str:
    """Path and query, as they stand in a request line."""
    parts = _split(url)
    return urlunsplit(("", "", parts.path or "/", parts.query, ""))


def bucket_url(stream_url: str) -> str:
    """The URL of the bucket that holds a stream: its path without the last segment."""
    parts = _split(stream_url)
    parent, slash, name = parts.path.rstrip("/").rpartition("/")
    if not slash or not name or not parent:
        raise OptionError(f"{redact(stream_url)} has no bucket in its path (/…/bucket/stream)")
    return urlunsplit(parts._replace(path=parent, query="", fragment=""))


def snapshot_url(stream_url: str, offset: str | None = None) -> str:
    """``…/snapshot`` (the latest), or the snapshot at an offset."""
    if offset is None:
        return extend(stream_url, "snapshot")
    return extend(stream_url, f"snapshot/{quote(offset, safe='')}")


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what has to match for credentials to travel along."""
    parts = _split(url)
    scheme = parts.scheme.lower()
    try:
        port = parts.port or _DEFAULT_PORTS.get(scheme)
    except ValueError:
        raise OptionError(f"{redact(url)} has a port that is none") from None
    return scheme, (parts.hostname or "").lower(), port


def split_userinfo(url: str) -> tuple[str, tuple[str, str] | None]:
    """The URL without ``user:password@``, and the two apart."""
    parts = _split(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(user), unquote(password))


def redact(url: str) -> str:
    """The URL as it may appear in a text: no user, no password, no query string."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an unreadable URL)"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query="", fragment=""))
