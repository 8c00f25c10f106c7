"""The ten lines of the README for users of plain HTTP run as they stand, as often as one likes."""

from __future__ import annotations

import contextlib
import io

from tests.conftest import Server

EXAMPLE = """\
from spark_durable.protocol import DurableClient, Producer

url = "http://127.0.0.1:4437/v1/stream/hello"
with DurableClient() as client:
    client.create(url)                               # or find it there
    producer = Producer(client, url, "me", epoch=0)  # retries, and stores each send once
    producer.send(b'[{"n": 1}, {"n": 2}]')           # two messages in one append
    with client.read(url) as response:               # from the beginning
        for message in response.messages():
            print(message.decode())
    print("continue at", response.next_offset)
"""


def test_the_example_runs_and_a_second_run_adds_nothing(server: Server) -> None:
    program = EXAMPLE.replace("http://127.0.0.1:4437/v1/stream/hello", server.stream("hello"))
    assert program != EXAMPLE
    outputs = []
    for _ in range(2):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "README.md", "exec"), {})
        outputs.append(printed.getvalue())
    first, second = outputs
    assert first == second
    assert first.replace(" ", "").splitlines()[:2] == ['{"n":1}', '{"n":2}']
    assert first.splitlines()[2].startswith("continue at ")
