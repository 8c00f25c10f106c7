"""Where webhooks may go: checked by URL, and again by address."""

from __future__ import annotations

import pytest

from spark_durable.server.subscriptions.model import SubscriptionError
from spark_durable.server.subscriptions.webhook_url import allows, check_webhook_url


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/path?x=1",
        "https://hooks.example:8443/",
        "https://93.184.216.34/hook",
        "http://localhost:8000/hook",
        "http://127.0.0.1:8000/hook",
        "http://127.1.2.3/",
    ],
)
def test_public_https_and_local_development_are_accepted(url: str) -> None:
    assert check_webhook_url(url).host in url


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/",
        "http://10.0.0.1/hook",
        "https://10.0.0.1/hook",
        "https://192.168.1.1/",
        "https://172.16.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://[fe80::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://0.0.0.0/",
        "http://[::1]/",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "https://user:secret@hooks.example/",
        "https:///path",
        "https://hooks.example:99999/",
        "https://hooks.example/\r\nX: y",
        "https://hooks.example/ü",
        "nonsense",
        "https://hooks.example/" + "x" * 3000,
    ],
)
def test_everything_else_is_rejected(url: str) -> None:
    with pytest.raises(SubscriptionError) as refusal:
        check_webhook_url(url)
    assert refusal.value.code == "WEBHOOK_URL_REJECTED"
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize(
    ("host", "address", "expected"),
    [
        ("hooks.example", "93.184.216.34", True),
        ("hooks.example", "10.0.0.1", False),
        ("hooks.example", "127.0.0.1", False),
        ("hooks.example", "::1", False),
        ("hooks.example", "::ffff:127.0.0.1", False),
        ("hooks.example", "169.254.169.254", False),
        ("hooks.example", "224.0.0.1", False),
        ("localhost", "127.0.0.1", True),
        ("localhost", "93.184.216.34", False),
    ],
)
def test_a_name_is_judged_by_what_it_resolves_to(host: str, address: str, expected: bool) -> None:
    assert allows(host, address) is expected
