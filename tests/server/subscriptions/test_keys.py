from __future__ import annotations

import base64
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from spark_durable.server.subscriptions.keys import TokenSealer, WebhookSigner
from spark_durable.server.subscriptions.model import SubscriptionError

SECRET = bytes(range(32))


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_signatures_verify_with_the_published_key() -> None:
    signer = WebhookSigner(SECRET)
    (jwk,) = signer.jwks()["keys"]
    header = signer.signature_header(b'{"a":1}', now=1700000000.9)
    match = re.fullmatch(r"t=(\d+),kid=([^,]+),ed25519=([\w-]+)", header)
    assert match
    assert match[1] == "1700000000"
    assert match[2] == jwk["kid"]
    key = Ed25519PublicKey.from_public_bytes(decode(jwk["x"]))
    key.verify(decode(match[3]), b'1700000000.{"a":1}')


def test_the_key_id_belongs_to_the_key() -> None:
    assert WebhookSigner(SECRET).key_id == WebhookSigner(SECRET).key_id
    assert WebhookSigner(SECRET).key_id != WebhookSigner(bytes(32)).key_id


def test_tokens_open_for_their_subscription_only() -> None:
    sealer = TokenSealer(SECRET)
    token = sealer.seal("sub", 7)
    assert sealer.open(token, "sub") == 7
    with pytest.raises(SubscriptionError, match="another subscription"):
        sealer.open(token, "other")


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: "x" + t, lambda t: "", lambda t: "é.é"]
)
def test_tokens_not_issued_here_are_refused(change) -> None:
    sealer = TokenSealer(SECRET)
    with pytest.raises(SubscriptionError) as refusal:
        sealer.open(change(sealer.seal("sub", 7)), "sub")
    assert (refusal.value.status, refusal.value.code) == (401, "TOKEN_INVALID")
    with pytest.raises(SubscriptionError):
        TokenSealer(bytes(32)).open(sealer.seal("sub", 7), "sub")


def test_tokens_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    sealer = TokenSealer(SECRET)
    token = sealer.seal("sub", 7)
    later = time.time() + 2 * 86_400
    monkeypatch.setattr("time.time", lambda: later)
    with pytest.raises(SubscriptionError) as refusal:
        sealer.open(token, "sub")
    assert refusal.value.code == "TOKEN_EXPIRED"
