"""Kernels of tiles whose threads differ, in normal form.

Kernels of tiles whose threads differ: what each thread does for itself becomes a loop over the threads.

A kernel of tiles is a program of its blocks, and TileLang puts barriers between statements that share memory. So a
statement in which the number of a thread takes part, through lets, local memory, conditions and trip counts, runs for
all threads before the next one starts; local memory that differs from thread to thread gets axes for them. Tile
operations, `T.parallel`, and what is the same for all threads run once. Threads that exchange values in a warp, or of
which some return, become the threads of a kernel without tiles.

>>> import tensorir.tir as tir
>>> func = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((8,), "int32")):
...     with T.sblock("tilelang_root"):
...         T.sblock_attr({"tl.launch_threads": [8, 1, 1]})
...         A[T.launch_thread_idx(0)] = 2 * T.launch_thread_idx(0)
... ''')["main"]
>>> print(by_threads(func.body).block.body)
for tx in T.parallel(8):
    A[tx] = 2 * tx
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import const, nothing, seq
from tensorir.tir.builtins import BUILTINS, Effect, builtin_of, is_block
from tensorir.tir.dtypes import INT32
from tensorir.tir.tiles.operations import Copy, Fill, is_tile, operation
from tensorir.tir.trees import children, substitute, transform, walk

# What differs from thread to thread in a kernel of tiles: on which axes of the threads each value depends.
#
# The number of a thread spreads through lets, local memory (also stores of plain values under a condition on it),
# trip counts, and loops that only some threads leave, until nothing changes.

Axes = frozenset[int]
NONE: Axes = frozenset()
_POINTING = ("address_of", "access_ptr", "region")


def is_local(buffer: n.Buffer) -> bool:
    """True if each thread has its own copy; a fragment is one tile that the threads of a block share out."""
    return buffer.scope.startswith("local") and buffer.scope != "local.fragment"


@dataclass(slots=True)
class Dependence:
    """The axes, of those in `all`, on which variables and the memory behind them depend (`of`), found by `spread`.

    `updating` are the axes along which an atomic update that no T.parallel shares out is done by every thread.
    `leaving` says for loops by identity on which axes it depends when they are left; `ended` where a thread returns
    and others go on.
    """

    all: Axes
    updating: Axes
    of: dict[n.Node, Axes] = field(default_factory=dict[n.Node, Axes])
    roots: dict[n.Var, n.Var] = field(default_factory=dict[n.Var, n.Var])
    leaving: dict[int, Axes] = field(default_factory=dict[int, Axes])
    ended: n.Node | None = None
    _changed: bool = False

    def spread(self, body: n.Stmt) -> None:
        """Look at the statements until nothing changes."""
        self._changed = True
        while self._changed:
            self._changed = False
            self._statement(body, NONE, [])

    def root(self, var: n.Var) -> n.Var:
        """The variable of the memory that a pointer points into."""
        while var in self.roots:
            var = self.roots[var]
        return var

    def axes(self, *nodes: n.Node, parallel: bool = False) -> Axes:
        """On which axes the nodes, and all below them, depend; in T.parallel an atomic update is one for all."""
        found = NONE
        for node in nodes:
            for part in _uses(node):
                match part:
                    case n.Var():
                        found |= self.of.get(self.root(part), NONE)
                    case n.Buffer(data=data):
                        found |= self.of.get(self.root(data), NONE)
                    case n.Call(op="launch_thread_idx", args=(n.IntImm(axis), *_)):
                        found |= self.all & {axis}
                    case n.For(kind=n.ForKind.PARALLEL):
                        found |= self.axes(*children(part), parallel=True)
                    case n.Call() if not parallel and _updates(part):
                        found |= self.updating
                    case _:
                        pass
        return found

    def control(self, node: n.Stmt) -> Axes:
        """On which axes it depends whether, and how often, the statements below this one run."""
        match node:
            case n.For(_, low, extent, step=step):
                given = (low, extent) if step is None else (low, extent, step)
                return self.axes(*given) | self.leaving.get(id(node), NONE)
            case n.While(condition):
                return self.axes(condition) | self.leaving.get(id(node), NONE)
            case n.IfThenElse(condition):
                return self.axes(condition)
            case n.BlockRealize(values, predicate):
                return self.axes(predicate, *values)
            case _:
                return NONE

    def _statement(self, node: n.Stmt, under: Axes, loops: list[tuple[n.Stmt, Axes]]) -> None:
        """Spread what a statement stores, under conditions that depend on some axes, inside of loops."""
        inner = under
        if control := self.control(node):
            inner = under | control | self.axes(node)
        match node:
            case n.LetStmt(var, value):
                self._join(var, self.axes(value))
            case n.For(var, low, extent):
                self._join(var, self.axes(low, extent))
                if node.kind is not n.ForKind.PARALLEL:
                    self._statement(node.body, inner, [*loops, (node, inner)])
            case n.While(body=body):
                self._statement(body, inner, [*loops, (node, inner)])
            case n.Break() | n.Continue() | n.Evaluate(n.Call(op="break_loop" | "continue_loop")):
                if loops and under - loops[-1][1]:
                    left = id(loops[-1][0])
                    self._changed |= bool(under - self.leaving.get(left, NONE))
                    self.leaving[left] = self.leaving.get(left, NONE) | under
            case n.Evaluate(n.Call(op="ret" | "thread_return")):
                self.ended = node if under else self.ended
            case n.BufferStore(buffer):
                if is_local(buffer):
                    self._join(self.root(buffer.data), under | self.axes(node))
                self._pointed(node, under)
            case n.Evaluate() | n.AssertStmt():
                self._pointed(node, under)
            case n.DeclBuffer(buffer, n.Var() as data) if buffer.data is not data:
                self.roots[buffer.data] = data
            case n.BlockRealize(values, _, block):
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    self._join(iterator.var, self.axes(value))
                self.roots |= {view.buffer.data: view.source.buffer.data for view in block.match_buffers}
            case _:
                pass
        if not isinstance(node, n.For | n.While):
            for part in parts_of(node):
                self._statement(part, inner, loops)

    def _pointed(self, node: n.Stmt, under: Axes) -> None:
        """Local memory that a call is given a pointer to may be stored to."""
        for part in walk(node):
            if isinstance(part, n.Call) and part.op in _POINTING:
                for load in part.args[:1]:
                    if isinstance(load, n.BufferLoad) and is_local(load.buffer):
                        self._join(self.root(load.buffer.data), under | self.axes(node))

    def _join(self, var: n.Node, axes: Axes) -> None:
        before = self.of.get(var, NONE)
        if axes - before:
            self.of[var] = before | axes
            self._changed = True


def parts_of(node: n.Stmt) -> list[n.Stmt]:
    """The statements directly below one."""
    match node:
        case n.SeqStmt(parts):
            return list(parts)
        case n.For(body=body) | n.While(body=body) | n.AttrStmt(body=body) | n.BufferRealize(body=body):
            return [body]
        case n.IfThenElse(_, then, otherwise):
            return [then] if otherwise is None else [then, otherwise]
        case n.BlockRealize(_, _, block):
            return [block]
        case n.Block(body=body, init=init):
            return [body] if init is None else [init, body]
        case _:
            return []


def _uses(node: n.Node) -> Iterator[n.Node]:
    """The nodes at and below one, without what parallel loops hold."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, n.Buffer) and not (isinstance(node, n.For) and node.kind is n.ForKind.PARALLEL):
            pending.extend(children(node))


def _updates(call: n.Call) -> bool:
    """True if every thread that comes to a call changes an element once more."""
    known = builtin_of(call)
    name = known.op if isinstance(known, n.Call) else call.op
    return isinstance(name, str) and name.startswith("atomic_") and name != "atomic_load"


_NAMES = ("tx", "ty", "tz")
_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_EVERY = frozenset(range(3))


def by_threads(body: n.Stmt) -> n.Stmt:
    """The body with a loop over the threads of a block around what differs from thread to thread.

    Raises TT04 where that is a tile operation, T.parallel or a barrier, and TT05 where nothing tells how many threads
    there are.
    """
    if _starts(body) or not any(_starts(node) for node in walk(body)):
        return _kernel(body)
    match body:
        case n.SeqStmt(parts):
            return replace(body, seq=tuple(by_threads(part) for part in parts))
        case n.For() | n.While() | n.AttrStmt() | n.BufferRealize():
            return replace(body, body=by_threads(body.body))
        case n.IfThenElse(_, then, otherwise):
            other = None if otherwise is None else by_threads(otherwise)
            return replace(body, then_case=by_threads(then), else_case=other)
        case n.BlockRealize(block=block):
            return replace(body, block=replace(block, body=by_threads(block.body)))
        case _:
            return body


def _starts(node: n.Node) -> bool:
    """True if a kernel starts here, with the first of its indices of blocks."""
    match node:
        case n.For(thread_binding=n.IterVar(thread_tag=tag)) | n.AttrStmt(n.IterVar(thread_tag=tag), "thread_extent"):
            return is_block(tag)
        case _:
            return False


def _kernel(body: n.Stmt) -> n.Stmt:
    body, sizes = _numbered(body)
    for node in walk(body):
        if isinstance(node, n.Block) and "tl.launch_threads" in node.annotations:
            sizes = _sizes(node)
    many = _EVERY if sizes is None else frozenset(k for k, e in enumerate(sizes) if not _is_one(e))
    body = _plain_lets(body, many)
    known = Dependence(many, NONE if sizes is None else many)
    known.spread(body)
    work = _Threads(known, sizes or ())
    if known.ended is not None or any(_speaks(node) for node in walk(body)):
        body = work.side_by_side(body)
    else:
        work.give_axes(body)
        body = work.statement(body)
    if not any(_thread(node) for node in walk(body)):
        body = transform(body, _without_barrier)  # the loops over threads end where one stood
    return transform(body, _of_the_only_thread)


def _numbered(body: n.Stmt) -> tuple[n.Stmt, tuple[n.Expr, ...] | None]:
    """A kernel of tiles without the loops that bind its threads: their variables are the numbers, their extents the
    sizes. Itself, and None, where it has no such loops.
    """
    sizes: dict[int, n.Expr] = {}
    other: n.Expr | None = None
    numbers: dict[n.Var, n.Expr] = {}
    for node in walk(body):
        if bound := _thread(node):
            var, axis, size = bound
            number = n.Call(INT32, "launch_thread_idx", (const(axis, INT32),), span=var.span)
            numbers[var] = number if var.dtype == INT32 else n.Cast(number, var.dtype)
            if str(sizes.setdefault(axis, size)) != str(size):
                other = size
    if not numbers or not any(is_tile(node) for node in walk(body)):
        return body, None
    if other is not None:
        message = "threads are bound to loops of different extents, in a kernel with operations on whole tiles."
        raise refuse("TT04", message, "give these loops one extent.", at=other.span)

    def without(node: n.Node) -> n.Node | None:
        return node.body if isinstance(node, n.For | n.AttrStmt) and _thread(node) else None

    return substitute(transform(body, without), numbers), tuple(sizes.get(k, const(1, INT32)) for k in range(3))


def _thread(node: n.Node) -> tuple[n.Var, int, n.Expr] | None:
    """The variable, the axis and the extent of a loop that binds threads."""
    match node:
        case n.For(var, _, size, thread_binding=n.IterVar(thread_tag=tag)):
            pass
        case n.AttrStmt(n.IterVar(var=var, thread_tag=tag), "thread_extent", n.Expr() as size):
            pass
        case _:
            return None
    return (var, _TAGS.index(tag), size) if tag in _TAGS else None


def _sizes(block: n.Block) -> tuple[n.Expr, ...] | None:
    """The number of threads of a block along each axis."""
    given = block.annotations["tl.launch_threads"]
    if not isinstance(given, Sequence) or isinstance(given, str):
        return None
    found = [e if isinstance(e, n.Expr) else const(e, INT32) for e in given if isinstance(e, n.Expr | int)]
    return (*found, *(const(1, INT32) for _ in range(3 - len(found))))


def _is_one(extent: n.Expr) -> bool:
    return isinstance(extent, n.IntImm) and extent.value == 1


def _of_the_only_thread(node: n.Node) -> n.Node | None:
    """The number of a thread, 0, along an axis of one thread, and where it changes nothing."""
    match node:
        case n.Call(op="launch_thread_idx"):
            return const(0, INT32, node.span)
        case _:
            return None


def _without_barrier(node: n.Node) -> n.Node | None:
    match node:
        case n.Evaluate(n.Call(op="tvm_storage_sync")):
            return nothing(node.span)
        case _:
            return None


def _speaks(node: n.Node) -> bool:
    """True if threads say something to each other by other ways than memory."""
    return isinstance(node, n.Call) and str(node.op).startswith(("tvm_thread_allreduce", "tvm_warp_", "cuda.__"))


def _is_plain(node: n.Node) -> bool:
    """True if a part of an expression has one value wherever it stands."""
    match node:
        case n.BufferLoad() | n.Load():
            return False
        case n.Call(op=op):
            row = BUILTINS.get(op) if isinstance(op, str) else None
            return row is not None and row.effect is Effect.PURE and not node.dtype.is_handle
        case _:
            return True


def _plain_lets(body: n.Stmt, many: Axes) -> n.Stmt:
    """Names of what is computed from the number of a thread alone, without memory, written out."""
    known = Dependence(many, NONE)
    plain: dict[n.Var, n.Expr] = {}
    for node in walk(body):
        match node:
            case n.LetStmt(var, value):
                value = substitute(value, plain)
                if known.axes(value) and all(map(_is_plain, walk(value))):
                    plain[var] = value
            case _:
                pass
    bound = transform(
        body, lambda node: nothing(node.span) if isinstance(node, n.LetStmt) and node.var in plain else None
    )
    return substitute(bound, plain) if plain else body


@dataclass(slots=True)
class _Threads:
    """Puts loops over threads around statements; `own` has the local buffers that get axes, `lets` those of lets."""

    known: Dependence
    sizes: tuple[n.Expr, ...]
    own: dict[n.Buffer, n.Buffer] = field(default_factory=dict[n.Buffer, n.Buffer])
    lets: dict[n.Var, n.Buffer] = field(default_factory=dict[n.Var, n.Buffer])

    # Statements

    def statement(self, node: n.Stmt) -> n.Stmt:
        """The statement, with loops over the threads around those parts of it that differ."""
        if not self.known.axes(node):
            return node
        if self._is_for_each(node):
            return self._for_each(node)
        match node:
            case n.For(kind=n.ForKind.PARALLEL):
                if guilty := next((part for part in walk(node.body) if self._differs(part)), None):
                    self._refuse(guilty, "an iteration of T.parallel", "use its variable, not the number of a thread.")
                return node
            case n.SeqStmt(parts):
                return replace(node, seq=tuple(self.statement(part) for part in parts))
            case n.For(kind=kind, body=body):
                kind = n.ForKind.SERIAL if kind is n.ForKind.VECTORIZED else kind
                return replace(node, body=self.statement(body), kind=kind)
            case n.While() | n.AttrStmt() | n.BufferRealize():
                return replace(node, body=self.statement(node.body))
            case n.IfThenElse(_, then, otherwise):
                other = None if otherwise is None else self.statement(otherwise)
                return replace(node, then_case=self.statement(then), else_case=other)
            case n.BlockRealize(block=block):
                body, init = self.statement(block.body), None if block.init is None else self.statement(block.init)
                buffers = tuple(self.own.get(buffer, buffer) for buffer in block.alloc_buffers)
                made = replace(block, body=body, init=init, alloc_buffers=buffers, reads=(), writes=())
                return replace(node, block=made)
            case n.AllocBuffer(buffer) if buffer in self.own:
                return replace(node, buffer=self.own[buffer])
            case n.LetStmt(var, value) if self.known.axes(value):
                return self._let(node, var, value)
            case _:
                return node

    def _is_for_each(self, node: n.Stmt) -> bool:
        """True if every thread runs a statement for itself."""
        match node:
            case n.BufferStore() | n.Evaluate() | n.AssertStmt():
                return bool(self.known.axes(node))
            case n.For(kind=n.ForKind.VECTORIZED) if axes := self.known.axes(node):
                return all(self.known.axes(leaf) == axes and not _has_tile(leaf) for leaf in _leaves(node))
            case _:
                return bool(self.known.control(node))

    def _for_each(self, node: n.Stmt) -> n.Stmt:
        self._check(node)
        axes = sorted(self.known.axes(node))
        threads = {axis: n.Var(_NAMES[axis], n.PrimType(INT32), node.span) for axis in axes}
        body = self._seen_by(node, threads)
        for axis, var in threads.items():
            body = n.For(var, const(0, INT32), self.sizes[axis], n.ForKind.PARALLEL, body, span=node.span)
        return body

    def _seen_by(self, node: n.Stmt, threads: dict[int, n.Var]) -> n.Stmt:
        """The statement with variables for the numbers of the threads."""

        def places(buffer: n.Buffer) -> tuple[n.Expr, ...]:
            return tuple(threads[axis] for axis in self._axes_of(buffer))

        grown = {made: buffer for buffer, made in self.own.items()}

        def rule(part: n.Node) -> n.Node | None:
            match part:
                case n.Buffer():
                    return self.own.get(part)
                case n.BufferLoad(buffer, indices) | n.BufferStore(buffer, _, indices) if buffer in grown:
                    return replace(part, indices=(*places(grown[buffer]), *indices))
                case n.Var() if part in self.lets:
                    cell = self.lets[part]
                    return n.BufferLoad(self.own[cell], (*places(cell), const(0, INT32)), span=node.span)
                case n.Call(op="launch_thread_idx", args=(n.IntImm(axis), *_)):
                    return threads.get(axis)
                case n.Call(op="region", args=(n.BufferLoad(buffer) as start, mode, *extents)) if buffer in grown:
                    ones = [const(1, INT32)] * (len(start.indices) - len(extents))
                    return replace(part, args=(start, mode, *ones, *extents))
                case _:
                    return None

        return transform(node, rule)

    def _let(self, node: n.LetStmt, var: n.Var, value: n.Expr) -> n.Stmt:
        """A name of a value that is read from memory, as one element for each thread."""
        cell = _local(var.name, value.dtype, (const(1, INT32),), node.span)
        self.known.of[cell.data] = self.known.axes(value)
        made = self.own[cell] = self._with_axes(cell)
        store = self._for_each(n.BufferStore(cell, value, (const(0, INT32),), None, node.span))
        self.lets[var] = cell
        return seq([n.AllocBuffer(made, span=node.span), store], node.span)

    # Memory

    def give_axes(self, body: n.Stmt) -> None:
        """Find the local buffers that differ from thread to thread, and are not the matter of one statement."""
        within: set[n.Var] = set()
        for node, inside in self._statements(body):
            buffers = (node.buffer,) if isinstance(node, n.AllocBuffer) else ()
            if isinstance(node, n.BlockRealize):
                buffers = node.block.alloc_buffers
            for buffer in buffers:
                if inside:
                    within.add(buffer.data)
                elif is_local(buffer) and self._axes_of(buffer):
                    self.own[buffer] = self._with_axes(buffer)
        for node in walk(body):
            for buffer in (node.buffer,) if isinstance(node, n.BufferLoad | n.BufferStore | n.DeclBuffer) else ():
                known = buffer in self.own or self.known.root(buffer.data) in within
                if is_local(buffer) and self._axes_of(buffer) and not known:
                    self._refuse_view(buffer, node)

    def _statements(self, body: n.Stmt) -> list[tuple[n.Stmt, bool]]:
        """The statements, and whether each stands inside of one that the threads run for themselves."""
        found: list[tuple[n.Stmt, bool]] = []
        pending = [(body, False)]
        while pending:
            node, inside = pending.pop()
            found.append((node, inside))
            inside = inside or self._is_for_each(node)
            pending += [(part, inside) for part in parts_of(node)]
        return found

    def _axes_of(self, buffer: n.Buffer) -> list[int]:
        return sorted(self.known.axes(buffer), reverse=True)

    def _with_axes(self, buffer: n.Buffer) -> n.Buffer:
        if not self.sizes:
            return buffer
        shape = (*(self.sizes[axis] for axis in self._axes_of(buffer)), *buffer.shape)
        return _local(buffer.name, buffer.dtype, shape, buffer.span)

    # Threads of a kernel without tiles

    def side_by_side(self, body: n.Stmt) -> n.Stmt:
        """The kernel with its threads as indices of the hardware."""
        for node in walk(body):
            match node:
                case n.For(kind=n.ForKind.PARALLEL):
                    what = "T.parallel"
                case n.Call(op=op) if is_tile(node) and not is_own(node):
                    what = f"T.{op}"
                case _:
                    continue
            at = self.known.ended or next(part for part in walk(body) if _speaks(part))
            message = f"threads part here, or speak to each other, and the kernel has {what}, which all of them run."
            self._raise("TT04", message, at, "write the kernel for tiles alone, or for threads alone.")
        return self._bound(body)

    def _bound(self, body: n.Stmt) -> n.Stmt:
        if isinstance(body, n.For | n.AttrStmt) and _starts(body):
            return replace(body, body=self._bound(body.body))
        self._count(body)
        variables = {axis: n.Var(_NAMES[axis], n.PrimType(INT32)) for axis in self.known.all}

        def rule(node: n.Node) -> n.Node | None:
            match node:
                case n.Call(op="launch_thread_idx", args=(n.IntImm(axis), *_)):
                    return variables.get(axis)
                case _:
                    return None

        body = transform(body, rule)
        for axis, var in variables.items():
            thread = n.IterVar(None, var, n.IterKind.THREAD_INDEX, _TAGS[axis])
            size = self.sizes[axis]
            body = n.For(var, const(0, INT32), size, n.ForKind.THREAD_BINDING, body, thread, span=body.span)
        return body

    # Refusals

    def _differs(self, node: n.Node) -> bool:
        match node:
            case n.BufferLoad() | n.BufferStore() | n.Evaluate() | n.IfThenElse() | n.For() | n.LetStmt():
                return bool(self.known.axes(node, parallel=True))
            case _:
                return False

    def _check(self, node: n.Stmt) -> None:
        """Raise TT04 for what belongs to all threads, in what every thread runs for itself."""
        self._count(node)
        for part in walk(node):
            match part:
                case n.For(kind=n.ForKind.PARALLEL):
                    self._refuse(part, "T.parallel", "take it out of the condition.")
                case n.Call(op="tvm_storage_sync"):
                    self._refuse(part, "a barrier", "move it out of the condition.")
                case n.Call(op=op) if is_tile(part):
                    if not is_own(part):
                        self._refuse(part, f"T.{op}", "for one thread's own elements, copy into a local buffer.")
                case n.Call(args=arguments):
                    for given in arguments:
                        if isinstance(given, n.Buffer) and given in self.own:
                            self._refuse_view(given, part)
                case _:
                    pass

    def _count(self, node: n.Stmt) -> None:
        if not self.sizes:
            message = "the number of a thread is used here, and nothing says how many threads a block has."
            self._raise("TT05", message, node, 'write T.sblock_attr({"tl.launch_threads": [128, 1, 1]}).')

    def _refuse(self, at: n.Node, what: str, help: str) -> None:
        message = f"{what} belongs to all threads of a block, and here threads differ."
        self._raise("TT04", message, at, help)

    def _refuse_view(self, buffer: n.Buffer, at: n.Node) -> None:
        message = (
            f"{buffer.name!r} differs from thread to thread, and is more than an allocation and its elements here."
        )
        self._raise("TT04", message, at, "read and write elements of the buffer that was allocated.")

    def _raise(self, code: str, message: str, at: n.Node, help: str) -> None:
        raise refuse(code, message, help, at=getattr(at, "span", NOWHERE))


def _local(name: str, dtype: n.DataType, shape: tuple[n.Expr, ...], span: Span) -> n.Buffer:
    pointer = n.Var(name, n.PointerType(n.PrimType(dtype), "local"), span)
    return n.Buffer(pointer, dtype, shape, name=name, span=span)


def _leaves(node: n.Stmt) -> list[n.Stmt]:
    """The statements that do something by themselves."""
    found: list[n.Stmt] = []
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, n.BufferStore | n.Evaluate | n.AssertStmt) and not _is_nothing(node):
            found.append(node)
        pending += parts_of(node)
    return found


def _is_nothing(node: n.Stmt) -> bool:
    return isinstance(node, n.Evaluate) and isinstance(node.value, n.IntImm)


def is_own(call: n.Call) -> bool:
    """True if a tile operation moves elements of each thread's own."""
    match operation(call):
        case Copy(src, dst):
            return is_local(src.buffer) or is_local(dst.buffer)
        case Fill(dst):
            return is_local(dst.buffer)
        case _:
            return False


def _has_tile(node: n.Stmt) -> bool:
    return any(is_tile(part) for part in walk(node))
