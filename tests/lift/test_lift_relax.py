"""Lifted Relax: TVM's numbers, the interpreter's numbers for each operator, and gradients."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.relax.rows import ROWS
from tests.lift.relax_models import CNN, CONTROL, IN_PLACE, MLP, TRANSFORMER
from tests.lift.relax_operators import FUNCTIONS

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"


def modules() -> list[object]:
    files = sorted(CONFORMANCE.glob("relax_*.py"))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))]
    return [pytest.param(file, id=file.stem) for file in files]


def relax(text: str) -> Any:
    """The function of a text that stands alone."""
    return ti.tir.parse(text)["main"]


def arrays_for(text: str, seed: int = 7) -> list[np.ndarray]:
    """Asymmetric values for the parameters of a function whose text states their shapes."""
    rng = np.random.default_rng(seed)
    header = re.split(r"->|:\n", text)[0]
    found: list[np.ndarray] = []
    for sizes, dtype in re.findall(r"R\.Tensor\(\(([^)]*)\), \"(\w+)\"\)", header):
        shape = tuple(int(s) for s in sizes.split(",") if s.strip())
        if dtype == "bool":
            found.append(rng.random(shape) < 0.4)
        elif "int" in dtype:
            found.append(rng.integers(0 if dtype[0] == "u" else -9, 10, shape).astype(dtype))
        else:
            found.append((rng.standard_normal(shape) * 1.5 + 0.3).astype(dtype))
    return found


def same(got: Any, want: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)


@pytest.mark.parametrize("file", modules())
def test_a_lifted_conformance_module_gives_tvms_numbers(file: Path):
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    function = ti.tir.parse(file.read_text(), file.stem)[meta["func"]]
    if "metadata[" in file.read_text():
        with pytest.raises(ti.DiagnosticError, match=r"metadata\[.*\] is not in the text"):
            ti.lift(function)
        return
    found = ti.lift(function)(*(data[f"arg{k}"] for k in range(len(meta["args"]))))
    wanted = {int(name[3:]): data[name] for name in data if name.startswith("ret")}
    assert wanted
    for place, want in wanted.items():
        same(found[place], want, meta["rtol"], meta["atol"])


@pytest.mark.parametrize(("params", "value"), FUNCTIONS, ids=[f"{v} of {p}" for p, v in FUNCTIONS])
def test_a_lifted_operator_gives_what_the_interpreter_gives(params: str, value: str):
    typed = re.sub(r"(\w+): \(([^)]*)\) (\w+)", r'\1: R.Tensor((\2), "\3")', params)
    text = f"@R.function\ndef main({typed}):\n    return {value}"
    function = relax(text)
    arrays = arrays_for(text)
    program = ti.lift(function)
    assert ti.parse(str(program)) == program.fencil
    found, wanted = program(*arrays), ti.tir.interpret(function, *arrays)
    assert len(found) == len(wanted)
    narrow = "float16" in params  # bfloat16 as well
    for got, want in zip(found, wanted, strict=True):
        same(got, want, *((2e-2, 2e-3) if narrow else (2e-5, 2e-6)))


@pytest.mark.parametrize("text", [TRANSFORMER, CNN], ids=["transformer", "cnn"])
def test_a_lifted_model_gives_what_the_interpreter_gives(text: str):
    function, arrays = relax(text), arrays_for(text)
    for got, want in zip(ti.lift(function)(*arrays), ti.tir.interpret(function, *arrays), strict=True):
        same(got, want, 5e-5, 5e-6)


def test_a_callee_that_writes_in_place_and_only_a_part():
    function, x = relax(IN_PLACE), np.array([1, -2, 3.5, 4], "float32")
    for got, want in zip(ti.lift(function)(x), ti.tir.interpret(function, x), strict=True):
        same(got, want)
    np.testing.assert_array_equal(x, [1, -2, 3.5, 4])


@pytest.mark.parametrize("rows", [1, 4, 5])
@pytest.mark.parametrize("condition", [True, False])
def test_symbolic_sizes_branches_tuples_and_callees(rows: int, condition: bool):
    function = relax(CONTROL)
    rng = np.random.default_rng(rows)
    x, w = rng.standard_normal((rows, 3)).astype("float32"), rng.standard_normal((3, 3)).astype("float32")
    given = (x, (w, np.array(condition)))
    found, wanted = ti.lift(function)(*given), ti.tir.interpret(function, *given)
    assert len(found) == len(wanted) == 3
    for got, want in zip(found, wanted, strict=True):
        same(got, want)


def test_sizes_are_bound_once_per_shape():
    program = ti.lift(relax(CONTROL))
    for rows in (4, 5, 4):
        program(np.ones((rows, 3), "float32"), (np.ones((3, 3), "float32"), np.array(True)))
    assert len(program.cache) == 2


def test_the_text_of_a_layer_reads_as_a_person_would_write_it():
    text = """
@R.function
def main(x: R.Tensor((5, 7), "float32"), w: R.Tensor((7, 6), "float32"), b: R.Tensor((6,), "float32")):
    with R.dataflow():
        h = R.add(R.matmul(x, w), b)
        y = R.multiply(h, R.sigmoid(h))
        R.output(y)
    return y
"""
    assert str(ti.lift(relax(text))) == (
        "main(\n"
        "  x: tensor<float32, i[0:5], j[0:7]>,\n"
        "  w: tensor<float32, i[0:7], j[0:6]>,\n"
        "  b: tensor<float32, j[0:6]>,\n"
        "  y: tensor<float32, i[0:5], j[0:6]>\n"
        ") {\n"
        "  y ←\n"
        "    let h = reduce(+, 0.0f, k)(rename(j → k)(x) × rename(i → k)(w)) + b;\n"
        "    h × (1.0f / (1.0f + exp(-h)));\n"
        "}"
    )


def test_the_gradient_of_a_multilayer_perceptron_is_right():
    program, arrays = ti.lift(relax(MLP)), arrays_for(MLP)
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        directions = [rng.standard_normal(a.shape) for a in arrays]
        weights = rng.standard_normal((5, 3))

        def loss(*xs: Any) -> Any:
            return (program(*xs)[0] * weights).sum()

        whole = [jax.numpy.asarray(a) for a in arrays]
        _, forward = jax.jvp(loss, whole, [jax.numpy.asarray(d) for d in directions])
        gradients = jax.grad(loss, argnums=tuple(range(5)))(*whole)
        reverse = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
        assert abs(forward - reverse) <= 1e-12 * max(1.0, abs(forward))
        start, remainders = loss(*whole), []
        for step in (1e-3, 5e-4):
            moved = loss(*(a + step * d for a, d in zip(whole, directions, strict=True)))
            remainders.append(abs(moved - start - step * forward))
        assert np.log2(remainders[0] / remainders[1]) >= 1.9


def test_an_index_outside_is_an_error_with_a_witness():
    text = '@R.function\ndef main(x: R.Tensor((3,), "float32"), i: R.Tensor((2,), "int32")):\n    return R.take(x, i)'
    program = ti.lift(relax(text))
    np.testing.assert_array_equal(program(np.arange(3, dtype="float32"), np.array([-1, 1], "int32"))[0], [2, 1])
    with pytest.raises(ti.DiagnosticError):
        program(np.arange(3, dtype="float32"), np.array([0, 3], "int32"))


def refusal(text: str) -> str:
    with pytest.raises(ti.DiagnosticError) as found:
        ti.lift(ti.tir.parse(text, "model")["main"])
    return str(found.value)


def test_an_operator_without_a_program_is_refused_by_name():
    text = '@R.function\ndef main(x: R.Tensor((3,), "float32")):\n    return R.cumsum_like(x)'
    assert refusal(text) == (
        "model:3:12: error[TL01]: R.cumsum_like is not lifted.\n"
        "      return R.cumsum_like(x)\n"
        "             ^^^^^^^^^^^^^^^^\n"
        "help: write it as a PrimFunc of the module, and use R.call_tir."
    )


@pytest.mark.parametrize(
    ("kind", "operator", "said"),
    [
        ("float32", "left_shift(x, x)", "R.left_shift cannot be lifted here: a shift of a float."),
        ("bool", "nn.softmax(x)", "R.nn.softmax cannot be lifted here: the exponential of bool."),
    ],
)
def test_an_operator_on_what_it_is_not_for_is_refused(kind: str, operator: str, said: str):
    text = f'@R.function\ndef main(x: R.Tensor((3,), "{kind}")):\n    return R.{operator}'
    assert refusal(text).splitlines()[0] == f"model:3:12: error[TL01]: {said}"


SPEAKING = """
@R.function
def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):
    _ = R.print(x, format="x is {}")
    if c:
        s = R.sum(x)
        _1 = R.print(s, x, R.shape([3]), format="sum {} of {} in all {}")
        _2 = R.print(x, s)
        y = R.exp(x)
    else:
        y = x
    return y
"""


@pytest.mark.parametrize("chosen", [True, False])
def test_what_is_printed_is_shown_once_in_order_and_only_in_the_branch_that_is_taken(chosen: bool, capsys: Any):
    import jax

    x = np.arange(3, dtype="float32")
    (found,) = ti.lift(relax(SPEAKING))(x, np.bool_(chosen))
    jax.effects_barrier()
    np.testing.assert_allclose(found, np.exp(x) if chosen else x, rtol=1e-6)
    shown = capsys.readouterr().out
    assert shown == "x is [0. 1. 2.]\n" + "sum 3.0 of [0. 1. 2.] in all (3,)\n[0. 1. 2.] 3.0\n" * chosen
    ti.tir.interpret(relax(SPEAKING), x, np.bool_(chosen))
    assert capsys.readouterr().out == shown


def test_a_text_that_is_printed_without_a_value_is_refused():
    text = '@R.function\ndef main(x: R.Tensor((3,), "float32")):\n    _ = R.print(format="here")\n    return x'
    assert refusal(text) == (
        "model:3:9: error[TL01]: this R.print shows no value, and a pure program prints nothing else.\n"
        '      _ = R.print(format="here")\n'
        "          ^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: show one: R.print(x, format=...)."
    )


def test_a_format_with_more_places_than_values_is_refused():
    text = '@R.function\ndef main(x: R.Tensor((3,), "float32")):\n    _ = R.print(x, format="{} {}")\n    return x'
    assert refusal(text) == (
        "model:3:9: error[TL01]: the format of R.print has 2 places for 1 values.\n"
        '      _ = R.print(x, format="{} {}")\n'
        "          ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: give a value for each {}."
    )


@pytest.mark.parametrize("options", ["", ', causal_mask="TopLeft"', ', causal_mask="BottomRight"', ", scale=0.5"])
@pytest.mark.parametrize("others", ["", ", z, m"], ids=["of itself", "of others"])
def test_attention_of_sequences_of_several_lengths(options: str, others: str):
    keys = 7 if others else 9
    text = f"""
@R.function
def main(
    q: R.Tensor((1, 9, 2, 4), "float32"), k: R.Tensor((1, {keys}, 2, 4), "float32"),
    v: R.Tensor((1, {keys}, 2, 3), "float32"), s: R.Tensor((4,), "int32"), z: R.Tensor((4,), "int32"),
    m: R.Tensor((), "int32"),
):
    return R.nn.attention_var_len(q, k, v, s, m{others}{options})
"""
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=size).astype(np.float32) for size in ((1, 9, 2, 4), (1, keys, 2, 4), (1, keys, 2, 3)))
    starts = np.array([0, 3, 4, 9], np.int32), np.array([0, 2, 5, 7], np.int32)
    function = relax(text)
    arrays = (q, k, v, *starts, np.int32(5))
    # a query that may see no key is NaN, there and here
    same(ti.lift(function)(*arrays)[0], ti.tir.interpret(function, *arrays)[0], 2e-5, 2e-6)


def test_branches_of_different_shapes_are_refused():
    text = """
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
    if c:
        y = R.sum(x)
    else:
        y = x
    return y
"""
    assert "the branches give values of different shapes" in refusal(text)


def test_arguments_that_do_not_fit_are_refused():
    program = ti.lift(relax(CONTROL))
    with pytest.raises(ti.DiagnosticError, match="has 4 elements, but must have 3"):
        program(np.ones((2, 4), "float32"), (np.ones((3, 3), "float32"), np.array(True)))
    with pytest.raises(ti.DiagnosticError, match="takes 3 arguments"):
        program(np.ones((2, 3), "float32"))


def test_what_is_not_a_number_is_the_largest():
    text = '@R.function\ndef main(x: R.Tensor((5,), "float32")):\n    return (R.sort(x, descending=True), R.argmax(x))'
    x = np.array([1, np.nan, np.inf, 3, -2], "float32")
    ordered, place = ti.lift(relax(text))(x)
    np.testing.assert_array_equal(ordered, [np.nan, np.inf, 3, 1, -2])
    assert place == 1


@pytest.mark.parametrize("value", ["R.sum(x, axis=[0])", "R.concat((x, x), axis=0)", "R.matmul(x, R.permute_dims(x))"])
def test_tensors_without_elements(value: str):
    function = relax(f'@R.function\ndef main(x: R.Tensor((0, 3), "float32")):\n    return {value}')
    x = np.zeros((0, 3), "float32")
    same(ti.lift(function)(x)[0], ti.tir.interpret(function, x)[0])


def test_a_lifted_function_runs_under_jit_and_vmap():
    text = '@R.function\ndef main(x: R.Tensor((3, 5), "float32")):\n    return R.nn.softmax(x)'
    program, x = ti.lift(relax(text)), np.random.default_rng(0).standard_normal((4, 3, 5)).astype("float32")
    wanted = np.stack([program(one)[0] for one in x])
    same(jax.vmap(lambda one: program(one)[0])(x), wanted)
    same(jax.jit(program)(x[0])[0], wanted[0])


@pytest.mark.parametrize(
    "call", ["R.flip(x, axis=9)", "R.nn.softmax(x, axis=9)", "R.cumsum(x, axis=9)", "R.gather_elements(x, x, axis=9)"]
)
def test_an_axis_that_a_tensor_lacks_is_refused(call: str):
    text = f"""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    y = {call}
    return y
"""
    with pytest.raises(ti.DiagnosticError, match="axis 9 of 2"):
        ti.lift(ti.tir.parse(text)["main"])(np.ones((2, 3), np.float32))


STATEMENTS = {"print", "assert_op"}
"""What a program does besides computing: the interpreter and the lift have these as statements."""
SHAPED_BY_DATA = {"dynamic_strided_slice", "nonzero", "tensor_to_shape", "unique"}
NO_MEANING = {"cumsum_like"}
"""TVM declares it, and no library of TVM computes it."""
ELSEWHERE = {"nn.attention_var_len", "null_value", "to_vdevice", "hint_on_device"}
"""With tests of their own below; an object without a value; and devices, which a module has to declare."""


@pytest.mark.parametrize("name", ROWS)
def test_each_operator_is_computed_and_lifted_and_the_two_are_compared(name: str):
    row = ROWS[name]
    assert (row.interpret is None) == (name in STATEMENTS | NO_MEANING)
    assert (row.lift is None) == (name in STATEMENTS | NO_MEANING | SHAPED_BY_DATA)
    compared = any(f"R.{name}(" in value for _, value in FUNCTIONS) or f"R.{name}(" in TRANSFORMER + CNN
    assert row.lift is None or compared != (name in ELSEWHERE)


# Sums of products in Relax: what subscripts name, with ellipses and dimensions of size 1, as NumPy reads them.


SUMS = [
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (6, 2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (3, 1, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (3, 4), (4, 5)),
    ("...ij,jk", (2, 3, 4), (4, 5)),
    ("...ij -> ij...", (2, 3, 4)),
    ("...ij->...", (2, 3, 4)),
    ("...ii->...i", (2, 3, 3)),
    ("...ba", (2, 3, 4)),
    ("a...b,b...c->...ac", (2, 7, 3), (3, 7, 4)),
    ("...,...->...", (2, 3), (3,)),
    ("ab...->...", (2, 3)),
    ("A...i,...iB->AB", (2, 3), (3, 4)),
    ("ij,jk->ik", (3, 1), (4, 5)),
    ("ij,ij->ij", (1, 4), (3, 1)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
]


def function(subscripts, shapes):
    names = [f"x{k}" for k in range(len(shapes))]
    params = ", ".join(f'{n}: R.Tensor({s}, "float32")' for n, s in zip(names, shapes, strict=True))
    text = f'def main({params}):\n    r = R.einsum(({", ".join(names)},), subscripts="{subscripts}")\n    return r\n'
    return ti.tir.parse(f"@R.function\n{text}")["main"]


@pytest.mark.parametrize("case", SUMS, ids=str)
def test_sums_are_those_of_numpy(case):
    subscripts, *shapes = case
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    expected = np.einsum(subscripts, *arrays)
    main = function(subscripts, shapes)
    for got in (ti.tir.interpret(main, *arrays)[0], ti.lift(main)(*arrays)[0]):
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)
    assert str(ti.tir.parse(str(main))["main"]) == str(main)


def test_a_sum_over_what_an_operand_has_once_is_differentiated():
    lifted = ti.lift(function("...ij,...jk->...ik", [(3, 1, 2, 4), (2, 4, 5)]))
    x, y = np.ones((3, 1, 2, 4), "float32"), np.full((2, 4, 5), 2.0, "float32")
    slopes = jax.grad(lambda x, y: lifted(x, y)[0].sum(), (0, 1))(x, y)
    np.testing.assert_allclose(slopes[0], np.full(x.shape, 20.0))
    np.testing.assert_allclose(slopes[1], np.full(y.shape, 6.0))


WRONG = {
    ("...ij->ij", (2, 3, 4)): "the result 'ij' has no place for the dimensions of '...'",
    ("ij->i", (2, 3, 4)): "'ij' names 2 dimensions of a tensor of 3",
    ("ijk->i", (2, 3)): "'ijk' names 3 dimensions of a tensor of 2",
    ("ij,jk->ik", (2, 3)): "subscripts of 2 operands, and there are 1",
    ("i.j->i", (2, 3)): "'i.j' is not letters with one '...'",
    ("i......->i", (2, 3)): "'i......' is not letters with one '...'",
    ("ij->ik", (2, 3)): "the result names 'k' twice, or no operand has it",
    ("ij->iij", (2, 3)): "the result names 'i' twice, or no operand has it",
}


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_subscripts_that_name_no_sum_are_refused(case):
    subscripts, shape = case
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.lift(function(subscripts, [shape]))
    assert f"R.einsum cannot be applied: {WRONG[case]}.\n" in str(refused.value)
    assert "        ^^^^^^^^" in str(refused.value)


def test_sizes_that_differ_are_told():
    with pytest.raises(ti.DiagnosticError, match=r"R\.einsum gives 'j' the sizes 4 and 5\."):
        ti.lift(function("ij,jk->ik", [(3, 4), (5, 2)]))
