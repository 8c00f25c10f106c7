"""What reached the server, what did not, and where credentials go: on scripted sockets."""

from __future__ import annotations

import datetime
import gzip
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from spark_durable.protocol import (
    ClientSettings,
    DurableClient,
    MalformedResponseError,
    NotSentError,
    OptionError,
    OutcomeUnknownError,
    PayloadTooLargeError,
    ProducerTriple,
)
from spark_durable.protocol.transport import MAX_REDIRECTS
from tests.protocol.conftest import Scripted
from tests.protocol.scripted import ScriptedServer, Wire, head, keep, respond, say

FAST = ClientSettings(connect_timeout=2, read_timeout=0.5)
OK = respond(204, {"Stream-Next-Offset": "5"})
TRIPLE = ProducerTriple("p", 3, 7)


def append(server: ScriptedServer, settings: ClientSettings = FAST) -> None:
    with DurableClient(settings) as client:
        client.append(f"{server.url}/s?key=hunter2", b"[1]", producer=TRIPLE)


# --- was it sent? -------------------------------------------------------------------------------


def test_a_refused_connection_was_not_sent(client: DurableClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(NotSentError, match="Connection refused"):
        client.append(f"http://127.0.0.1:{port}/s", b"[1]")


def test_an_unknown_host_was_not_sent(client: DurableClient) -> None:
    with pytest.raises(NotSentError):
        client.append("http://host.invalid/s", b"[1]")


def test_a_connect_timeout_was_not_sent() -> None:
    # A listener whose backlog is full takes no further connection and refuses none.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        settings = ClientSettings(connect_timeout=0.3)
        with DurableClient(settings) as client, pytest.raises(NotSentError):
            client.append(f"http://127.0.0.1:{full.getsockname()[1]}/s", b"[1]")
        for filler in fillers:
            filler.close()


def test_a_failed_handshake_was_not_sent(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(OK, on_connect=Wire.close)
    with pytest.raises(NotSentError):
        client.append(server.url.replace("http:", "https:") + "/s", b"[1]")


def test_a_proxy_that_refuses_to_connect_was_not_sent(
    monkeypatch: pytest.MonkeyPatch, client: DurableClient, scripted: Scripted
) -> None:
    proxy = scripted(respond(502))
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(NotSentError):
        client.append("https://stream.example/s", b"[1]")
    assert [request.method for request in proxy.requests] == ["CONNECT"]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(say(then=Wire.close), id="closed after the request"),
        pytest.param(say(then=Wire.reset), id="reset after the request"),
        pytest.param(say(then=keep), id="silence"),
        pytest.param(say(b"HTTP/1.1 20"), id="cut in the status line"),
        pytest.param(say(b"HTTP/1.1 200 OK\r\nStream-Next"), id="cut in the headers"),
        pytest.param(say(b"\x16\x03\x01 garbage\r\n\r\n"), id="garbage"),
        pytest.param(
            say(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"), id="endless headers"
        ),
        pytest.param(respond(500), id="500"),
        pytest.param(respond(502), id="502"),
        pytest.param(respond(504), id="504"),
        pytest.param(respond(408), id="408"),
    ],
)
def test_whatever_fails_after_the_first_byte_may_have_been_applied(step: object) -> None:
    with ScriptedServer(step) as server:  # type: ignore[arg-type]
        with pytest.raises(OutcomeUnknownError) as caught:
            append(server)
        assert len(server.requests) == 1, "one call is one attempt"
    text = str(caught.value)
    assert "producer p, epoch 3, seq 7" in text
    assert "hunter2" not in text


def test_a_reset_before_the_whole_body_was_sent_may_have_been_applied(
    client: DurableClient, scripted: Scripted
) -> None:
    def reset_early(wire: Wire) -> None:
        wire.socket.recv(1000)
        wire.reset()

    body = bytes(20_000_000)
    server = scripted(OK, on_connect=reset_early)
    with pytest.raises(OutcomeUnknownError):
        client.append(f"{server.url}/s", body, producer=TRIPLE)
    assert server.requests == []


def test_a_kept_connection_that_the_server_closed_is_replaced(
    client: DurableClient, scripted: Scripted
) -> None:
    closed = threading.Event()

    def once(wire: Wire) -> None:
        OK(wire)
        wire.close()
        closed.set()

    server = scripted(once, OK)
    client.append(f"{server.url}/s", b"[1]")
    assert closed.wait(10)
    client.append(f"{server.url}/s", b"[2]")
    assert server.connections == 2


def test_connections_are_kept_whatever_body_comes_with_an_acknowledgement(
    client: DurableClient, scripted: Scripted
) -> None:
    told = {"Stream-Next-Offset": "5"}
    server = scripted(
        OK,
        respond(200, told),
        respond(200, told, b"thank you"),
        say(head(200, {**told, "Transfer-Encoding": "chunked"}), b"0\r\n\r\n", then=keep),
        say(
            head(200, {**told, "Transfer-Encoding": "chunked"}), b"2\r\nok\r\n0\r\n\r\n", then=keep
        ),
        OK,
    )
    for _ in range(6):
        client.append(f"{server.url}/s", b"[1]")
    assert server.connections == 1


@pytest.mark.parametrize("then", [Wire.close, keep])
def test_an_acknowledgement_counts_even_if_its_body_is_cut(
    client: DurableClient, scripted: Scripted, then: Callable[[Wire], None]
) -> None:
    """To call it unknown would have a caller without a producer store the append twice."""
    cut = head(200, {"Stream-Next-Offset": "5", "Content-Length": "10"}) + b"thank"
    server = scripted(say(cut, then=then))
    assert client.append(f"{server.url}/s", b"[1]").next_offset == "5"


def test_a_body_nobody_wants_is_not_read_to_its_end(
    client: DurableClient, scripted: Scripted
) -> None:
    endless = say(
        head(200, {"Stream-Next-Offset": "5", "Transfer-Encoding": "chunked"}),
        *[b"10000\r\n" + bytes(65536) + b"\r\n"] * 3,
        then=keep,
    )
    server = scripted(endless)
    client.append(f"{server.url}/s", b"[1]")


def test_an_answer_given_before_the_body_was_read_is_heard(
    client: DurableClient, scripted: Scripted
) -> None:
    def refuse(wire: Wire) -> None:
        wire.socket.recv(1000)
        wire.send(head(413, {"Content-Length": "0", "Connection": "close"}))
        while wire.socket.recv(1 << 20):
            pass

    server = scripted(OK, on_connect=refuse)
    with pytest.raises(PayloadTooLargeError, match="maxAppendBytes"):
        client.append(f"{server.url}/s", bytes(5_000_000), producer=TRIPLE)


def test_a_slow_upload_is_no_stall(scripted: Scripted) -> None:
    """Neither timeout bounds the upload as a whole, which takes about three seconds here."""
    body = bytes(64 << 20)

    def sip(wire: Wire) -> None:
        received = 0
        while received < len(body):
            received += len(wire.socket.recv(1 << 20, socket.MSG_WAITALL))
            time.sleep(0.05)
        OK(wire)

    server = scripted(OK, on_connect=sip)
    with DurableClient(ClientSettings(connect_timeout=1, read_timeout=1.5)) as client:
        client.append(f"{server.url}/s", body)


def test_a_server_that_begins_to_read_late_is_no_failed_connection(scripted: Scripted) -> None:
    """Once connected, the read timeout holds; the other is far too short for a busy server."""
    body = bytes(32 << 20)

    def late(wire: Wire) -> None:
        time.sleep(0.6)

    server = scripted(OK, on_connect=late)
    with DurableClient(ClientSettings(connect_timeout=0.2, read_timeout=20)) as client:
        client.append(f"{server.url}/s", body)


# --- bodies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size", [0, 3, 3_000_000])
def test_every_kind_of_body_arrives_with_its_length(
    kind: type, size: int, client: DurableClient, scripted: Scripted
) -> None:
    body = kind(bytes(range(256)) * (size // 256 + 1))[:size]
    server = scripted(OK)
    client.append(f"{server.url}/s", body, close=True)
    (request,) = server.requests
    assert request.body == bytes(body)
    assert request.headers["content-length"] == str(size)
    assert "transfer-encoding" not in request.headers


def test_compression_is_never_asked_for_but_understood(
    client: DurableClient, scripted: Scripted
) -> None:
    packed = gzip.compress(b'["a"]')
    step = respond(200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}, packed)
    server = scripted(step)
    with client.read(f"{server.url}/s") as response:
        assert response.content_length is None, "the length is that of the packed body"
        assert list(response.messages()) == [b'"a"']
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_a_broken_compression_is_an_error(client: DurableClient, scripted: Scripted) -> None:
    step = respond(200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, b"not gzip")
    server = scripted(step)
    with client.read(f"{server.url}/s") as response, pytest.raises(OutcomeUnknownError):
        response.read()


def test_an_encoding_nobody_asked_for_and_nobody_knows_is_an_error(
    client: DurableClient, scripted: Scripted
) -> None:
    step = respond(200, {"Content-Type": "text/plain", "Content-Encoding": "rot13"}, b"uryyb")
    url = scripted(step).url + "/s"
    with client.read(url) as response, pytest.raises(MalformedResponseError, match="rot13"):
        response.read()


@pytest.mark.parametrize("name", ["a\nb", "a\r\nHost: b", "snowman ☃"])
def test_a_producer_that_is_no_header_value_is_refused_before_sending(
    name: str, client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(OK)
    with pytest.raises(OptionError):
        client.append(f"{server.url}/s", b"1", producer=ProducerTriple(name, 0, 0))
    assert server.requests == []


@pytest.mark.parametrize("url", ["", "s", "/s", "ftp://127.0.0.1/s", "http://", "http://[/s"])
@pytest.mark.parametrize("port", [":x", ""])
def test_what_is_no_url_is_an_option_error(url: str, port: str, client: DurableClient) -> None:
    with pytest.raises(OptionError):
        client.head(url or f"http://127.0.0.1{port or ':99999'}/s")


# --- redirects ----------------------------------------------------------------------------------

SECRET = ClientSettings(token="hunter2", headers={"X-Api-Key": "hunter3"}, read_timeout=2)


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_origin_repeats_the_request_with_credentials(
    status: int, scripted: Scripted
) -> None:
    step = respond(status, {"Location": "/leader/s?x=1"})
    server = scripted(step, OK)
    append(server, SECRET)
    first, second = server.requests
    assert second.target == "/leader/s?x=1"
    assert (second.method, second.body) == ("POST", b"[1]")
    for request in (first, second):
        assert request.headers["authorization"] == "Bearer hunter2"
        assert request.headers["x-api-key"] == "hunter3"
        assert request.headers["producer-seq"] == "7"


def test_a_redirect_to_another_origin_loses_the_credentials_only(scripted: Scripted) -> None:
    other = scripted(OK)
    server = scripted(respond(307, {"Location": f"{other.url}/s"}))
    append(server, SECRET)
    (request,) = other.requests
    assert request.body == b"[1]"
    assert request.headers["producer-id"] == "p"
    assert "authorization" not in request.headers
    assert "x-api-key" not in request.headers


def test_userinfo_stays_on_its_origin_and_out_of_locations(
    client: DurableClient, scripted: Scripted
) -> None:
    other = scripted(OK)
    location = f"{other.url}/s".replace("http://", "http://eve:pw@")
    server = scripted(respond(307, {"Location": location}))
    client.append(server.url.replace("http://", "http://bob:secret@") + "/s", b"1")
    assert server.requests[0].headers["authorization"].startswith("Basic ")
    assert "authorization" not in other.requests[0].headers


def test_coming_back_to_the_first_origin_brings_the_credentials_back(scripted: Scripted) -> None:
    server = scripted(respond(307, {"Location": "/x"}), OK)
    other = scripted(respond(307, {"Location": f"{server.url}/s"}))
    server._steps[0] = respond(307, {"Location": f"{other.url}/s"})
    append(server, SECRET)
    assert "authorization" not in other.requests[0].headers
    assert server.requests[1].headers["authorization"] == "Bearer hunter2"


def test_redirects_are_bounded(scripted: Scripted) -> None:
    server = scripted(respond(307, {"Location": "/s"}))
    with pytest.raises(MalformedResponseError, match="redirects"):
        append(server)
    assert len(server.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_turn_an_append_into_a_read_is_not_followed(
    status: int, scripted: Scripted
) -> None:
    server = scripted(respond(status, {"Location": "/t"}), OK)
    with pytest.raises(MalformedResponseError, match="final URL"):
        append(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_reads_follow_every_redirect(
    status: int, client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(status, {"Location": "/t"}), respond(200, {}, b"x"))
    with client.read(f"{server.url}/s") as response:
        assert response.read() == b"x"
    assert [request.path for request in server.requests] == ["/s", "/t"]


@pytest.mark.parametrize("location", ["", "file:///etc/passwd", "ftp://127.0.0.1/s"])
def test_a_redirect_to_nowhere_is_an_error(location: str) -> None:
    headers = {"Location": location} if location else {}
    with ScriptedServer(respond(307, headers)) as server, pytest.raises(MalformedResponseError):
        append(server)


# --- TLS ----------------------------------------------------------------------------------------


class Authority(NamedTuple):
    ca_file: str
    context: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A self-signed certificate for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder: Path = tmp_path_factory.mktemp("tls")
    pem, key_pem = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key_pem)
    return Authority(str(pem), context)


def test_a_certificate_of_an_unknown_authority_is_refused_and_nothing_sent(
    authority: Authority, scripted: Scripted
) -> None:
    server = scripted(OK, tls=authority.context)
    with pytest.raises(NotSentError, match="caFile"):
        append(server)
    assert server.requests == []


def test_the_authority_of_ca_file_is_accepted_and_large_bodies_pass(
    authority: Authority, scripted: Scripted
) -> None:
    server = scripted(OK, tls=authority.context)
    with DurableClient(ClientSettings(ca_file=authority.ca_file)) as client:
        client.append(f"{server.url}/s", bytes(3_000_000))
    assert len(server.requests[0].body) == 3_000_000


def test_ca_file_wins_over_the_environment(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scripted: Scripted
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    server = scripted(OK, tls=authority.context)
    append(server, ClientSettings(ca_file=authority.ca_file))


def test_the_ca_bundle_of_the_environment_is_used(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, scripted: Scripted
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", authority.ca_file)
    server = scripted(OK, tls=authority.context)
    append(server)


def test_a_missing_ca_file_is_named(tmp_path: Path) -> None:
    settings = ClientSettings(ca_file=str(tmp_path / "missing.pem"))
    with DurableClient(settings) as client, pytest.raises(OptionError, match="caFile"):
        client.head("https://127.0.0.1:1/s")


def test_a_redirect_from_https_to_http_is_refused(authority: Authority, scripted: Scripted) -> None:
    plain = scripted(OK)
    step = respond(307, {"Location": f"{plain.url}/s"})
    server = scripted(step, tls=authority.context)
    with pytest.raises(MalformedResponseError, match="encrypted"):
        append(server, ClientSettings(ca_file=authority.ca_file))
    assert plain.requests == []


def test_a_failure_after_the_handshake_may_have_been_applied(
    authority: Authority, scripted: Scripted
) -> None:
    server = scripted(say(then=Wire.reset), tls=authority.context)
    with pytest.raises(OutcomeUnknownError):
        append(server, ClientSettings(ca_file=authority.ca_file))


# --- the environment ----------------------------------------------------------------------------


def test_a_proxy_of_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, client: DurableClient, scripted: Scripted
) -> None:
    proxy = scripted(OK)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "")
    client.append("http://stream.example/s", b"[1]")
    assert proxy.requests[0].target == "http://stream.example/s"


def test_a_token_is_not_replaced_by_netrc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scripted: Scripted
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login bob password pw\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server = scripted(OK)
    append(server, SECRET)
    append(server)
    first, second = server.requests
    assert first.headers["authorization"] == "Bearer hunter2"
    assert second.headers["authorization"].startswith("Basic "), "without a token, as requests does"


def test_settings_headers_replace_ours_whatever_their_case(scripted: Scripted) -> None:
    server = scripted(OK)
    append(server, ClientSettings(headers={"user-agent": "mine", "AUTHORIZATION": "Custom x"}))
    (request,) = server.requests
    assert request.headers["user-agent"] == "mine"
    assert request.headers["authorization"] == "Custom x"


def test_users_and_passwords_of_any_script(scripted: Scripted) -> None:
    server = scripted(OK)
    with DurableClient(FAST) as client:
        client.append(server.url.replace("http://", "http://j%C3%B6rg:%E2%98%83@") + "/s", b"1")
    assert server.requests[0].headers["authorization"] == "Basic asO2cmc64piD"


def test_urls_are_quoted_once(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(OK)
    for path in ("/a b/é", "/a%20b/%C3%A9", "/a%2Fb", ""):
        client.append(f"{server.url}{path}", b"1")
    paths = [request.target for request in server.requests]
    assert paths == ["/a%20b/%C3%A9", "/a%20b/%C3%A9", "/a%2Fb", "/"]
