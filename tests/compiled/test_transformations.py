"""A compiled fencil is a plain JAX callable: under every transformation, with 64 bits kept, traced once per sizes."""

import copy
import pickle
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tensorir as ti

SLOPE = "f(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>) { out ← (⟪I, 1⟫(x) - ⟪I, -1⟫(x)) × x; }"
AROUND = """
f(out: tensor<float, V[0:4]>, x: tensor<float, V[0:4]>, V2V: tensor<int, V[0:4], _NB_V[0:3]>) {
  out ← reduce(λ(a, b) → a + b × b, 0.0)(⟪V2V⟫(sqrt(x)));
}
"""
TABLE = np.array([[1, 2, 3], [0, 2, -1], [0, 3, -1], [0, -1, -1]], np.int32)


def slope(x):
    return (x[2:] - x[:-2]) * x[1:-1]


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def c():
    return ti.compile(ti.parse(SLOPE))


X = np.array([1.0, 4.0, 9.0, 16.0, 25.5])


def test_jit_and_vmap_give_what_numpy_gives(c, wide):
    np.testing.assert_allclose(jax.jit(lambda x: c(x=x)["out"])(jnp.asarray(X)), slope(X))
    np.testing.assert_allclose(jax.vmap(lambda x: c(x=x)["out"])(jnp.stack([X, 2 * X])), [slope(X), slope(2 * X)])


def test_gradient_jvp_and_hessian_are_those_of_the_formula(c, wide):
    x = jnp.asarray(X)
    ours = lambda x: (c(x=x)["out"] ** 2).sum()
    hand = lambda x: (slope(x) ** 2).sum()
    np.testing.assert_allclose(jax.grad(ours)(x), jax.grad(hand)(x), rtol=1e-14)
    np.testing.assert_allclose(jax.hessian(ours)(x), jax.hessian(hand)(x), rtol=1e-13)
    np.testing.assert_allclose(jax.jvp(ours, (x,), (x,))[1], jax.jvp(hand, (x,), (x,))[1], rtol=1e-14)


def test_checkpoint_scan_and_while_loop_take_it(c, wide):
    x = jnp.asarray(X)
    pad = lambda y: jnp.concatenate([x[:1], 0.01 * y, x[-1:]])
    step = lambda x: pad(c(x=x)["out"])
    expected = pad(slope(pad(slope(X))))
    np.testing.assert_allclose(lax.scan(lambda s, _: (step(s), None), x, length=2)[0], expected)
    np.testing.assert_allclose(
        lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, step(s[1])), (0, x))[1], expected
    )
    np.testing.assert_allclose(
        jax.grad(lambda x: jax.checkpoint(step)(x).sum())(x), jax.grad(lambda x: step(x).sum())(x)
    )


def test_sixty_four_bits_are_kept_without_the_switch(c):
    assert not jax.config.jax_enable_x64
    out = c(x=X)["out"]
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, slope(X))
    big = ti.parse("g(out: tensor<int64, I[0:2]>, x: tensor<int64, I[0:2]>) { out ← x + int64(1); }")
    np.testing.assert_array_equal(big(x=np.array([2**40, -(2**50)]))["out"], [2**40 + 1, -(2**50) + 1])


def test_a_foreign_trace_without_sixty_four_bits_is_told_so():
    f = ti.parse(
        "f(out: tensor<float32, I[0:2]>, x: tensor<float32, I[0:2]>) { out ← cast(cast(x, float64), float32); }"
    )
    with pytest.raises(ti.DiagnosticError) as refused:
        jax.jit(lambda x: ti.compile(f)(x=x)["out"])(jnp.ones(2, "float32"))
    assert str(refused.value) == (
        "error[A15]: 'f' computes with 64-bit numbers, and this transformation does not keep them.\n"
        "help: put it inside of `with jax.enable_x64(True):`, or cast the program to float32."
    )


def test_a_second_call_with_the_same_sizes_neither_traces_nor_compiles(c):
    c(x=X)
    (executable,) = c.engine.executables.values()
    before = executable.into._cache_size(), len(c.engine.executables)
    c(x=2 * X)
    c(x=np.asarray(X))
    assert (executable.into._cache_size(), len(c.engine.executables)) == before
    c(x=np.ones(9))
    assert len(c.engine.executables) == 2


def test_the_module_is_a_pytree_whose_leaves_are_its_constants():
    bound = ti.compile(ti.parse(AROUND).bind(V2V=TABLE))
    assert [leaf.shape for leaf in jax.tree_util.tree_leaves(bound)] == [(4, 3)]
    with jax.enable_x64(True):
        out = eqx.filter_jit(lambda c, x: c(x=x)["out"])(bound, jnp.asarray([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(out, [9.0, 4.0, 5.0, 1.0])


def test_gradients_through_bound_tables_gather_and_do_not_scatter(wide):
    bound = ti.compile(ti.parse(AROUND).bind(V2V=TABLE))
    free = ti.compile(ti.parse(AROUND))
    x = jnp.asarray([1.0, 2.0, 3.0, 4.0])
    weights = jnp.asarray([1.0, 10.0, 100.0, 1000.0])
    loss = lambda x: (weights * bound(x=x)["out"]).sum()
    scattered = lambda x: (weights * free(x=x, V2V=jnp.asarray(TABLE))["out"]).sum()
    np.testing.assert_allclose(jax.grad(loss)(x), jax.grad(scattered)(x), rtol=1e-14)
    text = jax.jit(jax.grad(loss)).lower(x).as_text()
    assert "scatter" not in text and "gather" in text
    assert "scatter" in jax.jit(jax.grad(scattered)).lower(x).as_text()


def test_an_absent_neighbour_adds_nothing_to_a_gradient_even_where_the_derivative_is_infinite(wide):
    # absent entries are read at 0, where the derivative of the square root is infinite
    text = AROUND.replace("a + b × b", "a + sqrt(b)").replace("⟪V2V⟫(sqrt(x))", "⟪V2V⟫(x)")
    bound = ti.compile(ti.parse(text).bind(V2V=np.array([[1, 2, 3], [2, 3, -1], [1, 3, -1], [1, -1, -1]], np.int32)))
    x = jnp.asarray([0.0, 1.0, 4.0, 16.0])
    expected = [0.0, 3 / 2, 2 / 4, 3 / 8]
    np.testing.assert_allclose(jax.grad(lambda x: bound(x=x)["out"].sum())(x), expected, rtol=1e-14)
    np.testing.assert_allclose(jax.jacfwd(lambda x: bound(x=x)["out"].sum())(x), expected, rtol=1e-14)


def test_a_traced_table_without_holes_is_declared_full(wide):
    types = "out: tensor<float, V[0:2]>, x: tensor<float, V[0:2]>, T: tensor<int, V[0:2], _NB_V[0:1]>"
    text = f"f({types}) {{ out ← ⟪T, 0⟫(x); }}"
    x, table = jnp.asarray([1.0, 2.0]), jnp.asarray([[1], [0]], "int32")
    with pytest.raises(ti.DiagnosticError, match=r"T41.*'out' may be absent"):
        jax.jit(lambda t: ti.compile(ti.parse(text))(x=x, T=t)["out"])(table)
    declared = ti.compile(ti.parse(text), full=("T",))
    np.testing.assert_array_equal(jax.jit(lambda t: declared(x=x, T=t)["out"])(table), [2.0, 1.0])


def test_an_exported_program_runs_where_only_jax_is(c, tmp_path):
    path = tmp_path / "f.bin"
    path.write_bytes(c.export(n=5).serialize())
    code = f"""
import sys, jax, jax.export, numpy as np
jax.config.update("jax_enable_x64", True)
f = jax.export.deserialize(bytearray(open({str(path)!r}, "rb").read()))
assert f.platforms == ("cpu", "cuda", "tpu")
print(np.asarray(f.call({{"x": (np.array([1.0, 4.0, 9.0, 16.0, 25.5]),)}})["out"][0]).tolist())
assert not any(m.split(".")[0] in ("tensorir", "lowering", "equinox") for m in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert eval(out) == slope(X).tolist()


def test_an_exported_program_is_read_back_as_a_function_of_named_arrays(c, tmp_path):
    path = tmp_path / "f.bin"
    path.write_bytes(c.export(n=5).serialize())
    for again in (ti.load(path), ti.load(path.read_bytes())):
        np.testing.assert_array_equal(again(x=X)["out"], slope(X))
        with pytest.raises(ti.DiagnosticError, match=r"no parameter 'y'"):
            again(y=X)
        with pytest.raises(ti.DiagnosticError, match="'x' is not given"):
            again()
        with pytest.raises(ti.DiagnosticError, match=r"'x' is float32\[5\], and float64\[5\] was exported"):
            again(x=X.astype(np.float32))
    for data in (b"", b"abc", b"x" * 500, path.read_bytes()[:40]):
        with pytest.raises(ti.DiagnosticError, match="no exported program"):
            ti.load(data)
    with pytest.raises(FileNotFoundError):
        ti.load(tmp_path / "other.bin")


def test_a_check_of_an_exported_program_that_fails_is_said():
    f = ti.parse("f(y: tensor<float>, x: tensor<float, I[0:4]>, i: tensor<int>) { y ← gather(I)(x, i); }")
    again = ti.load(ti.compile(f).export().serialize())
    assert float(again(x=np.arange(4.0), i=np.int32(3))["y"]) == 3
    with pytest.raises(ti.DiagnosticError, match="a check of the exported program failed"):
        again(x=np.arange(4.0), i=np.int32(4))


def test_cost_is_counted_from_the_types_beside_what_xla_says(c):
    cost = c.cost(n=100)
    assert (cost.operations, cost.bytes_read, cost.bytes_written) == (2 * 98, 800, 784)
    assert cost.xla["flops"] == 2 * 98


def test_stablehlo_has_slices_and_no_pads_and_no_copies(c):
    text = c.stablehlo(n=100)
    assert "stablehlo.slice" in text
    assert not any(f"stablehlo.{op}" in text for op in ("pad", "gather", "select", "dynamic"))


def test_a_failed_check_raises_with_its_witness():
    f = ti.parse(
        "f(out: tensor<float, P[0:3]>, x: tensor<float, I[2:6]>, i: tensor<int, P[0:3]>) { out ← gather(I)(x, i); }"
    )
    values, good = np.arange(4.0), np.array([2, 5, 3], np.int32)
    np.testing.assert_array_equal(f(x=values, i=good)["out"], [0.0, 3.0, 1.0])
    with pytest.raises(ti.DiagnosticError) as refused:
        f(x=values, i=np.array([2, 6, 3], np.int32))
    assert str(refused.value) == (
        "<text>:1:89: error[R01]: an index leaves I[2:6].\n"
        "  f(out: tensor<float, P[0:3]>, x: tensor<float, I[2:6]>, i: tensor<int, P[0:3]>) { out ← gather(I)(x, i); }\n"
        "                                                                                          ^^^^^^^^^^^^^^^\n"
        "note: at P = 1 it is 6.\n"
        "help: correct the indices, or clamp them."
    )


def test_buffers_that_are_donated_when_asked_are_used_up(wide):
    c = ti.compile(ti.parse(SLOPE), donate=("out",))
    buffer = jnp.zeros(3)
    np.testing.assert_array_equal(c(x=jnp.asarray(X), out=buffer)["out"], slope(X))
    assert buffer.is_deleted()


def test_numpy_results_are_writable_and_of_their_own(c):
    first = c(x=X)["out"]
    first[:] = -1.0
    second = c(x=X)["out"]
    np.testing.assert_array_equal(second, slope(X))
    assert second.flags.writeable
    np.testing.assert_array_equal(first, [-1.0, -1.0, -1.0])


def test_neighbours_are_unrolled_gathers_and_masks_exist_only_where_a_table_holds_minus_one():
    plain = ti.parse(AROUND.replace("a + b × b", "a + b").replace("sqrt(x)", "x"))
    holed = ti.compile(plain.bind(V2V=TABLE)).stablehlo()
    full = ti.compile(plain.bind(V2V=np.array([[1, 2, 3], [0, 2, 3], [0, 3, 1], [0, 1, 2]], np.int32))).stablehlo()
    assert full.count('"stablehlo.gather"') == holed.count('"stablehlo.gather"') == 3
    assert "stablehlo.select" in holed and "stablehlo.select" not in full


def test_scans_run_over_the_leading_axis():
    f = ti.parse(
        "f(out: tensor<float, I[0:9], K[0:5]>, x: tensor<float, I[0:9], K[0:5]>) {"
        " out ← scan(λ(s: tensor<float, I[0:9]>, a: tensor<float, I[0:9]>) → s + a, true, 0.0)(x); }"
    )
    text = ti.compile(f).jaxpr()
    assert "f64[5,9]" in text and "length=5" in text
    np.testing.assert_allclose(f(x=np.ones((9, 5)))["out"], np.tile(np.arange(1.0, 6.0), (9, 1)))


def test_abstract_offsets_stand_for_names_dimensions_and_tables():
    text = "f(out: tensor<float, V[0:4]>, x: tensor<float, V[0:4]>) { out ← ⟪aₒ, 0ₒ⟫(x); }"
    table = ti.as_field({"V": (0, 4), "_NB_V": (0, 1)}, np.array([[3], [2], [1], [0]], np.int32))
    x = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(ti.parse(text, offset_provider={"a": table})(x=x)["out"], x[::-1])
    named = "f(out: tensor<float, V[0:3]>, x: tensor<float, V[0:4]>) { out ← ⟪aₒ, 1ₒ⟫(x); }"
    for value in ("V", ti.Dimension("V")):
        np.testing.assert_array_equal(ti.parse(named, offset_provider={"a": value})(x=x)["out"], x[1:])


SMOOTH = "smooth(q: tensor<float, I[0:n]>) { q[I[1:n-1]] ← 0.5 × (⟪I, 1⟫(q) + ⟪I, -1⟫(q)); }"


def test_a_buffer_that_is_read_and_written_is_donated_too(wide):
    c = ti.compile(ti.parse(SMOOTH), donate="q")
    x, expected = jnp.asarray(X), X.copy()
    for _ in range(3):
        before, x = x, c(q=x)["q"]
        expected[1:-1] = 0.5 * (expected[2:] + expected[:-2])
        assert before.is_deleted()
    np.testing.assert_allclose(x, expected, rtol=1e-14)
    np.testing.assert_allclose(jax.jit(lambda q: c(q=c(q=q)["q"])["q"])(x), c(q=c(q=x)["q"])["q"], rtol=1e-14)


def test_an_array_that_is_given_away_is_no_other_argument(wide):
    copy = ti.parse("copy(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← x; }")
    x = jnp.asarray(X)
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(copy, donate="y")(x=x, y=x)
    assert str(refused.value) == (
        "error[A18]: 'y' is given away, and 'x' is the same array.\nhelp: pass a copy of it: y.copy()."
    )
    assert not x.is_deleted()


def test_a_buffer_of_another_shape_is_not_taken(wide):
    c = ti.compile(ti.parse(SLOPE), donate=("out",))
    with pytest.raises(ti.DiagnosticError, match=r"A03\]|B0\d\]"):
        c(x=jnp.asarray(X), out=jnp.zeros(9))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_what_ran_is_copied_without_what_was_compiled(copied):
    c = ti.compile(ti.parse(SLOPE), numerics="exact")
    first = c(x=X)["out"]
    again = copied(c)
    np.testing.assert_array_equal(again(x=X)["out"], first)
    assert again.engine.options == c.engine.options


def test_symbolic_sizes_are_refused_by_name(wide):
    (n,) = jax.export.symbolic_shape("n")
    for text in (SLOPE, SLOPE.replace("n-1", "4").replace(":n]", ":5]")):
        c = ti.compile(ti.parse(text))
        with pytest.raises(ti.DiagnosticError) as refused:
            jax.export.export(jax.jit(lambda x, c=c: c(x=x)["out"]))(jax.ShapeDtypeStruct((n,), "float64"))
        assert str(refused.value) == (
            "error[A24]: 'x' has the symbolic size n, and a program runs at sizes that are numbers.\n"
            "help: export it for each size: c.export(n=10), or shapes of numbers."
        )

    @ti.field_operator
    def slope(h: ti.Field[[ti.Dimension("I")], ti.float64]):
        return 2.0 * h

    with pytest.raises(ti.DiagnosticError, match=r"A24.: 'h' has the symbolic size n, and a program runs at sizes"):
        jax.export.export(jax.jit(slope))(jax.ShapeDtypeStruct((n,), "float64"))
