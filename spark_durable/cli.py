"""The command line: ``spark-durable serve | demo | streams | bench``.

Each command imports what it needs when it runs, so that looking at a stream needs neither Spark nor
the server's packages. Exit codes: 0 done, 1 it failed, 2 the arguments are wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from spark_durable import __version__
from spark_durable.protocol.errors import DurableError

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; an error of ours is one line on stderr, never a stack trace."""
    arguments = _parser().parse_args(argv)
    run: Command = arguments.run
    try:
        return run(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough: `... | head`
        sys.stderr.close()
        return 0
    except DurableError as error:
        print(f"spark-durable: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    from spark_durable.commands import bench, demo, serve, streams

    parser = argparse.ArgumentParser(
        prog="spark-durable", description="Durable Streams for Spark: server, streams, benchmarks."
    )
    parser.add_argument("--version", action="version", version=f"spark-durable {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (serve, demo, streams, bench):
        module.add_parser(commands)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
