"""The table of tile operations, calls as records of their operands, and folds.

Expressions of integers as numbers, where the values of their variables are known.

>>> from tensorir.tir.dtypes import INT32
>>> k = n.Var("k", n.PrimType(INT32))
>>> number(n.FloorMod(n.Add(k, n.IntImm(1, INT32)), n.IntImm(2, INT32)), {k: 3})
0

The table of tile operations, and calls as records of their operands: the boxes that they read and write.

A call whose arguments are not those of its row, or whose boxes do not fit, is refused where it stands.

>>> sorted(OPERATIONS)[:4]
['async_copy', 'atomicadd', 'atomicmax', 'atomicmin']
>>> OPERATIONS["gemm"].counts
(13, 19)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from tensorir.runtime.errors import NOWHERE, Note, Span, did_you_mean, refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, INT32, DataType
from tensorir.tir.trees import walk

# What the folds of tiles start from, and how they combine.


def identity(kind: str, dtype: DataType) -> n.Expr:
    """The identity of a fold.

    >>> from tensorir.tir.dtypes import FLOAT32, INT32
    >>> identity("min", FLOAT32), identity("bitand", INT32), identity("absmax", INT32)
    (T.float32("inf"), -1, 0)
    """
    match kind:
        case "max" | "min":
            if dtype.is_float:
                return const(float("-inf") if kind == "max" else float("inf"), dtype)
            low, high = dtype.range
            return n.IntImm(low if kind == "max" else high, dtype)
        case "bitand":
            return n.IntImm(dtype.range[1] if dtype.is_uint or dtype.is_bool else -1, dtype)
        case _:
            return const(0, dtype)


def combined(kind: str, old: n.Expr, new: n.Expr, carries_nan: bool = False) -> n.Expr:
    """The fold of one more element, which is cast to the type of what there is.

    >>> from tensorir.tir.dtypes import FLOAT32
    >>> x = const(1.0, FLOAT32)
    >>> combined("absmax", x, x)
    T.max(T.fabs(T.float32(1.0)), T.float32(1.0))
    """
    if new.dtype != old.dtype:
        new = n.Cast(new, old.dtype)
    if kind.startswith("abs"):
        new = _absolute(new)
    if old.dtype.is_bool and kind in _OF_BOOLS:
        return _OF_BOOLS[kind](old, new)
    if carries_nan and kind in ("max", "min", "absmax"):
        return n.Select(n.Call(BOOL, "isnan", (old,)), old, _COMBINED[kind](old, new))
    if old.dtype.is_float and kind in ("max", "min", "absmax"):
        # fmaxf and fminf pass over NaN: a comparison with it that fails keeps what there is
        return _COMBINED[kind](new, old)
    return _COMBINED[kind](old, new)


def _absolute(x: n.Expr) -> n.Expr:
    if x.dtype.is_float:
        return n.Call(x.dtype, "fabs", (x,))
    return n.Select(n.GE(x, const(0, x.dtype)), x, n.Sub(const(0, x.dtype), x)) if x.dtype.is_int else x


def _bitwise(name: str) -> Callable[[n.Expr, n.Expr], n.Expr]:
    return lambda old, new: n.Call(old.dtype, name, (old, new))


_OF_BOOLS: dict[str, Callable[[n.Expr, n.Expr], n.Expr]] = {
    "bitand": n.And, "bitor": n.Or, "bitxor": n.NE, "sum": n.Or, "abssum": n.Or,
}  # fmt: skip
_COMBINED: dict[str, Callable[[n.Expr, n.Expr], n.Expr]] = {
    "sum": n.Add,
    "abssum": n.Add,
    "max": n.Max,
    "absmax": n.Max,
    "min": n.Min,
    "bitand": _bitwise("bitwise_and"),
    "bitor": _bitwise("bitwise_or"),
    "bitxor": _bitwise("bitwise_xor"),
}

Values = Mapping[n.Var, int]

_BITS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b, "shift_right": lambda a, b: a >> b,
}  # fmt: skip
_OPERATORS: dict[type[n.Expr], Callable[[int, int], int]] = {
    n.Add: operator.add, n.Sub: operator.sub, n.Mul: operator.mul, n.Min: min, n.Max: max, n.EQ: operator.eq,
    n.NE: operator.ne, n.LT: operator.lt, n.LE: operator.le, n.GT: operator.gt, n.GE: operator.ge,
    n.FloorDiv: lambda a, b: a // b, n.FloorMod: operator.mod,
}  # fmt: skip
_DIVISIONS = (n.FloorDiv, n.FloorMod)


class Undecided(Exception):
    """Constants do not decide a number; the variable that would, where there is one."""

    def __init__(self, var: n.Var | None = None) -> None:
        super().__init__()
        self.var = var


def number(expr: n.Expr, values: Values) -> int:
    """The number that an expression is; raises Undecided for what is read from memory, or for an unknown variable."""
    match expr:
        case n.IntImm(value):
            return value
        case n.Var():
            if expr not in values:
                raise Undecided(expr)
            return values[expr]
        case n.Cast(value, dtype) if dtype.is_integer and value.dtype.is_integer and dtype.bits >= value.dtype.bits:
            return number(value, values)
        case n.Not(value):
            return int(not number(value, values))
        case n.And(a, b):
            return int(bool(number(a, values)) and bool(number(b, values)))
        case n.Or(a, b):
            return int(bool(number(a, values)) or bool(number(b, values)))
        case n.Call(op="if_then_else", args=(n.Expr() as condition, n.Expr() as a, n.Expr() as b)):
            return number(a if number(condition, values) else b, values)
        case n.Call(op=str(op), args=(n.Expr() as a, n.Expr() as b)) if op in _BITS:
            return _BITS[op](number(a, values), number(b, values))
        case n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b) | n.Min(a, b) | n.Max(a, b) | n.FloorDiv(a, b) | n.FloorMod(a, b):
            pass
        case n.EQ(a, b) | n.NE(a, b) | n.LT(a, b) | n.LE(a, b) | n.GT(a, b) | n.GE(a, b):
            pass
        case _:
            raise Undecided
    x, y = number(a, values), number(b, values)
    if a.dtype.is_float or (y == 0 and isinstance(expr, _DIVISIONS)):
        raise Undecided
    return int(_OPERATORS[type(expr)](x, y))


REDUCTIONS = ("sum", "abssum", "max", "min", "absmax", "bitand", "bitor", "bitxor")
_operations_BITS = ("bitand", "bitor", "bitxor")
READ, WRITE = 1, 2


@dataclass(frozen=True, slots=True)
class Box:
    """The elements [start, start + extent) of a buffer along each of its dims."""

    buffer: n.Buffer
    starts: tuple[n.Expr, ...]
    extents: tuple[n.Expr, ...]
    span: Span

    @property
    def wide(self) -> tuple[int, ...]:
        """The dims along which the box has more than one element, or as many as only a call tells."""
        return tuple(k for k, e in enumerate(self.extents) if not (isinstance(e, n.IntImm) and e.value == 1))

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The extents along these dims; None for one that only a call tells."""
        return tuple(e.value if isinstance(e := self.extents[k], n.IntImm) else None for k in self.wide)


@dataclass(frozen=True, slots=True)
class Copy:
    """dst = cast(src): dims of more than one element pair in order; outside of src is `safe`, outside of dst goes."""

    src: Box
    dst: Box
    safe: n.Expr | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """Every element of dst is the value; of a reducer without one, what its operation starts from."""

    dst: Box
    value: n.Expr | None


@dataclass(frozen=True, slots=True)
class Gemm:
    """c = (0 where `clear`, else c) + a · b, in c's type; `turned` says which of a and b are transposed."""

    a: Box
    b: Box
    c: Box
    turned: tuple[bool, bool]
    clear: n.Expr


@dataclass(frozen=True, slots=True)
class Reduce:
    """dst = the fold of cast(src) along a dim, which also joins what dst holds unless `clear`."""

    src: Box
    dst: Box
    kind: str
    dim: int
    clear: n.Expr
    carries_nan: bool

    @property
    def kept(self) -> tuple[int | None, ...]:
        """For each dim of dst, the dim of src that it runs along; None for the reduced one, which is kept as one."""
        rest = [k for k in range(len(self.src.extents)) if k != self.dim]
        if len(self.dst.extents) == len(rest):
            return tuple(rest)
        return tuple(None if k == self.dim else k for k in range(len(self.src.extents)))


@dataclass(frozen=True, slots=True)
class Scan:
    """dst = the running sums, or maxima, of src along a dim."""

    src: Box
    dst: Box
    kind: str
    dim: int
    reverse: bool


@dataclass(frozen=True, slots=True)
class Atomic:
    """dst = dst + src, or the larger or smaller of both, with the boxes of a copy; blocks that meet do not race."""

    src: Box
    dst: Box
    kind: str


@dataclass(frozen=True, slots=True)
class Im2col:
    """Windows of images (n, h, w, c) as rows: tile (row, column) of the matrix that a convolution multiplies."""

    src: Box
    dst: Box
    row: n.Expr
    column: n.Expr
    kernel: int
    stride: int
    dilation: int
    pad: int


@dataclass(frozen=True, slots=True)
class Transpose:
    """dst[j, i] = src[i, j]."""

    src: Box
    dst: Box


@dataclass(frozen=True, slots=True)
class Nothing:
    """An operation that changes the layout of a tile alone."""


Record = Copy | Fill | Gemm | Reduce | Scan | Atomic | Im2col | Transpose | Nothing


@dataclass(frozen=True, slots=True)
class Operation:
    """One row: how many arguments a call may have, and how they are read."""

    name: str
    counts: tuple[int, ...]
    form: str
    read: Callable[[Arguments], Record]


def is_tile(node: n.Node) -> bool:
    """True if a node is a tile operation, which stands as a statement."""
    return isinstance(node, n.Call) and isinstance(node.op, str) and node.op in OPERATIONS


def operation(call: n.Call) -> Record:
    """The record of a call; raises TT01 for another number of arguments than its row has, TT02 for one of another kind,
    and TT03 for boxes that do not fit.
    """
    assert isinstance(call.op, str)
    row = OPERATIONS[call.op]
    if len(call.args) not in row.counts:
        allowed = " or ".join(map(str, row.counts))
        message = f"T.{row.name} takes {allowed} arguments, and this gives {len(call.args)}."
        raise refuse("TT01", message, f"write T.{row.name}({row.form}).", at=call.span)
    return row.read(Arguments(call))


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, read one by one."""

    call: n.Call

    def box(self, place: int) -> Box:
        """A region, or a buffer or an element of one."""
        given = self.call.args[place]
        match given:
            case n.Call(op="region", args=(n.BufferLoad(buffer, starts), n.IntImm(), *extents)):
                if len(extents) != len(starts):
                    message = f"the region of {buffer.name!r} has {len(extents)} extents for {len(starts)} dims."
                    self.wrong("TT02", message, given.span, "write T.region(A[0, 0], 1, 8, 8).")
                sizes = tuple(e for e in extents if isinstance(e, n.Expr))
                return Box(buffer, starts, sizes, given.span)
            case n.Buffer(shape=shape):
                return Box(given, tuple(const(0, INT32) for _ in shape), shape, self.call.span)
            case n.BufferRegion(buffer, ranges):
                return Box(buffer, tuple(r.min for r in ranges), tuple(r.extent for r in ranges), given.span)
            case n.BufferLoad(buffer, starts):
                return Box(buffer, starts, tuple(const(1, INT32) for _ in starts), given.span)
            case _:
                message = f"argument {place + 1} of T.{self.call.op} is a region of a buffer, and this is none."
                span = given.span if isinstance(given, n.Expr) else self.call.span
                self.wrong("TT02", message, span, "write T.region(A[0, 0], 1, 8, 8).")

    def expr(self, place: int) -> n.Expr:
        given = self.call.args[place]
        if not isinstance(given, n.Expr):
            self.wrong("TT02", f"argument {place + 1} of T.{self.call.op} is a value, and this is none.")
        return given

    def number(self, place: int, what: str) -> int:
        given = self.call.args[place]
        if not isinstance(given, n.IntImm):
            parts, span = (walk(given), given.span) if isinstance(given, n.Expr) else ((), self.call.span)
            sizes = dict.fromkeys(v.name for v in parts if isinstance(v, n.Var))
            names = ", ".join(f"{name!r}: ..." for name in sizes)
            help = (
                f"for a size, give its value where the text is read: parse(text, names={{{names}}})." if names else ""
            )
            self.wrong("TT02", f"{what} of T.{self.call.op} is a constant, and this is none.", span, help)
        return given.value

    def word(self, place: int, what: str, known: tuple[str, ...]) -> str:
        given = self.call.args[place]
        word = given.value if isinstance(given, n.StringImm) else str(given)
        if word not in known:
            self.wrong("TT02", f"there is no {what} {word!r}.", self.call.span, did_you_mean(word, known))
        return word

    def wrong(self, code: str, message: str, span: Span = NOWHERE, help: str = "", *notes: Note | str) -> NoReturn:
        where = self.call.span if span is NOWHERE else span
        raise refuse(code, message, help, at=where, notes=tuple(notes))

    def same(self, a: Box, b: Box, what: tuple[tuple[int | None, ...], tuple[int | None, ...]] | None = None) -> None:
        """Refuse boxes whose extents differ."""
        x, y = what or (a.shape, b.shape)
        if len(x) != len(y) or any(p != q and p is not None and q is not None for p, q in zip(x, y, strict=True)):
            self.wrong("TT03", f"{_shown(a)} and {_shown(b)} of T.{self.call.op} do not fit.")


def _shown(box: Box) -> str:
    """A box in words: 'A' of 64 × 32 elements."""
    extents = [str(e.value) if isinstance(e, n.IntImm) else str(e) for e in box.extents]
    return f"{' × '.join(extents)} elements of {box.buffer.name!r}"


# What each reads


def _copy(given: Arguments) -> Copy:
    src, dst = given.box(0), given.box(1)
    given.same(src, dst)
    safe = given.call.attrs.get("safe_value")
    return Copy(src, dst, safe if isinstance(safe, n.Expr) else None)


def _fill(given: Arguments) -> Fill:
    return Fill(given.box(0), given.expr(1) if len(given.call.args) > 1 else None)


def _gemm(given: Arguments) -> Gemm:
    a, b, c = given.box(0), given.box(1), given.box(2)
    turned = bool(given.number(3, "the transposition of A")), bool(given.number(4, "the transposition of B"))
    m, columns, k = (given.number(place, name) for place, name in ((5, "M"), (6, "N"), (7, "K")))
    wanted = ((k, m) if turned[0] else (m, k)), ((columns, k) if turned[1] else (k, columns)), (m, columns)
    for box, (rows, width), name in zip((a, b, c), wanted, "ABC", strict=True):
        found = _all(box)
        fits = [e in (None, want) for e, want in zip(found[-2:], (rows, width), strict=False)]
        if len(found) < 2 or not all(fits) or any(e not in (1, None) for e in found[:-2]):
            message = f"{name} of this T.gemm is {rows} × {width}, and the region has {_shown(box)}."
            given.wrong("TT03", message, box.span, f"M, N and K are {m}, {columns} and {k} here.")
    return Gemm(a, b, c, turned, given.expr(9))


def _reduce(given: Arguments) -> Reduce:
    src, dst = given.box(0), given.box(1)
    kind, dim = given.word(2, "reduction", REDUCTIONS), given.number(3, "the dim")
    if not 0 <= dim < len(src.extents):
        given.wrong("TT03", f"dim {dim} is reduced, and {src.buffer.name!r} has {len(src.extents)}.")
    if kind in _operations_BITS and not dst.buffer.dtype.is_integer and not dst.buffer.dtype.is_bool:
        given.wrong("TT02", f"{kind} is for integers, and {dst.buffer.name!r} holds {dst.buffer.dtype}.")
    nan = given.call.attrs.get("nan_propagate")
    carries = bool(nan.value if isinstance(nan, n.IntImm) else nan) and dst.buffer.dtype.bits == 16
    made = Reduce(src, dst, kind, dim, given.expr(4), carries)
    one = const(1, INT32)
    wanted = [one if k is None else src.extents[k] for k in made.kept]
    if len(dst.extents) not in (len(src.extents), len(src.extents) - 1, 1 if len(src.extents) == 1 else -1):
        given.wrong("TT03", f"{_shown(src)} and {_shown(dst)} of T.{given.call.op} do not fit.")
    for have, want in zip(dst.extents, wanted, strict=True):
        if isinstance(have, n.IntImm) and isinstance(want, n.IntImm) and have.value != want.value:
            given.wrong("TT03", f"{_shown(src)} and {_shown(dst)} of T.{given.call.op} do not fit.")
    return made


def _scan(given: Arguments) -> Scan:
    src, dst = given.box(0), given.box(1)
    dim = given.number(2, "the dim")
    if not 0 <= dim < len(src.extents):
        given.wrong("TT03", f"T.{given.call.op} runs along dim {dim}, and {src.buffer.name!r} has {len(src.extents)}.")
    given.same(src, dst, (_all(src), _all(dst)))
    return Scan(src, dst, "sum" if given.call.op == "cumsum" else "max", dim, bool(given.number(3, "the direction")))


def _all(box: Box) -> tuple[int | None, ...]:
    return tuple(e.value if isinstance(e, n.IntImm) else None for e in box.extents)


def _atomic(given: Arguments) -> Atomic:
    src, dst = given.box(0), given.box(1)
    given.same(src, dst)
    return Atomic(src, dst, str(given.call.op).removeprefix("atomic"))


def _im2col(given: Arguments) -> Im2col:
    src, dst = given.box(0), given.box(1)
    if len(src.extents) != 4 or len(dst.wide) > 2:
        given.wrong("TT03", f"T.im2col reads images (n, h, w, c) into a matrix, and these are {_shown(src)}.")
    kernel, stride, dilation, pad = (given.number(k, "a size") for k in (4, 5, 6, 7))
    return Im2col(src, dst, given.expr(2), given.expr(3), kernel, stride, dilation, pad)


def _transpose(given: Arguments) -> Transpose:
    src, dst = given.box(0), given.box(1)
    given.same(src, dst, (src.shape, dst.shape[::-1]))
    return Transpose(src, dst)


def _nothing(given: Arguments) -> Nothing:
    given.box(0)
    return Nothing()


_COPY = "T.region(A[0, 0], 1, 8, 8), T.region(a[0, 0], 2, 8, 8)"
_GEMM = "A, B, C, T.bool(False), T.bool(False), M, N, K, policy, T.bool(False), 0, 0, 0"
_REDUCE = 'T.region(a[0, 0], 1, 8, 8), T.region(r[0], 2, 8), "sum", 1, T.bool(True)'
_SCAN = "T.region(a[0, 0], 1, 8, 8), T.region(b[0, 0], 2, 8, 8), 1, T.bool(False)"
_IM2COL = "images, tile, row, column, kernel, stride, dilation, pad"

OPERATIONS: dict[str, Operation] = {
    row.name: row
    for row in (
        Operation("copy", (2, 5), _COPY, _copy),
        Operation("async_copy", (2,), _COPY, _copy),
        Operation("tma_copy", (2, 3), _COPY, _copy),
        Operation("fill", (2,), "T.region(a[0, 0], 2, 8, 8), 0", _fill),
        # 0.1.15 has 13; other releases tell strides, offsets and waits too, behind the same ten
        Operation("gemm", (13, 19), _GEMM, _gemm),
        Operation("wgmma_gemm", (13,), _GEMM, _gemm),
        Operation("tcgen05_gemm", (13,), _GEMM, _gemm),
        Operation("reduce", (5,), _REDUCE, _reduce),
        Operation("cumsum", (4,), _SCAN, _scan),
        Operation("cummax", (4,), _SCAN, _scan),
        Operation("transpose", (2,), _COPY, _transpose),
        Operation("im2col", (8, 9), _IM2COL, _im2col),
        Operation("c2d_im2col", (8, 9), _IM2COL, _im2col),
        Operation("atomicadd", (2, 3, 4), _COPY, _atomic),
        Operation("atomicmax", (2, 3, 4), _COPY, _atomic),
        Operation("atomicmin", (2, 3, 4), _COPY, _atomic),
        Operation("finalize_reducer", (1,), "T.region(r[0], 2, 8)", _nothing),
        Operation("finalize_reducer_v2", (2,), "T.region(r[0], 3, 8), T.region(d[0], 2, 8)", _copy),
        Operation("reducer_init", (1, 2), "T.region(r[0], 2, 8)", _fill),
    )
}
"""The tile operations by name."""
