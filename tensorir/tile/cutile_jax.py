"""`cuda.tile.jax.cutile_call` on every device: with this module imported, calls on all but CUDA devices are lifted.

cuTile's own call is a primitive that has a meaning on CUDA alone, and neither derivatives nor batches. Here the call is
the lifted kernel, an ordinary function of JAX, so that `jit`, `grad`, `vmap` and the rest go through it; on devices of
CUDA calls stay what they were.

It takes the place of a private name of cuTile, which is why the versions that it knows are stated, and why nothing
happens unless it is imported.
"""

# cuTile and JAX state no types for what is used of them here.
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import numpy as np

from tensorir.runtime.errors import refuse
from tensorir.tile.cutile import lifted_kernel

KNOWN = ("1.7",)
"""The versions of cuTile whose call has the form that is replaced here."""


class LiftedCall:
    """The replacement of cuTile's primitive: its `bind`."""

    def __init__(self, primitive: Any) -> None:
        self.primitive = primitive

    def bind(
        self, *inputs: Any, kernel: Any, grid: tuple[int, ...], output_shape_dtypes: tuple[Any, ...],
        constants: tuple[Any, ...], scalars: tuple[Any, ...], roles: tuple[Any, ...], **rest: Any,
    ) -> Any:  # fmt: skip
        """The outputs of a call, in the order of their declaration."""
        if _on_cuda():
            return self.primitive.bind(
                *inputs, kernel=kernel, grid=grid, output_shape_dtypes=output_shape_dtypes, constants=constants,
                scalars=scalars, roles=roles, **rest,
            )  # fmt: skip
        arrays, outputs = iter(inputs), iter(output_shape_dtypes)
        numbers, known = iter(scalars), iter(constants)
        asked: list[bool] = []

        def argument(role: Any) -> Any:
            if isinstance(role, tuple):
                return tuple(argument(r) for r in role)
            if role in ("s", "c"):
                return next(numbers if role == "s" else known)
            asked.append(role != "i")
            if role == "i":
                return next(arrays)
            place = next(outputs)
            return next(arrays) if role == "io" else np.zeros(place.shape, place.dtype)

        args = tuple(argument(r) for r in roles)
        program, given = lifted_kernel(kernel, grid, args)
        written = iter(program(*given))
        leaves = list(_arrays(program, given, written))
        return [value for value, wanted in zip(leaves, asked, strict=True) if wanted]


def _arrays(program: Any, given: list[Any], written: Iterator[Any]) -> Iterator[Any]:
    """The arrays among the arguments as they are after a call."""
    for argument, value in zip(program.arguments, given, strict=True):
        if not argument.scalar:
            after = next(written) if argument.written else value
            yield sys.modules["jax"].numpy.asarray(after)


def _on_cuda() -> bool:
    jax = sys.modules["jax"]
    return jax.default_backend() == "gpu" and "cuda" in str(jax.devices()[0].client.platform_version).lower()


def install() -> None:
    """Let `cutile_call` run on every device. Raises TK07 without cuTile or JAX, TK10 for an unknown version."""
    try:
        from cuda.tile.jax import _jax as call

        if not call.HAS_JAX:
            raise ImportError
    except ImportError:
        help = "pip install cuda-tile==1.7.0 jax, or tensorir[peers]."
        raise refuse("TK07", "cuTile is not installed, or JAX is not.", help) from None
    version = metadata.version("cuda-tile")
    if not version.startswith(tuple(f"{v}." for v in KNOWN)) or not hasattr(call, "cutile_call_ffi_p"):
        message = f"cuTile {version} has another call than the one that is known: {', '.join(f'{v}.x' for v in KNOWN)}."
        raise refuse("TK10", message, "use ti.tile.launch(kernel, grid, args).")
    if not isinstance(call.cutile_call_ffi_p, LiftedCall):
        call.cutile_call_ffi_p = LiftedCall(call.cutile_call_ffi_p)


install()
