"""Facts on the nodes of a program that is about to be emitted: slopes, rounding, loop invariants, updates in place."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from tensorir import nodes
from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.analysis.access_functions import Needs, Reads, Rule, levels, mapped, rule_of
from tensorir.analysis.conditions import acts, control_dependence
from tensorir.analysis.unseen_extremes import unseen_extremes
from tensorir.analysis.uses import reads, surface
from tensorir.binding.arrays import Array
from tensorir.binding.programs import BoundProgram
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import IntegerSet
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, values, with_values
from tensorir.ir.substitution import inlined
from tensorir.ir.types import TensorType, TupleElement

# Which operations have slopes that may be multiplied as they are.
#
# Where all that an operation computes has a part in a result, slopes are what they are by hand. Elsewhere 0 comes
# back to what nobody reads, and 0 times the slope that 1 / x has at 0, or that a product with infinity has, is not a
# number (`lowering/gradients/safe_slopes.py`). Factors and divisors that are finite constants need no look at
# what is needed.


def finite_derivatives(fencil: Fencil, read: Mapping[str, Dims] | None = None) -> frozenset[int]:
    """The operations on floats, by identity, whose slope can be multiplied without a guard: all their points are
    needed, or their slope is a finite constant.

    `read` has by result name the points that are used, as for `needed`.

    >>> from tensorir.text import parse
    >>> f = parse("f(x: tensor<float>, y: tensor<float>) { y ← x × (if x > 0.0 then x × x else x / 3.0); }")
    >>> found = finite_derivatives(f)
    >>> [str(e) for e in postorder(*values(f.closures)) if id(e) in found]
    ['x / 3.0', 'if x > 0.0 then x × x else x / 3.0', 'x × (if x > 0.0 then x × x else x / 3.0)']
    """
    operations = frozenset(
        id(e) for e in postorder(*values(fencil.closures)) if isinstance(e, Call) and _has_finite_slopes(e)
    )
    return operations | needed(fencil, read)


def _has_finite_slopes(e: Call) -> bool:
    """True for a product with a finite literal, and a quotient by one."""
    match e:
        case Call("multiplies", args):
            return any(map(_is_finite, args))
        case Call("divides", (_, divisor)):
            return _is_finite(divisor) and divisor.value != 0
        case _:
            return False


def _is_finite(e: Expr) -> TypeGuard[Literal]:
    return isinstance(e, Literal) and math.isfinite(e.value)


def needed(fencil: Fencil, read: Mapping[str, Dims] | None = None) -> frozenset[int]:
    """The calls, by identity, of which every element contributes to some result in every run.

    A backward pass by the rules of `analysis.access_functions` that counts only certain uses: branches that may not be
    taken, operands of min and max, elements read through tables, and slots that may be skipped are not needed. A node
    in the body of a fold must be needed whole at every level.

    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) { y ← exp(x) + sqrt(subset(x, I[1:4])); }")
    >>> whole = needed(f)
    >>> [str(e) for e in postorder(*values(f.closures)) if id(e) in whole]
    ['subset(x, I[1:4])', 'sqrt(subset(x, I[1:4]))', 'exp(x) + sqrt(subset(x, I[1:4]))']

    `read` has by result name the points that are used; without it all are.
    """
    copies: dict[int, list[Expr]] = {}
    closures = with_values(fencil.closures, inlined(values(fencil.closures), copies))
    backward = _Certain(Fencil(fencil.name, fencil.params, closures, fencil.span, fencil.buffers))
    points = {p.name: p.type.dims for p in fencil.results} if read is None else read
    need = {
        p: IntegerSet.box(points[p.name]) if p.name in points else IntegerSet(p.type.dims.names) for p in fencil.params
    }
    for closure in reversed(closures):
        output, target = closure.output, closure.target.dims
        needed_points = need[output].within(target)
        need[output] = need[output].without(target)
        for variable, points_read in backward.of_closure(closure.value, needed_points).items():
            need[variable] |= points_read
    fully_needed = backward.nodes.keys() - backward.partly
    return frozenset(key for key, several in copies.items() if all(id(e) in fully_needed for e in several))


class _Certain(Reads):
    """The backward analysis restricted to uses that are certain; the entries of tables count as unknown."""

    def __init__(self, fencil: Fencil) -> None:
        super().__init__(fencil, BoundProgram.of(fencil), boxes=False)
        self.partly: set[int] = set()
        """By identity, the nodes of which some point is not needed in some scope or level."""
        self.members: dict[int, dict[int, IntegerSet]] = {}
        """The points needed of each member of a tuple, by the tuple's identity."""

    def rule(self, node: Call) -> Rule:
        """The rule of a call: nothing is certain for integers and data-dependent reads, all others read as usual."""
        builtin = TABLE[node.op]
        if not any(s.is_float for s in node.tensor.leaves):
            return _nothing
        if builtin.effect:
            return _first
        if node.op == "tuple_get":
            return _member
        if builtin.skips:
            return _skipping_fold
        if _decides(node.op):
            return _nothing
        rule = rule_of(node)
        permutes = any(isinstance(a, Interval) for access in node.accesses or () if access for a in access.at.values())
        return _all_or_nothing if rule is mapped and permutes else rule

    def wanted(self, node: Expr, points: IntegerSet | None) -> IntegerSet | None:
        """The needed points of a node, for a tuple those needed of all members; records nodes that are not needed
        whole.
        """
        members = self.members.pop(id(node), {})
        if members and isinstance(node.tensor.element, TupleElement):
            member_points, *others = members.values()
            if len(members) == len(node.tensor.element.members) and all(member_points == m for m in others):
                points = member_points if points is None else points | member_points
        if points is None or not points.fills(node.tensor.dims):
            self.partly.add(id(node))
        return points

    def entries(self, table: Expr) -> Array | None:
        return None

    def of_function(self, function: Any, needed_results: Sequence[IntegerSet], outside: Needs) -> list[IntegerSet]:
        if isinstance(function, Operator) and _decides(function.op):
            return [IntegerSet(t.dims.names) for t in function.params]
        return super().of_function(function, needed_results, outside)


def _decides(op: str) -> bool:
    """True if data say which elements an operation has a part of, or its derivative is zero."""
    row = TABLE[op]
    return row.chooses or row.indirect or row.slope == "zero"


def _nothing(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """Nodes without a derivative: conditions, integers, and reads of elements that only the data knows."""


def _first(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    needs.add(node.args[0], wanted)


def _all_or_nothing(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    if wanted.fills(node.tensor.dims):
        mapped(reads, node, wanted, needs)


def _member(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """`tuple_get`: records the points needed of one member, for `wanted` of the tuple."""
    assert isinstance(reads, _Certain)
    (x,), (k,) = node.args, node.static
    members = reads.members.setdefault(id(x), {})
    members[k] = members[k] | wanted if k in members else wanted


def _skipping_fold(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """A fold over neighbours: its operands are needed if no table holds -1, since no level is skipped then."""
    if not reads.holes:
        fold = node.fold
        assert fold is not None
        levels(reads, fold, wanted, needs, lambda k: None, False)


# Where a last bit decides: the operations on floats whose results become whole numbers.
#
# Where a float becomes a whole number, by a cast or by floor and its like, a last bit decides between two of them,
# and so, as an index, which element is read: what leads there is computed as it is written, and not contracted or
# reordered.


def towards_whole_numbers(roots: Sequence[Expr]) -> frozenset[int]:
    """The elementwise float operations, by identity, from whose results an integer is made (cast, floor).

    >>> from tensorir.text import parse
    >>> f = parse("f(x: tensor<float>, i: tensor<int>, y: tensor<float>) "
    ...           "{ i ← cast(x × 3.0 + 0.5, int); y ← x × 4.0 + floor(x); }")
    >>> found = towards_whole_numbers([c.value for c in f])
    >>> sorted(str(e) for c in f for e in postorder(c.value) if id(e) in found)
    ['x × 3.0', 'x × 3.0 + 0.5']
    """

    def operands_of(e: Expr) -> Sequence[Expr]:
        """The operands through which a node's value is passed on or computed point by point; for `cond` also its
        results.
        """
        if not isinstance(e, Call):
            return ()
        if TABLE[e.op].control is Control.BRANCHES:
            position: int = e.static.result
            return (*(f.results[position] for f in e.args[:2] if isinstance(f, Lambda)), *e.children)
        return e.children if TABLE[e.op].elementwise or TABLE[e.op].moves else ()

    operands = [a for e in postorder(*roots) if _is_whole(e) for a in e.children]
    return frozenset(
        id(e) for e in nodes.preorder(operands, operands_of) if isinstance(e, Call) and TABLE[e.op].elementwise
    )


def _is_whole(e: Expr) -> bool:
    """True if a node makes an integer, or a discontinuous function, of a float."""
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
    """The numbers of the closures that may update a part of their output in its own memory: they read of it only the
    points that they write.

    A hint: the compiler's result is right in any case. Not an output that an earlier closure made an alias (`out ←
    inp`).

    >>> from tensorir.text import parse
    >>> f = parse('''f(u: tensor<float, I[0:9]>, v: tensor<float, I[0:9]>) {
    ...   u[I[1:8]] ← u + ⟪I, 1⟫(v); v[I[1:8]] ← v + ⟪I, -1⟫(v); }''')
    >>> in_place_updates(f)
    frozenset({0})
    """
    aliased: set[Var] = set()
    updates: set[int] = set()
    for number, closure in enumerate(fencil.closures):
        if closure.region is not None and closure.output not in aliased and _reads_here(closure):
            updates.add(number)
        if closure.region is None:
            aliased.discard(closure.output)
            if not (isinstance(closure.value, Call) and not TABLE[closure.value.op].moves):
                aliased.add(closure.output)
    return frozenset(updates)


def _reads_here(closure: Closure) -> bool:
    """True if a closure reads its output at offset zero only, and not through indices or functions."""
    order = surface(closure.value)
    if any(closure.output in f.free for n in order for f in n.children if isinstance(f, Lambda)):
        return False
    readers = reads(closure.value, order).get(closure.output, ())
    return all(not offset and isinstance(n, Call) and not TABLE[n.op].indirect for n, offset in readers)


def stencil_reductions(fencil: Fencil) -> frozenset[int]:
    """The reductions, by identity, whose operand contains a shift; folds over neighbours and scans are excluded.

    XLA's reduction emitter computes such operands one number at a time.

    >>> from tensorir.text import parse
    >>> f = parse('''f(y: tensor<float>, z: tensor<float>, x: tensor<float, I[0:99]>) {
    ...   y ← reduce(+, 0.0, I)(⟪I, 1⟫(x) - x); z ← reduce(+, 0.0, I)(x × x); }''')
    >>> [id(c.value) in stencil_reductions(f) for c in f.closures]
    [True, False]
    """
    shifted: set[int] = set()
    reductions: set[int] = set()
    for n in postorder(*values(fencil.closures)):
        is_shifted = isinstance(n, Call) and any(access.offsets for access in n.accesses or () if access)
        if is_shifted or any(id(c) in shifted for c in n.children):
            shifted.add(id(n))
        fold = n.fold if isinstance(n, Call) else None
        over_points = fold is not None and not fold.row.states and not fold.dim.startswith("_NB_")
        if over_points and any(id(c) in shifted for c in n.children[2:]):
            reductions.add(id(n))
    return frozenset(reductions)


# Loops in the body of a function that need nothing of the function's own: they run once, where the function stands.
#
# XLA takes much that is the same in every round out of a loop, but no loops. Folds by functions are loops, too: one
# that is written out would be written out again in every round of those that follow it.
#
#     loop(0, 9)(.., λ(i, a) → a + sum(loop(0, 7)(.., λ(k, b) → .., b)), a)    the inner loop is invariant and runs once


def loop_invariants(fencil: Fencil, facts: AbsenceAnalysis) -> dict[int, tuple[Expr, ...]]:
    """By identity of a function, the loops in its body that depend on nothing of it and can run before it.

    Loops that check, print or may not terminate are hoisted only if they run in any case. Nothing is hoisted out of the
    branches of a conditional.

    >>> from tensorir.analysis.absence import analyse_absence
    >>> from tensorir.text import parse
    >>> f = parse('''f(a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) {
    ...   let c = loop(0, 7)(λ(k: tensor<int>, x: tensor<float, I[0:4]>) → true,
    ...                      λ(k: tensor<int>, x: tensor<float, I[0:4]>) → x × x + b, b);
    ...   a ← loop(0, 9)(λ(i: tensor<int>, y: tensor<float, I[0:4]>) → true,
    ...                  λ(i: tensor<int>, y: tensor<float, I[0:4]>) → y × c, a); }''')
    >>> [[n.op for n in found] for found in loop_invariants(f, analyse_absence(f, {})).values()]
    [['loop']]
    """
    roots = values(fencil.closures)
    all_nodes = list(postorder(*roots))
    if sum(map(_repeats, all_nodes)) < 2:
        return {}
    containing_loops, may_fail = set[int](), set[int]()
    for node in all_nodes:
        child_ids = {id(c) for c in node.children}
        if _repeats(node) or not containing_loops.isdisjoint(child_ids):
            containing_loops.add(id(node))
        endless = isinstance(node, Call) and TABLE[node.op].endless and node.static.limit is None
        if endless or not may_fail.isdisjoint(child_ids) or (isinstance(node, Call) and acts(node, facts)):
            may_fail.add(id(node))
    certain, loop_bodies = _certain(roots) - _changing(fencil), _steps(all_nodes)
    calls = (node for node in all_nodes if isinstance(node, Call) and TABLE[node.op].control is Control.BRANCHES)
    branches = {id(f) for node in calls for f in node.args}
    invariants: dict[int, tuple[Expr, ...]] = {}
    for node in all_nodes:
        if isinstance(node, Lambda) and id(node) in containing_loops and id(node) not in branches:
            certainly_run = certain | (_certain(node.results) if id(node) in loop_bodies else set[int]())
            outermost_loops = tuple(_outermost(node, containing_loops, may_fail - certainly_run))
            if outermost_loops:
                invariants[id(node)] = outermost_loops
    return invariants


def _repeats(node: Expr) -> bool:
    """True for loops, scans, and folds by a lambda."""
    if not isinstance(node, Call):
        return False
    row = TABLE[node.op]
    folds = row.control is Control.FOLD and (row.states or isinstance(node.args[0], Lambda))
    return folds or row.control is Control.LOOP


def _certain(roots: Sequence[Expr]) -> set[int]:
    """Nodes that are evaluated where the roots are, in any case."""
    needs = control_dependence(roots, (), bodies=False)
    return {key for key in needs.of if needs.certain(key)}


def _changing(fencil: Fencil) -> set[int]:
    """Nodes that several closures share although an operand is overwritten between them, so that their value
    differs.
    """
    first_closure: dict[int, int] = {}
    changing: set[int] = set()
    written = [c.output for c in fencil.closures]
    for number, root in enumerate(values(fencil.closures)):
        for node in postorder(root):
            first_use = first_closure.setdefault(id(node), number)
            if not node.free.isdisjoint(written[first_use:number]):
                changing.add(id(node))
    return changing


def _steps(nodes: Sequence[Expr]) -> set[int]:
    """The functions that serve only as bodies of loops that run at least one round."""
    loop_bodies, other_uses = set[int](), set[int]()
    for node in nodes:
        match node:
            case Call(op, (Lambda(_, (Literal(True),)), step, *_), (_, limit)) if limit and TABLE[op].endless:
                loop_bodies.add(id(step))
            case _:
                other_uses.update(map(id, node.children))
    return loop_bodies - other_uses


def _outermost(function: Lambda, containing_loops: Container[int], may_fail: Container[int]) -> Iterator[Expr]:
    """The outermost loops in a function's body that use no variable bound in it and are not in `may_fail`."""
    variables = {p for n in postorder(function) if isinstance(n, Lambda) for p in n.params}
    seen: set[int] = set()
    stack: list[Expr] = list(function.results)
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) not in containing_loops:
            continue
        seen.add(id(node))
        if _repeats(node) and id(node) not in may_fail and node.free.isdisjoint(variables):
            yield node
        else:
            stack += node.children


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
        """The noteworthy findings, in the order of nodes in the program."""
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
        """The findings as a table, a line each."""
        rows = list(self)
        width = max((len(row.analysis) for row in rows), default=0)
        return "\n".join(f"{row.analysis:<{width}}  {row.expression}" for row in rows)


def annotated(fencil: Fencil, absence: AbsenceAnalysis, read: Mapping[str, Dims] | None = None) -> Annotations:
    """All analyses of a program that a backend asks for; `absence` are the facts on absent elements.

    `read` has by result name the points that are used; without it all are.

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
    present = not any(access.absent for access in absence.accesses.values())
    return Annotations(
        fencil, absence, finite_derivatives(fencil, read), towards_whole_numbers(roots),
        loop_invariants(fencil, absence), unseen_extremes(fencil) if present else frozenset(),
        stencil_reductions(fencil),
    )  # fmt: skip
