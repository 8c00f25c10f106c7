"""The settings file: the example, every setting, and what is said about mistakes."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import requests

from spark_durable.server.config import ServerConfig
from spark_durable.server.config_file import read_config_file
from spark_durable.server.tokens import Token

EXAMPLE = Path(__file__).parents[2] / "conf" / "server.toml"
# Settings whose default cannot be written down; the example shows a value.
WITHOUT_DEFAULT = {
    "token",
    "tls_cert",
    "tls_key",
    "public_url",
    "allowed_hosts",
    "cors_origins",
    "max_memory_bytes",
}


def test_the_example_loads() -> None:
    config = ServerConfig(**read_config_file(EXAMPLE))
    assert config.data_dir == EXAMPLE.parent / "../data"
    assert config == ServerConfig(data_dir=config.data_dir)


def test_the_example_has_every_setting_with_its_default(tmp_path: Path) -> None:
    setting = re.compile(r"(?m)^# ((?:\w+ = |\[\[).*)$")
    everything = tmp_path / "server.toml"
    everything.write_text(setting.sub(r"\1", EXAMPLE.read_text()))
    found = read_config_file(everything)
    assert set(found) == {field.name for field in fields(ServerConfig)}
    default = ServerConfig()
    for name in set(found) - WITHOUT_DEFAULT - {"data_dir", "tokens"}:
        assert found[name] == getattr(default, name), name
    assert found["tokens"] == (
        Token(name="dashboards", secret_file=Path("/run/secrets/dashboards"), write=False),
        Token(name="shop", secret="...", buckets=("shop", "shop-archive")),
    )
    assert found["tls_cert"] == tmp_path / "cert.pem"
    ServerConfig(**found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "there is no setting prot; did you mean port?"),
        ("zzz = 1", "there is no setting zzz; known: host, port"),
        ("[limits]\nport = 1", "there is no setting limits"),
        (
            '[[tokens]]\nsecrt = "x"',
            "there is no setting tokens.secrt; did you mean tokens.secret?",
        ),
        ('port = "80"', "port: Expected `int`, got `str`"),
        ("port = true", "port: Expected `int`, got `bool`"),
        ("webhooks = 1", "webhooks: Expected `bool`, got `int`"),
        ("data_dir = 1", "data_dir: Expected `str`, got `int`"),
        ('allowed_hosts = "a"', "allowed_hosts: Expected `array | null`, got `str`"),
        ("[[tokens]]\nwrite = true", "tokens: a token needs either secret or secret_file"),
        ('tokens = "x"', "tokens: Expected `array`, got `str`"),
        ("port 1", "is not TOML"),
        ("host = '\\xff'".replace("\\xff", "\udcff"), "is not TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "server.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        read_config_file(file)
    assert str(file) in str(error.value)


def test_no_secret_shows_in_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[[tokens]]\nsecret = "top secret"\n')
    with pytest.raises(ValueError, match="without spaces") as error:
        read_config_file(file)
    assert "top" not in str(error.value)


def test_whole_numbers_are_times_too(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("long_poll_timeout = 3")
    assert read_config_file(file) == {"long_poll_timeout": 3.0}


def serve(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spark_durable", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


def test_the_command_takes_the_file_and_arguments_before_it(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(
        'port = 1\ndata_dir = "data"\nmax_append_bytes = 10\n'
        '[[tokens]]\nsecret = "reads"\nwrite = false\n[[tokens]]\nsecret = "writes"\n'
    )
    # The environment's token is for clients where the file has tokens: it opens nothing here.
    environment = {"SPARK_DURABLE_TOKEN": "environment"}
    process = serve("--config", str(file), "--port", "0", **environment)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[4] + "/v1/stream/s"

        def put(token: str, body: bytes = b"") -> int:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "text/plain"}
            return requests.put(url, headers=headers, data=body, timeout=10).status_code

        assert [put("environment"), put("reads"), put("writes")] == [401, 403, 201]
        assert put("writes", b"x" * 11) == 413
        assert (tmp_path / "data" / "FORMAT").exists()
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.parametrize("text", ["prot = 1", 'host = "0.0.0.0"', None])
def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "server.toml"
    if text is not None:
        file.write_text(text)
    process = serve("--config", str(file))
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 2
    assert len(stderr.splitlines()) == 1
    assert stderr.startswith("spark-durable: ")
