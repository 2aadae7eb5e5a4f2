"""Functions and modules, and what attributes and arguments hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from tensorir.runtime.assembly import print_tir
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Displayed, Span, did_you_mean
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes.base import Node, Type
from tensorir.tir.nodes.buffers import Buffer, BufferRegion, IterVar
from tensorir.tir.nodes.expressions import CommReducer, Expr, GlobalVar, IndexMap, Opaque, Var
from tensorir.tir.nodes.statements import Stmt

__all__ = ["Argument", "Attribute", "GraphFunction", "GraphNode", "IRModule", "PrimFunc"]

_Entries: TypeAlias = "tuple[Attribute, ...] | Mapping[str, Attribute]"


Attribute: TypeAlias = "bool | int | float | str | DataType | Type | Node | GlobalVar | _Entries | None"
"""What attributes, annotations and keywords of opaque calls hold."""


Argument: TypeAlias = Expr | Buffer | BufferRegion | Opaque | IndexMap | CommReducer | IterVar


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimFunc(Node, Displayed):
    """A function: parameters, the buffers that some of them are, a body.

    `attrs["global_symbol"]` is the name under which the function is known outside; private functions have none.
    `module` is the module that the function was taken from (`mod["main"]`), so that its calls resolve.
    """

    is_closed: ClassVar[bool] = True

    name: str
    params: tuple[Var, ...]
    buffer_map: Mapping[Var, Buffer]
    body: Stmt
    ret_type: Type | None = None
    attrs: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    s_tir: bool = True
    module: IRModule | None = None
    span: Span = NOWHERE

    def __str__(self) -> str:
        return print_tir(self)


class GraphNode(Node):
    """A node of a graph of operators around functions of TIR; the package above, `tensorir.relax`, has all of them."""

    __slots__ = ()


class GraphFunction(GraphNode, Displayed):
    """A function of a module that is a graph of operators."""

    __slots__ = ()
    is_closed = True

    name: str
    params: tuple[Any, ...]
    module: IRModule | None

    def __str__(self) -> str:
        return print_tir(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IRModule(Node, Displayed):
    """Functions by name, in the order of the text.

    `metadata` holds what `metadata["key"][index]` in the text refers to, where it was supplied. `wanting` tells of
    kernels of a text of TileLang that constants without values left out, by name.
    """

    is_closed: ClassVar[bool] = True

    functions: Mapping[str, PrimFunc | GraphFunction]
    attrs: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    global_infos: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    metadata: Mapping[str, object] | None = None
    name: str = "Module"
    span: Span = NOWHERE
    wanting: Mapping[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])

    def __getitem__(self, name: str) -> PrimFunc | GraphFunction:
        """The function of that name, which knows this module."""
        if name in self.wanting:
            raise DiagnosticError(self.wanting[name])
        if name not in self.functions:
            hint = did_you_mean(name, self.functions)
            raise DiagnosticError(Diagnostic("TS60", f"the module has no function {name!r}.", self.span, help=hint))
        function: Any = self.functions[name]
        return replace(function, module=self)

    def __str__(self) -> str:
        return print_tir(self)
