"""Offsets as text, and as numbers only where they are."""

from __future__ import annotations

import pytest

from spark_durable.protocol import offsets


@pytest.mark.parametrize(
    ("offset", "number"),
    [
        ("00000000000000000042", 42),
        ("0", 0),
        ("-1", 0),
        ("now", None),
        ("0000000000000000_0000000000000042", None),
        ("4x", None),
        ("٤٢", None),
        ("", None),
        (None, None),
        ("-2", None),
    ],
)
def test_only_decimal_offsets_are_numbers(offset: str | None, number: int | None) -> None:
    assert offsets.numeric(offset) == number


def test_distances() -> None:
    assert offsets.distance("010", "042") == 32
    assert offsets.distance("-1", "042") == 42
    assert offsets.distance("042", "010") is None
    assert offsets.distance("0_1", "0_5") is None
    assert offsets.distance("1", None) is None


def test_formatting_keeps_the_width() -> None:
    assert offsets.formatted(42, "00000000000000000007") == "00000000000000000042"


def test_order() -> None:
    assert offsets.precedes("0_09", "0_10")
    assert not offsets.precedes("0_10", "0_10")
    assert offsets.precedes("99", "100"), "as numbers where both are"
    assert offsets.precedes("-1", "0")
    assert offsets.precedes("-1", "0000_0000")
    assert not offsets.precedes("0", "-1")
    assert not offsets.precedes("-1", "-1")
    with pytest.raises(ValueError, match="now"):
        offsets.precedes("now", "1")
