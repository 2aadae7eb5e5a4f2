"""What a kernel is given when it runs: addresses of buffers, numbers, and the tiles of its core."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from tensorir.tenstorrent.kernels.expressions import Names, cpp_type
from tensorir.tenstorrent.kernels.nodes import Program
from tensorir.tenstorrent.kernels.printing import RESERVED, free
from tensorir.tenstorrent.persistent import RUNTIME_ARGS
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.walk import substitute, walk

__all__ = ["Argument", "Arguments", "Sent", "arguments_for"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A fact of how a block is multicast: who sends it, where from and where to, and the semaphores of both sides.

    `along` says whether it goes along a "row" or a "column" of the grid.
    """

    name: str
    along: str
    fact: str

    FACTS: ClassVar[tuple[str, ...]] = (
        "sends", "others", "next_x", "next_y", "last_x", "last_y", "first_x", "first_y", "ready", "there",
    )  # fmt: skip


Argument = n.Var | n.Buffer | Sent
"""What a kernel is given: a number, a buffer by its address, or a fact of a multicast."""


@dataclass(slots=True)
class Arguments:
    """The names of a kernel; those that are parameters are taken from its arguments, in the order of their first use.

    `fixed` are parameters that are known when the kernel is written.
    """

    parameters: frozenset[n.Var]
    fixed: dict[n.Var, n.Expr]
    taken: set[str]
    names: Names = field(default_factory=Names)
    given: list[Argument] = field(default_factory=list[Argument])

    def name(self, var: n.Var, least: int | None) -> None:
        """A name of the kernel's own text."""
        found = self.names.variables.get(var) or free(var.name, self.taken)
        self.names = self.names.with_variable(var, found, least)

    def known(self, expr: n.Expr) -> n.Expr:
        """An expression with what is fixed as numbers; its parameters are taken from the arguments."""
        made = substitute(expr, self.fixed)
        for part in walk(made):
            if isinstance(part, n.Var) and part in self.parameters:
                self.place(part)
        return made

    def place(self, thing: Argument) -> int:
        if thing not in self.given:
            self.given.append(thing)
        return self.given.index(thing)

    def bits(self, var: n.Var) -> str:
        """The argument that holds the bits of a float32."""
        self.place(var)
        return self.names.of(var)

    def lines(self) -> list[str]:
        """The declarations of what the kernel is given; a buffer's is its address."""
        made: list[str] = []
        for k, thing in enumerate(self.given):
            if isinstance(thing, Sent):
                made.append(f"    const uint32_t {thing.name}_{thing.fact} = get_arg_val<uint32_t>({k});")
                continue
            whole = isinstance(thing, n.Var) and thing.dtype.is_integer
            kind = cpp_type(thing.dtype) if whole else "uint32_t"
            name = self.names.of(thing) if isinstance(thing, n.Var) else f"{self.names.of(thing)}_address"
            made.append(f"    const {kind} {name} = get_arg_val<{kind}>({k});")
        return made


def arguments_for(program: Program, taken: Iterable[str]) -> Arguments:
    """Names for a kernel of a program: those of its parameters and buffers, beside names that are taken."""
    func = program.func
    numbers = [p for p in func.params if p not in func.buffer_map]
    grid = schedule_of(func).grid
    fixed: dict[n.Var, n.Expr] = {
        p: n.IntImm(size, p.dtype) for p, size in zip(numbers[-2:], grid[:2], strict=True) if p.name in RUNTIME_ARGS
    }
    made = Arguments(frozenset(numbers) - frozenset(fixed), fixed, {*RESERVED, *_CARD, *taken})
    for param in numbers:
        made.name(param, 0 if param in numbers[-4:] else None)
    buffers = {b: free(b.name, made.taken) for b in func.buffer_map.values()}
    made.names = Names(made.names.variables, buffers, made.names.least)
    return made


_CARD = ("r", "c", "t", "k", "m", "at", "tt", "kernel_main", "page", "word", "ones", "half")
"""Names that the text of a kernel has itself."""
