"""Programs that are compared, with their sizes, and without the names that they give.

Programs without the names that they give: equal ones are one program, whatever its parameters and dims are called.

What is no such name stays as it is: operations, literals (infinities and NaN among them), rules for indices, texts that
are shown; what an error says is left out.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← x × 2.0; }")
>>> g = parse("g(b: tensor<float, K[0:3]>, a: tensor<float, K[0:3]>) { b ← a × 2.0; }")
>>> h = parse("h(b: tensor<float, K[0:3]>, a: tensor<float, K[0:3]>) { b ← a × inf; }")
>>> nameless(f) == nameless(g), nameless(f) == nameless(h)
(True, False)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from types import FunctionType
from typing import Any, TypeGuard, assert_never

import numpy as np

from tensorir import nodes
from tensorir.equality.all_sizes.nests import nest_of
from tensorir.equality.all_sizes.proof import ALL_SIZES, Symbolic, of_template, size_name
from tensorir.equality.points import on_one_point
from tensorir.equality.verdict import NONE, Assumptions
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import DEFINITIONS, call, closure, fencil, var, with_unique_names
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, rewrite_all, values, with_label, with_values
from tensorir.ir.types import DTYPES, Element, Scalar, TensorType, scalar_of
from tensorir.ir.typing_rules import MODES
from tensorir.lifting.assemble import Built
from tensorir.lifting.emission.tensors import cut, renamed, shifted, sum_of_coordinates
from tensorir.lifting.program import Lifted
from tensorir.lifting.rewrites.canonical import tidied
from tensorir.lifting.rewrites.naming import SLOTS
from tensorir.lifting.storage.narrow import NARROW
from tensorir.passes.closures import Inline
from tensorir.passes.simplify import Cse, Simplify
from tensorir.runtime.errors import DiagnosticError, Source, Span, refuse
from tensorir.text.lexer import KEYWORDS, RESERVED, tokenize


def nameless(f: Fencil) -> tuple[object, ...]:
    """A fencil as its inputs, its outputs, and its nodes, operands first; names are numbers in the order of these."""
    names = _Names()
    inputs = [names.declared(p) for p in f.inputs]
    outputs = [names.declared(p) for p in f.outputs]
    roots = with_unique_names(values(f.closures), {p.name for p in f.params})
    places: dict[int, int] = {}
    nodes: dict[tuple[object, ...], int] = {}
    for e in postorder(*roots):
        node = (names.own(e), *(places[id(c)] for c in e.children))
        places[id(e)] = nodes.setdefault(node, len(nodes))
    stores = [
        (names.variable(c.output), places[id(root)], c.region and SLOTS["intervals"][0](c.region, names.dims))
        for c, root in zip(f.closures, roots, strict=True)
    ]
    return tuple(inputs), tuple(outputs), tuple(nodes), tuple(stores)


@dataclass(frozen=True, slots=True)
class _Names:
    """The numbers of variables and of dims."""

    variables: dict[Var, int] = field(default_factory=dict[Var, int])
    dims: dict[str, str] = field(default_factory=dict[str, str])

    def variable(self, v: Var) -> int:
        return self.variables.setdefault(v, len(self.variables))

    def type(self, t: TensorType) -> tuple[object, ...]:
        return t.element, tuple((self._dim(n), i) for n, i in t.dims.items)

    def declared(self, v: Var) -> tuple[object, ...]:
        return self.variable(v), self.type(v.type)

    def own(self, e: Expr) -> tuple[object, ...]:
        """The fields that distinguish a node besides its operands."""
        match e:
            case Literal() | Apply():
                return e.own()
            case Var():
                return "var", self.variable(e)
            case Lambda(params):
                return "lambda", *(self.declared(p) for p in params)
            case Operator(op, types):
                return "operator", op, *(self.type(t) for t in types)
            case Call("assert_"):
                return ("assert_",)  # what an error says, such as a line of the source, is no result
            case Call(op, _, static):
                return op, *self._static(TABLE[op].static_slots, static)
            case _:
                assert_never(e)

    def _static(self, slots: Sequence[str], static: Sequence[Any]) -> list[object]:
        found: list[object] = list(static)
        for k, (slot, value) in enumerate(zip(slots, static, strict=True)):
            if slot in SLOTS and value is not None:
                under, mentioned = SLOTS[slot]
                for n in mentioned(value):
                    self._dim(n)
                found[k] = under(value, self.dims)
        return found

    def _dim(self, name: str) -> str:
        return self.dims.setdefault(name, f"{len(self.dims)}")


_MEANT = KEYWORDS | RESERVED | {*MODES, "tensor", "over", "none", "None", "offsets"}
"""Words of the notation that no name replaces."""


def nameless_text(text: str) -> tuple[str, ...]:
    """The words and signs of a program as it is written, names as numbers; one without types yet has no nodes."""
    names: dict[str, str] = {}
    return tuple(
        names.setdefault(t.text, f"`{len(names)}`") if t.kind == "name" and t.text not in _MEANT else t.text
        for t in tokenize(Source("program", text)).tokens
    )


# Programs that are compared: one fencil, or one for every set of sizes; and their canonical form.

LARGEST = 5
"""Sizes run from 1 up to this, each on its own; before them all are 0, and each alone."""
MOST_SIZES = 12
"""How many sets of such sizes are tried."""
FURTHER = (8, 17)
"""Then all sizes are each of these: tiles and vectors begin to count, and what is left over of them."""
MOST_THRESHOLDS, LARGEST_THRESHOLD = 6, 4096
"""How many whole numbers of the sources are sizes, too, each with its neighbours, and up to which."""


@dataclass(frozen=True, slots=True)
class Member:
    """A fencil, the tables that it passes itself, and the narrow integers that some of its bytes stand for.

    `exact` is the same source with its order and its roundings, where the fencil need not have them.
    """

    fencil: Fencil
    tables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    narrow: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    exact: Member | None = None
    loose: bool = False
    """Whether sums may be taken in another order when it runs, so that its text tells no bits."""
    stored: Callable[[str, Sequence[int]], Span] | None = None
    """The statement of a source that stores an element of a result last."""

    @property
    def sums(self) -> bool:
        """True if floats are folded by sums or products, whose order may tell."""
        nodes = (e for m in (self, self.exact or self) for e in postorder(*values(m.fencil.closures)))
        return any(isinstance(e, Call) and e.op in ("reduce", "contract", "scan", "scatter", "loop") for e in nodes)

    @property
    def keeps_order(self) -> bool:
        """True if floats are added up in the order that the text says, however the program is run."""
        nodes = postorder(*values(self.fencil.closures))
        folds = (e for e in nodes if isinstance(e, Call) and e.op in ("reduce", "contract", "scatter"))
        return not self.loose and (
            self.exact is not None or not any(s.is_float for e in folds for s in e.tensor.leaves)
        )

    @property
    def inputs(self) -> tuple[Var, ...]:
        return tuple(p for p in self.fencil.inputs if p.name not in self.tables and p not in self._empty)

    @property
    def _empty(self) -> tuple[Var, ...]:
        """Outputs without elements: a program that stores nothing leaves them as they are, and takes them."""
        return tuple(p for p in self.fencil.results if not p.type.dims.size)

    @property
    def outputs(self) -> tuple[Var, ...]:
        return self.fencil.results

    @property
    def params(self) -> tuple[Var, ...]:
        return (*self.inputs, *self.outputs)

    def ordered(self, names: Sequence[str]) -> Member:
        """The program with parameters in an order: those that are named in their places, the others as they were."""
        by_name = {p.name: p for p in self.fencil.params}
        others = iter([p for p in self.fencil.params if p.name not in names])
        placed = [by_name[n] if n in by_name else next(others, None) for n in names]
        params = [*(p for p in placed if p is not None), *others]
        own = replace(self.fencil, params=tuple(params))
        exact = None if self.exact is None else self.exact.ordered(names)
        return replace(self, fencil=own, exact=exact)

    def element(self, p: Var) -> Element:
        """The element type of a parameter."""
        return self.narrow.get(p.name, p.type.element)

    def __call__(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        passed = {p.name for p in self.fencil.inputs}
        empty = {p.name: np.zeros(p.type.dims.shape, DTYPES[p.type.leaves[0]]) for p in self._empty}
        own = {name: array for name, array in {**empty, **self.tables}.items() if name in passed}
        return self.fencil(**given, **own)

    def proof(self, commuted: bool = False) -> tuple[object, ...]:
        """The normal form that programs share that are equal in every bit; `commuted`: operands ordered before, too."""
        return (self.exact or self)._form(True, commuted)

    def likeness(self) -> tuple[object, ...]:
        """The normal form that programs share that are equal up to the order of folds, the sign of zeros, and NaN."""
        return self._form(False)

    def _form(self, exact: bool, commuted: bool = False) -> tuple[object, ...]:
        tables = [self.tables[p.name] for p in self.fencil.inputs if p.name in self.tables]
        kinds = [str(self.element(p)) for p in self.params] if self.narrow else []
        # which of its parameters a caller sees is no part of a fencil
        own = [p.name in self.tables for p in self.fencil.inputs], [p in self.outputs for p in self.fencil.outputs]
        return (
            canonical(self.fencil, exact, commuted),
            own,
            *((t.shape, str(t.dtype), t.tobytes()) for t in tables),
            *kinds,
        )


@dataclass(frozen=True, slots=True)
class Called:
    """A function of arrays that gives arrays, of which nothing else is known."""

    function: Callable[..., Any]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]

    @property
    def params(self) -> tuple[Var, ...]:
        return (*self.inputs, *self.outputs)

    def element(self, p: Var) -> Element:
        return p.type.element

    def __call__(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return dict(zip((p.name for p in self.outputs), _results(self.function, tuple(given.values())), strict=True))

    def proof(self) -> tuple[object, ...]:
        return (id(self.function),)


def matched(f: Member, g: Member, names: Mapping[str, str] | None) -> Member:
    """The second program with its parameters in the order of the first: by given names, or those that both have.

    Without names that both have, the order stays.
    """
    pairs = dict(names or {})
    ours, theirs = ({p.name for p in m.fencil.params} for m in (f, g))
    for one, other in pairs.items():
        for name, known, which in ((one, ours, "first"), (other, theirs, "second")):
            if name not in known:
                message = f"the {which} program has no parameter '{name}' to match."
                raise refuse("TL04", message, f"its parameters are {', '.join(sorted(known))}.")
    if not pairs and ours != theirs:
        return g
    whose = pairs or {name: name for name in ours}
    return g.ordered([whose.get(p.name, "") for p in f.fencil.params])


def alike_on_one_point(f: Member, g: Member) -> tuple[Member, Member]:
    """Both programs on one point of each dim along which this point stands for all (`tensorir.equality.points`)."""
    if f.tables or g.tables:
        return f, g
    fencils = [m.fencil for one in (f, g) for m in (one, one.exact) if m is not None]
    cut = dict(zip(map(id, fencils), on_one_point(*fencils), strict=True))

    def small(m: Member) -> Member:
        exact = None if m.exact is None else small(m.exact)
        return replace(m, fencil=cut[id(m.fencil)], exact=exact)

    return small(f), small(g)


def called(function: Any, args: Sequence[Any]) -> Called:
    """A function of arrays like these, or a program of such inputs; its results are those of a call with zeros."""
    if hasattr(args, "shape") or not hasattr(args, "__iter__"):
        message = f"args is of type {type(args).__name__}, and has an array for each argument."
        raise refuse("TL04", message, "args=(x,).")
    for k, a in enumerate(args):
        if not (hasattr(a, "shape") and hasattr(a, "dtype")):
            message = f"args[{k}] is of type {type(a).__name__}, which has no shape and no element type."
            raise refuse("TL04", message, "pass an array, or a number with a type: np.float32(0.5).")
    function, zeros = _of_arrays(function, len(args)), [np.zeros(a.shape, a.dtype) for a in args]
    inputs, outputs = (
        tuple([_array(f"{name}{k}", x) for k, x in enumerate(arrays)])
        for name, arrays in (("x", zeros), ("y", _results(function, zeros)))
    )
    return Called(function, inputs, outputs)


def _of_arrays(program: Any, count: int) -> Callable[..., Any]:
    """A program as a function of so many arrays, its inputs in order; a function is one already."""
    if isinstance(program, Fencil):
        names = [p.name for p in program.inputs]
        return lambda *arrays: tuple(program(**_each_named(names, arrays)).values())
    if not callable(program):
        import tensorir

        program = tensorir.lift(program)
    if not isinstance(program, Lifted) or count == len(program.arguments):
        return program
    lifted, read = program, [a.name for a in program.arguments if not a.written]
    if program.static is not None and count != len(read):
        read = [p.name for p in program.at(program.static).built(True).fencil.inputs]

    def of_inputs(*arrays: Any) -> tuple[Any, ...]:
        given = _each_named(read, arrays)
        return lifted(*(given.get(a.name) for a in lifted.arguments))

    return of_inputs


def _each_named(names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
    if len(names) != len(arrays):
        message = f"args has {len(arrays)} arrays, and a program has {len(names)} inputs: {', '.join(names)}."
        raise refuse("TL04", message, "pass one array for each input, in order.")
    return dict(zip(names, arrays, strict=True))


def _results(function: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    from tensorir.backends import backend

    # what derives or joins calls of programs is a trace of the caller's own, which narrows wide elements
    with backend().wide():
        found = function(*given)
    several: Sequence[Any] = (found,) if hasattr(found, "shape") else found
    return [np.asarray(x) for x in several]


def _array(name: str, x: Any) -> Var:
    element = scalar_of(x.dtype)
    if element is None:
        raise refuse("TL04", f"'{name}' holds {x.dtype}, of which no tensors are.", "compare arrays of numbers.")
    return var(name, TensorType(element, Dims(tuple((f"d{k}", Interval(0, n)) for k, n in enumerate(x.shape)))))


@dataclass(frozen=True, slots=True)
class Family:
    """A program at its sizes: their names, the program at each, and the text of all where there is one."""

    sizes: tuple[str, ...]
    at: Callable[[Mapping[str, int]], Member]
    text: tuple[str, ...] = ()
    thresholds: tuple[int, ...] = ()
    """Whole numbers in the source, beyond and below which it may do other things."""
    symbolic: Callable[[Sequence[str]], Symbolic] | None = None
    """The program for all sizes, in the order of these."""


def family(program: Any) -> Family:
    """A program as a family; one without symbolic sizes has one member."""
    if isinstance(program, Fencil):
        return Family((), lambda sizes: Member(program))
    if hasattr(program, "specialise") and hasattr(program, "sizes"):
        text = str(program)
        whole = tuple([int(found.group()) for found in re.finditer(r"(?<![\w.])\d{1,4}(?![\w.])", text)])
        return Family(
            tuple(program.sizes), lambda sizes: Member(program.specialise(**sizes)), nameless_text(text), whole,
            partial(of_template, program),
        )  # fmt: skip
    if isinstance(program, Lifted):
        return _family_of(program)
    lifted = getattr(program, "fencil", None)
    if isinstance(lifted, Fencil):
        return Family((), lambda sizes: Member(lifted, getattr(program, "tables", {})))
    if callable(lifted):
        kind = type(program).__name__
        raise refuse("TA01", f"programs are compared, and a {kind} is one for given data.", "give op.fencil(data).")
    if isinstance(program, FunctionType):
        message = "a function of Python has no text that is compared."
        raise refuse("TA01", message, "give args=(x,), an array like each that both programs take.")
    import tensorir

    # a lift that may take sums in another order gives one text to programs that differ
    found = tensorir.lift(program)
    if not isinstance(found, Lifted):
        return family(found)
    usual, exact = _family_of(found), _family_of(tensorir.lift(program, numerics="exact"))
    return Family(
        usual.sizes, lambda sizes: replace(usual.at(sizes), exact=exact.at(sizes), loose=False),
        thresholds=usual.thresholds, symbolic=usual.symbolic,
    )  # fmt: skip


def _family_of(lifted: Lifted) -> Family:
    if lifted.static is not None:
        return Family((), lambda sizes: _member_of(lifted, lifted.at(lifted.static).built(True)))
    key_at = lifted.key_at
    if key_at is None:
        message = f"'{lifted.name}' has sizes that only a call tells."
        raise refuse("TL02", message, "compare it at one set of sizes: declare them as numbers.")
    return Family(
        lifted.sizes, lambda sizes: _member_of(lifted, lifted.at(key_at(sizes)).built(True)),
        thresholds=lifted.thresholds, symbolic=None if lifted.symbolic is None else partial(_symbolic, lifted),
    )  # fmt: skip


def _symbolic(lifted: Lifted, sizes: Sequence[str]) -> Symbolic:
    """A lifted source for all sizes."""
    assert lifted.symbolic is not None and lifted.key_at is not None
    named = {n: size_name(k) for k, n in enumerate(sizes)}
    nest = lifted.symbolic([named[n] for n in lifted.sizes], ALL_SIZES)
    names = lifted.at(lifted.key_at(dict.fromkeys(sizes, 2))).built(True).names
    return nest_of(nest, {n: k for k, n in enumerate(names)}).at


def _member_of(lifted: Lifted, built: Built) -> Member:
    """A lifted program, its checks included, with what a call of it gives, and nothing else."""
    made = built.fencil
    if built.given and len(built.given) < len(made.results):
        kept = [c for c in made.closures if c.output.name in built.given]
        others = {p.name for p in made.results} - set(built.given)
        made = fencil(made.name, [p for p in made.params if p.name not in others], kept)
    held = [(name, a) for name, a in zip(built.names, lifted.arguments, strict=False) if a.held is not None]
    narrow = {name: NARROW[a.dtype.name] for name, a in held}
    return Member(made, built.tables, narrow, loose=lifted.numerics != "exact", stored=built.stored)


def common_sizes(
    f: Family, g: Family, assumed: Assumptions = NONE
) -> Iterator[tuple[Mapping[str, int], Member, Member]]:
    """Sizes as assumed, smallest first, with both programs at them; those at which one is none are left out."""
    if f.sizes and g.sizes:
        named = set(f.sizes) == set(g.sizes)
        if not named and len(f.sizes) != len(g.sizes):
            raise refuse("TL04", f"one program has the sizes {_list(f)}, the other {_list(g)}.", "compare equal ones.")
        for values in _ascending(len(f.sizes), {*f.thresholds, *g.thresholds}, assumed.multiples(f.sizes)):
            sizes = dict(zip(f.sizes, values, strict=True))
            if assumed.allow(sizes):
                yield from (m for m in members(f, g, [sizes]) if _has_inputs(m[1], assumed, sizes))
    elif g.sizes:
        for sizes, one, other in common_sizes(g, f, assumed):
            yield sizes, other, one
    else:
        fixed = g.at({})
        extents = sorted({e for p in fixed.params for e in p.type.dims.shape}) or [1]
        for values in product(extents, repeat=len(f.sizes)):
            sizes = dict(zip(f.sizes, values, strict=True))
            one = _member(f, sizes)
            if one is not None and _shapes(one) == _shapes(fixed):
                yield sizes, one, fixed
                return


def _has_inputs(f: Member, assumed: Assumptions, sizes: Mapping[str, int]) -> bool:
    """True if some numbers are as assumed of every input that has elements."""
    bounds = [assumed.bounds(p.name, sizes) for p in f.inputs if p.type.dims.size]
    return all(low <= high for low, high in bounds)


def members(
    f: Family, g: Family, all_sizes: Sequence[Mapping[str, int]]
) -> Iterator[tuple[Mapping[str, int], Member, Member]]:
    """Both programs at sizes of the first; those at which one is none are left out."""
    named = set(f.sizes) == set(g.sizes)
    for sizes in all_sizes:
        others = sizes if named else dict(zip(g.sizes, sizes.values(), strict=True))
        pair = _member(f, sizes), _member(g, others)
        if pair[0] is not None and pair[1] is not None:
            yield sizes, pair[0], pair[1]


def _list(f: Family) -> str:
    return ", ".join(f.sizes)


def _ascending(count: int, thresholds: Collection[int], multiples: Collection[int]) -> list[tuple[int, ...]]:
    small = sorted(product(range(1, LARGEST + 1), repeat=count), key=lambda v: (sum(v), v))
    none = [tuple(int(k != at) for k in range(count)) for at in range(count)] if count > 1 else []
    marks = sorted(t for t in thresholds if LARGEST <= t <= LARGEST_THRESHOLD)[:MOST_THRESHOLDS]
    near = {t + k for t in marks for k in (-1, 0, 1)} - set(range(LARGEST + 1))
    alone = [tuple(t if k == at else 2 for k in range(count)) for t in marks for at in range(count)]
    equal = [(size,) * count for size in sorted(near | set(FURTHER) | set(multiples))]
    return [(0,) * count, *none, *small[:MOST_SIZES], *equal, *(alone if count > 1 else ())]


def _member(f: Family, sizes: Mapping[str, int]) -> Member | None:
    try:
        return f.at(sizes)
    except DiagnosticError:
        return None


def _shapes(f: Member) -> list[list[tuple[int, ...]]]:
    return [[p.type.dims.shape for p in ps] for ps in (f.inputs, f.outputs)]


def canonical(f: Fencil, exact: bool, commuted: bool = False) -> tuple[object, ...]:
    """The simplified program without its names; `exact` keeps every bit of what it computes.

    Operands that may change places have one order; `commuted`: also before, since their order tells that of axes.
    """
    f = _defined(_unnamed(_from_zero(Inline().run(f))))
    f = f if exact else with_extremes(f)
    f = tidied(_commuted(f) if commuted else f, exact)
    f = tidied(_with_shifts(f), exact)
    for one in (Simplify(), Cse()):
        f = one(f)
    return nameless(_commuted(f))


def with_extremes(f: Fencil) -> Fencil:
    """The fencil with `max` and `min` for choices that a comparison of both values makes: equal but for zeros and NaN.

    >>> from tensorir.text import parse
    >>> text = "f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← if x < 2.0 then 2.0 else x; }"
    >>> print(with_extremes(parse(text)).closures[0].value)
    max(x, 2.0)
    """

    def rule(e: Expr) -> Expr | None:
        match e:
            case Call("if", (Call("less" | "less_equal" | "greater" | "greater_equal" as op, (x, y)), a, b)):
                if (a, b) not in ((x, y), (y, x)):
                    return None
                return call("max" if op.startswith("greater") == (a == x) else "min", x, y, span=e.span)
            case _:
                return None

    return replace(f, closures=with_values(f.closures, rewrite_all(values(f.closures), rule)))


def _commuted(f: Fencil) -> Fencil:
    """The fencil with operands that may change places in an order that no name tells."""
    params = dict.fromkeys([*f.inputs, *f.outputs])
    places = {p: f"{k} {p.type.element}" for k, p in enumerate(params)}
    dims: dict[str, int] = {}
    for p in params:
        for name in p.type.dims:
            dims.setdefault(name, len(dims))
    nodes = list(postorder(*values(f.closures)))
    bound = {p: f"bound {k}" for e in nodes if isinstance(e, Lambda) for k, p in enumerate(e.params)}
    keys: dict[int, str] = {}
    done: dict[int, Expr] = {}
    for e in nodes:
        children = [done[id(c)] for c in e.children]
        told = [keys[id(c)] for c in e.children]
        if isinstance(e, Call) and TABLE[e.op].commutative and told[1] < told[0]:
            children, told = children[::-1], told[::-1]
        done[id(e)] = rebuild(e, tuple(children))
        own = places.get(e) or bound[e] if isinstance(e, Var) else _own(e, dims)
        keys[id(e)] = hashlib.blake2b("|".join((own, *told)).encode(), digest_size=12).hexdigest()
    return replace(f, closures=with_values(f.closures, (done[id(c.value)] for c in f.closures)))


_PLAIN = (int, str, Scalar)
"""Static parameters that a text without names shows."""


def _own(e: Expr, dims: Mapping[str, int]) -> str:
    """A node without the names of dims: those of parameters are numbers."""
    match e:
        case Call(op, _, static):
            own = [str(dims.get(x, "?")) if isinstance(x, str) else str(x) for x in static if isinstance(x, _PLAIN)]
            known = sorted((dims.get(n, -1), str(i)) for n, i in e.tensor.dims.items)
            return f"{op} {own} {known}"
        case Literal(value, element):
            return f"{value!r} {element}"
        case Operator(op):
            return op
        case _:
            return type(e).__name__


def _unnamed(f: Fencil) -> Fencil:
    """The fencil without the names of parts, which some texts have and others have not."""
    done: dict[int, Expr] = {}
    for node in postorder(*values(f.closures)):
        done[id(node)] = with_label(rebuild(node, tuple(done[id(child)] for child in node.children)), "")
    return replace(f, closures=with_values(f.closures, (done[id(c.value)] for c in f.closures)))


def _defined(f: Fencil) -> Fencil:
    """The fencil with what is defined by other builtins written in these: sums of products as sums."""

    def rule(e: Expr) -> Expr | None:
        return DEFINITIONS[e.op](e, *e.args) if isinstance(e, Call) and e.op in DEFINITIONS else None

    # the functions that definitions bring have names that parameters may have
    roots = with_unique_names(rewrite_all(values(f.closures), rule), {p.name for p in f.params})
    return replace(f, closures=with_values(f.closures, roots))


MOVES = ("subset", "cartesian_shift", "rename")
"""What gives the same points where its operand has more."""


def _with_shifts(f: Fencil) -> Fencil:
    """The fencil with reads at a coordinate, or at one a constant further, as shifts, cut where they are stored."""
    roots = rewrite_all(values(f.closures), _shift_of_read)
    return replace(f, closures=with_values(f.closures, map(_uncut, roots)))


def _uncut(e: Expr) -> Expr:
    """A value without the cuts of what its points are computed of: a store cuts by itself."""

    def is_pointwise(node: Expr) -> TypeGuard[Call]:
        return isinstance(node, Call) and (node.op in MOVES or TABLE[node.op].elementwise)

    def rule(node: Expr, args: Sequence[Expr]) -> Expr:
        if not is_pointwise(node):
            return node
        return args[0] if node.op == "subset" else rebuild(node, tuple(args))

    return nodes.folded([e], lambda node: node.args if is_pointwise(node) else (), rule)[id(e)]


def _shift_of_read(e: Expr) -> Expr | None:
    made = e
    while (part := _one_shift(made)) is not None:
        made = part
    return None if made is e else made


def _one_shift(e: Expr) -> Expr | None:
    """A read along one dim at a coordinate, or a constant further, as a shift of what is read."""
    match e:
        case Call("gather", (x, *indices), (dims, mode)):
            pass
        case _:
            return None
    for k, (dim, index) in enumerate(zip(dims, indices, strict=True)):
        total = sum_of_coordinates(index)
        if total is None or len(total.terms) != 1 or len(index.tensor.dims) != 1:
            continue
        ((here, count),), ((_, interval),) = total.terms, index.tensor.dims.items
        others = [i for j, i in enumerate(indices) if j != k]
        taken = {*x.tensor.dims.without(dim), *(d for i in others for d in i.tensor.dims)}
        if not isinstance(here, str) or count != 1 or here in taken:
            continue
        if not x.tensor.dims[dim].covers(interval.shifted(-total.constant)):
            continue
        part = cut(shifted(renamed(x, {dim: here}), here, total.constant), {here: interval})
        rest = tuple(d for d in dims if d != dim)
        return call("gather", part, *others, static=(rest, mode), span=e.span) if rest else part
    return None


def _from_zero(f: Fencil) -> Fencil:
    """The fencil with parameters whose intervals start at 0: arrays are passed by position."""
    params = {
        p: var(p.name, p.type.on(Dims(tuple((n, Interval(0, len(i))) for n, i in p.type.dims.items)))) for p in f.params
    }

    def moved(x: Expr, p: Var, sign: int) -> Expr:
        for n, i in p.type.dims.items:
            x = shifted(x, n, sign * i.start)
        return x

    def rule(e: Expr) -> Expr | None:
        return moved(params[e], e, -1) if isinstance(e, Var) and e in params else None

    roots = rewrite_all(values(f.closures), rule)

    def region(p: Var, part: Dims | None) -> Dims | None:
        if part is None:
            return None
        start = {n: i.start for n, i in p.type.dims.items}
        return Dims(tuple((n, Interval(i.start - start[n], i.stop - start[n])) for n, i in part.items))

    stores = [
        closure(params[c.output], moved(e, c.output, 1), region(c.output, c.region))
        for c, e in zip(f.closures, roots, strict=True)
    ]
    return fencil(f.name, [params[p] for p in f.params], stores)
