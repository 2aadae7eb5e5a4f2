"""Faults that the text of a program shows, before it runs.

They are those of the protocol of circular buffers, and reads by a kernel of a tile of its own before it writes there.
Where counts are known, which they are for a range of tiles, a run with counts alone decides about deadlocks: of every
core that does something else than the cores before it, and of shares that cores have in other schedules.
"""

from __future__ import annotations

from dataclasses import replace

from tensorir.tenstorrent.kernels.nodes import Bind, Branch, Loop, Program, ops_of
from tensorir.tenstorrent.kernels.protocol import Fault, protocol, tiles, unwritten
from tensorir.tenstorrent.kernels.simulate import stuck
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.trees import walk

__all__ = ["check"]


def check(program: Program) -> tuple[Fault, ...]:
    """The faults of a program's protocol; none, where every core comes to its end, whatever tiles it has.

    Raises TN14 and TN15 where the attributes of the program's kernel are no schedule of its grid.

    >>> from tensorir.tir import parse
    >>> from tensorir.tenstorrent.split import split
    >>> program = split(parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4, 32, 32)), B: T.Buffer((4, 32, 32))):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         with T.sblock("tilelang_root"):
    ...             a = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
    ...             T.copy(T.region(A[bx, 0, 0], 1, 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
    ...             T.copy(T.region(a[0, 0], 1, 32, 32), T.region(B[bx, 0, 0], 2, 1, 32, 32))
    ... ''')["main"])
    >>> check(program)
    ()
    >>> print(*check(program.edited("compute.cpp", 12)), sep="\\n")
    compute.cpp:12: write without reserve of CB_B: it writes 1 tile, and has reserved 0.
        pack_tile(CB_A, CB_B);
    compute.cpp:13: push without reserve of CB_B: it pushes 1 tile, and has reserved 0.
        cb_push_back(CB_B, 1);
    """
    if found := [*protocol(program), *unwritten(program)]:
        return tuple(dict.fromkeys(found))
    plan = schedule_of(program.func)
    each = _follows_the_number(program)
    cores: dict[tuple[int, int], tuple[int, tuple[int, int]]] = {}
    for core, (first, count) in enumerate(plan.shares):
        cores.setdefault((first if each else 0, count), (core, (first, count)))
    if (fault := stuck(program, cores.values())) is not None:
        return (fault,)
    # no tile, each tile alone and one tile more: what every other schedule is made of
    more = min(max(count for _, count in plan.shares) + 1, plan.tiles)
    for share in [(0, 0), *((tile, 1) for tile in range(plan.tiles if each else 1)), (0, more)]:
        if share not in cores and (fault := stuck(program, [(0, share)])) is not None:
            told = f"{fault.message[:-1]}, on a core with {tiles(share[1])} from tile {share[0]}."
            return (replace(fault, core=None, message=told),)
    return ()


def _follows_the_number(program: Program) -> bool:
    """Whether the number of a tile, and not only how many there are, decides what a kernel does."""
    start = [p for p in program.func.params if p not in program.func.buffer_map][-4]
    known: set[n.Var] = {start}

    def follows(*parts: n.Expr) -> bool:
        return any(isinstance(v, n.Var) and v in known for part in parts for v in walk(part))

    for kernel in program.kernels:
        for op in ops_of(kernel.body):
            match op:
                case Bind(var, value) if follows(value):
                    known.add(var)
                case Loop(_, low, extent) if follows(low, extent):
                    return True
                case Branch(condition) if follows(condition):
                    return True
                case _:
                    pass
    return False
