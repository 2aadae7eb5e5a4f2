"""Affine expressions of size parameters: the bounds of `I[-1:n+1]` and `I[2*k:n-1]`.

>>> n = Affine.of("n")
>>> print(n.plus(Affine(-1)), Affine.of("k", 2), Affine(3))
n-1 2*k 3
>>> n.plus(Affine(-1)).at({"n": 10})
9
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Affine"]


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + Σ factor × size, the sizes in alphabetical order, each once and with a factor that is not 0."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(size: str, factor: int = 1) -> Affine:
        return Affine(0, ((size, factor),) if factor else ())

    def plus(self, other: Affine, times: int = 1) -> Affine:
        """self + times × other."""
        factors = dict(self.terms)
        for name, factor in other.terms:
            factors[name] = factors.get(name, 0) + times * factor
        terms = tuple(sorted((name, factor) for name, factor in factors.items() if factor))
        return Affine(self.constant + times * other.constant, terms)

    def at(self, sizes: Mapping[str, int]) -> int:
        """The value for given sizes."""
        return self.constant + sum(factor * sizes[name] for name, factor in self.terms)

    def __str__(self) -> str:
        from tensorir.text.spelling import quoted_name

        return self.spelled(quoted_name)

    def spelled(self, name: Callable[[str], str]) -> str:
        """The text, with names spelled by a function."""
        text = ""
        for size, factor in self.terms:
            sign = "-" if factor < 0 else "+" if text else ""
            text += f"{sign}{'' if abs(factor) == 1 else f'{abs(factor)}*'}{name(size)}"
        if self.constant or not text:
            text += f"{'+' if text and self.constant > 0 else ''}{self.constant}"
        return text
