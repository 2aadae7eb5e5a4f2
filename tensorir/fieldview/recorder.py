"""What a program records while it is traced: the closures of the operators that it calls with `out=`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tensorir.binding.arrays import refuse
from tensorir.fieldview.naming import named
from tensorir.fieldview.trace import current, fail
from tensorir.fieldview.traced import Traced, wrap
from tensorir.ir import build
from tensorir.ir.nodes import Closure, Var
from tensorir.ir.types import Dims, Interval
from tensorir.runtime.locations import here

__all__ = ["Recorder", "domain_of", "recorded", "recording"]


@dataclass(slots=True)
class Recorder:
    """The closures of a program while it is traced."""

    closures: list[Closure] = field(default_factory=list[Closure])

    def record(self, result: Any, out: Any, domain: Any) -> None:
        """One call with `out=`."""
        if not isinstance(out, Traced) or not isinstance(out.expr, Var):
            fail("V25", "out is not a field of this program.", "write into a parameter of the program.")
        trace = current()
        (expr,) = named([wrap(result).expr], trace.assigned)
        value = Traced(expr)
        region: Dims | None = None
        if domain is not None:
            wanted = domain_of(domain)
            unknown = [n for n in wanted if n not in out.type.dims]
            if unknown:
                fail("V22", f"the domain names {', '.join(unknown)}, and '{out.expr.name}' has {out.type.dims}.")
            region = out.type.dims.replaced(wanted)
        self.closures.append(build.closure(out.expr, value.expr, region, here()))


_RECORDING: ContextVar[Recorder | None] = ContextVar("recording", default=None)


def recording() -> Recorder | None:
    """The program that is being traced, if any."""
    return _RECORDING.get()


@contextmanager
def recorded() -> Generator[Recorder]:
    """The closures that are recorded within."""
    recorder = Recorder()
    token = _RECORDING.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDING.reset(token)


def domain_of(domain: Any) -> Dims:
    """The intervals that a caller wrote; raises V22 for what is none."""
    found: dict[str, Interval] = {}
    try:
        for dim, i in dict(domain).items():
            start, stop = (i.start, i.stop) if isinstance(i, Interval) else i
            found[str(dim)] = Interval(int(start), int(stop))
    except (TypeError, ValueError):
        raise refuse("V22", "a domain is intervals by dim.", "write domain={I: (1, 9), J: (0, 5)}.") from None
    for dim, i in found.items():
        if i.stop < i.start:
            raise refuse("V22", f"the domain {dim}{i} stops before it starts.", "an interval is (start, stop).")
    return Dims.of(found)
