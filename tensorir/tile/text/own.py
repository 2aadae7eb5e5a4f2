"""Operations with a syntax of their own, read: entries, branches, loops, views and what goes through them."""

from __future__ import annotations

from collections.abc import Callable

from tensorir.tile.nodes import Typed, Value
from tensorir.tile.text.reader import Filling, Reader
from tensorir.tile.types import BOOL, Function, TensorView, Tile, Token, Type


def _entry(r: Reader, f: Filling) -> None:
    """`entry @name(%a: T, ...) [-> T] [optimization_hints=<...>] { body } [attributes]`."""
    c = r.c
    f.attributes[f.row.attribute_index["sym_name"]] = c.symbol()
    c.expect("(")
    arguments: list[tuple[str, Type, int]] = []
    named: bool | None = None
    for _ in c.items(")"):
        place = c.pos
        has_name = c.peek("%")
        if named is not None and named != has_name:
            c.fail("TM01", "either all arguments have names, or none.", "", place, place + 1)
        named = has_name
        arguments.append(r.argument() if has_name else ("", r.types.read(), place))
        if c.peek("{"):
            r.attributes.dictionary()  # attributes of arguments say nothing, and are not kept
        r.locations.trailing()
    results: list[Type] = []
    if c.accept("->"):
        if c.accept("("):
            for _ in c.items(")"):
                results.append(r.types.read())
                if c.peek("{"):
                    r.attributes.dictionary()
        else:
            results = [r.types.read()]
    signature = Function(tuple(t for _, t, _ in arguments), tuple(results))
    f.attributes[f.row.attribute_index["function_type"]] = Typed(signature)
    if f.row.name == "entry" and c.accept("optimization_hints"):
        c.expect("=")
        f.attributes[f.row.attribute_index["optimization_hints"]] = r.attributes.hints()
    if c.accept("attributes"):
        r.dictionary(f)
    outer, r.scope = r.scope, {}
    f.regions.append(r.region(f.row.name, arguments))
    r.scope = outer
    r.accept_dictionary(f)


def _module(r: Reader, f: Filling) -> None:
    """`module @name [attributes {...}] { body }`."""
    c = r.c
    f.attributes[0] = c.symbol()
    if c.accept("attributes"):
        r.dictionary(f)
    outer, r.scope = r.scope, {}
    f.regions.append(r.region("module"))
    r.scope = outer


def _if(r: Reader, f: Filling) -> None:
    """`if %c [-> (T, ...)] { ... } [else { ... }] [attributes]`."""
    c = r.c
    _operand(r, f, "condition", Tile((), BOOL))
    f.types["results"] = []
    if c.accept("->"):
        c.expect("(")
        f.types["results"] = r.types.list()
        c.expect(")")
    f.regions.append(r.region("if"))
    if c.accept("else"):
        f.regions.append(r.region("if"))
    r.accept_dictionary(f)


def _for(r: Reader, f: Filling) -> None:
    """`for [unsigned] %i in (V to V, step V) : T [iter_values(%a = V, ...) -> (T, ...)] { ... } [attributes]`."""
    c = r.c
    if c.accept("unsigned"):
        f.attributes[0] = True
    place = c.pos
    name = c.value_name("the name of the loop's variable is expected")
    c.expect("in", "(")
    for operand, after in (("lowerBound", "to"), ("upperBound", ","), ("step", ")")):
        _operand(r, f, operand)
        if after == ",":
            c.expect(",", "step")
        else:
            c.expect(after)
    c.expect(":")
    type = r.types.read()
    for operand in ("lowerBound", "upperBound", "step"):
        f.types[operand] = [type]
    names, places = _carried(r, f)
    types: list[Type] = []
    if names:
        c.expect("->")
        types = r.types.parenthesised()
    f.types["initValues"] = f.types["resultValues"] = types
    _same_count(r, names, types, place)
    carried = [(n, t, p) for n, t, p in zip(names, types, places, strict=True)]
    f.regions.append(r.region("for", [(name, type, place), *carried]))
    r.accept_dictionary(f)


def _loop(r: Reader, f: Filling) -> None:
    """`loop [iter_values(%a = V, ...) : T, ... [-> T, ...]] { ... }`, or `loop [: T, ...] { ... }`."""
    c = r.c
    place = c.pos
    names, places = _carried(r, f)
    f.types["initValues"] = f.types["resultValues"] = []
    if names:
        c.expect(":")
        f.types["initValues"] = r.types.list()
        if c.accept("->"):
            f.types["resultValues"] = r.types.parenthesised() if c.peek("(") else r.types.list()
    elif c.accept(":"):
        f.types["resultValues"] = r.types.list()
    types = f.types["initValues"]
    _same_count(r, names, types, place)
    f.regions.append(r.region("loop", list(zip(names, types, places, strict=True))))
    r.accept_dictionary(f)


def _carried(r: Reader, f: Filling) -> tuple[list[str], list[int]]:
    c = r.c
    names: list[str] = []
    places: list[int] = []
    values: list[Value] = []
    if c.accept("iter_values"):
        c.expect("(")
        for _ in c.items(")"):
            places.append(c.pos)
            name = c.value_name("the name of a carried value is expected")
            names.append(name)
            c.expect("=")
            f.places.append(c.pos)
            values.append(r.value())
    f.operands[f.row.operand_index["initValues"]] = tuple(values)
    return names, places


def _same_count(r: Reader, names: list[str], types: list[Type], place: int) -> None:
    if len(names) != len(types):
        r.c.fail("TM45", f"{len(names)} values are carried, and {len(types)} types are given.", "", place)


def _operand(r: Reader, f: Filling, name: str, type: Type | None = None) -> None:
    f.places.append(r.c.pos)
    f.operands[f.row.operand_index[name]] = r.value()
    if type is not None:
        f.types[name] = [type]


def _make_tensor_view(r: Reader, f: Filling) -> None:
    """`make_tensor_view V, shape = [INT|V, ...], strides = [INT|V, ...] [attributes] : [T ->] tensor_view<...>`."""
    c = r.c
    _operand(r, f, "base")
    written: dict[str, list[int | Value]] = {}
    for word, operand in (("shape", "dynamicShape"), ("strides", "dynamicStrides")):
        if not c.accept(",") and word == "shape":
            break
        c.expect(word)
        c.expect("=", "[")
        items: list[int | Value] = []
        for _ in c.items("]"):
            if c.peek("%"):
                f.places.append(c.pos)
                items.append(r.value())
            else:
                items.append(c.integer("an extent, or a value"))
        written[word] = items
        f.operands[f.row.operand_index[operand]] = tuple(x for x in items if isinstance(x, Value))
    r.accept_dictionary(f)
    c.expect(":")
    dynamic = [x for items in written.values() for x in items if isinstance(x, Value)]
    type: Type | None = None
    start = c.pos
    first = r.types.read()
    if c.accept("->"):
        type = first
        start = c.pos
        first = r.types.read()
    if not isinstance(first, TensorView):
        c.wrong("TM47", f"make_tensor_view gives a tensor_view, and {first} is none.", start)
    if (type is None) == bool(dynamic):
        said = (
            "the type of its dynamic extents and strides stands before '->'"
            if dynamic
            else "without dynamic extents no type stands before '->'"
        )
        c.wrong("TM45", f"make_tensor_view: {said}.", start)
    for word, expected in (("shape", first.shape), ("strides", first.strides)):
        _agree(r, word, written.get(word, []), expected, start)
    if type is not None:
        f.types["dynamicShape"] = [type] * len(f.operands[1] or ())  # type: ignore[arg-type]
        f.types["dynamicStrides"] = [type] * len(f.operands[2] or ())  # type: ignore[arg-type]
    f.types["result"] = [first]


def _agree(r: Reader, word: str, items: list[int | Value], expected: tuple[int | None, ...], start: int) -> None:
    c = r.c
    stop = c.span(start).stop
    if len(items) != len(expected):
        c.fail("TM45", f"the {word} has {len(items)} numbers, and its type has {len(expected)}.", "", start, stop)
    for item, static in zip(items, expected, strict=True):
        if isinstance(item, Value) != (static is None) or (isinstance(item, int) and item != static):
            said = "a value" if isinstance(item, Value) else item
            known = "'?'" if static is None else static
            c.fail("TM45", f"the {word} has {said} where its type has {known}.", "", start, stop)


def _make_view(r: Reader, f: Filling) -> None:
    """`make_partition_view V [attributes] : partition_view<...>`."""
    c = r.c
    _operand(r, f, "tensor_view")
    r.accept_dictionary(f)
    c.expect(":")
    start = c.pos
    type = r.types.read()
    if not f.row.results[0].types.holds(type):
        c.wrong("TM47", f"{f.row.name} gives {f.row.results[0].types.noun}, and {type} is none.", start)
    f.types["result"] = [type]
    f.types["tensor_view"] = [type.tensor]  # type: ignore[union-attr]


def _shape_of(r: Reader, f: Filling) -> None:
    """`get_tensor_shape V : T -> T`: one type, for as many results as dims."""
    c = r.c
    _operand(r, f, "src")
    r.accept_dictionary(f)
    c.expect(":")
    start = c.pos
    type = r.types.read()
    if not f.row.operands[0].types.holds(type):
        c.wrong("TM47", f"{f.row.name} takes {f.row.operands[0].types.noun}, and {type} is none.", start)
    f.types["src"] = [type]
    c.expect("->")
    rank = len(type.shape) if isinstance(type, TensorView) else len(type.tile)  # type: ignore[union-attr]
    f.types["result"] = [r.types.read()] * rank


def _ordering(r: Reader, f: Filling) -> None:
    attributes = f.row.attributes
    for index, attr in enumerate(attributes[:2]):
        domain = attr.domain
        assert domain is not None
        if not attr.optional or r.c.peek_word() in domain.cases:
            f.attributes[index] = r.attribute(attr, f)


def _index(r: Reader, f: Filling) -> None:
    c = r.c
    c.expect("[")
    values: list[Value] = []
    for _ in c.items("]"):
        f.places.append(c.pos)
        values.append(r.value())
    f.operands[f.row.operand_index["index"]] = tuple(values)


def _rest(r: Reader, f: Filling) -> None:
    """`[token = V] [optimization_hints = <...>] [attributes {...}] :`."""
    c = r.c
    if c.accept("token"):
        c.expect("=")
        _operand(r, f, "token", Token())
    if c.accept("optimization_hints"):
        c.expect("=")
        f.attributes[f.row.attribute_index["optimization_hints"]] = r.attributes.hints()
    if c.accept("attributes") or c.peek("{"):
        r.dictionary(f)
    c.expect(":")


def _view_and_index(r: Reader, f: Filling) -> None:
    """`VIEW[, T for all indices, or one for each]`, up to the arrow."""
    c = r.c
    start = c.pos
    f.types["view"] = [r.types.read()]
    if not f.row.operands[f.row.operand_index["view"]].types.holds(f.types["view"][0]):
        noun = f.row.operands[f.row.operand_index["view"]].types.noun
        c.wrong("TM47", f"{f.row.name} takes {noun}, and {f.types['view'][0]} is none.", start)
    types: list[Type] = []
    while c.accept(","):
        types.append(r.types.read())
    slot = f.operands[f.row.operand_index["index"]]
    assert isinstance(slot, tuple)
    if len(types) == 1 and len(slot) > 1:
        types *= len(slot)
    f.types["index"] = types
    c.expect("->")


def _load_view(r: Reader, f: Filling) -> None:
    _ordering(r, f)
    _operand(r, f, "view")
    _index(r, f)
    _rest(r, f)
    _view_and_index(r, f)
    f.types["tile"] = [r.types.read()]
    r.c.expect(",")
    f.types["result_token"] = [r.types.read()]


def _store_view(r: Reader, f: Filling) -> None:
    _ordering(r, f)
    _operand(r, f, "tile")
    r.c.expect(",")
    _operand(r, f, "view")
    _index(r, f)
    _rest(r, f)
    f.types["tile"] = [r.types.read()]
    r.c.expect(",")
    _view_and_index(r, f)
    f.types["result_token"] = [r.types.read()]


def _reduce_view(r: Reader, f: Filling) -> None:
    c = r.c
    _ordering(r, f)
    _operand(r, f, "view")
    _index(r, f)
    c.expect(",")
    f.attributes[2] = r.attribute(f.row.attributes[2], f)
    c.expect(",")
    _operand(r, f, "value")
    _rest(r, f)
    f.types["value"] = [r.types.read()]
    c.expect(",")
    _view_and_index(r, f)
    f.types["result_token"] = [r.types.read()]


OWN: dict[str, Callable[[Reader, Filling], None]] = {
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
