"""A topic's state in memory, rebuilt from its entries: seqs, retention and remembered keys."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass

from .entries import Base, Configured, Entry, Key, Written
from .model import TopicConfig, merge


@dataclass(slots=True)
class _Run:
    """One write's records: where they lie and how large they are."""

    first_seq: int
    at_ms: int
    offset: int  # of the append that holds it
    sizes: array[int]

    @property
    def end_seq(self) -> int:
        return self.first_seq + len(self.sizes)


class TopicState:
    """Applies entries in stream order; the same entries give the same state, live and recovered.

    Retention is logical and exact: a record below ``earliest_seq`` is gone for readers, whether or
    not its bytes are still on disk.
    """

    def __init__(self, base: Base | None = None) -> None:
        self.config = TopicConfig() if base is None else merge(TopicConfig(), base.config)
        self.next_seq = 1 if base is None else base.next_seq
        self.earliest_seq = 1 if base is None else base.earliest_seq
        self.bytes = 0
        self.last_write_ms: int | None = None
        self._runs: list[_Run] = []
        # Insertion order is time order: keys expire from the front.
        self._keys: dict[str, Key] = {}
        if base is not None:
            self._keys = {key.key: key for key in base.keys}

    @property
    def head_seq(self) -> int:
        return self.next_seq - 1

    @property
    def count(self) -> int:
        return self.next_seq - self.earliest_seq

    def apply(self, entry: Entry, offset: int) -> None:
        """``offset`` is where the append that holds the entry begins."""
        if isinstance(entry, Configured):
            self.config = merge(TopicConfig(), entry.config)
            self._advance(entry.earliest_seq)
        else:
            self._write(entry, offset)
        self.evict(entry.at_ms)

    def _write(self, entry: Written, offset: int) -> None:
        sizes = array("I", (record.size for record in entry.records))
        self._runs.append(_Run(entry.first_seq, entry.at_ms, offset, sizes))
        # After a trim the first write may begin below the floor that was kept.
        self.bytes += sum(sizes[max(self.earliest_seq - entry.first_seq, 0) :])
        self.next_seq = entry.first_seq + len(sizes)
        self.last_write_ms = entry.at_ms
        if entry.key is not None:
            self._keys.pop(entry.key, None)
            self._keys[entry.key] = Key(
                entry.key, entry.at_ms, entry.first_seq, self.head_seq, self.head_seq, entry.digest
            )

    def remembered(self, key: str, now_ms: int) -> Key | None:
        """The write that used this key within the window, which includes its last millisecond."""
        found = self._keys.get(key)
        if found is None or now_ms - found.at_ms > self.config.idempotency_window_ms:
            return None
        return found

    def full(self, records: int, size: int, pending: tuple[int, int] = (0, 0)) -> bool:
        """Whether a write must be refused, given what is already on its way to the disk."""
        config = self.config
        if config.discard != "reject":
            return False
        over_records = config.cap_records and (
            self.count + pending[0] + records > config.cap_records
        )
        over_bytes = config.cap_bytes and self.bytes + pending[1] + size > config.cap_bytes
        return bool(over_records or over_bytes)

    def evict(self, now_ms: int) -> None:
        """Drops what the caps, the lifetime and the window no longer keep."""
        config = self.config
        if config.discard == "old":
            if config.cap_records:
                self._advance(self.next_seq - config.cap_records)
            while config.cap_bytes and self.bytes > config.cap_bytes:
                self._advance(self.earliest_seq + 1)
        if config.ttl_ms:
            while self._runs and self._runs[0].at_ms + config.ttl_ms <= now_ms:
                self._advance(self._runs[0].end_seq)
        while self._keys:
            oldest = next(iter(self._keys.values()))
            if now_ms - oldest.at_ms <= config.idempotency_window_ms:
                break
            del self._keys[oldest.key]

    def _advance(self, earliest: int) -> None:
        """Makes ``earliest`` the first record there is."""
        if earliest <= self.earliest_seq:
            return
        gone = 0
        for run in self._runs:
            if run.first_seq >= earliest:
                break
            start = max(self.earliest_seq - run.first_seq, 0)
            self.bytes -= sum(run.sizes[start : max(earliest - run.first_seq, 0)])
            gone += run.end_seq <= earliest
        del self._runs[:gone]
        self.earliest_seq = earliest

    def append_of(self, seq: int) -> int | None:
        """The offset of the append that holds ``seq`` or, if that is gone, the next record."""
        index = bisect_right(self._runs, max(seq, self.earliest_seq), key=lambda r: r.first_seq) - 1
        index = max(index, 0)
        return self._runs[index].offset if index < len(self._runs) else None

    @property
    def first_offset(self) -> int | None:
        """Where the first append begins that anyone can still read."""
        return self._runs[0].offset if self._runs else None

    def base_at(self, offset: int) -> Base:
        """What everything before ``offset`` amounts to, for a stream trimmed to that offset."""
        first = next((run.first_seq for run in self._runs if run.offset >= offset), self.next_seq)
        return Base(
            next_seq=first,
            earliest_seq=self.earliest_seq,
            config=self.config.document(),
            keys=[key for key in self._keys.values() if key.last_seq < first],
        )
