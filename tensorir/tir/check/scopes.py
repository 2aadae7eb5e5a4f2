"""Which names are known where: variables and buffers, bound once, known until their scope ends."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tensorir.tir import nodes as n
from tensorir.tir.ranges import Bounds

__all__ = ["Scopes"]


@dataclass(slots=True)
class Scopes:
    """The names known here, and all names that were ever bound."""

    variables: set[n.Var] = field(default_factory=set[n.Var])
    buffers: set[n.Buffer] = field(default_factory=set[n.Buffer])
    ever: set[n.Node] = field(default_factory=set[n.Node])
    bounds: dict[n.Var, Bounds] = field(default_factory=dict[n.Var, Bounds])
    _trail: list[n.Node] = field(default_factory=list[n.Node])

    @contextmanager
    def nested(self) -> Generator[None, None, None]:
        """What is bound inside is forgotten behind it."""
        start = len(self._trail)
        try:
            yield
        finally:
            for name in self._trail[start:]:
                self.variables.discard(name)  # type: ignore[arg-type]
                self.buffers.discard(name)  # type: ignore[arg-type]
            del self._trail[start:]

    def bind(self, var: n.Var) -> bool:
        """Make a variable known; False if it has been bound before."""
        fresh = var not in self.ever
        self.ever.add(var)
        if var not in self.variables:
            self.variables.add(var)
            self._trail.append(var)
        return fresh

    def declare(self, buffer: n.Buffer) -> bool:
        """Make a buffer known, with its pointer."""
        fresh = buffer not in self.ever
        self.ever.add(buffer)
        if buffer not in self.buffers:
            self.buffers.add(buffer)
            self._trail.append(buffer)
        self.bind(buffer.data)
        return fresh
