"""Which iteration stores an element: a store's indices, solved for the variables of its loops.

>>> from tensorir.lift.affine import number, variable
>>> from tensorir.types import Interval
>>> i, r = variable("i"), variable("r")
>>> found = inverse([i, i.plus(r)], {"i": Interval(0, 8), "r": Interval(0, 3)})
>>> {n: str(a) for n, a in found.at([variable("y"), variable("y").plus(number(2))]).items()}
{'i': 'y', 'r': '2'}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorir.lift.affine import Affine, Ranges
from tensorir.types import Interval

__all__ = ["Inverse", "inverse"]


@dataclass(frozen=True, slots=True)
class Inverse:
    """Per variable, in an order in which they follow: the index that tells it, its sign, and what else that holds.

    `rest` are indices that say nothing more, and must be what they are for the iteration that the others tell.
    """

    steps: tuple[tuple[str, int, int, Affine], ...]
    rest: tuple[tuple[int, Affine], ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(n for n, _, _, _ in self.steps)

    def at(self, indices: Sequence[Affine]) -> dict[str, Affine] | None:
        """The iteration that stores the element at some indices; None where they are not known to be those of one."""
        found: dict[str, Affine] = {}
        for name, k, sign, others in self.steps:
            found[name] = indices[k].minus(others.replaced(found, {})).times(sign)
        for k, a in self.rest:
            left = indices[k].minus(a.replaced(found, {}))
            if left.terms or left.constant:
                return None
        return found

    def inside(self, values: Mapping[str, Affine], dims: Mapping[str, Interval], ranges: Ranges) -> bool:
        """Whether an iteration is one of the store's, for all values of the variables that it depends on."""
        for name, _, _, _ in self.steps:
            spread = values[name].range(ranges)
            if spread is None or spread[0] < dims[name].start or spread[1] >= dims[name].stop:
                return False
        return True


def inverse(location: Sequence[Affine | None], dims: Mapping[str, Interval]) -> Inverse | None:
    """The variables of a store whose elements tell them one after the other; None where they do not."""
    pending: dict[int, Affine] = {}
    for k, a in enumerate(location):
        if a is None or not a.names <= dims.keys():
            return None
        pending[k] = a
    steps: list[tuple[str, int, int, Affine]] = []
    known: set[str] = set()
    while True:
        new = next((s for k, a in pending.items() if (s := _step(k, a, known)) is not None), None)
        if new is None:
            break
        steps.append(new)
        known.add(new[0])
        del pending[new[1]]
    if any(not a.names <= known for a in pending.values()):
        return None
    return Inverse(tuple(steps), tuple(pending.items()))


def _step(k: int, a: Affine, known: set[str]) -> tuple[str, int, int, Affine] | None:
    """The one variable that an index tells beside those that are known."""
    new = [(n, c) for n, c in a.terms if isinstance(n, str) and n not in known]
    if len(new) != 1 or abs(new[0][1]) != 1:
        return None
    others = Affine(tuple(t for t in a.terms if t[0] != new[0][0]), a.constant)
    ((name, c),) = new
    return (name, k, c, others) if others.names <= known else None
