"""The typing rule of every builtin, and those of functions, folds and indirect access."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import BOOL, INT32, NEIGHBOUR, FunctionType, Scalar, TensorType, TupleElement, bcast
from tensorir.ir.typing_of_elements import (
    Operand,
    Operands,
    Static,
    add_dim,
    assert_,
    assignable,
    bitcast,
    can_deref,
    cartesian_shift,
    cast,
    comparison,
    concat,
    equality,
    float_tests,
    floats,
    function_of,
    highest_neighbour,
    integers,
    interval_of,
    logic,
    make_tuple,
    merge_dims,
    neighbour_source,
    numbers,
    pos,
    print_,
    rename,
    selection,
    shift_apply,
    shift_init,
    split_dim,
    subset,
    tensors_of,
    tuple_get,
    unstructured_shift,
    update,
)
from tensorir.runtime.errors import counted, did_you_mean, refuse

__all__ = [
    "MODES", "Operand", "Operands", "Static", "add_dim", "apply", "argreduce", "assert_", "assignable", "bitcast",
    "blocked", "can_deref", "cartesian_shift", "cast", "comparison", "concat", "cond", "contract", "equality",
    "float_tests", "floats", "function_of", "gather", "highest_neighbour", "integers", "interval_of", "logic", "loop",
    "make_tuple", "materialise", "merge_dims", "neighbour_source", "numbers", "pos", "print_", "reduce", "reduced_dim",
    "rename", "scan", "scanned_dim", "scatter", "selection", "shift_apply", "shift_init", "sort", "split_dim", "subset",
    "tensors_of", "top_k", "tuple_get", "unstructured_shift", "update",
]  # fmt: skip

# Rules of what takes functions: applications, reduce, scan, loop and cond.


def _check_arguments(function: FunctionType, values: Sequence[TensorType], first: int, folded_dim: str | None) -> None:
    """Raises T15 for a wrong number of arguments, T16 for one that does not fit its parameter.

    `folded_dim` is dropped from arguments (None: none); `first` is the operand number of the first argument.
    """
    if len(function.params) != len(values):
        count_text = f"there {'is' if len(values) == 1 else 'are'} {len(values)}"
        message = f"the function takes {counted(len(function.params), 'argument')}, and {count_text}."
        raise refuse("T15", message, "give it as many arguments as parameters.")
    for index, (value, param_type) in enumerate(zip(values, function.params, strict=True)):
        argument = value.on(value.dims.without(folded_dim)) if folded_dim is not None else value
        if diagnostic := assignable(argument, param_type):
            raise refuse(diagnostic.code, diagnostic.message, diagnostic.help, at=first + index)


def apply(function: FunctionType, args: Operands) -> TensorType:
    """The type of an application, whose arguments must cover the parameters' types."""
    values = tensors_of(args)
    if len(function.results) > 1:
        message = "a function of several results is repeated by loop, and not applied."
        raise refuse("T14", message, "write a function for each of them.")
    _check_arguments(function, values, 0, None)
    return function.result


def _check_captures(f: Operand, dim: str, verb: str) -> None:
    """Raises T18 if a function of a fold captures a value with the folded dim; `verb` is "scanned" or
    "reduced".
    """
    for name in sorted(captured(f, dim)):
        help = f"pass '{name}' as an argument of the {'scan' if verb == 'scanned' else 'reduce'}."
        raise refuse("T18", f"the function uses '{name}' from outside, which has the {verb} dim {dim}.", help, at=0)


def captured(f: Operand, dim: str) -> set[str]:
    """The names of variables through which a function captures a value with the dim.

    The captured values are the largest subexpressions without parameters of the function: one that has lost the dim (by
    a fold, say) is allowed.
    """
    variables_with_dim = {v for v in f.free if isinstance(v.type, TensorType) and dim in v.type.dims}
    if not variables_with_dim:
        return set()
    body_nodes: list[Operand] = [f]
    seen = {id(f)}
    for node in body_nodes:
        for child in node.children:
            if id(child) not in seen and not variables_with_dim.isdisjoint(child.free):
                seen.add(id(child))
                body_nodes.append(child)
    params = {p for node in body_nodes for p in getattr(node, "params", ())}
    captured_names: set[str] = set()
    stack, seen = [f], {id(f)}
    while stack:
        node = stack.pop()
        node_type = node.type
        if isinstance(node_type, TensorType) and (node in variables_with_dim or params.isdisjoint(node.free)):
            if dim in node_type.dims:
                captured_names |= {v.name for v in variables_with_dim.intersection(node.free)}
            continue
        for child in node.children:
            if id(child) not in seen and not variables_with_dim.isdisjoint(child.free):
                seen.add(id(child))
                stack.append(child)
    return captured_names


def _check_carry(function: FunctionType, init: TensorType, noun: str) -> TensorType:
    """The type of the state of a fold; raises T19 if `init` or the function's result does not fit it."""
    state = function.params[0]
    if refused := assignable(init, state):
        raise refuse("T19", f"init is {init}, and the {noun} is {state}.", refused.message, at=1, notes=refused.notes)
    if refused := assignable(function.result, state):
        message = f"the function returns {function.result}, and the {noun} is {state}."
        raise refuse("T19", message, refused.message, at=0)
    return state


def reduced_dim(values: Sequence[TensorType]) -> str:
    """The neighbour dim with the highest counter among the operands; raises T09 if there is none."""
    dim = highest_neighbour(d for v in values for d in v.dims)
    if dim is None:
        message = "there is no neighbour dim to reduce over."
        raise refuse("T09", message, "shift with a table first, ⟪V2E⟫(x), or name a dim: reduce(f, init, I)(x).")
    return dim


def reduce(static: Static, args: Operands) -> TensorType:
    """The type of a fold along a dim that arguments have with one interval: that of the accumulator."""
    (dim,) = static
    f = function_of(args, 0)
    init, *values = tensors_of(args[1:])
    if not values:
        raise refuse("T06", "reduce needs at least one argument.", "write reduce(f, init)(x).")
    intervals = [v.dims[dim] for v in values if dim in v.dims]
    if not intervals:
        raise refuse("T17", f"no argument has the dim {dim}.", "reduce over a dim that an argument has.", at=2)
    for index, v in enumerate(values):
        if dim in v.dims and v.dims[dim] != intervals[0]:
            if dim.startswith(NEIGHBOUR):
                bcast([Dims(((dim, intervals[0]),)), Dims(((dim, v.dims[dim]),))])
            message = f"the arguments differ along {dim}: {intervals[0]} and {v.dims[dim]}."
            raise refuse("T17", message, "subset them to one interval.", at=2 + index)
    _check_captures(args[0], dim, "reduced")
    _check_arguments(f, [f.params[0], *values], 1, dim)
    return _check_carry(f, init, "accumulator")


def scanned_dim(function: FunctionType, values: Sequence[TensorType]) -> str:
    """The only dim that arguments have and parameters of the function lack; raises T20 for none or several."""
    candidates = list(
        dict.fromkeys(d for v, p in zip(values, function.params[1:], strict=False) for d in v.dims if d not in p.dims)
    )
    if len(candidates) != 1:
        found_text = f"the arguments have {', '.join(candidates)}, which the function's parameters lack."
        none_text = "the arguments have no dim that the function's parameters lack."
        message = f"the scanned dim is not clear: {found_text if candidates else none_text}"
        raise refuse("T20", message, "name it: scan(f, true, init, K)(x).")
    return candidates[0]


def scan(static: Static, args: Operands) -> TensorType:
    """The type of the states of a scan: the state with the scanned dim, axes in the order of the argument with most
    dims.
    """
    _, dim = static
    f = function_of(args, 0)
    init, *values = tensors_of(args[1:])
    if not values:
        raise refuse("T06", "scan needs at least one argument.", "write scan(f, true, init)(x).")
    dims_with_scanned = [v.dims for v in values if dim in v.dims]
    if not dims_with_scanned:
        raise refuse("T20", f"no argument has the dim {dim} to scan over.", "scan over a dim of an argument.", at=2)
    if dim in init.dims:
        raise refuse("T19", f"init varies along the scanned dim {dim}.", "init stands for one level.", at=1)
    _check_captures(args[0], dim, "scanned")
    _check_arguments(f, [f.params[0], *values], 1, dim)
    state = _check_carry(f, init, "state")
    if dim in state.dims:
        raise refuse("T19", f"the state has the scanned dim {dim}.", f"leave {dim} out of its type.", at=0)
    common_interval = bcast([Dims(((dim, d[dim]),)) for d in dims_with_scanned])
    result_dims = {**dict(state.dims.items), dim: common_interval[dim]}
    # axes stand as in the argument with most of them, as those of a cumulative sum do
    widest = sorted(values, key=lambda v: -len(v.dims))
    order = dict.fromkeys([*(n for v in widest for n in v.dims.names if n in result_dims), *result_dims])
    return state.on(Dims(tuple((n, result_dims[n]) for n in order)))


def loop(static: Static, args: Operands) -> TensorType:
    """The type of one carry of a loop: the condition and the step take (counter, carries), the step returns the
    carries.
    """
    index: int = static.carried
    limit: int | None = static.limit
    count = len(args) - 2
    if count < 1:
        message = f"a loop takes a condition, a function and what is carried, and there are {len(args)} operands."
        raise refuse("T35", message, "write loop(0, none)(λ(i, a) → condition, λ(i, a) → next, a0).")
    if not 0 <= index < count:
        raise refuse("T35", f"there is no carried tensor {index}: they count from 0 to {count - 1}.")
    if limit is not None and limit < 0:
        raise refuse("T35", f"a loop cannot run {limit} times.", "the limit is 0 or more.")
    carried = tensors_of(args[2:])
    types = (TensorType(INT32), *carried)
    condition, step = function_of(args, 0), function_of(args, 1, count)
    for position, f in enumerate((condition, step)):
        if f.params != types:
            actual, expected = (", ".join(map(str, t)) for t in (f.params, types))
            message = f"the function takes ({actual}), and ({expected}) is carried."
            raise refuse("T35", message, "it takes the counter, an int, and every carried tensor.", at=position)
    if condition.result != TensorType(BOOL):
        hint = "it decides for the whole loop; compare single values."
        raise refuse("T35", f"the condition is {condition.result}, and {TensorType(BOOL)} is needed.", hint, at=0)
    for k, (result, carried_type) in enumerate(zip(step.results, carried, strict=True)):
        if refused := assignable(result, carried_type):
            subject = "the function returns" if count == 1 else f"result {k} of the function is"
            raise refuse("T19", f"{subject} {result}, and {carried_type} is carried.", refused.message, at=1)
    return carried[index]


def blocked(static: Static, args: Operands) -> TensorType:
    """The type of one result of a blocked function, all of whose results have the blocked dims."""
    index: int = static.result
    size: int = static.size
    dims: tuple[str, ...] = static.dims
    if not args:
        raise refuse("T46", "there is no function.", "write blocked(0, 8, I, J)(f, x).")
    f = function_of(args, 0, len(args[0].type.results) if isinstance(args[0].type, FunctionType) else 1)
    _check_arguments(f, tensors_of(args[1:]), 1, None)
    if not 0 <= index < len(f.results):
        raise refuse("T46", f"there is no result {index}: they count from 0 to {len(f.results) - 1}.")
    for dim in dims:
        for result in f.results:
            if dim not in result.dims:
                raise refuse("T46", f"the function returns {result}, which has no dim {dim}.", "block one of its.")
    if size < 1 or len(set(dims)) < len(dims):
        hint = "write blocked(0, 8, I, J)(f, x)."
        raise refuse("T46", f"a block has {size} points of {', '.join(dims)}.", hint)
    return f.results[index]


def cond(static: Static, args: Operands) -> TensorType:
    """The type of one result of a conditional: a scalar condition, two functions of the operands with as many
    results.
    """
    index: int = static.result
    if len(args) < 3:
        operands_text = "two functions, a condition and what they are applied to"
        message = f"a conditional takes {operands_text}, and there are {len(args)} operands."
        raise refuse("T44", message, "write cond(0)(λ(x) → then, λ(x) → else, condition, x).")
    count = len(args[0].type.results) if isinstance(args[0].type, FunctionType) else 1
    branches = function_of(args, 0, count), function_of(args, 1, count)
    if not 0 <= index < count:
        raise refuse("T44", f"there is no result {index}: they count from 0 to {count - 1}.")
    condition, *operands = tensors_of(args[2:])
    if condition != TensorType(BOOL):
        hint = "it decides for all of the branch; if ... then ... else ... chooses element by element."
        raise refuse("T44", f"the condition is {condition}, and {TensorType(BOOL)} is needed.", hint, at=2)
    for f in branches:
        _check_arguments(f, operands, 3, None)
    then_type, else_type = (f.results[index] for f in branches)
    if then_type.element != else_type.element:
        message = f"the branches have different element types: {then_type.element} and {else_type.element}."
        raise refuse("T01", message, "cast one of them.", at=1)
    return TensorType(then_type.element, bcast([then_type, else_type]))


# Rules of access at computed indices, and of sorting.

MODES = ("checked", "clamp", "zero")


def _check_indices(x: TensorType, dims: Sequence[str], indices: Sequence[TensorType], mode: str, first: int) -> None:
    """Raises for an unknown mode, unnamed or repeated dims, and indices that are no integers or not one per dim."""
    if mode not in MODES:
        raise refuse("T33", f"there is no rule {mode!r} for indices out of range.", f"use {', '.join(MODES)}.")
    if len(set(dims)) != len(dims) or not dims:
        raise refuse("T33", "the indexed dims must be named, and each once.", "write gather(I, J)(x, i, j).")
    for dim in dims:
        if dim not in x.dims:
            hint = did_you_mean(dim, [*x.dims.names, *MODES])
            raise refuse("T25", f"there is no dim {dim} here, only {x.dims}.", hint, at=first - 1)
        if mode == "clamp" and not x.dims[dim]:
            message = f"{dim}{x.dims[dim]} has no point that an index could be moved to."
            raise refuse("T33", message, "use zero: nothing is read, or written, out of range.", at=first - 1)
    if len(dims) != len(indices):
        message = f"{counted(len(dims), 'dim')} cannot be indexed by {counted(len(indices), 'index', 'indices')}."
        raise refuse("T33", message, "give one index per dim, in their order.")
    for position, (dim, index) in enumerate(zip(dims, indices, strict=True)):
        if not (isinstance(index.element, Scalar) and index.element.is_integer):
            message = f"the index of {dim} is {index.element}, not an integer."
            raise refuse("T33", message, "convert it: cast(i, int32).", at=first + position)


def gather(static: Static, args: Operands) -> TensorType:
    """The type of reads at indices: the dims of the indices and the remaining dims of x."""
    dims, mode = static
    x, *indices = tensors_of(args)
    _check_indices(x, dims, indices, mode, 1)
    return x.on(bcast([*indices, x.dims.without(*dims)]))


def scatter(static: Static, args: Operands) -> TensorType:
    """The type of a scatter: that of the base. Updates run over the dims `over`, and its function takes (old,
    update).
    """
    dims, over, mode = static
    f = function_of(args, 0)
    base, *indices_and_updates = tensors_of(args[1:])
    if len(indices_and_updates) < 2:
        raise refuse("T06", "scatter needs a base, indices and updates.", "write scatter(f, I, over: (p,))(x, i, u).")
    *indices, updates = indices_and_updates
    _check_indices(base, dims, indices, mode, 2)
    update_dims = bcast(indices_and_updates)
    aligned = base.dims.without(*dims)
    iterated = [d for d in update_dims if d not in aligned]
    if set(iterated) != set(over) or len(set(over)) != len(over):
        help = "name every dim of indices and updates that is not an unindexed dim of the base, slowest first."
        raise refuse("T34", f"the updates run over ({', '.join(iterated)}), and over names ({', '.join(over)}).", help)
    for dim, interval in update_dims.items:
        if dim in aligned and not aligned[dim].covers(interval):
            raise refuse("T21", f"{dim}{interval} is not inside of {dim}{aligned[dim]}.", "subset the updates.", at=1)
    expected = FunctionType((TensorType(base.element), TensorType(updates.element)), (TensorType(base.element),))
    if f != expected:
        raise refuse("T34", f"the function is {f}, and {expected} is needed.", "it combines two elements.", at=0)
    if f.params[1].element != updates.element:
        raise refuse("T01", f"the updates are {updates.element}.", at=len(args) - 1)
    return base


def top_k(static: Static, args: Operands) -> TensorType:
    """The type of the first `count` points of a sort."""
    dim, count, keys, descending = static
    sorted_type = sort((dim, keys, descending), args)
    interval = sorted_type.dims[dim]
    if not 0 <= count <= len(interval):
        message = f"{dim} has {counted(len(interval), 'point')}, and the first {count} are asked for."
        raise refuse("T36", message, "ask for as many as there are, or fewer.")
    return sorted_type.on(sorted_type.dims.with_interval(dim, Interval(interval.start, interval.start + count)))


def sort(static: Static, args: Operands) -> TensorType:
    """The type of tensors sorted together along a dim by the first `keys`; a tuple if there are several."""
    dim, keys, _ = static
    types = tensors_of(args)
    if not 1 <= keys <= len(types):
        message = f"{counted(keys, 'key')} cannot sort {counted(len(types), 'operand')}."
        raise refuse("T36", message, "the first operands are the keys; there is at least one.")
    for index, t in enumerate(types):
        if not isinstance(t.element, Scalar):
            raise refuse("T05", f"a tuple, {t.element}, cannot be sorted.", "pass its members.", at=index)
    common = bcast(types)
    if dim not in common:
        hint = did_you_mean(dim, common.names) or "sort a tensor with dims."
        raise refuse("T25", f"there is no dim {dim} to sort along, only {common}.", hint, at=0)
    elements = tuple(t.element for t in types)
    return TensorType(elements[0] if len(elements) == 1 else TupleElement(elements), common)


# The rules of reductions with a name: sums of products, the largest element and its index.

TIES = ("old", "new", "least", "greatest")


def contract(static: Static, args: Operands) -> TensorType:
    """The type of a sum of products: the common dims of both operands without the summed ones."""
    element, dims = static
    types = tensors_of(args)
    for k, t in enumerate(types):
        if not isinstance(t.element, Scalar) or not t.element.is_number:
            raise refuse("T04", f"{t.element} stands where a number is needed.", "convert it: cast(x, float64).", at=k)
        if t.element.is_float and not element.is_float:
            message = f"products of {t.element} are not summed as {element}."
            raise refuse("T01", message, f"write contract({t.element}, ...).", at=k)
    if not element.is_number:
        raise refuse("T04", f"{element} stands where a number is needed.", "sum as float64 or int32, say.")
    common = bcast(types)
    for dim in dims:
        if dim not in common:
            message = f"no operand has the dim {dim}."
            raise refuse("T17", message, f"they have {', '.join(common.names) or 'no dims'}.")
    if len(set(dims)) != len(dims):
        raise refuse("T17", "a dim is summed over twice.", "name each dim once.")
    return TensorType(element, common.without(*dims))


def argreduce(static: Static, args: Operands) -> TensorType:
    """The type of (value, index) pairs on the operands' common dims without the folded one."""
    dim, _, ties, _ = static
    value, index, x, places = tensors_of(args)
    for position, t in enumerate((value, index, x, places)):
        if not isinstance(t.element, Scalar):
            raise refuse("T05", f"a tuple, {t.element}, cannot be compared.", "pass its members.", at=position)
    if ties not in TIES:
        raise refuse("T45", f"there is no rule {ties!r} for ties.", f"use {', '.join(TIES)}.")
    if (value.element, index.element) != (x.element, places.element):
        message = f"the fold starts from {value.element} at {index.element}, and finds {x.element} at {places.element}."
        raise refuse("T45", message, "cast what it starts from.", at=0)
    interval_of(x, dim, 2)
    interval_of(places, dim, 3)
    common = bcast([x, places])
    remaining = common.without(dim)
    return TensorType(TupleElement((value.element, index.element)), bcast([remaining, value, index]))


def materialise(static: Static, args: Operands) -> TensorType:
    (x,) = tensors_of(args)
    return x
