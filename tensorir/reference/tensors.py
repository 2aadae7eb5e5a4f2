"""Tensors as functions of points, the machine that asks them, and expressions as tensors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, cast

from tensorir.integers.dims import Dims
from tensorir.ir.nodes import Apply, Call, Expr, Function, Lambda, Literal, Operator, Var
from tensorir.ir.types import Element, Scalar, TensorType
from tensorir.reference.scalars import SCALAR, scalar

# Tensors as functions of points, and the machine that asks them: deep programs need no deep Python stack.
#
# A tensor is asked at a point, a mapping from names to coordinates that may hold more names than the tensor has. To
# answer, it may ask other tensors: `answer` is a generator that yields questions (tensor, point) and is sent values.
# `ask` keeps the unfinished generators on a stack of its own, and remembers every answer where it belongs: in the
# tensor.


class _Absent:
    """The value of a scalar leaf behind a -1 of a table."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""The value of an element that a neighbour table has no entry for."""

Value = Any
"""A NumPy scalar or ABSENT, or for tuple elements a tuple of values."""

Point = Mapping[str, int]


def leaves_of(value: Value) -> list[Value]:
    """The scalars of a value, from left to right.

    >>> leaves_of((1, (2, 3)))
    [1, 2, 3]
    """
    if not isinstance(value, tuple):
        return [value]
    members = cast("tuple[Value, ...]", value)
    return [leaf for member in members for leaf in leaves_of(member)]


class Outside(Exception):
    """A tensor was asked at a point where it has no value."""


class Tensor:
    """A lazily evaluated function of points that caches its values, over the dims `names`."""

    __slots__ = ("known", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.known: dict[tuple[int, ...], Value] = {}

    def answer(self, point: Point) -> Answer:
        """The value at a point."""
        raise NotImplementedError


Question = tuple[Tensor, Point]
Answer = Generator[Question, Value, Value]


def ask(tensor: Tensor, point: Point) -> Value:
    """The value of a tensor at a point; runs the generators of `answer` on an explicit stack, and caches each value.

    >>> ask(Constant(3), {"I": 5})
    3
    """
    unfinished: list[tuple[Tensor, tuple[int, ...], Answer]] = []
    question: Question | None = (tensor, point)
    value: Value = None
    while True:
        if question is not None:
            current, current_point = question
            key = tuple([current_point[name] for name in current.names])
            if key not in current.known:
                unfinished.append((current, key, current.answer(current_point)))
                value = None
            else:
                value = current.known[key]
        if not unfinished:
            return value
        current, key, steps = unfinished[-1]
        try:
            question = steps.send(value)
        except StopIteration as done:
            value = current.known[key] = done.value
            unfinished.pop()
            question = None


class Constant(Tensor):
    """One value everywhere."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        super().__init__(())
        self.value: Value = value

    def answer(self, point: Point) -> Answer:
        return self.value
        yield  # never reached: makes this method a generator


class Slice(Tensor):
    """A tensor at one coordinate of a dim, without the dim."""

    __slots__ = ("coordinate", "dim", "whole")

    coordinate: int
    dim: str
    whole: Tensor

    def __init__(self, whole: Tensor, dim: str, coordinate: int) -> None:
        super().__init__([name for name in whole.names if name != dim])
        self.whole, self.dim, self.coordinate = whole, dim, coordinate

    def answer(self, point: Point) -> Answer:
        return (yield self.whole, {**point, self.dim: self.coordinate})


class Within(Tensor):
    """A tensor on declared dims: broadcast along missing ones; asking outside of their intervals raises `Outside`."""

    __slots__ = ("dims", "inner")

    dims: Dims
    inner: Tensor

    def __init__(self, inner: Tensor, dims: Dims) -> None:
        super().__init__(dims.names)
        self.inner, self.dims = inner, dims

    def answer(self, point: Point) -> Answer:
        check_inside(self.dims, point)
        return (yield self.inner, point)


def check_inside(dims: Dims, point: Point) -> None:
    """Raise Outside where a coordinate leaves its interval."""
    for name, interval in dims.items:
        if point[name] not in interval:
            raise Outside(f"{name} = {point[name]} is not in {name}{interval}")


def points(dims: Dims) -> Iterator[dict[str, int]]:
    """Every point of a box, the last dim fastest.

    >>> list(points(Dims.of(I=(0, 2), J=(5, 6))))
    [{'I': 0, 'J': 5}, {'I': 1, 'J': 5}]
    """
    for coordinates in product(*[range(i.start, i.stop) for _, i in dims.items]):
        yield dict(zip(dims.names, coordinates, strict=True))


def any_absent(value: Value) -> bool:
    """True if a leaf of a value is absent."""
    if not isinstance(value, tuple):
        return value is ABSENT
    members = cast("tuple[Value, ...]", value)
    return any(map(any_absent, members))


def filled(element: Element, leaf: Callable[[Scalar], Value]) -> Value:
    """A value for an element type, made leaf by leaf.

    >>> from tensorir.ir.types import BOOL, INT32, TupleElement
    >>> filled(TupleElement((BOOL, TupleElement((INT32,)))), lambda kind: kind)
    (bool, (int32,))
    """
    return leaf(element) if isinstance(element, Scalar) else tuple(filled(m, leaf) for m in element.members)


def absent(element: Element) -> Value:
    """A value whose every leaf is absent."""
    return filled(element, lambda _: ABSENT)


# Expressions as tensors: a node in a scope answers by its rule, which asks the node's operands.


@dataclass(slots=True)
class Run:
    """One run of one program: the rules of its builtins, and what is observed besides the values."""

    rules: Mapping[str, Rule]
    both: bool = False
    """Whether `if` also computes the branch that it does not select."""
    reads: dict[str, set[tuple[int, ...]]] = field(default_factory=dict[str, set[tuple[int, ...]]])
    """By parameter, the points of what the caller passed that were read."""


class Scope:
    """Variables with their tensors; expressions in it are evaluated once per point."""

    __slots__ = ("outer", "run", "shared", "tensors", "variables")

    outer: Scope | None
    run: Run
    variables: Mapping[Var, Tensor]

    def __init__(self, run: Run, variables: Mapping[Var, Tensor], outer: Scope | None = None) -> None:
        self.run, self.variables, self.outer = run, variables, outer
        self.tensors: dict[int, Tensor] = {}
        self.shared: dict[int, Any] = {}

    def tensor(self, node: Expr) -> Tensor:
        """The tensor of an expression, cached in the outermost scope that binds its variables."""
        scope = self
        while scope.outer is not None and node.free.isdisjoint(scope.variables):
            scope = scope.outer
        tensor = scope.tensors.get(id(node))
        if tensor is None:
            tensor = scope.tensors[id(node)] = scope._computed(node)
        return tensor

    def _computed(self, node: Expr) -> Tensor:
        """The tensor of an expression by its kind, not cached."""
        match node:
            case Literal(value, element):
                return Constant(scalar(element, value))
            case Var():
                return Within(self.variables[node], node.type.dims)
            case Apply(function, args):
                return applied(self, function, [_Scoped(a, self) for a in args])
            case Call():
                return _Called(node, self)
            case Lambda() | Operator():
                raise AssertionError("functions are applied, not computed")

    def once(self, node: Expr, make: Callable[[], Any]) -> Any:
        """The state that a node's rule shares between all points, created by `make` at first."""
        part = self.shared.get(id(node))
        if part is None:
            part = self.shared[id(node)] = make()
        return part


Rule = Callable[[Call, Scope, Point], Answer]
"""The value of a call at a point, in a scope."""


def applied(scope: Scope, function: Function, args: Sequence[Tensor]) -> Tensor:
    """A function of one result applied to tensors."""
    (result,) = applied_each(scope, function, args)
    return result


def applied_each(scope: Scope, function: Function, args: Sequence[Tensor]) -> list[Tensor]:
    """The results of a function applied to tensors, lazily, in a new scope."""
    if isinstance(function, Operator):
        return [_Operation(function, args)]
    inner = Scope(scope.run, dict(zip(function.params, args, strict=True)), scope)
    return [_Scoped(result, inner) for result in function.results]


def _asked(value: Tensor, point: Point) -> Answer:
    return (yield value, point)


class _Called(Tensor):
    """A call of a builtin."""

    __slots__ = ("node", "scope")

    def __init__(self, node: Call, scope: Scope) -> None:
        super().__init__(node.type.dims.names)
        self.node, self.scope = node, scope

    def answer(self, point: Point) -> Answer:
        """The value of a call: an elementwise builtin, the definition of a builtin, or a rule."""
        node, scope = self.node, self.scope
        if node.op in SCALAR:
            return _operation(node.op, type_of(node.args[0]), [scope.tensor(a) for a in node.args], point)
        if node.definition is not None:
            definition = node.definition
            value: Tensor = scope.once(node, lambda: applied(scope, definition, [scope.tensor(a) for a in node.args]))
            return _asked(value, point)
        return scope.run.rules[node.op](node, scope, point)


def _operation(op: str, operand: TensorType, args: Sequence[Tensor], point: Point) -> Answer:
    """An elementwise builtin on the operands' values; absent if any operand is."""
    values: list[Any] = []
    for arg in args:
        values.append((yield arg, point))
    assert isinstance(operand.element, Scalar)
    return ABSENT if any(v is ABSENT for v in values) else SCALAR[op](operand.element, *values)


class _Operation(Tensor):
    """An elementwise builtin as a function, its parameters bound to tensors."""

    __slots__ = ("args", "operator")

    def __init__(self, operator: Operator, args: Sequence[Tensor]) -> None:
        super().__init__(operator.type.result.dims.names)
        self.operator = operator
        self.args = [Within(a, t.dims) for a, t in zip(args, operator.params, strict=True)]

    def answer(self, point: Point) -> Answer:
        return _operation(self.operator.op, self.operator.params[0], self.args, point)


class _Scoped(Tensor):
    """An expression in a scope, as others see it: what a function is applied to, or a result of it."""

    __slots__ = ("node", "scope")

    def __init__(self, node: Expr, scope: Scope) -> None:
        super().__init__(type_of(node).dims.names)
        self.node, self.scope = node, scope

    def answer(self, point: Point) -> Answer:
        return (yield self.scope.tensor(self.node), point)


def type_of(node: Expr) -> TensorType:
    assert isinstance(node.type, TensorType)
    return node.type
