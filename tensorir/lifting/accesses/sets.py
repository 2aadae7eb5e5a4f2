"""Iterations and accesses as exact sets of integers (isl): what is empty, and a point of what is not.

Only parts that are sums, quotients and comparisons of indices take part; what depends on data is left out, which makes
a set larger than it is, and `exact` says so.

>>> from tensorir.integers.affine import number, quotient, variable
>>> text(quotient(variable("i").plus(number(1)), 4, {}), {"i": "a"})
'floor((a + 1)/4)'
"""

# islpy has no types of its own that say enough.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tensorir.integers.affine import Affine, Ranges, number
from tensorir.integers.sets import isl
from tensorir.ir.types import BOOL
from tensorir.lifting.nests.linear import COMPARISONS, affine_of, linear, settled
from tensorir.lifting.nests.nest import Leaf, Loop
from tensorir.lifting.nests.terms import Number, Op, Term, loads
from tensorir.runtime.memory import remembered

T = TypeVar("T")
_SIGNS = {"eq": "=", "not_eq": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}


def integer_set(names: Sequence[str], constraints: Sequence[str]) -> Any:
    """The set of integer points for which all constraints hold."""
    condition = f" : {' and '.join(constraints)}" if constraints else ""
    return _read(f"{{ [{', '.join(names)}]{condition} }}")


@remembered("facts of nests", limit=1024)
def _read(text: str) -> Any:
    """Unrolled loops ask for the same few sets over and over, and to read one takes isl a millisecond."""
    return isl().Set(text)


EFFORT = 1_000_000
"""Steps of isl after which a question about sets counts as undecided: about two seconds."""


_EXHAUSTED = "maximal number of operations"
_CONSEQUENCES = ("failed to copy arg self", "syntax error")
"""What else fails then: what is asked of a result that is not there, and to read a set."""


def decided(question: Callable[[], T], times: float = 1) -> T | None:
    """The answer to a question about sets; None where isl would need more than so many times EFFORT steps for it."""
    context = isl().DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(round(times * EFFORT))
    try:
        return question()
    except isl().Error as error:
        if not any(word in str(error) for word in (_EXHAUSTED, *_CONSEQUENCES)):
            raise
        return None
    except TypeError:  # the text of a result that is not there is None
        if not _is_exhausted():
            raise
        return None
    finally:
        context.set_max_operations(0)


def _is_exhausted() -> bool:
    """True if isl's budget is spent: then its smallest operation fails, or gives nothing."""
    try:
        return isl().Val(1).add(isl().Val(1)).to_str() is None
    except isl().Error:
        return True


def point(found: Any) -> tuple[int, ...]:
    """The first point of a set that is not empty, in the order of its names."""
    try:
        sample = found.lexmin().sample_point()
    except isl().Error as error:
        if _EXHAUSTED in str(error):
            raise
        sample = found.coalesce().lexmin().sample_point()  # isl fails on some forms of a set
    count = sample.get_space().dim(isl().dim_type.set)
    return tuple(sample.get_coordinate_val(isl().dim_type.set, k).to_python() for k in range(count))


def text(affine: Affine, names: Mapping[str, str]) -> str:
    """A sum as isl writes it, variables under the names given."""
    parts: list[str] = []
    for atom, c in affine.terms:
        shown = names[atom] if isinstance(atom, str) else f"floor(({text(atom.inner, names)})/{atom.by})"
        parts.append(shown if c == 1 else f"{c}*{shown}")
    if affine.constant or not parts:
        parts.append(str(affine.constant))
    return " + ".join(parts)


def same_element(
    a: Sequence[Affine | None], b: Sequence[Affine | None], shape: Sequence[int], of_a: Mapping[str, str],
    of_b: Mapping[str, str], ranges_of_a: Ranges, ranges_of_b: Ranges,
) -> list[str]:  # fmt: skip
    """That indices name one element of a buffer, as far as they are sums, the variables of each under other names.

    Where they have quotients the place row by row comes first: it follows from them, and if it has none, isl makes a
    set that is told it much faster. Where all indices but the first stay inside, it says all.

    >>> from tensorir.integers.affine import quotient, remainder, variable
    >>> i, by = variable("i"), {"i": (0, 11)}
    >>> digits = [quotient(i, 4, by), remainder(i, 4, by)]
    >>> same_element(digits, digits, [3, 4], {"i": "a"}, {"i": "b"}, by, by)
    ['a = b']
    """
    known = [
        (i, j, extent)
        for i, j, extent in zip(a, b, shape, strict=True)
        if i is not None and j is not None and i.names <= of_a.keys() and j.names <= of_b.keys()
    ]
    pairs = [(i, j) for i, j, _ in known]
    if not all(i.is_linear and j.is_linear for i, j in pairs):
        p = q = number(0)
        for i, j, extent in known:
            p, q = p.times(extent).plus(i), q.times(extent).plus(j)
        if all(_inside(i, n, ranges_of_a) and _inside(j, n, ranges_of_b) for i, j, n in known[1:]):
            pairs = [(p, q)]
        elif p.is_linear and q.is_linear:
            pairs = [(p, q), *pairs]
    return [f"{text(i, of_a)} = {text(j, of_b)}" for i, j in pairs]


def _inside(index: Affine, extent: int, ranges: Ranges) -> bool:
    spread = index.range(ranges)
    return spread is not None and spread[0] >= 0 and spread[1] < extent


Unknown = Callable[[Term], str | None]
"""What stands for a condition that depends on data, as isl writes it; None where nothing does."""


def condition_text(term: Term, names: Mapping[str, str], unknown: Unknown = lambda _: None) -> str | None:
    """A settled condition as isl writes it; None where a part of it depends on data that `unknown` has no word for.

    >>> from tensorir.integers.affine import variable
    >>> from tensorir.lifting.nests.terms import Linear
    >>> from tensorir.ir.types import INT32
    >>> i, j = (Linear(variable(n), INT32) for n in "ij")
    >>> extent = Op("if", (Op("eq", (i, Number(0, INT32)), BOOL), Number(2, INT32), Number(3, INT32)), INT32)
    >>> condition_text(Op("less", (j, extent), BOOL), {"i": "i", "j": "j"})
    '(((i = 0) and (j < 2)) or (not (i = 0) and (j < 3)))'
    """
    match term:
        case Number(value):
            return "1 = 1" if value else "1 = 0"
        case Op(op, (a, b)) if op in COMPARISONS:
            x, y = affine_of(a), affine_of(b)
            if x is not None and y is not None:
                known = (x.names | y.names) <= names.keys()
                return f"{text(x, names)} {_SIGNS[op]} {text(y, names)}" if known else None
            chosen = _of_branches(op, a, b)
            return unknown(term) if chosen is None else condition_text(chosen, names, unknown)
        case Op("and" | "or" as op, (a, b)):
            parts = condition_text(a, names, unknown), condition_text(b, names, unknown)
            return None if None in parts else f"({parts[0]} {op} {parts[1]})"
        case Op("not", (a,)):
            inner = condition_text(a, names, unknown)
            return None if inner is None else f"(not ({inner}))"
        case Op("if", (c, a, b)):
            found = [condition_text(x, names, unknown) for x in (c, a, b)]
            if None in found:
                return None
            return f"((({found[0]}) and ({found[1]})) or (not ({found[0]}) and ({found[2]})))"
        case _:
            return unknown(term)


def _of_branches(op: str, a: Term, b: Term) -> Term | None:
    """A comparison with a choice, or a sum with one, as a choice between comparisons; None where there is none."""
    if (found := _branches(a)) is not None:
        c, x, y = found
        return Op("if", (c, Op(op, (x, b), BOOL), Op(op, (y, b), BOOL)), BOOL)
    if (found := _branches(b)) is not None:
        c, x, y = found
        return Op("if", (c, Op(op, (a, x), BOOL), Op(op, (a, y), BOOL)), BOOL)
    return None


def _branches(term: Term) -> tuple[Term, Term, Term] | None:
    """The condition of a choice, or of one that something is added to, and what the term is in either case."""
    match term:
        case Op("if", (c, x, y)):
            return c, x, y
        case Op("min" | "max" as op, (x, y)) if term.element.is_integer:
            return Op("less_equal" if op == "min" else "greater_equal", (x, y), BOOL), x, y
        case Op("plus" | "minus", (p, q)):
            for k, part in enumerate((p, q)):
                if (found := _branches(part)) is not None:
                    c, *cases = found
                    sums = [replace(term, args=(p, x) if k else (x, q)) for x in cases]
                    yes, no = (settled(t, {}) for t in sums)
                    return c, yes, no
            return None
        case _:
            return None


def conjuncts(term: Term) -> list[Term]:
    """A condition taken apart into what must all hold."""
    match term:
        case Op("and", (a, b)):
            return [*conjuncts(a), *conjuncts(b)]
        case Op("if", (a, b, Number(False))):
            return [*conjuncts(a), *conjuncts(b)]
        case _:
            return [term]


def both(a: Term, b: Term) -> Term:
    """That two conditions hold; of data the second one asks only where the first one does."""
    return Op("if", (a, b, Number(False, BOOL)), BOOL) if loads(b) else Op("and", (a, b), BOOL)


@dataclass(frozen=True, slots=True)
class Domain:
    """The iterations of a leaf: constraints on its loops' variables, and whether they say all."""

    names: Mapping[str, str]
    constraints: list[str]
    exact: bool


def domain(
    leaf: Leaf, ranges: Ranges, outer: Sequence[Loop], suffix: str, unknown: Unknown = lambda _: None,
    guards: int | None = None,
) -> Domain:  # fmt: skip
    """The iterations of a leaf; variables of loops outside of `leaf.loops` keep their names as further unknowns.

    What `unknown` has a word for takes part as that. `guards`: only so many of them have to hold.
    """
    names = {loop.name: f"{loop.name}{suffix}" for loop in leaf.loops}
    names.update({loop.name: loop.name for loop in outer})
    constraints: list[str] = []
    exact = True
    for loop in leaf.loops:
        low, extent = linear(loop.low, ranges), linear(loop.extent, ranges)
        assert low is not None and extent is not None
        first = text(low, names)
        constraints.append(f"{first} <= {names[loop.name]} < {first} + {text(extent, names)}")
    for guard in leaf.node.guards[:guards]:
        for part in conjuncts(settled(guard, ranges)):
            found = condition_text(part, names, unknown)
            if found is None:
                exact = False
            else:
                constraints.append(found)
    return Domain(names, constraints, exact)
