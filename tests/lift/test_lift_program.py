"""Lifted programs as callables: arguments, sizes, transformations of JAX, and their text."""

from __future__ import annotations

import pickle
from pathlib import Path
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from stencils.cli import main
from tensorir.ir.types import FLOAT32, INT32
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.nests.terms import Buffer, Index, Load
from tensorir.lifting.storage.narrow import Shared
from tensorir.runtime.errors import DiagnosticError, Source, Span
from tests.lift.harness import figures

MATMUL = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SOFTMAX = """
m = TypeVar("m")
n = TypeVar("n")

@T.prim_func
def main(A: T.Buffer((n, m), "float32"), O: T.Buffer((n, m), "float32")):
    M = T.sblock_alloc_buffer((n,))
    S = T.sblock_alloc_buffer((n,))
    for i, k in T.grid(n, m):
        with T.sblock("m"):
            vi = T.axis.spatial(n, i)
            vk = T.axis.reduce(m, k)
            with T.init():
                M[vi] = T.float32(-3.0e38)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(n, m):
        with T.sblock("s"):
            vi = T.axis.spatial(n, i)
            vk = T.axis.reduce(m, k)
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
    for i, j in T.grid(n, m):
        with T.sblock("o"):
            vi = T.axis.spatial(n, i)
            vj = T.axis.spatial(m, j)
            O[vi, vj] = T.exp(A[vi, vj] - M[vi]) / S[vi]
"""


def matmul():
    return ti.lift(ti.tir.parse(MATMUL)["main"])


def test_a_matrix_product_is_one_of_xla():
    assert figures(matmul()) == "0 0 0 2"
    assert "dot(" in ti.compile(matmul().fencil).hlo() or "custom-call" in ti.compile(matmul().fencil).hlo()


def test_a_buffer_that_is_only_written_need_not_be_given():
    a = np.eye(16, dtype=np.float32)
    b = np.arange(256, dtype=np.float32).reshape(16, 16)
    (c,) = matmul()(a, b, None)
    assert isinstance(c, np.ndarray)
    np.testing.assert_array_equal(c, b)


def test_a_buffer_that_is_read_must_be_given():
    program = ti.lift(
        ti.tir.parse(
            """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(3):
        B[i] = A[i]
"""
        )["main"]
    )
    with pytest.raises(DiagnosticError, match="'B' of 'main' must be given"):
        program(np.zeros(4, np.float32), None)


def test_wrong_arguments_are_named():
    program, a = matmul(), np.zeros((16, 16), np.float32)
    with pytest.raises(DiagnosticError, match="takes 3 arguments"):
        program(a, a)
    with pytest.raises(DiagnosticError, match="'B' holds float32, but the array holds float64"):
        program(a, a.astype(np.float64), None)
    with pytest.raises(DiagnosticError, match="dimension 1 of 'B' has 16 elements, but the array has 15"):
        program(a, a[:, :15], None)
    with pytest.raises(DiagnosticError, match="'C' is written, and 'A' shares memory with it"):
        program(a, np.ones_like(a), a)


def test_sizes_are_bound_by_each_call():
    program = ti.lift(ti.tir.parse(SOFTMAX)["main"])
    for shape in ((3, 5), (4, 40), (3, 5)):
        a = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        (found,) = program(a, None)
        e = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5)
    assert len(program.cache) == 2


LONGER = """
@T.prim_func
def main(a: T.handle, n: T.int32, o: T.handle):
    A = T.match_buffer(a, (n,), "float32")
    O = T.match_buffer(o, (n + 1,), "float32")
    for i in range(n + 1):
        O[i] = T.if_then_else(i < n, A[T.min(i, n - 1)], T.float32(0))
"""
REPEATED = """
@R.function
def main(x: R.Tensor(("m",), "float32"), n: R.Shape(["k"])) -> R.Tensor(("k",), "float32"):
    k = T.int64()
    return R.broadcast_to(R.sum(x, keepdims=True), R.shape([k]))
"""


@pytest.mark.parametrize("text", [LONGER, REPEATED], ids=["TIR", "Relax"])
def test_a_number_that_tells_a_shape_is_known_in_a_trace(text: str):
    program = ti.lift(ti.tir.parse(text)["main"])
    x = jnp.ones(3, jnp.float32)
    more = (None,) if text == LONGER else ()

    def called(x: jax.Array, n: int) -> jax.Array:
        return program(x, n, *more)[0]

    assert jax.jit(called, static_argnums=1)(x, 3).shape == called(x, 3).shape
    with pytest.raises(DiagnosticError, match=r"is made for one value of 'n(?s:.*)static_argnums"):
        jax.jit(called)(x, 3)


def test_jax_transforms_a_lifted_program():
    program = matmul()
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.normal(size=(16, 16)), jnp.float32) for _ in range(2))
    product = jax.jit(lambda x, y: program(x, y, None)[0])
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-4, atol=1e-5)
    gradient = jax.grad(lambda x: program(x, b, None)[0].sum())(a)
    np.testing.assert_allclose(gradient, jnp.ones((16, 16)) @ b.T, rtol=1e-4, atol=1e-5)
    batch = jnp.stack([a, b, a + b])
    found = jax.vmap(lambda x: program(x, b, None)[0])(batch)
    np.testing.assert_allclose(found, batch @ b, rtol=1e-4, atol=1e-4)
    _, tangent = jax.jvp(lambda x: program(x, b, None)[0], (a,), (b,))
    np.testing.assert_allclose(tangent, b @ b, rtol=1e-4, atol=1e-4)


def test_a_scalar_may_be_any_number_that_fits():
    program = ti.lift(
        ti.tir.parse(
            """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), s: T.float32, k: T.int8):
    for i in range(4):
        A[i] = A[i] * s + T.Cast("float32", k)
"""
        )["main"]
    )
    a = np.ones(4, np.float32)
    np.testing.assert_array_equal(program(a, 2, np.int64(3))[0], 5 * a)
    with pytest.raises(DiagnosticError, match="int8"):
        program(a, 2, 300)
    with pytest.raises(DiagnosticError, match="int8"):
        program(a, 2, jnp.float32(2.5))
    np.testing.assert_array_equal(program(a, jnp.int32(2), jnp.int32(3))[0], 5 * a)


def test_a_traced_scalar_may_be_any_number_that_is_sure_to_fit():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), s: T.float32, k: T.int64, m: T.int8):
    for i in range(4):
        A[i] = A[i] * s + T.Cast("float32", k) - T.Cast("float32", m)
"""
    program, a = ti.lift(ti.tir.parse(text)["main"]), jnp.ones(4, jnp.float32)
    traced = jax.jit(program)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(traced(a, 2, jnp.int32(-3), jnp.int8(5))[0], -6 * a)
        with pytest.raises(DiagnosticError, match=r"'m' is of type int8.*int32(?s:.*)m\.astype\('int8'\)"):
            traced(a, 2, 3, jnp.int32(5))
        with pytest.raises(DiagnosticError, match=r"'k' is of type int64.*float32"):
            traced(a, 2, jnp.float32(3), jnp.int8(5))
    with pytest.raises(DiagnosticError, match=r"'k' is of type int64(?s:.*)jax.enable_x64\(True\)"):
        traced(a, 2, 3, jnp.int8(5))


@pytest.mark.parametrize("kind", ["float32", "float64", "int8"])
def test_numbers_of_every_kind_by_turns_are_looked_at(kind: str):
    text = f"""
@T.prim_func
def main(A: T.Buffer((4,), "{kind}"), s: T.{kind}):
    for i in range(4):
        A[i] = A[i] * s
"""
    program = ti.lift(ti.tir.parse(text)["main"])
    with jax.enable_x64(True):
        a = jnp.arange(4, dtype=kind)
    dtype = np.dtype(kind).type
    for number in (2, dtype(3), 4, jnp.int8(5) if kind == "int8" else 5.0, np.asarray(6, kind), 7):
        (found,) = program(a, number)
        assert isinstance(found, jax.Array) and found.dtype == kind
        assert found.tolist() == [k * int(number) for k in range(4)]
        assert isinstance(program(np.arange(4, dtype=kind), number)[0], np.ndarray)
        with jax.enable_x64(kind == "float64"):
            assert jax.jit(lambda x, n=number: program(a, n)[0][3] + x)(dtype(1)) == 3 * int(number) + 1
    with pytest.raises(DiagnosticError, match="takes 2 arguments"):
        program(a)
    with pytest.raises(DiagnosticError, match="'s'"):
        program(a, 300 if kind == "int8" else "x")
    with pytest.raises(DiagnosticError, match="'A'"):
        program(a[:3], 2)


GATHERED = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), I: T.Buffer((3,), "int32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        B[i] = A[I[i]]
"""


def test_calls_like_earlier_ones_give_the_same_results_and_errors():
    p = ti.lift(ti.tir.parse(GATHERED)["main"])
    a, b = jnp.arange(4, dtype="float32"), jnp.zeros(3, "float32")
    for index in ([0, 2, 1], [3, 3, 0]):
        (found,) = p(a, jnp.array(index, "int32"), b)
        assert found.tolist() == index
    with pytest.raises(DiagnosticError, match="at i = 1 it is 9"):
        p(a, jnp.array([0, 9, 1], "int32"), b)
    assert p(a, jnp.array([1, 1, 2], "int32"), b)[0].tolist() == [1, 1, 2]
    # arrays that are known, in somebody's trace
    index = jnp.array([1, 1, 2], "int32")
    assert jax.jit(lambda x: p(a, index, b)[0] + x)(1.0).tolist() == [2, 2, 3]


def test_calls_alike_compile_once():
    p = ti.lift(ti.tir.parse(GATHERED)["main"])
    arrays = jnp.arange(4, dtype="float32"), jnp.array([0, 2, 1], "int32"), jnp.zeros(3, "float32")
    for _ in range(3):
        p(*arrays)
    (executable,) = p.at(p.static).compiled(True, p.numerics).engine.executables.values()
    assert executable.plain._cache_size() == 1


@pytest.mark.parametrize("x64", [False, True])
def test_arrays_that_are_known_may_stand_in_a_trace(x64: bool):
    p = ti.lift(ti.tir.parse(MATMUL)["main"])
    a, b = jnp.arange(256, dtype="float32").reshape(16, 16), jnp.eye(16, dtype="float32")
    for _ in range(2):
        p(a, b, a)
    with jax.enable_x64(x64):
        x = jnp.float32(2)
        np.testing.assert_array_equal(jax.jit(lambda x: p(a, b, a)[0] * x)(x), 2 * a)
        assert jax.grad(lambda x: (p(a, b, a)[0] * x).sum())(x) == a.sum()


def test_calls_unlike_earlier_ones_are_looked_at():
    p = ti.lift(ti.tir.parse(MATMUL)["main"])
    a, b, c = (jnp.full((16, 16), x, "float32") for x in (1, 2, 3))
    for _ in range(3):
        assert float(p(a, b, c)[0][3, 5]) == 32
    with pytest.raises(DiagnosticError, match="takes 3 arguments"):
        p(a, b)
    for wrong in (a[:, :15], a.astype("int32"), a[None], None):
        with pytest.raises(DiagnosticError, match="'A'"):
            p(wrong, b, c)
        assert float(p(a, b, c)[0][3, 5]) == 32
    # what the program writes only is no argument of what XLA runs
    with pytest.raises(DiagnosticError, match="'C'"):
        p(a, b, c[:15])
    assert isinstance(p(*map(np.asarray, (a, b, c)))[0], np.ndarray)
    assert float(jax.grad(lambda x: p(x, b, c)[0].sum())(a)[0, 0]) == 32


def test_calls_with_sizes_by_turns_give_the_results_of_each():
    p = ti.lift(ti.tir.parse(SOFTMAX)["main"])
    rng = np.random.default_rng(0)
    given = [jnp.asarray(rng.normal(size=shape), "float32") for shape in ((3, 5), (4, 40), (3, 5))]
    for a in given * 3:
        np.testing.assert_allclose(p(a, jnp.zeros_like(a))[0], jax.nn.softmax(a, 1), rtol=1e-5)
    assert len(p.cache) == 2


def test_a_buffer_that_was_given_away_is_named():
    p = ti.lift(ti.tir.parse(MATMUL)["main"])
    a, b, c = (jnp.ones((16, 16), "float32") for _ in range(3))
    p(a, b, c), p(a, b, c)
    a.delete()
    with pytest.raises(DiagnosticError, match="'A'"):
        p(a, b, c)


@pytest.mark.parametrize("given", ["for i in range(3): pass", None, 3, np.zeros(3)])
def test_only_functions_of_a_wing_are_lifted(given: object):
    with pytest.raises(
        DiagnosticError, match=f"a function of TIR is lifted, and this is of type {type(given).__name__}"
    ):
        ti.lift(given)


def test_an_option_that_a_lift_does_not_have_is_refused():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(next(iter(ti.tir.parse(MATMUL).functions.values())), raise_online=True)
    assert str(caught.value) == (
        "error[TA07]: the lift of a PrimFunc has no option 'raise_online'.\nhelp: known here: 'numerics', 'on_hazard'."
    )


def test_a_fencil_needs_no_lift():
    f = ti.parse("f(x: tensor<float, I[0:3]>, y: tensor<float, I[0:3]>) { y ← x; }")
    with pytest.raises(DiagnosticError, match="a fencil is a tensor program already: call it, or compile it"):
        ti.lift(f)


def test_what_stands_under_many_choices_is_emitted_once():
    steps = "".join(
        f"        v{k + 1}: T.let[T.float32] = T.if_then_else(v{k} > A[J[i]], v{k} + A[J[i]], v{k} * T.float32(2))\n"
        for k in range(6)
    )
    text = (
        '@T.prim_func\ndef main(A: T.Buffer((9,), "float32"), J: T.Buffer((5,), "int32"), '
        'B: T.Buffer((5,), "float32")):\n    for i in range(5):\n        v0: T.let[T.float32] = A[J[i]]\n'
        f"{steps}        B[i] = v6\n"
    )
    function = ti.tir.parse(text)["main"]
    with patch.object(Emitter, "_load", autospec=True, side_effect=Emitter.__dict__["_load"]) as load:
        ti.lift(function)
    assert load.call_count < 40


def test_reads_that_stay_inside_are_one_wherever_the_text_has_them():
    a = Buffer("A", FLOAT32, (8,), argument=True)
    text = Source("two.py", "A[i] * A[i]")
    here, there = Span(text, 0, 4), Span(text, 7, 11)
    for index, same in ((Index("i", INT32), True), (Index("j", INT32), False)):
        shared = Shared({"i": (0, 7), "j": (0, 8)})
        assert (shared.of(Load(a, (index,), here)) is shared.of(Load(a, (index,), there))) is same


def test_a_size_that_an_extent_is_a_multiple_of_follows_from_it():
    function = ti.tir.parse("""
m = TypeVar("m")
n = TypeVar("n")
@T.prim_func
def main(a: T.Buffer((n, m * 2 + 1), "float32"), m: T.int64, b: T.Buffer((m * 2, n), "float32")):
    for i, j in T.grid(m * 2, n):
        b[i, j] = a[j, i]
""")["main"]
    program = ti.lift(function)
    a = np.arange(27, dtype=np.float32).reshape(3, 9)
    np.testing.assert_array_equal(program(a, 4, None)[0], a.T[:8])
    built = program.at(program.sizes_of([a, 4, None])).built(False)
    assert "stablehlo.while" not in ti.compile(built.fencil).stablehlo()
    with pytest.raises(DiagnosticError, match=r"'a' has the shape \(3, 7\), but the array has \(3, 9\)"):
        program(a, 3, None)
    with pytest.raises(DiagnosticError, match="'a' has the shape"):
        program(a[:, :8], 4, None)


def test_what_says_where_or_what_an_atomic_adds_is_not_written():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(I: T.Buffer((6,), "int32"), W: T.Buffer((6,), "int32"), H: T.Buffer((3,), "int32")):
    for t in T.thread_binding(6, thread="threadIdx.x"):
        T.evaluate(T.atomic_add(T.address_of(H[I[t]]), W[t]))
""")["main"]
    )
    assert [a.name for a in program.arguments if a.written] == ["H"]
    found = program(np.array([0, 1, 1, 2, 2, 2], np.int32), np.full(6, 5, np.int32), np.zeros(3, np.int32))
    np.testing.assert_array_equal(found, [[5, 10, 15]])


def test_sums_that_several_elements_need_are_taken_once():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((20, 20), "float32"), C: T.Buffer((18, 18), "float32")):
    R = T.alloc_buffer((20, 18), "float32")
    for y, x in T.grid(20, 18):
        R[y, x] = T.float32(0)
        for s in range(3):
            R[y, x] = R[y, x] + A[y, x + s]
    for y, x in T.grid(18, 18):
        C[y, x] = T.float32(0)
        for r in range(3):
            C[y, x] = C[y, x] + R[y + r, x]
""")["main"]
    )
    assert figures(program) == "0 0 2 14"
    a = np.arange(400, dtype=np.float32).reshape(20, 20)
    wanted = np.lib.stride_tricks.sliding_window_view(a, (3, 3)).sum((2, 3))
    np.testing.assert_array_equal(program(a, None)[0], wanted)


CALLED = """
@I.ir_module
class Module:
    @T.prim_func
    def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        lv = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4,), "float32"))
        return R.add(lv, x)
"""


@pytest.mark.parametrize(("text", "count"), [(MATMUL, 2), (CALLED, 1)], ids=["TIR", "Relax"])
def test_a_lifted_program_is_stored_and_loaded(text: str, count: int):
    program = ti.lift(ti.tir.parse(text)["main"], numerics="exact")
    loaded = pickle.loads(pickle.dumps(program))
    shape = (16, 16) if count == 2 else (4,)
    arrays = [np.random.default_rng(0).normal(size=shape).astype("float32") for _ in range(count)]
    given = (*arrays, None) if count == 2 else arrays
    assert (str(loaded), loaded.numerics) == (str(program), "exact")
    np.testing.assert_array_equal(loaded(*given)[0], program(*given)[0])


def test_outputs_beside_an_error_come_from_a_program_without_checks():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        B[i] = A[A[i]] + 1
"""
    lifted = ti.lift(ti.tir.parse(text)["main"])
    error, (found,) = lifted.checked(np.array([1, 0, 9, 2], np.int32), np.zeros(4, np.int32))
    assert isinstance(error, DiagnosticError)
    assert np.asarray(found)[[0, 1, 3]].tolist() == [1, 2, 10]


def test_passes_of_a_lift_stand_in_their_order_in_the_architecture():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The way of a lift")[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    names = [line.split("`")[1] for line in table.splitlines()]
    assert [stage.name for stage in ti.lift(ti.tir.parse(MATMUL)["main"]).pipeline()] == names


@pytest.mark.parametrize(
    ("body", "changing"),
    [
        ("for i in range(6):\n        B[i // 3 + i % 3 * 2] = A[i]", "unfuse schedule canonical"),
        ("B[0] = A[0]\n    B[1] = A[1]\n    B[2] = A[2]\n    B[3] = A[3]", "roll schedule"),
        ("for i in range(6):\n        B[T.cast(A[i], 'int32')] = A[i]", "left_to_checks schedule"),
        ("for i in range(6):\n        B[i] = A[i]", "schedule"),
    ],
)
def test_a_pipeline_shows_the_passes_that_change_a_kernel(body: str, changing: str):
    text = f'@T.prim_func\ndef main(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):\n    {body}\n'
    stages = ti.lift(ti.tir.parse(text)["main"]).pipeline()
    assert " ".join(stage.name for stage in stages if stage.changed) == changing


# `tensorir lift kernel.py` prints the tensor program and the report.


KERNEL = """
n = TypeVar("n")

@T.prim_func
def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = A[i] * T.float32(2)
"""


def test_a_kernel_is_printed_as_a_tensor_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    with pytest.raises(SystemExit) as done:
        main(["lift", str(file), "--set", "n=8"])
    assert done.value.code == 0
    assert capsys.readouterr().out == (
        "main(A: tensor<float32, i[0:8]>, B: tensor<float32, i[0:8]>) {\n  B ← A × 2.0f;\n}\n\nline 6: i: parallel\n"
    )


def test_a_hazard_ends_with_its_diagnostic(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL.replace("A[i] * ", "A[i + 1] * "))
    with pytest.raises(SystemExit) as done:
        main(["lift", str(file), "--set", "n=8"])
    assert done.value.code == 2
    assert "A[8] is read, and 'A' has 8 elements." in capsys.readouterr().err
