"""Whether two programs compute the same: proven by their text, agreeing on inputs, or refuted by one.

Programs are fencils, lifted programs, or what `ti.lift` takes. Equal canonical forms are a proof; otherwise both run on
generated inputs, and what differs is shrunk: first the values, one element after the other, to zero or to one.

>>> from tensorir.text import parse
>>> f = parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:4]>) { out ← ⟪I, 1⟫(x) × 2.0; }")
>>> g = parse("g(y: tensor<float, K[0:3]>, a: tensor<float, K[0:4]>) { y ← ⟪K, 1⟫(a) × 2.0; }")
>>> print(equivalent(f, g))
equal by canonical form
>>> h = parse("h(y: tensor<float, K[0:3]>, a: tensor<float, K[0:4]>) { y ← ⟪K, 1⟫(a) + ⟪K, 1⟫(a); }")
>>> print(equivalent(f, h))
agree on 8 generated inputs, within 4.4e-15
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.arrays import refuse
from tensorir.build import fencil
from tensorir.builtins import TABLE
from tensorir.ir import Fencil, Var
from tensorir.lift.program import Lifted
from tensorir.passes.cse import Cse
from tensorir.passes.simplify import Simplify
from tensorir.types import DTYPES, SCALARS, Scalar

__all__ = ["Equivalence", "equivalent"]

INPUTS = 8


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What was found: `proven`, `agreed` on a number of inputs within a bound, or a counterexample by parameter."""

    proven: bool
    agreed: bool
    inputs: int
    bound: float
    counterexample: dict[str, Any] | None = None
    difference: str = ""

    def __bool__(self) -> bool:
        return self.agreed

    def __str__(self) -> str:
        if self.proven:
            return "equal by canonical form"
        if self.agreed:
            return f"agree on {self.inputs} generated inputs, within {self.bound:.1e}"
        return f"different: {self.difference}"


def equivalent(a: Any, b: Any, *, inputs: int = INPUTS, seed: int = 0) -> Equivalence:
    """Whether two programs compute the same, parameters matched in their order (inputs, then outputs).

    Raises TL04 where parameters differ in number, element or extents.
    """
    f, g = _fencil(a), _fencil(b)
    _comparable(f, g)
    if _canonical(f) == _canonical(g):
        return Equivalence(True, True, 0, 0.0)
    rng = np.random.default_rng(seed)
    bound = _bound(f)
    for _ in range(inputs):
        given = [_random(rng, p) for p in f.inputs]
        if _differs(f, g, given, bound):
            given = _shrunk(f, g, given, bound)
            told = _differs(f, g, given, bound)
            names = dict(zip((p.name for p in f.inputs), given, strict=True))
            return Equivalence(False, False, inputs, bound, names, told)
    return Equivalence(False, True, inputs, bound)


def _fencil(program: Any) -> Fencil:
    if isinstance(program, Fencil):
        return program
    if not isinstance(program, Lifted):
        import tensorir

        program = tensorir.lift(program)
    return program.fencil


def _comparable(f: Fencil, g: Fencil) -> None:
    for what, xs, ys in (("inputs", f.inputs, g.inputs), ("outputs", f.outputs, g.outputs)):
        kinds = [[(p.type.element, p.type.dims.shape) for p in ps] for ps in (xs, ys)]
        if kinds[0] != kinds[1]:
            told = [", ".join(f"{p.name}: {p.type}" for p in ps) or "none" for ps in (xs, ys)]
            message = f"the programs have different {what}: {told[0]} and {told[1]}."
            raise refuse("TL04", message, "compare programs of the same arrays.")


def _canonical(f: Fencil) -> str:
    """The text of the simplified program, every name called by where it first appears: inputs first, then outputs."""
    for one in (Simplify(), Cse()):
        f = one(f)
    order = [*f.inputs, *(p for p in f.outputs if p not in f.inputs)]
    text = str(fencil("program", order, f.closures))
    names: dict[str, str] = {}

    def called(found: re.Match[str]) -> str:
        word = found[0]
        return word if word in _WORDS else names.setdefault(word, f"n{len(names)}")

    return re.sub(r"(?<!\w)[^\W\d]\w*", called, text)


_WORDS = {*TABLE, *SCALARS, "tensor", "let", "if", "then", "else", "true", "false", "over", "int", "float", "λ", "none"}


def _random(rng: np.random.Generator, p: Var) -> Any:
    element = p.type.element
    assert isinstance(element, Scalar)
    shape = p.type.dims.shape
    if element.is_float:
        return rng.normal(size=shape).astype(DTYPES[element])
    if element.is_integer:
        low = 0 if element.kind == "uint" else -4
        return rng.integers(low, 5, shape).astype(DTYPES[element])
    return rng.integers(0, 2, shape).astype(bool)


def _bound(f: Fencil) -> float:
    """How far results may lie apart, beside their size: rounding of the narrowest float on the way, times its depth."""
    bits = [s.bits for p in f.params for s in p.type.leaves if s.is_float]
    precision = {16: 1e-3, 32: 1.2e-7}.get(min(bits, default=64), 2.2e-16)
    longest = max((len(i) for p in f.params for _, i in p.type.dims.items), default=1)
    return 4 * precision * max(longest, 5)


def _run(f: Fencil, given: Sequence[Any]) -> list[Any]:
    results = f(**dict(zip((p.name for p in f.inputs), (np.array(x) for x in given), strict=True)))
    return [np.asarray(results[p.name]) for p in f.outputs]


def _differs(f: Fencil, g: Fencil, given: Sequence[Any], bound: float) -> str:
    for p, x, y in zip(f.outputs, _run(f, given), _run(g, given), strict=True):
        wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
        size = np.maximum(np.max(np.abs(np.nan_to_num(wide_x)), initial=0.0), 1.0)
        apart = ~(
            (np.abs(wide_x - wide_y) <= bound * size) | (np.isnan(wide_x) & np.isnan(wide_y)) | (wide_x == wide_y)
        )
        if apart.any():
            at = tuple(int(k) for k in np.argwhere(apart)[0])
            return f"{p.name}{list(at)} is {x[at]} and {y[at]}."
    return ""


def _shrunk(f: Fencil, g: Fencil, given: list[Any], bound: float) -> list[Any]:
    """The counterexample with as many zeros as it can have."""
    given = [np.array(x) for x in given]
    for x in given:
        for attempt in (slice(None), *(range(min(x.size, 64)))):
            kept = x.copy()
            x.reshape(-1)[attempt] = 0
            if not _differs(f, g, given, bound):
                x[...] = kept
    return given
