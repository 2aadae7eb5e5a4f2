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
from tensorir.runtime.errors import article, refuse

HALF = "Half"
"""What the name of a dim ends in whose points lie half way between."""


@dataclass(frozen=True, slots=True)
class Half:
    """The dim that a staggered dim lies between, and the distance of its points from those with the same number."""

    whole: str
    shift: float = -0.5


_PAIR = re.compile(r"(\w+)\s*:\s*(\w+)(?:\s*\(\s*padding\s*:\s*(none|low|high|both)\s*\))?")
_OF_EDGES = re.compile(r"(edge|face)\d_dimensions")

STATED: dict[str, Half] = {}
"""The staggered dims that `staggered` was told, for the process."""

FROM_COORDINATES: ContextVar[Mapping[str, Half]] = ContextVar("staggered dims of a call's arguments")
"""Those that attributes of coordinates tell."""


def staggered(whole: Dimension, half: str | Dimension, shift: float = -0.5) -> Dimension:
    """Declares that the points of dim `half` lie half way between those of `whole`, for the whole process.

    Point i lies half a point before point i of `whole`, or with `shift=0.5` after it. Names such as XCHalf, and
    coordinates with the attributes `axis` and `c_grid_axis_shift`, need no declaration. Raises V41 if the dim is
    staggered otherwise.

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
    conflicting = {dim: other for dim in (str(half), stated.whole) if (other := half_of(dim)) not in (None, stated)}
    if conflicting or abs(stated.shift) != 0.5 or stated.whole == str(half):
        statement = f"points of {half} cannot lie {stated.shift:+} points from those of {whole}"
        lies = (f"those of {_lies(dim, other)}" for dim, other in conflicting.items())
        raise refuse("V41", f"{statement}.", f"{next(lies, 'a shift is -0.5 or 0.5')}.")
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
    """Declares the staggered dims of a Dataset on a C grid, and gives it with one name for dims of the same points.

    Sources are `coords` (as for `xgcm.Grid`: `{"X": {"center": "XC", "left": "XG"}}`), the attributes `axis` and
    `c_grid_axis_shift` of coordinates, a variable with `cf_role` "grid_topology" (SGRID), and, for dims that none of
    these describes, the names of MITgcm, NEMO and ROMS. `xi_v` of ROMS becomes `xi_rho`, `x` in a file of NEMO with
    `depthu` becomes `x_f`, edges of SGRID get the name of their nodes. Like `ti.staggered` it holds for the process.
    Raises V41 if two sources differ, if a dim is staggered otherwise, and if no source describes a dim.

    >>> import numpy as np
    >>> import xarray as xr
    >>> import tensorir as ti
    >>> (XC,) = ti.dims("XC")
    >>> ds = c_grid(xr.Dataset({"U": ("XG", np.array([1.0, 2.0, 4.0, 8.0]))}))
    >>> ti.field_operator(lambda u: u(XC + 0.5) - u(XC - 0.5))(ds.U).values
    array([1., 2., 4.])
    """
    if not (hasattr(dataset, "dims") and hasattr(dataset, "variables")):
        message = f"the grid is {article(type(dataset).__name__)}, and that of a Dataset is meant."
        raise refuse("V41", message, "write ti.c_grid(ds).")
    marks = [dim for dim in SAME_POINTS if dim in dataset.dims]
    if sum(dim.startswith("depth") for dim in marks) > 1:
        raise refuse("V41", "the Dataset has grids of several kinds of NEMO.", "call ti.c_grid for each file.")
    names = {dim: name for mark in marks for dim, name in SAME_POINTS[mark].items() if dim in dataset.dims}
    face_halves, edge_names = _sgrid(dataset, names)
    dataset = _renamed(dataset, {**names, **edge_names})
    declared = {names.get(half, half): Half(names.get(axis["center"], axis["center"]), POSITIONS[at])
                for axis in (coords or {}).values() for at, half in axis.items() if at in POSITIONS}  # fmt: skip
    attributes = _of_attributes([dataset])
    known = _agreed({"coords=": declared, "the attributes of coordinates": attributes, "SGRID's topology": face_halves})
    wholes = {half.whole for half in known.values()}
    for dim, (whole, shift) in MODELS.items():
        if dim in dataset.dims and dim not in known and dim not in wholes:
            known[dim] = Half(whole, _of_sizes(dataset.sizes, dim, whole, shift))
    if not known and not names:
        dim_names = ", ".join(map(str, dataset.dims))
        message = f"nothing says which of {dim_names} are edges."
        raise refuse("V41", message, 'say it: coords={"X": {"center": "x", "left": "x_u"}}.')
    for dim, half in known.items():
        staggered(Dimension(half.whole), dim, half.shift)
    return dataset


def _agreed(sources: Mapping[str, Mapping[str, Half]]) -> dict[str, Half]:
    """Merges the staggered dims of several sources, by name of source; raises V41 if two contradict each other.

    "A between B" and "B between A" with opposite shifts agree; the first one is kept.
    """
    halves_of: dict[str, Half] = {}
    source_of: dict[str, str] = {}
    for source, stated in sources.items():
        for dim, half in stated.items():
            reverse = halves_of.get(half.whole)
            if dim not in halves_of and (reverse is None or reverse.whole != dim):
                halves_of[dim], source_of[dim] = half, source
                continue
            other = dim if dim in halves_of else half.whole
            if halves_of[other] not in (half, Half(dim, -half.shift)):
                statement = f"points of {_lies(dim, half)} in {source}"
                earlier_statement = f"points of {_lies(other, halves_of[other])} in {source_of[other]}"
                raise refuse("V41", f"{statement}, and {earlier_statement}.", "leave out the one that is wrong.")
    return halves_of


def _lies(dim: str, half: Half) -> str:
    return f"{dim} lie {half.shift:+} points from those of {half.whole}"


def _renamed(dataset: Any, names: Mapping[str, str]) -> Any:
    """The Dataset with dims renamed, so that those of the same points share a name; raises V41 if sizes or labels
    differ.
    """
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
    """The shift of a staggered dim by its size: -0.5 with one point more than `whole`, 0.5 with one fewer, else
    `shift`.
    """
    extra_points = sizes[half] - sizes.get(whole, sizes[half])
    if abs(extra_points) > 1:
        message = f"{half} has {sizes[half]} points, and {whole} {sizes[whole]}"
        raise refuse("V41", f"{message}, which do not lie between each other.", "take parts of both alike.")
    return {1: -0.5, -1: 0.5}.get(extra_points, shift)


def _sgrid(dataset: Any, names: Mapping[str, str]) -> tuple[dict[str, Half], dict[str, str]]:
    """The staggered dims in an SGRID topology, and new names for dims of edges.

    `xi_rho: xi_psi (padding: both)` puts nodes (xi_psi) between faces. For edges, `eta_u: eta_psi (padding: both)` are
    points like faces, and `xi_u: xi_psi` points like nodes; the nodes get the name of the edges if the Dataset has no
    such dim. `names` are renamings made before.
    """
    halves_of: dict[str, Half] = {}
    new_names: dict[str, str] = {}
    attrs = [v.attrs for v in dataset.variables.values() if v.attrs.get("cf_role") == "grid_topology"]
    relations = [
        (role, _PAIR.findall(str(text))) for one in attrs for role, text in one.items() if "dimensions" in role
    ]
    for role, matches in relations:
        for face, node, padding in (
            matches if role in ("face_dimensions", "volume_dimensions", "vertical_dimensions") else ()
        ):
            # before the first node there is a face with low, and with both
            shift = 0.5 if padding in ("low", "both") else -0.5
            halves_of[names.get(node, node)] = Half(names.get(face, face), shift)
    original_name = {names.get(dim, dim): dim for dim in map(str, dataset.dims)}
    for role, matches in relations:
        for edge, node, padding in matches if _OF_EDGES.fullmatch(role) else ():
            edge, node = names.get(edge, edge), names.get(node, node)
            if edge not in original_name or node not in halves_of:
                continue
            if padding:
                new_names[original_name[edge]] = halves_of[node].whole
            elif node in original_name:
                new_names[original_name[edge]] = node
            else:
                halves_of[edge] = halves_of.pop(node)
    return halves_of, {dim: name for dim, name in new_names.items() if names.get(dim, dim) != name}


@contextmanager
def halves(values: Iterable[Any], more_halves: Mapping[str, Half] | None = None) -> Generator[Mapping[str, Half]]:
    """A context in which staggered dims are also taken from the coordinates of `values` (also in tuples), and
    `more_halves`.

    Yields all staggered dims that hold in it.
    """
    all_halves = {**STATED, **FROM_COORDINATES.get({}), **_of_attributes(values), **(more_halves or {})}
    token = FROM_COORDINATES.set(all_halves)
    try:
        yield all_halves
    finally:
        FROM_COORDINATES.reset(token)


def _of_attributes(values: Iterable[Any]) -> dict[str, Half]:
    """The staggered dims by the attributes `axis` and `c_grid_axis_shift` of coordinates, if an axis has just one
    centre dim.
    """
    centres_of: dict[str, set[str]] = {}
    staggered_dims: dict[str, tuple[str, float]] = {}
    pending = list(values)
    for value in pending:
        if isinstance(value, (tuple, list)):
            pending.extend(cast("tuple[Any, ...]", value))
            continue
        variables: Any = getattr(getattr(value, "coords", None), "variables", {})
        for dim in value.dims if variables else ():
            attrs: Any = variables[dim].attrs if dim in variables else {}
            axis, shift = attrs.get("axis"), attrs.get("c_grid_axis_shift")
            distance = 0.0 if shift is None else float(np.ravel(shift)[0])  # of n + 1 points it is [-0.5, 0.5]
            if isinstance(axis, str) and distance:
                staggered_dims[str(dim)] = axis, distance
            elif isinstance(axis, str) and half_of(str(dim)) is None:
                centres_of.setdefault(axis, set()).add(str(dim))
    return {
        dim: Half(next(iter(centres_of[axis])), shift)
        for dim, (axis, shift) in staggered_dims.items()
        if len(centres_of.get(axis, ())) == 1 and abs(shift) == 0.5
    }


def half_of(dim: str) -> Half | None:
    """The dim that a staggered dim lies between, by attributes, declaration, or its name; None for other dims."""
    declared = FROM_COORDINATES.get({}).get(dim) or STATED.get(dim)
    return declared or (Half(dim.removesuffix(HALF)) if dim.endswith(HALF) else None)


def half_way(dim: str) -> str:
    """The name, for messages, of the dim of the points half way between those of a dim."""
    half = half_of(dim)
    declared = (d for d, half in {**FROM_COORDINATES.get({}), **STATED}.items() if half.whole == dim)
    return half.whole if half is not None else next(declared, dim + HALF)


def partners(dim: str, dims: Iterable[str]) -> list[str]:
    """Those of some dims whose points lie half way between those of a dim.

    >>> partners("I", ["J", "IHalf"]), partners("IHalf", ["I", "J"])
    (['IHalf'], ['I'])
    """
    return [d for d in dims if _half_offset(dim, d) is not None]


def _half_offset(dim: str, other: str) -> float | None:
    """The distance from a point of `dim` to the point of `other` with the same number; None if neither is staggered to
    it.
    """
    half, other_half = half_of(dim), half_of(other)
    if half is not None and half.whole == other:
        return half.shift
    return -other_half.shift if other_half is not None and other_half.whole == dim else None


def points_between(dim: str, other: str, distance: float) -> int:
    """The number, relative to i, of the point of `other` at a half-integer distance after point i of `dim`.

    >>> points_between("IHalf", "I", 0.5), points_between("I", "IHalf", 0.5)
    (0, 1)
    """
    half_offset = _half_offset(dim, other)
    assert half_offset is not None
    return round(half_offset + distance)


def around(dim: str, interval: Interval, other: str) -> Interval:
    """The points of `other` on both sides of each point of an interval of `dim`.

    >>> around("IHalf", Interval(1, 6), "I"), around("I", Interval(1, 5), "IHalf")
    (Interval(0, 6), Interval(1, 6))
    """
    return Interval(interval.start + points_between(dim, other, -0.5), interval.stop + points_between(dim, other, 0.5))
