"""What the jobs share: arguments, a session, a clean stop, exit codes and one-line errors.

Exit codes: 0 done or stopped on request, 1 the job failed, 2 the arguments are wrong. The reason is
the last line it prints: to stderr, which spark-submit turns into stdout. Arguments, options and the
server are checked before Spark starts.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from spark_durable.options import CommonOptions
from spark_durable.options.values import parse_duration
from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import (
    DurableError,
    NotFoundError,
    OptionError,
    TransportError,
    UnauthorizedError,
)
from spark_durable.protocol.settings import TOKEN_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

EXIT_CODES = "Exit codes: 0 done or stopped on request, 1 failed, 2 wrong arguments."

# How long a stop waits for the micro-batch in hand; process managers tend to kill after 30 s.
PATIENCE_S = 20.0

# A Python worker's traceback ends with the error itself: "package.module.NameError: text".
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w+): (.+)$", re.MULTILINE)
_PY4J_PREAMBLE = re.compile(r"^An error occurred while calling .*\n: ")


class Stop:
    """Turns SIGTERM and SIGINT into a request to end after the work in hand."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._action: Callable[[], None] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request)

    def _request(self, number: int, frame: FrameType | None) -> None:
        # In a thread: the handler may have interrupted a wait that holds the event's own lock.
        threading.Thread(target=self._carry_out, daemon=True).start()

    def _carry_out(self) -> None:
        self._requested.set()
        if self._action is not None:
            self._action()

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def on_request(self, action: Callable[[], None]) -> None:
        """Calls ``action`` when a stop is requested, or at once if it was already."""
        self._action = action
        if self.requested:
            action()

    def wait(self, seconds: float) -> bool:
        """Sleeps; returns early, and True, when a stop is requested."""
        return self._requested.wait(seconds)

    def await_query(self, query: StreamingQuery) -> None:
        """Returns when the query ends, or ends it on request after the micro-batch in hand.

        A batch that is cut off all the same is replayed by the next run: nothing is lost, nothing
        is doubled.
        """
        while not query.awaitTermination(1):
            if self.requested:
                _await_batch(query)
                query.stop()
                return


def _await_batch(query: StreamingQuery, patience_s: float = PATIENCE_S) -> None:
    """Waits until the query is idle or its current batch is done."""
    before = _finished(query)
    deadline = time.monotonic() + patience_s
    while query.isActive and time.monotonic() < deadline:
        status = query.status
        busy = status["isTriggerActive"] and status["isDataAvailable"]
        if not busy or _finished(query) != before:
            return
        time.sleep(0.1)


def _finished(query: StreamingQuery) -> tuple[Any, ...] | None:
    progress = query.lastProgress
    return None if progress is None else (progress["batchId"], progress["timestamp"])


# -- arguments -----------------------------------------------------------------------------------


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with what every job takes."""
    found = argparse.ArgumentParser(description=description, epilog=EXIT_CODES)
    found.add_argument(
        "--option",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="a further option of the data source; may be repeated",
    )
    found.add_argument("--token", help=f"bearer token; better in the environment: {TOKEN_VARIABLE}")
    return found


def add_source(found: argparse.ArgumentParser, flag: str, dest: str, starting: str) -> None:
    """The arguments of a job that reads streams."""
    found.add_argument(flag, dest=dest, required=True, help="a stream, or the base of several")
    several = found.add_mutually_exclusive_group()
    several.add_argument("--streams", metavar="JSON", help="list of names under the base")
    several.add_argument(
        "--stream-pattern", metavar="REGEX", help="the streams of a bucket whose names match"
    )
    found.add_argument(
        "--starting-offsets",
        default=starting,
        metavar="WHERE",
        help=f"snapshot, earliest, latest or a JSON object stream: offset (default: {starting})",
    )


def add_follow(found: argparse.ArgumentParser, interval: str) -> None:
    """Whether a job goes on when it has caught up."""
    found.add_argument(
        "--follow", action="store_true", help="go on until stopped; without it, end when caught up"
    )
    found.add_argument(
        "--interval",
        type=duration,
        default=duration(interval),
        metavar="TIME",
        help=f"with --follow: time between two micro-batches (default: {interval})",
    )


def pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text}: expected NAME=VALUE")
    return name, value


def duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def options(arguments: argparse.Namespace) -> dict[str, str]:
    """The ``--option`` arguments and the token, as the data source takes them."""
    found = dict(arguments.option)
    token = arguments.token or os.environ.get(TOKEN_VARIABLE)
    return {**found, "token": token} if token else found


def source_options(arguments: argparse.Namespace) -> dict[str, str]:
    """``options``, and those of ``add_source``."""
    found = {"startingOffsets": arguments.starting_offsets, **options(arguments)}
    if arguments.streams:
        found["streams"] = arguments.streams
    if arguments.stream_pattern:
        found["streamPattern"] = arguments.stream_pattern
    return found


def triggered(writer: DataStreamWriter, arguments: argparse.Namespace) -> DataStreamWriter:
    """The writer with the trigger that ``add_follow`` asked for."""
    if arguments.follow:
        return writer.trigger(processingTime=f"{round(arguments.interval * 1000)} milliseconds")
    return writer.trigger(availableNow=True)


def reach(found: CommonOptions, *, exists: bool = False) -> None:
    """Fails at once if the server cannot be reached or refuses the credentials.

    Once a query runs, its requests are retried for ``retryTimeout``; here a wrong address shows
    before Spark starts. With ``exists``, a stream that is not there is an error as well.
    """
    with DurableClient(found.client_settings()) as client:
        try:
            client.head(found.url)
        except (TransportError, UnauthorizedError):
            raise
        except NotFoundError:
            if exists:
                raise
        except DurableError:
            pass  # it answered: the base of several streams need not be a stream


# -- the session ---------------------------------------------------------------------------------


def session(app_name: str, *, delta: bool = False) -> SparkSession:
    """The session spark-submit configured, or a local one when run with plain Python.

    A SIGTERM or SIGINT that reaches the JVM is passed on to this process: under spark-submit it is
    the JVM that a process manager signals, and by itself it would end in the middle of the work.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = _submitted(delta)
    else:
        from spark_durable.local import local_spark

        spark = local_spark(app_name, delta=delta)
    _forward_signals(spark)
    from spark_durable.datasource import register

    register(spark)
    return spark


def _submitted(delta: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from spark_durable.local import DELTA

    builder = SparkSession.builder
    if not delta:
        return builder.getOrCreate()
    SparkContext._ensure_initialized()  # the settings of spark-submit are on the JVM's side
    given = SparkConf()
    for key, value in DELTA.items():
        if not given.contains(key):
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    utils: Any = spark.sparkContext._jvm
    if not utils.org.apache.spark.util.Utils.classIsLoadable(DELTA["spark.sql.extensions"]):
        raise DurableError(
            "Delta Lake is not on Spark's class path. Add it to spark-submit: --packages "
            "io.delta:delta-spark_4.2_2.13:4.4.0, or the release for your Spark."
        )
    return spark


class _Forwarded:
    """A signal handler of the JVM's that raises the same signal in this process."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def handle(self, received: object) -> None:
        os.kill(os.getpid(), self._number)

    class Java:
        implements = ("sun.misc.SignalHandler",)


def _forward_signals(spark: SparkSession) -> None:
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    handled: Any = gateway.jvm.sun.misc.Signal
    for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT")):
        handled.handle(handled(name), _Forwarded(number))


class StateFile:
    """A small text in a job's checkpoint directory, on any file system that Spark can use.

    When ``write`` returns the new text is stored; a process killed before that leaves the old one.
    """

    def __init__(self, spark: SparkSession, directory: str, name: str) -> None:
        context: Any = spark.sparkContext
        hadoop = context._jvm.org.apache.hadoop.fs
        conf = context._jsc.hadoopConfiguration()
        self._path = hadoop.Path(directory, name)
        self._fresh = hadoop.Path(directory, f"{name}.new")
        where = self._path.getFileSystem(conf).getUri()
        self._files = hadoop.FileSystem.newInstance(where, conf)
        # A local checksum is a second file, which a kill could leave behind the first.
        self._files.setWriteChecksum(False)
        self._renaming = hadoop.FileContext.getFileContext(where, conf)
        choice = getattr(hadoop, "Options$Rename")
        self._overwrite = context._gateway.new_array(choice, 1)
        self._overwrite[0] = choice.OVERWRITE

    def read(self) -> str | None:
        """None if nothing was written yet."""
        if not self._files.exists(self._path):
            return None
        stored = self._files.open(self._path)
        try:
            return bytes(stored.readAllBytes()).decode()
        finally:
            stored.close()

    def write(self, text: str) -> None:
        out = self._files.create(self._fresh, True)
        try:
            out.write(bytearray(text.encode()))
            out.hsync()
        finally:
            out.close()
        self._renaming.rename(self._fresh, self._path, self._overwrite)


# -- running -------------------------------------------------------------------------------------


def run(
    job: Callable[[argparse.Namespace, Stop], None],
    arguments_of: argparse.ArgumentParser,
    argv: Sequence[str] | None = None,
) -> int:
    """Runs a job's body; an error becomes its last line on stderr and an exit code."""
    arguments = arguments_of.parse_args(argv)
    try:
        job(arguments, Stop())
    except OptionError as error:
        print(f"{arguments_of.prog}: {error} (--help lists the arguments)", file=sys.stderr)
        return 2
    except Exception as error:
        print(f"{arguments_of.prog}: {reason(error)}", file=sys.stderr)
        return 1
    return 0


def reason(error: Exception) -> str:
    """The line that says what happened, from under Spark's layers of stack traces."""
    text = _PY4J_PREAMBLE.sub("", str(error))
    if isinstance(error, DurableError):
        return text
    ours = {cls.__name__ for cls in _tree(DurableError)}
    # The last one is what the others led to.
    raised = [f"{name}: {said}" for name, said in _RAISED.findall(text) if name in ours]
    if raised:
        return raised[-1]
    first = next((line for line in text.splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first.strip()}" if first else type(error).__name__


def _tree(root: type[DurableError]) -> list[type[DurableError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]
