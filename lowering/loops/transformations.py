"""JAX's transformations of functions of labelled arrays, each run as one program."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Number
from typing import Any, cast

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from lowering.calls.executable import BARRIERS_STAY, ask, jitted, on_host, remembering
from lowering.calls.shared_programs import Program, shared
from lowering.field import Field
from lowering.labelled import (
    Kind,
    apart,
    explained,
    is_data_array,
    is_dataset,
    is_labelled,
    is_named,
    is_parts,
    numbers,
    whole,
    with_numbers,
)
from lowering.loops.states import entered, from_jax, left
from lowering.tracing import inside_jit, inside_trace, op_by_op
from tensorir.binding.arrays import intervals_of
from tensorir.fieldview.closure_fingerprint import function_key
from tensorir.runtime.errors import article, refuse
from tensorir.runtime.memory import KEPT_MEMORY, RecentCache

# A function of trees of arrays that XLA runs as one program, made of parts that stay apart in it.


def one_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of pytrees, compiled whole with 64-bit types; NumPy arrays give NumPy arrays.

    Within a trace, or under `jax.disable_jit`, it is `jax.jit` of the function.
    """
    jitted_in_trace = jax.jit(function)
    compiled: list[Any] = []

    def run(*trees: Any) -> Any:
        """The results of the function, compiled at the first call."""
        leaves = jax.tree_util.tree_leaves(trees)
        _expect_block(leaves)
        if inside_trace(leaves) or op_by_op():
            return jitted_in_trace(*trees)
        with jax.enable_x64(True):
            if not compiled:
                compiled.append(jitted(function, *trees))
            results = compiled[0](*trees)
        host = all(isinstance(a, np.ndarray) for a in leaves if hasattr(a, "dtype"))
        return jax.tree_util.tree_map(on_host, results) if host else results

    return remembering(run)


def _expect_block(leaves: Sequence[Any]) -> None:
    """Gradients keep about as much as all fields are, in one block."""
    if jax.default_backend() == "cpu":
        KEPT_MEMORY.expect(sum(a.size * a.dtype.itemsize for a in leaves if hasattr(a, "dtype")), arrays=1)


def part(function: Callable[..., Any], checkpoint: bool) -> Callable[..., Any]:
    """A function of pytrees that XLA does not fuse with its surroundings on the CPU, nor its gradient.

    XLA's fusions on the CPU compute again the values that several others read: across the programs of a weather model
    one fusion of hundreds of operations took most of the gradient, which is four times as fast without it.
    `checkpoint`: gradients keep the inputs only, and compute the function again.
    """

    def apart(*trees: Any) -> Any:
        """The results of the function, its operations marked as not inlineable on the CPU."""
        if jax.default_backend() != "cpu":
            return function(*trees)
        if checkpoint:
            ask(BARRIERS_STAY)  # or XLA takes what is computed again for what was computed before, and keeps it
        with set_xla_metadata(inlineable="false"):
            return function(*trees)

    return remembering(jax.checkpoint(apart)) if checkpoint else apart


# JAX's transformations of functions of labelled arrays: DataArrays, Datasets and Fields go in and come out whole.
#
# A function sees DataArrays and Datasets around tracers, as the step of `ti.iterate` does. 64-bit types are kept. In
# somebody's transformation these are JAX's own.


@jax.tree_util.register_static
@dataclass(frozen=True)
class Fixed:
    """An argument that decides what is traced: a whole number, a text, a choice."""

    value: Any


@dataclass(frozen=True)
class Traced:
    """A function of labelled arrays as a program of their numbers, and the structure of its results."""

    program: Program
    structure: Any


TRACED: RecentCache[Any, Traced] = RecentCache("traced losses and functions", 64)
"""Those that ran last, by their code, what they read outside, and the kinds of their arguments."""


def _run_cached(kind: Any, function: Callable[..., Any], flat: Callable[[Any], Any], arguments: Any) -> Any:
    """The result of `flat` for a pytree of `Parts`, as one program with 64-bit types, cached by function and
    arguments.

    `flat` computes with the caller's `function`, whose code and captured values are part of the key, as is `kind`, the
    options of the transformation. Results are NumPy arrays if all arrays that came in are. Within a trace, and under
    `jax.disable_jit`, `flat` is called directly.
    """
    leaves, tree = jax.tree_util.tree_flatten(arguments)
    _expect_block(leaves)
    if op_by_op() or inside_trace(leaves):
        return whole(flat(arguments))
    key = kind, function_key(function), Kind(arguments)

    def traced() -> Traced:
        """The shared program of `flat` on the leaves, and the structure of its results, known after tracing."""
        structures: list[Any] = []

        def program(leaves: Any) -> list[Any]:
            """The leaves of the results; notes their structure."""
            results, structure = jax.tree_util.tree_flatten(flat(tree.unflatten(leaves)))
            structures.append(structure)
            return results

        return Traced(shared(program, leaves), structures[-1])

    with jax.enable_x64(True):
        entry = TRACED.of(key, traced)
        results = entry.structure.unflatten(entry.program(leaves))
    arrays = [a for a in leaves if hasattr(a, "dtype")]
    return left(results) if not from_jax(arrays) and arrays else whole(results)


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

    def transformed(positions: Sequence[int], parts: Any) -> Any:
        """The loss, the auxiliary result and the gradients, of `Parts` of positional and keyword arguments."""
        arguments, keywords = parts

        def checked(*chosen: Any) -> Any:
            """The number of the loss and the auxiliary result, as a function of the numbers of the arguments
            differentiated.
            """
            inputs = list(arguments)
            for k, gradient_numbers in zip(positions, chosen, strict=True):
                inputs[k] = with_numbers(inputs[k], gradient_numbers)
            with explained():
                result = loss(*_without_static_leaves(inputs), **_without_static_leaves(keywords))
                if has_aux and not (isinstance(result, tuple) and len(result) == 2):
                    message = "has_aux is given, and the function returns no pair."
                    raise refuse("A41", message, "return (loss, what else is wanted).")
                value: Any = result[0] if has_aux else result
                number = value.data if is_data_array(value) or isinstance(value, Field) else value
                if not (hasattr(number, "shape") or isinstance(cast("Any", number), Number)):
                    kind = "None" if number is None else article(type(number).__name__)
                    message = f"the loss is {kind}, and a gradient is that of one number."
                    raise refuse("A41", message, "return one number; what else is wanted goes with has_aux=True.")
                if np.ndim(number):
                    labelled = intervals_of(value, {}) if is_data_array(value) else ""
                    dims = value.dims if isinstance(value, Field) else labelled
                    kind = f"on {dims}" if dims else f"of the shape {np.shape(number)}"
                    message = f"the loss is {kind}, and a gradient is that of one number."
                    raise refuse("A41", message, "add it up: x.sum().")
            return number, apart(result[1]) if has_aux else None

        argnums_of_checked = tuple(range(len(positions)))
        differentiated = [numbers(arguments[k]) for k in positions]
        (value, aux), slopes = jax.value_and_grad(checked, argnums_of_checked, has_aux=True)(*differentiated)
        return (
            value,
            aux,
            [
                with_numbers(arguments[k], gradient_numbers)
                for k, gradient_numbers in zip(positions, slopes, strict=True)
            ],
        )

    def run(*arguments: Any, **keywords: Any) -> Any:
        """The loss and its gradients for labelled arguments."""
        positions = _positions(argnums, len(arguments))
        arguments = tuple(a if k in positions else _with_static_leaves(a) for k, a in enumerate(arguments))
        parts = entered((arguments, _with_static_leaves(keywords)))
        for k in positions:
            for name, leaf in _named_numbers(parts[0][k]):
                _require_inexact(leaf, name or _argument_name(loss, k, arguments[k]))
        value, aux, slopes = _run_cached((positions, has_aux), loss, partial(transformed, positions), parts)
        gradients = tuple(_with_units(x, units) for x in slopes)
        return (value, aux) if has_aux else value, gradients if np.iterable(argnums) else gradients[0]

    return _with_function(loss, run)


def _positions(argnums: Any, count: int) -> tuple[int, ...]:
    """The places of the arguments that `argnums` names, of `count` that a call gives by position; -1 is the last one.

    Raises A41 for names, for none, for a place that the call does not give, and for one that is named twice.
    """
    named: tuple[Any, ...] = tuple(argnums) if np.iterable(argnums) and not isinstance(argnums, str) else (argnums,)
    if not named or any(isinstance(k, bool) or not isinstance(k, Integral) for k in named):
        raise refuse("A41", f"argnums is {argnums!r}, and gradients are by arguments.", "count them: argnums=(0, 1).")
    for k in named:
        if not -count <= k < count:
            message = f"the gradient is by argument {k}, and the call gives {count} by position."
            raise refuse("A41", message, "give it by position, or name another one: argnums=0.")
    positions = tuple(k % count for k in named)
    if len(set(positions)) < len(positions):
        raise refuse("A41", f"argnums is {argnums!r}, which names an argument twice.", "name each one once.")
    return positions


def _with_function(function: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, marked with the function that it transforms, so that its captured values are those of that function."""
    run.function = function  # type: ignore[attr-defined]
    return run


def _with_static_leaves(tree: Any, kinds: tuple[type, ...] = (bool, int, str)) -> Any:
    """The pytree with its leaves of some kinds, of bools, integers and texts, as `Fixed`, which JAX does not trace."""
    static = lambda x: Fixed(x) if isinstance(x, kinds) else x
    return jax.tree_util.tree_map(static, tree, is_leaf=is_named)


def _without_static_leaves(parts: Any) -> Any:
    """The labelled arrays of `Parts`, with the values of `Fixed` leaves."""
    value = lambda x: x.value if isinstance(x, Fixed) else x
    return jax.tree_util.tree_map(value, whole(parts), is_leaf=lambda x: isinstance(x, Fixed) or is_named(x))


def _named_numbers(parts: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of an argument, each with the name of its variable or dict key, or "" without one."""
    for path, x in jax.tree_util.tree_leaves_with_path(parts, is_leaf=lambda x: is_parts(x) or isinstance(x, Field)):
        keys = [str(part.key) for part in path if isinstance(part, jax.tree_util.DictKey)]
        if is_parts(x):
            names = [n for n, _, _ in x.structure.members]
            yield from zip([keys[-1] if keys and n is None else n or "" for n in names], x.numbers, strict=True)
        else:
            yield keys[-1] if keys else "", x.data if isinstance(x, Field) else x


def grad(
    loss: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, units: str = ""
) -> Callable[..., Any]:
    """A function that gives the gradient of a loss by some arguments, each with the labels of its argument.

    Each has the dims, the shape and the element type of its argument, and where `units` says those of the loss, these
    per its own. With `has_aux` it gives a pair, and all else is as with `value_and_grad`.
    """
    both = value_and_grad(loss, argnums, has_aux=has_aux, units=units)

    def run(*arguments: Any, **more: Any) -> Any:
        """The gradients for labelled arguments."""
        value_and_aux, slopes = both(*arguments, **more)
        return (slopes, value_and_aux[1]) if has_aux else slopes

    return _with_function(loss, run)


def jit(function: Callable[..., Any], /) -> Callable[..., Any]:
    """The function as one program of XLA, compiled with what the programs in it ask for.

    Results are what they are without it, with their dims, labels, units and other attributes. What the function reads
    from outside is read anew where it has changed. Texts among the arguments are not traced: each is a program.

    >>> import xarray as xr
    >>> h = xr.DataArray([2.0, 3.0], dims="lat", coords={"lat": [60.0, 50.0]})
    >>> jit(lambda h: 2 * h)(h).sel(lat=50.0).item()
    6.0
    """

    def flat(parts: Any) -> Any:
        """The `Parts` of the results, of `Parts` of positional and keyword arguments."""
        arguments, keywords = _without_static_leaves(parts)
        with explained():
            return apart(function(*arguments, **keywords))

    compiled = jax.jit(flat)

    def run(*arguments: Any, **keywords: Any) -> Any:
        """The results for labelled arguments."""
        parts = entered(_with_static_leaves((arguments, keywords), (str,)))
        if not inside_trace(jax.tree_util.tree_leaves(parts)) or op_by_op() or inside_jit():
            return _run_cached("jit", function, flat, parts)
        return whole(compiled(parts))

    return _with_function(function, run)


def _argument_name(loss: Callable[..., Any], k: int, argument: Any) -> str:
    """The name of argument number k in messages: its own, or the parameter's."""
    name = getattr(argument, "name", None)
    parameters = list(inspect.signature(loss).parameters)
    return str(name) if name else parameters[k] if k < len(parameters) else f"argument {k}"


def _require_inexact(leaf: Any, name: str) -> None:
    """Raise A41 for an array of integers or truth values: only inexact types, floats and complex, have gradients."""
    dtype: Any = getattr(leaf, "dtype", np.result_type(leaf))
    if not jax.numpy.issubdtype(dtype, jax.numpy.inexact):
        message = f"'{name}' is {article(dtype.name)}, and only floats have gradients."
        raise refuse("A41", message, f"convert it, {name}.astype('float64'), or name others: argnums=1.")


_FACTOR = re.compile(r"[^\s/*.·⋅^@()-]+(\^?[+-]?\d+)?")
"""One unit, with an exponent or not: products, as `m.s-1`, stand between parentheses in a denominator."""


def _with_units(slopes: Any, units: str) -> Any:
    """The gradients without attributes, but with the units of the loss per those of the argument, if both are known."""

    def one(x: Any) -> Any:
        """One DataArray with its units."""
        if not is_data_array(x):
            return x
        unit = str(x.attrs.get("units", ""))
        per = unit if _FACTOR.fullmatch(unit) else f"({unit})"
        bare = x.copy(deep=False)
        bare.attrs = {"units": f"{units}/{per}"} if units and unit else {}
        return bare

    def each(x: Any) -> Any:
        """A labelled array, or each variable of a Dataset, with its units."""
        return x.assign({n: one(v) for n, v in x.data_vars.items()}).drop_attrs(deep=False) if is_dataset(x) else one(x)

    return jax.tree_util.tree_map(each, slopes, is_leaf=is_labelled)
