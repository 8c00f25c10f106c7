"""A server inside the current process, for tests, notebooks and first steps."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from .config import ServerConfig
from .runtime import Runtime, bind
from .serve import new_event_loop


class EmbeddedServer:
    """Serves from a background thread from the moment it is made until ``stop``.

    ``data_dir`` None keeps streams in memory; with a directory, what was acknowledged is there
    again for the next server on it. Further keywords are those of `ServerConfig`.

    >>> with EmbeddedServer() as server:
    ...     print(server.url)
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        **limits: Any,
    ) -> None:
        directory = Path(data_dir) if data_dir is not None else None
        self.config = ServerConfig(host=host, port=port, data_dir=directory, **limits)
        self._listener = bind(self.config)
        self._runtime = Runtime(self.config, self._listener)
        self._loop = new_event_loop()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(
            target=self._serve, name="durable-streams-server", daemon=True
        )
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    @property
    def url(self) -> str:
        """Scheme, host and port; streams are below ``/v1/stream/`` and ``/ds/{bucket}/``."""
        return self._runtime.url

    def stop(self) -> None:
        """Ends live readers, lets requests in flight finish, closes the store. Safe to repeat."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._runtime.stop)
            self._thread.join()

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"EmbeddedServer({self.url})"

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._runtime.run(self._ready.set))
        except BaseException as error:
            self._failure = error
        finally:
            self._listener.close()
            self._loop.close()
            self._ready.set()
