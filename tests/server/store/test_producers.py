from __future__ import annotations

import pytest

from spark_durable.server.store.errors import (
    EpochStartsAtZero,
    ProducerLimit,
    SequenceGap,
    StaleEpoch,
)
from spark_durable.server.store.model import MAX_PRODUCER_NUMBER, ProducerTriple
from spark_durable.server.store.producers import Producers, ProducerState


def ask(
    producers: Producers, *sent: str | int, now: float = 100.0, limit: int = 10, idle_s: float = 50
) -> bool:
    triple = ProducerTriple(*sent)  # type: ignore[arg-type]
    return producers.is_repetition("/s", triple, now, idle_s=idle_s, limit=limit)


@pytest.fixture
def producers() -> Producers:
    """One producer, `p`, at epoch 3 with the requests 0, 1 and 2 accepted."""
    producers = Producers()
    producers.set("p", ProducerState(3, 2, used_at=100.0))
    return producers


def test_the_next_request_is_new_and_earlier_ones_are_repetitions(producers: Producers) -> None:
    assert ask(producers, "p", 3, 3) is False
    assert [ask(producers, "p", 3, seq) for seq in (0, 1, 2)] == [True] * 3


def test_a_gap_names_the_expected_number(producers: Producers) -> None:
    with pytest.raises(SequenceGap) as refused:
        ask(producers, "p", 3, 4)
    assert (refused.value.expected, refused.value.received) == (3, 4)


def test_an_older_epoch_is_fenced(producers: Producers) -> None:
    with pytest.raises(StaleEpoch) as refused:
        ask(producers, "p", 2, 0)
    assert refused.value.current_epoch == 3


def test_a_newer_epoch_starts_at_zero(producers: Producers) -> None:
    assert ask(producers, "p", 9, 0) is False
    with pytest.raises(EpochStartsAtZero):
        ask(producers, "p", 4, 1)


def test_producers_are_independent(producers: Producers) -> None:
    assert ask(producers, "q", 0, 0) is False


class TestProbe:
    """A request with the last possible number writes nothing and tells what is stored."""

    def test_of_the_current_epoch_tells_how_many_were_accepted(self, producers: Producers) -> None:
        with pytest.raises(SequenceGap) as refused:
            ask(producers, "p", 3, MAX_PRODUCER_NUMBER)
        assert refused.value.expected == 3

    def test_of_an_epoch_never_used(self, producers: Producers) -> None:
        with pytest.raises(EpochStartsAtZero):
            ask(producers, "p", 4, MAX_PRODUCER_NUMBER)

    def test_of_an_epoch_that_is_over(self, producers: Producers) -> None:
        with pytest.raises(StaleEpoch) as refused:
            ask(producers, "p", 0, MAX_PRODUCER_NUMBER)
        assert refused.value.current_epoch == 3

    def test_of_an_unknown_producer(self, producers: Producers) -> None:
        with pytest.raises(SequenceGap) as refused:
            ask(producers, "q", 7, MAX_PRODUCER_NUMBER)
        assert refused.value.expected == 0
        assert producers.get("q") is None


def test_an_idle_producer_counts_as_unknown(producers: Producers) -> None:
    assert ask(producers, "p", 3, 2, now=149.9) is True
    # that question counted as use
    assert ask(producers, "p", 3, 2, now=199.8) is True
    assert ask(producers, "p", 0, 0, now=250.0) is False


def test_a_full_table_first_forgets_the_idle_then_refuses(producers: Producers) -> None:
    producers.set("q", ProducerState(0, 0, used_at=140.0))
    with pytest.raises(ProducerLimit) as refused:
        ask(producers, "r", 0, 0, now=149.0, limit=2)
    assert refused.value.limit == 2
    assert ask(producers, "r", 0, 0, now=151.0, limit=2) is False
    assert producers.get("p") is None
    assert producers.get("q") is not None
