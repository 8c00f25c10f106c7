"""Measuring side by side: cases take turns, so that noise strikes all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Samples:
    """What one case measured, one value a round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half the range of the values, as a share of the median."""
        if self.median == 0:
            return 0.0
        return (max(self.values) - min(self.values)) / 2 / self.median


@dataclass(frozen=True, slots=True)
class Figure:
    """One named result: a ratio measured in one run, or a size."""

    name: str
    value: float
    spread: float = 0.0
    unit: str = "x"
    detail: str = ""


@dataclass(slots=True)
class Report:
    """The figures of a run and the rates they were made from."""

    figures: list[Figure] = field(default_factory=list)
    rates: dict[str, Samples] = field(default_factory=dict)

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)

    def value(self, name: str) -> float:
        return next(figure.value for figure in self.figures if figure.name == name)


def take_turns(
    cases: Mapping[str, Callable[[], float]], rounds: int, *, warm_up: bool = True
) -> dict[str, Samples]:
    """Runs every case once a round, in turn, and collects what each returns (a rate or a time).

    The first, discarded round pays for class loading, connections and caches of all parties.
    """
    if warm_up:
        for case in cases.values():
            case()
    values: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds):
        order = list(cases) if turn % 2 == 0 else list(cases)[::-1]
        for name in order:
            values[name].append(cases[name]())
    return {name: Samples(tuple(found)) for name, found in values.items()}


def ratio(name: str, over: Samples, under: Samples, *, detail: str = "") -> Figure:
    """The median of the rounds' own ratios: each round saw the same machine."""
    ratios = Samples(tuple(a / b for a, b in zip(over.values, under.values, strict=True)))
    return Figure(name, ratios.median, ratios.spread, "x", detail)


def rate(work: Callable[[], None], amount: float) -> float:
    """``amount`` per second of one call."""
    start = time.perf_counter()
    work()
    return amount / (time.perf_counter() - start)


def percentile(values: list[float], share: float) -> float:
    """The value that ``share`` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
