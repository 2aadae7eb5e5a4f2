"""New programs without end: `python -m tests.fuzz [folder [batches]]`, until one fails or the process is stopped.

Every property of generated programs and of their gradients is tried on batches of new programs in turn, and functions
of TIR are lifted between them; `tests/lift/fuzz_lift.py` prints those that disagree, and `tests/tir/mutated_texts.py`
the texts with changed tokens that are neither read nor refused. Where a property fails, Hypothesis
shrinks the program; what is left is written to the folder (`fuzz` by default) as NAME.fencil and NAME.npz, with what
went wrong as comments, and the process ends with 1.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, seed, settings

from tests.generate.bounds import flat
from tests.generate.gradients import check_adjoint, check_differences, check_tables
from tests.generate.profiles import EVERY, EXACT, SMOOTH, WHOLE, Profile
from tests.generate.programs import Case, programs
from tests.generate.properties import (
    check_bounded,
    check_compiled,
    check_domain,
    check_exact,
    check_op_by_op,
    check_round_trip,
)
from tests.lift import fuzz_lift
from tests.tile import fuzz_tile
from tests.tile_numerics import many
from tests.tir import mutated_texts

PROPERTIES: list[tuple[Profile, Callable[[Case], None]]] = [
    (EVERY, check_round_trip),
    (EVERY, check_domain),
    (EXACT, check_op_by_op),
    (EXACT, check_exact),
    (WHOLE, check_compiled),
    (SMOOTH, check_bounded),
    (SMOOTH, check_adjoint),
    (SMOOTH, check_tables),
    (SMOOTH, check_differences),
]
BATCH = 200
SEEDS = 20
"""Of functions of TIR, between the batches."""
DAMAGED = 20_000
"""Texts and files of Tile IR with changed pieces, likewise; its roundings are tried too."""
MUTANTS = 400
"""Texts of TIR and Relax with changed tokens, likewise."""


def main(folder: Path, batches: int | None = None) -> int:
    """Run batches of programs, by default without end; 1 where one failed."""
    began, count, number = time.time(), 0, int(time.time())
    while batches is None or batches > 0:
        for profile, check in PROPERTIES:
            number += 1
            failed = batch(profile, check, number)
            if failed is not None:
                print(write(folder, check.__name__, *failed))
                return 1
            count += BATCH
            print(f"{count} programs in {time.time() - began:.0f} s, the last of {profile} for {check.__name__}")
        if fuzz_lift.main(number, SEEDS) or mutated_texts.fuzz(range(number, number + MUTANTS)):
            return 1
        if fuzz_tile.main(DAMAGED, number) or many.main(number):
            return 1
        batches = None if batches is None else batches - 1
    return 0


def batch(profile: Profile, check: Callable[[Case], None], number: int) -> tuple[Case, Exception] | None:
    """One batch; the smallest program that fails, and how."""
    smallest: list[tuple[Case, Exception]] = []

    @seed(number)
    @settings(max_examples=BATCH, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(programs(profile))
    def run(case: Case) -> None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                check(case)
        except Exception as error:
            # the last that fails is the one that Hypothesis ends with
            smallest[:] = [(case, error)]
            raise

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run()
    except Exception:
        if not smallest:
            raise
        return smallest[0]
    return None


def write(folder: Path, name: str, case: Case, error: Exception) -> str:
    """The program, its data, and a sentence that says where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{case.seed}"
    said = "".join(f"// {line}\n" for line in f"{name}: {type(error).__name__}: {error}".splitlines())
    path.with_suffix(".fencil").write_text(f"{case.fencil}\n\n{said}", encoding="utf-8")
    leaves = {
        f"{n}_{k}" if isinstance(value, tuple) else n: leaf
        for n, value in case.arguments.items()
        for k, leaf in enumerate(flat(value))
    }
    # NumPy's format has no bfloat16
    kept = {n: a if a.dtype.isbuiltin else a.astype(np.float32) for n, a in leaves.items()}
    np.savez(path.with_suffix(".npz"), **kept)
    return f"{name} failed: see {path.with_suffix('.fencil')} and {path.with_suffix('.npz')}\n{case}\n{error}"


if __name__ == "__main__":
    place, *count = sys.argv[1:] or ["fuzz"]
    sys.exit(main(Path(place), int(count[0]) if count else None))
