"""Labels of arrays as points of a dim.

The rule, for operators, fencils, time loops and the accessor alike. A dim of a DataArray has *labels* where xarray has
an index for it; a `ti.Field` has its interval.

- Integers with unit step are themselves the points: 3, 4, 5 is the interval [3, 6).
- Other labels (degrees, dates, names, every tenth point) begin where the parameter does, and arrays that meet along a
  dim are put where their labels are equal: one array's are a run of the other's, or the two overlap. Where that cannot
  be, the call is refused (A25, A26), as `join="exact"` of xarray refuses it.
- A dim without labels is told by position: as many points as a labelled operand of an operator has are the same.
- Labels of a staggered dim lie between those of the dim half way, wherever both are labelled: 5, 15 of `xHalf` are its
  points 1 and 2 beside 0, 10, 20 of `x`. Labels that lie otherwise are refused (A45).
- A step to the next point needs one: along dims that a program shifts, labels do not repeat, and integers and dates
  have equal steps (A27).
- Dates of one calendar do not meet those of another (A44).
- In programs with sizes a dim moves with its labels: `J[0:n]` takes the points 1 to n of an array that starts at 1.

`xarray.set_options(arithmetic_join=...)` is honoured by operators: "exact" wants equal labels, and joins that would
make points up are refused where labels differ (A28). The parameters of a fencil are on the intervals that it declares.

>>> import xarray as xr
>>> lat = xr.DataArray([1.0, 2.0, 3.0], dims="lat", coords={"lat": [50.0, 52.5, 55.0]})
>>> placed([Operand("a", lat), Operand("b", lat[1:])])
{'a': Dims(lat[0:3]), 'b': Dims(lat[1:3])}
>>> placed([Operand("a", lat), Operand("b", lat[::-1])])
Traceback (most recent call last):
    ...
tensorir.runtime.errors.DiagnosticError: error[A25]: the labels along lat differ: 'a' has 50.0 where 'b' has 55.0.
help: xr.align(a, b, join='inner') aligns them, b.drop_vars('lat') leaves labels out, ti.drop_indexes(b) goes by
position.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.binding.arrays import interval_of, is_tuple, kind_of, native
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.staggering import Half, half_of, halves
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import DiagnosticError, article, refuse
from tensorir.runtime.memory import WeakCache


@dataclass(frozen=True, slots=True)
class Operand:
    """A named array of a call: a DataArray or a Field, and what its parameter says of its dims."""

    name: str
    value: Any
    declared: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    """The intervals of its parameter, as far as it has any."""

    @property
    def extents(self) -> dict[str, int]:
        if kind_of(self.value) == "field":
            return {n: len(i) for n, i in self.value.dims.items}
        return {str(n): k for n, k in zip(self.value.dims, self.value.shape, strict=True)}


def operands_of(values: Mapping[str, Any], declared: Mapping[str, Dims] | None = None) -> list[Operand]:
    """The DataArrays and Fields among `values`, also within nested tuples, each with its name in messages: `x`, `x[0]`.

    `declared` has the dims of parameters, by parameter name; bare arrays and numbers are left out.
    """
    dims_by_param = declared or {}
    return [
        Operand(path, leaf, dict(dims_by_param[name].items) if name in dims_by_param else {})
        for name, value in values.items()
        for path, leaf in _leaves(name, value)
        if kind_of(leaf) in ("xarray", "field")
    ]


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The members of a nested tuple as (`x[0][1]`, array); a value that is no tuple as (`x`, value)."""
    if is_tuple(value):
        for k, member in enumerate(value):
            yield from _leaves(f"{name}[{k}]", member)
    else:
        yield name, value


def labels_of(value: Any, dim: str) -> Any:
    """The pandas index of a dim of a DataArray, in native byte order; None where the array has no index for it."""
    index: Any = getattr(value, "xindexes", {}).get(dim)
    if index is None:
        return None
    labels = index.to_pandas_index()
    # pandas looks nothing up in the other order of bytes, which NetCDF 3 has
    return labels if getattr(labels.dtype, "isnative", True) else type(labels)(native(labels.to_numpy()))


def drop_indexes(array: Any, *dims: Any) -> Any:
    """The DataArray without its indexes along dims (all by default): others meet it by position, not by label.

    Its coordinates stay, for what is computed of it; `array.drop_vars(dim)` leaves them out.

    >>> import xarray as xr
    >>> x = xr.DataArray([1.0, 2.0], dims="I", coords={"I": [0.5, 0.7]})
    >>> dict(drop_indexes(x).xindexes), drop_indexes(x).I.values
    ({}, array([0.5, 0.7]))
    """
    if not hasattr(array, "drop_indexes"):
        message = f"'array' is {article(type(array).__name__)}, which has no labels."
        raise refuse("A01", message, "the DataArray comes first: ti.drop_indexes(x, 'I').")
    names = [str(d) for d in dims] or [str(d) for d in array.dims]
    return array.drop_indexes([n for n in names if n in array.xindexes])


# Where arrays stand


def placed(operands: Sequence[Operand], moved: Mapping[str, int] | None = None) -> dict[str, Dims]:
    """The dims of every operand by its name, on intervals in the coordinates of the program.

    `moved` is the offset by dim from a coordinate of the program to the caller's label; intervals that come from labels
    or from a Field are shifted back by it. Raises A25, A26, A28, A44 and A45 where labels do not align.
    """
    by_dim: dict[str, list[Operand]] = {}
    for o in operands:
        for dim in o.extents:
            by_dim.setdefault(dim, []).append(o)
    starts = {dim: _along(dim, along_dim, (moved or {}).get(dim, 0)) for dim, along_dim in by_dim.items()}
    with halves(o.value for o in operands):
        staggered = {dim: half for dim in by_dim if (half := half_of(dim)) is not None and half.whole in by_dim}
    for dim, half in staggered.items():
        if correction := _beside(half, dim, by_dim, starts):
            moving, distance = correction
            starts[moving] = _along(moving, by_dim[moving], (moved or {}).get(moving, 0), distance)
    return {
        o.name: Dims(tuple((d, Interval(starts[d][o.name], starts[d][o.name] + n)) for d, n in o.extents.items()))
        for o in operands
    }


def placed_by_identity(values: Mapping[str, Any]) -> dict[int, Dims]:
    """The dims of the arguments of an operator, by `id(array)`, aligned by label; empty without a DataArray."""
    operands = operands_of(values)
    if not any(kind_of(o.value) == "xarray" for o in operands):
        return {}
    intervals = placed(operands)
    return {id(o.value): intervals[o.name] for o in operands}


def _along(dim: str, operands: Sequence[Operand], moved: int, further: int = 0) -> dict[str, int]:
    """The start of each operand along a dim, by name, in the coordinates of the program.

    A Field starts where its interval does, arrays with labels where the labels align (`_starts_by_label`), both less
    `moved`. Others start with their parameter, without one like an operand of the same extent, or else at 0.
    `further` points are added to the starts of arrays with labels.
    """
    starts: dict[str, int] = {}
    labelled: list[tuple[Operand, Any]] = []
    for o in operands:
        if kind_of(o.value) == "field":
            starts[o.name] = o.value.dims[dim].start - moved
        elif (labels := labels_of(o.value, dim)) is not None:
            labelled.append((o, labels))
    if labelled:
        starts.update({name: start + further for name, start in _starts_by_label(dim, labelled, moved).items()})
    for o in operands:
        if o.name not in starts:
            same_extent = (p for p in operands if p.name in starts and p.extents[dim] == o.extents[dim])
            model = None if o.declared else next(same_extent, None)
            starts[o.name] = o.declared[dim].start if dim in o.declared else starts[model.name] if model else 0
    return starts


def _starts_by_label(dim: str, labelled: Sequence[tuple[Operand, Any]], moved: int) -> dict[str, int]:
    """The start of each (operand, pandas index) along a dim: the first label where all labels are points.

    Otherwise one operand begins the axis (points, then one that fills its parameter, then the first), and the others
    start at their distance from it. `moved` is the offset of the dim (`moves`): a label less it is a point of the
    program. Arrays of a declared parameter are joined "inner", those of operators as xarray's
    option `arithmetic_join` says.
    """
    join = "inner" if any(o.declared for o, _ in labelled) else xarray_option("arithmetic_join", "inner")
    counted = [(o, labels) for o, labels in labelled if interval_of(labels) is not None]
    if len(counted) == len(labelled) and join == "inner":
        return {o.name: int(labels[0]) - moved for o, labels in counted}
    # one that fills its parameter says where the axis begins
    filling = [(o, x) for o, x in labelled if dim in o.declared and len(o.declared[dim]) == len(x)]
    model, axis = [*counted, *filling, *labelled][0]
    begin = int(axis[0]) - moved if counted else model.declared[dim].start if dim in model.declared else 0
    starts = {model.name: begin}
    for o, labels in labelled:
        if o is not model:
            starts[o.name] = begin + _distance(dim, (model, axis), (o, labels), join)
    return starts


def xarray_option(name: str, default: Any) -> Any:
    """The value of an option of `xarray.set_options`."""
    xarray: Any = sys.modules.get("xarray")
    return xarray.get_options().get(name, default) if xarray is not None else default


def _distance(dim: str, first: tuple[Operand, Any], second: tuple[Operand, Any], join: str) -> int:
    """The distance in points from the start of the first index to that of the second: 1 for 10, 20, 30 and 20, 30.

    Each is an (operand, pandas index). Raises A44 for different calendars, A26 for labels that repeat, A25 where no run
    of equal labels aligns them, and A28 for a `join` other than "inner" where one has labels that the other lacks.
    """
    (a, axis), (b, labels) = first, second
    if labels is axis or (len(labels) == len(axis) and bool(labels.equals(axis))):
        return 0
    ours, theirs = calendar_of(axis), calendar_of(labels)
    if ours and theirs and ours != theirs:
        message = f"the calendars along {dim} differ: '{a.name}' has {ours} and '{b.name}' has {theirs}"
        raise refuse("A44", f"{message}.", f"convert one of them: {b.name}.convert_calendar('{ours}').")
    for o, index in ((a, axis), (b, labels)):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            message = (
                f"the labels of '{o.name}' along {dim} repeat {_shown(twice)}, so they do not say where others meet it"
            )
            raise refuse("A26", f"{message}.", f"leave one of each: {o.name}.drop_duplicates('{dim}').")
    if not len(labels) or not len(axis):
        return 0
    after = int(axis.get_indexer(labels[:1])[0])
    before = int(labels.get_indexer(axis[:1])[0])
    shift = after if after >= 0 else -before if before >= 0 else None
    if shift is None:
        raise _unlike(dim, a, b, axis[0], labels[0])
    ours, theirs = axis[max(shift, 0) :], labels[max(-shift, 0) :]
    common = min(len(ours), len(theirs))
    # a label that both have and that would not meet itself is another order
    if not bool(ours[:common].equals(theirs[:common])) or int(axis.isin(labels).sum()) != common:
        by_position = next(((x, y) for x, y in zip(axis, labels, strict=False) if x != y), None)
        where = next(((x, y) for x, y in zip(ours, theirs, strict=False) if x != y), by_position)
        x, y = (by_position if len(axis) == len(labels) else where) or (axis[-1], labels[-1])
        raise _unlike(dim, a, b, x, y)
    if join != "inner":
        extra = "both have the same labels" if join == "exact" else "points that only one has would be made up"
        have = f"'{a.name}' has {len(axis)} points along {dim} and '{b.name}' has {len(labels)}"
        message = f"with arithmetic_join='{join}' {extra}, and {have}"
        raise refuse("A28", f"{message}.", f"align them first: xr.align({a.name}, {b.name}, join='inner').")
    return shift


def _beside(
    half: Half, dim: str, by_dim: Mapping[str, Sequence[Operand]], starts: Mapping[str, Mapping[str, int]]
) -> tuple[str, int] | None:
    """The dim whose labelled arrays must be shifted, and by how many points, for staggered labels to lie between whole.

    `dim` is the staggered dim of `half.whole`, `starts` has the start of each operand by dim and name. A dim whose
    labels are the points themselves is not shifted. None where one of the two has no labels, where the labels decide
    nothing (texts), and where no shift is needed. Raises A45 for labels that do not lie between.
    """
    models = [
        next(((o, x) for o in by_dim[d] if (x := labels_of(o.value, d)) is not None and len(x)), None)
        for d in (half.whole, dim)
    ]
    if models[0] is None or models[1] is None:
        return None
    (a, points), (b, between) = models[0], models[1]
    fixed = [interval_of(x) is not None for x in (points, between)]
    if all(fixed) or not (_ordered(points) and _ordered(between)):
        return None
    ours, theirs = calendar_of(points), calendar_of(between)
    first = _first_between(points, between) if ours == theirs else None
    if first is None:
        message = f"the labels of '{b.name}' along {dim} are {_listed(between)}"
        message = f"{message}, and those of '{a.name}' along {half.whole} are {_listed(points)}"
        raise refuse(
            "A45", f"{message}: the ones do not lie between the others.",
            f"point i of {dim} is half a point {'before' if half.shift < 0 else 'after'} i of {half.whole}; "
            f"ti.drop_indexes({b.name}, '{dim}') goes by position.",
        )  # fmt: skip
    by = starts[half.whole][a.name] + first - round(half.shift + 0.5) - starts[dim][b.name]
    return None if not by else (half.whole, -by) if fixed[1] else (dim, by)


def _ordered(labels: Any) -> bool:
    """True if labels are numbers or dates, whose order says which label lies between two others."""
    return labels.dtype.kind in "iufmM" or calendar_of(labels) != ""


def _first_between(points: Any, between: Any) -> int | None:
    """The number of the first label of `between`, where label number i lies between points[i - 1] and points[i].

    Numbers rise by one from label to label. None where the labels of `between` do not lie so, or are not monotonic.

    >>> import pandas as pd
    >>> x = pd.Index([0.0, 10.0, 20.0])
    >>> [_first_between(x, pd.Index(m)) for m in ([5.0, 15.0], [-5.0, 5.0], [25.0], [45.0], [5.0, 9.0], [10.0])]
    [1, 0, 3, None, None, None]
    """
    x, m = points, between
    rising = (x if len(x) > 1 else m).is_monotonic_increasing
    if not rising:
        x, m = x[::-1], m[::-1]
    if not all(i.is_monotonic_increasing and i.is_unique for i in (x, m)):
        return None
    before: Any = np.asarray(x.searchsorted(m))  # how many points lie before each
    if not np.array_equal(before, x.searchsorted(m, side="right")):
        return None
    numbers = before - np.arange(len(m))  # of the first, as each of them says
    inside = (before > 0) & (before < len(x))
    least = int(numbers[before == len(x)].max(initial=-len(m)))
    most = int(numbers[before == 0].min(initial=len(x) + 1))
    if inside.any():
        first = int(numbers[inside][0])
        if (numbers[inside] != first).any() or not least <= first <= most:
            return None
    elif least == most:
        first = least
    else:  # all lie before the points or behind them: next to them, if less than a step away
        first = least if before[0] else most
        gap = m[0] - x[-1] if before[0] else x[0] - m[-1]
        steps = [i[1] - i[0] if not before[0] else i[-1] - i[-2] for i in (x, m) if len(i) > 1]
        if steps and gap > min(steps):
            return None
    return first if rising else len(x) - first - len(m) + 1


def _listed(labels: Any) -> str:
    return ", ".join([_shown(x) for x in labels[:2]] + ["..."] * (len(labels) > 2))


def calendar_of(labels: Any) -> str:
    """The CF calendar of dates: the attribute of cftime's, "proleptic_gregorian" for datetime64.

    "" for other labels.
    """
    if labels.dtype.kind == "M":
        return "proleptic_gregorian"
    return str(getattr(labels[0], "calendar", "")) if labels.dtype.kind == "O" and len(labels) else ""


def _unlike(dim: str, a: Operand, b: Operand, x: Any, y: Any) -> DiagnosticError:
    """A25, that `a` has the label `x` where `b` has `y`; the hint has a tolerance where labels differ by rounding."""
    message = f"the labels along {dim} differ: '{a.name}' has {_shown(x)} where '{b.name}' has {_shown(y)}."
    if (apart := _rounding_between(labels_of(a.value, dim), labels_of(b.value, dim))) is not None:
        return refuse(
            "A25", message,
            f"they differ by rounding: {b.name}.reindex({dim}={a.name}['{dim}'], method='nearest', "
            f"tolerance={apart:g}) takes them for equal, and an inner join leaves such points out.",
        )  # fmt: skip
    return refuse(
        "A25",
        message,
        f"xr.align({a.name}, {b.name}, join='inner') aligns them, {b.name}.drop_vars('{dim}') leaves labels out, "
        f"ti.drop_indexes({b.name}) goes by position.",
    )


def _rounding_between(first: Any, second: Any) -> float | None:
    """The tolerance with which `reindex` matches each label of the shorter index to one of the longer.

    None for equal labels, labels that are no floats, and those further apart than the rounding of single precision.

    >>> import pandas as pd
    >>> x = pd.Index([0.1, 0.2])
    >>> _rounding_between(x, x.astype("float32")), _rounding_between(x, x), _rounding_between(x, x + 0.1)
    (1e-08, None, None)
    """
    if any(x is None or x.dtype.kind != "f" or not len(x) for x in (first, second)):
        return None
    short, long = sorted((np.asarray(first, np.float64), np.asarray(second, np.float64)), key=len)
    ends = np.concatenate([[-np.inf], np.sort(long), [np.inf]])
    after = np.searchsorted(ends[:-1], short).clip(1)
    nearest = np.minimum(short - ends[after - 1], ends[after] - short).max()
    if not 0.0 < nearest <= 2.0 * np.finfo(np.float32).eps * np.abs(long).max():
        return None
    return float(10.0 ** np.ceil(np.log10(nearest) + 0.1))


def _shown(label: Any) -> str:
    """The text of a label in messages: dates in ISO form without midnight, numbers without the type of NumPy."""
    if hasattr(label, "isoformat"):
        return str(label.isoformat()).removesuffix("T00:00:00")
    return repr(label.item()) if hasattr(label, "item") else repr(label)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the arrays of a call in the coordinates of its program."""

    intervals: Mapping[str, Dims]
    """The dims of every DataArray and Field in the coordinates of the program, by name in messages: `x[0]`."""
    moved: Mapping[str, int]
    """The offset of each dim that moved: the caller's label is the coordinate of the program plus the offset."""

    @staticmethod
    def of(fencil: Fencil, arguments: Mapping[str, Any], moved: Mapping[str, int]) -> Place:
        """The place of the arguments of a call, `NOWHERE` for bare arrays.

        Raises what `placed` and `refuse_unsteady` do.
        """
        operands = operands_of(arguments, {p.name: p.type.dims for p in fencil.params})
        if not operands:
            return NOWHERE
        refuse_unsteady(fencil, operands)
        return Place(placed(operands, moved), moved)

    def outside(self, dims: Dims) -> Dims:
        """Dims in the coordinates of the program, shifted to the labels of the caller."""
        if not self.moved:
            return dims
        return Dims(tuple((n, i.shifted(-self.moved.get(n, 0))) for n, i in dims.items))


NOWHERE = Place({}, {})
"""The place of bare arrays."""


# Dims that move


def moves(declared: Mapping[str, Mapping[str, int | None]], operands: Sequence[Operand]) -> dict[str, int]:
    """The offset of each dim of a program with sizes: first point of an argument less the start that its type declares.

    `declared` has the start of every dim of each parameter, None for a start that a size gives; such dims do not move.
    The first Field or array with integer labels along a dim decides; offsets of 0 are left out.
    """
    offsets: dict[str, int] = {}
    fixed = {d for dims in declared.values() for d, start in dims.items() if start is None}
    for o in operands:
        for dim in o.extents:
            start = declared.get(o.name.partition("[")[0], {}).get(dim)
            if start is None or dim in fixed or dim in offsets:
                continue
            labels = None if kind_of(o.value) == "field" else labels_of(o.value, dim)
            points = None if labels is None else interval_of(labels)
            interval = o.value.dims[dim] if kind_of(o.value) == "field" else points
            if interval is not None:
                offsets[dim] = interval.start - start
    return {d: k for d, k in offsets.items() if k}


def brought(value: Any, moved: Mapping[str, int]) -> Any:
    """A Field, a DataArray with integer labels, or a tuple of them, with its points less the offsets in `moved`."""
    if is_tuple(value):
        return tuple(brought(v, moved) for v in value)
    match kind_of(value):
        case "field":
            intervals = {n: i.shifted(moved.get(n, 0)) for n, i in value.dims.items}
            return type(value)(value.data, Dims(tuple(intervals.items())))
        case "xarray":
            labels = {d: labels_of(value, d) for d in moved if d in value.dims}
            by_point = {d: x for d, x in labels.items() if x is not None and interval_of(x) is not None}
            return value.assign_coords({d: x - moved[d] for d, x in by_point.items()}) if by_point else value
        case _:
            return value


def _absolute(fencil: Fencil) -> frozenset[str]:
    """The dims along which a program depends on absolute coordinates: positions, neighbour tables, indices, names."""
    absolute = {n.removeprefix("_NB_") for p in fencil.params for n in p.type.dims.names if n.startswith("_NB_")}
    for node in postorder(*values(fencil.closures)):
        if not isinstance(node, Call):
            continue
        read = {d for a in node.args if isinstance(a.type, TensorType) for d in a.type.dims.names}
        maps = node.accesses
        if maps is None:
            absolute |= read if TABLE[node.op].indirect or set(node.type.dims) - read else set()
        else:
            absolute |= {d for a in maps for d in (a.absolute if a else node.type.dims)}
    return frozenset(absolute)


ABSOLUTE: WeakCache[frozenset[str]] = WeakCache("dims whose coordinates programs compute with")
"""The dims of `_absolute` by fencil: a program gives other results when these move with their labels."""


def refuse_moved(fencil: Fencil, moved: Mapping[str, int]) -> None:
    """Raise A29 where a dim moves whose coordinates the program computes with."""
    if not moved:
        return
    for dim in ABSOLUTE.of(fencil, _absolute):
        if dim in moved:
            message = (
                f"computes with positions along {dim}, and the labels of its arguments begin {moved[dim]:+d} from them"
            )
            raise refuse(
                "A29", f"'{fencil.name}' {message}.", f"count {dim} from where the type does, or drop its labels."
            )


# Steps to the next point


def _shifted(fencil: Fencil) -> frozenset[str]:
    """The dims along which the access map of any call has an offset."""
    calls = (node for node in postorder(*values(fencil.closures)) if isinstance(node, Call))
    return frozenset(d for node in calls for access in node.accesses or () if access for d in access.offsets)


SHIFTED: WeakCache[frozenset[str]] = WeakCache("dims along which programs shift")
"""Of each fencil the dims along which it reads neighbours."""


DATED = " as "
"""Between the name of a coordinate of dates and the units that it is asked in, `time as days since 2000-01-01`."""


def refuse_unsteady(fencil: Fencil, operands: Sequence[Operand]) -> None:
    """Raise A27 where the program reads neighbours along a dim whose labels have no equal steps.

    A program with the coordinate of the dim as a parameter, or as an argument that has its name, knows the steps: it
    divides by them.
    """
    read = {p.name for p in fencil.params if p.type.dims.names == (p.name,)}
    for o in operands:
        name = str(getattr(o.value, "name", None)).partition(DATED)[0]
        read |= {name} if tuple(o.extents) == (name,) else set()
    for o in operands:
        for dim in SHIFTED.of(fencil, _shifted) - read if kind_of(o.value) == "xarray" else ():
            labels = labels_of(o.value, dim) if dim in o.value.dims else None
            if labels is not None and (fault := _uneven(labels)):
                raise refuse(
                    "A27", f"'{fencil.name}' reads neighbours along {dim}, and the labels of '{o.name}' {fault}.",
                    f"{o.name}.reindex(...) fills what is missing, "
                    f"ti.drop_indexes({o.name}, '{dim}') goes by position.",
                )  # fmt: skip


def _uneven(labels: Any) -> str:
    """The fault in the steps of labels, as the end of a message.

    "" for equal steps, and for floats that do not repeat.
    """
    if len(labels) < 2 or interval_of(labels) is not None:
        return ""
    if not labels.is_unique:
        return f"repeat {_shown(labels[labels.duplicated()][0])}"
    if labels.dtype.kind == "f":
        return ""
    try:
        numbers: Any = labels.asi8 if hasattr(labels, "asi8") else np.asarray(labels)
        steps: Any = np.diff(numbers)
    except TypeError:
        return f"have no steps: {_shown(labels[0])}, {_shown(labels[1])}"
    if labels.dtype.kind not in "iumMO":
        return f"have no steps: {_shown(labels[0])}, {_shown(labels[1])}"
    unequal = np.flatnonzero(steps != steps[0])
    if not len(unequal):
        return ""
    k = int(unequal[0])
    return f"have unequal steps: {', '.join(_shown(labels[j]) for j in range(k - 1, k + 2))}"
