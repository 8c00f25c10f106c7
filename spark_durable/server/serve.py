"""Serving in the foreground, as ``spark-durable serve`` does."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

import uvicorn

from spark_durable.memory import keep_freed_memory

from .config import ServerConfig
from .runtime import Runtime, bind
from .store import StoreError


def serve(config: ServerConfig) -> int:
    """Serves until SIGINT or SIGTERM; returns the exit status: 1 if it could not start, or
    had to stop because a write could not be made durable.

    One line with the URL goes to standard output once requests are accepted.
    """
    try:
        listener = bind(config)
    except OSError as error:
        print(f"cannot listen on {config.host}:{config.port}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"cannot start: {error}", file=sys.stderr)
        return 1
    _allow_many_files()
    keep_freed_memory()
    runtime = Runtime(config, listener)
    loop = new_event_loop()
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, runtime.stop)
        loop.run_until_complete(runtime.run(lambda: _announce(runtime)))
    except (StoreError, OSError, ValueError) as error:
        print(f"cannot start: {error}", file=sys.stderr)
        return 1
    finally:
        listener.close()
        loop.close()
    return 0 if runtime.failure is None else 1


def _allow_many_files() -> None:
    """Lets every reader have its connection: the usual soft limit is 1,024."""
    try:
        import resource
    except ImportError:  # not a Unix
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, asyncio's elsewhere."""
    factory = uvicorn.Config(app="", loop="auto", log_config=None).get_loop_factory()
    return factory() if factory is not None else asyncio.new_event_loop()


def _announce(runtime: Runtime) -> None:
    where = runtime.config.data_dir or "memory"
    print(f"serving Durable Streams on {runtime.url} (data: {where})", flush=True)
