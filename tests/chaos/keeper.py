"""Who keeps the streams: snapshots and the retention that follows them, deletion and creation."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from pathlib import Path

from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import DurableError, NotFoundError
from tests.chaos.checker import text_of
from tests.chaos.observe import PATIENT, committed, padded, read_messages
from tests.chaos.streams import BASE_PATH, EVENTS, OVERRUN, REBORN, Known, Ledger

JSON = "application/json"


class Keeper(threading.Thread):
    """Publishes snapshots, and archives what they let the server forget before it may.

    It looks at the server itself but publishes through the proxy, where answers get lost. Without
    ``checkpoints`` nobody reads along, and nobody has to be waited for.
    """

    def __init__(
        self,
        direct: str,
        proxied: str,
        known: dict[str, Known],
        checkpoints: Path | None,
        ledger: Ledger,
        seed: int,
    ) -> None:
        super().__init__(name="keeper", daemon=True)
        self._direct, self._proxied = direct, proxied
        self._known = known
        self._checkpoints = checkpoints
        self._ledger = ledger
        self._rng = random.Random(f"keeper {seed}")
        self._stopping = threading.Event()
        self._burst = 0
        self.published = 0

    def url(self, name: str) -> str:
        return f"{self._direct}{BASE_PATH}/{name}"

    def run(self) -> None:
        with DurableClient() as client:
            while not self._stopping.wait(self._pause()):
                try:
                    self._turn(client)
                except (DurableError, AssertionError) as error:
                    self._ledger.failed(f"keeper: {type(error).__name__}: {error}")
                    return

    def _pause(self) -> float:
        return 0.02 if self._burst else self._rng.uniform(0.3, 1.5)

    def burst(self, count: int) -> None:
        """So many snapshots one after the other, of the stream whose reader may be overtaken."""
        self._burst += count

    def _turn(self, client: DurableClient) -> None:
        if self._burst:
            self._burst -= 1
            name = OVERRUN
        else:
            name = self._rng.choice([*EVENTS, OVERRUN])
        known = self._known[name]
        if name == OVERRUN or self._checkpoints is None:
            tail = PATIENT.run(lambda: client.head(self.url(name)), resend_unknown=True).tail
            self._snapshot(client, known, int(tail))
            return
        mark = committed(self._checkpoints / "tailed", BASE_PATH, name)
        if mark is not None and mark.at.anchor.isdigit():
            self._snapshot(client, known, int(mark.at.anchor))

    def archive(self, client: DurableClient, known: Known, stop: int) -> None:
        known.archived.extend(read_messages(client, self.url(known.name), known.archived_to, stop))

    def _snapshot(self, client: DurableClient, known: Known, offset: int) -> None:
        self.archive(client, known, offset)
        if offset == 0 or offset in known.snapshots:
            return
        body = text_of([{"snapshot": offset, "messages": len(known.archived)}])
        known.snapshots[offset] = body
        url = f"{self._proxied}{BASE_PATH}/{known.name}"
        PATIENT.run(
            lambda: client.publish_snapshot(url, padded(offset), body.encode(), content_type=JSON),
            resend_unknown=True,
        )
        self.published += 1

    def rebirth(self, client: DurableClient, pause_s: float, patience_s: float) -> bool:
        """Deletes a stream that its reader has read to its end, and creates it again.

        False if the reader did not get there in time: then nothing has happened.
        """
        known = self._known[REBORN]
        known.gate.clear()
        try:
            return self._rebirth(client, known, pause_s, time.monotonic() + patience_s)
        finally:
            known.gate.set()

    def _rebirth(
        self, client: DurableClient, known: Known, pause_s: float, deadline: float
    ) -> bool:
        url = self.url(known.name)
        while known.busy:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        info = PATIENT.run(lambda: client.head(url), resend_unknown=True)
        while self._checkpoints is not None:
            mark = committed(self._checkpoints / "followed", BASE_PATH, known.name)
            if mark is not None and (mark.life, mark.at.anchor) == (info.incarnation, info.tail):
                break
            if time.monotonic() > deadline or self._stopping.is_set():
                return False
            time.sleep(0.1)
        self.archive(client, known, int(info.tail))
        # Not there is what was wanted: an answer may have been lost with the server.
        with contextlib.suppress(NotFoundError):
            PATIENT.run(lambda: client.delete(url), resend_unknown=True)
        time.sleep(pause_s)
        PATIENT.run(lambda: client.create(url), resend_unknown=True)
        known.life += 1
        return True

    def stop(self) -> None:
        self._stopping.set()
        self.join(200)
