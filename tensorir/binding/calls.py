"""Calls of programs: arguments checked and turned into arrays, some of them bound, results given back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """The program with more parameters (arrays, numbers) and sizes (integers) fixed by name; arrays are copied.

    Values are checked at once for a fencil. A template is specialised when the shapes tell all its sizes; until then
    values wait in `pending`. Raises N01 for a name that the program does not have, and what a call raises for an array.
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
    """All sizes of a template: those in `sizes`, and those that follow from the shapes of `values` by parameter."""
    return _solved(template, values, sizes, moved_dims(template, values))


def moved_dims(template: Template, values: Mapping[str, Any]) -> dict[str, int]:
    """The offset of each dim that moves: first label of the arguments less the start that the template declares
    (`moves` in `tensorir/binding/labels.py`).
    """
    declared = {
        p.name: {r.dim: None if r.start.terms else r.start.constant for r in p.type.ranges}
        for p in template.params
        if p.type is not None
    }
    return moves(declared, operands_of(values))


def at_sizes(bound: BoundProgram, values: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[BoundProgram, Any]:
    """The bound fencil at the sizes of a call, and the offset of each dim that moved to the first labels.

    `values` are the arguments, `sizes` those given by name. Raises A29 for bound arrays that no longer fit their
    parameter after moving, and for dims of which the program uses absolute coordinates.
    """
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
    """All sizes of a template, intervals of values being shifted back by `moved`; raises A05 for dims that lack."""
    names = {p.name: [r.dim for r in p.type.ranges] for p in template.params if p.type is not None}
    shapes: dict[str, Shape] = {n: shape_of(v, names[n], n, moved) for n, v in values.items()}
    for name, shape in shapes.items():
        if isinstance(shape, Mapping) and (lacking := [n for n in names[name] if n not in shape]):
            have = ", ".join(shape) or "none"
            raise refuse("A05", f"'{name}' lacks {', '.join(lacking)}: its dims are {have}.", "rename or add the dim.")
    return solve_template(template, shapes, sizes)


def _bound_values(bound: BoundProgram, fencil: Fencil, values: Mapping[str, Any]) -> BoundProgram:
    """`bound` with checked, read-only copies of more values of its fencil, and the holes of those that are tables."""
    tables = tables_of(fencil)
    holes: dict[str, SkipValues] = {}
    copies: dict[str, tuple[Array, ...]] = {}
    for n, v in values.items():
        # copies; a table keeps its integers, which nobody has looked at yet
        arrays = [
            np.array(accept(leaf, name, element, fencil[n].type.dims, any_integer=n in tables).data)
            for name, element, leaf in leaves_of(v, fencil[n].type.element, n)
        ]
        if n in tables:
            holes[n] = check_table(arrays[0], n, fencil[n].type, tables[n][1])
        copies[n] = tuple(a.astype(DTYPES[s], copy=False) for a, s in zip(arrays, fencil[n].type.leaves, strict=True))
        for array in copies[n]:
            array.setflags(write=False)
    return BoundProgram(fencil, {**bound.constants, **copies}, {**bound.holes, **holes}, {}, {})


def tables_of(fencil: Fencil) -> dict[str, tuple[str, Interval]]:
    """The neighbour tables among the parameters: by name the dim of which entries are points, and its interval.

    Cached by fencil in `TABLES`.
    """
    return TABLES.of(fencil, _tables_of)


def _tables_of(fencil: Fencil) -> dict[str, tuple[str, Interval]]:
    inside = analyse_absence(fencil, {}).tables
    return {name: (neighbour_source(fencil[name].type)[1], interval) for name, interval in inside.items()}


TABLES: WeakCache[dict[str, tuple[str, Interval]]] = WeakCache("tables of fencils")
"""The result of `tables_of` by fencil."""


def shape_of(value: Any, names: Sequence[str], name: str = "this", moved: Mapping[str, int] = NOTHING) -> Any:
    """The shape of an argument: a tuple of extents, or by dim its extent or (start, stop) where dims are named.

    Of a tuple of arrays it is that of the first. `names` are the dims of the parameter, in the order of its axes,
    `name` is the argument's in messages. Starts and stops are labels less the offsets in `moved`.

    >>> shape_of(np.zeros((2, 3)), ["I", "J"]), shape_of((np.zeros(4), np.zeros(4)), ["I"])
    ((2, 3), (4,))
    """
    if is_tuple(value) and value and not isinstance(value[0], (int, float, list)):
        return shape_of(value[0], names, name, moved)
    return _shape_of_one(value, name, moved)


def _moved(dim: str, interval: Interval, moved: Mapping[str, int]) -> tuple[int, int]:
    return interval.start - moved.get(dim, 0), interval.stop - moved.get(dim, 0)


def _shape_of_one(value: Any, name: str, moved: Mapping[str, int]) -> Any:
    """`shape_of` one array or number; raises A01 for values that are no arrays."""
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
    """A call that is ready to run: the fencil at its sizes, checked arrays by parameter, and the way to its results."""

    bound: BoundProgram
    fencil: Fencil
    arrays: dict[str, tuple[Any, ...]]
    holes: dict[str, SkipValues]
    """The slots with -1 of each neighbour table, except those that are traced."""
    given_away: dict[str, tuple[Any, ...]]
    """The donated arrays, by parameter: the call may overwrite their memory."""
    finish: Callable[[Mapping[str, tuple[Any, ...]]], dict[str, Any]]
    """From output arrays by name to what the caller gets."""
    copied: bool
    """True if every result is copied into a NumPy buffer that the caller passed for it."""
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
    """Check the arguments of a call, find its sizes, and turn the arguments into arrays by parameter.

    `concrete(array)` is False for traced arrays, whose numbers cannot be checked. Parameters in `donate` may lose their
    memory to the call, so they need not be writable buffers. With `by_block`, arrays in files other than neighbour
    tables are not loaded (`Unread`).

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
                kinds[p.name] = _first_kind(a.kind for a in taken)
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
    """The arguments of a call by name, completed by the variables and coordinates of Datasets with a parameter's name.

    Arguments have precedence, then earlier Datasets, and variables over coordinates. Coordinates are given only to
    parameters that no closure writes. Raises A16 for a value that is no Dataset; `called` names the program in
    its hint.
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
    """Raise A08 for an argument that the program does not have as a parameter or size, A09 for one that is bound."""
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
    """Raise A12 for an output's buffer that cannot be written (read-only, overlapping, in a file), A13 for a JAX array.

    An output that is `needed` is also read: its argument may be an array that is only read, such as JAX's.
    """
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
    """True if two elements of an array may share memory: a stride is less than the span of the axes below it."""
    reach = data.itemsize if data.size else 0
    for stride, extent in sorted((abs(s), n) for s, n in zip(data.strides, data.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach = stride * (extent - 1) + reach
    return False


def are_separate(buffers: Sequence[Array]) -> bool:
    """True if buffers can be written and their elements clearly have memory of their own, by the bounds of arrays.

    >>> x = np.zeros((4, 4))
    >>> are_separate([x[:2], x[2:]]), are_separate([x[::2], x[1::2]]), are_separate([np.broadcast_to(1.0, 3)])
    (True, False, False)
    """
    return all(
        buffer.flags.writeable
        and (buffer.flags.c_contiguous or not _meets_itself(buffer))
        and not any(np.may_share_memory(buffer, other) for other in buffers[:k])
        for k, buffer in enumerate(buffers)
    )


def _refuse_shared(fencil: Fencil, arguments: Mapping[str, Any]) -> None:
    """Raise A12 for two outputs whose buffers share memory: one result would overwrite the other."""
    buffers = [
        (name, data)
        for p in fencil.results
        if p.name in arguments
        for name, _, leaf in leaves_of(arguments[p.name], p.type.element, p.name)
        if is_array(data := _memory(leaf))
    ]
    for k, (name, data) in enumerate(buffers):
        for other, other_data in buffers[:k]:
            if _share(data, other_data):
                message = f"'{other}' and '{name}' are outputs, and their buffers share memory."
                raise refuse("A12", message, f"pass a copy: {name}={name}.copy().")


def _share(a: Array, b: Array) -> bool:
    """True if two arrays share memory, also where strides are too irregular for NumPy to decide."""
    try:
        work: Any = 1000
        return np.shares_memory(a, b, max_work=work)
    except np.exceptions.TooHardError:  # nobody strides like that but to share
        return True


def _first_kind(kinds: Iterable[str]) -> str:
    """The kind of what arrays of several kinds (`kind_of`) give: DataArray before Field, JAX array and NumPy array."""
    present = set(kinds)
    return next((kind for kind in ("xarray", "field", "jax") if kind in present), "numpy")


def _finisher(
    fencil: Fencil, arguments: Mapping[str, Any], kinds: Mapping[str, str], place: Place, labels: Any
) -> Callable[[Arrays], dict[str, Any]]:
    """The function from output arrays, one per leaf, to the results of a call by name.

    A result is copied into the caller's NumPy buffer if there is one; otherwise it has the kind of the arguments:
    DataArray before Field, JAX array and NumPy array. `kinds` has the kind of each argument (`kind_of`).
    """
    kind = _first_kind(kinds.values())
    buffers = {
        p.name: arguments[p.name]
        for p in fencil.results
        if p.name in arguments and kinds[p.name] != "jax"
    }  # fmt: skip

    def finish(outputs: Arrays) -> dict[str, Any]:
        """The results of one call by name, from arrays per output and leaf."""
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
    """The data of a DataArray or Field, or the array itself; None for data in a file."""
    return array if is_array(array) else None if Unread.in_file(array) else getattr(array, "data", None)


def _write(param: Var, buffer: Any, arrays: Sequence[Any], place: Place) -> Any:
    """Copy the leaves of a result into the caller's buffer (an array or nested tuple of arrays), which is returned.

    It may overlap the inputs: everything is computed by now. A DataArray loses its encoding.
    """
    for (name, _, leaf), array in zip(leaves_of(buffer, param.type.element, param.name), arrays, strict=True):
        view = leaf if is_array(leaf) else placed(leaf, name, param.type.dims, place.intervals.get(name))
        np.copyto(view, np.asarray(array))
        if kind_of(leaf) == "xarray":
            cast("Any", leaf).encoding = {}  # a packing was made for the numbers of before
    return buffer


def _as_kind(kind: str, param: Var, leaf: str, array: Any, labels: Any, place: Place) -> Any:
    """One leaf of a result as an array of the kind "jax", "field", "xarray" or "numpy"; `leaf` is its name: `x[0]`."""
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
    """The data of a result's DataArray: NumPy's, except for traced arrays and those sharded over several processes."""
    on_host = is_array(array) or (not is_traced(array) and getattr(array, "is_fully_addressable", True))
    return writable(array) if on_host else array


def writable(array: Any) -> Array:
    """A NumPy array that its holder may change: a copy where the memory is somebody else's."""
    host: Array = np.asarray(array)
    return host if host.flags.writeable else host.copy()


def refuse_absent_outputs(fencil: Fencil, holes: Mapping[str, SkipValues], full: frozenset[str]) -> Any:
    """The absence analysis of a fencil with its tables' holes (slots of -1).

    Raises T41 where an output may be absent.
    """
    facts = analyse_absence(fencil, holes, full)
    if facts.refused:
        raise DiagnosticError(facts.refused)
    return facts
