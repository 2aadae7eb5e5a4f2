"""Typed makers: they check as they build, say what is wrong in words, and give nodes that print and parse back.

A maker takes typed parts and returns a typed whole. What a typing rule refuses is raised as a `DiagnosticError`, at
the span of the guilty operand where it has one.

>>> from tensorir.ir.types import tensor
>>> x = var("x", tensor("float", I=(0, 5)))
>>> cartesian_shift(x, "I", 1).type
tensor<float, I[-1:4]>
>>> call("plus", x, literal(1.0)).type
tensor<float, I[0:5]>
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import numpy as np

from tensorir.integers.dims import Dims
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Function, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, rename_bound, rewrite_all, values, with_values
from tensorir.ir.types import BOOL, DTYPES, FLOAT64, INT32, INT64, SCALARS, FunctionType, Scalar, TensorType
from tensorir.ir.typing_rules import reduced_dim, scanned_dim
from tensorir.runtime.errors import NOWHERE, DiagnosticError, Span, counted, did_you_mean, refuse

__all__ = [
    "DEFINITIONS", "apply", "call", "cartesian_shift", "closure", "coerced", "cut", "definition", "displaced", "fencil",
    "function", "literal", "operator", "reduce", "scan", "shift", "var", "with_unique_names",
]  # fmt: skip


def _located(make: Callable[[], Any], args: Sequence[Expr], span: Span) -> Any:
    """Makes a node; an error of its typing rule gets the span of the operand at fault, or `span` if it has none.

    Errors that have a place already are passed on.
    """
    try:
        return make()
    except DiagnosticError as error:
        diagnostic, *further = error.diagnostics
        if further or diagnostic.span is not NOWHERE:
            raise
        position = diagnostic.operand
        operand_span = args[position].span if position is not None and position < len(args) else NOWHERE
        where = span if operand_span is NOWHERE else operand_span
        raise refuse(diagnostic.code, diagnostic.message, diagnostic.help, at=where, notes=diagnostic.notes) from None


def literal(value: Any, element: Scalar | None = None, span: Span = NOWHERE) -> Literal:
    """A literal of an element type; by default float64 for Python floats, int32 for ints, bool for bools.

    Floats are rounded to the type. Raises S12 for an integer that the type cannot hold.

    >>> from tensorir.ir.types import FLOAT32
    >>> literal(0.1, FLOAT32).value
    0.10000000149011612
    """
    if element is None:
        defaults = {bool: BOOL, int: INT32, float: FLOAT64}
        element = defaults[type(value)]
    if element.is_integer:
        if int(value) not in element.range:
            limits = element.range
            wider_type = next((k for k in ("int64", "uint64") if int(value) in SCALARS[k].range), "float64")
            message = f"{int(value)} is not {'a' if element.kind == 'uint' else 'an'} {element}."
            hint = f"{element} holds {limits.start} to {limits.stop - 1}; write {wider_type}(...) for a wider one."
            raise refuse("S12", message, hint, at=span)
        return Literal(int(value), element, span)
    if element.is_float:
        with np.errstate(over="ignore"):
            return Literal(float(np.float64(value).astype(DTYPES[element])), element, span)
    return Literal(bool(value), element, span)


def var(name: str, type: TensorType, span: Span = NOWHERE) -> Var:
    """A variable: a parameter of a fencil or of a function."""
    return Var(name, type, span)


def function(params: Sequence[Var], *results: Expr, span: Span = NOWHERE) -> Lambda:
    """λ(params) → result, or λ(params) → {result, ...} of several."""
    return _located(lambda: Lambda(tuple(params), results, span), (), span)


def operator(op: str, *params: TensorType, span: Span = NOWHERE) -> Operator:
    """An elementwise builtin as a function of given types."""
    return _located(lambda: Operator(op, tuple(params), span), (), span)


def apply(function: Function, *args: Expr, span: Span = NOWHERE) -> Apply:
    """A function applied to arguments that cover its parameters' types."""
    return _located(lambda: Apply(function, args, span), args, span)


def call(op: str, *args: Expr, static: Sequence[Any] = (), span: Span = NOWHERE) -> Expr:
    """A builtin applied to operands; `static` are its other parameters in the order of its form.

    Raises N03 for an unknown builtin, T06 for a wrong number of operands.
    """
    builtin = TABLE.get(op)
    if builtin is None:
        raise refuse("N03", f"there is no builtin '{op}'.", did_you_mean(op, TABLE), at=span)
    if "xs" not in (operand_slots := [s for group in builtin.form for s in group]):
        arity = sum(s in ("x", "f") for s in operand_slots)
        if len(args) != arity:
            are = "is 1" if len(args) == 1 else f"are {len(args)}"
            message = f"'{op}' takes {counted(arity, 'operand')}, and there {are}."
            raise refuse("T06", message, builtin.doc.splitlines()[0], at=span)
    return _located(lambda: Call(op, args, tuple(static), span), args, span)


def cartesian_shift(x: Expr, dim: str, offset: int, span: Span = NOWHERE) -> Expr:
    """The operand read at p + offset along a dim; the operand itself if it does not have the dim."""
    if isinstance(x.type, TensorType) and dim not in x.type.dims:
        return x
    return call("cartesian_shift", x, static=(str(dim), offset), span=span)


def shift(x: Expr, *offsets: tuple[str, int] | tuple[Expr, int] | tuple[Expr], span: Span = NOWHERE) -> Expr:
    """A chain of shifts, each (dim, distance), (table, slot), or (table,) for all neighbours; the last one is applied
    first.

    `⟪V2E, 0, E2C, 1⟫(x)` is `⟪V2E, 0⟫(⟪E2C, 1⟫(x))`, as in iterator IR.
    """
    for offset in reversed(offsets):
        match offset:
            case (str() as dim, distance):
                x = cartesian_shift(x, dim, distance, span)
            case (table, slot):
                assert not isinstance(table, str)
                x = call("unstructured_shift", table, x, static=(slot,), span=span)
            case (table,):
                x = call("shift_init", table, x, span=span)
    return x


def reduce(f: Function, init: Expr, *args: Expr, dim: str | None = None, span: Span = NOWHERE) -> Expr:
    """A left fold along a dim, by default the neighbour dim with the highest counter."""
    if dim is None:
        types = [a.type for a in args if isinstance(a.type, TensorType)]
        dim = _located(lambda: reduced_dim(types), (), span)
    return call("reduce", f, init, *args, static=(dim,), span=span)


def scan(f: Function, forward: bool, init: Expr, *args: Expr, dim: str | None = None, span: Span = NOWHERE) -> Expr:
    """The states of a recurrence along a dim, from the first level if `forward`.

    The default dim is the one that arguments have and parameters of the function lack.
    """
    if dim is None:
        function_type = f.type
        assert isinstance(function_type, FunctionType)
        types = [a.type for a in args if isinstance(a.type, TensorType)]
        dim = _located(lambda: scanned_dim(function_type, types), (), span)
    return call("scan", f, init, *args, static=(forward, dim), span=span)


def closure(output: Var, value: Expr, region: Dims | None = None, span: Span = NOWHERE) -> Closure:
    """output ← value, or, with a region, output[region] ← value."""
    return Closure(output, value, region, span)


def fencil(
    name: str, params: Sequence[Var], closures: Iterable[Closure], span: Span = NOWHERE, buffers: Iterable[str] = ()
) -> Fencil:
    """A fencil with unique names: parameters of functions that repeat a name are renamed.

    `buffers` names parameters created by passes, which are no results. All diagnostics of names and outputs are raised
    at once.
    """
    closures = tuple(closures)
    unique = with_unique_names(values(closures), {p.name for p in params})
    return Fencil(name, tuple(params), with_values(closures, unique), span, frozenset(buffers))


def with_unique_names(expressions: Sequence[Expr], declared: Set[str]) -> tuple[Expr, ...]:
    """The expressions with parameters of functions renamed where they repeat a declared name, or that of another
    function.
    """
    names = [p.name for e in postorder(*expressions) if isinstance(e, Lambda) for p in e.params]
    used_names = {*declared, *names}
    if len(used_names) == len(declared) + len(names):
        return tuple(expressions)
    owner_of: dict[str, Lambda] = {}

    def uniquify(e: Expr) -> Expr | None:
        """The function with repeated parameter names replaced; None for other nodes. Records the owner of each name."""
        if not isinstance(e, Lambda):
            return None
        repeated = [p.name for p in e.params if p.name in declared or owner_of.get(p.name, e) is not e]
        result = rename_bound(e, {name: fresh(name, used_names) for name in repeated}) if repeated else e
        owner_of.update((p.name, result) for p in result.params)
        return result

    return rewrite_all(expressions, uniquify)


def free_name(name: str, taken: set[str]) -> str:
    """The name itself if it is not taken, or one like it; it is taken from now on.

    >>> free_name("x", {"y"}), free_name("x", {"x", "x_1"})
    ('x', 'x_2')
    """
    if name in taken:
        return fresh(name, taken)
    taken.add(name)
    return name


def fresh(name: str, taken: set[str]) -> str:
    """A name like the given one that is not taken; it is taken from now on.

    >>> fresh("x", {"x", "x_1"})
    'x_2'
    """
    k = 1
    while f"{name}_{k}" in taken:
        k += 1
    taken.add(f"{name}_{k}")
    return f"{name}_{k}"


def coerced(value: Expr, target: TensorType) -> Expr:
    """The value with exactly the dims of `target`: cut along wider dims, broadcast along missing ones.

    >>> from tensorir.ir.types import tensor
    >>> print(coerced(var("x", tensor("float", I=(0, 9))), tensor("float", I=(1, 5), J=(0, 2))))
    add_dim(J, 0, 2, subset(x, I[1:5]))
    """
    value = cut(value, target.dims)
    for name, interval in target.dims.items:
        if name not in value.tensor.dims:
            value = call("add_dim", value, static=(name, interval.start, interval.stop), span=value.span)
    return value


def cut(value: Expr, dims: Dims) -> Expr:
    """The value cut to the given intervals, along the dims that it has."""
    value_dims = value.tensor.dims
    cuts = tuple((n, i) for n, i in dims.items if n in value_dims and value_dims[n] != i)
    return call("subset", value, static=(Dims(cuts),), span=value.span) if cuts else value


def placed(node: Call, args: Sequence[Expr], dims: Dims) -> Expr:
    """A builtin with intervals in its static parameters (`subset`, `add_dim`), for a result on other `dims`.

    Other builtins are rebuilt on the new operands; an operand that has these dims already is returned.
    """
    builtin = TABLE[node.op]
    if builtin.placed is None:
        return rebuild(node, tuple(args))
    if len(args) == 1 and args[0].tensor.dims.items == dims.items:
        return args[0]
    return call(node.op, *args, static=builtin.placed(node.static, dims), span=node.span)


# Builtins in terms of others: what a sum of products is, for whatever knows nothing better of it.
#
# The oracle, the analyses and the lowering evaluate the definition of a call where they have no rule for its builtin.


def definition(node: Call) -> Lambda:
    """The definition of a builtin as a function of a call's operands (for builtins with `defined`).

    >>> from tensorir.ir.build import call, var
    >>> from tensorir.ir.types import FLOAT64, tensor
    >>> a, b = var("a", tensor("float", I=(0, 2), K=(0, 3))), var("b", tensor("float", K=(0, 3)))
    >>> print(definition(call("contract", a, b, static=(FLOAT64, ("K",)))).body)
    reduce(+, 0.0, K)(x × y)
    """
    params = tuple(Var("xyz"[k] if len(node.args) <= 3 else f"x_{k}", a.tensor) for k, a in enumerate(node.args))
    return Lambda(params, (DEFINITIONS[node.op](node, *params),), node.span)


def contract(contraction: Call, x: Expr, y: Expr) -> Expr:
    """`contract`: sums of the products, over the last dim first, in ascending order."""
    element: Scalar = contraction.static.element
    factors = [f if f.tensor.element == element else call("cast", f, static=(element,)) for f in (x, y)]
    folded = call("multiplies", *factors)
    for dim in reversed(contraction.static.dims):
        state = TensorType(element, folded.tensor.dims.without(dim))
        folded = reduce(operator("plus", state, state), literal(0, element), folded, dim=dim, span=contraction.span)
    return folded


def top_k(node: Call, *operands: Expr) -> Expr:
    """`top_k`: a prefix of the operands sorted."""
    dim, _, keys, descending = node.static
    ordered = call("sort", *operands, static=(dim, keys, descending), span=node.span)
    return call("subset", ordered, static=(Dims(((dim, node.tensor.dims[dim]),)),), span=node.span)


def argreduce(node: Call, value: Expr, index: Expr, x: Expr, places: Expr) -> Expr:
    """`argreduce`: a fold over (value, index) pairs, with the rules for ties and NaN in its static parameters."""
    dim, largest, ties, replaced = node.static
    state = Var("s", TensorType(node.tensor.element, node.tensor.dims))
    a, k = (Var(name, t.tensor.on(t.tensor.dims.without(dim))) for name, t in (("a", x), ("k", places)))
    before, at = (call("tuple_get", state, static=(m,)) for m in (0, 1))
    is_better, not_better = ("greater", "less_equal") if largest else ("less", "greater_equal")
    replaces = call("not", call(not_better, a, before)) if replaced else call(is_better, a, before)
    match ties:
        case "new":
            replaces = call("or", replaces, call("eq", a, before))
        case "least" | "greatest":
            prefers_new = call("less" if ties == "least" else "greater", k, at)
            replaces = call("or", replaces, call("and", call("eq", a, before), prefers_new))
        case _:
            pass
    pair = call("make_tuple", call("if", replaces, a, before), call("if", replaces, k, at))
    return reduce(function([state, a, k], pair), call("make_tuple", value, index), x, places, dim=dim, span=node.span)


DEFINITIONS: dict[str, Callable[..., Expr]] = {"contract": contract, "top_k": top_k, "argreduce": argreduce}
"""The definition of every builtin whose row says that it has one."""

FAR = 1 << 62
"""A distance that leads outside of every tensor, from wherever."""


def displaced(a: Expr, b: Expr) -> Expr:
    """The sum of a position (int32) and a distance of any integer type, in either order, in a type that holds it.

    >>> from tensorir.ir.types import tensor
    >>> here = var("here", tensor("int", I=(0, 300)))
    >>> print(displaced(here, var("by", tensor("int8", I=(0, 300)))))
    here + cast(by, int)
    """
    elements = [x.tensor.element for x in (a, b)]
    narrow = all(e == INT32 or (isinstance(e, Scalar) and e.bits < 32) for e in elements)
    return call("plus", *(_as(x, INT32 if narrow else INT64) for x in (a, b)))


def _as(x: Expr, target: Scalar) -> Expr:
    """An integer converted to int32 or int64; 64-bit values are first clamped to ±FAR, so that sums cannot wrap."""
    element = x.tensor.element
    assert isinstance(element, Scalar)
    if element.bits == 64:
        x = call("min", x, literal(FAR, element))
        x = call("max", x, literal(-FAR, element)) if element == INT64 else x
    return x if element == target else call("cast", x, static=(target,))
