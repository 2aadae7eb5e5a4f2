"""The shortest way of a call: arrays like those of the call before, straight to what was compiled for them.

Looked at are the names that are given, the types of the arrays, their shapes where sizes follow from them, and the
order of bytes of NumPy arrays, which JAX does not ask for. All else JAX's dispatch tells apart itself, in C++: element
types, weak types, devices, shapes too. What it has not seen it traces, and there `Executable.run_flat` refuses what the
program was not compiled for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from lowering.executable import Executable, Unlike
from lowering.failures import raise_failures
from lowering.host_results import on_host
from lowering.tracing import op_by_op, tracing

__all__ = ["RepeatedCall"]


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """Calls of an executable by one set of names, with bare arrays."""

    executable: Executable
    order: tuple[str, ...]
    """Arguments and constants as the executable takes them."""
    given: int
    """How many of them are arguments."""
    types: tuple[type, ...]
    """Those of `order`: arrays of JAX or of NumPy, and no tracers."""
    host: bool
    """Whether all arguments are NumPy arrays, and so the results."""
    shapes: list[tuple[int, ...]] | None
    """Those of `order`, where sizes follow from them and with the sizes the executable."""
    results: tuple[str, ...]
    donated: tuple[str, ...]

    @staticmethod
    def of(
        executable: Executable, arguments: Mapping[str, Any], sized: bool, donate: Sequence[str]
    ) -> RepeatedCall | None:
        """Calls like one that was checked; None where there is nothing to tell them by."""
        if not arguments or executable.empty:
            return None
        arrays = {**arguments, **{n: leaves[0] for n, leaves in executable.constants.items()}}
        order = tuple(sorted(arrays))  # leaves of a dict stand in the order of its keys
        types = tuple(type(arrays[n]) for n in order)
        host = all(isinstance(a, np.ndarray) for a in arguments.values())
        shapes = [executable.fencil[n].type.dims.shape for n in order] if sized else None
        results = tuple(p.name for p in executable.fencil.results)
        donated = tuple(n for n in donate if n in arguments)
        return RepeatedCall(executable, order, len(arguments), types, host, shapes, results, donated)

    def __call__(self, constants: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """The results by name; None for a call that needs a look at its arguments."""
        if len(arguments) != self.given:
            return None
        executable = self.executable
        held = constants or executable.constants
        if held:
            arguments = {**arguments, **{name: leaves[0] for name, leaves in held.items()}}
        try:
            flat = tuple(map(arguments.__getitem__, self.order))
        except KeyError:
            return None
        if tuple(map(type, flat)) != self.types or tracing():
            return None
        if np.ndarray in self.types and (op_by_op() or not all(a.dtype.isnative for a in flat)):
            return None
        if self.shapes is not None and [a.shape for a in flat] != self.shapes:
            return None
        try:
            with jax.enable_x64(True):
                if self.donated:
                    if len(set(map(id, flat))) < len(flat):  # one that is given away may be another argument, too
                        return None
                    spare = {n: (arguments[n],) for n in self.donated}
                    kept = {n: (arguments[n],) for n in self.order if n not in spare}
                    by_name, failures = executable.into(spare, kept, executable.prepared)
                    outputs = [by_name[n][0] for n in self.results]
                else:
                    outputs, failures = executable.plain(flat, executable.prepared)
        except Unlike:
            return None
        if failures:
            raise_failures(failures, executable.checks)
        if self.host:
            outputs = map(on_host, outputs)
        return dict(zip(self.results, outputs, strict=True))
