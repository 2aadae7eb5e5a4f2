"""What a condition says is known where it holds, and nowhere else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder, values
from tensorir.passes import PropagateConditions
from tensorir.text import parse

HEAD = "f(x: tensor<float, I[0:5], J[0:3]>, y: tensor<float, I[0:5]>, n: tensor<int>, out: tensor<float, I[0:5]>)"
KNOWN = {
    "if y > 0.0 then (if y > 0.0 then y else 1.0) + 2.0 else y": "if y > 0.0 then y + 2.0 else y",
    "if y > 0.0 ∧ n > 2 then (if n > 2 then y else 1.0) else y": "if y > 0.0 ∧ n > 2 then y else y",
    "if ¬y > 0.0 then (if y > 0.0 then 1.0 else y × y) else y": "if ¬y > 0.0 then y × y else y",
    "if n > 2 then log(if n > 2 then y else 1.0) else y": "if n > 2 then log(y) else y",
    "if y > 0.0 then reduce(+, 1.0, J)(if y > 0.0 ∧ x > 1.0 then 2.0 × x else 0.0) else y": (
        "if y > 0.0 then reduce(+, 1.0, J)(if x > 1.0 then 2.0 × x else 0.0) else y"
    ),
    "if y > 0.0 then 2.0 × (if y > 0.0 then y else 1.0) else y": "if y > 0.0 then 2.0 × y else y",
}
UNKNOWN = {
    "a derivative that may be infinite": "if y > 0.0 then log(if y > 0.0 then y else 1.0) else y",
    "a factor that may be infinite": "if y > 0.0 then y × (if y > 0.0 then 1.0 / y else 1.0) else y",
    "a largest element that may be none": "if y > 0.0 then reduce(max, 0.0, J)(if y > 0.0 then x else 1.0) else y",
    "another point": "if ⟪I, 1⟫(y) > 0.0 then (if y > 0.0 then y else 1.0) else y",
    "a shift of it": "if subset(y, I[0:4]) > 0.0 then ⟪I, 1⟫(if y > 0.0 then y else 1.0) else subset(y, I[0:4])",
    "a fold over its dim": "reduce(+, 0.0, J)(if x > 1.0 then reduce(+, 0.0, J)(if x > 1.0 then x else 2.0) else 0.0)",
    "used where it does not hold": "let z = if y > 0.0 then y × y else 1.0; if y > 0.0 then z + 1.0 else z - 1.0",
}


def made(value: str) -> ti.Fencil:
    region = "[I[0:4]]" if "⟪" in value else ""
    return parse(f"{HEAD} {{ out{region} ← {value}; }}")


@pytest.mark.parametrize(("value", "wanted"), KNOWN.items())
def test_what_holds_is_known(value: str, wanted: str) -> None:
    assert PropagateConditions().run(made(value)) == made(wanted)


@pytest.mark.parametrize("value", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_does_not_is_not(value: str) -> None:
    assert PropagateConditions().run(made(value)) == made(value)


def test_what_is_used_elsewhere_stands_once() -> None:
    text = """f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
      out ← let z = loop(0, 3)(λ(k: tensor<int>, a: tensor<float, I[0:5]>) → true,
                               λ(k: tensor<int>, a: tensor<float, I[0:5]>) → if n > 2 then a × x else a, x);
            if n > 2 then z + 1.0 else z; }"""
    found = PropagateConditions().run(parse(text))
    loops = [e for e in postorder(*values(found.closures)) if isinstance(e, Call) and e.op == "loop"]
    assert len({id(e) for e in loops}) == 1


def test_a_guard_keeps_a_gradient_finite() -> None:
    text = f"{HEAD} {{ out ← {UNKNOWN['a derivative that may be infinite']}; }}"
    program = ti.compile(PropagateConditions().run(parse(text)))
    y = np.array([0.0, 1.0, -1.0, 2.0, 0.5])

    def total(y: jax.Array) -> jax.Array:
        return jnp.sum(program(x=np.zeros((5, 3)), y=y, n=np.int32(1))["out"])

    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.grad(total)(jnp.asarray(y)), [1.0, 1.0, 1.0, 0.5, 2.0])
