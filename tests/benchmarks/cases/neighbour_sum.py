"""Sums over the neighbours of an unstructured mesh, with and without missing ones, and their gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.by_jax import by_hand, ours, vjp_by_hand, vjp_of_ours
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, C, Case, Problem, Run
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

TEXT = """
around(out: tensor<float, Vertex[0:n], K[0:k]>, x: tensor<float, Vertex[0:n], K[0:k]>,
       V2V: tensor<int, Vertex[0:n], _NB_Vertex[0:6]>) {
  out ← reduce(+, 0.0)(⟪V2V⟫(x));
}
"""


def inverse(table: np.ndarray, sources: int) -> np.ndarray:
    """For each source the destinations that read it, filled up with -1."""
    destination, slot = np.nonzero(table >= 0)
    source = table[destination, slot]
    order = np.argsort(source, kind="stable")
    source, destination = source[order], destination[order]
    place = np.arange(len(source)) - np.searchsorted(source, source)
    back = np.full((sources, place.max() + 1), -1, table.dtype)
    back[source, place] = destination
    return back


def inputs(rng: Any, side: int, k: int, holes: bool) -> dict[str, np.ndarray]:
    """A torus of side by side vertices with six neighbours each; with holes, a plane with edges."""
    i, j = np.divmod(np.arange(side * side), side)
    steps = [(0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1)]
    table = np.stack([((i + a) % side) * side + (j + b) % side for a, b in steps], 1).astype(np.int32)
    if holes:
        for slot, (a, b) in enumerate(steps):
            table[(i + a < 0) | (i + a >= side) | (j + b < 0) | (j + b >= side), slot] = -1
    x, g = rng.normal(size=(side * side, k)), rng.normal(size=(side * side, k))
    return {"x": x, "V2V": table, "g": g, "back": inverse(table, side * side)}


def gathered(x: Any, columns: Any, masks: Any) -> Any:
    total = 0.0
    for column, mask in zip(columns, masks, strict=True):
        value = x.at[column].get(mode="promise_in_bounds")
        total = total + (value if mask is None else lax.select(mask, value, lax.full_like(value, 0)))
    return total


def hand(field: str, table: str, fresh: bool = False) -> Any:
    """One gather for each neighbour, added up; where some are missing, selected by prepared masks."""

    def way(problem: Problem) -> Run:
        return by_hand(columnwise(problem.arrays[table], problem.sizes["k"]), field, fresh=fresh)(problem)

    return way


def columnwise(table: np.ndarray, levels: int = 1) -> Any:
    """The sum over the neighbours in a table, whose columns and masks are prepared."""
    columns = [jax.device_put(np.maximum(c, 0)) for c in table.T]
    masks = [jax.device_put(np.repeat((c >= 0)[:, None], levels, 1)) if (c < 0).any() else None for c in table.T]
    return lambda x: gathered(x, columns, masks)


def plain(x: Any, table: Any) -> Any:
    return jnp.where(table[:, :, None] >= 0, x[table], 0.0).sum(1)


def loops(out: Any, x: Any, table: Any) -> None:
    n, levels = x.shape
    for v in prange(n):
        for k in range(levels):
            out[v, k] = 0.0
        for s in range(table.shape[1]):
            w = table[v, s]
            if w >= 0:
                for k in range(levels):
                    out[v, k] += x[w, k]


SOURCE = """
void run(T *restrict out, const T *restrict x, const int *restrict table) {
#pragma omp parallel for schedule(static)
  for (long v = 0; v < SIDE * SIDE; v++) {
    T total[K] = {0};
    for (long s = 0; s < 6; s++) {
      long w = table[v * 6 + s];
      if (w >= 0)
        for (long k = 0; k < K; k++) total[k] += x[w * K + k];
    }
    for (long k = 0; k < K; k++) out[v * K + k] = total[k];
  }
}
"""


def scipy_sparse(problem: Problem) -> Run:
    """A sparse matrix times the field."""
    from scipy.sparse import csr_array

    x, table = problem.arrays["x"], problem.arrays["V2V"]
    rows, slots = np.nonzero(table >= 0)
    matrix = csr_array((np.ones(len(rows)), (rows, table[rows, slots])), shape=(len(x), len(x)))
    return lambda: [matrix @ x]


def outputs(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays["x"])]


def case(side: int, k: int, holes: bool, quick: bool = True) -> Case:
    return Case(
        f"neighbour sum{' with -1' * holes}",
        f"{side * side}x{k}",
        {"side": side, "k": k},
        {"side": 4, "k": 3},
        lambda rng, **sizes: inputs(rng, **sizes, holes=holes),
        {
            OURS: ours(TEXT, "out"),
            OURS_FRESH: ours(TEXT, "out", fresh=True),
            HAND: hand("x", "V2V"),
            HAND_FRESH: hand("x", "V2V", fresh=True),
            PLAIN: by_hand(plain, "x", "V2V", fresh=True),
            NUMBA: NumbaLoops(loops, outputs, ("x", "V2V")),
            C: CLoops(SOURCE, outputs, ("x", "V2V")),
            "SciPy": scipy_sparse,
        },
        operations=6,
        read=("x", "V2V"),
        quick=quick,
    )


def gradient(side: int, k: int, holes: bool, quick: bool = True) -> Case:
    return Case(
        f"gradient of neighbour sum{' with -1' * holes}",
        f"{side * side}x{k}",
        {"side": side, "k": k},
        {"side": 4, "k": 3},
        lambda rng, **sizes: inputs(rng, **sizes, holes=holes),
        {
            OURS: vjp_of_ours(TEXT, "out", ["x"], fresh=False),
            OURS_FRESH: vjp_of_ours(TEXT, "out", ["x"]),
            HAND: hand("g", "back"),
            HAND_FRESH: hand("g", "back", fresh=True),
            PLAIN: vjp_by_hand(plain, ("x", "V2V"), ["x"]),
            NUMBA: NumbaLoops(loops, outputs, ("g", "back")),
            C: CLoops(SOURCE, outputs, ("g", "back")),
        },
        operations=6,
        read=("g", "back"),
        beside={"forward": ours(TEXT, "out"), "forward, fresh": ours(TEXT, "out", fresh=True)},
        quick=quick,
    )


CASES = (
    case(320, 64, False),
    case(320, 64, True, quick=False),
    gradient(320, 64, False),
    gradient(320, 64, True, quick=False),
)
