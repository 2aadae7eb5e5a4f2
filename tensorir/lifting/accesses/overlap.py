"""Elements that accesses touch, their conditions, and the iterations that touch one element.

Reads under the choices around them: what a branch reads, it reads where it is chosen.

>>> from tensorir.lifting.nests.terms import Buffer, Index, Number, show
>>> from tensorir.ir.types import INT32
>>> i, a = Index("i", INT32), Buffer("A", INT32, (4,))
>>> first = Op("eq", (i, Number(0, INT32)), BOOL)
>>> choice = Op("if", (first, Number(0, INT32), Load(a, (i,))), INT32)
>>> [(show(load), list(map(show, conditions))) for load, conditions in reads_under(choice)]
[('A[i]', ['not(eq(i, 0))'])]

Which iterations of two accesses touch one element, where indices say it digit by digit: no set has to be made.

Both accesses run over boxes. An index that is one number per value of its variables (`i * 16 + j`, j below 16), and is
the same for both, makes these equal; one of variables that nothing else uses says that two ranges meet.

>>> from tensorir.integers.affine import number, variable
>>> i, j, k = (variable(n) for n in "ijk")
>>> box = {"i": (0, 3), "j": (0, 15), "k": (0, 7)}
>>> overlap([i.times(16).plus(j)], [i.times(16).plus(j)], box, box, ("i", "j", "k"))
Overlap(inside=True, forward=frozenset({2}), backward=frozenset({2}))
>>> overlap([i.plus(j)], [i.plus(j)], box, box, ("i", "j", "k")) is None
True

Sizes of which none is a multiple of another may meet all the same, if the sums are large enough: 3 i + 1 is 2 j at 4.

>>> overlap([i.times(3).plus(number(1))], [j.times(2)], box, box, ()) is None
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import gcd

from tensorir.integers.affine import Affine, Quotient, Ranges, quotient, remainder, variable
from tensorir.integers.dims import Interval
from tensorir.ir.types import BOOL, Scalar
from tensorir.lifting.accesses.sets import condition_text, conjuncts, decided, domain, integer_set, point, text
from tensorir.lifting.accesses.space import bounds_of_guard, digits, value_of_guard
from tensorir.lifting.nests.linear import affine_of, linear, settled, term_of
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Node, Store, While, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Op, Term, always, children, rebuilt
from tensorir.runtime.memory import remembered


@dataclass(frozen=True, slots=True)
class Step:
    """One variable: the index that tells it, its sign, what else that holds, and which digit of the rest it is.

    The digit is `rest // by % size`, and without the remainder where there is no size.
    """

    name: str
    index: int
    sign: int
    others: Affine
    by: int = 1
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Inverse:
    """A step per variable, in an order in which they follow.

    `rest` are indices that say nothing more, and must be what they are for the iteration that the others tell.
    """

    steps: tuple[Step, ...]
    rest: tuple[tuple[int, Affine], ...]
    parted: Mapping[str, Affine]
    """Variables that are divided, as sums of a quotient and a remainder, which are variables in their place."""
    remainders: Mapping[str, int]

    def at(self, indices: Sequence[Affine], ranges: Ranges) -> dict[str, Affine] | None:
        """The iteration that stores the element at some indices; None where they are not known to be those of one.

        It lacks the variables that the indices do not tell: `t % 2` tells no `t // 2`, and therefore no `t`.
        """
        found: dict[str, Affine] = {}
        for s in self.steps:
            left = indices[s.index].minus(s.others.replaced(found, ranges)).times(s.sign)
            left = quotient(left, s.by, ranges)
            found[s.name] = left if s.size is None else remainder(left, s.size, ranges)
        for k, a in self.rest:
            left = indices[k].minus(a.replaced(found, ranges))
            if left.range(ranges) != (0, 0):
                return None
        for name, by in self.remainders.items():
            spread = found[name].range(ranges)
            if spread is None or spread[0] < 0 or spread[1] >= by:
                return None
        return found | {n: a.replaced(found, ranges) for n, a in self.parted.items() if a.names <= found.keys()}


def inverse(location: Sequence[Affine], dims: Mapping[str, Interval]) -> Inverse | None:
    """The variables of a store whose elements tell them one after the other; None where they do not.

    `18*(t // 4) + 4*(t % 4) + j`, j below 2, tells the quotient of t, then its remainder, and then j.
    """
    pending = dict(enumerate(location))
    parted, remainders, dims = dict[str, Affine](), dict[str, int](), dict(dims)
    for atom in [t for a in pending.values() for t, _ in a.terms if isinstance(t, Quotient)]:
        name, by = atom.inner.bare_name, atom.by
        if name in dims and atom.inner == variable(name) and dims[name].start == 0 and dims[name].stop % by == 0:
            over, left = f"{name} // {by}", f"{name} % {by}"
            parted[name], remainders[left] = variable(over).times(by).plus(variable(left)), by
            dims |= {over: Interval(0, dims.pop(name).stop // by), left: Interval(0, by)}
    if parted:
        ranges = {n: (i.start, i.stop - 1) for n, i in dims.items()}
        pending = {k: a.replaced(parted, ranges) for k, a in pending.items()}
    steps: list[Step] = []
    known: set[str] = set()
    while True:
        found = next((s for k, a in pending.items() if (s := _one(k, a, known))), None)
        found = found or next((s for k, a in pending.items() if (s := _digit_steps(k, a, known, dims))), None)
        if found is None:
            if (leading := next((s for k, a in pending.items() if (s := _leading(k, a, known, dims))), None)) is None:
                break
            steps.append(leading)
            known.add(leading.name)
            continue
        steps += found
        known |= {s.name for s in found}
        del pending[found[0].index]
    if not remainders.keys() <= known or any(not a.names <= known for a in pending.values()):
        return None
    return Inverse(tuple(steps), tuple(pending.items()), parted, remainders)


def _leading(k: int, a: Affine, known: set[str], dims: Mapping[str, Interval]) -> Step | None:
    """The variable of which an index is a multiple that all others together do not reach."""
    new, others = _new(a, known)
    if len(new) < 2 or not others.names <= known or any(c < 1 or dims[n].start for n, c in new):
        return None
    name, by = max(new, key=lambda t: t[1])
    reach = sum(c * (dims[n].stop - 1) for n, c in new if n != name)
    return Step(name, k, 1, others, by) if reach < by else None


def _one(k: int, a: Affine, known: set[str]) -> list[Step]:
    """The one variable that an index tells beside those that are known."""
    new, others = _new(a, known)
    if len(new) != 1 or abs(new[0][1]) != 1 or not others.names <= known:
        return []
    ((name, c),) = new
    return [Step(name, k, c, others)]


def _digit_steps(k: int, a: Affine, known: set[str], dims: Mapping[str, Interval]) -> list[Step]:
    """The variables that are the digits of an index, beside those that are known."""
    new, others = _new(a, known)
    names = digits(Affine(tuple(new)), dims)
    if not names or not others.names <= known:
        return []
    first, *rest = names
    by = dict(new)
    # the most significant digit may start anywhere, and leave its interval: the others do not reach so far
    return [Step(first, k, 1, others, by[first]), *(Step(n, k, 1, others, by[n], len(dims[n])) for n in rest)]


def _new(a: Affine, known: set[str]) -> tuple[list[tuple[str, int]], Affine]:
    """The terms of an index that are variables which are not known, and the rest of it."""
    new = [(n, c) for n, c in a.terms if isinstance(n, str) and n not in known]
    return new, Affine(tuple(t for t in a.terms if t not in new), a.constant)


def at_iteration(term: Term, values: Mapping[str, Affine], as_term: Callable[[Affine, Scalar], Term] = term_of) -> Term:
    """A term of a store at one of its iterations, of whose sums terms are made."""

    def rule(t: Term) -> Term | None:
        match t:
            case Index(name, element) if name in values:
                return as_term(values[name], element)
            case Linear(affine, element) if affine.names & values.keys():
                return as_term(affine.replaced(values, {}), element)
            case _:
                return None

    return rebuilt(term, rule)


def last_store(nodes: Sequence[Node], buffer: Buffer, at: Sequence[int]) -> Store | None:
    """The store to an element that runs last; one of which data tell whether or where is taken to store there."""
    found: list[tuple[tuple[int, ...], Store]] = []
    for leaf in leaves(nodes):
        match leaf.node:
            case Store(other) as node if other is buffer:
                last = _last_round(leaf, node, at)
                if last is not None:
                    found.append((last, node))
            case _:
                pass
    return max(found, key=lambda pair: pair[0], default=(None, None))[1]


def _last_round(leaf: Leaf, node: Store, at: Sequence[int]) -> tuple[int, ...] | None:
    """The turn of the last iteration of a store to an element, None where there is none."""
    ranges = ranges_of(leaf.loops)
    here = domain(leaf, ranges, (), "")
    places = [linear(index, ranges) for index in node.indices]
    told = [f"{text(a, here.names)} = {k}" for a, k in zip(places, at, strict=True) if a is not None]
    rounds = integer_set([*here.names.values()], [*here.constraints, *told])
    last = decided(lambda: None if rounds.is_empty() else point(rounds.lexmax()), 0.2)
    return None if last is None else tuple(chain.from_iterable(zip_longest(leaf.place, last, fillvalue=0)))


# How statements touch a buffer: whether they read or write it, and where, as far as indices are sums.

Places = tuple[tuple[bool, tuple[Affine | None, ...]], ...]
"""Accesses of a buffer: whether they write, and their indices where they are sums."""


def places(leaf: Leaf, buffer: Buffer) -> Places:
    """The access maps of a statement to a buffer, each once."""
    return _places_in(leaf.node, leaf.loops, buffer)


@remembered("facts of nests", limit=4096)
def _places_in(node: Store | While | Check | External, loops: tuple[Loop, ...], buffer: Buffer) -> Places:
    ranges = ranges_of(loops)
    found: list[tuple[bool, tuple[Affine | None, ...]]] = []
    if isinstance(node, Store) and node.buffer is buffer:
        found.append((True, tuple(linear(i, ranges) for i in node.indices)))
    for load in Leaf(node, loops, ()).reads:
        if load.buffer is buffer:
            place = (False, tuple(linear(i, ranges) for i in load.indices))
            if place not in found:
                found.append(place)
    return tuple(found)


MOST_CONDITIONS = 16
"""Under how many sets of conditions one term is looked at."""

Seen = dict[int, list[set[tuple[int, bool]]]]
"""By term, the sets of conditions under which it was met, all by identity."""


def reads_under(
    term: Term, conditions: tuple[Term, ...] = (), seen: Seen | None = None
) -> Iterator[tuple[Load, tuple[Term, ...]]]:
    """Every read in a term with the conditions of the choices around it, unless it is known under fewer."""
    for part, around in parts_under(term, _is_read, conditions, seen):
        assert isinstance(part, Load)
        yield part, around


def _is_read(term: Term) -> bool:
    return isinstance(term, Load)


def parts_under(
    term: Term, wanted: Callable[[Term], bool], conditions: tuple[Term, ...] = (), seen: Seen | None = None
) -> Iterator[tuple[Term, tuple[Term, ...]]]:
    """Every part of a term that is wanted with the conditions of the choices around it, unless it is known under fewer.

    What is not looked at under more sets of conditions than `MOST_CONDITIONS` is not given: `seen` tells.
    """
    seen = {} if seen is None else seen
    here = {(id(c.args[0]), False) if isinstance(c, Op) and c.op == "not" else (id(c), True) for c in conditions}
    known = seen.setdefault(id(term), [])
    if len(known) >= MOST_CONDITIONS or any(fewer <= here for fewer in known):
        return
    known.append(here)
    if wanted(term):
        yield term, conditions
    match term:
        case Op("if", (c, yes, no)):
            yield from parts_under(c, wanted, conditions, seen)
            other = always(no)
            for both in [t for key, t in always(yes).items() if key in other]:
                yield from parts_under(both, wanted, conditions, seen)
            yield from parts_under(yes, wanted, (*conditions, c), seen)
            yield from parts_under(no, wanted, (*conditions, Op("not", (c,), BOOL)), seen)
        case _:
            for child in children(term):
                yield from parts_under(child, wanted, conditions, seen)


Box = Mapping[str, tuple[int, int]]
"""The least and the greatest value of each variable."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """True if both touch one element in one iteration of all common loops, and which loops carry that to another."""

    inside: bool
    forward: frozenset[int]
    backward: frozenset[int]


NOWHERE = Overlap(False, frozenset(), frozenset())


def box_of(leaf: Leaf, ranges: Ranges, guards: int | None = None) -> Box | None:
    """The iterations of a leaf as a box; None where its bounds or guards say more than that.

    A guard that depends on data says nothing, here as for sets. `guards`: only so many of them have to hold.
    """
    box: dict[str, tuple[int, int]] = {}
    for loop in leaf.loops:
        low, extent = linear(loop.low, ranges), linear(loop.extent, ranges)
        if low is None or extent is None or not (low.is_number and extent.is_number):
            return None
        box[loop.name] = (low.constant, low.constant + extent.constant - 1)
    for guard in leaf.node.guards[:guards]:
        for part in conjuncts(settled(guard, ranges)):
            one, value = bounds_of_guard(part), value_of_guard(part)
            if one is not None and one[0] in box:
                name, bound, upper = one
                low, high = box[name]
                box[name] = (low, min(high, bound)) if upper else (max(low, bound), high)
            elif value is not None and value[0] in box:
                name, at = value
                box[name] = (max(box[name][0], at), min(box[name][1], at))
            elif (ends := _at_an_end(part, box)) is not None:
                box.update(ends)
            elif condition_text(part, {n: n for n in ranges}) is not None:
                return None
    return box


def _at_an_end(part: Term, box: Box) -> dict[str, tuple[int, int]] | None:
    """The variables of a sum that a condition holds at its least, or its greatest, value."""
    match part:
        case Op("eq", (p, q)):
            x, y = affine_of(p), affine_of(q)
        case _:
            return None
    if x is None or y is None:
        return None
    difference = x.minus(y)
    if not difference.is_linear or not difference.names <= box.keys():
        return None
    spread = difference.range(box)
    if spread is None or 0 not in spread:
        return None
    ends = {n: box[n][0 if (c > 0) == (spread[0] == 0) else 1] for n, c in difference.terms if isinstance(n, str)}
    return {n: (end, end) for n, end in ends.items()}


def overlap(
    x: Sequence[Affine | None], y: Sequence[Affine | None], a: Box, b: Box, shared: Sequence[str]
) -> Overlap | None:
    """Iterations whose accesses touch one element, by the indices of both; None for indices of another form."""
    if any(low > high for box in (a, b) for low, high in box.values()):
        return NOWHERE
    equations: list[tuple[list[_Digit], int]] = []
    for i, j in zip(x, y, strict=True):
        if i is not None and j is not None:
            if not (i.is_linear and j.is_linear and i.names <= a.keys() and j.names <= b.keys()):
                return None
            parts = _digits(i.constant - j.constant, [*_terms(0, i, a), *_terms(1, j.times(-1), b)])
            if parts is None:
                return None
            equations += parts
    uses = Counter((side, name) for members, _ in equations for side, _, name in members)
    boxes = (dict(a), dict(b))
    common, fixed = set(shared), set[str]()
    for members, total in equations:
        if not members:
            if total:
                return NOWHERE
        elif len(members) == 1:
            ((side, sign, name),) = members
            low, high = boxes[side][name]
            boxes[side][name] = (max(low, sign * total), min(high, sign * total))
        elif _same(members) and members[0][2] in common:
            if total:
                return None
            fixed.add(members[0][2])
        elif any(uses[side, name] > 1 or name in common for side, _, name in members):
            return None
        else:
            spans = [boxes[side][name] if sign > 0 else _minus(boxes[side][name]) for side, sign, name in members]
            if not sum(low for low, _ in spans) <= total <= sum(high for _, high in spans):
                return NOWHERE
    return _carried(*boxes, shared, fixed)


_Digit = tuple[int, int, str]
"""Whose variable, its sign, and its name."""


def _terms(side: int, i: Affine, box: Box) -> list[tuple[int, int, str, tuple[int, int]]]:
    """The variables of an index: coefficient, side, name, and range."""
    return [(c, side, n, box[n]) for n, c in i.terms if isinstance(n, str)]


def _digits(constant: int, terms: list[tuple[int, int, str, tuple[int, int]]]) -> list[tuple[list[_Digit], int]] | None:
    """A sum that is zero as one sum per size of coefficient, with its total; None where sizes are no digits."""
    groups: dict[int, list[_Digit]] = {}
    spans: dict[int, tuple[int, int]] = {}
    for c, side, name, (low, high) in terms:
        if low == high:
            constant += c * low
            continue
        groups.setdefault(abs(c), []).append((side, 1 if c > 0 else -1, name))
        before = spans.get(abs(c), (0, 0))
        spans[abs(c)] = (before[0] + min(c * low, c * high), before[1] + max(c * low, c * high))
    sizes = sorted(groups)
    if not sizes or constant % gcd(*sizes):
        return [([], constant)]
    low = high = constant
    for k, size in enumerate(sizes):
        if k and not (-size < low and high < size):
            return None
        low, high = low + spans[size][0], high + spans[size][1]
    # each is a digit of its own, and the constant is one of the smallest
    least, *others = sizes
    if constant % least:
        return [([], constant)]
    return [(groups[least], -constant // least), *((groups[size], 0) for size in others)]


def _same(members: Sequence[_Digit]) -> bool:
    """True if a sum is the difference of one variable at both ends."""
    return len(members) == 2 and members[0][2] == members[1][2] and members[0][1] == -members[1][1]


def _minus(span: tuple[int, int]) -> tuple[int, int]:
    return -span[1], -span[0]


def _carried(a: Box, b: Box, shared: Sequence[str], fixed: set[str]) -> Overlap:
    if any(low > high for box in (a, b) for low, high in box.values()):
        return NOWHERE
    if any(_apart(a[n], b[n]) for n in fixed):
        return NOWHERE
    forward: set[int] = set()
    backward: set[int] = set()
    for k, n in enumerate(shared):
        if n not in fixed:
            if a[n][0] < b[n][1]:
                forward.add(k)
            if a[n][1] > b[n][0]:
                backward.add(k)
        if _apart(a[n], b[n]):
            return Overlap(False, frozenset(forward), frozenset(backward))
    return Overlap(True, frozenset(forward), frozenset(backward))


def _apart(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[1] < b[0] or b[1] < a[0]
