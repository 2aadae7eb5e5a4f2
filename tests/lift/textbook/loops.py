"""Loops as a page of a book has them: the text, the strategies that they need, and the same in NumPy.

Each function of NumPy takes copies of the arrays and changes them as the loop does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["LOOPS", "PARALLEL", "REDUCTION", "SCAN", "arrays_of"]

PARALLEL, REDUCTION, SCAN = "parallel", "reduction", "scan"
Row = tuple[str, set[str], Callable[..., None]]


def _buffers(**shapes: Any) -> str:
    parts = (f'{n}: T.Buffer({s if isinstance(s, tuple) else (s,)}, "float32")' for n, s in shapes.items())
    return ", ".join(parts) + "):\n"


def _text(body: str, storage: str = "", **shapes: Any) -> str:
    lines = [f"    {line}" for line in (storage + body).strip("\n").split("\n")]
    return _buffers(**shapes) + "\n".join(lines) + "\n"


SCALAR = '{0} = T.alloc_buffer((1,), "float32")\n'
ROW = '{0} = T.alloc_buffer(({1},), "float32")\n'


def _cumulative(A: Any, B: Any) -> None:
    B[:] = np.cumsum(A)


def _prefix_maximum(A: Any, B: Any) -> None:
    B[:] = np.maximum.accumulate(A)


def _stride(A: Any, B: Any) -> None:
    for i in range(2, 12):
        A[i] = A[i - 2] * np.float32(0.5) + B[i]


def _leapfrog(X: Any, V: Any) -> None:
    for i in range(9):
        V[i + 1] = V[i] - np.float32(0.1) * X[i]
        X[i + 1] = X[i] + np.float32(0.1) * V[i + 1]


def _fir(X: Any, Y: Any) -> None:
    p = np.concatenate([np.zeros(2, "float32"), X])
    Y[:] = np.float32(0.5) * p[2:] + np.float32(0.25) * p[1:-1] + np.float32(0.125) * p[:-2]


def _ring(A: Any, B: Any) -> None:
    ring = [np.float32(0)] * 3
    for i in range(12):
        ring[i % 3] = A[i]
        B[i] = ring[0] + ring[1] + ring[2]


def _double(A: Any, B: Any) -> None:
    for _ in range(5):
        old = A.copy()
        A[1:11] = np.float32(0.5) * (old[0:10] + old[2:12])
    B[:] = A


def _last_valid(A: Any, B: Any) -> None:
    last = np.float32(0)
    for i in range(10):
        last = A[i] if A[i] > 0 else last
        B[i] = last


def _segmented(A: Any, F: Any, B: Any) -> None:
    s = np.float32(0)
    for i in range(10):
        s = A[i] if F[i] > 0 else s + A[i]
        B[i] = s


def _diagonal(A: Any) -> None:
    for i in range(5):
        for j in range(5):
            A[i + 1, j + 1] += np.float32(0.5) * A[i, j]


def _down(A: Any) -> None:
    for i in range(1, 6):
        A[i] += np.float32(0.5) * A[i - 1]


def _across(A: Any) -> None:
    for j in range(1, 6):
        A[:, j] += np.float32(0.5) * A[:, j - 1]


def _backward(A: Any) -> None:
    for j in range(4, -1, -1):
        A[:, j] += np.float32(0.5) * A[:, j + 1]


def _horner(C: Any, X: Any, Y: Any) -> None:
    for j in range(6):
        Y[j] = np.polyval(C, X[j])


def _dot(A: Any, B: Any, C: Any) -> None:
    C[0] = A @ B


def _matmul(A: Any, B: Any, C: Any) -> None:
    C[:] = A @ B


def _two_nests(A: Any, C: Any) -> None:
    C[:] = A.sum(0)


def _chain(A: Any, B: Any) -> None:
    x = A
    for _ in range(10):
        x = np.float32(0.5) * x[:-2] + np.float32(0.25) * x[2:]
    B[:] = x


def _red_black(A: Any) -> None:
    for start in (1, 2):
        old = A.copy()
        k = np.arange(start, 11, 2)
        A[k] = np.float32(0.5) * (old[k - 1] + old[k + 1])


def _reverse(A: Any) -> None:
    A[:] = A[::-1].copy()


def _transpose(A: Any) -> None:
    A[:] = A.T.copy()


def _triangular(L: Any, B: Any) -> None:
    B[:] = np.tril(L).sum(1)


def _wavefront(A: Any) -> None:
    for i in range(1, 6):
        for j in range(1, 6):
            A[i, j] = np.float32(0.5) * (A[i - 1, j] + A[i, j - 1])


def _separable(A: Any, B: Any) -> None:
    t = A[:, :-2] + A[:, 1:-1] + A[:, 2:]
    B[:] = t[:-2] + t[1:-1] + t[2:]


def _softmax(A: Any, B: Any) -> None:
    e = np.exp(A - A.max(1, keepdims=True))
    B[:] = e / e.sum(1, keepdims=True)


def _fibonacci(A: Any, B: Any) -> None:
    for i in range(2, 10):
        A[i] = A[i - 1] * np.float32(0.5) + A[i - 2] * np.float32(0.25)
    B[:] = A


def _pipelined(A: Any, B: Any) -> None:
    B[:] = A * np.float32(2) + np.float32(1)


def _tridiagonal(A: Any, B: Any, C: Any, D: Any, X: Any) -> None:
    M = np.diag(B) + np.diag(A[1:], -1) + np.diag(C[:-1], 1)
    X[:] = np.linalg.solve(M.astype("float64"), D.astype("float64"))


def _welford(A: Any, M: Any) -> None:
    M[0], M[1] = A.mean(), ((A - A.mean()) ** 2).sum()


def _jacobi(A: Any) -> None:
    for _ in range(4):
        old = A.copy()
        A[1:7] = np.float32(0.5) * (old[0:6] + old[2:8])


LOOPS: dict[str, Row] = {
    "a cumulative sum through a scalar": (
        _text("s[0] = T.float32(0)\nfor i in range(10):\n    s[0] = s[0] + A[i]\n    B[i] = s[0]", SCALAR.format("s"),
              A=10, B=10), {SCAN, PARALLEL}, _cumulative),
    "a cumulative sum through an element": (
        _text("for i in range(10):\n    if i == 0:\n        B[i] = A[i]\n    else:\n        B[i] = B[i - 1] + A[i]",
              A=10, B=10), {SCAN, PARALLEL}, _cumulative),
    "a prefix maximum": (
        _text("m[0] = T.float32(-1e30)\nfor i in range(10):\n    m[0] = T.max(m[0], A[i])\n    B[i] = m[0]",
              SCALAR.format("m"), A=10, B=10), {SCAN, PARALLEL}, _prefix_maximum),
    "a recurrence of stride two": (
        _text("for i in range(10):\n    A[i + 2] = A[i] * T.float32(0.5) + B[i + 2]", A=12, B=12), {SCAN}, _stride),
    "two coupled recurrences": (
        _text("for i in range(9):\n    V[i + 1] = V[i] - T.float32(0.1) * X[i]\n"
              "    X[i + 1] = X[i] + T.float32(0.1) * V[i + 1]", X=10, V=10), {SCAN}, _leapfrog),
    "a recurrence of the second order": (
        _text("for i in range(8):\n    A[i + 2] = A[i + 1] * T.float32(0.5) + A[i] * T.float32(0.25)\n"
              "for i in range(10):\n    B[i] = A[i]", A=10, B=10), {SCAN, PARALLEL}, _fibonacci),
    "a delay line": (
        _text("for k in range(3):\n    d[k] = T.float32(0)\nfor i in range(10):\n    d[2] = d[1]\n    d[1] = d[0]\n"
              "    d[0] = X[i]\n    Y[i] = T.float32(0.5) * d[0] + T.float32(0.25) * d[1] + T.float32(0.125) * d[2]",
              ROW.format("d", 3), X=10, Y=10), {PARALLEL}, _fir),
    "a ring buffer of three": (
        _text("for k in range(3):\n    r[k] = T.float32(0)\nfor i in range(12):\n    r[i % 3] = A[i]\n"
              "    B[i] = r[0] + r[1] + r[2]", ROW.format("r", 3), A=12, B=12), {PARALLEL}, _ring),
    "double buffering": (
        _text("for i in range(12):\n    d[0, i] = A[i]\n    d[1, i] = A[i]\nfor t in range(5):\n"
              "    for i in range(10):\n"
              "        d[(t + 1) % 2, i + 1] = T.float32(0.5) * (d[t % 2, i] + d[t % 2, i + 2])\n"
              "for i in range(12):\n    A[i] = d[1, i]\n    B[i] = d[1, i]",
              'd = T.alloc_buffer((2, 12), "float32")\n', A=12, B=12), {PARALLEL, REDUCTION}, _double),
    "the last valid value": (
        _text("s[0] = T.float32(0)\nfor i in range(10):\n    if A[i] > T.float32(0):\n        s[0] = A[i]\n"
              "    B[i] = s[0]",
              SCALAR.format("s"), A=10, B=10), {SCAN, PARALLEL}, _last_valid),
    "a segmented sum": (
        _text("s[0] = T.float32(0)\nfor i in range(10):\n    if F[i] > T.float32(0):\n        s[0] = T.float32(0)\n"
              "    s[0] = s[0] + A[i]\n"
              "    B[i] = s[0]", SCALAR.format("s"), A=10, F=10, B=10), {SCAN, PARALLEL}, _segmented),
    "a diagonal recurrence": (
        _text("for i, j in T.grid(5, 5):\n    A[i + 1, j + 1] = A[i + 1, j + 1] + T.float32(0.5) * A[i, j]", A=(6, 6)),
        {SCAN, PARALLEL}, _diagonal),
    "a recurrence down a matrix": (
        _text("for i, j in T.grid(5, 6):\n    A[i + 1, j] = A[i + 1, j] + T.float32(0.5) * A[i, j]", A=(6, 6)),
        {SCAN, PARALLEL}, _down),
    "a recurrence across a matrix": (
        _text("for i, j in T.grid(6, 5):\n    A[i, j + 1] = A[i, j + 1] + T.float32(0.5) * A[i, j]", A=(6, 6)),
        {SCAN, PARALLEL}, _across),
    "a recurrence backward": (
        _text("for i, j in T.grid(6, 5):\n    A[i, 4 - j] = A[i, 4 - j] + T.float32(0.5) * A[i, 5 - j]", A=(6, 6)),
        {SCAN, PARALLEL}, _backward),
    "Horner's rule": (
        _text("for j in range(6):\n    Y[j] = T.float32(0)\nfor j, k in T.grid(6, 5):\n    Y[j] = Y[j] * X[j] + C[k]",
              C=5, X=6, Y=6), {REDUCTION, PARALLEL}, _horner),
    "a dot product with four accumulators": (
        _text("for k in range(4):\n    s[k] = T.float32(0)\nfor i in range(4):\n    for k in range(4):\n"
              "        s[k] = s[k] + A[i * 4 + k] * B[i * 4 + k]\nC[0] = s[0] + s[1] + s[2] + s[3]",
              ROW.format("s", 4), A=16, B=16, C=1), {REDUCTION, PARALLEL}, _dot),
    "a product of matrices": (
        _text("for i, j in T.grid(4, 5):\n    C[i, j] = T.float32(0)\nfor i, j, k in T.grid(4, 5, 6):\n"
              "    C[i, j] = C[i, j] + A[i, k] * B[k, j]", A=(4, 6), B=(6, 5), C=(4, 5)),
        {REDUCTION, PARALLEL}, _matmul),
    "a reduction in two nests": (
        _text("for j in range(5):\n    C[j] = T.float32(0)\nfor i in range(4):\n    for j in range(5):\n"
              "        new[j] = C[j] + A[i, j]\n    for j in range(5):\n        C[j] = new[j]",
              ROW.format("new", 5), A=(4, 5), C=5), {REDUCTION, PARALLEL}, _two_nests),
    "a chain of ten stencils": (
        _text("".join(
            f"for i in range({30 - 2 * k}):\n    {'B' if k == 10 else f't{k}'}[i] = T.float32(0.5) * "
            f"{'A' if k == 1 else f't{k - 1}'}[i] + T.float32(0.25) * {'A' if k == 1 else f't{k - 1}'}[i + 2]\n"
            for k in range(1, 11)), "".join(ROW.format(f"t{k}", 30 - 2 * k) for k in range(1, 10)), A=30, B=10),
        {PARALLEL}, _chain),
    "red and black halves": (
        _text("for i in range(5):\n    A[2 * i + 1] = T.float32(0.5) * (A[2 * i] + A[2 * i + 2])\n"
              "for i in range(5):\n    A[2 * i + 2] = T.float32(0.5) * (A[2 * i + 1] + A[2 * i + 3])", A=12),
        {PARALLEL}, _red_black),
    "a reversal in place": (
        _text("for i in range(5):\n    t[0] = A[i]\n    A[i] = A[9 - i]\n"
              "    A[9 - i] = t[0]", SCALAR.format("t"), A=10),
        {PARALLEL}, _reverse),
    "a transposition in place": (
        _text("for i in range(5):\n    for j in range(i):\n        t[0] = A[i, j]\n        A[i, j] = A[j, i]\n"
              "        A[j, i] = t[0]", SCALAR.format("t"), A=(5, 5)), {PARALLEL}, _transpose),
    "a triangular loop": (
        _text("for i in range(5):\n    B[i] = T.float32(0)\n    for j in range(i + 1):\n        B[i] = B[i] + L[i, j]",
              L=(5, 5), B=5), {REDUCTION, PARALLEL}, _triangular),
    "a wavefront": (
        _text("for i, j in T.grid(5, 5):\n"
              "    A[i + 1, j + 1] = T.float32(0.5) * (A[i, j + 1] + A[i + 1, j])", A=(6, 6)),
        {SCAN}, _wavefront),
    "a separable convolution": (
        _text("for i, j in T.grid(8, 6):\n    t[i, j] = A[i, j] + A[i, j + 1] + A[i, j + 2]\n"
              "for i, j in T.grid(6, 6):\n    B[i, j] = t[i, j] + t[i + 1, j] + t[i + 2, j]",
              't = T.alloc_buffer((8, 6), "float32")\n', A=(8, 8), B=(6, 6)), {PARALLEL}, _separable),
    "a softmax of rows": (
        _text("for i in range(4):\n    m[0] = T.float32(-1e30)\n    for j in range(5):\n"
              "        m[0] = T.max(m[0], A[i, j])\n"
              "    s[0] = T.float32(0)\n    for j in range(5):\n        s[0] = s[0] + T.exp(A[i, j] - m[0])\n"
              "    for j in range(5):\n        B[i, j] = T.exp(A[i, j] - m[0]) / s[0]",
              SCALAR.format("m") + SCALAR.format("s"), A=(4, 5), B=(4, 5)), {REDUCTION, PARALLEL}, _softmax),
    "a pipeline with prologue and epilogue": (
        _text("t[0] = A[0] * T.float32(2)\nfor i in range(9):\n    t[(i + 1) % 2] = A[i + 1] * T.float32(2)\n"
              "    B[i] = t[i % 2] + T.float32(1)\nB[9] = t[1] + T.float32(1)", ROW.format("t", 2), A=10, B=10),
        {PARALLEL}, _pipelined),
    "a tridiagonal system": (
        _text("c[0] = C[0] / B[0]\nd[0] = D[0] / B[0]\nfor i in range(7):\n"
              "    c[i + 1] = C[i + 1] / (B[i + 1] - A[i + 1] * c[i])\n"
              "    d[i + 1] = (D[i + 1] - A[i + 1] * d[i]) / (B[i + 1] - A[i + 1] * c[i])\nX[7] = d[7]\n"
              "for i in range(7):\n    X[6 - i] = d[6 - i] - c[6 - i] * X[7 - i]",
              ROW.format("c", 8) + ROW.format("d", 8), A=8, B=8, C=8, D=8, X=8), {SCAN}, _tridiagonal),
    "Welford's mean and variance": (
        _text("m[0] = T.float32(0)\nq[0] = T.float32(0)\nfor i in range(10):\n    d[0] = A[i] - m[0]\n"
              "    m[0] = m[0] + d[0] / T.Cast(\"float32\", i + 1)\n    q[0] = q[0] + d[0] * (A[i] - m[0])\n"
              "M[0] = m[0]\nM[1] = q[0]", SCALAR.format("m") + SCALAR.format("q") + SCALAR.format("d"), A=10, M=2),
        {REDUCTION}, _welford),
    "steps of Jacobi through a second field": (
        _text("for t in range(4):\n    for i in range(6):\n        N[i] = T.float32(0.5) * (A[i] + A[i + 2])\n"
              "    for i in range(6):\n"
              "        A[i + 1] = N[i]", ROW.format("N", 6), A=8), {PARALLEL, REDUCTION}, _jacobi),
}  # fmt: skip
"""Each by its name: the text after `def main(`, the strategies of its loops, and the reference."""


def arrays_of(text: str, seed: int = 0) -> list[Any]:
    """Arguments for a text: numbers between -1 and 1, with a diagonal that is larger for systems of equations."""
    import re

    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for name, shape in re.findall(r"(\w+): T\.Buffer\(\(([^)]*)\)", text.split("):\n")[0] + ")"):
        extents = tuple(int(e) for e in shape.split(",") if e.strip())
        x = rng.uniform(-1, 1, extents).astype("float32")
        found.append(x + np.float32(4) if name == "B" and text.count('float32")') >= 7 else x)
    return found
