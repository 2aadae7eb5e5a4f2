"""What calls that take functions give, in any domain in which two values can be joined: scans, folds, loops, choices.

What is carried from step to step is a fixed point: what it begins as, joined with what a step makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import Applier

__all__ = ["of_functions"]

V = TypeVar("V")


def of_functions(
    node: Call, operands: Sequence[Any], apply: Applier[V], joined: Callable[[V, V], V], begun: Callable[[V], V],
    counter: V,
) -> V | None:  # fmt: skip
    """The value of a call whose function operands are applied; None for every other call.

    `joined` is a value that is the one or the other, `begun` what is carried before the first step, from what it is
    given, and `counter` the value of a loop's counter.
    """
    given: list[Any] = list(operands)
    result: int = node.static[0] if node.op in ("loop", "cond", "blocked") else 0
    match node.op:
        case "scan" | "reduce":
            f, init, *xs = given
            return _settled([begun(init)], lambda state: [apply(f, *state, *xs)], joined)[0]
        case "loop":
            condition, step, *carried = given
            found = _settled([begun(c) for c in carried], lambda state: apply.each(step, counter, *state), joined)
            apply(condition, counter, *found)
            return found[result]
        case "cond":
            f, g, _, *xs = given
            first, second = (apply.each(h, *xs)[result] for h in (f, g))
            return joined(first, second)
        case "blocked":
            f, *xs = given
            return apply.each(f, *xs)[result]
        case _:
            return None


def _settled(state: list[V], step: Callable[[list[V]], Sequence[V]], joined: Callable[[V, V], V]) -> list[V]:
    while True:
        further = [joined(a, b) for a, b in zip(state, step(state), strict=True)]
        if repr(further) == repr(state):  # of which NaN is NaN
            return state
        state = further
