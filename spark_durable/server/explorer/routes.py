"""The mount: the page at ``/``, its files and its API under ``/explorer``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from spark_durable.server.http.context import Context
from spark_durable.server.http.request import Request
from spark_durable.server.http.responses import HttpError, Response, method_not_allowed

from . import api, pages

ROOT: Final = "/explorer"

_API: Final[dict[str, Callable[[Context, Request], Awaitable[Response]]]] = {
    "api/buckets": api.buckets,
    "api/streams": api.streams,
    "api/stream": api.stream,
}


class Explorer:
    def __init__(self) -> None:
        self._pages = pages.load()

    async def __call__(self, context: Context, request: Request) -> Response:
        path = request.raw_path.decode("latin-1")
        name = "index.html" if path == "/" else path.removeprefix(f"{ROOT}/")
        page = self._pages.get(name)
        if page is None:
            # What is no file of the page is behind the token, also that it does not exist.
            context.access.check_token(request)
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        if page is not None:
            return page.answer(request)
        handler = _API.get(name)
        if handler is None:
            raise HttpError(404, "nothing here: the explorer's page is at /")
        return await handler(context, request)
