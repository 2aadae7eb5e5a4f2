"""Loops whose places or states a page of a book tells by data, with an index beside a value, in parts, or step by step.

Each row: the text, how its loops run, what the arguments are, and the same in NumPy, which changes copies of them.
"""

import numpy as np
import pytest

import tensorir as ti

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

ROWS = {
    "a histogram": (
        """A: T.Buffer((20,), "int32"), H: T.Buffer((5,), "int32")):
    for b in range(5):
        H[b] = 0
    for i in range(20):
        H[A[i]] = H[A[i]] + 1
""", {"parallel", "reduction"}, (whole(5, 20), whole(5, 5)), histogram),
    "sums of rows that an index names": (
        """I: T.Buffer((20,), "int32"), X: T.Buffer((20, 3), "float32"), Y: T.Buffer((5, 3), "float32")):
    for i, j in T.grid(20, 3):
        Y[I[i], j] = Y[I[i], j] + X[i, j]
""", {"reduction"}, (whole(5, 20), floats(20, 3), floats(5, 3)), scatter_add),
    "rows of a sparse matrix": (
        """P: T.Buffer((5,), "int32"), C: T.Buffer((12,), "int32"), V: T.Buffer((12,), "float32"),
         X: T.Buffer((6,), "float32"), Y: T.Buffer((4,), "float32")):
    for i in range(4):
        Y[i] = T.float32(0)
        for k in range(P[i], P[i + 1]):
            Y[i] = Y[i] + V[k] * X[C[k]]
""", {"parallel", "reduction"},
        (np.array([0, 3, 3, 8, 12], "int32"), whole(6, 12), floats(12), floats(6), floats(4)), csr_rows),
    "the place of the largest": (
        """A: T.Buffer((10,), "float32"), I: T.Buffer((1,), "int32"), V: T.Buffer((1,), "float32")):
    I[0] = 0
    V[0] = A[0]
    for i in range(10):
        if A[i] > V[0]:
            I[0] = i
            V[0] = A[i]
""", {"reduction"}, (floats(10), whole(5, 1), floats(1)), argmax),
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
""", {"parallel", "scan"}, (floats(10), whole(5, 10), floats(10)), prefix_maximum),
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
""", {"parallel", "reduction"}, (floats(6, 20), floats(6)), rows),
    "imperfect tiles": (
        """A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
    for i, j in T.grid(4, 8):
        if i * 8 + j < 30:
            B[i * 8 + j] = A[i * 8 + j] * T.float32(2)
""", {"parallel"}, (floats(30), floats(30)), doubled),
    "attention, row by row": (
        ATTENTION.format(8, 6), {"parallel", "reduction"}, (floats(6, 4), floats(8, 4), floats(8, 4), floats(6, 4)),
        attention),
    "Gauss and Seidel": (
        """A: T.Buffer((6, 6), "float32")):
    for i, j in T.grid(4, 4):
        A[i + 1, j + 1] = T.float32(0.25) * (A[i, j + 1] + A[i + 1, j] + A[i + 2, j + 1] + A[i + 1, j + 2])
""", {"scan"}, (floats(6, 6),), gauss_seidel),
    "elimination": (
        """A: T.Buffer((5, 5), "float32")):
    for k in range(5):
        for i in range(4 - k):
            A[k + 1 + i, k] = A[k + 1 + i, k] / A[k, k]
        for i, j in T.grid(4 - k, 4 - k):
            A[k + 1 + i, k + 1 + j] = A[k + 1 + i, k + 1 + j] - A[k + 1 + i, k] * A[k, k + 1 + j]
""", {"parallel", "scan"}, (floats(5, 5) + 4 * np.eye(5, dtype="float32"),), elimination),
    "shortest paths": (
        """D: T.Buffer((5, 5), "float32")):
    for k, i, j in T.grid(5, 5, 5):
        D[i, j] = T.min(D[i, j], D[i, k] + D[k, j])
""", {"sequential"}, (floats(5, 5) + np.float32(1),), shortest_paths),
    "how long a number takes to one": (
        """N: T.Buffer((8,), "int32"), S: T.Buffer((8,), "int32")):
    n = T.alloc_buffer((1,), "int32")
    for i in range(8):
        n[0] = N[i]
        S[i] = 0
        while n[0] > 1:
            n[0] = T.if_then_else(n[0] % 2 == 0, n[0] // 2, 3 * n[0] + 1)
            S[i] = S[i] + 1
""", {"parallel", "reduction", "sequential"}, (whole(30, 8), whole(5, 8)), collatz),
}  # fmt: skip


def function_of(text):
    return ti.tir.parse(f"@T.prim_func\ndef main({text}")["main"]


@pytest.mark.parametrize(("text", "expected", "arrays", "reference"), ROWS.values(), ids=ROWS)
def test_a_textbook_loop_runs_as_the_book_would_have_it(text, expected, arrays, reference):
    function = function_of(text)
    lifted = ti.lift(function)
    assert {d.strategy for d in lifted.report.decisions} == expected
    wanted = [a.copy() for a in arrays]
    reference(*wanted)
    interpreted = ti.tir.interpret(function, *[a.copy() for a in arrays])
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for k, got in zip(written, lifted(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted[k], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(got, interpreted[k], rtol=2e-5, atol=2e-5)


def test_attention_over_many_keys_keeps_no_matrix_of_scores():
    from tensorir.ir.nodes import Call
    from tensorir.ir.rewrite import postorder

    program = ti.lift(function_of(ATTENTION.format(256, 200)))
    sizes = [e.type.dims.size for c in program.fencil.closures for e in postorder(c.value) if isinstance(e, Call)]
    assert max(sizes) <= 4 * 256
    given = floats(200, 4), floats(256, 4), floats(256, 4), floats(200, 4)
    wanted = [a.copy() for a in given]
    attention(*wanted)
    np.testing.assert_allclose(program(*given)[0], wanted[3], rtol=2e-4, atol=2e-5)
