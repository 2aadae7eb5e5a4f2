"""The table of raised forms: what it says, how rules are chosen, and what a compiled program says of them."""

from pathlib import Path

import numpy as np
import pytest

import tensorir as ti
from lowering.raising import RULES
from tensorir.ir.builtins import TABLE

NORM = "f(y: tensor<float, I[0:n]>, a: tensor<float, I[0:n], K[0:99]>) { y ← reduce(+, 0.0, K)(a × a); }"


def test_every_rule_has_a_name_of_its_own_a_builtin_and_a_sentence():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.op in TABLE for rule in RULES)
    assert [rule.name for rule in RULES if not rule.says.endswith(".")] == []


def test_every_rule_is_named_by_a_test():
    here = Path(__file__)
    paths = [p for p in here.parent.glob("test_raising_*.py") if p.name != here.name]
    tests = "".join(p.read_text(encoding="utf-8") for p in (*paths, here.parents[1] / "passes" / "test_pools.py"))
    assert [rule.name for rule in RULES if f'"{rule.name}"' not in tests] == []


def test_a_program_with_sizes_says_what_is_raised_at_them():
    program = ti.parse(NORM)
    assert ti.compile(program).raised(n=5) == (("contraction", "contract(float, K)(a, a)"),)
    with pytest.raises(ti.DiagnosticError, match="the size 'n' is not bound"):
        ti.compile(program).raised()


def test_rules_are_chosen_by_name():
    program = ti.parse(NORM)
    a = np.arange(3 * 99.0).reshape(3, 99)
    for chosen, used in ((("reduction",), "reduction"), ("contraction", "contraction"), ((), None)):
        compiled = ti.compile(program, raising=chosen)
        assert [row.rule for row in compiled.raised(n=3)] == ([used] if used else [])
        np.testing.assert_allclose(compiled(a=a)["y"], (a * a).sum(-1), rtol=1e-13)


def test_a_rule_that_is_not_there_is_refused():
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(NORM), raising=("contractoin",))
    assert str(refused.value) == "error[A21]: there is no rule 'contractoin'.\nhelp: did you mean 'contraction'?"


def test_sums_over_several_dims_are_told_once():
    program = ti.parse("""f(y: tensor<float>, a: tensor<float, I[0:20], K[0:40]>) {
      y ← reduce(+, 0.0, I)(reduce(+, 0.0, K)(a × a)); }""")
    assert [row.expression for row in ti.compile(program).raised()] == ["contract(float, I, K)(a, a)"]
