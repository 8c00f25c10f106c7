"""The streams of a run: what each is for, and what is known about it as the run goes on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from tests.chaos.checker import Ack, Message, StreamLife

EVENTS = ("events-0", "events-1", "events-2")  # snapshots stay behind the reader
OVERRUN = "overrun"  # snapshots at the tail, whether the reader has come so far or not
REBORN = "reborn"  # deleted and created again
SUNK = "sunk"  # written by a query over files, in their order
SHUFFLED = "shuffled"  # written by a query with a shuffle in it

BUCKET = "chaos"
BASE_PATH = f"/ds/{BUCKET}"
TAILED = (*EVENTS, SUNK, SHUFFLED)
FOLLOWED = (OVERRUN, REBORN)


@dataclass(slots=True)
class Known:
    """One stream as a run sees it. ``archive`` holds what was read before retention could pass it;
    ``writers`` are let through ``gate``, and ``busy`` counts those that are past it."""

    name: str
    life: int = 0
    archive: dict[StreamLife, list[Message]] = field(default_factory=dict)
    snapshots: dict[int, str] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def where(self) -> StreamLife:
        return StreamLife(self.name, self.life)

    @property
    def archived(self) -> list[Message]:
        return self.archive.setdefault(self.where, [])

    @property
    def archived_to(self) -> int:
        return self.archived[-1].end if self.archived else 0


class Ledger:
    """What was promised to writers, by whoever writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acks: list[Ack] = []
        self.failures: list[str] = []

    def acknowledged(self, ack: Ack) -> None:
        with self._lock:
            self.acks.append(ack)

    def failed(self, text: str) -> None:
        with self._lock:
            self.failures.append(text)
