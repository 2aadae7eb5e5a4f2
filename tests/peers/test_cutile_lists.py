"""Lists of arrays in kernels of cuTile: grouped products, indices that are constants, and those that are not."""

from __future__ import annotations

import pytest

ct = pytest.importorskip("cuda.tile")

import numpy as np

import tensorir as ti

pytestmark = pytest.mark.filterwarnings("ignore")
X, Y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
ZERO = np.zeros(4, np.float32)


@ct.kernel
def grouped_product(As, Bs, Cs, M: ct.Constant, N: ct.Constant, K: ct.Constant, cores: ct.Constant):
    """Each block takes every so many tiles of all products, counted one product after the other."""
    tile = ct.bid(0)
    end = 0
    for g in range(len(As)):
        a, b, c = As[g], Bs[g], Cs[g]
        columns = ct.num_tiles(b, 1, (K, N))
        count = ct.num_tiles(a, 0, (M, K)) * columns
        while tile >= end and tile < end + count:
            i, j = (tile - end) // columns, (tile - end) % columns
            total = ct.zeros((M, N), dtype=ct.float32)
            for k in range(ct.num_tiles(a, 1, (M, K))):
                left = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
                right = ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
                total = ct.mma(left, right, total)
            ct.store(c, (i, j), ct.astype(total, c.dtype))
            tile = tile + cores
        end = end + count


@ct.kernel
def differences(xs, y, T: ct.Constant):
    """y = 2 x0 + the sum of x[n] - x[n - 1]."""
    total = ct.load(xs[0], 0, T) * 2
    for n in range(1, len(xs)):
        if n > 0:
            total = total + ct.load(xs[n], 0, T) - ct.load(xs[n - 1], 0, T)
    ct.store(y, 0, total)


@ct.kernel
def carried_index(xs, y, T: ct.Constant):
    at = len(xs) - 1
    total = ct.zeros((T,), ct.float32)
    for _ in range(len(xs)):
        total = total * 10 + ct.load(xs[at], 0, T)
        at = at - 1
    ct.store(y, 0, total)


@ct.kernel
def positive(xs, y, T: ct.Constant):
    total = ct.zeros((T,), ct.float32)
    for n in range(len(xs)):
        x = ct.load(xs[n], 0, T)
        if ct.sum(x) < 0:
            continue
        total = total + x
    ct.store(y, 0, total)


@ct.kernel
def all_but_the_second(xs, y, T: ct.Constant):
    total = ct.zeros((T,), ct.float32)
    for n in range(len(xs)):
        if n == 1:
            continue
        total = total + ct.load(xs[n], 0, T)
    ct.store(y, 0, total)


@ct.kernel
def by_block(xs, y, T: ct.Constant):
    ct.store(y, ct.bid(0), ct.load(xs[ct.bid(0)], 0, T))


@ct.kernel
def by_number(xs, y, n, T: ct.Constant):
    for k in range(n):
        ct.store(y, k, ct.load(xs[k], 0, T))


@ct.kernel
def third(xs, y, T: ct.Constant):
    ct.store(y, 0, ct.load(xs[2], 0, T))


@ct.kernel
def many(xs, y, T: ct.Constant):
    for n in range(50000):
        ct.store(y, 0, ct.load(xs[n % 2], 0, T))


def test_a_grouped_product_is_verified_interpreted_and_lifted():
    random = np.random.default_rng(0)
    sizes = [(16, 8, 24), (8, 8, 8), (20, 12, 9)]
    left = [random.integers(-4, 5, (m, k)).astype(np.float32) for m, _, k in sizes]
    right = [random.integers(-4, 5, (k, n)).astype(np.float32) for _, n, k in sizes]
    out = [np.zeros((m, n), np.float32) for m, n, _ in sizes]
    module = ti.tile.from_cutile(grouped_product, left, right, out, 8, 8, 8, 4)
    assert ti.tile.verify(module) == ()
    assert ti.tile.parse(str(module)) == module == ti.tile.from_bytecode(ti.tile.to_bytecode(module))
    interpreted = ti.tile.interpret(module, "grouped_product", [*left, *right, *out], (4,))
    lifted = ti.tile.launch(grouped_product, (4,), (left, right, out, 8, 8, 8, 4))
    for a, b, one, other in zip(left, right, interpreted[-3:], lifted, strict=True):
        np.testing.assert_array_equal(one, a @ b)
        np.testing.assert_array_equal(other, a @ b)


def test_indices_are_constants_counters_and_what_is_computed_of_them():
    (found,) = ti.tile.launch(differences, (1,), ([X, Y, 3 * X], ZERO, 4))
    np.testing.assert_array_equal(found, 2 * X + (Y - X) + (3 * X - Y))
    (found,) = ti.tile.launch(carried_index, (1,), ([X, Y], ZERO, 4))
    np.testing.assert_array_equal(found, 10 * Y + X)


def test_a_loop_that_skips_arrays_as_data_tell_is_refused():
    found = message_of(positive, [X, Y], ZERO, 4)
    message = "a loop that chooses an array of a list goes on to its next iteration from within a branch."
    assert (found.code, found.message) == ("TK13", message)
    assert found.help == "put the rest of its body under the opposite condition."


def test_a_loop_that_skips_arrays_by_its_counter_is_unrolled():
    (found,) = ti.tile.launch(all_but_the_second, (1,), ([X, Y, 3 * X], ZERO, 4))
    np.testing.assert_array_equal(found, 4 * X)


def test_a_list_of_another_length_is_another_launch():
    (found,) = ti.tile.launch(differences, (1,), ([X, Y], ZERO, 4))
    np.testing.assert_array_equal(found, 2 * X + (Y - X))


def test_arrays_with_strides_of_their_own_share_a_list():
    (found,) = ti.tile.launch(differences, (1,), ([X, np.repeat(Y, 2)[::2]], ZERO, 4))
    np.testing.assert_array_equal(found, 2 * X + (Y - X))


def message_of(kernel, *args):
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tile.launch(kernel, (1,), args)
    return caught.value.diagnostics[0]


@pytest.mark.parametrize(("kernel", "args"), [(by_block, (4,)), (by_number, (2, 4))])
def test_an_index_that_block_or_data_tell_is_refused(kernel, args):
    found = message_of(kernel, [X, Y], np.zeros(8, np.float32), *args)
    assert (found.code, found.message, found.help) == (
        "TK11",
        "which array of the list 'xs' is meant depends on the block or on data.",
        "index a list by a constant or the counter of a loop with constant bounds, as in for n in range(len(xs)).",
    )


def test_an_index_outside_of_the_list_is_refused():
    found = message_of(third, [X, Y], ZERO, 4)
    assert (found.code, found.message) == ("TK12", "the list 'xs' has 2 arrays, and the array at 2 is read.")


def test_a_loop_over_a_list_is_unrolled_up_to_a_limit():
    found = message_of(many, [X, Y], ZERO, 4)
    message = "the loops that choose an array of a list come to more than 20,000 operations unrolled."
    assert (found.code, found.message) == ("TK13", message)


@pytest.mark.parametrize(
    ("xs", "reason"),
    [
        ([X, X.astype(np.int32)], "the arrays of a list have one element type and one number of dimensions"),
        ([], "a list has arrays, one at least"),
        ([X, 2.0], "a list has arrays, one at least"),
    ],
)
def test_a_list_has_arrays_of_one_kind(xs, reason):
    found = message_of(third, xs, ZERO, 4)
    assert (found.code, found.message) == ("TK06", f"cuTile refuses the kernel 'third': {reason}.")
