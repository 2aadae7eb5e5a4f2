"""Loops whose rounds data tell, within loops of independent iterations: one loop, whose rounds all iterations take.

Those that have ended wait until the last one ends. What a round hands on, and what stands before such a loop and is
asked for behind it, is memory with an element for each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

from tensorir.integers.affine import Affine, variable
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.lifting.dataflow.opaque import with_values
from tensorir.lifting.emission.tensors import sum_of
from tensorir.lifting.region.nodes import (
    Atomic,
    Buffer,
    Carried,
    For,
    If,
    Index,
    Let,
    Node,
    Read,
    Rule,
    While,
    Write,
    results,
    uses,
    walk,
    whole_of,
)

Nodes = tuple[Node, ...]


def abreast(nodes: Nodes) -> Nodes:
    """The nodes with one loop in the place of those that data end in each of some independent iterations."""
    found: list[Node] = []
    for node in nodes:
        loops: list[For] = []
        body: Nodes = (node,)
        while len(body) == 1 and isinstance(body[0], For) and body[0].rule is Rule.INDEPENDENT:
            loops.append(body[0])
            body = body[0].body
        if any(map(_waits, body)):
            several = tuple(loop for loop in loops if loop.stop != Affine((), 1))
            found += _Abreast(several).spread(body, None, frozenset())
        else:
            found.append(node)
    return tuple(found)


def _waits(node: Node) -> bool:
    return any(
        isinstance(n, While) or (isinstance(n, For) and (isinstance(n.start, Var) or isinstance(n.stop, Var)))
        for n in walk((node,))
    )


@dataclass(slots=True)
class _Abreast:
    """The iterations of some loops, all taking their rounds together."""

    loops: tuple[For, ...]
    kept: dict[Var, Buffer] = field(default_factory=dict[Var, Buffer])
    """The memory of values, with an element for each iteration."""
    choices: dict[If, Var] = field(default_factory=dict[If, Var])
    """The mask of iterations that take the first branch of a choice."""
    count: int = 0

    def spread(self, nodes: Sequence[Node], active: Buffer | None, after: frozenset[Var]) -> Nodes:
        """Nodes of one iteration for all that are `active`; values that are asked for `after` them are kept."""
        made: list[Node] = []
        together: list[Node] = []
        for k, node in enumerate(nodes):
            later = after.union(*map(uses, nodes[k + 1 :]))
            if not _waits(node):
                together.append(node)
                continue
            match node:
                case For(_, Affine() as start, Affine() as stop, body) if not self.differs(start, stop):
                    pairs = self.carried(node.carried, together)
                    made += self.group(together, active, later | uses(node))
                    again = self.spread((*body, *self.handed_on(pairs)), active, frozenset())
                    made.append(replace(node, body=again, carried=()))
                    together = []
                case For():
                    while_, first = self.counted(node)
                    return *made, *self.spread((*together, first, while_, *nodes[k + 1 :]), active, after)
                case While():
                    pairs = self.carried(node.carried, together)
                    made += self.group(together, active, later | uses(node))
                    made.append(self.rounds(node, pairs, active))
                    together = []
                case If(_, body, otherwise, joined) if not self.loops:
                    body = self.branch(body, [j.value for j in joined])
                    otherwise = self.branch(otherwise, [j.otherwise for j in joined])
                    made += (*self.group(together, None, later), replace(node, body=body, otherwise=otherwise))
                    together = []
                case If():
                    made += self.choice(node, together, active, later)
                    together = [Let(j.result, call("if", self.taken(node), j.value, j.otherwise)) for j in node.joined]
                case _:
                    raise AssertionError(node)
        return (*made, *self.group(together, active, after))

    # Values

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}_each{self.count}"

    def keep(self, v: Var) -> Buffer:
        """The memory of a value."""
        if v not in self.kept:
            element = v.type.element
            assert isinstance(element, Scalar)
            around = tuple((loop.dim, _extent(loop)) for loop in self.loops)
            dims = (*around, *((n, i.stop) for n, i in v.type.dims.items))
            self.kept[v] = Buffer(self.fresh(v.name), element, dims)
        return self.kept[v]

    def at(self, v: Var | None = None) -> tuple[Affine, ...]:
        """The element of an iteration."""
        return *(variable(loop.dim) for loop in self.loops), *whole_of(() if v is None else v.type.dims.items)

    def put(self, v: Var, value: Expr) -> Write:
        return Write(self.keep(v), self.at(v), value)

    def group(self, nodes: Sequence[Node], active: Buffer | None, after: frozenset[Var]) -> Nodes:
        """Nodes without such loops, in a nest of their own."""
        if not nodes:
            return ()
        asked = frozenset[Var]().union(*map(uses, nodes)) & self.kept.keys()
        body: list[Node] = [*self.kept_values(asked), *nodes]
        if self.loops:
            own = [v for n in nodes for v in results(n)]
            body += [self.put(v, v) for v in own if v in after and v not in asked]
        return self.nest(body, active)

    def kept_values(self, asked: Set[Var]) -> Iterator[Node]:
        for v in sorted(asked, key=lambda v: v.name):
            here = Var(self.fresh(v.name), v.type)
            yield from (Read(here, self.kept[v], self.at(v)), Let(v, here))

    def branch(self, nodes: Nodes, values: Sequence[Expr]) -> Nodes:
        """A branch of a choice of one iteration, and what its loops leave that its values ask for."""
        made = self.spread(nodes, None, frozenset())
        left = frozenset(v for node in nodes for v in results(node)) & self.kept.keys()
        return *made, *self.kept_values(left & frozenset[Var]().union(*(e.free for e in values)))

    def nest(self, body: Sequence[Node], active: Buffer | None = None) -> Nodes:
        """The nodes for all iterations, or for those that are active."""
        made = tuple(body)
        if active is not None:
            here = Var(self.fresh("active"), TensorType(BOOL))
            made = (Read(here, active, self.at()), If((here,), made))
        for loop in reversed(self.loops):
            made = (replace(loop, body=made),)
        return made

    # Loops

    def differs(self, *bounds: Affine) -> bool:
        """True if iterations have other bounds."""
        return any(a.names & {loop.dim for loop in self.loops} for a in bounds)

    def carried(self, carried: Sequence[Carried], before: list[Node]) -> list[Carried]:
        """The carry of a loop as memory, which is initialised before it."""
        before += [self.put(c.inside, c.first) for c in carried]
        self.kept.update({c.result: self.keep(c.inside) for c in carried})
        return list(carried)

    def handed_on(self, carried: Sequence[Carried]) -> Nodes:
        """All next values, and then each as what the next round finds."""
        new = [Var(self.fresh(c.inside.name), c.inside.type) for c in carried]
        lets = [Let(v, c.next) for v, c in zip(new, carried, strict=True)]
        return (*lets, *(self.put(c.inside, v) for v, c in zip(new, carried, strict=True)))

    def rounds(self, node: While, carried: Sequence[Carried], active: Buffer | None) -> While:
        """One while, which goes on as long as any iteration does."""
        going, more = Var(self.fresh("going"), TensorType(BOOL)), Var(self.fresh("more"), TensorType(BOOL))
        if not self.loops:
            test = self.group((*node.before, Let(more, node.condition)), None, frozenset())
            body = self.spread((*node.body, *self.handed_on(carried)), None, frozenset())
            return replace(node, before=test, condition=more, body=body, carried=())
        own = self.keep(going)
        test = self.group((*node.before, Let(going, node.condition), self.put(going, going)), active, frozenset())
        every, one = Buffer(self.fresh("any"), BOOL, ()), Var(self.fresh("going"), TensorType(BOOL))
        fold = self.nest((Read(one, own, self.at()), Atomic(None, every, (), "or", one)))
        test = (*test, Write(every, (), literal(False, BOOL)), *fold, Read(more, every, ()))
        body = self.spread((*node.body, *self.handed_on(carried)), own, frozenset())
        return replace(node, before=test, condition=more, body=body, carried=())

    def counted(self, node: For) -> tuple[While, Let]:
        """A loop whose bounds data, or iterations, tell as a while that counts."""
        index, end = Var(node.dim, TensorType(INT32)), Var(self.fresh("stop"), TensorType(INT32))
        after = Var(self.fresh(node.dim), index.type)
        counter = Carried(index, _value(node.start), call("plus", index, literal(1, INT32)), after)
        body = tuple(n for inner in node.body for n in with_values(inner, {node.dim}, self.fresh))
        made = While((), call("less", index, end), body, (counter, *node.carried), node.span, None, node.dim)
        return made, Let(end, _value(node.stop))

    def choice(self, node: If, before: Sequence[Node], active: Buffer | None, after: frozenset[Var]) -> Iterator[Node]:
        """Both branches, each under the mask of the iterations that take it."""
        yes, no = self.taken(node), Var(self.fresh("other"), TensorType(BOOL))
        false, true = literal(False, BOOL), literal(True, BOOL)
        yield from self.nest([self.put(v, false) for v in (yes, no)])
        which = If(node.conditions, (self.put(yes, true),), (self.put(no, true),), (), node.span)
        yield from self.group((*before, which), active, after | uses(node))
        asked = after.union(*(j.value.free | j.otherwise.free for j in node.joined))
        yield from self.spread(node.body, self.keep(yes), asked)
        yield from self.spread(node.otherwise, self.keep(no), asked)

    def taken(self, node: If) -> Var:
        return self.choices.setdefault(node, Var(self.fresh("taken"), TensorType(BOOL)))


def _extent(loop: For) -> int:
    assert isinstance(loop.stop, Affine)
    return loop.stop.constant


def _value(i: Index) -> Expr:
    return i if isinstance(i, Var) else sum_of(i, {n: Var(n, TensorType(INT32)) for n in i.names})
