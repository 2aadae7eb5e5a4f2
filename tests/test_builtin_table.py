"""The table of builtins: each row has all that a builtin needs, and a new row is all that a new one needs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering.rules.elementwise
import tensorir as ti
from lowering.lower import RULES as LOWERED
from lowering.rules.elementwise import SCALAR as LOWERED_SCALARS
from tensorir.analysis import absence
from tensorir.analysis.domains import domains
from tensorir.ir import build, typing_rules
from tensorir.ir.build import DEFINITIONS, call
from tensorir.ir.builtins import TABLE, Builtin
from tensorir.ir.typing_of_elements import tensors_of
from tensorir.reference import scalars
from tensorir.reference.rules import RULES
from tensorir.reference.scalars import SCALAR
from tensorir.runtime.errors import DiagnosticError

# The table of builtins and the oracle's, row by row


def test_every_builtin_has_one_rule_in_the_oracle():
    assert set(SCALAR) | set(RULES) | set(DEFINITIONS) == set(TABLE)
    assert set(SCALAR) & set(RULES) == set()


def test_functions_of_scalars_belong_to_elementwise_builtins_and_conversions_and_choice_have_rules_of_their_own():
    elementwise = {name for name, row in TABLE.items() if row.elementwise}
    assert elementwise - set(SCALAR) == {"if", "cast", "bitcast"}
    assert set(SCALAR) <= elementwise


def test_every_builtin_says_what_it_means():
    assert [name for name, row in TABLE.items() if not row.doc.strip().endswith(".")] == []


def test_every_builtin_has_one_rule_in_the_lowering():
    of_their_own = {"cast", "bitcast"}
    assert set(LOWERED_SCALARS) | set(LOWERED) | set(DEFINITIONS) | of_their_own == set(TABLE)
    assert set(LOWERED_SCALARS) & set(LOWERED) == set()


def test_every_builtin_that_has_a_definition_says_so():
    assert {name for name, row in TABLE.items() if row.defined} == set(DEFINITIONS)


def test_a_record_of_static_parameters_has_a_field_for_every_slot():
    for row in TABLE.values():
        assert len(getattr(row.static, "_fields", ())) == len(row.static_slots), row.name


def test_what_is_known_before_a_run_has_a_rule_for_every_builtin_that_is_not_elementwise():
    elementwise = {name for name, row in TABLE.items() if row.elementwise or row.defined}
    assert (set(absence._RULES) | set(absence._FOLDS)) - {"if"} == set(TABLE) - elementwise


# The steps of CONTRIBUTING, walked for builtins that are made up here

TEXT = "f(y: tensor<float, I[1:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) { y ← ⟪I, 0⟫(%s); }"


@pytest.fixture
def hypot(monkeypatch):
    """Elementwise: its row, the rule of floats, its meaning for scalars, the function of arrays."""
    row = Builtin("hypot", "The length of (x, y).", typing_rules.floats, (("x", "x"),), elementwise=True, cost=8)
    monkeypatch.setitem(TABLE, "hypot", row)
    monkeypatch.setitem(scalars.SCALAR, "hypot", lambda kind, x, y: kind and np.hypot(x, y))
    for table in (lowering.rules.elementwise.SCALAR, lowering.rules.elementwise.FINITE):
        monkeypatch.setitem(table, "hypot", jnp.hypot)


@pytest.fixture
def lerp(monkeypatch):
    """Defined by others: its row, a rule, its definition, and nothing else."""

    def rule(static, args):
        return typing_rules.floats(static, tensors_of(args))

    row = Builtin("lerp", "Half way from x to y.", typing_rules.floats, (("x", "x"),), defined=True)
    monkeypatch.setitem(TABLE, "lerp", row)

    def halves(node, x, y):
        half = call("cast", ti.build.literal(0.5), static=(x.tensor.element,))
        return call("multiplies", call("plus", x, y), half)

    monkeypatch.setitem(build.DEFINITIONS, "lerp", halves)


A, B = np.array([3.0, 5.0, 8.0, 7.0]), np.array([4.0, 12.0, 15.0, 24.0])


def check(text, wanted, slope):
    f = ti.parse(text)
    assert ti.parse(str(f)) == f
    np.testing.assert_allclose(ti.reference.run(f, a=A, b=B)["y"], wanted)
    c = ti.compile(f)
    np.testing.assert_allclose(c(a=A, b=B)["y"], wanted)
    with jax.enable_x64(True):
        given = jax.grad(lambda a: c(a=a, b=jnp.asarray(B))["y"].sum())(jnp.asarray(A))
    np.testing.assert_allclose(given, [0.0, *slope])
    assert c.cost().operations > 0
    assert (
        ti.passes.Pipeline("inline, simplify, cse, fold_constants, temporaries, materialise, contractions")(f)
        is not None
    )
    assert len(set(domains(f.bind()).params["a"])) == 3


def test_an_elementwise_builtin_is_known_everywhere_by_its_row_its_meaning_and_its_lowering(hypot):
    check(TEXT % "hypot(a, b)", [13.0, 17.0, 25.0], [5 / 13, 8 / 17, 7 / 25])


def test_a_builtin_with_a_definition_needs_nothing_else(lerp):
    check(TEXT % "lerp(a, b)", [8.5, 11.5, 15.5], [0.5, 0.5, 0.5])


def test_what_was_made_up_is_gone_afterwards():
    with pytest.raises(DiagnosticError, match="hypot"):
        ti.parse(TEXT % "hypot(a, b)")
