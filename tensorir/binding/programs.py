"""Bound programs: a program, and the values of some of its parameters and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tensorir.binding.arrays import Array, SkipValues
from tensorir.ir.nodes import Fencil, bind_program, call_program
from tensorir.runtime.errors import Displayed, refuse
from tensorir.runtime.memory import SIZES, CacheOwner, RecentCache

if TYPE_CHECKING:
    from tensorir.text.sizes import Template


@dataclass(frozen=True, slots=True, eq=False)
class BoundProgram(CacheOwner, Displayed):
    """A program and the values of some of its parameters: read-only copies, one array per leaf.

    While sizes are missing, values stay unchecked in `pending`, until the arguments of a call tell the sizes.
    """

    program: Fencil | Template
    constants: Mapping[str, tuple[Array, ...]]
    holes: Mapping[str, SkipValues]
    """The slots that hold -1, by bound neighbour table."""
    sizes: Mapping[str, int]
    pending: Mapping[str, Any]
    """Values that wait for sizes."""
    specialised: RecentCache[tuple[int, ...], BoundProgram] = field(
        default_factory=lambda: RecentCache("bound programs at their sizes", SIZES)
    )
    """The bound fencils by the values of all sizes, the last `SIZES` of them."""

    @staticmethod
    def of(program: Any) -> BoundProgram:
        """A program with nothing bound yet, or the bound program itself."""
        if isinstance(program, BoundProgram):
            return program
        if not hasattr(program, "closures"):
            hint = "give its fencil." if hasattr(program, "fencil") else "ti.parse makes one of a text."
            raise refuse("B10", f"a program is needed, and this is of type {type(program).__name__}.", hint)
        return BoundProgram(program, {}, {}, {}, {})

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def size_names(self) -> tuple[str, ...]:
        """The sizes that are not bound yet."""
        return () if isinstance(self.program, Fencil) else tuple(n for n in self.program.sizes if n not in self.sizes)

    def at(self, sizes: Mapping[str, int]) -> BoundProgram:
        """The bound fencil at all sizes, its pending values checked; cached in `specialised`.

        A fencil is returned itself; raises B05 for sizes, which it does not have, or which are bound.
        """
        if isinstance(self.program, Fencil):
            for name in sizes:
                raise refuse("B05", f"'{self.program.name}' has no size '{name}'.", "leave it out.")
            return self
        all_sizes = {**self.sizes, **sizes}
        fencil = self.program.specialise(**all_sizes)
        key = tuple(all_sizes[n] for n in self.program.sizes)
        return self.specialised.of(key, lambda: replace(bind_program(fencil, self.pending), sizes=all_sizes))

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        """Run on the default backend."""
        return call_program(self, datasets, arguments)

    def bind(self, /, **constants: Any) -> BoundProgram:
        """More parameters and sizes fixed."""
        return bind_program(self, constants)

    def __str__(self) -> str:
        return str(self.program)

    def __repr__(self) -> str:
        names = [*self.constants, *self.pending, *(f"{n}={s}" for n, s in self.sizes.items())]
        return f"<{self.program!r} with {', '.join(names)}>"


def program_of(program: Any) -> Any:
    """The fencil or template of a program: bound, compiled, lifted, or of an operator; I05 if it was not called.

    >>> import tensorir as ti
    >>> program_of(ti.parse("f(out: tensor<float, I[0:n]>) { out ← 1.0; }").bind(n=4)).name
    'f'
    """
    return _bound(program).program


def _bound(program: Any) -> BoundProgram:
    """The bound program of any object that runs one; of an operator the plan of its last call (I05 without a call)."""
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
    """The fencil, or the bound program if arrays are bound.

    Raises I05 for an operator without a call, B09 without sizes.

    >>> import tensorir as ti
    >>> subject(ti.parse("f(out: tensor<float, I[0:4]>) { out ← 1.0; }")).name
    'f'
    """
    bound = _bound(program)
    if not isinstance(bound.program, Fencil):
        raise refuse("B09", f"'{bound.name}' has sizes that are not known yet.", "bind them: f.bind(n=10).")
    return bound if bound.constants else bound.program


def fencil_of(program: Any) -> Fencil:
    """The fencil of anything that `subject` accepts, without its bound values."""
    fencil = BoundProgram.of(subject(program)).program
    assert isinstance(fencil, Fencil)
    return fencil
