from __future__ import annotations

import pytest

from spark_durable.server.store import ForkSpec
from spark_durable.server.store.errors import (
    BucketExists,
    BucketMissing,
    BucketNotEmpty,
    NotFound,
)
from tests.server.store.driver import TEXT, Driver


@pytest.fixture
def shop(driver: Driver) -> Driver:
    driver.run(driver.store.create_bucket("shop"))
    return driver


def names(driver: Driver, **options: object) -> list[str]:
    page = driver.call(driver.store.list_streams, "shop", **options)
    return [each.stream_id for each in page.streams]


def test_buckets_are_made_before_their_streams(shop: Driver) -> None:
    with pytest.raises(BucketExists):
        shop.run(shop.store.create_bucket("shop"))
    for call in (
        lambda: shop.create("/ds/none/x"),
        lambda: shop.append("/ds/none/x", b"1"),
        lambda: shop.read("/ds/none/x"),
        lambda: shop.call(shop.store.bucket, "none"),
        lambda: shop.call(shop.store.list_streams, "none"),
        lambda: shop.run(shop.store.delete_bucket("none")),
    ):
        with pytest.raises(BucketMissing):
            call()
    shop.create("/ds/shop/x")
    with pytest.raises(NotFound):
        shop.read("/ds/shop/y")
    assert shop.call(shop.store.bucket, "shop").streams == 1


def test_a_listing_is_sorted_by_bytes_and_paged(shop: Driver) -> None:
    made = ["b", "a", "ab", "Z", "é", "\U0001f600", "a b", "user-2", "user-10"]
    for name in made:
        shop.create(f"/ds/shop/{name}")
    expected = sorted(made, key=lambda name: name.encode())
    assert names(shop) == expected
    assert names(shop, prefix="user-") == ["user-10", "user-2"]
    assert names(shop, prefix="a", after="a") == ["a b", "ab"]
    assert names(shop, after="zzz") == expected[-2:]
    seen: list[str] = []
    cursor = None
    while True:
        page = shop.call(shop.store.list_streams, "shop", after=cursor, limit=2)
        seen += [each.stream_id for each in page.streams]
        cursor = page.next_cursor
        assert page.has_more == (cursor is not None)
        if cursor is None:
            break
        assert cursor == seen[-1]
    assert seen == expected


def test_a_listing_shows_what_readers_would_find(shop: Driver) -> None:
    shop.create("/ds/shop/x", TEXT, body=b"hello")
    shop.clock.now += 3
    shop.append("/ds/shop/x", b"!", TEXT, close=True)
    shop.create("/ds/shop/gone", ttl_s=1)
    shop.create("/ds/shop/deleted", TEXT)
    shop.create("/v1/stream/fork", TEXT, fork=ForkSpec("/ds/shop/deleted"))
    shop.run(shop.store.delete("/ds/shop/deleted"))
    shop.clock.now += 2
    (listed,) = shop.call(shop.store.list_streams, "shop").streams
    assert (listed.stream_id, listed.closed, listed.tail, listed.content_type) == (
        "x",
        True,
        6,
        TEXT,
    )
    assert listed.last_write_at_ms - listed.created_at_ms == 3000
    assert shop.call(shop.store.bucket, "shop").streams == 1


def test_only_an_empty_bucket_can_be_deleted(shop: Driver) -> None:
    shop.create("/ds/shop/x", TEXT)
    shop.create("/v1/stream/fork", TEXT, fork=ForkSpec("/ds/shop/x"))
    with pytest.raises(BucketNotEmpty, match="1 streams"):
        shop.run(shop.store.delete_bucket("shop"))
    shop.run(shop.store.delete("/ds/shop/x"))
    with pytest.raises(BucketNotEmpty, match="forks still need"):
        shop.run(shop.store.delete_bucket("shop"))
    shop.run(shop.store.delete("/v1/stream/fork"))
    shop.create("/ds/shop/short", ttl_s=1)
    shop.clock.now += 2
    shop.run(shop.store.delete_bucket("shop"))
    with pytest.raises(BucketMissing):
        shop.call(shop.store.bucket, "shop")
    shop.run(shop.store.create_bucket("shop"))
    assert names(shop) == []


def test_buckets_survive_restarts(disk: Driver) -> None:
    for name in ("shop", "kept", "dropped"):
        disk.run(disk.store.create_bucket(name))
    disk.create("/ds/shop/x")
    disk.reopen(crash=True)
    disk.run(disk.store.delete_bucket("dropped"))
    disk.create("/ds/shop/y")
    for crash in (True, False):
        disk.reopen(crash=crash)
        assert names(disk) == ["x", "y"]
        assert disk.call(disk.store.bucket, "kept").streams == 0
        with pytest.raises(BucketMissing):
            disk.call(disk.store.bucket, "dropped")
