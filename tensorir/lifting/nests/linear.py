"""Whole-number terms in normal form: sums of indices, their rows, and sums that values are.

Sums of whole numbers that depend on data, in one form whatever they were written as.

Whole numbers that wrap around are a ring: products with numbers are taken apart, equal parts are one, and the parts
come in the order of the operations that they are made of.

>>> from tensorir.lifting.nests.terms import Buffer, Load, show
>>> from tensorir.ir.types import INT32
>>> a = Load(Buffer("A", INT32, ()), ())
>>> more = Op("plus", (a, Op("multiplies", (Number(3, INT32), a), INT32)), INT32)
>>> show(in_normal_form(Op("multiplies", (Op("minus", (more, Number(1, INT32)), INT32), Number(2, INT32)), INT32), {}))
'minus(multiplies(A[], 8), 2)'

Terms in normal form: whole-number arithmetic of indices becomes `Affine`, comparisons that ranges decide go away.

>>> from tensorir.lifting.nests.terms import Index, Number, Op, show
>>> from tensorir.ir.types import BOOL, INT32
>>> i = Index("i", INT32)
>>> flat = Op("plus", (Op("multiplies", (i, Number(4, INT32)), INT32), Number(6, INT32)), INT32)
>>> show(settled(Op("floordiv", (flat, Number(4, INT32)), INT32), {"i": (0, 9)}))
'i + 1'
>>> show(settled(Op("less", (i, Number(10, INT32)), BOOL), {"i": (0, 9)}))
'True'
>>> show(settled(Op("less", (Op("floordiv", (i, Number(4, INT32)), INT32), Number(2, INT32)), BOOL), {"i": (0, 9)}))
'less(i, 8)'
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import islice

from tensorir.integers.affine import Affine, Quotient, Ranges, number, quotient, remainder, variable
from tensorir.ir.types import BOOL, INT64, Scalar
from tensorir.lifting.nests.terms import (
    Index,
    Linear,
    Load,
    Number,
    Op,
    Term,
    children,
    fits,
    fitting,
    folded,
    rebuilt,
    walk,
)
from tensorir.lifting.nests.unknowns import NO_FACTS, Facts, Parts, bounds, divided, is_exact, narrowed, told

# Places in flat memory that data tell, as one index per dim, where only the first of them can be out of bounds.
#
# `A[I[k] * 4 + j]` of a buffer of rows of 4 is `A[I[k], j]`, for j in [0, 4), whatever I[k] is: the place lies inside
# of the buffer if and only if I[k] is one of its rows. An index is a whole number here, as it is for TVM: one that
# would wrap around is out of bounds.


def flat_place(indices: Sequence[Term], extents: Sequence[int]) -> Term | None:
    """The place in flat memory that several indices take apart, where they are the digits of one.

    >>> from tensorir.lifting.nests.terms import Index, show
    >>> from tensorir.ir.types import INT32
    >>> i, by = Index("i", INT32), Number(4, INT32)
    >>> show(flat_place([Op("floordiv", (i, by), INT32), Op("mod", (i, by), INT32)], [5, 4]))
    'i'
    """
    if len(indices) < 2:
        return None
    match indices[-1]:
        case Op("mod", (place, Number(by))) if by == extents[-1]:
            step = extents[-1]
        case _:
            return None
    for k in range(len(indices) - 2, -1, -1):
        part = Op("floordiv", (place, Number(step, place.element)), place.element)
        digit = part if not k else Op("mod", (part, Number(extents[k], place.element)), place.element)
        if indices[k] != digit:
            return None
        step *= extents[k]
    return place


def rows_of(
    indices: Sequence[Term], extents: Sequence[int], ranges: Ranges, facts: Facts = NO_FACTS
) -> tuple[Term, ...] | None:
    """One index per dim for the digits of a settled place of which all but the first stay inside; None for others.

    >>> from tensorir.lifting.nests.terms import Buffer, Linear, Load, show
    >>> from tensorir.ir.types import INT32
    >>> row, by = Load(Buffer("I", INT32, ()), ()), Number(4, INT32)
    >>> place = Op("plus", (Op("multiplies", (row, by), INT32), Linear(variable("j"), INT32)), INT32)
    >>> digits = Op("floordiv", (place, by), INT32), Op("mod", (place, by), INT32)
    >>> [show(t) for t in rows_of(digits, [5, 4], {"j": (0, 3)})]
    ['I[]', 'j']
    """
    place = flat_place(indices, extents)
    parts = Parts(dict(ranges), facts, anything=True)
    rest = None if place is None else parts.sum_of(place)
    if rest is None or place is None or rest.range(parts.ranges) is not None:
        return None
    steps = [1]
    for extent in reversed(extents[1:]):
        steps.append(steps[-1] * extent)
    found: list[Term] = []
    for step, extent in zip(reversed(steps), extents, strict=True):
        digit, rest = quotient(rest, step, parts.ranges), remainder(rest, step, parts.ranges)
        spread = digit.range(parts.ranges)
        inside = spread is not None and spread[0] >= 0 and spread[1] < extent
        if not digit.is_linear or (found and not inside):
            return None
        found.append(parts.term_of(digit, place.element))
    return tuple(found)


MOST_PARTS = 16
"""What has more parts stays as it is."""

MOST_STEPS = 256
"""What is added in more places, counted again wherever it is shared, stays as it is."""

MOST_WORDS = 32
"""How many operations of a part tell where it comes."""


def in_normal_form(term: Term, ranges: Ranges, facts: Facts | None = None) -> Term:
    """A sum of settled terms in normal form; sums of indices are one part."""
    element = term.element
    found = _parts(term, ranges, facts or {})
    if found is None or not (found[1].is_number or fits(found[1], element, ranges)):
        return term
    parts, rest = found
    made = _sum_of(sorted(parts.items(), key=lambda part: (_words(part[0]), -abs(part[1]))), element)
    if made is None:
        return Number(rest.constant, element) if rest.is_number else Linear(rest, element)
    if rest.is_number and not rest.constant:
        return made
    if rest.is_number:
        op, by = ("minus", -rest.constant) if rest.constant < 0 else ("plus", rest.constant)
        return Op(op, (made, Number(by, element)), element)
    return Op("plus", (made, Linear(rest, element)), element)


def _parts(term: Term, ranges: Ranges, facts: Facts) -> tuple[dict[Term, int], Affine] | None:
    """Coefficients of the parts of a sum, and its indices; None for too many parts, or numbers that wrap around."""
    element, rest = term.element, number(0)
    parts: dict[Term, int] = {}
    pending: list[tuple[int, Term]] = [(1, term)]
    steps = 0
    while pending:
        times, t = pending.pop()
        steps += 1
        match t:
            case Number(value):
                rest = rest.plus(number(int(value) * times))
            case Linear(a):
                rest = rest.plus(a.times(times))
            case Op("plus" | "minus" as op, (x, y)):
                pending += [(times if op == "plus" else -times, y), (times, x)]
            case Op("neg", (x,)):
                pending.append((-times, x))
            case Op("multiplies", (x, Number(by)) | (Number(by), x)):
                pending.append((times * int(by), x))
            case Op("cast", (Op() as x,)) if x.element.is_integer and bounds(x, ranges, facts) is not None:
                inner = _parts(x, ranges, facts) if _is_sum(x) and is_exact(x, ranges, facts) else None
                if inner is None:
                    parts[t] = parts.get(t, 0) + times
                else:
                    # what stays in its range is the same sum of wider parts
                    parts |= {
                        (wide := Op("cast", (p,), element)): parts.get(wide, 0) + n * times for p, n in inner[0].items()
                    }
                    rest = rest.plus(inner[1].times(times))
            case _:
                parts[t] = parts.get(t, 0) + times
        wraps = times not in element.range or -times not in element.range
        if wraps or len(parts) > MOST_PARTS or steps > MOST_STEPS:
            return None
    if any(n not in element.range or -n not in element.range for n in (*parts.values(), rest.constant)):
        return None
    return {t: n for t, n in parts.items() if n}, rest


def _is_sum(term: Op) -> bool:
    return term.op in ("plus", "minus", "multiplies", "neg")


def _sum_of(parts: list[tuple[Term, int]], element: Scalar) -> Term | None:
    """The sum of parts, what is added before what is taken away; None of none."""
    total: Term | None = None
    for t, n in (*((t, n) for t, n in parts if n > 0), *((t, n) for t, n in parts if n < 0)):
        part = t if abs(n) == 1 else Op("multiplies", (t, Number(abs(n), element)), element)
        if total is None:
            total = part if n > 0 else Op("neg", (part,), element)
        else:
            total = Op("plus" if n > 0 else "minus", (total, part), element)
    return total


def _words(term: Term) -> tuple[str, ...]:
    """The operations that a term begins with."""
    return tuple(map(_word, islice(walk(term), MOST_WORDS)))


def _word(term: Term) -> str:
    match term:
        case Op(op):
            return op
        case Load():
            return ""
        case Number(value):
            return repr(value)
        case _:
            return "index"


COMPARISONS = {"eq", "not_eq", "less", "less_equal", "greater", "greater_equal"}

DIVISIONS = {"floordiv", "divides", "mod", "rem"}


def linear(term: Term, ranges: Ranges, memo: dict[int, Term] | None = None) -> Affine | None:
    """The normal form of a term of indices; None where it is none."""
    # most bounds are numbers, and most indices variables
    match term if isinstance(term, Number | Index) else settled(term, ranges, memo):
        case Index(name, element) if element.is_integer:
            return variable(name)
        case Linear(affine):
            return affine
        case Number(value, element) if element.is_integer:
            return number(int(value))
        case _:
            return None


def settled(term: Term, ranges: Ranges, memo: dict[int, Term] | None = None, facts: Facts = NO_FACTS) -> Term:
    """The term with its whole-number parts in normal form, and what the ranges decide decided.

    `memo` holds what was found, by identity, for other terms that share parts with this one and are kept alive. `facts`
    are bounds of terms that depend on data.
    """
    divisions: dict[int, bool] = {}
    return rebuilt(term, lambda t: _rule(t, ranges, facts, divisions), memo)


def affine_of(term: Term) -> Affine | None:
    match term:
        case Linear(affine):
            return affine
        case Number(value, element) if element.is_integer:
            return number(int(value))
        case _:
            return None


def term_of(affine: Affine, element: Scalar) -> Term:
    return Number(affine.constant, element) if affine.is_number else Linear(affine, element)


def _rule(term: Term, ranges: Ranges, facts: Facts, divisions: dict[int, bool]) -> Term | None:
    match term:
        case Index(name, element) if element.is_integer:
            return Linear(variable(name), element)
        case Linear(affine, element) if not affine.is_linear:
            return term_of(affine.replaced({}, ranges), element)
        case Op(op, args, element):
            found = folded(term) if all(isinstance(a, Number) for a in args) else None
            return _operation(op, args, element, ranges, facts, divisions) if found is None else found
        case Load(buffer, indices, span) if len(indices) > 1:
            rows = rows_of(indices, buffer.shape, ranges, facts)
            return None if rows is None else Load(buffer, rows, span)
        case _:
            return None


def _operation(
    op: str, args: tuple[Term, ...], element: Scalar, ranges: Ranges, facts: Facts, divisions: dict[int, bool]
) -> Term | None:  # fmt: skip
    if op in ("and", "or", "not", "if"):
        found = _logic(op, args)
        return _chosen(args, element, ranges, facts, divisions) if found is None and op == "if" else found
    if op == "cast":
        (x,) = args
        found = affine_of(x)
        if found is None or not element.is_integer:
            return None
        known = found.is_number or found.range(ranges) is not None
        return fitting(found, element, ranges) if known else None
    parts = [affine_of(a) for a in args]
    if any(p is None for p in parts):
        if op in ("plus", "minus") and element.is_integer:
            return _sum(op, args, element, ranges)
        if op in ("min", "max") and element.is_integer:
            return _extreme(op, args, ranges)
        if op in COMPARISONS:
            return _compared_by_branches(op, args, ranges) or _compared_by_bounds(op, args, ranges, facts)
        match parts[-1]:
            case Affine((), by) if by > 0:
                found = divided(op, args[0], by, ranges, facts)
                return _of_sum(op, args, element, ranges, facts) if found is None else found
            case _:
                return None
    known = [p for p in parts if p is not None]
    if op in COMPARISONS:
        return _compared(op, known[0], known[1], ranges)
    if not element.is_integer:
        return None
    made = _arithmetic(op, known, ranges)
    return None if made is None else fitting(made, element, ranges)


def _chosen(
    args: tuple[Term, ...], element: Scalar, ranges: Ranges, facts: Facts, divisions: dict[int, bool]
) -> Term | None:
    """A choice, each branch in normal form where it is chosen; `divisions` says of terms whether data are divided."""
    condition, *branches = args
    made: list[Term] = []
    for branch, holds in zip(branches, (True, False), strict=True):
        inside = narrowed(condition, ranges, holds)
        if inside is None:
            return branches[holds]
        here = told(condition, facts, holds) if _has_division(branch, divisions) else facts
        if inside is not ranges or here is not facts:
            known = {n for n, spread in inside.items() if ranges[n] != spread}
            if any(_asks(t, known) or (here is not facts and _divides(t, here)) for t in walk(branch)):
                branch = settled(branch, inside, facts=here)
            fixed = {n: number(low) for n, (low, high) in inside.items() if n in known and low == high}
            branch = _with_fixed(branch, fixed, inside) if fixed else branch
        made.append(branch)
    return None if all(a is b for a, b in zip(made, branches, strict=True)) else Op("if", (condition, *made), element)


def _with_fixed(branch: Term, fixed: Mapping[str, Affine], ranges: Ranges) -> Term:
    """A term without the variables that have one value, where it is a sum of them, or adds others to them."""

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(a, element) if (t is branch or len(a.terms) > 1) and not a.names.isdisjoint(fixed):
                return term_of(a.replaced(fixed, ranges), element)
            case _:
                return None

    return rebuilt(branch, rule)


def _asks(term: Term, names: Collection[str]) -> bool:
    """True if the ranges of variables may change the normal form of a term, its parts aside."""
    match term:
        case Linear(a):
            return not a.is_linear and not a.names.isdisjoint(names)
        case Op(op, args) if op in COMPARISONS or op in DIVISIONS:
            return any(isinstance(a, Linear) and not a.affine.names.isdisjoint(names) for a in args)
        case _:
            return False


def _has_division(term: Term, known: dict[int, bool]) -> bool:
    """True if a part of a term is a division of data; `known` says it of the terms that were looked at."""
    stack = [term]
    while stack:
        t = stack[-1]
        below = [c for c in children(t) if id(c) not in known]
        if below and not _is_division(t):
            stack += below
            continue
        known[id(t)] = _is_division(t) or any(known[id(c)] for c in children(t))
        stack.pop()
    return known[id(term)]


def _is_division(term: Term) -> bool:
    return isinstance(term, Op) and term.op in DIVISIONS and isinstance(term.args[0], Op)


def _divides(term: Term, facts: Facts) -> bool:
    """True if a term is a division of a sum with parts of which facts are known."""
    match term:
        case Op(op, (Op() as inner, Number())) if op in DIVISIONS:
            return any(t in facts for t in walk(inner) if isinstance(t, Load | Op))
        case _:
            return False


def _sum(op: str, args: tuple[Term, ...], element: Scalar, ranges: Ranges) -> Term | None:
    """A sum of terms of which some are no sums of indices: those that are, are one; None where they are already."""
    whole, count = number(0), 0
    others: list[tuple[bool, Term]] = []
    pending = [(op == "minus", args[1]), (False, args[0])]
    while pending:
        negative, t = pending.pop()
        match t:
            case Op("plus" | "minus" as inner, (a, b)) if t.element == element and affine_of(t) is None:
                pending += [(negative ^ (inner == "minus"), b), (negative, a)]
            case Op("multiplies", (x, Number(-1)) | (Number(-1), x)):
                pending.append((not negative, x))
            case _ if (known := affine_of(t)) is not None:
                whole, count = whole.plus(known.times(-1 if negative else 1)), count + 1
            case _:
                others.append((negative, t))
    fewer, known = _together(others, element, ranges)
    if len(fewer) == 1 and (chosen := _in_branches(*fewer[0], whole.plus(known), ranges)) is not None:
        return chosen
    if count < 2 and len(fewer) == len(others):
        return None
    others, whole = fewer, whole.plus(known)
    rest = fitting(whole, element, ranges)
    if not others or rest is None:
        return rest
    others.sort(key=lambda o: o[0])
    if whole.terms or whole.constant:
        others.insert(0 if others[0][0] else 1, (False, rest))
    (negative, total), *rest = others
    if negative:
        total = Op("neg", (total,), element)
    for negative, t in rest:
        total = Op("minus" if negative else "plus", (total, t), element)
    return total


def _together(
    parts: list[tuple[bool, Term]], element: Scalar, ranges: Ranges
) -> tuple[list[tuple[bool, Term]], Affine]:
    """Choices by one condition between sums of indices, added up: one choice, or a sum where both branches are one."""
    chosen: dict[Term, list[tuple[Affine, Affine]]] = {}
    rest: list[tuple[bool, Term]] = []
    for negative, t in parts:
        match t:
            case Op("if", (condition, yes, no)) if (a := affine_of(yes)) is not None and (
                b := affine_of(no)
            ) is not None:
                by = -1 if negative else 1
                chosen.setdefault(condition, []).append((a.times(by), b.times(by)))
            case _:
                rest.append((negative, t))
    if all(len(pairs) == 1 for pairs in chosen.values()):
        return parts, number(0)
    whole = number(0)
    for condition, pairs in chosen.items():
        a, b = reduce(Affine.plus, [x for x, _ in pairs]), reduce(Affine.plus, [y for _, y in pairs])
        if a == b:
            whole = whole.plus(a)
            continue
        x, y = fitting(a, element, ranges), fitting(b, element, ranges)
        if x is None or y is None:
            return parts, number(0)
        rest.append((False, Op("if", (condition, x, y), element)))
    return rest, whole


def _in_branches(negative: bool, part: Term, rest: Affine, ranges: Ranges) -> Term | None:
    """A choice between sums of indices that takes in what is added to it, where that leaves less of either."""
    match part:
        case Op("if", (condition, Linear(a), Linear(b)), element):
            by = -1 if negative else 1
            x, y = a.times(by).plus(rest), b.times(by).plus(rest)
            less = len(x.terms) < len(a.terms) and len(y.terms) < len(b.terms)
            yes, no = fitting(x, element, ranges), fitting(y, element, ranges)
            return Op("if", (condition, yes, no), element) if less and yes is not None and no is not None else None
        case _:
            return None


def _of_sum(op: str, args: tuple[Term, ...], element: Scalar, ranges: Ranges, facts: Facts) -> Term | None:
    """A division of a sum in normal form, where it had another; None where it stays."""
    sums = op in ("floordiv", "mod") and isinstance(args[0], Op) and args[0].op in ("plus", "minus", "multiplies")
    new = in_normal_form(args[0], ranges, facts) if sums else args[0]
    return None if new == args[0] else Op(op, (new, args[1]), element)


def _extreme(op: str, args: tuple[Term, ...], ranges: Ranges) -> Term | None:
    """The smaller or the greater of two terms, where their bounds tell which one that is."""
    a, b = (bounds(t, ranges) for t in args)
    if a is None or b is None:
        return None
    below = a if op == "min" else b
    above = b if op == "min" else a
    if below[1] <= above[0]:
        return args[0]
    return args[1] if above[1] <= below[0] else None


def _arithmetic(op: str, parts: list[Affine], ranges: Ranges) -> Affine | None:
    match op, parts:
        case "plus", [a, b]:
            return a.plus(b)
        case "minus", [a, b]:
            return a.minus(b)
        case "neg", [a]:
            return a.times(-1)
        case "multiplies", [a, b] if b.is_number:
            return a.times(b.constant)
        case "multiplies", [a, b] if a.is_number:
            return b.times(a.constant)
        case "floordiv", [a, b] if b.is_number and b.constant > 0:
            return quotient(a, b.constant, ranges)
        case "mod", [a, b] if b.is_number and b.constant > 0:
            return remainder(a, b.constant, ranges)
        case (("divides" | "rem"), [a, b]) if b.is_number and b.constant > 0:
            spread = a.range(ranges)
            if spread is None or spread[0] < 0:
                return None
            return (quotient if op == "divides" else remainder)(a, b.constant, ranges)
        case "shift_left", [a, b] if b.is_number and 0 <= b.constant < 31:
            return a.times(1 << b.constant)
        case "shift_right", [a, b] if b.is_number and 0 <= b.constant < 31:
            return quotient(a, 1 << b.constant, ranges)
        case (("min" | "max"), [a, b]):
            spread = a.minus(b).range(ranges)
            if spread is None:
                return None
            if spread[1] <= 0:
                return a if op == "min" else b
            return (b if op == "min" else a) if spread[0] >= 0 else None
        case _:
            return None


def _sure(op: str, low: int, high: int) -> Number | None:
    """The truth of a comparison whose sides differ by what lies between two numbers; None where it depends."""
    holds, fails = {
        "less": (high < 0, low >= 0),
        "less_equal": (high <= 0, low > 0),
        "greater": (low > 0, high <= 0),
        "greater_equal": (low >= 0, high < 0),
        "eq": (low == high == 0, low > 0 or high < 0),
        "not_eq": (low > 0 or high < 0, low == high == 0),
    }[op]
    return Number(holds, BOOL) if holds or fails else None


def _compared_by_bounds(op: str, args: tuple[Term, ...], ranges: Ranges, facts: Facts) -> Term | None:
    """The truth of a comparison of choices between sums of indices, and such, where their bounds tell it."""
    if not all(isinstance(x, Linear | Number) or (isinstance(x, Op) and x.op in _BOUNDED) for x in args):
        return None
    a, b = (bounds(x, ranges, facts) if x.element.is_integer else None for x in args)
    return None if a is None or b is None else _sure(op, a[0] - b[1], a[1] - b[0])


def _compared_by_branches(op: str, args: tuple[Term, ...], ranges: Ranges) -> Term | None:
    """The truth of a comparison with a choice between sums of indices, where both of them have one truth."""
    match args:
        case (Op("if", (_, a, b)), y):
            pairs = (a, y), (b, y)
        case (x, Op("if", (_, a, b))):
            pairs = (x, a), (x, b)
        case _:
            return None
    sums = [(affine_of(x), affine_of(y)) for x, y in pairs]
    truths = [_compared(op, x, y, ranges) for x, y in sums if x is not None and y is not None]
    return truths[0] if len(truths) == 2 and isinstance(truths[0], Number) and truths[0] == truths[1] else None


_BOUNDED = frozenset(["if", "min", "max", "mod"])
"""Operations that often bound what they give back."""


def _compared(op: str, a: Affine, b: Affine, ranges: Ranges) -> Term:
    spread = a.minus(b).range(ranges)
    if spread is not None and (sure := _sure(op, *spread)) is not None:
        return sure
    simpler = _coarser(op, a.minus(b), ranges) or _finer(op, a.minus(b))
    if simpler is None and op in _SWAPPED and not a.terms:
        found = _coarser(_SWAPPED[op], b.minus(a), ranges) or _finer(_SWAPPED[op], b.minus(a))
        simpler = None if found is None else found[::-1]
    a, b = simpler or (a, b)
    return Op(op, (term_of(a, INT64), term_of(b, INT64)), BOOL)


_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


def _coarser(op: str, difference: Affine, ranges: Ranges) -> tuple[Affine, Affine] | None:
    """`16 × i + j < 128`, for j in [0, 16), is `i < 8`: what cannot reach the next period does not matter."""
    if op in ("eq", "not_eq"):
        return None
    # sum < bound, or sum >= bound
    bound = -difference.constant + (op in ("less_equal", "greater"))
    for factor in sorted({abs(c) for _, c in difference.terms if abs(c) > 1}, reverse=True):
        coarse = Affine(tuple((t, c) for t, c in difference.terms if c % factor == 0))
        fine = Affine(tuple((t, c) for t, c in difference.terms if c % factor))
        spread = fine.range(ranges)
        if not fine.terms or bound % factor or spread is None or spread[0] < 0 or spread[1] >= factor:
            continue
        step = op in ("less_equal", "greater")
        return Affine(tuple((t, c // factor) for t, c in coarse.terms)), number(bound // factor - step)
    return None


def _finer(op: str, difference: Affine) -> tuple[Affine, Affine] | None:
    """`i // 16 + j < 8` is `i + 16 × j < 128`: a bound of a quotient bounds what is divided."""
    divided = [(atom, c) for atom, c in difference.terms if isinstance(atom, Quotient)]
    match divided:
        case [(Quotient(inner, by), 1)] if op not in ("eq", "not_eq"):
            rest = Affine(tuple(t for t in difference.terms if t not in divided))
            step = op in ("less_equal", "greater")  # q <= bound is q < bound + 1, and q > bound is q >= bound + 1
            return inner.plus(rest.times(by)), number((step - difference.constant) * by - step)
        case _:
            return None


def _logic(op: str, args: tuple[Term, ...]) -> Term | None:
    match op, args:
        case "and", (Number(value), other) | (other, Number(value)):
            return other if value else Number(False, BOOL)
        case "or", (Number(value), other) | (other, Number(value)):
            return Number(True, BOOL) if value else other
        case "not", (Number(value),):
            return Number(not value, BOOL)
        case "if", (Number(value), a, b):
            return a if value else b
        case "if", (_, a, b) if a == b and not isinstance(a, Load):
            return a
        case _:
            return None
