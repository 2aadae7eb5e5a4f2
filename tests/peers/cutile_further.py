"""More kernels in cuTile Python: persistent ones, locks and tickets, gathers, formats, roundings, norms, losses."""

import cuda.tile as ct
from cuda.tile import Constant

PAD = ct.PaddingMode.ZERO


@ct.kernel
def persistent_matmul(a, b, c, M: Constant[int], N: Constant[int], K: Constant[int]):
    tiles_m, tiles_n = ct.num_tiles(c, axis=0, shape=(M, N)), ct.num_tiles(c, axis=1, shape=(M, N))
    for t in range(ct.bid(0), tiles_m * tiles_n, ct.num_blocks(0)):
        i, j = t // tiles_n, t % tiles_n
        acc = ct.full((M, N), 0.0, ct.float32)
        for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
            acc = ct.mma(
                ct.load(a, index=(i, k), shape=(M, K), padding_mode=PAD),
                ct.load(b, index=(k, j), shape=(K, N), padding_mode=PAD),
                acc,
            )
        ct.store(c, index=(i, j), tile=acc)


@ct.kernel
def swizzled_matmul(a, b, c, M: Constant[int], N: Constant[int], K: Constant[int], G: Constant[int]):
    t = ct.bid(0)
    tiles_m, tiles_n = ct.num_tiles(c, axis=0, shape=(M, N)), ct.num_tiles(c, axis=1, shape=(M, N))
    group = t // (G * tiles_n)
    first = group * G
    size = ct.minimum(tiles_m - first, G)
    i = first + t % size
    j = (t % (G * tiles_n)) // size
    acc = ct.full((M, N), 0.0, ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        acc = ct.mma(ct.load(a, index=(i, k), shape=(M, K)), ct.load(b, index=(k, j), shape=(K, N)), acc)
    ct.store(c, index=(i, j), tile=acc)


@ct.kernel
def split_k(a, b, c, M: Constant[int], N: Constant[int], K: Constant[int]):
    i, j, k = ct.bid(0), ct.bid(1), ct.bid(2)
    part = ct.mma(
        ct.load(a, index=(i, k), shape=(M, K)), ct.load(b, index=(k, j), shape=(K, N)), ct.full((M, N), 0.0, ct.float32)
    )
    rows = ct.reshape(ct.arange(M, dtype=ct.int32), (M, 1)) + i * M
    cols = ct.reshape(ct.arange(N, dtype=ct.int32), (1, N)) + j * N
    ct.atomic_add(c, (rows, cols), part)


@ct.kernel
def locked_sum(x, total, lock, T: Constant[int]):
    part = ct.sum(ct.load(x, index=(ct.bid(0),), shape=(T,)))
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    old = ct.gather(total, 0)
    ct.scatter(total, 0, old + part)
    ct.atomic_xchg(lock, 0, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def tickets(x, counter, y, T: Constant[int]):
    """Each positive number takes the next place."""
    at = ct.arange(T, dtype=ct.int32) + ct.bid(0) * T
    v = ct.gather(x, at)
    zero = ct.full((T,), 0, ct.int32)
    place = ct.atomic_add(counter, zero, ct.astype(v > 0, ct.int32))
    ct.scatter(y, place, v, mask=v > 0)


@ct.kernel
def gather2d(x, r, c, y, T: Constant[int]):
    i = ct.bid(0)
    rows = ct.reshape(ct.load(r, index=(i,), shape=(T,)), (T, 1))
    cols = ct.reshape(ct.load(c, index=(i,), shape=(T,)), (1, T))
    ct.store(y, index=(i, 0), tile=ct.gather(x, (rows, cols), padding_value=-1.0))


@ct.kernel
def bitonic(x, y, N: Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(N,))
    at = ct.arange(N, dtype=ct.int32)
    k = 2
    while k <= N:
        j = k // 2
        while j > 0:
            p = ct.bitwise_xor(at, ct.full((N,), 1, ct.int32) * j)
            ct.scatter(y, at + ct.bid(0) * N, v)
            o = ct.gather(y, p + ct.bid(0) * N)
            up = ct.bitwise_and(at, ct.full((N,), 1, ct.int32) * k) == 0
            lower = at < p
            keep_min = up == lower
            v = ct.where(keep_min, ct.minimum(v, o), ct.maximum(v, o))
            j = j // 2
        k = k * 2
    ct.store(y, index=(ct.bid(0),), tile=v)


@ct.kernel
def asserted(x, y, T: Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.assert_(v > -100.0, "too small")
    ct.store(y, index=(ct.bid(0),), tile=v)


@ct.kernel
def printing(x, y, T: Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.printf("block %d: %f\n", ct.bid(0), v)
    ct.store(y, index=(ct.bid(0),), tile=v)


@ct.kernel
def tf32(a, b, c, M: Constant[int]):
    x, y = ct.load(a, index=(0, 0), shape=(M, M)), ct.load(b, index=(0, 0), shape=(M, M))
    ct.store(
        c,
        index=(0, 0),
        tile=ct.mma(ct.astype(x, ct.tfloat32), ct.astype(y, ct.tfloat32), ct.full((M, M), 0.0, ct.float32)),
    )


@ct.kernel
def mathematics(x, y, T: Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    p = ct.abs(v) + 0.5
    r = (
        ct.log(p)
        + ct.log2(p)
        + ct.sqrt(p)
        + ct.rsqrt(p)
        + ct.sin(v)
        + ct.cos(v)
        + ct.tan(v)
        + ct.tanh(v)
        + ct.sinh(v)
        + ct.cosh(v)
    )
    r = r + ct.exp2(v) + ct.pow(p, v) + ct.floor(v) + ct.ceil(v) + ct.atan2(v, p)
    ct.store(y, index=(ct.bid(0),), tile=r)


@ct.kernel
def whole(x, y, o, T: Constant[int]):
    i = ct.bid(0)
    a, b = ct.load(x, index=(i,), shape=(T,)), ct.load(y, index=(i,), shape=(T,))
    r = (
        (a // b) * 3
        + (a % b) * 5
        + ct.bitwise_and(a, b)
        + ct.bitwise_or(a, b) * 2
        + ct.bitwise_xor(a, b)
        + ct.bitwise_not(a)
    )
    r = (
        r
        + ct.bitwise_lshift(a, b % 7)
        + ct.bitwise_rshift(a, b % 5)
        + ct.cdiv(a, b)
        + ct.minimum(a, b) * ct.maximum(a, b)
    )
    ct.store(o, index=(i,), tile=r)


@ct.kernel
def half_math(x, y, T: Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.store(y, index=(ct.bid(0),), tile=ct.exp(v) * v + v / 3.0)


@ct.kernel
def fma_ftz(x, y, T: Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    r = (
        ct.add(v, v, flush_to_zero=True)
        + ct.mul(v, v, rounding_mode=ct.RoundingMode.RZ)
        + ct.truediv(v, v + 3.0, rounding_mode=ct.RoundingMode.RP)
    )
    r = (
        r
        + ct.sqrt(ct.abs(v), rounding_mode=ct.RoundingMode.RM)
        + ct.truediv(v, 7.0, rounding_mode=ct.RoundingMode.APPROX)
    )
    ct.store(y, index=(ct.bid(0),), tile=r)


@ct.kernel
def narrow(x, y, z, T: Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.store(y, index=(ct.bid(0),), tile=ct.astype(v, ct.float8_e4m3fn))
    ct.store(z, index=(ct.bid(0),), tile=ct.astype(v, ct.float8_e5m2))


@ct.kernel
def unsigned(x, y, o, T: Constant[int]):
    i = ct.bid(0)
    a, b = ct.load(x, index=(i,), shape=(T,)), ct.load(y, index=(i,), shape=(T,))
    ct.store(o, index=(i,), tile=ct.where(a > b, a % b, a * b) + ct.maximum(a, b) + ct.bitwise_rshift(a, b % 9))


@ct.kernel
def bools(x, o, T: Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(T,))
    ct.store(o, index=(i,), tile=(a > 0) & (a < 1.0))


@ct.kernel
def stencil(x, y, T: Constant[int]):
    i = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32) + i * T
    ct.scatter(y, at, ct.gather(x, at - 1) + ct.gather(x, at + 1) - 2.0 * ct.gather(x, at))


@ct.kernel
def jacobi(x, y, n, T: Constant[int]):
    i = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32) + i * T
    inner = (at > 0) & (at < n - 1)
    v = 0.5 * (ct.gather(x, at - 1, mask=inner) + ct.gather(x, at + 1, mask=inner))
    ct.scatter(y, at, v, mask=inner)


@ct.kernel
def weight_gradient(x, dy, dw, T: Constant[int], N: Constant[int]):
    acc = ct.full((T, N), 0.0, ct.float32)
    for k in range(ct.bid(0), ct.num_tiles(x, axis=0, shape=(T, N)), ct.num_blocks(0)):
        acc = acc + ct.load(x, index=(k, 0), shape=(T, N)) * ct.load(dy, index=(k, 0), shape=(T, N))
    ct.store(dw, index=(ct.bid(0), 0), tile=ct.reshape(ct.sum(acc, axis=0), (1, N)))


@ct.kernel
def scan_reverse_max(x, y, N: Constant[int]):
    t = ct.load(x, index=(ct.bid(0), 0), shape=(2, N))
    ct.store(y, index=(ct.bid(0), 0), tile=ct.scan(t, 1, lambda a, b: ct.maximum(a, b), -1e30))


@ct.kernel
def group_norm(x, y, G: Constant[int], N: Constant[int]):
    t = ct.load(x, index=(ct.bid(0), 0), shape=(1, G * N))
    g = ct.reshape(t, (G, N))
    m = ct.sum(g, axis=1, keepdims=True) / N
    v = ct.sum((g - m) * (g - m), axis=1, keepdims=True) / N
    ct.store(y, index=(ct.bid(0), 0), tile=ct.reshape((g - m) * ct.rsqrt(v + 1e-5), (1, G * N)))


@ct.kernel
def cross_entropy(x, t, loss, N: Constant[int]):
    i = ct.bid(0)
    row = ct.load(x, index=(i, 0), shape=(1, N), padding_mode=ct.PaddingMode.NEG_INF)
    m = ct.max(row)
    s = ct.sum(ct.exp(row - m))
    k = ct.reshape(ct.load(t, index=(i,), shape=(1,)), ())
    ct.scatter(loss, i, ct.log(s) + m - ct.gather(x, (i, k)))
