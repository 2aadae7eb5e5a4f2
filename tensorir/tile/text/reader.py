"""Operations as text, in their own syntax or the generic one: names in scope, results, regions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tensorir.runtime.errors import Source, did_you_mean
from tensorir.tile.nodes import (
    Array,
    Attribute,
    Bounded,
    Dense,
    DivBy,
    Hints,
    Keyword,
    Number,
    Operation,
    Region,
    SameElements,
    Slot,
    Symbol,
    Typed,
    Unit,
    Value,
)
from tensorir.tile.operations import OTHER_NAMES, TABLE, Attr, Row
from tensorir.tile.text import steps as s
from tensorir.tile.text.cursor import Cursor, constant, read_dense
from tensorir.tile.text.locations import LocationReader
from tensorir.tile.text.types import AttributeReader, TypeReader
from tensorir.tile.types import Element, Function, Tile, Type

# The generic form of operations, `"cuda_tile.addf"(%a, %b) <{...}> : (...) -> ...`, and attributes as it has them.

_CASE = re.compile(r"#cuda_tile\.(\w+)<\s*(\w+)\s*>")


def accept_attribute(reader: Reader, attr: Attr, value: Attribute, start: int) -> Attribute | None:
    """The value of a row's attribute from one that dictionaries hold; refused where it is of another kind."""
    if attr.kind == "signature" and isinstance(value, Typed) and isinstance(value.type, Function):
        return value
    match attr.kind, value:
        case "enum", Keyword(text):
            found = _CASE.fullmatch(text)
            domain = attr.domain
            if found and domain is not None and found[1] == domain.mnemonic and found[2] in domain.cases:
                return found[2]
        case "enum", Number() if attr.domain is not None and not attr.domain.mnemonic:
            if value.element.is_integer and 0 <= value.value < len(attr.domain.cases):
                return attr.domain.cases[int(value.value)]
        case "flag", Unit():
            return True
        case "int32" | "int64", Number() if value.element.name == ("i32" if attr.kind == "int32" else "i64"):
            if attr.least is None or value.value >= attr.least:
                return value.value
        case "bool", bool():
            return value
        case "string" | "symbol", str():
            return value
        case "reference", Symbol(name):
            return name
        case "dense", Dense():
            return value
        case "int32_list", tuple():
            return value
        case "numbers" | "dictionaries", Array():
            return value
        case "predicate", DivBy() | SameElements() | Bounded():
            return value
        case "hints", Hints():
            return value
        case _:
            pass
    what = "a case of its own" if attr.kind == "enum" else f"a value of kind '{attr.kind}'"
    reader.c.fail("TM36", f"the attribute '{attr.name}' needs {what}, and has another.", "", start, start + 1)


def generic_operation(reader: Reader, row: Row, start: int, names: list[tuple[str, int, int]]) -> Operation:
    """An operation in the generic form, after its quoted name."""
    c = reader.c
    c.expect("(")
    places: list[int] = []
    given: list[Value] = []
    for _ in c.items(")"):
        places.append(c.pos)
        given.append(reader.value())
    entries: dict[str, Attribute] = {}
    before = c.pos
    if c.accept("<"):
        entries.update(reader.attributes.dictionary().entries)
        c.expect(">")
    regions: list[Region] = []
    if c.accept("("):
        for _ in c.items(")"):
            regions.append(reader.region(""))
    if c.text.startswith("{", c.pos):
        entries.update(reader.attributes.dictionary().entries)
    c.expect(":")
    type_place = c.pos
    signature = reader.types.function()
    if len(signature.params) != len(given):
        c.wrong("TM45", f"{len(given)} operands have {len(signature.params)} types here.", type_place)
    for place, value, type in zip(places, given, signature.params, strict=True):
        if value.type != type:
            span = c.span_of_token(place)
            c.fail("TM40", f"'{span.text}' is of type {value.type}, and {type} is needed here.", "", place, span.stop)
    sizes = entries.pop("operandSegmentSizes", None)
    operands = _slots(reader, row, given, sizes, start)
    attributes: list[Attribute | None] = [a.default for a in row.attributes]
    further: list[tuple[str, Attribute]] = []
    for name, value in sorted(entries.items()):
        index = row.attribute_index.get(name)
        if index is None:
            further.append((name, value))
        elif row.attributes[index].kind != "dictionaries":  # attributes of arguments say nothing, and are not kept
            attributes[index] = accept_attribute(reader, row.attributes[index], value, before)
    span = c.span(start)
    for attr, value in zip(row.attributes, attributes, strict=True):
        if value is None and not attr.may_be_absent:
            c.fail("TM46", f"{row.name} needs the attribute '{attr.name}'.", "", start, span.stop)
    _counts(reader, row, regions, signature.results, start)
    labels = [name if count == 1 else "" for name, count, _ in names for _ in range(count)]
    labels = labels if len(labels) == len(signature.results) else [""] * len(signature.results)
    results = tuple(Value(t, n) for t, n in zip(signature.results, labels, strict=True))
    if row.name == "if" and len(regions) == 2 and not regions[1].operations:
        regions.pop()
    location = reader.locations.trailing()
    return Operation(row, operands, tuple(attributes), results, tuple(regions), tuple(further), span, location)


def _slots(reader: Reader, row: Row, given: list[Value], sizes: Attribute | None, start: int) -> tuple[Slot, ...]:
    """The operands, divided among the slots of the row."""
    loose = [k for k, o in enumerate(row.operands) if o.count != "one"]
    fixed = len(row.operands) - len(loose)
    if isinstance(sizes, tuple):
        counts = list(sizes)
    elif len(loose) <= 1:
        counts = [1 if o.count == "one" else len(given) - fixed for o in row.operands]
    elif len(given) == fixed:
        counts = [1 if o.count == "one" else 0 for o in row.operands]
    else:
        reader.c.fail("TM46", f"{row.name} needs the attribute 'operandSegmentSizes'.", "", start)
    fits = len(counts) == len(row.operands) and sum(counts) == len(given) and all(
        count == 1 if o.count == "one" else count in (0, 1) if o.count == "optional" else count >= 0
        for count, o in zip(counts, row.operands, strict=False)
    )  # fmt: skip
    if not fits:
        needed = f"{fixed} operand{'s' * (fixed != 1)}" if not loose else f"at least {fixed}"
        reader.c.wrong("TM45", f"{row.name} takes {needed}, and {len(given)} do not fit.", start)
    slots: list[Slot] = []
    place = 0
    for operand, count in zip(row.operands, counts, strict=True):
        part = tuple(given[place : place + count])
        slots.append(part if operand.count == "any" else part[0] if part else None)
        place += count
    return tuple(slots)


def _counts(reader: Reader, row: Row, regions: list[Region], results: tuple[Type, ...], start: int) -> None:
    c = reader.c
    optional = 1 if row.name == "if" else 0
    if not len(row.regions) - optional <= len(regions) <= len(row.regions):
        c.wrong("TM48", f"{row.name} has {len(row.regions)} region(s), and here are {len(regions)}.", start)
    if not any(r.any for r in row.results) and len(results) != len(row.results):
        c.wrong("TM44", f"{row.name} has {len(row.results)} result(s), and {len(results)} types are given.", start)


# Operations as text: the names in scope, results, regions, and the syntax of the table's rows.
#
# The reader works on the characters themselves, front to back, and makes each node as soon as its text ends: MLIR's
# assembly needs no look-ahead beyond a token, and 50,000 operations take about two seconds.

MAX_NESTING = 100
"""How deeply regions nest."""

_ENDS = {"entry": "return", "testing$func": "return", "if": "yield", "for": "continue", "loop": "continue"}


class Filling:
    """The parts of one operation's text that have been read."""

    __slots__ = ("attributes", "further", "operands", "places", "regions", "row", "types")

    def __init__(self, row: Row) -> None:
        self.row: Row = row
        self.operands: list[Slot] = [() if o.count == "any" else None for o in row.operands]
        self.attributes: list[Attribute | None] = [a.default for a in row.attributes]
        self.types: dict[str, list[Type]] = {}
        self.places: list[int] = []
        self.further: tuple[tuple[str, Attribute], ...] = ()
        self.regions: list[Region] = []


class Reader:
    """The text of a module, with the names, aliases and locations it has defined.

    `own` reads the operations that have a syntax of their own, by name.
    """

    def __init__(self, source: Source, own: Mapping[str, Callable[[Reader, Filling], None]]) -> None:
        self.own = own
        self.c: Cursor = Cursor(source)
        self.types: TypeReader = TypeReader(self.c)
        self.attributes: AttributeReader = AttributeReader(self.c, self.types)
        self.locations: LocationReader = LocationReader(self.c, self.attributes)
        self.scope: dict[str, tuple[Value, ...]] = {}
        self.defined: list[list[str]] = [[]]

    # names

    def define(self, name: str, values: tuple[Value, ...], start: int) -> None:
        """A name in this scope; one name is given once."""
        if name in self.scope:
            self.c.fail(
                "TM42", f"'%{name}' is defined already.", "give this value another name.", start, start + 1 + len(name)
            )
        self.scope[name] = values
        self.defined[-1].append(name)

    def value(self) -> Value:
        """The value that a name stands for; of several results without a number it is the first."""
        c = self.c
        start = c.pos
        name = c.value_name("a value ('%name') is expected")
        values = self.scope.get(name)
        if values is None:
            near = did_you_mean(f"%{name}", [f"%{n}" for n in self.scope])
            c.fail("TM41", f"'%{name}' is not defined before this.", near, start, start + 1 + len(name))
        if c.text.startswith("#", c.pos):
            c.pos += 1
            number = c.integer("the number of a result")
            if not 0 <= number < len(values):
                c.wrong("TM41", f"'%{name}' is {len(values)} values, and has no #{number}.", start)
            return values[number]
        return values[0]

    # operations

    def operation(self) -> Operation:
        """One operation with its results, its regions and its location."""
        c = self.c
        start = c.pos
        names: list[tuple[str, int, int]] = []
        while c.text.startswith("%", c.pos):
            place = c.pos
            name = c.value_name("the name of a result is expected")
            count = c.integer("the number of results") if c.accept(":") else 1
            if not 0 < count <= 65536:
                c.wrong("TM44", "a name stands for 1 to 65536 results.", place)
            names.append((name, count, place))
            if not c.accept(","):
                c.expect("=", where="after the names of results")
                break
        begin = c.pos
        if c.text.startswith('"', c.pos):
            op = generic_operation(self, self.row_of(c.string() or "", begin), start, names)
        else:
            row = self.row_of(c.word(), begin)
            op = self.custom(row, start, names)
        self._name(op, names, start)
        return op

    def row_of(self, name: str | None, start: int) -> Row:
        c = self.c
        if name is None:
            c.missing("an operation is expected", "TM43")
        short = name.removeprefix("cuda_tile.")
        row = TABLE.get(OTHER_NAMES.get(short, short))
        if row is None:
            known = did_you_mean(short, TABLE)
            c.fail("TM43", f"there is no operation '{name[:60]}'.", known, start, max(c.span(start).stop, start + 1))
        return row

    def _name(self, op: Operation, names: list[tuple[str, int, int]], start: int) -> None:
        if not names:
            return
        given = sum(count for _, count, _ in names)
        if given != len(op.results):
            what = f"{op.name} has {len(op.results)} result{'s' * (len(op.results) != 1)}, and {given} are named."
            self.c.fail("TM44", what, "", names[0][2], names[-1][2] + 1 + len(names[-1][0]))
        place = 0
        for name, count, where in names:
            self.define(name, op.results[place : place + count], where)
            place += count

    def custom(self, row: Row, start: int, names: list[tuple[str, int, int]]) -> Operation:
        """An operation in its own syntax, after its name."""
        filling = Filling(row)
        if row.name in self.own:
            self.own[row.name](self, filling)
        else:
            self.follow(s.steps_of(row), filling)
        return self.finish(filling, start, names)

    def finish(self, filling: Filling, start: int, names: list[tuple[str, int, int]]) -> Operation:
        """The node, once its types agree."""
        row = filling.row
        results = self._typed(filling)
        labels = [f"{name}" if count == 1 else "" for name, count, _ in names for _ in range(count)]
        if len(labels) != len(results):
            labels = [""] * len(results)
        span = self.c.span(start)
        location = self.locations.trailing()
        for attr, value in zip(row.attributes, filling.attributes, strict=True):
            if value is None and not attr.may_be_absent:
                self.c.fail("TM46", f"{row.name} needs the attribute '{attr.name}'.", "", start, span.stop)
        return Operation(
            row, tuple(filling.operands), tuple(filling.attributes),
            tuple(Value(t, n) for t, n in zip(results, labels, strict=True)), tuple(filling.regions), filling.further,
            span, location,
        )  # fmt: skip

    def _typed(self, filling: Filling) -> list[Type]:
        """The types of results; operands must have the types that the text and the row say."""
        row, types = filling.row, filling.types
        for group in row.constraints:
            if group.part == "type":
                known = next((types[n] for n in group.names if n in types), None)
                if known is not None:
                    for name in group.names:
                        types.setdefault(name, known)
        place = 0
        for operand, slot in zip(row.operands, filling.operands, strict=True):
            given: Sequence[Value] = slot if isinstance(slot, tuple) else () if slot is None else (slot,)
            needed = types.get(operand.name)
            if needed is None and operand.types.only is not None:
                needed = [operand.types.only] * len(given)
            if needed is not None:
                if len(needed) != len(given):
                    self.c.fail(
                        "TM45", f"{row.name} has {len(given)} values here, and {len(needed)} types.", "",
                        filling.places[place] if place < len(filling.places) else self.c.pos,
                    )  # fmt: skip
                for k, (value, type) in enumerate(zip(given, needed, strict=True)):
                    if value.type != type:
                        self._mismatch(filling, place + k, value, type)
            place += len(given)
        results: list[Type] = []
        for result in row.results:
            found = types.get(result.name)
            if found is None:
                assert result.types.only is not None, (row.name, result.name)
                found = [result.types.only]
            results += found
        return results

    def _mismatch(self, filling: Filling, place: int, value: Value, type: Type) -> None:
        where = filling.places[place] if place < len(filling.places) else self.c.pos
        span = self.c.span_of_token(where)
        self.c.fail("TM40", f"'{span.text}' is of type {value.type}, and {type} is needed here.", "", where, span.stop)

    # the syntax of rows

    def follow(self, steps: Sequence[s.Step], filling: Filling) -> None:
        """Read what the steps of a syntax say."""
        c = self.c
        for step in steps:
            match step:
                case s.Literal(text):
                    if not c.accept(text):
                        c.expect(text, where=f"in {filling.row.name}")
                case s.OperandStep(_, index, any):
                    self._operands(filling, index, any)
                case s.TypeStep(name, any):
                    start = c.pos
                    filling.types[name] = self.types.list() if any else [self.types.read()]
                    self._check_class(filling, name, start)
                case s.AttrStep(index):
                    filling.attributes[index] = self.attribute(filling.row.attributes[index], filling)
                case s.FlagsStep(indices):
                    self._flags(filling, indices)
                case s.DictStep():
                    self.accept_dictionary(filling)
                case s.RegionStep():
                    filling.regions.append(self.argument_region(filling.row.name))
                case s.Group():
                    if self._present(step, filling):
                        self.follow(step.steps, filling)

    def _check_class(self, filling: Filling, name: str, start: int) -> None:
        row = filling.row
        parts = [o.types for o in row.operands if o.name == name] + [r.types for r in row.results if r.name == name]
        for type in filling.types[name]:
            if not parts[0].holds(type):
                self.c.wrong("TM47", f"{row.name} takes {parts[0].noun} here, and {type} is none.", start)

    def _operands(self, filling: Filling, index: int, any: bool) -> None:
        c = self.c
        if not any:
            filling.places.append(c.pos)
            filling.operands[index] = self.value()
            return
        found: list[Value] = []
        while c.text.startswith("%", c.pos):
            filling.places.append(c.pos)
            found.append(self.value())
            if not c.accept(","):
                break
        filling.operands[index] = tuple(found)

    def _flags(self, filling: Filling, indices: tuple[int, ...]) -> None:
        attributes = filling.row.attributes
        for _ in indices:
            for index in indices:
                if not filling.attributes[index] and self.c.accept(attributes[index].name):
                    filling.attributes[index] = True

    def _present(self, group: s.Group, filling: Filling) -> bool:
        c = self.c
        first = group.steps[0]
        if group.operand is not None:
            if isinstance(group.steps[-1], s.TypeStep) and not any(isinstance(x, s.OperandStep) for x in group.steps):
                return bool(filling.operands[filling.row.operand_index[group.operand]])
            if isinstance(first, s.Literal):
                return c.peek(first.text)
            return c.peek("%")
        assert group.attribute is not None
        if isinstance(first, s.Literal):
            return c.peek(first.text)
        domain = filling.row.attributes[group.attribute].domain
        return domain is not None and c.peek_word() in domain.cases

    def attribute(self, attr: Attr, filling: Filling) -> Attribute | None:
        """An attribute in the place that the syntax gives it."""
        c = self.c
        start = c.pos
        match attr.kind:
            case "enum":
                return self._case(attr)
            case "int32" | "int64":
                return self._bounded(attr, c.integer(f"the {attr.name}"), start)
            case "bool":
                word = c.keyword("true or false")
                if word not in ("true", "false"):
                    c.fail(
                        "TM01", f"true or false is expected, and here stands '{word}'.", "", start, start + len(word)
                    )
                return word == "true"
            case "string":
                text = c.string()
                if text is None:
                    c.missing("a string is expected")
                return text
            case "symbol" | "reference":
                return c.symbol()
            case "dense":
                return self._constant(filling)
            case "hints":
                return self.attributes.hints()
            case "predicate":
                return self.attributes.predicate()
            case "int32_list":
                return self.attributes.integers(32)
            case _:
                return accept_attribute(self, attr, self.attributes.read(), start)

    def _bounded(self, attr: Attr, number: int, start: int) -> int:
        low = attr.least if attr.least is not None else -(1 << 63)
        high = (1 << 31 if attr.kind == "int32" else 1 << 63) - 1
        if not low <= number <= high:
            self.c.wrong("TM21", f"'{attr.name}' is {low} to {high}, and {number} is not.", start)
        return number

    def _case(self, attr: Attr) -> str | None:
        c, domain = self.c, attr.domain
        assert domain is not None
        if domain.keyword:
            if not c.accept(domain.keyword):
                return attr.default if isinstance(attr.default, str) else None
            c.expect("<")
        elif attr.default is not None and c.peek_word() not in domain.cases:
            return str(attr.default)
        start = c.pos
        word = c.keyword(f"a {domain.noun}")
        if word not in domain.cases:
            cases = attr.only or domain.cases
            c.fail(
                "TM35",
                f"there is no {domain.noun} '{word}'.",
                f"it is one of {', '.join(cases)}.",
                start,
                start + len(word),
            )
        if domain.keyword:
            c.expect(">")
        return word

    def _constant(self, filling: Filling) -> Dense:
        """`<f32: [1.0, 2.0]> : tile<2xf32>`."""
        c = self.c
        c.expect("<")
        start = c.pos
        element = self.types.read()
        if not isinstance(element, Element) or element.name == "i4":
            c.wrong("TM14", f"the elements of a constant are numbers, and {element} is none.", start)
        c.expect(":")
        start = c.pos
        shape, data = read_dense(c, element)
        c.expect(">", ":")
        place = c.pos
        type = self.types.read()
        if not isinstance(type, Tile) or type.element != element:
            c.wrong("TM14", f"a constant of {element} is a tile of {element}, and {type} is none.", place)
        if filling.row.results:
            filling.types["result"] = [type]
        return constant(c, type, shape, data, start)

    def dictionary(self, filling: Filling) -> None:
        """`{...}`: attributes of the row, and others, which are kept."""
        start = self.c.pos
        further: list[tuple[str, Attribute]] = []
        for name, value in self.attributes.dictionary().entries:
            index = filling.row.attribute_index.get(name)
            if index is None:
                further.append((name, value))
            else:
                filling.attributes[index] = accept_attribute(self, filling.row.attributes[index], value, start)
        filling.further = tuple(further)

    def accept_dictionary(self, filling: Filling) -> None:
        if self.c.text.startswith("{", self.c.pos):
            self.dictionary(filling)

    # regions

    def region(self, owner: str, arguments: Sequence[tuple[str, Type, int]] = ()) -> Region:
        """`{ operations }`, with the arguments that the operation's syntax names; an end that is left out is added."""
        c = self.c
        start = c.pos
        if len(self.defined) > MAX_NESTING:
            c.fail("TM02", f"regions nest at most {MAX_NESTING} deep.")
        c.expect("{")
        self.defined.append([])
        values = tuple(Value(type, name) for name, type, _ in arguments)
        for value, (name, _, place) in zip(values, arguments, strict=True):
            if name:
                self.define(name, (value,), place)
        if c.text.startswith("^", c.pos):
            values += self._label()
        operations: list[Operation] = []
        while not c.accept("}"):
            if c.pos >= len(c.text):
                c.fail("TM01", f"'}}' is expected at the end of this region of {owner}.", "", start, start + 1)
            if c.text.startswith("^", c.pos):
                c.fail("TM48", f"a region of {owner} has one block, and here a second begins.")
            operations.append(self.operation())
        for name in self.defined.pop():
            del self.scope[name]
        end = implied_end(owner)
        if end is not None and (not operations or not operations[-1].row.ends):
            operations.append(Operation(end, ((),), span=c.span(start)))
        return Region(values, tuple(operations), c.span(start))

    def _label(self) -> tuple[Value, ...]:
        """`^bb0(%a: T, ...):`."""
        c = self.c
        c.expect("^")
        c.word()
        values: list[Value] = []
        if c.accept("("):
            for _ in c.items(")"):
                name, type, place = self.argument()
                values.append(Value(type, name))
                self.define(name, (values[-1],), place)
                self.locations.trailing()
        c.expect(":")
        return tuple(values)

    def argument(self) -> tuple[str, Type, int]:
        """`%name: type`."""
        c = self.c
        place = c.pos
        name = c.value_name("an argument ('%name: type') is expected")
        c.expect(":")
        return name, self.types.read(), place

    def argument_region(self, owner: str) -> Region:
        """`(%a: T, ...) { operations }`."""
        c = self.c
        c.expect("(", where=f"before the arguments of the body of {owner}")
        arguments: list[tuple[str, Type, int]] = []
        for _ in c.items(")"):
            arguments.append(self.argument())
            self.locations.trailing()
        return self.region(owner, arguments)


def implied_end(owner: str) -> Row | None:
    """The operation that ends a region where the text leaves it out."""
    return TABLE[_ENDS[owner]] if owner in _ENDS else None
