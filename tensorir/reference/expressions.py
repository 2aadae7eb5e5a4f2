"""Expressions as tensors: a node in a scope answers by its rule, which asks the node's operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorir.ir.nodes import Apply, Call, Expr, Function, Lambda, Literal, Operator, Var
from tensorir.ir.types import Scalar, TensorType
from tensorir.reference.scalars import SCALAR, scalar
from tensorir.reference.tensors import ABSENT, Answer, Constant, Point, Tensor, Within

__all__ = ["Rule", "Run", "Scope", "applied", "applied_each"]


@dataclass(slots=True)
class Run:
    """One run of one program: the rules of its builtins, and what is observed besides the values."""

    rules: Mapping[str, Rule]
    both: bool = False
    """Whether `if` also computes the branch that it does not select."""
    reads: dict[str, set[tuple[int, ...]]] = field(default_factory=dict[str, set[tuple[int, ...]]])
    """By parameter, the points of what the caller passed that were read."""


class Scope:
    """Variables and the tensors that they stand for, around expressions that are computed once in it."""

    __slots__ = ("outer", "run", "shared", "tensors", "variables")

    outer: Scope | None
    run: Run
    variables: Mapping[Var, Tensor]

    def __init__(self, run: Run, variables: Mapping[Var, Tensor], outer: Scope | None = None) -> None:
        self.run, self.variables, self.outer = run, variables, outer
        self.tensors: dict[int, Tensor] = {}
        self.shared: dict[int, Any] = {}

    def tensor(self, node: Expr) -> Tensor:
        """An expression as a tensor, in the outermost scope that has all its variables."""
        scope = self
        while scope.outer is not None and node.free.isdisjoint(scope.variables):
            scope = scope.outer
        found = scope.tensors.get(id(node))
        if found is None:
            found = scope.tensors[id(node)] = scope._made(node)
        return found

    def _made(self, node: Expr) -> Tensor:
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
        """What the rule of a node keeps for all points."""
        found = self.shared.get(id(node))
        if found is None:
            found = self.shared[id(node)] = make()
        return found


Rule = Callable[[Call, Scope, Point], Answer]
"""The value of a call at a point, in a scope."""


def applied(scope: Scope, function: Function, args: Sequence[Tensor]) -> Tensor:
    """A function of one result applied to tensors."""
    (result,) = applied_each(scope, function, args)
    return result


def applied_each(scope: Scope, function: Function, args: Sequence[Tensor]) -> list[Tensor]:
    """The results of a function applied to tensors."""
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
        node, scope = self.node, self.scope
        if node.op in SCALAR:
            return _operation(node.op, type_of(node.args[0]), [scope.tensor(a) for a in node.args], point)
        if node.definition is not None:
            definition = node.definition
            value: Tensor = scope.once(node, lambda: applied(scope, definition, [scope.tensor(a) for a in node.args]))
            return _asked(value, point)
        return scope.run.rules[node.op](node, scope, point)


def _operation(op: str, operand: TensorType, args: Sequence[Tensor], point: Point) -> Answer:
    """An elementwise builtin: absent where any operand is."""
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
