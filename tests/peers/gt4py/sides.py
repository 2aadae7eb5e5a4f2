"""A GT4Py program on both sides: GT4Py's own embedded mode, and this project's backend."""

from __future__ import annotations

import os
import warnings
from typing import Any

import jax
import numpy as np
import pytest

os.environ.setdefault("GT4PY_BUILD_JOBS_MODE", "serial")
switch = jax.config.jax_enable_x64
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    gtx = pytest.importorskip("gt4py.next")
# GT4Py turns 64 bits on for the whole process
jax.config.update("jax_enable_x64", switch)

from tensorir.iterator.gt4py_backend import xla_cpu

I, J = gtx.Dimension("I"), gtx.Dimension("J")
K = gtx.Dimension("K", kind=gtx.DimensionKind.VERTICAL)
Vertex, Edge, Cell = gtx.Dimension("Vertex"), gtx.Dimension("Edge"), gtx.Dimension("Cell")
LOCAL = gtx.DimensionKind.LOCAL
V2EDim, E2VDim, C2EDim = (gtx.Dimension(n, kind=LOCAL) for n in ("V2E", "E2V", "C2E"))
V2E = gtx.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
E2V = gtx.FieldOffset("E2V", source=Vertex, target=(Edge, E2VDim))
C2E = gtx.FieldOffset("C2E", source=Edge, target=(Cell, C2EDim))

RNG = np.random.default_rng(7)


def values(*shape: int, dtype: Any = np.float64) -> Any:
    """Numbers of a type, between 0.5 and 2 for floats, so that no function of them is undefined."""
    if np.dtype(dtype) == bool:
        return RNG.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(-9, 10, shape).astype(dtype)
    return RNG.uniform(0.5, 2.0, shape).astype(dtype)


def field(dims: dict[Any, Any], dtype: Any = np.float64, data: Any = None) -> Any:
    """A field on dims, each with an extent or an interval."""
    domain = gtx.domain(dims)
    return gtx.as_field(domain, values(*domain.shape, dtype=dtype) if data is None else data)


def copied(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(copied(m) for m in x)
    return gtx.as_field(x.domain, x.asnumpy().copy()) if hasattr(x, "asnumpy") else x


def arrays(x: Any) -> list[Any]:
    return [a for m in x for a in arrays(m)] if isinstance(x, tuple) else [x.asnumpy()] if hasattr(x, "asnumpy") else []


def close(ours: Any, expected: Any) -> None:
    """Equal within the bound of the element type: 50 units in the last place of the largest number."""
    for a, b in zip(arrays(ours), arrays(expected), strict=True):
        assert a.dtype == b.dtype
        if not np.issubdtype(a.dtype, np.floating):
            np.testing.assert_array_equal(a, b)
            continue
        bound = 50 * np.finfo(a.dtype).eps
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound * (np.nanmax(np.abs(b)) if b.size else 0))


def both(program: Any, *args: Any, provider: Any = None, **options: Any) -> list[Any]:
    """Run a program or operator on copies of its arguments on both sides; all fields are the same afterwards."""
    results: list[Any] = []
    for backend in (None, xla_cpu):
        mine = copied(args)
        named = {n: copied(v) if n == "out" else v for n, v in options.items()}
        program.with_backend(backend)(*mine, offset_provider=provider or {}, **named)
        results.append((*mine, *((named["out"],) if "out" in named else ())))
    close(results[1], results[0])
    return arrays(results[1])


def ours(program: Any, *args: Any, provider: Any = None, **options: Any) -> list[Any]:
    """Run on this project's backend alone, where the embedded mode has no such program."""
    mine = copied(args)
    named = {n: copied(v) if n == "out" else v for n, v in options.items()}
    program.with_backend(xla_cpu)(*mine, offset_provider=provider or {}, **named)
    return arrays((*mine, *((named["out"],) if "out" in named else ())))
