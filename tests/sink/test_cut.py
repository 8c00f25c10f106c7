from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_durable.protocol.errors import BadRowError
from spark_durable.sink.cut import BodyForm, Cut, Cutter


def cut_sizes(sizes: list[int], batches: list[int], cut: Cut) -> list[list[int]]:
    """The indices of the messages of each append, when they arrive in the given batches."""
    cutter = Cutter(cut)
    bodies: list[list[int]] = []
    open_body: list[int] = []
    start = 0
    for count in [*batches, len(sizes)]:
        part = sizes[start : start + count]
        offsets = np.concatenate(([17], 17 + np.cumsum(part, dtype=np.int64))).astype(np.int32)
        for step in cutter.steps(offsets):
            if step is None:
                bodies.append(open_body)
                open_body = []
            else:
                open_body = open_body + list(range(start + step.start, start + step.stop))
        start += len(part)
    return [body for body in [*bodies, open_body] if body]


def greedy(sizes: list[int], cut: Cut) -> list[list[int]]:
    bodies: list[list[int]] = []
    room = 0
    for index, size in enumerate(sizes):
        if not bodies or size > room:
            bodies.append([])
            room = cut.limit - len(cut.form.closing)
        bodies[-1].append(index)
        room -= size
    return bodies


@settings(deadline=None)  # the machine may be busy
@given(
    sizes=st.lists(st.integers(1, 40), max_size=60),
    batches=st.lists(st.integers(0, 20), max_size=6),
    limit=st.integers(1, 60),
    form=st.sampled_from(BodyForm),
)
def test_cut_depends_on_the_messages_alone(
    sizes: list[int], batches: list[int], limit: int, form: BodyForm
) -> None:
    cut = Cut(form, limit)
    assert cut_sizes(sizes, batches, cut) == greedy(sizes, cut)


def test_a_message_that_no_server_takes_is_refused_by_its_row() -> None:
    cut = Cut(BodyForm.ARRAY, limit=10, ceiling=30)
    assert cut_sizes([4, 29, 4], [], cut) == [[0], [1], [2]]
    with pytest.raises(BadRowError, match="Row 2 of the partition makes an append of 31 bytes"):
        cut_sizes([4, 29, 30], [2], cut)
