"""Programs that run on fields: where these lie in memory, specialisations per sizes, results.

What a call had that no call before it had says why a program was compiled once more.

>>> first = Call({"x": ("I[0:6]", (8,))}, {"n": 5}, {})
>>> reason(first, []), reason(Call({"x": ("I[0:7]", (8,))}, {"n": 5}, {}), [first])
('its first call', "'x' is on I[0:7], and was on I[0:6]")
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import ctypes
import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from tensorir.backends import backend
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import DTYPES, scalar_of
from tensorir.iterator.lift.arguments import leaf_tree, members_of, offsets
from tensorir.iterator.lift.program import Leaf, Options, Specialised, compiled, specialise
from tensorir.iterator.lift.values import Target, leaves, tree_map
from tensorir.iterator.nodes import FieldType, ParamType, Program, TupleType, located
from tensorir.iterator.recorded import TAPE, Form
from tensorir.runtime.errors import DiagnosticError, refuse
from tensorir.runtime.memory import SIZES, RecentCache

# Arguments whose axes have names, xarray's DataArrays: turned to the order of declared dims, and results labelled.

# xarray is no dependency, and its types are not known here.


def is_labelled(value: Any) -> bool:
    """True if the axes of an array have names: whether it is a DataArray."""
    return hasattr(value, "dims") and hasattr(value, "coords")


def in_order(name: str, value: Any, kind: ParamType | None) -> Any:
    """The array of a DataArray, its axes as the parameter's dims; raises TI11 for other dims. Other arrays stay."""
    if isinstance(kind, TupleType):
        return tuple(in_order(*member) for member in members_of(name, value, kind))
    if not is_labelled(value) or not isinstance(kind, FieldType):
        return value
    dims = [a.name for a in kind.dims]
    if set(value.dims) != set(dims):
        wanted, have = ", ".join(dims) or "of a number", ", ".join(value.dims)
        message = f"'{name}' has the dims {wanted}, and this array has {have}."
        raise refuse("TI11", message, "rename its dims: array.rename({...}).")
    return value.transpose(*dims).data if dims else value.item()


def coordinates(values: Iterable[Any]) -> dict[str, Any]:
    """The coordinates along each dim, of the first array that has some."""
    known: dict[str, Any] = {}
    for array in (a for value in values for a in leaves(value) if is_labelled(a)):
        for d in array.dims:
            if d in array.coords:
                known.setdefault(str(d), array.coords[d].values)
    return known


def labelled(array: Any, dims: Dims, known: Mapping[str, Any]) -> Any:
    """A result as a DataArray: coordinates are those at its points, counted from 0."""
    import xarray

    here = {
        d: known[d][i.start : i.stop] for d, i in dims.items if d in known and i.start >= 0 and i.stop <= len(known[d])
    }
    return xarray.DataArray(array, dims=dims.names, coords=here)


# Where the fields of a call lie: how a program sees their memory, and how results come into it.

# What arrays are is known to the library that made them.


@dataclass(frozen=True)
class Host:
    """Memory that NumPy's arrays have."""

    def view(self, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, bool]:
        """An array with its axes turned and padded as they lie, and whether it is the array's own memory.

        Such a view does not keep the memory: whoever remembers it looks whether the array is still there.
        """
        turned = _turn(np, array, order, shape)
        is_own = np.may_share_memory(turned, array) and turned.flags.writeable
        view = backend().view(_disown(turned) if is_own else turned)
        return view, is_own and view.unsafe_buffer_pointer() == turned.ctypes.data

    def store(self, target: Any, result: Any) -> None:
        np.copyto(target, np.asarray(result))


@dataclass(frozen=True)
class Accelerator:
    """Memory of a GPU, which CuPy's arrays have: programs see it through DLPack, and nothing goes through the host."""

    arrays: Any
    """The module `cupy`."""

    def view(self, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, bool]:
        turned = _turn(self.arrays, array, order, shape)
        return backend().view(turned), turned.data.ptr == array.data.ptr

    def store(self, target: Any, result: Any) -> None:
        target[...] = self.arrays.from_dlpack(result)


def _disown(array: Any) -> Any:
    """The memory of an array in one piece, as an array that does not keep it."""
    memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.frombuffer(memory, array.dtype).reshape(array.shape) if array.nbytes else array


def _turn(arrays: Any, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The array with its axes in the order of memory, in one piece: its own memory, or a copy."""
    turned = array.transpose(order)
    if turned.shape == shape or not shape:
        return arrays.ascontiguousarray(turned).reshape(turned.shape)
    strides = [array.itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return arrays.lib.stride_tricks.as_strided(turned, shape, tuple(reversed(strides)))


@dataclass(frozen=True, slots=True)
class Call:
    """The key of a variant: fields with their domain and strides, numbers that sizes depend on, and offsets."""

    fields: Mapping[str, tuple[str, tuple[int, ...]]]
    numbers: Mapping[str, Any]
    offsets: Mapping[str, int]
    """By name, the identity of what was passed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program compiled for calls of one kind: why it came, and the seconds until it could run."""

    program: str
    why: str
    call: Call
    seconds: float

    def __str__(self) -> str:
        return f"{self.program}: {self.why} ({self.seconds:.2f} s)"


def reason(call: Call, before: Sequence[Call]) -> str:
    """The differences between a call and that of the calls before with the fewest, as text for the log."""
    if not before:
        return "its first call"
    each = (tuple(_compare(call, other)) for other in reversed(before))
    return "; ".join(t for _, t in min(each, key=lambda d: sum(w for w, _ in d))) or "calls of more kinds than are kept"


def _compare(call: Call, before: Call) -> Iterator[tuple[int, str]]:
    """Differences of two calls, with their amounts: strides follow from a domain."""
    for name, (domain, strides) in call.fields.items():
        old_domain, old_strides = before.fields[name]
        if domain != old_domain:
            yield 2, f"'{name}' is on {domain}, and was on {old_domain}"
        elif strides != old_strides:
            yield 1, f"'{name}' lies with the strides {strides}, and lay with {old_strides}"
    for name, number in call.numbers.items():
        if name in before.numbers and number != before.numbers[name]:
            yield 1, f"'{name}' is {number}, and was {before.numbers[name]}"
    for name, identity in call.offsets.items():
        if identity != before.offsets.get(name):
            yield 1, f"the offset '{name}' leads through another table"


# Programs that run on fields: specialised once per set of sizes, results copied into the caller's fields.
#
# A call finds its program by the domains of its fields and by the scalars that sizes were made of. Everything is
# computed before anything is written, into buffers that stay with the program; then each result is copied once into
# its field.

# What programs evaluate to is of many kinds, which only running tells.


VIEWS = 4
"""Of how many fields each parameter remembers the view: models swap time levels."""
FIELDS = 1024
"""Of how many fields each program remembers how they lie."""

_LOG = logging.getLogger("tensorir.iterator")


@dataclass(frozen=True, slots=True)
class _Input:
    """A parameter of the fencil: its place in a call, and a number's type or how a field lies in memory."""

    name: str
    place: int
    dtype: Any
    layout: Layout | None


@dataclass(frozen=True, slots=True)
class _Output:
    """A result: where its field is in a call, the part that is stored, and the order of its axes."""

    name: str
    place: int
    where: tuple[slice, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: Any


@dataclass(eq=False)
class _Ready:
    """A specialised program, compiled, and where its inputs and outputs are in a call's flat arguments."""

    special: Specialised
    call: Any
    inputs: tuple[_Input, ...]
    outputs: tuple[_Output, ...]
    memory: Host | Accelerator
    leaves: tuple[Leaf, ...]
    in_order: Callable[[], Specialised]
    """The program for arrays whose axes are in the order of their dims, whatever the memory of the fields is."""
    seen: dict[str, dict[int, tuple[Any, Any]]] = field(default_factory=dict[str, "dict[int, tuple[Any, Any]]"])
    """By parameter, arrays of earlier calls and their views: most programs are called with the same fields again."""
    spare: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Buffers that nobody holds: the next call's results are written there."""

    def run(self, flat: list[Any]) -> None:
        """Run on the flat arguments of a call, and store the results in the fields among them.

        XLA writes into the buffers of an earlier call, which are copied into the fields and kept for the next one.
        """
        arguments = {one.name: self._input(one, flat[one.place]) for one in self.inputs}
        try:
            arguments.update(self.spare.pop())  # the buffers of one call belong to one thread
        except IndexError:
            beside = next((arguments[one.name] for one in self.inputs if one.layout is not None), None)
            arguments.update({o.name: backend().blank(o.shape, o.dtype, beside) for o in self.outputs})
        results = self.call(**arguments)
        for o in self.outputs:
            target = array_of(flat[o.place])[(*o.where, ...)].transpose(o.order)
            self.memory.store(target, results[o.name])
        self.spare.append(results)

    @cached_property
    def form(self) -> Form:
        """The program as a pure function of arrays in the order of their dims, with places of inputs and outputs."""
        special = self.in_order()
        assert special.fencil is not None
        call = compiled(special)
        place = {leaf.name: k for k, leaf in enumerate(self.leaves)}
        numbers = {n: None if self.leaves[place[n]].dims else DTYPES[self.leaves[place[n]].element] for n in place}
        inputs = tuple((n, place[n], numbers[n]) for n in special.inputs)
        outputs = tuple((o.name, place[o.leaf], slices(self.leaves[place[o.leaf]], o.box)) for o in special.outputs)
        return Form(call, inputs, outputs)

    @cached_property
    def fields(self) -> dict[int, tuple[str, Dims]]:
        """The fields that are read or stored: by place, what they are called, and their dims."""
        touched = {*(one.place for one in self.inputs), *(o.place for o in self.outputs)}
        return {k: (leaf.name, leaf.dims) for k, leaf in enumerate(self.leaves) if leaf.dims and k in touched}

    def _input(self, one: _Input, value: Any) -> Any:
        """The array that the program takes for an argument: a number in its element type, or a view of a field in the
        order of its axes in memory.

        Views of up to `VIEWS` arrays are cached by identity. Raises TI11 for a number that the type cannot hold.
        """
        if one.layout is None:
            number, element = getattr(value, "value", value), scalar_of(one.dtype)
            if element is not None and not element.holds(number):
                message = f"'{one.name}' is {element}, which cannot hold {number}."
                raise refuse("TI11", message, "declare a wider type.")
            return np.asarray(number, one.dtype)
        array = array_of(value)
        views = self.seen.setdefault(one.name, {})
        seen = views.get(id(array))
        if seen is not None and seen[0]() is array:
            return seen[1]
        view, is_own = self.memory.view(array, one.layout.order, one.layout.shape)
        if is_own:
            if len(views) >= VIEWS:
                views.pop(next(iter(views)), None)
            views[id(array)] = weakref.ref(array), view
        return view


@dataclass(eq=False)
class Runner:
    """A program as a callable on fields."""

    program: Program
    options: Options
    column: str | None = None
    memory: Host | Accelerator = field(default_factory=Host)
    programs: RecentCache[Any, _Ready | None] = field(default_factory=lambda: RecentCache("iterator programs", SIZES))
    scalars: dict[Any, tuple[int, ...]] = field(default_factory=dict[Any, tuple[int, ...]])
    """By the domains of the fields: the places of the scalars that tell programs apart."""
    variants: deque[Variant] = field(default_factory=lambda: deque[Variant](maxlen=SIZES))
    """What was compiled, and why."""
    kinds: dict[Any, int] = field(default_factory=dict[Any, int])
    """The domains and strides of fields, numbered."""
    fields: dict[int, tuple[Any, int]] = field(default_factory=dict[int, "tuple[Any, int]"])
    """Fields of earlier calls by identity, with the number of how they lie."""
    providers: RecentCache[Any, tuple[Any, Mapping[str, Target]]] = field(
        default_factory=lambda: RecentCache("offset providers", SIZES)
    )

    def __call__(self, *args: Any, offset_provider: Any = None, **options: Any) -> None:
        """Run the program on fields and numbers, which it stores into; compiled at the first call of each kind, and
        noted in `variants`.
        """
        provider = offset_provider or {}
        flat, began = flatten(args), perf_counter()
        try:
            ready, why = self.find(flat, args, provider)
            self._run(ready, flat, provider)
        except DiagnosticError as problem:
            raise located(problem, self.program.name) from None
        if why is not None:
            variant = Variant(self.program.name, why[0], why[1], perf_counter() - began)
            self.variants.append(variant)
            _LOG.info("compiled %s", variant)

    def _run(self, ready: _Ready | None, flat: list[Any], provider: Any) -> None:
        """Run a variant (None: nothing is stored), and put the call on the tape of a step that is being recorded."""
        if ready is None:
            return
        tape = TAPE.get()
        if tape is None:
            ready.run(flat)
            return
        stored = {o.place for o in ready.outputs}
        tables = {n: table for n, (table, _) in ready.special.tables.items()}
        tape.run(self.program.name, ready.fields, flat, stored, tables, provider, ready.form, lambda: ready.run(flat))

    def find(
        self, flat: list[Any], args: tuple[Any, ...], provider: Any
    ) -> tuple[_Ready | None, tuple[str, Call] | None]:
        """The variant for a call; and why it was made, and for which call, where it is a new one."""
        key = (
            tuple([self._kind(a) if hasattr(a, "ndarray") else None for a in flat]),
            tuple([(n, id(t)) for n, t in provider.items()]),
        )
        places = self.scalars.get(key, ())
        full = (key, tuple([plain(flat[k]) for k in places]))
        if full in self.programs:
            return self.programs.get(full), None
        every = self._make(key, flat, args, provider)
        full = (key, tuple([plain(flat[k]) for k in self.scalars[key]]))
        fields = {o.name: (str(o.dims), array_of(a).strides) for o, a in zip(every, flat, strict=True) if o.dims}
        call = Call(fields, {every[k].name: plain(flat[k]) for k in self.scalars[key]}, dict(key[1]))
        return self.programs.get(full), (reason(call, [v.call for v in self.variants]), call)

    def _kind(self, field: Any) -> int:
        """A number for the domain and the strides of a field: to compare domains takes longer than a small program."""
        known = self.fields.get(id(field))
        if known is not None and known[0]() is field:
            return known[1]
        kind = self.kinds.setdefault((field.domain, field.ndarray.strides), len(self.kinds))
        if len(self.fields) >= FIELDS:
            self.fields.clear()
        self.fields[id(field)] = weakref.ref(field), kind
        return kind

    def target(self, provider: Any) -> Mapping[str, Target]:
        """The offsets of a provider; tables are read once."""
        key = tuple((n, id(t)) for n, t in provider.items())
        return self.providers.of(key, lambda: (dict(provider), offsets(provider)))[1]

    def _make(self, key: Any, flat: list[Any], args: tuple[Any, ...], provider: Any) -> list[Leaf]:
        """Make the variant for a call; gives the leaves that its flat arguments are."""
        trees = {p.name: leaf_tree(p.name, a, p.type) for p, a in zip(self.program.params, args, strict=True)}
        every = [leaf for tree in trees.values() for leaf in leaves(tree)]
        layouts = [layout_of(array_of(a)) if leaf.dims else None for a, leaf in zip(flat, every, strict=True)]
        laid = {leaf.name: _lay_out(leaf, layout) for leaf, layout in zip(every, layouts, strict=True)}
        turned = {name: tree_map(lambda leaf: laid[leaf.name], tree) for name, tree in trees.items()}
        target = self.target(provider)

        def specialised(trees: Mapping[str, Any]) -> Specialised:
            return specialise(self.program, trees, target, self.column, self.options)

        special = specialised(turned)
        place = {leaf.name: k for k, leaf in enumerate(every)}
        used = {place[n] for n in special.used} | set(self.scalars.get(key, ()))
        self.scalars[key] = tuple(sorted(used))
        ready = None
        if special.fencil is not None:
            inputs = tuple(
                _Input(
                    n, place[n], DTYPES[every[place[n]].element],
                    None if every[place[n]].dims is None else layouts[place[n]] or Layout((), ()),
                )
                for n in special.inputs
            )  # fmt: skip
            outputs: list[_Output] = []
            for o in special.outputs:
                k = place[o.leaf]
                order = (layouts[k] or Layout(tuple(range(len(o.box))), ())).order
                ends = list(o.box.values())
                shape = tuple(ends[axis][1] - ends[axis][0] for axis in order)
                outputs.append(_Output(o.name, k, slices(every[k], o.box), order, shape, DTYPES[every[k].element]))
            call = compiled(special, donate=[o.name for o in outputs])
            same = all(
                at is None or leaf.dims is None or at == Layout(tuple(range(len(at.order))), leaf.dims.shape)
                for at, leaf in zip(layouts, every, strict=True)
            )
            in_order = (lambda: special) if same else (lambda: specialised(trees))
            ready = _Ready(special, call, inputs, tuple(outputs), self.memory, tuple(every), in_order)
        self.programs.put((key, tuple([plain(flat[k]) for k in self.scalars[key]])), ready)
        return every


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of an array in memory: its axes from the slowest to the fastest, and their extents with padding."""

    order: tuple[int, ...]
    shape: tuple[int, ...]


def layout_of(array: Any) -> Layout:
    """The layout of an array in memory; without padding where its memory ends before that of the last row."""
    order = tuple(sorted(range(array.ndim), key=lambda k: (-array.strides[k], array.shape[k])))
    extents = [array.shape[k] for k in order]
    strides = [array.strides[k] for k in order]
    plain = Layout(order, tuple(extents))
    if not array.size or strides[-1] != array.itemsize:
        return plain
    padded = list(extents)
    for k in range(len(order) - 1, 0, -1):
        extent, left = divmod(strides[k - 1], strides[k])
        if left or extent < extents[k]:
            return plain
        padded[k] = extent
    owner = base = array
    while (base := getattr(base, "base", None)) is not None:
        owner = base if isinstance(base, np.ndarray) else owner
    if not isinstance(array, np.ndarray):
        return plain
    first, last = array.ctypes.data, array.ctypes.data + int(np.prod(padded)) * array.itemsize
    inside = owner.ctypes.data <= first and last <= owner.ctypes.data + owner.nbytes
    return Layout(order, tuple(padded)) if inside and owner.flags.c_contiguous else plain


def _lay_out(leaf: Leaf, layout: Layout | None) -> Leaf:
    """A leaf with its dims in the order and intervals of its memory, from the layout of the field that is passed (None:
    unknown).
    """
    if layout is None or leaf.dims is None:
        return leaf
    items = [leaf.dims.items[k] for k in layout.order]
    dims = [(n, Interval(i.start, i.start + e)) for (n, i), e in zip(items, layout.shape, strict=True)]
    return replace(leaf, layout=Dims(tuple(dims)))


def slices(leaf: Any, box: Mapping[str, tuple[int, int]]) -> tuple[slice, ...]:
    """The part of the array of a leaf that is a box."""
    return tuple(slice(box[d][0] - i.start, box[d][1] - i.start) for d, i in leaf.dims.items)


def flatten(args: tuple[Any, ...]) -> list[Any]:
    if not any(isinstance(a, tuple) for a in args):
        return list(args)
    return [leaf for a in args for leaf in (flatten(a) if isinstance(a, tuple) else (a,))]


def array_of(field: Any) -> Any:
    """The array of a field."""
    return field.ndarray if hasattr(field, "ndarray") else np.asarray(field)


def plain(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x
