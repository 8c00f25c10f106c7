from __future__ import annotations

import pytest

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import OptionError
from spark_durable.source.discover import check_named, place


def test_one_stream_by_its_url() -> None:
    here = place(SourceOptions(url="http://h:1/ds/shop/caf%C3%A9?x=1"))
    assert here.names == ("café",)
    assert here.path == "/ds/shop"
    assert here.url("café") == "http://h:1/ds/shop/caf%C3%A9?x=1"


def test_one_stream_and_several_share_a_base() -> None:
    one = place(SourceOptions(url="http://h/ds/shop/orders"))
    several = place(SourceOptions(url="http://h/ds/shop/", streams=("orders", "a/b")))
    assert one.path == several.path
    assert several.url("a/b") == "http://h/ds/shop/a%2Fb"


def test_a_pattern_matches_whole_names() -> None:
    here = place(SourceOptions(url="http://h/ds/shop", stream_pattern="order-[0-9]+"))
    assert here.names is None
    assert here.matches("order-12")
    assert not here.matches("order-12-x")


@pytest.mark.parametrize("url", ["orders", "http://h", "http://h/", "file:///a/b", "/ds/a/b"])
def test_a_url_without_a_stream_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match="not the URL of a stream"):
        place(SourceOptions(url=url))


def test_a_secret_in_the_url_is_not_shown() -> None:
    with pytest.raises(OptionError) as refused:
        place(SourceOptions(url="http://user:secret@h/"))
    assert "secret" not in str(refused.value)


def test_offsets_for_unknown_streams_are_refused() -> None:
    here = place(SourceOptions(url="http://h/b", streams=("a", "b")))
    check_named({"a": "1"}, here, "startingOffsets")
    check_named("earliest", here, "startingOffsets")
    with pytest.raises(OptionError, match=r"startingOffsets.*: c\."):
        check_named({"c": "1"}, here, "startingOffsets")
