"""Programs of the kinds that a weather model on an icosahedral mesh spends its time in, and fields for them.

An implicit solver of columns, two weighted sums of the same neighbours, diffusion by shear, a flux of parabolas, and
microphysics of several species: each a program of GT4Py, whose results are several fields.
"""

# a dim stands before its bound, as GT4Py's documents have it
# ruff: noqa: SIM300

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gt4py.next as gtx
import numpy as np
from gt4py.next import abs, exp, floor, maximum, minimum, neighbor_sum, sqrt, where
from gt4py.next.experimental import concat_where

__all__ = ["CASES", "Case", "Mesh"]

K = gtx.Dimension("K", kind=gtx.DimensionKind.VERTICAL)
Cell, Edge, Vertex = gtx.Dimension("Cell"), gtx.Dimension("Edge"), gtx.Dimension("Vertex")
C2EDim, E2C2VDim, V2EDim = (gtx.Dimension(n, kind=gtx.DimensionKind.LOCAL) for n in ("C2E", "E2C2V", "V2E"))
C2E = gtx.FieldOffset("C2E", source=Edge, target=(Cell, C2EDim))
E2C2V = gtx.FieldOffset("E2C2V", source=Vertex, target=(Edge, E2C2VDim))
V2E = gtx.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))

CK = gtx.Field[[Cell, K], gtx.float64]
C = gtx.Field[[Cell], gtx.float64]
EK = gtx.Field[[Edge, K], gtx.float64]
E = gtx.Field[[Edge], gtx.float64]
VK = gtx.Field[[Vertex, K], gtx.float64]
KF = gtx.Field[[K], gtx.float64]
C3 = gtx.Field[[Cell, C2EDim], gtx.float64]
E4 = gtx.Field[[Edge, E2C2VDim], gtx.float64]
V6 = gtx.Field[[Vertex, V2EDim], gtx.float64]


# An implicit solver: fluxes through edges, a tridiagonal system for the vertical wind, and what follows from it


@gtx.scan_operator(axis=K, forward=True, init=(0.0, 0.0))
def eliminated(
    state: tuple[float, float], lower: float, diagonal: float, upper: float, right: float
) -> tuple[float, float]:
    pivot = 1.0 / (diagonal + lower * state[0])
    return (0.0 - upper) * pivot, (right - lower * state[1]) * pivot


@gtx.scan_operator(axis=K, forward=False, init=0.0)
def substituted(below: float, factor: float, value: float) -> float:
    return factor * below + value


@gtx.field_operator
def implicit(
    w: CK, rho: CK, exner: CK, theta: CK, rho_half: CK, theta_half: CK, tendency: CK, buoyancy: CK, thickness: CK,
    half_thickness: CK, mass_flux: EK, heat_flux: EK, geometry: C3, weight: C, damping: KF, dt: float,
    levels: gtx.int32,
) -> tuple[CK, CK, CK, CK]:  # fmt: skip
    mass = neighbor_sum(mass_flux(C2E) * geometry, axis=C2EDim)
    heat = neighbor_sum(heat_flux(C2E) * geometry, axis=C2EDim)
    none = 0.0 * w
    explicit = concat_where(K > 0, w + dt * (tendency - 1004.64 * buoyancy), none)
    beta = dt * 287.04 * exner / (717.6 * rho * theta) / thickness
    alpha = concat_where(K < levels, weight * theta_half * rho_half, none)
    vertical = concat_where((K > 0) & (K < levels), rho_half * (1.0 - weight) * w, none)
    new_rho = rho - dt / thickness * (mass + vertical - vertical(K + 1))
    new_exner = exner - beta * (heat + theta_half * vertical - theta_half(K + 1) * vertical(K + 1))
    gamma = dt * 1004.64 * weight * theta_half / half_thickness
    lower = concat_where(K > 0, (0.0 - gamma) * beta(K - 1) * alpha(K - 1), none)
    diagonal = concat_where(K > 0, 1.0 + gamma * alpha * (beta(K - 1) + beta), none + 1.0)
    upper = concat_where(K > 0, (0.0 - gamma) * beta * alpha(K + 1), none)
    right = concat_where(K > 0, explicit - gamma * (new_exner(K - 1) - new_exner), none)
    factor, value = concat_where((K > 0) & (K < levels), eliminated(lower, diagonal, upper, right), (none, none))
    new_w = concat_where(K < levels, substituted(factor, value), w)
    new_w = concat_where(K > 0, damping * new_w, new_w)
    through = weight * rho_half * new_w
    new_rho = new_rho - dt / thickness * (through - through(K + 1))
    new_exner = new_exner + beta * (alpha * new_w - alpha(K + 1) * new_w(K + 1))
    new_theta = rho * theta * ((new_exner / exner - 1.0) * 2.5 + 1.0) / new_rho
    return new_w, new_rho, new_exner, new_theta


@gtx.program(grid_type=gtx.GridType.UNSTRUCTURED)
def solver(
    w: CK, rho: CK, exner: CK, theta: CK, rho_half: CK, theta_half: CK, tendency: CK, buoyancy: CK, thickness: CK,
    half_thickness: CK, mass_flux: EK, heat_flux: EK, geometry: C3, weight: C, damping: KF, new_w: CK, new_rho: CK,
    new_exner: CK, new_theta: CK, dt: float, levels: gtx.int32, cells: gtx.int32,
):  # fmt: skip
    implicit(
        w, rho, exner, theta, rho_half, theta_half, tendency, buoyancy, thickness, half_thickness, mass_flux, heat_flux,
        geometry, weight, damping, dt, levels, out=(new_w, new_rho, new_exner, new_theta),
        domain={Cell: (0, cells), K: (0, levels)},
    )  # fmt: skip


# Both components of a vector at vertices, from those along the edges around them


@gtx.field_operator
def both_components(along: EK, first: V6, second: V6) -> tuple[VK, VK]:
    return neighbor_sum(along(V2E) * first, axis=V2EDim), neighbor_sum(along(V2E) * second, axis=V2EDim)


@gtx.program(grid_type=gtx.GridType.UNSTRUCTURED)
def reconstruction(
    along: EK, first: V6, second: V6, u: VK, v: VK, levels: gtx.int32, vertices: gtx.int32
):  # fmt: skip
    both_components(along, first, second, out=(u, v), domain={Vertex: (0, vertices), K: (0, levels)})


# Diffusion of the wind by its own shear: a Laplacian at edges, and a coefficient that grows with shear and strain


@gtx.field_operator
def sheared(
    u: VK, v: VK, wind: EK, x: E4, y: E4, across_x: E4, across_y: E4, inverse_length: E, inverse_width: E, sign: E,
    factor: KF, limit: KF, offset: float,
) -> tuple[EK, EK, EK]:  # fmt: skip
    left = u(E2C2V[0]) * x[E2C2VDim(0)] + v(E2C2V[0]) * y[E2C2VDim(0)]
    right = u(E2C2V[1]) * x[E2C2VDim(1)] + v(E2C2V[1]) * y[E2C2VDim(1)]
    behind = u(E2C2V[2]) * x[E2C2VDim(2)] + v(E2C2V[2]) * y[E2C2VDim(2)]
    ahead = u(E2C2V[3]) * x[E2C2VDim(3)] + v(E2C2V[3]) * y[E2C2VDim(3)]
    turned = (
        u(E2C2V[1]) * across_x[E2C2VDim(1)] + v(E2C2V[1]) * across_y[E2C2VDim(1)]
        - u(E2C2V[0]) * across_x[E2C2VDim(0)] - v(E2C2V[0]) * across_y[E2C2VDim(0)]
    )  # fmt: skip
    crossed = (
        u(E2C2V[3]) * across_x[E2C2VDim(3)] + v(E2C2V[3]) * across_y[E2C2VDim(3)]
        - u(E2C2V[2]) * across_x[E2C2VDim(2)] - v(E2C2V[2]) * across_y[E2C2VDim(2)]
    )  # fmt: skip
    shear = (ahead - behind) * inverse_width - turned * sign * inverse_length
    strain = (right - left) * sign * inverse_length + crossed * inverse_width
    coefficient = factor * sqrt(shear * shear + strain * strain)
    laplacian = 4.0 * (
        (left + right - 2.0 * wind) * inverse_length * inverse_length
        + (behind + ahead - 2.0 * wind) * inverse_width * inverse_width
    )
    return minimum(limit, maximum(0.0, coefficient - offset)), coefficient, laplacian


@gtx.program(grid_type=gtx.GridType.UNSTRUCTURED)
def diffusion(
    u: VK, v: VK, wind: EK, x: E4, y: E4, across_x: E4, across_y: E4, inverse_length: E, inverse_width: E, sign: E,
    factor: KF, limit: KF, limited: EK, coefficient: EK, laplacian: EK, offset: float, levels: gtx.int32,
    edges: gtx.int32,
):  # fmt: skip
    sheared(
        u, v, wind, x, y, across_x, across_y, inverse_length, inverse_width, sign, factor, limit, offset,
        out=(limited, coefficient, laplacian), domain={Edge: (0, edges), K: (0, levels)},
    )  # fmt: skip


# A flux of what parabolas in the cells of a column hold, at Courant numbers up to three


@gtx.field_operator
def part_of(upwards: gtx.Field[[Cell, K], bool], whole: CK, a: CK) -> CK:
    below = where(whole == 0.0, a, where(whole == 1.0, a(K + 1), a(K + 2)))
    above = where(whole == 0.0, a(K - 1), where(whole == 1.0, a(K - 2), a(K - 3)))
    return where(upwards, below, above)


@gtx.field_operator
def carried(courant: CK, mass: CK, mean: CK, slope: CK, curvature: CK, dt: float) -> CK:
    upwards = courant > 0.0
    whole = floor(abs(courant))
    rest = abs(courant) - whole
    side = where(upwards, 1.0, -1.0)
    parabola = (
        part_of(upwards, whole, mean)
        + side * 0.5 * part_of(upwards, whole, slope) * (1.0 - rest)
        - part_of(upwards, whole, curvature) * (1.0 - 3.0 * rest + 2.0 * rest * rest)
    )
    return side * part_of(upwards, whole, mass) * rest * parabola / dt


@gtx.program(grid_type=gtx.GridType.UNSTRUCTURED)
def parabolas(
    courant: CK, mass: CK, mean: CK, slope: CK, curvature: CK, flux: CK, dt: float, levels: gtx.int32, cells: gtx.int32
):  # fmt: skip
    carried(
        courant, mass, mean, slope, curvature, dt, out=flux, domain={Cell: (0, cells), K: (3, levels - 2)}
    )  # fmt: skip


# Microphysics: condensation, conversion to rain and snow, melting, and what falls, from the top


@gtx.scan_operator(axis=K, forward=True, init=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
def falling(
    state: tuple[float, float, float, float, float, float], t: float, cloud: float, rain: float, snow: float,
    rho: float, depth: float, dt: float,
) -> tuple[float, float, float, float, float, float]:  # fmt: skip
    converted = minimum(cloud, dt * (0.001 * maximum(cloud - 0.0005, 0.0) + 2.2 * cloud * rho * (rain + state[3])))
    cold = t < 273.15
    frozen = converted * (1.0 - exp(0.09 * (t - 273.15))) if cold else 0.0
    melted = 0.0 if cold else snow * (1.0 - exp(0.1 * (273.15 - t)))
    new_rain = rain + converted - frozen + melted
    new_snow = snow + frozen - melted
    speed = 12.0 * exp(0.125 * sqrt(minimum(rho * new_rain, 1.0)))
    fall = dt * speed / depth
    rain_left = (new_rain + state[0] * dt / (rho * depth)) / (1.0 + fall)
    snow_left = (new_snow + state[1] * dt / (rho * depth)) / (1.0 + 0.2 * fall)
    return (
        rain_left * speed * rho, 0.2 * snow_left * speed * rho, cloud - converted, rain_left, snow_left,
        t + 2500.8 * converted / 1.005 + 333.7 * (frozen - melted) / 1.005,
    )  # fmt: skip


@gtx.field_operator
def several_species(
    t: CK, vapour: CK, cloud: CK, rain: CK, snow: CK, rho: CK, depth: CK, dt: float
) -> tuple[CK, CK, CK, CK, CK, CK]:
    saturated = 0.622 * 610.78 * exp(17.27 * (t - 273.16) / (t - 35.86)) / (rho * 287.04 * t)
    condensed = maximum(0.0 - cloud, (vapour - saturated) / (1.0 + 5420.0 * saturated / t))
    warm = t + 2488.4 * condensed
    fallen_rain, fallen_snow, new_cloud, new_rain, new_snow, new_t = falling(
        warm, cloud + condensed, rain, snow, rho, depth, dt
    )
    return new_t, vapour - condensed, new_cloud, new_rain, new_snow, fallen_rain + fallen_snow


@gtx.program(grid_type=gtx.GridType.UNSTRUCTURED)
def microphysics(
    t: CK, vapour: CK, cloud: CK, rain: CK, snow: CK, rho: CK, depth: CK, new_t: CK, new_vapour: CK, new_cloud: CK,
    new_rain: CK, new_snow: CK, fallen: CK, dt: float, levels: gtx.int32, cells: gtx.int32,
):  # fmt: skip
    several_species(
        t, vapour, cloud, rain, snow, rho, depth, dt, out=(new_t, new_vapour, new_cloud, new_rain, new_snow, fallen),
        domain={Cell: (0, cells), K: (0, levels)},
    )  # fmt: skip


# Fields


@dataclass(frozen=True)
class Mesh:
    """A closed mesh in which neighbours are near in memory: three edges for two cells, six for a vertex."""

    cells: int
    levels: int

    @property
    def sizes(self) -> dict[str, int]:
        return {"cells": self.cells, "edges": 3 * self.cells // 2, "vertices": self.cells // 2}

    def provider(self) -> dict[str, Any]:
        """The tables."""
        rng = np.random.default_rng(3)

        def table(offset: Any, rows: int, slots: int, targets: int) -> Any:
            near = np.arange(rows)[:, None] * targets // rows + rng.integers(-40, 41, (rows, slots))
            return gtx.as_connectivity([*offset.target], offset.source, (near % targets).astype(np.int32))

        n = self.sizes
        return {
            "C2E": table(C2E, n["cells"], 3, n["edges"]),
            "E2C2V": table(E2C2V, n["edges"], 4, n["vertices"]),
            "V2E": table(V2E, n["vertices"], 6, n["edges"]),
        }


@dataclass(frozen=True)
class Case:
    """A program, the range of each of its fields, and its numbers; results have no range."""

    program: Any
    ranges: dict[str, tuple[float, float] | None]
    numbers: dict[str, float]

    def arguments(self, mesh: Mesh, allocator: Any = None) -> dict[str, Any]:
        """Fields with numbers of their ranges, as an allocator lays them, and the sizes."""
        rng = np.random.default_rng(1)
        sizes = {**mesh.sizes, "levels": mesh.levels}
        extents = {
            Cell: sizes["cells"], Edge: sizes["edges"], Vertex: sizes["vertices"], K: mesh.levels + 1, C2EDim: 3,
            E2C2VDim: 4, V2EDim: 6,
        }  # fmt: skip
        found: dict[str, Any] = {}
        for name, kind in self.program.past_stage.past_node.type.definition.pos_or_kw_args.items():
            if name in self.ranges:
                low, high = self.ranges[name] or (0.0, 0.0)
                domain = gtx.domain({d: extents[d] for d in kind.dims})
                found[name] = gtx.as_field(domain, rng.uniform(low, high, domain.shape), allocator=allocator)
            else:
                found[name] = self.numbers[name] if name in self.numbers else sizes[name]
        return found

    @property
    def results(self) -> list[str]:
        return [name for name, ends in self.ranges.items() if ends is None]


def _case(program: Any, ranges: dict[str, tuple[float, float]], results: str, **numbers: float) -> Case:
    return Case(program, {**ranges, **dict.fromkeys(results.split())}, numbers)


_UNIT = (0.5, 2.0)


def _alike(names: str, ends: tuple[float, float] = _UNIT) -> dict[str, tuple[float, float]]:
    return dict.fromkeys(names.split(), ends)


CASES: dict[str, Case] = {
    "implicit solver": _case(
        solver,
        {
            **_alike("w tendency", (-1.0, 1.0)), **_alike("rho rho_half"), **_alike("exner", (0.5, 1.0)),
            **_alike("theta theta_half", (280.0, 400.0)), **_alike("buoyancy", (-1e-3, 1e-3)),
            **_alike("thickness half_thickness", (200.0, 600.0)), **_alike("mass_flux", (-1e-3, 1e-3)),
            **_alike("heat_flux", (-0.3, 0.3)), **_alike("geometry", (-1.0, 1.0)), **_alike("weight", (0.4, 0.6)),
            **_alike("damping", (0.9, 1.0)),
        },
        "new_w new_rho new_exner new_theta", dt=10.0,
    ),
    "reconstruction at vertices": _case(reconstruction, _alike("along first second"), "u v"),
    "diffusion by shear": _case(
        diffusion,
        _alike("u v wind x y across_x across_y inverse_length inverse_width sign factor limit"),
        "limited coefficient laplacian", offset=0.1,
    ),
    "flux of parabolas": _case(
        parabolas, {**_alike("courant", (-2.9, 2.9)), **_alike("mass mean slope curvature")}, "flux", dt=10.0,
    ),
    "microphysics": _case(
        microphysics,
        {
            **_alike("t", (230.0, 300.0)), **_alike("vapour", (0.0, 0.02)), **_alike("cloud rain snow", (0.0, 2e-3)),
            **_alike("rho", (0.3, 1.2)), **_alike("depth", (100.0, 500.0)),
        },
        "new_t new_vapour new_cloud new_rain new_snow fallen", dt=30.0,
    ),
}  # fmt: skip
