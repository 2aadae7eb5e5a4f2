"""The rules of whole modules: what rows say, regions, names, debug information, notes on hints and indices."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.runtime.errors import Diagnostic, Note, did_you_mean
from tensorir.tile.nodes import (
    Attribute,
    CallSite,
    Dense,
    Fused,
    Hints,
    LexicalBlock,
    Location,
    Module,
    Named,
    Number,
    Operation,
    Region,
    Scope,
    Scoped,
    Subprogram,
    Typed,
    Value,
    flat,
    operations_of,
)
from tensorir.tile.operations import Constraint
from tensorir.tile.types import Function, Pointer, Tile, Type, complaint

# What the row of an operation says of its types and attributes.

_WHAT = {"type": "one type", "shape": "one shape", "element": "one element type", "rank": "one rank"}


def trait_findings(op: Operation) -> Iterator[Diagnostic]:
    """Operands and results of another class, constraints that do not hold, attributes of other cases."""
    row = op.row
    for operand, slot in zip(row.operands, op.operands, strict=True):
        given = flat((slot,))
        if operand.count == "one" and not given:
            yield Diagnostic("TV01", f"{op.name} needs its operand '{operand.name}'.", op.span)
        for value in given:
            if not operand.types.holds(value.type):
                said = f"'{operand.name}' of {op.name} is {operand.types.noun}, and {value.type} is none."
                yield Diagnostic("TV01", said, op.span)
    for k, value in enumerate(op.results):
        result = row.results[min(k, len(row.results) - 1)]
        if not result.types.holds(value.type):
            said = f"'{result.name}' of {op.name} is {result.types.noun}, and {value.type} is none."
            yield Diagnostic("TV01", said, op.span)
    yield from _types(op)
    for constraint in row.constraints:
        if (said := _broken(op, constraint)) is not None:
            yield Diagnostic("TV02", said, op.span)
    yield from _attributes(op)


def _types(op: Operation) -> Iterator[Diagnostic]:
    """Types that are wrong in themselves, which only programs can build."""
    types = [v.type for v in op.results] + [v.type for region in op.regions for v in region.arguments]
    for type in dict.fromkeys(types):
        if (said := complaint(type)) is not None:
            yield Diagnostic("TV14", f"{said}.", op.span)


def _named(op: Operation, name: str) -> tuple[Value, ...]:
    if name in op.row.operand_index:
        return flat((op.operand(name),))
    index = next(k for k, r in enumerate(op.row.results) if r.name == name)
    return op.results[index : index + 1]


def _part(type: Type, part: str) -> object:
    if part == "type" or not isinstance(type, Tile):
        return type
    return type.shape if part == "shape" else type.element if part == "element" else len(type.shape)


def _broken(op: Operation, constraint: Constraint) -> str | None:
    values = [(name, value) for name in constraint.names for value in _named(op, name)]
    if not values:
        return None
    first, known = values[0]
    for name, value in values[1:]:
        if _part(known.type, constraint.part) != _part(value.type, constraint.part):
            both = f"'{first}' is {known.type} and '{name}' {value.type}"
            return f"'{first}' and '{name}' of {op.name} have {_WHAT[constraint.part]}, and {both}."
    return None


def _attributes(op: Operation) -> Iterator[Diagnostic]:
    for attr, value in zip(op.row.attributes, op.attributes, strict=True):
        if value is None:
            if not attr.may_be_absent:
                yield Diagnostic("TV03", f"{op.name} needs the attribute '{attr.name}'.", op.span)
        elif attr.only and value not in attr.only:
            cases = ", ".join(attr.only)
            yield Diagnostic("TV03", f"the {attr.name} of {op.name} is one of {cases}, and not {value}.", op.span)
        elif attr.least is not None and isinstance(value, int) and value < attr.least:
            yield Diagnostic(
                "TV03", f"the {attr.name} of {op.name} is at least {attr.least}, and not {value}.", op.span
            )
        elif attr.kind == "signature" and isinstance(value, Typed) and (said := complaint(value.type)) is not None:
            yield Diagnostic("TV14", f"{said}.", op.span)


# Where operations stand: what ends a region, from where a loop is left, and what is defined before its use.

_ENDS = {
    "if": ("yield", "break", "continue", "return"), "for": ("continue",), "loop": ("continue", "break"),
    "entry": ("return",), "testing$func": ("return",), "reduce": ("yield",), "scan": ("yield",),
}  # fmt: skip
_SYMBOLS = ("module", "entry", "global", "testing$func")


def region_findings(module: Module) -> Iterator[Diagnostic]:
    """Operations in wrong places; linear in the operations, and without recursion."""
    scope: set[Value] = set()
    for op in module.operations:
        if op.name not in _SYMBOLS:
            yield Diagnostic("TV09", f"{op.name} stands in a module, which holds entries and globals.", op.span)
        yield from _inside(op, scope)


def _inside(root: Operation, scope: set[Value]) -> Iterator[Diagnostic]:
    stack: list[tuple[tuple[Operation, ...], Region | None, int]] = []
    for region in reversed(root.regions):
        stack.append(((root,), region, -1))
    while stack:
        owners, region, at = stack.pop()
        if region is None:  # the regions of an operation end before its results begin
            scope.update(owners[-1].results)
            continue
        if at < 0:
            yield from _enter(owners, region, scope)
            at = 0
        if at == len(region.operations):
            scope.difference_update(region.arguments)
            for op in region.operations:
                scope.difference_update(op.results)
            continue
        op = region.operations[at]
        stack.append((owners, region, at + 1))
        yield from _placed(owners, region, op, at)
        for k, value in enumerate(op.values):
            if value not in scope:
                said = f"operand {k} of {op.name}, {value!r}, is not defined before it."
                yield Diagnostic("TV10", said, op.span)
        stack.append(((*owners, op), None, 0))
        for inner in reversed(op.regions):
            stack.append(((*owners, op), inner, -1))


def _enter(owners: tuple[Operation, ...], region: Region, scope: set[Value]) -> Iterator[Diagnostic]:
    owner = owners[-1]
    scope.update(region.arguments)
    ends = _ENDS.get(owner.name)
    if ends is None:
        return
    if owner.name == "if" and region.arguments:
        yield Diagnostic("TV09", "the branches of an if take no arguments.", owner.span)
    last = region.operations[-1] if region.operations else None
    if last is None or last.name not in ends:
        said = f"{'ends in ' + last.name if last is not None else 'is empty'}"
        yield Diagnostic(
            "TV09", f"a region of {owner.name} ends in {' or '.join(ends)}, and this {said}.", (last or owner).span
        )


def _placed(owners: tuple[Operation, ...], region: Region, op: Operation, at: int) -> Iterator[Diagnostic]:
    owner = owners[-1]
    if op.name in _SYMBOLS and owner.name != "module":
        yield Diagnostic("TV09", f"{op.name} stands in {owner.name}, and belongs directly into a module.", op.span)
    if owner.name == "module" and op.name not in _SYMBOLS:
        yield Diagnostic("TV09", f"{op.name} stands in a module, which holds entries and globals.", op.span)
    if not op.row.ends:
        return
    if at != len(region.operations) - 1:
        yield Diagnostic("TV09", f"{op.name} ends its region, and operations follow it.", op.span)
    if owner.name not in op.row.parents:
        parents = " or ".join(p for p in op.row.parents if "$" not in p)
        yield Diagnostic("TV09", f"{op.name} stands in {parents}, and here in {owner.name}.", op.span)
        return
    if op.name == "yield":
        return  # the rules of what it yields to compare its types
    target = next((o for o in reversed(owners) if o.name != "if"), owners[0])
    given = [v.type for v in op.values]
    wanted = _handed(op.name, target)
    if wanted is None:
        yield Diagnostic("TV09", f"{op.name} leaves {target.name}, which it cannot.", op.span)
    elif given != wanted:
        said = ", ".join(map(str, wanted)) or "nothing"
        yield Diagnostic(
            "TV09",
            f"{op.name} hands {said} to its {target.name}, and not {', '.join(map(str, given)) or 'nothing'}.",
            op.span,
        )


def _handed(name: str, target: Operation) -> list[Type] | None:
    """The types that an end hands to the operation that it leaves; None where it cannot leave it."""
    match name, target.name:
        case "break", "loop":
            return [v.type for v in target.results]
        case "continue", "for":
            return [v.type for v in target.results]
        case "continue", "loop":
            return [v.type for v in target.operand("initValues")]
        case "return", "entry":
            return []
        case "return", "testing$func":
            signature = target.attribute("function_type")
            assert isinstance(signature, Typed) and isinstance(signature.type, Function)
            return list(signature.type.results)
        case _:
            return None


# Names of entries and globals: each given once, and each use finds its global.

_NAMED = ("entry", "global", "testing$func", "module")


def symbol_findings(module: Module) -> Iterator[Diagnostic]:
    """Names that are given twice, and globals that are not there or hold other elements."""
    yield from _of(module.operations)


def _of(operations: tuple[Operation, ...]) -> Iterator[Diagnostic]:
    known: dict[str, Operation] = {}
    for op in operations:
        if op.name not in _NAMED:
            continue
        name = op.attribute("sym_name")
        if name is None:
            continue
        if name in known:
            yield Diagnostic(
                "TV11", f"'@{name}' is defined twice.", op.span, (Note("it is defined here.", known[name].span),)
            )
        known.setdefault(name, op)
    for op in operations:
        if op.name == "module":
            for region in op.regions:
                yield from _of(region.operations)
            continue
        for region in op.regions:
            for inner in operations_of(region):
                if inner.name == "get_global" and inner.attribute("name") is not None:
                    yield from _used(inner, known)


def _used(op: Operation, known: dict[str, Operation]) -> Iterator[Diagnostic]:
    name = op.attribute("name")
    found = known.get(name)
    if found is None or found.name != "global":
        globals_ = [n for n, o in known.items() if o.name == "global"]
        yield Diagnostic("TV11", f"there is no global '@{name}'.", op.span, (), did_you_mean(name, globals_))
        return
    element, type = found.attribute("value").type.element, op.results[0].type
    if type != Tile((), Pointer(element)):
        note = Note("the global is defined here.", found.span)
        yield Diagnostic("TV11", f"'@{name}' holds {element}, and get_global gives {type}.", op.span, (note,))


# Debug information: scopes of operations are those of their entry.


def debug_findings(module: Module) -> Iterator[Diagnostic]:
    """Scopes that belong to another function, or to none."""
    for op in module.operations:
        if op.name == "global" and _scope(op.location) is not None:
            yield Diagnostic("TV16", "the location of a global has no scope.", op.span)
        if op.name in ("entry", "testing$func"):
            yield from _of_entry(op)


def _of_entry(op: Operation) -> Iterator[Diagnostic]:
    name = op.attribute("sym_name")
    if isinstance(op.location, CallSite):
        yield Diagnostic("TV16", "the location of an entry is no call.", op.span)
        return
    own = _scope(op.location)
    if own is not None and not isinstance(own, Subprogram):
        yield Diagnostic("TV16", "the scope of an entry is a subprogram.", op.span)
        return
    if own is not None and own.linkage_name != name:
        yield Diagnostic(
            "TV16",
            f"the linkage name of the entry's scope is '{own.linkage_name}', and the entry is '{name}'.",
            op.span,
        )
    for inner in operations_of(op.regions[0]):
        scope = _subprogram(_scope(inner.location))
        if scope is not None and own is None:
            yield Diagnostic("TV16", f"{inner.name} has a scope, and its entry has none.", inner.span)
        elif scope is not None and scope != own:
            yield Diagnostic(
                "TV16", f"the scope of {inner.name} belongs to another function than its entry.", inner.span
            )


def _scope(at: Location | None) -> Scope | None:
    """The scope of a location, under its names; of a call that of the caller, of several the first that there is."""
    match at:
        case Scoped(_, scope):
            return scope
        case CallSite(_, inner) | Named(_, inner):
            return _scope(inner)
        case Fused(parts):
            return next((scope for part in parts if (scope := _scope(part)) is not None), None)
        case _:
            return None


def _subprogram(scope: Scope | None) -> Scope | None:
    while isinstance(scope, LexicalBlock):
        scope = scope.scope
    return scope


# Notes on optimization_hints: names and numbers that no architecture knows. They have no effect on results.

_ARCHITECTURES = {f"sm_{n}" for n in (80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)} | {"default"}
_KEYS = {
    "entry": ("num_cta_in_cga", "num_worker_warps_per_cta", "occupancy"),
    "load_view_tko": ("latency", "allow_tma"),
    "store_view_tko": ("latency", "allow_tma"),
    "load_ptr_tko": ("latency",),
    "store_ptr_tko": ("latency",),
}


def hint_notes(op: Operation) -> Iterator[Diagnostic]:
    """Warnings about the hints of an operation."""
    if "optimization_hints" not in op.row.attribute_index:
        return
    hints = op.attribute("optimization_hints")
    if not isinstance(hints, Hints):
        return
    for name, values in hints.entries:
        if name not in _ARCHITECTURES:
            yield _note(op, f"no architecture is called '{name}'.")
        for key, value in values.entries:
            if key not in _KEYS[op.name]:
                yield _note(op, f"{op.name} has no hint '{key}'.")
            elif (said := _wrong(name, key, value)) is not None:
                yield _note(op, f"the hint '{key}' for {name} is {said}.")


def _note(op: Operation, message: str) -> Diagnostic:
    return Diagnostic("TV15", message, op.span, severity="warning")


def _wrong(name: str, key: str, value: Attribute) -> str | None:
    if key == "allow_tma":
        return None if isinstance(value, bool) else "true or false"
    number = value.value if isinstance(value, Number) and value.element.is_integer else 0
    match key:
        case "num_cta_in_cga":
            most = 1 if name.startswith("sm_8") else 16
            return None if 0 < number <= most and not number & (number - 1) else f"a power of two up to {most}"
        case "num_worker_warps_per_cta":
            return None if 0 < number <= 32 and not number & (number - 1) else "a power of two up to 32"
        case "occupancy":
            return None if 1 <= number <= 32 else "1 to 32"
        case _:
            return None if 1 <= number <= 10 else "1 to 10"


# Notes on constant indices of extract that lead out of its tile: what that gives is undefined.


def index_notes(module: Module) -> Iterator[Diagnostic]:
    """A warning for each index that is known and too large."""
    known: dict[Value, int] = {}
    for op in operations_of(module):
        if op.name == "constant" and isinstance(value := op.attribute("value"), Dense) and value.is_splat:
            known.update((result, int.from_bytes(value.data, "little")) for result in op.results)
        if op.name != "extract":
            continue
        source, target = op.values[0].type, op.results[0].type
        if not isinstance(source, Tile) or not isinstance(target, Tile):
            continue
        for k, (index, whole, part) in enumerate(zip(op.operand("indices"), source.shape, target.shape, strict=False)):
            if known.get(index, 0) >= max(whole // part, 1):
                said = f"the index {known[index]} of dim {k} leads out of the {whole // part} slices of {source}."
                yield Diagnostic("TV17", said, op.span, severity="warning")
