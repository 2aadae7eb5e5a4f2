"""`DealtArray`: an array that stays on the devices of a step from one call of a loop to the next.

Arrays of a caller have the points of a mesh in the order of its file, and no step can send only halos that is given
and gives those. Arrays that were distributed once lie device by device, with the padding of each, and stay so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from lowering.context import checked, raise_failures
from lowering.distribution.meshes import on_host
from lowering.distribution.step import Step
from lowering.tracing import concrete, for_an_operator, inside_trace
from lowering.tracing import refuse_narrow as refuse_narrow_types
from tensorir.binding.arrays import leaves_of, nested
from tensorir.binding.calls import PreparedCall
from tensorir.integers.dims import Dims
from tensorir.ir.nodes import Var
from tensorir.ir.types import DTYPES, scalar_of
from tensorir.runtime.errors import article, did_you_mean, refuse


def _arithmetic(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator as a method of `DealtArray`, and its reflected method."""

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
        """True if an array is distributed on the devices as this one is."""
        return (
            isinstance(other, DealtArray)
            and self.dims.items == other.dims.items
            and self.step.places(self.dims) == other.step.places(other.dims)
        )

    def combined(self, function: Callable[..., Any], other: Any) -> Any:
        """A function of two arrays point by point: on the devices if both are distributed alike or one is a number,
        else whole.
        """
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
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv)
    __mod__, __rmod__ = _arithmetic(operator.mod)
    __pow__, __rpow__ = _arithmetic(operator.pow)
    __lt__, __gt__ = _arithmetic(operator.lt)
    __le__, __ge__ = _arithmetic(operator.le)

    def __eq__(self, other: object) -> Any:
        return self.combined(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self.combined(operator.ne, other)


class Dealt:
    """The arguments of a call on their devices, and the program on what lies so.

    `dealt["x"]` is one of them, `dealt(x=u)` the program with others in its place, and `dealt.whole(y=v)` what came of
    it in the order of the caller.
    """

    def __init__(self, step: Step, ready: PreparedCall) -> None:
        """The arrays of a prepared call, distributed as `step` reads them."""
        self.step, self._arguments = step, {p.name: ready.arrays[p.name] for p in step.reads}
        with jax.enable_x64(True):
            self.fields: dict[str, tuple[Any, ...]] = step.placed(ready.arrays)

    def __getitem__(self, name: str) -> Any:
        return self._handed_out(self._param(name), self.fields[name])

    def __call__(self, /, **arrays: Any) -> dict[str, Any]:
        """Results by name, as `DealtArray`; parameters that are not named keep the arrays that were distributed
        first.

        Raises A02 for arrays of another element type.
        """
        step = self.step
        new_fields = {name: self._leaves(self._param(name), value) for name, value in arrays.items()}
        is_inside = inside_trace([a.data for some in new_fields.values() for a in some])
        if is_inside:
            refuse_narrow(step, step.program.name)
        for name, leaves in new_fields.items():
            for leaf, element in zip(leaves, self._param(name).type.leaves, strict=True):
                if leaf.data.dtype != DTYPES[element]:
                    message = f"'{name}' needs {element}, and this is {scalar_of(leaf.data.dtype) or leaf.data.dtype}."
                    raise refuse("A02", message, f"nothing is converted silently; compute it as {element}.")
        if is_inside:
            # what other processes have a part of is no constant of a trace
            fields = step.padded_arrays(self._arguments) if step.shared else self.fields
            outputs, failures = step.run_inside({**fields, **_without_padding(new_fields)})
            outputs = checked(outputs, failures, step.checks)
        else:
            with jax.enable_x64(True):
                outputs, failures = step.run({**self.fields, **_without_padding(new_fields)})
                raise_failures(failures, step.checks)
        return {p.name: self._handed_out(p, outputs[p.name]) for p in step.program.results}

    def whole(self, /, **arrays: Any) -> dict[str, Any]:
        """Arrays in the order of the caller, of `DealtArray`s given by the name of a parameter or result of their
        kind.
        """
        gathered: dict[str, Any] = {}
        with jax.enable_x64(True):
            for name, value in arrays.items():
                param = self._like(name)
                leaves = [a.whole for a in self._leaves(param, value)]
                gathered[name] = nested(param.type.element, [on_host(a) if concrete(a) else a for a in leaves])
        return gathered

    def _handed_out(self, param: Var, leaves: Iterable[Any]) -> Any:
        """The arrays of a parameter or result as `DealtArray`s, with zeros in their padding."""
        dealt = (DealtArray(a, self.step, param.type.dims) for a in leaves)
        return nested(param.type.element, [replace(a, data=a.without_padding()) for a in dealt])

    def _param(self, name: str) -> Var:
        """The parameter of that name; raises A08 for one that the step does not read."""
        params = {p.name: p for p in self.step.reads}
        if name not in params:
            raise refuse("A08", f"'{self.step.program.name}' reads no '{name}'.", did_you_mean(name, params))
        return params[name]

    def _like(self, name: str) -> Var:
        """The parameter or result of that name; raises A08 for an unknown one."""
        params = {p.name: p for p in (*self.step.reads, *self.step.program.results)}
        if name not in params:
            raise refuse("A08", f"'{self.step.program.name}' has no '{name}'.", did_you_mean(name, params))
        return params[name]

    def _leaves(self, param: Var, value: Any) -> tuple[DealtArray, ...]:
        """The `DealtArray`s of a value for a parameter; raises A04 for another structure, D16 for arrays that are
        distributed otherwise.
        """
        leaves = leaves_of(value, param.type.element, param.name)
        for name, _, leaf in leaves:
            if not DealtArray(None, self.step, param.type.dims).lies_as(leaf):
                shape = f"of the shape {leaf.shape}" if hasattr(leaf, "shape") else f"as {article(type(leaf).__name__)}"
                message = f"'{name}' {shape} does not lie on the devices as what is dealt out does."
                raise refuse("D16", message, "begin with what was dealt out: d.dealt(...)[name].")
        return tuple(leaf for _, _, leaf in leaves)


def _without_padding(arrays: Mapping[str, Iterable[DealtArray]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple([a.without_padding() for a in leaves]) for name, leaves in arrays.items()}


def refuse_narrow(step: Step, name: str) -> None:
    """Raise A15 where a trace does not keep the types that a step computes with."""
    if step.wide:
        refuse_narrow_types(name)
