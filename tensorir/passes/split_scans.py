"""What a scan's step computes of its operands alone is computed before it, where fewer arrays result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorir.analysis.cost import bytes_of
from tensorir.analysis.uses import surface
from tensorir.ir.build import call, cut, fresh, function, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Var
from tensorir.ir.rewrite import binders, rebuild, substitute
from tensorir.ir.types import Dims
from tensorir.passes.base import Pass, rewritten
from tensorir.passes.decisions import Threshold

__all__ = ["SplitScans", "computes_points"]


@dataclass(frozen=True)
class SplitScans(Pass):
    """What a scan's step computes of its operands alone is computed before it, where fewer bytes are moved so.

    A backend lays the scanned dim outermost: operands that lie otherwise, or are parts of arrays, are copied, each
    one. Operands that are used only together become their results, which are computed while they are copied.

    >>> from tensorir.passes.show import show
    >>> show(SplitScans(), '''scan(λ(s: tensor<float, I[0:5]>, a: tensor<float, I[0:5]>, b: tensor<float, I[0:5]>) →
    ...   a × b + s, true, 0.0)(x, y)''', x={"I": (0, 5), "K": (0, 9)}, y={"I": (0, 5), "K": (0, 9)})
    scan(λ(s: tensor<float, I[0:5]>, of: tensor<float, I[0:5]>) → of + s, true, 0.0)(x × y)
    """

    def run(self, fencil: Fencil) -> Fencil:
        taken = {p.name for p in binders(fencil)}
        return rewritten(fencil, lambda e: _split(e, taken))

    makes = "scan"

    def reason(self) -> str:
        return "operands of a scan that are copied anyway are combined on the way"

    def thresholds(self) -> tuple[Threshold, ...]:
        return (Threshold("copied", 0, "bytes of operands copied in vain, more than", "docs/lowering.md, Scans"),)


def computes_points(node: Expr) -> bool:
    """Whether a node computes each point from its operands at that point, and does nothing else."""
    if not isinstance(node, Call):
        return False
    row = TABLE[node.op]
    return (row.elementwise or node.op in ("tuple_get", "make_tuple")) and not row.effect and not row.checks


@dataclass(slots=True)
class _Group:
    """Operands that are copied and used together: what the rest of the step reads of them."""

    operands: list[Var] = field(default_factory=list[Var])
    read: list[Expr] = field(default_factory=list[Expr])

    @property
    def saved(self) -> int:
        """The bytes per level that need not be copied where the calls among what is read are computed before."""
        return sum(bytes_of(p.type) for p in self.operands) - sum(bytes_of(n.tensor) for n in self.read)


def _split(node: Expr, taken: set[str]) -> Expr | None:
    match node:
        case Call("scan", (Lambda((state, *params), (body,)), init, *args), (_, dim)):
            pass
        case _:
            return None
    given = dict(zip(params, args, strict=True))
    levels = ((dim, node.tensor.dims[dim]),)
    order = surface(body)
    groups = _groups(order, state, [p for p, a in given.items() if _copied(a, dim)])
    stands: dict[int, Expr] = {}
    values: list[tuple[Var, Expr]] = []
    for n in (n for g in groups if g.saved > 0 for n in g.read if isinstance(n, Call)):
        new = var(_name(taken), n.tensor)
        whole = {p: cut(a, Dims((*p.type.dims.items, *levels))) for p, a in given.items() if p in n.free}
        stands[id(n)] = new
        values.append((new, substitute(n, whole)))
    if not values:
        return None
    done: dict[int, Expr] = {}
    for n in order:
        done[id(n)] = stands.get(id(n)) or rebuild(n, tuple(done.get(id(c), c) for c in n.children))
    smaller = done[id(body)]
    kept = [p for p in params if p in smaller.free]
    f = function([state, *kept, *(v for v, _ in values)], smaller)
    new_args = [*(given[p] for p in kept), *(x for _, x in values)]
    made = call("scan", f, init, *new_args, static=node.static, span=node.span)
    return made if made.type == node.type else None


def _name(taken: set[str]) -> str:
    if "of" in taken:
        return fresh("of", taken)
    taken.add("of")
    return "of"


def _copied(arg: Expr, dim: str) -> bool:
    """Whether an operand is copied to have its levels one after the other in memory of its own."""
    while isinstance(arg, Call) and arg.op in ("cartesian_shift", "tuple_get"):
        (arg,) = arg.args
    match arg:
        case Var():
            return dim in arg.tensor.dims and arg.tensor.dims.names[0] != dim
        case Call("scan", _, (_, scanned)):
            return scanned != dim
        case _:
            return dim in arg.tensor.dims


def _groups(order: Sequence[Expr], state: Var, copied: Sequence[Var]) -> list[_Group]:
    """What the rest of a step reads of its operands alone, those that share a copied operand in one group."""
    linked = set(copied)
    alone: set[int] = set()
    keys: dict[Expr, int] = {}
    above: dict[int, int] = {}

    def top(n: Expr) -> int:
        k = keys.setdefault(n, id(n)) if isinstance(n, Var) else id(n)
        while above.setdefault(k, k) != k:
            above[k] = above[above[k]]
            k = above[k]
        return k

    read: dict[int, Expr] = {}

    def reads(x: Expr) -> None:
        if isinstance(x, Lambda):
            for v in x.free & linked:
                read[keys.setdefault(v, id(v))] = v
        elif id(x) in alone and (isinstance(x, Call) or x in linked):
            read[keys.setdefault(x, id(x)) if isinstance(x, Var) else id(x)] = x

    for n in order:
        if isinstance(n, (Literal, Var)):
            alone |= {id(n)} if n != state else set()
        elif computes_points(n) and all(id(c) in alone for c in n.children):
            alone.add(id(n))
            for c in n.children:
                if isinstance(c, Call) or c in linked:
                    above[top(c)] = top(n)
        else:
            for c in n.children:
                reads(c)
    reads(order[-1])
    groups: dict[int, _Group] = {}
    for p in copied:
        groups.setdefault(top(p), _Group()).operands.append(p)
    for n in read.values():
        groups.setdefault(top(n), _Group()).read.append(n)
    return list(groups.values())
