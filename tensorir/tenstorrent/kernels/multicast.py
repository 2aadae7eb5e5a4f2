"""Loads that one core does for others of its row or column, in a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tensorir.tenstorrent.kernels.nodes import Program
from tensorir.tenstorrent.metal.cards import CARDS
from tensorir.tenstorrent.schedule import schedule
from tensorir.tenstorrent.traffic import lines_of, row_of

__all__ = ["Sender", "senders"]


@dataclass(eq=False, slots=True)
class Sender:
    """A multicast along a row or a column: its first core, how many others there are, how many of them have asked.

    `turn` counts the blocks that were sent, and `block` is the last of them.
    """

    first: int
    others: int
    asked: int = 0
    turn: int = 0
    block: Any = None


def senders(program: Program, cores: int | None) -> dict[tuple[int, int], Sender]:
    """The line of each core for each load that is multicast, by the identity of the statement."""
    if cores is not None:
        program = replace(program, func=schedule(program.func, cores))
    found: dict[tuple[int, int], Sender] = {}
    for load, line in lines_of(program, row_of(program, CARDS["wormhole"])).items():
        groups = [int(g) for g in line.groups]
        for group in set(groups):
            members = [core for core, g in enumerate(groups) if g == group]
            found |= dict.fromkeys(((load, core) for core in members), Sender(members[0], len(members) - 1))
    return found
