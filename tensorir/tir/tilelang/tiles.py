"""Tile operations as people write them: operands are buffers, slices and starts; each becomes a box with extents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT32, DataType
from tensorir.tir.script.arithmetic import binary, convert
from tensorir.tir.script.calls import Call, builtin
from tensorir.tir.script.forms import declare
from tensorir.tir.script.values import BufferSpec, Scalar, Value, describe, entries, sizes_of
from tensorir.tir.tilelang.context import Context

_MASKS = {"r": 1, "w": 2, "rw": 3}
Place = n.Buffer | n.BufferRegion | n.BufferLoad
Extents = tuple[n.Expr, ...]


def emitted(it: Context, call: Call, name: str, args: Sequence[Value], attrs: Mapping[str, Value] = {}) -> n.Expr:
    """The call of a builtin, as its printed form is read."""
    made = builtin(Call(it.reader, call.node, name, list(args), dict(attrs)))
    assert isinstance(made, n.Expr)
    return made


def allocation(shape: Extents, dtype: DataType, scope: str, call: Call) -> BufferSpec:
    """A buffer of the block."""
    return BufferSpec(shape, dtype, (), None, scope, 0, 0, (), "", None, purpose="block", span=call.span)


# Operands


def place(it: Context, call: Call, value: Value, position: int, name: str) -> Place:
    """An operand: a buffer, a slice, or the element that a box starts at."""
    if isinstance(value, Scalar):
        return n.BufferLoad(value.buffer, (const(0, INT32),), span=call.span)
    if isinstance(value, n.BufferLoad) and isinstance(meant := it.lets.get(value.buffer), n.BufferLoad):
        return meant
    if isinstance(value, n.Buffer | n.BufferRegion | n.BufferLoad):
        return value
    where = call.place(position, name)
    call.reader.fail(where, "TS21", f"a buffer, or a part of one, stands here, and this is {describe(value)}.")


def _extents(value: Value) -> Extents | None:
    """Extents along each dim; None of a single element, which gives only a start."""
    match value:
        case n.Buffer(shape=shape):
            return shape
        case n.BufferRegion(region=region):
            return tuple(r.extent for r in region)
        case n.BufferLoad(indices=indices) if any(isinstance(i, n.Ramp) for i in indices):
            return tuple(
                const(i.lanes, INT32) if isinstance(i, n.Ramp) and isinstance(i.lanes, int) else _one() for i in indices
            )
        case _:
            return None


def _one() -> n.Expr:
    return const(1, INT32)


def _starts(value: Place) -> tuple[n.Buffer, Extents]:
    match value:
        case n.Buffer(shape=shape):
            return value, tuple(const(0, INT32) for _ in shape)
        case n.BufferRegion(buffer, ranges):
            return buffer, tuple(r.min for r in ranges)
        case n.BufferLoad(buffer, indices):
            return buffer, tuple(i.base if isinstance(i, n.Ramp) else i for i in indices)


def region(it: Context, call: Call, value: Place, access: str, extents: Extents | None = None) -> n.Expr:
    """`T.region(A[i, j], 1, m, n)`; extents that are fewer than dims are those of the last."""
    buffer, starts = _starts(value)
    own = _extents(value) or tuple(_one() for _ in starts)
    found = own if extents is None else extents
    if len(found) < len(starts):
        found = (*(_one() for _ in range(len(starts) - len(found))), *found)
    if len(found) > len(starts):
        shown = " × ".join(str(e) for e in found)
        call.fail(
            "TT03", f"{buffer.name!r} has the shape {sizes_of(buffer)}, and a box of {shown} elements is taken here."
        )
    if isinstance(value, n.BufferRegion):
        found = tuple(_smaller(a, b) for a, b in zip(own, found, strict=True))
    start = n.BufferLoad(buffer, starts, span=value.span)
    return emitted(it, call, "region", [start, _MASKS[access], *found])


def _smaller(a: n.Expr, b: n.Expr) -> n.Expr:
    if a == b:
        return a
    made = binary("min", a, b)
    assert isinstance(made, n.Expr)
    return made


def paired(it: Context, call: Call, src: Place, dst: Place) -> tuple[n.Expr, n.Expr]:
    """The boxes of both sides: what one leaves out, the other tells."""
    a, b = _extents(src), _extents(dst)
    assert a is not None or b is not None
    x = list(a if a is not None else [_one()] * len(b or ()))
    y = list(b if b is not None else [_one()] * len(a or ()))
    wide = [sum(not _is_one(e) for e in side) for side in (x, y)]
    if wide[0] != wide[1]:
        for k in range(1, min(len(x), len(y)) + 1):
            if _is_one(x[-k]):
                x[-k] = y[-k]
            elif _is_one(y[-k]):
                y[-k] = x[-k]
            elif x[-k] != y[-k]:
                most = binary("max", x[-k], y[-k])
                assert isinstance(most, n.Expr)
                x[-k] = y[-k] = most
    return region(it, call, src, "r", tuple(x)), region(it, call, dst, "w", tuple(y))


def _is_one(extent: n.Expr) -> bool:
    return isinstance(extent, n.IntImm) and extent.value == 1


def _notes(it: Context, call: Call, value: Value, **more: Value) -> dict[str, Value]:
    """Notes of a call for the backend; strings and numbers stay with it."""
    found = {str(key): item for key, item in (entries(value) or {}).items()}
    return {**{k: v for k, v in more.items() if v is not None}, **found}


# Operations


def copy(it: Context, call: Call) -> Value:
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    names = ("coalesced_width", "annotations", "loop_layout", "disable_tma", "eviction_policy", "prefer_instruction",
             "barrier", "cluster_mask", "leader_scope_threads", "dst_block", "remote_barrier")  # fmt: skip
    first, second, *rest = call.take("src", "dst", *names, required=2)
    src, dst = place(it, call, first, 0, "src"), place(it, call, second, 1, "dst")
    if _extents(src) is None and _extents(dst) is None:
        assert isinstance(src, n.BufferLoad) and isinstance(dst, n.BufferLoad)
        return n.BufferStore(dst.buffer, convert(src, dst.buffer.dtype, call.span), dst.indices, None, call.span)
    if isinstance(src, n.Buffer) and isinstance(dst, n.Buffer) and not _same_shape(src.shape, dst.shape):
        message = f"{src.name!r} has the shape {sizes_of(src)}, and {dst.name!r} {sizes_of(dst)}."
        call.fail("TT03", message, "copy between equal shapes, or from a start: T.copy(A[i, j], a).")
    name = {"copy_cluster": "copy"}.get(call.name, call.name)
    told = {k: v for k, v in zip(names, rest, strict=True) if k == "coalesced_width"}
    boxes = paired(it, call, src, dst)
    return emitted(it, call, name, boxes, _notes(it, call, None, **told))


def _same_shape(a: Extents, b: Extents) -> bool:
    return len(a) == len(b) and all(
        x == y or not isinstance(x, n.IntImm) or not isinstance(y, n.IntImm) for x, y in zip(a, b, strict=True)
    )


def transpose(it: Context, call: Call) -> Value:
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    first, second, _ = call.take("src", "dst", "annotations", required=2)
    src, dst = place(it, call, first, 0, "src"), place(it, call, second, 1, "dst")
    return emitted(it, call, "transpose", [region(it, call, src, "r"), region(it, call, dst, "w")])


def fill(it: Context, call: Call) -> Value:
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    buffer, value, _ = call.take("buffer", "value", "annotations", required=1)
    if call.name == "fill" and value is None:
        call.fail("TS24", "T.fill needs 'value'.")
    box = region(it, call, place(it, call, buffer, 0, "buffer"), "w")
    return emitted(it, call, "fill", [box, 0 if call.name == "clear" else value])


_GEMMS = ("A", "B", "C", "transpose_A", "transpose_B", "policy", "clear_accum", "mbar", "annotations", "k_pack",
          "wg_wait", "use_2cta")  # fmt: skip


def gemm(it: Context, call: Call) -> Value:
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    found: dict[str, Value] = dict(zip(_GEMMS, call.take(*_GEMMS, required=3), strict=True))
    boxes = [place(it, call, found[name], k, name) for k, name in enumerate("ABC")]
    shapes: list[tuple[n.Expr, ...]] = [_extents(box) or () for box in boxes]
    turned = [bool(found["transpose_A"]), bool(found["transpose_B"])]
    for k, name in enumerate("ABC"):
        if len(shapes[k]) < 2 or not all(_is_one(e) for e in shapes[k][:-2]):
            it.fail(call.place(k, name), "TT03", f"{name} of T.gemm is a matrix, and this has {len(shapes[k])} dims.")
    a, b, c = (shape[-2:] for shape in shapes)
    rows, width = a[::-1] if turned[0] else a
    depth, columns = b[::-1] if turned[1] else b
    for which, have, want in (("M", rows, c[0]), ("N", columns, c[1]), ("K", depth, width)):
        if have != want and isinstance(have, n.IntImm) and isinstance(want, n.IntImm):
            shown = ", ".join(f"{m} is {' × '.join(map(str, s))}" for m, s in zip("ABC", shapes, strict=True))
            message = f"the operands of T.gemm do not fit: {which} is {have.value} and {want.value}."
            call.fail("TT03", message, f"{shown}; transpose_A and transpose_B turn operands around.")
    policy = 0 if found["policy"] is None else found["policy"]
    clear = False if found["clear_accum"] is None else found["clear_accum"]
    accesses = ("r", "r", "w" if clear is True else "rw")
    args: list[Value] = [region(it, call, box, access) for box, access in zip(boxes, accesses, strict=True)]
    args += [_bool(turned[0]), _bool(turned[1]), *c, width, policy]
    barrier = found["mbar"]
    args += [
        _bool(clear) if isinstance(clear, bool) else clear,
        0 if barrier is None else _start(place(it, call, barrier, 7, "mbar")),
    ]
    _, starts = _starts(boxes[2])
    name = "gemm" if call.name.startswith("gemm") else call.name
    return emitted(it, call, name, [*args, *starts[-2:]])


def _bool(value: bool) -> n.Expr:
    return n.IntImm(int(value), DataType("uint", 1))


def reduce(it: Context, call: Call) -> Value:
    """`T.reduce_max(x, out, dim, clear)`; what lies in shared memory goes through a fragment, as TileLang has it."""
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    kind = call.name.removeprefix("reduce_")
    if kind == "reduce":
        first, second, which, dim, clear, *_ = call.take(
            "buffer", "out", "reduce_type", "dim", "clear", "batch", "annotations", "nan_propagate", required=3
        )
        kind, nan = call.string(which, "the reduction"), None
    elif kind == "abssum":
        first, second, dim, *_ = call.take("buffer", "out", "dim", "batch", "annotations", required=2)
        clear = nan = None
    else:
        first, second, dim, clear, _, _, nan = call.take(
            "buffer", "out", "dim", "clear", "batch", "annotations", "nan_propagate", required=2
        )
    src, dst = place(it, call, first, 0, "buffer"), place(it, call, second, 1, "out")
    rank = len(_starts(src)[1])
    axis = -1 if dim is None else call.number(dim, "the dim")
    if not -rank <= axis < rank:
        it.fail(call.place(2, "dim"), "TT03", f"dim {axis} is reduced, and {_starts(src)[0].name!r} has {rank}.")
    fresh = clear is None or bool(clear)
    inside, outside = _starts(src)[0], _starts(dst)[0]
    whole, kept = src, dst
    if inside.scope.startswith("shared"):
        whole = _fragment(it, call, inside.name, _extents(src) or (), inside.dtype)
    if outside.scope.startswith("shared"):
        kept = _fragment(it, call, outside.name, _extents(dst) or (), outside.dtype)
        if not fresh:
            _emit(it, call, "copy", paired(it, call, dst, kept))
    if whole is not src:
        _emit(it, call, "copy", paired(it, call, src, whole))
    attrs: dict[str, Value] = {} if not nan else {"nan_propagate": True}
    _emit(
        it,
        call,
        "reduce",
        [region(it, call, whole, "r"), region(it, call, kept, "w"), kind, axis % rank, _bool(fresh)],
        attrs,
    )
    if kept is not dst:
        _emit(it, call, "copy", paired(it, call, kept, dst))
    return None


def _fragment(it: Context, call: Call, name: str, shape: Extents, dtype: DataType) -> n.Buffer:
    return declare(it.body, allocation(shape, dtype, "local.fragment", call), f"{name}_frag", call.node)


def _emit(it: Context, call: Call, name: str, args: Sequence[Value], attrs: Mapping[str, Value] = {}) -> None:
    it.body.emit(n.Evaluate(emitted(it, call, name, args, attrs), call.span))


def scan(it: Context, call: Call) -> Value:
    """Running sums and maxima; of a fragment through shared memory, as TileLang has it."""
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    first, second, dim, reverse, _ = call.take("src", "dst", "dim", "reverse", "annotations", required=1)
    src = place(it, call, first, 0, "src")
    dst = src if second is None else place(it, call, second, 1, "dst")
    buffer, starts = _starts(src)
    axis = 0 if dim is None else call.number(dim, "the dim")
    if not -len(starts) <= axis < len(starts):
        message = f"T.{call.name} runs along dim {axis}, and {buffer.name!r} has {len(starts)}."
        it.fail(call.place(2, "dim"), "TT03", message)
    told = [axis % len(starts), _bool(bool(reverse))]
    if buffer.scope != "local.fragment":
        return emitted(it, call, call.name, [region(it, call, src, "r"), region(it, call, dst, "w"), *told])
    shared = declare(it.body, allocation(_extents(src) or (), buffer.dtype, "shared.dyn", call), "scan_smem", call.node)
    _emit(it, call, "copy", paired(it, call, src, shared))
    _emit(it, call, call.name, [region(it, call, shared, "r"), region(it, call, shared, "w"), *told])
    _emit(it, call, "copy", paired(it, call, shared, dst))
    return None


def im2col(it: Context, call: Call) -> Value:
    if len(call.args) > 1 and isinstance(call.args[1], n.Call):
        return builtin(call)
    names = (
        "img",
        "col",
        "nhw_step",
        "c_step",
        "kernel",
        "stride",
        "dilation",
        "pad",
        "eviction_policy",
        "annotations",
    )
    image, column, *numbers = call.take(*names, required=8)
    src, dst = place(it, call, image, 0, "img"), place(it, call, column, 1, "col")
    return emitted(it, call, call.name, [region(it, call, src, "r"), region(it, call, dst, "w"), *numbers[:6]])


# Reducers


def reducer_init(it: Context, call: Call) -> Value:
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    reducer, value = call.take("reducer", "init", required=1)
    box = region(it, call, place(it, call, reducer, 0, "reducer"), "w")
    if value is None:
        return emitted(it, call, "reducer_init", [box])
    buffer, _ = _starts(place(it, call, reducer, 0, "reducer"))
    start = it.reader.numeric(call.expr(value, buffer.dtype), call.place(1, "init"), "what a reducer starts from")
    return emitted(it, call, "reducer_init", [box, start])


def reducer_update(it: Context, call: Call) -> Value:
    target, value = call.take("target", "value", required=2)
    if not isinstance(target, n.BufferLoad):
        it.fail(call.place(0, "target"), "TS21", f"T.reducer_update takes acc[i], and this is {describe(target)}.")
    dtype = target.buffer.dtype
    return emitted(it, call, "reducer_update", [target, convert(call.expr(value, dtype), dtype, call.span)])


def finalize_reducer(it: Context, call: Call) -> Value:
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    reducer, dst, _, _ = call.take("reducer", "dst", "batch", "annotations", required=1)
    acc = place(it, call, reducer, 0, "reducer")
    if dst is None:
        return emitted(it, call, "finalize_reducer", [region(it, call, acc, "w")])
    boxes = [region(it, call, acc, "rw"), region(it, call, place(it, call, dst, 1, "dst"), "w")]
    return emitted(it, call, "finalize_reducer_v2", boxes)


# Atomic updates


_ORDERS = {"relaxed": 0, "consume": 1, "acquire": 2, "release": 3, "acq_rel": 4, "seq_cst": 5}


def atomic(it: Context, call: Call) -> Value:
    """`T.atomic_add(dst, value)`: of one element by its address, of boxes as a tile operation."""
    kind = call.name.removeprefix("atomic_")
    if call.args and isinstance(call.args[0], n.Call):
        return builtin(call)
    target, value, order, previous, _, _ = call.take(
        "dst", "value", "memory_order", "return_prev", "annotations", "use_tma", required=2
    )
    dst = place(it, call, target, 0, "dst")
    number = None if order is None else _ORDERS.get(call.string(order, "the order of memory"))
    if _extents(dst) is None and _extents(value) is None:
        assert isinstance(dst, n.BufferLoad)
        name = f"atomic_{kind}_ret_elem_op" if previous else f"atomic_{kind}_elem_op"
        further = [] if number is None and kind == "add" else [number or 0]
        pointer = emitted(it, call, "access_ptr", [dst, 1, 3])
        return emitted(it, call, name, [pointer, call.expr(value, dst.buffer.dtype), *further])
    if previous:
        call.fail("TS24", "the old values of a box are not given.", "update elements one by one, in T.Parallel.")
    attrs: dict[str, Value] = {} if number is None else {"memory_order": number}
    if _extents(value) is None and not isinstance(value, n.BufferLoad):
        fresh = _extents(dst) or ()
        src = _fragment(it, call, "value", fresh, _starts(dst)[0].dtype)
        _emit(it, call, "fill", [region(it, call, src, "w"), value])
        return emitted(it, call, f"atomic{kind}", paired(it, call, src, dst), attrs)
    return emitted(it, call, f"atomic{kind}", paired(it, call, place(it, call, value, 1, "value"), dst), attrs)


def wide_atomic(it: Context, call: Call) -> Value:
    """`T.atomic_addx2`: of as many neighbouring elements."""
    target, value, previous = call.take("dst", "value", "return_prev", required=2)
    if previous:
        call.fail("TS24", "the old values of several elements are not given.", "update them one by one.")
    first, second = (place(it, call, v, k, "dst") for k, v in enumerate((target, value)))
    pointers = [emitted(it, call, "access_ptr", [_start(v), 1, mask]) for v, mask in ((first, 3), (second, 1))]
    return emitted(it, call, f"{call.name}_elem_op", pointers)


def _start(value: Place) -> n.BufferLoad:
    buffer, starts = _starts(value)
    return n.BufferLoad(buffer, starts, span=value.span)


def atomic_store(it: Context, call: Call) -> Value:
    target, value, order = call.take("dst", "src", "memory_order", required=2)
    dst = place(it, call, target, 0, "dst")
    number = _ORDERS.get("seq_cst" if order is None else call.string(order, "the order of memory"), 5)
    pointer = emitted(it, call, "access_ptr", [_start(dst), 1, 2])
    return emitted(it, call, "atomic_store_elem_op", [pointer, call.expr(value, _starts(dst)[0].dtype), number])


def any_of(it: Context, call: Call) -> Value:
    (given,) = call.take("buffer", required=1)
    found = place(it, call, given, 0, "buffer")
    count: Value = 1
    for extent in _extents(found) or ():
        count = binary("*", count, extent)
    size = call.expr(count)
    return emitted(it, call, call.name, [emitted(it, call, "access_ptr", [_start(found), size, 1]), size])


def access_ptr(it: Context, call: Call) -> Value:
    """`T.access_ptr(A[i, j], "rw")`, which printed has how many elements, and a mask."""
    if len(call.args) == 3 and isinstance(call.args[2], int) and not isinstance(call.args[1], str):
        return builtin(call)
    rest = call.args[2:]
    base, given, size = replace(call, args=call.args[:2]).take("base", "access_type", "extent", required=1)
    mask = _MASKS.get(given, 3) if isinstance(given, str) else 1 if given is None else given
    start = _start(place(it, call, base, 0, "base"))
    if size is None:
        size = 1
        for extent in rest:
            size = binary("*", size, extent)
    return emitted(it, call, "access_ptr", [start, call.expr(size), mask])


_REDUCTIONS = ("sum", "abssum", "max", "min", "absmax", "bitand", "bitor", "bitxor")
Maker = Callable[[Context, Call], Value]
MAKERS: dict[str, Maker] = {
    **dict.fromkeys(("copy", "async_copy", "tma_copy", "copy_cluster"), copy), "transpose": transpose,
    **dict.fromkeys(("fill", "clear"), fill),
    **dict.fromkeys(("gemm", "gemm_v1", "gemm_v2", "wgmma_gemm", "tcgen05_gemm"), gemm),
    **dict.fromkeys(("reduce", *(f"reduce_{kind}" for kind in _REDUCTIONS)), reduce),
    **dict.fromkeys(("cumsum", "cummax"), scan), **dict.fromkeys(("im2col", "c2d_im2col"), im2col),
    "reducer_init": reducer_init, "reducer_update": reducer_update, "finalize_reducer": finalize_reducer,
    **dict.fromkeys(("atomic_add", "atomic_max", "atomic_min"), atomic),
    **dict.fromkeys(("atomic_addx2", "atomic_addx4"), wide_atomic), "atomic_store": atomic_store,
    **dict.fromkeys(("any_of", "all_of"), any_of), "access_ptr": access_ptr,
}  # fmt: skip
"""Those who read tile operations, by name."""
