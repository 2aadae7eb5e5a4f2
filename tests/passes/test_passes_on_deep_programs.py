"""Passes and the analysis of domains on deep and on heavily shared programs."""

import pytest

from tensorir.analysis.domains import domains
from tensorir.ir.build import apply, call, cartesian_shift, closure, fencil, function, literal, var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import tensor
from tensorir.passes import PASSES

X = var("x", tensor("float", I=(0, 9)))


def program(value):
    out = var("out", value.type)
    return fencil("deep", [out, X], [closure(out, value)])


def deep(depth):
    value = X
    for _ in range(depth):
        value = call("plus", value, literal(1.0))
    return program(value)


def shared(depth):
    value = X
    for _ in range(depth):
        value = call("plus", value, value)
    return program(value)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_survives_depth(name):
    PASSES[name]()(deep(3_000))


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_linear_in_distinct_nodes(name):
    after = PASSES[name]()(shared(60))
    assert sum(1 for c in after.closures for _ in postorder(c.value)) <= 5 * 61


def test_functions_applied_inside_of_functions_are_inlined_at_any_depth():
    value = X
    for k in range(2_000):
        v = var(f"v{k}", X.type)
        value = apply(function([v], call("plus", v, literal(1.0))), value)
    assert "λ" not in str(PASSES["inline"]()(program(value)))


def test_domains_of_deep_and_shared_programs():
    assert len(domains(deep(3_000)).params["x"]) == 9
    assert len(domains(shared(60)).params["x"]) == 9


def test_a_row_of_shifts_needs_as_much_more():
    value = X
    for _ in range(4):
        value = call("plus", cartesian_shift(value, "I", 1), value)
    assert str(domains(program(value)).params["x"]) == "I[0:9]"
