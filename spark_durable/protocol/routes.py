"""Where a request goes: connections, proxy and CA bundle, found by the rules of requests.

They are found once per origin and client, not once per request: looking through the environment
costs more than a small append.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import requests
import requests.utils
import urllib3.exceptions
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.poolmanager import PoolManager

from spark_durable.protocol import urls
from spark_durable.protocol.delivery import NotingPool, NotingTlsPool
from spark_durable.protocol.errors import OptionError


@dataclass(frozen=True, slots=True)
class Route:
    """The connections to one origin, and how to address it over them."""

    pool: HTTPConnectionPool
    absolute: bool  # a forwarding proxy wants the whole URL
    netrc: tuple[str, str] | None


class Routes(HTTPAdapter):
    """The adapter of requests, asked for connections only."""

    def __init__(self, ca_file: str | None) -> None:
        super().__init__(max_retries=0)
        self._verify = ca_file or True
        self._known: dict[tuple[str, str, int | None], Route] = {}

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        _use_noting_pools(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        _use_noting_pools(manager)
        return manager

    def to(self, url: str) -> Route:
        """The route to a normalized URL."""
        origin = urls.origin(url)
        if origin not in self._known:
            self._known[origin] = self._find(url)
        return self._known[origin]

    def _find(self, url: str) -> Route:
        with requests.Session() as session:
            found: Any = session.merge_environment_settings(url, {}, True, self._verify, None)
        proxies, verify = found["proxies"], found["verify"]
        adapter: Any = self  # the published types of requests lag behind its methods
        request = requests.Request("GET", url).prepare()
        try:
            pool = adapter.get_connection_with_tls_context(request, verify, proxies=proxies)
            adapter.cert_verify(pool, url, verify, None)
        except (requests.RequestException, urllib3.exceptions.LocationValueError):
            raise OptionError(f"{urls.redact(url)} or its proxy is not a usable URL") from None
        except OSError:
            raise OptionError(
                f"the CA bundle for {urls.redact(url)} cannot be read on this machine; check caFile"
            ) from None
        return Route(
            pool,
            absolute=not adapter.request_url(request, proxies).startswith("/"),
            netrc=requests.utils.get_netrc_auth(url),
        )


def _use_noting_pools(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": NotingPool, "https": NotingTlsPool}


@lru_cache(maxsize=4096)
def normalized(url: str) -> str:
    """The URL as it goes on the wire: host in ASCII, everything else quoted once."""
    try:
        result = requests.Request("GET", url).prepare().url
    except requests.RequestException:
        result = None
    if result is None or urls.origin(result)[0] not in ("http", "https"):
        raise OptionError(f"{urls.redact(url)} is not a usable http(s) URL")
    return result
