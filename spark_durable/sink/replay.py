"""Is this batch a replay? What the driver can find out before any task runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spark_durable.options import SinkOptions
from spark_durable.protocol import DurableClient
from spark_durable.sink.appender import DurableAppender
from spark_durable.sink.guard import Sender
from spark_durable.sink.identity import Place, WriteIdentity
from spark_durable.sink.outbox import Outbox
from spark_durable.sink.plan import Census, RunMark
from spark_durable.sink.spool import local_directory

# Spark starts tasks in the order of partitions, so what was begun lies among the first ones; the
# width leaves room for the gaps that empty partitions make in a wide shuffle.
CENSUS_WIDTH = 256
_CONNECTIONS = 8


def take_census(options: SinkOptions, identity: WriteIdentity) -> Census:
    """Asks the stream which partitions of the batch were begun by an earlier run."""
    begun = frozenset(begun_partitions(options, identity, options.url, range(CENSUS_WIDTH)))
    handover = None
    if begun:
        # A name nobody else has: a task that sees the directory is on this machine's file system.
        handover = os.path.join(_handover(identity), uuid.uuid4().hex)
        os.makedirs(handover, mode=0o700)
    return Census(identity, begun, handover)


def discard(identity: WriteIdentity) -> None:
    """Removes what tasks of this write left on this machine."""
    shutil.rmtree(_handover(identity), ignore_errors=True)


def _handover(identity: WriteIdentity) -> str:
    """Where this write's tasks leave what they hold back: found again without being told."""
    name = hashlib.blake2b(identity.producer(identity.batch).encode(), digest_size=12).hexdigest()
    return os.path.join(local_directory() or tempfile.gettempdir(), f"spark-durable-held-{name}")


def begun_partitions(
    options: SinkOptions, identity: WriteIdentity, url: str, partitions: Iterable[int]
) -> list[int]:
    """Those of the partitions whose producers have sent something of this batch, or later."""
    begun: list[int] = []

    def ask(client: DurableClient, partition: int) -> None:
        sender = Sender.of(url, Place(identity, partition))
        if DurableAppender(client, options, sender).begun():
            begun.append(partition)

    with Outbox(options.client_settings(), _CONNECTIONS) as outbox:
        for partition in partitions:
            outbox.submit(partition, lambda client, p=partition: ask(client, p))  # type: ignore[misc]
        outbox.flush()
    return sorted(begun)


def running_batch(checkpoint: str | None, prefix: str | None) -> WriteIdentity | None:
    """The micro-batch that a streaming query is about to run, read from its checkpoint.

    Spark tells a writer on the driver neither query nor batch. None where this process cannot read
    the checkpoint: then tasks are careful in the first batch of every run.
    """
    directory = _local_path(checkpoint) if checkpoint else None
    if directory is None:
        return None
    try:
        query = json.loads((directory / "metadata").read_text())["id"]
        batches = [
            int(entry.name) for entry in os.scandir(directory / "offsets") if entry.name.isdigit()
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return WriteIdentity(query, max(batches), prefix=prefix) if batches else None


def _local_path(location: str) -> Path | None:
    parts = urlsplit(location)
    if parts.scheme == "dbfs":
        return Path("/dbfs") / unquote(parts.path).lstrip("/")
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(location)


class RunMarks:
    """Where a driver notes its committed micro-batches.

    In a file of this Spark application's own scratch directory, because Spark runs every commit in
    another process. It only saves work: without it the next batch is treated with care.
    """

    def __init__(self, checkpoint: str | None) -> None:
        directory = local_directory()
        self._path: Path | None = None
        if checkpoint is not None and directory is not None:
            name = hashlib.blake2b(checkpoint.encode(), digest_size=12).hexdigest()
            self._path = Path(directory) / f"spark-durable-{name}"

    def read(self) -> RunMark | None:
        if self._path is None:
            return None
        try:
            run, batch = self._path.read_text().split()
            return RunMark(run, int(batch))
        except (OSError, ValueError):
            return None

    def write(self, mark: RunMark) -> None:
        if self._path is not None:
            fresh = self._path.with_suffix(".new")
            fresh.write_text(f"{mark.run} {mark.batch}")
            fresh.replace(self._path)

    def clear(self) -> None:
        """After a failure the next batch may be this one again."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
