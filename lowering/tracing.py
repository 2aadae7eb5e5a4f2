"""What JAX is doing at the moment: the one file that looks behind its public face."""

from __future__ import annotations

from typing import Any

import jax
from jax._src import core as _core  # no public call says whether a trace is under way

__all__ = ["concrete", "inside_trace", "tracing", "x64"]


def concrete(x: Any) -> bool:
    """Whether an array's numbers can be looked at."""
    return not isinstance(x, jax.core.Tracer)


def inside_trace(arrays: list[Any]) -> bool:
    """Whether somebody else's trace is under way, be it of these arrays or around the call."""
    return any(isinstance(a, jax.core.Tracer) for a in arrays) or tracing()


def tracing() -> bool:
    """Whether a trace is under way around the call."""
    return not _core.trace_state_clean()


def x64() -> bool:
    """Whether 64-bit types are kept in this scope."""
    return bool(jax.config.jax_enable_x64)
