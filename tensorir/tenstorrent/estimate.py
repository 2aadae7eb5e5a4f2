"""The least cost of a program: bytes that each core moves, products that it computes, and the time for these."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from tensorir.nodes import occurrences
from tensorir.runtime.errors import DiagnosticError, refuse
from tensorir.tenstorrent.kernels.nodes import Estimate, Program
from tensorir.tenstorrent.metal.emit import emit
from tensorir.tenstorrent.metal.values import card_named
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tenstorrent.split import split
from tensorir.tenstorrent.traffic import lines_of, moves, reached, row_of, shards_of
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import Gemm, is_tile, operation
from tensorir.tir.trees import children

PHASES = 4
"""The passes of the matrix unit over a product at the fidelity that programs are written for, HiFi4."""


def estimate(program: Program, target: str = "wormhole", mcast: bool = False) -> Estimate:
    """The least cost of a program on a card, with the schedule that it has, as `program.estimate()`.

    A block is read from DRAM by every core that needs it; with `mcast` by one core of a row or column of the grid whose
    cores need it at the same time, which sends it to the others. Time is bounded by published figures: 288 GB/s of DRAM
    and 1 GHz for a Wormhole (n150, or a chip of an n300), 448 GB/s and 1.35 GHz for a Blackhole (p100a), networks of 32
    and 64 bytes a cycle, 2048 products a cycle at the lowest fidelity, of which HiFi4 takes four passes (Tenstorrent's
    specifications of these cards, and its documents of the instruction set). Latencies, and what the three kernels wait
    for each other, come on top. Raises TN18 for another card, TN20 where only a call tells what is moved, TN21 for a
    buffer in shards whose cores move other tiles than these.

    >>> from tensorir.tir import parse
    >>> program = split(parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((128, 32), "bfloat16"), B: T.Buffer((128, 32), "bfloat16")):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         for i, j in T.grid(32, 32):
    ...             B[bx * 32 + i, j] = T.exp(A[bx * 32 + i, j])
    ... ''')["main"])
    >>> print(program.estimate())
    64 cores of a wormhole: 16,384 bytes from and to DRAM, at most 2,048 into a core, 0 products
      DRAM                0.1 µs
      NoC                 0.1 µs
      matrix unit         0.0 µs
      vector unit         0.0 µs
      NoC binds
    """
    card = card_named(target)
    cores = len(schedule_of(program.func).shares)
    read, written, received, sent, kept, products, operations = (np.zeros(cores, np.int64) for _ in range(7))
    lines = lines_of(program, row_of(program, card)) if mcast else {}
    shards = shards_of(program, card)
    for one, box, _, size in moves(program, "reader"):
        bytes = one.count(cores) * size
        if box.buffer.data in shards:
            kept += bytes
            continue
        line = lines.get(id(one.op))
        if line is None:
            read += bytes
            continue
        groups = line.groups
        first = np.unique(groups, return_index=True)[1]
        others = np.ones(cores, bool)
        others[first] = False
        read[first] += bytes[first]
        sent[first] += bytes[first] * (np.bincount(groups)[groups[first]] > 1)
        received[others] += bytes[others]
    for one, box, _, size in moves(program, "writer"):
        if box.buffer.data in shards:
            kept += one.count(cores) * size
        else:
            written += one.count(cores) * size
    for one in reached(program, "compute"):
        by_matrix, by_vector = _work(one.op.statement)
        products += one.count(cores) * by_matrix
        operations += one.count(cores) * by_vector
    through = np.maximum(read + received, written + sent)
    seconds = {
        "DRAM": float(read.sum() + written.sum()) / card.dram,
        "NoC": float(through.max()) / (card.noc * card.clock),
        "matrix unit": float(products.max()) * PHASES / (card.products * card.clock),
        "vector unit": float(operations.max()) / (card.lanes * card.clock),
    }
    a, b, c, d, e, f, g = (tuple(map(int, x)) for x in (read, written, received, sent, kept, products, operations))
    return Estimate(card.name, a, b, c, d, e, f, g, seconds)


def _work(statement: n.Stmt) -> tuple[int, int]:
    """The products of the matrix unit, and the operations on elements, of one statement."""
    products = operations = 0
    pending: list[tuple[n.Stmt, int]] = [(statement, 1)]
    while pending:
        node, times = pending.pop()
        match node:
            case n.SeqStmt(parts):
                pending += [(part, times) for part in parts]
            case n.For(extent=n.IntImm(extent)):
                pending.append((node.body, times * extent))
            case n.AttrStmt(body=body) | n.For(body=body):
                pending.append((body, times))
            case n.BlockRealize():
                pending.append((node.block.body, times))
            case n.IfThenElse(_, then, _):
                pending.append((then, times))
            case n.BufferStore(_, value):
                operations += times * _operations(value)
            case n.Evaluate(n.Call() as call) if is_tile(call) and isinstance(record := operation(call), Gemm):
                columns = prod(e.value for e in record.c.extents[-1:] if isinstance(e, n.IntImm))
                products += times * columns * prod(e.value for e in record.a.extents if isinstance(e, n.IntImm))
            case _:
                pass
    return products, operations


def _operations(value: n.Expr) -> int:
    """The arithmetic, comparisons, choices and functions of a value, without those of the indices in it."""
    roots: list[n.Node] = [value]
    below = occurrences(roots, lambda node: () if isinstance(node, n.BufferLoad) else children(node))
    return sum(isinstance(node, n.BinaryOp | n.CmpOp | n.LogicalOp | n.Select | n.Call) for node in below)


@dataclass(frozen=True, slots=True)
class Choice:
    """The program that is fastest by its estimate, and the place of its kernel among those that were given."""

    program: Program
    estimate: Estimate
    place: int


def choose(kernels: Iterable[n.PrimFunc], target: str = "wormhole", mcast: bool = False) -> Choice:
    """Of kernels that compute the same in other blocks, the one whose program takes least by its estimate.

    Kernels that do not fit on the card are left out; of equal times the first is taken. Raises what `emit` says of the
    last one where none fits, TN20 for no kernel at all.
    """
    best: tuple[float, float, Choice] | None = None
    said: DiagnosticError | None = None
    for place, kernel in enumerate(kernels):
        try:
            program = split(kernel)
            emit(program, target)
        except DiagnosticError as caught:
            said = caught
            continue
        found = estimate(program, target, mcast)
        rank = max(found.seconds.values()), sum(found.seconds.values())
        if best is None or rank < best[:2]:
            best = (*rank, Choice(program, found, place))
    if best is not None:
        return best[2]
    if said is not None:
        raise said
    message = "there is no kernel to choose from."
    raise refuse("TN20", message, "give kernels that compute the same in other blocks.", at=n.NOWHERE)
