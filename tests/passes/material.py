"""Generated programs with something to do for one pass: one more output, computed from what the program computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from generate.maker import NAMES
from generate.programs import Case

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import (
    apply,
    call,
    cartesian_shift,
    closure,
    fencil,
    function,
    literal,
    operator,
    reduce,
    scan,
    var,
)
from tensorir.ir.nodes import Closure, Expr, Var
from tensorir.ir.types import BOOL, FLOAT32, INT32, Scalar, TensorType, TupleElement

__all__ = ["MATERIAL", "with_material"]

Maker = Callable[[Expr, str, Interval], Iterator[Closure]]


def with_material(name: str, case: Case) -> Case:
    """The case, in which a program that has a dim with three points also computes what the pass looks for."""
    make = MATERIAL.get(name)
    # of tables there are as many slots as the program has
    values = (*(c.value for c in case.fencil.closures), *case.fencil.params)
    wide = [(v, d, i) for v in values for d, i in v.tensor.dims.items if len(i) > 2 and d in NAMES]
    if make is None or not wide:
        return case
    added = list(make(*wide[0]))
    outputs = dict.fromkeys(c.output for c in added)
    given = case.fencil
    return replace(case, fencil=fencil(given.name, [*given.params, *outputs], [*given.closures, *added]))


def _output(kind: TensorType) -> Var:
    return var("more", kind)


def _assigned(value: Expr) -> Iterator[Closure]:
    yield closure(_output(value.tensor), value)


def _scalar(value: Expr) -> Expr:
    """The first scalar of a tuple."""
    while not isinstance(value.tensor.element, Scalar):
        value = call("tuple_get", value, static=(0,))
    return value


def _shifts_in_a_row(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    yield from _assigned(cartesian_shift(cartesian_shift(value, dim, 2), dim, -1))


def _equal_expressions(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    yield from _assigned(call("make_tuple", *(call("make_tuple", value) for _ in range(2))))


def _reads_at_several_offsets(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    value = _scalar(value)
    total = value
    for _ in range(12):  # so much is worth a buffer
        total = call("xor" if value.tensor.element == BOOL else "minus", value, total)
    yield from _assigned(call("make_tuple", *(cartesian_shift(total, dim, k) for k in (0, 1))))


def _choices_inside_of_each_other(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    low = call("less", call("pos", value, static=(dim,)), literal(interval.start + 1))
    yield from _assigned(call("if", low, call("if", low, value, value), value))


def _parts(dim: str, interval: Interval) -> tuple[Dims, Dims]:
    middle = interval.start + len(interval) // 2
    return Dims(((dim, Interval(interval.start, middle)),)), Dims(((dim, Interval(middle, interval.stop)),))


def _concatenation(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    yield from _assigned(call("concat", *(call("subset", value, static=(p,)) for p in _parts(dim, interval))))


def _adjacent_parts(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    output = _output(value.tensor)
    for part in _parts(dim, interval):
        yield closure(output, value, part)


def _applied_function(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    x = var("x", value.tensor)
    yield from _assigned(apply(function([x], cartesian_shift(x, dim, 1)), value))


def _parameter_that_nobody_reads(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    x, y = var("x", value.tensor), var("y", value.tensor)
    yield from _assigned(apply(function([x, y], cartesian_shift(x, dim, 1)), value, value))


def _recurrences(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    value = _scalar(value)
    kind = value.tensor.on(value.tensor.dims.without(dim))
    element = value.tensor.element
    assert isinstance(element, Scalar)
    ops = ("and", "xor") if element == BOOL else ("max", "minus")
    s, v = var("s", kind), var("v", kind)
    init = literal(False, BOOL) if element == BOOL else literal(1, element)
    yield from _assigned(
        call("make_tuple", *(scan(function([s, v], call(op, s, v)), True, init, value, dim=dim) for op in ops))
    )


def _columns(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    column = _whole(value)
    more = call("add_dim", call("minus", column, literal(3)), static=("Q", -2, 5))
    x = call("multiplies", more, _coordinate("Q", Interval(-2, 5)))
    kind = x.tensor.on(x.tensor.dims.without(dim))
    s, v = var("s", kind), var("v", kind)
    states = scan(function([s, v], call("minus", v, s)), False, literal(1), x, dim=dim)
    dims = states.tensor.dims
    output = _output(states.tensor.on(Dims((("Q", dims["Q"]), *dims.without("Q").items))))
    yield closure(output, call("plus", states, x))


def _combined_states(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    value = _scalar(value)
    kind = value.tensor.on(value.tensor.dims.without(dim))
    element = value.tensor.element
    assert isinstance(element, Scalar)
    first, second, both = ("and", "or", "xor") if element == BOOL else ("max", "minus", "plus")
    s, v = var("s", TensorType(TupleElement((element, element)), kind.dims)), var("v", kind)
    old = [call("tuple_get", s, static=(k,)) for k in (0, 1)]
    step = function([s, v], call("make_tuple", call(first, old[0], v), call(second, old[1], old[0])))
    zero = literal(False, BOOL) if element == BOOL else literal(1, element)
    states = scan(step, True, call("make_tuple", zero, zero), value, dim=dim)
    yield from _assigned(call(both, *(call("tuple_get", states, static=(k,)) for k in (0, 1))))


def _operands_used_together(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    value = _scalar(value)
    kind = value.tensor.on(value.tensor.dims.without(dim))
    element = value.tensor.element
    assert isinstance(element, Scalar)
    step, both = ("and", "xor") if element == BOOL else ("minus", "max")
    low, high = (
        call(
            "subset",
            cartesian_shift(value, dim, k),
            static=(Dims(((dim, Interval(interval.start, interval.stop - 1)),)),),
        )
        for k in (0, 1)
    )
    s, v, w = var("s", kind), var("v", kind), var("w", kind)
    init = literal(False, BOOL) if element == BOOL else literal(1, element)
    yield from _assigned(scan(function([s, v, w], call(step, call(both, v, w), s)), False, init, low, high, dim=dim))


def _sum_of_products(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    value = _scalar(value)
    if value.tensor.element == BOOL:
        value = call("cast", value, static=(INT32,))
    kind = value.tensor.on(value.tensor.dims.without(dim))
    element = value.tensor.element
    assert isinstance(element, Scalar)
    product = call("multiplies", value, value)
    yield from _assigned(reduce(operator("plus", kind, kind), literal(0, element), product, dim=dim))


def _whole(value: Expr) -> Expr:
    """A value as int32 numbers."""
    value = _scalar(value)
    return value if value.tensor.element == INT32 else call("cast", value, static=(INT32,))


def _a_check_in_a_branch(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    checked = call("assert_", value, literal(True), static=("never",))
    yield from _assigned(call("if", literal(True), checked, value))


def _coordinate(dim: str, interval: Interval) -> Expr:
    spread = call("add_dim", literal(0), static=(dim, interval.start, interval.stop))
    return call("pos", spread, static=(dim,))


def _windows_of_two_dims(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    more = Interval(-1, 2)
    x = call("add_dim", _whole(value), static=("Q", more.start, more.stop))
    indices = [
        call("plus", _coordinate(f"{d}o", Interval(i.start, i.stop - 1)), _coordinate(f"{d}w", Interval(0, 2)))
        for d, i in ((dim, interval), ("Q", more))
    ]
    total = call("gather", x, *indices, static=((dim, "Q"), "clamp"))
    for d in ("Qw", f"{dim}w"):
        kind = total.tensor.on(total.tensor.dims.without(d))
        total = reduce(operator("max", kind, kind), literal(-(2**31), INT32), total, dim=d)
    yield from _assigned(total)


def _first_of_a_row(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    row = call("sort", call("cast", _scalar(value), static=(FLOAT32,)), static=(dim, 1, True))
    few = Dims(((dim, Interval(interval.start, interval.start + 2)),))
    yield from _assigned(call("subset", row, static=(few,)))


def _largest_and_its_index(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    places = _coordinate("Q", Interval(-3, 37))
    x = call("plus", call("rem", places, literal(7)), call("rem", _whole(value), literal(5)))
    rest = x.tensor.dims.without("Q")
    pair = TensorType(TupleElement((INT32, INT32)), rest)
    s, a, k = var("s", pair), var("a", TensorType(INT32, rest)), var("k", TensorType(INT32))
    before, at = (call("tuple_get", s, static=(m,)) for m in (0, 1))
    better = call("greater", a, before)
    body = call("make_tuple", call("if", better, a, before), call("if", better, k, at))
    start = call("make_tuple", literal(-9), literal(-9))
    yield from _assigned(reduce(function([s, a, k], body), start, x, places, dim="Q"))


def _a_short_loop(value: Expr, dim: str, interval: Interval) -> Iterator[Closure]:
    value = _scalar(value)
    kind = value.tensor
    i, s, j, t = (var(n, k) for n, k in (("i", TensorType(INT32)), ("s", kind), ("j", TensorType(INT32)), ("t", kind)))
    low = call("less", call("pos", t, static=(dim,)), j)
    step = function([j, t], call("if", low, t, value))
    yield from _assigned(call("loop", function([i, s], literal(True, BOOL)), step, value, static=(0, 3)))


MATERIAL: dict[str, Maker] = {
    "argument_reductions": _largest_and_its_index,
    "block_scans": _columns,
    "conditionals": _a_check_in_a_branch,
    "pools": _windows_of_two_dims,
    "top_k": _first_of_a_row,
    "combine_shifts": _shifts_in_a_row,
    "inline": _applied_function,
    "prune": _parameter_that_nobody_reads,
    "contractions": _sum_of_products,
    "cse": _equal_expressions,
    "materialise": _reads_at_several_offsets,
    "temporaries": _reads_at_several_offsets,
    "propagate_conditions": _choices_inside_of_each_other,
    "split_closures": _concatenation,
    "fuse_closures": _adjacent_parts,
    "fuse_scans": _recurrences,
    "fuse_into_scans": _combined_states,
    "split_scans": _operands_used_together,
    "unroll_loops": _a_short_loop,
}
"""What is added for a pass; the others have enough to do in programs as they are generated."""
