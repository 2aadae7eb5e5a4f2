"""Cases of a product of parameters of which each pair is tried: far fewer than the product, and still every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import pytest

__all__ = ["pairwise"]


def pairwise(*axes: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`; the values of a mapping have its keys as identifiers.

    >>> [case.values for case in pairwise([1, 2], "ab", "xy")]
    [(1, 'a', 'x'), (1, 'b', 'y'), (2, 'a', 'y'), (2, 'b', 'x')]
    """
    named = [
        list(axis.items()) if isinstance(axis, Mapping) else [(str(value), value) for value in axis] for axis in axes
    ]
    every = list(product(*(range(len(axis)) for axis in named)))
    pairs = {case: set(combinations(enumerate(case), 2)) for case in every}
    left = set[Any]().union(*pairs.values())
    chosen: list[tuple[int, ...]] = []
    while left:
        chosen.append(max(every, key=lambda case: len(pairs[case] & left)))
        left -= pairs[chosen[-1]]
    picked = [[axis[k] for axis, k in zip(named, case, strict=True)] for case in sorted(chosen)]
    return [pytest.param(*(value for _, value in case), id="-".join(name for name, _ in case)) for case in picked]
