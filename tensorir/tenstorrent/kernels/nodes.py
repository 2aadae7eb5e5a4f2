"""The programs of a core: what they do with circular buffers and with tiles, in order.

A circular buffer holds tiles of the hardware in the order in which its one producer pushes them and its one consumer
pops them. A program is a few statements: synchronisation, work on tiles (a statement of TIR), barriers behind which
reads or writes are done, loops, names, branches.

>>> Sync("push", "CB_A", 1)
Sync(action='push', buffer='CB_A', count=1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from tensorir.nodes import occurrences
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.trees import transform, walk

print_tensix = ExtensionPoint("the files of a program of Tensix kernels", "tensorir.tenstorrent.kernels.host", "files")
estimate_tensix = ExtensionPoint(
    "what a program of Tensix kernels costs at least", "tensorir.tenstorrent.estimate", "estimate"
)
place_tensix = ExtensionPoint(
    "the file and line that print a statement of Tensix kernels", "tensorir.tenstorrent.kernels.printing", "line_of"
)

Action: TypeAlias = Literal["reserve", "push", "wait", "pop"]
Role: TypeAlias = Literal["reader", "compute", "writer"]
ROLES: tuple[Role, Role, Role] = ("reader", "compute", "writer")
Way: TypeAlias = Literal["read", "write"]
MOVES: Mapping[Role, Way] = {"reader": "read", "writer": "write"}
"""What kernels do with memory; the work of these goes on while their text does, up to a barrier."""


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """A queue of tiles; what is moved at once is a `block` of `pages` tiles, and `capacity` tiles have room."""

    name: str
    block: n.Buffer
    pages: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Room for `count` tiles is reserved, or they are pushed, waited for, or popped, `unused` by the grid kernel."""

    action: Action
    buffer: str
    count: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    unused: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Work:
    """A statement on tiles. It reads the front blocks of `fronts` and writes the reserved block of `fills`."""

    statement: n.Stmt
    fronts: tuple[str, ...] = ()
    fills: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Barrier:
    """All reads from memory, or all writes to it, that the kernel has begun are done behind it."""

    way: Way
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bind:
    """`var` stands for `value` from here on."""

    var: n.Var
    value: n.Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """The body for start <= var < start + extent."""

    var: n.Var
    start: n.Expr
    extent: n.Expr
    body: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One of two bodies."""

    condition: n.Expr
    then: tuple[Op, ...]
    otherwise: tuple[Op, ...] = ()


Op: TypeAlias = Sync | Work | Barrier | Bind | Loop | Branch


@dataclass(frozen=True, slots=True)
class Kernel:
    """The program of one of the processors of a core; `tiles` are the buffers that it has for itself."""

    role: Role
    body: tuple[Op, ...]
    tiles: tuple[n.Buffer, ...] = ()

    @property
    def file(self) -> str:
        return f"{self.role}.cpp"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The least that a program costs on a card; counts have one entry for each core, in bytes or operations.

    `read` and `written` are bytes from and to DRAM, `received` and `sent` those from and to other cores, `kept` those
    that lie in the core's own shards and do not move, `products` multiplications of the matrix unit, `operations` those
    of the vector unit on elements. `seconds` is the least time by each limit, "DRAM", "NoC", "matrix unit" and "vector
    unit".
    """

    card: str
    read: tuple[int, ...]
    written: tuple[int, ...]
    received: tuple[int, ...]
    sent: tuple[int, ...]
    kept: tuple[int, ...]
    products: tuple[int, ...]
    operations: tuple[int, ...]
    seconds: dict[str, float]

    @property
    def binds(self) -> str:
        """The limit that the program reaches first."""
        return max(self.seconds, key=lambda limit: self.seconds[limit])

    @property
    def dram(self) -> int:
        """The bytes from and to DRAM, of all cores."""
        return sum(self.read) + sum(self.written)

    def __str__(self) -> str:
        lines = [
            f"{len(self.read)} cores of a {self.card}: {self.dram:,} bytes from and to DRAM, at most "
            f"{max(a + b for a, b in zip(self.read, self.received, strict=True)):,} into a core, "
            f"{sum(self.products):,} products" + (f", {sum(self.kept):,} bytes in shards" if any(self.kept) else ""),
            *(f"  {limit:12} {seconds * 1e6:10.1f} µs" for limit, seconds in self.seconds.items()),
            f"  {self.binds} binds",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Program:
    """The program of every core: three kernels and the circular buffers between them, made of a persistent kernel."""

    func: n.PrimFunc
    buffers: tuple[CircularBuffer, ...]
    kernels: tuple[Kernel, ...]

    def __getitem__(self, role: str) -> Kernel:
        """The kernel of a role: "reader", "compute" or "writer"."""
        return next(kernel for kernel in self.kernels if kernel.role == role)

    def buffer(self, name: str) -> CircularBuffer:
        return next(buffer for buffer in self.buffers if buffer.name == name)

    @property
    def files(self) -> dict[str, str]:
        """The text of each file by name: the three kernels, the host's program and the plan."""
        return print_tensix(self)

    def estimate(self, target: str = "wormhole", mcast: bool = False) -> Estimate:
        """The least cost of the program on a card: bytes, products and time (`tensorir.tenstorrent.estimate`)."""
        return estimate_tensix(self, target, mcast)

    def __str__(self) -> str:
        return "\n".join(f"// {name}\n{text}" for name, text in self.files.items() if name.endswith(".cpp"))

    def _on_block(self, op: Work, other: CircularBuffer) -> Work:
        """Work on the block of another buffer: what it fills, or else what it reads first."""
        name = op.fills if op.fills is not None else next(iter(op.fronts), None)
        if name is None:
            return op
        block = self.buffer(name).block

        def rule(node: n.Node) -> n.Node | None:
            return other.block if node is block or node == block else None

        fronts = op.fronts if op.fills is not None else tuple(other.name if f == name else f for f in op.fronts)
        fills = other.name if op.fills is not None else None
        return replace(op, statement=transform(op.statement, rule), fronts=fronts, fills=fills)

    def edited(self, file: str, line: int, count: int | None = None, *, buffer: str | None = None) -> Program:
        """The program with another count, or another buffer, in the synchronisation that a line of a file prints.

        With neither, the line is left out; with a buffer, work that a line prints is on the blocks of that one. What a
        simulation says of such programs teaches the protocol.
        """

        def rule(op: Op) -> tuple[Op, ...]:
            if place_tensix(self, op) != (file, line):
                return (op,)
            match op:
                case Sync() if count is not None or buffer is not None:
                    return (replace(op, count=op.count if count is None else count, buffer=buffer or op.buffer),)
                case Work() if buffer is not None:
                    return (self._on_block(op, self.buffer(buffer)),)
                case _:
                    return ()

        made = tuple(replace(k, body=rewritten(k.body, rule)) for k in self.kernels)
        if made == self.kernels:
            raise LookupError(f"line {line} of {file} is no statement that can be edited so.")
        return replace(self, kernels=made)


def moved_by(role: Role, op: Work) -> tuple[str, ...]:
    """The circular buffers whose tiles are on their way to or from memory behind a statement of a kernel."""
    match role:
        case "reader":
            return () if op.fills is None else (op.fills,)
        case "writer":
            return op.fronts
        case "compute":
            return ()


def ops_of(body: tuple[Op, ...]) -> Iterator[Op]:
    """Every statement of a body, in the order of the text."""

    def below(op: Op) -> tuple[Op, ...]:
        match op:
            case Loop(body=inner):
                return inner
            case Branch(_, then, otherwise):
                return (*then, *otherwise)
            case _:
                return ()

    return occurrences(body, below)


def rewritten(body: tuple[Op, ...], rule: Callable[[Op], tuple[Op, ...]]) -> tuple[Op, ...]:
    """The body with what a rule makes of each statement that has none below it; loops and branches stay around them."""
    made: list[Op] = []
    for op in body:
        match op:
            case Loop():
                inner = rewritten(op.body, rule)
                made.append(op if inner == op.body else replace(op, body=inner))
            case Branch():
                then, otherwise = rewritten(op.then, rule), rewritten(op.otherwise, rule)
                made.append(replace(op, then=then, otherwise=otherwise))
            case _:
                made.extend(rule(op))
    return tuple(made)


def without_unused(body: Iterable[Op]) -> tuple[Op, ...]:
    """The body without names that nothing uses."""
    wanted: set[n.Node] = set()

    def ask(*parts: n.Node) -> None:
        wanted.update(v for part in parts for v in walk(part) if isinstance(v, n.Var))

    def of(ops: Iterable[Op]) -> tuple[Op, ...]:
        made: list[Op] = []
        for op in reversed(tuple(ops)):
            match op:
                case Bind(var, value):
                    if var not in wanted:
                        continue
                    ask(value)
                case Work(statement):
                    ask(statement)
                case Loop():
                    op = replace(op, body=of(op.body))
                    ask(op.start, op.extent)
                case Branch():
                    op = replace(op, then=of(op.then), otherwise=of(op.otherwise))
                    ask(op.condition)
                case Sync() | Barrier():
                    pass
            made.append(op)
        return tuple(reversed(made))

    return of(body)
