"""URLs: names in them, parameters on them, secrets out of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.protocol import OptionError, urls


@given(st.text(min_size=1).filter(lambda name: name.isprintable() and name not in (".", "..")))
def test_a_name_is_one_segment_and_comes_back(name: str) -> None:
    from urllib.parse import unquote, urlsplit

    joined = urls.join("http://h/ds/bucket/", name)
    assert urlsplit(joined).path.count("/") == 3
    assert unquote(urlsplit(joined).path.rpartition("/")[2]) == name
    assert urls.bucket_url(joined) == "http://h/ds/bucket"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_would_name_something_else_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="name of a stream"):
        urls.join("http://h/ds/bucket", name)


def test_suffixes_go_before_the_query() -> None:
    assert urls.extend("http://h/s/?a=1", "bootstrap") == "http://h/s/bootstrap?a=1"
    assert urls.snapshot_url("http://h/s") == "http://h/s/snapshot"
    assert urls.snapshot_url("http://h/s", "a/b c") == "http://h/s/snapshot/a%2Fb%20c"


def test_parameters_are_sorted_and_none_is_left_out() -> None:
    assert (
        urls.with_params("http://h/s", {"b": 1, "a": "x y", "c": None}) == "http://h/s?a=x%20y&b=1"
    )
    assert urls.with_params("http://h/s?z=0", {"a": 1}) == "http://h/s?z=0&a=1"
    assert urls.with_params("http://h/s", {"c": None}) == "http://h/s"


@pytest.mark.parametrize("url", ["http://h", "http://h/", "http://h/stream"])
def test_a_stream_without_a_bucket_has_no_bucket_url(url: str) -> None:
    with pytest.raises(OptionError, match="bucket"):
        urls.bucket_url(url)


def test_an_origin_is_scheme_host_and_port() -> None:
    assert urls.origin("HTTP://Host/a") == urls.origin("http://host:80/b")
    assert urls.origin("https://host") == urls.origin("https://host:443/")
    assert urls.origin("https://host") != urls.origin("http://host")
    assert urls.origin("http://host:8080") != urls.origin("http://host")
    assert urls.origin("http://a.host") != urls.origin("http://host")


def test_userinfo_comes_off() -> None:
    assert urls.split_userinfo("http://u:p%40@h:1/s?q=1") == ("http://h:1/s?q=1", ("u", "p@"))
    assert urls.split_userinfo("http://u@h/s") == ("http://h/s", ("u", ""))
    assert urls.split_userinfo("http://h/s") == ("http://h/s", None)


@pytest.mark.parametrize(
    "url", ["http://u:secret@h/s?token=secret#secret", "http://[secret", "//secret@h"]
)
def test_texts_show_neither_user_nor_query(url: str) -> None:
    assert "secret" not in urls.redact(url)
