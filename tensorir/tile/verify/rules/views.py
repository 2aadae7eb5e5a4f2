"""Views, their indices, and the tiles that are loaded and stored through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorir.tile.nodes import Operation
from tensorir.tile.types import GatherScatterView, TensorView, Tile, TileView
from tensorir.tile.verify.rules.memory import atomic_elements, scoped

__all__ = ["RULES"]


def _make_tensor(op: Operation) -> Iterator[tuple[str, str]]:
    type: Any = op.results[0].type
    base = op.operand("base").type.element.pointee
    if base != type.element:
        yield "TV08", f"the pointer is to {base}, and the elements of the tensor_view are {type.element}."
    for name, numbers in (("dynamicShape", type.shape), ("dynamicStrides", type.strides)):
        needed, given = sum(n is None for n in numbers), len(op.operand(name))
        if needed != given:
            yield "TV08", f"{type} needs {needed} values for its '{name}', and has {given}."
    types = {v.type for v in (*op.operand("dynamicShape"), *op.operand("dynamicStrides"))}
    if len(types) > 1:
        yield "TV08", f"dynamic extents and strides have one type, and these have {', '.join(sorted(map(str, types)))}."


def _make_view(op: Operation) -> Iterator[tuple[str, str]]:
    type: Any = op.results[0].type
    given = op.operand("tensor_view").type
    if type.tensor != given:
        yield "TV08", f"the view is of {type.tensor}, and {op.name} takes {given}."


def _shape(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.operand("src").type
    rank = len(type.shape) if isinstance(type, TensorView) else len(type.tile)
    if len(op.results) != rank:
        yield "TV08", f"{op.name} gives a number for each of {rank} dims, and not {len(op.results)}."


def _accessed(op: Operation, tile: Any) -> Iterator[tuple[str, str]]:
    view: TileView = op.operand("view").type
    wanted = Tile(view.tile, view.tensor.element)
    if tile != wanted:
        yield "TV08", f"the tile of this view is {wanted}, and not {tile}."
    index = [v.type for v in op.operand("index")]
    if len(index) != len(view.tile):
        yield "TV08", f"{op.name} takes an index for each of {len(view.tile)} dims, and has {len(index)}."
        return
    sparse = view.sparse_dim if isinstance(view, GatherScatterView) else -1
    plain: set[Any] = set()
    for k, type in enumerate(index):
        if k == sparse:
            if type.shape != (view.tile[k],):
                yield (
                    "TV08",
                    f"the index of the sparse dim {k} is a tile of {view.tile[k]} integers, and {type} is none.",
                )
        elif type.shape:
            yield "TV08", f"the index of dim {k} is a scalar, and {type} is none."
        else:
            plain.add(type)
    if len(plain) > 1 and op.name != "atomic_red_view_tko":
        yield "TV08", f"the indices have one type, and these have {', '.join(sorted(map(str, plain)))}."


def _load(op: Operation) -> Iterator[tuple[str, str]]:
    yield from scoped(op)
    yield from _accessed(op, op.results[0].type)


def _store(op: Operation) -> Iterator[tuple[str, str]]:
    yield from scoped(op)
    yield from _accessed(op, op.operand("tile").type)


def _reduced(op: Operation) -> Iterator[tuple[str, str]]:
    view = op.operand("view").type
    if isinstance(view, GatherScatterView):
        yield "TV08", f"{op.name} takes a partition_view or strided_view, and not {view}."
        return
    if view.padding is not None:
        yield "TV08", f"{op.name} takes a view without padding, and {view} has some."
    yield from atomic_elements(op, view.tensor.element)
    yield from _accessed(op, op.operand("value").type)


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "make_tensor_view": _make_tensor,
    "make_partition_view": _make_view,
    "make_strided_view": _make_view,
    "make_gather_scatter_view": _make_view,
    "get_tensor_shape": _shape,
    "get_index_space_shape": _shape,
    "load_view_tko": _load,
    "store_view_tko": _store,
    "atomic_red_view_tko": _reduced,
}
