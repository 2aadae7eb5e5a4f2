"""A million cases of roundings and conversions of Tile IR: `python -m tests.tile_numerics.many [seed]`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import test_tile_rounding as t

EACH = 8_000
"""Cases of one operation, format and mode."""


def main(seed: int | None = None) -> int:
    """Try them; an assertion names the one that fails."""
    seed = int(time.time()) if seed is None else seed
    cases = 0
    for element in t.BASE:
        for mode in t.MODES:
            for name in t.OPERATIONS:
                t.test_an_operation_is_the_exact_result_rounded_once(name, element, mode, EACH, seed)
            t.test_a_root_is_the_exact_one_rounded_once(element, mode, EACH, seed)
            t.test_fma_rounds_once(element, mode, EACH, seed)
            cases += 6 * EACH
    for source, target in t.CONVERTED:
        t.test_a_conversion_is_the_exact_number_rounded_once(source, target, EACH, seed)
        cases += EACH
    print(f"{cases} roundings of Tile IR, seed {seed}: each exact")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
