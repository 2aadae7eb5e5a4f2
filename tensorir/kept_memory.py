"""Memory of large arrays that were freed, kept for the next ones: thresholds of glibc's allocator.

glibc maps a block above a threshold when it is allocated and gives it back to the system when it is freed, so that
each result touches all of its pages for the first time, which costs several times what a stencil computes. The
threshold follows what is freed, but by 32 MiB at most; here it follows the arrays of programs further, up to a limit.
A thread that has an arena of its own keeps no block above 64 MiB, so all threads that start later share one arena.

>>> KeptMemory(limit=128 << 20)
up to 134 MB are kept; so far blocks as glibc chooses
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["KEPT_MEMORY", "KeptMemory"]

BY_GLIBC = 32 << 20
"""Bytes. Up to this block glibc's own threshold follows."""
ARRAYS = 8
"""XLA keeps the temporaries of a program in one block, of several arrays."""
SHARE = 16
"""This part of the machine's memory is kept at most, where nobody says otherwise."""
MOST = (1 << 31) - 1
"""What `mallopt` takes."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""The parameters of `mallopt`."""


class KeptMemory:
    """How much freed memory this process keeps for arrays to come, instead of giving it back: `ti.kept_memory`."""

    def __init__(self, limit: int) -> None:
        self._limit, self._block = limit, 0

    @property
    def limit(self) -> int:
        """Bytes at the top of the heap that are kept, and so are blocks of up to half of it.

        A sixteenth of the machine's memory, or of its container's, and 2 GiB at most where nobody says otherwise; 0
        leaves glibc's thresholds alone, and gives back what was kept. Small allocations take pieces of what is free,
        and so several blocks stay resident for one that is in use.
        """
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        if limit:
            _of_libc("mallopt", _ARENA_MAX, 1)
        if self._block and 2 * self._block > limit:
            self._keep(max(limit // 2, BY_GLIBC))
            _of_libc("malloc_trim", ctypes.c_size_t(0))

    @property
    def block(self) -> int:
        """Bytes of the largest block that is kept; 0 as long as glibc chooses."""
        return self._block

    def expect(self, array: int, arrays: int = ARRAYS) -> None:
        """Blocks of some arrays of so many bytes will come, and are kept when they are freed."""
        block = min(arrays * array, self._limit // 2, MOST // 2)
        if block > max(self._block, BY_GLIBC):
            self._keep(block)

    def _keep(self, block: int) -> None:
        # the top of the heap is kept up to twice a block, which is glibc's own rule
        if _of_libc("mallopt", _MMAP_THRESHOLD, block) and _of_libc("mallopt", _TRIM_THRESHOLD, min(2 * block, MOST)):
            self._block = block

    def __repr__(self) -> str:
        so_far = f"of up to {self._block / 1e6:.0f} MB" if self._block else "as glibc chooses"
        return f"up to {self._limit / 1e6:.0f} MB are kept; so far blocks {so_far}"


def _of_libc(name: str, *arguments: Any) -> int:
    """What a function of glibc returns; 0 where the C library is another one."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return 0
    function: Callable[..., int] = getattr(libc, name)
    return function(*arguments)


def _limit(environment: Mapping[str, str]) -> int:
    """A part of the memory that there is; nothing where the allocator is told by other means what to do.

    >>> _limit({"MALLOC_TRIM_THRESHOLD_": "1000000"}), _limit({"LD_PRELOAD": "libjemalloc.so"})
    (0, 0)
    """
    if sys.platform != "linux":
        return 0
    if any(name.startswith("MALLOC_") for name in environment) or "malloc." in environment.get("GLIBC_TUNABLES", ""):
        return 0
    if "malloc" in environment.get("LD_PRELOAD", ""):
        return 0
    there_is = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        if os.path.exists(path) and (told := Path(path).read_text().strip()).isdigit():
            there_is = min(there_is, int(told))
    return min(MOST, there_is // SHARE)


KEPT_MEMORY = KeptMemory(0)
"""That of this process."""
KEPT_MEMORY.limit = _limit(os.environ)  # threads of XLA start later, and share the arena of this one
