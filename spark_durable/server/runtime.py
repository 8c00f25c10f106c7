"""One running server: listening socket, store, application and uvicorn, put together once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Generator

import uvicorn

from .config import ServerConfig
from .explorer.routes import ROOT as EXPLORER_ROOT
from .explorer.routes import Explorer
from .http.app import Application, Mount
from .http.protocol import protocol_class
from .store import Store, StoreConfig
from .subscriptions.manager import SubscriptionManager
from .topics.routes import ROOT as TOPICS_ROOT
from .topics.routes import TopicRoutes
from .topics.service import Topics
from .topics.topic import MAX_APPEND_BYTES as MAX_TOPIC_APPEND_BYTES

logger = logging.getLogger("spark_durable.server")


def bind(config: ServerConfig) -> socket.socket:
    """The listening socket. Bound before anything else, so that a taken port (or a certificate that
    cannot be used) is an error of the caller and port 0 has become a number."""
    _check_certificate(config)
    family, kind, protocol, _, address = socket.getaddrinfo(
        config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _check_certificate(config: ServerConfig) -> None:
    if config.tls_cert is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except OSError as error:
        files = " and ".join(str(file) for file in (config.tls_cert, config.tls_key) if file)
        raise ValueError(f"cannot serve https with {files}: {error}") from None


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Runtime:
    """Runs until told to stop, on the loop that calls ``run``.

    When ``run`` returns, live readers have been told goodbye, requests in flight were given
    ``graceful_timeout``, and the store is closed: what was acknowledged is durable.
    """

    def __init__(self, config: ServerConfig, listener: socket.socket) -> None:
        self.config = config
        scheme = "https" if config.tls_cert is not None else "http"
        self.url = config.public_url or url_of(listener, scheme)
        self._listener = listener
        self._server: _Server | None = None
        self._stopping = False
        self.failure: Exception | None = None

    async def run(self, ready: Callable[[], None] | None = None) -> None:
        config = self.config
        store = Store.open(
            StoreConfig(
                data_dir=config.data_dir,
                # HTTP keeps streams to their own limit; one write to a topic may be larger.
                max_append_bytes=max(config.max_append_bytes, MAX_TOPIC_APPEND_BYTES),
                max_snapshot_bytes=config.max_snapshot_bytes,
                max_streams=config.max_streams,
                max_memory_bytes=config.max_memory_bytes,
                max_producers=config.max_producers,
                producer_idle_s=config.producer_idle_timeout,
                superseded_snapshot_s=config.superseded_snapshot_time,
                verify=config.verify,
                on_failure=self._store_failed,
            )
        )
        subscriptions = SubscriptionManager(config, store, self.url)
        try:
            subscriptions.start()
            explorer = Explorer()
            mounts: dict[str, Mount] = {
                "/": explorer,
                EXPLORER_ROOT: explorer,
                TOPICS_ROOT: TopicRoutes(Topics(store)),
            }
            application = Application(config, store, subscriptions, mounts)
            self._server = _Server(_uvicorn_config(config, application), application, ready)
            self._server.should_exit = self._stopping
            await self._server.serve(sockets=[self._listener])
        finally:
            self._server = None
            await subscriptions.close()
            await store.close()

    def stop(self) -> None:
        """Begins the shutdown. Called on the loop."""
        self._stopping = True
        if self._server is not None:
            self._server.should_exit = True

    def _store_failed(self, error: Exception) -> None:
        """Goes down rather than on: what the disk holds is known again only after recovery."""
        logger.critical("the server stops: %s", error)
        self.failure = error
        self.stop()


def _uvicorn_config(config: ServerConfig, application: Application) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=protocol_class(config),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        # Warnings are about requests that clients got wrong, and they are told.
        log_level="error",
        access_log=False,
        server_header=False,
        # X-Forwarded headers are for whoever may set them; here anyone could.
        proxy_headers=False,
        backlog=4096,
        ssl_certfile=config.tls_cert,
        ssl_keyfile=config.tls_key,
        timeout_keep_alive=int(config.keep_alive_timeout),
        timeout_graceful_shutdown=int(config.graceful_timeout),
    )


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        ready: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._application = application
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals belong to whoever owns the process; uvicorn would raise them again at the end,
        before the store is closed."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.stop_live_reads()
        # Lets the readers just woken write their last words before connections are shut.
        await asyncio.sleep(0)
        await super().shutdown(sockets)
