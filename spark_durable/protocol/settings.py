"""How to reach a server: credentials, headers, certificates and timeouts. A value that pickles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from spark_durable.protocol.errors import OptionError

MASK = "***"


# Where command line and jobs look for a bearer token that they are not given.
TOKEN_VARIABLE = "SPARK_DURABLE_TOKEN"  # noqa: S105 - the variable's name, not a token


@dataclass(frozen=True, slots=True, repr=False)
class ClientSettings:
    """Travels from the driver to the executors; its ``repr`` shows no secret.

    The bearer token has one source: ``token`` itself, the environment variable named by
    ``token_env``, the file ``token_file``, or ``token_provider`` (``"module:name"`` of a callable
    without arguments that returns the token). All but the first are resolved where the request is
    sent and anew for each request, so a token may rotate while a query runs and never enters a plan
    or a checkpoint. ``headers`` are sent with every request and count as credentials: like the
    token they do not follow a redirect to another origin. ``read_timeout`` bounds each silence of
    the server and each stall while sending, not the whole exchange.
    """

    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    token_env: str | None = None
    token_file: str | None = None
    token_provider: str | None = None

    def __post_init__(self) -> None:
        sources = ("token", "token_env", "token_file", "token_provider")
        given = [name for name in sources if getattr(self, name) is not None]
        if len(given) > 1:
            raise OptionError(f"the bearer token has more than one source: {', '.join(given)}")
        if self.connect_timeout <= 0 or self.read_timeout <= 0:
            raise OptionError("connect_timeout and read_timeout must be longer than zero")

    def credentials(self) -> str | None:
        """The bearer token to send now, None where none is configured."""
        if self.token_env is not None:
            token = os.environ.get(self.token_env)
            if not token:
                raise OptionError(
                    f"the environment variable {self.token_env} that should hold the token is not "
                    "set on this machine; set it on the driver and on every executor"
                )
            return token
        if self.token_file is not None:
            try:
                return Path(self.token_file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise OptionError(
                    f"the token file {self.token_file} cannot be read on this machine "
                    f"({type(error).__name__}); it must exist on the driver and on every executor"
                ) from None
        if self.token_provider is not None:
            return self._provided()
        return self.token

    def _provided(self) -> str:
        module, _, name = str(self.token_provider).partition(":")
        try:
            provider = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            raise OptionError(
                f"the token provider {self.token_provider} cannot be imported on this machine; "
                'name it as "module:callable" and ship the module to the executors'
            ) from None
        try:
            token = provider()
        except Exception as error:  # not ours; its text may hold what must not be shown
            raise OptionError(
                f"the token provider {self.token_provider} failed with {type(error).__name__}"
            ) from None
        if not isinstance(token, str) or not token:
            raise OptionError(f"the token provider {self.token_provider} returned no token")
        return token

    def scrub(self, text: str) -> str:
        """``text`` without any secret of these settings that a server may have echoed."""
        # A header's value of a letter or two is no secret, and masking it would garble the text.
        secrets = [value for value in self.headers.values() if len(value) > 3]
        with suppress(OptionError):  # no token could have been sent, so none was echoed
            secrets.append(self.credentials() or "")
        for secret in filter(None, secrets):
            text = text.replace(secret, MASK)
        return text

    def __repr__(self) -> str:
        shown = {
            "token": MASK if self.token else None,
            "headers": dict.fromkeys(self.headers, MASK),
            "ca_file": self.ca_file,
            "connect_timeout": self.connect_timeout,
            "read_timeout": self.read_timeout,
            "token_env": self.token_env,
            "token_file": self.token_file,
            "token_provider": self.token_provider,
        }
        return f"ClientSettings({', '.join(f'{k}={v!r}' for k, v in shown.items())})"
