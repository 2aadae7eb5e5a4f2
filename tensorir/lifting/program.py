"""Lifted programs as callables: arrays by position in, the written ones out; one fencil per set of sizes."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tensorir.binding.arrays import device_array, is_traced, lies_on_device
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import scalar_of
from tensorir.lifting.assemble import Built
from tensorir.lifting.loops.report import Report
from tensorir.lifting.nests.nest import Loop, SymbolicNest
from tensorir.lifting.nests.terms import Number
from tensorir.passes.pipeline import Stages
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Note, Span, refuse
from tensorir.runtime.memory import SIZES, RecentCache


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument for a parameter: its name, its NumPy type, and whether it is one number."""

    name: str
    dtype: np.dtype[Any]
    scalar: bool
    written: bool
    held: np.dtype[Any] | None = None
    """The type that the program computes with in the place of one that no tensor has."""
    static: bool = False
    """Whether a program is made for one number of it at a time: one that tells a shape."""
    signless: bool = False
    """Whether a number that fits its bits without a sign is one of it, too."""


Run = Callable[[Sequence[Any]], tuple[Any, ...] | None]
"""A compiled program as a function of arrays; None where it does not know them."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A compiled program, what a caller passes, which of it goes under which names, and the names of its results."""

    arguments: Sequence[Argument]
    compiled: Any
    passed: tuple[tuple[str, int], ...]
    outputs: tuple[str, ...]

    def direct(self, arrays: Sequence[Any]) -> Run | None:
        """The same for further arrays like these, and None for others; None where calls need a look at them."""
        direct = getattr(self.compiled, "direct", None)
        return direct and direct(self.passed, self.outputs, arrays)

    def __call__(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        _refuse_overlaps(self.arguments, arrays)
        results = self.compiled(**{n: _own(arrays[k]) if n in self.outputs else arrays[k] for n, k in self.passed})
        return tuple([results[name] for name in self.outputs])


class Specialised:
    """A program at one set of sizes, plain and with checks, compiled when it is first called."""

    def __init__(
        self, build: Callable[[bool, bool], Built], keeps_nan: bool = False, compile: Callable[..., Any] | None = None
    ) -> None:
        self._build, self._keeps_nan, self._compile = build, keeps_nan, compile
        self.plain: Built = build(False, False)
        self._checked: dict[bool, Built] = {}
        self._compiled: dict[tuple[bool, bool, str], Any] = {}
        self._raised: dict[str, tuple[tuple[str, str], ...]] = {}

    def built(self, checked: bool, undefined: bool = False) -> Built:
        """The program: without checks, with those of accesses, and with those of what is `undefined`, too."""
        if not undefined and not (checked and self.plain.unchecked):
            return self.plain
        if undefined not in self._checked:
            self._checked[undefined] = self._build(True, undefined)
        return self._checked[undefined]

    def compiled(self, checked: bool, numerics: str, undefined: bool = False) -> Any:
        from tensorir.backends import compile

        compile = self._compile or compile
        checked = checked and self.plain.unchecked
        key = (checked, undefined, numerics)
        if key not in self._compiled:
            # what comparisons in a source do with NaN depends on their order: nothing of it is kept unless asked for
            told = "loose" if numerics == "fast" and not self._keeps_nan else numerics
            self._compiled[key] = compile(self.built(checked, undefined).fencil, numerics=told)
        return self._compiled[key]

    def raised(self, numerics: str) -> tuple[tuple[str, str], ...]:
        """Expressions that the backend raises to operations, with their rules; none where it does not say."""
        if numerics not in self._raised:
            said = getattr(self.compiled(False, numerics), "raised", tuple)
            self._raised[numerics] = tuple(said())
        return self._raised[numerics]

    def ready(self, arguments: Sequence[Argument], checked: bool, numerics: str) -> Ready:
        """The compiled program and the bindings of a call."""
        built = self.built(checked)
        place = {name: k for k, name in enumerate(built.names)}
        passed = tuple((p.name, place[p.name]) for p in built.fencil.inputs)
        outputs = tuple(built.names[k] for k in built.outputs)
        return Ready(arguments, self.compiled(checked, numerics), passed, outputs)


@dataclass(eq=False)
class Lifted:
    """A source function as a pure tensor program; calling it gives the parameters that it writes, in order."""

    name: str
    arguments: Sequence[Argument]
    sizes_of: Callable[[Sequence[Any]], Hashable]
    """The key of a call: what the program is specialised to."""
    build: Callable[[Any, bool, bool], Built]
    """The program at a key: whether accesses are checked, and whether values are that the source leaves undefined."""
    static: Hashable | None
    """The key, where it does not depend on the call."""
    numerics: str = "fast"
    sizes: tuple[str, ...] = ()
    """The names of symbolic sizes, in the order in which parameters mention them."""
    key_at: Callable[[Mapping[str, int]], Hashable] | None = None
    """The key of the program at sizes by name."""
    thresholds: tuple[int, ...] = ()
    """Whole numbers that the source compares its sizes with."""
    symbolic: Callable[[Sequence[str], int], SymbolicNest] | None = None
    """The source for all sizes up to a largest one, under names for these in their order; None where they are known."""
    cache: RecentCache[Hashable, Specialised] = field(default_factory=lambda: RecentCache("lifted programs", SIZES))
    quick: RecentCache[Hashable, Run] = field(default_factory=lambda: RecentCache("kinds of lifted calls", SIZES))
    """Calls with arrays like earlier ones, which need no conversion."""
    first: Run | None = None
    """The first of these that tells by itself whether arrays are like those."""
    minds_strides: bool = False
    """Whether arrays of one shape that lie otherwise in memory may need another program."""
    keeps_nan: bool = False
    """Whether the source says what becomes of a NaN, whatever the order."""
    again: Callable[[], Lifted] | None = None
    """How it was lifted."""
    compile: Callable[..., Any] | None = None
    """What makes a function of arrays of a fencil, with `numerics=`; the default backend where nothing is said."""

    def __reduce__(self) -> Any:
        # what is stored is the source: it is lifted again where it is loaded
        assert self.again is not None
        return self.again, ()

    def compiled_by(self, compile: Callable[..., Any]) -> Lifted:
        """The same function, whose programs are lifted once and something else makes functions of arrays."""

        def build(key: Any, checked: bool, undefined: bool) -> Built:
            return self.at(key).built(checked, undefined)

        return replace(
            self, compile=compile, first=None, build=build,
            cache=RecentCache("lifted programs", SIZES), quick=RecentCache("kinds of lifted calls", SIZES),
        )  # fmt: skip

    def at(self, key: Hashable) -> Specialised:
        """The program at a set of sizes."""
        return self.cache.of(key, lambda: Specialised(partial(self.build, key), self.keeps_nan, self.compile))

    def _only(self) -> Specialised:
        if self.static is not None:
            return self.at(self.static)
        if not self.cache:
            message = f"'{self.name}' has sizes that only a call tells."
            raise refuse("TL02", message, "call it first, or use at(...) with the sizes.")
        return self.cache.values()[-1]

    @property
    def fencil(self) -> Fencil:
        """The tensor program, at the sizes of the last call where it has sizes."""
        return self._only().plain.fencil

    @property
    def report(self) -> Report:
        """The schedule of each loop, with its reason; raised operations are asked of the backend when it is shown."""
        special = self._only()
        return replace(special.plain.report, ask=partial(special.raised, self.numerics))

    def pipeline(self) -> Stages[Any]:
        """The program before and after each pass of the lift: loops as regions, which are made when they are printed.

        >>> import tensorir as ti
        >>> module = ti.tir.parse('''
        ... @T.prim_func
        ... def main(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
        ...     for i in range(6):
        ...         B[i // 3 + i % 3 * 2] = A[i]
        ... ''')
        >>> print(ti.lift(module["main"]).pipeline()["unfuse"])
        unfuse: a loop whose variable is divided is a nest, and iterations that do nothing go
        region main {
          argument A: float32[A_0=6];
          argument B: float32[B_0=6];
          for i_1 in 0:2 {
            for i_2 in 0:3 {
              v1: tensor<float32> ← A[3*i_1 + i_2];
              B[i_1 + 2*i_2] ← v1;
            }
          }
        }
        """
        built = self._only().plain
        return Stages(built.stages[0].before if built.stages else built.fencil, built.stages)

    def __str__(self) -> str:
        return str(self.fencil)

    def _repr_html_(self) -> str:
        from tensorir.inspect.pages import markup, page, pre

        shown = pre(str(self)) if self.static is not None or self.cache else markup("<p>{}</p>", repr(self))
        return page(shown)

    def __repr__(self) -> str:
        return f"<lifted {self.name}({', '.join(a.name for a in self.arguments)})>"

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """The written parameters after a call, in order; arguments are never changed."""
        try:
            if self.first is not None and (found := self.first(arrays)) is not None:
                return found
            kinds = tuple([(type(a), getattr(a, "shape", None), getattr(a, "dtype", None)) for a in arrays])
            if (run := self.quick.get(kinds)) is not None and (found := run(arrays)) is not None:
                return found
        except DiagnosticError as error:
            raise in_words(error, self.at(self.sizes_of(arrays)).built(True)) from None
        given = self._prepared(arrays)
        special = self.at(self.sizes_of(given))
        checked = not _traced(given)
        results = self._run(special, given, checked)
        told = self.minds_strides or any(a.static for a in self.arguments)
        numbers = [k for k, (a, b) in enumerate(zip(arrays, given, strict=True)) if a is not b]
        if not told and all(self.arguments[k].scalar for k in numbers):
            ready = special.ready(self.arguments, checked, self.numerics)
            direct = ready.direct(given)
            if numbers:
                direct = direct and partial(self._with_numbers, direct, numbers)
            self.first = self.first or direct
            if direct or not numbers:
                self.quick.put(kinds, direct or ready)
        return results

    def _with_numbers(self, run: Run, numbers: Sequence[int], arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        """Results of a program for arrays, and for numbers that are no arrays yet; None for unknown ones."""
        if len(arrays) != len(self.arguments):
            return None
        given = list(arrays)
        for k in numbers:
            given[k] = _accepted(self.name, self.arguments[k], arrays[k])
        return run(given)

    def checked(self, *arrays: Any) -> tuple[Any, tuple[Any, ...]]:
        """The error that a check found, or None, and the outputs.

        Accesses out of range, failed assertions, and what the source leaves undefined: whole numbers divided by zero,
        shifts by too many places, floats that become integers which do not hold them.

        Inside of a trace the error is raised when the traced program runs.
        """
        found = self._prepared(arrays)
        special = self.at(self.sizes_of(found))
        if _traced(found):
            return None, self._run(special, found, True, True)
        try:
            return None, self._run(special, found, True, True)
        except DiagnosticError as error:
            return error, self._run(special, found, False)

    def _run(
        self, special: Specialised, arrays: Sequence[Any], checked: bool, undefined: bool = False
    ) -> tuple[Any, ...]:
        built = special.built(checked, undefined)
        given = dict(zip(built.names, arrays, strict=True))
        needed = [p.name for p in built.fencil.inputs]
        missing = [n for n in needed if given.get(n) is None]
        if missing:
            message = (
                f"'{missing[0]}' of '{self.name}' must be given: the program reads it, or leaves a part of it as it is."
            )
            raise refuse("TL03", message, "pass an array.")
        written = {built.names[k] for k in built.outputs}
        passed = {n: _own(given[n], _traced(arrays)) if n in written else given[n] for n in needed}
        try:
            results = special.compiled(checked, self.numerics, undefined)(**passed)
        except DiagnosticError as error:
            raise in_words(error, built) from None
        found = [results[built.names[k]] for k in built.outputs]
        kinds = [self.arguments[k] for k in built.outputs]
        return tuple(x if a.held is None else x.astype(a.dtype) for a, x in zip(kinds, found, strict=True))

    def _prepared(self, arrays: Sequence[Any]) -> list[Any]:
        if len(arrays) != len(self.arguments):
            names = ", ".join(a.name for a in self.arguments)
            message = f"'{self.name}' takes {len(self.arguments)} arguments ({names}), but got {len(arrays)}."
            raise refuse("TA02", message)
        found = [_accepted(self.name, a, value) for a, value in zip(self.arguments, arrays, strict=True)]
        _refuse_overlaps(self.arguments, arrays)
        pairs = zip(self.arguments, found, strict=True)
        return [x if a.held is None or x is None else x.astype(a.held) for a, x in pairs]


def _own(value: Any, traced: bool = False) -> Any:
    """A copy of a NumPy array that the program would write into, which it cannot where others are traced."""
    if not isinstance(value, np.ndarray):
        return value
    from tensorir.backends import backend

    return backend().on_device(value) if traced else value.copy()


def _traced(arrays: Sequence[Any]) -> bool:
    return any(is_traced(a) for a in arrays)


def _accepted(name: str, argument: Argument, value: Any) -> Any:
    """An argument as a NumPy or jax array of the parameter's type."""
    if value is None:
        if argument.written:
            return None
        raise refuse("TA04", f"'{argument.name}' of '{name}' needs an array, and this is None.")
    if isinstance(value, str | bytes | dict | set):
        kind = type(value).__name__
        raise refuse("TA04", f"'{argument.name}' of '{name}' needs an array, and this is of type {kind}.")
    if argument.static and is_traced(value):
        message = f"'{name}' is made for one value of '{argument.name}' at a time, and within a trace it has none."
        help = f"make '{argument.name}' a static argument (static_argnums) of what is traced, or close over its number."
        raise refuse("TA04", message, help)
    if argument.scalar and not hasattr(value, "dtype"):
        return scalar_value(argument, value)
    home = type(value).__module__.partition(".")[0]
    if not isinstance(value, np.ndarray) and not (home.startswith("jax") and hasattr(value, "dtype")):
        if lies_on_device(value):
            value = device_array(value)
        else:
            value = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    dtype: np.dtype[Any] = np.dtype(value.dtype)
    if dtype.kind == "O":
        raise refuse("TA04", f"'{argument.name}' of '{name}' needs an array of numbers.")
    if dtype != argument.dtype:
        narrow = {1: np.uint8, 2: np.uint16}.get(argument.dtype.itemsize)
        if argument.dtype.kind == "V" and narrow is not None and dtype == narrow:
            return value.view(argument.dtype)
        if argument.scalar:
            return scalar_value(argument, value)
        message = f"'{argument.name}' holds {argument.dtype}, but the array holds {dtype}."
        raise refuse("TA05", message, f"convert it: array.astype('{argument.dtype}').")
    return value


def scalar_value(argument: Argument, value: Any) -> Any:
    """A number that fits the type of a scalar parameter; raises TA04 for others."""
    if is_traced(value):
        return _traced_number(argument, value)
    array: Any = np.asarray(value)
    if array.ndim or array.dtype.kind in "OSUc":
        raise refuse("TA04", f"'{argument.name}' needs one number of type {argument.dtype}.")
    if argument.dtype.kind in "iub":
        number, bits = array.item(), 1 if argument.dtype.kind == "b" else 8 * argument.dtype.itemsize
        low = -(1 << bits - 1) if argument.dtype.kind == "i" or argument.signless else 0
        high = (1 << bits - (argument.dtype.kind == "i" and not argument.signless)) - 1
        if not low <= number <= high or number != int(number):
            raise refuse("TA04", f"'{argument.name}' is of type {argument.dtype}, which {number} does not fit.")
        return np.asarray(int(number) & (1 << bits) - 1, f"uint{max(bits, 8)}").astype(argument.dtype)
    element = scalar_of(argument.dtype)
    if element is not None and not element.holds(array.item()):
        raise refuse("TA04", f"'{argument.name}' is of type {argument.dtype}, which {array.item()} does not fit.")
    return array.astype(argument.dtype)


def _traced_number(argument: Argument, value: Any) -> Any:
    """The same within a trace, where nobody knows whether a number fits a type that holds less."""
    wanted = argument.dtype
    if wanted.kind in "iu" and not np.can_cast(value.dtype, wanted):
        message = f"'{argument.name}' is of type {wanted}, and this is a traced number of type {value.dtype}."
        raise refuse("TA05", message, f"convert it, if it fits: {argument.name}.astype('{wanted}').")
    if wanted.itemsize == 8 and not sys.modules["jax"].config.jax_enable_x64:
        message = f"'{argument.name}' is of type {wanted}, and this transformation does not keep 64-bit types."
        raise refuse("TA05", message, "put it inside of `with jax.enable_x64(True):`.")
    return value.astype(wanted)


def _refuse_overlaps(arguments: Sequence[Argument], arrays: Sequence[Any]) -> None:
    """NumPy arguments that share memory with one that is written: the source would see its own writes through them."""
    given = [(a, x) for a, x in zip(arguments, arrays, strict=True) if isinstance(x, np.ndarray)]
    plain: list[tuple[Argument, Any]] = [(a, x) for a, x in given if x.size]
    for a, x in plain:
        if a.written:
            for b, y in plain:
                if a is not b and np.may_share_memory(x, y):
                    message = f"'{a.name}' is written, and '{b.name}' shares memory with it."
                    raise refuse("TA06", message, f"pass a copy: {b.name}.copy().")


_LEAVES = re.compile(r"an index leaves (\w+)\[(-?\d+):(-?\d+)\]\.")
_AT = re.compile(r"at (\w+ = -?\d+(?:, \w+ = -?\d+)*)")
_INNER = {"scatter": 1, "update": 0, "subset": 0, "add_dim": 0, "cartesian_shift": 0, "split_dim": 0, "merge_dims": 0}
"""Operations that leave the dims of an operand where they are, but for those that they name themselves."""


def in_words(error: DiagnosticError, built: Built) -> DiagnosticError:
    """The error of a program, said of the source: what an access says itself, no check of its index repeats."""
    accesses = {d.span for d in error.diagnostics if d.code == "R01"} - {NOWHERE}
    found: dict[object, Diagnostic] = {}
    for d in (_told(d, built) for d in error.diagnostics):
        if d.code != "R02" or d.span not in accesses:
            found.setdefault((d.span, d.message), d)
    return DiagnosticError(list(found.values()))


def _told(d: Diagnostic, built: Built) -> Diagnostic:
    message = d.message
    found = _LEAVES.fullmatch(message)
    if found is not None:
        place = _place(d, found[1], built.fencil)
        count = int(found[3]) - int(found[2])
        extent = f"which has {count} element{'s' if count != 1 else ''}"
        match place:
            case None:  # storage of the source's own, which the line names
                which = "its axis"
            case (name, _, 1):
                which = f"'{name}'"
            case (name, axis, _):
                which = f"axis {axis} of '{name}'"
        message = f"an index leaves {which}, {extent}."
    told = _position if d.span in built.positional else partial(_round, built=built)
    notes: list[Note | str] = [told(note) if isinstance(note, str) else note for note in d.notes]
    return replace(d, message=message, notes=tuple(notes))


# Buffers


def _place(d: Diagnostic, dim: str, f: Fencil) -> tuple[str, int, int] | None:
    """The buffer that an access at the diagnostic's place reads or writes, its axis, and how many it has."""
    names = {p.name for p in f.params}
    for node in postorder(*values(f.closures)):
        match node:
            case Call("gather" | "scatter" as op, args, (dims, *_)) if node.span == d.span and dim in dims:
                found = _root(args[0 if op == "gather" else 1], dim)
                if found is None:
                    continue
                root, axis = found
                name = re.sub(r"_now(_\d+)?$", "", root.name)
                if name in names:
                    return name, axis, len(root.tensor.dims)
            case _:
                pass
    return None


def _root(e: Expr, dim: str) -> tuple[Var, int] | None:
    """The variable that a tensor comes from, and which of its dims this is."""
    while True:
        match e:
            case Var():
                return (e, e.tensor.dims.names.index(dim)) if dim in e.tensor.dims else None
            case Call("rename", (x,), (pairs,)):
                e, dim = x, {new: old for old, new in pairs}.get(dim, dim)
            case Call(op, args) if op in _INNER:
                e = args[_INNER[op]]
            case _:
                return None
        if dim not in e.tensor.dims:
            return None


# Loops


def _loops(built: Built) -> Iterator[tuple[str, str, str]]:
    """Of each loop of the program the name of its round, the source's name, and where it starts."""
    decided: dict[Span, list[Loop]] = {}
    for d in built.report.sequential:
        if d.loop.span is not NOWHERE and d.loop not in decided.setdefault(d.loop.span, []):
            decided[d.loop.span].append(d.loop)
    made: dict[Span, dict[str, None]] = {}
    for node in reversed(list(postorder(*values(built.fencil.closures)))):
        match node:
            case Call("loop", (_, Lambda(params=(step, *_)), *_)) if node.span in decided:
                made.setdefault(node.span, {})[step.name] = None
            case _:
                pass
    for span, steps in made.items():
        # one line of the source may say several loops, from the outside in
        loops = decided[span] if len(steps) == len(decided[span]) else decided[span][-1:] * len(steps)
        for step, loop in zip(steps, loops, strict=True):
            if isinstance(loop.low, Number):
                yield step, loop.title or loop.name, str(loop.low.value)


def _position(note: str) -> str:
    """A note on tensors whose dims have no names in the source."""
    return _AT.sub(lambda found: f"at ({', '.join(re.findall(r'= (-?[0-9]+)', found[0]))})", note, count=1)


def _round(note: str, built: Built) -> str:
    """A note with the variables of the source's loops in the place of rounds."""
    for step, title, low in _loops(built):
        if title in ("while", "loop"):
            note = re.sub(rf"\b{step} = (\d+)", lambda m: f"round {m[1]}", note)
            continue
        first = int(low)
        note = re.sub(rf"\b{step} = (\d+)", lambda m, t=title, k=first: f"{t} = {int(m[1]) + k}", note)
    return note
