"""Two programs run on inputs that are random or hard, in their own element types or over the reals."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.equality.programs import Called, Member, with_extremes
from tensorir.equality.reals import residues as rs
from tensorir.equality.reals.decisions import Decisions, Node
from tensorir.equality.reals.evaluation import Branches, evaluated, given
from tensorir.equality.reals.formulas import Condition, Formal, variables
from tensorir.equality.reals.residues import Real
from tensorir.equality.reals.solver import Ends, Solver
from tensorir.equality.reals.tensors import Leaf, Unsupported
from tensorir.equality.verdict import NONE, Assumptions, Level
from tensorir.ir.nodes import Call, Fencil, Literal, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import DTYPES, Element, Scalar, TensorType
from tensorir.passes.reductions import Contractions
from tensorir.runtime.errors import DiagnosticError

# Inputs at which programs are compared: random ones, and those that their literals, branches and extents suggest.


Array = np.ndarray[Any, Any]
MOST_MARKS = 64
"""How many numbers of the sources are tried."""


@dataclass(frozen=True, slots=True)
class Input:
    """The arrays of all inputs in their order, and where each holds a number that a source names."""

    arrays: tuple[Array, ...]
    literal: tuple[Array, ...]


def inputs(
    f: Member, g: Member, count: int, rng: np.random.Generator, assumed: Assumptions = NONE,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[Input]:  # fmt: skip
    """So many inputs of both programs: random, near the numbers of the sources, of all magnitudes, in turns."""
    marks = _marks([f.fencil, g.fencil])
    extents = sorted({len(i) for m in (f, g) for p in m.fencil.params for _, i in p.type.dims.items})
    ways = ("random", "marks", "magnitudes", "negative", "scaled", "small", "positive", "marks")
    for k in range(count):
        pairs = [
            _as_assumed(
                p.name, *_array(rng, p, f.element(p), ways[k % len(ways)], marks, extents), assumed, sizes or {}
            )
            for p in f.inputs
        ]
        yield Input(tuple(a for a, _ in pairs), tuple(m for _, m in pairs))


def at_model(x: Input, values: Mapping[tuple[int, tuple[int, ...]], int]) -> Input:
    """An input with elements of arrays replaced: by the number of the array, and the place."""
    arrays = [np.array(a) for a in x.arrays]
    for (array, at), value in values.items():
        arrays[array][at] = value
    return Input(tuple(arrays), x.literal)


def _marks(programs: Sequence[Fencil]) -> list[float]:
    """The numbers that sources name, largest programs' first ones first."""
    found: dict[float, None] = {}
    for f in programs:
        for e in postorder(*values(f.closures)):
            if isinstance(e, Literal) and not isinstance(e.value, bool) and np.isfinite(float(e.value)):
                found[float(e.value)] = None
    return list(found)[:MOST_MARKS]


def _array(
    rng: np.random.Generator, p: Var, element: Element, way: str, marks: Sequence[float], extents: Sequence[int]
) -> tuple[Array, Array]:
    assert isinstance(element, Scalar) and isinstance(p.type.element, Scalar)
    shape, dtype = p.type.dims.shape, DTYPES[p.type.element]
    if element.is_float:
        return _floats(rng, shape, dtype, way, marks)
    if element.is_integer:
        found = _integers(rng, shape, element, way, marks, extents)
        return found.astype(dtype), np.ones(shape, bool)
    return rng.integers(0, 2, shape).astype(bool), np.ones(shape, bool)


def _floats(rng: np.random.Generator, shape: Any, dtype: Any, way: str, marks: Sequence[float]) -> tuple[Array, Array]:
    named = np.zeros(shape, bool)
    x = np.asarray(rng.normal(size=shape))
    match way:
        case "magnitudes":
            x = np.sign(x) * 10.0 ** rng.uniform(-4, 4, shape)
        case "scaled":
            x = x * 10.0 ** rng.uniform(-4, 4)
        case "positive":
            x = np.abs(x) + 0.25
        case "negative":
            x = -np.abs(x) - 0.25
        case "small":
            # halves, at which functions of whole parts and powers of negative numbers change
            x = np.asarray(rng.integers(-7, 8, shape)) / 2
            named = np.ones(shape, bool)
        case "marks" if marks:
            near = np.asarray(rng.choice(np.array(marks), shape))
            step = np.asarray(rng.choice([0.0, 0.0, 1.0, -1.0, 0.5, -0.5], shape))
            opposite = np.asarray(rng.choice([1.0, 1.0, 1.0, -1.0], shape))
            named = np.asarray(rng.random(shape) < 0.6)
            x = np.where(named, near * opposite + step, x)
        case _:
            pass
    found = np.asarray(x).astype(dtype)
    finite = np.isfinite(found.astype(np.float64))
    return np.where(finite, found, np.zeros((), dtype)), named | ~finite


def _integers(
    rng: np.random.Generator, shape: Any, element: Scalar, way: str, marks: Sequence[float], extents: Sequence[int]
) -> Array:
    near = {int(m) + k for m in marks for k in (-1, 0, 1) if abs(m) < 2**62}
    near |= {n + k for n in extents for k in (-1, 0, 1)} | {0, 1, -1}
    match way:
        case "random" | "positive" | "negative" | "scaled":
            most = max(extents, default=1)
            found = rng.integers(0, max(most, 2), shape)
        case "magnitudes":
            found = of_all_magnitudes(rng, shape, element)
        case "small":
            found = rng.integers(-4, 5, shape)
        case _:
            # each number has its turn, also where there are few elements
            found = np.resize(rng.permutation(np.array(sorted(near))), shape)
    return np.clip(np.asarray(found, object), element.range.start, element.range.stop - 1)


def of_all_magnitudes(rng: np.random.Generator, shape: Any, element: Scalar) -> Array:
    """Integers from the whole range of a type, among them its ends, and powers of two with their neighbours."""
    low, high = element.range.start, element.range.stop - 1
    ends = [low, low + 1, high, high - 1, 0, 1, *(-1, -2) * (low < 0)]
    powers = [s * (2**k + by) for k in range(element.bits) for by in (-1, 0, 1) for s in (1, -1)]
    drawn = rng.integers(low, high, shape, np.uint64 if low == 0 else np.int64)
    part = rng.random(shape)
    named = np.where(part < 0.3, *(rng.choice(np.array(c, object), shape) for c in (ends, powers)))
    return np.clip(np.where(part < 0.6, named, drawn.astype(object)), low, high)


def _as_assumed(
    name: str, x: Array, literal: Array, assumed: Assumptions, sizes: Mapping[str, int]
) -> tuple[Array, Array]:
    """Numbers within the bounds that are assumed of a name, as many different ones as can be."""
    low, high = assumed.bounds(name, sizes, x.dtype.kind in "iu")
    steps = [(by, left) for n, by, left in assumed.remainders if n == name]
    if x.dtype.kind == "b" or (low, high, steps) == (-np.inf, np.inf, []):
        return x, literal
    if x.dtype.kind in "iu":
        found = np.asarray(x, object)
        least, most = (math.ceil(low) if low > -np.inf else None), (math.floor(high) if high < np.inf else None)
        if least is not None and most is not None:
            found = least + (found - least) % max(most - least + 1, 1)
        elif least is not None:
            found = np.where(found < least, 2 * least - found, found)
        elif most is not None:
            found = np.where(found > most, 2 * most - found, found)
        for by, left in steps:
            found = found - found % by + left
        return np.asarray(found).astype(x.dtype), literal
    wide = np.asarray(x, np.float64)
    outside = ~((wide > low) & (wide < high))
    part = np.abs(np.where(np.isfinite(wide), wide, 1.0))
    if low > -np.inf and high < np.inf:
        moved = low + (high - low) * (0.1 + part % 0.8)
    else:
        moved = low + part + 0.1 if low > -np.inf else high - part - 0.1
    return np.where(outside, moved, wide).astype(x.dtype), literal & ~outside


def mild(x: Input) -> Input:
    """An input that more programs take: positive numbers, and whole ones that are indices of nearly any array."""

    def one(a: Array) -> Array:
        if a.dtype.kind == "b":
            return a
        return a & 1 if a.dtype.kind in "iu" else np.abs(a)

    return Input(tuple(map(one, x.arrays)), x.literal)


def special(
    f: Member, rng: np.random.Generator, turn: int, assumed: Assumptions = NONE, sizes: Mapping[str, int] | None = None
) -> tuple[Array, ...]:
    """Random inputs with NaN, infinities, -0.0 and the ends of integer types in places that change with the turn."""
    found: list[Array] = []
    for p in f.inputs:
        element = f.element(p)
        a, _ = _array(rng, p, element, "random", (), (2,))
        rare = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1e30, -1e30])
        if isinstance(element, Scalar) and element.is_float and a.size:
            with np.errstate(over="ignore"):
                some = rare.astype(a.dtype)
            count = min(-(-a.size // 2), max(len(rare), a.size // 5))
            places = rng.permutation(a.size)[:count]
            a = np.array(a)
            a.reshape(-1)[places] = some[(np.arange(count) + turn * count) % len(some)]
        found.append(_as_assumed(p.name, a, np.zeros(a.shape, bool), assumed, sizes or {})[0])
    return tuple(found)


# Two programs run as they are, in their own element types: results, how far apart, and at the edges of numbers.


Outcome = list[Array] | str
"""The results of a program, or what it says of its inputs."""


def run(f: Member | Called, given: Sequence[Any]) -> Outcome:
    """The results of a program, or its refusal of the inputs."""
    try:
        results = f(dict(zip((p.name for p in f.inputs), (np.array(x) for x in given), strict=True)))
    except (DiagnosticError, IndexError) as error:  # a function of NumPy refuses an index so
        return str(error).splitlines()[0]
    return [np.asarray(results[p.name]) for p in f.outputs]


def _epsilon(x: Array) -> float:
    """The distance of the numbers of a type near 1."""
    if x.dtype == np.float64:
        return 2.0**-52
    one = np.ones((), x.dtype)
    step = np.nextafter(one, np.asarray(2, x.dtype))
    return float(np.asarray(step - one).astype(np.float64))


def ulps(xs: Sequence[Array], ys: Sequence[Array]) -> float:
    """The largest distance of results, in units in the last place of the larger one."""
    most = 0.0
    for x, y in zip(xs, ys, strict=True):
        if x.dtype.kind in "iub" or not x.size:
            continue
        a, b = x.astype(np.float64), y.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.abs(a - b) / (_epsilon(x) * np.maximum(np.abs(a), np.abs(b)))
        most = max(most, float(np.max(np.where(np.isfinite(apart), apart, 0.0))))
    return most


NOISE = 32
"""How many times what a unit in the last place of the inputs does to a result is still rounding."""


def noise(f: Member | Called, given: Sequence[Array], rng: np.random.Generator) -> list[Array] | None:
    """The change of each element of the results when inputs move by a unit in the last place; None where it refuses.

    Rounding on the way does what rounding of inputs does, to the extent that the program is sensitive to either.
    """
    base = run(f, given)
    if isinstance(base, str):
        return None
    moved = [np.zeros(x.shape) for x in base]
    for _ in range(3):
        found = run(f, [_nudged(x, rng) for x in given])
        if isinstance(found, str):
            continue
        for k, (x, y) in enumerate(zip(base, found, strict=True)):
            if x.dtype.kind not in "iub":
                with np.errstate(invalid="ignore"):
                    moved[k] = np.fmax(moved[k], np.abs(x.astype(np.float64) - y.astype(np.float64)))
    return [
        NOISE * m + 8 * (_epsilon(x) * np.abs(x.astype(np.float64)) if x.dtype.kind not in "iub" else 0.0)
        for m, x in zip(moved, base, strict=True)
    ]


def _nudged(x: Array, rng: np.random.Generator) -> Array:
    if x.dtype.kind in "iub":
        return x
    wide = x.astype(np.float64)
    return np.asarray(wide * (1 + _epsilon(x) * rng.choice([-1.0, 1.0], x.shape))).astype(x.dtype)


def difference(f: Member | Called, found: Outcome, other: Outcome, bounds: Sequence[Array | float]) -> str:
    """Differences of outcomes by more than bounds, in words."""
    if isinstance(found, str) or isinstance(other, str):
        if isinstance(found, str) and isinstance(other, str):
            return ""
        return f"only one of them refuses these inputs: {found if isinstance(found, str) else other}"
    first = first_difference(found, other, bounds)
    if first is None:
        return ""
    k, at = first
    return f"{f.outputs[k].name}{list(at) if at else ''} is {found[k][at]} and {other[k][at]}."


def first_difference(
    found: Outcome, other: Outcome, bounds: Sequence[Array | float]
) -> tuple[int, tuple[int, ...]] | None:
    """The first result, and its first element, that differ by more than bounds."""
    if isinstance(found, str) or isinstance(other, str):
        return None
    for k, (x, y, bound) in enumerate(zip(found, other, bounds, strict=True)):
        apart = _apart(x, y, bound)
        if apart.any():
            return k, tuple(int(i) for i in np.argwhere(apart)[0])
    return None


def _apart(x: Array, y: Array, bound: Any) -> Array:
    if x.dtype.kind in "iub":
        return np.asarray(x != y)
    a, b = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return ~((np.abs(a - b) <= bound) | (np.isnan(a) & np.isnan(b)) | (a == b))


def differing_run(f: Member | Called, g: Member | Called, given: Sequence[Array]) -> str:
    """Differences of two runs by more than the noise of both, in words; empty where there are none."""
    found, other = run(f, given), run(g, given)
    if isinstance(found, str) or isinstance(other, str):
        return difference(f, found, other, ())
    rng = np.random.default_rng(1)
    noises = [noise(m, given, rng) for m in (f, g)]
    bounds = [sum(n[k] for n in noises if n is not None) for k in range(len(found))]
    return difference(f, found, other, bounds)


def edge_difference(f: Member | Called, found: Outcome, other: Outcome) -> str:
    """Results of which one is NaN or infinite and the other is not, or by another sign, in words."""
    if isinstance(found, str) or isinstance(other, str):
        return difference(f, found, other, ())
    for p, x, y in zip(f.outputs, found, other, strict=True):
        if x.dtype.kind in "iub":
            apart = np.asarray(x != y)
        else:
            a, b = x.astype(np.float64), y.astype(np.float64)
            odd = ~np.isfinite(a) | ~np.isfinite(b)
            apart = odd & ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if apart.any():
            at = tuple(int(k) for k in np.argwhere(apart)[0])
            return f"{p.name}{list(at) if at else ''} is {x[at]} and {y[at]}"
    return ""


# Two programs evaluated over the reals at the same inputs: where they agree, differ, or are not told apart.


AMBIGUOUS = frozenset(["sqrt", "rsqrt", "log", "log2", "log10", "log1p", "power", "cbrt"])
"""Whose residues are known up to a sign only: formulas that are equal may differ at a point."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two programs at one input: per output, elements that differ in number, by more than rounding, and in formula."""

    refused: str = ""
    """What the one says that refuses the input, where the other takes it."""
    neither: bool = False
    """Whether both refuse it."""
    number: tuple[Array, ...] = ()
    beyond: tuple[Array, ...] = ()
    formula: tuple[Array, ...] = ()
    largest: float = 0.0
    """The largest difference of witnesses that float64 does not explain."""
    bounds: tuple[Array, ...] = ()
    """How far rounding may lead the results of both runs apart."""

    @property
    def tells_apart(self) -> bool:
        return bool(self.refused) or any(b.any() for b in self.beyond)


@dataclass(slots=True)
class Evaluator:
    """Two programs, and the branches of both that inputs visited."""

    f: Member
    g: Member
    branches: Branches = field(default_factory=Branches)

    programs: tuple[Fencil, ...] = ()

    def __post_init__(self) -> None:
        # sums of products are products of matrices, which are evaluated at once
        self.programs = tuple(Contractions().run(m.fencil) for m in (self.f, self.g))

    @property
    def ambiguous(self) -> bool:
        """True if formulas that are equal may differ at a point."""
        nodes = (e for f in self.programs for e in postorder(*values(f.closures)))
        return any(isinstance(e, Call) and e.op in AMBIGUOUS for e in nodes)

    def __call__(self, x: Input, rng: np.random.Generator) -> Comparison:
        """Both programs at an input; raises `Unsupported` for what has no meaning over the reals."""
        leaves = [given(a, rng, m) for a, m in zip(x.arrays, x.literal, strict=True)]
        found, other = (self._run(k, leaves) for k in (0, 1))
        if isinstance(found, str) or isinstance(other, str):
            if isinstance(found, str) and isinstance(other, str):
                return Comparison(neither=True)
            return Comparison(refused=found if isinstance(found, str) else str(other))
        number, beyond, formula, largest, bounds = zip(
            *(_reals_differ(a, b) for a, b in zip(found, other, strict=True)), strict=True
        )
        return Comparison("", False, number, beyond, formula, max(largest), bounds)

    def _run(self, which: int, leaves: Sequence[Leaf]) -> list[Leaf] | str:
        member = (self.f, self.g)[which]
        passed: dict[str, Leaf] = dict(zip((p.name for p in member.inputs), leaves, strict=True))
        for name, table in member.tables.items():
            passed[name] = given(np.asarray(table), np.random.default_rng(0), np.ones(np.shape(table), bool))
        try:
            results = evaluated(self.programs[which], passed, self.branches)
        except DiagnosticError as error:
            return str(error).splitlines()[0]
        return [t.only for t in results]


def _reals_differ(a: Leaf, b: Leaf) -> tuple[Array, Array, Array, float, Array]:
    """Masks of two results that differ in number, beyond rounding, in formula; the largest difference; the rounding."""
    if len(a.parts) == 1:
        wrong = np.asarray(a.parts[0] != b.parts[0])
        return wrong, wrong, np.zeros_like(wrong), float(wrong.any()), np.zeros(wrong.shape)
    x, y = Real.of(a), Real.of(b)
    with np.errstate(invalid="ignore"):
        distance = np.abs(x.value - y.value)
        same = (x.value == y.value) | (np.isnan(x.value) & np.isnan(y.value)) | np.isinf(x.error + y.error)
        number = ~(same | (distance <= x.error + y.error))
        bound = x.rounding + y.rounding
        beyond = number & ~(distance <= bound)
    largest = float(np.max(np.where(number & np.isfinite(distance), distance, 0.0), initial=0.0))
    return number, beyond, ~rs.same(x.residues, y.residues), largest, bound


def equal_by_formulas(f: Member, g: Member) -> bool:
    """True if all elements of both programs' results have one formula, and are defined for the same inputs.

    What data decide, a condition or an index, has no formula.
    """
    if any(s.kind == "bool" for m in (f, g) for p in m.inputs for s in p.type.leaves) or f.narrow or g.narrow:
        return False
    try:
        (found, defined), (other, elsewhere) = (_formulas(m) for m in (f, g))
    except (Unsupported, DiagnosticError):
        return False
    same = all(bool(np.all(a.parts[0] == b.parts[0])) for a, b in zip(found, other, strict=True))
    return same and defined == elsewhere


def equal_by_decisions(f: Member, g: Member, level: Level, solver: Solver) -> Level | None:
    """The level that elements as decisions of their inputs' elements prove, from a level on; None where they do not.

    In every bit they are one node each; over the reals they have one formula each at all ends of conditions.
    """
    for ordered in (False, True):
        if ordered and level > Level.BITS_BUT_ZERO_AND_NAN:
            return None
        domain = Decisions(ordered)
        try:
            # of a source's lifts the exact one has its order
            pairs = set(zip(*(_elements(m if ordered else m.exact or m, domain) for m in (f, g)), strict=True))
            rest = [(a, b) for a, b in pairs if a is not b]
            if not rest:
                if not ordered:
                    return Level.BITS
                return Level.REALS if f.sums or g.sums else Level.BITS_BUT_ZERO_AND_NAN
            if all(map(Ends(domain, not ordered, solver).equal, *zip(*rest, strict=True))):
                return Level.REALS if ordered else Level.BITS
        except (Unsupported, DiagnosticError, RecursionError):
            return None
    return None


def _elements(m: Member, domain: Decisions) -> list[Node]:
    """All elements of the results of a program, in their order."""
    passed: dict[str, Leaf | Sequence[Leaf]] = {}
    for k, p in enumerate(m.inputs):
        (kind,) = p.type.leaves
        passed[p.name] = domain.inputs(k, p.type.dims.shape, kind)
    for name, table in m.tables.items():
        array, (kind,) = np.asarray(table), m.fencil[name].type.leaves
        passed[name] = domain.numbers(array, kind) if kind.is_float else Leaf((array,))
    results = evaluated(m.fencil, passed, domain=domain)
    kinds = [s for p in m.fencil.results for s in p.type.leaves]
    leaves = [leaf for t in results for leaf in t.leaves]
    return [
        n for leaf, s in zip(leaves, kinds, strict=True) for n in domain.numbers(leaf.parts[0], s).parts[0].reshape(-1)
    ]


def has_floats(f: Member) -> bool:
    """True if floats are anywhere in a program."""
    params = (s for p in f.fencil.params for s in p.type.leaves)
    nodes = (e for e in postorder(*values(f.fencil.closures)) if isinstance(e.type, TensorType))
    return any(s.is_float for s in params) or any(s.is_float for e in nodes for s in e.tensor.leaves)


def _formulas(m: Member) -> tuple[list[Leaf], set[Condition]]:
    """The results of a program as formulas of its inputs' elements, and where they are defined."""
    domain = Formal()
    passed = {p.name: variables(k, p.type.dims.shape) for k, p in enumerate(m.inputs)}
    for name, table in m.tables.items():
        array = np.asarray(table)
        passed[name] = domain.whole(array) if m.fencil[name].type.leaves[0].is_float else Leaf((array,))
    return [t.only for t in evaluated(with_extremes(m.fencil), passed, domain=domain)], domain.conditions


@dataclass(slots=True)
class Agreement:
    """Agreement of the formulas of each output's elements on all inputs together."""

    points: int = 0
    differed: bool = False
    """Whether witnesses differed somewhere by more than float64 explains."""
    largest: float = 0.0
    agreed: list[Array] = field(default_factory=list[Array])
    """Per output, elements whose formulas agreed at a point."""
    disagreed: list[Array] = field(default_factory=list[Array])

    def add(self, c: Comparison) -> None:
        """One input more."""
        self.points += 1
        self.differed |= any(n.any() for n in c.number)
        self.largest = max(self.largest, c.largest)
        if not self.agreed:
            self.agreed = [~f for f in c.formula]
            self.disagreed = [f.copy() for f in c.formula]
        else:
            self.agreed = [a | ~f for a, f in zip(self.agreed, c.formula, strict=True)]
            self.disagreed = [a | f for a, f in zip(self.disagreed, c.formula, strict=True)]

    def holds(self, ambiguous: bool) -> bool:
        """True if the formulas of all elements are probably equal."""
        if self.differed or not self.points:
            return False
        return all(a.all() for a in self.agreed) and (ambiguous or not any(d.any() for d in self.disagreed))
