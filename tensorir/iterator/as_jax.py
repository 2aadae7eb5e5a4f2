"""GT4Py's programs and operators as pure functions of arrays, which JAX transforms.

Sizes come from the shapes of the arrays; an operator's result has the largest domain on which it can be computed, or
the one that is asked for.
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tensorir.backends import backend
from tensorir.binding.arrays import is_traced
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import DTYPES, TensorType
from tensorir.iterator.imports import by_dim, from_gt4py, interval_of
from tensorir.iterator.lift.arguments import leaf_tree, members_of, offsets
from tensorir.iterator.lift.program import Options, Specialised, compiled, natural, options_of, specialise
from tensorir.iterator.lift.values import Target, leaves, tree_map
from tensorir.iterator.nodes import FieldType, Param, ParamType, Program, TupleType
from tensorir.iterator.running import coordinates, in_order, is_labelled, labelled, slices
from tensorir.runtime.errors import counted, did_you_mean, refuse
from tensorir.runtime.memory import SIZES, RecentCache


def as_jax(source: Any, *, domain: Any = None, offset_provider: Any = None, **options: Any) -> JaxFunction:
    """A program or operator of GT4Py as a pure function of arrays: `jax.grad`, `vmap` and `jit` go through it.

    An operator's function takes its arguments and gives what it returns, on `domain`, an interval per dim, a domain of
    GT4Py or a tuple of them for its results, or on the largest domain there is. A program's function takes all
    parameters, and gives those that are stored by name; where one is stored only in part, the rest is what was passed.
    `offset_provider` has dims and neighbour tables; those that the program's own offsets name may be plain arrays. Axes
    are in the order of the declared dims, from 0 on; those of DataArrays go by name, and then results are DataArrays
    with the coordinates of what they were made of.
    """
    imported = from_gt4py(source)
    operator = not hasattr(source, "gtir")
    provider = offsets(offset_provider, imported.field_offsets)
    return JaxFunction(imported.program, provider, imported.column, operator, _intervals(domain), options_of(options))


def _intervals(domain: Any) -> Any:
    """A domain, or a tuple of domains, as intervals by the names of dims."""
    if domain is None:
        return None
    if isinstance(domain, tuple):
        return tuple(map(_intervals, domain))
    help = "domain={{'{0}': (0, 10)}}, or a domain of GT4Py."
    named = by_dim(domain, "domain", help.format("I"))
    return {d: interval_of(d, ends, help.format(d)) for d, ends in named.items()}


@dataclass(eq=False, repr=False)
class JaxFunction:
    """A program as a function of arrays, specialised per set of shapes."""

    program: Program
    provider: Mapping[str, Target]
    column: str | None
    operator: bool
    domain: Any
    """An interval per dim, or of a tuple of results a tuple of these; None for the largest there is."""
    options: Options
    programs: RecentCache[Any, tuple[Specialised, Any, Any]] = field(
        default_factory=lambda: RecentCache("iterator programs as functions of arrays", SIZES)
    )

    def __repr__(self) -> str:
        return f"<'{self.program.name}' as a function of {', '.join(p.name for p in self.params)}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The results for arrays by position or name: of an operator those of its result, of a program a dict of the
        parameters that it stores.

        Arrays with names of axes give results with these names and their coordinates. Raises TI11 for missing, unknown
        or unfit arguments.
        """
        arguments = self._bind(args, named)
        if any(is_labelled(a) for value in arguments.values() for a in leaves(value)):
            return self._call_labelled(arguments)
        special, places, call = self.prepared(arguments)
        flat = {
            leaf.name: value
            for name, place in places.items()
            if name in arguments
            for leaf, value in zip(leaves(place), leaves(arguments[name]), strict=True)
        }
        results = {} if special.fencil is None else call(**{n: flat[n] for n in special.inputs})
        return self._assemble(special, places, results, flat)

    def _bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by names of parameters; raises TI11 for unknown, repeated and excess ones."""
        names, subject = [p.name for p in self.params], f"'{self.program.name}'"
        for word in named:
            if word in names:
                continue
            if word in ("offset_provider", "domain"):
                message = f"'{word}' is told when the function is made, and is no argument of {subject}."
                raise refuse("TI11", message, f"ti.as_jax({self.program.name}, {word}=...)({', '.join(names)}).")
            message = f"{subject} has no parameter '{word}'."
            raise refuse("TI11", message, did_you_mean(word, names) or f"its parameters are {', '.join(names)}.")
        if len(args) > len(names):
            message = f"{subject} takes {counted(len(names), 'argument')}, and {len(args)} are given."
            raise refuse("TI11", message, f"its parameters are {', '.join(names)}; results are returned.")
        bound = dict(zip(names, args, strict=False))
        twice = [n for n in bound if n in named]
        if twice:
            message = f"'{twice[0]}' of {subject} is given by position and by name."
            raise refuse("TI11", message, "give it once.")
        return {**bound, **named}

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters of a call: of an operator, all but its result."""
        return self.program.params[: -1 if self.operator else None]

    def prepared(self, arguments: Mapping[str, Any]) -> tuple[Specialised, Any, Any]:
        """The tensor program for arguments like these, the leaves of each parameter, and what runs it."""
        missing = [p.name for p in self.params if p.name not in arguments]
        if missing:
            raise refuse("TI11", f"'{missing[0]}' of '{self.program.name}' is not given.", "pass an array.")
        types = {p.name: _type_argument(p.name, arguments[p.name], p.type) for p in self.params}
        return self.programs.of(tuple(repr(t) for t in types.values()), lambda: self._compile(types))

    def _call_labelled(self, arguments: Mapping[str, Any]) -> Any:
        """The call on arrays with names of axes: results have names and coordinates, too."""
        kinds = {p.name: p.type for p in self.params}
        plain = {n: in_order(n, v, kinds.get(n)) for n, v in arguments.items()}
        results = self(**plain)
        _, places, _ = self.prepared(plain)
        known = coordinates(arguments.values())
        if self.operator:
            return tree_map(lambda leaf, a: labelled(a, leaf.dims, known), places["out"], results)
        return {n: tree_map(lambda leaf, a: labelled(a, leaf.dims, known), places[n], r) for n, r in results.items()}

    def specialised(self, *args: Any, **named: Any) -> Specialised:
        """The tensor program for arguments like these."""
        self(*args, **named)
        return self.programs.values()[-1][0]

    def _compile(self, types: Mapping[str, Any]) -> tuple[Specialised, Any, Any]:
        """The specialised program for types by parameter, the leaves of each parameter, and the compiled program (None
        where nothing is stored).

        Of an operator the result has the domain that was asked for, or the largest on which its operands allow it.
        """
        trees = {p.name: leaf_tree(p.name, types[p.name], p.type) for p in self.program.params if p.name in types}
        if self.operator:
            out = self.program.params[-1]
            whole = partial(natural, self.program, trees, self.provider, self.column)
            trees["out"] = leaf_tree("out", _type_result(out.type, self.domain, whole), out.type)
        special = specialise(self.program, trees, self.provider, self.column, self.options)
        return special, trees, compiled(special) if special.fencil is not None else None

    def _assemble(self, special: Specialised, places: Any, results: Any, flat: Mapping[str, Any]) -> Any:
        """The results of a call from those of the tensor program, each of which is a box of a leaf.

        A box that is part of its leaf is put into the argument `flat` of this name. An operator gives its result alone,
        a program all parameters to which statements store. What has no point is stored by none.
        """
        stored: dict[str, Any] = {}
        by_name = {leaf.name: leaf for place in places.values() for leaf in leaves(place)}
        for o in special.outputs:
            part = results[o.name]
            leaf = by_name[o.leaf]
            if part.shape != tuple(leaf.dims.shape):
                part = _replace(stored.get(o.leaf, flat.get(o.leaf)), slices(leaf, o.box), part)
            stored[o.leaf] = part
        if self.operator:
            for leaf in leaves(places["out"]):
                if leaf.name not in stored:
                    empty = np.zeros(leaf.dims.shape, DTYPES[leaf.element])
                    is_host = all(not hasattr(a, "at") for a in flat.values())
                    stored[leaf.name] = empty if is_host else backend().on_device(empty)
            return tree_map(lambda leaf: stored[leaf.name], places["out"])
        changed = {n: t for n, t in places.items() if any(leaf.name in special.targets for leaf in leaves(t))}
        return {n: tree_map(lambda leaf: stored.get(leaf.name, flat.get(leaf.name)), t) for n, t in changed.items()}


def _replace(base: Any, where: tuple[slice, ...], part: Any) -> Any:
    """`base` with `part` in the slices `where`: in JAX arrays and traces a new array, otherwise a NumPy copy."""
    if hasattr(base, "at"):
        return base.at[where].set(part)
    if is_traced(part):
        return backend().on_device(base).at[where].set(part)
    array = np.array(base)
    array[where] = part
    return array


def _type_argument(name: str, value: Any, kind: ParamType | None) -> Any:
    """The type of an argument; a number that no trace hides is itself, since sizes may depend on it."""
    match kind:
        case TupleType():
            return tuple(_type_argument(*member) for member in members_of(name, value, kind))
        case FieldType(dims, element):
            if isinstance(value, tuple):
                hint = "pass an array." if dims else "pass a number."
                raise refuse("TI11", f"'{name}' is a {'field' if dims else 'number'}, and this is a tuple.", hint)
            shape = np.shape(value)
            if len(shape) != len(dims):
                axes = f"this has {counted(len(shape), 'axis', 'axes')}."
                if not dims:
                    raise refuse("TI11", f"'{name}' is a number, and {axes}", "pass a number.")
                message = f"'{name}' has {counted(len(dims), 'dim')}, and {axes}"
                raise refuse("TI11", message, f"its axes are {', '.join(a.name for a in dims)}.")
            if dims:
                intervals = tuple((a.name, Interval(0, n)) for a, n in zip(dims, shape, strict=True))
                return TensorType(element, Dims(intervals))
            return TensorType(element) if is_traced(value) or element.is_float else np.asarray(value).item()
        case None:
            raise refuse("TI11", f"the type of '{name}' is not known.")


def _type_result(kind: ParamType | None, domain: Any, whole: Any) -> Any:
    """The tensor types of an operator's results on `domain` (one for all, or a tuple); None is the boxes `whole()`.

    Raises TI06 for a domain that does not fit the results.
    """
    boxes = iter(() if domain else leaves(whole()))

    def one(t: Any, domain: Any) -> Any:
        """The tensor type of one result (None: the next of the boxes), or a tuple of these for a tuple of results."""
        if isinstance(t, TupleType):
            parts = domain if isinstance(domain, tuple) else (domain,) * len(t.members)
            if len(parts) != len(t.members):
                message = f"there are {len(parts)} domains, and the operator returns {len(t.members)} fields."
                raise refuse("TI06", message, "give a domain for each, or one for all.")
            return tuple(one(m, d) for m, d in zip(t.members, parts, strict=True))
        box, names = domain or next(boxes), [a.name for a in t.dims]
        if isinstance(box, tuple) or (domain and set(box) != set(names)):
            message = f"a result has the dims {', '.join(names)}, and its domain is {box}."
            raise refuse("TI06", message, f"domain={{{', '.join(f'{n!r}: (0, 10)' for n in names)}}}.")
        return TensorType(t.element, Dims(tuple((n, Interval(*box[n])) for n in names)))

    return one(kind, domain)
