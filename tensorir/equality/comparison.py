"""Equality of two programs: proven by their text, equal as formulas, within rounding, or refuted.

Programs are fencils, lifted programs, or what `ti.lift` takes. Canonical forms that are equal by rules that keep every
bit are a proof of it, for what is lifted here those of its lift with exact numerics; forms that are equal by rules that
take sums in another order are a proof over the reals. Otherwise both are evaluated at random points of prime fields
(`tensorir.equality.reals`), with witnesses in float64 that decide branches, at inputs that literals and extents of both
suggest. What differs by more than rounding is run as it is, and shrunk, part by part, to zeros and ones.
Programs with symbolic sizes are compared at the smallest sizes first, so that the first difference is one of smallest
size. A program that was lifted before is the one that it became; one whose numerics are fast has no bits to prove.

>>> from tensorir.text import parse
>>> f = parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:4]>) { out ← ⟪I, 1⟫(x) × 2.0; }")
>>> g = parse("g(y: tensor<float, K[0:3]>, a: tensor<float, K[0:4]>) { y ← ⟪K, 1⟫(a) × 2.0; }")
>>> print(equivalent(f, g))
equal in every bit
>>> h = parse("h(y: tensor<float, K[0:3]>, a: tensor<float, K[0:4]>) { y ← ⟪K, 1⟫(a) + ⟪K, 1⟫(a); }")
>>> print(equivalent(f, h))
equal over the reals
>>> a = parse("a(y: tensor<int, I[0:n]>, x: tensor<int, I[0:n]>) { y ← x; }")
>>> b = parse("b(y: tensor<int, I[0:n]>, x: tensor<int, I[0:n]>) { y ← if pos(I, x) < 2 then x else 0 × x; }")
>>> print(equivalent(a, b))
different at n = 3: y[2] is 1 and 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice
from math import prod
from typing import Any

import numpy as np

from tensorir.equality.all_sizes.cases import Limits
from tensorir.equality.all_sizes.proof import Found, compared, size_name, smallest
from tensorir.equality.programs import (
    Called,
    Family,
    Member,
    alike_on_one_point,
    called,
    common_sizes,
    family,
    matched,
    members,
)
from tensorir.equality.reals.residues import Q, digits
from tensorir.equality.reals.solver import Solver
from tensorir.equality.reals.tensors import Unsupported
from tensorir.equality.runs import (
    Agreement,
    Comparison,
    Evaluator,
    Input,
    at_model,
    difference,
    differing_run,
    edge_difference,
    equal_by_decisions,
    equal_by_formulas,
    first_difference,
    has_floats,
    inputs,
    mild,
    of_all_magnitudes,
    run,
    special,
    ulps,
)
from tensorir.equality.verdict import NONE, Assumptions, Level, Verdict, assumptions, place, shown
from tensorir.integers.affine import Affine, number, quotient, variable
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import DTYPES, Scalar
from tensorir.runtime.errors import refuse
from tensorir.runtime.randomness import generator

__all__ = ["Level", "Verdict", "at_sizes", "equivalent"]

# Programs of symbolic sizes: proven for all of them, or compared at some, the smallest first.
#
# Where the proof of `tensorir.equality.all_sizes` leaves cases open, their smallest sizes are among those that are
# tried, so that a fault which begins at n = 1001 is found there. Open cases of few sizes are compared at each of
# these.

Sizes = Mapping[str, int]
Compare = Callable[[Member, Member, Sizes], Verdict]
"""The verdict on two members of families."""
MOST_OPEN = 12
"""How many sizes of open cases are compared each, where that proves the rest."""
LARGEST_TRIED = 1 << 14
"""The product of sizes of open cases up to which they are tried."""
FIRST, CHECKED = 4, 2
"""How many sizes come before a proof is tried, and at how many of these programs are compared that have one."""


@dataclass(slots=True)
class _Tried:
    """Verdicts at sizes so far."""

    compare: Compare
    sizes: list[Sizes]
    verdicts: list[Verdict]

    def all(self, members: Iterable[tuple[Sizes, Member, Member]]) -> Verdict | None:
        """Compare at further sizes; the first verdict that programs differ."""
        for sizes, one, other in members:
            if sizes in self.sizes:
                continue
            verdict = self.compare(one, other, sizes)
            if verdict.level == Level.DIFFERENT:
                return replace(verdict, sizes=(sizes,))
            if verdict.level > Level.UNKNOWN or not self.verdicts:
                self.verdicts.append(verdict)
                self.sizes.append(sizes)
        return None


def at_sizes(f: Family, g: Family, match: Mapping[str, str], assumed: Assumptions, compare: Compare) -> Verdict:
    """The verdict on programs of which one at least has symbolic sizes."""
    tried = _Tried(compare, [], [])
    usual = common_sizes(f, g, assumed)
    few = list(islice(usual, FIRST))
    if not few:
        message = "there are no sizes at which both programs are of the same arrays."
        raise refuse("TL04", message, "compare programs of the same arrays.")
    found = _for_all(f, g, match, assumed, few[-1][1:])
    level = None
    if found is not None:
        level = _all_but_few(f, g, found, tried)
        few = few[-CHECKED:] if level is not None else few
        usual = () if level is not None else chain(members(f, g, _worth(found, f.sizes)), usual)
    different = tried.all(chain(few, usual))
    if different is not None:
        return different
    if level is not None:
        if level == Level.BITS:
            return Verdict(level)
        edges = next((v.edges for v in tried.verdicts if v.edges), "")
        return Verdict(level, edges=edges, rounded=next((v.rounded for v in tried.verdicts if v.rounded), ()))
    known = [v for v in tried.verdicts if v.level > Level.UNKNOWN] or tried.verdicts
    sizes = tuple(s for s, v in zip(tried.sizes, tried.verdicts, strict=True) if v in known)
    lowest = min(known, key=lambda v: v.level)
    seen, all_ = (sum(v.branches[k] for v in known) for k in (0, 1))
    return replace(
        lowest, sizes=sizes, points=max(v.points for v in known), branches=(seen, all_),
        ulps=max((v.ulps for v in known if v.ulps is not None), default=None),
        edges=next((v.edges for v in known if v.edges), ""),
    )  # fmt: skip


def _worth(found: Found, names: Sequence[str]) -> list[Sizes]:
    """The smallest sizes of open cases, and the next ones, where they are small enough to be tried."""
    least = smallest(found.open, len(names))
    worth = [s for s in dict.fromkeys((*least, *(tuple(n + 1 for n in s) for s in least))) if prod(s) <= LARGEST_TRIED]
    return [dict(zip(names, s, strict=True)) for s in worth]


def _for_all(
    f: Family, g: Family, match: Mapping[str, str], assumed: Assumptions, pair: tuple[Member, Member]
) -> Found | None:
    """The proof for all sizes; None where programs are not followed at symbolic ones."""
    one, other = pair[0], matched(*pair, match)
    if f.symbolic is None or g.symbolic is None or len(f.sizes) != len(g.sizes):
        return None
    if any(len(ps) != len(qs) for ps, qs in ((one.inputs, other.inputs), (one.outputs, other.outputs))):
        return None
    if any(m.tables or m.narrow or not isinstance(p.type.element, Scalar) for m in (one, other) for p in m.params):
        return None
    order = f.sizes if set(f.sizes) == set(g.sizes) else g.sizes
    try:
        sides = f.symbolic(f.sizes), g.symbolic(order)
        inputs, outputs = _paired(one.inputs, other.inputs), _paired(one.outputs, other.outputs)
        limits = {k: _limits(assumed, name, f.sizes) for k, (name, _) in enumerate(inputs)}
        found = compared(*sides, inputs, outputs, len(f.sizes), _assumed(assumed, f.sizes), limits)
    except (Unsupported, RecursionError):
        return None
    refused = [dict(zip(f.sizes, s, strict=True)) for s in smallest(found.refused, len(f.sizes))]
    # what a case of sizes is refused for, its sizes are
    return None if any(True for _ in members(f, g, refused)) else _capped(found, one.keeps_order and other.keeps_order)


def _paired(one: Sequence[Var], other: Sequence[Var]) -> list[tuple[str, str]]:
    return [(p.name, q.name) for p, q in zip(one, other, strict=True)]


def _capped(found: Found, keep_order: bool) -> Found:
    return found if keep_order else replace(found, level=min(found.level, Level.REALS))


def _all_but_few(f: Family, g: Family, found: Found, tried: _Tried) -> Level | None:
    """The level for all sizes, where open cases are of few sizes and equal at each."""
    left = found.all(len(f.sizes), MOST_OPEN)
    if left is None or (left and max(map(prod, left)) > LARGEST_TRIED) or found.level < Level.REALS:
        return None
    level = found.level
    for sizes, one, other in members(f, g, [dict(zip(f.sizes, s, strict=True)) for s in left]):
        level = min(level, tried.compare(one, other, sizes).level)
    return level if level >= Level.REALS else None


def _assumed(assumed: Assumptions, sizes: Sequence[str]) -> list[Affine]:
    """Assumptions on sizes, as sums that are not negative."""
    names = {n: variable(size_name(k)) for k, n in enumerate(sizes)}
    found: list[Affine] = []
    for a, sign, b in assumed.comparisons:
        x, y = (names.get(t) or _whole(t) for t in (a, b))
        if x is None or y is None:
            continue
        for less, more, signs in ((x, y, "<≤="), (y, x, ">≥=")):
            if sign in signs:
                found.append(more.minus(less).plus(number(-(sign in "<>"))))
    for name, by, left in assumed.remainders:
        if name in names:
            rest = names[name].minus(quotient(names[name], by, {}).times(by)).plus(number(-left))
            found += [rest, rest.times(-1)]
    return found


def _limits(assumed: Assumptions, name: str, sizes: Sequence[str]) -> Limits:
    """Limits that the whole numbers of an input are assumed to lie between."""
    names = {n: variable(size_name(k)) for k, n in enumerate(sizes)}
    low: Affine | None = None
    high: Affine | None = None
    for a, sign, b in assumed.comparisons:
        for one, other, signs in ((a, b, ">≥="), (b, a, "<≤=")):
            bound = names.get(other) or _whole(other)
            if one != name or bound is None:
                continue
            if sign in signs:
                low = bound.plus(number(sign in "<>"))
            if sign == "=" or sign not in signs:
                high = bound.plus(number(-(sign in "<>")))
    return low, high


def _whole(term: str) -> Affine | None:
    return number(int(term)) if term.lstrip("-").isdecimal() else None


INPUTS = 12
"""At how many inputs programs are compared at least, half of which are generic."""
ELEMENTS, MOST_INPUTS = 400, 48
"""Programs of few elements are compared at more inputs, until so many elements were, but at most so many inputs."""
MANY = 1 << 18
"""Arrays of so many elements are compared at half as many inputs: each has many points."""
DEGREE = 1000
"""The degree of formulas that the probability of error is told for (Schwartz, Zippel)."""
MOST_MODELS = 4
"""How many inputs that a solver suggests are tried."""
LACKING = "z3-solver would decide on its whole numbers (pip install 'tensorir[equality]')"
MOST_TRIED = 128
"""How many parts of an array are tried to be left out."""
_SAME = "compare programs of the same arrays."


def equivalent(
    a: Any, b: Any, *, args: Sequence[Any] | None = None, match: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None, assume: Sequence[str] = (), inputs: int = INPUTS, special: bool = True,
    seed: int = 0,
) -> Verdict:  # fmt: skip
    """True if two programs compute the same; true where that is proven, over the reals at least, and for all sizes.

    Parameters are matched by name where both have the same names, otherwise in their order (inputs, then outputs);
    `match` gives names of the first and of the second. `sizes`: those at which symbolic programs are compared, where
    not several are tried. `assume`: what holds of every element of inputs, by the names of the first, and of sizes, as
    `0 ≤ idx < n` or `n % 32 = 0`. Checks are part of programs. `inputs`: at how many both are compared where no proof
    is found, half as many from 2^18 elements on; then NaN and infinities are tried too, unless `special` is false, and
    what they tell apart is told, and is no part of equality over the reals. With `args`, arrays or whatever has a
    shape and a dtype, both are functions of such arrays that give arrays, or programs of such inputs, and no text tells
    what they do: gradients, and programs called one after the other. They run with 64-bit element types kept. Raises
    TL04 where parameters differ in number, element or extents.
    """
    if args is not None:
        one, other = (called(f, args) for f in (a, b))
        _comparable(one, other)
        return _sampled(one, other, inputs, seed)
    f, g = family(a), family(b)
    how = _How(dict(match or {}), assumptions(assume), inputs, special, seed)
    if not f.sizes and not g.sizes:
        return _compared(f.at({}), g.at({}), how, {})
    if f.text and f.text == g.text:
        return Verdict(Level.BITS)
    if sizes is not None:
        one, other = (_at(m, sizes) for m in (f, g))
        return replace(_compared(one, other, how, sizes), sizes=(sizes,))
    # special numbers do as they do at one size
    fewer = replace(how, inputs=max(4, how.inputs // 2))
    turns = count()

    def compare(one: Member, other: Member, sizes: Mapping[str, int]) -> Verdict:
        return _compared(one, other, replace(fewer, special=how.special and next(turns) == 1), sizes)

    return at_sizes(f, g, how.match, how.assumed, compare)


@dataclass(frozen=True, slots=True)
class _How:
    """Options of a comparison."""

    match: Mapping[str, str]
    assumed: Assumptions
    inputs: int
    special: bool
    seed: int


def _at(f: Family, sizes: Mapping[str, int]) -> Member:
    """A program at sizes, of which it may have fewer."""
    missing = [n for n in f.sizes if n not in sizes]
    if missing:
        raise refuse("A04", f"the size '{missing[0]}' is not given.", f"give it: sizes={{'{missing[0]}': 8}}.")
    return f.at({n: sizes[n] for n in f.sizes})


def _compared(f: Member, g: Member, how: _How, sizes: Mapping[str, int]) -> Verdict:
    g = matched(f, g, how.match)
    _check_names(how.assumed, f, sizes)
    _comparable(f, g)
    bounds = {k: how.assumed.bounds(p.name, sizes) for k, p in enumerate(f.inputs)}
    solver = Solver({k: b for k, b in bounds.items() if b != (-np.inf, np.inf)})
    proven = Level.BITS if _empty(f) and _empty(g) else _proven(*alike_on_one_point(f, g), solver)
    if proven == Level.BITS:
        return Verdict(Level.BITS)
    told = _edges(f, g, how, sizes) if how.special else ""
    if proven is not None:
        return Verdict(proven, edges=told, rounded=_rounded(f, g))
    try:
        found = _over_the_reals(f, g, how, sizes, solver)
    except Unsupported as reason:
        found = replace(
            _sampled(f, g, max(2, how.inputs // 2), how.seed, how.assumed, sizes),
            why=f"not evaluated over the reals: {reason}",
        )
    if found.level == Level.DIFFERENT:
        return found
    why = "; ".join(filter(None, (found.why, LACKING if solver.lacking else "")))
    rounded = _rounded(f, g) if found.level == Level.REALS_PROBABLY else ()
    return replace(found, edges=told, why=why, rounded=rounded)


def _rounded(*programs: Member) -> tuple[str, ...]:
    """The float types to which programs cast values on the way to results of more bits."""
    found: set[str] = set()
    for m in programs:
        most = max((digits(s) for p in m.outputs for s in p.type.leaves), default=0)
        for e in postorder(*values(m.fencil.closures)):
            if isinstance(e, Call) and e.op == "cast":
                (source,), (target,) = e.args[0].tensor.leaves, e.tensor.leaves
                if target.is_float and digits(target) < min(most, digits(source)):
                    found.add(target.name)
    return tuple(sorted(found))


def _empty(f: Member) -> bool:
    """True if a program gives no element and checks nothing."""
    if any(p.type.dims.size for p in f.outputs):
        return False
    nodes = postorder(*values(f.fencil.closures))
    return not any(isinstance(e, Call) and (TABLE[e.op].checks or TABLE[e.op].effect) for e in nodes)


def _proven(f: Member, g: Member, solver: Solver) -> Level | None:
    """The level that canonical forms prove."""
    loose = f.loose or g.loose
    if f.proof() == g.proof() or f.proof(commuted=True) == g.proof(commuted=True):
        return Level.REALS if loose else Level.BITS
    narrow = bool(f.narrow or g.narrow)
    if f.likeness() == g.likeness():
        found = Level.REALS if loose or f.sums or g.sums else Level.BITS_BUT_ZERO_AND_NAN
    elif equal_by_formulas(f, g):
        found = Level.REALS if has_floats(f) or has_floats(g) else Level.BITS
    else:
        found = None
    if narrow or found == Level.BITS or (loose and found is not None):
        return found
    decided = equal_by_decisions(f, g, Level.REALS if found is None else Level.BITS, solver)
    if decided is not None and not (f.keeps_order and g.keeps_order):
        decided = min(decided, Level.REALS)
    return decided if found is None else max(found, decided or found)


def _check_names(assumed: Assumptions, f: Member, sizes: Mapping[str, int]) -> None:
    known = {p.name for p in f.inputs} | set(sizes)
    for name in assumed.names:
        if name not in known:
            message = f"'{name}' is assumed something of, and is no input of the first program and no size."
            raise refuse("TL05", message, f"its inputs and sizes are {', '.join(sorted(known))}.")


def _over_the_reals(f: Member, g: Member, how: _How, sizes: Mapping[str, int], solver: Solver) -> Verdict:
    """The verdict of evaluation at random points, and an input that separates the programs."""
    rng = generator(how.seed)
    least = min((p.type.dims.size for p in f.inputs), default=0)
    count = max(how.inputs, min(MOST_INPUTS, ELEMENTS // max(least, 1))) if least < MANY else how.inputs // 2
    evaluate = Evaluator(f, g)
    agreement = Agreement()
    integers = not any(s.is_float for m in (f, g) for p in m.params for s in p.type.leaves)
    through_floats = integers and (has_floats(f) or has_floats(g))
    ran: list[Input] = []
    models = () if how.assumed.remainders else solver.models[-MOST_MODELS:]
    suggested = (at_model(next(inputs(f, g, 1, rng, how.assumed, sizes)), m) for m in models)
    for x in chain(suggested, inputs(f, g, count, rng, how.assumed, sizes)):
        found = evaluate(x, rng)
        if found.neither and how.assumed == NONE:
            x = mild(x)
            found = evaluate(x, rng)
        if found.neither:
            continue
        verdict = None
        if found.tells_apart:
            at = partial(_evaluated, evaluate, x, rng)
            verdict = _refuted(f, g, x, lambda a, at=at: at(a).tells_apart, lambda a, at=at: at(a).bounds)
        elif through_floats and differing_run(f, g, x.arrays):
            # over the reals nothing is rounded, and integers have no bounds of rounding: runs tell
            verdict = _refuted(f, g, x, lambda a: bool(differing_run(f, g, a)), lambda _: [0.0] * len(f.outputs))
        if verdict is not None:
            return replace(verdict, points=agreement.points)
        if not found.refused:
            agreement.add(found)
            ran = [*ran, x][:3]
    if not ran:
        return Verdict(Level.UNKNOWN, "both programs refuse every generated input.")
    seen = Verdict(
        Level.UNKNOWN, points=agreement.points, branches=evaluate.branches.count, unvisited=evaluate.branches.unvisited
    )
    if integers:
        return replace(seen, level=Level.SAMPLED, why="integers were compared, and no formula was")
    if agreement.holds(evaluate.ambiguous):
        return replace(seen, level=Level.REALS_PROBABLY, error=(DEGREE / Q) ** (agreement.points / 2))
    pairs = [(run(f, x.arrays), run(g, x.arrays)) for x in ran]
    apart = max(0.0 if isinstance(a, str) or isinstance(b, str) else ulps(a, b) for a, b in pairs)
    why = "their formulas are not shown to be equal"
    if agreement.differed:
        why = f"over the reals they differ, by {agreement.largest:.2g} at most"
    return replace(seen, level=Level.WITHIN, why=why, ulps=apart)


def _evaluated(evaluate: Evaluator, x: Input, rng: np.random.Generator, arrays: Sequence[Any]) -> Comparison:
    """Both programs over the reals at other arrays."""
    return evaluate(Input(tuple(arrays), x.literal), rng)


def _refuted(
    f: Member, g: Member, x: Input, differs: Callable[[Sequence[Any]], bool],
    bounds: Callable[[Sequence[Any]], Sequence[Any]],
) -> Verdict | None:  # fmt: skip
    """The input that tells the programs apart, shrunk, where their own runs differ too."""
    for arrays in (_shrunk(x.arrays, differs), list(x.arrays)):
        outcomes, apart = (run(f, arrays), run(g, arrays)), bounds(arrays)
        told = difference(f, *outcomes, apart)
        if told:
            names = dict(zip((p.name for p in f.inputs), arrays, strict=True))
            first = first_difference(*outcomes, apart)
            places = ("", "") if first is None else (_place(f, first, arrays), _place(g, first, arrays))
            return Verdict(Level.DIFFERENT, counterexample=names, difference=told, places=places)
    return None


def _place(f: Member, first: tuple[int, tuple[int, ...]], arrays: Sequence[Any]) -> str:
    """The place of an element that differs: the statement of a source, or an expression."""
    result, at = first
    told = "" if f.stored is None else shown(f.stored(f.outputs[result].name, at))
    given = {**f.tables, **dict(zip((p.name for p in f.inputs), arrays, strict=True))}
    return told or place(f.fencil, result, at, given)


def _sampled(
    f: Member | Called, g: Member | Called, count: int, seed: int, assumed: Assumptions = NONE,
    sizes: Mapping[str, int] | None = None,
) -> Verdict:  # fmt: skip
    """Runs of both programs at random inputs, as far as rounding tells."""
    rng = generator(seed)
    ran, apart = 0, 0.0
    if isinstance(f, Called) or isinstance(g, Called):
        if f.proof() == g.proof():
            return Verdict(Level.BITS)
        generated: Iterator[Input] = (_numbers(f, rng, turn) for turn in range(count))
        level = Level.SAMPLED
    else:
        generated, level = inputs(f, g, count, rng, assumed, sizes), Level.WITHIN
    for x in generated:
        found, other = run(f, x.arrays), run(g, x.arrays)
        if isinstance(found, str) and isinstance(other, str):
            x = mild(x)
            found, other = run(f, x.arrays), run(g, x.arrays)
            if isinstance(found, str) and isinstance(other, str):
                continue
        ran += 1
        if differing_run(f, g, x.arrays):
            arrays = _shrunk(x.arrays, lambda a: bool(differing_run(f, g, a)))
            names = dict(zip((p.name for p in f.inputs), arrays, strict=True))
            return Verdict(Level.DIFFERENT, "", names, differing_run(f, g, arrays), points=ran)
        if not isinstance(found, str) and not isinstance(other, str):
            apart = max(apart, ulps(found, other))
    if not ran:
        return Verdict(Level.UNKNOWN, "both programs refuse every generated input.")
    return Verdict(level, points=ran, ulps=apart)


def _numbers(f: Member | Called, rng: np.random.Generator, turn: int) -> Input:
    """Random numbers for functions of which no text is known; odd halves and integers of all magnitudes in turns."""
    integers = all(s.is_integer for p in f.params for s in p.type.leaves)
    arrays: list[Any] = []
    for p in f.inputs:
        element = f.element(p)
        assert isinstance(element, Scalar)
        shape = p.type.dims.shape
        if element.is_float:
            drawn = rng.normal(size=shape) if turn % 3 else rng.integers(-4, 4, shape) + 0.5
        elif integers and turn % 2:
            drawn = of_all_magnitudes(rng, shape, element)
        else:
            drawn = rng.integers(0, 2 if element.kind == "bool" else 5, shape)
        arrays.append(np.asarray(drawn).astype(DTYPES[element]))
    return Input(tuple(arrays), tuple(np.zeros(np.shape(a), bool) for a in arrays))


def _edges(f: Member, g: Member, how: _How, sizes: Mapping[str, int]) -> str:
    """Differences of programs where numbers are infinite or NaN, in words."""
    if not any(s.is_float for p in f.inputs for s in p.type.leaves):
        return ""
    rng = generator(how.seed)
    for turn in range(2):
        given = special(f, rng, turn, how.assumed, sizes)
        told = edge_difference(f, run(f, given), run(g, given))
        if told:
            return f"with infinities and NaN among the inputs {told}"
    return ""


def _comparable(f: Member | Called, g: Member | Called) -> None:
    for what, xs, ys in (("inputs", f.inputs, g.inputs), ("outputs", f.outputs, g.outputs)):
        kinds = [[(m.element(p), p.type.dims.shape) for p in ps] for m, ps in ((f, xs), (g, ys))]
        if kinds[0] != kinds[1]:
            told = [", ".join(f"{p.name}: {p.type}" for p in ps) or "none" for ps in (xs, ys)]
            raise refuse("TL04", f"the programs have different {what}: {told[0]} and {told[1]}.", _kept(f, g) or _SAME)
        for p in xs:
            if not isinstance(p.type.element, Scalar):
                raise refuse("TL04", f"'{p.name}' holds tuples, of which none are generated.", "compare its members.")


def _kept(f: Member | Called, g: Member | Called) -> str:
    """The outputs that one program alone takes as inputs, too."""
    kept = [{k: p.name for k, p in enumerate(m.outputs) if p in m.inputs} for m in (f, g)]
    told = [
        f"the {which} program reads '{name}' or leaves a part of it as it is, the other writes all of it"
        for which, one, other in (("first", kept[0], kept[1]), ("second", kept[1], kept[0]))
        for k, name in one.items()
        if k not in other
    ]
    return "; ".join(told) + "." if told else ""


def _shrunk(given: Sequence[Any], differs: Callable[[Sequence[Any]], bool]) -> list[Any]:
    """The counterexample with as many zeros, and then ones, as it can have: whole arrays, halves, and so on."""
    arrays = [np.array(x) for x in given]
    size = sum(x.size for x in arrays)
    most = MOST_TRIED if size <= 1 << 12 else 16 if size <= 1 << 16 else 1
    for value in (0, 1):
        for x in arrays:
            tried = 0
            for part in _parts(x.size):
                flat = x.reshape(-1)[part]
                left = (flat != 0) & (flat != value)
                if tried >= most:
                    break
                if not left.any():
                    continue
                tried += 1
                kept = flat.copy()
                flat[left] = value
                if not differs(arrays):
                    flat[...] = kept
    return arrays


def _parts(size: int) -> Iterator[slice]:
    """All of so many elements, then its halves, quarters, down to each one."""
    step = size
    while step:
        for start in range(0, size, step):
            yield slice(start, start + step)
        step = (step + 1) // 2 if step > 1 else 0
