"""What XLA compiled, kept in a folder for processes to come."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from tensorir.binding.arrays import refuse

__all__ = ["keep_compilations", "kept_in"]

_SWITCHES: Any = jax.config
"""JAX declares its switches at run time."""


def keep_compilations(folder: str | os.PathLike[str] | None) -> Path | None:
    """Keep what XLA compiles in a folder, None for none; returns the folder of before."""
    before = kept_in()
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            told = f"'{folder}' cannot hold compilations: {problem.strerror}."
            raise refuse("A30", told, "name a folder.") from None
        # JAX leaves out what compiles within a second, and most programs do
        _SWITCHES.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        _SWITCHES.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # JAX looks once whether there is a folder
    _SWITCHES.update("jax_compilation_cache_dir", None if folder is None else str(folder))
    return before


def kept_in() -> Path | None:
    """The folder in which what XLA compiles is kept."""
    folder = _SWITCHES.jax_compilation_cache_dir
    return None if folder is None else Path(folder)
