"""Graphs of operators that the interpreter runs."""

from typing import Any

import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.relax.interpret import networks
from tensorir.runtime.errors import DiagnosticError

# Functions of Relax


HEAD = """@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
"""
X = np.array([1, 2], np.float32)


def run(body: str, holds: bool = True) -> Any:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return tir.interpret(tir.parse(HEAD + lines + "        return x\n"), X, np.array(holds))


def test_values_are_printed_in_their_places(capsys: pytest.CaptureFixture[str]):
    run('a = R.print(x, R.shape([2]), format="x = {}, shape {}.")\nb = R.print(x, x)')
    assert capsys.readouterr().out == "x = [1. 2.], shape (2,).\n[1. 2.] [1. 2.]\n"


DIRECT = """@I.ir_module
class Module:
    @T.prim_func
    def one_more(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = A[i] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        cls = Module
        z = R.add(x, x)
        _ = cls.one_more(x, z)
        _1 = cls.one_more(z, x)
        return (z, x)
"""


def test_a_kernel_that_is_called_directly_fills_the_arrays_that_it_gets():
    x = X.copy()
    np.testing.assert_array_equal(tir.interpret(tir.parse(DIRECT)["main"], x), [[2, 3], [3, 4]])
    np.testing.assert_array_equal(x, X)


def test_a_format_reaches_no_attribute_of_a_value(capsys: pytest.CaptureFixture[str]):
    run('a = R.print(x, format="{0.__class__} {!r} {}")')
    assert capsys.readouterr().out == "{0.__class__} {!r} [1. 2.]\n"


def test_an_assertion_that_holds_is_silent_and_one_that_fails_says_so():
    run('a = R.assert_op(c, x, format="no {}")')
    for form, sentence in (("x, format='no {}'", "no [1. 2.]"), ("x", "[1. 2.]"), ("[]", "Assertion Failed")):
        with pytest.raises(DiagnosticError) as caught:
            run(f"a = R.assert_op(c, {form})", holds=False)
        assert (caught.value.diagnostics[0].code, caught.value.diagnostics[0].message) == ("TR10", sentence)


def test_a_format_with_too_many_places_is_refused():
    with pytest.raises(DiagnosticError) as caught:
        run('a = R.print(x, format="{} {}")')
    assert caught.value.diagnostics[0].message == "the format of R.print has 2 places for 1 values."


def test_sequences_that_lie_in_a_row_attend_to_themselves_only():
    head = "@R.function\ndef main({}):\n    z = {}\n    return z\n"
    random = np.random.default_rng(1)
    q, k = random.random((2, 1, 7, 2, 4), np.float32)
    kinds = ", ".join(f'{name}: R.Tensor((1, 7, 2, 4), "float32")' for name in "qk")
    together = head.format(
        f'{kinds}, s: R.Tensor((3,), "int32"), m: R.Tensor((), "int32")', "R.nn.attention_var_len(q, k, k, s, m)"
    )
    found = tir.interpret(tir.parse(together), q, k, np.array([0, 3, 7], np.int32), np.int32(4))[0]
    for a, b in ((0, 3), (3, 7)):
        kinds = ", ".join(f'{name}: R.Tensor((1, {b - a}, 2, 4), "float32")' for name in "qk")
        alone = tir.interpret(tir.parse(head.format(kinds, "R.nn.attention(q, k, k)")), q[:, a:b], k[:, a:b])[0]
        np.testing.assert_allclose(found[:, a:b], alone, rtol=1e-6)


def test_what_has_no_meaning_is_refused_by_name():
    text = (
        '@R.function\ndef main(q: R.Tensor((1, 3, 2, 4), "float32")):\n'
        '    z = R.nn.attention(q, q, q, causal_mask="TopLeft", window_size=2)\n    return z\n'
    )
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(tir.parse(text), np.zeros((1, 3, 2, 4), np.float32))
    assert caught.value.diagnostics[0].message == (
        "R.nn.attention cannot be applied: a window of attention is not run."
    )


def test_the_map_of_a_layout_is_a_lambda():
    text = (
        '@R.function\ndef main(x: R.Tensor((4, 2), "int32")):\n'
        "    z = R.layout_transform(x, index_map=lambda i, j: (i // 2, j, i % 2))\n    return z\n"
    )
    module = tir.parse(text)
    assert tir.parse(str(module)) == module
    x = np.arange(8, dtype=np.int32).reshape(4, 2)
    np.testing.assert_array_equal(tir.interpret(module, x)[0], x.reshape(2, 2, 2).transpose(0, 2, 1))


def test_a_function_inside_of_another_knows_what_has_a_value_around_it():
    (found,) = run(
        '@R.function\ndef f(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):\n'
        "    z = R.add(y, x)\n    return z\n"
        '@R.function\ndef g(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):\n'
        "    z = R.multiply(f(y), x)\n    return z\n"
        "x = g(x)"
    )
    np.testing.assert_array_equal(found, 2 * X * X)


def test_arguments_that_a_known_function_does_not_take_are_refused_by_name():
    with pytest.raises(DiagnosticError, match=r"'tvm\.contrib\.sort\.sort' cannot be applied to these arguments"):
        run('x = R.call_dps_packed("tvm.contrib.sort.sort", (x, R.prim_value(0)), out_ty=R.Tensor((2,), "float32"))')


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def grow(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32"), n: T.int64):
        for i in range(2):
            A[i] = A[i] + T.float32(1)
            {store}
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")):
        cls = Module
        y = R.add(x, x)
        z = R.call_tir_inplace(
            cls.grow, (y,), inplace_indices=[0, -1], tir_vars=R.shape([3]),
            out_ty=[R.Tensor((2,), "float32"), R.Tensor((2,), "float32")],
        )
        return z
"""


def test_what_is_written_in_place_was_written_before():
    module = tir.parse(IN_PLACE.format(store="B[i] = A[i]"))
    for found in tir.interpret(module, X, checked=True):
        np.testing.assert_array_equal(found, 2 * X + 1)
    with pytest.raises(DiagnosticError, match="element 0 of 'B' is read, but nobody has written it"):
        tir.interpret(tir.parse(IN_PLACE.format(store="B[i] = B[i] + A[i]")), X, checked=True)


def test_a_module_at_the_end_of_the_pipeline_is_said_to_be_too_late():
    text = "@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n"
    text += "    s = R.memory.alloc_storage(R.shape([8]), R.prim_value(0), R.str('global'), R.dtype('float32'))\n"
    text += "    return x\n"
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(tir.parse(text)["main"], np.zeros(2, np.float32))
    assert caught.value.diagnostics[0].help == (
        "take the module as it is before CallTIRRewrite and StaticPlanBlockMemory."
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "R.nn.attention("
            "R.zeros((1, 3, 4, 2), 'float32'), R.zeros((1, 5, 2, 2), 'float32'), R.zeros((1, 5, 2, 2), 'float32'))",
            "R.nn.attention cannot be applied: there are 4 heads of queries, 2 of keys and 2 of values.",
        ),
        (
            "R.image.affine_grid(R.zeros((1, 2, 3), 'float32'), (3, 1))",
            "R.image.affine_grid cannot be applied: an axis of one element has no two corners.",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_words_of_the_operator(call: str, message: str):
    with pytest.raises(DiagnosticError) as caught:
        run(f"a = {call}")
    assert caught.value.diagnostics[0].message == message


# What interpreter and lift share: the places between the elements of an image, and what they are rounded to

PLACES = [
    ("half_pixel", 4, [0.25, 1.75, 3.25, 4.75]),
    ("half_pixel", 1, [2.5]),
    ("pytorch_half_pixel", 4, [0.25, 1.75, 3.25, 4.75]),
    ("pytorch_half_pixel", 1, [0]),
    ("tf_half_pixel_for_nn", 4, [0.75, 2.25, 3.75, 5.25]),
    ("align_corners", 4, [0, 5 / 3, 10 / 3, 5]),
    ("align_corners", 1, [0]),
    ("asymmetric", 4, [0, 1.5, 3, 4.5]),
    ("tf_crop_and_resize", 4, [0.5, 1.5, 2.5, 3.5]),
    ("tf_crop_and_resize", 1, [2]),
]


@pytest.mark.parametrize(("mode", "size", "wanted"), PLACES)
def test_the_pixels_of_an_image_of_another_size_lie_between_six(mode: str, size: int, wanted: list[float]):
    found = networks.source_places(np.arange(size, dtype=np.float32), 6, size, mode, (0.1, 0.7))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("rounding", "wanted"),
    [
        ("floor", [-1, 0, 1, 2, 2]), ("ceil", [0, 1, 2, 2, 3]), ("round", [0, 0, 2, 2, 2]), ("", [-1, 0, 1, 2, 2]),
        ("round_prefer_floor", [-1, 0, 1, 2, 2]), ("round_prefer_ceil", [0, 1, 2, 2, 3]),
    ],
)  # fmt: skip
def test_what_lies_in_the_middle_is_rounded_as_the_method_says(rounding: str, wanted: list[int]):
    assert networks.nearest(np.array([-0.5, 0.5, 1.5, 2, 2.5], np.float32), rounding).tolist() == wanted


@pytest.mark.parametrize("a", [-0.75, -0.5])
def test_cubic_weights_are_those_of_keys(a: float):
    part = np.array([0, 0.25, 0.625], np.float32)
    for k, found in networks.weights_of(part, "cubic", a).items():
        x = abs(part.astype(np.float64) - k)
        near, far = (a + 2) * x**3 - (a + 3) * x**2 + 1, a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        np.testing.assert_allclose(found, np.where(x <= 1, near, far), atol=1e-6)


# Operators in the form in which TVM's legalization leaves them

UNIQUE = """
@R.function
def main(x: R.Tensor((6,), dtype="int32")):
    y = R.call_pure_packed("relax.run.unique", x, {ordered}, True, False, True, ty_args=(
        R.Tuple(R.Tensor(dtype="int32", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)),))
    return y
"""

NONZERO = """
@R.function
def main(x: R.Tensor((2, 3), dtype="int32")):
    y = R.call_pure_packed("relax.run.nonzero", x, ty_args=(R.Tensor(dtype="int64", ndim=2),))
    return y
"""

SAYS = """
@R.function(pure=False)
def main(x: R.Tensor((2,), dtype="int32"), c: R.Tensor((), dtype="bool")):
    R.call_packed("relax.run.print", R.str("x = {}"), x, ty_args=(R.Tuple,))
    R.call_packed("relax.run.assert_op", c, R.str("not {}"), x, ty_args=(R.Tuple,))
    return x
"""


def main(text):
    return ti.tir.parse(text)["main"]


@pytest.mark.parametrize("ordered", [True, False])
def test_unique_gives_what_numpy_does(ordered):
    x = np.array([3, 1, 3, 2, 1, 0], np.int32)
    values, first, counts = ti.tir.interpret(main(UNIQUE.format(ordered=ordered)), x)
    expected = [np.unique(x), np.array([5, 1, 3, 0]), np.array([1, 2, 1, 2])]
    if not ordered:
        expected = [part[[3, 1, 2, 0]] for part in expected]
    assert [values.tolist(), first.tolist(), counts.tolist()] == [part.tolist() for part in expected]


def test_nonzero_gives_the_places():
    (places,) = ti.tir.interpret(main(NONZERO), np.array([[1, 0, 2], [0, 0, 3]], np.int32))
    assert places.tolist() == [[0, 0, 1], [0, 2, 2]] and places.dtype == np.int64


@pytest.mark.parametrize("run", [ti.tir.interpret, lambda f, *arrays: ti.lift(f)(*arrays)])
def test_what_is_said_and_asserted_is(run, capfd):
    x = np.array([4, 5], np.int32)
    run(main(SAYS), x, np.array(True))
    assert capfd.readouterr().out == "x = [4 5]\n"
    with pytest.raises(ti.DiagnosticError, match="not"):
        run(main(SAYS), x, np.array(False))


def test_the_lift_says_what_to_write_in_the_place_of_a_shape_that_data_tell():
    with pytest.raises(ti.DiagnosticError, match=r"keep the mask, and use R\.where"):
        ti.lift(main(NONZERO))(np.ones((2, 3), np.int32))
