"""Columns of date and timestamp strings, converted as a whole where they have a plain form.

Plain forms mean the same to Arrow and to Spark. What has another form is parsed one by one, each
distinct string once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, mask_of, numpy_view, pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_durable.codec.zones import Zone

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_LOCAL = _DATE + r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
# Java has no offset past 18 hours, Arrow takes up to 23:59.
_ZONED = _LOCAL + r"(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_PLAIN = {
    name: re.compile(p) for name, p in (("date", _DATE), ("local", _LOCAL), ("zoned", _ZONED))
}
_OFFSET = re.compile(r"(?<=[0-9])[+-][0-9]{2}:[0-9]{2}$")
# Time zone files list each change of offset up to here; beyond, only their rules tell.
_FIRST_LISTED, _LAST_LISTED = (
    np.datetime64(year, "us").astype(np.int64) for year in ("1970", "2037")
)


def plain_dates(texts: Array) -> Array | None:
    """Days, None if not all are plain dates."""
    if not _all_plain(texts, "date"):
        return None
    return _cast(texts, pa.date32())


def plain_local_times(texts: Array) -> Array | None:
    """Microseconds of the clock, None if not all are plain dates with a time."""
    if not _all_plain(texts, "local"):
        return None
    return _cast(texts, pa.timestamp("us"))


def plain_instants(texts: Array, session: Zone) -> Array | None:
    """Microseconds UTC, None unless all are plain and have a zone, or all have none."""
    if _all_plain(texts, "zoned"):
        return _cast(texts, pa.timestamp("us", "UTC"))
    local = plain_local_times(texts)
    if local is None:
        return None
    return _local_to_utc(local, session)


def partly_plain(
    texts: Array,
    convert: Callable[[Array], Array | None],
    parse: Callable[[str], int | None],
    target: pa.DataType,
) -> tuple[Array, NDArray[np.int64]]:
    """Converts what is plain as a whole if that is most of it, and the others one by one.

    Also gives the indices of what does not parse.
    """
    for form in _PLAIN:
        plain = mask_of(_is_plain(texts, form).fill_null(False))
        if 2 * np.count_nonzero(plain) <= len(texts):
            continue
        most = convert(texts.filter(pa.array(plain)))
        if most is None:
            continue
        others, failed = each_distinct(texts.filter(pa.array(~plain)), parse, target)
        place = np.empty(len(texts), np.int64)
        place[np.concatenate((np.flatnonzero(plain), np.flatnonzero(~plain)))] = np.arange(
            len(texts)
        )
        return pa.concat_arrays([most, others]).take(pa.array(place)), np.flatnonzero(~plain)[
            failed
        ]
    return each_distinct(texts, parse, target)


def each_distinct(
    texts: Array, parse: Callable[[str], int | None], target: pa.DataType
) -> tuple[Array, NDArray[np.int64]]:
    """Parses each distinct string once. Also gives the indices of what does not parse."""
    encoded = texts.dictionary_encode()
    parsed = [None if text is None else parse(text) for text in encoded.dictionary.to_pylist()]
    values = pa.array(parsed, pa.int64()).take(encoded.indices)
    failed = pc.and_(values.is_null(), texts.is_valid())
    as_target = values.cast(pa.int32()) if pa.types.is_date32(target) else values
    return as_target.view(target), np.flatnonzero(mask_of(failed))


def _all_plain(texts: Array, form: str) -> bool:
    present = texts.drop_null() if texts.null_count else texts
    if not len(present):
        return True
    return _all_like_first(present, _PLAIN[form]) or bool(pc.all(_is_plain(present, form)).as_py())


def _is_plain(texts: Array, form: str) -> Array:
    return pc.match_substring_regex(texts, f"^(?:{_PLAIN[form].pattern})$")


def _all_like_first(texts: Array, plain: re.Pattern[str]) -> bool:
    """Whether all have the form of the first string, that one being plain.

    That there are digits where the first has some is left to the conversion. The digits of a zone's
    offset are to be the same: others might be out of range.
    """
    first = texts[0].as_py()
    if not plain.fullmatch(first):
        return False
    _, offsets, data = texts.buffers()
    ends = numpy_view(offsets, np.int32, len(texts) + 1, texts.offset)
    length = len(first)
    if not (np.diff(ends) == length).all():
        return False
    rows = numpy_view(data, np.uint8, len(texts) * length, int(ends[0])).reshape(-1, length)
    zone = len(first) - len(_OFFSET.sub("", first))
    return all(
        (rows[:, place] == ord(char)).all()
        for place, char in enumerate(first)
        if not char.isdigit() or place >= length - zone
    )


def _cast(texts: Array, target: pa.DataType) -> Array | None:
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:  # the 30th of February, the 24th hour
        return None


def _local_to_utc(local: Array, session: Zone) -> Array | None:
    if session.offset is not None:
        micros = pc.subtract(local.view(pa.int64()), session.offset * 1_000_000)
        return micros.view(pa.timestamp("us", "UTC"))
    bounds = pc.min_max(local.view(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < _FIRST_LISTED or high >= _LAST_LISTED):
        return None
    try:
        zoned = pc.assume_timezone(local, session.region, ambiguous="earliest", nonexistent="raise")
    except pa.ArrowInvalid:
        return None
    return zoned.view(pa.timestamp("us", "UTC"))
