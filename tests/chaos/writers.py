"""Who writes: producers of the protocol, and files for the queries that sink them."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_durable.protocol import DurableClient, Producer, ProducerTriple, RetryPolicy
from spark_durable.protocol.errors import DurableError, RetriesExhaustedError, StaleEpochError
from spark_durable.protocol.results import AppendOutcome, AppendResult
from tests.chaos.checker import Ack, text_of
from tests.chaos.streams import Known, Ledger

# Short, so that a writer gives up and begins anew now and then, as an application would.
RETRY = RetryPolicy(deadline_s=5, max_delay_s=0.5)


class Writer(threading.Thread):
    """A producer that sends numbered messages, each until it is acknowledged.

    Now and then it repeats what was acknowledged, or takes a new epoch and then sends once more
    under the old one, as a zombie of itself would.
    """

    def __init__(self, name: str, url: str, known: Known, ledger: Ledger, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self._url = url
        self._known = known
        self._ledger = ledger
        self._rng = random.Random(f"writer {name} {seed}")
        self._stopping = threading.Event()
        self._life = -1
        self._next = 0
        self._last: tuple[ProducerTriple, bytes] | None = None

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        with DurableClient() as client:
            while not self._stopping.wait(self._rng.choice([0.01, 0.05, 0.1, 0.3])):
                try:
                    with self._past_the_gate():
                        self._turn(client)
                except DurableError as error:
                    self._ledger.failed(f"writer {self.name}: {type(error).__name__}: {error}")
                    return

    @contextlib.contextmanager
    def _past_the_gate(self) -> Iterator[None]:
        """Not while the stream is being deleted and created again."""
        while True:
            self._known.gate.wait()
            with self._known.lock:
                if self._known.gate.is_set():
                    self._known.busy += 1
                    break
        try:
            yield
        finally:
            with self._known.lock:
                self._known.busy -= 1

    def _turn(self, client: DurableClient) -> None:
        if self._life != self._known.life:
            self._life, self._next, self._last = self._known.life, 0, None
            self._producer = Producer(client, self._url, self.name, 0, retry=RETRY)
        self._append()
        chance = self._rng.random()
        if chance < 0.03 and self._last is not None:
            self._repeat(client, *self._last)
        elif chance < 0.05:
            self._new_epoch(client)

    def _append(self) -> None:
        count = self._rng.choice([1, 1, 1, 2, 5, 30])
        values = [self._value(self._next + each) for each in range(count)]
        body = text_of(values).encode()
        triple = ProducerTriple(self.name, self._producer.epoch, self._producer.next_seq)
        result = self._until_acknowledged(body)
        where = self._known.where
        offset = None if result.next_offset is None else int(result.next_offset)
        repeated = result.outcome is AppendOutcome.DUPLICATE
        self._ledger.acknowledged(Ack(where, self.name, self._next, count, offset, repeated))
        self._next += count
        self._last = triple, body

    def _value(self, number: int) -> dict[str, object]:
        pad = "x" * self._rng.choice([0, 10, 60, 200])
        return {"p": self.name, "l": self._life, "n": number, "pad": pad}

    def _until_acknowledged(self, body: bytes) -> AppendResult:
        while True:
            with contextlib.suppress(RetriesExhaustedError):
                return self._producer.send(body)

    def _repeat(self, client: DurableClient, triple: ProducerTriple, body: bytes) -> None:
        """A second sender of the same append, after the first one was answered."""
        with contextlib.suppress(RetriesExhaustedError):
            result = RETRY.run(
                lambda: client.append(self._url, body, producer=triple), resend_unknown=True
            )
            if result.outcome is not AppendOutcome.DUPLICATE:
                self._ledger.failed(f"writer {self.name}: {triple} was stored a second time")

    def _new_epoch(self, client: DurableClient) -> None:
        old = ProducerTriple(self.name, self._producer.epoch, self._producer.next_seq)
        epoch = self._producer.epoch + 1
        self._producer = Producer(client, self._url, self.name, epoch, retry=RETRY)
        self._append()
        body = text_of([{**self._value(self._next), "zombie": True}]).encode()
        with contextlib.suppress(RetriesExhaustedError, StaleEpochError):
            RETRY.run(lambda: client.append(self._url, body, producer=old), resend_unknown=True)
            self._ledger.failed(f"writer {self.name}: {old} was stored although fenced")


class FileWriter(threading.Thread):
    """Adds parquet files to a directory that the sink's queries read."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(name="files", daemon=True)
        self._directory = directory
        self._rng = random.Random(f"files {seed}")
        self._stopping = threading.Event()
        self.files: list[range] = []
        directory.mkdir()

    def run(self) -> None:
        self.add()
        while not self._stopping.wait(self._rng.uniform(2.0, 5.0)):
            self.add()

    def add(self) -> None:
        """A whole file at once: it is renamed into place."""
        start = self.files[-1].stop if self.files else 0
        ids = range(start, start + self._rng.randint(50, 400))
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "k": pa.array([each % 7 for each in ids], pa.int64()),
                "text": pa.array([str(each) * 5 for each in ids]),
            }
        )
        name = f"{len(self.files):06d}.parquet"
        pq.write_table(table, self._directory / f".{name}")
        (self._directory / f".{name}").rename(self._directory / name)
        self.files.append(ids)

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)
