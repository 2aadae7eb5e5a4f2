"""Programs in the notation, for one size and for all."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from specification import COSINES_WITH_BUFFER, LAPLACIAN, NABLA, OFFSETS, PROGRAMS, SOLVE_TRIDIAG

from tensorir import DiagnosticError
from tensorir.ir import build
from tensorir.ir.dimensions import Dimension
from tensorir.ir.nodes import Apply, Call, Lambda, Literal
from tensorir.ir.types import BOOL, FLOAT32, FLOAT64, INT32, SCALARS, Scalar, tensor
from tensorir.text import Template, parse, parse_all, parse_expr, read, solve

# What programs mean


X = {"x": tensor("float", I=(0, 5)), "y": tensor("float", I=(0, 5)), "n": tensor("int", I=(0, 5)), "b": tensor("bool"),
     "g": tensor("float", I=(0, 5), clamp=(0, 3), over=(0, 4))}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_specification_reads_the_same_without_line_breaks(program: str):
    broken, flat = (parse(text, offset_provider=OFFSETS) for text in (program, " ".join(program.split())))
    assert broken == flat


def test_the_laplacian_shifts_along_the_dims_of_its_offsets():
    by_name = parse(LAPLACIAN, offset_provider={"i": "IDim", "j": "JDim", "unused": "KDim"})
    by_dimension = parse(LAPLACIAN, offset_provider={"i": Dimension("IDim"), "j": Dimension("JDim")})
    by_header = parse("offsets { i: IDim, j: JDim }" + LAPLACIAN)
    assert by_name == by_dimension == by_header
    assert str(by_name).count("⟪IDim, -1, IDim, 1, IDim, -1⟫") == 1


def test_the_solver_scans_backward_and_forward():
    (closure,) = parse(SOLVE_TRIDIAG).closures
    assert isinstance(closure.value, Apply) and isinstance(closure.value.function, Lambda)
    backward = closure.value.function.body
    assert isinstance(backward, Call) and backward.static == (False, "KDim")
    forward = backward.args[2]
    assert isinstance(forward, Call) and forward.static == (True, "KDim")


def test_nabla_takes_its_tables_from_its_parameters_and_may_name_one_like_a_builtin():
    f = parse(NABLA)
    assert [p.name for p in f.inputs] == ["n_nodes", "pp", "S_MXX", "S_MYY", "sign", "vol", "E2V", "V2E"]


def test_closures_need_no_semicolon():
    assert [c.output.name for c in parse(COSINES_WITH_BUFFER)] == ["tmp", "out"]


@pytest.mark.parametrize(
    ("unicode", "ascii"),
    [
        ("⟪I, 1⟫(x)", "shift(I, 1)(x)"),
        ("⟪I, 1⟫(x)", "__cartesian_shift(I, 1)(x)"),
        ("x × y", "x * y"),
        ("x × y", "__multiplies(x, y)"),
        ("x ≤ y ∧ ¬(x ≠ y) ∨ b", "x <= y and not (x != y) or b"),
        ("x = y", "x == y"),
        ("(λ(a) → a)(x)", r"(\(a) -> a)(x)"),
        ("rename(I → J)(x)", "rename(I -> J)(x)"),
        ("if b then x else y", "if(b, x, y)"),
        ("(x, y)", "make_tuple(x, y)"),
        ("(x, y)[1]", "tuple_get(make_tuple(x, y), 1)"),
        ("x[I[0:3]]", "subset(x, I[0:3])"),
        ("cast(x, float32)", "float32(x)"),
        ("x < -y", "x<-y"),
        ("-x ** y", "neg(power(x, y))"),
        ("x ** y ** x", "power(x, power(y, x))"),
        ("x - y - x", "minus(minus(x, y), x)"),
        ("¬b = b", "not(eq(b, b))"),
        ("reduce(+, 0.0, I)(x)", "reduce(λ(a: tensor<float>, v: tensor<float>) → a + v, 0.0, I)(x)"),
        # dims that are named like a rule for indices, or like the slot behind them
        ("gather(I, `clamp`, `over`)(g, n, n, n)", "gather(I, clamp, over, checked)(g, n, n, n)"),
        ("gather(I, `clamp`, zero)(g, n, n)", "gather(I, clamp, zero)(g, n, n)"),
        ("gather(`over`, clamp)(g, n)", "gather(over, clamp)(g, n)"),
        ("gather(I, `over`)(g, n, n)", "gather(I, over)(g, n, n)"),
        ("gather(I, `clamp`)(g, n, n)", "gather(I, clamp, checked)(g, n, n)"),
        (
            "scatter(+, I, `clamp`, `over`, over: (I))(g, n, n, n, x)",
            "scatter(+, I, clamp, over, over: (I))(g, n, n, n, x)",
        ),
    ],
)
def test_two_spellings_are_one_expression(unicode: str, ascii: str):
    first, second = parse_expr(unicode, X), parse_expr(ascii, X)
    assert first.type == second.type
    if "reduce" not in unicode:
        assert first == second


@pytest.mark.parametrize(
    ("text", "value", "element"),
    [
        ("1.0", 1.0, FLOAT64),
        ("1", 1, INT32),
        ("-2147483648", -(2**31), INT32),
        ("1.0f", 1.0, FLOAT32),
        ("0.1f", float(np.float32(0.1)), FLOAT32),
        ("f16(1)", 1.0, SCALARS["float16"]),
        ("bf16(-1.5)", -1.5, SCALARS["bfloat16"]),
        ("int64(3000000000)", 3_000_000_000, SCALARS["int64"]),
        ("uint8(255)", 255, SCALARS["uint8"]),
        ("true", True, BOOL),
        ("False", False, BOOL),
        ("-inf", -math.inf, FLOAT64),
        ("2.5e-3", 0.0025, FLOAT64),
        (".5", 0.5, FLOAT64),
        ("-0.0", -0.0, FLOAT64),
    ],
)
def test_a_literal_has_its_value_and_type(text: str, value: float, element: Scalar):
    found = parse_expr(text)
    assert isinstance(found, Literal)
    assert (found.value, found.element) == (value, element)
    assert math.copysign(1, found.value) == math.copysign(1, value)


@pytest.mark.parametrize("element", [e for e in SCALARS.values() if e.is_float])
@pytest.mark.parametrize("value", [0.1, -0.0, 1e-40, 5e-324, 3.0, 240.0, math.inf, -math.inf, math.nan, 1e22])
def test_every_float_prints_and_reads_exactly(value: float, element: Scalar):
    literal = build.literal(value, element)
    assert parse_expr(str(literal)) == literal


def test_the_opposite_of_a_literal_is_not_a_negative_literal():
    opposite = build.call("neg", build.literal(1.0))
    assert str(opposite) == "neg(1.0)"
    assert parse_expr("neg(1.0)") == opposite != parse_expr("-1.0")


def test_a_let_is_one_node_and_keeps_its_name():
    e = parse_expr("let t = x × y; t + t", X)
    assert isinstance(e, Call)
    assert e.args[0] is e.args[1] and e.args[0].label == "t"
    assert str(e) == "let t = x × y; t + t"


def test_a_function_that_let_names_is_shared():
    e = parse_expr("let f = λ(a: tensor<float, I[0:5]>) → a × a; f(x) + f(y)", X)
    assert isinstance(e, Call)
    first, second = e.args
    assert isinstance(first, Apply) and isinstance(second, Apply)
    assert first.function is second.function


def test_an_inner_let_hides_an_outer_one_until_it_ends():
    e = parse_expr("let t = x; (let t = y; t) + t", X)
    assert str(e) == "y + x"


def test_a_parameter_of_a_function_gets_a_name_of_its_own():
    f = parse("f(out: tensor<float>, x: tensor<float>) { out ← (λ(x) → x + (λ(x) → x)(x))(x); }")
    assert "λ(x_1: tensor<float>) → x_1 + (λ(x_2: tensor<float>) → x_2)(x_1)" in str(f)


def test_parameters_without_types_take_them_from_arguments():
    e = parse_expr("scan(λ(s, a) → s + a, false, 0.0)(x)", X)
    assert isinstance(e, Call) and isinstance(e.args[0], Lambda)
    assert [p.type for p in e.args[0].params] == [tensor("float"), tensor("float")]
    assert e.static == (False, "I")


def test_a_table_of_the_provider_becomes_a_parameter_that_is_bound():
    class Table:
        dims, shape, dtype = ("Vertex", "_NB_Edge"), (2, 2), np.dtype("int32")

        def __array__(self, *_: object, **__: object) -> np.ndarray:
            return np.array([[0, 1], [1, 2]], np.int32)

    text = "f(out: tensor<float, Vertex[0:2]>, e: tensor<float, Edge[0:3]>) { out ← ⟪V2Eₒ, 0ₒ⟫(e); }"
    bound = parse(text, offset_provider={"V2E": Table()})
    assert "V2E: tensor<int, Vertex[0:2], _NB_Edge[0:2]>" in str(bound.program)
    assert set(bound.constants) == {"V2E"}


def test_several_fencils_are_told_apart_by_name():
    text = "f(x: tensor<float>) { x ← 1.0 } g(x: tensor<float>) { x ← 2.0; }"
    assert parse(text, fencil="g") == parse_all(text)["g"]
    assert list(parse_all(text)) == ["f", "g"]


def test_a_name_in_backticks_may_be_anything():
    f = parse("`my fencil`(`if`: tensor<float, `a dim`[0:2]>, `\\u03b1\\n`: tensor<float>) { `if` ← `\\u03b1\\n`; }")
    assert [p.name for p in f.params] == ["if", "α\n"]
    assert parse(str(f)) == f
    f = parse(r'f(`a"b`: tensor<float>, `c\"d\\"e`: tensor<float>) { `a"b` ← `c\"d\\"e`; }')
    assert [p.name for p in f.params] == ['a"b', 'c"d\\"e']
    assert parse(str(f)) == f


def test_a_file_is_read_and_a_wrong_one_is_refused_with_its_name(tmp_path):
    path = tmp_path / "p.fencil"
    path.write_text("f(x: tensor<float>) { x ← 1.0 }", "utf-8")
    assert read(path).name == "f"
    path.write_bytes(b"f(x: tensor<float>) {\n x \xff")
    with pytest.raises(DiagnosticError, match=r"p\.fencil:2:4: error\[S02\]: the byte 0xff is not UTF-8\."):
        read(path)


def test_axes_keep_the_order_in_which_they_are_written():
    ij, ji = (f"f(out: tensor<float, {d}>) {{ out ← 1.0 }}" for d in ("I[0:2], J[0:2]", "J[0:2], I[0:2]"))
    assert parse(ij) != parse(ji)


# Templates

BLUR = """
blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
  out ← 0.5 × (⟪I, -1⟫(inp) + ⟪I, 1⟫(inp));
  out[I[0:1]] ← inp[I[n-1:n]];
}
"""


def test_sizes_are_the_names_in_bounds():
    f = parse(BLUR.replace("inp[I[n-1:n]]", "⟪I, m-1⟫(inp[I[0:m]])"))
    assert isinstance(f, Template)
    assert f.sizes == ("n", "k", "m")


def test_a_template_prints_and_reads_and_equals_itself():
    f = parse("offsets { i: I }" + BLUR.replace("⟪I, -1⟫", "⟪i, -1⟫"))
    assert parse(str(f)) == f
    assert str(parse(str(f))) == str(f)
    assert f != parse(BLUR)


def test_a_template_becomes_a_fencil_once_per_set_of_sizes():
    f = parse(BLUR.replace("inp[I[n-1:n]]", "1.0"))
    assert f.specialise(n=5, k=2) is f.specialise(k=2, n=5)
    assert str(f.specialise(n=5, k=2)["inp"].type) == "tensor<float, I[-1:6], K[0:4]>"


@pytest.mark.parametrize(
    "shapes",
    [
        {"inp": (12, 6)},
        {"inp": {"I": (-1, 11), "K": (0, 6)}},
        {"inp": {"I": 12}, "out": {"K": 6}},
        {"out": (10, 6), "inp": (12, 6)},
    ],
)
def test_shapes_tell_the_sizes(shapes):
    assert solve(parse(BLUR), shapes) == {"n": 10, "k": 3}


def test_sizes_may_be_given_by_name():
    assert solve(parse(BLUR), {}, {"n": 10, "k": 3}) == {"n": 10, "k": 3}


def test_sizes_that_only_several_extents_tell_are_solved_for():
    f = parse("f(out: tensor<float, I[0:n+m], J[0:2*n-m], K[0:p-m]>) { out ← 1.0 }")
    assert solve(f, {"out": (7, 2, 6)}) == {"n": 3, "m": 4, "p": 10}


FAILURES = {
    "a size that nothing tells": (
        {"inp": {"I": 12}},
        {},
        """\
p.fencil:2:1: error[B01]: the size 'k' is not bound: no argument that was passed has an interval that tells it.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
  ^^^^
help: give it by name: k=10.""",
    ),
    "two shapes that contradict each other": (
        {"inp": (12, 6), "out": (11, 6)},
        {},
        """\
p.fencil:2:63: error[B02]: 'inp' has 12 points along I, and n+2 is 13; n is 11, since 'out' has 11 points along I.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                                                                ^^^^^^^^^
help: pass arrays whose sizes agree.""",
    ),
    "a shape that contradicts a size that was given": (
        {"out": (11, 6)},
        {"n": 10},
        """\
p.fencil:2:25: error[B02]: 'out' has 11 points along I, and n is 10; n is 10, since 'n' was given.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                          ^^^^^^
help: pass arrays whose sizes agree.""",
    ),
    "an interval that starts elsewhere": (
        {"out": {"I": (-3, 8), "K": 6}},
        {},
        """\
p.fencil:2:25: error[B02]: 'out' has I[-3:8], and its type has I[0:n].
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                          ^^^^^^
help: pass an array on such an interval.""",
    ),
    "an extent that no whole size gives": (
        {"out": (10, 7)},
        {},
        """\
p.fencil:2:33: error[B03]: 'out' has 7 points along K, and no whole 'k' gives that: 2*k = 7.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                                  ^^^^^^^^
help: pass an array of another size.""",
    ),
    "a size that is negative": (
        {"inp": (1, 6)},
        {},
        """\
p.fencil:2:25: error[B04]: with n = -1, I[0:-1] of 'out' stops before it starts.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                          ^^^^^^
help: pass larger arrays.""",
    ),
    "a name that is no size": (
        {},
        {"nn": 10},
        """\
p.fencil:2:1: error[B05]: 'blur' has no size 'nn'.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
  ^^^^
help: did you mean 'n'?""",
    ),
    "a wrong number of axes": (
        {"inp": (12,)},
        {},
        """\
p.fencil:2:44: error[B06]: 'inp' has 1 axis, and its type has 2: I, K.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                                             ^^^
help: axes stand in the order in which the type names its dims.""",
    ),
}


@pytest.mark.parametrize(("shapes", "sizes", "expected"), FAILURES.values(), ids=FAILURES)
def test_the_diagnostic_is(shapes, sizes, expected: str):
    with pytest.raises(DiagnosticError) as error:
        solve(parse(BLUR, name="p.fencil"), shapes, sizes)
    assert str(error.value) == expected


def test_names_are_checked_before_any_size_is_known():
    with pytest.raises(DiagnosticError, match=re.escape("error[N01]: 'inpt' is not known here.")):
        parse(BLUR.replace("(inp)", "(inpt)", 1))


def test_types_are_checked_when_sizes_are_known():
    f = parse(BLUR.replace("I[-1:n+1]", "I[0:n]"))
    with pytest.raises(DiagnosticError) as error:
        f.specialise(n=5, k=1)
    assert "'out' needs I[0:5], but this provides I[1:4]." in str(error.value)


def test_a_size_that_is_missing_is_named():
    with pytest.raises(DiagnosticError, match=re.escape("error[B01]: the size 'k' is not bound.")):
        parse(BLUR).specialise(n=5)
