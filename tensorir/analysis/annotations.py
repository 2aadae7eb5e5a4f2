"""Facts on the nodes of a program that is about to be emitted: rounding, slopes, updates in place.

Which closures may write a part of an array in its own memory: they read of it, at most, the points that they write.

>>> from tensorir.text import parse
>>> f = parse('''f(u: tensor<float, I[0:9]>, v: tensor<float, I[0:9]>) {
...   u[I[1:8]] ← u + ⟪I, 1⟫(v); v[I[1:8]] ← v + ⟪I, -1⟫(v); }''')
>>> in_place_updates(f)
frozenset({0})

Reductions of what is computed of values at offsets: XLA's library for sums computes those one number at a time.

>>> from tensorir.text import parse
>>> f = parse('''f(y: tensor<float>, z: tensor<float>, x: tensor<float, I[0:99]>) {
...   y ← reduce(+, 0.0, I)(⟪I, 1⟫(x) - x); z ← reduce(+, 0.0, I)(x × x); }''')
>>> [id(c.value) in stencil_reductions(f) for c in f.closures]
[True, False]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from tensorir import nodes
from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.analysis.unseen_extremes import unseen_extremes
from tensorir.analysis.uses import loop_invariants, needed, reads, surface
from tensorir.integers.dims import Dims
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Lambda, Literal, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import TensorType

# Which operations have slopes that may be multiplied as they are.
#
# Where all that an operation computes has a part in a result, slopes are what they are by hand. Elsewhere 0 comes
# back to what nobody reads, and 0 times the slope that 1 / x has at 0, or that a product with infinity has, is not a
# number (`lowering/gradients/safe_slopes.py`). What is needed is what `tensorir.analysis.uses` says; factors
# and divisors that are finite constants need no look at it.


def finite_derivatives(fencil: Fencil, read: Mapping[str, Dims] | None = None) -> frozenset[int]:
    """The operations on floats that are needed as a whole, or whose slopes are finite constants, by identity.

    `read` has the points of the results that somebody reads, as for `needed`.

    >>> from tensorir.text import parse
    >>> f = parse("f(x: tensor<float>, y: tensor<float>) { y ← x × (if x > 0.0 then x × x else x / 3.0); }")
    >>> found = finite_derivatives(f)
    >>> [str(e) for e in postorder(*values(f.closures)) if id(e) in found]
    ['x / 3.0', 'if x > 0.0 then x × x else x / 3.0', 'x × (if x > 0.0 then x × x else x / 3.0)']
    """
    found = frozenset(
        id(e) for e in postorder(*values(fencil.closures)) if isinstance(e, Call) and _has_finite_slopes(e)
    )
    return found | needed(fencil, read).whole


def _has_finite_slopes(e: Call) -> bool:
    match e:
        case Call("multiplies", args):
            return any(map(_is_finite, args))
        case Call("divides", (_, by)):
            return _is_finite(by) and by.value != 0
        case _:
            return False


def _is_finite(e: Expr) -> TypeGuard[Literal]:
    return isinstance(e, Literal) and math.isfinite(e.value)


# Where a last bit decides: the operations on floats whose results become whole numbers.
#
# Where a float becomes a whole number, by a cast or by floor and its like, a last bit decides between two of them,
# and so, as an index, which element is read: what leads there is computed as it is written, and not contracted or
# reordered.


def towards_whole_numbers(roots: Sequence[Expr]) -> frozenset[int]:
    """The elementwise operations on floats whose results become whole numbers, by identity.

    >>> from tensorir.text import parse
    >>> f = parse("f(x: tensor<float>, i: tensor<int>, y: tensor<float>) "
    ...           "{ i ← cast(x × 3.0 + 0.5, int); y ← x × 4.0 + floor(x); }")
    >>> found = towards_whole_numbers([c.value for c in f])
    >>> sorted(str(e) for c in f for e in postorder(c.value) if id(e) in found)
    ['x × 3.0', 'x × 3.0 + 0.5']
    """

    def passed_on(e: Expr) -> Sequence[Expr]:
        if not isinstance(e, Call):
            return ()
        if TABLE[e.op].control is Control.BRANCHES:
            k: int = e.static.result
            return (*(f.results[k] for f in e.args[:2] if isinstance(f, Lambda)), *e.children)
        return e.children if TABLE[e.op].elementwise or TABLE[e.op].moves else ()

    operands = [a for e in postorder(*roots) if _is_whole(e) for a in e.children]
    return frozenset(
        id(e) for e in nodes.preorder(operands, passed_on) if isinstance(e, Call) and TABLE[e.op].elementwise
    )


def _is_whole(e: Expr) -> bool:
    match e:
        case Call("cast", (x,)):
            return _is_float(x) and e.tensor.leaves[0].is_integer
        case Call(op, (x, *_)):
            return TABLE[op].discontinuous and _is_float(x)
        case _:
            return False


def _is_float(x: Expr) -> bool:
    return isinstance(x.type, TensorType) and x.type.leaves[0].is_float


def in_place_updates(fencil: Fencil) -> frozenset[int]:
    """The closures, by their number, of which it is known; what a compiler makes of it is right in any case.

    One whose array an earlier closure made the same as another, `out ← inp`, is none: that one is read as well.
    """
    others: set[Var] = set()
    found: set[int] = set()
    for k, closure in enumerate(fencil.closures):
        if closure.region is not None and closure.output not in others and _reads_here(closure):
            found.add(k)
        if closure.region is None:
            others.discard(closure.output)
            if not (isinstance(closure.value, Call) and not TABLE[closure.value.op].moves):
                others.add(closure.output)
    return frozenset(found)


def _reads_here(closure: Closure) -> bool:
    order = surface(closure.value)
    if any(closure.output in f.free for n in order for f in n.children if isinstance(f, Lambda)):
        return False
    found = reads(closure.value, order).get(closure.output, ())
    return all(not offset and isinstance(n, Call) and not TABLE[n.op].indirect for n, offset in found)


def stencil_reductions(fencil: Fencil) -> frozenset[int]:
    """The reductions over dims that are no neighbours' with a shift in what they reduce, by identity; linear."""
    shifted: set[int] = set()
    found: set[int] = set()
    for n in postorder(*values(fencil.closures)):
        moved = isinstance(n, Call) and any(access.offsets for access in n.accesses or () if access)
        if moved or any(id(c) in shifted for c in n.children):
            shifted.add(id(n))
        fold = n.fold if isinstance(n, Call) else None
        over_points = fold is not None and not fold.row.states and not fold.dim.startswith("_NB_")
        if over_points and any(id(c) in shifted for c in n.children[2:]):
            found.add(id(n))
    return frozenset(found)


# What analyses say of the nodes of a program that is about to be emitted, in one object that can be printed.
#
# Nodes are told apart by identity: equal expressions that are not shared may have other readers, and other findings.


class Annotation(NamedTuple):
    """One finding: the analysis, and the expression that it is about, in the notation."""

    analysis: str
    expression: str


@dataclass(frozen=True, slots=True)
class Annotations:
    """The findings of all analyses that a backend asks; those of nodes by identity."""

    fencil: Fencil
    absence: AbsenceAnalysis
    finite: frozenset[int] = frozenset()
    """Operations whose derivatives need no care where their result is not needed (`finite_derivatives`)."""
    written: frozenset[int] = frozenset()
    """Operations that are rounded as they are written (`towards_whole_numbers`)."""
    invariants: Mapping[int, tuple[Expr, ...]] = field(default_factory=dict[int, tuple[Expr, ...]])
    """Loops that are computed where a function stands, and not in its body (`loop_invariants`)."""
    unseen: frozenset[int] = frozenset()
    """Extremes that may come to anything in rows that hold a NaN (`unseen_extremes`)."""
    stencil_reductions: frozenset[int] = frozenset()
    """Reductions of what is computed of values at offsets (`stencil_reductions`)."""

    def __iter__(self) -> Iterator[Annotation]:
        """The findings that are not what is plain, in the order of the program."""
        for node in postorder(*values(self.fencil.closures)):
            text = " ".join(str(node).split())
            access = self.absence.accesses.get(id(node))
            if access is not None and access.absent:
                yield Annotation("absence", text)
            if access is not None and not access.proven:
                yield Annotation("checked index", text)
            if isinstance(node, Call) and id(node) in self.written:
                yield Annotation("rounded as written", text)
            if isinstance(node, Call) and id(node) in self.unseen:
                yield Annotation("any extreme of rows with NaN", text)
            if id(node) in self.stencil_reductions:
                yield Annotation("reduction of a stencil", text)
            yield from (
                Annotation("loop invariant", " ".join(str(e).split())) for e in self.invariants.get(id(node), ())
            )

    def __str__(self) -> str:
        rows = list(self)
        width = max((len(row.analysis) for row in rows), default=0)
        return "\n".join(f"{row.analysis:<{width}}  {row.expression}" for row in rows)


def annotated(fencil: Fencil, absence: AbsenceAnalysis, read: Mapping[str, Dims] | None = None) -> Annotations:
    """Annotations of the nodes of a program, given the facts on where elements may be absent.

    `read` has the points of the results that somebody reads, by name; without it, all of all.

    >>> from tensorir.analysis.absence import analyse_absence
    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<float>, x: tensor<float, I[0:9]>, v: tensor<float>) "
    ...           "{ y ← gather(I)(x, cast(v × 3.0, int)); }")
    >>> print(annotated(f, analyse_absence(f, {})))
    rounded as written  v × 3.0
    checked index       gather(I)(x, cast(v × 3.0, int))
    """
    roots = values(fencil.closures)
    # where elements may be absent a NaN may be left out of a sum
    whole = not any(access.absent for access in absence.accesses.values())
    return Annotations(
        fencil, absence, finite_derivatives(fencil, read), towards_whole_numbers(roots),
        loop_invariants(fencil, absence), unseen_extremes(fencil) if whole else frozenset(), stencil_reductions(fencil),
    )  # fmt: skip
