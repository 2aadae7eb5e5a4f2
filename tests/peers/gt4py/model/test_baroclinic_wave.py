"""The model of the baroclinic wave: GT4Py's embedded mode gives the same step, and the balanced jet stays."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tensorir as ti
from stencils import meshes
from stencils.baroclinic_wave import staggering
from tests.peers.gt4py.sides import xla_cpu

from stencils.baroclinic_wave.gt4py_model import Atmosphere, State  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LEVELS, SECONDS, SMOOTH = 5, 1200.0, 5.0e16


@pytest.fixture(scope="module")
def sphere() -> meshes.Mesh:
    return meshes.icosahedral(3)


@pytest.fixture(scope="module")
def model(sphere: meshes.Mesh) -> Atmosphere:
    return Atmosphere(sphere, LEVELS, xla_cpu, diffusivity=SMOOTH)


def arrays(state: State) -> dict[str, Any]:
    return {name: getattr(state, name).asnumpy().copy() for name in ("u", "t", "p")}


def test_a_step_is_that_of_gt4pys_embedded_mode(sphere: meshes.Mesh, model: Atmosphere) -> None:
    other = Atmosphere(sphere, LEVELS, None, diffusivity=SMOOTH)
    ours, theirs = model.start(), other.start()
    model.step(ours, SECONDS)
    other.step(theirs, SECONDS)
    for name, expected in arrays(theirs).items():
        np.testing.assert_allclose(arrays(ours)[name], expected, rtol=1e-11, atol=1e-11)


def test_the_balanced_jet_stays_and_mass_is_conserved(sphere: meshes.Mesh, model: Atmosphere) -> None:
    state = model.start(perturbed=0.0)
    before = arrays(state)
    for _ in range(36):  # half a day
        model.step(state, SECONDS)
    after, area = arrays(state), sphere.geometry.vertex_area
    assert abs(after["p"] - 1.0e5).max() < 250.0
    assert abs(after["u"] - before["u"]).max() < 2.5
    assert abs(after["t"] - before["t"]).max() < 2.5
    np.testing.assert_allclose((after["p"][:, -1] * area).sum(), 1.0e5 * area.sum(), rtol=1e-14)


def test_a_recorded_stage_is_the_stage_and_has_its_slope(model: Atmosphere) -> None:
    state, after = model.start(), model.start()
    with ti.iterator.record(names={"t": state.t, "p_after": after.p, "u_after": after.u}) as stage:
        model.stage(state, state, SECONDS, after)
    start, rest = stage.split("t", "p_after", "u_after")

    def lowest(t: Any) -> Any:
        found = stage({**start, "t": t}, rest)
        return found["p_after"][7, -1] + found["u_after"][70, 2]

    with jax.enable_x64(True):
        np.testing.assert_allclose(stage(start, rest)["u_after"], after.u.asnumpy(), rtol=1e-12, atol=1e-12)
        t, along = jax.numpy.asarray(start["t"]), np.random.default_rng(0).standard_normal(start["t"].shape)
        found = float((jax.grad(lowest)(t) * along).sum())
        differences = float(lowest(t + 0.01 * along) - lowest(t - 0.01 * along)) / 0.02
    np.testing.assert_allclose(found, differences, rtol=1e-6)


def test_the_tangential_velocity_of_a_rotation_is_exact_to_second_order() -> None:
    axis = np.array([0.3, 0.5, 0.8])
    errors: list[float] = []
    for level in (3, 4):
        mesh = meshes.icosahedral(level)
        g = mesh.geometry
        wind = np.cross(axis, g.edge_position / mesh.surface.radius)
        along, left = np.einsum("ei,ei->e", wind, g.edge_tangent), -np.einsum("ei,ei->e", wind, g.edge_normal)
        edges, weights = staggering.tangential(mesh)
        errors.append(float(abs((weights * along[edges]).sum(axis=1) - left).max()))
    assert errors[0] < 1e-3
    assert errors[0] / errors[1] > 3.3
