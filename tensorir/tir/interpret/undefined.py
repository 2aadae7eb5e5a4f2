"""What TIR leaves undefined: it is 0, and checked mode tells of it, with the iteration and the value."""

from __future__ import annotations

import numpy as np

from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import Value
from tensorir.tir.interpret.bounds import iteration, live
from tensorir.tir.interpret.machine import Machine, error

__all__ = ["check_cast", "check_divisor", "check_shift"]


def check_divisor(m: Machine, node: n.BinaryOp, divisor: Value) -> None:
    """No integer is divided by zero."""
    _told(m, node, divisor, np.asarray(divisor == 0), "TR08", "division of an integer by zero.")


def check_shift(m: Machine, node: n.Call, by: Value) -> None:
    """The places of a shift are fewer than the type has."""
    bits = node.dtype.bits
    message = f"a shift by {{}} places, of {node.dtype.element}, which has {bits}."
    _told(m, node, by, np.asarray((by < 0) | (by >= bits)), "TR19", message)


def check_cast(m: Machine, node: n.Cast, value: Value) -> None:
    """A float that becomes an integer is near to one of the type."""
    low, high = node.dtype.element.range
    whole = np.trunc(np.asarray(value).astype(np.float64))
    bad = ~((whole >= float(low)) & (whole < float(high) + 1.0))
    _told(m, node, value, bad, "TR26", f"{{}} becomes {node.dtype.element}, which holds {low} to {high}.")


def _told(m: Machine, node: n.Expr, value: Value, bad: Value, code: str, message: str) -> None:
    wide = node.dtype.lanes != 1
    if np.any(bad) and np.any(bad := live(m, bad, wide)):
        first = np.broadcast_to(value, np.shape(bad))[bad][0]
        shown = f"{first:g}" if isinstance(first, np.floating) else str(first)
        raise error(code, message.format(shown), node.span, *iteration(m, np.asarray(bad), wide))
