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
    """A fold by an associative operation, of what each slot gives: parts of it may be folded by themselves."""

    op: str
    params: tuple[Var, ...]
    """What stands for the arguments in `each`; none where the only argument is folded as it is."""
    each: Expr | None


def monoid_of(node: Call) -> Monoid | None:
    """The monoid of a fold that is done in parts; None where there is none."""
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
    """Raise D04 for each expression that the blocks of a dim cannot compute by themselves."""
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
    """The refusal of a tensor that has points of a mesh for each of its points."""
    some = [d for d in subdomains_of(parts) if isinstance(node.type, TensorType) and d in node.type.dims]
    if len(some) < 2:
        return None
    message = f"a tensor has both {some[0]} and {some[1]}, which are parted along one axis."
    return message, "read one at the neighbours of the other, through a table."


def _through_table(node: Call, parts: Mapping[str, Part], inner: set[Var]) -> tuple[str, str] | None:
    """The refusal of a read at neighbours."""
    table, mesh = node.args[0], subdomains_of(parts)
    _, source = neighbour_source(table.tensor)
    name = f"'{table.name}'" if isinstance(table, Var) else "this table"
    touched = [d for d in (*table.tensor.dims, source) if d in parts]
    if blocks := [d for d in touched if d not in mesh]:
        message = f"{name} tells neighbours along {blocks[0]}, which is distributed in blocks."
        return message, f"say which device has which point: ti.distribute(..., partition={{'{blocks[0]}': owners}})."
    if source not in mesh:
        return None
    if not any(d in mesh for d in table.tensor.dims):
        whole = next(iter(table.tensor.dims))
        message = f"{name} leads from {whole}, which lies whole on every device, to {source}, which is distributed."
        return message, f"distribute {whole} with it, along the same axis of the mesh."
    if not isinstance(table, Var) or table in inner:
        message = f"this table is computed, and it leads to {source}, which is distributed."
        return message, "compute it before, and pass it as a parameter."
    if not inner.isdisjoint(node.free):
        return f"a fold reads neighbours along {source} of what it is given, and {source} is distributed.", (
            "read the neighbours before it, and fold what was read."
        )
    return None


def _why(node: Call, parts: Mapping[str, Part], inner: set[Var]) -> tuple[str, str] | None:
    """The reason that a node cannot be distributed, and its help."""
    row, fold, static = TABLE[node.op], node.fold, node.static
    leave = "leave it on one device: distribute another dim."
    if row.table:
        return _through_table(node, parts, inner)
    if row.control is Control.UPDATES:
        inside = [node, *(e for e in postorder(*node.args) if isinstance(e, Call))]
        touched = [d for e in inside for d in parts if any(d in t.dims for t in _types(e))]
        return (f"data say which points are written, and {touched[0]} is distributed.", leave) if touched else None
    if row.effect and not row.checks:
        return "what is printed is computed on every device.", "print results of the call instead."
    if fold is not None and fold.dim in parts:
        return _fold(node, fold, leave, inside=not inner.isdisjoint(node.free))
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
            if d in parts and not inner.isdisjoint(node.free):
                message = f"a fold, a loop or a branch reads neighbours along {d} of what it is given"
                return f"{message}, and {d} is distributed.", leave
    # sums of products are folds of blocks, and every device looks at conditions of its own points
    far = [] if row.linear or row.effect else [(d, a) for a in node.accesses or () if a for d in a.far if d in parts]
    for d, access in far:
        if d in access.entries:
            return f"data say which points along {d} are read, and {d} is distributed.", leave
        if isinstance(access.at.get(d), Interval):
            what = "finds an element among" if row.chooses else "compares"
            return f"'{node.op}' {what} all points along {d}, which is distributed.", leave
        kept = d in access.at and d in node.type.dims
        message = f"reads along {d} at no fixed offset, and {d}" if kept else f"makes other dims of {d}, which"
        return f"'{node.op}' {message} is distributed.", leave
    return None


def _fold(node: Call, fold: Folding, leave: str, inside: bool) -> tuple[str, str] | None:
    """The refusal of a fold along a distributed dim."""
    d = fold.dim
    if fold.row.states:
        return f"a scan along {d} takes its points in order, and {d} is distributed.", leave
    if inside:
        return f"a fold inside of another, of a loop or of a branch is along {d}, which is distributed.", leave
    if isinstance(node.tensor.element, Scalar) and monoid_of(node) is not None:
        return None
    message = f"this fold takes the points along {d} in order, and {d} is distributed."
    return message, "fold by an operation that may be grouped, such as + or max."


def _types(node: Call) -> list[TensorType]:
    return [t for t in (node.type, *(a.type for a in node.args)) if isinstance(t, TensorType)] + [
        t for a in node.args if isinstance(a, (Lambda, Operator)) for t in (*a.type.params, *a.type.results)
    ]
