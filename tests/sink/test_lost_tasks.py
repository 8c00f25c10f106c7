"""Tasks that fail and executors that die: real executors in their own processes."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request
from tests.sink.lab import Lab
from tests.sink.queries import fail_partition
from tests.sink.streams import assert_exactly_once, ids

ROWS = 4000
SEVERAL_APPENDS = {"maxAppendBytes": "10k"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    with Lab(
        "local-cluster[2,1,1024]",
        spark__executor__memory="1g",
    ) as lab:
        yield lab


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultProxy]:
    with FaultProxy(server.url) as proxy:
        yield proxy


def is_append(request: Request, partition: int, seq: int) -> bool:
    producer = request.headers.get("producer-id", "")
    wanted = request.headers.get("producer-seq") == str(seq)
    return request.is_append and wanted and producer.endswith(f"/{partition}")


class FailOnce:
    """Refuses one append of a partition for good: its task dies with some of it sent."""

    def __init__(self, partition: int, seq: int) -> None:
        self._partition, self._seq = partition, seq
        self._lock = threading.Lock()
        self.done = False

    def __call__(self, request: Request) -> Fault:
        with self._lock:
            if self.done or not is_append(request, self._partition, self._seq):
                return PASS
            self.done = True
        return Fault(Kind.REFUSE, status=400, text="refused by the test")


@pytest.mark.parametrize(
    ("order", "shuffled"),
    [("keep", False), ("trust", False), ("sort", False), ("sort", True)],
)
def test_a_task_that_fails_in_the_middle_of_its_appends(
    cluster: Lab, server: Server, proxy: FaultProxy, order: str, shuffled: bool
) -> None:
    url = server.stream()
    proxy.script = script = FailOnce(partition=1, seq=2)
    failure = cluster.run(
        "write",
        url=proxy.through(url),
        rows=ROWS,
        partitions=3,
        options={**SEVERAL_APPENDS, "rowOrder": order},
        shuffled=shuffled,
        behaviour="reorders" if shuffled else "plain",
    )
    assert failure is None
    assert script.done
    assert_exactly_once(ids(url), range(ROWS))


def test_a_task_that_fails_in_the_middle_of_its_rows(cluster: Lab, server: Server) -> None:
    """Under trust the first half is sent by then."""
    url = server.stream()
    options = {**SEVERAL_APPENDS, "rowOrder": "trust"}
    arguments = {"rows": ROWS, "partitions": 2, "options": options}
    assert cluster.run("write", url=url, behaviour="fails_in_the_middle", **arguments) is None
    assert_exactly_once(ids(url), range(ROWS))


def test_another_order_on_retry_is_refused_under_keep(
    cluster: Lab, server: Server, proxy: FaultProxy
) -> None:
    url = server.stream()
    proxy.script = script = FailOnce(partition=1, seq=2)
    failure = cluster.run(
        "write",
        url=proxy.through(url),
        rows=ROWS,
        partitions=2,
        options=SEVERAL_APPENDS,
        shuffled=True,
        behaviour="reorders",
    )
    assert script.done
    assert failure is not None
    assert "ReplayMismatchError" in failure
    assert "rowOrder=sort" in failure
    # What is there is the beginning of both partitions, nothing of it twice.
    found = Counter(ids(url))
    assert 0 < len(found) < ROWS
    assert max(found.values()) == 1


@pytest.mark.parametrize("order", ["keep", "sort"])
def test_an_executor_killed_while_it_sends(
    cluster: Lab, server: Server, proxy: FaultProxy, tmp_path: Path, order: str
) -> None:
    url = server.stream()
    killed: list[int] = []

    def kill(request: Request) -> Fault:
        if not killed and is_append(request, partition=1, seq=2):
            killed.append(int((tmp_path / "1-0").read_text()))
            os.kill(killed[0], signal.SIGKILL)
        return PASS

    proxy.script = kill
    failure = cluster.run(
        "write",
        url=proxy.through(url),
        rows=ROWS,
        partitions=4,
        options={**SEVERAL_APPENDS, "rowOrder": order},
        shuffled=order == "sort",
        behaviour="tells_its_executor",
        directory=str(tmp_path),
    )
    assert failure is None
    assert killed
    assert_exactly_once(ids(url), range(ROWS))


@pytest.mark.long
def test_another_number_of_cores(
    embedded: Server, node: Server, tmp_path: Path, spark_files: Path
) -> None:
    """A batch is begun with four cores, then replayed with one, then again with four."""
    with Lab("local[4]") as four, Lab("local[1]") as one:
        for server in (embedded, node):
            for repeatable in (0, 3):
                url = server.stream()
                with FaultProxy(server.url) as proxy:
                    arguments = {
                        "url": proxy.through(url),
                        "source": str(spark_files),
                        "checkpoint": str(tmp_path / f"{server.kind}-{repeatable}"),
                        "options": {},
                        "repeatable": repeatable,
                    }
                    fail_partition(proxy, 1, after=0)
                    failure = four.run("stream", **arguments)
                    assert failure is not None
                    assert "refused by the test" in failure
                    before = ids(url)
                    assert 0 < len(before) < ROWS
                    failure = one.run("stream", **arguments)
                    if repeatable:
                        assert failure is None
                    else:
                        assert failure is not None
                        assert "ReplayMismatchError" in failure
                        assert sorted(ids(url)) == sorted(before)
                        assert four.run("stream", **arguments) is None
                assert_exactly_once(ids(url), range(ROWS))
