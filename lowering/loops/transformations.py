"""JAX's transformations of functions of labelled arrays, each run as one program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from lowering.calls.executable import BARRIERS_STAY, ask, jitted, on_host, remembering
from lowering.field import Field
from lowering.loops.states import entered, in_order, is_data_array, is_dataset, is_named_arrays, known_to, members
from lowering.tracing import inside_trace, op_by_op
from tensorir.binding.arrays import article, refuse
from tensorir.runtime.memory import KEPT_MEMORY

# A function of trees of arrays that XLA runs as one program, made of parts that stay apart in it.


def one_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled whole: 64-bit types are kept, and NumPy arrays give NumPy arrays.

    Inside of somebody's transformation it is that function.
    """
    inside = jax.jit(function)
    by_itself: list[Any] = []

    def run(*trees: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(trees)
        if jax.default_backend() == "cpu":
            # gradients keep about as much as all fields are, in one block
            KEPT_MEMORY.expect(sum(a.size * a.dtype.itemsize for a in leaves if hasattr(a, "dtype")), arrays=1)
        if inside_trace(leaves) or op_by_op():
            return inside(*trees)
        with jax.enable_x64(True):
            if not by_itself:
                by_itself.append(jitted(function, *trees))
            found = by_itself[0](*trees)
        host = all(isinstance(a, np.ndarray) for a in leaves if hasattr(a, "dtype"))
        return jax.tree_util.tree_map(on_host, found) if host else found

    return remembering(run)


def part(function: Callable[..., Any], checkpoint: bool) -> Callable[..., Any]:
    """A function of trees of arrays that is not mixed with what is around it, and neither is its gradient.

    XLA's fusions on the CPU compute again what several others read: across the programs of a weather model one fusion
    of hundreds of operations took most of the gradient, which is four times as fast without it. With `checkpoint`
    gradients compute again what is inside, and keep what goes in.
    """

    def apart(*trees: Any) -> Any:
        if jax.default_backend() != "cpu":
            return function(*trees)
        if checkpoint:
            ask(BARRIERS_STAY)  # or XLA takes what is computed again for what was computed before, and keeps it
        with set_xla_metadata(inlineable="false"):
            return function(*trees)

    return remembering(jax.checkpoint(apart)) if checkpoint else apart


# JAX's transformations of functions of labelled arrays: DataArrays, Datasets and Fields go in and come out whole.
#
# A function sees DataArrays as Fields, and a Dataset as a dict of them, as the step of `ti.iterate` does. 64-bit
# types are kept. In somebody's transformation these are JAX's own.


def value_and_grad(
    loss: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, units: str = ""
) -> Callable[..., Any]:
    """A function that gives a loss and its gradient by some arguments, each with the labels of its argument.

    The loss is one number, without dims; a gradient has the dims, the shape and the element type of its argument.
    `units` are those of the loss: gradients of J by K are then J/K, and say no unit otherwise. The options of JAX are
    `argnums` and `has_aux`. Raises A41 for a gradient by what is no float, and for a loss that is no number.

    >>> import xarray as xr
    >>> h = xr.DataArray([2.0, 3.0], dims="lat", coords={"lat": [60.0, 50.0]}, attrs={"units": "K"})
    >>> value, slope = value_and_grad(lambda h: (h * h).sum(), units="J")(h)
    >>> float(value), slope.values.tolist(), slope.lat.values.tolist(), slope.attrs
    (13.0, [4.0, 6.0], [60.0, 50.0], {'units': 'J/K'})
    """
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def checked(*arguments: Any) -> Any:
        found = loss(*arguments)
        value = found[0] if has_aux else found
        number: Any = value.data if isinstance(value, Field) else value
        if np.ndim(number):
            kind = f"on {value.dims}" if isinstance(value, Field) else f"of the shape {np.shape(value)}"
            raise refuse("A41", f"the loss is {kind}, and a gradient is that of one number.", "add it up: x.sum().")
        return (number, found[1]) if has_aux else number

    transformed = jax.value_and_grad(checked, argnums, has_aux)

    def run(*arguments: Any, **more: Any) -> Any:
        fields, known, leave = entered(arguments)
        for k in wanted:
            for path, leaf in jax.tree_util.tree_leaves_with_path(fields[k]):
                variables = [str(part.key) for part in path if isinstance(part, jax.tree_util.DictKey)]
                _refuse_inexact(leaf, variables[-1] if variables else _name(loss, k, arguments[k]))
        if inside_trace(jax.tree_util.tree_leaves((fields, more))):
            with known_to(known):
                return transformed(*fields, **more)
        with jax.enable_x64(True), known_to(known):
            found, slopes = transformed(*fields, **more)
        each = dict(zip(wanted, (slopes,) if isinstance(argnums, int) else slopes, strict=True))
        # in the places of the arguments, whose labels they have
        left = leave(tuple(each.get(k) for k in range(len(arguments))))
        ours = tuple(_with_units(left[k], units) for k in wanted)
        return leave(found, {}), ours[0] if isinstance(argnums, int) else ours

    return run


def grad(
    loss: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, units: str = ""
) -> Callable[..., Any]:
    """A function that gives the gradient of a loss by some arguments, each with the labels of its argument.

    Each has the dims, the shape and the element type of its argument, and where `units` says those of the loss, these
    per its own. With `has_aux` it gives a pair, and all else is as with `value_and_grad`.
    """
    both = value_and_grad(loss, argnums, has_aux=has_aux, units=units)

    def run(*arguments: Any, **more: Any) -> Any:
        found, slopes = both(*arguments, **more)
        return (slopes, found[1]) if has_aux else slopes

    return run


def jit(function: Callable[..., Any], /) -> Callable[..., Any]:
    """The function as one program of XLA, compiled with what the programs in it ask for.

    Results have the labels of arguments on the same dims and intervals, and no attributes: nobody knows their units.
    A result that has the variables of a Dataset among the arguments is a Dataset.

    >>> import xarray as xr
    >>> h = xr.DataArray([2.0, 3.0], dims="lat", coords={"lat": [60.0, 50.0]})
    >>> jit(lambda h: 2 * h)(h).sel(lat=50.0).item()
    6.0
    """

    def whole_function(arguments: Any, more: Any, known: Any) -> Any:
        with known_to(known):
            return function(*arguments, **more)

    compiled = one_program(whole_function)

    def run(*arguments: Any, **more: Any) -> Any:
        (fields, named), known, leave = entered((arguments, more))
        found = compiled(fields, named, known)
        if inside_trace(jax.tree_util.tree_leaves((fields, named))):
            return found
        whole = [x for x in (*arguments, *more.values()) if is_dataset(x)]

        def joined(x: Any) -> Any:
            model = next((d for d in whole if is_named_arrays(x) and x.keys() == set(members(d))), None)
            return x if model is None else type(model)(in_order(x, model))

        return jax.tree_util.tree_map(joined, leave(found, {}), is_leaf=is_named_arrays)

    return run


def _name(loss: Callable[..., Any], k: int, argument: Any) -> str:
    """The name of an argument in messages: its own, or the loss's name for it."""
    own = getattr(argument, "name", None)
    parameters = list(inspect.signature(loss).parameters)
    return str(own) if own else parameters[k] if k < len(parameters) else f"argument {k}"


def _refuse_inexact(leaf: Any, name: str) -> None:
    dtype: Any = getattr(leaf, "dtype", np.result_type(leaf))
    if not jax.numpy.issubdtype(dtype, jax.numpy.inexact):
        told = f"'{name}' is {article(dtype.name)}, and only floats have gradients."
        raise refuse("A41", told, f"convert it, {name}.astype('float64'), or name others: argnums=1.")


def _with_units(slopes: Any, units: str) -> Any:
    def one(x: Any) -> Any:
        if not is_data_array(x):
            return x
        own = str(x.attrs.get("units", ""))
        per = f"({own})" if set(own) & set(" /*") else own
        bare = x.drop_attrs(deep=False)
        return bare.assign_attrs(units=f"{units}/{per}") if units and own else bare

    def each(x: Any) -> Any:
        return x.assign({n: one(v) for n, v in x.data_vars.items()}).drop_attrs(deep=False) if is_dataset(x) else one(x)

    return jax.tree_util.tree_map(each, slopes)
