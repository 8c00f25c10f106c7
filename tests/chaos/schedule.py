"""Which faults strike when: a pure function of the seed, so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum


class Strike(Enum):
    SERVER_KILLED = "server killed"
    EXECUTOR_KILLED = "executor killed"
    WORKER_KILLED = "Python worker killed"
    DRIVER_KILLED = "driver killed"
    ANSWERS_LOST = "answers lost after applying"
    REQUESTS_RESET = "requests reset"
    REQUESTS_CUT = "requests cut"
    ANSWERS_CUT = "answers cut"
    STORM_429 = "429 storm"
    STORM_503 = "503 storm"
    DELAYS = "delays"
    TRICKLE = "slow trickle"
    DISK_FULL = "disk full"
    UNWRITABLE = "files unwritable"
    CLOCK_JUMP = "clock jump"
    SNAPSHOTS = "burst of snapshots"
    REBIRTH = "stream deleted and created again"


# What a network strike does to the requests it hits, for as long as it lasts.
NETWORK = frozenset(
    {
        Strike.ANSWERS_LOST,
        Strike.REQUESTS_RESET,
        Strike.REQUESTS_CUT,
        Strike.ANSWERS_CUT,
        Strike.STORM_429,
        Strike.STORM_503,
        Strike.DELAYS,
        Strike.TRICKLE,
    }
)

# What needs a Spark application to strike at.
SPARK = frozenset({Strike.EXECUTOR_KILLED, Strike.WORKER_KILLED, Strike.DRIVER_KILLED})

# How often each comes in a round. A driver takes long to come back, a server does not.
_ROUND = dict.fromkeys(Strike, 1) | {
    Strike.SERVER_KILLED: 4,
    Strike.EXECUTOR_KILLED: 2,
    Strike.WORKER_KILLED: 2,
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault, the seconds since the beginning when it strikes, and how long it lasts.

    ``chance`` is for whoever carries it out: how far the clock jumps, which process dies.
    """

    at_s: float
    strike: Strike
    lasting_s: float
    chance: float


def schedule(seed: int, seconds: float, *, spark: bool = True) -> list[Planned]:
    """Rounds of all kinds in random order, until the time is over; the first round is squeezed
    into the time there is, so that no kind is left out of a short run."""
    rng = random.Random(f"strikes {seed}")
    kinds = [strike for strike, times in _ROUND.items() for _ in range(times)]
    kinds = [strike for strike in kinds if spark or strike not in SPARK]
    size = len(kinds)
    gap = min(3.0, seconds / (size + 1))
    planned: list[Planned] = []
    at = 0.0
    while True:
        rng.shuffle(kinds)
        for strike in kinds:
            at += rng.uniform(0.4, 1.6) * gap
            if at > seconds and len(planned) >= size:
                return planned
            moment = min(at, seconds)
            planned.append(Planned(moment, strike, rng.uniform(0.5, 2.5) * gap, rng.random()))
