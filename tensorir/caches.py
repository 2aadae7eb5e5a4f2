"""Caches: what is remembered between calls, in objects that can be listed, sized and emptied.

`WeakCache` has one value per owner (a program), which dies with its owner; `RecentCache` keeps the entries used last,
and `remembered` the results of a function. Every cache has a name, under which `ti.caches` counts it.

>>> sums = RecentCache("sums", limit=2)
>>> [sums.of(n, lambda n=n: n * (n + 1) // 2) for n in (3, 4, 5)], len(sums), 3 in sums
([6, 10, 15], 2, False)
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["CACHES", "SIZES", "CacheOwner", "Caches", "RecentCache", "WeakCache", "remembered"]

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
    """All caches of the process by name, as long as they live: `ti.caches`.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<float>, x: tensor<float>) { y ← x + 1.0; }")
    >>> ti.caches.clear()
    >>> float(f(x=1.0)["y"]), ti.caches["compiled programs"]
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
        """The number of entries by name."""
        found: dict[str, int] = {}
        for cache in self._alive():
            found[cache.name] = found.get(cache.name, 0) + len(cache)
        return found

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
    """What a `WeakCache` keeps values of: they are stored in the owner itself, and so may refer to it."""

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
        """The value of an owner, made when it is first asked for."""
        held: dict[int, V] | None = getattr(owner, "_cached", None)
        if held is None:
            held = {}
            object.__setattr__(owner, "_cached", held)
        me = id(self)
        if me not in held:
            value = make(owner)
            key, owners = id(owner), self._owners
            owners[key] = weakref.ref(owner, lambda _: owners.pop(key, None))
            held[me] = value
            return value
        return held[me]

    def clear(self) -> None:
        for known in list(self._owners.values()):
            owner = known()
            if owner is not None:
                owner._cached.pop(id(self), None)  # pyright: ignore[reportPrivateUsage]
        self._owners.clear()


class RecentCache(Generic[K, V]):
    """At most `limit` values by key; the one that was used least recently goes first."""

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
        """The value of a key, made where there is none."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def clear(self) -> None:
        self._entries.clear()


class _Results:
    """What an `lru_cache` holds."""

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function
        CACHES.add(self)

    def __len__(self) -> int:
        return self.function.cache_info().currsize

    def clear(self) -> None:
        self.function.cache_clear()


def remembered(name: str, limit: int) -> Callable[[F], F]:
    """A function whose last `limit` results are kept: `lru_cache`, for arguments or results that are parts of programs.

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
