"""Arrow arrays as this package handles them: by their buffers, with numpy, and by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A pyarrow.Array. The stubs type arrays and kernels by the type of a value, which nobody knows
# before a schema is there.
Array: TypeAlias = Any
pc: Any = pyarrow.compute


def numpy_view(buffer: Any, dtype: Any, count: int = -1, first: int = 0) -> NDArray[Any]:
    """``count`` values of a buffer, from the value numbered ``first``; no buffer has no values."""
    if buffer is None or not count:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize)


def binary_view(array: Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and bytes of a large_binary array: value i is ``data[offsets[i]:offsets[i + 1]]``."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    return (
        numpy_view(offsets, np.int64, len(array) + 1, array.offset),
        numpy_view(data, np.uint8),
    )


def mask_of(values: Array) -> NDArray[np.bool_]:
    """A boolean array without nulls, as numpy sees it."""
    mask: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask


def one_array(column: Array) -> Array:
    """A chunked array as one."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
