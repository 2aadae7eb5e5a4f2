"""What a picture is of: a fencil, a bound program, a compiled or a lifted one, an operator as it was called last."""

from __future__ import annotations

from typing import Any

from tensorir.binding.arrays import refuse
from tensorir.binding.bound import BoundProgram
from tensorir.ir.nodes import Fencil

__all__ = ["fencil_of", "program_of", "subject"]


def program_of(program: Any) -> Any:
    """The fencil, or the program with sizes, that something runs; raises I05 for an operator that was not called.

    >>> import tensorir as ti
    >>> program_of(ti.parse("f(out: tensor<float, I[0:n]>) { out ← 1.0; }").bind(n=4)).name
    'f'
    """
    return _bound(program).program


def _bound(program: Any) -> BoundProgram:
    engine: Any = getattr(program, "engine", None)
    if engine is not None:
        program = engine.program
    plans: Any = getattr(program, "plans", None)
    if plans is not None:
        if not plans:
            raise refuse(
                "I05", f"'{program.name}' was not called yet, so its types are not known.",
                f"give its fencil: {program.name}.fencil(x).",
            )  # fmt: skip
        program = next(reversed(plans.values())).fencil
    if hasattr(program, "report") and hasattr(program, "at"):
        program = program.fencil  # of a lifted program; where only a call tells its sizes it says so
    return BoundProgram.of(program)


def subject(program: Any) -> Fencil | BoundProgram:
    """The program with its sizes known; raises I05 for an operator that was not called, B09 where sizes are missing.

    >>> import tensorir as ti
    >>> subject(ti.parse("f(out: tensor<float, I[0:4]>) { out ← 1.0; }")).name
    'f'
    """
    bound = _bound(program)
    if not isinstance(bound.program, Fencil):
        raise refuse("B09", f"'{bound.name}' has sizes that are not known yet.", "bind them: f.bind(n=10).")
    return bound if bound.constants else bound.program


def fencil_of(program: Any) -> Fencil:
    """The fencil alone."""
    found = BoundProgram.of(subject(program)).program
    assert isinstance(found, Fencil)
    return found
