"""Memory that the process keeps between calls: caches, listed and emptied by name, and blocks of freed arrays.

`WeakCache` has one value per owner (a program), which dies with its owner; `RecentCache` keeps the entries used last,
and `remembered` the results of a function. Every cache has a name, under which `ti.config.caches` counts it.

>>> sums = RecentCache("sums", limit=2)
>>> [sums.of(n, lambda n=n: n * (n + 1) // 2) for n in (3, 4, 5)], len(sums), 3 in sums
([6, 10, 15], 2, False)
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

SIZES = 64
"""For how many sets of sizes a template's programs are kept, and what was compiled of them."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])


class _Cache(Protocol):
    name: str

    def __len__(self) -> int: ...

    def clear(self) -> None: ...


class Caches:
    """All caches of the process by name, as long as they live: `ti.config.caches`.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<float>, x: tensor<float>) { y ← x + 1.0; }")
    >>> ti.config.caches.clear()
    >>> float(f(x=1.0)["y"]), ti.config.caches["compiled programs"]
    (2.0, 1)
    """

    def __init__(self) -> None:
        self._all: list[weakref.ref[_Cache]] = []

    def add(self, cache: _Cache) -> None:
        self._all = [known for known in self._all if known() is not None]
        self._all.append(weakref.ref(cache))

    def _alive(self) -> Iterator[_Cache]:
        yield from [cache for known in self._all if (cache := known()) is not None]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of entries of live caches, by name."""
        sizes: dict[str, int] = {}
        for cache in self._alive():
            sizes[cache.name] = sizes.get(cache.name, 0) + len(cache)
        return sizes

    def __getitem__(self, name: str) -> int:
        return self.sizes[name]

    def clear(self) -> None:
        """Empty all of them: what was compiled is compiled again when it is called."""
        for cache in list(self._alive()):
            cache.clear()

    def __repr__(self) -> str:
        return "\n".join(f"{count:6}  {name}" for name, count in sorted(self.sizes.items()))


CACHES = Caches()
"""The caches of this process."""


class CacheOwner:
    """The owner of values of a `WeakCache`: they are stored in the owner itself, and so may refer to it."""

    __slots__ = ("__weakref__", "_cached")

    _cached: dict[int, Any]


class WeakCache(Generic[V]):
    """One value per owner, by identity; each dies with its owner, also where it refers to it.

    >>> class Program(CacheOwner): ...
    >>> p, cache = Program(), WeakCache("examples")
    >>> cache.of(p, lambda p: [p, 7])[1], cache.of(p, lambda p: [p, 8])[1], len(cache)
    (7, 7, 1)
    >>> import gc
    >>> del p
    >>> _ = gc.collect()
    >>> len(cache)
    0
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._owners: dict[int, weakref.ref[CacheOwner]] = {}
        CACHES.add(self)

    def __len__(self) -> int:
        return len(self._owners)

    def of(self, owner: Any, make: Callable[[Any], V]) -> V:
        """The value of an owner, created by `make` at first and stored in the owner."""
        cached: dict[int, V] | None = getattr(owner, "_cached", None)
        if cached is None:
            cached = {}
            object.__setattr__(owner, "_cached", cached)
        cache_id = id(self)
        if cache_id not in cached:
            value = make(owner)
            key, owners = id(owner), self._owners
            owners[key] = weakref.ref(owner, lambda _: owners.pop(key, None))
            cached[cache_id] = value
            return value
        return cached[cache_id]

    def clear(self) -> None:
        """Removes the values of all live owners."""
        for reference in list(self._owners.values()):
            owner = reference()
            if owner is not None:
                owner._cached.pop(id(self), None)  # pyright: ignore[reportPrivateUsage]
        self._owners.clear()


class RecentCache(Generic[K, V]):
    """A least-recently-used cache of at most `limit` values, registered under a name."""

    name: str
    limit: int

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        self._entries: OrderedDict[K, V] = OrderedDict()
        CACHES.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries))

    def values(self) -> list[V]:
        """The values, the one used last at the end."""
        return list(self._entries.values())

    def get(self, key: K) -> V | None:
        """The value of a key, None where there is none (any more)."""
        try:
            self._entries.move_to_end(key)
            return self._entries[key]
        except KeyError:  # also where another thread has just dropped it
            return None

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        while len(self._entries) > self.limit:
            self._entries.popitem(last=False)

    def of(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, created by `make` if missing."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def drop(self, key: K) -> None:
        """Forget the value of a key, if there is one."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()


class _Results:
    """The results that an `lru_cache` holds."""

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function
        CACHES.add(self)

    def __len__(self) -> int:
        return self.function.cache_info().currsize

    def clear(self) -> None:
        self.function.cache_clear()


def remembered(name: str, limit: int) -> Callable[[F], F]:
    """A decorator: `lru_cache` with a limit, registered under a name in `CACHES`.

    >>> @remembered("squares", limit=2)
    ... def square(n): return n * n
    >>> [square(n) for n in (2, 3, 4)], CACHES["squares"]
    ([4, 9, 16], 2)
    """

    def decorated(function: F) -> F:
        cached: Any = lru_cache(maxsize=limit)(function)
        cached.results = _Results(name, cached)
        return cached

    return decorated


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
    """The amount of freed memory that this process keeps for arrays to come: `ti.config.kept_memory`.

    glibc maps a block above a threshold when it is allocated and gives it back to the system when it is freed, so that
    each result touches all of its pages for the first time, which costs several times what a stencil computes. The
    threshold follows what is freed, but by 32 MiB at most; here it follows the arrays of programs further, up to a
    limit. A thread that has an arena of its own keeps no block above 64 MiB, so all threads that start later share one.

    >>> KeptMemory(limit=128 << 20)
    up to 134 MB are kept; so far blocks as glibc chooses
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._block = limit, 0

    @property
    def limit(self) -> int:
        """The most bytes of freed memory that the process keeps for later arrays; 0 keeps none."""
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
        """Announces blocks of `arrays` arrays of so many bytes; blocks of that size are kept from now on when freed."""
        block = min(arrays * array, self._limit // 2, MOST // 2)
        if block > max(self._block, BY_GLIBC):
            self._keep(block)

    def _keep(self, block: int) -> None:
        """Sets glibc's thresholds so that blocks of this size stay in the heap, and records the size."""
        # the top of the heap is kept up to twice a block, which is glibc's own rule
        if _of_libc("mallopt", _MMAP_THRESHOLD, block) and _of_libc("mallopt", _TRIM_THRESHOLD, min(2 * block, MOST)):
            self._block = block

    def __repr__(self) -> str:
        so_far = f"of up to {self._block / 1e6:.0f} MB" if self._block else "as glibc chooses"
        return f"up to {self._limit / 1e6:.0f} MB are kept; so far blocks {so_far}"


def _of_libc(name: str, *arguments: Any) -> int:
    """The result of a function of glibc; 0 where the C library is another one."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return 0
    function: Callable[..., int] = getattr(libc, name)
    return function(*arguments)


def _limit(environment: Mapping[str, str]) -> int:
    """The default limit: a share of the available memory; 0 if the environment configures another allocator.

    >>> _limit({"MALLOC_TRIM_THRESHOLD_": "1000000"}), _limit({"LD_PRELOAD": "libjemalloc.so"})
    (0, 0)
    """
    if sys.platform != "linux":
        return 0
    if any(name.startswith("MALLOC_") for name in environment) or "malloc." in environment.get("GLIBC_TUNABLES", ""):
        return 0
    if "malloc" in environment.get("LD_PRELOAD", ""):
        return 0
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        if os.path.exists(path) and (limit := Path(path).read_text().strip()).isdigit():
            available = min(available, int(limit))
    return min(MOST, available // SHARE)


KEPT_MEMORY = KeptMemory(0)
"""That of this process."""
KEPT_MEMORY.limit = _limit(os.environ)  # threads of XLA start later, and share the arena of this one
