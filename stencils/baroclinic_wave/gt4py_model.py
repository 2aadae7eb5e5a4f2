"""A global atmosphere on an icosahedral mesh, stepped by programs of GT4Py: its constants, its state, one step."""

# what GT4Py exports has no types that are known here
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportIndexIssue=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gt4py.next as gtx
import numpy as np

from stencils.baroclinic_wave import gt4py_programs as programs
from stencils.baroclinic_wave import initial
from stencils.baroclinic_wave.gt4py_programs import OFFSETS, Cell, Edge, K, Vertex
from stencils.baroclinic_wave.staggering import tangential
from stencils.data.sphere import ROTATION
from stencils.meshes import Mesh

PRESSURE = 1.0e5
"""Surface pressure at the start in Pa."""


@dataclass
class State:
    """Velocities along edges (Edge, K) in m/s, temperature (Vertex, K) in K, surface pressure (Vertex, K) in Pa."""

    u: Any
    t: Any
    p: Any


class Atmosphere:
    """The model on a mesh with equally thick levels; `step` takes its state a time step on.

    `backend` is one of GT4Py, None for its embedded mode; `diffusivity` is that of the biharmonic smoothing in m⁴/s.
    """

    def __init__(self, mesh: Mesh, levels: int, backend: Any, *, diffusivity: float = 5.0e15) -> None:
        self.mesh, self.levels, self.backend, self.diffusivity = mesh, levels, backend, diffusivity
        self.programs = {p.__name__: p.with_backend(backend) for p in programs.PROGRAMS}
        g = mesh.geometry
        edges, weights = tangential(mesh)
        tables = {**mesh.tables, "E2E": edges}
        self.tables = {
            name: gtx.as_connectivity([*offset.target], offset.source, tables[name], skip_value=-1)
            for name, offset in OFFSETS.items()
        }
        half = np.linspace(0.0, 1.0, levels + 1)
        self.middle = 0.5 * (half[1:] + half[:-1])
        ratio = np.append(0.0, np.log(half[2:] / half[1:-1]))
        alpha = 1.0 - half[:-1] / np.diff(half) * ratio
        alpha[0] = np.log(2.0)
        outward, turn, around = mesh.signs["V2E"], mesh.signs["C2E"], weights
        self.face, self.length = self.on(Edge, g.dual_edge_length), self.on(Edge, g.edge_length)
        self.area, self.triangle = self.on(Vertex, g.vertex_area), self.on(Cell, g.cell_area)
        self.coriolis = self.on(Edge, 2 * ROTATION * np.sin(np.radians(g.edge_lat)))
        self.phis = self.on(Vertex, initial.surface_geopotential(g.vertex_lat))
        self.outward, self.turn = self.on((Vertex, programs.V2EDim), outward), self.on((Cell, programs.C2EDim), turn)
        self.weights = self.on((Edge, programs.E2EDim), around)
        self.thickness, self.below = self.on(K, np.diff(half)), self.on(K, half[1:])
        self.ratio, self.alpha = self.on(K, ratio), self.on(K, alpha)
        self.work = {
            name: self.on((dim, K)) for name, dim in (
                ("flux", Edge), ("falling", Vertex), ("omega", Vertex), ("phi", Vertex), ("rising", Vertex),
                ("warming", Vertex), ("acceleration", Edge),
            )
        }  # fmt: skip
        self.stages = [State(self.on((Edge, K)), self.on((Vertex, K)), self.on((Vertex, K))) for _ in range(2)]

    def on(self, dims: Any, values: Any = None) -> Any:
        """A field on these dims with a value for each point, or 0."""
        dims = dims if isinstance(dims, tuple) else (dims,)
        sizes = {**{d: self.mesh.sizes[d.value] for d in (Vertex, Edge, Cell)}, K: self.levels}
        sizes |= {
            o.target[1]: t.asnumpy().shape[1] for o, t in zip(OFFSETS.values(), self.tables.values(), strict=True)
        }
        data = np.zeros([sizes[d] for d in dims]) if values is None else np.ascontiguousarray(values, np.float64)
        return gtx.as_field(dims, data, allocator=self.backend)

    def start(self, perturbed: float = 1.0) -> State:
        """The balanced jet, and a perturbation of so many m/s."""
        g = self.mesh.geometry
        wind = initial.zonal_wind(g.edge_lat[:, None], self.middle)
        wind = wind + perturbed * initial.perturbation(g.edge_lon, g.edge_lat)[:, None]
        east = np.cross([0.0, 0.0, 1.0], g.edge_position)
        east /= np.linalg.norm(east, axis=1, keepdims=True)
        u = wind * np.einsum("ei,ei->e", east, g.edge_tangent)[:, None]
        t = initial.temperature(g.vertex_lat[:, None], self.middle)
        p = np.full(t.shape, PRESSURE)
        return State(self.on((Edge, K), u), self.on((Vertex, K), t), self.on((Vertex, K), p))

    def step(self, state: State, seconds: float) -> None:
        """Take the state a time step on, in its own fields: three stages of Runge and Kutta, and smoothing."""
        first, second = self.stages
        self.stage(state, state, seconds / 3, first)
        self.stage(state, first, seconds / 2, second)
        self.stage(state, second, seconds, first)
        self.run(
            programs.smoothing, first.u, first.t, first.p, self.length, self.face, self.area, self.outward,
            self.triangle, self.turn, self.diffusivity * seconds, state.u, state.t, state.p,
        )  # fmt: skip

    def stage(self, start: State, at: State, seconds: float, to: State) -> None:
        """`to` is `start` and the tendencies of `at` times seconds."""
        w, bottom = self.work, np.int32(self.levels - 1)
        self.run(
            programs.flow, at.u, at.t, at.p, self.phis, self.face, self.area, self.outward, self.thickness, self.below,
            self.ratio, self.alpha, w["flux"], w["falling"], w["omega"], w["phi"], w["rising"],
        )  # fmt: skip
        self.run(
            programs.thermodynamics, at.t, at.p, w["flux"], w["falling"], w["omega"], self.area, self.outward,
            self.thickness, bottom, w["warming"],
        )  # fmt: skip
        self.run(
            programs.momentum, at.u, at.t, at.p, w["falling"], w["phi"], self.coriolis, self.length, self.face,
            self.area, self.triangle, self.turn, self.weights, self.thickness, bottom, w["acceleration"],
        )  # fmt: skip
        self.run(
            programs.advance, start.u, start.t, start.p, w["acceleration"], w["warming"], w["rising"], seconds,
            to.u, to.t, to.p,
        )  # fmt: skip

    def run(self, program: Any, *args: Any) -> None:
        self.programs[program.__name__](*args, offset_provider=self.tables)
