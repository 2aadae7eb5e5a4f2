"""Derivatives of limiters beside their one-sided slopes: equal, or between them where an extremum is tied."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tensorir as ti
from stencils import meshes
from tests.peers.gt4py.model import limiters
from tests.peers.gt4py.sides import C2E, gtx

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

OFFSETS = {"C2E": C2E, "E2C": limiters.E2C}.items()

SLOPES = {
    "minmod": ({-1.0: 0.0, 0.5: 1.0, 3.0: 0.0}, {0.0: (0.0, 1.0), 1.0: (1.0, 0.0)}),
    "superbee": (
        {-1.0: 0.0, 0.25: 2.0, 0.75: 0.0, 1.5: 1.0, 3.0: 0.0},
        {0.0: (0.0, 2.0), 0.5: (2.0, 0.0), 1.0: (0.0, 1.0), 2.0: (1.0, 0.0)},
    ),
    "monotonised_central": (
        {-1.0: 0.0, 0.25: 2.0, 1.0: 0.5, 4.0: 0.0},
        {0.0: (0.0, 2.0), 1 / 3: (2.0, 0.5), 3.0: (0.5, 0.0)},
    ),
    "van_leer": ({-1.0: 0.0, 1.0: 0.5, 3.0: 0.125}, {0.0: (0.0, 2.0)}),
}
"""By limiter, the slope at points where it has one, and the slopes to the left and to the right of its kinks."""


@pytest.mark.parametrize("name", SLOPES)
def test_a_slope_limiter_has_the_slopes_of_its_diagram(name: str) -> None:
    smooth, kinks = SLOPES[name]
    f = ti.as_jax(getattr(limiters, name))
    with jax.enable_x64(True):
        found = jax.grad(lambda r: f(r).sum())(jax.numpy.asarray([*smooth, *kinks]))
    np.testing.assert_allclose(found[: len(smooth)], list(smooth.values()), rtol=1e-14)
    for (r, sides), slope in zip(kinks.items(), found[len(smooth) :], strict=True):
        assert min(sides) <= slope <= max(sides), (name, r)


def slopes(f: Any, x: list[Any], along: list[Any], h: float = 1e-7) -> Any:
    """The derivative of f's results along a direction, and by differences the slopes to the left and to the right."""
    with jax.enable_x64(True):
        x, along = [jax.numpy.asarray(a) for a in x], [jax.numpy.asarray(a) for a in along]
        call = jax.jit(lambda *x: jax.tree.leaves(f(*x)))
        here, tangents = jax.jvp(call, tuple(x), tuple(along))
        there = {step: call(*[a + step * b for a, b in zip(x, along, strict=True)]) for step in (-h, h)}
        differences = [[(b - a) / step for a, b in zip(here, t, strict=True)] for step, t in there.items()]
    return [np.concatenate([np.ravel(a) for a in some]) for some in (tangents, *differences)]


def column(rng: np.random.Generator, ties: bool) -> Any:
    """Values along columns, with stretches where they do not change."""
    q = rng.uniform(1.0, 2.0, (7, 9))
    q[:, 3:7] = np.where(ties, 1.0, q[:, 3:7])
    return q


def slope_limiter(rng: np.random.Generator, ties: bool) -> tuple[Any, list[Any]]:
    return ti.as_jax(limiters.semi_monotone_slope), [column(rng, ties), rng.standard_normal((7, 9))]


def flux_limiter(rng: np.random.Generator, ties: bool) -> tuple[Any, list[Any]]:
    mesh = meshes.icosahedral(1)
    tables = {name: gtx.as_connectivity([o.target[0], o.target[1]], o.source, mesh.tables[name]) for name, o in OFFSETS}
    cells, edges = mesh.sizes["Cell"], mesh.sizes["Edge"]
    flux = rng.standard_normal((edges, 2))
    leaving = np.maximum(0.0, flux[mesh.tables["C2E"]] * mesh.signs["C2E"][..., None]).sum(axis=1)
    mass = leaving + 1.0e-30 if ties else rng.uniform(0.2, 3.0, (cells, 2))
    f = ti.as_jax(limiters.positive_definite, offset_provider=tables)
    return lambda mass, flux: f(mass, flux, mesh.signs["C2E"]), [mass, flux]


@pytest.mark.parametrize("limiter", [slope_limiter, flux_limiter])
def test_without_ties_both_slopes_are_the_derivative(limiter: Any) -> None:
    rng = np.random.default_rng(0)
    f, x = limiter(rng, ties=False)
    derivative, left, right = slopes(f, x, [rng.standard_normal(a.shape) for a in x])
    np.testing.assert_allclose(derivative, left, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(derivative, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("limiter", [slope_limiter, flux_limiter])
def test_where_an_extremum_is_tied_the_derivative_is_between_the_slopes(limiter: Any) -> None:
    rng = np.random.default_rng(1)
    f, x = limiter(rng, ties=True)
    derivative, left, right = slopes(f, x, [rng.standard_normal(a.shape) for a in x])
    assert (abs(left - right) > 0.01).sum() > 10  # so there are ties
    assert (derivative > np.minimum(left, right) - 1e-5).all()
    assert (derivative < np.maximum(left, right) + 1e-5).all()


@pytest.mark.parametrize(
    ("face", "below", "q", "expected"),
    [
        (1.0, 2.0, 0.5, (5.0, 5.0)),  # below both faces: constant
        (2.0, 1.0, 1.5, (11.0, 2.0)),  # the lower face stays: 3 q - 2 below, and below
        (1.0, 2.0, 1.5, (1.0, 13.0)),  # the upper face stays: face, and 3 q - 2 face
        (1.0, 1.0, 1.0, (1.0, 13.0)),  # all tied: the branch that is taken, which is the last one
    ],
)
def test_a_selection_has_the_slope_of_the_branch_that_is_taken(
    face: float, below: float, q: float, expected: tuple[float, float]
) -> None:
    f = ti.as_jax(limiters.semi_monotone_parabola)
    limited = np.ones((1, 2), np.int32)
    with jax.enable_x64(True):
        x = jax.numpy.asarray([[face, below]]), jax.numpy.asarray([[q, 0.0]])
        along = jax.numpy.asarray([[1.0, 2.0]]), jax.numpy.asarray([[5.0, 0.0]])
        _, found = jax.jvp(lambda *x: f(limited, *x), x, along)
    assert tuple(float(a[0, 0]) for a in found) == expected
