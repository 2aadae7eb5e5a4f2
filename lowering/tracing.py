"""What JAX is doing at the moment: the one file that looks behind its public face."""

from __future__ import annotations

import sys
from typing import Any

import jax
from jax._src import core as _core  # no public call says whether a trace is under way
from jax.core import Tracer

from tensorir.binding.arrays import refuse

__all__ = ["concrete", "for_an_operator", "inside_jit", "inside_trace", "op_by_op", "refuse_narrow", "tracing", "x64"]

_SWITCHES: Any = jax.config
"""JAX declares its switches at run time."""


def concrete(x: Any) -> bool:
    """Whether an array's numbers can be looked at."""
    return not isinstance(x, Tracer)


def inside_trace(arrays: list[Any]) -> bool:
    """Whether somebody else's trace is under way, be it of these arrays or around the call."""
    return any(isinstance(a, Tracer) for a in arrays) or tracing()


def tracing() -> bool:
    """Whether a trace is under way around the call."""
    return not _core.trace_state_clean()


def inside_jit() -> bool:
    """Whether what is traced around the call will be compiled whole."""
    return bool(_core.unsafe_am_i_under_a_jit())


def x64() -> bool:
    """Whether 64-bit types are kept in this scope."""
    return bool(_SWITCHES.jax_enable_x64)


def for_an_operator() -> bool:
    """Whether an operator of a JAX array, such as `*`, asks the caller's `__jax_array__` for the other operand."""
    return sys._getframe(2).f_code.co_name.startswith("_operator_")


def op_by_op() -> bool:
    """Whether every operation runs by itself, as under `jax.disable_jit`."""
    return bool(_SWITCHES.jax_disable_jit)


def refuse_narrow(name: str) -> None:
    """Raise A15 where 64-bit types are not kept: what needs them would be narrowed."""
    if not x64():
        raise refuse(
            "A15",
            f"'{name}' computes with 64-bit numbers, and this transformation does not keep them.",
            "put it inside of `with jax.enable_x64(True):`, or cast the program to float32.",
        )
