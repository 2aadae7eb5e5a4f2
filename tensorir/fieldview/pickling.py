"""Operators and programs in pickles: by their place in a module, as functions are, or by value.

By value go those to which no name leads: of functions inside of functions, of lambdas, and of `__main__`, which is
another module in the process of a worker. The pickler has to take such functions, as cloudpickle does, which dask uses.
One operator is one again however often it is read, since what was traced and compiled for it is kept with it.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

from tensorir.fieldview.closure_fingerprint import closure_fingerprint
from tensorir.runtime.memory import RecentCache

RESTORED: RecentCache[Any, Any] = RecentCache("operators that came in pickles by value", 256)
"""By constructor, code and closure fingerprint."""


def reduced(value: Any, make: Callable[..., Any], *options: Any) -> str | tuple[Any, ...]:
    """The result of `__reduce__` for `value`, an object that `make(value.function, *options)` builds.

    It is the qualified name if that leads to the object, otherwise the call that builds it; in `__main__` the bytes of
    cloudpickle if it is installed, since a worker's `__main__` is another module.
    """
    function: Any = value.function
    if _at_name(function.__module__, function.__qualname__) is not value:
        return _restored, (make, function, options)
    if function.__module__ != "__main__":
        return function.__qualname__
    try:
        cloudpickle: Any = importlib.import_module("cloudpickle")
    except ImportError:
        return function.__qualname__
    return _loaded, (make, cloudpickle.dumps((function, options)))


def _at_name(module: str, name: str) -> Any:
    start: Any = sys.modules.get(module)
    return reduce(lambda x, part: getattr(x, part, None), name.split("."), start)


def _loaded(make: Callable[..., Any], data: bytes) -> Any:
    """The object of a pickle from `__main__`: the one of this name and code here, or a restored one."""
    function, options = pickle.loads(data)
    named = _at_name(function.__module__, function.__qualname__)
    code = getattr(getattr(named, "function", None), "__code__", None)
    return named if code == function.__code__ else _restored(make, function, options)


def _restored(make: Callable[..., Any], function: Any, options: tuple[Any, ...]) -> Any:
    """`make(function, *options)`, once for equal code and equal values that it reads (cached in `RESTORED`)."""
    key = make, function.__code__, closure_fingerprint(function, options)
    return RESTORED.of(key, lambda: make(function, *options))
