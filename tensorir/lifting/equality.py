"""Whether two programs compute the same: proven by their text, agreeing on inputs, or refuted by one.

Programs are fencils, lifted programs, or what `ti.lift` takes. Canonical forms that are equal by rules that keep every
bit are a proof, for what is lifted here those of its lift with exact numerics. Otherwise both run on generated inputs:
numbers at random, then the same with NaN, infinities, -0.0 and the least and greatest integers in places. Forms that
are equal by rules that keep not every bit prove nothing; that they are is told. What differs is shrunk, part
by part, to zeros and ones. Programs with symbolic sizes run at the smallest sizes first, so that the first
difference is one of smallest size; other sizes are those of the types. A program that was lifted before is the one that
it became: lift it with numerics="exact" for proofs of its source.

>>> from tensorir.text import parse
>>> f = parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:4]>) { out ← ⟪I, 1⟫(x) × 2.0; }")
>>> g = parse("g(y: tensor<float, K[0:3]>, a: tensor<float, K[0:4]>) { y ← ⟪K, 1⟫(a) × 2.0; }")
>>> print(equivalent(f, g))
equal by canonical form
>>> h = parse("h(y: tensor<float, K[0:3]>, a: tensor<float, K[0:4]>) { y ← ⟪K, 1⟫(a) + ⟪K, 1⟫(a); }")
>>> print(equivalent(f, h))
agree on 8 generated inputs, within 4.4e-15
>>> a = parse("a(y: tensor<int, I[0:n]>, x: tensor<int, I[0:n]>) { y ← x; }")
>>> b = parse("b(y: tensor<int, I[0:n]>, x: tensor<int, I[0:n]>) { y ← if pos(I, x) < 2 then x else 0 × x; }")
>>> print(equivalent(a, b))
different at n = 3: y[2] is 1 and 0.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.binding.arrays import refuse
from tensorir.errors import DiagnosticError
from tensorir.ir import Var
from tensorir.lifting.family import Called, Family, Member, called, common_sizes, family
from tensorir.types import DTYPES, Element, Scalar

__all__ = ["Equivalence", "equivalent"]

INPUTS = 8
MOST_TRIED = 128
"""How many parts of an array are tried to be left out."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What was found: `proven`, `agreed` on a number of inputs within a bound, or a counterexample by parameter.

    The bound is beside the size of a result; integers agree exactly, and NaN with NaN. Inputs that both programs refuse
    are not counted. `sizes`: all at which symbolic programs agreed, or those of the counterexample. `up_to`: what rules
    that do not keep every bit leave out, where the canonical forms by these are equal.
    """

    proven: bool
    agreed: bool
    inputs: int
    bound: float
    counterexample: dict[str, Any] | None = None
    difference: str = ""
    sizes: tuple[Mapping[str, int], ...] = ()
    up_to: str = ""

    def __bool__(self) -> bool:
        return self.agreed

    def __str__(self) -> str:
        at = _told(self.sizes)
        if self.proven:
            return "equal by canonical form"
        if self.agreed and not self.inputs:
            return f"agree{at}, by canonical form{' at each' if len(self.sizes) > 1 else ''}"
        if self.agreed:
            loosely = f", and equal by canonical form up to {self.up_to}" if self.up_to else ""
            return f"agree on {self.inputs} generated inputs{at}, within {self.bound:.1e}{loosely}"
        if self.counterexample is None:
            return f"not known{at}: {self.difference}"
        return f"different{at}: {self.difference}"


def _told(sizes: Sequence[Mapping[str, int]]) -> str:
    """Every set of sizes: `n = 1, 2`, or `(n, m) = (1, 1), (1, 2)`."""
    if not sizes:
        return ""
    if len(sizes[0]) == 1:
        ((name, _),) = sizes[0].items()
        return f" at {name} = {', '.join(str(s[name]) for s in sizes)}"
    return f" at ({', '.join(sizes[0])}) = {', '.join(str(tuple(s.values())) for s in sizes)}"


def equivalent(
    a: Any, b: Any, *, args: Sequence[Any] | None = None, inputs: int = INPUTS, special: bool = True, seed: int = 0
) -> Equivalence:
    """Whether two programs compute the same, parameters matched in their order (inputs, then outputs).

    Lifted programs are what a call of them runs, checks included. At some sizes equal forms are agreement and no proof
    for others. Half of the inputs hold special numbers, unless `special` is false: derivatives where functions have
    none are nobody's. With `args`, arrays or whatever has a shape and a dtype, both are functions of such arrays that
    give arrays, and no text tells what they do: gradients, and programs called one after the other. They run
    with 64-bit element types kept. Raises TL04 where parameters differ in number, element or extents.
    """
    if args is not None:
        one, other = (called(f, args) for f in (a, b))
        return _compared(one, other, inputs, seed, special)
    f, g = family(a), family(b)
    if not f.sizes and not g.sizes:
        return _compared(f.at({}), g.at({}), inputs, seed, special)
    if f.text and f.text == g.text:
        return Equivalence(True, True, 0, 0.0)
    return _at_sizes(f, g, inputs, seed, special)


def _at_sizes(f: Family, g: Family, inputs: int, seed: int, special: bool) -> Equivalence:
    """Programs of which one at least has symbolic sizes, the smallest first."""
    tried: list[Mapping[str, int]] = []
    refused: list[Mapping[str, int]] = []
    total, bound = 0, 0.0
    loosely = True
    for sizes, one, other in common_sizes(f, g):
        _comparable(one, other)
        found = _compared(one, other, max(2, inputs // 2), seed, special)
        if found.counterexample is not None:
            return Equivalence(False, False, total, found.bound, found.counterexample, found.difference, (sizes,))
        if not found:
            refused.append(sizes)
            continue
        tried.append(sizes)
        loosely &= found.proven or bool(found.up_to)
        total, bound = total + found.inputs, max(bound, found.bound)
    if refused and not total:
        return Equivalence(False, False, 0, bound, difference=_REFUSED, sizes=tuple(refused))
    if not tried:
        raise refuse("TL04", "there are no sizes at which both programs are of the same arrays.", _SAME)
    return Equivalence(False, True, total, bound, sizes=tuple(tried), up_to=_LOOSE if total and loosely else "")


_SAME = "compare programs of the same arrays."


def _compared(f: Member | Called, g: Member | Called, inputs: int, seed: int, special: bool) -> Equivalence:
    _comparable(f, g)
    if f.proof() == g.proof():
        return Equivalence(True, True, 0, 0.0)
    up_to = _LOOSE if f.likeness() == g.likeness() else ""
    rng = np.random.default_rng(seed)
    bound, ran = _bound(f), 0
    for k in range(inputs):
        turn = max(0, k + 1 - (inputs + 1) // 2) if special else 0
        given = [_random(rng, p, f.element(p), turn) for p in f.inputs]
        found = _outcomes(f, g, given)
        if found is None:
            given = [_mild(x) for x in given]
            found = _outcomes(f, g, given)
        ran += found is not None
        if found is not None and _apart_at(f, *found, bound):
            given = _shrunk(f, g, given, bound)
            told = _differs(f, g, given, bound)
            names = dict(zip((p.name for p in f.inputs), given, strict=True))
            return Equivalence(False, False, k, bound, names, told)
    if inputs and not ran:
        return Equivalence(False, False, 0, bound, difference=_REFUSED)
    return Equivalence(False, True, ran, bound, up_to=up_to)


_LOOSE = "the order of folds, the sign of zeros and what comparisons do with NaN"
_REFUSED = "both programs refuse every generated input."


def _comparable(f: Member | Called, g: Member | Called) -> None:
    for what, xs, ys in (("inputs", f.inputs, g.inputs), ("outputs", f.outputs, g.outputs)):
        kinds = [[(m.element(p), p.type.dims.shape) for p in ps] for m, ps in ((f, xs), (g, ys))]
        if kinds[0] != kinds[1]:
            told = [", ".join(f"{p.name}: {p.type}" for p in ps) or "none" for ps in (xs, ys)]
            message = f"the programs have different {what}: {told[0]} and {told[1]}."
            raise refuse("TL04", message, _kept(f, g) or _SAME)
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


def _random(rng: np.random.Generator, p: Var, element: Element, turn: int) -> Any:
    """Numbers of an element for a parameter; from turn 1 on, special ones in places."""
    assert isinstance(element, Scalar) and isinstance(p.type.element, Scalar)
    shape = p.type.dims.shape
    dtype = DTYPES[p.type.element]
    if element.is_float:
        numbers = rng.normal(size=shape)
        rare = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
    elif element.is_integer:
        bits = element.bits - (element.kind != "uint")
        numbers = rng.integers(0 if element.kind == "uint" else -4, 5, shape).clip(*_ends(element))
        rare = np.array([(1 << bits) - 1, 0 if element.kind == "uint" else -(1 << bits), 0, 1], dtype)
    else:
        return rng.integers(0, 2, shape).astype(bool)
    found = np.array(numbers).astype(dtype)
    if turn and found.size:
        # every special number has its turn, at places that change
        count = min(-(-found.size // 2), max(len(rare), found.size // 5))
        places = rng.permutation(found.size)[:count]
        found.reshape(-1)[places] = rare[(np.arange(count) + (turn - 1) * count) % len(rare)].astype(dtype)
    return found


def _ends(element: Scalar) -> tuple[int, int]:
    return element.range.start, element.range.stop - 1


def _bound(f: Member | Called) -> float:
    """How far results may lie apart, beside their size: rounding of the narrowest float on the way, times its depth."""
    bits = [s.bits for p in f.params for s in p.type.leaves if s.is_float]
    precision = {16: 1e-3, 32: 1.2e-7}.get(min(bits, default=64), 2.2e-16)
    longest = max((len(i) for p in f.params for _, i in p.type.dims.items), default=1)
    return 4 * precision * max(longest, 5)


def _run(f: Member | Called, given: Sequence[Any]) -> list[Any] | str:
    """What a program gives, or what it says of its inputs."""
    try:
        results = f(dict(zip((p.name for p in f.inputs), (np.array(x) for x in given), strict=True)))
    except DiagnosticError as error:
        return str(error).splitlines()[0]
    return [np.asarray(results[p.name]) for p in f.outputs]


def _mild(x: Any) -> Any:
    """An input that more programs take: positive numbers, and whole ones that are indices of nearly any array."""
    if x.dtype.kind == "b":
        return x
    if x.dtype.kind in "iu":
        return x & 1
    return np.where(np.isfinite(x.astype(np.float64)), np.abs(x), 1).astype(x.dtype)


def _outcomes(
    f: Member | Called, g: Member | Called, given: Sequence[Any]
) -> tuple[list[Any] | str, list[Any] | str] | None:
    """What both programs make of inputs, None where both refuse them."""
    found, other = _run(f, given), _run(g, given)
    return None if isinstance(found, str) and isinstance(other, str) else (found, other)


def _differs(f: Member | Called, g: Member | Called, given: Sequence[Any], bound: float) -> str:
    found = _outcomes(f, g, given)
    return "" if found is None else _apart_at(f, *found, bound)


def _apart_at(f: Member | Called, found: list[Any] | str, other: list[Any] | str, bound: float) -> str:
    """Where outcomes differ, in words."""
    if isinstance(found, str) or isinstance(other, str):
        return f"only one of them refuses these inputs: {found if isinstance(found, str) else other}"
    for p, x, y in zip(f.outputs, found, other, strict=True):
        apart = _apart(x, y, bound)
        if apart.any():
            at = tuple(int(k) for k in np.argwhere(apart)[0])
            return f"{p.name}{list(at) if at else ''} is {x[at]} and {y[at]}."
    return ""


def _apart(x: Any, y: Any, bound: float) -> Any:
    """Where results differ: integers at all, floats by more than the bound beside the largest finite one."""
    if x.dtype.kind in "iub":
        return x != y
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    finite = np.where(np.isfinite(wide_x), np.abs(wide_x), 0.0)
    size = np.maximum(np.max(finite, initial=0.0), 1.0)
    with np.errstate(invalid="ignore"):
        return ~((np.abs(wide_x - wide_y) <= bound * size) | (np.isnan(wide_x) & np.isnan(wide_y)) | (wide_x == wide_y))


def _shrunk(f: Member | Called, g: Member | Called, given: list[Any], bound: float) -> list[Any]:
    """The counterexample with as many zeros, and then ones, as it can have: whole arrays, halves, and so on."""
    given = [np.array(x) for x in given]
    for value in (0, 1):
        for x in given:
            tried = 0
            for part in _parts(x.size):
                flat = x.reshape(-1)[part]
                left = (flat != 0) & (flat != value)
                if tried >= MOST_TRIED:
                    break
                if not left.any():
                    continue
                tried += 1
                kept = flat.copy()
                flat[left] = value
                if not _differs(f, g, given, bound):
                    flat[...] = kept
    return given


def _parts(size: int) -> Iterator[slice]:
    """All of so many elements, then its halves, quarters, down to each one."""
    step = size
    while step:
        for start in range(0, size, step):
            yield slice(start, start + step)
        step = (step + 1) // 2 if step > 1 else 0
