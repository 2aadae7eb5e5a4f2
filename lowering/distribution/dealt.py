"""A call's arrays as they lie on the devices: a loop over steps that neither gathers its states nor deals them out.

Arrays of a caller have the points of a mesh in the order of its file, and no step can send only halos that is given
and gives those. What is dealt out once has them device by device, with the padding of each, and stays so.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from lowering.distribution.processes import on_host
from lowering.distribution.step import Step
from lowering.failures import checked, raise_failures
from lowering.tracing import concrete, inside_trace
from lowering.tracing import refuse_narrow as refuse_narrow_types
from tensorir.binding.arrays import refuse
from tensorir.binding.calls import PreparedCall, nested
from tensorir.errors import did_you_mean
from tensorir.ir import Var

__all__ = ["Dealt", "refuse_narrow"]


class Dealt:
    """The arguments of a call on their devices, and the program on what lies so.

    `dealt["x"]` is one of them, `dealt(x=u)` the program with others in its place, and `dealt.whole(y=v)` what came of
    it in the order of the caller.
    """

    def __init__(self, step: Step, ready: PreparedCall) -> None:
        self.step, self._given = step, {p.name: ready.arrays[p.name] for p in step.reads}
        with jax.enable_x64(True):
            self.fields: dict[str, tuple[Any, ...]] = step.placed(ready.arrays)

    def __getitem__(self, name: str) -> Any:
        param = self._param(name)
        return nested(param.type.element, self.fields[name])

    def __call__(self, /, **arrays: Any) -> dict[str, Any]:
        """Results by name, on their devices; arrays that are not named are those that were dealt out."""
        step = self.step
        now = {name: self._leaves(self._param(name), value, name) for name, value in arrays.items()}
        if inside_trace([a for some in now.values() for a in some]):
            refuse_narrow(step, step.program.name)
            # what other processes have a part of is no constant of a trace
            fields = step.given(self._given) if step.shared else self.fields
            outputs, failures = step.run({**fields, **now})
            outputs = checked(outputs, failures, step.checks)
        else:
            with jax.enable_x64(True):
                outputs, failures = step.run({**self.fields, **now})
                raise_failures(failures, step.checks)
        return {p.name: nested(p.type.element, outputs[p.name]) for p in step.program.results}

    def whole(self, /, **arrays: Any) -> dict[str, Any]:
        """Arrays that lie on the devices, by the parameters that they are like, in the order of the caller."""
        found: dict[str, Any] = {}
        with jax.enable_x64(True):
            for name, value in arrays.items():
                param = self._like(name)
                leaves = self._leaves(param, value, name)
                made = [self.step.cropped(a, param.type.dims) for a in leaves]
                found[name] = nested(param.type.element, [on_host(a) if concrete(a) else a for a in made])
        return found

    def _param(self, name: str) -> Var:
        known = {p.name: p for p in self.step.reads}
        if name not in known:
            raise refuse("A08", f"'{self.step.program.name}' reads no '{name}'.", did_you_mean(name, known))
        return known[name]

    def _like(self, name: str) -> Var:
        known = {p.name: p for p in (*self.step.reads, *self.step.program.results)}
        if name not in known:
            raise refuse("A08", f"'{self.step.program.name}' has no '{name}'.", did_you_mean(name, known))
        return known[name]

    def _leaves(self, param: Var, value: Any, name: str) -> tuple[Any, ...]:
        leaves, shape = tuple(jax.tree_util.tree_leaves(value)), self.step.padded_dims(param.type.dims).shape
        for leaf in leaves:
            if np.shape(leaf) != shape or not self._here(leaf, param):
                told = f"'{name}' of the shape {np.shape(leaf)} does not lie on the devices as what is dealt out does."
                raise refuse("D16", told, "begin with what was dealt out: d.dealt(...)[name].")
        return leaves

    def _here(self, leaf: Any, param: Var) -> bool:
        """Whether an array lies on the devices as a parameter does; of a trace nobody knows."""
        if not concrete(leaf):
            return True
        place = self.step.sharding(param.type.dims)
        return isinstance(leaf, jax.Array) and leaf.sharding.is_equivalent_to(place, leaf.ndim)


def refuse_narrow(step: Step, name: str) -> None:
    """Raise A15 where a trace does not keep the types that a step computes with."""
    if step.wide:
        refuse_narrow_types(name)
