"""The grid of a kernel: the loops, or attributes, that bind the indices of its blocks.

>>> from tensorir.tir import parse
>>> module = parse('''
... @T.prim_func
... def main(A: T.Buffer((6, 32, 32), "float32")):
...     for bx in T.thread_binding(2, thread="blockIdx.x"):
...         for by in T.thread_binding(3, thread="blockIdx.y"):
...             A[by * 2 + bx, 0, 0] = 1.0
... ''')
>>> grid_of(module["main"]).extents
(2, 3, 1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.tags import is_block, is_hardware
from tensorir.tir.walk import walk

__all__ = ["AXES", "Axis", "Grid", "agreeing", "binding", "grid_of", "is_persistent", "number", "on_functions",
           "plain", "with_attributes"]  # fmt: skip

AXES = ("x", "y", "z")

F = TypeVar("F", n.PrimFunc, n.IRModule)


@dataclass(frozen=True, slots=True)
class Axis:
    """An index of blocks: the statement that binds it, its variable and its extent."""

    node: n.For | n.AttrStmt
    var: n.Var
    extent: n.Expr
    tag: str


@dataclass(frozen=True, slots=True)
class Grid:
    """The indices of blocks that a kernel binds, from the outermost in."""

    axes: tuple[Axis, ...]

    @property
    def extents(self) -> tuple[int, int, int]:
        """The numbers of blocks along x, y and z; raises TN02 where only a call tells one."""
        sizes = {axis.tag[-1]: _constant(axis) for axis in self.axes}
        return sizes.get("x", 1), sizes.get("y", 1), sizes.get("z", 1)


def binding(node: n.Node) -> Axis | None:
    """The index of the hardware that a statement binds."""
    match node:
        case n.For(var, _, extent, n.ForKind.THREAD_BINDING, _, n.IterVar(thread_tag=tag)) if is_hardware(tag):
            assert isinstance(node, n.For)
            return Axis(node, var, extent, tag)
        case n.AttrStmt(n.IterVar(dom, var, thread_tag=tag), "thread_extent", value) if is_hardware(tag):
            assert isinstance(node, n.AttrStmt)
            extent = value if isinstance(value, n.Expr) else None if dom is None else dom.extent
            if isinstance(value, int):
                extent = n.IntImm(value, var.dtype, node.span)
            return None if extent is None else Axis(node, var, extent, tag)
        case _:
            return None


def grid_of(func: n.PrimFunc) -> Grid:
    """The grid of a kernel.

    Raises TN01 for a function that binds no blocks, threads besides blocks, or the same index of blocks twice.
    """
    found = [axis for node in walk(func.body) if (axis := binding(node)) is not None]
    if not found:
        message = f"{func.name!r} has no grid: no loop or attribute binds blockIdx.x, blockIdx.y or blockIdx.z."
        raise DiagnosticError(Diagnostic("TN01", message, func.span, help="write T.Kernel(8, 8) around the tiles."))
    seen: dict[str, Axis] = {}
    for axis in found:
        if not is_block(axis.tag):
            message = f"{axis.tag} is bound here, and a core runs a tile as a whole."
            raise DiagnosticError(Diagnostic("TN01", message, axis.node.span, help="write it for whole tiles."))
        if axis.tag in seen or axis.tag[-1] not in AXES:
            message = f"{axis.tag} is bound twice, and a kernel has one grid."
            raise DiagnosticError(Diagnostic("TN01", message, axis.node.span, help="make a function of each grid."))
        seen[axis.tag] = axis
    for outer, inner in pairwise(found):
        if not any(node is inner.node for node in walk(outer.node.body)):
            message = f"{inner.tag} is bound beside {outer.tag}, and a kernel has one grid."
            raise DiagnosticError(Diagnostic("TN01", message, inner.node.span, help="make a function of each grid."))
    return Grid(tuple(found))


def _constant(axis: Axis) -> int:
    if isinstance(axis.extent, n.IntImm) and axis.extent.value > 0:
        return axis.extent.value
    message = f"the grid has {axis.extent} blocks along {axis.tag[-1]}, and tiles are given to cores before a call."
    help = "write the extent as a number above 0, or give the sizes in it: ti.tt.sized(f, m=64), --set m=64."
    raise DiagnosticError(Diagnostic("TN02", message, axis.node.span, help=help))


def is_persistent(func: n.PrimFunc) -> bool:
    """Whether a kernel loops over the tiles of one core already."""
    return "tt_persistent_loop" in func.attrs


def plain(value: n.Attribute) -> n.Attribute:
    """An attribute with numbers and tuples of Python for those of the IR.

    >>> from tensorir.tir.dtypes import INT32
    >>> plain((n.IntImm(2, INT32), "x"))
    (2, 'x')
    """
    match value:
        case n.IntImm(number):
            return number
        case tuple():
            return tuple(plain(part) for part in value)
        case _:
            return value


def number(func: n.PrimFunc, name: str, needs: str) -> int:
    """An attribute of a function that is a number; raises TN03 where an earlier pass did not leave one."""
    value = plain(func.attrs.get(name))
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    message = f"{func.name!r} has no attribute {name} that is a number above 0."
    raise DiagnosticError(Diagnostic("TN03", message, func.span, help=f"run ti.tt.{needs} first."))


def with_attributes(func: n.PrimFunc, made: dict[str, n.Attribute]) -> n.PrimFunc:
    """The function with attributes more; those that it has already stay as they are."""
    return replace(func, attrs={**func.attrs, **{k: v for k, v in made.items() if k not in func.attrs}})


def agreeing(func: n.PrimFunc, made: dict[str, n.Attribute], why: dict[str, str], needs: str) -> n.PrimFunc:
    """The function with attributes more; raises TN14 for one that it has already with another value, and says why."""
    for name, value in made.items():
        stated = plain(func.attrs.get(name, value))
        if stated != value or isinstance(stated, bool) != isinstance(value, bool):
            message = f"{name} of {func.name!r} is {stated!r}, and {why[name]}."
            help = f"leave the attribute out: ti.tt.{needs} writes it."
            raise DiagnosticError(Diagnostic("TN14", message, func.span, help=help))
    return with_attributes(func, made)


def on_functions(func: F, rule: Callable[[n.PrimFunc], n.PrimFunc]) -> F:
    """A rule on a function, or on every function of TIR of a module."""
    if isinstance(func, n.PrimFunc):
        return rule(func)
    if isinstance(func, n.IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        made = {name: rule(f) if isinstance(f, n.PrimFunc) else f for name, f in func.functions.items()}
        return replace(func, functions=made)
    message = f"a pass takes a function of TIR or a module of them, and this is of type {type(func).__name__}."
    raise DiagnosticError(Diagnostic("TN01", message, n.NOWHERE, help="read the text with ti.tir.parse."))
