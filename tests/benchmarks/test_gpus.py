"""What `make bench-gpu` times is first compared; here on small arrays, with the program of `jax.lax`."""

import jax
import pytest

from tests.benchmarks import gpus

SMALL = gpus.rows(small=True)
ROWS = {f"{k} {row.name}": row for k, row in enumerate(SMALL) if row.name != "hdiff, float32"}
OFTEN = ("laplacian", "nabla")


@pytest.mark.parametrize(
    "name", [name if name.endswith(OFTEN) else pytest.param(name, marks=pytest.mark.nightly) for name in ROWS]
)
def test_a_program_for_gpus_computes_what_jax_by_hand_does(name):
    with jax.enable_x64(True):
        given, ways = gpus.prepared(ROWS[name])
        gpus.compare(ROWS[name], *(way(given) for way in ways.values()))


@pytest.mark.nightly
def test_lifted_kernels_for_gpus_compute_what_jax_by_hand_does():
    with jax.enable_x64(True):
        for row in gpus.lifted_rows():
            given, ways = gpus.prepared(row)
            gpus.compare(row, *(way(given) for way in ways.values()))
