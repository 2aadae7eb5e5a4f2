"""A fencil whose intervals depend on sizes: it becomes a typed fencil when the sizes are bound.

>>> from tensorir.text import parse
>>> half = parse("half(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← 0.5 × x; }")
>>> half.sizes
('n',)
>>> half.specialise(n=5)["x"].type
tensor<float, I[0:5]>
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensorir.binding.arrays import size_of
from tensorir.ir.nodes import Fencil
from tensorir.runtime.assembly import bind_program, call_program, parse_program, print_program
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Displayed, did_you_mean
from tensorir.runtime.memory import SIZES, CacheOwner, RecentCache
from tensorir.text.elaborate import elaborate
from tensorir.text.inventory import inventory
from tensorir.text.syntax import Closure, Param, Program

__all__ = ["Template"]

_TRIAL = 1000
"""Sizes at which names are checked before any size is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Template(CacheOwner, Displayed):
    """A program with size parameters. Equal to another that is written alike."""

    program: Program
    sizes: tuple[str, ...] = field(init=False)
    """The size parameters in the order in which they appear."""
    specialisations: RecentCache[tuple[int, ...], Fencil] = field(
        init=False, default_factory=lambda: RecentCache("fencils of templates", SIZES)
    )
    """The fencils that were made last, by their sizes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", inventory(self.program).sizes)
        self._check_names()

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters, with types whose bounds are affine in the sizes."""
        return self.program.params

    @property
    def closures(self) -> tuple[Closure, ...]:
        return self.program.closures

    def specialise(self, /, **sizes: int) -> Fencil:
        """The typed fencil for a value of every size; made once per set of sizes."""
        for name in sizes:
            if name not in self.sizes:
                raise DiagnosticError(
                    Diagnostic(
                        "B05",
                        f"'{self.name}' has no size '{name}'.",
                        self.program.span,
                        help=did_you_mean(name, self.sizes),
                    )
                )
        unbound = [name for name in self.sizes if name not in sizes]
        if unbound:
            shown = " and ".join(f"'{name}'" for name in unbound)
            raise DiagnosticError(
                Diagnostic(
                    "B01",
                    f"the size{'s' * (len(unbound) > 1)} {shown} {'is' if len(unbound) == 1 else 'are'} not bound.",
                    self.program.span,
                    help=f"give {'it a value' if len(unbound) == 1 else 'them values'}: {unbound[0]}=10.",
                )
            )
        key = tuple(size_of(sizes[name], name) for name in self.sizes)
        return self.specialisations.of(key, lambda: elaborate(self.program, dict(zip(self.sizes, key, strict=True))))

    def _check_names(self) -> None:
        """Refuse what is wrong at any size: names. Types are checked when the sizes are known."""
        try:
            elaborate(self.program, dict.fromkeys(self.sizes, _TRIAL))
        except DiagnosticError as error:
            lasting = [d for d in error.diagnostics if d.code[0] == "N"]
            if lasting:
                raise DiagnosticError(lasting) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.program == other.program

    def __hash__(self) -> int:
        return hash((self.program.name, self.program.params))

    def __str__(self) -> str:
        return print_program(self)

    def __repr__(self) -> str:
        return f"<Template {self.name}({', '.join(p.name for p in self.params)}) of {', '.join(self.sizes)}>"

    def __reduce__(self) -> Any:
        return _restored, (str(self),)

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        """Run on the default backend, with sizes from the shapes of the arguments (`docs/language.md`, "Sizes")."""
        return call_program(self, datasets, arguments)

    def bind(self, /, **constants: Any) -> Any:
        """The program with some parameters and sizes fixed (`docs/language.md`, "Neighbour tables")."""
        return bind_program(self, constants)


def _restored(text: str) -> Template:
    """What was pickled as text."""
    return parse_program(text)
