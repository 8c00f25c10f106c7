"""Does it hold when there is more? Rows per second at 1, 4 and 16 times the data."""

from __future__ import annotations

from functools import partial

from spark_durable.bench.harness import Report, rate, ratio, take_turns
from spark_durable.bench.parties import Parties
from spark_durable.bench.rows import RowShape

_FACTORS = (1, 4, 16)


def measure_growth(
    parties: Parties, shape: RowShape, rows: int, rounds: int, report: Report
) -> None:
    """Write and read back ever more rows; the figure is that of the direction that suffers more."""
    written = {factor: parties.fresh_stream() for factor in _FACTORS}

    def write(factor: int, stream: str | None = None) -> float:
        frame = shape.frame(parties.spark, rows * factor, 2)
        writer = frame.write.format("durablestream").mode("append")
        return rate(lambda: writer.save(stream or parties.fresh_stream()), rows * factor)

    def read(factor: int) -> float:
        frame = parties.spark.read.format("durablestream").schema(shape.schema)
        sink = frame.load(written[factor]).write.format("noop").mode("overwrite")
        return rate(sink.save, rows * factor)

    for factor, stream in written.items():
        write(factor, stream)
    directions = {"sink": write, "source": read}
    rates = take_turns(
        {
            f"growth_{name}_{factor}x": partial(direction, factor)
            for name, direction in directions.items()
            for factor in _FACTORS
        },
        rounds,
    )
    report.rates.update(rates)
    figures = [
        ratio("growth_16x", rates[f"growth_{name}_16x"], rates[f"growth_{name}_1x"], detail=name)
        for name in directions
    ]
    report.add(min(figures, key=lambda figure: figure.value))
