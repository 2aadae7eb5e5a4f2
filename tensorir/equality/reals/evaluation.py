"""Programs evaluated over the reals: every float a witness with bounds of its error and the residues of its formula.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:2]>, x: tensor<float, I[0:3]>) { y ← ⟪I, 1⟫(x) × ⟪I, 1⟫(x) - x × x; }")
>>> g = parse("g(y: tensor<float, I[0:2]>, x: tensor<float, I[0:3]>) { y ← (⟪I, 1⟫(x) - x) × (⟪I, 1⟫(x) + x); }")
>>> x = given(np.array([1.0, 2.0, 4.0]), np.random.default_rng(0))
>>> (a,), (b,) = evaluated(f, {"x": x}), evaluated(g, {"x": x})
>>> Real.of(a.only).value.tolist(), bool(rs.same(Real.of(a.only).residues, Real.of(b.only).residues).all())
([3.0, 12.0], True)
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorir.equality.reals import residues as rs
from tensorir.equality.reals.domain import Domain, Unsupported, literal
from tensorir.equality.reals.folds import FOLDS, SEVERAL
from tensorir.equality.reals.integers import LOGIC, TESTS, converted
from tensorir.equality.reals.moves import MOVES, without
from tensorir.equality.reals.numbers import Real, Witnessed, unit
from tensorir.equality.reals.residues import Residues
from tensorir.equality.reals.tensors import Array, Leaf, Tensor, batched, choose, on, placed
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator, Var
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import BOOL, DTYPES, Dims, Scalar
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError

__all__ = ["Branches", "Unsupported", "evaluated", "given"]

WITNESSED = Witnessed()
MOST_ELEMENTS = 1 << 23
"""Elements that one value on the way may have: beyond that a program is too large to be evaluated so."""


def given(array: Any, rng: np.random.Generator, literal: Array | None = None) -> Leaf:
    """An input: each float a variable of its own, but where `literal` holds, which is the number that it is."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        return Leaf((array,))
    formal = rs.random(rng, array.shape)
    if literal is not None and literal.any():
        known = rs.embedded(np.where(literal, array.astype(np.float64), 0.0))
        formal = Residues(np.where(literal, known.p, formal.p), np.where(literal, known.q, formal.q))
    zero = np.zeros(array.shape)
    return Real(array.astype(np.float64), zero, zero, formal).leaf()


@dataclass(slots=True)
class Branches:
    """Which outcomes of the conditions of programs were visited."""

    seen: dict[int, tuple[Call, bool, bool]] = field(default_factory=dict[int, tuple[Call, bool, bool]])

    def visit(self, node: Call, condition: Array) -> None:
        _, true, false = self.seen.get(id(node), (node, False, False))
        self.seen[id(node)] = node, true or bool(condition.any()), false or not bool(condition.all())

    @property
    def count(self) -> tuple[int, int]:
        """How many outcomes were visited, of how many."""
        return sum(true + false for _, true, false in self.seen.values()), 2 * len(self.seen)

    @property
    def unvisited(self) -> tuple[str, ...]:
        """The conditions with an outcome that was not, and which."""
        return tuple(
            f"{node.args[0]}{_at(node.args[0])} was {'never' if not true else 'always'} true"
            for node, true, false in self.seen.values()
            if true != false
        )


def _at(e: Expr) -> str:
    return "" if e.span is NOWHERE else f" at {e.span}"


def evaluated(
    fencil: Fencil, inputs: Mapping[str, Leaf | Sequence[Leaf]], branches: Branches | None = None,
    domain: Domain = WITNESSED,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The results of a program, in their order; raises `Unsupported`, and what the program itself refuses."""
    rules = _Rules(domain, Branches() if branches is None else branches)
    env: dict[Var, Tensor] = {}
    for p in fencil.params:
        if p.name in inputs:
            leaves = inputs[p.name]
            env[p] = Tensor(p.type.dims, (leaves,) if isinstance(leaves, Leaf) else tuple(leaves))
        else:
            env[p] = Tensor(p.type.dims, tuple(literal(domain, 0, s, p.type.dims) for s in p.type.leaves))
    with np.errstate(all="ignore"):
        for c in fencil.closures:
            value = evaluate(c.value, env, rules.rule)
            output = c.output
            dims = c.target.dims
            part = on(value, dims)
            env[output] = part if c.region is None else placed(env[output], part, dict(dims.items))
    found = tuple(env[p] for p in fencil.results)
    if any(leaf.absent is not None and leaf.absent.any() for t in found for leaf in t.leaves):
        raise DiagnosticError(Diagnostic("R01", "an index leaves its interval, or a neighbour is absent."))
    return found


@dataclass(slots=True)
class _Rules:
    """The rules of one evaluation, and what its loops gave, by their operands."""

    domain: Domain
    branches: Branches
    loops: dict[tuple[Any, ...], tuple[Any, list[Tensor]]] = field(default_factory=dict[tuple[Any, ...], Any])

    def rule(self, node: Expr, args: Sequence[Any], apply: Applier[Tensor]) -> Tensor:
        match node:
            case Literal(value, element):
                return Tensor(Dims(), (literal(self.domain, value, element),))
            case Operator(op):
                kind = node.type.result
                dims = batched(args, kind.dims)
                return _elementwise(self.domain, op, node.params[0].element, dims, [on(a, dims) for a in args])
            case Call():
                return self._call(node, args, apply)
            case _:
                raise AssertionError("functions are applied, not computed")

    def _call(self, node: Call, asked: Sequence[Any], apply: Applier[Tensor]) -> Tensor:
        if node.tensor.dims.size > MOST_ELEMENTS:
            raise Unsupported(f"a value on the way has {node.tensor.dims.size} elements")
        # a variable has the points of its type, of whatever it was bound to
        args = [on(a, n.tensor.dims) if isinstance(a, Tensor) else a for a, n in zip(asked, node.args, strict=True)]
        if node.op in SEVERAL:
            # each result is asked for by a node of its own, which says which one first
            which, *rest = node.static
            key = (node.op, *map(id, asked), *rest)
            if key not in self.loops:
                self.loops[key] = asked, SEVERAL[node.op](node, args, apply, self.domain)
            return on(self.loops[key][1][which], node.tensor.dims)
        if node.op in MOVES:
            return MOVES[node.op](node, args, self.domain)
        if node.op in FOLDS:
            return FOLDS[node.op](node, args, apply, self.domain)
        if TABLE[node.op].elementwise:
            dims = batched(args, node.tensor.dims)
            operands = [on(a, dims) for a in args]
            match node.op:
                case "if":
                    return self._if(node, operands)
                case "cast":
                    return _cast(self.domain, node, operands[0])
                case "bitcast":
                    return _bitcast(self.domain, node, operands[0])
                case op:
                    return _elementwise(self.domain, op, node.args[0].tensor.element, dims, operands)
        if node.definition is not None:
            return apply(Bound(node.definition, {}), *args)
        raise Unsupported(f"'{node.op}' has no meaning over the reals")

    def _if(self, node: Call, operands: Sequence[Tensor]) -> Tensor:
        condition, *both = operands
        if condition.only.parts[0].dtype != object:
            self.branches.visit(node, condition.only.parts[0])
            return _selected(*operands)
        if any(leaf.absent is not None for t in operands for leaf in t.leaves):
            raise Unsupported("inputs decide what is absent")
        made = [
            self.domain.own("if", kind, [(condition.only, BOOL), (a, kind), (b, kind)])
            for kind, a, b in zip(node.tensor.leaves, both[0].leaves, both[1].leaves, strict=True)
        ]
        return Tensor(both[0].dims, tuple([leaf for leaf in made if leaf is not None]))


# Elementwise


def _elementwise(domain: Domain, op: str, element: Any, dims: Dims, args: Sequence[Tensor]) -> Tensor:
    leaves = [a.only for a in args]
    absent = None
    for leaf in leaves:
        if leaf.absent is not None:
            absent = leaf.absent if absent is None else absent | leaf.absent
    target = BOOL if op in LOGIC or op in TESTS else element
    own = domain.own(op, target, [(leaf, element) for leaf in leaves])
    if own is not None:
        return Tensor(dims, (replace(own, absent=absent),))
    if op in LOGIC:
        return Tensor(dims, (Leaf((LOGIC[op](*(a.parts[0] for a in leaves)),), absent),))
    if op in TESTS:
        numbers = [domain.decided(a) for a in leaves]
        return Tensor(dims, (Leaf((TESTS[op](*numbers),), absent),))
    if element.is_integer:
        return Tensor(dims, (replace(domain.integers(op, element, leaves), absent=absent),))
    return Tensor(dims, (replace(domain.compute(op, element, leaves), absent=absent),))


def _selected(condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
    found = choose(condition.only.parts[0], first, second)
    gone = condition.only.absent
    return found if gone is None else replace(found, leaves=tuple(without(leaf, gone) for leaf in found.leaves))


def _cast(domain: Domain, node: Call, x: Tensor) -> Tensor:
    source, target = node.args[0].tensor.element, node.tensor.element
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    leaf = x.only
    own = domain.own("cast", target, [(leaf, source)])
    if own is not None:
        return Tensor(x.dims, (replace(own, absent=leaf.absent),))
    if source.is_float and target.is_float:
        if unit(target) <= unit(source):
            return x
        return Tensor(x.dims, (domain.rounded(leaf, target),))
    if target.is_float:
        return Tensor(x.dims, (replace(domain.rounded(domain.whole(leaf.parts[0]), target), absent=leaf.absent),))
    a = domain.decided(leaf)
    if not source.is_float:
        return Tensor(x.dims, (Leaf((converted(a, target, DTYPES[target]),), leaf.absent),))
    if target.kind == "bool":
        return Tensor(x.dims, (Leaf((a != 0,), leaf.absent),))
    low, high = target.range.start, target.range.stop - 1
    whole = np.nan_to_num(np.trunc(a), nan=0.0)
    inside = (whole > low) & (whole < high)
    found = np.asarray(np.where(inside, whole, 0)).astype(DTYPES[target])
    found[whole <= low], found[whole >= high] = low, high
    return Tensor(x.dims, (Leaf((found,), leaf.absent),))


def _bitcast(domain: Domain, node: Call, x: Tensor) -> Tensor:
    source, target = node.args[0].tensor.element, node.tensor.element
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    if source == target:
        return x
    own = domain.own("bitcast", target, [(x.only, source)])
    if own is not None:
        return Tensor(x.dims, (replace(own, absent=x.only.absent),))
    if source.is_float or target.is_float:
        raise Unsupported("bits of floats have no meaning over the reals")
    return Tensor(x.dims, (Leaf((np.array(x.only.parts[0], order="C").view(DTYPES[target]),), x.only.absent),))
