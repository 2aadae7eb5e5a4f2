"""A row for each operator of Relax: its parameters and result, what it computes in NumPy, and as a tensor expression.

>>> row = ROWS["nn.relu"]
>>> row.operator.values, row.interpret is not None, row.lift is not None
(('data',), True, True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorir.relax.infer import RULES
from tensorir.relax.interpret.networks import MEANINGS
from tensorir.relax.lift.function import OPERATORS as LIFTED
from tensorir.relax.operators import OPERATORS, Operator
from tensorir.relax.rules_of_elements import Rule


@dataclass(frozen=True, slots=True)
class Row:
    """One operator; `interpret` and `lift` take the values of its arguments and its attributes by name.

    Without `interpret` the operator is a statement of the interpreter's own, or no library has it; without `lift` its
    shape follows from data, or it is a statement.
    """

    operator: Operator
    infer: Rule
    interpret: Callable[..., Any] | None
    lift: Callable[..., Any] | None


ROWS: dict[str, Row] = {
    name: Row(operator, RULES[operator.rule], MEANINGS.get(name), LIFTED.get(name))
    for name, operator in OPERATORS.items()
}
"""By the name behind `R.`, as TVM has it."""
