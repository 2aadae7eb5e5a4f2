"""The table of builtins: each row has all that a builtin needs, and a new row is all that a new one needs."""

from lowering.lower import RULES as LOWERED
from lowering.rules.elementwise import SCALAR as LOWERED_SCALARS
from tensorir.analysis import absence, access_functions
from tensorir.ir.build import DEFINITIONS
from tensorir.ir.builtins import TABLE, Control
from tensorir.reference.rules import RULES
from tensorir.reference.scalars import SCALAR

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


def test_every_way_to_apply_functions_is_known_to_the_analyses():
    assert set(absence._CONTROL) == set(access_functions.RULES) == set(Control)
