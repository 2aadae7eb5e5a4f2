"""icon4py's stand-alone driver with the wave of Jablonowski and Williamson: set up, and stepped, on a backend.

Written for revision c7ee8e2c62; other revisions may have other names. Three things that it does there are set right:
`height_l` is passed on levels 1 to n + 1 and read on 0 to n; the tracer's vertical flux lacks its last level; the mass
fluxes of the dynamics are not those that the advection reads.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import dataclasses
import datetime
import tempfile
from pathlib import Path
from typing import Any

import gt4py.next as gtx
import numpy as np
from icon4py.model.atmosphere.advection import advection
from icon4py.model.atmosphere.diffusion import diffusion
from icon4py.model.atmosphere.dycore import solve_nonhydro
from icon4py.model.common import dimension as dims
from icon4py.model.common import initial_condition, model_backends, topography
from icon4py.model.common.decomposition import definitions as decomposition
from icon4py.model.common.grid import vertical
from icon4py.model.common.grid.geometry_config import GeometryConfig
from icon4py.model.common.initial_condition.analytical import jablonowski_williamson as wave
from icon4py.model.common.interpolation import interpolation_factory
from icon4py.model.common.metrics import metrics_attributes, metrics_factory
from icon4py.model.common.states import diagnostic_state, factory, prognostic_state, static_fields, tracer_state
from icon4py.model.common.topography.analytical import jablonowski_williamson as ground
from icon4py.model.common.utils import data_allocation
from icon4py.model.standalone_driver import config, driver_states, driver_utils, standalone_driver

__all__ = ["Run"]

PROGNOSTIC = "vn", "w", "rho", "theta_v", "exner"


def experiment(levels: int, seconds: float, steps: int) -> Any:
    high = levels > 40
    horizontal, column = advection.HorizontalAdvectionType, advection.VerticalAdvectionType
    return config.ExperimentConfig(
        geometry=GeometryConfig(),
        metrics=metrics_factory.MetricsConfig(),
        interpolation=interpolation_factory.InterpolationConfig(),
        vertical_grid=vertical.VerticalGridConfig(
            num_levels=levels,
            model_top_height=35000.0,
            rayleigh_damping_height=25000.0,
            flat_height=16000.0,
            lowest_layer_thickness=40.0 if high else 100.0,
            stretch_factor=0.9 if high else 0.85,
        ),
        topography=topography.TopographyConfig(ground.JablonowskiWilliamsonConfig()),
        initial_condition=initial_condition.InitialConditionConfig(wave.JablonowskiWilliamsonConfig()),
        nonhydrostatic=solve_nonhydro.NonHydrostaticConfig(),
        diffusion=diffusion.DiffusionConfig(),
        tracer_config=tracer_state.TracerConfig(qv=True),
        tracer_advection=advection.AdvectionConfig(
            horizontal.LINEAR_2ND_ORDER,
            advection.HorizontalAdvectionLimiter.POSITIVE_DEFINITE,
            column.PPM_3RD_ORDER,
            advection.VerticalAdvectionLimiter.SEMI_MONOTONIC,
        ),
        driver=config.DriverConfig(
            experiment_name="wave",
            profiling_stats=None,
            dtime=datetime.timedelta(seconds=seconds),
            start_of_simulation=datetime.datetime(2000, 1, 1),
            end_of_simulation=steps,
            ndyn_substeps=5,
            output_path=Path(tempfile.mkdtemp()) / "output",
        ),
    )


class _Copies:
    """Static fields of another run, copied to a backend's memory when they are asked for."""

    def __init__(self, source: Any, allocator: Any) -> None:
        self.source, self.allocator, self.kept = source, allocator, dict[str, Any]()

    def get(self, name: str, *rest: Any) -> Any:
        field = self.source.get(name, *rest)
        if rest or not hasattr(field, "ndarray"):
            return field
        if name not in self.kept:
            self.kept[name] = gtx.as_field(field.domain, np.array(field.ndarray), allocator=self.allocator)
        return self.kept[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)


class Run:
    """The driver on a grid file; with `like`, its static fields and its start are those of another run."""

    def __init__(
        self, grid: Path, levels: int, seconds: float, steps: int, backend: Any, like: Run | None = None
    ) -> None:
        experimental = experiment(levels, seconds, steps)
        processes = decomposition.get_process_properties(decomposition.get_runtype(with_mpi=False))
        allocator = model_backends.get_allocator(backend)
        manager = driver_utils.create_grid_manager(
            grid_file_path=grid,
            vertical_grid_config=experimental.vertical_grid,
            allocator=allocator,
            process_props=processes,
        )
        made, provide = driver_utils.create_static_field_factories, factory.PrecomputedFieldProvider.__init__
        if like is not None:
            of = like.driver.static_field_factories
            copies = [_Copies(f, allocator) for f in (of.geometry, of.interpolation, of.metrics)]
            driver_utils.create_static_field_factories = lambda **_: static_fields.StaticFieldFactories(*copies)

        def rebased(self: Any, fields: Any) -> None:
            if "height_l" in fields:
                height = fields["height_l"]
                on_levels = gtx.as_field(height.domain.dims, np.array(height.ndarray), allocator=allocator)
                fields = {**fields, "height_l": on_levels}
            provide(self, fields)

        factory.PrecomputedFieldProvider.__init__ = rebased
        try:
            self.driver = standalone_driver.initialize_driver(
                config=experimental, grid_manager=manager, process_props=processes, backend=backend
            )
            gtx.wait_for_compilation()
            self.state = self._state(experimental, allocator, backend, like)
        finally:
            driver_utils.create_static_field_factories = made
            factory.PrecomputedFieldProvider.__init__ = provide

    def _state(self, experimental: Any, allocator: Any, backend: Any, like: Run | None) -> Any:
        driver, grid = self.driver, self.driver.grid
        now = prognostic_state.initialize_prognostic_state(
            grid=grid, allocator=allocator, tracer_config=experimental.tracer_config
        )
        shared = {"exchange": driver.exchange, "static_fields": driver.static_field_factories}
        if like is None:
            initial_condition.create(
                config=experimental.initial_condition,
                vertical_config=experimental.vertical_grid,
                grid=grid,
                prognostic_state_now=now,
                backend=backend,
                global_reductions=driver.global_reductions,
                **shared,
            )
        else:
            for name, values in like.start.items():
                getattr(now if name in PROGNOSTIC else now.tracer, name).ndarray[...] = values
        state = driver_states.assemble_driver_states(
            grid=grid,
            allocator=allocator,
            backend=backend if like is None else like.driver.backend,
            prognostic_state_now=now,
            diagnostic_state=diagnostic_state.initialize_diagnostic_state(grid=grid, allocator=allocator),
            experiment_config=experimental,
            **shared,
        )
        dynamic = state.prep_advection_prognostic
        flux = data_allocation.zero_field(grid, dims.CellDim, dims.KDim, extend={dims.KDim: 1}, allocator=allocator)
        state = state._replace(
            tracer_advection_diagnostic=dataclasses.replace(state.tracer_advection_diagnostic, vfl_tracer=flux),
            prep_tracer_advection_prognostic=dataclasses.replace(
                state.prep_tracer_advection_prognostic,
                vn_traj=dynamic.vn_traj,
                mass_flx_me=dynamic.mass_flx_me,
                mass_flx_ic=dynamic.dynamical_vertical_mass_flux_at_cells_on_half_levels,
            ),
        )
        self.state = state
        self.start = self.fields()
        return state

    def fields(self) -> dict[str, Any]:
        """Copies of the prognostic fields and the tracers."""
        now = self.state.prognostics.current
        found = {name: np.array(getattr(now, name).ndarray) for name in PROGNOSTIC}
        return found | {t.name: np.array(t.field.ndarray) for t in now.tracer.active_fields()}

    def step(self) -> None:
        """One step of the driver: dynamics in substeps, diffusion, advection of tracers."""
        driver, state = self.driver, self.state
        clock, prognostics, tracers = driver.model_time_variables, state.prognostics, state.tracer_advection_diagnostic
        clock.advance_simulation_datetime()
        thickness = driver.static_field_factories.metrics.get(metrics_attributes.DDQZ_Z_FULL).ndarray
        tracers.airmass_now.ndarray[...] = prognostics.current.rho.ndarray * thickness
        driver._do_dyn_substepping(state.solve_nonhydro_diagnostic, prognostics, state.prep_advection_prognostic, True)
        driver.granules.diffusion.run(state.diffusion_diagnostic, prognostics.next, clock.dtime_in_seconds)
        tracers.airmass_new.ndarray[...] = prognostics.next.rho.ndarray * thickness
        for tracer in prognostics.current.tracer.active_fields():
            driver.granules.tracer_advection.run(
                diagnostic_state=tracers,
                prep_adv=state.prep_tracer_advection_prognostic,
                p_tracer_now=tracer.field,
                p_tracer_new=getattr(prognostics.next.tracer, tracer.name),
                dtime=clock.dtime_in_seconds,
            )
        prognostics.swap()
        clock.is_first_step_in_simulation = False
        driver._adjust_ndyn_substeps_var(state.solve_nonhydro_diagnostic)
