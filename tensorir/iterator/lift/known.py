"""What is known when a program is specialised: scalars that its sizes depend on, and the domains of its fields."""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorir.ir.types import DTYPES, Dims
from tensorir.iterator.lift.graph import Node, postorder
from tensorir.iterator.nodes import refused

__all__ = ["Known"]


def _quotient(a: Any, b: Any) -> Any:
    return a / b if isinstance(a, float) or isinstance(b, float) else int(a / b)


_RULES: dict[str, Callable[..., Any]] = {
    "plus": operator.add, "minus": operator.sub, "multiplies": operator.mul, "divides": _quotient,
    "floordiv": operator.floordiv, "mod": operator.mod, "rem": math.fmod, "power": operator.pow, "neg": operator.neg,
    "abs": abs, "min": min, "max": max, "eq": operator.eq, "not_eq": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "and": lambda a, b: a and b,
    "or": lambda a, b: a or b, "xor": lambda a, b: bool(a) != bool(b), "not": operator.not_,
    "if": lambda c, a, b: a if c else b, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor,
}  # fmt: skip


@dataclass(eq=False)
class Known:
    """Scalars and domains by the names of inputs; `used` are the scalars that a number was made of."""

    scalars: Mapping[str, Any]
    domains: Mapping[str, Dims]
    used: set[str] = field(default_factory=set[str])

    def number(self, x: Any) -> Any:
        """The number that a node without dims is; raises TI06 for one that only a run tells."""
        if not isinstance(x, Node):
            raise refused("TI06", "a number is needed here, and this is none.", help="use scalars of the program.")
        done: dict[int, Any] = {}
        for node in postorder((x,)):
            args = [done[id(a)] for a in node.args]
            match node.op:
                case "constant":
                    done[id(node)] = node.static[1]
                case "input" if self.scalars.get(node.static[0]) is not None:
                    self.used.add(node.static[0])
                    done[id(node)] = self.scalars[node.static[0]]
                case "cast":
                    done[id(node)] = DTYPES[node.element].type(args[0]).item()
                case op if op in _RULES:
                    done[id(node)] = _RULES[op](*args)
                case _:
                    message = "the sizes of a program cannot depend on what a field holds."
                    raise refused("TI06", message, help="pass the number as a scalar.")
        return done[id(x)]
