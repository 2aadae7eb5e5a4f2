"""Tangents that nothing comes back from: of loops whose rounds nobody counted when they ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tensorir.errors import Diagnostic, DiagnosticError

__all__ = ["forward_only"]

forward_only = Primitive("forward_only")
"""`forward_only(x; refusal)` is x, of which reverse mode says what `refusal` does."""


def _refused(cotangent: Any, x: Any, *, refusal: Diagnostic) -> Any:
    raise DiagnosticError(refusal)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, refusal: Diagnostic) -> tuple[Any, Any]:
    out = forward_only.bind(*primals, refusal=refusal)
    return out, forward_only.bind(ad.instantiate_zeros(tangents[0]), refusal=refusal)


def _batched(args: Sequence[Any], axes: Sequence[Any], *, refusal: Diagnostic) -> tuple[Any, Any]:
    return forward_only.bind(*args, refusal=refusal), axes[0]


forward_only.def_impl(lambda x, refusal: x)
forward_only.def_abstract_eval(lambda x, refusal: x)
mlir.register_lowering(forward_only, mlir.lower_fun(lambda x, refusal: x, multiple_results=False))
ad.primitive_jvps[forward_only] = _jvp
ad.primitive_transposes[forward_only] = _refused
batching.primitive_batchers[forward_only] = _batched
