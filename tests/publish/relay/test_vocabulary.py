"""Names of columns and statuses, by preset and one by one."""

from __future__ import annotations

import pytest

from spark_durable.protocol.errors import OptionError
from spark_durable.publish.relay.model import Status
from spark_durable.publish.relay.vocabulary import vocabulary


def test_both_vocabularies_of_the_draft() -> None:
    locked, claimed = vocabulary("locked", {}), vocabulary("claimed", {})
    assert locked.word(Status.DELIVERED) == "DELIVERED"
    assert (locked.in_flight, locked.columns.delivered_at) == ("DELIVERING", "delivered_at")
    assert claimed.word(Status.DELIVERED) == "PUBLISHED"
    assert (claimed.in_flight, claimed.columns.delivered_at) == ("CLAIMED", "published_at")
    assert (claimed.columns.locked_by, claimed.columns.locked_at) == ("claimed_by", "claimed_at")


def test_debeziums_columns() -> None:
    columns = vocabulary("debezium", {}).columns
    assert (columns.event_id, columns.event_type) == ("id", "type")
    assert columns.destination == "aggregatetype"
    assert columns.partition_key == columns.ordering_key == "aggregateid"


def test_every_column_can_be_named() -> None:
    columns = vocabulary("locked", {"event_id": "uid", "sequence": "pos"}).columns
    assert (columns.event_id, columns.sequence, columns.payload) == ("uid", "pos", "payload")


def test_what_is_unknown_is_refused_with_what_is_known() -> None:
    with pytest.raises(OptionError, match="debezium"):
        vocabulary("debzium", {})
    with pytest.raises(OptionError, match="event_id"):
        vocabulary("locked", {"evnt_id": "x"})
