"""A call's arrays as they lie on the devices: a loop over steps that neither gathers its states nor deals them out.

Arrays of a caller have the points of a mesh in the order of its file, and no step can send only halos that is given
and gives those. What is dealt out once has them device by device, with the padding of each, and stays so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from lowering.distribution.processes import on_host
from lowering.distribution.step import Step
from lowering.failures import checked, raise_failures
from lowering.tracing import concrete, for_an_operator, inside_trace
from lowering.tracing import refuse_narrow as refuse_narrow_types
from tensorir.binding.arrays import refuse
from tensorir.binding.calls import PreparedCall, nested
from tensorir.ir.nodes import Var
from tensorir.ir.types import Dims
from tensorir.runtime.errors import did_you_mean

__all__ = ["Dealt", "refuse_narrow"]


def _arithmetic(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator of two arrays, and the other way round."""

    def method(self: DealtArray, other: Any) -> Any:
        return self.combined(function, other)

    def reflected(self: DealtArray, other: Any) -> Any:
        return self.combined(lambda a, b: function(b, a), other)

    return method, reflected


@partial(jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["step", "dims"])
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DealtArray:
    """An array that lies on the devices of a step, point by point as that deals them out.

    Arithmetic with numbers, and with what lies likewise, keeps it there. All else, `jnp` and NumPy among it, meets the
    whole array in the order of the caller, which is gathered for it: the padding of `data` is seen by nobody.
    """

    data: Any
    """On the devices, with the padding of each."""
    step: Step
    dims: Dims

    @property
    def whole(self) -> Any:
        """The array in the order of the caller."""
        with jax.enable_x64(True):
            return self.step.gathered(self.data, self.dims)

    def without_padding(self) -> Any:
        """The data with zeros in its padding, which has no part in gradients."""
        with jax.enable_x64(True):
            return self.step.zero_in_padding(self.data, self.dims)

    def lies_as(self, other: Any) -> bool:
        """Whether an array lies on the devices as this one does."""
        return (
            isinstance(other, DealtArray)
            and self.dims.items == other.dims.items
            and self.step.places(self.dims) == other.step.places(other.dims)
        )

    def combined(self, function: Callable[..., Any], other: Any) -> Any:
        """A function of two arrays point by point: on the devices where both lie there alike, or one is a number."""
        with jax.enable_x64(True):
            if self.lies_as(other):
                return replace(self, data=function(self.data, other.data))
            if isinstance(other, DealtArray) or np.ndim(other):
                return function(self.whole, jax.numpy.asarray(other))
            return replace(self, data=function(self.data, other))

    def __jax_array__(self) -> Any:
        return self if for_an_operator() else self.whole

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(on_host(self.whole), dtype)

    __array_priority__ = 1000
    """NumPy's operators ask this array for theirs."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.whole, name)

    def __getitem__(self, at: Any) -> Any:
        return self.whole[at]

    def __len__(self) -> int:
        return len(self.whole)

    def __repr__(self) -> str:
        return f"DealtArray({getattr(self.data, 'dtype', self.data)}, {self.dims})"

    def __neg__(self) -> DealtArray:
        return self.combined(lambda x, _: -x, 0)

    def __abs__(self) -> DealtArray:
        return self.combined(lambda x, _: abs(x), 0)

    __add__, __radd__ = _arithmetic(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv)
    __pow__, __rpow__ = _arithmetic(operator.pow)
    __lt__, __gt__ = _arithmetic(operator.lt)
    __le__, __ge__ = _arithmetic(operator.le)


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
        return self._handed_out(self._param(name), self.fields[name])

    def __call__(self, /, **arrays: Any) -> dict[str, Any]:
        """Results by name, on their devices; arrays that are not named are those that were dealt out."""
        step = self.step
        now = {name: self._leaves(self._param(name), value) for name, value in arrays.items()}
        if inside_trace([a.data for some in now.values() for a in some]):
            refuse_narrow(step, step.program.name)
            # what other processes have a part of is no constant of a trace
            fields = step.given(self._given) if step.shared else self.fields
            outputs, failures = step.run_inside({**fields, **_without_padding(now)})
            outputs = checked(outputs, failures, step.checks)
            return {p.name: self._handed_out(p, outputs[p.name]) for p in step.program.results}
        with jax.enable_x64(True):
            outputs, failures = step.run({**self.fields, **_without_padding(now)})
            raise_failures(failures, step.checks)
            return {p.name: self._handed_out(p, outputs[p.name]) for p in step.program.results}

    def whole(self, /, **arrays: Any) -> dict[str, Any]:
        """Arrays that lie on the devices, by the parameters that they are like, in the order of the caller."""
        found: dict[str, Any] = {}
        with jax.enable_x64(True):
            for name, value in arrays.items():
                param = self._like(name)
                made = [a.whole for a in self._leaves(param, value)]
                found[name] = nested(param.type.element, [on_host(a) if concrete(a) else a for a in made])
        return found

    def _handed_out(self, param: Var, leaves: Iterable[Any]) -> Any:
        dealt = (DealtArray(a, self.step, param.type.dims) for a in leaves)
        return nested(param.type.element, [replace(a, data=a.without_padding()) for a in dealt])

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

    def _leaves(self, param: Var, value: Any) -> tuple[DealtArray, ...]:
        leaves = jax.tree_util.tree_leaves(value, is_leaf=lambda x: isinstance(x, DealtArray))
        for leaf in leaves:
            if not DealtArray(None, self.step, param.type.dims).lies_as(leaf):
                told = f"'{param.name}' of the shape {np.shape(leaf)} does not lie on the devices"
                raise refuse(
                    "D16", f"{told} as what is dealt out does.", "begin with what was dealt out: d.dealt(...)[name]."
                )
        return tuple(leaves)


def _without_padding(arrays: Mapping[str, Iterable[DealtArray]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple([a.without_padding() for a in leaves]) for name, leaves in arrays.items()}


def refuse_narrow(step: Step, name: str) -> None:
    """Raise A15 where a trace does not keep the types that a step computes with."""
    if step.wide:
        refuse_narrow_types(name)
