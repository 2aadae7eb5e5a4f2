"""The typing rules of expressions, the names that are known where, and sizes that are equal.

Whether two sizes are equal: by their terms, or by trying all values of the variables in them.

>>> from tensorir.tir.dtypes import INT32
>>> i, number = n.Var("i", n.PrimType(INT32)), lambda value: n.IntImm(value, INT32)
>>> rest = n.Min(number(4), n.Sub(number(16), n.Mul(i, number(4))))      # min(4, 16 - 4 i)
>>> compare(rest, number(4), {i: (0, 3)}), compare(rest, number(4), {i: (0, 4)}), compare(rest, number(5), {i: (0, 3)})
(Equality.ALWAYS, Equality.SOMETIMES, Equality.NEVER)
>>> compare(i, number(4), {})
Equality.UNKNOWN
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from tensorir.tir import nodes as n
from tensorir.tir.builtins import BUILTINS, Operands
from tensorir.tir.dtypes import DataType, other_bytes
from tensorir.tir.ranges import Bounds, linear, values
from tensorir.tir.trees import walk

# Which names are known where: variables and buffers, bound once, known until their scope ends.


@dataclass(slots=True)
class Scopes:
    """The names known here, and all names that were ever bound."""

    variables: set[n.Var] = field(default_factory=set[n.Var])
    buffers: set[n.Buffer] = field(default_factory=set[n.Buffer])
    ever: set[n.Node] = field(default_factory=set[n.Node])
    bounds: dict[n.Var, Bounds] = field(default_factory=dict[n.Var, Bounds])
    _trail: list[n.Node] = field(default_factory=list[n.Node])

    @contextmanager
    def nested(self) -> Generator[None, None, None]:
        """A scope: names that are bound inside are forgotten behind it."""
        start = len(self._trail)
        try:
            yield
        finally:
            for name in self._trail[start:]:
                self.variables.discard(name)  # type: ignore[arg-type]
                self.buffers.discard(name)  # type: ignore[arg-type]
            del self._trail[start:]

    def bind(self, var: n.Var) -> bool:
        """Make a variable known; False if it has been bound before."""
        fresh = var not in self.ever
        self.ever.add(var)
        if var not in self.variables:
            self.variables.add(var)
            self._trail.append(var)
        return fresh

    def declare(self, buffer: n.Buffer) -> bool:
        """Make a buffer known, with its pointer."""
        fresh = buffer not in self.ever
        self.ever.add(buffer)
        if buffer not in self.buffers:
            self.buffers.add(buffer)
            self._trail.append(buffer)
        self.bind(buffer.data)
        return fresh


MOST = 4096
"""How many combinations of values are tried."""
MOST_NODES = 100
"""How large the expressions are for which they are."""


class Equality(Enum):
    """The equality of two expressions: SOMETIMES if they differ for some values, and agree for others."""

    ALWAYS = "always"
    NEVER = "never"
    SOMETIMES = "sometimes"
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return f"Equality.{self.name}"


def compare(a: n.Expr, b: n.Expr, bounds: Mapping[n.Var, Bounds]) -> Equality:
    """The comparison of two integer expressions, whose variables take all values within their bounds."""
    difference = linear((a, 1), (b, -1))
    constant = difference.pop(None, 0)
    atoms = [atom for atom in difference if atom is not None]
    if not atoms:
        return Equality.NEVER if constant else Equality.ALWAYS
    nodes = [node for atom in atoms for node in walk(atom)]
    names = list(dict.fromkeys(node for node in nodes if isinstance(node, n.Var)))
    integers = all(node.dtype.is_integer for node in nodes if isinstance(node, n.Expr))
    if any(name not in bounds for name in names) or not integers or len(nodes) > MOST_NODES:
        return Equality.UNKNOWN
    count = prod(bounds[name][1] - bounds[name][0] + 1 for name in names)
    if count > MOST:
        return Equality.UNKNOWN
    grid = np.meshgrid(*(np.arange(bounds[name][0], bounds[name][1] + 1) for name in names), indexing="ij")
    known = {name: axis.ravel() for name, axis in zip(names, grid, strict=True)}
    parts = [values(atom, known) for atom in atoms]
    if any(part is None for part in parts):
        return Equality.UNKNOWN
    total = sum((difference[atom] * part for atom, part in zip(atoms, parts, strict=True)), np.zeros(count, np.int64))
    equal = np.count_nonzero(total == -constant)
    return Equality.ALWAYS if equal == count else Equality.SOMETIMES if equal else Equality.NEVER


# The typing rules of expressions, one function per kind of node.
#
# A rule yields what is wrong with one node, given that the nodes below it are right; nothing here recurses.

Finding = tuple[str, str, str]
"""Code, sentence, severity."""

Rule = Callable[[Any], Iterator[Finding]]

_LARGEST = {("float", 16): 65504.0, ("bfloat", 16): 3.38953139e38, ("float", 32): 3.4028235677973366e38}


def _wrong(code: str, message: str) -> Finding:
    return code, message, "error"


def _lax(code: str, message: str) -> Finding:
    return code, message, "warning"


def _integer_constant(node: n.IntImm) -> Iterator[Finding]:
    dtype, value = node.dtype, node.value
    if dtype.code == "handle":
        return
    if not dtype.is_integer or not dtype.is_scalar:
        yield _wrong("TC01", f"an integer constant is of a scalar integer type, and not of {dtype}.")
        return
    low, high = (0, 1) if dtype.bits == 1 else dtype.range
    if not low <= value <= high:
        yield _wrong("TC02", f"the constant {value} does not fit {dtype}, which holds {low} to {high}.")


def _float_constant(node: n.FloatImm) -> Iterator[Finding]:
    dtype = node.dtype
    if not dtype.is_float or not dtype.is_scalar:
        yield _wrong("TC03", f"a floating-point constant is of a scalar floating-point type, and not of {dtype}.")
        return
    # TVM writes the bounds of float32 for those of bfloat16; rounded, they are its infinities.
    largest = _LARGEST.get(("float", 32) if dtype.code == "bfloat" else (dtype.code, dtype.bits))
    finite = node.value == node.value and abs(node.value) != float("inf")
    if largest is not None and finite and abs(node.value) > largest:
        yield _wrong("TC04", f"the constant {node.value!r} does not fit {dtype}, whose largest number is {largest!r}.")


def _cast(node: n.Cast) -> Iterator[Finding]:
    source, target = node.value.dtype, node.dtype
    if source.lanes != target.lanes:
        yield _wrong("TC05", f"a cast keeps the lanes: {source} cannot become {target}.")
    if source.code == "handle" and target.code != "handle":
        yield _wrong("TC06", f"a handle cannot become {target}.")
    if target.code == "handle" and not (source.is_integer or source.code == "handle"):
        yield _wrong("TC06", f"only integers and handles become handles, and this is {source}.")


def _select(node: n.Select) -> Iterator[Finding]:
    condition, yes, no = node.condition.dtype, node.true_value.dtype, node.false_value.dtype
    if not condition.is_bool:
        yield _wrong("TC07", f"the condition of Select is bool, and not {condition}.")
    if yes != no:
        yield _wrong("TC08", f"both values of Select have one type, and these are {yes} and {no}.")
    if condition.lanes not in (1, yes.lanes):
        yield _wrong("TC09", f"a condition of {condition.lanes} lanes cannot select among {yes.lanes}.")


def indices_rule(buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> Iterator[Finding]:
    """The rule that loads and stores share: number of indices, and their types."""
    if len(indices) != len(buffer.shape):
        yield _wrong("TC10", f"{buffer.name!r} has {len(buffer.shape)} dimensions, but {len(indices)} indices.")
    for place, index in enumerate(indices):
        if not index.dtype.is_integer:
            yield _wrong("TC11", f"index {place} of {buffer.name!r} is an integer, and not {index.dtype}.")
        elif index.dtype.lanes != 1 and place != len(indices) - 1:
            yield _wrong("TC12", f"only the last index of {buffer.name!r} may be a vector, and index {place} is one.")
    widths = {(index.dtype.code, index.dtype.bits) for index in indices if not isinstance(index, n.IntImm)}
    if len(widths) > 1:
        yield _lax("TC13", f"the indices of {buffer.name!r} are of several types; the specification asks for one.")


def _load(node: n.BufferLoad) -> Iterator[Finding]:
    yield from indices_rule(node.buffer, node.indices)
    if node.predicate is not None and not node.predicate.dtype.is_bool:
        yield _wrong("TC14", f"the predicate of a load is bool, and not {node.predicate.dtype}.")


def _ramp(node: n.Ramp) -> Iterator[Finding]:
    base, stride = node.base.dtype, node.stride.dtype
    if isinstance(node.lanes, int | n.IntImm) and n.lane_count(node.lanes) <= 1:
        yield _wrong("TC15", f"a Ramp has at least 2 lanes, and not {n.lane_count(node.lanes)}.")
    if base != stride:
        yield _wrong("TC16", f"base and stride of a Ramp have one type, and these are {base} and {stride}.")
    if not (base.is_integer and base.is_scalar):
        yield _wrong("TC16", f"the base of a Ramp is a scalar integer, and not {base}.")


def _broadcast(node: n.Broadcast) -> Iterator[Finding]:
    if not node.value.dtype.is_scalar:
        yield _wrong("TC17", f"a Broadcast repeats a scalar, and not {node.value.dtype}.")
    if isinstance(node.lanes, int | n.IntImm) and n.lane_count(node.lanes) <= 1:
        yield _wrong("TC17", f"a Broadcast has at least 2 lanes, and not {n.lane_count(node.lanes)}.")


def _let(node: n.Let) -> Iterator[Finding]:
    if node.var.dtype != node.value.dtype:
        yield _wrong("TC18", f"{node.var.name!r} is {node.var.dtype}, but its value is {node.value.dtype}.")


def _shuffle(node: n.Shuffle) -> Iterator[Finding]:
    if not node.vectors:
        yield _wrong("TC19", "a Shuffle needs at least one vector.")
        return
    kinds = {(v.dtype.code, v.dtype.bits) for v in node.vectors}
    if len(kinds) > 1:
        yield _wrong("TC19", "the vectors of a Shuffle have elements of one type.")
    total = sum(v.dtype.lanes for v in node.vectors)
    if len(node.indices) != total:
        yield _lax(
            "TC20", f"a Shuffle of {total} lanes has {len(node.indices)} indices; the specification asks for {total}."
        )
    for index in node.indices:
        if not (index.dtype.is_integer and index.dtype.is_scalar):
            yield _wrong("TC19", f"an index of a Shuffle is a scalar integer, and not {index.dtype}.")
        elif isinstance(index, n.IntImm) and not 0 <= index.value < total:
            yield _wrong("TC19", f"a Shuffle of {total} lanes has no lane {index.value}.")


def _arithmetic(node: n.BinaryOp) -> Iterator[Finding]:
    a, b = node.a.dtype, node.b.dtype
    name = type(node).__name__
    if a != b:
        yield _wrong("TC21", f"both operands of {name} have one type, and these are {a} and {b}.")
    elif a.code == "handle":
        yield _wrong("TC22", f"{name} is for numbers, and not for {'handles' if a.bits else 'no value'}.")
    if isinstance(node, n.Div | n.Mod | n.FloorDiv | n.FloorMod) and isinstance(node.b, n.IntImm) and not node.b.value:
        yield _wrong("TC24", f"{name} by the constant zero.")


def _comparison(node: n.CmpOp) -> Iterator[Finding]:
    a, b = node.a.dtype, node.b.dtype
    name = type(node).__name__
    if a != b:
        yield _wrong("TC25", f"both operands of {name} have one type, and these are {a} and {b}.")
    elif a.code == "handle":
        yield _wrong("TC22", f"{name} is for numbers, and not for {'handles' if a.bits else 'no value'}.")


def _connective(node: Any) -> Iterator[Finding]:
    a, b = node.a.dtype, node.b.dtype
    name = type(node).__name__
    for dtype in dict.fromkeys((a, b)):
        if not dtype.is_bool:
            yield _wrong("TC26", f"{name} is for bools, and not for {dtype}.")
    if a.is_bool and b.is_bool and a.lanes != b.lanes:
        yield _wrong("TC26", f"both operands of {name} have as many lanes, and these have {a.lanes} and {b.lanes}.")


def _not(node: n.Not) -> Iterator[Finding]:
    if not node.a.dtype.is_bool:
        yield _wrong("TC26", f"Not is for bools, and not for {node.a.dtype}.")


_KINDS: dict[Operands, tuple[str, Callable[[DataType], bool]]] = {
    Operands.FLOAT: ("floating-point numbers", lambda d: d.is_float),
    Operands.INTEGER: ("integers", lambda d: d.is_integer),
    Operands.SHIFT: ("integers", lambda d: d.is_integer),
    Operands.NUMBER: ("numbers", lambda d: d.is_float or d.is_integer),
}


def _call(node: n.Call) -> Iterator[Finding]:
    if not isinstance(node.op, str):
        return
    row = BUILTINS.get(node.op)
    if row is None:
        return
    if row.arity is not None and len(node.args) != row.arity:
        yield _wrong("TC27", f"T.{row.name} takes {row.arity} arguments, and not {len(node.args)}.")
        return
    arguments = [a for a in node.args if isinstance(a, n.Expr)]
    if node.op == "reinterpret" and arguments and (message := other_bytes(arguments[0].dtype, node.dtype)):
        yield _wrong("TC37", message)
    if row.operands is Operands.BOOL_FIRST:
        if not arguments[0].dtype.is_bool:
            yield _wrong("TC28", f"the condition of T.{row.name} is bool, and not {arguments[0].dtype}.")
        if arguments[1].dtype != arguments[2].dtype:
            first, second = arguments[1].dtype, arguments[2].dtype
            yield _wrong("TC28", f"both values of T.{row.name} have one type, and these are {first} and {second}.")
        return
    if row.operands not in _KINDS:
        return
    what, fits = _KINDS[row.operands]
    for argument in arguments:
        if not fits(argument.dtype):
            yield _wrong("TC29", f"T.{row.name} is for {what}, and not for {argument.dtype}.")
    kinds = list(dict.fromkeys(a.dtype for a in arguments))
    if len(kinds) > 1:
        yield _wrong("TC29", f"the arguments of T.{row.name} have one type, and these are {kinds[0]} and {kinds[1]}.")
    if row.operands is Operands.SHIFT and isinstance(arguments[1], n.IntImm):
        by, bits = arguments[1].value, arguments[0].dtype.bits
        if not 0 <= by < bits:
            yield _wrong("TC30", f"{arguments[0].dtype} is shifted by 0 to {bits - 1} bits, and not by {by}.")


def _deprecated(node: n.Expr) -> Iterator[Finding]:
    yield _lax("TC31", f"{type(node).__name__} is deprecated or part of TE.")


RULES: dict[type[n.Node], Rule] = {
    n.IntImm: _integer_constant,
    n.FloatImm: _float_constant,
    n.Cast: _cast,
    n.Select: _select,
    n.BufferLoad: _load,
    n.Ramp: _ramp,
    n.Broadcast: _broadcast,
    n.Let: _let,
    n.Shuffle: _shuffle,
    **dict.fromkeys((n.Add, n.Sub, n.Mul, n.Div, n.Mod, n.FloorDiv, n.FloorMod, n.Min, n.Max), _arithmetic),
    **dict.fromkeys((n.EQ, n.NE, n.LT, n.LE, n.GT, n.GE), _comparison),
    n.And: _connective,
    n.Or: _connective,
    n.Not: _not,
    n.Call: _call,
    n.Load: _deprecated,
    n.Reduce: _deprecated,
}
"""The rule of each kind of expression; kinds without one are always right."""
