"""Builtins in terms of others: what a sum of products is, for whatever knows nothing better of it.

The oracle, the analyses and the lowering evaluate the definition of a call where they have no rule for its builtin.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorir.build import call, function, literal, operator, reduce
from tensorir.ir import Call, Expr, Lambda, Var
from tensorir.types import Dims, Scalar, TensorType

__all__ = ["DEFINITIONS", "definition"]


def definition(node: Call) -> Lambda:
    """The function of a call's operands that the call is.

    >>> from tensorir.build import call, var
    >>> from tensorir.types import FLOAT64, tensor
    >>> a, b = var("a", tensor("float", I=(0, 2), K=(0, 3))), var("b", tensor("float", K=(0, 3)))
    >>> print(definition(call("contract", a, b, static=(FLOAT64, ("K",)))).body)
    reduce(+, 0.0, K)(x × y)
    """
    params = tuple(Var("xyz"[k] if len(node.args) <= 3 else f"x_{k}", a.tensor) for k, a in enumerate(node.args))
    return Lambda(params, (DEFINITIONS[node.op](node, *params),), node.span)


def contract(node: Call, x: Expr, y: Expr) -> Expr:
    """Folds of the products in ascending order, the last of the dims first."""
    element: Scalar = node.static.element
    factors = [f if f.tensor.element == element else call("cast", f, static=(element,)) for f in (x, y)]
    total = call("multiplies", *factors)
    for dim in reversed(node.static.dims):
        state = TensorType(element, total.tensor.dims.without(dim))
        total = reduce(operator("plus", state, state), literal(0, element), total, dim=dim, span=node.span)
    return total


def top_k(node: Call, *operands: Expr) -> Expr:
    """The first points of the operands sorted."""
    dim, _, keys, descending = node.static
    ordered = call("sort", *operands, static=(dim, keys, descending), span=node.span)
    return call("subset", ordered, static=(Dims(((dim, node.tensor.dims[dim]),)),), span=node.span)


def argreduce(node: Call, value: Expr, index: Expr, x: Expr, places: Expr) -> Expr:
    """A fold of pairs, which compares each element with what was found before."""
    dim, largest, ties, replaced = node.static
    state = Var("s", TensorType(node.tensor.element, node.tensor.dims))
    a, k = (Var(name, t.tensor.on(t.tensor.dims.without(dim))) for name, t in (("a", x), ("k", places)))
    before, at = (call("tuple_get", state, static=(m,)) for m in (0, 1))
    better, no_better = ("greater", "less_equal") if largest else ("less", "greater_equal")
    taken = call("not", call(no_better, a, before)) if replaced else call(better, a, before)
    match ties:
        case "new":
            taken = call("or", taken, call("eq", a, before))
        case "least" | "greatest":
            closer = call("less" if ties == "least" else "greater", k, at)
            taken = call("or", taken, call("and", call("eq", a, before), closer))
        case _:
            pass
    pair = call("make_tuple", call("if", taken, a, before), call("if", taken, k, at))
    return reduce(function([state, a, k], pair), call("make_tuple", value, index), x, places, dim=dim, span=node.span)


DEFINITIONS: dict[str, Callable[..., Expr]] = {"contract": contract, "top_k": top_k, "argreduce": argreduce}
"""The definition of every builtin whose row says that it has one."""
