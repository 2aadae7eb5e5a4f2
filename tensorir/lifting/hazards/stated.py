"""What a nest states of itself: that threads come to a barrier together, that a divisor is not zero.

What no data decide is settled before anything runs: an iteration in which it does not hold is told, and what always
holds is left out. Of the rest each kind says whether the program checks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tensorir.ir.types import BOOL
from tensorir.lifting.accesses.sets import condition_text, domain, integer_set, point
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.nest import Check, Leaf, Loop, Node, While, ranges_of
from tensorir.lifting.nests.terms import Op, loads
from tensorir.runtime.errors import NOWHERE, Diagnostic

__all__ = ["failing", "left_to_data", "undefined_by_data"]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a statement is told that does not hold, and what checks it where data decide."""

    help: str
    checked: Literal["always", "asked", "never"] = "always"
    """In every program that checks, in one that is asked for what a source leaves undefined, or in none."""
    proven: bool = True
    """Whether it is an error before anything runs."""
    note: str = "in the iteration {}."


_KINDS: Mapping[str, _Kind] = {
    "TL10": _Kind("guard the access, or correct the loop's bounds."),
    "TL13": _Kind(
        "move the barrier out of the condition.",
        note="{} and the first thread of its block do not both come to it.",
    ),
    "TL14": _Kind("give it a divisor that is not zero, or guard it.", "asked"),
    "TL15": _Kind("bind another value, or guard the block by T.where.", "never"),
    "TL16": _Kind("", "asked", proven=False),
}
"""By code."""


def failing(nodes: Sequence[Node], loops: tuple[Loop, ...] = ()) -> list[Diagnostic]:
    """The first statement that is proven not to hold, with an iteration; whether a while does anything, data say."""
    for node in nodes:
        match node:
            case Loop(body=body):
                told = failing(body, (*loops, node))
            case Check(code=str(code)) if code and _KINDS[code].proven:
                told = _proven(Leaf(node, loops, ()), _KINDS[code])
            case _:
                continue
        if told:
            return told
    return []


def _proven(leaf: Leaf, kind: _Kind) -> list[Diagnostic]:
    assert isinstance(leaf.node, Check)
    found, sure = _where_not(leaf)
    if not sure or found.is_empty():
        return []
    at = dict(zip(leaf.names, point(found), strict=True))
    iteration = ", ".join(f"{loop.title or loop.name} = {at[loop.name]}" for loop in leaf.loops)
    note = kind.note.format(iteration) if iteration else "in the only iteration."
    return [Diagnostic(leaf.node.code, leaf.node.message, leaf.span, (note,), kind.help)]


def left_to_data(
    nodes: Sequence[Node], told: bool, undefined: bool, loops: tuple[Loop, ...] = (), inside: bool = False
) -> tuple[Node, ...]:
    """The nodes without statements of which it is known whether they hold, or which nobody checks.

    `told`: whether any is; `undefined`: whether a program is asked for what its source leaves undefined. `inside` of a
    while data say whether anything is done at all.
    """
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                around = (*loops, node) if isinstance(node, Loop) else loops
                inner = left_to_data(body, told, undefined, around, inside or isinstance(node, While))
                same = len(inner) == len(body) and all(x is y for x, y in zip(inner, body, strict=True))
                if inner or isinstance(node, While):
                    found.append(node if same else replace(node, body=inner))
            case Check(code=str(code)) if code:
                kind = _KINDS[code]
                wanted = (told and kind.checked == "always") or (undefined and kind.checked == "asked")
                if wanted and not _is_settled(Leaf(node, loops, ()), kind, inside):
                    found.append(node)
            case _:
                found.append(node)
    return tuple(found)


def undefined_by_data(nodes: Sequence[Node], inside: bool = False) -> Iterator[str]:
    """What a report says of values that a source leaves undefined if data ask for them, as those `inside` of whiles."""
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                yield from undefined_by_data(body, inside or isinstance(node, While))
            case Check(code=str(code)) if (
                code and _KINDS[code].checked == "asked" and (inside or loads(node.condition))
            ):
                line = f"line {node.span.line}: " if node.span is not NOWHERE else ""
                what = node.message.removesuffix(".")
                yield f"{line}{what} where data ask for it: the result is 0, and `checked` says so."
            case _:
                pass


def _is_settled(leaf: Leaf, kind: _Kind, inside: bool) -> bool:
    """Whether it is known of a statement that it holds, or that it does not and is told."""
    found, sure = _where_not(leaf)
    return (sure and not inside and kind.proven) or bool(found.is_empty())


def _where_not(leaf: Leaf) -> tuple[Any, bool]:
    """The iterations in which a statement does not hold, and whether that is so in each of them, whatever data say."""
    assert isinstance(leaf.node, Check)
    ranges = ranges_of(leaf.loops)
    whole = domain(leaf, ranges, (), "")
    condition = condition_text(settled(Op("not", (leaf.node.condition,), BOOL), ranges), whole.names)
    constraints = [*whole.constraints, *([] if condition is None else [condition])]
    return integer_set(leaf.names, constraints), whole.exact and condition is not None
