"""Loops: as lanes where their iterations are independent, else one iteration after the other."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tensorir.runtime.errors import DiagnosticError, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.builtins import BUILTINS, Effect
from tensorir.tir.interpret.accesses import create, update_of
from tensorir.tir.interpret.machine import Act, Machine, compiled, execute, holds
from tensorir.tir.interpret.memory import Axis, Conflict, Level, lane_numbers
from tensorir.tir.interpret.values import Value, is_array
from tensorir.tir.storage import AT_ONCE
from tensorir.tir.trees import walk

# What can be said of a loop before it runs: which loops of a nest may be lanes, and which buffers its body writes.
#
# A loop variable can only be a lane if every element that the body writes depends on it; whether the iterations are
# then in fact independent is decided while they run, by the log of accesses (`memory.py`).

_HARMLESS = (Effect.PURE, Effect.EXPR_ANNOTATION, Effect.READ_STATE, Effect.EMBED_INFO)


@dataclass(slots=True)
class Facts:
    """Loop variables that every write depends on, and every write that is no update; none with other effects."""

    lanes: frozenset[n.Var]
    folding: frozenset[n.Var]
    written: frozenset[n.Buffer]
    pure: bool


@dataclass(slots=True)
class _Search:
    """Follows which variables depend on which loops, statement by statement."""

    loops: frozenset[n.Var]
    depends: dict[n.Var, frozenset[n.Var]]
    lanes: frozenset[n.Var]
    folding: frozenset[n.Var]
    written: set[n.Buffer] = field(default_factory=set[n.Buffer])
    updated: set[n.Buffer] = field(default_factory=set[n.Buffer])
    own: set[n.Buffer] = field(default_factory=set[n.Buffer])
    own_data: set[n.Var] = field(default_factory=set[n.Var])
    pure: bool = True

    def of(self, expr: n.Node) -> frozenset[n.Var]:
        """The loops on which an expression depends."""
        found: frozenset[n.Var] = frozenset()
        for node in walk(expr):
            match node:
                case n.Var():
                    found |= self.depends.get(node, frozenset())
                case n.Let(var, value):
                    self.depends[var] = self.of(value)
                case n.Call(op=str(name)):
                    row = BUILTINS.get(name)
                    if row is None or row.effect not in _HARMLESS:
                        self.pure = False
                case n.Call():
                    self.pure = False
                case _:
                    pass
        return found

    def define(self, var: n.Var, *sources: n.Node) -> None:
        self.depends[var] = frozenset[n.Var]().union(*(self.of(source) for source in sources))

    def statement(self, node: n.Stmt, inner: bool) -> None:
        """Look at one statement; `inner` says that a loop inside of the nest catches `break`."""
        match node:
            case n.SeqStmt(parts):
                for part in parts:
                    self.statement(part, inner)
            case n.LetStmt(var, value):
                self.define(var, value)
            case n.BufferStore(buffer, value, indices):
                self.of(value)
                found = frozenset[n.Var]().union(*(self.of(index) for index in indices))
                if buffer not in self.own and buffer.data not in self.own_data:
                    self.lanes &= found
                    if inner or buffer in self.updated or update_of(node) is None:
                        self.folding &= found
                    else:
                        self.updated.add(buffer)
                    self.written.add(buffer)
            case n.For(loop_var, low, extent, n.ForKind.THREAD_BINDING):
                self.pure = False
            case n.For(loop_var, low, extent):
                self.define(loop_var, low, extent)
                self.statement(node.body, True)
            case n.While(condition, body):
                self.of(condition)
                self.statement(body, True)
            case n.IfThenElse(condition, then, otherwise):
                self.of(condition)
                self.statement(then, inner)
                if otherwise is not None:
                    self.statement(otherwise, inner)
            case n.BlockRealize(values, predicate, block):
                self.of(predicate)
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    self.define(iterator.var, value)
                self._block(block, inner)
            case n.Evaluate(value):
                self.of(value)
            case n.AssertStmt(condition):
                self.of(condition)
            case n.AttrStmt(_, attr_key, _, body):
                if attr_key in ("thread_extent", "virtual_thread"):
                    self.pure = False
                self.statement(body, inner)
            case n.AllocBuffer(buffer):
                self.own.add(buffer)
                self.own_data.add(buffer.data)
            case n.Allocate(var):
                self.own_data.add(var)
            case n.DeclBuffer():
                if node.data in self.own_data:
                    self.own.add(node.buffer)
            case n.Break() | n.Continue():
                self.pure &= inner
            case _:
                self.pure = False

    def _block(self, block: n.Block, inner: bool) -> None:
        for buffer in block.alloc_buffers:
            self.own.add(buffer)
            self.own_data.add(buffer.data)
        for match in block.match_buffers:
            self.own_match(match)
        if block.init is not None:
            self.statement(block.init, inner)
        self.statement(block.body, inner)

    def own_match(self, match: n.MatchBufferRegion) -> None:
        """Writes into a matched region depend on what the region depends on; counted as writes everywhere."""
        if match.source.buffer in self.own:
            self.own.add(match.buffer)
            return
        offset = frozenset[n.Var]().union(*(self.of(r.min) for r in match.source.region))
        self.written.add(match.source.buffer)
        self.lanes &= offset
        self.folding &= offset


def facts(loops: tuple[n.Var, ...], body: n.Stmt) -> Facts:
    """Facts of a nest of loops over a body."""
    names = frozenset(loops)
    search = _Search(names, {var: frozenset([var]) for var in loops}, names, names)
    search.statement(body, False)
    matched = {b for b in search.written if b not in search.own}
    lanes, folding = (search.lanes, search.folding) if search.pure else (frozenset[n.Var](), frozenset[n.Var]())
    return Facts(lanes, folding, frozenset(matched), search.pure)


def written_alike(loop: n.For) -> frozenset[Span]:
    """Stores that write one loop-invariant value to the same elements in every iteration.

    `for i in T.parallel(8): A[0] = B[1]` writes B[1] whichever iteration comes last.
    """
    names = frozenset([loop.loop_var])
    search = _Search(names, {loop.loop_var: names}, names, names)
    search.statement(loop.body, False)
    if not search.pure:
        return frozenset()
    places = Counter(store.span for store in walk(loop.body) if isinstance(store, n.BufferStore))
    changing = search.own_data | {b.data for b in (*search.written, *search.own)}
    found: set[Span] = set()
    for store, conditions in _stores(loop.body, ()):
        inside = walk(store.value)
        varies = any(v in search.depends or (isinstance(v, n.BufferLoad) and v.buffer.data in changing) for v in inside)
        elsewhere = any(search.of(part) for part in (*store.indices, *conditions))
        if not varies and not elsewhere and places[store.span] == 1:
            found.add(store.span)
    return frozenset(found)


def _stores(node: n.Stmt, conditions: tuple[n.Expr, ...]) -> Iterator[tuple[n.BufferStore, tuple[n.Expr, ...]]]:
    """The stores of a body, each with the conditions and bounds around it."""
    match node:
        case n.SeqStmt(parts):
            for part in parts:
                yield from _stores(part, conditions)
        case n.BufferStore():
            yield node, conditions
        case n.For(_, low, extent):
            yield from _stores(node.body, (*conditions, low, extent))
        case n.IfThenElse(condition, then, otherwise):
            yield from _stores(then, (*conditions, condition))
            if otherwise is not None:
                yield from _stores(otherwise, (*conditions, condition))
        case n.BlockRealize(_, predicate, block):
            yield from _stores(block.body, (*conditions, predicate))
        case _:
            pass


# Loops: as lanes where their iterations are independent, one iteration after the other otherwise.
#
# A perfect nest is tried once as lanes over the loops on which every write depends; the others run in order, inside.
# The log of accesses decides exactly, on the concrete addresses, whether no lane touched what another wrote; if one
# did, the writes are taken back and the outermost loop runs serially, which gives the inner nests their turn.


MOST_LANES = 1 << 19
FEWEST_LANES = 8
ENOUGH_LANES = 2048
TRIES = 3


@dataclass(slots=True)
class Loop:
    """One loop of a nest, compiled."""

    node: n.For
    low: Callable[[Machine], Value]
    extent: Callable[[Machine], Value]
    step: Callable[[Machine], Value] | None
    body: Act
    alike: frozenset[Span] | None = None


@dataclass(slots=True)
class Nest:
    """A perfect nest, and how often lanes did not work out."""

    loops: list[Loop]
    facts: Facts | None = None
    failures: int = 0
    folds: bool = True


def compile_loop(node: n.For) -> Act:
    """The function of a loop that is not bound to threads."""
    loops: list[Loop] = []
    current: n.Stmt = node
    outer: set[n.Var] = set()
    while isinstance(current, n.For) and current.kind is not n.ForKind.THREAD_BINDING:
        bounds = [current.min, current.extent, *([current.step] if current.step is not None else [])]
        if loops and any(v in outer or isinstance(v, n.BufferLoad) for bound in bounds for v in walk(bound)):
            break
        outer.add(current.loop_var)
        step = None if current.step is None else compiled(current.step)
        loops.append(Loop(current, compiled(current.min), compiled(current.extent), step, execute_later(current.body)))
        current = current.body
    nest = Nest(loops)

    def run(m: Machine) -> None:
        if m.count < ENOUGH_LANES and (nest.failures < TRIES or nest.folds) and _at_once(m, nest):
            return
        _in_order(m, loops[0], loops[0].body)

    return run


def execute_later(node: n.Stmt) -> Act:
    """The statement, compiled when it first runs: an inner loop is a nest of its own only if the outer one failed."""
    act: Act | None = None

    def run(m: Machine) -> None:
        nonlocal act
        if act is None:
            act = execute(node)
        act(m)

    return run


def _bounds(m: Machine, loop: Loop) -> tuple[Value, Value, int]:
    """First value, number of iterations, step."""
    low, extent = loop.low(m), loop.extent(m)
    step = 1 if loop.step is None else int(loop.step(m))
    if step <= 0:
        raise refuse("TR12", f"the step of a loop is {step}; it must be positive.", at=loop.node.span)
    low = low.astype(np.int64) if is_array(low) else int(low)
    extent = extent.astype(np.int64) if is_array(extent) else int(extent)
    return low, -(-extent // step) if step != 1 else extent, step


def _serial(m: Machine, loop: Loop, body: Act) -> None:
    """One iteration after the other; lanes may have different bounds."""
    low, extent, step = _bounds(m, loop)
    var, kind = loop.node.loop_var, loop.node.loop_var.dtype.numpy.type
    outer = (m.mask, m.broken, m.continued, m.jumps)
    m.broken = m.continued = None
    m.jumps = m.returned is not None
    entry = m.mask
    trace = m.trace
    plain = np.ndim(low) == 0
    for index in range(int(np.max(extent)) if np.size(extent) else 0):
        value = low + index * step
        m.env[var] = kind(value) if plain else value.astype(var.dtype.numpy)
        if np.ndim(extent):
            here = index < extent if entry is None else entry & (index < extent)
            if not here.any():
                break
            m.mask = here
        else:
            m.mask = entry
        if m.jumps:
            m.continued = None
            going = m.narrowed(~m.left())
            if not np.any(going):
                break
            if not (np.ndim(going) == 0 and m.mask is None):
                m.mask = going
        if plain:
            trace.append((var.name, value))
            body(m)
            trace.pop()
        else:
            body(m)
    m.mask, m.broken, m.continued, m.jumps = outer
    m.jumps = m.jumps or m.returned is not None


def _nested(m: Machine, loops: list[Loop], body: Act) -> None:
    if not loops:
        body(m)
    else:
        _in_order(m, loops[0], lambda machine: _nested(machine, loops[1:], body))


def _in_order(m: Machine, loop: Loop, body: Act) -> None:
    """One iteration after the other; in checked mode a loop that claims to be parallel has to be."""
    if m.checked and loop.node.kind in AT_ONCE:
        _watched(m, loop, body)
    else:
        _serial(m, loop, body)


def _at_once(m: Machine, nest: Nest) -> bool:
    """Try the nest with its loops as lanes; False, with nothing changed, where that does not work."""
    if nest.facts is None:
        nest.facts = facts(tuple(loop.node.loop_var for loop in nest.loops), nest.loops[-1].node.body)
        nest.folds = nest.facts.folding != nest.facts.lanes
        nest.failures = 0 if nest.facts.lanes else TRIES
        if not nest.facts.folding:
            return False
    known = nest.facts
    try:
        bounds = [_bounds(m, loop) for loop in nest.loops]
    except DiagnosticError:
        return False
    if any(np.ndim(low) or np.ndim(extent) for low, extent, _ in bounds):
        return False
    if any(extent <= 0 for _, extent, _ in bounds):
        return True
    lanes, wide = _chosen(m, nest, known.lanes, bounds)
    strict = nest.failures < TRIES and wide >= FEWEST_LANES
    if nest.folds and not (m.checked and (m.kernel is not None or any(x.node.kind in AT_ONCE for x in nest.loops))):
        folding, every = _chosen(m, nest, known.folding, bounds)
        # folds are in the order of the text: the loops that are no lanes are the outer ones
        suffix = folding == list(range(len(bounds) - len(folding), len(bounds)))
        if suffix and every >= FEWEST_LANES and not (strict and wide * wide >= every):
            if _attempt(m, nest, folding, bounds, True):
                return True
            nest.folds = False
    return strict and _attempt(m, nest, lanes, bounds)


def _chosen(
    m: Machine, nest: Nest, among: frozenset[n.Var], bounds: list[tuple[Value, Value, int]]
) -> tuple[list[int], int]:
    """The loops that are lanes, inner ones first of all, and how many lanes they are."""
    chosen: list[int] = []
    wide = 1
    for place in reversed(range(len(bounds))):
        if nest.loops[place].node.loop_var in among and m.count * wide * bounds[place][1] <= MOST_LANES:
            chosen.insert(0, place)
            wide *= bounds[place][1]
    return chosen, wide


def _attempt(
    m: Machine, nest: Nest, chosen: list[int], bounds: list[tuple[Value, Value, int]], folding: bool = False
) -> bool:
    """Run the chosen loops as lanes, the others inside of them; `folding` says that lanes meet in updates."""
    depth = len(m.levels)
    outermost = m.undo is None
    if m.undo is None:
        m.undo = []
    start = len(m.undo)
    before = (m.axes, m.count, m.mask, m.broken, m.continued, m.jumps, m.returned, len(m.blocks), m.indexing, m.fold)
    trace = m.trace
    traced = len(trace)
    for place in chosen:
        low, extent, step = bounds[place]
        var = nest.loops[place].node.loop_var
        values: Value = np.arange(extent).reshape(-1, *([1] * len(m.axes)))
        m.env[var] = (low + values * step).astype(var.dtype.numpy)
        m.axes = (*m.axes, Axis(var.name, low, extent, np.arange(extent), depth, step))
        m.count *= extent
    assert nest.facts is not None
    done, own = False, None
    try:
        memories = {id(m.view(buffer).memory) for buffer in nest.facts.written}
        sites = m.sites if m.checked else None
        own = Level(m.axes, depth, lane_numbers(m.axes), memories, sites=sites, folds=folding)
        m.levels.append(own)
        m.fold = own if folding else m.fold
        rest = [loop for place, loop in enumerate(nest.loops) if place not in chosen]
        _nested(m, rest, nest.loops[-1].body)
        done = True
    except Conflict as conflict:
        nest.failures += not folding
        # whether lanes outside may meet is for their own level to say, which looked before this one did
        if conflict.depth < depth and conflict.level is not own:
            raise
    except DiagnosticError:
        nest.failures = nest.failures if folding else TRIES
    finally:
        del m.levels[depth:]
        m.axes, m.count, m.mask, m.broken, m.continued, m.jumps, m.returned, blocks, m.indexing, m.fold = before
        del m.blocks[blocks:]
        del trace[traced:]
        if not done:
            m.restore(start)
        if outermost:
            m.undo = None
    return done


def _watched(m: Machine, loop: Loop, inside: Act) -> None:
    """A loop that claims independent iterations, run serially: what they share is a race."""
    low, extent, step = _bounds(m, loop)
    if np.ndim(low) or np.ndim(extent):
        _serial(m, loop, inside)
        return
    if loop.alike is None:
        loop.alike = written_alike(loop.node)
    depth, traced = len(m.levels), len(m.trace)
    m.axes = (*m.axes, Axis(loop.node.loop_var.name, low, max(extent, 1), np.zeros(1, np.int64), depth, step))
    level = Level(m.axes, depth, 0, None, sites=m.sites, alike=loop.alike)
    m.levels.append(level)
    index, scratch = 0, m.scratch.get(loop.node, ())

    def body(machine: Machine) -> None:
        nonlocal index
        for buffer in scratch:
            create(m, buffer, m.view(buffer).shape, loop.node.span)
        level.numbers = lane_numbers(m.axes[:-1]) * max(extent, 1) + index
        if is_array(level.numbers):
            level.numbers = level.numbers[None]
        index += 1
        inside(machine)

    try:
        _serial(m, loop, body)
    except Conflict as conflict:
        if conflict.depth < depth:
            raise
        del m.trace[traced:]
        raise m.race(conflict) from None
    finally:
        del m.levels[depth:]
        m.axes = m.axes[: len(level.axes) - 1]


def compile_while(node: n.While) -> Act:
    """A `while`: lanes for which the condition no longer holds wait for the others."""
    condition, body = holds(node.condition), execute_later(node.body)

    def run(m: Machine) -> None:
        outer = (m.mask, m.broken, m.continued, m.jumps)
        m.broken = m.continued = None
        m.jumps = m.returned is not None
        entry = m.mask
        while True:
            m.mask = entry
            m.continued = None
            if m.jumps:
                going = m.narrowed(~m.left())
                if not np.any(going):
                    break
                m.mask = going if np.ndim(going) else entry
            holds = condition(m) != 0
            if np.ndim(holds):
                here = m.narrowed(holds)
                if not here.any():
                    break
                entry = m.mask = here
            elif not holds:
                break
            body(m)
        m.mask, m.broken, m.continued, m.jumps = outer
        m.jumps = m.jumps or m.returned is not None

    return run
