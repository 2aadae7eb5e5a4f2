"""The table of builtins, functions of libraries, and the words for threads, barriers and launches.

Functions of mathematics under the names that libraries have for them: `expf`, `hexp`, `__expf`, `llvm.exp`.

TVM's pass LowerIntrin puts calls of the target's library in the place of its builtins, CUDA's warp shuffles among them,
and kernels for CUDA call `atomicAdd` by name. What they compute is what the builtins do.

>>> from tensorir.tir.dtypes import FLOAT32
>>> from tensorir.tir.nodes import Call, FloatImm, PrimType, StringImm
>>> one = FloatImm(1.0, PrimType(FLOAT32).dtype)
>>> builtin_of(Call(one.dtype, "call_pure_extern", (StringImm("expf"), one)))
T.exp(T.float32(1.0))

The table of builtins: what `Call(op="exp")` is called in text, what type it has, which effects, and what it means.

Parser, printer, checker and interpreter read these rows. A name that is in no row and begins like an intrinsic of a
device (`ptx_...`, `cuda. ...`) is kept as an opaque call with the meaning "GPU only".

>>> BUILTINS["rsqrt"].effect.name, BUILTINS["rsqrt"].result.name, BUILTINS["rsqrt"].arity
('PURE', 'FIRST', 1)
>>> find("tvm_call_packed").name, find("cuda.mma_fill").meaning, find("exq")
('call_packed', 'GPU only', None)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import TypeVar

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import HANDLE, INT32, DataType
from tensorir.tir.nodes import (
    EQ,
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Node,
    Select,
    StringImm,
    Sub,
)
from tensorir.tir.rounding import rounded
from tensorir.tir.trees import transform, walk

_EXCHANGES = {
    "cuda.__shfl_sync": "tvm_warp_shuffle",
    "cuda.__shfl_up_sync": "tvm_warp_shuffle_up",
    "cuda.__shfl_down_sync": "tvm_warp_shuffle_down",
    "cuda.__shfl_xor_sync": "tvm_warp_shuffle_xor",
    "cuda.__activemask": "tvm_warp_activemask",
}
"""What threads of a warp do together, by CUDA's name; a warp has 32 of them there."""

N = TypeVar("N", bound=Node)

_FUNCTIONS = {
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "sin", "cos", "tan", "asin",
    "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc",
    "nearbyint", "fabs", "fmod", "hypot", "copysign", "nextafter", "ldexp", "fma", "isnan",
}  # fmt: skip
"""Those that C's library and the builtins call alike; C has one per element type, `expf` and `exp`."""
_OTHERS = {
    "rint": "nearbyint", "__popc": "popcount", "__popcll": "popcount", "__clz": "clz", "__clzll": "clz",
    "atomicAdd": "atomic_add", "atomicMax": "atomic_max", "atomicMin": "atomic_min",
}  # fmt: skip
_ELEMENTS = {
    **{f"atomic_{word}_elem_op": f"atomic_{word}" for word in ("add", "max", "min", "store")},
    **{f"atomic_{word}_ret_elem_op": f"atomic_{word}" for word in ("add", "max", "min")},
}
"""TileLang's atomic updates of one element, whose orders of memory say nothing about values."""
_LLVM = {"ctpop": "popcount", "ctlz": "clz", "rint": "nearbyint", "roundeven": "nearbyint"}
_CALLS = frozenset(("call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin"))


def builtin_of(call: Call) -> Expr | None:
    """The call of a builtin, or the expression, that a call of a library's function is; None for other calls."""
    match call.op, call.args:
        case str(op), (Call(op="access_ptr", args=(BufferLoad() as place, *_)), Expr() as value, *_) if op in _ELEMENTS:
            to = Call(HANDLE, "address_of", (place,), span=place.span)
            return replace(call, dtype=place.dtype, op=_ELEMENTS[op], args=(to, _as(value, place.dtype)), attrs={})
        case "clamp", (Expr() as x, Expr() as low, Expr() as high):
            return Min(Max(x, low, call.span), high, call.span)
        case "fast_rcp", (Expr() as x,):
            return Div(FloatImm(1.0, x.dtype), x, call.span)
        case "pow_of_int", (Expr() as x, IntImm(power)):
            return replace(call, op="pow", args=(x, FloatImm(float(power), x.dtype)) if x.dtype.is_float else call.args)
        case str(op), _ if op.startswith("ieee_"):
            return rounded(call)
        case str(op), arguments if op in _EXCHANGES:
            warp = (IntImm(32, INT32),) if arguments else ()
            return replace(call, op=_EXCHANGES[op], args=(*arguments, *warp))
        case str(op), (StringImm(title), *arguments) if op in _CALLS:
            if call.dtype.is_void or call.dtype.is_handle:
                return None
        case _:
            return None
    name = _builtin(title, call.dtype.element.numpy.name)
    values = [a for a in arguments if isinstance(a, Expr)]
    if title.startswith("llvm.fmuladd") and len(values) == len(arguments) == 3:
        a, b, c = values
        return Add(Mul(a, b, call.span), c, call.span)
    if len(values) == len(arguments) == 1 and (
        title in ("round", "roundf") or title.split(".")[:2] == ["llvm", "round"]
    ):
        return _away_from_zero(values[0], call)
    if name is None:
        return None
    # whether zero has leading zeros is all that the second argument says
    kept = arguments[:1] if title.startswith("llvm.ctlz") else arguments
    return replace(call, op=name, args=tuple(kept))


def _as(value: Expr, dtype: DataType) -> Expr:
    return value if value.dtype == dtype else Cast(value, dtype, value.span)


def _away_from_zero(x: Expr, call: Call) -> Expr:
    """C's `round`, which takes halves away from zero: `T.round` takes them to even numbers."""

    def of(name: str, *args: Expr) -> Expr:
        return replace(call, op=name, args=args)

    whole = of("trunc", x)
    # twice the rest is exact, and its whole part tells whether it is a half or more
    rest = Mul(FloatImm(2.0, call.dtype), Sub(x, whole, call.span), call.span)
    nearest = of("copysign", Add(whole, of("trunc", rest), call.span), x)
    return Select(EQ(x, whole, call.span), x, nearest, call.span)


def with_exchanges(kernel: N) -> N:
    """A kernel whose threads hand values around by the builtins' names, whatever names it has for them."""
    if any(isinstance(part, Call) and part.op in _EXCHANGES for part in walk(kernel)):
        return transform(kernel, lambda node: builtin_of(node) if isinstance(node, Call) else None)
    return kernel


def _builtin(title: str, element: str) -> str | None:
    """The builtin that computes what a library's function does for an element type; None where nobody knows."""
    if title.startswith("llvm."):
        name = title.split(".")[1]
        return name if name in _FUNCTIONS else _LLVM.get(name)
    names = [title, title.removesuffix("f"), title.removeprefix("__").removesuffix("f")]
    if element == "float16":
        names.append(title.removeprefix("h"))
    return next((_OTHERS.get(n, n) for n in names if n in _FUNCTIONS or n in _OTHERS), None)


# Barriers of kernels: who waits at `T.tvm_storage_sync(scope)`.
#
# TVM puts one of scope "warp" between the steps of a reduction by the threads of a warp, also where a condition
# leaves out others; CUDA needs nothing there, or `__syncwarp`.


def awaits_block(call: n.Call) -> bool:
    """True if all threads of a block wait for each other at a barrier, and not only those of a warp."""
    return not (call.args and call.args[0] == n.StringImm("warp"))


# `T.call_ffi_kernel`, which `SplitHostDevice` puts in the place of a kernel: a call of a function of the module.


def launched(call: n.Call, module: n.IRModule | None) -> n.Call | None:
    """The call of the kernel that a launch names; None where the module has none of that name.

    What follows the kernel's arguments are the numbers of its blocks and threads, which its own text has too.
    """
    functions: Mapping[str, object] = {} if module is None else module.functions
    match call.op, call.args:
        case "call_ffi_kernel", (n.StringImm(name), *arguments) if isinstance(
            callee := functions.get(name), n.PrimFunc
        ):
            return replace(call, op=n.GlobalVar(name), args=tuple(arguments[: len(callee.params)]), attrs={})
        case _:
            return None


# Tags: the names of the indices of the hardware that loops are bound to.


def is_hardware(tag: str) -> bool:
    """True if a tag names a hardware index; virtual threads are loops."""
    return not tag.startswith(("vthread", "cthread"))


def is_block(tag: str) -> bool:
    """True if a tag names an index of blocks, not one of the threads in them."""
    return tag.startswith(("blockIdx", "clusterIdx"))


GPU_ONLY = "GPU only"
EXTERNAL = "external"
INTERPRETER = "interpreter"
TILES = "tile operation"
ELIDED = "left out"
HINT = "hint"

HINTS = (
    "no_set_max_nreg", "set_max_nreg", "inc_max_nreg", "dec_max_nreg", "disable_warp_group_reg_alloc",
    "annotate_producer_reg_dealloc", "annotate_consumer_reg_alloc", "wait_wgmma", "warpgroup_arrive",
    "warpgroup_commit_batch", "warpgroup_wait", "warpgroup_fence_operand", "fence_proxy_async", "tma_store_arrive",
    "tma_store_wait", "mbarrier_wait_parity", "mbarrier_arrive", "mbarrier_expect_tx", "mbarrier_arrive_expect_tx",
    "barrier_wait", "barrier_arrive", "create_list_of_mbarrier", "ptx_wait_group", "ptx_commit_group",
    "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx", "ptx_arrive_cluster_barrier", "cp_async_barrier_noinc",
    "ptx_cp_async_barrier", "ptx_fence_barrier_init", "tcgen05_mma_arrive", "tcgen05_before_thread_sync",
    "tcgen05_after_thread_sync", "deallocate_tmem", "pdl_trigger", "pdl_sync", "named_barrier_arrive", "cluster_sync",
    "cluster_arrive", "cluster_wait", "fence_barrier_init", "wgmma_fence",
)  # fmt: skip
"""TileLang's calls that say how hardware runs a kernel: registers, and barriers of copies that are whole here."""


class Effect(Enum):
    """TIR's categories of effects."""

    EXPR_ANNOTATION = "kExprAnnotation"
    PURE = "kPure"
    READ_STATE = "kReadState"
    UPDATE_STATE = "kUpdateState"
    OPAQUE = "kOpaque"
    SPECIAL_CALL_ARG = "kSpecialCallArg"
    EMBED_INFO = "kEmbedInfo"
    CONTROL_JUMP = "kControlJump"


class Result(Enum):
    """The rule by which the data type of a call follows from its arguments."""

    FIRST = "the type of the first argument"
    SECOND = "the type of the second argument"
    BOOL = "bool, with the lanes of the first argument"
    EXPLICIT = "the type that the text gives"
    INT32 = "int32"
    UINT32 = "uint32"
    HANDLE = "handle"
    VOID = "void"
    DOUBLED = "the first argument's element, lanes doubled"


class Operands(Enum):
    """The rule for the arguments that the checker applies."""

    ANY = "anything"
    FLOAT = "floating-point numbers, all of one type"
    NUMBER = "numbers, all of one type"
    INTEGER = "integers, all of one type"
    SHIFT = "integers of one type, the second at least 0 and below the width"
    BOOL_FIRST = "a bool, then two values of one type"


@dataclass(frozen=True, slots=True)
class Builtin:
    """One row. `dtype` says where TVMScript writes the type: "first", "last", under the keyword "ret_ty", or nowhere.

    `meaning` names a NumPy function (or one of `interpret`'s own), or is "interpreter", "tile operation" (they have a
    table of their own, `tensorir.tir.tiles`), "GPU only" or "external".
    """

    name: str
    spellings: tuple[str, ...] = ()
    arity: int | None = None
    operands: Operands = Operands.ANY
    result: Result = Result.FIRST
    dtype: str = ""
    effect: Effect = Effect.PURE
    meaning: str = INTERPRETER


def _floats(arity: int, names: str) -> list[Builtin]:
    """Rows for functions of floats: `name` or `name=numpy_name`."""
    pairs = [item.partition("=") for item in names.split()]
    return [
        Builtin(name, arity=arity, operands=Operands.FLOAT, meaning=f"numpy.{numpy or name}")
        for name, _, numpy in pairs
    ]


def _rows(
    names: str,
    *,
    effect: Effect,
    result: Result = Result.EXPLICIT,
    meaning: str = INTERPRETER,
    arity: int | None = None,
    dtype: str = "",
    operands: Operands = Operands.ANY,
) -> list[Builtin]:
    """Rows that share all but the name; `name=a,b` gives further spellings."""
    pairs = [item.partition("=") for item in names.split()]
    return [
        Builtin(name, tuple(filter(None, other.split(","))), arity, operands, result, dtype, effect, meaning)
        for name, _, other in pairs
    ]


_TABLE: list[Builtin] = [
    # mathematics
    # CUDA's fast ones, __exp, have fewer digits there and are these here
    *[
        Builtin(n, (f"__{n}",), 1, Operands.FLOAT, meaning=f"numpy.{n}")
        for n in ("exp", "log", "log2", "log10", "sin", "cos", "tan")
    ],
    *_floats(1, "exp2 log1p sqrt sinh cosh tanh"),
    *_floats(1, "asin=arcsin acos=arccos atan=arctan asinh=arcsinh acosh=arccosh atanh=arctanh"),
    *_floats(2, "atan2=arctan2 hypot copysign nextafter fmod"),
    *_rows(
        "exp10=__exp10 erf sigmoid rsqrt", arity=1, operands=Operands.FLOAT, result=Result.FIRST, effect=Effect.PURE
    ),
    *_rows("ldexp", arity=2, result=Result.FIRST, effect=Effect.PURE, meaning="numpy.ldexp"),
    *_rows("fma", arity=3, operands=Operands.FLOAT, result=Result.FIRST, effect=Effect.PURE),
    *_rows("round nearbyint", arity=1, operands=Operands.NUMBER, result=Result.FIRST, effect=Effect.PURE),
    *[Builtin(n, arity=1, operands=Operands.NUMBER, meaning=f"numpy.{n}") for n in ("floor", "ceil", "trunc")],
    Builtin("fabs", ("abs",), arity=1, operands=Operands.NUMBER, meaning="numpy.abs"),
    Builtin("pow", ("power",), arity=2, operands=Operands.NUMBER, meaning="numpy.power"),
    *[
        Builtin(n, arity=1, operands=Operands.NUMBER, result=Result.BOOL, meaning=f"numpy.{n}")
        for n in ("isnan", "isinf", "isfinite")
    ],
    # bits
    Builtin("bitwise_and", ("BitwiseAnd",), 2, Operands.INTEGER, meaning="numpy.bitwise_and"),
    Builtin("bitwise_or", ("BitwiseOr",), 2, Operands.INTEGER, meaning="numpy.bitwise_or"),
    Builtin("bitwise_xor", ("BitwiseXor",), 2, Operands.INTEGER, meaning="numpy.bitwise_xor"),
    Builtin("bitwise_not", ("BitwiseNot",), 1, Operands.INTEGER, meaning="numpy.invert"),
    Builtin("shift_left", ("LShift",), 2, Operands.SHIFT, meaning="numpy.left_shift"),
    Builtin("shift_right", ("RShift",), 2, Operands.SHIFT, meaning="numpy.right_shift"),
    *_rows("popcount=ctpop clz", arity=1, operands=Operands.INTEGER, result=Result.FIRST, effect=Effect.PURE),
    *_rows("q_multiply_shift", arity=4, operands=Operands.INTEGER, result=Result.FIRST, effect=Effect.PURE),
    *_rows("q_multiply_shift_per_axis", arity=7, result=Result.FIRST, effect=Effect.PURE),
    *_rows("dp4a", result=Result.EXPLICIT, dtype="first", effect=Effect.PURE),
    # selection, hints, reinterpretation, vectors
    *_rows("if_then_else", arity=3, operands=Operands.BOOL_FIRST, result=Result.SECOND, effect=Effect.PURE),
    *_rows("likely", arity=1, result=Result.FIRST, effect=Effect.EXPR_ANNOTATION),
    *_rows("tvm_thread_invariant", arity=1, result=Result.FIRST, effect=Effect.PURE),
    *_rows("ignore_loop_partition", arity=1, result=Result.FIRST, effect=Effect.PURE),
    *_rows("assume", arity=1, operands=Operands.ANY, result=Result.BOOL, effect=Effect.EMBED_INFO),
    *_rows("undef", arity=0, result=Result.INT32, effect=Effect.READ_STATE),
    *_rows("reinterpret", arity=1, dtype="first", effect=Effect.PURE),
    *_rows("vectorlow vectorhigh vectorcombine", dtype="first", effect=Effect.PURE),
    *_rows("vscale", arity=0, result=Result.INT32, effect=Effect.PURE),
    *_rows("get_active_lane_mask", arity=2, dtype="first", effect=Effect.PURE),
    *_rows("masked_load", dtype="first", effect=Effect.READ_STATE),
    *_rows("masked_store", result=Result.VOID, effect=Effect.OPAQUE),
    *_rows("type_annotation", arity=0, dtype="first", effect=Effect.PURE),
    *_rows("large_uint_imm", arity=2, dtype="first", effect=Effect.PURE),
    *_rows("isnullptr", arity=1, result=Result.BOOL, effect=Effect.PURE),
    # control
    *_rows("ret thread_return", result=Result.FIRST, effect=Effect.CONTROL_JUMP),
    *_rows("continue_loop break_loop=loop_break", arity=0, result=Result.VOID, effect=Effect.CONTROL_JUMP),
    # memory
    *_rows("address_of", arity=1, result=Result.HANDLE, effect=Effect.PURE),
    *_rows("tvm_access_ptr", arity=5, result=Result.HANDLE, effect=Effect.SPECIAL_CALL_ARG),
    *_rows("access_ptr buffer_data", result=Result.HANDLE, effect=Effect.PURE),
    *_rows("buffer_offset", arity=2, result=Result.INT32, effect=Effect.PURE),
    *_rows("ptr_byte_offset", arity=3, result=Result.HANDLE, effect=Effect.PURE),
    *_rows("handle_add_byte_offset", arity=2, result=Result.HANDLE, effect=Effect.PURE),
    *_rows("tvm_storage_sync", result=Result.INT32, effect=Effect.OPAQUE),
    *_rows("tvm_thread_allreduce", result=Result.HANDLE, effect=Effect.OPAQUE),
    *_rows(
        "tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down",
        arity=5,
        effect=Effect.OPAQUE,
        result=Result.SECOND,
    ),
    *_rows("tvm_warp_shuffle_xor", effect=Effect.OPAQUE, result=Result.SECOND),
    *_rows("tvm_warp_activemask cuda.__activemask", arity=0, result=Result.UINT32, effect=Effect.OPAQUE),
    *_rows(
        "cuda.__shfl_sync cuda.__shfl_up_sync cuda.__shfl_down_sync cuda.__shfl_xor_sync",
        arity=4,
        effect=Effect.OPAQUE,
        result=Result.SECOND,
    ),
    *_rows("atomic_add", result=Result.SECOND, effect=Effect.OPAQUE),
    *_rows("atomic_max atomic_min atomic_addx2 atomic_load atomic_store", result=Result.SECOND, effect=Effect.OPAQUE),
    # calls and TVM's objects
    Builtin("call_packed", ("tvm_call_packed",), result=Result.INT32, effect=Effect.OPAQUE, meaning=EXTERNAL),
    Builtin("call_cpacked", ("tvm_call_cpacked",), result=Result.INT32, effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("call_packed_lowered=tvm_call_packed_lowered", result=Result.INT32, effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows(
        "call_cpacked_lowered=tvm_call_cpacked_lowered", result=Result.INT32, effect=Effect.OPAQUE, meaning=EXTERNAL
    ),
    *_rows("tvm_call_trace_packed tvm_call_trace_packed_lowered", effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("call_extern call_llvm_intrin", dtype="first", effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("call_ffi_kernel", dtype="ret_ty", effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("call_pure_extern call_llvm_pure_intrin", dtype="first", effect=Effect.PURE, meaning=EXTERNAL),
    *_rows("call_spirv_pure_glsl450", effect=Effect.PURE, meaning=GPU_ONLY),
    *_rows("lookup_param", result=Result.HANDLE, effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("tvm_stack_alloca tvm_stack_make_shape tvm_stack_make_array", result=Result.HANDLE, effect=Effect.OPAQUE),
    *_rows("tvm_tuple", result=Result.HANDLE, effect=Effect.EMBED_INFO),
    *_rows("tvm_struct_get", arity=3, dtype="last", effect=Effect.READ_STATE),
    *_rows("tvm_struct_set", arity=4, result=Result.INT32, effect=Effect.UPDATE_STATE),
    *_rows("tvm_static_handle", arity=0, result=Result.HANDLE, effect=Effect.SPECIAL_CALL_ARG, meaning=EXTERNAL),
    *_rows("tvm_context_id", arity=0, result=Result.HANDLE, effect=Effect.READ_STATE, meaning=EXTERNAL),
    *_rows(
        "tvm_throw_last_error tvm_kernel_replace_point",
        arity=0,
        result=Result.HANDLE,
        effect=Effect.OPAQUE,
        meaning=EXTERNAL,
    ),
    *_rows("TVMBackendAllocWorkspace", result=Result.HANDLE, effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("TVMBackendFreeWorkspace", result=Result.INT32, effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("anylist_getitem", result=Result.HANDLE, effect=Effect.READ_STATE, meaning=EXTERNAL),
    *_rows(
        "anylist_resetitem anylist_setitem_call_packed anylist_setitem_call_cpacked",
        result=Result.INT32,
        effect=Effect.OPAQUE,
        meaning=EXTERNAL,
    ),
    *_rows("start_profile_intrinsic end_profile_intrinsic", result=Result.VOID, effect=Effect.PURE),
    *_rows("prefetch print_buffer", result=Result.VOID, effect=Effect.OPAQUE, meaning=EXTERNAL),
    *_rows("filter selector", arity=2, result=Result.SECOND, effect=Effect.OPAQUE, meaning=GPU_ONLY),
    # devices
    *_rows(
        "tvm_load_matrix_sync tvm_mma_sync tvm_bmma_sync tvm_fill_fragment tvm_store_matrix_sync "
        "tvm_global_barrier_kinit "
        "cooperative_tensor_fill cooperative_tensor_load cooperative_tensor_store "
        "cooperative_tensor_multiply_accumulate "
        "mma_store mma_fill mma_store_legacy mma_fill_legacy simdgroup_load simdgroup_store "
        "simdgroup_multiply_accumulate "
        "make_filled_simdgroup_matrix dma_copy dma_wait dma_start_group dma_end_group texture2d_load texture2d_store "
        "tensormap_encode_tiled create_barriers nd_mem_alloc_with_scope gemm_sp tileop",
        result=Result.HANDLE,
        effect=Effect.OPAQUE,
        meaning=GPU_ONLY,
    ),
    # TileLang
    *_rows(
        "copy async_copy tma_copy fill gemm wgmma_gemm tcgen05_gemm reduce cumsum cummax transpose im2col c2d_im2col "
        "atomicadd atomicmax atomicmin reducer_init reducer_update finalize_reducer finalize_reducer_v2",
        result=Result.HANDLE,
        effect=Effect.OPAQUE,
        meaning=TILES,
    ),
    *_rows(" ".join(HINTS), result=Result.HANDLE, effect=Effect.OPAQUE, meaning=HINT),
    *_rows("pow_of_int", arity=2, result=Result.FIRST, effect=Effect.PURE),
    *_rows(
        "get_lane_idx get_warp_idx get_warp_idx_sync get_warp_group_idx block_rank_in_cluster rng_rand rng_init "
        "any_sync all_sync ballot ballot_sync activemask shuffle_elect clc_is_canceled clc_get_first_ctaid_x",
        result=Result.INT32,
        effect=Effect.OPAQUE,
        meaning=GPU_ONLY,
    ),
    *_rows(
        "warp_reduce_sum warp_reduce_max warp_reduce_min warp_reduce_bitand warp_reduce_bitor shfl_sync shfl_xor_sync "
        "shfl_up_sync shfl_down_sync atomic_load_elem_op atomic_or_elem_op",
        effect=Effect.OPAQUE,
        meaning=GPU_ONLY,
        result=Result.FIRST,
    ),
    *_rows(
        "gemm_blockscaled tcgen05_gemm_blockscaled mma_gemm_blockscaled tcgen05_sf_warp_transpose tcgen05_cp_warpx4 "
        "clc_try_cancel_multicast sync_warp sync_grid ptx_cp_async increase_descriptor_offset",
        result=Result.HANDLE,
        effect=Effect.OPAQUE,
        meaning=GPU_ONLY,
    ),
    *_rows("region", result=Result.HANDLE, effect=Effect.SPECIAL_CALL_ARG, meaning=TILES),
    *_rows("elided", arity=1, result=Result.VOID, effect=Effect.OPAQUE, meaning=ELIDED),
    *_rows("launch_thread_idx", arity=1, result=Result.INT32, effect=Effect.PURE),
    *_rows("clamp", arity=3, operands=Operands.NUMBER, result=Result.FIRST, effect=Effect.PURE),
    *_rows("fast_rcp", arity=1, operands=Operands.FLOAT, result=Result.FIRST, effect=Effect.PURE),
    *_rows(
        "ieee_add ieee_sub ieee_mul ieee_fmul ieee_fdiv ieee_fmaf ieee_frcp ieee_fsqrt ieee_frsqrt",
        result=Result.FIRST,
        effect=Effect.PURE,
    ),
    *_rows("any_of all_of", arity=2, result=Result.BOOL, effect=Effect.READ_STATE),
    *_rows("atomic_addx2_elem_op atomic_addx4_elem_op", result=Result.HANDLE, effect=Effect.OPAQUE),
    *_rows("device_assert device_assert_with_msg", result=Result.VOID, effect=Effect.OPAQUE),
    *_rows(
        "atomic_add_elem_op atomic_max_elem_op atomic_min_elem_op atomic_store_elem_op "
        "atomic_add_ret_elem_op atomic_max_ret_elem_op atomic_min_ret_elem_op",
        result=Result.SECOND,
        effect=Effect.OPAQUE,
    ),
]

BUILTINS: dict[str, Builtin] = {row.name: row for row in _TABLE}
"""The rows by name."""

_SPELLED = {spelling: row for row in _TABLE for spelling in (row.name, *row.spellings)}
_DEVICES = (
    "ptx",
    "cuda",
    "nki",
    "metal",
    "nvshmem",
    "webgpu",
    "hexagon",
    "simdgroup",
    "tl",
    "tile",
    "mma",
    "wgmma",
    "tma",
    "amdgpu",
    "rocm",
    "s_tir",
)


@lru_cache(maxsize=4096)
def find(spelling: str) -> Builtin | None:
    """The row that TVMScript spells so (without `T.`), an opaque one for intrinsics of devices, or None."""
    if (row := _SPELLED.get(spelling)) is not None:
        return row
    if spelling.startswith(tuple(f"{device}{mark}" for device in _DEVICES for mark in "._")):
        return Builtin(spelling, result=Result.HANDLE, effect=Effect.OPAQUE, meaning=GPU_ONLY)
    return None
