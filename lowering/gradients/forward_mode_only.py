"""Tangents that nothing comes back from: of loops whose rounds nobody counted when they ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["forward_only"]


def forward_only(x: Any, refusal: Diagnostic) -> Any:
    """x, of which reverse mode says what `refusal` does.

    JAX remembers parameters of operations for as long as the jaxprs among them live, and for good where there are none:
    an empty jaxpr lets go of the diagnostic, which holds the text of its program.
    """
    return forward_only_p.bind(x, refusal=refusal, owner=jax.make_jaxpr(lambda: ())())


forward_only_p = Primitive("forward_only")


def _refused(cotangent: Any, x: Any, *, refusal: Diagnostic, owner: ClosedJaxpr) -> Any:
    raise DiagnosticError(refusal)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, refusal: Diagnostic, owner: ClosedJaxpr) -> Any:
    out = forward_only_p.bind(*primals, refusal=refusal, owner=owner)
    return out, forward_only_p.bind(ad.instantiate_zeros(tangents[0]), refusal=refusal, owner=owner)


def _batched(args: Sequence[Any], axes: Sequence[Any], **known: Any) -> tuple[Any, Any]:
    return forward_only_p.bind(*args, **known), axes[0]


forward_only_p.def_impl(lambda x, **_: x)
forward_only_p.def_abstract_eval(lambda x, **_: x)
mlir.register_lowering(forward_only_p, mlir.lower_fun(lambda x, **_: x, multiple_results=False))
ad.primitive_jvps[forward_only_p] = _jvp
ad.primitive_transposes[forward_only_p] = _refused
batching.primitive_batchers[forward_only_p] = _batched
