"""Reports of regions for a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from lowering.kernels.program import Variable, element_of, shape_of
from lowering.kernels.regions import Grid, Left, Parts, Swept
from lowering.kernels.stages import Reach, Staged

TURNED = "once for all that read it so, and no other layout turns fewer bytes"


@dataclass(frozen=True, slots=True)
class RegionReport:
    """A region in words."""

    kind: str
    """"grid", "sweep", "stages", or "XLA" for what is in no kernel."""
    what: str
    where: str
    taken: bool
    why: str
    bytes: int
    """Of the arrays that it stores, and that are no result of the program."""


def reports_of(parts: Parts, names: list[str]) -> list[RegionReport]:
    """The regions of a program as reports, kernels first; `names` has one name for each array of the program's
    results.

    >>> import jax
    >>> from lowering.kernels.regions import parted
    >>> closed = jax.make_jaxpr(lambda x: x[2:] - 2 * x[1:-1] + x[:-2])(jax.numpy.zeros(99))
    >>> [(t.what, t.where) for t in reports_of(parted(closed), ["y"])]
    [('1 read, 1 written: 97 points', 'of y')]
    """
    called = dict(zip(parts.program.results, names, strict=False))
    return [*(_report_of_kernel(parts, region, called) for region in parts.kernels), *_reports_of_xla(parts, called)]


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The kernels of a step of a time loop, and what of it is XLA's."""

    steps: int
    """Steps that are one kernel."""
    regions: tuple[RegionReport, ...] | None
    """None where a step is not parted as a whole: the programs in it have kernels of their own, or none."""

    def __str__(self) -> str:
        """The regions, one a line, and how many steps a kernel computes."""
        if self.regions is None:
            return "a step is XLA's, with the kernels of the programs in it: their plans have those"
        rows = [f"{t.kind:8}{t.what}; {t.why}" for t in self.regions]
        together = (
            f"{self.steps} steps are one kernel, two of them a round" if self.steps > 1 else "two steps are a round"
        )
        return "\n".join([*rows, f"{together}: no state is copied"])


def _report_of_kernel(parts: Parts, region: Grid | Swept | Staged, called: dict[Variable, str]) -> RegionReport:
    """The report of a kernel; `called` has the names of results."""
    results = parts.results_of(region)
    what = f"{len(region.reads)} read, {len(results)} written: {' × '.join(map(str, region.shape))}"
    match region:
        case Grid():
            kind, what, why = "grid", f"{what} points", "each array is read once, and its neighbours from the cache"
        case Swept():
            steps = " + ".join(str(s.length) for s in region.sweeps)
            kind, what, why = "sweep", f"{what} columns, {steps} steps", "states stay in registers from step to step"
        case Staged(stages):
            rings = sum(Reach(region, results).held.values())
            rings_text = f", {len(stages)} stages in rings of {-(-rings // 1024)} KiB" if rings else ""
            kind, what, why = "stages", f"{what} points{rings_text}", "each array is read once, and stages from a cache"
    size = sum(prod(shape_of(v)) * element_of(v).itemsize for v in results if v not in called)
    return RegionReport(kind, what, _location(results, called), True, why, size)


def _location(variables: list[Variable], called: dict[Variable, str]) -> str:
    names = dict.fromkeys(called[v] for v in variables if v in called)
    return f"of {', '.join(names)}" if names else "in between"


def _reports_of_xla(parts: Parts, called: dict[Variable, str]) -> Iterator[RegionReport]:
    """The reports of the regions that XLA runs; transpositions get the bytes that they store."""
    for region in parts.regions:
        if isinstance(region, Left):
            last = parts.program.equations[region.equations[-1]]
            where, (v, *_) = _location(list(last.outvars), called), last.outvars
            if last.primitive.name == "transpose":
                size = 0 if v in called else prod(shape_of(v)) * element_of(v).itemsize
                yield RegionReport(
                    "XLA", f"turned by XLA: {' × '.join(map(str, shape_of(v)))}", where, False, TURNED, size
                )
            else:
                yield RegionReport("XLA", f"{last.primitive.name} is XLA's", where, False, region.why, 0)
