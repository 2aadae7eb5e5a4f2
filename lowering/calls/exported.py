"""Exported programs read back: a file of `c.export().serialize()` as a function of named arrays."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from tensorir.runtime.errors import did_you_mean, refuse


class Loaded:
    """An exported program: called with arrays by the names of its parameters, it gives its outputs by name.

    Arrays have the shapes and element types that the program was exported for; one that was compiled for all sizes up
    to a bound has names for extents. A tuple is given as a tuple of arrays.
    The sources of its diagnostics stayed where it was exported: a check that fails raises R05.
    """

    def __init__(self, exported: jax.export.Exported) -> None:
        """The function of an artefact; its parameters are the keys of the dict that it takes."""
        self.exported: jax.export.Exported = exported
        (shapes,), _ = jax.tree_util.tree_unflatten(exported.in_tree, exported.in_avals)
        self.parameters: dict[str, tuple[Any, ...]] = shapes
        """The shapes and element types of the arrays of each parameter."""

    def __call__(self, **arrays: Any) -> dict[str, Any]:
        """The outputs for arrays by the names of parameters.

        Raises N01 for an unknown name, A11 for a missing array, A03 for another shape or type than exported, R05 if a
        check fails.
        """
        for name in arrays.keys() - self.parameters.keys():
            raise refuse("N01", f"the program has no parameter '{name}'.", did_you_mean(name, list(self.parameters)))
        arguments: dict[str, tuple[Any, ...]] = {}
        for name, shapes in self.parameters.items():
            if name not in arrays:
                raise refuse("A11", f"'{name}' is not given: it is read.", f"pass {name}=.")
            value = arrays[name]
            arguments[name] = tuple(value) if isinstance(value, tuple) else (value,)
            if len(arguments[name]) != len(shapes):
                raise refuse("A03", f"'{name}' has {len(arguments[name])} arrays, and {len(shapes)} were exported.")
            for leaf, shape in zip(arguments[name], shapes, strict=True):
                if not _fits(np.shape(leaf), shape.shape) or np.result_type(leaf) != shape.dtype:
                    message = f"'{name}' is {np.result_type(leaf)}{list(np.shape(leaf))}"
                    raise refuse("A03", f"{message}, and {shape.dtype}{list(shape.shape)} was exported.", "convert it.")
        results: Any = self._called(arguments)
        outputs, failures = results if isinstance(results, tuple) else (results, [])
        if any(int(np.asarray(failure)[0]) >= 0 for failure in failures):
            raise refuse("R05", "a check of the exported program failed.", "run it where its source is, for the place.")
        return {name: leaves if len(leaves) > 1 else leaves[0] for name, leaves in outputs.items()}

    def _called(self, arguments: dict[str, tuple[Any, ...]]) -> Any:
        """The results of the exported program; raises A03 if JAX finds that sizes do not agree or exceed their
        bounds.
        """
        with jax.enable_x64(True):
            try:
                return self.exported.call(arguments)
            except ValueError as problem:
                if all(isinstance(n, int) for some in self.parameters.values() for s in some for n in s.shape):
                    raise
                shapes = ", ".join(f"{n} {list(np.shape(a))}" for n, leaves in arguments.items() for a in leaves)
                hint = "sizes that were exported are the same in all arrays, and have bounds."
                raise refuse("A03", f"the program was exported for no such arrays: {shapes}.", hint) from problem

    def __repr__(self) -> str:
        """The parameters with element types and shapes."""
        names = ", ".join(
            f"{n}: {', '.join(f'{s.dtype}{list(s.shape)}' for s in shapes)}" for n, shapes in self.parameters.items()
        )
        return f"<exported program of {names}>"


def _fits(shape: tuple[int, ...], exported: tuple[Any, ...]) -> bool:
    """True if a shape agrees with an exported one, in which names may be any extent."""
    pairs = zip(shape, exported, strict=False)
    return len(shape) == len(exported) and all(not isinstance(named, int) or n == named for n, named in pairs)


def load(artefact: bytes | bytearray | str | os.PathLike[str]) -> Loaded:
    """A program that `c.export(...).serialize()` wrote, from its bytes or from a file.

    It takes arrays by the names of parameters, of the shapes and element types that it was exported for, with axes in
    the order of their dims, and gives a dict of outputs, of JAX's arrays. Raises FileNotFoundError for a file that is
    not there, and A34 for bytes that are no exported program.

    Reading needs flatbuffers (`pip install tensorir[export]`).

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← 2.0 × x; }")
    >>> g = load(ti.compile(f).export().serialize())
    >>> g
    <exported program of x: float64[3]>
    >>> g(x=np.arange(3.0))["y"].tolist()
    [0.0, 2.0, 4.0]
    """
    data = artefact if isinstance(artefact, (bytes, bytearray)) else Path(artefact).read_bytes()
    try:
        exported = jax.export.deserialize(bytearray(data))
    except (ValueError, IndexError, TypeError, AssertionError, struct.error) as problem:
        raise refuse("A34", "these bytes are no exported program.", "write c.export().serialize().") from problem
    return Loaded(exported)


# What XLA compiled, kept in a folder for processes to come.

_SWITCHES: Any = jax.config
"""JAX declares its switches at run time."""


def keep_compilations(folder: str | os.PathLike[str] | None) -> Path | None:
    """Set the folder in which JAX keeps what XLA compiles (None: none); returns the previous folder. Raises A30."""
    before = kept_in()
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise refuse("A30", f"'{folder}' cannot hold compilations: {problem.strerror}.", "name a folder.") from None
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
