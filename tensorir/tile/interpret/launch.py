"""A launch: memory, globals, and every block of a grid, one after the other or in turns."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, did_you_mean
from tensorir.tile.bytecode.dump import ByteSpan
from tensorir.tile.interpret.arguments import Arguments
from tensorir.tile.interpret.hazards import Watch
from tensorir.tile.interpret.machine import Block
from tensorir.tile.interpret.memory import Allocation, Memory
from tensorir.tile.nodes import Module, Operation

__all__ = ["Launch", "entry_of", "grid_of", "interpret"]

MAX_BLOCKS = 1 << 31
"""Blocks of a grid along one axis."""
MAX_AXIS = (1 << 24) - 1


class Launch:
    """What the blocks of a launch share."""

    grid: tuple[int, int, int]
    say: Callable[[str], object]
    watch: Watch | None

    def __init__(
        self, module: Module, grid: tuple[int, int, int], say: Callable[[str], object], watch: Watch | None
    ) -> None:
        self.grid, self.say, self.watch = grid, say, watch
        self.memory: Memory = Memory()
        self.globals: dict[str, Allocation] = {}
        for name, op in module.globals.items():
            value: Any = op.attribute("value")
            data = np.ascontiguousarray(value.values).view(np.uint8).reshape(-1)
            allocation = self.memory.allocate(f"@{name}", data.size, value.type.element)
            allocation.data[: data.size] = data
            allocation.constant = bool(op.attribute("constant"))
            self.globals[name] = allocation


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
        raise DiagnosticError(Diagnostic("TK01", said, NOWHERE, help=did_you_mean(str(name), entries)))
    return entries[name]


def grid_of(entry: Operation, grid: Any) -> tuple[int, int, int]:
    """A grid as three numbers; raises TK05 for what is none."""
    numbers: list[Any] = [grid] if np.ndim(grid) == 0 else [*grid]
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers)
    if (
        not whole
        or not 1 <= len(numbers) <= 3
        or any(not 1 <= n <= MAX_AXIS for n in numbers)
        or np.prod(numbers, dtype=object) > MAX_BLOCKS
    ):
        message = (
            f"{tuple(numbers)} is no grid: it has one to three numbers, each from 1 to {MAX_AXIS}, at most 2^31 blocks."
        )
        raise DiagnosticError(Diagnostic("TK05", message, entry.span))
    x, y, z = (int(n) for n in (*numbers, 1, 1, 1)[:3])
    return x, y, z
