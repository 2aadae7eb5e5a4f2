"""Lifted functions of Relax as callables: parameters in order in, results out, tuples flattened."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.binding.arrays import is_traced
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, fencil, literal, var
from tensorir.ir.nodes import Closure, Var
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import BOOL, Scalar, TensorType, dtype_of, scalar_of
from tensorir.lifting.assemble import Built
from tensorir.lifting.loops.report import Report
from tensorir.lifting.program import Argument, Lifted, Specialised, in_words
from tensorir.relax import nodes as r
from tensorir.relax.lift.elementwise import as_value
from tensorir.relax.lift.function import Frame, Item, flat
from tensorir.relax.lift.values import HOME, Home, Shape, Value, dims_of
from tensorir.runtime.errors import DiagnosticError, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT64
from tensorir.tir.interpret.machine import Machine, compiled, deep
from tensorir.tir.lift.expressions import tensor_element_of as element_of
from tensorir.tir.trees import walk


@dataclass(frozen=True, slots=True)
class Program(Built):
    """The tensor program with the names of its results, and the tables that it brings along."""

    results: tuple[str, ...]
    constants: Mapping[str, np.ndarray[Any, Any]]
    places: frozenset[Span]
    """Where its operators stand."""

    @property
    def positional(self) -> frozenset[Span]:
        return self.places

    @property
    def given(self) -> tuple[str, ...]:
        return self.results

    @property
    def tables(self) -> Mapping[str, np.ndarray[Any, Any]]:
        return self.constants


@dataclass(frozen=True, slots=True)
class Ready:
    """A compiled program, which arguments it is passed under which names, its tables and its results."""

    compiled: Any
    passed: tuple[tuple[str, int], ...]
    constants: Mapping[str, np.ndarray[Any, Any]]
    results: tuple[str, ...]

    def __call__(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        found = self.compiled(**{name: arrays[k] for name, k in self.passed}, **self.constants)
        return tuple([found[name] for name in self.results])


@dataclass(eq=False, repr=False)
class LiftedRelax(Lifted):
    """A function of Relax as a pure tensor program; calling it gives its results, tuples flattened."""

    calls: dict[Hashable, Ready] = field(default_factory=dict[Hashable, Ready])
    """Calls with arrays like earlier ones, which need no conversion; may be emptied."""

    def compiled_by(self, compile: Callable[..., Any]) -> Lifted:
        """The same function, whose programs something else makes functions of arrays."""
        made = super().compiled_by(compile)
        assert isinstance(made, LiftedRelax)
        made.calls = {}
        return made

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """The results of a call, in order; arguments are never changed."""
        given = _leaves_of(arrays)
        kinds = tuple([(type(a), getattr(a, "shape", None), getattr(a, "dtype", None)) for a in given])
        known = self.calls.get(kinds)
        if known is not None:
            try:
                return known(given)
            except DiagnosticError as error:
                raise in_words(error, self.at(self.sizes_of(given)).built(True)) from None
        found = self._prepared(given)
        special = self.at(self.sizes_of(found))
        checked = not any(is_traced(a) for a in found)
        ready = self._ready(special, checked)
        try:
            results = ready(found)
        except DiagnosticError as error:
            raise in_words(error, special.built(checked)) from None
        if all(a is b for a, b in zip(given, found, strict=True)) and not any(a.scalar for a in self.arguments):
            self.calls[kinds] = ready
        return results

    def _prepared(self, arrays: Sequence[Any]) -> list[Any]:
        return Lifted._prepared(self, _leaves_of(arrays))

    def _run(
        self, special: Specialised, arrays: Sequence[Any], checked: bool, undefined: bool = False
    ) -> tuple[Any, ...]:
        return self._ready(special, checked, undefined)(arrays)

    def _ready(self, special: Specialised, checked: bool, undefined: bool = False) -> Ready:
        built = special.built(checked, undefined)
        assert isinstance(built, Program)
        place = {name: k for k, name in enumerate(built.names)}
        inputs = [p.name for p in built.fencil.inputs]
        return Ready(
            special.compiled(checked, self.numerics, undefined),
            tuple((name, place[name]) for name in inputs if name in place),
            {name: built.constants[name] for name in inputs if name in built.constants},
            built.results,
        )


def _leaves_of(arrays: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for a in arrays:
        found.extend(_leaves_of(a) if isinstance(a, tuple | list) else [a])
    return found


@dataclass(frozen=True, slots=True)
class Leaf:
    """One thing that a caller passes: a tensor, or a number that the program is specialised to."""

    name: str
    element: Scalar
    shape: tuple[n.Expr, ...] | None
    tensor: bool
    span: Span
    rank: int = 0
    value: n.Expr | None = None
    """The number, where the type says it."""

    @property
    def unknown(self) -> tuple[str, ...] | None:
        """Names for what no symbol of the type says; None where it may be anything."""
        if self.tensor and self.shape is None:
            return tuple(f"{self.name}_{k}" for k in range(self.rank)) if self.rank >= 0 else None
        if self.tensor or self.value is not None:
            return ()
        return (self.name,) if self.element.is_integer else None


def lift_relax(func: r.Function, *, numerics: str = "fast", on_hazard: str = "error") -> LiftedRelax:
    """A function of Relax as a pure tensor program: a callable on arrays, with its text and its report.

    Sizes that are symbolic are bound by each call, and numbers and shapes that are parameters specialise the program.
    Raises TL01 for what no pure program says, TR43 for a constant that the text only refers to.

    >>> import tensorir.tir as tir
    >>> text = '@R.function\\ndef f(x: R.Tensor((2, 3), "float32")):\\n    return R.sum(x, axis=[1])'
    >>> print(lift_relax(tir.parse(text)["f"]))
    f(x: tensor<float32, i[0:2], j[0:3]>, result: tensor<float32, j[0:2]>) {
      result ← rename(i → j)(reduce(+, 0.0f, j)(x));
    }
    """
    leaves = [leaf for p in func.params for leaf in _leaves(p.name, p.type, p.span)]
    arguments = [
        Argument(leaf.name, dtype_of(leaf.element), not leaf.tensor, False, static=not leaf.tensor) for leaf in leaves
    ]

    def sizes(arrays: Sequence[Any]) -> Hashable:
        return tuple(
            tuple(a.shape) if leaf.tensor else np.asarray(a).item() for leaf, a in zip(leaves, arrays, strict=True)
        )

    def build(key: Any, checked: bool, undefined: bool) -> Built:
        return deep(lambda: _built(func, leaves, key, Home(checked, undefined, numerics == "exact"), on_hazard))

    fixed: list[tuple[int, ...]] = []
    for leaf in leaves:
        if leaf.tensor and leaf.shape is not None and all(isinstance(e, n.IntImm) for e in leaf.shape):
            fixed.append(tuple(e.value for e in leaf.shape if isinstance(e, n.IntImm)))
    static = tuple(fixed) if len(fixed) == len(leaves) else None
    made = LiftedRelax(func.name, arguments, sizes, build, static, numerics, *_sizes(leaves))
    if static is not None:
        made.at(static)  # what is wrong is said now, and not when it is called
    return made


def _leaves(name: str, kind: r.RelaxType, span: Span) -> list[Leaf]:
    match kind:
        case r.TensorType(shape, dtype) if dtype is not None:
            return [Leaf(name, element_of(dtype, span), shape, True, span, kind.ndim)]
        case r.TupleType(fields):
            return [leaf for k, f in enumerate(fields) for leaf in _leaves(f"{name}_{k}", f, span)]
        case r.PrimValueType(dtype, value):
            return [Leaf(name, element_of(dtype, span), None, False, span, value=value if dtype.is_integer else None)]
        case r.ShapeType(values, ndim) if ndim >= 0:
            known = values or (None,) * ndim
            return [Leaf(f"{name}_{k}", element_of(INT64), None, False, span, value=v) for k, v in enumerate(known)]
        case _:
            help = 'state its type: R.Tensor((n, m), "float32").'
            raise refuse("TL01", f"the parameter {name!r} has no type that a program could have.", help, at=span)


def _sizes(leaves: Sequence[Leaf]) -> tuple[tuple[str, ...], Callable[[Mapping[str, int]], Hashable] | None]:
    """The names of sizes, and the key of the program at sizes; None where it takes numbers that are no sizes."""
    symbols: dict[n.Var, str] = {}
    further: list[str] = []
    for leaf in leaves:
        if (unknown := leaf.unknown) is None:
            return (), None
        further += unknown
        for e in (*(leaf.shape or ()), *(() if leaf.value is None else (leaf.value,))):
            symbols.update({v: v.name for v in walk(e) if isinstance(v, n.Var)})

    def key_at(values: Mapping[str, int]) -> Hashable:
        machine = Machine(env={v: v.dtype.numpy.type(values[name]) for v, name in symbols.items()})

        def of(e: n.Expr) -> int:
            return int(compiled(e)(machine))

        def key(leaf: Leaf) -> Any:
            if leaf.tensor:
                return (
                    tuple(values[u] for u in leaf.unknown or ()) if leaf.shape is None else tuple(map(of, leaf.shape))
                )
            return values[leaf.name] if leaf.value is None else of(leaf.value)

        return tuple(map(key, leaves))

    return tuple(dict.fromkeys((*symbols.values(), *further))), key_at


def _built(func: r.Function, leaves: Sequence[Leaf], key: Any, home: Home, on_hazard: str) -> Program:
    token = HOME.set(home)
    try:
        return _in_home(home, func, leaves, key, on_hazard)
    finally:
        HOME.reset(token)


def _in_home(home: Home, func: r.Function, leaves: Sequence[Leaf], key: Any, on_hazard: str) -> Program:
    report = Report()
    params: list[Var] = []
    given: list[Item] = []
    names: list[str] = []
    for leaf, own in zip(leaves, key, strict=True):
        name = home.fresh(leaf.name)
        names.append(name)
        if leaf.tensor:
            dims = Dims(tuple(zip(dims_of(len(own)), (Interval(0, s) for s in own), strict=True)))
            params.append(var(name, TensorType(leaf.element, dims)))
            given.append(Value(params[-1], tuple(own)))
        else:
            given.append(dtype_of(leaf.element).type(own))
    frame = Frame(func.module or n.IRModule({func.name: func}), report, on_hazard)
    rest = iter(given)
    for p in func.params:
        frame.values[p] = frame.fitted(_taken(p.type, rest), p.type, p.name, p.span)
    results = flat(frame.sequence(func.body))
    wanted = _result_names(func.body, len(results))
    outputs: list[Var] = []
    closures: list[Closure] = []
    for item, name in zip(results, wanted, strict=True):
        if isinstance(item, Shape) or item is None:
            text = "a shape is no tensor, so it cannot be a result."
            raise refuse("TL01", text, "use R.shape_to_tensor.", at=func.span)
        if not isinstance(item, Value) and (isinstance(item, str) or scalar_of(np.asarray(item).dtype) is None):
            raise refuse("TL01", "a result is a tensor or a number, and this is none.", at=func.span)
        value = as_value(item)
        dims = Dims(tuple(zip(dims_of(value.rank), (Interval(0, s) for s in value.shape), strict=True)))
        outputs.append(var(home.fresh(name), TensorType(value.element, dims)))
        closures.append(closure(outputs[-1], with_label(value.expr, "")))
    if not closures:
        outputs.append(var(home.fresh("nothing"), TensorType(BOOL)))
        closures.append(closure(outputs[-1], literal(False, BOOL)))
    if home.asserted:
        home.unchecked = True
        if home.checked:
            first, *others = closures
            value = first.value
            for holds, message in home.asserted:
                value = call("assert_", value, holds, static=(message,))
            closures = [closure(outputs[0], value), *others]
    names_out = tuple(o.name for o in outputs) if results else ()
    for shown, _ in home.shown:
        # what is printed is an output that no call gives, so that it is computed, once and always
        outputs.append(var(home.fresh("printed"), shown.tensor))
        closures.append(closure(outputs[-1], shown))
    identifier = func.name if func.name.isidentifier() else "lifted"
    made = fencil(identifier, [*params, *home.params, *outputs], closures)
    return Program(made, tuple(names), (), report, home.unchecked, names_out, home.constants, frozenset(home.places))


def _taken(kind: r.RelaxType, rest: Any) -> Item:
    match kind:
        case r.TupleType(fields):
            return tuple(_taken(f, rest) for f in fields)
        case r.ShapeType(_, ndim):
            return Shape(int(next(rest)) for _ in range(ndim))
        case _:
            return next(rest)


def _result_names(body: r.SeqExpr, count: int) -> list[str]:
    """Names for the results: those of the variables that are returned."""
    match body.body:
        case r.RelaxVar(name) if count == 1:
            return [name]
        case r.RelaxVar(name):
            return [f"{name}_{k}" for k in range(count)]
        case r.Tuple(fields) if len(fields) == count and all(isinstance(f, r.RelaxVar) for f in fields):
            return [f.name for f in fields if isinstance(f, r.RelaxVar)]
        case _:
            return ["result"] if count == 1 else [f"result_{k}" for k in range(count)]
