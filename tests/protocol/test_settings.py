"""Settings travel, resolve credentials where the request is sent, and show no secret."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest

from spark_durable.protocol import ClientSettings, DurableClient, OptionError
from tests.protocol.conftest import Scripted
from tests.protocol.scripted import respond

SECRETS = ClientSettings(token="hunter2", headers={"X-Api-Key": "hunter3"})


def test_they_pickle_and_copy() -> None:
    assert pickle.loads(pickle.dumps(SECRETS)) == SECRETS
    assert copy.deepcopy(SECRETS) == SECRETS


def test_their_text_shows_no_secret() -> None:
    for text in (repr(SECRETS), str(SECRETS), f"{SECRETS}", repr({"settings": SECRETS})):
        assert "hunter" not in text
        assert "X-Api-Key" in text


def test_secrets_are_scrubbed_from_other_texts() -> None:
    assert SECRETS.scrub("token hunter2, key hunter3") == "token ***, key ***"


def test_short_header_values_are_no_secrets() -> None:
    assert ClientSettings(headers={"X-Tenant": "1"}).scrub("answered 413") == "answered 413"


def test_they_are_frozen() -> None:
    with pytest.raises(AttributeError):
        SECRETS.token = "x"  # type: ignore[misc]


def authorization(
    scripted: Scripted, settings: ClientSettings, between: object = None
) -> list[str]:
    """The header of two requests of one client, with something done in between."""
    server = scripted(respond(200, {"Stream-Next-Offset": "0"}))
    with DurableClient(settings) as client:
        client.head(f"{server.url}/s")
        if callable(between):
            between()
        client.head(f"{server.url}/s")
    return [request.headers.get("authorization", "") for request in server.requests]


def test_a_token_in_a_file_may_rotate(scripted: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    settings = pickle.loads(pickle.dumps(ClientSettings(token_file=str(file))))
    found = authorization(scripted, settings, lambda: file.write_text("second"))
    assert found == ["Bearer first", "Bearer second"]


def test_a_token_in_the_environment(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_TOKEN", "from-env")
    settings = ClientSettings(token_env="STREAM_TOKEN")
    assert authorization(scripted, settings) == ["Bearer from-env"] * 2
    assert b"from-env" not in pickle.dumps(settings)


def test_a_token_from_a_provider(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["one", "two"])
    module = ModuleType("vault_of_mine")
    module.current = lambda: next(tokens)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vault_of_mine", module)
    settings = ClientSettings(token_provider="vault_of_mine:current")
    assert authorization(scripted, settings) == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (ClientSettings(token_env="NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE"),
        (ClientSettings(token_file="/no/such/file"), "/no/such/file"),
        (ClientSettings(token_provider="no_such_module:x"), "no_such_module"),
        (ClientSettings(token_provider="json:no_such"), "json:no_such"),
        (ClientSettings(token_provider="json"), "json"),
        (ClientSettings(token_provider="gc:disable"), "returned no token"),
        (ClientSettings(token_provider="json:loads"), "failed with TypeError"),
    ],
)
def test_a_source_that_gives_no_token_is_named_and_nothing_is_sent(
    scripted: Scripted, settings: ClientSettings, named: str
) -> None:
    server = scripted(respond(200, {"Stream-Next-Offset": "0"}))
    with DurableClient(settings) as client, pytest.raises(OptionError, match=named):
        client.head(f"{server.url}/s")
    assert server.requests == []


def test_two_sources_contradict_each_other() -> None:
    with pytest.raises(OptionError, match="token, token_env"):
        ClientSettings(token="x", token_env="Y")


@pytest.mark.parametrize("name", ["connect_timeout", "read_timeout"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_timeout_must_be_one(name: str, value: float) -> None:
    with pytest.raises(OptionError, match="timeout"):
        ClientSettings(**{name: value})  # type: ignore[arg-type]


def test_a_token_that_is_no_header_value_is_not_shown(scripted: Scripted) -> None:
    server = scripted(respond(200, {"Stream-Next-Offset": "0"}))
    for token in ("hunter2\n", "hunter2☃"):
        settings = ClientSettings(token=token)
        with DurableClient(settings) as client, pytest.raises(OptionError) as caught:
            client.head(f"{server.url}/s")
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
    assert server.requests == []
