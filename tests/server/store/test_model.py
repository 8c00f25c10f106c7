"""The store against its model: any sequence of requests and restarts gives the same answers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_durable.server.store import ForkSpec
from spark_durable.server.store.errors import StoreError
from tests.server.store.driver import JSON, SMALL, TEXT, Driver
from tests.server.store.model import Model, ModelStream

KEYS = ["/v1/stream/a", "/v1/stream/b", "/ds/shop/x", "/ds/shop/y"]
BODIES = {
    JSON: [b"1", b"[1,22]", b"[[1],[]]", b'{"a":"x,y"}', b'["' + b"z" * 150 + b'"]'],
    TEXT: [b"x", b"hello", b"a\nb,\n", b"q" * 130],
}
BAD_BODIES = [b"", b"[]", b"nope", b"[1,"]


def _good(kind: str) -> st.SearchStrategy[bytes]:
    return st.sampled_from(BODIES[JSON if kind == JSON else TEXT])


class Comparison(RuleBasedStateMachine):
    directory: Path | None = None

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.directory and self.directory / "data", **SMALL)
        self.model = Model(self.driver.clock)

    def teardown(self) -> None:
        self.driver.close()

    def both(self, real: Callable[[], Any], expected: Callable[[], Any]) -> None:
        """Same answer, or the same refusal."""
        assert _outcome(real) == _outcome(expected)

    @initialize()
    def bucket(self) -> None:
        self.driver.run(self.driver.store.create_bucket("shop"))
        self.model.create_bucket("shop")

    def known(self, key: str) -> ModelStream | None:
        self.model.sweep()
        return self.model.streams.get(key)

    def a_key(self, data: st.DataObject, *, free: bool = False) -> str:
        """Mostly a key of the wanted kind, now and then any."""
        self.model.sweep()
        wanted = [key for key in KEYS if (key not in self.model.streams) == free]
        if not wanted or data.draw(st.integers(0, 7)) == 0:
            wanted = KEYS
        return data.draw(st.sampled_from(wanted), label="key")

    def an_offset(self, data: st.DataObject, key: str) -> int:
        """Mostly a message boundary, now and then any byte."""
        stream = self.known(key)
        if stream is None:
            return 0
        if data.draw(st.integers(0, 4)) == 0:
            return data.draw(st.integers(0, stream.tail + 2), label="offset")
        return data.draw(st.sampled_from(stream.boundaries), label="offset")

    def a_producer(self, data: st.DataObject, key: str) -> tuple[str, int, int] | None:
        """Mostly what a good producer would send next, now and then something else."""
        name = data.draw(st.sampled_from([None, "p", "q"]))
        stream = self.known(key)
        if name is None or stream is None:
            return None
        epoch, last = stream.producers.get(name, (0, -1))
        kind = data.draw(st.sampled_from(["next"] * 5 + ["again", "first", "epoch", "any", "ask"]))
        if kind == "any":
            return name, data.draw(st.integers(0, 3)), data.draw(st.integers(0, 4))
        if kind == "epoch":
            return name, epoch + 1, 0
        if kind == "ask":
            return name, epoch + data.draw(st.integers(0, 1)), 2**53 - 1
        return name, epoch, {"next": last + 1, "again": max(last, 0), "first": 0}[kind]

    @rule(data=st.data(), ttl=st.sampled_from([None, None, None, 30]))
    def create(self, data: st.DataObject, ttl: int | None) -> None:
        key = self.a_key(data, free=True)
        kind = data.draw(st.sampled_from([JSON, JSON, TEXT, TEXT, None]))
        body = data.draw(st.sampled_from([b"", *BODIES[kind or TEXT], b"[]"]))
        closed = data.draw(st.integers(0, 7)) == 0

        def real() -> tuple[bool, int]:
            made = self.driver.create(key, kind, body=body, ttl_s=ttl, closed=closed)
            return made.created, made.stat.tail

        self.both(real, lambda: self.model.create(key, kind, body, ttl, closed))

    @rule(data=st.data(), sub=st.sampled_from([0, 0, 1, 2, 7]))
    def fork(self, data: st.DataObject, sub: int) -> None:
        key, source = self.a_key(data, free=data.draw(st.integers(0, 3)) > 0), self.a_key(data)
        kind = data.draw(st.sampled_from([None, None, None, JSON, TEXT]))
        at = self.an_offset(data, source) if sub or data.draw(st.booleans()) else None

        def real() -> tuple[bool, int]:
            made = self.driver.create(key, kind, fork=ForkSpec(source, at, sub))
            return made.created, made.stat.tail

        self.both(real, lambda: self.model.create(key, kind, fork=(source, at, sub)))

    @rule(data=st.data(), again=st.booleans())
    def append(self, data: st.DataObject, again: bool) -> None:
        key = self.a_key(data)
        stream = self.known(key)
        kind = stream.content_type if stream is not None else TEXT
        choices = BODIES[JSON if kind == JSON else TEXT]
        if data.draw(st.integers(0, 9)) == 0:
            kind, choices = data.draw(st.sampled_from([JSON, TEXT])), [*choices, *BAD_BODIES]
        body = data.draw(st.sampled_from(choices))
        close = data.draw(st.integers(0, 15)) == 0
        if close and data.draw(st.booleans()):
            body = b""
        seq = data.draw(st.sampled_from([None] * 4 + ["1", "10", "2"]))
        producer = self.a_producer(data, key)

        def real() -> tuple[str, int, bool]:
            done = self.driver.append(key, body, kind, producer, stream_seq=seq, close=close)
            return done.outcome, done.next_offset, done.closed

        for _ in range(1 + again):
            self.both(real, lambda: self.model.append(key, body, kind, producer, seq, close))

    @rule(data=st.data(), count=st.integers(2, 8))
    def append_many(self, data: st.DataObject, count: int) -> None:
        """Enough to leave a segment or two behind."""
        key = self.a_key(data)
        stream = self.known(key)
        if stream is not None and not stream.closed and not stream.soft_deleted:
            kind = stream.content_type
            for body in data.draw(st.lists(_good(kind), min_size=count, max_size=count)):
                self.driver.append(key, body, kind)
                self.model.append(key, body, kind, None, None, False)

    @rule(data=st.data(), really=st.sampled_from([False, False, True]))
    def delete(self, data: st.DataObject, really: bool) -> None:
        if not really:
            return
        key = self.a_key(data)
        self.both(
            lambda: self.driver.run(self.driver.store.delete(key)), lambda: self.model.delete(key)
        )

    @rule(data=st.data(), body=st.sampled_from([b"", b"snap", b"other"]))
    def publish_snapshot(self, data: st.DataObject, body: bytes) -> None:
        key = self.a_key(data)
        offset = self.an_offset(data, key)
        self.both(
            lambda: self.driver.run(
                self.driver.store.publish_snapshot(key, offset, "text/x-snapshot", body)
            ),
            lambda: self.model.publish_snapshot(key, offset, "text/x-snapshot", body),
        )

    @rule(data=st.data(), limit=st.integers(1, 500), align=st.sampled_from(["next", "exact"]))
    def read(self, data: st.DataObject, limit: int, align: str) -> None:
        key = self.a_key(data)
        offset = self.an_offset(data, key)

        def real() -> tuple[int, int, bytes]:
            got = self.driver.call(self.driver.store.read, key, offset, limit, align=align)
            empty = got.start == got.end
            return got.start, got.end, b"" if empty else bytes(got.body)

        def expected() -> tuple[int, int, bytes]:
            start, end, body = self.model.read(key, offset, limit, align)
            return start, end, body if start != end else b""

        self.both(real, expected)

    @rule(data=st.data())
    def bootstrap(self, data: st.DataObject) -> None:
        key = self.a_key(data)
        self.both(lambda: self.driver.messages(key), lambda: self.model.messages(key))

    @precondition(lambda self: "shop" not in self.model.buckets or not self.model.streams)
    @rule()
    def create_bucket(self) -> None:
        self.both(
            lambda: self.driver.run(self.driver.store.create_bucket("shop")),
            lambda: self.model.create_bucket("shop"),
        )

    @precondition(lambda self: self.model.names("shop") == [])
    @rule()
    def delete_bucket(self) -> None:
        self.both(
            lambda: self.driver.run(self.driver.store.delete_bucket("shop")),
            lambda: self.model.delete_bucket("shop"),
        )

    @rule(seconds=st.integers(1, 20))
    def time_passes(self, seconds: int) -> None:
        self.driver.clock.now += seconds

    @precondition(lambda self: self.directory is not None)
    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        self.model.sweep()
        self.driver.reopen(crash=crash)
        self.model.restarted()

    @invariant()
    def same_facts(self) -> None:
        self.model.sweep()
        for key in KEYS:
            stream = self.model.streams.get(key)
            try:
                stat = self.driver.call(self.driver.store.stat, key)
            except StoreError:
                assert stream is None or stream.soft_deleted
                continue
            assert stream is not None
            assert not stream.soft_deleted
            assert (stat.tail, stat.closed, stat.retained, stat.content_type, stat.ttl_s) == (
                stream.tail,
                stream.closed,
                stream.retained,
                stream.content_type,
                stream.ttl_s,
            )
            assert self.driver.messages(key) == self.model.messages(key)
            snapshot = stream.snapshot
            assert stat.snapshot_offset == (snapshot[0] if snapshot else None)
            if snapshot is not None:
                self.model.read_from(key)
                latest = self.driver.call(self.driver.store.snapshot, key)
                assert (latest.offset, latest.content_type, latest.read()) == snapshot
        if "shop" in self.model.buckets:
            page = self.driver.call(self.driver.store.list_streams, "shop")
            assert [each.stream_id for each in page.streams] == self.model.names("shop")


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StoreError as refusal:
        return type(refusal)


class OnDisk(Comparison):
    def __init__(self) -> None:
        shared = Path("/dev/shm")
        self.directory = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        assert self.directory is not None
        shutil.rmtree(self.directory)


_settings: dict[str, Any] = {
    "deadline": None,
    "stateful_step_count": 40,
    "suppress_health_check": list(HealthCheck),
}
TestMemory = Comparison.TestCase
TestMemory.settings = settings(max_examples=120, **_settings)
TestDisk = OnDisk.TestCase
TestDisk.settings = settings(max_examples=50, **_settings)
