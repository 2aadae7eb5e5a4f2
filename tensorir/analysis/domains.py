"""Exact domains: which points of every parameter and of every intermediate value a program reads.

The analysis goes backward, from what is stored to what is passed: a rule per builtin says which points of its
operands the needed points of a node read. A set of points is exact (`IntegerSet`); a buffer needs its hull. Both
branches of `if` are read. A table whose entries are known (it is bound, or computed from what is) reads the elements
that it holds; an index that is known only at run time reads all of its dim.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[1:4]>, x: tensor<float, I[0:9]>) { out ← ⟪I, 3⟫(x) + ⟪I, -1⟫(x); }")
>>> print(domains(f).params["x"])
I[0:3] and I[4:7]
>>> print(domains(f, out={"I": (1, 2)}).params["x"].hull)
I[0:5]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.analysis.access_functions import Rule, rule_of
from tensorir.binding.arrays import Array
from tensorir.binding.programs import BoundProgram
from tensorir.integers.dims import Dims
from tensorir.integers.sets import IntegerSet
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, values, with_values
from tensorir.ir.substitution import inlined
from tensorir.ir.types import TensorType
from tensorir.reference.interpreter import Interpreter
from tensorir.reference.tensors import ABSENT
from tensorir.reference.tensors import points as points_of
from tensorir.runtime.errors import did_you_mean, refuse

MAX_COMPUTED = 50_000
"""Entries of a computed table that are looked at before a program runs; a larger one reads its whole source."""


@dataclass(frozen=True, slots=True)
class Domains:
    """The needed points of every parameter, name and node."""

    fencil: Fencil
    """The program without applied functions, whose nodes `nodes` speaks of."""
    params: dict[str, IntegerSet]
    """Of what is passed: the points that are read before the program itself wrote them."""
    written: dict[str, IntegerSet]
    """Of every output: the points that are stored."""
    stored: tuple[IntegerSet, ...]
    """Of every closure: the points that it stores and somebody needs."""
    nodes: dict[int, IntegerSet]
    """Of every expression, by identity: the points at which its value is needed."""
    variables: dict[Var, IntegerSet]
    """The same of the parameters of functions that folds use."""
    unknown: tuple[Expr, ...]
    """What decides at run time which points it reads: these are read whole."""

    def by_variable(self, variable: Var) -> IntegerSet:
        """The points of a parameter of a function in `fencil` that are needed."""
        return self.variables.get(variable, IntegerSet(variable.type.dims.names))

    def of(self, node: Expr) -> IntegerSet:
        """The points of an expression of `fencil` that are needed."""
        return self.nodes.get(id(node), IntegerSet(node.tensor.dims.names))


def domains(
    program: Any,
    out: Mapping[Any, Any] | None = None,
    *,
    boxes: bool = False,
    stays: Mapping[str, Dims] | None = None,
) -> Domains:
    """Needed points of all that a program reads.

    Without `out` it is what a run reads: every closure stores all of its output. With `out`, intervals by dim (or by
    output and dim), it is what those points of the results need, and of buffers that passes made what is read. With
    `boxes` every set is replaced by its hull, and by more where the form of an operation asks for it: what a program
    on smaller buffers needs; a closure that stores anything stores all that `stays` of its output.
    """
    bound = BoundProgram.of(program)
    fencil = bound.program
    if not isinstance(fencil, Fencil):
        raise refuse("B09", f"'{bound.name}' has sizes that are not known yet.", "bind them: f.bind(n=10).")
    closures = with_values(fencil.closures, inlined(values(fencil.closures)))
    flat = Fencil(fencil.name, fencil.params, closures, fencil.span, fencil.buffers)
    reads = Reads(flat, bound, boxes)
    need = {p: IntegerSet(p.type.dims.names) for p in fencil.params}
    if out is not None:
        need.update({p: IntegerSet.box(dims) for p, dims in asked(fencil, out).items()})
    written = {p.name: IntegerSet(p.type.dims.names) for p in fencil.outputs}
    stored: list[IntegerSet] = []
    for closure in reversed(closures):
        output, target = closure.output, closure.target.dims
        wanted = IntegerSet.box(target) if out is None else reads.shaped(need[output].within(target), target)
        if wanted and stays and output.name in stays:
            wanted = reads.shaped(wanted | IntegerSet.box(stays[output.name]).within(target), target)
        need[output] = need[output].without(target)
        written[output.name] |= wanted
        stored.append(wanted)
        for variable, found in reads.of_closure(closure.value, wanted).items():
            need[variable] |= found
    return Domains(
        flat,
        {p.name: need[p] for p in fencil.params},
        written,
        tuple(reversed(stored)),
        reads.nodes,
        reads.variables,
        tuple(reads.unknown.values()),
    )


def asked(fencil: Fencil, out: Mapping[Any, Any]) -> dict[Var, Dims]:
    """The part of each output that is asked for; raises for what no output has."""
    names = {p.name for p in fencil.outputs}
    dims = [d for p in fencil.results for d in p.type.dims]
    for key in map(str, out):
        if key not in names and key not in dims:
            raise refuse("A15", f"no output has a dim {key}.", did_you_mean(key, [*dims, *names]))
    found: dict[Var, Dims] = {}
    for p in fencil.results:
        own = {str(k): v for k, v in out.items() if str(k) not in names}
        inner: dict[Any, Any] = dict(*[v for k, v in out.items() if str(k) == p.name])
        own |= {str(k): v for k, v in inner.items()}
        part = p.type.dims
        for dim, interval in Dims.of(own).items:
            have = part.get(dim)
            if have is None:
                continue
            if not have.covers(interval):
                raise refuse(
                    "A16",
                    f"{dim}{interval} is not inside of {dim}{have}, all of '{p.name}'.",
                    f"ask for a part of {dim}{have}.",
                )
            part = part.with_interval(dim, interval)
        found[p] = part
    return found


class Reads:
    """The backward analysis of one program: what was found of its nodes, and what is known of its tables."""

    fencil: Fencil
    boxes: bool

    def __init__(self, fencil: Fencil, bound: BoundProgram, boxes: bool) -> None:
        self.fencil, self.boxes = fencil, boxes
        self.nodes: dict[int, IntegerSet] = {}
        self.variables: dict[Var, IntegerSet] = {}
        self.unknown: dict[int, Expr] = {}
        written = {p.name for p in fencil.outputs}
        self.constants: dict[str, tuple[Any, ...]] = {n: c for n, c in bound.constants.items() if n not in written}
        self._tables: dict[int, Array | None] = {}
        self._orders: dict[int, list[Expr]] = {}
        self._oracle: Interpreter | None = None
        self._holes: bool | None = None

    def rule(self, node: Call) -> Rule:
        """The points of its operands that the needed points of a call read."""
        return rule_of(node)

    def wanted(self, node: Expr, found: IntegerSet | None) -> IntegerSet | None:
        """The needed points of a node after all its readers in a scope: once, or once for each level of a fold."""
        return found

    def shaped(self, points: IntegerSet, inside: Dims) -> IntegerSet:
        """The points themselves; with `boxes` their hull, with all neighbours."""
        if not self.boxes or not points:
            return points
        dims = points.hull
        for name in dims:
            if name.startswith("_NB_"):
                dims = dims.with_interval(name, inside[name])
        return IntegerSet.box(dims)

    def of_closure(self, value: Expr, wanted: IntegerSet) -> dict[Var, IntegerSet]:
        """The points of the parameters that the needed points of a closure's value read."""
        if id(value) not in self._orders:
            inner = {p for node in postorder(value) if isinstance(node, Lambda) for p in node.params}
            order = [n for n in postorder(value) if n.free.isdisjoint(inner) and isinstance(n.type, TensorType)]
            self._orders[id(value)] = order[::-1]
        start = {id(value): wanted.onto(value.tensor.dims.names)}
        return self._follow(self._orders[id(value)], Needs(start, {}, None, self))

    def of_function(self, function: Any, wanted: Sequence[IntegerSet], outside: Needs) -> list[IntegerSet]:
        """The points of its parameters that the needed points of a function's results read.

        What it reads of expressions from outside is added to `outside`.
        """
        if not isinstance(function, Lambda):
            (points,) = wanted
            return [self.shaped(points.onto(t.dims.names), t.dims) for t in function.params]
        results, own = function.results, function.params
        if id(function) not in self._orders:
            inner = {p for node in postorder(*results) if isinstance(node, Lambda) for p in node.params}
            mine = frozenset(own)
            self._orders[id(function)] = [
                n
                for n in postorder(*results)
                if isinstance(n.type, TensorType) and n.free.isdisjoint(inner) and not n.free.isdisjoint(mine)
            ][::-1]
        order = self._orders[id(function)]
        need: dict[int, IntegerSet] = {}
        local = Needs(need, {id(n): n for n in order}, outside, self)
        for result, points in zip(results, wanted, strict=True):
            local.add(result, points.onto(result.tensor.dims.names))
        found = self._follow(order, local)
        for p, points in found.items():
            self.also(p, points)
        return [found.get(p, IntegerSet(p.type.dims.names)) for p in own]

    def also(self, variable: Var, points: IntegerSet) -> None:
        """More points of a parameter of a function are needed."""
        known = self.variables.get(variable)
        self.variables[variable] = self.shaped(points if known is None else known | points, variable.type.dims)

    def _follow(self, order: list[Expr], local: Needs) -> dict[Var, IntegerSet]:
        """The nodes of one scope, results before operands; what is needed of its variables."""
        need = local.need
        found: dict[Var, IntegerSet] = {}
        for node in order:
            wanted = self.wanted(node, need.get(id(node)))
            if not wanted:
                continue
            wanted = need[id(node)] = self.shaped(wanted, node.tensor.dims)
            known = self.nodes.get(id(node))
            self.nodes[id(node)] = wanted if known is None else self.shaped(known | wanted, node.tensor.dims)
            if isinstance(node, Var):
                found[node] = found[node] | wanted if node in found else wanted
            elif isinstance(node, Call):
                self.rule(node)(self, node, wanted, local)
                if self.boxes:
                    self._keep_operands(node, wanted.hull, local)
        return found

    def _keep_operands(self, node: Call, wanted: Dims, local: Needs) -> None:
        """The form of an operation asks for operands of which it may read nothing."""
        row, fold = TABLE[node.op], node.fold
        if row.control is None and node.definition is None and not row.indirect:
            return
        wanted = Dims() if fold is None else wanted.without(fold.dim)
        for arg in node.args:
            is_init = fold is not None and arg is fold.init
            if isinstance(arg.type, TensorType) and (is_init or not local.of(arg)):
                part = Dims(tuple((n, i & wanted[n] if n in wanted else i) for n, i in arg.type.dims.items))
                local.add(arg, self.shaped(IntegerSet.box(part), arg.type.dims))

    @property
    def holes(self) -> bool:
        """True if a table of the program holds -1, or may."""
        if self._holes is None:
            nodes = [n for n in postorder(*values(self.fencil.closures)) if isinstance(n, Call)]
            known = [self.entries(n.args[0]) for n in nodes if TABLE[n.op].table]
            self._holes = any(k is None or bool((k == -1).any()) for k in known)
        return self._holes

    def entries(self, table: Expr) -> Array | None:
        """The integers of an expression, axes in the order of its dims, -1 where absent; None if not known yet."""
        if id(table) not in self._tables:
            self._tables[id(table)] = self._entries(table)
        return self._tables[id(table)]

    def _entries(self, table: Expr) -> Array | None:
        dims = table.tensor.dims
        if isinstance(table, Var) and table.name in self.constants and table in self.fencil.params:
            own = self.fencil[table.name].type.dims
            array = self.constants[table.name][0]
            return np.transpose(array, [own.names.index(n) for n in dims.names])
        if not all(v in self.fencil.params and v.name in self.constants for v in table.free):
            return None
        rows = [TABLE[n.op] for n in postorder(table) if isinstance(n, Call)]
        if dims.size > MAX_COMPUTED or any(row.effect or row.endless for row in rows):
            return None
        if self._oracle is None:
            self._oracle = Interpreter(self.fencil, self.constants)
        found = [self._oracle.at(table, point) for point in points_of(dims)]
        # a number of 64 bits without a sign that int64 does not hold is outside of every interval, as the greatest is
        read = [-1 if v is ABSENT else min(int(v), np.iinfo(np.int64).max) for v in found]
        return np.array(read, np.int64).reshape(dims.shape)


@dataclass(slots=True)
class Needs:
    """Needed points as the rules of a scope collect them."""

    need: dict[int, IntegerSet]
    own: Mapping[int, Expr]
    """The nodes of the scope, or nothing where all nodes are."""
    outside: Needs | None
    reads: Reads

    def of(self, node: Expr) -> IntegerSet:
        """The points of a node that are needed, as far as they are known."""
        if self.outside is not None and id(node) not in self.own:
            return self.outside.of(node)
        return self.need.get(id(node), IntegerSet(node.tensor.dims.names))

    def add(self, node: Expr, points: IntegerSet) -> None:
        """More points of a node are needed."""
        if not points:
            return
        if self.outside is not None and id(node) not in self.own:
            self.outside.add(node, points)
            return
        known = self.need.get(id(node))
        self.need[id(node)] = points if known is None else known | points
