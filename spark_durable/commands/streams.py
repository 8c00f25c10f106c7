"""``spark-durable streams``: look at streams and poke them, over plain HTTP."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import IO, Any, TypeAlias

from spark_durable.protocol import (
    ClientSettings,
    DataEvent,
    DurableClient,
    Framing,
    ListedStream,
    RetryPolicy,
    split_array,
)
from spark_durable.protocol.headers import CONTENT_TYPE_JSON, OFFSET_BEGINNING, OFFSET_NOW
from spark_durable.protocol.settings import TOKEN_VARIABLE

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

# Messages travel in appends of about this size when they come from a pipe.
_APPEND_BYTES = 1 << 20


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("streams", help="look at streams and poke them")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    ls = _verb(verbs, "ls", list_streams, "list a bucket", "URL of a bucket: http://host/ds/shop")
    ls.add_argument("--prefix", help="only names that start with this")
    ls.add_argument("--json", action="store_true", help="one JSON object a line")

    head = _verb(verbs, "head", show_head, "what the server knows of a stream")
    head.add_argument("--json", action="store_true", help="as one JSON object")

    cat = _verb(
        verbs,
        "cat",
        print_messages,
        "print what is in a stream: JSON a message a line, other content as it is",
    )
    cat.add_argument("--offset", default=OFFSET_BEGINNING, help="start here (default: beginning)")

    tail = _verb(verbs, "tail", follow, "print what arrives, until interrupted")
    tail.add_argument("--offset", default=OFFSET_NOW, help="start here (default: now)")
    tail.add_argument("--limit", type=int, help="stop after this many messages")

    append = _verb(verbs, "append", append_lines, "append lines: a JSON value each, or text")
    append.add_argument("file", nargs="?", default="-", help="a file, or - for standard input")
    append.add_argument("--content-type", default="application/json")
    append.add_argument("--create", action="store_true", help="create the stream if it is missing")
    append.add_argument("--close", action="store_true", help="close the stream afterwards")

    snapshot = _verb(verbs, "snapshot", snapshot_of, "print the newest snapshot, or publish one")
    snapshot.add_argument("--publish", metavar="FILE", help="a file, or - for standard input")
    snapshot.add_argument("--offset", help="the offset the snapshot stands for")
    snapshot.add_argument("--content-type", default="application/json")


def _verb(
    verbs: Subparsers,
    name: str,
    run: Any,
    summary: str,
    url: str = "URL of a stream: http://host/ds/shop/orders",
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=summary, description=summary)
    parser.add_argument("url", help=url)
    parser.add_argument(
        "--token",
        default=os.environ.get(TOKEN_VARIABLE),
        help=f"bearer token (default: the environment's {TOKEN_VARIABLE})",
    )
    parser.add_argument("--ca-file", help="certificate authority for TLS")
    parser.set_defaults(run=run)
    return parser


def _client(arguments: argparse.Namespace) -> DurableClient:
    return DurableClient(ClientSettings(token=arguments.token, ca_file=arguments.ca_file))


def list_streams(arguments: argparse.Namespace) -> int:
    with _client(arguments) as client:
        streams = _listing(client, arguments.url, arguments.prefix)
        if arguments.json:
            for stream in streams:
                print(json.dumps(asdict(stream)))
        else:
            _print_table(streams)
    return 0


def _listing(client: DurableClient, url: str, prefix: str | None) -> Iterator[ListedStream]:
    after = None
    while True:
        page = client.list_streams(url, prefix=prefix, after=after)
        yield from page.streams
        if not page.has_more:
            return
        after = page.next_cursor


def _print_table(streams: Iterable[ListedStream]) -> None:
    print(f"{'tail':>20}  {'state':<6}  {'content type':<24}  stream")
    for stream in streams:
        state = "closed" if stream.closed else "open"
        print(
            f"{stream.tail_offset:>20}  {state:<6}  {stream.content_type:<24}  {stream.stream_id}"
        )


def show_head(arguments: argparse.Namespace) -> int:
    with _client(arguments) as client:
        facts = asdict(client.head(arguments.url))
    if arguments.json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            if value is not None:
                print(f"{name.replace('_', ' '):<18} {value}")
    return 0


def print_messages(arguments: argparse.Namespace) -> int:
    offset: str = arguments.offset
    with _client(arguments) as client:
        while True:
            with client.read(arguments.url, offset) as response:
                if response.framing is Framing.BYTES:  # no message boundaries on the wire
                    for chunk in response.chunks():
                        sys.stdout.buffer.write(chunk)
                else:
                    for message in response.messages():
                        _write_line(message)
                if response.up_to_date or response.next_offset in (None, offset):
                    return 0
                offset = str(response.next_offset)


def follow(arguments: argparse.Namespace) -> int:
    offset: str = arguments.offset
    left: int | None = arguments.limit
    with _client(arguments) as client:
        is_json = (client.head(arguments.url).content_type or "").startswith(CONTENT_TYPE_JSON)
        while True:
            unconfirmed: list[bytes] = []
            for event in client.sse(arguments.url, offset):
                if isinstance(event, DataEvent):
                    unconfirmed += split_array(event.data) if is_json else [event.data]
                    continue
                offset = event.next_offset
                for message in unconfirmed[:left]:
                    _write_line(message)
                if left is not None:
                    left -= min(left, len(unconfirmed))
                if left == 0 or event.closed:
                    return 0
                unconfirmed = []


def append_lines(arguments: argparse.Namespace) -> int:
    count = 0
    with _client(arguments) as client, _input(arguments.file) as lines:
        if arguments.create:
            client.create(arguments.url, content_type=arguments.content_type)
        for body, rows in _bodies(lines, arguments.content_type):
            # Without a producer a lost answer must not be resent: it might be stored twice.
            send = partial(client.append, arguments.url, body, content_type=arguments.content_type)
            RetryPolicy().run(send, resend_unknown=False)
            count += rows
        if arguments.close:
            client.close_stream(arguments.url)
    print(f"{count} messages appended", file=sys.stderr)
    return 0


def _bodies(lines: Iterable[bytes], content_type: str) -> Iterator[tuple[bytes, int]]:
    if not content_type.startswith("application/json"):
        yield from ((line.rstrip(b"\n"), 1) for line in lines if line.rstrip(b"\n"))
        return
    held: list[bytes] = []
    size = 0
    for line in lines:
        if not line.strip():
            continue
        held.append(line.strip())
        size += len(line)
        if size >= _APPEND_BYTES:
            yield b"[" + b",".join(held) + b"]", len(held)
            held, size = [], 0
    if held:
        yield b"[" + b",".join(held) + b"]", len(held)


def snapshot_of(arguments: argparse.Namespace) -> int:
    with _client(arguments) as client:
        if arguments.publish is None:
            with client.snapshot(arguments.url, arguments.offset) as snapshot:
                for chunk in snapshot.chunks():
                    sys.stdout.buffer.write(chunk)
            return 0
        offset = arguments.offset or client.head(arguments.url).tail
        with _input(arguments.publish) as file:
            body = file.read()
        client.publish_snapshot(arguments.url, offset, body, content_type=arguments.content_type)
        print(f"snapshot published at {offset}", file=sys.stderr)
    return 0


def _input(name: str) -> IO[bytes]:
    return open(os.dup(0), "rb") if name == "-" else open(name, "rb")


def _write_line(message: bytes) -> None:
    sys.stdout.buffer.write(message + b"\n")
    sys.stdout.buffer.flush()
