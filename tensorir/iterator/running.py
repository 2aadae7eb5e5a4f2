"""Programs that run on fields: specialised once per set of sizes, results copied into the caller's fields.

A call finds its program by the domains of its fields and by the scalars that sizes were made of. Everything is computed
before anything is written, into buffers that stay with the program; then each result is copied once into its field.
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from tensorir.backends import backend
from tensorir.ir.types import DTYPES, Dims, Interval, scalar_of
from tensorir.iterator.lift.arguments import leaf_tree, offsets
from tensorir.iterator.lift.compilation import compiled
from tensorir.iterator.lift.program import Leaf, Options, Specialised, specialise
from tensorir.iterator.lift.values import Target, leaves, tree_map
from tensorir.iterator.memory import Accelerator, Host
from tensorir.iterator.nodes import Program
from tensorir.iterator.recording import TAPE, Form
from tensorir.iterator.refusals import located, refused
from tensorir.iterator.variants import Call, Variant, reason
from tensorir.runtime.errors import DiagnosticError
from tensorir.runtime.memory import SIZES, RecentCache

__all__ = ["Runner"]

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
        """The program as a pure function."""
        special = self.in_order()
        assert special.fencil is not None
        call = compiled(special)
        place = {leaf.name: k for k, leaf in enumerate(self.leaves)}
        numbers = {n: None if self.leaves[place[n]].dims else DTYPES[self.leaves[place[n]].element] for n in place}
        inputs = tuple((n, place[n], numbers[n]) for n in special.inputs)
        outputs = tuple((o.name, place[o.leaf], _slices(self.leaves[place[o.leaf]], o.box)) for o in special.outputs)
        return Form(call, inputs, outputs)

    @cached_property
    def fields(self) -> dict[int, tuple[str, Dims]]:
        """The fields that are read or stored: by place, what they are called, and their dims."""
        touched = {*(one.place for one in self.inputs), *(o.place for o in self.outputs)}
        return {k: (leaf.name, leaf.dims) for k, leaf in enumerate(self.leaves) if leaf.dims and k in touched}

    def _input(self, one: _Input, value: Any) -> Any:
        if one.layout is None:
            number, element = getattr(value, "value", value), scalar_of(one.dtype)
            if element is not None and not element.holds(number):
                said = f"'{one.name}' is {element}, which cannot hold {number}."
                raise refused("TI11", said, help="declare a wider type.")
            return np.asarray(number, one.dtype)
        array = array_of(value)
        views = self.seen.setdefault(one.name, {})
        seen = views.get(id(array))
        if seen is not None and seen[0]() is array:
            return seen[1]
        view, own = self.memory.view(array, one.layout.order, one.layout.shape)
        if own:
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
    made: RecentCache[Any, _Ready | None] = field(default_factory=lambda: RecentCache("iterator programs", SIZES))
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
        try:
            self._called(args, offset_provider or {})
        except DiagnosticError as problem:
            raise located(problem, self.program.name) from None

    def _called(self, args: tuple[Any, ...], provider: Any) -> None:
        flat, began = flatten(args), perf_counter()
        ready, why = self.find(flat, args, provider)
        self._run(ready, flat, provider)
        if why is not None:
            variant = Variant(self.program.name, why[0], why[1], perf_counter() - began)
            self.variants.append(variant)
            _LOG.info("compiled %s", variant)

    def _run(self, ready: _Ready | None, flat: list[Any], provider: Any) -> None:
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
        if full in self.made:
            return self.made.get(full), None
        found = self._make(key, flat, args, provider)
        full = (key, tuple([plain(flat[k]) for k in self.scalars[key]]))
        fields = {o.name: (str(o.dims), array_of(a).strides) for o, a in zip(found, flat, strict=True) if o.dims}
        call = Call(fields, {found[k].name: plain(flat[k]) for k in self.scalars[key]}, dict(key[1]))
        return self.made.get(full), (reason(call, [v.call for v in self.variants]), call)

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
        found = [leaf for tree in trees.values() for leaf in leaves(tree)]
        layouts = [layout_of(array_of(a)) if leaf.dims else None for a, leaf in zip(flat, found, strict=True)]
        laid = {leaf.name: _laid_out(leaf, layout) for leaf, layout in zip(found, layouts, strict=True)}
        turned = {name: tree_map(lambda leaf: laid[leaf.name], tree) for name, tree in trees.items()}
        target = self.target(provider)

        def specialised(trees: Mapping[str, Any]) -> Specialised:
            return specialise(self.program, trees, target, self.column, self.options)

        special = specialised(turned)
        place = {leaf.name: k for k, leaf in enumerate(found)}
        used = {place[n] for n in special.used} | set(self.scalars.get(key, ()))
        self.scalars[key] = tuple(sorted(used))
        ready = None
        if special.fencil is not None:
            inputs = tuple(
                _Input(
                    n, place[n], DTYPES[found[place[n]].element],
                    None if found[place[n]].dims is None else layouts[place[n]] or Layout((), ()),
                )
                for n in special.inputs
            )  # fmt: skip
            outputs: list[_Output] = []
            for o in special.outputs:
                k = place[o.leaf]
                order = (layouts[k] or Layout(tuple(range(len(o.box))), ())).order
                ends = list(o.box.values())
                shape = tuple(ends[axis][1] - ends[axis][0] for axis in order)
                outputs.append(_Output(o.name, k, _slices(found[k], o.box), order, shape, DTYPES[found[k].element]))
            call = compiled(special, donate=[o.name for o in outputs])
            same = all(layout is None or _is_plain(layout, leaf) for layout, leaf in zip(layouts, found, strict=True))
            in_order = (lambda: special) if same else (lambda: specialised(trees))
            ready = _Ready(special, call, inputs, tuple(outputs), self.memory, tuple(found), in_order)
        self.made.put((key, tuple([plain(flat[k]) for k in self.scalars[key]])), ready)
        return found


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory: its axes from the slowest to the fastest, and their extents with what pads them."""

    order: tuple[int, ...]
    shape: tuple[int, ...]


def layout_of(array: Any) -> Layout:
    """How an array lies in memory; without padding where its memory ends before that of the last row."""
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


def _is_plain(layout: Layout, leaf: Leaf) -> bool:
    """Whether an array lies in the order of its dims, without padding."""
    return leaf.dims is None or (layout.order, layout.shape) == (tuple(range(len(layout.order))), leaf.dims.shape)


def _laid_out(leaf: Leaf, layout: Layout | None) -> Leaf:
    if layout is None or leaf.dims is None:
        return leaf
    items = [leaf.dims.items[k] for k in layout.order]
    dims = [(n, Interval(i.start, i.start + e)) for (n, i), e in zip(items, layout.shape, strict=True)]
    return replace(leaf, layout=Dims(tuple(dims)))


def _slices(leaf: Any, box: Mapping[str, tuple[int, int]]) -> tuple[slice, ...]:
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
