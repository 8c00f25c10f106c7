from __future__ import annotations

import pytest

from spark_durable.server.http.cursors import next_cursor

START = 1_728_432_000  # the protocol's epoch


def test_intervals_of_20_seconds_since_the_epoch() -> None:
    assert next_cursor(None, START) == "0"
    assert next_cursor(None, START + 59.9) == "2"


def test_a_client_behind_gets_the_current_interval() -> None:
    assert next_cursor("3", START + 20 * 10) == "10"


@pytest.mark.parametrize("ahead", [0, 1, 1000])
def test_a_client_there_or_ahead_moves_on_by_up_to_an_hour(ahead: int) -> None:
    for _ in range(50):
        moved = int(next_cursor(str(10 + ahead), START + 200))
        assert 10 + ahead < moved <= 10 + ahead + 180


@pytest.mark.parametrize("nonsense", ["", "x", "-1", "1.5", "9" * 5000, "²"])
def test_what_we_never_sent_counts_as_none(nonsense: str) -> None:
    assert next_cursor(nonsense, START + 20) == "1"
