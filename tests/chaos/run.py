"""One run: everything is started, faults strike by their schedule, and the checker has the word."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import DurableError
from tests.chaos import checker
from tests.chaos.checker import Content, Findings, Message, Row, StreamLife
from tests.chaos.cluster import Cluster
from tests.chaos.control import Control
from tests.chaos.disk import Disk
from tests.chaos.keeper import Keeper
from tests.chaos.network import Network
from tests.chaos.observe import PATIENT, first_message
from tests.chaos.planted import VARIABLE
from tests.chaos.schedule import NETWORK, SPARK, Planned, Strike, schedule
from tests.chaos.server import SupervisedServer
from tests.chaos.streams import (
    BASE_PATH,
    EVENTS,
    FOLLOWED,
    OVERRUN,
    REBORN,
    SHUFFLED,
    SUNK,
    TAILED,
    Known,
    Ledger,
)
from tests.chaos.writers import FileWriter, Writer

# Producers of each stream that producers write to.
_WRITERS = dict.fromkeys((*EVENTS, OVERRUN, REBORN), 2)
# Less than half of what makes the server forget idle producers, in either direction.
_FARTHEST_JUMP_S = 3 * 86_400


@dataclass(slots=True)
class Report:
    """What a run was and what it found. It has passed if there are no findings."""

    seed: int
    minutes: float
    faults: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    requests_hit: int = 0
    messages: int = 0
    acknowledged: int = 0
    rows_sunk: int = 0
    rows_in_tables: int = 0
    snapshots: int = 0
    query_failures: int = 0
    disk: str = ""
    losses: int = 0
    doubles: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.findings

    def json(self) -> str:
        return json.dumps({**asdict(self), "passed": self.passed})

    def text(self) -> str:
        strikes = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        lines = [
            f"seed {self.seed}, {self.minutes:.1f} minutes, {sum(self.faults.values())} faults",
            f"  {strikes}",
            f"  {self.requests} requests through the proxy, {self.requests_hit} of them hit; "
            f"{self.query_failures} failed queries started again; disk: {self.disk}",
            f"  {self.messages} messages, {self.acknowledged} of them acknowledged to producers, "
            f"{self.rows_sunk} rows by the sink; {self.rows_in_tables} rows in Delta tables; "
            f"{self.snapshots} snapshots",
            f"  losses {self.losses}, doubles {self.doubles}, findings {len(self.findings)}",
        ]
        lines += [f"  ! {finding}" for finding in self.findings[:20]]
        return "\n".join(lines)


class Run:
    """``seconds`` is how long faults strike; starting and catching up come on top.

    Without ``spark`` it is producers, snapshots and the server alone: many times quicker.
    """

    def __init__(
        self, seed: int, seconds: float, directory: Path, plant: str | None, *, spark: bool
    ) -> None:
        self.seed = seed
        self.seconds = seconds
        self.spark = spark
        self.directory = directory
        environment = {VARIABLE: plant} if plant else {}
        self.ledger = Ledger()
        self.known = {name: Known(name) for name in (*TAILED, *FOLLOWED)}
        self.control = Control(directory / "control")
        self.disk = Disk(directory / "disk", 64 + int(seconds / 2), self.control)
        self.server = SupervisedServer(
            self.disk.data, directory / "control", directory / "server.log", seed, environment
        )
        self.server.start()
        self.network = Network(self.server.url, seed)
        self.network.__enter__()
        self.proxied = self.network.url.rstrip("/")
        job = {"base": self.proxied + BASE_PATH, "directory": str(directory)}
        self.cluster = Cluster(job, self.ledger, environment)
        self.keeper = Keeper(
            self.server.url,
            self.proxied,
            self.known,
            directory / "checkpoints" if spark else None,
            self.ledger,
            seed,
        )
        self.files = FileWriter(directory / "files", seed)
        self.writers = [
            Writer(f"{name}/{number}", f"{job['base']}/{name}", known, self.ledger, seed)
            for name, count in _WRITERS.items()
            for number in range(count)
            for known in [self.known[name]]
        ]
        self.struck: Counter[Strike] = Counter()
        self._rng = random.Random(f"run {seed}")

    def go(self) -> Report:
        started = time.monotonic()
        self._begin()
        for planned in schedule(self.seed, self.seconds, spark=self.spark):
            begun = self._struck_since + planned.at_s
            while time.monotonic() < begun:
                time.sleep(min(0.1, max(0.0, begun - time.monotonic())))
                if self.spark:
                    self.cluster.ensure()
            if self._broken():
                break
            self._strike(planned)
        self._calm()
        findings = self._settle_and_check()
        return self._report(findings, (time.monotonic() - started) / 60)

    # -- the course of it ------------------------------------------------------------------------

    def _begin(self) -> None:
        with DurableClient() as client:
            PATIENT.run(
                lambda: client.create_bucket(self.server.url + BASE_PATH), resend_unknown=False
            )
            for name in self.known:
                url = self.keeper.url(name)
                PATIENT.run(partial(client.create, url), resend_unknown=True)
        for known in self.known.values():
            known.gate.set()
        if self.spark:
            self.files.start()
            self.cluster.start()
            if not self.cluster.wait_until_running(900):
                self.ledger.failed("the application did not start")
        for writer in self.writers:
            writer.start()
        self.keeper.start()
        self._struck_since = time.monotonic()

    def _broken(self) -> bool:
        """Whether there is no point in going on."""
        return bool(self.ledger.failures or self.server.failure)

    def _strike(self, planned: Planned) -> None:
        strike = planned.strike
        if strike in NETWORK:
            self.network.storm(strike, planned.lasting_s)
            self.struck[strike] += 1
            return
        waiting = time.monotonic()
        if self.spark and strike in (*SPARK, Strike.REBIRTH):
            # An application that is still starting would be struck for nothing.
            self.cluster.wait_until_running(400)
        self.struck[strike] += getattr(self, f"_{strike.name.lower()}")(planned)
        # What was waited for does not count: a slow machine gets as many strikes as a fast one.
        self._struck_since += time.monotonic() - waiting

    def _server_killed(self, planned: Planned) -> bool:
        up = self.server.wait_until_up(30)
        self.server.kill()
        return up

    def _executor_killed(self, planned: Planned) -> bool:
        return self.cluster.kill_executor(self._rng)

    def _worker_killed(self, planned: Planned) -> bool:
        return self.cluster.kill_worker(self._rng)

    def _driver_killed(self, planned: Planned) -> bool:
        return self.cluster.kill_driver(executors_too=planned.chance < 0.5)

    def _disk_full(self, planned: Planned) -> bool:
        self.server.disk_full.set()
        self.disk.fill()
        threading.Timer(min(planned.lasting_s, 4.0), self._make_room).start()
        return True

    def _make_room(self) -> None:
        self.disk.free()
        self.server.disk_full.clear()

    def _unwritable(self, planned: Planned) -> bool:
        return self.server.wait_until_up(30) and self.server.forbid_writes()

    def _clock_jump(self, planned: Planned) -> bool:
        self.control.set(clock_offset_s=(2 * planned.chance - 1) * _FARTHEST_JUMP_S)
        return True

    def _snapshots(self, planned: Planned) -> bool:
        self.keeper.burst(10 + int(planned.chance * 30))
        return True

    def _rebirth(self, planned: Planned) -> bool:
        with DurableClient() as client:
            return self.keeper.rebirth(client, planned.chance * 1.5, patience_s=90)

    def _calm(self) -> None:
        self.network.calm()
        self._make_room()
        self.control.set(clock_offset_s=0.0)
        self.server.wait_until_up(30)

    # -- the proof -------------------------------------------------------------------------------

    def _settle_and_check(self) -> Findings:
        findings = Findings()
        self.keeper.stop()
        if self.spark:
            self.files.stop()
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.join(60)
            if writer.is_alive():
                self.ledger.failed(f"writer {writer.name} was not answered for a minute")
        if self.spark and not self._broken() and not self.cluster.finish(1200, self._broken):
            self.ledger.failed("the application did not work off what was there in 20 minutes")
        findings.failures += self.ledger.failures
        if self.server.failure:
            findings.failures.append(self.server.failure)
            self._messages = 0
            self._rows: dict[str, list[Row]] = {}
            return findings
        content = self._content(findings)
        self._messages = sum(map(len, content.values()))
        checker.check_producers(content, self.ledger.acks, findings)
        self._check_handed_out(content, findings)
        if self._tables_written():
            self._check_spark(content, findings)
        return findings

    def _tables_written(self) -> bool:
        """The tables were written out: only then do sink and tables have to be complete."""
        self._rows = {
            name: _rows(path)
            for name in ("tailed", "followed")
            for path in [self.directory / f"{name}.jsonl"]
            if path.exists()
        }
        return not self.ledger.failures and len(self._rows) == 2

    def _content(self, findings: Findings) -> dict[StreamLife, list[Message]]:
        """Everything that ever was in the streams: what was archived, then what is there."""
        content: dict[StreamLife, list[Message]] = {}
        with DurableClient() as client:
            for name, known in self.known.items():
                url = self.keeper.url(name)
                try:
                    info = PATIENT.run(partial(client.head, url), resend_unknown=True)
                    self.keeper.archive(client, known, int(info.tail))
                except (DurableError, AssertionError) as error:
                    findings.failures.append(f"{name} cannot be read any more: {error}")
                content.update({known.where: [], **known.archive})
        return content

    def _check_handed_out(self, content: Content, findings: Findings) -> None:
        """A sample of the offsets that were acknowledged, read from now."""
        with DurableClient() as client:
            for name, known in self.known.items():
                url = self.keeper.url(name)
                acks = [ack for ack in self.ledger.acks if ack.where == known.where]
                handed = sorted({ack.offset for ack in acks if ack.offset is not None})
                sample = self._rng.sample(handed, min(25, len(handed)))
                try:
                    answers = {at: first_message(client, url, at) for at in sample}
                    info = PATIENT.run(partial(client.head, url), resend_unknown=True)
                except DurableError as error:
                    findings.offsets.append(f"{name}, where an offset was handed out: {error}")
                    continue
                retained = int(info.retained_offset or 0)
                messages = content[known.where]
                checker.check_handed_out(known.where, messages, answers, retained, findings)

    def _check_spark(self, content: Content, findings: Findings) -> None:
        files = [list(file) for file in self.files.files]
        for name in (SUNK, SHUFFLED):
            messages = content[StreamLife(name, 0)]
            checker.check_sink(name, messages, files, findings, ordered=name == SUNK)
        lives: dict[str, Content] = {
            group: {where: content[where] for where in content if where.stream in names}
            for group, names in (("tailed", TAILED), ("reborn", (REBORN,)))
        }
        checker.check_tailed(lives["tailed"], self._rows["tailed"], findings)
        followed = self._rows["followed"]
        reborn = [row for row in followed if row.stream == REBORN]
        checker.check_tailed(lives["reborn"], reborn, findings)
        where, snapshots = StreamLife(OVERRUN, 0), self.known[OVERRUN].snapshots
        checker.check_followed(where, content[where], snapshots, followed, findings)

    def _report(self, findings: Findings, minutes: float) -> Report:
        return Report(
            seed=self.seed,
            minutes=minutes,
            faults={strike.value: count for strike, count in self.struck.items()},
            requests=self.network.requests,
            requests_hit=self.network.hit.total(),
            messages=self._messages,
            acknowledged=sum(ack.size for ack in self.ledger.acks),
            rows_sunk=2 * sum(map(len, self.files.files)),
            rows_in_tables=sum(map(len, self._rows.values())),
            snapshots=self.keeper.published,
            query_failures=self.cluster.query_failures,
            disk=self.disk.how,
            losses=len(findings.lost),
            doubles=len(findings.doubled),
            findings=findings.all(),
        )

    def close(self) -> None:
        self.cluster.stop()
        self.server.stop()
        self.network.__exit__()
        self.disk.close()


def _rows(path: Path) -> list[Row]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Row(stream, int(offset), kind, value) for stream, offset, kind, value in rows]


def run(
    seed: int,
    seconds: float,
    *,
    spark: bool = True,
    plant: str | None = None,
    keep: Path | None = None,
) -> Report:
    """One run from its start to its report. ``keep`` is where its files stay if it fails."""
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
    chaos = Run(seed, seconds, directory, plant, spark=spark)
    passed = False
    try:
        report = chaos.go()
        passed = report.passed
        return report
    finally:
        chaos.close()
        if keep is not None and not passed:
            shutil.copytree(directory, keep / directory.name, ignore=shutil.ignore_patterns("disk"))
        shutil.rmtree(directory, ignore_errors=True)
