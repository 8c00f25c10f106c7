"""The one table from what the store refuses to what HTTP answers."""

from __future__ import annotations

from typing import Final

from spark_durable.protocol import headers as h
from spark_durable.server.store import errors as store

from .offsets import format_offset
from .responses import HttpError

_STATUS: Final[dict[type[store.StoreError], int]] = {
    store.NotFound: 404,
    store.SoftDeleted: 410,
    store.BucketMissing: 404,
    store.SnapshotMissing: 404,
    store.AlreadyExists: 409,
    store.ForkSourceDeleted: 409,
    store.ConfigMismatch: 409,
    store.BucketExists: 409,
    store.BucketNotEmpty: 409,
    store.BadJson: 400,
    store.EmptyBody: 400,
    store.BadOffset: 400,
    store.TooLarge: 413,
    store.Closed: 409,
    store.ContentTypeMismatch: 409,
    store.SequenceRegression: 409,
    store.StaleEpoch: 403,
    store.SequenceGap: 409,
    store.EpochStartsAtZero: 400,
    store.ProducerLimit: 429,
    store.StreamLimit: 429,
    store.OffsetGone: 410,
    store.SnapshotConflict: 409,
    store.Overloaded: 503,
    store.DiskFull: 503,
    store.MemoryFull: 503,
    store.StoreFailed: 500,
}


def to_http(error: store.StoreError) -> HttpError:
    return HttpError(_STATUS.get(type(error), 500), str(error), _headers(error))


def _headers(error: store.StoreError) -> dict[str, str]:
    match error:
        case store.Closed():
            headers = {
                h.STREAM_CLOSED: "true",
                h.STREAM_NEXT_OFFSET: format_offset(error.final_offset),
            }
            if error.producer_epoch is not None and error.producer_seq is not None:
                headers[h.PRODUCER_EPOCH] = str(error.producer_epoch)
                headers[h.PRODUCER_SEQ] = str(error.producer_seq)
            return headers
        case store.StaleEpoch():
            return {h.PRODUCER_EPOCH: str(error.current_epoch)}
        case store.SequenceGap():
            return {
                h.PRODUCER_EXPECTED_SEQ: str(error.expected),
                h.PRODUCER_RECEIVED_SEQ: str(error.received),
            }
        case store.OffsetGone():
            return {h.STREAM_RETAINED_OFFSET: format_offset(error.retained)}
        case store.Overloaded():
            return {h.RETRY_AFTER: str(error.retry_after)}
        case _:
            return {}
