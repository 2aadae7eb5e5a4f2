"""The shortest way of a call: arrays of JAX like those of the call before, straight to what was compiled for them.

Looked at are the names that are given, the types of the arrays, and their shapes where sizes follow from them. All else
JAX's dispatch tells apart itself, in C++: element types, weak types, devices, shapes too. What it has not seen it
traces, and there `Executable.run_flat` refuses what the program was not compiled for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from lowering.executable import Executable, Unlike
from lowering.failures import raise_failures
from lowering.tracing import tracing

__all__ = ["RepeatedCall"]


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """Calls of an executable by one set of names, with arrays of the device."""

    executable: Executable
    order: tuple[str, ...]
    """Arguments and constants as the executable takes them."""
    given: int
    """How many of them are arguments."""
    kinds: frozenset[type]
    """The one type of all arrays: no tracer and no NumPy array is of it."""
    shapes: list[tuple[int, ...]] | None
    """Those of `order`, where sizes follow from them and with the sizes the executable."""
    results: tuple[str, ...]
    donated: tuple[str, ...]

    @staticmethod
    def of(
        executable: Executable, arguments: Mapping[str, Any], sized: bool, donate: Sequence[str]
    ) -> RepeatedCall | None:
        """Calls like one that was checked; None where some of its arrays are not of the device."""
        passed = list(arguments.values())
        kinds = frozenset(type(a) for a in [*passed, *(a for leaves in executable.constants.values() for a in leaves)])
        if len(kinds) != 1 or not passed or not isinstance(passed[0], jax.Array):
            return None
        # leaves of a dict stand in the order of its keys
        order = tuple(sorted([*arguments, *executable.constants]))
        shapes = [executable.fencil[n].type.dims.shape for n in order] if sized else None
        results = tuple(p.name for p in executable.fencil.results)
        donated = tuple(n for n in donate if n in arguments)
        return RepeatedCall(executable, order, len(arguments), kinds, shapes, results, donated)

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
        if set(map(type, flat)) != self.kinds or tracing():
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
        return dict(zip(self.results, outputs, strict=True))
