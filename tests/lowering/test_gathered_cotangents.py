"""The transpose of a stencil: against JAX's transpose of the same program, and by what it makes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from stencils import library
from tests.effort import count_calls

PROGRAMS = {
    "one-sided shifts, a negative start, a coefficient": """f(y: tensor<float, I[-3:5]>, x: tensor<float, I[-3:7]>,
      c: tensor<float, I[-3:5]>) { y ← c × (⟪I, 2⟫(x) - x); }""",
    "two coefficients one after the other": """f(y: tensor<float, I[2:6]>, x: tensor<float, I[0:9]>,
      c: tensor<float, I[0:9]>) {
      let a = c × (⟪I, 1⟫(x) - ⟪I, -1⟫(x));
      y ← a × (⟪I, 1⟫(a) + ⟪I, -1⟫(a)); }""",
    "a coefficient along one dim": """f(y: tensor<float, I[1:6], J[1:4]>, x: tensor<float, I[0:7], J[0:5]>,
      c: tensor<float, J[0:5]>) {
      let a = c × x;
      y ← ⟪I, 1⟫(a) + ⟪J, 1⟫(a) - ⟪J, -1⟫(a) / 3.0 + ⟪I, -1⟫(x); }""",
    "an upwind difference": """f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:9]>, u: tensor<float, I[1:8]>) {
      y ← if u > 0.0 then u × (x - ⟪I, -1⟫(x)) else u × (⟪I, 1⟫(x) - x); }""",
    "closures on parts, one after the other": """f(y: tensor<float, I[0:9], J[0:7]>, x: tensor<float, I[0:9], J[0:7]>) {
      y ← 2.0 × x;
      y[I[1:8]] ← ⟪I, 1⟫(x) × x;
      y[I[2:7], J[2:5]] ← y + ⟪J, 2⟫(x) - ⟪I, -2⟫(x); }""",
    "tuples, and results of which one has no tangent": """f(y: tensor<(float, float), I[1:8]>, k: tensor<int, I[1:8]>,
      x: tensor<(float, float), I[0:9]>, n: tensor<int, I[1:8]>) {
      k ← n + 1;
      y ← (⟪I, 1⟫(x[0]) × x[1], ⟪I, -1⟫(x[1]) - sin(⟪I, -1⟫(x[0]))); }""",
    "what is stored for many readers": """f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:9]>) {
      let wave = materialise(exp(sin(x) × cos(x)));
      y ← ⟪I, 1⟫(wave) - 2.0 × wave + ⟪I, -1⟫(wave); }""",
    "float32": """f(y: tensor<float32, I[1:8]>, x: tensor<float32, I[0:9]>) {
      y ← cast(cast(⟪I, 1⟫(x), float) × 0.3, float32) + ⟪I, -1⟫(x) × x; }""",
    "the limited diffusion of COSMO": (
        library.text("hdiff").replace("0:n", "0:9").replace("n-2", "7").replace("0:m", "0:8").replace("m-2", "6")
        .replace("0:l", "0:3")
    ),
}  # fmt: skip


def arrays(fencil):
    """Normal numbers for the floats of a program, as a pytree, and small ones for its integers."""
    rng = np.random.default_rng(3)

    def one(shape, element):
        if element.is_float:
            return jnp.asarray(rng.normal(size=shape), "float32" if element.bits == 32 else "float64")
        return jnp.asarray(rng.integers(0, 5, shape), "int32")

    given = {p.name: tuple(one(p.type.dims.shape, e) for e in p.type.leaves) for p in fencil.inputs}
    return {n: x if len(x) > 1 else x[0] for n, x in given.items()}


def floats(outputs):
    return [x for x in jax.tree_util.tree_leaves(outputs) if x.dtype.kind == "f"]


def split(given):
    """Arrays that have derivatives, and a function of a program that takes them alone."""
    leaves, tree = jax.tree_util.tree_flatten(given)
    moving = [k for k, x in enumerate(leaves) if x.dtype.kind == "f"]

    def alone(compiled):
        def function(*moved):
            some = dict(zip(moving, moved, strict=True))
            everything = [some.get(k, x) for k, x in enumerate(leaves)]
            return floats(compiled(**jax.tree_util.tree_unflatten(tree, everything)))

        return function

    return [leaves[k] for k in moving], alone


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def plain(f):
    """The compiled program with JAX's own transpose."""
    return ti.compile(f, without="gathered_cotangents")


def agree(got, want, rtol=1e-11):
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol if a.dtype == np.float64 else 1e-5, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_cotangents_are_those_of_padded_and_added_ones(name):
    f = ti.parse(PROGRAMS[name])
    given, alone = split(arrays(f))
    found = {}
    for way, c in ("gathered", ti.compile(f)), ("padded", plain(f)):
        out, back = jax.vjp(alone(c), *given)
        rng = np.random.default_rng(7)
        found[way] = back([jnp.asarray(rng.normal(size=o.shape), o.dtype) for o in out])
        assert ("stencil_tangents" in str(jax.make_jaxpr(lambda *x, c=c: jax.jvp(alone(c), x, x))(*given))) == (
            way == "gathered"
        )
    agree(found["gathered"], found["padded"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_batches_and_second_derivatives_agree_too(name):
    f = ti.parse(PROGRAMS[name])
    given, alone = split(arrays(f))

    def looked_at(c):
        function = alone(c)

        def total(*xs):
            return sum(jnp.sum(jnp.sin(y)) for y in function(*xs))

        every = tuple(range(len(given)))
        gradient = jax.grad(total, every)
        stacked = [jnp.stack([x, 2 * x, x - 1]) for x in given]

        @jax.jit
        def compiled_at_once(given, stacked):
            return (
                jax.jvp(function, given, given)[1],
                jax.vmap(gradient)(*stacked),
                jax.vmap(gradient, (0, *(None for _ in given[1:])))(stacked[0], *given[1:]),
                jax.jvp(gradient, tuple(given), tuple(given))[1],
                jax.grad(lambda *xs: sum(jnp.sum(g * g) for g in gradient(*xs)), every)(*given),
                gradient(*given),
            )

        return *compiled_at_once(given, stacked), jax.grad(total)(*given)

    agree(looked_at(ti.compile(f)), looked_at(plain(f)), 1e-9)


def gradient_of(text, **given):
    f = ti.parse(text)
    c = ti.compile(f)
    given = given or arrays(f)
    (name, *_) = given
    function = lambda x: c(**{**given, name: x})["y"]
    return jax.make_jaxpr(lambda x, g: jax.vjp(function, x)[1](g))(given[name], function(given[name]))


def primitives(jaxpr):
    for e in jaxpr.eqns:
        inner = [p.jaxpr for p in e.params.values() if hasattr(p, "jaxpr")]
        yield from (n for j in inner for n in primitives(j)) if inner else [e.primitive.name]


def test_a_linear_stencil_is_padded_once():
    names = list(primitives(gradient_of("""f(y: tensor<float, I[2:30], J[1:30]>, x: tensor<float, I[0:31], J[0:32]>) {
      let a = ⟪I, 1⟫(x) + ⟪I, -1⟫(x) + ⟪J, 1⟫(x) + ⟪J, -1⟫(x) - 4.0 × x;
      y ← 0.5 × (a - ⟪I, -1⟫(a)) + ⟪J, 1⟫(a); }""").jaxpr))  # fmt: skip
    assert names.count("pad") == 1


def chain(n):
    lets = " ".join(f"let a{k + 1} = c × (⟪I, 1⟫(a{k}) + ⟪I, -1⟫(a{k}));" for k in range(n))
    return f"""f(y: tensor<float, I[{n}:{90 - n}]>, x: tensor<float, I[0:90]>, c: tensor<float, I[0:90]>) {{
      let a0 = x; {lets}
      y ← a{n}; }}"""


def test_work_and_result_are_linear_in_the_length_of_a_chain():
    lengths = [len(list(primitives(gradient_of(chain(n)).jaxpr))) for n in (8, 16)]
    assert lengths[1] < 2.2 * lengths[0]
    steps = [count_calls(lambda n=n: gradient_of(chain(n))) for n in (8, 16)]
    assert steps[1] < 2.5 * steps[0]
