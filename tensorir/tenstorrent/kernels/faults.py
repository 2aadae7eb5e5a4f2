"""What can be wrong with the protocol of circular buffers, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorir.tenstorrent.kernels.nodes import MOVES, Op, Program, Role, Sync, Work
from tensorir.tenstorrent.kernels.printing import printed

__all__ = ["Fault", "fault_at", "tiles", "without_barrier"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a kernel: its kind, the file and the line, the circular buffer, the counts that do not fit.

    `kind` is "deadlock", "push without reserve", "pop without wait", "overflow", "read without wait", "write without
    reserve", "push without barrier", "pop without barrier", "end without barrier", "two producers", "two consumers",
    "left over", "unbalanced" or "read without write" (`buffer` is a tile).

    >>> print(Fault("overflow", "reader.cpp", 7, "cb_push_back(CB_A, 3);", "CB_A", {"room": 2}, "it holds 2 tiles."))
    reader.cpp:7: overflow of CB_A: it holds 2 tiles.
        cb_push_back(CB_A, 3);
    """

    kind: str
    file: str
    line: int
    text: str
    buffer: str
    counts: Mapping[str, int] = field(hash=False)
    message: str
    core: int | None = None
    waiting: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        of = f" of {self.buffer}" if self.buffer else ""
        on = "" if self.core is None else f" on core {self.core}"
        lines = [f"{self.file}:{self.line}: {self.kind}{of}{on}: {self.message}", f"    {self.text}"]
        return "\n".join([*lines, *(f"  {who}" for who in self.waiting)])


def tiles(count: int) -> str:
    """A number of tiles in words."""
    return "1 tile" if count == 1 else f"{count} tiles"


def fault_at(
    program: Program, op: Op, kind: str, buffer: str, counts: Mapping[str, int], message: str,
    core: int | None = None, waiting: tuple[str, ...] = (),
) -> Fault:  # fmt: skip
    """A fault at a statement."""
    for kernel in program.kernels:
        whole = printed(program, kernel)
        if (line := whole.lines.get(id(op))) is not None:
            text = whole.text.splitlines()[line - 1].strip()
            return Fault(kind, kernel.file, line, text, buffer, counts, message, core, waiting)
    raise AssertionError(op)


def without_barrier(program: Program, role: Role, op: Sync | Work, buffer: str, core: int | None = None) -> Fault:
    """A push or a pop of tiles that may still be on their way; or the work that is so where its kernel ends."""
    way = MOVES[role]
    match op:
        case Sync(action, _, count):
            done = "pushes" if action == "push" else "pops"
            told = f"it {done} {tiles(count)} whose {way} may not be done: no noc_async_{way}_barrier() stands between."
            return fault_at(program, op, f"{action} without barrier", buffer, {}, told, core)
        case Work():
            told = f"the kernel ends, and this {way} may not be done: no noc_async_{way}_barrier() stands behind it."
            return fault_at(program, op, "end without barrier", buffer, {}, told, core)
