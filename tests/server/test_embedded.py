"""EmbeddedServer: started by making it, stopped by leaving the block."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
import requests

import spark_durable
from spark_durable.server import EmbeddedServer

TEXT = {"Content-Type": "text/plain"}


def test_serves_inside_the_block_and_not_after() -> None:
    with spark_durable.EmbeddedServer() as server:
        url = f"{server.url}/v1/stream/s"
        assert requests.put(url, headers=TEXT, data=b"x", timeout=10).status_code == 201
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=10)


def test_stop_may_be_called_again() -> None:
    server = EmbeddedServer()
    server.stop()
    server.stop()


def test_several_servers_live_side_by_side() -> None:
    with EmbeddedServer() as one, EmbeddedServer() as two:
        assert one.url != two.url
        requests.put(f"{one.url}/v1/stream/s", headers=TEXT, timeout=10)
        assert requests.get(f"{two.url}/v1/stream/s", timeout=10).status_code == 404


def test_a_data_directory_outlives_the_server(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        requests.put(f"{server.url}/v1/stream/s", headers=TEXT, data=b"kept", timeout=10)
    with EmbeddedServer(str(tmp_path)) as server:
        assert requests.get(f"{server.url}/v1/stream/s", timeout=10).content == b"kept"


def test_a_directory_in_use_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path), pytest.raises(Exception, match=str(tmp_path)):
        EmbeddedServer(tmp_path)


def test_a_taken_port_is_an_error_of_the_caller() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            EmbeddedServer(port=taken.getsockname()[1])


def test_unknown_limits_are_refused() -> None:
    with pytest.raises(TypeError, match="max_apend"):
        EmbeddedServer(max_apend_bytes=1)


@pytest.mark.parametrize(
    "limits", [{"max_append_bytes": 0}, {"long_poll_timeout": 0}, {"token": ""}]
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        EmbeddedServer(**limits)


def test_stop_ends_live_readers_at_once() -> None:
    server = EmbeddedServer()
    url = f"{server.url}/v1/stream/s"
    requests.put(url, headers=TEXT, timeout=10)
    statuses: list[int] = []

    def poll() -> None:
        params = {"offset": "now", "live": "long-poll", "timeout_ms": "60000"}
        statuses.append(requests.get(url, params=params, timeout=70).status_code)

    waiting = threading.Thread(target=poll)
    waiting.start()
    time.sleep(0.2)
    server.stop()
    waiting.join(10)
    assert statuses == [204]


def test_the_token_shows_nowhere() -> None:
    with EmbeddedServer(token="top-secret") as server:
        assert "top-secret" not in repr(server) + repr(server.config)
