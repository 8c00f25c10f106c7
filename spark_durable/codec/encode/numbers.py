"""Writers of numbers, and the question of numbers that a double cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, pc
from spark_durable.codec.encode.arrays import chosen, offsets_and_bytes, string_array
from spark_durable.codec.encode.text import Text
from spark_durable.protocol.errors import BadRowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_durable.codec.encode.options import BigNumbers

_MOST_EXACT = 2**53 - 1
_SAFE_DIGITS = 15
# The floats nearest to the powers of ten: what lies between two of them prints the lower exponent.
_LEAST_POWER = -324
_POWERS: dict[type, NDArray[Any]] = {
    np.float64: np.array([float(f"1e{power}") for power in range(_LEAST_POWER, 309)])
}
with np.errstate(over="ignore"):
    _POWERS[np.float32] = _POWERS[np.float64].astype(np.float32)


@dataclass(frozen=True, slots=True)
class PlainWriter:
    """Values that Arrow's own text fits: small integers and booleans."""

    def write(self, values: Array) -> Text:
        return Text((pc.cast(values, pa.string()),))


@dataclass(frozen=True, slots=True)
class LongWriter:
    column: str
    big_numbers: BigNumbers

    def write(self, values: Array) -> Text:
        texts = pc.cast(values, pa.string())
        if self.big_numbers == "send":
            return Text((texts,))
        big = pc.or_(pc.less(values, -_MOST_EXACT), pc.greater(values, _MOST_EXACT))
        return _settled(texts, big, self.column, self.big_numbers)


@dataclass(frozen=True, slots=True)
class DecimalWriter:
    """Decimals with their declared scale, in scientific notation where Java's BigDecimal is."""

    column: str
    big_numbers: BigNumbers

    def write(self, values: Array) -> Text:
        texts = pc.cast(values, pa.string())
        if self.big_numbers == "send" or values.type.precision <= _SAFE_DIGITS:
            return Text((texts,))
        digits = pc.replace_substring_regex(texts, r"E.*|[-.]", "")
        many = pc.greater(pc.utf8_length(pc.utf8_trim(digits, "0")), _SAFE_DIGITS)
        big = pc.and_(many, pc.match_substring_regex(texts, r"\.\d*[1-9]|E"))
        if values.type.precision - values.type.scale > _SAFE_DIGITS:
            past = pc.greater(pc.abs(values), pa.scalar(Decimal(_MOST_EXACT)))
            big = pc.or_(big, past)
        return _settled(texts, big, self.column, self.big_numbers)


@dataclass(frozen=True, slots=True)
class FloatWriter:
    """Floats and doubles: the shortest digits that read back as the same value, laid out as Java
    lays them out (1.0, 1.0E10); NaN and the infinities in quotes.

    Java before 19 prints more digits than that for some values: the same value in another text.
    """

    def write(self, values: Array) -> Text:
        return float_text(values, quote='"')


def float_text(values: Array, quote: str) -> Text:
    """The text of floats and doubles, with ``quote`` around what is no number in JSON."""
    texts = pc.cast(values, pa.string())
    filled = pc.fill_null(values, 0) if values.null_count else values
    numbers = filled.to_numpy(zero_copy_only=False)
    sizes = np.abs(numbers)
    plain = (sizes >= 1e-3) & (sizes < 1e7) | (sizes == 0)
    if not plain.all():
        texts = pc.replace_with_mask(texts, ~plain, _not_plain(numbers[~plain], quote))
    whole = plain & (numbers == np.trunc(numbers))
    if not whole.any():
        return Text((texts,))
    return Text((texts, chosen(["", ".0"], whole.view(np.int8))))


def _not_plain(numbers: NDArray[Any], quote: str) -> Array:
    """Java's text of numbers below 0.001 and from 10,000,000 on, of NaN and the infinities."""
    finite = np.isfinite(numbers)
    if finite.all():
        return _scientific(numbers)
    names = [f"{quote}{name}{quote}" for name in ("NaN", "Infinity", "-Infinity")]
    texts = chosen(names, np.where(np.isnan(numbers), 0, np.where(numbers > 0, 1, 2)))
    if not finite.any():
        return texts
    return pc.replace_with_mask(texts, finite, _scientific(numbers[finite]))


def _scientific(numbers: NDArray[Any]) -> Array:
    """Numbers as one digit, a point, at least one more digit, and the power of ten."""
    sizes = np.abs(numbers)
    powers = _POWERS[numbers.dtype.type]
    exponents = np.searchsorted(powers, sizes, side="right") - 1 + _LEAST_POWER
    texts = pc.cast(pa.array(sizes), pa.string())
    if (sizes >= 1e15).any() or (sizes < 1e-5).any():
        texts = pc.replace_substring_regex(texts, "e.*", "")
    digits = pc.ascii_trim(pc.replace_substring(texts, ".", ""), "0")
    offsets, data = offsets_and_bytes(digits)
    points = np.insert(data, offsets[:-1] + 1, ord("."))
    pointed = string_array(offsets + np.arange(len(offsets)), points)
    single = np.diff(offsets) == 1
    return pc.binary_join_element_wise(
        chosen(["", "-"], (numbers < 0).view(np.int8)),
        pointed,
        chosen(["E", "0E"], single.view(np.int8)),
        pc.cast(pa.array(exponents), pa.string()),
        "",
    )


def _settled(texts: Array, big: Array, column: str, big_numbers: BigNumbers) -> Text:
    """The texts with the big numbers among them quoted, or an error that names the first."""
    mask = pc.fill_null(big, False)
    if not pc.any(mask).as_py():
        return Text((texts,))
    if big_numbers == "error":
        row = pc.index(mask, True).as_py()
        raise BadRowError(
            f"Column {column!r} holds {texts[row]}, which a reader that keeps numbers in doubles"
            " would change. Set bigNumbers to 'string' to send such numbers in quotes, to 'send'"
            " to send them as they are, or cast the column.",
            column=column,
            value=str(texts[row]),
        )
    return Text((pc.if_else(mask, pc.binary_join_element_wise('"', texts, '"', ""), texts),))
