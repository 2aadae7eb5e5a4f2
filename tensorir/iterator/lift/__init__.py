"""The lift of iterator IR: a program, the types of its arguments and its offsets as a pure tensor program.

The program is evaluated once with tensors in the place of fields (`evaluate`), which leaves a graph of what it
computes (`graph`); what is stored tells which part of each tensor is needed (`needs`); on these intervals the graph is
written in the tensor IR (`emit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.iterator.imports import Imported
from tensorir.iterator.lift.arguments import leaf_tree, offsets
from tensorir.iterator.lift.program import LiftedProgram, options_of, specialise
from tensorir.iterator.nodes import Program
from tensorir.runtime.errors import refuse

__all__ = ["lift"]


def lift(
    program: Any, *, args: Sequence[Any] | Mapping[str, Any] | None = None, offset_provider: Any = None,
    column: str | None = None, **options: Any,
) -> LiftedProgram:  # fmt: skip
    """A program of iterator IR as a pure tensor program, for arguments or their types.

    `args` are tensor types, fields or numbers, one per parameter in order or by name; `offset_provider` has the
    dimensions and neighbour tables of the offsets; `column` names the dim of scans where no domain tells it.
    """
    known: Mapping[str, Any] = {}
    if isinstance(program, Imported):
        known = program.field_offsets
        args = program.args if args is None else args
        offset_provider = program.offset_provider if offset_provider is None else offset_provider
        column = column or program.column
        program = program.program
    assert isinstance(program, Program)
    names = [p.name for p in program.params]
    arguments = dict(args) if isinstance(args, Mapping) else dict(zip(names, args or (), strict=False))
    missing = [n for n in names if n not in arguments]
    if missing:
        message = f"the type of '{missing[0]}' is not given."
        raise refuse("TI11", message, "pass args=(...), a tensor type, a field or a number for each parameter.")
    trees = {p.name: leaf_tree(p.name, arguments[p.name], p.type) for p in program.params}
    special = specialise(program, trees, offsets(offset_provider, known), column, options_of(options))
    return LiftedProgram(program.name, special, tuple(trees.values()))
