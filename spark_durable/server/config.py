"""What the embedded server can be told, with the reason for each default."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from spark_durable.protocol.headers import DEFAULT_PORT

from .tokens import Token

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Settings of one server process. Times are in seconds, sizes in bytes.

    ``data_dir`` None keeps everything in memory; a directory makes each acknowledged change survive
    the process. Secrets never show in the repr.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    data_dir: Path | None = None

    # One token with all rights, and any number with their own. Without any, everyone may.
    token: str | None = None
    tokens: tuple[Token, ...] = ()
    # Listening beyond loopback without a token takes this second word.
    allow_anonymous: bool = False
    # A certificate chain in PEM makes it https; the key may be in the same file.
    tls_cert: Path | None = None
    tls_key: Path | None = None
    # Where clients and webhook receivers reach this server, when that is not where it listens.
    public_url: str | None = None
    # Host header values accepted. None: loopback names when listening on loopback; beyond it any
    # with a token, as a page that does not know it gets nowhere, and addresses without one.
    allowed_hosts: tuple[str, ...] | None = None
    # Origins of web pages that may use this server, "*" for all. None: all where a token is asked
    # for; without one those of this machine (listening on loopback) and the server's own.
    cors_origins: tuple[str, ...] | None = None

    long_poll_timeout: float = 30.0
    # Connections end now and then so that caches in between can collapse new readers onto old ones.
    sse_duration: float = 60.0
    # A comment line this often tells proxies that the reader is alive, and us when it is not.
    sse_heartbeat: float = 15.0

    # One append is one body in memory, one log record and one retry of the client.
    max_append_bytes: int = 16 * MIB
    max_snapshot_bytes: int = 64 * MIB
    # A response holds its body in memory; a reader asks again for more.
    max_read_bytes: int = 4 * MIB
    # What all request bodies in flight may hold together, and all response bodies.
    body_budget_bytes: int = 64 * MIB
    response_budget_bytes: int = 64 * MIB
    # How long a request waits for its share of a budget before it is told to come back.
    budget_timeout: float = 10.0

    max_header_bytes: int = 32 * KIB
    # A request's head must be complete this soon after its first byte (or after connecting).
    header_timeout: float = 15.0
    # Within each such period a body must bring, and a reader take, the bytes of `min_rate`.
    stall_timeout: float = 20.0
    min_rate: int = 1 * KIB
    keep_alive_timeout: float = 75.0
    # SIGTERM: what may still finish before it is cancelled.
    graceful_timeout: float = 2.0

    # An open connection costs some 15 KiB; one address gets half of them at most.
    max_connections: int = 8_192
    max_connections_per_client: int = 4_096
    # Readers that wait hold a connection and a place in a stream's list of those to wake.
    max_long_polls_per_client: int = 2_048
    max_sse_per_client: int = 2_048
    # A stream costs about 2 KiB of memory whether it is used or not; buckets are counted alike.
    max_streams: int = 250_000
    # Without a data directory: what streams and snapshots may hold. None: half of the machine.
    max_memory_bytes: int | None = None
    # Producers one stream remembers, and for how long it does when they are idle.
    max_producers: int = 100_000
    producer_idle_timeout: float = 7 * 86_400.0
    # How long a snapshot can still be read when there is a newer one: a replay may ask for it.
    superseded_snapshot_time: float = 3_600.0
    # Compare all that is stored with its checksums before serving it: reads everything once.
    verify: bool = False

    # Webhook subscriptions make the server send requests, so they are off unless asked for.
    webhooks: bool = False

    def __post_init__(self) -> None:
        for name in _FROM_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} starts at 1")
        for name in _ABOVE_ZERO:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0 seconds")
        if self.token is not None:
            Token(self.token, name="token")
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("tls_key is the key of tls_cert: give that too")
        if not self.requires_token and not self.allow_anonymous and not is_loopback(self.host):
            raise ValueError(
                f"{self.host!r} is reached from other machines, and there is no token: anyone "
                "there could read, write and delete. Configure a token, or say allow_anonymous "
                "(--allow-anonymous) as well if that is meant"
            )

    @property
    def requires_token(self) -> bool:
        return self.token is not None or bool(self.tokens)

    @property
    def all_tokens(self) -> tuple[Token, ...]:
        return (Token(self.token, name="token"), *self.tokens) if self.token else self.tokens

    def __repr__(self) -> str:
        where = self.data_dir if self.data_dir is not None else "memory"
        secured = "with" if self.requires_token else "without"
        return f"ServerConfig({self.host}:{self.port}, {where}, {secured} token)"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_FROM_ONE = (
    "max_append_bytes",
    "max_snapshot_bytes",
    "max_read_bytes",
    "body_budget_bytes",
    "response_budget_bytes",
    "max_header_bytes",
    "max_connections",
    "max_connections_per_client",
    "max_long_polls_per_client",
    "max_sse_per_client",
    "max_streams",
    "max_memory_bytes",
    "max_producers",
)
_ABOVE_ZERO = (
    "long_poll_timeout",
    "sse_duration",
    "sse_heartbeat",
    "budget_timeout",
    "header_timeout",
    "stall_timeout",
    "keep_alive_timeout",
)
