"""Settings of the process: what it remembers, the memory it keeps, and what is asked of XLA's compiler.

>>> keep_compilations(None) is None                # nothing is kept in a folder where nobody says so
True
>>> compiler_options(lambda x: x + 1, 1.0)         # the options that a function's programs ask for
{}
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorir.backends import backend
from tensorir.runtime.memory import CACHES, KEPT_MEMORY

__all__ = ["caches", "compiler_options", "keep_compilations", "kept_memory"]

caches = CACHES
"""All caches of the process by name: they can be listed, sized and emptied."""
kept_memory = KEPT_MEMORY
"""How much freed memory the process keeps for arrays to come; `ti.config.kept_memory.limit = 0` gives it back."""


def compiler_options(function: Callable[..., Any], /, *arguments: Any) -> dict[str, str]:
    """XLA options that the programs of a function ask for: `jax.jit(function, compiler_options=...)` grants them.

    The function is traced on its arguments, arrays or what stands for them, and nothing is computed. Programs that keep
    a temporary ask that XLA does not compute it again in each fusion that reads it; called by themselves, and by
    `ti.iterate`, `ti.distribute` and recorded steps, they are granted it, and inside of somebody's `jit` only this way.
    A `jit` in the function that was traced before is not asked again.
    """
    return backend("jax").compiler_options(function, *arguments)


def keep_compilations(folder: str | os.PathLike[str] | None) -> Path | None:
    """Keep what XLA compiles in a folder, from which later processes take it; None keeps nothing any more.

    The folder is made where it is missing; what it holds is told apart by the program, the versions and the machine.
    It is JAX's own cache of compilations, so that other programs of JAX in this process are kept, too. Returns the
    folder of before. Raises A30 for a folder that cannot be made.

    >>> import tempfile
    >>> before = keep_compilations(tempfile.mkdtemp())
    >>> _ = keep_compilations(before)
    """
    return backend("jax").keep_compilations(folder)
