"""Small kernels with derivatives, of all sorts that TIR has: parameters with their extents, and a body.

All numbers are float64, but those of `N` and `P`, which are indices.
"""

KERNELS = {
    # every iteration on its own
    "square": (
        "A 6, B 6",
        """
for i in range(6):
    B[i] = A[i] * A[i]
""",
    ),
    "functions of one number": (
        "A 6, B 6",
        """
for i in range(6):
    B[i] = T.exp(T.sin(A[i])) + T.tanh(A[i]) * T.sqrt(A[i] + T.float64(9))
""",
    ),
    "a quotient": (
        "A 6, B 6, C 6",
        """
for i in range(6):
    C[i] = A[i] / (B[i] * B[i] + T.float64(1))
""",
    ),
    "a power": (
        "A 6, B 6",
        """
for i in range(6):
    B[i] = T.pow(A[i] * A[i] + T.float64(1), T.float64(1.5))
""",
    ),
    "a choice": (
        "A 6, B 6",
        """
for i in range(6):
    B[i] = T.Select(A[i] > T.float64(0), A[i] * A[i], A[i] * T.float64(0.1))
""",
    ),
    "a condition on indices": (
        "A 6, B 6",
        """
for i in range(6):
    if i < 3:
        B[i] = T.sin(A[i])
    else:
        B[i] = T.cos(A[i])
""",
    ),
    "padding": (
        "A 4, B 6",
        """
for i in range(6):
    B[i] = T.if_then_else(1 <= i and i < 5, A[i - 1] * A[i - 1], T.float64(0))
""",
    ),
    "a stencil": (
        "A 6 6, B 4 4",
        """
for i, j in T.grid(4, 4):
    B[i, j] = A[i, j + 1] * A[i + 2, j + 1] - A[i + 1, j] * A[i + 1, j + 2]
""",
    ),
    "a transpose": (
        "A 3 4, B 4 3",
        """
for i, j in T.grid(4, 3):
    B[i, j] = T.exp(A[j, i])
""",
    ),
    "a flat index": (
        "A 12, B 3 4",
        """
for i, j in T.grid(3, 4):
    B[i, j] = A[i * 4 + j] * A[i * 4 + j]
""",
    ),
    "vectors": (
        "A 8, B 8",
        """
for i in range(2):
    B[i * 4:i * 4 + 4] = A[T.Ramp(7 - i * 4, -1, 4)] * A[i * 4:i * 4 + 4]
""",
    ),
    "bits seen as a number": (
        "A 6, B 6",
        """
for i in range(6):
    B[i] = A[i] * T.reinterpret("float64", T.int64(4611686018427387904))
""",
    ),
    "a let": (
        "A 6, B 6",
        """
for i in range(6):
    x: T.let[T.float64] = A[i] * A[i]
    B[i] = x * T.sin(x)
""",
    ),
    "threads": (
        "A 16, B 16",
        """
for b in T.thread_binding(4, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        B[b * 4 + t] = T.sin(A[b * 4 + t])
""",
    ),
    "shared memory": (
        "A 16, B 16",
        """
for b in T.thread_binding(4, thread="blockIdx.x"):
    S = T.alloc_buffer((4,), "float64", scope="shared")
    for t in T.thread_binding(4, thread="threadIdx.x"):
        S[t] = A[b * 4 + t] * A[b * 4 + t]
        T.evaluate(T.tvm_storage_sync("shared"))
        B[b * 4 + t] = S[3 - t] * S[t]
""",
    ),
    # reductions
    "a sum of squares": (
        "A 5 6, B 5",
        """
for i in range(5):
    B[i] = T.float64(0)
    for k in range(6):
        B[i] = B[i] + A[i, k] * A[i, k]
""",
    ),
    "a product": (
        "A 4 5, B 4",
        """
for i in range(4):
    B[i] = T.float64(1)
    for k in range(5):
        B[i] = B[i] * A[i, k]
""",
    ),
    "the largest": (
        "A 4 5, B 4",
        """
for i in range(4):
    B[i] = T.float64(-100)
    for k in range(5):
        B[i] = T.max(B[i], A[i, k])
""",
    ),
    "a matrix product": (
        "A 3 4, B 4 5, C 3 5",
        """
for i, j, k in T.grid(3, 5, 4):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float64(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    ),
    "a convolution": (
        "A 8, W 3, B 6",
        """
for i in range(6):
    B[i] = T.float64(0)
    for k in range(3):
        B[i] = B[i] + A[i + k] * W[k]
""",
    ),
    "a triangle of sums": (
        "A 5 5, B 5",
        """
for i in range(5):
    B[i] = T.float64(0)
    for j in range(i + 1):
        B[i] = B[i] + A[i, j] * A[i, j]
""",
    ),
    "softmax": (
        "A 3 5, B 3 5",
        """
for i in range(3):
    S = T.alloc_buffer((1,), "float64")
    S[0] = T.float64(0)
    for k in range(5):
        S[0] = S[0] + T.exp(A[i, k])
    for k in range(5):
        B[i, k] = T.exp(A[i, k]) / S[0]
""",
    ),
    "a running mean and square": (
        "A 6, M 1, V 1",
        """
M[0] = T.float64(0)
V[0] = T.float64(0)
for i in range(6):
    d: T.let[T.float64] = A[i] - M[0]
    M[0] = M[0] + d / T.Cast("float64", i + 1)
    V[0] = V[0] + d * (A[i] - M[0])
""",
    ),
    # recurrences
    "a prefix sum": (
        "A 6, B 6",
        """
B[0] = A[0]
for i in range(5):
    B[i + 1] = B[i] + A[i + 1] * A[i + 1]
""",
    ),
    "a recurrence of first order": (
        "A 6, B 7",
        """
for i in range(6):
    B[i + 1] = B[i] * A[i] + T.sin(A[i])
""",
    ),
    "a recurrence that bends": (
        "A 6, B 7",
        """
for i in range(6):
    B[i + 1] = T.sin(B[i]) * A[i]
""",
    ),
    "a recurrence of second order": (
        "A 6, B 8",
        """
for i in range(6):
    B[i + 2] = B[i + 1] * T.float64(0.5) - B[i] * A[i]
""",
    ),
    "backwards": (
        "A 6, B 7",
        """
for i in range(6):
    B[5 - i] = B[6 - i] * A[5 - i] + A[5 - i]
""",
    ),
    "columns of recurrences": (
        "A 4 5, B 4 6",
        """
for r, i in T.grid(4, 5):
    B[r, i + 1] = B[r, i] * A[r, i]
""",
    ),
    # in place
    "in place": (
        "A 6",
        """
for i in range(6):
    A[i] = A[i] * A[i]
""",
    ),
    "in place from further on": (
        "A 6",
        """
for i in range(5):
    A[i] = A[i + 1] * A[i]
""",
    ),
    "in place from before": (
        "A 6",
        """
for i in range(5):
    A[i + 1] = A[i] * T.cos(A[i + 1])
""",
    ),
    "mirrored in place": (
        "A 7",
        """
for i in range(7):
    A[6 - i] = A[i] * A[i] + T.float64(1)
""",
    ),
    "numbers that change places": (
        "A 6, P 6",
        """
for i in range(6):
    t: T.let[T.float64] = A[i] * T.float64(2)
    A[i] = A[P[i]] * A[i]
    A[P[i]] = t
""",
    ),
    "two buffers that change places": (
        "A 5, B 5",
        """
for t in range(3):
    for i in range(5):
        A[i] = T.sin(B[i])
    for i in range(5):
        B[i] = A[i] * B[i]
""",
    ),
    # step by step
    "a sweep": (
        "b 7, x 7",
        """
for i in range(5):
    x[i + 1] = T.float64(0.3) * (x[i] * x[i + 2] + b[i])
""",
    ),
    "sweeps": (
        "b 7, x 7",
        """
for t in range(3):
    for i in range(5):
        x[i + 1] = T.float64(0.3) * (x[i] * x[i + 2] + b[i])
""",
    ),
    "a triangular system": (
        "L 5 5, b 5",
        """
for i in range(5):
    for j in range(i):
        b[i] = b[i] - L[i, j] * b[j]
    b[i] = b[i] / (L[i, i] * L[i, i] + T.float64(1))
""",
    ),
    "a table of alignments": (
        "a 4, b 5, D 5 6",
        """
for i, j in T.grid(4, 5):
    D[i + 1, j + 1] = (a[i] - b[j]) * (a[i] - b[j]) + T.min(D[i, j], T.min(D[i, j + 1], D[i + 1, j]))
""",
    ),
    "rows at indices": (
        "A 5 4, P 6",
        """
for i in range(5):
    for j in range(4):
        A[P[i], j] = A[P[i + 1], j] * A[P[i], j] * T.float64(0.5)
""",
    ),
    "as often as data tell": (
        "N 1, A 6, B 1",
        """
for i in range(T.min(N[0], 6)):
    B[0] = T.sin(B[0]) * A[i]
""",
    ),
    "an early end": (
        "A 6, B 6, N 1",
        """
for i in range(6):
    if i == N[0]:
        break
    B[i] = B[i] * A[i] * A[0]
""",
    ),
    "fixed point steps": (
        "A 4, x 4",
        """
for t in range(6):
    for i in range(4):
        x[i] = x[i] - (x[i] * x[i] * x[i] - A[i]) / (T.float64(3) * x[i] * x[i] + T.float64(4))
""",
    ),
    # at computed indices
    "a gather": (
        "A 6, P 6, B 6",
        """
for i in range(6):
    B[i] = A[P[i]] * A[i]
""",
    ),
    "a scatter": (
        "P 6, A 6, B 6",
        """
for i in range(6):
    B[P[i]] = A[i] * A[i]
""",
    ),
    "a scatter that adds": (
        "P 6, A 6, B 6",
        """
for i in range(6):
    B[P[i]] = B[P[i]] + A[i] * A[i]
""",
    ),
    "a scatter that multiplies": (
        "P 6, A 6, B 6",
        """
for i in range(6):
    B[P[i]] = B[P[i]] * A[i] + A[P[i]]
""",
    ),
    "a sparse product": (
        "P 7, A 6, x 6, y 6",
        """
for i in range(6):
    y[i] = A[i] * x[P[i]] * x[P[i + 1]]
""",
    ),
}


def text(name: str) -> str:
    """A kernel as TVMScript."""
    params, body = KERNELS[name]
    declared: list[str] = []
    for param in params.split(", "):
        own, *shape = param.split()
        declared.append(f'{own}: T.Buffer(({", ".join(shape)},), "{"int32" if own in "NP" else "float64"}")')
    lines = "\n    ".join(body.strip().split("\n"))
    return f"@T.prim_func\ndef main({', '.join(declared)}):\n    {lines}\n"
