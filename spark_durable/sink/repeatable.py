"""A DataFrame whose partitions do not depend on the cluster that computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VALUE = "value"


def repeatable(
    df: DataFrame,
    partitions: int,
    by: str | Sequence[str] | None = None,
    *,
    stream_column: str | None = None,
    to_json: Mapping[str, str] | None = None,
) -> DataFrame:
    """``df`` as one ``value`` column of JSON, its rows in ``partitions`` partitions by their hash.

    The same rows are in the same partition on every run, whatever the cores, file splits,
    ``shuffle.partitions`` or AQE, so a replayed batch passes the sink's guard where it would
    otherwise be refused. ``by`` names columns to partition by instead of the whole row: rows with
    equal values there stay together. The order of rows inside a partition may differ: if it is
    larger than one append, write with ``rowOrder=sort``. A ``stream_column`` stays beside the
    value, for the sink's option of that name; ``to_json`` are options of Spark's function. The
    price is a shuffle.
    """
    from pyspark.sql import functions

    if partitions < 1:
        raise ValueError("partitions must be at least 1")
    names = [by] if isinstance(by, str) else list(by or ())
    data = [name for name in df.columns if name != stream_column]
    if data == [_VALUE] and dict(df.dtypes)[_VALUE] in ("string", "binary"):
        value = df[_VALUE]
    else:
        row = functions.struct(*[_column(df, name) for name in data])
        value = functions.to_json(row, dict(to_json or {}))
    kept = [] if stream_column is None else [_column(df, stream_column)]
    keys = [_column(df, name).alias(f"_key{n}") for n, name in enumerate(names)]
    keyed = df.select(value.alias(_VALUE), *kept, *keys)
    chosen = [functions.col(f"_key{n}") for n in range(len(keys))] or [functions.col(_VALUE)]
    return keyed.repartition(partitions, *chosen).drop(*[f"_key{n}" for n in range(len(keys))])


def _column(df: DataFrame, name: str) -> Column:
    return df["`" + name.replace("`", "``") + "`"]
