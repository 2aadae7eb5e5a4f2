"""Elements of one type made of, or taken out of, elements of another: little-endian bytes, as machines keep them.

>>> from tensorir.lifting.nests.terms import Buffer, Index, show
>>> from tensorir.ir.types import INT32, SCALARS
>>> halves, words = Buffer("h", SCALARS["uint16"], (8,)), Buffer("w", SCALARS["uint32"], (4,))
>>> show(read(halves, Index("i", INT32), SCALARS["uint32"])).count("h[")
2
>>> show(read(words, Index("i", INT32), SCALARS["uint16"])).count("w[floordiv(i, 2)]")
1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.ir.types import BOOL, INT32, INT64, SCALARS, Scalar
from tensorir.lifting.nests.nest import Loop, Node, Store
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term
from tensorir.runtime.errors import NOWHERE, Span

__all__ = ["address", "apart", "bytes_of", "composed", "plus", "read", "write"]


def bytes_of(element: Scalar) -> int:
    """How many bytes an element takes in memory: a truth value has one of its own."""
    return max(1, element.bits // 8)


def unsigned(element: Scalar) -> Scalar:
    return SCALARS[f"uint{8 * bytes_of(element)}"]


def bits_of(value: Term) -> Term:
    """The bits of a value as an unsigned integer."""
    target = unsigned(value.element)
    if value.element == target:
        return value
    if isinstance(value, Number) and repr(value.value) in ("0", "0.0", "False"):
        return Number(0, target)
    return Op("cast" if value.element == BOOL else "bitcast", (value,), target)


def value_of(bits: Term, element: Scalar) -> Term:
    """The value that bits stand for; any byte that is not 0 is true."""
    if bits.element == element:
        return bits
    if element == BOOL:
        return Op("not_eq", (bits, Number(0, bits.element)), BOOL)
    return Op("bitcast", (bits,), element)


# Places


def joined(op: str, a: Term, b: int) -> Term:
    return Op(op, (a, Number(b, a.element)), a.element)


def plus(a: Term, b: int) -> Term:
    return joined("plus", a, b) if b else a


def times(a: Term, b: int) -> Term:
    return joined("multiplies", a, b) if b != 1 else a


def address(indices: Sequence[Term], shape: Sequence[int]) -> Term:
    """Where an element of compact memory lies."""
    total: Term = Number(0, INT64)
    for index, extent in zip(indices, shape, strict=True):
        index = index if index.element == INT64 else Op("cast", (index,), INT64)
        total = Op("plus", (times(total, extent), index), INT64)
    return total


def apart(place: Term, shape: Sequence[int]) -> tuple[Term, ...]:
    """The indices of an address in compact memory."""
    found: list[Term] = []
    step = 1
    for axis in reversed(range(len(shape))):
        index = place if step == 1 else joined("floordiv", place, step)
        found.append(joined("mod", index, max(shape[axis], 1)) if axis else index)
        step *= max(shape[axis], 1)
    return tuple(reversed(found))


# Accesses


def read(unit: Buffer, place: Term, element: Scalar, span: Span = NOWHERE) -> Term:
    """The element of a type at an address, counted in elements of that type, of memory that is kept in units."""
    return composed(lambda at: Load(unit, apart(at, unit.shape), span), unit.element, place, element)


def composed(load: Callable[[Term], Term], unit: Scalar, place: Term, element: Scalar) -> Term:
    """The element of a type at an address, from units that are read at theirs."""
    wide, narrow = bytes_of(element), bytes_of(unit)
    if wide == narrow:
        found = load(place)
        return found if unit == element else value_of(bits_of(found), element)
    if wide < narrow:
        by = narrow // wide
        word = bits_of(load(joined("floordiv", place, by)))
        shift = Op("cast", (times(joined("mod", place, by), 8 * wide),), word.element)
        part = Op("cast", (Op("shift_right", (word, shift), word.element),), unsigned(element))
        return value_of(part, element)
    target, by = unsigned(element), wide // narrow
    total: Term | None = None
    for k in range(by):
        part = Op("cast", (bits_of(load(plus(times(place, by), k))),), target)
        part = Op("shift_left", (part, Number(8 * narrow * k, target)), target) if k else part
        total = part if total is None else Op("bit_or", (total, part), target)
    assert total is not None
    return value_of(total, element)


def write(unit: Buffer, place: Term, value: Term, guards: tuple[Term, ...], span: Span, name: str) -> Node:
    """The store of a value at an address, counted in its own type: of a wider one all parts, in a loop `name`."""
    wide, narrow = bytes_of(value.element), bytes_of(unit.element)
    if wide == narrow:
        stored = value if value.element == unit.element else value_of(bits_of(value), unit.element)
        return Store(unit, apart(place, unit.shape), stored, guards, span)
    assert wide > narrow, "memory is kept in units of the narrowest store"
    by, bits, index = wide // narrow, bits_of(value), Index(name, place.element)
    shift = Op("cast", (times(index, 8 * narrow),), bits.element)
    part = Op("cast", (Op("shift_right", (bits, shift), bits.element),), unsigned(unit.element))
    at = Op("plus", (times(place, by), index), place.element)
    one = Store(unit, apart(at, unit.shape), value_of(part, unit.element), guards, span)
    zero, count = Number(0, INT32), Number(by, INT32)
    return Loop(name, zero, count, (one,), parallel=True, span=span, title="part", lockstep=True)
