"""Dims that go along one axis of a mesh, such as points and the faces between them: one name for both.

A tensor has one of them, so a device has the same block of either, and what renames one to the other stays where it
is. With one name it is no operation at all.

>>> import tensorir as ti
>>> f = ti.parse('''f(d: tensor<float, F[1:4]>, x: tensor<float, I[0:4]>) {
...   d ← rename(I → F)(x) - rename(I → F)(⟪I, -1⟫(x));
... }''')
>>> print(under_one_name(f, {"I": "px", "F": "px"})[0])
f(d: tensor<float, I[1:4]>, x: tensor<float, I[0:4]>) {
  d ← x - ⟪I, -1⟫(x);
}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tensorir.distribution.partition import check_dims
from tensorir.integers.dims import Dims
from tensorir.ir.nodes import Apply, Call, Closure, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import refuse

BOTH = "{} and {} are both to be distributed along '{}'."
APART = "give each dim an axis of its own."


def names_of_axes(axes: Mapping[str, str], owners: Collection[str] = ()) -> dict[str, str]:
    """The dims in blocks that go along the axis of an earlier one, each with the name of that one."""
    first: dict[str, str] = {}
    blocks = {d: a for d, a in axes.items() if d not in owners}
    return {d: first[a] for d, a in blocks.items() if first.setdefault(a, d) != d}


def check_named(name: str, have: Collection[str], axes: Mapping[str, str], owners: Collection[str] = ()) -> None:
    """Raise D02 for a dim that a program lacks, unless one that goes along its axis is there: it may have it within."""
    names = names_of_axes(axes, owners)
    there = {names.get(d, d) for d in have}
    check_dims(name, have, [d for d in axes if d in have or names.get(d, d) not in there])


def refuse_both(tensors: Iterable[Iterable[str]], axes: Mapping[str, str], owners: Collection[str] = ()) -> None:
    """Raise D05 where a tensor, whose dims these are, has two that are to go along one axis."""
    names = names_of_axes(axes, owners)
    for dims in tensors:
        if pair := _both(dims, names):
            raise refuse("D05", BOTH.format(*pair, axes[pair[1]]), APART)


def _both(dims: Iterable[str], names: Mapping[str, str]) -> tuple[str, str] | None:
    """Two dims that have one name, of these."""
    seen: dict[str, str] = {}
    return next(((seen[n], d) for d in dims if seen.setdefault(n := names.get(d, d), d) != d), None)


def under_one_name(
    program: Fencil, axes: Mapping[str, str], owners: Collection[str] = ()
) -> tuple[Fencil, dict[str, str]]:
    """The program with one name for the dims that go along an axis together, and the axes of those that are left.

    Raises D05 where a tensor has two of them, D02 for a dim that no expression has.
    """
    names = names_of_axes(axes, owners)
    if not names:
        return program, dict(axes)
    done: dict[int, Any] = {}
    have = dict.fromkeys(d for p in program.params for d in p.type.dims)

    def kind(tensor: TensorType) -> TensorType:
        return tensor.on(_dims(tensor.dims, names))

    def variable(v: Var) -> Var:
        return replace(v, type=kind(v.type))

    for node in postorder(*values(program.closures)):
        if isinstance(node.type, TensorType):
            have.update(dict.fromkeys(node.type.dims))
            if pair := _both(node.type.dims, names):
                raise refuse("D05", BOTH.format(*pair, axes[pair[1]]), APART, at=node.span)
        children = tuple([done[id(c)] for c in node.children])
        made: Any = node
        match node:
            case Var():
                made = variable(node)
            case Lambda():
                made = replace(node, params=tuple(map(variable, node.params)), results=children)
            case Operator():
                made = replace(node, params=tuple(map(kind, node.params)))
            case Apply():
                made = replace(node, function=children[0], args=children[1:])
            case Call():
                static = _static(node.static, names)
                unnamed = node.op == "rename" and not static[0]
                made = children[0] if unnamed else replace(node, args=children, static=static)
            case Literal():
                pass
            case _:
                raise AssertionError(node)
        done[id(node)] = made
    check_dims(program.name, have, [*names, *names.values()])
    closures = tuple(
        Closure(variable(c.output), done[id(c.value)], None if c.region is None else _dims(c.region, names), c.span)
        for c in program.closures
    )
    whole = Fencil(program.name, tuple(map(variable, program.params)), closures, program.span, program.buffers)
    return whole, {d: a for d, a in axes.items() if d not in names}


def _dims(dims: Dims, names: Mapping[str, str]) -> Dims:
    return Dims(tuple((names.get(d, d), i) for d, i in dims.items))


def _static(static: Any, names: Mapping[str, str]) -> Any:
    """The static parameters of a call, whose fields say which of them are names of dims."""

    def one(field: str, value: Any) -> Any:
        match field:
            case "dim" | "outer" | "inner":
                return names.get(value, value)
            case "dims" | "over":
                return tuple(names.get(d, d) for d in value)
            case "intervals":
                return _dims(value, names)
            case "pairs":
                pairs = tuple((names.get(a, a), names.get(b, b)) for a, b in value)
                return tuple((a, b) for a, b in pairs if a != b)
            case _:
                return value

    fields = getattr(static, "_fields", ())
    return type(static)(*map(one, fields, static)) if fields else static
