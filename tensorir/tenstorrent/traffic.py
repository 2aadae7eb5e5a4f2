"""What the kernels of all cores do, counted without running them: each move of a block, on which core, and where from.

A kernel is gone through once for all cores: a variable is an array, with one number for each time that the statement is
reached, core by core in the order of the text.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span
from tensorir.tenstorrent.kernels.nodes import Barrier, Bind, Branch, Loop, Op, Program, Sync, Work
from tensorir.tenstorrent.kinds import values
from tensorir.tenstorrent.metal.cards import Card
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import Box, operation

__all__ = ["Line", "Reached", "lines_of", "moves", "reached", "row_of", "starts_of"]

Numbers = np.ndarray[Any, Any]
MOST = 1 << 23
"""How many times a statement may be reached, on all cores together."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A statement, the core of each time that it is reached, and the values that variables have then."""

    op: Work
    core: Numbers
    known: dict[n.Var, Numbers]

    def count(self, cores: int) -> Numbers:
        """How many times each core reaches it."""
        return np.bincount(self.core, minlength=cores)

    @property
    def turn(self) -> Numbers:
        """The number of each time on its core."""
        first = np.searchsorted(self.core, self.core)
        return np.arange(self.core.size) - first


def reached(program: Program, role: str) -> list[Reached]:
    """The work of a kernel on the cores of the program's schedule.

    Raises TN20 where only a call, or a tile, tells how many times a loop runs or which branch is taken.
    """
    func, plan = program.func, schedule_of(program.func)
    start, count, wide, high = [p for p in func.params if p not in func.buffer_map][-4:]
    cores = np.arange(len(plan.shares))
    env: dict[n.Var, Numbers] = {
        start: np.array([first for first, _ in plan.shares]), count: np.array([many for _, many in plan.shares]),
        wide: np.full(cores.size, plan.grid[0]), high: np.full(cores.size, plan.grid[1]),
    }  # fmt: skip
    return list(_of(program[role].body, cores, env))


def _of(body: tuple[Op, ...], core: Numbers, env: dict[n.Var, Numbers]) -> Iterator[Reached]:
    env = dict(env)
    for op in body:
        match op:
            case Sync() | Barrier():
                pass
            case Work():
                yield Reached(op, core, dict(env))
            case Bind(var, value):
                found = values(value, env)
                if found is not None:
                    env[var] = np.broadcast_to(found, core.shape)
            case Loop(var, low, extent, inner):
                if not any(isinstance(x, Work | Loop | Branch) for x in inner):
                    continue
                first, many = (_number(x, env, core) for x in (low, extent))
                many = np.maximum(many, 0)
                if int(many.sum()) > MOST:
                    _unknown(
                        f"the loop over {var.name!r} runs {int(many.sum()):,} times", NOWHERE, f"{MOST:,} are counted."
                    )
                rows = np.repeat(np.arange(core.size), many)
                inside = {v: a[rows] for v, a in env.items()}
                step = np.arange(rows.size) - np.repeat(np.cumsum(many) - many, many)
                inside[var] = first[rows] + step
                yield from _of(inner, core[rows], inside)
            case Branch(condition, then, otherwise):
                holds = _number(condition, env, core).astype(bool)
                for side, taken in ((then, holds), (otherwise, ~holds)):
                    yield from _of(side, core[taken], {v: a[taken] for v, a in env.items()})


def _number(expr: n.Expr, env: dict[n.Var, Numbers], core: Numbers) -> Numbers:
    found = values(expr, env)
    if found is None:
        _unknown(f"{expr} is not known before a call", expr.span, "write it as a number in the kernel.")
    return np.broadcast_to(found, core.shape)


def _unknown(message: str, span: Span, help: str) -> NoReturn:
    raise DiagnosticError(
        Diagnostic("TN20", f"{message}, and what a program moves is counted before.", span, help=help)
    )


def moves(program: Program, role: str) -> list[tuple[Reached, Box, str, int]]:
    """The moves of the reader or the writer, with the box in memory, the circular buffer, and the bytes of a block."""
    blocks = {queue.block: queue for queue in program.buffers}
    found: list[tuple[Reached, Box, str, int]] = []
    for one in reached(program, role):
        statement = one.op.statement
        assert isinstance(statement, n.Evaluate) and isinstance(statement.value, n.Call)
        record: Any = operation(statement.value)
        box, tile = (record.src, record.dst) if role == "reader" else (record.dst, record.src)
        queue = blocks[tile.buffer]
        size = queue.pages * 32 * 32 * queue.block.dtype.element.numpy.itemsize
        found.append((one, box, queue.name, size))
    return found


def starts_of(one: Reached, starts: Iterable[n.Expr]) -> list[Numbers]:
    """Where a box starts along each dim, each time that its statement is reached."""
    return [np.broadcast_to(_number(s, one.known, one.core), one.core.shape) for s in starts]


@dataclass(frozen=True, slots=True)
class Line:
    """The cores that need a block at the same time: those of one "row", or of one "column"; `groups` has one each."""

    along: str
    groups: Numbers


def row_of(program: Program, card: Card) -> int:
    """The cores in a row of the grid: those that share a row of the kernel's blocks, where these make a rectangle."""
    plan = schedule_of(program.func)
    most = max(1, max(count for _, count in plan.shares))
    blocks = plan.grid[1 if plan.order == "column_major" else 0]
    return card.row(len(plan.shares), max(1, blocks // most))


def lines_of(program: Program, wide: int) -> dict[int, Line]:
    """The loads that cores of one row, or of one column, of the grid always do together, by identity of the statement.

    `wide` is the number of cores in a row. The n-th time of each core is that of the others, and of the same box.
    """
    cores = np.arange(len(schedule_of(program.func).shares))
    found: dict[int, Line] = {}
    for one, box, _, _ in moves(program, "reader"):
        times = one.count(cores.size)
        if times.min() != times.max() or times.max() == 0:
            continue
        each = int(times[0])
        starts = [s.reshape(-1, each) for s in starts_of(one, box.starts)]
        for along, groups in (("row", cores // wide), ("column", cores % wide)):
            firsts = np.array([np.flatnonzero(groups == g)[0] for g in groups])
            if (np.bincount(groups) > 1).any() and all((s == s[firsts]).all() for s in starts):
                found[id(one.op)] = Line(along, groups)
                break
    return found
