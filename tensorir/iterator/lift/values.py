"""Values of expressions of iterator IR: tensors, tuples, positions in them, functions, domains, and known numbers."""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorir.integers.dims import Dims
from tensorir.integers.sets import Box, Region
from tensorir.ir.types import DTYPES
from tensorir.iterator.lift.graph import Node, Table, postorder
from tensorir.iterator.nodes import Axis, Lambda, Offset
from tensorir.runtime.errors import NOWHERE, Span, refuse


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """Names and what they stand for, inside of other names."""

    names: Mapping[str, Any]
    outer: Env | None = None

    def get(self, name: str) -> Any:
        """The value of a name in the innermost environment that has it, None for others."""
        env: Env | None = self
        while env is not None:
            if name in env.names:
                return env.names[name]
            env = env.outer
        return None


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin that stands for itself."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function and the names around it."""

    function: Lambda
    env: Env


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """A builtin that has its first arguments: `shift(o, 1)`, `reduce(f, init)`, `scan(...)`, `as_fieldop(f)`."""

    name: str
    args: tuple[Any, ...]


Function = Builtin | Closure | Partial

Target = str | tuple[str, str] | Table
"""Where a shift goes: along a dim, from one dim to a staggered one, or through a table."""


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a shift: where to, and how far or to which slot; to all slots where there is none."""

    target: Target
    by: int | Node | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Iterator:
    """A position in a tensor, or in several that are a tuple: shifted by steps, the first one first."""

    value: Tree
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Lifted:
    """A position in what a stencil computes of other positions."""

    stencil: Function
    args: tuple[Any, ...]
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """The intervals on which a program stores, in the order of its dims."""

    dims: tuple[Axis, ...]
    ends: tuple[tuple[int, int], ...]

    @property
    def box(self) -> Box:
        return {a.name: e for a, e in zip(self.dims, self.ends, strict=True)}


Tree = Node | tuple["Tree", ...]
Value = Tree | Iterator | Lifted | Function | Domain | Region | Axis | Offset | Any


def tree_map(f: Any, *trees: Any) -> Any:
    """A function of the members of nested tuples of one structure; one that is no tuple goes with every member.

    >>> tree_map(lambda a, b: a + b, (1, (2, 3)), 10)
    (11, (12, 13))
    """
    first = next((t for t in trees if isinstance(t, tuple)), None)
    if first is None:
        return f(*trees)
    return tuple(
        tree_map(f, *(t[k] if isinstance(t, tuple) else t for t in trees))  # type: ignore[index]
        for k in range(len(first))
    )


def leaves(tree: Any) -> list[Any]:
    """The members of a nested tuple, from left to right."""
    return [leaf for member in tree for leaf in leaves(member)] if isinstance(tree, tuple) else [tree]


def shifted(x: Any, steps: tuple[Step, ...]) -> Any:
    """A position, or several that are a tuple, moved by further steps."""
    if not steps:
        return x
    match x:
        case Iterator(value, before):
            return Iterator(value, _join(before, steps))
        case Lifted(stencil, args, before):
            return Lifted(stencil, args, _join(before, steps))
        case tuple():
            return tuple(shifted(m, steps) for m in x)
        case _:
            return Iterator(x, steps)


def _join(before: tuple[Step, ...], steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps after others; a slot alone goes with the last table that has none."""
    result = list(before)
    for step in steps:
        if step.target == "":
            k = max((k for k, s in enumerate(result) if s.by is None), default=-1)
            if k >= 0:
                result[k] = Step(result[k].target, step.by, step.span)
                continue
        result.append(step)
    return tuple(result)


# What is known when a program is specialised: scalars that its sizes depend on, and the domains of its fields.


_RULES: dict[str, Callable[..., Any]] = {
    "plus": operator.add, "minus": operator.sub, "multiplies": operator.mul,
    "divides": lambda a, b: a / b if isinstance(a, float) or isinstance(b, float) else int(a / b),
    "floordiv": operator.floordiv, "mod": operator.mod, "rem": math.fmod, "power": operator.pow, "neg": operator.neg,
    "abs": abs, "min": min, "max": max, "eq": operator.eq, "not_eq": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "and": lambda a, b: a and b,
    "or": lambda a, b: a or b, "xor": lambda a, b: bool(a) != bool(b), "not": operator.not_,
    "if": lambda c, a, b: a if c else b, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor,
}  # fmt: skip


@dataclass(eq=False)
class Known:
    """Scalars and domains by the names of inputs; `used` are the scalars that a number was made of."""

    scalars: Mapping[str, Any]
    domains: Mapping[str, Dims]
    used: set[str] = field(default_factory=set[str])

    def number(self, x: Any) -> Any:
        """The number that a node without dims is; raises TI06 for one that only a run tells."""
        if not isinstance(x, Node):
            raise refuse("TI06", "a number is needed here, and this is none.", "use scalars of the program.")
        done: dict[int, Any] = {}
        for node in postorder((x,)):
            args = [done[id(a)] for a in node.args]
            match node.op:
                case "constant":
                    done[id(node)] = node.static[1]
                case "input" if self.scalars.get(node.static[0]) is not None:
                    self.used.add(node.static[0])
                    done[id(node)] = self.scalars[node.static[0]]
                case "cast":
                    done[id(node)] = DTYPES[node.element].type(args[0]).item()
                case op if op in _RULES:
                    done[id(node)] = _RULES[op](*args)
                case _:
                    message = "the sizes of a program cannot depend on what a field holds."
                    raise refuse("TI06", message, "pass the number as a scalar.")
        return done[id(x)]
