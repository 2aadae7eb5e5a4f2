"""Loops: as lanes where their iterations are independent, one iteration after the other otherwise.

A perfect nest is tried once as lanes over the loops on which every write depends; the others run in order, inside. The
log of accesses decides exactly, on the concrete addresses, whether no lane touched what another wrote; if one did, the
writes are taken back and the outermost loop runs serially, which gives the inner nests their turn.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tensorir.runtime.errors import DiagnosticError, Span
from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import Value, is_array
from tensorir.tir.interpret.blocks import create
from tensorir.tir.interpret.code import Act, compiled, execute
from tensorir.tir.interpret.dependence import Facts, facts, written_alike
from tensorir.tir.interpret.folds import Fold, fold_of
from tensorir.tir.interpret.hazards import Axis, Conflict, Level, lane_numbers
from tensorir.tir.interpret.machine import Machine, error
from tensorir.tir.scratch import AT_ONCE
from tensorir.tir.walk import walk

__all__ = ["compile_loop", "compile_while"]

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
    fold: Fold | None = None
    failures: int = 0
    misfolds: int = 0
    claims: bool = field(default=False)


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
    nest = Nest(loops, fold=fold_of(loops[-1].node.body), claims=any(loop.node.kind in AT_ONCE for loop in loops))

    def run(m: Machine) -> None:
        if m.count < ENOUGH_LANES and (nest.failures < TRIES or nest.fold is not None) and _at_once(m, nest):
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
        raise error("TR12", f"the step of a loop is {step}; it must be positive.", loop.node.span)
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
    """Try the nest as a fold, or with its loops as lanes; False, with nothing changed, where that does not work."""
    if nest.facts is None:
        nest.facts = facts(tuple(loop.node.loop_var for loop in nest.loops), nest.loops[-1].node.body)
    known = nest.facts
    if not known.lanes:
        nest.failures = TRIES
        if nest.fold is None:
            return False
    try:
        bounds = [_bounds(m, loop) for loop in nest.loops]
    except DiagnosticError:
        return False
    if any(np.ndim(low) or np.ndim(extent) for low, extent, _ in bounds):
        return False
    if any(extent <= 0 for _, extent, _ in bounds):
        return True
    chosen: list[int] = []
    total = m.count
    for place in reversed(range(len(bounds))):
        if nest.loops[place].node.loop_var in known.lanes and total * bounds[place][1] <= MOST_LANES:
            chosen.insert(0, place)
            total *= bounds[place][1]
    wide, every = total // m.count, math.prod(extent for _, extent, _ in bounds)
    lanes = nest.failures < TRIES and wide >= FEWEST_LANES
    folds = (
        nest.misfolds < TRIES
        and m.count * every <= MOST_LANES
        and not (m.checked and (nest.claims or m.kernel is not None))
    )
    if nest.fold is not None and folds and every >= FEWEST_LANES and not (lanes and wide * wide >= every):
        if _attempt(m, nest, list(range(len(bounds))), bounds, nest.fold):
            return True
        nest.misfolds += 1
    return lanes and _attempt(m, nest, chosen, bounds)


def _attempt(
    m: Machine, nest: Nest, chosen: list[int], bounds: list[tuple[Value, Value, int]], fold: Fold | None = None
) -> bool:
    """Run the chosen loops as lanes: the others inside of them, or all as one fold."""
    depth = len(m.levels)
    outermost = m.undo is None
    if m.undo is None:
        m.undo = []
    start = len(m.undo)
    before = (m.axes, m.count, m.mask, m.broken, m.continued, m.jumps, m.returned, len(m.blocks), m.indexing)
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
        if fold is not None:
            done = fold.run(m)
            return done
        memories = {id(m.view(buffer).memory) for buffer in nest.facts.written}
        sites = m.sites if m.checked else None
        own = Level(m.axes, depth, lane_numbers(m.axes), memories, sites=sites)
        m.levels.append(own)
        rest = [loop for place, loop in enumerate(nest.loops) if place not in chosen]
        _nested(m, rest, nest.loops[-1].body)
        done = True
    except Conflict as conflict:
        nest.failures += fold is None
        # whether lanes outside may meet is for their own level to say, which looked before this one did
        if conflict.depth < depth and conflict.level is not own:
            raise
    except DiagnosticError:
        nest.failures = TRIES if fold is None else nest.failures
    finally:
        del m.levels[depth:]
        m.axes, m.count, m.mask, m.broken, m.continued, m.jumps, m.returned, blocks, m.indexing = before
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
    condition, body = compiled(node.condition), execute_later(node.body)

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
