"""``spark-durable streams`` as a user runs it: a process, a pipe, a real server."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spark_durable.protocol import ClientSettings, DurableClient
from spark_durable.server.embedded import EmbeddedServer
from tests.conftest import Server


def cli(
    *arguments: str, stdin: str = "", token: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin"} | ({"SPARK_DURABLE_TOKEN": token} if token else {})
    return subprocess.run(
        [sys.executable, "-m", "spark_durable", "streams", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


@pytest.fixture
def stream(embedded: Server) -> str:
    return embedded.stream("cli")


def test_append_then_cat_gives_the_lines_back(stream: str) -> None:
    lines = [json.dumps({"n": n, "text": "ü" * n}, ensure_ascii=False) for n in range(200)]
    done = cli("append", "--create", stream, stdin="\n".join(lines) + "\n")
    assert (done.returncode, done.stderr) == (0, "200 messages appended\n")
    assert cli("cat", stream).stdout.splitlines() == lines


def test_cat_goes_on_past_the_cap_of_one_response(stream: str) -> None:
    lines = [json.dumps({"n": n, "pad": "x" * 100_000}) for n in range(100)]
    assert cli("append", "--create", stream, stdin="\n".join(lines)).returncode == 0
    shown = cli("cat", stream).stdout.splitlines()
    assert [json.loads(line)["n"] for line in shown] == list(range(100))


def test_text_lines_are_messages(stream: str) -> None:
    cli("append", "--create", "--content-type", "text/plain", stream, stdin="one\ntwo\n")
    assert cli("cat", stream).stdout == "onetwo"


def test_tail_prints_what_arrives_and_ends_when_the_stream_is_closed(stream: str) -> None:
    with DurableClient() as client:
        client.create(stream)
        client.append(stream, b'[{"n":0}]')
        tail = subprocess.Popen(
            [sys.executable, "-m", "spark_durable", "streams", "tail", "--offset", "-1", stream],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert tail.stdout is not None
        assert tail.stdout.readline() == '{"n":0}\n'
        client.append(stream, b'[{"n":1},{"n":2}]')
        assert [tail.stdout.readline() for _ in range(2)] == ['{"n":1}\n', '{"n":2}\n']
        client.close_stream(stream)
        assert tail.wait(30) == 0
        tail.stdout.close()


def test_tail_stops_at_its_limit(stream: str) -> None:
    cli("append", "--create", stream, stdin="1\n2\n3\n")
    assert cli("tail", "--offset", "-1", "--limit", "2", stream).stdout == "1\n2\n"


def test_head_shows_what_the_server_knows(stream: str) -> None:
    cli("append", "--create", "--close", stream, stdin="1\n")
    facts = json.loads(cli("head", "--json", stream).stdout)
    assert facts["closed"] is True
    assert facts["content_type"] == "application/json"
    assert "closed             True" in cli("head", stream).stdout


def test_ls_lists_a_bucket_page_by_page(embedded_server: str) -> None:
    bucket = f"{embedded_server}/ds/cli-listing"
    with DurableClient() as client:
        client.create_bucket(bucket)
        for n in range(1100):
            client.create(f"{bucket}/s{n:04}")
    listed = [
        json.loads(line)["stream_id"] for line in cli("ls", "--json", bucket).stdout.splitlines()
    ]
    assert listed == [f"s{n:04}" for n in range(1100)]
    assert len(cli("ls", "--prefix", "s00", bucket).stdout.splitlines()) == 1 + 100


def test_snapshot_is_published_at_the_tail_and_printed(stream: str) -> None:
    cli("append", "--create", stream, stdin='{"n":1}\n{"n":2}\n')
    assert cli("snapshot", "--publish", "-", stream, stdin='[{"n":2}]').returncode == 0
    assert cli("snapshot", stream).stdout == '[{"n":2}]'


def test_errors_are_one_line_and_exit_code_1(stream: str) -> None:
    missing = cli("cat", stream)
    assert missing.returncode == 1
    assert missing.stderr.startswith("spark-durable: read ")
    assert len(missing.stderr.splitlines()) == 1
    unreachable = cli("head", "http://127.0.0.1:1/ds/shop/orders")
    assert unreachable.returncode == 1
    assert "Check that the server runs" in unreachable.stderr


def test_wrong_arguments_are_exit_code_2() -> None:
    assert cli("cat").returncode == 2
    assert cli("nothing").returncode == 2


def test_token_comes_from_the_environment_and_is_never_shown() -> None:
    with EmbeddedServer(token="s3cr3t") as server:
        url = f"{server.url}/v1/stream/guarded"
        with DurableClient(ClientSettings(token="s3cr3t")) as client:
            client.create(url)
        assert cli("head", url, token="s3cr3t").returncode == 0
        refused = cli("head", url, token="wr0ng")
        assert refused.returncode == 1
        assert "wr0ng" not in refused.stderr
