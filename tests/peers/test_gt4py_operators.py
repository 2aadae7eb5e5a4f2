"""The same operators, from one text, in GT4Py's embedded mode and here: the same bits, op by op."""

import importlib.util
import linecache
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import tensorir as ti

switch = jax.config.jax_enable_x64
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    gtx = pytest.importorskip("gt4py.next")
# GT4Py turns 64 bits on for the whole process
jax.config.update("jax_enable_x64", switch)

NAMES = "field_operator scan_operator neighbor_sum max_over min_over where astype sqrt abs floor minimum maximum"
HERE = f"""
from typing import Any
import tensorir as ti
from tensorir import {", ".join(NAMES.split())}, concat_where, Field, Dimension, FieldOffset, float64, int32
import numpy
float32 = ti.float32
I, J, K, Vertex, Edge = ti.dims("I J K Vertex Edge")
V2EDim = Dimension("V2E", kind="local")
V2E = FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
"""
THERE = f"""
from gt4py.next import {", ".join(NAMES.split())}, Field, Dimension, DimensionKind, FieldOffset, float64, float32, int32
from gt4py.next.experimental import concat_where
I, J, Vertex, Edge = Dimension("I"), Dimension("J"), Dimension("Vertex"), Dimension("Edge")
K = Dimension("K", kind=DimensionKind.VERTICAL)
V2EDim = Dimension("V2E", kind=DimensionKind.LOCAL)
V2E = FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
"""
BODY = (Path(__file__).parent / "gt4py_operators.txt").read_text(encoding="utf-8")
TABLE = np.array([[0, 1, 2], [2, 4, -1], [1, 3, 0], [4, -1, -1]], np.int32)
RNG = np.random.default_rng(7)
DATA = {
    "f": RNG.normal(size=(9, 8)),
    "u": RNG.normal(size=(9, 8)),
    "s": RNG.normal(size=(9, 8)).astype("float32"),
    "n": RNG.integers(-9, 9, (9, 8)).astype("int32"),
    "b": RNG.normal(size=8),
    "a": 1.7,
    "e": RNG.normal(size=5),
    "k": RNG.normal(size=6),
    "l": RNG.normal(size=6),
    "x": RNG.normal(size=6),
}
DIMS = {"f": "IJ", "u": "IJ", "s": "IJ", "n": "IJ", "b": "J", "e": ("Edge",), "k": "K", "l": "K", "x": "K"}
CASES = {
    **dict.fromkeys(["laplacian", "roots", "negated", "squares", "inverted", "whole", "right", "far"], "f"),
    **dict.fromkeys(["upwind", "extremes", "logic", "unequal", "pair", "unpacked"], "fu"),
    "biharmonic": "f", "limited": "f", "remainders": "n", "single": "s", "widened": "sf", "line": "fb", "scaled": "fa",
    **dict.fromkeys(["neighbours", "largest", "smallest", "first", "squared"], "e"),
    "lower": "kl", "total": "x", "decay": "x",
}  # fmt: skip


def module(name, head, folder):
    path = folder / f"{name}.py"
    path.write_text(head + BODY, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    linecache.checkcache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operators")
    return module("operators_there", THERE, folder), module("operators_here", HERE, folder)


def domain_of(name):
    """Where an operator is asked for: inside of what its shifts need."""
    if name in ("neighbours", "largest", "smallest", "first", "squared"):
        return {"Vertex": (0, 4)}
    if name in ("lower", "total", "decay"):
        return {"K": (0, 6)}
    return {"I": (2, 7), "J": (2, 6)}


def test_there_are_enough_operators():
    assert len(CASES) >= 25


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_gt4pys_bit_for_bit(both, name):
    there, here = both
    domain = domain_of(name)
    shape = {"Vertex": (4,), "K": (6,)}.get(next(iter(domain)), (9, 8))
    dtype = {"remainders": "int32", "single": "float32"}.get(name, "float64")

    def dim(module, d):
        return getattr(module, d)

    def run(module, as_field, zeros, provider):
        arguments = [x if n == "a" else as_field([dim(module, d) for d in DIMS[n]], x) for n, x in inputs]
        outs = tuple(zeros({dim(module, d): n for d, n in extents.items()}, dtype) for _ in range(count))
        region = {dim(module, d): i for d, i in domain.items()}
        out = outs if count > 1 else outs[0]
        getattr(module, name)(*arguments, out=out, domain=region, offset_provider=provider)
        return [o.asnumpy() if hasattr(o, "asnumpy") else o.data for o in outs]

    inputs = [(n, DATA[n]) for n in CASES[name]]
    count = 2 if name == "pair" else 1
    extents = dict(zip(domain, shape, strict=True))
    connectivity = gtx.as_connectivity(
        domain={there.Vertex: (0, 4), there.V2EDim: (0, 3)}, codomain=there.Edge, data=TABLE, skip_value=-1
    )
    blank = lambda extents, dtype: gtx.zeros({d: (0, n) for d, n in extents.items()}, dtype=np.dtype(dtype).type)
    expected = run(there, gtx.as_field, blank, {"V2E": connectivity})
    with jax.disable_jit():
        got = run(here, ti.as_field, lambda extents, dtype: ti.zeros(extents, getattr(ti, dtype)), {"V2E": TABLE})
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)
