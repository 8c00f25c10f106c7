from __future__ import annotations

from pathlib import Path

import pytest

from spark_durable.server.store import Store, StoreConfig
from spark_durable.server.store.errors import CorruptStore
from tests.server.store.driver import SMALL, TEXT, Driver

S = "/v1/stream/s"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Forty appends on several segments, cleanly closed."""
    driver = Driver(tmp_path / "data", **SMALL)
    driver.create(S, TEXT)
    for each in range(40):
        driver.append(S, b"%010d" % each, TEXT)
    driver.create("/v1/stream/empty")
    driver.close()
    return tmp_path / "data"


def check(data: Path) -> None:
    store = Store.open(StoreConfig(data_dir=data, verify=True))
    import asyncio

    asyncio.run(store.close())


def test_what_is_whole_passes(data: Path) -> None:
    check(data)


@pytest.mark.parametrize("position", [0, 1, 77])
def test_a_single_bit_is_found_with_its_place(data: Path, position: int) -> None:
    log = sorted((data / "streams").rglob("*.log"))[1]
    content = bytearray(log.read_bytes())
    content[position] ^= 0x04
    log.write_bytes(content)
    offset = int(log.stem) + position // 10 * 10
    with pytest.raises(CorruptStore, match=f"between the offsets {offset} and {offset + 10}"):
        check(data)


def test_a_damaged_index_is_found(data: Path) -> None:
    index = sorted((data / "streams").rglob("*.idx"))[0]
    content = bytearray(index.read_bytes())
    content[16] ^= 0xFF
    index.write_bytes(content)
    with pytest.raises(CorruptStore):
        check(data)
