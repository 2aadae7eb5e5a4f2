"""The rules of single operations: widths, roundings, shapes, products, folds, loops, memory, views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tensorir.tile.interpret.machine import items_of
from tensorir.tile.nodes import Bounded, DivBy, Number, Operation, SameElements, Typed, Value
from tensorir.tile.types import Element, Function, GatherScatterView, Pointer, TensorView, Tile, TileView, Type

# Which roundings and flushes an operation on floats has, by its element type.

_IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")


@dataclass(frozen=True, slots=True)
class Modes:
    """Roundings for every element type, further ones for f32, and whether f32 may flush to zero."""

    every: tuple[str, ...] = ()
    f32: tuple[str, ...] = ()
    flush: bool = False


MODES = {
    **dict.fromkeys(("addf", "subf", "mulf", "fma"), Modes(_IEEE, (), True)),
    "divf": Modes(_IEEE, ("approx", "full"), True),
    "sqrt": Modes(_IEEE, ("approx",), True),
    **dict.fromkeys(("rsqrt", "exp2", "maxf", "minf"), Modes((), (), True)),
    **dict.fromkeys(("exp", "tanh"), Modes(("full",), ("approx",))),
}


def _element(op: Operation) -> Any:
    type = op.results[0].type
    assert isinstance(type, Tile)
    return type.element


def _rule(modes: Modes) -> Callable[[Operation], Iterator[tuple[str, str]]]:
    def check(op: Operation) -> Iterator[tuple[str, str]]:
        element = _element(op)
        mode = op.attribute("rounding_mode") if "rounding_mode" in op.row.attribute_index else None
        flushes = "flush_to_zero" in op.row.attribute_index and bool(op.attribute("flush_to_zero"))
        if mode is not None:
            allowed = modes.every + (modes.f32 if element.name == "f32" else ())
            if mode not in (*modes.every, *modes.f32):
                yield "TV04", f"{op.name} has no rounding {mode}."
            elif mode not in allowed:
                yield "TV04", f"{op.name} rounds {mode} for f32 only, and not for {element}."
            elif mode in ("approx", "full") and flushes and op.name not in ("divf", "sqrt"):
                yield "TV04", f"{op.name} with rounding {mode} does not flush to zero."
        if flushes and element.name != "f32":
            yield "TV04", f"{op.name} flushes to zero for f32 only, and not for {element}."

    return check


def _ftof(op: Operation) -> Iterator[tuple[str, str]]:
    source, target, mode = op.operands[0], _element(op), op.attribute("rounding_mode")
    if source is not None and not isinstance(source, tuple) and source.type == op.results[0].type:
        yield "TV05", f"ftof gives another type than {target}."
    allowed = ("zero", "positive_inf") if target.name == "f8E8M0FNU" else ("nearest_even",)
    if mode not in allowed:
        yield "TV04", f"ftof to {target} rounds {' or '.join(allowed)}, and not {mode}."


def _itof(op: Operation) -> Iterator[tuple[str, str]]:
    if _element(op).name == "f8E8M0FNU":
        yield "TV05", "itof gives no f8E8M0FNU."
    if op.attribute("rounding_mode") != "nearest_even":
        yield "TV04", f"itof rounds nearest_even, and not {op.attribute('rounding_mode')}."


def _ftoi(op: Operation) -> Iterator[tuple[str, str]]:
    if op.attribute("rounding_mode") != "nearest_int_to_zero":
        yield "TV04", f"ftoi rounds nearest_int_to_zero, and not {op.attribute('rounding_mode')}."


def _divi(op: Operation) -> Iterator[tuple[str, str]]:
    mode = op.attribute("rounding")
    if mode not in ("zero", "positive_inf", "negative_inf"):
        yield "TV04", f"divi rounds zero, positive_inf or negative_inf, and not {mode}."
    elif mode == "negative_inf" and op.attribute("signedness") == "unsigned":
        yield "TV04", "divi rounds negative_inf for signed numbers only."


def _negi(op: Operation) -> Iterator[tuple[str, str]]:
    if op.attribute("overflow") == "no_unsigned_wrap":
        yield "TV04", "negi is signed, and has no overflow no_unsigned_wrap."


MODES_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    **{name: _rule(modes) for name, modes in MODES.items()},
    "ftof": _ftof,
    "itof": _itof,
    "ftoi": _ftoi,
    "divi": _divi,
    "negi": _negi,
}

# Widths of conversions, predicates of assume, and what select chooses from.


def _elements(op: Operation) -> tuple[Any, Any]:
    source, target = op.values[0].type, op.results[0].type
    assert isinstance(source, Tile) and isinstance(target, Tile)
    return source.element, target.element


def _bitcast(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _elements(op)
    if source.bits != target.bits:
        yield "TV05", f"bitcast keeps the width, and {source} has {source.bits} bits and {target} {target.bits}."


def _exti(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _elements(op)
    if source.bits >= target.bits:
        yield "TV05", f"exti gives a wider type, and {target} is not wider than {source}."


def _trunci(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _elements(op)
    if source.bits <= target.bits:
        yield "TV05", f"trunci gives a narrower type, and {target} is not narrower than {source}."


def _select(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.results[0].type
    if isinstance(type, Tile) and isinstance(type.element, Element) and type.element.name == "f4E2M1FN":
        yield "TV05", "select has no elements of f4E2M1FN."


def _assume(op: Operation) -> Iterator[tuple[str, str]]:
    type, predicate = op.results[0].type, op.attribute("predicate")
    integers = isinstance(type, Tile) and isinstance(type.element, Element) and type.element.is_integer
    pointers = isinstance(type, Tile) and isinstance(type.element, Pointer)
    match predicate:
        case DivBy():
            yield from _div_by(predicate, type, integers or pointers)
        case SameElements(extents):
            if not isinstance(type, Tile) or not (integers or pointers):
                yield "TV13", f"same_elements is said of integers or pointers, and not of {type}."
            elif len(extents) != len(type.shape):
                yield "TV13", f"same_elements has {len(extents)} numbers, and {type} has {len(type.shape)} dims."
            else:
                for k, (extent, whole) in enumerate(zip(extents, type.shape, strict=True)):
                    if not 0 <= extent <= whole:
                        yield "TV13", f"same_elements has {extent} for dim {k}, whose extent is {whole}."
        case Bounded(lower, upper):
            if not isinstance(type, Tile) or not isinstance(type.element, Element) or not integers:
                yield "TV13", f"bounded is said of integers, and not of {type}."
                return
            least, most = type.element.range
            for bound in (lower, upper):
                if bound is not None and not least <= bound <= most:
                    yield "TV13", f"a bound of {type.element} is {least} to {most}, and {bound} is not."
            if lower is not None and upper is not None and lower > upper:
                yield "TV13", f"the lower bound {lower} is above the upper bound {upper}."
        case _:
            yield "TV13", "assume needs a predicate."


def _div_by(predicate: DivBy, type: object, fits: bool) -> Iterator[tuple[str, str]]:
    divisor, every, along = predicate.divisor, predicate.every, predicate.along
    if divisor <= 0 or divisor & (divisor - 1) or divisor > 1 << 62:
        yield "TV13", f"the divisor of div_by is a power of two up to 2^62, and {divisor} is none."
    if (every is None) != (along is None):
        yield "TV13", "div_by has both 'every' and 'along', or neither."
        return
    if isinstance(type, TensorView):
        if every is not None:
            yield "TV13", "div_by of a tensor_view has no 'every' and 'along'."
        return
    if not isinstance(type, Tile) or not fits:
        yield "TV13", f"div_by is said of integers, pointers or a tensor_view, and not of {type}."
        return
    if every is None or along is None:
        return
    if not type.shape:
        yield "TV13", "div_by of a scalar has no 'every' and 'along'."
    elif not 0 <= along < len(type.shape):
        yield "TV13", f"'along' is a dim from 0 to {len(type.shape) - 1}, and {along} is none."
    elif not 0 <= every <= type.shape[along]:
        yield "TV13", f"'every' is at most the extent {type.shape[along]} of its dim, and {every} is not."


ARITHMETIC_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "bitcast": _bitcast,
    "exti": _exti,
    "trunci": _trunci,
    "select": _select,
    "assume": _assume,
}

# Shapes and element types of products of matrices.

_ACCUMULATORS = {
    "f8E4M3FN": ("f16", "f32"), "f8E5M2": ("f16", "f32"), "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",),
    "f32": ("f32",), "f64": ("f64",),
}  # fmt: skip
_BLOCKS = {
    ("f8E4M3FN", "f8E8M0FNU"): (32,), ("f8E5M2", "f8E8M0FNU"): (32,), ("f4E2M1FN", "f8E8M0FNU"): (16, 32),
    ("f4E2M1FN", "f8E4M3FN"): (16,),
}  # fmt: skip
"""How many elements share a scale, by the element types of operands and scales."""


def _shapes(op: Operation) -> Iterator[tuple[str, str]]:
    lhs, rhs, acc = (op.operand(n).type for n in ("lhs", "rhs", "acc"))
    if len(lhs.shape) not in (2, 3):
        yield "TV05", f"{op.name} multiplies matrices, of rank 2 or in batches of rank 3, and {lhs} is neither."
        return
    (m, k), (k2, n) = lhs.shape[-2:], rhs.shape[-2:]
    if k != k2:
        yield "TV05", f"{op.name} sums over a dim of {k} elements of lhs and {k2} of rhs."
    if acc.shape[-2:] != (m, n):
        yield "TV05", f"{op.name} gives {m}x{n} elements, and acc is {acc}."
    if not lhs.shape[:-2] == rhs.shape[:-2] == acc.shape[:-2]:
        yield "TV05", f"{op.name} has batches of {lhs.shape[0]}, {rhs.shape[0]} and {acc.shape[0]}."


def _mmaf(op: Operation) -> Iterator[tuple[str, str]]:
    yield from _shapes(op)
    given, made = op.operand("lhs").type.element.name, op.operand("acc").type.element.name
    if made not in _ACCUMULATORS[given]:
        yield "TV05", f"mmaf of {given} accumulates in {' or '.join(_ACCUMULATORS[given])}, and not in {made}."


def _scaled(op: Operation) -> Iterator[tuple[str, str]]:
    before = list(_shapes(op))
    yield from before
    if before:
        return
    lhs, rhs, left, right = (op.operand(n).type for n in ("lhs", "rhs", "lhs_scale", "rhs_scale"))
    kinds: Any = (lhs.element.name, left.element.name)
    if kinds not in _BLOCKS:
        yield "TV05", f"mmaf_scaled has no scales of {kinds[1]} for {kinds[0]}."
        return
    (m, k), n, blocks = lhs.shape[-2:], rhs.shape[-1], left.shape[-1]
    if left.shape[:-1] != lhs.shape[:-1] or right.shape != (*rhs.shape[:-2], blocks, n):
        yield (
            "TV05",
            f"the scales of {m}x{k} and {k}x{n} elements are {m}xS and Sx{n}, and these are {left} and {right}.",
        )
    elif k % blocks or k // blocks not in _BLOCKS[kinds]:
        allowed = " or ".join(map(str, _BLOCKS[kinds]))
        yield "TV05", f"{allowed} elements of {kinds[0]} share a scale of {kinds[1]}, and here {k} have {blocks}."


PRODUCTS_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "mmaf": _mmaf,
    "mmai": _shapes,
    "mmaf_scaled": _scaled,
}

# Shapes of what moves elements: broadcast, cat, extract, permute, reshape, pack, iota, constants.


def _tiles(op: Operation) -> tuple[Any, Any]:
    return op.values[0].type, op.results[0].type


def _broadcast(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    for k, (n, m) in enumerate(zip(source.shape, target.shape, strict=True)):
        if n not in (1, m):
            yield "TV05", f"broadcast repeats dims of extent 1, and dim {k} has {n} and gives {m}."


def _cat(op: Operation) -> Iterator[tuple[str, str]]:
    left, right, target = op.values[0].type, op.values[1].type, op.results[0].type
    assert isinstance(left, Tile) and isinstance(right, Tile) and isinstance(target, Tile)
    dim = op.attribute("dim")
    if not 0 <= dim < len(target.shape):
        yield "TV05", f"the dim of cat is 0 to {len(target.shape) - 1}, and {dim} is not."
        return
    for k, (n, m, whole) in enumerate(zip(left.shape, right.shape, target.shape, strict=True)):
        if k == dim and n + m != whole:
            yield "TV05", f"cat joins {n} and {m} elements of dim {k}, and its result has {whole}."
        elif k != dim and not n == m == whole:
            yield "TV05", f"cat along dim {dim} keeps the other extents, and dim {k} has {n}, {m} and {whole}."


def _constant(op: Operation) -> Iterator[tuple[str, str]]:
    value = op.attribute("value")
    if value.type != op.results[0].type:
        yield "TV05", f"the constant is of type {value.type}, and its result of type {op.results[0].type}."


def _extract(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    indices = op.operand("indices")
    if len(indices) != len(source.shape):
        yield "TV05", f"extract takes an index for each of {len(source.shape)} dims, and has {len(indices)}."
    for k, (whole, part) in enumerate(zip(source.shape, target.shape, strict=True)):
        if whole % part:
            yield (
                "TV05",
                f"extract takes one of equal slices, and {whole} elements of dim {k} are no multiple of {part}.",
            )


def _iota(op: Operation) -> Iterator[tuple[str, str]]:
    type: Any = op.results[0].type
    if len(type.shape) != 1:
        yield "TV05", f"iota counts along one dim, and {type} has {len(type.shape)}."
    elif type.shape[0] > 1 << type.element.bits:
        yield "TV05", f"iota counts up to {type.shape[0] - 1}, which {type.element} does not hold."


def _permute(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    order = op.attribute("permutation")
    if len(source.shape) < 2:
        yield "TV05", f"permute orders at least two dims, and {source} has {len(source.shape)}."
    if sorted(order) != list(range(len(source.shape))):
        yield "TV05", f"{list(order)} is no permutation of {len(source.shape)} dims."
        return
    for k, d in enumerate(order):
        if target.shape[k] != source.shape[d]:
            yield (
                "TV05",
                f"dim {k} of the result is dim {d} of the source, of {source.shape[d]}, and not {target.shape[k]}.",
            )


def _reshape(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    if prod(source.shape) != prod(target.shape):
        yield (
            "TV05",
            f"reshape keeps the elements, and {source} has {prod(source.shape)} and {target} {prod(target.shape)}.",
        )


def _packed(element: Any) -> int:
    return 32 if element.name == "tf32" else element.bits


def _pack(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    for type in (source, target):
        if len(type.shape) != 1:
            yield "TV05", f"{op.name} takes and gives tiles of rank 1, and {type} has {len(type.shape)} dims."
            return
    if _packed(source.element) == _packed(target.element):
        yield "TV05", f"{op.name} changes the width of elements, and {source.element} and {target.element} have one."
    given, made = (_packed(t.element) * t.shape[0] for t in (source, target))
    if given % 8 or given != made:
        yield "TV05", f"{op.name} keeps the bytes, and {source} has {given} bits and {target} {made}."


SHAPES_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "broadcast": _broadcast,
    "cat": _cat,
    "constant": _constant,
    "extract": _extract,
    "iota": _iota,
    "permute": _permute,
    "reshape": _reshape,
    "pack": _pack,
    "unpack": _pack,
}

# reduce and scan: their operands, identities, results, and what may stand in their bodies.


def _fold(op: Operation) -> Iterator[tuple[str, str]]:
    operands: Any = [v.type for v in op.operand("operands")]
    if not operands:
        yield "TV12", f"{op.name} folds at least one tile."
        return
    shape = operands[0].shape
    for type in operands:
        if type.shape != shape:
            yield "TV12", f"{op.name} folds tiles of one shape, and {type} differs from {operands[0]}."
    yield from _identities(op, operands)
    dim = op.attribute("dim")
    if not 0 <= dim < len(shape):
        yield "TV12", f"the dim of {op.name} is 0 to {len(shape) - 1}, and {dim} is not."
        return
    made = shape if op.name == "scan" else shape[:dim] + shape[dim + 1 :]
    wanted = [Tile(made, t.element) for t in operands]
    if [v.type for v in op.results] != wanted:
        said = ", ".join(map(str, wanted))
        given = ", ".join(str(v.type) for v in op.results) or "nothing"
        yield "TV12", f"{op.name} gives {said} here, and not {given}."
    yield from _body(op, operands)


def _identities(op: Operation, operands: list[Any]) -> Iterator[tuple[str, str]]:
    identities = op.attribute("identities").items
    if len(identities) != len(operands):
        yield "TV12", f"{op.name} has an identity for each of {len(operands)} operands, and not {len(identities)}."
        return
    for k, (item, type) in enumerate(zip(identities, operands, strict=True)):
        name = item.element.name if isinstance(item, Number) else "i1" if isinstance(item, bool) else ""
        if not name:
            yield "TV12", f"identity {k} of {op.name} is no number."
        elif name != str(type.element) and {name, str(type.element)} != {"f16", "bf16"}:
            yield "TV12", f"identity {k} of {op.name} is of type {name}, and its operand of {type.element}."


def _body(op: Operation, operands: list[Any]) -> Iterator[tuple[str, str]]:
    body = op.regions[0]
    wanted = [Tile((), t.element) for t in operands for _ in range(2)]
    if [v.type for v in body.arguments] != wanted:
        said = ", ".join(map(str, wanted))
        yield "TV12", f"the body of {op.name} takes an accumulator and an element for each operand: {said}."
    if not body.operations or body.operations[-1].name != "yield":
        yield "TV12", f"the body of {op.name} ends in yield."
    else:
        given = [v.type for v in body.operations[-1].values]
        if given != wanted[::2]:
            said = ", ".join(map(str, wanted[::2]))
            yield "TV12", f"the body of {op.name} yields {said}, and not {', '.join(map(str, given)) or 'nothing'}."
    for inner in body.operations[:-1]:
        if not inner.row.pure:
            yield "TV12", f"{inner.name} stands in the body of {op.name}, which only computes."


FOLDS_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {"reduce": _fold, "scan": _fold}

# Entries, branches and loops: their signatures, what they carry, and what they give.

_VIEWS = (TensorView, *TileView.__args__)


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _no_views(op: Operation, values: Sequence[Value], what: str) -> Iterator[tuple[str, str]]:
    for value in values:
        if isinstance(value.type, _VIEWS):
            yield "TV09", f"{what} of {op.name} is no view, and {value.type} is one."


def _entry(op: Operation) -> Iterator[tuple[str, str]]:
    signature = op.attribute("function_type")
    assert isinstance(signature, Typed) and isinstance(signature.type, Function)
    params, results = signature.type.params, signature.type.results
    arguments = tuple(v.type for v in op.regions[0].arguments)
    if arguments != params:
        yield "TV14", f"the body of {op.name} takes {_listed(arguments)}, and its signature says {_listed(params)}."
    if op.name != "entry":
        return
    if results:
        yield "TV14", f"an entry gives nothing, and this gives {_listed(results)}."
    for type in params:
        if isinstance(type, Tile) and type.shape:
            yield "TV14", f"a parameter of an entry is a scalar, and {type} is none."


def _if(op: Operation) -> Iterator[tuple[str, str]]:
    yield from _no_views(op, op.results, "a result")
    if op.results and len(op.regions) < 2:
        yield "TV09", "an if with results has an else."
    wanted = [v.type for v in op.results]
    for region in op.regions:
        end = region.operations[-1] if region.operations else None
        if end is not None and end.name == "yield" and [v.type for v in end.values] != wanted:
            given = _listed([v.type for v in end.values])
            yield "TV09", f"a branch of this if yields {_listed(wanted)}, and not {given}."


def _for(op: Operation) -> Iterator[tuple[str, str]]:
    carried = [v.type for v in op.operand("initValues")]
    yield from _no_views(op, op.operand("initValues"), "a carried value")
    arguments = [v.type for v in op.regions[0].arguments]
    index = op.operand("lowerBound").type
    if arguments != [index, *carried]:
        yield "TV09", f"the body of for takes {_listed([index, *carried])}, and not {_listed(arguments)}."
    if [v.type for v in op.results] != carried:
        yield "TV09", f"for gives what it carries, {_listed(carried)}, and not {_listed([v.type for v in op.results])}."


def _loop(op: Operation) -> Iterator[tuple[str, str]]:
    carried = [v.type for v in op.operand("initValues")]
    yield from _no_views(op, op.operand("initValues"), "a carried value")
    yield from _no_views(op, op.results, "a result")
    arguments = [v.type for v in op.regions[0].arguments]
    if arguments != carried:
        yield "TV09", f"the body of loop takes {_listed(carried)}, and not {_listed(arguments)}."


CONTROL_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "entry": _entry,
    "testing$func": _entry,
    "if": _if,
    "for": _for,
    "loop": _loop,
}

# Pointers, atomics, allocations, globals, tokens, printing.

_WIDE = ("i32", "i64")
_EXCHANGED = ("i32", "i64", "f32", "f64")
_ADDED = ("f16", "bf16", "f32", "f64")


def scoped(op: Operation) -> Iterator[tuple[str, str]]:
    """A scope stands with every ordering but weak, and never with weak."""
    weak = op.attribute("memory_ordering_semantics") == "weak"
    if weak and op.attribute("memory_scope") is not None:
        yield "TV06", f"a weak {op.name} has no scope."
    if not weak and op.attribute("memory_scope") is None:
        yield "TV06", f"{op.name} with the ordering {op.attribute('memory_ordering_semantics')} needs a scope."


def _points(op: Operation, pointers: Any, value: Any) -> Iterator[tuple[str, str]]:
    if pointers != Tile(value.shape, Pointer(value.element)):
        yield "TV06", f"{op.name} takes pointers to {value.element} in the shape of {value}, and not {pointers}."


def _masked(op: Operation, shape: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    mask = op.operand("mask")
    if mask is not None and mask.type.shape != shape:
        yield "TV06", f"the mask of {op.name} has the shape of its pointers, and {mask.type} has another."


def _load(op: Operation) -> Iterator[tuple[str, str]]:
    yield from scoped(op)
    type: Any = op.results[0].type
    if isinstance(type.element, Pointer):
        yield "TV06", f"{op.name} loads numbers, and {type} are pointers."
        return
    yield from _points(op, op.operand("source").type, type)
    yield from _masked(op, type.shape)
    padding = op.operand("paddingValue")
    if padding is not None and padding.type != type:
        yield "TV06", f"the padding of {op.name} is of the type of its result {type}, and not {padding.type}."


def _store(op: Operation) -> Iterator[tuple[str, str]]:
    yield from scoped(op)
    type = op.operand("value").type
    if isinstance(type.element, Pointer):
        yield "TV06", f"{op.name} stores numbers, and {type} are pointers."
        return
    yield from _points(op, op.operand("destination").type, type)
    yield from _masked(op, type.shape)


def atomic_elements(op: Operation, element: Any) -> Iterator[tuple[str, str]]:
    """The element types that an atomic mode takes."""
    mode = op.attribute("mode")
    allowed = _EXCHANGED if mode == "xchg" else _ADDED if mode == "addf" else _WIDE
    if str(element) not in allowed:
        yield "TV07", f"{op.name} {mode} takes {', '.join(allowed)}, and not {element}."


def _rmw(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.operand("arg").type
    yield from atomic_elements(op, type.element)
    if not isinstance(type.element, Pointer):
        yield from _points(op, op.operand("pointers").type, type)
    yield from _masked(op, type.shape)


def _cas(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.operand("val").type
    if str(type.element) not in _EXCHANGED:
        yield "TV07", f"{op.name} takes {', '.join(_EXCHANGED)}, and not {type.element}."
    elif not isinstance(type.element, Pointer):
        yield from _points(op, op.operand("pointers").type, type)
    yield from _masked(op, type.shape)


def _alloca(op: Operation) -> Iterator[tuple[str, str]]:
    alignment = op.attribute("alignment")
    type: Any = op.results[0].type
    element = type.element.pointee
    least = 1 if element.bits == 1 else element.bits // 8
    if alignment <= 0 or alignment & (alignment - 1):
        yield "TV03", f"the alignment of alloca is a power of two, and {alignment} is none."
    elif alignment < least:
        yield "TV03", f"the alignment of alloca is at least the {least} bytes of {element}, and not {alignment}."


def _global(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.attribute("value").type
    if len(type.shape) != 1:
        yield "TV05", f"the elements of a global stand along one dim, and {type} has {len(type.shape)}."


def _join(op: Operation) -> Iterator[tuple[str, str]]:
    if len(op.values) < 2:
        yield "TV05", f"join_tokens joins at least two tokens, and has {len(op.values)}."


def _print(op: Operation) -> Iterator[tuple[str, str]]:
    needed, given = items_of(op.attribute("str")), len(op.operand("args"))
    if needed is None:
        yield "TV05", "an item of the format does not end."
    elif needed != given:
        yield "TV05", f"the format has {needed} items, and print_tko {given} values."


MEMORY_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "load_ptr_tko": _load,
    "store_ptr_tko": _store,
    "atomic_rmw_tko": _rmw,
    "atomic_cas_tko": _cas,
    "alloca": _alloca,
    "global": _global,
    "join_tokens": _join,
    "print_tko": _print,
}

# Views, their indices, and the tiles that are loaded and stored through them.


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


def _load_of_view(op: Operation) -> Iterator[tuple[str, str]]:
    yield from scoped(op)
    yield from _accessed(op, op.results[0].type)


def _store_to_view(op: Operation) -> Iterator[tuple[str, str]]:
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


VIEWS_RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "make_tensor_view": _make_tensor,
    "make_partition_view": _make_view,
    "make_strided_view": _make_view,
    "make_gather_scatter_view": _make_view,
    "get_tensor_shape": _shape,
    "get_index_space_shape": _shape,
    "load_view_tko": _load_of_view,
    "store_view_tko": _store_to_view,
    "atomic_red_view_tko": _reduced,
}

# The rules of single operations: by name, from an operation to codes and sentences of what is wrong.

RULES: dict[str, Callable[[Operation], Iterable[tuple[str, str]]]] = {
    **MODES_RULES,
    **ARITHMETIC_RULES,
    **SHAPES_RULES,
    **PRODUCTS_RULES,
    **FOLDS_RULES,
    **MEMORY_RULES,
    **VIEWS_RULES,
    **CONTROL_RULES,
}
