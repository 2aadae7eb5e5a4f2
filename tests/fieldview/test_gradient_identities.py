"""Derivatives of every operator of the notebooks and of every program of the library, against themselves.

Forward and reverse mode are each other's transpose: w·(Jv) = (Jᵀw)·v to rounding. And J is the derivative: what is left
of f(x + εv) - f(x) - εJv falls with the square of ε.
"""

import ast
import json
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import library, meshes
from tests.stencils.program_samples import sample

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
MESH = meshes.icosahedral(1)
VERTICES, EDGES = MESH.sizes["Vertex"], MESH.sizes["Edge"]
GRID, BOX = {"I": (0, 9), "J": (0, 8)}, {"I": (0, 6), "J": (0, 5)}
FACES_X, FACES_Y = {"I": (0, 7), "J": (0, 5)}, {"I": (0, 6), "J": (0, 6)}
SPARSE = {"Vertex": VERTICES, "_NB_V2E": 6}
GLOBE, COLUMN = {"lat": (0, 6), "lon": (0, 12)}, {"depth": (0, 5)}
COORDINATES = {
    "lat": ({"lat": (0, 6)}, np.arange(-75.0, 76.0, 30.0), "degrees_north"),
    "lon": ({"lon": (0, 12)}, np.arange(15.0, 360.0, 30.0), "degrees_east"),
    "depth": (COLUMN, np.array([0.5, 2.0, 5.0, 9.0, 14.0]), "m"),
    "thickness": (COLUMN, np.array([1.0, 2.0, 4.0, 4.0, 6.0]), "m"),
}
"""What operators of fields on these dims ask for."""
CASES = {
    ("01", "laplacian"): (GRID,),
    ("01", "smooth"): (GRID, None),
    ("03", "laplacian"): (GRID,),
    ("03", "roughness"): (GRID,),
    ("03", "diffuse"): (GRID,),
    ("04", "rise"): (BOX, FACES_X, FACES_Y, BOX),
    ("04", "push_x"): (FACES_X, BOX, BOX),
    ("04", "push_y"): (FACES_Y, BOX, BOX),
    ("04", "blur"): (GRID,),
    ("05", "gradient"): ({"Vertex": VERTICES}, {"Edge": EDGES}, {"Edge": EDGES}, SPARSE, {"Vertex": VERTICES}),
    ("05", "around"): ({"Edge": EDGES},),
    ("05", "dimmed"): ({"Vertex": 4, "K": 7},),
    ("05", "warming"): ({"Vertex": 4, "K": 7},),
    ("15", "tendency"): (GLOBE,),
    ("15", "eliminated"): (COLUMN, COLUMN, COLUMN),
    ("15", "substituted"): (COLUMN, COLUMN),
    ("15", "mixed"): (COLUMN, None),
    ("15", "step"): (COLUMN,),
}
"""Of every operator of a notebook, where its arguments live; None is a number."""


MAKERS = {"dims", "Dimension", "FieldOffset", "neumann", "periodic", "topobathy", "spacing"}
"""What operators refer to is made by these."""


def is_definition(node: ast.stmt) -> bool:
    """Imports, functions, constants, and what operators refer to."""
    if isinstance(node, ast.Assign):
        parts = list(ast.walk(node.value))
        calls = [n.func.attr for n in parts if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        return set(calls) <= MAKERS if calls else all(isinstance(n, ast.Constant | ast.Tuple | ast.Load) for n in parts)
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)


def operators() -> dict[tuple[str, str], object]:
    """Every operator that a notebook defines."""
    found = {}
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        if "gt4py" in code or "cuda.tile" in code or "optax" in code:
            continue  # those are not there everywhere
        tree = ast.parse(code)
        tree.body = [n for n in tree.body if is_definition(n)]
        scope: dict[str, object] = {}
        exec(compile(tree, f"<{path.stem}>", "exec"), scope)
        found |= {(path.stem[:2], n): v for n, v in scope.items() if type(v).__name__ == "FieldOperator"}
    return found


def identities(function, arguments, seed: int) -> None:
    """The two identities for a function of a pytree of float arrays."""
    rng = np.random.default_rng(seed)

    def like(x):
        return jnp.asarray(rng.normal(size=x.shape))

    def dot(a, b):
        pairs = zip(jax.tree_util.tree_leaves(a), jax.tree_util.tree_leaves(b), strict=True)
        return float(sum(jnp.vdot(x, y) for x, y in pairs))

    def size(a):
        return dot(a, a) ** 0.5

    def moved(a, b, scale):
        return jax.tree_util.tree_map(lambda x, y: x + scale * y, a, b)

    v = jax.tree_util.tree_map(like, arguments)
    value, forward = jax.jvp(function, (arguments,), (v,))
    w = jax.tree_util.tree_map(like, value)
    (backward,) = jax.vjp(function, arguments)[1](w)
    one, other = dot(w, forward), dot(backward, v)
    assert abs(one - other) <= 1e-12 * max(size(w) * size(forward), size(backward) * size(v))

    steps = np.array([1e-3, 3e-4, 1e-4])
    left = [size(moved(moved(function(moved(arguments, v, e)), value, -1.0), forward, -e)) for e in steps]
    if max(left) <= 1e-11 * max(size(value), 1.0):
        return  # linear: nothing is left but rounding
    orders = np.diff(np.log(left)) / np.diff(np.log(steps))
    assert orders.min() >= 1.9, orders


def test_every_operator_of_the_notebooks_has_a_case():
    assert set(operators()) == set(CASES)


@pytest.mark.parametrize("key", CASES, ids="-".join)
def test_the_derivatives_of_an_operator_of_a_notebook_are_right(key):
    operator, rng = operators()[key], np.random.default_rng(zlib.crc32(key[1].encode()))
    with jax.enable_x64(True):
        arguments = [
            jnp.asarray(0.3) if place is None else ti.as_field(place, jnp.asarray(rng.uniform(0.5, 1.5, shape(place))))
            for place in CASES[key]
        ]
        provider = {name: MESH.tables[name] for name in ("V2E", "E2V")} if key[0] == "05" else {}

        def function(given):
            out = operator(*map(labelled, given), offset_provider=provider)
            return [o.data for o in (out if isinstance(out, tuple) else (out,))]

        identities(function, arguments, 1)


def labelled(field):
    """A field as a DataArray with the coordinates that its dims have."""
    coords = {
        name: (tuple(place), values, {"units": units})
        for name, (place, values, units) in COORDINATES.items()
        if isinstance(field, ti.Field) and set(place) <= set(field.dims.names)
    }
    return xr.DataArray(field.data, dims=field.dims.names, coords=coords) if coords else field


def shape(place) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else n[1] - n[0] for n in place.values())


@pytest.mark.parametrize("name", library.names())
def test_the_derivatives_of_a_program_of_the_library_are_right(name):
    given = sample(name, seed=5)
    floats = {n: v for n, v in given.items() if np.asarray(v).dtype.kind == "f"}
    fixed = {n: v for n, v in given.items() if n not in floats}
    with jax.enable_x64(True):
        program = ti.compile(library.load(name).bind(**fixed))
        arguments = {n: jnp.asarray(v, jnp.float64) for n, v in floats.items()}
        identities(lambda a: program(**a), arguments, 2)
