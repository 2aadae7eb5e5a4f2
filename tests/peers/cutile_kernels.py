"""Kernels in cuTile Python, as one writes them: from a sum of vectors to attention."""

import cuda.tile as ct
from cuda.tile import Constant

PAD = ct.PaddingMode.ZERO


@ct.kernel
def vector_add(a, b, c, T: Constant[int]):
    i = ct.bid(0)
    ct.store(c, index=(i,), tile=ct.load(a, index=(i,), shape=(T,)) + ct.load(b, index=(i,), shape=(T,)))


@ct.kernel
def saxpy(alpha, x, y, T: Constant[int]):
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=alpha * ct.load(x, index=(i,), shape=(T,)) + ct.load(y, index=(i,), shape=(T,)))


@ct.kernel
def transpose(x, y, M: Constant[int], N: Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, index=(j, i), tile=ct.transpose(ct.load(x, index=(i, j), shape=(M, N))))


@ct.kernel
def transpose_by_order(x, y, M: Constant[int], N: Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, index=(i, j), tile=ct.load(x, index=(i, j), shape=(M, N), order="F"))


@ct.kernel
def matmul(a, b, c, M: Constant[int], N: Constant[int], K: Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((M, N), 0.0, ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=PAD)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=PAD)
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def matmul_relu_bias(a, b, bias, c, M: Constant[int], N: Constant[int], K: Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((M, N), 0.0, ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        acc = ct.mma(ct.load(a, index=(i, k), shape=(M, K)), ct.load(b, index=(k, j), shape=(K, N)), acc)
    acc = ct.maximum(acc + ct.reshape(ct.load(bias, index=(j,), shape=(N,)), (1, N)), 0.0)
    ct.store(c, index=(i, j), tile=acc)


@ct.kernel
def batched_matmul(a, b, c, M: Constant[int], N: Constant[int], K: Constant[int]):
    n, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.full((1, M, N), 0.0, ct.float32)
    for k in range(ct.num_tiles(a, axis=2, shape=(1, M, K))):
        acc = ct.mma(ct.load(a, index=(n, i, k), shape=(1, M, K)), ct.load(b, index=(n, k, j), shape=(1, K, N)), acc)
    ct.store(c, index=(n, i, j), tile=acc)


@ct.kernel
def quantised_matmul(a, b, scale, c, M: Constant[int], N: Constant[int], K: Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((M, N), 0, ct.int32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        acc = ct.mma(ct.load(a, index=(i, k), shape=(M, K)), ct.load(b, index=(k, j), shape=(K, N)), acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, ct.float32) * scale)


@ct.kernel
def fp8_matmul(a, b, c, M: Constant[int], N: Constant[int], K: Constant[int]):
    x = ct.astype(ct.load(a, index=(ct.bid(0), 0), shape=(M, K)), ct.float8_e4m3fn)
    y = ct.astype(ct.load(b, index=(0, ct.bid(1)), shape=(K, N)), ct.float8_e4m3fn)
    ct.store(c, index=(ct.bid(0), ct.bid(1)), tile=ct.mma(x, y, ct.full((M, N), 0.0, ct.float32)))


@ct.kernel
def softmax(x, y, N: Constant[int]):
    row = ct.load(x, index=(ct.bid(0), 0), shape=(1, N), padding_mode=ct.PaddingMode.NEG_INF)
    e = ct.exp(row - ct.max(row, axis=1, keepdims=True))
    ct.store(y, index=(ct.bid(0), 0), tile=e / ct.sum(e, axis=1, keepdims=True))


@ct.kernel
def online_softmax(x, y, T: Constant[int]):
    i = ct.bid(0)
    n = ct.num_tiles(x, axis=1, shape=(1, T))
    m = ct.full((1, 1), -1e30, ct.float32)
    s = ct.full((1, 1), 0.0, ct.float32)
    for k in range(n):
        row = ct.load(x, index=(i, k), shape=(1, T))
        new = ct.maximum(m, ct.max(row, axis=1, keepdims=True))
        s = s * ct.exp(m - new) + ct.sum(ct.exp(row - new), axis=1, keepdims=True)
        m = new
    for k in range(n):
        ct.store(y, index=(i, k), tile=ct.exp(ct.load(x, index=(i, k), shape=(1, T)) - m) / s)


@ct.kernel
def layer_norm(x, w, b, y, mean, rstd, eps, N: Constant[int]):
    i = ct.bid(0)
    row = ct.load(x, index=(i, 0), shape=(1, N))
    mu = ct.sum(row, axis=1, keepdims=True) / N
    r = ct.rsqrt(ct.sum((row - mu) * (row - mu), axis=1, keepdims=True) / N + eps)
    ct.store(
        y, index=(i, 0), tile=(row - mu) * r * ct.load(w, index=(0,), shape=(N,)) + ct.load(b, index=(0,), shape=(N,))
    )
    ct.store(mean, index=(i,), tile=ct.reshape(mu, (1,)))
    ct.store(rstd, index=(i,), tile=ct.reshape(r, (1,)))


@ct.kernel
def layer_norm_backward(dy, x, w, mean, rstd, dx, N: Constant[int]):
    i = ct.bid(0)
    row = ct.load(x, index=(i, 0), shape=(1, N))
    m, r = ct.load(mean, index=(i,), shape=(1,)), ct.load(rstd, index=(i,), shape=(1,))
    xhat = (row - m) * r
    wdy = ct.load(dy, index=(i, 0), shape=(1, N)) * ct.load(w, index=(0,), shape=(N,))
    c1 = ct.sum(xhat * wdy, axis=1, keepdims=True) / N
    c2 = ct.sum(wdy, axis=1, keepdims=True) / N
    ct.store(dx, index=(i, 0), tile=(wdy - (xhat * c1 + c2)) * r)


@ct.kernel
def attention(q, k, v, o, scale, causal: Constant[bool], B: Constant[int], T: Constant[int], D: Constant[int]):
    i = ct.bid(0)
    query = ct.load(q, index=(i, 0), shape=(B, D))
    m = ct.full((B, 1), -1e30, ct.float32)
    s = ct.full((B, 1), 0.0, ct.float32)
    acc = ct.full((B, D), 0.0, ct.float32)
    for j in range(ct.num_tiles(k, axis=0, shape=(T, D))):
        key = ct.load(k, index=(j, 0), shape=(T, D))
        score = ct.mma(query, ct.transpose(key), ct.full((B, T), 0.0, ct.float32)) * scale
        if causal:
            rows = ct.reshape(ct.arange(B, dtype=ct.int32), (B, 1)) + i * B
            columns = ct.reshape(ct.arange(T, dtype=ct.int32), (1, T)) + j * T
            score = ct.where(columns <= rows, score, -1e30)
        new = ct.maximum(m, ct.max(score, axis=1, keepdims=True))
        p = ct.exp(score - new)
        fade = ct.exp(m - new)
        s = s * fade + ct.sum(p, axis=1, keepdims=True)
        acc = ct.mma(p, ct.load(v, index=(j, 0), shape=(T, D)), acc * fade)
        m = new
    ct.store(o, index=(i, 0), tile=acc / s)


@ct.kernel
def convolution(x, w, y, H: Constant[int], W: Constant[int], T: Constant[int]):
    """3x3, as gathers of an image in the columns of a matrix."""
    i = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32) + i * T
    row, column = at // (W - 2), at % (W - 2)
    acc = ct.full((T,), 0.0, ct.float32)
    for a in range(3):
        for b in range(3):
            acc = acc + ct.gather(x, (row + a) * W + column + b) * ct.gather(w, a * 3 + b)
    ct.scatter(y, at, acc, mask=at < (H - 2) * (W - 2))


@ct.kernel
def cumulative_sum(x, y, N: Constant[int]):
    ct.store(y, index=(ct.bid(0), 0), tile=ct.cumsum(ct.load(x, index=(ct.bid(0), 0), shape=(1, N)), axis=1))


@ct.kernel
def reverse_cumulative_product(x, y, N: Constant[int]):
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(1, N))
    ct.store(y, index=(ct.bid(0), 0), tile=ct.cumprod(tile, axis=1, reverse=True))


@ct.kernel
def histogram(x, counts, T: Constant[int]):
    bins = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.atomic_add(counts, bins, 1)


@ct.kernel
def arg_max(x, y, N: Constant[int]):
    ct.store(
        y, index=(ct.bid(0),), tile=ct.reshape(ct.argmax(ct.load(x, index=(ct.bid(0), 0), shape=(1, N)), axis=1), (1,))
    )


@ct.kernel
def top_k(x, values, indices, K: Constant[int], N: Constant[int]):
    i = ct.bid(0)
    row = ct.load(x, index=(i, 0), shape=(1, N))
    at = ct.reshape(ct.arange(N, dtype=ct.int32), (1, N))
    for k in range(K):
        best = ct.max(row, axis=1)
        where = ct.argmax(row, axis=1)
        ct.store(values, index=(i, k), tile=ct.reshape(best, (1, 1)))
        ct.store(indices, index=(i, k), tile=ct.reshape(where, (1, 1)))
        row = ct.where(at == ct.reshape(where, (1, 1)), -1e30, row)


@ct.kernel
def gather_scatter(x, source, target, y, T: Constant[int]):
    at = ct.arange(T, dtype=ct.int32) + ct.bid(0) * T
    ct.scatter(y, ct.gather(target, at), ct.gather(x, ct.gather(source, at)))


@ct.kernel
def embedding(table, ids, y, D: Constant[int]):
    i = ct.bid(0)
    row = ct.load(ids, index=(i,), shape=(1,))
    columns = ct.arange(D, dtype=ct.int32)
    ct.store(y, index=(i, 0), tile=ct.reshape(ct.gather(table, (row, columns)), (1, D)))


@ct.kernel
def rotary(x, cos, sin, y, H: Constant[int]):
    i = ct.bid(0)
    a, b = ct.load(x, index=(i, 0), shape=(1, H)), ct.load(x, index=(i, 1), shape=(1, H))
    c, s = ct.load(cos, index=(i, 0), shape=(1, H)), ct.load(sin, index=(i, 0), shape=(1, H))
    ct.store(y, index=(i, 0), tile=a * c - b * s)
    ct.store(y, index=(i, 1), tile=b * c + a * s)


@ct.kernel
def welford(x, mean, variance, N: Constant[int]):
    row = ct.load(x, index=(ct.bid(0), 0), shape=(1, N))
    one = ct.full((1, N), 1.0, ct.float32)

    def combine(m1, s1, n1, m2, s2, n2):
        n = n1 + n2
        delta = m2 - m1
        part = ct.where(n > 0.0, n2 / ct.where(n > 0.0, n, 1.0), 0.0)
        return m1 + delta * part, s1 + s2 + delta * delta * n1 * part, n

    m, s, n = ct.reduce((row, row * 0.0, one), 1, combine, (0.0, 0.0, 0.0))
    ct.store(mean, index=(ct.bid(0),), tile=m)
    ct.store(variance, index=(ct.bid(0),), tile=s / n)


@ct.kernel
def sliding_maximum(x, y, S: Constant[int]):
    view = x.tiled_view((8,), padding_mode=ct.PaddingMode.NEG_INF, traversal_steps=(S,))
    ct.store(y, index=(ct.bid(0),), tile=ct.reshape(ct.max(view.load((ct.bid(0),))), (1,)))


@ct.kernel
def strided_copy(x, y, T: Constant[int]):
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)))


@ct.kernel
def prefix_over_blocks(x, y, sums, ready, T: Constant[int]):
    """Each block waits for the sum of those before it: in order none has to wait."""
    i = ct.bid(0)
    tile = ct.cumsum(ct.load(x, index=(i,), shape=(T,)), axis=0)
    before = 0.0
    if i > 0:
        while ct.atomic_add(ready, i - 1, 0, memory_order=ct.MemoryOrder.ACQUIRE) == 0:
            pass
        before = ct.gather(sums, i - 1)
    ct.store(y, index=(i,), tile=tile + before)
    ct.scatter(sums, i, before + ct.sum(ct.load(x, index=(i,), shape=(T,))))
    ct.atomic_xchg(ready, i, 1, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def early_return(x, y, n, T: Constant[int]):
    i = ct.bid(0)
    if i >= n:
        return
    ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)) * 2)


@ct.kernel
def nested_loops(x, y, T: Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, index=(i,), shape=(T,))
    total = tile * 0
    for a in range(3):
        for b in range(a + 1):
            if b == 1:
                continue
            total = total + tile * (a + b)
    ct.store(y, index=(i,), tile=total)


@ct.kernel
def collatz(x, y, T: Constant[int]):
    i = ct.bid(0)
    at = ct.load(x, index=(i,), shape=(T,))
    steps = at * 0
    while True:
        going = at > 1
        if ct.max(ct.astype(going, ct.int32)) == 0:
            break
        steps = steps + ct.astype(going, ct.int32)
        at = ct.where(going, ct.where(at % 2 == 0, at // 2, 3 * at + 1), at)
    ct.store(y, index=(i,), tile=steps)


@ct.kernel
def printing(x, T: Constant[int]):
    ct.printf("block %d: %f\n", ct.bid(0), ct.load(x, index=(ct.bid(0),), shape=(T,)))


@ct.kernel
def directed_sums(x, y, low, high, T: Constant[int]):
    i = ct.bid(0)
    a, b = ct.load(x, index=(i,), shape=(T,)), ct.load(y, index=(i,), shape=(T,))
    ct.store(low, index=(i,), tile=ct.add(a, b, rounding_mode=ct.RoundingMode.RM))
    ct.store(high, index=(i,), tile=ct.add(a, b, rounding_mode=ct.RoundingMode.RP))


@ct.kernel
def bytes_of_halves(x, y, T: Constant[int]):
    ct.store(y, index=(ct.bid(0),), tile=ct.pack_to_bytes(ct.load(x, index=(ct.bid(0),), shape=(T,))))


@ct.kernel
def cat_and_extract(x, y, T: Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, index=(i,), shape=(T,))
    ct.store(y, index=(i,), tile=ct.extract(ct.cat((tile * 10, tile), 0), (1,), (T,)))


@ct.kernel
def sum_by_atomics(x, total, N: Constant[int]):
    """The sums of columns, each block adding what its rows have."""
    i = ct.bid(0)
    part = ct.sum(ct.load(x, index=(i, 0), shape=(2, N)), axis=0)
    ct.atomic_add(total, ct.arange(N, dtype=ct.int32), part * part)


@ct.kernel
def scale_in_place(x, factor, T: Constant[int]):
    i = ct.bid(0)
    ct.store(x, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)) * ct.load(factor, index=(0,), shape=(1,)))


@ct.kernel
def newton_root(x, y, T: Constant[int]):
    """Square roots, as many steps as the slowest lane of a block needs."""
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(T,))
    r = a
    while ct.max(ct.abs(r * r - a)) > 1e-3:
        r = 0.5 * (r + a / r)
    ct.store(y, index=(i,), tile=r)


@ct.kernel
def rows_of_different_length(x, lengths, y, T: Constant[int]):
    """Sums over as many tiles as each row says."""
    i = ct.bid(0)
    n = ct.reshape(ct.load(lengths, index=(i,), shape=(1,)), ())
    total = ct.full((1, T), 0.0, ct.float32)
    for k in range(n):
        total = total + ct.load(x, index=(i, k), shape=(1, T))
    ct.store(y, index=(i,), tile=ct.sum(total, axis=1))


@ct.kernel
def triangle(x, y, T: Constant[int]):
    """Sums over the tiles up to the block's own."""
    i = ct.bid(0)
    total = ct.full((T,), 0.0, ct.float32)
    for k in range(i + 1):
        tile = ct.load(x, index=(k,), shape=(T,))
        total = total + tile * tile
    ct.store(y, index=(i,), tile=total)
