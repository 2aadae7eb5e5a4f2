"""Where the axis of a batch goes."""

import numpy as np
import pytest

from lowering.tracing import with_batch


@pytest.mark.parametrize("old", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_batch_is_moved_and_the_rest_keeps_its_order(old, axis):
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    assert np.array_equal(with_batch(x, old, axis, x.shape[old]), np.moveaxis(x, old, axis))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_what_is_alike_for_a_whole_batch_is_spread_along_it(axis):
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.array_equal(with_batch(x, None, axis, 5), np.stack([x] * 5, axis))
