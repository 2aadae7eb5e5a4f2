"""Extension points, and what waits for a library to be imported.

Extension points: what a lower layer of the package asks of an upper one, which provides it.

Nodes print themselves, errors draw pages, and fencils are called; printing, drawing and calling are written in terms
of nodes, and so stand above them. The lower layer has an extension point, which names the upper layer's function and
imports it when it is first called.

>>> shout = ExtensionPoint("a word in capitals", "builtins", "repr")
>>> shout("word")
"'word'"

What waits for a library to be imported by somebody else, and then runs; nothing is imported for its sake.

>>> import sys
>>> when_imported("sys", lambda: print("it is there already"))
it is there already
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class ExtensionPoint:
    """A function of a module that is imported when it is first called."""

    def __init__(self, purpose: str, module: str, name: str) -> None:
        self.purpose, self.module, self.name = purpose, module, name
        self._function: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Calls the function, after importing its module the first time."""
        function = self._function
        if function is None:
            function = self._function = getattr(importlib.import_module(self.module), self.name)
        return function(*args, **options)

    def __repr__(self) -> str:
        return f"<extension point: {self.purpose}, {self.module}.{self.name}>"


def when_imported(name: str, callback: Callable[[], object]) -> None:
    """Calls `callback` once: now if the module is imported, otherwise right after its import."""
    if name in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _Waiting(name, callback))


class _Waiting:
    """An import finder that finds no module itself: it hooks the loader of the awaited module, and removes itself."""

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the awaited module with a loader that runs the callback after it; None for other modules."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            exec_module = loader.exec_module

            def execute_and_then(module: ModuleType) -> None:
                exec_module(module)
                self.then()

            loader.exec_module = execute_and_then
        return spec
