"""Idempotent producers: which append is new, which is a repetition, which is refused.

The state of a producer moves only together with its append (one record in the log), so after a
crash a repeated request meets exactly the state its first attempt left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from .errors import EpochStartsAtZero, ProducerLimit, SequenceGap, StaleEpoch
from .model import ProducerTriple


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The newest session of a producer, its last accepted request, and when it last asked."""

    epoch: int
    seq: int
    used_at: float


class Producers:
    """The producers one stream remembers. One that is idle for long counts as unknown."""

    __slots__ = ("_states", "changed")

    def __init__(self) -> None:
        self._states: dict[str, ProducerState] = {}
        # whose state differs from what the last checkpoint has written
        self.changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: str) -> ProducerState | None:
        return self._states.get(producer_id)

    def newest(self, skip: int, limit: int) -> Iterator[tuple[str, ProducerState]]:
        """Producers in the order in which they came, the last one first."""
        return islice(reversed(self._states.items()), skip, skip + limit)

    def set(self, producer_id: str, state: ProducerState | None) -> None:
        """Moves a producer to `state`; None forgets it."""
        self.changed.add(producer_id)
        if state is None:
            self._states.pop(producer_id, None)
        else:
            self._states[producer_id] = state

    def forget_idle(self, idle_since: float) -> int:
        idle = [each for each, state in self._states.items() if state.used_at <= idle_since]
        for each in idle:
            self.set(each, None)
        return len(idle)

    def is_repetition(
        self, key: str, sent: ProducerTriple, now: float, *, idle_s: float, limit: int
    ) -> bool:
        """True for a request that was accepted before, False for the next new one; else raises.

        A request with the highest sequence number (2^53-1) is never accepted in practice: the
        refusal tells an asker what is stored. Known epoch: `SequenceGap` with the number of
        requests accepted in it; unknown producer: `SequenceGap` expecting 0; an epoch above the
        current one: `EpochStartsAtZero`; one below: `StaleEpoch`.
        """
        state = self._states.get(sent.id)
        if state is not None and state.used_at <= now - idle_s:
            state = None
        if state is None:
            if sent.seq != 0:
                raise SequenceGap(sent.id, 0, sent.seq)
            if len(self._states) >= limit and not self.forget_idle(now - idle_s):
                raise ProducerLimit(key, limit)
            return False
        if sent.epoch < state.epoch:
            raise StaleEpoch(sent.id, state.epoch, sent.epoch)
        if sent.epoch > state.epoch:
            if sent.seq != 0:
                raise EpochStartsAtZero(sent.id, sent.epoch, sent.seq)
            return False
        if sent.seq <= state.seq:
            self._states[sent.id] = ProducerState(state.epoch, state.seq, now)
            return True
        if sent.seq > state.seq + 1:
            raise SequenceGap(sent.id, state.seq + 1, sent.seq)
        return False
