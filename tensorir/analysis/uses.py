"""Who reads an expression at which offsets, which points of it are needed, and what loops leave unchanged.

Who reads an expression, and at which offsets: what decides whether a buffer for it is worth its bytes.

>>> from tensorir.ir.build import call, cartesian_shift, var
>>> from tensorir.ir.types import tensor
>>> c = call("cos", var("x", tensor("float", I=(0, 9))))
>>> difference = call("minus", cartesian_shift(c, "I", 1), cartesian_shift(c, "I", -1))
>>> sorted(offset for _, offset in reads(difference, surface(difference))[c])
[(('I', '-1'),), (('I', '1'),)]

Needed and computed: of which expressions every element that is computed has a part in a result.

What an expression computes is all of its type. What is needed of it is found backward from the results, by the rules
of `analysis.access_functions`, and here counts only what is needed whatever the data is: a branch that may not be
taken, an operand that may not be the greater one, an element that a table may not lead to, or a slot that may be
skipped, is not.
An expression in the body of a fold is met once for each level, and must be needed as a whole at each.

>>> import tensorir as ti
>>> from tensorir.ir.rewrite import postorder
>>> f = ti.parse("f(y: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) { y ← exp(x) + sqrt(subset(x, I[1:4])); }")
>>> whole = needed(f).whole
>>> [str(e) for e in postorder(*values(f.closures)) if id(e) in whole]
['subset(x, I[1:4])', 'sqrt(subset(x, I[1:4]))', 'exp(x) + sqrt(subset(x, I[1:4]))']

Along which dims the points of an expression are independent: each is computed from operands at that point alone.

Such an expression may be computed for some points at a time, wherever they stand: the expression for a block of points
is the same one on another interval.

>>> from tensorir.text import parse
>>> f = parse('''f(y: tensor<float, I[0:8], K[1:5]>, x: tensor<float, I[0:8], K[0:5]>) {
...   y ← ⟪K, -1⟫(x) + x; }''')
>>> value = f.closures[0].value
>>> [independent(value, Dims(((d, value.tensor.dims[d]),))) for d in ("I", "K")]
[True, False]
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tensorir import nodes
from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.analysis.access_functions import Needs, Reads, Rule, levels, mapped, rule_of
from tensorir.analysis.conditions import acts, control_dependence
from tensorir.binding.arrays import Array
from tensorir.binding.programs import BoundProgram
from tensorir.integers.affine import Affine
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import IntegerSet
from tensorir.ir.build import call
from tensorir.ir.builtins import LAST, TABLE, Control
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, values, with_values
from tensorir.ir.substitution import inlined
from tensorir.ir.types import TensorType, TupleElement

MOST = 64
"""Reads of one expression that are told apart."""

Offset = tuple[tuple[str, str], ...]
"""Steps by dim, and the neighbours of tables, in the order in which they are taken."""


def surface(*roots: Expr) -> list[Expr]:
    """The nodes that no function is around, operands first."""
    order = nodes.postorder(roots, lambda node: [c for c in node.children if not isinstance(c, Lambda)])
    return [node for node in order if not isinstance(node, Lambda)]


def reads(root: Expr, order: Sequence[Expr]) -> dict[Expr, set[tuple[Expr, Offset]]]:
    """Of each expression, who reads it, and through which shifts: moves hand their reads on to what they move."""
    found: dict[Expr, set[tuple[Expr, Offset]]] = {}
    for node in reversed(order):
        moves = isinstance(node, Call) and TABLE[node.op].moved == LAST
        for k, child in enumerate(node.children):
            if isinstance(child, Lambda):
                continue
            own = found.setdefault(child, set())
            if not moves or (len(node.children) == 2 and k == 0):
                own.add((node, ()))
                continue
            for reader, offset in found.get(node, set()):
                if len(own) < MOST:
                    own.add((reader, further(offset, node)))
    return found


def further(offset: Offset, node: Expr) -> Offset:
    """An offset at which a node is read, as one of what the node moves."""
    assert isinstance(node, Call)
    (*_, access) = node.accesses or (None,)
    if access is None or access.entries or any(isinstance(a, Affine) and a.is_number for a in access.at.values()):
        return (*offset, (node.op, f"{getattr(node.args[0], 'name', '')} {tuple(node.static)}"))
    if not access.at:
        return offset
    total = {d: int(o) for d, o in offset if o.lstrip("-").isdecimal()}
    for dim in access.at:
        total[dim] = total.get(dim, 0) + (access.offset(dim) or 0)
    rest = [(d, o) for d, o in offset if not o.lstrip("-").isdecimal()]
    return tuple(sorted([(d, str(o)) for d, o in total.items() if o] + rest))


@dataclass(frozen=True, slots=True)
class Needed:
    """Uses of the expressions of a program that hold for all of its data."""

    whole: frozenset[int]
    """The calls, by identity, all elements of which have a part in a result each time that they are computed."""


def needed(fencil: Fencil, read: Mapping[str, Dims] | None = None) -> Needed:
    """The calls of a program that the derivatives of its results need.

    Of these `read` has the points that somebody reads, by name; without it, all of all.
    """
    copies: dict[int, list[Expr]] = {}
    closures = with_values(fencil.closures, inlined(values(fencil.closures), copies))
    reads = _Certain(Fencil(fencil.name, fencil.params, closures, fencil.span, fencil.buffers))
    points = {p.name: p.type.dims for p in fencil.results} if read is None else read
    need = {
        p: IntegerSet.box(points[p.name]) if p.name in points else IntegerSet(p.type.dims.names) for p in fencil.params
    }
    for closure in reversed(closures):
        output, target = closure.output, closure.target.dims
        wanted = need[output].within(target)
        need[output] = need[output].without(target)
        for variable, found in reads.of_closure(closure.value, wanted).items():
            need[variable] |= found
    whole = reads.nodes.keys() - reads.partly
    return Needed(frozenset(key for key, made in copies.items() if all(id(e) in whole for e in made)))


class _Certain(Reads):
    """The backward analysis of what is needed in any case; of no table it is known where it leads."""

    def __init__(self, fencil: Fencil) -> None:
        super().__init__(fencil, BoundProgram.of(fencil), boxes=False)
        self.partly: set[int] = set()
        """By identity, what was computed and not needed as a whole."""
        self.members: dict[int, dict[int, IntegerSet]] = {}
        """Of tuples, by identity: what is needed of each member."""

    def rule(self, node: Call) -> Rule:
        row = TABLE[node.op]
        if not any(s.is_float for s in node.tensor.leaves):
            return _nothing
        if row.effect:
            return _first
        if node.op == "tuple_get":
            return _member
        if row.skips:
            return _skipping_fold
        if _decides(node.op):
            return _nothing
        rule = rule_of(node)
        permutes = any(isinstance(a, Interval) for access in node.accesses or () if access for a in access.at.values())
        return _all_or_nothing if rule is mapped and permutes else rule

    def wanted(self, node: Expr, found: IntegerSet | None) -> IntegerSet | None:
        members = self.members.pop(id(node), {})
        if members and isinstance(node.tensor.element, TupleElement):
            first, *rest = members.values()
            if len(members) == len(node.tensor.element.members) and all(first == m for m in rest):
                found = first if found is None else found | first
        if found is None or not found.fills(node.tensor.dims):
            self.partly.add(id(node))
        return found

    def entries(self, table: Expr) -> Array | None:
        return None

    def of_function(self, function: Any, wanted: Sequence[IntegerSet], outside: Needs) -> list[IntegerSet]:
        if isinstance(function, Operator) and _decides(function.op):
            return [IntegerSet(t.dims.names) for t in function.params]
        return super().of_function(function, wanted, outside)


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
    assert isinstance(reads, _Certain)
    (x,), (k,) = node.args, node.static
    members = reads.members.setdefault(id(x), {})
    members[k] = members[k] | wanted if k in members else wanted


def _skipping_fold(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """A level may be skipped where a table holds -1."""
    if not reads.holes:
        fold = node.fold
        assert fold is not None
        levels(reads, fold, wanted, needs, lambda k: None, False)


def independent(node: Expr, dims: Dims) -> bool:
    """True if a node, not what it is computed of, leaves the points of dims apart.

    The node, its operands, and what functions among these take and give have each dim on that interval, or lack it.
    """
    match node:
        case Literal() | Var() | Lambda() | Operator():
            return True
        case Apply():
            return same_intervals(node, dims)
        case Call(op):
            row = TABLE[op]
            if row.effect or row.checks or row.indirect or not same_intervals(node, dims):
                return False
            placed = names_in(node.static) & {d for a in node.args for d in a.tensor.dims} if row.placed else set[str]()
            if node.accesses is None or not placed.isdisjoint(dims):
                return False
            return all(set(node.type.dims if a is None else a.mixed).isdisjoint(dims) for a in node.accesses)


def literal_of(e: Expr) -> Any:
    """The number that an expression is at all of its points, None where that is not plain."""
    while isinstance(e, Call) and TABLE[e.op].relocates and len(e.args) == 1:
        e = e.args[0]
    return e.value if isinstance(e, Literal) else None


def names_in(static: Any) -> set[str]:
    """The names that static parameters hold, those of dims among them.

    >>> sorted(names_in(("I", 3, Dims.of(J=(0, 4)))))
    ['I', 'J']
    """
    match static:
        case str():
            return {static}
        case Dims():
            return set(static.names)
        case tuple():
            return {name for member in cast("tuple[Any, ...]", static) for name in names_in(member)}
        case _:
            return set()


def same_intervals(node: Expr, dims: Dims) -> bool:
    """True if a node, its operands, and what functions take and give have each dim on that interval, or lack it."""
    kinds = [node.type, *(c.type for c in node.children)]
    kinds += [t for k in kinds if not isinstance(k, TensorType) for t in (*k.params, *k.results)]
    return all(n not in k.dims or k.dims[n] == i for k in kinds if isinstance(k, TensorType) for n, i in dims.items)


def on_block(function: Lambda, dims: Sequence[str], size: int) -> tuple[Lambda, dict[int, Expr]] | None:
    """The function of so many points of dims, as one dim under the first one's name, counted from 0.

    Also what stands for each of its nodes, by identity. None where the points are not independent, or the function
    reads tensors from outside that have one of the dims.

    >>> from tensorir.text import parse
    >>> f = parse('''f(y: tensor<float, I[3:9], J[0:4]>, x: tensor<float, I[3:9], J[0:4]>) {
    ...   y ← blocked(0, 5, I, J)(λ(a: tensor<float, I[3:9], J[0:4]>) → a × 2.0, x); }''')
    >>> small, _ = on_block(f.closures[0].value.args[0], ("I", "J"), 5)
    >>> small.type
    (tensor<float, I[0:5]>) → tensor<float, I[0:5]>
    """
    whole = Dims(tuple((d, function.results[0].tensor.dims[d]) for d in dims))
    order = list(postorder(function))
    if any(d in v.type.dims for v in function.free for d in dims):
        return None
    if not all(independent(n, whole) for n in order if n is not function):
        return None
    block = Dims(((whole.names[0], Interval(0, size)),))
    kinds = {p: _merged(p.type, whole, block) for n in order if isinstance(n, Lambda) for p in n.params}
    params = {p: replace(p, type=k) if k != p.type else p for p, k in kinds.items()}
    new: dict[int, Expr] = {}
    for n in order:
        children = tuple(new[id(c)] for c in n.children)
        match n:
            case Var():
                new[id(n)] = params.get(n, n)
            case Lambda():
                new[id(n)] = replace(n, params=tuple(params[p] for p in n.params), results=children)
            case Operator():
                new[id(n)] = replace(n, params=tuple(_merged(p, whole, block) for p in n.params))
            case Call("add_dim") if n.static.dim in whole:
                (x,) = children
                has = block.names[0] in x.tensor.dims
                new[id(n)] = x if has else call("add_dim", x, static=(block.names[0], 0, size), span=n.span)
            case _:
                new[id(n)] = rebuild(n, children)
    small = new[id(function)]
    assert isinstance(small, Lambda)
    return small, new


def _merged(kind: TensorType, whole: Dims, block: Dims) -> TensorType:
    """The type with one dim in the place of those that it has of several."""
    if not any(n in kind.dims for n in whole):
        return kind
    return kind.on(Dims((*block.items, *((n, i) for n, i in kind.dims.items if n not in whole))))


# Loops in the body of a function that need nothing of the function's own: they run once, where the function stands.
#
# XLA takes much that is the same in every round out of a loop, but no loops. Folds by functions are loops, too: one
# that is written out would be written out again in every round of those that follow it.
#
#     loop(0, 9)(.., λ(i, a) → a + sum(loop(0, 7)(.., λ(k, b) → .., b)), a)    the inner loop is invariant and runs once


def loop_invariants(fencil: Fencil, facts: AbsenceAnalysis) -> dict[int, tuple[Expr, ...]]:
    """The functions with such loops, by identity, and these.

    One that checks or prints something, or that nothing is known to end, is taken out only where it runs in any case;
    none is taken out of a function that a conditional may not apply.

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
    everything = list(postorder(*roots))
    if sum(map(_repeats, everything)) < 2:
        return {}
    around, doubtful = set[int](), set[int]()
    for node in everything:
        below = {id(c) for c in node.children}
        if _repeats(node) or not around.isdisjoint(below):
            around.add(id(node))
        endless = isinstance(node, Call) and TABLE[node.op].endless and node.static.limit is None
        if endless or not doubtful.isdisjoint(below) or (isinstance(node, Call) and acts(node, facts)):
            doubtful.add(id(node))
    certain, steps, branches = _certain(roots) - _changing(fencil), _steps(everything), _branches(everything)
    found: dict[int, tuple[Expr, ...]] = {}
    for node in everything:
        if isinstance(node, Lambda) and id(node) in around and id(node) not in branches:
            always = certain | (_certain(node.results) if id(node) in steps else set[int]())
            outer = tuple(_outermost(node, around, doubtful - always))
            if outer:
                found[id(node)] = outer
    return found


def _repeats(node: Expr) -> bool:
    if not isinstance(node, Call):
        return False
    row = TABLE[node.op]
    folds = row.control is Control.FOLD and (row.states or isinstance(node.args[0], Lambda))
    return folds or row.control is Control.LOOP


def _branches(nodes: Sequence[Expr]) -> set[int]:
    """The functions of which a conditional applies one."""
    calls = (node for node in nodes if isinstance(node, Call) and TABLE[node.op].control is Control.BRANCHES)
    return {id(f) for node in calls for f in node.args if isinstance(f, Lambda)}


def _certain(roots: Sequence[Expr]) -> set[int]:
    """Nodes that are evaluated where the roots are, in any case."""
    needs = control_dependence(roots, (), bodies=False)
    return {key for key in needs.of if needs.certain(key)}


def _changing(fencil: Fencil) -> set[int]:
    """Expressions that closures share although one of them writes an operand: their value is not the same for all."""
    first: dict[int, int] = {}
    found: set[int] = set()
    written = [c.output for c in fencil.closures]
    for k, root in enumerate(values(fencil.closures)):
        for node in postorder(root):
            begin = first.setdefault(id(node), k)
            if not node.free.isdisjoint(written[begin:k]):
                found.add(id(node))
    return found


def _steps(nodes: Sequence[Expr]) -> set[int]:
    """The functions that loops repeat, each of them once at least."""
    found, others = set[int](), set[int]()
    for node in nodes:
        match node:
            case Call(op, (Lambda(_, (Literal(True),)), step, *_), (_, limit)) if limit and TABLE[op].endless:
                found.add(id(step))
            case _:
                others.update(map(id, node.children))
    return found - others


def _outermost(function: Lambda, around: Container[int], doubtful: Container[int]) -> Iterator[Expr]:
    """The loops in a body that use no variable of it, and may run where the function stands."""
    own = {p for n in postorder(*function.results) if isinstance(n, Lambda) for p in n.params}.union(function.params)
    seen: set[int] = set()
    stack: list[Expr] = list(function.results)
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) not in around:
            continue
        seen.add(id(node))
        if _repeats(node) and id(node) not in doubtful and node.free.isdisjoint(own):
            yield node
        else:
            stack += node.children
