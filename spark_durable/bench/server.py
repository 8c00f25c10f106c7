"""The embedded server on disk, synced, against the Node reference on disk: ratios of one run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from spark_durable.bench.harness import Figure, Report, rate, ratio, take_turns
from spark_durable.bench.servers import ServerProcess, embedded, reference
from spark_durable.bench.wire import Wire, request

_ROW: Final = {"id": 123456, "amount": 30864.5, "customer": "customer-4242", "note": "x" * 48}
_MIB: Final = 1 << 20
_WRK_SCRIPT: Final = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [[{body}]]
"""


Peer: TypeAlias = ServerProcess


def new_stream(peer: Peer) -> str:
    """The URL of a new, empty JSON stream."""
    url = f"{peer.url}/v1/stream/bench-{uuid.uuid4().hex}"
    with Wire(url) as wire:
        wire.send(request("PUT", url))
    return url


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work one run does."""

    rounds: int = 3
    append_mib: int = 64
    read_mib: int = 128
    small_seconds: float = 3.0
    huge_mib: int = 2048
    streams: int = 10_000


def measure(sizes: Sizes | None = None) -> Report:
    """All figures: three ratios to Node and the server's memory."""
    sizes = sizes or Sizes()
    report = Report()
    with embedded() as ours, reference() as node:
        _compare(report, sizes, ours, node)
    with embedded() as ours:
        write_and_read(ours, sizes.huge_mib)
        detail = f"peak while {sizes.huge_mib} MiB are written and read back"
        report.add(Figure("server_rss_huge_mb", ours.peak_rss_mb(), unit="MB", detail=detail))
    with embedded() as ours:
        many_streams(ours, sizes.streams)
        detail = f"peak with {sizes.streams} streams"
        report.add(Figure("server_rss_streams_mb", ours.peak_rss_mb(), unit="MB", detail=detail))
    return report


def _compare(report: Report, sizes: Sizes, ours: Peer, node: Peer) -> None:
    body = batch(_MIB)
    peers = (ours, node)

    def compare(figure: str, unit: str, cases: dict[str, Callable[[], float]], detail: str) -> None:
        samples = take_turns(cases, sizes.rounds)
        report.rates.update({f"{figure}: {name}, {unit}": samples[name] for name in samples})
        report.add(ratio(figure, samples[ours.name], samples[node.name], detail=detail))

    compare(
        "server_append_vs_node",
        "MB/s",
        {peer.name: partial(append_mb, peer, body, sizes.append_mib) for peer in peers},
        "1 MB of JSON rows an append, one client",
    )
    backlogs = {peer.name: fill(peer, body, sizes.read_mib) for peer in peers}
    compare(
        "server_read_vs_node",
        "MB/s",
        {name: partial(read_mb, url) for name, url in backlogs.items()},
        f"{sizes.read_mib} MiB from the start, one client",
    )
    compare(
        "server_small_vs_node",
        "appends/s",
        {peer.name: partial(small_appends, peer, sizes.small_seconds) for peer in peers},
        "one row an append, 16 connections, one stream",
    )


# -- the work


def batch(size: int) -> bytes:
    """A JSON array of rows of about ``size`` bytes."""
    row = json.dumps(_ROW, separators=(",", ":"))
    return ("[" + ",".join([row] * (size // (len(row) + 1))) + "]").encode()


def fill(peer: Peer, body: bytes, count: int) -> str:
    url = new_stream(peer)
    message = request("POST", url, body=body)
    with Wire(url) as wire:
        for _ in range(count):
            status, _, _ = wire.send(message)
            if status != 204:
                raise RuntimeError(f"{peer.name} answered {status} to an append")
    return url


def append_mb(peer: Peer, body: bytes, count: int) -> float:
    """MB a second, one client, one append in flight."""

    def append() -> None:
        fill(peer, body, count)

    return rate(append, count * len(body) / 1e6)


def read_mb(url: str) -> float:
    """MB a second of a whole stream, read from its start in as many answers as it takes."""
    received = 0

    def read() -> None:
        nonlocal received
        received = read_all(url)

    seconds = 1 / rate(read, 1)
    return received / 1e6 / seconds


def read_all(url: str) -> int:
    offset, total = "-1", 0
    with Wire(url) as wire:
        while True:
            status, headers, length = wire.send(request("GET", f"{url}?offset={offset}"))
            if status != 200:
                raise RuntimeError(f"a read was answered {status}")
            total += length
            offset = headers["stream-next-offset"]
            if "stream-up-to-date" in headers:
                return total


def small_appends(peer: Peer, seconds: float) -> float:
    """Appends a second from 16 connections, driven by a process of its own: wrk where it is
    installed, as it costs the machine least, else our own generator."""
    row = json.dumps(_ROW, separators=(",", ":"))
    wrk = shutil.which("wrk")
    if wrk is None:
        command = [sys.executable, "-m", "spark_durable.bench.wire", new_stream(peer), row, "16"]
        return float(_output([*command, str(seconds)]))
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_WRK_SCRIPT.format(body=row))
        script.flush()
        command = [wrk, "-t1", "-c16", f"-d{round(seconds)}s", "-s", script.name, new_stream(peer)]
        output = _output(command)
    if "Non-2xx" in output:
        raise RuntimeError(f"{peer.name} refused appends:\n{output}")
    rates = re.findall(r"Requests/sec:\s+([\d.]+)", output)
    return float(rates[0])


def _output(command: list[str]) -> str:
    result = subprocess.run(  # noqa: S603 - our own arguments
        command, capture_output=True, text=True, check=True, timeout=120
    )
    return result.stdout


def write_and_read(peer: Peer, mib: int) -> None:
    url = fill(peer, batch(_MIB), mib)
    read_all(url)


def many_streams(peer: Peer, count: int) -> None:
    """Creates streams with a message each, and reads every one."""
    with Wire(peer.url) as wire:
        for number in range(count):
            url = f"{peer.url}/v1/stream/many/{number:06}"
            wire.send(request("PUT", url, body=b"[1]"))
        for number in range(count):
            wire.send(request("GET", f"{peer.url}/v1/stream/many/{number:06}"))
