"""Bearer tokens and what their holders may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Token:
    """A secret and its rights. The secret never shows in the repr.

    ``write`` False allows GET and HEAD only. ``buckets`` None is the whole server; a list limits
    the holder to ``/ds/{bucket}`` and ``/v1/stream/{bucket}/…`` of the buckets named, and keeps it
    from all that lies in no bucket. ``secret_file`` takes the place of ``secret``: its content,
    without white space around it.
    """

    secret: str | None = field(default=None, repr=False)
    secret_file: Path | None = None
    name: str = ""
    write: bool = True
    buckets: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        label = f"token {self.name!r}" if self.name else "a token"
        if (self.secret is None) == (self.secret_file is None):
            raise ValueError(f"{label} needs either secret or secret_file")
        if self.secret is not None:
            _check(self.secret, label)
        if self.buckets is not None and not self.buckets:
            raise ValueError(f"{label} is limited to no bucket at all: leave buckets out for all")

    def read(self) -> bytes:
        """The secret, from its file where it has one."""
        if self.secret is not None:
            return self.secret.encode()
        assert self.secret_file is not None
        text = self.secret_file.read_text().strip()
        _check(text, f"the token in {self.secret_file}")
        return text.encode()


@dataclass(frozen=True, slots=True)
class Rights:
    """What the sender of a request may do. A bucket of None stands for what lies in no bucket."""

    write: bool = True
    buckets: frozenset[str] | None = None

    def missing(self, buckets: Iterable[str | None], *, write: bool) -> str | None:
        """Why a request that touches these buckets is refused; None when it is not."""
        if write and not self.write:
            return "this token may read only"
        if self.buckets is not None and not self.buckets.issuperset(buckets):
            return f"this token is for {', '.join(sorted(self.buckets))} only"
        return None


def _check(secret: str, label: str) -> None:
    """A bearer token travels in a header: visible ASCII, without spaces."""
    if not secret:
        raise ValueError(f"{label} is empty: leave it out to serve without one")
    if not (secret.isascii() and secret.isprintable() and " " not in secret):
        raise ValueError(f"{label} must be printable ASCII without spaces")
