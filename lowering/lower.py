"""From a fencil to a function of arrays: one `lax` program, traced by whoever calls it.

Every builtin has a rule, in `elementwise`, `structure`, `indirect` or `folds`, and some calls a faster one in the table
of `raising`. `lower` walks the closures in order and puts what they give into the parameters; what is computed, where
and in which memory, is XLA's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax import lax

from lowering.context import Check, Chosen, Context, masks_of
from lowering.raising import NAMES, raised
from lowering.rules.elementwise import AS_WRITTEN, FINITE, FINITE_AS_WRITTEN, SCALAR, bitcast, convert
from lowering.rules.folds import FOLDS
from lowering.rules.indirect import INDIRECT
from lowering.rules.neighbours import MOST_REPEATED, Prepared, ReadsPerLoop, apart, reads_per_loop
from lowering.rules.structure import STRUCTURE, blocked, cond, is_in_place, updated
from lowering.tracing import op_by_op
from lowering.values import Dense, Leaf, Slots, Value, aligned, dense, elementwise
from tensorir.analysis.annotations import Annotations, in_place_updates
from tensorir.integers.dims import Dims
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator, Var
from tensorir.ir.rewrite import Applier, Bound, Rule, evaluate, postorder, values
from tensorir.ir.types import DTYPES, TensorType
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.reference.scalars import scalar
from tensorir.runtime.errors import Diagnostic
from tensorir.runtime.print_formatting import said


def _assert(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """The first operand, with a run-time check (R02) that the second is true where it is present."""
    x, (condition,) = values
    bad: Leaf = elementwise(lax.bitwise_not, [condition], node.args[1].tensor.dims)
    if masks := masks_of(values[1]):
        for mask in masks:
            bad = elementwise(lax.bitwise_and, [bad, mask], node.args[1].tensor.dims)
    bad = Dense(dense(bad).data, dense(bad).dims)
    message = node.static.text
    context.check(node, bad, bad, Diagnostic("R02", message or "an assertion fails.", node.span))
    return x


def _materialised(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """The operand in memory; op by op, everything is."""
    return values[0] if op_by_op() else _behind_barrier(values[0])


def _defined(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """A builtin lowered by its definition in terms of others."""
    assert node.definition is not None
    return context.apply(Bound(node.definition, {}), *values)


def _print(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """The first operand; prints the operands, formatted by the node's text, when the program runs."""
    text, kinds = node.static.text, [a.tensor for a in node.args]
    shown = [aligned(dense(leaf), k.dims) for k, value in zip(kinds, values, strict=True) for leaf in value]
    jax.debug.callback(lambda *arrays: print(said(text, list(map(str, arrays)))), *shown, ordered=context.ordered)
    return values[0]


RULES: dict[str, Callable[[Context, Call, Sequence[Any]], Value]] = {
    **STRUCTURE,
    **INDIRECT,
    **FOLDS,
    "assert_": _assert,
    "blocked": blocked,
    "cond": cond,
    "materialise": _materialised,
    "print": _print,
}
"""The rule of every builtin that is not elementwise; `elementwise.SCALAR` has the others."""


def _lowering_rule(context: Context) -> Rule[Value]:
    """The rule by which `evaluate` lowers nodes in a context: elementwise, by a rule of raising, by `RULES`, or by
    definition.
    """

    def rule(node: Expr, lowered: Sequence[Any], apply: Applier[Value]) -> Value:
        """The value of a node, of its operands' values and functions."""
        match node:
            case Literal(value, element):
                return (Dense(lax.full((), scalar(element, value), DTYPES[element]), Dims()),)
            case Operator(op):
                return (
                    _pointwise(op, _elementwise_function(context, op, node.type.result), lowered, node.type.result),
                )
            case Call("cast" | "bitcast"):
                return raised(context, node, lowered, _converted)
            case Call("multiplies"):
                return raised(context, node, lowered, _scalar)
            case Call(op) if op in SCALAR:
                return _scalar(context, node, lowered)
            case Call(op):
                return raised(context, node, lowered, RULES.get(op, _defined))
            case _:
                raise AssertionError(node)

    return rule


def _behind_barrier(value: Value) -> Value:
    """The value behind an optimization barrier: it is stored, and no reader computes it again."""
    data = [leaf.data for leaf in value if isinstance(leaf, Dense)]
    stored = iter(lax.optimization_barrier(data))
    return tuple(replace(leaf, data=next(stored)) if isinstance(leaf, Dense) else leaf for leaf in value)


def _converted(context: Context, node: Call, lowered: Sequence[Value]) -> Value:
    (element,) = node.static
    return (_pointwise(node.op, convert(element) if node.op == "cast" else bitcast(element), lowered, node.tensor),)


def _scalar(context: Context, node: Call, lowered: Sequence[Value]) -> Value:
    return (_pointwise(node.op, _elementwise_function(context, node.op, node.tensor, id(node)), lowered, node.tensor),)


def _elementwise_function(context: Context, op: str, kind: TensorType, node: int = 0) -> Callable[..., jax.Array]:
    """The function of an elementwise builtin for operands of type `kind`; `node` is the identity of the call.

    Without care for derivatives if the node's are finite, and rounded as written with `numerics="exact"` or if it leads
    to a whole number.
    """
    derivatives_are_finite = node in context.known.finite
    if op not in AS_WRITTEN or not kind.leaves[0].is_float or op_by_op():
        return (FINITE if derivatives_are_finite else SCALAR)[op]
    if context.exact or node in context.known.written:
        return (FINITE_AS_WRITTEN if derivatives_are_finite else AS_WRITTEN)[op]
    return (FINITE if derivatives_are_finite else SCALAR)[op]


def _pointwise(op: str, function: Callable[..., jax.Array], args: Sequence[Value], kind: TensorType) -> Leaf:
    return elementwise(function, [leaf for (leaf,) in args], kind.dims, guard=TABLE[op].slope != "bounded")


@dataclass(slots=True)
class Lowered:
    """The outcome of one trace: outputs by name, one array per leaf, and the run-time checks with their results."""

    outputs: dict[str, tuple[jax.Array, ...]]
    checks: list[Check]
    failures: list[jax.Array]
    fired: list[tuple[str, Call]]
    """The rules of the table that were used, and for which node."""
    chosen: list[Chosen]


def lower(
    fencil: Fencil, arrays: Mapping[str, Sequence[jax.Array]], prepared: Mapping[str, Prepared],
    annotations: Annotations, numerics: str = "fast", raising: frozenset[str] = NAMES, ordered: bool = True,
    platform: str = "cpu", without: frozenset[str] = frozenset(),
) -> Lowered:  # fmt: skip
    """The outputs of a fencil for arrays by parameter, one per leaf, axes in the order of the parameter's type.

    Parameters that need not be passed may be missing. Buffers that passes made are kept in memory. `prepared` tables
    need no array unless they are read as numbers. `annotations`: what analyses say of nodes. `raising`: names of the
    rules that may be used; `without`: names of choices that are switched off. `ordered`: prints come in order, which is
    impossible on several devices.
    Closures run in order. Values that they share are computed once, until an array that they read is written.
    """
    by_steps = op_by_op()
    exact, loose = by_steps or numerics == "exact", numerics == "loose"
    context, invariants = (
        Context(annotations, exact, loose, raising, ordered, platform, without),
        annotations.invariants,
    )
    context.applying = lambda inner: Applier(_lowering_rule(inner), invariants)
    env: dict[Var, Value] = {}
    for p in fencil.params:
        if p.name in prepared:
            table = _table(p, prepared[p.name], arrays.get(p.name))
            context.prepared[id(table)] = prepared[p.name]
            env[p] = (table,)
        elif p.name in arrays:
            # op by op, NumPy's own rules of conversion would hold for NumPy's arrays
            env[p] = tuple(Dense(jax.numpy.asarray(a), p.type.dims) for a in arrays[p.name])
    # what closures share is computed once, as long as nothing that it reads is written
    shared: dict[int, Any] = {}
    nodes = {id(e): e for e in postorder(*values(fencil.closures))} if len(fencil.closures) > 1 else {}
    unshared = in_place_updates(fencil) if platform == "cpu" else frozenset[int]()
    tables = [p for p in fencil.params if p.name in prepared]
    per_loop = ReadsPerLoop()
    if platform == "cpu" and not by_steps and tables:
        results = {id(c.value) for c in fencil.closures if c.value.tensor.dims == c.target.dims}
        chooses = lambda n, again: context.chooses("reads_per_loop", n, again <= MOST_REPEATED, again)
        per_loop = reads_per_loop(values(fencil.closures), results, tables, chooses)
    for k, closure in enumerate(fencil.closures):
        value: Value = ()
        for loop in per_loop.loops(closure.value):
            if id(loop) in shared:
                value = shared[id(loop)]
                continue
            value = evaluate(loop, env, _lowering_rule(context), shared, invariants)
            if id(loop) in per_loop.kept:
                value = shared[id(loop)] = _behind_barrier(value)
            if read := [key for key in shared if key in per_loop.anew]:
                for key in read:
                    del shared[key]
                context.gathered.clear()
                for p in tables:
                    table = apart(context.prepared[id(env[p][0])])
                    leaf = _table(p, table, arrays.get(p.name))
                    context.prepared[id(leaf)], env[p] = table, (leaf,)
        output_type, target_type = closure.output.type, closure.target
        in_place = is_in_place(context, closure.value, output_type.dims, target_type.dims, k in unshared)
        stored = _parameter_after(env.get(closure.output), value, output_type, target_type, in_place)
        env[closure.output] = (
            _behind_barrier(stored) if closure.output.name in fencil.buffers and not by_steps else stored
        )
        if len(fencil.closures) > 1:
            for key in [k for k in shared if closure.output in nodes[k].free]:
                del shared[key]
    outputs = {p.name: tuple(aligned(dense(leaf), p.type.dims) for leaf in env[p]) for p in fencil.results}
    return Lowered(
        outputs, context.checks, context.failures, list(context.fired.values()), list(context.chosen.values())
    )


def _table(param: Var, prepared: Prepared, arrays: Sequence[jax.Array] | None) -> Leaf:
    """A bound table as one leaf per slot, so that no column is sliced at run time."""
    tag, _ = neighbour_source(param.type)
    interval = param.type.dims[tag]
    destinations = param.type.dims.without(tag)
    assert arrays is not None
    (table,) = arrays
    axis = param.type.dims.names.index(tag)
    columns = tuple(Dense(lax.index_in_dim(table, k, axis, keepdims=False), destinations) for k in range(len(interval)))
    return Slots(tag, interval.start, columns)


def _parameter_after(
    old: Value | None, new: Value, output_type: TensorType, target_type: TensorType, in_place: bool
) -> Value:
    """The value of a parameter after a closure that writes `new` to the domain of `target_type`: dense, since it is one
    buffer.

    `old`: the value before; None if the parameter has none yet. `in_place`: by an update of the buffer.
    """
    stored: list[Leaf] = []
    for k, leaf in enumerate(new):
        piece = Dense(aligned(dense(leaf), target_type.dims), target_type.dims)
        if target_type.dims.items == output_type.dims.items:
            stored.append(piece)
        else:
            # a later closure writes every element before it is read
            blank = Dense(lax.full(output_type.dims.shape, 0, DTYPES[output_type.leaves[k]]), output_type.dims)
            old_leaf = dense(old[k]) if old is not None else blank
            stored.append(updated(old_leaf, piece, output_type.dims, target_type.dims, in_place))
    return tuple(stored)
