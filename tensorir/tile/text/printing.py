"""Modules as text: the assembly that the reader reads, one operation to a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.nodes import occurrences
from tensorir.tile.nodes import Attribute, Dense, Dictionary, Hints, Module, Operation, Region, Typed, Value, flat
from tensorir.tile.operations import Attr
from tensorir.tile.text import steps as s
from tensorir.tile.text.cursor import spelled_dense
from tensorir.tile.text.locations import spelled_location
from tensorir.tile.text.reader import implied_end
from tensorir.tile.text.types import spelled_attribute, spelled_hints, symbol
from tensorir.tile.types import Function, TensorView, Type

# What values are called in print: as the text called them, by a label of the table, or by a number.


def names_of(module: Module) -> dict[int, str]:
    """A name for each value, by its identity; no two values of an entry have one name."""
    names: dict[int, str] = {}
    for op in module.operations:
        if op.name == "module":
            names.update(names_of(Module(op.regions[0].operations if op.regions else ())))
        else:
            _name_entry(op, names)
    return names


class _Names:
    """The names that an entry has used, and how many numbers."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.used: dict[str, int] = {}
        self.count = 0

    def free(self, wanted: str) -> str:
        if not wanted:
            while (name := str(self.count)) in self.used:
                self.count += 1
            self.count += 1
        else:
            name = wanted
            while name in self.used:
                self.used[wanted] += 1
                name = f"{wanted}_{self.used[wanted]}"
        self.used[name] = 0
        return name

    def argument(self, value: Value, wanted: str) -> None:
        self.names[id(value)] = self.free(value.name or wanted)


def _name_entry(entry: Operation, names: dict[int, str]) -> None:
    own = _Names(names)

    def enter(op: Operation) -> list[Operation]:
        if op is not entry:
            _name_results(op, own)
        for region in op.regions:
            _name_arguments(op, region, own)
        return [inner for region in op.regions for inner in region.operations]

    for _ in occurrences([entry], enter):
        pass


def _name_arguments(op: Operation, region: Region, own: _Names) -> None:
    for k, value in enumerate(region.arguments):
        match op.name:
            case "for":
                wanted = "loopIdx" if k == 0 else f"iterArg{k - 1}"
            case "loop":
                wanted = f"iterArg{k}"
            case "reduce" | "scan":
                wanted = f"{op.name}_{('acc', 'elem')[k % 2]}{k // 2}"
            case _:
                wanted = f"arg{k}"
        own.argument(value, wanted)


def _name_results(op: Operation, own: _Names) -> None:
    if not op.results:
        return
    first = op.results[0].name or op.row.label
    if len(op.results) > 1 and op.row.results[-1].any:
        base = own.free(first)
        for k, value in enumerate(op.results):
            own.names[id(value)] = f"{base}#{k}"
        return
    for k, value in enumerate(op.results):
        plain = op.row.results[min(k, len(op.row.results) - 1)].name
        own.names[id(value)] = own.free(value.name or (op.row.label if k == 0 else plain if op.row.label else ""))


# How operations with a syntax of their own print; the counterpart of `tensorir.tile.text.own`.


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

# Modules as text: the assembly that the reader reads, one operation to a line, without prefixes.


def print_module(module: Module, locations: bool = False) -> str:
    """The text of a module; `locations` adds where each operation comes from.

    >>> from tensorir.tile.text.modules import parse
    >>> text = 'entry @f() { %t = make_token : token loc("k.py":3:4) }'
    >>> print(print_module(parse(text), locations=True))
    entry @f() {
      %t = make_token : token loc("k.py":3:4)
      return
    }
    """
    printer = Printer(names_of(module), locations)
    alone = len(module.operations) == 1 and module.name == "kernels" and module.producer is None and not module.further
    if alone:
        printer.operation(module.operations[0], 0)
        return "\n".join(printer.lines)
    further = dict(module.further)
    if module.producer is not None:
        further["producer"] = module.producer
    said = f" attributes {spelled_attribute(Dictionary(tuple(sorted(further.items()))))}" if further else ""
    printer.lines.append(f"cuda_tile.module @{symbol(module.name)}{said} {{")
    for op in module.operations:
        printer.operation(op, 1)
    printer.lines.append("}")
    return "\n".join(printer.lines)


class Printer:
    """Lines, and what values are called in them."""

    names: dict[int, str]
    locations: bool

    def __init__(self, names: dict[int, str], locations: bool = False) -> None:
        self.names, self.locations = names, locations
        self.lines: list[str] = []

    def operation(self, op: Operation, depth: int) -> None:
        """Append the lines of an operation."""
        head = f"{'  ' * depth}{self.results(op)}{op.name}"
        own = OWN.get(op.name)
        if own is not None:
            own(self, op, head, depth)
        else:
            self.lines.append(head)
            self._follow(op, s.steps_of(op.row), depth)
        if self.locations and op.location is not None:
            self.lines[-1] += f" loc({spelled_location(op.location)})"

    def results(self, op: Operation) -> str:
        if not op.results:
            return ""
        if len(op.results) > 1 and op.row.results[-1].any:
            return f"%{self.names[id(op.results[0])].partition('#')[0]}:{len(op.results)} = "
        return f"{', '.join(map(self.value, op.results))} = "

    def value(self, value: Value) -> str:
        return f"%{self.names[id(value)]}"

    def values(self, values: Sequence[Value]) -> str:
        return ", ".join(map(self.value, values))

    def add(self, text: str, tight: bool = False) -> None:
        self.lines[-1] += text if tight else f" {text}"

    def dictionary(self, op: Operation, word: str = "") -> str:
        return f" {word}{spelled_attribute(Dictionary(op.further))}" if op.further else ""

    def region(self, region: Region, owner: str, depth: int) -> None:
        """Append ` {`, the operations and `}`; an end that the reader would add is left out."""
        self.add("{")
        operations = region.operations
        end = implied_end(owner)
        if (
            operations
            and end is not None
            and owner not in ("entry", "testing$func")
            and operations[-1].row is end
            and not operations[-1].values
        ):
            operations = operations[:-1]
        for op in operations:
            self.operation(op, depth + 1)
        self.lines.append(f"{'  ' * depth}}}")

    def arguments(self, values: Sequence[Value]) -> str:
        return f"({', '.join(f'{self.value(v)}: {v.type}' for v in values)})"

    def _follow(self, op: Operation, steps: Sequence[s.Step], depth: int) -> None:
        for step in steps:
            match step:
                case s.Literal(text):
                    self.add(text, tight=text in ",[]=" or self.lines[-1].endswith("["))
                case s.OperandStep(_, index, _):
                    slot = op.operands[index]
                    text = self.values(slot) if isinstance(slot, tuple) else self.value(slot) if slot else ""
                    self.add(text, tight=self.lines[-1].endswith(("[", "=")))
                case s.AttrStep(index):
                    self._attribute(op.row.attributes[index], op.attributes[index])
                case s.FlagsStep(indices):
                    for index in indices:
                        if op.attributes[index]:
                            self.add(op.row.attributes[index].name)
                case s.TypeStep(name, _):
                    self.add(", ".join(map(str, self._types(op, name))))
                case s.DictStep():
                    self.lines[-1] += self.dictionary(op)
                case s.RegionStep():
                    self.lines.append(f"{'  ' * depth}{self.arguments(op.regions[0].arguments)}")
                    self.region(op.regions[0], op.name, depth)
                case s.Group(inner, operand, attribute):
                    if operand is not None:
                        present = bool(op.operand(operand))
                    else:
                        value = op.attributes[attribute or 0]
                        present = value is not None and value != op.row.attributes[attribute or 0].default
                    if present:
                        self._follow(op, inner, depth)

    def _types(self, op: Operation, name: str) -> list[Type]:
        if name in op.row.operand_index:
            return [v.type for v in flat((op.operand(name),))]
        index = next(k for k, r in enumerate(op.row.results) if r.name == name)
        values = op.results[index:] if op.row.results[index].any else op.results[index : index + 1]
        return [v.type for v in values]

    def _attribute(self, attr: Attr, value: Attribute | None) -> None:
        tight = self.lines[-1].endswith("=")
        match attr.kind, value:
            case "enum", _:
                domain = attr.domain
                assert domain is not None
                if domain.keyword or attr.default is not None:
                    if value != attr.default:
                        self.add(f"{domain.keyword}<{value}>" if domain.keyword else str(value))
                else:
                    self.add(str(value))
            case "symbol" | "reference", str():
                self.add(f"@{symbol(value)}")
            case "dense", Dense():
                self.add(f"<{value.type.element}: {spelled_dense(value)}> : {value.type}")
            case "predicate", _:
                self.add(str(value))
            case "hints", Hints():
                self.add(spelled_hints(value), tight)
            case "int32_list", tuple():
                self.add(f"[{', '.join(map(str, value))}]")
            case "bool", bool():
                self.add(str(value).lower(), tight)
            case "int32" | "int64", int():
                self.add(str(value), tight)
            case _, None:
                pass
            case _:
                self.add(spelled_attribute(value), tight)
