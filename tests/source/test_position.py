from __future__ import annotations

import pickle

from spark_durable.source.position import Piece, Position, Unit


def test_order_within_and_across_anchors() -> None:
    assert Position("-1").precedes(Position("-1", 1))
    assert Position("-1", 5).precedes(Position("0000_0001"))
    assert Position("0000_0001", 3).precedes(Position("0000_0002"))
    assert not Position("0000_0002").precedes(Position("0000_0001", 9))
    assert not Position("0007", 2).precedes(Position("0007", 2))


def test_numbers_compare_as_numbers() -> None:
    assert Position("999").precedes(Position("1000"))


def test_advancing_keeps_the_anchor() -> None:
    assert Position("7", 2).plus(3) == Position("7", 5)
    assert str(Position("7", 5)) == "7+5"
    assert str(Position("7")) == "7"


def test_what_crosses_to_executors_pickles() -> None:
    piece = Piece("7", 1, 2, Unit.MESSAGES)
    assert pickle.loads(pickle.dumps(piece)) == piece
