"""Kernels of tiles for the tests of `ti.tt`, as text, by the shapes that they are written for."""

from __future__ import annotations

__all__ = ["COPY_3D", "chain", "matmul", "softmax"]


def matmul(m: int = 64, n: int = 96, k: int = 64, tile: int = 32, dtype: str = "float32") -> str:
    """C = A · B, one tile of C for each block."""
    across, down, deep = -(-n // tile), -(-m // tile), -(-k // tile)
    box = f"{tile}, {tile}"
    return f"""
@T.prim_func
def main(A: T.Buffer(({m}, {k}), "{dtype}"), B: T.Buffer(({k}, {n}), "{dtype}"), C: T.Buffer(({m}, {n}), "float32")):
    for bx in T.thread_binding({across}, thread="blockIdx.x"):
        for by in T.thread_binding({down}, thread="blockIdx.y"):
            with T.sblock("tilelang_root"):
                T.reads()
                T.writes()
                a = T.sblock_alloc_buffer(({box}), "{dtype}", scope="shared.dyn")
                b = T.sblock_alloc_buffer(({box}), "{dtype}", scope="shared.dyn")
                c = T.sblock_alloc_buffer(({box}), scope="local.fragment")
                T.fill(T.region(c[0, 0], 2, {box}), 0)
                for ko in T.serial({deep}, annotations={{"num_stages": 2}}):
                    T.copy(T.region(A[by * {tile}, ko * {tile}], 1, {box}), T.region(a[0, 0], 2, {box}))
                    T.copy(T.region(B[ko * {tile}, bx * {tile}], 1, {box}), T.region(b[0, 0], 2, {box}))
                    T.gemm(T.region(a[0, 0], 1, {box}), T.region(b[0, 0], 1, {box}), T.region(c[0, 0], 3, {box}), \
T.bool(False), T.bool(False), {box}, {tile}, 0, T.bool(False), 0, 0, 0)
                T.copy(T.region(c[0, 0], 1, {box}), T.region(C[by * {tile}, bx * {tile}], 2, {box}))
"""


def chain(rows: int, columns: int, tile: int = 32) -> str:
    """Y = max(2 · X + Z, 0), element by element."""
    box = f"{tile}, {tile}"
    return f"""
@T.prim_func
def main(X: T.Buffer(({rows}, {columns})), Z: T.Buffer(({rows}, {columns})), Y: T.Buffer(({rows}, {columns}))):
    for bx in T.thread_binding({-(-columns // tile)}, thread="blockIdx.x"):
        for by in T.thread_binding({-(-rows // tile)}, thread="blockIdx.y"):
            with T.sblock("tilelang_root"):
                x = T.sblock_alloc_buffer(({box}), scope="shared.dyn")
                z = T.sblock_alloc_buffer(({box}), scope="shared.dyn")
                y = T.sblock_alloc_buffer(({box}), scope="local.fragment")
                T.copy(T.region(X[by * {tile}, bx * {tile}], 1, {box}), T.region(x[0, 0], 2, {box}))
                T.copy(T.region(Z[by * {tile}, bx * {tile}], 1, {box}), T.region(z[0, 0], 2, {box}))
                for i in T.parallel({tile}):
                    for j in T.parallel({tile}):
                        y[i, j] = T.max(x[i, j] * T.float32(2.0) + z[i, j], T.float32(0.0))
                T.copy(T.region(y[0, 0], 1, {box}), T.region(Y[by * {tile}, bx * {tile}], 2, {box}))
"""


def softmax(rows: int, columns: int, high: int = 32) -> str:
    """Softmax of each row."""
    box = f"{high}, {columns}"
    return f"""
@T.prim_func
def main(X: T.Buffer(({rows}, {columns})), Y: T.Buffer(({rows}, {columns}))):
    for bx in T.thread_binding({-(-rows // high)}, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            x = T.sblock_alloc_buffer(({box}), scope="local.fragment")
            m = T.sblock_alloc_buffer(({high},), scope="local.fragment")
            s = T.sblock_alloc_buffer(({high},), scope="local.fragment")
            T.copy(T.region(X[bx * {high}, 0], 1, {box}), T.region(x[0, 0], 2, {box}))
            T.reduce(T.region(x[0, 0], 1, {box}), T.region(m[0], 2, {high}), "max", 1, T.bool(True))
            for i in T.parallel({high}):
                for j in T.parallel({columns}):
                    x[i, j] = T.exp(x[i, j] - m[i])
            T.reduce(T.region(x[0, 0], 1, {box}), T.region(s[0], 2, {high}), "sum", 1, T.bool(True))
            for i in T.parallel({high}):
                for j in T.parallel({columns}):
                    x[i, j] = x[i, j] / s[i]
            T.copy(T.region(x[0, 0], 1, {box}), T.region(Y[bx * {high}, 0], 2, {box}))
"""


COPY_3D = """
@T.prim_func
def main(A: T.Buffer((3, 24, 40)), B: T.Buffer((3, 24, 40))):
    for bz in T.thread_binding(3, thread="blockIdx.z"):
        for by in T.thread_binding(3, thread="blockIdx.y"):
            for bx in T.thread_binding(5, thread="blockIdx.x"):
                with T.sblock("tilelang_root"):
                    a = T.sblock_alloc_buffer((8, 8), scope="shared.dyn")
                    T.copy(T.region(A[bz, by * 8, bx * 8], 1, 1, 8, 8), T.region(a[0, 0], 2, 8, 8))
                    T.copy(T.region(a[0, 0], 1, 8, 8), T.region(B[bz, by * 8, bx * 8], 2, 1, 8, 8))
"""
