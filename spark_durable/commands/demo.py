"""``spark-durable demo``: rows there and back, a worker killed on the way, counts at the end."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from spark_durable.demo.play import Step

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_WIDE = 120  # columns that the whole table takes


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "demo",
        help="write, stream, compact, bootstrap and tail, with a worker killed on the way",
        description="A server on disk and a local Spark session: rows there and back, once each.",
    )
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the first write")
    parser.add_argument(
        "--stay",
        action=argparse.BooleanOptionalAction,
        default=sys.stdin.isatty() and sys.stdout.isatty(),
        help="keep the server up afterwards, to look around (default: on a terminal)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        from rich.console import Console
    except ImportError:
        print("spark-durable: pip install 'spark-durable[all]' for the demo", file=sys.stderr)
        return 1
    from spark_durable.demo.play import Demo
    from spark_durable.local import local_spark
    from spark_durable.server.embedded import EmbeddedServer

    # Where nobody has a window, such as in a log, lines may be as long as the table.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    with (
        tempfile.TemporaryDirectory(prefix="spark-durable-demo-") as directory,
        EmbeddedServer(data_dir=Path(directory) / "server") as server,
    ):
        console.print(f"\n[bold]spark_durable[/bold]  server on disk at [cyan]{server.url}[/cyan]")
        with console.status("starting Spark ..."):
            # Four attempts per task: a killed worker is retried, as on a cluster.
            spark = local_spark("spark-durable demo", master="local[2,4]", delta=True)
        demo = Demo(
            spark,
            server.url,
            Path(directory),
            arguments.rows,
            tell=lambda step: console.print(f"  [dim]·[/dim] {step.title} [dim]{step.how}[/dim]"),
        )
        try:
            steps = demo.play()
        finally:
            spark.stop()
        console.print()
        console.print(outcome(steps, explained=console.width >= _WIDE))
        held = all(step.holds for step in steps)
        console.print(
            "\n[bold green]Nothing lost, nothing twice.[/bold green]"
            if held
            else "\n[bold red]Counts do not match: please report this.[/bold red]"
        )
        _show_explorer(console, server.url, stay=arguments.stay)
    return 0 if held else 1


def outcome(steps: list[Step], *, explained: bool) -> Table:
    """What happened and how fast, a line for each step; how it was done where there is room."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title="What happened", title_justify="left")
    table.add_column("step")
    if explained:
        table.add_column("how", style="dim")
    for heading in ("rows", "seconds", "rows/s", "expected", "found"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for step in steps:
        table.add_row(
            *([step.title, step.how] if explained else [step.title]),
            f"{step.rows:,}",
            f"{step.seconds:.1f}",
            f"{step.rows / step.seconds:,.0f}",
            f"{step.expected:,}",
            f"{step.found:,}",
            "[green]✓[/green]" if step.holds else "[red]✗[/red]",
        )
    return table


def _show_explorer(console: Console, url: str, *, stay: bool) -> None:
    if not stay:
        console.print(
            f"The explorer was at {url}/ while this ran. "
            "[dim]spark-durable demo --stay keeps it up; spark-durable serve has one too.[/dim]\n"
        )
        return
    console.print(f"The explorer: [bold cyan]{url}/[/bold cyan]  [dim](Enter ends the demo)[/dim]")
    input()
