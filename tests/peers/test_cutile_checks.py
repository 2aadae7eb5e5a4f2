"""What a call of a lifted kernel of cuTile says of its data: assertions and indices within loops that run in order."""

import cuda.tile as ct
import numpy as np
import pytest
from cuda.tile import Constant

import tensorir as ti
from tensorir import tile

pytestmark = pytest.mark.filterwarnings("ignore")
X, Y = np.linspace(0, 1, 16, dtype=np.float32), np.zeros(16, np.float32)


@ct.kernel
def doubled_sines(x, y, n, T: Constant[int]):
    a = ct.load(x, index=(ct.bid(0),), shape=(T,))
    for _ in range(n):
        a = ct.sin(a) * 2.0
        ct.assert_(a < 1.5, "too large")
    ct.store(y, index=(ct.bid(0),), tile=a)


@ct.kernel
def halvings(x, y, least, T: Constant[int]):
    a = ct.load(x, index=(ct.bid(0),), shape=(T,))
    while ct.max(a) > least:
        ct.assert_(a < 1.5, "too large")
        a = a * 0.5
    ct.store(y, index=(ct.bid(0),), tile=a)


@ct.kernel
def chain(x, following, y, n, T: Constant[int]):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    total = ct.full((T,), 0.0, ct.float32)
    for _ in range(n):
        total = total + ct.gather(x, i, check_bounds=False)
        i = ct.gather(following, i, check_bounds=False)
    ct.store(y, index=(ct.bid(0),), tile=total)


_READ = ("x", "following")


def lifted(kernel, *args):
    module, given = tile.from_cutile(kernel, *args, 8), list(args)
    return module, ti.lift(module, grid=2, args=given), given


def said(call):
    with pytest.raises(ti.DiagnosticError) as error:
        call()
    return error.value.diagnostics[0]


@pytest.mark.parametrize(
    ("kernel", "number", "x", "round"),
    ((doubled_sines, np.int32(3), X, "i2 = 0"), (halvings, np.float32(0.3), X * 2, "round 0")),
)
def test_an_assertion_within_a_loop_is_asked_in_every_round(kernel, number, x, round):
    module, p, given = lifted(kernel, x, Y, number)
    wrong = said(lambda: p(*given))
    assert (wrong.code, wrong.message) == ("R02", "an assertion fails: too large")
    assert wrong.notes[0] == f"it fails first at {round}, bx_1 = 1."
    assert said(lambda: tile.interpret(module, None, given, (2,))).code == "TH05"
    fine = [x * 0.1, Y, number]
    np.testing.assert_allclose(p(*fine)[0], tile.interpret(module, None, fine, (2,))[1], 1e-6)


def test_the_last_rounds_are_asked_too():
    _, p, given = lifted(doubled_sines, X * 0.5, Y, np.int32(3))
    assert said(lambda: p(*given)).notes[0].startswith("it fails first at i2 = 1")


def test_an_index_that_leaves_an_array_in_a_round_is_said():
    following = np.roll(np.arange(16, dtype=np.int32), -1)
    module, p, given = lifted(chain, X, following, Y, np.int32(4))
    np.testing.assert_allclose(p(*given)[0], tile.interpret(module, None, given, (2,))[2], 1e-6)
    given[1] = np.where(following == 9, 99, following).astype(np.int32)
    wrong = said(lambda: p(*given))
    # both are read there
    assert wrong.code == "R01" and wrong.message in [f"an index leaves '{n}', which has 16 elements." for n in _READ]
    assert "for i" in wrong.notes[0]
