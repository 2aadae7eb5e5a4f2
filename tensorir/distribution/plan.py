"""The plan of a program on a mesh, in words: blocks, halos, senders, receivers, bytes.

>>> import tensorir as ti
>>> from tensorir.distribution.partition import Decomposition
>>> from tensorir.distribution.exchange import exchange
>>> from tensorir.distribution.local_program import localised
>>> from tensorir.integers.dims import Interval
>>> f = ti.parse("f(y: tensor<float, I[1:8]>, x: tensor<float, I[0:8]>) { y ← ⟪I, -1⟫(x) + x; }")
>>> local = localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)})
>>> print(DistributionPlan(local, exchange(local)))
f on 2 devices
I[0:8] along 'px' in 2 blocks of 4
x: 1 point before along I
px 0 → 1: x at I[3:4], 8 bytes
1 permute and 8 bytes a step
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from tensorir.distribution.exchange import Exchange, Message
from tensorir.distribution.local_program import Localised
from tensorir.distribution.mesh_exchange import MeshMessage
from tensorir.distribution.partition import Decomposition, Subdomains, blocks_of, subdomains_of
from tensorir.ir.nodes import Fencil
from tensorir.runtime.errors import Displayed, counted


@dataclass(frozen=True, slots=True)
class DistributionPlan(Displayed):
    """The programs that every device runs, and the halo exchange before them; printed as a table of messages and
    bytes.
    """

    _drawn_by: ClassVar[str] = "tensorir.inspect.devices:page_of"

    local: Localised
    exchange: Exchange

    @property
    def decompositions(self) -> tuple[Decomposition, ...]:
        return tuple(blocks_of(self.local.parts).values())

    @property
    def subdomains(self) -> tuple[Subdomains, ...]:
        """The dims of an unstructured mesh, dealt out by their owners."""
        return tuple(subdomains_of(self.local.parts).values())

    @property
    def programs(self) -> tuple[Fencil, ...]:
        """The programs of every device, in coordinates that count from the start of its block; folds come first."""
        return self.local.stages

    @property
    def messages(self) -> tuple[Message | MeshMessage, ...]:
        """Who sends what to whom along one axis of the mesh; each row of devices along it sends the same."""
        return self.exchange.messages

    @property
    def permutes(self) -> int:
        """The number of collective permutes in a step."""
        mesh = self.exchange.mesh
        along = 0 if mesh is None or mesh.all_to_all else mesh.collectives
        return along + sum(r.permutes for p in self.exchange.phases for r in p.rounds)

    @property
    def all_to_alls(self) -> int:
        """The number of `all_to_all` collectives in a step."""
        mesh = self.exchange.mesh
        return mesh.collectives if mesh is not None and mesh.all_to_all else 0

    @property
    def folds(self) -> int:
        """The number of folds whose partial results are combined over devices."""
        return len(self.local.combined)

    @property
    def bytes(self) -> int:
        """The bytes that all devices send in a step."""
        rows = {p.axis: self._devices // p.parts for p in self.local.parts.values()}
        return sum(m.bytes * rows[m.axis] for m in self.messages)

    @property
    def _devices(self) -> int:
        return math.prod({p.axis: p.parts for p in self.local.parts.values()}.values())

    def halos(self, field: str) -> dict[str, tuple[int, int]]:
        """By distributed dim, the widths (before, after) of the widest halo that a device receives of a field.

        Along a dim of a mesh all received points count as after the block.
        """
        halos: dict[str, tuple[int, int]] = {}
        received: Counter[tuple[str, int]] = Counter()
        for m in self.messages:
            if m.field != field:
                continue
            if isinstance(m, MeshMessage):
                received[m.dim, m.target] += len(m.points)
                halos[m.dim] = 0, max(received[d, k] for d, k in received if d == m.dim)
            else:
                before, after = halos.get(m.dim, (0, 0))
                size = len(blocks_of(self.local.parts)[m.dim].block(m.target))
                halos[m.dim] = max(before, -m.position), max(after, m.position + len(m.points) - size)
        return halos

    def __str__(self) -> str:
        """The decomposition, the halo widths by field, every message with its bytes, and the total traffic, a line
        each.
        """
        lines = [f"{self.local.program.name} on {counted(self._devices, 'device')}"]
        for p in self.decompositions:
            last = [len(b) for b in p.blocks()][-1]
            remainder = "" if p.even else f", the last of {last}"
            lines.append(f"{p.dim}{p.interval} along '{p.axis}' in {p.parts} blocks of {p.size}{remainder}")
        lines += map(str, self.subdomains)
        mesh = {p.dim for p in self.subdomains}
        for field in dict.fromkeys(v.field.name for v in self.local.views):
            sides = [
                f"{counted(k, 'point')} of others along {d} at most"
                if d in mesh
                else f"{counted(k, 'point')} {side} along {d}"
                for d, widths in self.halos(field).items()
                for k, side in zip(widths, ("before", "after"), strict=True)
                if k
            ]
            if sides:
                lines.append(f"{field}: {', '.join(sides)}")
        lines += [f"{m}, {m.bytes:,} bytes" for m in self.messages]
        sent = [counted(self.all_to_alls, "all_to_all")] if self.all_to_alls else []
        if self.permutes or not sent:
            sent.append(counted(self.permutes, "permute"))
        traffic = f"{', '.join(sent)} and {self.bytes:,} bytes a step"
        if self.folds:
            traffic += f", {counted(self.folds, 'fold')} over devices"
        return "\n".join([*lines, traffic])

    __repr__ = __str__
