"""The rules of generation: one per builtin or family of them, each from a wanted element and box to an expression.

A rule may return None where nothing fits; then a leaf stands there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import apply, call, cartesian_shift, function, operator, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, INT32, Element, Scalar, TensorType, TupleElement

from .folds import FOLDS
from .indirect import INDIRECT
from .maker import OTHERS, Maker, Scope, exactly, full, neighbour_dim

__all__ = ["applicable"]

Rule = Callable[[Maker, Element, Dims, int, Scope], Expr | None]

NUMBERS = ["plus", "minus", "multiplies", "divides", "floordiv", "mod", "rem", "min", "max"]
NUMBER = ["neg", "abs", "sign"]
FLOAT = [name for name, row in TABLE.items() if row.transcendental and len(row.form[0]) == 1]
FLOAT += ["sqrt", "floor", "ceil", "trunc", "round"]
FLOATS = ["power", "arctan2"]
INTEGERS = ["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"]
INTEGER = ["bit_not", "popcount", "clz"]
LOGIC = ["and", "or", "xor"]
COMPARISONS = ["eq", "not_eq", "less", "less_equal", "greater", "greater_equal"]
TESTS = ["isfinite", "isinf", "isnan"]


def applicable(m: Maker, element: Element, need: Dims, scope: Scope) -> list[Rule]:
    """The rules that may be tried."""
    rules: list[Rule] = [select, tuple_get, applied]
    if isinstance(element, TupleElement):
        rules += [make_tuple, make_tuple]
    else:
        rules += [arithmetic] * 14
        if m.profile.allows("cast", element):
            rules += [cast, bitcast]
        if element == BOOL:
            rules += [comparison] * 4 + [can_deref]
        if element == INT32 and need:
            rules.append(pos)
    if scope.absent:
        rules.append(guarded)
    else:
        rules += [guarded, checked]
    rules.append(subset)
    if m.profile.shown and m.chance(8):
        rules.append(shown)
    if not scope.moving:
        return rules
    rules += [shifted, shifted, concat, update, add_dim, rename, split_dim, merge_dims]
    if len(need) < 4:
        rules += [rule for rule in (*FOLDS, *INDIRECT) for _ in range(2)]
    return rules


# Elementwise


def arithmetic(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    assert isinstance(element, Scalar)
    if element == BOOL:
        names, unary = LOGIC, ["not"]
    elif element.is_integer:
        names, unary = NUMBERS + INTEGERS, NUMBER + INTEGER
    else:
        names, unary = NUMBERS[:4] + NUMBERS + FLOATS, NUMBER + FLOAT
    op = m.pick([n for n in (unary if m.chance(2) else names) if m.profile.allows(n, element)])
    arity = len(TABLE[op].form[0])
    operands = [m.expr(element, need, depth, scope) for _ in range(arity)]
    if m.chance(10):
        return apply(operator(op, *[o.type for o in operands]), *operands)
    return call(op, *operands)


def comparison(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    of = m.element(False)
    assert isinstance(of, Scalar)
    if of.is_float and m.chance(4) and m.profile.allows("isnan", of):
        return call(m.pick(TESTS), m.expr(of, need, depth, scope))
    options = [op for op in (COMPARISONS if of != BOOL else COMPARISONS[:2]) if m.profile.allows(op, of)]
    if not options:
        return None
    return call(m.pick(options), m.expr(of, need, depth, scope), m.expr(of, need, depth, scope))


def select(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    condition = m.expr(BOOL, need, depth, scope)
    return call("if", condition, m.expr(element, need, depth, scope), m.expr(element, need, depth, scope))


def cast(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    source = m.element(False)
    if not m.profile.allows("cast", source):
        return None
    return call("cast", m.expr(source, need, depth, scope), static=(element,))


def bitcast(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    assert isinstance(element, Scalar)
    sources = [s for s in m.profile.elements if s.bits == element.bits and m.profile.allows("bitcast", s)]
    # the bits of a NaN are not kept from one machine to the next
    sources = [s for s in sources if not s.is_float or element.is_float]
    if element.is_float or not sources:
        return None
    return call("bitcast", m.expr(m.pick(sources), need, depth, scope), static=(element,))


# Tuples


def make_tuple(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    assert isinstance(element, TupleElement)
    return call("make_tuple", *[m.expr(member, need, depth, scope) for member in element.members])


def tuple_get(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    members = [m.element(False) for _ in range(m.integer(0, 2))]
    at = m.integer(0, len(members))
    members.insert(at, element)
    return call("tuple_get", m.expr(TupleElement(tuple(members)), need, depth, scope), static=(at,))


# Functions


def applied(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    args, bound = [], []
    for _ in range(m.integer(1, 2)):
        kind, place = m.element(), m.widened(need) if scope.moving else need
        arg = m.expr(kind, m.some(place), depth, scope)
        # a parameter may be broadcast, or hold fewer points than the argument
        declared = arg.type.dims if m.chance(2) else place
        args.append(arg)
        bound.append((var(m.name("x"), TensorType(kind, declared)), scope.absent))
        if any(n not in declared or not i.covers(declared[n]) for n, i in arg.type.dims.items):
            return None
    body = m.expr(element, need, depth, scope.within(bound))
    return apply(function([v for v, _ in bound], body), *args)


# Absence


def can_deref(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    return call("can_deref", m.expr(m.element(), need, depth, _absent(scope)))


def guarded(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    value = m.expr(element, need, depth, _absent(scope))
    other = m.expr(element, need, depth, scope)
    return call("if", call("can_deref", value), value, other)


def _absent(scope: Scope) -> Scope:
    return Scope(scope.variables, scope.forbidden, scope.outer, True, scope.moving)


def checked(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    of = m.element(False)
    of = of if m.profile.allows("less", of) else BOOL
    x = m.expr(of, need, depth, scope)
    wrong = call("less", x, x) if of != BOOL else call("not_eq", x, x)
    return call("assert_", m.expr(element, need, depth, scope), call("not", wrong), static=("never",))


def shown(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    return call("print", m.expr(element, need, depth, scope), static=("shown",))


# Domains


def shifted(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    moves = [d for d in need if not neighbour_dim(d)]
    if not moves:
        return None
    dim, offset = m.pick(moves), m.pick([1, -1, 2, -2, 3])
    inner = need.with_interval(dim, need[dim].shifted(-offset))
    return cartesian_shift(m.expr(element, inner, depth, scope), dim, offset)


def subset(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    wide = m.widened(need)
    return exactly(m.expr(element, wide, depth, scope), m.pick([need, Dims(need.items[:1]), Dims(need.items[1:])]))


def concat(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    dims = [d for d in need if not neighbour_dim(d) and len(need[d]) > 1]
    if not dims:
        return None
    dim = m.pick(dims)
    box = Dims(tuple(item for item in need.items if item[0] == dim or not m.chance(3)))
    whole = box[dim]
    cuts = sorted({whole.start, m.integer(whole.start + 1, whole.stop - 1), whole.stop})
    if whole.stop - cuts[1] > 1 and m.chance(2):
        cuts.insert(2, cuts[1] + 1)
    parts = [box.with_interval(dim, Interval(a, b)) for a, b in pairwise(cuts)]
    made = [full(exactly(m.expr(element, part, depth, scope), part), part) for part in parts]
    return call("concat", *(made if m.chance(2) else made[::-1]))


def update(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    x = m.expr(element, need, depth, scope)
    part = Dims(tuple((n, m.within(i)) for n, i in need.items if not neighbour_dim(n) and not m.chance(3)))
    y = exactly(m.expr(element, part, depth, scope), part)
    return call("update", full(x, Dims(tuple((n, need[n]) for n in part))), y)


def pos(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    dim = m.pick(need.names)
    box = Dims(((dim, need[dim]),))
    return call("pos", full(m.expr(m.element(), need, min(depth, 1), scope), box), static=(dim,))


def add_dim(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    if not need:
        return None
    dim = m.pick(need.names)
    x = m.expr(element, need.without(dim), depth, scope)
    return call("add_dim", x, static=(dim, need[dim].start, need[dim].stop))


def rename(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    dims = [d for d in need if not neighbour_dim(d)]
    if not dims:
        return None
    if len(dims) > 1 and m.chance(2):
        a, b = m.draw_two(dims)
        swapped = Dims(tuple((b if n == a else a if n == b else n, i) for n, i in need.items))
        x = full(m.expr(element, swapped, depth, scope), Dims(((a, swapped[a]), (b, swapped[b]))))
        return call("rename", x, static=(((a, b), (b, a)),))
    new = m.pick(dims)
    old = m.fresh(need)
    inner = Dims(tuple((old if n == new else n, i) for n, i in need.items))
    x = full(m.expr(element, inner, depth, scope), Dims(((old, need[new]),)))
    return call("rename", x, static=(((old, new),),))


def split_dim(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    inner_dims = [d for d in need if not neighbour_dim(d) and need[d].start >= 0 and need[d].stop <= 4]
    pairs = [(o, i) for o in need for i in inner_dims if o != i and not neighbour_dim(o)]
    if not pairs:
        return None
    outer, inner = m.pick(pairs)
    n = need[inner].stop
    dim = m.pick([outer, m.fresh(need)])
    whole = Interval(need[outer].start * n, need[outer].stop * n)
    box = Dims(((dim, whole), *need.without(outer, inner).items))
    x = m.expr(element, box, depth, scope)
    x = full(exactly(x, Dims(((dim, whole),))), Dims(((dim, whole),)))
    return call("split_dim", x, static=(dim, outer, inner, n))


def merge_dims(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    dims = [d for d in need if not neighbour_dim(d)]
    if not dims:
        return None
    dim = m.pick(dims)
    outer, inner = m.fresh(need), m.fresh(need, OTHERS[::-1])
    if outer == inner:
        return None
    n = m.integer(1, 3)
    a = Interval(need[dim].start // n, -(-need[dim].stop // n))
    pair = Dims(((outer, a), (inner, Interval(0, n))))
    x = m.expr(element, Dims((*pair.items, *need.without(dim).items)), depth, scope)
    x = full(exactly(x, Dims(pair.items[1:])), pair)
    return call("merge_dims", x, static=(outer, inner, dim))
