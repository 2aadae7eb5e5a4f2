"""Functions and modules, and what attributes and arguments hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from tensorir.source import NOWHERE, Span
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes.base import Node, Type
from tensorir.tir.nodes.buffers import Buffer, BufferRegion, IterVar
from tensorir.tir.nodes.expressions import CommReducer, Expr, GlobalVar, IndexMap, Opaque, Var
from tensorir.tir.nodes.statements import Stmt

if TYPE_CHECKING:
    from tensorir.tir.relax.nodes import Function

__all__ = ["Argument", "Attribute", "IRModule", "PrimFunc"]

_Entries: TypeAlias = "tuple[Attribute, ...] | Mapping[str, Attribute]"


Attribute: TypeAlias = "bool | int | float | str | DataType | Type | Node | GlobalVar | _Entries | None"
"""What attributes, annotations and keywords of opaque calls hold."""


Argument: TypeAlias = Expr | Buffer | BufferRegion | Opaque | IndexMap | CommReducer | IterVar


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimFunc(Node):
    """A function: parameters, the buffers that some of them are, a body.

    `attrs["global_symbol"]` is the name under which the function is known outside; private functions have none.
    `module` is the module that the function was taken from (`mod["main"]`), so that its calls resolve.
    """

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
        from tensorir.tir.printer import print_function

        return print_function(self)

    def _repr_html_(self) -> str:
        from tensorir.tir.html import page_of

        return page_of(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IRModule(Node):
    """Functions by name, in the order of the text.

    `metadata` holds what `metadata["key"][index]` in the text refers to, where it was supplied.
    """

    functions: Mapping[str, PrimFunc | Function]
    attrs: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    global_infos: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    metadata: Mapping[str, object] | None = None
    name: str = "Module"
    span: Span = NOWHERE

    def __getitem__(self, name: str) -> PrimFunc | Function:
        """The function of that name, which knows this module."""
        if name not in self.functions:
            from tensorir.errors import Diagnostic, DiagnosticError, did_you_mean

            hint = did_you_mean(name, self.functions)
            raise DiagnosticError(Diagnostic("TS60", f"the module has no function {name!r}.", self.span, help=hint))
        return replace(self.functions[name], module=self)

    def __str__(self) -> str:
        from tensorir.tir.printer import print_module

        return print_module(self)

    def _repr_html_(self) -> str:
        from tensorir.tir.html import page_of

        return page_of(self)
