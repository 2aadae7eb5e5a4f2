"""Scans along one dim in one direction become one, with a tuple as its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorir.ir.build import call, coerced, fresh, function, var
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, rewrite, substitute, values, with_values
from tensorir.ir.types import TensorType, TupleElement
from tensorir.passes.base import Pass, remade
from tensorir.runtime.errors import DiagnosticError

__all__ = ["FuseScans"]


@dataclass(frozen=True)
class FuseScans(Pass):
    """Two scans over the same levels in the same direction, side by side or one feeding the other, become one.

    >>> from tensorir.passes.show import show
    >>> show(FuseScans(), '''scan(λ(s: tensor<float>, v: tensor<float>) → s + v, true, 0.0)(x)
    ...   × scan(λ(t: tensor<float>, w: tensor<float>) → t × w, true, 1.0)(x)''', x={"K": (0, 9)})
    let t1 =
      scan(
        λ(st: tensor<(float, float)>, v: tensor<float>, w: tensor<float>) → (st[0] + v, st[1] × w),
        true,
        (0.0, 1.0)
      )(x, x);
    t1[0] × t1[1]
    """

    def run(self, fencil: Fencil) -> Fencil:
        taken = {p.name for p in fencil.params}
        taken |= {p.name for n in postorder(*values(fencil.closures)) if isinstance(n, Lambda) for p in n.params}
        new: list[Expr] = []
        for value in values(fencil.closures):
            while (fused := _once(value, taken)) is not None:
                value = fused
            new.append(value)
        return remade(fencil, with_values(fencil.closures, new))


def _once(root: Expr, taken: set[str]) -> Expr | None:
    """The expression with one pair of scans fused."""
    before: dict[int, int] = {}
    scans: list[Call] = []
    inner = {p for n in postorder(root) if isinstance(n, Lambda) for p in n.params}
    for node in postorder(root):
        mask = 0
        for child in node.children:
            mask |= before[id(child)]
        if isinstance(node, Call) and node.op == "scan" and node.free.isdisjoint(inner):
            for k, other in enumerate(scans):
                direct = any(a is other for a in node.args[2:])
                rest = 0
                for a in node.args:
                    rest |= before[id(a)] if a is not other else _below(other, before)
                if rest >> k & 1 or not _alike(other, node):
                    continue
                fused = _fused(other, node, direct, taken)
                if fused is not None:
                    first, second = other, node
                    return _replaced(root, first, second, fused)
            mask |= 1 << len(scans)
            scans.append(node)
        before[id(node)] = mask
    return None


def _below(node: Call, before: dict[int, int]) -> int:
    mask = 0
    for child in node.children:
        mask |= before[id(child)]
    return mask


def _alike(a: Call, b: Call) -> bool:
    """The same levels in the same direction, states on the same dims, and functions of parameters."""
    return (
        a.static == b.static and a.tensor.dims == b.tensor.dims and all(isinstance(c.args[0], Lambda) for c in (a, b))
    )


def _fused(a: Call, b: Call, feeding: bool, taken: set[str]) -> Call | None:
    f, init_a, *args_a = a.args
    g, init_b, *args_b = b.args
    assert isinstance(f, Lambda) and isinstance(g, Lambda)
    (s, *of_a), (t, *of_b) = f.params, g.params
    if s.type.dims != t.type.dims:
        return None
    name = s.name + t.name if s.name + t.name not in taken else fresh("state", taken)
    taken.add(name)
    state = var(name, TensorType(TupleElement((s.type.element, t.type.element)), s.type.dims))
    first, second = (call("tuple_get", state, static=(k,)) for k in (0, 1))
    new_a = coerced(substitute(f.body, {s: first}), s.type)
    given: dict[Var, Expr] = {t: second}
    kept: list[tuple[Var, Expr]] = []
    for p, arg in zip(of_b, args_b, strict=True):
        if feeding and arg is a:
            given[p] = coerced(new_a, p.type)
        else:
            kept.append((p, arg))
    try:
        new_b = coerced(substitute(g.body, given), t.type)
        body = function([state, *of_a, *(p for p, _ in kept)], call("make_tuple", new_a, new_b))
        init = call("make_tuple", init_a, init_b)
        made = call("scan", body, init, *args_a, *(x for _, x in kept), static=a.static, span=b.span)
    except DiagnosticError:
        return None
    assert isinstance(made, Call)
    return made if made.tensor.dims == a.tensor.dims else None


def _replaced(root: Expr, a: Call, b: Call, fused: Call) -> Expr:
    stands = {0: call("tuple_get", fused, static=(0,)), 1: call("tuple_get", fused, static=(1,))}
    which: dict[Expr, Sequence[int]] = {a: (0,), b: (1,)}
    if a == b:
        which = {a: (0,)}
    return rewrite(root, lambda e: stands[which[e][0]] if e in which else None)
