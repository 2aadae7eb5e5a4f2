"""What is known of neighbour tables before a distributed step: their numbers, and where they hold -1."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowering.compiled import Compiled
from lowering.executable import Executable
from tensorir.analysis.absence import SkipValues, analyse_absence
from tensorir.binding.calls import tables_of
from tensorir.ir.nodes import Fencil
from tensorir.ir.types import Dims

__all__ = ["NO_TABLES", "Tables", "digest", "known_tables"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a program that are known, by name."""

    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])
    holes: Mapping[str, SkipValues] = field(default_factory=dict[str, SkipValues])

    @classmethod
    def of(cls, program: Fencil, arrays: Mapping[str, tuple[Any, ...]], holes: Mapping[str, SkipValues]) -> Tables:
        """Those whose numbers somebody looked at."""
        known = [n for n in tables_of(program) if n in holes]
        return cls({n: np.asarray(arrays[n][0]) for n in known}, {n: holes[n] for n in known})

    def key(self, bound: Mapping[str, Any]) -> tuple[Any, ...]:
        """What tells these tables from others; bound ones never change, and are told by themselves."""
        return tuple((n, id(bound[n]) if n in bound else digest(a)) for n, a in self.arrays.items())


NO_TABLES = Tables()


def digest(array: Array) -> str:
    """What tells an array from others."""
    told = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(told + np.ascontiguousarray(array).tobytes()).hexdigest()


def known_tables(
    compiled: Compiled, read: Mapping[str, Dims], holes: Mapping[str, SkipValues], full: frozenset[str]
) -> Executable:
    """What a local program runs, with what is known of its tables; of its results `read` has what counts.

    That no output is absent was seen in the whole.
    """
    program, engine = compiled.engine.program.program, compiled.engine
    assert isinstance(program, Fencil)
    fencil = engine.stages(program, holes or None).result
    return Executable(fencil, {}, analyse_absence(fencil, holes, full), engine.options, read=read)
