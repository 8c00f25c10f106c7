"""The explorer's files as they are sent: from the package, with a policy that lets nothing else in.

They hold no data and are the same for everyone, so they are served without the token; what they
show they ask for with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Final

from spark_durable.server.http.reads import matches
from spark_durable.server.http.request import Request
from spark_durable.server.http.responses import Response, encode_headers

# Scripts and styles from here only, never inline; no frames, no forms, no images; and in browsers
# that know trusted types, text can not become markup at all.
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

_HEADERS: Final = encode_headers(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        # A new release of the server is a new page at the next visit.
        "Cache-Control": "no-cache",
    }
)

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Page:
    content_type: str
    body: bytes
    etag: str

    def answer(self, request: Request) -> Response:
        if matches(request.header("If-None-Match"), self.etag):
            return Response(304, {"ETag": self.etag}, common=_HEADERS)
        headers = {"Content-Type": self.content_type, "ETag": self.etag}
        return Response(200, headers, self.body, common=_HEADERS)


def load() -> dict[str, Page]:
    """All files by name, read once: requests never reach the file system."""
    pages = {}
    for file in resources.files(__package__).joinpath("static").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            body = file.read_bytes()
            pages[file.name] = Page(kind, body, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return pages
