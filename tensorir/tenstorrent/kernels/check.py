"""Faults that the text of a program shows, before it runs.

They are those of the protocol of circular buffers, and reads by a kernel of a tile of its own before it writes there.
Where counts are known, which they are for a range of tiles, a run with counts alone decides about deadlocks.
"""

from __future__ import annotations

from tensorir.tenstorrent.kernels.faults import Fault
from tensorir.tenstorrent.kernels.nodes import Program
from tensorir.tenstorrent.kernels.protocol import protocol
from tensorir.tenstorrent.kernels.simulate import stuck
from tensorir.tenstorrent.kernels.unwritten import unwritten
from tensorir.tenstorrent.schedule import ranges

__all__ = ["check"]


def check(program: Program) -> tuple[Fault, ...]:
    """The faults of a program's protocol; none, where every schedule of every core comes to its end.

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
    longest = max(ranges(program.func), key=lambda pair: pair[1])
    fault = stuck(program, longest)
    return () if fault is None else (fault,)
