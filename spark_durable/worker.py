"""A Spark Python worker around a task: what would make its rows wait."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import socket
import stat

from pyspark import TaskContext

from spark_durable.memory import keep_freed_memory

_DESCRIPTORS = range(3, 32)  # the worker's connection to the JVM is among its first


def before_rows() -> None:
    """Tells the JVM at once that the task's code has arrived. Called while that is unpickled.

    The JVM sends a task's rows after its code, and over TCP not before the code is acknowledged
    (Nagle's algorithm), for which the kernel otherwise takes 40 ms.
    """
    if TaskContext.get() is None or not hasattr(socket, "TCP_QUICKACK"):
        return
    for descriptor in _DESCRIPTORS:
        with contextlib.suppress(OSError):  # not open, or a socket of another kind
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def begin_task() -> None:
    """Keeps the memory of one block for the next, where the process is a worker's."""
    if TaskContext.get() is not None:
        keep_freed_memory()


def end_task() -> None:
    """Takes all that is loaded by now out of the sight of the garbage collector, once a process.

    Spark collects garbage after every task. With pyarrow, pandas and this package loaded that
    takes 90 ms, in which a micro-batch of a few rows would have been read several times over.
    """
    if TaskContext.get() is not None:
        _freeze()


@functools.cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
