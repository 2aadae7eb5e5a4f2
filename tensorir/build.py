"""Typed makers: they check as they build, say what is wrong in words, and give nodes that print and parse back.

A maker takes typed parts and returns a typed whole. What a typing rule refuses is raised as a `DiagnosticError`, at
the span of the guilty operand where it has one.

>>> from tensorir.types import tensor
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

from tensorir.builtins import TABLE
from tensorir.errors import Diagnostic, DiagnosticError, did_you_mean
from tensorir.ir import Apply, Call, Closure, Expr, Fencil, Function, Lambda, Literal, Operator, Var
from tensorir.source import NOWHERE, Span
from tensorir.types import (
    BOOL,
    DTYPES,
    FLOAT64,
    INT32,
    SCALARS,
    Complaint,
    Dims,
    FunctionType,
    Scalar,
    TensorType,
)
from tensorir.typing_rules import reduced_dim, scanned_dim
from tensorir.walk import postorder, rename_bound, rewrite_all, values, with_values

__all__ = [
    "apply",
    "call",
    "cartesian_shift",
    "closure",
    "fencil",
    "function",
    "literal",
    "operator",
    "reduce",
    "scan",
    "shift",
    "var",
    "with_unique_names",
]


def _located(make: Callable[[], Any], args: Sequence[Expr], span: Span) -> Any:
    """Make a node; a Complaint becomes a diagnostic at its operand, or at the whole."""
    try:
        return make()
    except Complaint as found:
        guilty = args[found.at].span if found.at is not None and found.at < len(args) else NOWHERE
        where = span if guilty is NOWHERE else guilty
        raise DiagnosticError(Diagnostic(found.code, found.message, where, tuple(found.notes), found.help)) from None


def literal(value: Any, element: Scalar | None = None, span: Span = NOWHERE) -> Literal:
    """A scalar of an element type: float64 for Python floats, int32 for ints, bool for bools, unless it is given.

    Raises S12 for a value that the type cannot hold.

    >>> from tensorir.types import FLOAT32
    >>> literal(0.1, FLOAT32).value
    0.10000000149011612
    """
    if element is None:
        kinds = {bool: BOOL, int: INT32, float: FLOAT64}
        element = kinds[type(value)]
    if element.is_integer:
        if int(value) not in element.range:
            limits = element.range
            wider = next((k for k in ("int64", "uint64") if int(value) in SCALARS[k].range), "float64")
            raise DiagnosticError(
                Diagnostic(
                    "S12",
                    f"{int(value)} is not {'a' if element.kind == 'uint' else 'an'} {element}.",
                    span,
                    help=f"{element} holds {limits.start} to {limits.stop - 1}; write {wider}(...) for a wider one.",
                )
            )
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
    """A builtin applied to operands; `static` are its other parameters, in the order of its form."""
    row = TABLE.get(op)
    if row is None:
        raise DiagnosticError(Diagnostic("N03", f"there is no builtin '{op}'.", span, help=did_you_mean(op, TABLE)))
    if "xs" not in (slots := [s for group in row.form for s in group]):
        arity = sum(s in ("x", "f") for s in slots)
        if len(args) != arity:
            raise DiagnosticError(
                Diagnostic(
                    "T06",
                    f"'{op}' takes {arity} operand{'s' * (arity != 1)}, and there {_are(len(args))}.",
                    span,
                    help=row.doc.splitlines()[0],
                )
            )
    return _located(lambda: Call(op, args, tuple(static), span), args, span)


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def cartesian_shift(x: Expr, dim: str, offset: int, span: Span = NOWHERE) -> Expr:
    """The value at p + offset; x itself where x lacks the dim."""
    if isinstance(x.type, TensorType) and dim not in x.type.dims:
        return x
    return call("cartesian_shift", x, static=(str(dim), offset), span=span)


def shift(x: Expr, *offsets: tuple[str, int] | tuple[Expr, int] | tuple[Expr], span: Span = NOWHERE) -> Expr:
    """The general shift: pairs (dim, distance) or (table, slot), or a table alone; the last one is applied first.

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
    """A left fold over a dim, by default the neighbour dim with the highest counter."""
    if dim is None:
        types = [a.type for a in args if isinstance(a.type, TensorType)]
        dim = _located(lambda: reduced_dim(types), (), span)
    return call("reduce", f, init, *args, static=(dim,), span=span)


def scan(f: Function, forward: bool, init: Expr, *args: Expr, dim: str | None = None, span: Span = NOWHERE) -> Expr:
    """The states of a recurrence along a dim, by default the one that arguments have and parameters lack."""
    if dim is None:
        kind = f.type
        assert isinstance(kind, FunctionType)
        types = [a.type for a in args if isinstance(a.type, TensorType)]
        dim = _located(lambda: scanned_dim(kind, types), (), span)
    return call("scan", f, init, *args, static=(forward, dim), span=span)


def closure(output: Var, value: Expr, region: Dims | None = None, span: Span = NOWHERE) -> Closure:
    """output ← value, or, with a region, output[region] ← value."""
    return Closure(output, value, region, span)


def fencil(
    name: str,
    params: Sequence[Var],
    closures: Iterable[Closure],
    span: Span = NOWHERE,
    buffers: Iterable[str] = (),
) -> Fencil:
    """A fencil whose names are unique: functions whose parameters repeat a name get fresh ones.

    `buffers` names the parameters that a pass made, which are no results. Raises every diagnostic of names and outputs
    at once.
    """
    closures = tuple(closures)
    unique = with_unique_names(values(closures), {p.name for p in params})
    return Fencil(name, tuple(params), with_values(closures, unique), span, frozenset(buffers))


def with_unique_names(expressions: Sequence[Expr], declared: Set[str]) -> tuple[Expr, ...]:
    """The expressions with fresh names for parameters of functions that repeat a declared name, or each other's."""
    names = [p.name for e in postorder(*expressions) if isinstance(e, Lambda) for p in e.params]
    taken = {*declared, *names}
    if len(taken) == len(declared) + len(names):
        return tuple(expressions)
    owner: dict[str, Lambda] = {}

    def uniquify(e: Expr) -> Expr | None:
        if not isinstance(e, Lambda):
            return None
        repeated = [p.name for p in e.params if p.name in declared or owner.get(p.name, e) is not e]
        result = rename_bound(e, {name: fresh(name, taken) for name in repeated}) if repeated else e
        owner.update((p.name, result) for p in result.params)
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
