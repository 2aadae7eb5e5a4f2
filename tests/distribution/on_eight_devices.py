"""What one process with eight pretended devices finds, as lines of `name: result`; `test_equality.py` runs it.

Every case is a program on a mesh beside the same program on one device: compiled for exact numerics, so that every
operation rounds as op by op, results are compared bit for bit.
"""

from __future__ import annotations

import collections
import logging
import os
import re
import sys
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
from generate.data import copied
from generate.profiles import EXACT, WHOLE
from generate.programs import made
from generate.properties import differences
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tensorir as ti
from stencils import library
from tensorir import reference

DEVICES = np.array(jax.devices())
MANY = 500 if "NIGHTLY" in os.environ else 25


def mesh(px: int, py: int = 1) -> Mesh:
    return Mesh(DEVICES[: px * py].reshape(px, py), ("px", "py"))


def collectives(text: str) -> dict[str, int]:
    found = re.findall(r" (collective-permute|all-gather|all-reduce|all-to-all|reduce-scatter)(?:-start)?\(", text)
    return dict(collections.Counter(found))


def said(name: str, result: Any) -> None:
    print(f"{name}: {result}", flush=True)


def stencil(n: int, m: int, low: int, high: int, periodic: bool) -> ti.Fencil:
    """A difference of what stands `low` before and `high` after along I, and beside along J."""
    if periodic:
        wide = f"concat(⟪I, {n}⟫(subset(x, I[{n - low}:{n}])), x)" if low else "x"
        wide = f"concat({wide}, ⟪I, {-n}⟫(subset(x, I[0:{high}])))" if high else wide
        region = ""
    else:
        wide, region = "x", f"[I[{low}:{n - high}]]"
    return ti.parse(f"""
      f(y: tensor<float, I[0:{n}], J[0:{m}]>, x: tensor<float, I[0:{n}], J[0:{m}]>) {{
        y ← x;
        y[J[0:{m - 1}]] ← y - ⟪J, 1⟫(y);
        y{region} ← let e = {wide}; ⟪I, {-low}⟫(e) - 0.5 × ⟪I, {high}⟫(e) × x;
      }}""")


def stencils() -> None:
    """Factorisations of 8, odd and prime extents, halos 0 to 5 on each side, periodic or not.

    Blocks of the larger extents have an interior, and strips around it.
    """
    draw, wrong = Random(0), []
    extents = [8, 9, 11, 13, 16, 17, 23, 61, 64, 97]
    table = list(product([(8, 1), (4, 2), (2, 4), (1, 8)], extents, range(6), range(6), [False, True]))
    fitting = [row for row in table if row[2] + row[3] < row[1]]
    for seed, (devices, n, low, high, periodic) in enumerate(draw.sample(fitting, MANY)):
        m = draw.choice([8, 9, 13])
        program = stencil(n, m, low, high, periodic)
        x = np.random.default_rng(seed).random((n, m))
        got = ti.distribute(program, mesh(*devices), {"I": "px", "J": "py"}, numerics="exact")(x=x)["y"]
        if not np.array_equal(got, reference.run(program, x=x)["y"]):
            wrong.append((devices, n, m, low, high, periodic))
    said("stencils", f"wrong: {wrong}")


def generated() -> None:
    """Generated programs over all builtins; those that cannot be distributed are told so before anything runs."""
    draw, tried, refused, wrong = Random(1), 0, set[str](), []
    while tried < MANY:
        case = made(draw.randint, draw.choice([WHOLE, EXACT]))
        extents: dict[str, Any] = {}
        for p in case.fencil.params:
            for d, i in p.type.dims.items:
                extents[d] = extents.get(d, i) | i
        some = draw.sample(list(extents), min(2, len(extents)))
        sizes = [draw.randint(1, min(most, len(extents[d]))) for d, most in zip(some, (4, 2), strict=False)]
        axes = dict(zip(some, ("px", "py"), strict=False))
        try:
            d = ti.distribute(case.fencil, mesh(*sizes), axes, numerics="exact") if sizes else None
            if d is None:
                continue
            d.plan()
        except ti.DiagnosticError as found:
            refused.update(x.code for x in found.diagnostics)
            continue
        try:
            want: Any = reference.run(case.fencil, **copied(case.arguments))
        except ti.DiagnosticError as found:
            want = found.diagnostics[0].code
        try:
            got: Any = d(**copied(case.arguments))
        except ti.DiagnosticError as found:
            got = found.diagnostics[0].code
        same = isinstance(want, str) and want == got
        different = "" if same else differences(case, want, got)
        if different and not isinstance(want, str) and not isinstance(got, str):
            # where XLA folds constants otherwise, it does so on one device
            one = ti.compile(case.fencil, numerics="exact")(**copied(case.arguments))
            different = differences(case, one, got)
        if different:
            wrong.append((axes, sizes, different, str(case)))
        tried += 1
    said("generated", f"refused by {sorted(refused)}, wrong: {wrong}")


def gradient(run: Any, arrays: Any) -> Any:
    """Of the sum of the squares of all results."""
    return jax.jit(jax.grad(lambda given: sum((r**2).sum() for r in run(**given).values())))(arrays)


def library_programs() -> None:
    """Programs of the library on odd extents, what they send, and gradients beside those of one device."""
    rng = np.random.default_rng(3)
    sizes = {
        "hdiff": {"n": 17, "m": 13, "l": 2}, "shallow_water": {"n": 15, "m": 11}, "biharmonic": {"n": 19, "m": 14},
        "vertical_advection": {"n": 5, "m": 7, "l": 6},
    }  # fmt: skip
    for name, extents in sizes.items():
        program: Any = library.load(name)
        one = ti.compile(program, numerics="exact")
        d = ti.distribute(program, mesh(2, 2), {"I": "px", "J": "py"}, numerics="exact")
        fencil = program.specialise(**extents)
        arrays = {p.name: rng.random(p.type.dims.shape) for p in fencil.inputs}
        want, got = one(**copied(arrays)), d(**copied(arrays))
        said(f"{name} equal", all(np.array_equal(want[k], got[k]) for k in want))
        said(f"{name} sends", collectives(d.hlo(**extents)))
        with jax.enable_x64(True):
            given = {k: jnp.asarray(a) for k, a in arrays.items()}
            loose = ti.distribute(program, mesh(2, 2), {"I": "px", "J": "py"})

            mine, theirs = (gradient(run, given) for run in (loose, ti.compile(program)))
            worst = max(float(abs(mine[k] - theirs[k]).max() / abs(theirs[k]).max()) for k in given)
        said(f"{name} gradient", "equal to 1e-12" if worst < 1e-12 else worst)


def even_gradient() -> None:
    """How many collectives a step and its gradient have, where no block is padded."""
    program: Any = library.load("hdiff")
    d = ti.distribute(program, mesh(2, 2), {"I": "px", "J": "py"})
    step = d.step(program.specialise(n=16, m=12, l=2))
    with jax.enable_x64(True):
        lowered = jax.jit(jax.grad(lambda f: sum((x**2).sum() for x in step.run_inside(f)[0]["out"]))).lower(
            step.shapes()
        )
        found = collectives(lowered.compile().as_text() or "")
    said("permutes of hdiff's gradient", found["collective-permute"])


def uneven_steps() -> None:
    """A time loop keeps its states in blocks where extents do not divide: its steps send halos and gather nothing."""
    program: Any = library.load("hdiff")
    rng = np.random.default_rng(8)
    given = {p: rng.random((17, 13, 2)) for p in ("inp", "coeff")}
    d = ti.distribute(program, mesh(4, 2), {"I": "px", "J": "py"}, numerics="exact")

    def steps(run: Any) -> Any:
        return lambda inp, coeff: ti.iterate(lambda u: run(inp=u, coeff=coeff)["out"], inp, 6)

    with jax.enable_x64(True):
        jitted = jax.jit(steps(d))
        said("uneven steps", np.array_equal(jitted(**given), steps(ti.compile(program, numerics="exact"))(**given)))
        before, entry = jitted.lower(**given).compile().as_text().split("\nENTRY ")
        said("uneven steps send", f"{collectives(before)} and at the end {collectives(entry)}")
        wide = {p: jnp.asarray(rng.random((33, 29, 2))) for p in given}

        def gradient(run: Any) -> Any:
            last = steps(run)
            return jax.jit(jax.grad(lambda given: (last(**given) ** 2).sum()))(wide)

        mine, theirs = gradient(d), gradient(ti.compile(program, numerics="exact"))
        said("gradient of uneven steps", all(np.allclose(mine[p], theirs[p], 1e-12, 1e-14) for p in wide))


def calls_like_those_before() -> None:
    """A call with blocks like those of a call before goes straight to them; others are looked at and moved anew."""
    program, both = ti.parse(CONSTANT), mesh(8)
    d = ti.distribute(program, both, {"I": "px"}, numerics="exact")
    exact = ti.compile(program, numerics="exact")
    with jax.enable_x64(True):
        blocks = NamedSharding(both, PartitionSpec("px"))
        for n, placed in ((32, True), (32, True), (32, False), (48, True), (47, False)):
            given = {p: jnp.asarray(np.random.default_rng(n).random(n)) for p in "xc"}
            mine = {p: jax.device_put(x, blocks) for p, x in given.items()} if placed else given
            if not np.array_equal(d(**mine)["y"], exact(**given)["y"]):
                said("calls like those before", f"wrong at {n}")
        said("calls like those before", f"{len(d.quick)} kinds")


LEAPFROG = """f(y: tensor<float, I[0:n]>, a: tensor<float, I[0:n]>, b: tensor<float, I[0:n]>) {
  y ← b;
  y[I[1:n-1]] ← b + ⟪I, 1⟫(a) - ⟪I, -1⟫(a);
}"""


CONSTANT = """f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>, c: tensor<float, I[0:n]>) {
  y ← x;
  y[I[1:n-1]] ← x + 0.1 × (c + ⟪I, 1⟫(c)) × (⟪I, 1⟫(x) - x);
}"""


def several_steps() -> None:
    """One exchange for several steps: the bits of single steps, and as many rounds as there are exchanges."""
    program: Any = library.load("hdiff")
    rng, exact = np.random.default_rng(9), ti.compile(program, numerics="exact")

    def loop(run: Any, n: int, coeff: Any) -> Any:
        return lambda u: ti.iterate(lambda u: run(inp=u, coeff=coeff)["out"], u, n, checkpoint=False)

    with jax.enable_x64(True):
        u, coeff = jnp.asarray(rng.random((16, 12, 2))), jnp.full((16, 12, 2), 0.02)
        d = ti.distribute(program, mesh(2, 2), {"I": "px", "J": "py"}, numerics="exact", halo_steps=3)
        want = loop(exact, 7, coeff)(u)
        said("seven steps, three at once", np.array_equal(loop(d, 7, coeff)(u), want))
        text = jax.jit(loop(d, 6, coeff)).lower(u).compile().as_text() or ""
        counts = re.findall(r'known_trip_count":\{"n":"(\d+)"', text)
        each, entry = map(collectives, text.split("\nENTRY "))
        said("six steps, three at once", f"{each} in {counts} rounds, and {entry} of the coefficient before")
        one, two = jnp.asarray(rng.random(17)), jnp.asarray(rng.random(17))

        def moved(run: Any) -> Any:
            return lambda x, c: ti.iterate(lambda x: run(x=x, c=c)["y"], x, 6, checkpoint=False)

        program = ti.parse(CONSTANT)
        d = ti.distribute(program, mesh(4), {"I": "px"}, numerics="exact")
        want = moved(ti.compile(program, numerics="exact"))(one, two)
        said("steps with a field that is the same", np.array_equal(jax.jit(moved(d))(one, two), want))
        text = jax.jit(moved(d)).lower(one, two).compile().as_text() or ""
        each, entry = (re.findall(r"(\S+)\{0\} collective-permute", part) for part in text.split("\nENTRY "))
        said("what its steps send", f"{each}, and before them {entry}")

        d = ti.distribute(program, mesh(4), {"I": "px"}, numerics="exact", halo_steps=3)
        want = moved(ti.compile(program, numerics="exact"))(one, two)
        jitted = jax.jit(lambda x: d(x=x, c=two)["y"])
        said("steps of a function that is compiled", np.array_equal(ti.iterate(jitted, one, 6), want))
        fields = [ti.as_field({"I": 17}, np.asarray(a)) for a in (one, two)]
        said("steps of a Field", np.array_equal(moved(d)(*fields).data, want))
        large, around = jnp.asarray(rng.random(50)), jnp.asarray(rng.random(50))
        steps, several = (moved(run) for run in (d, ti.compile(program, numerics="exact")))
        twice = [np.array_equal(steps(x, around), several(x, around)) for x in (large, several(large, around))]
        said("steps of arrays of one device, which an outside one is beside", twice)

        def levels(run: Any) -> Any:
            return lambda s: ti.iterate(lambda s: (run(a=s[0], b=s[1])["y"], s[0]), s, 5)

        program = ti.parse(LEAPFROG)
        d = ti.distribute(program, mesh(4), {"I": "px"}, numerics="exact", halo_steps=2)
        pairs = zip(levels(d)((one, two)), levels(ti.compile(program, numerics="exact"))((one, two)), strict=True)
        said("two levels of time", all(np.array_equal(a, b) for a, b in pairs))

        def slope(run: Any) -> Any:
            return jax.jit(jax.grad(lambda s: (levels(run)(s)[0] ** 2).sum()))((one, two))

        pairs = zip(slope(d), slope(ti.compile(program)), strict=True)
        said("gradient of steps at once", all(bool(jnp.allclose(a, b, 1e-12, 1e-12)) for a, b in pairs))
        try:
            ti.iterate(lambda s: (d(a=2.0 * s[0], b=s[1])["y"], s[0]), (one, two), 5)
        except ti.DiagnosticError as told:
            said("a step that does more", str(told).replace("\n", " "))


WIDE = "tensor<float, I[0:13], J[0:5]>"
CARRIED = f"k: tensor<int>, a: {WIDE}"
REGIONS = {
    "a loop beside what it reads": f"""
      let slope = update(x, ⟪I, 1⟫(x) - ⟪I, -1⟫(x));
      let last = loop(0, 20)(λ({CARRIED}) → true, λ({CARRIED}) → a × 0.9 + slope × cast(k, float64), x);
      y ← last; y[I[1:12]] ← ⟪I, 1⟫(last) - ⟪I, -1⟫(last);""",
    "a loop from nothing": f"""
      y ← loop(0, 9)(λ({CARRIED}) → true, λ({CARRIED}) → a + x × x, add_dim(I, 0, 13, add_dim(J, 0, 5, 0.0)));""",
    "a loop until a number is large": f"""
      y ← loop(0, none)(λ({CARRIED}, s: tensor<float>) → s < 3.0,
        λ({CARRIED}, s: tensor<float>) → {{a × 1.1, s + 0.5}}, x, 0.0);""",
    "few rounds of a stencil": f"""
      y ← loop(0, 4)(λ({CARRIED}) → true, λ({CARRIED}) → update(a, 0.5 × (⟪I, 1⟫(a) + ⟪I, -1⟫(a))), x);""",
    "a branch": f"""
      let slope = update(x, ⟪I, 1⟫(x) - ⟪I, -1⟫(x));
      y ← cond(0)(λ(a: {WIDE}) → a × slope, λ(a: {WIDE}) → a,
        reduce(max, 0.0, J)(reduce(max, 0.0, I)(x)) > 0.5, x × 2.0);""",
}


def regions() -> None:
    """Loops and conditionals of what is distributed, and their gradients."""
    x = np.random.default_rng(3).random((13, 5))

    def slope(run: Any) -> Any:
        return jax.grad(lambda x: (run(x=x)["y"] ** 2).sum())(jnp.asarray(x))

    for name, closures in REGIONS.items():
        program = ti.parse(f"f(y: {WIDE}, x: {WIDE}) {{ {closures} }}")
        d = ti.distribute(program, mesh(4, 2), {"I": "px", "J": "py"}, numerics="exact")
        said(name, np.array_equal(d(x=x)["y"], reference.run(program, x=x)["y"]))
        with jax.enable_x64(True):
            said(f"{name}, gradient", bool(jnp.allclose(slope(d), slope(ti.compile(program)), 1e-12, 1e-12)))


FOLDS = """f(y: tensor<float, I[0:n]>, s: tensor<float>, most: tensor<float>, all: tensor<bool>, k: tensor<int, J[0:m]>,
  x: tensor<float, I[0:n], J[0:m]>, i: tensor<int, I[0:n], J[0:m]>) {
  s ← reduce(+, 1.0, J)(reduce(+, 0.0, I)(x));
  most ← reduce(max, -1.0, J)(reduce(max, -1.0, I)(-x));
  all ← reduce(∧, true, J)(reduce(∧, true, I)(x > 0.0));
  k ← reduce(λ(a: tensor<int, J[0:m]>, b: tensor<int, J[0:m]>) → a + b × b, 7, I)(i);
  y ← reduce(max, 0.0, J)(x) - most;
}"""


def slope_of_folds(run: Any, x: Any, i: Any) -> Any:
    def total(x: Any) -> Any:
        results = run(x=x, i=i)
        return (results["y"] ** 2).sum() + results["s"]

    return jax.jit(jax.grad(total))(x)


def folds() -> None:
    """Folds along distributed dims, of whole numbers, so that no order of a sum shows."""
    rng, program = np.random.default_rng(4), ti.parse(FOLDS)
    for n, m in ((8, 4), (13, 5)):
        x, i = rng.integers(1, 9, (n, m)).astype(float), rng.integers(-9, 9, (n, m), np.int32)
        want = reference.run(program, x=x, i=i)
        d = ti.distribute(program, mesh(4, 2), {"I": "px", "J": "py"})
        got = d(x=x, i=i)
        said(f"folds of {n} x {m} equal", all(np.array_equal(want[k], got[k]) for k in want))
        with jax.enable_x64(True):
            given = jnp.asarray(x) + 0.25
            found = [slope_of_folds(run, given, jnp.asarray(i)) for run in (d, ti.compile(program))]
            said(f"folds of {n} x {m} gradient", bool(jnp.allclose(*found, 1e-12, 1e-12)))


STEEP = {
    "x / ⟪I, -1⟫(x)": "I[1:n], J[0:m]",
    "x × log(⟪I, -2⟫(x))": "I[2:n], J[0:m]",
    "x × power(⟪I, 1⟫(x), -0.5)": "I[0:n-1], J[0:m]",
    "let a = x / ⟪I, -1⟫(x); max(a, 1.0) / ⟪J, 1⟫(a)": "I[1:n], J[0:m-1]",
    "reduce(+, 0.0, J)((1.0 / ⟪I, -1⟫(x)) × v)": "I[1:n], K[0:3]",
    "(x / ⟪I, -1⟫(x)) / reduce(+, 0.0, I)(1.0 / x)": "I[1:n], J[0:m]",
    "if reduce(+, 0.0, I)(x) > 0.0 then x else reduce(+, 0.0, I)(sqrt(x - x))": "I[0:n], J[0:m]",
}
"""What has an infinite slope where a halo or the padding of a block holds zeros, or in a branch that is not taken."""


def steep() -> None:
    """Gradients of what is not finite at points that no result has, in blocks that are padded and that are not."""
    params, closures = "v: tensor<float, J[0:m], K[0:3]>", ""
    for k, (value, points) in enumerate(STEEP.items()):
        params = f"y{k}: tensor<float, {points}>, {params}, x{k}: tensor<float, I[0:n], J[0:m]>"
        value = re.sub(r"\bx\b", f"x{k}", value)
        closures += f"y{k} ← {value}; "
    program = ti.parse(f"f({params}) {{ {closures} }}")
    d = ti.distribute(program, mesh(4, 2), {"I": "px", "J": "py"})
    for n, m in ((8, 4), (7, 5)):
        with jax.enable_x64(True):
            x = jnp.asarray(np.random.default_rng(10).random((n, m)) + 0.5)
            given = {f"x{k}": x for k in range(len(STEEP))} | {"v": x[:3].T}
            want, got = (gradient(run, given) for run in (ti.compile(program), d))
        worst = {n: float(abs(a - got[n]).max() / abs(a).max()) for n, a in want.items()}
        said(f"steep slopes of {n} x {m}", f"wrong: {[n for n, e in worst.items() if not e < 1e-12]}")


I, J = ti.dims("I J")


@ti.field_operator
def bounded(f):
    e = ti.extend(
        f, {I: (1, 2), J: 1}, {I: ti.boundary.periodic(), J: (ti.boundary.dirichlet(1.0), ti.boundary.neumann(0.5))}
    )
    return 0.1 * (e(I + 2) + e(I - 1) + e(J + 1) + e(J - 1))


KERNEL = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 6))
    B = T.match_buffer(b, (n, 6))
    for i, j in T.grid(n - 2, 6):
        with T.sblock("rise"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + 1, vj] = A[vi + 2, vj] - A[vi, vj] * A[vi + 1, vj]
"""


class Heard(logging.Handler):
    """What is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@ti.program
def written(f: ti.Field[[I, J], ti.float64], out: ti.Field[[I, J], ti.float64]):
    bounded(f, out=out, domain={I: (1, 6), J: (0, 9)})


def calls() -> None:
    """Kinds of arrays, and transformations, on extents that do not divide."""
    import xarray as xr

    data = np.random.default_rng(5).random((7, 9))
    d, axes = ti.distribute(bounded, mesh(2, 2), {I: "px", J: "py"}), ("I", "J")
    field, array = ti.as_field({I: (0, 7), J: (0, 9)}, data), xr.DataArray(data, dims=axes, attrs={"units": "m"})
    want = np.asarray(bounded(field).data)
    said("a Field", type(d(field)) is type(field) and np.array_equal(d(field).data, want))
    said("a DataArray", d(array).dims == axes and np.array_equal(d(array), bounded(array)))
    labelled = array.assign_coords(I=10.0 * np.arange(7))
    slopes = [ti.grad(lambda x, f=f: (f(x) ** 2).sum())(labelled) for f in (d, bounded)]
    said("labels of a gradient", slopes[0].I.equals(labelled.I) and np.allclose(*slopes, rtol=1e-12))
    ends = [ti.iterate(lambda x, f=f: f(x).where(x > 0.1, x), labelled, 5) for f in (d, bounded)]
    same = ends[0].coords.equals(ends[1].coords) and ends[0].attrs == array.attrs
    said("labels of steps", same and np.allclose(*ends, rtol=1e-14))
    said("iterate", np.allclose(ti.iterate(d, field, 5).data, ti.iterate(bounded, field, 5).data, 1e-14))
    mine, theirs = np.ones((7, 9)), np.ones((7, 9))
    ti.distribute(written, mesh(2, 2), {I: "px", J: "py"})(data, mine)
    written(data, theirs)
    said("a program that writes", np.array_equal(mine, theirs) and mine[0, 0] == 1.0)
    said("halos", d.of(field).plan().halos("f"))
    program: Any = library.load("hdiff")
    c = ti.compile(program)
    d = ti.distribute(c, mesh(2, 2), {"I": "px", "J": "py"})
    with jax.enable_x64(True):
        u, k = jnp.asarray(np.random.default_rng(6).random((9, 11, 2))), jnp.full((9, 11, 2), 0.02)

        def step(run: Any) -> Any:
            return lambda u: run(inp=u, coeff=k)["out"]

        def slope(run: Any) -> Any:
            return jax.jit(jax.grad(lambda u: (ti.iterate(step(run), u, 4) ** 2).sum()))(u)

        heard = Heard()
        logging.getLogger("tensorir.distribution").addHandler(heard)
        logging.getLogger("tensorir.distribution").setLevel(logging.DEBUG)
        for _ in range(2):
            step(d)(u)
        said("arrays that lie elsewhere", heard.lines)
        some = ti.distribute(c, mesh(2, 2), {"J": "py"})
        said("one axis of two", bool(jnp.allclose(step(some)(u), step(c)(u), 1e-14)))
        said("jit", bool(jnp.allclose(jax.jit(step(d))(u), step(c)(u), 1e-14)))
        both = jnp.stack([u, 2 * u])
        said("vmap", bool(jnp.allclose(jax.vmap(step(d))(both), jax.vmap(step(c))(both), 1e-14)))
        said("gradient through steps", bool(jnp.allclose(slope(d), slope(c), 1e-12, 1e-12)))
        program = ti.parse(CONSTANT).specialise(n=7)
        given = dict(zip("xc", np.random.default_rng(6).random((2, 7)), strict=True))
        d = ti.distribute(program, mesh(2), {"I": "px"})
        with jax.disable_jit():
            said("op by op", np.array_equal(d(**given)["y"], reference.run(program, **given)["y"]))
    put = ti.parse("""f(y: tensor<float, I[0:4], K[0:3]>, x: tensor<float, I[0:4]>, u: tensor<float, S[0:5]>,
      i: tensor<int, S[0:5]>) { y ← x × scatter(λ(a: tensor<float>, b: tensor<float>) → a × 0.5 + b, K, over: (S))(
        add_dim(K, 0, 3, 0.0), i, u); }""")
    given = {"x": np.arange(4.0), "u": np.arange(5.0), "i": np.array([0, 1, 1, 2, 0], np.int32)}
    d = ti.distribute(put, mesh(4), {"I": "px"})
    said("a scatter of what is not distributed", np.array_equal(d(**given)["y"], reference.run(put, **given)["y"]))
    chosen = ti.parse("""f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>, c: tensor<bool>, k: tensor<float>) {
      y ← x × (if c then exp(sin(exp(k))) else 2.0); }""")
    by_steps = {"x": np.arange(4.0), "c": np.array(True), "k": np.array(0.5)}
    d = ti.distribute(chosen, mesh(4), {"I": "px"})
    said("a conditional of what is not distributed", np.allclose(d(**by_steps)["y"], chosen(**by_steps)["y"], 1e-14))
    lifted = ti.lift(ti.tir.parse(KERNEL)["main"])
    d = ti.distribute(lifted, mesh(4), {"i": "px"})
    image = np.random.default_rng(7).random((13, 6)).astype(np.float32)
    said("a lifted kernel", np.array_equal(d(image, -image)[0], lifted(image, -image)[0]))
    checked = ti.parse("""f(y: tensor<float, I[0:5]>, x: tensor<float, I[0:6]>) {
      y ← assert_(x, x > 0.0, "depths are positive"); }""")
    d = ti.distribute(checked, mesh(4), {"I": "px"})
    said("a check", d(x=np.arange(1.0, 7.0))["y"].tolist())
    try:
        d(x=np.arange(5.0, -1.0, -1.0))
    except ti.DiagnosticError as found:
        said("a check that fails", found.diagnostics[0].message)


IHALF, JHALF = ti.dims("IHalf JHalf")


@ti.field_operator
def staggered(u, v, h):
    flow = u(I + 0.5) - u(I - 0.5) + v(J + 0.5) - v(J - 0.5)
    return h - 0.1 * flow, h(IHALF + 0.5) - h(IHALF - 0.5)


def points_and_faces() -> None:
    """Dims that go along one axis together: points, and the faces half way between them."""
    axes = {I: "px", IHALF: "px", J: "py", JHALF: "py"}
    for n, m, extents in ((16, 8, (2, 2)), (17, 9, (4, 2))):
        rng = np.random.default_rng(n)
        u, v = (ti.as_field([IHALF, J], rng.random((n + 1, m))), ti.as_field([I, JHALF], rng.random((n, m + 1))))
        h = ti.as_field([I, J], rng.random((n, m)))
        one, many = (ti.distribute(staggered, mesh(*e), axes, numerics="exact") for e in ((1, 1), extents))
        pairs = zip(one(u, v, h), many(u, v, h), strict=True)
        same = [np.array_equal(a.data, b.data) and a.dims == b.dims for a, b in pairs]
        said(f"points and faces of {n} x {m}", f"{same}, {many.plan(u, v, h).permutes} permutes")
        ends = [ti.iterate(lambda h, f=f, u=u, v=v: f(u, v, h)[0], h, 5).data for f in (staggered, many)]
        slopes = [ti.grad(lambda u, f=f, v=v, h=h: (f(u, v, h)[0] ** 2).sum())(u).data for f in (staggered, many)]
        said(f"steps of {n} x {m}", np.allclose(*ends, rtol=1e-14) and np.allclose(*slopes, rtol=1e-12))


@ti.field_operator
def gravity(h, u):
    h_wide, u_wide = (ti.extend(x, {I: 1}, ti.boundary.periodic()) for x in (h, u))
    return h - 0.1 * (u_wide(I + 1) - u_wide(I - 1)), u - 0.1 * (h_wide(I + 1) - h_wide(I - 1))


def meshes_of_jax() -> None:
    """What `jax.make_mesh` gives has axes that types name: loops, gradients and plans; extents that do not divide."""
    for n in (8, 7):
        with jax.enable_x64(True):
            on_a_mesh_of_jax(n)


def on_a_mesh_of_jax(n: int) -> None:
    along = jax.make_mesh((4,), ("px",))
    place = NamedSharding(along, PartitionSpec("px" if n == 8 else None))
    program = ti.parse(CONSTANT)
    x, c = np.random.default_rng(n).random((2, n))

    def steps(run: Any) -> Any:
        return lambda x: ti.iterate(lambda x: run(x=jnp.asarray(x), c=jnp.asarray(c))["y"], x, 3)

    def slope(run: Any) -> Any:
        return jax.grad(lambda x: (steps(run)(x) ** 2).sum())

    def wave(run: Any, *state: Any) -> Any:
        return ti.iterate(lambda s: run(*s), tuple(ti.as_field({I: n}, a) for a in state), 5)

    d, one = ti.distribute(program, along, {"I": "px"}), ti.compile(program)
    on, other = (jax.device_put(jnp.asarray(a), place) for a in (x, c))
    for name, way in (("steps", steps), ("gradient", slope)):
        want = way(one)(jnp.asarray(x))
        close = [bool(jnp.allclose(f(on), want, 1e-12, 1e-12)) for f in (way(d), jax.jit(way(d)))]
        said(f"{name} of {n} points on a mesh of JAX", close)
    two = ti.distribute(gravity, along, {I: "px"}, halo_steps=2)
    close = [np.allclose(a.data, b.data, 1e-13) for a, b in zip(wave(two, on, other), wave(gravity, x, c), strict=True)]
    said(f"two results of {n} points, two steps at once", close)
    said(f"a plan of {n} points", two.plan(*(ti.as_field({I: n}, a) for a in (on, other))).halos("h"))


CASES = (
    stencils,
    generated,
    library_programs,
    even_gradient,
    uneven_steps,
    calls_like_those_before,
    several_steps,
    regions,
    folds,
    steep,
    meshes_of_jax,
    points_and_faces,
    calls,
)

if __name__ == "__main__":
    for case in CASES:
        if case.__name__ in sys.argv[1:] or not sys.argv[1:]:
            case()
