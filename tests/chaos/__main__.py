"""``python -m tests.chaos``: seeded runs, one after the other, and what they found."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from tests.chaos.planted import PLANTS
from tests.chaos.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first run; default: a random one")
    parser.add_argument("--seeds", type=int, default=1, help="runs, each with the next seed")
    parser.add_argument("--minutes", type=float, default=2.0, help="of faults in each run")
    parser.add_argument("--no-spark", action="store_true", help="producers and server alone")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="run with a bug, to see it found")
    parser.add_argument("--keep", type=Path, help="where to leave the files of runs that fail")
    parser.add_argument("--json", action="store_true", help="one JSON object a run")
    options = parser.parse_args()
    first = random.randrange(1_000_000) if options.seed is None else options.seed
    failed = []
    for seed in range(first, first + options.seeds):
        print(f"seed {seed}", file=sys.stderr, flush=True)
        report = run(
            seed,
            options.minutes * 60,
            spark=not options.no_spark,
            plant=options.plant,
            keep=options.keep,
        )
        print(report.json() if options.json else report.text(), flush=True)
        if not report.passed:
            failed.append(seed)
    if failed:
        print(f"failed with seeds {failed}: repeat one with --seed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
