"""Every refusal of the store has an answer, and none falls through to 500 by oversight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_durable.server.http.failures import _STATUS, to_http
from spark_durable.server.store import errors


def leaves(root: type[errors.StoreError]) -> Iterator[type[errors.StoreError]]:
    for cls in root.__subclasses__():
        # What keeps a store from opening never meets a request.
        if cls is not errors.CannotOpen:
            yield cls
            yield from leaves(cls)


@pytest.mark.parametrize("refusal", sorted(leaves(errors.StoreError), key=lambda cls: cls.__name__))
def test_every_refusal_is_in_the_table(refusal: type[errors.StoreError]) -> None:
    assert refusal in _STATUS


def test_the_facts_become_headers() -> None:
    closed = to_http(errors.Closed("/ds/b/s", 7, 3, 4))
    assert (closed.status, closed.headers["Stream-Next-Offset"]) == (409, f"{7:020d}")
    assert (closed.headers["Producer-Epoch"], closed.headers["Producer-Seq"]) == ("3", "4")
    unknown = to_http(errors.Closed("/ds/b/s", 7))
    assert "Producer-Epoch" not in unknown.headers
    assert to_http(errors.DiskFull()).headers["Retry-After"] == "5"
    assert to_http(errors.OffsetGone("k", 1, 9)).headers["Stream-Retained-Offset"] == f"{9:020d}"
