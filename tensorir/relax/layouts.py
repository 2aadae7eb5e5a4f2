"""Orders of axes, as TVM names them: a letter for each, and `NCHW4c` for channels in packs of four.

>>> import numpy as np
>>> x = np.arange(8).reshape(1, 2, 2, 1, 2)
>>> reordered(x, "NCHW2c", "NHWC", np.transpose, np.reshape)[0, 1, 0]
array([2, 3, 6, 7])
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["letters_of", "reordered"]

T = TypeVar("T", bound=Any)


def reordered(
    x: T, layout: str, wanted: str, permute: Callable[[T, list[int]], T], reshape: Callable[[T, list[int]], T]
) -> T:
    """What has one layout in another one; a small letter is the place within a pack.

    ValueError where they have other letters.
    """
    given, packs = letters_of(layout)
    target, sizes = letters_of(wanted)
    if sorted(c for c in given if c.isupper()) != sorted(c for c in target if c.isupper()):
        raise ValueError(f"the layout {layout} has other axes than {wanted}")
    plain = [c for c in target if c.isupper()]
    if packs:
        extent = dict(zip(given, x.shape, strict=True))
        x = permute(x, [given.index(c) for d in plain for c in (d, d.lower()) if c in given])
        x = reshape(x, [extent[d] * extent.get(d.lower(), 1) for d in plain])
        given = plain
    x = permute(x, [given.index(c) for c in plain])
    if sizes:
        apart = [c for d in plain for c in (d, d.lower()) if c in target]
        extent = dict(zip(plain, x.shape, strict=True))
        x = reshape(x, [sizes.get(c) or extent[c] // sizes.get(c.lower(), 1) for c in apart])
        x = permute(x, [apart.index(c) for c in target])
    return x


def letters_of(layout: str) -> tuple[list[str], dict[str, int]]:
    """The axes in order, and the sizes of packs."""
    parts: list[tuple[str, str]] = re.findall(r"(\d*)([A-Za-z])", layout)
    return [c for _, c in parts], {c: int(size) for size, c in parts if size}
