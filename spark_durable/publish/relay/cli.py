"""The arguments of the outbox relay, and from them its parts.

Exit codes: 0 done or stopped on request · 1 failed, the reason is the last line on stderr · 2 the
arguments are wrong · 3 a bounded run ended while the target was paused · 4 the target contradicts
the plan: a human must look.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from spark_durable import job
from spark_durable.options.values import parse_duration, parse_size
from spark_durable.protocol.errors import OptionError, RelayStopped
from spark_durable.protocol.settings import TOKEN_VARIABLE, ClientSettings
from spark_durable.publish.contract import Publisher
from spark_durable.publish.durable_streams import DurableStreamsPublisher
from spark_durable.publish.file import STDOUT, FilePublisher
from spark_durable.publish.relay.engine import Relay, RunReport
from spark_durable.publish.relay.policy import RelayPolicy
from spark_durable.publish.relay.reporting import Reporter
from spark_durable.publish.relay.store import OutboxStore
from spark_durable.publish.relay.vocabulary import VOCABULARIES, Vocabulary, vocabulary
from spark_durable.publish.topics import TopicsPublisher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_durable.publish.relay.delta.maintenance import DeltaMaintenance
    from spark_durable.publish.relay.postgres.maintenance import PostgresMaintenance

DSN_VARIABLE = "OUTBOX_DSN"

DONE, FAILED, USAGE, PAUSED, STOPPED = 0, 1, 2, 3, 4


def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(
        description="Relay outbox events to a target: each once, in order per key.",
        epilog="Exit codes: 0 done or stopped on request, 1 failed, 2 wrong arguments, "
        "3 ended while the target was paused, 4 the target contradicts the plan.",
    )
    commands = main.add_subparsers(dest="command", required=True)
    _run_arguments(commands.add_parser("run", help="deliver what is open"))
    _source_arguments(commands.add_parser("init", help="create the tables and columns needed"))
    _source_arguments(commands.add_parser("status", help="count events by status"))
    replay = commands.add_parser("replay", help="send dead letters again")
    _source_arguments(replay)
    chosen = replay.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--event-id", action="append", help="may be repeated")
    chosen.add_argument("--all-dead", action="store_true")
    prune = commands.add_parser("prune", help="delete what is final")
    _source_arguments(prune)
    prune.add_argument("--older-than", type=_duration, help="finished before that, e.g. 168h")
    prune.add_argument("--event-id", action="append", help="erase these; may be repeated")
    prune.add_argument("--dead", action="store_true", help="dead letters as well")
    prune.add_argument("--vacuum-hours", type=float, help="then VACUUM (Delta: this retention)")
    return main


def _source_arguments(found: argparse.ArgumentParser) -> None:
    found.add_argument(
        "--delta",
        metavar="PATH",
        help="directory of outbox_events, outbox_attempts and outbox_open",
    )
    found.add_argument("--events", help="the events table, by path or name")
    found.add_argument("--attempts", help="the attempts table, by path or name")
    found.add_argument("--working", help="the relay's working set, by path or name")
    found.add_argument("--postgres", metavar="TABLE", help="the outbox table in PostgreSQL")
    found.add_argument(
        "--dsn",
        default=os.environ.get(DSN_VARIABLE),
        help=f"PostgreSQL connection string; better in the environment as {DSN_VARIABLE}",
    )
    found.add_argument("--vocabulary", choices=sorted(VOCABULARIES), default="locked")
    found.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="ROLE=NAME",
        help="a column's name in the table, e.g. sequence=position; may be repeated",
    )
    found.add_argument("--shards", type=int, default=64, help="PostgreSQL: shards of keys")


def _run_arguments(found: argparse.ArgumentParser) -> None:
    _source_arguments(found)
    found.add_argument("--relay-id", default="outbox", help="stays the same across restarts")
    found.add_argument(
        "--target",
        required=True,
        help="a stream's URL, a topic's URL (…/v0/topics/…), a file, or - for standard output; "
        "{destination}, {partition_key}, {ordering_key} and {event_type} may stand in a URL",
    )
    found.add_argument("--protocol", choices=["durable", "topics", "file"], help="if not obvious")
    found.add_argument("--content-type", default="application/json")
    found.add_argument("--envelope", action="store_true", help="send metadata around the payload")
    found.add_argument("--no-create", action="store_true", help="a missing stream is an error")
    found.add_argument("--token", default=os.environ.get(TOKEN_VARIABLE))
    found.add_argument("--connect-timeout", type=_duration, default=10.0)
    found.add_argument("--read-timeout", type=_duration, default=30.0)
    mode = found.add_mutually_exclusive_group()
    mode.add_argument("--once", action="store_true", help="one bounded run")
    mode.add_argument("--continuous", action="store_true", help="until stopped")
    found.add_argument("--interval", type=_duration, default=2.0, help="pause between idle runs")
    found.add_argument("--max-duration", type=_duration, help="bound when run until idle")
    defaults = RelayPolicy()
    found.add_argument("--lanes", type=int, default=defaults.lanes, help="0: one a key")
    found.add_argument("--max-events", type=int, default=defaults.max_events, help="of one run")
    found.add_argument("--max-bytes", type=_size, default=defaults.max_bytes, help="of one run")
    found.add_argument("--batch-events", type=int, default=defaults.batch_events)
    found.add_argument("--max-attempts", type=int, default=defaults.max_attempts)
    found.add_argument("--backoff", type=_duration, default=defaults.backoff_s)
    found.add_argument("--max-backoff", type=_duration, default=defaults.max_backoff_s)
    found.add_argument(
        "--pause",
        type=_duration,
        default=defaults.pause_s,
        help="after a target took nothing and did not say until when",
    )
    found.add_argument("--run-deadline", type=_duration, default=defaults.run_deadline_s)
    found.add_argument("--lease", type=_duration, default=180.0, help="PostgreSQL: of a claim")
    found.add_argument("--claim-shards", type=int, default=64, help="PostgreSQL: of one run")
    found.add_argument("--rescan", action="store_true", help="Delta: compare whole tables once")
    found.add_argument("--replan", action="store_true", help="give up the open plan (may double)")


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@dataclass(frozen=True, slots=True)
class _Tables:
    events: str
    attempts: str
    working: str


def _tables(arguments: argparse.Namespace) -> _Tables:
    base = arguments.delta.rstrip("/") if arguments.delta else None

    def one(name: str, default: str) -> str:
        given = getattr(arguments, name)
        if given:
            return str(given)
        if base is None:
            raise OptionError(f"name the tables: --delta, or --{name}")
        return f"{base}/{default}"

    return _Tables(
        one("events", "outbox_events"),
        one("attempts", "outbox_attempts"),
        one("working", "outbox_open"),
    )


def _words(arguments: argparse.Namespace) -> Vocabulary:
    overrides = {}
    for pair in arguments.column:
        role, separator, name = pair.partition("=")
        if not separator:
            raise OptionError(f"--column {pair}: expected ROLE=NAME")
        overrides[role] = name
    return vocabulary(arguments.vocabulary, overrides)


def _dsn(arguments: argparse.Namespace) -> str:
    if not arguments.dsn:
        raise OptionError(f"give the PostgreSQL connection string: --dsn or {DSN_VARIABLE}")
    return str(arguments.dsn)


def make_publisher(arguments: argparse.Namespace) -> Publisher:
    target: str = arguments.target
    protocol = arguments.protocol
    if protocol is None:
        web = target.startswith(("http://", "https://"))
        protocol = ("topics" if "/v0/topics/" in target else "durable") if web else "file"
    settings = ClientSettings(
        token=arguments.token,
        connect_timeout=arguments.connect_timeout,
        read_timeout=arguments.read_timeout,
    )
    if protocol == "file":
        return FilePublisher(target if target == STDOUT else os.path.abspath(target))
    if protocol == "topics":
        return TopicsPublisher(
            target,
            settings=settings,
            create=None if arguments.no_create else {},
            node=arguments.relay_id,
        )
    return DurableStreamsPublisher(
        target,
        settings=settings,
        content_type=arguments.content_type,
        envelope=arguments.envelope,
        create_if_missing=not arguments.no_create,
    )


def make_policy(arguments: argparse.Namespace) -> RelayPolicy:
    if arguments.postgres and arguments.run_deadline + arguments.read_timeout >= arguments.lease:
        raise OptionError("--lease must be longer than --run-deadline and --read-timeout together")
    return RelayPolicy(
        lanes=arguments.lanes,
        max_events=arguments.max_events,
        max_bytes=arguments.max_bytes,
        batch_events=arguments.batch_events,
        max_attempts=arguments.max_attempts,
        backoff_s=arguments.backoff,
        max_backoff_s=max(arguments.max_backoff, arguments.backoff),
        pause_s=arguments.pause,
        run_deadline_s=arguments.run_deadline,
    )


def make_store(
    arguments: argparse.Namespace, spark: SparkSession, publisher: Publisher
) -> OutboxStore:
    if arguments.postgres:
        from spark_durable.publish.relay.postgres.store import PostgresOutbox

        return PostgresOutbox(
            spark,
            publisher,
            relay_id=arguments.relay_id,
            dsn=_dsn(arguments),
            table=arguments.postgres,
            vocabulary=_words(arguments),
            shards=arguments.shards,
            claim_shards=arguments.claim_shards,
            max_events=arguments.max_events,
            lease_s=arguments.lease,
            replan=arguments.replan,
        )
    from spark_durable.publish.relay.delta.store import DeltaOutbox

    tables = _tables(arguments)
    return DeltaOutbox(
        spark,
        publisher,
        relay_id=arguments.relay_id,
        events=tables.events,
        attempts=tables.attempts,
        working=tables.working,
        vocabulary=_words(arguments),
        rescan=arguments.rescan,
        replan=arguments.replan,
    )


def _maintenance(arguments: argparse.Namespace) -> DeltaMaintenance | PostgresMaintenance:
    if arguments.postgres:
        from spark_durable.publish.relay.postgres.maintenance import PostgresMaintenance

        return PostgresMaintenance(
            dsn=_dsn(arguments),
            table=arguments.postgres,
            vocabulary=_words(arguments),
            shards=arguments.shards,
        )
    from spark_durable.publish.relay.delta.maintenance import DeltaMaintenance

    tables = _tables(arguments)
    return DeltaMaintenance(
        job.session("outbox_relay", delta=True),
        events=tables.events,
        attempts=tables.attempts,
        working=tables.working,
        vocabulary=_words(arguments),
    )


def main(argv: Sequence[str] | None = None) -> int:
    found = parser()
    arguments = found.parse_args(argv)
    try:
        return _dispatch(arguments, job.Stop())
    except OptionError as error:
        print(f"{found.prog}: {error}", file=sys.stderr)
        return USAGE
    except RelayStopped as error:
        print(f"{found.prog}: {error}", file=sys.stderr)
        return STOPPED
    except Exception as error:
        print(f"{found.prog}: {job.reason(error)}", file=sys.stderr)
        return FAILED


def _dispatch(arguments: argparse.Namespace, stop: job.Stop) -> int:
    if arguments.command == "run":
        return run(arguments, stop)
    maintenance = _maintenance(arguments)
    if arguments.command == "init":
        added = maintenance.init()
        print(f"added {', '.join(added)}" if added else "everything was there")
    elif arguments.command == "status":
        for status, count in sorted(maintenance.counts().items()):
            print(f"{status}\t{count}")
    elif arguments.command == "replay":
        count = maintenance.replay(None if arguments.all_dead else arguments.event_id)
        print(f"{count} events will be sent again")
    else:
        before = None
        if arguments.older_than is not None:
            before = datetime.now(timezone.utc) - timedelta(seconds=arguments.older_than)
        count = maintenance.prune(
            before=before,
            dead=arguments.dead,
            event_ids=arguments.event_id,
            vacuum_hours=arguments.vacuum_hours,
        )
        print(f"{count} events deleted")
    return DONE


def run(arguments: argparse.Namespace, stop: job.Stop) -> int:
    publisher, policy = make_publisher(arguments), make_policy(arguments)
    if not arguments.postgres:
        _tables(arguments)
    spark = job.session("outbox_relay", delta=not arguments.postgres)
    store = make_store(arguments, spark, publisher)
    with Reporter() as reporter:
        relay = Relay(store, publisher, policy, relay_id=arguments.relay_id, on_run=reporter)
        if arguments.continuous:
            relay.run_continuously(stop, arguments.interval)
            return DONE
        if arguments.once:
            reports = [relay.run_once()]
        else:
            reports = relay.run_until_idle(stop, arguments.max_duration)
    return _exit_code(reports)


def _exit_code(reports: Sequence[RunReport]) -> int:
    return PAUSED if reports and reports[-1].paused else DONE
