"""Before and after of a pass, as the docstrings show it."""

from __future__ import annotations

from typing import Any

from tensorir.ir.build import closure, fencil, var
from tensorir.ir.types import TensorType, tensor
from tensorir.passes.base import Pass
from tensorir.text import parse, parse_expr

__all__ = ["show", "shown"]


def show(a_pass: Pass, text: str, **variables: Any) -> None:
    """Print what a pass makes of a program, or of an expression over variables of given types."""
    print(shown(a_pass, text, **variables))


def shown(a_pass: Pass, text: str, **variables: Any) -> str:
    """What a pass makes of a text. Variables are floats, on the intervals given, or of the type given.

    >>> from tensorir.passes.simplify import Simplify
    >>> shown(Simplify(), "x × 1.0", x={"I": (0, 5)})
    'x'
    """
    if not variables:
        return str(a_pass(parse(text)))
    kinds = {n: t if isinstance(t, TensorType) else tensor("float", t) for n, t in variables.items()}
    value = parse_expr(text, kinds)
    output = var("result", value.tensor)
    before = fencil("shown", [output, *(var(n, t) for n, t in kinds.items())], [closure(output, value)])
    return str(a_pass(before).closures[0].value)
