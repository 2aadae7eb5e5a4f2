"""What waits for a library to be imported by somebody else, and then runs; nothing is imported for its sake.

>>> import sys
>>> when_imported("sys", lambda: print("it is there already"))
it is there already
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["when_imported"]


def when_imported(name: str, then: Callable[[], object]) -> None:
    """Call `then` once, now if the library is imported, or right after it is."""
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Waiting(name, then))


class _Waiting:
    """A finder that finds nothing itself: it leaves a note on what the others find, and goes."""

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_then(module: ModuleType) -> None:
                execute(module)
                self.then()

            loader.exec_module = execute_and_then
        return spec
