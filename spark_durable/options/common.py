"""Where the stream is and how to speak to its server: options of source and sink alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from spark_durable.options.values import (
    option,
    parse_duration,
    parse_headers,
    parse_text,
)
from spark_durable.protocol.settings import ClientSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """Where the stream is and how to speak to its server."""

    url: str = dataclasses.field(default="")

    content_type: str = option(
        "contentType",
        parse_text,
        default="application/json",
        kind="MIME type",
        why="the stream's content type; JSON streams carry many rows in one append",
    )
    token: str | None = option(
        "token", parse_text, default=None, kind="text", why="bearer token", secret=True
    )
    token_env: str | None = option(
        "tokenEnv",
        parse_text,
        default=None,
        kind="variable",
        why="the environment variable that holds the token, on driver and executors",
    )
    token_file: str | None = option(
        "tokenFile",
        parse_text,
        default=None,
        kind="path",
        why="a file that holds the token and may rotate, on driver and executors",
    )
    token_provider: str | None = option(
        "tokenProvider",
        parse_text,
        default=None,
        kind="module:callable",
        why="code that returns the token, called where the request is sent",
    )
    headers: Mapping[str, str] | None = option(
        "headers",
        parse_headers,
        default=None,
        kind="JSON object",
        why="further headers on every request; names keep their case only inside this value",
        secret=True,
    )
    ca_file: str | None = option(
        "caFile",
        parse_text,
        default=None,
        kind="path",
        why="certificate authority for TLS, on driver and executors",
    )
    connect_timeout: float = option(
        "connectTimeout",
        parse_duration,
        default=10.0,
        default_text="10s",
        kind="duration",
        why="a server that does not answer the door is retried, not waited for",
    )
    read_timeout: float = option(
        "readTimeout",
        parse_duration,
        default=60.0,
        default_text="60s",
        kind="duration",
        why="longest silence inside one answer",
    )
    retry_timeout: float = option(
        "retryTimeout",
        parse_duration,
        default=120.0,
        default_text="2m",
        kind="duration",
        why="how long one request is retried through resets, 429 and 503 before the task fails",
    )

    def check(self) -> None:
        """Refuses options that contradict each other."""
        self.client_settings()

    def client_settings(self) -> ClientSettings:
        return ClientSettings(
            token=self.token,
            token_env=self.token_env,
            token_file=self.token_file,
            token_provider=self.token_provider,
            headers=dict(self.headers or {}),
            ca_file=self.ca_file,
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
        )
