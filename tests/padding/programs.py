"""Templates in which every construct meets an end that is a size."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.ir.nodes import Fencil
from tensorir.ir.types import DTYPES

X = "x: tensor<float, I[0:n]>"
Y = "y: tensor<float, I[0:n]>"
A = "a: tensor<float>, b: tensor<float>"
CARRIED = "k: tensor<int>, a: tensor<float, I[0:n]>"

PROGRAMS: dict[str, str] = {
    "differences at a negative start": (
        "f(y: tensor<float, I[-1:n+1]>, x: tensor<float, I[-2:n+2]>) { y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }"
    ),
    "an interval that begins at a size": (
        "f(y: tensor<float, I[n:2*n]>, x: tensor<float, I[0:2*n]>) { y ← x + ⟪I, -n⟫(x); }"
    ),
    "an interval around 0": (
        "f(y: tensor<float, I[1-n:n-1]>, x: tensor<float, I[-n:n]>) { y ← ⟪I, 1⟫(x) × cast(pos(I, x), float64); }"
    ),
    "periodic smoothing": (
        f"f({Y}, {X}) {{ y ← let l = concat(subset(⟪I, n-1⟫(x), I[0:1]), subset(⟪I, -1⟫(x), I[1:n]));"
        " let r = concat(subset(⟪I, 1⟫(x), I[0:n-1]), subset(⟪I, 1-n⟫(x), I[n-1:n]));"
        " 0.25 × l + 0.5 × x + 0.25 × r; }"
    ),
    "three parts joined": (
        "f(y: tensor<float, I[0:n+m+2]>, a: tensor<float, I[0:n]>, b: tensor<float, I[0:m]>) {"
        " y ← concat(a, add_dim(I, n, n+2, 5.0), ⟪I, -n-2⟫(b)); }"
    ),
    "parts of an output": f"f({Y}, {X}) {{ y ← x; y[I[n-1:n]] ← 7.0; y[I[0:1]] ← ⟪I, n-1⟫(x); }}",
    "outputs that are inputs": (
        f"f(u: tensor<float, I[0:n]>, {X}) {{ u[I[1:n]] ← u + ⟪I, -1⟫(x); x[I[0:n-1]] ← x + ⟪I, 1⟫(u); }}"
    ),
    "read from the end": f"f({Y}, {X}) {{ y ← gather(I)(x, n - 1 - pos(I, x)); }}",
    "indices beyond the end": (
        f"f({Y}, {X}) {{ y ← gather(I, clamp)(x, pos(I, x) + 3) + gather(I, zero)(x, pos(I, x) + 2); }}"
    ),
    "a sum": f"f(y: tensor<float>, {X}) {{ y ← reduce(+, -0.0, I)(x); }}",
    "a sum of products": f"f(y: tensor<float>, {X}) {{ y ← reduce(+, 0.0, I)(x × x); }}",
    "a sum of cubes": f"f(y: tensor<float>, {X}) {{ y ← reduce(λ({A}) → a + b × b × b, 0.0, I)(x); }}",
    "a largest": f"f(y: tensor<float>, {X}) {{ y ← reduce(max, -inf, I)(-x); }}",
    "an ordered fold": f"f(y: tensor<float>, {X}) {{ y ← reduce(λ({A}) → a × 0.5 + b, 0.0, I)(x); }}",
    "a count": f"f(y: tensor<float>, {X}) {{ y ← reduce(λ({A}) → a + 1.0, 0.0, I)(x); }}",
    "a mean": f"f(y: tensor<float>, {X}) {{ y ← reduce(+, 0.0, I)(x) / cast(n, float64); }}",
    "a size as a number": f"f({Y}, {X}) {{ y ← x × (1.0 / cast(n - 1, float64)) + cast(2 * n, float64); }}",
    "running sums": f"f({Y}, {X}) {{ y ← x; y[I[1:n]] ← ⟪I, -1⟫(scan(λ({A}) → a + b, true, 0.0, I)(x)); }}",
    "a scan backwards": f"f({Y}, {X}) {{ y ← scan(λ({A}) → a × 0.9 + b, false, 1.0, I)(x); }}",
    "a scan from a size on": (
        "f(y: tensor<float, I[n:2*n]>, x: tensor<float, I[n:2*n]>) {"
        f" y ← scan(λ({A}) → a × 0.9 + b, true, 1.0, I)(x); }}"
    ),
    "a fold in a scan": (
        "f(y: tensor<float, K[0:n]>, x: tensor<float, I[0:m], K[0:n]>) {"
        " y ← scan(λ(a: tensor<float>, b: tensor<float, I[0:m]>) → a × 0.5 + reduce(+, 0.0, I)(b), true, 0.0, K)(x); }"
    ),
    "as many rounds as points": (
        f"f({Y}, {X}) {{ y ← loop(0, n)(λ({CARRIED}) → true, λ({CARRIED}) → a × 1.5 + cast(k, float64), x); }}"
    ),
    "rounds of a stencil": (
        f"f({Y}, {X}) {{ y ← loop(0, 4)(λ({CARRIED}) → true,"
        f" λ({CARRIED}) → update(a, 0.5 × (⟪I, 1⟫(a) + ⟪I, -1⟫(a))), x); }}"
    ),
    "rounds until all are small": (
        f"f({Y}, {X}) {{ y ← loop(0, none)(λ({CARRIED}) → reduce(max, 0.0, I)(a) > 0.3, λ({CARRIED}) → a × 0.7, x); }}"
    ),
    "a branch": (
        f"f({Y}, {X}) {{ y ← cond(0)(λ(a: tensor<float, I[0:n]>) → a + 1.0, λ(a: tensor<float, I[0:n]>) → a - 1.0,"
        " reduce(+, 0.0, I)(x) > 5.0, x); }"
    ),
    "sorted": f"f({Y}, {X}) {{ y ← sort(I, 1)(x); }}",
    "sorted, the largest first": f"f({Y}, {X}) {{ y ← sort(I, 1, true)(x); }}",
    "the three largest": f"f(y: tensor<float, I[0:3]>, {X}) {{ y ← top_k(I, 3, 1, true)(x); }}",
    "where the largest is": (
        f'f(y: tensor<(float, int)>, {X}) {{ y ← argreduce(I, true, "old", false)(-inf, -1, x, pos(I, x)); }}'
    ),
    "a product of matrices": (
        "f(y: tensor<float, I[0:n], J[0:m]>, a: tensor<float, I[0:n], K[0:l]>, b: tensor<float, K[0:l], J[0:m]>) {"
        " y ← contract(float, K)(a, b); }"
    ),
    "a histogram": (
        "f(y: tensor<float, B[0:4]>, x: tensor<float, I[0:n]>, k: tensor<int, I[0:n]>) {"
        " y ← scatter(+, B, over: (I))(add_dim(B, 0, 4, 0.0), k, x); }"
    ),
    "writes beyond the end": (
        f"f(y: tensor<float, B[0:n]>, {X}) {{"
        " y ← scatter(+, B, over: (I), clamp)(add_dim(B, 0, n, 0.0), 2 × pos(I, x), x)"
        " + scatter(+, B, over: (I), zero)(add_dim(B, 0, n, 0.0), 3 × pos(I, x), x); }"
    ),
    "a dim in rows of four": (
        "f(y: tensor<float, A[0:n], B[0:4]>, z: tensor<float, I[0:4*n]>, x: tensor<float, I[0:4*n]>) {"
        " y ← split_dim(I, A, B, 4)(x); z ← merge_dims(A, B, I)(y); }"
    ),
    "transposed": (
        "f(y: tensor<float, I[0:m], J[0:n]>, x: tensor<float, I[0:n], J[0:m]>) { y ← rename(I → J, J → I)(x); }"
    ),
    "what is asserted": f'f({Y}, {X}) {{ y ← assert_(x, x > 0.1, "small"); }}',
    "tuples": f"f(y: tensor<(float, int), I[0:n]>, {X}) {{ y ← make_tuple(x × 2.0, pos(I, x)); }}",
    "whole numbers": (
        "f(y: tensor<int>, x: tensor<int, I[0:n]>) { y ← reduce(+, 0, I)(x) + reduce(min, 1000, I)(x); }"
    ),
    "neighbours": (
        "f(y: tensor<float, V[0:n]>, x: tensor<float, E[0:m]>, t: tensor<int, V[0:n], _NB_E[0:3]>) {"
        " y ← reduce(+, 0.0)(⟪t⟫(x)); }"
    ),
    "roots and quotients": (
        f"f(y: tensor<float, I[0:n-1]>, {X}) {{ y ← x / ⟪I, 1⟫(x) + sqrt(x - ⟪I, 1⟫(x) + 2.0); }}"
    ),
    "roots and quotients in a scan": f"f({Y}, {X}) {{ y ← scan(λ({A}) → sqrt(b) / a + log(b), false, 1.0, I)(x); }}",
}  # fmt: skip


def drawn(fencil: Fencil, seed: int = 0) -> dict[str, Any]:
    """Arrays for what a fencil reads: floats of at least a half, indices below 4 and below every extent."""
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for p in fencil.inputs:
        dtype, shape = DTYPES[p.type.leaves[0]], p.type.dims.shape
        fractions = random.random(shape) + 0.5
        found[p.name] = fractions.astype(dtype) if dtype.kind == "f" else (4 * (fractions - 0.5)).astype(dtype)
    return found


def copied(given: dict[str, Any]) -> dict[str, Any]:
    """The same arrays apart: a call writes into those of outputs."""
    return {name: np.array(a) for name, a in given.items()}
