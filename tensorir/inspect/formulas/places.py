r"""Where a formula reads: indices, the extents of dims with sizes in them, and what is known of each expression.

>>> i = Index.letter("i")
>>> i.moved(Affine(1)).text(), i.moved(Affine.of("n")).text(), i.moved(Affine(1)).text(half=True)
('i+1', 'i+n', 'i+\\tfrac{1}{2}')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tensorir.inspect.formulas.terms import ATOM, Term, name
from tensorir.ir.builtins import PRODUCT, SUM
from tensorir.ir.types import Element
from tensorir.text.syntax import Affine

__all__ = ["Extent", "Facts", "Index", "Neighbours", "Point", "affine", "united"]


def affine(value: Affine) -> str:
    r"""A bound, with sizes as names.

    >>> affine(Affine(-1, (("n", 2),)))
    '2 n-1'
    """
    return value.spelled(lambda size: name(size).text).replace("*", " ")


ZERO = Affine()


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
        return Index(name(text).text, letters=frozenset([text]), member=member)

    def moved(self, distance: Affine) -> Index:
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
        distances = [(other, bound.plus(other, -1)) for other in kept]
        if any(not d.terms and sign * d.constant <= 0 for _, d in distances):
            continue
        kept = [other for other, d in distances if d.terms]
        kept.append(bound)
    return frozenset(kept)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Which table a neighbour dim comes from: its slots are the neighbours of a point."""

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
    """Whether slots of one number are of several tables, or moved since."""

    @staticmethod
    def of(start: Affine, stop: Affine) -> Extent:
        return Extent(frozenset([start]), frozenset([stop]))

    def moved(self, distance: Affine) -> Extent:
        return replace(
            self,
            starts=frozenset(s.plus(distance, -1) for s in self.starts),
            stops=frozenset(s.plus(distance, -1) for s in self.stops),
        )

    def meet(self, other: Extent) -> Extent:
        """The points of both."""
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
        return self.behind().moved(Affine(-1)).text()

    def before(self) -> Index:
        return _end(self.starts, r"\max").moved(Affine(-1))

    def behind(self) -> Index:
        return _end(self.stops, r"\min")

    def holds(self, index: str) -> str:
        """That an index is inside."""
        ends = [*self.starts, *self.stops]
        if len(ends) == 2 and ends[1].plus(ends[0], -1) == Affine(1):
            return f"{index} = {self.first}"
        return rf"{self.first} \le {index} < {self.stop}"


def _end(bounds: frozenset[Affine], of_several: str) -> Index:
    return Index("", next(iter(bounds))) if len(bounds) == 1 else Index(_bound(bounds, of_several))


def _bound(bounds: frozenset[Affine], of_several: str) -> str:
    texts = sorted(map(affine, bounds))
    return texts[0] if len(texts) == 1 else rf"{of_several}({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an expression: its dims, its elements, and how long it is where it stands."""

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
