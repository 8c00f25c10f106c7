"""The checker sees what it is there for: every kind of wrong, one at a time, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.chaos.checker import (
    Ack,
    Findings,
    Message,
    Row,
    StreamLife,
    check_followed,
    check_handed_out,
    check_producers,
    check_sink,
    check_tailed,
)

HERE = StreamLife("s", 0)


def stream(texts: Iterable[str]) -> list[Message]:
    found: list[Message] = []
    for text in texts:
        start = found[-1].end if found else 0
        found.append(Message(start, start + len(text) + 2, text))
    return found


def numbered(*numbers: int, producer: str = "p", life: int = 0) -> list[Message]:
    return stream(json.dumps({"p": producer, "l": life, "n": number}) for number in numbers)


def acks(messages: list[Message], *, repeated: bool = False) -> list[Ack]:
    return [
        Ack(HERE, "p", number, 1, message.end, repeated) for number, message in enumerate(messages)
    ]


def producers(messages: list[Message], given: list[Ack]) -> Findings:
    findings = Findings()
    check_producers({HERE: messages}, given, findings)
    return findings


class TestProducers:
    def test_all_there(self) -> None:
        messages = numbered(0, 1, 2)
        assert producers(messages, acks(messages)).all() == []
        assert producers(messages, acks(messages)[:2]).all() == []  # one was never answered

    def test_lost(self) -> None:
        whole = numbered(0, 1, 2)
        assert len(producers(whole[:2], acks(whole)).lost) == 1
        assert len(producers([], acks(whole)).lost) == 3

    def test_lost_in_the_middle_though_never_acknowledged(self) -> None:
        assert producers(numbered(0, 2), []).lost

    def test_doubled(self) -> None:
        findings = producers(numbered(0, 1, 1, 2), [])
        assert len(findings.doubled) == 1
        assert findings.lost == []

    def test_out_of_order(self) -> None:
        findings = producers(numbered(0, 2, 1), [])
        assert findings.disordered
        assert findings.lost == findings.doubled == []

    def test_of_a_fenced_producer(self) -> None:
        text = json.dumps({"p": "p", "l": 0, "n": 0, "zombie": True})
        assert producers(stream([text]), []).doubled

    def test_of_another_life(self) -> None:
        assert producers(numbered(0, life=1), []).doubled

    def test_an_offset_that_is_not_where_the_append_ended(self) -> None:
        messages = numbered(0, 1, 2)
        one = Ack(HERE, "p", 0, 1, messages[1].end, repeated=False)
        assert producers(messages, [one]).offsets
        assert producers(messages, [one._replace(repeated=True)]).offsets == []
        assert producers(messages, [one._replace(repeated=True, offset=5)]).offsets
        assert producers(messages, [one._replace(repeated=True, offset=10**6)]).offsets


class TestSink:
    FILES = ([0, 1, 2], [3, 4])

    def check(self, *ids: int, ordered: bool = True) -> Findings:
        findings = Findings()
        messages = stream(json.dumps({"id": each}) for each in ids)
        check_sink("s", messages, self.FILES, findings, ordered=ordered)
        return findings

    def test_each_row_once(self) -> None:
        assert self.check(0, 3, 1, 2, 4).all() == []

    def test_lost_and_doubled(self) -> None:
        findings = self.check(0, 1, 1, 3, 4, 9)
        assert (len(findings.lost), len(findings.doubled)) == (1, 2)

    def test_order_where_it_is_promised(self) -> None:
        assert self.check(1, 0, 2, 3, 4).disordered
        assert self.check(1, 0, 2, 3, 4, ordered=False).all() == []


def rows(messages: Iterable[Message], kind: str = "update") -> list[Row]:
    return [Row("s", message.offset, kind, message.text) for message in messages]


class TestTailed:
    MESSAGES = numbered(0, 1, 2, 3)

    def check(self, found: list[Row]) -> list[str]:
        findings = Findings()
        check_tailed({HERE: self.MESSAGES}, found, findings)
        return findings.table

    def test_equal(self) -> None:
        assert self.check(rows(reversed(self.MESSAGES))) == []

    def test_missing_doubled_moved_and_unasked_for(self) -> None:
        whole = rows(self.MESSAGES)
        assert len(self.check(whole[1:])) == 1
        assert len(self.check([*whole, whole[0]])) == 1
        assert len(self.check([whole[0]._replace(offset=1), *whole[1:]])) == 2
        assert len(self.check([whole[0]._replace(text="{}"), *whole[1:]])) == 2
        assert len(self.check([*whole, whole[0]._replace(kind="snapshot")])) == 1

    def test_lives_of_one_stream_add_up(self) -> None:
        again = numbered(0, life=1)
        content = {HERE: self.MESSAGES, StreamLife("s", 1): again}
        findings = Findings()
        check_tailed(content, rows([*self.MESSAGES, *again]), findings)
        assert findings.all() == []
        check_tailed(content, rows(self.MESSAGES), findings)
        assert len(findings.table) == 1


class TestFollowed:
    MESSAGES = numbered(0, 1, 2, 3)
    SNAPSHOTS = {MESSAGES[2].offset: "two", MESSAGES[3].end: "all"}  # noqa: RUF012

    def check(self, found: list[Row]) -> list[str]:
        findings = Findings()
        check_followed(HERE, self.MESSAGES, self.SNAPSHOTS, found, findings)
        return findings.table

    def snapshot(self, offset: int) -> Row:
        return Row("s", offset, "snapshot", self.SNAPSHOTS[offset])

    def test_a_snapshot_covers_what_is_missing(self) -> None:
        two, end = self.SNAPSHOTS
        assert self.check(rows(self.MESSAGES)) == []
        assert self.check([*rows(self.MESSAGES[2:]), self.snapshot(two)]) == []
        assert self.check([rows(self.MESSAGES)[0], self.snapshot(end)]) == []

    def test_nothing_covers_it(self) -> None:
        two, _ = self.SNAPSHOTS
        assert self.check(rows(self.MESSAGES[2:]))
        assert self.check(rows(self.MESSAGES[:2]))
        assert self.check([*rows(self.MESSAGES[3:]), self.snapshot(two)])

    def test_doubled_or_made_up(self) -> None:
        two, _ = self.SNAPSHOTS
        whole = rows(self.MESSAGES)
        assert self.check([*whole, whole[1]])
        assert self.check([*whole, self.snapshot(two), self.snapshot(two)]) == []
        assert self.check([*whole, *[self.snapshot(two)] * 3])
        assert self.check([*whole, self.snapshot(two)._replace(text="another")])
        assert self.check([*whole, Row("s", 1, "update", whole[0].text)])


def test_offsets_handed_out_lead_to_what_followed() -> None:
    messages = numbered(0, 1, 2)
    good: dict[int, str | None] = {each.offset: each.text for each in messages}
    good[messages[-1].end] = ""
    findings = Findings()
    check_handed_out(HERE, messages, good, 0, findings)
    check_handed_out(HERE, messages, {messages[0].end: None}, messages[1].end, findings)
    assert findings.all() == []
    for wrong in (None, messages[2].text):
        check_handed_out(HERE, messages, {messages[1].offset: wrong}, 0, findings)
    check_handed_out(HERE, messages, {messages[0].end: messages[1].text}, 10**6, findings)
    assert len(findings.offsets) == 3
