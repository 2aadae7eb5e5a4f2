"""What one process with eight pretended devices finds on unstructured meshes, as lines of `name: result`.

`test_equality.py` runs it. Programs are compiled for exact numerics, so that every operation rounds as op by
op, and their results are compared with the oracle's bit for bit.
"""

from __future__ import annotations

import collections
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import tensorir as ti
from stencils import library, meshes
from tensorir import reference

DEVICES = np.array(jax.devices())
SPHERE, TORUS, OPEN = meshes.icosahedral(1), meshes.rectangle(6, 5, periodic=(True, True)), meshes.rectangle(7, 4)
RNG = np.random.default_rng(0)
ALONG = {"Vertex": "px", "Edge": "px", "Cell": "px"}


def devices(count: int) -> Mesh:
    return Mesh(DEVICES[:count], ("px",))


def said(name: str, result: Any) -> None:
    print(f"{name}: {result}", flush=True)


def collectives(text: str) -> dict[str, int]:
    found = re.findall(r" (collective-permute|all-gather|all-reduce|all-to-all|reduce-scatter)(?:-start)?\(", text)
    return dict(collections.Counter(found))


def distributed(program: Any, mesh: Any, count: int, dims: tuple[str, ...], **options: Any) -> Any:
    axes = {d: ALONG[d] for d in dims}
    return ti.distribute(program, devices(count), axes, partition=ti.partition(mesh, count), **options)


def same(want: Any, got: Any) -> bool:
    pairs = zip(jax.tree_util.tree_leaves(want), jax.tree_util.tree_leaves(got), strict=True)
    return list(want) == list(got) and all(np.array_equal(a, b) for a, b in pairs)


def equal(program: Any, mesh: Any, count: int, dims: tuple[str, ...], **arrays: Any) -> bool:
    """Whether devices give the bits of the oracle."""
    got = distributed(program, mesh, count, dims, numerics="exact")(**arrays)
    return same(reference.run(program, **arrays), got)


CHAIN = """chain(out: tensor<float, Vertex[0:nv], K[0:l]>, x: tensor<float, Vertex[0:nv], K[0:l]>,
  V2V: tensor<int, Vertex[0:nv], _NB_Vertex[0:d]>) {
  out ← let a = x - reduce(+, 0.0)(⟪V2V⟫(x)); let b = a × a + reduce(max, -inf)(⟪V2V⟫(a));
    b + reduce(+, 0.0)(reduce(+, 0.0)(⟪V2V⟫(⟪V2V⟫(b))));
}"""
"""Four rings of neighbours: as deep as some of these meshes are, and deeper."""


def chains() -> None:
    for name, mesh, count in (("the sphere", SPHERE, 3), ("a sheet", OPEN, 8)):
        x = RNG.random((mesh.sizes["Vertex"], 1))
        found = equal(ti.parse(CHAIN), mesh, count, ("Vertex",), x=x, V2V=mesh.tables["V2V"])
        said(f"a chain on {name}", found)


MIXED = """mixed(out: tensor<float, Cell[0:nc]>, most: tensor<float>, n: tensor<int>, w: tensor<float, Vertex[0:nv]>,
  e: tensor<float32, Edge[0:ne]>, x: tensor<float, Vertex[0:nv]>, i: tensor<int, Edge[0:ne]>,
  C2E: tensor<int, Cell[0:nc], _NB_Edge[0:3]>, E2V: tensor<int, Edge[0:ne], _NB_Vertex[0:2]>,
  C2V: tensor<int, Cell[0:nc], _NB_Vertex[0:3]>) {
  w ← x × cast(pos(Vertex, x), float64);
  w[Vertex[2:9]] ← 7.5;
  out ← reduce(+, 0.0)(⟪C2V⟫(w)) + cast(reduce(+, 0)(⟪C2E⟫(i)), float64);
  out ← out + cast(reduce(+, cast(0.0, float32))(⟪C2E⟫(e)), float64);
  out ← out - reduce(+, 0.0)(⟪C2E⟫(⟪E2V, 0⟫(x) × 2.0 - ⟪E2V, 1⟫(x)));
  most ← reduce(max, 0.0, Vertex)(w);
  n ← reduce(+, 3, Edge)(i);
}"""


def mixed() -> None:
    """All kinds of points and several element types, coordinates, parts of outputs, folds over the mesh."""
    found: list[bool] = []
    for mesh, count in ((TORUS, 4), (OPEN, 2)):
        sizes, tables = mesh.sizes, {name: mesh.tables[name] for name in ("C2E", "E2V", "C2V")}
        found.append(equal(
            ti.parse(MIXED), mesh, count, ("Vertex", "Edge", "Cell"), x=RNG.random(sizes["Vertex"]),
            e=RNG.random(sizes["Edge"]).astype(np.float32), i=RNG.integers(-9, 9, sizes["Edge"]).astype(np.int32),
            **tables,
        ))  # fmt: skip
    said("cells, edges and vertices", found)


GUARDED = """guarded(out: tensor<float, Vertex[0:nv]>, both: tensor<(float, int), Vertex[0:nv]>,
  x: tensor<float, Vertex[0:nv]>, y: tensor<float, Vertex[0:nv]>, V2V: tensor<int, Vertex[0:nv], _NB_Vertex[0:d]>) {
  out ← (if can_deref(⟪V2V, 5⟫(y)) then ⟪V2V, 5⟫(x × both[0]) else 0.5)
    + (if can_deref(⟪V2V, 4⟫(⟪V2V, 0⟫(y))) then ⟪V2V, 4⟫(⟪V2V, 0⟫(x)) else 2.5);
}"""
NARROW = """narrow(out: tensor<float, Vertex[3:20]>, x: tensor<float, Vertex[0:40]>, z: tensor<float, Vertex[2:25]>,
  V2V: tensor<int, Vertex[0:40], _NB_Vertex[0:6]>, T: tensor<int, Vertex[3:20], _NB_Vertex[0:2]>) {
  out ← z + reduce(+, 0.0)(⟪V2V⟫(x × x)) + ⟪T, 1⟫(z) + reduce(+, 0.0)(⟪T⟫(subset(x, Vertex[5:20])));
}"""
INNER = """inner(out: tensor<float, Vertex[3:20]>, x: tensor<float, Vertex[2:31]>,
  T: tensor<int, Vertex[3:20], _NB_Vertex[0:2]>) {
  out ← subset(x, Vertex[3:20]) + reduce(+, 0.0)(⟪T⟫(x));
}"""
COLUMNS = """columns(out: tensor<float, Vertex[0:nv], K[0:3]>, x: tensor<float, Vertex[0:nv], K[0:3]>,
  up: tensor<int, Vertex[0:nv], K[0:3], _NB_K[0:2]>, V2V: tensor<int, Vertex[0:nv], _NB_Vertex[0:d]>) {
  out ← let a = reduce(+, 0.0)(⟪up⟫(x));
    scan(λ(s: tensor<float, Vertex[0:nv]>, v: tensor<float, Vertex[0:nv]>) → s + v, true, 0.0, K)(
      a + reduce(+, 0.0)(⟪V2V⟫(a)));
}"""


def kinds() -> None:
    """Guards, tuples, fields and tables of fewer points, owners of somebody's own, tables within columns."""
    v2v, nv = OPEN.tables["V2V"], OPEN.sizes["Vertex"]
    x, y = RNG.random(nv), RNG.random(nv)
    guarded = {"x": x, "y": y, "both": (y, np.arange(nv, dtype=np.int32)), "V2V": v2v}
    program = ti.parse(GUARDED)
    d = ti.distribute(program, devices(3), {"Vertex": "px"}, partition={"Vertex": np.arange(nv) % 3}, numerics="exact")
    said("guards, and owners in turn", same(reference.run(program, **guarded), d(**guarded)))
    table = RNG.integers(5, 20, (17, 2)).astype(np.int32)
    narrow = {"x": x, "z": RNG.random(23), "V2V": v2v, "T": table}
    said("fewer points", equal(ti.parse(NARROW), OPEN, 4, ("Vertex",), **narrow))
    inner = {"x": RNG.random(29), "T": table}
    said("none of the first and last points", equal(ti.parse(INNER), OPEN, 4, ("Vertex",), **inner))
    columns = {"x": RNG.random((nv, 3)), "up": RNG.integers(-1, 3, (nv, 3, 2)).astype(np.int32), "V2V": v2v}
    said("columns", equal(ti.parse(COLUMNS), OPEN, 3, ("Vertex",), **columns))


def laplacian(mesh: Any) -> Any:
    program: Any = library.load("mesh_laplacian")
    tables = {name: mesh.tables[name] for name in ("V2E", "E2V")}
    lengths = {name: 1 + RNG.random(mesh.sizes["Edge"]) for name in ("edge_length", "dual_edge_length")}
    area = 1 + RNG.random(mesh.sizes["Vertex"])
    return program.bind(**tables, **lengths, sign=mesh.signs["V2E"], vertex_area=area)


def collectives_of_a_step() -> None:
    """One permute for each round, or one `all_to_all`, and as many again in the gradient."""
    mesh = meshes.icosahedral(2)
    for count in (2, 4, 8):
        d = distributed(laplacian(mesh), mesh, count, ("Vertex", "Edge"))
        plan = d.plan(l=1)
        said(f"sent by {count} devices", f"{collectives(d.hlo(l=1))}, planned {plan.permutes} and {plan.all_to_alls}")
        if count != 8:
            with jax.enable_x64(True):
                step = d.step_of(l=1)
                shapes = step.shapes()
                fields = {"inp": shapes.pop("inp")}
                run = jax.grad(lambda f, rest, step=step: (step.run({**f, **rest})[0]["out"][0] ** 2).sum())
                text = jax.jit(run).lower(fields, shapes).compile().as_text()
            said(f"sent by {count} devices in the gradient", collectives(text))


def transformed() -> None:
    """Gradients, vmap and time loops; a second axis of the mesh for the levels."""
    mesh = OPEN
    program = laplacian(mesh)
    one = ti.compile(program, numerics="exact")
    x = RNG.random((mesh.sizes["Vertex"], 4))
    d = distributed(program, mesh, 4, ("Vertex", "Edge"), numerics="exact")
    both = ti.distribute(
        program, Mesh(DEVICES[:4].reshape(2, 2), ("px", "pk")), {"Vertex": "px", "Edge": "px", "K": "pk"},
        partition=ti.partition(mesh, 2), numerics="exact",
    )  # fmt: skip
    want = one(inp=x)
    said("levels on an axis of their own", same(want, both(inp=x)))
    on = d.dealt(inp=x)
    with jax.enable_x64(True):
        u = jnp.asarray(x)

        def slope(run: Any) -> Any:
            return jax.jit(jax.grad(lambda u: (run(inp=u)["out"] ** 2).sum()))(u)

        def steps(run: Any, u: Any) -> Any:
            return ti.iterate(lambda u: u - 0.01 * run(inp=u)["out"], u, 6)

        ours, theirs = slope(d), slope(one)
        worst = float(abs(ours - theirs).max() / abs(theirs).max())
        said("gradient", "equal to 1e-12" if worst < 1e-12 else worst)
        stacked = [jax.vmap(lambda u, run=run: run(inp=u)["out"])(jnp.stack([u, 2 * u])) for run in (d, one)]
        said("vmap", np.array_equal(*stacked))
        after = steps(one, u)
        said("steps", np.array_equal(steps(d, u), after))
        loop = jax.jit(lambda u: steps(on, u))
        said("steps of what is dealt out", np.array_equal(on.whole(out=loop(on["inp"]))["out"], after))
        said("steps of what is dealt out send", collectives(loop.lower(on["inp"]).compile().as_text()))
        there = on["inp"]
        pairs = ((there == there, u == u), (there != 0.5, u != 0.5), (there % 0.5, u % 0.5), (there // 0.5, u // 0.5))
        said("comparisons", all(np.array_equal(a, b) for a, b in pairs))
        total = lambda v: (v * v / v.size + jnp.cos(v)).sum()
        dealt = on(inp=on["inp"])["out"]
        said("no padding in sums", bool(jnp.allclose(total(dealt), total(one(inp=u)["out"]), 1e-13)) and dealt.shape)
        slopes = [jax.grad(lambda v, run=run: total(run(inp=v)["out"]))(v) for run, v in ((on, on["inp"]), (one, u))]
        said("nor in their gradients", bool(jnp.allclose(slopes[0].whole, slopes[1], 1e-12, 1e-12)))
    try:
        on(inp=x)
    except ti.DiagnosticError as found:
        said("what is not dealt out", str(found).replace("\n", " "))


def op_by_op() -> None:
    program = ti.parse("""rise(y: tensor<float, Edge[0:ne]>, x: tensor<float, Vertex[0:nv]>,
      E2V: tensor<int, Edge[0:ne], _NB_Vertex[0:2]>) { y ← ⟪E2V, 1⟫(x) - ⟪E2V, 0⟫(x); }""")
    given = {"x": RNG.random(OPEN.sizes["Vertex"]), "E2V": OPEN.tables["E2V"]}
    d = distributed(program, OPEN, 2, ("Vertex", "Edge"))
    with jax.disable_jit():
        said("op by op", same(reference.run(program, **given), d(**given)))


Vertex, V2VDim = ti.Dimension("Vertex"), ti.Dimension("V2V", kind="local")
V2V = ti.FieldOffset("V2V", source=Vertex, target=(Vertex, V2VDim))


@ti.field_operator
def around(f):
    return ti.max_over(f(V2V), axis=V2VDim) - f


def called() -> None:
    """An operator with its tables on Fields, and a program on DataArrays."""
    import xarray as xr

    given = {"V2V": OPEN.tables["V2V"]}
    field = ti.as_field({Vertex: (0, OPEN.sizes["Vertex"])}, RNG.random(OPEN.sizes["Vertex"]))
    d = ti.distribute(around, devices(4), {Vertex: "px"}, partition=ti.partition(OPEN, 4))
    got, want = d(field, offset_provider=given), around(field, offset_provider=given)
    said("an operator", type(got) is type(want) and np.array_equal(got.data, want.data))
    array = xr.DataArray(RNG.random((2, OPEN.sizes["Vertex"])), dims=("K", "Vertex"), attrs={"units": "K"})
    program = laplacian(OPEN)
    out = distributed(program, OPEN, 2, ("Vertex", "Edge"), numerics="exact")(inp=array)["out"]
    said("a DataArray", out.equals(ti.compile(program, numerics="exact")(inp=array)["out"]))


CASES = (chains, mixed, kinds, collectives_of_a_step, transformed, op_by_op, called)

if __name__ == "__main__":
    for case in CASES:
        case()
