"""Where webhooks may go: public https targets, and http on this machine for development.

The URL is checked when a subscription is made. What its name resolves to is checked on each
delivery, as the answer may change.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from .model import SubscriptionError

_MAX_URL: Final = 2048

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    tls: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.tls else 80
        return host if self.port == default else f"{host}:{self.port}"


def check_webhook_url(url: str) -> WebhookTarget:
    """The parts of an acceptable URL; any other is refused with the reason."""
    if len(url) > _MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise _rejected("webhook.url must be a plain URL")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _rejected("webhook.url is not a URL") from None
    if not host:
        raise _rejected("webhook.url names no host")
    if parts.username is not None or parts.password is not None:
        raise _rejected("webhook.url must not carry credentials")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    match parts.scheme:
        case "http" if _is_development_host(host):
            return WebhookTarget(False, host, port or 80, path)
        case "http":
            raise _rejected("http is accepted for localhost and 127.x.x.x only; use https")
        case "https":
            address = _as_address(host)
            if host == "localhost" or (address is not None and not _is_public(address)):
                raise _rejected("webhook.url points into a local network")
            return WebhookTarget(True, host, port or 443, path)
        case _:
            raise _rejected("webhook.url must use https")


def allows(host: str, address: str) -> bool:
    """Whether a delivery to ``host`` may connect to ``address``."""
    resolved = _as_address(address)
    if resolved is None:
        return False
    return resolved.is_loopback if _is_development_host(host) else _is_public(resolved)


def _is_public(address: Address) -> bool:
    # An IPv4 address in IPv6 clothes is judged as what it is.
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_global
    return address.is_global and not address.is_multicast


def _is_development_host(host: str) -> bool:
    address = _as_address(host)
    if address is None:
        return host == "localhost"
    return address.version == 4 and address.is_loopback


def _as_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _rejected(message: str) -> SubscriptionError:
    return SubscriptionError(400, "WEBHOOK_URL_REJECTED", message)
