"""The only seam to the wire: requests in, answers out, foreign errors mapped once."""

from __future__ import annotations

import http.client
from base64 import b64encode
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urljoin

import urllib3.exceptions
from urllib3 import HTTPHeaderDict
from urllib3.response import BaseHTTPResponse, HTTPResponse
from urllib3.util import Timeout

from spark_durable.protocol import delivery, urls
from spark_durable.protocol.delivery import Delivery
from spark_durable.protocol.errors import (
    MalformedResponseError,
    NotSentError,
    OptionError,
    OutcomeUnknownError,
    TransportError,
)
from spark_durable.protocol.routes import Route, Routes, normalized
from spark_durable.protocol.settings import ClientSettings

Body = bytes | bytearray | memoryview

USER_AGENT = "spark-durable"
MAX_REDIRECTS = 5
CHUNK = 1 << 18

# An answer whose body nobody wants is read to its end only if it is this short; keeping the
# connection is then cheaper than opening another.
_DRAIN_LIMIT = 1 << 16

_REDIRECTS_KEEPING_METHOD = (307, 308)
_REDIRECTS = (301, 302, 303, *_REDIRECTS_KEEPING_METHOD)

# What can break below us while a request is sent or an answer is read.
_FOREIGN = (
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
)


class Answer:
    """A status, headers (any case) and a body still on the wire: read it to its end, or close."""

    def __init__(self, response: BaseHTTPResponse, what: object, method: str, url: str) -> None:
        self._response = response
        self._what = what
        self._bodiless = method == "HEAD" or response.status in (204, 304)
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.url = url

    @property
    def _chunked(self) -> bool:
        return "chunked" in self.headers.get("Transfer-Encoding", "").lower()

    @property
    def encoded(self) -> bool:
        """Whether the body is compressed, so that its length says nothing about the content."""
        return self.headers.get("Content-Encoding", "identity").strip().lower() != "identity"

    @property
    def delimited(self) -> bool:
        """Whether a body cut short is noticed: by its length or by its last chunk."""
        return self._chunked or self.headers.get("Content-Length", "").isdigit()

    @property
    def content_length(self) -> int | None:
        """The content's length in bytes, where declared and not compressed."""
        declared = self.headers.get("Content-Length", "")
        if self.encoded or not declared.isdigit():
            return None
        return int(declared)

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """The body in pieces of up to ``size`` bytes. A body cut short is an error."""
        self._check_encoding()
        try:
            yield from self._response.stream(size, decode_content=True)
        except _FOREIGN as error:
            raise self._cut(error) from None

    def arriving(self, size: int = CHUNK) -> Iterator[bytes]:
        """Like ``chunks``, but each piece is handed on as soon as it has arrived."""
        if self._chunked:
            yield from self.chunks(size)
            return
        self._check_encoding()
        try:
            while piece := self._response.read1(size, decode_content=True):
                yield piece
        except _FOREIGN as error:
            raise self._cut(error) from None

    def read(self) -> bytes:
        return b"".join(self.chunks(1 << 20))

    def excerpt(self, limit: int = 4096) -> str:
        """The beginning of an error's body as text; the answer is closed."""
        piece = b""
        try:
            for chunk in self._response.stream(limit, decode_content=True):
                piece += chunk
                if len(piece) >= limit:
                    break
            else:
                return piece.decode("utf-8", "replace")
        except _FOREIGN:
            pass  # the status has been told; a body cut short only shortens the text
        self.close()
        return piece[:limit].decode("utf-8", "replace")

    def drain(self) -> None:
        """Finish with this answer, keeping its connection where that costs little."""
        declared = 0 if self._bodiless else self.content_length
        received = 0
        try:
            if declared is None or declared <= _DRAIN_LIMIT:
                for piece in self.chunks(_DRAIN_LIMIT):
                    received += len(piece)
                    if received > _DRAIN_LIMIT:
                        break
        except (TransportError, MalformedResponseError):
            pass  # status and headers are whole, and nobody wants this body
        self.close()

    def close(self) -> None:
        self._response.close()

    def _check_encoding(self) -> None:
        """A coding nobody asked for is undone if it is known; it is never taken for content."""
        codings = self.headers.get("Content-Encoding", "").lower().split(",")
        known = {"", "identity", *HTTPResponse.CONTENT_DECODERS}
        if unknown := {coding.strip() for coding in codings} - known:
            self.close()
            raise MalformedResponseError(
                f"{self._what}: the body is encoded as {', '.join(sorted(unknown))}, which was not "
                "asked for. Check the proxies in front of the server.",
                url=urls.redact(self.url),
            )

    def _cut(self, error: Exception) -> TransportError:
        if isinstance(error, urllib3.exceptions.DecodeError):
            text = f"{self._what}: the compressed body cannot be decoded"
        elif _is_timeout(error):
            text = f"{self._what}: the server stopped sending in the middle of its answer"
        else:
            text = f"{self._what}: the answer was cut in the middle of its body"
        self.close()
        return OutcomeUnknownError(
            f"{text} ({_reason(error)}). Send the request again.", url=urls.redact(self.url)
        )

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Transport:
    """Sends requests over kept connections. Belongs to one thread."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._routes = Routes(settings.ca_file)

    def close(self) -> None:
        self._routes.close()

    def send(
        self,
        what: object,
        method: str,
        url: str,
        *,
        params: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        wait: float | None = None,
    ) -> Answer:
        """One attempt, named ``what`` in texts. Returns any status that is no redirect.

        Raises NotSentError if no byte of the request left, OutcomeUnknownError if it may have been
        applied. Redirects are followed here, credentials only within the first origin. ``wait``
        takes the read timeout's place until the answer begins.
        """
        bare, userinfo = urls.split_userinfo(url)
        target = urls.with_params(normalized(bare), params or {})
        home = urls.origin(target)
        for _ in range(MAX_REDIRECTS + 1):
            route = self._routes.to(target)
            trusted = urls.origin(target) == home
            sent = self._credentials(route, userinfo) if trusted else _anonymous(route)
            sent.update(headers or {})
            answer = self._attempt(what, method, target, route, sent, body, wait)
            if answer.status not in _REDIRECTS:
                return answer
            target = self._redirected(what, method, target, answer)
        raise MalformedResponseError(
            f"{what}: more than {MAX_REDIRECTS} redirects, the last to {urls.redact(target)}. "
            "Check the URL and the proxies in front of the server.",
            url=urls.redact(url),
        )

    def _credentials(self, route: Route, userinfo: tuple[str, str] | None) -> HTTPHeaderDict:
        sent = _anonymous(route)
        if userinfo is not None:
            sent["Authorization"] = _basic(userinfo)
        sent.update(self.settings.headers)
        token = self.settings.credentials()
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        return sent

    def _redirected(self, what: object, method: str, url: str, answer: Answer) -> str:
        location = answer.headers.get("Location")
        answer.drain()
        if not location:
            raise MalformedResponseError(
                f"{what}: {answer.status} without a Location header", url=urls.redact(url)
            )
        if answer.status not in _REDIRECTS_KEEPING_METHOD and method not in ("GET", "HEAD"):
            raise MalformedResponseError(
                f"{what}: {answer.status} to {urls.redact(location)}, which does not allow a "
                f"{method} to be repeated there. Use the final URL.",
                url=urls.redact(url),
            )
        # A location's own userinfo is an attacker's way of choosing our credentials: dropped.
        target, _ = urls.split_userinfo(urljoin(url, location))
        scheme = urls.origin(target)[0]
        if scheme not in ("http", "https") or (urls.origin(url)[0], scheme) == ("https", "http"):
            raise MalformedResponseError(
                f"{what}: refused to follow a redirect to {urls.redact(target)}, which would leave "
                "the encrypted connection. Use the final URL.",
                url=urls.redact(url),
            )
        return normalized(target)

    def _attempt(
        self,
        what: object,
        method: str,
        url: str,
        route: Route,
        headers: HTTPHeaderDict,
        body: Any,
        wait: float | None,
    ) -> Answer:
        read_timeout = self.settings.read_timeout
        note = Delivery(stall_timeout=read_timeout)
        token = delivery.current.set(note)
        try:
            response = route.pool.urlopen(
                method,
                url if route.absolute else urls.request_target(url),
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=Timeout(
                    connect=self.settings.connect_timeout,
                    read=read_timeout if wait is None else wait,
                ),
                preload_content=False,
                decode_content=False,
            )
        except _FOREIGN as error:
            raise _mapped(what, url, error, note) from None
        except ValueError:  # of http.client, whose text shows the value
            raise OptionError(
                f"{what}: the URL or a header (token, headers, producer) holds characters that "
                "HTTP does not allow"
            ) from None
        finally:
            delivery.current.reset(token)
        connection: Any = response.connection
        if wait is not None and connection is not None and connection.sock is not None:
            connection.sock.settimeout(read_timeout)
        return Answer(response, what, method, url)


def _anonymous(route: Route) -> HTTPHeaderDict:
    """What any origin is told: of credentials only those that netrc holds for it."""
    # Lengths and offsets are compared, so compression is never asked for.
    sent = HTTPHeaderDict({"Accept-Encoding": "identity", "User-Agent": USER_AGENT})
    if route.netrc is not None:
        sent["Authorization"] = _basic(route.netrc)
    return sent


def _basic(userinfo: tuple[str, str]) -> str:
    return "Basic " + b64encode(":".join(userinfo).encode()).decode("ascii")


def _mapped(what: object, url: str, error: Exception, note: Delivery) -> TransportError:
    where, reason = urls.redact(url), _reason(error)
    if not note.begun:
        return NotSentError(
            f"{what}: no connection to {where} ({reason}). Nothing was sent.{_advice(error)}",
            url=where,
        )
    if _is_timeout(error):
        return OutcomeUnknownError(
            f"{what}: no answer within the read timeout ({reason}). It may have been applied: "
            "repeat it only with the same bytes and the same producer, epoch and seq.",
            url=where,
            timed_out=True,
        )
    return OutcomeUnknownError(
        f"{what}: the connection broke before an answer came ({reason}). It may have been "
        "applied: repeat it only with the same bytes and the same producer, epoch and seq.",
        url=where,
    )


def _root(error: BaseException) -> BaseException:
    """The innermost cause: the wrappers around it print URLs with their query strings."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        # Not __context__: that may be an error our caller is handling, which is none of ours.
        candidates = (getattr(error, "reason", None), error.__cause__, *error.args)
        inner = next((c for c in candidates if isinstance(c, BaseException)), None)
        if inner is not None:
            error = inner
    return error


def _reason(error: BaseException) -> str:
    root = _root(error)
    if isinstance(root, OSError) and root.strerror:
        return f"{type(root).__name__}: {root.strerror}"
    if isinstance(root, http.client.HTTPException | OSError):
        return f"{type(root).__name__}: {str(root)[:200]}" if str(root) else type(root).__name__
    return type(root).__name__


def _is_timeout(error: BaseException) -> bool:
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return True
    return isinstance(_root(error), TimeoutError)


def _advice(error: BaseException) -> str:
    if isinstance(error, urllib3.exceptions.SSLError):
        return " The certificate was not accepted: set caFile to the authority that signed it."
    if isinstance(error, urllib3.exceptions.ProxyError):
        return " Check the proxy settings (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."
    return " Check that the server runs and the URL is right."
