"""Where a program says what an element of a result is: the smallest expression that gave it, at an input.

>>> import numpy as np
>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<int, I[0:4]>, x: tensor<int, I[0:4]>) { y ← if pos(I, x) < 2 then x else -x; }")
>>> place(f, 0, (3,), {"x": np.zeros(4, np.int32)})
"'-x' at <text>:1:86"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorir import reference
from tensorir.ir.build import closure, fencil, var
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal
from tensorir.ir.types import Dims, Interval
from tensorir.lifting.emission.tensors import cut
from tensorir.runtime.errors import NOWHERE, Span

__all__ = ["place", "shown"]

LONGEST = 60
"""Characters of a source that are shown."""


def place(f: Fencil, result: int, at: Sequence[int], given: Mapping[str, Any]) -> str:
    """The text and the place of what gave an element, its coordinates counted from 0; empty where no text did."""
    output = f.results[result]
    here = {d: i.start + k for (d, i), k in zip(output.type.dims.items, at, strict=True)}
    for k, c in reversed(list(enumerate(f.closures))):
        if c.output == output and (c.region is None or _inside(here, c.region)):

            def holds(condition: Expr, where: Mapping[str, int], before: Sequence[Closure] = f.closures[:k]) -> bool:
                return _holds(f, before, condition, where, given)

            found = _leading(c.value, here, holds)
            return shown(c.span if found is None else found.span)
    return ""


def _holds(
    f: Fencil, before: Sequence[Closure], condition: Expr, where: Mapping[str, int], given: Mapping[str, Any]
) -> bool:
    # at one point: the interpreter takes seconds for a million of them
    condition = cut(condition, {d: Interval(where[d], where[d] + 1) for d in condition.tensor.dims})
    told = var("the condition", condition.tensor)
    read = condition.free.union(*(c.value.free | {c.output} for c in before))
    params = [p for p in f.params if p in read]
    asked = fencil(f.name, [*params, told], [*before, closure(told, condition)])
    needed = {p.name for p in asked.inputs}
    found = reference.run(asked, **{n: np.array(a) for n, a in given.items() if n in needed})[told.name]
    return bool(np.asarray(found).item())


def _inside(here: Mapping[str, int], box: Dims) -> bool:
    return all(here[d] in i for d, i in box.items)


def _leading(e: Expr, here: dict[str, int], holds: Callable[[Expr, Mapping[str, int]], bool]) -> Expr | None:
    """The last expression with a place of its own that an element of another one is an element of."""
    placed: Expr | None = None
    while isinstance(e, Call):
        placed = placed if e.span is NOWHERE else e
        match e:
            case Call("if", (condition, first, second)):
                e = first if holds(condition, here) else second
            case Call("subset" | "add_dim" | "materialise", (x, *_)):
                e = x
            case Call("cartesian_shift", (x,), (dim, offset)):
                here = {d: k + int(offset) if d == dim else k for d, k in here.items()}
                e = x
            case Call("rename", (x,), (pairs,)):
                old = {new: n for n, new in pairs}
                here = {old.get(d, d): k for d, k in here.items()}
                e = x
            case Call("concat", parts):
                e = next(p for p in parts if _inside(here, p.tensor.dims))
            case Call("update", (x, part)):
                e = part if _inside(here, part.tensor.dims) else x
            case _:
                return placed
    return e if isinstance(e, Literal) else placed


def shown(span: Span) -> str:
    """The text and the place of a part of a source."""
    if span is NOWHERE:
        return ""
    text = " ".join(span.text.split())
    return f"'{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}' at {span}"
