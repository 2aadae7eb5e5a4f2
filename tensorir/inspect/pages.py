"""What a notebook shows of a type, an expression, a program or a field.

>>> from tensorir.ir.types import Interval
>>> "[0:3]" in page_of(Interval(0, 3))
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.binding.arrays import Array, is_array
from tensorir.binding.bound import BoundProgram
from tensorir.inspect.listing import listing, plain_listing
from tensorir.inspect.page import Fold, Markup, coloured, joined, markup, page, pre, range_of
from tensorir.inspect.trees import bound_values, closure_tree, expression_tree, fencil_tree
from tensorir.ir.nodes import Closure, Fencil
from tensorir.ir.types import Dims, FunctionType, Interval, TensorType

__all__ = ["field_page", "operator_page", "page_of"]


def page_of(thing: Any) -> str:
    """The page of anything that a program is made of."""
    match thing:
        case Interval() | Dims() | TensorType() | FunctionType():
            return page(coloured(thing))
        case Closure():
            return page(closure_tree(thing))
        case BoundProgram():
            text, *tree = _program(thing.program)
            return page(text, bound_values(thing), *tree)
        case _ if isinstance(thing, Fencil) or hasattr(thing, "specialise"):
            return page(*_program(thing))
        case _:
            return page(expression_tree(thing))


def _program(program: Any) -> tuple[Markup | Fold, ...]:
    """The text of a program, and its tree where its types are known."""
    if isinstance(program, Fencil):
        return listing(program), fencil_tree(program)
    sizes = markup('<div class="where">for sizes <code>{}</code></div>', ", ".join(program.sizes))
    return (joined([plain_listing(str(program)), sizes]),)


def field_page(field: Any) -> str:
    """A field: its type, its range, and its numbers as NumPy abbreviates them."""
    from tensorir.ir.types import scalar_of

    data = field.data
    dtype = getattr(data, "dtype", None)
    element = None if dtype is None else scalar_of(dtype)
    if element is None:
        return page(markup("Field {} {}", type(data).__name__, coloured(field.dims)))
    head = markup('<span class="name">Field</span>{}', coloured(TensorType(element, field.dims)))
    values = _numbers(data)
    if values is None:
        return page(joined([head, markup(' <span class="where">{}</span>', "its numbers are not to be had here")]))
    return page(joined([head, range_of(values), pre(np.array2string(values, threshold=60, edgeitems=3))]))


def _numbers(data: Any) -> Array | None:
    """The numbers of an array, None while it is traced or after its memory was given away."""
    if not is_array(data) and not hasattr(data, "is_deleted"):
        return None
    try:
        return np.asarray(data)
    except Exception:  # a traced or deleted array raises errors of the library that it is of
        return None


def operator_page(operator: Any) -> str:
    """An operator: its signature, and the programs of the types that it was called with, the latest one unfolded."""
    head = markup('<span class="name">{}</span><code>{}</code>', operator.name, operator.signature)
    latest = [plan.fencil for plan in dict.fromkeys(operator.plans.values()[-4:])][::-1]
    if not latest:
        return page(head)
    earlier = [Fold(markup("{}", repr(f)), (Fold(listing(f)), fencil_tree(f)), open=False) for f in latest[1:]]
    return page(head, *_program(latest[0]), *earlier)
