from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_durable.protocol.errors import OptionError
from spark_durable.sink.order import ExternalSort, sort_key

NAN = float("nan")


def sort_batches(batches: list[pa.RecordBatch], memory: int, directory: Path) -> pa.Table:
    with ExternalSort(memory, str(directory)) as sort:
        for batch in batches:
            sort.add(batch)
        found = list(sort.result())
        assert list(directory.iterdir()) == []  # unnamed files only
    return pa.Table.from_batches(found) if found else pa.table({})


def in_batches(table: pa.Table, seed: int) -> list[pa.RecordBatch]:
    rng = random.Random(seed)
    order = rng.sample(range(table.num_rows), table.num_rows)
    return table.take(order).to_batches(max_chunksize=rng.randint(50, 400))


COLUMNS: dict[str, list[Any]] = {
    "number": [3, None, -5, 2**62, 0, 7],
    "double": [1.5, NAN, None, float("-inf"), -0.0, 0.0, NAN, 1e300],
    "text": ["b", "a", "ä", "", None, "\U0001f600", "￿", "a\x00"],
    "bytes": [b"\xff", b"", None, b"\x00\x01"],
    "flag": [True, None, False],
    "money": [Decimal("1.10"), Decimal("-3.00"), None, Decimal("1.20")],
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("memory", [1 << 30, 4000])
def test_same_order_whatever_the_arrival_and_the_memory(
    name: str, memory: int, tmp_path: Path
) -> None:
    values = COLUMNS[name]
    rows = 3000
    table = pa.table(
        {
            "0": pa.array([values[n % len(values)] for n in range(rows)]),
            "1": pa.array([f"message {n % 1777:05d}" for n in range(rows)]),
        }
    )
    expected = sort_batches(in_batches(table, 0), 1 << 30, tmp_path)
    assert expected.num_rows == rows
    for seed in range(3):
        found = sort_batches(in_batches(table, seed), memory, tmp_path)
        # The message is what is sent: two zeroes that compare equal may change places.
        assert found.column("1").equals(expected.column("1"))
        # Compared as text: NaN is not equal to itself.
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_ascending_with_nulls_last(tmp_path: Path) -> None:
    table = pa.table({"0": pa.array([2, None, 1, 1]), "1": pa.array(["x", "y", "b", "a"])})
    found = sort_batches(table.to_batches(), 1, tmp_path)
    assert found.to_pylist() == [
        {"0": 1, "1": "a"},
        {"0": 1, "1": "b"},
        {"0": 2, "1": "x"},
        {"0": None, "1": "y"},
    ]


def test_sorted_input_in_many_runs(tmp_path: Path) -> None:
    table = pa.table({"0": pa.array([f"{n:06d}" for n in range(20_000)])})
    found = sort_batches(table.to_batches(max_chunksize=500), 20_000, tmp_path)
    assert found.column("0").to_pylist() == table.column("0").to_pylist()


def test_nothing_to_sort(tmp_path: Path) -> None:
    assert sort_batches([], 10, tmp_path).num_rows == 0


def test_keys_of_every_orderable_type() -> None:
    day = datetime.date(2024, 5, 1)
    instant = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc)
    assert sort_key("d", pa.array([day])).type == pa.int32()
    assert sort_key("t", pa.array([instant], pa.timestamp("us", "UTC"))).type == pa.int64()
    assert sort_key("i", pa.array([datetime.timedelta(1)])).type == pa.int64()
    assert sort_key("s", pa.array(["x"])).type == pa.string()
    with pytest.raises(OptionError, match="column tags"):
        sort_key("tags", pa.array([["x"]]))
