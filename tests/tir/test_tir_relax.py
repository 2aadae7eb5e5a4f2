"""Shapes and types of Relax's operators."""

from __future__ import annotations

import pytest

from tensorir.relax import nodes as r
from tensorir.relax.infer import type_of
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import parse

HEAD = (
    '@R.function\ndef main(x: R.Tensor((2, 3), "float32"), v: R.Tensor((3,), "float32"), i: R.Tensor((4,), "int64"), '
    'img: R.Tensor((1, 3, 9, 9), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), s: R.Tensor(("n", 4), "float32")):\n'
)

TYPES = [
    ("R.add(x, v)", '((2, 3), dtype="float32")'),
    ("x + v", '((2, 3), dtype="float32")'),
    ("R.less(x, v)", '((2, 3), dtype="bool")'),
    ("R.exp(x)", '((2, 3), dtype="float32")'),
    ('R.astype(x, "float16")', '((2, 3), dtype="float16")'),
    ("R.matmul(x, R.permute_dims(x))", '((2, 2), dtype="float32")'),
    ("R.matmul(x, v)", '((2,), dtype="float32")'),
    ('R.matmul(x, v, out_dtype="float64")', '((2,), dtype="float64")'),
    ("R.sum(x)", '((), dtype="float32")'),
    ("R.sum(x, axis=[-1], keepdims=True)", '((2, 1), dtype="float32")'),
    ("R.argmax(x, axis=1)", '((2,), dtype="int64")'),
    ("R.reshape(x, (3, 2))", '((3, 2), dtype="float32")'),
    ("R.reshape(x, (-1,))", '((6,), dtype="float32")'),
    ("R.expand_dims(x, axis=[0, 3])", '((1, 2, 3, 1), dtype="float32")'),
    ("R.squeeze(R.expand_dims(x, axis=0))", '((2, 3), dtype="float32")'),
    ("R.concat((x, x), axis=1)", '((2, 6), dtype="float32")'),
    ("R.stack((x, x), axis=0)", '((2, 2, 3), dtype="float32")'),
    ("R.split(x, 3, axis=1)[2]", '((2, 1), dtype="float32")'),
    ("R.split(x, [1], axis=1)[1]", '((2, 2), dtype="float32")'),
    ("R.take(x, i, axis=1)", '((2, 4), dtype="float32")'),
    ("R.flatten(x)", '((6,), dtype="float32")'),
    ("R.broadcast_to(v, (5, 3))", '((5, 3), dtype="float32")'),
    ("R.tile(x, [2, 2])", '((4, 6), dtype="float32")'),
    ("R.repeat(x, 2, axis=0)", '((4, 3), dtype="float32")'),
    ("R.strided_slice(x, [1], [0], [3], [2])", '((2, 2), dtype="float32")'),
    ("R.strided_slice(x, [1], [-1], [-4], [-1])", '((2, 3), dtype="float32")'),
    ("R.nn.conv2d(img, w)", '((1, 4, 7, 7), dtype="float32")'),
    ("R.nn.conv2d(img, w, strides=2, padding=1)", '((1, 4, 5, 5), dtype="float32")'),
    ("R.nn.max_pool2d(img, pool_size=2, strides=2)", '((1, 3, 4, 4), dtype="float32")'),
    ("R.nn.max_pool2d(img, pool_size=2, strides=2, ceil_mode=True)", '((1, 3, 5, 5), dtype="float32")'),
    ("R.nn.softmax(x)", '((2, 3), dtype="float32")'),
    ("R.image.resize2d(img, (4, 5))", '((1, 3, 4, 5), dtype="float32")'),
    ("R.cumsum(x)", '((6,), dtype="float32")'),
    ('R.zeros((2, 2), "int8")', '((2, 2), dtype="int8")'),
    ("R.ones_like(x)", '((2, 3), dtype="float32")'),
    ("R.outer(v, v)", '((3, 3), dtype="float32")'),
    ("R.meshgrid((v, i))[1]", '((3, 4), dtype="int64")'),
    ("R.gather_nd(x, R.const([[0, 1]], 'int64'))", '((1,), dtype="float32")'),
    ("R.add(s, s)", '((n, 4), dtype="float32")'),
    ("R.matmul(s, R.permute_dims(s))", '((n, n), dtype="float32")'),
    ("R.reshape(s, (-1,))", '((n * 4,), dtype="float32")'),
    ("R.concat((s, s), axis=0)", '((n + n, 4), dtype="float32")'),
]


@pytest.mark.parametrize(("text", "expected"), TYPES, ids=[case[0] for case in TYPES])
def test_an_operator_gives_the_type_that_its_operands_make(text: str, expected: str):
    function = parse(f"{HEAD}    z = {text}\n    return z\n").functions["main"]
    assert isinstance(function, r.Function)
    assert str(type_of(function.body.body, {})) == f"R.Tensor{expected}"


def test_an_annotation_that_the_operands_contradict_is_an_error():
    with pytest.raises(DiagnosticError) as caught:
        parse(f'{HEAD}    z: R.Tensor((2, 4), "float32") = R.add(x, v)\n    return z\n')
    assert str(caught.value).splitlines()[0] == (
        "<tir>:3:5: error[TS40]: 'z' has size 3 along dimension 1, and 4 is stated."
    )


def test_each_statement_of_a_dataflow_block_that_is_wrong_is_told_once():
    with pytest.raises(DiagnosticError) as caught:
        parse(
            f"{HEAD}    with R.dataflow():\n        a = R.frob(x)\n        b = R.exp(a)\n        c = R.grok(x)\n"
            "        R.output(b)\n    return b\n"
        )
    assert [d.message for d in caught.value.diagnostics] == ["R.frob is not known.", "R.grok is not known."]


def test_a_function_that_states_a_tensor_returns_one():
    with pytest.raises(DiagnosticError) as caught:
        parse('@R.function\ndef main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):\n    y = R.exp(x)\n')
    (found,) = caught.value.diagnostics
    assert found.message == "'main' returns nothing, and a tensor is stated."


def test_a_shape_that_has_a_name_stands_for_its_sizes():
    function = parse(
        '@R.function\ndef main(x: R.Tensor(("n", 4), "float32"), t: R.Shape(ndim=3)):\n    n = T.int64()\n'
        '    s: R.Shape([n, 4]) = R.shape_of(x)\n    y: R.Tensor(s, dtype="float32") = R.exp(x)\n'
        '    z: R.Tensor(t, dtype="float32") = R.broadcast_to(y, t)\n    return (y, z)\n'
    ).functions["main"]
    assert isinstance(function, r.Function)
    assert str(type_of(function.body.body, {})) == (
        'R.Tuple(R.Tensor((n, 4), dtype="float32"), R.Tensor(dtype="float32", ndim=3))'
    )


def test_symbolic_sizes_that_contradict_are_an_error():
    with pytest.raises(DiagnosticError) as caught:
        parse(
            f"{HEAD}    a = R.concat((s, s), axis=0)\n    b = R.concat((s, s, R.const([[1.0] * 4])), axis=0)\n"
            "    z = R.add(a, b)\n    return z\n"
        )
    assert caught.value.diagnostics[0].code == "TS40"


def test_variables_of_a_dataflow_block_stay_inside():
    with pytest.raises(DiagnosticError) as caught:
        parse(
            f"{HEAD}    with R.dataflow():\n        a = R.exp(x)\n        b = R.exp(a)\n"
            "        R.output(b)\n    return a\n"
        )
    assert caught.value.diagnostics[0].message == "'a' is not defined here."


def test_an_operator_fills_in_its_attributes():
    plain, full = (
        parse(f"{HEAD}    z = {text}\n    return z\n") for text in ("R.sum(x)", "R.sum(x, axis=None, keepdims=False)")
    )
    assert plain == full


def test_the_values_of_a_one_hot_take_the_type_that_is_stated():
    module = parse(f'{HEAD}    z: R.Tensor((4, 3), "int32") = R.one_hot(i, 5, -1, depth=3, axis=1)\n    return z\n')
    assert parse(str(module)) == module
    function = module["main"]
    assert isinstance(function, r.Function)
    assert str(type_of(function.body.body, {})) == 'R.Tensor((4, 3), dtype="int32")'


@pytest.mark.parametrize(
    "call",
    [
        "R.hint_on_device(x, R.device(device_type=1, index=0))",
        "R.grad.no_grad(x)",
        "R.median(x, axis=[0, 1])",
        "R.layout_transform(x, index_map=lambda a, b: (b, a))",
    ],
)
def test_calls_of_tvm_read_as_they_print(call: str):
    module = parse(f"{HEAD}    z = {call}\n    return z\n")
    assert parse(str(module)) == module
    assert "separators" not in str(module)


def test_a_wrong_call_is_all_that_is_wrong():
    with pytest.raises(DiagnosticError) as caught:
        parse(f"{HEAD}    z = R.no_such_call(x)\n    return z\n".replace("):\n", ') -> R.Tensor((1,), "int8"):\n', 1))
    assert [found.code for found in caught.value.diagnostics] == ["TS12"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("t = (x, x)\n    return t[5]", "4:12: error[TS40]: a tuple of 2 has no member 5."),
        (
            "if c:\n        y = R.add(x, x)\n    else:\n        y = x\n    return x",
            "3:8: error[TS40]: the condition has the shape (2,), and one truth value decides.",
        ),
        (
            "return R.call_dps_packed('f', (x,))",
            "3:12: error[TS24]: R.call_dps_packed needs 'out_ty', the type of its result.",
        ),
    ],
)
def test_what_no_value_can_be_is_refused_where_it_is_read(lines: str, told: str):
    head = '@R.function\ndef main(x: R.Tensor((2,), "float32"), c: R.Tensor((2,), "bool")):\n    '
    with pytest.raises(DiagnosticError) as caught:
        parse(f"{head}{lines}\n")
    assert str(caught.value.diagnostics[0]).splitlines()[0] == f"<tir>:{told}"


def test_numbers_that_stand_alone_have_the_widths_of_python():
    text = '@R.function\ndef main(x: R.Tensor((4,), "float64")):\n    y = R.clip(x, 0.0, 1)\n    return y\n'
    assert "R.clip(x, T.float64(0.0), 1)" in str(parse(text)).replace("T.int64(1)", "1")


REPEATED = {
    "a name that is bound twice": ["with R.dataflow():", "    a = R.add(x, y)", "    a = R.multiply(a, y)",
                                   "    R.output(a)", "return a"],
    "a name that is bound again behind its block": ["with R.dataflow():", "    a = R.add(x, y)", "    R.output(a)",
                                                    "a = R.multiply(a, y)", "return a"],
    "a call for nothing whose type is stated": ["_: R.Tuple = M.copy(x, y)", "return y"],
    "calls for nothing": ["_ = M.copy(x, y)", "M.copy(x, y)", "R.print(x, format='{}')", "return y"],
    "nothing that is returned": ["_: R.Tuple = R.print(x, format='{}')", "return _"],
    "nothing of a function": ["M.show(x)", "return y"],
}  # fmt: skip


@pytest.mark.parametrize("what", REPEATED)
def test_what_is_bound_again_or_for_nothing_reads_as_it_prints(what: str):
    text = f"""@I.ir_module
class M:
    @T.prim_func(private=True)
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i]

    @R.function(pure=False)
    def show(x: R.Tensor((4,), "float32")) -> R.Tuple:
        R.print(x, format="{{}}")
        return R.tuple()

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        {f"{chr(10)}        ".join(REPEATED[what])}
"""
    module = parse(text)
    assert parse(str(module)) == module and str(parse(str(module))) == str(module)
