"""Intermediate results in buffers of their own.

Four steps: a new parameter of the fencil; a new closure that stores the expression, with the
inputs of the original function; a new parameter of the original function in place of the expression; and parameters
that nobody uses any more go. The inverse is `inline`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.buffer_worth import Worth, work_of
from tensorir.analysis.uses import reads, surface
from tensorir.ir.build import apply, closure, fresh, function, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, rebuild
from tensorir.ir.types import TensorType
from tensorir.passes.base import Pass, remade
from tensorir.passes.prune import without_unused_parameters
from tensorir.passes.restrict import with_small_buffers
from tensorir.runtime.errors import DiagnosticError

__all__ = ["Temporaries"]


@dataclass(frozen=True)
class Temporaries(Pass):
    """Expressions that are read at more than one offset, or more than once and costly, are stored.

    `min_uses` is at how many places an expression must be read, `min_work` how many operations per point it must
    have, `costly` how many where all reads are at one offset, and `min_per_byte` how many operations a byte that is
    moved must save. `plan(fencil)` gives the figures (see `Worth`).

    >>> from tensorir.passes.show import show
    >>> show(Temporaries(), '''fencil(out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]>) {
    ...   out ← (λ(x: tensor<float, I[0:100]>) → ⟪I, 1⟫(cos(x)) + ⟪I, -1⟫(cos(x)))(inp) }''')
    fencil(out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]>, tmp: tensor<float, I[0:100]>) {
      tmp ← (λ(x: tensor<float, I[0:100]>) → cos(x))(inp);
      out ← (λ(y: tensor<float, I[0:100]>) → ⟪I, 1⟫(y) + ⟪I, -1⟫(y))(tmp);
    }
    """

    min_uses: int = 2
    min_work: float = 1.0
    costly: float = 8.0
    min_per_byte: float = 0.01

    def run(self, fencil: Fencil) -> Fencil:
        return self._stored(fencil)[0]

    def plan(self, fencil: Fencil) -> tuple[Worth, ...]:
        """The buffers that the pass makes, in the order of their closures, each with its figures."""
        return self._stored(fencil)[1]

    def _stored(self, fencil: Fencil) -> tuple[Fencil, tuple[Worth, ...]]:
        taken = {p.name for p in fencil.params}
        taken |= {
            p.name for c in fencil.closures for n in postorder(c.value) if isinstance(n, Lambda) for p in n.params
        }
        closures: list[Closure] = []
        buffers: list[Var] = []
        worths: list[Worth] = []
        for one in fencil.closures:
            made = _Storing(self, fencil, taken).closure(one)
            closures += made.closures
            buffers += made.buffers
            worths += made.worths
        if not buffers:
            return fencil, ()
        names = fencil.buffers | {b.name for b in buffers}
        stored = dataclasses.replace(remade(fencil, tuple(closures), (*fencil.params, *buffers)), buffers=names)
        small = with_small_buffers(stored)
        return small, tuple(dataclasses.replace(w, buffer=small[w.name].type) for w in worths)


@dataclass(frozen=True, slots=True)
class _Made:
    closures: tuple[Closure, ...]
    buffers: tuple[Var, ...]
    worths: tuple[Worth, ...]


def _computes(node: Call) -> bool:
    """Whether a call is one that may be done where nobody asked for it, and is worth a buffer."""
    merges = node.op in ("concat", "update", "split_dim", "merge_dims")
    return (merges or not TABLE[node.op].moves) and node.op != "pos" and not _fails_or_acts(node)


def _fails_or_acts(node: Call) -> bool:
    row = TABLE[node.op]
    return row.effect or row.checks or row.endless


@dataclass(slots=True)
class _Storing:
    options: Temporaries
    fencil: Fencil
    taken: set[str]

    def closure(self, one: Closure) -> _Made:
        """A closure, and before it those that store a part of it."""
        match one.value:
            case Apply(Lambda(params, (body,)), args) if body.free <= set(params):
                return self._parts(one, body, params, args)
            case value:
                return self._parts(one, value, (), ())

    def _parts(self, one: Closure, body: Expr, params: Sequence[Var], args: Sequence[Expr]) -> _Made:
        order = surface(body)
        stands: dict[int, Expr] = {}
        buffers: list[Var] = []
        worths: list[Worth] = []
        closures: list[Closure] = []
        seen: dict[Expr, Expr] = {}
        own, given = list(params), list(args)
        uses = reads(body, order)
        stored: dict[int, str] = {}
        for node in order:
            new = rebuild(node, tuple(stands.get(id(c), c) for c in node.children))
            if new in seen:
                stands[id(node)] = seen[new]
                continue
            stands[id(node)] = seen[new] = new
            found = uses.get(node, set())
            work = self._work(node, new, body, len(found), len({o for _, o in found}), stored)
            if work is None:
                continue
            name = self._name(new.label or "tmp")
            buffer = var(name, TensorType(new.tensor.element, new.tensor.dims))
            value = apply(function(own, dataclasses.replace(new, label="")), *given) if own else _unlabelled(new)
            value = without_unused_parameters(value) or value
            if not self._may_store(buffer, value, tuple(buffers)):
                continue
            buffers.append(buffer)
            worths.append(Worth(name, max(2, len(found)), work, buffer.type))
            closures.append(closure(buffer, value, span=one.span))
            if own:
                inner = var(self._name("y"), buffer.type)
                own.append(inner)
                given.append(buffer)
            else:
                inner = buffer
            stands[id(node)] = seen[new] = inner
            stored[id(node)] = name
        if not buffers:
            return _Made((one,), (), ())
        result = stands[id(body)]
        value = apply(function(own, result), *given, span=one.value.span) if own else result
        value = without_unused_parameters(value) or value
        last = dataclasses.replace(one, value=value)
        return _Made((*closures, last), tuple(buffers), tuple(worths))

    def _work(
        self, node: Expr, new: Expr, body: Expr, reads: int, offsets: int, stored: dict[int, str]
    ) -> float | None:
        """The operations per point of an expression that is worth a buffer."""
        if node is body or not isinstance(new, Call) or not _computes(new):
            return None
        if not new.tensor.dims or any(d.startswith("_NB_") for d in new.tensor.dims) or reads < self.options.min_uses:
            return None
        work = work_of(node, stored)
        several = offsets >= self.options.min_uses and work >= self.options.min_work
        if not several and work < self.options.costly:
            return None
        worth = Worth("", reads, work, new.tensor)
        return work if worth.per_byte >= self.options.min_per_byte else None

    def _may_store(self, buffer: Var, value: Expr, before: tuple[Var, ...]) -> bool:
        """Whether it is there at every point, and may be computed at every point."""
        nodes = list(postorder(value))
        if any(isinstance(n, Call) and _fails_or_acts(n) for n in nodes):
            return False
        shifts = [n for n in nodes if isinstance(n, Call) and n.op in ("shift_init", "unstructured_shift")]
        if not shifts:
            return True
        if not all(isinstance(n.args[0], Var) for n in shifts):
            return False
        try:
            trial = Fencil("trial", (*self.fencil.params, *before, buffer), (closure(buffer, value),))
        except DiagnosticError:
            return False
        return not analyse_absence(trial, {}).refused

    def _name(self, wanted: str) -> str:
        if wanted not in self.taken:
            self.taken.add(wanted)
            return wanted
        return fresh(wanted, self.taken)


def _unlabelled(node: Expr) -> Expr:
    return node if isinstance(node, Var) or not node.label else dataclasses.replace(node, label="")
