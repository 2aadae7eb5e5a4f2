"""The grid of a kernel: loops that bind indices, sizes as numbers, shards, buffers padded to tiles, defaults.

The grid of a kernel: the loops, or attributes, that bind the indices of its blocks.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.builtins import is_block, is_hardware
from tensorir.tir.ranges import interval
from tensorir.tir.trees import substitute, transform, walk

# Kernels with the sizes that only a call would tell, as numbers: what is given to cores is counted before a call.


def sizes_of(func: n.PrimFunc) -> dict[str, n.Var]:
    """The names in the extents of a kernel's buffers that are no parameters."""
    extents = [e for buffer in func.buffer_map.values() for e in buffer.shape]
    found = {v.name: v for e in extents for v in walk(e) if isinstance(v, n.Var) and v not in func.params}
    return dict(sorted(found.items()))


def sized(func: n.PrimFunc, **sizes: int) -> n.PrimFunc:
    """The kernel with some of its sizes as numbers, wherever they are used.

    Raises TN13 for a name that is no size, and for what is no number from 0 up.

    >>> from tensorir.tir import parse
    >>> main = parse('''
    ... @T.prim_func
    ... def main(a: T.handle):
    ...     m = T.int32()
    ...     A = T.match_buffer(a, (m, 16))
    ...     for bx in T.thread_binding((m + 7) // 8, thread="blockIdx.x"):
    ...         A[bx * 8, 0] = 1.0
    ... ''')["main"]
    >>> print(sized(main, m=21))
    # from tvm.script import tirx as T
    <BLANKLINE>
    @T.prim_func
    def main(A: T.Buffer((21, 16), "float32")):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            A[bx * 8, 0] = T.float32(1.0)
    <BLANKLINE>
    """
    known = sizes_of(func)
    for name, value in sizes.items():
        if name not in known:
            names = f"has the sizes {', '.join(known)}" if known else "has no sizes left"
            message = f"{name!r} is no size of {func.name!r}, which {names}."
            help = did_you_mean(name, known) or "name one of its buffers' extents."
            raise refuse("TN13", message, help, at=func.span)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"the size {name!r} of {func.name!r} is {value!r}."
            raise refuse("TN13", message, "a size is a whole number, 0 or more.", at=func.span)
    values: dict[n.Var, n.Expr] = {known[k]: const(v, known[k].dtype) for k, v in sizes.items()}
    made = {
        buffer: replace(
            buffer,
            shape=tuple(_number(substitute(e, values)) for e in buffer.shape),
            strides=tuple(_number(substitute(e, values)) for e in buffer.strides),
        )
        for buffer in func.buffer_map.values()
    }
    # buffers first: with other sizes below it, a buffer would be another one
    body = substitute(substitute(func.body, {}, made), values)
    body = transform(body, lambda node: _folded(node) if isinstance(node, n.Expr) else None)
    return replace(func, buffer_map={p: made[b] for p, b in func.buffer_map.items()}, body=body)


def _folded(expr: n.Expr) -> n.Expr | None:
    """An expression of numbers as one; None for any other."""
    if not isinstance(expr, n.BinaryOp) or not expr.dtype.is_integer:
        return None
    found = interval(expr, {})
    return None if found is None or found[0] != found[1] else n.IntImm(found[0], expr.dtype, expr.span)


def _number(expr: n.Expr) -> n.Expr:
    return _folded(expr) or expr


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
        raise refuse("TN01", message, "write T.Kernel(8, 8) around the tiles.", at=func.span)
    seen: dict[str, Axis] = {}
    for axis in found:
        if not is_block(axis.tag):
            message = f"{axis.tag} is bound here, and a core runs a tile as a whole."
            raise refuse("TN01", message, "write it for whole tiles.", at=axis.node.span)
        if axis.tag in seen or axis.tag[-1] not in AXES:
            message = f"{axis.tag} is bound twice, and a kernel has one grid."
            raise refuse("TN01", message, "make a function of each grid.", at=axis.node.span)
        seen[axis.tag] = axis
    for outer, inner in pairwise(found):
        if not any(node is inner.node for node in walk(outer.node.body)):
            message = f"{inner.tag} is bound beside {outer.tag}, and a kernel has one grid."
            raise refuse("TN01", message, "make a function of each grid.", at=inner.node.span)
    return Grid(tuple(found))


def _constant(axis: Axis) -> int:
    if isinstance(axis.extent, n.IntImm) and axis.extent.value > 0:
        return axis.extent.value
    message = f"the grid has {axis.extent} blocks along {axis.tag[-1]}, and tiles are given to cores before a call."
    help = "write the extent as a number above 0, or give the sizes in it: ti.tt.sized(f, m=64), --set m=64."
    raise refuse("TN02", message, help, at=axis.node.span)


def is_persistent(func: n.PrimFunc) -> bool:
    """True if a kernel loops over the tiles of one core already."""
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
    raise refuse("TN03", message, f"run ti.tt.{needs} first.", at=func.span)


def with_attributes(func: n.PrimFunc, made: dict[str, n.Attribute]) -> n.PrimFunc:
    """The function with attributes more; those that it has already stay as they are."""
    return replace(func, attrs={**func.attrs, **{k: v for k, v in made.items() if k not in func.attrs}})


def agreeing(func: n.PrimFunc, made: dict[str, n.Attribute], why: dict[str, str], needs: str) -> n.PrimFunc:
    """The function with attributes more; raises TN14 for one that it has already with another value, and says why."""
    for name, value in made.items():
        stated = plain(func.attrs.get(name, value))
        if stated != value or isinstance(stated, bool) != isinstance(value, bool):
            message = f"{name} of {func.name!r} is {stated!r}, and {why[name]}."
            raise refuse("TN14", message, f"leave the attribute out: ti.tt.{needs} writes it.", at=func.span)
    return with_attributes(func, made)


def on_functions(func: F, rule: Callable[[n.PrimFunc], n.PrimFunc]) -> F:
    """A rule on a function, or on every function of TIR of a module."""
    if isinstance(func, n.PrimFunc):
        return rule(func)
    if isinstance(func, n.IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        made = {name: rule(f) if isinstance(f, n.PrimFunc) else f for name, f in func.functions.items()}
        return replace(func, functions=made)
    message = f"a pass takes a function of TIR or a module of them, and this is of type {type(func).__name__}."
    raise refuse("TN01", message, "read the text with ti.tir.parse.", at=n.NOWHERE)


# Default annotations: how tiles are given to cores, how buffers lie in memory, how large a tile of the hardware is.

LAYOUTS = ("dram_interleaved", "height_sharded", "width_sharded", "block_sharded")
"""How a buffer lies: tile by tile in DRAM, or one shard in the L1 memory of each core: rows, columns or rectangles."""

DEFAULTS: dict[str, n.Attribute] = {
    "tt_schedule_policy": "contiguous",
    "tt_schedule_order": "row_major",
    "tt_layout_type": "dram_interleaved",
    "tt_tile_height": 32,
    "tt_tile_width": 32,
}
"""What a function gets that does not say otherwise."""


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "tt_schedule_policy": ("contiguous",),
    "tt_schedule_order": ("row_major", "column_major"),
    "tt_layout_type": LAYOUTS,
}


def chosen(func: n.PrimFunc) -> None:
    """Raise TN05 for a policy, an order or a layout, of all buffers or of one, that no program is made for."""
    for name, value in func.attrs.items():
        layout = name.startswith("tt_buffer_") and name.endswith("_layout")
        known = _CHOICES.get("tt_layout_type" if layout else name)
        if known is not None and value not in known:
            words = " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))
            message = f"{name} of {func.name!r} is {value!r}, and programs are made for {words} only."
            help = did_you_mean(value, known) if isinstance(value, str) else ""
            raise refuse("TN05", message, help or f"write {known[0]}.", at=func.span)


def layout_of(func: n.PrimFunc, buffer: n.Buffer) -> str:
    """The layout of a buffer: its own attribute's, or the function's."""
    whole = func.attrs.get("tt_layout_type", DEFAULTS["tt_layout_type"])
    return str(func.attrs.get(f"tt_buffer_{buffer.name}_layout", whole))


def defaults(func: F) -> F:
    """The function, or every function of a module, with the default annotations; the body is unchanged.

    Attributes that a function has already stay as they are. Raises TN01 for what is no function and no module,
    TN05 for a policy, an order or a layout that no program is made for.

    >>> from tensorir.tir import parse
    >>> main = parse('@T.prim_func\\ndef main(A: T.Buffer((4,))):\\n    T.func_attr({"tt_tile_width": 16})')["main"]
    >>> print(defaults(main))
    # from tvm.script import tirx as T
    <BLANKLINE>
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"tt_layout_type": "dram_interleaved", "tt_schedule_order": "row_major", "tt_schedule_policy": \
"contiguous", "tt_tile_height": 32, "tt_tile_width": 16})
        pass
    <BLANKLINE>
    """
    return on_functions(func, _defaults)


def _defaults(func: n.PrimFunc) -> n.PrimFunc:
    chosen(func)
    return with_attributes(func, DEFAULTS)


# Shards: how the buffers of a kernel are made of tiles of the hardware.


def shard(func: F, layouts: Mapping[str, str] | None = None) -> F:
    """The function, or every one of a module, with the tiles of each buffer parameter as attributes; the body stays.

    Tiles lie along the last two dims; a buffer of one dim is one row. A buffer needs padding where either extent is no
    multiple of the tile. `layouts` says by name how buffers lie: "dram_interleaved", or in the cores' L1 memory
    "height_sharded", "width_sharded" or "block_sharded". Raises TN02 for a buffer whose extents only a call tells, TN05
    for a layout that no program is made for or of a buffer that there is not, TN14 for an attribute that the function
    has already with another value.

    >>> from tensorir.tir import parse
    >>> main = parse('@T.prim_func\\ndef main(A: T.Buffer((64, 100))):\\n    A[0, 0] = 1.0')["main"]
    >>> {k: v for k, v in shard(main).attrs.items() if k.startswith("tt_buffer")}  # doctest: +NORMALIZE_WHITESPACE
    {'tt_buffer_A_layout': 'dram_interleaved', 'tt_buffer_A_tile_shape': (32, 32), 'tt_buffer_A_num_tiles_height': 2,
     'tt_buffer_A_num_tiles_width': 4, 'tt_buffer_A_needs_padding': 1}
    """
    return on_functions(func, lambda f: _shard(f, layouts or {}))


def _shard(func: n.PrimFunc, layouts: Mapping[str, str]) -> n.PrimFunc:
    names = [buffer.name for buffer in func.buffer_map.values()]
    for name in layouts:
        if name not in names:
            message = f"{name!r} is given a layout, and {func.name!r} has no such buffer."
            help = did_you_mean(name, names) or f"its buffers are {', '.join(names)}."
            raise refuse("TN05", message, help, at=func.span)
    made: dict[str, n.Attribute] = {f"tt_buffer_{name}_layout": layout for name, layout in layouts.items()}
    func = replace(func, attrs={**func.attrs, **made})
    chosen(func)
    whole = with_attributes(func, DEFAULTS)
    tile = number(whole, "tt_tile_height", "defaults"), number(whole, "tt_tile_width", "defaults")
    made = {}
    why: dict[str, str] = {}
    for buffer in (func.buffer_map[p] for p in func.params if p in func.buffer_map):
        high, wide = matrix_extents(buffer)
        prefix = f"tt_buffer_{buffer.name}"
        made[f"{prefix}_layout"] = layout_of(whole, buffer)
        made[f"{prefix}_tile_shape"] = tile
        made[f"{prefix}_num_tiles_height"] = -(-high // tile[0])
        made[f"{prefix}_num_tiles_width"] = -(-wide // tile[1])
        made[f"{prefix}_needs_padding"] = int(high % tile[0] != 0 or wide % tile[1] != 0)
        own = {name: value for name, value in made.items() if name.startswith(f"{prefix}_")}
        why |= {k: f"{high} × {wide} elements in tiles of {tile[0]} × {tile[1]} make it {v!r}" for k, v in own.items()}
    return agreeing(func, made, why, "shard")


def matrix_extents(buffer: n.Buffer) -> tuple[int, int]:
    """The rows and columns of a buffer: its last two extents, of which one that it does not have is 1."""
    found: list[int] = []
    for extent in buffer.shape[-2:]:
        if not isinstance(extent, n.IntImm):
            message = f"{buffer.name!r} has {extent} elements along a dim, and its tiles are counted before a call."
            raise refuse("TN02", message, "give its sizes: ti.tt.sized(f, m=64).", at=buffer.span)
        found.append(extent.value)
    high, wide = (1,) * (2 - len(found)) + tuple(found)
    return high, wide


# Kernels on buffers whose extents are multiples of the hardware's tiles.


def padded_shape(func: n.PrimFunc, buffer: n.Buffer) -> tuple[int, ...]:
    """The extents of a buffer with the last two (of one dim: the last) rounded up to multiples of the tile.

    Raises TN02 for extents that only a call tells.
    """
    whole = with_attributes(func, DEFAULTS)
    tile = [number(whole, f"tt_tile_{side}", "defaults") for side in ("height", "width")]
    matrix_extents(buffer)
    fixed = [e.value if isinstance(e, n.IntImm) else 1 for e in buffer.shape]
    inner = tile[-len(fixed) :] if fixed else []
    outer = fixed[: len(fixed) - len(inner)]
    return (*outer, *(-(-e // t) * t for e, t in zip(fixed[len(outer) :], inner, strict=True)))


def padded(func: n.PrimFunc) -> n.PrimFunc:
    """The kernel on padded buffers; its body is the same, so that what it guards by the extents it reads as padding.

    >>> from tensorir.tir import parse
    >>> main = parse('@T.prim_func\\ndef main(A: T.Buffer((3, 40, 64))):\\n    A[0, 0, 0] = 1.0')["main"]
    >>> next(iter(padded(main).buffer_map.values())).shape
    (3, 64, 64)
    """
    made: dict[n.Buffer, n.Buffer] = {}
    for buffer in func.buffer_map.values():
        shape = padded_shape(func, buffer)
        sizes = tuple(const(e, old.dtype) for e, old in zip(shape, buffer.shape, strict=True))
        made[buffer] = replace(buffer, shape=sizes, strides=())
    return replace(
        func,
        buffer_map={param: made[buffer] for param, buffer in func.buffer_map.items()},
        body=substitute(func.body, {}, made),
    )


def pad_arrays(func: n.PrimFunc, arrays: Sequence[Any]) -> list[Any]:
    """The arguments of a kernel for the padded one: zeros behind the elements that there are."""
    found: list[Any] = []
    for param, value in zip(func.params, arrays, strict=False):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            found.append(value)
            continue
        array = np.asarray(value)
        whole = np.zeros(padded_shape(func, buffer), array.dtype)
        whole[tuple(slice(e) for e in array.shape)] = array
        found.append(whole)
    return found
