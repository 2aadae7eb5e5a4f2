"""The lift of Tile IR: a kernel and its launch as a pure tensor program, differentiable, on every device of XLA.

What a launch tells (extents, strides, integers, the grid) is evaluated; the rest is translated into a region of tiles
(`translation`), and all blocks run at once (`tensorir.lifting.batched`).

>>> import numpy as np
>>> from tensorir.tile import parse
>>> module = parse('''
... entry @twice(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
...   %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
...   %w = make_tensor_view %q, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
...   %a = make_partition_view %v : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>
...   %b = make_partition_view %w : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>
...   %i, %j, %k = get_tile_block_id : tile<i32>
...   %x, %t = load_view_tko weak %a[%i] : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>, tile<i32>
...     -> tile<4xf32>, token
...   %y = addf %x, %x : tile<4xf32>
...   %u = store_view_tko weak %y, %b[%i] token = %t
...     : tile<4xf32>, partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>, tile<i32> -> token
... }''')
>>> x = np.arange(8, dtype=np.float32)
>>> p = lift(module, grid=2, args=(x, x))
>>> print(p)
twice(p: tensor<float32, q_0[0:8]>, q: tensor<float32, q_0[0:8]>) {
  q ← p + p;
}
>>> p(x, None)[0]
array([ 0.,  2.,  4.,  6.,  8., 10., 12., 14.], dtype=float32)
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType, scalar_of
from tensorir.lifting.assemble import Built, Shown
from tensorir.lifting.batched.online import ONLINE
from tensorir.lifting.batched.program import Argument as Passed
from tensorir.lifting.batched.program import Batched, Unspecified, batched
from tensorir.lifting.emission.tensors import converted, renamed
from tensorir.lifting.loops.report import Decision, Report, differences
from tensorir.lifting.nests.nest import Loop
from tensorir.lifting.nests.terms import Number as Term
from tensorir.lifting.program import Argument, Lifted
from tensorir.lifting.region.nodes import Atomic, For, Write, walk
from tensorir.passes.pipeline import Stage
from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tile.interpret.launch import entry_of, grid_of
from tensorir.tile.lift.memory import FILLS
from tensorir.tile.lift.translation import Key, Mode, Signature, Translated, signature, translated
from tensorir.tile.lift.values import Memory
from tensorir.tile.nodes import Module

__all__ = ["lift"]


def lift(
    module: Module, *, entry: str | None = None, grid: Any = (1, 1, 1), args: Sequence[Any] | None = None,
    numerics: str = "fast", on_hazard: str = "error", raise_online: bool = False,
) -> Lifted:  # fmt: skip
    """An entry of a Tile IR module on a grid as a pure tensor program: a callable on arrays, with text and report.

    `args` are arrays and numbers as `ti.tile.interpret` takes them, or whatever has a shape and a dtype in the place of
    an array: they tell the program, their contents do not. `p(*args)` takes as many and gives the arrays that the
    kernel writes, in order; calls with other shapes, or other integers, are other programs, each kept. Floats are
    arguments like arrays. `on_hazard` says what becomes of races between blocks that are proven: "error", or
    "sequential" (blocks run in order, with a note); `numerics="exact"` keeps the order of sums. With
    `raise_online`, loops that scale sums by the largest element so far, as flash attention does, are the plain form:
    another rounding, and as much memory as that takes; where there is none, the report has a note. Raises
    TL40 for what no tensor program says, TL41 for a launch that the kernel's own assumptions contradict, and TL12 for
    races.
    """
    if on_hazard not in ("error", "sequential"):
        raise refuse("TA07", f"on_hazard is 'error' or 'sequential', not {on_hazard!r}.")
    if raise_online and numerics == "exact":
        help = "leave one of the two out."
        raise refuse("TA07", "raise_online rounds otherwise than the kernel does.", help)
    chosen = entry_of(module, entry)
    extents = grid_of(chosen, grid)
    if args is None:
        help = "pass args=(...): arrays, or shapes with types, and numbers."
        raise refuse("TK02", "a kernel is lifted for arguments.", help, at=chosen.span)
    form = signature(chosen, args)
    exact = numerics == "exact"

    prepared: dict[Key, Built] = {}

    def build(key: Key, checked: bool, undefined: bool) -> Built:
        if not (checked or undefined) and key in prepared:
            return prepared.pop(key)
        given, mode = form.given(key), Mode(checked, exact, undefined)
        region = translated(module, chosen, extents, given, mode)
        unspecified: Unspecified | None = None
        if undefined and region.padded is not None:
            filled = [translated(module, chosen, extents, given, replace(mode, fill=k)).region for k in range(FILLS)]
            unspecified = Unspecified("a value that padding leaves unspecified", region.padded, filled)
        made = batched(region.region, _passed(form, region), checked, exact, on_hazard, raise_online, unspecified)
        built = _built(form, made, region, exact)
        if raise_online and all(reason != ONLINE for _, _, reason in made.decided):
            built.report.note(
                "raise_online: no loop scales sums by the largest element so far; the program is as without it."
            )
        return built

    key = form.key(args)
    first = prepared[key] = build(key, False, False)
    written = set(first.outputs)
    arguments = [replace(a, written=k in written) for k, a in enumerate(form.arguments)]
    made = Lifted(first.fencil.name, arguments, lambda values: _key(form, key, values), build, None, numerics)
    made.keeps_nan, made.key_at = True, lambda _: key
    made.at(key)
    options = {"numerics": numerics, "on_hazard": on_hazard, "raise_online": raise_online}
    made.again = partial(lift, module, entry=entry, grid=grid, args=args, **options)
    return made


def _key(form: Signature, first: Key, values: Sequence[Any]) -> Key:
    """The key of a call; an array that is only written may be left out, and has the shape that it was lifted with."""
    return tuple(k if v is None else n for k, v, n in zip(first, values, form.key(values), strict=True))


def _built(form: Signature, made: Batched, region: Translated, exact: bool) -> Built:
    report = Report(numerics=() if exact else differences(made.fencil, made.merged))
    for node, strategy, reason in made.decided:
        dim, title = (node.dim, node.title) if isinstance(node, For) else ("loop", "loop")
        zero = Term(0, INT32)
        loop = Loop(dim, zero, zero, (), span=getattr(node, "span", NOWHERE), title=title)
        report.add(Decision(loop, strategy, reason))
    for note in (*made.notes, *region.notes):
        report.note(note)
    names = tuple(a.name for a in form.arguments)
    outputs = tuple(k for k, n in enumerate(names) if n in made.written)
    stores: dict[str, list[Span]] = {}
    for node in walk(region.region.body):
        if isinstance(node, Write | Atomic):
            stores.setdefault(node.buffer.name, []).append(node.span)
    only = {name: spans[0] for name, spans in stores.items() if len(spans) == 1}
    shown = Shown(lambda: region.region)
    stages = (Stage("schedule", "blocks are dims in front of those of tiles", shown, made.fencil),)
    return Built(made.fencil, names, outputs, report, made.unchecked, stages=stages, stores=only)


def _passed(form: Signature, region: Translated) -> dict[str, Passed]:
    """The parameters of the program, and how each is the buffer of the region."""
    found: dict[str, Passed] = {}
    for a in form.arguments:
        memory = region.memories.get(a.name)
        if memory is not None:
            found[a.name] = _parameter(a, memory)
    return found


def _parameter(a: Argument, memory: Memory) -> Passed:
    element = scalar_of(a.dtype)
    assert element is not None
    names = [f"{a.name}_{k}" for k in range(len(memory.shape))]
    dims = Dims(tuple((n, Interval(0, e)) for n, e in zip(names, memory.shape, strict=True)))

    def taken(x: Expr) -> Expr:
        x = _as(x, memory.scalar)
        return _flattened(x, names) if memory.flat else x

    def given(x: Expr) -> Expr:
        x = _unflattened(x, names, memory.shape) if memory.flat else x
        return _as(x, element)

    return Passed(TensorType(element, dims), taken, given)


def _as(x: Expr, scalar: Scalar) -> Expr:
    """Elements of memory as those of an array as wide, with a sign or without."""
    (found,) = x.tensor.leaves
    if found == scalar:
        return x
    if scalar == BOOL:
        return call("not_eq", x, literal(0, found))
    return converted(x, scalar) if found == BOOL else call("bitcast", x, static=(scalar,))


def _flattened(x: Expr, names: Sequence[str]) -> Expr:
    """The elements row by row, along the first of the names."""
    one = names[0]
    for n in names[1:]:
        x = call("merge_dims", x, static=(one, n, f"{one}.{n}"))
        one = f"{one}.{n}"
    return renamed(x, {one: names[0]})


def _unflattened(x: Expr, names: Sequence[str], shape: Sequence[int]) -> Expr:
    x = renamed(x, {names[0]: "row"})
    inner = 1
    for n in shape[1:]:
        inner *= n
    rest = "row"
    for k, n in enumerate(names[:-1]):
        x = call("split_dim", x, static=(rest, n, f"row{k}", inner))
        rest = f"row{k}"
        inner //= shape[k + 1] if k + 1 < len(shape) else 1
    return renamed(x, {rest: names[-1]})
