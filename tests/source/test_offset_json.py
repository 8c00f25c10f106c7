"""The checkpoint's format: what is written today is read tomorrow, or refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.protocol.errors import CheckpointError
from spark_durable.source.offset_json import (
    Begin,
    SourceOffset,
    StreamMark,
    from_json,
    initial_json,
    is_initial,
    to_json,
)
from spark_durable.source.position import Piece, Position, Unit

texts = st.text(min_size=1, max_size=20)
counts = st.integers(0, 2**53)
positions = st.builds(Position, texts, counts)
marks = st.builds(
    StreamMark,
    at=positions,
    life=st.none() | texts,
    content_type=st.sampled_from(["application/json", "text/plain; charset=utf-8"]),
    ended=st.booleans(),
    begin=st.none() | st.builds(Begin, positions, st.none() | texts),
    pieces=st.none()
    | st.lists(st.builds(Piece, texts, counts, counts, st.sampled_from(Unit)), max_size=4).map(
        tuple
    ),
)
offsets = st.builds(SourceOffset, st.just("/ds/shop"), st.dictionaries(texts, marks, max_size=40))


@given(offsets)
def test_what_is_written_is_read(offset: SourceOffset) -> None:
    stored = json.loads(json.dumps(to_json(offset)))
    assert from_json(stored, "/ds/shop") == offset


@given(offsets, st.randoms())
def test_equal_offsets_have_equal_text(offset: SourceOffset, random: Any) -> None:
    names = list(offset.marks)
    random.shuffle(names)
    shuffled = SourceOffset(offset.base, {name: offset.marks[name] for name in names})
    assert json.dumps(to_json(shuffled)) == json.dumps(to_json(offset))
    assert json.dumps(json.loads(json.dumps(to_json(offset)))) == json.dumps(to_json(offset))


def test_the_beginning_is_the_same_text_always() -> None:
    assert json.dumps(initial_json()) == json.dumps(initial_json())
    assert is_initial(initial_json())
    assert from_json(initial_json(), "/any") == SourceOffset("/any", {})


# Checkpoints as this release writes them. A later one has to read them.
VERSION_1 = {
    "plain": (
        '{"base": "/ds/shop", "streams": {"orders": {"at": "00000000000000000042", "from": '
        '{"at": "00000000000000000012", "snapshot": "00000000000000000012"}, "life": "7f"}}, '
        '"v": 1}',
        StreamMark(
            at=Position("00000000000000000042"),
            life="7f",
            begin=Begin(Position("00000000000000000012"), "00000000000000000012"),
        ),
    ),
    "counted": (
        '{"base": "/ds/shop", "streams": {"orders": {"at": "-1", "pieces": [["-1", 4, 3, "m"]], '
        '"skip": 7, "type": "text/plain"}}, "v": 1}',
        StreamMark(
            at=Position("-1", 7),
            content_type="text/plain",
            pieces=(Piece("-1", 4, 3, Unit.MESSAGES),),
        ),
    ),
}


@pytest.mark.parametrize("name", sorted(VERSION_1))
def test_checkpoints_of_version_1(name: str) -> None:
    text, mark = VERSION_1[name]
    assert from_json(json.loads(text), "/ds/shop") == SourceOffset("/ds/shop", {"orders": mark})
    assert json.dumps(to_json(SourceOffset("/ds/shop", {"orders": mark}))) == text


def test_many_streams_are_packed() -> None:
    many = SourceOffset(
        "/ds/shop",
        {f"session-{n:05d}": StreamMark(Position(f"{n:020d}"), f"{n:016x}") for n in range(10_000)},
    )
    stored = to_json(many)
    assert stored["count"] == 10_000
    assert len(json.dumps(stored)) < 200_000
    assert from_json(stored, "/ds/shop") == many


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"v": 1},
        {"v": "1", "base": "/b", "streams": {}},
        {"v": 0, "base": "/b", "streams": {}},
        {"v": True, "base": "/b", "streams": {}},
        {"v": 1, "base": "/b", "streams": []},
        {"v": 1, "base": "/b", "streams": {"a": {}}},
        {"v": 1, "base": "/b", "streams": {"a": {"at": 7}}},
        {"v": 1, "base": "/b", "streams": {"a": {"at": "7", "skip": -1}}},
        {"v": 1, "base": "/b", "streams": {"a": {"at": "7", "pieces": [["7", 0, 1]]}}},
        {"v": 1, "base": "/b", "streams": {"a": {"at": "7", "pieces": [["7", 0, 1, "?"]]}}},
        {"v": 1, "base": "/b", "streams": {"a": {"at": "7", "from": "7"}}},
        {"v": 1, "base": "/b", "packed": "not base64!"},
        {"v": 1, "base": "/b", "packed": "aGVsbG8="},
    ],
)
def test_damage_is_an_error_that_says_so(broken: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        from_json(broken, "/b")


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(CheckpointError, match="newer release"):
        from_json({"v": 2, "base": "/b", "streams": {}}, "/b")


def test_a_checkpoint_belongs_to_its_streams() -> None:
    stored = to_json(SourceOffset("/ds/shop", {}))
    with pytest.raises(CheckpointError, match=r"/ds/shop.*/ds/other"):
        from_json(stored, "/ds/other")


def test_a_settled_mark_forgets_its_batch() -> None:
    mark = StreamMark(
        Position("7"),
        "life",
        begin=Begin(Position("3"), "3"),
        pieces=(Piece("3", 0, 4, Unit.BODY),),
    )
    assert mark.settled() == StreamMark(Position("7"), "life")
