"""Calls of programs: arguments checked and turned into arrays, some of them bound, results given back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorir.analysis.absence import analyse_absence
from tensorir.binding.arrays import (
    Accepted,
    Array,
    SkipValues,
    Unread,
    accept,
    check_table,
    fixed_shape,
    interval_of,
    is_array,
    is_traced,
    is_tuple,
    kind_of,
    leaf_names,
    leaves_of,
    nested,
    placed,
)
from tensorir.binding.labels import Place, brought, moves, operands_of, refuse_moved
from tensorir.binding.programs import BoundProgram
from tensorir.integers.dims import Interval, size_of
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import DTYPES, Scalar
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import DiagnosticError, article, did_you_mean, refuse
from tensorir.runtime.memory import RecentCache, WeakCache

if TYPE_CHECKING:
    from tensorir.text.sizes import Shape, Template

solve_template = ExtensionPoint("the sizes of a template from shapes", "tensorir.text", "solve")

# Programs with some parameters and sizes fixed (`docs/language.md`, "Sizes" and "Neighbour tables").
#
# `bind` copies and validates; a backend prepares what it needs (masks, columns, inverse tables) when it compiles.

NOTHING: Mapping[str, int] = {}


def bind(program: Any, constants: Mapping[str, Any]) -> BoundProgram:
    """Fix parameters (arrays, numbers) and sizes (integers) by name; what was bound before is kept.

    Raises N01 for a name that the program does not have, and everything that a call raises for a wrong array.
    """
    bound = BoundProgram.of(program)
    names = {p.name for p in bound.program.params}
    for name in constants:
        if name not in names and name not in bound.size_names:
            message = f"'{name}' is neither a parameter nor a size of '{bound.name}'."
            raise refuse("N01", message, did_you_mean(name, [*names, *bound.size_names]))
    if isinstance(bound.program, Fencil):
        return _bound_values(bound, bound.program, constants)
    # copies, which later changes of the caller's arrays do not reach
    copied = {n: v.copy() for n, v in constants.items() if is_array(v) or hasattr(v, "coords")}
    values = {n: copied.get(n, v) for n, v in constants.items() if n in names}
    sizes = {**bound.sizes, **{n: size_of(v, n) for n, v in constants.items() if n not in names}}
    pending = {**bound.pending, **values}
    try:
        sizes = solve_sizes(bound.program, pending, sizes)
    except DiagnosticError as error:
        if error.diagnostics[0].code != "B01":
            raise
        return BoundProgram(bound.program, {}, {}, sizes, pending)
    if moved_dims(bound.program, pending):  # arguments to come begin at the same labels, or are refused with these
        return BoundProgram(bound.program, {}, {}, sizes, pending)
    return bind(bound.program.specialise(**sizes), pending)


def solve_sizes(template: Template, values: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """Every size of a template from the shapes of values and from sizes by name."""
    return _solved(template, values, sizes, moved_dims(template, values))


def moved_dims(template: Template, values: Mapping[str, Any]) -> dict[str, int]:
    """The distance by which the dims of a template move to the first labels of its arguments
    (`tensorir/binding/labels.py`).
    """
    declared = {
        p.name: {r.dim: None if r.start.terms else r.start.constant for r in p.type.ranges}
        for p in template.params
        if p.type is not None
    }
    return moves(declared, operands_of(values))


def at_sizes(bound: BoundProgram, values: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[BoundProgram, Any]:
    """A bound template at the sizes of arguments, and how far its dims moved to where their labels begin."""
    template = bound.program
    assert not isinstance(template, Fencil)
    known = {**bound.pending, **values}
    moved = moved_dims(template, known)
    if moved and bound.pending:
        pending = {n: brought(v, moved) for n, v in bound.pending.items()}
        bound = replace(bound, pending=pending, specialised=RecentCache("bound programs whose dims moved", 1))
    specialised = bound.at(_solved(template, known, {**bound.sizes, **sizes}, moved))
    assert isinstance(specialised.program, Fencil)
    refuse_moved(specialised.program, moved)
    for o in operands_of(bound.pending) if moved else ():
        need = specialised.program[o.name.partition("[")[0]].type.dims
        if any(extent != len(need[d]) for d, extent in o.extents.items() if d in need):
            message = f"'{o.name}' is bound and holds more than {need}, and its labels move with those of the call"
            raise refuse("A29", f"{message}.", f"pass {o.name} with the call, or bind it cut.")
    return specialised, moved


def _solved(
    template: Template, values: Mapping[str, Any], sizes: Mapping[str, int], moved: Mapping[str, int]
) -> dict[str, int]:
    names = {p.name: [r.dim for r in p.type.ranges] for p in template.params if p.type is not None}
    shapes: dict[str, Shape] = {n: shape_of(v, names[n], n, moved) for n, v in values.items()}
    for name, shape in shapes.items():
        if isinstance(shape, Mapping) and (lacking := [n for n in names[name] if n not in shape]):
            have = ", ".join(shape) or "none"
            raise refuse("A05", f"'{name}' lacks {', '.join(lacking)}: its dims are {have}.", "rename or add the dim.")
    return solve_template(template, shapes, sizes)


def _bound_values(bound: BoundProgram, fencil: Fencil, values: Mapping[str, Any]) -> BoundProgram:
    tables = tables_of(fencil)
    holes: dict[str, SkipValues] = {}
    taken: dict[str, tuple[Array, ...]] = {}
    for n, v in values.items():
        # copies; a table keeps its integers, which nobody has looked at yet
        arrays = [
            np.array(accept(leaf, name, element, fencil[n].type.dims, any_integer=n in tables).data)
            for name, element, leaf in leaves_of(v, fencil[n].type.element, n)
        ]
        if n in tables:
            holes[n] = check_table(arrays[0], n, fencil[n].type, tables[n][1])
        taken[n] = tuple(a.astype(DTYPES[s], copy=False) for a, s in zip(arrays, fencil[n].type.leaves, strict=True))
        for array in taken[n]:
            array.setflags(write=False)
    return BoundProgram(fencil, {**bound.constants, **taken}, {**bound.holes, **holes}, {}, {})


def tables_of(fencil: Fencil) -> dict[str, tuple[str, Interval]]:
    """The parameters that are used as tables: the dim that each leads to, and the coordinates that it may hold."""
    return TABLES.of(fencil, _tables_of)


def _tables_of(fencil: Fencil) -> dict[str, tuple[str, Interval]]:
    inside = analyse_absence(fencil, {}).tables
    return {name: (neighbour_source(fencil[name].type)[1], interval) for name, interval in inside.items()}


TABLES: WeakCache[dict[str, tuple[str, Interval]]] = WeakCache("tables of fencils")
"""What was found of the tables of each fencil."""


def shape_of(value: Any, names: Sequence[str], name: str = "this", moved: Mapping[str, int] = NOTHING) -> Any:
    """The shape of an argument: extents by axis, or intervals by name where it carries them.

    `names` are the dims of the parameter, in the order of its axes; intervals are told less what dims have `moved` by.

    >>> shape_of(np.zeros((2, 3)), ["I", "J"]), shape_of((np.zeros(4), np.zeros(4)), ["I"])
    ((2, 3), (4,))
    """
    if is_tuple(value) and value and not isinstance(value[0], (int, float, list)):
        return shape_of(value[0], names, name, moved)
    return _shape_of_one(value, name, moved)


def _moved(dim: str, interval: Interval, moved: Mapping[str, int]) -> tuple[int, int]:
    return interval.start - moved.get(dim, 0), interval.stop - moved.get(dim, 0)


def _shape_of_one(value: Any, name: str, moved: Mapping[str, int]) -> Any:
    match kind_of(value):
        case "xarray":
            indexes: Any = getattr(value, "xindexes", {})
            known = {str(n): interval_of(indexes[n].to_pandas_index()) for n in value.dims if n in indexes}
            intervals = {n: _moved(n, i, moved) for n, i in known.items() if i is not None}
            extents = dict(zip(map(str, value.dims), value.shape, strict=True))
            return {**extents, **intervals}
        case "field":
            return {n: _moved(n, i, moved) for n, i in value.dims.items}
        case "":
            raise refuse("A01", f"'{name}' is {article(type(value).__name__)}, not an array.")
        case _:
            try:
                shape = np.shape(value)
            except ValueError:
                raise refuse("A01", f"'{name}' is a list whose rows have different lengths.") from None
            return fixed_shape(shape, name)


# One call of a program: arguments checked and turned into arrays, results turned into what the caller came with.
#
# Backends see none of this: they get arrays by parameter, one per leaf, axes in the order of the parameter's type,
# and give the same. The kind that comes in goes out (`docs/language.md`, "Arrays at the edge").

Arrays = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that is ready to run: the program at its sizes, arrays for it, and what is known of its tables."""

    bound: BoundProgram
    fencil: Fencil
    arrays: dict[str, tuple[Any, ...]]
    holes: dict[str, SkipValues]
    """Of each table that could be looked at, the slots in which it holds -1."""
    given_away: dict[str, tuple[Any, ...]]
    """The arrays whose memory the call may use up."""
    finish: Callable[[Mapping[str, tuple[Any, ...]]], dict[str, Any]]
    """From output arrays by name to what the caller gets."""
    copied: bool
    """Whether all that the caller gets are buffers of its own, into which results are copied."""
    place: Place
    labels: Any
    """The `Labels` of its DataArrays; None where there are none."""


def call(program: Any, datasets: Sequence[Any], arguments: Mapping[str, Any]) -> Any:
    """Run a program on the default backend; among symbols of a trace of our own it becomes part of what is traced."""
    kinds: set[type[Any]] = {type(value[0] if is_tuple(value) and value else value) for value in arguments.values()}
    for kind in kinds:
        if (inlined := getattr(kind, "__call_program__", None)) is not None:
            return inlined(program, arguments)
    from tensorir.backends import compiled

    return compiled(program)(*datasets, **arguments)


def prepare_call(
    program: Any, arguments: Mapping[str, Any], concrete: Callable[[Any], bool], donate: Sequence[str] = (),
    by_block: bool = False,
) -> PreparedCall:  # fmt: skip
    """Check the arguments of a call and bind its sizes; `concrete` says whether an array's numbers can be looked at.

    The memory of parameters that `donate` names may be used up, so they need not be buffers that can be written. Arrays
    in files that are no tables stay there with `by_block`.

    Raises every diagnostic of the arguments at once, before anything is computed or written.
    """
    bound = BoundProgram.of(program)
    check_names(bound, arguments)
    moved: Mapping[str, int] = {}
    if not isinstance(bound.program, Fencil):
        sizes = {n: size_of(v, n) for n, v in arguments.items() if n in bound.size_names}
        arguments = {n: v for n, v in arguments.items() if n not in sizes}
        bound, moved = at_sizes(bound, arguments, sizes)
    assert isinstance(bound.program, Fencil)
    fencil = bound.program
    place = Place.of(fencil, arguments, moved)
    tables = tables_of(fencil)
    written = {p.name for p in fencil.outputs}
    needed = {p.name for p in fencil.inputs}
    arrays: dict[str, tuple[Any, ...]] = dict(bound.constants)
    holes = dict(bound.holes)
    kinds: dict[str, str] = {}
    problems: list[Any] = []
    for p in fencil.params:
        if p.name in arguments:
            try:
                table = p.name in tables
                have = place.intervals
                taken = [
                    accept(leaf, name, element, p.type.dims, table, have.get(name), by_block and not table)
                    for name, element, leaf in leaves_of(arguments[p.name], p.type.element, p.name)
                ]
                kinds[p.name] = taken[0].kind if taken else "numpy"
                if p.name in tables and concrete(taken[0].data):
                    holes[p.name] = check_table(taken[0].data, p.name, p.type, tables[p.name][1])
                    taken = [Accepted(taken[0].data.astype(DTYPES[p.type.leaves[0]]), taken[0].kind)]
                if p.name in written and p.name not in donate:
                    _check_buffer(p, arguments[p.name], p.name in needed)
                arrays[p.name] = tuple(a.data for a in taken)
            except DiagnosticError as error:
                problems += error.diagnostics
        elif p.name in needed and p.name not in bound.constants:
            problems += missing(p, p.name in written, arguments).diagnostics
    if problems:
        raise DiagnosticError(problems)
    _refuse_shared(fencil, arguments)
    given_away = {n: arrays[n] for n in donate if n in arguments}
    for name in written - needed:
        arrays.pop(name, None)
    labels = None
    if "xarray" in kinds.values():
        from tensorir.binding.results import Labels

        labels = Labels.of(fencil, arguments, place)
    finish = _finisher(fencil, arguments, kinds, place, labels)
    copied = all(p.name in arguments and _holds_numpy(p, arguments[p.name]) for p in fencil.results)
    return PreparedCall(bound, fencil, arrays, holes, given_away, finish, copied, place, labels)


def with_variables(
    program: Any, datasets: Sequence[Any], arguments: Mapping[str, Any], called: str = "f"
) -> dict[str, Any]:
    """The arguments of a call, and the variables of Datasets that are called like parameters; raises A16 for others.

    Coordinates are given to parameters that are read alone: a result of such a name is no metric.
    """
    import xarray as xr

    names = {p.name for p in program.params}
    read = names - {str(getattr(c.output, "name", c.output)) for c in program.closures}
    variables = dict(arguments)
    for dataset in datasets:
        if not isinstance(dataset, xr.Dataset):
            message = f"arguments are given by name, and a {type(dataset).__name__} has none."
            raise refuse("A16", message, f"write {called}(inp=x).")
        coordinates = cast("Mapping[Any, Any]", dataset.coords)
        metrics = {str(n): v for n, v in coordinates.items() if n in read}
        variables = {**metrics, **{str(n): v for n, v in dataset.data_vars.items() if n in names}, **variables}
    return variables


def check_names(bound: BoundProgram, arguments: Mapping[str, Any]) -> None:
    buffers = bound.program.buffers if isinstance(bound.program, Fencil) else frozenset[str]()
    names = [p.name for p in bound.program.params if p.name not in buffers]
    for name in arguments:
        if name not in names and name not in bound.size_names:
            hint = did_you_mean(name, [*names, *bound.size_names])
            raise refuse("A08", f"'{bound.name}' has no parameter '{name}'.", hint)
        if name in bound.constants or name in bound.pending:
            message = f"'{name}' is bound already."
            raise refuse("A09", message, "leave it out, or call the program that it was bound from.")


def missing(param: Var, written: bool, arguments: Mapping[str, Any]) -> DiagnosticError:
    why = "it is read before it is written, or written only in part" if written else "it is read"
    return refuse("A11", f"'{param.name}' is not given: {why}.", f"pass {param.name}=, {param.type}.")


def _check_buffer(param: Var, value: Any, needed: bool) -> None:
    """A buffer that is passed for an output must be one that can be written."""
    for name, _, leaf in leaves_of(value, param.type.element, param.name):
        kind = kind_of(leaf)
        data = getattr(leaf, "data", leaf) if kind in ("xarray", "field") else leaf
        if is_array(data):
            if not data.flags.writeable:
                raise refuse("A12", f"'{name}' is an output, and its buffer is read-only.", "pass a writable copy.")
            if _meets_itself(data):
                message = f"'{name}' is an output, and several elements of its buffer share memory."
                raise refuse("A12", message, "pass a copy, which has memory for each.")
            if kind == "xarray" and data.size and not np.may_share_memory(data, leaf.data):
                message = f"'{name}' is an output, and its numbers are read from a file whenever they are asked for."
                raise refuse("A12", message, f"read them first: {name}.load().")
        elif kind == "numpy" and not needed:
            message = f"'{name}' is an output, and {type(leaf).__name__} cannot be written."
            raise refuse("A12", message, "pass an array.")
        elif not needed and kind_of(data) == "jax":
            message = f"'{name}' is an output, and JAX arrays never change."
            raise refuse("A13", message, f"leave it out and take the result: f(...)[{param.name!r}].")


def _meets_itself(data: Array) -> bool:
    """True if two elements of an array may share memory: axes from the smallest stride on reach into the next one."""
    reach = data.itemsize
    for stride, extent in sorted((abs(s), n) for s, n in zip(data.strides, data.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach = stride * (extent - 1) + reach
    return False


def _refuse_shared(fencil: Fencil, arguments: Mapping[str, Any]) -> None:
    """Raise A12 for two outputs in the same memory: the one would be lost."""
    buffers = [
        (name, data)
        for p in fencil.results
        if p.name in arguments
        for name, _, leaf in leaves_of(arguments[p.name], p.type.element, p.name)
        if is_array(data := _memory(leaf))
    ]
    for k, (name, data) in enumerate(buffers):
        for other, behind in buffers[:k]:
            if _share(data, behind):
                message = f"'{other}' and '{name}' are outputs, and their buffers share memory."
                raise refuse("A12", message, f"pass a copy: {name}={name}.copy().")


def _share(a: Array, b: Array) -> bool:
    try:
        work: Any = 1000
        return np.shares_memory(a, b, max_work=work)
    except np.exceptions.TooHardError:  # nobody strides like that but to share
        return True


def _finisher(
    fencil: Fencil, arguments: Mapping[str, Any], kinds: Mapping[str, str], place: Place, labels: Any
) -> Callable[[Arrays], dict[str, Any]]:
    kind = next((k for k in ("xarray", "field", "jax") if k in kinds.values()), "numpy")
    buffers = {
        p.name: arguments[p.name]
        for p in fencil.results
        if p.name in arguments and kinds[p.name] != "jax"
    }  # fmt: skip

    def finish(outputs: Arrays) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for p in fencil.results:
            arrays = outputs[p.name]
            if p.name in buffers and _holds_numpy(p, buffers[p.name]):
                results[p.name] = _write(p, buffers[p.name], arrays, place)
                continue
            names = [p.name] if isinstance(p.type.element, Scalar) else leaf_names(p.type.element, p.name)
            leaves = [_as_kind(kind, p, n, a, labels, place) for n, a in zip(names, arrays, strict=True)]
            results[p.name] = nested(p.type.element, leaves)
        return results

    return finish


def _holds_numpy(param: Var, buffer: Any) -> bool:
    return all(is_array(_memory(leaf)) for _, _, leaf in leaves_of(buffer, param.type.element, param.name))


def _memory(array: Any) -> Any:
    """The array of one with names, or itself; nothing of one that is not read."""
    return array if is_array(array) else None if Unread.in_file(array) else getattr(array, "data", None)


def _write(param: Var, buffer: Any, arrays: Sequence[Any], place: Place) -> Any:
    """Put results into the caller's buffers, which may overlap the inputs: everything is computed by now."""
    for (name, _, leaf), array in zip(leaves_of(buffer, param.type.element, param.name), arrays, strict=True):
        view = leaf if is_array(leaf) else placed(leaf, name, param.type.dims, place.intervals.get(name))
        np.copyto(view, np.asarray(array))
        if kind_of(leaf) == "xarray":
            cast("Any", leaf).encoding = {}  # a packing was made for the numbers of before
    return buffer


def _as_kind(kind: str, param: Var, leaf: str, array: Any, labels: Any, place: Place) -> Any:
    if kind == "numpy" and is_traced(array):
        kind = "jax"  # in somebody's trace
    match kind:
        case "jax":
            return array
        case "field":
            from tensorir.backends import field_type

            return field_type()(array, place.outside(param.type.dims))
        case "xarray":
            return labels.attach(param, labelled_data(array), leaf)
        case _:
            return writable(array)


def labelled_data(array: Any) -> Any:
    """The numbers of a DataArray that is a result: NumPy's, but for those of traces and of several processes."""
    here = is_array(array) or (not is_traced(array) and getattr(array, "is_fully_addressable", True))
    return writable(array) if here else array


def writable(array: Any) -> Array:
    """A NumPy array that its holder may change: a copy where the memory is somebody else's."""
    host: Array = np.asarray(array)
    return host if host.flags.writeable else host.copy()


def refuse_absent_outputs(fencil: Fencil, holes: Mapping[str, SkipValues], full: frozenset[str]) -> Any:
    """The facts of a fencil with its tables; raises T41 where an output may be absent."""
    facts = analyse_absence(fencil, holes, full)
    if facts.refused:
        raise DiagnosticError(facts.refused)
    return facts
