"""Threads that share memory and take turns of their own number, in lockstep; kernels that threads leave."""

from __future__ import annotations

import numpy as np

import tensorir as ti

ATTENTION = """
@T.prim_func
def main(Q: T.Buffer((3, 8), "float64"), K: T.Buffer((24, 8), "float64"), V: T.Buffer((24, 8), "float64"),
         P: T.Buffer((4,), "int32"), O: T.Buffer((3, 8), "float64")):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("k"):
                    Ks = T.sblock_alloc_buffer((4, 8), "float64", scope="shared")
                    Ss = T.sblock_alloc_buffer((4,), "float64", scope="shared")
                    m = T.sblock_alloc_buffer((2,), "float64", scope="local")
                    d = T.sblock_alloc_buffer((1,), "float64", scope="local")
                    o = T.sblock_alloc_buffer((1,), "float64", scope="local")
                    m[0] = -50000.0
                    d[0] = 0.0
                    o[0] = 0.0
                    for tile in range((P[bx + 1] - P[bx] + 3) // 4):
                        T.tvm_storage_sync("shared")
                        if tile * 4 + ty < P[bx + 1] - P[bx]:
                            Ks[ty, tx] = K[P[bx] + tile * 4 + ty, tx]
                        else:
                            Ks[ty, tx] = 0.0
                        T.tvm_storage_sync("shared")
                        if tx == 0:
                            Ss[ty] = -50000.0
                            if tile * 4 + ty < P[bx + 1] - P[bx]:
                                Ss[ty] = 0.0
                                for k in range(8):
                                    Ss[ty] = Ss[ty] + Q[bx, k] * Ks[ty, k]
                        T.tvm_storage_sync("shared")
                        m[1] = m[0]
                        for j in range(4):
                            m[0] = T.max(m[0], Ss[j])
                        d[0] = d[0] * T.exp(m[1] - m[0])
                        o[0] = o[0] * T.exp(m[1] - m[0])
                        for j in range(4):
                            if tile * 4 + j < P[bx + 1] - P[bx]:
                                d[0] = d[0] + T.exp(Ss[j] - m[0])
                                o[0] = o[0] + T.exp(Ss[j] - m[0]) * V[P[bx] + tile * 4 + j, tx]
                    if ty == 0:
                        O[bx, tx] = o[0] / d[0]
"""


def test_attention_over_sequences_of_their_own_length_is_that_of_numpy_and_has_gradients():
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(5)
    q, k, v = rng.normal(size=(3, 8)), rng.normal(size=(24, 8)), rng.normal(size=(24, 8))
    ends = np.array([0, 5, 15, 24], np.int32)
    program = ti.lift(ti.tir.parse(ATTENTION)["main"])

    def by_hand(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        rows = []
        for b in range(3):
            part = slice(int(ends[b]), int(ends[b + 1]))
            rows.append(jax.nn.softmax(q[b] @ k[part].T) @ v[part])
        return jnp.stack(rows)

    with jax.enable_x64(True):
        np.testing.assert_allclose(program(q, k, v, ends, np.zeros((3, 8)))[0], by_hand(q, k, v), rtol=1e-12)
        tangents = tuple(rng.normal(size=a.shape) for a in (q, k, v))
        ours = jax.jvp(lambda *a: program(*a, ends, jnp.zeros((3, 8)))[0], (q, k, v), tangents)[1]
        wanted = jax.jvp(by_hand, (q, k, v), tangents)[1]
        np.testing.assert_allclose(ours, wanted, rtol=1e-11)
