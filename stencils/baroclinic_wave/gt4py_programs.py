"""The hydrostatic primitive equations in sigma coordinates as programs of GT4Py, on the hexagons of a triangulation.

Temperature and surface pressure are at vertices, velocities along edges, vorticities in triangles; levels are counted
from the top. The vertical scheme is that of Simmons and Burridge (Mon. Weather Rev. 109, 1981), which keeps energy; the
momentum equation has its vector-invariant form. The surface pressure is one number a column, kept on each level.
"""

# what GT4Py exports has no types that are known here
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportIndexIssue=false

# a dim stands before its bound, as GT4Py's documents have it
# ruff: noqa: SIM300

from __future__ import annotations

from typing import Any

import gt4py.next as gtx
from gt4py.eve.utils import FrozenNamespace
from gt4py.next import int32, log, neighbor_sum
from gt4py.next.experimental import concat_where

air = FrozenNamespace(R=287.0, kappa=2.0 / 7.0)
"""Of dry air: the gas constant in J/(kg K), and its ratio to the heat capacity at constant pressure."""

LOCAL = gtx.DimensionKind.LOCAL
Vertex, Edge, Cell = gtx.Dimension("Vertex"), gtx.Dimension("Edge"), gtx.Dimension("Cell")
K = gtx.Dimension("K", kind=gtx.DimensionKind.VERTICAL)
V2EDim, E2VDim, C2EDim, E2CDim, E2EDim = (
    gtx.Dimension(name, kind=LOCAL) for name in ("V2E", "E2V", "C2E", "E2C", "E2E")
)
V2E = gtx.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
E2V = gtx.FieldOffset("E2V", source=Vertex, target=(Edge, E2VDim))
C2E = gtx.FieldOffset("C2E", source=Edge, target=(Cell, C2EDim))
E2C = gtx.FieldOffset("E2C", source=Cell, target=(Edge, E2CDim))
E2E = gtx.FieldOffset("E2E", source=Edge, target=(Edge, E2EDim))
OFFSETS: dict[str, Any] = {"V2E": V2E, "E2V": E2V, "C2E": C2E, "E2C": E2C, "E2E": E2E}

OnVertex = gtx.Field[[Vertex], gtx.float64]
OnEdge = gtx.Field[[Edge], gtx.float64]
OnCell = gtx.Field[[Cell], gtx.float64]
Level = gtx.Field[[K], gtx.float64]
VK = gtx.Field[[Vertex, K], gtx.float64]
EK = gtx.Field[[Edge, K], gtx.float64]
CK = gtx.Field[[Cell, K], gtx.float64]
Outward = gtx.Field[[Vertex, V2EDim], gtx.float64]
Counterclockwise = gtx.Field[[Cell, C2EDim], gtx.float64]
Weights = gtx.Field[[Edge, E2EDim], gtx.float64]


@gtx.scan_operator(axis=K, forward=True, init=0.0)
def summed_down(total: float, x: float) -> float:
    return total + x


@gtx.scan_operator(axis=K, forward=False, init=0.0)
def summed_up(total: float, x: float) -> float:
    return total + x


@gtx.field_operator
def divergence(flux: EK, outward: Outward, area: OnVertex) -> VK:
    """Of fluxes through whole faces."""
    return neighbor_sum(flux(V2E) * outward, axis=V2EDim) / area


@gtx.field_operator
def vorticity(u: EK, length: OnEdge, turn: Counterclockwise, area: OnCell) -> CK:
    return neighbor_sum((u * length)(C2E) * turn, axis=C2EDim) / area


@gtx.field_operator
def mean(x: VK) -> EK:
    return 0.5 * (x(E2V[0]) + x(E2V[1]))


@gtx.field_operator
def gradient(x: VK, length: OnEdge) -> EK:
    """Along the edges."""
    return (x(E2V[1]) - x(E2V[0])) / length


@gtx.field_operator
def _flow(
    u: EK, t: VK, p: VK, phis: OnVertex, face: OnEdge, area: OnVertex, outward: Outward,
    thickness: Level, below: Level, ratio: Level, alpha: Level,
) -> tuple[EK, VK, VK, VK, VK]:  # fmt: skip
    """Mass fluxes through faces and downwards between levels, omega / p, the geopotential and the tendency of p.

    Continuity integrated from the top; the hydrostatic sum from the ground (`summed_up`).
    """
    flux = u * mean(p) * face
    leaving = divergence(flux, outward, area)
    here = summed_down(leaving * thickness)
    above = here - leaving * thickness
    total = above + summed_up(leaving * thickness)
    along = (leaving - p * divergence(u * face, outward, area)) / p
    omega = along - (ratio * above / thickness + alpha * leaving) / p
    heavy = air.R * t * ratio
    phi = phis + summed_up(heavy) - heavy + alpha * air.R * t
    return flux, below * total - here, omega, phi, 0.0 - total


@gtx.program
def flow(
    u: EK, t: VK, p: VK, phis: OnVertex, face: OnEdge, area: OnVertex, outward: Outward,
    thickness: Level, below: Level, ratio: Level, alpha: Level,
    flux: EK, falling: VK, omega: VK, phi: VK, rising: VK,
):  # fmt: skip
    """Mass fluxes through faces and, downwards, between levels; omega / p; the geopotential; the tendency of p."""
    _flow(u, t, p, phis, face, area, outward, thickness, below, ratio, alpha, out=(flux, falling, omega, phi, rising))


@gtx.field_operator
def _thermodynamics(
    t: VK, p: VK, flux: EK, falling: VK, omega: VK, area: OnVertex, outward: Outward, thickness: Level, bottom: int32
) -> VK:
    """Advection along and across levels (centred differences) and compression, divided by the pressure."""
    sideways = divergence(flux * mean(t), outward, area) - t * divergence(flux, outward, area)
    below = concat_where(K < bottom, t(K + 1), t)
    above = concat_where(K > 0, t(K - 1), t)
    entering = concat_where(K > 0, falling(K - 1), falling)
    return air.kappa * t * omega - (sideways + 0.5 * (falling * (below - t) + entering * (t - above)) / thickness) / p


@gtx.program
def thermodynamics(
    t: VK, p: VK, flux: EK, falling: VK, omega: VK, area: OnVertex, outward: Outward, thickness: Level, bottom: int32,
    warming: VK,
):  # fmt: skip
    """The tendency of temperature: advection, and compression."""
    _thermodynamics(t, p, flux, falling, omega, area, outward, thickness, bottom, out=warming)


@gtx.field_operator
def _momentum(
    u: EK, t: VK, p: VK, falling: VK, phi: VK, coriolis: OnEdge, length: OnEdge, face: OnEdge, area: OnVertex,
    triangle: OnCell, turn: Counterclockwise, weights: Weights, thickness: Level, bottom: int32,
) -> EK:  # fmt: skip
    """Absolute vorticity times the velocity to the left, the gradient of geopotential and kinetic energy, the pressure
    force and advection across levels.
    """
    spin = vorticity(u, length, turn, triangle)
    absolute = coriolis + 0.5 * (spin(E2C[0]) + spin(E2C[1]))
    left = neighbor_sum(u(E2E) * weights, axis=E2EDim)
    kinetic = neighbor_sum((0.25 * face * length * u * u)(V2E), axis=V2EDim) / area
    force = gradient(phi + kinetic, length) + air.R * mean(t) * gradient(log(p), length)
    falls = mean(falling)
    below = concat_where(K < bottom, u(K + 1), u)
    above = concat_where(K > 0, u(K - 1), u)
    entering = concat_where(K > 0, falls(K - 1), falls)
    return absolute * left - force - 0.5 * (falls * (below - u) + entering * (u - above)) / (thickness * mean(p))


@gtx.program
def momentum(
    u: EK, t: VK, p: VK, falling: VK, phi: VK, coriolis: OnEdge, length: OnEdge, face: OnEdge, area: OnVertex,
    triangle: OnCell, turn: Counterclockwise, weights: Weights, thickness: Level, bottom: int32,
    acceleration: EK,
):  # fmt: skip
    """The tendency of the velocities: absolute vorticity, pressure, kinetic energy, and what moves between levels."""
    _momentum(
        u, t, p, falling, phi, coriolis, length, face, area, triangle, turn, weights, thickness, bottom,
        out=acceleration,
    )  # fmt: skip


@gtx.field_operator
def _advance(u: EK, t: VK, p: VK, du: EK, dt: VK, dp: VK, seconds: float) -> tuple[EK, VK, VK]:
    return u + seconds * du, t + seconds * dt, p + seconds * dp


@gtx.program
def advance(
    u: EK, t: VK, p: VK, du: EK, dt: VK, dp: VK, seconds: float, u_next: EK, t_next: VK, p_next: VK
):  # fmt: skip
    """A stage of Runge and Kutta: tendencies times seconds, from the state at the step's start."""
    _advance(u, t, p, du, dt, dp, seconds, out=(u_next, t_next, p_next))


@gtx.field_operator
def laplacian(x: VK, length: OnEdge, face: OnEdge, area: OnVertex, outward: Outward) -> VK:
    return divergence(gradient(x, length) * face, outward, area)


@gtx.field_operator
def vector_laplacian(
    u: EK, length: OnEdge, face: OnEdge, area: OnVertex, outward: Outward, triangle: OnCell, turn: Counterclockwise
) -> EK:
    """The gradient of the divergence less the rotated gradient of the vorticity, along the edges."""
    spin = vorticity(u, length, turn, triangle)
    return gradient(divergence(u * face, outward, area), length) - (spin(E2C[0]) - spin(E2C[1])) / face


@gtx.field_operator
def _smoothing(
    u: EK, t: VK, p: VK, length: OnEdge, face: OnEdge, area: OnVertex, outward: Outward, triangle: OnCell,
    turn: Counterclockwise, strength: float,
) -> tuple[EK, VK, VK]:  # fmt: skip
    """The state after one step of biharmonic diffusion of velocity and temperature: twice the Laplacian, times
    `strength`.
    """
    once = vector_laplacian(u, length, face, area, outward, triangle, turn)
    twice = vector_laplacian(once, length, face, area, outward, triangle, turn)
    warmth = laplacian(laplacian(t, length, face, area, outward), length, face, area, outward)
    return u - strength * twice, t - strength * warmth, p


@gtx.program
def smoothing(
    u: EK, t: VK, p: VK, length: OnEdge, face: OnEdge, area: OnVertex, outward: Outward, triangle: OnCell,
    turn: Counterclockwise, strength: float, u_next: EK, t_next: VK, p_next: VK,
):  # fmt: skip
    """Biharmonic diffusion of velocities and temperature; the strength is a diffusivity in m⁴/s times a time step."""
    _smoothing(u, t, p, length, face, area, outward, triangle, turn, strength, out=(u_next, t_next, p_next))


PROGRAMS = flow, thermodynamics, momentum, advance, smoothing
