"""The nodes of the IR: six kinds of expression, closures and fencils.

An expression is a literal, a variable, a function (a `Lambda`, or a builtin as `Operator`), an application of a
function, or a `Call` of a builtin. Expressions form a DAG: what the notation binds with `let` is one node that is
used several times, and its name is the node's `label`. Every node computes its type when it is made, by the rule in
the table of builtins, so an ill-typed tree cannot exist. Equality is structural and ignores spans and labels; it and
hashing take time linear in the distinct nodes, at any depth.

>>> from tensorir.ir.types import tensor
>>> x = Var("x", tensor("float", I=(0, 5)))
>>> Call("plus", (x, Call("cartesian_shift", (x,), ("I", 1)))).type
tensor<float, I[0:4]>
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.integers.dims import Dims, Interval
from tensorir.ir import typing_rules as rules
from tensorir.ir.access import Accesses
from tensorir.ir.builtins import TABLE, Builtin, Control
from tensorir.ir.types import FunctionType, Scalar, TensorType, Type
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, Displayed, Span, refuse
from tensorir.runtime.memory import CacheOwner

__all__ = ["Apply", "Call", "Closure", "Expr", "Fencil", "Function", "Lambda", "Literal", "Operator", "Var"]

print_expression = ExtensionPoint("the notation of an expression", "tensorir.text.printer", "print_expr")
print_program = ExtensionPoint("the notation of a fencil or a template", "tensorir.text.printer", "print_fencil")
parse_program = ExtensionPoint("a program from its notation", "tensorir.text", "parse")
check_fencil = ExtensionPoint("what makes a fencil well-formed", "tensorir.ir.wellformed", "check_fencil")
define_builtin = ExtensionPoint("a builtin in terms of others", "tensorir.ir.build", "definition")
needed_parameters = ExtensionPoint(
    "the parameters that a fencil reads before it writes them", "tensorir.ir.wellformed", "needed_parameters"
)
call_program = ExtensionPoint("a call of a program on arrays", "tensorir.binding.calls", "call")
bind_program = ExtensionPoint("a program with constants", "tensorir.binding.calls", "bind")

_NONE: frozenset[Var] = frozenset()


class Node(Displayed):
    """The base class of expressions: type, free variables, span, label, and equality by structure."""

    __slots__ = ()

    type: Any
    free: frozenset[Var]
    span: Span
    label: str
    key: int
    """A hash of the structure."""

    @property
    def tensor(self) -> TensorType:
        """The type of an expression that is not a function."""
        assert isinstance(self.type, TensorType)
        return self.type

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    def own(self) -> tuple[Any, ...]:
        """The fields that distinguish the node besides its children."""
        raise NotImplementedError

    def _settle(self, type: Type, free: frozenset[Var]) -> None:
        """Sets the derived fields of a frozen node: type, free variables, and the hash of its structure."""
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "free", free)
        object.__setattr__(self, "key", hash((self.own(), tuple([c.key for c in self.children]))))

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and _equal_structures(self, other)

    def __str__(self) -> str:
        return print_expression(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.type}>"

    def __reduce__(self) -> Any:
        raise TypeError("expressions are not pickled; write the text of their fencil, str(f), and parse it again.")


def _equal_structures(a: Node, b: Node) -> bool:
    """True if two graphs are equal node by node; pairs are compared once, so that sharing costs no exponential time."""
    stack: list[tuple[Node, Node]] = [(a, b)]
    seen: set[tuple[int, int]] = set()
    while stack:
        x, y = stack.pop()
        if x is y or (id(x), id(y)) in seen:
            continue
        seen.add((id(x), id(y)))
        if x.key != y.key or type(x) is not type(y) or x.own() != y.own() or len(x.children) != len(y.children):
            return False
        stack.extend(zip(x.children, y.children, strict=True))
    return True


def _union(nodes: tuple[Expr, ...]) -> frozenset[Var]:
    """The union of the nodes' free variables; the set of one node is reused if it contains the others."""
    largest = _NONE
    for node in nodes:
        if node.free is not largest and len(node.free) > len(largest):
            largest = node.free
    if all(n.free is largest or n.free <= largest for n in nodes):
        return largest
    return largest.union(*(n.free for n in nodes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Node):
    """One scalar value, the same everywhere."""

    value: bool | int | float
    element: Scalar
    span: Span = NOWHERE
    label: str = ""
    type: TensorType = field(init=False)
    free: frozenset[Var] = field(init=False)
    key: int = field(init=False)

    def __post_init__(self) -> None:
        self._settle(TensorType(self.element), _NONE)

    def own(self) -> tuple[Any, ...]:
        # -0.0 is not 0.0, and NaN is NaN
        return "literal", self.element, self.value.hex() if isinstance(self.value, float) else self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Node):
    """A parameter of a fencil or of a function, where it is declared and where it is used."""

    name: str
    type: TensorType
    span: Span = NOWHERE
    label: str = field(init=False, default="")
    free: frozenset[Var] = field(init=False)
    key: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", hash((self.name, self.type)))
        object.__setattr__(self, "free", frozenset((self,)))

    def own(self) -> tuple[Any, ...]:
        return "var", self.name, self.type


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lambda(Node):
    """A function of typed parameters with one result, or several (for loops and conditionals), which may share nodes.

    The results may use variables from outside.
    """

    params: tuple[Var, ...]
    results: tuple[Expr, ...]
    span: Span = NOWHERE
    label: str = ""
    type: FunctionType = field(init=False)
    free: frozenset[Var] = field(init=False)
    key: int = field(init=False)

    def __post_init__(self) -> None:
        """Derives the type; raises T14 for a function as result, N02 for repeated parameter names."""
        kinds = [r.type for r in self.results if isinstance(r.type, TensorType)]
        if len(kinds) != len(self.results):
            raise refuse("T14", "a function cannot return a function.", "apply it in the body: f(x).")
        if len({p.name for p in self.params}) != len(self.params):
            raise refuse("N02", "two parameters of a function have one name.", "rename one.")
        free = _union(self.results).difference(self.params)
        self._settle(FunctionType(tuple(p.type for p in self.params), tuple(kinds)), free)

    @property
    def body(self) -> Expr:
        """The only result."""
        (only,) = self.results
        return only

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.results

    def own(self) -> tuple[Any, ...]:
        return "lambda", self.params


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Operator(Node):
    """An elementwise builtin as a function of given types, such as the `+` of `reduce(+, 0.0)`."""

    op: str
    params: tuple[TensorType, ...]
    span: Span = NOWHERE
    label: str = ""
    type: FunctionType = field(init=False)
    free: frozenset[Var] = field(init=False)
    key: int = field(init=False)

    def __post_init__(self) -> None:
        operands = tuple(Var(f"_{i}", t) for i, t in enumerate(self.params))
        self._settle(FunctionType(self.params, (TABLE[self.op].rule((), operands),)), _NONE)

    def own(self) -> tuple[Any, ...]:
        return "operator", self.op, self.params


Function = Lambda | Operator


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Apply(Node):
    """A function applied to arguments that cover its parameters' types."""

    function: Function
    args: tuple[Expr, ...]
    span: Span = NOWHERE
    label: str = ""
    type: TensorType = field(init=False)
    free: frozenset[Var] = field(init=False)
    key: int = field(init=False)

    def __post_init__(self) -> None:
        self._settle(rules.apply(self.function.type, self.args), _union((self.function, *self.args)))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.function, *self.args)

    def own(self) -> tuple[Any, ...]:
        return ("apply",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Node):
    """A builtin applied to operands (functions among them), with its static parameters in the order of its form."""

    op: str
    args: tuple[Expr, ...]
    static: Any = ()
    """The record that the builtin's row names (`tensorir.ir.static_parameters`); made of a plain tuple in its order."""
    span: Span = NOWHERE
    label: str = ""
    type: TensorType = field(init=False)
    free: frozenset[Var] = field(init=False)
    key: int = field(init=False)
    _definition: Lambda | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Converts `static` to the builtin's record, and derives the type by its typing rule, which may raise."""
        row = TABLE[self.op]
        if type(self.static) is not row.static:
            object.__setattr__(self, "static", row.static_of(self.static))
        self._settle(row.rule(self.static, self.args), _union(self.args))

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def own(self) -> tuple[Any, ...]:
        return self.op, self.static

    @property
    def accesses(self) -> Accesses | None:
        """The access map of each operand; None if the reads follow from a definition or from functions."""
        reads = TABLE[self.op].reads
        return None if reads is None else reads(self.static, [a.type for a in self.args], self.type)

    @property
    def fold(self) -> Folding | None:
        """The parts of a fold, None for other calls.

        >>> from tensorir.ir.types import tensor
        >>> x = Var("x", tensor("float", K=(0, 3)))
        >>> f = Operator("plus", (tensor("float"), tensor("float")))
        >>> print(Call("reduce", (f, Literal(0.0, x.type.element), x), ("K",)).fold.interval)
        [0:3]
        """
        builtin = TABLE[self.op]
        if builtin.control is not Control.FOLD:
            return None
        function, init, *operands = self.args
        dim: str = self.static.dim
        interval = next(a.tensor.dims[dim] for a in (self, *operands) if dim in a.tensor.dims)
        return Folding(function, init, tuple(operands), dim, interval, getattr(self.static, "forward", True), builtin)

    @property
    def definition(self) -> Lambda | None:
        """The definition of the builtin as a function of the operands, cached; None if its row has none.

        >>> from tensorir.ir.types import tensor
        >>> x, y = Var("x", tensor("float", K=(0, 3))), Var("y", tensor("float", K=(0, 3)))
        >>> print(Call("contract", (x, y), (x.type.element, ("K",))).definition.body)
        reduce(+, 0.0, K)(x × y)
        """
        if self._definition is None and TABLE[self.op].defined:
            object.__setattr__(self, "_definition", define_builtin(self))
        return self._definition


@dataclass(frozen=True, slots=True)
class Folding:
    """A left fold of operands along a dim: f(carry, x, ...) at each of its points."""

    function: Expr
    init: Expr
    operands: tuple[Expr, ...]
    dim: str
    interval: Interval
    forward: bool
    """Points are taken upwards."""
    row: Builtin


Expr = Literal | Var | Lambda | Operator | Apply | Call


@dataclass(frozen=True, slots=True)
class Closure(Displayed):
    """One assignment of a fencil: an expression stored in a parameter, or in the part `region` of it."""

    output: Var
    value: Expr
    region: Dims | None = None
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def target(self) -> TensorType:
        """The type that the expression must cover."""
        target = self.output.type
        if self.region is not None:
            for name, interval in self.region.items:
                target = target.on(target.dims.with_interval(name, interval))
        return target


@dataclass(frozen=True, slots=True)
class Fencil(CacheOwner, Displayed):
    """A stencil program: parameters, and closures that run in order; a later one sees what an earlier one wrote.

    Made by `tensorir.ir.build.fencil`, which checks that every output is covered by its expression.
    """

    name: str
    params: tuple[Var, ...]
    closures: tuple[Closure, ...]
    span: Span = field(default=NOWHERE, compare=False)
    buffers: frozenset[str] = field(default=frozenset(), compare=False)
    """Parameters that a pass made: no results, and free to disappear."""

    def __post_init__(self) -> None:
        check_fencil(self)

    def __eq__(self, other: object) -> bool:
        """True for equal programs; the order of dims in parameters counts, since it is the order of an array's axes."""
        # axes count: the order of a parameter's dims is the order of an array's axes
        if not isinstance(other, Fencil):
            return NotImplemented
        return (self.name, self.params, self.closures) == (other.name, other.params, other.closures) and all(
            a.type.dims.names == b.type.dims.names for a, b in zip(self.params, other.params, strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.params, self.closures))

    def __getitem__(self, name: str) -> Var:
        return next(p for p in self.params if p.name == name)

    def __iter__(self) -> Iterator[Closure]:
        return iter(self.closures)

    @property
    def outputs(self) -> tuple[Var, ...]:
        """The parameters that are written, in the order of the parameters."""
        written = {c.output.name for c in self.closures}
        return tuple(p for p in self.params if p.name in written)

    @property
    def results(self) -> tuple[Var, ...]:
        """The outputs that a call returns: all but the buffers that passes made."""
        return tuple(p for p in self.outputs if p.name not in self.buffers)

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The parameters that must be passed: read before they are covered, or left partly unwritten."""
        return needed_parameters(self)

    def __str__(self) -> str:
        return print_program(self)

    def __repr__(self) -> str:
        return f"<Fencil {self.name}({', '.join(p.name for p in self.params)})>"

    def __reduce__(self) -> Any:
        return _restored, (str(self), self.buffers)

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        """Run on the default backend: parameters by name in, written parameters by name out.

        See `docs/language.md`, "Fencils" and "Arrays at the edge".
        """
        return call_program(self, datasets, arguments)

    def bind(self, /, **constants: Any) -> Any:
        """The program with some parameters and sizes fixed: copied, validated and prepared.

        See `docs/language.md`, "Sizes" and "Neighbour tables".
        """
        return bind_program(self, constants)


def _restored(text: str, buffers: frozenset[str]) -> Fencil:
    """The node of a pickled text."""
    return replace(parse_program(text), buffers=buffers)
