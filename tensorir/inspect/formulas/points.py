"""Indices with letters: any point along some dims, and what a tensor is at a point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorir.inspect.formulas.places import Extent, Index, Neighbours, Point
from tensorir.inspect.formulas.scopes import Scopes, Tensor
from tensorir.inspect.formulas.terms import ATOM, Term, within
from tensorir.ir.builtins import POWER, PRODUCT
from tensorir.staggering import HALF
from tensorir.text.syntax import Affine

__all__ = ["Points", "computed", "factor", "inside", "letters_in"]


@dataclass(frozen=True, slots=True)
class Points:
    """The letters of a program, and one for slots of neighbours."""

    scopes: Scopes
    slot: str

    def generic(self, dims: Mapping[str, Extent]) -> Point:
        """Any point along some dims; neighbours by their slots, or, where one table has them, themselves."""
        point: dict[str, Index] = {}
        for dim, _ in self.scopes.places(dims):
            point[dim] = self.index(dim, dims[dim], letters_in(point.values()))
        return point

    def index(self, dim: str, extent: Extent, used: frozenset[str]) -> Index:
        own = self.scopes.own.get(dim, dim)
        listed = extent.listed
        letter = self.scopes.letters.get(own if listed is None else listed.source, self.slot)
        while letter in used:
            letter += "'"
        return Index.letter(letter, member=listed is not None)

    def running(self, dims: Mapping[str, Extent], dim: str, point: Point) -> Index:
        """An index to fold over, with a letter that nothing around it has."""
        return self.index(dim, dims[dim], letters_in(point.values()))

    def read(self, tensor: Tensor, point: Point, members: tuple[int, ...] = ()) -> Term:
        """A tensor at a point."""
        indices: list[str] = []
        for dim, place in tensor.places:
            index = point.get(place) or self.index(dim, tensor.facts.dims[place], letters_in(point.values()))
            if tensor.lag is not None and tensor.lag[0] == dim:
                index = index.moved(Affine(tensor.lag[1]))
            listed = tensor.facts.dims[place].listed
            if listed is not None and not index.member:
                at = {**point, listed.tag: index}  # the neighbour in this slot
                index = Index(f"{listed.symbol}_{{{','.join(at[d].text() for d in listed.dims if d in at)}}}")
            indices.append(index.text(half=dim.endswith(HALF)))
        text = tensor.symbol
        if members:
            text += f"^{{({','.join(map(str, members))})}}"
        if indices:
            text += f"_{{{','.join(indices)}}}"
        return Term(text, POWER if members else ATOM)

    def entry(self, table: Tensor, point: Point) -> Index:
        """An entry of a table, as an index of what it leads to."""
        used = [point[p] for _, p in table.places if p in point]
        depth = 1 + max((i.depth for i in used), default=0)
        return Index(self.read(table, point).text, letters=letters_in(used), depth=depth)

    def neighbours(self, listed: Neighbours, point: Point) -> str:
        """The neighbours of a point."""
        places = [point[d].text() for d in listed.dims if d != listed.tag and d in point]
        return f"{listed.symbol}({', '.join(places)})"


def inside(extents: Mapping[str, Extent], point: Point) -> str:
    return r",\; ".join(extent.holds(point[d].text()) for d, extent in extents.items())


def letters_in(indices: Iterable[Index]) -> frozenset[str]:
    return frozenset[str]().union(*(i.letters for i in indices))


def computed(term: Term, *of: Index) -> Index:
    """An index that is no letter."""
    depth = 1 + max((i.depth for i in of), default=0)
    return Index(term.text, letters=letters_in(of), depth=depth, binding=term.binding)


def factor(index: Index) -> str:
    return within(index.term, PRODUCT)
