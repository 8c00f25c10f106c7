"""Random sequences of operations, the same on both servers."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.differential.differences import DIFFERENCES
from tests.differential.exchange import Answer, At, Call, Side

JSON, TEXT, BYTES = "application/json", "text/plain", "application/octet-stream"
SLOTS = ("a", "b", "c")
LONG_POLL_MS = 10
MUTATIONS = ("create", "fork", "append", "close", "delete")

slots = st.sampled_from(SLOTS)
types = st.sampled_from([None, JSON, TEXT, BYTES, "Application/JSON; charset=utf-8", "text/html"])
values = st.sampled_from(["1", "1.5", '"x"', "null", '{"a": [1, 2]}', "[3]", "[]", '"ä\\u00e9"'])
json_bodies = st.one_of(
    values,
    st.lists(values, min_size=1, max_size=3).map(lambda parts: "[" + ", ".join(parts) + "]"),
    st.sampled_from(["[]", "[[]]", " [1]\n", "{", "[1,]", "nul", "", "1 2", "\ufeff1"]),
).map(str.encode)
raw_bodies = st.one_of(
    st.binary(max_size=12), st.sampled_from([b"", b"line\nline\r\n", "ä".encode(), b"\xff\x00"])
)
expiries: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [
        {},
        {},
        {},
        {"Stream-TTL": "3600"},
        {"Stream-TTL": "86400"},
        {"Stream-Expires-At": "2099-01-01T00:00:00Z"},
        {"Stream-Expires-At": "2099-01-01T00:00:00.000Z"},
        {"Stream-TTL": "3600", "Stream-Expires-At": "2099-01-01T00:00:00Z"},
        {"Stream-TTL": "+1"},
        {"Stream-TTL": "01"},
        {"Stream-TTL": "1.0"},
        {"Stream-TTL": "-1"},
        {"Stream-TTL": "1e3"},
        {"Stream-TTL": ""},
        {"Stream-Expires-At": "tomorrow"},
        {"Stream-Expires-At": "2099-13-01T00:00:00Z"},
    ]
)
closing: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [{}, {}, {"Stream-Closed": "true"}, {"Stream-Closed": "false"}, {"Stream-Closed": "TRUE"}]
)
producers: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}),
    st.builds(
        lambda name, epoch, seq: {
            "Producer-Id": name,
            "Producer-Epoch": str(epoch),
            "Producer-Seq": str(seq),
        },
        st.sampled_from(["p", "q/1"]),
        st.sampled_from([0, 0, 0, 1, 2]),
        st.sampled_from([0, 0, 1, 2, 3, 2**53 - 1]),
    ),
    st.sampled_from(
        [
            {"Producer-Id": "p"},
            {"Producer-Id": "p", "Producer-Epoch": "0"},
            {"Producer-Epoch": "0", "Producer-Seq": "0"},
            {"Producer-Id": "", "Producer-Epoch": "0", "Producer-Seq": "0"},
            {"Producer-Id": "p", "Producer-Epoch": "-1", "Producer-Seq": "0"},
            {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "x"},
            {"Producer-Id": "p", "Producer-Epoch": "1.5", "Producer-Seq": "0"},
            {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(2**53)},
        ]
    ),
)
stream_seqs: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [{}, {}, {}, *({"Stream-Seq": text} for text in ("0", "1", "10", "2", "a", "B"))]
)
positions: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 30).map(At), st.sampled_from([None, "-1", "now"])
)
malformed_offsets = st.sampled_from(["abc", "-2", "1,2", "NOW", "0x1", "../1", "1 2", "é"])


class Differential(RuleBasedStateMachine):
    embedded: ClassVar[Side]
    reference: ClassVar[Side]
    met: ClassVar[Counter[str]] = Counter()
    calls: ClassVar[Counter[str]] = Counter()
    _numbers: ClassVar[Any] = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}
        self._status = 0
        # Per stream, pairs of offsets in the order in which they were first given.
        self._pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._types: dict[str, str | None] = {}
        for slot in SLOTS:
            self._rename(slot)

    # -- operations

    @initialize(content_type=types.filter(bool), count=st.integers(0, 3))
    def begin(self, content_type, count) -> None:
        """Streams to work on, of two kinds: most of what follows would meet none otherwise."""
        for slot, kind in (("a", JSON), ("b", content_type)):
            self.create(slot, kind, b"", {}, {})
            for _ in range(count):
                self.append(slot, b"some", {}, {}, {}, "same")

    @rule(
        slot=slots,
        content_type=types,
        body=st.one_of(st.just(b""), json_bodies, raw_bodies),
        expiry=expiries,
        closed=closing,
    )
    def create(self, slot, content_type, body, expiry, closed) -> None:
        headers = {**_content_type(content_type), **expiry, **closed}
        answer = self._run(Call("create", "PUT", slot, headers, body))
        if answer.status == 201:
            self._types[slot] = content_type

    @rule(slot=slots, body=json_bodies, producer=producers, seq=stream_seqs, closed=closing)
    def append_json(self, slot, body, producer, seq, closed) -> None:
        headers = {**_content_type(JSON), **producer, **seq, **closed}
        self._run(Call("append", "POST", slot, headers, body))

    @rule(
        slot=slots,
        body=raw_bodies,
        producer=producers,
        seq=stream_seqs,
        closed=closing,
        other=st.one_of(st.just("same"), types),
    )
    def append(self, slot, body, producer, seq, closed, other) -> None:
        content_type = self._types.get(slot) or BYTES if other == "same" else other
        if "json" in (content_type or "").lower():
            body = b'{"n": %d}' % len(body)
        headers = {**_content_type(content_type), **producer, **seq, **closed}
        self._run(Call("append", "POST", slot, headers, body))

    @rule(slot=slots, producer=producers, content_type=types)
    def close(self, slot, producer, content_type) -> None:
        headers = {**_content_type(content_type), **producer, "Stream-Closed": "true"}
        self._run(Call("close", "POST", slot, headers))

    @rule(slot=slots, surely=st.integers(0, 3))
    def delete(self, slot, surely) -> None:
        # Not too often, or there is nothing left to compare.
        if surely == 0:
            self._run(Call("delete", "DELETE", slot))

    @rule(slot=slots)
    def head(self, slot) -> None:
        self._run(Call("head", "HEAD", slot))

    @rule(slot=slots, offset=positions)
    def read(self, slot, offset) -> None:
        self._run(Call("read", "GET", slot, offset=self._known(slot, offset)))

    @rule(slot=slots, offset=positions)
    def read_conditionally(self, slot, offset) -> None:
        call = Call("read", "GET", slot, offset=self._known(slot, offset), conditional=True)
        self._run(call)

    @rule(slot=slots, offset=positions)
    def long_poll(self, slot, offset) -> None:
        # The embedded server is told per request how long to wait, the reference at its start.
        query = {"live": "long-poll", "timeout_ms": str(LONG_POLL_MS)}
        self._run(Call("long-poll", "GET", slot, query=query, offset=self._known(slot, offset)))

    @rule(slot=slots, offset=positions)
    def server_sent_events(self, slot, offset) -> None:
        at = self._known(slot, offset)
        kind = self._types.get(slot) or ""
        self._run(Call("sse", "GET", slot, query={"live": "sse"}, offset=at, note=kind))

    @rule(
        slot=slots,
        source=slots,
        offset=st.one_of(positions.filter(lambda value: value != "now"), malformed_offsets),
        sub_offset=st.sampled_from([None, None, "0", "1", "2", "9", "-1", "x", "1.5"]),
        content_type=st.sampled_from([None, None, JSON, TEXT]),
        expiry=expiries,
    )
    def fork(self, slot, source, offset, sub_offset, content_type, expiry) -> None:
        if slot == source:
            return
        headers = {**_content_type(content_type), **expiry}
        if sub_offset is not None:
            headers["Stream-Fork-Sub-Offset"] = sub_offset
        answer = self._run(
            Call(
                "fork",
                "PUT",
                slot,
                headers,
                source=source,
                fork_offset=self._known(source, offset),
            )
        )
        if answer.status == 201:
            self._types[slot] = self._types.get(source)

    @rule(
        slot=slots,
        what=st.one_of(
            st.builds(
                lambda offset, live: (offset, live),
                malformed_offsets,
                st.sampled_from([None, "long-poll", "sse"]),
            ),
            st.sampled_from([(None, "long-poll"), (None, "sse"), ("-1", "other"), ("-1", "")]),
        ),
    )
    def read_with_bad_parameters(self, slot, what) -> None:
        offset, live = what
        query = {} if live is None else {"live": live}
        self._run(Call("malformed", "GET", slot, query=query, offset=offset))

    def teardown(self) -> None:
        """Whatever happened: both hold the same."""
        for slot in SLOTS:
            self._run(Call("head", "HEAD", slot))
            self._run(Call("read", "GET", slot, offset="-1"))

    # -- both sides

    def _run(self, call: Call) -> Answer:
        name = self._names[call.stream]
        source = self._names[call.source] if call.source else None
        type(self).calls[call.operation] += 1
        ours, theirs = (
            side.send(
                call,
                name,
                source,
                self._resolve(call.stream, call.offset, index),
                self._resolve(call.source, call.fork_offset, index),
            )
            for index, side in enumerate((self.embedded, self.reference))
        )
        self._status = ours.status
        if ours.status != theirs.status:
            self._excuse(call, "status", ours.status, theirs.status)
            if call.operation in MUTATIONS and ours.ok != theirs.ok:
                # From here on they hold different things: nothing more is to be learned there.
                self._rename(call.stream)
            return ours
        name_before = self._names[call.stream]
        for fact in sorted(ours.facts.keys() | theirs.facts.keys()):
            one, two = ours.facts.get(fact), theirs.facts.get(fact)
            if one != two:
                self._excuse(call, fact, one, two)
        if self._names[call.stream] != name_before:
            return ours
        self._pair(call, ours, theirs)
        if call.operation == "delete" and ours.ok:
            self._pairs[call.stream] = []
            self._types.pop(call.stream, None)
        return ours

    def _pair(self, call: Call, ours: Answer, theirs: Answer) -> None:
        one, two = ours.next_offset, theirs.next_offset
        if one is None or two is None:
            if (one is None) != (two is None):
                self._excuse(call, "Stream-Next-Offset", one is not None, two is not None)
            return
        if ours.status == 201:
            # A new stream under this name: earlier offsets were another's.
            self._pairs[call.stream] = []
        pairs = self._pairs[call.stream]
        for known_one, known_two in pairs:
            same = (one == known_one) == (two == known_two)
            order = (one > known_one) == (two > known_two)
            if not same or not order:
                found, known = f"{one} / {two}", f"{known_one} / {known_two}"
                self._excuse(call, "offset", found, known)
                return
        if (one, two) not in pairs:
            pairs.append((one, two))

    def _known(self, slot: str, offset: Any) -> Any:
        """Positions count from the start of what is known; without any the beginning will do."""
        if not isinstance(offset, At):
            return offset
        known = len(self._pairs[slot])
        return At(offset.index % known) if known else "-1"

    def _resolve(self, slot: str | None, offset: At | str | None, side: int) -> str | None:
        if isinstance(offset, At) and slot is not None:
            return self._pairs[slot][offset.index][side]
        return offset if isinstance(offset, str) else None

    def _rename(self, slot: str) -> None:
        self._names[slot] = f"d{next(self._numbers)}-{id(self):x}-{slot}"
        self._pairs[slot] = []
        self._types.pop(slot, None)

    def _excuse(self, call: Call, fact: str, ours: Any, theirs: Any) -> None:
        for difference in DIFFERENCES:
            if difference.fits(call, fact, ours, theirs, self._status):
                type(self).met[difference.name] += 1
                if difference.diverges:
                    self._rename(call.stream)
                return
        raise AssertionError(
            f"{fact} differs: embedded {ours!r}, reference {theirs!r}\nafter {call}\n"
            f"on {self._names[call.stream]} ({self._types.get(call.stream)})"
        )


def _content_type(content_type: str | None) -> dict[str, str]:
    return {} if content_type is None else {"Content-Type": content_type}
