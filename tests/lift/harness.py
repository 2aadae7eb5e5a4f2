"""Kernels of tests: parsed, lifted, run by the oracle, and held against the interpreter of their language.

`agree` is the one way in which values are compared; `near` compares what two programs take, by figures. `figures.txt`
keeps figures of whole corpora: `python -m tests.lift.ratchet`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorir as ti
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder, values
from tests.lift.costs import costs_of

__all__ = ["agree", "figures", "given", "near", "operations", "parsed", "reference", "steps_of"]


def parsed(head: str, body: str = "", indent: int = 4) -> Any:
    """The function `main` of a text; lines of a body stand indented below the head."""
    lines = "".join(f"{' ' * indent}{line}\n" for line in body.strip("\n").splitlines())
    return ti.tir.parse(head + lines)["main"]


def given(function: Any, seed: int = 0, low: int = -4, high: int = 5) -> list[Any]:
    """Arguments for buffers of static shapes: whole numbers, of which sums have one value in any order.

    Those of unsigned types and truth values begin at 0; scalars are 0.
    """
    rng, made = np.random.default_rng(seed), []
    for p in function.params:
        if p not in function.buffer_map:
            made.append(0)
            continue
        buffer = function.buffer_map[p]
        element = np.dtype(str(buffer.dtype))
        least = 0 if element.kind in "ub" else low
        made.append(rng.integers(least, high, [e.value for e in buffer.shape]).astype(element))
    return made


def reference(program: ti.Lifted) -> ti.Lifted:
    """The same program, which the oracle runs: a fifth of the time of compiling it once."""
    return program.compiled_by(lambda fencil, **_: ti.compile(fencil, backend="reference"))


def same_values(program: ti.Lifted, found: Any, wanted: Any, rtol: float = 0, atol: float = 0) -> None:
    """Results are what the interpreter left in the parameters that are written."""
    written = [w for w, argument in zip(wanted, program.arguments, strict=True) if argument.written]
    for got, want in zip(found, written, strict=True):
        assert got.dtype == want.dtype
        wide = (np.asarray(x) if np.asarray(x).dtype.kind in "iub" else np.asarray(x, np.float64) for x in (got, want))
        np.testing.assert_allclose(*wide, rtol=rtol, atol=atol)


def agree(
    function: Any, *arrays: Any, compiled: bool = False, checked: bool = True, rtol: float = 0, atol: float = 0,
    **options: Any,
) -> ti.Lifted:  # fmt: skip
    """The lifted function, which gives the interpreter's values: by the oracle, or where it is `compiled`, by XLA.

    Without arrays they are `given`. With `checked` the interpreter finds nothing wrong.
    """
    arrays = arrays or tuple(given(function))
    program = ti.lift(function, **options)
    wanted = ti.tir.interpret(
        function, *[np.copy(a) if isinstance(a, np.ndarray) else a for a in arrays], checked=checked
    )
    found = (program if compiled else reference(program))(*arrays)
    same_values(program, found, wanted, rtol, atol)
    return program


def figures(program: ti.Lifted) -> str:
    """Loops step by step, folds by functions, gathers and scatters, and operations of a program: "0 1 0 7"."""
    return str(costs_of(program))


def operations(program: ti.Lifted) -> set[str]:
    """The names of the builtins that a program applies."""
    return {e.op for e in postorder(*values(program.fencil.closures)) if isinstance(e, Call)}


def steps_of(program: ti.Lifted) -> int:
    """How many loops step by step, scans and folds by functions a program has."""
    costs = costs_of(program)
    return costs.loops + costs.folds


def near(program: ti.Lifted, base: ti.Lifted) -> None:
    """A program steps no more often than another, looks up no more often, and has not many more operations."""
    one, other = costs_of(program), costs_of(base)
    assert one.near(other), f"{one} and {other}:\n{program}\n{base}"
