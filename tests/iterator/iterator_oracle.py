"""Iterator IR point by point, with iterators as positions: slow, obvious, the meaning."""

# pyright: basic

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import getitem
from typing import Any

import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import DTYPES
from tensorir.iterator.lift.graph import Table
from tensorir.iterator.nodes import (
    ARITHMETIC,
    CASTS,
    Axis,
    Call,
    CartesianOffset,
    If,
    Infinity,
    Lambda,
    Literal,
    NoValue,
    Offset,
    Program,
    Ref,
    SetAt,
    Temporary,
    TupleType,
)
from tensorir.reference.numerics import quotient
from tensorir.runtime.errors import refuse

# Elementwise builtins on NumPy scalars.


def _quotient(a: Any, b: Any) -> Any:
    """A quotient; of whole numbers it is cut towards zero."""
    if isinstance(a, (float, np.floating)) or isinstance(b, (float, np.floating)):
        return a / b
    return quotient(*(np.result_type(a, b).type(x) for x in (a, b)))


_BY_NAME: dict[str, Callable[..., Any]] = {
    "plus": operator.add, "minus": operator.sub, "multiplies": operator.mul, "divides": _quotient,
    "mod": np.mod, "floordiv": np.floor_divide, "fmod": np.fmod, "power": np.power, "minimum": np.minimum,
    "maximum": np.maximum, "and_": np.bitwise_and, "or_": np.bitwise_or, "xor_": np.bitwise_xor,
    "not_": np.invert, "gamma": math.gamma,
    "eq": operator.eq, "not_eq": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "neg": operator.neg, "abs": abs,
}  # fmt: skip

RULES: dict[str, Callable[..., Any]] = {
    name: _BY_NAME.get(name) or getattr(np, name) for name in ARITHMETIC if name in _BY_NAME or hasattr(np, name)
}

# Iterator IR point by point, with iterators as positions: slow, obvious, the oracle of the lift.
#
# A field is a function of points, a position a field and a point; shifts move the point, and `deref` asks the field.
# Where a table leads nowhere there is no point, and reductions skip it.

# What programs evaluate to is of many kinds, which only running tells.


Point = Mapping[str, int]


@dataclass(eq=False)
class Block:
    """An array on intervals."""

    dims: Dims
    array: Any

    def at(self, point: Point) -> Any:
        return self.array[tuple(point[d] - i.start for d, i in self.dims.items)]


@dataclass(frozen=True, eq=False)
class _Position:
    """A field, a function of a point, at a point; no point where a table led nowhere."""

    field: Any
    point: Point | None


@dataclass(frozen=True, eq=False)
class _Lifted:
    stencil: Any
    args: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class _Function:
    """A builtin or a lambda, with the arguments that it has already."""

    name: str
    args: tuple[Any, ...] = ()


def interpret(program: Program, args: Mapping[str, Any], offsets: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The blocks after a program, of blocks and numbers by name; `offsets` are dims or tables. Nothing is changed."""
    found = {n: _copied(v) for n, v in args.items()}
    machine = _Machine(offsets or {}, {})
    names: dict[str, Any] = dict(found)
    for f in program.functions:
        names[f.name] = (Lambda(f.params, f.body), dict(names))
    for t in program.temporaries:
        names[t.name] = _temporary(t, machine.value(t.domain, names))
    waiting = list(program.body)
    while waiting:
        match waiting.pop(0):
            case If(condition, then, otherwise):
                waiting = [*(then if machine.value(condition, names) else otherwise), *waiting]
            case SetAt(value, domain, target):
                boxes, places = machine.value(domain, names), _place(target, names)
                stored: list[tuple[Block, Point, Any]] = []
                for path, place, box in _outputs(places, boxes):
                    machine.domain = box
                    result = machine.value(value, names)
                    points = [dict(zip(box, p, strict=True)) for p in product(*(range(*e) for e in box.values()))]
                    stored += [(place, p, reduce(getitem, path, machine.read(result, p))) for p in points]
                for place, p, v in stored:
                    place.array[tuple(p[d] - i.start for d, i in place.dims.items)] = v
    return {n: v for n, v in found.items() if isinstance(v, (Block, tuple))}


def _copied(value: Any) -> Any:
    match value:
        case Block(dims, array):
            return Block(dims, array.copy())
        case tuple():
            return tuple(_copied(v) for v in value)
        case _:
            return value


def _temporary(t: Temporary, box: Mapping[str, tuple[int, int]]) -> Any:
    def made(kind: Any) -> Any:
        if isinstance(kind, TupleType):
            return tuple(made(m) for m in kind.members)
        dims = Dims(tuple((d, Interval(*e)) for d, e in box.items()))
        return Block(dims, np.zeros(dims.shape, DTYPES[kind.element]))

    return made(t.type)


def _place(target: Any, names: Mapping[str, Any]) -> Any:
    """The blocks that a target names."""
    match target:
        case Ref(name):
            return names[name]
        case Call(Ref("make_tuple"), members):
            return tuple(_place(m, names) for m in members)
        case Call(Ref("tuple_get"), (Literal(k) | Offset(k), whole)):
            return _place(whole, names)[int(k)]
        case _:
            raise refuse("TI04", "this is no place to store to.", at=target.span)


def _outputs(places: Any, boxes: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Block, Any]]:
    """The blocks of an output, where each is in what is stored, and on which points."""
    if isinstance(places, tuple):
        for k, place in enumerate(places):
            yield from _outputs(place, boxes[k] if isinstance(boxes, tuple) else boxes, (*path, k))
    else:
        yield path, places, boxes


@dataclass(eq=False)
class _Machine:
    offsets: Mapping[str, Any]
    domain: dict[str, tuple[int, int]]

    def read(self, field: Any, point: Point) -> Any:
        """A field at a point."""
        match field:
            case Block():
                return field.at(point)
            case tuple():
                return tuple(self.read(m, point) for m in field)
            case _:
                return field(point) if callable(field) else field

    def value(self, e: Any, names: Mapping[str, Any]) -> Any:
        match e:
            case Ref(name):
                return names[name] if name in names else _Function(name)
            case Literal(text, element):
                return DTYPES[element].type(text == "True" if not element.is_number else text)
            case Lambda():
                return e, names
            case Call(Ref("if_"), (c, a, b)) if "if_" not in names:
                # only the branch that is taken may be read
                return self.value(a if self.value(c, names) else b, names)
            case Call(f, args):
                return self.apply(self.value(f, names), [self.value(a, names) for a in args])
            case Offset() | Axis() | CartesianOffset() | Infinity() | NoValue():
                return e

    def apply(self, f: Any, args: list[Any]) -> Any:
        if isinstance(f, tuple):
            function, names = f
            return self.value(function.body, {**names, **dict(zip(function.params, args, strict=True))})
        if f.name in CASTS:
            return DTYPES[CASTS[f.name]].type(args[0])
        if f.name in RULES:
            if any(isinstance(a, Axis) for a in args):
                return lambda p: RULES[f.name](*(p[a.name] if isinstance(a, Axis) else a for a in args))
            if any(callable(a) for a in args):
                return lambda p: RULES[f.name](*(self.read(a, p) for a in args))
            return RULES[f.name](*args)
        return self.builtin(f, args)

    def builtin(self, f: _Function, args: list[Any]) -> Any:
        match f.name, f.args, args:
            case "deref", (), [x]:
                return self.deref(x)
            case "can_deref", (), [x]:
                return self.exists(x)
            case "shift", (), offsets:
                return _Function("shifted", tuple(offsets))
            case "shifted", offsets, [x]:
                return self.shifted(x, list(offsets))
            case "lift" | "as_fieldop" | "scan" | "reduce" | "map_list", (), first:
                return _Function(f"{f.name}'", tuple(first))
            case "lift'", (stencil,), its:
                return _Lifted(stencil, tuple(its))
            case "as_fieldop'", (stencil, *_), fields:
                if isinstance(stencil, _Function) and stencil.name == "scan'":
                    return self.scan(stencil.args, fields)
                return lambda p: self.deref(self.apply(stencil, [_Position(x, p) for x in fields]))
            case "neighbors", (), [tag, x]:
                near = [self.shifted(x, [tag, Offset(k)]) for k in range(self.offsets[tag.value].slots)]
                return [self.deref(n) if self.exists(n) else None for n in near]
            case "reduce'", (body, init), lists:
                count = max(len(x) for x in lists if isinstance(x, list))
                for k in range(count):
                    slot = [x[k] if isinstance(x, list) else x for x in lists]
                    init = init if any(s is None for s in slot) else self.apply(body, [init, *slot])
                return init
            case "map_list'", (body,), lists:
                count = max(len(x) for x in lists if isinstance(x, list))
                slots = [[x[k] if isinstance(x, list) else x for x in lists] for k in range(count)]
                return [None if any(s is None for s in slot) else self.apply(body, slot) for slot in slots]
            case "list_get", (), [k, x]:
                return x[int(k)] if isinstance(x, list) else x
            case "make_const_list", (), [x]:
                return x
            case "make_tuple", (), members:
                return tuple(members)
            case "tuple_get", (), [k, x]:
                return x[int(k)] if isinstance(x, tuple) else lambda p: self.read(x, p)[int(k)]
            case "cast_", (), [x, kind]:
                return DTYPES[CASTS[kind.name]].type(x)
            case "concat_where", (), [c, a, b]:
                return lambda p: self.read(a if self.read(c, p) else b, p)
            case "get_domain_range", (), [field, axis]:
                while isinstance(field, tuple):
                    field = field[0]
                interval = field.dims[axis.name]
                return np.int32(interval.start), np.int32(interval.stop)
            case "index", (), [axis]:
                return lambda p: np.int32(p[axis.name])
            case "named_range", (), [axis, start, stop]:
                return axis.name, (int(start), int(stop))
            case "cartesian_domain" | "unstructured_domain", (), ranges:
                return dict(ranges)
            case name, _, _:
                raise refuse("TI03", f"'{name}' is no parameter, function or builtin.")

    def deref(self, x: Any) -> Any:
        match x:
            case _Position(field, point):
                assert point is not None, "nothing is read where a table leads nowhere"
                return self.read(field, point)
            case _Lifted(stencil, args):
                return self.apply(stencil, list(args))
            case _:
                return x

    def exists(self, x: Any) -> bool:
        return x.point is not None if isinstance(x, _Position) else all(self.exists(a) for a in x.args)

    def shifted(self, x: Any, offsets: list[Any]) -> Any:
        if isinstance(x, _Lifted):
            return _Lifted(x.stencil, tuple(self.shifted(a, offsets) for a in x.args))
        point = x.point
        for tag, by in zip(offsets[::2], offsets[1::2], strict=True):
            point = None if point is None else self.moved(point, tag, int(getattr(by, "value", by)))
        return _Position(x.field, point)

    def moved(self, point: Point, tag: Any, by: int) -> Point | None:
        if isinstance(tag, CartesianOffset):
            rest = {d: k for d, k in point.items() if d != tag.domain.name}
            return {**rest, tag.codomain.name: point[tag.domain.name] + by}
        table = self.offsets[tag.value]
        if not isinstance(table, Table):
            return {**point, table: point[table] + by}
        entry = int(table.at(tuple((point[d], point[d] + 1) for d in table.domain))[..., by].item())
        rest = {d: k for d, k in point.items() if d not in table.domain}
        return None if entry < 0 else {**rest, table.codomain: entry}

    def scan(self, first: tuple[Any, ...], fields: list[Any]) -> Any:
        """The states of a column, from its first level on."""
        body, forward, init = first
        dim = list(self.domain)[-1]
        levels = range(*self.domain[dim])

        def at(point: Point) -> Any:
            state = init
            for k in levels if forward else reversed(levels):
                state = self.apply(body, [state, *(_Position(x, {**point, dim: k}) for x in fields)])
                if k == point[dim]:
                    return state
            raise AssertionError(point)

        return at
