"""A Spark Python worker between two tasks: what makes the next one start late."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


def after_task() -> None:
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
