"""What a relay says while it works: a line of figures for each run, a bar on a terminal."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Any

from spark_durable.publish.relay.engine import RunReport


class Reporter:
    """Prints each run's figures as one line of JSON on standard output.

    On a terminal a progress bar on standard error shows delivered against known events.
    """

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None
        self._finished = 0

    def __enter__(self) -> Reporter:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("outbox", total=None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, report: RunReport) -> None:
        self._finished += report.delivered + report.dead
        if self._progress is not None:
            state = "paused" if report.paused else f"{report.events_per_second:,.0f} events/s"
            self._progress.update(
                self._task,
                description=state,
                completed=self._finished,
                total=self._finished + report.open,
            )
        if not report.idle or report.paused:
            print(json.dumps(report.document()), flush=True)
