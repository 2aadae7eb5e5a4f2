"""Widths of conversions, predicates of assume, and what select chooses from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorir.tile.attributes import Bounded, DivBy, SameElements
from tensorir.tile.elements import Element
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Pointer, TensorView, Tile

__all__ = ["RULES"]


def _elements(op: Operation) -> tuple[Any, Any]:
    source, target = op.values[0].type, op.results[0].type
    assert isinstance(source, Tile) and isinstance(target, Tile)
    return source.element, target.element


def _bitcast(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _elements(op)
    if source.bits != target.bits:
        yield "TV05", f"bitcast keeps the width, and {source} has {source.bits} bits and {target} {target.bits}."


def _exti(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _elements(op)
    if source.bits >= target.bits:
        yield "TV05", f"exti gives a wider type, and {target} is not wider than {source}."


def _trunci(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _elements(op)
    if source.bits <= target.bits:
        yield "TV05", f"trunci gives a narrower type, and {target} is not narrower than {source}."


def _select(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.results[0].type
    if isinstance(type, Tile) and isinstance(type.element, Element) and type.element.name == "f4E2M1FN":
        yield "TV05", "select has no elements of f4E2M1FN."


def _assume(op: Operation) -> Iterator[tuple[str, str]]:
    type, predicate = op.results[0].type, op.attribute("predicate")
    integers = isinstance(type, Tile) and isinstance(type.element, Element) and type.element.is_integer
    pointers = isinstance(type, Tile) and isinstance(type.element, Pointer)
    match predicate:
        case DivBy():
            yield from _div_by(predicate, type, integers or pointers)
        case SameElements(extents):
            if not isinstance(type, Tile) or not (integers or pointers):
                yield "TV13", f"same_elements is said of integers or pointers, and not of {type}."
            elif len(extents) != len(type.shape):
                yield "TV13", f"same_elements has {len(extents)} numbers, and {type} has {len(type.shape)} dims."
            else:
                for k, (extent, whole) in enumerate(zip(extents, type.shape, strict=True)):
                    if not 0 <= extent <= whole:
                        yield "TV13", f"same_elements has {extent} for dim {k}, whose extent is {whole}."
        case Bounded(lower, upper):
            if not isinstance(type, Tile) or not isinstance(type.element, Element) or not integers:
                yield "TV13", f"bounded is said of integers, and not of {type}."
                return
            least, most = type.element.range
            for bound in (lower, upper):
                if bound is not None and not least <= bound <= most:
                    yield "TV13", f"a bound of {type.element} is {least} to {most}, and {bound} is not."
            if lower is not None and upper is not None and lower > upper:
                yield "TV13", f"the lower bound {lower} is above the upper bound {upper}."
        case _:
            yield "TV13", "assume needs a predicate."


def _div_by(predicate: DivBy, type: object, fits: bool) -> Iterator[tuple[str, str]]:
    divisor, every, along = predicate.divisor, predicate.every, predicate.along
    if divisor <= 0 or divisor & (divisor - 1) or divisor > 1 << 62:
        yield "TV13", f"the divisor of div_by is a power of two up to 2^62, and {divisor} is none."
    if (every is None) != (along is None):
        yield "TV13", "div_by has both 'every' and 'along', or neither."
        return
    if isinstance(type, TensorView):
        if every is not None:
            yield "TV13", "div_by of a tensor_view has no 'every' and 'along'."
        return
    if not isinstance(type, Tile) or not fits:
        yield "TV13", f"div_by is said of integers, pointers or a tensor_view, and not of {type}."
        return
    if every is None or along is None:
        return
    if not type.shape:
        yield "TV13", "div_by of a scalar has no 'every' and 'along'."
    elif not 0 <= along < len(type.shape):
        yield "TV13", f"'along' is a dim from 0 to {len(type.shape) - 1}, and {along} is none."
    elif not 0 <= every <= type.shape[along]:
        yield "TV13", f"'every' is at most the extent {type.shape[along]} of its dim, and {every} is not."


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "bitcast": _bitcast,
    "exti": _exti,
    "trunci": _trunci,
    "select": _select,
    "assume": _assume,
}
