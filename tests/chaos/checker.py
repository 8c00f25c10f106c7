"""The proof: what was sent and acknowledged, against what is in the streams and in the tables.

Pure: values in, findings out. Each kind of promise has its own list, so that a report says not only
that something is wrong but what.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple


class Message(NamedTuple):
    """A message as a reader finds it: where it starts, where the next one does, and its text."""

    offset: int
    end: int
    text: str


class StreamLife(NamedTuple):
    """A stream between its creation and its deletion."""

    stream: str
    life: int


class Ack(NamedTuple):
    """An answer to an append: messages ``first`` … ``first + size - 1`` of a producer are stored.

    ``offset`` is the one handed out with it. A repetition gets the tail, which may lie further on.
    """

    where: StreamLife
    producer: str
    first: int
    size: int
    offset: int | None
    repeated: bool


class Row(NamedTuple):
    """A row of a Delta table that a query has tailed streams into."""

    stream: str
    offset: int
    kind: str
    text: str


@dataclass(slots=True)
class Findings:
    """Everything that broke a promise. Empty lists are what a run is for."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    table: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        return [
            *self.lost,
            *self.doubled,
            *self.disordered,
            *self.offsets,
            *self.table,
            *self.failures,
        ]


Content = Mapping[StreamLife, Sequence[Message]]


def check_producers(content: Content, acks: Iterable[Ack], findings: Findings) -> None:
    """Each producer's messages are there once, numbered from 0 without a gap and in order, as far
    as acknowledged at least; each offset handed out is the end of what it acknowledged."""
    by_producer: dict[tuple[StreamLife, str], list[Ack]] = defaultdict(list)
    for ack in acks:
        by_producer[ack.where, ack.producer].append(ack)
    found: dict[tuple[StreamLife, str], list[tuple[int, Message]]] = defaultdict(list)
    for where, messages in content.items():
        for message in messages:
            value = json.loads(message.text)
            if "p" in value:
                found[where, value["p"]].append((value["n"], message))
                if value.get("zombie"):
                    findings.doubled.append(f"{where}: a fenced producer wrote {message.text}")
                if value["l"] != where.life:
                    findings.doubled.append(f"{where}: has {message.text} of another life")
    for key in by_producer.keys() | found.keys():
        _check_producer(key, found[key], by_producer[key], content, findings)


def _check_producer(
    key: tuple[StreamLife, str],
    found: list[tuple[int, Message]],
    acks: list[Ack],
    content: Content,
    findings: Findings,
) -> None:
    where, producer = key
    name = f"{where.stream} (life {where.life}), producer {producer}"
    numbers = [number for number, _ in found]
    acknowledged = max((ack.first + ack.size for ack in acks), default=0)
    counted = Counter(numbers)
    lost = [number for number in range(acknowledged) if number not in counted]
    findings.lost += [f"{name}: message {number} was acknowledged" for number in lost]
    findings.doubled += [
        f"{name}: message {number} is there {times} times"
        for number, times in counted.items()
        if times > 1
    ]
    first_seen = list(dict.fromkeys(numbers))
    if first_seen != sorted(first_seen):
        wrong = next(a for a, b in pairwise(first_seen) if a > b)
        findings.disordered.append(f"{name}: something older follows message {wrong}")
    elif not lost and first_seen and first_seen[-1] != len(first_seen) - 1:
        findings.lost.append(f"{name}: numbers end at {first_seen[-1]}, some before are missing")
    ends = {number: message.end for number, message in found}
    boundaries = {message.end for message in content.get(where, ())}
    for ack in acks:
        end = ends.get(ack.first + ack.size - 1)
        if ack.offset is None or end is None:
            continue
        right = ack.offset >= end if ack.repeated else ack.offset == end
        if not right or ack.offset not in boundaries:
            findings.offsets.append(
                f"{name}: messages up to {ack.first + ack.size - 1} end at {end}, and "
                f"{ack.offset} was handed out for them"
            )


def check_sink(
    stream: str,
    messages: Sequence[Message],
    files: Sequence[Sequence[int]],
    findings: Findings,
    *,
    ordered: bool,
) -> None:
    """Each row of the files once; with ``ordered`` the rows of each file in its order."""
    ids = [json.loads(message.text)["id"] for message in messages]
    found, wanted = Counter(ids), Counter(each for file in files for each in file)
    findings.lost += [f"{stream}: row {row} of the sink" for row in sorted(wanted - found)]
    findings.doubled += [f"{stream}: row {row} of the sink" for row in sorted(found - wanted)]
    if ordered:
        place = {row: number for number, row in reversed(list(enumerate(ids)))}
        for number, file in enumerate(files):
            places = [place[row] for row in file if row in place]
            if places != sorted(places):
                findings.disordered.append(f"{stream}: the rows of file {number}")


def check_tailed(content: Content, rows: Iterable[Row], findings: Findings) -> None:
    """A table of updates equals its streams: every message once, at its offset, nothing else."""
    wanted: Counter[tuple[str, int, str]] = Counter()
    for where, messages in content.items():
        wanted.update((where.stream, message.offset, message.text) for message in messages)
    found: Counter[tuple[str, int, str]] = Counter()
    for row in rows:
        if row.kind == "update":
            found[row.stream, row.offset, row.text] += 1
        else:
            findings.table.append(f"{row.stream}: a {row.kind} row at {row.offset}, none is due")
    _compare(wanted, found, findings)


def _compare(
    wanted: Counter[tuple[str, int, str]],
    found: Counter[tuple[str, int, str]],
    findings: Findings,
) -> None:
    for sign, counted in (("lacks", wanted - found), ("has one too many of", found - wanted)):
        for (stream, offset, text), times in sorted(counted.items()):
            findings.table.append(f"the table {sign} {stream} at {offset} ({times}): {text[:80]}")


def check_followed(
    where: StreamLife,
    messages: Sequence[Message],
    snapshots: Mapping[int, str],
    rows: Iterable[Row],
    findings: Findings,
) -> None:
    """A reader that retention may overtake: what it did not read is covered by a snapshot.

    Every update once; every snapshot as it was published; and every run of messages that are
    missing ends exactly where a snapshot begins that the table has. The same snapshot may come
    twice: a consumer begins anew with each.
    """
    updates = [row for row in rows if row.stream == where.stream and row.kind == "update"]
    begun = [row for row in rows if row.stream == where.stream and row.kind == "snapshot"]
    by_offset = {message.offset: message for message in messages}
    seen = Counter(row.offset for row in updates)
    for row in updates:
        message = by_offset.get(row.offset)
        if message is None or message.text != row.text:
            findings.table.append(f"{where.stream}: no such message at {row.offset}: {row.text}")
        elif seen[row.offset] > 1:
            findings.table.append(f"{where.stream}: {row.offset} is {seen[row.offset]} times there")
    for offset, times in Counter(row.offset for row in begun).items():
        # A snapshot may stand in for the one a batch was planned from, and begin the next batch.
        if times > 2:
            findings.table.append(
                f"{where.stream}: the snapshot at {offset} is {times} times there"
            )
    for row in begun:
        if snapshots.get(row.offset) != row.text:
            findings.table.append(f"{where.stream}: no such snapshot at {row.offset}: {row.text}")
    starts = sorted(row.offset for row in begun)
    missing = False
    for message in messages:
        if message.offset not in seen:
            missing = True
            continue
        if missing and message.offset not in starts:
            findings.table.append(
                f"{where.stream}: messages before {message.offset} are missing, and no snapshot "
                "in the table covers them"
            )
        missing = False
    if missing and (not starts or starts[-1] < messages[-1].end):
        findings.table.append(f"{where.stream}: the table does not reach the end")


def check_handed_out(
    where: StreamLife,
    messages: Sequence[Message],
    answers: Mapping[int, str | None],
    retained: int,
    findings: Findings,
) -> None:
    """What a read at an offset that was handed out earlier begins with now: the message that
    followed, or a refusal (None) where retention has passed it."""
    offsets = [message.offset for message in messages]
    for offset, answer in answers.items():
        index = bisect_left(offsets, offset)
        following = messages[index].text if index < len(messages) else ""
        if offset < retained:
            if answer is not None:
                findings.offsets.append(f"{where}: {offset} is below what is retained but answered")
        elif answer != following:
            findings.offsets.append(f"{where}: at {offset} there is {answer!r}, not {following!r}")


def text_of(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
