"""The rules of single operations: by name, from an operation to codes and sentences of what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tensorir.tile.nodes import Operation
from tensorir.tile.verify.rules import arithmetic, control, folds, memory, modes, products, shapes, views

__all__ = ["RULES"]

RULES: dict[str, Callable[[Operation], Iterable[tuple[str, str]]]] = {
    **modes.RULES,
    **arithmetic.RULES,
    **shapes.RULES,
    **products.RULES,
    **folds.RULES,
    **memory.RULES,
    **views.RULES,
    **control.RULES,
}
