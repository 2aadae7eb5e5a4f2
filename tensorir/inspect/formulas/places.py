r"""Places that a formula reads: indices, extents with sizes in them, and the dims and elements of results.

>>> from tensorir.integers.affine import variable
>>> i = Index.letter("i")
>>> i.moved(number(1)).text(), i.moved(variable("n")).text(), i.moved(number(1)).text(half=True)
('i+1', 'i+n', 'i+\\tfrac{1}{2}')
>>> from tensorir.ir.types import FLOAT64
>>> x = Facts({"I": Extent.of(number(0), variable("n"))}, FLOAT64)
>>> facts_of("less", (), [x, x]).element.name, facts_of("pos", ("I",), [x]).dims["I"].stop
('bool', 'n')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorir.inspect.formulas.terms import ATOM, Term, name
from tensorir.integers.affine import Affine, number
from tensorir.ir.builtins import PRODUCT, SUM
from tensorir.ir.types import BOOL, INT32, Element, TupleElement
from tensorir.ir.typing_of_elements import highest_neighbour
from tensorir.text.lexer import affine_text


def affine(value: Affine) -> str:
    r"""A bound, with sizes as names.

    >>> from tensorir.integers.affine import variable
    >>> affine(variable("n").times(2).minus(number(1)))
    '2 n-1'
    """
    return affine_text(value, lambda size: name(size).text).replace("*", " ")


ZERO = number(0)


@dataclass(frozen=True, slots=True)
class Index:
    """One coordinate of a point: a letter, an entry of a table, or nothing, and how far from it."""

    base: str = ""
    offset: Affine = ZERO
    letters: frozenset[str] = frozenset()
    depth: int = 0
    """How many tables are looked up one in another."""
    member: bool = False
    """A neighbour itself, as in a sum over the neighbours, and not its slot."""
    binding: float = ATOM
    """The precedence of what stands outermost in the base."""

    @staticmethod
    def letter(text: str, member: bool = False) -> Index:
        """An index that is a letter; `member`: of a neighbour itself and not of its slot."""
        return Index(name(text).text, letters=frozenset([text]), member=member)

    def moved(self, distance: Affine) -> Index:
        """The index `distance` further on: i becomes i + distance."""
        return replace(self, offset=self.offset.plus(distance))

    def text(self, half: bool = False) -> str:
        """The index; of a dim whose points lie half way between it is half a point less."""
        if not half:
            return self.term.text
        offset = self.offset
        # (2 c - 1) / 2, the sizes apart
        whole, odd = replace(offset, constant=0), 2 * offset.constant - 1
        sizes = affine(whole) if whole.terms else ""
        start = self.base + ("+" if self.base and sizes and sizes[0] != "-" else "") + sizes
        sign = "-" if odd < 0 else "+" if start else ""
        return rf"{start}{sign}\tfrac{{{abs(odd)}}}{{2}}"

    @property
    def term(self) -> Term:
        """The index as an operand."""
        shown, terms = affine(self.offset), len(self.offset.terms) + bool(self.offset.constant)
        if self.base and shown == "0":
            return Term(self.base, self.binding)
        if self.base:
            return Term(f"{self.base}{'' if shown[0] == '-' else '+'}{shown}", SUM)
        return Term(shown, SUM if terms > 1 or shown[0] == "-" else PRODUCT if " " in shown else ATOM)


Point = Mapping[str, Index]


def _greatest(bounds: Iterable[Affine], sign: int) -> frozenset[Affine]:
    """The bounds that no other one is always beyond, upwards or downwards."""
    kept: list[Affine] = []
    for bound in bounds:
        distances = [(other, bound.minus(other)) for other in kept]
        if any(not d.terms and sign * d.constant <= 0 for _, d in distances):
            continue
        kept = [other for other, d in distances if d.terms]
        kept.append(bound)
    return frozenset(kept)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The table that a neighbour dim comes from: its slots are the neighbours of a point."""

    symbol: str
    dims: tuple[str, ...]
    """Those of the points whose neighbours they are, in the order of the table's index, with its own among them."""
    tag: str
    source: str


@dataclass(frozen=True, slots=True)
class Extent:
    """An interval from the largest start to the smallest stop."""

    starts: frozenset[Affine]
    stops: frozenset[Affine]
    neighbours: Neighbours | None = None
    mixed: bool = False
    """True if slots of one number are of several tables, or the points moved since."""

    @staticmethod
    def of(start: Affine, stop: Affine) -> Extent:
        """The extent from one start to one stop."""
        return Extent(frozenset([start]), frozenset([stop]))

    def moved(self, distance: Affine) -> Extent:
        """The extent seen from a point that is `distance` further on: [a, b) becomes [a - distance, b - distance)."""
        return replace(
            self,
            starts=frozenset(s.minus(distance) for s in self.starts),
            stops=frozenset(s.minus(distance) for s in self.stops),
        )

    def meet(self, other: Extent) -> Extent:
        """The intersection: the starts of both of which the largest counts, the stops of both of which the smallest
        counts.

        Bounds that another one always exceeds are dropped (`_greatest`). Slots of two different tables are `mixed`.
        """
        tables = [t for t in {self.neighbours: 0, other.neighbours: 0} if t is not None]
        return Extent(
            _greatest([*self.starts, *other.starts], 1),
            _greatest([*self.stops, *other.stops], -1),
            tables[0] if tables else None,
            self.mixed or other.mixed or len(tables) > 1,
        )

    @property
    def listed(self) -> Neighbours | None:
        """The table whose entries the slots are, where there is one."""
        return None if self.mixed else self.neighbours

    @property
    def first(self) -> str:
        return _bound(self.starts, r"\max")

    @property
    def stop(self) -> str:
        return _bound(self.stops, r"\min")

    @property
    def before_stop(self) -> str:
        """The last point."""
        return self.behind().moved(number(-1)).text()

    def before(self) -> Index:
        return _end(self.starts, r"\max").moved(number(-1))

    def behind(self) -> Index:
        return _end(self.stops, r"\min")

    def holds(self, index: str) -> str:
        """That an index is inside."""
        ends = [*self.starts, *self.stops]
        if len(ends) == 2 and ends[1].minus(ends[0]) == number(1):
            return f"{index} = {self.first}"
        return rf"{self.first} \le {index} < {self.stop}"


def _end(bounds: frozenset[Affine], of_several: str) -> Index:
    return Index("", next(iter(bounds))) if len(bounds) == 1 else Index(_bound(bounds, of_several))


def _bound(bounds: frozenset[Affine], of_several: str) -> str:
    texts = sorted(map(affine, bounds))
    return texts[0] if len(texts) == 1 else rf"{of_several}({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of an expression: its dims, its elements, and its length in the formula."""

    dims: Mapping[str, Extent]
    element: Element | None
    weight: int = 1


def united(parts: Iterable[Facts]) -> dict[str, Extent]:
    """All dims, each on the common interval."""
    dims: dict[str, Extent] = {}
    for part in parts:
        for dim, extent in part.dims.items():
            dims[dim] = dims[dim].meet(extent) if dim in dims else extent
    return dims


def facts_of(op: str, static: tuple[Any, ...], operands: Sequence[Facts]) -> Facts:
    """Facts of a call, from those of the tensors among its operands."""
    first: Mapping[str, Extent] = operands[0].dims if operands else {}
    dims: Mapping[str, Extent] = united(operands)
    element = operands[0].element if operands else None
    match op, static:
        case "if", _:
            element = operands[1].element
        case (("cast" | "bitcast"), (element,)):
            pass
        case (("and" | "or" | "xor" | "not" | "can_deref" | "isfinite" | "isinf" | "isnan"), _):
            element = BOOL
        case (("eq" | "not_eq" | "less" | "less_equal" | "greater" | "greater_equal"), _):
            element = BOOL
        case "make_tuple", _:
            element = _tuple_of(operands)
        case "tuple_get", _:
            member: int = static[0].constant
            element = element.members[member] if isinstance(element, TupleElement) else None
        case "shift_apply", _:
            dims = _without(dims, highest_neighbour(dims))
        case "reduce", (dim,):
            folded = united(operands[1:])
            dims = united([operands[0], Facts(_without(folded, dim or highest_neighbour(folded)), None)])
        case "argreduce", (dim, *_):
            dims, element = _without(dims, dim), _tuple_of(operands[:2])
        case "contract", (element, over):
            dims = _without(dims, *over)
        case "subset", (ranges,):
            dims = {**dims, **{r.dim: Extent.of(r.start, r.stop) for r in ranges}}
        case "concat", _:
            dim = joined_dim(operands)
            dims = {**dims, dim: _joined([o.dims[dim] for o in operands])}
        case "update", _:
            # in the body of a fold a part has the folded dim besides
            dims = {**dims, **first}
        case (("assert_" | "print" | "scatter"), _):
            dims = first
        case "pos", (dim,):
            dims, element = {dim: dims[dim]}, INT32
        case "add_dim", (dim, start, stop):
            dims = {**dims, dim: Extent.of(start, stop)}
        case "rename", (pairs,):
            new: dict[str, str] = dict(pairs)
            dims = {new.get(d, d): replace(e, mixed=e.neighbours is not None) for d, e in dims.items()}
        case "split_dim", (dim, outer, inner, extent):
            starts, stops = (_divided(bounds, extent) for bounds in _ends(dims[dim]))
            dims = {**_without(dims, dim), outer: Extent(starts, stops), inner: Extent.of(number(0), extent)}
        case "merge_dims", (outer, inner, dim):
            starts, stops = (_times(bounds, dims[inner].stops) for bounds in _ends(dims[outer]))
            dims = {**_without(dims, outer, inner), dim: Extent(starts, stops)}
        case "gather", (over, *_):
            dims = united([Facts(_without(first, *over), None), *operands[1:]])
        case "loop", _:
            carried: int = static[0].constant
            return operands[carried]
        case (("sort" | "top_k"), (dim, *rest)):
            element = element if len(operands) == 1 else _tuple_of(operands)
            dims = dims if op == "sort" else {**dims, dim: Extent.of(number(0), rest[0])}
        case _:
            pass
    return Facts(dims, element)


def joined_dim(operands: Sequence[Facts]) -> str:
    """The dim that tensors are joined along: the one in which they differ."""
    # the state of a scan has the scanned dim besides
    first = {d: e for d, e in operands[0].dims.items() if all(d in o.dims for o in operands)}
    differing = [d for d in first if any(_ends(o.dims[d]) != _ends(first[d]) for o in operands)]
    touching = [d for d in differing if first[d].stops == operands[1].dims[d].starts]
    return (touching or differing)[0]


def _joined(parts: Sequence[Extent]) -> Extent:
    """Adjacent extents as one."""
    starts, stops = {p.starts for p in parts}, {p.stops for p in parts}
    first = next((p.starts for p in parts if p.starts not in stops), parts[0].starts)
    return Extent(first, next((p.stops for p in parts if p.stops not in starts), parts[-1].stops))


def _ends(extent: Extent) -> tuple[frozenset[Affine], frozenset[Affine]]:
    return extent.starts, extent.stops


def _without(dims: Mapping[str, Extent], *names: str | None) -> dict[str, Extent]:
    return {d: e for d, e in dims.items() if d not in names}


def _tuple_of(operands: Iterable[Facts]) -> Element | None:
    members = tuple(f.element for f in operands)
    known = tuple(m for m in members if m is not None)
    return TupleElement(known) if len(known) == len(members) else None


def _divided(bounds: frozenset[Affine], by: Affine) -> frozenset[Affine]:
    """Bounds in blocks of a number of points: they are multiples of it."""
    n = by.constant
    return frozenset(Affine(tuple((s, f // n) for s, f in b.terms if f // n), b.constant // n) for b in bounds)


def _times(bounds: frozenset[Affine], stops: frozenset[Affine]) -> frozenset[Affine]:
    """Bounds of blocks as bounds of points."""
    (n,) = stops
    return frozenset(b.times(n.constant) for b in bounds)
