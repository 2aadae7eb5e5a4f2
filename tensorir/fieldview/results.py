"""The results of operators: nested tuples of fields as outputs of a fencil, on the parts that a call asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.binding.arrays import is_tuple, type_of_named
from tensorir.fieldview.traced import Traced, wrap
from tensorir.integers.dims import Dims, Interval
from tensorir.ir import build
from tensorir.ir.nodes import Closure, Expr, Var
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.runtime.locations import here


def on_common_dims(result: Any) -> Any:
    """A result as one traced field; a tuple whose members have different dims or intervals stays a tuple of such."""
    if not is_tuple(result):
        return wrap(result)
    members = tuple(map(on_common_dims, result))
    first = members[0] if members else None
    if isinstance(first, Traced) and all(isinstance(m, Traced) and m.type.dims == first.type.dims for m in members):
        return wrap(members)
    return members


def members_of(value: Any, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], Traced]:
    """The fields of a nested tuple by their path: {(0,): a, (1, 0): b} of (a, (b,)); of a single field {(): field}."""
    if isinstance(value, Traced):
        return {path: value}
    return {at: field for k, member in enumerate(value) for at, field in members_of(member, (*path, k)).items()}


def nest(names: Mapping[tuple[int, ...], str]) -> Any:
    """The nested tuple of names by path, the inverse of `members_of`.

    >>> nest({(0,): "a", (1, 0): "b", (1, 1): "c"}), nest({(): "a"})
    (('a', ('b', 'c')), 'a')
    """
    if () in names:
        return names[()]
    count = 1 + max(path[0] for path in names)
    return tuple(nest({p[1:]: name for p, name in names.items() if p[0] == k}) for k in range(count))


def gathered(results: Any, outputs: Mapping[str, Any]) -> Any:
    """The results of an operator: the nested tuple of names `results` with the array of `outputs` for each name."""
    return outputs[results] if isinstance(results, str) else tuple(gathered(r, outputs) for r in results)


def spread(results: Any, out: Any, name: str) -> dict[str, Any]:
    """The buffers of `out=` by output parameter; raises A04 where they are not nested as the names in `results` are."""
    if isinstance(results, str):
        return {results: out}
    if not is_tuple(out) or len(out) != len(results):
        passed = f"a tuple of {len(out)}" if is_tuple(out) else type(out).__name__
        raise refuse("A04", f"'{name}' takes a tuple of {len(results)} fields, and this is {passed}.")
    buffers: dict[str, Any] = {}
    for k, (result, member) in enumerate(zip(results, out, strict=True)):
        buffers.update(spread(result, member, f"{name}[{k}]"))
    return buffers


def at_path(out: Any, path: tuple[int, ...]) -> Any:
    """The buffer of `out=` for the member of a result at a path, None where there is none (which `spread` refuses)."""
    for k in path:
        out = out[k] if is_tuple(out) and k < len(out) else None
    return out


def output_of(name: str, value: Expr, kind: TensorType, region: Dims | None) -> tuple[Var, Closure]:
    """The output parameter of a type and the closure that writes `value` to it, on `region` cut to its dims.

    Without a region it is written everywhere. Raises V22 for a region that is not inside of the output.
    """
    output = build.var(name, kind)
    if region is None:
        return output, build.closure(output, value, span=value.span)
    part = _part(region, kind)
    for dim, i in part.items:
        have = kind.dims[dim]
        if not have.covers(i):
            message = f"the domain {dim}{i} is not inside of {dim}{have}, all of '{name}'."
            raise refuse("V22", message, "make it smaller.", at=here())
    return output, build.closure(output, value, kind.dims.replaced(part), span=value.span)


def _part(region: Dims, kind: TensorType) -> Dims:
    return Dims(tuple(item for item in region.items if item[0] in kind.dims))


def check_region(region: Dims, kinds: Sequence[TensorType]) -> None:
    """Raise V22 for a region with a dim that no result has; `kinds` are the types of the results."""
    have = dict.fromkeys(n for kind in kinds for n in kind.dims)
    unknown = [n for n in region if n not in have]
    if unknown:
        shown = str(kinds[0].dims) if len(kinds) == 1 else ", ".join(have)
        message = f"the domain names {', '.join(unknown)}, and the result has {shown}."
        raise refuse("V22", message, did_you_mean(unknown[0], list(have)), at=here())


def placed_result(out: Any, kind: TensorType, region: Dims | None, placed: Mapping[int, Dims]) -> TensorType:
    """The type of an output parameter for a result of type `kind`.

    Without a buffer `out` it is `kind` on the region, if there is one. With a buffer it has its dims if they are named
    (`placed` has dims by `id(array)` after alignment), and the shape from 0 if not. Raises A03 for another number of
    axes.
    """
    if out is None:
        return kind if region is None else kind.on(kind.dims.replaced(_part(region, kind)))
    first = out
    while is_tuple(first):
        first = first[0]
    named = type_of_named(first, placed)
    if named is not None:
        return kind.on(named.dims)
    shape = tuple(getattr(first, "shape", ()))
    if len(shape) != len(kind.dims):
        raise refuse("A03", f"'out' has {len(shape)} axes, and the result has {kind.dims}.")
    if region is None and shape == kind.dims.shape:
        return kind
    return kind.on(Dims(tuple((n, Interval(0, s)) for n, s in zip(kind.dims.names, shape, strict=True))))
