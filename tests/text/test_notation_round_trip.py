"""Text and programs, there and back."""

from __future__ import annotations

from collections import Counter

import pytest
import random_programs
from specification import OFFSETS, PROGRAMS

from tensorir.ir import build, nodes
from tensorir.ir.builtins import TABLE
from tensorir.ir.rewrite import postorder, with_label
from tensorir.ir.types import tensor
from tensorir.text import parse, parse_expr
from tensorir.text.printer import print_expr, print_fencil


def inner_nodes(f: nodes.Fencil) -> list[int]:
    """How many distinct applications and functions each closure has: what sharing must keep."""
    return [sum(isinstance(n, (nodes.Apply, nodes.Call, nodes.Lambda)) for n in postorder(c.value)) for c in f.closures]


def check(f: nodes.Fencil) -> None:
    text = str(f)
    back = parse(text)
    assert back == f
    assert str(back) == text
    assert inner_nodes(back) == inner_nodes(f)
    ascii = print_fencil(f, ascii=True)
    assert ascii.isascii()
    assert parse(ascii) == f
    assert parse(print_fencil(f, width=30)) == f


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_specification_comes_back(program: str):
    check(parse(program, offset_provider=OFFSETS))


@pytest.mark.parametrize("seed", range(200))
def test_a_random_program_comes_back(seed: int):
    check(random_programs.fencil(seed))


def test_random_programs_hold_every_builtin():
    found = Counter(
        n.op
        for s in range(400)
        for c in random_programs.fencil(s).closures
        for n in postorder(c.value)
        if hasattr(n, "op")
    )
    assert [name for name in TABLE if not found[name]] == []


def test_a_graph_of_2_to_the_60_paths_prints_as_60_lets():
    e = build.var("x", tensor("float"))
    for _ in range(60):
        e = build.call("plus", e, e)
    text = print_expr(e)
    assert text.count("let ") == 59
    assert parse_expr(text, {"x": tensor("float")}) == e


def test_labels_that_mean_something_else_are_changed_and_stay_changed():
    x = build.var("x", tensor("float", I=(0, 3)))
    for label in ["x", "I", "exp", "__exp", "float", "shift", "let", "a b", "t1"]:
        e = with_label(build.call("exp", x), label)
        f = build.fencil("f", [x, out := build.var("out", x.type)], [build.closure(out, build.call("plus", e, e))])
        check(f)


def test_a_shared_function_of_two_closures_keeps_its_names():
    x, out, more = (build.var(name, tensor("float")) for name in ("x", "out", "more"))
    a = build.var("a", tensor("float"))
    double = build.function([a], build.call("plus", a, a))
    closures = [build.closure(o, build.apply(double, x)) for o in (out, more)]
    check(build.fencil("f", [x, out, more], closures))


def test_a_shift_along_a_dim_that_is_named_like_a_variable_is_written_in_words():
    x = build.var("I", tensor("float", I=(0, 5)))
    assert print_expr(build.cartesian_shift(x, "I", 1)) == "cartesian_shift(I, 1)(I)"


def test_an_operator_of_types_that_do_not_follow_is_written_with_them():
    wide = tensor("float", I=(0, 5))
    x = build.var("x", wide)
    e = build.apply(build.operator("plus", tensor("float", I=(0, 3)), wide), x, x)
    text = "operator(+, tensor<float, I[0:3]>, tensor<float, I[0:5]>)(x, x)"
    assert print_expr(e) == text
    assert parse_expr(text, [x]) == e


N = 3_000
"""Three times as deep as Python calls functions within each other."""
DEEP = {
    "parentheses": "(" * N + "x" + ")" * N,
    "opposites": "-" * N + "x",
    "negations": "¬" * N + "b",
    "a chain": " + ".join(["x"] * N),
    "powers": "x ** " * N + "x",
    "shifts": "⟪I, 1⟫(" * N + "z" + ")" * N,
    "calls": "exp(x + " * N + "x" + ")" * N,
    "functions": "(λ(a) → " * N + "a" + ")(x)" * N,
    "bindings": "".join(f"let a{k} = {f'a{k - 1}' if k else 'x'} + x; " for k in range(N)) + f"a{N - 1}",
    "bindings in bindings": "let a = " * N + "x + x" + "; a + x" * N,
    "choices": "if b then x else " * N + "x",
    "choices in choices": "if b then " * N + "x" + " else x" * N,
    "conversions": "cast(" * N + "x" + ", float)" * N,
    "tuples": "(x, " * 90 + "x" + ")" * 90,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_an_expression_3_000_deep_comes_back(text: str):
    variables = {"x": tensor("float"), "b": tensor("bool"), "z": tensor("float", I=(-10_000, 10_000))}
    e = parse_expr(text, variables)
    printed = print_expr(e)
    assert parse_expr(printed, variables) == e
    assert text[0] in "-¬" or max(map(len, printed.splitlines())) <= 100


def test_functions_that_share_a_parameter_are_written_with_names_of_their_own():
    a, x = (build.var(name, tensor("float")) for name in ("a", "x"))
    square = build.call("multiplies", a, a)
    twice = build.call("plus", square, square)
    e = build.call("plus", *(build.apply(build.function([a], body), x) for body in (twice, build.call("neg", twice))))
    back = parse_expr(print_expr(e), [x])
    assert back.type == e.type and back.free == e.free
    assert print_expr(back) == print_expr(e)


def test_results_of_a_function_share_nodes():
    text = """f(x: tensor<float, I[0:5]>, y: tensor<float, J[0:3]>, z: tensor<float, J[0:3]>) {
      z ← loop(1, 4)(
        λ(i, a, b) → true,
        λ(i, a, b) → let t = reduce(+, 0.0, I)(a); let u = gather(J)(b, 1) × t; { a + u, b × t },
        x, y
      );
    }"""
    f = parse(text)
    loop = f.closures[0].value
    step = loop.args[1]
    assert [str(t) for t in step.type.results] == ["tensor<float, I[0:5]>", "tensor<float, J[0:3]>"]
    first, second = step.results
    assert {id(n) for n in postorder(first)} & {id(n) for n in postorder(second) if n.label == "t"}
    assert parse(str(f)) == f and str(parse(str(f))) == str(f)
    assert str(f).count("reduce") == 1


def test_what_closures_share_stands_in_front_of_them():
    text = """f(x: tensor<float, I[0:5]>, a: tensor<float, I[0:5]>, b: tensor<float, I[0:5]>, c: tensor<float>) {
  let t1 = exp(x);
  let square = λ(v: tensor<float, I[0:5]>) → v × v;
  a ← t1 + square(x);
  b ← t1 - square(t1);
  c ← let t2 = reduce(+, 0.0, I)(a); t2 × t2;
}"""
    f = parse(text)
    assert str(f) == text
    first, second, _ = f.closures
    assert {id(n) for n in postorder(first.value) if isinstance(n, nodes.Call) and n.op == "exp"} == {
        id(n) for n in postorder(second.value) if isinstance(n, nodes.Call) and n.op == "exp"
    }
    check(f)


def test_what_is_stored_into_ends_what_was_bound():
    text = """f(x: tensor<float, I[0:5]>, a: tensor<float, I[0:5]>, b: tensor<float, I[0:5]>) {
  let t1 = exp(a);
  let t2 = exp(x);
  a ← t1 + t2;
  let t1 = sin(a);
  b ← t1 × t2;
  x ← t1 - t2;
}"""
    f = parse(text)
    # what the first closure shares with the others would read another `x` behind the last
    assert str(f).count("exp(x)") == 2
    check(f)
