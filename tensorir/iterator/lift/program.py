"""A program at its sizes as a fencil: its statements in order, each stored tensor an output of its own.

What a statement stores later statements read as computed, so an output is no input, and the caller's buffers are
written when everything is computed. A lifted program is the fencil, how it came about, and a function of arrays.
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from tensorir.analysis.absence import analyse_absence
from tensorir.backends import compile
from tensorir.binding.calls import bind
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import ALWAYS, NEVER, Box, is_empty
from tensorir.ir import build
from tensorir.ir.nodes import Closure, Fencil, Var
from tensorir.ir.types import BOOL, Scalar, TensorType
from tensorir.iterator.lift.emit import Emission
from tensorir.iterator.lift.evaluate import Evaluator
from tensorir.iterator.lift.graph import Node, Table, postorder
from tensorir.iterator.lift.needs import begins_elsewhere, extents, needs
from tensorir.iterator.lift.structural import BUILTINS, PARTIALS
from tensorir.iterator.lift.values import Closure as FunctionValue
from tensorir.iterator.lift.values import Domain, Env, Known, Target, leaves, tree_map
from tensorir.iterator.nodes import (
    Call,
    Expr,
    FieldType,
    If,
    Lambda,
    Literal,
    Offset,
    Program,
    Ref,
    SetAt,
    run,
)
from tensorir.runtime.errors import did_you_mean, refuse


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of a parameter: its name, its element, and its dims; a number has none."""

    name: str
    element: Scalar
    dims: Dims | None = None
    value: Any = None
    index: str = ""
    """The dim whose coordinate it is, where it is an index field."""
    locals: tuple[str, ...] = ()
    """Those of its dims whose points are neighbours."""
    layout: Dims | None = None
    """Its dims in the order in which they lie in memory, with what pads them."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the lift.

    `out_of_range` is what a dynamic offset reads outside of its field: the nearest point ("clamp"), or nothing, with an
    error ("checked"). Other reads outside of a field are errors, and with "lenient" they too take the nearest point,
    for models that read what nobody allocated and do not use it. `holes` is what is read through a single slot without
    a neighbour: "zero", or "refuse".
    """

    out_of_range: str = "clamp"
    holes: str = "zero"

    def __post_init__(self) -> None:
        known = {"out_of_range": ("clamp", "checked", "lenient"), "holes": ("zero", "refuse")}
        for name, values in known.items():
            if (value := getattr(self, name)) not in values:
                raise refuse("TI12", f"{name} is {value!r}.", f"it is {', '.join(map(repr, values))}.")


def options_of(options: Mapping[str, Any]) -> Options:
    """The options that keywords are; TA07 for one that there is not."""
    names = [f.name for f in fields(Options)]
    for option in options:
        if option not in names:
            message = f"the lift of a program of GT4Py has no option '{option}'."
            raise refuse("TA07", message, did_you_mean(option, names))
    return Options(**options)


@dataclass(frozen=True, slots=True)
class Output:
    """A stored tensor: its parameter in the fencil, the leaf that it is stored to, and where."""

    name: str
    leaf: str
    box: Box


@dataclass(frozen=True, slots=True, eq=False)
class Specialised:
    """A program at one set of sizes; `fencil` is None where nothing is stored."""

    fencil: Fencil | None
    inputs: tuple[str, ...]
    """The leaves that are read."""
    outputs: tuple[Output, ...]
    tables: Mapping[str, tuple[Table, Any]]
    used: frozenset[str]
    """The scalars that it is made for."""
    report: tuple[str, ...] = ()
    steps: int = 0
    targets: frozenset[str] = frozenset()
    """The leaves that statements name to store to, on domains without points, too."""

    @property
    def arrays(self) -> dict[str, Any]:
        """The rows of the neighbour tables that are read, by the names of their parameters."""
        return {name: table.at(rows) for name, (table, rows) in self.tables.items()}


@dataclass(eq=False)
class _State:
    """The names of a program while it is read: what they stand for, and what was stored."""

    name: str
    ev: Evaluator
    env: dict[str, Any]
    places: dict[str, Any]
    dims: dict[str, Leaf]
    stored: list[tuple[Leaf, Box, Node]] = field(default_factory=list[tuple[Leaf, Box, Node]])
    temporaries: set[str] = field(default_factory=set[str])
    targets: set[str] = field(default_factory=set[str])


def specialise(
    program: Program, args: Mapping[str, Any], provider: Mapping[str, Target], column: str | None, options: Options
) -> Specialised:
    """A program for arguments: a tree of leaves per parameter."""
    _, state = _read(program, args, provider, column)
    _declare_temporaries(state, program)
    waiting = list(program.body)
    while waiting:
        match waiting.pop(0):
            case If(condition, then, otherwise):
                chosen = state.ev.known.number(run(state.ev.expression(condition, Env(state.env))))
                waiting = [*(then if chosen else otherwise), *waiting]
            case SetAt() as statement:
                _store(state, statement)
    return _assemble(program.name, state, options)


def natural(program: Program, args: Mapping[str, Any], provider: Mapping[str, Target], column: str | None) -> Any:
    """The largest boxes on which what an operator's program stores can be computed, in the structure of its result."""
    ev, state = _read(program, args, provider, column)
    (statement,) = program.body
    assert isinstance(statement, SetAt)
    value = run(ev.expression(statement.value, Env(state.env)))
    roots = leaves(value)
    boxes = extents(list(postorder(roots)), ev.known.domains)
    for root in roots:
        for d, ends in boxes[root].items():
            if d not in ev.slots and (NEVER in ends or ALWAYS in ends):
                message = f"nothing tells the interval of {d} of what '{program.name}' returns."
                raise refuse("TI06", message, "name it: domain={...}.")
    return tree_map(lambda x: boxes[x], value)


def _read(
    program: Program, args: Mapping[str, Any], provider: Mapping[str, Target], column: str | None
) -> tuple[Evaluator, _State]:
    """An evaluator, and the names of a program before its statements."""
    every_leaf = [leaf for tree in args.values() for leaf in leaves(tree)]
    scalars = {leaf.name: leaf.value for leaf in every_leaf if leaf.dims is None and not leaf.index}
    domains = {leaf.name: leaf.dims for leaf in every_leaf if leaf.dims is not None}
    ev = Evaluator(Known(scalars, domains), provider, column, BUILTINS, PARTIALS)
    for leaf in every_leaf:
        for d in leaf.locals:
            assert leaf.dims is not None
            ev.slots.setdefault(d, len(leaf.dims[d]))
    env = {name: tree_map(lambda leaf: _enter(ev, leaf), tree) for name, tree in args.items()}
    state = _State(program.name, ev, env, dict(args), {leaf.name: leaf for leaf in every_leaf})
    ev.functions = frozenset(f.name for f in program.functions)
    scope = Env({})
    for f in program.functions:  # one sees those before it, and not itself
        state.env[f.name] = FunctionValue(Lambda(f.params, f.body, f.span), scope)
        scope = Env({f.name: state.env[f.name]}, scope)
    return ev, state


def _enter(ev: Evaluator, leaf: Leaf) -> Node:
    if leaf.index:
        return ev.graph.cast(ev.graph.index(leaf.index), leaf.element)
    return ev.graph.input(leaf.name, leaf.element, leaf.dims.names if leaf.dims is not None else ())


def _declare_temporaries(state: _State, program: Program) -> None:
    """Add the temporaries of a program to the state: leaves on their domains, known under their names.

    Raises TI06 for a temporary without a known domain.
    """
    for t in program.temporaries:
        domain = run(state.ev.expression(t.domain, Env(state.env))) if t.domain is not None else None
        if not isinstance(domain, Domain):
            raise refuse("TI06", f"the domain of the temporary '{t.name}' is not known.", at=t.span)
        state.places[t.name] = _temporary_leaves(t.name, t.type, domain)
        state.temporaries |= {leaf.name for leaf in leaves(state.places[t.name])}
        state.env[t.name] = tree_map(lambda leaf: _enter(state.ev, leaf), state.places[t.name])
        state.ev.known.domains = {
            **state.ev.known.domains, **{leaf.name: leaf.dims for leaf in leaves(state.places[t.name])}
        }  # fmt: skip


def _temporary_leaves(name: str, kind: Any, domain: Domain) -> Any:
    if isinstance(kind, FieldType):
        return Leaf(name, kind.element, Dims(tuple((d, Interval(*e)) for d, e in domain.box.items())))
    return tuple(_temporary_leaves(f"{name}_{k}", m, domain) for k, m in enumerate(kind.members))


def _store(state: _State, s: SetAt) -> None:
    """Add what a statement stores to the state: (leaf, box, node) per leaf, and the updated value under its name."""
    ev = state.ev
    env = Env(state.env)
    domain = run(ev.expression(s.domain, env))
    first = leaves(domain)[0]
    vertical = next((a.name for a in first.dims if a.kind == "vertical"), None) if isinstance(first, Domain) else None
    ev.column = vertical or ev.column
    value = run(ev.expression(s.value, env))
    target = _resolve(s.target, state.places)
    parts: list[tuple[Leaf, Box, Node]] = []
    tree_map(lambda leaf, d, v: parts.append((leaf, _check_stored(state.name, leaf, d, s), v)), target, domain, value)
    for leaf, box, node in parts:
        state.targets.add(leaf.name)
        if not is_empty(box):
            node = ev.graph.cast(node, leaf.element)
            state.stored.append((leaf, box, node))
            state.env = _replace_leaf(state, leaf, lambda old, n=node, b=box: ev.graph.update(old, n, b))


def _check_stored(program: str, leaf: Leaf, domain: Domain, s: SetAt) -> Box:
    """The box of a leaf that a statement stores on a domain.

    Raises TI10 for a domain that is not inside of the leaf.
    """
    box = domain.box
    dims = leaf.dims or Dims()
    for d, (start, stop) in box.items():
        have = dims.get(d)
        if have is None:
            raise refuse("TI10", f"'{leaf.name}' of '{program}' has no dim {d}, along which is stored.", at=s.span)
        if stop > start and not is_empty(box) and not (have.start <= start and stop <= have.stop):
            message = f"'{leaf.name}' of '{program}' has {d}{have}, and {d}[{start}:{stop}] of it is stored."
            help = f"give it more points of {d}, or store on a smaller domain."
            raise refuse("TI10", message, help, at=s.span, notes=begins_elsewhere(d, have, start, stop))
    return {d: box.get(d, (i.start, i.stop)) for d, i in dims.items}


def _resolve(target: Expr, places: Mapping[str, Any]) -> Any:
    """The leaves, in nested tuples, that the target of a statement names; `places` has the leaves by name."""
    match target:
        case Ref(name) if name in places:
            return places[name]
        case Call(Ref("make_tuple"), args):
            return tuple(_resolve(a, places) for a in args)
        case Call(Ref("tuple_get"), (Literal(value) | Offset(value), x)):
            return _resolve(x, places)[int(value)]
        case _:
            raise refuse("TI04", "this is no place to store to.", at=getattr(target, "span", None) or Ref("").span)


def _replace_leaf(state: _State, leaf: Leaf, change: Any) -> dict[str, Any]:
    """The environment of the state with `change(old value)` in place of the value of one leaf."""
    env = dict(state.env)
    for name, places in state.places.items():
        if any(x is leaf for x in leaves(places)):
            env[name] = tree_map(lambda place, v: change(v) if place is leaf else v, places, env[name])
    return env


def _assemble(name: str, state: _State, options: Options) -> Specialised:
    """The specialised program of an evaluated one: a fencil with an output for each box of a leaf that is stored.

    Of several writes to the same box of a leaf the last one stays; writes to temporaries are no outputs. Missing
    neighbours that would make an output absent are read as 0 if the options say so (`holes="zero"`). Without any write
    the fencil is None.
    """
    ev = state.ev
    kept = [(leaf, box, node) for leaf, box, node in state.stored if leaf.name not in state.temporaries]
    kept = [s for k, s in enumerate(kept) if not any(o[0] is s[0] and o[1] == s[1] for o in kept[k + 1 :])]
    targets = frozenset(state.targets - state.temporaries)
    if not kept:
        return Specialised(None, (), (), {}, frozenset(ev.known.used), targets=targets)
    roots = [(node, box) for _, box, node in kept]
    needed = needs(roots, ev.known.domains, options.out_of_range == "lenient")
    layouts = {leaf.name: leaf.layout for leaf in state.dims.values() if leaf.layout is not None}
    mode, stored = options.out_of_range, [(leaf.name, node, box) for leaf, box, node in kept]
    emission = Emission(
        needed.all, needed.firm, ev.known.domains, ev.slots, mode, layouts, name, stored, needed.columns
    )
    values = emission.emit([node for node, _ in roots])
    taken = {*emission.params, *emission.tables}
    params: list[Var] = []
    closures: list[Closure] = []
    outputs: list[Output] = []
    for (leaf, box, _), value in zip(kept, values, strict=True):
        out = build.free_name(leaf.name, taken)
        ordered = {d: box[d] for d in leaf.layout} if leaf.layout is not None else box
        dims = Dims(tuple((emission.local(d) if d in ev.slots else d, Interval(*e)) for d, e in ordered.items()))
        var = build.var(out, TensorType(leaf.element, dims))
        params.append(var)
        closures.append(build.closure(var, value))
        outputs.append(Output(out, leaf.name, box))
    tables = {n: where for n, (_, where) in emission.tables.items()}
    inputs = [*emission.params.values(), *(v for v, _ in emission.tables.values())]
    fencil = build.fencil(name, [*params, *inputs], closures)
    missing = {n: (table.at(rows) < 0).reshape(-1, table.slots).any(0) for n, (table, rows) in tables.items()}
    holes = {n: frozenset(np.flatnonzero(slots).tolist()) for n, slots in missing.items()}
    if options.holes == "zero" and any(holes.values()) and analyse_absence(fencil, holes).refused:
        fencil = build.fencil(name, [*params, *inputs], [_fill_holes(c) for c in closures])
    report = (*(f"{o.leaf}: stored on {Dims.of(dict(o.box))}" for o in outputs), *emission.report)
    used = frozenset(ev.known.used)
    return Specialised(fencil, tuple(emission.params), tuple(outputs), tables, used, report, ev.steps, targets)


def _fill_holes(c: Closure) -> Closure:
    """Zero where a neighbour that is read alone is missing."""
    (element,) = c.value.tensor.leaves
    zero = build.literal(False if element == BOOL else 0, element)
    return build.closure(c.output, build.call("if", build.call("can_deref", c.value), c.value, zero), c.region)


def compiled(special: Specialised, **options: Any) -> Any:
    """The program with its tables, on the default backend."""
    assert special.fencil is not None
    program: Any = special.fencil
    if special.tables:
        program = bind(program, special.arrays)
    return compile(program, **options)


@dataclass(eq=False)
class LiftedProgram:
    """A program of iterator IR as a pure tensor program.

    Called with arrays for the parameters that are no outputs, in order, it gives what is stored, in order.
    """

    name: str
    special: Specialised
    places: tuple[Any, ...]
    """The leaves of each parameter."""

    @property
    def fencil(self) -> Fencil:
        """The tensor program; its neighbour tables are parameters."""
        if self.special.fencil is None:
            raise refuse("TI06", f"'{self.name}' stores nothing on these domains, so there is no tensor program.")
        return self.special.fencil

    @property
    def tables(self) -> dict[str, Any]:
        """The neighbour tables that are read, by the names of their parameters."""
        return self.special.arrays

    @property
    def report(self) -> str:
        """Stored results and their places, and the domain of each tensor that is read at several offsets."""
        return "\n".join(self.special.report)

    @cached_property
    def compiled(self) -> Any:
        """The program with its tables, compiled."""
        return compiled(self.special)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The leaves that a call is given."""
        return self.special.inputs

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The stored tensors, in order, for the arguments of all parameters; what is only stored may be None."""
        arguments: dict[str, Any] = {}
        for place, value in zip(self.places, args, strict=True):
            if value is None:
                continue
            for leaf, part in zip(leaves(place), leaves(value), strict=True):
                if leaf.name in self.special.inputs:
                    arguments[leaf.name] = getattr(part, "ndarray", part)
        if self.special.fencil is None:
            return ()
        results = self.compiled(**arguments)
        return tuple(results[o.name] for o in self.special.outputs)

    def __str__(self) -> str:
        return str(self.fencil)
