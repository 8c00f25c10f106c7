"""Data that can no longer be read: what happened, and the two ways on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_durable.protocol.errors import (
    BadRequestError,
    DataLossError,
    NotFoundError,
    OffsetBeyondTailError,
    OffsetGoneError,
)
from spark_durable.source.position import Position

_WAYS_ON = (
    "Two ways on: start the query with a new checkpoint (startingOffsets says from where), or set "
    "failOnDataLoss to false; it then begins again from the newest snapshot, whose rows have the "
    "kind 'snapshot', or from the oldest message retained."
)


def passed_by_retention(name: str, position: Position | str, retained: str | None) -> DataLossError:
    kept = "" if retained is None else f" The oldest offset retained is {retained}."
    return DataLossError(
        f"Stream {name}: what follows offset {position} has been removed by retention before this "
        f"query read it.{kept} {_WAYS_ON}",
        stream=name,
        retained_offset=retained,
    )


def created_again(name: str, why: str) -> DataLossError:
    return DataLossError(
        f"Stream {name} was deleted and created again ({why}): the checkpoint's offsets are those "
        f"of its earlier life. {_WAYS_ON}",
        stream=name,
    )


def deleted(name: str) -> DataLossError:
    return DataLossError(
        f"Stream {name} does not exist any more, so what may have been appended since the last "
        "batch is lost to this query. Two ways on: take it out of the query (streams, "
        "streamPattern) and start with a new checkpoint, or set failOnDataLoss to false; the query "
        "then goes on without it.",
        stream=name,
    )


def dropped(name: str) -> DataLossError:
    return DataLossError(
        f"Stream {name} is in the checkpoint but no longer among the streams of the query, and may "
        "hold messages that were not read. Name it again, or set failOnDataLoss to false for one "
        "run to let it go.",
        stream=name,
    )


def snapshot_superseded(name: str, offset: str) -> DataLossError:
    return DataLossError(
        f"Stream {name}: the snapshot at offset {offset}, from which this query began, has been "
        "replaced by a newer one and is no longer kept, so the first batch cannot be repeated. "
        f"{_WAYS_ON}",
        stream=name,
        offset=offset,
    )


def shorter(name: str, position: Position | str) -> DataLossError:
    return created_again(
        name, f"it ends before offset {position}, which the server gave for it earlier"
    )


@contextmanager
def reading(name: str, position: Position | str) -> Iterator[None]:
    """Turns refusals of an offset that was once readable into what they mean for a query."""
    try:
        yield
    except OffsetGoneError as error:
        raise passed_by_retention(name, position, error.retained_offset) from error
    except NotFoundError as error:
        raise deleted(name) from error
    except OffsetBeyondTailError as error:
        raise shorter(name, position) from error
    except BadRequestError as error:
        raise created_again(
            name, f"offset {position} is not a message boundary in it: {error}"
        ) from error


__all__ = [
    "created_again",
    "deleted",
    "dropped",
    "passed_by_retention",
    "reading",
    "shorter",
    "snapshot_superseded",
]
