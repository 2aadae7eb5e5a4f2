"""Tensors, allocations and views; names of sizes; what TileLang calls otherwise than TVMScript; hints."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from dataclasses import replace

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.builtins import HINTS
from tensorir.tir.dtypes import BOOL, INT32, VOID, DataType
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.calls import Call, builtin
from tensorir.tir.script.calls_of_buffers import FIELDS, spec
from tensorir.tir.script.values import BufferSpec, DataTypeName, Form, Name, Value, describe, members, sizes_of
from tensorir.tir.tilelang.context import Context, Output, Unknown, Warps
from tensorir.tir.tilelang.expressions import beside
from tensorir.tir.tilelang.tiles import allocation, emitted


def compact(shape: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
    """The strides of a row-major tensor without gaps.

    >>> compact((const(4, INT32), const(3, INT32), const(2, INT32)))
    (6, 2, 1)
    """
    strides: list[n.Expr] = [const(1, INT32)] if shape else []
    for extent in reversed(shape[1:]):
        step = binary("*", extent, strides[-1]) if len(strides) == 1 else binary("*", strides[-1], extent)
        assert isinstance(step, n.Expr)
        strides.append(step)
    return tuple(reversed(strides))


# Tensors

_SCOPES = {"FragmentBuffer": "local.fragment", "SharedBuffer": "shared.dyn", "LocalBuffer": "local"}


def tensor(it: Context, call: Call) -> Value:
    """`T.Tensor((M, K), dtype)`: a parameter, or with `data` a view."""
    match call.name:
        case "Tensor":
            shape, dtype, data, scope = call.take("shape", "dtype", "data", "scope", required=1)
            shape = (shape,) if isinstance(shape, int | n.Expr) else shape
            call = replace(call, args=[shape], kwargs=_given(dtype=dtype, data=data, scope=scope))
        case "StridedTensor":
            shape, strides, dtype, scope, data = call.take("shape", "strides", "dtype", "scope", "data", required=2)
            call = replace(call, args=[shape], kwargs=_given(dtype=dtype, strides=strides, scope=scope, data=data))
        case _:
            if "scope" not in call.kwargs and call.name in _SCOPES:
                call = replace(call, kwargs={**call.kwargs, "scope": _SCOPES[call.name]})
    if call.kwargs.get("dtype") == Name("T", "ptr"):
        call.kwargs["dtype"] = "int64"
    made = spec(call, ("shape", "dtype", *FIELDS), "declare" if call.kwargs.get("data") is not None else "type")
    return replace(made, strides=compact(made.shape)) if call.name == "Tensor" else made


def _given(**values: Value) -> dict[str, Value]:
    return {key: value for key, value in values.items() if value is not None}


def empty(it: Context, call: Call) -> Value:
    """`T.empty((M, N), dtype)`, `T.empty(M, N, dtype=dtype)`"""
    args, dtype = list(call.args), call.kwargs.get("dtype")
    if args and members(args[0]) is not None:
        shape, dtype = args[0], args[1] if len(args) > 1 else dtype
    else:
        shape = args or call.kwargs.get("shape")
    return Output(it.reader.exprs(shape, call.node), call.dtype(dtype))


# Allocations


def alloc(it: Context, call: Call) -> Value:
    default = {
        "alloc_shared": "shared.dyn", "alloc_local": "local", "alloc_fragment": "local.fragment",
        "alloc_global": "global", "alloc_tmem": "shared.tmem",
    }[call.name]  # fmt: skip
    shape, dtype, scope = call.take("shape", "dtype", "scope", required=1)
    element = call.dtype(dtype)
    if element.is_void:
        call.fail("TS22", "a buffer has no elements of type void.")
    memory = default if scope is None else call.string(scope, "the scope")
    if call.name == "alloc_shared" and element.is_bool:
        memory = "shared"
    return allocation(it.reader.exprs(shape, call.node), element, memory, call)


def alloc_var(it: Context, call: Call) -> Value:
    """A variable: assignments to its name are stores."""
    dtype, *rest = call.args or [call.kwargs.get("dtype")]
    scope, first = call.kwargs.get("scope"), call.kwargs.get("init")
    for value in rest:
        if isinstance(value, str):
            scope = value
        else:
            first = value
    element = DataType("int", 64) if dtype == Name("T", "ptr") else call.dtype(dtype)
    memory = "local.var" if scope is None else call.string(scope, "the scope")
    made = allocation((const(1, INT32),), element, memory, call)
    return made if first is None else replace(made, annotations={"init": call.expr(first, element)})


def alloc_barrier(it: Context, call: Call) -> Value:
    """Barriers, and how many threads each of them awaits, which is stated of the block."""
    (count,) = call.take("arrive_count", required=1)
    counts = tuple(call.number(c, "how many threads arrive") for c in members(count) or [count])
    element, scope = DataType("uint", 64), "shared.barrier"
    data = n.Var("barrier", n.PointerType(n.PrimType(element), scope), call.span)
    _state(it, call, "barrier_init", data, counts)
    return replace(allocation((const(len(counts), INT32),), element, scope, call), data=data)


def _state(it: Context, call: Call, key: str, data: n.Var, facts: n.Attribute) -> None:
    """State a fact about memory of the block."""
    parts = it.body.blocks[-1].annotations
    known = parts.get(key)
    pairs = known.entries if isinstance(known, n.MemoryMap) else ()
    parts[key] = n.MemoryMap((*pairs, (data, facts)), call.span)


def barrier(it: Context, call: Call) -> Value:
    """`T.barrier_wait(b[k], parity)`, `T.barrier_arrive(b)`: what groups of threads say to each other."""
    name = _BARRIERS.get(call.name, call.name)
    given = call.args or list(call.kwargs.values())[:1]
    if not given:
        call.fail("TS24", f"T.{call.name} needs a barrier.")
    at = given[0]
    if isinstance(at, n.Buffer):
        at = n.BufferLoad(at, (const(0, INT32),), span=call.span)
    parity = [call.args[1] if len(call.args) > 1 else call.kwargs.get("parity", 0)] if "wait" in name else []
    return emitted(it, call, name, [at, *parity])


_BARRIERS = {
    "barrier_wait": "mbarrier_wait_parity", "mbarrier_arrive": "ptx_arrive_barrier",
    "barrier_arrive": "ptx_arrive_barrier",
}  # fmt: skip


def alloc_reducer(it: Context, call: Call) -> Value:
    """A reducer: what it joins by is stated of the block."""
    shape, dtype, op, replication = call.take("shape", "dtype", "op", "replication", required=2)
    kind = "sum" if op is None else call.string(op, "the operation")
    if kind not in ("sum", "max", "min", "bitand", "bitor", "bitxor"):
        it.fail(call.place(2, "op"), "TT02", f"there is no reduction {kind!r}.", "write sum, max, min, bitand, ...")
    sizes, element = it.reader.exprs(shape, call.node), call.dtype(dtype)
    scope = "local.reducer" if replication is None else "local.fragment"
    made = allocation(sizes, element, scope, call)
    data = n.Var("reducer", n.PointerType(n.PrimType(element), scope), call.span)
    key = "reducer_info_v2" if replication is None else "reducer_info"
    facts: dict[str, n.Attribute] = {}
    if replication is not None:
        facts["rep"] = call.string(replication, "the replication")
    facts["op"] = kind
    _state(it, call, key, data, facts)
    return replace(made, data=data)


def safe_value(it: Context, call: Call) -> Value:
    """`T.annotate_safe_value({A: -1})`: what a copy finds outside of A."""
    (given,) = call.take("safe_value_map", required=1)
    pairs: list[tuple[n.Var, n.Attribute]] = []
    if not isinstance(given, dict):
        call.fail("TS21", f"values are given by buffer, and this is {describe(given)}.")
    for buffer, value in typing.cast("dict[Value, Value]", given).items():
        if not isinstance(buffer, n.Buffer):
            call.fail("TS21", f"a buffer has a safe value, and this is {describe(buffer)}.")
        pairs.append((buffer.data, it.reader.attribute(value, call.node)))
    it.body.blocks[-1].annotations["safe_value_map"] = n.MemoryMap(tuple(pairs), call.span)
    return None


# Views


def view(it: Context, call: Call) -> Value:
    """`T.view(a, shape, dtype)`, `T.reshape(a, shape)`: the same memory with another shape, or another type."""
    source, shape, dtype, strides = call.take("src", "shape", "dtype", "strides", required=1)
    if not isinstance(source, n.Buffer):
        it.fail(call.place(0, "src"), "TS21", f"a buffer stands here, and this is {describe(source)}.")
    sizes = source.shape if shape is None else it.reader.exprs(shape, call.node)
    element = source.dtype if dtype is None else call.dtype(dtype)
    bits = [_bits(s, d) for s, d in ((source.shape, source.dtype), (sizes, element))]
    if None not in bits and bits[0] != bits[1]:
        message = f"{source.name!r} {sizes_of(source)} has {bits[0]} bits, and a view of {bits[1]} is taken."
        call.fail("TT03", message, "a view has the same bytes under another shape.")
    steps = compact(sizes) if strides is None else it.reader.exprs(strides, call.node)
    return BufferSpec(
        sizes, element, steps, None, source.scope, 0, 0, (), "", None, source.data, purpose="declare", span=call.span
    )


def pointed(it: Context, call: Call) -> Value:
    """`T.make_tensor(pointer, shape, dtype)`: a tensor behind a pointer."""
    data, shape, dtype, strides = call.take("ptr", "shape", "dtype", "strides", required=2)
    sizes = it.reader.exprs(shape, call.node)
    steps = compact(sizes) if strides is None else it.reader.exprs(strides, call.node)
    return BufferSpec(
        sizes,
        call.dtype(dtype),
        steps,
        None,
        "global",
        0,
        0,
        (),
        "",
        None,
        call.expr(data),
        purpose="declare",
        span=call.span,
    )


def _bits(shape: tuple[n.Expr, ...], dtype: DataType) -> int | None:
    total = dtype.bits
    for extent in shape:
        if not isinstance(extent, n.IntImm):
            return None
        total *= extent.value
    return total


# Sizes


def symbols(it: Context, call: Call) -> Value:
    """`T.dynamic("m, n")`, `T.const("M, N")`: sizes that arguments tell, or values that are given for their names."""
    if call.name == "const" and not isinstance(next(iter(call.args), None), str):
        return constant(it, call)
    given, dtype = call.take("name", "dtype", required=1)
    names = [name for name in re.split(r"[\s,]+", call.string(given, "the names")) if name]
    kind = call.dtype(dtype, INT32)
    found: list[Value] = []
    for name in names:
        value = it.given(name)
        known = it.symbols.get((it.function if call.name == "const" else "", name))
        made = known or n.Var(name, n.PrimType(kind), call.span)
        it.symbols[it.function if call.name == "const" else "", name] = made
        found.append(made if value is None else value)
    return found[0] if len(found) == 1 else tuple(found)


def dtype_of(it: Context, call: Call) -> Value:
    (given,) = call.take("dtype", required=1)
    return DataTypeName(call.dtype(given))


# Numbers


def reinterpret(it: Context, call: Call) -> Value:
    """TileLang takes the value first, or the data type."""
    if len(call.args) == 2 and isinstance(call.args[0], n.Expr):
        call = replace(call, args=call.args[::-1])
    return _plain(call)


def _plain(call: Call) -> Value:
    from tensorir.tir.script.calls import MAKERS as plain

    made = plain.get(call.name)
    return builtin(call) if made is None else made(call)


def cast(it: Context, call: Call) -> Value:
    """`T.cast(x, dtype)`; constants are constants of the type."""
    if len(call.args) == 2 and isinstance(call.args[0], bool | int | float):
        return const(call.args[0], call.dtype(call.args[1]), call.span)
    return _plain(call)


def power(it: Context, call: Call) -> Value:
    """Powers of constants are constants; those by a whole number are products."""
    base, exponent = call.take("x", "y", required=2)
    if isinstance(base, int | float) and isinstance(exponent, int | float):
        return binary("**", base, exponent)
    if isinstance(exponent, int):
        return emitted(it, call, "pow_of_int", [base, exponent])
    return _plain(replace(call, args=beside(base, exponent), kwargs={}))


def numbers(it: Context, call: Call) -> Value:
    """Numbers beside expressions have types of their own."""
    return _plain(replace(call, args=beside(*call.args)))


def constant(it: Context, call: Call) -> Value:
    value, dtype = call.take("value", "dtype", required=1)
    if not isinstance(value, bool | int | float):
        call.fail("TS21", f"a number stands here, and this is {describe(value)}.")
    return const(value, None if dtype is None else call.dtype(dtype), call.span)


def clamp(it: Context, call: Call) -> Value:
    value, low, high = call.take("dst", "min_val", "max_val", required=3)
    x = call.expr(value)
    return emitted(it, call, "clamp", [x, call.expr(low, x.dtype), call.expr(high, x.dtype)])


def bits(it: Context, call: Call) -> Value:
    """`T.floordiv` and its kin of constants are constants."""
    symbol = {"floordiv": "//", "floormod": "%", "ceildiv": ""}[call.name]
    a, b = call.take("a", "b", required=2)
    if isinstance(a, int) and isinstance(b, int):
        return binary(symbol, a, b) if symbol else binary("-", 0, binary("//", -a, b))
    return _plain(call)


def assume(it: Context, call: Call) -> Value:
    (condition,) = call.take("condition", required=1)
    return n.Call(BOOL, "assume", (it.reader.condition(condition, call.place(0, "condition")),), span=call.span)


def device_assert(it: Context, call: Call) -> Value:
    condition, message, _ = call.take("condition", "msg", "no_stack_info", required=1)
    held = it.reader.condition(condition, call.place(0, "condition"))
    text = "" if message is None else call.string(message, "the message")
    return n.Call(VOID, "device_assert_with_msg", (held, n.StringImm(text, call.span)), span=call.span)


def sync_threads(it: Context, call: Call) -> Value:
    further = [call.expr(a) for a in call.args]
    return n.Call(INT32, "tvm_storage_sync", (n.StringImm("shared", call.span), *further), span=call.span)


def loop_break(it: Context, call: Call) -> Value:
    return builtin(replace(call, name="break_loop"))


# Hints


def hint(it: Context, call: Call) -> Value:
    """Hints for hardware, without effect on values: they leave nothing."""
    return Form("hint", (), {}, call.span)


def layout(it: Context, call: Call) -> Value:
    return Unknown(f"T.{call.name}(...)")


def warps(it: Context, call: Call) -> Value:
    """`with T.ws(0):` groups of 128 threads: those that run what stands there."""
    if it.launch is None or it.launch.threads is None:
        call.fail(
            "TS26", "T.ws stands in a kernel that says how many threads it has.", "write T.Kernel(..., threads=256)."
        )
    tx = n.BufferLoad(it.threads[0], (const(0, INT32),), span=call.span)
    found: n.Expr | None = None
    for group in call.args:
        first = 128 * call.number(group, "the group")
        one = n.And(n.GE(tx, const(first, INT32)), n.LT(tx, const(first + 128, INT32)), call.span)
        found = one if found is None else n.Or(found, one, call.span)
    if found is None:
        call.fail("TS24", "T.ws names one group of threads or more.")
    return Warps(found)


def swizzle(it: Context, call: Call) -> Value:
    size, order, enable = call.take("panel_size", "order", "enable", required=1)
    if enable is False:
        return None
    kinds = {
        "row": "rasterization2DRow",
        "column": "rasterization2DColumn",
        "col": "rasterization2DColumn",
        "mlx": "rasterization2DMLX",
    }
    kind = kinds.get("row" if order is None else call.string(order, "the order"))
    if kind is None:
        it.fail(call.place(1, "order"), "TS21", "the order of blocks is 'row', 'column' or 'mlx'.")
    pattern = emitted(it, call, "tvm_tuple", [n.StringImm(kind, call.span), call.number(size, "the size")])
    return Form("attr", (None, "threadblock_swizzle_pattern", pattern), {}, call.span)


_LAYOUTS = ("Layout", "Fragment", "PartialFragment")
_SAID = (
    "annotate_layout", "annotate_l2_hit_ratio", "annotate_min_blocks_per_sm", "annotate_restrict_buffers",
    "annotate_ws_pipeline_depth", "annotate_ws_schedule", "annotate_compile_flags", "annotate_pass_configs",
    "import_source", "ws_op", "print",
)  # fmt: skip
"""What is said for the compiler of a backend; printing shows nothing."""

_FURTHER = (
    "tcgen05_mma_arrive", "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx", "mbarrier_arrive_expect_tx",
    "ptx_arrive_cluster_barrier", "cp_async_barrier_noinc",
)  # fmt: skip
"""Further calls by which threads arrive at barriers."""

MAKERS: dict[str, Callable[[Context, Call], Value]] = {
    **dict.fromkeys(("Tensor", "StridedTensor", "FragmentBuffer", "SharedBuffer", "LocalBuffer", "Buffer"), tensor),
    "empty": empty,
    **dict.fromkeys(("alloc_shared", "alloc_local", "alloc_fragment", "alloc_global", "alloc_tmem"), alloc),
    "alloc_var": alloc_var, "alloc_barrier": alloc_barrier, "alloc_cluster_barrier": alloc_barrier,
    "alloc_reducer": alloc_reducer, "annotate_safe_value": safe_value, "view": view, "reshape": view,
    **dict.fromkeys(("dynamic", "symbolic", "const"), symbols), "dtype": dtype_of, "reinterpret": reinterpret,
    "cast": cast, "Cast": cast, "pow": power, "clamp": clamp,
    **dict.fromkeys(("floordiv", "floormod", "ceildiv"), bits),
    "assume": assume, "device_assert": device_assert, "sync_threads": sync_threads, "use_swizzle": swizzle,
    "loop_break": loop_break, **dict.fromkeys((*HINTS, *_SAID), hint), **dict.fromkeys(_LAYOUTS, layout),
    **dict.fromkeys(("mbarrier_wait_parity", "barrier_wait", "mbarrier_arrive", "barrier_arrive", *_FURTHER), barrier),
    **dict.fromkeys(("atan2", "fmod"), numbers), "ws": warps, "make_tensor": pointed,
}  # fmt: skip
"""Those who read the rest, by name."""
