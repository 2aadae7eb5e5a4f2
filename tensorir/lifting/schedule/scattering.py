"""Places that data tell: scatters, look-ups, and checks that they are inside."""

# pyright: basic, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tensorir.integers.affine import Affine, number, variable
from tensorir.ir.build import call, operator, reduce
from tensorir.ir.nodes import Call, Expr, Lambda, Operator, Var
from tensorir.ir.rewrite import rebuild
from tensorir.ir.types import BOOL, INT32, Interval, TensorType, bcast
from tensorir.lifting.accesses.space import boxed, in_order
from tensorir.lifting.dataflow.flow import box_of, condition_of, domain_of, set_of
from tensorir.lifting.dataflow.statements import Scatter, Statement, Uncovered
from tensorir.lifting.emission.stores import holding, scatter
from tensorir.lifting.emission.tensors import cut, renamed, spread
from tensorir.lifting.nests.linear import settled, term_of
from tensorir.lifting.nests.terms import Buffer, Linear, Load, Number, Op, Term, children, index_names, loads, rebuilt
from tensorir.lifting.schedule.placed import Made, short_names, with_indices
from tensorir.runtime.errors import NOWHERE, Span

if TYPE_CHECKING:
    from tensorir.lifting.schedule.run import Run

# Expressions for one iteration as expressions for all of them: operands get dims, and what combines them follows.


def applied(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression with variables replaced by tensors of more dims, which all broadcast by name.

    >>> from tensorir.text import parse_expr
    >>> from tensorir.ir.types import tensor
    >>> x = Var("x", tensor("float", K=(0, 3)))
    >>> e = parse_expr("reduce(+, 0.0, K)(x)", [x])
    >>> applied(e, {x: Var("y", tensor("float", K=(0, 3), I=(0, 2)))}).type
    tensor<float, I[0:2]>
    """
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if node.free.isdisjoint(values):
            done[id(node)] = node
        elif isinstance(node, Var):
            done[id(node)] = values[node]
        elif isinstance(node, Lambda):
            raise Uncovered("a function over values of a loop")
        elif not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in node.children if id(c) not in done)
        else:
            done[id(node)] = _made(node, tuple(done[id(c)] for c in node.children))
    return done[id(e)]


def _made(node: Expr, children: tuple[Expr, ...]) -> Expr:
    match node:
        case Call("reduce", (Operator(op), *_), (dim,)):
            _, init, x = children
            rest = x.tensor.on(x.tensor.dims.without(dim))
            state = TensorType(node.tensor.element, bcast([rest, init.tensor]))
            return reduce(operator(op, state, rest), init, x, dim=dim, span=node.span)
        case Call("reduce" | "scan" | "loop"):
            raise Uncovered("a fold of several tensors over values of a loop")
        case Call("add_dim" | "pos" | "subset" | "update" | "concat"):
            return call(node.op, *children, static=node.static, span=node.span)
        case _:
            return rebuild(node, children)


# Reads and writes whose places data tell: a read of all elements that is looked up, a scatter into what was there.

# islpy has no types of its own that say enough.


def looked_up(found: Term, places: Mapping[str, tuple[Term, int]], span: Span = NOWHERE) -> Term:
    """The element at places that terms tell, each of so many along its dim; zero outside. `span` is the read's.

    >>> from tensorir.lifting.nests.terms import show
    >>> a, i = Buffer("A", INT32, (8,)), Load(Buffer("I", INT32, ()), ())
    >>> show(looked_up(Load(a, (Linear(variable("x"), INT32),)), {"x": (i, 8)}))
    'A[I[]]'
    """

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(affine) if affine.names & places.keys():
                return _with_terms(affine, places)
            case Load(buffer, indices, at) if at is NOWHERE and span is not NOWHERE:
                return Load(buffer, indices, span)
            case _:
                return None

    term = rebuilt(found, rule)
    if is_whole(found, places):
        return term
    for place, extent in places.values():
        low = Op("greater_equal", (place, Number(0, place.element)), BOOL)
        high = Op("less", (place, Number(extent, place.element)), BOOL)
        term = Op("if", (Op("and", (low, high), BOOL), term, Number(0, term.element)), term.element)
    return term


def is_whole(found: Term, places: Mapping[str, tuple[Term, int]]) -> bool:
    """True if what places are looked up in is a tensor with as many elements along them."""
    return isinstance(found, Load) and all(
        any(isinstance(i, Linear) and i.affine == variable(n) and found.buffer.shape[k] == extent
            for k, i in enumerate(found.indices))
        for n, (_, extent) in places.items()
    )  # fmt: skip


def _with_terms(a: Affine, places: Mapping[str, tuple[Term, int]]) -> Term:
    total: Term | None = None
    known = Affine(tuple((n, c) for n, c in a.terms if isinstance(n, str) and n not in places), a.constant)
    for atom, c in a.terms:
        if isinstance(atom, str) and atom in places:
            part, _ = places[atom]
        elif not isinstance(atom, str):
            inner = _with_terms(atom.inner, places)
            part = Op("floordiv", (inner, Number(atom.by, inner.element)), inner.element)
        else:
            continue
        part = part if c == 1 else Op("multiplies", (part, Number(c, part.element)), part.element)
        total = part if total is None else Op("plus", (total, part), part.element)
    if total is None:
        return term_of(known, INT32)
    if known.terms or known.constant:
        total = Op("plus", (total, term_of(known, total.element)), total.element)
    return total


def scattered(run: Run, s: Statement, found: Scatter) -> Made:
    """The buffer after a scatter, for each iteration of the loops outside."""
    assert s.value is not None
    every = replace(s, loops=found.loops, own=(), at=(), constraints=found.constraints)
    domain = domain_of(every)
    hull = box_of(domain, every.names)
    box = {n: i for n, i in hull.items() if n not in run.steps}
    old = run.statements[run.writers[found.old]]
    outside = {n: i for n, i in run.box(s).items() if n not in dict(s.own)}
    own = dict(s.own)
    tmp = Buffer(s.buffer.name, s.buffer.element, (*(len(i) for i in outside.values()), *s.buffer.shape))
    names = run.emitter.dims_of(tmp, [f"{n}_" for n in outside])
    renames = dict(zip((*outside, *own), names, strict=True))
    whole = {renames[n]: Interval(0, len(i)) for n, i in (*outside.items(), *own.items())}
    there = {n: variable(renames[n]).plus(number(i.start)) for n, i in (*outside.items(), *own.items())}
    before = settled(with_indices(run.found(old), there, run.emitter.scope(whole)), run.emitter.scope(whole))
    run.emitter.tensors[tmp] = spread(cut(run.emitter.emit(before, whole), whole), whole)
    rounds = {n: i for n, i in run.rounds.items() if n in hull}
    holds = condition_of(domain, set_of({**hull, **rounds}, domain, every.names), every.names)
    guards = ([] if holds is None else [holds]) + [run.as_term(g, box) for g in found.guards]
    first = [term_of(variable(n).minus(number(i.start)), INT32) for n, i in outside.items()]
    location = (*first, *(run.as_term(i, box) for i in found.at))
    value = run.as_term(s.value, box)
    for term in (value, *location, *guards):
        for load in loads(term):
            if load.buffer is tmp:
                raise Uncovered("a scatter of what it changes")
    make = in_order if found.op is None or (run.exact and s.buffer.element.is_float) else boxed
    space = make(box, tuple(location), value, tuple(guards), run.emitter.ranges)
    if not space.empty:
        scatter(run.emitter, tmp, space, found.op, s.span)
    return Made(tmp, tuple(variable(n).minus(number(run.box(s)[n].start)) for n in (*outside, *own)))


# What programs that check say: that places which data tell are inside, and that what must hold does.


def verify(run: Run, s: Statement, message: str) -> None:
    """An error where the value of a statement, which must hold, does not."""
    assert s.value is not None
    box, domain = run.box(s), domain_of(s)
    holds = condition_of(domain, set_of({**run.boxes_of(s), **run.rounds}, domain, s.names), s.names)
    x = run.emitter.emit(settled(run.as_term(s.value, box), run.emitter.scope(box)), box, holds)
    if holds is not None:
        x = call("or", call("not", run.emitter.emit(holds, box)), x)
    run.emitter.asserted.append((renamed(cut(x, box), short_names(s)), message, s.span))


def checked(run: Run, s: Statement, box: Mapping[str, Interval], term: Term) -> Made:
    """The tensor of a write of what data say where to find, of which places count in its iterations alone."""
    domain = domain_of(s)
    whole = {**run.boxes_of(s), **box, **run.rounds}
    holds = condition_of(domain, set_of(whole, domain, s.names), s.names) or Number(True, BOOL)
    found = run.placed(s, box, Op("values", (term, holds), BOOL))
    value, safe = children(found.space.value)
    # where conditions of the space hold, the one that is put beside the value is true
    safe = holding([*found.space.guards, *([] if isinstance(safe, Number) and safe.value else [safe])])
    return found.made(run.emitter, s.buffer.element, run.emitter.emit(value, found.space.dims, safe))


def all_of(run: Run, r: Statement, places: Mapping[str, tuple[Term, int]]) -> Term:
    """What a read of all elements finds, as what `places` along some of its dims are looked up in.

    Where it is checked that they are inside, it is one tensor that has these elements and no others.
    """
    found = run.found(r)
    if not run.emitter.checked or not any(loads(p) for p, _ in places.values()):
        return found
    if is_whole(found, places):
        return found
    used = index_names(found)
    here = {n: i for n, i in {**run.box(r), **dict(r.own)}.items() if n in used}
    return run.keep(run.emitter, r.buffer.name, run.read(r, here), here).at({}, {})
