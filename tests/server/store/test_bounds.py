"""Ten thousand small streams and one huge one: memory and open files stay within bounds.

Each scenario runs in a process of its own, so that the peak it reports is the store's.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PEAK = """
def peak_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
"""

_MANY = (
    _PEAK
    + """
import asyncio, os, sys, time
from pathlib import Path
from spark_durable.server.store import AppendSpec, CreateSpec, ProducerTriple, Store, StoreConfig

COUNT = 10_000
JSON = "application/json"

async def fill(directory):
    store = Store.open(StoreConfig(data_dir=directory))
    await store.create_bucket("many")
    keys = [f"/ds/many/session-{each}" for each in range(COUNT)]
    await asyncio.gather(*(store.create(key, CreateSpec(JSON)) for key in keys))
    for turn in range(2):
        await asyncio.gather(*(
            store.append(key, AppendSpec(JSON, b"[1,2]", ProducerTriple("p", 0, turn)))
            for key in keys
        ))
    assert len(os.listdir("/proc/self/fd")) < 320, len(os.listdir("/proc/self/fd"))
    await store.close()

async def check(directory):
    began = time.monotonic()
    store = Store.open(StoreConfig(data_dir=directory))
    assert store.bucket("many").streams == COUNT
    seen, after = 0, None
    while True:
        page = store.list_streams("many", after=after)
        assert all(each.tail == 12 for each in page.streams)
        seen, after = seen + len(page.streams), page.next_cursor
        if after is None:
            break
    assert seen == COUNT
    for each in range(0, COUNT, 7):
        assert store.read(f"/ds/many/session-{each}", 0, 4096).body == b"[1,\\n2,\\n1,\\n2]"
    await store.close()

directory = Path(sys.argv[1])
asyncio.run(fill(directory))
asyncio.run(check(directory))
print(peak_mb())
"""
)

_HUGE = (
    _PEAK
    + """
import asyncio, os, sys
from pathlib import Path
from spark_durable.server.store import AppendSpec, CreateSpec, Store, StoreConfig

async def main(directory, megabytes):
    row = b'{"id":123456,"name":"someone","amount":12.5,"tags":["a","b"],"text":"%s"}' % (b"x" * 60)
    body = b"[" + b",".join([row] * 8000) + b"]"
    store = Store.open(StoreConfig(data_dir=directory))
    await store.create("/v1/stream/huge", CreateSpec("application/json"))
    appends = 0
    async def produce():
        nonlocal appends
        while store.stat("/v1/stream/huge").tail < megabytes << 20:
            await store.append("/v1/stream/huge", AppendSpec("application/json", body))
            appends += 1
    await asyncio.gather(*(produce() for _ in range(4)))
    tail = store.stat("/v1/stream/huge").tail
    offset = messages = 0
    while offset < tail:
        got = store.read("/v1/stream/huge", offset, 4 << 20)
        assert len(got.body) == got.end - got.start <= 4 << 20
        messages += got.body.count(b"\\n") + 1
        offset = got.end
    assert messages == appends * 8000
    logs = sum(1 for _ in (directory / "wal").iterdir())
    assert logs <= 8, logs
    await store.close()

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
print(peak_mb())
"""
)


_LAST = (
    _PEAK
    + """
import asyncio, sys
from pathlib import Path
from spark_durable.server.store import AppendSpec, CreateSpec, Store, StoreConfig

MIB = 1 << 20

async def main(directory):
    store = Store.open(StoreConfig(data_dir=directory))
    keys = [f"/v1/stream/{each}" for each in range(200)]
    await asyncio.gather(*(store.create(key, CreateSpec()) for key in keys))
    for start in range(0, 200, 10):
        some = keys[start : start + 10]
        await asyncio.gather(*(store.append(key, AppendSpec(None, b"x" * MIB)) for key in some))
    await store.close()

asyncio.run(main(Path(sys.argv[1])))
print(peak_mb())
"""
)


def peak_mb(script: str, *arguments: object) -> float:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_ten_thousand_streams(tmp_path: Path) -> None:
    assert peak_mb(_MANY, tmp_path / "data") < 200


def test_a_long_stream(tmp_path: Path) -> None:
    assert peak_mb(_HUGE, tmp_path / "data", 300) < 200


def test_no_stream_holds_on_to_its_last_append(tmp_path: Path) -> None:
    assert peak_mb(_LAST, tmp_path / "data") < 120


@pytest.mark.long
def test_a_stream_of_two_gigabytes(tmp_path: Path) -> None:
    assert peak_mb(_HUGE, tmp_path / "data", 2048) < 200
