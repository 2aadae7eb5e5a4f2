"""Stores of Zarr whose failures are told once.

Chunks are written side by side. Zarr raises at the first one that finds no room, while others are still being written:
they would come after what is done about the failure, each with a traceback of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["store", "to_zarr"]


def to_zarr(dataset: Any, path: str | Path, **options: Any) -> None:
    """`dataset.to_zarr`; raises the first OSError when nothing of it is under way any more."""
    with store(path) as found:
        dataset.to_zarr(found, **options)


@contextmanager
def store(path: str | Path) -> Iterator[Any]:
    """A store to write to; raises the first OSError at the end, when nothing is under way any more."""
    from zarr.storage import LocalStore

    failures: list[OSError] = []

    class Store(LocalStore):
        async def set(self, key: str, value: Any) -> None:
            if failures:
                return
            try:
                await super().set(key, value)
            except OSError as failure:
                failures.append(failure)

    try:
        yield Store(Path(path))
    except Exception:
        # what comes of a part that was not written is no news
        if not failures:
            raise
    if failures:
        raise failures[0]
