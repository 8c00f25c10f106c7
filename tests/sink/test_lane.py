from __future__ import annotations

import json
import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_durable.sink.cut import BodyForm, Cut
from spark_durable.sink.lane import Lane
from spark_durable.sink.spool import Spool

KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def texts(messages: list[str], form: BodyForm, kind: pa.DataType) -> pa.Array:
    return pa.array([form.separator.decode() + m for m in messages], pa.string()).cast(kind)


def fill(lane: Lane, spool: Spool, messages: list[str], form: BodyForm, kind: pa.DataType) -> None:
    # A slice of a larger array, as routing makes them.
    padded = texts(["pad", *messages, "pad"], form, kind)
    lane.add(padded.slice(1, len(messages)), spool)


def bodies(
    messages: list[str],
    form: BodyForm = BodyForm.ARRAY,
    limit: int = 30,
    *,
    kind: pa.DataType = KINDS[0],
    memory: int = 1 << 20,
    park_every: int | None = None,
    chunk: int = 7,
) -> tuple[list[bytes], int]:
    lane = Lane(Cut(form, limit))
    with Spool(memory) as spool:
        for start in range(0, len(messages), chunk):
            fill(lane, spool, messages[start : start + chunk], form, kind)
            if park_every and start // chunk % park_every == 0:
                lane.park(spool)
        fingerprint = lane.finish(spool)
        found = [bytes(a) for body in lane.bodies for a in lane.appends(body, spool)]
    assert lane.rows == len(messages)
    assert lane.sizes() == [len(append) for append in found]
    assert lane.several == (len(found) > 1)
    return found, fingerprint


numbers = st.lists(st.integers(0, 10**6).map(str), min_size=1, max_size=60)


@settings(deadline=None)  # the machine may be busy
@given(numbers, st.integers(3, 60))
def test_arrays_hold_every_message_in_order_within_the_limit(found: list[str], limit: int) -> None:
    made, _ = bodies(found, limit=limit)
    assert [n for body in made for n in json.loads(body)] == [int(n) for n in found]
    assert all(len(body) <= limit or len(json.loads(body)) == 1 for body in made)


@settings(deadline=None)  # the machine may be busy
@given(
    numbers,
    st.sampled_from(BodyForm),
    st.integers(3, 60),
    st.sampled_from(KINDS),
    st.sampled_from([0, 20, 1 << 20]),
)
def test_bodies_do_not_depend_on_batches_memory_or_arrow_type(
    found: list[str], form: BodyForm, limit: int, kind: pa.DataType, memory: int
) -> None:
    expected = bodies(found, form, limit)
    assert bodies(found, form, limit, kind=kind, memory=memory, chunk=3) == expected
    assert bodies(found, form, limit, memory=memory, park_every=1) == expected
    assert bodies(found, form, limit, memory=memory, park_every=2, chunk=1) == expected


def test_other_forms() -> None:
    for limit in (1, 3, 30):
        assert bodies(["ab", "c", "def"], BodyForm.SINGLE, limit)[0] == [b"ab", b"c", b"def"]
    assert bodies(["ab", "c", "def"], BodyForm.CONCATENATED, 3)[0] == [b"abc", b"def"]


@pytest.mark.parametrize("form", [BodyForm.ARRAY, BodyForm.CONCATENATED])
def test_order_counts_only_where_there_are_several_appends(form: BodyForm) -> None:
    rows = [str(n) for n in range(100, 140)]
    other = random.Random(5).sample(rows, len(rows))
    assert bodies(rows, form, 1000)[1] == bodies(other, form, 1000)[1]
    assert bodies(rows, form, 100)[1] != bodies(other, form, 100)[1]
    # A row more or less, or one that differs, always counts.
    assert bodies(rows, form, 1000)[1] != bodies(rows[:-1], form, 1000)[1]
    assert bodies(rows, form, 1000)[1] != bodies([*rows[:-1], "999"], form, 1000)[1]


def test_single_messages_have_an_order_and_no_cut() -> None:
    rows = ["ab", "c", "def", "g"]
    assert bodies(rows, BodyForm.SINGLE, 3) == bodies(rows, BodyForm.SINGLE, 300)
    others = [rows[::-1], ["a", "bc", "def", "g"], ["abc", "def", "g"], rows[:3]]
    made = {bodies(other, BodyForm.SINGLE)[1] for other in [rows, *others]}
    assert len(made) == 5


def test_another_limit_counts_exactly_if_it_changes_the_appends() -> None:
    rows = [str(n) for n in range(100, 140)]
    assert bodies(rows, limit=1000)[1] == bodies(rows, limit=2000)[1]
    assert bodies(rows, limit=100)[1] != bodies(rows, limit=90)[1]
    assert bodies(rows, limit=100)[1] != bodies(rows, limit=1000)[1]


def test_an_empty_lane_has_nothing_to_send() -> None:
    lane = Lane(Cut(BodyForm.ARRAY, 10))
    with Spool(10) as spool:
        lane.add(pc.binary_join_element_wise(pa.array([], pa.string()), ",", ""), spool)
        lane.finish(spool)
    assert lane.bodies == []
