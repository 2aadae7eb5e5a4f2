"""Fusion: a program parted into regions, each of them one kernel, by one model of what they cost.

A region begins with what is in memory and ends with what is stored: results of the program, what XLA's own operations
read, and what is cheaper to store than to compute again at each of the positions at which it is read. Results of about
one shape that read the same arrays are one kernel; so are scans over the same columns of which one reads the states of
another. What reads each array at one position alone, and at no index, is XLA's, which moves the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from lowering.kernels.equations import MOVING, NATIVE, Operand, Unplaced, folded, gathered, is_fusible
from lowering.kernels.instances import Instances, TooMany, instances_of
from lowering.kernels.layouts import turned
from lowering.kernels.positions import Index, Position, identity
from lowering.kernels.program import (
    Program,
    Variable,
    flattened,
    inner_programs,
    program_of,
    shape_of,
    variables,
    without_barriers,
)
from lowering.kernels.stages import NoPieces, Staged, folds_rows, follows, inner_instances, row_bytes, stage_of
from lowering.kernels.sweeps import Sweep, swept
from lowering.kernels.vectors import LIBRARY
from tensorir.runtime.memory import remembered

STORED = 80
"""Additions of a point that take as long as to write an element and to read it again, on an H100: its memory moves a
byte of float64, or two of float32, in the time of five additions."""
STORED_NEAR, NEAR = 20, 1 << 14
"""The same in a ring of rows of at most so many bytes, which the first cache holds."""
MOST_INSTANCES = 400
"""Variables at positions that one kernel computes: more would not stay in registers, and compile slowly."""


MOST_IN_GRID = 1600
"""The same of all pieces of a stage, on CPUs."""
LARGEST = 16
"""One point in so many may be computed for some of the results of a kernel only."""


FUSED = 16
"""XLA's own equations have at most one element in so many of a program whose stencils are kernels: it fuses them."""


SHORT = 4
"""Points of a row from which on reads at indices are faster in kernels."""


@dataclass(slots=True)
class Grid:
    """A kernel over the points of its results: all that the largest has along each axis."""

    results: list[Variable]
    instances: Instances
    level: int

    @property
    def shape(self) -> tuple[int, ...]:
        return _largest_extents(shape_of(v) for v in self.results)

    @property
    def reads(self) -> list[Variable]:
        return list(self.instances.loads)

    def fits(self, v: Variable) -> bool:
        """True if v has the rank of the results, and at most one point in `LARGEST` would be computed for one of
        them only.
        """
        if len(shape_of(v)) != len(self.shape):
            return False
        points = prod(_largest_extents([self.shape, shape_of(v)]))
        return points * LARGEST <= (LARGEST + 1) * min(prod(shape_of(x)) for x in (v, *self.results))


@dataclass(slots=True)
class Swept:
    """A kernel over columns, in which scans run one after the other."""

    sweeps: list[Sweep]
    instances: list[Instances]
    """Per sweep, what is computed around its step."""
    level: int
    after: list[dict[Variable, Instances]] = field(default_factory=list[dict[Variable, Instances]])
    """Per sweep, results that are computed level by level of its own."""
    axis: dict[Variable, int] = field(default_factory=dict[Variable, int])
    """The axis of such a result that has the levels, where it is not the first."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sweeps[0].columns

    def place(self, v: Variable) -> Position:
        """The position of the kernel's own column and level in the result v."""
        column, axis = identity(len(self.shape)), self.axis.get(v, 0)
        return (*column[:axis], Index(len(column), 1, 0), *column[axis:])

    @property
    def defines(self) -> list[Variable]:
        return [v for s, rest in zip(self.sweeps, self.after, strict=True) for v in (*s.equation.outvars, *rest)]

    @property
    def loads(self) -> list[Variable]:
        """The variables that are loaded, its own results among them; a sweep loads nothing of its own current level."""
        around = [v for i in self.instances for v in i.loads]
        for sweep, results in zip(self.sweeps, self.after, strict=True):
            defined = sweep.equation.outvars
            around += [v for i in results.values() for v in i.loads if v not in defined]
        return list(dict.fromkeys(around))

    @property
    def reads(self) -> list[Variable]:
        defined = set(self.defines)
        return [v for v in self.loads if v not in defined]


@dataclass(slots=True)
class Left:
    """Equations that XLA runs."""

    equations: list[int]
    level: int
    why: str


Region = Grid | Swept | Staged | Left


@dataclass(slots=True)
class Parts:
    """A program in regions, in an order in which they can run."""

    program: Program
    regions: list[Region] = field(default_factory=list[Region])
    native: bool = False
    """Kernels are those for CPUs, which keep what only they read in a cache."""

    @property
    def kernels(self) -> list[Grid | Swept | Staged]:
        return [r for r in self.regions if not isinstance(r, Left)]

    @property
    def any_kernels(self) -> bool:
        """True if there is one, also in what loops of XLA run."""
        inner = (closed for e in self.left for closed in inner_programs(e))
        return bool(self.kernels) or any(parted(closed, self.native).any_kernels for closed in inner)

    @property
    def left(self) -> list[JaxprEqn]:
        """The equations that are XLA's."""
        return [self.program.equations[k] for r in self.regions if isinstance(r, Left) for k in r.equations]

    def results_of(self, region: Grid | Swept | Staged) -> list[Variable]:
        """The variables that a kernel stores: its results, or those of its scans that others, or its later scans,
        read.
        """
        if isinstance(region, Grid):
            return region.results
        read_elsewhere = set(variables((*self.program.results, *(v for e in self.left for v in e.invars))))
        if isinstance(region, Swept) and not self.native:
            read_elsewhere.update(region.loads)
        read_elsewhere.update(v for r in self.kernels if r is not region for v in r.reads)
        return [v for v in region.defines if v in read_elsewhere]


@remembered("programs in kernels", limit=64)  # each is asked for where it is bound, derived and lowered
def parted(closed: ClosedJaxpr, native: bool = False) -> Parts:
    """The regions of a program; for kernels on CPUs if `native`, where only scans are kernels unless those of
    stencils pay. Cached.

    >>> import jax
    >>> parts = parted(jax.make_jaxpr(lambda x: x[2:] - 2 * x[1:-1] + x[:-2])(jax.numpy.zeros(99)))
    >>> [(r.shape, len(r.reads)) for r in parts.kernels]
    [((97,), 1)]
    """
    flat = flattened(closed)
    if not native:
        return _Choice(program_of(turned(flat)), False).parts()
    parts = staged(flat)
    return parts if pays(parts) else _Choice(program_of(flat), True).parts()


def staged(flat: ClosedJaxpr) -> Parts:
    """A flat program whose stencils are stages of kernels for CPUs, one after the other or behind each other."""
    return _Choice(program_of(without_barriers(flat)), True, grids=True).parts()


def pays(parts: Parts) -> bool:
    """True if kernels of stencils are faster than XLA: something is read at several offsets, and XLA has little left
    to fuse.

    False, too, for rows shorter than `SHORT` that are read through tables.
    """
    stages = [s for r in parts.regions if isinstance(r, Staged) for s in r.stages.values()]
    moves = any(len(at) > 1 for s in stages for at in s.loads.values()) or any(len(s.pieces) > 1 for s in stages)
    points = max((prod(s.shape) for s in stages), default=0)
    if any(s.shape[-1] < SHORT and s.gathers for s in stages):
        return False  # of each row of a table's source a kernel reads a vector
    # what XLA computes or folds besides is small: it would fuse it with stencils
    moved = MOVING | {"dynamic_slice", "dynamic_update_slice", "ppermute", "pvary"}
    left = [v for e in parts.left if e.primitive.name not in moved for v in (*e.invars, *e.outvars)]
    return moves and all(prod(shape_of(v)) * FUSED <= points for v in left)


class _Gather(NamedTuple):
    """Reads of an array at indices, along an axis of it, which is one of the result."""

    indices: Any
    axes: tuple[int, int] | None


@dataclass(slots=True)
class _Choice:
    """The state of one choice."""

    program: Program
    native: bool
    grids: bool = False
    """Stencils are kernels for CPUs."""
    sweeps: dict[int, Sweep] = field(default_factory=dict[int, Sweep])
    stored: set[Variable] = field(default_factory=set[Variable])
    levels: dict[Variable, int] = field(default_factory=dict[Variable, int])
    sizes: dict[Variable, int] = field(default_factory=dict[Variable, int])
    """Least number of instances that compute a variable."""
    left: dict[int, str] = field(default_factory=dict[int, str])
    """Equations that no kernel computes, and why."""

    def parts(self) -> Parts:
        """The program in regions, in an order in which they can run.

        Decides, in this order: which scans are kernels and which equations are left to XLA, which variables are stored,
        the regions of what is stored, and on CPUs (`grids`) the stages that stencils join.
        """
        program = self.program
        self.stored.update(variables(program.results))
        for k, e in enumerate(program.equations):
            if (sweep := swept(e, self.native)) is not None:
                self.sweeps[k] = sweep
            elif self.grids and folds_rows(e):
                pass
            elif not is_fusible(e, self.native):
                inside = sum(len(parted(closed, self.native).kernels) for closed in inner_programs(e))
                self.left[k] = (
                    f"what it runs has {inside} kernel{'s' if inside > 1 else ''}" if inside else e.primitive.name
                )
                self.stored.update(variables(e.invars))
            else:
                continue
            self.stored.update(e.outvars)
        if self.native:
            self._store_what_is_turned()
        self._store_what_is_dear()
        regions = sorted(self._regions(), key=lambda r: r.level)
        return Parts(program, self._in_order(self._staged(regions)) if self.grids else regions, self.native)

    # Stages

    def _staged(self, regions: Iterable[Region]) -> list[Region]:
        """The regions, in which each stencil left to XLA joins the last staged kernel that it may (`_with_stage`).

        A region must not join a kernel if it reads something that waits for that kernel; `behind` has these variables.
        """
        joined, behind = list[Region](), dict[int, set[Variable]]()
        for region in regions:
            region_or_stage = self._with_stage(joined, behind, region) if isinstance(region, Left) else region
            if all(region_or_stage is not r for r in joined):
                joined.append(region_or_stage)
            reads, defines = set(self._reads(region_or_stage)), set(self._defines(region_or_stage))
            index = next(n for n, r in enumerate(joined) if r is region_or_stage)
            for n, other in enumerate(joined):
                waits = isinstance(other, Staged) and not (
                    reads.isdisjoint(other.stages) and reads.isdisjoint(behind.get(n, ()))
                )
                if waits and n != index:
                    behind.setdefault(n, set()).update(defines, behind.get(index, ()))
        return joined

    def _with_stage(self, joined: Sequence[Region], behind: Mapping[int, set[Variable]], left: Left) -> Staged | Left:
        """The staged kernel that the last equation of `left` joins as a stage, or a new one; `left` itself if it is
        no stencil.

        `joined`: the regions so far. `behind`: per number of one, the variables that wait for it. Functions of the C
        library stay with XLA, which has vectors for them.
        """
        e = self.program.equations[left.equations[-1]]
        if left.equations[-1] in self.left:
            return left
        try:
            stage = stage_of(self.program, e, self.stored)
        except NoPieces:
            return left
        if len(stage.shape) < 2 or 0 in stage.shape:
            return left
        names = {self.program.equations[k].primitive.name for piece in stage.pieces for k in piece.instances.computed}
        if names & LIBRARY:
            return left  # XLA has vectors for them
        for n, region in reversed(list(enumerate(joined))):
            if isinstance(region, Staged) and not stage.loads.keys() & behind.get(n, set()) and follows(region, stage):
                region.stages[e.outvars[0]] = stage
                return region
        return Staged({e.outvars[0]: stage}, 1)

    def _reads(self, region: Region) -> Iterable[Variable]:
        """The variables that a region reads and does not compute."""
        if isinstance(region, Left):
            equations = [self.program.equations[k] for k in region.equations]
            inner = {v for e in equations for v in e.outvars}
            return [v for e in equations for v in variables(e.invars) if v not in inner]
        return region.reads

    def _defines(self, region: Region) -> Iterable[Variable]:
        """The variables that a region stores, or may store."""
        match region:
            case Left(equations):
                return [v for k in equations for v in self.program.equations[k].outvars if v in self.stored]
            case Grid(results):
                return results
            case _:
                return region.defines

    def _in_order(self, regions: Sequence[Region]) -> list[Region]:
        """The regions in a topological order of their reads."""
        region_of, pending, order = dict[Variable, int](), list(enumerate(regions)), list[Region]()
        for k, region in pending:
            region_of.update((v, k) for v in self._defines(region))
        predecessors = {k: {region_of[v] for v in self._reads(r) if v in region_of} - {k} for k, r in pending}
        while pending:
            ready = [k for k, _ in pending if not predecessors[k] & {n for n, _ in pending}]
            assert ready, "regions wait for each other"
            order += [r for k, r in pending if k in ready]
            pending = [(k, r) for k, r in pending if k not in ready]
        return order

    # What is stored

    def _store_what_is_turned(self) -> None:
        """Store transposes of the results of scans: a kernel writes levels in any layout."""
        swept_values = {v for k in self.sweeps for v in self.program.equations[k].outvars}
        for k, e in enumerate(self.program.equations):
            if k not in self.sweeps and k not in self.left and not swept_values.isdisjoint(variables(e.invars)):
                swept_values.update(e.outvars)
                if e.primitive.name == "transpose":
                    self.stored.update(e.outvars)

    def _store_what_is_dear(self) -> None:
        """Store the values that are read at several positions and cost more to compute again at each than to store.

        Goes in the order of the program, so that the operands of a value are decided before it. The cost is the weight
        of the instances, in additions per point, times the readers beyond the first.
        """
        views_of = self._views()
        size = self.sizes
        for k, e in enumerate(self.program.equations):
            if k in self.sweeps or k in self.left or (self.grids and e.outvars[0] in self.stored):
                continue
            (v,) = e.outvars
            size[v] = 1 + folded(e) * sum(size.get(x, 1) for x in self._inlined(e))
            views = views_of.get(v, {})
            if size[v] <= self._most and (len(views) < 2 or v in self.stored):
                continue
            inlined = self._shortened(e)
            size[v] = inlined.count
            limit = STORED
            if self.grids:
                # at the ends of axes there are few points
                inlined = inner_instances(self.program, v, self.stored, inlined)
                near = row_bytes(v) <= NEAR and not any(isinstance(x, _Gather) for x in views)
                limit = STORED_NEAR if near else STORED
            if inlined.weight(self.program) * (sum(views.values()) - 1) > limit:
                self.stored.add(v)

    def _shortened(self, e: JaxprEqn) -> Instances:
        """The instances of a kernel of one result, after storing the largest of its operands until they are few
        enough.
        """
        while True:
            try:
                return self._instances(e.outvars)
            except TooMany:
                self.stored.add(max(self._inlined(e), key=lambda x: self.sizes.get(x, 1)))

    def _views(self) -> dict[Variable, dict[Any, float]]:
        """Per variable, the views of its readers (a slice, a gather, an operand of XLA), each with the points read
        for each of its own.
        """
        views: dict[Variable, dict[Any, float]] = {}
        for k, e in enumerate(self.program.equations):
            name = e.primitive.name
            for place, v in enumerate(e.invars):
                if isinstance(v, Literal) or not shape_of(v):
                    continue
                view: Any = "itself"
                points = 1.0
                if name == "slice":
                    view = (e.params["start_indices"], e.params["strides"])
                elif name == "gather" and place == 0:
                    view = _Gather(e.invars[1], gathered(e))
                    points = prod(shape_of(e.outvars[0])) / max(1, prod(shape_of(v))) if self.grids else points
                elif name not in NATIVE and k not in self.sweeps:
                    view = (k, place)
                if self.grids and folds_rows(e):
                    view, count = "itself", 1
                else:
                    count = folded(e)
                views.setdefault(v, {})[view] = points
                views[v].update(((k, n), 1.0) for n in range(1, count))
        return views

    def _instances(self, results: Sequence[Variable]) -> Instances:
        """The instances of a kernel of `results`; stores the variables that cannot be computed on a box of points
        (`Unplaced`).
        """
        while True:
            values = [self._folded(v) for v in results]
            roots = [Operand(v, identity(len(shape_of(v))), tuple((0, n) for n in shape_of(v))) for v in values]
            try:
                return instances_of(self.program, roots, self.stored, self._most, results)
            except Unplaced as unplaced:
                self.stored.add(unplaced.variable)

    @property
    def _most(self) -> int:
        return MOST_IN_GRID if self.grids else MOST_INSTANCES

    def _folded(self, v: Variable) -> Variable:
        """The value that is computed point by point for v: the operand of a fold of rows, else v itself."""
        e = self.program.equations[self.program.maker[v]]
        return e.invars[0] if self.grids and folds_rows(e) else v

    # Regions

    def _regions(self) -> list[Region]:
        """The regions of what is stored, in the order of the program: sweeps, equations left to XLA, and results
        (`_add_result`).
        """
        regions: list[Region] = []
        # what is stored while instances are looked for is made before what asks for it
        instances_of_sweep = {k: self._sweep_instances(s) for k, s in self.sweeps.items()}
        instances_of_result: dict[int, Instances] = {}
        for k in reversed(range(len(self.program.equations))):
            e = self.program.equations[k]
            if k not in self.sweeps and k not in self.left and e.outvars[0] in self.stored:
                instances_of_result[k] = self._shortened(e)
        for k, e in enumerate(self.program.equations):
            if k in self.sweeps:
                self._add_sweep(regions, self.sweeps[k], instances_of_sweep[k])
            elif k in self.left:
                level = self._level(variables(e.invars))
                regions.append(Left([k], level, self.left[k]))
                self._at(e.outvars, level)
            elif k in instances_of_result:
                self._add_result(regions, e.outvars[0], instances_of_result[k])
        return regions

    def _level(self, reads: Iterable[Variable]) -> int:
        return 1 + max((self.levels.get(v, 0) for v in reads), default=0)

    def _at(self, defined: Iterable[Variable], level: int) -> None:
        self.levels.update((v, level) for v in defined)

    def _add_result(self, regions: list[Region], v: Variable, instances: Instances) -> None:
        """Add the computation of a stored value to the regions: to a sweep, to a grid that it fits, or as a region
        of its own.

        It is left to XLA on CPUs, and where each operand is read at one position only. Grids share a kernel if they are
        of one level and shape and read the same array.
        """
        if any(isinstance(region, Swept) and self._joins(region, v) for region in reversed(regions)):
            return
        if self.native or not instances.moves:
            equations = self._behind(v)
            level = self._level(x for k in equations for x in variables(self.program.equations[k].invars))
            self._at([v], level)
            why = "as fast as memory" if self.native else "moves no more bytes than its operands have"
            regions.append(Left(equations, level, why))
            return
        level = self._level(instances.loads)
        self._at([v], level)
        for region in regions:
            if not isinstance(region, Grid) or region.level != level or not region.fits(v):
                continue
            if instances.loads.keys() & region.instances.loads.keys():
                try:
                    joint_instances = self._instances([*region.results, v])
                except TooMany:
                    continue
                region.results.append(v)
                region.instances = joint_instances
                return
        regions.append(Grid([v], instances, level))

    def _behind(self, v: Variable) -> list[int]:
        """The equations that compute a variable from stored ones, in the order of the program."""
        stack, equations = [self.program.maker[v]], set[int]()
        while stack:
            k = stack.pop()
            if k not in equations:
                equations.add(k)
                makers = (self.program.maker.get(x) for x in self._inlined(self.program.equations[k]))
                stack += [m for m in makers if m is not None]
        return sorted(equations)

    def _inlined(self, e: JaxprEqn) -> Iterable[Variable]:
        return (x for x in variables(e.invars) if x not in self.stored)

    def _sweep_instances(self, sweep: Sweep) -> Instances:
        """The instances that a sweep reads from the program around its step; operands that are too many, or
        unplaced, are stored.
        """
        while True:
            try:
                return instances_of(self.program, [*sweep.reads, *sweep.begins], self.stored, MOST_INSTANCES)
            except Unplaced as wrong:
                self.stored.add(wrong.variable)
            except TooMany:
                self.stored.update(variables(o.value for o in (*sweep.reads, *sweep.begins)))

    def _add_sweep(self, regions: list[Region], sweep: Sweep, instances: Instances) -> None:
        """Add a sweep to the last kernel over the same columns that it follows (`_follows`), else as a kernel of its
        own.
        """
        for region in reversed(regions):
            if isinstance(region, Swept) and region.shape == sweep.columns and self._follows(region, instances):
                region.sweeps.append(sweep)
                region.instances.append(instances)
                region.after.append({})
                self._at(sweep.equation.outvars, region.level)
                return
        level = self._level(instances.loads)
        regions.append(Swept([sweep], [instances], level, [{}]))
        self._at(sweep.equation.outvars, level)

    def _joins(self, region: Swept, v: Variable) -> bool:
        """True if v, a result with a level for each of the last sweep, is computed in its loop; it is then added to
        `region`.

        It must read of that sweep the current level only, and of the region's other results its own column.
        """
        sweep, shape = region.sweeps[-1], shape_of(v)
        for axis in range(len(shape) if self.native else 1):
            if shape != (*region.shape[:axis], sweep.length, *region.shape[axis:]):
                continue
            region.axis[v] = axis
            try:
                operands = [Operand(v, region.place(v), sweep.box)]
                instances = instances_of(self.program, operands, self.stored, MOST_INSTANCES, [v])
            except (TooMany, Unplaced):
                continue
            read_of_sweep = {*sweep.equation.outvars, *region.after[-1]} & instances.loads.keys()
            if not read_of_sweep or not self._is_own_column(region, instances):
                continue
            if all(at == region.place(x) for x in read_of_sweep for at in instances.loads[x]):
                region.after[-1][v] = instances
                self._at([v], region.level)
                return True
        region.axis.pop(v, None)
        return False

    def _is_own_column(self, region: Swept, instances: Instances) -> bool:
        """True if, of the region's results, only the own column is loaded, and all other loads are made before the
        region.

        On CPUs also only the current level, or a fixed one.
        """
        defined, column = set(region.defines), identity(len(region.shape))
        for v, asked in instances.loads.items():
            if v not in defined and self.levels.get(v, 0) >= region.level:
                return False
            axis = region.axis.get(v, 0) if len(shape_of(v)) > len(column) else len(column)
            if v in defined and any((*position[:axis], *position[axis + 1 :]) != column for position in asked):
                return False
            levels = {i.symbol for position in asked for i in position[axis : axis + 1]} if v in defined else set()
            if self.native and not levels <= {None, len(column)}:
                return False
        return True

    def _follows(self, region: Swept, instances: Instances) -> bool:
        """True if a sweep may run behind the region's: it reads results of it, and of these its own column alone."""
        return bool(set(region.defines) & instances.loads.keys()) and self._is_own_column(region, instances)


def _largest_extents(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(max, zip(*shapes, strict=True)))
