"""Memory a process has freed, kept for its next body or block instead of given back."""

from __future__ import annotations

import ctypes
import functools
import sys
from contextlib import suppress

# glibc's names and numbers; larger allocations go back to the kernel when they are freed.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_FROM_THE_HEAP = 8 << 20
_KEPT = 64 << 20


@functools.cache
def keep_freed_memory() -> None:
    """Keeps up to 64 MB of what is freed. glibc hands large pieces back to the kernel at once, and
    then half of what a body of 1 MB costs is faulting the same pages in again."""
    if sys.platform != "linux":
        return
    with suppress(AttributeError, OSError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT)
