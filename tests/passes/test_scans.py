"""What moves into and out of the steps of scans, and what stays."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.passes import FuseIntoScans, SplitScans
from tensorir.passes.base import shown

COLUMNS = {"I": (0, 5), "K": (0, 9)}
LEVELS = {"K": (0, 9), "I": (0, 5)}


def step(body, *operands):
    params = ", ".join(f"{p}: tensor<float, I[0:5]>" for p in ("s", *operands))
    return f"scan(λ({params}) → {body}, true, 0.0)"


@pytest.mark.parametrize(
    ("body", "dims", "split"),
    [
        ("a × b + s", COLUMNS, True),
        ("a × b + s", LEVELS, False),  # they lie level by level: nothing is copied
        ("a × s + b", COLUMNS, False),  # nothing that is of operands alone
        ("a × b + s × a", COLUMNS, False),  # two arrays are copied as before
        ("(a × b) × s + (a - b)", COLUMNS, False),  # two for two
    ],
)
def test_operands_are_combined_before_a_scan_where_fewer_arrays_are_copied(body, dims, split):
    text = f"{step(body, 'a', 'b')}(x, y)"
    assert (shown(SplitScans(), text, x=dims, y=dims).count("of") > 0) == split


def test_parts_of_an_array_are_copied_however_it_lies():
    text = f"{step('s + a × b', 'a', 'b')}(subset(x, K[0:8]), subset(⟪K, 1⟫(x), K[0:8]))"
    assert "subset(x, K[0:8]) × subset(⟪K, 1⟫(x), K[0:8])" in shown(SplitScans(), text, x=LEVELS)


def test_an_operand_without_the_dim_stays_though_it_is_combined():
    text = f"{step('s + a × b × c', 'a', 'b', 'c')}(x, y, z)"
    assert shown(SplitScans(), text, x=COLUMNS, y=COLUMNS, z={"I": (0, 5)}).endswith("(x × y × z)")


PAIR = "scan(λ(s: tensor<(float, float)>, v: tensor<float>) → (s[0] + v, s[1] × v), true, (0.0, 1.0))(x)"


@pytest.mark.parametrize(
    ("result", "components"),
    [
        ("t[0] + t[1]", 3),
        ("t[0] × t[0]", 2),  # one array for one
        ("(t[0] + t[1], t[0])", 2),  # two for two
        ("t[0] + t[1] + x", 3),  # the sum of the states alone
        ("(t, t[0] + t[1])", 2),  # the states are asked for
        ("⟪K, 1⟫(t[0]) + t[1]", 2),  # not at one place
    ],
)
def test_what_is_computed_of_states_alone_is_computed_in_the_step(result, components):
    after = shown(FuseIntoScans(), f"let t = {PAIR}; {result}", x={"K": (0, 9)})
    assert f"tensor<({', '.join(['float'] * components)})>" in after


def test_a_scan_that_sums_its_states_is_what_numpy_makes_of_it():
    f = ti.parse(f"f(y: tensor<float, K[0:9]>, x: tensor<float, K[0:9]>) {{ y ← let t = {PAIR}; t[0] + t[1]; }}")
    x = np.linspace(0.5, 1.5, 9)
    np.testing.assert_allclose(ti.compile(f)(x=x)["y"], np.cumsum(x) + np.cumprod(x), rtol=1e-14)
    assert ti.compile(f).pipeline()["fuse_into_scans"].changed
