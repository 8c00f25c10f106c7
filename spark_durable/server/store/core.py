"""What every operation of the store needs: finding streams, submitting changes, housekeeping."""

from __future__ import annotations

from contextlib import suppress

from . import records
from .errors import BucketMissing, NotFound, SoftDeleted, StoreError, StoreFailed
from .journal import Change, Journal
from .model import Buffer, StoreConfig
from .reading import Reader
from .state import Bucket, State, bucket_of
from .streams import Stream

_SWEEP_EVERY_S = 5.0
_FORGET_EVERY_S = 3_600.0


class Core:
    def __init__(self, config: StoreConfig, state: State, reader: Reader, journal: Journal) -> None:
        self.config = config
        self.state = state
        self.reader = reader
        self.journal = journal
        self._swept_at = self._forgot_at = config.clock()

    def now(self) -> float:
        """The time of a request. Every few seconds one of them does the housekeeping."""
        now = self.config.clock()
        if now >= self._swept_at + _SWEEP_EVERY_S:
            self._swept_at = now
            self._sweep(now)
        return now

    def live(self, key: str) -> Stream:
        """The stream at a key, also when its creation is still in flight."""
        stream = self.state.streams.get(key)
        if stream is None:
            self.require_bucket(key)
            raise NotFound(key)
        if self.gone(stream, self.now()):
            raise SoftDeleted(key) if stream.soft_deleted else NotFound(key)
        return stream

    def readable(self, key: str, *, touch: bool = False) -> Stream:
        """The stream at a key as readers see it."""
        stream = self.live(key)
        if not stream.visible:
            raise NotFound(key)
        if touch:
            stream.accessed_at = self.config.clock()
        return stream

    def gone(self, stream: Stream, now: float) -> bool:
        """True for a deleted stream; one that has expired becomes one by this very question."""
        if stream.soft_deleted or self.state.by_id.get(stream.id) is not stream:
            return True
        if not stream.expired(now):
            return False
        # a store that cannot take the deletion now will be asked again
        with suppress(StoreError):
            self.expire(stream, now)
        return True

    def expire(self, stream: Stream, now: float) -> None:
        self.submit(records.StreamDeleted(stream=stream.id, at_ms=int(now * 1000)))

    def bucket(self, bucket: str) -> Bucket:
        found = self.state.buckets.get(bucket)
        if found is None or not found.visible:
            raise BucketMissing(bucket)
        return found

    def require_bucket(self, key: str) -> None:
        place = bucket_of(key)
        if place is not None:
            self.bucket(place[0])

    def submit(self, record: records.Record, payload: Buffer = b"") -> Change:
        """Applies a record and sends it on its way to the disk."""
        self.journal.make_room(len(payload))
        change = Change(record, payload, self.state.apply(record, payload))
        self.journal.submit(change)
        return change

    async def settled(self, change: Change | None) -> bool:
        """Waits for a change in flight; False when it was taken back: decide again."""
        if change is None or change.settled:
            return True
        try:
            await change.wait()
        except StoreFailed:
            raise
        except StoreError:
            return False
        return True

    def _sweep(self, now: float) -> None:
        for stream in list(self.state.attended):
            self.state.drop_superseded(stream, now - self.config.superseded_snapshot_s)
            if stream.visible:
                self.state.trim(stream)
            self.gone(stream, now)
        if now >= self._forgot_at + _FORGET_EVERY_S:
            self._forgot_at = now
            for stream in self.state.by_id.values():
                if stream.producers.forget_idle(now - self.config.producer_idle_s):
                    self.state.changed_streams.add(stream.id)
