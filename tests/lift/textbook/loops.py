"""Loops as a page of a book has them: the text, and the same in NumPy; their figures stand in `figures.txt`.

Each function of NumPy takes copies of the arrays and changes them as the loop does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tensorir as ti

__all__ = ["LOOPS", "function_of", "textbook"]

Row = tuple[str, Callable[..., None]]


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
              A=10, B=10), _cumulative),
    "a cumulative sum through an element": (
        _text("for i in range(10):\n    if i == 0:\n        B[i] = A[i]\n    else:\n        B[i] = B[i - 1] + A[i]",
              A=10, B=10), _cumulative),
    "a prefix maximum": (
        _text("m[0] = T.float32(-1e30)\nfor i in range(10):\n    m[0] = T.max(m[0], A[i])\n    B[i] = m[0]",
              SCALAR.format("m"), A=10, B=10), _prefix_maximum),
    "a recurrence of stride two": (
        _text("for i in range(10):\n    A[i + 2] = A[i] * T.float32(0.5) + B[i + 2]", A=12, B=12), _stride),
    "two coupled recurrences": (
        _text("for i in range(9):\n    V[i + 1] = V[i] - T.float32(0.1) * X[i]\n"
              "    X[i + 1] = X[i] + T.float32(0.1) * V[i + 1]", X=10, V=10), _leapfrog),
    "a recurrence of the second order": (
        _text("for i in range(8):\n    A[i + 2] = A[i + 1] * T.float32(0.5) + A[i] * T.float32(0.25)\n"
              "for i in range(10):\n    B[i] = A[i]", A=10, B=10), _fibonacci),
    "a delay line": (
        _text("for k in range(3):\n    d[k] = T.float32(0)\nfor i in range(10):\n    d[2] = d[1]\n    d[1] = d[0]\n"
              "    d[0] = X[i]\n    Y[i] = T.float32(0.5) * d[0] + T.float32(0.25) * d[1] + T.float32(0.125) * d[2]",
              ROW.format("d", 3), X=10, Y=10), _fir),
    "a ring buffer of three": (
        _text("for k in range(3):\n    r[k] = T.float32(0)\nfor i in range(12):\n    r[i % 3] = A[i]\n"
              "    B[i] = r[0] + r[1] + r[2]", ROW.format("r", 3), A=12, B=12), _ring),
    "double buffering": (
        _text("for i in range(12):\n    d[0, i] = A[i]\n    d[1, i] = A[i]\nfor t in range(5):\n"
              "    for i in range(10):\n"
              "        d[(t + 1) % 2, i + 1] = T.float32(0.5) * (d[t % 2, i] + d[t % 2, i + 2])\n"
              "for i in range(12):\n    A[i] = d[1, i]\n    B[i] = d[1, i]",
              'd = T.alloc_buffer((2, 12), "float32")\n', A=12, B=12), _double),
    "the last valid value": (
        _text("s[0] = T.float32(0)\nfor i in range(10):\n    if A[i] > T.float32(0):\n        s[0] = A[i]\n"
              "    B[i] = s[0]",
              SCALAR.format("s"), A=10, B=10), _last_valid),
    "a segmented sum": (
        _text("s[0] = T.float32(0)\nfor i in range(10):\n    if F[i] > T.float32(0):\n        s[0] = T.float32(0)\n"
              "    s[0] = s[0] + A[i]\n"
              "    B[i] = s[0]", SCALAR.format("s"), A=10, F=10, B=10), _segmented),
    "a diagonal recurrence": (
        _text("for i, j in T.grid(5, 5):\n    A[i + 1, j + 1] = A[i + 1, j + 1] + T.float32(0.5) * A[i, j]", A=(6, 6)),
        _diagonal),
    "a recurrence down a matrix": (
        _text("for i, j in T.grid(5, 6):\n    A[i + 1, j] = A[i + 1, j] + T.float32(0.5) * A[i, j]", A=(6, 6)), _down),
    "a recurrence across a matrix": (
        _text("for i, j in T.grid(6, 5):\n    A[i, j + 1] = A[i, j + 1] + T.float32(0.5) * A[i, j]", A=(6, 6)),
        _across),
    "a recurrence backward": (
        _text("for i, j in T.grid(6, 5):\n    A[i, 4 - j] = A[i, 4 - j] + T.float32(0.5) * A[i, 5 - j]", A=(6, 6)),
        _backward),
    "Horner's rule": (
        _text("for j in range(6):\n    Y[j] = T.float32(0)\nfor j, k in T.grid(6, 5):\n    Y[j] = Y[j] * X[j] + C[k]",
              C=5, X=6, Y=6), _horner),
    "a dot product with four accumulators": (
        _text("for k in range(4):\n    s[k] = T.float32(0)\nfor i in range(4):\n    for k in range(4):\n"
              "        s[k] = s[k] + A[i * 4 + k] * B[i * 4 + k]\nC[0] = s[0] + s[1] + s[2] + s[3]",
              ROW.format("s", 4), A=16, B=16, C=1), _dot),
    "a product of matrices": (
        _text("for i, j in T.grid(4, 5):\n    C[i, j] = T.float32(0)\nfor i, j, k in T.grid(4, 5, 6):\n"
              "    C[i, j] = C[i, j] + A[i, k] * B[k, j]", A=(4, 6), B=(6, 5), C=(4, 5)), _matmul),
    "a reduction in two nests": (
        _text("for j in range(5):\n    C[j] = T.float32(0)\nfor i in range(4):\n    for j in range(5):\n"
              "        new[j] = C[j] + A[i, j]\n    for j in range(5):\n        C[j] = new[j]",
              ROW.format("new", 5), A=(4, 5), C=5), _two_nests),
    "a chain of ten stencils": (
        _text("".join(
            f"for i in range({30 - 2 * k}):\n    {'B' if k == 10 else f't{k}'}[i] = T.float32(0.5) * "
            f"{'A' if k == 1 else f't{k - 1}'}[i] + T.float32(0.25) * {'A' if k == 1 else f't{k - 1}'}[i + 2]\n"
            for k in range(1, 11)), "".join(ROW.format(f"t{k}", 30 - 2 * k) for k in range(1, 10)), A=30, B=10),
        _chain),
    "red and black halves": (
        _text("for i in range(5):\n    A[2 * i + 1] = T.float32(0.5) * (A[2 * i] + A[2 * i + 2])\n"
              "for i in range(5):\n    A[2 * i + 2] = T.float32(0.5) * (A[2 * i + 1] + A[2 * i + 3])", A=12),
        _red_black),
    "a reversal in place": (
        _text("for i in range(5):\n    t[0] = A[i]\n    A[i] = A[9 - i]\n"
              "    A[9 - i] = t[0]", SCALAR.format("t"), A=10), _reverse),
    "a transposition in place": (
        _text("for i in range(5):\n    for j in range(i):\n        t[0] = A[i, j]\n        A[i, j] = A[j, i]\n"
              "        A[j, i] = t[0]", SCALAR.format("t"), A=(5, 5)), _transpose),
    "a triangular loop": (
        _text("for i in range(5):\n    B[i] = T.float32(0)\n    for j in range(i + 1):\n        B[i] = B[i] + L[i, j]",
              L=(5, 5), B=5), _triangular),
    "a wavefront": (
        _text("for i, j in T.grid(5, 5):\n"
              "    A[i + 1, j + 1] = T.float32(0.5) * (A[i, j + 1] + A[i + 1, j])", A=(6, 6)), _wavefront),
    "a separable convolution": (
        _text("for i, j in T.grid(8, 6):\n    t[i, j] = A[i, j] + A[i, j + 1] + A[i, j + 2]\n"
              "for i, j in T.grid(6, 6):\n    B[i, j] = t[i, j] + t[i + 1, j] + t[i + 2, j]",
              't = T.alloc_buffer((8, 6), "float32")\n', A=(8, 8), B=(6, 6)), _separable),
    "a softmax of rows": (
        _text("for i in range(4):\n    m[0] = T.float32(-1e30)\n    for j in range(5):\n"
              "        m[0] = T.max(m[0], A[i, j])\n"
              "    s[0] = T.float32(0)\n    for j in range(5):\n        s[0] = s[0] + T.exp(A[i, j] - m[0])\n"
              "    for j in range(5):\n        B[i, j] = T.exp(A[i, j] - m[0]) / s[0]",
              SCALAR.format("m") + SCALAR.format("s"), A=(4, 5), B=(4, 5)), _softmax),
    "a pipeline with prologue and epilogue": (
        _text("t[0] = A[0] * T.float32(2)\nfor i in range(9):\n    t[(i + 1) % 2] = A[i + 1] * T.float32(2)\n"
              "    B[i] = t[i % 2] + T.float32(1)\nB[9] = t[1] + T.float32(1)", ROW.format("t", 2), A=10, B=10),
        _pipelined),
    "a tridiagonal system": (
        _text("c[0] = C[0] / B[0]\nd[0] = D[0] / B[0]\nfor i in range(7):\n"
              "    c[i + 1] = C[i + 1] / (B[i + 1] - A[i + 1] * c[i])\n"
              "    d[i + 1] = (D[i + 1] - A[i + 1] * d[i]) / (B[i + 1] - A[i + 1] * c[i])\nX[7] = d[7]\n"
              "for i in range(7):\n    X[6 - i] = d[6 - i] - c[6 - i] * X[7 - i]",
              ROW.format("c", 8) + ROW.format("d", 8), A=8, B=8, C=8, D=8, X=8), _tridiagonal),
    "Welford's mean and variance": (
        _text("m[0] = T.float32(0)\nq[0] = T.float32(0)\nfor i in range(10):\n    d[0] = A[i] - m[0]\n"
              "    m[0] = m[0] + d[0] / T.Cast(\"float32\", i + 1)\n    q[0] = q[0] + d[0] * (A[i] - m[0])\n"
              "M[0] = m[0]\nM[1] = q[0]", SCALAR.format("m") + SCALAR.format("q") + SCALAR.format("d"), A=10, M=2),
        _welford),
    "steps of Jacobi through a second field": (
        _text("for t in range(4):\n    for i in range(6):\n        N[i] = T.float32(0.5) * (A[i] + A[i + 2])\n"
              "    for i in range(6):\n"
              "        A[i + 1] = N[i]", ROW.format("N", 6), A=8), _jacobi),
}  # fmt: skip
"""Each by its name: the text after `def main(`, and the reference."""


def arrays_of(text: str, seed: int = 0) -> list[Any]:
    """Arguments for a text: numbers between -1 and 1, with a diagonal that is larger for systems of equations."""
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for name, shape in re.findall(r"(\w+): T\.Buffer\(\(([^)]*)\)", text.split("):\n")[0] + ")"):
        extents = tuple(int(e) for e in shape.split(",") if e.strip())
        x = rng.uniform(-1, 1, extents).astype("float32")
        found.append(x + np.float32(4) if name == "B" and text.count('float32")') >= 7 else x)
    return found


RNG = np.random.default_rng(2)


def floats(*shape):
    return RNG.uniform(-1, 1, shape).astype("float32")


def whole(high, *shape):
    return RNG.integers(0, high, shape, dtype="int32")


def histogram(A, H):
    H[:] = np.bincount(A, minlength=5)


def scatter_add(I, X, Y):
    np.add.at(Y, I, X)


def csr_rows(P, C, V, X, Y):
    for i in range(4):
        Y[i] = (V[P[i] : P[i + 1]] * X[C[P[i] : P[i + 1]]]).sum()


def argmax(A, I, V):
    I[0], V[0] = A.argmax(), A.max()


def prefix_maximum(A, I, V):
    V[:] = np.maximum.accumulate(A)
    I[:] = [A[: k + 1].argmax() for k in range(10)]


def rows(A, B):
    B[:] = A.sum(1)


def doubled(A, B):
    B[:] = A * 2


def attention(Q, K, V, O):
    e = np.exp(Q @ K.T)
    O[:] = e @ V / e.sum(1, keepdims=True)


def gauss_seidel(A):
    for i in range(1, 5):
        for j in range(1, 5):
            A[i, j] = 0.25 * (A[i - 1, j] + A[i, j - 1] + A[i + 1, j] + A[i, j + 1])


def elimination(A):
    for k in range(5):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])


def shortest_paths(D):
    for k in range(5):
        D[:] = np.minimum(D, D[:, k : k + 1] + D[k : k + 1])


def collatz(N, S):
    for i, n in enumerate(N):
        S[i] = 0
        while n > 1:
            n, S[i] = (n // 2 if n % 2 == 0 else 3 * n + 1), S[i] + 1


ATTENTION = """Q: T.Buffer(({1}, 4), "float32"), K: T.Buffer(({0}, 4), "float32"), V: T.Buffer(({0}, 4), "float32"),
         O: T.Buffer(({1}, 4), "float32")):
    m = T.alloc_buffer((1,), "float32")
    n = T.alloc_buffer((1,), "float32")
    l = T.alloc_buffer((1,), "float32")
    s = T.alloc_buffer((1,), "float32")
    for i in range({1}):
        m[0] = T.float32(-1e30)
        l[0] = T.float32(0)
        for d in range(4):
            O[i, d] = T.float32(0)
        for j in range({0}):
            s[0] = T.float32(0)
            for d in range(4):
                s[0] = s[0] + Q[i, d] * K[j, d]
            n[0] = T.max(m[0], s[0])
            l[0] = l[0] * T.exp(m[0] - n[0]) + T.exp(s[0] - n[0])
            for d in range(4):
                O[i, d] = O[i, d] * T.exp(m[0] - n[0]) + T.exp(s[0] - n[0]) * V[j, d]
            m[0] = n[0]
        for d in range(4):
            O[i, d] = O[i, d] / l[0]
"""

BY_DATA: dict[str, tuple[str, tuple[Any, ...], Callable[..., None]]] = {
    "a histogram": (
        """A: T.Buffer((20,), "int32"), H: T.Buffer((5,), "int32")):
    for b in range(5):
        H[b] = 0
    for i in range(20):
        H[A[i]] = H[A[i]] + 1
""", (whole(5, 20), whole(5, 5)), histogram),
    "sums of rows that an index names": (
        """I: T.Buffer((20,), "int32"), X: T.Buffer((20, 3), "float32"), Y: T.Buffer((5, 3), "float32")):
    for i, j in T.grid(20, 3):
        Y[I[i], j] = Y[I[i], j] + X[i, j]
""", (whole(5, 20), floats(20, 3), floats(5, 3)), scatter_add),
    "rows of a sparse matrix": (
        """P: T.Buffer((5,), "int32"), C: T.Buffer((12,), "int32"), V: T.Buffer((12,), "float32"),
         X: T.Buffer((6,), "float32"), Y: T.Buffer((4,), "float32")):
    for i in range(4):
        Y[i] = T.float32(0)
        for k in range(P[i], P[i + 1]):
            Y[i] = Y[i] + V[k] * X[C[k]]
""", 
        (np.array([0, 3, 3, 8, 12], "int32"), whole(6, 12), floats(12), floats(6), floats(4)), csr_rows),
    "the place of the largest": (
        """A: T.Buffer((10,), "float32"), I: T.Buffer((1,), "int32"), V: T.Buffer((1,), "float32")):
    I[0] = 0
    V[0] = A[0]
    for i in range(10):
        if A[i] > V[0]:
            I[0] = i
            V[0] = A[i]
""", (floats(10), whole(5, 1), floats(1)), argmax),
    "a prefix maximum with its place": (
        """A: T.Buffer((10,), "float32"), I: T.Buffer((10,), "int32"), V: T.Buffer((10,), "float32")):
    v = T.alloc_buffer((1,), "float32")
    k = T.alloc_buffer((1,), "int32")
    v[0] = T.float32(-1e30)
    k[0] = 0
    for i in range(10):
        if A[i] > v[0]:
            v[0] = A[i]
            k[0] = i
        V[i] = v[0]
        I[i] = k[0]
""", (floats(10), whole(5, 10), floats(10)), prefix_maximum),
    "a sum in four parts": (
        """A: T.Buffer((6, 20), "float32"), B: T.Buffer((6,), "float32")):
    r = T.alloc_buffer((6, 4), "float32")
    for i, j in T.grid(6, 4):
        r[i, j] = T.float32(0)
        for k in range(5):
            r[i, j] = r[i, j] + A[i, k * 4 + j]
    for i in range(6):
        B[i] = T.float32(0)
        for j in range(4):
            B[i] = B[i] + r[i, j]
""", (floats(6, 20), floats(6)), rows),
    "imperfect tiles": (
        """A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
    for i, j in T.grid(4, 8):
        if i * 8 + j < 30:
            B[i * 8 + j] = A[i * 8 + j] * T.float32(2)
""", (floats(30), floats(30)), doubled),
    "attention, row by row": (
        ATTENTION.format(8, 6), (floats(6, 4), floats(8, 4), floats(8, 4), floats(6, 4)),
        attention),
    "Gauss and Seidel": (
        """A: T.Buffer((6, 6), "float32")):
    for i, j in T.grid(4, 4):
        A[i + 1, j + 1] = T.float32(0.25) * (A[i, j + 1] + A[i + 1, j] + A[i + 2, j + 1] + A[i + 1, j + 2])
""", (floats(6, 6),), gauss_seidel),
    "elimination": (
        """A: T.Buffer((5, 5), "float32")):
    for k in range(5):
        for i in range(4 - k):
            A[k + 1 + i, k] = A[k + 1 + i, k] / A[k, k]
        for i, j in T.grid(4 - k, 4 - k):
            A[k + 1 + i, k + 1 + j] = A[k + 1 + i, k + 1 + j] - A[k + 1 + i, k] * A[k, k + 1 + j]
""", (floats(5, 5) + 4 * np.eye(5, dtype="float32"),), elimination),
    "shortest paths": (
        """D: T.Buffer((5, 5), "float32")):
    for k, i, j in T.grid(5, 5, 5):
        D[i, j] = T.min(D[i, j], D[i, k] + D[k, j])
""", (floats(5, 5) + np.float32(1),), shortest_paths),
    "how long a number takes to one": (
        """N: T.Buffer((8,), "int32"), S: T.Buffer((8,), "int32")):
    n = T.alloc_buffer((1,), "int32")
    for i in range(8):
        n[0] = N[i]
        S[i] = 0
        while n[0] > 1:
            n[0] = T.if_then_else(n[0] % 2 == 0, n[0] // 2, 3 * n[0] + 1)
            S[i] = S[i] + 1
""", (whole(30, 8), whole(5, 8)), collatz),
}  # fmt: skip
"""Loops whose places or states data tell: the text, the arguments, and the reference."""


def function_of(text: str) -> Any:
    return ti.tir.parse(f"@T.prim_func\ndef main({text}")["main"]


def textbook() -> Iterator[tuple[str, str, Any, Callable[..., None]]]:
    """The name of each loop, its text, its arguments, and the same in NumPy."""
    yield from ((name, text, arrays_of(text), function) for name, (text, function) in LOOPS.items())
    yield from ((name, text, arrays, function) for name, (text, arrays, function) in BY_DATA.items())
