"""An order of rows that every attempt finds again: an external merge sort in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import IOBase
from types import TracebackType
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_durable.protocol.errors import OptionError
from spark_durable.sink.spool import local_directory

_BLOCK_BYTES = 1 << 20


class ExternalSort:
    """Sorts batches by all their columns, the first one first; nulls come last.

    Rows that compare equal in every column are equal, so the result depends on the set of rows
    alone. Memory: ``memory`` bytes of rows while they come in, then a block of each run.
    """

    def __init__(self, memory: int, directory: str | None = None) -> None:
        self._memory = memory
        self._directory = directory if directory is not None else local_directory()
        self._pending: list[pa.RecordBatch] = []
        self._held = 0
        self._runs: list[_Run] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._held += batch.nbytes
        if self._held >= self._memory:
            self._spill()

    def _sorted_pending(self) -> pa.Table:
        table = pa.Table.from_batches(self._pending)
        self._pending, self._held = [], 0
        return _sorted(table)

    def _spill(self) -> None:
        table = self._sorted_pending()
        # As many rows a block as fit into its share; a block is what the merge holds of a run.
        rows = max(1, _BLOCK_BYTES * table.num_rows // max(1, table.nbytes))
        self._runs.append(_Run.write(table, rows, self._directory))

    def result(self) -> Iterator[pa.RecordBatch]:
        """The rows in order. Call once."""
        if not self._runs:
            if self._pending:
                yield from self._sorted_pending().to_batches()
            return
        if self._pending:
            self._spill()
        yield from _merge(self._runs)

    def close(self) -> None:
        for run in self._runs:
            run.close()
        self._runs = []

    def __enter__(self) -> ExternalSort:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(slots=True)
class _Run:
    """A sorted run in an unnamed file, and the block of it that is in memory."""

    file: IOBase
    blocks: Iterator[pa.RecordBatch]
    block: pa.RecordBatch | None

    @classmethod
    def write(cls, table: pa.Table, rows: int, directory: str | None) -> _Run:
        # Open for as long as the run is; close() or the end of the process removes it.
        opened = tempfile.TemporaryFile(prefix="spark-durable-", dir=directory)  # noqa: SIM115
        file = cast(IOBase, opened)
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
        file.seek(0)
        return cls(file, iter(pa.ipc.open_stream(file)), None)

    def fill(self) -> bool:
        """Loads a block if none is at hand. False at the end of the run."""
        while self.block is None or self.block.num_rows == 0:
            self.block = next(self.blocks, None)
            if self.block is None:
                self.close()
                return False
        return True

    def close(self) -> None:
        self.file.close()


def _merge(runs: list[_Run]) -> Iterator[pa.RecordBatch]:
    """Merges block-wise: what lies below the lowest end of all blocks at hand can go.

    Nothing that is still on disk can come before that end, so those rows, sorted together, are
    the next ones of the result.
    """
    open_runs = [run for run in runs if run.fill()]
    while open_runs:
        horizon = min(_key(run.block, run.block.num_rows - 1) for run in open_runs if run.block)
        ready: list[pa.RecordBatch] = []
        for run in open_runs:
            assert run.block is not None
            count = _count_up_to(run.block, horizon)
            if count:
                ready.append(run.block.slice(0, count))
                run.block = run.block.slice(count)
        yield from _sorted(pa.Table.from_batches(ready)).to_batches()
        open_runs = [run for run in open_runs if run.fill()]


def _sorted(table: pa.Table) -> pa.Table:
    ascending: Literal["ascending"] = "ascending"
    keys = [(name, ascending) for name in table.column_names]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def _count_up_to(block: pa.RecordBatch, horizon: tuple[Any, ...]) -> int:
    """How many rows of a sorted block are not past the horizon."""
    low, high = 0, block.num_rows
    while low < high:
        middle = (low + high) // 2
        if _key(block, middle) <= horizon:
            low = middle + 1
        else:
            high = middle
    return low


def _key(block: pa.RecordBatch, row: int) -> tuple[Any, ...]:
    """A row as Python compares it, in the order in which Arrow sorts."""
    return tuple(_comparable(column[row].as_py()) for column in block.columns)


def _comparable(value: Any) -> tuple[int, Any]:
    if value is None:
        return 2, 0
    if isinstance(value, float) and value != value:
        return 1, 0
    return 0, value


def sort_key(name: str, column: pa.Array[Any]) -> pa.Array[Any]:
    """A column in a form that Arrow sorts and Python compares alike."""
    kind = column.type
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return column.cast(width)
    plain = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )
    if not plain:
        raise OptionError(f"orderBy: column {name} of type {kind} has no order.")
    return column
