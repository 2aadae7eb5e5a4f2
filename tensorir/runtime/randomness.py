"""Random numbers that a seed tells."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tensorir.runtime.errors import refuse

__all__ = ["generator"]


def generator(seed: Any) -> np.random.Generator:
    """Random numbers from a seed; raises B14 for what is none.

    >>> int(generator(3).integers(10)) == int(generator(3).integers(10))
    True
    """
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise refuse("B14", f"the seed is {seed!r}, and a seed is a whole number from 0 up.")
    return np.random.default_rng(cast("int", seed))
