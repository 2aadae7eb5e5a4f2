"""Regions run statement by statement on NumPy arrays: slow, and the oracle of every step that follows.

Iterations of every loop run in ascending order, but for lockstep ones, in which each statement reads in all of them
before it writes in any.

>>> from tensorir.lifting.region.text import parse_region
>>> region = parse_region("region r { argument A: int32[n=3]; for i in 0:3 { A[i] ← i × i; } }")
>>> interpret(region, {"A": np.zeros(3, "int32")})["A"].tolist()
[0, 1, 4]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine
from tensorir.ir.build import call, closure, fencil, var
from tensorir.ir.nodes import Expr, Fencil, Literal, Var
from tensorir.ir.types import DTYPES, TensorType
from tensorir.lifting.region.nodes import (
    Atomic,
    Bound,
    Buffer,
    Carried,
    Check,
    Condition,
    External,
    For,
    If,
    Index,
    Let,
    Node,
    Order,
    Read,
    Region,
    Rule,
    While,
    Write,
)
from tensorir.runtime.errors import refuse

__all__ = ["interpret"]

Array = np.ndarray[Any, Any]


def interpret(region: Region, arguments: Mapping[str, Array]) -> dict[str, Array]:
    """What the arguments hold in the end, by name; what is given stays as it is, and what is not begins as zeros.

    Elements outside of a buffer raise TL10, and a check that fails TL24.
    """
    memory = {b.name: np.array(arguments.get(b.name, np.zeros(b.shape, DTYPES[b.element]))) for b in region.buffers}
    _Machine(memory).run(region.body, [{}])
    return {b.name: memory[b.name] for b in region.buffers if b.argument}


Values = dict[str, Array]


@dataclass(slots=True)
class _Machine:
    """The memory. What runs in lockstep has several states, each with its values; all others have one."""

    memory: dict[str, Array]
    programs: dict[int, tuple[Expr, Fencil]] = field(default_factory=dict[int, tuple[Expr, Fencil]])

    def run(self, nodes: Sequence[Node], states: list[Values]) -> None:
        for node in nodes:
            self.step(node, states)

    def step(self, node: Node, states: list[Values]) -> None:
        match node:
            case For(dim, start, stop, body, rule, carried):
                if rule is Rule.LOCKSTEP:
                    lanes: list[Any] = [{**s, dim: np.int32(i)} for s in states for i in self.rounds(start, stop, s)]
                    self.run(body, lanes)
                    return
                if len(states) > 1:
                    for s in states:  # a loop inside of what runs in lockstep has one trip count
                        s.update({c.inside.name: self.as_in(c.inside, c.first, s) for c in carried})
                    for i in self.rounds(start, stop, states[0]):
                        for s in states:
                            s[dim] = np.asarray(i, np.int32)
                        self.run(body, states)
                        for s in states:
                            self.hand_on(carried, s)
                    for s in states:
                        s.update({c.result.name: s[c.inside.name] for c in carried})
                    return
                for s in states:
                    s.update({c.inside.name: self.as_in(c.inside, c.first, s) for c in carried})
                    for i in self.rounds(start, stop, s):
                        s[dim] = np.asarray(i, np.int32)
                        self.run(body, [s])
                        self.hand_on(carried, s)
                    s.update({c.result.name: s[c.inside.name] for c in carried})
            case If(conditions, body, otherwise, joined):
                holding = [s for s in states if self.all_hold(conditions, s)]
                others = [s for s in states if not any(s is h for h in holding)]
                if holding:
                    self.run(body, holding)
                if others:
                    self.run(otherwise, others)
                for s in holding:
                    s.update({j.result.name: self.as_in(j.result, j.value, s) for j in joined})
                for s in others:
                    s.update({j.result.name: self.as_in(j.result, j.otherwise, s) for j in joined})
            case While(before, condition, body, carried):
                for s in states:
                    s.update({c.inside.name: self.as_in(c.inside, c.first, s) for c in carried})
                    while True:
                        self.run(before, [s])
                        if not self.value(condition, s):
                            break
                        self.run(body, [s])
                        self.hand_on(carried, s)
                    s.update({c.result.name: s[c.inside.name] for c in carried})
            case Read(result):
                for s in states:
                    s[result.name] = self.read(node, s)
            case Write(buffer, at, value, where):
                made = [(s, self.value(value, s)) for s in states]
                for s, array in made:
                    for point in _points(value.tensor):
                        inner = {**s, **point}
                        if self.all_hold(where, inner):
                            place = self.place(node, buffer, at, inner)
                            self.memory[buffer.name][place] = _element(array, value.tensor, point)
            case Atomic():
                for s in states:
                    self.update(node, s)
            case Let(result, value):
                for s in states:
                    s[result.name] = self.as_in(result, value, s)
            case Check(condition, message, span):
                for s in states:
                    if not self.value(condition, s):
                        raise refuse("TL24", message, at=span)
            case Order():
                pass
            case External(name, span=span):
                raise refuse("TL24", f"'{name}' is known by its name only.", at=span)

    def as_in(self, v: Var, e: Expr, s: Mapping[str, Any]) -> Array:
        """The value of an expression, its axes in the order of a variable's dims."""
        names = e.tensor.dims.names
        return np.transpose(self.value(e, s), [names.index(n) for n in v.type.dims.names])

    def hand_on(self, carried: Sequence[Carried], s: Values) -> None:
        """The next values of a loop, all of them before any is in its place."""
        s.update({c.inside.name: self.as_in(c.inside, c.next, s) for c in carried})

    def rounds(self, start: Index, stop: Index, s: Values) -> range:
        return range(self.number(start, s), self.number(stop, s))

    def number(self, i: Index, s: Mapping[str, Any]) -> int:
        if isinstance(i, Affine):
            return _sum(i, s)
        return int(_element(s[i.name], i.type, s))

    def all_hold(self, where: Sequence[Condition], s: Mapping[str, Any]) -> bool:
        for c in where:
            match c:
                case Bound(affine, equal):
                    value = _sum(affine, s)
                    holds = value == 0 if equal else value >= 0
                case Var():
                    holds = bool(_element(s[c.name], c.type, s))
            if not holds:
                return False
        return True

    def read(self, node: Read, s: Values) -> Array:
        kind = node.result.type
        found = np.zeros(kind.dims.shape, self.memory[node.buffer.name].dtype)
        other = None if node.otherwise is None else self.value(node.otherwise, s)
        for point in _points(kind):
            inner = {**s, **point}
            index = tuple(int(point[n]) - i.start for n, i in kind.dims.items)
            if self.all_hold(node.where, inner):
                found[index] = self.memory[node.buffer.name][self.place(node, node.buffer, node.at, inner)]
            elif other is not None and node.otherwise is not None:
                found[index] = _element(other, node.otherwise.tensor, point)
        return found

    def place(self, node: Read | Write | Atomic, buffer: Buffer, at: Sequence[Index], s: Mapping[str, Any]) -> Any:
        place = tuple(self.number(i, s) for i in at)
        for k, (i, (dim, extent)) in enumerate(zip(place, buffer.dims, strict=True)):
            if not 0 <= i < extent:
                message = f"index {k} of '{buffer.name}' is {i}, and {dim} runs from 0 to {extent - 1}."
                raise refuse("TL10", message, at=node.span)
        return place

    def update(self, node: Atomic, s: Values) -> None:
        kind = node.value.tensor
        array = self.value(node.value, s)
        old = np.zeros(kind.dims.shape, self.memory[node.buffer.name].dtype)
        scalar = TensorType(node.buffer.element)
        for point in _points(kind):
            inner = {**s, **point}
            if not self.all_hold(node.where, inner):
                continue
            place = self.place(node, node.buffer, node.at, inner)
            before = self.memory[node.buffer.name][place]
            old[tuple(int(point[n]) - i.start for n, i in kind.dims.items)] = before
            e = _combining(node.op, scalar)
            new = self.value(e, {"old": np.asarray(before), "new": np.asarray(_element(array, kind, point))})
            self.memory[node.buffer.name][place] = new
        if node.result is not None:
            s[node.result.name] = old

    def value(self, e: Expr, s: Mapping[str, Any]) -> Array:
        if isinstance(e, Literal):
            return np.asarray(e.value, DTYPES[e.element])
        if isinstance(e, Var):
            return np.asarray(s[e.name])
        known = self.programs.get(id(e))
        if known is None:
            output = var("the_value", e.tensor)
            params = sorted(e.free, key=lambda v: v.name)
            known = self.programs[id(e)] = e, fencil("value", [output, *params], [closure(output, e)])
        from tensorir.reference import Interpreter

        params = known[1].params[1:]
        machine = Interpreter(known[1], {p.name: (np.asarray(s[p.name]),) for p in params})
        machine.store(known[1].closures[0])
        return machine.arrays["the_value"][0]


@cache
def _combining(op: str, scalar: TensorType) -> Expr:
    return call(op, var("old", scalar), var("new", scalar))


def _sum(a: Affine, s: Mapping[str, Any]) -> int:
    total = a.constant
    for atom, c in a.terms:
        total += c * (int(s[atom]) if isinstance(atom, str) else _sum(atom.inner, s) // atom.by)
    return total


def _points(kind: TensorType) -> list[dict[str, Any]]:
    names = kind.dims.names
    return [dict(zip(names, p, strict=True)) for p in product(*(range(i.start, i.stop) for _, i in kind.dims.items))]


def _element(array: Array, kind: TensorType, point: Mapping[str, Any]) -> Any:
    return np.asarray(array)[tuple(int(point[n]) - i.start for n, i in kind.dims.items)]
