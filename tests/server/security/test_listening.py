"""Where the server listens, to whom, and over what."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.config import ServerConfig
from spark_durable.server.tokens import Token

BEYOND = ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "streams.example", ""]


def serve(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_durable", "serve", "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


@pytest.mark.parametrize("host", BEYOND)
def test_refuses_to_listen_beyond_loopback_without_a_token_unless_told_twice(host: str) -> None:
    with pytest.raises(ValueError, match="no token"):
        ServerConfig(host=host)
    with pytest.raises(ValueError, match="no token"):
        EmbeddedServer(host=host)
    assert ServerConfig(host=host, token="s3cret").host == host
    assert ServerConfig(host=host, tokens=(Token("s3cret"),)).host == host
    assert ServerConfig(host=host, allow_anonymous=True).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    assert ServerConfig(host=host).host == host


def test_the_command_refuses_too_and_says_the_ways_on() -> None:
    refused = serve("--host", "0.0.0.0")
    assert refused.returncode == 2
    assert "--allow-anonymous" in refused.stderr
    assert "token" in refused.stderr
    assert refused.stdout == ""


# -- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    directory = tmp_path_factory.mktemp("tls")
    (directory / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return directory / "cert.pem", directory / "key.pem"


@pytest.fixture(scope="module")
def secure(certificate: tuple[Path, Path]) -> Iterator[str]:
    cert, key = certificate
    with EmbeddedServer(tls_cert=cert, tls_key=key, long_poll_timeout=0.2) as server:
        yield server.url


def test_tls_by_certificate_options(secure: str, certificate: tuple[Path, Path]) -> None:
    assert secure.startswith("https://127.0.0.1:")
    url = f"{secure}/v1/stream/s"
    with requests.Session() as session:
        session.trust_env = False  # or the environment decides whom to trust
        session.verify = str(certificate[0])
        created = session.put(url, data=b"x" * 300_000, headers={"Content-Type": "text/plain"})
        assert created.status_code == 201
        assert created.headers["Location"] == url
        assert session.get(url).content == b"x" * 300_000
        assert session.get(f"{url}?offset=now&live=long-poll").status_code == 204
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(url, timeout=10)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_of_old_versions_is_refused(secure: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    address = ("127.0.0.1", int(secure.rsplit(":", 1)[1]))
    with (
        socket.create_connection(address, timeout=10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain)


def test_plain_http_on_a_tls_port_gets_nothing(secure: str, dial) -> None:
    with dial(secure) as connection:
        connection.sendall(b"GET /v1/stream/s HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not connection.read_all().startswith(b"HTTP/1.1 2")


def test_the_command_serves_https(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    arguments = ["--port", "0", "--tls-cert", str(cert), "--tls-key", str(key)]
    with subprocess.Popen(
        [sys.executable, "-m", "spark_durable", "serve", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[4]
        try:
            answer = requests.get(f"{url}/v1/stream/s", verify=str(cert), timeout=10)
            assert answer.status_code == 404
        finally:
            process.terminate()


def test_certificates_that_cannot_be_used_are_named(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    missing = tmp_path / "none.pem"
    refused = serve("--tls-cert", str(missing))
    assert refused.returncode == 1
    assert str(missing) in refused.stderr
    assert "Traceback" not in refused.stderr
    with pytest.raises(ValueError, match=r"none\.pem"):
        EmbeddedServer(tls_cert=missing)
    with pytest.raises(ValueError, match=r"cert\.pem"):
        EmbeddedServer(tls_cert=certificate[0])  # without its key
    with pytest.raises(ValueError, match="tls_cert"):
        ServerConfig(tls_key=certificate[1])
