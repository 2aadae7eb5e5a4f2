"""Loops in the body of a function that need nothing of the function's own: they run once, where the function stands.

XLA takes much that is the same in every round out of a loop, but no loops. Folds by functions are loops, too: one that
is written out would be written out again in every round of those that follow it.

    loop(0, 9)(.., λ(i, a) → a + sum(loop(0, 7)(.., λ(k, b) → .., b)), a)    b is of no round: the inner loop runs once
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.analysis.choices import acts
from tensorir.analysis.control_dependence import control_dependence
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal
from tensorir.ir.rewrite import postorder, values

__all__ = ["loop_invariants"]


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
        endless = isinstance(node, Call) and node.op == "loop" and node.static.limit is None
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
    match node:
        case Call("loop" | "scan") | Call("reduce", (Lambda(), *_)):
            return True
        case _:
            return False


def _branches(nodes: Sequence[Expr]) -> set[int]:
    """The functions of which a conditional applies one."""
    return {id(f) for node in nodes if isinstance(node, Call) and node.op == "cond" for f in node.args[:2]}


def _certain(roots: Sequence[Expr]) -> set[int]:
    """What is evaluated where the roots are, in any case."""
    needs = control_dependence(roots, (), bodies=False)
    return {key for key in needs.of if needs.certain(key)}


def _changing(fencil: Fencil) -> set[int]:
    """What closures share although one of them writes what it reads: its value is not the same for all."""
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
            case Call("loop", (Lambda(_, (Literal(True),)), step, *_), static=(_, limit)) if limit:
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
