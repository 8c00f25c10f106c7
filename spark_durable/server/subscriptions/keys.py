"""Keys: what webhooks are signed with, and what callback and claim tokens are sealed with."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .model import SubscriptionError

# The lease ends a worker's claim; a token's own end only bounds how long a lost one matters.
_TOKEN_LIFE_S: Final = 86_400


class WebhookSigner:
    """Signs deliveries with Ed25519. The key id is the key's thumbprint, stable with it."""

    def __init__(self, private_key: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private_key)
        self._x = _encode(self._key.public_key().public_bytes_raw())
        thumbprint = json.dumps(
            {"crv": "Ed25519", "kty": "OKP", "x": self._x}, separators=(",", ":")
        )
        self.key_id = "ds_" + _encode(hashlib.sha256(thumbprint.encode()).digest())

    def jwks(self) -> dict[str, Any]:
        key = {"kty": "OKP", "crv": "Ed25519", "x": self._x, "kid": self.key_id}
        return {"keys": [{**key, "use": "sig", "alg": "EdDSA"}]}

    def signature_header(self, body: bytes, now: float | None = None) -> str:
        timestamp = int(time.time() if now is None else now)
        signature = self._key.sign(f"{timestamp}.".encode() + body)
        return f"t={timestamp},kid={self.key_id},ed25519={_encode(signature)}"


class TokenSealer:
    """Tokens name a subscription and a generation. Their text is public, their seal is not."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal(self, subscription: str, generation: int) -> str:
        claims = {"sub": subscription, "gen": generation, "exp": int(time.time()) + _TOKEN_LIFE_S}
        payload = _encode(json.dumps(claims, separators=(",", ":")).encode())
        return f"{payload}.{self._mac(payload)}"

    def open(self, token: str, subscription: str) -> int:
        """The generation a token was made for."""
        payload, _, mac = token.partition(".")
        if not hmac.compare_digest(mac.encode("utf-8", "replace"), self._mac(payload).encode()):
            raise _invalid("TOKEN_INVALID", "this token was not issued here")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if claims["sub"] != subscription:
            raise _invalid("TOKEN_INVALID", "this token is for another subscription")
        if claims["exp"] < time.time():
            raise _invalid("TOKEN_EXPIRED", "this token has expired")
        return int(claims["gen"])

    def _mac(self, payload: str) -> str:
        mac = hmac.new(self._secret, payload.encode("utf-8", "replace"), hashlib.sha256)
        return _encode(mac.digest())


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _invalid(code: str, message: str) -> SubscriptionError:
    return SubscriptionError(401, code, message)
