"""How a benchmark run is shown: a table on the terminal, a JSON file, a plot."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from os import cpu_count
from pathlib import Path

from spark_durable.bench.harness import Report


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should reach; ``at_most`` where lower is better."""

    bound: float
    at_most: bool = False

    def met_by(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"


TARGETS: Mapping[str, Target] = {
    "sink_vs_kafka": Target(1.8),
    "sink_raw_vs_kafka": Target(1.8),
    "sink_trust_vs_kafka": Target(2.2),
    "sink_repeatable_vs_kafka": Target(1.4),
    "sink_vs_floor": Target(0.45),
    "sink_vs_loop": Target(50),
    "source_typed_vs_kafka_from_json": Target(5.0),
    "source_raw_vs_kafka": Target(2.5),
    "source_typed_vs_ceiling": Target(0.35),
    "source_raw_vs_ceiling": Target(0.5),
    "latency_p50_vs_kafka": Target(0.6, at_most=True),
    "latency_p99_vs_kafka": Target(1.0, at_most=True),
    "server_append_vs_node": Target(4),
    "server_read_vs_node": Target(8),
    "server_small_vs_node": Target(8),
    "streams10k_plan_vs_head_loop": Target(0.1, at_most=True),
    "streams10k_heads_vs_head_loop": Target(2, at_most=True),
    "growth_16x": Target(0.9),
    "relay_time_large_vs_small": Target(3, at_most=True),
    "worker_rss_mb": Target(400, at_most=True),
    "server_rss_mb": Target(400, at_most=True),
}


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    found = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cores": str(cpu_count()),
        "python": platform.python_version(),
    }
    for package in ("spark-durable", "pyspark", "pyarrow", "uvicorn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def table(report: Report) -> str:
    """The figures as text, a line each, with what they should reach."""
    lines = [f"{'figure':<34} {'value':>9} {'±':>6}  {'target':<8} detail"]
    for figure in report.figures:
        target = TARGETS.get(figure.name)
        mark = "" if target is None else ("ok  " if target.met_by(figure.value) else "MISS")
        goal = "" if target is None else str(target)
        lines.append(
            f"{figure.name:<34} {figure.value:>9.2f} {figure.spread:>6.0%}  {goal:<8} "
            f"{mark} {figure.detail}".rstrip()
        )
    return "\n".join(lines)


def write_json(report: Report, path: Path) -> None:
    """Figures by name at the top level, then how they were measured."""
    content: dict[str, object] = {figure.name: figure.value for figure in report.figures}
    content["spread"] = {figure.name: figure.spread for figure in report.figures}
    content["rates"] = {name: list(samples.values) for name, samples in report.rates.items()}
    content["machine"] = machine()
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_plot(report: Report, path: Path) -> None:
    """Each ratio as a bar against its target; the target is the line at 1."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [f for f in report.figures if f.name in TARGETS and f.value > 0]
    shares = [
        TARGETS[f.name].bound / f.value
        if TARGETS[f.name].at_most
        else f.value / TARGETS[f.name].bound
        for f in shown
    ]
    figure, axes = plt.subplots(figsize=(9, 0.42 * len(shown) + 1.4))
    colours = ["#2a7f62" if share >= 1 else "#c0533e" for share in shares]
    axes.barh([f.name for f in shown], shares, color=colours)
    for row, (found, share) in enumerate(zip(shown, shares, strict=True)):
        label = f" {found.value:.2f} (target {TARGETS[found.name]})"
        axes.text(share, row, label, va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(x=0.35)
    axes.invert_yaxis()
    axes.set_xlabel("share of the target reached (log scale; right of the line is good)")
    facts = machine()
    axes.set_title(
        f"spark-durable bench, {facts['date']}, {facts['cores']} cores, "
        f"pyspark {facts.get('pyspark', '?')}",
        fontsize=10,
    )
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
