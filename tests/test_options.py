"""Options: declared once, and a mistake is an error that helps."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.options import (
    BigNumbers,
    CommonOptions,
    ParseMode,
    RowOrder,
    SinkOptions,
    SourceOptions,
    check_options,
    declared,
    options_table,
    read_options,
)
from spark_durable.options.values import parse_duration, parse_size
from spark_durable.protocol.errors import OptionError

URL = "http://127.0.0.1:4437/ds/shop/orders"


def sink(**raw: str) -> SinkOptions:
    return read_options(SinkOptions, {"url": URL, **raw})


def source(**raw: str) -> SourceOptions:
    return read_options(SourceOptions, {"url": URL, **raw})


def test_defaults_are_those_of_the_design() -> None:
    options = sink()
    assert (options.content_type, options.create_if_missing) == ("application/json", True)
    assert (options.row_order, options.big_numbers) == (RowOrder.KEEP, BigNumbers.SEND)
    assert source().starting_offsets == "snapshot"
    assert source().fail_on_data_loss is True
    assert source().mode is ParseMode.PERMISSIVE


def test_path_given_to_load_or_save_is_the_url() -> None:
    assert read_options(SinkOptions, {"path": URL}).url == URL


def test_keys_are_case_insensitive() -> None:
    assert sink(MAXAPPENDBYTES="1m").max_append_bytes == 1 << 20


def test_keys_of_spark_are_left_alone() -> None:
    assert sink(checkpointLocation="/tmp/c").url == URL


def test_no_url_at_all_is_an_error_that_shows_one() -> None:
    with pytest.raises(OptionError, match=r"http://127\.0\.0\.1:4437/ds/shop/orders"):
        read_options(SinkOptions, {})


def test_unknown_option_names_the_nearest_known_one() -> None:
    with pytest.raises(OptionError, match=r"maxAppendByte\..*Did you mean maxAppendBytes\?"):
        check_options({"url": URL, "maxAppendByte": "1"})


def test_option_of_the_other_side_is_named_as_such() -> None:
    with pytest.raises(OptionError, match="startingOffsets belongs to the source"):
        sink(startingOffsets="earliest")
    with pytest.raises(OptionError, match="rowOrder belongs to the sink"):
        source(rowOrder="keep")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retryTimeout", "soon"),
        ("retryTimeout", "5"),
        ("maxAppendBytes", "0"),
        ("maxAppendBytes", "four"),
        ("createIfMissing", "yes"),
        ("headers", "X: 1"),
        ("headers", '{"X": 1}'),
        ("streams", "[]"),
        ("streams", '["a", "a"]'),
        ("streamPattern", "("),
        ("startingOffsets", "newest"),
        ("startingOffsets", '{"a": 5}'),
        ("endingOffsets", "earliest"),
        ("txnVersion", "-1"),
        ("minPartitions", "0"),
        ("mode", "LENIENT"),
        ("rowOrder", "any"),
        ("token", ""),
    ],
)
def test_malformed_value_is_an_error_that_names_the_option(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"Option {key}: "):
        check_options({"url": URL, key: value})


def test_txn_options_go_together() -> None:
    with pytest.raises(OptionError, match="both or neither"):
        sink(txnAppId="nightly")
    assert sink(txnAppId="nightly", txnVersion="7").txn_version == 7


def test_txn_version_that_would_not_fit_an_epoch_is_refused() -> None:
    with pytest.raises(OptionError, match="not milliseconds"):
        sink(txnAppId="nightly", txnVersion=str(2**33))


def test_contradictions_are_refused() -> None:
    with pytest.raises(OptionError, match="rowOrder=sort"):
        sink(orderBy="id")
    with pytest.raises(OptionError, match="streamColumn"):
        sink(closeStream="true", streamColumn="s")
    with pytest.raises(OptionError, match="concatenate"):
        sink(concatenate="true")
    with pytest.raises(OptionError, match="exclude each other"):
        source(streams='["a"]', streamPattern="a.*")
    with pytest.raises(OptionError, match="exclude each other"):
        source(maxBytesPerTrigger="1m", maxRecordsPerTrigger="5")


def test_secrets_are_not_in_the_repr_and_survive_pickling() -> None:
    options = sink(token="s3cr3t", headers='{"X-Key": "hush"}')
    assert "s3cr3t" not in repr(options)
    assert "hush" not in repr(options)
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert copy.client_settings().token == "s3cr3t"


def test_the_token_has_one_source() -> None:
    assert sink(tokenEnv="ORDERS_TOKEN").client_settings().token_env == "ORDERS_TOKEN"
    with pytest.raises(OptionError, match="more than one source"):
        sink(token="s3cr3t", tokenFile="/run/token")


@given(st.integers(1, 10**6), st.sampled_from(["ms", "s", "m", "h"]))
def test_durations(number: int, unit: str) -> None:
    factor = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}[unit]
    assert round(parse_duration(f"{number}{unit}") * 1000) == number * factor


@given(st.integers(1, 10**6))
def test_sizes(number: int) -> None:
    assert parse_size(f"{number}") == number
    assert parse_size(f"{number}k") == parse_size(f"{number} KB") == number << 10
    assert parse_size(f"{number}m") == number << 20


@pytest.mark.parametrize("scope", [CommonOptions, SinkOptions, SourceOptions])
def test_every_option_has_a_type_and_a_reason(scope: type[CommonOptions]) -> None:
    for field, option in declared(scope).values():
        assert option.kind, option.name
        assert option.why, option.name
        assert field in {known.name for known in dataclasses.fields(scope)}


def test_tables_list_each_option_once() -> None:
    tables = "\n".join(options_table(s) for s in (CommonOptions, SinkOptions, SourceOptions))
    names = {o.name for s in (SinkOptions, SourceOptions) for _, o in declared(s).values()}
    assert {name: tables.count(f"| `{name}` |") for name in names} == dict.fromkeys(names, 1)
