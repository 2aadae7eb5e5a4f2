"""A trace under way: what an operator that is being traced has named, assigned and asked for."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tensorir.binding.angles import taken_in_degrees
from tensorir.binding.known_coordinates import Coordinates
from tensorir.fieldview.naming import Assigned
from tensorir.fieldview.taken_types import TakenType
from tensorir.ir import build
from tensorir.ir.nodes import Closure, Expr, Var
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.runtime.locations import here, warn
from tensorir.staggering import partners

__all__ = ["CURRENT", "Tracing", "check_dims", "current", "fail", "refuse_degrees", "tracing"]


@dataclass(slots=True)
class Tracing:
    """One trace: the tables that operators ask for by name."""

    offsets: dict[str, Any]
    tables: dict[str, Var] = field(default_factory=dict[str, Var])
    constants: dict[str, tuple[Var, Any]] = field(default_factory=dict[str, "tuple[Var, Any]"])
    """The parameters of bound programs that were called, by name, with their values."""
    names: set[str] = field(default_factory=set[str])
    assigned: dict[int, Assigned] = field(default_factory=dict[int, Assigned])
    """Values that went to variables, by identity."""
    locals: set[str] = field(default_factory=set[str])
    """The local dimensions of the tables that fields were shifted through."""
    scanned: list[str] = field(default_factory=list[str])
    """The axes of the scans whose functions are being traced."""
    named: set[str] = field(default_factory=set[str])
    """The dims that shifts, scans, boundary conditions and coordinates name."""
    missed: dict[str, Span] = field(default_factory=dict[str, Span])
    """Dims along which a field was shifted that lacks them, each with where the first such shift is."""
    taken: list[TakenType] = field(default_factory=list[TakenType])
    """Which types numbers of Python took."""
    numbers: dict[Var, Expr] = field(default_factory=dict[Var, Expr])
    """What variables of the functions of scans stand for, where that is a number of Python."""
    degrees: set[str] = field(default_factory=set[str])
    """The parameters that are angles in degrees, members of tuples as `x[0]`."""
    coordinates: Coordinates = field(default_factory=lambda: Coordinates({}))
    """Those of the arguments."""
    arguments: dict[int, tuple[Expr, Any]] = field(default_factory=dict[int, "tuple[Expr, Any]"])
    """The arrays that expressions stand for, by the identity of these."""
    looked: set[str] = field(default_factory=set[str])
    """The names of coordinates that were asked for."""
    fields: dict[tuple[str, int], Var] = field(default_factory=dict[tuple[str, int], Var])
    """The parameters that coordinates became, by their name and which of this name they are."""
    periods: dict[str, float] = field(default_factory=dict[str, float])
    """By how much the coordinates of periodic dims go on, as boundary conditions say."""
    latest: tuple[object, Expr] | None = None
    """The expression of Python that made the latest value, and the value."""

    def fresh(self, name: str) -> str:
        """A variable name that this trace has not used."""
        if name not in self.names:
            self.names.add(name)
            return name
        return build.fresh(name, self.names)


CURRENT: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


@contextmanager
def tracing(offsets: dict[str, Any], coordinates: Coordinates) -> Generator[Tracing]:
    """A trace under way, within the one around it if there is one."""
    trace = Tracing(offsets, coordinates=coordinates)
    token = CURRENT.set(trace)
    try:
        yield trace
    finally:
        CURRENT.reset(token)


def current() -> Tracing:
    found = CURRENT.get()
    if found is None:
        fail(
            "V02", "fields are computed with inside of operators.", "call this in a function under @ti.field_operator."
        )
    return found


def refuse_degrees(closures: Sequence[Closure], params: set[str]) -> None:
    """Raise V36 for angles that DataArrays say are in degrees, at the lines where functions of angles take them."""
    found = taken_in_degrees(closures, params) if params else []
    hint = 'write ti.radians(x), or say what it is: x.assign_attrs(units="radians").'
    if found:
        told = "takes radians, and this is in degrees, as the units of an argument say."
        raise DiagnosticError([Diagnostic("V36", f"{call.op} {told}", call.span, help=hint) for call, _ in found])


def check_dims(name: str, params: Sequence[Var], trace: Tracing) -> None:
    """Raise V40 where an operator shifts along dims that no argument has, and the arguments have others alone.

    A field does not vary along a dim that it lacks, and a shift along it is the field: of arrays on latitude and
    longitude an operator on I and J would give differences of 0. Where the arguments have some of its dims this is a
    warning: a field may be constant along the others.
    """
    have = dict.fromkeys(d for p in params for d in p.type.dims.names)
    missing = [d for d in trace.missed if d not in have and not partners(d, have)]
    others = [d for d in have if d not in trace.named and not partners(d, trace.named)]
    if not missing or not others:
        return
    told = f"'{name}' shifts along {' and '.join(missing)}, which no argument has: they are on {' and '.join(have)}."
    if len(others) == len(have):
        pairs = ", ".join(f"{a}='{b}'" for a, b in _renamed(others, missing))
        raise DiagnosticError(
            Diagnostic("V40", told, trace.missed[missing[0]], help=f"call them so: x.rename({pairs}).")
        )
    warn(f"{told} Nothing varies along {' and '.join(missing)}, then.", trace.missed[missing[0]])


def _renamed(have: Sequence[str], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """Which dims of arrays those of an operator may be: of like names, and otherwise the last ones, in order.

    >>> _renamed(["time", "latitude", "longitude"], ["lon", "lat"]), _renamed(["time", "y", "x"], ["I", "J"])
    ([('longitude', 'lon'), ('latitude', 'lat')], [('y', 'I'), ('x', 'J')])
    """
    alike = {
        b: next((a for a in have if a.lower().startswith(b.lower()) or b.lower().startswith(a.lower())), None)
        for b in wanted
    }
    left = [a for a in have if a not in alike.values()]
    rest = [b for b in wanted if alike[b] is None]
    others = dict(zip(rest, left[-len(rest) :] if rest else [], strict=False))
    return [(a, b) for b in wanted if (a := alike[b] or others.get(b)) is not None]


def fail(code: str, message: str, help: str = "") -> NoReturn:
    """Raise a diagnostic at the user's line."""
    raise DiagnosticError(Diagnostic(code, message, here(), help=help))
