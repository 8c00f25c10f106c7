"""The rows that benchmarks write: a shape by option, none of it known to the code under test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RowShape:
    """How wide, how long and how nested a row is."""

    width: int = 5
    text_length: int = 36
    nested: bool = False

    @property
    def schema(self) -> str:
        """The shape as DDL, for typed reads."""
        columns = ["id BIGINT", "amount DOUBLE", "customer STRING", "at TIMESTAMP", "note STRING"]
        columns += [f"c{n} {'BIGINT' if n % 2 else 'STRING'}" for n in range(5, self.width)]
        if self.nested:
            columns.append("item STRUCT<sku: STRING, qty: INT, tags: ARRAY<STRING>>")
        return ", ".join(columns[: self.width] + columns[max(self.width, 5) :])

    def frame(self, spark: SparkSession, rows: int, partitions: int) -> DataFrame:
        """``rows`` rows in ``partitions`` partitions, the same on every run."""
        text = f"substr(repeat(sha2(cast(id as string), 256), {1 + self.text_length // 64}), 1, "
        columns = [
            "id",
            "id * 0.25 + 0.5 as amount",
            "concat('customer-', id % 9973) as customer",
            "timestamp_seconds(1700000000 + id) as at",
            f"{text}{self.text_length}) as note",
        ]
        columns += [
            f"id * {n} as c{n}" if n % 2 else f"concat('c{n}-', id % 1009) as c{n}"
            for n in range(5, self.width)
        ]
        columns = columns[: self.width] + columns[max(self.width, 5) :]
        if self.nested:
            columns.append(
                "named_struct('sku', concat('sku-', id % 997), 'qty', cast(id % 7 as int), "
                "'tags', array(concat('t', id % 5), concat('u', id % 3))) as item"
            )
        return spark.range(0, rows, 1, partitions).selectExpr(*columns)


SHAPES = {
    "default": RowShape(),
    "narrow": RowShape(width=2),
    "wide": RowShape(width=30),
    "nested": RowShape(nested=True),
}
