"""A launch: arguments and results, memory, globals, and every block of a grid."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Sequence
from numbers import Number
from typing import Any, NoReturn

import numpy as np

from tensorir.ir.types import scalar_of
from tensorir.runtime.errors import DiagnosticError, did_you_mean, refuse
from tensorir.tile.bytecode.bytes import ByteSpan
from tensorir.tile.interpret.elements import pack, unpack
from tensorir.tile.interpret.hazards import Watch
from tensorir.tile.interpret.machine import Block
from tensorir.tile.interpret.memory import Allocation, Launch, Memory
from tensorir.tile.nodes import Module, Operation, Value
from tensorir.tile.types import Element, Pointer, Tile

# Arguments of a launch: checked against the parameters of an entry, copied into memory, and given back as arrays.
#
# As many arguments as parameters are taken one by one; otherwise each array stands for its pointer, its extents and
# its strides in elements, as cuTile passes them.


MAX_EXTENT = 1 << 40
"""Bytes of memory that an array with strides may span."""


class Arguments:
    """The arguments of each block, and the arrays that a launch gives back."""

    entry: Operation
    memory: Memory

    def __init__(self, entry: Operation, given: Sequence[object], memory: Memory) -> None:
        self.entry, self.memory = entry, memory
        self.params: tuple[Value, ...] = entry.regions[0].arguments
        self.values: list[Any] = []
        self.arrays: list[tuple[Allocation, Any, tuple[int, ...], tuple[int, ...]]] = []
        arrays = [self._as_array(a) if _is_array(a) else None for a in given]
        raw = len(given) == len(self.params)
        needed = sum(1 if a is None else 1 + 2 * a.ndim for a in arrays)
        if not raw and needed != len(self.params):
            self._count(given, arrays, needed)
        for value, array in zip(given, arrays, strict=True):
            if array is None:
                self._scalar(value)
            else:
                self._array(array, raw)

    def _fail(self, code: str, message: str, help: str = "") -> NoReturn:
        raise refuse(code, message, help, at=self.entry.span)

    @property
    def name(self) -> str:
        return self.entry.attribute("sym_name")

    def _count(self, given: Sequence[object], arrays: Sequence[Any], needed: int) -> NoReturn:
        count = sum(a is not None for a in arrays)
        message = f"'{self.name}' takes {len(self.params)} parameters, and these {len(given)} arguments are {needed}"
        message += f": {count} arrays, each with its extents and strides." if count else "."
        self._fail("TK02", message, "pass one argument for each parameter, or arrays and numbers as cuTile takes them.")

    def _next(self) -> tuple[Value, str, Any]:
        param = self.params[len(self.values)]
        name = f"%{param.name or len(self.values)}"
        if not isinstance(param.type, Tile) or param.type.shape:
            self._fail(
                "TK03", f"the parameter {name} of '{self.name}' is of type {param.type}, which a launch cannot pass."
            )
        return param, name, param.type.element

    def _as_array(self, value: object) -> Any:
        if not hasattr(value, "dtype") and hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value)  # type: ignore[arg-type]
        try:
            return np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as problem:
            self._fail("TK03", f"an argument of '{self.name}' is no array: {str(problem).splitlines()[0]}.")

    def _array(self, array: Any, raw: bool) -> None:
        _, name, element = self._next()
        if not isinstance(element, Pointer):
            self._fail("TK03", f"the parameter {name} of '{self.name}' is of type {element}, and an array is passed.")
        pointee = element.pointee
        dtype, shape = array.dtype, array.shape
        array = self._elements(array, pointee, name)
        strides = tuple(s // array.itemsize for s in array.strides)
        if any(s < 0 for s in strides) or array.size == 0 or any(s % array.itemsize for s in array.strides):
            array = np.ascontiguousarray(array)
            strides = tuple(s // array.itemsize for s in array.strides)
        span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if array.size else 0
        if span * array.itemsize > MAX_EXTENT:
            self._fail("TK03", f"the array for {name} spans {span} elements of memory.", "copy it first.")
        flat = np.zeros(span, array.dtype)
        if array.size:
            # some narrow floats have no name that NumPy could make a view of: their bits are as good
            bits = f"u{array.itemsize}"
            steps = [s * array.itemsize for s in strides]
            np.lib.stride_tricks.as_strided(flat.view(bits), array.shape, steps)[...] = array.view(bits)
        stored = (
            pack(np.append(flat, flat[: len(flat) % 2] * 0), pointee).view(np.uint8)
            if pointee.bits == 4
            else flat.view(np.uint8)
        )
        allocation = self.memory.allocate(name, stored.size, pointee)
        allocation.given = True
        allocation.data[: stored.size] = stored
        self.arrays.append((allocation, dtype, shape, strides))
        self.values.append(np.array(allocation.base, np.int64))
        if not raw:
            for number in (*shape, *strides):
                self._scalar(number)

    def _elements(self, array: Any, pointee: Element, name: str) -> Any:
        """The array with elements as memory has them: of either signedness, narrow floats also as unsigned integers."""
        wanted = pointee.numpy
        if array.dtype == wanted:
            return array
        same_width = array.dtype.kind in "iub" and array.dtype.itemsize == wanted.itemsize
        if same_width and (pointee.is_integer or (array.dtype.kind == "u" and pointee.bits <= 16)):
            return array.view(wanted) if wanted.kind != "b" else array != 0
        self._fail(
            "TK04", f"the parameter {name} of '{self.name}' points to {pointee}, and the array holds {array.dtype}."
        )

    def _scalar(self, value: object) -> None:
        _, name, element = self._next()
        if not isinstance(value, Number | np.generic) and not (hasattr(value, "dtype") and np.ndim(value) == 0):  # type: ignore[arg-type]
            self._fail(
                "TK03",
                f"the parameter {name} of '{self.name}' needs a number, and this is of type {type(value).__name__}.",
            )
        number: Any = np.asarray(value).item()
        if isinstance(element, Pointer):
            self._fail(
                "TK03", f"the parameter {name} of '{self.name}' is a pointer, and a number is passed.", "pass an array."
            )
        if element.is_float:
            if isinstance(number, complex | bytes | str):
                self._fail(
                    "TK03",
                    f"the parameter {name} of '{self.name}' is of type {element}, and {number!r} is no such number.",
                )
            known = scalar_of(element.numpy)
            if known is not None and not known.holds(number):
                self._fail(
                    "TK03",
                    f"the parameter {name} of '{self.name}' is of type {element}, which {number!r} does not fit.",
                )
            self.values.append(np.asarray(float(number)).astype(element.numpy))
            return
        low, high = element.range[0], (1 << element.bits) - 1
        if (
            isinstance(number, complex | bytes | str)
            or number != number
            or abs(number) > 1 << 70
            or number != int(number)
            or not low <= number <= high
        ):
            self._fail(
                "TK03", f"the parameter {name} of '{self.name}' is of type {element}, which {number!r} does not fit."
            )
        bits = int(number) & ((1 << element.bits) - 1)
        self.values.append(
            np.array(bits, np.uint64).astype(np.bool_)
            if element.bits == 1
            else np.array(bits - (bits >> (element.bits - 1) << element.bits), element.numpy)
        )

    def results(self) -> list[Any]:
        """The arrays after a launch, in order."""
        found: list[Any] = []
        for allocation, dtype, shape, strides in self.arrays:
            raw, pointee = allocation.data[: allocation.size], allocation.element
            flat = unpack(raw, pointee) if pointee.bits == 4 else raw.view(dtype)
            count = int(np.prod(shape, dtype=np.int64))
            if not count:
                found.append(np.zeros(shape, dtype))
                continue
            steps = [s * flat.itemsize for s in strides]
            view = np.lib.stride_tricks.as_strided(flat.view(f"u{flat.itemsize}"), shape, steps)
            found.append(np.array(view).view(flat.dtype))
        return found


def _is_array(value: Any) -> bool:
    """True if an argument is an array, and no number."""
    return hasattr(value, "__dlpack__") and not isinstance(value, np.generic) and getattr(value, "ndim", 1) != 0


# A launch: memory, globals, and every block of a grid, one after the other or in turns.

MAX_BLOCKS = 1 << 31
"""Blocks of a grid along one axis."""
MAX_AXIS = (1 << 24) - 1


def interpret(
    module: Module,
    entry: str | None,
    args: Sequence[object],
    grid: Sequence[int] = (1, 1, 1),
    checked: bool = False,
    seed: int | None = None,
    say: Callable[[str], object] | None = None,
) -> list[Any]:
    """Run an entry of a module on a grid of blocks; the arrays among `args` come back as they are afterwards.

    `args` are arrays of any kind that DLPack knows, and numbers: one for each parameter, or as cuTile takes them, with
    each array standing for its pointer, extents and strides. They are never changed. Blocks run one after the other, or
    with a `seed` in turns that it decides. `say` takes what the program prints (standard output, if it is not given).

    `checked=True` raises with every finding: reads and writes that nothing orders, indices outside of an index space,
    unspecified values that reach an argument, assumptions and promises that do not hold, undefined results.

    >>> import numpy as np
    >>> from tensorir.tile import parse
    >>> module = parse('''
    ... entry @twice(%p: tile<ptr<f32>>) {
    ...   %v = make_tensor_view %p, shape = [4], strides = [1] : tensor_view<4xf32, strides=[1]>
    ...   %w = make_partition_view %v : partition_view<tile=(4), tensor_view<4xf32, strides=[1]>>
    ...   %i = constant <i32: 0> : tile<i32>
    ...   %x, %t = load_view_tko weak %w[%i] : partition_view<tile=(4), tensor_view<4xf32, strides=[1]>>, tile<i32>
    ...     -> tile<4xf32>, token
    ...   %y = addf %x, %x : tile<4xf32>
    ...   %u = store_view_tko weak %y, %w[%i] token = %t
    ...     : tile<4xf32>, partition_view<tile=(4), tensor_view<4xf32, strides=[1]>>, tile<i32> -> token
    ... }''')
    >>> interpret(module, "twice", [np.arange(4, dtype=np.float32)])
    [array([0., 2., 4., 6.], dtype=float32)]
    """
    chosen = entry_of(module, entry)
    extents = grid_of(chosen, grid)
    watch = Watch() if checked else None
    launch = Launch(module, extents, say or sys.stdout.write, watch)
    given = Arguments(chosen, args, launch.memory)
    if watch is not None:
        for allocation in launch.memory.allocations.values():
            watch.shadow(allocation, False)
    positions = [(x, y, z) for z in range(extents[2]) for y in range(extents[1]) for x in range(extents[0])]
    with np.errstate(all="ignore"):  # what overflows or is no number is a result here
        if seed is None:
            for position in positions:
                for _ in Block(launch, position).run(chosen, given.values):
                    pass
        else:
            _in_turns([Block(launch, p).run(chosen, given.values) for p in positions], random.Random(seed))
    if watch is not None:
        for allocation in launch.memory.allocations.values():
            if allocation.given:
                watch.left(allocation)
        if watch.findings:
            raise DiagnosticError(tuple(watch.findings.values()))
    return given.results()


def _in_turns(blocks: list[Generator[None]], order: random.Random) -> None:
    """Advance one block after the other, each to its next touch of memory."""
    while blocks:
        k = order.randrange(len(blocks))
        try:
            next(blocks[k])
        except StopIteration:
            blocks[k] = blocks[-1]
            blocks.pop()


def entry_of(module: Module, name: str | None) -> Operation:
    """The entry of a name; the only one where there is but one. Raises TK01 where it is not clear."""
    entries = module.entries
    if len(entries) == 1 and (name is None or isinstance(next(iter(entries.values())).span, ByteSpan)):
        # producers keep mangled names in bytecode: the only entry of a file is meant, whatever it is called there
        return next(iter(entries.values()))
    if name not in entries:
        said = "which entry is meant is not said." if name is None else f"there is no entry '{name}' in this module."
        raise refuse("TK01", said, did_you_mean(str(name), entries))
    return entries[name]


def grid_of(entry: Operation, grid: Any) -> tuple[int, int, int]:
    """A grid as three numbers; raises TK05 for what is none."""
    axes: Any = grid.tolist() if hasattr(grid, "tolist") else grid
    numbers: list[Any] = [*axes] if isinstance(axes, tuple | list | range) else [axes]
    numbers = [axis.tolist() if hasattr(axis, "tolist") else axis for axis in numbers]
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    if (
        not whole
        or not 1 <= len(numbers) <= 3
        or any(not 1 <= n <= MAX_AXIS for n in numbers)
        or np.prod(numbers, dtype=object) > MAX_BLOCKS
    ):
        message = (
            f"{tuple(numbers)} is no grid: it has one to three numbers, each from 1 to {MAX_AXIS}, at most 2^31 blocks."
        )
        raise refuse("TK05", message, at=entry.span)
    x, y, z = (int(n) for n in (*numbers, 1, 1, 1)[:3])
    return x, y, z
