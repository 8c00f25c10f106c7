"""``spark-durable bench``: ratios measured side by side in one run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

DEFAULT_CASES = ("sink", "source", "latency", "streams", "loop", "growth", "server")
# The relay's tables of millions of events take minutes to make: measured when asked for.
CASES = (*DEFAULT_CASES, "relay")
_CASES_HELP = f"of {', '.join(CASES)} (default: all but relay)"


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure sink, source and server beside Kafka, Node and a plain loop",
        description="Measure side by side: every case takes turns with its peers in one run.",
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=_CASES_HELP)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="turns every party takes")
    parser.add_argument("--shape", default="default", help="default, narrow, wide or nested rows")
    parser.add_argument("--width", type=int, help="columns of a row")
    parser.add_argument("--text-length", type=int, help="length of the text column")
    parser.add_argument("--nested", action="store_true", help="rows with a struct and an array")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture there")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from spark_durable.bench.rows import SHAPES, RowShape

    wanted = arguments.cases or list(DEFAULT_CASES)
    unknown = [case for case in wanted if case not in CASES]
    if unknown or arguments.shape not in SHAPES:
        print(f"spark-durable: cases are {CASES}, shapes {tuple(SHAPES)}", file=sys.stderr)
        return 2
    from spark_durable.bench import report as shown
    from spark_durable.bench.run import Settings, measure

    shape = SHAPES[arguments.shape]
    shape = RowShape(
        width=arguments.width or shape.width,
        text_length=arguments.text_length or shape.text_length,
        nested=arguments.nested or shape.nested,
    )
    settings = Settings(shape, arguments.rows, arguments.rounds)
    found = measure(wanted, settings)
    print(shown.table(found))
    if arguments.json:
        shown.write_json(found, arguments.json)
    if arguments.plot:
        shown.write_plot(found, arguments.plot)
    return 0
