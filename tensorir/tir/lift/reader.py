"""The state of reading a function of TIR as a nest, its own calls, and jumps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce

from tensorir.integers.affine import number
from tensorir.ir.types import BOOL, INT32, Scalar
from tensorir.lifting.accesses.overlap import at_iteration
from tensorir.lifting.accesses.sets import both
from tensorir.lifting.nests.nest import Check, Loop, Node, Store
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, buffers_of, index_names, loads
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.builtins import builtin_of, is_hardware
from tensorir.tir.lift.expressions import Scope, term
from tensorir.tir.trees import children, walk

read_statement = ExtensionPoint("a statement of TIR as nests", "tensorir.tir.lift.statements", "statement")

# The atomic updates of TIR, by the names of builtins and of the libraries that kernels call.

ATOMICS = {"atomic_add": "Add", "atomic_max": "Max", "atomic_min": "Min", "atomic_store": ""}
"""By builtin, how the old value and the operand make the new one; nothing where only the operand does."""


def as_builtin(call: n.Call) -> n.Call:
    """The builtin that a call of a library's function is."""
    known = builtin_of(call)
    return known if isinstance(known, n.Call) else call


def is_atomic(node: n.Node) -> bool:
    """True if a node updates memory atomically."""
    return isinstance(node, n.Call) and as_builtin(node).op in ATOMICS


# The calls that a statement makes itself, before the statements inside of it do anything, and choices of them.

Wanted = Callable[[n.Call], bool]


@dataclass(frozen=True, slots=True)
class Choice:
    """An expression of which a condition decides what is computed: `T.if_then_else`, `and`, `or`."""

    node: n.Expr
    condition: n.Expr
    yes: n.Expr
    no: n.Expr


def writes(node: n.Node) -> bool:
    """True if a call may write, wherever in an expression it stands."""
    return isinstance(node, n.Call) and (isinstance(node.op, n.GlobalVar) or is_atomic(node))


def own_calls(node: n.Stmt, wanted: Wanted) -> Iterator[n.Call | Choice | n.Let]:
    """The calls that are wanted, inner ones first; the outermost choices that decide whether some are reached; and the
    lets that some stand in, behind their value.
    """
    for part in own_parts(node):
        yield from _calls(part, wanted)


def own_parts(node: n.Stmt) -> tuple[n.Node, ...]:
    """The expressions of a statement itself, before the statements below it."""
    match node:
        case n.BufferStore(_, value, indices, predicate):
            return (value, *indices, *(() if predicate is None else (predicate,)))
        case n.LetStmt(_, value) | n.Evaluate(value):
            return (value,)
        case n.IfThenElse(condition) | n.AssertStmt(condition):
            return (condition,)
        case n.For(_, low, extent):
            return (low, extent)
        case _:
            return ()


def _calls(node: n.Node, wanted: Wanted) -> Iterator[n.Call | Choice | n.Let]:
    match _choice(node):
        case Choice(yes=yes, no=no) as choice if _any(yes, wanted) or _any(no, wanted):
            yield choice
            return
        case _:
            pass
    match node:
        case n.Let(_, value, body) if _any(body, wanted):
            yield from _calls(value, wanted)
            yield node
            yield from _calls(body, wanted)
        case n.Buffer():
            pass
        case _:
            for part in children(node):
                yield from _calls(part, wanted)
            if isinstance(node, n.Call) and wanted(node):
                yield node


def _any(node: n.Node, wanted: Wanted) -> bool:
    return any(isinstance(part, n.Call) and wanted(part) for part in walk(node))


def _choice(node: n.Node) -> Choice | None:
    match node:
        case n.Call(op="if_then_else", args=(n.Expr() as condition, n.Expr() as yes, n.Expr() as no)):
            return Choice(node, condition, yes, no)
        case n.And(a, b):
            return Choice(node, a, b, n.IntImm(0, node.dtype))
        case n.Or(a, b):
            return Choice(node, a, n.IntImm(1, node.dtype), b)
        case _:
            return None


# Where control leaves a loop, a function, or a thread its kernel, before the end.


def jumps(body: n.Stmt) -> tuple[bool, bool]:
    """True if a loop's body breaks, or continues, this loop."""
    breaks = continues = False
    pending: list[n.Node] = [body]
    while pending:
        node = pending.pop()
        match node:
            case n.Break() | n.Evaluate(n.Call(op="break_loop")):
                breaks = True
            case n.Continue() | n.Evaluate(n.Call(op="continue_loop")):
                continues = True
            case n.For() | n.While():
                pass
            case n.SeqStmt(parts):
                pending += parts
            case n.IfThenElse(_, then, otherwise):
                pending += [then, *([] if otherwise is None else [otherwise])]
            case n.AttrStmt(body=inner) | n.BufferRealize(body=inner) | n.Block(body=inner):
                pending.append(inner)
            case n.BlockRealize(_, _, block):
                pending.append(block)
            case _:
                pass
    return breaks, continues


def returns(node: n.Node) -> bool:
    """True if a `ret` stands somewhere inside."""
    return any(_is_return(part) for part in walk(node))


def returns_early(body: n.Stmt) -> bool:
    """True if a `ret` of a function stands somewhere else than at its end; in a kernel only its thread returns."""
    pending: list[n.Node] = list(body.seq) if isinstance(body, n.SeqStmt) else [body]
    if pending and isinstance(pending[-1], n.Evaluate):
        pending.pop()
    while pending:
        match pending.pop():
            case n.For(kind=n.ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)) if is_hardware(tag):
                pass
            case n.AttrStmt(n.IterVar(thread_tag=tag), "thread_extent") if is_hardware(tag):
                pass
            case part if _is_return(part):
                return True
            case part:
                pending += children(part)
    return False


def _is_return(node: n.Node) -> bool:
    return isinstance(node, n.Call) and node.op in ("ret", "thread_return")


# The state of reading a function of TIR as a nest: names, loops, guards, threads, and where control has left.
#
# What TIR decides by jumps (`break`, `continue`, `ret`) becomes flags: buffers that say who has left, and guards on
# all that follows. A kernel's threads run in lockstep, statement by statement, so their loops stand innermost, around
# each statement of its own.


@dataclass(frozen=True, slots=True)
class Thread:
    """An index of a kernel: the loop that stands for it."""

    name: str
    extent: int
    block: bool


@dataclass(frozen=True, slots=True)
class Flag:
    """State of each thread: whether it has left an iteration, a loop, or the function; and the value returned."""

    buffer: Buffer
    indices: tuple[Term, ...]

    @property
    def clear(self) -> Term:
        return Op("not", (Load(self.buffer, self.indices),), BOOL)


@dataclass(slots=True)
class Reader:
    """Everything that changes while a function is read."""

    scope: Scope
    module: n.IRModule | None
    loops: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    """The indices that stand for sizes of no known value."""
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    guards: tuple[Term, ...] = ()
    live: list[Flag] = field(default_factory=list[Flag])
    broken: Flag | None = None
    continued: Flag | None = None
    returned: Flag | None = None
    result: Flag | None = None
    """Where the function leaves what it returns, if somebody wants it."""
    threads: dict[str, Thread] | None = None
    launched: dict[str, tuple[n.Var, Term]] = field(default_factory=dict[str, tuple[n.Var, Term]])
    """The tags of a kernel's blocks that a loop counts, since data tell how many there are; with its variable."""
    joined: dict[n.Buffer, frozenset[str]] = field(default_factory=dict[n.Buffer, frozenset[str]])
    """Buffers that reductions over threads write, and the tags of these threads."""
    stretch: int | None = None
    """Between which barriers of a kernel the text is; None in one that has none, where each statement ends in one."""
    stretches: int = 0
    joint: tuple[Term, ...] = ()
    """Guards that are checked to hold for all threads or for none."""
    shuffling: n.Stmt | None = None
    """The kernel, where its threads hand values to one another."""
    asking: bool = False
    """Whether divisors and indices of views are looked at."""
    acting: bool = False
    """Whether expressions may do more than to give a value."""
    reducer: n.CommReducer | None = None
    """How threads combine their values, inside of a `reduce_scope`."""
    parallel: set[str] = field(default_factory=set[str])
    """The loops whose iterations run at once, and have storage of their own for what is allocated inside."""
    scratch: dict[n.For, tuple[n.Buffer, ...]] = field(default_factory=dict[n.For, tuple[n.Buffer, ...]])
    """What blocks allocate for the iterations of such loops."""
    kept: dict[Buffer, list[Term]] = field(default_factory=dict[Buffer, list[Term]])
    """What values are that are computed once."""
    taken: set[str] = field(default_factory=set[str])
    depth: int = 0
    stack: tuple[str, ...] = ()
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    lent: set[Buffer] = field(default_factory=set[Buffer])
    """Memory outside of kernels of which the blocks, or threads, of a kernel so far have had copies."""
    used_outside: Mapping[n.Var, tuple[Span, Span | None]] = field(
        default_factory=dict[n.Var, tuple[Span, Span | None]]
    )
    """Memory that statements outside of kernels use (`tensorir.tir.storage.used_outside`)."""
    notes: list[str] = field(default_factory=list[str])

    def fresh(self, name: str) -> str:
        """A name for a loop or a buffer that nothing has yet."""
        clean = _clean(name)
        found, k = clean, 1
        while found in self.taken:
            found, k = f"{clean}_{k}", k + 1
        self.taken.add(found)
        return found

    @property
    def holding(self) -> tuple[Term, ...]:
        """The guards of a statement that stands here."""
        return (*(flag.clear for flag in self.live), *self.guards)

    @contextmanager
    def guarded(self, *conditions: Term) -> Generator[None, None, None]:
        before = self.guards
        self.guards = (*before, *conditions)
        try:
            yield
        finally:
            self.guards = before

    @contextmanager
    def unguarded(self) -> Generator[None, None, None]:
        """A scope that every thread runs, whatever condition guards the statements around it.

        Those who return there do nothing of what follows.
        """
        before, live = self.guards, self.live
        self.guards, self.live = (), []
        try:
            yield
        finally:
            self.guards, self.live = before, [*live, *(f for f in self.live if f not in live)]

    def loop_name(self, name: str) -> str:
        """A name for a loop that no loop around it has, nor any thread."""
        clean = _clean(name)
        around = {*self.sizes, *self.loops, *(t.name for t in (self.threads or {}).values())}
        found, k = clean, 1
        while found in around:
            found, k = f"{clean}_{k}", k + 1
        return found

    @contextmanager
    def inside(self, name: str, span: tuple[int, int]) -> Generator[None, None, None]:
        """Inside of a loop."""
        before = self.loops
        self.loops = (*before, name)
        self.ranges[name] = span
        try:
            yield
        finally:
            self.loops = before

    @property
    def known(self) -> dict[str, tuple[int, int]]:
        """The values of the loops around, and of the kernel's threads."""
        threads = (t.name for t in (self.threads or {}).values())
        return {name: self.ranges[name] for name in (*self.sizes, *self.loops, *threads)}

    @property
    def lanes(self) -> tuple[Thread, ...]:
        """The threads, of which each runs every statement."""
        if self.threads is None:
            return ()
        return tuple(t for t in self.threads.values() if not t.block and t.extent != 1 and t.name not in self.loops)

    @property
    def turns(self) -> bool:
        """True if threads take their turns here, one after the other."""
        return any(not t.block and t.name in self.loops for t in (self.threads or {}).values())

    @contextmanager
    def in_turn(self, names: frozenset[str]) -> Generator[tuple[Thread, ...], None, None]:
        """Threads that take their turns, one after the other, for all that stands inside."""
        turns = tuple(t for t in self.lanes if t.name in names)
        before, stretch = self.loops, self.stretch
        self.loops = (*before, *(t.name for t in turns))
        if turns:
            self.stretch = None
        try:
            yield turns
        finally:
            self.loops, self.stretch = before, stretch
            if turns:
                self.barrier()

    def apart(self, buffer: n.Buffer, shared: bool) -> tuple[str, ...]:
        """The indices of the kernel of which every value has a copy of a buffer."""
        together = self.joined.get(buffer, frozenset())
        return tuple(
            t.name
            for tag, t in (self.threads or {}).items()
            if t.extent != 1 and tag not in together and (t.block or not shared)
        )

    def placed(self, node: Node, in_order: bool = False) -> Node:
        """A statement, for every thread: in lockstep, or one thread after the other.

        A statement in which nothing tells threads apart they do once, all together; those that an index, a value or a
        guard tells apart each do it, and race where they meet, whatever they write; so do those that store to what they
        read, for one may be done before another one reads.
        """
        told = None if in_order or not isinstance(node, Store) else _telling(node)
        if isinstance(node, Store) and updates(node, self.kept) and not self.turns:
            told = None
        for thread in reversed(self.lanes):
            if told is not None and thread.name not in told:
                continue
            low, extent = Number(0, INT32), Number(thread.extent, INT32)
            node = Loop(
                thread.name, low, extent, (node,), parallel=True, span=node.span, title=thread.name,
                lockstep=not in_order,
            )  # fmt: skip
        return node

    def store(self, buffer: Buffer, indices: tuple[Term, ...], value: Term, span: Span, in_order: bool = False) -> Node:
        return self.placed(Store(buffer, indices, value, self.holding, span), in_order)

    def written(self, buffer: Buffer, indices: tuple[Term, ...], value: Term, span: Span) -> Node:
        """A store that the text has, between two barriers."""
        return self.placed(Store(buffer, indices, value, self.holding, span, stretch=self.stretch))

    def barrier(self) -> None:
        """All threads come here before any goes on."""
        if self.stretch is not None:
            self.stretches += 1
            self.stretch = self.stretches

    def reached(self, span: Span) -> list[Node] | None:
        """The condition at a barrier: a thread reaches it if the first one of its block does.

        None where that is told by what each thread has for itself, and so by no index.
        """
        lanes = {t.name for t in self.lanes}
        guards = [g for g in self.holding if all(g is not known for known in self.joint)]
        if any(lanes & set(b.root.private) for guard in guards for b in buffers_of(guard)):
            return None
        if not lanes & {name for guard in guards for name in index_names(guard)}:
            return []
        here = reduce(lambda rest, guard: both(guard, rest), reversed(guards))
        first = at_iteration(here, dict.fromkeys(lanes, number(0)))
        one, other = (both(a, Op("not", (b,), BOOL)) for a, b in ((here, first), (first, here)))
        same = Op("not", (Op("or", (one, other), BOOL),), BOOL)
        check = Check(same, "not all threads of the block reach this barrier.", (), span, "TL13")
        return [self.placed(check)]

    def buffer(self, name: str, element: Scalar, shape: tuple[int, ...], span: Span) -> Buffer:
        """Storage of which each iteration that runs at once with others, and each block of a kernel, has its own."""
        blocks = {t.name for t in (self.threads or {}).values() if t.block}
        own = tuple(name for name in self.loops if name in self.parallel or name in blocks)
        made = Buffer(self.fresh(name), element, shape, span=span, private=own, exact=self.scope.exact)
        self.buffers.append(made)
        return made

    def temporary(self, name: str, value: Term, span: Span, in_order: bool = False) -> tuple[Load, Node]:
        """A value that is computed here once, and the store that keeps it."""
        kept, store = self.keeping(name, value, span)
        return kept, self.placed(store, in_order)

    def keeping(self, name: str, value: Term, span: Span, atomic: bool = False) -> tuple[Load, Store]:
        """The same, for one thread."""
        around = (*self.loops, *(t.name for t in self.lanes))
        shape = tuple(self.ranges[a][1] - self.ranges[a][0] + 1 for a in around)
        made = Buffer(self.fresh(name), value.element, shape, span=span, loops=around, exact=self.scope.exact)
        self.buffers.append(made)
        self.kept[made] = [value]
        indices: list[Term] = []
        for a in around:
            index: Term = Index(a, INT32)
            low = self.ranges[a][0]
            indices.append(Op("minus", (index, Number(low, INT32)), INT32) if low else index)
        stretch = self.stretch if self._shares(value) else None
        store = Store(made, tuple(indices), value, self.holding, span, atomic, None if atomic else stretch)
        return Load(made, tuple(indices)), store

    def flag(self, name: str, span: Span) -> Flag:
        """A flag for every thread."""
        made = self.buffer(name, BOOL, tuple(t.extent for t in self.lanes), span)
        return Flag(made, tuple(Index(t.name, INT32) for t in self.lanes))

    def raised(self, flag: Flag, span: Span) -> Node:
        return self.store(flag.buffer, flag.indices, Number(True, BOOL), span)

    def cleared(self, flag: Flag, span: Span) -> Node:
        """Nobody has left so far: said whatever guards what stands here, since whoever asks does so before them."""
        with self.unguarded():
            return self.store(flag.buffer, flag.indices, Number(False, BOOL), span)

    def stored(self, *nodes: n.Node) -> set[Buffer]:
        """The memories that statements of the source may write."""
        found: set[Buffer] = set()

        def add(buffer: n.Buffer) -> None:
            view = self.scope.views.get(buffer) or self.scope.pointers.get(buffer.data)
            if view is not None:
                found.add(view.buffer.root)

        for node in nodes:
            for part in walk(node):
                match part:
                    case n.BufferStore(buffer):
                        add(buffer)
                    case n.MatchBufferRegion(_, source):
                        add(source.buffer)
                    case n.Evaluate(n.Call() as call) | (n.Call() as call) if call is not part or writes(call):
                        for inner in walk(call):
                            match inner:
                                case n.Buffer():
                                    add(inner)
                                case n.BufferLoad(buffer) | n.BufferRegion(buffer):
                                    add(buffer)
                                case n.Var() if inner in self.scope.pointers:
                                    found.add(self.scope.pointers[inner].buffer.root)
                                case _:
                                    pass
                    case _:
                        pass
        return found

    def unchanged(self, value: Term, *nodes: n.Node) -> bool:
        """True if a value stays what it is while statements run, and is read on this side of their barriers only."""
        read = {b.root for b in buffers_of(value)}
        if not read or read & self.stored(*nodes):
            return not read
        return not (self.stretch is not None and self._shares(value) and any(map(waits, nodes)))

    def _shares(self, value: Term) -> bool:
        """True if a value is of memory that threads write for each other."""
        lanes = {t.name for t in self.lanes}
        return any(not b.root.argument and not lanes & set(b.root.private) for b in buffers_of(value))

    def term(self, node: n.Expr) -> Term:
        return term(self.scope, node)


def in_turn(node: Node, names: set[str]) -> Node:
    """Loops over some threads as loops whose iterations follow each other."""
    if not isinstance(node, Loop):
        return node
    body = tuple(in_turn(inner, names) for inner in node.body)
    return replace(node, body=body, parallel=node.parallel and node.name not in names)


def waits(node: n.Node) -> bool:
    """True if threads wait for each other somewhere inside."""
    return any(isinstance(p, n.Call) and p.op in ("tvm_storage_sync", "tvm_thread_allreduce") for p in walk(node))


def updates(node: Store, kept: Mapping[Buffer, Sequence[Term]]) -> bool:
    """True if a statement, other than an atomic one, stores to an element that it reads, or that what it uses is of."""
    if node.atomic:
        return False
    pending, seen = [node.value, *node.guards], set[Buffer]()
    while pending:
        for load in loads(pending.pop()):
            if load.buffer is node.buffer and load.indices == node.indices:
                return True
            if load.buffer in kept and load.buffer not in seen:
                seen.add(load.buffer)
                pending += kept[load.buffer]
    return False


def _telling(node: Store) -> set[str]:
    """The loops whose iterations do different things: their variables occur, or each has storage of its own."""
    found: set[str] = set(node.buffer.root.private)
    for part in (*node.indices, node.value, *node.guards):
        found |= index_names(part)
        found |= {name for buffer in buffers_of(part) for name in buffer.root.private}
    return found


def _clean(name: str) -> str:
    """A name of letters, digits and underscores."""
    clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "x"
    return f"x{clean}" if clean[0].isdigit() else clean
