"""Kernels with the sizes that only a call would tell, as numbers: what is given to cores is counted before a call."""

from __future__ import annotations

from dataclasses import replace

from tensorir.runtime.errors import Diagnostic, DiagnosticError, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.ranges import interval
from tensorir.tir.walk import substitute, transform, walk

__all__ = ["sized", "sizes_of"]


def sizes_of(func: n.PrimFunc) -> dict[str, n.Var]:
    """The names in the extents of a kernel's buffers that are no parameters."""
    extents = [e for buffer in func.buffer_map.values() for e in buffer.shape]
    found = {v.name: v for e in extents for v in walk(e) if isinstance(v, n.Var) and v not in func.params}
    return dict(sorted(found.items()))


def sized(func: n.PrimFunc, **sizes: int) -> n.PrimFunc:
    """The kernel with some of its sizes as numbers, wherever they are used.

    Raises TN13 for a name that is no size, and for what is no number from 0 up.

    >>> from tensorir.tir import parse
    >>> main = parse('''
    ... @T.prim_func
    ... def main(a: T.handle):
    ...     m = T.int32()
    ...     A = T.match_buffer(a, (m, 16))
    ...     for bx in T.thread_binding((m + 7) // 8, thread="blockIdx.x"):
    ...         A[bx * 8, 0] = 1.0
    ... ''')["main"]
    >>> print(sized(main, m=21))
    # from tvm.script import tirx as T
    <BLANKLINE>
    @T.prim_func
    def main(A: T.Buffer((21, 16), "float32")):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            A[bx * 8, 0] = T.float32(1.0)
    <BLANKLINE>
    """
    known = sizes_of(func)
    for name, value in sizes.items():
        if name not in known:
            names = f"has the sizes {', '.join(known)}" if known else "has no sizes left"
            message = f"{name!r} is no size of {func.name!r}, which {names}."
            help = did_you_mean(name, known) or "name one of its buffers' extents."
            raise DiagnosticError(Diagnostic("TN13", message, func.span, help=help))
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"the size {name!r} of {func.name!r} is {value!r}."
            raise DiagnosticError(Diagnostic("TN13", message, func.span, help="a size is a whole number, 0 or more."))
    values: dict[n.Var, n.Expr] = {known[k]: const(v, known[k].dtype) for k, v in sizes.items()}
    made = {
        buffer: replace(
            buffer,
            shape=tuple(_number(substitute(e, values)) for e in buffer.shape),
            strides=tuple(_number(substitute(e, values)) for e in buffer.strides),
        )
        for buffer in func.buffer_map.values()
    }
    # buffers first: with other sizes below it, a buffer would be another one
    body = substitute(substitute(func.body, {}, made), values)
    body = transform(body, lambda node: _folded(node) if isinstance(node, n.Expr) else None)
    return replace(func, buffer_map={p: made[b] for p, b in func.buffer_map.items()}, body=body)


def _folded(expr: n.Expr) -> n.Expr | None:
    """An expression of numbers as one; None for any other."""
    if not isinstance(expr, n.BinaryOp) or not expr.dtype.is_integer:
        return None
    found = interval(expr, {})
    return None if found is None or found[0] != found[1] else n.IntImm(found[0], expr.dtype, expr.span)


def _number(expr: n.Expr) -> n.Expr:
    return _folded(expr) or expr
