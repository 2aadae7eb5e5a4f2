"""Staggered dims, whose points lie half way between those of another.

IHalf has point i half a point before i of I. Dims of other names are told by `staggered(XC, "XG")`, or by the
attributes `axis` and `c_grid_axis_shift` of the coordinates of a call, as xgcm and MITgcm write them.

>>> half_of("IHalf"), half_way("I"), half_way("IHalf")
(Half(whole='I', shift=-0.5), 'IHalf', 'I')
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tensorir.integers.dims import Interval
from tensorir.ir.dimensions import Dimension
from tensorir.runtime.errors import refuse

HALF = "Half"
"""What the name of a dim ends in whose points lie half way between."""


@dataclass(frozen=True, slots=True)
class Half:
    """Of a staggered dim the one that it lies half way of, and how far its points lie from those of the same number."""

    whole: str
    shift: float = -0.5


_PAIR = re.compile(r"(\w+)\s*:\s*(\w+)(?:\s*\(\s*padding\s*:\s*(none|low|high|both)\s*\))?")
_OF_EDGES = re.compile(r"(edge|face)\d_dimensions")

STATED: dict[str, Half] = {}
"""The staggered dims that `staggered` was told, for the process."""

FROM_COORDINATES: ContextVar[Mapping[str, Half]] = ContextVar("staggered dims of a call's arguments")
"""Those that attributes of coordinates tell."""


def staggered(whole: Dimension, half: str | Dimension, shift: float = -0.5) -> Dimension:
    """The dim of the points half way between those of another, by its name.

    Point i lies half a point before point i of `whole`, or, with `shift=0.5`, after it. It holds for the process, and
    need not be said of a name such as XCHalf, nor of coordinates with the attributes `axis` and `c_grid_axis_shift`.
    Raises V41 for a dim that is staggered otherwise.

    >>> import numpy as np
    >>> import tensorir as ti
    >>> (XC,) = ti.dims("XC")
    >>> XG = staggered(XC, "XG")
    >>> u = ti.as_field({XG: (0, 4)}, np.array([1.0, 2.0, 4.0, 8.0]))
    >>> ti.field_operator(lambda u: u(XC + 0.5) - u(XC - 0.5))(u).data
    array([1., 2., 4.])
    """
    if not isinstance(cast("Any", whole), Dimension):
        message = f"the dim of the points is {whole!r}, a text, and the dim between may be one"
        raise refuse("V41", f"{message}.", "write ti.staggered(XC, 'XG') with XC of ti.dims.")
    stated = Half(str(whole), float(shift))
    known = {dim: other for dim in (str(half), stated.whole) if (other := half_of(dim)) not in (None, stated)}
    if known or abs(stated.shift) != 0.5 or stated.whole == str(half):
        wrong = f"points of {half} cannot lie {stated.shift:+} points from those of {whole}"
        lies = (f"those of {_lies(dim, other)}" for dim, other in known.items())
        raise refuse("V41", f"{wrong}.", f"{next(lies, 'a shift is -0.5 or 0.5')}.")
    STATED[str(half)] = stated
    return half if isinstance(half, Dimension) else Dimension(half, whole.kind)


POSITIONS = {"left": -0.5, "outer": -0.5, "right": 0.5, "inner": 0.5}
"""The words of xgcm for points half way between centres."""

MODELS: dict[str, tuple[str, float]] = {
    **{f"{x}G": (f"{x}C", -0.5) for x in "XY"}, **{f"{x}p1": (x, -0.5) for x in "XYZ"}, 
    "Zl": ("Z", -0.5), "Zu": ("Z", 0.5),
    "x_f": ("x_c", 0.5), "y_f": ("y_c", 0.5), "z_f": ("z_c", -0.5),
    "xi_u": ("xi_rho", 0.5), "eta_v": ("eta_rho", 0.5), "s_w": ("s_rho", -0.5),
}  # fmt: skip
"""The staggered dims of MITgcm, NEMO (as xnemogcm names them) and ROMS."""

SAME_POINTS = {
    **{roms: {roms: rho} for roms, rho in
       {"xi_v": "xi_rho", "eta_u": "eta_rho", "xi_psi": "xi_u", "eta_psi": "eta_v"}.items()},
    "deptht": {"x": "x_c", "y": "y_c", "deptht": "z_c"}, "depthu": {"x": "x_f", "y": "y_c", "depthu": "z_c"},
    "depthv": {"x": "x_c", "y": "y_f", "depthv": "z_c"}, "depthw": {"x": "x_c", "y": "y_c", "depthw": "z_f"},
}  # fmt: skip
"""By a dim that a file of ROMS or of NEMO has: dims of it, and the names of their points in `MODELS`."""


def c_grid(dataset: Any, coords: Mapping[str, Mapping[str, str]] | None = None) -> Any:
    """A Dataset of a C grid, of whose dims operators then know which are centres and which are edges, and of what.

    Sources are `coords` (as for `xgcm.Grid`: `{"X": {"center": "XC", "left": "XG"}}`), the attributes `axis` and
    `c_grid_axis_shift` of coordinates, a variable whose `cf_role` is "grid_topology" (SGRID), and, for dims of which
    none of these tells, the names of MITgcm, NEMO and ROMS. Dims of the same points get one name (`xi_v` of ROMS is
    `xi_rho`; `x` in a file of NEMO with `depthu` is `x_f`; edges of SGRID have that of their nodes). As with
    `ti.staggered` it holds for the process. Raises V41 where two sources differ, for a dim that is staggered otherwise,
    and for a Dataset that says nothing of any.

    >>> import numpy as np
    >>> import xarray as xr
    >>> import tensorir as ti
    >>> (XC,) = ti.dims("XC")
    >>> ds = c_grid(xr.Dataset({"U": ("XG", np.array([1.0, 2.0, 4.0, 8.0]))}))
    >>> ti.field_operator(lambda u: u(XC + 0.5) - u(XC - 0.5))(ds.U).values
    array([1., 2., 4.])
    """
    marks = [dim for dim in SAME_POINTS if dim in dataset.dims]
    if sum(dim.startswith("depth") for dim in marks) > 1:
        raise refuse("V41", "the Dataset has grids of several kinds of NEMO.", "call ti.c_grid for each file.")
    names = {dim: name for mark in marks for dim, name in SAME_POINTS[mark].items() if dim in dataset.dims}
    between, edges = _sgrid(dataset, names)
    dataset = _renamed(dataset, {**names, **edges})
    declared = {names.get(half, half): Half(names.get(axis["center"], axis["center"]), POSITIONS[at])
                for axis in (coords or {}).values() for at, half in axis.items() if at in POSITIONS}  # fmt: skip
    attributes = _of_attributes([dataset])
    known = _agreed({"coords=": declared, "the attributes of coordinates": attributes, "SGRID's topology": between})
    wholes = {half.whole for half in known.values()}
    for dim, (whole, shift) in MODELS.items():
        if dim in dataset.dims and dim not in known and dim not in wholes:
            known[dim] = Half(whole, _of_sizes(dataset.sizes, dim, whole, shift))
    if not known and not names:
        listed = ", ".join(map(str, dataset.dims))
        message = f"nothing says which of {listed} are edges."
        raise refuse("V41", message, 'say it: coords={"X": {"center": "x", "left": "x_u"}}.')
    for dim, half in known.items():
        staggered(Dimension(half.whole), dim, half.shift)
    return dataset


def _agreed(sources: Mapping[str, Mapping[str, Half]]) -> dict[str, Half]:
    """The staggered dims that sources tell, each of some; raises V41 where two of them differ."""
    known: dict[str, Half] = {}
    first: dict[str, str] = {}
    for source, stated in sources.items():
        for dim, half in stated.items():
            reverse = known.get(half.whole)
            if dim not in known and (reverse is None or reverse.whole != dim):
                known[dim], first[dim] = half, source
                continue
            other = dim if dim in known else half.whole
            if known[other] not in (half, Half(dim, -half.shift)):
                one = f"points of {_lies(dim, half)} in {source}"
                two = f"points of {_lies(other, known[other])} in {first[other]}"
                raise refuse("V41", f"{one}, and {two}.", "leave out the one that is wrong.")
    return known


def _lies(dim: str, half: Half) -> str:
    return f"{dim} lie {half.shift:+} points from those of {half.whole}"


def _renamed(dataset: Any, names: Mapping[str, str]) -> Any:
    """A Dataset whose dims of the same points have one name, and one index."""
    for dim, name in names.items():
        if dataset.sizes.get(name, dataset.sizes[dim]) != dataset.sizes[dim]:
            message = f"{dim} and {name} are the same points, and have {dataset.sizes[dim]} and {dataset.sizes[name]}"
            raise refuse("V41", f"{message} of them.", "take parts of both alike.")
        if dim in dataset.indexes and name in dataset.indexes:
            if not dataset.indexes[dim].equals(dataset.indexes[name]):
                message = f"{dim} and {name} are the same points, and their labels differ"
                raise refuse("V41", f"{message}.", f"leave those of one out: ds.drop_vars('{dim}').")
            dataset = dataset.drop_vars(dim)
        dataset = dataset.rename({dim: name})
    return dataset


def _of_sizes(sizes: Mapping[Any, int], half: str, whole: str, shift: float) -> float:
    """The shift of a dim whose centres are there too: edges are one more around them, or one fewer between them."""
    further = sizes[half] - sizes.get(whole, sizes[half])
    if abs(further) > 1:
        message = f"{half} has {sizes[half]} points, and {whole} {sizes[whole]}"
        raise refuse("V41", f"{message}, which do not lie between each other.", "take parts of both alike.")
    return {1: -0.5, -1: 0.5}.get(further, shift)


def _sgrid(dataset: Any, names: Mapping[str, str]) -> tuple[dict[str, Half], dict[str, str]]:
    """The dims of nodes between faces, and those of edges with the name of their points, as SGRID's topology says.

    `xi_rho: xi_psi (padding: both)` has nodes between faces; of edges, `eta_u: eta_psi (padding: both)` lie as faces do
    and `xi_u: xi_psi` as nodes, whose name is that of the edges where the Dataset has none of their own.
    """
    between: dict[str, Half] = {}
    same: dict[str, str] = {}
    attrs = [v.attrs for v in dataset.variables.values() if v.attrs.get("cf_role") == "grid_topology"]
    pairs = [(role, _PAIR.findall(str(text))) for one in attrs for role, text in one.items() if "dimensions" in role]
    for role, texts in pairs:
        for face, node, padding in (
            texts if role in ("face_dimensions", "volume_dimensions", "vertical_dimensions") else ()
        ):
            # before the first node there is a face with low, and with both
            shift = 0.5 if padding in ("low", "both") else -0.5
            between[names.get(node, node)] = Half(names.get(face, face), shift)
    have = {names.get(dim, dim): dim for dim in map(str, dataset.dims)}
    for role, texts in pairs:
        for edge, node, padding in texts if _OF_EDGES.fullmatch(role) else ():
            edge, node = names.get(edge, edge), names.get(node, node)
            if edge not in have or node not in between:
                continue
            if padding:
                same[have[edge]] = between[node].whole
            elif node in have:
                same[have[edge]] = node
            else:
                between[edge] = between.pop(node)
    return between, {dim: name for dim, name in same.items() if names.get(dim, dim) != name}


@contextmanager
def halves(values: Iterable[Any], further: Mapping[str, Half] | None = None) -> Generator[Mapping[str, Half]]:
    """The staggered dims that coordinates of DataArrays and Datasets tell, in tuples too, beside those known around."""
    known = {**STATED, **FROM_COORDINATES.get({}), **_of_attributes(values), **(further or {})}
    token = FROM_COORDINATES.set(known)
    try:
        yield known
    finally:
        FROM_COORDINATES.reset(token)


def _of_attributes(values: Iterable[Any]) -> dict[str, Half]:
    wholes: dict[str, set[str]] = {}
    between: dict[str, tuple[str, float]] = {}
    left = list(values)
    for value in left:
        if isinstance(value, (tuple, list)):
            left.extend(cast("tuple[Any, ...]", value))
            continue
        variables: Any = getattr(getattr(value, "coords", None), "variables", {})
        for dim in value.dims if variables else ():
            attrs: Any = variables[dim].attrs if dim in variables else {}
            axis, shift = attrs.get("axis"), attrs.get("c_grid_axis_shift")
            by = 0.0 if shift is None else float(np.ravel(shift)[0])  # of n + 1 points it is [-0.5, 0.5]
            if isinstance(axis, str) and by:
                between[str(dim)] = axis, by
            elif isinstance(axis, str) and half_of(str(dim)) is None:
                wholes.setdefault(axis, set()).add(str(dim))
    return {
        dim: Half(next(iter(wholes[axis])), shift)
        for dim, (axis, shift) in between.items()
        if len(wholes.get(axis, ())) == 1 and abs(shift) == 0.5
    }


def half_of(dim: str) -> Half | None:
    """The dim whose points a staggered dim lies between, None for others."""
    known = FROM_COORDINATES.get({}).get(dim) or STATED.get(dim)
    return known or (Half(dim.removesuffix(HALF)) if dim.endswith(HALF) else None)


def half_way(dim: str) -> str:
    """The name in messages of the dim of the points half way between those of a dim."""
    stated = half_of(dim)
    known = (d for d, half in {**FROM_COORDINATES.get({}), **STATED}.items() if half.whole == dim)
    return stated.whole if stated is not None else next(known, dim + HALF)


def partners(dim: str, dims: Iterable[str]) -> list[str]:
    """Those of some dims whose points lie half way between those of a dim.

    >>> partners("I", ["J", "IHalf"]), partners("IHalf", ["I", "J"])
    (['IHalf'], ['I'])
    """
    return [d for d in dims if _half_offset(dim, d) is not None]


def _half_offset(dim: str, other: str) -> float | None:
    """The offset of the points of a staggered dim from those of the same number; None for other dims."""
    stated, half = half_of(dim), half_of(other)
    if stated is not None and stated.whole == other:
        return stated.shift
    return -half.shift if half is not None and half.whole == dim else None


def points_between(dim: str, other: str, distance: float) -> int:
    """The offset from i of the number of the point of `other` that lies a distance after point i of `dim`.

    >>> points_between("IHalf", "I", 0.5), points_between("I", "IHalf", 0.5)
    (0, 1)
    """
    apart = _half_offset(dim, other)
    assert apart is not None
    return round(apart + distance)


def around(dim: str, interval: Interval, other: str) -> Interval:
    """The points of `other` between which those of an interval of a dim lie.

    >>> around("IHalf", Interval(1, 6), "I"), around("I", Interval(1, 5), "IHalf")
    (Interval(0, 6), Interval(1, 6))
    """
    return Interval(interval.start + points_between(dim, other, -0.5), interval.stop + points_between(dim, other, 0.5))
