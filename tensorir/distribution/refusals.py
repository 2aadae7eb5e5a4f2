"""The refusal of what the blocks of a dim cannot compute by themselves, before anything is exchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorir.distribution.partition import Part, subdomains_of
from tensorir.integers.dims import Interval
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Call, Expr, Folding, Lambda, Operator, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import Scalar, TensorType
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime.errors import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class Monoid:
    """A fold by an associative operation with an identity, so that parts of the axis can be folded separately.

    The state is combined by `op` with `each`, an expression of `params`; a fold of its only argument has `each` None.
    """

    op: str
    params: tuple[Var, ...]
    """What stands for the arguments in `each`; none where the only argument is folded as it is."""
    each: Expr | None


def monoid_of(node: Call) -> Monoid | None:
    """The monoid of a fold, from an operator or from a lambda `op(state, expression)` in either order; None for other
    functions.

    The swapped order needs a commutative operation, and the expression must not read the state.
    """
    f = node.args[0]
    match f:
        case Operator(op, (_, _)) if _is_monoid(op):
            return Monoid(op, (), None)
        case Lambda((state, *params), (Call(op, (Var() as a, each)),)) if _is_monoid(op) and a == state:
            pass
        case Lambda((state, *params), (Call(op, (each, Var() as a)),)) if _is_monoid(op) and a == state:
            if not TABLE[op].commutative:
                return None
        case _:
            return None
    return None if state in each.free else Monoid(op, tuple(params), each)


def _is_monoid(op: str) -> bool:
    return TABLE[op].associative and TABLE[op].identity is not None


def refuse_undistributable(results: Iterable[Expr], parts: Mapping[str, Part]) -> None:
    """Raises D04, with all reasons at once, if some expression cannot be computed block by block."""
    refusals: list[Diagnostic] = []
    nodes = list(postorder(*results))
    inner = {p for n in nodes if isinstance(n, Lambda) for p in n.params}
    for node in nodes:
        refusal = _two_of_a_mesh(node, parts) or (_why(node, parts, inner) if isinstance(node, Call) else None)
        if refusal:
            message, hint = refusal
            refusals.append(Diagnostic("D04", message, node.span, help=hint))
    if refusals:
        raise DiagnosticError(list(dict.fromkeys(refusals)))


def _two_of_a_mesh(node: Expr, parts: Mapping[str, Part]) -> tuple[str, str] | None:
    """The refusal (message, help) of a tensor over two dims of a mesh; None if it has at most one."""
    mesh_dims = [d for d in subdomains_of(parts) if isinstance(node.type, TensorType) and d in node.type.dims]
    if len(mesh_dims) < 2:
        return None
    message = f"a tensor has both {mesh_dims[0]} and {mesh_dims[1]}, which are parted along one axis."
    return message, "read one at the neighbours of the other, through a table."


def _through_table(node: Call, parts: Mapping[str, Part], lambda_params: set[Var]) -> tuple[str, str] | None:
    """The refusal (message, help) of a read through a neighbour table, None if it can be distributed.

    Refused are tables of dims in blocks, tables from a dim that is not distributed, computed tables, and reads of what
    depends on parameters of a lambda (`inner`).
    """
    table, mesh = node.args[0], subdomains_of(parts)
    _, source = neighbour_source(table.tensor)
    name = f"'{table.name}'" if isinstance(table, Var) else "this table"
    distributed_dims = [d for d in (*table.tensor.dims, source) if d in parts]
    if blocks := [d for d in distributed_dims if d not in mesh]:
        message = f"{name} tells neighbours along {blocks[0]}, which is distributed in blocks."
        return message, f"say which device has which point: ti.distribute(..., partition={{'{blocks[0]}': owners}})."
    if source not in mesh:
        return None
    if not any(d in mesh for d in table.tensor.dims):
        local_dim = next(iter(table.tensor.dims))
        message = f"{name} leads from {local_dim}, which lies whole on every device, to {source}, which is distributed."
        return message, f"distribute {local_dim} with it, along the same axis of the mesh."
    if not isinstance(table, Var) or table in lambda_params:
        message = f"this table is computed, and it leads to {source}, which is distributed."
        return message, "compute it before, and pass it as a parameter."
    if not lambda_params.isdisjoint(node.free):
        return f"a fold reads neighbours along {source} of what it is given, and {source} is distributed.", (
            "read the neighbours before it, and fold what was read."
        )
    return None


def _why(node: Call, parts: Mapping[str, Part], lambda_params: set[Var]) -> tuple[str, str] | None:
    """The refusal (message, help) of a call, None if it can be distributed.

    `lambda_params` are the parameters of all functions: a call that reads them is inside of a fold, loop or branch.
    """
    row, fold, static = TABLE[node.op], node.fold, node.static
    advice = "leave it on one device: distribute another dim."
    if row.table:
        return _through_table(node, parts, lambda_params)
    if row.control is Control.UPDATES:
        inside = [node, *(e for e in postorder(*node.args) if isinstance(e, Call))]
        dims = [d for e in inside for d in parts if any(d in t.dims for t in _types(e))]
        return (f"data say which points are written, and {dims[0]} is distributed.", advice) if dims else None
    if row.effect and not row.checks:
        return "what is printed is computed on every device.", "print results of the call instead."
    if fold is not None and fold.dim in parts:
        return _fold(node, fold, advice, is_nested=not lambda_params.isdisjoint(node.free))
    if node.op == "rename" and (renamed := [n for pair in static.pairs for n in pair if n in parts]):
        d = renamed[0]
        other = next(b if a == d else a for a, b in static.pairs if d in (a, b))
        message = f"a dim is renamed from {d}, or to it, and {d} is distributed."
        return message, f"distribute {other} with it, along the same axis of the mesh."
    for access in node.accesses or ():
        for d in access.offsets if access is not None else ():
            if d in subdomains_of(parts):
                message = f"this reads at an offset along {d}, whose points a partition deals out."
                return message, "read neighbours through a table."
            if d in parts and not lambda_params.isdisjoint(node.free):
                message = f"a fold, a loop or a branch reads neighbours along {d} of what it is given"
                return f"{message}, and {d} is distributed.", advice
    # sums of products are folds of blocks, and every device looks at conditions of its own points
    far = [] if row.linear or row.effect else [(d, a) for a in node.accesses or () if a for d in a.far if d in parts]
    for d, access in far:
        if d in access.entries:
            return f"data say which points along {d} are read, and {d} is distributed.", advice
        if isinstance(access.at.get(d), Interval):
            what = "finds an element among" if row.chooses else "compares"
            return f"'{node.op}' {what} all points along {d}, which is distributed.", advice
        keeps_dim = d in access.at and d in node.type.dims
        message = f"reads along {d} at no fixed offset, and {d}" if keeps_dim else f"makes other dims of {d}, which"
        return f"'{node.op}' {message} is distributed.", advice
    return None


def _fold(node: Call, fold: Folding, advice: str, is_nested: bool) -> tuple[str, str] | None:
    """The refusal (message, help) of a fold along a distributed dim: scans, nested folds and functions that are no
    monoid.

    None for a fold of scalars by a monoid.
    """
    d = fold.dim
    if fold.row.states:
        return f"a scan along {d} takes its points in order, and {d} is distributed.", advice
    if is_nested:
        return f"a fold inside of another, of a loop or of a branch is along {d}, which is distributed.", advice
    if isinstance(node.tensor.element, Scalar) and monoid_of(node) is not None:
        return None
    message = f"this fold takes the points along {d} in order, and {d} is distributed."
    return message, "fold by an operation that may be grouped, such as + or max."


def _types(node: Call) -> list[TensorType]:
    """The tensor types of a call, of its operands, and of the parameters and results of its functions."""
    return [t for t in (node.type, *(a.type for a in node.args)) if isinstance(t, TensorType)] + [
        t for a in node.args if isinstance(a, (Lambda, Operator)) for t in (*a.type.params, *a.type.results)
    ]
