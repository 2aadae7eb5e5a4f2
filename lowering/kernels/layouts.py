"""Layouts of arrays while a program runs: turned as seldom as its scans, inputs and results allow.

A kernel of a scan reads its levels one after the other, and its columns side by side: the scanned axis belongs
outermost. Everything else is computed in any order of axes, that of its operands. So an array with a scanned axis has
it last or first; inputs and results have their own order, scans have it first, and an array that is read in the other
order is turned by XLA, once for all that read it so. The order of all that turns the fewest bytes is a minimum cut.

>>> import jax
>>> from jax import lax
>>> add = lambda a, x: (a + x, a + x)
>>> def twice(x):  # levels innermost: each scan turns what it reads, and what it makes
...     for _ in range(2):
...         x = 2.0 * lax.transpose(lax.scan(add, x[:, 0], lax.transpose(x, (1, 0)))[1], (1, 0))
...     return x
>>> closed = jax.make_jaxpr(twice)(jax.numpy.zeros((64, 9)))
>>> [[str(e.primitive) for e in c.jaxpr.eqns].count("transpose") for c in (closed, turned(closed))]
[4, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from lowering.kernels.equations import FOLDING, POINTWISE, gathered, is_fusible
from lowering.kernels.minimum_cut import Graph
from lowering.kernels.program import bind, element_of, shape_of, states_of, variables
from lowering.kernels.sweeps import swept
from lowering.tracing import shaped

LAST, FIRST = "last", "first"
"""The position of the scanned axis of an array."""
TURNED, MADE = 2, 3
"""Passes over memory of a transposition: read and written; and written before, where it were not stored."""

Axis = tuple[Any, int]
Order = tuple[int, ...]
"""The axes of a variable from the outermost to the innermost."""


def turned(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program, its arrays laid out so that the fewest bytes are transposed; itself if it transposes
    nothing.
    """
    if not any(map(_is_relayout, closed.jaxpr.eqns)):
        return closed
    layout = Layout(closed)
    return layout.program if layout.place else closed


def _is_relayout(e: JaxprEqn) -> bool:
    return e.primitive.name == "transpose" and not is_fusible(e)


class Layout:
    """The order of all arrays of a program.

    Of a step that is repeated, the last inputs are what its results are before it: they have any order, the same
    before and after. Its other inputs do not change, and are turned before the first step.
    """

    def __init__(self, closed: ClosedJaxpr, repeated: bool = False) -> None:
        """Choose the layouts of a program; `repeated`: it is a step whose results are its last inputs before the
        next.
        """
        self.closed, self.jaxpr = closed, closed.jaxpr
        inputs, results = self.jaxpr.invars, self.jaxpr.outvars
        self.before: Sequence[Any] = inputs[len(inputs) - len(results) :] if repeated else [None] * len(results)
        """Of each result, the input that has it before the step."""
        self.loose = frozenset(inputs) if repeated else frozenset[Any]()
        self.sweeps = {id(e) for e in self.jaxpr.eqns if swept(e) is not None}
        self.scanned = self._scanned()
        """The axis of each variable that scans have first, if it has one."""
        self.pinned = {v for v, k in self.scanned.items() if k is None}
        self.place = self._places() if self.scanned else {}
        """The position of the scanned axis, by variable, of those that have a choice."""

    # Which axes are scanned

    def _scanned(self) -> dict[Any, int | None]:
        """By variable with a scanned axis, that axis; None if it has several.

        Axes that operations identify (`_same_axes`) are one class; `_axes_to_relayout` chooses classes.
        """
        classes = _Classes()
        for e in self.jaxpr.eqns:
            for a, b in _same_axes(e, id(e) in self.sweeps):
                classes.join(a, b)
        for v, x in zip(self.jaxpr.outvars, self.before, strict=True):
            for k in range(len(shape_of(v)) if x is not None else 0):
                classes.join((v, k), (x, k))
        relayout_classes = self._axes_to_relayout(classes)
        scanned: dict[Any, int | None] = {}
        for v in self._variables():
            axes = [k for k in range(len(shape_of(v))) if classes.of((v, k)) in relayout_classes]
            if axes:
                scanned[v] = axes[0] if len(axes) == 1 else None
        return scanned

    def _axes_to_relayout(self, classes: _Classes) -> set[Axis]:
        """For every transpose that moves the innermost axis, one class of axes whose position is chosen to save it.

        Prefers axes of scans, then those moved from one end to the other, then those no index replaces; none if one of
        the moved is chosen already.
        """
        scan_axes = {classes.of((v, 0)) for e in self.jaxpr.eqns if id(e) in self.sweeps for v in _levels(e)}
        relayout_classes, indexed = set[Axis](), set[Axis]()
        for e in self.jaxpr.eqns:
            indexed.update(classes.of(a) for a in _gather_axes(e))
        for e in filter(_is_relayout, self.jaxpr.eqns):
            axes, last = e.params["permutation"], len(e.params["permutation"]) - 1
            # what was innermost, and what is
            goes_end_to_end = {
                classes.of((e.invars[0], k)): {k, axes.index(k)} == {0, last} for k in (last, axes[last])
            }
            if relayout_classes.isdisjoint(goes_end_to_end):
                relayout_classes.add(
                    max(goes_end_to_end, key=lambda a: (a in scan_axes, goes_end_to_end[a], a not in indexed))
                )
        return relayout_classes

    def _variables(self) -> Iterator[Any]:
        """All variables of the program."""
        yield from self.jaxpr.constvars
        yield from self.jaxpr.invars
        for e in self.jaxpr.eqns:
            yield from e.outvars

    def _as_written(self, v: Any) -> str | None:
        """`FIRST` or `LAST`, the position of the scanned axis of v as the program is written; None if it makes no
        difference.
        """
        k = self.scanned.get(v) if not isinstance(v, Literal) else None
        shape = shape_of(v)
        if k is None or prod(shape) in (shape[k], 1) or shape[k] == 1:
            return None
        # in between is as good as first: what lies side by side is the same
        return LAST if k == len(shape) - 1 else FIRST

    # Where they are

    def _places(self) -> dict[Any, str]:
        """The position of the scanned axis, by variable with a choice, that transposes the fewest bytes: a minimum
        cut.

        Nodes are variables and, for each, its transposed copies; the two sides are `LAST` and `FIRST`.
        """
        graph = Graph((LAST, FIRST))
        inputs = [*self.jaxpr.constvars, *self.jaxpr.invars]
        held = set(variables((*inputs, *self.jaxpr.outvars)))

        def reads(x: Any, reader: Any = None) -> None:
            """An edge for a read of x in the layout of `reader`, or as written without one; it costs the
            transposition of x.
            """
            if (position := self._as_written(x)) is None:
                return
            reader = position if reader is None else reader
            passes = TURNED if x in held else MADE
            passes = 0 if x in self.loose and x not in self.before else passes
            cost = passes * prod(shape_of(x)) * element_of(x).itemsize
            # turned once for all its readers of a place
            turned_first, turned_last = (x, "turned first"), (x, "turned last")
            graph.edge(x, turned_first, cost)
            graph.edge(turned_first, reader)
            graph.edge(turned_last, x, cost)
            graph.edge(reader, turned_last)

        def fix(v: Any) -> None:
            """Keep v as it is written."""
            if (position := self._as_written(v)) is not None:
                graph.edge(position, v)
                graph.edge(v, position)

        for v in inputs:
            if v not in self.loose:
                fix(v)
        for e in self.jaxpr.eqns:
            if self._is_free(e):
                (v,) = e.outvars
                if self._as_written(v) is not None:
                    for x in e.invars:
                        reads(x, v)
                continue
            held.update(e.outvars)
            for v in e.outvars:
                fix(v)
            for x in e.invars:
                reads(x)
        for v, x in zip(self.jaxpr.outvars, self.before, strict=True):
            reads(v, x)
        in_last = graph.cut()
        return {v: LAST if v in in_last else FIRST for v in self.scanned if self._as_written(v) is not None}

    def _is_free(self, e: JaxprEqn) -> bool:
        """True if an equation can be computed in any order of its arrays' axes."""
        primitive_name = e.primitive.name
        if primitive_name != "transpose" and not is_fusible(e):
            return False
        if any(self.scanned.get(v) == k for v, k in _gather_axes(e)):
            return False
        return self.pinned.isdisjoint(variables((*e.invars, *e.outvars)))

    def order(self, v: Any, place: str | None) -> Order:
        """The axes of a variable in memory, its scanned axis at `place`; as written if `place` is None."""
        axes = tuple(range(len(shape_of(v))))
        k = None if isinstance(v, Literal) else self.scanned.get(v)
        if k is None or place is None:
            return axes
        other_axes = tuple(a for a in axes if a != k)
        return (k, *other_axes) if place == FIRST else (*other_axes, k)

    # The program

    @property
    def entries(self) -> list[Order]:
        """The order in which each input comes."""
        return [self.order(v, self.place.get(v) if v in self.loose else None) for v in self.jaxpr.invars]

    @property
    def program(self) -> ClosedJaxpr:
        """The program of inputs in the order `entries`, its arrays in the chosen layouts."""
        shapes = [
            shaped(tuple(a.shape[k] for k in order), a.dtype, a)
            for a, order in zip(self.closed.in_avals, self.entries, strict=True)
        ]
        return jax.make_jaxpr(self._run)(*shapes)

    def _run(self, *operands: Any) -> list[Any]:
        """The results of the program in its chosen layouts, for operands in the order `entries`."""
        env: dict[Any, tuple[Any, Order]] = {}
        transposed: dict[tuple[Any, Order], Any] = {}
        """Transposed arrays, by variable and order."""

        def get(v: Any, order: Order) -> Any:
            """The value of a variable in an order of axes, transposed once for each order."""
            if isinstance(v, Literal):
                return v.val
            value, source = env[v]
            if source == order:
                return value
            if (v, order) not in transposed:
                transposed[v, order] = in_order(value, [source.index(k) for k in order])
            return transposed[v, order]

        for v, x in zip(self.jaxpr.constvars, self.closed.consts, strict=True):
            env[v] = x, self.order(v, None)
        for v, x, order in zip(self.jaxpr.invars, operands, self.entries, strict=True):
            env[v] = x, order
        for e in self.jaxpr.eqns:
            if not self._is_free(e):
                values = [get(v, self.order(v, None)) for v in e.invars]
                for v, x in zip(e.outvars, bind(e, values), strict=True):
                    env[v] = x, self.order(v, None)
                continue
            (v,) = e.outvars
            places = (self.place[x] for x in variables((v, *e.invars)) if x in self.place)
            place = next(places, None)
            orders = [self.order(x, place) for x in e.invars]
            values = [get(x, order) for x, order in zip(e.invars, orders, strict=True)]
            order = self.order(v, place)
            env[v] = _bound_in_orders(e, values, orders, order), order
        entry = dict(zip(self.jaxpr.invars, self.entries, strict=True))
        exits = [
            self.order(v, None) if x is None else entry[x] for v, x in zip(self.jaxpr.outvars, self.before, strict=True)
        ]
        return [get(v, order) for v, order in zip(self.jaxpr.outvars, exits, strict=True)]


def in_order(x: Any, axes: Sequence[int]) -> Any:
    """An array with its axes permuted: a reshape if only axes of extent 1 change places."""
    shape = tuple(x.shape[k] for k in axes)
    if [k for k in axes if x.shape[k] != 1] == [k for k in range(x.ndim) if x.shape[k] != 1]:
        return lax.reshape(x, shape)
    return lax.transpose(x, axes)


@dataclass(slots=True)
class _Classes:
    """Axes that are the same wherever values go."""

    parent: dict[Axis, Axis] = field(default_factory=dict[Axis, Axis])

    def of(self, a: Axis) -> Axis:
        """The representative of the class of an axis."""
        while (up := self.parent.get(a, a)) != a:
            self.parent[a] = self.parent.get(up, up)
            a = up
        return a

    def join(self, a: Axis, b: Axis) -> None:
        self.parent[self.of(a)] = self.of(b)


def _levels(e: JaxprEqn) -> Iterable[Any]:
    """Operands and results of a scan that have its levels."""
    constants, states = states_of(e)
    yield from variables(e.invars[constants + states :])
    yield from e.outvars[states:]


def _same_axes(e: JaxprEqn, is_sweep: bool) -> Iterator[tuple[Axis, Axis]]:
    """Pairs of an axis of an operand and the axis of the result (for scans: of levels) that it becomes.

    `is_sweep`: the equation is a scan that a kernel computes.
    """
    name, p = e.primitive.name, e.params
    if is_sweep:
        levels = list(_levels(e))
        yield from (((v, 0), (levels[0], 0)) for v in levels[1:])
        return
    if name not in POINTWISE and not is_fusible(e) and name != "transpose":
        return
    y = e.outvars[0]
    for x in e.invars:
        if isinstance(x, Literal) or not (rank := len(shape_of(x))):
            continue
        pairs: Iterable[tuple[int, int]]
        match name:
            case "broadcast_in_dim":
                pairs = enumerate(p["broadcast_dimensions"])
            case "transpose":
                pairs = ((k, n) for n, k in enumerate(p["permutation"]))
            case "squeeze" | "reshape":
                pairs = zip(*([k for k, n in enumerate(shape_of(v)) if n != 1] for v in (x, y)), strict=True)
            case "gather":
                if x is not e.invars[0]:
                    continue
                (_, a), (_, b) = _gather_axes(e)
                pairs = zip(*([k for k in range(rank) if k != n] for n in (a, b)), strict=True)
            case _ if name in FOLDING:
                pairs = ((k, n) for n, k in enumerate(k for k in range(rank) if k not in p["axes"]))
            case _:
                pairs = ((k, k) for k in range(rank))
        yield from (((x, a), (y, b)) for a, b in pairs)


def _gather_axes(e: JaxprEqn) -> tuple[Axis, ...]:
    """Of a gather that a kernel computes, the axes of operand and result that indices replace; empty for other
    equations.
    """
    axes = gathered(e) if e.primitive.name == "gather" else None
    return () if axes is None else ((e.invars[0], axes[0]), (e.outvars[0], axes[1]))


def _bound_in_orders(e: JaxprEqn, values: Sequence[Any], orders: Sequence[Order], order: Order) -> Any:
    """The result, its axes in `order`, of an equation whose operands have their axes in `orders`."""
    name, p, shape = e.primitive.name, e.params, shape_of(e.outvars[0])
    ordered = tuple(shape[k] for k in order)
    if name in POINTWISE:
        return e.primitive.bind(*values, **p)
    if name in FOLDING:
        axes = tuple(sorted(orders[0].index(k) for k in p["axes"]))
        return e.primitive.bind(*values, **{**p, "axes": axes})
    match name:
        case "gather":
            (x, indices), ((_, a), (_, b)) = values, _gather_axes(e)
            operand_axis, result_axis = orders[0].index(a), order.index(b)
            numbers = lax.GatherDimensionNumbers(
                tuple(k for k in range(x.ndim) if k != result_axis), (operand_axis,), (operand_axis,)
            )
            sizes = [1 if k == operand_axis else n for k, n in enumerate(x.shape)]
            return lax.gather(x, indices, numbers, sizes, mode=e.params["mode"])
        case "iota":
            return lax.broadcasted_iota(p["dtype"], ordered, order.index(p["dimension"]))
        case "concatenate":
            return lax.concatenate(values, order.index(p["dimension"]))
        case "pad":
            return lax.pad(values[0], values[1], [p["padding_config"][k] for k in order])
    (x,), (source,) = values, orders
    match name:
        case "slice":
            strides = None if p["strides"] is None else [p["strides"][k] for k in source]
            starts, stops = ([p[n][k] for k in source] for n in ("start_indices", "limit_indices"))
            return lax.slice(x, starts, stops, strides)
        case "broadcast_in_dim":
            return lax.broadcast_in_dim(x, ordered, [order.index(p["broadcast_dimensions"][k]) for k in source])
        case "transpose":
            axes = [source.index(p["permutation"][k]) for k in order]
            return x if axes == sorted(axes) else in_order(x, axes)
        case "rev":
            return lax.rev(x, [source.index(k) for k in p["dimensions"]])
        case "squeeze" | "reshape":
            return lax.reshape(x, ordered)
        case _:
            raise AssertionError(name)
