"""Whole models in Relax: what the lift must make one program of."""

MLP = """
@R.function
def main(x: R.Tensor((5, 7), "float64"), w1: R.Tensor((7, 6), "float64"), b1: R.Tensor((6,), "float64"),
         w2: R.Tensor((6, 3), "float64"), b2: R.Tensor((3,), "float64")) -> R.Tensor((5, 3), "float64"):
    with R.dataflow():
        h = R.nn.gelu(R.add(R.matmul(x, w1), b1))
        y = R.nn.log_softmax(R.add(R.matmul(h, w2), b2), axis=-1)
        R.output(y)
    return y
"""

TRANSFORMER = """
@R.function
def main(x: R.Tensor((2, 5, 8), "float32"), wq: R.Tensor((8, 8), "float32"), wk: R.Tensor((8, 8), "float32"),
         wv: R.Tensor((8, 8), "float32"), wo: R.Tensor((8, 8), "float32"), g: R.Tensor((8,), "float32"),
         b: R.Tensor((8,), "float32"), w1: R.Tensor((8, 12), "float32"), w2: R.Tensor((12, 8), "float32")):
    with R.dataflow():
        n1 = R.nn.layer_norm(x, g, b, axes=[-1])
        q = R.reshape(R.matmul(n1, wq), R.shape([2, 5, 2, 4]))
        k = R.reshape(R.matmul(n1, wk), R.shape([2, 5, 2, 4]))
        v = R.reshape(R.matmul(n1, wv), R.shape([2, 5, 2, 4]))
        a = R.nn.attention(q, k, v, causal_mask="TopLeft")
        h = R.add(x, R.matmul(R.reshape(a, R.shape([2, 5, 8])), wo))
        n2 = R.nn.rms_norm(h, g, axes=[-1])
        y = R.add(h, R.matmul(R.nn.silu(R.matmul(n2, w1)), w2))
        R.output(y)
    return y
"""

CNN = """
@R.function
def main(x: R.Tensor((2, 3, 9, 9), "float32"), w1: R.Tensor((4, 3, 3, 3), "float32"), g: R.Tensor((4,), "float32"),
         w2: R.Tensor((4, 1, 3, 3), "float32"), w3: R.Tensor((16, 5), "float32")):
    with R.dataflow():
        c1 = R.nn.relu(R.nn.conv2d(x, w1, padding=[1, 1]))
        n1 = R.nn.batch_norm(c1, g, g, g, R.abs(g), axis=1, training=False)
        p1 = R.nn.max_pool2d(n1[0], pool_size=[2, 2], strides=[2, 2])
        c2 = R.nn.conv2d(p1, w2, strides=[2, 2], padding=[1, 1], groups=4)
        y = R.nn.softmax(R.matmul(R.nn.batch_flatten(c2), w3))
        R.output(y)
    return y
"""

CONTROL = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def scaled(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 3), "float32")
        B = T.match_buffer(b, (n, 3), "float32")
        C = T.match_buffer(c, (n,), "float32")
        for i in range(n):
            C[i] = T.float32(0)
            for j in range(3):
                B[i, j] = A[i, j] * T.float32(2)
                C[i] = C[i] + A[i, j]

    @R.function
    def twice(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        return R.add(x, x)

    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), t: R.Tuple(R.Tensor((3, 3), "float32"), R.Tensor((), "bool"))):
        n = T.int64()
        cls = Module
        with R.dataflow():
            lv = R.matmul(x, t[0])
            lv1 = R.call_tir(cls.scaled, (lv,), out_ty=[R.Tensor((n, 3), "float32"), R.Tensor((n,), "float32")])
            lv2 = R.add(lv1[0], R.const([1.0, 2.0, 3.0], "float32"))
            R.output(lv1, lv2)
        if t[1]:
            z = cls.twice(lv2)
        else:
            z = R.subtract(lv2, x)
        return (z, (lv1[1], lv2))
"""

IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def moved(A: T.Buffer((4,), "float32"), n: T.int64, B: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.Cast("float32", n)
            B[i] = A[i] * A[i]

    @T.prim_func(private=True)
    def part(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(2):
            B[i + 1] = A[i]

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        y = R.call_tir_inplace(
            cls.moved, (x, R.prim_value(T.int64(3))),
            out_ty=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")], inplace_indices=[0, -1],
        )
        z = R.call_tir(cls.part, (y[0],), out_ty=R.Tensor((4,), "float32"))
        return (y, z, x)
"""
