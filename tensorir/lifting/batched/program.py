"""A region with tensor values as a fencil: parameters for its arguments, one closure per argument that is written.

>>> from tensorir.lifting.region import parse_region
>>> region = parse_region('''
... region twice {
...   argument A: float32[a=8];
...   argument B: float32[b=8];
...   for i in 0:4 independent {
...     t: tensor<float32, x[0:2]> ← A[2*i + x];
...     B[2*i + x] ← t + t;
...   }
... }''')
>>> print(batched(region).fencil)
twice(A: tensor<float32, b[0:8]>, B: tensor<float32, b[0:8]>) {
  B ← A + A;
}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.ir.build import call, closure, fencil, literal, var
from tensorir.ir.nodes import Closure, Expr, Fencil, Var
from tensorir.ir.types import BOOL, FLOAT32, Dims, Scalar, TensorType
from tensorir.lifting.batched.loops import run
from tensorir.lifting.batched.scope import Run, Scope, dims_of, zero_of
from tensorir.lifting.emission.tensors import converted, cut, spread
from tensorir.lifting.region.nodes import Atomic, Buffer, Region, Write, walk
from tensorir.lifting.rewrites.canonical import tidied
from tensorir.runtime.errors import Span


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a region as the parameter of a program: its type, and what it is of the other both ways."""

    type: TensorType
    taken: Callable[[Expr], Expr]
    given: Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Batched:
    """The program of a region, the arguments that it writes, and what was decided."""

    fencil: Fencil
    written: tuple[str, ...]
    run: Run = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unspecified:
    """Unspecified values that are read, and the region with others in their place."""

    what: str
    span: Span
    others: Sequence[Region]


def batched(
    region: Region, arguments: Mapping[str, Argument] | None = None, checked: bool = False, exact: bool = False,
    on_hazard: str = "error", raise_online: bool = False, unspecified: Unspecified | None = None,
) -> Batched:  # fmt: skip
    """The tensor program of a region. Raises TL12 for races that are proven, unless `on_hazard` is "sequential".

    With values that are `unspecified` it checks that no result shows them.
    """
    buffers = {b.name: b for b in region.buffers}
    known = {n: (arguments or {}).get(n) or _plain(b) for n, b in buffers.items() if b.argument}
    params = {n: var(n, a.type) for n, a in known.items()}
    memory = {n: known[n].taken(params[n]) if b.argument else _zeros(b) for n, b in buffers.items()}
    found = Run(buffers, checked, exact, on_hazard, raise_online)
    scope = Scope(found, {}, {}, {}, dict(memory), {})
    run(scope, region.body)
    written = {n.buffer.name for n in walk(region.body) if isinstance(n, Write | Atomic)}
    outputs = tuple(n for n, b in buffers.items() if b.argument and n in written)
    values: list[tuple[Var, Expr]] = []
    for name in outputs:
        values.append((params[name], _given(scope, name, known[name])))
    for other in () if unspecified is None else unspecified.others:
        assert unspecified is not None
        again = Run(buffers, checked, exact, on_hazard, raise_online, count=found.count)
        filled = Scope(again, {}, {}, {}, dict(memory), {})
        run(filled, other.body)
        found.count = again.count
        for k, (v, x) in enumerate(values):
            message = f"{unspecified.what} reaches '{v.name}'."
            same = _alike(x, _given(filled, v.name, known[v.name]))
            values[k] = v, call("assert_", x, same, static=(message,), span=unspecified.span)
    if checked and found.asserted and values:
        v, x = values[0]
        for condition, message, span in found.asserted:
            x = call("assert_", x, condition, static=(message,), span=span)
        values[0] = v, x
    closures, further = _ordered(values, list(params.values()))
    order = list(params.values())
    if not closures:
        nothing = var("nothing", TensorType(BOOL))
        order, closures = [*order, nothing], [closure(nothing, literal(False))]
    made = tidied(fencil(region.name, [*order, *further], closures), exact, found.merged)
    made = replace(made, buffers=frozenset(v.name for v in further))
    return Batched(made, outputs, found)


def _given(scope: Scope, name: str, argument: Argument) -> Expr:
    """The final value of an argument."""
    whole = dims_of(scope.run.buffers[name])
    return argument.given(cut(spread(scope.memory[name], whole), whole))


def _alike(x: Expr, y: Expr) -> Expr:
    """True if two results are one number, or, of floats that are not rounded in the same order, finite alike."""
    element = x.tensor.element
    if isinstance(element, Scalar) and element.is_float:
        x, y = (call("isfinite", converted(e, FLOAT32) if element.bits < 32 else e) for e in (x, y))
    return call("eq", x, y)


def _plain(b: Buffer) -> Argument:
    return Argument(TensorType(b.element, Dims(tuple(dims_of(b).items()))), lambda x: x, lambda x: x)


def _zeros(b: Buffer) -> Expr:
    return spread(zero_of(b.element), dims_of(b))


def _ordered(values: list[tuple[Var, Expr]], params: list[Var]) -> tuple[list[Closure], list[Var]]:
    """Closures in an order in which none reads what an earlier one wrote over; what must wait goes through a buffer."""
    pending = dict(values)
    closures: list[Closure] = []
    further: list[Var] = []
    while pending:
        free = next((v for v in pending if not any(v in e.free for w, e in pending.items() if w is not v)), None)
        if free is not None:
            closures.append(closure(free, pending.pop(free)))
            continue
        chosen = next(v for v, e in pending.items() if e not in further)
        later = var(f"{chosen.name}_new", chosen.type)
        further.append(later)
        closures.append(closure(later, pending[chosen]))
        pending[chosen] = later
    return closures, further
