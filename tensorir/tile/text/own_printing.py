"""How operations with a syntax of their own print; the counterpart of `tensorir.tile.text.own`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tensorir.tile.attributes import Dictionary, Typed
from tensorir.tile.nodes import Operation, Value
from tensorir.tile.text.spelling import spelled_attribute, spelled_hints, symbol
from tensorir.tile.types import Function, TensorView

if TYPE_CHECKING:
    from tensorir.tile.text.printing import Printer

__all__ = ["OWN"]


def _entry(p: Printer, op: Operation, head: str, depth: int) -> None:
    signature = op.attribute("function_type")
    assert isinstance(signature, Typed) and isinstance(signature.type, Function)
    results = ", ".join(map(str, signature.type.results))
    arrow = f" -> {results}" if len(signature.type.results) == 1 else f" -> ({results})" if results else ""
    hints = op.attribute("optimization_hints") if op.name == "entry" else None
    said = "" if hints is None else f" optimization_hints={spelled_hints(hints)}"
    body = op.regions[0]
    p.lines.append(f"{head} @{symbol(op.attribute('sym_name'))}{p.arguments(body.arguments)}{arrow}{said}")
    p.region(body, op.name, depth)
    p.lines[-1] += p.dictionary(op)


def _module(p: Printer, op: Operation, head: str, depth: int) -> None:
    further = dict(op.further)
    if op.attribute("producer") is not None:
        further["producer"] = op.attribute("producer")
    said = f" attributes {spelled_attribute(Dictionary(tuple(sorted(further.items()))))}" if further else ""
    p.lines.append(f"{head.replace('module', 'cuda_tile.module')} @{symbol(op.attribute('sym_name'))}{said}")
    p.region(op.regions[0], "module", depth)


def _if(p: Printer, op: Operation, head: str, depth: int) -> None:
    types = ", ".join(str(v.type) for v in op.results)
    p.lines.append(f"{head} {p.value(op.operand('condition'))}{f' -> ({types})' if types else ''}")
    p.region(op.regions[0], "if", depth)
    if len(op.regions) > 1:
        p.add("else")
        p.region(op.regions[1], "if", depth)
    p.lines[-1] += p.dictionary(op)


def _for(p: Printer, op: Operation, head: str, depth: int) -> None:
    low, high, step = (p.value(op.operand(n)) for n in ("lowerBound", "upperBound", "step"))
    index, *carried = op.regions[0].arguments
    unsigned = " unsigned" if op.attribute("unsignedCmp") else ""
    p.lines.append(f"{head}{unsigned} {p.value(index)} in ({low} to {high}, step {step}) : {index.type}")
    if carried:
        types = ", ".join(str(v.type) for v in op.results)
        p.add(f"{_carried(p, carried, op.operand('initValues'))} -> ({types})")
    p.region(op.regions[0], "for", depth)
    p.lines[-1] += p.dictionary(op)


def _loop(p: Printer, op: Operation, head: str, depth: int) -> None:
    p.lines.append(head)
    carried = op.regions[0].arguments
    types = ", ".join(str(v.type) for v in op.results)
    if carried:
        p.add(f"{_carried(p, carried, op.operand('initValues'))} : {', '.join(str(v.type) for v in carried)}")
        if types:
            p.add(f"-> {types}")
    elif types:
        p.add(f": {types}")
    p.region(op.regions[0], "loop", depth)
    p.lines[-1] += p.dictionary(op)


def _carried(p: Printer, names: Sequence[Value], values: Sequence[Value]) -> str:
    pairs = (f"{p.value(n)} = {p.value(v)}" for n, v in zip(names, values, strict=True))
    return f"iter_values({', '.join(pairs)})"


def _make_tensor_view(p: Printer, op: Operation, head: str, depth: int) -> None:
    type = op.results[0].type
    assert isinstance(type, TensorView)
    parts = [f"{head} {p.value(op.operand('base'))}"]
    if type.shape:
        for word, numbers, operand in (
            ("shape", type.shape, "dynamicShape"),
            ("strides", type.strides, "dynamicStrides"),
        ):
            given = iter(op.operand(operand))
            parts.append(f"{word} = [{', '.join(p.value(next(given)) if n is None else str(n) for n in numbers)}]")
    dynamic = (*op.operand("dynamicShape"), *op.operand("dynamicStrides"))
    p.lines.append(f"{', '.join(parts)}{p.dictionary(op)} : {f'{dynamic[0].type} -> ' if dynamic else ''}{type}")


def _make_view(p: Printer, op: Operation, head: str, depth: int) -> None:
    p.lines.append(f"{head} {p.value(op.operand('tensor_view'))}{p.dictionary(op)} : {op.results[0].type}")


def _shape_of(p: Printer, op: Operation, head: str, depth: int) -> None:
    source = op.operand("src")
    given = op.results[0].type if op.results else "tile<i32>"
    p.lines.append(f"{head} {p.value(source)}{p.dictionary(op)} : {source.type} -> {given}")


def _order(op: Operation) -> str:
    scope = op.attribute("memory_scope")
    return f"{op.attribute('memory_ordering_semantics')}{'' if scope is None else f' {scope}'}"


def _rest(p: Printer, op: Operation) -> str:
    token = op.operand("token")
    said = "" if token is None else f" token = {p.value(token)}"
    if op.row.name != "atomic_red_view_tko" and (hints := op.attribute("optimization_hints")) is not None:
        said += f" optimization_hints = {spelled_hints(hints)}"
    return said + p.dictionary(op, "attributes ")


def _viewed(p: Printer, op: Operation) -> str:
    view, index = op.operand("view"), op.operand("index")
    types = list(dict.fromkeys(str(v.type) for v in index))
    listed = types if len(types) < 2 else [str(v.type) for v in index]
    return ", ".join([str(view.type), *listed])


def _load_view(p: Printer, op: Operation, head: str, depth: int) -> None:
    place = f"{p.value(op.operand('view'))}[{p.values(op.operand('index'))}]"
    types = ", ".join(str(v.type) for v in op.results)
    p.lines.append(f"{head} {_order(op)} {place}{_rest(p, op)} : {_viewed(p, op)} -> {types}")


def _store_view(p: Printer, op: Operation, head: str, depth: int) -> None:
    tile = op.operand("tile")
    place = f"{p.value(tile)}, {p.value(op.operand('view'))}[{p.values(op.operand('index'))}]"
    p.lines.append(f"{head} {_order(op)} {place}{_rest(p, op)} : {tile.type}, {_viewed(p, op)} -> token")


def _reduce_view(p: Printer, op: Operation, head: str, depth: int) -> None:
    value = op.operand("value")
    place = f"{p.value(op.operand('view'))}[{p.values(op.operand('index'))}], {op.attribute('mode')}, {p.value(value)}"
    p.lines.append(f"{head} {_order(op)} {place}{_rest(p, op)} : {value.type}, {_viewed(p, op)} -> token")


OWN: dict[str, Callable[[Printer, Operation, str, int], None]] = {
    "entry": _entry,
    "testing$func": _entry,
    "module": _module,
    "if": _if,
    "for": _for,
    "loop": _loop,
    "make_tensor_view": _make_tensor_view,
    "make_partition_view": _make_view,
    "make_strided_view": _make_view,
    "make_gather_scatter_view": _make_view,
    "get_tensor_shape": _shape_of,
    "get_index_space_shape": _shape_of,
    "load_view_tko": _load_view,
    "store_view_tko": _store_view,
    "atomic_red_view_tko": _reduce_view,
}
